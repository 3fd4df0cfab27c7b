"""Where the lanes of a group stand after a region: at one place, or in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.control import compact, fork
from warpsim.machine.selection import Lanes, split
from warpsim.native.regions.region import Region, live_at
from warpsim.native.runtime.lane_tables import WarpTables

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group


def first_stop(machine: Machine, group: Group, region: Region, common: int, exits: Any, lanes: Any) -> int:
    """The lowest block in which any lane has stopped that has more to do, or whose end somebody waits for; ``common`` is the exit
    of all lanes, -1 where they have left by several."""
    numbers = [common] if common >= 0 else _exits(region, exits, lanes)
    waits = machine.waits()
    stops = (region.exits[n][0] for n in numbers if waits or not _ends(group, region, n))
    return min(stops, default=len(group.plan.blocks))


def _exits(region: Region, exits: Any, lanes: Any) -> list[int]:
    """The exits by which any lane has left."""
    reached = np.zeros(len(region.exits) + 1, np.bool_)  # the last: none
    reached[exits] = True
    if reached[-1]:  # lanes of a warp are at several places
        reached[lanes[: len(exits) * 32].reshape(-1, 32)[exits < 0]] = True
    return np.flatnonzero(reached[:-1]).tolist()


def _ends(group: Group, region: Region, exit: int) -> bool:
    """Whether threads leave the kernel at an exit."""
    block, at = region.exits[exit]
    steps = group.plan.blocks[block].instructions
    return at < len(steps) and steps[at].guard is None and steps[at].traits.leaves and not group.stack


def all_leave(machine: Machine, group: Group, region: Region, common: int) -> bool:
    """Whether all threads of a batch are about to leave the kernel, at one exit, and nobody else needs its memory."""
    if common < 0 or machine.launch.cluster != (1, 1, 1) or group.selection.n != machine.batch.shape.n:
        return False
    return _ends(group, region, common)


def leave(
    machine: Machine, group: Group, region: Region, common: int, exits: Any, lanes: Any, tables: WarpTables
) -> None:
    """The group stands where its lanes have left; where these are several places, the parts are made runnable."""
    places = region.exits
    if common >= 0:
        group.block, group.at = places[common]
        return
    ids = _ids(group, exits, lanes, tables)
    numbers = np.unique(ids).tolist()
    live = frozenset().union(*(live_at(group.plan, *places[n]) for n in numbers))
    whole = isinstance(group.selection, Lanes)
    if not whole:
        group.flush(live)
    for number in numbers:
        if whole:
            part = compact(machine, group, np.flatnonzero(ids == number), live)
        else:
            part = fork(machine, group, split(group.selection, ids == number)[0])
        part.block, part.at = places[number]
        machine.push(part)
    group.block = -1


def _ids(group: Group, exits: Any, lanes: Any, tables: WarpTables) -> Any:
    """Where each lane has left, in the group's shape."""
    n = tables.n
    every = np.where(exits[:, None] >= 0, exits[:, None], lanes[: n * 32].reshape(n, 32))
    present = (tables.masks[tables.rows][:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1) != 0
    t1, t0 = (t.reshape(-1, 32)[tables.rows] for t in (tables.t1, tables.t0))
    shape = group.selection.shape
    if len(shape) == 1:
        out = np.empty(shape, np.int32)
        out[t0[present]] = every[present]
        return out
    n1, n0, m1, m0 = shape
    out = np.empty((n1 * n0, m1 * m0), np.int32)
    columns = np.broadcast_to((tables.c1 * m0 + tables.c0)[tables.ctas][:, None], present.shape)
    out[(t1 * n0 + t0)[present], columns[present]] = every[present]
    return out.reshape(shape)
