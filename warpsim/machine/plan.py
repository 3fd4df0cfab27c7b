"""A kernel bound for execution: blocks of steps, register slots, constants, and the layout of its memories.

A slot is a place in a group's ``env``: first the function's registers, then its constants, then the special registers
that it reads. Steps are closures over slots, bound once for every launch and batch.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from warpsim.analysis.assembled import assembled
from warpsim.analysis.flow import Block, calls_into, polling_functions
from warpsim.analysis.loops import CLOCKS, Clocks, Loop, clock_readers, loop_at
from warpsim.analysis.shared_layout import place_shared
from warpsim.errors import InternalError
from warpsim.isa.traits import Ending, Family
from warpsim.machine.memory.addresses import Extent, space_of
from warpsim.machine.state.global_memory import (
    CONST_ADDRESS,
    LOCAL_WINDOW,
    PARAM_ADDRESS,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW,
)
from warpsim.machine.state.notes import no_notes
from warpsim.machine.values import Affine, Array, Value
from warpsim.program.load import no_collection, program_of
from warpsim.program.mangling import source_name
from warpsim.program.program import Function, Instruction, Operand, Param, Program, Uses, Variable
from warpsim.program.uses import uses_of
from warpsim.records import SharedByCopies, frozen
from warpsim.types import ScalarType, StateSpace

if TYPE_CHECKING:
    from warpsim.analysis.made_from import Symbol


@frozen(eq=False)
class Issue:
    """Slots of the accumulator, and of operands other than it and A; rows (`FunctionPlan.wgmma_rows`) of the
    accumulator and of A. ``execute(machine, group)`` computes the product at once."""

    instruction: Instruction
    shape: str
    slots_d: tuple[int, ...]
    slots_other: tuple[int, ...]
    rows_d: Array
    rows_a: Array
    execute: Callable[..., object]
    rows: Array = attrs.field(init=False)

    key: bytes = attrs.field(init=False)
    """Equal for equal accumulators and shapes, with A by descriptor."""

    _accumulators: Array | slice = attrs.field(init=False)

    @_accumulators.default
    def _rows_in_order(self) -> Array | slice:
        first = int(self.rows_d[0])
        return slice(first, first + len(self.rows_d)) if (np.diff(self.rows_d) == 1).all() else self.rows_d[:, None]

    def accumulators(self, columns: Array | slice) -> tuple[Array | slice, Array | slice]:
        """The index of its accumulators in rows and columns."""
        return self._accumulators, columns

    @rows.default
    def _all_rows(self) -> Array:
        return np.r_[self.rows_d, self.rows_a]

    @key.default
    def _key(self) -> bytes:
        return b"A" if len(self.rows_a) else self.shape.encode() + self.rows_d.tobytes()


Step = Callable[..., object]
"""``step(machine, group)`` executes an instruction; returns whether the group was suspended, or `ATTEND`."""
End = Callable[..., int | None]
"""``end(machine, group)`` returns the next block; None if the group was passed on."""
ATTEND = object()
"""Returned by a step during which a watcher called `Machine.attend`."""
Rows: TypeAlias = "tuple[list[Step], AbstractSet[int]]"
"""The steps of a block by rows, and the places of rows other than their first."""
OFTEN = 16
"""At which visit rows are looked for, which takes about as long as they spare in so many."""
FUNCTION_CODE = 0x1000
"""Start of function addresses; `call` through a register finds its function by this number."""


class BoundBlock(SharedByCopies):
    """Steps of a basic block and the closure that says where to go next."""

    def __init__(self, function: str, block: Block, instructions: tuple[Instruction, ...]) -> None:
        self.function = function
        self.index = block.index
        self.live_in = block.live_in
        self.consulted = block.live_in | {r for i in instructions if i.guard is not None for r in i.writes}
        """The registers whose values from before the block it may read; guarded writes keep some lanes'."""
        self.successors = block.successors
        self.waits = block.waits
        self.instructions = instructions
        self.names = Counter([i.op.text for i in instructions])
        self.n_steps = 0
        """How many steps it has: its last instruction may be its end."""
        self._make: Callable[[], list[Step]] = list
        self._find_rows: Callable[[list[Step]], Rows]
        self._rows: Rows | None = None
        self._visits = 0
        self.returns: tuple[Operand, ...] = ()
        self.end: End = lambda machine, group: None

    @cached_property
    def touched(self) -> frozenset[int]:
        """The registers that its instructions read or write; a function's results leave with its end."""
        ends = any(i.traits.ending not in (None, Ending.BRANCH) for i in self.instructions[-1:])
        return (self.consulted if ends else frozenset()).union(
            *[r for i in self.instructions for r in (i.reads, i.writes)]
        )

    @cached_property
    def examined(self) -> frozenset[int]:
        """Those of them whose values from before the block it may read."""
        return self.touched & self.consulted

    @cached_property
    def run_ends(self) -> list[int]:
        """Where a run of steps (`Watcher.run_before`) that begins at each instruction ends."""
        ends, end = list[int](), len(self.instructions)
        for at in reversed(range(end)):
            instruction = self.instructions[at]
            traits = instruction.traits
            guarded = instruction.guard is not None and traits.ending is None
            alone = guarded or traits.barrier is not None or traits.mbarrier is not None
            ends.append(at + 1 if alone else end)
            end = at if alone else end
        return ends[::-1]

    def bind_when_run(
        self, n_steps: int, bind: Callable[[], list[Step]], find_rows: Callable[[list[Step]], Rows]
    ) -> None:
        """Say how many steps it has, what makes them when it first runs, and what finds rows among them."""
        self.n_steps, self._make, self._find_rows = n_steps, bind, find_rows

    @cached_property
    def steps(self) -> list[Step]:
        """What its instructions do, up to its end."""
        return self._make()

    def by_rows(self, stop: int) -> list[Step]:
        """The steps, of which the first of a row does all of it, unless it reaches beyond ``stop``, and moves ``group.at`` to its last."""
        if self._rows is None:
            self._visits += 1
            if self._visits < OFTEN:
                return self.steps
            self._rows = self._find_rows(self.steps)
        steps, others = self._rows
        return self.steps if stop in others else steps


