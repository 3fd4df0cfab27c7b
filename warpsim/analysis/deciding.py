"""Registers that are neither addresses nor data, but decide what an instruction with effects does."""

from __future__ import annotations

from warpsim.isa.spec import Scope
from warpsim.program.program import Instruction

DECIDE = {
    "membermask": "a membermask",
    "size": "a size",
    "src_size": "the size of a copy's source",
    "ignore_src": "the predicate that skips a copy's source",
    "mask": "the CTAs of a multicast",
    "offsets": "an offset of a copy",
    "count": "a number of arrivals",
    "bytes": "a number of bytes to expect",
    "value": "a field of a tensor map",
}
"""What instructions with effects take from operands that are neither addresses nor data, by the operand's name."""
AT_BARRIERS = {
    "a": "the number of a barrier",
    "b": "the number of threads at a barrier",
    "c": "the predicate of a barrier",
}


def deciding(instruction: Instruction) -> dict[int, str]:
    """These registers of an instruction, and what they are used as."""
    form, traits = instruction.form, instruction.traits
    names = DECIDE if form.ports or form.scope is not Scope.THREAD else {}
    if traits.barrier is not None and traits.barrier.among == "cta":
        names = {**names, **AT_BARRIERS}
    named = [(spec.name, o) for spec, o in zip(form.operands, instruction.operands, strict=False) if not spec.dest]
    return {r: names[name] for name, o in named if name in names for r in o.registers}
