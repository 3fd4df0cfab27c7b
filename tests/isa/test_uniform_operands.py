"""A uniform operand beside varying ones gives the bits of the same value in every lane: the two take different ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsim
from instruction_kernels import ROWS, Row, batches, kernel

LANES = 64
VALUES = [
    0, 1, 31, 32, 33, 63, 64, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000, 0xFF800001, 0x7FC00000, 0x00800000, 0x3F800000,
    0x3C003C00, 0x7E017C00, 1 << 63, (1 << 64) - 1, 0x7FF0000000000000, 0x7FF8000000000001, 0x3FF0000000000000,
]  # fmt: skip


def differing(rows: list[Row], uniform: int, rng: np.random.Generator) -> list[str]:
    """The instructions whose registers differ."""
    given: np.ndarray[Any, Any] = rng.integers(0, 1 << 64, (10, LANES), dtype=np.uint64)
    given[:, ::2] = rng.choice(np.array(VALUES, np.uint64), given[:, ::2].shape)
    given[uniform] = rng.choice(np.array(VALUES, np.uint64))
    out = []
    for which in (uniform, None):
        text, stored = kernel(rows, LANES, which)
        out.append(np.zeros((stored, LANES), np.uint64))
        device = warpsim.Device("sm_100a" if "100" in rows[0][0] else "sm_90a")
        warpsim.load(text)["k"]((1,), (LANES,), (given, out[-1]), engine="interpreter", checks="none", device=device)
    if np.array_equal(*out):
        return []
    if len(rows) == 1:
        return [f"{rows[0][2]} with register {uniform} = 0x{int(given[uniform, 0]):x}"]
    return [line for row in rows for line in differing([row], uniform, rng)]


def found(rows: list[Row]) -> list[str]:
    """What differs of these, each register uniform in turn."""
    rng = np.random.default_rng(1)
    return [line for part in batches(rows) for uniform in (1, 2, 3) for line in differing(part, uniform, rng)]


def test_a_sample_of_instructions() -> None:
    """One in two hundred of all."""
    assert found(ROWS[::199]) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(16))
def test_every_instruction(part: int) -> None:
    """All of them."""
    assert found(ROWS[part::16]) == []
