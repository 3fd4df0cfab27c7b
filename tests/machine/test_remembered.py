"""Arithmetic on integers that all threads share is remembered by the numbers that it reads, and computed anew from others."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim
from warpsim.machine import plan
from warpsim.machine.binding import remembered
from warpsim.numerics.arrays import Array

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 first, .param .u32 factor) {
.reg .b32 i, j, t, f, w, x, y, z; .reg .b64 a; .reg .pred go, odd;
ld.param.u64 a, [out]; ld.param.u32 x, [first]; ld.param.u32 f, [factor]; mov.u32 t, %tid.x; mov.u32 i, 0; mov.u32 j, 0;
mad.wide.u32 a, t, 4, a;
LOOP:
mul.lo.u32 y, j, f; add.u32 z, y, 7; xor.b32 z, z, x; setp.ne.u32 odd, z, 7; add.u32 y, y, z;
and.b32 w, OTHER, 255; add.u32 y, y, w; selp.u32 z, 1, 0, odd; add.u32 y, y, z;
st.global.u32 [a], y;
add.s64 a, a, 256; add.u32 i, i, 1; and.b32 j, i, 3; setp.lt.u32 go, i, 16;
@go bra LOOP;
ret; }
"""


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many instructions each row had that was not remembered."""
    found: list[int] = []
    compute = remembered.Row._computed

    def counted(row: remembered.Row, *arguments: object) -> int:
        found.append(row.end - row.at)
        return compute(row, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(remembered.Row, "_computed", counted)
    return found


def check(kernel: warpsim.Kernel, first: int, factor: int, *, varies: bool, **options: object) -> None:
    """Compare a launch of 64 threads with exact arithmetic."""
    out = np.zeros((16, 64), np.uint32)
    kernel((1,), (64,), (out, first, factor), engine="interpreter", **options)  # type: ignore[arg-type]
    assert np.array_equal(out, expected(first, factor, varies=varies))


def expected(first: int, factor: int, *, varies: bool) -> Array:
    """What it leaves."""
    rows = []
    for i in range(16):
        y = (i & 3) * factor
        z = (y + 7) % (1 << 32) ^ first
        rows.append([y + z + ((t if varies else factor) & 255) + (z != 7) for t in range(64)])
    return np.array(rows) & 0xFFFFFFFF


def test_numbers_that_come_again(computed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was computed from the same numbers is not computed again, in the loop and in later launches."""
    monkeypatch.setattr(plan, "QUICK_FROM", 4)
    kernel = warpsim.load(TEXT.replace("OTHER", "f"))["k"]
    check(kernel, 0, 5, varies=False)
    assert 0 < computed.count(3) < 16, "the counter is another one each time"
    check(kernel, 0, 5, varies=False)
    computed.clear()
    check(kernel, 0, 5, varies=False)
    assert computed == []
    check(kernel, 1, 5, varies=False)
    assert computed == [9] * 4, "it depends on the counter modulo 4"
    for first, factor in ((7, 5), (7, 6), (0, 6), (1 << 31, 1 << 31), (2**32 - 1, 0)):
        check(kernel, first, factor, varies=False)


def test_registers_that_vary(computed: list[int]) -> None:
    """Instructions that depend on a register that varies are left to their own steps, the others are not."""
    kernel = warpsim.load(TEXT.replace("OTHER", "t"))["k"]
    for first, factor in ((0, 5), (7, 5), (0, 5)):
        check(kernel, first, factor, varies=True)
    computed.clear()
    check(kernel, 1, 5, varies=True)
    assert computed == [5] * 4


@pytest.mark.parametrize("seed", range(4))
def test_stops_within(seed: int) -> None:
    """Turns that end among such instructions, as in a random order."""
    kernel = warpsim.load(TEXT.replace("OTHER", "f"))["k"]
    for schedule in (None, seed, seed + 100):
        check(kernel, 3, 5, varies=False, schedule=schedule)


def test_bounds(computed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many results are kept, and a row whose numbers never come again is given up."""
    kernel = warpsim.load(TEXT.replace("OTHER", "f"))["k"]
    monkeypatch.setattr(remembered, "KEPT", 4)
    monkeypatch.setattr(remembered, "MISSES", 10)
    for first in range(5):
        computed.clear()
        check(kernel, first, 9, varies=False)
        assert len(remembered.results()) <= 4
    assert computed == []
