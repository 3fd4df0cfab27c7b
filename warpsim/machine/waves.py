"""Waves: the CTAs of a grid in the order in which they begin, as many at a time as are simulated side by side."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from warpsim.machine.selection import shape_of
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.launch import BATCH_BYTES, Dims, LaunchState


def next_batch(state: LaunchState, most: int = 1) -> tuple[BatchState, int]:
    """The CTAs that begin next, a rectangle of the grid, and how many waves these are: ``most``, if they make one. Some must be
    left (`all_begun`)."""
    gx, rows = state.grid[0], state.grid[1] * state.grid[2]
    width, height, across, count = _wave(state)
    last = count if state.last_wave is None else state.last_wave
    wave = state.waves if state.schedule is None else state.schedule.wave(state.waves, count)
    band, place = divmod(wave, across)
    waves = 1 if most == 1 else min(most, last - wave, last if across == 1 else across - place)
    row, column = band * height, place * width
    if across == 1:
        height *= waves
    else:
        width *= waves
    axes = state.block[1] * state.block[2], state.block[0], min(height, rows - row), min(width, gx - column)
    if state.shape is None or state.shape.extents != axes:
        state.shape = shape_of(*axes)
    shape = state.shape
    numbers = np.arange(column, column + shape.extents[3])
    if row or shape.extents[2] > 1:
        numbers = (np.arange(row, row + shape.extents[2])[:, None] * gx + numbers).reshape(-1)
    return BatchState.of(shape, numbers, state.shared_size, state.local_size), waves


def waves_of(state: LaunchState) -> int:
    """Total number of batches of a launch."""
    return _wave(state)[3]


def all_begun(state: LaunchState) -> bool:
    """Whether every batch of a launch has begun."""
    return state.waves >= (_wave(state)[3] if state.last_wave is None else state.last_wave)


def _wave(state: LaunchState) -> tuple[int, int, int, int]:
    """CTAs of a batch along x, and along y and z together; batches along x, and in all."""
    found = state.wave
    if found is None:
        settings, sizes = state.settings, (state.shared_size, state.local_size)
        found = state.wave = _waves(
            state.grid, state.block, settings.cluster, sizes, settings.batch_threads, settings.batch_bytes
        )
    return found


@lru_cache(maxsize=64)
def _waves(
    grid: Dims, block: Dims, cluster: Dims | None, sizes: tuple[int, int], batch_threads: int, batch_bytes: int
) -> tuple[int, int, int, int]:
    """`_wave`; ``sizes`` are those of shared memory per CTA and of local memory per thread."""
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
    width = gx if most >= gx * row_step else max(most // row_step // cx, 1) * cx
    width = min(width, gx)
    height = min(max(most // gx // row_step, 1) * row_step, rows) if width == gx else row_step
    across = -(-gx // width)
    return width, height, across, across * -(-rows // height)
