"""uninitialised: registers that no path writes before a place where their value matters, or that some path reads first.

The result of an operation on such a register is undefined too. Selections and bitwise logic, which may not depend on
it, count as defined; so do accumulators of a wgmma whose scale-d is false, or unknown: compilers leave them unwritten
before a sum's first product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from warpsim.analysis.constants import Constants, known_at_once
from warpsim.analysis.dataflow import settle, walk
from warpsim.analysis.flow import Block, blocks_of, returned_by
from warpsim.errors import Finding
from warpsim.graph.moves import Fate, Moves, moves_of
from warpsim.graph.nodes import Untraceable
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access, Ending, Matrix
from warpsim.program.program import Function, Instruction, Operand, called

if TYPE_CHECKING:
    from warpsim.analysis.facts import Facts

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
    "ncols": "a number of columns",
    "taddr": "an address in tensor memory",
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


def _scales(function: Function) -> dict[int, Operand]:
    """The operand that says so of each wgmma, by its index."""
    return {at: scale for at, i in enumerate(function.code) if (scale := scale_of(i)) is not None}


def additions(function: Function) -> dict[int, bool | None]:
    """For each wgmma by its index: whether it adds to its accumulator; None if that depends. Those that no path reaches
    are missing."""
    scales = _scales(function)
    if not scales:
        return {}
    asked = {at: scale.register.index for at, scale in scales.items() if scale.register is not None}
    constants = Constants(function, asked)
    found: dict[int, bool | None] = {}
    for at in sorted(constants.reached.intersection(scales)):
        scale, value = scales[at], constants.answers.get(at)
        if scale.constant is not None:
            found[at] = scale.constant != 0
        elif scale.register is not None:
            found[at] = None if value is None else bool(value) != scale.negated
    return found


def read_unwritten(function: Function) -> set[int]:
    """The registers that some path reads before any instruction writes them; a guarded write counts as a read."""
    blocks, place = blocks_of(function)
    entering = blocks[place[0]].live_in if blocks else frozenset()
    if not entering:
        return set()
    accesses = _accesses(function, blocks, entering)
    found: set[int] = set()

    def through(index: int, left: frozenset[int]) -> frozenset[int]:
        for _, writes in accesses[index]:
            left = left - writes
        return left

    before = settle(blocks, entering, through, frozenset[int].union)
    for left, block in zip(before, accesses, strict=True):
        for reads, writes in block if left else ():
            assert left is not None
            found |= left & reads
            left -= writes
    return found


def _accesses(
    function: Function, blocks: list[Block], registers: frozenset[int]
) -> list[list[tuple[frozenset[int], frozenset[int]]]]:
    """Of each block's instructions that access some registers: which of them they read, and which they certainly write."""
    returned, overwriting, found = registers.intersection(returned_by(function)), _overwriting(function), []
    for block in blocks:
        here = []
        for at in range(block.first, block.last):
            instruction = function.code[at]
            leaving: frozenset[int] = returned if returned and instruction.traits.leaves else frozenset()
            if not leaving and not instruction.touches(registers):
                continue
            reads, writes = instruction.reads, instruction.writes
            if instruction.guard is not None:
                writes = ()
            elif at in overwriting:
                reads = reads[: -len(writes)]
            here.append((leaving.union(registers.intersection(reads)), registers.intersection(writes)))
        found.append(here)
    return found


def _overwriting(function: Function) -> set[int]:
    """The wgmma, by their index, that do not add to their accumulators wherever they execute."""
    scales = _scales(function)
    known = known_at_once(function, {s.register.index for s in scales.values() if s.register is not None})
    if known is None:
        return {at for at, adds in additions(function).items() if adds is False}
    return {
        at
        for at, scale in scales.items()
        if (scale.constant == 0 if scale.register is None else bool(known[scale.register.index]) == scale.negated)
    }


def deciding(instruction: Instruction) -> dict[int, str]:
    """The registers that are neither addresses nor data, but decide what an instruction with effects does, and as what."""
    form, traits = instruction.form, instruction.traits
    names = DECIDE if form.ports or form.scope is not Scope.THREAD else {}
    if traits.barrier is not None and traits.barrier.among == "cta":
        names = {**names, **AT_BARRIERS}
    named = [(spec.name, o) for spec, o in zip(form.operands, instruction.operands, strict=False) if not spec.dest]
    return {r: names[name] for name, o in named if name in names for r in o.registers}


