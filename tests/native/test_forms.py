"""Every instruction gives the same bits compiled as interpreted, on operands that hurt.

A sample of them runs by default, all in the long run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpsim
from instruction_kernels import ROWS, Row, batches, kernel
from warpsim.native.compiling import available

pytestmark = pytest.mark.skipif(not available(), reason="the extra jit is not installed")
LANES = 128
HARD = {
    16: [0, 1, 0x8000, 0x7FFF, 0xFFFF, 0x7C00, 0xFC00, 0x7C01, 0x03FF, 0x0400, 0x3C00, 0x7F80, 0x7F81, 0xFF80, 0x3F80],
    32: [0, 1, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000, 0x007FFFFF, 0x00800000,
         0x80800000, 0x3F800000, 0xBF800000, 0x3F000000, 0x4B000000, 0x4F000000, 0x5F000000, 0x7F7FFFFF, 31, 32, 33],
    64: [0, 1, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF0000000000001,
         0x7FF8000000000000, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000, 0xBFF0000000000000,
         0x43E0000000000000, 0x47EFFFFFFFFFFFFF, 0x380FFFFFFFFFFFFF, 63, 64],
}  # fmt: skip


def operands(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """``[10, lanes]`` of 64 bits: special values of every width in the low and the high half, and random bits."""
    out = rng.integers(0, 1 << 64, (10, LANES), dtype=np.uint64)
    for row in out:
        for lane in range(0, LANES, 2):
            width = int(rng.choice([16, 32, 64]))
            value = 0
            for place in range(0, 64, width):
                value |= int(rng.choice(np.array(HARD[width], np.uint64))) << place
            row[lane] = value
    return out


def wrong(rows: list[Row], threads: int) -> list[str]:
    """The instructions whose registers differ between the engines."""
    text, stored = kernel(rows, LANES)
    given = operands(np.random.default_rng(len(text)))
    entry = warpsim.load(text)["k"]
    device = warpsim.Device("sm_100a" if "100" in rows[0][0] else "sm_90a")
    out = {}
    for engine in ("interpreter", "compiled"):
        out[engine] = np.zeros((stored, LANES), np.uint64)
        entry((1,), (threads,), (given, out[engine]), engine=engine, checks="none", device=device)
    if np.array_equal(out["interpreter"], out["compiled"]):
        return []
    if len(rows) > 1:
        return [line for row in rows for line in wrong([row], threads)]
    differs = np.argwhere(out["interpreter"] != out["compiled"])[0]
    values = [hex(int(out[e][tuple(differs)])) for e in ("interpreter", "compiled")]
    return [f"{rows[0][2]} lane {differs[1]}: {values[1]} compiled, {values[0]} interpreted"]


def test_a_sample_of_instructions() -> None:
    """One in four hundred of all."""
    assert [line for rows in batches(ROWS[7::401]) for line in wrong(rows, LANES)] == []


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(16))
def test_every_instruction(part: int) -> None:
    """All, on several warps and on one that is not whole."""
    found = []
    for rows in batches(ROWS[part::16]):
        found += wrong(rows, LANES) + wrong(rows, 21)
    assert found == []
