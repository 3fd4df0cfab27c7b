"""Shadows of tensor memory: exact products of `tcgen05.mma`, and the cells that `tcgen05.ld` and `tcgen05.st` move."""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.isa.exact import DTYPES
from warpsim.isa.ports import Lanes
from warpsim.isa.tensor_products import Execution, TensorProducts
from warpsim.layout.instruction_descriptors import SCALED
from warpsim.layout.tensor_memory import COLUMNS, LANES
from warpsim.layout.tensor_tiles import Tile
from warpsim.machine.asynchrony.tensor_reach import TensorReach
from warpsim.machine.binding.warp_steps import spread
from warpsim.machine.machine import Machine
from warpsim.machine.memory.tensor import Tensor, places, read
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array, DType, as_array
from warpsim.numerics.matrix import expand
from warpsim.observe.accuracy_matrices import decoded, silent
from warpsim.observe.accuracy_memory import Region, ShadowMemory, shared_of
from warpsim.observe.accuracy_values import Made, Pending, part_of, shadow_value
from warpsim.records import frozen

CELLS = LANES * COLUMNS


def tensor_of(machine: Machine) -> Region:
    """The tensor memory of a batch: 128 rows of 512 words."""
    return Region("tensor", id(machine.batch), 0, 4 * CELLS, machine.batch.shape.n_ctas)


# ---- products -----------------------------------------------------------------------------------


@frozen(eq=False)
class Expected:
    """What cells of tensor memory will hold but for rounding: rectangles ``[k, lanes, columns]``, ``kept`` where they are written."""

    ctas: Array
    address: Array
    whole: Array
    kept: Array | None
    kind: str


class _Numbers(TensorReach):
    """A reach whose words hold the numbers, from 1 on, of the 16-bit (or 32-bit) elements that stand in their place: the ``high``
    or the low half of each number."""

    def __init__(self, machine: Machine, group: Group, *, wide: bool, high: bool) -> None:
        super().__init__(machine, group, None)
        self.wide, self.high = wide, high

    def read_shared(self, cta: Array, address: Array, dtype: DType) -> Array:
        """Elements of shared memory."""
        return self._numbers(np.asarray(address), cta)

    def read_tensor(self, ctas: Array, address: Array, lanes: int, columns: int) -> Array:
        """Cells."""
        return self._numbers(*_cells(ctas, address, (len(ctas), lanes, columns)))

    def _numbers(self, place: Array, cta: Array) -> Array:
        word, count = place >> 2, self.machine.batch.shape.n_ctas
        if self.wide:
            return (word * count + cta + 1).astype(np.uint32)
        found = [((2 * word + half) * count + cta + 1) >> (16 if self.high else 0) & 0xFFFF for half in (0, 1)]
        return (found[0] | found[1] << 16).astype(np.uint32)


class _Exact:
    """The exact products of one variant."""

    def __init__(
        self, machine: Machine, group: Group, work: TensorProducts, number: int, some: Lanes, memory: ShadowMemory
    ) -> None:
        self.machine, self.memory, self.work = machine, memory, work
        variant = work.variants[number]
        self.product = variant.product
        self.real = Execution(work, TensorReach(machine, group, None), variant, some)
        self.some = some
        kind = self.product.a
        self.kind = "f32" if kind == "tf32" else kind
        wide = kind == "tf32"
        self.numbers = [
            Execution(work, _Numbers(machine, group, wide=wide, high=high), variant, some)
            for high in ((False,) if wide else (False, True))
        ]

    def factor(self, name: str, call: str, *arguments: object) -> Array:
        """``[k, rows, K]`` in f64, with errors."""
        type, negated = (
            (self.product.a, self.product.negate_a) if name == "a" else (self.product.b, self.product.negate_b)
        )
        bits = np.ascontiguousarray(getattr(self.real, call)(*arguments))
        values = decoded(bits.transpose(2, 0, 1), type).transpose(1, 2, 0)
        in_tensor = name == "a" and self.work.a_in_tensor
        region = tensor_of(self.machine) if in_tensor else shared_of(self.machine)
        plane = self.memory.kinds(region).get(self.kind)
        if plane is None or negated or self.kind not in DTYPES:
            return values
        parts = [getattr(one, call)(*arguments).astype(np.int64) for one in self.numbers]
        index = (parts[0] | parts[1] << 16 if len(parts) > 1 else parts[0]) - 1
        held, lost = (array.take(np.maximum(index, 0), mode="clip") for array in plane[:2])
        return values + np.where((index >= 0) & (held == bits), lost, 0.0)

    def expected(self) -> list[Expected]:
        """What D's cells will hold."""
        p, work, found = self.product, self.work, list[Expected]()
        b = self.factor("b", "columns_of_b")
        a = None if work.a_in_tensor else self.factor("a", "rows_of_shared_a")
        for tile in self.real.tiles():
            rows = self.factor("a", "rows_of_tensor_a", [tile]) if a is None else a[:, tile.row : tile.row + tile.rows]
            if p.sparse:
                full, _ = expand(rows.transpose(2, 0, 1), self.real.positions([tile]))
                rows = full.transpose(1, 2, 0)
            columns = b[:, tile.column : tile.column + tile.columns]
            sums = np.matmul(rows, columns.transpose(0, 2, 1)) + self.addend(tile)
            kept = self.real.kept(tile)
            found.append(Expected(self.real.ctas[tile.cta], self.real.place(tile), sums, kept, p.d))
        return found

    def addend(self, tile: Tile) -> Array:
        """C ``[k, rows, columns]`` in f64, with errors, zero where it is not an input."""
        c = self.real.accumulators([tile])
        region, kind = tensor_of(self.machine), self.product.d
        if kind not in self.memory.kinds(region):
            return c.astype(np.float64)
        cells = read(
            self.machine.batch.tensor_memory(), self.real.ctas[tile.cta], self.real.place(tile), tile.rows, tile.columns
        )
        error = self.memory.read(
            region,
            kind,
            *_cells(self.real.ctas[tile.cta], self.real.place(tile), cells.shape),
            cells.astype(f"u{c.dtype.itemsize}"),
        )
        keep = self.work.accumulate[self.some][:, None, None]
        return shadow_value(c, np.where(keep, error, 0.0) * 2.0**-self.work.exponent)


