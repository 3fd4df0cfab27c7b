"""cvt to and from narrow formats, clamped and packed, and cvt.pack (PTX ISA: Data Movement and Conversion
Instructions).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.isa.convert import CONVERTS, CVT, takes_wider
from warpsim.isa.registry import instruction
from warpsim.isa.spec import Op
from warpsim.numerics import convert
from warpsim.numerics.bits import BF16, F32, halves

Lanes = Any
_BLACKWELL = ("100f", "110f", "120f")
_FINITE = {"satfinite": (80, (8, 1))}


def _fp8(syntax: str, **options: Any) -> Callable[[Any], Any]:
    """Declare a conversion of e4m3 and e5m2: since PTX 7.8 on sm_90, since 8.1 on sm_89."""

    def declare(function: Any) -> Any:
        for target, version in ((89, (8, 1)), (90, (7, 8))):
            function = instruction(syntax, anchor=CVT, target=target, version=version, traits=CONVERTS, **options)(
                function
            )
        return function

    return declare


@instruction(
    "cvt.frnd{.relu}{.satfinite}.dtype.f32 d, a; .frnd = { .rn, .rz }; .dtype = { .f16, .bf16 };",
    anchor=CVT,
    types={"d": "dtype", "a": ".f32"},
    relaxed=takes_wider,
    gate=lambda op: (
        (80, (8, 1))
        if op.satfinite and (op.relu or op.dtype.name == "bf16")
        else (70, (8, 1))
        if op.satfinite
        else (80, (7, 0))
    ),
    traits=CONVERTS,
)
def cvt_half(op: Op, a: Lanes) -> Lanes:
    """Convert f32 to a half; .relu clamps negative results to 0, .satfinite clamps to the finite range."""
    return convert.half_bits(a, op.dtype.name, op.frnd, relu=op.relu, finite=op.satfinite).view(op.dtype.dtype)


@instruction(
    "cvt.frnd{.relu}{.satfinite}.dtype.f32 d, a, b; .frnd = { .rn, .rz }; .dtype = { .f16x2, .bf16x2 };",
    anchor=CVT,
    types={"d": "dtype", "a": ".f32", "b": ".f32"},
    relaxed=takes_wider,
    version=(7, 0),
    target=80,
    gates=_FINITE,
    traits=CONVERTS,
)
def cvt_half2(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Convert two f32 to packed halves, a in the upper one."""
    name = op.dtype.name[:-2]
    high, low = (
        convert.half_bits(x, name, op.frnd, relu=op.relu, finite=op.satfinite).astype(np.uint32) for x in (a, b)
    )
    return low | high << np.uint32(16)


@instruction(
    """
    cvt.rna{.satfinite}.tf32.f32           d, a;
    cvt.frnd{.relu}{.satfinite}.tf32.f32   d, a;
    .frnd = { .rn, .rz };
    """,
    anchor=CVT,
    types={"d": ".b32", "a": ".f32"},
    exact=("d",),
    gate=lambda op: (
        ((80, (8, 1)) if op.satfinite else (80, (7, 0)))
        if op.rna
        else ((100, (8, 6)) if op.satfinite else (90, (7, 8)))
    ),
    traits=CONVERTS,
)
def cvt_tf32(op: Op, a: Lanes) -> Lanes:
    """Convert f32 to tf32."""
    return convert.tf32(a, op.frnd or "rna", relu=bool(op.relu), finite=op.satfinite)


