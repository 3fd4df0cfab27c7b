"""The targets of watchpoints (registers, memory, tiles of matrices), and whether a step has changed them."""

from __future__ import annotations

import re
from typing import Any

import attrs
import numpy as np

from warpsim.debug import expressions as ex
from warpsim.debug.errors import DebugError
from warpsim.debug.evaluation import Scene
from warpsim.debug.matrices import Matrix, matrix_at, nearest_matrix
from warpsim.debug.memory import Place
from warpsim.debug.threads import Focus, column_of, cta_at, holds, of_type, peek, places, standing, warps_in
from warpsim.debug.values import Location
from warpsim.isa.traits import Family, Stage
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Array
from warpsim.machine.watcher import MemoryAccess
from warpsim.program.program import Instruction, Register


@attrs.frozen(eq=False)
class RegisterTarget:
    """A register of a function, in the lane or the warp of ``focus``, or in any thread if ``focus`` is None."""

    function: str
    register: Register
    focus: Focus | None
    lane: int | None


@attrs.frozen(eq=False)
class MemoryTarget:
    """Bytes of a state space; for shared and local memory, those of one CTA and thread."""

    location: Location
    nbytes: int
    focus: Focus

    def read(self, launch: LaunchState, machine: Machine | None) -> bytes | None:
        """The bytes; None if they cannot be read, for example because the CTA is not running."""
        space, focus = self.location.space, self.focus
        column = column_of(machine, focus.cta) if machine is not None else None
        if space in ("shared", "local") and column is None:
            return None
        thread = focus.warp * 32 + focus.lane
        try:
            return Place(launch, space, self.location.address, machine, column or 0, thread).read(self.nbytes)
        except DebugError:
            return None


def target_of(scene: Scene, text: str, scope: str, *, read: bool) -> RegisterTarget | MemoryTarget:
    """The target that an expression names: a register, ``%r3[5]`` (lane 5), or an object in memory.

    Raises:
        DebugError: it names nothing that can be watched.
    """
    node, lane = ex.parse(text), scene.focus.lane if scope == "lane" else None
    match node:
        case ex.Index(ex.Name(name), ex.Number(number), None) if scene.register(name) is not None:
            if not 0 <= number < 32:
                raise DebugError(f"lane must be 0 to 31, not {number}")
            node, lane, scope = ex.Name(name), int(number), "lane"
    register = scene.register(node.text) if isinstance(node, ex.Name) else None
    if register is not None:
        if read:
            raise DebugError("reads of registers cannot be watched; set breakpoints at the lines that read it")
        assert scene.group is not None
        return RegisterTarget(scene.group.plan.function.name, register, None if scope == "any" else scene.focus, lane)
    at = location_of(scene, node)
    if at is None:
        scene.evaluate(node)  # raises if the expression has errors
        raise DebugError("watch a register, a variable, or memory such as s[3], global.u32[0x7f00000000]")
    if isinstance(at.address, np.ndarray):
        at = attrs.evolve(at, address=int(at.address[scene.focus.lane]))
    nbytes = at.each * (1 if at.count is None else at.count)
    place, focus = scene.place(at.space, at.address), scene.focus
    place.read(nbytes)
    if at.space == "shared" and scene.machine is not None:
        column, address = place.of_whom(nbytes)
        at, focus = attrs.evolve(at, address=address), attrs.evolve(focus, cta=cta_at(scene.machine, column))
    return MemoryTarget(at, nbytes, focus)


def location_of(scene: Scene, node: ex.Node) -> Location | None:
    """The location of an expression in memory; None if it has none."""
    if isinstance(node, ex.Index):
        stop = scene.evaluate(node.stop) if node.stop is not None else None
        return scene.location(node.base, scene.evaluate(node.index), stop)
    if isinstance(node, ex.Name) and scene.register(node.text) is None:
        return scene.variable(node.text)
    return None


