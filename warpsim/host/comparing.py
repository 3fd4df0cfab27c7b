"""Compares two arrays element by element: bits, units in the last place, and tolerance."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from warpsim.host.arrays import Array
from warpsim.host.recipes import LOGICAL


@attrs.frozen
class OutputResult:
    """How one output compares with its recording."""

    buffer: str
    ok: bool
    bits_equal: bool
    differing: int
    max_ulp: int | None
    first: dict[str, Any] | None


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether elements are floating-point numbers of NumPy or ml_dtypes (most ml_dtypes types have no kind)."""
    if dtype.kind in "fV" and dtype.names is None:
        try:
            ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        except (ValueError, TypeError):
            return False
        return True
    return False


def bits_of(values: Array) -> Array:
    """The elements' bits as unsigned integers, or as rows of bytes (one more axis) for other element sizes."""
    values = np.ascontiguousarray(values)
    if values.dtype.itemsize in (1, 2, 4, 8):
        return values.view(f"u{values.dtype.itemsize}")
    return values.reshape(*values.shape, 1).view(np.uint8)


class Comparison:
    """Compares ``got`` with ``expected``: two arrays of the same shape and element type."""

    def __init__(self, name: str, got: Array, expected: Array, check: dict[str, Any] | None = None) -> None:
        self.name, self.check = name, check or {"mode": "bits"}
        self.got, self.expected = np.ascontiguousarray(got), np.ascontiguousarray(expected)
        if self.check.get("mode") == "set":
            unsigned = [np.sort(bits_of(a).reshape(-1)) for a in (self.got, self.expected)]
            self.got, self.expected = (u.view(expected.dtype) for u in unsigned)

    @cached_property
    def floats(self) -> tuple[Array, Array] | None:
        """Both as float64, which represents every narrower float exactly; None if the elements are not floats."""
        if not is_float(self.expected.dtype):
            return None
        with np.errstate(all="ignore"):  # signalling NaNs
            return self.got.astype(np.float64), self.expected.astype(np.float64)

    @cached_property
    def differs(self) -> Array:
        """Mask of elements whose bits differ; with ``nan: any``, two NaNs are equal."""
        a, b = bits_of(self.got), bits_of(self.expected)
        different: Array = np.asarray(a != b)
        if different.ndim > self.expected.ndim:
            different = np.asarray(different.any(axis=-1))
        if self.check.get("nan") == "any" and self.floats is not None:
            different = different & ~(np.isnan(self.floats[0]) & np.isnan(self.floats[1]))
        return different

    @cached_property
    def count(self) -> int:
        """Number of elements that differ."""
        return int(np.count_nonzero(self.differs))

    @cached_property
    def wrong(self) -> Array:
        """Mask of elements that differ by more than the tolerance."""
        if self.check.get("mode") != "close" or self.floats is None:
            return self.differs
        have, want = self.floats
        both = np.isnan(want) & np.isnan(have)
        atol, rtol = np.asarray(self.check.get("atol", 0.0)), self.check.get("rtol", 0.0)
        with np.errstate(all="ignore"):
            near = (np.abs(have - want) <= atol + rtol * np.abs(want)) & np.isfinite(want)
        if "ulps" in self.check:
            near = near | (~np.isnan(want) & ~np.isnan(have) & (self.ulps <= np.uint64(self.check["ulps"])))
        return self.differs & ~(near | both | (want == have))

    @cached_property
    def ulps(self) -> Array:
        """Distance in units in the last place; meaningless for NaNs and for non-floats."""
        half = np.uint64(1 << (self.expected.dtype.itemsize * 8 - 1))
        (a, b) = (bits_of(x).astype(np.uint64) for x in (self.got, self.expected))
        negative = (a & half) != (b & half)
        a, b = a & (half - np.uint64(1)), b & (half - np.uint64(1))
        between: Array = np.where(negative, a + b, np.maximum(a, b) - np.minimum(a, b))
        return between

    @property
    def max_ulp(self) -> int | None:
        """Largest distance between differing elements; None for integers and where a NaN differs."""
        if self.floats is None:
            return None
        if not self.count:
            return 0
        if np.isnan(self.floats[0][self.differs]).any() or np.isnan(self.floats[1][self.differs]).any():
            return None
        return int(self.ulps[self.differs].max())

    def result(self) -> OutputResult:
        """The comparison as plain data."""
        first = None
        if self.count:
            at = tuple(int(i) for i in np.argwhere(self.differs)[0])
            first = {"index": list(at), "got": self.shown(0, at), "expected": self.shown(1, at)}
        return OutputResult(self.name, not self.wrong.any(), self.count == 0, self.count, self.max_ulp, first)

    def shown(self, side: int, at: tuple[int, ...]) -> Any:
        """An element of ``got`` (0) or ``expected`` (1) as a JSON value."""
        if self.floats is None:
            value = (self.got, self.expected)[side][at]
            return int(value) if self.expected.dtype.kind in "iub" else str(value)
        number = float(self.floats[side][at])
        return number if number == number and abs(number) != float("inf") else str(number)


def stored_as(name: str, values: Array) -> Array:
    """The content of data.npz for a buffer, as elements of the buffer's type."""
    dtype = LOGICAL[name]
    values = np.ascontiguousarray(values)
    return values.view(dtype) if values.dtype.itemsize == dtype.itemsize else values
