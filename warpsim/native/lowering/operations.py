"""What NumPy's operations are in LLVM. What LLVM leaves undefined and NumPy does not (shifts by the width, division by zero,
conversions out of range) is written out."""

from __future__ import annotations

import numpy as np

from warpsim.native.lowering.values import BF16, FLOATS, IRBuilder, Unlowerable, Val, bits_of, element, width
from warpsim.numerics.arrays import DType

# ---- conversions ----------------------------------------------------------------------------------


def cast(code: IRBuilder, value: Val, source: DType, target: DType) -> Val:
    """What ``astype`` does."""
    if source == BF16 or target == BF16:
        return _cast_brain(code, value, source, target)
    type = element(target)
    if target.kind == "b":
        zero = code.number(0, value.type)
        return code.op("fcmp une" if value.type in FLOATS else "icmp ne", value, zero, type="i1")
    if source.kind == "b" and type not in FLOATS:
        return code.convert("zext", value, type)
    if source.kind in "iub" and type in FLOATS:
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


def _cast_brain(code: IRBuilder, value: Val, source: DType, target: DType) -> Val:
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


def operate(code: IRBuilder, name: str, values: list[Val], dtype: DType) -> Val:
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
    if values[0].type in FLOATS:
        return _float_op(code, name, values)
    if dtype.kind == "b":
        return _bool_op(code, name, values)
    return _integer_op(code, name, values, signed=dtype.kind == "i")


def _bool_op(code: IRBuilder, name: str, values: list[Val]) -> Val:
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


def _integer_op(code: IRBuilder, name: str, values: list[Val], *, signed: bool) -> Val:
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
    if name == "bitwise_count":
        count = code.intrinsic("ctpop", _integer_op(code, "absolute", values, signed=signed))
        return count if a.type == "i8" else code.convert("trunc", count, "i8")
    if name in ("left_shift", "right_shift"):
        return _shift(code, *values, left=name == "left_shift", signed=signed)
    if name in ("floor_divide", "remainder", "fmod"):
        return _divide(code, name, *values, signed=signed)
    if name == "sign" and signed:
        zero = code.number(0, a.type)
        up = code.convert("zext", code.op("icmp sgt", a, zero, type="i1"), a.type)
        down = code.convert("zext", code.op("icmp slt", a, zero, type="i1"), a.type)
        return code.op("sub", up, down)
    raise Unlowerable(f"{name} of integers")


def _shift(code: IRBuilder, a: Val, by: Val, *, left: bool, signed: bool) -> Val:
    n = width(a.type)
    if by.known is not None:
        if by.known >= n:
            return code.op("ashr", a, code.number(n - 1, a.type)) if signed and not left else code.number(0, a.type)
        if n == 64 and by.known and not left and not a.uniform:
            by = code.hidden(
                by.known
            )  # LLVM 22 takes 16 bits of a product of two i16 by pmulhw, and loses the sign above bit 31
        return code.op("shl" if left else "ashr" if signed else "lshr", a, by)
    inside = code.op("icmp ult", by, code.number(n, a.type), type="i1")
    if signed and not left:
        return code.op("ashr", a, code.select(inside, by, code.number(n - 1, a.type)))
    moved = code.op("shl" if left else "lshr", a, code.select(inside, by, code.number(0, a.type)))
    return code.select(inside, moved, code.number(0, a.type))


def _divide(code: IRBuilder, name: str, a: Val, b: Val, *, signed: bool) -> Val:
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


def _float_op(code: IRBuilder, name: str, values: list[Val]) -> Val:
    a = values[0]
    n, exponent = FLOATS[a.type]
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
    if name == "sign":
        zero = code.number(0, a.type)
        one, minus = (code.number(bits_of(np.array(v, f"f{n // 8}")), a.type) for v in (1.0, -1.0))
        below = code.select(
            code.op("fcmp olt", a, zero, type="i1"),
            minus,
            code.select(code.op("fcmp oeq", a, zero, type="i1"), zero, a),
        )
        return code.select(code.op("fcmp ogt", a, zero, type="i1"), one, below)
    if name == "nextafter":
        return _next_after(code, a, values[1], integer, sign)
    raise Unlowerable(f"{name} of floating-point numbers")


def _next_after(code: IRBuilder, a: Val, b: Val, integer: str, sign: int) -> Val:
    zero = code.number(0, a.type)
    bits_a, one = code.bits(a), code.number(1, integer)
    grows = code.op("xor", code.op("fcmp olt", a, b, type="i1"), code.op("fcmp olt", a, zero, type="i1"))
    moved = code.select(grows, code.op("add", bits_a, one), code.op("sub", bits_a, one))
    least = code.op("or", code.op("and", code.bits(b), code.number(sign, integer)), one)
    moved = code.select(code.op("fcmp oeq", a, zero, type="i1"), least, moved)
    moved = code.select(code.op("fcmp oeq", a, b, type="i1"), code.bits(b), moved)
    unordered = code.op("or", _float_op(code, "isnan", [a]), _float_op(code, "isnan", [b]))
    return code.select(unordered, code.op("fadd", a, b), code.convert("bitcast", moved, a.type))
