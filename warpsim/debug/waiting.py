"""What threads synchronise on: barriers, mbarriers, and operations in flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from warpsim.debug.threads import GroupState, group_states, peek, ranges
from warpsim.layout import mbarriers as words
from warpsim.machine.asynchrony.tensor_moves import LOADS, STORES
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array
from warpsim.program.program import Instruction
from warpsim.records import frozen
from warpsim.types import StateSpace

Dims = tuple[int, int, int]
MBARRIERS: Note[set[tuple[int, int]]] = Note("mbarriers in use")
"""The key under which a batch records where mbarriers were initialised."""


@frozen
class BarrierState:
    """A barrier: its ``number`` (None for the barrier of ``cta``'s cluster), threads arrived and expected, and the
    waiting warps."""

    cta: Dims
    number: int | None
    arrived: int
    expected: int
    waiting: tuple[int, ...]


@frozen
class MbarrierState:
    """An mbarrier: its place, the parity of its phase, the pending arrivals and bytes, the arrivals of a phase, and the
    waiting warps."""

    cta: Dims
    address: int
    name: str
    phase: int
    pending: int
    expected: int
    bytes: int
    waiting: tuple[int, ...]


@frozen
class InFlight:
    """Operations started by one step whose completion no thread has observed.

    Lists the shared memory that they write and read as (CTA, address, bytes), the registers of wgmma, the tensor memory that
    tcgen05 operations write and read, in words, and what makes them visible.
    """

    instruction: str
    line: int
    cta: Dims
    warp: int
    lanes: str
    writes: tuple[tuple[Dims, int, int], ...] = ()
    reads: tuple[tuple[Dims, int, int], ...] = ()
    registers: tuple[str, ...] = ()
    until: str = ""
    tensor: tuple[str, ...] = ()


def barriers_of(machines: Iterable[Machine]) -> tuple[BarrierState, ...]:
    """Barriers of CTAs and clusters at which threads have arrived."""
    found = []
    for machine in machines:
        batch = machine.batch
        for number, barrier in sorted(batch.barriers.items()):
            for column in np.flatnonzero(barrier.arrived).tolist():
                expected = int(barrier.expected[column]) or int(batch.alive[column])
                waiting = _warps(barrier.waiting, column)
                found.append(
                    BarrierState(machine.cta_at(column), number, int(barrier.arrived[column]), expected, waiting)
                )
        cluster = batch.cluster_barrier
        for index in np.flatnonzero(cluster.arrived).tolist() if cluster is not None else []:
            assert cluster is not None
            columns = np.flatnonzero(cluster.cluster == index)
            waiting = tuple(sorted({w for c in columns.tolist() for w in _warps(cluster.waiting, c)}))
            expected = int(batch.alive[columns].sum())
            found.append(
                BarrierState(machine.cta_at(int(columns[0])), None, int(cluster.arrived[index]), expected, waiting)
            )
    return tuple(found)


def _warps(groups: Iterable[Group], column: int) -> tuple[int, ...]:
    """The warps of a CTA that occur in groups."""
    found: set[int] = set()
    for group in groups:
        mine = group.selection.ctas.reshape(-1) == column
        found |= set((group.selection.threads.reshape(-1)[mine] >> 5).tolist())
    return tuple(sorted(found))


# ---- mbarriers ----------------------------------------------------------------------------------


def note_mbarriers(machine: Machine, columns: Array, place: Array, *, valid: bool) -> None:
    """Note where mbarriers are, or no longer are: nothing in memory distinguishes them from data."""
    known = machine.batch.notes.setdefault(MBARRIERS, set())
    (known.update if valid else known.difference_update)(zip(columns.tolist(), place.tolist(), strict=True))


def mbarriers_of(machines: Iterable[Machine]) -> tuple[MbarrierState, ...]:
    """The mbarriers in use."""
    found = []
    for machine in machines:
        waits = _waits(machine)
        for column, address in sorted(machine.batch.notes.get(MBARRIERS) or ()):
            where = np.array([address]), np.array([column])
            word = machine.batch.shared.gather(*where, np.dtype(np.uint64))
            name, waiting = shared_name(machine, address), tuple(sorted(waits.get((column, address), ())))
            counts = (
                words.phase(word),
                words.pending(word),
                word >> np.uint64(20) & np.uint64(0xFFFFF),
                words.tx_count(word),
            )
            phase, pending, expected, nbytes = (int(count[0]) for count in counts)
            cta = machine.cta_at(column)
            found.append(MbarrierState(cta, address, name, phase, pending, expected, nbytes, waiting))
    return tuple(found)


def shared_name(machine: Machine, address: int) -> str:
    """Name an address of shared memory by the variable that contains it."""
    launch = machine.launch
    return launch.plan.shared.name(address, launch.shared_size) or f"0x{address:x}"


def _waits(machine: Machine) -> dict[tuple[int, int], set[int]]:
    """Map each mbarrier to the warps that stand at a wait on it, or sleep in a loop around one."""
    found: dict[tuple[int, int], set[int]] = {}
    for at in group_states(machine):
        wait = _wait_of(at)
        operand = wait.address if wait is not None else None
        if operand is None or operand.base is None:
            continue
        group, register, variable = at.group, operand.base.register, operand.base.variable
        if register is not None:
            base = peek(group, register.index).astype(np.int64)
        elif variable is not None and variable.space is StateSpace.SHARED:
            base = np.full(group.selection.n, machine.launch.plan.address(variable))
        else:
            continue
        ctas, threads = group.selection.ctas.reshape(-1), group.selection.threads.reshape(-1)
        for column, address, warp in set(
            zip(ctas.tolist(), (base + operand.offset).tolist(), (threads >> 5).tolist(), strict=True)
        ):
            found.setdefault((column, address & 0xFFFFFF), set()).add(warp)
    return found


def _wait_of(at: GroupState) -> Instruction | None:
    """The mbarrier wait at which a group stands, or around which it loops."""
    if _is_wait(at.instruction):
        return at.instruction
    if at.state != "polls memory":
        return None
    plan = at.group.plan
    inside = plan.loop(at.group.block).blocks
    return next((i for b in plan.blocks if b.index in inside for i in b.instructions if _is_wait(i)), None)


def _is_wait(instruction: Instruction) -> bool:
    return instruction.traits.mbarrier is not None and instruction.traits.polls


# ---- in flight ----------------------------------------------------------------------------------


def in_flight_of(machines: Iterable[Machine]) -> tuple[InFlight, ...]:
    """Copies and wgmma whose completion no thread has observed, in the order of their start."""
    found = []
    for machine in machines:
        for transfer in [*machine.batch.transfers.freed, *machine.batch.transfers.open]:
            if transfer.open.any():
                found.append(_copy(machine, transfer))
        found += _wgmma(machine)
    return tuple(found)


def _copy(machine: Machine, transfer: Transfer) -> InFlight:
    place = transfer.place or transfer.group.instruction
    positions = transfer.positions[transfer.open]
    n_ctas = machine.batch.shape.n_ctas
    threads = positions // n_ctas
    mine = threads[positions % n_ctas == positions[0] % n_ctas]
    warp = int(mine[0]) >> 5
    lanes = ranges(np.unique(mine[mine >> 5 == warp] & 31))
    if transfer.signal is not None:
        signal = transfer.signal
        column, address = int(signal.columns[0]), int(signal.address[0])
        until = f"the phase of the mbarrier {shared_name(machine, address)} of CTA {machine.cta_at(column)} is over"
    elif transfer.tensor is not None:
        until = "the phase of the mbarrier of a later tcgen05.commit is over"
    elif transfer.kind in (LOADS, STORES):
        until, lanes = transfer.kind.replace(".", ".wait::"), ranges(np.arange(32))
    elif transfer.kind == "cp.async":
        until = f"cp.async.wait_group (group {int(transfer.number[0])}) and a barrier"
    else:
        until = f"cp.async.bulk.wait_group (group {int(transfer.number[0])})" if transfer.kind else "its completion"
    runs: list[tuple[tuple[Dims, int, int], ...]] = []
    for footprint in (transfer.writes, transfer.reads):
        if footprint is None:
            runs.append(())
            continue
        open = footprint.of_runs(transfer.open)
        pairs = zip(footprint.columns.tolist(), footprint.start.tolist(), open.tolist(), strict=False)
        whole = [(machine.cta_at(c), a, footprint.nbytes) for c, a, is_open in pairs if is_open]
        runs.append(tuple(_joined(whole)))
    cta = machine.cta_at(int(positions[0] % n_ctas))
    tensor = tuple(_rectangles(machine, transfer))
    return InFlight(place.text, place.span.line, cta, warp, lanes, runs[0], runs[1], (), until, tensor)


def _rectangles(machine: Machine, transfer: Transfer) -> Iterator[str]:
    use = transfer.tensor
    for verb, parts in (("writes", use.writes), ("reads", use.reads)) if use is not None else ():
        for runs in parts:
            for issuer, cta, lane, column in np.stack([runs.issuer, runs.cta, runs.lane, runs.column], axis=1).tolist():
                if transfer.open[issuer]:
                    lanes, columns = (
                        f"{lane} to {lane + runs.n_lanes - 1}",
                        f"{column} to {column + runs.n_columns - 1}",
                    )
                    yield f"{verb} lanes {lanes}, columns {columns} of tensor memory of CTA {machine.cta_at(cta)}"


def _joined(runs: list[tuple[Dims, int, int]]) -> list[tuple[Dims, int, int]]:
    """Merge adjacent runs of bytes."""
    found: list[tuple[Dims, int, int]] = []
    for cta, start, nbytes in sorted(runs):
        if found and found[-1][0] == cta and found[-1][1] + found[-1][2] == start:
            found[-1] = cta, found[-1][1], found[-1][2] + nbytes
        elif not found or found[-1] != (cta, start, nbytes):
            found.append((cta, start, nbytes))
    return found


def _wgmma(machine: Machine) -> list[InFlight]:
    state = machine.batch.wgmma
    if state is None:
        return []
    found = []
    n_ctas = machine.batch.shape.n_ctas
    for column in np.flatnonzero(state.issued > state.done).tolist():
        names: list[str] = []
        for function, use in state.uses.items():
            plan = machine.launch.plan.function(function)
            by_row = {row: slot for slot, row in plan.wgmma_rows.items()}
            rows = np.flatnonzero(use.accumulator[:, column] > state.done[column])
            slots = sorted(by_row[row] for row in rows.tolist() if row in by_row)
            names += [plan.function.registers[slot].name for slot in slots]
        count = int(state.issued[column] - state.done[column])
        warpgroup, cta = column // n_ctas, machine.cta_at(column % n_ctas)
        until = f"wgmma.wait_group: {count} in flight"
        found.append(
            InFlight("wgmma.mma_async", 0, cta, warpgroup * 4, "0-31 of four warps", (), (), tuple(names), until)
        )
    return found
