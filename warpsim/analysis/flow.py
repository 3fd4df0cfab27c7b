"""The control flow of a function: basic blocks, their order and liveness, reachability, post-dominance, control dependence.

Blocks are numbered so that every loop is contiguous and precedes what follows it. A scheduler that always runs the
threads in the lowest block then makes the others wait at the reconvergence point.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs
import numpy as np

from warpsim.isa.traits import Ending, Family, Stage
from warpsim.program.program import Function, Instruction, Program, Register
from warpsim.records import define, frozen

KEEP = "keep_registers"
"""A directive of our own: every register is live at the function's end (for snippets)."""
FEW = 20
"""So many bits are found one by one."""


@define
class Block:
    """Instructions ``[first, last)`` of the function. ``successors`` and ``index`` are positions in the block order."""

    first: int
    last: int
    index: int = 0
    successors: tuple[int, ...] = ()
    live_in: frozenset[int] = frozenset()
    waits: bool = False


@frozen
class _Flow:
    """The blocks of a function, which nobody changes; ``alive``: with their liveness."""

    blocks: tuple[Block, ...]
    place: dict[int, int]
    alive: bool


def blocks_of(function: Function, *, entered: bool = False) -> tuple[list[Block], dict[int, int]]:
    """The blocks in scheduling order, and the block of each instruction that starts one.

    With ``entered``, liveness is needed only for blocks that others enter: a function without such blocks has none."""
    found: _Flow | None = function.flow
    if found is None:
        found = _Flow(*_ordered(function), alive=False)
    if not found.alive and not (entered and not any(b.successors for b in found.blocks)):
        found = _Flow(tuple(_copies(found.blocks)), found.place, alive=True)
        _liveness(function, found.blocks)
    object.__setattr__(function, "flow", found)
    return _copies(found.blocks), dict(found.place)


def give_blocks(function: Function, blocks: Sequence[tuple[int, int, tuple[int, ...], frozenset[int]]]) -> None:
    """Say what the blocks of a function are, each with its first and last instruction, successors and ``live_in``."""
    made = [Block(first, last, at, after, live) for at, (first, last, after, live) in enumerate(blocks)]
    flow = _Flow(tuple(made), {block.first: block.index for block in made}, alive=True)
    object.__setattr__(function, "flow", flow)


def rewritten(
    function: Function, code: Sequence[Instruction], registers: Sequence[Register] = (), *, lives: bool = False
) -> Function:
    """The function with other instructions where it has some, and with further ``registers`` behind its own. Its branches are the
    same; ``lives``: so are the registers that are live before each block.
    """
    changed = [(old, new) for old, new in zip(function.code, code, strict=True) if old is not new]
    if not changed:
        return function
    made = function.with_code(code, registers)
    flow: _Flow | None = function.flow
    if flow is not None:
        alive = flow.alive and (lives or all(_lives(old) == _lives(new) for old, new in changed))
        object.__setattr__(made, "flow", attrs.evolve(flow, alive=alive))
    return made


def _copies(blocks: Iterable[Block]) -> list[Block]:
    return [Block(b.first, b.last, b.index, b.successors, b.live_in) for b in blocks]


def _lives(instruction: Instruction) -> tuple[set[int], set[int], bool]:
    """What liveness depends on."""
    return set(instruction.reads), set(instruction.writes), instruction.guard is None


def _ordered(function: Function) -> tuple[tuple[Block, ...], dict[int, int]]:
    """The blocks without their liveness."""
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
    ordered = tuple([blocks[old] for old in order])
    return ordered, {block.first: block.index for block in ordered}


def _successors(function: Function, block: Block, number: dict[int, int]) -> list[int]:
    last = function.code[block.last - 1]
    following = [number[block.last]] if block.last in number else []
    if last.traits.ending in (Ending.BRANCH, Ending.INDEXED_BRANCH):
        targets = [number[t] for t in last.targets if t in number]
        return targets + (following if last.guard else [])
    if last.traits.leaves and last.guard is None:
        return []
    return following


