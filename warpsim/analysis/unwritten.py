"""Registers that some path reads before any instruction writes them.

A wgmma reads its accumulator only where scale-d is true: compilers leave it unwritten before a sum's first product.
"""

from __future__ import annotations

from warpsim.analysis.constants import Constants, State
from warpsim.analysis.flow import blocks_of, returned_by
from warpsim.program.program import Function, Instruction, Operand


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
    entering = set(blocks[place[0]].live_in) if blocks else set()
    if not entering:
        return set()
    uses = _uses(function, entering)
    returned = entering.intersection(returned_by(function))
    found: set[int] = set()
    unwritten: dict[int, set[int]] = {place[0]: entering}
    work = [place[0]]
    while work:
        block = blocks[work.pop()]
        left = set(unwritten[block.index])
        for reads, writes in uses[block.first : block.last]:
            found |= left & reads
            left -= writes
        if not block.successors or function.code[block.last - 1].traits.leaves:
            found |= left & returned
        for successor in block.successors:
            known = unwritten.get(successor)
            if known is None or not left <= known:
                unwritten[successor] = left | (known or set())
                work.append(successor)
    return found


def _uses(function: Function, registers: set[int]) -> list[tuple[set[int], set[int]]]:
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
