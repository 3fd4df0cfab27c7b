"""How global memory comes to those who run parts of a launch: as it is, through a file that they map, or as bytes."""

from __future__ import annotations

import contextlib
import copy
import mmap
import os
import pickle
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import attrs
import numpy as np

from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.values import Array

ALIGNMENT = 64
IN_MEMORY = "/dev/shm"
"""Where files take no disk, on Linux."""


class Memory(Protocol):
    """Global memory on its way."""

    def load(self) -> tuple[GlobalMemory, GlobalMemory]:
        """It as it was sent, and a copy to work on that shares the bytes until it changes them."""


@attrs.frozen
class Pickled:
    """A pickle, and the bytes of its arrays beside it."""

    pickled: bytes
    buffers: tuple[Array, ...]

    @classmethod
    def of(cls, memory: GlobalMemory) -> Pickled:
        """The memory as it is now."""
        pickled, buffers = taken_apart(memory)
        return cls(pickled, tuple([buffer.copy() for buffer in buffers]))

    def load(self) -> tuple[GlobalMemory, GlobalMemory]:
        """The memory over the shipped bytes."""
        memory: GlobalMemory = pickle.loads(self.pickled, buffers=self.buffers)
        return memory, copy.deepcopy(memory)


class Here:
    """Memory of this process, which nobody else changes meanwhile."""

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory = memory
        self._copy: GlobalMemory | None = copy.deepcopy(memory)  # by who owns the memory, not by one of several threads

    def load(self) -> tuple[GlobalMemory, GlobalMemory]:
        """The memory itself; its copy is for the first who asks."""
        work, self._copy = self._copy, None
        return self.memory, copy.deepcopy(self.memory) if work is None else work


@attrs.frozen
class Mapped:
    """A pickle, and the bytes of its arrays in a file: where each begins, and how many they are."""

    pickled: bytes
    path: str
    places: tuple[tuple[int, int], ...]

    def load(self) -> tuple[GlobalMemory, GlobalMemory]:
        """The memory over the mapped file; pages are read when they are looked at."""
        buffers: list[Any] = [b""] * len(self.places)
        if any(size for _, size in self.places):
            with open(self.path, "rb") as file:
                view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            buffers = [np.frombuffer(view, np.uint8, size, at) if size else b"" for at, size in self.places]
        memory: GlobalMemory = pickle.loads(self.pickled, buffers=buffers)
        return memory, copy.deepcopy(memory)


def taken_apart(memory: GlobalMemory) -> tuple[bytes, list[Array]]:
    """A pickle of memory, and the bytes of its arrays, which are those of the memory."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(memory, protocol=5, buffer_callback=buffers.append)
    return pickled, [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


class Files:
    """Files (``paths``) for memory that several processes map; they end with this."""

    def __init__(self) -> None:
        self._free: list[str] = []
        self._lock = threading.Lock()
        self.paths: list[str] = []
        self.end = weakref.finalize(self, _unlink, self.paths)
        """Takes them away."""

    @contextlib.contextmanager
    def mapped(self, memory: GlobalMemory) -> Iterator[Memory]:
        """Memory in a file; as bytes where there is no room for one."""
        pickled, buffers = taken_apart(memory)
        try:
            path = self._take()
            places = _write(path, buffers)
        except OSError:
            yield Pickled.of(memory)
            return
        try:
            yield Mapped(pickled, path, places)
        finally:
            with self._lock:
                self._free.append(path)

    def _take(self) -> str:
        with self._lock:
            if self._free:
                return self._free.pop()
            folder = IN_MEMORY if os.path.isdir(IN_MEMORY) and os.access(IN_MEMORY, os.W_OK) else None
            handle, path = tempfile.mkstemp(prefix="warpsim-", dir=folder)
            os.close(handle)
            self.paths.append(path)
            return path


def _write(path: str, buffers: list[Array]) -> tuple[tuple[int, int], ...]:
    """Writing, not mapping: where there is no room that is an error, not a signal."""
    places, at = [], 0
    with open(path, "r+b") as file:
        for buffer in buffers:
            at = -(-at // ALIGNMENT) * ALIGNMENT
            file.seek(at)
            file.write(buffer.data)
            places.append((at, buffer.size))
            at += buffer.size
    return tuple(places)


def _unlink(paths: list[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            Path(path).unlink()
