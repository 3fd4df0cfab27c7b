"""Graphs of lanes as LLVM: every value is a vector of the 32 lanes of a warp, or a scalar where all lanes share it.

Vectors are written as such, never left to LLVM's vectoriser. What LLVM leaves undefined and NumPy does not (shifts by the
width, division by zero, conversions out of range) is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from warpsim.native.trace import LANES, Node

BF16 = np.dtype(ml_dtypes.bfloat16)
_FLOATS = {"half": (16, 0x7C00), "float": (32, 0x7F800000), "double": (64, 0x7FF0000000000000)}


class Unlowerable(Exception):
    """A graph holds an operation that has no machine code here."""


@attrs.frozen
class Val:
    """A value in the code: LLVM type of an element, its text, whether it is a scalar that all lanes of the group share, and
    its bits where they are known."""

    type: str
    text: str
    uniform: bool
    known: int | None = None


def element(dtype: np.dtype[Any]) -> str:
    """The LLVM type of an element."""
    if dtype.kind == "b":
        return "i1"
    if dtype == BF16:
        return "i16"
    if dtype.kind in "iu" and dtype.itemsize <= 8:
        return f"i{dtype.itemsize * 8}"
    if dtype.kind == "f" and dtype.itemsize in (2, 4, 8):
        return {2: "half", 4: "float", 8: "double"}[dtype.itemsize]
    raise Unlowerable(str(dtype))


def width(type: str) -> int:
    """Bits of an element."""
    return _FLOATS[type][0] if type in _FLOATS else int(type[1:])


def memory(type: str) -> str:
    """The type that an element has in memory: predicates are bytes."""
    return "i8" if type == "i1" else type


class Code:
    """The text of one function, with what it declares."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.declared: dict[str, str] = {}
        self.tables: list[Any] = []
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        """A name that nothing else has."""
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Where a block begins."""
        self.lines.append(f"{name}:")

    def make(self, text: str) -> str:
        """An instruction with a result."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def slot(self, type: str) -> str:
        """Room on the stack."""
        name = f"%{self.fresh('s')}"
        self.entry.append(f"  {name} = alloca {type}, align 64")
        return name

    def declare(self, name: str, result: str, arguments: str) -> str:
        """A function from elsewhere."""
        self.declared[name] = f"declare {result} @{name}({arguments})"
        return name

    # ---- values -----------------------------------------------------------------------------------

    def typed(self, type: str, uniform: bool) -> str:
        """The type of a scalar or of a vector."""
        return type if uniform else f"<{LANES} x {type}>"

    def of(self, value: Val) -> str:
        """A value with its type in front."""
        return f"{self.typed(value.type, value.uniform)} {value.text}"

    def number(self, bits: int, type: str) -> Val:
        """A constant by its bits."""
        n = width(type)
        bits &= (1 << n) - 1
        if type in _FLOATS:
            return Val(type, self.make(f"bitcast i{n} {bits} to {type}"), True, bits)
        if type == "i1":
            return Val(type, "true" if bits else "false", True, bits)
        return Val(type, str(bits - (1 << n) if bits >> (n - 1) else bits), True, bits)

    def splat(self, value: Val) -> Val:
        """A scalar in every lane."""
        if not value.uniform:
            return value
        if not value.text.startswith("%"):
            return Val(value.type, f"splat ({value.type} {value.text})", False, value.known)
        one = self.make(f"insertelement <{LANES} x {value.type}> poison, {value.type} {value.text}, i32 0")
        vector = f"<{LANES} x {value.type}>"
        text = self.make(f"shufflevector {vector} {one}, {vector} poison, <{LANES} x i32> zeroinitializer")
        return Val(value.type, text, False, value.known)

    def alike(self, values: Sequence[Val]) -> list[Val]:
        """All as scalars, or all as vectors."""
        return list(values) if all(v.uniform for v in values) else [self.splat(v) for v in values]

    def op(self, text: str, *values: Val, type: str | None = None) -> Val:
        """``text`` of values, with ``T`` for their type: ``add T`` of two, ``icmp eq T`` to ``i1``."""
        values = tuple(self.alike(values))
        first = values[0]
        whole = self.typed(first.type, first.uniform)
        body = f"{text} {whole} " + ", ".join(v.text for v in values)
        return Val(type or first.type, self.make(body), first.uniform)

    def select(self, condition: Val, yes: Val, no: Val) -> Val:
        """A choice lane by lane."""
        if condition.known is not None:
            return yes if condition.known else no
        condition, yes, no = self.alike((condition, yes, no))
        return Val(yes.type, self.make(f"select {self.of(condition)}, {self.of(yes)}, {self.of(no)}"), yes.uniform)

    def convert(self, how: str, value: Val, type: str) -> Val:
        """zext, trunc, bitcast and the like."""
        if how == "bitcast" and value.type == type:
            return value
        target = self.typed(type, value.uniform)
        known = value.known if how == "bitcast" else None
        return Val(type, self.make(f"{how} {self.of(value)} to {target}"), value.uniform, known)

    def intrinsic(self, name: str, *values: Val, type: str | None = None, more: str = "") -> Val:
        """``llvm.name`` of values of one type."""
        values = tuple(self.alike(values))
        first = values[0]
        type = type or first.type
        short = {"float": "f32", "double": "f64", "half": "f16"}
        suffix = short.get(first.type, first.type) if first.uniform else f"v{LANES}{short.get(first.type, first.type)}"
        if ".sat" in name:
            suffix = (type if first.uniform else f"v{LANES}{type}") + "." + suffix
        whole, result = self.typed(first.type, first.uniform), self.typed(type, first.uniform)
        extra = [more.split()[0]] if more else []
        full = self.declare(f"llvm.{name}.{suffix}", result, ", ".join([whole] * len(values) + extra))
        arguments = ", ".join([self.of(v) for v in values] + ([more] if more else []))
        return Val(type, self.make(f"call {result} @{full}({arguments})"), first.uniform)

    def bits(self, value: Val) -> Val:
        """A value as an integer of its width."""
        return self.convert("bitcast", value, f"i{width(value.type)}") if value.type in _FLOATS else value

    def spill(self, value: Val) -> str:
        """A pointer to the 32 elements of a value, in memory."""
        value = self.splat(value)
        if value.type == "i1":
            value = self.convert("zext", value, "i8")
        place = self.slot(f"[{LANES} x {value.type}]")
        self.line(f"store {self.of(value)}, ptr {place}, align 64")
        return place

    def filled(self, place: str, type: str) -> Val:
        """The 32 elements in memory as a value."""
        inner = memory(type)
        value = Val(inner, self.make(f"load <{LANES} x {inner}>, ptr {place}, align 64"), False)
        return self.convert("trunc", value, "i1") if type == "i1" else value


