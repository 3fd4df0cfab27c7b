"""Runs a launch again with other values in every bit that is undefined."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import attrs
import numpy as np

from warpsim.checks.difference import DECIDED, TIMES, Decided, Reached
from warpsim.checks.replaced import Replaced
from warpsim.checks.undefined_bits import known_of
from warpsim.checks.undefined_memory import written_cells
from warpsim.checks.undefined_products import EARLY, Unfinished
from warpsim.checks.undefined_registers import HIGH, UNDEFINED, ones, undefined
from warpsim.checks.uninitialised import Uninitialised
from warpsim.errors import ExecutionError, Finding
from warpsim.machine.asynchrony import transfers
from warpsim.machine.engine import Run
from warpsim.machine.machine import Machine
from warpsim.machine.plan import KernelPlan
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.global_memory import Allocation
from warpsim.machine.state.group import Frame, Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array, DType, as_array
from warpsim.machine.watcher import Watcher
from warpsim.program.program import Function, Instruction

SEED = 34
OTHER = {"eager": "at_wait", "at_wait": "eager"}
BYTES = {"at_wait": "the bytes from before the copy", "eager": "the bytes that the copy brings"}
"""Which bytes a product reads that is early, where effects appear so."""
LARGE = 0x7F7FFFFF
"""The largest float, and large as an integer."""


class Garbage:
    """Values of a kind, drawn from some 32-bit words."""

    def __init__(self, name: str, words: Array | None) -> None:
        self.name, self._words, self._rng = name, words, np.random.default_rng(SEED)

    def draw(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Values of an unsigned or boolean type; predicates are the lowest bits."""
        if dtype.kind == "b":
            return (self.draw(shape, np.dtype(np.uint8)) & 1).astype(np.bool_)
        n = int(np.prod(shape))
        if self._words is None:
            words = self._rng.integers(0, 1 << 32, n * max(dtype.itemsize // 4, 1), np.uint32)
        else:
            words = self._rng.choice(self._words, n * max(dtype.itemsize // 4, 1))
        drawn: Array = words.view(dtype) if dtype.itemsize >= 4 else words.astype(dtype)
        return drawn.reshape(shape)

    def over(self, value: Array, bits: Array) -> Array:
        """A register's values with others in the undefined bits."""
        shape = np.broadcast_shapes(value.shape, bits.shape)
        if value.dtype.names is not None:
            out = np.array(np.broadcast_to(value, shape))
            for name in ("lo", "hi"):
                out[name] = self.over(np.ascontiguousarray(out[name]), np.ascontiguousarray(bits[name]))
            return out
        if value.dtype.kind == "b":
            return np.where(bits, self.draw(shape, value.dtype), value)
        kind = np.dtype(f"u{value.dtype.itemsize}")
        plain, mask = np.ascontiguousarray(value).view(kind), np.ascontiguousarray(bits).view(kind)
        mixed: Array = (plain & ~mask | self.draw(shape, kind) & mask).view(value.dtype)
        return mixed

    # ---- memory ----------------------------------------------------------------------------------

    def fill(self, space: WordSpace, written: WordSpace) -> None:
        """Fill what of a memory was never written."""
        space.own()
        space.words[...] = self.over(space.words, ~written.words)
        space.views.clear()

    def fill_global(self, allocation: Allocation) -> None:
        """Fill what of an allocation was never written."""
        if allocation.shadow is not None:
            allocation.own()
            allocation.data[...] = self.over(allocation.data, ~allocation.shadow.data)

    def fill_batch(self, batch: BatchState) -> None:
        """Fill shared, local and tensor memory."""
        for space in (batch.shared, batch.local):
            if space.shadow is not None:
                self.fill(space, space.shadow)
        if batch.tensor is not None:
            self.fill(batch.tensor.space, written_cells(batch.tensor).space)

    # ---- registers -------------------------------------------------------------------------------

    def fill_state(self, state: LaunchState) -> None:
        """Fill all that is undefined in a launch."""
        for allocation in state.memory.shadowed():
            self.fill_global(allocation)
        for batch in state.batches:
            self.fill_batch(batch)
            for (_, function), frame in batch.frames.items():
                self._fill_frame(state, function, frame)
            for group in batch.groups():
                self.fill_group(group)
        if state.running is not None:
            self.fill_group(state.running)

    def _fill_frame(self, state: LaunchState, function: str, frame: Frame) -> None:
        for slot in {slot for name in (UNDEFINED, HIGH) for slot in frame.shadows.get(name, ())}:
            dtype = state.plan.function(function).function.registers[slot].type.dtype
            old = frame.values[slot]
            value = np.zeros(1, dtype) if old is None else as_array(old)
            low, high = (frame.shadows.get(name, {}).get(slot) for name in (UNDEFINED, HIGH))
            some = low if low is not None else high
            assert some is not None
            bits: Array = some
            if value.dtype.names is not None:
                bits = np.zeros(some.shape, value.dtype)
                bits["lo"], bits["hi"] = (np.uint64(0) if part is None else part for part in (low, high))
            frame.values[slot] = self.over(value, bits)
        frame.known.clear()

    def fill_group(self, group: Group) -> None:
        """Fill the registers of a group."""
        slots = {slot for name in (UNDEFINED, HIGH) for slot in group.shadows.get(name, ())}
        self.fill_registers(group, slots)

    def fill_registers(self, group: Group, slots: set[int]) -> None:
        """Fill some registers of a group."""
        for slot in slots:
            bits = undefined(group, slot)
            if bits is not None:
                group.set(slot, self.over(as_array(group.read(slot)), bits))
                group.stacked = None


class Refilled(Uninitialised):
    """The rule ``uninitialised`` where what begins undefined is other than it was."""

    def __init__(self, garbage: Garbage) -> None:
        super().__init__()
        self._garbage = garbage

    def launch_ended(self, launch: LaunchState) -> None:
        """Decide nothing: whoever asked for this run compares it."""

    def finding(self, machine: Machine, group: Group, finding: Finding) -> None:
        """Decide nothing."""

    def batch_began(self, machine: Machine) -> None:
        """Fill what is undefined when a batch begins."""
        super().batch_began(machine)
        self._garbage.fill_batch(machine.batch)

    def function_entered(self, machine: Machine, group: Group) -> None:
        """Fill registers that are read before they are written."""
        plan, frame = group.plan, group.frame
        for slot in known_of(plan).unwritten:
            if not group.stack and frame.values[slot] is not None:
                continue
            old, dtype = frame.values[slot], plan.function.registers[slot].type.dtype
            whole = np.zeros(machine.batch.shape.extents, dtype)
            if old is not None:
                whole[...] = as_array(old)
            at = group.selection.positions.reshape(-1)
            whole.reshape(-1)[at] = self._garbage.over(
                whole.reshape(-1)[at], ones(plan, slot, np.ones(at.shape, np.bool_))
            )
            frame.values[slot] = whole
            frame.owned.discard(slot)
        super().function_entered(machine, group)

    def stack_extended(self, machine: Machine, group: Group, positions: Array, first: int, nbytes: int) -> None:
        """Fill new parts of the stack."""
        super().stack_extended(machine, group, positions, first, nbytes)
        local = machine.batch.local
        local.own()
        low, high = first >> 2, first + nbytes + 3 >> 2
        shape = local.words[low:high, positions].shape
        local.words[low:high, positions] = self._garbage.draw(shape, local.words.dtype)

    def memory_allocated(self, machine: Machine, group: Group, allocation: Allocation) -> None:
        """Fill memory from malloc."""
        super().memory_allocated(machine, group, allocation)
        self._garbage.fill_global(allocation)

    def _spoil(self, machine: Machine, group: Group, instruction: Instruction, part: Unfinished) -> None:
        super()._spoil(machine, group, instruction, part)
        self._garbage.fill_registers(group, {r for o in instruction.outputs for r in o.registers})

    def _multiply(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        early = bool(self._unfinished)
        super()._multiply(machine, group, instruction)
        if early:
            self._garbage.fill_registers(group, {r for o in instruction.outputs for r in o.registers})

    def wgmma_finished(self, machine: Machine, group: Group, registers: set[int]) -> None:
        """Fill what late products have computed from what is undefined."""
        self._garbage.fill_registers(group, registers)


def fills(plan: KernelPlan) -> Iterator[Garbage]:
    """The values to try."""
    yield Garbage("ones", np.array([0xFFFFFFFF], np.uint32))
    yield Garbage("random bits", None)
    compared = {c for name in plan.program.functions for c in _compared(plan.program.functions[name])}
    yield Garbage("a constant that it is compared with", np.array(sorted(compared) or [1], np.uint32))
    yield Garbage("zeros", np.zeros(1, np.uint32))
    yield Garbage("large numbers", np.array([LARGE], np.uint32))


def _compared(function: Function) -> Iterator[int]:
    """The low words of what a function compares with."""
    for instruction in function.code:
        if instruction.op.text.startswith("set"):
            for operand in instruction.operands:
                if operand.constant is not None:
                    yield operand.constant & 0xFFFFFFFF


def runs(
    watchers_of: Callable[[LaunchState], list[Watcher]], decided: Decided, took: int | None, *, stops: bool
) -> Iterator[tuple[str, LaunchState]]:
    """As `warpsim.checks.difference.Again` says."""
    before = decided.before
    assert before is not None
    if took is None:
        launch = _run(watchers_of, decided, before.settings.max_instructions, None, "collect")
        took = launch.instructions
        yield "", launch
    budget = before.instructions + TIMES * (took - before.instructions) + 1_000
    most = min(budget, before.settings.max_instructions or budget)
    on_finding = before.settings.on_finding if stops else "collect"
    for garbage in fills(before.plan):
        yield garbage.name, _run(watchers_of, decided, most, garbage, on_finding)
    if any(use.rule == EARLY for use in decided.uses.values()):
        other = OTHER[before.settings.async_effects]
        yield BYTES[other], _run(watchers_of, decided, most, None, on_finding, other)


def _run(
    watchers_of: Callable[[LaunchState], list[Watcher]],
    decided: Decided,
    most: float | None,
    garbage: Garbage | None,
    on_finding: str,
    effects: str | None = None,
) -> LaunchState:
    """Run what follows the first use of anything undefined, with other values or (None) as it was, but for when asynchronous
    ``effects`` appear."""
    assert decided.before is not None
    state = decided.before.copy()
    state.settings = attrs.evolve(state.settings, max_instructions=most, on_finding=on_finding)
    state.notes[DECIDED] = Decided(None, same=decided.same, sought=decided.sought)
    replaced = Replaced()
    if garbage is not None:
        garbage.fill_state(state)

    def attended(launch: LaunchState) -> tuple[list[Watcher], None]:
        watchers = watchers_of(launch)
        if garbage is None:
            return watchers, None
        return [Refilled(garbage) if type(w) is Uninitialised else w for w in watchers], None

    watchers = [*attended(state)[0], *([replaced] if garbage is None else [])]
    with contextlib.suppress(ExecutionError, Reached):  # the state says so
        run = Run(state, watchers, attended=attended)
        if effects is not None:
            for batch in state.batches:
                transfers.land(run.machine(batch), None)
            state.settings = attrs.evolve(state.settings, async_effects=effects)
        run.advance()
    state.notes[DECIDED].unseen = replaced.unseen(state)
    return state
