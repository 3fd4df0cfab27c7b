"""Which product an instruction is on a GPU: the choices of ``warpsim.isa``'s bodies and of `warpsim.numerics.emulated`."""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.isa import mma, wgmma
from warpsim.isa.spec import Op
from warpsim.layout import fragments
from warpsim.layout import wmma_fragments as wmma_layout
from warpsim.layout.fragment import Fragment
from warpsim.native.matrix.kernels import Plain, Warp, as_they_are, gathered, scattered
from warpsim.native.matrix.operands import Source
from warpsim.native.matrix.products import Product
from warpsim.numerics.emulated import ADA
from warpsim.numerics.matrix import NARROW, WGMMA_FP8, Unit, unit_of


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
    held = as_they_are(2 if half else 4)
    return Warp(product, 16, 8, (left, right, held, held), (half, half), dense=False)


def mma_plan(op: Op, sm: int) -> Warp | None:
    """Dense mma."""
    _, _, k = mma.extents(op)
    return _mma(op, sm, k, k, sparse=False)


def sparse_plan(op: Op, sm: int) -> Warp | None:
    """mma.sp on floats."""
    if op.dtype.name == "s32":
        return None
    _, _, k = mma.extents(op)
    return _mma(op, sm, k // 2, k, sparse=True)


def wmma_plan(op: Op, sm: int) -> Warp | Plain | None:
    """wmma."""
    kind = op.get("atype").name if op.get("atype") is not None else "f16"
    if kind not in mma.FLOATS:
        return wmma_plain_plan(op, sm)
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
    halves = op.ctype.name == "f16", op.dtype.name == "f16"
    product = Product(a, b, unit, _steps(k, unit.block_bytes // (4 if kind == "tf32" else 2)), all(halves))
    counts = [f.registers for f in held]
    left, right = (gathered(f, count, row_major=False) for f, count in zip(held, counts, strict=True))
    c, d = gathered(results[0], results[0].registers, row_major=True), scattered(results[1], row_major=True)
    return Warp(product, m, n, (left, right, c, d), halves, dense=True)


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


# ---- integers, bits and f64 ---------------------------------------------------------------------------


def _made(
    op: Op,
    how: str,
    a: Fragment,
    b: Fragment,
    c: Fragment,
    *,
    bits: int = 32,
    signs: tuple[bool, bool] = (False, False),
) -> Plain | None:
    if any(f.lanes is not None or f.threads != 32 for f in (a, b, c)):
        return None
    left, right = (gathered(f, f.registers, row_major=False) for f in (a, b))
    operands = left, right, gathered(c, c.registers, row_major=True), scattered(c, row_major=True)
    return Plain(how, a.rows, b.rows, a.columns, operands, bits, signs, bool(op.get("satfinite")))


def _words_of(fragment: Fragment) -> Fragment | None:
    """A fragment whose registers hold consecutive k, with the registers as its elements."""
    per = fragment.per_register
    rows, columns = (np.asarray(x).reshape(32, -1, per) for x in fragment.table())
    if (
        (rows != rows[..., :1]).any()
        or (columns != columns[..., :1] + np.arange(per)).any()
        or (columns[..., 0] % per).any()
    ):
        return None
    whole = fragments.multiplicand(fragment.rows, fragment.columns // per, 32)
    places = [np.asarray(x) for x in whole.table()]
    if whole.registers != rows.shape[1]:
        return None
    alike = (places[0] == rows[..., 0]).all() and (places[1] == columns[..., 0] // per).all()
    return whole if alike else None


def plain_plan(op: Op, sm: int) -> Plain | None:
    """Integers, bits and f64 of mma, rounded to nearest."""
    m, _, k = mma.extents(op)
    kind = op.atype.name
    c = fragments.accumulator(m, 8, 64 if kind == "f64" else 32)
    if kind == "f64":
        a, b = (fragments.multiplicand(rows, k, 64) for rows in (m, 8))
        return None if op.rnd not in (None, "rn") else _made(op, "f64", a, b, c)
    bits = mma.BITS[kind]
    a, b = (fragments.multiplicand(rows, k * bits // 32, 32) for rows in (m, 8))
    if kind == "b1":
        return _made(op, op.bitop, a, b, c)
    signs = op.atype.name[0] == "s", op.btype.name[0] == "s"
    return _made(op, "sum", a, b, c, bits=bits, signs=signs)


def wmma_plain_plan(op: Op, sm: int) -> Plain | None:
    """The same of wmma."""
    kind = "b1" if op.get("atype") is None else op.atype.name
    along = op.get("alayout") in (None, "row"), op.get("blayout") in (None, "col")
    c = wmma_layout.accumulator(op.shape, "f64" if kind == "f64" else "s32", sm)
    if kind == "b1":
        a, b = (wmma_layout.words(operand, op.shape) for operand in "ab")
        return _made(op, op.op, a, b, c)
    held = [wmma_layout.multiplicand(o, op.shape, kind, sm, along_k=k) for o, k in zip("ab", along, strict=True)]
    if kind == "f64":
        return None if op.rnd not in (None, "rn") else _made(op, "f64", held[0], held[1], c)
    left, right = (_words_of(f) for f in held)
    if left is None or right is None:
        return None
    signs = op.atype.name[0] == "s", op.btype.name[0] == "s"
    return _made(op, "sum", left, right, c, bits=wmma_layout.BITS[kind], signs=signs)
