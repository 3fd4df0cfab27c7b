"""What determines how often a loop runs: registers, memory, other threads, the clock.

A loop that returns to its head with the same memory and the same values of its decisive registers will repeat forever;
whatever else changes only counts. The exception is a loop that reads a clock.

Where a counter alone ends a loop: a register to which each lap adds the same stride takes, modulo ``2**n``, the values that
equal it modulo the greatest power of two in the stride, and no others. If the comparison that ends the loop is false for all
of them, nothing ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from warpsim.analysis.dataflow import needed
from warpsim.analysis.flow import Block, callers, calls_into
from warpsim.graph.nodes import Untraceable
from warpsim.isa.spec import Form, Scope
from warpsim.isa.traits import Access, Ending
from warpsim.numerics.arrays import Array
from warpsim.program.program import Function, Instruction, Operand, Program, Register
from warpsim.program.stored import derived
from warpsim.records import frozen

CLOCKS = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"})
LEAVES = (Ending.RETURN, Ending.EXIT, Ending.CALL)
HARMLESS = frozenset({"accumulator", "active", "cluster", "device", "lane", "report"})
"""Ports of instructions whose only effect is their result."""


@frozen(eq=False)
class Counter:
    """A loop of one block that is left where ``comparison`` of ``register`` and ``bound`` gives ``leaves``."""

    register: int
    name: str
    stride: int
    comparison: Instruction
    bound: Operand
    first: bool
    """The register is the comparison's first source."""
    leaves: bool

    def stays(self, now: Array, bound: Array) -> Array:
        """Where the loop is never left, whatever comes: by the values of register and bound at its head."""
        type = self.comparison.op.type
        word = np.dtype(f"u{type.bits // 8}")
        start, limit = np.broadcast_arrays(now.view(word), bound.view(word))
        bits, top = type.bits, word.type(1 << type.bits - 1)
        step = self.stride & -self.stride & (1 << bits) - 1
        rest = word.type((step or 1 << bits) - 1)  # bits that no lap changes
        low = start & rest
        high = low | ~rest
        values = [low, high, low ^ (top & ~rest), high ^ (top & ~rest), limit & ~rest | low]
        left = np.zeros(start.shape, bool)
        for value in values:
            sides = (value, limit) if self.first else (limit, value)
            given = [np.ascontiguousarray(side).view(type.dtype) for side in sides]
            left |= np.asarray(self.comparison.form.function(self.comparison.op, *given)) == self.leaves
        return ~left


@frozen(eq=False)
class Loop:
    """The blocks between a block and itself that do not pass an earlier one, and what determines their behaviour.

    ``decisive`` are registers that determine where it goes and what it does, ``ticking`` those of them that depend on a
    clock. ``timed``: it reads a clock that some guard depends on; ``bounded``: an exit depends on it. ``polls``: it
    reads what others may write; ``hidden``: it depends on more than registers and memory. ``lanes`` and ``threads``:
    results depend on the other lanes of a warp, or on other threads. ``counter``: what alone ends it, if that is known.
    """

    blocks: frozenset[int]
    lines: tuple[int, int]
    decisive: tuple[int, ...]
    ticking: frozenset[int]
    timed: bool
    bounded: bool
    exits: bool
    polls: bool
    hidden: bool
    lanes: bool
    threads: bool
    counter: Counter | None


_Facts = tuple[
    frozenset[int], tuple[int, int], tuple[int, ...], frozenset[int], bool, bool, bool, bool, bool, bool, bool
]


def loop_at(function: Function, blocks: list[Block], head: int, clocks: Callable[[], Clocks]) -> Loop:
    """The loop whose head is a block."""
    facts, single = derived(function, f"loop {head}", lambda: _facts(function, blocks, head, clocks()))
    return Loop(*facts, counter_of(function, blocks, head) if single else None)


