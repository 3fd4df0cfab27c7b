"""Copy memory from a session's private copy back to the device."""

from __future__ import annotations

import copy

import numpy as np

from warpsim.machine.runtime import NAME as HEAP
from warpsim.machine.state.global_memory import Allocation, GlobalMemory


def hand_over(source: GlobalMemory, target: GlobalMemory, known: list[Allocation], mapped: frozenset[int]) -> None:
    """Copy what a launch wrote on a copy of memory into the device's memory and the caller's arrays."""
    starts = {allocation.start for allocation in known}
    for allocation in known:
        given = source.at(allocation.start)
        if given is None:  # freed by the kernel
            if target.at(allocation.start) is allocation:
                target.unmap(allocation.start)
        elif not allocation.read_only:
            np.copyto(allocation.data, given.data)
            allocation.shadow = copy.deepcopy(given.shadow)
    for given in source.everything():
        if given.start not in starts and given.name == HEAP:
            data = given.data.copy()
            target.map(data, name=given.name, address=given.start)
    target.version += 1
