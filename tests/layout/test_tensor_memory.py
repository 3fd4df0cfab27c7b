"""Who holds which cell of tensor memory: against the layouts of CUTLASS's copy atoms for sm_100."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from warpsim.layout.tensor_memory import tile

ATOMS = {
    # shape and repetitions: bits of a lane, and the layout of (thread, bit of its registers) to bit
    ("16x64b", 1): (64, ((2, 512), (2, 32), (8, 64)), ((32, 1),)),
    ("16x64b", 2): (128, ((2, 1024), (2, 32), (8, 128)), ((32, 1), (2, 64))),
    ("16x128b", 1): (128, ((4, 32), (8, 128)), ((32, 1), (2, 1024))),
    ("16x128b", 2): (256, ((4, 32), (8, 256)), ((32, 1), (2, 2048), (2, 128))),
    ("16x256b", 1): (256, ((4, 64), (8, 256)), ((64, 1), (2, 2048))),
    ("16x256b", 2): (512, ((4, 64), (8, 512)), ((64, 1), (2, 4096), (2, 256))),
    ("32x32b", 2): (64, ((32, 64),), ((64, 1),)),
}
"""include/cute/atom/copy_traits_sm100.hpp: DstLayout of SM100_TMEM_LOAD_..., in (size, stride), the first fastest."""


def offsets(modes):
    """The offset of each coordinate of a layout, the first mode fastest."""
    ranges = [[step * i for i in range(size)] for size, step in reversed(modes)]
    return np.array([sum(parts) for parts in itertools.product(*ranges)])


@pytest.mark.parametrize(("shape", "num"), ATOMS)
def test_fragments(shape, num):
    """Registers hold the cells that CUTLASS's copy atoms say."""
    width, threads, values = ATOMS[shape, num]
    bits = offsets(values)[::32][:, None] + offsets(threads)

    found = tile(shape, num)

    assert (found.row == bits // width).all()
    assert (found.column == bits % width // 32).all()


def test_halves_of_16x32bx2():
    """The lanes of the second half hold the columns from the offset on (SM100_TMEM_LOAD_16dp32b2x)."""
    bits = offsets(((64, 1),))[::32][:, None] + offsets(((16, 128), (2, 64)))
    found = tile("16x32bx2", 2, split=2)
    column = np.where(np.arange(32) < 16, found.column, found.column + 2)

    assert (found.row % 16 == bits // 128).all()
    assert (column == bits % 128 // 32).all()
