"""What the passes share about a function: its graph, the values of its registers, which threads reach which block, and the
memory that an instruction accesses, as far as its addresses are known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
from numpy.typing import DTypeLike

from warpsim.analysis.flow import Graph, blocks_of, members, written_often
from warpsim.analysis.shared_layout import place_shared
from warpsim.analysis.values import (
    ANYTHING,
    WARP,
    Evaluator,
    Read,
    Spread,
    Threads,
    Value,
    anything,
    congruent,
    exactly,
    joined,
)
from warpsim.errors import SECTIONS, Finding
from warpsim.isa.traits import Access as Kind
from warpsim.isa.traits import Ending, Family, Matrix, Stage
from warpsim.isa.wgmma import STORAGE, columns
from warpsim.layout import descriptors
from warpsim.numerics.arrays import Array
from warpsim.program.program import Function, Instruction, Operand, Program
from warpsim.records import frozen

State = dict[int, Value]
UNSEEN = anything(Spread.CTA)
"""A register that no visited instruction has written."""
PATIENCE = 6
"""Rounds after which a register that still changes is treated as unknown."""


def _same(state: State, old: State) -> bool:
    return state.keys() == old.keys() and all(v is old[r] or v.same(old[r]) for r, v in state.items())


READ, WRITE, OBJECT = "read", "write", "object"
SHARED, GLOBAL = "shared", "global"
WINDOW = 1 << 18
"""More shared memory than any CTA has."""
MOST_DESCRIPTORS = 8
"""One per warpgroup of a CTA."""


@frozen(eq=False)
class Marks:
    """Data about each byte of shared memory from ``low`` on."""

    low: int
    content: Array

    @classmethod
    def around(cls, starts: Array, nbytes: int, dtype: DTypeLike, empty: object) -> Marks:
        """Empty marks that cover accesses of ``nbytes`` at some places; no bytes if these cannot be in shared memory."""
        if not len(starts) or int(starts.min()) < 0 or int(starts.max()) + nbytes > WINDOW:
            return cls(0, np.full(0, empty, dtype))
        low = int(starts.min())
        return cls(low, np.full(int(starts.max()) + nbytes - low, empty, dtype))

    def common(self, other: Marks) -> tuple[Array, Array]:
        """The contents of two ranges where they overlap."""
        low = max(self.low, other.low)
        high = max(min(self.low + len(self.content), other.low + len(other.content)), low)
        return self.content[low - self.low : high - self.low], other.content[low - other.low : high - other.low]


@frozen(eq=False, slots=False)
class Access:
    """An access through one operand. Each lane in ``lanes`` accesses at least ``nbytes``; ``whole`` says that it is
    exactly that many. ``fixed`` are the bytes of a matrix named by a descriptor."""

    instruction: Instruction
    name: str
    mode: str
    space: str
    address: Value
    nbytes: int
    align: int
    threads: Array
    whole: bool = True
    asynchronous: bool = False
    fixed: Array | None = None

    @functools.cached_property
    def known(self) -> bool:
        """Whether the accessed bytes of shared memory are known."""
        return self.space == SHARED and (self.fixed is not None or self.address.exact)

    @functools.cached_property
    def starts(self) -> Array:
        """Shared memory addresses at which each of ``threads`` accesses ``nbytes``. Only if `known`, through an
        address."""
        return np.broadcast_to(self.address.bits, self.threads.shape)[self.threads].astype(np.int64)

    @functools.cached_property
    def bytes(self) -> Marks:
        """The accessed bytes of shared memory. Only if `known`."""
        if self.fixed is not None:
            marks = Marks.around(self.fixed, 1, np.bool_, empty=False)
            marks.content[self.fixed - marks.low] = True
            return marks
        marks = Marks.around(self.starts, self.nbytes, np.bool_, empty=False)
        for start in np.unique(self.starts).tolist() if len(marks.content) else ():
            marks.content[start - marks.low : start - marks.low + self.nbytes] = True
        return marks

    def overlaps(self, other: Access) -> bool:
        """Whether both are known to access a common byte of shared memory."""
        if not (self.known and other.known):
            return False
        mine, theirs = self.bytes.common(other.bytes)
        return bool((mine & theirs).any())

    def shares(self, other: Access, sizes: dict[str, int] | None) -> bool:
        """Whether both lie in the same variable; with ``sizes``, only if the variable has a size of its own."""
        names = self.address.symbols
        return (
            not (self.known and other.known)
            and self.space == other.space == SHARED
            and len(names) == 1
            and names == other.address.symbols
            and (sizes is None or sizes.get(next(iter(names)), 0) > 0)
        )


def accesses(step: Step) -> Iterator[Access]:
    """The accesses of an instruction by the threads that execute it in every launch."""
    instruction, threads = step.instruction, step.threads
    form, traits = instruction.form, instruction.traits
    if traits.is_async(Family.WGMMA):
        yield from _descriptors(step)
        return
    for spec, operand in zip(form.operands, instruction.operands, strict=False):
        if operand.base is None or spec.name == "map":
            continue
        address = step.value(operand)
        space = _space(instruction, spec.name, operand, address)
        access = functools.partial(Access, instruction, spec.name, space=space, address=address)
        if traits.is_async(Family.REMOTE):  # the data goes to another CTA
            if spec.name == "bar":
                yield access(mode=OBJECT, nbytes=8, align=8, threads=threads)
        elif traits.access is not None:
            size = _size(instruction)
            mode = READ if traits.access is Kind.LOAD else WRITE
            yield access(mode=mode, nbytes=size, align=size, threads=threads)
        elif traits.mbarrier is not None:
            yield access(mode=OBJECT, nbytes=8, align=8, threads=threads)
        elif traits.matrix is not None and not traits.opaque_fragments:
            count = next((int(w[1:]) for w in instruction.op.modifiers if w in ("x1", "x2", "x4")), 1)
            rows = threads & (step.facts.threads.thread % np.uint64(WARP) < 8 * count)
            yield access(mode=READ if traits.matrix is Matrix.LOAD else WRITE, nbytes=16, align=16, threads=rows)
        elif traits.asynchronous is not None:
            yield from _copy(step, spec.name, access)


def _size(instruction: Instruction) -> int:
    """Bytes that each lane of a load, store or atomic accesses."""
    type = instruction.op.get("type")
    count = next((int(w[1:]) for w in instruction.op.modifiers if w in ("v2", "v4", "v8")), 1)
    return (type.bytes if type is not None else 1) * count


def _space(instruction: Instruction, name: str, operand: Operand, address: Value) -> str:
    """The state space of an address: from the instruction, or else from the variables that the address was computed
    from."""
    named, asynchronous = instruction.traits.spaces, instruction.traits.asynchronous
    if asynchronous is not None and asynchronous.family is not Family.REMOTE:
        if name in ("bar", "mbar", "address"):
            return SHARED
        return named[0 if name == "dst" else -1] if named else GLOBAL
    if named:
        return named[0]
    variable = operand.base.variable if operand.base is not None else None
    if variable is not None:
        return variable.space.value
    return SHARED if address.exact and address.symbols else "generic"


def _copy(step: Step, name: str, access: Callable[..., Access]) -> Iterator[Access]:
    """Accesses of cp.async and bulk copies."""
    instruction, threads = step.instruction, step.threads
    traits = instruction.traits
    if name in ("bar", "mbar"):
        yield access(mode=OBJECT, nbytes=8, align=8, threads=threads)
        return
    size = instruction.named.get("size")
    known = step.value(size).constant if size is not None else None
    mode = WRITE if name == "dst" else READ
    if traits.is_async(Family.CP_ASYNC, Stage.ARRIVE):
        yield access(mode=OBJECT, nbytes=8, align=8, threads=threads)
    elif traits.is_async(Family.CP_ASYNC):
        n = known or 4
        yield access(mode=mode, nbytes=n, align=n, threads=threads)
    elif traits.is_async(Family.BULK):
        tensor = traits.asynchronous is not None and traits.asynchronous.tensor
        yield access(
            mode=mode, nbytes=known or 16, align=128 if tensor else 16, threads=threads, whole=known is not None,
            asynchronous=True,
        )  # fmt: skip


def matrices(instruction: Instruction) -> Iterator[tuple[str, Operand, functools.partial[descriptors.Elements]]]:
    """The operands of a wgmma that are descriptors: name, operand, and what decodes the matrix that one names."""
    op, named = instruction.op, instruction.named
    itemsize = int(STORAGE[op.atype.name][1:])
    for name, extent in (("a_desc", 64), ("b_desc", columns(op))):
        operand, turned = named.get(name), named.get(f"imm_trans_{name[0]}")
        if operand is not None and operand.elements is None:
            k = 32 // itemsize * (2 if name == "b_desc" and "sp" in op.modifiers else 1)
            transposed = turned is not None and bool(turned.constant)
            yield (
                name,
                operand,
                functools.partial(descriptors.elements, k=k, extent=extent, itemsize=itemsize, transposed=transposed),
            )


def _descriptors(step: Step) -> Iterator[Access]:
    """The matrices that a wgmma reads from shared memory."""
    instruction, threads = step.instruction, step.threads
    itemsize = int(STORAGE[instruction.op.atype.name][1:])
    for name, operand, decoded in matrices(instruction):
        value = step.value(operand)
        named_by = np.unique(np.broadcast_to(value.bits, threads.shape)[threads]) if value.exact else np.zeros(0)
        fixed = None
        if 0 < len(named_by) <= MOST_DESCRIPTORS:
            found = [decoded(int(bits)).address.reshape(-1) for bits in named_by]
            fixed = np.unique((np.concatenate(found)[:, None] + np.arange(itemsize)).reshape(-1))
            fixed = fixed[(fixed >= 0) & (fixed < WINDOW)]
        yield Access(
            instruction, name, READ, SHARED, value, 16, 1, threads, whole=False, asynchronous=True, fixed=fixed
        )


@frozen(eq=False, slots=False)
class Step:
    """An instruction, by its index in the code and its block; ``read`` gives what is known of a register before it."""

    facts: Facts
    at: int
    block: int
    instruction: Instruction
    read: Read

    def value(self, operand: Operand) -> Value:
        """What is known about an operand."""
        return self.facts.evaluator.operand(operand, self.read)

    @functools.cached_property
    def guard(self) -> Value | None:
        """The value of its guard, if it has one."""
        return None if self.instruction.guard is None else self.facts.guard(self.instruction, self.read)

    @functools.cached_property
    def threads(self) -> Array:
        """The threads that execute it in every launch."""
        threads = self.facts.reach[self.block] & self.facts.threads.sure
        return threads if self.guard is None or not self.guard.exact else threads & (self.guard.bits != 0)

    @property
    def certain(self) -> bool:
        """Whether data cannot exclude any of them."""
        return not self.facts.uncertain >> self.block & 1 and (
            self.guard is None or self.guard.unknown is not Spread.THREAD
        )

    @functools.cached_property
    def accesses(self) -> tuple[Access, ...]:
        """Its accesses to memory, as far as they are known."""
        return tuple(accesses(self))


class Facts:
    """What is known about a function."""

    def __init__(self, program: Program, function: Function) -> None:
        self.program = program
        self.function = function
        self.blocks, self.place = blocks_of(function)
        self.graph = Graph(self.blocks)
        self.threads = Threads(function)
        self.evaluator = Evaluator(self.threads, place_shared(program, function))
        self.before: list[State] = [{} for _ in self.blocks]
        self._after: list[State | None] = [None] * len(self.blocks)
        self._once: State = {}
        self._often = written_often(function)
        self._written: dict[int, set[int]] = {}
        self._parting: list[dict[int, Spread]] = [{} for _ in self.blocks]
        self._changed: dict[int, int] = {}
        """The visit of a block in which a register with a single writer changed last."""
        self._visit = -1
        self._settle()

    # ---- values --------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Visit the blocks whose inputs have changed, until nothing does."""
        after, carried = self._after, [[r for r in b.live_in if r in self._often] for b in self.blocks]
        fixed = [[r for r in b.live_in if r not in self._often] for b in self.blocks]
        visits: list[int] = [-1] * len(self.blocks)
        for round in range(4 * PATIENCE):
            changed = False
            for block in self.blocks:
                n, visit = block.index, visits[block.index]
                entry, old = self._entry(n, carried[n], round), after[n]
                news = (self._changed.get(r, -1) >= visit for r in fixed[n])
                if old is not None and _same(entry, self.before[n]) and not any(news):
                    continue
                visits[n] = self._visit = self._visit + 1
                leaving = dict(entry)
                self.before[n] = entry
                for instruction in self.function.code[block.first : block.last]:
                    changed |= self._apply(instruction, leaving, round)
                if old is None or not _same(leaving, old):
                    after[n] = leaving
                    changed = True
            changed |= self._divide()
            if not changed:
                return

    def _entry(self, index: int, registers: list[int], round: int) -> State:
        entry: State = {}
        states = [(p, s) for p in self.graph.predecessors[index] if (s := self._after[p]) is not None]
        old = self.before[index]
        for register in registers:
            values = [(p, s[register]) for p, s in states if register in s]
            if not values:
                continue
            value = values[0][1]
            if not all(v is value for _, v in values):
                value = self._together(index, register, values)
            if round >= PATIENCE and register in old and not value.same(old[register]):
                value = ANYTHING
            entry[register] = value
        return entry

    def _apply(self, instruction: Instruction, state: State, round: int) -> bool:
        """Update a state for an instruction; True if a register with a single writer changed."""
        made = self.evaluator.results(instruction, functools.partial(self._read, state))
        changed = False
        for register, value in made.items():
            if register in self._often:
                state[register] = self._guarded(instruction, state, register, value)
                continue
            old = self._once.get(register)
            if old is None or not value.same(old):
                self._once[register] = value if old is None or round < PATIENCE else ANYTHING
                if self._once[register] is not old:
                    changed = True
                    self._changed[register] = self._visit
        return changed

    def _guarded(self, instruction: Instruction, state: State, register: int, value: Value) -> Value:
        if instruction.guard is None or register not in state:
            return value
        holds, old = self.guard(instruction, functools.partial(self._read, state)), state[register]
        if holds.exact and value.exact and old.exact:
            return exactly(np.where(holds.bits != 0, value.bits, old.bits), value.symbols | old.symbols)
        return joined(value, old, holds.spread)

    def _read(self, state: State, register: int) -> Value:
        return state.get(register) or self._once.get(register) or UNSEEN

    def guard(self, instruction: Instruction, read: Read) -> Value:
        """The value of an instruction's guard."""
        assert instruction.guard is not None
        register, negated = instruction.guard
        value = read(register.index)
        return exactly(value.bits ^ np.uint64(1), value.symbols) if negated and value.exact else value

    def _together(self, index: int, register: int, values: list[tuple[int, Value]]) -> Value:
        """A register's value where paths join, in threads that may have come on different paths since it was written."""
        kinds: list[tuple[Value, int]] = []
        for place, value in values:
            k = next((k for k, (v, _) in enumerate(kinds) if v.equals(value)), None)
            if k is None:
                kinds.append((value, 1 << place))
            else:
                kinds[k] = value, kinds[k][1] | 1 << place
        value = functools.reduce(lambda a, b: joined(a, b, Spread.KNOWN), [v for v, _ in kinds])
        if len(kinds) == 1 or value.spread is Spread.THREAD:
            return value
        widest: Spread = value.spread
        for branch, spread in self._parting[index].items():
            if spread > widest and register in self._written_behind(branch):
                ways = self.graph.region(branch) | 1 << branch
                if sum(1 for _, places in kinds if places & ways) > 1:
                    widest = spread
        return value if widest is value.spread else congruent(value.bits, value.zeros, widest, value.symbols)

    def _written_behind(self, branch: int) -> set[int]:
        """The registers written by the blocks that a branch controls."""
        found = self._written.get(branch)
        if found is None:
            code = self.function.code
            blocks = [self.blocks[b] for b in members(self.graph.region(branch))]
            found = {r for b in blocks for i in range(b.first, b.last) for r in code[i].writes}
            self._written[branch] = found
        return found

    def _divide(self) -> bool:
        """Note, for each block where paths from a branch may join, how uniformly threads branch; True if something is
        new."""
        changed = False
        for block in self.blocks:
            if len(block.successors) < 2:
                continue
            spread = self.decision(block.index).spread
            where = self.graph.shared(block.index)
            if self.graph.post_dominators[block.index] < self.graph.exit:
                where |= 1 << self.graph.post_dominators[block.index]
            for index in members(where):
                known = self._parting[index].get(block.index, Spread.KNOWN)
                if known < spread:
                    self._parting[index][block.index] = spread
                    changed = True
        return changed

    @functools.cached_property
    def steps(self) -> list[Step]:
        """Every instruction, block by block, with what is known before it."""
        found = []
        for block in self.blocks:
            state = self.before[block.index]
            for at in range(block.first, block.last):
                instruction = self.function.code[at]
                found.append(Step(self, at, block.index, instruction, functools.partial(self._read, state)))
                if not self._often.isdisjoint(instruction.writes):
                    state = dict(state)
                    self._apply(instruction, state, 0)
        return found

    # ---- who comes where -----------------------------------------------------------------------

    def decision(self, index: int) -> Value:
        """What the branch at the end of a block depends on: its condition, or the index into a table."""
        last = self.function.code[self.blocks[index].last - 1]
        read = functools.partial(self._read, self._after[index] or {})
        if last.guard is not None:
            return self.guard(last, read)
        return self.evaluator.operand(last.operands[0], read) if last.operands else ANYTHING

    def takers(self, index: int, successor: int) -> Array | None:
        """The threads that go from a block to a successor, if that is known for each thread."""
        block = self.blocks[index]
        last = self.function.code[block.last - 1]
        if last.guard is None:
            return None
        taken = self.decision(index)
        if not taken.exact or last.traits.ending is Ending.INDEXED_BRANCH:
            return None
        flags = np.broadcast_to(taken.bits != 0, self.threads.alive.shape)
        following = self.place.get(block.last)
        if last.traits.ending is Ending.BRANCH:
            target = self.place.get(last.targets[0])
            if target == following:
                return None
            return flags if successor == target else ~flags
        return ~flags if last.traits.leaves else None

    @functools.cached_property
    def reach(self) -> list[Array]:
        """The threads that may reach each block; unknown conditions let all threads pass."""
        reach = [np.zeros(self.threads.count, np.bool_) for _ in self.blocks]
        if self.blocks:
            reach[self.place[0]] = self.threads.alive.copy()
        changed = True
        while changed:
            changed = False
            for block in self.blocks:
                for successor in block.successors:
                    takers = self.takers(block.index, successor)
                    coming = reach[block.index] if takers is None else reach[block.index] & takers
                    if (coming & ~reach[successor]).any():
                        reach[successor] |= coming
                        changed = True
        return reach

    @functools.cached_property
    def uncertain(self) -> int:
        """The blocks that may be executed by some lanes of a warp only, depending on per-thread data."""
        found = 0
        for block in self.blocks:
            last = self.function.code[block.last - 1]
            if last.guard is None or self.decision(block.index).unknown is not Spread.THREAD:
                continue
            if len(block.successors) > 1:
                found |= self.graph.region(block.index)
            elif last.traits.leaves:
                for successor in block.successors:
                    found |= self.graph.reachable(successor)
        return found

    # ---- findings ------------------------------------------------------------------------------

    def finding(self, rule: str, instruction: Instruction, message: str, **more: Any) -> Finding:
        """Make a finding at an instruction. ``other`` may be an instruction too; ``threads`` are those at fault."""
        other, threads = more.pop("other", None), more.pop("threads", None)
        if threads is not None and threads.any():
            first = int(np.flatnonzero(threads)[0]) // WARP
            more["warp"] = first
            more["lanes"] = tuple(int(t) % WARP for t in np.flatnonzero(threads) if t // WARP == first)
        if isinstance(other, Instruction):
            other = self._place("", other, other.text)
        return attrs.evolve(self._place(rule, instruction, message), other=other, **more)

    def _place(self, rule: str, instruction: Instruction, message: str) -> Finding:
        span, lines = instruction.span, self.program.lines
        return Finding(
            rule,
            message,
            section=SECTIONS.get(rule, instruction.form.anchor),
            kernel=self.function.name,
            file=span.file,
            line=span.line,
            column=span.column,
            source=instruction.source,
            inlined_at=instruction.inlined_at,
            instruction=instruction.text,
            text=lines[span.line - 1].rstrip("\r") if 0 < span.line <= len(lines) else "",
        )
