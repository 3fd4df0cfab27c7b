"""Where the threads of a launch stand, and what their registers hold. Reads the machine without changing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from warpsim.debug import errors
from warpsim.debug.errors import DebugError
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Array, as_array
from warpsim.numerics.arrays import DType
from warpsim.program.program import Instruction
from warpsim.records import frozen


@frozen
class Focus:
    """The thread that a session looks at: CTA (x, y, z), warp within the CTA, lane."""

    cta: tuple[int, int, int]
    warp: int
    lane: int = 0

    def __str__(self) -> str:
        return f"{cta_text(self.cta)}, warp {self.warp}, lane {self.lane}"


@frozen(eq=False)
class GroupState:
    """A group of threads, the instruction where it stands, and its state: ``runs``, ``ready``, or what it waits for."""

    machine: Machine
    group: Group
    state: str
    instruction: Instruction

    @property
    def waits(self) -> bool:
        """Whether it cannot proceed by itself."""
        return self.state not in ("runs", "ready")


def group_states(machine: Machine) -> Iterator[GroupState]:
    """Yield every group of a batch that has not exited."""
    batch, launch = machine.batch, machine.launch
    running = launch.running
    if running is not None and launch.turns and launch.turns[0] is batch:
        yield GroupState(machine, running, "runs", running.instruction)
    for group in batch.runnable:
        yield GroupState(machine, group, "ready", group.instruction)
    for group in batch.parked:
        unit = "warpgroup" if group.instruction.form.scope.name == "WARPGROUP" else "warp"
        yield GroupState(machine, group, f"waits for lanes of its {unit}", group.instruction)
    for group in batch.sleeping:
        yield GroupState(machine, group, "polls memory", group.instruction)
    for number, barrier in sorted(batch.barriers.items()):
        for group in barrier.waiting:
            yield GroupState(machine, group, f"waits at barrier {number}", group.instruction)
    for group in batch.cluster_barrier.waiting if batch.cluster_barrier is not None else ():
        yield GroupState(machine, group, "waits at the cluster barrier", group.instruction)
    for group in batch.register_counts.waiting if batch.register_counts is not None else ():
        yield GroupState(machine, group, "waits for registers", group.instruction)
    for group in batch.tensor.waiting if batch.tensor is not None else ():
        yield GroupState(machine, group, "waits for columns of tensor memory", group.instruction)


def cta_text(cta: tuple[int, int, int]) -> str:
    """Format a CTA: ``CTA (0,0,0)``."""
    x, y, z = cta
    return f"CTA ({x},{y},{z})"


def places(machine: Machine, group: Group, focus: Focus, threads: int = 32) -> Array:
    """Positions of a warp's lanes among a group's threads, -1 for lanes elsewhere; with ``threads=128``, of its
    warpgroup."""
    column = machine.column_of(focus.cta)
    if column is None:
        return np.full(threads, -1)
    first = focus.warp * 32 // threads * threads
    wanted = (first + np.arange(threads)) * machine.batch.shape.n_ctas + column
    positions = group.selection.positions.reshape(-1)
    order = np.argsort(positions)
    at = np.minimum(np.searchsorted(positions, wanted, sorter=order), len(positions) - 1)
    found = order[at]
    return np.where(positions[found] == wanted, found, -1)


def holds(machine: Machine, group: Group, focus: Focus) -> bool:
    """Whether a group contains the thread in focus."""
    selection = group.selection
    column, warp = selection.first_warp
    if selection.n_warps == 1 and warp != focus.warp:
        return False
    if machine.cta_at(column) != focus.cta and selection.per_cta.size == 1:
        return False
    if selection.n == 32 and selection.n_warps == 1:
        return machine.cta_at(column) == focus.cta
    return bool(places(machine, group, focus)[focus.lane] >= 0)


def first_of(machine: Machine, group: Group) -> Focus:
    """The first thread of a group."""
    column, warp = group.selection.first_warp
    return Focus(machine.cta_at(column), warp, int(group.selection.threads.flat[0]) & 31)


def warps_in(machine: Machine, group: Group) -> list[Focus]:
    """The warps of a group, each given by its first thread in the group."""
    selection = group.selection
    if selection.n_warps == 1:
        return [first_of(machine, group)]
    shape = selection.shape
    ctas, threads = (np.broadcast_to(a, shape).reshape(-1) for a in (selection.ctas, selection.threads))
    found: dict[tuple[int, int], int] = {}
    for column, thread in sorted(zip(ctas.tolist(), threads.tolist(), strict=True)):
        found.setdefault((column, thread >> 5), thread & 31)
    return [Focus(machine.cta_at(column), warp, lane) for (column, warp), lane in found.items()]


def peek(group: Group, index: int) -> Array:
    """A register's value in every thread of a group, flat, in the machine's representation."""
    value = group.env[index]
    if value is None:
        kept = group.frame.stored(index)
        value = group.plan.zeros[index] if kept is None else group.selection.fetch(kept)
    return np.broadcast_to(as_array(value), group.selection.shape).reshape(-1)


def activation(machine: Machine, group: Group, frame: int) -> Group:
    """The function that a group executes (``frame`` 0) or one of its callers, innermost first, as a group that stands
    at the call. Use it to inspect registers and variables; a change made in it takes effect when the group is flushed."""
    if frame == 0:
        return group
    depth = len(group.stack) - frame
    plan, block, _, base = group.stack[depth]
    at = len(plan.blocks[block].instructions) - 1
    kept = machine.frame(depth, plan)
    return Group(kept, group.selection, plan, group.stack[:depth], block, at, base, group.generation)


def is_written(group: Group, index: int) -> bool:
    """Whether a register has been written."""
    return index in group.dirty or group.frame.stored(index) is not None


def of_type(values: Array, dtype: DType) -> Array:
    """View register bits as a type of the same width; return them unchanged if the widths differ."""
    values = np.ascontiguousarray(values)
    return values.view(dtype) if values.dtype.itemsize == dtype.itemsize else values


def ranges(numbers: Array) -> str:
    """Format ascending numbers as ranges: ``0-3, 8``."""
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts if len(p))


def chosen_focus(
    launch: LaunchState, old: Focus, cta: int | Sequence[int] | None, warp: int | None, lane: int | None
) -> Focus:
    """A thread of the launch: ``old`` with the given parts replaced.

    Raises:
        DebugError: there is no such CTA, warp or lane.
    """
    if cta is not None:
        parts = [errors.number("a coordinate of a CTA", v) for v in (cta if isinstance(cta, Sequence) else (cta,))]
        if not 1 <= len(parts) <= 3:
            raise DebugError("give one to three coordinates for a CTA")
        x, y, z = (*parts, 0, 0)[:3]
        if any(not 0 <= v < limit for v, limit in zip((x, y, z), launch.grid, strict=True)):
            raise DebugError(f"there is no CTA ({x},{y},{z}) in a grid of {launch.grid}")
        cta = (x, y, z)
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    chosen = Focus(
        cta or old.cta,
        old.warp if warp is None else errors.number("warp", warp),
        old.lane if lane is None else errors.number("lane", lane),
    )
    if warp is not None and lane is None and chosen.warp * 32 + chosen.lane >= threads:
        chosen = attrs.evolve(chosen, lane=0)
    warps = -(-threads // 32)
    if not 0 <= chosen.warp < warps:
        raise DebugError(f"there is no warp {chosen.warp}: a CTA has warps 0 to {warps - 1}")
    if not 0 <= chosen.lane < 32 or chosen.warp * 32 + chosen.lane >= threads:
        raise DebugError(f"there is no lane {chosen.lane} in warp {chosen.warp}: a CTA has {threads} threads")
    return chosen
