"""In which order the operands of an f64 operation reach the hardware, which looks for NaNs in the second one first.

Of two NaNs, this order decides whose bits the result has (see `numerics.floating.nan64`); NaNs of other types have no bits
of their own. Observed in code made by ptxas 13.0:

* Of two factors or terms, the second is the one whose value was made later in the code. Copies, negations, absolute values
  and operations that the assembler drops (see `contraction`) count as their source.
* Where different values of a register meet, they count as made after all others.
* A kernel's parameter or a literal comes second.

In loops that the assembler unrolls, and where it joins values otherwise, it may differ.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import attrs

from warpsim.analysis.dataflow import settle
from warpsim.analysis.flow import Block, blocks_of, rewritten
from warpsim.graph.nodes import Untraceable
from warpsim.isa.traits import Access, Contraction
from warpsim.program.program import Function, Instruction, Operand

MERGED, PARAMETER, LITERAL = 1 << 40, 1 << 41, 1 << 42


def exchanges(function: Function) -> list[int]:
    """The places of f64 operations whose operands the assembler exchanges."""
    if not any(i.traits.sorts and _is_sorted(i) for i in function.code):
        return []
    return [at for at, (first, second) in _Values(function).ranks() if first > second]


def order_operands(function: Function, found: Sequence[int]) -> Function:
    """Exchange the operands of `exchanges`."""
    code = list(function.code)
    for at in found:
        code[at] = _exchanged(code[at])
    return rewritten(function, code)


def _is_sorted(instruction: Instruction) -> bool:
    """Whether the assembler sorts the first two sources of an instruction."""
    return instruction.traits.sorts and all(o.is_plain for o in instruction.operands[1:3])


def _exchanged(instruction: Instruction) -> Instruction:
    d, a, b, *rest = instruction.operands
    form = instruction.form
    if not rest and instruction.traits.exchanged is not None:
        form = form.replaced(function=instruction.traits.exchanged)
    return attrs.evolve(instruction, form=form, operands=(d, b, a, *rest))


class _Values:
    """The definitions of the values of a function's registers, numbered in code order; sets of them have a bit for each."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.blocks = blocks_of(function, entered=True)[0]
        self.made: dict[int, dict[int, int]] = {}
        """The definitions that an instruction makes, by register."""
        self.all: dict[int, int] = {}
        """The definitions of a register."""
        self.registers: list[int] = []
        """The register of each definition."""
        self.before: list[int] = []
        self.after: list[int] = []
        self.merged: dict[int, int] = {}
        """Of definitions whose values meet in one register, the first."""
        self.source: dict[int, int] = {}
        """The definition of what another one only renames."""
        self._number()
        self._reach()
        self._merge()

    def ranks(self) -> Iterator[tuple[int, list[int]]]:
        """Each instruction whose sources are sorted, and what the first two are sorted by."""
        for block in self.blocks:
            found: dict[int, int] = {}
            for at in range(block.first, block.last):
                instruction = self.function.code[at]
                if _is_sorted(instruction):
                    yield at, [self._rank(o, block, found) for o in instruction.operands[1:3]]
                made = self.made.get(at, {})
                source = self._renamed(instruction, block, found) if made and instruction.guard is None else None
                for definition in made.values():
                    if source is not None and source != definition:  # a loop may copy a register to itself
                        self.source[definition] = source
                found |= {register: 1 << definition for register, definition in made.items()}

    def _number(self) -> None:
        """Number the definitions of registers that are sorted, and of those that they are copies of."""
        code = self.function.code
        wanted = {r for i in code if _is_sorted(i) for r in i.reads}
        copied: dict[int, set[int]] = {}
        for reads, writes in ((i.reads, i.writes) for i in code if _passed_on(i) is not None):
            for register in writes:
                copied.setdefault(register, set()).update(reads)
        work = list(wanted)
        while work:
            new = copied.get(work.pop(), set()) - wanted
            wanted |= new
            work += new
        for at, instruction in enumerate(code):
            for register in instruction.writes:
                if register in wanted:
                    self.made.setdefault(at, {})[register] = definition = len(self.registers)
                    self.registers.append(register)
                    self.all[register] = self.all.get(register, 0) | 1 << definition

    def _reach(self) -> None:
        """Find the definitions that reach the start and the end of each block."""
        last = [{r: d for at in range(b.first, b.last) for r, d in self.made.get(at, {}).items()} for b in self.blocks]
        makes = [sum(1 << definition for definition in made.values()) for made in last]
        keeps = [~sum(self.all[register] for register in made) for made in last]

        def through(index: int, before: int) -> int:
            return makes[index] | before & keeps[index]

        self.before = [before or 0 for before in settle(self.blocks, 0, through, int.__or__)]
        self.after = [through(index, before) for index, before in enumerate(self.before)]

    def _merge(self) -> None:
        """Find the definitions that meet: where paths with different ones of a live register join."""
        differing = [0] * len(self.blocks)
        for block in self.blocks:
            for successor in block.successors:
                differing[successor] |= self.after[block.index] ^ self.before[successor]
        classes: dict[int, list[int]] = {}
        for block in self.blocks:
            left = differing[block.index]
            while left:
                register = self.registers[_first(left)]
                left &= ~self.all[register]
                met = self.before[block.index] & self.all[register]
                if met & (met - 1) and register in block.live_in:
                    known = classes.get(register, [])
                    others = [c for c in known if not c & met]
                    classes[register] = [*others, functools.reduce(int.__or__, (c for c in known if c & met), met)]
        for met in (c for found in classes.values() for c in found):
            first = _first(met)
            while met:
                self.merged[_first(met)] = first
                met &= met - 1

    def _rank(self, operand: Operand, block: Block, found: dict[int, int]) -> int:
        if operand.register is None:
            return LITERAL
        definitions = self._definitions(operand.register.index, block, found)
        definition = self._root(_first(definitions)) if definitions else -1
        return MERGED + self.merged[definition] if definition in self.merged else definition

    def _definitions(self, register: int, block: Block, found: dict[int, int]) -> int:
        return found.get(register) or self.before[block.index] & self.all.get(register, 0)

    def _root(self, definition: int) -> int:
        while definition in self.source:
            definition = self.source[definition]
        return definition

    def _renamed(self, instruction: Instruction, block: Block, found: dict[int, int]) -> int | None:
        """The definition of the one value that an instruction passes on, if it does."""
        given = _passed_on(instruction)
        if given is None:
            loads = instruction.traits.access is Access.LOAD and instruction.traits.spaces == ("param",)
            return PARAMETER if loads else None
        roots: set[int] = set()
        for operand in given:
            definitions = self._definitions(operand.register.index, block, found) if operand.register else 0
            roots.add(self._root(_first(definitions)) if definitions and not definitions & (definitions - 1) else -1)
        return roots.pop() if len(roots) == 1 and -1 not in roots else None


def _first(definitions: int) -> int:
    """The lowest definition of a set."""
    return (definitions & -definitions).bit_length() - 1


def _selects(instruction: Instruction) -> bool:
    """Whether the result is the first source or the second."""
    try:
        ((result,),) = instruction.graph.outputs
    except (Untraceable, ValueError):
        return False
    return result.op == "where" and all(n.op == "input" for n in result.args)


def _passed_on(instruction: Instruction) -> tuple[Operand, ...] | None:
    """The operands of which the result is one, apart from its sign, if it is."""
    traits, given = instruction.traits, instruction.operands[1:]
    if len(given) == 3 and given[2].type.kind == "p" and _selects(instruction):
        return given[:2]
    if not (traits.copies or traits.changes_sign or traits.contraction is Contraction.IDENTITY):
        return None
    return given[0].parts if len(given) == 1 else given
