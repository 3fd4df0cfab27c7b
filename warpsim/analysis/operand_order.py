"""In which order the operands of an f64 operation reach the hardware, which looks for NaNs in the second one first.

Of two NaNs, this order decides whose bits the result has (see `numerics.floating.nan64`); NaNs of other types have no bits
of their own. Observed in code made by ptxas 13.0:

* Of two factors or terms, the second is the one whose value was made later in the code. Copies, negations, absolute values
  and operations that the assembler drops (see `identities`) count as their source.
* Where different values of a register meet, they count as made after all others.
* A kernel's parameter or a literal comes second.

In loops that the assembler unrolls, and where it joins values otherwise, it may differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from warpsim.analysis.flow import Block, blocks_of, reads_and_writes
from warpsim.isa.traits import Access, Contraction, Modular
from warpsim.program.program import Function, Imm, Instruction, Operand, Reg, Vec

MERGED, PARAMETER, LITERAL = 1 << 40, 1 << 41, 1 << 42
Definitions = dict[int, frozenset[int]]
"""The definitions that may have made each register's value: 16 times the instruction's index, and the destination's number."""


def order_operands(function: Function) -> Function:
    """Exchange the operands of f64 operations where the assembler does."""
    if not any(_is_sorted(i) for i in function.code):
        return function
    code = list(function.code)
    for at, (first, second) in _Values(function).ranks():
        if first > second:
            code[at] = _exchanged(code[at])
    return attrs.evolve(function, code=tuple(code))


def _is_sorted(instruction: Instruction) -> bool:
    """Whether the assembler sorts the first two sources of an instruction."""
    return instruction.traits.sorts and all(isinstance(o, (Reg, Imm)) for o in instruction.operands[1:3])


def _exchanged(instruction: Instruction) -> Instruction:
    d, a, b, *rest = instruction.operands
    form = instruction.form
    if not rest and instruction.traits.exchanged is not None:
        form = attrs.evolve(form, function=instruction.traits.exchanged)
    return attrs.evolve(instruction, form=form, operands=(d, b, a, *rest))


class _Values:
    """The definitions of the values of a function's registers."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.blocks = blocks_of(function, entered=True)[0]
        self.source: dict[int, int] = {}
        """The definition of what another one only renames."""
        self.merged: dict[int, int] = {}
        """Of definitions whose values meet in one register, the first."""
        self.before: list[Definitions] = [{} for _ in self.blocks]
        self._settle()

    def ranks(self) -> Iterator[tuple[int, list[int]]]:
        """Each instruction whose sources are sorted, and what the first two are sorted by."""
        for block in self.blocks:
            found = dict(self.before[block.index])
            for at in range(block.first, block.last):
                instruction = self.function.code[at]
                if _is_sorted(instruction):
                    yield at, [self._rank(o, found) for o in instruction.operands[1:3]]
                self._follow(at, found)

    def _rank(self, operand: Operand, found: Definitions) -> int:
        if not isinstance(operand, Reg):
            return LITERAL
        definition = self._root(min(found.get(operand.register.index, {-1})))
        return MERGED + self.merged[definition] if definition in self.merged else definition

    def _root(self, definition: int) -> int:
        while definition in self.source:
            definition = self.source[definition]
        return definition

    def _settle(self) -> None:
        """Find the definitions that reach each block, and those that meet."""
        after: list[Definitions] = [{} for _ in self.blocks]
        sources: list[list[int]] = [[] for _ in self.blocks]
        for block in self.blocks:
            for successor in block.successors:
                sources[successor].append(block.index)
        again = True
        while again:
            again = False
            for block in self.blocks:
                self.before[block.index] = self._met(block, [after[s] for s in sources[block.index]])
                found = dict(self.before[block.index])
                for at in range(block.first, block.last):
                    self._follow(at, found)
                if found != after[block.index]:
                    after[block.index] = found
                    again = True

    def _met(self, block: Block, coming: list[Definitions]) -> Definitions:
        met: Definitions = {}
        for found in coming:
            for register in found.keys() & block.live_in:
                met[register] = met.get(register, frozenset()) | found[register]
        for definitions in met.values():
            if len(definitions) > 1:
                first = min(self.merged.get(d, d) for d in definitions)
                self.merged.update(dict.fromkeys(definitions, first))
        return met

    def _follow(self, at: int, found: Definitions) -> None:
        """Update the definitions for an instruction."""
        instruction = self.function.code[at]
        source = self._renamed(instruction, found) if instruction.guard is None else None
        for number, register in enumerate(reads_and_writes(instruction)[1]):
            definition = 16 * at + number
            if source is None or source == definition:  # a register that only copies itself, in a loop
                self.source.pop(definition, None)
            else:
                self.source[definition] = source
            found[register] = frozenset((definition,))

    def _renamed(self, instruction: Instruction, found: Definitions) -> int | None:
        """The definition of the one value that an instruction passes on, if it does."""
        traits, given = instruction.traits, instruction.operands[1:]
        if traits.access is Access.LOAD and traits.spaces == ("param",):
            return PARAMETER
        if traits.modular is Modular.SELECTION:
            given = given[:2]
        elif not (traits.copies or traits.changes_sign or traits.contraction is Contraction.IDENTITY):
            return None
        if len(given) == 1 and isinstance(given[0], Vec):
            given = given[0].elements
        roots: set[int] = set()
        for operand in given:
            definitions = found.get(operand.register.index, ()) if isinstance(operand, Reg) else ()
            roots.update(self._root(d) for d in definitions) if len(definitions) == 1 else roots.add(-1)
        return roots.pop() if len(roots) == 1 and -1 not in roots else None
