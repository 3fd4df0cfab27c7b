"""Breakpoints, watchpoints and catchpoints, the places that they name, and the names that a condition may use."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
from numpy.typing import ArrayLike

from warpsim.debug import expressions as ex
from warpsim.debug.errors import DebugError, number
from warpsim.debug.evaluation import CUDA, Context
from warpsim.debug.matrices import Matrix, matrix_at, nearest_matrix
from warpsim.debug.symbols import symbols_of
from warpsim.debug.threads import Focus, group_states, holds, of_type, peek, places, warps_in
from warpsim.debug.timeline import Timeline
from warpsim.debug.values import Location
from warpsim.host.options import EVERY
from warpsim.isa.traits import Family, Stage
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Array
from warpsim.machine.watcher import MemoryAccess
from warpsim.program.mangling import qualified_name
from warpsim.program.names import SPECIALS
from warpsim.program.program import Function, Instruction, Program, Register, line_column
from warpsim.records import define, frozen
from warpsim.report.rules import ALWAYS

EVENTS = {
    "arrival": "a warp arrives at a barrier of its CTA",
    "barrier": "a barrier of a CTA or a cluster completes, and threads pass it",
    "phase": "a thread observes that an mbarrier's phase has completed",
    "async": "asynchronous copies or wgmma complete: threads waited for them, or an mbarrier counted them",
    "visible": "data written by asynchronous copies becomes visible to the threads that observed their completion",
}
"""Events that a catchpoint can name, besides rules."""
LineColumn = tuple[int, int]
"""Line and column of an instruction."""
Change = tuple[ArrayLike, ArrayLike, str]
"""The old and the new value of what is watched, and a description of the change if they do not say it."""
TILE = re.compile(
    r"matrix\s+([a-z_]{1,12})\s*(?:\[\s*(\d{1,6})\s*(?::\s*(\d{1,6}))?\s*,\s*(\d{1,6})\s*(?::\s*(\d{1,6}))?\s*\])?"
)


@frozen(eq=False)
class RegisterTarget:
    """A register of a function, in the lane or the warp of ``focus``, or in any thread if ``focus`` is None."""

    function: str
    register: Register
    focus: Focus | None
    lane: int | None


@frozen(eq=False)
class MemoryTarget:
    """Bytes of a state space; for shared and local memory, those of one CTA and thread."""

    location: Location
    nbytes: int
    focus: Focus

    def read(self, launch: LaunchState, machine: Machine | None) -> bytes | None:
        """The bytes; None if they cannot be read, for example because the CTA is not running."""
        space, focus = self.location.space, self.focus
        column = machine.column_of(focus.cta) if machine is not None else None
        if space in ("shared", "local") and column is None:
            return None
        try:
            return Context(launch, machine, None, focus).place(space, self.location.address).read(self.nbytes)
        except DebugError:
            return None

    def touching(self, machine: Machine, group: Group, access: MemoryAccess) -> Array:
        """A mask, in the group's shape, of the threads whose access touches the bytes."""
        at, shape = self.location, group.selection.shape
        low, high = at.address, at.address + self.nbytes
        if at.space == "generic" or access.space.split("::")[0] != ("global" if at.space == "const" else at.space):
            return np.zeros(shape, np.bool_)
        place: Any = access.place
        address = (place.array() if hasattr(place, "array") else np.asarray(place)).astype(np.int64)
        inside = (address < high) & (address + access.nbytes > low)
        if access.allocation is None:
            column = machine.column_of(self.focus.cta)
            if column is None:
                return np.zeros(shape, np.bool_)
            mine = column
            if at.space == "local":
                mine = (self.focus.warp * 32 + self.focus.lane) * machine.batch.shape.n_ctas + column
            inside = inside & (np.asarray(access.columns) == mine)
        active = True if access.active is None else access.active
        return np.broadcast_to(inside, shape) & np.broadcast_to(active, shape)


@frozen(eq=False)
class TileTarget:
    """Rows and columns of a matrix instruction's operand, in the warp or warpgroup of ``focus``."""

    instruction: Instruction
    name: str
    rows: slice
    columns: slice
    focus: Focus


Target = RegisterTarget | MemoryTarget | TileTarget


