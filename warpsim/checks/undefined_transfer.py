"""How undefined bits pass through an instruction, worked out once per function; and where undefined registers matter."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from warpsim.analysis.undefined import deciding, read_unwritten, scale_of
from warpsim.checks.undefined_bits import Rule, bind_store_bits, destinations_of, rule_of
from warpsim.checks.undefined_registers import RULE, lanes_of, origins, report_use, undefined
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access, Ending, Family
from warpsim.machine.binding.operand_slots import commit_of, guard_of, source_getter, value_getter
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group


class TransferFunction:
    """How undefined bits pass through one instruction; bound once per function."""

    def __init__(self, plan: FunctionPlan, instruction: Instruction) -> None:
        form, traits = instruction.form, instruction.traits
        sources = instruction.inputs
        self.instruction = instruction
        self.plan = plan
        self.warps = form.scope is not Scope.THREAD
        self.wide = form.scope is Scope.WARPGROUP
        self.written = destinations_of(instruction)
        self.addresses = sorted({r for o in instruction.operands if o.base is not None for r in o.registers})
        self.decides = deciding(instruction)
        """The registers that decide what it does, and what they are used as."""
        data = {r for o in sources if o.base is None for r in o.registers}
        self.data = sorted(data - self.decides.keys())
        scale = scale_of(instruction)
        self.adds = None if scale is None else value_getter(plan, scale)
        """Of a wgmma: the threads that add to their accumulator."""
        self.guard = guard_of(instruction)
        self.guard_slot = instruction.guard[0].index if instruction.guard is not None else -1
        self.pure = not form.ports and not self.warps
        self.multiplies = traits.multiplies
        self.metadata = _metadata(instruction)
        self.stores = bind_store_bits(plan, instruction) if traits.stores else None
        self.getters = [source_getter(plan, o) for o in sources]
        self.commit = commit_of(instruction)
        self.moves_memory = traits.is_async(Family.CP_ASYNC) or ("memory" in form.ports and bool(form.n_dest))
        """Whether what it reads from memory goes anywhere: to registers, or elsewhere in memory."""

    @cached_property
    def spread(self) -> Rule:
        """Its rule, found when something is undefined."""
        return rule_of(self.plan, self.instruction)


def _metadata(instruction: Instruction) -> tuple[int, Array] | None:
    """The register with the metadata of a sparse product, and a mask of the lanes of a warp that the selector names."""
    found = instruction.traits.metadata
    if found is None:
        return None
    words, selector = instruction.named[found.words].register, instruction.named[found.selector].constant
    if words is None or selector is None:
        return None
    return words.index, np.arange(32) % 4 // found.lanes == selector % (4 // found.lanes)


class Known:
    """What the rule knows about a function, for every launch."""

    def __init__(self, plan: FunctionPlan) -> None:
        given = {r.index for param in plan.function.params for r in param.registers}
        self.unwritten = sorted(read_unwritten(plan.function) - given)
        self.transfer_functions: dict[int, TransferFunction] = {}
        self._plan = plan
        self._loads: dict[int, dict[object, list[int]]] = {}

    def loads(self, block: int) -> dict[object, list[int]]:
        """By base, the offsets that the loads of a block add to it, in ascending order."""
        found = self._loads.get(block)
        if found is None:
            found = self._loads[block] = defaultdict(list)
            for instruction in self._plan.blocks[block].instructions:
                if instruction.traits.access is Access.LOAD:
                    address = instruction.address
                    assert address is not None
                    found[address.base].append(address.offset)
            for offsets in found.values():
                offsets.sort()
        return found


def known_of(plan: FunctionPlan) -> Known:
    """What the rule knows about a function, cached."""
    found: Known | None = plan.notes.get(RULE)
    if found is None:
        found = plan.notes[RULE] = Known(plan)
    return found


def transfer_of(plan: FunctionPlan, instruction: Instruction) -> TransferFunction:
    """How undefined bits pass through an instruction of a function."""
    transfer_functions = known_of(plan).transfer_functions
    found = transfer_functions.get(id(instruction))
    if found is None:
        found = transfer_functions[id(instruction)] = TransferFunction(plan, instruction)
    return found


SCALE_D = "pass scale-d = false to the first wgmma of a sum, or zero the accumulators before its wgmma.fence"


def check_matrices(
    machine: Machine, group: Group, flow: TransferFunction, tainted: list[int], active: Array | None
) -> None:
    """Report undefined operands of a product; an accumulator of wgmma, in the threads that add to it."""
    for slot in tainted:
        bits = undefined(group, slot)
        assert bits is not None
        lanes = active
        if flow.metadata is not None and flow.metadata[0] == slot:
            warps = group.warps
            named = warps.collect(np.broadcast_to(flow.metadata[1][:, None], warps.active.shape))
            lanes = named if active is None else named & active
        report_use(machine, group, slot, bits, lanes, "a matrix operand")
    if flow.adds is None:
        return
    unwritten = [(slot, bits) for slot in flow.written if (bits := undefined(group, slot)) is not None]
    if not unwritten:
        return
    adds = np.broadcast_to(as_array(flow.adds(machine, group)).view(np.bool_), group.selection.shape)
    if active is not None:
        adds = adds & active
    for slot, bits in unwritten:
        if (lanes_of(bits) & adds).any():
            report_use(machine, group, slot, bits, adds, "an accumulator of wgmma", SCALE_D)
            return


def check_end(machine: Machine, group: Group, last: Instruction) -> None:
    """Report a branch on undefined bits."""
    slots = [last.guard[0].index] if last.guard is not None else []
    if last.traits.ending in (Ending.INDEXED_BRANCH, Ending.CALL):
        slots += [o.register.index for o in last.operands if o.register is not None]
    for slot in slots:
        bits = undefined(group, slot)
        if bits is not None and bits.any():
            report_use(machine, group, slot, bits, None, "the condition of a branch")
    if last.traits.ending is Ending.CALL:
        _enter(machine, group, last)
    elif last.traits.ending is Ending.RETURN and group.stack:
        caller, block = group.stack[-1][:2]
        results = [o.registers for o in caller.blocks[block].returns]
        given = [[r.index for r in p.registers] for p in group.plan.function.returns]
        _hand(machine, group, last, given, caller.name, results)


def _enter(machine: Machine, group: Group, call: Instruction) -> None:
    """Note the origins of undefined arguments of a function that is called by its name."""
    program = group.plan.kernel.program
    function = program.functions.get(program.aliases.get(call.callee, call.callee))
    if function is not None:
        given = [o.registers for o in call.operands[-1].parts]
        _hand(machine, group, call, given, function.name, [[r.index for r in p.registers] for p in function.params])


def _hand(
    machine: Machine, group: Group, last: Instruction, given: list[list[int]], name: str, taken: list[list[int]]
) -> None:
    """Note the origins of undefined registers that become registers of another function."""
    known = origins(machine)
    for sources, targets in zip(given, taken, strict=False):
        for source, target in zip(sources, targets, strict=False):
            if undefined(group, source) is not None:
                known.hand(name, target, known.read(machine, group, source, last))
