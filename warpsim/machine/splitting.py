"""Splitting a group's threads in two by a mask: into slices where the mask varies along one axis, else into lanes."""

from __future__ import annotations

import numpy as np

from warpsim.machine.selection import Axis, Lanes, Rect, Selection, forget_oldest
from warpsim.machine.values import Array


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
    return Rect(rect.batch_shape, tuple(axes))


def _masked(selection: Selection, mask: Array, *, negate: bool) -> Selection:
    flags = np.broadcast_to(mask, selection.shape)
    chosen = selection.positions[~flags if negate else flags]
    return Lanes(selection.batch_shape, chosen)
