"""Abstract values: what is known about a register in every thread of a block before anything runs.

A value is known exactly, as an array over the threads of one CTA (or of size 1), or only modulo a power of two; an
unknown value still tracks how uniform it is. Shared variables have the addresses that the machine gives them.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.program.program import Function

Array = NDArray[Any]
U64 = np.dtype(np.uint64)
WARP, WARPGROUP, MOST = 32, 128, 1024
ZERO = np.zeros(1, U64)


class Spread(enum.IntEnum):
    """The threads over which a value is the same."""

    KNOWN = 0
    CTA = 1
    WARPGROUP = 2
    WARP = 3
    THREAD = 4


@attrs.frozen(eq=False, slots=False)
class Value:
    """A value: ``bits``, as 64-bit words, exact (``unknown`` is ``KNOWN``) or modulo ``2**zeros``. ``symbols`` are the
    variables whose addresses it was computed from.
    """

    bits: Array
    unknown: Spread = Spread.KNOWN
    zeros: int = 64
    symbols: frozenset[str] = frozenset()

    @property
    def exact(self) -> bool:
        """Whether every bit is known."""
        return self.unknown is Spread.KNOWN

    @functools.cached_property
    def spread(self) -> Spread:
        """The threads over which the value is the same, known or not."""
        return max(self.unknown, spread_of(self.bits))

    @property
    def constant(self) -> int | None:
        """The value, if it is known and the same everywhere."""
        return int(self.bits[0]) if self.exact and spread_of(self.bits) <= Spread.CTA else None

    def same(self, other: Value) -> bool:
        """Whether the same is known of two values."""
        return self is other or (
            self.unknown is other.unknown
            and self.zeros == other.zeros
            and self.symbols == other.symbols
            and (self.bits is other.bits or np.array_equal(self.bits, other.bits))
        )

    def equals(self, other: Value) -> bool:
        """Whether two values are surely equal: of unknown ones the same may be known, and yet they differ."""
        return self is other or (self.exact and self.same(other))


def spread_of(bits: Array) -> Spread:
    """The threads over which an array is the same."""
    if len(bits) == 1:
        return Spread.KNOWN
    for size, found in ((len(bits), Spread.CTA), (WARPGROUP, Spread.WARPGROUP), (WARP, Spread.WARP)):
        rows = bits.reshape(-1, size)
        if (rows == rows[:, :1]).all():
            return found
    return Spread.THREAD


def exactly(bits: Array, symbols: frozenset[str] = frozenset()) -> Value:
    """A known value."""
    return Value(bits, Spread.KNOWN, 64, symbols)


def congruent(bits: Array, zeros: int, unknown: Spread, symbols: frozenset[str] = frozenset()) -> Value:
    """A value known modulo ``2**zeros``."""
    if zeros <= 0:
        return Value(ZERO, max(unknown, Spread.CTA), 0, symbols)
    zeros = min(zeros, 63)
    return Value(bits & np.uint64((1 << zeros) - 1), max(unknown, Spread.CTA), zeros, symbols)


def anything(spread: Spread = Spread.THREAD, symbols: frozenset[str] = frozenset()) -> Value:
    """An unknown value with a given uniformity."""
    return congruent(ZERO, 0, spread, symbols)


ANYTHING = anything()


def trailing_zeros(bits: Array) -> int:
    """Number of low bits that are zero in every element; 64 for zeros."""
    together = int(np.bitwise_or.reduce(bits))
    return (together & -together).bit_length() - 1 if together else 64


def joined(a: Value, b: Value, at_least: Spread) -> Value:
    """The merge of two values; ``at_least`` says over which threads the choice between them is the same."""
    if a.equals(b):
        return a
    zeros = min(a.zeros, b.zeros, trailing_zeros(a.bits ^ b.bits))
    return congruent(a.bits, zeros, max(a.spread, b.spread, at_least), a.symbols | b.symbols)


class Threads:
    """The threads of one CTA as far as they are known: their number, rounded up to warpgroups, which exist, and their
    indices.

    Without ``.reqntid``, a kernel that reads neither ``%tid.y`` nor ``%tid.z`` is assumed to have rows of whole warps;
    for other kernels, and for functions, only lane numbers are known. ``sure`` is a mask of threads that exist in every
    launch: all of a declared block, or the first warp.
    """

    def __init__(self, function: Function) -> None:
        self.sizes = _sizes(function.directives.get("reqntid"))
        most = _sizes(function.directives.get("maxntid"))
        names = {o.special for i in function.code for o in i.operands}
        flat = function.entry and not any(n.startswith(("tid.", "ntid.")) and n[-1] in "yz" for n in names)
        if self.sizes is not None:
            alive = self.sizes[0] * self.sizes[1] * self.sizes[2]
        elif flat:
            alive = most[0] * most[1] * most[2] if most is not None else MOST
        else:
            alive = WARPGROUP
        alive = max(min(alive, MOST), 1)
        self.count = -(-alive // WARPGROUP) * WARPGROUP
        self.thread = np.minimum(np.arange(self.count), alive - 1).astype(U64)
        self.alive = np.arange(self.count) < alive
        self.sure = self.alive & (self.thread < WARP) if self.sizes is None else self.alive
        self.indexed = self.sizes is not None or flat

    def special(self, name: str) -> Value:
        """The value of a special register."""
        root, _, component = name.partition(".")
        axis = "xyzw".find(component)
        lane = self.thread % np.uint64(WARP)
        if root == "laneid":
            return exactly(lane)
        if root == "tid" and self.indexed:
            x, y, z = self.sizes or (self.count, 1, 1)
            table = [self.thread % np.uint64(x), self.thread // np.uint64(x) % np.uint64(y)]
            table += [self.thread // np.uint64(x * y) % np.uint64(z), ZERO]
            return exactly(table[axis])
        if root == "tid":
            return ANYTHING
        if root == "ntid" and self.sizes is not None:
            return exactly(np.array([(*self.sizes, 1)[axis]], U64))
        if root.startswith("lanemask_"):
            return exactly(_lanemask(root[9:], lane))
        return anything(Spread.WARP if root in ("warpid", "smid") or "clock" in root or "timer" in root else Spread.CTA)


def _sizes(words: tuple[int | str, ...] | None) -> tuple[int, int, int] | None:
    if not words or not all(isinstance(w, int) and w > 0 for w in words):
        return None
    x, y, z = (*(int(w) for w in words), 1, 1)[:3]
    return x, y, z


def _lanemask(kind: str, lane: Array) -> Array:
    bit = np.uint64(1) << lane
    below, full = bit - np.uint64(1), np.uint64(0xFFFFFFFF)
    table = {"eq": bit, "lt": below, "le": below | bit, "gt": full ^ (below | bit), "ge": full ^ below}
    return table[kind]


def mixed(flags: Array, among: Array, size: int) -> Array:
    """A mask of the threads in groups of ``size`` in which ``flags`` is true for some and false for others of
    ``among``.
    """
    rows, there = (np.broadcast_to(a, among.shape).reshape(-1, size) for a in (flags, among))
    both = (rows & there).any(axis=1) & (~rows & there).any(axis=1)
    return np.repeat(both, size)
