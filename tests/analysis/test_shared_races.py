"""race in shared memory as far as addresses are known in every thread: each with the nearest correct program."""

import pytest

from .conftest import findings, recorded

OWN, NEXT = "shl.b32 r1, tid, 2; add.u32 r1, r1, at;", "xor.b32 r2, tid, 1; shl.b32 r2, r2, 2; add.u32 r2, r2, at;"
FAR = "xor.b32 r2, tid, 32; shl.b32 r2, r2, 2; add.u32 r2, r2, at;"
WRITE, READ, OTHER = "st.shared.u32 [r1], n;", "ld.shared.u32 r3, [r1];", "ld.shared.u32 r3, [r2];"
SYNC = "bar.sync 0;"
LOOP = "setp.eq.u32 p1, n, 0; @p1 bra again;"


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([OWN, NEXT, WRITE, OTHER], 3),
        ([OWN, NEXT, WRITE, READ], None),
        ([OWN, NEXT, WRITE, SYNC, OTHER], None),
        ([OWN, NEXT, WRITE, "bar.warp.sync -1;", OTHER], None),
        ([OWN, NEXT, OTHER, WRITE], 3),
        ([OWN, NEXT, OTHER, SYNC, WRITE], None),
        ([OWN, FAR, WRITE, OTHER], 3),
        ([OWN, NEXT, WRITE.replace("st.shared", "st.volatile.shared"), OTHER], None),
        ([OWN, NEXT, WRITE.replace("[r1]", "[r1+2048]"), OTHER], None),
        ([OWN, NEXT, WRITE, "setp.eq.u32 p1, n, 3; @p1 bra on;", SYNC, "on:", OTHER], None),  # one way has it
        ([OWN, NEXT, "again:", WRITE, SYNC, OTHER, LOOP], 3),
        ([OWN, NEXT, "again:", WRITE, SYNC, OTHER, SYNC, LOOP], None),
        ([OWN, NEXT, "setp.eq.u32 p1, tid, 5; @p1 st.shared.u32 [smem+8], n;", READ], 3),
        (["setp.eq.u32 p1, tid, 5; @p1 st.shared.u32 [smem+8], n;", "@p1 ld.shared.u32 r3, [smem+8];"], None),
        ([OWN, "setp.lt.u32 p1, lane, n; @p1 st.shared.u32 [r1], n;", NEXT, OTHER], None),  # data decides who writes
        (["st.shared.u32 [at], n;", "ld.shared.u32 r3, [at];"], 1),
    ],
)
def test_pairs(check, lines, line):
    """A write and a read of one byte by two threads, without anything between."""
    found = [f for f in check(*lines, directives=".reqntid 64") if f[1] == "race"]

    assert found == ([] if line is None else [(line, "race", "error")])


@pytest.mark.parametrize(
    ("name", "barrier", "line"), [("cub_scan_reduce", 98, 101), ("cub_scan_reduce", 102, 110), ("lookback_scan", 49, 51), ("private_histograms", 473, 478)]
)  # fmt: skip
def test_recorded_kernels(name, barrier, line):
    """Without a barrier that known addresses need, the first access behind it is named."""
    lines = recorded(name)
    assert "bar.sync" in lines[barrier - 1]
    found = [f for f in findings([*lines[: barrier - 1], "", *lines[barrier:]]) if f[2] == "error"]

    assert [f[:2] for f in found] == [(line, "race")]
    assert found[0][3] < barrier