# ---- graphs ---------------------------------------------------------------------------------------


class Lowering:
    """The code of graphs over the same inputs."""

    def __init__(self, code: Code, inputs: Sequence[Val], results: Callable[[Node], Val] | None = None) -> None:
        self.code = code
        self.inputs = inputs
        self.results = results
        self._done: dict[int, Val] = {}

    def __call__(self, node: Node) -> Val:
        """A node's value."""
        found = self._done.get(id(node))
        if found is None:
            found = self._done[id(node)] = self._lower(node)
        return found

    def _lower(self, node: Node) -> Val:
        code = self.code
        if node.op == "input":
            return self.inputs[node.value]
        if node.op == "const":
            return code.number(_bits_of(node.value), element(node.dtype))
        if node.op == "lanes":
            return _lanes(code, node)
        if node.op in ("load", "atomic"):
            assert self.results is not None
            return self.results(node)
        arguments = [self(a) for a in node.args]
        if node.op == "cast":
            return cast(code, arguments[0], node.args[0].dtype, node.dtype)
        if node.op == "bits":
            return _reinterpret(code, arguments[0], element(node.dtype))
        if node.op == "where":
            return code.select(*arguments)
        if node.op == "fma":
            return code.intrinsic("fma", *arguments)
        if node.op == "byteswap":
            return code.intrinsic("bswap", *arguments)
        if node.op == "table":
            return _table(code, node, arguments[0])
        if node.op == "gather":
            return _gather(code, node, *arguments)
        if node.op == "lane":
            return _broadcast_lane(code, arguments[0], node.value)
        if node.op == "reduce":
            return _reduce(code, node, arguments[0])
        return operate(code, node.op, arguments, node.args[0].dtype)


