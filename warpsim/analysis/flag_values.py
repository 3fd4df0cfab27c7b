"""Which values go into flags, and which flags decide where a function goes on.

Values are followed through registers, collectives and shared memory, which counts as one place, but not through other
memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpsim.analysis.flow import Graph, blocks_of
from warpsim.errors import Span
from warpsim.isa.traits import Access
from warpsim.program.program import Function, Instruction

STORES = Access.STORE, Access.ATOMIC


def published(function: Function) -> set[Span]:
    """Places of weak loads whose value becomes part of what a strong store or atomic stores."""
    stored = {r for i in function.code if i.traits.order.strong for r in _stored(i)}
    return _loads(function, stored, strong=False)


def publishing(function: Function, load: Span) -> set[Span]:
    """Places of strong stores and atomics of values in which what a load finds has a part."""
    code = function.code
    made = {r for i in code if i.span == load for r in i.writes}
    shared, before = False, (-1, False)
    while before != (len(made), shared):
        before = len(made), shared
        for i in code:
            in_shared = "shared" in i.traits.spaces
            shared |= in_shared and not made.isdisjoint(_stored(i))
            if (in_shared and shared) or (i.traits.access is None and not made.isdisjoint(i.reads)):
                made.update(i.writes)
    return {i.span for i in code if i.traits.order.strong and not made.isdisjoint(_stored(i))}


def deciding(function: Function) -> set[Span]:
    """Places of strong loads and atomics whose value decides a branch."""
    return _loads(
        function, {i.guard[0].index for i in function.code if i.guard and i.traits.ending is not None}, strong=True
    )


def awaited(function: Function, store: Span) -> set[Span]:
    """Places of strong loads and atomics whose value decides branches that lie on every path from there to a store, and of which one way
    never comes to it, or only through the branch again."""
    blocks, _ = blocks_of(function)
    code, graph = function.code, Graph(blocks)
    block_of = {at: block.index for block in blocks for at in range(block.first, block.last)}
    there = next((block for at, block in block_of.items() if code[at].span == store), None)
    if there is None:
        return set()
    branches = {}
    for block in blocks:
        last = code[block.last - 1]
        if last.guard is None or last.traits.ending is None or block.index == there:
            continue
        if last.traits.leaves or not all(graph.within(s, block.index) >> there & 1 for s in block.successors):
            branches[block.index] = last.guard[0].index
    loads = _loads(function, set(branches.values()), strong=True)
    return {
        code[at].span
        for at, block in block_of.items()
        if code[at].span in loads
        and graph.reachable(block) >> there & 1
        and not all(graph.within(block, branch) >> there & 1 for branch in branches)
    }


def _stored(instruction: Instruction) -> Iterable[int]:
    if instruction.traits.access not in STORES:
        return ()
    address = instruction.address
    base = None if address is None or address.base is None else address.base.register
    return set(instruction.reads) - set(() if base is None else (base.index,))


def _loads(function: Function, wanted: set[int], *, strong: bool) -> set[Span]:
    shared, before = False, (-1, False)
    while wanted and before != (len(wanted), shared):
        before = len(wanted), shared
        for instruction in reversed(function.code):
            in_shared = "shared" in instruction.traits.spaces
            if shared and in_shared:
                wanted.update(_stored(instruction))
            if wanted.isdisjoint(instruction.writes):
                continue
            if instruction.traits.access is None:
                wanted.update(instruction.reads)
            shared |= in_shared
    return {
        i.span
        for i in function.code
        if i.traits.access in (Access.LOAD, Access.ATOMIC)
        and i.traits.order.strong is strong
        and not wanted.isdisjoint(i.writes)
    }