@define(eq=False)
class Breakpoint:
    """Stops every warp that reaches a place.

    ``lines`` are the PTX lines of ``place``. ``hits`` counts how often it was reached with ``condition`` true; the next
    ``ignore`` hits do not stop.
    """

    number: int
    place: str
    locations: frozenset[LineColumn]
    condition: str | None
    ignore: int
    temporary: bool
    enabled: bool = True
    hits: int = 0

    @property
    def lines(self) -> tuple[int, ...]:
        """The PTX lines, ascending."""
        return tuple(sorted({line for line, _ in self.locations}))


@define(eq=False)
class Watchpoint:
    """Stops when an expression's value changes or is read.

    For a register, ``scope`` selects the threads: the ``lane`` or the ``warp`` that was in focus when the watchpoint
    was set, or ``any``. ``hits`` counts the changes with ``condition`` true for the warp that made them; the next
    ``ignore`` hits do not stop.
    """

    number: int
    expression: str
    read: bool
    write: bool
    scope: str
    target: Target
    condition: str | None = None
    ignore: int = 0
    temporary: bool = False
    enabled: bool = True
    hits: int = 0


@define(eq=False)
class Catchpoint:
    """Stops at an event or a broken rule, given by name."""

    number: int
    what: str
    enabled: bool = True
    hits: int = 0


Point = Breakpoint | Watchpoint | Catchpoint


def resolve(program: Program, place: int | str, function: str | None = None) -> frozenset[LineColumn]:
    """Find the instructions at a place: a PTX line, ``file.cu:12``, a label, a function, ``op:mma.sync*``.

    Labels are looked up in ``function`` first.

    Raises:
        DebugError: there is no such place; the message says what there is.
    """
    text = place.strip() if isinstance(place, str) else str(number("place", place))
    if not isinstance(place, str) or (text.isascii() and text.isdigit()):
        return _at_line(program, _line_number(text))
    if text.startswith("op:"):
        return _by_opcode(program, text[3:])
    source = re.fullmatch(r"(.+):([0-9]+)", text)
    if source is not None and source[1] not in program.functions:
        return _at_source(program, source[1], _line_number(source[2]))
    if text in program.functions:
        code = program.functions[text].code
        return frozenset({line_column(code[0])}) if code else frozenset()
    return _at_label(program, text, function)


def _line_number(text: str) -> int:
    if len(text) > 9:
        raise DebugError(f"there is no line {text[:20]}...")
    return int(text)


def _code(program: Program) -> Iterator[tuple[Function, Instruction]]:
    for function in program.functions.values():
        for instruction in function.code:
            yield function, instruction


def _at_line(program: Program, line: int) -> frozenset[LineColumn]:
    if not 1 <= line <= len(program.lines):
        raise DebugError(f"there is no line {line}: the module has {len(program.lines)} lines")
    here = frozenset(line_column(i) for _, i in _code(program) if i.span.line == line)
    if here:
        return here
    later = [i for _, i in _code(program) if i.span.line > line]
    if not later:
        raise DebugError(f"there is no instruction at or after line {line}")
    return _at_line(program, min(i.span.line for i in later))


def _by_opcode(program: Program, pattern: str) -> frozenset[LineColumn]:
    found = frozenset(line_column(i) for _, i in _code(program) if fnmatch.fnmatchcase(i.text, pattern))
    if not found:
        raise DebugError(f"no instruction matches {pattern!r}; opcodes: {_some({i.text for _, i in _code(program)})}")
    return found


def _at_source(program: Program, file: str, line: int) -> frozenset[LineColumn]:
    """The first instruction of each run compiled from a source line, or from the next line that has code."""
    lines: dict[int, set[LineColumn]] = {}
    files: set[str] = set()
    before: tuple[str, tuple[str, int] | None] | None = None
    for function, instruction in _code(program):
        source = instruction.source
        here = (function.name, source)
        if source is not None:
            files.add(source[0])
            if here != before and same_file(source[0], file):
                lines.setdefault(source[1], set()).add(line_column(instruction))
        before = here
    if not files:
        raise DebugError("the module has no line information: compile with -lineinfo")
    if not lines:
        raise DebugError(f"no code from {file}; files with code: {_some(files)}")
    later = [number for number in lines if number >= line]
    if not later:
        raise DebugError(f"{file} has no code at or after line {line}")
    return frozenset(lines[min(later)])


def later(function: Function, instruction: Instruction, *, lines: bool) -> frozenset[LineColumn]:
    """The instructions of a function in later lines than one of them: of the PTX, or of its CUDA file."""
    source = instruction.source
    if not lines or source is None:
        return frozenset(line_column(i) for i in function.code if i.span.line > instruction.span.line)
    found = (i for i in function.code if i.source is not None and i.source[0] == source[0] and i.source[1] > source[1])
    return frozenset(line_column(i) for i in found)


