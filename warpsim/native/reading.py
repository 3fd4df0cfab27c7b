"""What a unit reads: values of a machine and a group, and the six words that describe each to machine code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.values import Affine, retype
from warpsim.native.forms import Key
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

INTEGERS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
"""By their bytes."""


def value_of(machine: Machine, group: Group, key: Key, dtype: Any) -> Any:
    """What a key holds; None where nothing ever was written."""
    if isinstance(key, int):
        value = group.env[key]
        if value is None:
            if group.frame.values[key] is None:
                return None
            value = group.fetch(key)
        return value
    kind = key[0]
    if isinstance(kind, int):
        value = group.env[kind]
        if value is None:
            value = group.fetch(kind)
        if value.dtype.itemsize != dtype.itemsize:
            value = retype(value.array() if type(value) is Affine else value, dtype)
        return value
    if kind == "param":
        first = key[1]
        return int.from_bytes(machine.launch.params[first : first + TYPES[key[2]].bytes], "little")
    if kind == "frame":
        return group.local_base + key[1]
    return machine.launch.param_address + key[1] if kind == "parameters" else key[1]


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def describe(value: Any, how: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The descriptor of a value."""
    if type(value) is int:
        return _signed(value), 0, 0, 0, 0, 0
    if type(value) is Affine:
        return (_signed(value.base), *value.strides, 0)
    if how == "same":
        flat = value.reshape(-1)
        return _signed(int(flat.view(INTEGERS[flat.dtype.itemsize])[0])), 0, 0, 0, 0, 0
    address, size, strides = value.ctypes.data, value.dtype.itemsize, value.strides
    if value.size == 1:
        return address, 0, 0, 0, 0, 2
    if value.ndim == 1:
        return address, 0, strides[0], 0, 0, 2
    s1, s0, c1, c0 = [s if e > 1 else 0 for s, e in zip(strides, value.shape, strict=True)]
    n1, n0 = shape[:2]
    row = s0 == size and (n1 == 1 or s1 == n0 * size)
    return address, s1, s0, c1, c0, 1 if row else 2
