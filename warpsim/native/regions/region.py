"""Region formation: the blocks compiled as one function, with their live-ins and live-outs, and the divergence analysis.

A region begins at a step and holds every block that is reachable through instructions with graphs. It exits before the
first instruction without, at the back edge of a loop that waits, and where control leaves the function.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from warpsim.analysis.flow import KEEP, returned_by
from warpsim.isa.traits import Ending, Mbarrier
from warpsim.machine.asynchrony.wgmma import RegisterAccesses, register_accesses
from warpsim.native.regions.options import MOST, Options
from warpsim.native.runtime.inputs import REGISTER, InputKind, Source, source_of
from warpsim.records import define, frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpsim.machine.plan import FunctionPlan
    from warpsim.native.regions.forms import Key
    from warpsim.native.regions.traces import Traces
    from warpsim.program.program import Instruction


@frozen(eq=False)
class BlockSlice:
    """Steps ``[first, last)`` of a block; its branch leads to ``target``, under a ``guard`` else to ``following``.
    Without ``ends`` the region exits before the step ``last``."""

    block: int
    first: int
    last: int
    ends: bool
    guard: tuple[int, bool] | None = None
    target: int | None = None
    following: int | None = None

    @property
    def successors(self) -> tuple[int, ...]:
        """The blocks that its branch leads to."""
        return tuple(b for b in (self.target, self.following) if b is not None)

    @property
    def has_back_edge(self) -> bool:
        """Whether its branch leads to its own block or to an earlier one."""
        return any(b <= self.block for b in self.successors)


@define(eq=False)
class Region:
    """A single-entry region. ``entry`` is its first slice; ``slices`` are those of whole blocks."""

    plan: FunctionPlan
    entry: BlockSlice
    slices: dict[int, BlockSlice]
    exits: list[tuple[int, int]]
    reads: list[Key]
    """Its live-ins."""
    outs: list[int]
    """Its live-outs."""
    live_across: frozenset[int]
    collective: bool
    loops: bool
    size: int
    sources: list[Source]
    """How ``reads`` are read."""
    live: list[frozenset[int]]
    """The registers that are live at each exit."""
    barriers: list[tuple[int, int]]
    """Barriers of the CTA."""
    stored: frozenset[str]
    """The spaces to which it stores."""
    shared: bool
    """Whether it may access shared memory."""
    registers: frozenset[int]
    """All registers that it reads or writes."""
    keeps: bool
    """Whether it leaves registers that nothing reads any more."""
    read: list[frozenset[int]] = attrs.field(init=False)
    """The registers that something reads from each exit on."""
    wgmma: RegisterAccesses | None = attrs.field(init=False)
    """How its first slice, and nothing else of it, accesses registers of wgmma."""

    @read.default
    def _read_at_exits(self) -> list[frozenset[int]]:
        return [live_at(self.plan, *place) for place in self.exits] if self.keeps else self.live

    @wgmma.default
    def _of_wgmma(self) -> RegisterAccesses | None:
        block = self.plan.blocks[self.entry.block]
        return register_accesses(self.plan, block.instructions[self.entry.first : self.entry.last])

    def all(self) -> list[BlockSlice]:
        """Its slices in the order of blocks, the first one first."""
        rest = [self.slices[b] for b in sorted(self.slices)]
        return rest if self.entry in rest else [self.entry, *rest]

    def ends(self, exit: int) -> bool:
        """Whether threads leave the function at an exit."""
        block, at = self.exits[exit]
        steps = self.plan.blocks[block].instructions
        return at < len(steps) and steps[at].guard is None and steps[at].traits.leaves


def live_at(plan: FunctionPlan, block: int, at: int, *, keeps: bool = False) -> frozenset[int]:
    """The registers that are live at a step boundary: all, where a launch ``keeps`` what nothing reads any more."""
    if keeps:
        return frozenset(range(plan.n_registers))
    if at == 0:
        return plan.blocks[block].live_in
    bound = plan.blocks[block]
    all_kept = not bound.successors and KEEP in plan.function.directives
    live = set(range(plan.n_registers)) if all_kept else set()
    for successor in bound.successors:
        live |= plan.blocks[successor].live_in
    live |= set(returned_by(plan.function))
    for instruction in reversed(bound.instructions[at:]):
        reads, writes = instruction.reads, instruction.writes
        if instruction.guard is None:
            live -= set(writes)
        live |= set(reads)
    return frozenset(live)


class RegionFormer:
    """Forms the regions of a function."""

    def __init__(self, traces: Traces, options: Options) -> None:
        self.traces = traces
        self.plan = traces.plan
        self.options = options

    def allowed(self, block: int, at: int, *, entry: bool) -> bool:
        """Whether a step may be part of a region. ``entry``: of its first slice, which all lanes run."""
        plan = self.plan
        instruction = plan.blocks[block].instructions[at]
        made = None if self.traces.stopped(instruction) else self.traces.of(instruction)
        if made is None:
            return False
        if self.traces.undefined(instruction):
            self.traces.reasons[id(instruction)] = "a register that may be read before it is written"
            return False
        if (
            plan.wgmma_rows
            and instruction.touches(plan.wgmma_rows.keys())
            and not (entry and instruction.guard is None)
        ):
            return False
        if not self.options.accesses and (made.effects or instruction.traits.fence is not None):
            self.traces.reasons[id(instruction)] = "a rule or a watcher follows single accesses"
            return False
        if made.barrier:
            return self.options.barriers
        if made.collective:
            return self.options.collectives
        if made.stores:
            if not self.options.stores:
                return False
            if not self.options.alone and any(e.kind == "atomic" for e in made.effects):
                return all(e.commutes for e in made.effects) and (
                    not made.outputs or plan.flow[block].first + at in plan.unread
                )
        return True

    def _promises(self, branch: Instruction, guard: int) -> bool:
        """Whether a branch has ``.uni``, whose guard the interpreter compares between lanes: not where it is what all of them hear
        from an mbarrier."""
        if "uni" not in branch.op.modifiers:
            return False
        return any(guard in i.writes and not i.traits.does(Mbarrier.WAIT) for i in self.plan.function.code)

    def block_slice(self, block: int, first: int, *, entry: bool = False) -> BlockSlice | None:
        """The longest slice of a block from a step on; None if it is empty."""
        plan = self.plan
        bound = plan.blocks[block]
        steps = bound.n_steps
        for at in range(first, steps):
            if not self.allowed(block, at, entry=entry):
                return BlockSlice(block, first, at, ends=False) if at > first else None
        cut = BlockSlice(block, first, steps, ends=False) if steps > first else None
        following = plan.place_of.get(plan.flow[block].last)
        if steps == len(bound.instructions):
            if following is None:
                return cut
            whole = BlockSlice(block, first, steps, ends=True, following=following)
        else:
            last = bound.instructions[-1]
            if last.traits.ending is not Ending.BRANCH or self.traces.stopped(last):
                return cut
            target = plan.place_of.get(last.targets[0])
            guard = None if last.guard is None else (last.guard[0].index, last.guard[1])
            if guard is not None and (guard[0] in self.traces.maybe_undefined or self._promises(last, guard[0])):
                return cut
            if target is None or (guard is not None and following is None):
                return cut
            after = None if guard is None else following
            whole = BlockSlice(block, first, steps, ends=True, guard=guard, target=target, following=after)
        if whole.has_back_edge and (bound.waits or steps == first):
            return cut
        return whole

    def form(self, block: int, at: int) -> Region | None:
        """The region that begins at a step."""
        entry = self.block_slice(block, at, entry=True)
        if entry is None:
            return None
        slices: dict[int, BlockSlice] = {}
        if at == 0:
            slices[block] = entry
        size, outside = entry.last - entry.first + 1, set[int]()
        work = list(entry.successors) if entry.ends else []
        while work:
            number = work.pop(0)
            if number in slices or number in outside:
                continue
            slice_ = self.block_slice(number, 0) if size < MOST else None
            if slice_ is None:
                outside.add(number)
                continue
            slices[number] = slice_
            size += slice_.last - slice_.first + 1
            if slice_.ends:
                work += slice_.successors
        return self._region(entry, slices, outside, size)

    def _is_barrier(self, block: int, at: int) -> bool:
        made = self.traces.of(self.plan.blocks[block].instructions[at])
        return made is not None and made.barrier

    def _region(self, entry: BlockSlice, slices: dict[int, BlockSlice], outside: set[int], size: int) -> Region:
        plan, keeps = self.plan, self.options.keeps
        every = [entry, *(p for p in slices.values() if p is not entry)]
        exits = {(b, 0) for b in (*slices, *outside)}
        exits |= {(p.block, p.last) for p in every if not p.ends or p.has_back_edge}
        barriers = {(p.block, at) for p in every for at in range(p.first, p.last) if self._is_barrier(p.block, at)}
        exits |= barriers
        live = {place: live_at(plan, *place, keeps=keeps) for place in exits}
        begin, read = (live_at(plan, entry.block, entry.first, keeps=k) for k in (keeps, False))
        live_across = begin.union(*live.values())
        steps = [i for p in every for i in plan.blocks[p.block].instructions[p.first : p.last]]
        traced = [made for made in map(self.traces.of, steps) if made is not None]
        effects = [e for made in traced for e in made.effects]
        written = {slot for made in traced for slot, _ in made.outputs}
        guards = [guard[0] for guard in [*(made.guard for made in traced), *(p.guard for p in every)] if guard]
        reads = dict.fromkeys([*(key for made in traced for key in made.inputs), *guards])
        outs = sorted(written & live_across)
        needed = [k for k in reads if not isinstance(k, int) or k >= plan.n_registers or k in begin]
        needed += [slot for slot in outs if slot in begin and slot not in reads]
        return Region(
            plan,
            entry,
            slices,
            sorted(exits),
            needed,
            outs,
            live_across,
            any(made.collective for made in traced),
            any(p.ends and p.has_back_edge for p in every),
            size,
            [live_in_source(plan, k, read) for k in needed],
            [live[place] for place in sorted(exits)],
            sorted(barriers),
            frozenset(e.space for e in effects if e.kind != "load"),
            any(e.space in ("shared", "generic") for e in effects),
            frozenset(written).union(k for k in reads if isinstance(k, int)),
            keeps,
        )


def varying_steps(region: Region, kinds: Sequence[InputKind]) -> float:
    """How many steps of a region compute with values that differ among lanes, with such live-ins; infinite with a loop. Indices,
    addresses and predicates do not count: the interpreter has them as bases and strides, and goes on with these; nor do moves,
    for which it copies nothing.
    """
    if any(b <= slice_.block and b in region.slices for slice_ in region.all() for b in slice_.successors):
        return math.inf
    registers = region.plan.function.registers
    numbers = {r.index for r in registers if r.type.dtype.kind != "b"}
    varying = {key for key, kind in zip(region.reads, kinds, strict=True) if kind.how == "varying"} & numbers
    steps = 0
    for slice_ in region.all():
        for instruction in region.plan.blocks[slice_.block].instructions[slice_.first : slice_.last]:
            if not varying.isdisjoint(instruction.reads):
                varying.update(numbers.intersection(instruction.writes))
                steps += not instruction.traits.copies
    return steps


def live_in_source(plan: FunctionPlan, key: Key, read: frozenset[int]) -> Source:
    """How a live-in is read. Registers that are only kept, not ``read``, may never have been written."""
    if isinstance(key, int) and key < plan.n_registers and key not in read:
        return REGISTER, key, plan.function.registers[key].type.dtype
    return source_of(key)


# ---- what all lanes share -------------------------------------------------------------------------


def varying_of(traces: Traces, region: Region, varying: frozenset[Key]) -> frozenset[Key]:
    """Divergence analysis: the registers that may vary across lanes at block boundaries, given the live-ins that do."""
    plan = region.plan
    found, diverged = set(varying), set[int]()
    changed = True
    while changed:
        changed = False
        for slice_ in region.all():
            local = set(found)
            own = slice_.block in diverged and region.slices.get(slice_.block) is slice_
            for instruction in plan.blocks[slice_.block].instructions[slice_.first : slice_.last]:
                made = traces.of(instruction)
                assert made is not None
                if made.barrier:
                    local |= found  # registers are read anew behind it, from slots that serve all blocks
                guarded = made.guard is not None and made.guard[0] in local
                differs = guarded or made.collective or any(k in local for k in made.inputs)
                differs = differs or any(e.kind == "atomic" or e.space != "global" for e in made.effects)
                for slot, _ in made.outputs:
                    if differs or (made.guard is not None and slot in local):
                        local.add(slot)
                    else:
                        local.discard(slot)
                    if (slot in local or own) and slot not in found and slot in region.live_across:
                        found.add(slot)
                        changed = True
            if (
                slice_.ends
                and slice_.guard is not None
                and slice_.guard[0] in local
                and slice_.target != slice_.following
            ):
                reached = reachable(region, slice_.successors)
                if not reached <= diverged:
                    diverged |= reached
                    changed = True
    return frozenset(found)


def reachable(region: Region, blocks: tuple[int, ...]) -> set[int]:
    """The blocks of a region, and its exits, that are reachable from some blocks."""
    reached, work = set[int](), list(blocks)
    while work:
        block = work.pop()
        if block not in reached:
            reached.add(block)
            slice_ = region.slices.get(block)
            if slice_ is not None and slice_.ends:
                work += slice_.successors
    return reached
