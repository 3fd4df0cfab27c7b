"""What follows from the contents of memory, or from the order in which threads run: a launch in which neither is known.

Such values travel as undefined ones do (`Uninitialised`), and a finding of that rule says where one decides where
threads go, what they access or whom they wait for.
"""

from __future__ import annotations

import collections

import numpy as np

from warpsim.analysis.constants import Constants
from warpsim.analysis.flow import Block, blocks_of
from warpsim.analysis.loops import CLOCKS, loop_blocks
from warpsim.analysis.undefined import AT_BARRIERS
from warpsim.checks.undefined_bits import transfer_of
from warpsim.checks.undefined_products import early
from warpsim.checks.undefined_registers import RULE as UNDEFINED
from warpsim.checks.undefined_registers import ones, origins, put, undefined
from warpsim.checks.uninitialised import Uninitialised
from warpsim.checks.written import WrittenBits, lacks, nothing_written, written_bits
from warpsim.errors import Finding
from warpsim.isa.traits import Access, Ending, Mbarrier
from warpsim.layout import mbarriers
from warpsim.machine.collectives import Members, missing_lanes
from warpsim.machine.hooks import TensorAccess
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import party, present
from warpsim.machine.state.global_memory import CONST_ADDRESS, PARAM_WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.watcher import READ, WRITE, MemoryAccess
from warpsim.numerics.arrays import Array
from warpsim.program.names import device_function
from warpsim.program.program import Function, Instruction
from warpsim.proving.alike import NAME as FINGERPRINT
from warpsim.proving.boxes import Boxes, outer
from warpsim.proving.effort import Effort
from warpsim.proving.sides import Sides, forget, kept
from warpsim.records import frozen

PLACED = frozenset({"smid", "nsmid", "warpid", "nwarpid", "gridid"}) | CLOCKS
"""Special registers whose value is not the same in each run of a launch."""
ELSEWHERE = "what lanes bring to a collective at another place"
VOTE = "the votes of threads at a barrier"
BEYOND = frozenset({"out-of-bounds", "misaligned"})
HARMLESS = frozenset({"a matrix operand", AT_BARRIERS["c"]})
"""What the metadata of a sparse product and the predicates of a vote at a barrier are used as: they decide nothing but its result."""
ADDRESS = "an address"
"""What a register is used as whose value leads an access anywhere."""
PHASE_BIT = np.uint64(1) << mbarriers.PHASE
FOLLOWED = frozenset({
    "accumulator", "active", "async_groups", "bulk", "cluster", "device", "lane", "memory", "objects", "report", "shared_matrix",
    "tensor", "tensor_core",
})  # fmt: skip
"""Ports of instructions whose results are what undefined bits are tracked through."""


def beyond(instruction: Instruction) -> str:
    """Why the results of an instruction cannot be followed; empty if they can."""
    if instruction.traits.tensor_map:
        return "it changes a tensor map"
    if device_function(instruction.callee):
        return f"what {instruction.callee} does is not followed"
    strange = instruction.form.ports - FOLLOWED
    if strange and (instruction.writes or "cluster_launches" in strange):
        return f"its effect on {', '.join(sorted(strange)).replace('_', ' ')} is not followed"
    return ""


def hidden(instruction: Instruction) -> str:
    """Why nothing is known of the results of an instruction, whatever it reads: they differ with the order in which threads run,
    or hold what is multiplied; empty if they do not."""
    traits = instruction.traits
    if not instruction.writes:
        return ""
    if traits.multiplies or ("tensor" in instruction.form.ports and traits.allocation is None):
        return "the result of a matrix product"
    if any(part.special.partition(".")[0] in PLACED for o in instruction.operands for part in o.parts):
        return "a register that differs from run to run"
    if traits.access is Access.ATOMIC:
        return "the result of an atomic, which depends on the order of threads"
    if traits.does(Mbarrier.WAIT) or traits.does(Mbarrier.READ):
        return "the state of an mbarrier, which depends on the order of threads"
    if traits.polls or instruction.op.text.startswith("activemask"):
        return "what other threads may be writing"
    return ""


