"""The graphs of a function's instructions, traced once for all its regions; matrix instructions among them: `ldmatrix` as loads of
each lane's elements, `mma` as a call of the product's machine code."""

from __future__ import annotations

from collections.abc import Hashable

import attrs
import numpy as np

from warpsim.graph.nodes import LANES, Node, Untraceable, bits, cast, where
from warpsim.graph.trace import Lane, node_of
from warpsim.isa import matrix_moves, mma
from warpsim.isa.data_movement import SHARED_WINDOW
from warpsim.isa.traits import Matrix
from warpsim.machine.plan import FunctionPlan
from warpsim.native.lowering.values import Unlowerable
from warpsim.native.matrix.codes import codes
from warpsim.native.matrix.kernels import Warp, warp_kernel
from warpsim.native.matrix.plans import mma_plan
from warpsim.native.regions.forms import U32, U64, Effect, Product, Reader, Traced, place_of, traced, written
from warpsim.native.regions.options import Stops
from warpsim.numerics.arrays import Array
from warpsim.program.program import Instruction
from warpsim.records import SharedByCopies
from warpsim.types import TYPES


class Traces(SharedByCopies):
    """A function's traced instructions. ``sm``: the GPU whose tensor cores to model exactly, None for approximate ones.
    Instructions at ``stops`` without a condition stay interpreted."""

    def __init__(
        self,
        plan: FunctionPlan,
        sm: int | None,
        maybe_undefined: frozenset[int] = frozenset(),
        stops: Stops | None = None,
    ) -> None:
        self.plan, self.sm, self.maybe_undefined, self.stops = plan, sm, maybe_undefined, stops or {}
        self._traced: dict[Hashable, Traced | None] = {}
        self.reasons: dict[int, str] = {}

    def of(self, instruction: Instruction, known: dict[int, int] | None = None) -> Traced | None:
        """The graphs of an instruction, None if it stays interpreted. ``known``: registers with constant values."""
        key = id(instruction), tuple(sorted((known or {}).items()))
        if key not in self._traced:
            try:
                made = None
                if self.sm is not None and instruction.traits.matrix is not None:
                    made = matrix_step(self.plan, instruction, self.sm)
                self._traced[key] = self._stopping(instruction, made or traced(self.plan, instruction, known))
            except (Untraceable, Unlowerable) as problem:
                self._traced[key] = None
                self.reasons[id(instruction)] = str(problem)
        return self._traced[key]

    def _stopping(self, instruction: Instruction, made: Traced) -> Traced:
        """An instruction's graphs with the condition on which the launch may have to stop before it."""
        condition = self.stops.get((instruction.span.line, instruction.span.column))
        if condition is None or made.barrier:
            return made
        reader = Reader(self.plan)
        reader.keys += made.inputs
        holds = condition.holds(reader, instruction, made.effects)
        return attrs.evolve(made, inputs=tuple(reader.keys), stop=holds)

    def stopped(self, instruction: Instruction) -> bool:
        """Whether the launch may stop before an instruction whatever its registers hold."""
        if (instruction.span.line, instruction.span.column) not in self.stops:
            return False
        made = self.of(instruction)
        return made is None or made.stop is None

    def undefined(self, instruction: Instruction) -> bool:
        """Whether an instruction is on registers that may be undefined."""
        return instruction.touches(self.maybe_undefined)


WARP = (1, LANES, 1)
WORDS = 4
"""Of a row of a matrix."""
NOWHERE = np.uint32(2**32 - 4 * WORDS)
"""An aligned row that no shared memory has."""


def matrix_step(plan: FunctionPlan, instruction: Instruction, sm: int) -> Traced | None:
    """A matrix instruction on such a GPU; None for any that is not taken.

    Raises:
        Untraceable: where it has to be left to the interpreter.
    """
    function = instruction.form.function
    own = getattr(function, "__wrapped__", function)
    if instruction.guard is not None:
        return None
    if own is matrix_moves.ldmatrix:
        return _load(plan, instruction)
    if own is mma.mma_float and instruction.traits.matrix is Matrix.MULTIPLY:
        return _multiply(plan, instruction, sm)
    return None


