"""Conversions of pairs that came with PTX 9.1, 9.2 and 9.4: to bf16x2, from and to fixed point, scale factors.

Nothing but the manual says what they give; no assembler here takes them.
"""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.convert import BLACKWELL, CVT, NARROW
from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Op, instruction
from warpsim.numerics import convert
from warpsim.numerics.arrays import BF16, F16, F32, halves, join

_GREATEST = float(np.finfo(np.float32).max)
_FIXED = (("100a", "103a", "107a", "110a", "120a", "121a"), (9, 1))
_cvt = functools.partial(instruction, anchor=CVT, relaxed=False)


def _factors(scale: Lanes | None, *, inverse: bool = False) -> list[Lanes]:
    """The two scale factors in a register as f64, or what divides by them; 0xFF is NaN."""
    if scale is None:
        return [np.ones(1, np.float64)] * 2
    codes = [(scale >> np.uint16(shift) & np.uint16(0xFF)).astype(np.int64) for shift in (0, 8)]
    exponents = [1023 + 127 - code if inverse else 1023 - 127 + code for code in codes]
    powers = [(exponent << np.int64(52)).view(np.float64) for exponent in exponents]
    return [np.where(code == 0xFF, np.float64(np.nan), power) for code, power in zip(codes, powers, strict=True)]


def _bf16_pair(op: Op, values: list[Lanes], scale: Lanes | None) -> Lanes:
    """Two f64 times their scale factors, rounded to bf16: f32 holds them, and those beyond round to infinity as its greatest does."""
    products = [v * f for v, f in zip(values, _factors(scale), strict=True)]
    singles = [np.minimum(np.maximum(p, -_GREATEST), _GREATEST).astype(F32) for p in products]
    return join(*(convert.half_bits(x, "bf16", "rn", relu=op.relu, finite=op.satfinite) for x in singles))


@_cvt(
    f"""
    cvt.rn{{.satfinite}}{{.relu}}.bf16x2.ntype d, a;
    cvt.rn{{.satfinite}}{{.relu}}.scaled::n2::ue8m0.bf16x2.ntype d, a, scale;
    .ntype = {NARROW};
    """,
    types={"d": ".b32", "a": "ntype", "scale": ".b16"},
    needs=(BLACKWELL, (9, 2)),
)
def cvt_bf16_narrow(op: Op, a: Lanes, scale: Lanes | None = None) -> Lanes:
    """Convert a pair of a narrow format to two bf16, times their scale factors."""
    name, bits = op.ntype.name, 4 if op.ntype.name == "e2m1x2" else 8
    codes = [a >> a.dtype.type(shift) & a.dtype.type((1 << bits) - 1) for shift in (0, bits)]
    values = [convert.to_f16(code, name[:4]).view(F16).astype(np.float64) for code in codes]
    return _bf16_pair(op, values, scale)


_FIXED_GATES = {"rz": (None, (9, 4))}


@_cvt(
    """
    cvt.frnd.satfinite{.relu}.s2f6x2.f32 d, a, b;
    cvt.frnd.satfinite{.relu}.scaled::n2::ue8m0.s2f6x2.f32 d, a, b, scale;
    .frnd = { .rn, .rz };
    """,
    types={"d": ".b16", "a": ".f32", "b": ".f32", "scale": ".b16"},
    needs=_FIXED,
    gates=_FIXED_GATES,
)
@_cvt(
    """
    cvt.frnd.satfinite{.relu}.s2f6x2.bf16x2 d, a;
    cvt.frnd.satfinite{.relu}.scaled::n2::ue8m0.s2f6x2.bf16x2 d, a, scale;
    .frnd = { .rn, .rz };
    """,
    types={"d": ".b16", "a": ".b32", "scale": ".b16"},
    needs=_FIXED,
    gates=_FIXED_GATES,
)
def cvt_fixed(op: Op, a: Lanes, b: Lanes | None = None, scale: Lanes | None = None) -> Lanes:
    """Convert a pair of bf16, or two f32 with a in the upper part, divided by their scale factors, to fixed point: 64ths of at
    most 8 bits; NaN is the greatest."""
    parts = halves(a, BF16) if b is None else (b, a)
    mode, codes = "rzi" if op.frnd == "rz" else "rni", []
    for part, factor in zip(parts, _factors(scale, inverse=True), strict=True):
        scaled = part.astype(F32).astype(np.float64) * factor * 64.0
        code = np.where(scaled != scaled, np.int8(127), convert.to_integer(scaled, np.dtype(np.int8), mode))
        codes.append((np.maximum(code, np.int8(0)) if op.relu else code).view(np.uint8).astype(np.uint16))
    return codes[0] | codes[1] << np.uint16(8)


@_cvt(
    """
    cvt.rn{.satfinite}{.relu}.bf16x2.s2f6x2 d, a;
    cvt.rn{.satfinite}{.relu}.scaled::n2::ue8m0.bf16x2.s2f6x2 d, a, scale;
    """,
    types={"d": ".b32", "a": ".b16", "scale": ".b16"},
    needs=_FIXED,
)
def cvt_from_fixed(op: Op, a: Lanes, scale: Lanes | None = None) -> Lanes:
    """Convert two numbers of fixed point to bf16, times their scale factors."""
    codes = [(a >> np.uint16(shift)).astype(np.uint8).view(np.int8) for shift in (0, 8)]
    return _bf16_pair(op, [code.astype(np.float64) / 64.0 for code in codes], scale)
