"""Ways to give parts of a launch their global memory: shared, through a mapped file, or as bytes."""

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
"""Directory of files that use no disk, on Linux."""


class Memory(Protocol):
    """Global memory in transit."""

    def load(self) -> tuple[GlobalMemory, GlobalMemory]:
        """The memory as sent, and a working copy that shares its bytes until it changes them."""


@attrs.frozen
class Pickled:
    """A pickle, with the bytes of its arrays separate."""

    pickled: bytes
    buffers: tuple[Array, ...]

    @classmethod
    def of(cls, memory: GlobalMemory) -> Pickled:
        """Capture the current memory."""
        pickled, buffers = taken_apart(memory)
        return cls(pickled, tuple([buffer.copy() for buffer in buffers]))

    def load(self) -> tuple[GlobalMemory, GlobalMemory]:
        """The memory, on the shipped bytes."""
        memory: GlobalMemory = pickle.loads(self.pickled, buffers=self.buffers)
        return memory, copy.deepcopy(memory)


class Here:
    """Memory of this process, which nothing else changes meanwhile."""

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory = memory
        self._copy: GlobalMemory | None = copy.deepcopy(
            memory
        )  # dropped by the memory's owner, not by one of several threads

    def load(self) -> tuple[GlobalMemory, GlobalMemory]:
        """The memory itself; its copy goes to the first caller."""
        work, self._copy = self._copy, None
        return self.memory, copy.deepcopy(self.memory) if work is None else work


@attrs.frozen
class Mapped:
    """A pickle, and the bytes of its arrays in a file, with their offsets and lengths."""

    pickled: bytes
    path: str
    places: tuple[tuple[int, int], ...]

    def load(self) -> tuple[GlobalMemory, GlobalMemory]:
        """The memory, on the mapped file; pages are read on access."""
        buffers: list[Any] = [b""] * len(self.places)
        if any(size for _, size in self.places):
            with open(self.path, "rb") as file:
                view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            buffers = [np.frombuffer(view, np.uint8, size, at) if size else b"" for at, size in self.places]
        memory: GlobalMemory = pickle.loads(self.pickled, buffers=buffers)
        return memory, copy.deepcopy(memory)


def taken_apart(memory: GlobalMemory) -> tuple[bytes, list[Array]]:
    """Split memory into a pickle and its arrays' bytes, without copying them."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(memory, protocol=5, buffer_callback=buffers.append)
    return pickled, [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


class Files:
    """Files (``paths``) with memory that several processes map; deleted together with this object."""

    def __init__(self) -> None:
        self._free: list[str] = []
        self._lock = threading.Lock()
        self.paths: list[str] = []
        self.end = weakref.finalize(self, _unlink, self.paths)
        """Deletes them."""

    @contextlib.contextmanager
    def mapped(self, memory: GlobalMemory) -> Iterator[Memory]:
        """Put memory into a file, or use bytes if there is no room for one."""
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
    """Write instead of mapping, because lack of space is then an error, not a signal."""
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
