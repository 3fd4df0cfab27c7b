"""The steps of barriers of the warp, the CTA and the cluster, of register counts, and of what ends or delays threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.traits import Barrier
from warpsim.machine.asynchrony.register_counts import bind_register_count
from warpsim.machine.binding.operand_slots import destination, guard_of, value_getter
from warpsim.machine.gate import bind_gate, missing_lanes, wait
from warpsim.machine.group import Group
from warpsim.machine.hazards.stalls import is_aligned_barrier
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.reporting import present
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Imm, Instruction, Reg

DIVERGENCE = "barrier-divergence"
BARRIERS = 16


def bind_sync(plan: FunctionPlan, instruction: Instruction) -> Step:
    """Barriers of the warp, the CTA and the cluster, register counts."""
    traits = instruction.traits
    guard = guard_of(plan, instruction) if instruction.guard is not None else None
    if traits.stop is not None:
        return _trap(instruction, guard)
    if traits.sleeps:
        return lambda group: None
    if traits.register_count:
        return bind_gate(plan, instruction, bind_register_count(plan, instruction))
    barrier = traits.barrier
    assert barrier is not None, f"{instruction.text} is no barrier"
    if barrier.among == "warp":
        return bind_gate(plan, instruction, lambda group: None)
    if barrier.among == "cluster":
        return _cluster_barrier(barrier, guard, is_aligned_barrier(instruction))
    n_dest = instruction.form.n_dest
    sources = [value_getter(plan, o) for o in instruction.operands[n_dest:] if isinstance(o, (Reg, Imm))]
    kind, waits = barrier.reduction, barrier.waits
    vote_of = sources.pop() if kind else None
    target = destination(instruction.operands[0]) if kind else None
    aligned = is_aligned_barrier(instruction)

    def finish(group: Group, votes: tuple[Array, Array]) -> None:
        true, total = votes
        ctas = group.selection.ctas
        if kind == "popc":
            result: Array = true[ctas].astype(np.uint32)
        else:
            result = (true == total)[ctas] if kind == "and" else (true > 0)[ctas]
        assert target is not None
        target(group, result, None)

    def step(group: Group) -> bool:
        gone = _before(group, guard, aligned)
        if gone is not None:
            return gone
        return arrive(group)

    def _by_number(group: Group, values: list[Array]) -> bool:
        """Warps that name different barriers or counts arrive apart."""
        shape = group.selection.shape
        keys: Array = np.zeros(shape, np.int64)
        for k, value in enumerate(values):
            keys = keys | value.astype(np.uint32).astype(np.int64) << 32 * k
        rest = group
        for key in np.unique(keys)[:-1]:
            here = keys == key
            part, rest = group.batch.divide(rest, here)
            keys = keys[~here]
            _arrive_apart(part)
        _arrive_apart(rest)
        return True

    def _arrive_apart(group: Group) -> None:
        if not arrive(group):
            group.at += 1
            group.batch.push(group)

    def arrive(group: Group) -> bool:
        values = [get(group) for get in sources]
        if aligned:
            _check_operands(group, values)
        if any(v.size > 1 and (v != v.reshape(-1)[0]).any() for v in values):
            return _by_number(group, values)
        numbers = [int(v.reshape(-1)[0]) for v in values]
        number = numbers[0] if numbers else 0
        count = numbers[1] if len(numbers) > 1 else 0
        _check_count(group, number, count)
        _check_kind(group, number, kind is not None)
        vote = None if vote_of is None else vote_of(group)
        at = group.at
        group.at = at + 1
        if group.batch.arrive(group, number, count, waits, finish if kind else None, vote):
            return True
        group.at = at
        return False

    return step


def _check_count(group: Group, number: int, count: int) -> None:
    """Report a count that no barrier can have, and one that differs from what others gave in the same phase."""
    batch, barrier = group.batch, group.batch.barrier(number)
    n_threads = batch.shape.n_threads
    if count % 32 or count > -(-n_threads // 32) * 32:
        batch.fault(
            DIVERGENCE,
            f"barrier {number} is to wait for {count} threads; the CTA has {n_threads}",
            group,
            advice="a thread count is a multiple of 32 and no more than the CTA has, with its last warp full",
        )
    if barrier.arrived.any():
        before = barrier.expected[(barrier.arrived > 0) & (group.selection.per_cta > 0)]
        if (before != count).any():
            batch.fault(
                DIVERGENCE,
                f"barrier {number} is to wait for {_threads(count)}; those that have arrived ask for"
                f" {_threads(int(before[before != count][0]))}",
                group,
                other=barrier.place,
                advice="all threads that meet at a barrier give it the same count",
            )


def _check_kind(group: Group, number: int, reduction: bool) -> None:
    """Report a barrier that does not exist, and one at which others vote, or do not, in the same phase."""
    batch, barrier = group.batch, group.batch.barrier(number)
    if number >= BARRIERS:
        batch.fault(
            DIVERGENCE,
            f"barrier {number} does not exist: a CTA has {BARRIERS}",
            group,
            advice=f"the number of a barrier is 0 to {BARRIERS - 1}",
        )
    met = barrier.reduction != reduction and (barrier.arrived > 0) & (group.selection.per_cta > 0)
    if np.any(met):
        names = ("sync or arrive", "red")
        batch.fault(
            DIVERGENCE,
            f"barrier {number} is used by .{names[reduction]}, while others have arrived at it by .{names[not reduction]}",
            group,
            other=barrier.place,
            advice="use one kind of barrier instruction until all have arrived",
        )
    barrier.reduction, barrier.place = reduction, present(group)


def _threads(count: int) -> str:
    return f"{count} threads" if count else "all threads of the CTA"


def _check_operands(group: Group, values: list[Array]) -> None:
    """Report an aligned barrier whose number or count differs within a warp."""
    for name, value in zip(("barrier number", "thread count"), values, strict=False):
        if value.size == 1:
            continue
        here = group.warps.active
        spread = np.broadcast_to(group.warps.spread(value), here.shape)
        first = np.take_along_axis(spread, here.argmax(axis=1)[:, None], axis=1)
        wrong = here & (spread != first)
        if wrong.any():
            other = int(np.broadcast_to(first, wrong.shape)[wrong][0])
            group.batch.fault(
                "nonuniform-operand",
                f"the {name} differs between lanes of a warp: {other} and {int(spread[wrong][0])}",
                group,
                np.broadcast_to(as_array(group.warps.collect(wrong)), group.selection.shape),
                advice="all lanes of a warp execute the same barrier; barrier without .aligned lets them differ",
            )


def _trap(instruction: Instruction, guard: Any) -> Step:
    def step(group: Group) -> None:
        if guard is not None:
            active = guard(group)
            if active is False:
                return
            group.batch.fault("trap", f"{instruction.form.root} executed", group, active)
            return
        group.batch.fault("trap", f"{instruction.form.root} executed", group)

    return step


def _before(group: Group, guard: Any, aligned: bool) -> bool | None:
    """What comes before a barrier: the guard, and lanes that an aligned one waits for; None where all arrive now."""
    if guard is not None:
        active = guard(group)
        if active is False:
            return False
        if active is not None:
            return _leave_out(group, active)
    if aligned and not group.excused and "aligned-divergence" in group.batch.launch.settings.checks:
        lacking = missing_lanes(group, None)
        if lacking is not None:
            return wait(group, lacking)
    return None


def _cluster_barrier(barrier: Barrier, guard: Any, aligned: bool) -> Step:
    arrives, waits = barrier.arrives, barrier.waits

    def step(group: Group) -> bool:
        gone = _before(group, guard, aligned)
        if gone is not None:
            return gone
        if arrives:
            group.batch.launch.cluster_barrier(group, True, False)
        at = group.at
        group.at = at + 1
        held: bool = waits and group.batch.launch.cluster_barrier(group, False, True)
        if not held:
            group.at = at
        return held

    return step


def _leave_out(group: Group, active: Any) -> bool:
    """Threads that a guard leaves out go on; the others come to the barrier again, alone. Always True."""
    here, others = group.batch.divide(group, np.broadcast_to(active, group.selection.shape))
    others.at = group.at + 1
    group.batch.push(others)
    group.batch.push(here)
    return True