def _bits_of(value: Any) -> int:
    return int.from_bytes(np.asarray(value).tobytes(), "little")


def _lanes(code: Code, node: Node) -> Val:
    type = element(node.dtype)
    if type in _FLOATS:
        raise Unlowerable("a vector of floating-point constants")
    values = [int(v) for v in node.value]
    texts = ", ".join(f"{type} {str(bool(v)).lower() if type == 'i1' else v}" for v in values)
    return Val(type, f"<{texts}>", False)


def _reinterpret(code: Code, value: Val, type: str) -> Val:
    if value.type == "i1" and type == "i8":
        return code.convert("zext", value, "i8")
    if value.type == "i8" and type == "i1":
        return code.op("icmp ne", value, code.number(0, "i8"), type="i1")
    return code.convert("bitcast", value, type)


def _table(code: Code, node: Node, index: Val) -> Val:
    array = np.ascontiguousarray(node.value)
    number = next((k for k, known in enumerate(code.tables) if known is node.value), len(code.tables))
    if number == len(code.tables):
        code.tables.append(array)
    type = element(node.dtype)
    table = code.make(f"load ptr, ptr {code.make(f'getelementptr ptr, ptr %tables, i64 {number}')}")
    if index.uniform:
        place = code.make(f"getelementptr {type}, ptr {table}, i64 {index.text}")
        return Val(type, code.make(f"load {type}, ptr {place}"), True)
    if type != "i64":
        raise Unlowerable("a table of other than 64 bits")
    where, out = code.spill(index), code.slot(f"[{LANES} x i64]")
    code.declare("ws_table", "void", "ptr, ptr, ptr")
    code.line(f"call void @ws_table(ptr {table}, ptr {where}, ptr {out})")
    return code.filled(out, type)


def _gather(code: Code, node: Node, value: Val, index: Val) -> Val:
    value = code.splat(value)
    source = node.args[1]
    whole = f"<{LANES} x {value.type}>"
    if source.op == "lanes":
        mask = ", ".join(f"i32 {int(i) & 31}" for i in source.value)
        return Val(
            value.type,
            code.make(f"shufflevector {whole} {value.text}, {whole} poison, <{LANES} x i32> <{mask}>"),
            False,
        )
    inner = memory(value.type)
    place, where = code.spill(value), code.spill(code.op("and", index, code.number(31, "i32")))
    out = code.slot(f"[{LANES} x {inner}]")
    name = code.declare(f"ws_permute_{width(inner) if inner != 'i8' else 8}", "void", "ptr, ptr, ptr")
    code.line(f"call void @{name}(ptr {place}, ptr {where}, ptr {out})")
    return code.filled(out, value.type)


def _broadcast_lane(code: Code, value: Val, lane: int) -> Val:
    value = code.splat(value)
    whole = f"<{LANES} x {value.type}>"
    return Val(
        value.type,
        code.make(f"shufflevector {whole} {value.text}, {whole} poison, <{LANES} x i32> splat (i32 {lane})"),
        False,
    )


