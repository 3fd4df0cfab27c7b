"""Undefined values in global memory that nobody sees: the thread which stored them replaces them before."""

from __future__ import annotations

import numpy as np

from warpsim.checks.difference import DECIDED, Key, in_grid
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Array
from warpsim.machine.watcher import WRITE, MemoryAccess, Watcher
from warpsim.program.program import Instruction


class Replaced(Watcher):
    """Follows what a run stores with undefined bits. Where another thread replaces it, or reads it before, the order of threads may
    decide what is left."""

    def __init__(self) -> None:
        self._places: list[Key] = []
        """The place of each store so far."""
        self._lasting: set[int] = set()
        """The numbers of those that others have seen or replaced."""
        self._open = np.zeros((3, 0), np.int64)
        """Bytes: their addresses, the threads that stored them, and the numbers of these stores."""

    def unseen(self, launch: LaunchState) -> frozenset[Key]:
        """When a launch has ended: the places of stores of which nothing has been seen. (Strong ones can be seen without a race.)"""
        self._follow(launch)
        if any(found.rule == "limit" for found in launch.findings.values()):
            return frozenset()
        lasting = self._lasting.union(self._open[2].tolist())
        return frozenset(self._places) - {self._places[number] for number in lasting}

    def step_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Follow what the step has stored."""
        self._follow(machine.launch)

    def _follow(self, launch: LaunchState) -> None:
        for one in launch.notes[DECIDED].stored[len(self._places) :]:
            number = np.full(one.places.shape, len(self._places))
            self._open = np.concatenate([self._open, [one.places, one.threads, number]], axis=1)
            self._places.append(one.key)

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Compare accesses of lanes."""
        if access.space == "global" and self._open.size:
            shape = group.selection.shape
            threads, place = (
                np.broadcast_to(a, shape) for a in (in_grid(machine, group.selection.positions), access.places)
            )
            some = ... if access.active is None else np.broadcast_to(access.active, shape)
            self._touch(place[some], access.nbytes, threads[some], replaces=access.kind == WRITE)

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Compare accesses of bulk copies, which nothing orders with those of a thread."""
        self._touch(address.reshape(-1), nbytes, np.full(address.size, -1), replaces=False)

    def _touch(self, address: Array, nbytes: int, threads: Array, *, replaces: bool) -> None:
        places = (address.reshape(-1, 1) + np.arange(nbytes)).reshape(-1)
        by = np.repeat(threads.reshape(-1), nbytes)
        order = np.lexsort((by, places))
        places, by = places[order], by[order]
        first, end = (np.searchsorted(places, self._open[0], side) for side in ("left", "right"))
        touched, last = first < end, len(by) - 1
        alone = (by[first.clip(max=last)] == self._open[1]) & (by[(end - 1).clip(0, last)] == self._open[1])
        self._lasting.update(self._open[2, touched & ~(alone & replaces)].tolist())
        self._open = self._open[:, ~touched]
