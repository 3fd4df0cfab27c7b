"""How far a result may be from the exact one: error bounds that follow from an instruction's arithmetic, and exact
oracles.

A tensor core truncates every term of a block to a fixed number of fraction bits below the largest and rounds the sum
once (docs/numerics.md); a chain of fma rounds at each step. In both cases the sum of an element's term magnitudes
bounds its error, so no tolerance has to be guessed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warpsim.host.arrays import Array
from warpsim.host.device import Device
from warpsim.host.recipes import name_of
from warpsim.numerics import matrix

UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
"""Half a unit in the last place of a number near 1: the relative error of one round to nearest."""
LEAST = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
"""The smallest subnormal, which bounds the rounding error of tiny numbers."""


def _doubles(values: Any) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(np.float64)


def exact_matmul(a: Any, b: Any, c: Any = None) -> Array:
    """Compute ``a @ b + c`` as float64, each element the exact sum rounded once.

    Args:
        a: a matrix [m, k] of any float type up to float32, or of integers below 2**26, so that products are exact.
        b: a matrix [k, n] of the same kind.
        c: an addend [m, n].
    """
    left, right = _doubles(a), _doubles(b)
    added = (
        np.zeros((left.shape[0], right.shape[1]))
        if c is None
        else np.broadcast_to(_doubles(c), (left.shape[0], right.shape[1]))
    )
    for values in (a, b):
        if np.asarray(values).dtype == np.float64:
            raise TypeError(
                "products of float64 are not exact in float64: pass the narrower type that the kernel multiplies"
            )
    result = np.empty_like(added)
    with np.errstate(all="ignore"):
        for i, row in enumerate(left):
            terms = np.concatenate([row[:, None] * right, added[i][None, :]])
            for j, column in enumerate(terms.T.tolist()):
                result[i, j] = math.fsum(column) if all(map(math.isfinite, column)) else np.sum(terms[:, j])
    return result


def product_bound(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    result: str = "f32",
    sm: str = "sm_90a",
    instruction: str = "mma",
    parts: int = 1,
) -> Array:
    """Bound the error, per element, that matrix instructions may make in ``a @ b + c``.

    Args:
        a: the matrix [m, k] in the type that the instruction multiplies (float16, bfloat16, float32 for tf32, float8
            ...).
        b: the matrix [k, n], in the same type.
        c: the initial accumulator.
        result: the accumulator's type, f32 or f16.
        sm: the GPU.
        instruction: ``mma`` or ``wgmma`` (whose fp8 keeps 13 fraction bits), or ``fma`` for a chain in f32.
        parts: with split K, the number of partial sums that are added in f32 afterwards.
    """
    left, right = np.abs(_doubles(a)), np.abs(_doubles(b))
    start = (
        np.zeros((left.shape[0], right.shape[1]))
        if c is None
        else np.abs(np.broadcast_to(_doubles(c), (left.shape[0], right.shape[1])))
    )
    with np.errstate(all="ignore"):
        total = left @ right + start
    length = left.shape[1]
    rounding = 2 * UNIT[result]  # toward zero, or twice to nearest
    if instruction == "fma":
        blocks, each = length, UNIT["f32"]
    else:
        name = name_of(np.asarray(a).dtype) or "f32"
        narrow = name in ("e4m3", "e5m2")
        unit = matrix.WGMMA_FP8 if narrow and instruction == "wgmma" else matrix.unit_of(Device(sm).sm)
        size = max(unit.block_bytes // {"f32": 4, "f16": 2, "bf16": 2}.get(name, 1), 1)
        size = min(size, {"f32": 4, "f16": 4, "bf16": 4}.get(name, size))  # the smallest block of any shape of the type
        blocks = -(-length // size)
        cut = 2.0**-unit.fraction * 2  # a product's significand reaches 4
        each = (size + 1) * cut + (2.0**-13 if unit is matrix.WGMMA_FP8 else rounding)
    growth = blocks * each + parts * UNIT["f32"] * 2
    return total * growth * (1 + growth) + (blocks + parts) * LEAST[result]


def sum_bound(values: Any, axis: int | tuple[int, ...] | None = None, *, dtype: str = "f32") -> Array:
    """Bound the error of a sum in any order, with every addition rounded to nearest."""
    magnitudes = np.abs(_doubles(values))
    total = np.asarray(magnitudes.sum(axis=axis))
    terms = magnitudes.size // max(total.size, 1)
    growth = max(terms - 1, 0) * UNIT[dtype]
    return total * growth * (1 + growth) + terms * LEAST[dtype]
