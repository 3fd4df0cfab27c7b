"""What atomics make of memory: the new value of an element, from the old one and the operands."""

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
    """f64 in global memory, as an H200 has it: a NaN stays as it is, that of the operand before the old value's."""
    total = floating.add(old, b).view(np.uint64)
    for value in (old, b):
        total = np.where(np.isnan(value), value.view(np.uint64), total)
    return total.view(np.float64)


def _add(old: Lanes, b: Lanes) -> Lanes:
    if old.dtype.kind in "iu":
        return old + b
    return floating.add(old, b) if old.dtype.itemsize < 8 else _add_unquieted(old, b)


def add_flushed(old: Lanes, b: Lanes) -> Lanes:
    """f32 in global memory: subnormal operands and results are zeros of their sign."""
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
"""Where integers are reduced by some threads to one value and by others to another, each from the old value: what all of
them make of it."""


def cas(old: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """c where the old value is b."""
    return np.where(old == b, c, old)


def update_of(op: Op) -> Update:
    """The update of an integer, f32 or f64 operation."""
    return add_flushed if op.op == "add" and op.type.name == "f32" else UPDATES[op.op]


@attrs.frozen
class Reduction:
    """A reduction by the async proxy, on elements of the ``types`` (None: of any)."""

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
    """Where shared memory differs, as an H100 has it: f32 keeps subnormals; of two f64 NaNs the old value's stays."""
    if op.get("op") != "add" or op.type.kind != "f" or op.type.bits < 32:
        return None
    return _add if op.type.bits == 32 else lambda old, b: floating.add(b, old)


def half_update(op: Op) -> Update:
    """The update of .f16 and .bf16, alone or two in a word; subnormals are kept."""
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
    """The lesser, -0 below +0; of a number and a NaN the number."""
    first = (x < y) | np.isnan(y) | ((x == y) & np.signbit(x))
    return np.where(first, x, y)


def _half_max(x: Lanes, y: Lanes) -> Lanes:
    first = (x > y) | np.isnan(y) | ((x == y) & np.signbit(y))
    return np.where(first, x, y)


_HALF_UPDATES: dict[str, Update] = {"add": _half_add, "min": _half_min, "max": _half_max}
