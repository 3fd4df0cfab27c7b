"""The threads of a batch that a group holds: a rectangle of slices, or a list of lanes; and splitting them by a mask.

A batch is a rectangle of CTAs that run side by side. Its threads have four axes ``[T1, T0, C1, C0]``: T0 is tid.x, T1
tid.y and tid.z combined, C0 ctaid.x, C1 ctaid.y and ctaid.z combined. A thread's flat position is ``t * n_ctas + c``
with ``t = t1 * T0 + t0``: CTAs are innermost, so that one shared memory word of all CTAs is one row.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np

from warpsim.machine.state.word_space import in_a_row
from warpsim.machine.values import FLAT, Affine, Array, Place, Value, as_array, repeated, repeated_along, spread
from warpsim.numerics.arrays import distinct
from warpsim.records import SharedByCopies

Axis = tuple[int, int, int]  # start, step, count
Key = TypeVar("Key")
Content = TypeVar("Content")
KEPT = 16
"""Number of splits along one axis, and of joined rectangles, that a `Shape` caches."""
SMALL = 4096
"""Number of threads up to which a batch's `Shape` is cached."""


class Shape(SharedByCopies):
    """The axes of a batch, and what was derived from them: the next wave and the next launch split in the same ways."""

    def __init__(self, t1: int, t0: int, c1: int, c0: int) -> None:
        self.extents = (t1, t0, c1, c0)
        self.n_threads = t1 * t0
        self.n_ctas = c1 * c0
        self.n = self.n_threads * self.n_ctas
        self.cta_shift = self.n_ctas.bit_length() - 1 if self.n_ctas & (self.n_ctas - 1) == 0 else None
        self.splits: dict[tuple[tuple[Axis, ...], int, bytes], tuple[Selection, Selection]] = {}
        self.joins: dict[tuple[tuple[Axis, ...], ...], Selection] = {}
        self._rects: dict[tuple[Axis, ...], Rect] = {}
        self.specials: dict[tuple[str, tuple[int, int, int]], Value] = {}
        """Special registers that say where a thread lies in its CTA, by the block's dimensions."""

    def __reduce__(self) -> tuple[type[Shape], tuple[int, int, int, int]]:
        return Shape, self.extents

    def rect(self, axes: tuple[Axis, ...]) -> Rect:
        """The threads along these axes, however others have parted or met: what is kept by selection is found again."""
        found = self._rects.get(axes)
        if found is None:
            found = self._rects[axes] = Rect(self, axes)
            forget_oldest(self._rects)
        return found

    @cached_property
    def whole(self) -> Rect:
        """Every thread of the batch."""
        return Rect(self, tuple((0, 1, extent) for extent in self.extents))


@lru_cache(maxsize=64)
def _small_shape(t1: int, t0: int, c1: int, c0: int) -> Shape:
    return Shape(t1, t0, c1, c0)


def shape_of(t1: int, t0: int, c1: int, c0: int) -> Shape:
    """The axes of a batch; small ones are cached, so that the next launch reuses what was derived from them."""
    return _small_shape(t1, t0, c1, c0) if t1 * t0 * c1 * c0 <= SMALL else Shape(t1, t0, c1, c0)


