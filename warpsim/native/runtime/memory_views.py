"""The memories that regions access, as they lie in the host's: global memory's allocations, the words of shared and local memory."""

from __future__ import annotations

import operator
from array import array
from typing import TYPE_CHECKING, Any

from warpsim.machine.values import address_of
from warpsim.native.runtime.context import CONTEXT, OWN, SEEN

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.global_memory import GlobalMemory
    from warpsim.native.runtime.compiled_region import CompiledRegion

_ALLOCATIONS, _MEMO = CONTEXT["n_allocations"], CONTEXT["memo"]


class MemoryViews:
    """Describes them in the context of calls, and tells who waits for memory what calls have changed."""

    def __init__(self) -> None:
        self._held: list[Any] | None = None
        """What the table of allocations was made of: nothing else can lie there meanwhile. None before there is one."""
        self._table: Any = None
        self._address = 0

    def describe(self, machine: Machine, code: CompiledRegion, context: Any) -> None:
        """Before a call."""
        memory, batch, spaces = machine.launch.memory, machine.batch, code.spaces
        if code.region.stores:
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
        """How many there are, and the address of their table, which is made anew where any of them lies elsewhere."""
        held, allocations = list[Any](), memory.allocations
        for a in allocations:
            held += a, a.data, None if a.shadow is None else a.shadow.data
        if self._held is None or len(held) != len(self._held) or any(map(operator.is_not, held, self._held)):
            self._held = held
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
            allocation.own()
            if allocation.shadow is not None:
                allocation.shadow.own()
    for name, space in (("shared", batch.shared), ("local", batch.local)):
        if name in spaces:
            space.own()
            if space.shadow is not None:
                space.shadow.own()


def publish_stores(machine: Machine, stored: frozenset[str], what: int, *, ended: bool) -> None:
    """Tell those who wait for memory that a call has changed some, and the marks of what is written, if anybody is left."""
    memory = machine.launch.memory
    memory.version += bool(what & SEEN)
    memory.private += bool(what & OWN)
    if ended:
        return
    for name, space in (("shared", machine.batch.shared), ("local", machine.batch.local)):
        written: Any = space.shadow
        if (name in stored or "generic" in stored) and written is not None and written.open:
            written.look_again()
