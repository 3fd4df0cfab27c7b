"""tcgen05: accesses to tensor memory that nothing orders (PTX ISA: Memory Consistency Model for 5th generation of TensorCore
operations), and operations that nobody waits for.

mma, cp and shift are complete for a thread when it has observed the mbarrier of a later ``tcgen05.commit``; ld and st when the
warp has executed ``tcgen05.wait``. Of a thread's own mma, cp and shift each follows the one before; those of another thread follow
them if ``tcgen05.fence::before_thread_sync``, a synchronisation and ``::after_thread_sync`` come in between. What the second thread
does asynchronously is ordered after that fence only.

Triton's and CUTLASS's kernels leave these fences out where an mbarrier or a barrier orders the threads, and GPUs so far do
what they expect: that is a note.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.analysis.flow import blocks_of
from warpsim.analysis.tensor_loads import ADVICE, MESSAGE, early_uses
from warpsim.checks.cells import Log
from warpsim.checks.race.detector import phases_of
from warpsim.checks.tensor_clocks import COMMITTED, FENCED, LOADED, LOADED_BARE, MET, STORED, STORED_BARE, Clocks
from warpsim.isa.ports import TensorRuns
from warpsim.layout.tensor_memory import COLUMNS, LANES
from warpsim.machine.hooks import TensorAccess
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import present
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array
from warpsim.machine.watcher import WRITE, MemoryAccess, Watcher
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction

RULE = "tcgen05"
KNOWN: Note[TensorOrder] = Note(RULE)
EARLY: Note[dict[int, tuple[Instruction, Instruction, int]]] = Note("tcgen05.ld")
"""What uses the registers of each load before its wait, by identity of the load."""
GRANULE = 16
"""Lanes that are tracked together."""
CORE, LOAD, STORE = range(3)
"""Kinds of accesses: of mma, cp and shift, of ld, of st."""
LOAD_WAIT = "tcgen05.wait::ld", LOADED, LOADED_BARE
STORE_WAIT = "tcgen05.wait::st", STORED, STORED_BARE
AFTER = "tcgen05.fence::after_thread_sync between the synchronisation and this instruction"
BEFORE = "tcgen05.fence::before_thread_sync after the earlier access, before the synchronisation"
COMMIT = "tcgen05.commit to an mbarrier, wait for its phase, then tcgen05.fence::after_thread_sync"
FLAGS = 64
"""Different flags of one access that are told apart."""


class Accesses:
    """Every access so far, numbered from 1: kind, thread, warp, time, place and time of the commit (0: none)."""

    def __init__(self) -> None:
        self.n = 1
        self.rows = np.zeros((6, 1 << 10), np.int64)
        self.places: Log[Instruction | None] = Log(None)
        self._uncommitted: dict[tuple[int, str], list[int]] = {}

    def add(self, kind: int, positions: Array, warps: Array, time: int, instruction: Instruction) -> Array:
        """The numbers of new ones, one for each thread."""
        end = self.n + len(positions)
        while end > self.rows.shape[1]:
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)], axis=1)
        self.places.append(instruction)
        numbers = np.arange(self.n, end)
        new: tuple[Array | int, ...] = (kind, positions, warps, time, self.places.n - 1, 0)
        for row, values in zip(self.rows, new, strict=True):
            row[numbers] = values
        self.n = end
        return numbers

    def await_commit(self, numbers: Array, cta_group: str) -> None:
        """Note that a commit of this kind is to follow."""
        for number, position in zip(numbers.tolist(), self.rows[1, numbers].tolist(), strict=True):
            self._uncommitted.setdefault((position, cta_group), []).append(number)

    def commit(self, positions: Array, cta_group: str, time: int) -> None:
        """Commit the operations of threads."""
        for position in set(positions.tolist()):
            numbers = self._uncommitted.pop((position, cta_group), None)
            if numbers is not None:
                self.rows[5, numbers] = time

    def place(self, number: int) -> Instruction:
        """The instruction of an access."""
        found = self.places[int(self.rows[4, number])]
        assert found is not None
        return found


class TensorOrder:
    """The state of a batch: the last accesses to each cell of tensor memory, and in which order they are."""

    def __init__(self, machine: Machine) -> None:
        self.clocks = Clocks(machine)
        self.accesses = Accesses()
        shape = (machine.batch.shape.n_ctas, LANES // GRANULE, COLUMNS)
        self.cells = {kind: np.zeros(shape, np.int64) for kind in ("write", "core", "load")}
        """The last write of each cell, its last read by the tensor core since, and by ld."""
        self.complete: Array = np.zeros(machine.batch.shape.n_ctas, np.int64)
        """The last operation of each tensor core that a thread has found complete, by `Transfer.serial`."""
        self.entered: Array = np.zeros(machine.batch.shape.n, np.int64)
        """The phase in which each thread has last arrived at the barrier of its cluster."""

    def access(
        self,
        machine: Machine,
        group: Group,
        kind: int,
        positions: Array,
        reads: tuple[TensorRuns, ...],
        writes: tuple[TensorRuns, ...],
    ) -> Array:
        """Check and record accesses of the threads at ``positions``, by whose index the runs name their issuers."""
        clocks = self.clocks
        numbers = self.accesses.add(kind, positions, clocks.warps_of(positions), clocks.tick(), present(group))
        for runs, write in (*((runs, False) for runs in reads), *((runs, True) for runs in writes)):
            for ctas, place, some in _blocks(runs):
                mine = numbers[runs.issuer[some]]
                for cells in self.cells.values() if write else (self.cells["write"],):
                    earlier = cells[(ctas, *place)].reshape(len(ctas), -1)
                    if earlier.any():
                        self._compare(machine, group, mine, earlier)
                if write:
                    for cells in self.cells.values():
                        cells[(ctas, *place)] = 0
                name = "write" if write else "core" if kind == CORE else "load"
                self.cells[name][(ctas, *place)] = mine[:, None, None]
        return numbers

    def _compare(self, machine: Machine, group: Group, numbers: Array, earlier: Array) -> None:
        """Check accesses against ``earlier`` ones to the same cells, by their numbers ``[k]`` and ``[k, cells]``."""
        first = earlier[:, :1]
        if (earlier == first).all():
            rows, found = np.arange(len(earlier)), first[:, 0]
        else:
            keys = distinct(earlier + (np.arange(len(earlier)) << 40)[:, None])
            rows, found = keys >> 40, keys & ((1 << 40) - 1)
        other = (found > 0) & (found != numbers[rows])
        mine, found = numbers[rows][other], found[other]
        unordered = np.flatnonzero(~self._ordered(mine, found))
        for now, then in zip(mine[unordered].tolist(), found[unordered].tolist(), strict=True):
            what, severity, advice = self._problem(now, then)
            place = self.accesses.place(then)
            lanes = np.isin(group.selection.positions, self.accesses.rows[1, now])
            message = f"the tensor memory that line {place.span.line} ({_name(place)}) accesses {what}"
            machine.fault(RULE, message, group, lanes, severity=severity, advice=advice, other=place)
        if len(unordered):  # one fence that is missing is reported once
            warps, others = (self.accesses.rows[2, numbers[unordered]] for numbers in (mine, found))
            self.clocks.assume_fences(warps, others)

    def _ordered(self, mine: Array, theirs: Array) -> Array:
        """Whether accesses are ordered after others."""
        clocks = self.clocks
        kind, _, warps, *_ = self.accesses.rows[:, mine]
        kinds, _, others, times, _, committed = self.accesses.rows[:, theirs]

        def seen(row: int) -> Array:
            return clocks.knows(warps, row, others, seen=True)

        core, same = kinds == CORE, warps == others
        complete = core & (committed > 0) & (seen(COMMITTED) >= committed)
        pipelined = core & (kind == CORE) & (same | (seen(FENCED) > times))
        waited = np.where(kinds == STORE, clocks.waited[1, warps], clocks.waited[0, warps])
        passed = np.where(kinds == STORE, seen(STORED), seen(LOADED))
        return complete | pipelined | (~core & (np.where(same, waited, passed) > times))

    def _problem(self, mine: int, other: int) -> tuple[str, str, str]:
        """What an access lacks that is not ordered after another: text, severity and advice."""
        clocks, one = self.clocks, slice(mine, mine + 1)
        kind, _, warp, *_ = self.accesses.rows[:, one]
        theirs, _, owner, then, _, committed = self.accesses.rows[:, other : other + 1]

        def known(row: int) -> bool:
            return bool((clocks.knows(warp, row, owner, seen=False) > then).all())

        def waited(row: int) -> bool:
            return bool((committed > 0) & (clocks.knows(warp, row, owner, seen=False) >= committed).all())

        if theirs == CORE:
            if committed > 0 and waited(COMMITTED):
                return "is accessed again, with no fence since the wait", "note", AFTER
            if kind == CORE and known(MET):
                missing = ("after", AFTER) if known(FENCED) else ("before", BEFORE)
                return (
                    f"is used by another thread, with no fence {missing[0]} the synchronisation",
                    "note",
                    missing[1],
                )
            why = "nothing has waited for its commit" if committed > 0 else "it was never committed"
            return f"is accessed again while that is in flight: {why}", "error", COMMIT
        wait, fenced, bare = LOAD_WAIT if theirs == LOAD else STORE_WAIT
        if warp == owner:
            return f"is accessed again without {wait} in between", "error", wait
        if known(fenced):
            return "is accessed by another warp, with no fence after the synchronisation", "note", AFTER
        if known(bare):
            return "is accessed by another warp, with no fence before the synchronisation", "note", BEFORE
        if known(MET):
            return f"is accessed by another warp, with no {wait} before the synchronisation", "error", wait
        return "is accessed by another warp, and nothing orders the two", "error", f"{wait} and a barrier"

    def free(
        self, machine: Machine, group: Group, ctas: Array, columns: Array, counts: Array, positions: Array
    ) -> None:
        """Check tensor memory that warps free, and forget what was done there."""
        warps = self.clocks.warps_of(positions)
        for number, (cta, column, count) in enumerate(np.stack([ctas, columns, counts], axis=1).tolist()):
            where = cta, slice(None), slice(column, column + count)
            found = distinct(np.stack([cells[where] for cells in self.cells.values()]))
            self._check_free(machine, group, warps[[number]].repeat(len(found)), found)
            for cells in self.cells.values():
                cells[where] = 0

    def _check_free(self, machine: Machine, group: Group, warps: Array, found: Array) -> None:
        """Report earlier accesses, by their numbers, that may not be over where warps free what they access. One that only lacks its
        ``tcgen05.wait`` is a note: CUTLASS's tutorials load, use the registers, and free."""
        clocks = self.clocks
        kinds, _, theirs, times, _, committed = self.accesses.rows[:, found]
        complete = (committed > 0) & (clocks.knows(warps, COMMITTED, theirs, seen=False) >= committed)
        met = (theirs == warps) | (clocks.knows(warps, MET, theirs, seen=False) > times)
        bare = [clocks.knows(warps, row, theirs, seen=False) for row in (LOADED_BARE, STORED_BARE)]
        waited = np.where(kinds == LOAD, *bare) > times
        core = kinds == CORE
        for row in np.flatnonzero(~np.where(core, complete, met & waited) & (found > 0)).tolist():
            place = self.accesses.place(int(found[row]))
            message = f"tensor memory is freed while the {_name(place)} of line {place.span.line} "
            if core[row]:
                message, severity, advice = message + "is in flight", "error", COMMIT
            elif met[row]:
                wait = (LOAD_WAIT if kinds[row] == LOAD else STORE_WAIT)[0]
                message, severity, advice = message + f"may be in flight, with no {wait} since", "note", wait
            else:
                message, severity, advice = message + "may access it", "error", "a barrier before tcgen05.dealloc"
            machine.fault(RULE, message, group, severity=severity, advice=advice, other=place)


