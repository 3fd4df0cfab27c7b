"""More correct ways to synchronise, as nvcc compiles them (data/idioms.cu): no finding, right values, early and late effects."""

from pathlib import Path

import numpy as np
import pytest

import warpsim

INTS = np.random.default_rng(1).integers(0, 100, 1 << 14).astype(np.int32)


def zeros(n):
    """A fresh output."""
    return np.zeros(n, np.int32)


def counters(n):
    """Fresh unsigned words."""
    return np.zeros(n, np.uint32)


def reversed_sums(n, width):
    """Sums over n rounds of buffers of ``width``, read backwards."""
    return INTS[: n * width].reshape(n, width)[:, ::-1].sum(0)


def rotated(rounds):
    """grid_sense: every round an element becomes the one 64 places on, plus one."""
    return np.roll(INTS[:256], -64 * rounds) + rounds


def summed(rounds):
    """grid_volatile: round r adds r to each element; sums of the elements 64 places on."""
    steps = [INTS[:256] + r * (r + 1) // 2 for r in range(1, rounds + 1)]
    return np.r_[sum(np.roll(s, -64) for s in steps), np.concatenate(steps)]


def shifted(values, rounds):
    """cluster_shift: the element across in the next CTA of the cluster, plus twice the own one."""
    values = values.reshape(-1, 4, 64)
    for _ in range(rounds):
        values = np.roll(values, -1, 1)[:, :, ::-1] + values * 2
    return values.reshape(-1)


LANES = np.arange(32)
FLAGS = np.tile(LANES * 3 + (31 - LANES) * 3 + 1, 3)
CASES = {
    "grid_sense": (4, 64, lambda: (INTS[:256].copy(), counters(2), 3), 0, rotated(3)),
    "grid_volatile": (4, 64, lambda: (np.r_[INTS[:256], zeros(768)], counters(4), counters(4), 3), 0, summed(3)),
    "ticket": (6, 32, lambda: (counters(2), zeros(2), 3), 1, [18, 45]),
    "pingpong": (3, 64, lambda: (INTS, zeros(96), 5), 1, np.tile(reversed_sums(5, 32), 3)),
    "block_flags": (3, 96, lambda: (zeros(96),), 0, FLAGS),
    "cluster_shift": (8, 64, lambda: (INTS, zeros(512), 3), 1, shifted(INTS[:512], 3)),
    "cluster_mail": (2, 64, lambda: (INTS, zeros(128), 3), 1, INTS[127::-1] * 6),
    "bulk_ring": (3, 256, lambda: (INTS, zeros(3840), 5), 1, INTS[:3840] + 1),
    "pipeline_roles": (1, 256, lambda: (INTS, zeros(128), 9), 1, reversed_sums(9, 128)),
    "pipeline_thread": (1, 256, lambda: (INTS, zeros(256), 6), 1, reversed_sums(6, 256)),
    "bitonic": (4, 256, lambda: (INTS[:1024].copy(),), 0, np.sort(INTS[:1024].reshape(4, 256), 1).reshape(-1)),
    "queue": (3, 64, lambda: (INTS, zeros(640), counters(1), 10), 1, INTS[:640] * 2),
    "aggregated": (4, 64, lambda: (INTS, zeros(1), zeros(256)), 1, [np.count_nonzero(INTS[:256] % 3 == 0)]),
    "group_reduce": (4, 64, lambda: (INTS, zeros(32)), 1, INTS[:256].reshape(32, 8).sum(1)),
    "dekker": (2, 32, lambda: (zeros(2), zeros(1)), None, None),
    "barrier_phases": (1, 128, lambda: (INTS, zeros(128), 5), 1, reversed_sums(5, 128)),
    "two_branches": (1, 32, lambda: (zeros(32),), 0, np.r_[np.arange(16, 32) * 10, np.arange(16)]),
}


@pytest.fixture(scope="module")
def module():
    """The compiled patterns."""
    return warpsim.load(Path(__file__).parent / "data" / "idioms.ptx")


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        *((name, "at_wait") for name in CASES),
        *(pytest.param(name, "eager", marks=pytest.mark.long) for name in CASES),
    ],
)
def test_correct_idioms(module, name, effects):
    """No rule is broken, and the result is that of the definition."""
    grid, block, make, place, expected = CASES[name]
    arguments = make()
    result = module[name](grid, block, arguments, checks="all", async_effects=effects, max_instructions=3_000_000)

    assert result.findings == ()
    if place is not None:
        assert arguments[place].tolist() == list(expected)
