"""Several copies in flight over the same bytes: each is watched until its own completion is seen, whatever came after it."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 out)
{{
.reg .pred p, q, p1; .reg .b32 t, s, d, b0, b1, v, four; .reg .b64 x, o;
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bars[2]; .reg .b32 mine;
mov.u32 t, %tid.x; setp.eq.u32 p, t, 0; setp.eq.u32 p1, t, 1; mov.u32 s, tile; add.u32 d, s, 512; mov.u32 b0, bars;
add.u32 b1, b0, 8; ld.param.u64 x, [source]; ld.param.u64 o, [out]; mov.u32 four, 0;
shl.b32 v, t, 5; add.u32 v, v, s; shl.b32 mine, t, 3; add.u32 mine, mine, b0;
st.shared.v4.b32 [v], {{four, four, four, four}}; st.shared.v4.b32 [v+16], {{four, four, four, four}};
@p mbarrier.init.shared.b64 [b0], 1; @p mbarrier.init.shared.b64 [b1], 1; @p fence.mbarrier_init.release.cluster;
fence.proxy.async; bar.sync 0;
{copies}
bar.sync 0; @!p bra END;
{access}
END: ret;
}}
"""
EXPECT = "@p mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], 64;"
LOAD = EXPECT + "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [x], 64, [{bar}];//@{bar}"
SEND = (
    EXPECT
    + "@p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [d+{at}], [s], 64, [{bar}];//@{bar}"
)
REDUCE = (
    EXPECT
    + "@p cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [s], [d+{at}], 64,"
    " [{bar}];//@{bar}\n"
)
STORE = "@{p} cp.async.bulk.global.shared::cta.bulk_group [o+{at}], [s], 64; @{p} cp.async.bulk.commit_group;//@{p}"
ADD = "@{p} cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [o], [s+{at}], 64; @{p} cp.async.bulk.commit_group;//@{p}"
WAIT = "W{bar}{parity}: mbarrier.try_wait.parity.shared.b64 q, [{bar}], {parity}; @!q bra W{bar}{parity};"
RED = (
    "@p mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], 4;"
    " @p red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [s+60], t, [{bar}];//@{bar}"
)
GROUP = "@{p} cp.async.bulk.wait_group{read} 0;"
READ, WRITE, LOOK = "ld.shared.b32 v, [s+60];//@", "st.shared.b32 [s+60], t;//@", "ld.global.b32 v, [o+60];//@"


def found(copies, access, checks="async"):
    """(rule, tag of the line, tag of the other party's line) of each finding."""
    text = KERNEL.format(copies="\n".join(copies), access="\n".join(access))
    lines = text.split("\n")
    source, out = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    result = warpsim.load(text)["k"](1, 32, (source, out), on_finding="collect", checks=checks)
    tags = [[lines[n - 1].split("//@")[-1] for n in (f.line, f.other.line)] for f in result.findings]
    return [(f.rule, *tag) for f, tag in zip(result.findings, tags, strict=True)]


def bars(copy):
    """The copy twice, each at an mbarrier of its own."""
    return [copy.format(bar=bar, at=64 * k) for k, bar in enumerate(("b0", "b1"))]


def waits(*which):
    """Wait for the first phase of these mbarriers."""
    return [WAIT.format(bar=bar, parity=0) for bar in which]


@pytest.mark.parametrize(
    ("copy", "access", "rule"),
    [
        (SEND, WRITE, "async-smem-overwrite"),
        (REDUCE, READ, "async-read-early"),
        (REDUCE, WRITE, "async-read-early"),
        (RED, READ, "async-read-early"),
    ],
)
def test_copies_at_two_mbarriers(copy, access, rule):
    """Two copies of one source, or two reductions into one tile: the older one counts as much as the newer."""
    assert found(bars(copy), [*waits("b0", "b1"), access], "all") == []
    assert found(bars(copy), [*waits("b1"), access]) == [(rule, "", "b0")]
    assert found(bars(copy), [*waits("b0"), access]) == [(rule, "", "b1")]


def test_two_loads_of_one_tile():
    """The second load is too early itself; a read that waited for it alone meets the first."""
    second = ("async-read-early", "b1", "b0")

    assert found(bars(LOAD), [*waits("b1"), READ]) == [second, ("async-read-early", "", "b0")]
    assert found(bars(LOAD), [*waits("b0", "b1"), READ]) == [second]


def test_phases_end_in_order():
    """Whoever sees a phase of an mbarrier end has seen the ones before it."""
    copies = [LOAD.format(bar="b0"), "bar.sync 0;", LOAD.format(bar="b0")]

    assert found(copies, [WAIT.format(bar="b0", parity=1), READ]) == [("async-read-early", "b0", "b0")]


@pytest.mark.parametrize(
    ("copy", "read", "access", "rule"),
    [(STORE, ".read", WRITE, "async-smem-overwrite"), (ADD, "", LOOK, "async-read-early")],
)
def test_groups_of_two_threads(copy, read, access, rule):
    """Stores of two threads from one tile, and reductions of two into one run: each thread waits for its own alone."""
    copies = [copy.format(p=p, at=64 * k) for k, p in enumerate(("p", "p1"))]
    first, second = (GROUP.format(p=p, read=read) for p in ("p", "p1"))

    assert found([*copies, first, second], [access]) == []
    assert found([*copies, second], [access]) == [(rule, "", "p")]
    assert found([*copies, first], [access]) == [(rule, "", "p1")]


@pytest.mark.parametrize("late", ["b0", "b1"])
def test_reductions_of_one_step(late):
    """Two lanes reduce into one tile in one step, each at its own mbarrier: neither may be forgotten."""
    both = "setp.lt.u32 p, t, 2;" + REDUCE.format(bar="mine", at=0) + " setp.eq.u32 p, t, 0;"

    assert found([both], [*waits("b0", "b1"), READ], "all") == []
    assert found([both], [*waits("b1" if late == "b0" else "b0"), READ]) == [("async-read-early", "", "mine")]


def test_two_lanes_copy_from_one_place_of_another_cta():
    """CTA 1 writes what its own copy still reads, whatever two lanes of CTA 0 copy from the same address since."""
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to) { .reg .b32 t, c, v; .reg .b64 a, o; .reg .pred p, q; .shared .align 16 .b8 s[16];
ld.param.u64 a, [to]; mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; setp.eq.u32 p, c, 0; setp.lt.and.u32 p, t, 2, p;
setp.eq.u32 q, c, 1; setp.eq.and.u32 q, t, 0, q; mad.lo.u32 v, c, 2, t; mul.wide.u32 o, v, 16; add.u64 a, a, o;
@q st.shared.v4.u32 [s], {t, t, t, t}; @p st.shared.u32 [s], 7; fence.proxy.async.shared::cta; bar.sync 0;
@q cp.async.bulk.global.shared::cta.bulk_group [a], [s], 16;
@p cp.async.bulk.global.shared::cta.bulk_group [a], [s], 16;
@q st.shared.u32 [s], v;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret; }
"""
    run = warpsim.load(text)["k"](
        2, 32, (np.zeros(12, np.uint32),), checks="async-smem-overwrite", on_finding="collect"
    )

    assert [(f.rule, f.cta, f.line, f.other.line) for f in run.findings] == [("async-smem-overwrite", (1, 0, 0), 10, 8)]
