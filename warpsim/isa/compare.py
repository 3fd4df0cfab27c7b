"""Comparison and selection (PTX ISA: Comparison and Selection Instructions)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import numpy as np

from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Gate, Op, instruction
from warpsim.isa.traits import Traits
from warpsim.numerics.arrays import flush_subnormal, halves
from warpsim.types import TYPES, ScalarType

_compare = functools.partial(instruction, chapter="comparison-and-selection-instructions")

_CMP = ".cmp = { .eq, .ne, .lt, .le, .gt, .ge, .lo, .ls, .hi, .hs, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan };"
_BOOL = ".bool = { .and, .or, .xor };"
_TYPES = ".type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 };"
_HALF = ".type = { .f16, .bf16 };"
_PACKED = ".type = { .f16x2, .bf16x2 };"
_GATES = {"f16": (53, (4, 2)), "f16x2": (53, (4, 2)), "bf16": (90, (7, 8)), "bf16x2": (90, (7, 8))}
INTEGER: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}


def _ordered(a: Lanes, b: Lanes) -> Lanes:
    return (a == a) & (b == b)


_FLOATING: dict[str, Callable[[Lanes, Lanes], Lanes]] = {
    **INTEGER,
    "ne": lambda a, b: (a < b) | (a > b),
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": _ordered,
    "nan": lambda a, b: ~_ordered(a, b),
}


def _legal(op: Op) -> str | None:
    type = op.get("stype") or op.type
    if type.kind == "b" and not type.name.endswith("x2") and op.cmp not in ("eq", "ne"):
        return f".{op.cmp} does not compare untyped bits"
    if type.kind != "u" and op.cmp in ("lo", "ls", "hi", "hs"):
        return f".{op.cmp} is for unsigned types"
    if type.kind in "us" and op.cmp not in INTEGER:
        return f".{op.cmp} is for floating-point types"
    if op.ftz and type.name not in ("f32", "f16", "f16x2"):
        return ".ftz is for .f32 and .f16"
    return None


def compare(op: Op, type: ScalarType, a: Lanes, b: Lanes) -> Lanes:
    """Compare a and b per lane. With a NaN, ordered comparisons are false and unordered ones (ending in u) true."""
    if type.kind != "f":
        return INTEGER[op.cmp](a, b)
    if op.ftz:
        a, b = flush_subnormal(a), flush_subnormal(b)
    return _FLOATING[op.cmp](a, b)


def compare_packed(op: Op, type: ScalarType, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Compare the lower and the upper halves."""
    scalar = TYPES[type.name[:-2]]
    (low, high), (other_low, other_high) = halves(a, scalar.dtype), halves(b, scalar.dtype)
    return compare(op, scalar, low, other_low), compare(op, scalar, high, other_high)


def _of_bf16(op: Op) -> bool:
    """Whether bf16 is compared: the assembler then takes no number as the predicate that a comparison is combined with."""
    return "bf16" in op.modifiers or "bf16x2" in op.modifiers


def combine(op: Op, t: Lanes, c: Lanes | None) -> Lanes:
    """A result combined with c, if that is given."""
    if c is None:
        return t
    return t & c if op.bool == "and" else t | c if op.bool == "or" else t ^ c


_setp = functools.partial(
    _compare,
    types={"p": ".pred", "q": ".pred", "c": ".pred"},
    registers={"c": _of_bf16},
    legal=_legal,
    gates=_GATES,
    sinks=("p",),
    traits=Traits(wide_predicates=False),
)


