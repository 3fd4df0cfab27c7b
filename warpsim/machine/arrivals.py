"""CTA barriers: threads arrive, wait, vote and continue; and exiting threads, which barriers no longer wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine import clusters
from warpsim.machine.binding.operand_slots import destination
from warpsim.machine.selection import Lanes, Selection
from warpsim.machine.state.batch import Barrier, BatchState
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


def arrive(machine: Machine, group: Group, number: int, count: int, *, waits: bool, vote: Array | None = None) -> bool:
    """Arrive at a barrier. Returns True if the group has to wait; it is then kept here, and continues behind the
    barrier later.
    """
    batch, hooks, selection = machine.batch, machine.hooks, group.selection
    barrier = batch.barrier(number)
    everybody = count in (0, batch.shape.n_threads)
    unused = vote is None and not barrier.waiting and not np.count_nonzero(barrier.arrived)
    if waits and unused and selection.n == batch.shape.n and everybody:
        batch.barriers_passed += 1
        if hooks.barrier_left is not None:
            hooks.barrier_left(machine, None, number, False)  # noqa: FBT003  as every event's, by its place
        return False
    partial = barrier.partial or not (everybody and waits)
    if hooks.barrier_arrived is not None:
        hooks.barrier_arrived(machine, group, number, partial)
    barrier.partial = partial
    per_cta = selection.per_cta
    barrier.arrived += per_cta
    barrier.expected[per_cta > 0] = count
    if vote is not None:
        barrier.votes.append((selection, np.broadcast_to(vote, selection.shape)))
    if waits:
        barrier.waiting.append(group)
    release(machine, barrier)
    return waits


def release(machine: Machine, barrier: Barrier) -> None:
    """Release the CTAs whose barrier is complete."""
    needed = np.where(barrier.expected > 0, barrier.expected, machine.batch.alive)
    done = (barrier.arrived >= needed) & (barrier.arrived > 0)
    if not done.any():
        return
    machine.batch.barriers_passed[done] += 1
    votes = _votes(barrier, done)
    waiting, barrier.waiting = barrier.waiting, []
    for group in waiting:
        go, stay = _by_cta(machine, group, done)
        if stay is not None:
            barrier.waiting.append(stay)
        if go is not None:
            if machine.hooks.barrier_left is not None:
                machine.hooks.barrier_left(machine, go, barrier.number, barrier.partial)
            _give_result(machine, go, votes)
            go.at += 1
            go.generation = machine.batch.generation
            machine.push(go)
    if barrier.partial and machine.hooks.barrier_completed is not None:
        machine.hooks.barrier_completed(machine, barrier.number, np.flatnonzero(done))
    barrier.arrived[done] = 0
    barrier.expected[done] = 0


def _votes(barrier: Barrier, done: Array) -> tuple[Array, Array]:
    """For each CTA, the number of true votes and of votes."""
    n_ctas = len(done)
    true, total = np.zeros(n_ctas, np.int64), np.zeros(n_ctas, np.int64)
    kept: list[tuple[Selection, Array]] = []
    for selection, vote in barrier.votes:
        ctas = selection.ctas.reshape(-1)
        here = done[ctas]
        true += np.bincount(ctas, weights=vote.reshape(-1) & here, minlength=n_ctas).astype(np.int64)
        total += np.bincount(ctas, weights=here, minlength=n_ctas).astype(np.int64)
        if not here.all():
            rest = Lanes(selection.batch_shape, selection.positions.reshape(-1)[~here])
            kept.append((rest, vote.reshape(-1)[~here]))
    barrier.votes = kept
    return true, total


def _give_result(machine: Machine, group: Group, votes: tuple[Array, Array]) -> None:
    """Write the result of the barrier at which a group stands to its destination."""
    instruction = group.instruction
    barrier = instruction.traits.barrier
    if barrier is None or barrier.reduction is None:
        return
    (true, total), ctas = votes, group.selection.ctas
    if barrier.reduction == "popc":
        result: Array = true[ctas].astype(np.uint32)
    else:
        result = (true == total)[ctas] if barrier.reduction == "and" else (true > 0)[ctas]
    destination(instruction.operands[0])(machine, group, result, None)
    if machine.hooks.registers_written is not None:
        machine.hooks.registers_written(machine, group, instruction.writes)


def _by_cta(machine: Machine, group: Group, chosen: Array) -> tuple[Group | None, Group | None]:
    """The part of a group in the chosen CTAs, and the rest."""
    inside = chosen[group.selection.ctas]
    if inside.all():
        return group, None
    if not inside.any():
        return None, group
    return machine.divide(group, inside)


# ---- ends ---------------------------------------------------------------------------------------


def leave(machine: Machine, group: Group) -> None:
    """Exit the threads of a group."""
    batch, hooks = machine.batch, machine.hooks
    if hooks.group_exiting is not None:
        hooks.group_exiting(machine, group)
    _mark_exited(batch, group.selection)
    if hooks.group_exited is not None:
        hooks.group_exited(machine, group)
    if hooks.cta_ended is not None:
        over = np.flatnonzero((batch.alive == 0) & (group.selection.per_cta > 0))
        if len(over):
            hooks.cta_ended(machine, over)
    if group.selection.n == batch.shape.n:
        return
    for barrier in list(batch.barriers.values()):
        release(machine, barrier)
    clusters.turn(machine)
    parked, batch.parked = batch.parked, []
    batch.runnable += parked
    if hooks.group_woken is not None:
        for woken in parked:
            hooks.group_woken(machine, woken)


def _mark_exited(batch: BatchState, selection: Selection) -> None:
    """These threads have exited."""
    if selection.n == batch.shape.n:
        batch.alive[:] = 0
        batch.exited = np.empty(batch.shape.n, np.bool_)
        batch.exited.fill(True)  # noqa: FBT003  NumPy's
        return
    if batch.exited is None:
        batch.exited = np.zeros(batch.shape.n, np.bool_)
    batch.exited[selection.positions.reshape(-1)] = True
    batch.alive -= selection.per_cta
