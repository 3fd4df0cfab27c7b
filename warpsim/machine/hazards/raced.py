"""Steps of a launch that looks for races: what each instruction is to the memory consistency model."""

from __future__ import annotations

from typing import Any

from warpsim.isa.traits import Family, Stage
from warpsim.machine.binding.operand_slots import guard_of
from warpsim.machine.group import Group
from warpsim.machine.hazards.race_events import CLUSTER, CTA, GPU, Note
from warpsim.machine.hazards.shadows import SHADOWED, shadowed_steps
from warpsim.machine.plan import BoundBlock, FunctionPlan, Step
from warpsim.program.program import Instruction

_PORTS = frozenset({"memory", "objects", "bulk", "async_groups", "shared_matrix"})
_SCOPES = {None: GPU, "cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": GPU}


def steps_of(plan: FunctionPlan, block: BoundBlock, raced: bool, shadowed: bool) -> list[Step]:
    """The steps of a block as a group needs them that is watched for races, or that holds undefined bits."""
    key = raced, shadowed
    found = block.variants.get(key)
    if found is None:
        found = block.steps
        if raced:
            found = [_watched(plan, i, s) for i, s in zip(block.instructions, found, strict=False)]
        if shadowed:
            found = shadowed_steps(plan, block, found)
        block.variants[key] = found
    return found


def note_of(instruction: Instruction) -> Note:
    """How strong an instruction's accesses are, and what they release and acquire."""
    order = instruction.traits.order
    return Note(_SCOPES[order.scope], order.release, order.acquire) if order.strong else Note()


def _fence_scope(instruction: Instruction) -> str | None:
    """The scope of a fence: "cta" or "gpu"; None for other instructions."""
    fence = instruction.traits.fence
    if fence is None or fence.proxy is not None or fence.mbarrier_init:
        return None
    return "cta" if instruction.traits.scope == "cta" else "gpu"


def _watched(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """A step that announces itself to the detector."""

    scope = _fence_scope(instruction)
    traits = instruction.traits
    if scope is None and not instruction.form.ports & _PORTS and not traits.synchronises:
        return step
    note = note_of(instruction)
    waits = traits.is_async(Family.WGMMA, Stage.WAIT)
    guard = guard_of(plan, instruction) if instruction.guard is not None and scope is not None else None

    def run(group: Group) -> Any:
        races = group.batch.memory.races
        assert races is not None
        races.begin(instruction, note)
        active = None if guard is None else guard(group)
        gone = step(group)
        if gone and gone is not SHADOWED:
            return gone
        if scope is not None and active is not False:
            races.fence(group, scope, active)
        elif waits:
            races.agent_wait(group)
        return gone

    return run
