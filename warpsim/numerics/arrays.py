"""Halves of packed registers, small reductions with little call overhead, functions that NumPy lacks, and large
temporaries for reuse, because fresh ones cost page faults."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

KEPT = 1 << 22
"""Largest array that is kept, in elements."""
VIEWS = 256
"""Number of shapes in which the arrays are kept: the next step takes the same ones."""


class _Workspace(threading.local):
    """Arrays by name; each thread has its own."""

    def __init__(self) -> None:
        self.buffers: dict[str, Array] = {}
        self.views: dict[tuple[str, tuple[int, ...]], Array] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """An uninitialised array. A name always has the same dtype. The array is valid until the name is taken again."""
        view = self.views.get((name, shape))
        return self._view(name, shape, dtype) if view is None else view

    def _view(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        size = 1
        for extent in shape:
            size *= extent
        if size > KEPT:
            return np.empty(shape, dtype)
        found = self.buffers.get(name)
        if found is None or found.size < size:
            found = self.buffers[name] = np.empty(size, dtype)
            self.views = {key: view for key, view in self.views.items() if key[0] != name}
        if len(self.views) >= VIEWS:
            self.views.clear()
        view = self.views[name, shape] = found[:size].reshape(shape)
        return view


WORKSPACE = _Workspace()


FEW = 4096
"""Largest number of lanes for which this pays."""


def few(x: object) -> bool:
    """Whether a value is a small array (and not a stand-in for one)."""
    return type(x) is np.ndarray and 0 < x.size <= FEW


def least(x: Array) -> float:
    """The least element of a small array; NaN if it contains one."""
    return x.item(x.argmin())


def some(mask: Array) -> bool:
    """Whether a mask is true anywhere. Its bytes are searched in a quarter of the time of `numpy.any`."""
    return 1 in mask.tobytes() if type(mask) in (np.ndarray, np.bool_) else bool(mask.any())


Array = NDArray[Any]
DType: TypeAlias = "np.dtype[Any]"
BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
EXPONENT = {F16: 0x7C00, BF16: 0x7F80, F32: 0x7F800000, F64: 0x7FF0000000000000}
"""The exponent field; a larger magnitude is a NaN."""
SIGN = {F16: 0x8000, BF16: 0x8000, F32: 0x80000000, F64: 0x8000000000000000}


def halves(a: Array, dtype: DType | str) -> tuple[Array, Array]:
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


Function = TypeVar("Function", bound=Callable[..., Any])


def overridable(function: Function) -> Function:
    """An operand with ``__array_function__`` that is no array computes the function itself, as in NumPy."""

    @functools.wraps(function)
    def call(*operands: object, **options: object) -> Any:
        for x in operands:
            if type(x) is not np.ndarray and hasattr(x, "__array_function__") and not isinstance(x, np.ndarray):
                return x.__array_function__(call, (type(x),), operands, options)
        return function(*operands, **options)

    return call  # type: ignore[return-value]


_VIEW, _READ = ("multi_index", "zerosize_ok"), ["readonly"]


def spread(array: Array, shape: tuple[int, ...]) -> Array:
    """As `numpy.broadcast_to`, in a third of its time, and none where an array has the shape already."""
    if type(array) is not np.ndarray:
        return np.broadcast_to(array, shape)
    if array.shape == shape:
        return array
    view: Array = np.nditer(array, _VIEW, _READ, None, "C", "safe", None, shape).itviews[0]  # type: ignore[call-overload]
    return view


def distinct(values: Array) -> Array:
    """The different elements, ascending, as by `numpy.unique`, whose first call in a process imports masked arrays for 10 ms."""
    found = values.flatten()
    found.sort()
    kept = np.empty(found.shape, np.bool_)
    kept[:1] = True
    np.not_equal(found[1:], found[:-1], out=kept[1:])
    return found[kept]


def among(values: Array, ascending: Array) -> Array:
    """A mask of the values that are among others, which ascend."""
    if not ascending.size:
        return np.zeros(values.shape, np.bool_)
    found: Array = ascending.take(ascending.searchsorted(values), mode="clip") == values
    return found


@overridable
def lookup(table: Array, index: Array) -> Array:
    """``table[index]``: the element that each lane's index names."""
    return table[index]
