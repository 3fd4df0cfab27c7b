"""cvt and cvt.pack (PTX ISA: Data Movement and Conversion Instructions), at last to and from narrow formats."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Function, Op, instruction
from warpsim.isa.traits import Traits
from warpsim.numerics import convert
from warpsim.numerics.arrays import BF16, F16, F32, flush_subnormal, halves, join
from warpsim.numerics.floating import saturate
from warpsim.types import TYPES, ScalarType

CVT = "data-movement-and-conversion-instructions-cvt"
_INT = "{ .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64 }"
_PAIR = {"d": "dtype", "a": "atype"}
_BF16 = {"bf16": (90, (7, 8))}


def _takes_wider(op: Op) -> bool:
    """Whether registers may be wider than the types: not where bf16 or a narrower format is converted."""
    return not any(word in TYPES and (word[:2] in ("bf", "ue") or word[0] == "e") for word in op.modifiers)


_cvt = functools.partial(instruction, anchor=CVT, relaxed=_takes_wider)
_of_integers = functools.partial(_cvt, types=_PAIR, traits=Traits(special_registers=True))


def _contains(outer: ScalarType, inner: ScalarType) -> bool:
    """Whether an integer type contains every value of another."""
    if outer.signed == inner.signed:
        return outer.bits >= inner.bits
    return outer.signed and outer.bits > inner.bits


@_of_integers(f"cvt.dtype.atype d, a; .dtype = {_INT}; .atype = {_INT};")
def cvt_integer(op: Op, a: Lanes) -> Lanes:
    """Widen, or keep the low bits."""
    return a.astype(op.dtype.dtype)


@_of_integers(
    f"cvt.sat.dtype.atype d, a; .dtype = {_INT}; .atype = {_INT};",
    legal=lambda op: "every value fits: .sat has no effect" if _contains(op.dtype, op.atype) else None,
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


@_cvt(
    f"cvt.irnd{{.ftz}}{{.sat}}.dtype.atype d, a; .irnd = {{ .rni, .rzi, .rmi, .rpi }}; .dtype = {_INT}; .atype = {{ .f16, .bf16, .f32, .f64 }};",
    types=_PAIR,
    legal=_legal_float,
    gates=_BF16,
)
def cvt_to_integer(op: Op, a: Lanes) -> Lanes:
    """Round to an integer; out-of-range values clamp, with or without .sat."""
    if op.ftz:
        a = flush_subnormal(a)
    elif a.dtype == BF16:
        a = a.astype(F32)
    return convert.to_integer(a, op.dtype.dtype, op.irnd)


@_cvt(
    f"cvt.frnd{{.ftz}}{{.sat}}.dtype.atype d, a; .frnd = {{ .rn, .rz, .rm, .rp }}; .dtype = {{ .f16, .bf16, .f32, .f64 }}; .atype = {_INT};",
    types=_PAIR,
    legal=_legal_float,
    gates=_BF16,
)
def cvt_from_integer(op: Op, a: Lanes) -> Lanes:
    """Convert an integer, rounded."""
    r = convert.integer_to_float(a, op.dtype.dtype, op.frnd)
    return saturate(r) if op.sat else r


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


@_cvt(_SAME, gates=_BF16)
def cvt_same(op: Op, a: Lanes) -> Lanes:
    """Round to an integral value, flush or saturate, within one format."""
    if op.ftz:
        a = convert.canonical_single(flush_subnormal(a))
    r = convert.round_integral(a, op.irnd) if op.irnd else convert.float_to_float(a, a.dtype, "rn")
    return saturate(r) if op.sat else r


@_cvt(
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
    types={"d": lambda op: _named(op)[0]},
    gates=_BF16,
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
    return saturate(r) if op.sat else r


@_cvt(
    "cvt{.frnd}{.ftz}.f32.bf16 d, a; .frnd = { .rn, .rz, .rm, .rp };",
    types={"d": ".f32"},
    needs=(80, (7, 1)),
    gate=lambda op: (90, (7, 8)) if op.ftz else None,
)
def cvt_f32_bf16(op: Op, a: Lanes) -> Lanes:
    """Move bf16 to the upper half of an f32; NaN moves unchanged unless .ftz."""
    r = convert.float_to_float(a, F32, "rn")
    return convert.canonical_single(flush_subnormal(r)) if op.ftz else r


@_cvt("cvt.frnd{.ftz}.bf16.f32 d, a; .frnd = { .rn, .rz, .rm, .rp };", types={"d": ".bf16"}, needs=(80, (7, 0)))
def cvt_bf16_f32(op: Op, a: Lanes) -> Lanes:
    """Convert f32 to bf16."""
    return convert.to_half(flush_subnormal(a) if op.ftz else a, BF16, op.frnd)


def _named(op: Op) -> tuple[ScalarType, ScalarType]:
    target, source = [TYPES[word] for word in op.modifiers if word in TYPES]
    return target, source


BLACKWELL = ("100f", "110f", "120f")
_FINITE = {"satfinite": (80, (8, 1))}


def _fp8(block: str, types: dict[str, str]) -> Callable[[Function], Function]:
    """Declare a conversion of e4m3 and e5m2: since PTX 7.8 on sm_90, since 8.1 on sm_89."""
    on_90, on_89 = _cvt(block, types=types, needs=(90, (7, 8))), _cvt(block, types=types, needs=(89, (8, 1)))
    return lambda function: on_90(on_89(function))


@_cvt(
    "cvt.frnd{.relu}{.satfinite}.dtype.f32 d, a; .frnd = { .rn, .rz }; .dtype = { .f16, .bf16 };",
    types={"d": "dtype"},
    gate=lambda op: (
        (80, (8, 1))
        if op.satfinite and (op.relu or op.dtype.name == "bf16")
        else (70, (8, 1))
        if op.satfinite
        else (80, (7, 0))
    ),
)
def cvt_half(op: Op, a: Lanes) -> Lanes:
    """Convert f32 to a half; .relu clamps negative results to 0, .satfinite clamps to the finite range."""
    return convert.half_bits(a, op.dtype.name, op.frnd, relu=op.relu, finite=op.satfinite).view(op.dtype.dtype)


@_cvt(
    "cvt.frnd{.relu}{.satfinite}.dtype.f32 d, a, b; .frnd = { .rn, .rz }; .dtype = { .f16x2, .bf16x2 };",
    types={"d": "dtype"},
    needs=(80, (7, 0)),
    gates=_FINITE,
)
def cvt_half2(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Convert two f32 to packed halves, a in the upper one."""
    name = op.dtype.name[:-2]
    return join(*(convert.half_bits(x, name, op.frnd, relu=op.relu, finite=op.satfinite) for x in (b, a)))


