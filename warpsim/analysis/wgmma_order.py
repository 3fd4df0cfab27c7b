"""wgmma-missing-fence, wgmma-in-flight, wgmma-uncommitted: the registers of ``wgmma.mma_async`` between its issue and
the wait for its group.

Follows all paths through a function, and reports if one path lacks the fence, the commit or the wait, whatever its
conditions. The assembler treats moves between a wgmma and the wait for it as renaming registers, including moves that
unpack a register into halves and pack halves into one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpsim.analysis.dataflow import NOTHING, GroupStates, settle, walk
from warpsim.analysis.flow import Block
from warpsim.errors import Finding
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Ending, Family, Stage
from warpsim.program.program import Function, Instruction
from warpsim.records import define

if TYPE_CHECKING:
    from warpsim.analysis.facts import Facts

FENCE, IN_FLIGHT, UNCOMMITTED = "wgmma-missing-fence", "wgmma-in-flight", "wgmma-uncommitted"
WAIT_ADVICE = "wait for that wgmma's group first (wgmma.wait_group)"
SERIALISED = {
    "read": "; ptxas inserts warpgroup.wait (C7517) or serialises the wgmma (C7514)",
    "written": "; ptxas serialises the wgmma (C7515)",
}
ADVICE = {
    FENCE: "add wgmma.fence.sync.aligned between the last access to the registers and the wgmma; ptxas inserts"
    " warpgroup.arrive (C7519)",
    IN_FLIGHT: WAIT_ADVICE,
    UNCOMMITTED: "execute wgmma.commit_group before wgmma.wait_group",
}
FROM_ACCUMULATOR = "it reads A from {}, the accumulator of a wgmma in flight"
INTO_A = "it accumulates in {}, from which a wgmma in flight reads A"
RESHAPED = "register {} was the accumulator of a wgmma of another shape, with no wgmma.fence since"
AT_END = "the kernel ends with a wgmma that was never committed"
UNCOVERED = "this wait does not cover a wgmma that was never committed; line {} uses its register {}"


def touched(register: str, verb: str, line: int, *, accumulates: bool) -> tuple[str, str]:
    """What is wrong with a register that is "read" or "written" while a wgmma ``accumulates`` in it or reads A from it, and advice."""
    does, advice = ("accumulates in", WAIT_ADVICE + SERIALISED[verb]) if accumulates else ("reads A from", WAIT_ADVICE)
    return f"register {register} is {verb} while the wgmma in line {line} is in flight, which {does} it", advice


def is_mma(instruction: Instruction) -> bool:
    """True for ``wgmma.mma_async`` and its sparse form."""
    return instruction.traits.is_async(Family.WGMMA)


def operand_registers(instruction: Instruction) -> tuple[list[int], list[int]]:
    """The registers of D, and those of A."""
    d, a = instruction.operands[:2]
    return d.registers, a.registers if a.elements is not None else []


def moved(instruction: Instruction) -> tuple[list[int], list[int]] | None:
    """The registers that a move reads and writes; None for anything but a move between registers."""
    if not instruction.traits.copies:
        return None
    target, source = instruction.operands
    reads, writes = source.registers, target.registers
    return (reads, writes) if writes and len(reads) == len(source.parts) else None


def wgmma_registers(function: Function, blocks: list[Block]) -> tuple[list[int], frozenset[int]]:
    """Registers in which any wgmma of a function accumulates or from which it reads A, and those to which moves copy
    accumulators that may be in flight; and the instructions that read or write one, by index."""
    code = function.code
    mmas = [i for i in code if i.form.scope is Scope.WARPGROUP and is_mma(i)]
    found = dict.fromkeys(r for i in mmas for part in operand_registers(i) for r in part)
    names = {r for i in mmas for r in operand_registers(i)[0]}
    moves = _moves_in_flight(code, blocks) if mmas else []
    grown = True
    while grown:
        grown = False
        for reads, writes in moves:
            if not names.isdisjoint(reads) and not names.issuperset(writes):
                names.update(writes)
                grown = True
    found.update(dict.fromkeys(sorted(names)))
    return list(found), frozenset([at for at, i in enumerate(code) if i.touches(found.keys())])


def _moves_in_flight(code: tuple[Instruction, ...], blocks: list[Block]) -> list[tuple[list[int], list[int]]]:
    """Reads and writes of the moves that a path from a wgmma reaches without a wait for all groups."""

    def step(at: int, flying: bool) -> bool:  # noqa: FBT001
        if code[at].form.scope is not Scope.WARPGROUP:
            return flying
        waits = "wait_group" in code[at].op.modifiers and code[at].operands[0].constant == 0
        return is_mma(code[at]) or (flying and not waits)

    reached = walk(blocks, False, step, bool.__or__)  # noqa: FBT003
    return [made for at, flying in reached if flying and (made := moved(code[at])) is not None]


ORDERED, MOVED, ACCESSED = 0, 1, 2
EVERYBODY = -1


@define
class State:
    """The states of the wgmma, those that accumulate in a register or read A from it, accesses to a register since the
    last fence, the shapes for which it was the accumulator since then, and whether every path has a fence since the
    last commit."""

    group_states: GroupStates
    accumulates: dict[int, int]
    reads: dict[int, int]
    unfenced: dict[int, int]
    shapes: dict[int, frozenset[str]]
    fenced: bool = False

    def copy(self) -> State:
        """A copy to modify."""
        copies = (dict(self.accumulates), dict(self.reads), dict(self.unfenced), dict(self.shapes))
        return State(self.group_states, *copies, self.fenced)

    def in_flight(self, who: int) -> int | None:
        """The first of a set of wgmma that may be in flight."""
        flying = self.group_states.pending & who
        return (flying & -flying).bit_length() - 1 if flying else None


def _is_wgmma(instruction: Instruction) -> bool:
    found = instruction.traits.asynchronous
    return found is not None and found.family is Family.WGMMA


def check_wgmma(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    if not any(is_mma(i) for i in facts.function.code):
        return
    walk = _Walk(facts)
    start = State(NOTHING, {}, {}, dict.fromkeys(walk.used, ACCESSED if facts.function.entry else ORDERED), {})
    before = settle(facts.blocks, start, walk.through, _join)
    walk.reporting = True
    for block in sorted(facts.blocks, key=lambda b: b.first):
        state = before[block.index]
        if state is not None:
            walk.through(block.index, state)
    yield from walk.found


def _join(a: State, b: State) -> State:
    made = a.copy()
    made.group_states = a.group_states | b.group_states
    made.fenced = a.fenced and b.fenced
    for register, level in b.unfenced.items():
        made.unfenced[register] = max(made.unfenced.get(register, ORDERED), level)
    for mine, other in ((made.accumulates, b.accumulates), (made.reads, b.reads)):
        for register, who in other.items():
            mine[register] = mine.get(register, 0) | who
    for register, shapes in b.shapes.items():
        made.shapes[register] = made.shapes.get(register, frozenset()) | shapes
    return made


class _Walk:
    """Takes a ``state`` through the instructions of a function; when ``reporting``, it makes findings."""

    state: State
    reporting = False

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        code = facts.function.code
        self.used = set(wgmma_registers(facts.function, facts.blocks)[0])
        self.mmas = [n for n, i in enumerate(code) if is_mma(i)]
        self.number = {at: k for k, at in enumerate(self.mmas)}
        self.waits = [n for n, i in enumerate(code) if i.traits.is_async(Family.WGMMA, Stage.WAIT)]
        self.helped = {
            f.name for f in facts.program.functions.values() if f is not facts.function
            and any(_is_wgmma(i) for i in f.code)
        }  # fmt: skip
        self.reported: set[tuple[str, int]] = set()
        self.found: list[Finding] = []

    def through(self, index: int, state: State) -> State:
        """The state after a block."""
        block, self.state = self.facts.blocks[index], state.copy()
        for at in range(block.first, block.last):
            self._step(at, self.facts.function.code[at])
        return self.state

    def _step(self, at: int, instruction: Instruction) -> None:
        traits, state = instruction.traits, self.state
        if is_mma(instruction):
            self._issue(at, instruction)
        elif traits.is_async(Family.WGMMA, Stage.FENCE):
            state.unfenced, state.shapes, state.fenced = {}, {}, True
        elif traits.is_async(Family.WGMMA, Stage.COMMIT):
            state.group_states, state.fenced = state.group_states.committed(EVERYBODY), False
        elif traits.is_async(Family.WGMMA, Stage.WAIT):
            state.group_states = state.group_states.waited(EVERYBODY, instruction.operands[0].constant or 0)
        elif traits.ending is Ending.CALL and self._calls_wgmma(instruction):
            state.group_states, state.unfenced, state.shapes = NOTHING, {}, {}
        else:
            self._access(at, instruction)
        if traits.leaves and self.facts.function.entry:
            lost = state.group_states.uncommitted
            if lost:
                self._report(UNCOMMITTED, lost.bit_length() - 1, instruction, AT_END)

    def _calls_wgmma(self, instruction: Instruction) -> bool:
        name = instruction.callee
        return bool(self.helped) and (not name or name in self.facts.program.functions)

    def _issue(self, at: int, instruction: Instruction) -> None:
        state, (slots_d, slots_a) = self.state, operand_registers(instruction)
        for slots, uses, text in (
            (slots_a, state.accumulates, FROM_ACCUMULATOR),
            (slots_d, state.reads, INTO_A),
        ):
            early = ((r, state.in_flight(uses.get(r, 0))) for r in slots)
            register, wgmma = next(((r, w) for r, w in early if w is not None), (0, None))
            if wgmma is not None:
                self._report(IN_FLIGHT, wgmma, instruction, text.format(self._name(register)))
        used = [*slots_d, *slots_a]
        shape = str(instruction.op.shape)
        # Compilers write A's registers after the fence; the assembler then adds a fence.
        most = MOVED if state.fenced else ACCESSED
        levels = {r: min(state.unfenced.get(r, ORDERED), most) for r in slots_a}
        levels.update((r, state.unfenced.get(r, ORDERED)) for r in slots_d)
        worst = max(levels.values(), default=ORDERED)
        if worst:
            name = self._name(next(r for r in used if levels[r] == worst))
            message = f"register {name} was accessed, and on some path no wgmma.fence follows before this wgmma"
            severity = "error" if worst == ACCESSED else "note"
            self._report(FENCE, self.number[at], instruction, message, severity)
            state.unfenced.update(dict.fromkeys(state.unfenced if self.reporting else used, ORDERED))
        else:
            other = next((r for r in slots_d if state.shapes.get(r, {shape}) != {shape}), None)
            if other is not None:
                self._report(FENCE, self.number[at], instruction, RESHAPED.format(self._name(other)))
        mine = 1 << self.number[at]
        state.group_states = state.group_states.issued(mine)
        for register in slots_d:
            state.accumulates[register] = mine | state.accumulates.get(register, 0) & state.group_states.pending
            state.shapes[register] = frozenset((shape,))
        for register in slots_a:
            state.reads[register] = state.reads.get(register, 0) | mine

    def _access(self, at: int, instruction: Instruction) -> None:
        state = self.state
        reads, writes = ([r for r in part if r in self.used] for part in (instruction.reads, instruction.writes))
        if not reads and not writes:
            return
        plain = instruction.traits.copies
        if (reads, writes) == moved(instruction) and any(
            state.in_flight(state.accumulates.get(r, 0)) is not None for r in reads
        ):
            self._rename(reads, writes)
            return
        for registers, verb in ((writes, "written"), (reads, "read")):
            for register in registers:
                who = state.accumulates.get(register, 0) | state.reads.get(register, 0)
                wgmma = state.in_flight(who)
                if wgmma is not None:
                    self._early(at, instruction, register, verb, wgmma)
                    break
        for register in (*reads, *writes):
            state.unfenced[register] = max(state.unfenced.get(register, ORDERED), MOVED if plain else ACCESSED)

    def _rename(self, sources: list[int], targets: list[int]) -> None:
        """Handle a move of accumulators in flight, or of their halves, which renames them."""
        state = self.state
        accumulates = functools.reduce(int.__or__, (state.accumulates.get(s, 0) for s in sources))
        reads = functools.reduce(int.__or__, (state.reads.get(s, 0) for s in sources))
        unfenced = max(state.unfenced.get(s, ORDERED) for s in sources)
        shapes = frozenset().union(*(state.shapes.get(s, frozenset()) for s in sources))
        for target in targets:
            state.accumulates[target], state.reads[target] = accumulates, reads
            state.unfenced[target], state.shapes[target] = unfenced, shapes

    def _early(self, at: int, instruction: Instruction, register: int, verb: str, wgmma: int) -> None:
        state, name = self.state, self._name(register)
        if state.group_states.only_lost >> wgmma & 1:
            place = max((w for w in self.waits if self.mmas[wgmma] < w < at), default=self.waits[0])
            self._report(
                UNCOMMITTED, wgmma, self.facts.function.code[place], UNCOVERED.format(instruction.span.line, name)
            )
        else:
            accumulates = bool(state.accumulates.get(register, 0) >> wgmma & 1)
            line = self.facts.function.code[self.mmas[wgmma]].span.line
            message, advice = touched(name, verb, line, accumulates=accumulates)
            self._report(IN_FLIGHT, wgmma, instruction, message, advice=advice)
        if self.reporting:  # a missing wait once
            state.group_states = state.group_states.ended(EVERYBODY)

    def _name(self, register: int) -> str:
        return self.facts.function.registers[register].name

    def _report(
        self, rule: str, wgmma: int, place: Instruction, message: str, severity: str = "error", advice: str = ""
    ) -> None:
        """Report once per wgmma."""
        if not self.reporting or (rule, wgmma) in self.reported:
            return
        self.reported.add((rule, wgmma))
        other = self.facts.function.code[self.mmas[wgmma]]
        advice, party = advice or ADVICE[rule], None if other is place else other
        self.found.append(self.facts.finding(rule, place, message, severity=severity, advice=advice, other=party))
