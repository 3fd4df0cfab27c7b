"""What the threads of a grid ask of the device runtime: grids to launch, copies, streams, events, and their last errors."""

from __future__ import annotations

from typing import Protocol

import attrs

from warpsim.records import define, frozen

Dims = tuple[int, int, int]


class HasLaunched(Protocol):
    """A grid."""

    launched: Launched | None


@frozen
class Ordered:
    """A grid to launch, with its parameters once they are known; ``by`` says who launches it."""

    kernel: str
    grid: Dims
    block: Dims
    shared: int
    params: bytes = b""
    by: str = ""


@frozen
class Moved:
    """Bytes to copy from a ``source``, or to set to 0."""

    target: int
    nbytes: int
    source: int | None


@define(eq=False)
class Launched:
    """``queue`` runs when the grid has ended, or can do nothing else, in this order; ``tails`` when all that has ended."""

    queue: list[Ordered | Moved] = attrs.field(factory=list)
    tails: list[Ordered | Moved] = attrs.field(factory=list)
    buffers: dict[int, Ordered] = attrs.field(factory=dict)
    """Parameter buffers that have not been launched, by their addresses."""
    handles: dict[int, str] = attrs.field(factory=dict)
    """Streams and events, and texts of errors."""
    errors: dict[tuple[int, int], int] = attrs.field(factory=dict)
    """The last error of a thread, by CTA and number."""
    ran: int = 0
    """How many grids have run."""
    polled: bool = False
    """Whether a loop has polled in vain: what is in the queue has to run."""


def ordered(launch: HasLaunched) -> list[Ordered | Moved]:
    """What is still to run of what a grid has launched."""
    return [] if launch.launched is None else [*launch.launched.queue, *launch.launched.tails]
