"""Integers of 8 and 16 bits side by side, sums that saturate, and products without carries (PTX 9.2 and 9.3)."""

from __future__ import annotations

import functools

import numpy as np

from warpsim.isa.ports import Lanes
from warpsim.isa.spec import Op, instruction

_packed = functools.partial(
    instruction,
    chapter="integer-arithmetic-instructions",
    types=dict.fromkeys("dab", ".b32"),
    needs=(("107f", "120f"), (9, 2)),
)
_OF: dict[str, type[np.integer]] = {"u8x4": np.uint8, "s8x4": np.int8, "u16x2": np.uint16, "s16x2": np.int16}


def _parts(word: Lanes, kind: str) -> list[Lanes]:
    """The numbers in a register, as s32."""
    dtype = np.dtype(_OF[kind])
    shifts = range(0, 32, 8 * dtype.itemsize)
    return [(word >> np.uint32(shift)).astype(dtype).astype(np.int32) for shift in shifts]


def _packed_up(parts: list[Lanes], kind: str, *, clamped: bool) -> Lanes:
    """A register of numbers, of which the low bits count."""
    info, bits = np.iinfo(_OF[kind]), 32 // len(parts)
    out = np.zeros(1, np.uint32)
    for number, part in enumerate(parts):
        kept = np.minimum(np.maximum(part, np.int32(info.min)), np.int32(info.max)) if clamped else part
        out = out | (kept & np.int32((1 << bits) - 1)).astype(np.uint32) << np.uint32(bits * number)
    return out


@_packed("add{.sat}.kind d, a, b; sub{.sat}.kind d, a, b; .kind = { .u8x4, .s8x4 };")
@_packed("add.sat.kind d, a, b; .kind = { .u16x2, .s16x2 };")
def add_packed(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Sums or differences; with .sat, clamped to the range of their type."""
    pairs = zip(_parts(a, op.kind), _parts(b, op.kind), strict=True)
    parts = [x + y if op.text.startswith("add") else x - y for x, y in pairs]
    return _packed_up(parts, op.kind, clamped=op.sat)


@_packed("add.sat.u32 d, a, b;", types=dict.fromkeys("dab", ".u32"))
def add_saturating(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """The sum, at most the greatest number."""
    total = a + b
    return np.where(total < a, np.uint32(0xFFFFFFFF), total)


@_packed("min.u8x4 d, a, b; max.u8x4 d, a, b; min{.relu}.s8x4 d, a, b; max{.relu}.s8x4 d, a, b;")
def min_max_packed(op: Op, a: Lanes, b: Lanes) -> Lanes:
    """Minimum or maximum; .relu clamps negative results to 0."""
    kind = op.modifiers[-1]
    choose = np.minimum if op.text.startswith("min") else np.maximum
    parts = [choose(x, y) for x, y in zip(_parts(a, kind), _parts(b, kind), strict=True)]
    return _packed_up([np.maximum(p, np.int32(0)) for p in parts] if op.relu else parts, kind, clamped=False)


@_packed("neg.s8x4 d, a;")
def neg_packed(op: Op, a: Lanes) -> Lanes:
    """Arithmetic negation."""
    return _packed_up([-part for part in _parts(a, "s8x4")], "s8x4", clamped=False)


@instruction(
    "clmad.mode.u64 d, a, b, c; .mode = { .hi, .lo };",
    anchor="integer-arithmetic-instructions-clmad",
    types=dict.fromkeys("dabc", ".u64"),
    needs=(80, (9, 3)),
)
def clmad(op: Op, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Half of the product of two polynomials over two elements, plus c."""
    one, total = np.uint64(1), c
    for bit in range(0 if op.mode == "lo" else 1, 64):
        chosen = np.uint64(0) - (a >> np.uint64(bit) & one)
        total = total ^ (chosen & (b << np.uint64(bit) if op.mode == "lo" else b >> np.uint64(64 - bit)))
    return total