_stochastic = functools.partial(_cvt, registers=("rbits",), needs=(("100a", "103a", "107a"), (8, 7)))


@_stochastic(
    "cvt.rs{.relu}{.satfinite}.dtype.f32 d, a, b, rbits; .dtype = { .f16x2, .bf16x2 };",
    types={"d": "dtype", "rbits": ".b32"},
)
def cvt_half2_stochastic(op: Op, a: Lanes, b: Lanes, rbits: Lanes) -> Lanes:
    """Convert two f32 to packed halves; the random bits of each are the low ones of its half of rbits."""
    name = op.dtype.name[:-2]
    n = 13 if name == "f16" else 16
    high, low = (
        convert.stochastic_bits(x, name, r, n, relu=op.relu, finite=op.satfinite)
        for x, r in ((a, rbits >> np.uint32(16)), (b, rbits))
    )
    return low | high << np.uint32(16)


_of_four = functools.partial(_stochastic, vectors={"a": 4}, checked_as={"a": ".f32"}, exact=("d",))


@_of_four(
    "cvt.rs{.relu}.satfinite.small.f32 d, a, rbits; .small = { .e4m3x4, .e5m2x4, .e2m3x4, .e3m2x4 };",
    types={"d": ".b32", "rbits": ".b32"},
)
def cvt_small_stochastic(op: Op, a: tuple[Lanes, ...], rbits: Lanes) -> Lanes:
    """Convert four f32 to packed 8-bit or 6-bit formats, the first in the upper part; the upper half of rbits rounds the first
    two, the lower half the others."""
    upper = rbits >> np.uint32(16)
    codes = [
        convert.stochastic_bits(x, op.small[:4], r, 16, relu=op.relu, finite=True)
        for x, r in zip(a, (upper, upper, rbits, rbits), strict=True)
    ]
    return codes[0] << np.uint32(24) | codes[1] << np.uint32(16) | codes[2] << np.uint32(8) | codes[3]