def promises(instruction: Instruction) -> bool:
    """Whether an instruction says that all lanes of a warp that come to it go the same way, whatever its guard is."""
    return instruction.guard is not None and instruction.traits.ending is not None and "uni" in instruction.op.modifiers


@frozen(eq=False)
class Patient:
    """By identity: ``waits`` that only repeat until they succeed, and what their loops do ``meanwhile``, of which nothing is left."""

    waits: frozenset[int]
    meanwhile: frozenset[int]


def patient(function: Function) -> Patient:
    """The waits of loops that do nothing else, and leave the same values behind whenever they end: none, or none that differ from lap to
    lap."""
    waits: list[Instruction] = []
    meanwhile: list[Instruction] = []
    blocks, _ = blocks_of(function)
    heads = {after for b in blocks for after in b.successors if after <= b.index}
    for head in sorted(heads) if any(i.traits.does(Mbarrier.WAIT) for i in function.code) else ():
        block, inside = blocks[head], loop_blocks(blocks, head)
        places = {at for n in inside for at in range(blocks[n].first, blocks[n].last)}
        waiting = [at for at in places if function.code[at].traits.does(Mbarrier.WAIT)]
        if len(waiting) != 1 or not any(head in blocks[n].successors for n in inside):
            continue
        (wait,) = waiting
        others = [function.code[at] for at in places if at != wait]
        written = {r for at in places for r in function.code[at].writes}
        steady = block.first <= wait < block.last and not block.live_in & written and not any(map(hidden, others))
        behind = {
            r for n in inside for after in blocks[n].successors if after not in inside for r in blocks[after].live_in
        }
        if not steady and written & behind - _fixed(blocks, inside, [function.code[at] for at in places], written):
            continue
        if all(map(_idle, others)) and not Constants(function, false=wait).leaving(places):
            waits.append(function.code[wait])  # the loop goes on for as long as the wait is false
            meanwhile += [] if steady else others
    return Patient(frozenset(map(id, waits)), frozenset(map(id, meanwhile)))


def _fixed(blocks: list[Block], inside: frozenset[int], lap: list[Instruction], written: set[int]) -> set[int]:
    """The registers that each lap of a loop leaves the same: one instruction writes them, from nothing that the loop changes."""
    entering = {
        r for b in blocks if b.index not in inside for n in b.successors if n in inside for r in blocks[n].live_in
    }
    writers = collections.Counter(r for i in lap for r in i.writes)
    plain = (i for i in lap if not written & set(i.reads) and not hidden(i))
    return {r for i in plain for r in i.writes if writers[r] == 1 and r not in entering}


def _idle(instruction: Instruction) -> bool:
    """Whether an instruction does nothing but compute, branch, sleep or look at a clock."""
    traits = instruction.traits
    if traits.ending is not None:
        return traits.ending is Ending.BRANCH
    return traits.sleeps or not (instruction.form.ports or traits.synchronises or traits.polls)


