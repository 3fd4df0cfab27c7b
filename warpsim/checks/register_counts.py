"""setmaxnreg: whether the warps of a warpgroup change their register count together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.machine.reporting import present
from warpsim.machine.values import Array
from warpsim.machine.watcher import Watcher

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.program.program import Instruction

RULE = "setmaxnreg"
ADVICE = "all warps of the warpgroup must execute the same setmaxnreg"


@attrs.define(eq=False)
class Change:
    """One setmaxnreg of a sequence that warps execute: the count requested by each warp ``[W, n_ctas]``, 0 if it has
    not reached it; who requested, and where.
    """

    counts: Array
    groups: list[tuple[Group, Instruction]]


@attrs.define(eq=False)
class Changes:
    """The setmaxnreg of a batch, and how many each warp ``[W, n_ctas]`` (W: whole warpgroups) has executed."""

    done: Array
    changes: list[Change] = attrs.field(factory=list)


class RegisterCountRules(Watcher):
    """Tracks the setmaxnreg of each batch."""

    def batch_began(self, machine: Machine) -> None:
        """Start without any."""
        shape = machine.batch.shape
        machine.batch.notes[RULE] = Changes(np.zeros((-(-shape.n_threads // 128) * 4, shape.n_ctas), np.int64))

    def registers_changed(self, machine: Machine, group: Group, count: int) -> None:
        """Report warps of a warpgroup that request different counts."""
        known: Changes = machine.batch.notes[RULE]
        warps, place = _warps(known, group), present(group)
        for number in np.unique(known.done[warps]).tolist():
            here = warps & (known.done == number)
            if number == len(known.changes):
                known.changes.append(Change(np.zeros(known.done.shape, np.int64), []))
            change = known.changes[number]
            change.counts[here] = count
            change.groups.append((group, place))
            groups = change.counts.reshape(-1, 4, change.counts.shape[1])
            differs = ((groups != 0) & (groups != count)).any(axis=1, keepdims=True)
            wrong = here & np.broadcast_to(differs, groups.shape).reshape(here.shape)
            if wrong.any():
                other = next(p for g, p in change.groups if p is not place)
                what = "asks for a different count than other warps of its warpgroup"
                _fault(machine, group, wrong, what, place, other)
        known.done[warps] += 1
        if machine.batch.exited is not None:
            _check_left(machine, known)

    def group_exited(self, machine: Machine, group: Group) -> None:
        """Check warpgroups whose threads have exited, because they execute no more setmaxnreg."""
        known: Changes = machine.batch.notes[RULE]
        if known.changes:
            _check_left(machine, known)


def _warps(known: Changes, group: Group) -> Array:
    warps = np.zeros(known.done.shape, np.bool_)
    warps[group.selection.threads >> 5, group.selection.ctas] = True
    return warps


def _ended(machine: Machine, known: Changes) -> Array:
    """Warps all of whose threads have exited."""
    shape, exited = machine.batch.shape, machine.batch.exited
    out = np.zeros(known.done.shape, np.bool_)
    if exited is not None:
        threads = exited.reshape(shape.n_threads, shape.n_ctas)
        warps = np.logical_and.reduceat(threads, np.arange(0, shape.n_threads, 32), axis=0)
        out[: len(warps)] = warps
    return out


def _check_left(machine: Machine, known: Changes) -> None:
    """Report changes made by part of a warpgroup whose other part has exited."""
    ended = _ended(machine, known)
    for change in known.changes:
        counts = change.counts.reshape(-1, 4, change.counts.shape[1])
        if not (change.counts != 0).any():
            continue
        lacking = (ended.reshape(counts.shape) & (counts == 0)).any(axis=1, keepdims=True)
        made = np.broadcast_to(lacking, counts.shape).reshape(ended.shape) & (change.counts != 0)
        for group, place in change.groups:
            here = made & _warps(known, group)
            if here.any():
                what = "was executed by some warps of a warpgroup but not by the others"
                _fault(machine, group, here, what, place)
                change.counts[here] = 0


def _fault(
    machine: Machine, group: Group, warps: Array, what: str, place: Instruction, other: Instruction | None = None
) -> None:
    lanes = warps[group.selection.threads >> 5, group.selection.ctas]
    who = ", ".join(str(w) for w in np.flatnonzero(warps.any(axis=1)).tolist())
    machine.fault(RULE, f"setmaxnreg {what} (warps {who})", group, lanes, place=place, other=other, advice=ADVICE)
