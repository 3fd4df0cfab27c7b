"""Watchpoints on a matrix operand, or on a tile of it."""

from __future__ import annotations

import re
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.debug.evaluation import Scene
from warpsim.debug.given import DebugError
from warpsim.debug.matrices import matrix_at, nearest_matrix
from warpsim.debug.matrix import Matrix
from warpsim.debug.places import Focus, column_of, holds, standing
from warpsim.isa.traits import Family, Stage
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.program.program import Instruction

Array = NDArray[Any]
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
