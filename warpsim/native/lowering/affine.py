"""Arithmetic on values that are a first lane's and strides: indices and addresses, which so never become vectors.

A value that would wrap round inside a warp where it is widened has no strides any more. That is not looked for: the region
is guarded against it (`IRBuilder.speculate`), and compiled again without strides where it happens.
"""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.graph.nodes import LANES, Node
from warpsim.native.lowering.operations import cast, operate
from warpsim.native.lowering.values import IRBuilder, Val, element, width
from warpsim.records import frozen

SPAN = LANES.bit_length() - 1
"""Bits of a lane's number."""


def linear(code: IRBuilder, node: Node, arguments: list[Val]) -> Val | None:
    """What an operation gives where that is a scalar with known bits, or strides again; else None."""
    if node.dtype.kind not in "iu" or any(a.type in ("half", "float", "double", "i1") for a in arguments[-2:]):
        return None
    if not all(a.uniform or a.strides is not None for a in arguments):
        return None
    if all(a.uniform for a in arguments):
        return _scalar(code, node, arguments)
    if node.op == "cast":
        return _cast(code, arguments[0], node.args[0].dtype, node.dtype)
    if node.op == "bits":
        return arguments[0] if arguments[0].type == element(node.dtype) else None
    if node.op in ("add", "subtract"):
        return _sum(code, node.op, *arguments)
    if node.op == "multiply":
        return _product(code, *arguments)
    if node.op == "left_shift":
        a, by = arguments
        if by.known is None or by.known >= width(a.type):
            return None
        return _product(code, a, code.number(1 << by.known, a.type))
    if node.op == "right_shift":
        return _shifted(code, node, *arguments)
    if node.op == "bitwise_and":
        return _masked(code, *arguments)
    if node.op == "bitwise_or":
        return _either(code, *arguments)
    if node.op == "where" and arguments[0].uniform:
        return _chosen(code, *arguments)
    return None


def strides_of(code: IRBuilder, value: Val) -> tuple[Val, Val]:
    """The strides of a value; a scalar has none."""
    zero = code.number(0, value.type)
    return (zero, zero) if value.strides is None else value.strides


def first_of(value: Val) -> Val:
    """The first lane's value."""
    return Val(value.type, value.text, uniform=True, known=value.known, zeros=value.zeros)


def _with(first: Val, strides: tuple[Val, Val], zeros: int = 0, top: int = 64) -> Val:
    if strides[0].known == 0 and strides[1].known == 0:
        return attrs.evolve(first, zeros=zeros, top=top)
    return Val(first.type, first.text, uniform=False, strides=strides, zeros=zeros, top=top)


def zeros_of(value: Val) -> int:
    """How many of the lowest bits are 0."""
    if value.known is not None:
        return (value.known & -value.known).bit_length() - 1 if value.known else 64
    return value.zeros


def top_of(value: Val) -> int:
    """Into how many bits every lane fits."""
    if value.known is not None:
        return value.known.bit_length()
    return min(value.top, width(value.type))


def _scalar(code: IRBuilder, node: Node, arguments: list[Val]) -> Val | None:
    """Scalars: what is known of their bits."""
    if node.op in ("left_shift", "multiply", "bitwise_and", "add", "subtract") and len(arguments) == 2:
        a, b = arguments
        n = width(a.type)
        if a.known is not None and b.known is not None and node.op != "left_shift":
            value = {"multiply": a.known * b.known, "bitwise_and": a.known & b.known}.get(node.op)
            if value is None:
                value = a.known + b.known if node.op == "add" else a.known - b.known
            return code.number(value & ((1 << n) - 1), a.type)
        result = operate(code, node.op, arguments, node.args[0].dtype)
        if node.op == "left_shift":
            zeros = zeros_of(a) + b.known if b.known is not None else 0
        elif node.op == "multiply":
            zeros = zeros_of(a) + zeros_of(b)
        else:
            zeros = max(zeros_of(a), zeros_of(b)) if node.op == "bitwise_and" else min(zeros_of(a), zeros_of(b))
        top = min(top_of(a), top_of(b)) if node.op == "bitwise_and" else 64
        return attrs.evolve(result, zeros=min(zeros, n), top=top)
    if node.op == "cast" and node.args[0].dtype.kind in "iu":
        a = arguments[0]
        if a.known is not None:
            n = width(a.type)
            value = a.known - (1 << n) if node.args[0].dtype.kind == "i" and a.known >> (n - 1) else a.known
            return code.number(value, element(node.dtype))
        made = cast(code, a, node.args[0].dtype, node.dtype)
        return attrs.evolve(made, zeros=a.zeros, top=top_of(a) if top_of(a) < width(a.type) else 64)
    return None


def _sum(code: IRBuilder, name: str, a: Val, b: Val) -> Val:
    how = "add" if name == "add" else "sub"
    first = add(code, how, first_of(a), first_of(b))
    pairs = zip(strides_of(code, a), strides_of(code, b), strict=True)
    x, y = (add(code, how, s, t) for s, t in pairs)
    return _with(first, (x, y), min(zeros_of(first_of(a)), zeros_of(first_of(b))))


