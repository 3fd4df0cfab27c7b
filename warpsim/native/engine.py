"""The compiled engine of one launch: which units there are, when they are worth compiling, and which serve a group."""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import attrs

from warpsim.isa.spec import Scope
from warpsim.machine.selection import Rect
from warpsim.machine.waiting import LOOK_EVERY
from warpsim.native import private
from warpsim.native.bodies import Bodies
from warpsim.native.compiler import Invalid, available
from warpsim.native.extents import Noted
from warpsim.native.inputs import Given, given, row_of
from warpsim.native.runs import Code, Outcome, Runner, Scratch, compile_unit, value_of
from warpsim.native.text import Manner
from warpsim.native.trace import Untraceable
from warpsim.native.units import MOST, Former, Known, Options, Shape, kinds_of
from warpsim.native.values import Unlowerable

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group
    from warpsim.program.program import Instruction

LEAST = 3
"""Steps of a unit without a loop: fewer are as well interpreted."""
WORK = 100_000_000
"""Warp-instructions of a unit between two looks at the clock."""
STEP, LANE = 8e-6, 1e-9
"""Seconds that the interpreter takes for a step, and for each lane of it."""
HOT = 0.02
"""Seconds that a place has to take before it is looked at."""
FIRST, EACH = 0.05, 0.01
"""Seconds that compiling takes at least, and for each instruction."""
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
    codes: dict[Any, Code | None] = attrs.field(factory=dict)
    failures: int = 0
    visits: int = 0
    slow: int = 0

    def weaken(self, outcome: Outcome) -> None:
        """A unit gave up: after a few times its kind is left to the interpreter."""
        if outcome in (Outcome.OVER, Outcome.UNREADY):
            return
        options = self.options
        if outcome is Outcome.DOUBT:
            self.options = attrs.evolve(options, strides=False)
            self.codes.clear()
            return
        self.failures += 1
        if self.failures < FAILURES and outcome is not Outcome.CONFLICT:
            return
        if outcome is Outcome.CONFLICT and options.barriers:
            self.options = attrs.evolve(options, barriers=False)
        elif outcome is Outcome.PARTED and options.collectives:
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
        self.spots: dict[tuple[int, int, bool, bool, bool], Spot] = {}
        self.begins: dict[int, tuple[int, ...]] = {}
        self.lock = threading.RLock()
        self.interpreted = 0.0
        """Seconds that the interpreter has spent in the function, about, in all launches; and those that compiling took."""
        self.compiled = 0.0
        self.size = sum(len(block.instructions) for block in plan.blocks)

    def allows(self, steps: int) -> bool:
        """Whether the function may be compiled from some place on: that takes at most a fifth of all the time in it."""
        return self.compiled + FIRST + EACH * min(max(steps, self.size), MOST) <= self.interpreted / 5


