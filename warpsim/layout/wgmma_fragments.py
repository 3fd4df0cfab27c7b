"""How the 128 threads of a warpgroup hold wgmma operands.

Registers come stacked, ``[registers, n, 128, m]``: ``n`` warpgroups, ``m`` CTAs side by side. Matrices are ``[W, ...]``
with ``W = n * m``. Warp ``w`` holds rows ``16w`` to ``16w + 15``. Within a warp, A and the accumulators are as in mma's
16x8 tiles: with ``g = lane / 4`` and ``t = lane % 4``, tile ``j`` of 8 columns gives each lane columns ``8j + 2t`` and
the next, of row ``g`` in the first pair and of row ``g + 8`` in the second.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsim.layout.fragment import Fragment, fragment, gather, layout_of
from warpsim.layout.fragments import metadata

Array = NDArray[Any]


@functools.cache
def multiplicand(bits: int) -> Fragment:
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


def gather_a(registers: tuple[Array, ...], n: int, m: int, dtype: np.dtype[Any]) -> Array:
    """Gather the four registers of A into ``[W, K, 64]``; the ``K`` elements of a row occupy 32 bytes."""
    words = tuple(r.view(np.uint32) for r in registers)
    matrix = gather(multiplicand(8 * dtype.itemsize), words, n, m, dtype)
    return np.ascontiguousarray(matrix.transpose(2, 0, 1))


def sparse_nibbles(words: Array, selector: int, n: int, m: int, itemsize: int) -> Array:
    """The metadata of each chunk of A, ``[W, chunks, 64]`` (int64), from the metadata registers.

    A nibble describes a chunk: two 2-bit indices into 4 elements, or for 32-bit types one into 2 elements.
    """
    chunks = 16 if itemsize == 1 else 8
    warps = np.broadcast_to(words, (n, 128, m)).reshape(4 * n, 32, m)
    tiles = gather(metadata(chunks, selector, floats=itemsize > 1), (warps,), 4 * n, m)
    nibbles: Array = tiles.reshape(chunks, 16, n, 4, m).transpose(2, 4, 0, 3, 1).reshape(n * m, chunks, 64)
    return nibbles.astype(np.int64)


def sparse_positions(nibbles: Array, itemsize: int) -> Array:
    """The k, in the full row, of each stored element of A, ``[W, K / 2, 64]`` (int64), from the result of
    `sparse_nibbles`.
    """
    chunks = nibbles.shape[1]
    first = np.arange(chunks)[:, None]
    if itemsize == 4:
        return 2 * first + ((nibbles & 3) >> 1)
    pair = np.stack([4 * first + (nibbles & 3), 4 * first + (nibbles >> 2)], axis=2)
    return pair.reshape(len(nibbles), 2 * chunks, 64)
