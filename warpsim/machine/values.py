"""Values that track the axes that they depend on.

A register of a group of threads holds an array that broadcasts over the group, or an `Affine`: an integer ``base +
sum(stride[i] * index[i])`` modulo 2**N over the group's axes. Loop counters, addresses and thread indices stay affine,
so no array is ever built for them; uniform integers are affine without strides. Bodies never see the difference: those
that use only operators of `Affine` are called with it, all others get arrays (`stays_affine`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NoReturn, final

import numpy as np

from warpsim.numerics.arrays import Array as Array
from warpsim.numerics.arrays import DType as DType
from warpsim.numerics.arrays import spread as spread
from warpsim.records import SharedByCopies

FLAT = (0, 0, 0, 0)
SINGLE = (1, 1, 1, 1)

_RANGE = {np.dtype(f"{k}{n}"): (n * 8, k == "i") for k in "ui" for n in (1, 2, 4, 8)}
_MASK = {t: ((1 << bits) - 1, 1 << (bits - 1) if signed else 0) for t, (bits, signed) in _RANGE.items()}
"""The all-ones value of a type, and the offset for wrapping: half the range if it is signed."""
TRUE, FALSE = np.array([True]), np.array([False])
TRUE.flags.writeable = FALSE.flags.writeable = False


@functools.lru_cache(maxsize=4096)
def reach(strides: tuple[int, ...], extents: tuple[int, ...]) -> tuple[int, int]:
    """How far an affine value extends below and above its base."""
    ends = [stride * (extent - 1) for stride, extent in zip(strides, extents, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)


class NotAffine(Exception):
    """The result of an operation is not affine; compute it on arrays."""


def _wrap(value: int, bits: int, *, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


@final
class Affine(SharedByCopies):
    """``base + strides . index`` modulo 2**N, over axes of the given extents (``[T1, T0, C1, C0]``)."""

    __slots__ = ("_array", "_point", "_viewed", "base", "dtype", "extents", "strides")

    def __init__(self, base: int, strides: tuple[int, ...], extents: tuple[int, ...], dtype: DType) -> None:
        self.base = base
        self.strides = strides
        self.extents = extents
        self.dtype = dtype
        self._array: Array | None = None
        self._point: Array | None = None
        self._viewed: Affine | None = None

    CACHES = frozenset({"_array", "_point", "_viewed"})

    def __reduce__(self) -> tuple[Callable[..., Affine], tuple[int, tuple[int, ...], tuple[int, ...], str]]:
        return _affine, (self.base, self.strides, self.extents, self.dtype.str)

    @classmethod
    def constant(cls, value: int, dtype: DType) -> Affine:
        """The same integer for every thread."""
        mask, half = _MASK[dtype]
        return cls(((value + half) & mask) - half, FLAT, SINGLE, dtype)

    @property
    def uniform(self) -> bool:
        """Whether the value is the same along all axes."""
        return self.strides == FLAT

    def limits(self) -> tuple[int, int]:
        """Smallest and largest value before wrapping."""
        if self.strides == FLAT:
            return self.base, self.base
        low, high = reach(self.strides, self.extents)
        return self.base + low, self.base + high

    def point(self) -> Array:
        """The value of all threads, without axes; NumPy combines it with an array in a third of the time."""
        if self._point is None:
            self._point = np.array(self.base, self.dtype)
        return self._point

    def array(self) -> Array:
        """The values, with axes of size 1 where the stride is zero."""
        if self._array is None:
            if self.strides == FLAT:
                self._array = np.array([self.base], self.dtype)
            else:
                bits = self.dtype.itemsize * 8
                unsigned = np.dtype(f"u{self.dtype.itemsize}")
                out: Array | None = None
                for axis, (stride, extent) in enumerate(zip(self.strides, self.extents, strict=True)):
                    if stride and extent > 1:
                        shape = [1, 1, 1, 1]
                        shape[axis] = extent
                        start = 0 if out is not None else self.base
                        steps = np.arange(extent, dtype=unsigned)
                        steps *= unsigned.type(_wrap(stride, bits, signed=False))
                        if start:
                            steps += unsigned.type(_wrap(start, bits, signed=False))
                        out = steps.reshape(shape) if out is None else out + steps.reshape(shape)
                if out is None:
                    out = np.array([_wrap(self.base, bits, signed=False)], unsigned)
                self._array = out.view(self.dtype)
        return self._array

    def _make(self, base: int, strides: tuple[int, ...], extents: tuple[int, ...]) -> Affine:
        mask, half = _MASK[self.dtype]
        if strides != FLAT:
            edge = mask // 2 + 1
            if max(strides) >= edge or min(strides) < -edge:
                strides = tuple([((s + edge) & mask) - edge for s in strides])
        return Affine(((base + half) & mask) - half, strides, extents, self.dtype)

    def _other(self, other: object) -> Affine:
        if type(other) is Affine:
            return other
        if isinstance(other, (int, np.integer)):
            return Affine.constant(int(other), self.dtype)
        raise NotAffine

    def __add__(self, other: object) -> Affine:
        o = other if type(other) is Affine else self._other(other)
        mask, half = _MASK[self.dtype]
        base = ((self.base + o.base + half) & mask) - half
        if o.strides == FLAT:
            return Affine(base, self.strides, self.extents, self.dtype)
        if self.strides == FLAT:
            return Affine(base, o.strides, o.extents, self.dtype)
        return self._make(base, tuple([a + b for a, b in zip(self.strides, o.strides, strict=True)]), self.extents)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self._make(-self.base, tuple([-s for s in self.strides]), self.extents)

    def __sub__(self, other: object) -> Affine:
        o = other if type(other) is Affine else self._other(other)
        if o.strides == FLAT:
            mask, half = _MASK[self.dtype]
            return Affine(((self.base - o.base + half) & mask) - half, self.strides, self.extents, self.dtype)
        return self + -o

    def __rsub__(self, other: object) -> Affine:
        return self._other(other) + -self

    # ---- comparisons: decided where the limits decide them ----------------------------------------

    def _distance(self, other: object) -> tuple[int, int]:
        """The smallest and largest difference from another value, without wrapping."""
        o = other if type(other) is Affine else self._other(other)
        if self.strides == FLAT and o.strides == FLAT:
            return self.base - o.base, self.base - o.base
        for one in (self, o):
            low, high = one.limits()
            mask, half = _MASK[one.dtype]
            if low < -half or high > mask - half:
                raise NotAffine
        if o.strides == FLAT:
            low, high = self.limits()
            return low - o.base, high - o.base
        if self.strides == FLAT:
            low, high = o.limits()
            return self.base - high, self.base - low
        strides = tuple([a - b for a, b in zip(self.strides, o.strides, strict=True)])
        return Affine(self.base - o.base, strides, self.extents, self.dtype).limits()

    def __lt__(self, other: object) -> Array:
        low, high = self._distance(other)
        return _decided(holds=high < 0, fails=low >= 0)

    def __le__(self, other: object) -> Array:
        low, high = self._distance(other)
        return _decided(holds=high <= 0, fails=low > 0)

    def __gt__(self, other: object) -> Array:
        low, high = self._distance(other)
        return _decided(holds=low > 0, fails=high <= 0)

    def __ge__(self, other: object) -> Array:
        low, high = self._distance(other)
        return _decided(holds=low >= 0, fails=high < 0)

    def __eq__(self, other: object) -> Array:  # type: ignore[override]
        low, high = self._distance(other)
        return _decided(holds=low == high == 0, fails=low > 0 or high < 0)

    def __ne__(self, other: object) -> Array:  # type: ignore[override]
        low, high = self._distance(other)
        return _decided(holds=low > 0 or high < 0, fails=low == high == 0)

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # NumPy leaves operators to it, and refuses functions

    def __array_function__(self, *_: object) -> NoReturn:
        raise NotAffine

    def __mul__(self, other: object) -> Affine:
        a, b = self, self._other(other)
        if b.strides != FLAT:
            a, b = b, a
        if b.strides != FLAT:
            raise NotAffine
        k = b.base
        return a._make(a.base * k, tuple([s * k for s in a.strides]), a.extents)

    __rmul__ = __mul__

    def __lshift__(self, other: object) -> Affine:
        o = self._other(other)
        if o.strides != FLAT or not 0 <= o.base < _RANGE[self.dtype][0]:
            raise NotAffine
        return self * (1 << o.base)

    def __getattr__(self, name: str) -> NoReturn:
        raise NotAffine(name)

    def __bool__(self) -> bool:
        raise NotAffine

    def view(self, dtype: DType) -> Affine:
        """The same bits as another integer type of the same width."""
        if dtype is self.dtype:
            return self
        viewed = self._viewed
        if viewed is not None and viewed.dtype is dtype:
            return viewed
        if dtype not in _RANGE or dtype.itemsize != self.dtype.itemsize:
            raise NotAffine
        mask, half = _MASK[dtype]
        self._viewed = Affine(((self.base + half) & mask) - half, self.strides, self.extents, dtype)
        return self._viewed  # kept, because it may cache its array

    def astype(self, dtype: DType | str) -> Affine:
        """Convert; exact if no value wraps in the narrower type, else not affine."""
        dtype = np.dtype(dtype)
        if dtype not in _MASK:
            raise NotAffine
        mask, half = _MASK[dtype]
        strides = self.strides
        if strides != FLAT:
            if dtype.itemsize > self.dtype.itemsize:
                low, high = self.limits()
                own_mask, own_half = _MASK[self.dtype]
                if low < -own_half or high > own_mask - own_half:
                    raise NotAffine
            else:
                strides = tuple([_wrap(s, dtype.itemsize * 8, signed=True) for s in strides])
        return Affine(((self.base + half) & mask) - half, strides, self.extents, dtype)


def _decided(*, holds: bool, fails: bool) -> Array:
    """A comparison with the same outcome for all threads."""
    if holds:
        return TRUE
    if fails:
        return FALSE
    raise NotAffine


@functools.lru_cache(maxsize=4096)
def stays_affine(function: Callable[..., object], op: object, types: tuple[DType, ...]) -> bool:
    """Whether a body computes with affine values of such types: whether it does with numbers."""
    if not types or not all(t in _RANGE for t in types):
        return False
    try:
        made = function(op, *[Affine.constant(k + 1, t) for k, t in enumerate(types)])
    except Exception:  # whatever it asks of them that they are not
        return False
    results = made if type(made) is tuple else (made,)
    return all(type(r) is Affine or type(r) is np.ndarray for r in results)


def _affine(base: int, strides: tuple[int, ...], extents: tuple[int, ...], dtype: str) -> Affine:
    return Affine(base, strides, extents, np.dtype(dtype))


Value = Array | Affine
Place = int | Array
"""Byte addresses: one int for all lanes, or an int64 array."""


def as_array(value: Value) -> Array:
    """The array of a value."""
    return value.array() if type(value) is Affine else value


def reduced(value: Value) -> Value:
    """An integer that all threads of a CTA have alike, without the axes of threads; a uniform one if all CTAs have it."""
    if type(value) is not np.ndarray or value.ndim != 4 or value.dtype.kind not in "iu" or value.size == 1:
        return value
    if value.shape[0] != 1 or value.shape[1] != 1:
        if value[0, 0].tobytes() != value[-1, -1].tobytes() or np.logical_or.reduce(value != value[:1, :1], axis=None):
            return value
        value = value[:1, :1]
    first = value.item(0)
    return Affine.constant(first, value.dtype) if (value == first).all() else value


_UNSIGNED = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def tracked(array: Array) -> Value:
    """An array with four axes without those on which it does not depend, or as an affine value. The corners tell what is neither."""
    kind, extents = array.dtype.kind, array.shape
    if kind not in "iubf":
        return array
    bits = array.view(_UNSIGNED[array.dtype.itemsize]) if kind == "f" else array
    last, inner = bits.item(-1), array.size
    for axis, extent in enumerate(extents):
        inner //= extent
        if extent > 1 and bits.item(bits.size - 1 - (extent - 1) * inner) == last:
            one = bits[(slice(None),) * axis + (slice(1),)]
            if (bits == one).all():
                bits = one
    if kind in "iu" and (found := _affine_of(bits, extents)) is not None:
        return found
    return array if bits.shape == extents else np.ascontiguousarray(bits).view(array.dtype)


_CORNERS: list[tuple[slice | int, ...]] = [(slice(None), *[0 if a == k else -1 for a in range(4)]) for k in range(4)]
_SECOND: list[tuple[slice | int, ...]] = [(slice(None), *[int(a == k) for a in range(4)]) for k in range(4)]
"""For each axis: the last element but for the first along it, and the second along it alone."""


def may_depend_less(stack: Array) -> list[bool]:
    """Of arrays with four axes, which lie side by side: whether `tracked` may find each to be something simpler, by their corners."""
    kind, found = stack.dtype.kind, np.zeros(len(stack), np.bool_)
    if kind not in "iubf":
        return found.tolist()
    bits = stack if kind == "b" else stack.view(_UNSIGNED[stack.dtype.itemsize])
    first, last = bits[:, 0, 0, 0, 0], bits[:, -1, -1, -1, -1]
    straight = first
    for axis, extent in enumerate(bits.shape[1:]):
        if extent > 1:
            found |= bits[_CORNERS[axis]] == last
            if kind in "iu":
                step = bits[_SECOND[axis]] - first
                straight = straight + step * bits.dtype.type((extent - 1) & _MASK[bits.dtype][0])  # wraps around
    if kind in "iu":
        found |= straight == last
    return found.tolist()


def _affine_of(array: Array, extents: tuple[int, ...]) -> Affine | None:
    """Integers as an affine value over axes of these extents, if they are one."""
    base = array.item(0)
    if array.size == 1:
        return Affine.constant(base, array.dtype)
    strides = [
        array[tuple([int(a == axis) for a in range(4)])].item() - base if n > 1 else 0
        for axis, n in enumerate(array.shape)
    ]
    last = base + sum([stride * (n - 1) for stride, n in zip(strides, array.shape, strict=True)])
    if (last - array.item(-1)) & _MASK[array.dtype][0]:
        return None
    made = Affine.constant(base, array.dtype)._make(base, tuple(strides), extents)
    return made if (array == made.array()).all() else None


def repeated(array: Array, lanes: int) -> Array:
    """Repeat a one-element value for every lane, ``[1, lanes, 1]``, without a copy (`np.broadcast_to` takes ten times
    as long)."""
    return np.ndarray((1, lanes, 1), array.dtype, array, 0, (0, 0, 0))


def repeated_along(array: Array, shape: tuple[int, int, int]) -> Array:
    """Repeat an array of three axes along those of one element, likewise."""
    if not array.flags.forc:  # NumPy takes no such memory as it is
        return np.broadcast_to(array, shape)
    strides = [s if e > 1 else 0 for s, e in zip(array.strides, array.shape, strict=True)]
    return np.ndarray(shape, array.dtype, array, 0, strides)


def retype(array: Array, dtype: DType) -> Array:
    """A register's bits as ``dtype``: a view, or the low part where the register is wider."""
    if array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    if array.dtype.itemsize == 16 or dtype.itemsize == 16:
        return _retype_wide(array, dtype)
    unsigned = np.dtype(f"u{array.dtype.itemsize}")
    return array.view(unsigned).astype(f"u{dtype.itemsize}").view(dtype)


def _retype_wide(array: Array, dtype: DType) -> Array:
    if dtype.itemsize == 16:
        out = np.zeros(array.shape, dtype)
        out["lo"] = array.view(f"u{array.dtype.itemsize}")
        return out
    return retype(np.ascontiguousarray(array["lo"]), dtype)


def extend(array: Array, itemsize: int, *, signed: bool) -> Array:
    """Extend to a register of ``itemsize`` bytes, with the sign or with zeros."""
    if itemsize == 16:
        return _retype_wide(
            extend(array, 8, signed=signed) if array.dtype.itemsize < 8 else array,
            np.dtype([("lo", "<u8"), ("hi", "<u8")]),
        )
    kind = "i" if signed else "u"
    return array.view(f"{kind}{array.dtype.itemsize}").astype(f"{kind}{itemsize}")
