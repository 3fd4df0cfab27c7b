"""Asking for code that no launch waits for."""

from __future__ import annotations

from collections.abc import Sequence

from warpsim.native.tiering.entry_points import Request
from warpsim.native.tiering.worker import behind


def make_later(requests: Sequence[Request]) -> None:
    """Have code made for these, one after the other."""

    def job() -> None:
        from warpsim.native.tiering.build import make_behind  # which imports all that compiles

        try:
            make_behind(requests)
        finally:
            for request in requests:
                request.spot.pending = False

    behind().submit(job)


def make_beside(request: Request) -> None:
    """Have code made for a launch that goes on."""
    request.spot.pending = True
    make_later((request._replace(now=True),))
