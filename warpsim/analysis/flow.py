"""Basic blocks of a function: order, liveness, and loops that may wait for others.

Blocks are numbered so that every loop is contiguous and precedes what follows it. A scheduler that always runs the
threads in the lowest block then makes the others wait at the reconvergence point.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs
import numpy as np

from warpsim.analysis.block_order import loop_order
from warpsim.isa.traits import Ending, Family, Stage
from warpsim.program.program import Function, Instruction, Program, Register

KEEP = "keep_registers"
"""A directive of our own: every register is live at the function's end (for snippets)."""
FEW = 20
"""So many bits are found one by one."""


@attrs.define
class Block:
    """Instructions ``[first, last)`` of the function. ``successors`` and ``index`` are positions in the block order."""

    first: int
    last: int
    index: int = 0
    successors: tuple[int, ...] = ()
    live_in: frozenset[int] = frozenset()
    waits: bool = False


@attrs.frozen
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


def rewritten(function: Function, code: Sequence[Instruction], registers: Sequence[Register] = ()) -> Function:
    """The function with other instructions where it has some, and with further ``registers`` behind its own. Its branches are the same."""
    changed = [(old, new) for old, new in zip(function.code, code, strict=True) if old is not new]
    if not changed:
        return function
    made = attrs.evolve(function, code=tuple(code), registers=(*function.registers, *registers))
    flow: _Flow | None = function.flow
    if flow is not None:
        alive = flow.alive and all(_lives(old) == _lives(new) for old, new in changed)
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
    count.
    """
    if KEEP in function.directives:
        return frozenset(range(len(function.registers)))
    found = set(returned_by(function))
    for instruction in function.code:
        reads, writes = instruction.reads, instruction.writes
        found.update(reads if instruction.guard is None else reads[: len(reads) - len(writes)])
    return frozenset(found)


def written_often(function: Function) -> set[int]:
    """Registers with several writers, or with one whose guard may preserve their old value."""
    written: set[int] = set()
    often: set[int] = set()
    for instruction in function.code:
        often.update(instruction.writes if instruction.guard is not None else written.intersection(instruction.writes))
        written.update(instruction.writes)
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
    return callers(program, {name for name, f in program.functions.items() if any(i.traits.polls for i in f.code)})


def callers(program: Program, found: set[str]) -> frozenset[str]:
    """Some functions, and those that may call one of them, directly or not. An indirect call may enter any."""
    calls = {name: [i for i in f.code if i.traits.ending is Ending.CALL] for name, f in program.functions.items()}
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