class RegisterWatch:
    """Follows a register from step to step."""

    def __init__(self, target: RegisterTarget) -> None:
        self.target = target
        self._writes: dict[int, bool] = {}
        self._before: list[tuple[Machine, Focus, Array, Array]] = []

    def changed(self, machine: Machine, group: Group, instruction: Instruction) -> tuple[Any, Any] | None:
        """The old and new value if the last step changed it, else None. Notes the step that comes next."""
        found = next((change for before in self._before if (change := self._compare(*before)) is not None), None)
        self._before = []
        if self._may_write(instruction) and group.plan.function.name == self.target.function:
            watched = self.target.focus
            for focus in warps_in(machine, group):
                if watched is None or (watched.cta, watched.warp) == (focus.cta, focus.warp):
                    at = places(machine, group, focus)
                    self._before.append((machine, focus, at >= 0, self._values(group, at)))
        return found

    def _may_write(self, instruction: Instruction) -> bool:
        found = self._writes.get(id(instruction))
        if found is None:
            late = instruction.traits.is_async(Family.WGMMA, Stage.WAIT)
            found = late or self.target.register.index in instruction.writes
            self._writes[id(instruction)] = found
        return found

    def _values(self, group: Group, at: Array) -> Array:
        return of_type(peek(group, self.target.register.index)[at].copy(), self.target.register.type.dtype)

    def _compare(self, machine: Machine, focus: Focus, lanes: Array, before: Array) -> tuple[Any, Any] | None:
        """The old and new value in a warp of which ``lanes`` have executed a step."""
        after, known = before.copy(), np.zeros(32, np.bool_)
        for at in standing(machine) if column_of(machine, focus.cta) is not None else ():
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
            return before[lane], after[lane]
        mask = ~lanes
        return np.ma.MaskedArray(before, mask), np.ma.MaskedArray(after, mask)


def _raw(values: Array) -> Array:
    """Elements as bits, so that equal NaNs compare equal."""
    return values if values.dtype.itemsize > 8 or values.dtype.kind == "b" else values.view(f"u{values.dtype.itemsize}")


class MemoryWatch:
    """Follows bytes of memory from step to step."""

    def __init__(self, target: MemoryTarget, scene: Scene) -> None:
        self.target = target
        self._known = target.read(scene.launch, scene.machine)

    def changed(self, machine: Machine, scene: Scene) -> tuple[Any, Any] | None:
        """The old and new content if it has changed."""
        if self.target.location.space in ("shared", "local") and column_of(machine, self.target.focus.cta) is None:
            return None
        old, new = self._known, self.target.read(scene.launch, machine)
        self._known = new
        if old is None or new is None or old == new:
            return None
        return self._shown(scene, old), self._shown(scene, new)

    def _shown(self, scene: Scene, raw: bytes) -> Any:
        dtype = self.target.location.type.dtype
        values = np.frombuffer(raw, dtype if dtype != np.bool_ else np.uint8)
        return values[0] if self.target.location.count is None and len(values) == 1 else values

    def touches(self, machine: Machine, group: Group, access: MemoryAccess) -> bool:
        """Whether an access touches the bytes."""
        return bool(self.touching(machine, group, access).any())

    def touching(self, machine: Machine, group: Group, access: MemoryAccess) -> Array:
        """A mask, in the group's shape, of the threads whose access touches the bytes."""
        at, shape = self.target.location, group.selection.shape
        low, high = at.address, at.address + self.target.nbytes
        if at.space == "generic" or access.space.split("::")[0] != ("global" if at.space == "const" else at.space):
            return np.zeros(shape, np.bool_)
        place: Any = access.place
        address = (place.array() if hasattr(place, "array") else np.asarray(place)).astype(np.int64)
        inside = (address < high) & (address + access.nbytes > low)
        if access.allocation is None:
            column = column_of(machine, self.target.focus.cta)
            if column is None:
                return np.zeros(shape, np.bool_)
            mine = column
            if at.space == "local":
                mine = (self.target.focus.warp * 32 + self.target.focus.lane) * machine.batch.shape.n_ctas + column
            inside = inside & (np.asarray(access.columns) == mine)
        active = True if access.active is None else access.active
        return np.broadcast_to(inside, shape) & np.broadcast_to(active, shape)