class Compiled:
    """The compiled engine for the groups of one launch. ``eager``: compile at once, whatever it costs; ``noted`` is told what
    units access of global memory."""

    def __init__(
        self,
        noted: Noted | None = None,
        *,
        eager: bool,
        collectives: bool,
        units: bool = True,
        barriers: bool = False,
    ) -> None:
        self.eager, self.collectives, self.units, self.barriers = eager, collectives, units, barriers
        self.bodies = Bodies(eager=eager)
        self.runner = Runner(_MINE.scratch, noted)
        self.compiling = 0.0
        """Seconds that compiling has taken in this launch."""
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
        barriers = self.barriers and _whole_ctas(machine, group)
        key = group.block, group.at, alone, self.collectives, barriers
        spot = plans.spots.get(key)
        if spot is None:
            spot = plans.spots[key] = Spot(Options(alone, collectives=self.collectives, barriers=barriers))
        if spot.formed and spot.shape is None:
            return False
        spot.visits += 1
        if not self.eager and not spot.codes and not self._hot(group, plans, spot):
            return False
        if not spot.formed:
            spot.shape, spot.formed = self._form(plans, group, spot), True
        shape = spot.shape
        if shape is None or group.carries or (shape.collective and DIVERGED in machine.batch.notes):
            return False
        values = []
        for key_, dtype in zip(shape.reads, shape.types, strict=True):
            value = value_of(machine, group, key_, dtype)
            if value is None:
                return False
            values.append(value)
        limited = _block_limit(group, limit)
        while True:
            outcome = self._run(machine, group, plans, spot, values, limited)
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

    def _run(
        self, machine: Machine, group: Group, plans: Plans, spot: Spot, values: list[Any], limit: int
    ) -> Outcome | None:
        """One call of a spot's code, None where there is none."""
        shape, selection = spot.shape, group.selection
        assert shape is not None
        row = row_of(selection) if spot.options.strides else 0
        givens = tuple([given(value, row) for value in values])
        manner = Manner(
            spot.options.alone,
            row,
            spot.options.strides,
            private.pays(machine, shape),
            limit < FAR,
            self.runner.noted is not None,
        )
        code = spot.codes.get((givens, manner))
        if code is None:
            if (givens, manner) in spot.codes:
                return None
            code = spot.codes[givens, manner] = self._compile(plans, spot, givens, manner)
            if code is None:
                return None
        work = max(WORK // (shape.size * tables_size(selection)), 16)
        laps = min(LOOK_EVERY - 1 - group.back_edges % LOOK_EVERY, work)
        if laps <= 0 and shape.loops:
            return None
        began, before = time.perf_counter(), machine.launch.thread_instructions
        outcome = self.runner.run(machine, group, code, values, limit, laps)
        spent = time.perf_counter() - began
        if outcome is Outcome.DONE and not self.eager:
            done = max(machine.launch.thread_instructions - before, shape.size * selection.n)
            spot.judge(spent, done * (STEP / selection.n + LANE))
        return outcome

    def _hot(self, group: Group, plans: Plans, spot: Spot) -> bool:
        steps = len(group.plan.blocks[group.block].steps) - group.at
        one = steps * (STEP + group.selection.n * LANE)
        plans.interpreted += one
        return spot.visits * one > HOT and plans.allows(steps)

    def _spent(self, plans: Plans, began: float) -> None:
        seconds = time.perf_counter() - began
        plans.compiled += seconds
        self.compiling += seconds

    def _form(self, plans: Plans, group: Group, spot: Spot) -> Shape | None:
        began = time.perf_counter()
        with plans.lock:
            shape = Former(plans.known, spot.options).form(group.block, group.at)
        self._spent(plans, began)
        if shape is None or (not shape.loops and shape.size < LEAST + 1):
            return None
        return shape

    def _compile(self, plans: Plans, spot: Spot, givens: tuple[Given, ...], manner: Manner) -> Code | None:
        began = time.perf_counter()
        shape = spot.shape
        assert shape is not None
        try:
            with plans.lock:
                varying = frozenset(k for k, g in zip(shape.reads, givens, strict=True) if g.how != "same")
                return compile_unit(plans.known, shape, kinds_of(plans.known, shape, varying), givens, manner)
        except (Untraceable, Unlowerable):
            spot.shape = None
            return None
        except Invalid as problem:
            spot.shape = None
            warnings.warn(
                f"a part of a kernel is interpreted, please report why: {problem}", RuntimeWarning, stacklevel=2
            )
            return None
        finally:
            self._spent(plans, began)


def _begins(plan: FunctionPlan, block: int) -> tuple[int, ...]:
    """Steps behind one that is no arithmetic, no access and no shuffle."""
    steps = plan.blocks[block].instructions[: len(plan.blocks[block].steps)]
    other = [not _plausible(i) for i in steps]
    return tuple(k for k in range(1, len(steps)) if other[k - 1] and not other[k])


def _whole_ctas(machine: Machine, group: Group) -> bool:
    """Whether a group has all threads of its CTAs, and nobody waits for anybody."""
    selection, batch = group.selection, machine.batch
    if not isinstance(selection, Rect) or not selection.all_threads or batch.exited is not None:
        return False
    return not any(barrier.waiting or barrier.arrived.any() for barrier in batch.barriers.values())


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
