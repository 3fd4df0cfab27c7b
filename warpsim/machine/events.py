"""The list of events, and the window: the single port through which the machine reports what happens.

The machine calls an event where it happens, once, and does not know its listeners. An event without a listener is None
on the window, so an unwatched event costs one test. Arguments are existing arrays; a memory access is described by a
record of them. The method of the same name in `warpsim.machine.window.Watcher` documents each event and its arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import attrs
import numpy as np

from warpsim.machine.values import Affine, Array, Place

if TYPE_CHECKING:
    from warpsim.machine.state.global_memory import Allocation

READ, WRITE, ATOMIC = 0, 1, 2
"""What an access does to memory."""


NO_COLUMNS: Array = np.empty(0, np.int64)


@attrs.frozen(eq=False)
class MemoryAccess:
    """An access of ``nbytes`` of memory per lane; created only if there is a listener."""

    kind: int
    """READ, WRITE or ATOMIC."""
    space: str
    """"global", "local", "shared" or "shared::cluster"."""
    at: Place | Affine
    """The byte addresses in the machine's representation: an int, an int64 array or an `Affine`."""
    nbytes: int
    allocation: Allocation | None
    """The allocation, in global memory."""
    columns: Array
    """In other memory: the CTA (for local memory the thread) of each lane, by its number in the batch; else empty."""
    active: Array | None
    """The participating lanes, None for all."""
    differs: Callable[[], Array] | None = None
    """For a store: a mask of the lanes whose value differs from memory, before the store and (in `memory_written`)
    after it.
    """
    everywhere: bool = False
    """All columns are accessed alike, each at every ``place``."""

    @property
    def place(self) -> Place:
        """The byte addresses, an int or an int64 array: absolute in global memory, else offsets."""
        return self.at.array().view(np.int64) if type(self.at) is Affine else self.at

    @property
    def places(self) -> Array:
        """The same as an int64 array."""
        return np.asarray(self.place, np.int64)

    @property
    def writes(self) -> bool:
        """Whether memory may change."""
        return self.kind != READ


@attrs.frozen
class BoxProblem:
    """Why boxes of a tensor cannot be copied; ``address`` is that of the map, if the map is the reason."""

    message: str
    advice: str = ""
    address: int | None = None


class Listener(Protocol):
    """A listener of the window, with a method for each of its ``events``."""

    @property
    def events(self) -> tuple[str, ...]:
        """The events that it listens to."""


class Window:
    """The events of a launch as callables; None without a listener."""

    launch_began: Callable[..., None] | None
    launch_ended: Callable[..., None] | None
    batch_began: Callable[..., None] | None
    cta_began: Callable[..., None] | None
    cta_ended: Callable[..., None] | None
    batch_ended: Callable[..., None] | None
    step_before: Callable[..., None] | None
    step_after: Callable[..., None] | None
    carried_before: Callable[..., None] | None
    carried_after: Callable[..., None] | None
    group_split: Callable[..., None] | None
    entry_counted: Callable[..., None] | None
    groups_met: Callable[..., None] | None
    group_parked: Callable[..., None] | None
    group_slept: Callable[..., None] | None
    group_woken: Callable[..., None] | None
    group_exiting: Callable[..., None] | None
    group_exited: Callable[..., None] | None
    function_entered: Callable[..., None] | None
    registers_read: Callable[..., None] | None
    registers_written: Callable[..., None] | None
    registers_changed: Callable[..., None] | None
    memory_accessed: Callable[..., None] | None
    memory_written: Callable[..., None] | None
    companion_accessed: Callable[..., None] | None
    memory_filled: Callable[..., None] | None
    memory_allocated: Callable[..., None] | None
    stack_extended: Callable[..., None] | None
    rows_accessed: Callable[..., None] | None
    rows_refused: Callable[..., None] | None
    tile_read: Callable[..., None] | None
    descriptor_read: Callable[..., None] | None
    global_tile_accessed: Callable[..., None] | None
    fence: Callable[..., None] | None
    warp_synchronised: Callable[..., None] | None
    collective_reached: Callable[..., None] | None
    collective_waits: Callable[..., None] | None
    collective_passed: Callable[..., None] | None
    collective_incomplete: Callable[..., None] | None
    warpgroup_incomplete: Callable[..., None] | None
    stalled: Callable[..., None] | None
    warp_split: Callable[..., None] | None
    barrier_operands_differ: Callable[..., None] | None
    barrier_reached: Callable[..., None] | None
    barrier_arrived: Callable[..., None] | None
    barrier_left: Callable[..., None] | None
    barrier_completed: Callable[..., None] | None
    cluster_barrier_arrived: Callable[..., None] | None
    cluster_barrier_left: Callable[..., None] | None
    mbarrier_initialised: Callable[..., None] | None
    mbarrier_invalidated: Callable[..., None] | None
    mbarrier_fenced: Callable[..., None] | None
    mbarrier_reached: Callable[..., None] | None
    mbarrier_changed: Callable[..., None] | None
    mbarrier_read: Callable[..., None] | None
    mbarrier_arrived: Callable[..., None] | None
    mbarrier_observed: Callable[..., None] | None
    async_issued: Callable[..., None] | None
    async_started: Callable[..., None] | None
    async_waited: Callable[..., None] | None
    async_delivered: Callable[..., None] | None
    async_signalled: Callable[..., None] | None
    async_visible: Callable[..., None] | None
    wgmma_fenced: Callable[..., None] | None
    wgmma_issued: Callable[..., None] | None
    wgmma_committed: Callable[..., None] | None
    wgmma_registers_accessed: Callable[..., None] | None
    wgmma_registers_renamed: Callable[..., None] | None
    wgmma_waited: Callable[..., None] | None
    map_changed: Callable[..., None] | None
    map_acquired: Callable[..., None] | None
    map_used: Callable[..., None] | None
    boxes_refused: Callable[..., None] | None
    finding: Callable[..., None] | None

    def __init__(self, watchers: Iterable[Listener] = ()) -> None:
        self.pausing = False
        """Whether a watcher requests a pause before the next step."""
        everybody = tuple(watchers)
        told = vars(self)
        for name, numbers in _heard(tuple([w.events for w in everybody])):
            if len(numbers) == 1:
                told[name] = getattr(everybody[numbers[0]], name)
            else:
                told[name] = _together([getattr(everybody[k], name) for k in numbers])


@functools.lru_cache(maxsize=256)
def _heard(events: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """For each event with listeners, their numbers."""
    heard: dict[str, list[int]] = {}
    for number, names in enumerate(events):
        for name in names:
            heard.setdefault(name, []).append(number)
    return tuple((name, tuple(numbers)) for name, numbers in heard.items())


def _together(listeners: list[Callable[..., None]]) -> Callable[..., None]:
    """One callable for several listeners, called in the given order."""

    def told(*arguments: object) -> None:
        for listener in listeners:
            listener(*arguments)

    return told


EVENTS = tuple(Window.__annotations__)
for _name in EVENTS:
    setattr(Window, _name, None)
