"""Integers that all threads share are computed several steps at once: results and counts are those of single steps."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim
from warpsim.machine import plan
from warpsim.machine.binding import uniform
from warpsim.machine.machine import Machine
from warpsim.machine.plan import Step
from warpsim.machine.state.group import Group
from warpsim.machine.values import as_array
from warpsim.machine.watcher import Watcher

KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 laps)
{
    .reg .pred p, q;
    .reg .b32 v, i, n, x, y, z, t, u, w;
    .reg .b16 h;
    .reg .b64 a, b, d;
    ld.param.u64 a, [out];
    ld.param.u32 n, [laps];
    mov.u32 t, %tid.x;
    mov.u32 x, 7;
    mov.u32 y, 0;
    mov.u32 i, 0;
    mov.u32 w, 3;
    mov.u64 d, 0;
LOOP:
    mad.lo.s32 x, x, 1664525, 1013904223;
    mul.hi.s32 z, x, 1431655766;
    shr.s32 u, z, 31;
    sub.s32 z, z, u;
    mad.lo.s32 u, z, z, t;
    xor.b32 y, y, u;
    add.s32 y, y, w;
    cvt.u16.u32 h, x;
    cvt.s32.s16 u, h;
    mul.wide.s32 b, u, -3;
    add.s64 d, d, b;
    cvt.s8.s32 v, x;
    cvt.s64.s32 b, v;
    add.s64 d, d, b;
    setp.ge.s32 q, z, 0;
    setp.ne.or.s32 q, z, z, !q;
    selp.b32 w, z, x, q;
    add.u32 i, i, 1;
    setp.lt.u32 p, i, n;
    @p bra LOOP;
    mul.wide.u32 b, t, 16;
    add.s64 a, a, b;
    st.global.u32 [a], x;
    st.global.u32 [a+4], y;
    st.global.u64 [a+8], d;
    ret;
}
"""


def expected(laps: int, threads: int) -> list[tuple[int, int, int]]:
    """x, y and d of each thread."""
    x, ys, w, d = 7, [0] * threads, 3, 0
    signed = lambda v, bits: (v & ((1 << bits) - 1)) - ((v >> (bits - 1) & 1) << bits)  # noqa: E731
    for _ in range(laps):
        x = signed(x * 1664525 + 1013904223, 32)
        z = x * 1431655766 >> 32
        z -= z >> 31
        ys = [(y ^ (z * z + t)) + w & 0xFFFFFFFF for t, y in enumerate(ys)]
        d += signed(x, 16) * -3 + signed(x, 8)
        w = z if z < 0 else x
    return [(x & 0xFFFFFFFF, y, d & ((1 << 64) - 1)) for y in ys]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What varied each time a function was written."""
    found: list[set[int]] = []
    usual = uniform._Run._written

    def noted(run: uniform._Run) -> Step | None:
        found.append(set(run._varying))
        return usual(run)

    monkeypatch.setattr(uniform._Run, "_written", noted)
    return found


@pytest.mark.parametrize("first", [1, 32, 1 << 30])
def test_loop_of_shared_and_own_integers(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first lap on, from a later one, and never; one operand varies among threads."""
    monkeypatch.setattr(plan, "FUSED_FROM", first)
    out = np.zeros((64, 2), np.uint64)
    result = warpsim.load(KERNEL)["k"]((1,), (64,), (out, 50), engine="interpreter")

    assert [(int(a) & 0xFFFFFFFF, int(a) >> 32, int(b)) for a, b in out] == expected(50, 64)
    assert result.instructions == 2 * (8 + 20 * 50 + 6)
    assert result.opcodes["mul.hi.s32"] == 100


class Writes(Watcher):
    """How often registers are written, and what x was last."""

    def __init__(self) -> None:
        self.times, self.last = 0, 0

    def registers_written(self, machine: Machine, group: Group, registers: tuple[int, ...]) -> None:
        """Some are written."""
        self.times += 1
        if [group.plan.function.registers[r].name for r in registers] == ["x"]:
            self.last = int(as_array(group.read(registers[0])).flat[0]) & 0xFFFFFFFF


