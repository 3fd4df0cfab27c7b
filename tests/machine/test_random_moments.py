"""Random orders let asynchronous operations act one by one, at any moment between issue and completion."""

import numpy as np
import pytest

import warpsim
from warpsim.host.cases import run_case
from warpsim.machine.state.schedule import Schedule

ROOT = __file__.rsplit("tests", 1)[0]
HEAD = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{
.reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .f32 %f<8>;
.shared .align 1024 .b8 smem[4096];
.shared .align 8 .b8 bar[8];
ld.param.u64 %rd1, [out];
ld.param.u64 %rd2, [in];
mov.u32 %r1, %tid.x;
mov.u32 %r2, smem;
mov.u32 %r20, bar;
setp.eq.u32 %p1, %r1, 0;
shl.b32 %r3, %r1, 4;
add.u32 %r4, %r2, %r3;
"""
TWICE = (
    HEAD
    + """
@%p1 mbarrier.init.shared.b64 [%r20], 1;
@%p1 fence.mbarrier_init.release.cluster;
bar.sync 0;
add.u64 %rd3, %rd2, 16;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r20], 32;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 16, [%r20];
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd3], 16, [%r20];
AGAIN: mbarrier.try_wait.parity.shared.b64 %p3, [%r20], 0;
@!%p3 bra AGAIN;
ld.shared.b32 %r5, [%r2];
@%p1 st.global.b32 [%rd1], %r5;
ret;
}
"""
)
PRODUCTS = (
    HEAD
    + """
mov.b32 %r5, 0x3C003C00;
mov.b32 %r9, 0;
st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5};
st.shared.v4.b32 [%r4+2048], {%r5, %r5, %r5, %r5};
mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
add.u32 %r6, %r5, %r9; add.u32 %r7, %r5, %r9; add.u32 %r8, %r5, %r9;
fence.proxy.async;
bar.sync 0;
shr.u32 %r10, %r2, 4;
cvt.u64.u32 %rd6, %r10;
or.b64 %rd7, %rd6, 0x1000080000;
add.u64 %rd8, %rd7, 128;
mov.pred %p2, 1;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd7, %rd8, %p2, 1, 1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, {%r5, %r6, %r7, %r8}, %rd8, %p2, 1, 1, 0;
wgmma.commit_group.sync.aligned;
// early
wgmma.wait_group.sync.aligned 0;
mul.wide.u32 %rd3, %r1, 4;
add.u64 %rd4, %rd1, %rd3;
st.global.f32 [%rd4], %f1;
ret;
}
"""
)
EARLY = "st.shared.v4.b32 [%r4+2048], {%r9, %r9, %r9, %r9}; fence.proxy.async; bar.sync 0;"
SEEDS = [seed for seed in range(80) if Schedule.of(seed).late and Schedule.of(seed).lands >= 0.3]


def results(text, size, seeds):
    """What a launch without checks gives in each order."""
    kernel, found = warpsim.load(text)["k"], set()
    for seed in seeds:
        out = np.zeros(size, np.float32 if size > 1 else np.uint32)
        kernel(1, 128, (out, np.repeat(np.uint32([1, 2]), 4)), checks="none", schedule=seed)
        found |= set(out.tolist())
    return found


def test_copies_overtake_each_other():
    """Two copies to the same place: either may come last. At the two usual moments it is the second."""
    assert results(TWICE, 1, SEEDS) == {1, 2}


def test_products_one_by_one():
    """B is zeroed while two wgmma are in flight: both have read ones (33), or none (1), or the first alone."""
    assert 17.0 in results(PRODUCTS.replace("// early", EARLY), 128, SEEDS) <= {33.0, 17.0, 1.0}


def test_whoever_waits_has_one_result():
    """A from registers that were written last is read as the group holds it."""
    kernel = warpsim.load(PRODUCTS)["k"]
    for seed in SEEDS[:8]:
        out = np.zeros(128, np.float32)
        result = kernel(1, 128, (out, np.zeros(8, np.uint32)), schedule=seed, checks="all")
        assert set(out.tolist()) == {33.0}, seed
        assert result.findings == (), seed


@pytest.mark.parametrize("name", ["cluster_multicast", pytest.param("split_barrier", marks=pytest.mark.long)])
def test_phases_that_copies_ended_before_anyone_looked(name):
    """Copies that acted before the last of their phase are complete, too, when that one is seen to end it."""
    for seed in SEEDS[:2]:
        assert run_case(f"{ROOT}tests/cases/{name}", schedule=seed).bits_equal, seed
