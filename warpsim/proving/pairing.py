"""Whether arrivals and waits meet in the same phases of barriers in all orders of threads.

They do if whoever arrives knows that the last phase is complete; if whoever waits by parity knows it of the phase before the one it
waits for, which has the other parity; and if the next phase cannot be complete before it has seen that one. To know is to happen
after, in the race rule's clocks. Copies that complete at an mbarrier do so as late, or as early, as a launch lets them.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from warpsim.checks.race.clocks import BatchClocks, objects
from warpsim.checks.race.detector import RaceWatcher, phases_of, races_of
from warpsim.machine.machine import Machine
from warpsim.machine.plan import Issue
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array
from warpsim.machine.watcher import Watcher
from warpsim.program.program import Instruction
from warpsim.records import define

WHY = "threads in another order meet in another phase"
COLUMNS = "warps in another order get other columns of tensor memory"
NEVER = 1 << 62
"""A time before which nothing is known to happen."""
Events = Array
"""``[2, n]``: threads of the launch, and times."""


def _none() -> Events:
    return np.zeros((2, 0), np.int64)


def _events(clocks: BatchClocks, positions: Array) -> Events:
    """What these threads do now."""
    return np.stack([positions + clocks.base, np.full(len(positions), clocks.now)])


def _unordered(clocks: BatchClocks, events: Events, positions: Array) -> Array:
    """A mask ``[n, threads]`` of the events that do not happen before what these threads do now."""
    n, m = events.shape[1], len(positions)
    if not n or not m:
        return np.ones((n, m), np.bool_)
    threads, times = np.repeat(events, m, axis=1)
    return clocks.order.unordered(threads, times, np.tile(positions, n)).reshape(n, m)


@define(eq=False)
class Phases:
    """The present phase of a barrier, and the last two: who ``arrived`` in each, who has ``seen`` each complete, and who of those who
    have seen the last one ``may_wait`` still, for all that those know who arrive in the present one."""

    parity: int = 0
    arrived: list[Events] = attrs.field(factory=lambda: [_none(), _none(), _none()])
    seen: list[Events] = attrs.field(factory=lambda: [_none(), _none(), _none()])
    may_wait: Events = attrs.field(factory=_none)
    parties: Array = attrs.field(factory=lambda: np.zeros(0, np.int64))
    """Of who may wait: equal numbers (below 0) where one stands for others."""

    def reach(self, parity: int) -> bool:
        """Begin the next phase if the present one has another parity; False as `turn`."""
        return self.parity == parity or self.turn()

    def turn(self) -> bool:
        """Begin the next phase; False if somebody may still wait for the one before."""
        waited = not self.may_wait.size
        self.parity = 1 - self.parity
        self.may_wait, self.parties = _none(), np.zeros(0, np.int64)
        self.arrived, self.seen = ([_none(), *events[:2]] for events in (self.arrived, self.seen))
        return waited

    def arrive(self, clocks: BatchClocks, positions: Array, *, late: bool = False) -> bool:
        """Note arrivals (``late``: at any time from now on); False if they may belong to the last phase."""
        known, events = self._is_over(clocks, positions, 1), _events(clocks, positions)
        if self.may_wait.size:
            over = self.parties[~_unordered(clocks, self.may_wait, positions).all(axis=1)]
            self._keep(~np.isin(self.parties, over))
        if late:
            events[1] = NEVER
        self.arrived[0] = np.concatenate([self.arrived[0], events], axis=1)
        return known

    def see(self, clocks: BatchClocks, positions: Array) -> bool:
        """Note who has seen the last phase complete; False if they may have come before it began."""
        known, events = self._is_over(clocks, positions, 2), _events(clocks, positions)
        self._wait(events, events[0])
        self.seen[1] = np.concatenate([self.seen[1], events], axis=1)
        return known

    def meet(self, events: Events) -> None:
        """Of these threads, who come together, one stands for all."""
        mine = np.isin(self.may_wait[0], events[0]) & (self.parties >= 0)
        if mine.any():
            self._keep(~mine)
            self._wait(events, np.full(events.shape[1], -1 - events[0, 0]))

    def _wait(self, events: Events, parties: Array) -> None:
        self.may_wait = np.concatenate([self.may_wait, events], axis=1)
        self.parties = np.concatenate([self.parties, parties])

    def _keep(self, which: Array) -> None:
        self.may_wait, self.parties = self.may_wait[:, which], self.parties[which]

    def _is_over(self, clocks: BatchClocks, positions: Array, phase: int) -> bool:
        """Whether these threads know that a phase is complete: of all arrivals, or of one who has seen it."""
        unknown = positions[_unordered(clocks, self.arrived[phase], positions).any(axis=0)]
        return not _unordered(clocks, self.seen[phase], unknown).all(axis=0).any()


def _copying(machine: Machine, key: int, over: int) -> bool:
    """Whether copies are in flight that began in a phase of an mbarrier which is over: it came to an end with others."""
    for transfer in machine.batch.transfers.open:
        if transfer.signal is not None and not transfer.after:
            mine = (transfer.signal.keys == key) & (transfer.phase == over)
            if (mine & transfer.open & ~transfer.landed).any():
                return True
    return False


@define(eq=False)
class Allocators:
    """Who has last allocated tensor memory of a CTA, and who has freed some since."""

    allocated: Events = attrs.field(factory=_none)
    freed: Events = attrs.field(factory=_none)


class Pairing(Watcher):
    """Notes instructions whose phases depend on the order of threads. Comes before the ``detector`` of races: what a wait acquires is
    not known before it."""

    def __init__(self, strange: dict[int, tuple[Instruction, str]], detector: RaceWatcher) -> None:
        self.strange, self.detector = strange, detector
        self._phases: dict[tuple[int, int], Phases] = {}
        self._allocators: dict[int, Allocators] = {}
        self._partial: set[int] = set()
        """Barriers of the CTA that were ever passed by some threads only."""

    def _note(self, group: Group, *, known: bool, why: str = WHY) -> None:
        if not known:
            instruction = group.instruction
            self.strange.setdefault(id(instruction), (instruction, why))

    def mbarrier_initialised(
        self, machine: Machine, group: Group, columns: Array, place: Array, count: Array, active: Array | None
    ) -> None:
        """Begin with the first phase."""
        base = self._clocks(machine, group).base
        for key in zip((base + columns).tolist(), place.tolist(), strict=True):
            self._phases.pop(key, None)

    def mbarrier_arrived(
        self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array, phases: Array
    ) -> None:
        """Threads arrive at mbarriers: lanes one after another."""
        clocks, parities = self._clocks(machine, group), phases_of(machine, columns, place)
        for state, which, _ in self._states(clocks, columns, place):
            for parity in (state.parity, 1 - state.parity):
                mine = positions[which[phases[which] == parity]]
                if len(mine):
                    known = state.reach(parity)
                    self._note(group, known=state.arrive(clocks, mine) and known)
            self._note(group, known=state.reach(int(parities[which[0]])))

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Copies and products will arrive at mbarriers."""
        signal, group = transfer.signal, transfer.group
        if signal is None or not signal.arrivals:
            return
        clocks, parities = self._clocks(machine, group), phases_of(machine, signal.columns, signal.address)
        for state, which, _ in self._states(clocks, signal.columns, signal.address):
            known = state.reach(int(parities[which[0]]))
            self._note(group, known=state.arrive(clocks, transfer.positions[which], late=True) and known)

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Copies may have completed a phase."""
        signal, clocks = transfer.signal, races_of(machine).clocks
        if signal is not None:
            parities = phases_of(machine, signal.columns, signal.address)
            for state, mine, _ in self._states(clocks, signal.columns, signal.address):
                self._note(transfer.group, known=state.reach(int(parities[mine[0]])))

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Threads see that the last phases are complete."""
        clocks, parities = self._clocks(machine, group), phases_of(machine, columns, place)
        for state, which, key in self._states(clocks, columns, place):
            parity = int(parities[which[0]])
            known = state.reach(parity) and not _copying(machine, key, 1 - parity)
            self._note(group, known=state.see(clocks, positions[which]) and known)

    def tensor_allocated(self, machine: Machine, group: Group, ctas: Array, column: Array, columns: Array) -> None:
        """Warps get the first columns that are free: who has come before must be known."""
        clocks = self._clocks(machine, group)
        for state, mine in self._allocating(clocks, group.selection.positions.reshape(-1)):
            earlier = np.concatenate([state.allocated, state.freed], axis=1)
            self._note(group, known=not _unordered(clocks, earlier, mine).any(), why=COLUMNS)
            state.allocated, state.freed = _events(clocks, mine), _none()

    def tensor_freed(
        self, machine: Machine, group: Group, ctas: Array, column: Array, columns: Array, positions: Array
    ) -> None:
        """Who gets columns before others are freed must be known."""
        clocks = self._clocks(machine, group)
        for state, mine in self._allocating(clocks, positions):
            self._note(group, known=not _unordered(clocks, state.allocated, mine).any(), why=COLUMNS)
            state.freed = np.concatenate([state.freed, _events(clocks, mine)], axis=1)

    def _allocating(self, clocks: BatchClocks, positions: Array) -> Iterator[tuple[Allocators, Array]]:
        ctas = positions % clocks.n_ctas
        for cta in np.unique(ctas).tolist():
            yield self._allocators.setdefault(clocks.base + cta, Allocators()), positions[ctas == cta]

    def wgmma_issued(self, machine: Machine, group: Group, issue: Issue) -> None:
        """The warps of warpgroups come together, so who arrives later need know of one of their threads only."""
        waiting = [state for state in self._phases.values() if state.may_wait.size]
        if waiting:
            clocks, positions = self._clocks(machine, group), group.selection.positions.reshape(-1)
            party = positions // clocks.n_ctas // 128 * clocks.n_ctas + positions % clocks.n_ctas
            for each in np.unique(party).tolist():
                for state in waiting:
                    state.meet(_events(clocks, positions[party == each]))

    def barrier_reached(self, machine: Machine, group: Group, number: int, count: int) -> None:
        """Threads come to a barrier of their CTAs. One that all threads pass is complete in any order when they go on."""
        barrier = group.instruction.traits.barrier
        partial = count not in (0, machine.batch.shape.n_threads) or (barrier is not None and not barrier.waits)
        if partial:
            self._partial.add(number)
        if number not in self._partial:
            return
        clocks, positions = self._clocks(machine, None), group.selection.positions.reshape(-1)
        clocks.launch.begin(None, 0)
        columns = positions % clocks.n_ctas
        for state, which, _ in self._states(clocks, columns, np.full(len(columns), -1 - number)):
            arrived = state.arrived[0]
            self._note(group, known=state.arrive(clocks, positions[which]))
            if not partial:
                state.arrived[0] = arrived

    def barrier_completed(self, machine: Machine, number: int, columns: Array) -> None:
        """Begin the next phase of a barrier that not all threads pass."""
        clocks = self._clocks(machine, None)
        for state, _, _ in self._states(clocks, columns, np.full(len(columns), -1 - number)):
            state.turn()

    def _clocks(self, machine: Machine, group: Group | None) -> BatchClocks:
        """The clocks of the batch, at the group's step or (None) a new one."""
        races = self.detector.at_new_step(machine) if group is None else self.detector.at(machine, group)
        races.clocks.widen()
        return races.clocks

    def _states(self, clocks: BatchClocks, columns: Array, place: Array) -> Iterator[tuple[Phases, Array, int]]:
        """The barriers at places: their phases, which of the places are theirs, and their keys."""
        order, found = objects(columns, place)
        for start, stop in found:
            which = order[start:stop]
            column, at = int(columns[which[0]]), int(place[which[0]])
            yield self._phases.setdefault((clocks.base + column, at), Phases()), which, column << 32 | at
