"""A watcher for a second run that finds the store that wrote an element."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.errors import Finding
from warpsim.machine.reporting import finding_at, locate
from warpsim.machine.watcher import READ, MemoryAccess, Watcher

if TYPE_CHECKING:
    from warpsim.host.arrays import Array
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group


@attrs.define
class Writer:
    """The last write to an element, and the number of writes."""

    last: Finding | None = None
    count: int = 0
    lines: set[int] = attrs.field(factory=set)


class Writers(Watcher):
    """Notes the last write to each of a few elements of global memory, given as ``(address, nbytes)``."""

    def __init__(self, elements: list[tuple[int, int]]) -> None:
        self.elements = elements
        self.found = [Writer() for _ in elements]

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note stores and atomics of lanes."""
        if access.space != "global" or not access.writes:
            return
        shape, place, nbytes, active = group.selection.shape, np.asarray(access.place), access.nbytes, access.active
        for writer, (address, size) in zip(self.found, self.elements, strict=True):
            hit = (place < address + size) & (place + nbytes > address)
            if not hit.any():
                continue
            lanes = np.broadcast_to(hit, shape)
            if active is not None:
                lanes = lanes & np.broadcast_to(active, shape)
            if lanes.any():
                self._note(writer, machine, group, lanes)

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Note bulk copies to global memory."""
        if access == READ:
            return
        for writer, (wanted, size) in zip(self.found, self.elements, strict=True):
            address = np.asarray(address)
            hit = (address < wanted + size) & (address + nbytes > wanted)
            if hit.any():
                receivers = hit.reshape(len(positions), -1).any(axis=1) if hit.size % len(positions) == 0 else None
                who = positions if receivers is None else np.asarray(positions)[receivers]
                self._note(writer, machine, group, np.isin(group.selection.positions, who))

    def _note(self, writer: Writer, machine: Machine, group: Group, lanes: Array) -> None:
        cta, warp, which = locate(machine.launch, machine.batch, group, lanes)
        place = finding_at(machine.launch, group.instruction)
        writer.last = attrs.evolve(place, cta=cta, warp=warp, lanes=which)
        writer.count += 1
        writer.lines.add(place.line)


def sentence(what: str, writer: Writer) -> list[str]:
    """Describe the last write to an element."""
    last = writer.last
    if last is None:
        return [f"  nothing wrote {what} in this launch"]
    lane = f"lane {last.lanes[0]}" if len(last.lanes) == 1 else f"lanes {', '.join(map(str, last.lanes[:4]))}"
    cuda = f" ({last.source[0]}:{last.source[1]})" if last.source else ""
    times = (
        ""
        if writer.count == 1
        else f" (the last of {writer.count:,} writes, from lines {', '.join(map(str, sorted(writer.lines)))})"
    )
    return [
        f"  {what} was written by CTA {last.cta}, warp {last.warp}, {lane}{times}:",
        f"    {last.file}:{last.line}{cuda}: {last.text.strip() or last.message}",
    ]
