"""Comparison and selection (PTX ISA: Comparison and Selection Instructions)."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.spec import Op, instruction
from warpsim.numerics.floating import flush

Lanes = Any
CMP = ".cmp = { .eq, .ne, .lt, .le, .gt, .ge, .lo, .ls, .hi, .hs, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan };"
_TYPES = "{ .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64, .f16, .bf16 }"
_INTEGER = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
            "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}


def compare(cmp: str, a: Lanes, b: Lanes, floating: bool) -> Lanes:
    """A comparison by its PTX name; ordered ones are false with NaN, those ending in u true."""
    if not floating:
        return _INTEGER[cmp](a, b)
    if cmp == "num":
        return ~(np.isnan(a) | np.isnan(b))
    if cmp == "nan":
        return np.isnan(a) | np.isnan(b)
    if cmp == "ne":
        return (a < b) | (a > b)
    if cmp == "neu":
        return a != b
    if cmp.endswith("u"):
        opposite = {"equ": None, "ltu": np.greater_equal, "leu": np.greater, "gtu": np.less_equal, "geu": np.less}[cmp]
        return ~((a < b) | (a > b)) if opposite is None else ~opposite(a, b)
    return _INTEGER[cmp](a, b)


def _legal(op: Op) -> str | None:
    kind = op.type.kind if "type" in op.__dict__ else op.stype.kind
    name = op.cmp
    if kind == "b" and name not in ("eq", "ne"):
        return f".{name} does not compare untyped bits"
    if kind == "s" and name in ("lo", "ls", "hi", "hs"):
        return f".{name} is for unsigned types"
    if kind in "us" and name not in _INTEGER:
        return f".{name} is for floating-point types"
    if kind == "f" and name in ("lo", "ls", "hi", "hs"):
        return f".{name} is for unsigned types"
    if op.__dict__.get("ftz") and (op.__dict__.get("type") or op.__dict__.get("stype")).name not in ("f32", "f16"):
        return ".ftz is for .f32 and .f16"
    return None


def _compared(op: Op, a: Lanes, b: Lanes) -> Lanes:
    type = op.type if "type" in op.__dict__ else op.stype
    if op.ftz and type.name == "f32":
        a, b = flush(a), flush(b)
    return compare(op.cmp, a, b, type.kind == "f")


def combine(name: str, t: Lanes, c: Lanes) -> Lanes:
    """A Boolean operator by its PTX name."""
    return t & c if name == "and" else t | c if name == "or" else t ^ c


@instruction(
    f"setp.cmp{{.ftz}}.type p, a, b; {CMP} .type = {_TYPES};",
    anchor="comparison-and-selection-instructions-setp",
    types={"p": ".pred"},
    legal=_legal,
    gates={"bf16": (90, (7, 8)), "f16": (53, (4, 2))},
)
def setp(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """p = a compared with b."""
    return _compared(op, a, b)


@instruction(
    f"setp.cmp{{.ftz}}.type p|q, a, b; {CMP} .type = {_TYPES};",
    anchor="comparison-and-selection-instructions-setp",
    types={"p": ".pred", "q": ".pred"},
    legal=_legal,
)
def setp_two(op: Op, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """p = a compared with b, q = the opposite."""
    t = _compared(op, a, b)
    return t, ~t


@instruction(
    f"setp.cmp.bool{{.ftz}}.type p, a, b, {{!}}c; {CMP} .bool = {{ .and, .or, .xor }}; .type = {_TYPES};",
    anchor="comparison-and-selection-instructions-setp",
    types={"p": ".pred", "c": ".pred"},
    legal=_legal,
)
def setp_bool(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """p = (a compared with b) combined with c."""
    return combine(op.bool, _compared(op, a, b), c)


@instruction(
    f"setp.cmp.bool{{.ftz}}.type p|q, a, b, {{!}}c; {CMP} .bool = {{ .and, .or, .xor }}; .type = {_TYPES};",
    anchor="comparison-and-selection-instructions-setp",
    types={"p": ".pred", "q": ".pred", "c": ".pred"},
    legal=_legal,
)
def setp_bool_two(op: Op, a: Lanes, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes]:
    """p as in setp with a Boolean operator, q with the opposite comparison."""
    t = _compared(op, a, b)
    return combine(op.bool, t, c), combine(op.bool, ~t, c)


@instruction(
    f"set.cmp{{.ftz}}.dtype.stype d, a, b; {CMP} .dtype = {{ .u32, .s32, .f32 }}; .stype = {_TYPES};",
    anchor="comparison-and-selection-instructions-set",
    types={"d": "dtype", "a": "stype", "b": "stype"},
    legal=_legal,
)
def set_(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """All ones (or 1.0) where the comparison holds, else 0."""
    return _truth(op, _compared(op, a, b))


@instruction(
    f"set.cmp.bool{{.ftz}}.dtype.stype d, a, b, {{!}}c; {CMP} .bool = {{ .and, .or, .xor }}; .dtype = {{ .u32, .s32, .f32 }}; .stype = {_TYPES};",
    anchor="comparison-and-selection-instructions-set",
    types={"d": "dtype", "a": "stype", "b": "stype", "c": ".pred"},
    legal=_legal,
)
def set_bool(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """set, combined with c."""
    return _truth(op, combine(op.bool, _compared(op, a, b), c))


def _truth(op: Op, t: Lanes) -> Lanes:
    if op.dtype.kind == "f":
        return t.astype(np.float32)
    return np.where(t, np.uint32(0xFFFFFFFF), np.uint32(0))


@instruction(
    "selp.type d, a, b, c; .type = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 };",
    anchor="comparison-and-selection-instructions-selp",
    types={"c": ".pred"},
)
def selp(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a where c, else b."""
    if c.size == 1:
        return a if c.reshape(-1)[0] else b
    return np.where(c, a, b)


@instruction(
    "slct{.ftz}.dtype.ctype d, a, b, c; .dtype = { .b16, .b32, .b64, .u16, .u32, .u64, .s16, .s32, .s64, .f32, .f64 }; .ctype = { .s32, .f32 };",
    anchor="comparison-and-selection-instructions-slct",
    types={"d": "dtype", "a": "dtype", "b": "dtype", "c": "ctype"},
)
def slct(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a where c >= 0, else b."""
    if op.ftz:
        c = flush(c)
    return np.where(c >= 0, a, b)