class Contents(Uninitialised):
    """Knows the contents of no memory of the host, and of nothing that depends on the order of threads."""

    compiled = frozenset()

    def __init__(self, effort: Effort) -> None:
        super().__init__()
        self.effort = effort
        self.sides, self.boxes = Sides(), Boxes()
        self._patient: dict[int, Patient] = {}
        self._origins: dict[int, Finding] = {}
        self._astray: Finding | None = None
        """Where the address of the present step comes from, if nobody knows it."""
        self._raced: list[MemoryAccess] = []
        """Strong stores of the present step to shared memory: others may store there at the same time."""
        self._beyond: set[int] = set()
        """Accesses, by identity, that were out of bounds in some thread, which then reads anything."""
        self.strange: dict[int, tuple[Instruction, str]] = {}
        """Executed instructions that cannot be followed, and why."""
        self.over = False
        """Whether what nobody knows has decided what comes now, which is not worth following."""

    def launch_began(self, launch: LaunchState) -> None:
        """Forget the contents of all memory but constants."""
        for allocation in launch.memory.allocations:
            if allocation.start < CONST_ADDRESS:
                nothing_written(launch.memory, allocation.start)

    def shadow_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Global memory stays unknown, whatever is stored there: other threads may store there, too."""
        if access.allocation is None:
            super().shadow_accessed(machine, group, access)
            return
        exchanges = access.kind == WRITE and group.instruction.traits.access is Access.ATOMIC
        if (exchanges or access.kind != WRITE) and lacks(
            written_bits(access.allocation), access.at, access.nbytes, access.active
        ):
            self._meet(machine, group, exchanges=exchanges)

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Note what is stored to."""
        if access != READ:
            found = [machine.launch.memory.find(at, at + nbytes) for at in np.unique(address).tolist()]
            self.boxes.stored |= {None if each is None else each.start for each in found}

    def global_tile_written(self, machine: Machine, address: Array, nbytes: int) -> None:
        """Nothing becomes known."""

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Note what boxes that begin anywhere are from."""
        self.boxes.issued(machine, transfer)

    def async_delivered(
        self, machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Array
    ) -> None:
        """Nothing is known of what reductions leave in shared memory, which may depend on their order, and of boxes from anywhere."""
        super().async_delivered(machine, group, active, transfer, which)
        target, bits = transfer.writes, machine.batch.shared.shadow
        hides = transfer.reduces or id(transfer.place or group.instruction) in self.boxes.loads
        if hides and target is not None and isinstance(bits, WrittenBits):
            words = target.start[which][:, None] + np.arange(0, target.nbytes, 4)
            bits.clear(words, target.columns[which][:, None], 4, None, rows=False)

    def tensor_accessed(self, machine: Machine, group: Group, access: TensorAccess) -> None:
        """What is in tensor memory is not known (`hidden`)."""

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """What a copy is still writing may reach anything: nobody follows the product's rows."""
        super().tile_read(machine, group, address, columns, limits, nbytes)
        if self._unfinished:
            message = early(machine, group, present(group), self._unfinished[0]).message
            machine.fault("async-read-early", message, group)

    def map_used(self, machine: Machine, group: Group, addresses: Array, columns: Array, active: Array | None) -> None:
        """Nothing is known of a tensor map in global memory."""
        found = [machine.launch.memory.find(at, at + 1) for at in np.unique(addresses).tolist()]
        if any(allocation is not None and allocation.start < PARAM_WINDOW for allocation in found):
            self.strange.setdefault(id(group.instruction), (group.instruction, "its tensor map is in global memory"))

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note what may be stored, or may not, and what depends on who stores last."""
        self.sides.accessed(access)
        traits = present(group).traits
        if access.kind != READ and access.allocation is not None:
            self.boxes.stored.add(access.allocation.start)
        if (
            access.kind != READ
            and access.space.startswith("shared")
            and traits.access is not None
            and traits.order.strong
        ):
            self._raced.append(kept(access))

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Note what cannot be followed; pause where both sides of something are to be followed."""
        waits = id(instruction) in self._patient_of(group).meanwhile and not self.sides.choices
        if not waits and self.sides.pauses(group, instruction):
            machine.hooks.pausing = True
        self._astray = None
        if group.has_shadows and instruction.address is not None:
            unknown = [s for s in transfer_of(group.plan, instruction).addresses if undefined(group, s) is not None]
            free = bool(unknown) and outer(instruction).issuperset(unknown)
            if free:
                self.boxes.loads.setdefault(id(instruction), set())
            elif unknown:
                self._astray = origins(machine).read(machine, group, unknown[0], instruction)
                self.boxes.bound.add(id(instruction))
        if id(instruction) not in self.strange:
            why = beyond(instruction)
            guard = instruction.guard
            if guard is not None and promises(instruction) and undefined(group, guard[0].index) is not None:
                why = "lanes of a warp may go different ways"
            if instruction.traits.does(Mbarrier.WAIT) and id(instruction) not in self._patient_of(group).waits:
                why = "it may be false, and what follows is ordered as if it were true"
            if self.effort.step(group.selection.positions.size):
                why = "following all sides up to here takes too long"
            if why:
                self.strange[id(instruction)] = instruction, why
                self.over = machine.hooks.pausing = True

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """Note accesses out of bounds, and what nobody can follow."""
        super().finding(machine, group, finding)
        if finding.rule == UNDEFINED and finding.values.get("use") not in {*HARMLESS, ADDRESS}:
            self.over = machine.hooks.pausing = True
        if finding.rule in BEYOND:
            self._beyond.add(id(group.instruction))

    def step_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Results of which nothing is known."""
        if self._raced:
            forget(machine, self._raced)
        if self._astray is not None:
            self._wander(machine, group, instruction, self._astray)
        elif id(instruction) in self._beyond:
            _hide(machine, group, instruction, party(machine.launch, machine.batch, group, "what lies out of bounds"))
        why = hidden(instruction)
        if not why or id(instruction) in self._patient_of(group).meanwhile:
            return
        if id(instruction) in self._patient_of(group).waits:
            _succeed(group, instruction)
            return
        origin = self._origins.get(id(instruction))
        if origin is None:
            origin = self._origins[id(instruction)] = party(machine.launch, machine.batch, group, why)
        _hide(machine, group, instruction, origin)

    def warp_synchronised(self, machine: Machine, group: Group, members: Members, active: Array | None) -> None:
        """What lanes get from others that come to a collective at another place is followed only if the places differ in registers alone:
        that replaces what is set here."""
        if present(group).writes and missing_lanes(machine, group, members, active) is not None:
            _hide_later(machine, group, ELSEWHERE)

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  event arguments are positional
        """Nothing is known of a vote."""
        if group is not None and present(group).writes:
            _hide_later(machine, group, VOTE)

    def _wander(self, machine: Machine, group: Group, instruction: Instruction, origin: Finding) -> None:
        """Nothing is known of what an access at any address reads, nor of what it may have written."""
        _hide(machine, group, instruction, origin)
        if instruction.traits.access is Access.LOAD:
            return
        self.sides.lost.add(None)
        self.boxes.stored.add(None)
        for space in (machine.batch.local, machine.batch.shared):
            bits = space.shadow
            if isinstance(bits, WrittenBits):
                columns = np.arange(space.n_columns)
                bits.forget(0, 4 * len(bits.words), columns if space is machine.batch.shared else group.lanes(None))

    def _patient_of(self, group: Group) -> Patient:
        function = group.plan.function
        if id(function) not in self._patient:
            self._patient[id(function)] = patient(function)
        return self._patient[id(function)]


def _succeed(group: Group, instruction: Instruction) -> None:
    """A wait for the phase of a state has seen it complete, whatever else the state says."""
    state = instruction.named.get("state")
    bits = None if state is None or state.register is None else undefined(group, state.register.index)
    if bits is not None and instruction.guard is None and not (bits & PHASE_BIT).any():
        for slot in instruction.writes:
            put(group, slot, None)


def _hide(machine: Machine, group: Group, instruction: Instruction, origin: Finding) -> None:
    """Nothing is known of the results of an instruction, but the phase of an mbarrier that threads arrive at."""
    arrives = instruction.traits.does(Mbarrier.ARRIVE)
    for slot in instruction.writes:
        origins(machine).put(group, slot, origin)
        bits = ones(group.plan, slot, np.ones(1, np.bool_))
        put(group, slot, bits & ~PHASE_BIT if arrives else bits)


def _hide_later(machine: Machine, group: Group, why: str) -> None:
    """Nothing is known of results that come after their step, not even which are alike."""
    _hide(machine, group, present(group), party(machine.launch, machine.batch, group, why))
    for slot in present(group).writes:
        group.set_shadow(FINGERPRINT, slot, None)