RULE = "uninitialised"
ADVICE = "initialise the register on every path to here"
SHARED = "the value of a store to shared memory"
"""Only a warning, because the stored value may never be read."""
_OF_WGMMA = ("a", "a_desc", "b_desc", "sp_meta", "scale_d")
"""Operands of wgmma that are always read."""


def check_undefined(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    function = facts.function
    every = (1 << len(function.registers)) - 1
    given = 0 if function.entry else _parameters(facts)
    adds = additions(function)
    reported: set[int] = set()
    roots: dict[int, Root] = {}
    for at, state in walk(facts.blocks, every & ~given, lambda at, state: _step(function.code[at], state), int.__and__):
        instruction = function.code[at]
        accumulators = instruction.operands[0].registers if adds.get(at) else []
        first = next((r for r in accumulators if state >> r & 1 and r not in reported), None)
        for register, use in _uses(instruction, first):
            if not state >> register & 1 or register in reported:
                continue
            reported.update((register, *accumulators))
            name = function.registers[register].name
            root = roots.get(register)
            what = "no path writes it before"
            if root is not None:
                source = called(function.registers[root.register].name)
                what = f"comes from {source}, which no path writes before line {root.instruction.span.line}"
            yield facts.finding(
                RULE, instruction, f"{called(name)} is used as {use}, but {what}", advice=ADVICE,
                severity="warning" if use == SHARED else "error", values={"register": name},
                other=None if root is None else root.instruction,
            )  # fmt: skip
        sources = _undefined_sources(instruction, state)
        if sources:
            root = roots.get(sources[0], Root(sources[0], instruction))
            roots |= dict.fromkeys(instruction.writes, root)


def _parameters(facts: Facts) -> int:
    """The registers that hold a function's arguments."""
    names = {p.name for p in (*facts.function.params, *facts.function.returns)}
    return sum(1 << r.index for r in facts.function.registers if r.name in names)


def _step(instruction: Instruction, state: int) -> int:
    """The registers that are certainly undefined after an instruction."""
    undefined = state and bool(_undefined_sources(instruction, state))
    for register in instruction.writes if state else ():
        state = state | 1 << register if undefined else state & ~(1 << register)
    return state


class Root(NamedTuple):
    """The register that nothing writes, from which an undefined value comes, and the instruction that reads it."""

    register: int
    instruction: Instruction


def _undefined_sources(instruction: Instruction, state: int) -> list[int]:
    """The undefined registers that make an instruction's results undefined."""
    sources = [r for r in instruction.reads if state >> r & 1]
    return sources if sources and instruction.guard is None and _spreads(instruction) else []


def _spreads(instruction: Instruction) -> bool:
    """Whether any undefined source makes the result undefined."""
    if instruction.traits.copies:
        return len(instruction.operands) == 2 and len(instruction.operands[1].registers) == 1
    plain = instruction.form.scope is Scope.THREAD and not instruction.form.ports
    return plain and moves_by(instruction).fate is Fate.COMPUTED


def moves_by(instruction: Instruction) -> Moves:
    """What an instruction does with the bits of its sources."""
    try:
        return moves_of(instruction.graph)
    except Untraceable:  # as of 128 bits
        return Moves(Fate.MOVED, frozenset((0,))) if instruction.traits.copies else Moves(Fate.COMPUTED)


def _uses(instruction: Instruction, accumulator: int | None) -> Iterator[tuple[int, str]]:
    """The registers whose value matters when an instruction executes, and what they are used as; to ``accumulator`` it
    adds."""
    form, traits = instruction.form, instruction.traits
    multiplies = traits.multiplies
    stores = traits.access is Access.STORE or traits.matrix is Matrix.STORE
    if instruction.guard is not None:
        yield instruction.guard[0].index, "a branch condition" if traits.ending is Ending.BRANCH else "a guard"
    yield from deciding(instruction).items()
    if accumulator is not None:
        yield accumulator, "an accumulator of wgmma"
    for spec, operand in zip(form.operands, instruction.operands, strict=False):
        use = ""
        if operand.base is not None:
            use = "an address"
        elif multiplies and not spec.dest and ("accumulator" not in form.ports or spec.name in _OF_WGMMA):
            use = "a matrix operand"
        elif stores and len(operand.registers) == 1 and "global" in traits.spaces:
            use = "the value of a store to global memory"
        elif stores and len(operand.registers) == 1 and "shared" in traits.spaces:
            use = SHARED
        for register in operand.registers if use else ():
            yield register, use
