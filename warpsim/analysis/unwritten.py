"""Registers whose value matters: those that some path reads before any instruction writes them, and those that decide what an
instruction with effects does.

A wgmma reads its accumulator only where scale-d is true: compilers leave it unwritten before a sum's first product.
"""

from __future__ import annotations

from warpsim.analysis.constants import Constants, State
from warpsim.analysis.dataflow import walk
from warpsim.analysis.flow import blocks_of, returned_by
from warpsim.isa.spec import Scope
from warpsim.program.program import Function, Instruction, Operand

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


def scale_of(instruction: Instruction) -> Operand | None:
    """The operand that says whether an instruction adds to its accumulator; None if it has no such choice."""
    if "accumulator" not in instruction.form.ports:
        return None
    return instruction.named["scale_d"]


class _Scales(Constants):
    """Also notes whether each wgmma adds to its accumulator, if that is the same whenever it is executed."""

    def __init__(self, function: Function) -> None:
        self.found: dict[int, bool | None] = {}
        super().__init__(function)

    def _apply(self, at: int, state: State) -> None:
        scale = scale_of(self.function.code[at])
        if scale is not None and scale.constant is not None:
            self.found[at] = scale.constant != 0
        elif scale is not None and scale.register is not None:
            value = self._read(state, scale.register.index)
            self.found[at] = None if value is None else bool(value) != scale.negated
        super()._apply(at, state)


def additions(function: Function) -> dict[int, bool | None]:
    """For each wgmma by its index: whether it adds to its accumulator; None if that depends. Those that no path reaches
    are missing.
    """
    if not any("accumulator" in i.form.ports for i in function.code):
        return {}
    return _Scales(function).found


def read_unwritten(function: Function) -> set[int]:
    """The registers that some path reads before any instruction writes them; a guarded write counts as a read."""
    blocks, place = blocks_of(function)
    entering = blocks[place[0]].live_in if blocks else frozenset()
    if not entering:
        return set()
    uses, returned = _uses(function, entering), entering.intersection(returned_by(function))
    found: set[int] = set()
    for at, left in walk(blocks, entering, lambda at, left: left - uses[at][1], frozenset[int].union):
        found |= left & uses[at][0]
        if function.code[at].traits.leaves:
            found |= left & returned
    return found


def _uses(function: Function, registers: frozenset[int]) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Of each instruction: which of some registers it reads, and which it certainly writes."""
    adds = additions(function)
    found = []
    for at, instruction in enumerate(function.code):
        reads, writes = instruction.reads, instruction.writes
        if instruction.guard is not None:
            writes = ()
        elif adds.get(at) is False:
            reads = reads[: -len(writes)]
        found.append((registers.intersection(reads), registers.intersection(writes)))
    return found


def deciding(instruction: Instruction) -> dict[int, str]:
    """The registers that are neither addresses nor data, but decide what an instruction with effects does, and as what."""
    form, traits = instruction.form, instruction.traits
    names = DECIDE if form.ports or form.scope is not Scope.THREAD else {}
    if traits.barrier is not None and traits.barrier.among == "cta":
        names = {**names, **AT_BARRIERS}
    named = [(spec.name, o) for spec, o in zip(form.operands, instruction.operands, strict=False) if not spec.dest]
    return {r: names[name] for name, o in named if name in names for r in o.registers}
