"""Calls of regions: find or compile the code for a group, run it, and act on the outcome."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import TypeVar

from warpsim.graph.nodes import LANES
from warpsim.machine.asynchrony.wgmma import in_flight
from warpsim.machine.engine import Limit
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.values import Value
from warpsim.machine.waiting import LOOK_EVERY
from warpsim.native.regions.options import Outcome, Place, Variant
from warpsim.native.regions.region import Region, varying_steps
from warpsim.native.runtime.compiled_region import CompiledRegion
from warpsim.native.runtime.extents import FootprintObserver
from warpsim.native.runtime.inputs import Signature, input_kind, layout_of, values_of
from warpsim.native.runtime.lane_tables import tables_of
from warpsim.native.runtime.memory import wants_copy
from warpsim.native.runtime.run import Runner
from warpsim.native.runtime.straight import StraightLaunch, goes_straight, seen_by
from warpsim.native.runtime.trail import shown
from warpsim.native.tiering.cost import CALL, LANE, LAUNCH, STEP, Policy, has_spare_core, share_of, spent
from warpsim.native.tiering.enqueue import enqueue_urgent
from warpsim.native.tiering.entry_points import WAITING, Budget, EntryPoint, Profile, Request

WORK = 100_000_000
"""Warp-instructions of a region between two checks of the time limit."""
FAR = 1 << 40
FEW = 4
"""So many steps are worth a call where time does not count."""
DIVERGED = "diverged"
"""The note by which a batch tells that rules of collectives need their events (`warpsim.checks.convergence`)."""


T = TypeVar("T")


class Calls:
    """The calls of one launch."""

    def __init__(self, budget: Budget, observer: FootprintObserver | None, lane: int | None = None) -> None:
        self.budget, self.policy = budget, budget.policy
        self.runner = Runner(observer, lane)
        self.straight: StraightLaunch | None = None
        """The launch, if one call was all of it."""
        self._reach, self._held = FAR, 0
        """How often regions may go back, less where the launch may have to stop; how often the interpreter takes over there."""

    def advance(
        self,
        machine: Machine,
        group: Group,
        limit: Limit,
        profile: Profile,
        place: Place,
        entry: EntryPoint,
        room: int | None = None,
        *,
        apart: bool = False,
    ) -> bool:
        """Run the region that begins where a group stands, for at most ``room`` warp-instructions; False if it did not run."""
        self._form(profile, place, entry)
        values = self._values(machine, group, entry)
        if values is None:
            return False
        limited = _block_limit(group, limit)
        while True:
            outcome = self._run(machine, group, profile, place, entry, values, limited, room=room, apart=apart)
            if outcome is None:
                return False
            if outcome is Outcome.OUT_OF_ORDER:
                limited = min(limited, self.runner.ahead)
            elif outcome is Outcome.WRAPPED:
                entry.restrict(outcome)
            elif outcome is not Outcome.STOPPED or not self._reach:
                break
        if outcome not in (Outcome.DONE, Outcome.STOPPED):
            entry.restrict(outcome)
        return outcome is Outcome.DONE

    def run_through(
        self,
        machine: Machine,
        group: Group,
        profile: Profile,
        place: Place,
        entry: EntryPoint,
        room: int | None,
        *,
        apart: bool,
    ) -> bool:
        """Run a batch from start to end, in at most ``room`` warp-instructions; False if it did not run."""
        self._form(profile, place, entry)
        values = self._values(machine, group, entry)
        outcome, recorded = None, shown(machine) is not None
        if values is not None:
            outcome = self._run(
                machine, group, profile, place, entry, values, FAR, through=True, room=room, apart=apart
            )
        if room is not None:
            if outcome is Outcome.WRAPPED:
                entry.restrict(outcome)
        elif recorded:
            entry.unrecorded += outcome not in (None, Outcome.DONE)
        elif not apart:
            entry.stopped += outcome is not Outcome.DONE
        elif outcome not in (None, Outcome.DONE):
            entry.met += 1
        return outcome is Outcome.DONE

    def _form(self, profile: Profile, place: Place, entry: EntryPoint) -> None:
        """Form an entry point's region."""
        if not entry.formed:
            from warpsim.native.tiering.build import form  # which imports all that compiles

            self._timed(profile, lambda: form(profile, place, entry))

    def _values(self, machine: Machine, group: Group, entry: EntryPoint) -> list[Value | int] | None:
        """A region's live-in values, None if it cannot run."""
        region = entry.region
        if region is None or (region.collective and DIVERGED in machine.batch.notes):
            return None
        if group.has_shadows and group.shadowed(region.registers):
            return None
        if region.wgmma is not None and in_flight(machine, group, region.wgmma.rows):
            return None
        return values_of(machine, group, region.sources)

    def _run(
        self,
        machine: Machine,
        group: Group,
        profile: Profile,
        place: Place,
        entry: EntryPoint,
        values: list[Value | int],
        limit: int,
        *,
        through: bool = False,
        room: int | None = None,
        apart: bool = False,
    ) -> Outcome | None:
        """One call of an entry point's code, None without any; ``through``: it must reach the end of the kernel; ``apart``: and show
        that threads keep apart."""
        region, selection = entry.region, group.selection
        if region is None:
            return None
        tables, options = tables_of(selection), entry.options
        variant = Variant(
            options.alone,
            tables.row if options.strides else 0,
            options.strides,
            wants_copy(machine, region),
            limit < FAR,
            self.runner.observed(machine, apart=apart),
            self.runner.lane is not None and options.alone,
            machine.hooks.region_counted is not None,
            apart,
            through and shown(machine) is not None,
        )
        layout = variant, *layout_of(values)
        code = entry.by_layout.get(layout)
        if code is None or code.region is not region:
            signature = tuple([input_kind(v, variant.row) for v in values]), variant
            idle = self._idle(entry, region, layout, values, selection.n)
            code = None if idle else self._code(group, profile, place, entry, signature)
            if code is None:
                return None
            entry.by_layout[layout] = code
        back_edges = self._back_edges(group, region, None if through else room)
        if back_edges < int(region.loops) or not self._reaches():
            return None
        before, runner = machine.launch.thread_instructions, self.runner
        # The thread's own time: that of a busy machine would condemn regions at random.
        began = spent() if entry.trials else 0.0
        outcome = runner.run(machine, group, code, tables, values, limit, back_edges, through=through, room=room)
        if outcome is Outcome.STOPPED and not through:
            self._reach, self._held = back_edges // 2 if region.loops else 0, len(region.slices)
        elif outcome is Outcome.DONE:
            self._reach = min(2 * self._reach, FAR)
            straight = not before and runner.ended and goes_straight(machine, group, code, runner)
            if straight and not entry.trials:
                seen = seen_by(machine.launch, machine.hooks)
                self.straight = StraightLaunch(machine, group, code, tables, values, (limit, back_edges), runner, seen)
            done = machine.launch.thread_instructions - before
            if place[:2] == (0, 0):
                entry.through = (done / selection.n, runner.stored / selection.n) if runner.ended else None
            if entry.trials:
                interpreted = max(done, region.size * selection.n) * (STEP / selection.n + LANE) * profile.pace
                interpreted += LAUNCH * straight
                interpreted *= 1 + entry.options.keeps  # a session looks at each step, which costs as much again
                entry.record_trial(0.0 if self.policy is Policy.AT_ONCE else spent() - began, interpreted)
        return outcome

    def _back_edges(self, group: Group, region: Region, room: int | None) -> int:
        """How often a region may go back; -1: it may not run."""
        if region.loops and group.seen and group.seen[-1].followed:
            return -1
        work = max(WORK // (region.size * group.selection.n_warps), 16)
        found = min(LOOK_EVERY - 1 - group.back_edges % LOOK_EVERY, work, self._reach or 1)
        return found if room is None else min(found, room // region.size - 1)

    def _reaches(self) -> bool:
        """Whether a region may run: near a stop, the interpreter goes through a loop once."""
        if self._reach:
            return True
        self._held -= 1
        self._reach = int(self._held <= 0)
        return False

    def _idle(self, entry: EntryPoint, region: Region, layout: Hashable, values: list[Value | int], lanes: int) -> bool:
        """Whether a region without accesses computes too little, with such live-ins, for a call."""
        if layout not in entry.idle:
            kinds = [input_kind(value, LANES) for value in values]  # affine ones are that in all rows
            steps = math.inf if entry.options.accesses else varying_steps(region, kinds)
            if steps >= FEW if self.policy is Policy.AT_ONCE else steps * (STEP / 2 + lanes * LANE) > CALL:
                return False
        entry.pass_over(layout)
        return True

    def _code(
        self, group: Group, profile: Profile, place: Place, entry: EntryPoint, signature: Signature
    ) -> CompiledRegion | None:
        """The code for a signature: compiled before, now if that pays, or later."""
        found = entry.codes.get(signature)
        if isinstance(found, CompiledRegion):
            return found if found.region is entry.region else None
        request = Request(profile, place, entry, signature)
        if found is None and signature not in entry.codes:
            made = self._recalled(profile, place, entry, signature) or self._made(request)
            if made is not None:
                return made
            if entry.region is None:
                return None
            found = None if self.policy is Policy.AT_ONCE else WAITING
        if found is WAITING and not entry.pending:
            if has_spare_core() and profile.allows(entry, share_of(profile.account.launches)):
                entry.codes[signature] = WAITING
                enqueue_urgent(request)
            elif self.policy is Policy.ASKED:
                entry.codes[signature] = WAITING
                self.budget.ask(request)
        if entry.ready:
            self.budget.interpret(group, profile, 1)
        return None

    def _recalled(
        self, profile: Profile, place: Place, entry: EntryPoint, signature: Signature
    ) -> CompiledRegion | None:
        """The code for a signature that an earlier process has left."""
        if not entry.kept or entry.region is None or signature in entry.sought:
            return None
        found = profile.records.code(place, entry.options, signature, entry.region)
        if found is not None:
            entry.put(signature, found)
        entry.sought.add(signature)
        if not signature[1].recorded:  # what others need may be there
            entry.kept = entry.ready
        return found

    def _made(self, request: Request) -> CompiledRegion | None:
        """Code that is compiled while the launch waits, where that pays."""
        if self.policy is not Policy.AT_ONCE and not request.profile.waits(request.entry):
            return None
        from warpsim.native.tiering.build import make

        made: CompiledRegion | None = self._timed(request.profile, lambda: make(self.policy, request))
        if made is not None and request.signature is not None:
            request.entry.put(request.signature, made)
        return made

    def _timed(self, profile: Profile, do: Callable[[], T]) -> T | None:
        """Compile under the profile's lock and account for the time; None if another thread holds it."""
        if not profile.lock.acquire(blocking=self.policy is Policy.AT_ONCE):
            return None
        began, used = time.perf_counter(), spent()
        try:
            return do()
        finally:
            profile.lock.release()
            profile.account.compiled += spent() - used
            self.budget.compiling += time.perf_counter() - began


def _block_limit(group: Group, limit: Limit) -> int:
    """The block before which the group's lanes wait for others to reconverge."""
    if limit is None or limit[0] > group.generation:
        return FAR
    depth = len(group.stack)
    here, there = group.key, limit[1]
    if here[:depth] != there[:depth] or len(there) <= depth:
        return FAR if here[:depth] < there[:depth] else 0
    return max(there[depth], group.block + 1)