def _reduce(code: Code, node: Node, value: Val) -> Val:
    value = code.splat(value)
    kind = node.dtype.kind
    if kind == "f":
        raise Unlowerable("a sum of floating-point lanes")
    name = node.value
    if name in ("minimum", "maximum"):
        name = ("u" if kind in "ub" else "s") + name[:3]
    whole = f"<{LANES} x {value.type}>"
    full = code.declare(f"llvm.vector.reduce.{name}.v{LANES}{value.type}", value.type, whole)
    scalar = Val(value.type, code.make(f"call {value.type} @{full}({whole} {value.text})"), True)
    return code.splat(scalar)  # all lanes of a warp share it, not those of the group


# ---- conversions ----------------------------------------------------------------------------------


def cast(code: Code, value: Val, source: np.dtype[Any], target: np.dtype[Any]) -> Val:
    """What ``astype`` does."""
    if source == BF16 or target == BF16:
        return _cast_brain(code, value, source, target)
    type = element(target)
    if target.kind == "b":
        zero = code.number(0, value.type)
        return code.op("fcmp une" if value.type in _FLOATS else "icmp ne", value, zero, type="i1")
    if source.kind == "b" and type not in _FLOATS:
        return code.convert("zext", value, type)
    if source.kind in "iub" and type in _FLOATS:
        how = "sitofp" if source.kind == "i" else "uitofp"
        if type == "half":
            if width(value.type) > 16:
                raise Unlowerable("a wide integer as f16")
            return code.convert("fptrunc", code.convert(how, value, "float"), "half")
        return code.convert(how, value, type)
    if source.kind == "f" and target.kind == "f":
        if {value.type, type} == {"half", "double"}:
            if type == "half":
                raise Unlowerable("f64 as f16")
            value = code.convert("fpext", value, "float")
        if value.type == type:
            return value
        return code.convert("fpext" if width(value.type) < width(type) else "fptrunc", value, type)
    if source.kind == "f":
        if value.type == "half":
            value = code.convert("fpext", value, "float")
        return code.intrinsic("fptosi.sat" if target.kind == "i" else "fptoui.sat", value, type=type)
    old, new = width(value.type), width(type)
    if old == new:
        return value
    if new < old:
        return code.convert("trunc", value, type)
    return code.convert("sext" if source.kind == "i" else "zext", value, type)


def _cast_brain(code: Code, value: Val, source: np.dtype[Any], target: np.dtype[Any]) -> Val:
    if source != BF16 or target not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise Unlowerable(f"{source} as {target}")
    wide = code.op("shl", code.convert("zext", value, "i32"), code.number(16, "i32"))
    single = code.convert("bitcast", wide, "float")
    return single if target.itemsize == 4 else code.convert("fpext", single, "double")


# ---- ufuncs ---------------------------------------------------------------------------------------

_INTEGER = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
_FLOATING = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_COMPARE = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
_ROUND = {"rint": "rint", "trunc": "trunc", "floor": "floor", "ceil": "ceil", "sqrt": "sqrt"}


def operate(code: Code, name: str, values: list[Val], dtype: np.dtype[Any]) -> Val:
    """A ufunc of values of a type."""
    if dtype == BF16:
        if name not in ("isnan", "signbit", "equal", "not_equal", *_COMPARE):
            raise Unlowerable(f"{name} of bf16")
        values = [_cast_brain(code, v, BF16, np.dtype(np.float32)) for v in values]
        dtype = np.dtype(np.float32)
    elif values[0].type == "half":
        wide = [code.convert("fpext", v, "float") for v in values]
        if name in ("isnan", "isfinite", "isinf", "equal", "not_equal", *_COMPARE):
            return operate(code, name, wide, np.dtype(np.float32))
        if name not in ("signbit", "negative", "absolute", "copysign", "nextafter"):
            return code.convert("fptrunc", operate(code, name, wide, np.dtype(np.float32)), "half")
    if values[0].type in _FLOATS:
        return _float_op(code, name, values)
    if dtype.kind == "b":
        return _bool_op(code, name, values)
    return _integer_op(code, name, values, dtype.kind == "i")


