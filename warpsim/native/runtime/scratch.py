"""Memory for calls of regions: the context, the store log, and buffers that are reused."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from warpsim.native.runtime.context import CALL_AT, CONTEXT, CallWords
from warpsim.numerics.arrays import Array

if TYPE_CHECKING:
    from warpsim.machine.state.global_memory import GlobalMemory

LOG_BYTES = 128 << 20
"""Room for what a region stores until it is done, taken as it is used. Where half of it is, warps stop at their loops: then what
others have done beyond is lost."""
LONGEST_ENTRY = 1024
"""Bytes of one entry of the log, at most."""
_CALL = struct.Struct(f"{len(CallWords._fields)}q")


class Scratch:
    """The buffers of one thread."""

    def __init__(self) -> None:
        self.context = np.zeros(len(CONTEXT), np.int64)
        self.log = np.empty(LOG_BYTES, np.uint8)
        self.context[CONTEXT["log"]] = self.log.ctypes.data
        self.context[CONTEXT["log_size"]] = LOG_BYTES
        self.pointer = self.context.ctypes.data
        self.kept: dict[str, Array] = {}
        self._context = self.context.data
        self._words, self._words_address = memoryview(b""), 0

    def array(self, name: str, size: int, dtype: DTypeLike) -> Array:
        """An array of at least a size, kept from call to call."""
        found = self.kept.get(name)
        if found is None or len(found) < size:
            found = self.kept[name] = np.empty(max(size, 256), dtype)
            self.context[CONTEXT[name]] = found.ctypes.data
        return found

    def words(self, values: Sequence[int]) -> tuple[memoryview, int]:
        """These words, for what a call reads, leaves and counts, and their address."""
        n = len(values)
        if len(self._words) < n:
            array = np.empty(max(n, 1024), np.int64)
            self._words, self._words_address = array.data, array.ctypes.data
        struct.pack_into(f"{n}q", self._words, 0, *values)
        return self._words, self._words_address

    def put(self, name: str, value: int) -> None:
        """A word of the context."""
        self.context[CONTEXT[name]] = value

    def give(self, words: CallWords) -> None:
        """The words of a call."""
        _CALL.pack_into(self._context, 8 * CALL_AT, *words)

    def left(self) -> CallWords:
        """The words of a call as they are now."""
        return CallWords._make(_CALL.unpack_from(self._context, 8 * CALL_AT))

    # ---- the store log ----------------------------------------------------------------------------

    def rollback(self) -> None:
        """Undo all stores of the region."""
        self._call("ws_rollback")

    def mark_stored(self, first: int, last: int, marks: int) -> None:
        """Set a byte of ``marks`` to 1 for each byte of the host's memory from ``first`` to ``last`` that the region has stored."""
        self._call("ws_walk_1", first, last, marks)

    def distinct(self, memory: GlobalMemory, first: int, last: int) -> bool:
        """Whether the region has stored no byte of global memory between two addresses twice."""
        for allocation in memory.allocations:
            low, high = max(first, allocation.start), min(last, allocation.end)
            if low < high:
                host = allocation.data.ctypes.data + low - allocation.start
                marks = np.zeros(high - low + LONGEST_ENTRY, np.uint8)
                if not self._call("ws_walk_2", host, host + high - low, marks.ctypes.data):
                    return False
        return True

    def _call(self, name: str, *given: int) -> int:
        from warpsim.native.compiling.compiler import library_function

        types = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p][: 1 + len(given)]
        found: int = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(library_function(name))(self.pointer, *given)
        return found