@_of_four("cvt.rs{.relu}.satfinite.e2m1x4.f32 d, a, rbits;", types={"d": ".b16", "rbits": ".b32"})
def cvt_fp4_stochastic(op: Op, a: tuple[Lanes, ...], rbits: Lanes) -> Lanes:
    """Convert four f32 to packed 4-bit values, the first in the upper part. The upper bytes of both halves of rbits round the
    first two, the lower bytes the others; which byte rounds which of two is not in the text (taken here: the upper half's the
    first)."""
    codes = [
        convert.stochastic_bits(x, "e2m1", rbits >> np.uint32(shift), 8, relu=op.relu, finite=True).astype(np.uint16)
        for x, shift in zip(a, (24, 8, 16, 0), strict=True)
    ]
    return codes[0] << np.uint16(12) | codes[1] << np.uint16(8) | codes[2] << np.uint16(4) | codes[3]


@_cvt(
    """
    cvt.rna{.satfinite}.tf32.f32           d, a;
    cvt.frnd{.relu}{.satfinite}.tf32.f32   d, a;
    .frnd = { .rn, .rz };
    """,
    relaxed=False,
    types={"d": ".b32"},
    exact=("d",),
    gate=lambda op: (
        ((80, (8, 1)) if op.satfinite else (80, (7, 0)))
        if op.rna
        else ((100, (8, 6)) if op.satfinite else (90, (7, 8)))
    ),
)
def cvt_tf32(op: Op, a: Lanes) -> Lanes:
    """Convert f32 to tf32."""
    return convert.tf32(a, op.frnd or "rna", relu=bool(op.relu), finite=op.satfinite)


_FP6 = "{ .e2m3x2, .e3m2x2 }"
NARROW = "{ .e4m3x2, .e5m2x2, .e2m3x2, .e3m2x2, .e2m1x2 }"


@_fp8(
    "cvt.rn.satfinite{.relu}.f8type.f32 d, a, b; .f8type = { .e4m3x2, .e5m2x2 };",
    types={"d": "f8type", "a": ".f32", "b": ".f32"},
)
@_fp8(
    "cvt.rn.satfinite{.relu}.f8type.f16x2 d, a; .f8type = { .e4m3x2, .e5m2x2 };", types={"d": "f8type", "a": ".f16x2"}
)
@_cvt(
    f"cvt.rn.satfinite{{.relu}}.f8type.f32 d, a, b; .f8type = {_FP6};",
    types={"d": "f8type", "a": ".f32", "b": ".f32"},
    needs=(BLACKWELL, (8, 6)),
)
@_cvt("cvt.rn.satfinite{.relu}.e2m1x2.f32 d, a, b;", types={"d": ".e2m1x2"}, needs=(BLACKWELL, (8, 6)))
@_cvt("cvt.rn.satfinite{.relu}.e2m1x2.f16x2 d, a;", types={"d": ".e2m1x2"}, needs=(BLACKWELL, (8, 6)))
@_cvt(
    f"cvt.rn.satfinite{{.relu}}.ntype.bf16x2 d, a; .ntype = {NARROW};",
    types={"d": "ntype", "a": ".b32"},
    needs=(BLACKWELL, (9, 1)),
)
@_cvt(
    f"cvt.rz.satfinite{{.relu}}.ntype.bf16x2 d, a; .ntype = {NARROW};",
    types={"d": "ntype", "a": ".b32"},
    needs=("107f", (9, 4)),
)
@_cvt(
    f"cvt.rn.satfinite{{.relu}}.ntype.f16x2 d, a; .ntype = {_FP6};",
    types={"d": "ntype", "a": ".f16x2"},
    needs=(BLACKWELL, (9, 1)),
)
@_cvt(
    f"cvt.rz.satfinite{{.relu}}.ntype.f16x2 d, a; .ntype = {NARROW};",
    types={"d": "ntype", "a": ".f16x2"},
    needs=("107f", (9, 4)),
)
@_cvt(
    f"cvt.rz.satfinite{{.relu}}.ntype.f32 d, a, b; .ntype = {NARROW};",
    types={"d": "ntype", "a": ".f32", "b": ".f32"},
    needs=("107f", (9, 4)),
)
def cvt_narrow(op: Op, a: Lanes, b: Lanes | None = None) -> Lanes:
    """Convert a pair of bf16 or f16, or two f32 with a in the upper part, to a narrow format."""
    parts = halves(a, BF16 if "bf16x2" in op.modifiers else F16) if b is None else (b, a)
    name, mode = _named(op)[0].name, "rz" if "rz" in op.modifiers else "rn"
    low, high = (convert.round_bits(x.astype(F32), name[:4], mode, finite=True, relu=op.relu) for x in parts)
    bits = 4 if name == "e2m1x2" else 8
    return (low | high << np.int64(bits)).astype(np.uint8 if bits == 4 else np.uint16)