def same_file(known: str, asked: str) -> bool:
    """Whether a name means a file: it is the end of its path."""
    known, asked = known.replace(os.sep, "/"), asked.replace(os.sep, "/")
    return known == asked or known.endswith("/" + asked)


def _at_label(program: Program, name: str, function: str | None) -> frozenset[LineColumn]:
    wanted, _, label = name.rpartition(":")
    functions = [f for f in program.functions.values() if not wanted or f.name == wanted]
    functions.sort(key=lambda f: f.name != function)
    for candidate in functions:
        at = candidate.labels.get(label)
        if at is not None and at < len(candidate.code):
            return frozenset({line_column(candidate.code[at])})
    entered = symbols_of(program).entered(name)
    if entered:
        return frozenset(map(line_column, entered))
    labels = {known for f in functions for known in f.labels}
    raise DebugError(
        f"no function, label or line {name!r}; functions: {_some({*map(qualified_name, program.functions)})}; labels: {_some(labels)}"
    )


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return (", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")) or "none"


def check_condition(condition: str, program: Program, locations: frozenset[LineColumn] | None) -> None:
    """Check a condition of a breakpoint at some instructions, or, for None, of a watchpoint.

    Raises:
        DebugError: it is no expression, or has a name that stands for nothing in each of their functions.
    """
    node = ex.parse(condition)
    functions = [
        f for f in program.functions.values() if locations is None or any(line_column(i) in locations for i in f.code)
    ]
    missing = [unknown_name(node, function, program) for function in functions]
    if missing and all(missing):
        raise DebugError(f"no register, variable or parameter {missing[0]} in {functions[0].name}")


def unknown_name(node: ex.Node, function: Function, program: Program) -> str | None:
    """The first name of an expression that stands for nothing in a function."""
    known = {r.name for r in function.registers} | symbols_of(program).names(function)
    known |= {p.name for p in (*function.params, *function.returns)}
    known |= {name for v in (*function.variables, *program.variables) for name in (v.name, v.unique)}
    known |= {f"%{name}" for name in SPECIALS}
    return next((name for name in _names(node) if name not in known and not name.startswith("$")), None)


def _names(node: ex.Node) -> Iterator[str]:
    """The names in an expression; those of special registers with their components: ``%tid.x``."""
    match node:
        case ex.Name(text):
            yield text
        case ex.Field(ex.Name(text), name) if f"{CUDA.get(text, text[1:])}.{name}" in SPECIALS:
            yield f"%{CUDA.get(text, text[1:])}.{name}"
        case ex.Memory(base, _) if base not in ex.SPACES:
            yield base
        case _:
            for part in attrs.astuple(node, recurse=False):
                yield from _names(part) if attrs.has(type(part)) else ()


def check_event(name: str, checks: frozenset[str], *, others: bool) -> None:
    """Check that an event or rule of this name can occur in a launch with these checks. ``others``: user-defined
    watchers, which may have rules of their own, are present.

    Raises:
        DebugError: it cannot; the message lists the valid names.
    """
    if name in EVENTS or name in checks or name in ALWAYS:
        return
    if name in EVERY:
        raise DebugError(f"this launch does not check {name}: start it with checks='default+{name}'")
    if not others:
        rules = ", ".join(sorted((checks & EVERY) | ALWAYS))
        raise DebugError(f"no event or rule {name!r}; events: {', '.join(EVENTS)}; rules: {rules}")


# ---- what is watched -----------------------------------------------------------------------------


