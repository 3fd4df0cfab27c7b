"""Shadows of register values: what an instruction does to them, and the errors that the registers of a group have.

A register holds elements of several types at once as far as its bits tell: a `Part` is one, and each has an error of its own.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from warpsim.isa.exact import DROPPED, DTYPES, PRECISION, SUMS, Rounding, rounding_of
from warpsim.machine.binding.operand_slots import ArrayGetter, Getter, Guard, guard_of, source_getter, value_getter
from warpsim.machine.state.group import Group
from warpsim.numerics.arrays import Array
from warpsim.program.program import Function, Instruction, Operand
from warpsim.records import define, frozen

Part = tuple[str, int]
"""An element of a register: its type, and its place from the low end. Of a predicate: ``DECISION``."""
DECISION: Part = ("pred", 0)
"""True where the shadow decides otherwise."""
LOW: Part = ("low half", 0)
HIGH: Part = ("high half", 0)
"""Halves of an f64, in registers of 32 bits: they have the error of the whole, which counts again where they meet."""
NAMES: dict[Part, str] = {
    **{(kind, k): f"error of {kind} at {k}" for kind, dtype in DTYPES.items() for k in range(8 // dtype.itemsize)},
    DECISION: "other decision",
    LOW: "error of the f64 with this low half",
    HIGH: "error of the f64 with this high half",
}
PARTS = {name: part for part, name in NAMES.items()}
Errors = dict[Part, Array]
"""The errors of a register's elements."""
Made = dict[tuple[int, Part], "Array | None"]
"""What an instruction gives: errors by register and element; None for an exact one."""
TINY = 5e-324
NONE = np.zeros(1)


def shadow_value(value: Array, error: Array | None) -> Array:
    """Values with their errors, in f64. The error of what is not finite is the shadow itself."""
    if error is None:
        return value.astype(np.float64)
    whole = np.add(value, error, dtype=np.float64)
    if not math.isfinite(np.add.reduce(value, axis=None, dtype=np.float32 if value.dtype.itemsize < 8 else None)):
        whole = np.where(np.isfinite(value) | (error == 0), whole, error)
    return whole


def error_of(whole: Array, value: Array) -> Array:
    """The error of values with such shadows. One that is no number begins anew."""
    wide = value.astype(np.float64)
    error = whole - wide
    if not math.isfinite(error.sum()):
        error = np.where(np.isnan(error), 0.0, error)
        finite = np.isfinite(wide)
        if not finite.all():
            kept = np.where(np.isfinite(whole), np.where(whole == 0, TINY, whole), 0.0)
            error = np.where(finite, error, kept)
    return error


class Recycled:
    """Arrays of f64 that are used again once nobody holds them: fresh ones cost page faults, several times the arithmetic."""

    def __init__(self) -> None:
        self._kept: dict[int, list[Array]] = {}

    def take(self, shape: tuple[int, ...]) -> Array | None:
        """An uninitialised array; None if that is as good."""
        size = math.prod(shape)
        if size < WORTHWHILE:
            return None
        kept = self._kept.setdefault(size.bit_length(), [])
        for free in range(len(kept)):
            if _references(kept, free) == UNHELD:
                break
        else:
            free = len(kept)
            kept.append(np.empty(1 << size.bit_length()))
        return kept[free][:size].reshape(shape)


Sources = Sequence[tuple[Array, "Array | None"]]
"""Values with their errors."""


class Pass(Protocol):
    """One pass over the lanes of an operation, in place of several by NumPy."""

    def __call__(
        self, got: Array, sources: Sources, out: Array, shape: tuple[int, ...]
    ) -> tuple[float, float, int, int, int, int]:
        """Store the errors of results to ``out``; ``sources`` are values and errors. Gives the sum of the relative errors, the largest
        finite one, where that is, where the first infinite one is (or -1), how many sums equal a term, and bits: 1 if an error is not
        zero, 2 if something is not finite."""


class Passes(Protocol):
    """Where passes are."""

    def of(self, root: str, kind: str, lanes: int) -> Pass | None:
        """That of an operation on so many elements of a type, if there is one."""


WORTHWHILE = 1 << 15
"""From how many elements on."""


def _references(kept: list[Array], k: int) -> int:
    return sys.getrefcount(kept[k])


UNHELD = _references([np.empty(0)], 0)
"""References to a kept array if nobody else has one: how many Python counts differs between its versions."""


@frozen(eq=False)
class Rule:
    """What an instruction does to shadows: the rounding, what fetches its sources, which are values, and their registers."""

    rounding: Rounding
    data: tuple[Operand, ...]
    getters: tuple[ArrayGetter, ...]
    guard: Guard | None
    root: str
    """The operation."""
    rounds: bool
    """Whether it is a sum by which programs round to integers."""
    cells: Getter | None = None
    """What fetches the address in tensor memory."""


