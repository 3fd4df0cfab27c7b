"""`Hooks`: what the machine calls where something happens. It does not know its listeners.

An event without a listener is None, so an unwatched event costs one test. `warpsim.machine.watcher.Watcher` declares the
events, on `Hooks` too, and documents their arguments, which are existing arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import attrs
import numpy as np

from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.values import Affine, Array, Place
from warpsim.records import define, frozen

READ, WRITE, ATOMIC = 0, 1, 2
"""What an access does to memory."""


NO_COLUMNS: Array = np.empty(0, np.int64)


@frozen(eq=False)
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
    after it."""
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


@frozen
class AccessCounts:
    """What accesses of ``nbytes`` a lane by warps have cost: ``lanes``, ``warps``, in global memory ``sectors``, in shared memory
    ``pieces`` and their ``passes``; of the first piece with ``most`` passes, if these are several, the ``cta`` of the batch, the ``warp``
    and the lanes' addresses, -1 for none."""

    space: str
    nbytes: int
    lanes: int
    warps: int = 0
    sectors: int = 0
    pieces: int = 0
    passes: int = 0
    most: int = 0
    cta: int = 0
    warp: int = 0
    addresses: tuple[int, ...] = ()


@frozen
class RegionCounts:
    """What compiled code has counted, by blocks and by steps of blocks of a group's function: warps that entered a block, their
    threads, and those of which only a part did; threads that a guard left out; warps that diverged; accesses."""

    seconds: float
    entries: dict[int, tuple[int, int, int]]
    left_out: dict[tuple[int, int], int]
    diverged: dict[int, int]
    accesses: list[tuple[int, int, AccessCounts]]


@frozen(eq=False)
class SharedLanes:
    """An access of shared memory at the step ``at`` of a block, by lanes of warps, or by rows of a matrix: their addresses and
    which of them take part, each ``[warps, lanes]``."""

    at: int
    writes: bool
    addresses: Array
    here: Array


@frozen(eq=False)
class RegionSteps:
    """Steps ``[first, last)`` of a block that all warps of the CTAs shown from near have executed together. ``accesses`` are one list
    where the same come again."""

    block: int
    first: int
    last: int
    accesses: list[SharedLanes]


@define(eq=False)
class RegionAccesses:
    """What compiled code may have accessed: ``extents(space)`` are parts ``[low, high)`` of "global" or "shared" memory. It is undone
    and interpreted, with an event for each access, where a listener sets ``followed``."""

    extents: Callable[[str], list[tuple[int, int]]]
    followed: bool = False


@frozen(eq=False)
class TensorAccess:
    """Accesses to tensor memory, each a rectangle of ``lanes`` by ``columns`` cells; created only if there is a listener."""

    kind: int
    """READ or WRITE."""
    ctas: Array
    """The CTA whose tensor memory it is, by its number in the batch, ``[k]``."""
    lane: Array
    """The first lane of each."""
    column: Array
    """The first column of each."""
    lanes: int
    columns: int
    positions: Array
    """The first thread of the warp, or the thread, that asks for each; flat positions in the batch."""
    part: str
    """The operand that names them ("d", "a" ...), if there are several."""


@frozen(eq=False)
class TensorProblem:
    """Why an instruction may not do what it asks of tensor memory; ``values`` are those that matter, ``rule`` is empty for those of tensor memory itself."""

    message: str
    advice: str
    values: dict[str, int] = attrs.field(factory=dict)
    severity: str = "error"
    rule: str = ""


@frozen
class BoxProblem:
    """Why boxes of a tensor cannot be copied; ``address`` is that of the map, if the map is the reason."""

    message: str
    advice: str = ""
    address: int | None = None


class Listener(Protocol):
    """A listener, with a method for each of its ``events``."""

    @property
    def events(self) -> tuple[str, ...]:
        """The events that it listens to."""

    @property
    def compiled(self) -> frozenset[str]:
        """Those that compiled code handles itself."""

    @property
    def apart(self) -> frozenset[str]:
        """Those that it also handles where it runs a whole launch whose threads keep apart."""

    @property
    def shadows(self) -> frozenset[str] | None:
        """The shadows of which `shadowed_before` and `shadowed_after` tell it; None for any."""


class Hooks:
    """The events of a launch as callables; None without a listener."""

    if TYPE_CHECKING:

        def __getattr__(self, event: str) -> Callable[..., None] | None:
            """An event."""

    def __init__(self, watchers: Iterable[Listener] = ()) -> None:
        self.pausing = False
        """Whether a watcher requests a pause before the next step."""
        listeners, events = tuple(watchers), vars(self)
        alone, shared, self.shadows = _listeners_of(tuple([(w.events, w.shadows) for w in listeners]))
        self.chains, self.unfollowed = _free(tuple([frozenset(w.events) for w in listeners]))
        """Whether products of wgmma may start together: nobody follows single steps, or tiles without following chains; and whether
        nobody follows single steps, or groups that part and meet."""
        for number, name in alone:  # each launch comes here
            events[name] = getattr(listeners[number], name)
        for name, numbers in shared:
            events[name] = _all([getattr(listeners[k], name) for k in numbers])


@functools.lru_cache(maxsize=256)
def _listeners_of(
    listeners: tuple[tuple[tuple[str, ...], frozenset[str] | None], ...],
) -> tuple[list[tuple[int, str]], list[tuple[str, list[int]]], frozenset[str] | None]:
    """Of each listener's events and shadows: the events with one listener, behind its number; those with several, before theirs;
    the shadows that any of them follows, None for all."""
    found: dict[str, list[int]] = {}
    for number, (names, _) in enumerate(listeners):
        for name in names:
            found.setdefault(name, []).append(number)
    alone = [(numbers[0], name) for name, numbers in found.items() if len(numbers) == 1]
    several = [(name, numbers) for name, numbers in found.items() if len(numbers) > 1]
    followed = [shadows for names, shadows in listeners if "shadowed_before" in names or "shadowed_after" in names]
    return alone, several, None if None in followed else frozenset().union(*filter(None, followed))


SINGLE = frozenset((
    "step_before", "step_after", "run_before", "run_after", "step_wrapped", "registers_read", "registers_written",
    "warp_synchronised",
))  # fmt: skip
"""Events of single steps."""
FOLLOWING = SINGLE - {"warp_synchronised"} | {"region_executed", "entry_counted", "group_split", "groups_met"}
"""Those of single steps but at collectives, and those of groups that part and meet."""
PRODUCTS = frozenset(("descriptor_read", "tile_read", "wgmma_issued"))
"""Events of single products of wgmma."""


@functools.lru_cache(maxsize=256)
def _free(listeners: tuple[frozenset[str], ...]) -> tuple[bool, bool]:
    chains = all(
        events.isdisjoint(SINGLE) and (events.isdisjoint(PRODUCTS) or "wgmma_chain_met" in events)
        for events in listeners
    )
    return chains, all(map(FOLLOWING.isdisjoint, listeners))


def _all(calls: list[Callable[..., None]]) -> Callable[..., None]:
    """One callable for several, called in the given order."""

    def call_all(*arguments: object) -> None:
        for call in calls:
            call(*arguments)

    return call_all