def used_registers(function: Function) -> frozenset[int]:
    """Registers that some instruction, or a caller, reads. Registers that guarded instructions merely preserve do not
    count."""
    if KEEP in function.directives:
        return frozenset(range(len(function.registers)))
    found = set(returned_by(function))
    for instruction in function.code:
        reads, writes = instruction.reads, instruction.writes
        found.update(reads if instruction.guard is None else reads[: len(reads) - len(writes)])
    return frozenset(found)


def unread(function: Function, blocks: Sequence[Block]) -> frozenset[int]:
    """Instructions, by index, whose results are never read."""
    used, returned, found = used_registers(function), set(returned_by(function)), set()
    for block in blocks:
        live = set(returned)
        if not block.successors and KEEP in function.directives:
            live.update(range(len(function.registers)))
        live.update(*[blocks[successor].live_in for successor in block.successors])
        for at in range(block.last - 1, block.first - 1, -1):
            instruction = function.code[at]
            reads, writes = instruction.reads, instruction.writes
            if instruction.form.n_dest and (live.isdisjoint(writes) or used.isdisjoint(writes)):
                found.add(at)
            if instruction.guard is None:
                live.difference_update(writes)
            live.update(reads)
    return frozenset(found)


def written_often(function: Function) -> set[int]:
    """Registers with several writers, or with one whose guard may preserve their old value."""
    written: dict[int, None] = {}
    often: set[int] = set()
    for instruction in function.code:  # every one of a kernel comes here: no calls
        for register in instruction.writes:
            if register in written or instruction.guard is not None:
                often.add(register)
            written[register] = None
    return often


def _liveness(function: Function, blocks: Sequence[Block]) -> None:
    uses: list[set[int]] = []
    kills: list[set[int]] = []
    in_flight = _read_in_flight(function)
    for block in blocks:
        used: set[int] = set()
        killed: set[int] = set()
        for instruction in reversed(function.code[block.first : block.last]):
            if instruction.guard is None:
                used.difference_update(instruction.writes)
                killed.update(instruction.writes)
            used.update(instruction.reads)
            if in_flight and instruction.traits.is_async(Family.WGMMA, Stage.WAIT):
                used.update(in_flight)
        uses.append(used)
        kills.append(killed)
    # Most registers are local to one block, so the sets have bits only for those that some block reads before writing them.
    kept = set(range(len(function.registers))) if KEEP in function.directives else set()
    crossing = sorted(set(returned_by(function)).union(kept, *uses))
    place = {register: at for at, register in enumerate(crossing)}
    returned = _bits(returned_by(function), place)
    ending = _bits(kept, place) | returned
    reading = [_bits(used, place) for used in uses]
    passing = [~_bits(killed, place) for killed in kills]
    live = list(reading)
    changed = True
    while changed:
        changed = False
        for i in range(len(blocks) - 1, -1, -1):
            out = returned if blocks[i].successors else ending
            for s in blocks[i].successors:
                out |= live[s]
            new = reading[i] | (out & passing[i])
            if new != live[i]:
                live[i] = new
                changed = True
    for block, bits in zip(blocks, live, strict=True):
        block.live_in = frozenset([crossing[at] for at in members(bits)])


def _bits(registers: Iterable[int], place: Mapping[int, int]) -> int:
    """The set of those registers that have a place, one bit each."""
    found = bytearray(len(place) // 8 + 1)
    for register in registers:
        at = place.get(register)
        if at is not None:
            found[at >> 3] |= 1 << (at & 7)
    return int.from_bytes(found, "little")


def returned_by(function: Function) -> list[int]:
    """The registers of a function's ``.reg`` results, which its caller reads."""
    return [register.index for param in function.returns for register in param.registers]


def _read_in_flight(function: Function) -> list[int]:
    """A's registers in every wgmma: with late effects, they are read when their group is waited for."""
    found: dict[int, None] = {}
    for instruction in function.code:
        if (
            instruction.traits.asynchronous is not None
            and instruction.traits.is_async(Family.WGMMA)
            and len(instruction.operands) > 1
            and instruction.operands[1].elements is not None
        ):
            found.update(dict.fromkeys(instruction.operands[1].registers))
    return list(found)


def members(bits: int) -> list[int]:
    """The indices of the set bits."""
    found: list[int] = []
    if bits.bit_count() < FEW:
        while bits:
            last = bits & -bits
            found.append(last.bit_length() - 1)
            bits ^= last
        return found
    data = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), np.uint8)
    return list(np.flatnonzero(np.unpackbits(data, bitorder="little")).tolist())


