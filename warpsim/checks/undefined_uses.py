"""Where undefined registers matter: in matrix products, and where control leaves a block; which of them calls hand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.undefined_registers import lanes_of, origins, report_use, undefined
from warpsim.checks.undefined_transfer import TransferFunction
from warpsim.isa.traits import Ending
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

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
