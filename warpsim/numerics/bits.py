"""Halves of packed registers, and helpers of small formats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
EXPONENT = {F16: 0x7C00, BF16: 0x7F80, F32: 0x7F800000, F64: 0x7FF0000000000000}
"""The exponent field; a larger magnitude is a NaN."""
SIGN = {F16: 0x8000, BF16: 0x8000, F32: 0x80000000, F64: 0x8000000000000000}


def halves(a: Array, dtype: np.dtype[Any] | str) -> tuple[Array, Array]:
    """The lower and the upper 16 bits of u32 registers, as a 16-bit type."""
    return a.astype(np.uint16).view(dtype), (a >> np.uint32(16)).astype(np.uint16).view(dtype)


def join(low: Array, high: Array) -> Array:
    """Two 16-bit arrays as u32 registers."""
    return low.view(np.uint16).astype(np.uint32) | (high.view(np.uint16).astype(np.uint32) << np.uint32(16))


def words(x: Array) -> Array:
    """View a floating-point array as unsigned integers."""
    return x.view(f"u{x.dtype.itemsize}")


def flush_subnormal(x: Array) -> Array:
    """Replace subnormal f16, f32 and f64 values by zeros of the same sign."""
    u = words(x)
    exponent, sign = u.dtype.type(EXPONENT[x.dtype]), u.dtype.type(SIGN[x.dtype])
    small = (u & exponent) == 0
    return np.where(small, u & sign, u).view(x.dtype)
