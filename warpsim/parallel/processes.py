"""The executors of ``workers=``: local processes, or threads for compiled code, which releases Python's lock.

Unlike with the standard library, a script needs no ``if __name__ == "__main__"``: it is not imported again. One thread per
process passes work to it through pipes.
"""

from __future__ import annotations

import contextlib
import copy
import mmap
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import numpy as np

from warpsim.owned import cache_folder
from warpsim.records import frozen

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


@frozen
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


@frozen
class Mapped:
    """A pickle, and the bytes of its arrays in a file, with their offsets and lengths."""

    pickled: bytes
    path: str
    places: tuple[tuple[int, int], ...]

    def load(self) -> tuple[GlobalMemory, GlobalMemory]:
        """The memory, on the mapped file; pages are read on access."""
        buffers: list[Array | bytes] = [b""] * len(self.places)
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
    together with this object. Those of a process that was killed are deleted by the next one that makes some."""

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


T = TypeVar("T")
HEADER = 8
"""Size of the length before each message, in bytes."""
WORKER = "import sys; sys.path[:] = filter(None, sys.path); from warpsim.parallel.processes import main; main()"
"""What a process runs. It imports nothing from the folder that the program happens to be in."""


class Processes(Executor):
    """``count`` processes, each started on demand; they end with the executor."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="warpsim")
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.files = Files()
        self._end = weakref.finalize(self, _end, self._running)

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> Future[T]:
        """Call a function of an importable module in a process."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as `Executor`
        """End the processes; work in progress is aborted."""
        self._end()
        self.files.end()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    def _call(self, fn: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]) -> T:
        try:
            process = self._idle.get_nowait()
        except queue.Empty:
            process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, (fn, args, kwargs))
            good, result = _receive(process.stdout)
        except BaseException as problem:
            self._running.discard(process)
            _end({process})
            if isinstance(problem, (OSError, EOFError)):
                raise BrokenExecutor(f"a worker process has ended: {problem}") from problem
            raise
        self._idle.put(process)
        if not good:
            raise result
        value: T = result
        return value

    def _start(self) -> subprocess.Popen[bytes]:
        package = str(Path(__file__).parent.parent.parent)
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        ours = {"PYTHONPATH": os.pathsep.join(paths), "WARPSIM_CACHE": str(cache_folder() or "")}
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"OPENBLAS_NUM_THREADS": "1"} | os.environ | ours,  # there is a process for each core
        )
        self._running.add(process)
        return process


def _end(processes: set[subprocess.Popen[bytes]]) -> None:
    for process in list(processes):
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # the reader is gone, so unwritten data is lost
                    continue
        process.wait()


def _send(pipe: IO[bytes], message: object) -> None:
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    frames: list[bytes | memoryview] = [data, *(buffer.raw() for buffer in buffers)]
    pipe.write(len(frames).to_bytes(HEADER, "little"))
    for frame in frames:
        pipe.write(len(frame).to_bytes(HEADER, "little"))
        pipe.write(frame)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    count = int.from_bytes(_exactly(pipe, HEADER), "little")
    data, *buffers = (_exactly(pipe, int.from_bytes(_exactly(pipe, HEADER), "little")) for _ in range(count))
    return pickle.loads(data, buffers=buffers)


def _exactly(pipe: IO[bytes], nbytes: int) -> bytearray:
    data = bytearray(nbytes)
    view, at = memoryview(data), 0
    while at < nbytes:
        n = pipe.readinto(view[at:])  # type: ignore[attr-defined]
        if not n:
            raise EOFError("the pipe is closed")
        at += n
    return data


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Serve requests until the other end is closed."""
    while True:
        try:
            function, args, kwargs = _receive(source)
        except EOFError:
            return
        try:
            answer = True, function(*args, **kwargs)
        except Exception as problem:
            answer = False, problem
        _send(sink, answer)


def main() -> None:
    """Run as a worker: work on standard input, results on standard output; printed text goes to standard error."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, sink)


class Threads(ThreadPoolExecutor):
    """``count`` threads, which share memory."""

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="warpsim")
