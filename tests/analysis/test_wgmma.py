"""wgmma-missing-fence, wgmma-in-flight and wgmma-uncommitted without running: small kernels, and recorded ones without a line."""

import pytest

from .conftest import findings, recorded

START = (
    "setp.ne.u32 p1, n, 0; mov.u64 rd1, 0x0000001000080000; mov.u64 rd2, rd1;"
    " mov.u32 r0, n; mov.u32 r1, n; mov.u32 r2, n; mov.u32 r3, n;"
)
FENCE, COMMIT, WAIT = (
    "wgmma.fence.sync.aligned;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
)
D = "{f0, f1, f2, f3}"
MMA = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, rd1, rd2, p1, 1, 1, 0, 0;"
OTHER = MMA.replace("f0, f1, f2, f3", "f4, f5, f6, f7")
TALL = MMA.replace("m64n8k16", "m64n16k16").replace(D, "{f0, f1, f2, f3, f4, f5, f6, f7}")
FROM_A = MMA.replace("rd1", "{r0, r1, r2, r3}").replace("0, 0;", "0;")
USE, SET = "st.global.f32 [out], f2;", "mov.f32 f1, 0f3F800000;"
ADD = "add.f32 f1, f1, f1;"
MISSING, FLIGHT, LOST = "wgmma-missing-fence", "wgmma-in-flight", "wgmma-uncommitted"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([FENCE, MMA, COMMIT, WAIT, USE], []),
        ([MMA, COMMIT, WAIT, USE], [(1, MISSING, "error")]),
        ([FENCE, ADD, MMA, COMMIT, WAIT, USE], [(3, MISSING, "error")]),
        ([FENCE, SET, MMA, COMMIT, WAIT, USE], [(3, MISSING, "note")]),
        ([ADD, FENCE, MMA, COMMIT, WAIT, USE], []),
        ([FENCE, MMA, MMA, COMMIT, WAIT, USE], []),
        ([FENCE, MMA, COMMIT, WAIT, ADD, MMA, COMMIT, WAIT, USE], [(6, MISSING, "error")]),
        ([FENCE, MMA, COMMIT, WAIT, ADD, FENCE, MMA, COMMIT, WAIT, USE], []),
        ([FENCE, TALL, MMA, COMMIT, WAIT, USE], [(3, MISSING, "error")]),
        ([FENCE, TALL, FENCE, MMA, COMMIT, WAIT, USE], []),
        ([FENCE, "mov.u32 r1, n;", FROM_A, COMMIT, WAIT, USE], [(3, MISSING, "note")]),
        ([FENCE, "add.u32 r1, n, 1;", FROM_A, COMMIT, WAIT, USE], [(3, MISSING, "note")]),  # compilers rely on it
        ([FENCE, MMA, COMMIT, "add.u32 r1, n, 1;", FROM_A, COMMIT, WAIT, USE], [(5, MISSING, "error")]),
        ([FENCE, "add.u32 r5, n, 1;", FROM_A, COMMIT, WAIT, USE], []),
    ],
)
def test_fences(check, lines, found):
    """Accessed registers need a fence before the product, whatever shape accumulated in them before."""
    assert check(START, *lines) == found


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([FENCE, MMA, COMMIT, USE], [(4, FLIGHT, "error")]),
        ([FENCE, MMA, COMMIT, ADD, WAIT], [(4, FLIGHT, "error")]),
        ([FENCE, MMA, COMMIT, "add.f32 f9, f8, f8;", WAIT], []),
        ([FENCE, FROM_A, COMMIT, "add.u32 r1, n, 1;", WAIT], [(4, FLIGHT, "error")]),
        ([FENCE, FROM_A, COMMIT, WAIT, "add.u32 r1, n, 1;"], []),
        ([FENCE, MMA, COMMIT, OTHER, COMMIT, WAIT.replace("0;", "1;"), USE, WAIT], []),
        ([FENCE, OTHER, COMMIT, MMA, COMMIT, WAIT.replace("0;", "1;"), USE, WAIT], [(7, FLIGHT, "error")]),
        ([FENCE, MMA, COMMIT, COMMIT, COMMIT, WAIT.replace("0;", "2;"), USE], []),
        ([FENCE, MMA, COMMIT, COMMIT, WAIT.replace("0;", "2;"), USE], [(6, FLIGHT, "error")]),
        ([FENCE, MMA, "mov.f32 f8, f2;", COMMIT, WAIT, USE], []),  # another name, whether or not of an accumulator
        ([FENCE, MMA, COMMIT, "mov.b32 {h1, h2}, f2; mov.b32 f8, {h1, h2};", WAIT, USE], []),
        ([FENCE, MMA, COMMIT, "mov.f32 f8, f2;", "add.f32 f9, f8, f8;", WAIT], [(5, FLIGHT, "error")]),
        ([FENCE, MMA, COMMIT, "mov.b32 {h1, h2}, f2;", "add.u16 h3, h1, h2;", WAIT], [(5, FLIGHT, "error")]),
        ([FENCE, MMA, "mov.f32 f4, f2;", COMMIT, WAIT, FENCE, OTHER], []),  # renamed: still the same accumulator
    ],
)
def test_waits(check, lines, found):
    """Registers of a product whose group is not waited for are left alone."""
    assert [f for f in check(START, *lines) if f[1] == FLIGHT] == found


