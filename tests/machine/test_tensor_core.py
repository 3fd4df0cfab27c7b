"""tcgen05.commit and tcgen05.fence without operations: arrivals at mbarriers of one CTA and of several."""

from __future__ import annotations

import numpy as np
import pytest

import warpsim

HEAD = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<6>; .reg .b16 %h<4>; .reg .b32 %r<30>; .reg .b64 %rd<20>;
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %ctaid.x;
mul.wide.u32 %rd2, %r3, 4; add.u64 %rd3, %rd1, %rd2;
setp.eq.u32 %p1, %r1, 0;
mov.u32 %r5, bar;
"""
TAIL = "\n@%p1 st.global.b32 [%rd3], %r20;\nret;\n}\n"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
WAIT = "wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra wait; tcgen05.fence::after_thread_sync;"


def run(body: str, *, grid: int = 1, cluster: int = 1, **options: object) -> list[int]:
    """What each CTA left in %r20."""
    out = np.zeros(grid, np.uint32)
    warpsim.load(HEAD + body + TAIL)["k"]((grid,), (32,), (out,), cluster=cluster, checks="all", **options)
    return out.tolist()


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("space", ["", ".shared::cluster"])
def test_commit_arrives_once(space: str, effects: str) -> None:
    """Two commits complete a phase that expects two arrivals, at a generic address and at one of shared memory."""
    address = "%r5" if space else "%rd5"
    commit = f"@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one{space}.b64 [{address}];"
    body = f"""
    cvt.u64.u32 %rd4, %r5; cvta.shared.u64 %rd5, %rd4;
    @%p1 mbarrier.init.shared.b64 [%r5], 2;
    bar.sync 0;
    tcgen05.fence::before_thread_sync;
    {commit} {commit}
    {WAIT}
    mov.u32 %r20, 7;
    """

    assert run(body, async_effects=effects) == [7]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_multicast(effects: str) -> None:
    """Rank 0 arrives at the mbarriers of ranks 1 and 3, whose CTAs go on; rank 2 does not wait."""
    body = f"""
    @%p1 mbarrier.init.shared.b64 [%r5], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    {SYNC}
    mov.u16 %h1, 10; setp.eq.u32 %p3, %r2, 0; and.pred %p3, %p3, %p1;
    @%p3 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], %h1;
    and.b32 %r6, %r2, 1; setp.eq.u32 %p4, %r6, 0;
    @%p4 bra after;
    {WAIT}
    after:
    mbarrier.test_wait.parity.shared.b64 %p5, [%r5], 0; selp.u32 %r20, 1, 0, %p5;
    {SYNC}
    """

    assert run(body, grid=4, cluster=4, async_effects=effects) == [0, 1, 0, 1]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_multicast_to_nobody(effects: str) -> None:
    """A commit whose mask is empty arrives nowhere."""
    body = """
    @%p1 mbarrier.init.shared.b64 [%r5], 1;
    bar.sync 0;
    mov.u16 %h1, 0;
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], %h1;
    mbarrier.test_wait.parity.shared.b64 %p5, [%r5], 0; selp.u32 %r20, 1, 2, %p5;
    """

    assert run(body, async_effects=effects) == [2]


def test_one_commit_is_one_arrival() -> None:
    """One commit does not complete a phase that expects two arrivals."""
    body = f"""
    @%p1 mbarrier.init.shared.b64 [%r5], 2;
    bar.sync 0;
    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];
    {WAIT}
    """

    with pytest.raises(warpsim.ExecutionError, match="can never complete"):
        run(body)


@pytest.mark.parametrize(
    "operation",
    [
        "tcgen05.mma.cta_group::2.kind::f16 [%r1], %d1, %d1, 0x8400010, %p;",
        "tcgen05.cp.cta_group::2.128x256b [%r1], %d1;",
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar];",
    ],
)
def test_half_a_pair(operation):
    """An operation of .cta_group::2 in a launch without clusters."""
    text = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k() {
.reg .pred %p; .reg .b32 %r<2>; .reg .b64 %d<2>; .shared .align 8 .b64 bar; .shared .align 1024 .b8 s[16384];
mbarrier.init.shared.b64 [bar], 1; mov.b32 %r1, 0; mov.b64 %d1, 0x4000404000010000; setp.eq.u32 %p, %r1, 1;
OPERATION ret; }"""

    with pytest.raises(warpsim.ExecutionError, match="by a CTA without a peer"):
        warpsim.load(text.replace("OPERATION", operation))["k"]((1,), (1,), ())
