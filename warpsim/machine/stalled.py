"""Stalls: which threads wait, where and for what, and what the others ultimately wait for."""

from __future__ import annotations

from typing import NoReturn, TypedDict

import attrs
import numpy as np

from warpsim.errors import Finding
from warpsim.isa.spec import Scope
from warpsim.machine.collectives import alive, membermask, wanted, warps_of
from warpsim.machine.machine import Machine
from warpsim.machine.reporting import counted, party, present, stop
from warpsim.machine.selection import Shape
from warpsim.machine.state.batch import Barrier
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.numerics.arrays import distinct
from warpsim.program.program import Instruction
from warpsim.records import frozen

WARP, LANES, BARRIER, CLUSTER = "warp", "lanes", "barrier", "cluster"
REGISTERS, COLUMNS, PHASE, MEMORY = "registers", "columns", "phase", "memory"
"""What threads wait for: all lanes of their warps, those in a membermask, a barrier of the CTA or of the cluster,
registers, columns of tensor memory, the phase of an mbarrier, or a change of memory."""


class StallValues(TypedDict):
    """What the finding of a stall says besides its message."""

    advice: str
    place: Instruction | None
    other: Finding | None


@frozen(eq=False)
class Stall:
    """Waiting threads: what they wait for (a constant above), a description, whether the threads that they wait for
    poll memory elsewhere (``polled_for``), and their place if it is not their step."""

    machine: Machine
    group: Group
    wait: str
    note: str
    advice: str
    polled_for: bool = False
    place: Instruction | None = None


def arrive_in_parts(machines: list[Machine]) -> bool:
    """Let warps that stand at an aligned barrier in parts arrive in parts; True if there were any."""
    found = False
    for machine in machines:
        elsewhere = [g for g in machine.batch.parked if not present(g).traits.aligned_barrier]
        elsewhere += machine.batch.sleeping
        held = distinct(np.concatenate([np.zeros(0, np.int64), *map(warps_of, elsewhere)]))  # lanes wait for others
        here = [
            group
            for group in machine.batch.parked
            if present(group).traits.aligned_barrier and not np.isin(warps_of(group), held).any()
        ]
        machine.batch.parked = [group for group in machine.batch.parked if not any(group is h for h in here)]
        for group in here:
            if machine.hooks.warp_split is not None:
                others = [g for g in (*here, *machine.batch.parked) if g is not group]
                machine.hooks.warp_split(machine, group, others[0] if others else None)
            group.arrives_in_parts = True
            machine.push(group)
            if machine.hooks.group_woken is not None:
                machine.hooks.group_woken(machine, group)
            found = True
    return found


def deadlock(machines: list[Machine]) -> NoReturn:
    """End the launch because no thread can make progress, and say which threads wait for what. What the others
    ultimately wait for comes first: a collective or barrier whose threads do not poll memory elsewhere, then a loop
    that polls."""
    polls = [_poll(machine, g) for machine in machines for g in machine.batch.sleeping]
    polling = {id(machine): np.zeros(machine.batch.shape.n, np.bool_) for machine in machines}
    for machine in machines:
        for group in machine.batch.sleeping:
            polling[id(machine)][group.selection.positions.reshape(-1)] = True
    collectives = [_collective(machine, g, polling[id(machine)]) for machine in machines for g in machine.batch.parked]
    collectives += [
        _registers(machine, g)
        for machine in machines
        if machine.batch.register_counts is not None
        for g in machine.batch.register_counts.waiting
    ]
    collectives += [
        _columns(machine, g)
        for machine in machines
        if machine.batch.tensor is not None
        for g in machine.batch.tensor.waiting
    ]
    barriers = [
        _barrier(machine, barrier, group, polling[id(machine)])
        for machine in machines
        for barrier in machine.batch.barriers.values()
        for group in barrier.waiting
    ]
    clusters = [
        _cluster(machine, g)
        for machine in machines
        for g in (machine.batch.cluster_barrier.waiting if machine.batch.cluster_barrier is not None else ())
    ]
    polls.sort(key=lambda stall: stall.wait != PHASE)
    own = [*collectives, *barriers]
    stalls = [*[s for s in own if not s.polled_for], *polls, *[s for s in own if s.polled_for], *clusters]
    first = stalls[0]
    machine, launch = first.machine, first.machine.launch
    values: StallValues = {"advice": first.advice, "place": first.place, "other": _other(first, stalls)}
    message = "no thread can make progress: " + "; ".join(dict.fromkeys([s.note for s in stalls][:6]))
    before = machine.errors
    if machine.hooks.stalled is not None:
        machine.hooks.stalled(machine, first, message, values)
    if machine.errors == before:
        machine.fault("deadlock", message, first.group, **values)
    stop(launch, list(launch.findings.values())[-1])


