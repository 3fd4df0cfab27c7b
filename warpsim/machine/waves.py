"""Waves: the CTAs of a grid in the order in which they begin, as many at a time as are simulated side by side."""

from __future__ import annotations

import numpy as np

from warpsim.machine.selection import shape_of
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.launch import BATCH_BYTES, LaunchState


def next_batch(state: LaunchState, most: int = 1) -> tuple[BatchState, int] | None:
    """The CTAs that begin next, a rectangle of the grid, and how many waves these are: ``most``, if they make one."""
    gx, rows = state.grid[0], state.grid[1] * state.grid[2]
    width, height = _wave(state)
    across = -(-gx // width)
    count = across * -(-rows // height)
    last = count if state.last_wave is None else state.last_wave
    if state.waves >= last:
        return None
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
    width, height = _wave(state)
    return -(-state.grid[0] // width) * -(-state.grid[1] * state.grid[2] // height)


def _wave(state: LaunchState) -> tuple[int, int]:
    """CTAs of a batch along x, and along y and z together."""
    gx, rows = state.grid[0], state.grid[1] * state.grid[2]
    cx, cy, cz = state.cluster
    row_step = state.grid[1] * cz if cz > 1 else cy
    threads = state.block[0] * state.block[1] * state.block[2]
    most = max(state.settings.batch_threads // threads, 1)
    if state.shared_size:
        most = min(most, max(state.settings.batch_bytes // state.shared_size, 1))
    if state.local_size:
        most = min(most, max(BATCH_BYTES // (state.local_size * threads), 1))
    width = gx if most >= gx * row_step else max(most // row_step // cx, 1) * cx
    width = min(width, gx)
    return width, min(max(most // gx // row_step, 1) * row_step, rows) if width == gx else row_step
