"""The warp that a debugger looks at, and where its lanes stand in a group."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.machine.machine import Machine
from warpsim.machine.reporting import locate
from warpsim.machine.state.group import Group
from warpsim.machine.values import as_array

Array = NDArray[Any]


@attrs.frozen
class Focus:
    """A warp: ``cta`` is (x, y, z), ``warp`` its number in the CTA."""

    cta: tuple[int, int, int]
    warp: int

    def places(self, machine: Machine, group: Group, threads: int = 32) -> Array:
        """Where the lanes of the warp (128 threads: of its warpgroup) stand among a group's threads; -1: elsewhere."""
        machine, (gx, gy, _) = machine, machine.launch.grid
        x, y, z = self.cta
        column = np.flatnonzero(np.asarray(machine.batch.ctas) == x + gx * (y + gy * z))
        if not len(column):
            return np.full(threads, -1)
        first = self.warp * 32 // threads * threads
        wanted = (first + np.arange(threads)) * machine.batch.shape.n_ctas + column[0]
        positions = group.selection.positions.reshape(-1)
        order = np.argsort(positions)
        at = np.minimum(np.searchsorted(positions, wanted, sorter=order), len(positions) - 1)
        found = order[at]
        return np.where(positions[found] == wanted, found, -1)

    def stands_in(self, machine: Machine, group: Group) -> bool:
        """Whether any lane of the warp is among a group's threads."""
        return bool((self.places(machine, group) >= 0).any())


def focus_of(machine: Machine, group: Group) -> Focus:
    """The first warp of a group."""
    cta, warp, _ = locate(machine.launch, machine.batch, group, None)
    return Focus(cta, warp)


def column(group: Group, index: int, places: Array) -> Array:
    """A register's values at these places of a group, as it holds them; what stands for -1 means nothing."""
    value = as_array(group.read(index))
    return np.broadcast_to(value, group.selection.shape).reshape(-1)[places]
