"""Loops that wait: when a group is put to sleep, what wakes it, and simulated time, which clocks read.

Time is the work executed: one cycle per warp-instruction, `READING` per clock read. If nothing can run except loops
that read a clock, time leaps to the moment when the first of them reads it again. The longer a group has waited, the
longer it sleeps, so no wait takes many turns. ``%globaltimer`` counts the same cycles as nanoseconds, and continues
from launch to launch.
"""

from __future__ import annotations

import numpy as np

from warpsim.analysis.loops import Counter, Loop
from warpsim.machine.collectives import missing_lanes
from warpsim.machine.machine import Machine
from warpsim.machine.plan import BoundBlock
from warpsim.machine.state.group import Group, Visit
from warpsim.machine.state.launched import Launched
from warpsim.machine.values import Affine, Value, as_array, spread

LOOK_EVERY = 4096
"""Back edges between checks of a loop that polls nothing."""
PATIENCE = 1 << 18
"""Back edges in a loop that polls nothing until it lets others run, too: what it reads may be what others write."""
MOST_YIELDED = 256
"""Most turns that a group which polls in vain yields to others."""
BORED = 32
"""Turns in vain after which a loop bounded by a clock sleeps, whatever it counts."""
NAP = 256
FINER = 16
"""A nap lasts the time waited so far divided by this, which bounds oversleeping."""
HORIZON = 1 << 62
"""A group that has waited this many cycles waits forever."""


# ---- time ---------------------------------------------------------------------------------------


def pass_time(machines: list[Machine]) -> bool:
    """Advance time to when the first sleeper reads its clock again; False if none does."""
    moments = [g.wakes for machine in machines for g in machine.batch.sleeping if g.wakes is not None]
    if not moments:
        return False
    launch = machines[0].launch
    launch.skipped += max(min(moments) - launch.now, 0)
    for machine in machines:
        _rouse(machine, [g for g in machine.batch.sleeping if g.wakes is not None and g.wakes <= launch.now])
    return True


# ---- sleep --------------------------------------------------------------------------------------