def test_a_read_from_an_accumulator_in_flight(check):
    """The next product may not read as A what the last one has not accumulated yet."""
    bits = MMA.replace(".f32.f16", ".f16.f16").replace(D, "{r0, r1}")
    chain = MMA.replace("rd1", "{r0, r1, r2, r3}").replace("0, 0;", "0;")

    assert check(START, FENCE, bits, chain, COMMIT, WAIT) == [(3, FLIGHT, "error")]
    assert check(START, FENCE, bits, COMMIT, WAIT, FENCE, chain, COMMIT, WAIT) == []


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([FENCE, MMA, WAIT, USE], [(3, LOST, "error")]),
        ([FENCE, MMA, WAIT], [(4, LOST, "error")]),
        ([FENCE, MMA], [(3, LOST, "error")]),
        ([FENCE, MMA, COMMIT], []),
        ([FENCE, MMA, COMMIT, OTHER, WAIT, USE], [(7, LOST, "error")]),
    ],
)
def test_commits(check, lines, found):
    """A wait covers what was committed before it; the kernel's end finds what never was."""
    assert check(START, *lines) == found


LOOP = [
    START, FENCE, MMA, COMMIT,
    "again: wgmma.fence.sync.aligned;", OTHER, COMMIT,
    "wgmma.wait_group.sync.aligned 1;",
    "sub.u32 n, n, 1; setp.ne.u32 p2, n, 0; @p2 bra again;",
    WAIT, USE, "st.global.f32 [out], f4;",
]  # fmt: skip


@pytest.mark.parametrize(
    ("removed", "found"),
    [
        (None, []),
        (1, [(2, MISSING, "error")]),
        (3, []),  # the group of the first round takes it in
        (4, []),  # the fence before the loop orders these registers too, and nothing touches them
        (6, [(9, LOST, "error")]),
        (7, []),  # the wait behind the loop covers both
        (9, [(11, FLIGHT, "error")]),
    ],
)
def test_pipeline(check, removed, found):
    """A loop with one group in flight: which lines matter to the registers."""
    lines = ["again:" if k == removed == 4 else "" if k == removed else line for k, line in enumerate(LOOP)]

    assert [f for f in check(*lines) if f[2] == "error"] == found


def test_one_of_two_ways(check):
    """A wait on one of two ways is none on the other."""
    lines = [START, FENCE, MMA, COMMIT, "setp.eq.u32 p2, n, 3; @p2 bra join;", WAIT, "join:", USE]

    assert check(*lines) == [(7, FLIGHT, "error")]
    assert check(*lines[:5], WAIT, "bra done; join:", WAIT, "done:", USE) == []


def line_of(lines, text, number=0):
    """The 1-based line of the n-th occurrence of a text."""
    return [k for k, line in enumerate(lines, 1) if text in line][number]


@pytest.mark.parametrize(
    "name",
    [
        "gemm_s8",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("gemm_rs_bf16", "gemm_ss_f16", "gemm_cp_async", "gemm_pingpong", "attention")
        ),
    ],
)
def test_recorded_pipelines(name):
    """Without its first fence, its last commit, its last wait: named at the product, the wait, the first use."""
    lines = recorded(name)
    last_wait = [k for k, line in enumerate(lines, 1) if "wgmma.wait_group.sync.aligned 0" in line][-1]
    last_commit = [k for k, line in enumerate(lines[:last_wait], 1) if "wgmma.commit_group" in line][-1]
    fence = line_of(lines, "wgmma.fence")

    def without(line):
        found = findings([*lines[: line - 1], "", *lines[line:]])
        return [f for f in found if f[2] == "error"]

    (first, *_) = without(fence)
    assert (first[1], first[0]) == (
        MISSING,
        next(k for k in range(fence, len(lines)) if "wgmma.mma_async" in lines[k - 1]),
    )
    assert (last_wait, LOST, "error") in [f[:3] for f in without(last_commit)]
    (flight,) = without(last_wait)
    assert flight[1] == FLIGHT
    assert "wgmma.mma_async" in lines[flight[3] - 1]
