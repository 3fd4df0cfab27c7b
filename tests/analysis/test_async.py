"""async-read-early, async-smem-overwrite, proxy-fence and mbarrier from the text alone: each with the nearest correct program."""

import re

import pytest

from .conftest import findings, recorded

EARLY, OVERWRITE, PROXY, MBARRIER = "async-read-early", "async-smem-overwrite", "proxy-fence", "mbarrier"
MINE = "shl.b32 r9, lane, 4; add.u32 r9, r9, at;"
COPY, COMMIT, WAIT = "cp.async.ca.shared.global [r9], [out], 16;", "cp.async.commit_group;", "cp.async.wait_group 0;"
READ, STORE, SYNC = "ld.shared.u32 r1, [r9];", "st.shared.v4.u32 [r9], {n, n, n, n};", "bar.sync 0;"
ONE = "setp.ne.u32 p1, tid, 0; @p1 bra rest;"
OUT = "cp.async.bulk.global.shared::cta.bulk_group [out], [at], 512;"
OUT_COMMIT, OUT_WAIT = "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group.read 0;"
FENCE = "fence.proxy.async.shared::cta;"
INIT, INIT_FENCE = "mbarrier.init.shared::cta.b64 [next], 1;", "fence.mbarrier_init.release.cluster;"
LOAD = (
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [next], 512;"
    " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [at], [out], 512, [next];"
)
POLL = "poll: mbarrier.try_wait.parity.shared::cta.b64 p2, [next], 0; @!p2 bra poll;"
DESCRIPTOR = "shr.u32 r5, at, 4; cvt.u64.u32 rd3, r5; or.b64 rd3, rd3, 0x0000001000080000;"
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1, f2, f3}, rd3, rd3, p3, 1, 1, 0, 0;"
PRODUCT = f"setp.ne.u32 p3, n, 0; wgmma.fence.sync.aligned; {MMA}"
DONE = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"


def errors(check, lines, severity="error"):
    """(line, rule) of the errors, or warnings."""
    return [f[:2] for f in check(*lines) if f[2] == severity]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([MINE, COPY, COMMIT, WAIT, SYNC, READ], []),
        ([MINE, COPY, COMMIT, SYNC, READ], [(4, EARLY)]),
        ([MINE, COPY, WAIT, SYNC, READ], [(4, EARLY)]),
        ([MINE, COPY, "cp.async.wait_all;", SYNC, READ], []),
        ([MINE, COPY, COMMIT, WAIT.replace("0", "1"), SYNC, READ], [(5, EARLY)]),
        ([MINE, COPY, COMMIT, COMMIT, WAIT.replace("0", "1"), SYNC, READ], []),
        ([MINE, COPY, COMMIT, STORE, WAIT], [(3, EARLY)]),
        ([MINE, COPY, COMMIT, READ.replace("[r9]", "[smem+2048]"), WAIT], []),
        ([INIT, MINE, COPY, "cp.async.mbarrier.arrive.noinc.shared.b64 [next];", POLL, READ], []),
        ([MINE, "again:", COPY, COMMIT, WAIT, SYNC, READ, SYNC, "setp.eq.u32 p1, n, 0; @p1 bra again;"], []),
        ([MINE, "again:", COPY, COMMIT, SYNC, READ, SYNC, "setp.eq.u32 p1, n, 0; @p1 bra again;"], [(5, EARLY)]),
    ],
)
def test_copies(check, lines, found):
    """What cp.async brings is read after the wait for its group."""
    assert errors(check, lines) == found