def _facts(function: Function, blocks: list[Block], head: int, clocks: Clocks) -> tuple[_Facts, bool]:
    """Of a loop, what it is but for its counter, and whether it may have one."""
    inside = loop_blocks(blocks, head)
    code = [i for n in sorted(inside) for i in function.code[blocks[n].first : blocks[n].last]]
    traits, forms = {id(i.traits): i.traits for i in code}.values(), {id(i.form): i.form for i in code}.values()
    exits = list(_leaving(function, blocks, inside))
    ticks = clocks.ticks and any(clocks.read_by(i) for i in code)
    calls = any(t.ending is Ending.CALL for t in traits)
    guards = [i.guard[0].index for i in code if i.guard is not None]
    decisive = _decisive(code)
    lines = [i.span.line for i in code]
    timed = ticks and any(g in clocks.registers for g in guards)
    bounded = ticks and any(i.guard is not None and i.guard[0].index in clocks.registers for i in exits)
    polls = calls or any(t.polls for t in traits)
    hidden = any(t.moves_stack for t in traits) or (calls and bool(clocks.program.externs))
    lanes, threads = any("active" in form.ports for form in forms), any(t.uniform == "cta" for t in traits)
    entering, ticking = tuple(sorted(decisive & blocks[head].live_in)), frozenset(clocks.registers)
    where = inside, (min(lines), max(lines)), entering, ticking
    return (*where, timed, bounded, bool(exits), polls, hidden, lanes, threads), len(inside) == 1 == len(exits)


def loop_blocks(blocks: list[Block], head: int) -> frozenset[int]:
    """The blocks from ``head`` on that it reaches and that reach it."""
    reached, work = {head}, [head]
    sources: dict[int, list[int]] = {}
    while work:
        at = work.pop()
        for target in blocks[at].successors:
            if target >= head:
                sources.setdefault(target, []).append(at)
                if target not in reached:
                    reached.add(target)
                    work.append(target)
    found, work = {head}, [head]
    while work:
        for source in sources.get(work.pop(), ()):
            if source not in found:
                found.add(source)
                work.append(source)
    return frozenset(found)


def _leaving(function: Function, blocks: list[Block], inside: frozenset[int]) -> Iterator[Instruction]:
    """The instructions through which threads may leave a loop."""
    end = len(function.code)
    for index in inside:
        block = blocks[index]
        code = function.code[block.first : block.last]
        yield from [i for i in code if (t := i.traits).ending in LEAVES or t.stop is not None]
        last = code[-1]
        jumps = last.traits.ending in (Ending.BRANCH, Ending.INDEXED_BRANCH)
        ends = block.last == end and (not jumps or last.guard is not None)
        ends |= jumps and any(target >= end for target in last.targets)
        if ends or any(s not in inside for s in block.successors):
            yield last


def _decisive(code: list[Instruction]) -> set[int]:
    """Registers that determine where a loop goes, what it accesses and what it leaves behind."""
    found: set[int] = set()
    sources: dict[int, list[tuple[int, ...]]] = {}
    for instruction in code:
        if _gives_a_result(instruction.form):
            for register in instruction.writes:
                sources.setdefault(register, []).append(instruction.reads)
        else:
            found.update(instruction.reads)
    return needed(found, sources)


@lru_cache(maxsize=1024)
def _gives_a_result(form: Form) -> bool:
    return form.n_dest > 0 and form.ports <= HARMLESS and form.scope in (Scope.THREAD, Scope.WARP)


class Clocks:
    """A function's time-dependent registers: those whose values may come from a clock."""

    def __init__(self, function: Function, program: Program, readers: frozenset[str]) -> None:
        self.program = program
        self._readers = readers
        self.registers: set[int] = set()
        self.ticks = any(self.read_by(i) for i in function.code if readers or i.traits.ending is Ending.CALL)
        """Whether anything in the function reads a clock."""
        if not readers or not self.ticks:
            return
        kept = False
        while True:
            before = len(self.registers), kept
            for instruction in function.code:
                reads, writes = instruction.reads, instruction.writes
                tells = self.read_by(instruction) or not self.registers.isdisjoint(reads)
                if instruction.traits.access is Access.LOAD and kept:
                    tells = True
                if tells:
                    self.registers.update(writes)
                    kept |= not writes or _is_call(instruction)
            if (len(self.registers), kept) == before:
                return

    def read_by(self, instruction: Instruction) -> bool:
        """Whether an instruction reads a clock, or calls a function that does."""
        if _is_call(instruction):
            return calls_into(instruction, self._readers, self.program)
        return any(part.special in CLOCKS for o in instruction.operands for part in o.parts)


