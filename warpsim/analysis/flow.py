"""Basic blocks of a function: order, liveness, and where a loop may wait for others.

Blocks are numbered so that every loop is contiguous and comes before what follows it: a scheduler that always runs
the threads with the lowest block lets the others wait where control flow joins again.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from warpsim.isa.traits import Ending, Family, Stage
from warpsim.program.program import (
    Addr,
    Arguments,
    Function,
    FunctionRef,
    Instruction,
    LabelRef,
    Operand,
    Program,
    Reg,
    Targets,
    Vec,
)

KEEP = "keep_registers"
"""A directive of our own: every register is read after the function's end (snippets)."""


@attrs.define
class Block:
    """Instructions ``[first, last)`` of the function; ``successors`` and ``index`` are places in the block order."""

    first: int
    last: int
    index: int = 0
    successors: tuple[int, ...] = ()
    live_in: frozenset[int] = frozenset()
    waits: bool = False


def blocks_of(function: Function) -> tuple[list[Block], dict[int, int]]:
    """The blocks in scheduling order, and the block index for each instruction index that starts one."""
    code = function.code
    leaders = {0, *(i for i in function.labels.values() if i < len(code))}
    for i, instruction in enumerate(code):
        if instruction.traits.ending is not None:
            leaders.add(i + 1)
    starts = sorted(i for i in leaders if i < len(code))
    blocks = [Block(a, b) for a, b in zip(starts, [*starts[1:], len(code)], strict=True)]
    number = {block.first: i for i, block in enumerate(blocks)}
    edges = [_successors(function, block, number) for block in blocks]
    order = loop_order(edges)
    place = {old: new for new, old in enumerate(order)}
    for old, block in enumerate(blocks):
        block.index = place[old]
        block.successors = tuple(place[s] for s in edges[old])
    ordered = [blocks[old] for old in order]
    _liveness(function, ordered)
    return ordered, {block.first: block.index for block in ordered}


def _successors(function: Function, block: Block, number: dict[int, int]) -> list[int]:
    last = function.code[block.last - 1]
    following = [number[block.last]] if block.last in number else []
    if last.traits.ending in (Ending.BRANCH, Ending.INDEXED_BRANCH):
        targets = [number[t.target] for t in labels_of(last) if t.target in number]
        return targets + (following if last.guard else [])
    if last.traits.leaves and last.guard is None:
        return []
    return following


def labels_of(instruction: Instruction) -> list[LabelRef]:
    """Every label that a branch may go to."""
    found: list[LabelRef] = []
    for operand in instruction.operands:
        if isinstance(operand, LabelRef):
            found.append(operand)
        elif isinstance(operand, Targets):
            found.extend(operand.labels)
    return found


def loop_order(edges: list[list[int]]) -> list[int]:
    """A topological order of the graph in which strongly connected parts stay together, ordered within likewise."""
    order: list[int] = []
    sources: list[list[int]] = [[] for _ in edges]
    for node, targets in enumerate(edges):
        for target in targets:
            sources[target].append(node)

    def place(nodes: list[int], removed: frozenset[int]) -> None:
        for component in _components(nodes, edges, removed):
            if len(component) == 1:
                order.append(component[0])
                continue
            inside = set(component)
            entered = [n for n in component if any(m not in inside for m in sources[n])]
            header = min(entered or component)
            rest = [n for n in sorted(component) if n != header]
            order.append(header)
            place(rest, removed | {header})

    place(list(range(len(edges))), frozenset())
    return order