def test_stages_of_one_variable(check):
    """A copy into another stage is in flight while one is read: not decided, and silent, where waits exist at all."""
    stage = "xor.b32 n, n, 1024; add.u32 r8, n, at;"
    loop = ["again:", WAIT, SYNC, stage, COPY.replace("r9", "r8"), COMMIT, "xor.b32 r7, n, 1024; add.u32 r7, r7, at;"]
    loop += [READ.replace("r9", "r7"), "setp.eq.u32 p1, r1, 0; @p1 bra again;"]

    assert errors(check, loop) == []
    assert errors(check, [line for line in loop if line != WAIT]) == [(6, EARLY)]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([MINE, STORE, FENCE, SYNC, ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], []),
        ([MINE, STORE, SYNC, ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], [(4, PROXY)]),
        ([MINE, FENCE, STORE, SYNC, ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], [(5, PROXY)]),
        ([MINE, STORE, FENCE.replace("shared::cta", "global"), SYNC, ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], [(5, PROXY)]),
        ([MINE, STORE.replace("[r9]", "[smem+2048]"), SYNC, ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], []),
        ([ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:", SYNC, MINE, STORE], []),
        ([ONE, OUT, OUT_COMMIT, "rest:", SYNC, MINE, STORE], [(6, OVERWRITE)]),
        ([ONE, OUT, OUT_WAIT, "rest:", SYNC, MINE, STORE], [(6, OVERWRITE)]),
        ([MINE, STORE, FENCE, SYNC, DESCRIPTOR, PRODUCT, DONE], []),
        ([MINE, STORE, SYNC, DESCRIPTOR, PRODUCT, DONE], [(4, PROXY)]),
    ],
)  # fmt: skip
def test_stores_and_products(check, lines, found):
    """What bulk stores and wgmma read through the async proxy is fenced, and left alone until they have read it."""
    assert errors(check, lines) == found


@pytest.mark.parametrize(
    ("lines", "found", "warned"),
    [
        ([INIT, INIT_FENCE, SYNC, LOAD, POLL, MINE, READ], [], []),
        ([INIT, INIT_FENCE, SYNC, LOAD, MINE, READ], [(5, EARLY)], []),
        ([INIT, SYNC, LOAD, POLL, MINE, READ], [], []),  # a note
        ([INIT, FENCE, SYNC, LOAD, POLL, MINE, READ], [], []),
        ([INIT, INIT_FENCE, MINE, STORE, SYNC, LOAD, POLL], [], [(5, PROXY)]),
        ([INIT, INIT_FENCE, MINE, STORE, FENCE, SYNC, LOAD, POLL], [], []),
        ([INIT, INIT_FENCE, MINE, READ, SYNC, LOAD, POLL], [], [(5, PROXY)]),
        ([INIT, INIT_FENCE, MINE, READ, FENCE, SYNC, LOAD, POLL], [], []),
    ],
)
def test_loads(check, lines, found, warned):
    """A bulk load needs its object fenced, its destination fenced, and is waited for."""
    assert errors(check, lines) == found
    assert errors(check, lines, "warning") == warned


SECOND = "mbarrier.init.shared::cta.b64 [next+8], 1;"
AWAY = "shl.b32 r6, n, 4; mov.u32 r5, next; add.u32 r6, r6, r5; mbarrier.init.shared::cta.b64 [r6], 1;"
REMOTE = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [r7], n, [r8];"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([INIT, SYNC, LOAD], [(2, MBARRIER)]),
        ([INIT_FENCE, INIT, SYNC, LOAD], [(3, MBARRIER)]),
        ([INIT, INIT_FENCE, SECOND, SYNC, LOAD], []),
        ([SECOND, INIT_FENCE, INIT, SYNC, LOAD], [(4, MBARRIER)]),
        ([INIT, SECOND, SYNC, LOAD], [(3, MBARRIER)]),
        ([AWAY, SYNC, LOAD.replace("[next]", "[r6]")], [(2, MBARRIER)]),
        ([AWAY, INIT_FENCE, SYNC, LOAD.replace("[next]", "[r6]")], []),
        ([INIT, SYNC, "mapa.shared::cluster.u32 r7, at, n; mapa.shared::cluster.u32 r8, next, n;", REMOTE], [(3, MBARRIER)]),
        ([INIT, INIT_FENCE, SYNC, "mapa.shared::cluster.u32 r7, at, n; mapa.shared::cluster.u32 r8, next, n;", REMOTE], []),
    ],
)  # fmt: skip
def test_objects_that_others_use(check, lines, found):
    """The async proxy and other CTAs see an mbarrier that a fence has made visible: the one that they use."""
    assert errors(check, lines, "note") == found


SOMEWHERE = "shl.b32 r8, n, 4; add.u32 r8, r8, at;"