def test_watchers_hear_of_each_register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where somebody hears what single steps write, these run one by one."""
    monkeypatch.setattr(plan, "FUSED_FROM", 1)
    watcher = Writes()
    given = np.zeros((64, 2), np.uint64), 50
    warpsim.load(KERNEL)["k"]((1,), (64,), given, engine="interpreter", watchers=[watcher])

    assert (watcher.times, watcher.last) == (8 + 19 * 50 + 2, expected(50, 1)[0][0])


def test_written_once_whatever_varies(monkeypatch: pytest.MonkeyPatch, written: list[set[int]]) -> None:
    """In the second lap two of the loop's registers vary, of which no more than the first is read before."""
    monkeypatch.setattr(plan, "FUSED_FROM", 2)
    warpsim.load(KERNEL)["k"]((1,), (32,), (np.zeros((32, 2), np.uint64), 5), engine="interpreter")

    assert len(written) == 2  # the loop has two runs


def test_registers_that_come_to_vary_one_by_one(monkeypatch: pytest.MonkeyPatch, written: list[set[int]]) -> None:
    """A function is not written again in each lap: a thread's index comes to all of these in turn."""
    monkeypatch.setattr(plan, "FUSED_FROM", 1)
    moved = "".join(f"mov.u32 r{k}, r{k - 1};" for k in range(39, 0, -1))
    text = KERNEL.replace("add.u32 i, i, 1;", f"{moved} mov.u32 r0, t; add.u32 i, i, 1;").replace(
        "x;\n    st", "r39;\n    st"
    )
    text = text.replace(".reg .b16 h", ".reg .b32 r<40>; .reg .b16 h").replace("LOOP:", "mov.u32 r0, 1;\nLOOP:")
    out = np.zeros((32, 2), np.uint64)
    warpsim.load(text)["k"]((1,), (32,), (out, 60), engine="interpreter", checks=[])

    assert [int(a) & 0xFFFFFFFF for a, _ in out] == list(range(32))
    assert len(written) <= uniform.TRIES + 4


def test_register_wider_than_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes a converted number is left to its step."""
    monkeypatch.setattr(plan, "FUSED_FROM", 1)
    text = KERNEL.replace("mul.wide.s32 b, u, -3;", "cvt.s64.s32 wide, u; cvt.s64.s64 b, wide; mul.lo.s64 b, b, -3;")
    text = text.replace(".reg .b64 a", ".reg .b128 wide; .reg .b64 a").replace("8.0", "8.4").replace("sm_80", "sm_90")
    out = np.zeros((32, 2), np.uint64)
    warpsim.load(text)["k"]((1,), (32,), (out, 5), engine="interpreter")

    assert [(int(a) & 0xFFFFFFFF, int(a) >> 32, int(b)) for a, b in out] == expected(5, 32)


def test_a_value_comes_to_vary(monkeypatch: pytest.MonkeyPatch, written: list[set[int]]) -> None:
    """After half of the laps threads have integers of their own; what depends on them is left to the single steps."""
    monkeypatch.setattr(plan, "FUSED_FROM", 2)
    text = KERNEL.replace("add.u32 i, i, 1;", "add.u32 i, i, 1; setp.eq.u32 q, i, 20; @q add.u32 x, x, t;")
    out = np.zeros((32, 2), np.uint64)
    warpsim.load(text)["k"]((1,), (32,), (out, 40), engine="interpreter")
    single = np.zeros_like(out)
    monkeypatch.setattr(plan, "FUSED_FROM", 1 << 30)
    warpsim.load(text)["k"]((1,), (32,), (single, 40), engine="interpreter")

    assert (out == single).all()
    assert len({int(a) & 0xFFFFFFFF for a, _ in out}) == 32
    assert max(map(len, written)) > min(map(len, written))
