"""The entry points of a function's regions, and what their runs have shown, kept for all launches."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from warpsim.cache import has_folder
from warpsim.native.regions.options import MOST, Options, Outcome, Place, Stops, described
from warpsim.native.tiering.cost import (
    HOT,
    LANE,
    QUEUED_SHARE,
    STEP,
    Account,
    Policy,
    account_of,
    cost,
    has_spare_core,
    share_of,
)
from warpsim.native.tiering.notes import note_of, on_disk

if TYPE_CHECKING:
    from collections.abc import Hashable

    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group
    from warpsim.native.regions.region import Region
    from warpsim.native.regions.traces import Traces
    from warpsim.native.runtime.compiled_region import CompiledRegion
    from warpsim.native.runtime.inputs import Signature
    from warpsim.native.tiering.records import Records

FAILURES = 3
DOUBT = 4
"""By how much the share of time for compiling falls with each option that was dropped."""
JOINED_THREADS = 1 << 20
"""Limits of several waves as one batch: threads side by side,"""
JOINED_INSTRUCTIONS = 100_000_000
"""thread-instructions, so that the time limit is checked often enough,"""
JOINED_LOG = 16 << 20
"""and stored bytes."""
TRIALS = 8
"""Runs that are timed against the interpreter: the first ones are slower."""
REST = 32
"""Visits that the interpreter serves after trials that it won, at first."""


class Waiting:
    """Stands for code that is queued."""


WAITING = Waiting()


class EntryPoint:
    """A step boundary where a region may begin, for one warp or for several."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.restricted = 0
        """How many options were dropped, and code with them."""
        self.region: Region | None = None
        self.formed = False
        self.codes: dict[Signature, CompiledRegion | Waiting | None] = {}
        self.by_layout: dict[Hashable, CompiledRegion] = {}
        """The same by the layout of the inputs, which is cheaper to find than their kinds."""
        self.idle: set[Hashable] = set()
        """The layouts with which it computes next to nothing (`warpsim.native.regions.region.varying_steps`)."""
        self.passed = 0
        """How often it was passed over with these."""
        self.ready = self.pending = False
        """Whether there is any code, and whether any is queued."""
        self.failures = self.visits = 0
        self.last_check = self.next_check = 0
        """The visits of the last check whether to compile or to run, and of the next."""
        self.trials, self.faster, self.rest = TRIALS, False, REST
        self.through: tuple[float, float] | None = None
        """Instructions and stored bytes per thread of the last batch that it ran from start to end."""
        self.met = 0
        """How often it was not shown that threads keep apart."""
        self.unrecorded = 0
        """How often the way of the warps shown from near could not be recorded."""
        self.stopped = 0
        """How often joined waves did not run to the end."""
        self.kept: bool | None = None
        """Whether code of its region lies on disk; None: not looked up yet."""
        self.sought: set[Signature] = set()
        """The signatures whose code was looked up there."""
        self.cost: float | None = None
        """Seconds to compile it, once its lines are known."""

    def waves(self, threads: int) -> int:
        """How many waves of so many threads may run as one batch."""
        if self.through is None or self.trials or self.stopped >= FAILURES:
            return 1
        instructions, stored = self.through
        most = min(JOINED_THREADS, JOINED_INSTRUCTIONS / max(instructions, 1), JOINED_LOG / max(stored, 1))
        return max(int(most / threads), 1)

    def restrict(self, outcome: Outcome) -> None:
        """A region was rolled back: drop the option that led there, after a few times, or leave the place to the
        interpreter."""
        if outcome is Outcome.OVER_BUDGET:
            return
        if outcome is Outcome.MET:
            self.met += 1
            return
        options = self.options
        if outcome is Outcome.WRAPPED:
            self.options, self.kept = options._replace(strides=False), None
            self.forget()
            return
        self.failures += 1
        if self.failures < FAILURES and outcome is not Outcome.CONFLICT:
            return
        if outcome is Outcome.CONFLICT and options.barriers:
            self.options = options._replace(barriers=False)
        elif outcome is Outcome.DIVERGED and options.collectives:
            self.options = options._replace(collectives=False)
        elif outcome is Outcome.FOLLOWED:
            self.options = options._replace(accesses=False)
        elif options.stores:
            self.options = options._replace(stores=False)
        else:
            self.region, self.formed = None, True
            return
        self.region, self.formed, self.failures, self.kept = None, False, 0, None
        self.restricted += 1
        self.forget()

    def leave(self) -> None:
        """Leave the place to the interpreter, for good."""
        self.region, self.formed = None, True
        self.forget()

    def forget(self) -> None:
        """Drop all code."""
        self.codes.clear()
        self.by_layout.clear()
        self.idle.clear()
        self.sought.clear()
        self.ready = False

    def put(self, signature: Signature, code: CompiledRegion | None) -> None:
        """Keep the code for a signature (None: it cannot be compiled), and check at the next visit."""
        self.codes[signature] = code
        self.ready = self.ready or code is not None
        self.next_check = 0
        if code is not None and code.products:
            self.trials = 0  # products take as long in the interpreter, which trials would not know

    def pass_over(self, layout: Hashable) -> None:
        """Leave what computes next to nothing to the interpreter, for good where nothing else comes."""
        self.idle.add(layout)
        self.passed += 1
        if self.passed == TRIALS and not self.codes:
            self.leave()

    def record_trial(self, spent: float, interpreted: float) -> None:
        """Record a timed run. A region that was never faster than the interpreter in its trials is tried again later, ever more
        seldom: how much a run does depends on what it computes with."""
        self.trials -= 1
        self.faster = self.faster or spent <= interpreted
        if not self.trials and not self.faster:
            self.trials, self.next_check = 1, self.visits + self.rest
            self.rest *= 2


