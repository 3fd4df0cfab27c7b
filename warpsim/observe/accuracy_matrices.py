"""Shadows of matrices: where `ldmatrix`, `stmatrix` and `movmatrix` take elements, and exact products of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import attrs
import numpy as np

from warpsim.isa import mma, mma_sp, wgmma, wmma
from warpsim.isa.exact import DTYPES, HALF, two_sum
from warpsim.isa.ports import Lanes, Registers
from warpsim.isa.spec import Op
from warpsim.layout import fragments, wmma_fragments
from warpsim.layout.fragment import scatter
from warpsim.machine.asynchrony.wgmma import SharedMatrix
from warpsim.machine.binding.warp_steps import collect, spread
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.values import as_array
from warpsim.numerics.arrays import Array, DType, halves
from warpsim.numerics.floating import fma64
from warpsim.numerics.matrix import decode, expand
from warpsim.observe.accuracy_memory import ShadowMemory, shared_of
from warpsim.observe.accuracy_values import NONE, Errors, Part, Pending
from warpsim.program.program import Instruction

# ---- moves --------------------------------------------------------------------------------------


class _Numbered:
    """A memory whose rows hold the numbers of their 16-bit elements, from 1 on; stores give the rows of numbers."""

    def __init__(self) -> None:
        self.rows = 0
        self.stored: list[Array] = []

    def read_words(self, space: str, address: Lanes, count: int) -> tuple[Lanes, ...]:
        """Rows that follow those read before."""
        rows = self.rows + np.arange(address.shape[1])
        self.rows += address.shape[1]
        return tuple([numbers((rows * count + word)[None, :, None]) for word in range(count)])

    def write_words(self, space: str, address: Lanes, words: tuple[Lanes, ...], active: Lanes) -> None:
        """Keep rows."""
        self.stored.append(np.stack([numbered(word[0, :, 0]) for word in words], axis=1))


def numbers(words: Array) -> Array:
    """Words whose halves hold the numbers of their elements, from 1 on."""
    low = 2 * words.astype(np.uint32) + np.uint32(1)
    return low | low + np.uint32(1) << np.uint32(16)


def numbered(words: Array) -> Array:
    """The numbers of elements, from 0 on, ``[..., 2]``."""
    return np.stack(halves(words, "u2"), axis=-1).astype(np.int64) - 1


Table = list[Array]
"""What numbers the elements that an instruction moves."""


def loaded(instruction: Instruction) -> Table:
    """Which 16-bit element of the rows each half of each register of each lane gets: of each register ``[lanes, 2]``."""
    function, op = instruction.form.function, instruction.op
    words = function(op, np.zeros((1, 32, 1), np.uint32), memory=_Numbered())
    return [numbered(np.broadcast_to(w, (1, 32, 1))[0, :, 0]) for w in words]


def stored(instruction: Instruction) -> Table:
    """Which half of which register of which lane each element of the rows gets: of each matrix ``[rows, words, 2]``."""
    function, op, memory = instruction.form.function, instruction.op, _Numbered()
    count = len(instruction.named["r"].parts)
    lanes = tuple([numbers((32 * r + np.arange(32))[None, :, None]) for r in range(count)])
    function(op, np.zeros((1, 32, 1), np.uint32), lanes, memory=memory, active=np.ones((1, 32, 1), np.bool_))
    return memory.stored


def transposed(instruction: Instruction) -> Table:
    """Which half of which lane's register each half of each lane's gets: ``[lanes, 2]``, once."""
    word = instruction.form.function(instruction.op, numbers(np.arange(32)[None, :, None]))
    return [numbered(word[0, :, 0])]


# ---- products -----------------------------------------------------------------------------------


class Product(NamedTuple):
    """The exact ``sums`` of products ``[elements, ...]`` (in f64, and their ``rest`` where D is f64), for these elements of D."""

    sums: Array
    rest: Array | None
    places: list[tuple[int, Part]]
    addend: list[int]
    """The operands, by their place among the step's sources, that D's registers are added to."""
    scale: int | None = None
    """The predicate, likewise, that decides whether they are added."""


def _places(p: Pending) -> dict[str, list[int]]:
    """Where the elements of each operand stand among the sources of a step."""
    found: dict[str, list[int]] = {}
    at = 0
    start = 0 if p.rule.rounding.does == "multiply_in_groups" else p.instruction.form.n_dest
    for spec, operand in list(zip(p.instruction.form.operands, p.instruction.operands, strict=True))[start:]:
        count = len(operand.parts)
        found[spec.name] = list(range(at, at + count))
        at += count
    return found


def _results(p: Pending, rows: int) -> list[tuple[int, Part]]:
    """The elements of D's registers, one by one."""
    to = p.rule.rounding.to
    slots = [o.registers[0] for o in p.instruction.named["d"].parts]
    per = rows // len(slots)
    return [(slot, (to, k)) for slot in slots for k in range(per)]