def _cells(ctas: Array, address: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Byte addresses and columns of rectangles ``[k, lanes, columns]``."""
    lane, column = places(address)
    cells = (lane * COLUMNS + column)[:, None, None] + np.arange(shape[1])[:, None] * COLUMNS + np.arange(shape[2])
    return 4 * cells, ctas[:, None, None]


def products(machine: Machine, transfer: Transfer, memory: ShadowMemory) -> list[Expected]:
    """What products that start now will leave, but for rounding."""
    work = transfer.work
    found: list[Expected] = []
    if isinstance(work, TensorProducts):
        for number, variant in enumerate(work.variants):
            some = np.flatnonzero(work.variant == number)
            if len(some) and variant.product.kind not in SCALED and variant.product.kind != "i8":
                found += _Exact(machine, transfer.group, work, number, some, memory).expected()
    return found


def results(machine: Machine, expected: Expected) -> tuple[Array, Array, Array]:
    """What the cells hold now, in D's type, and their addresses and columns."""
    shape = expected.whole.shape
    words = read(machine.batch.tensor_memory(), expected.ctas, expected.address, shape[1], shape[2])
    dtype = DTYPES[expected.kind]
    return words.astype(f"u{dtype.itemsize}").view(dtype), *_cells(expected.ctas, expected.address, shape)


# ---- moves --------------------------------------------------------------------------------------


class _Cells(Tensor):
    """A port on other cells than the step's own."""

    def __init__(self, machine: Machine, group: Group, active: Array | None, words: Array) -> None:
        super().__init__(machine, group, active)
        space = WordSpace(4 * CELLS, machine.batch.shape.n_ctas)
        space.words[:] = words
        self.memory = attrs.evolve(self.memory, space=space)


def _run(
    machine: Machine, group: Group, p: Pending, words: Array, registers: list[Array]
) -> tuple[tuple[Array, ...], Array]:
    """Run a move on other cells and registers; gives its results, and the cells afterwards."""
    instruction, warps = p.instruction, group.warps
    port = _Cells(machine, group, p.active, words)
    arguments: list[object] = []
    for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True):
        if spec.dest:
            continue
        if operand.base is not None:
            arguments.append(spread(warps, p.address, wide=False))  # type: ignore[arg-type]
        elif operand.elements is not None:
            arguments.append(tuple(registers))
        else:
            arguments.append(np.full((1, 32, 1), operand.constant or 0, np.int32))
    machine.muted += 1
    try:
        made: tuple[Array, ...] | None = instruction.form.function(
            instruction.op, *arguments, tensor=port, report=silent
        )
    finally:
        machine.muted -= 1
    return made or (), port.memory.space.words


def load_cells(machine: Machine, group: Group, p: Pending, memory: ShadowMemory) -> Made:
    """The errors of the registers that get cells."""
    region, made = tensor_of(machine), Made()
    if not memory.kinds(region):
        return made
    count = machine.batch.shape.n_ctas
    numbers = np.arange(1, CELLS * count + 1, dtype=np.uint32).reshape(CELLS, count)
    found, _ = _run(machine, group, p, numbers, [])
    for operand, number in zip(p.instruction.named["r"].parts, found, strict=True):
        cell = as_array(group.warps.collect(number)).astype(np.int64) - 1
        value = as_array(group.read(operand.registers[0]))
        for kind in memory.kinds(region):
            size = DTYPES[kind].itemsize
            for k in range(4 // size):
                bits = part_of(value, (kind, k)).view(f"u{size}")
                error = memory.read(region, kind, 4 * (cell // count) + size * k, cell % count, bits)
                made[operand.registers[0], (kind, k)] = error if error.any() else None
    return made


def store_cells(machine: Machine, group: Group, p: Pending, memory: ShadowMemory) -> None:
    """Give cells the errors of registers."""
    region, warps, count = tensor_of(machine), group.warps, machine.batch.shape.n_ctas
    kinds = {*memory.kinds(region), *(kind for errors in p.errors for kind, _ in errors if kind in DTYPES)}
    if not kinds:
        return
    parts = p.instruction.named["r"].parts
    given = list(zip(p.rule.data, p.values, p.errors, strict=True))[-len(parts) :]
    shape = warps.n, 32, warps.m
    size = warps.n * 32 * warps.m
    numbers = [(np.arange(size, dtype=np.uint32) + np.uint32(1 + r * size)).reshape(shape) for r in range(len(parts))]
    _, words = _run(machine, group, p, np.zeros((CELLS, count), np.uint32), numbers)
    cells, columns = np.nonzero(words)
    source = words[cells, columns].astype(np.int64) - 1

    def of_lanes(arrays: list[Array]) -> Array:
        return np.stack([np.broadcast_to(warps.spread(a), shape) for a in arrays]).reshape(-1)[source]

    for kind in kinds:
        width = DTYPES[kind].itemsize
        for k in range(4 // width):
            lost = [errors.get((kind, k), np.zeros(1)) for _, _, errors in given]
            bits = of_lanes([part_of(value, (kind, k)).view(f"u{width}") for _, value, _ in given])
            error = of_lanes(lost)
            memory.write(region, kind, 4 * cells + width * k, columns, bits, error if error.any() else None)
