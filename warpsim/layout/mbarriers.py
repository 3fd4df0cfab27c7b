"""The 64-bit word of an mbarrier object, as arithmetic on arrays (uint64 in and out).

The text keeps the object opaque. Here, bits 0 to 19 are pending arrivals, bits 20 to 39 the expected arrivals of the
next phase, bit 40 the phase, bits 41 to 62 the tx-count (signed); bit 63 is set while the object is initialised.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from warpsim.numerics.arrays import Array

_COUNT = np.uint64(0xFFFFF)
_TX = np.uint64(0x3FFFFF)
_ONE = np.uint64(1)
PHASE, TX, VALID = np.uint64(40), np.uint64(41), np.uint64(1 << 63)
MAX_COUNT = (1 << 20) - 1
MAX_TX = (1 << 20) - 1
"""The tx-count ranges from -MAX_TX to MAX_TX (PTX ISA, mbarrier contents)."""


def _u64(value: ArrayLike) -> Array:
    return np.asarray(value).astype(np.int64).astype(np.uint64)


def initial(count: Array) -> Array:
    """A new object that expects ``count`` arrivals in each phase."""
    n = _u64(count) & _COUNT
    return VALID | n | n << np.uint64(20)


def is_valid(word: Array) -> Array:
    """Whether an object is initialised."""
    return (word & VALID) != 0


def pending(word: Array) -> Array:
    """Pending arrivals of the phase, uint32."""
    return (word & _COUNT).astype(np.uint32)


def phase(word: Array) -> Array:
    """The parity of the current phase."""
    return (word >> PHASE & _ONE).astype(np.uint32)


def tx_count(word: Array) -> Array:
    """Pending bytes of the phase, int64; negative if more have arrived than were expected."""
    tx = (word >> TX & _TX).astype(np.int64)
    return np.where(tx > MAX_TX, tx - (1 << 22), tx)


def expect(word: Array, nbytes: Array) -> Array:
    """Expect ``nbytes`` more in this phase; it ends if they have all arrived already (as on an H200)."""
    return _turn(_count_bytes(word, nbytes))


def complete_bytes(word: Array, nbytes: Array) -> Array:
    """Complete ``nbytes``; the phase ends if nothing is pending."""
    return _turn(_count_bytes(word, -np.asarray(nbytes).astype(np.int64)))


def expect_and_arrive(word: Array, nbytes: Array, *, drop: bool = False) -> Array:
    """Expect ``nbytes``, then arrive once."""
    return arrive(expect(word, nbytes), np.ones(1, np.int64), drop=drop)


def arrive(word: Array, count: ArrayLike, *, drop: bool = False, complete: bool = True) -> Array:
    """Make ``count`` arrivals; with ``drop``, later phases expect that many fewer."""
    n = _u64(count)
    left = (word & _COUNT) - n & _COUNT
    word = word & ~_COUNT | left
    if drop:
        fewer = (word >> np.uint64(20)) - n & _COUNT
        word = word & ~(_COUNT << np.uint64(20)) | fewer << np.uint64(20)
    return _turn(word) if complete else word


@functools.lru_cache(maxsize=1024)
def changed(change: Callable[..., Array], word: int, *operands: int) -> int:
    """What a ``change`` makes of one object; loops ask again."""
    found: int = change(np.array([word], np.uint64), *[np.array([n]) for n in operands]).item()
    return found


@functools.lru_cache(maxsize=1024)
def is_regular(old: int, new: int) -> bool:
    """Whether an object exists, and no count leaves its range where it changes from ``old`` to ``new``."""
    before, after = np.array([old], np.uint64), np.array([new], np.uint64)
    return bool(is_valid(before)[0] and abs(tx_count(after)[0]) <= MAX_TX and not overdrawn(before, after)[0])


def one_more(word: Array) -> Array:
    """Expect one more arrival in this phase."""
    return word & ~_COUNT | (word & _COUNT) + _ONE & _COUNT


def has_passed(word: Array, state: Array) -> Array:
    """Whether the phase of an earlier word has completed."""
    return (word ^ state) >> PHASE & _ONE != 0


def has_passed_parity(word: Array, parity: Array) -> Array:
    """Whether the phase with a parity has completed."""
    return (word >> PHASE ^ parity.astype(np.uint64)) & _ONE != 0


def overdrawn(old: Array, new: Array) -> Array:
    """Whether an arrival took more than its phase expected, or completed a phase despite ``noComplete``."""
    same = phase(old) == phase(new)
    stuck = (pending(new) == 0) & (tx_count(new) == 0)
    return same & ((pending(new) > pending(old)) | stuck)


def _count_bytes(word: Array, nbytes: Array) -> Array:
    tx = (word >> TX) + _u64(nbytes) & _TX
    return word & ~(_TX << TX) | tx << TX


def _turn(word: Array) -> Array:
    done = (word & _COUNT == 0) & (word >> TX & _TX == 0)
    fresh = word & ~_COUNT | word >> np.uint64(20) & _COUNT
    return np.where(done, fresh ^ (_ONE << PHASE), word)
