"""The compiled engine of one launch: which units there are, when they are worth compiling, and which serve a group."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import attrs

from warpsim.isa.spec import Scope
from warpsim.machine.waiting import LOOK_EVERY
from warpsim.native.bodies import Bodies
from warpsim.native.compiler import available
from warpsim.native.lower import Unlowerable
from warpsim.native.runs import Code, Outcome, Runner, Scratch, compile_unit, is_uniform, value_of
from warpsim.native.trace import Untraceable
from warpsim.native.units import Former, Known, Options, Shape, kinds_of

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group
    from warpsim.program.program import Instruction

LEAST = 3
"""Steps of a unit without a loop: fewer are as well interpreted."""
WORK = 20_000_000
"""Warp-instructions of a unit between two looks at the clock."""
STEP, LANE = 8e-6, 1e-9
"""Seconds that the interpreter takes for a step, and for each lane of it."""
FAILURES = 3
FAR = 1 << 40
DIVERGED = "diverged"
"""Under this name a batch keeps what the rules of collectives have to look at (`warpsim.checks.convergence`)."""


class _OfThread(threading.local):
    """What compiled code works in; each thread has its own."""

    def __init__(self) -> None:
        self.scratch = Scratch()


_MINE = _OfThread()


@attrs.define(eq=False)
class Spot:
    """A step boundary where a unit may begin, for one warp or for several."""

    options: Options
    shape: Shape | None = None
    formed: bool = False
    codes: dict[frozenset[Any], Code | None] = attrs.field(factory=dict)
    failures: int = 0
    visits: int = 0
    slow: int = 0

    def weaken(self, outcome: Outcome) -> None:
        """A unit gave up: after a few times its kind is left to the interpreter."""
        if outcome in (Outcome.OVER, Outcome.UNREADY):
            return
        self.failures += 1
        if self.failures < FAILURES and outcome is not Outcome.CONFLICT:
            return
        options = self.options
        if outcome is Outcome.PARTED and options.collectives:
            self.options = attrs.evolve(options, collectives=False)
        elif options.stores:
            self.options = attrs.evolve(options, stores=False)
        else:
            self.shape, self.formed = None, True
            return
        self.shape, self.formed, self.failures = None, False, 0
        self.codes.clear()

    def judge(self, spent: float, interpreted: float) -> None:
        """A unit has run: one that takes longer than the steps would, time after time, is left to the interpreter."""
        self.slow = self.slow + 1 if spent > interpreted else 0
        if self.slow == FAILURES:
            self.shape, self.formed = None, True
            self.codes.clear()


class Plans:
    """Spots of a function, kept with its plan for every launch."""

    def __init__(self, plan: FunctionPlan) -> None:
        self.known = Known(plan)
        self.spots: dict[tuple[int, int, bool, bool], Spot] = {}
        self.begins: dict[int, tuple[int, ...]] = {}
        self.lock = threading.RLock()


class Budget:
    """Compiling takes at most a fifth of the time that was spent interpreting."""

    def __init__(self) -> None:
        self.compiled = 0.0
        self.native = 0.0
        self.began = time.perf_counter()

    def allows(self, seconds: float) -> bool:
        """Whether so much may be spent now."""
        interpreted = time.perf_counter() - self.began - self.compiled - self.native
        return self.compiled + seconds <= interpreted / 5


class Compiled:
    """The compiled engine for the groups of one launch. ``eager``: compile at once, whatever it costs."""

    def __init__(self, eager: bool, collectives: bool, units: bool = True) -> None:
        self.eager, self.collectives, self.units = eager, collectives, units
        self.bodies = Bodies(eager)
        self.runner = Runner(_MINE.scratch)
        self.budget = Budget()
        self._plans: dict[int, Plans] = {}

    def plans(self, plan: FunctionPlan) -> Plans:
        """What is known of a function."""
        found = self._plans.get(id(plan))
        if found is None:
            kept = plan.notes.get("native")
            if kept is None:
                kept = plan.notes["native"] = Plans(plan)
            found = self._plans[id(plan)] = kept
        return found

    def reason(self, instruction: Instruction) -> str | None:
        """Why an instruction has no machine code, where that was tried."""
        found = (plans.known.reasons.get(id(instruction)) for plans in self._plans.values())
        return next((reason for reason in found if reason is not None), None)

    def until(self, group: Group, last: int) -> int:
        """The next step of the group's block at which a unit may begin, else ``last``."""
        plans = self._plans.get(id(group.plan)) or self.plans(group.plan)
        found = plans.begins.get(group.block)
        if found is None:
            found = plans.begins[group.block] = _begins(group.plan, group.block)
        return next((at for at in found if at > group.at), last)

    def advance(self, machine: Machine, group: Group, limit: Any) -> bool:
        """Run what begins where a group stands, up to ``limit``; False where nothing was run. Then the group stands
        elsewhere, or (in block -1) has been replaced by its parts."""
        selection = group.selection
        alone = selection.n_warps == 1
        plans = self._plans.get(id(group.plan)) or self.plans(group.plan)
        key = group.block, group.at, alone, self.collectives
        spot = plans.spots.get(key)
        if spot is None:
            spot = plans.spots[key] = Spot(Options(alone, collectives=self.collectives))
        if spot.formed and spot.shape is None:
            return False
        spot.visits += 1
        if not self.eager and not spot.codes and not self._hot(group, spot):
            return False
        if not spot.formed:
            spot.shape, spot.formed = self._form(plans, group, spot), True
        shape = spot.shape
        if shape is None or group.carries or (shape.collective and DIVERGED in machine.batch.notes):
            return False
        values = []
        varying = []
        for key_, dtype in zip(shape.reads, shape.types, strict=True):
            value = value_of(machine, group, key_, dtype)
            if value is None:
                return False
            values.append(value)
            if not is_uniform(value):
                varying.append(key_)
        kinds = frozenset(varying)
        code = spot.codes.get(kinds)
        if code is None:
            if kinds in spot.codes:
                return False
            code = spot.codes[kinds] = self._compile(plans, spot, kinds)
            if code is None:
                return False
        work = max(WORK // (shape.size * tables_size(selection)), 16)
        laps = min(LOOK_EVERY - 1 - group.back_edges % LOOK_EVERY, work)
        if laps <= 0 and shape.loops:
            return False
        began, before = time.perf_counter(), machine.launch.thread_instructions
        outcome = self.runner.run(machine, group, code, values, _block_limit(group, limit), laps)
        spent = time.perf_counter() - began
        self.budget.native += spent
        if outcome is Outcome.DONE:
            if not self.eager:
                done = max(machine.launch.thread_instructions - before, shape.size * selection.n)
                spot.judge(spent, done * (STEP / selection.n + LANE))
            return True
        spot.weaken(outcome)
        return False

    def _hot(self, group: Group, spot: Spot) -> bool:
        steps = len(group.plan.blocks[group.block].steps) - group.at
        spent = spot.visits * steps * (8e-6 + group.selection.n * 2e-9)
        return spent > 0.02 and self.budget.allows(0.05 + 0.003 * steps)

    def _form(self, plans: Plans, group: Group, spot: Spot) -> Shape | None:
        began = time.perf_counter()
        with plans.lock:
            shape = Former(plans.known, spot.options).form(group.block, group.at)
        self.budget.compiled += time.perf_counter() - began
        if shape is None or (not shape.loops and shape.size < LEAST + 1):
            return None
        return shape

    def _compile(self, plans: Plans, spot: Spot, kinds: frozenset[Any]) -> Code | None:
        began = time.perf_counter()
        shape = spot.shape
        assert shape is not None
        try:
            with plans.lock:
                return compile_unit(plans.known, shape, kinds_of(plans.known, shape, kinds), spot.options.alone)
        except (Untraceable, Unlowerable):
            spot.shape = None
            return None
        finally:
            self.budget.compiled += time.perf_counter() - began


def _begins(plan: FunctionPlan, block: int) -> tuple[int, ...]:
    """Steps behind one that is no arithmetic, no access and no shuffle."""
    steps = plan.blocks[block].instructions[: len(plan.blocks[block].steps)]
    other = [not _plausible(i) for i in steps]
    return tuple(k for k in range(1, len(steps)) if other[k - 1] and not other[k])


def _plausible(instruction: Instruction) -> bool:
    form = instruction.form
    return form.scope in (Scope.THREAD, Scope.WARP) and form.ports <= {"memory", "active", "report"}


def _block_limit(group: Group, limit: Any) -> int:
    """The block before which the group's lanes have to wait for others."""
    if limit is None or limit[0] > group.generation:
        return FAR
    depth = len(group.stack)
    here, there = group.key, limit[1]
    if here[:depth] != there[:depth] or len(there) <= depth:
        return FAR if here[:depth] < there[:depth] else 0
    return max(there[depth], group.block + 1)


def tables_size(selection: Any) -> int:
    """Warps of a selection."""
    return int(selection.n_warps)


__all__ = ["Compiled", "available"]
