"""Loads whose value a compare-and-swap or another atomic verifies: reading a stale value does no harm."""

from __future__ import annotations

from collections.abc import Iterator

from warpsim.analysis.flow import Graph, blocks_of
from warpsim.analysis.loops import added_to
from warpsim.errors import Span
from warpsim.graph.nodes import Untraceable
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Access
from warpsim.program.program import Function, Instruction, Operand


def guesses(function: Function) -> set[Span]:
    """Places of loads whose result becomes, through `mov` at most, the comparand of an `atom.cas` of the function."""
    compared = _copied_into(function, {r for i in function.code if _is_swap(i) for r in i.operands[-2].registers})
    return {i.span for i in function.code if i.traits.access is Access.LOAD and compared & set(i.writes)}


def kept_bits(function: Function) -> Iterator[tuple[Span, Operand]]:
    """The mask of what an `atom.cas` that stores ``(comparand & mask) | new`` may keep, by its place and those of the loads that guess
    the comparand: so libcu++ makes atomics of 8 and 16 bits. Loads that precede the mask keep everything, for it is up to the swap, unless an access uses what
    they bring otherwise."""
    swaps = [i for i in function.code if _is_swap(i)]
    makers = _makers(function) if swaps else {}
    for swap in swaps:
        comparand, new = swap.operands[-2:]
        for part in _sources(makers, new, "bitwise_or"):
            masks = [m for m in _sources(makers, part, "bitwise_and") if m.register != comparand.register]
            if comparand.register is None or len(masks) != 1:
                continue
            (mask,) = masks
            yield swap.span, mask
            guessed, unknown = _copied_into(function, set(comparand.registers)), set(mask.registers)
            for instruction in function.code:
                unknown.difference_update(instruction.writes)
                if (
                    instruction.traits.access is Access.LOAD and guessed.issuperset(instruction.writes)
                    and sum([p.type.bytes for o in instruction.outputs for p in o.parts]) == mask.type.bytes
                ):  # fmt: skip
                    if not unknown:
                        yield instruction.span, mask
                    elif not _accesses_use(function, set(instruction.writes)):
                        yield instruction.span, Operand.number(mask.type, -1)


def _accesses_use(function: Function, values: set[int]) -> bool:
    """Whether an access takes these registers or copies of them: other than a swap its comparand."""
    for instruction in function.code:  # in the order of the text, as compilers write copies
        if instruction.traits.copies and values.intersection(instruction.reads):
            values.update(instruction.writes)
    return any(
        values.intersection(i.reads) and not (_is_swap(i) and values.issuperset(i.operands[-2].registers))
        for i in function.code
        if i.traits.access is not None
    )


def _sources(makers: dict[int, Instruction], operand: Operand, op: str) -> tuple[Operand, ...]:
    """The sources of the operation that makes an operand; none if that is another one."""
    made = None if operand.register is None else makers.get(operand.register.index)
    if made is None or made.form.ports or made.form.scope is not Scope.THREAD:
        return ()
    try:
        node = made.graph.outputs[0][0]
    except Untraceable:
        return ()
    return made.inputs if node.op == op and all(a.op == "input" for a in node.args) else ()


def _makers(function: Function) -> dict[int, Instruction]:
    """What writes a register, by its index, where only that does and always."""
    writers: dict[int, list[Instruction]] = {}
    for instruction in function.code:
        for r in instruction.writes:
            writers.setdefault(r, []).append(instruction)
    return {r: by[0] for r, by in writers.items() if len(by) == 1 and by[0].guard is None}


def _is_swap(instruction: Instruction) -> bool:
    return instruction.traits.access is Access.ATOMIC and "cas" in instruction.op.modifiers


def _copied_into(function: Function, registers: set[int]) -> set[int]:
    """These registers, and those from which `mov` copies into them."""
    copies: dict[int, set[int]] = {}
    for instruction in function.code:
        if instruction.traits.copies:
            for r in instruction.writes:
                copies.setdefault(r, set()).update(instruction.reads)
    found, waiting = set(registers), list(registers)
    while waiting:
        for r in copies.get(waiting.pop(), set()) - found:
            found.add(r)
            waiting.append(r)
    return found


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
        self._made = _makers(function)

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
