"""aligned-divergence, exited-lane and setmaxnreg, as far as branches on thread indices show them."""

import pytest

LOAD = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r3}, [at];"
FENCE = "wgmma.fence.sync.aligned;"
MORE = "setmaxnreg.inc.sync.aligned.u32 64;"
AFTER = "after: st.shared.u32 [at], tid;"
DIVERGENCE = "aligned-divergence"


def skipped(condition, instruction, after=AFTER):
    """A branch past an instruction."""
    return [f"setp.{condition}; @!p1 bra after;", instruction, after]


@pytest.mark.parametrize(
    "instruction", [LOAD, "bar.sync 0;", "barrier.sync.aligned 1, 64;", "bar.arrive 1, 64;", FENCE]
)
def test_half_a_warp(check, instruction):
    """Every aligned instruction behind a branch that parts each warp."""
    assert check(*skipped("lt.u32 p1, lane, 16", instruction)) == [(1, DIVERGENCE, "error")]


@pytest.mark.parametrize(
    "instruction", ["barrier.sync 1, 64;", "bar.warp.sync 0xffff;", "shfl.sync.idx.b32 r3, tid, 0, 31, 0xffff;"]
)
def test_not_aligned(check, instruction):
    """What lanes may execute alone is silent."""
    assert check(*skipped("lt.u32 p1, lane, 16", instruction)) == []


@pytest.mark.parametrize(
    ("condition", "instruction", "rule"),
    [
        ("lt.u32 p1, tid, 64", LOAD, None),
        ("lt.u32 p1, tid, 80", LOAD, DIVERGENCE),
        ("lt.u32 p1, tid, 32", "bar.sync 0;", None),
        ("eq.u32 p1, tid, 0", "bar.sync 0;", DIVERGENCE),
        ("lt.u32 p1, tid, 64", FENCE, DIVERGENCE),
        ("lt.u32 p1, tid, 128", FENCE, None),
        ("lt.u32 p1, tid, 64", MORE, "setmaxnreg"),
        ("lt.u32 p1, tid, 128", MORE, None),
        ("lt.u32 p1, n, 5", LOAD, None),
    ],
)
def test_warps_and_warpgroups(check, condition, instruction, rule):
    """A branch between warps parts a warpgroup, and no warp; one on a parameter parts nobody."""
    assert check(*skipped(condition, instruction)) == ([(1, rule, "error")] if rule else [])


def test_the_other_party_is_the_branch():
    """The branch is named, the lanes are those that come."""
    import warpsim
    from warpsim.analysis.strict import check_program

    from .conftest import FIRST, HEAD

    text = HEAD.format(directives="") + "\n".join(skipped("ge.u32 p1, lane, 30", LOAD)) + "\nret;\n}\n"
    (finding,) = check_program(warpsim.load(text).program)

    assert (finding.line, finding.column, finding.other.line) == (FIRST + 1, 1, FIRST)
    assert (finding.warp, finding.lanes, finding.kernel) == (0, (30, 31), "k")
    assert finding.text == LOAD


@pytest.mark.parametrize(
    ("shape", "found"), [(".reqntid 32, 4", []), (".reqntid 16, 8", [(1, DIVERGENCE, "error")]), ("", [(1, DIVERGENCE, "warning")])]
)  # fmt: skip
def test_rows_of_a_block(check, shape, found):
    """A branch on %tid.y parts warps of rows that are shorter than a warp; where the shape is not declared it may."""
    lines = skipped("eq.u32 p1, r1, 0", LOAD)
    lines[0] = "mov.u32 r1, %tid.y; " + lines[0]

    assert check(*lines, directives=shape) == found


def test_elected_lane(check):
    """One elected lane may not execute what is aligned."""
    assert check("elect.sync r1|p1, -1; @!p1 bra after;", "bar.sync 0;", AFTER) == [(1, DIVERGENCE, "error")]
    assert check("elect.sync r1|p1, -1; @!p1 bra after;", "st.shared.u32 [at], n; after:", "bar.sync 0;") == []


@pytest.mark.parametrize(
    "number", ["shfl.sync.idx.b32 r2, r1, 0, 31, -1;", "and.b32 r2, r1, 3;", "mov.b32 r2, %warpid;", "vote.sync.any.pred p2, p1, -1; selp.b32 r2, 1, 0, p2;"]
)  # fmt: skip
def test_specialised_warps(check, number):
    """A warp's number is the same in all its lanes, however it is made."""
    lines = skipped("eq.u32 p1, r2, 1", LOAD)
    lines[0] = f"shr.u32 r1, tid, 5; setp.eq.u32 p1, lane, 3; {number} {lines[0]}"

    assert check(*lines) == []