def clock_readers(program: Program) -> frozenset[str]:
    """Functions that read a clock, directly or through calls."""
    found = set()
    for name, function in program.functions.items():  # every operand of a module comes here: no calls
        operands = [o for i in function.kinds for o in i.operands]
        parts = [p.special for o in operands if o.elements is not None for p in o.elements]
        if not CLOCKS.isdisjoint([*parts, *[o.special for o in operands]]):
            found.add(name)
    return callers(program, found) if found else frozenset()


def _is_call(instruction: Instruction) -> bool:
    return instruction.traits.ending is Ending.CALL


def counter_of(function: Function, blocks: list[Block], head: int) -> Counter | None:
    """The counter of the loop of a single block, if nothing else ends it."""
    block = blocks[head]
    code = function.code[block.first : block.last]
    branch = code[-1]
    if branch.traits.ending is not Ending.BRANCH or branch.guard is None or branch.targets != (block.first,):
        return None
    if any(i.traits.leaves or i.traits.stop is not None for i in code):
        return None
    predicate, negated = branch.guard
    made = _only(code, predicate.index)
    if made is None or not made.traits.compares or made.form.n_dest != 1:
        return None
    sources = made.operands[1:]
    for first in (True, False):
        counted, bound = sources if first else reversed(sources)
        stride = _stride(code, counted)
        register = counted.register
        if stride and register is not None and _fixed(code, bound) and _is_integer(made, register):
            return Counter(register.index, register.name, stride, made, bound, first, negated)
    return None


def _is_integer(comparison: Instruction, counted: Register) -> bool:
    type = comparison.op.type
    return type.kind in "usb" and type.bits == counted.type.bits and type.bits in (16, 32, 64)


def _only(code: tuple[Instruction, ...], register: int) -> Instruction | None:
    """The instruction that alone writes a register, in each lap."""
    writers = [i for i in code if register in i.writes]
    return writers[0] if len(writers) == 1 and writers[0].guard is None else None


def _stride(code: tuple[Instruction, ...], operand: Operand) -> int:
    """What each lap adds to a register; 0 if this is not known."""
    counted = operand.register
    made = _only(code, counted.index) if counted is not None else None
    if made is None or counted is None or made.form.n_dest != 1:
        return 0
    added = added_to(made)
    if added is None or added[0].register is not counted or made.operands[0].type.bits != counted.type.bits:
        return 0
    return added[1]


def added_to(instruction: Instruction) -> tuple[Operand, int] | None:
    """The register and the constant of which an instruction computes the sum, if that is all it does."""
    sources = instruction.inputs
    if len(sources) != 2 or (sources[0].constant is None) == (sources[1].constant is None):
        return None
    if not all(o.is_plain and o.type.kind in "usb" for o in sources):
        return None
    try:
        ((result,),) = instruction.graph.outputs
    except (Untraceable, ValueError):
        return None
    a, b = sources if sources[1].constant is not None else reversed(sources)
    if result.dtype.kind not in "iu" or any(n.op != "input" for n in result.args) or b.constant is None:
        return None
    half = 1 << b.type.bits - 1
    number = (b.constant + half) % (2 * half) - half
    if result.op == "add":
        return a, number
    return (a, -number) if result.op == "subtract" and a is sources[0] else None


def _fixed(code: tuple[Instruction, ...], operand: Operand) -> bool:
    """Whether no lap changes an operand."""
    return operand.is_plain and not any(set(operand.registers) & set(i.writes) for i in code)