class _Numbered:
    """A memory whose rows hold the numbers of their halves: which lane brings a row, and which of its eight it is."""

    def read_words(self, space: str, rows: Array, count: int) -> tuple[Array, ...]:
        """Words of the rows."""
        return tuple([2 * (count * rows + k) | (2 * (count * rows + k) + 1) << np.uint32(16) for k in range(count)])


def _load(plan: FunctionPlan, instruction: Instruction) -> Traced:
    """Every lane loads the row that it has the address of; which halves a lane gets is seen in what the body makes of rows that
    hold their numbers."""
    op = instruction.op
    reader = Reader(plan)
    base, offset = reader.address(instruction.operands[1])
    space, place = place_of("shared", base, offset)
    if base.dtype.itemsize == U64.itemsize:
        window = 0 if op.space else SHARED_WINDOW
        place = _in_shared(Lane(base) + np.uint64(offset - window & (2**64 - 1)))
    lanes = np.arange(LANES, dtype=np.uint32)
    found = instruction.form.function(op, lanes.reshape(WARP), memory=_Numbered())
    rows = _lanes_of(Lane(cast(place, U32), WARP), lanes % (8 * len(found)))
    within = plan.within(instruction, instruction.operands[1])
    effect = Effect("load", space, cast(rows.node, U64), TYPES["u32"], WORDS, within=within, lanes=8 * len(found))
    words = [Lane(Node("load", (), U32, (0, k)), WARP) for k in range(WORDS)]
    results: list[Lane] = []
    for register in found:
        low, high = register.reshape(LANES, 1).view(np.uint16).T.astype(np.uint32)
        if (low % 2 == 0).all() and (high == low + 1).all():
            results.append(_picked(words, low))
        else:
            first, second = (
                (_picked(words, half) >> (16 * (half % 2)).reshape(WARP)) & np.uint32(0xFFFF) for half in (low, high)
            )
            results.append(first | (second << np.uint32(16)))
    outputs: list[tuple[int, Node]] = []
    for part, result in zip(instruction.operands[0].parts, results, strict=True):
        written(part, result.node, outputs)
    return Traced(tuple(reader.keys), tuple(outputs), (effect,), collective=True)


def _in_shared(address: Lane) -> Node:
    """The address of a row in 32 bits, beyond all shared memory where 64 have more: unlike those of ``ld.shared``, rows are
    refused there."""
    return where((address >> np.uint64(32) != np.uint64(0)).node, node_of(NOWHERE), cast(address.node, U32))


def _lanes_of(value: Lane, index: Array) -> Lane:
    """What other lanes hold."""
    return Lane(Node("gather", (value.node, node_of(index.astype(np.int32))), value.dtype), WARP)


def _picked(words: list[Lane], halves: Array) -> Lane:
    """For each lane the word that holds a half (see `_Numbered`)."""
    rows, which = halves // (2 * WORDS), halves % (2 * WORDS) // 2
    found = _lanes_of(words[0], rows)
    for k, word in enumerate(words[1:], 1):
        chosen = node_of((which == k).reshape(WARP))
        found = Lane(Node("where", (chosen, _lanes_of(word, rows).node, found.node), U32), WARP)
    return found


def _multiply(plan: FunctionPlan, instruction: Instruction, sm: int) -> Traced:
    """The product's machine code, with registers in memory."""
    op = instruction.op
    key = op.text, sm
    kernel: Warp | None = codes().planned(key, lambda: mma_plan(op, sm))
    if kernel is None:
        raise Untraceable("a product without machine code")
    text, name = codes().text(key, lambda name: warp_kernel(kernel, name))
    reader = Reader(plan)
    nodes = tuple([bits(reader.value(e), U32) for o in instruction.operands[1:4] for e in o.parts])
    outputs: list[tuple[int, Node]] = []
    for k, part in enumerate(instruction.operands[0].parts):
        written(part, bits(Node("product", (), U32, (-1, k)), kernel.dtype), outputs)
    product = Product(name, text, nodes, kernel.operands[3].registers)
    return Traced(tuple(reader.keys), tuple(outputs), collective=True, product=product)
