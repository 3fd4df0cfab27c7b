"""Undefined bits of registers: where they come from, how they propagate, and where they matter.

A load of bytes that were never written gives its destination a shadow: an unsigned integer of the register's width
with a 1 for each undefined bit. From then on, the watcher observes each step of the group. Moves, shuffles and bit
operations propagate undefined bits one by one; other operations make their whole result undefined. Copying is not an
error; a report is made where an undefined bit decides an address, a branch, a matrix product, or a value stored to
global memory.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from warpsim.analysis.undefined import AT_BARRIERS, DECIDE
from warpsim.checks.difference import Again, decide, judge, remember, report_use
from warpsim.checks.race.unused import AGAIN, undefined_reads
from warpsim.checks.undefined_bits import TransferFunction, check_end, known_of, transfer_of
from warpsim.checks.undefined_loads import EARLY, Met, meeting
from warpsim.checks.undefined_memory import (
    UndefinedMemory,
    anything_left,
    check_argument,
    landed,
    muted,
    stored,
    written_cells,
)
from warpsim.checks.undefined_products import Unfinished, early, without
from warpsim.checks.undefined_registers import (
    MEMORY,
    ORIGINS,
    PADDING,
    RULE,
    SHADOWS,
    Origins,
    halves,
    lanes_of,
    ones,
    origins,
    put,
    together,
    travels,
    undefined,
)
from warpsim.checks.written import ALL, WrittenBits, WrittenBytes, lacks, mark, written_bits
from warpsim.errors import ExecutionError, Finding
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access
from warpsim.layout import descriptors
from warpsim.machine.asynchrony.wgmma_chains import Chain
from warpsim.machine.binding.warp_steps import collect
from warpsim.machine.hooks import TensorAccess
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import Address
from warpsim.machine.memory.tensor import read, write
from warpsim.machine.reporting import ends_launch, party, present, stop
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import BoxLoad, BoxStore, RunStore, Transfer
from warpsim.machine.values import Array, Place, as_array
from warpsim.machine.watcher import WRITE, MemoryAccess
from warpsim.program.program import Instruction
from warpsim.records import frozen
from warpsim.types import TYPES

PREDICATES = frozenset((AT_BARRIERS["c"], DECIDE["ignore_src"]))
"""What they decide may make no difference."""
WRITE_CELLS = "store to these cells, copy into them, or have the first product of a sum overwrite its accumulator"


@frozen(eq=False)
class Begun:
    """A step before which undefined bits were computed. ``new`` are those that its destinations will get, ``old`` those
    that they had, ``unsure`` the lanes whose guard is undefined, ``later`` what is left to do after the step."""

    group: Group
    flow: TransferFunction
    active: Array | None
    tainted: list[int]
    unsure: Array | None
    new: dict[int, Array]
    old: dict[int, Array | None]
    later: Callable[[], None] | None

    @property
    def clean(self) -> bool:
        """Whether none of its inputs is undefined."""
        return not self.tainted and self.unsure is None


class Uninitialised(WrittenBytes):
    """The rule ``uninitialised``."""

    compiled = frozenset({"shadow_accessed", "rows_accessed", "shadowed_before", "shadowed_after"})
    shadows = SHADOWS

    _begun: Begun | None = None
    _met: Met | None = None
    _product: Instruction | None = None
    """A wgmma that meets undefined bits, during its step."""
    _touched: bool = True
    """Whether the present step may have to do with anything undefined."""

    def __init__(self, again: Again | None = None) -> None:
        self._again = again
        self._unfinished: list[Unfinished] = []
        """What it reads while copies write it."""

    # ---- what is undefined -------------------------------------------------------------------

    def batch_began(self, machine: Machine) -> None:
        """Start with nothing written in shared and local memory, but for what is the system's."""
        machine.batch.notes[ORIGINS] = Origins()
        for space in (machine.batch.shared, machine.batch.local):
            space.shadow = WrittenBits(space.size, space.n_columns)
        plan = machine.launch.plan
        reserved, top = plan.shared.reserved, plan.main.stack_word
        for name, words in (("shared", range(0, reserved, 4)), ("local", () if top is None else (top,))):
            if words:
                bits = shadow(machine, name)
                bits.mark(np.array(words)[:, None], np.arange(bits.n_columns), 4, None, rows=True)

    def function_entered(self, machine: Machine, group: Group) -> None:
        """Mark registers that are read before they are written as undefined, whatever the frame contained. Those of a
        snippet may have initial values."""
        plan, frame = group.plan, group.frame
        for slot in known_of(plan).unwritten:
            if not group.stack and frame.values[slot] is not None:
                continue
            for name, whole in halves(ones(plan, slot, np.ones(1, np.bool_))).items():
                file = frame.shadows.setdefault(name, {})
                if slot not in file:
                    file[slot] = np.zeros(machine.batch.shape.extents, whole.dtype)
                file[slot].reshape(-1)[group.selection.positions.reshape(-1)] = whole
                frame.known.clear()

    def stack_extended(self, machine: Machine, group: Group, positions: Array, first: int, nbytes: int) -> None:
        """Mark new parts of the stack as undefined."""
        shadow(machine, "local").forget(first, nbytes, positions)

    def memory_filled(self, machine: Machine, space: str, place: Place, nbytes: int, columns: Array) -> None:
        """Mark bytes that were written by something other than stores."""
        bits = (machine.batch.local if space == "local" else machine.batch.shared).shadow
        assert type(bits) is WrittenBits
        if type(place) is int and ((place, place + nbytes) in bits.views or bits.covers(place, place + nbytes)):
            return  # at every copy, most often without a call
        if type(place) is int or np.size(place):
            bits.mark(place, columns, nbytes, None, rows=False)

    def shadow_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Mark what stores write; check what others read."""
        nbytes, active, writes = access.nbytes, access.active, access.kind == WRITE
        exchanges = writes and present(group).traits.access is Access.ATOMIC
        if access.allocation is not None:
            written = written_bits(access.allocation)
            if (exchanges or not writes) and lacks(written, access.at, nbytes, active):
                self._meet(machine, group, exchanges=exchanges)
            if writes:
                mark(written, access.at, nbytes, active)
            return
        bits, at = (machine.batch.local if access.space == "local" else machine.batch.shared).shadow, access.at
        assert type(bits) is WrittenBits
        if type(at) is int and ((at, at + nbytes) in bits.views or bits.covers(at, at + nbytes)):  # likewise
            return
        if not bits.open or (exchanges and self._has_combined(group)):
            return
        if (exchanges or not writes) and bits.lacks(
            access.place, access.columns, nbytes, active, rows=access.everywhere
        ):
            self._meet(machine, group, exchanges=exchanges)
        if writes:
            bits.mark(access.place, access.columns, nbytes, active, rows=access.everywhere)

    def _has_combined(self, group: Group) -> bool:
        """Whether the present step has brought undefined bits to memory already."""
        begun = self._begun
        return begun is not None and bool(begun.tainted) and begun.flow.instruction is present(group)

    def argument_read(self, machine: Machine, group: Group, address: int, positions: Array, nbytes: int) -> None:
        """Report uninitialised arguments of printf, malloc and free."""
        check_argument(machine, group, address, positions, nbytes)

    def async_delivered(
        self, machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Array
    ) -> None:
        """Propagate undefined bits of copies to their destination, or report them if that is global memory."""
        kind = type(transfer.work)
        if kind in (BoxStore, RunStore):
            stored(machine, group, transfer, which)
        elif kind is not BoxLoad or machine.launch.memory.shadowed():
            landed(machine, group, active, transfer, which)

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Check matrix rows."""
        bits, place, columns = shadow(machine, "shared"), access.places, access.columns
        if access.writes:
            bits.mark(place, columns, access.nbytes, access.active, rows=False)
            return
        self._unfinished += undefined_reads(machine)
        everywhere = columns.size == bits.n_columns and place.shape[2] == 1 and group.warps.dense
        if self._unfinished or bits.lacks(place, columns, access.nbytes, access.active, rows=everywhere):
            self._meet(machine, group)

    def tensor_freed(
        self, machine: Machine, group: Group, ctas: Array, column: Array, columns: Array, positions: Array
    ) -> None:
        """Mark columns of tensor memory as undefined for whoever gets them next."""
        written = written_cells(machine.batch.tensor_memory())
        written.space.own()
        for first, count in set(zip(column.tolist(), columns.tolist(), strict=True)):
            here = (column == first) & (columns == count)
            written.cells()[:, first : first + count, ctas[here]] = 0

    def tensor_accessed(self, machine: Machine, group: Group, access: TensorAccess) -> None:
        """Mark cells of tensor memory that are written; check those that are read."""
        written, address = written_cells(machine.batch.tensor_memory()), access.lane << 16 | access.column
        extent = access.lanes, access.columns
        if access.kind == WRITE:
            write(written, access.ctas, address, np.broadcast_to(ALL, (len(address), *extent)))
        elif (read(written, access.ctas, address, *extent) != ALL).any():
            if present(group).form.scope is Scope.WARP:
                self._meet(machine, group)
            else:
                machine.fault(RULE, "reads uninitialised tensor memory", group, advice=WRITE_CELLS)

    def _meet(self, machine: Machine, group: Group, *, exchanges: bool = False) -> None:
        """Note that the current step reads bytes never written; its results are handled when it is done."""
        if machine.delivering:
            return
        if self._met is not None and self._met.group is group and self._met.flow.instruction is present(group):
            return
        self._met = met = meeting(machine, group)
        if met is None:
            return
        if exchanges:
            self._met = attrs.evolve(met, bits=_met_bits(machine, met))
        machine.attend()

    # ---- where it matters --------------------------------------------------------------------

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Note undefined shared memory that wgmma multiplies, and what copies still write."""
        bits = shadow(machine, "shared")
        if machine.delivering:
            return
        soft = travels(machine.launch.settings.checks)
        if soft:
            from warpsim.checks.async_reuse import unfinished_reads

            for which, copy in unfinished_reads(machine, address, columns, limits, nbytes):
                places, owners = (each.reshape(-1)[which] for each in np.broadcast_arrays(address, columns))
                self._unfinished.append(Unfinished(places, owners, nbytes, copy.place))
            self._unfinished += undefined_reads(machine)
        lacks = not bits.covers(*limits) and bits.lacks(address, columns, nbytes, None, rows=False)
        if soft and (lacks or self._unfinished):
            self._product = present(group)
            machine.attend()
        if soft or not lacks:
            return
        advice = "write the whole tile before it is multiplied"
        machine.fault(RULE, "wgmma reads uninitialised shared memory", group, advice=advice)

    def wgmma_chain_met(self, machine: Machine, group: Group, chain: Chain) -> None:
        """Follow products that multiply undefined shared memory."""
        bits, columns = shadow(machine, "shared"), group.warps.columns
        chain.followed |= AGAIN in machine.launch.notes
        for limits, address in zip(chain.tiles.limits, chain.tiles.chunks, strict=True):
            if limits not in bits.views and not bits.covers(*limits):
                chain.followed |= bits.lacks(address, columns, descriptors.CHUNK, None, rows=False)

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """Decide whether a finding that ends the launch follows from what something undefined has decided."""
        launch = machine.launch
        if ends_launch(launch, finding) and (found := judge(launch, finding)) is not None:
            collected = launch.settings.on_finding == "collect"
            raise ExecutionError(findings=tuple(launch.findings.values()) if collected else (found, finding))

    def launch_ended(self, launch: LaunchState) -> None:
        """Decide whether what something undefined has decided reaches a result."""
        found = judge(launch)
        if found is not None and ends_launch(launch, found):
            stop(launch, found)

    # ---- how it spreads ----------------------------------------------------------------------

    def shadowed_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Report undefined bits that matter to the step, and compute those of its results."""
        if SHADOWS.isdisjoint(group.shadows) and SHADOWS.isdisjoint(group.frame.shadows):
            self._begun = self._product = None  # whatever shadows there are, they are another watcher's
            self._unfinished, self._touched = [], True
            return
        self._touched = group.shadowed(instruction.registers) and not (
            instruction.traits.multiplies and self._overwrites(machine, group, instruction)
        )
        if self._touched:
            remember(machine, group, self._again, past=False)
        if instruction.traits.ending is not None:
            check_end(machine, group, instruction)
            return
        self._begun = self._product = None
        self._unfinished = []
        if self._touched:
            self._begin(machine, group, instruction)

    def _overwrites(self, machine: Machine, group: Group, instruction: Instruction) -> bool:
        """Whether a wgmma uses nothing undefined but accumulators that it replaces, which are as if written, then."""
        flow = transfer_of(group.plan, instruction)
        if flow.adds is None or flow.guard is not None:
            return False
        if group.shadowed(instruction.registers - {*flow.written} | flow.factors):  # A may stand in the accumulators
            return False
        if as_array(flow.adds(machine, group)).any():
            return False
        _write(group, flow.written, None, None)
        return True

    def _begin(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        flow = transfer_of(group.plan, instruction)
        unsure, active = None, None
        if flow.guard is not None:
            unsure = undefined(group, flow.guard_slot)
            executing = flow.guard(machine, group)
            if unsure is not None and not flow.pure:
                decide(machine, group, flow.guard_slot, unsure, None, "the guard of an instruction")
                if executing is False:
                    old = {slot: undefined(group, slot) for slot in flow.written}
                    self._begun = Begun(group, flow, None, [], unsure, {}, old, None)
                    return
            if executing is False and unsure is None:
                return
            active = None if executing is False else executing
        _report_uses(machine, group, flow, active)
        tainted = [slot for slot in flow.data if undefined(group, slot) is not None]
        old = {slot: undefined(group, slot) for slot in flow.written}
        if flow.multiplies:
            flow.check_product(machine, group, tainted, active)
        new = flow.spread(machine, group, active) if tainted else {}
        later = flow.store(machine, group, active) if flow.stores and tainted else None
        if flow.adds is not None and travels(machine.launch.settings.checks):
            self._product = instruction
        self._begun = Begun(group, flow, active, tainted, unsure, new, old, later)

    def shadowed_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Give the step's results their undefined bits."""
        self._finish(machine, group, instruction)
        touched, self._touched = self._touched, True
        if touched and not SHADOWS.isdisjoint(group.shadows):
            remember(machine, group, self._again, past=True)

    def _finish(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        if self._product is instruction:
            self._multiply(machine, group, instruction)
            return
        self._product = None  # of a warp that waits for its warpgroup
        begun = self._begun
        self._begun, loaded = None, self._loaded(machine, group, instruction)
        if begun is None or begun.group is not group or begun.flow.instruction is not instruction:
            return
        flow = begun.flow
        if begun.clean:
            known = [slot for slot in flow.written if begun.old[slot] is not None]
            if known and not loaded:
                _write(group, known, None, begun.active)
            return
        if begun.later is not None:
            begun.later()
        known_origins = origins(machine)
        source = begun.tainted[0] if begun.tainted else flow.guard_slot
        padding = flow.padding(group, begun.tainted)
        for slot in flow.written:
            _write(group, [slot], begun.new.get(slot), begun.active)
            if padding is not None and undefined(group, slot) is not None:
                _pad(group, slot, padding, begun.active)
            if begun.unsure is not None:
                before = undefined(group, slot)
                before = begun.old[slot] if before is None else before
                whole = ones(flow.plan, slot, begun.unsure)
                put(group, slot, whole if before is None else together(before, whole))
            if (slot != source or begun.active is None) and undefined(group, slot) is not None:
                known_origins.put(
                    group, slot, known_origins.read(machine, group, source, instruction, computes=flow.computes)
                )

    def _loaded(self, machine: Machine, group: Group, instruction: Instruction) -> bool:
        """Give registers the undefined bits that the step read from memory, if it did."""
        met, unfinished = self._met, self._unfinished
        self._met, self._unfinished = None, []
        if EARLY in machine.batch.notes:
            met, parts = machine.batch.notes[EARLY]
            unfinished = [*unfinished, *parts]
            del machine.batch.notes[EARLY]
        if met is None or met.group is not group:
            return False
        with without(shadow(machine, "shared"), unfinished):
            loaded = _take(machine, met)
        if unfinished:
            self._spoil(machine, group, instruction, unfinished[0])
        return loaded

    def _spoil(self, machine: Machine, group: Group, instruction: Instruction, part: Unfinished) -> None:
        """Note where the undefined bits of rows come from that were read while they were written."""
        for slot in transfer_of(group.plan, instruction).written:
            origins(machine).put(group, slot, early(machine, group, instruction, part))

    def _multiply(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Give the accumulators of a wgmma their undefined bits."""
        flow, unfinished = transfer_of(group.plan, instruction), self._unfinished
        self._begun = self._product = None
        self._unfinished = []
        known, bits = origins(machine), shadow(machine, "shared")
        sources = [slot for slot in (*flow.written, *flow.factors) if undefined(group, slot) is not None]
        with without(bits, unfinished):
            new = flow.accumulated(machine, group, bits)
        if unfinished:
            origin = early(machine, group, instruction, unfinished[0])
        elif sources:
            origin = known.read(machine, group, sources[0], instruction, computes=True)
        else:
            origin = party(machine.launch, machine.batch, group, MEMORY)
        for slot, changed in new.items():
            before = undefined(group, slot) is not None
            put(group, slot, changed)
            if changed.any() and not (before and known.get(group, slot)):
                known.put(group, slot, origin)


def shadow(machine: Machine, space: str) -> WrittenBits:
    """The written bits of shared or local memory."""
    found = (machine.batch.local if space == "local" else machine.batch.shared).shadow
    assert type(found) is WrittenBits
    return found


def _report_uses(machine: Machine, group: Group, flow: TransferFunction, active: Array | None) -> None:
    """Report undefined addresses, and what else decides what a step does."""
    for slot, use in (*((slot, "an address") for slot in flow.addresses), *flow.decides.items()):
        bits = undefined(group, slot)
        if bits is not None:
            report = decide if use in PREDICATES else report_use
            report(machine, group, slot, bits, active, use)


def _met_bits(machine: Machine, met: Met, *, left: bool = False) -> Any:
    """The undefined bits of the results of a step that reads bytes never written; ``left``: by stores."""
    flow, group, form = met.flow, met.group, met.flow.instruction.form
    with muted(machine):
        return form.function(flow.instruction.op, *met.arguments, **flow.ports(machine, group, met.active, left=left))


def _take(machine: Machine, met: Met) -> bool:
    """Propagate the undefined bits that a step read from memory to its destinations; False if no register takes them."""
    flow, group, active = met.flow, met.group, met.active
    instruction = flow.instruction
    bits = _met_bits(machine, met) if met.bits is None else met.bits
    aside = _met_bits(machine, met, left=True) if anything_left(machine) else None
    padding = _padding(machine, group, instruction, met.arguments[0], active)
    slots = flow.written
    if flow.commit is None or bits is None:
        return False
    taken, kept = (
        flow.committed(machine, group, collect(group.warps, each, wide=flow.wide) if flow.warps else each, active)
        for each in (bits, bits if aside is None else aside)
    )
    lanes = {slot: lanes_of(taken[slot]) & (True if active is None else active) for slot in slots if slot in taken}
    found = {slot: mask for slot, mask in lanes.items() if mask.any()}
    origins(machine).loaded(machine, group, instruction, met.arguments[0], found)
    for number, slot in enumerate(slots):
        if slot in taken:
            put(group, slot, taken[slot])
            bits = undefined(group, slot)
            if bits is None:
                group.set_shadow(PADDING, slot, None)
                continue
            size = instruction.op.type.bytes if instruction.traits.access is Access.LOAD else bits.itemsize
            each = np.ascontiguousarray(bits)[..., None].view(np.uint8)[..., :size] != 0
            beside = each.any(axis=-1) & ~each.all(axis=-1)
            if len(padding) == len(slots):
                beside = beside | padding[number]
            if aside is not None and beside.any():
                both = zip(halves(bits).values(), halves(kept[slot]).values(), strict=True)
                beside = beside & functools.reduce(np.bitwise_and, [(one & other) == 0 for one, other in both])
            _pad(group, slot, beside, active)
    return True


def _padding(
    machine: Machine, group: Group, instruction: Instruction, address: Address, active: Array | None
) -> list[Array]:
    """Per element, a mask of lanes with written bytes beside it in its aligned eight bytes; empty if no neighbour is
    loaded with it, as the words of a structure would be."""
    op, target = instruction.op, instruction.operands[0]
    if instruction.traits.access is not Access.LOAD or op.type.kind not in "bu" or op.type.bits > 32:
        return []
    space = op.get("space") or ""
    if not _in_a_row(group, instruction):
        return []
    memory, place = UndefinedMemory(machine, group, active), address.places
    found = []
    for k in range(len(target.parts)):
        around = memory.load(space, Address((place + k * op.type.bytes) & ~7), TYPES["b64"])[0]
        found.append(np.asarray(around != np.uint64(0xFFFFFFFFFFFFFFFF)))
    return found


def _in_a_row(group: Group, instruction: Instruction) -> bool:
    """Whether the block also loads from the same base less than eight bytes away."""
    own = instruction.address
    if instruction.operands[0].elements is not None or own is None:
        return True
    known = known_of(group.plan)
    base, offset = known.base_of(own)
    offsets = known.loads(group.block)[base]
    return bisect_left(offsets, offset + 8) - bisect_right(offsets, offset - 8) > 1  # itself, and another


def _write(group: Group, slots: list[int], bits: Array | None, active: Array | None) -> None:
    """Set the undefined bits of registers, in the executing lanes."""
    for slot in slots:
        new, old = bits, undefined(group, slot) if active is not None else None
        some = new if old is None else old
        if active is not None and some is not None:
            none = np.zeros(1, some.dtype)
            new = np.where(active, none if new is None else new, none if old is None else old)
        put(group, slot, new)
        _pad(group, slot, None, None if undefined(group, slot) is None else active)


def _pad(group: Group, slot: int, padding: Array | None, active: Array | None) -> None:
    """Set in which of the executing lanes a register may hold padding."""
    old = group.shadow(PADDING, slot)
    if padding is None and old is None:
        return
    none = np.zeros(1, np.bool_)
    new = none if padding is None else padding
    if active is not None:
        new = np.where(active, new, none if old is None else old)
    group.set_shadow(PADDING, slot, new if new.any() else None)


__all__ = ["Uninitialised"]
