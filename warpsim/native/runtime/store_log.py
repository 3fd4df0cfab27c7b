"""The store log of a region: rollback, and which bytes were stored. ``context`` is the address of the region's context."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.native.compiling.compiler import compiler

if TYPE_CHECKING:
    from warpsim.machine.state.global_memory import GlobalMemory

MOST = 1024
"""Bytes of one entry, at most."""
_WORD, _POINTER = ctypes.c_int64, ctypes.c_void_p


def _call(name: str, context: int, *given: int) -> int:
    types = [_POINTER, _WORD, _WORD, _POINTER][: 1 + len(given)]
    function: Any = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(compiler().helper(name))
    found: int = function(context, *given)
    return found


def rollback(context: int) -> None:
    """Undo all stores of the region."""
    _call("ws_rollback", context)


def mark_stored(context: int, first: int, last: int, marks: int) -> None:
    """Set a byte of ``marks`` to 1 for each byte of the host's memory from ``first`` to ``last`` that the region has stored."""
    _call("ws_walk_1", context, first, last, marks)


def distinct(context: int, memory: GlobalMemory, first: int, last: int) -> bool:
    """Whether the region has stored no byte of global memory between two addresses twice."""
    for allocation in memory.allocations:
        low, high = max(first, allocation.start), min(last, allocation.end)
        if low < high:
            host = allocation.data.ctypes.data + low - allocation.start
            marks = np.zeros(high - low + MOST, np.uint8)
            if not _call("ws_walk_2", context, host, host + high - low, marks.ctypes.data):
                return False
    return True
