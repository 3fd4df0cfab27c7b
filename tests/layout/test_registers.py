"""Gather and scatter by fragments: against tables of places, and there and back."""

import numpy as np
import pytest

from warpsim.layout import fragments, wmma_fragments
from warpsim.layout.fragment import gather, scatter

FRAGMENTS = {
    "f16 A": fragments.multiplicand(16, 16, 16),
    "tf32 B": fragments.multiplicand(8, 8, 32),
    "s8 A": fragments.multiplicand(16, 32, 8),
    "s4 A": fragments.multiplicand(16, 64, 4),
    "C": fragments.accumulator(16, 8, 32),
    "packed C": fragments.accumulator(16, 8, 16),
    "wgmma D": fragments.accumulator(64, 24, 32),
    "m8n8k4 C": fragments.quad_pair("c", 32, by_rows=False),
    "wmma f16 A": wmma_fragments.multiplicand("a", "m16n16k16", "f16"),
    "wmma f16 A of a V100": wmma_fragments.multiplicand("a", "m16n16k16", "f16", 70, along_k=False),
}


@pytest.mark.parametrize("name", FRAGMENTS)
@pytest.mark.parametrize("row_major", [False, True])
def test_gather_follows_the_table(name, row_major):
    """The matrix holds, at the place of each value of each thread, that thread's bits."""
    fragment, n, m = FRAGMENTS[name], 2, 3
    bits = np.random.default_rng(1).integers(0, 1 << min(fragment.bits, 32), (n, m, fragment.rows, fragment.columns))
    rows, columns = fragment.table()
    held = bits[:, :, rows, columns].transpose(0, 2, 1, 3).astype(np.uint64)  # [n, threads, m, values]
    per = fragment.per_register
    words = tuple(
        sum(held[..., first + h] << np.uint64(fragment.bits * h) for h in range(per)).astype(np.uint32)
        for first in range(0, fragment.values, per)
    )
    expected = bits.transpose(*((2, 3) if row_major else (3, 2)), 0, 1)
    found = gather(fragment, words, n, m, row_major=row_major)
    np.testing.assert_array_equal(expected.reshape(found.shape), found)
    back = scatter(fragment, found, n, m, row_major=row_major)
    for word, again in zip(words, back, strict=True):
        np.testing.assert_array_equal(word, again)


def test_registers_that_all_warps_share():
    """Registers of extent 1 stand for every warp and CTA."""
    fragment = fragments.accumulator(16, 8, 32)
    one = tuple(np.arange(32, dtype=np.float32).reshape(1, 32, 1) + 100 * r for r in range(4))
    many = tuple(np.broadcast_to(r, (3, 32, 2)) for r in one)
    np.testing.assert_array_equal(gather(fragment, many, 3, 2), gather(fragment, one, 3, 2))


@pytest.mark.parametrize("n", [8, 24])
def test_wgmma_accumulators_move_as_described(n):
    """The stacked transposes of wgmma's accumulators agree with the description of the fragment."""
    warpgroups, ctas = 2, 3
    for bits, count in ((32, n // 2), (16, n // 4)):
        fragment = fragments.accumulator(64, n, bits)
        stack = np.random.default_rng(0).integers(0, 1 << 32, (count, warpgroups, 128, ctas), np.uint32)
        dtype = np.float16 if bits == 16 else None
        plain = gather(fragment, tuple(stack), warpgroups, ctas, dtype, row_major=True)
        move = fragments.gather_packed if bits == 16 else fragments.gather_accumulator
        back = fragments.scatter_packed if bits == 16 else fragments.scatter_accumulator
        found = move(stack)
        unsigned = f"u{found.dtype.itemsize}"
        np.testing.assert_array_equal(plain.transpose(2, 0, 1).view(unsigned), found.view(unsigned))
        np.testing.assert_array_equal(stack, back(found, warpgroups, ctas))


def test_layouts_that_leave_elements_out():
    """A matrix cannot be made of a fragment that does not hold every element equally often."""
    fragment = fragments.fragment(4, 4, 32, fragments.layout_of((4, 1)), fragments.layout_of((2, 2)))
    with pytest.raises(ValueError, match="does not hold every element once"):
        gather(fragment, (np.zeros((1, 4, 1), np.uint32),) * 2, 1, 1)
