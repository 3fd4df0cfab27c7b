"""Loops that wait: when a group is put to sleep, what wakes it, and the simulated time that lets a clock go on.

Time is what was executed: one cycle for a warp-instruction, `READING` for each look at a clock. Where nothing can go on but
loops that look at a clock, time leaps to the moment at which the first of them looks again; the longer one has waited,
the longer it sleeps, so that no wait takes many laps. ``%globaltimer`` counts the same cycles as nanoseconds, and goes on
from launch to launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from warpsim.analysis.loops import Loop
from warpsim.machine.gate import missing_lanes
from warpsim.machine.group import Group, Stack
from warpsim.machine.values import Affine

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch
    from warpsim.machine.launch import Launch
    from warpsim.machine.plan import BoundBlock, FunctionPlan

LAPS = 4096
"""Of a loop that polls nothing only every so many laps are looked at."""
PATIENCE = 256
"""How many laps of others a group that polls in vain lets pass at most."""
READING = 32
BORED = 32
"""Laps in vain after which a loop that a clock bounds sleeps, whatever it counts."""
NAP = 256
FINER = 16
"""A nap is the time waited so far over this, so that no wait is overslept by more."""
HORIZON = 1 << 62
"""Who has waited so many cycles waits for ever."""


@attrs.define(eq=False)
class Lap:
    """How a group came to the head of a loop the last time; ``waited`` cycles it has slept there."""

    plan: FunctionPlan
    stack: Stack
    block: int
    memory: tuple[int, int]
    state: list[Any]
    waited: int = 0

    def encloses(self, group: Group) -> bool:
        """Whether the group is in this loop still, maybe in a function called there."""
        depth = len(self.stack)
        if group.stack[:depth] != self.stack:
            return False
        inside = self.plan.loop(self.block).blocks
        if len(group.stack) > depth:
            caller, block = group.stack[depth][:2]
            return caller is self.plan and block in inside
        return group.plan is self.plan and group.block in inside


class Waiting:
    """The groups of a launch that sleep, and its time."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.memory = launch.memory
        self.sleeping: list[Group] = []
        self.skipped = 0
        """Cycles that passed while nothing was executed."""
        self.mark = 0
        """The version of memory when the running group began its lap."""

    # ---- time --------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Cycles since the launch began."""
        return self.skipped + self.launch.stats.instructions

    def clock(self, name: str) -> int:
        """A clock's value; clocks advance with every reading."""
        self.skipped += READING
        if name.startswith("globaltimer"):
            time = self.memory.nanoseconds + self.now
            return time >> 32 if name.endswith("_hi") else time
        return self.now >> 32 if name == "clock_hi" else self.now

    def pass_time(self) -> bool:
        """Let time leap to where the first sleeper looks at its clock again; False where none does."""
        moments = [g.wakes for g in self.sleeping if g.wakes is not None]
        if not moments:
            return False
        self.skipped += max(min(moments) - self.now, 0)
        self._rouse([g for g in self.sleeping if g.wakes is not None and g.wakes <= self.now])
        return True

    def end(self) -> None:
        """The launch is over: its time has passed for the device."""
        self.memory.nanoseconds += self.now

    # ---- sleep -------------------------------------------------------------------------------

    def lap(self, group: Group, block: BoundBlock) -> bool:
        """A group goes round a loop; True where it was put to sleep.

        A loop that polls lets others run in between; the more of them, the longer it has changed nothing in memory."""
        group.laps += 1
        if not block.waits and group.laps % LAPS:
            return False
        loop = group.plan.loop(group.block)
        if not loop.exits and group.laps >= LAPS:
            self._endless(group, loop)
        lap, stuck = self._look(group, loop)
        group.idle = 0 if self.memory.version != self.mark else group.idle + 1
        group.generation += min(1 << group.idle, PATIENCE)
        if loop.timed and (stuck or (loop.bounded and group.idle >= BORED)) and lap.waited < HORIZON:
            nap = max(NAP, lap.waited // FINER)
            lap.waited += nap
            group.wakes = self.now + nap
        if stuck or group.wakes is not None:
            self.sleeping.append(group)
            return True
        if self.sleeping:
            self.wake(group.batch)
        return False

    def _look(self, group: Group, loop: Loop) -> tuple[Lap, bool]:
        """How the group comes to the head of a loop, and whether it will come so for ever (unless others change memory)."""
        state = [group.read(r) for r in loop.decisive if not (loop.timed and r in loop.ticking)]
        memory = self.memory.version, self.memory.private
        laps = [lap for lap in group.seen if lap.encloses(group)]
        last = laps.pop() if laps and laps[-1].block == group.block and laps[-1].stack == group.stack else None
        lap = Lap(group.plan, group.stack, group.block, memory, state, last.waited if last is not None else 0)
        group.seen = (*laps, lap)
        stuck = last is not None and last.memory == memory and _same(last.state, state) and _alone(group, loop)
        return lap, stuck

    def wake(self, batch: Batch) -> None:
        """Make groups of a batch runnable again that slept until memory changed."""
        version = self.memory.version
        self._rouse([g for g in self.sleeping if g.batch is batch and g.seen[-1].memory[0] != version])

    def _rouse(self, awake: list[Group]) -> None:
        if not awake:
            return
        self.sleeping = [g for g in self.sleeping if not any(g is a for a in awake)]
        for group in awake:
            group.wakes = None
            group.batch.push(group)

    def _endless(self, group: Group, loop: Loop) -> None:
        self.launch.findings.add(
            group.batch,
            "deadlock",
            f"{group.selection.n} threads go round a loop for ever: lines {loop.lines[0]} to {loop.lines[1]} have no way out",
            group,
            None,
            {"advice": "a loop of a kernel needs an exit: a branch out of it, ret or exit"},
        )


def _alone(group: Group, loop: Loop) -> bool:
    """Whether registers and memory are all that the loop depends on: not on the heap, the stack, or lanes elsewhere."""
    if loop.hidden or (loop.threads and group.selection.n != group.batch.shape.n):
        return False
    return not loop.lanes or missing_lanes(group, None) is None


def _same(old: list[Any], new: list[Any]) -> bool:
    for a, b in zip(old, new, strict=True):
        if a is b:
            continue
        if type(a) is Affine and type(b) is Affine:
            if (a.base, a.strides) != (b.base, b.strides):
                return False
        elif type(a) is Affine or type(b) is Affine or a.shape != b.shape or a.tobytes() != b.tobytes():
            return False
    return True


__all__ = ["LAPS", "Waiting"]
