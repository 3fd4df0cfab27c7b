"""cvt and cvt.pack (PTX ISA: Data Movement and Conversion Instructions)."""

from __future__ import annotations

from typing import Any

from warpsim.isa.registry import instruction
from warpsim.isa.spec import Op
from warpsim.isa.traits import Traits
from warpsim.numerics import convert
from warpsim.numerics.bits import BF16, F32, flush_subnormal
from warpsim.types import TYPES, ScalarType

Lanes = Any
CVT = "data-movement-and-conversion-instructions-cvt"
_INT = "{ .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64 }"
_PAIR = {"d": "dtype", "a": "atype"}
_BF16 = {"bf16": (90, (7, 8))}


def takes_wider(op: Op) -> bool:
    """Whether registers may be wider than the types: not where bf16 or a narrower format is converted."""
    return not any(word in TYPES and (word[:2] in ("bf", "ue") or word[0] == "e") for word in op.modifiers)


CONVERTS = Traits(special_registers=True)


def _contains(outer: ScalarType, inner: ScalarType) -> bool:
    """Whether an integer type contains every value of another."""
    if outer.signed == inner.signed:
        return outer.bits >= inner.bits
    return outer.signed and outer.bits > inner.bits


@instruction(
    f"cvt.dtype.atype d, a; .dtype = {_INT}; .atype = {_INT};",
    anchor=CVT,
    types=_PAIR,
    relaxed=takes_wider,
    traits=CONVERTS,
)
def cvt_integer(op: Op, a: Lanes) -> Lanes:
    """Widen, or keep the low bits."""
    return a.astype(op.dtype.dtype)


@instruction(
    f"cvt.sat.dtype.atype d, a; .dtype = {_INT}; .atype = {_INT};",
    anchor=CVT,
    types=_PAIR,
    relaxed=takes_wider,
    legal=lambda op: "every value fits: .sat has no effect" if _contains(op.dtype, op.atype) else None,
    traits=CONVERTS,
)
def cvt_integer_sat(op: Op, a: Lanes) -> Lanes:
    """Clamp to the target's range."""
    return convert.integer_to_integer(a, op.dtype.dtype)


def _legal_float(op: Op) -> str | None:
    names = [type.name for type in (op.dtype, op.atype) if type.kind == "f"]
    if op.ftz and "f32" not in names:
        return ".ftz is for .f32"
    if op.sat and "bf16" in names:
        return ".sat is not for .bf16"
    return None


@instruction(
    f"cvt.irnd{{.ftz}}{{.sat}}.dtype.atype d, a; .irnd = {{ .rni, .rzi, .rmi, .rpi }}; .dtype = {_INT}; .atype = {{ .f16, .bf16, .f32, .f64 }};",
    anchor=CVT,
    types=_PAIR,
    relaxed=takes_wider,
    legal=_legal_float,
    gates=_BF16,
    traits=CONVERTS,
)
def cvt_to_integer(op: Op, a: Lanes) -> Lanes:
    """Round to an integer; out-of-range values clamp, with or without .sat."""
    if op.ftz:
        a = flush_subnormal(a)
    elif a.dtype == BF16:
        a = a.astype(F32)
    return convert.to_integer(a, op.dtype.dtype, op.irnd)


@instruction(
    f"cvt.frnd{{.ftz}}{{.sat}}.dtype.atype d, a; .frnd = {{ .rn, .rz, .rm, .rp }}; .dtype = {{ .f16, .bf16, .f32, .f64 }}; .atype = {_INT};",
    anchor=CVT,
    types=_PAIR,
    relaxed=takes_wider,
    legal=_legal_float,
    gates=_BF16,
    traits=CONVERTS,
)
def cvt_from_integer(op: Op, a: Lanes) -> Lanes:
    """Convert an integer, rounded."""
    r = convert.integer_to_float(a, op.dtype.dtype, op.frnd)
    return convert.clamp_unit(r) if op.sat else r


