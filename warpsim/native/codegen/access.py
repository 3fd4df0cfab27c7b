"""Memory accesses: as vectors where lanes are contiguous, else lane by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsim.native.codegen.atomics import Atomics
from warpsim.native.codegen.lane_access import LaneAccess
from warpsim.native.codegen.row_access import RowAccess, rows_of
from warpsim.native.lowering.graphs import Lowering
from warpsim.native.lowering.values import Val
from warpsim.native.regions.forms import Effect

if TYPE_CHECKING:
    from warpsim.native.codegen.builder import RegionBuilder
    from warpsim.native.codegen.interference import Interference, Name
    from warpsim.native.codegen.memory import Memory


class Access:
    """Emits accesses."""

    def __init__(self, builder: RegionBuilder, memory: Memory, interference: Interference) -> None:
        self.builder, self.memory = builder, memory
        self.lanes = LaneAccess(builder, memory, interference)
        self.rows = RowAccess(builder, memory, interference, self.lanes)
        self.atomics = Atomics(builder, memory, interference, self.lanes)

    def make(
        self, name: Name, effect: Effect, lower: Lowering, lanes: Val, given: list[Val], *, together: bool
    ) -> list[Val]:
        """An access by ``lanes`` (a mask); ``together``: the warp is converged."""
        code = self.builder.code
        address = self._address(effect, lower)
        if effect.kind == "atomic":
            return [self.atomics.make(name, effect, address, lanes, given)]
        rows = None
        if effect.space == "global" or (effect.space == "shared" and self.memory.private):
            rows = rows_of(code, address, effect.type.bytes * effect.count)
        if rows is not None and (together or (effect.kind == "load" and rows.lanes == 1 and len(rows.firsts) == 1)):
            found = self.rows.make(name, effect, address, rows, lanes, given)
            self._stored(effect, lanes)
            return found
        self.lanes.make(name, effect, address, lanes, given)
        self._stored(effect, lanes)
        if effect.kind == "store":
            return []
        return [self.lanes.loaded(effect, k) for k in range(effect.count)]

    def _stored(self, effect: Effect, lanes: Val) -> None:
        """Memory changes where any lane stores; where generic addresses lead to is known later."""
        builder, code = self.builder, self.builder.code
        if effect.kind == "store" and effect.space != "generic":
            some = "true" if lanes.text == builder.mask else code.make(f"icmp ne i32 {lanes.text}, 0")
            builder.changes(effect.space, some)

    def _address(self, effect: Effect, lower: Lowering) -> Val:
        """The address: 64 bits, in shared and local memory 32."""
        node = effect.address
        if effect.space in ("shared", "local"):
            if node.op == "cast" and node.args[0].dtype.itemsize == 4:
                return lower(node.args[0])
            return self.builder.code.convert("trunc", lower(node), "i32")
        return lower(node)
