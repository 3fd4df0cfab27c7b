"""Where units of a function may begin, and what has come of them, for every launch."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from warpsim.native.compiling.cache import noted
from warpsim.native.regions.options import Options, Outcome
from warpsim.native.tiering.cost import BEHIND, LANE, MOST, STEP, Pace, cost

if TYPE_CHECKING:
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group
    from warpsim.native.compiling.region_code import Code
    from warpsim.native.regions.region import Known, Shape

FAILURES = 3
JOINED_THREADS = 1 << 20
"""Threads that run side by side at most where several waves are one batch,"""
JOINED_INSTRUCTIONS = 100_000_000
"""thread-instructions that they execute, so that the clock is looked at in time,"""
JOINED_LOG = 16 << 20
"""and bytes that they store."""
TRIALS = 8
"""Times that a unit runs before it is known whether it is faster than the steps: the first ones take longer."""
Place = tuple[int, int, bool, bool, bool]
"""Block and step, and what a unit may do there: it is the only warp, holds collectives, holds barriers."""


class Waiting:
    """Stands for code that is asked for."""


WAITING = Waiting()


class Spot:
    """A step boundary where a unit may begin, for one warp or for several."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.shape: Shape | None = None
        self.formed = False
        self.codes: dict[Any, Code | Waiting | None] = {}
        self.looks: dict[Any, Code] = {}
        """The same by what values look like, which is found sooner."""
        self.ready = self.pending = False
        """Whether any code is there, and whether a thread is at some of it."""
        self.failures = self.visits = 0
        self.looked_at = self.look_at = 0
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

    def weaken(self, outcome: Outcome) -> None:
        """A unit gave up: after a few times its kind is left to the interpreter."""
        if outcome is Outcome.OVER:
            return
        options = self.options
        if outcome is Outcome.DOUBT:
            self.options = options._replace(strides=False)
            self.forget()
            return
        self.failures += 1
        if self.failures < FAILURES and outcome is not Outcome.CONFLICT:
            return
        if outcome is Outcome.CONFLICT and options.barriers:
            self.options = options._replace(barriers=False)
        elif outcome is Outcome.PARTED and options.collectives:
            self.options = options._replace(collectives=False)
        elif options.stores:
            self.options = options._replace(stores=False)
        else:
            self.shape, self.formed = None, True
            return
        self.shape, self.formed, self.failures = None, False, 0
        self.forget()

    def forget(self) -> None:
        """Its code, which serves no longer."""
        self.codes.clear()
        self.looks.clear()
        self.ready = False

    def put(self, variant: Any, code: Code | None) -> None:
        """Code for a variant, None where that cannot be: who looks from time to time whether there is any, looks now."""
        self.codes[variant] = code
        self.ready = self.ready or code is not None
        self.look_at = 0

    def judge(self, spent: float, interpreted: float) -> None:
        """A unit has run: one that has never been faster than the steps would be is left to the interpreter; any other is
        trusted from then on."""
        self.trials -= 1
        self.faster = self.faster or spent <= interpreted
        if not self.trials and not self.faster:
            self.shape, self.formed = None, True
            self.forget()


class Plans:
    """Spots of a function, kept with its plan for every launch. ``careful``: of groups that have registers which somebody follows, as
    those that some path reads before any write: these are ``doubtful``."""

    def __init__(self, plan: FunctionPlan, sm: int | None, *, careful: bool = False) -> None:
        self.plan, self.sm = plan, sm
        given = {r.index for p in (*plan.function.params, *plan.function.returns) for r in p.registers}
        self.doubtful = plan.blocks[0].live_in - given if careful else frozenset[int]()
        self.spots: dict[Place, Spot] = {}
        self.begins: dict[int, tuple[int, ...]] = {}
        self.lock = threading.RLock()
        self.interpreted = 0.0
        """Seconds that the interpreter has spent in the function, about, in all launches; and those that compiling took."""
        self.compiled = 0.0
        self.size = sum(len(block.instructions) for block in plan.blocks)

    @cached_property
    def known(self) -> Known:
        """What has been traced of the function."""
        from warpsim.native.regions.region import Known

        return Known(self.plan, self.sm, self.doubtful)

    @property
    def reasons(self) -> dict[int, str]:
        """Why instructions have no machine code, where that was tried."""
        return self.known.reasons if "known" in self.__dict__ else {}

    def estimate(self, spot: Spot) -> float:
        """Seconds that compiling from some place on takes, about."""
        if spot.cost is not None:
            return spot.cost
        return cost(min(self.size, MOST) if spot.shape is None else spot.shape.size, kept=bool(spot.kept))

    def allows(self, spot: Spot, share: float) -> bool:
        """Whether that, and all compiling before, takes so large a share of the interpreted time at most."""
        return self.compiled + self.estimate(spot) <= self.interpreted * share

    def covers(self, place: Place) -> bool:
        """Whether a place lies within a unit that begins elsewhere and may yet run: one that has, and is left there, does not serve
        it, and one that begins within such a unit may never be asked for.
        """
        ready = {p for p, spot in list(self.spots.items()) if any(c is not WAITING for c in list(spot.codes.values()))}
        units = [p for p in self._around(place) if p not in ready]
        return any(ready.isdisjoint(self._around(unit)) for unit in units)

    def _around(self, place: Place) -> list[Place]:
        """Where units begin that a place lies within, of its kind and beginning elsewhere."""
        block, at, *rest = place
        found = []
        for other, spot in list(self.spots.items()):
            piece = None if spot.shape is None else spot.shape.pieces.get(block)
            same = other != place and list(other[2:]) == rest
            if same and piece is not None and piece.first <= at < max(piece.last, 1):
                found.append(other)
        return found

    @cached_property
    def _name(self) -> str:
        import hashlib  # OpenSSL takes its time

        text = f"{self.plan.kernel.program.module.source}\0{self.plan.name}{sorted(self.doubtful)}"
        return hashlib.sha256(text.encode()).hexdigest()

    def note_of(self, place: Place) -> str:
        """The name of the note that code for a place lies on disk."""
        import hashlib

        return hashlib.sha256(f"{self._name} {place}".encode()).hexdigest()

    def keeps(self, place: Place, spot: Spot) -> bool:
        """Whether code for a place was once compiled on this machine."""
        if spot.kept is None:
            spot.kept = noted(self.note_of(place))
        return spot.kept


class Request(NamedTuple):
    """Code that a launch would have had use for; ``variant`` None: not even the unit is formed. ``now``: the launch goes on, and
    stands there."""

    plans: Plans
    place: Place
    spot: Spot
    variant: Any = None
    now: bool = False


class Account:
    """What a launch spends on compiling, and what it would have had use for."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.compiling = 0.0
        self.asked: dict[Any, Request] = {}

    def ask(self, request: Request) -> None:
        """Code that is not there."""
        self.asked.setdefault((request.place, request.variant), request)

    def worth(self) -> list[Request]:
        """What may pay for later launches; the rest is forgotten."""
        found = []
        for request in self.asked.values():
            if request.plans.allows(request.spot, BEHIND):
                found.append(request)
            elif request.variant is not None:
                request.spot.codes.pop(request.variant, None)
        return found

    def interpret(self, group: Group, plans: Plans, times: int) -> float:
        """Note the time that the interpreter takes, so many times, from where a group stands to the end of the block; and give it
        for one."""
        steps = len(group.plan.blocks[group.block].steps) - group.at
        one = steps * (STEP + group.selection.n * LANE)
        plans.interpreted += one * times
        return one