@_fp8("cvt.rn{.relu}.f16x2.f8type d, a; .f8type = { .e4m3x2, .e5m2x2 };", types={"d": ".f16x2", "a": "f8type"})
@_cvt(
    f"cvt.rn{{.relu}}.f16x2.f8type d, a; .f8type = {_FP6};",
    types={"d": ".f16x2", "a": "f8type"},
    needs=(BLACKWELL, (8, 6)),
)
@_cvt("cvt.rn{.relu}.f16x2.e2m1x2 d, a;", types={"d": ".f16x2"}, needs=(BLACKWELL, (8, 6)))
def cvt_from_narrow(op: Op, a: Lanes) -> Lanes:
    """Convert a pair of a narrow format to two halves."""
    name = _named(op)[1].name
    bits = 4 if name == "e2m1x2" else 8
    low, high = a & a.dtype.type((1 << bits) - 1), a >> a.dtype.type(bits)
    return convert.small_to_half2(low, high, name[:4], relu=op.relu)


@_cvt(
    "cvt.frnd{.satfinite}.ue8m0x2.f32 d, a, b; .frnd = { .rz, .rp };",
    types={"d": ".ue8m0x2"},
    needs=(BLACKWELL, (8, 6)),
)
@_cvt(
    "cvt.frnd{.satfinite}.ue8m0x2.bf16x2 d, a; .frnd = { .rz, .rp };",
    types={"d": ".ue8m0x2"},
    checked_as={"a": ".b32"},
    registers=("a",),
    needs=(BLACKWELL, (8, 6)),
)
def cvt_scale(op: Op, a: Lanes, b: Lanes | None = None) -> Lanes:
    """Convert two bf16, or two f32 with a in the upper part, to packed powers of two."""
    parts = halves(a, BF16) if b is None else (b, a)
    low, high = (convert.to_ue8m0(x.astype(F32), op.frnd, finite=op.satfinite).astype(np.uint16) for x in parts)
    return low | high << np.uint16(8)


@_cvt("cvt.rn.bf16x2.ue8m0x2 d, a;", types={"d": ".bf16x2"}, checked_as={"d": ".b32"}, needs=(BLACKWELL, (8, 6)))
def cvt_from_scale(op: Op, a: Lanes) -> Lanes:
    """Convert packed powers of two to two bf16."""
    return join(*(convert.from_ue8m0(x) for x in (a & np.uint16(0xFF), a >> np.uint16(8))))


@instruction(
    """
    cvt.pack.sat.ctype.s32      d, a, b;       // two 16-bit values
    cvt.pack.sat.dtype.s32.b32  d, a, b, c;    // two narrower ones, below those of c
    .ctype = { .u16, .s16 };
    .dtype = { .u8, .s8, .u4, .s4, .u2, .s2 };
    """,
    anchor="data-movement-and-conversion-instructions-cvt-pack",
    types={"d": ".u32", "a": ".s32", "b": ".s32"},
    relaxed=True,
    needs=(72, (6, 5)),
    gates={"u4": (75, (6, 5)), "s4": (75, (6, 5)), "u2": (75, (6, 5)), "s2": (75, (6, 5))},
)
def cvt_pack(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> Lanes:
    """Clamp and pack a and b, a in the upper part; c moves up to make room."""
    name = str(op.ctype or op.dtype).lstrip(".")
    bits, signed = int(name[1:]), name[0] == "s"
    high, low = (convert.pack_saturated(x, bits, signed=signed) for x in (a, b))
    packed = low | high << np.uint32(bits)
    return packed if c is None else packed | c << np.uint32(2 * bits)