class FunctionPlan(SharedByCopies):
    """One function, bound."""

    def __init__(self, function: Function, kernel: KernelPlan) -> None:
        if not kernel.program.debug:
            function = assembled(function)
        self.function = function
        self.name = function.name
        self.kernel = kernel
        self.n_registers = len(function.registers)
        self.extras: list[Value | None] = []
        """The contents of slots beyond the registers: constants, and None for special registers."""
        self.specials: dict[int, str] = {}
        """The names of special registers, by their slots."""
        self._extra_slots: dict[Hashable, int] = {}
        self.zeros: list[Value] = [zero(r.type) for r in function.registers]
        self.offsets: dict[str, int] = {}
        self.frame_start = 0
        self._layout()
        self.blocks: list[BoundBlock] = []
        self.place_of: dict[int, int] = {}
        self.unread: frozenset[int] = frozenset()
        """Instructions, by index in the function, whose results are never read."""
        self.wgmma_rows: dict[int, int] = {}
        self.on_wgmma_rows: frozenset[int] = frozenset()
        """Instructions, by index in the function, that read or write registers with such rows."""
        self.issues: dict[int, Issue] = {}
        """The bound wgmma instructions, by identity of the instruction."""
        self.notes = no_notes()
        """What watchers have derived about the function; valid for every launch."""
        self.flow: list[Block] = []
        self._loops: dict[int, Loop] = {}
        self._extents: dict[str, Extent | None] = {}

    @cached_property
    def clocks(self) -> Clocks:
        """The registers that may hold a clock value."""
        return Clocks(self.function, self.kernel.program, self.kernel.image.clock_readers)

    def loop(self, head: int) -> Loop:
        """What determines the loop whose first block is ``head``."""
        found = self._loops.get(head)
        if found is None:
            found = self._loops[head] = loop_at(self.function, self.flow, head, lambda: self.clocks)
        return found

    def _layout(self) -> None:
        """Lay out local variables and parameters in the function's stack frame."""
        at = 0
        items: list[Variable | Param] = [v for v in self.function.variables if v.in_frame]
        if not self.function.entry:
            items += [*self.function.params, *self.function.returns]
        for item in items:
            align = max(item.align, 4)
            at = -(-at // align) * align
            self.offsets[item.unique] = at
            at += -(-max(item.size, 4) // 4) * 4
        self.stack_word: int | None = None
        if any("stack" in i.form.ports for i in self.function.code):
            self.stack_word, at = at, at + 4
        self.frame_size = -(-at // 16) * 16

    def offset(self, item: Variable | Param) -> int:
        """Offset of a local or parameter in the frame."""
        return self.offsets[item.unique]

    @cached_property
    def made_from(self) -> dict[tuple[int, int], Symbol]:
        """The variable behind an instruction's register in brackets, by both, where an access could reach another one."""
        operands = [o for i in self.function.code for o in i.operands if o.variable or o.parameter]
        if not any((s := o.variable or o.parameter) is not None and self.extent(s) is not None for o in operands):
            return {}
        from warpsim.analysis.made_from import made_from

        return made_from(self.function, lambda symbol: self.extent(symbol) is not None)

    def extent(self, symbol: Symbol) -> Extent | None:
        """Where a variable or a kernel's parameter lies (in local memory: from the start of the frame); None where an access
        beyond it reaches no other one."""
        if symbol.unique not in self._extents:
            self._extents[symbol.unique] = self._extent(symbol)
        return self._extents[symbol.unique]

    def _extent(self, symbol: Symbol) -> Extent | None:
        if isinstance(symbol, Param):
            if not self.function.entry or len(self.function.params) < 2:
                return None
            return _extent("global", PARAM_ADDRESS + symbol.offset, symbol.size, symbol.name)
        if symbol.space is StateSpace.SHARED:
            layout = self.kernel.shared
            if self.kernel.shared_starts < 2:
                return None
            size = symbol.size if symbol.linkage != "extern" and symbol.size else WINDOW
            return _extent("shared", layout.address(symbol), size, symbol.name)
        if symbol.space is StateSpace.LOCAL:
            if sum(v.space is StateSpace.LOCAL for v in self.function.variables) < 2:
                return None
            return _extent("local", self.offset(symbol), symbol.size, symbol.name)
        if symbol.space is StateSpace.PARAM or not symbol.size:
            return None
        return _extent("global", self.kernel.address(symbol), symbol.size, symbol.name)

    def within(self, instruction: Instruction, operand: Operand) -> Extent | None:
        """The variable from which the address of an access, of a copy by threads or of rows of a matrix is made, if that is
        known and another one could be reached."""
        base, traits = operand.base, instruction.traits
        if base is None or not (traits.access or traits.matrix or traits.is_async(Family.CP_ASYNC)):
            return None
        symbol = (
            (base.variable or base.parameter)
            if base.register is None
            else self.made_from.get((id(instruction), base.register.index))
        )
        extent = None if symbol is None else self.extent(symbol)
        if extent is None or not _may_lead(instruction.op.get("space") or "", extent.kind):
            return None
        if traits.access and base.register is None and not base.offset and operand.offset >= 0:
            end = operand.offset + max(
                sum(p.type.bytes for p in o.parts) for o in instruction.operands if o.base is None
            )
            if end <= extent.high - extent.low:
                return None
        return extent

    def in_frame(self, operand: Operand) -> int | None:
        """Where in the frame the variable or parameter lies whose address an operand is; None if elsewhere."""
        variable, param = operand.variable, operand.parameter
        if param is not None:
            return None if self.function.entry else self.offset(param) + operand.offset
        if variable is None or not variable.in_frame:
            return None
        return self.offset(variable) + operand.offset + (LOCAL_WINDOW if operand.generic else 0)

    def place(self, operand: Operand) -> int:
        """The same of what certainly lies there."""
        at = self.in_frame(operand)
        assert at is not None, f"{operand} is not in the frame"
        return at

    def number(self, operand: Operand) -> int | None:
        """The bits of an operand that are the same for all threads of all launches; None if there are none."""
        variable = operand.variable
        if operand.function:
            return self.kernel.image.function_address(operand.function)
        if variable is None or variable.in_frame:
            return operand.constant
        at = self.kernel.address(variable) + operand.offset
        if variable.space is StateSpace.SHARED:
            return at + SHARED_WINDOW if operand.generic else at
        return at - CONST_ADDRESS if variable.space is StateSpace.CONST and not operand.generic else at

    def slot(self, operand: Operand) -> int | None:
        """The slot that holds an operand's value; None for a clock, an address in the frame, and what is no single value."""
        if operand.register is not None:
            return operand.register.index
        if (
            operand.special in CLOCKS
            or operand.base
            or operand.elements is not None
            or self.in_frame(operand) is not None
        ):
            return None
        number = self.number(operand)
        if number is not None:
            return self.constant(literal(number, operand.type))
        if operand.parameter is None:
            return self.special(operand.special)
        at = operand.parameter.offset + operand.offset - (0 if operand.generic else PARAM_WINDOW)
        return self.special(f"param{at:+}:{operand.type.bytes}")

    def varies(self, slot: int) -> bool:
        """Whether a slot holds no constant."""
        return slot < self.n_registers or slot in self.specials

    def constant(self, value: Value) -> int:
        """The slot of a constant value."""
        key = (value.base, value.dtype) if type(value) is Affine else (value.tobytes(), value.dtype.str)
        return self._slot(key, value)

    def special(self, name: str) -> int:
        """The slot of a special register, which each batch fills in."""
        slot = self._extra_slots.get(("special", name))
        if slot is None:
            slot = self._slot(("special", name), None)
            self.specials[slot] = name
        return slot

    @property
    def extra_names(self) -> tuple[Hashable, ...]:
        """What the slots beyond the registers hold, in their order."""
        return tuple(self._extra_slots)

    def _slot(self, key: Hashable, content: Value | None) -> int:
        slot = self._extra_slots.get(key)
        if slot is None:
            slot = self._extra_slots[key] = self.n_registers + len(self.extras)
            self.extras.append(content)
        return slot


def _extent(kind: str, low: int, size: int, name: str) -> Extent:
    return Extent(kind, low, low + size, source_name(name))


def _may_lead(space: str, kind: str) -> bool:
    """Whether an access to a state space may go to a kind of memory."""
    name = space_of(space)
    return name.startswith(kind) or name == "" or name == "param"


@functools.cache
def zero(type: ScalarType) -> Value:
    """The value of an unwritten register, which nobody may change."""
    if type.dtype.kind in "iu":
        return Affine.constant(0, type.dtype)
    made = np.zeros(1, type.dtype)
    made.flags.writeable = False
    return made


def literal(bits: int, type: ScalarType) -> Value:
    """The value of an immediate."""
    if type.kind == "p":
        return np.array([bool(bits)])
    if type.dtype.kind in "iu":
        return Affine.constant(bits, type.dtype)
    raw = np.array([bits & ((1 << type.bits) - 1)], f"u{type.bits // 8}") if type.bits <= 64 else None
    if raw is None:
        wide = np.zeros(1, type.dtype)
        wide["lo"], wide["hi"] = bits & (2**64 - 1), bits >> 64
        return wide
    return raw.view(type.dtype)


class Image:
    """A program placed in a device's memory: addresses of its module variables by name. ``bind`` makes the steps of a
    function's blocks (`warpsim.machine.binding.bind.bind_function`)."""

    def __init__(self, program: Program, addresses: dict[str, int], bind: Callable[[FunctionPlan], None]) -> None:
        self.bind = bind
        self.program = program
        self.addresses = addresses
        self.function_numbers = {name: i for i, name in enumerate(program.functions)}
        self._names = {FUNCTION_CODE + 16 * number: name for name, number in self.function_numbers.items()}
        self.plans: dict[str, KernelPlan] = {}
        self.dynamic: dict[str, int] = {}
        """The most dynamic shared memory of kernels, when kernels launch them: where the host has set what it may ask for itself."""

    @cached_property
    def uses(self) -> Uses:
        """What the instructions of the module use."""
        return uses_of(self.program)

    @cached_property
    def polling(self) -> frozenset[str]:
        """Functions that may wait for other threads; computed only if a kernel calls any."""
        return polling_functions(self.program)

    @cached_property
    def clock_readers(self) -> frozenset[str]:
        """Functions that may read a clock."""
        return clock_readers(self.program)

    def __reduce__(
        self,
    ) -> tuple[Callable[..., Image], tuple[str, str, dict[str, int], Callable[[FunctionPlan], None]]]:
        """Copies are bound anew from the text."""
        return _image_of, (self.program.source, self.program.file, self.addresses, self.bind)

    def function_address(self, name: str) -> int:
        """The code address of a function."""
        name = self.program.aliases.get(name, name)
        return FUNCTION_CODE + 16 * self.function_numbers[name]

    def function_at(self, address: int) -> str | None:
        """The function at a code address; None for a kernel, which cannot be called, and where there is none."""
        return None if self.kernel_at(address) else self._names.get(address)

    def kernel_at(self, address: int) -> str | None:
        """The kernel at a code address; None where there is none."""
        found = self.program.functions.get(self._names.get(address, ""))
        return found.name if found is not None and found.entry else None

    def plan(self, kernel: str) -> KernelPlan:
        """The bound kernel, made at its first launch."""
        found = self.plans.get(kernel)
        if found is None:
            found = self.plans[kernel] = KernelPlan(self, kernel)
        return found


def _image_of(text: str, file: str, addresses: dict[str, int], bind: Callable[[FunctionPlan], None]) -> Image:
    return Image(program_of(text, file), addresses, bind)


class KernelPlan(SharedByCopies):
    """A kernel and all functions of its module, bound on first use."""

    def __init__(self, image: Image, name: str) -> None:
        self.image = image
        self.program = image.program
        self.entry = image.program.functions[name]
        self.uses = image.uses
        self.shared = place_shared(image.program, self.entry)
        self.shared_starts = len({start for _, start, _ in self.shared.variables})
        """At how many addresses variables in shared memory begin."""
        self.dynamic_offset = self.shared.dynamic
        self._functions: dict[str, FunctionPlan] = {}
        self.main = self.function(name)

    @property
    def functions(self) -> tuple[FunctionPlan, ...]:
        """The functions that were bound so far."""
        return tuple(self._functions.values())

    def __reduce__(self) -> tuple[Callable[[Image, str], KernelPlan], tuple[Image, str]]:
        return Image.plan, (self.image, self.entry.name)

    def function(self, name: str) -> FunctionPlan:
        """A bound function of the module."""
        name = self.program.aliases.get(name, name)
        plan = self._functions.get(name)
        if plan is None:
            with no_collection():
                plan = self._functions[name] = FunctionPlan(self.program.functions[name], self)
                self.image.bind(plan)
        return plan

    def address(self, variable: Variable) -> int:
        """The address of a variable in its own state space."""
        if variable.space is StateSpace.SHARED:
            return self.shared.address(variable)
        if variable.unique in self.image.addresses:
            return self.image.addresses[variable.unique]
        raise InternalError(f"no address for {variable.unique}")


def mark_waits(plan: FunctionPlan, blocks: list[Block]) -> None:
    """Mark loop blocks whose back edge may be a wait, because the loop polls memory that others write, or a clock.

    An access whose result is never read does not count as polling.
    """
    kernel, function = plan.kernel, plan.function

    def polls(at: int, instruction: Instruction) -> bool:
        traits = instruction.traits
        if traits.ending is Ending.CALL:
            return calls_into(instruction, kernel.image.polling, kernel.program)
        return traits.polls and (traits.access is None or at not in plan.unread)

    polling = [at for at, i in enumerate(function.code) if polls(at, i)]
    counts = [bisect_left(polling, block.last) - bisect_left(polling, block.first) for block in blocks]
    before = list(itertools.accumulate(counts, initial=0))
    """How many polls stand before each block, and behind the last one."""
    for block in blocks:
        for target in block.successors:
            if target <= block.index and (
                before[block.index + 1] > before[target] or (plan.clocks.registers and plan.loop(target).timed)
            ):
                block.waits = True