def _name(instruction: Instruction) -> str:
    return ".".join(instruction.op.text.split(".")[:2])


def _blocks(runs: TensorRuns) -> Iterator[tuple[Array, tuple[slice, slice], Array]]:
    """Runs at one place: the columns of their CTAs, where they are there, and which they are."""
    keys = runs.lane << 16 | runs.column
    for key in distinct(keys).tolist():
        lane, column = key >> 16, key & 0xFFFF
        some = np.flatnonzero(keys == key)
        lanes = slice(lane // GRANULE, -(-(lane + runs.n_lanes) // GRANULE))
        yield runs.cta[some], (lanes, slice(column, column + runs.n_columns)), some


class TensorOrders(Watcher):
    """Passes events to the state of each batch."""

    def _of(self, machine: Machine) -> TensorOrder:
        return machine.batch.notes[KNOWN]

    def batch_began(self, machine: Machine) -> None:
        """Start with nothing in flight."""
        machine.batch.notes[KNOWN] = TensorOrder(machine)

    # ---- tcgen05 -----------------------------------------------------------------------------

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Check operations of the tensor core, and note what the threads know that signal something later."""
        order, tensor = self._of(machine), transfer.tensor
        if transfer.signal is not None:
            transfer.known = order.clocks.released(order.clocks.warps_of(transfer.positions), commit=tensor is not None)
            if tensor is not None:
                order.accesses.commit(transfer.positions, transfer.after, order.clocks.now)
        elif tensor is not None:
            args = transfer.positions, tensor.reads, tensor.writes
            numbers = order.access(machine, transfer.group, CORE, *args)
            order.accesses.await_commit(numbers, transfer.kind)

    def async_signalled(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Pass on what was known to who waits."""
        signal, known, clocks = transfer.signal, transfer.known, self._of(machine).clocks
        assert signal is not None, "only signals are announced"
        assert known is not None, "what signals was announced when it was issued"
        address = np.broadcast_to(signal.address, signal.columns.shape)[which]
        for place in distinct(address).tolist():
            mine = which[address == place]
            phases = transfer.phase[mine].astype(np.int64)
            clocks.release_phase(place, signal.columns[mine], phases, known[mine])

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note complete operations, which earlier ones of their tensor cores precede."""
        if transfer.tensor is not None:
            np.maximum.at(self._of(machine).complete, transfer.tensor.pipes[which], transfer.serial)

    def tensor_accessed(self, machine: Machine, group: Group, access: TensorAccess) -> None:
        """Check ld and st; what the tensor core does was checked when it was issued."""
        instruction = present(group)
        if "tensor_core" in instruction.form.ports:
            return
        every = np.arange(len(access.ctas))
        runs = (TensorRuns(every, access.ctas, access.lane, access.column, access.lanes, access.columns),)
        kind, *used = (STORE, (), runs) if access.kind else (LOAD, runs, ())
        if kind == LOAD:
            self._used_early(machine, group, instruction)
        self._of(machine).access(machine, group, kind, access.positions, *used)

    def _used_early(self, machine: Machine, group: Group, load: Instruction) -> None:
        """Report that the registers of a load are used before its wait."""
        function, notes = group.plan.function, group.plan.notes
        if EARLY not in notes:
            notes[EARLY] = {id(found[0]): found for found in early_uses(function, blocks_of(function)[0])}
        if id(load) in notes[EARLY]:
            _, use, register = notes[EARLY][id(load)]
            message = MESSAGE.format(function.registers[register].name, load.span.line)
            machine.fault(RULE, message, group, place=use, other=load, severity="note", advice=ADVICE)

    def tensor_waited(self, machine: Machine, group: Group, active: Array | None, written: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Note ``tcgen05.wait``."""
        clocks = self._of(machine).clocks
        clocks.wait(distinct(clocks.warps_of(group.lanes(active))), stores=written)

    def tensor_freed(
        self, machine: Machine, group: Group, ctas: Array, column: Array, columns: Array, positions: Array
    ) -> None:
        """Check tensor memory that is freed."""
        self._of(machine).free(machine, group, ctas, column, columns, positions)

    def tensor_fenced(self, machine: Machine, group: Group, positions: Array, before: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Note ``tcgen05.fence``."""
        clocks = self._of(machine).clocks
        warps = distinct(clocks.warps_of(positions))
        if before:
            clocks.before_sync(warps)
        else:
            clocks.after_sync(warps)

    def group_exiting(self, machine: Machine, group: Group) -> None:
        """Report operations of which no thread knows that they are complete, with the last threads of their CTAs."""
        last = machine.batch.alive == group.selection.per_cta
        for transfer in machine.batch.transfers.open:
            place = transfer.place
            if transfer.tensor is None or transfer.signal is not None or place is None:
                continue
            left = transfer.open & (self._of(machine).complete[transfer.tensor.pipes] < transfer.serial)
            if (left & last[transfer.positions % machine.batch.shape.n_ctas]).any():
                message = f"the CTA ends, and nothing has waited for this {_name(place)}"
                machine.fault(RULE, message, group, place=place, advice=COMMIT)

    # ---- synchronisation ---------------------------------------------------------------------

    def barrier_arrived(self, machine: Machine, group: Group, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Note arrivals at a barrier of CTAs."""
        clocks = self._of(machine).clocks
        warps = distinct(clocks.warps_of(group.selection.positions.reshape(-1)))
        clocks.release(("bar", number), warps % clocks.n_ctas, clocks.released(warps))

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Note threads that passed a barrier."""
        clocks = self._of(machine).clocks
        if group is None:
            clocks.meet()
            return
        warps = distinct(clocks.warps_of(group.selection.positions.reshape(-1)))
        clocks.acquire(("bar", number), warps % clocks.n_ctas, warps)

    def cluster_barrier_arrived(self, machine: Machine, group: Group) -> None:
        """Note arrivals at the barriers of clusters."""
        order, barrier = self._of(machine), machine.batch.cluster_barrier
        assert barrier is not None
        positions = group.selection.positions.reshape(-1)
        phases = barrier.phase[barrier.cluster[positions % order.clocks.n_ctas]]
        order.entered[positions] = phases
        warps, first = np.unique(order.clocks.warps_of(positions), return_index=True)
        clusters = order.clocks.cluster[warps % order.clocks.n_ctas]
        order.clocks.release_phase("cluster", clusters, phases[first] & 1, order.clocks.released(warps))

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Note threads that passed the barriers of their clusters."""
        order, positions = self._of(machine), group.selection.positions.reshape(-1)
        warps, first = np.unique(order.clocks.warps_of(positions), return_index=True)
        clusters = order.clocks.cluster[warps % order.clocks.n_ctas]
        order.clocks.acquire_phase("cluster", clusters, order.entered[positions][first] & 1, warps)

    def mbarrier_arrived(
        self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array, phases: Array
    ) -> None:
        """Note arrivals at mbarriers."""
        clocks = self._of(machine).clocks
        for address, mine, warps in _by_place(clocks, positions, columns, place):
            clocks.release_phase(address, columns[mine], phases[mine].astype(np.int64), clocks.released(warps))

    def mbarrier_observed(self, machine: Machine, group: Group, positions: Array, columns: Array, place: Array) -> None:
        """Note threads that have observed the end of a phase."""
        clocks, over = self._of(machine).clocks, 1 - phases_of(machine, columns, place)
        for address, mine, warps in _by_place(clocks, positions, columns, place):
            clocks.acquire_phase(address, columns[mine], over[mine], warps)

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note flags: strong accesses tell those that follow them what was known before."""
        traits = present(group).traits
        if not traits.order.strong or traits.mbarrier is not None or access.space == "local" or machine.delivering:
            return
        clocks, shape = self._of(machine).clocks, group.selection.shape
        lanes = np.ones(shape, np.bool_) if access.active is None else np.broadcast_to(access.active, shape)
        warps = clocks.warps_of(group.selection.positions[lanes])
        place = np.broadcast_to(access.places, shape)[lanes]
        columns = (
            np.broadcast_to(access.columns, shape)[lanes] if access.columns.size else np.zeros(len(place), np.int64)
        )
        keys, which = np.unique(columns << 48 | place, return_inverse=True)
        for number, key in enumerate(keys.tolist()) if len(keys) <= FLAGS else ((0, "any flag"),):
            mine = distinct(warps[which == number] if len(keys) <= FLAGS else warps)
            here = np.zeros(len(mine), np.int64)
            if access.kind != WRITE:
                clocks.acquire((access.space, key), here, mine)
            if access.writes:
                clocks.release((access.space, key), here, clocks.released(mine))


def _by_place(clocks: Clocks, positions: Array, columns: Array, place: Array) -> Iterator[tuple[int, Array, Array]]:
    """For each different address: a lane of each warp that uses it, and these warps."""
    warps = clocks.warps_of(positions)
    for address in distinct(place).tolist():
        here = np.flatnonzero(place == address)
        _, first = np.unique(warps[here] << 24 | columns[here], return_index=True)
        yield address, here[first], warps[here[first]]
