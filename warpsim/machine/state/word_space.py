"""Private memory of each CTA or thread, one column each: shared and local memory.

Word ``w`` of all columns is one row of ``words`` (uint32 ``[n_words, n_columns]``), so an address that is the same in
every column is a copy of rows. Elements below 32 bits are inside a word, wider ones in consecutive rows.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable

import numpy as np

from warpsim.machine.values import Array, DType, Place

WIDEST = 32
"""Widest access of a thread, in bytes."""
KEPT = 1024
"""Number of accesses whose rows a memory remembers."""


class WordSpace:
    """``n_columns`` memories of ``size`` bytes.

    ``words`` and ``flat`` (the same, flattened) are for reading; call `own` before writing. A copy shares them until
    either side writes. ``shadow`` is a memory of the same layout beside it, for watchers, which make, fill and read
    it. It grows with it, and moves apply to both. The words are made when they are needed, which they may never be where
    compiled code works on a copy.
    """

    __slots__ = ("flat", "made", "n_columns", "n_words", "shadow", "shared", "size", "views", "words")
    CACHES = frozenset({"flat", "made", "shared", "views"})
    words: Array
    flat: Array

    def __init__(self, size: int, n_columns: int) -> None:
        self.size = size
        self.n_columns = n_columns
        self.n_words = -(-size // 4)
        self.shadow: WordSpace | None = None
        self.shared = False
        """Whether a copy may have the same words, until `own` is called."""
        self.made = False
        """Whether anything has needed the words."""
        self.views: dict[Hashable, list[Array]] = {}
        """Rows of these words that accesses took, or their addresses, by what they asked for: loops ask again."""

    def __getattr__(self, name: str) -> Array:
        if name not in ("words", "flat"):
            raise AttributeError(name)
        self._have(np.zeros((self.n_words, self.n_columns), np.uint32))
        return self.words if name == "words" else self.flat

    @property
    def settled(self) -> bool:
        """Whether a shadow can learn nothing more from accesses, so that none need be reported."""
        return False

    def __deepcopy__(self, memo: dict[int, object]) -> WordSpace:
        copied = copy.copy(self)
        self.shared = copied.shared = True
        copied.shadow = copy.deepcopy(self.shadow, memo)
        return copied

    def __getstate__(self) -> dict[str, object]:
        names = {*WordSpace.__slots__, *getattr(self, "__dict__", ())} - self.CACHES
        return {name: getattr(self, name) for name in sorted(names)}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._have(self.words)

    def own(self) -> None:
        """Make the words exclusive before they change."""
        if self.shared:
            self._have(self.words.copy())

    def _have(self, words: Array) -> None:
        self.words, self.flat, self.shared, self.n_words = words, words.reshape(-1), False, len(words)
        self.made, self.views = True, {}

    def keep(self, asked: Hashable, views: list[Array]) -> list[Array]:
        """Remember what an access took, of a bounded number of accesses."""
        if len(self.views) >= KEPT:
            self.views.clear()
        self.views[asked] = views
        return views

    def spare(self) -> None:
        """Scratch words for an access of any size at address 0, used by lanes with faulty addresses."""
        if len(self.words) < WIDEST // 4:
            words = np.zeros((WIDEST // 4, self.n_columns), np.uint32)
            words[: len(self.words)] = self.words
            self._have(words)
            if self.shadow is not None:
                self.shadow.spare()

    def grow(self, size: int) -> None:
        """Grow to at least ``size`` bytes per column."""
        if size > self.size:
            words = np.zeros((max(-(-size // 4) * 2, len(self.words)), self.n_columns), np.uint32)
            words[: len(self.words)] = self.words
            self._have(words)
            self.size = len(words) * 4
            if self.shadow is not None:
                self.shadow.grow(size)

    def element_index(self, address: Place, columns: Array, itemsize: int) -> Array:
        """Index of an element of at most 32 bits in ``flat``, viewed as elements of that size."""
        if itemsize == 4:
            rows = address >> 2
            rows *= self.n_columns  # in place: a third array of all lanes would evict the others from the cache
            return rows + columns
        per_word = 4 // itemsize
        shift = itemsize.bit_length() - 1
        return (address >> 2) * (self.n_columns * per_word) + columns * per_word + ((address >> shift) & (per_word - 1))

    def gather(self, address: Array, columns: Array, dtype: DType) -> Array:
        """Elements at byte addresses (int64, in bounds and aligned) of columns; both broadcast."""
        size = dtype.itemsize
        if size <= 4:
            return self.flat.view(f"u{size}").take(self.element_index(address, columns, size), mode="clip").view(dtype)
        index = (address >> 2) * self.n_columns + columns
        parts = [self.flat.take(index + k * self.n_columns, mode="clip") for k in range(size // 4)]
        return join_words(parts, dtype)

    def scatter(self, address: Place, columns: Array, values: Array) -> None:
        """Store elements (``address``: int64 array or int); at equal places, the last in C order wins."""
        size = values.dtype.itemsize
        if self.shared:
            self.own()
        if size <= 4:
            index = np.ascontiguousarray(
                self.element_index(address, columns, size)
            )  # else NumPy stores in memory order
            self.flat.view(f"u{size}")[index] = values.view(f"u{size}")
            return
        index = np.ascontiguousarray((address >> 2) * self.n_columns + columns)
        for k, word in enumerate(split_words(values)):
            self.flat[index + k * self.n_columns] = word

    def doubles(self, address: int, columns: Array | slice) -> Array:
        """The 64 bits at one byte address of some columns."""
        row = address >> 2
        return self.words[row : row + 2, columns].T.copy().view(np.uint64)[:, 0]

    def put_doubles(self, address: int, columns: Array | slice, values: Array | int) -> None:
        """Store 64 bits at one byte address of different columns, or the same ones in all of them."""
        if self.shared:
            self.own()
        row = address >> 2
        self.words[row, columns], self.words[row + 1, columns] = values & 0xFFFFFFFF, values >> 32

    def move(self, source: int, target: int, nbytes: int, columns: Array) -> None:
        """Copy whole words from one place of each column to another."""
        self.own()
        a, b = source >> 2, target >> 2
        for k in range(-(-nbytes // 4)):
            self.words[b + k, columns] = self.words[a + k, columns]
        if self.shadow is not None:
            self.shadow.move(source, target, nbytes, columns)


def in_a_row(columns: Array) -> slice | Array:
    """Consecutive columns as a slice."""
    n = len(columns)
    low = columns.item(0) if n else 0
    if n and columns.item(n - 1) == low + n - 1 and (n < 3 or (columns[1:] > columns[:-1]).all()):
        return slice(low, low + n)
    return columns


def join_words(parts: list[Array], dtype: DType) -> Array:
    """Join 32-bit words, low first, into elements of 64 or 128 bits."""
    out = np.empty((*parts[0].shape, len(parts)), np.uint32)
    for k, part in enumerate(parts):
        out[..., k] = part
    return out.view(dtype)[..., 0]


def split_words(values: Array) -> list[Array]:
    """Split elements of 64 or 128 bits into 32-bit words, low first."""
    words = np.ascontiguousarray(values).view(np.uint32).reshape(*values.shape, values.dtype.itemsize // 4)
    return [words[..., k] for k in range(words.shape[-1])]
