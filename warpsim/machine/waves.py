"""Which CTAs begin next: batches of a launch, and clusters whose launch is cancelled instead."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from warpsim.layout.tensor_memory import COLUMNS, LANES
from warpsim.machine.selection import shape_of
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.launch import BATCH_BYTES, Dims, LaunchState, Rectangle
from warpsim.machine.values import Array

RESIDENT = 4
"""A kernel that cancels launches finds one of so many clusters running; the others are left to cancel."""


TENSOR_BYTES = 2 * 4 * LANES * COLUMNS
"""Tensor memory of a CTA, and which of its bits have been written."""


def next_batch(state: LaunchState, most: int = 1) -> tuple[BatchState, int]:
    """The CTAs that begin next, a rectangle of the grid, and how many waves these are: ``most``, if they make one, and none of
    them is to be seen from near. Some must be left (`all_begun`). Of a wave that has such CTAs, these begin first, by themselves, and
    what is left last, with waves beside it if ``most`` is above one."""
    if state.pieces:
        piece, state.pieces = state.pieces[0], state.pieces[1:]
        if most > 1 and not state.pieces:
            beside, waves = _next_waves(state, most)
            joint = _joint(piece, beside)
            if joint is not None and not len(_near(state, beside)):
                return _batch(state, joint), waves
        return _batch(state, piece), 0
    place, waves = _next_waves(state, most)
    if state.near is not None and len(_near(state, place)):
        place, waves = _next_waves(state, 1)
        if len(numbers := _near(state, place)):
            place, *state.pieces = _pieces(state, place, numbers)
            return _batch(state, place, near=True), waves
    return _batch(state, place), waves


def _next_waves(state: LaunchState, most: int) -> tuple[Rectangle, int]:
    """Where the next CTAs lie in the grid, and how many waves these are."""
    gx, rows = state.grid[0], state.grid[1] * state.grid[2]
    width, height, across, count = wave_of(state)
    last = count if state.last_wave is None else state.last_wave
    wave = state.waves if state.schedule is None else state.schedule.wave(state.waves, count)
    band, place = divmod(wave, across)
    taken = state.cancelled * state.cluster[0]
    row, column = band * height, place * width + taken
    width -= taken
    bands = min(most, last - wave) // across
    waves = across * bands if bands and not place else min(most, last - wave, across - place)
    if bands and not place:
        width, height = gx, height * bands
    else:
        width *= waves
    return (row, column, min(height, rows - row), min(width, gx - column)), waves


def _joint(one: Rectangle, other: Rectangle) -> Rectangle | None:
    """Two parts of the grid as one, if the other begins where the first ends."""
    row, column, height, width = one
    if other == (row, column + width, height, other[3]):
        return row, column, height, width + other[3]
    if other == (row + height, column, other[2], width):
        return row, column, height + other[2], width
    return None


def _batch(state: LaunchState, place: Rectangle, *, near: bool = False) -> BatchState:
    """The CTAs of a part of the grid."""
    row, column, height, width = place
    gx, axes = state.grid[0], (state.block[1] * state.block[2], state.block[0], height, width)
    if state.shape is None or state.shape.extents != axes:
        state.shape = shape_of(*axes)
    shape = state.shape
    numbers = np.arange(column, column + shape.extents[3])
    if row or shape.extents[2] > 1:
        numbers = (np.arange(row, row + shape.extents[2])[:, None] * gx + numbers).reshape(-1)
    batch = BatchState.of(shape, numbers, state.shared_size, state.local_size)
    batch.near = near
    return batch


def _near(state: LaunchState, place: Rectangle) -> Array:
    """Those of the CTAs to be seen from near that lie in a part of the grid."""
    assert state.near is not None
    row, column, height, width = place
    y, x = np.divmod(state.near, state.grid[0])
    return state.near[(row <= y) & (y < row + height) & (column <= x) & (x < column + width)]


def _pieces(state: LaunchState, place: Rectangle, numbers: Array) -> list[Rectangle]:
    """A part of the grid as the rectangle of whole clusters around these CTAs of it, and those that are left."""
    row, column, height, width = place
    cx, cy, cz = state.cluster
    step = state.grid[1] * cz if cz > 1 else cy
    y, x = np.divmod(numbers, state.grid[0])
    top, bottom = int(y.min()) // step * step, (int(y.max()) // step + 1) * step
    left, right = int(x.min()) // cx * cx, (int(x.max()) // cx + 1) * cx
    bottom, right = min(bottom, row + height), min(right, column + width)
    around = [
        (top, left, bottom - top, right - left),
        (row, column, top - row, width),
        (top, column, bottom - top, left - column),
        (top, right, bottom - top, column + width - right),
        (bottom, column, row + height - bottom, width),
    ]
    return [piece for piece in around if piece[2] and piece[3]]


def waves_of(state: LaunchState) -> int:
    """Total number of batches of a launch."""
    return wave_of(state)[3]


def all_begun(state: LaunchState) -> bool:
    """Whether every batch of a launch has begun."""
    return not state.pieces and state.waves >= (wave_of(state)[3] if state.last_wave is None else state.last_wave)


def wave_of(state: LaunchState) -> tuple[int, int, int, int]:
    """CTAs of a batch along x, and along y and z together; batches along x, and in all."""
    found = state.wave
    if found is None:
        settings, tensor = state.settings, TENSOR_BYTES if state.plan.uses.tensor_memory else 0
        sizes = state.shared_size + tensor, state.local_size
        found = state.wave = _waves(
            state.grid, state.block, settings.cluster, sizes, settings.batch_threads, settings.batch_bytes,
            RESIDENT if state.plan.uses.cancels else 1,
        )  # fmt: skip
    return found


def room(state: LaunchState) -> bool:
    """Whether the next batch may begin: while others run, clusters whose launch may be cancelled wait."""
    return not (state.batches and state.plan.uses.cancels)


def cancel(state: LaunchState) -> int:
    """Cancel the launch of the cluster that is next; the number of its first CTA, -1 if all have begun. Clusters of several CTAs
    along z, which do not begin one by one, are not cancelled."""
    cx, cy, cz = state.cluster
    if all_begun(state) or cz > 1:
        return -1
    width, height, across, count = wave_of(state)
    band, place = divmod(state.waves if state.schedule is None else state.schedule.wave(state.waves, count), across)
    row, column = band * height, place * width + state.cancelled * cx
    state.cancelled += 1
    state.done_ctas += cx * cy
    if column + cx >= min((place + 1) * width, state.grid[0]):
        state.waves, state.cancelled = state.waves + 1, 0
    return row * state.grid[0] + column


@lru_cache(maxsize=64)
def _waves(
    grid: Dims,
    block: Dims,
    cluster: Dims | None,
    sizes: tuple[int, int],
    batch_threads: int,
    batch_bytes: int,
    share: int,
) -> tuple[int, int, int, int]:
    """`wave_of`; ``sizes`` are those of shared and tensor memory per CTA and of local memory per thread. With a ``share`` above 1, only that
    part of the grid begins, in one row of clusters."""
    gx, rows = grid[0], grid[1] * grid[2]
    cx, cy, cz = cluster or (1, 1, 1)
    row_step = grid[1] * cz if cz > 1 else cy
    threads = block[0] * block[1] * block[2]
    most = max(batch_threads // threads, 1)
    shared_size, local_size = sizes
    if shared_size:
        most = min(most, max(batch_bytes // shared_size, 1))
    if local_size:
        most = min(most, max(BATCH_BYTES // (local_size * threads), 1))
    if share > 1:
        clusters = gx // cx * (rows // row_step)
        most = min(most, -(-clusters // share) * cx * row_step, gx * row_step)
    width = gx if most >= gx * row_step else max(most // row_step // cx, 1) * cx
    width = min(width, gx)
    height = min(max(most // gx // row_step, 1) * row_step, rows) if width == gx else row_step
    across = -(-gx // width)
    return width, height, across, across * -(-rows // height)