@_setp(
    f"""
    setp.cmp{{.ftz}}.type p, a, b;
    setp.cmp.bool{{.ftz}}.type p, a, b, {{!}}c;
    {_CMP} {_BOOL}
    .type = {{ .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64, .f16, .bf16 }};
    """,
    traits=lambda op: Traits(wide_predicates=False, compares=op.bool is None),
)
def setp(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> Lanes:
    """p = a compared with b, combined with c if given."""
    return combine(op, compare(op, op.type, a, b), c)


@_setp(
    f"""
    setp.cmp{{.ftz}}.type p|q, a, b;
    setp.cmp.bool{{.ftz}}.type p|q, a, b, {{!}}c;
    {_CMP} {_BOOL} {_TYPES}
    """,
)
def setp_two(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> tuple[Lanes, Lanes]:
    """p = a compared with b, q = the opposite, both combined with c if given."""
    t = compare(op, op.type, a, b)
    return combine(op, t, c), combine(op, ~t, c)


@_setp(
    f"""
    setp.cmp{{.ftz}}.type p|_, a, b;
    setp.cmp.bool{{.ftz}}.type p|_, a, b, {{!}}c;
    {_CMP} {_BOOL} {_HALF}
    """,
    chapter="half-precision-comparison-instructions",
)
def setp_half(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> tuple[Lanes, Lanes]:
    """Compare scalar halves. There is no opposite result; the assembler accepts a sink in its place."""
    t = setp(op, a, b, c)
    return t, t


@_setp(
    f"""
    setp.cmp{{.ftz}}.type p{{|q}}, a, b;
    setp.cmp.bool{{.ftz}}.type p{{|q}}, a, b, {{!}}c;
    {_CMP} {_BOOL} {_PACKED}
    """,
    chapter="half-precision-comparison-instructions",
)
def setp_packed(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> tuple[Lanes, Lanes]:
    """p compares the lower halves, q the upper ones, both combined with c if given."""
    low, high = compare_packed(op, op.type, a, b)
    return combine(op, low, c), combine(op, high, c)


_SET = f"""
    set.cmp{{.ftz}}.dtype.stype d, a, b;
    set.cmp.bool{{.ftz}}.dtype.stype d, a, b, {{!}}c;
    {_CMP} {_BOOL}
    .dtype = {{ .u16, .s16, .u32, .s32, .f16, .bf16, .f32 }};
    .stype = {{ .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f16, .bf16, .f32, .f64 }};
    """
_TRUE = {"u": -1, "s": -1, "f": 1}


def _integers_of_halves(op: Op) -> Gate | None:
    return (53, (6, 5)) if op.stype.name in ("f16", "f16x2") and op.dtype.name[0] in "us" else None


def _legal_set(op: Op) -> str | None:
    half = op.stype.name in ("f16", "bf16")
    if op.dtype.name in ("u16", "s16") and not half:
        return f"a .{op.dtype.name} result is for .f16 and .bf16 operands"
    if half and (op.dtype.name == "f32" or (op.dtype.name, op.stype.name) == ("f16", "bf16")):
        return f".{op.dtype.name} cannot be the result for .{op.stype.name} operands"
    if op.ftz and op.dtype.name == "bf16":
        return ".ftz does not go with a .bf16 result"
    return _legal(op)


@_compare(
    _SET,
    types={"d": "dtype"},
    checked_as={"d": lambda op: ".u16" if op.dtype.name == "bf16" else None},
    registers={"c": _of_bf16},
    legal=_legal_set,
    gates=_GATES,
    gate=_integers_of_halves,
)
def set_(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> Lanes:
    """All ones (or 1.0) where the comparison, combined with c if given, is true; else 0."""
    t = combine(op, compare(op, op.stype, a, b), c)
    dtype = op.dtype.dtype
    return np.where(t, np.array(_TRUE[op.dtype.kind]).astype(dtype), dtype.type(0))


@instruction(
    f"""
    set.cmp{{.ftz}}.dtype.stype d, a, b;
    set.cmp.bool{{.ftz}}.dtype.stype d, a, b, {{!}}c;
    {_CMP} {_BOOL}
    .dtype = {{ .f16x2, .bf16x2, .u32, .s32 }}; .stype = {{ .f16x2, .bf16x2 }};
    """,
    chapter="half-precision-comparison-instructions",
    types={"d": "dtype"},
    checked_as={"d": lambda op: ".b32" if op.dtype.name == "bf16x2" else None},
    registers={"c": _of_bf16},
    legal=lambda op: (
        "the packed types differ"
        if op.dtype.bits == 32 and op.dtype.kind == "b" and op.dtype is not op.stype
        else _legal(op)
    ),
    gates=_GATES,
    gate=_integers_of_halves,
)
def set_packed(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> Lanes:
    """Compare each pair of halves, with a 16-bit result: all ones, or 1.0 in the packed type."""
    one = np.uint32({"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(op.dtype.name, 0xFFFF))
    low, high = (combine(op, t, c) for t in compare_packed(op, op.stype, a, b))
    return np.where(low, one, np.uint32(0)) | np.where(high, one << np.uint32(16), np.uint32(0))


@_compare("selp.type d, a, b, {!}c; .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 };")
def selp(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a where c, else b."""
    if c.size == 1:
        return a if c.reshape(-1)[0] else b
    return np.where(c, a, b)


@_compare(
    "slct{.ftz}.dtype.ctype d, a, b, c; .dtype = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }; .ctype = { .s32, .f32 };",
    types={"d": "dtype", "a": "dtype", "b": "dtype"},
    legal=lambda op: ".ftz is for a .f32 operand c" if op.ftz and op.ctype.kind != "f" else None,
)
def slct(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a where c >= 0, else b."""
    if op.ftz:
        c = flush_subnormal(c)
    return np.where(c >= 0, a, b)
