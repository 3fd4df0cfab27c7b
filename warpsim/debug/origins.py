"""Find who wrote a value: the instruction, thread and step, and the values it read."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np

from warpsim.debug import expressions as ex
from warpsim.debug.breakpoints import MemoryTarget, RegisterTarget, target_of
from warpsim.debug.errors import DebugError, number
from warpsim.debug.places import writers
from warpsim.debug.position import Position
from warpsim.debug.threads import Focus, cta_text, holds, peek, places
from warpsim.debug.timeline import StopTest
from warpsim.isa.traits import Ending
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.watcher import READ, MemoryAccess
from warpsim.program.program import Instruction, Operand
from warpsim.records import frozen

DEEPEST = 32


@frozen
class Origin:
    """The step that gave ``what`` its value: the thread, the instruction, and the ``values`` of its sources at that
    moment, by name.

    ``sources`` holds their origins if ``depth`` asked for them. ``step`` is None if nothing in the launch wrote the
    value.
    """

    what: str
    step: int | None
    line: int = 0
    instruction: str = ""
    text: str = ""
    cta: tuple[int, int, int] | None = None
    warp: int | None = None
    lane: int | None = None
    values: tuple[tuple[str, object], ...] = ()
    sources: tuple[Origin, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._lines(""))

    def _lines(self, indent: str) -> list[str]:
        if self.step is None or self.cta is None:
            return [f"{indent}{self.what}: nothing wrote it in this launch"]
        lines = [f"{indent}{self.what}: step {self.step}, {cta_text(self.cta)}, warp {self.warp}, lane {self.lane}"]
        lines.append(f"{indent}{self.line:6}  {self.text}")
        if self.values:
            lines.append(
                f"{indent}        with " + ", ".join(f"{name} = {_shown(value)}" for name, value in self.values)
            )
        for source in self.sources:
            lines += source._lines(indent + "    ")
        return lines


def _shown(value: object) -> str:
    """Format a value; numbers that look like addresses in hexadecimal."""
    if isinstance(value, (int, np.integer)) and int(value) >= 1 << 32:
        return hex(int(value))
    return str(value)


def origin_of(position: Position, what: str, depth: int) -> Origin:
    """Find the origin of a register of the thread in focus (or ``%r3[5]``) or of memory, following the chain ``depth``
    steps back.

    The position stays as it was.
    """
    if not 1 <= number("depth", depth) <= DEEPEST:
        raise DebugError(f"depth must be 1 to {DEEPEST}, not {depth}")
    timeline, was, focus = position.timeline, position.timeline.step, position.thread
    stop, frame = position.stop, position.frame
    target = target_of(position.context, what, "lane", read=False)
    position.frame = 0
    try:
        return _found(position, what, target, focus, depth)
    finally:
        timeline.goto(was)
        position.thread, position.frame = focus, frame
        position.stop = stop


def _found(position: Position, what: str, target: RegisterTarget | MemoryTarget, focus: Focus, depth: int) -> Origin:
    timeline = position.timeline
    if isinstance(target, RegisterTarget):
        lane = focus.lane if target.lane is None else target.lane
        who = attrs.evolve(target.focus or focus, lane=lane)
        position.thread = who
        step = timeline.latest(_writes_register(target, who), places=writers(target, timeline.state), who=position.who)
    else:
        step, writer = _memory_writer(position, target)
        who = writer or focus
    if step is None:
        return Origin(what, None)
    timeline.goto(step)
    group, machine = timeline.group, timeline.machine
    assert group is not None
    assert machine is not None
    if not holds(machine, group, who):
        who = attrs.evolve(who, lane=int(group.selection.threads.flat[0]) & 31)
    position.thread = who
    instruction = group.instruction
    names = _sources(instruction)
    if instruction.traits.ending is Ending.RETURN:
        names += [param.name for param in group.plan.function.returns if not param.registers]
    values = tuple(_values(position, names, who.lane))
    sources: list[Origin] = []
    if depth > 1:
        for name in names:
            context = position.context
            if context.register(name) is None and not name.endswith("]"):
                at = context.plain_variable(name)
                if at is None or at.space != "local":
                    continue
            try:
                inner = target_of(context, name, "lane", read=False)
            except DebugError:
                continue
            sources.append(_found(position, name, inner, who, depth - 1))
            timeline.goto(step)
            position.thread = who
    line = instruction.span.line
    text = position.program.lines[line - 1].strip()
    return Origin(what, step, line, instruction.text, text, who.cta, who.warp, who.lane, values, tuple(sources))


def _values(position: Position, names: list[str], lane: int) -> Iterator[tuple[str, object]]:
    """The values that a lane sees, of what can be evaluated."""
    for name in names:
        try:
            value = position.context.value(name)
        except DebugError:
            continue
        if isinstance(value, np.ma.MaskedArray):
            value = np.ma.getdata(value)[lane]
        if np.asarray(value).ndim == 0:
            yield name, value


def _writes_register(target: RegisterTarget, who: Focus) -> StopTest:
    """Make a test of whether a step writes a register of a thread."""

    def asked(machine: Machine, group: Group, instruction: Instruction) -> int:
        written = target.register.index in instruction.writes and group.plan.function.name == target.function
        return int(written and holds(machine, group, who) and _passes(machine, group, instruction, who))

    return asked


def _passes(machine: Machine, group: Group, instruction: Instruction, who: Focus) -> bool:
    """Whether a thread passes an instruction's guard."""
    if instruction.guard is None:
        return True
    register, negated = instruction.guard
    at = int(places(machine, group, who)[who.lane])
    return bool(peek(group, register.index)[at]) != negated