def add(code: IRBuilder, how: str, a: Val, b: Val) -> Val:
    """Scalars, folded where they are known."""
    if a.known is not None and b.known is not None:
        n = width(a.type)
        return code.number((a.known + b.known if how == "add" else a.known - b.known) & ((1 << n) - 1), a.type)
    if b.known == 0:
        return a
    if a.known == 0 and how == "add":
        return b
    return code.op(how, a, b)


def times(code: IRBuilder, a: Val, b: Val) -> Val:
    """The same of products."""
    for one, other in ((a, b), (b, a)):
        if one.known == 0:
            return one
        if one.known == 1:
            return other
    if a.known is not None and b.known is not None:
        return code.number(a.known * b.known & ((1 << width(a.type)) - 1), a.type)
    return code.op("mul", a, b)


def _product(code: IRBuilder, a: Val, b: Val) -> Val | None:
    if b.strides is not None:
        a, b = b, a
    if b.strides is not None:
        return None
    first = times(code, first_of(a), b)
    x, y = (times(code, s, b) for s in strides_of(code, a))
    top = top_of(a) + top_of(b) if b.known is not None else 64
    return _with(
        first, (x, y), min(zeros_of(first_of(a)) + zeros_of(b), 64), min(top, 64) if top <= width(a.type) else 64
    )


def _cast(code: IRBuilder, value: Val, source: np.dtype, target: np.dtype) -> Val | None:
    """Between integers: no other types have strides."""
    old, new, type = width(value.type), width(element(target)), element(target)
    x, y = strides_of(code, value)
    if new == old:
        return value
    if new < old:
        narrow = [_narrow(code, v, type) for v in (first_of(value), x, y)]
        return _with(narrow[0], (narrow[1], narrow[2]), min(value.zeros, new))
    signed = source.kind == "i"
    if value.top >= old:
        if code.speculate is None:
            return None
        _guard_wrap(code, value, x, y, old, signed=signed)
    how = "sext" if signed else "zext"
    first = code.convert(how, first_of(value), type)
    return _with(first, (_wide(code, x, type), _wide(code, y, type)), value.zeros, value.top if value.top < old else 64)


