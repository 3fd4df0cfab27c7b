"""Where regions of a function may begin, and what has come of them, for every launch."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from warpsim.native.compiling.cache import has_note
from warpsim.native.regions.options import MOST, Options, Outcome
from warpsim.native.tiering.cost import LANE, QUEUED_SHARE, STEP, Account, Policy, cost

if TYPE_CHECKING:
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group
    from warpsim.native.compiling.region_code import CompiledRegion
    from warpsim.native.regions.region import Region
    from warpsim.native.regions.traces import Traces

FAILURES = 3
JOINED_THREADS = 1 << 20
"""Threads that run side by side at most where several waves are one batch,"""
JOINED_INSTRUCTIONS = 100_000_000
"""thread-instructions that they execute, so that the clock is looked at in time,"""
JOINED_LOG = 16 << 20
"""and bytes that they store."""
TRIALS = 8
"""Times that a region runs before it is known whether it is faster than the steps: the first ones take longer."""
Place = tuple[int, int, bool, bool, bool]
"""Block and step, and what a region may do there: it is the only warp, holds collectives, holds barriers."""


class Waiting:
    """Stands for code that is asked for."""


WAITING = Waiting()


class EntryPoint:
    """A step boundary where a region may begin, for one warp or for several."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.region: Region | None = None
        self.formed = False
        self.codes: dict[Any, CompiledRegion | Waiting | None] = {}
        self.by_layout: dict[Any, CompiledRegion] = {}
        """The same by what values look like, which is found sooner."""
        self.ready = self.pending = False
        """Whether any code is there, and whether a thread is at some of it."""
        self.failures = self.visits = 0
        self.last_check = self.next_check = 0
        """At which visit somebody last asked whether code for it pays, and when to ask again: that takes its time, too."""
        self.trials, self.faster = TRIALS, False
        self.through: tuple[float, float] | None = None
        """Of the last batch that it ran from the first instruction to the last: instructions and stored bytes of each thread."""
        self.stopped = 0
        """How often joined waves did not come to the end."""
        self.kept: bool | None = None
        """Whether its code was once compiled on this machine, None where nobody has looked."""
        self.cost: float | None = None
        """Seconds that compiling takes, as far as that is known better."""

    @property
    def on_trial(self) -> bool:
        """Whether its time is still compared with the interpreter's."""
        return self.trials > 0

    def waves(self, threads: int) -> int:
        """How many waves of so many threads it may run as one batch."""
        if self.through is None or self.on_trial or self.stopped >= FAILURES:
            return 1
        instructions, stored = self.through
        most = min(JOINED_THREADS, JOINED_INSTRUCTIONS / max(instructions, 1), JOINED_LOG / max(stored, 1))
        return max(int(most / threads), 1)

    def restrict(self, outcome: Outcome) -> None:
        """A region gave up: after a few times its kind is left to the interpreter."""
        if outcome is Outcome.OVER_BUDGET:
            return
        options = self.options
        if outcome is Outcome.WRAPPED:
            self.options = options._replace(strides=False)
            self.forget()
            return
        self.failures += 1
        if self.failures < FAILURES and outcome is not Outcome.CONFLICT:
            return
        if outcome is Outcome.CONFLICT and options.barriers:
            self.options = options._replace(barriers=False)
        elif outcome is Outcome.DIVERGED and options.collectives:
            self.options = options._replace(collectives=False)
        elif options.stores:
            self.options = options._replace(stores=False)
        else:
            self.region, self.formed = None, True
            return
        self.region, self.formed, self.failures = None, False, 0
        self.forget()

    def forget(self) -> None:
        """Its code, which serves no longer."""
        self.codes.clear()
        self.by_layout.clear()
        self.ready = False

    def put(self, signature: Any, code: CompiledRegion | None) -> None:
        """Code for a variant, None where that cannot be: who looks from time to time whether there is any, looks now."""
        self.codes[signature] = code
        self.ready = self.ready or code is not None
        self.next_check = 0

    def record_trial(self, spent: float, interpreted: float) -> None:
        """A region has run: one that has never been faster than the steps would be is left to the interpreter; any other is
        trusted from then on."""
        self.trials -= 1
        self.faster = self.faster or spent <= interpreted
        if not self.trials and not self.faster:
            self.region, self.formed = None, True
            self.forget()


