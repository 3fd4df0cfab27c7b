"""Reductions of bulk copies in memory: combine old and new elements by an instruction's update."""

from __future__ import annotations

import numpy as np

from warpsim.isa.ports import Choose
from warpsim.machine.values import Array
from warpsim.types import TYPES, ScalarType

BY_DATA_TYPE = tuple(
    TYPES[name] for name in ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32", "f32", "f32")
)
"""In the order of `tensor_map.DATA_TYPES`."""


def combine(choose: Choose, type: ScalarType, old: Array, new: Array, *, flush: bool = False) -> Array:
    """Combine old and new elements, given as bits of any integer dtype not wider than the type."""
    update = choose(type, flush=flush)
    assert update is not None, "the port refuses reductions that do not exist"
    result = update(*(np.ascontiguousarray(x).view(type.dtype) for x in (old, new)))
    return np.ascontiguousarray(result.astype(type.dtype)).view(old.dtype).reshape(old.shape)
