"""A launch that one region has run from start to end: the next one of its shape is a call of that region with other parameters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from warpsim.machine.engine import over_time
from warpsim.machine.hooks import Hooks
from warpsim.native.regions.options import Outcome
from warpsim.native.runtime.inputs import PARAM
from warpsim.records import define

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpsim.machine.hooks import Listener
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.launch import LaunchState
    from warpsim.machine.values import Value
    from warpsim.native.runtime.compiled_region import CompiledRegion
    from warpsim.native.runtime.lane_tables import WarpTables
    from warpsim.native.runtime.run import Runner

THREADS = 1 << 14
"""A launch of more threads is not kept: it takes so long that little would be saved."""


@define(eq=False)
class StraightLaunch:
    """Such a launch, kept for the next ones: its only group, and what the region reads."""

    machine: Machine
    group: Group
    code: CompiledRegion
    tables: WarpTables
    values: list[Value | int]
    limits: tuple[int, int]
    """The block before which it has to stop, and how often it may go back."""
    runner: Runner
    seen: tuple[bytes, bool, bool]
    """What was seen of it (`seen_by`)."""
    failed: bool = False
    """Whether the region gave up: the next launch that it runs from start to end is kept instead."""

    def run(self, params: bytes, listeners: Sequence[Listener] = ()) -> bool:
        """Run the launch with other parameters; ``listeners`` hear of the region, of the last instruction and of the end. False if the
        region gave up, and nothing has happened."""
        launch, group, tables, (limit, back_edges) = self.machine.launch, self.group, self.tables, self.limits
        if listeners:
            hooks = Hooks(listeners)
            if seen_by(launch, hooks) != self.seen:
                return False
            self.machine.hooks = hooks
        budget, seconds = launch.settings.max_instructions, launch.settings.max_seconds
        launch.params, launch.counts, launch.findings = params, {}, {}
        launch.instructions = launch.thread_instructions = 0
        group.block = group.at = group.back_edges = 0
        for k, (kind, at, end) in enumerate(self.code.region.sources):
            if kind == PARAM:
                self.values[k] = int.from_bytes(params[at:end], "little")
        self.runner.enter()
        began = 0.0 if seconds is None else time.monotonic()
        try:
            # the kernel's last instruction, which lies behind the region, counts, too
            room = None if budget is None else budget - tables.n
            outcome = self.runner.run(
                self.machine, group, self.code, tables, self.values, limit, back_edges, through=True, room=room
            )
            self.failed = outcome is not Outcome.DONE
            if self.failed:
                return False
            self._end()
            if seconds is not None and time.monotonic() - began > seconds:
                over_time(self.machine, group)
        finally:
            launch.memory.nanoseconds += launch.now
            launch.release()
            if listeners:
                self.machine.hooks = Hooks()
        return True

    def _end(self) -> None:
        """Count the kernel's last instruction, if its block lies behind the region, and tell of it and of the end."""
        machine, group, n = self.machine, self.group, self.tables.n
        launch, hooks, block = machine.launch, machine.hooks, group.plan.blocks[group.block]
        if group.at == 0:
            launch.counts[block] = launch.counts.get(block, 0) + n
            launch.instructions += n
            launch.thread_instructions += group.selection.n
        if hooks.step_before is not None:
            hooks.step_before(machine, group, group.instruction)
        if hooks.batch_ended is not None:
            hooks.batch_ended(machine)


def seen_by(launch: LaunchState, hooks: Hooks) -> tuple[bytes, bool, bool]:
    """Which CTAs of a launch are seen from near, and whether code has to count and to record: launches in which these differ have
    other code."""
    near = b"" if launch.near is None else launch.near.tobytes()
    return near, hooks.region_counted is not None, hooks.region_recorded is not None


def goes_straight(machine: Machine, group: Group, code: CompiledRegion, runner: Runner) -> bool:
    """Whether a launch of which a call was all can be run again by such a call: rules have to be told of nothing, and it leaves
    nothing behind but global memory."""
    launch, hooks = machine.launch, machine.hooks
    listening = hooks.region_accessed, hooks.group_exiting, hooks.group_exited, hooks.cta_ended
    return (
        machine.batch.shape.n_ctas == launch.n_ctas
        and group.selection.n <= THREADS
        and ("shared" not in code.spaces or code.variant.private or not machine.batch.shared.size)
        and ("local" not in code.spaces or not machine.batch.local.size)
        and code.region.wgmma is None
        and not group.has_shadows
        and listening == (None,) * len(listening)
        and runner.observer is None
        and runner.lane is None
        and launch.schedule is None
        and not launch.placed
    )