def back_edge(machine: Machine, group: Group, block: BoundBlock) -> bool:
    """Handle a back edge; True if the group was put to sleep.

    A loop that polls lets others run in between; the more of them, the longer it has changed nothing in memory. One that polls
    nothing keeps its turn until it repeats itself: engines may count its back edges differently, and the order of groups must
    not depend on that.
    """
    group.back_edges += 1
    if not (block.waits or group.back_edges % LOOK_EVERY == 0 or (group.seen and group.seen[-1].followed)):
        return False
    launch = machine.launch
    loop = group.plan.loop(group.block)
    if not loop.exits and group.back_edges >= LOOK_EVERY:
        _endless(machine, group, loop)
    if loop.counter is not None and group.back_edges >= LOOK_EVERY:
        _missed(machine, group, loop, loop.counter)
    visit, repeats = _look(machine, group, loop, every=block.waits)
    stuck = repeats and _alone(machine, group, loop)
    gives_way = block.waits or repeats or group.back_edges - visit.since >= PATIENCE
    if gives_way:
        group.generation += min(1 << visit.idle, MOST_YIELDED)
        machine.batch.generation = group.generation  # whoever passes a barrier takes it
    if loop.timed and (stuck or (loop.bounded and visit.idle >= BORED)) and visit.waited < HORIZON:
        nap = max(NAP, visit.waited // FINER)
        visit.waited += nap
        group.wakes = launch.now + nap
    if stuck or group.wakes is not None:
        machine.batch.sleeping.append(group)
        if machine.hooks.group_slept is not None:
            machine.hooks.group_slept(machine, group)
        return True
    if gives_way and machine.batch.sleeping:
        wake(machine)
    return block.waits and launch.launched is not None and _polls_in_vain(machine, group, visit, launch.launched)


def _polls_in_vain(machine: Machine, group: Group, visit: Visit, launched: Launched) -> bool:
    """Whether a loop may wait for grids that this one has launched: these run before it goes on."""
    launched.polled = machine.launch.starts and (visit.idle >= BORED or group.back_edges % LOOK_EVERY == 0)
    if launched.polled:
        machine.push(group)
    return launched.polled


def _look(machine: Machine, group: Group, loop: Loop, *, every: bool) -> tuple[Visit, bool]:
    """The group's visit to the head of a loop, and whether it will return forever (unless others change what it depends on).
    Without ``every`` back edge looked at, it may have left the loop and come back since its last visit: where that looks the
    same, it is followed from there on."""
    env = group.env
    state = [
        group.fetch(r) if (value := env[r]) is None else value
        for r in loop.decisive
        if not (loop.timed and r in loop.ticking)
    ]
    memory = machine.launch.memory.version, machine.launch.memory.private
    visits = [visit for visit in group.seen if visit.encloses(group)]
    followed = bool(visits) and visits[-1].followed
    last = visits.pop() if visits and visits[-1].block == group.block and visits[-1].stack == group.stack else None
    waited, since = (last.waited, last.since) if last is not None else (0, group.back_edges)
    visit = Visit(group.plan, group.stack, group.block, memory, state, waited, since=since, followed=followed)
    group.seen = (*visits, visit)
    if last is None:
        return visit, False
    visit.idle = 0 if machine.launch.memory.version != machine.launch.mark else last.idle + 1
    earlier = [(last.memory, last.state)]
    if last.anchor is not None:
        earlier.append(last.anchor)
    visit.anchor, visit.age, visit.span = last.anchor, last.age + 1, last.span
    if visit.anchor is None or visit.anchor[0] != memory:
        visit.anchor, visit.age, visit.span = earlier[0], 1, 1
    elif visit.age > visit.span:
        visit.anchor, visit.age, visit.span = earlier[0], 1, 2 * visit.span
    repeats = any(then == memory and _same(old, state) for then, old in earlier)
    if repeats and not (every or visit.followed):
        visit.followed, visit.anchor, repeats = True, None, False
    return visit, repeats


def wake(machine: Machine) -> None:
    """Wake the groups of a batch that slept until memory changed."""
    if machine.batch.sleeping:
        version = machine.launch.memory.version
        _rouse(machine, [g for g in machine.batch.sleeping if g.seen[-1].memory[0] != version])


def _rouse(machine: Machine, awake: list[Group]) -> None:
    if not awake:
        return
    machine.batch.sleeping = [g for g in machine.batch.sleeping if not any(g is a for a in awake)]
    for group in awake:
        group.wakes = None
        machine.push(group)
        if machine.hooks.group_woken is not None:
            machine.hooks.group_woken(machine, group)


def _endless(machine: Machine, group: Group, loop: Loop) -> None:
    machine.fault(
        "deadlock",
        f"{group.selection.n} threads loop forever: lines {loop.lines[0]} to {loop.lines[1]} have no exit",
        group,
        advice="a loop of a kernel needs an exit: a branch out of it, ret or exit",
    )


def _missed(machine: Machine, group: Group, loop: Loop, counter: Counter) -> None:
    """Report the threads whose counter will never have a value that ends the loop."""
    now = as_array(group.read(counter.register))
    forever = counter.stays(now, as_array(group.value(counter.bound)))
    if not forever.any():
        return
    lanes = spread(forever, group.selection.shape)
    n = int(np.count_nonzero(lanes))
    machine.fault(
        "deadlock",
        f"{n} threads loop forever: {counter.name}, to which each lap of the loop of lines {loop.lines[0]} to {loop.lines[1]} adds "
        f"{counter.stride}, never has a value that ends it",
        group,
        lanes,
        advice="compare with <, or make the stride divide the distance to the bound",
    )


def _alone(machine: Machine, group: Group, loop: Loop) -> bool:
    """Whether the loop depends only on registers and memory, not on the heap, the stack, or lanes elsewhere."""
    if loop.hidden or (loop.threads and group.selection.n != machine.batch.shape.n):
        return False
    return not loop.lanes or missing_lanes(machine, group, None) is None


def _same(old: list[Value], new: list[Value]) -> bool:
    for a, b in zip(old, new, strict=True):
        if a is b:
            continue
        if type(a) is Affine and type(b) is Affine:
            if (a.base, a.strides) != (b.base, b.strides):
                return False
        elif type(a) is Affine or type(b) is Affine or a.shape != b.shape or a.tobytes() != b.tobytes():
            return False
    return True
