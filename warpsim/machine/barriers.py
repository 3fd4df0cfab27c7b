"""The steps of barriers of the warp, the CTA and the cluster, of register counts, and of what ends or delays threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.checks.stalls import is_aligned_barrier
from warpsim.isa.traits import Barrier
from warpsim.machine.asynchrony.register_counts import bind_register_count
from warpsim.machine.binding.operand_slots import destination, guard_of, value_getter
from warpsim.machine.gate import bind_gate, missing_lanes, wait
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.reporting import present
from warpsim.machine.runtime import cluster_barrier
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Imm, Instruction, Reg

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

DIVERGENCE = "barrier-divergence"
BARRIERS = 16


def bind_sync(plan: FunctionPlan, instruction: Instruction) -> Step:
    """Barriers of the warp, the CTA and the cluster, register counts."""
    traits = instruction.traits
    guard = guard_of(plan, instruction) if instruction.guard is not None else None
    if traits.stop is not None:
        return _trap(instruction, guard)
    if traits.sleeps:
        return lambda machine, group: None
    if traits.register_count:
        return bind_gate(plan, instruction, bind_register_count(plan, instruction))
    barrier = traits.barrier
    assert barrier is not None, f"{instruction.text} is no barrier"
    if barrier.among == "warp":
        return bind_gate(plan, instruction, lambda machine, group: None)
    if barrier.among == "cluster":
        return _cluster_barrier(barrier, guard, is_aligned_barrier(instruction))
    n_dest = instruction.form.n_dest
    sources = [value_getter(plan, o) for o in instruction.operands[n_dest:] if isinstance(o, (Reg, Imm))]
    kind, waits = barrier.reduction, barrier.waits
    vote_of = sources.pop() if kind else None
    target = destination(instruction.operands[0]) if kind else None
    aligned = is_aligned_barrier(instruction)

    def finish(machine: Machine, group: Group, votes: tuple[Array, Array]) -> None:
        true, total = votes
        ctas = group.selection.ctas
        if kind == "popc":
            result: Array = true[ctas].astype(np.uint32)
        else:
            result = (true == total)[ctas] if kind == "and" else (true > 0)[ctas]
        assert target is not None
        target(machine, group, result, None)

    def step(machine: Machine, group: Group) -> bool:
        gone = _before(machine, group, guard, aligned)
        if gone is not None:
            return gone
        return arrive(machine, group)

    def _by_number(machine: Machine, group: Group, values: list[Array]) -> bool:
        """Warps that name different barriers or counts arrive apart."""
        shape = group.selection.shape
        keys: Array = np.zeros(shape, np.int64)
        for k, value in enumerate(values):
            keys = keys | value.astype(np.uint32).astype(np.int64) << 32 * k
        rest = group
        for key in np.unique(keys)[:-1]:
            here = keys == key
            part, rest = machine.divide(rest, here)
            keys = keys[~here]
            _arrive_apart(machine, part)
        _arrive_apart(machine, rest)
        return True

    def _arrive_apart(machine: Machine, group: Group) -> None:
        if not arrive(machine, group):
            group.at += 1
            machine.push(group)

    def arrive(machine: Machine, group: Group) -> bool:
        values = [get(machine, group) for get in sources]
        if aligned:
            _check_operands(machine, group, values)
        if any(v.size > 1 and (v != v.reshape(-1)[0]).any() for v in values):
            return _by_number(machine, group, values)
        numbers = [int(v.reshape(-1)[0]) for v in values]
        number = numbers[0] if numbers else 0
        count = numbers[1] if len(numbers) > 1 else 0
        _check_count(machine, group, number, count)
        _check_kind(machine, group, number, kind is not None)
        vote = None if vote_of is None else vote_of(machine, group)
        at = group.at
        group.at = at + 1
        if machine.arrive(group, number, count, waits, finish if kind else None, vote):
            return True
        group.at = at
        return False

    return step


def _check_count(machine: Machine, group: Group, number: int, count: int) -> None:
    """Report a count that no barrier can have, and one that differs from what others gave in the same phase."""
    barrier = machine.barrier(number)
    n_threads = machine.batch.shape.n_threads
    if count % 32 or count > -(-n_threads // 32) * 32:
        machine.fault(
            DIVERGENCE,
            f"barrier {number} is to wait for {count} threads; the CTA has {n_threads}",
            group,
            advice="a thread count is a multiple of 32 and no more than the CTA has, with its last warp full",
        )
    if barrier.arrived.any():
        before = barrier.expected[(barrier.arrived > 0) & (group.selection.per_cta > 0)]
        if (before != count).any():
            machine.fault(
                DIVERGENCE,
                f"barrier {number} is to wait for {_threads(count)}; those that have arrived ask for"
                f" {_threads(int(before[before != count][0]))}",
                group,
                other=barrier.place,
                advice="all threads that meet at a barrier give it the same count",
            )


def _check_kind(machine: Machine, group: Group, number: int, reduction: bool) -> None:
    """Report a barrier that does not exist, and one at which others vote, or do not, in the same phase."""
    machine, barrier = machine, machine.barrier(number)
    if number >= BARRIERS:
        machine.fault(
            DIVERGENCE,
            f"barrier {number} does not exist: a CTA has {BARRIERS}",
            group,
            advice=f"the number of a barrier is 0 to {BARRIERS - 1}",
        )
    met = barrier.reduction != reduction and (barrier.arrived > 0) & (group.selection.per_cta > 0)
    if np.any(met):
        names = ("sync or arrive", "red")
        machine.fault(
            DIVERGENCE,
            f"barrier {number} is used by .{names[reduction]}, while others have arrived at it by .{names[not reduction]}",
            group,
            other=barrier.place,
            advice="use one kind of barrier instruction until all have arrived",
        )
    barrier.reduction, barrier.place = reduction, present(group)


def _threads(count: int) -> str:
    return f"{count} threads" if count else "all threads of the CTA"


def _check_operands(machine: Machine, group: Group, values: list[Array]) -> None:
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
            machine.fault(
                "nonuniform-operand",
                f"the {name} differs between lanes of a warp: {other} and {int(spread[wrong][0])}",
                group,
                np.broadcast_to(as_array(group.warps.collect(wrong)), group.selection.shape),
                advice="all lanes of a warp execute the same barrier; barrier without .aligned lets them differ",
            )


def _trap(instruction: Instruction, guard: Any) -> Step:
    def step(machine: Machine, group: Group) -> None:
        if guard is not None:
            active = guard(machine, group)
            if active is False:
                return
            machine.fault("trap", f"{instruction.form.root} executed", group, active)
            return
        machine.fault("trap", f"{instruction.form.root} executed", group)

    return step


def _before(machine: Machine, group: Group, guard: Any, aligned: bool) -> bool | None:
    """What comes before a barrier: the guard, and lanes that an aligned one waits for; None where all arrive now."""
    if guard is not None:
        active = guard(machine, group)
        if active is False:
            return False
        if active is not None:
            return _leave_out(machine, group, active)
    if aligned and not group.excused and "aligned-divergence" in machine.launch.settings.checks:
        lacking = missing_lanes(machine, group, None)
        if lacking is not None:
            return wait(machine, group, lacking)
    return None


def _cluster_barrier(barrier: Barrier, guard: Any, aligned: bool) -> Step:
    arrives, waits = barrier.arrives, barrier.waits

    def step(machine: Machine, group: Group) -> bool:
        gone = _before(machine, group, guard, aligned)
        if gone is not None:
            return gone
        if arrives:
            cluster_barrier(machine, group, True, False)
        at = group.at
        group.at = at + 1
        held: bool = waits and cluster_barrier(machine, group, False, True)
        if not held:
            group.at = at
        return held

    return step


def _leave_out(machine: Machine, group: Group, active: Any) -> bool:
    """Threads that a guard leaves out go on; the others come to the barrier again, alone. Always True."""
    here, others = machine.divide(group, np.broadcast_to(active, group.selection.shape))
    others.at = group.at + 1
    machine.push(others)
    machine.push(here)
    return True
