"""Lanes of a warp that come to one collective at two places; values as an H200 gave them, and programs that hung there."""

import numpy as np
import pytest

import warpsim

HEAD = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a) {
.reg .b32 %r<20>; .reg .b64 %rd<10>; .reg .pred %p<9>;
ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %rd1, %rd3;
mov.u32 %r9, 7777; setp.lt.u32 %p1, %r1, 16;
"""
FULL = 0xFFFFFFFF


def launch(high, low, **options):
    """What one warp stores after lanes 16-31 have gone one way and lanes 0-15 another."""
    out = np.zeros(32, np.uint32)
    body = f"@%p1 bra L;\n{high} bra D;\nL: {low}\nD: st.global.u32 [%rd4], %r9;\nret; }}\n"
    result = warpsim.load(HEAD + body)["k"](1, 32, (out,), checks="all", **options)
    assert result.findings == ()
    return out.tolist()


@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [
        ("bar.warp.sync -1;", "bar.warp.sync -1;", [7777] * 32),
        ("bar.warp.sync 0xffff0000;", "bar.warp.sync 0x0000ffff;", [7777] * 32),
        ("shfl.sync.idx.b32 %r9, %r1, 3, 31, -1;", "shfl.sync.idx.b32 %r9, %r1, 20, 31, -1;", [20] * 16 + [3] * 16),
        ("vote.sync.ballot.b32 %r9, %p1, -1;", "vote.sync.ballot.b32 %r9, %p1, -1;", [0xFFFF] * 32),
        ("redux.sync.add.u32 %r9, %r1, -1;", "redux.sync.add.u32 %r9, %r1, -1;", [496] * 32),
        ("match.any.sync.b32 %r9, 5, -1;", "match.any.sync.b32 %r9, 5, -1;", [FULL] * 32),
        ("elect.sync %r9|%p2, -1;", "elect.sync %r9|%p2, -1;", [0] * 32),
    ],
)
def test_one_instruction_at_two_places(high, low, expected):
    """The lanes exchange values across the branches."""
    assert launch(high, low) == expected


@pytest.mark.parametrize(
    ("high", "low"),
    [
        ("shfl.sync.idx.b32 %r9, %r1, 3, 31, -1;", "vote.sync.ballot.b32 %r9, %p1, -1;"),
        ("shfl.sync.idx.b32 %r9, %r1, 3, 31, -1;", "bar.warp.sync -1;"),
    ],
)
def test_two_instructions(high, low):
    """An H200 hangs; the finding names both places and the lanes that wait there for each other."""
    with pytest.raises(warpsim.ExecutionError) as caught:
        launch(high, low)
    (found,) = caught.value.findings

    assert (found.rule, found.line, found.lanes) == ("membermask", 9, tuple(range(16, 32)))
    assert found.other.line == 10
    assert found.advice.startswith("every lane in the mask must reach")


def test_aligned_instructions_do_not_meet():
    """A matrix move in each branch hangs on an H200."""
    with pytest.raises(warpsim.ExecutionError) as caught:
        launch(*["movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r1;"] * 2)

    assert caught.value.findings[0].rule == "aligned-divergence"
    assert caught.value.findings[0].advice.startswith("all lanes of a warp execute this together")


def test_warps_meet_apart():
    """Warps of one group part at different lanes; each meets as soon as its own lanes are complete."""
    out = np.zeros(128, np.uint32)
    body = (
        "shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; setp.le.u32 %p1, %r3, %r2; @%p1 bra L;\n"
        "redux.sync.add.u32 %r9, %r1, -1; bra D;\nL: redux.sync.add.u32 %r9, %r1, -1;\nD: st.global.u32 [%rd4], %r9;\nret; }\n"
    )
    result = warpsim.load(HEAD + body)["k"](1, 128, (out,), checks="all")

    assert out.tolist() == [sum(range(w * 32, w * 32 + 32)) for w in range(4) for _ in range(32)]
    assert result.findings == ()


def test_one_warp_of_a_group_meets():
    """Halves of two warps wait together; that of the first goes on when its others come, that of the second waits on."""
    out = np.zeros(64, np.uint32)
    body = (
        "and.b32 %r2, %r1, 31; setp.lt.u32 %p1, %r2, 16; @%p1 bra L; setp.lt.u32 %p2, %r1, 32; @%p2 bra H;\n"
        "again: ld.volatile.global.u32 %r3, [%rd1]; setp.eq.u32 %p3, %r3, 0; @%p3 bra again;\n"
        "H: shfl.sync.idx.b32 %r9, %r1, 3, 31, -1; bra D;\nL: shfl.sync.idx.b32 %r9, %r1, 20, 31, -1;\n"
        "D: st.volatile.global.u32 [%rd4], %r9;\nret; }\n"
    )
    warpsim.load(HEAD + body)["k"](1, 64, (out,), checks="none")

    assert out.tolist() == [20] * 16 + [3] * 16 + [52] * 16 + [35] * 16


@pytest.mark.parametrize("ended", [(0, 4), (16, 20), (0, 16), (3, 30)])
def test_lanes_that_have_ended_are_not_waited_for(ended):
    """Lanes of two branches meet though a mask names others, when these have ended; sums and ballots are of those that are left."""
    first, last = ended
    out = np.full(32, 99, np.uint32)
    body = (
        f"setp.ge.u32 %p2, %r1, {first}; setp.lt.and.u32 %p3, %r1, {last}, %p2; @%p3 exit; @%p1 bra L;\n"
        "redux.sync.add.u32 %r9, %r1, -1; bra D;\nL: redux.sync.add.u32 %r9, %r1, -1;\nD: st.global.u32 [%rd4], %r9;\nret; }\n"
    )
    warpsim.load(HEAD + body)["k"](1, 32, (out,), checks="none")
    left = [t for t in range(32) if not first <= t < last]

    assert out.tolist() == [sum(left) if t in left else 99 for t in range(32)]


def test_each_cta_has_lanes_of_its_own():
    """Lanes of one warp of one CTA have ended: it meets without them before its barrier, every other warp with all of its own."""
    out = np.full(128, 99, np.uint32)
    body = (
        "mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd4, %rd1, %rd3;\n"
        "setp.eq.u32 %p2, %r2, 1; setp.lt.and.u32 %p3, %r1, 4, %p2; @%p3 exit; and.b32 %r2, %r1, 16; setp.eq.u32 %p1, %r2, 0; @%p1 bra L;\n"
        "redux.sync.add.u32 %r9, %r1, -1; bra D;\nL: redux.sync.add.u32 %r9, %r1, -1;\nD: barrier.sync 0; st.global.u32 [%rd4], %r9;\nret; }\n"
    )
    warpsim.load(HEAD + body)["k"](2, 64, (out,), checks="none")
    high = [sum(range(32, 64))] * 32

    assert out.tolist() == [sum(range(32))] * 32 + high + [99] * 4 + [sum(range(4, 32))] * 28 + high


def test_lanes_that_end_while_others_wait():
    """Lanes wait in two branches for a third part of their warp, which ends."""
    out = np.full(32, 99, np.uint32)
    body = (
        "setp.lt.u32 %p2, %r1, 4; @%p2 bra E; @%p1 bra L;\nredux.sync.add.u32 %r9, %r1, -1; bra D;\nL: redux.sync.add.u32 %r9, %r1, -1; bra D;\n"
        "E: mov.u32 %r2, 0; C: add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, 50; @%p3 bra C; exit;\nD: st.global.u32 [%rd4], %r9;\nret; }\n"
    )
    warpsim.load(HEAD + body)["k"](1, 32, (out,), checks="none")

    assert out.tolist() == [99] * 4 + [sum(range(4, 32))] * 28


@pytest.mark.parametrize("collective", ["bar.warp.sync -1;", "shfl.sync.idx.b32 %r9, %r1, 3, 31, -1;"])
def test_lanes_that_take_a_third_path(collective):
    """Odd lanes meet in two branches, with a mask that names the even ones, which pass both branches and exit. They are missed
    if they wait for the odd ones instead.
    """
    body = (
        "and.b32 %r2, %r1, 1; setp.ne.u32 %p2, %r2, 0; @!%p2 bra E; @%p1 bra L;\n"
        f"{collective} bra D;\nL: {collective} bra D;\nE: add.u32 %r2, %r2, 1; bra D;\nD: barrier.sync 0; ret; }}\n"
    )
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.load(HEAD + body)["k"](1, 32, (np.zeros(32, np.uint32),))
    (finding,) = caught.value.findings

    assert (finding.rule, finding.lanes) == ("membermask", tuple(range(17, 32, 2)))
    assert "for lanes 0, 2, 4" in finding.message
    for others in (body.replace("@!%p2 bra E;", ""), body.replace("barrier.sync 0;", "")):
        assert not warpsim.load(HEAD + others)["k"](1, 32, (np.zeros(32, np.uint32),)).findings
