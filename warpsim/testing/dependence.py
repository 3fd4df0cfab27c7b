"""What an element of a result depends on under one kernel and not under another: elements of the arguments are changed, and it is seen
whether that changes the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from warpsim.errors import Finding
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import finding_at, locate
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import BoxStore, RunStore, Transfer, Which
from warpsim.machine.watcher import WRITE, MemoryAccess, Watcher
from warpsim.numerics.arrays import Array
from warpsim.observe.accuracy_memory import moved
from warpsim.testing.origins import batch_column
from warpsim.testing.replaying import cuda_lines

RUNS = 128
"""Most launches of each kernel for one argument."""
Result = Callable[[Sequence[object]], bytes | None]
"""An element of a result from the arguments of a launch; None where the launch fails."""


def depends_alone(values: Sequence[object], number: int, one: Result, other: Result) -> tuple[int, ...] | None:
    """The index of an element of argument ``number`` that changes the result under ``one`` and not under ``other``; None if none
    is found."""
    array = values[number]
    if not isinstance(array, np.ndarray):
        return None
    bits = array.reshape(-1).view(f"V{array.itemsize}")
    held, numbers = np.unique(bits, return_inverse=True)
    if len(held) < 2:
        return None
    step = max(len(held) * 3 // 8, 1)  # two elements hardly exchange their values, which a sum would not show
    before, runs = [each(values) for each in (one, other)], 0

    def changes(which: int, low: int, high: int) -> bool:
        """Whether it changes if elements are replaced by others that the argument holds."""
        new = bits.copy()
        new[low:high] = held[(numbers[low:high] + step) % len(held)]
        changed = new.view(array.dtype).reshape(array.shape)
        after = (one, other)[which]([changed if k == number else value for k, value in enumerate(values)])
        return after is not None and after != before[which]

    work = [(0, bits.size)] if None not in before else []
    while work and runs < RUNS:
        low, high = work.pop(0)
        runs += 1
        if not changes(0, low, high):
            continue
        alone = not changes(1, low, high)
        if high - low == 1:
            if alone:
                return tuple(int(i) for i in np.unravel_index(low, array.shape))
            continue
        middle = (low + high) // 2
        halves = [(low, middle), (middle, high)]
        work = halves if alone else work + halves
    return None


class Reader(Watcher):
    """Who reads a byte of global memory first for a CTA: an instruction of its own, or a copy to it."""

    def __init__(self, cta: tuple[int, int, int], address: int) -> None:
        self.cta, self.address = cta, address
        self.found: tuple[Finding, int, int] | None = None
        """Where, the warp and the lane."""

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Loads and atomics."""
        if self.found is None and access.allocation is not None and access.kind != WRITE:
            hit = (access.places <= self.address) & (self.address < access.places + access.nbytes)
            mine = group.selection.positions % machine.batch.shape.n_ctas == batch_column(machine, self.cta)
            hit = np.broadcast_to(hit if access.active is None else hit & access.active, mine.shape) & mine
            if hit.any():
                _, warp, lanes = locate(machine.launch, machine.batch, group, hit)
                self.found = finding_at(machine.launch, group.instruction), warp, lanes[0]

    def async_delivered(
        self, machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Which
    ) -> None:
        """Copies to shared memory."""
        found = moved(transfer, which)
        if self.found is not None or found is None or isinstance(transfer.work, RunStore | BoxStore):
            return
        address, _, columns, size = found
        mine = columns == batch_column(machine, self.cta)
        hit = np.flatnonzero((address <= self.address) & (self.address < address + size) & mine)
        if len(hit):
            at = int(hit[0]) if len(address) == len(which) else 0
            thread, _ = divmod(int(transfer.positions[which][at]), machine.batch.shape.n_ctas)
            instruction = transfer.place or group.instruction
            self.found = finding_at(machine.launch, instruction), thread >> 5, thread & 31

    def lines(self, what: str) -> list[str]:
        """As the end of an explanation, which says ``what`` happens here."""
        if self.found is None:
            return []
        found, warp, lane = self.found
        return [
            f"  {what}: CTA {self.cta}, warp {warp}, lane {lane}:",
            f"    {found.file}:{found.line}{cuda_lines(found)}: {found.text.strip()}",
        ]