class Profile:
    """Entry points of a function, kept with its plan for every launch. ``shadowed``: of groups that have registers which somebody follows, as
    those that some path reads before any write: these are ``maybe_undefined``."""

    def __init__(self, plan: FunctionPlan, sm: int | None, *, shadowed: bool = False) -> None:
        self.plan, self.sm = plan, sm
        given = {r.index for p in (*plan.function.params, *plan.function.returns) for r in p.registers}
        self.maybe_undefined = plan.blocks[0].live_in - given if shadowed else frozenset[int]()
        self.entries: dict[Place, EntryPoint] = {}
        self.begins: dict[int, tuple[int, ...]] = {}
        self.lock = threading.RLock()
        self.account = Account()
        self.size = sum(len(block.instructions) for block in plan.blocks)

    @cached_property
    def traces(self) -> Traces:
        """What has been traced of the function."""
        from warpsim.native.regions.traces import Traces

        return Traces(self.plan, self.sm, self.maybe_undefined)

    @property
    def reasons(self) -> dict[int, str]:
        """Why instructions have no machine code, where that was tried."""
        return self.traces.reasons if "traces" in self.__dict__ else {}

    def estimate(self, entry: EntryPoint) -> float:
        """Seconds that compiling from some place on takes, about."""
        if entry.cost is not None:
            return entry.cost
        return cost(min(self.size, MOST) if entry.region is None else entry.region.size, kept=bool(entry.kept))

    def allows(self, entry: EntryPoint, share: float) -> bool:
        """Whether compiling from there, and all compiling before, takes such a share of the interpreted time at most."""
        return self.account.allows(self.estimate(entry), share)

    def covers(self, place: Place) -> bool:
        """Whether a place lies within a region that begins elsewhere and may yet run: one that has, and is left there, does not serve
        it, and one that begins within such a region may never be asked for.
        """
        ready = {
            p for p, entry in list(self.entries.items()) if any(c is not WAITING for c in list(entry.codes.values()))
        }
        units = [p for p in self._around(place) if p not in ready]
        return any(ready.isdisjoint(self._around(unit)) for unit in units)

    def _around(self, place: Place) -> list[Place]:
        """Where regions begin that a place lies within, of its kind and beginning elsewhere."""
        block, at, *rest = place
        found = []
        for other, entry in list(self.entries.items()):
            slice_ = None if entry.region is None else entry.region.slices.get(block)
            same = other != place and list(other[2:]) == rest
            if same and slice_ is not None and slice_.first <= at < max(slice_.last, 1):
                found.append(other)
        return found

    @cached_property
    def _name(self) -> str:
        import hashlib  # OpenSSL takes its time

        text = f"{self.plan.kernel.program.module.source}\0{self.plan.name}{sorted(self.maybe_undefined)}"
        return hashlib.sha256(text.encode()).hexdigest()

    def note_of(self, place: Place) -> str:
        """The name of the note that code for a place lies on disk."""
        import hashlib

        return hashlib.sha256(f"{self._name} {place}".encode()).hexdigest()

    def keeps(self, place: Place, entry: EntryPoint) -> bool:
        """Whether code for a place was once compiled on this machine."""
        if entry.kept is None:
            entry.kept = has_note(self.note_of(place))
        return entry.kept


class Request(NamedTuple):
    """Code that a launch would have had use for; ``variant`` None: not even the region is formed. ``now``: the launch goes on, and
    stands there."""

    profile: Profile
    place: Place
    entry: EntryPoint
    signature: Any = None
    now: bool = False


class Budget:
    """What a launch spends on compiling, and what it would have had use for."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.compiling = 0.0
        self.asked: dict[Any, Request] = {}

    def ask(self, request: Request) -> None:
        """Code that is not there."""
        self.asked.setdefault((request.place, request.signature), request)

    def worth(self) -> list[Request]:
        """What may pay for later launches; the rest is forgotten."""
        found = []
        for request in self.asked.values():
            if request.profile.allows(request.entry, QUEUED_SHARE):
                found.append(request)
            elif request.signature is not None:
                request.entry.codes.pop(request.signature, None)
        return found

    def interpret(self, group: Group, profile: Profile, times: int) -> float:
        """Note the time that the interpreter takes, so many times, from where a group stands to the end of the block; and give it
        for one."""
        steps = len(group.plan.blocks[group.block].steps) - group.at
        one = steps * (STEP + group.selection.n * LANE)
        profile.account.interpreted += one * times
        return one
