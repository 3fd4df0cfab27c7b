"""The executors of ``workers=``: local processes, or threads for compiled code, which releases Python's lock.

Unlike with the standard library, a script needs no ``if __name__ == "__main__"``: it is not imported again. One thread per
process passes work to it through pipes.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, TypeVar

from warpsim.owned import cache_folder
from warpsim.parallel.shipping import Files

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

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function of an importable module in a process."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as `Executor`
        """End the processes; work in progress is aborted."""
        self._end()
        self.files.end()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    def _call(self, fn: Callable[..., T], args: Any, kwargs: Any) -> T:
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
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "WARPSIM_CACHE": str(cache_folder() or "")},
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


def _send(pipe: IO[bytes], message: Any) -> None:
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