def test_data_of_each_thread(check):
    """A condition on what each thread has loaded may part the warp; on what all have loaded from one place it does not."""
    own = "mul.wide.u32 rd1, tid, 4; add.u64 rd1, rd1, out; ld.global.u32 r1, [rd1];"
    common = "ld.global.u32 r1, [out];"

    assert check(own, *skipped("gt.u32 p1, r1, 4", LOAD)) == [(2, DIVERGENCE, "warning")]
    assert check(common, *skipped("gt.u32 p1, r1, 4", LOAD)) == []


def test_guards(check):
    """A guard parts lanes as a branch does."""
    assert check(f"setp.eq.u32 p1, lane, 0; @p1 {LOAD}") == [(0, DIVERGENCE, "error")]
    assert check(f"setp.eq.u32 p1, n, 0; @p1 {LOAD}") == []
    assert check(f"setp.lt.u32 p1, tid, 64; @p1 {LOAD}") == []
    assert check(f"setp.lt.u32 p1, tid, 64; @p1 {FENCE}") == [(0, DIVERGENCE, "error")]
    assert check(f"setp.gt.u32 p1, lane, 31; @p1 {LOAD}") == []
    assert check(f"setp.gt.u32 p1, lane, 30; @!p1 {LOAD}") == [(0, DIVERGENCE, "error")]
    own = "mul.wide.u32 rd1, tid, 4; add.u64 rd1, rd1, out; ld.global.u32 r1, [rd1]; setp.gt.u32 p1, r1, 4;"
    assert check(f"{own} @p1 {LOAD}") == [(0, DIVERGENCE, "warning")]


@pytest.mark.parametrize(
    ("condition", "lanes"),
    [("eq.u32 p1, lane, 7", (7,)), ("ge.u32 p1, lane, 30", (30, 31)), ("eq.u32 p1, tid, 65", (1,))],
)
def test_lanes_of_a_guard(condition, lanes):
    """Those that hold the guard, of the first warp that it parts."""
    import warpsim
    from warpsim.analysis.strict import check_program

    from .conftest import HEAD

    text = HEAD.format(directives="") + f"setp.{condition}; @p1 {LOAD}\nret;\n}}\n"
    (finding,) = check_program(warpsim.load(text).program)

    assert (finding.warp, finding.lanes) == (2 if "tid" in condition else 0, lanes)


def test_both_sides(check):
    """Two barriers on the two sides of a branch are two places, also where both sides leave."""
    lines = ["setp.lt.u32 p1, lane, 16; @!p1 bra other;", "bar.sync 0; ret;", "other:", "bar.sync 0;"]

    assert check(*lines) == [(1, DIVERGENCE, "error"), (3, DIVERGENCE, "error")]


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("bar.warp.sync 0xffffffff;", "bar.warp.sync 0xffffffff;", []),
        ("shfl.sync.bfly.b32 r3, tid, 16, 31, -1;", "shfl.sync.bfly.b32 r3, lane, 1, 31, -1;", []),
        ("shfl.sync.bfly.b32 r3, tid, 16, 31, -1;", "shfl.sync.idx.b32 r3, tid, 0, 31, -1;", [1, 3]),
        ("bar.warp.sync 0xffffffff;", "bar.warp.sync 0xffff0000;", [1]),
        ("bar.warp.sync 0xffffffff;", "st.shared.u32 [at], tid;", [1]),
    ],
)
@pytest.mark.parametrize("alive", [True, False], ids=["alive", "exited"])
def test_lanes_that_meet_at_two_places(check, one, other, found, alive):
    """An instruction with a membermask waits for lanes at any other with the same qualifiers and mask (PTX ISA, bar.warp.sync
    and shfl.sync): which stand where does not matter. It does not wait for those that exit instead.
    """
    lines = ["setp.lt.u32 p1, lane, 16; @!p1 bra other;", f"{one} bra.uni after;", "other:", other]
    lines.append("after: barrier.sync 0;" if alive else "after: st.shared.u32 [at], tid;")

    assert check(*lines) == [(line, "membermask", "error") for line in found if alive or len(found) > 1]


ELSEWHERE = ["setp.lt.u32 p1, lane, 16; @!p1 bra other;", "redux.sync.add.u32 r3, tid, -1; bra.uni after;", "other:"]


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ("bar.sync 0;", True),
        ("barrier.cluster.arrive; barrier.cluster.wait;", True),
        ("bar.warp.sync 0xffff8000;", True),
        ("setp.eq.u32 p2, n, 0; @p2 barrier.sync 0;", False),
        ("setp.eq.u32 p2, n, 0; @p2 bra after; barrier.sync 0;", False),
        ("setp.eq.u32 p2, n, 0; @p2 exit; barrier.sync 0;", False),
        ("setp.eq.u32 p2, n, 0; @p2 bra more; barrier.sync 0; bra after; more: bar.sync 1;", True),
        ("bar.warp.sync 0xffff0000;", False),
        ("vote.sync.any.pred p2, p1, r3;", False),
        ("trap;", False),
    ],
)
def test_lanes_that_cannot_exit(check, there, found):
    """A mask names lanes that another path leads past the instruction: wrong where each way to their exit waits for those
    that wait for them.
    """
    errors = check(*ELSEWHERE, there, "after: st.shared.u32 [at], tid;")

    assert ((1, "membermask", "error") in errors) is found