def _memory_writer(position: Position, target: MemoryTarget) -> tuple[int | None, Focus | None]:
    """The last step that wrote any of the target's bytes, and its thread; None for one that was not a thread's store."""
    timeline = position.timeline
    seen: list[tuple[int, Focus | None]] = []
    known: dict[int, bytes | None] = {}

    def accessed(machine: Machine, group: Group, access: MemoryAccess) -> None:
        if access.kind == READ:
            return
        found = np.flatnonzero(target.touching(machine, group, access).reshape(-1))
        if len(found):
            thread = int(group.selection.threads.reshape(-1)[found[-1]])
            cta = machine.cta_at(int(group.selection.ctas.reshape(-1)[found[-1]]))
            seen.append((timeline.step, Focus(cta, thread >> 5, thread & 31)))

    def asked(machine: Machine, group: Group, instruction: Instruction) -> int:
        now = target.read(machine.launch, machine)
        run = id(timeline.state)
        before = known.get(run)
        changed = before is not None and now is not None and now != before
        known[run] = now
        if now is None and target.location.space == "local" and machine.column_of(target.focus.cta) is not None:
            known[run] = b""  # its frame comes with a call
        stored = bool(seen) and seen[-1][0] == timeline.step - 1
        if changed and not stored:
            seen.append((timeline.step - 1, None))
        return 2 if changed or stored else 0

    timeline.accessed = accessed
    try:
        step = timeline.latest(asked, places=writers(target, timeline.state))
    finally:
        timeline.accessed = None
    return step, next((who for at, who in reversed(seen) if at == step), None)


def _sources(instruction: Instruction) -> list[str]:
    """The values that an instruction reads, as expressions. A load reads its address and the memory there."""
    found: list[str] = []
    if instruction.guard is not None:
        found.append(instruction.guard[0].name)
    n_dest = instruction.form.n_dest
    for operand in (*instruction.inputs, *(instruction.operands[:1] if n_dest == 0 else ())):
        found += _read_by(operand, instruction)
    return list(dict.fromkeys(found))


def _read_by(operand: Operand, instruction: Instruction) -> list[str]:
    """The values that an operand reads."""
    if operand.base is not None:
        return _read_at(operand.base, operand.offset, instruction)
    if operand.elements is not None:
        return [name for element in operand.elements for name in _read_by(element, instruction)]
    name = _name_of(operand)
    return [name] if name else []


def _name_of(operand: Operand) -> str:
    """A single value as an expression; empty for a constant."""
    if operand.register is not None:
        return operand.register.name
    if operand.variable is not None:
        return f"&{operand.variable.name}"
    return operand.special and f"%{operand.special}"


def _read_at(base: Operand, offset: int, instruction: Instruction) -> list[str]:
    """The register of an address, and what a load finds there."""
    type = instruction.op.get("type")
    if base.parameter is not None:
        return [base.parameter.name] if instruction.form.n_dest else []
    found = [base.register.name] if base.register is not None else []
    if instruction.form.n_dest and type is not None:
        space = next(iter(instruction.traits.spaces), "generic").split("::")[0]
        if space == "param" and base.variable is not None:
            space = "local"  # arguments and results of a call are in the frame
        found.append(f"{space if space in ex.SPACES else 'generic'}.{type.name}[{_name_of(base) or 0} + {offset}]")
    return found
