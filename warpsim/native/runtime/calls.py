"""Calls of units: what serves a group where it stands, made where that pays, and what comes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from warpsim.machine.waiting import LOOK_EVERY
from warpsim.native.codegen.base import Manner
from warpsim.native.codegen.inputs import given, look_of
from warpsim.native.compiling.region_code import Code
from warpsim.native.regions.options import Outcome
from warpsim.native.runtime import private_shared as private
from warpsim.native.runtime.footprints import Noted
from warpsim.native.runtime.input_values import values_of
from warpsim.native.runtime.lane_tables import tables_of
from warpsim.native.runtime.run import Runner
from warpsim.native.runtime.scratch import Scratch
from warpsim.native.tiering.build import form, make
from warpsim.native.tiering.cost import BESIDE, LANE, STEP, Pace, beside
from warpsim.native.tiering.entry_points import WAITING, Account, Place, Plans, Request, Spot
from warpsim.native.tiering.queue import make_beside

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

WORK = 100_000_000
"""Warp-instructions of a unit between two looks at the clock."""
FAR = 1 << 40
DIVERGED = "diverged"
"""Under this name a batch keeps what the rules of collectives have to look at (`warpsim.checks.convergence`)."""


class _OfThread(threading.local):
    """What compiled code works in; each thread has its own."""

    def __init__(self) -> None:
        self.scratch = Scratch()


_MINE = _OfThread()


class Calls:
    """Those of one launch."""

    def __init__(self, account: Account, noted: Noted | None) -> None:
        self.account, self.pace = account, account.pace
        self.runner = Runner(_MINE.scratch, noted)

    def advance(self, machine: Machine, group: Group, limit: Any, plans: Plans, place: Place, spot: Spot) -> bool:
        """Run what begins where a group stands; False where nothing was run."""
        if not spot.formed:
            self._timed(plans, lambda: form(plans, place, spot))
        values = self._values(machine, group, spot)
        if values is None:
            return False
        limited = _block_limit(group, limit)
        while True:
            outcome = self._run(machine, group, plans, place, spot, values, limited)
            if outcome is None:
                return False
            if outcome is Outcome.AHEAD:
                limited = min(limited, self.runner.ahead)
            elif outcome is Outcome.DOUBT:
                spot.weaken(outcome)
            else:
                break
        if outcome is not Outcome.DONE:
            spot.weaken(outcome)
        return outcome is Outcome.DONE

    def run_through(self, machine: Machine, group: Group, plans: Plans, place: Place, spot: Spot) -> bool:
        """Run a batch that has not begun to its end; False where nothing was run."""
        values = self._values(machine, group, spot)
        outcome = None
        if values is not None:
            outcome = self._run(machine, group, plans, place, spot, values, FAR, through=True)
        spot.stopped += outcome is not Outcome.DONE
        return outcome is Outcome.DONE

    def _values(self, machine: Machine, group: Group, spot: Spot) -> list[Any] | None:
        """What a unit reads, None where it cannot run."""
        shape = spot.shape
        if shape is None or (shape.collective and DIVERGED in machine.batch.notes):
            return None
        if group.has_shadows and any(not shape.registers.isdisjoint(file) for file in group.files()):
            return None
        return values_of(machine, group, shape.sources)

    def _run(
        self,
        machine: Machine,
        group: Group,
        plans: Plans,
        place: Place,
        spot: Spot,
        values: list[Any],
        limit: int,
        *,
        through: bool = False,
    ) -> Outcome | None:
        """One call of a spot's code, None where there is none; ``through``: it has to come to the end of the kernel."""
        shape, selection = spot.shape, group.selection
        if shape is None:
            return None
        tables, options = tables_of(selection), spot.options
        manner = Manner(
            options.alone,
            tables.row if options.strides else 0,
            options.strides,
            private.pays(machine, shape),
            limit < FAR,
            self.runner.noted is not None,
        )
        look = manner, *map(look_of, values)
        code = spot.looks.get(look)
        if code is None or code.shape is not shape:
            code = self._code(group, plans, place, spot, (tuple([given(v, manner.row) for v in values]), manner))
            if code is None:
                return None
            spot.looks[look] = code
        work = max(WORK // (shape.size * selection.n_warps), 16)
        back_edges = min(LOOK_EVERY - 1 - group.back_edges % LOOK_EVERY, work)
        if back_edges <= 0 and shape.loops:
            return None
        before, runner = machine.launch.thread_instructions, self.runner
        # The thread's own time: that of a busy machine would condemn units at random.
        began = time.thread_time() if spot.on_trial else 0.0
        outcome = runner.run(machine, group, code, tables, values, limit, back_edges, through=through)
        if outcome is Outcome.DONE:
            done = machine.launch.thread_instructions - before
            if place[:2] == (0, 0):
                spot.through = (done / selection.n, runner.stored / selection.n) if runner.ended else None
            if spot.on_trial:
                interpreted = max(done, shape.size * selection.n) * (STEP / selection.n + LANE)
                spot.judge(0.0 if self.pace is Pace.AT_ONCE else time.thread_time() - began, interpreted)
        return outcome

    def _code(self, group: Group, plans: Plans, place: Place, spot: Spot, variant: Any) -> Code | None:
        """Code for a place where it is there, or pays."""
        found = spot.codes.get(variant)
        if isinstance(found, Code):
            return found if found.shape is spot.shape else None
        request = Request(plans, place, spot, variant)
        if found is None and variant not in spot.codes:
            made = self._timed(plans, lambda: make(self.pace, request))
            if made is not None:
                spot.put(variant, made)
                return made
            if spot.shape is None:
                return None
            found = None if self.pace is Pace.AT_ONCE else WAITING
        if found is WAITING and not spot.pending:
            if beside() and plans.allows(spot, BESIDE):
                spot.codes[variant] = WAITING
                make_beside(request)
            elif self.pace is Pace.ASKED:
                spot.codes[variant] = WAITING
                self.account.ask(request)
        if spot.ready:
            self.account.interpret(group, plans, 1)
        return None

    def _timed(self, plans: Plans, do: Callable[[], Any]) -> Any:
        """What compiling does, with its time noted; None where somebody else is at it."""
        if not plans.lock.acquire(blocking=self.pace is Pace.AT_ONCE):
            return None
        began, used = time.perf_counter(), time.thread_time()
        try:
            return do()
        finally:
            plans.lock.release()
            plans.compiled += time.thread_time() - used
            self.account.compiling += time.perf_counter() - began


def _block_limit(group: Group, limit: Any) -> int:
    """The block before which the group's lanes have to wait for others."""
    if limit is None or limit[0] > group.generation:
        return FAR
    depth = len(group.stack)
    here, there = group.key, limit[1]
    if here[:depth] != there[:depth] or len(there) <= depth:
        return FAR if here[:depth] < there[:depth] else 0
    return max(there[depth], group.block + 1)