class Profile:
    """The entry points of a function and the time spent in it, kept with its plan for all launches. ``shadowed``: for
    groups whose registers have shadows; instructions on ``maybe_undefined`` registers (read before any write on some
    path) and at ``stops`` without a condition stay interpreted."""

    def __init__(
        self,
        plan: FunctionPlan,
        sm: int | None,
        *,
        shadowed: bool = False,
        keeps: bool = False,
        stops: Stops | None = None,
    ) -> None:
        self.plan, self.sm, self.stops = plan, sm, stops or {}
        given = {r.index for p in (*plan.function.params, *plan.function.returns) for r in p.registers}
        self.maybe_undefined = plan.blocks[0].live_in - given if shadowed else frozenset[int]()
        self.entries: dict[Place, EntryPoint] = {}
        self.begins: dict[tuple[int, bool], tuple[int, ...]] = {}
        self.lock = threading.RLock()
        variant = plan.name, shadowed, keeps, described(self.stops)
        self.account = account_of(f"{note_of(plan.kernel)} {variant}") if has_folder() else Account()
        """A module that is read again goes on with it: it finds on disk what was compiled before."""
        self.pace = 1.0
        """How long the interpreter takes, as a share of what its steps take as a rule (`told`)."""
        self._spent = self._estimated = 0.0
        self.size = sum(len(block.instructions) for block in plan.blocks)

    @cached_property
    def traces(self) -> Traces:
        """The graphs of the function's instructions."""
        from warpsim.native.regions.traces import Traces

        return Traces(self.plan, self.sm, self.maybe_undefined, self.stops)

    @cached_property
    def records(self) -> Records:
        """What earlier processes have left on disk."""
        from warpsim.native.tiering.records import Records

        return Records(self.plan, self.sm, self.maybe_undefined, self.stops)

    def recall(self, place: Place, entry: EntryPoint) -> None:
        """Look for an entry point's region on disk, once for its options."""
        if self.lock.acquire(blocking=False):
            try:
                found = self.records.region(place, entry.options) if on_disk(self.plan.kernel) else None
                entry.kept = found is not None
                if found is not None and not entry.formed:
                    entry.region, entry.formed = found, True
            finally:
                self.lock.release()

    def told(self, spent: float, estimated: float) -> None:
        """Launches that were interpreted tell the pace, all together, because some visits are accounted for in a later one: steps take 3
        to 14 us."""
        if any(entry.ready for entry in list(self.entries.values())):
            return
        self._spent, self._estimated = self._spent + spent, self._estimated + estimated
        if self._estimated > HOT / 4:
            self.pace = max(min(self.pace, self._spent / self._estimated), 1 / 4)

    @property
    def reasons(self) -> dict[int, str]:
        """Why instructions have no machine code, where that was tried."""
        return self.traces.reasons if "traces" in self.__dict__ else {}

    def estimate(self, entry: EntryPoint) -> float:
        """Estimated seconds to compile an entry point's region."""
        if entry.cost is not None:
            return entry.cost
        return cost(min(self.size, MOST) if entry.region is None else entry.region.size, kept=bool(entry.kept))

    def allows(self, entry: EntryPoint, share: float) -> bool:
        """Whether compiling an entry point stays within a share of the interpreted time: a smaller one for each option dropped."""
        return self.account.allows(self.estimate(entry), share / DOUBT**entry.restricted)

    def waits(self, entry: EntryPoint) -> bool:
        """Whether a launch waits for an entry point's code: no other core can compile it meanwhile, and it pays."""
        return not has_spare_core() and self.allows(entry, share_of(self.account.launches))

    def covers(self, place: Place) -> bool:
        """Whether a place lies within a region of another entry point that has not run yet: that one may serve it."""
        run = {p for p, entry in list(self.entries.items()) if entry.by_layout}
        units = [p for p in self._around(place) if p not in run]
        return any(run.isdisjoint(self._around(unit)) for unit in units)

    def _around(self, place: Place) -> list[Place]:
        """Other entry points whose regions hold a place and, of barriers, at least what it may hold."""
        block, at, alone, collectives, barriers, accesses = place
        found = []
        for other, entry in list(self.entries.items()):
            slice_ = None if entry.region is None else entry.region.slices.get(block)
            same = other[2:] in ((alone, collectives, barriers, accesses), (alone, collectives, True, accesses))
            if same and other != place and slice_ is not None and slice_.first <= at < max(slice_.last, 1):
                found.append(other)
        return found


