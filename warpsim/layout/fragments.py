"""Fragments of mma, mma.sp, ldmatrix, stmatrix, movmatrix, and of the 128 threads of a warpgroup.

The tiles of mma all follow one rule (PTX ISA, matrix fragments for mma). With group ``g = lane / 4`` and ``t = lane %
4``, a register of A holds consecutive k of row ``g`` or ``g + 8``, a register of B consecutive k of column ``g``, an
accumulator pair the columns ``2t`` and ``2t + 1`` of a row.
"""

from __future__ import annotations

import functools

import attrs
import numpy as np

from warpsim.layout.algebra import Layout
from warpsim.layout.fragment import Fragment, fragment, gather, layout_of
from warpsim.numerics.arrays import Array, DType


@functools.cache
def multiplicand(rows: int, k: int, bits: int) -> Fragment:
    """A (``rows`` is 16 or 8) or B (``rows`` is its 8 columns) of mma, with k as the columns."""
    per = max(32 // bits, 1)
    blocks = k // (4 * per)
    threads = layout_of((4, per * rows), (8, 1))
    values = layout_of((per, rows), (rows // 8, 8), (blocks, 4 * per * rows))
    return fragment(rows, k, bits, threads, values)


@functools.cache
def accumulator(rows: int, columns: int, bits: int) -> Fragment:
    """C or D of mma and wgmma: 8-row blocks within 16, then blocks of 8 columns. 64 rows are those of four warps."""
    warps = max(rows // 16, 1)
    threads = layout_of((4, 2 * rows), (8, 1)) if warps == 1 else layout_of((4, 2 * rows), (8, 1), (warps, 16))
    values = layout_of((2, rows), (min(rows, 16) // 8, 8), (columns // 8, 8 * rows))
    return fragment(rows, columns, bits, threads, values)


@functools.cache
def quad_pair(operand: str, bits: int, *, by_rows: bool) -> Fragment:
    """mma.m8n8k4 of f16: quad pair ``q`` (lanes 4q to 4q+3, and those plus 16) computes matrix q of four, side by side.

    A and B are ``[4 * 8, 4]`` (B with k as the columns); ``by_rows``: k runs along a thread's registers. Accumulators
    are ``[8, 4 * 8]``, f16 or f32 by ``bits``.
    """
    if operand in "ab":
        if by_rows:
            return fragment(32, 4, bits, layout_of((4, 1), (4, 8), (2, 4)), layout_of((4, 32)))
        return fragment(32, 4, bits, layout_of((4, 32), (4, 8), (2, 4)), layout_of((4, 1)))
    if bits == 16:
        return fragment(8, 32, bits, layout_of((4, 1), (4, 64), (2, 4)), layout_of((8, 8)))
    return fragment(8, 32, bits, layout_of((2, 1), (2, 16), (4, 64), (2, 4)), layout_of((2, 8), (2, 2), (2, 32)))


@functools.cache
def metadata(chunks: int, selector: int, rows: int = 16, *, floats: bool) -> Fragment:
    """The metadata of sparse A ``[rows, chunks]``: nibbles (two 2-bit indices) in the lanes that the selector names.

    Four chunks of a row take one lane of a quad, eight a pair, sixteen all four (observed on an H100; the text has only
    figures). ``floats`` means 16- and 32-bit element types, whose pairs share the chunks and not the rows. 64 rows are
    those of four warps.
    """
    contributors = chunks // 4
    values = [(8, rows)]
    if contributors == 1:
        threads, values = [(1, 0), (8, 1)], [(4, rows), (2, 8)]
    elif floats:
        threads, values = [(2, 4 * rows), (8, 1)], [(4, rows), (2, 8)]
    elif contributors == 2:
        threads = [(2, 8), (8, 1)]
    else:
        threads = [(2, 8), (2, 8 * rows), (8, 1)]
    lanes = [(contributors, 1), (8, 4)]
    if rows > 16:
        threads.append((rows // 16, 16))
        lanes.append((rows // 16, 32))
    whole = fragment(rows, chunks, 4, layout_of(*threads), layout_of(*values))
    return attrs.evolve(whole, lanes=layout_of(*lanes), first=selector * contributors)


@functools.cache
def scales(operand: str, count: int) -> Fragment:
    """Block scales, ``count`` bytes for each row of A or column of B, for selectors of 0.

    A's come from lanes 4g (row g) and 4g + 1 (row g + 8), B's from lane 4g (column g). The rows of the pair are given
    only in figures; they agree with CUTLASS (``SFALayout``).
    """
    if operand == "a":
        whole = fragment(16, count, 8, layout_of((2, 8), (8, 1)), layout_of((count, 16)))
        return attrs.evolve(whole, lanes=Layout((2, 8), (1, 4)))
    whole = fragment(8, count, 8, layout_of((8, 1)), layout_of((count, 8)))
    return attrs.evolve(whole, lanes=Layout(8, 4))


@functools.cache
def moved(shape: str, *, transposed: bool) -> Fragment:
    """One matrix of ldmatrix, stmatrix or movmatrix: rows are address rows, columns the elements of a row."""
    if shape == "m16n16":
        return fragment(16, 16, 8, layout_of((4, 4), (8, 16)), layout_of((4, 1), (2, 128)))
    if shape == "m16n8":
        return fragment(8, 16, 8, layout_of((4, 2), (8, 8)), layout_of((2, 1), (2, 64)))
    if shape == "m8n16":
        return fragment(8, 16, 8, layout_of((4, 32), (8, 1)), layout_of((4, 8)))
    if transposed:
        return fragment(8, 8, 16, layout_of((4, 2), (8, 8)), layout_of((2, 1)))
    return fragment(8, 8, 16, layout_of((4, 16), (8, 1)), layout_of((2, 8)))


# ---- wgmma ------------------------------------------------------------------------------------------
#
# Registers come stacked, ``[registers, n, 128, m]``: ``n`` warpgroups, ``m`` CTAs side by side. Matrices are ``[W, ...]``
# with ``W = n * m``. Warp ``w`` holds rows ``16w`` to ``16w + 15``, within which A and the accumulators are as in mma.


@functools.cache
def warpgroup_multiplicand(bits: int) -> Fragment:
    """A in registers, with 32 bytes of elements per row."""
    per = 32 // bits
    threads = layout_of((4, per * 64), (8, 1), (4, 16))
    return fragment(64, 8 * per, bits, threads, layout_of((per, 64), (2, 8), (2, 4 * per * 64)))


# Accumulators are the most that is moved: their stacked registers are transposed in one go, as `fragments.accumulator`
# says (held together by a test).
_ROWS_FIRST = (3, 7, 4, 1, 5, 0, 6, 2)
"""From (tile, pair, column, n, warp, g, t, m) to (n, m, warp, pair, g, tile, t, column)."""
_REGISTERS_FIRST = tuple(int(i) for i in np.argsort(_ROWS_FIRST))


def gather_accumulator(stack: Array) -> Array:
    """Gather ``N / 2`` registers of one element each into ``[W, 64, N]``."""
    count, n, _, m = stack.shape
    view = stack.reshape(count // 4, 2, 2, n, 4, 8, 4, m)
    return view.transpose(_ROWS_FIRST).reshape(n * m, 64, count * 2)


def scatter_accumulator(matrix: Array, n: int, m: int) -> Array:
    """Scatter ``[W, 64, N]`` to ``N / 2`` registers of one element each."""
    count = matrix.shape[2] // 2
    view = matrix.reshape(n, m, 4, 2, 8, count // 4, 4, 2)
    return view.transpose(_REGISTERS_FIRST).reshape(count, n, 128, m)


def gather_packed(stack: Array) -> Array:
    """Gather ``N / 4`` registers of two halves each into ``[W, 64, N]`` f16."""
    count, n, _, m = stack.shape
    halves = np.ascontiguousarray(stack).view(np.float16).reshape(count // 2, 2, n, 4, 8, 4, m, 2)
    return halves.transpose(2, 6, 3, 1, 4, 0, 5, 7).reshape(n * m, 64, count * 4)


def scatter_packed(matrix: Array, n: int, m: int) -> Array:
    """Scatter ``[W, 64, N]`` f16 to ``N / 4`` registers (u32) of two halves each."""
    count = matrix.shape[2] // 4
    view = matrix.reshape(n, m, 4, 2, 8, count // 2, 4, 2).transpose(5, 3, 0, 2, 4, 6, 1, 7)
    return np.ascontiguousarray(view).view(np.uint32).reshape(count, n, 128, m)


def gather_a(registers: tuple[Array, ...], n: int, m: int, dtype: DType) -> Array:
    """Gather the four registers of A into ``[W, K, 64]``; the ``K`` elements of a row occupy 32 bytes."""
    words = tuple(r.view(np.uint32) for r in registers)
    matrix = gather(warpgroup_multiplicand(8 * dtype.itemsize), words, n, m, dtype)
    return np.ascontiguousarray(matrix.transpose(2, 0, 1))


def stored_positions(nibbles: Array, bits: int) -> Array:
    """The k, in the full row, of each stored element of sparse A, ``[stored, ...]`` (int64), from the metadata ``[chunks, ...]``
    of ``bits``-bit elements."""
    low, high = (nibbles & 3).astype(np.int64), (nibbles >> 2).astype(np.int64)
    first = np.arange(len(nibbles)).reshape(-1, *[1] * (nibbles.ndim - 1))
    if bits == 32:
        return 2 * first + (low >> 1)
    pair = np.stack([4 * first + low, 4 * first + high], axis=1).reshape(-1, *nibbles.shape[1:])
    if bits > 4:
        return pair
    return np.stack([2 * pair, 2 * pair + 1], axis=1).reshape(-1, *nibbles.shape[1:])