def target_of(context: Context, text: str, scope: str, *, read: bool) -> RegisterTarget | MemoryTarget:
    """The target that an expression names: a register, ``%r3[5]`` (lane 5), or an object in memory.

    Raises:
        DebugError: it names nothing that can be watched.
    """
    node, lane = ex.parse(text), context.focus.lane if scope == "lane" else None
    match node:
        case ex.Index(ex.Name(name), ex.Number(number), None) if context.register(name) is not None:
            if not 0 <= number < 32:
                raise DebugError(f"lane must be 0 to 31, not {number}")
            node, lane, scope = ex.Name(name), int(number), "lane"
    register = context.register_named(node.text) if isinstance(node, ex.Name) else None
    if register is not None:
        if read:
            raise DebugError("reads of registers cannot be watched; set breakpoints at the lines that read it")
        assert context.group is not None
        return RegisterTarget(
            context.group.plan.function.name, register, None if scope == "any" else context.focus, lane
        )
    at = context.lvalue(node)
    if at is None:
        context.evaluate(node)  # raises if the expression has errors
        raise DebugError("watch a register, a variable, or memory such as s[3], global.u32[0x7f00000000]")
    if isinstance(at.address, np.ndarray):
        at = attrs.evolve(at, address=int(at.address[context.focus.lane]))
    nbytes = at.nbytes
    place, focus = context.place(at.space, at.address), context.focus
    place.read(nbytes)
    if at.space == "generic":
        at = attrs.evolve(at, space=place.space, address=place.address)
    if at.space == "shared" and context.machine is not None:
        column, address = place.of_whom(nbytes)
        at, focus = attrs.evolve(at, address=address), attrs.evolve(focus, cta=context.machine.cta_at(column))
    return MemoryTarget(at, nbytes, focus)


def tile_of(context: Context, text: str, instruction: Instruction | None) -> TileTarget | None:
    """Parse ``matrix d``, ``matrix d[3,7]`` or ``matrix d[0:8,0:8]``; None if the text starts with another word.

    Raises:
        DebugError: the operand has no such part.
    """
    if text.split(None, 1)[:1] != ["matrix"]:
        return None
    found = TILE.fullmatch(text.strip().lower())
    if found is None:
        raise DebugError("watch matrix OPERAND, matrix OPERAND[row,column] or matrix OPERAND[from:to,from:to]")
    at = nearest_matrix(context, instruction)
    whole = matrix_at(context, at, found[1])
    parts = []
    for size, first, stop in zip(whole.values.shape, (found[2], found[4]), (found[3], found[5]), strict=True):
        low = int(first) if first else 0
        high = int(stop) if stop else low + 1 if first else size
        if not 0 <= low < high <= size:
            raise DebugError(f"{whole.name} is {whole.values.shape[0]} x {whole.values.shape[1]}")
        parts.append(slice(low, high))
    return TileTarget(at, found[1], parts[0], parts[1], context.focus)


class RegisterWatch:
    """Follows a register from step to step."""

    def __init__(self, target: RegisterTarget) -> None:
        self.target = target
        self._before: list[tuple[Machine, Focus, Array, Array]] = []

    def changed(self, machine: Machine, group: Group, instruction: Instruction) -> Change | None:
        """The old and new value if the last step changed it, else None. Notes the step that comes next."""
        found = next((change for before in self._before if (change := self._compare(*before)) is not None), None)
        self._before = []
        target, watched = self.target, self.target.focus
        if group.plan.function.name == target.function and may_write(instruction, target.register.index):
            for focus in warps_in(machine, group):
                if watched is None or (watched.cta, watched.warp) == (focus.cta, focus.warp):
                    at = places(machine, group, focus)
                    self._before.append((machine, focus, at >= 0, self._values(group, at)))
        return found

    def _values(self, group: Group, at: Array) -> Array:
        return of_type(peek(group, self.target.register.index)[at].copy(), self.target.register.type.dtype)

    def _compare(self, machine: Machine, focus: Focus, lanes: Array, before: Array) -> Change | None:
        """The old and new value in a warp of which ``lanes`` have executed a step."""
        after, known = before.copy(), np.zeros(32, np.bool_)
        for at in group_states(machine) if machine.column_of(focus.cta) is not None else ():
            if at.group.plan.function.name == self.target.function:
                where = places(machine, at.group, focus)
                here = where >= 0
                after[here], known[here] = self._values(at.group, where)[here], True
        lane = self.target.lane
        if lane is not None:
            known &= np.arange(32) == lane
        different = known & lanes & (_raw(before) != _raw(after))
        if not different.any():
            return None
        if lane is not None:
            return before[lane], after[lane], ""
        mask = ~lanes
        return np.ma.MaskedArray(before, mask), np.ma.MaskedArray(after, mask), ""


def may_write(instruction: Instruction, register: int) -> bool:
    """Whether a step may change a register."""
    return instruction.traits.is_async(Family.WGMMA, Stage.WAIT) or register in instruction.writes


def _raw(values: Array) -> Array:
    """Elements as bits, so that equal NaNs compare equal."""
    return values if values.dtype.itemsize > 8 or values.dtype.kind == "b" else values.view(f"u{values.dtype.itemsize}")