def polling_functions(program: Program) -> frozenset[str]:
    """Functions that poll, directly or through calls."""
    return callers(program, {name for name, f in program.functions.items() if any(i.traits.polls for i in f.kinds)})


def callers(program: Program, found: set[str]) -> frozenset[str]:
    """Some functions, and those that may call one of them, directly or not. An indirect call may enter any."""
    calls = {name: [i for i in f.kinds if i.traits.ending is Ending.CALL] for name, f in program.functions.items()}
    grown = True
    while grown:
        more = {name for name, made in calls.items() if any(calls_into(i, found, program) for i in made)}
        grown = not more <= found
        found |= more
    return frozenset(found)


def calls_into(call: Instruction, functions: Collection[str], program: Program) -> bool:
    """Whether a call may enter one of these functions."""
    name = call.callee
    return not name or program.aliases.get(name, name) in functions


Edges = list[list[int]]
MOST_NESTED = 32
"""Components in components that are taken apart: each takes a search of its own."""


def loop_order(edges: Edges) -> list[int]:
    """A topological order of the graph that keeps strongly connected components together, each ordered in the same way."""
    order: list[int] = []
    sources: Edges = [[] for _ in edges]
    for node, targets in enumerate(edges):
        for target in targets:
            sources[target].append(node)
    work: list[tuple[int | list[int], int]] = [(list(range(len(edges))), 0)]
    while work:
        item, depth = work.pop()
        if isinstance(item, int):
            order.append(item)
            continue
        if depth > MOST_NESTED:
            order += item
            continue
        parts: list[int | list[int]] = []
        for component in _components(item, edges):
            if len(component) == 1:
                parts.append(component[0])
                continue
            inside = set(component)
            entered = [n for n in component if any(m not in inside for m in sources[n])]
            header = min(entered or component)
            parts += [header, [n for n in sorted(component) if n != header]]
        work += [(part, depth + 1) for part in reversed(parts)]
    return order


def _components(nodes: list[int], edges: Edges) -> list[list[int]]:
    """Strongly connected components of a subgraph, in topological order; ties as in the code (Tarjan, 1972)."""
    inside, index, low = set(nodes), dict[int, int](), dict[int, int]()
    stack, work, found = list[int](), list[tuple[int, list[int]]](), list[list[int]]()

    def enter(node: int) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        work.append((node, sorted(e for e in edges[node] if e in inside)))

    for root in sorted(inside, reverse=True):
        if root not in index:
            enter(root)
        while work:
            node, pending = work[-1]
            if pending:
                following = pending.pop()
                if following not in index:
                    enter(following)
                low[node] = min(low[node], index[following])
                continue
            work.pop()
            if work:
                above = work[-1][0]
                low[above] = min(low[above], low[node])
            if low[node] == index[node]:
                component = [stack.pop()]
                while component[-1] != node:
                    component.append(stack.pop())
                index.update(dict.fromkeys(component, len(edges)))  # no way leads back into it
                found.append(component)
    return found[::-1]