def _components(nodes: list[int], edges: list[list[int]], removed: frozenset[int]) -> list[list[int]]:
    """Tarjan's strongly connected components of the subgraph, in topological order; ties as in the text."""
    allowed = set(nodes) - removed
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in sorted(allowed, reverse=True):
        if root in index:
            continue
        work: list[tuple[int, list[int]]] = [(root, sorted((e for e in edges[root] if e in allowed), reverse=False))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, pending = work[-1]
            if pending:
                following = pending.pop()
                if following not in index:
                    index[following] = low[following] = len(index)
                    stack.append(following)
                    on_stack.add(following)
                    work.append((following, sorted(e for e in edges[following] if e in allowed)))
                elif following in on_stack:
                    low[node] = min(low[node], index[following])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == node:
                        break
                found.append(component)
    found.reverse()
    return found


def registers_of(operand: Operand) -> list[int]:
    """Indices of the registers in an operand."""
    if isinstance(operand, Reg):
        return [operand.register.index]
    if isinstance(operand, (Vec, Arguments)):
        return [r for element in operand.elements for r in registers_of(element)]
    if isinstance(operand, Addr):
        base = [operand.base.register.index] if isinstance(operand.base, Reg) else []
        return base + [r for element in operand.coordinates for r in registers_of(element)]
    return []


def reads_and_writes(instruction: Instruction) -> tuple[list[int], list[int]]:
    """Indices of the registers that an instruction reads and writes."""
    n_dest = instruction.form.n_dest
    writes = [r for operand in instruction.operands[:n_dest] for r in registers_of(operand)]
    reads = [r for operand in instruction.operands[n_dest:] for r in registers_of(operand)]
    if "accumulator" in instruction.form.ports:
        reads += writes
    for operand in instruction.operands[:n_dest]:
        if isinstance(operand, Addr):
            reads += registers_of(operand)
    if instruction.guard is not None:
        reads = [*reads, instruction.guard[0].index, *writes]
    return reads, writes


def _liveness(function: Function, blocks: list[Block]) -> None:
    uses, kills = [], []
    in_flight = _read_in_flight(function)
    for block in blocks:
        used = killed = 0
        for instruction in function.code[block.first : block.last]:
            reads, writes = reads_and_writes(instruction)
            if in_flight and instruction.traits.is_async(Family.WGMMA, Stage.WAIT):
                reads += in_flight
            for r in reads:
                if not killed >> r & 1:
                    used |= 1 << r
            if instruction.guard is None:
                for r in writes:
                    killed |= 1 << r
        uses.append(used)
        kills.append(killed)
    live = list(uses)
    kept = (1 << len(function.registers)) - 1 if KEEP in function.directives else 0
    returned = sum(1 << r for r in returned_by(function))
    changed = True
    while changed:
        changed = False
        for i in range(len(blocks) - 1, -1, -1):
            out = returned if blocks[i].successors else kept | returned
            for s in blocks[i].successors:
                out |= live[s]
            new = uses[i] | (out & ~kills[i])
            if new != live[i]:
                live[i] = new
                changed = True
    for block, bits in zip(blocks, live, strict=True):
        block.live_in = frozenset(_members(bits))


def returned_by(function: Function) -> list[int]:
    """Registers that a function's ``.reg`` results consist of: its caller reads them."""
    return [register.index for param in function.returns for register in param.registers]


def _read_in_flight(function: Function) -> list[int]:
    """Registers of A of any wgmma: with late effects they are read when their group is waited for."""
    found: dict[int, None] = {}
    for instruction in function.code:
        if (
            instruction.traits.is_async(Family.WGMMA)
            and len(instruction.operands) > 1
            and isinstance(instruction.operands[1], Vec)
        ):
            found.update(dict.fromkeys(registers_of(instruction.operands[1])))
    return list(found)


def _members(bits: int) -> list[int]:
    text = bin(bits)[:1:-1]
    return [i for i, digit in enumerate(text) if digit == "1"]


def polling_functions(program: Program) -> frozenset[str]:
    """Functions that poll, themselves or in what they call; one that calls through a register may."""
    calls = {name: [i for i in f.code if i.traits.ending is Ending.CALL] for name, f in program.functions.items()}
    found = {name for name, f in program.functions.items() if any(i.traits.polls for i in f.code)}
    grown = True
    while grown:
        more = {name for name, made in calls.items() if any(calls_into(i, found, program) for i in made)}
        grown = not more <= found
        found |= more
    return frozenset(found)


def calls_into(call: Instruction, functions: Collection[str], program: Program) -> bool:
    """Whether a call may enter one of these functions."""
    named = [o.name for o in call.operands if isinstance(o, FunctionRef)]
    return not named or program.aliases.get(named[0], named[0]) in functions
