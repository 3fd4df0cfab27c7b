"""The updates of atomics: the new value of an element, from the old value and the operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from warpsim.isa.spec import Op
from warpsim.numerics import floating
from warpsim.numerics.convert import to_half
from warpsim.types import TYPES, ScalarType

Lanes = Any
Update = Callable[..., Lanes]


def _increment(old: Lanes, b: Lanes) -> Lanes:
    return np.where(old >= b, np.uint32(0), old + np.uint32(1))


def _decrement(old: Lanes, b: Lanes) -> Lanes:
    return np.where((old == 0) | (old > b), b, old - np.uint32(1))


def _add_unquieted(old: Lanes, b: Lanes) -> Lanes:
    """f64 add in global memory, as on an H100: a NaN is kept unchanged, the operand's before the old value's."""
    total = floating.add(old, b).view(np.uint64)
    for value in (old, b):
        total = np.where(np.isnan(value), value.view(np.uint64), total)
    return total.view(np.float64)


def _add(old: Lanes, b: Lanes) -> Lanes:
    if old.dtype.kind in "iu":
        return old + b
    return floating.add(old, b) if old.dtype.itemsize < 8 else _add_unquieted(old, b)


def add_flushed(old: Lanes, b: Lanes) -> Lanes:
    """f32 add in global memory: subnormal operands and results are flushed to zeros of the same sign."""
    return floating.flush(floating.add(floating.flush(old), floating.flush(b)))


UPDATES: dict[str, Update] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": _add,
    "inc": _increment,
    "dec": _decrement,
    "min": np.minimum,
    "max": np.maximum,
    "exch": lambda old, b: b,
}


JOINED: dict[str, Update] = {
    "add": lambda old, one, other: one + (other - old),
    "xor": lambda old, one, other: one ^ old ^ other,
    "and": lambda old, one, other: one & other,
    "or": lambda old, one, other: one | other,
    "min": lambda old, one, other: np.minimum(one, other),
    "max": lambda old, one, other: np.maximum(one, other),
}
"""How to combine the results of some threads with those of others, each reduced from the old value, for integer
reductions.
"""


def cas(old: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """c where the old value is b."""
    return np.where(old == b, c, old)


def update_of(op: Op) -> Update:
    """The update of an integer, f32 or f64 operation."""
    return add_flushed if op.op == "add" and op.type.name == "f32" else UPDATES[op.op]


@attrs.frozen
class Reduction:
    """A reduction through the async proxy, on elements of ``types`` (None: of any type)."""

    operation: str
    types: frozenset[str] | None = None

    def __call__(self, type: ScalarType, *, flush: bool) -> Update | None:
        """The update on arrays of ``type.dtype``; f32 subnormals are kept unless ``flush``."""
        if self.types is not None and type.name not in self.types:
            return None
        if type.name not in ("f16", "bf16"):
            return add_flushed if flush and self.operation == "add" else UPDATES[self.operation]
        combine = _HALF_UPDATES[self.operation]

        def update(old: Lanes, b: Lanes) -> Lanes:
            return to_half(combine(old.astype(np.float32), b.astype(np.float32)), type.dtype, "rn")

        return update


def shared_update(op: Op) -> Update | None:
    """The update in shared memory, if it differs, as on an H100: f32 keeps subnormals, and of two f64 NaNs the old
    value's stays.
    """
    if op.get("op") != "add" or op.type.kind != "f" or op.type.bits < 32:
        return None
    return _add if op.type.bits == 32 else lambda old, b: floating.add(b, old)


def half_update(op: Op) -> Update:
    """The update of .f16 and .bf16, single or packed; subnormals are kept."""
    half = TYPES[op.type.name.removesuffix("x2")].dtype
    combine = _HALF_UPDATES[op.op]

    def one(old: Lanes, b: Lanes) -> Lanes:
        x, y = old.view(half).astype(np.float32), b.view(half).astype(np.float32)
        return to_half(combine(x, y), half, "rn").view(np.uint16)

    def update(old: Lanes, b: Lanes) -> Lanes:
        if old.dtype.itemsize == 2:
            return one(old, b)
        low = one(old.astype(np.uint16), b.astype(np.uint16))
        high = one((old >> np.uint32(16)).astype(np.uint16), (b >> np.uint32(16)).astype(np.uint16))
        return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))

    return update


def _half_add(x: Lanes, y: Lanes) -> Lanes:
    return floating.odd_sum(x.astype(np.float64), y.astype(np.float64))


def _half_min(x: Lanes, y: Lanes) -> Lanes:
    """The minimum, with -0 below +0; of a number and a NaN, the number."""
    first = (x < y) | np.isnan(y) | ((x == y) & np.signbit(x))
    return np.where(first, x, y)


def _half_max(x: Lanes, y: Lanes) -> Lanes:
    first = (x > y) | np.isnan(y) | ((x == y) & np.signbit(y))
    return np.where(first, x, y)


_HALF_UPDATES: dict[str, Update] = {"add": _half_add, "min": _half_min, "max": _half_max}
