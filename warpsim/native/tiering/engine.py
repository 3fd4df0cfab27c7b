"""The compiled engine of one launch: where regions may begin, and when to compile them.

The compiler is imported with the first region: an interpreted launch does not wait for it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

from warpsim.graph.nodes import LANES
from warpsim.isa.spec import Scope
from warpsim.machine.selection import Rect, Selection
from warpsim.machine.state.notes import Note
from warpsim.machine.waves import wave_of, waves_of
from warpsim.native.compiling.queue import compile_queue
from warpsim.native.regions.options import Holds, Options, Place, Stops, described
from warpsim.native.runtime.trail import ROWS
from warpsim.native.tiering.cost import HOT, LAUNCH, Policy, has_spare_core, share_of, spent
from warpsim.native.tiering.enqueue import enqueue, enqueue_urgent
from warpsim.native.tiering.entry_points import FAILURES, JOINED_THREADS, Budget, EntryPoint, Profile, Request

if TYPE_CHECKING:
    from warpsim.machine.engine import Limit
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.launch import DeviceSpec, LaunchState
    from warpsim.native.runtime.calls import Calls
    from warpsim.native.runtime.extents import FootprintObserver
    from warpsim.native.runtime.straight import StraightLaunch
    from warpsim.native.tiering.products import Bodies
    from warpsim.program.program import Instruction

TAKEN = frozenset({"active", "report", "memory"})
"""The ports of instructions that a region may hold."""
AGAIN = 8
"""An entry point is checked again after a share of its visits: one in so many."""
MOST_RESTING, LEAST_RESTING = 1 << 20, 1 << 10
"""It is remembered where groups of so many threads rest, each of which counts as so many at least."""


class CompiledEngine:
    """The compiled engine of one launch. ``observer`` is notified of the regions' accesses of global memory. A region may hold what
    ``holds`` says; one that runs the launch from its first step to its last, and shows that threads keep apart, what ``apart`` says."""

    def __init__(
        self,
        device: DeviceSpec,
        observer: FootprintObserver | None = None,
        *,
        policy: Policy,
        bodies: Bodies,
        holds: Holds,
        apart: Holds | None = None,
        runs_steps: bool = True,
        joins: bool = False,
        keeps: bool = False,
        stops: Stops | None = None,
        lane: int | None = None,
    ) -> None:
        self.policy, self.runs_steps, self.holds, self._apart = policy, runs_steps, holds, apart
        self._joins, self._keeps, self._stops = joins, keeps, stops or {}
        self._lane = lane
        self._begin: Place = 0, 0, False, *holds
        """Where batches begin, and where a launch that is one batch does, if more may run compiled there."""
        self._whole: Place | None = None if apart is None else (0, 0, False, *apart)
        self._joined_whole = False
        self._missed: Profile | None = None
        """The profile of a kernel without code for the CTAs that are seen from near: interpreting them takes most of such a launch."""
        self._observer, self._sm = observer, device.sm if device.numerics == "exact" else None
        self.bodies = bodies
        self._budget = Budget(policy)
        self._profiles: dict[tuple[int, bool], Profile] = {}
        self._begins: dict[tuple[FunctionPlan, int, bool], tuple[int, ...]] = {}
        self._resting: dict[tuple[int, int, Selection], tuple[FunctionPlan, EntryPoint]] = {}
        """By block, step and threads, an entry point that is not checked at every visit, and whose it is."""
        self._remembered = 0
        """How many threads these are."""
        self._calls: Calls | None = None
        self._queue = compile_queue()
        self._began = spent()

    @property
    def compiling(self) -> float:
        """Seconds that compiling has taken in this launch."""
        return self._budget.compiling

    def profile(self, plan: FunctionPlan, *, shadowed: bool = False) -> Profile:
        """The profile of a function; ``shadowed``: for groups whose registers have shadows."""
        key = id(plan), shadowed
        found = self._profiles.get(key)
        if found is None:
            name: Note[Profile] = Note(
                f"{'shadowed ' * shadowed}native{' kept' * self._keeps}{described(self._stops) if self._stops else ''}"
            )
            kept = plan.notes.get(name)
            if kept is None:
                kept = plan.notes[name] = Profile(
                    plan, self._sm, shadowed=shadowed, keeps=self._keeps, stops=self._stops
                )
            found = self._profiles[key] = kept
            found.account.launches += 1 + self._keeps  # what a session runs, it runs again
        return found

    @property
    def followed(self) -> int:
        """How many steps of the lane that it follows the last region has executed."""
        return 0 if self._calls is None else self._calls.runner.followed

    @property
    def straight(self) -> StraightLaunch | None:
        """The launch, if a call of code was all of it."""
        return None if self._calls is None else self._calls.straight

    def reason(self, instruction: Instruction) -> str | None:
        """Why an instruction has no machine code, where compiling it was tried."""
        found = (profile.reasons.get(id(instruction)) for profile in self._profiles.values())
        return next((reason for reason in found if reason is not None), None)

    def until(self, group: Group, last: int) -> int:
        """The next step of the group's block at which a region may begin, else ``last``."""
        key = group.plan, group.block, bool(group.shadows or group.frame.shadows)
        found = self._begins.get(key)
        if found is None:
            profile, accesses = self.profile(group.plan, shadowed=group.has_shadows), self.holds.accesses
            place = group.block, accesses
            if place not in profile.begins:
                profile.begins[place] = _begins(profile, group.block, accesses=accesses)
            found = self._begins[key] = profile.begins[place]
        if not found:
            return last
        for at in found[bisect_right(found, group.at) :]:
            if not self._rests(group, at):
                return at
        return last

    def advance(self, machine: Machine, group: Group, limit: Limit, room: int | None = None) -> bool:
        """Run the region that begins where a group stands, up to ``limit`` and for at most ``room`` warp-instructions; False if
        none ran. Otherwise the group has moved on, or (block -1) was split into its parts."""
        if self._queue.busy:
            self._queue.let_run()
        if self._rests(group, group.at):
            return False
        block = group.plan.blocks[group.block]
        if group.at == block.n_steps and not block.successors:
            return False
        apart = self._apart
        if (
            apart is not None
            and _whole_launch(machine, group)
            and self._visit(machine, group, limit, room, apart, apart=True)
        ):
            return True
        return self._visit(machine, group, limit, room, self.holds)

    def _rests(self, group: Group, at: int) -> bool:
        """Whether there is nothing to check at a step of a group's block: one visit more, then."""
        resting = self._resting.get((group.block, at, group.selection))
        if resting is None or resting[0] is not group.plan or resting[1].visits + 1 >= resting[1].next_check:
            return False
        resting[1].visits += 1
        return True

    def _entry(self, profile: Profile, place: Place) -> EntryPoint:
        """The entry point at a place."""
        entry = profile.entries.get(place)
        if entry is None:
            _, _, alone, *holds = place
            options = Options(alone, keeps=self._keeps, **Holds(*holds)._asdict())
            entry = profile.entries[place] = EntryPoint(options)
        return entry

    def _visit(
        self, machine: Machine, group: Group, limit: Limit, room: int | None, holds: Holds, *, apart: bool = False
    ) -> bool:
        """Look at the entry point where a group stands: compile, run its region, or rest."""
        profile = self.profile(group.plan, shadowed=group.has_shadows)
        barriers = holds.barriers and _whole_ctas(machine, group)
        alone = group.selection.n_warps == 1
        place = group.block, group.at, alone, holds.collectives, barriers, holds.accesses
        entry = self._entry(profile, place)
        if apart and entry.met >= FAILURES:
            return False
        if entry.kept is None:
            profile.recall(place, entry)
        hopeless = entry.formed and entry.region is None
        if hopeless and (apart or self.policy is Policy.AT_ONCE):
            return False
        entry.visits += 1
        if hopeless and entry.visits >= entry.next_check:
            entry.next_check = entry.visits + 1 + entry.visits // AGAIN
        if self.policy is not Policy.AT_ONCE and entry.visits < entry.next_check:
            if not apart:
                self._remembered += max(group.selection.n, LEAST_RESTING)
                if self._remembered > MOST_RESTING:
                    self._resting.clear()
                    self._remembered = 0
                self._resting[group.block, group.at, group.selection] = group.plan, entry
            return False
        if self.policy is not Policy.AT_ONCE and not entry.ready and not entry.kept:
            entry.next_check = entry.visits + 1 + entry.visits // AGAIN
            if not self._pays(group, profile, place, entry):
                return False
        return self._calling().advance(machine, group, limit, profile, place, entry, room, apart=apart)

    def _calling(self) -> Calls:
        """What calls regions, imported for the first."""
        if self._calls is None:
            from warpsim.native.runtime.calls import Calls

            self._calls = Calls(self._budget, self._observer, self._lane)
        return self._calls

    def joined(self, state: LaunchState) -> int:
        """How many waves may run as one batch, which spares calls: several where a region has run whole waves to their
        end."""
        if not self._joins or state.cluster != (1, 1, 1):
            return 1
        profile = self.profile(state.plan.main)
        self._joined_whole = self._whole is not None and self._joins_all(state, profile)
        if self._joined_whole:
            return waves_of(state)
        entry = profile.entries.get(self._begin)
        return 1 if entry is None else entry.waves(state.settings.batch_threads)

    def _joins_all(self, state: LaunchState, profile: Profile) -> bool:
        """Whether all waves of a launch may begin as one batch to show that its threads keep apart."""
        assert self._whole is not None
        x, y, z = state.block
        _, _, across, count = wave_of(state)
        if count == 1 or across not in (1, count) or state.waves or state.last_wave is not None:
            return False
        if state.n_ctas * x * y * z > JOINED_THREADS:
            return False
        entry = self._entry(profile, self._whole)
        if entry.kept is None:
            profile.recall(self._whole, entry)
        known = entry.ready or entry.kept or self.policy is Policy.AT_ONCE or profile.account.launches > 1
        return known and entry.met < FAILURES

    def serves(self, state: LaunchState, seconds: float) -> bool:
        """Whether there is code to run CTAs from start to end, or compiling it pays after so many more seconds without it."""
        if not (self.runs_steps and self.holds.accesses):
            return False
        profile = self.profile(state.plan.main)
        entry = self._entry(profile, self._begin)
        if entry.kept is None:
            profile.recall(self._begin, entry)
        if entry.formed and entry.region is None:
            return False
        account = profile.account
        account.interpreted += seconds  # where there is code, too: it may be that of other arguments
        account.launches = max(account.launches, 2)  # what a session runs, it runs again
        if entry.ready or entry.kept or self.policy is Policy.AT_ONCE:
            return True
        return not entry.pending and profile.allows(entry, share_of(account.launches))

    def records(self, state: LaunchState) -> bool:
        """Whether code may run CTAs from start to end that are to be seen from near. If it fails, they begin once more: only where
        nobody minds may they."""
        if state.near is None or state.cluster != (1, 1, 1):
            return False
        if not (self._joins and self.runs_steps and self.holds.accesses):
            return False
        if len(state.near) * -(-math.prod(state.block) // LANES) > ROWS:
            return False
        profile = self.profile(state.plan.main)
        entry = self._entry(profile, self._begin)
        if entry.kept is None:
            profile.recall(self._begin, entry)
        if entry.unrecorded or (entry.formed and entry.region is None):
            return False
        return bool(entry.ready or entry.kept or self.policy is Policy.AT_ONCE)

    def ready(self, state: LaunchState) -> bool:
        """Whether there is code to run CTAs from start to end."""
        return self._entry(self.profile(state.plan.main), self._begin).ready

    def run_through(self, machine: Machine, group: Group, room: int | None = None) -> bool:
        """Run a batch from the first instruction of the kernel to the last, in at most ``room`` warp-instructions; False if that
        failed and nothing ran."""
        profile = self.profile(group.plan)
        place = self._whole if self._joined_whole and self._whole is not None else self._begin
        if self._joined_whole and not _whole_launch(machine, group):
            return False
        entry = profile.entries[place]
        done = self._calling().run_through(machine, group, profile, place, entry, room, apart=self._joined_whole)
        if not done and machine.launch.near is not None and not entry.unrecorded:
            self._missed = profile
        return done

    def _covered(self, profile: Profile, place: Place) -> bool:
        """Whether the region where batches begin holds a place, or may when it is formed, and has not run yet."""
        begin = profile.entries.get(self._begin)
        if begin is None or begin.by_layout or place == self._begin:
            return False
        return not begin.formed if begin.region is None else place[0] in begin.region.slices

    def over(self) -> None:
        """The launch is over: queue what would have served it."""
        asked = self._budget.worth()
        if asked:
            enqueue(asked)
        took = spent() - self._began
        if self._missed is not None:
            self._missed.account.interpreted += max(took - self._budget.interpreted, 0.0)
        for profile in self._profiles.values():
            profile.account.keep()
            if not self._budget.compiling:
                profile.told(took, self._budget.interpreted)
        self.bodies.over()

    # ---- what pays --------------------------------------------------------------------------------

    def _pays(self, group: Group, profile: Profile, place: Place, entry: EntryPoint) -> bool:
        """Whether to compile at an entry point without code."""
        times = entry.visits - entry.last_check
        one = self._budget.interpret(group, profile, times)
        if place == self._begin:
            self._budget.account(profile, LAUNCH * times)
        entry.last_check = entry.visits
        if entry.pending:
            return False
        if entry.formed and (self.policy is Policy.ASKED or profile.account.launches > 1):
            return True
        saved = entry.visits * one
        if place in (self._begin, self._whole) and profile.account.launches > 1:  # its region may hold all that is hot
            saved = profile.account.saved
        least = 2 * profile.estimate(entry) if self._covered(profile, place) else HOT
        if saved > least and profile.allows(entry, share_of(profile.account.launches)):
            if entry.formed or profile.account.launches > 1 or not has_spare_core():
                return True
            enqueue_urgent(Request(profile, place, entry))
        elif self.policy is Policy.ASKED:
            self._budget.ask(Request(profile, place, entry))
        return False


def _begins(profile: Profile, block: int, *, accesses: bool) -> tuple[int, ...]:
    """Steps where a region may begin inside a block: after one that no region holds, one further after a stop, and at the first
    on registers of wgmma, which only the first slice of a region holds."""
    plan, undefined = profile.plan, profile.maybe_undefined
    bound = plan.blocks[block]
    steps = bound.instructions[: bound.n_steps]
    stops = [(i.span.line, i.span.column) in profile.stops and profile.traces.stopped(i) for i in steps]
    other = [
        stop or not _plausible(i, accesses=accesses) or i.touches(undefined)
        for i, stop in zip(steps, stops, strict=True)
    ]
    begin = plan.flow[block].first
    first = next((k for k in range(len(steps)) if not other[k] and begin + k in plan.on_wgmma_rows), 0)
    return tuple(
        k for k in range(1, len(steps)) if not other[k] and (other[k - 1] or k == first or (k > 1 and stops[k - 2]))
    )


def _whole_launch(machine: Machine, group: Group) -> bool:
    """Whether a group has all threads of a launch, and they stand at its first step."""
    launch, selection = machine.launch, group.selection
    return (
        group.block == group.at == 0
        and not group.stack
        and launch.cluster == (1, 1, 1)
        and machine.batch.shape.n_ctas == launch.n_ctas
        and selection.n == machine.batch.shape.n
    )


def _whole_ctas(machine: Machine, group: Group) -> bool:
    """Whether a group has all threads of its CTAs, and no thread waits at a barrier."""
    selection, batch = group.selection, machine.batch
    if not isinstance(selection, Rect) or not selection.all_threads or batch.exited is not None:
        return False
    return not any(barrier.waiting or barrier.arrived.any() for barrier in batch.barriers.values())


def _plausible(instruction: Instruction, *, accesses: bool) -> bool:
    form = instruction.form
    if form.scope not in (Scope.THREAD, Scope.WARP) or not form.ports <= TAKEN:
        return False
    if accesses:
        return True
    address = instruction.address if "memory" in form.ports else None
    parameter = address is not None and address.base is not None and address.base.parameter is not None
    return instruction.traits.fence is None and (parameter or "memory" not in form.ports)
