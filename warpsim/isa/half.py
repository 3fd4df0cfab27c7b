"""Half-precision arithmetic: f16, bf16 and their packed pairs (PTX ISA: Half Precision Floating-Point Instructions)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import ml_dtypes
import numpy as np

from warpsim.isa.floating import contractible, extremes
from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Op, instruction
from warpsim.numerics import approx, convert, floating
from warpsim.numerics.arrays import flush_subnormal, halves, join
from warpsim.numerics.floating import odd_sum, saturate

_half = functools.partial(instruction, chapter="half-precision-floating-point-instructions")

F16, BF16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
_TYPES = ".type = { .f16, .f16x2, .bf16, .bf16x2 };"
_FLOATS = ".type = { .f16, .f16x2 };"
_BRAINS = ".type = { .bf16, .bf16x2 };"
_GATES = {"bf16": (90, (7, 8)), "bf16x2": (90, (7, 8)), "f16": (53, (4, 2)), "f16x2": (53, (4, 2))}


def _split(op: Op, value: Lanes) -> list[Lanes]:
    half = BF16 if op.type.name.startswith("bf16") else F16
    return [*halves(value, half)] if op.type.name.endswith("x2") else [value.view(half)]


def _join(op: Op, parts: list[Lanes]) -> Lanes:
    return parts[0] if len(parts) == 1 else join(*parts)


def _each(op: Op, function: Callable[..., Lanes], *values: Lanes) -> Lanes:
    out = []
    for parts in zip(*[_split(op, v) for v in values], strict=True):
        half = parts[0].dtype
        inputs = [flush_subnormal(p) if op.get("ftz") and half == F16 else p for p in parts]
        wide = function(*[p.astype(np.float32).astype(np.float64) for p in inputs])
        r = convert.to_half(wide, half, "rn")
        if op.get("ftz") and half == F16:
            r = flush_subnormal(r)
        bits = r.view(np.uint16)
        infinity = 0x7C00 if half == F16 else 0x7F80
        nan = (bits & 0x7FFF) > infinity
        if op.get("sat"):
            one = np.uint16(0x3C00 if half == F16 else 0x3F80)
            bits = np.where(nan | (bits >> 15 != 0), np.uint16(0), np.minimum(bits, one))
        elif op.get("relu"):
            bits = np.where((bits >> 15 != 0) & ~nan, np.uint16(0), bits)
        out.append(bits.astype(np.uint16).view(half))
    return _join(op, out)


@_half(f"add{{.rn}}.type d, a, b; sub{{.rn}}.type d, a, b; {_BRAINS}", gates=_GATES, traits=contractible)
@_half(
    f"add{{.rn}}{{.ftz}}{{.sat}}.type d, a, b; sub{{.rn}}{{.ftz}}{{.sat}}.type d, a, b; {_FLOATS}",
    gates=_GATES,
    traits=contractible,
)
def add_sub(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """a + b and a - b."""
    if op.text.startswith("sub"):
        return _each(op, lambda x, y: odd_sum(x, -y), a, b)
    return _each(op, odd_sum, a, b)


@_half(f"mul{{.rn}}.type d, a, b; {_BRAINS}", gates=_GATES, traits=contractible)
@_half(f"mul{{.rn}}{{.ftz}}{{.sat}}.type d, a, b; {_FLOATS}", gates=_GATES, traits=contractible)
def mul(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """a * b."""
    return _each(op, lambda x, y: x * y, a, b)


_BF16_GATES = {"bf16": (80, (7, 0)), "bf16x2": (80, (7, 0))}


@_half(
    f"fma.rn{{.relu}}.type d, a, b, c; {_BRAINS}",  # other rounding modes assemble, but multiply as .f16 on an H100
    gates=_BF16_GATES,
)
@_half(
    f"fma.rn{{.ftz}}{{.sat}}.type d, a, b, c; fma.rn{{.ftz}}{{.relu}}.type d, a, b, c; {_FLOATS}",
    gates={"f16": (53, (4, 2)), "f16x2": (53, (4, 2)), "relu": (80, (7, 0))},
)
def fma(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c, rounded once."""
    return _each(op, lambda x, y, z: odd_sum(x * y, z), a, b, c)


