"""Reductions of bulk copies: old and new elements, as bits, combined by an operation."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from warpsim.machine.values import Array

_BF16 = np.dtype(ml_dtypes.bfloat16)
_BY_DATA_TYPE = ("u1", "u2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "bf16", "f4", "f4", "f4")
"""In the order of `tensor_map.DATA_TYPES`."""
_BY_TYPE = {
    **{f"{k}{n}": f"{'i' if k == 's' else 'u'}{n // 8}" for k in "bsu" for n in (16, 32, 64)},
    **{"f16": "f2", "bf16": "bf16", "f32": "f4", "f64": "f8"},
}
_OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda a, b: a + b,
    "min": np.minimum,
    "max": np.maximum,
    "inc": lambda a, b: np.where(a >= b, a.dtype.type(0), a + a.dtype.type(1)),
    "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - a.dtype.type(1)),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def combine(data_type: int, operation: str, old: Array, new: Array) -> Array:
    """Elements of a tensor map's data type."""
    return _combine(_BY_DATA_TYPE[data_type], operation, old, new)


def combine_typed(operation: str, type: str, old: Array, new: Array) -> Array:
    """Bytes of elements of a PTX type."""
    return _combine(_BY_TYPE[type], operation, old, new)


def _combine(kind: str, operation: str, old: Array, new: Array) -> Array:
    dtype = _BF16 if kind == "bf16" else np.dtype(kind)
    with np.errstate(all="ignore"):
        result = _OPERATIONS[operation](np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(new).view(dtype))
    return np.ascontiguousarray(result.astype(dtype)).view(old.dtype).reshape(old.shape)