def in_warps(group: Group, errors: Sequence[Errors], kind: str) -> Array | None:
    """The errors of the elements of registers, ``[registers, elements, n, 32, m]``; None if there are none."""
    parts = [(kind, k) for k in range(max(4 // DTYPES[kind].itemsize, 1))] if kind in DTYPES else []
    if not any(part in e for e in errors for part in parts):
        return None
    warps = group.warps
    shape = warps.n, 32, warps.m
    return np.stack([[np.broadcast_to(warps.spread(e.get(part, NONE)), shape) for part in parts] for e in errors])


def _lost(
    group: Group, p: Pending, at: list[int], kind: str, taken: Callable[[Registers], Array], lanes: int = 32
) -> Array | None:
    """The errors of a factor ``[K, rows, W]`` that is ``taken`` from registers; None if there are none."""
    kind = "f32" if kind == "tf32" else kind
    held = in_warps(group, [p.errors[k] for k in at], kind)
    if held is None:
        return None
    count, per, _, _, m = held.shape
    words = np.arange(count * lanes).reshape(count, 1, lanes, 1)
    counted = numbers(words) if kind in HALF else (words + 1).astype(np.float64 if kind == "f64" else np.uint32)
    place = taken(tuple(counted))[..., 0].astype(np.int64) - 1
    every = held.reshape(count, per, -1, lanes, m).transpose(0, 3, 1, 2, 4).reshape(count * lanes * per, -1)
    found: Array = every[place]
    return found


def product_of_warps(machine: Machine, group: Group, p: Pending) -> Product:
    """The product of an ``mma`` or a ``wmma``."""
    op, warps, kind, places = p.instruction.op, group.warps, p.rule.rounding.kind, _places(p)
    n, m, sm, whole = warps.n, warps.m, machine.launch.device.sm, op.text.startswith("wmma")
    height = 0 if whole else mma.extents(op)[0]

    def lanes(array: Array) -> Array:
        return np.ascontiguousarray(np.broadcast_to(spread(warps, array, wide=False), (n, 32, m)))

    def taken(name: str, held: Registers, n: int = 1, m: int = 1) -> Array:
        if whole:
            return wmma.multiplicand(op, name, kind, held, n, m, sm)
        return mma.multiplicand(kind, height if name == "a" else 8, held, n, m)

    def factor(name: str) -> tuple[Array, Array | None]:
        """``[K, rows, W]`` with errors; those of f64, which has no room for them, beside it."""
        bits = taken(name, tuple([lanes(p.values[at]) for at in places[name]]), n, m)
        lost = _lost(group, p, places[name], kind, partial(taken, name))
        if kind == "f64":
            return bits, lost
        exact = decoded(bits, kind if whole else _kind(op, name))
        return exact if lost is None else exact + lost, None

    (left, left_lost), (right, right_lost) = factor("a"), factor("b")
    if "e" in places:
        meta, active = lanes(p.values[places["e"][0]]), np.ones((n, 32, m), np.bool_)
        selector = int(np.asarray(p.values[places["f"][0]]).reshape(-1)[0])
        left = expand(left, mma_sp.positions(op, meta, selector, n, m, active, silent))[0]
    a, b = left.transpose(2, 1, 0), right.transpose(2, 0, 1)
    sums, rest = _doubled(a, b) if kind == "f64" else (np.matmul(a, b), None)
    if rest is not None and left_lost is not None:
        rest += np.matmul(left_lost.transpose(2, 1, 0), b)
    if rest is not None and right_lost is not None:
        rest += np.matmul(a, right_lost.transpose(2, 0, 1))
    fragment = (
        wmma_fragments.accumulator(op.shape, op.dtype.name, sm)
        if whole
        else fragments.accumulator(height, 8, 64 if kind == "f64" else 32)
    )
    fragment = attrs.evolve(fragment, bits=max(fragment.bits, 32))

    def rows(each: Array) -> Array:
        registers = scatter(fragment, np.ascontiguousarray(each.transpose(1, 2, 0)), n, m, row_major=True)
        return np.stack([_shaped(group, collect(warps, r, wide=False)) for r in registers])

    made = rows(sums)
    return Product(made, None if rest is None else rows(rest), _results(p, len(made)), places["c"])


def decoded(bits: Array, kind: str) -> Array:
    """Elements ``[K, ...]`` in f64: of tf32 the whole f32, of which the product takes only a part."""
    values = np.ascontiguousarray(bits).view(np.float32) if kind == "tf32" else decode(bits, kind).values
    return values.astype(np.float64)


def _kind(op: Op, name: str) -> str:
    found: str = (op.atype if name == "a" else op.btype).name
    return found


def silent(rule: str, message: str, lanes: Array | None = None, **values: object) -> None:
    """The step itself reports."""


def _shaped(group: Group, value: object) -> Array:
    return np.broadcast_to(as_array(value), group.selection.shape)  # type: ignore[arg-type]


def _doubled(a: Array, b: Array) -> tuple[Array, Array]:
    """Sums of products of f64, and what they lack."""
    high = np.zeros((len(a), a.shape[1], b.shape[2]))
    low = np.zeros_like(high)
    for k in range(a.shape[2]):
        x, y = np.broadcast_arrays(a[:, :, k, None], b[:, None, k])
        product = x * y
        total = high + product
        low += two_sum(high, product, total) + fma64(x, y, -product, "rn")
        high = total
    return high, low


class _ExactMatrix(SharedMatrix):
    """The port of a wgmma that keeps the errors of the matrices that it reads."""

    def __init__(self, machine: Machine, group: Group, memory: ShadowMemory, kind: str) -> None:
        super().__init__(machine, group)
        self.reported, self.memory, self.kind = True, memory, "f32" if kind == "tf32" else kind
        self.errors: list[Array | None] = []

    def read(self, bits: Array, k: int, extent: int, dtype: DType, *, transposed: bool, by_warp: bool) -> Array:
        """Read a matrix ``[W, k, extent]``."""
        found = super().read(bits, k, extent, dtype, transposed=transposed, by_warp=by_warp)
        region = shared_of(self.machine)
        if self.kind not in self.memory.kinds(region):
            self.errors.append(None)
            return found
        place = self.addresses(bits, k, extent, dtype.itemsize, transposed=transposed)
        full = np.broadcast_to(place, (k, extent, *self.extent)).reshape(k, extent, -1).transpose(2, 0, 1)
        columns = np.broadcast_to(self.owners, self.extent).reshape(-1, 1, 1)
        self.errors.append(self.memory.read(region, self.kind, full, columns, found))
        return found


def product_of_warpgroups(machine: Machine, group: Group, p: Pending, memory: ShadowMemory) -> Product:
    """The product of a ``wgmma``."""
    op, warps, kind, places = p.instruction.op, group.warps, p.rule.rounding.kind, _places(p)
    n, m = warps.n // 4, warps.m

    def lanes(name: str) -> Array | None:
        return spread(warps, p.values[places[name][0]], wide=True) if name in places else None  # type: ignore[return-value]

    def held(arrays: list[Array]) -> tuple[Array, ...]:
        return tuple([np.broadcast_to(spread(warps, a, wide=True), (n, 128, m)) for a in arrays])

    port = _ExactMatrix(machine, group, memory, kind)
    registers = held([p.values[at] for at in places["a"]]) if "a" in places else None
    turned_a, turned_b = (wgmma.one(lanes(name)) for name in ("imm_trans_a", "imm_trans_b"))
    a, b, meta, chosen = (lanes(name) for name in ("a_desc", "b_desc", "sp_meta", "sp_sel"))
    left, right, stored_at = wgmma.operands(op, registers, a, b, meta, chosen, turned_a, turned_b, port, silent)
    factors = [
        decoded(bits.transpose(1, 0, 2), _kind(op, name)).transpose(1, 0, 2)
        for bits, name in ((left, "a"), (right, "b"))
    ]
    errors = port.errors if registers is None else [None, *port.errors]
    factors = [f if e is None else f + e for f, e in zip(factors, errors, strict=True)]
    if registers is not None:
        storage = np.dtype(wgmma.STORAGE[op.atype.name])
        lost = _lost(
            group, p, places["a"], kind, lambda r: fragments.gather_a(r, 1, 1, storage).transpose(1, 2, 0), lanes=128
        )
        factors[0] = factors[0] if lost is None else factors[0] + lost.transpose(2, 0, 1)
    scales = [wgmma.one(lanes(f"imm_scale_{name}")) or 1 for name in "ab"]
    if stored_at is not None:
        factors[0] = wgmma.expanded(factors[0], stored_at)[0]
    sums = np.matmul(factors[0].transpose(0, 2, 1), factors[1]) * float(scales[0] * scales[1])
    rows = fragments.scatter_accumulator(sums, n, m)
    shaped = np.stack([_shaped(group, collect(warps, row, wide=True)) for row in rows])
    return Product(shaped, None, _results(p, len(shaped)), places["d"], places["scale_d"][0])


TABLES: dict[str, Callable[[Instruction], Table]] = {
    "load_matrices": loaded, "store_matrices": stored, "transpose": transposed,
}  # fmt: skip