class MemoryWatch:
    """Follows bytes of memory from step to step."""

    def __init__(self, target: MemoryTarget, launch: LaunchState, machine: Machine | None) -> None:
        self.target = target
        self._known = target.read(launch, machine)

    def changed(self, machine: Machine, group: Group, instruction: Instruction) -> Change | None:
        """The old and new content if it has changed, else None."""
        if self.target.location.space in ("shared", "local") and machine.column_of(self.target.focus.cta) is None:
            return None
        old, new = self._known, self.target.read(machine.launch, machine)
        self._known = new
        return None if old is None or new is None or old == new else (self._shown(old), self._shown(new), "")

    def _shown(self, raw: bytes) -> Array:
        location = self.target.location
        if location.of is not None:
            return np.asarray(np.frombuffer(raw, location.of.dtype)[0])
        dtype = location.type.dtype
        values = np.frombuffer(raw, dtype if dtype != np.bool_ else np.uint8)
        return values[0] if location.count is None and len(values) == 1 else values


class TileWatch:
    """Follows a tile, and compares it after each step that may have changed it."""

    def __init__(self, target: TileTarget, machines: list[Machine]) -> None:
        self.target = target
        self._written = registers_of(target.instruction)
        self._pending = False
        self._known: tuple[Array, Array] | None = None
        for machine in machines:
            if machine.column_of(target.focus.cta) is not None:
                found = self._matrix(machine)
                self._known = None if found is None else self._part(found)

    def _matrix(self, machine: Machine) -> Matrix | None:
        """The operand's current value; None if its threads do not stand in its function."""
        for at in group_states(machine):
            if holds(machine, at.group, self.target.focus):
                context = Context(machine.launch, machine, at.group, self.target.focus)
                try:
                    return matrix_at(context, self.target.instruction, self.target.name)
                except DebugError:
                    return None
        return None

    def _part(self, matrix: Matrix) -> tuple[Array, Array]:
        index = self.target.rows, self.target.columns
        return np.ma.getdata(matrix.values)[index].copy(), np.ma.getmaskarray(matrix.values)[index].copy()

    def changed(self, machine: Machine, group: Group, instruction: Instruction) -> Change | None:
        """The old and new tile and a description if the last step changed it, else None. Notes the step that comes
        next."""
        here = machine.column_of(self.target.focus.cta) is not None
        pending, self._pending = self._pending, here and may_change(instruction, self._written)
        if not pending or not here:
            return None
        matrix, known = self._matrix(machine), self._known
        if matrix is None:
            return None
        data, away = self._part(matrix)
        self._known = data, away
        if known is None or known[0].shape != data.shape:
            return None
        size = data.dtype.itemsize
        raw = [np.ascontiguousarray(values).view(np.uint8).reshape(*data.shape, size) for values in (known[0], data)]
        different = (raw[0] != raw[1]).any(axis=-1) & ~known[1] & ~away
        if not different.any():
            return None
        row, column = (int(index[0]) for index in np.nonzero(different))
        at = row + self.target.rows.start, column + self.target.columns.start
        more = int(np.count_nonzero(different)) - 1
        text = f"{matrix.name}[{at[0]},{at[1]}] ({matrix.owner(*at)}): {known[0][row, column]} to {data[row, column]}"
        if more:
            text += f"; {more} elements more"
        return np.ma.MaskedArray(known[0], known[1]), np.ma.MaskedArray(data, away), text


def may_change(instruction: Instruction, registers: frozenset[int]) -> bool:
    """Whether a step may change a matrix in these registers, or in memory."""
    traits = instruction.traits
    if traits.is_async(Family.WGMMA, Stage.WAIT) or traits.spaces or traits.polls:
        return True
    return not registers.isdisjoint(instruction.writes)


def registers_of(instruction: Instruction) -> frozenset[int]:
    """The registers of all operands."""
    parts = [part for operand in instruction.operands for part in operand.parts]
    return frozenset(part.register.index for part in parts if part.register is not None)


Watch = RegisterWatch | MemoryWatch | TileWatch


def watch_of(target: Target, timeline: Timeline) -> Watch:
    """Begin to follow a target, from its value at this position."""
    if isinstance(target, RegisterTarget):
        return RegisterWatch(target)
    if isinstance(target, TileTarget):
        return TileWatch(target, timeline.machines())
    return MemoryWatch(target, timeline.state, timeline.machine_of(target.focus))