_SAME = """
    cvt{.sat}.f16.f16               d, a;
    cvt.irnd{.sat}.f16.f16          d, a;
    cvt{.sat}.f64.f64               d, a;
    cvt.irnd{.sat}.f64.f64          d, a;
    cvt{.ftz}{.sat}.f32.f32         d, a;
    cvt.irnd{.ftz}{.sat}.f32.f32    d, a;
    cvt.bf16.bf16                   d, a;
    cvt.irnd.bf16.bf16              d, a;
    .irnd = { .rni, .rzi, .rmi, .rpi };
    """


@instruction(_SAME, anchor=CVT, relaxed=takes_wider, gates=_BF16, traits=CONVERTS)
def cvt_same(op: Op, a: Lanes) -> Lanes:
    """Round to an integral value, flush or saturate, within one format."""
    if op.ftz:
        a = convert.canonical_single(flush_subnormal(a))
    r = convert.round_integral(a, op.irnd) if op.irnd else convert.float_to_float(a, a.dtype, "rn")
    return convert.clamp_unit(r) if op.sat else r


@instruction(
    """
    cvt{.ftz}{.sat}.f32.f16        d, a;
    cvt{.ftz}{.sat}.f64.f32        d, a;
    cvt{.sat}.f64.f16              d, a;
    cvt{.frnd}.f64.bf16            d, a;
    cvt.frnd{.sat}.f16.f64         d, a;
    cvt.frnd{.ftz}{.sat}.f32.f64   d, a;
    cvt.frnd{.ftz}{.sat}.f16.f32   d, a;
    cvt.frnd.bf16.f64              d, a;
    cvt{.frnd}.f16.bf16            d, a;
    cvt{.frnd}.bf16.f16            d, a;
    .frnd = { .rn, .rz, .rm, .rp };
    """,
    anchor=CVT,
    types={"d": lambda op: _named(op)[0], "a": lambda op: _named(op)[1]},
    relaxed=takes_wider,
    gates=_BF16,
    traits=CONVERTS,
)
def cvt_float(op: Op, a: Lanes) -> Lanes:
    """Convert between floating-point formats; to f16, .ftz keeps subnormals."""
    target, source = _named(op)
    if op.ftz and source.name == "f32" and target.name == "f64":
        a = convert.canonical_single(flush_subnormal(a))
    if op.ftz and source.name == "f64":
        r = convert.double_to_flushed(a, op.frnd or "rn")
    else:
        r = convert.float_to_float(a, target.dtype, op.frnd or "rn")
        if op.ftz and target.name == "f32":
            r = flush_subnormal(r)
    return convert.clamp_unit(r) if op.sat else r


@instruction(
    "cvt{.frnd}{.ftz}.f32.bf16 d, a; .frnd = { .rn, .rz, .rm, .rp };",
    anchor=CVT,
    types={"d": ".f32", "a": ".bf16"},
    relaxed=takes_wider,
    target=80,
    version=(7, 1),
    gate=lambda op: (90, (7, 8)) if op.ftz else None,
    traits=CONVERTS,
)
def cvt_f32_bf16(op: Op, a: Lanes) -> Lanes:
    """Move bf16 to the upper half of an f32; NaN moves unchanged unless .ftz."""
    r = convert.float_to_float(a, F32, "rn")
    return convert.canonical_single(flush_subnormal(r)) if op.ftz else r


@instruction(
    "cvt.frnd{.ftz}.bf16.f32 d, a; .frnd = { .rn, .rz, .rm, .rp };",
    anchor=CVT,
    types={"d": ".bf16", "a": ".f32"},
    relaxed=takes_wider,
    target=80,
    version=(7, 0),
    traits=CONVERTS,
)
def cvt_bf16_f32(op: Op, a: Lanes) -> Lanes:
    """Convert f32 to bf16."""
    return convert.to_half(flush_subnormal(a) if op.ftz else a, BF16, op.frnd)


def _named(op: Op) -> tuple[ScalarType, ScalarType]:
    target, source = [TYPES[word] for word in op.modifiers if word in TYPES]
    return target, source