def _bool_op(code: Code, name: str, values: list[Val]) -> Val:
    table = {"bitwise_and": "and", "logical_and": "and", "multiply": "and", "minimum": "and", "bitwise_or": "or"}
    table |= {"logical_or": "or", "add": "or", "maximum": "or", "bitwise_xor": "xor", "logical_xor": "xor"}
    table |= {"not_equal": "xor"}
    if name in table:
        return code.op(table[name], *values)
    if name in ("invert", "logical_not"):
        return code.op("xor", values[0], code.number(1, "i1"))
    if name == "equal":
        return code.op("icmp eq", *values)
    raise Unlowerable(f"{name} of predicates")


def _integer_op(code: Code, name: str, values: list[Val], signed: bool) -> Val:
    a = values[0]
    sign = "s" if signed else "u"
    if name in _INTEGER:
        return code.op(_INTEGER[name], *values)
    if name in _COMPARE:
        return code.op(f"icmp {sign}{_COMPARE[name]}", *values, type="i1")
    if name in ("equal", "not_equal"):
        return code.op(f"icmp {name[:2] if name == 'equal' else 'ne'}", *values, type="i1")
    if name in ("logical_not", "logical_and", "logical_or"):
        return _bool_op(code, name, [code.op("icmp ne", v, code.number(0, v.type), type="i1") for v in values])
    if name in ("minimum", "maximum"):
        return code.intrinsic(sign + name[:3], *values)
    if name == "invert":
        return code.op("xor", a, code.number(-1, a.type))
    if name == "negative":
        return code.op("sub", code.number(0, a.type), a)
    if name == "absolute":
        if not signed:
            return a
        negative = code.op("icmp slt", a, code.number(0, a.type), type="i1")
        return code.select(negative, code.op("sub", code.number(0, a.type), a), a)
    if name == "positive":
        return a
    if name == "bitwise_count":
        count = code.intrinsic("ctpop", a)
        return count if a.type == "i8" else code.convert("trunc", count, "i8")
    if name in ("left_shift", "right_shift"):
        return _shift(code, name == "left_shift", signed, *values)
    if name in ("floor_divide", "remainder", "fmod"):
        return _divide(code, name, signed, *values)
    if name == "sign" and signed:
        zero = code.number(0, a.type)
        up = code.convert("zext", code.op("icmp sgt", a, zero, type="i1"), a.type)
        down = code.convert("zext", code.op("icmp slt", a, zero, type="i1"), a.type)
        return code.op("sub", up, down)
    raise Unlowerable(f"{name} of integers")


def _shift(code: Code, left: bool, signed: bool, a: Val, by: Val) -> Val:
    n = width(a.type)
    if by.known is not None:
        if by.known >= n:
            return code.op("ashr", a, code.number(n - 1, a.type)) if signed and not left else code.number(0, a.type)
        return code.op("shl" if left else "ashr" if signed else "lshr", a, by)
    inside = code.op("icmp ult", by, code.number(n, a.type), type="i1")
    if signed and not left:
        return code.op("ashr", a, code.select(inside, by, code.number(n - 1, a.type)))
    moved = code.op("shl" if left else "lshr", a, code.select(inside, by, code.number(0, a.type)))
    return code.select(inside, moved, code.number(0, a.type))


def _divide(code: Code, name: str, signed: bool, a: Val, b: Val) -> Val:
    zero, one = code.number(0, a.type), code.number(1, a.type)
    by_zero = code.op("icmp eq", b, zero, type="i1")
    unsafe = by_zero
    if signed:
        least = code.op("icmp eq", a, code.number(1 << (width(a.type) - 1), a.type), type="i1")
        unsafe = code.op(
            "or", by_zero, code.op("and", least, code.op("icmp eq", b, code.number(-1, a.type), type="i1"))
        )
    safe = code.select(unsafe, one, b)
    quotient = code.op("sdiv" if signed else "udiv", a, safe)
    rest = code.op("sub", a, code.op("mul", quotient, safe))
    if signed and name != "fmod":
        off = code.op(
            "and",
            code.op("icmp ne", rest, zero, type="i1"),
            code.op("icmp slt", code.op("xor", rest, safe), zero, type="i1"),
        )
        if name == "floor_divide":
            quotient = code.select(off, code.op("sub", quotient, one), quotient)
        else:
            rest = code.select(off, code.op("add", rest, safe), rest)
    return code.select(by_zero, zero, quotient if name == "floor_divide" else rest)


