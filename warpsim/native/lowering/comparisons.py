"""Comparisons of values that are a first lane's and strides with a scalar: bits of the lanes, from scalars alone.

Where lanes count up by one and do not wrap round, those below a bound are the first so many of them."""

from __future__ import annotations

import attrs

from warpsim.graph.nodes import LANES, Node
from warpsim.native.lowering.affine import first_of, top_of
from warpsim.native.lowering.values import Code, Val, width

_LESS = {"less": (False, False), "greater_equal": (False, True), "less_equal": (True, False), "greater": (True, True)}
"""Each as ``a < b``: whether with ``b + 1``, and whether what does not hold is meant."""
_MIRRORED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
ALL = (1 << LANES) - 1


@attrs.frozen
class _Run:
    """How the lanes of a warp count: ``count`` steps, each of ``lanes`` lanes; all of it ``times`` times."""

    count: int
    lanes: int
    times: int

    @property
    def pattern(self) -> int:
        """Repeats the first lanes' bits for all."""
        return sum(1 << (LANES // self.times * k) for k in range(self.times))


def compared(code: Code, node: Node, arguments: list[Val]) -> Val | None:
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


def _run_of(code: Code, strides: tuple[Val, Val]) -> _Run | None:
    x, y = strides[0].known, strides[1].known
    rows = LANES // code.row
    if x == 1 and (rows == 1 or y == code.row):
        return _Run(LANES, 1, 1)
    if x == 1 and y == 0:
        return _Run(code.row, 1, rows)
    return _Run(rows, code.row, 1) if x == 0 and y == 1 else None


def _below(code: Code, a: Val, b: Val, run: _Run, *, signed: bool, over: bool) -> Val:
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


def _at(code: Code, a: Val, b: Val, run: _Run) -> Val:
    """The lanes of the step at which the value is ``b``."""
    step = code.convert("zext", code.op("sub", b, first_of(a)), "i64")
    there = code.op("icmp ult", step, code.number(run.count, "i64"), type="i1")
    place = code.select(there, step, code.number(0, "i64"))
    if run.lanes > 1:
        place = code.op("mul", place, code.number(run.lanes, "i64"))
    bits = code.op("shl", code.number((1 << run.lanes) - 1, "i64"), place)
    return code.select(there, bits, code.number(0, "i64"))
