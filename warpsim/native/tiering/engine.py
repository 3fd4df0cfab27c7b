"""The compiled engine of one launch: where units may begin, and when they are worth compiling.

Nothing that compiles is imported before something is: a launch that is interpreted does not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpsim.isa.spec import Scope
from warpsim.machine.selection import Rect
from warpsim.native.regions.options import Options
from warpsim.native.tiering.cost import BEHIND, BESIDE, WITHIN, Pace, beside
from warpsim.native.tiering.entry_points import Account, Place, Plans, Request, Spot
from warpsim.native.tiering.matrix_bodies import Bodies
from warpsim.native.tiering.queue import make_beside, make_later

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.launch import DeviceSpec, LaunchState
    from warpsim.native.runtime.calls import Calls
    from warpsim.native.runtime.footprints import Noted
    from warpsim.program.program import Instruction

HOT = 0.02
"""Seconds that a place has to take before it is looked at."""
AGAIN = {Pace.AUTO: 2, Pace.ASKED: 8}
"""Whether a place has come to pay is asked again after one visit for so many."""


class Compiled:
    """The compiled engine for the groups of one launch. ``noted`` is told what units access of global memory."""

    def __init__(
        self,
        device: DeviceSpec,
        noted: Noted | None = None,
        *,
        pace: Pace,
        collectives: bool,
        units: bool = True,
        barriers: bool = False,
        joins: bool = False,
    ) -> None:
        self.pace, self.collectives, self.units, self.barriers = pace, collectives, units, barriers
        self._joins = joins
        self._noted, self._sm = noted, device.sm if device.numerics == "exact" else None
        self.bodies = Bodies(pace)
        self._account = Account(pace)
        self._plans: dict[tuple[int, bool], Plans] = {}
        self._calls: Calls | None = None

    @property
    def compiling(self) -> float:
        """Seconds that compiling has taken in this launch."""
        return self._account.compiling

    def plans(self, plan: FunctionPlan, *, careful: bool = False) -> Plans:
        """What is known of a function; ``careful``: for groups with registers that somebody follows."""
        key = id(plan), careful
        found = self._plans.get(key)
        if found is None:
            name = "careful native" if careful else "native"
            kept = plan.notes.get(name)
            if kept is None:
                kept = plan.notes[name] = Plans(plan, self._sm, careful=careful)
            found = self._plans[key] = kept
        return found

    def reason(self, instruction: Instruction) -> str | None:
        """Why an instruction has no machine code, where that was tried."""
        found = (plans.reasons.get(id(instruction)) for plans in self._plans.values())
        return next((reason for reason in found if reason is not None), None)

    def until(self, group: Group, last: int) -> int:
        """The next step of the group's block at which a unit may begin, else ``last``."""
        plans = self.plans(group.plan, careful=group.has_shadows)
        found = plans.begins.get(group.block)
        if found is None:
            found = plans.begins[group.block] = _begins(group.plan, group.block, plans.doubtful)
        return next((at for at in found if at > group.at), last)

    def advance(self, machine: Machine, group: Group, limit: Any) -> bool:
        """Run what begins where a group stands, up to ``limit``; False where nothing was run. Then the group stands
        elsewhere, or (in block -1) has been replaced by its parts."""
        block = group.plan.blocks[group.block]
        if group.at == len(block.steps) and not block.successors:
            return False
        plans = self.plans(group.plan, careful=group.has_shadows)
        barriers = self.barriers and _whole_ctas(machine, group)
        alone = group.selection.n_warps == 1
        place = group.block, group.at, alone, self.collectives, barriers
        spot = plans.spots.get(place)
        if spot is None:
            spot = plans.spots[place] = Spot(Options(alone, collectives=self.collectives, barriers=barriers))
        if spot.formed and spot.shape is None:
            return False
        spot.visits += 1
        if self.pace is not Pace.AT_ONCE and not spot.ready:
            if spot.visits < spot.look_at:
                return False
            spot.look_at = spot.visits + 1 + spot.visits // AGAIN[self.pace]
            if not self._pays(group, plans, place, spot):
                return False
        if self._calls is None:
            from warpsim.native.runtime.calls import Calls

            self._calls = Calls(self._account, self._noted)
        return self._calls.advance(machine, group, limit, plans, place, spot)

    def joined(self, state: LaunchState) -> int:
        """How many waves may begin as one batch: where a unit has run whole waves before, Python's part is one for all."""
        if not self._joins or state.cluster != (1, 1, 1):
            return 1
        spot = self.plans(state.plan.main).spots.get((0, 0, False, self.collectives, self.barriers))
        return 1 if spot is None else spot.waves(state.settings.batch_threads)

    def run_through(self, machine: Machine, group: Group) -> bool:
        """Run all threads of a batch from the kernel's first instruction to its last; else False, and nothing was run."""
        plans = self.plans(group.plan)
        place = 0, 0, False, self.collectives, self.barriers
        if self._calls is None:
            from warpsim.native.runtime.calls import Calls

            self._calls = Calls(self._account, self._noted)
        return self._calls.run_through(machine, group, plans, place, plans.spots[place])

    def over(self) -> None:
        """The launch is over: what it had use for is compiled behind it."""
        asked = self._account.worth()
        if asked:
            make_later(asked)
        self.bodies.over()

    # ---- what pays --------------------------------------------------------------------------------

    def _pays(self, group: Group, plans: Plans, place: Place, spot: Spot) -> bool:
        """Whether to have code for a place without any; if not, it is interpreted."""
        one = self._account.interpret(group, plans, spot.visits - spot.looked_at)
        spot.looked_at = spot.visits
        if spot.pending:
            return False
        hot = spot.visits * one > HOT
        if self.pace is Pace.ASKED and (spot.formed or (plans.keeps(place, spot) and plans.allows(spot, BEHIND))):
            return True
        if hot and self.pace is Pace.AUTO:
            plans.keeps(place, spot)
        if hot and plans.allows(spot, BESIDE if beside() else WITHIN):
            if spot.formed or not beside():
                return True
            make_beside(Request(plans, place, spot))
        elif self.pace is Pace.ASKED:
            self._account.ask(Request(plans, place, spot))
        return False


def _begins(plan: FunctionPlan, block: int, doubtful: frozenset[int]) -> tuple[int, ...]:
    """Steps behind one that is no arithmetic, no access and no shuffle, or is on ``doubtful`` registers."""
    steps = plan.blocks[block].instructions[: len(plan.blocks[block].steps)]
    other = [not _plausible(i) or any(not doubtful.isdisjoint(part) for part in (i.reads, i.writes)) for i in steps]
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