@_fp8(
    "cvt.rn.satfinite{.relu}.f8type.f32 d, a, b; .f8type = { .e4m3x2, .e5m2x2 };",
    types={"d": "f8type", "a": ".f32", "b": ".f32"},
    relaxed=takes_wider,
)
@instruction(
    "cvt.rn.satfinite{.relu}.f8type.f32 d, a, b; .f8type = { .e2m3x2, .e3m2x2 };",
    anchor=CVT,
    types={"d": "f8type", "a": ".f32", "b": ".f32"},
    relaxed=takes_wider,
    arch=_BLACKWELL,
    version=(8, 6),
    traits=CONVERTS,
)
def cvt_small(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Convert two f32 to packed 8-bit or 6-bit formats, a in the upper part."""
    high, low = (convert.small_bits(x, op.f8type.name[:4], relu=op.relu).astype(np.uint16) for x in (a, b))
    return low | high << np.uint16(8)


@_fp8(
    "cvt.rn.satfinite{.relu}.f8type.f16x2 d, a; .f8type = { .e4m3x2, .e5m2x2 };",
    types={"d": "f8type", "a": ".f16x2"},
    relaxed=takes_wider,
)
def cvt_small_half(op: Op, a: Lanes) -> Lanes:
    """Convert two halves to packed 8-bit formats."""
    low, high = convert.half2_to_single(a)
    return cvt_small(op, high, low)


@_fp8(
    "cvt.rn{.relu}.f16x2.f8type d, a; .f8type = { .e4m3x2, .e5m2x2 };",
    types={"d": ".f16x2", "a": "f8type"},
    relaxed=takes_wider,
)
@instruction(
    "cvt.rn{.relu}.f16x2.f8type d, a; .f8type = { .e2m3x2, .e3m2x2 };",
    anchor=CVT,
    types={"d": ".f16x2", "a": "f8type"},
    relaxed=takes_wider,
    arch=_BLACKWELL,
    version=(8, 6),
    traits=CONVERTS,
)
def cvt_from_small(op: Op, a: Lanes) -> Lanes:
    """Convert packed 8-bit or 6-bit formats to two halves."""
    return convert.small_to_half2(a & np.uint16(0xFF), a >> np.uint16(8), op.f8type.name[:4], relu=op.relu)


@instruction(
    "cvt.rn.satfinite{.relu}.e2m1x2.f32 d, a, b;",
    anchor=CVT,
    types={"d": ".e2m1x2", "a": ".f32", "b": ".f32"},
    arch=_BLACKWELL,
    version=(8, 6),
    traits=CONVERTS,
)
def cvt_fp4(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Convert two f32 to packed 4-bit values, a in the upper part."""
    high, low = (convert.small_bits(x, "e2m1", relu=op.relu) for x in (a, b))
    return low | high << np.uint8(4)


@instruction(
    "cvt.rn.satfinite{.relu}.e2m1x2.f16x2 d, a;",
    anchor=CVT,
    types={"d": ".e2m1x2", "a": ".f16x2"},
    arch=_BLACKWELL,
    version=(8, 6),
    traits=CONVERTS,
)
def cvt_fp4_half(op: Op, a: Lanes) -> Lanes:
    """Convert two halves to packed 4-bit values."""
    low, high = convert.half2_to_single(a)
    return cvt_fp4(op, high, low)


@instruction(
    "cvt.rn{.relu}.f16x2.e2m1x2 d, a;",
    anchor=CVT,
    types={"d": ".f16x2", "a": ".e2m1x2"},
    arch=_BLACKWELL,
    version=(8, 6),
    traits=CONVERTS,
)
def cvt_from_fp4(op: Op, a: Lanes) -> Lanes:
    """Convert packed 4-bit values to two halves."""
    return convert.small_to_half2(a & np.uint8(15), a >> np.uint8(4), "e2m1", relu=op.relu)


@instruction(
    "cvt.frnd{.satfinite}.ue8m0x2.f32 d, a, b; .frnd = { .rz, .rp };",
    anchor=CVT,
    types={"d": ".ue8m0x2", "a": ".f32", "b": ".f32"},
    relaxed=takes_wider,
    arch=_BLACKWELL,
    version=(8, 6),
    traits=CONVERTS,
)
def cvt_scale(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Convert two f32 to packed powers of two, a in the upper part."""
    high, low = (convert.to_ue8m0(x, op.frnd, finite=op.satfinite).astype(np.uint16) for x in (a, b))
    return low | high << np.uint16(8)


@instruction(
    "cvt.frnd{.satfinite}.ue8m0x2.bf16x2 d, a; .frnd = { .rz, .rp };",
    anchor=CVT,
    types={"d": ".ue8m0x2", "a": ".bf16x2"},
    checked_as={"a": ".b32"},
    relaxed=takes_wider,
    arch=_BLACKWELL,
    version=(8, 6),
    traits=CONVERTS,
)
def cvt_scale_bf16(op: Op, a: Lanes) -> Lanes:
    """Convert two bf16 to packed powers of two."""
    low, high = halves(a, BF16)
    return cvt_scale(op, high.astype(F32), low.astype(F32))


@instruction(
    "cvt.rn.bf16x2.ue8m0x2 d, a;",
    anchor=CVT,
    types={"d": ".bf16x2", "a": ".ue8m0x2"},
    checked_as={"d": ".b32"},
    relaxed=takes_wider,
    arch=_BLACKWELL,
    version=(8, 6),
    traits=CONVERTS,
)
def cvt_from_scale(op: Op, a: Lanes) -> Lanes:
    """Convert packed powers of two to two bf16."""
    low, high = (convert.from_ue8m0(x).astype(np.uint32) for x in (a & np.uint16(0xFF), a >> np.uint16(8)))
    return low | high << np.uint32(16)


@instruction(
    """
    cvt.pack.sat.ctype.s32      d, a, b;       // two 16-bit values
    cvt.pack.sat.dtype.s32.b32  d, a, b, c;    // two narrower ones, below those of c
    .ctype = { .u16, .s16 };
    .dtype = { .u8, .s8, .u4, .s4, .u2, .s2 };
    """,
    anchor="data-movement-and-conversion-instructions-cvt-pack",
    types={"d": ".u32", "a": ".s32", "b": ".s32", "c": ".b32"},
    relaxed=True,
    version=(6, 5),
    target=72,
    gates={"u4": (75, (6, 5)), "s4": (75, (6, 5)), "u2": (75, (6, 5)), "s2": (75, (6, 5))},
    traits=CONVERTS,
)
def cvt_pack(op: Op, a: Lanes, b: Lanes, c: Lanes | None = None) -> Lanes:
    """Clamp and pack a and b, a in the upper part; c moves up to make room."""
    name = str(op.ctype or op.dtype).lstrip(".")
    bits, signed = int(name[1:]), name[0] == "s"
    high, low = (convert.pack_saturated(x, bits, signed=signed) for x in (a, b))
    packed = low | high << np.uint32(bits)
    return packed if c is None else packed | c << np.uint32(2 * bits)
