"""What follows from the contents of memory, or from the order in which threads run: a launch in which neither is known.

Such values travel as undefined ones do (`Uninitialised`), and a finding of that rule says where one decides where
threads go, what they access or whom they wait for.
"""

from __future__ import annotations

import numpy as np

from warpsim.analysis.constants import Constants
from warpsim.analysis.flow import blocks_of
from warpsim.analysis.loops import CLOCKS, loop_blocks
from warpsim.checks.undefined_bits import transfer_of
from warpsim.checks.undefined_products import early
from warpsim.checks.undefined_registers import ones, origins, put, undefined
from warpsim.checks.uninitialised import Uninitialised
from warpsim.checks.written import WrittenBits, lacks, nothing_written, written_bits
from warpsim.errors import Finding
from warpsim.isa.traits import Access, Ending, Mbarrier
from warpsim.machine.hooks import TensorAccess
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import party, present
from warpsim.machine.state.global_memory import CONST_ADDRESS, PARAM_WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.watcher import READ, WRITE, MemoryAccess
from warpsim.numerics.arrays import Array
from warpsim.program.program import Function, Instruction
from warpsim.proving.sides import Sides, forget, kept

PLACED = frozenset({"smid", "nsmid", "warpid", "nwarpid", "gridid"}) | CLOCKS
"""Special registers whose value is not the same in each run of a launch."""
BEYOND = frozenset({"out-of-bounds", "misaligned"})
FOLLOWED = frozenset({
    "accumulator", "active", "async_groups", "bulk", "cluster", "device", "lane", "memory", "objects", "report", "shared_matrix",
    "tensor", "tensor_core",
})  # fmt: skip
"""Ports of instructions whose results are what undefined bits are tracked through."""


def beyond(instruction: Instruction) -> str:
    """Why the results of an instruction cannot be followed; empty if they can."""
    if instruction.traits.tensor_map:
        return "it changes a tensor map"
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


def patient(function: Function) -> set[int]:
    """The waits that only repeat until they succeed: by identity, instructions of loops that do nothing else, take nothing
    along from lap to lap, and so leave the same values behind whenever they end."""
    found: set[int] = set()
    blocks, _ = blocks_of(function)
    for head, block in enumerate(blocks):
        code = function.code[block.first : block.last]
        if not any(i.traits.does(Mbarrier.WAIT) for i in code):
            continue
        inside = loop_blocks(blocks, head)
        lap = [i for n in sorted(inside) for i in function.code[blocks[n].first : blocks[n].last]]
        waits = [i for i in lap if i.traits.does(Mbarrier.WAIT)]
        returns = any(head in blocks[n].successors for n in inside)
        carried = block.live_in & {r for i in lap for r in i.writes}
        if returns and len(waits) == 1 and not carried and all(_idle(i) for i in lap if i is not waits[0]):
            places = {at for n in inside for at in range(blocks[n].first, blocks[n].last)}
            wait = next(at for at in places if function.code[at] is waits[0])
            if not Constants(function, false=wait).leaving(places):  # it goes on for as long as the wait is false
                found.add(id(waits[0]))
    return found


def _idle(instruction: Instruction) -> bool:
    """Whether an instruction does nothing but compute, branch or sleep."""
    traits = instruction.traits
    if traits.ending is not None:
        return traits.ending is Ending.BRANCH
    return traits.sleeps or (not instruction.form.ports and not traits.synchronises and not hidden(instruction))


class Contents(Uninitialised):
    """Knows the contents of no memory of the host, and of nothing that depends on the order of threads."""

    compiled = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.sides = Sides()
        self._patient: dict[int, set[int]] = {}
        self._origins: dict[int, Finding] = {}
        self._astray: Finding | None = None
        """Where the address of the present step comes from, if nobody knows it."""
        self._raced: list[MemoryAccess] = []
        """Strong stores of the present step to shared memory: others may store there at the same time."""
        self._beyond: set[int] = set()
        """Accesses, by identity, that were out of bounds in some thread, which then reads anything."""
        self.strange: dict[int, tuple[Instruction, str]] = {}
        """Executed instructions that cannot be followed, and why."""

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
        """Nothing becomes known."""

    def async_delivered(
        self, machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Array
    ) -> None:
        """Nothing is known of what reductions leave in shared memory: it may depend on their order."""
        super().async_delivered(machine, group, active, transfer, which)
        target, bits = transfer.writes, machine.batch.shared.shadow
        if transfer.reduces and target is not None and isinstance(bits, WrittenBits):
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
        if (
            access.kind != READ
            and access.space.startswith("shared")
            and traits.access is not None
            and traits.order.strong
        ):
            self._raced.append(kept(access))

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Note what cannot be followed; pause where both sides of something are to be followed."""
        if self.sides.pauses(group, instruction):
            machine.hooks.pausing = True
        self._astray = None
        if group.has_shadows and instruction.address is not None:
            unknown = [s for s in transfer_of(group.plan, instruction).addresses if undefined(group, s) is not None]
            self._astray = origins(machine).read(machine, group, unknown[0], instruction) if unknown else None
        if id(instruction) not in self.strange:
            why = beyond(instruction)
            if instruction.traits.does(Mbarrier.WAIT) and id(instruction) not in self._patient_of(group):
                why = "it may be false, and what follows is ordered as if it were true"
            if why:
                self.strange[id(instruction)] = instruction, why

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """Note accesses out of bounds."""
        super().finding(machine, group, finding)
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
        if not why or id(instruction) in self._patient_of(group):
            return
        origin = self._origins.get(id(instruction))
        if origin is None:
            origin = self._origins[id(instruction)] = party(machine.launch, machine.batch, group, why)
        _hide(machine, group, instruction, origin)

    def _wander(self, machine: Machine, group: Group, instruction: Instruction, origin: Finding) -> None:
        """Nothing is known of what an access at any address reads, nor of what it may have written."""
        _hide(machine, group, instruction, origin)
        if instruction.traits.access is Access.LOAD:
            return
        self.sides.lost.add(None)
        for space in (machine.batch.local, machine.batch.shared):
            bits = space.shadow
            if isinstance(bits, WrittenBits):
                columns = np.arange(space.n_columns)
                bits.forget(0, 4 * len(bits.words), columns if space is machine.batch.shared else group.lanes(None))

    def _patient_of(self, group: Group) -> set[int]:
        function = group.plan.function
        if id(function) not in self._patient:
            self._patient[id(function)] = patient(function)
        return self._patient[id(function)]


def _hide(machine: Machine, group: Group, instruction: Instruction, origin: Finding) -> None:
    """Nothing is known of the results of an instruction."""
    for slot in instruction.writes:
        origins(machine).put(group, slot, origin)
        put(group, slot, ones(group.plan, slot, np.ones(1, np.bool_)))
