"""Runs CTAs of a session side by side where nothing can stop among them. Machine code runs the warps of a batch one after another, in
the order of a session, so that memory is then as if each of them had run alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from warpsim.machine.engine import Compiled
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.native.tiering.cost import spent
from warpsim.native.tiering.eligibility import Engine
from warpsim.native.tiering.entry_points import JOINED_THREADS

PARTS = 16
"""A launch runs in so many batches or more: as much of it runs again to find where a CTA began."""
LONGEST_REST = 256
"""CTAs that run one by one where none has run through."""
COMPILING = 4
"""CTAs that run one by one before the next look whether there is code."""


class Steps(Protocol):
    """The steps of a session (`warpsim.debug.timeline.Timeline`)."""

    cuts: frozenset[int]

    @property
    def room(self) -> int:
        """How many may be executed before the launch has to stop."""

    def has_to_look(self) -> bool:
        """Whether it has to stop at the next one."""

    def note_beginning(self, cta: int) -> None:
        """A CTA begins with the next one."""

    def fitting(self, cta: int, most: int) -> int:
        """How many CTAs from one on are likely to end before the launch has to stop, at most ``most``."""

    def batch_executed(self, cta: int, n_ctas: int, steps: int) -> None:
        """CTAs from one on have executed all of theirs."""


class Batches:
    """The code of a session: ``through`` runs batches, ``alone`` single warps. The CTAs of ``apart`` run by themselves."""

    def __init__(self, timeline: Steps, alone: Compiled, through: Engine, apart: Iterable[int | None]) -> None:
        self._timeline, self._through = timeline, through
        self._apart = {cta for cta in apart if cta is not None}
        self.runs_steps, self.bodies = alone.runs_steps, alone.bodies
        self.advance, self.until = alone.advance, alone.until
        self._most, self._rest, self._left = 0, 1, 0
        """How many CTAs to try next; how many run one by one after a failure, and how many of these are left."""
        self._since: float = spent()
        """When the last batch or CTA ended."""

    def joined(self, state: LaunchState, failed: int = 0) -> int:
        """How many CTAs may begin side by side: none that stands out, and fewer than have ``failed``."""
        timeline, (x, y, z) = self._timeline, state.block
        if state.cluster != (1, 1, 1):
            return 1
        timeline.note_beginning(state.waves)
        seconds, self._since = spent() - self._since, spent()
        at_most = min(
            max(state.n_ctas // PARTS, 2), JOINED_THREADS // (x * y * z), timeline.room // -(-x * y * z // 32)
        )
        self._most = failed // 2 if failed else min(self._most or at_most, at_most)
        if failed and not self._through.ready(state):
            self._left = COMPILING
        elif failed and self._most < 2:
            self._left, self._rest, self._most = self._rest, min(2 * self._rest, LONGEST_REST), 2
        elif self._left:
            self._left -= 1
        elif not timeline.has_to_look() and self._through.serves(state, seconds):
            preferred = None if state.preferred is None else state.preferred[0]
            ahead = [cta for cta in {*self._apart, *timeline.cuts, preferred} if cta is not None and cta >= state.waves]
            most = min([self._most, *(cta - state.waves for cta in ahead)])
            return max(timeline.fitting(state.waves, most), 1)
        return 1

    def records(self, state: LaunchState) -> bool:
        """Nobody looks at some CTAs only."""
        return False

    def run_through(self, machine: Machine, group: Group) -> bool:
        """Run all threads of a batch to their ends; False if that failed, and nothing was run."""
        state, n_warps, n_ctas = machine.launch, group.selection.n_warps, machine.batch.shape.n_ctas
        first, before = machine.number_of(group)[0], state.instructions
        room = self._timeline.room
        if state.settings.max_instructions is not None:
            room = min(room, int(state.settings.max_instructions) - before)
        if room <= n_warps or not self._through.run_through(machine, group, room - n_warps):
            return False
        self._most, self._rest = 2 * n_ctas, 1
        machine.batch.runnable.remove(group)
        machine.count_entry(group, 1)
        group.plan.blocks[group.block].end(machine, group)
        self._timeline.batch_executed(first, n_ctas, state.instructions - before)
        self._since = spent()
        return True

    def over(self) -> None:
        """The launch is over."""