def _float_op(code: Code, name: str, values: list[Val]) -> Val:
    a = values[0]
    n, exponent = _FLOATS[a.type]
    integer, sign = f"i{n}", 1 << (n - 1)
    if name in _FLOATING:
        return code.op(_FLOATING[name], *values)
    if name in _COMPARE:
        return code.op(f"fcmp o{_COMPARE[name]}", *values, type="i1")
    if name in ("equal", "not_equal"):
        return code.op("fcmp oeq" if name == "equal" else "fcmp une", *values, type="i1")
    if name in _ROUND:
        return code.intrinsic(_ROUND[name], a)
    if name in ("isnan", "isinf", "isfinite"):
        size = code.op("and", code.bits(a), code.number(sign - 1, integer))
        test = {"isnan": "ugt", "isinf": "eq", "isfinite": "ult"}[name]
        return code.op(f"icmp {test}", size, code.number(exponent, integer), type="i1")
    if name == "signbit":
        return code.op("icmp slt", code.bits(a), code.number(0, integer), type="i1")
    if name == "negative":
        return code.convert("bitcast", code.op("xor", code.bits(a), code.number(sign, integer)), a.type)
    if name == "absolute":
        return code.convert("bitcast", code.op("and", code.bits(a), code.number(sign - 1, integer)), a.type)
    if name == "copysign":
        size = code.op("and", code.bits(a), code.number(sign - 1, integer))
        top = code.op("and", code.bits(values[1]), code.number(sign, integer))
        return code.convert("bitcast", code.op("or", size, top), a.type)
    if name in ("minimum", "maximum"):
        first = code.op("fcmp olt" if name == "minimum" else "fcmp ogt", *values, type="i1")
        return code.select(code.op("or", first, _float_op(code, "isnan", [a])), a, values[1])
    if name == "square":
        return code.op("fmul", a, a)
    if name == "positive":
        return a
    if name == "sign":
        zero = code.number(0, a.type)
        one, minus = (code.number(_bits_of(np.array(v, f"f{n // 8}")), a.type) for v in (1.0, -1.0))
        below = code.select(
            code.op("fcmp olt", a, zero, type="i1"),
            minus,
            code.select(code.op("fcmp oeq", a, zero, type="i1"), zero, a),
        )
        return code.select(code.op("fcmp ogt", a, zero, type="i1"), one, below)
    if name == "nextafter":
        return _next_after(code, a, values[1], integer, sign)
    raise Unlowerable(f"{name} of floating-point numbers")


def _next_after(code: Code, a: Val, b: Val, integer: str, sign: int) -> Val:
    zero = code.number(0, a.type)
    bits_a, one = code.bits(a), code.number(1, integer)
    grows = code.op("xor", code.op("fcmp olt", a, b, type="i1"), code.op("fcmp olt", a, zero, type="i1"))
    moved = code.select(grows, code.op("add", bits_a, one), code.op("sub", bits_a, one))
    least = code.op("or", code.op("and", code.bits(b), code.number(sign, integer)), one)
    moved = code.select(code.op("fcmp oeq", a, zero, type="i1"), least, moved)
    moved = code.select(code.op("fcmp oeq", a, b, type="i1"), code.bits(b), moved)
    unordered = code.op("or", _float_op(code, "isnan", [a]), _float_op(code, "isnan", [b]))
    return code.select(unordered, code.op("fadd", a, b), code.convert("bitcast", moved, a.type))
