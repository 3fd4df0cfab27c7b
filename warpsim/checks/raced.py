"""The role of each instruction in the memory consistency model."""

from __future__ import annotations

from warpsim.checks.race_events import CLUSTER, CTA, GPU, Note
from warpsim.program.program import Instruction

_SCOPES = {None: GPU, "cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": GPU}


def note_of(instruction: Instruction) -> Note:
    """How strong an instruction's accesses are, and what they release and acquire."""
    order, flag = instruction.traits.order, instruction.traits.mbarrier is None
    return Note(_SCOPES[order.scope], order.release, order.acquire, flag) if order.strong else Note()


def fence_scope(instruction: Instruction) -> str | None:
    """The scope of a fence: "cta" or "gpu"; "inits" if it is for initialised mbarriers only; None if it is for proxies."""
    fence = instruction.traits.fence
    if fence is None or fence.proxy is not None:
        return None
    if fence.mbarrier_init:
        return "inits"
    return "cta" if instruction.traits.scope == "cta" else "gpu"
