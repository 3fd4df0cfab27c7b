"""Steps of a launch that looks for races: what each instruction is to the memory consistency model."""

from __future__ import annotations

from typing import Any

from warpsim.machine.binding.operand_slots import guard_of
from warpsim.machine.group import Group
from warpsim.machine.hazards.race_events import CLUSTER, CTA, GPU, Note
from warpsim.machine.hazards.shadows import SHADOWED, shadowed_steps
from warpsim.machine.plan import BoundBlock, FunctionPlan, Step
from warpsim.program.program import Instruction

_PORTS = frozenset({"memory", "objects", "bulk", "async_groups", "shared_matrix"})
_SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": GPU}


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
    words = instruction.op.modifiers
    root = instruction.form.root
    release = "release" in words or "acq_rel" in words
    acquire = "acquire" in words or "acq_rel" in words
    level = next((_SCOPES[w] for w in words if w in _SCOPES), GPU)
    if root == "mbarrier" or "mbarrier" in words:
        relaxed = "relaxed" in words
        if "init" in words or "inval" in words:
            return Note()
        waits = "wait" in instruction.text
        return Note(GPU, release=not relaxed and not waits, acquire=not relaxed and waits)
    strong = root in ("atom", "red") or release or acquire or "relaxed" in words or "volatile" in words
    return Note(level, release, acquire) if strong else Note()


def _fence_scope(instruction: Instruction) -> str | None:
    """The scope of a fence: "cta" or "gpu"; None for other instructions."""
    words = instruction.op.modifiers
    if instruction.form.root not in ("fence", "membar") or "proxy" in words or "mbarrier_init" in words:
        return None
    return "cta" if "cta" in words else "gpu"


def _watched(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """A step that announces itself to the detector."""

    scope = _fence_scope(instruction)
    words = instruction.text.split(".")
    if scope is None and not instruction.form.ports & _PORTS and "sync" not in words and "aligned" not in words:
        return step
    note = note_of(instruction)
    waits = instruction.form.root == "wgmma" and "wait_group" in words
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
