"""The memories that regions access, as they lie in the host's; shared memory as a region has it while it runs."""

from __future__ import annotations

import operator
import weakref
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.native.addresses import address_of
from warpsim.native.regions.region import Region
from warpsim.native.runtime.context import CONTEXT, OWN, SEEN
from warpsim.native.runtime.scratch import Scratch
from warpsim.numerics.arrays import Array
from warpsim.records import define

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import GlobalMemory
    from warpsim.machine.state.group import Group
    from warpsim.native.runtime.compiled_region import CompiledRegion
    from warpsim.native.runtime.lane_tables import WarpTables


_REFERENT = weakref.ref.__call__
_ALLOCATIONS, _MEMO = CONTEXT["n_allocations"], CONTEXT["memo"]


class MemoryViews:
    """Describes them in the context of calls, and tells who waits for memory what calls have changed."""

    def __init__(self) -> None:
        self._held: list[weakref.ref[object]] | None = None
        """What the table of allocations was made of. None before there is one."""
        self._table = array("q")
        self._address = 0

    def describe(self, machine: Machine, code: CompiledRegion, context: Array) -> None:
        """Before a call."""
        memory, batch, spaces = machine.launch.memory, machine.batch, code.spaces
        if code.region.stored:
            _own(machine, spaces)
        if "global" in spaces:
            count, address = self.allocations(memory)
            context[_ALLOCATIONS], context[_ALLOCATIONS + 1], context[_MEMO] = count, address, address
        if "shared" not in spaces and "local" not in spaces:
            return
        for name, space in (("shared", batch.shared), ("local", batch.local)):
            if name not in spaces:
                continue
            at = CONTEXT[name + "_words"]
            if name == "shared" and code.variant.private:
                context[at + 1] = space.size
                continue
            marks: Any = space.shadow
            tracked = 0 if marks is None or not marks.open else address_of(marks.words)
            context[at : at + 4] = address_of(space.words), space.size, space.n_columns, tracked

    def allocations(self, memory: GlobalMemory) -> tuple[int, int]:
        """How many there are, and the address of their table, which is rebuilt where any of them has moved."""
        made_of, allocations = list[object](), memory.allocations
        for a in allocations:
            made_of += a, a.data, a if a.shadow is None else a.shadow.data
        held = self._held
        if held is None or len(held) != len(made_of) or any(map(operator.is_not, map(_REFERENT, held), made_of)):
            self._held = list(map(weakref.ref, made_of))
            table = list[int]()
            for a in allocations:
                written = 0 if a.shadow is None else address_of(a.shadow.data)
                table += a.start, a.end, address_of(a.data), written, a.read_only
            self._table = array("q", table or [0, 0, 0, 0, 1])
            self._address, _ = self._table.buffer_info()
        return len(allocations), self._address


def _own(machine: Machine, spaces: frozenset[str]) -> None:
    """Before a region stores: no copy of the state has the same bytes."""
    memory, batch = machine.launch.memory, machine.batch
    if "global" in spaces:
        for allocation in memory.allocations:
            if allocation.sharing is not None:
                allocation.own()
            if (shadow := allocation.shadow) is not None and shadow.sharing is not None:
                shadow.own()
    for name, space in (("shared", batch.shared), ("local", batch.local)):
        if name in spaces:
            space.own()
            if space.shadow is not None:
                space.shadow.own()


def publish_stores(machine: Machine, stored: frozenset[str], what: int, *, ended: bool) -> None:
    """Notify those who wait for memory that a call has changed some, and the marks of what is written, if anybody is left."""
    memory = machine.launch.memory
    memory.version += bool(what & SEEN)
    memory.private += bool(what & OWN)
    if ended:
        return
    for name, space in (("shared", machine.batch.shared), ("local", machine.batch.local)):
        written: Any = space.shadow
        if (name in stored or "generic" in stored) and written is not None and written.open:
            written.look_again()


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


@define(eq=False)
class PrivateShared:
    """The copy of one call."""

    machine: Machine
    group: Group
    region: Region
    columns: Array
    data: Array
    marks: Array
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
    machine: Machine, group: Group, region: Region, tables: WarpTables, scratch: Scratch, *, one_by_one: bool
) -> PrivateShared:
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
    return PrivateShared(machine, group, region, columns, data, marks, tracked)


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
