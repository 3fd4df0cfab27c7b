"""Queue background compilation."""

from __future__ import annotations

from collections.abc import Sequence

from warpsim.native.compiling.queue import compile_queue, tell
from warpsim.native.tiering.entry_points import Request


def enqueue(requests: Sequence[Request]) -> None:
    """Queue requests of a launch that is over. What fails is told of once, and its entry point left to the interpreter."""

    def job() -> None:
        from warpsim.native.tiering.build import compile_queued  # which imports all that compiles

        for request in requests:
            try:
                compile_queued(request)
            except Exception:
                tell()
                request.entry.leave()
            finally:
                request.entry.pending = False

    compile_queue().submit(job)


def enqueue_urgent(request: Request) -> None:
    """Queue a request of a launch that goes on."""
    request.entry.pending = True
    enqueue((request._replace(now=True),))
