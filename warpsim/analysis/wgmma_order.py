"""wgmma-missing-fence, wgmma-in-flight, wgmma-uncommitted: the registers of ``wgmma.mma_async`` between its issue and
the wait for its group.

Follows all paths through a function, and reports if one path lacks the fence, the commit or the wait, whatever its
conditions. As at run time, plain moves may rename accumulators in flight.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import attrs

from warpsim.analysis.dataflow import settle
from warpsim.analysis.facts import Facts
from warpsim.analysis.groups import NOTHING, GroupStates
from warpsim.analysis.wgmma_registers import (
    ADVICE,
    FENCE,
    IN_FLIGHT,
    SERIALISED,
    UNCOMMITTED,
    is_mma,
    moved,
    operand_registers,
    wgmma_registers,
)
from warpsim.errors import Finding
from warpsim.isa.traits import Ending, Family, Stage
from warpsim.program.program import Instruction

ORDERED, MOVED, ACCESSED = 0, 1, 2
EVERYBODY = -1


@attrs.define
class State:
    """The states of the wgmma, those that accumulate in a register or read A from it, accesses to a register since the
    last fence, the shapes for which it was the accumulator since then, and whether every path has a fence since the
    last commit.
    """

    group_states: GroupStates
    accumulates: dict[int, int]
    reads: dict[int, int]
    unfenced: dict[int, int]
    shapes: dict[int, frozenset[str]]
    fenced: bool = False

    def copy(self) -> State:
        """A copy to modify."""
        return State(
            self.group_states,
            dict(self.accumulates),
            dict(self.reads),
            dict(self.unfenced),
            dict(self.shapes),
            self.fenced,
        )

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
    before = settle(facts.blocks, start, lambda index, state: walk.through(index, state, None), _join)
    for block in sorted(facts.blocks, key=lambda b: b.first):
        state = before[block.index]
        if state is not None:
            found: list[Finding] = []
            walk.through(block.index, state, found)
            yield from found


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
    """Takes states through the instructions of a function; reports if it is given a list."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        code = facts.function.code
        self.used = set(wgmma_registers(facts.function, facts.blocks))
        self.mmas = [n for n, i in enumerate(code) if is_mma(i)]
        self.number = {at: k for k, at in enumerate(self.mmas)}
        self.waits = [n for n, i in enumerate(code) if i.traits.is_async(Family.WGMMA, Stage.WAIT)]
        self.helped = {
            f.name for f in facts.program.functions.values() if f is not facts.function
            and any(_is_wgmma(i) for i in f.code)
        }  # fmt: skip
        self.told: set[tuple[str, int]] = set()

    def through(self, index: int, state: State, found: list[Finding] | None) -> State:
        """The state after a block."""
        block = self.facts.blocks[index]
        state = state.copy()
        for at in range(block.first, block.last):
            self._step(at, self.facts.function.code[at], state, found)
        return state

    def _step(self, at: int, instruction: Instruction, state: State, found: list[Finding] | None) -> None:
        traits = instruction.traits
        if is_mma(instruction):
            self._issue(at, instruction, state, found)
        elif traits.is_async(Family.WGMMA, Stage.FENCE):
            state.unfenced, state.shapes, state.fenced = {}, {}, True
        elif traits.is_async(Family.WGMMA, Stage.COMMIT):
            state.group_states, state.fenced = state.group_states.committed(EVERYBODY), False
        elif traits.is_async(Family.WGMMA, Stage.WAIT):
            state.group_states = state.group_states.waited(EVERYBODY, instruction.operands[0].constant or 0)
        elif traits.ending is Ending.CALL and self._calls_wgmma(instruction):
            state.group_states, state.unfenced, state.shapes = NOTHING, {}, {}
        else:
            self._access(at, instruction, state, found)
        if traits.leaves and self.facts.function.entry:
            lost = state.group_states.uncommitted
            if lost:
                message = "the kernel ends with a wgmma that was never committed"
                self._tell(found, UNCOMMITTED, lost.bit_length() - 1, instruction, message)

    def _calls_wgmma(self, instruction: Instruction) -> bool:
        name = instruction.callee
        return bool(self.helped) and (not name or name in self.facts.program.functions)

    def _issue(self, at: int, instruction: Instruction, state: State, found: list[Finding] | None) -> None:
        slots_d, slots_a = operand_registers(instruction)
        self._check_flight(
            slots_a,
            state.accumulates,
            "it reads A from {}, the accumulator of a wgmma in flight",
            instruction,
            state,
            found,
        )
        self._check_flight(
            slots_d,
            state.reads,
            "it accumulates in {}, from which a wgmma in flight reads A",
            instruction,
            state,
            found,
        )
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
            self._tell(
                found,
                FENCE,
                self.number[at],
                instruction,
                message,
                severity="error" if worst == ACCESSED else "note",
            )
            state.unfenced.update(dict.fromkeys(state.unfenced if found is not None else used, ORDERED))
        else:
            other = next((r for r in slots_d if state.shapes.get(r, {shape}) != {shape}), None)
            if other is not None:
                message = (
                    f"register {self._name(other)} was the accumulator of a wgmma of another shape, with no wgmma.fence"
                    " since"
                )
                self._tell(found, FENCE, self.number[at], instruction, message)
        mine = 1 << self.number[at]
        state.group_states = state.group_states.issued(mine)
        for register in slots_d:
            state.accumulates[register] = mine | state.accumulates.get(register, 0) & state.group_states.pending
            state.shapes[register] = frozenset((shape,))
        for register in slots_a:
            state.reads[register] = state.reads.get(register, 0) | mine

    def _check_flight(
        self, registers: list[int], uses: dict[int, int], text: str, instruction: Instruction, state: State,
        found: list[Finding] | None,
    ) -> None:  # fmt: skip
        for register in registers:
            wgmma = state.in_flight(uses.get(register, 0))
            if wgmma is not None:
                self._tell(found, IN_FLIGHT, wgmma, instruction, text.format(self._name(register)))
                return

    def _access(self, at: int, instruction: Instruction, state: State, found: list[Finding] | None) -> None:
        reads, writes = ([r for r in part if r in self.used] for part in (instruction.reads, instruction.writes))
        if not reads and not writes:
            return
        plain = instruction.traits.copies
        if (reads, writes) == moved(instruction) and any(
            state.in_flight(state.accumulates.get(r, 0)) is not None for r in reads
        ):
            self._rename(reads, writes, state)
            return
        for registers, verb in ((writes, "written"), (reads, "read")):
            for register in registers:
                who = state.accumulates.get(register, 0) | state.reads.get(register, 0)
                wgmma = state.in_flight(who)
                if wgmma is not None:
                    self._early(at, instruction, register, verb, wgmma, state, found)
                    break
        for register in (*reads, *writes):
            state.unfenced[register] = max(state.unfenced.get(register, ORDERED), MOVED if plain else ACCESSED)

    def _rename(self, sources: list[int], targets: list[int], state: State) -> None:
        """Handle a move of accumulators in flight, or of their halves, which renames them."""
        accumulates = functools.reduce(int.__or__, (state.accumulates.get(s, 0) for s in sources))
        reads = functools.reduce(int.__or__, (state.reads.get(s, 0) for s in sources))
        unfenced = max(state.unfenced.get(s, ORDERED) for s in sources)
        shapes = frozenset().union(*(state.shapes.get(s, frozenset()) for s in sources))
        for target in targets:
            state.accumulates[target], state.reads[target] = accumulates, reads
            state.unfenced[target], state.shapes[target] = unfenced, shapes

    def _early(
        self, at: int, instruction: Instruction, register: int, verb: str, wgmma: int, state: State,
        found: list[Finding] | None,
    ) -> None:  # fmt: skip
        name = self._name(register)
        if state.group_states.only_lost >> wgmma & 1:
            place = max((w for w in self.waits if self.mmas[wgmma] < w < at), default=self.waits[0])
            message = (
                f"this wait does not cover a wgmma that was never committed; line {instruction.span.line} uses its"
                f" register {name}"
            )
            self._tell(found, UNCOMMITTED, wgmma, self.facts.function.code[place], message)
        else:
            accumulates = state.accumulates.get(register, 0) >> wgmma & 1
            line = self.facts.function.code[self.mmas[wgmma]].span.line
            message = f"register {name} is {verb} while the wgmma in line {line} is in flight, which" + (
                " accumulates in it" if accumulates else " reads A from it"
            )
            advice = ADVICE[IN_FLIGHT] + (SERIALISED[verb] if accumulates else "")
            self._tell(found, IN_FLIGHT, wgmma, instruction, message, advice=advice)
        if found is not None:  # report a missing wait once
            state.group_states = state.group_states.ended(EVERYBODY)

    def _name(self, register: int) -> str:
        return self.facts.function.registers[register].name

    def _tell(
        self, found: list[Finding] | None, rule: str, wgmma: int, place: Instruction, message: str,
        severity: str = "error", advice: str = "",
    ) -> None:  # fmt: skip
        """Report once per wgmma."""
        if found is None or (rule, wgmma) in self.told:
            return
        self.told.add((rule, wgmma))
        other = self.facts.function.code[self.mmas[wgmma]]
        advice, party = advice or ADVICE[rule], None if other is place else other
        found.append(self.facts.finding(rule, place, message, severity=severity, advice=advice, other=party))