class Request(NamedTuple):
    """A request to compile; without ``signature``, to form the region. ``now``: the launch goes on, and waits there."""

    profile: Profile
    place: Place
    entry: EntryPoint
    signature: Signature | None = None
    now: bool = False


class Budget:
    """What a launch spends on compilation, and the requests that it leaves."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.compiling = self.interpreted = 0.0
        """Seconds that compiling has taken, and that interpreting takes as a rule: those of this launch alone."""
        self.asked: dict[Hashable, Request] = {}

    def ask(self, request: Request) -> None:
        """Leave a request for after the launch."""
        self.asked.setdefault((request.place, request.signature), request)

    def worth(self) -> list[Request]:
        """The requests that may pay for later launches; the others are dropped."""
        found = []
        for request in self.asked.values():
            if request.profile.allows(request.entry, QUEUED_SHARE):
                found.append(request)
            elif request.signature is not None:
                request.entry.codes.pop(request.signature, None)
        return found

    def interpret(self, group: Group, profile: Profile, times: int) -> float:
        """Account for interpreting ``times`` times from where a group stands to the end of the block; the seconds of
        one. Products of matrices count as other steps: they run compiled in both (`warpsim.native.tiering.products`)."""
        steps = group.plan.blocks[group.block].n_steps - group.at
        one = steps * (STEP + group.selection.n * LANE)
        self.account(profile, one * times)
        return one

    def account(self, profile: Profile, seconds: float) -> None:
        """Account for so many seconds without code."""
        profile.account.interpreted += seconds
        self.interpreted += seconds