TILE = re.compile(
    r"matrix\s+([a-z_]{1,12})\s*(?:\[\s*(\d{1,6})\s*(?::\s*(\d{1,6}))?\s*,\s*(\d{1,6})\s*(?::\s*(\d{1,6}))?\s*\])?"
)


@attrs.frozen(eq=False)
class TileTarget:
    """Rows and columns of a matrix instruction's operand, in the warp or warpgroup of ``focus``."""

    instruction: Instruction
    name: str
    rows: slice
    columns: slice
    focus: Focus


def tile_of(scene: Scene, text: str, instruction: Instruction | None) -> TileTarget | None:
    """Parse ``matrix d``, ``matrix d[3,7]`` or ``matrix d[0:8,0:8]``; None if the text starts with another word.

    Raises:
        DebugError: the operand has no such part.
    """
    if text.split(None, 1)[:1] != ["matrix"]:
        return None
    found = TILE.fullmatch(text.strip().lower())
    if found is None:
        raise DebugError("watch matrix OPERAND, matrix OPERAND[row,column] or matrix OPERAND[from:to,from:to]")
    at = nearest_matrix(scene, instruction)
    whole = matrix_at(scene, at, found[1])
    parts = []
    for size, first, stop in zip(whole.values.shape, (found[2], found[4]), (found[3], found[5]), strict=True):
        low = int(first) if first else 0
        high = int(stop) if stop else low + 1 if first else size
        if not 0 <= low < high <= size:
            raise DebugError(f"{whole.name} is {whole.values.shape[0]} x {whole.values.shape[1]}")
        parts.append(slice(low, high))
    return TileTarget(at, found[1], parts[0], parts[1], scene.focus)


class TileWatch:
    """Follows a tile, and compares it after each step that may have changed it."""

    def __init__(self, target: TileTarget, machines: list[Machine]) -> None:
        self.target = target
        self._written = _registers_of(target.instruction)
        self._pending = False
        self._known: tuple[Array, Array] | None = None
        for machine in machines:
            if column_of(machine, target.focus.cta) is not None:
                found = self._matrix(machine)
                self._known = None if found is None else self._part(found)

    def _matrix(self, machine: Machine) -> Matrix | None:
        """The operand's current value; None if its threads do not stand in its function."""
        for at in standing(machine):
            if holds(machine, at.group, self.target.focus):
                scene = Scene(machine.launch, machine, at.group, self.target.focus)
                try:
                    return matrix_at(scene, self.target.instruction, self.target.name)
                except DebugError:
                    return None
        return None

    def _part(self, matrix: Matrix) -> tuple[Array, Array]:
        index = self.target.rows, self.target.columns
        return np.ma.getdata(matrix.values)[index].copy(), np.ma.getmaskarray(matrix.values)[index].copy()

    def changed(self, machine: Machine, group: Group, instruction: Instruction) -> tuple[Any, Any, str] | None:
        """The old and new tile and a description if the last step changed it, else None. Notes the step that comes
        next.
        """
        pending, self._pending = self._pending, self._may_change(machine, instruction)
        if not pending or column_of(machine, self.target.focus.cta) is None:
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

    def _may_change(self, machine: Machine, instruction: Instruction) -> bool:
        """Whether a step may change the operand: it writes one of its registers, or the operand is in memory."""
        if column_of(machine, self.target.focus.cta) is None:
            return False
        traits = instruction.traits
        if traits.is_async(Family.WGMMA, Stage.WAIT) or traits.spaces or traits.polls:
            return True
        return not self._written.isdisjoint(instruction.writes)


def _registers_of(instruction: Instruction) -> frozenset[int]:
    """The registers of all operands."""
    parts = [part for operand in instruction.operands for part in operand.parts]
    return frozenset(part.register.index for part in parts if part.register is not None)
