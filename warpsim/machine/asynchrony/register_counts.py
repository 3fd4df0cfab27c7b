"""``setmaxnreg``: registers that a CTA's warps return and wait for.

A CTA owns the registers that its warps had at launch. ``.dec`` returns some to the CTA; ``.inc`` waits until there are
enough. Warps that have exited keep their registers (on an H100, too, a CTA whose other warps wait for them never ends).
The assembler derives the count at launch from ``.maxnreg``, or from ``.minnctapersm`` with a block size; without these
it drops the instruction, and so nothing waits here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.state.batch import RegisterCounts
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import Step

UNIT = 8
"""Granularity of a thread's register allocation."""
SM_REGISTERS = 1 << 16


def _begin(machine: Machine) -> RegisterCounts:
    """Set up the batch's first setmaxnreg: all warps hold their registers at launch."""
    shape = machine.batch.shape
    extent = -(-shape.n_threads // 128) * 4, shape.n_ctas
    at_launch = registers_at_launch(machine.launch.plan.entry.directives)
    real = np.arange(extent[0])[:, None] < -(-shape.n_threads // 32)
    held = np.broadcast_to(np.where(real, at_launch or 0, 0), extent).copy()
    return RegisterCounts(held, np.zeros(shape.n_ctas, np.int64), at_launch is not None)


def change(machine: Machine, group: Group, count: int, *, increase: bool) -> bool:
    """Request ``count`` registers per thread for a group's warps; True if some have to wait."""
    counts = machine.batch.register_counts
    if counts is None:
        counts = machine.batch.register_counts = _begin(machine)
    warps = np.zeros(counts.held.shape, np.bool_)
    warps[group.selection.threads >> 5, group.selection.ctas] = True
    if increase and counts.bounded and not _grant(machine, counts, group, warps, count):
        return True
    if machine.hooks.registers_changed is not None:
        machine.hooks.registers_changed(machine, group, count)
    if not increase:
        _give_back(machine, counts, warps, count)
    return False


def _grant(machine: Machine, counts: RegisterCounts, group: Group, warps: Array, count: int) -> bool:
    """Grant the registers to as many warps as possible; False if the group was split or waits."""
    need = np.where(warps, np.maximum(count - counts.held, 0), 0)
    granted = warps & (np.cumsum(need, axis=0) <= counts.free)
    counts.free -= np.where(granted, need, 0).sum(axis=0)
    counts.held = np.where(granted, np.maximum(count, counts.held), counts.held)
    if granted[warps].all():
        return True
    inside = granted[group.selection.threads >> 5, group.selection.ctas]
    if inside.any():
        goes, group = machine.divide(group, inside)
        machine.push(goes)  # comes back here, and then needs nothing more
    counts.waiting.append(group)
    return False


def _give_back(machine: Machine, counts: RegisterCounts, warps: Array, count: int) -> None:
    kept = np.where(warps, np.minimum(counts.held, count), counts.held)
    freed = (counts.held - kept).sum(axis=0)
    counts.held, counts.free = kept, counts.free + freed
    if freed.any() and counts.waiting:
        for group in counts.waiting:
            machine.push(group)
        counts.waiting = []


def registers_at_launch(directives: dict[str, tuple[int | str, ...]]) -> int | None:
    """Registers per thread at launch, as the assembler determines them; None if it cannot."""
    if "maxnreg" in directives:
        return -(-int(directives["maxnreg"][0]) // UNIT) * UNIT
    block = directives.get("reqntid") or directives.get("maxntid")
    if block is None or "minnctapersm" not in directives:
        return None
    warps = -(-int(np.prod([int(n) for n in block])) // 32)
    resident = max(int(directives["minnctapersm"][0]), 1)
    return min(SM_REGISTERS // (32 * warps * resident) // UNIT * UNIT, 256)


def bind_register_count(instruction: Instruction) -> Step:
    """The step of a whole warp whose lanes all pass the guard (see `bind_gate`)."""
    count = instruction.operands[0].constant or 0
    increase = "inc" in instruction.op.modifiers

    def step(machine: Machine, group: Group) -> bool:
        return change(machine, group, count, increase=increase)

    return step
