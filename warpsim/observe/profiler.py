"""Counts what a launch does, per instruction, and what accesses by warps cost in the memory system.

A warp's access to shared memory is made in pieces of at most 128 bytes: all lanes for accesses of up to 4 bytes, half a
warp for 8, a quarter for 16, eight 16-byte rows of a matrix. A piece takes as many passes as its busiest bank has
distinct words to deliver; lanes that access the same word share it. Global memory is accessed in 32-byte sectors.
"""

from __future__ import annotations

import math
import time
from functools import lru_cache

import attrs
import numpy as np

from warpsim.machine.hooks import AccessCounts, RegionCounts
from warpsim.machine.machine import Machine
from warpsim.machine.plan import BoundBlock
from warpsim.machine.selection import Rect, Selection
from warpsim.machine.state.global_memory import PARAM_WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Affine, Array, Place, as_array
from warpsim.machine.watcher import MemoryAccess, Watcher
from warpsim.program.program import Instruction
from warpsim.records import define, frozen
from warpsim.report.profile import Conflict, Counts, Line, Profile

BANKS = 32
"""Number of banks, of 4 bytes each."""
COMPARED, KEPT = 4096, 512
"""The costs of so many accesses by at most so many lanes are kept."""
LINE = 128
"""Addresses as far apart are alike: they are in the same bank, and as far from the begin of a sector."""
SECTOR_BITS = 5
"""Of the 32 bytes of a sector of global memory."""


@frozen(eq=False)
class Lanes:
    """Lanes of accesses, one row per warp.

    ``address`` and ``here`` are ``[rows, lanes]``. Each row stands for ``weight`` warps in different CTAs that do the
    same. ``warps`` are warp numbers in the CTA, ``columns`` CTA columns.
    """

    address: Array
    here: Array
    weight: int
    warps: Array
    columns: Array


def warp_rows(group: Group, place: Place, active: Array | None, *, of_rows: bool = False) -> Lanes:
    """The lanes of a group's access, by warp. With ``of_rows``, ``place`` and ``active`` are already in warp view (rows
    of matrices)."""
    warps = group.warps
    at, mask = np.asarray(place, np.int64), None if active is None else np.asarray(active)
    if of_rows:
        present = np.ones((warps.n, at.shape[1], warps.m), np.bool_)
    else:
        at = warps.spread(at.reshape(1) if at.ndim == 0 else at)
        present = warps.active
        mask = None if mask is None else warps.spread(mask)
    alike = warps.dense and at.shape[2] == 1 and (mask is None or mask.shape[2] == 1)
    here = present[:, :, :1] if alike else present
    if mask is not None:
        here = here & mask
    shape = np.broadcast_shapes(at.shape, here.shape)
    return Lanes(
        np.moveaxis(np.broadcast_to(at, shape), 1, 2).reshape(-1, shape[1]),
        np.moveaxis(np.broadcast_to(here, shape), 1, 2).reshape(-1, shape[1]),
        warps.m if alike else 1,
        np.broadcast_to(warps.first_thread[:, None] >> 5, (shape[0], shape[2])).reshape(-1),
        np.broadcast_to(warps.ctas[:, : shape[2]], (shape[0], shape[2])).reshape(-1),
    )


@frozen(eq=False)
class Passes:
    """Passes of each piece (``[rows, pieces]``), 0 where no lane takes part; ``words``, ``[rows * pieces, 32]``, are -1
    for none."""

    passes: Array
    words: Array