@_half(f"fma.rn.oob{{.relu}}.type d, a, b, c; {_BRAINS}", needs=(90, (8, 1)))
@_half(f"fma.rn.oob{{.relu}}.type d, a, b, c; fma.rn.oob{{.sat}}.type d, a, b, c; {_FLOATS}", needs=(90, (8, 1)))
def fma_oob(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c, or +0 where a or b is the NaN that tensor copies fill with: 0x7FF7 of either sign (observed on an
    H200)."""
    out = []
    for r, x, y in zip(_split(op, fma(op, a, b, c)), _split(op, a), _split(op, b), strict=True):
        outside = (x.view(np.uint16) & 0x7FFF == 0x7FF7) | (y.view(np.uint16) & 0x7FFF == 0x7FF7)
        out.append(np.where(outside, np.uint16(0), r.view(np.uint16)).view(r.dtype))
    return _join(op, out)


@_half(f"neg.type d, a; abs.type d, a; {_BRAINS}", gates=_BF16_GATES, traits=contractible)
@_half(
    f"neg{{.ftz}}.type d, a; abs{{.ftz}}.type d, a; {_FLOATS}",
    gate=lambda op: (53, (6, 5) if op.text.startswith("abs") else (6, 0)),
    traits=contractible,
)
def sign(op: Op, a: Lanes) -> Lanes:
    """Negation and absolute value."""
    out = []
    for part in _split(op, a):
        half = part.dtype
        bits = (flush_subnormal(part) if op.ftz else part).view(np.uint16)
        nan = (bits & 0x7FFF) > (0x7C00 if half == F16 else 0x7F80)
        bits = bits & np.uint16(0x7FFF) if op.text.startswith("abs") else bits ^ np.uint16(0x8000)
        out.append(np.where(nan, np.uint16(0x7FFF), bits).astype(np.uint16).view(half))
    return _join(op, out)


_XORSIGN = {"xorsign": (86, (7, 2))}


@_half(
    f"min{{.NaN}}{{.xorsign.abs}}.type d, a, b; max{{.NaN}}{{.xorsign.abs}}.type d, a, b; {_BRAINS}",
    needs=(80, (7, 0)),
    gates=_XORSIGN,
)
@_half(
    f"min{{.ftz}}{{.NaN}}{{.xorsign.abs}}.type d, a, b; max{{.ftz}}{{.NaN}}{{.xorsign.abs}}.type d, a, b; {_FLOATS}",
    needs=(80, (7, 0)),
    gates=_XORSIGN,
)
def min_max(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Minimum or maximum; a number wins over a NaN, unless .NaN."""
    return _each(op, functools.partial(extremes, op), a, b)


@_half("ex2.approx.type d, a; tanh.approx.type d, a; .type = { .f16, .f16x2 };", needs=(75, (7, 0)))
@_half("ex2.approx.ftz.type d, a; tanh.approx.type d, a; .type = { .bf16, .bf16x2 };", needs=(90, (7, 8)))
def approximate(op: Op, a: Lanes) -> Lanes:
    """The f32 unit on widened halves, truncated."""
    unit = approx.ex2_ftz if op.text.startswith("ex2") else approx.tanh
    truncate = approx.truncate_bf16 if op.type.name.startswith("bf16") else approx.truncate_f16
    return _join(op, [truncate(unit(p.astype(np.float32))).view(p.dtype) for p in _split(op, a)])


@instruction(
    """
    add{.rnd}{.sat}.f32.atype d, a, c;
    sub{.rnd}{.sat}.f32.atype d, a, c;
    fma.rnd{.sat}.f32.atype     d, a, b, c;
    .rnd = { .rn, .rz, .rm, .rp }; .atype = { .f16, .bf16 };
    """,
    anchor="mixed-precision-floating-point-instructions-fma",
    types={"d": ".f32", "c": ".f32"},
    checked_as=dict.fromkeys("ab", lambda op: ".u16" if op.atype.name == "bf16" else None),
    needs=(100, (8, 6)),
    traits=contractible,
)
def mixed(op: Op, a: Lanes, c: Lanes, b: Lanes | None = None) -> Lanes:
    """f32 arithmetic on operands that are widened first."""
    wide = a.astype(np.float32)
    if b is not None:
        r = floating.fma(wide, b.astype(np.float32), c, op.rnd)
    else:
        r = floating.add(wide, -c if op.text.startswith("sub") else c, op.rnd or "rn")
    return saturate(r) if op.sat else r