class Graph:
    """The flow graph. Sets of blocks are integers with one bit per block; the bit above the last block is the exit."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.exit = len(blocks)
        self.predecessors: list[list[int]] = [[] for _ in blocks]
        for block in blocks:
            for successor in block.successors:
                self.predecessors[successor].append(block.index)
        self.post_dominators = self._post_dominators()

    def _post_dominators(self) -> list[int]:
        """The immediate post-dominator of each block: the first block where all paths from it join, or the exit."""
        backward = [*self.predecessors, [b.index for b in self.blocks if not b.successors]]
        forward = [[*b.successors] or [self.exit] for b in self.blocks] + [[]]
        return [self.exit if m < 0 else m for m in immediate_dominators(backward, forward, self.exit)[: self.exit]]

    @functools.cache  # noqa: B019 - lives as long as the function is analysed
    def within(self, start: int, end: int) -> int:
        """The blocks on paths from ``start`` that do not pass ``end``."""
        found = 0
        work = [start] if start != end else []
        while work:
            at = work.pop()
            if found >> at & 1:
                continue
            found |= 1 << at
            work += [s for s in self.blocks[at].successors if s != end and not found >> s & 1]
        return found

    @functools.cache  # noqa: B019 - likewise
    def region(self, branch: int) -> int:
        """The blocks whose execution a branch may decide: those between it and the point where its paths join."""
        return functools.reduce(
            int.__or__, (self.within(s, self.post_dominators[branch]) for s in self.blocks[branch].successors), 0
        )

    @functools.cache  # noqa: B019 - likewise
    def shared(self, branch: int) -> int:
        """The blocks of its region that are reached on more than one side of a branch."""
        once = twice = 0
        for successor in dict.fromkeys(self.blocks[branch].successors):
            way = self.within(successor, self.post_dominators[branch])
            once, twice = once | way, twice | (once & way)
        return twice

    def reachable(self, start: int) -> int:
        """The blocks reachable from ``start``, including itself."""
        return self.within(start, self.exit)


def immediate_dominators(successors: list[list[int]], predecessors: list[list[int]], root: int) -> list[int]:
    """The immediate dominator of each node reachable from ``root``, else -1 (Lengauer and Tarjan, 1979)."""
    order, number, parent = _depth_first(successors, root)
    forest = _Forest(list(number))
    semi = forest.semi
    waiting: list[list[int]] = [[] for _ in successors]
    found = [-1] * len(successors)
    for node in reversed(order[1:]):
        reached = [semi[forest.least(source)] for source in predecessors[node] if number[source] >= 0]
        semi[node] = min([semi[node], *reached])
        waiting[order[semi[node]]].append(node)
        above = parent[node]
        forest.ancestor[node] = above
        for other in waiting[above]:
            lowest = forest.least(other)
            found[other] = lowest if semi[lowest] < semi[other] else above
        waiting[above].clear()
    for node in order[1:]:
        if found[node] != order[semi[node]]:
            found[node] = found[found[node]]
    return found


def _depth_first(successors: list[list[int]], root: int) -> tuple[list[int], list[int], list[int]]:
    """The nodes reachable from ``root`` in the order of a depth-first search; the place of each there (else -1); and
    its parent in the tree."""
    number, parent = [-1] * len(successors), [-1] * len(successors)
    order: list[int] = []
    work = [(root, -1)]
    while work:
        node, above = work.pop()
        if number[node] < 0:
            number[node], parent[node] = len(order), above
            order.append(node)
            work += [(target, node) for target in reversed(successors[node]) if number[target] < 0]
    return order, number, parent


class _Forest:
    """The nodes handled so far, each below its ``ancestor``; ``semi`` are the places of their semidominators."""

    def __init__(self, semi: list[int]) -> None:
        self.semi = semi
        self.ancestor = [-1] * len(semi)
        self._label = list(range(len(semi)))

    def least(self, node: int) -> int:
        """The node with the least semidominator on the path to the root of the forest; compresses the path."""
        ancestor, label, semi = self.ancestor, self._label, self.semi
        way = []
        while ancestor[node] >= 0 and ancestor[ancestor[node]] >= 0:
            way.append(node)
            node = ancestor[node]
        for below in reversed(way):
            above = ancestor[below]
            if semi[label[above]] < semi[label[below]]:
                label[below] = label[above]
            ancestor[below] = ancestor[above]
            node = below
        return label[node]