@pytest.mark.parametrize(
    ("lines", "found", "warned"),
    [
        ([SOMEWHERE, STORE.replace("r9", "r8"), SYNC, ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], [], [(4, PROXY)]),
        ([SOMEWHERE, STORE.replace("r9", "r8"), FENCE, SYNC, ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], [], []),
        ([SOMEWHERE, READ.replace("r9", "r8"), SYNC, ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], [], []),
        (["mov.u32 r5, next;" + SOMEWHERE.replace("at;", "r5;"), STORE.replace("r9", "r8"), SYNC, ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], [], []),
        ([ONE, OUT, OUT_COMMIT, "rest:", SYNC, SOMEWHERE, STORE.replace("r9", "r8")], [(6, OVERWRITE)], []),
        ([ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:", SYNC, SOMEWHERE, STORE.replace("r9", "r8")], [], []),
        ([ONE, OUT, OUT_COMMIT, "rest:", SYNC, SOMEWHERE, READ.replace("r9", "r8")], [], [(6, OVERWRITE)]),
    ],
)  # fmt: skip
def test_somewhere_in_a_variable(check, lines, found, warned):
    """An access at an unknown place of the variable: a warning where only a fence lacks; other variables are no matter."""
    assert errors(check, lines) == found
    assert [f for f in errors(check, lines, "warning") if f[1] == PROXY] == [f for f in warned if f[1] == PROXY]


def test_the_end_of_the_kernel(check):
    """A bulk store is waited for before its thread leaves."""
    assert errors(check, [ONE, OUT, OUT_COMMIT, "rest:"], "warning") == [(4, OVERWRITE)]
    assert errors(check, [ONE, OUT, OUT_WAIT, "rest:"], "warning") == [(4, OVERWRITE)]
    assert errors(check, [ONE, OUT, OUT_COMMIT, OUT_WAIT, "rest:"], "warning") == []


def test_copies_read_by_wgmma(check):
    """cp.async, waited for, then wgmma without a proxy fence: compilers rely on it."""
    lines = [MINE, COPY, COMMIT, WAIT, SYNC, DESCRIPTOR, PRODUCT, DONE]

    assert check(*lines) == [(6, PROXY, "note")]
    assert check(*lines[:4], FENCE, *lines[4:]) == []


def without(lines, text, number=0):
    """A kernel without the n-th occurrence of an instruction, and the line where it stood."""
    at = [k for k, line in enumerate(lines) if text in line][number]
    changed = list(lines)
    changed[at] = re.sub(rf"(@!?%?\w+\s+)?{re.escape(text)}[^;]*;", "", changed[at])
    return changed, at + 1


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(n, marks=pytest.mark.long) for n in ("attention", "gemm_fp8_mixed", "gemm_pingpong")),
        "bulk_stream",
        pytest.param("gemm_ss_f16", marks=pytest.mark.long),
    ],
)
def test_recorded_initialisations(name):
    """Without the fence after mbarrier.init the first bulk load is named, with the first object."""
    lines = recorded(name)
    text = "fence.mbarrier_init" if any("fence.mbarrier_init" in line for line in lines) else "fence.proxy.async"
    changed, _ = without(lines, text)
    found = [f for f in findings(changed) if f[1] == MBARRIER]

    assert len(found) == 1
    assert "cp.async.bulk" in lines[found[0][0] - 1]
    assert "mbarrier.init" in lines[found[0][3] - 1]


@pytest.mark.parametrize(("name", "number"), [("box_2d_128b", 0), ("attention", 1)])
def test_recorded_waits(name, number):
    """Without the wait for a box, reading it is named."""
    changed, _ = without(recorded(name), "mbarrier.try_wait", number)

    assert EARLY in {f[1] for f in findings(changed) if f[2] == "error"}


def test_waits_for_others_change_nothing():
    """A wait of the operations of one kind leaves those of another as they were."""
    from warpsim.analysis.dataflow import GroupStates

    for states in (GroupStates(open=1), GroupStates(lost=1), GroupStates(ages=(1, 0, 0, 0, 0, 0, 0, 0))):
        assert states.waited(2, 0) == states
        assert states.waited(1, 0) != states