def _guard_wrap(code: IRBuilder, value: Val, x: Val, y: Val, bits: int, *, signed: bool) -> None:
    """Go on only where no lane of the warp wraps round."""
    assert code.speculate is not None
    type = "i128" if bits == 64 else "i64"
    first = code.convert("sext" if signed else "zext", first_of(value), type)
    low = high = first
    for stride, last in ((x, code.row - 1), (y, LANES // code.row - 1)):
        if stride.known == 0 or last == 0:
            continue
        reach = times(code, _wide(code, stride, type), code.number(last, type))
        if reach.known is not None:
            if reach.known >> (width(type) - 1):
                low = code.op("add", low, reach)
            else:
                high = code.op("add", high, reach)
            continue
        zero = code.number(0, type)
        low = code.op("add", low, code.intrinsic("smin", reach, zero))
        high = code.op("add", high, code.intrinsic("smax", reach, zero))
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    good = "true"
    if low is not first:
        good = code.make(f"icmp sge {type} {low.text}, {least}")
    if high is not first:
        other = code.make(f"icmp sle {type} {high.text}, {most}")
        good = other if good == "true" else code.make(f"and i1 {good}, {other}")
    if good != "true":
        code.speculate(good)


def _narrow(code: IRBuilder, value: Val, type: str) -> Val:
    if value.known is not None:
        return code.number(value.known, type)
    return code.convert("trunc", value, type)


def _wide(code: IRBuilder, stride: Val, type: str) -> Val:
    """Strides have a sign."""
    if stride.known is not None:
        n = width(stride.type)
        return code.number(stride.known - (1 << n) if stride.known >> (n - 1) else stride.known, type)
    return code.convert("sext", stride, type)


def _counts_lanes(code: IRBuilder, value: Val) -> bool:
    """Whether the lowest bits of a value are the number of the lane."""
    return (
        value.strides is not None
        and code.row == LANES
        and value.strides[0].known == 1
        and zeros_of(first_of(value)) >= SPAN
    )


def _shifted(code: IRBuilder, node: Node, a: Val, by: Val) -> Val | None:
    if by.known is None or not SPAN <= by.known < width(a.type) or not _counts_lanes(code, a):
        return None
    how = "ashr" if node.args[0].dtype.kind == "i" else "lshr"
    out = code.op(how, first_of(a), by)
    top = max(top_of(a) - by.known, 0) if top_of(a) < width(a.type) else 64
    return attrs.evolve(out, zeros=max(a.zeros - by.known, 0), top=top)


def _masked(code: IRBuilder, a: Val, b: Val) -> Val | None:
    if a.known is not None:
        a, b = b, a
    if b.known is None or not _counts_lanes(code, a):
        return None
    low = b.known & (LANES - 1)
    if low not in (0, LANES - 1):
        return None
    if b.known == LANES - 1:
        first = code.number(0, a.type)
    else:
        first = code.op("and", first_of(a), code.number(b.known & ~(LANES - 1), a.type))
    if not low:
        return attrs.evolve(first, zeros=a.zeros, top=b.known.bit_length())
    assert a.strides is not None
    return _with(first, a.strides, 64 if first.known == 0 else a.zeros, b.known.bit_length())


def _either(code: IRBuilder, a: Val, b: Val) -> Val | None:
    """Or, where the two have no bits in common: a sum."""
    if a.strides is not None:
        a, b = b, a
    if a.strides is not None or zeros_of(a) < top_of(b) or top_of(b) >= width(b.type):
        return None
    return _sum(code, "add", a, b)


def _chosen(code: IRBuilder, condition: Val, yes: Val, no: Val) -> Val:
    first = code.select(condition, first_of(yes), first_of(no))
    pairs = list(zip(strides_of(code, yes), strides_of(code, no), strict=True))
    x, y = (s if s.known is not None and s.known == t.known else code.select(condition, s, t) for s, t in pairs)
    return _with(attrs.evolve(first, zeros=0, top=64), (x, y))


_LESS = {"less": (False, False), "greater_equal": (False, True), "less_equal": (True, False), "greater": (True, True)}
"""Each as ``a < b``: whether with ``b + 1``, and whether what does not hold is meant."""
_MIRRORED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
ALL = (1 << LANES) - 1


@frozen
class _Run:
    """How the lanes of a warp count: ``count`` steps, each of ``lanes`` lanes; all of it ``times`` times."""

    count: int
    lanes: int
    times: int

    @property
    def pattern(self) -> int:
        """Repeats the first lanes' bits for all."""
        return sum(1 << (LANES // self.times * k) for k in range(self.times))


def compared(code: IRBuilder, node: Node, arguments: list[Val]) -> Val | None:
    """What a comparison gives where one side counts lanes and the other is a scalar; else None."""
    name = node.op
    if name not in _LESS and name not in ("equal", "not_equal"):
        return None
    a, b = arguments
    if b.strides is not None:
        a, b, name = b, a, _MIRRORED.get(name, name)
    if a.strides is None or not b.uniform or width(a.type) > 32:
        return None
    run = _run_of(code, a.strides)
    if run is None:
        return None
    if name in _LESS:
        if top_of(a) >= width(a.type):
            return None  # it may wrap round
        over, turned = _LESS[name]
        bits = _below(code, a, b, run, signed=node.args[0].dtype.kind == "i", over=over)
    else:
        bits, turned = _at(code, a, b, run), name == "not_equal"
    if run.times > 1:
        bits = code.op("mul", bits, code.number(run.pattern, "i64"))
    if turned:
        bits = code.op("xor", bits, code.number(ALL, "i64"))
    return code.lanes(code.convert("trunc", bits, "i32").text)


def _run_of(code: IRBuilder, strides: tuple[Val, Val]) -> _Run | None:
    x, y = strides[0].known, strides[1].known
    rows = LANES // code.row
    if x == 1 and (rows == 1 or y == code.row):
        return _Run(LANES, 1, 1)
    if x == 1 and y == 0:
        return _Run(code.row, 1, rows)
    return _Run(rows, code.row, 1) if x == 0 and y == 1 else None


def _below(code: IRBuilder, a: Val, b: Val, run: _Run, *, signed: bool, over: bool) -> Val:
    """The lanes whose value is less than ``b`` (``over``: not greater)."""
    first = code.convert("zext", first_of(a), "i64")
    bound = code.convert("sext" if signed else "zext", b, "i64")
    steps = code.op("sub", bound, first)
    if over:
        steps = code.op("add", steps, code.number(1, "i64"))
    some = code.intrinsic("smax", steps, code.number(0, "i64"))
    count = code.intrinsic("smin", some, code.number(run.count, "i64"))
    if run.lanes > 1:
        count = code.op("mul", count, code.number(run.lanes, "i64"))
    return code.op("sub", code.op("shl", code.number(1, "i64"), count), code.number(1, "i64"))


def _at(code: IRBuilder, a: Val, b: Val, run: _Run) -> Val:
    """The lanes of the step at which the value is ``b``."""
    step = code.convert("zext", code.op("sub", b, first_of(a)), "i64")
    there = code.op("icmp ult", step, code.number(run.count, "i64"), type="i1")
    place = code.select(there, step, code.number(0, "i64"))
    if run.lanes > 1:
        place = code.op("mul", place, code.number(run.lanes, "i64"))
    bits = code.op("shl", code.number((1 << run.lanes) - 1, "i64"), place)
    return code.select(there, bits, code.number(0, "i64"))
