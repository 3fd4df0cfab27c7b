"""Ways to give parts of a launch their global memory: shared, through a mapped file, or as bytes."""

from __future__ import annotations

import contextlib
import copy
import mmap
import os
import pickle
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import attrs
import numpy as np

if sys.platform != "win32":
    import fcntl

from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.values import Array
from warpsim.owned import directly

ALIGNMENT = 64
IN_MEMORY = "/dev/shm"
"""Directory of files that use no disk, on Linux."""
PREFIX, SUFFIX = "warpsim-", ".memory"
YOUNG = 60.0
"""Seconds in which a file may not be locked yet."""


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
    """Files (``paths``, each with a descriptor that holds a lock) with memory that several processes map; deleted
    together with this object. Those of a process that was killed are deleted by the next one that makes some.
    """

    def __init__(self) -> None:
        self._free: list[str] = []
        self._lock = threading.Lock()
        self.paths: dict[str, int] = {}
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
            usable = os.path.isdir(IN_MEMORY) and os.access(IN_MEMORY, os.W_OK)
            folder = IN_MEMORY if usable else tempfile.gettempdir()
            sweep(folder)
            handle, path = tempfile.mkstemp(prefix=PREFIX, suffix=SUFFIX, dir=folder)
            self.paths[path] = handle
            _locked(handle)
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


def sweep(folder: str) -> None:
    """Delete the files of processes that have ended without doing so: nobody holds their locks."""
    if sys.platform == "win32":
        return
    for path in Path(folder).glob(f"{PREFIX}*{SUFFIX}"):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < time.time() - YOUNG:
                handle = directly(path, os.O_RDWR)
                try:
                    if _locked(handle):
                        path.unlink()
                finally:
                    os.close(handle)


def _locked(handle: int) -> bool:
    """Lock a file until its descriptor is closed; False if another process has."""
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _unlink(paths: dict[str, int]) -> None:
    for path, handle in paths.items():
        with contextlib.suppress(OSError):
            os.close(handle)
        with contextlib.suppress(OSError):
            Path(path).unlink()
    paths.clear()
