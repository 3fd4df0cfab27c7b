"""Which product an instruction is on a GPU: the choices of ``warpsim.isa``'s bodies and of `warpsim.numerics.emulated`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from warpsim.isa import mma, wgmma
from warpsim.layout import fragments
from warpsim.layout import wmma_fragments as wmma_layout
from warpsim.layout.fragment import Fragment
from warpsim.native.matrix.fragments import gathered, scattered
from warpsim.native.matrix.kernels import Warp
from warpsim.native.matrix.operands import Source
from warpsim.native.matrix.products import Product
from warpsim.numerics.emulated import ADA
from warpsim.numerics.matrix import WGMMA_FP8, Unit, unit_of
from warpsim.numerics.operands import NARROW

if TYPE_CHECKING:
    from warpsim.isa.spec import Op


def _steps(count: int, size: int) -> tuple[tuple[int, ...], ...]:
    """Elements in their order, ``size`` at a time."""
    return tuple(tuple(range(first, min(first + size, count))) for first in range(0, count, size))


def _product(op: Op, sm: int, a: Source, b: Source, stored: int, *, sparse: bool) -> Product:
    """A product of mma or mma.sp: fp8 natively, or as two of f16."""
    kinds = op.atype.name, op.btype.name
    half = op.dtype.name == "f16"
    if kinds[0] in mma.FLOATS:
        unit = unit_of(sm)
        size = unit.block_bytes // (4 if kinds[0] == "tf32" else 2)
        return Product(a, b, unit, _steps(stored, size), half, sparse=sparse)
    if sm == 89 or sm >= 120:
        unit = ADA if sm == 89 else unit_of(sm)
        return Product(a, b, unit, _steps(stored, unit.block_bytes), half, sparse=sparse)
    a, b = attrs.evolve(a, unpacked=True), attrs.evolve(b, unpacked=True)
    passes = tuple(tuple(j for j in range(stored) if j // 2 % 2 == which) for which in range(2))
    return Product(a, b, unit_of(sm), passes, half, added=True, sparse=sparse)


def _words(kind: str, rows: int, k: int) -> tuple[Source, Fragment]:
    """A or B of mma as they stand in registers."""
    count = k * (32 if kind == "tf32" else 8 if kind in NARROW else 16) // 32
    return Source(kind, rows, count, packed=True), fragments.multiplicand(rows, count, 32)


def _mma(op: Op, sm: int, stored: int, k: int, *, sparse: bool) -> Warp:
    (a, held_a), (b, held_b) = _words(op.atype.name, 16, stored), _words(op.btype.name, 8, k)
    half = op.dtype.name == "f16"
    product = _product(op, sm, a, b, stored, sparse=sparse)
    left, right = (gathered(f, f.registers, row_major=False) for f in (held_a, held_b))
    return Warp(product, 16, 8, left, right, None, None, half, half)


def mma_plan(op: Op, sm: int) -> Warp | None:
    """Dense mma."""
    _, _, k = mma.extents(op)
    return _mma(op, sm, k, k, sparse=False)


def sparse_plan(op: Op, sm: int) -> Warp | None:
    """mma.sp."""
    _, _, k = mma.extents(op)
    return _mma(op, sm, k // 2, k, sparse=True)


def wmma_plan(op: Op, sm: int) -> Warp | None:
    """Floats of wmma."""
    kind = op.get("atype").name if op.get("atype") is not None else "f16"
    if kind not in mma.FLOATS:
        return None
    m, n, k = mma.extents(op)
    along = op.alayout == "row", op.blayout == "col"
    held = [
        wmma_layout.multiplicand(operand, op.shape, kind, sm, along_k=along_k)
        for operand, along_k in zip("ab", along, strict=True)
    ]
    results = [wmma_layout.accumulator(op.shape, t.name, sm) for t in (op.ctype, op.dtype)]
    if any(f.lanes is not None or f.threads != 32 for f in (*held, *results)):
        return None
    unit = unit_of(sm)
    if kind == "tf32":
        unit = attrs.evolve(unit, block_bytes=16)
    a, b = Source(kind, m, k, packed=False), Source(kind, n, k, packed=False)
    halves = [t.name == "f16" for t in (op.ctype, op.dtype)]
    product = Product(a, b, unit, _steps(k, unit.block_bytes // (4 if kind == "tf32" else 2)), all(halves))
    counts = [f.registers for f in held]
    left, right = (gathered(f, count, row_major=False) for f, count in zip(held, counts, strict=True))
    c, d = gathered(results[0], results[0].registers, row_major=True), scattered(results[1], row_major=True)
    return Warp(product, m, n, left, right, c, d, *halves)


def wgmma_product(op: Op, sm: int, *, sparse: bool, packed: tuple[bool, bool]) -> Product:
    """Floats of wgmma; ``packed`` are operands that come as words of shared memory, along K."""
    kinds = op.atype.name, op.btype.name
    bytes_ = int(wgmma.STORAGE[kinds[0]][1])
    stored = 32 // bytes_
    unit: Unit = WGMMA_FP8 if kinds[0] in mma.FP8 else unit_of(max(sm, 90))
    a, b = (
        Source(kind, rows, k * bytes_ // 4 if words else k, packed=words)
        for kind, rows, k, words in zip(
            kinds, (64, wgmma.columns(op)), (stored, stored * (2 if sparse else 1)), packed, strict=True
        )
    )
    return Product(a, b, unit, _steps(stored, unit.block_bytes // bytes_), wgmma.is_f16(op), sparse=sparse)
