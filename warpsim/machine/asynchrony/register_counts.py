"""``setmaxnreg``: the registers that a CTA's warps give back and wait for, and whether warpgroups change them together.

A CTA owns the registers that its warps had at launch. ``.dec`` gives some back to the CTA, ``.inc`` waits until there are
enough. The assembler knows the count at launch from ``.maxnreg`` or from ``.minnctapersm`` with a block size; without
these it leaves the instruction out, and so nobody waits here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.machine.binding.operand_slots import guard_of
from warpsim.machine.reporting import present
from warpsim.machine.values import Array
from warpsim.program.program import Imm, Instruction

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan, Step
    from warpsim.machine.state.group import Group

RULE = "setmaxnreg"
ADVICE = "all warps of the warpgroup execute the same setmaxnreg"
UNIT = 8
"""Registers of a thread are allocated in multiples of this."""
SM_REGISTERS = 1 << 16


@attrs.define(eq=False)
class Change:
    """One of the setmaxnreg that warps execute one after the other: what each warp ``[W, n_ctas]`` asked for, 0 where it
    has not come to it; and who asked, where."""

    counts: Array
    groups: list[tuple[Group, Instruction]]


class RegisterCounts:
    """The counts of a batch, by warps ``[W, n_ctas]`` (W: whole warpgroups)."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.waiting: list[Group] = []
        self._used = False

    def _begin(self) -> None:
        """The first setmaxnreg of the batch: all warps hold what they have at launch."""
        shape = self.machine.batch.shape
        extent = -(-shape.n_threads // 128) * 4, shape.n_ctas
        at_launch = registers_at_launch(self.machine.launch.plan.entry.directives)
        real = np.arange(extent[0])[:, None] < -(-shape.n_threads // 32)
        self._used, self._bounded = True, at_launch is not None
        self._changes: list[Change] = []
        self._done = np.zeros(extent, np.int64)
        self._held = np.broadcast_to(np.where(real, at_launch or 0, 0), extent).copy()
        self._free = np.zeros(shape.n_ctas, np.int64)

    def change(self, group: Group, count: int, increase: bool) -> bool:
        """The warps of a group ask for ``count`` registers a thread; True where some have to wait."""
        if not self._used:
            self._begin()
        warps = self._warps(group)
        if increase and self._bounded and not self._grant(group, warps, count):
            return True
        if RULE in self.machine.launch.settings.checks:
            self._note(group, warps, count)
        if not increase:
            self._give_back(warps, count)
        return False

    def exit(self) -> None:
        """Threads have ended: what their warpgroup has done they do no more. Their registers stay theirs (on an H200, too,
        a CTA whose other warps wait for them never ends)."""
        if self._used:
            self._check_left(self._ended())

    def _ended(self) -> Array:
        """Warps of which all threads have ended."""
        shape, exited = self.machine.batch.shape, self.machine.batch.exited
        out = np.zeros(self._done.shape, np.bool_)
        if exited is not None:
            threads = exited.reshape(shape.n_threads, shape.n_ctas)
            warps = np.logical_and.reduceat(threads, np.arange(0, shape.n_threads, 32), axis=0)
            out[: len(warps)] = warps
        return out

    def _warps(self, group: Group) -> Array:
        warps = np.zeros(self._done.shape, np.bool_)
        warps[group.selection.threads >> 5, group.selection.ctas] = True
        return warps

    # ---- registers ---------------------------------------------------------------------------

    def _grant(self, group: Group, warps: Array, count: int) -> bool:
        """Take the registers for as many warps as there are some for; False where the group was parted or waits."""
        need = np.where(warps, np.maximum(count - self._held, 0), 0)
        granted = warps & (np.cumsum(need, axis=0) <= self._free)
        self._free -= np.where(granted, need, 0).sum(axis=0)
        self._held = np.where(granted, np.maximum(count, self._held), self._held)
        if granted[warps].all():
            return True
        inside = granted[group.selection.threads >> 5, group.selection.ctas]
        if inside.any():
            goes, group = self.machine.divide(group, inside)
            self.machine.push(goes)  # comes back here and needs nothing more
        self.waiting.append(group)
        return False

    def _give_back(self, warps: Array, count: int) -> None:
        kept = np.where(warps, np.minimum(self._held, count), self._held)
        freed = (self._held - kept).sum(axis=0)
        self._held, self._free = kept, self._free + freed
        if freed.any() and self.waiting:
            for group in self.waiting:
                self.machine.push(group)
            self.waiting = []

    # ---- the rule ----------------------------------------------------------------------------

    def _note(self, group: Group, warps: Array, count: int) -> None:
        place = present(group)
        for number in np.unique(self._done[warps]).tolist():
            here = warps & (self._done == number)
            if number == len(self._changes):
                self._changes.append(Change(np.zeros(self._done.shape, np.int64), []))
            change = self._changes[number]
            change.counts[here] = count
            change.groups.append((group, place))
            groups = change.counts.reshape(-1, 4, change.counts.shape[1])
            differs = ((groups != 0) & (groups != count)).any(axis=1, keepdims=True)
            wrong = here & np.broadcast_to(differs, groups.shape).reshape(here.shape)
            if wrong.any():
                other = next(p for g, p in change.groups if p is not place)
                self._fault(group, wrong, "asks for another count than other warps of its warpgroup", place, other)
        self._done[warps] += 1
        if self.machine.batch.exited is not None:
            self._check_left(self._ended())

    def _check_left(self, gone: Array) -> None:
        """Report changes that a part of a warpgroup has made, of which another part has ended."""
        for change in self._changes:
            counts = change.counts.reshape(-1, 4, change.counts.shape[1])
            if not (change.counts != 0).any():
                continue
            lacking = (gone.reshape(counts.shape) & (counts == 0)).any(axis=1, keepdims=True)
            made = np.broadcast_to(lacking, counts.shape).reshape(gone.shape) & (change.counts != 0)
            for group, place in change.groups:
                here = made & self._warps(group)
                if here.any():
                    self._fault(group, here, "was executed by some warps of a warpgroup and not by the others", place)
                    change.counts[here] = 0

    def _fault(
        self, group: Group, warps: Array, what: str, place: Instruction, other: Instruction | None = None
    ) -> None:
        lanes = warps[group.selection.threads >> 5, group.selection.ctas]
        who = ", ".join(str(w) for w in np.flatnonzero(warps.any(axis=1)).tolist())
        self.machine.fault(
            RULE, f"setmaxnreg {what} (warps {who})", group, lanes, place=place, other=other, advice=ADVICE
        )


def registers_at_launch(directives: dict[str, tuple[int | str, ...]]) -> int | None:
    """The registers of a thread at launch, as the assembler finds them; None where it cannot."""
    if "maxnreg" in directives:
        return -(-int(directives["maxnreg"][0]) // UNIT) * UNIT
    block = directives.get("reqntid") or directives.get("maxntid")
    if block is None or "minnctapersm" not in directives:
        return None
    warps = -(-int(np.prod([int(n) for n in block])) // 32)
    resident = max(int(directives["minnctapersm"][0]), 1)
    return min(SM_REGISTERS // (32 * warps * resident) // UNIT * UNIT, 256)


def bind_register_count(plan: FunctionPlan, instruction: Instruction) -> Step:
    """The step of a whole warp."""
    guard = guard_of(plan, instruction) if instruction.guard is not None else None
    operand = instruction.operands[0]
    count = operand.bits if isinstance(operand, Imm) else 0
    increase = "inc" in instruction.op.modifiers

    def step(machine: Machine, group: Group) -> bool:
        if guard is not None and guard(machine, group) is False:
            return False
        return machine.register_counts.change(group, count, increase)

    return step
