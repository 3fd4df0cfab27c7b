"""Errors at barriers: numbers, counts and kinds that disagree, operands that differ within a warp, and repeated
arrivals at the cluster barrier without a wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.machine.reporting import present
from warpsim.machine.state.batch import NEVER
from warpsim.machine.values import Array, as_array
from warpsim.machine.watcher import Watcher
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.batch import Barrier
    from warpsim.machine.state.group import Group

RULE, OPERANDS = "barrier-divergence", "nonuniform-operand"
RULES = frozenset({RULE, OPERANDS})
BARRIERS = 16


@attrs.define(eq=False)
class Last:
    """Where threads of each CTA last arrived at a barrier, by number in ``places``, and whether they vote there.

    CTAs of a batch stand at different places of the kernel: what one did says nothing of the others.
    """

    place: Array
    votes: Array
    places: list[Instruction] = attrs.Factory(list)

    @classmethod
    def of(cls, n_ctas: int) -> Last:
        """No arrival."""
        return cls(np.zeros(n_ctas, np.intp), np.zeros(n_ctas, bool))

    def note(self, group: Group, here: Instruction, *, votes: bool) -> None:
        """The group arrives here."""
        index = next((i for i, place in enumerate(self.places) if place is here), len(self.places))
        if index == len(self.places):
            self.places.append(here)
        ctas = slice(None) if group.selection.all_ctas else group.selection.per_cta > 0
        self.place[ctas], self.votes[ctas] = index, votes

    def before(self, met: Array) -> Instruction:
        """Where threads of the first of some CTAs arrived."""
        return self.places[int(self.place[met.argmax()])]


class Barriers(Watcher):
    """Checks arrivals at barriers. A batch records the last arrival at each barrier, by number."""

    compiled = frozenset({"barrier_reached"})  # in compiled code, all threads of a CTA arrive at the same place

    def batch_began(self, machine: Machine) -> None:
        """Start with no arrivals."""
        machine.batch.notes[RULE] = {}

    def barrier_operands_differ(self, machine: Machine, group: Group, operands: list[Array]) -> None:
        """Report operands that differ within a warp that arrives together; elsewhere they may differ."""
        if present(group).traits.aligned_barrier:
            _check_operands(machine, group, operands)

    def barrier_reached(self, machine: Machine, group: Group, number: int, count: int) -> None:
        """Compare with the operands of threads that have arrived."""
        here, barrier, arrived = present(group), machine.batch.barrier(number), machine.batch.notes[RULE]
        last: Last = arrived.setdefault(number, Last.of(len(barrier.arrived)))
        _check_count(machine, group, barrier, count, last)
        _check_kind(machine, group, barrier, last, votes=_votes(here))
        last.note(group, here, votes=_votes(here))

    def cluster_barrier_arrived(self, machine: Machine, group: Group) -> None:
        """Report threads that arrive again without having waited."""
        barrier = machine.batch.cluster_barrier
        assert barrier is not None
        again = barrier.entered[group.selection.positions] != NEVER
        if again.any():
            machine.fault(
                RULE,
                "threads arrive at the cluster barrier again before they have waited for their last arrival",
                group,
                again,
                advice="each thread must execute barrier.cluster.wait after each barrier.cluster.arrive",
            )


def _check_count(machine: Machine, group: Group, barrier: Barrier, count: int, last: Last) -> None:
    """Report a count that no barrier can have, or one that differs from others in the same phase."""
    number, n_threads = barrier.number, machine.batch.shape.n_threads
    if count == 0 and not _waits(present(group)):
        machine.fault(
            RULE,
            f"threads arrive at barrier {number} without the number of threads that it expects",
            group,
            advice="an arrival that does not wait must give a thread count, which is not 0",
        )
    if count % 32 or count > -(-n_threads // 32) * 32:
        machine.fault(
            RULE,
            f"barrier {number} expects {count} threads; the CTA has {n_threads}",
            group,
            advice="the count must be a multiple of 32, and at most the CTA's threads rounded up to whole warps",
        )
    if np.count_nonzero(barrier.arrived):
        other = _met(barrier, group) & (barrier.expected != count)
        if other.any():
            machine.fault(
                RULE,
                f"barrier {number} expects {_threads(count)} here; threads that have arrived expect"
                f" {_threads(int(barrier.expected[other.argmax()]))}",
                group,
                other[group.selection.ctas],
                other=last.before(other),
                advice="all threads of a barrier must give the same count",
            )


def _check_kind(machine: Machine, group: Group, barrier: Barrier, last: Last, *, votes: bool) -> None:
    """Report a barrier that does not exist, or one where others vote (or do not) in the same phase."""
    number = barrier.number
    if number >= BARRIERS:
        machine.fault(
            RULE,
            f"barrier {number} does not exist: a CTA has {BARRIERS}",
            group,
            advice=f"barrier numbers are 0 to {BARRIERS - 1}",
        )
    other = (last.votes != votes) & _met(barrier, group)
    if other.any():
        names = ("sync or arrive", "red")
        machine.fault(
            RULE,
            f"barrier {number} is used with .{names[votes]} here; other threads have arrived with .{names[not votes]}",
            group,
            other[group.selection.ctas],
            other=last.before(other),
            advice="use one kind of barrier instruction until the barrier is complete",
        )


def _votes(instruction: Instruction) -> bool:
    barrier = instruction.traits.barrier
    return barrier is not None and barrier.reduction is not None


def _waits(instruction: Instruction) -> bool:
    barrier = instruction.traits.barrier
    return barrier is None or barrier.waits


def _met(barrier: Barrier, group: Group) -> Array:
    """The group's CTAs in which threads have arrived before."""
    met: Array = (barrier.arrived > 0) & (group.selection.per_cta > 0)
    return met


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
                OPERANDS,
                f"the {name} differs between lanes of a warp: {other} and {int(spread[wrong][0])}",
                group,
                np.broadcast_to(as_array(group.warps.collect(wrong)), group.selection.shape),
                advice="all lanes of a warp must name the same barrier; only barrier without .aligned lets them differ",
            )