def test_lanes_that_wait_behind_the_join(check):
    """Whatever both paths come to counts, and that at another place lanes of the same mask would meet."""
    shuffle = "shfl.sync.idx.b32 r3, tid, 0, 31, -1;"
    lines = ["setp.lt.u32 p1, lane, 16; @!p1 bra after;", shuffle]

    assert check(*lines, "after: bar.warp.sync -1;") == [(1, "membermask", "error")]
    assert check(*lines, f"after: {shuffle}") == []


@pytest.mark.parametrize(("instruction", "found"), [("bar.sync 0;", []), (LOAD, [(1, "exited-lane", "error")])])
def test_early_return(check, instruction, found):
    """Lanes that have left are not waited for; matrix instructions need them."""
    assert check("setp.ge.u32 p1, lane, 16; @p1 ret;", instruction) == found
    assert check("setp.ge.u32 p1, lane, 16; @p1 bra done;", instruction, "done:") == found
    assert check("setp.ge.u32 p1, tid, 32; @p1 ret;", instruction) == []


def test_loops(check):
    """A loop that all lanes leave together is silent; one that each leaves at its own time may part them."""
    body = ["mov.u32 r1, 0;", "again: bar.sync 0; add.u32 r1, r1, 1;"]

    assert check(*body, "setp.lt.u32 p1, r1, n; @p1 bra again;", AFTER) == []
    assert check(*body, "setp.lt.u32 p1, r1, lane; @p1 bra again;", AFTER) == [(1, DIVERGENCE, "warning")]


def test_a_loop_behind_an_early_exit(check):
    """Lanes that leave at the start by data of their own do not make the loop of the others part; those that come late do."""
    load = "mul.wide.u32 rd1, tid, 4; add.u64 rd1, rd1, out; ld.global.u32 r2, [rd1]; setp.eq.u32 p2, r2, 0;"
    loop = ["again: add.u32 r1, r1, 1;", "bar.sync 0; setp.lt.u32 p1, r1, n; @p1 bra again;"]
    early = "mov.u32 r1, 0; @p2 bra done; setp.eq.u32 p3, n, 7; @p3 bra again; mov.u32 r1, 2;"
    apart = "mov.u32 r1, 0; @p2 bra again; mov.u32 r1, 2;"
    last = "st.shared.u32 [at], tid; done:"

    assert check(load, early, *loop, last) == []
    assert check(load, apart, *loop, last) == [(3, DIVERGENCE, "warning")]


def test_warps_poll_together(check):
    """Waiting for an mbarrier in a loop parts nobody."""
    wait = "again: mbarrier.try_wait.parity.shared::cta.b64 p1, [at], zero; @!p1 bra again;"

    assert (
        check(
            "mbarrier.init.shared::cta.b64 [at], 32; bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [at];", wait, LOAD
        )
        == []
    )


def test_failing_assertions(check):
    """Lanes that trap are not waited for."""
    load = "mul.wide.u32 rd1, tid, 4; add.u64 rd1, rd1, out; ld.global.u32 r1, [rd1];"

    assert check(load, "setp.lt.u32 p1, r1, 9; @p1 bra good;", "trap;", "good: bar.sync 0;") == []


def test_lanes_that_hear_one_of_them(check):
    """What shfl gives all lanes of a warp from one lane parts no warp, whatever it is; a loaded value of each lane does."""
    load = "shl.b32 r1, tid, 2; add.u32 r1, r1, at; ld.shared.u32 r2, [r1];"
    branch = ["setp.lt.u32 p1, {}, 9; @!p1 bra after;", LOAD, AFTER]

    for lane in ("5", "n"):
        heard = f"shfl.sync.idx.b32 r3, r2, {lane}, 31, -1;"
        assert check(load, heard, branch[0].format("r3"), *branch[1:]) == []
    assert check(load, branch[0].format("r2"), *branch[1:]) != []


@pytest.mark.parametrize(
    ("same", "expected"), [(1, "THREAD"), (16, "THREAD"), (32, "WARP"), (128, "WARPGROUP"), (256, "CTA")]
)
def test_over_how_many_threads_values_are_the_same(same, expected):
    """Groups of so many threads have one value each."""
    import numpy as np

    from warpsim.analysis.values import Spread, spread_of

    assert spread_of(np.arange(256, dtype=np.uint64) // same) is Spread[expected]
    assert spread_of(np.zeros(1, np.uint64)) is Spread.KNOWN
