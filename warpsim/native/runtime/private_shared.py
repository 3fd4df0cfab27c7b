"""Shared memory as a region has it while it runs: for each CTA its own, in a row, with marks of what is written behind it.

The region works on this copy, so that one that gives up has changed nothing. Where all threads end with the region, nobody
needs what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.native.regions.region import Region

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.native.runtime.lane_tables import WarpTables

LARGE = 2048
"""Bytes of shared memory that are copied even for a region that goes through its blocks once."""
PADDING = 64
"""Bytes behind a CTA's memory and behind its marks."""
ALL = np.uint32(0xFFFFFFFF)


def wants_copy(machine: Machine, region: Region) -> bool:
    """Whether a region gets a copy."""
    if not region.shared:
        return False
    size = machine.batch.shared.size
    return size > 0 and (region.loops or bool(region.barriers) or size <= LARGE)


@attrs.define(eq=False)
class Private:
    """The copy of one call."""

    machine: Machine
    group: Group
    region: Region
    columns: Any
    data: Any
    marks: Any
    tracked: bool

    def copy_out(self) -> None:
        """The region is done, and somebody is left: what it has stored goes to the batch."""
        if not {"shared", "generic"} & self.region.stored:
            return
        for space, kept in (
            (self.machine.batch.shared, self.data),
            (self.machine.batch.shared.shadow, self.marks if self.tracked else None),
        ):
            if kept is None or space is None:
                continue
            n_words = -(-space.size // 4)
            words = kept[:, :n_words].T
            if len(self.columns) == space.n_columns:
                space.words[:n_words] = words
            else:
                space.words[:n_words, self.columns] = words


def copy_in(
    machine: Machine, group: Group, region: Region, tables: WarpTables, scratch: Any, *, one_by_one: bool
) -> Private:
    """The copy for a call, described in its context. ``one_by_one``: CTAs that begin, and whose memory nobody needs when they
    have ended, have the same one after each other."""
    space = machine.batch.shared
    marked: Any = space.shadow
    tracked = marked is not None and bool(marked.open)
    n_words, n_ctas = -(-space.size // 4), 1 if one_by_one else tables.n_ctas
    half = -(-(n_words * 4 + PADDING) // 64) * 64
    if half % 4096 == 0:
        half += 64  # or the memories of all CTAs would lie in the same lines of the cache
    copies = scratch.array("private", n_ctas * half // 2, np.uint32)[: n_ctas * half // 2].reshape(n_ctas, half // 2)
    cleans = scratch.array("cleans", tables.n_ctas, np.int64)[: tables.n_ctas]
    data, marks = copies[:, : half // 4], copies[:, half // 4 :]
    columns = tables.columns
    whole = n_ctas == space.n_columns
    if one_by_one:
        cleans[...] = 0 if tracked else space.size
    elif _fresh(machine, group, region):
        if tracked:
            copies[...] = 0
        else:
            data[...] = 0
        cleans[...] = 0 if tracked else space.size
    else:
        words = space.words[:n_words]
        data[:, :n_words] = (words if whole else words[:, columns]).T
        cleans[...] = space.size
        if tracked:
            words = marked.words[:n_words]
            marks[:, :n_words] = (words if whole else words[:, columns]).T
            open_ = marks[:, :n_words] != ALL
            cleans[...] = np.where(open_.any(axis=1), open_.argmax(axis=1) * 4, space.size)
    scratch.put("private_bytes", half * 2)
    scratch.put("private_stride", 0 if one_by_one else half * 2)
    scratch.put("private_tracked", int(tracked))
    return Private(machine, group, region, columns, data, marks, tracked)


def _fresh(machine: Machine, group: Group, region: Region) -> bool:
    """Whether nothing has run before: shared memory is all zero and nothing of it written."""
    entry = region.entry
    if (
        (entry.block, entry.first) != (0, 0)
        or group.stack
        or group.back_edges
        or group.plan is not machine.launch.plan.main
    ):
        return False
    if group.selection.n != machine.batch.shape.n:
        return False
    return not any(0 in block.successors for block in group.plan.blocks)
