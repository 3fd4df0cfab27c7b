"""Loads whose value a compare-and-swap or another atomic verifies: reading a stale value does no harm."""

from __future__ import annotations

from warpsim.analysis.flow import Graph, blocks_of
from warpsim.analysis.loops import added_to
from warpsim.errors import Span
from warpsim.isa.traits import Access
from warpsim.program.program import Function, Instruction


def guesses(function: Function) -> set[Span]:
    """Places of loads whose result becomes, through `mov` at most, the comparand of an `atom.cas` of the function."""
    copies: dict[int, set[int]] = {}
    compared: set[int] = set()
    for instruction in function.code:
        if instruction.traits.copies:
            reads, writes = instruction.reads, instruction.writes
            for r in writes:
                copies.setdefault(r, set()).update(reads)
        elif instruction.traits.access is Access.ATOMIC and "cas" in instruction.op.modifiers:
            compared.update(instruction.operands[-2].registers)
    waiting = list(compared)
    while waiting:
        for r in copies.get(waiting.pop(), set()) - compared:
            compared.add(r)
            waiting.append(r)
    return {i.span for i in function.code if i.traits.access is Access.LOAD and compared & set(i.writes)}


def tests(function: Function) -> set[Span]:
    """Places of loads whose result only decides whether to execute an atomic on the same place, which returns the
    current value itself.

    A load in a loop without the atomic polls, and does not count.
    """
    blocks, _ = blocks_of(function)
    graph = Graph(blocks)
    block_of = {at: block.index for block in blocks for at in range(block.first, block.last)}
    places = _Places(function)
    uses = _uses(function)
    atomics = [
        (at, place)
        for at, i in enumerate(function.code)
        if i.traits.access is Access.ATOMIC
        and (place := places.of(i)) is not None
        and any(uses.get(r) for r in i.writes)
    ]
    found = set()
    for at, instruction in enumerate(function.code):
        if not atomics or instruction.traits.access is not Access.LOAD or not _only_decides(instruction, uses):
            continue
        place, block = places.of(instruction), block_of[at]
        for other, its_place in atomics:
            there = block_of[other]
            if place == its_place and graph.reachable(block) >> there & 1 and there != block:
                around = [s for s in blocks[block].successors if s != there]
                if not any(graph.within(s, there) >> block & 1 for s in around):
                    found.add(instruction.span)
    return found


def _only_decides(load: Instruction, uses: dict[int, list[Instruction]]) -> bool:
    """Whether a load's result is only compared, and the comparison only guards branches."""
    results = load.writes
    compared = [use for r in results for use in uses.get(r, ())]
    if not compared or any(use.traits.uniform or use.form.ports or use.traits.ending for use in compared):
        return False
    flags = [r for use in compared for r in use.writes]
    decided = [(r, use) for r in flags for use in uses.get(r, ())]
    return bool(decided) and all(
        use.traits.ending is not None and use.guard is not None and use.guard[0].index == r for r, use in decided
    )


def _uses(function: Function) -> dict[int, list[Instruction]]:
    found: dict[int, list[Instruction]] = {}
    for instruction in function.code:
        for r in instruction.reads:
            found.setdefault(r, []).append(instruction)
    return found


class _Places:
    """Addresses as (base, offset), looking through registers with a single writer."""

    def __init__(self, function: Function) -> None:
        made: dict[int, list[Instruction]] = {}
        for instruction in function.code:
            for r in instruction.writes:
                made.setdefault(r, []).append(instruction)
        self._made = {r: made_by[0] for r, made_by in made.items() if len(made_by) == 1 and made_by[0].guard is None}

    def of(self, instruction: Instruction) -> tuple[object, int] | None:
        """The place that an instruction accesses."""
        address = instruction.address
        if address is None or address.base is None or address.coordinates:
            return None
        if address.base.register is None:
            return address.base.variable or address.base.parameter, address.offset
        register, offset = address.base.register.index, address.offset
        for _ in range(len(self._made)):
            step = self._step(register)
            if step is None:
                break
            register, offset = step[0], offset + step[1]
        return register, offset

    def _step(self, register: int) -> tuple[int, int] | None:
        """The register and the constant whose sum this register is."""
        made = self._made.get(register)
        if made is None:
            return None
        sources = made.inputs
        if (made.traits.copies or made.traits.generic_address) and len(sources) == 1 and sources[0].register:
            return sources[0].register.index, 0
        added = added_to(made)
        return None if added is None or added[0].register is None else (added[0].register.index, added[1])
