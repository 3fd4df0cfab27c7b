"""Barriers of CTAs that stand at different places: what one CTA does says nothing of another."""

import numpy as np
import pytest

import warpsim

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 lock, .param .u64 to) {
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [lock]; ld.param.u64 %rd2, [to];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, -1;
"""
TURNS = (
    HEAD
    + """    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra VOTE;
LOOK: ld.global.acquire.gpu.b32 %r3, [%rd1];
VOTE: setp.ne.s32 %p2, %r3, %r1;
    bar.red.and.pred %p3, 0, %p2;
    @!%p3 bra MINE;
    @%p1 bra VOTE;
    bra.uni LOOK;
MINE: bar.sync 0;
    mad.lo.u32 %r4, %r1, 64, %r2; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd3, %rd3, %rd2;
    st.global.u32 [%rd3], %r4;
    bar.sync 0;
    @%p1 ret;
    add.s32 %r5, %r1, 1;
    st.global.release.gpu.b32 [%rd1], %r5;
    ret; }"""
)
MIXED = (
    HEAD
    + """    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra FIRST;
    setp.lt.u32 %p2, %r2, 32;
    @%p2 bra VOTE;
    bar.sync 0;
    ret;
VOTE: mul.lo.u32 %r4, %r2, %r2; mul.lo.u32 %r4, %r4, %r2; mul.lo.u32 %r4, %r4, %r2; mul.lo.u32 %r4, %r4, %r2;
    bar.red.and.pred %p3, 0, %p1;
    ret;
FIRST: setp.lt.u32 %p2, %r2, 32;
    @%p2 bra THERE;
    bar.sync 0;
THERE: bar.sync 0;
    ret; }"""
)


@pytest.mark.parametrize("n", [2, 5])
def test_turns(n):
    """CTAs wait for their turn with a vote, as CUTLASS's semaphore does, while others are past it."""
    lock, to = np.zeros(1, np.int32), np.zeros(64 * n, np.uint32)

    warpsim.load(TURNS)["k"]((n,), (64,), (lock, to))

    assert lock[0] == n
    assert (to == np.arange(64 * n)).all()


def test_the_cta_that_mixes():
    """The finding names the CTA in which some vote and others do not, and where those of it stand."""
    with pytest.raises(warpsim.ExecutionError, match=r"is used with \.red here") as caught:
        warpsim.load(MIXED)["k"]((3,), (64,), (np.zeros(1, np.int32), np.zeros(1, np.uint32)))

    found = caught.value.findings[0]
    assert (found.cta, found.warp, found.line, found.other.line) == ((1, 0, 0), 0, 15, 12)