def bank_passes(lanes: Lanes, nbytes: int) -> Passes:
    """Passes of accesses in which each lane (or matrix row) has ``nbytes``."""
    rows, count = lanes.address.shape
    per = max(nbytes // 4, 1)
    words = (lanes.address >> 2)[:, :, None] + np.arange(per)
    words = np.where(lanes.here[:, :, None], words, -1).reshape(rows, count * per)
    words = words.reshape(-1, BANKS)  # lanes come in warps, and rows of a matrix in eights
    held = words[:, words.max(axis=0, initial=-1) >= 0]
    if held.shape[1] == 1:
        return Passes((held >= 0).astype(np.int64).reshape(rows, -1), words)
    ordered = np.sort(held, axis=1)
    new = ordered >= 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    piece = np.nonzero(new)[0]
    each = np.bincount(piece * BANKS + ordered[new] % BANKS, minlength=len(words) * BANKS)
    return Passes(each.reshape(-1, BANKS).max(axis=1).reshape(rows, -1), words)


def worst(lanes: Lanes, found: Passes, nbytes: int) -> tuple[int, int, int, tuple[tuple[int, tuple[int, ...]], ...]]:
    """The piece with most passes: its row, passes, bank, and the addresses in it with the lanes (rows) that access
    them."""
    index = int(np.argmax(found.passes.reshape(-1)))
    row, piece = divmod(index, found.passes.shape[1])
    words = found.words[index]
    distinct = np.unique(words[words >= 0])
    bank = int(np.argmax(np.bincount(distinct % BANKS, minlength=BANKS)))
    per, first = max(nbytes // 4, 1), piece * BANKS
    wanted = [
        (int(word) * 4, tuple(sorted({(first + int(at)) // per for at in np.flatnonzero(words == word)})))
        for word in distinct[distinct % BANKS == bank]
    ]
    return row, int(found.passes.reshape(-1)[index]), bank, tuple(wanted)


def sectors(lanes: Lanes) -> int:
    """Sectors of global memory that the warps touch, counted once per warp."""
    numbers = lanes.address >> SECTOR_BITS
    if not lanes.here.all():
        numbers = np.where(lanes.here, numbers, -1)
    if not (numbers[:, 1:] >= numbers[:, :-1]).all():
        numbers = np.sort(numbers, axis=1)
    first, more = numbers[:, 0] >= 0, (numbers[:, 1:] != numbers[:, :-1]) & (numbers[:, 1:] >= 0)
    return (int(np.count_nonzero(first)) + int(np.count_nonzero(more))) * lanes.weight


@frozen(eq=False)
class Cost:
    """What an access costs in the memory system: which rows of warps have a lane ``here`` and how many CTAs each stands for, warps, lanes,
    and in global memory sectors, in shared memory pieces, passes, and the ``most`` of a piece."""

    here: Array
    weight: int
    warps: int
    lanes: int
    sectors: int = 0
    pieces: int = 0
    passes: int = 0
    most: int = 0


@lru_cache(maxsize=1)
def known_costs() -> dict[tuple[object, ...], tuple[Selection, Cost]]:
    """The process-wide table of costs of accesses in batches of at most `COMPARED` threads by what decides them; with the threads, whose
    identity is part of that."""
    return {}


def cost_of(lanes: Lanes, space: str, nbytes: int) -> Cost:
    """What lanes cost that access so many bytes each of a state space."""
    rows: Array = np.asarray(lanes.here.any(axis=1))
    weight = lanes.weight
    warps, count = int(np.count_nonzero(rows)) * weight, int(np.count_nonzero(lanes.here)) * weight
    if space == "global":
        return Cost(rows, weight, warps, count, sectors(lanes))
    if space == "local":
        return Cost(rows, weight, warps, count)
    passes = bank_passes(lanes, nbytes).passes
    pieces = int(np.count_nonzero(passes)) * weight
    return Cost(rows, weight, warps, count, 0, pieces, int(passes.sum()) * weight, int(passes.max(initial=0)))


@define(eq=False)
class Entry:
    """Counts of one instruction."""

    instruction: Instruction
    counts: Counts = attrs.field(factory=Counts)
    conflict: Conflict | None = None
    left_out: int = 0
    """Threads disabled by its guard."""


class Profiler(Watcher):
    """Counts events per instruction; `profile` returns them by line after the launch.

    Warps and threads are counted as in a launch result, where they enter a basic block, so the lines sum to
    ``LaunchResult.instructions``. Compiled code counts for itself (`region_counted`); its time is shared out by executions.
    """

    compiled = frozenset(
        {"batch_began", "batch_ended", "step_before", "step_after", "group_split", "memory_accessed", "rows_accessed"}
    )

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._blocks: dict[BoundBlock, list[int]] = {}
        self._compiled: dict[BoundBlock, float] = {}
        """Seconds that code took for each instruction of a block."""
        self._launch: LaunchState | None = None
        self._running: Entry | None = None
        self._since = 0
        self._guard: tuple[Entry, int] | None = None
        self._reached: dict[str, Array] = {}
        self._reached_at = -1
        """The step of a block whose accesses have reached these warps."""
        self._costs: dict[tuple[object, ...], tuple[Selection, Cost]] = {}
        """The same in larger batches, which are not kept beyond the launch."""

    def _entry(self, instruction: Instruction) -> Entry:
        found = self._entries.get(id(instruction))
        if found is None:
            found = self._entries[id(instruction)] = Entry(instruction)
        return found

    # ---- steps -------------------------------------------------------------------------------

    def batch_began(self, machine: Machine) -> None:
        """Keep the launch, for the report; others are of grids that its kernel launches."""
        self._launch = self._launch or machine.launch

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Count threads that enter a block, and those that a guard disables."""
        if self._running is not None:
            self._stop()
        entry = self._enter(machine, group, instruction)
        self._running, self._since = entry, time.perf_counter_ns()

    def _enter(self, machine: Machine, group: Group, instruction: Instruction) -> Entry:
        """Count threads that enter a block, and those that a guard disables at the group's step."""
        entry = self._entries.get(id(instruction)) or self._entry(instruction)
        if group.at == 0:
            self.entry_counted(machine, group, 1)
        if instruction.guard is not None and instruction.traits.ending is None:
            count = _left_out(group, instruction)
            entry.left_out += count
            self._guard = entry, count
        self._reached_at = -1
        return entry

    def entry_counted(self, machine: Machine, group: Group, times: int) -> None:
        """Count threads that enter a block, or (-1) that will execute its first instruction again."""
        seen = self._blocks.setdefault(group.plan.blocks[group.block], [0, 0, 0])
        for index, number in enumerate((group.selection.n_warps, group.selection.n, _partial(group))):
            seen[index] += times * number

    def step_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """End the instruction's time."""
        self._stop()

    def batch_ended(self, machine: Machine) -> None:
        """End the instruction's time."""
        self._stop()

    def _stop(self) -> None:
        if self._running is not None:
            self._running.counts.seconds += 1e-9 * (time.perf_counter_ns() - self._since)
            self._running = None

    def group_parked(self, machine: Machine, group: Group) -> None:
        """Note that the threads will execute this instruction again."""
        if self._guard is not None and self._guard[0].instruction is group.instruction:
            self._guard[0].left_out -= self._guard[1]
            self._guard = None

    def group_split(self, machine: Machine, group: Group, parts: tuple[Group, Group]) -> None:
        """Count the warps that have threads in both parts."""
        started = time.perf_counter_ns()
        one, two = (part.selection.warp_sizes != 0 for part in parts)
        self._entry(group.instruction).counts.diverged += int(np.count_nonzero(one & two))
        self._since += time.perf_counter_ns() - started

    def region_counted(self, machine: Machine, group: Group, counts: RegionCounts) -> None:
        """Add what compiled code has counted."""
        self._stop()
        self._launch = self._launch or machine.launch
        blocks = group.plan.blocks
        executed = sum(n * len(blocks[number].instructions) for number, (n, _, _) in counts.entries.items())
        for number, entered in counts.entries.items():
            seen = self._blocks.setdefault(blocks[number], [0, 0, 0])
            for index, more in enumerate(entered):
                seen[index] += more
            each = counts.seconds * entered[0] / executed
            self._compiled[blocks[number]] = self._compiled.get(blocks[number], 0.0) + each
        for (number, at), left_out in counts.left_out.items():
            self._entry(blocks[number].instructions[at]).left_out += left_out
        for number, diverged in counts.diverged.items():
            self._entry(blocks[number].instructions[-1]).counts.diverged += diverged
        for number, at, access in counts.accesses:
            self._count_all(machine, self._entry(blocks[number].instructions[at]), access)

    # ---- memory ------------------------------------------------------------------------------

    def _count_all(self, machine: Machine, entry: Entry, found: AccessCounts) -> None:
        counts, nbytes = entry.counts, found.lanes * found.nbytes
        if found.space == "local":
            counts.local_bytes += nbytes
        elif found.space == "global":
            counts.global_bytes += nbytes
            counts.sectors += found.sectors
            counts.global_accesses += found.warps
        else:
            counts.shared_bytes += nbytes
            counts.shared_accesses += found.warps
            counts.shared_pieces += found.pieces
            counts.shared_passes += found.passes
            if found.most > (entry.conflict.passes if entry.conflict else 1):
                address = np.array([found.addresses])
                warp, cta = np.array([found.warp]), np.array([found.cta])
                self._note(machine, entry, Lanes(address, address >= 0, 1, warp, cta), found.nbytes)

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Count bytes, bank passes and sectors."""
        self._count(machine, group, access, of_rows=False)

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Count accesses to matrix rows in shared memory."""
        self._count(machine, group, access, of_rows=True)

    def _count(self, machine: Machine, group: Group, access: MemoryAccess, *, of_rows: bool) -> None:
        """Count an access."""
        started = time.perf_counter_ns()
        if self._reached_at != group.at:
            self._reached_at, self._reached = group.at, {}
        entry, cost = self._entry(group.instruction), self._cost(group, access, of_rows=of_rows)
        counts, nbytes = entry.counts, cost.lanes * access.nbytes
        if access.space == "local":
            counts.local_bytes += nbytes
        elif access.space == "global":
            # constants and parameters have caches of their own
            if access.allocation is None or access.allocation.start < PARAM_WINDOW:
                counts.global_bytes += nbytes
                counts.sectors += cost.sectors
                counts.global_accesses += self._new("global", cost)
        else:
            counts.shared_bytes += nbytes
            counts.shared_accesses += self._new("shared", cost)
            counts.shared_pieces += cost.pieces
            counts.shared_passes += cost.passes
            if cost.most > (entry.conflict.passes if entry.conflict else 1):
                self._note(
                    machine, entry, warp_rows(group, access.place, access.active, of_rows=of_rows), access.nbytes
                )
        self._since += time.perf_counter_ns() - started

    def _cost(self, group: Group, access: MemoryAccess, *, of_rows: bool) -> Cost:
        """What an access costs; the same if all addresses are as many lines further."""
        at, active, selection = access.at, access.active, group.selection
        many = selection.n > COMPARED and not (type(at) is Affine and active is None)
        costs = self._costs if selection.batch_shape.n > COMPARED else known_costs()
        key: tuple[object, ...] = ()
        if not many:
            if type(at) is Affine:
                place: object = (at.strides, at.extents, at.base % LINE)
            else:
                array = np.asarray(at, np.int64)
                place = array.shape, (array - (array.item(0) & -LINE)).tobytes()
            lanes = None if active is None else (active.shape, active.tobytes())
            key = id(selection), of_rows, place, lanes, access.nbytes, access.space
            known = costs.get(key)
            if known is not None:
                return known[1]
        found = warp_rows(group, access.place, active, of_rows=of_rows)
        cost = cost_of(found, access.space, access.nbytes)
        if not many:
            if len(costs) >= KEPT:
                costs.clear()
            costs[key] = selection, cost
        return cost

    def _note(self, machine: Machine, entry: Entry, lanes: Lanes, nbytes: int) -> None:
        row, passes, bank, words = worst(lanes, bank_passes(lanes, nbytes), nbytes)
        entry.conflict = Conflict(passes, machine.cta_at(int(lanes.columns[row])), int(lanes.warps[row]), bank, words)

    def _new(self, space: str, cost: Cost) -> int:
        """Count warps with a lane here but none earlier in the same step: accesses are reported per allocation."""
        here, known = cost.here, self._reached.get(space)
        if known is None:
            self._reached[space] = here
            return cost.warps
        if known.shape == here.shape:
            here, known = here & ~known, known | here
        self._reached[space] = known
        return int(np.count_nonzero(here)) * cost.weight

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Count the bytes of bulk copies."""
        if transfer.asynchronous and transfer.place is not None:
            size = transfer.reads if transfer.signal is None else transfer.signal
            each = 0 if size is None else np.broadcast_to(size.nbytes, len(transfer.positions)).sum()
            self._entry(transfer.place).counts.async_bytes += int(each)

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Count the bytes of tiles that wgmma reads."""
        if not machine.delivering:  # counted when it was issued
            groups = group.warps.n // 4 * group.warps.m
            self._entry(group.instruction).counts.async_bytes += math.prod(address.shape[:-2]) * nbytes * groups

    # ---- the end -----------------------------------------------------------------------------

    def profile(self) -> Profile:
        """The counts by PTX line."""
        launch, lines = self._launch, dict[int, tuple[Instruction, Counts]]()
        assert launch is not None, "a launch has begun"
        conflicts: dict[int, Conflict] = {}

        def counts_of(instruction: Instruction) -> Counts:
            found = lines.get(number := instruction.span.line)
            if found is None:
                found = lines[number] = instruction, Counts()
            return found[1]

        for entry in self._entries.values():
            number, counts = entry.instruction.span.line, counts_of(entry.instruction)
            counts.add(entry.counts)
            counts.active -= entry.left_out
            if entry.conflict and (number not in conflicts or entry.conflict.passes > conflicts[number].passes):
                conflicts[number] = entry.conflict
        for block, (n_warps, n_threads, partial) in self._blocks.items():
            seconds = self._compiled.get(block, 0.0)
            for instruction in block.instructions:
                counts = counts_of(instruction)
                counts.seconds += seconds
                counts.executions += n_warps
                counts.lanes += n_threads
                counts.active += n_threads
                counts.partial += partial
        program = launch.plan.program
        file, text = program.file, program.lines
        shown = tuple(_line(file, number, text, *lines[number], conflicts.get(number)) for number in sorted(lines))
        return Profile(launch.plan.entry.name, file, program.target, launch.grid, launch.block, shown, text)


def _line(
    file: str, number: int, text: tuple[str, ...], first: Instruction, counts: Counts, conflict: Conflict | None
) -> Line:
    shown = text[number - 1].strip() if 0 < number <= len(text) else first.text
    return Line(file, number, shown, counts, first.source, conflict)


def _partial(group: Group) -> int:
    """Number of a group's warps that have, or had, threads elsewhere."""
    selection = group.selection
    if isinstance(selection, Rect) and selection.warp_range:
        return 0
    shape = selection.batch_shape
    sizes = selection.warp_sizes.reshape(-1, shape.n_ctas)
    whole = np.minimum(32, shape.n_threads - 32 * np.arange(len(sizes)))[:, None]
    return int(np.count_nonzero((sizes != 0) & (sizes < whole)))


def _left_out(group: Group, instruction: Instruction) -> int:
    """Number of a group's threads that an instruction's guard disables. Does not fetch the predicate, which would count
    as a use of it."""
    assert instruction.guard is not None
    register, negated = instruction.guard
    value = group.env[register.index]
    if value is None:
        kept = group.frame.stored(register.index)
        value = group.plan.zeros[register.index] if kept is None else group.selection.fetch(kept)
    array = as_array(value).view(np.bool_)
    passed = int(np.count_nonzero(array)) * (group.selection.n // max(array.size, 1))
    return passed if negated else group.selection.n - passed