@define(eq=False)
class Pending:
    """A step that is about to run: its rule, its sources with their errors, and the lanes that run it."""

    group: Group
    instruction: Instruction
    rule: Rule
    values: list[Array]
    errors: list[Errors]
    active: Array | None
    address: object = None
    """The address in tensor memory, if it moves cells."""


class Results(NamedTuple):
    """Results of a type (``kind``) that an instruction has computed of values with these errors, or ``stored`` in memory."""

    group: Group
    instruction: Instruction
    values: Sequence[Array]
    errors: Sequence[Array | None]
    got: Array
    kind: str
    stored: bool = False


NOTHING: Errors = {}


def errors_of(group: Group, operand: Operand) -> Errors:
    """The errors of a register's elements, once its value has been fetched."""
    if operand.register is None:
        return NOTHING
    slot = operand.register.index
    return {
        part: file[slot]
        for name, file in group.shadows.items()
        if slot in file and (part := PARTS.get(name)) is not None
    }


def part_of(value: Array, part: Part) -> Array:
    """An element of registers."""
    kind, k = part
    dtype = DTYPES[kind]
    if value.dtype == dtype:
        return value
    size = value.dtype.itemsize
    if size == dtype.itemsize:
        return value.view(dtype)
    bits = value.view(f"u{size}")
    return (bits >> bits.dtype.type(8 * dtype.itemsize * k)).astype(f"u{dtype.itemsize}").view(dtype)


def error_in(errors: Errors, part: Part, value: Array) -> Array | None:
    """The error of an element. An f32 whose low half is zero is the bf16 in its upper half."""
    found = errors.get(part)
    if found is None and part[0] == "f32" and (upper := errors.get(("bf16", 2 * part[1] + 1))) is not None:
        low = part_of(value, part).view(np.uint32) << np.uint32(16)
        return np.where(low == 0, upper, 0.0)
    return found


def elements(operands: Sequence[Operand]) -> list[Operand]:
    """Single operands, those of vectors one by one."""
    return [part for o in operands for part in o.parts]


def rule_of(group: Group, instruction: Instruction) -> Rule | None:
    """What an instruction does to shadows; None where its results have none."""
    found = rounding_of(instruction.form, instruction.text, instruction.traits.access)
    if found is None:
        return None
    given = instruction.operands if found.does == "multiply_in_groups" else instruction.inputs
    loads = found.does in ("load", "load_matrices", "load_cells", "load_fragment")
    data = () if loads else tuple([o for o in elements(given) if o.base is None])
    address = next((o for o in instruction.inputs if o.base is not None), None)
    cells = address is not None and found.does in ("load_cells", "store_cells")
    return Rule(
        found,
        data,
        tuple([value_getter(group.plan, o) for o in data]),
        guard_of(instruction),
        _operation(instruction, found.kind) if found.does == "compute" else instruction.form.root,
        found.does == "compute" and _rounds(group.plan.function, instruction, found.kind),
        source_getter(group.plan, address) if address is not None and cells else None,
    )


def _operation(instruction: Instruction, kind: str) -> str:
    """What an instruction computes; the assembler exchanges some operands. Of one that it drops, one source is left, which is the
    result, or its negative."""
    root, sources = instruction.form.root, instruction.inputs
    if len(sources) == 2 and instruction.form.function is instruction.traits.exchanged:
        return "exchanged"
    if len(sources) > 1 or root not in DROPPED:
        return root
    one = np.ones(8 // DTYPES[kind].itemsize, DTYPES[kind]).view(sources[0].type.dtype)[:1]
    return "neg" if part_of(instruction.form.function(instruction.op, one), (kind, 0)).item() < 0 else "pos"


def _rounds(function: Function, instruction: Instruction, kind: str) -> bool:
    """Whether a term of a sum is a constant in whose binade a unit in the last place is 1."""
    if instruction.form.root not in SUMS or kind not in ("f32", "f64"):
        return False
    terms = instruction.inputs[-1:] if len(instruction.inputs) == 3 else instruction.inputs
    constants = _constants(function)
    bits = [o.constant if o.register is None else constants.get(o.register.index) for o in terms]
    dtype = DTYPES[kind]
    values = np.array([(b or 0) % 256**dtype.itemsize for b in bits], f"u{dtype.itemsize}").view(dtype)
    return any(in_binade_of_one(np.abs(values), kind))


def in_binade_of_one(sizes: Array, kind: str) -> Array:
    """Where a unit in the last place of numbers of these sizes is 1."""
    least = 2.0 ** (PRECISION[kind] - 1)
    return (sizes >= least) & (sizes < 2 * least)


@functools.lru_cache(maxsize=16)
def _constants(function: Function) -> dict[int, int]:
    """The bits of registers that only hold a constant."""
    writers: dict[int, list[Instruction]] = {}
    for instruction in function.code:
        for slot in instruction.writes:
            writers.setdefault(slot, []).append(instruction)
    found = {}
    for slot, (first, *others) in writers.items():
        if first.traits.copies and not others and first.inputs[0].constant is not None:
            found[slot] = first.inputs[0].constant
    return found
