"""The grids that kernels launch, in the order in which they run.

A grid that a kernel launches may begin at any time from its launch on, and its parent does not end before it. Here it begins when
its parent has ended, or when the parent polls in vain. Grids run one after the other as they were launched, each with all that
it launches, which keeps the order of every stream; tail launches come last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import attrs

from warpsim.machine.device_runtime import cluster_of
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.launched import Moved, Ordered


def children(state: LaunchState, *, tails: bool) -> Iterator[LaunchState]:
    """The grids that a grid has launched so far, each to be run before the next one is asked for; ``tails``: those of its tail
    launches, too."""
    launched = state.launched
    assert launched is not None, "something was launched"
    tail = [*launched.tails] if tails else []
    around = state.pending + len(launched.tails) - len(tail)
    waiting = deque([(1, False, each) for each in launched.queue] + [(1, True, each) for each in tail])
    held, launched.queue, launched.polled = len(tail), [], False
    del launched.tails[: len(tail)]
    while waiting:
        depth, is_tail, first = waiting.popleft()
        held -= is_tail
        if isinstance(first, Moved):
            _move(state.memory, first)
            continue
        launched.ran += 1
        child = _begun(state, first)
        child.inside = state.inside + (not tails)
        child.pending = around + held + depth
        yield child
        state.findings, state.instructions, state.skipped = child.findings, child.instructions, child.skipped
        state.thread_instructions = child.thread_instructions
        if child.launched is not None:
            waiting.extendleft((depth, True, each) for each in reversed(child.launched.tails))
            waiting.extendleft((depth + 1, False, each) for each in reversed(child.launched.queue))
            held += len(child.launched.tails)


def _begun(state: LaunchState, given: Ordered) -> LaunchState:
    """A grid before its first step: what it counts and finds continues that of the one that launched it."""
    plan = state.plan.image.plan(given.kernel)
    order = None if state.schedule is None else attrs.evolve(state.schedule, waves=None)
    settings = attrs.evolve(
        state.settings, dynamic_shared=given.shared, cluster=cluster_of(plan.entry), cooperative=False, by_warp=False
    )
    return LaunchState(
        plan, given.grid, given.block, given.params, state.memory, state.device, settings,
        schedule=order, by=given.by, printed=state.printed, findings=state.findings, counts=state.counts,
        instructions=state.instructions, skipped=state.skipped, thread_instructions=state.thread_instructions,
    )  # fmt: skip


def _move(memory: GlobalMemory, moved: Moved) -> None:
    """Copy or set bytes, with what is known of their being written."""
    target = memory.find(moved.target, moved.target + moved.nbytes)
    source = None if moved.source is None else memory.find(moved.source, moved.source + moved.nbytes)
    if target is None or (source is None and moved.source is not None):
        return  # freed since
    at = slice(moved.target - target.start, moved.target - target.start + moved.nbytes)
    values: object = 0
    known: object = 0xFF
    if source is not None and moved.source is not None:
        there = slice(moved.source - source.start, moved.source - source.start + moved.nbytes)
        values = source.data[there].copy()
        withheld = [(key, one.finding, one.marks.data[there].copy()) for key, one in (source.withheld or {}).items()]
        target.forget(at)
        for key, finding, marks in withheld:
            target.withhold(key, finding, at, marks)
        if source.shadow is not None:
            known = source.shadow.data[there].copy()
            target.own_shadow()
    for part, new in ((target, values), (target.shadow, known)):
        if part is not None:
            part.own()
            part.data[at] = new
    memory.version += 1