class Selection(SharedByCopies):
    """Common part of `Rect` and `Lanes`: ``n`` threads, arrays of ``shape``."""

    batch_shape: Shape
    n: int
    shape: tuple[int, ...]
    positions: Array
    all_ctas = False
    """Whether each of its threads is here in all CTAs of the batch, as a slice."""

    @cached_property
    def threads(self) -> Array:
        """Each position's thread number in the CTA, in the shape of ``positions``."""
        shift = self.batch_shape.cta_shift
        return self.positions // self.batch_shape.n_ctas if shift is None else self.positions >> shift

    @cached_property
    def ctas(self) -> Array:
        """Each position's CTA number in the batch."""
        n = self.batch_shape.n_ctas
        return self.positions % n if self.batch_shape.cta_shift is None else self.positions & (n - 1)

    @cached_property
    def per_cta(self) -> Array:
        """Number of threads per CTA of the batch, ``[n_ctas]``."""
        return np.bincount(self.ctas.ravel(), minlength=self.batch_shape.n_ctas)

    @cached_property
    def warp_sizes(self) -> Array:
        """Number of lanes per warp of the batch."""
        n_ctas, shift = self.batch_shape.n_ctas, self.batch_shape.cta_shift
        if shift is None:
            warps = (self.threads >> 5) * n_ctas + self.ctas
        else:  # the same in fewer passes
            warps = (self.positions >> shift + 5 << shift) | (self.positions & n_ctas - 1)
        sizes = np.bincount(warps.reshape(-1), minlength=(self.batch_shape.n_threads // 32 + 1) * n_ctas)
        return sizes.astype(np.uint8)

    @cached_property
    def n_warps(self) -> int:
        """Number of warps with a lane here."""
        return int(np.count_nonzero(self.warp_sizes))

    @cached_property
    def warps(self) -> Warps:
        """The arrangement of its lanes in whole warps."""
        return Warps(self)

    @cached_property
    def warpgroup_of(self) -> Array:
        """The warpgroup (times CTAs, plus CTA) of each position, in their shape."""
        found: Array = (self.threads >> 7) * self.batch_shape.n_ctas + self.ctas
        return found

    @cached_property
    def warpgroups(self) -> Array:
        """The numbers of the warpgroups with threads here."""
        return distinct(self.warpgroup_of)

    @cached_property
    def warpgroup_places(self) -> Array | slice:
        """The same as an index: a slice where they follow one another."""
        numbers = self.warpgroups
        first, last = int(numbers[0]), int(numbers[-1])
        return slice(first, last + 1) if last - first + 1 == len(numbers) else numbers

    @cached_property
    def warpgroup_sizes(self) -> Array:
        """Number of threads per warpgroup of the batch."""
        shape = self.batch_shape
        return np.bincount(self.warpgroup_of.reshape(-1), minlength=-(-shape.n_threads // 128) * shape.n_ctas)

    @cached_property
    def whole_warpgroups(self) -> bool:
        """Whether each has all of its 128 threads here."""
        return bool((self.warpgroup_sizes[self.warpgroups] == 128).all())

    @cached_property
    def first_warp(self) -> tuple[int, int]:
        """The warp of the first thread: the column of its CTA in the batch, and its number there."""
        return int(self.ctas.flat[0]), int(self.threads.flat[0]) >> 5

    @cached_property
    def listed(self) -> tuple[Array, Array, Array]:
        """The threads in the order CTA, warp, lane: where each stands in arrays of its shape, its CTA, and its position."""
        index = self.in_order(np.arange(self.n).reshape(self.shape))
        return index, self.in_order(self.ctas), self.in_order(self.positions)

    def in_order(self, array: Array) -> Array:
        """An array of its shape as a list in the order CTA, warp, lane."""
        raise NotImplementedError

    def from_order(self, flat: Array) -> Array:
        """Such a list as an array of its shape."""
        raise NotImplementedError

    def disjoint(self, other: Selection) -> bool:
        """Whether it is seen from the axes that no thread is in both."""
        return False

    def fetch(self, value: Value) -> Value:
        """The part of a batch-wide value that belongs to these threads."""
        raise NotImplementedError

    def write(self, target: Array, value: Array) -> None:
        """Put these threads' values into a full batch-wide array."""
        raise NotImplementedError


class Rect(Selection):
    """Slices of the four axes."""

    def __init__(self, batch: Shape, axes: tuple[Axis, ...]) -> None:
        self.batch_shape = batch
        self.axes = axes
        self.shape = tuple([count for _, _, count in axes])
        self.n = math.prod(self.shape)
        self.is_whole = self.n == batch.n
        self.slices = tuple([slice(a, a + s * n, s) for a, s, n in axes])
        self.all_ctas = self.shape[2] * self.shape[3] == batch.n_ctas
        self.all_threads = self.shape[0] * self.shape[1] == batch.n_threads

    def __reduce__(self) -> tuple[type[Rect], tuple[Shape, tuple[Axis, ...]]]:
        return Rect, (self.batch_shape, self.axes)

    @cached_property
    def positions(self) -> Array:  # type: ignore[override]
        """Flat positions, in the group's shape."""
        t1, t0, c1, c0 = [np.arange(a, a + s * n, s, dtype=np.int64)[:n] for a, s, n in self.axes]
        _, n0, _, m0 = self.batch_shape.extents
        t = t1[:, None] * n0 + t0
        c = c1[:, None] * m0 + c0
        return t[:, :, None, None] * self.batch_shape.n_ctas + c[None, None]

    @cached_property
    def columns(self) -> Array:
        """CTA numbers, ``[1, 1, C1, C0]``."""
        c1, c0 = [a + s * np.arange(n, dtype=np.int64) for a, s, n in self.axes[2:]]
        return (c1[:, None] * self.batch_shape.extents[3] + c0)[None, None]

    @cached_property
    def run(self) -> slice | Array:
        """CTA numbers in a row, a slice where they follow one another."""
        return in_a_row(self.columns.reshape(-1))

    @cached_property
    def n_warps(self) -> int:
        """Number of warps with a lane here."""
        if self.all_threads:
            return -(-self.batch_shape.n_threads // 32) * self.shape[2] * self.shape[3]
        (a1, s1, n1), (a0, s0, n0) = self.axes[:2]
        rows = (a1 + s1 * np.arange(n1)) * self.batch_shape.extents[1]
        warps = (rows[:, None] + (a0 + s0 * np.arange(n0))) >> 5
        present = np.zeros(self.batch_shape.n_threads // 32 + 1, np.bool_)
        present[warps] = True
        return int(np.count_nonzero(present)) * self.shape[2] * self.shape[3]

    @cached_property
    def warp_range(self) -> bool:
        """Whether the threads are consecutive whole warps."""
        if self.all_threads:
            return True
        (a1, s1, n1), (a0, s0, n0) = self.axes[:2]
        full0 = self.batch_shape.extents[1]
        if n0 == full0 and (s1 == 1 or n1 == 1):
            first, count = a1 * full0, n1 * full0
        elif n1 == 1 and (s0 == 1 or n0 == 1):
            first, count = a1 * full0 + a0, n0
        else:
            return False
        last = first + count
        return first % 32 == 0 and (last % 32 == 0 or last == self.batch_shape.n_threads)

    def disjoint(self, other: Selection) -> bool:
        """Whether it is seen from the axes that no thread is in both."""
        return isinstance(other, Rect) and _apart(self.axes, other.axes)

    def in_order(self, array: Array) -> Array:
        """An array of its shape as a list in the order CTA, warp, lane."""
        return array.transpose(2, 3, 0, 1).reshape(-1)

    def from_order(self, flat: Array) -> Array:
        """Such a list as an array of its shape."""
        n1, n0, m1, m0 = self.shape
        return flat.reshape(m1, m0, n1, n0).transpose(2, 3, 0, 1)

    def fetch(self, value: Value) -> Value:
        """The slices of a batch-wide value, copied so that later stores to the batch do not change it."""
        if self.is_whole:
            return value
        if type(value) is Affine:
            if value.strides == FLAT:
                return value
            base, strides = value.base, []
            for stride, (start, step, count) in zip(value.strides, self.axes, strict=True):
                base += stride * start
                strides.append(stride * step if count > 1 else 0)
            return value._make(base, tuple(strides), self.shape)
        if value.size == 1:
            return value
        index = tuple([s if extent > 1 else slice(None) for s, extent in zip(self.slices, value.shape, strict=True)])
        return value[index].copy()

    def write(self, target: Array, value: Array) -> None:
        """Put these threads' values into a full array of the batch."""
        target[self.slices] = value


@lru_cache(maxsize=1024)
def _apart(axes: tuple[Axis, ...], others: tuple[Axis, ...]) -> bool:
    return any(a + s * (n - 1) < b or b + t * (m - 1) < a for (a, s, n), (b, t, m) in zip(axes, others, strict=True))


class Lanes(Selection):
    """Any set of threads, by ascending flat position."""

    def __init__(self, batch: Shape, positions: Array) -> None:
        self.batch_shape = batch
        self.positions = positions
        self.n = len(positions)
        self.shape = (self.n,)

    def __reduce__(self) -> tuple[type[Lanes], tuple[Shape, Array]]:
        return Lanes, (self.batch_shape, self.positions)

    @cached_property
    def _indices(self) -> tuple[Array, Array, Array, Array]:
        _, n0, _, m0 = self.batch_shape.extents
        return self.threads // n0, self.threads % n0, self.ctas // m0, self.ctas % m0

    @cached_property
    def _order(self) -> Array | None:
        """Where each stands that comes next in the order CTA, warp, lane; None where they stand in that order."""
        if self.batch_shape.n_ctas == 1:
            return None
        small = self.batch_shape.n_ctas <= 1 << 16  # NumPy sorts 16 bits in one pass
        return np.argsort(self.ctas.astype(np.uint16) if small else self.ctas, kind="stable")

    def in_order(self, array: Array) -> Array:
        """An array of its shape as a list in the order CTA, warp, lane."""
        return array if self._order is None else array.take(self._order)

    def from_order(self, flat: Array) -> Array:
        """Such a list as an array of its shape."""
        if self._order is None:
            return flat
        out = np.empty_like(flat)
        out[self._order] = flat
        return out

    def fetch(self, value: Value) -> Value:
        """These lanes' values, one-dimensional; uniform values are unchanged."""
        if type(value) is Affine:
            if value.strides == FLAT:
                return value
            value = value.array()
        if value.size == 1:
            return value.reshape(1)
        if value.size == self.batch_shape.n:
            return value.reshape(-1).take(self.positions)
        flat: Place = 0
        for extent, index in zip(value.shape, self._indices, strict=True):
            if extent > 1:
                flat = flat * extent + index
        return value.reshape(-1).take(flat)

    def write(self, target: Array, value: Array) -> None:
        """Put these lanes' values into a full array of the batch."""
        target.reshape(-1)[self.positions] = value.reshape(-1)


def index_of(rows: Array, places: Array | slice) -> tuple[Array | slice, ...]:
    """The index of some rows of some warpgroups (`Selection.warpgroup_places`), as `np.ix_`, which takes its time."""
    return (rows, places) if type(places) is slice else np.ix_(rows, places)


class Warps:
    """The view ``[n, 32, m]`` of a group: ``n`` warps, 32 lanes, ``m`` CTAs side by side (``m`` is 1 for lanes).

    ``active`` is a mask of the lanes present, ``first_thread`` ``[n]`` the first thread of each warp, ``ctas`` ``[n or 1, m]``
    their CTAs. ``dense``: every warp has all its 32 lanes, or all that the block has.
    """

    def __init__(self, selection: Selection) -> None:
        shape = selection.batch_shape
        self.selection = selection
        self.dense = isinstance(selection, Rect) and selection.warp_range
        if self.dense:
            assert isinstance(selection, Rect)
            n1, n0, m1, m0 = selection.shape
            self.n_lanes = n1 * n0
            self.n, self.m = -(-self.n_lanes // 32), m1 * m0
            self.padded = self.n * 32 != self.n_lanes
            self.active = np.ones((self.n, 32, self.m), np.bool_)
            if self.padded:
                self.active.reshape(-1, self.m)[self.n_lanes :] = False
            (a1, s1, n1), (a0, s0, n0) = selection.axes[:2]
            threads = (a1 + s1 * np.arange(n1))[:, None] * shape.extents[1] + (a0 + s0 * np.arange(n0))
            self.first_thread = threads.reshape(-1)[::32]
            self.ctas = selection.columns.reshape(1, -1)
            return
        positions = selection.positions.reshape(-1)
        threads, ctas = positions // shape.n_ctas, positions % shape.n_ctas
        keys = ctas * (shape.n_threads + 31) + (threads >> 5)
        unique, inverse = np.unique(keys, return_inverse=True)
        self.n, self.m = len(unique), 1
        self.slots = inverse.reshape(-1) * 32 + (threads & 31)
        active = np.zeros(self.n * 32, np.bool_)
        active[self.slots] = True
        self.active = active.reshape(self.n, 32, 1)
        self.first_thread = (unique % (shape.n_threads + 31)) * 32
        self.ctas = (unique // (shape.n_threads + 31)).reshape(-1, 1)

    @cached_property
    def warpgroups(self) -> list[int]:
        """The number of each warpgroup in its CTA."""
        found: list[int] = (self.first_thread[: self.n // 4 * 4 : 4] >> 7).tolist()
        return found

    @cached_property
    def columns(self) -> Array:
        """The CTA of each warpgroup, ``[n or 1, m]``."""
        return self.ctas if self.dense else np.ascontiguousarray(self.ctas[::4])

    @cached_property
    def owners(self) -> Array:
        """The CTA of each warpgroup, ``[n, m]``, side by side in memory."""
        return np.ascontiguousarray(spread(self.columns, (self.n // 4, self.m)))

    def spread(self, value: Value) -> Array:
        """A register's value as ``[n, 32, m]``; axes that it does not depend on may be 1."""
        array = as_array(value)
        full: Array
        out: Array
        if array.size == 1:
            return repeated(array, 32)
        if not self.dense:
            out = np.zeros(self.n * 32, array.dtype)
            out[self.slots] = spread(array, self.selection.shape).reshape(-1)
            return out.reshape(self.n, 32, 1)
        if array.shape == self.selection.shape and not self.padded:
            whole: Array = array.reshape(self.n, 32, self.m)
            return whole
        n1, n0, m1, m0 = self.selection.shape
        a1, a0, b1, b0 = array.shape
        if b1 == b0 == 1:
            m1 = m0 = 1
        if a1 == a0 == 1:
            full = spread(array, (1, 1, m1, m0)).reshape(1, 1, m1 * m0)
            return spread(full, (1, 32, m1 * m0))
        full = spread(array, (n1, n0, m1, m0)).reshape(n1 * n0, m1 * m0)
        if self.padded:
            out = np.zeros((self.n * 32, m1 * m0), array.dtype)
            out[: self.n_lanes] = full
            full = out
        return full.reshape(self.n, 32, m1 * m0)

    def collect(self, array: Array) -> Array:
        """Convert from ``[n, 32, m]`` to the group's shape."""
        if array.shape[0] == array.shape[2] == 1 and array.strides[1] == 0:
            return array[:, :1, :].reshape((1,) * len(self.selection.shape))
        if not self.dense:
            return spread(array, (self.n, 32, 1)).reshape(-1).take(self.slots).reshape(self.selection.shape)
        if array.shape == (self.n, 32, self.m) and not self.padded:
            return array.reshape(self.selection.shape)
        n1, n0, m1, m0 = self.selection.shape
        if array.shape[2] == 1:
            m1 = m0 = 1
        full = repeated_along(array, (self.n, 32, m1 * m0)).reshape(self.n * 32, m1 * m0)
        return (full[: self.n_lanes] if self.padded else full).reshape(n1, n0, m1, m0)


def from_positions(batch: Shape, positions: Array) -> Selection:
    """The simplest selection of ascending positions: the whole batch, a rectangle, or lanes."""
    if len(positions) == batch.n:
        return batch.whole
    parts = _product(positions, batch.n_ctas)
    if parts is not None:
        _, width, _, across = batch.extents
        threads, ctas = _product(parts[0], width), _product(parts[1], across)
        if threads is not None and ctas is not None:
            axes = [_run(where) for where in (*threads, *ctas)]
            if None not in axes:
                return batch.rect(tuple([axis for axis in axes if axis is not None]))
    return Lanes(batch, positions)


def _product(numbers: Array, width: int) -> tuple[Array, Array] | None:
    """Rows and columns, ascending, of which ``row * width + column`` are all of these ascending numbers; None if there are none."""
    row = int(numbers[0]) // width
    count = int(numbers.searchsorted((row + 1) * width))
    if len(numbers) % count:
        return None
    grid = numbers.reshape(-1, count)
    columns, starts = grid[0] - row * width, grid[:, 0] - grid[0, 0]
    if int(grid[-1, -1]) - int(starts[-1]) != int(grid[0, -1]) or (starts % width).any():
        return None
    if not (grid == grid[0] + starts[:, None]).all():
        return None
    return row + starts // width, columns


def union(selections: list[Selection]) -> Selection:
    """All threads of disjoint selections."""
    batch = selections[0].batch_shape
    if sum(s.n for s in selections) == batch.n:
        return batch.whole
    axes = [s.axes for s in selections if type(s) is Rect]
    if len(axes) < len(selections):
        return _sorted(selections)
    key = tuple(axes)
    found = batch.joins.get(key)
    if found is None:
        found = batch.joins[key] = _sorted(selections)
        forget_oldest(batch.joins)
    return found


def _sorted(selections: list[Selection]) -> Selection:
    positions = np.concatenate([s.positions.reshape(-1) for s in selections])
    positions.sort()
    return from_positions(selections[0].batch_shape, positions)


def forget_oldest(cached: dict[Key, Content]) -> None:
    """Keep a bounded number of the selections that were derived from a `Shape`."""
    if len(cached) > KEPT:
        oldest, *_ = list(cached)  # a copy at once: threads share the caches of small shapes
        cached.pop(oldest, None)


def _run(where: Array) -> Axis | None:
    """Ascending indices as a single arithmetic run, or None."""
    n = len(where)
    start = int(where[0])
    if n == 1:
        return start, 1, 1
    step = int(where[1]) - start
    if int(where[-1]) - start == step * (n - 1) and (n == 2 or bool((np.diff(where) == step).all())):
        return start, step, n
    return None


def split(selection: Selection, mask: Array) -> tuple[Selection, Selection]:
    """The threads where ``mask`` (broadcast over the group) is true, and the others; both are non-empty."""
    if isinstance(selection, Rect) and mask.ndim == 4:
        mask = _along_one_axis(mask)
        varying = [axis for axis in range(4) if mask.shape[axis] > 1]
        if len(varying) == 1:
            return _split_along(selection, varying[0], mask)
    return _masked(selection, mask, negate=False), _masked(selection, mask, negate=True)


def _split_along(rect: Rect, axis: int, mask: Array) -> tuple[Selection, Selection]:
    """The same for a mask that varies along one axis; the batch's `Shape` caches the parts."""
    splits, flags = rect.batch_shape.splits, mask.reshape(-1)
    key = rect.axes, axis, flags.tobytes()
    found = splits.get(key)
    if found is None:
        found = splits[key] = _part(rect, axis, flags), _part(rect, axis, ~flags)
        forget_oldest(splits)
    return found


def _along_one_axis(mask: Array) -> Array:
    """The mask on the single axis along which it varies; unchanged if there are several."""
    for axis in range(4):
        line = mask[tuple([slice(None) if a == axis else slice(0, 1) for a in range(4)])]
        if line.shape != mask.shape and line.size > 1 and bool((mask == line).all()):
            return line
    return mask


def _part(rect: Rect, axis: int, flags: Array) -> Selection:
    """The threads whose indices along one axis are flagged."""
    where = np.flatnonzero(flags)
    run = _run(where)
    if run is not None:
        return _sliced(rect, axis, run)
    return Lanes(rect.batch_shape, rect.positions.take(where, axis).reshape(-1))  # by rows, not lane by lane


def _sliced(rect: Rect, axis: int, run: Axis) -> Rect:
    start, step, count = run
    first, stride, _ = rect.axes[axis]
    axes = list(rect.axes)
    axes[axis] = (first + start * stride, stride * step, count)
    return rect.batch_shape.rect(tuple(axes))


def _masked(selection: Selection, mask: Array, *, negate: bool) -> Selection:
    flags = spread(mask, selection.shape)
    chosen = selection.positions[~flags if negate else flags]
    return from_positions(selection.batch_shape, chosen)
