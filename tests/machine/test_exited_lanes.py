"""Collectives with a membermask wait for the lanes of their masks that have not exited (PTX ISA, shfl.sync, vote.sync,
match.sync, redux.sync; for bar.warp.sync, exit: "Barriers exclusively waiting on arrivals from exited threads are always
released"). Wrong is a mask that names a lane that is alive and can never come.
"""

import numpy as np
import pytest

import warpsim
from engines import ENGINES

HEAD = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a) {
.reg .b32 %r<8>; .reg .f32 %f<2>; .reg .b64 %rd<3>; .reg .pred %p<4>;
ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
mov.u32 %r2, 7; mov.u32 %r3, 0; mov.f32 %f1, 0f40000000; setp.lt.u32 %p1, %r1, 16; setp.ge.u32 %p2, %r1, 4;
"""
HIGH = 0xFFFF0000
COLLECTIVES = {
    # instruction: what lanes 16 to 31 receive when the others have exited, and when all lanes come
    "shfl.sync.idx.b32 %r2, %r1, 19, 31, -1;": (19, 19),
    "shfl.sync.bfly.b32 %r2|%p3, %r1, 0, 31, -1;": (range(16, 32), range(16, 32)),
    "vote.sync.all.pred %p3, %p2, -1; selp.u32 %r2, 1, 0, %p3;": (1, 0),
    "vote.sync.any.pred %p3, %p1, -1; selp.u32 %r2, 1, 0, %p3;": (0, 1),
    "vote.sync.uni.pred %p3, %p2, -1; selp.u32 %r2, 1, 0, %p3;": (1, 0),
    "vote.sync.ballot.b32 %r2, %p2, -1;": (HIGH, 0xFFFFFFF0),
    "match.any.sync.b32 %r2, 5, -1;": (HIGH, 0xFFFFFFFF),
    "match.any.sync.b64 %r2, %rd2, -1;": ([1 << t for t in range(16, 32)],) * 2,
    "match.all.sync.b32 %r2|%p3, 5, -1;": (HIGH, 0xFFFFFFFF),
    "redux.sync.add.u32 %r2, %r1, -1;": (sum(range(16, 32)), sum(range(32))),
    "redux.sync.min.s32 %r2, %r1, -1;": (16, 0),
    "redux.sync.or.b32 %r2, %r1, -1;": (31, 31),
    "redux.sync.min.f32 %f1, %f1, -1; mov.b32 %r2, %f1;": (0x40000000,) * 2,
    "elect.sync %r2|%p3, -1;": (16, 0),
    "bar.warp.sync -1;": (7, 7),
}
WHERE = {
    "exited before": "@%p1 exit; {meet}",
    "exit while others wait": "@%p1 bra away; {meet} bra done; away: {spin} exit;",
    "exit behind a guard": "@!%p1 {meet} @%p1 exit;",
    "come later": "@%p1 bra away; {meet} bra done; away: {spin} {meet}",
    "come late to the same place": "@%p1 bra away; meet: {meet} bra done; away: {spin} bra meet;",
    "wait elsewhere": "@%p1 bra away; {meet} bra done; away: barrier.sync 0; exit;",
}
SPIN = "again: add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 40; @%p3 bra again;"
"""Forty steps in which other lanes wait."""


@pytest.fixture(params=ENGINES)
def launch(request, monkeypatch):
    """Executes a kernel, of which every thread that comes to ``done`` stores ``%r2``: its output and findings."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")

    def call(body):
        out = np.full(32, 99, np.uint32)
        kernel = warpsim.load(f"{HEAD}{body}\ndone: st.global.u32 [%rd1], %r2; ret; }}\n")["k"]
        try:
            result = kernel(1, 32, (out,), engine=request.param, checks="all", on_finding="collect")
        except warpsim.ExecutionError as error:
            return None, error.findings
        return out.tolist(), result.findings

    return call


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("instruction", COLLECTIVES)
def test_lanes_that_do_not_come(launch, instruction, where):
    """Those that have exited are not waited for, whenever they do; those that wait for something else are missed."""
    out, findings = launch(WHERE[where].format(meet=instruction, spin=SPIN))
    without, together = (np.broadcast_to(list(e) if np.ndim(e) else e, 16).tolist() for e in COLLECTIVES[instruction])

    if where == "wait elsewhere":
        (found,) = findings
        assert (found.rule, found.severity, found.lanes) == ("membermask", "error", tuple(range(16, 32)))
        assert found.instruction.split()[0] == instruction.split()[0]
        assert found.other is not None
        assert found.other.instruction == "barrier.sync"
    else:
        assert findings == ()
        assert out[16:] == (together if where.startswith("come") else without)
        assert (99 in out) is not where.startswith("come")


@pytest.mark.parametrize("where", ["exited before", "exit while others wait", "exit behind a guard"])
def test_a_shuffle_from_a_lane_that_has_exited(launch, where):
    """The value is undefined, which is a warning."""
    _, findings = launch(WHERE[where].format(meet="shfl.sync.idx.b32 %r3, %r1, 3, 31, -1;", spin=SPIN))

    assert [(f.rule, f.severity) for f in findings] == [("membermask", "warning")]
    assert "reads lane 3" in findings[0].message


def test_lanes_that_wait_for_one_another(launch):
    """Each half of a warp is alive, and in a collective that the other never comes to."""
    _, findings = launch("@%p1 bra away; bar.warp.sync -1; bra done; away: vote.sync.ballot.b32 %r2, %p1, -1; exit;")

    assert [(f.rule, f.severity) for f in findings] == [("membermask", "error")]


def test_an_aligned_collective_misses_lanes_that_leave(launch):
    """Without a mask, the whole warp executes it: lanes that leave on another path while others wait for it have parted from
    them; those that left while others waited for a mask had left before.
    """
    aligned = "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;"
    _, findings = launch(WHERE["exit while others wait"].format(meet=aligned, spin=SPIN))
    assert [f.rule for f in findings] == ["aligned-divergence"]

    _, findings = launch(WHERE["exit while others wait"].format(meet="bar.warp.sync -1; " + aligned, spin=SPIN))
    assert [f.rule for f in findings] == ["exited-lane"]