def _collective(machine: Machine, group: Group, polling: Array) -> Stall:
    instruction = present(group)
    active = group.warps.active
    members = membermask(instruction)
    absent = wanted(group, members, active) & alive(machine, group) & ~active
    wide = instruction.form.scope is Scope.WARPGROUP
    who = f"{group.selection.n} threads"
    missing = None
    warp_of = _warps(machine.batch.shape, 128 if wide else 32)
    here = group.selection.positions.reshape(-1)
    polled_for = bool((polling & np.isin(warp_of, warp_of[here])).any())
    if absent.any():
        warp, column = np.argwhere(absent.any(axis=1))[0].tolist()
        who = f"{counted('lane', np.flatnonzero(active[warp, :, column]))} of a warp"
        missing = np.flatnonzero(absent[warp, :, column])
    kind = "warpgroup" if wide else "warp"
    whom = f"for {counted('lane', missing)}" if missing is not None else f"for the other threads of their {kind}"
    advice = (
        f"all lanes of a {kind} execute this together: move it out of divergent code"
        if members is None
        else "every lane in the mask must reach the same instruction: compute the mask where the lanes diverge"
    )
    note = f"{who} wait at {instruction.text} in line {instruction.span.line} {whom}"
    return Stall(machine, group, WARP if members is None else LANES, note, advice, polled_for)


def _warps(shape: Shape, width: int) -> Array:
    """The warp or warpgroup (times CTAs, plus CTA) of each position of a batch."""
    positions = np.arange(shape.n)
    found: Array = positions // shape.n_ctas // width * shape.n_ctas + positions % shape.n_ctas
    return found


def _barrier(machine: Machine, barrier: Barrier, group: Group, polling: Array) -> Stall:
    ctas = distinct(group.selection.ctas)
    cta = int(ctas[np.flatnonzero(barrier.arrived[ctas])[:1]].sum())
    expected = int(barrier.expected[cta]) or int(machine.batch.alive[cta])
    note = (
        f"{group.selection.n} threads wait at barrier {barrier.number} in line {present(group).span.line}:"
        f" {int(barrier.arrived[cta])} of {expected} have arrived"
    )
    advice = "all threads that the barrier counts must reach it, with the same number and count"
    polled_for = bool(polling[np.isin(np.arange(machine.batch.shape.n) % machine.batch.shape.n_ctas, ctas)].any())
    return Stall(machine, group, BARRIER, note, advice, polled_for)


def _cluster(machine: Machine, group: Group) -> Stall:
    note = f"{group.selection.n} threads wait for their clusters in line {present(group).span.line}"
    advice = "every thread of the cluster that has not exited must arrive once before each wait"
    return Stall(machine, group, CLUSTER, note, advice)


def _registers(machine: Machine, group: Group) -> Stall:
    place = present(group)
    note = f"{group.selection.n} threads wait for registers at {place.text} in line {place.span.line}"
    advice = "other warps must release enough registers with setmaxnreg.dec first: the counts of a CTA cannot exceed those at launch"
    return Stall(machine, group, REGISTERS, note, advice)


def _columns(machine: Machine, group: Group) -> Stall:
    place = present(group)
    whom = (
        "the other CTA of their pair, or for columns of tensor memory" if "cta_group::2" in place.op.modifiers else ""
    )
    note = f"{group.selection.n} threads wait for {whom or 'columns of tensor memory'} at {place.text} in line {place.span.line}"
    advice = "columns become free by tcgen05.dealloc, which must not wait for this; with .cta_group::2, one warp of each CTA executes it"
    return Stall(machine, group, COLUMNS, note, advice)


def _poll(machine: Machine, group: Group) -> Stall:
    place = _phase_wait(group)
    if place is not None:
        note = f"the phase of an mbarrier can never complete: {group.selection.n} threads wait for it in line {place.span.line}"
        advice = "compare the arrivals and bytes with the counts of mbarrier.init and expect_tx, and check the parity of the wait"
        return Stall(machine, group, PHASE, note, advice, place=place)
    loop = group.plan.loop(group.block)
    if not loop.polls:
        note = f"{group.selection.n} threads repeat the loop of lines {loop.lines[0]} to {loop.lines[1]}, but nothing that its exit depends on changes"
        advice = "the condition of a loop depends on what the loop, or another thread, changes"
    else:
        line = present(group).span.line
        note = f"{group.selection.n} threads poll memory in a loop at line {line} but no thread changes it"
        advice = "another thread must store what the loop waits for, before it waits itself"
    return Stall(machine, group, MEMORY, note, advice)


def _phase_wait(group: Group) -> Instruction | None:
    """The mbarrier wait in the loop at whose head a group sleeps."""
    for block in group.plan.blocks[group.block :]:
        for instruction in block.instructions:
            if instruction.traits.mbarrier is not None:
                return instruction
        if block.waits:
            break
    return None


def _other(first: Stall, stalls: list[Stall]) -> Finding | None:
    """A place where a thread waits that should have arrived, preferably in the same CTAs."""
    ctas = first.group.selection.ctas
    others = [s for s in stalls[1:] if s.machine is first.machine]
    near = [s for s in others if np.isin(s.group.selection.ctas, ctas).any()] or others
    if not near:
        return None
    found = party(near[0].machine.launch, near[0].machine.batch, near[0].group, near[0].note)
    if near[0].place is None:
        return found
    return attrs.evolve(
        found, line=near[0].place.span.line, column=near[0].place.span.column, instruction=near[0].place.text
    )
