"""Lanes whose guard is false take no part, whatever their registers hold: their addresses, counts and sizes are nobody's fault."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

LINES = """
mbarrier.init.shared.b64 [fresh], n;
mbarrier.arrive.shared.b64 u, [bar], n;
mbarrier.arrive_drop.shared.b64 u, [bar], n;
mbarrier.arrive.noComplete.shared.b64 u, [bar], n;
mbarrier.arrive.expect_tx.shared.b64 u, [bar], n;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [bar], n;
mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], n;
mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], n;
mbarrier.inval.shared.b64 [bar];
mbarrier.test_wait.parity.shared.b64 q, [bar], n;
mbarrier.test_wait.shared.b64 q, [bar], state;
mbarrier.try_wait.parity.shared.b64 q, [bar], n;
mbarrier.pending_count.b64 r, state;
ld.shared.b32 r, [s];
ld.shared.v4.b32 {r, r1, r2, r3}, [s];
ld.shared::cluster.b32 r, [s];
st.shared.b64 [s], u;
st.shared.v2.b64 [s], {u, u};
ld.global.b32 r, [g];
ld.global.nc.v2.b64 {u, v}, [g];
ld.b32 r, [g];
ld.b64 u, [w];
ld.volatile.global.b32 r, [g];
ld.acquire.gpu.global.b32 r, [g];
st.global.b32 [g], n;
st.release.gpu.global.b32 [g], n;
st.b64 [g], u;
st.b64 [w], u;
ld.local.b32 r, [l];
st.local.b32 [l], n;
ld.const.b32 r, [c];
ld.param.b32 r, [par];
ld.param.b64 u, [par64];
atom.global.add.u32 r, [g], n;
atom.shared.cas.b32 r, [s], n, n;
atom.add.u32 r, [w], n;
red.global.max.u32 [g], n;
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [s], n, [bar];
st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [s], n, [bar];
cp.async.ca.shared.global [s], [g], 4;
cp.async.cg.shared.global [s], [g], 16, size;
cp.async.mbarrier.arrive.shared.b64 [bar];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [g], size, [bar];
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [s], size, [bar];
cp.async.bulk.global.shared::cta.bulk_group [g], [s], size;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [g], [s], size;
cp.async.bulk.prefetch.L2.global [g], size;
prefetch.global.L2 [g];
prefetchu.L1 [g];
applypriority.global.L2::evict_normal [g], 128;
discard.global.L2 [g], 128;
mapa.shared::cluster.u32 r, s, k;
getctarank.shared::cluster.u32 r, s;
alloca.u64 v, size64;
brx.idx k, targets;
call f, (), P;
shfl.sync.idx.b32 r, n, k, 31, only;
vote.sync.any.pred q, p, only;
match.any.sync.b32 r, n, only;
redux.sync.add.u32 r, n, only;
bar.warp.sync only;
""".strip().split("\n")
MODULE = """.const .align 16 .b8 table[64];
.func callee() { ret; }
.visible .entry k(.param .align 16 .b8 struct[64], .param .u64 out, .param .u64 odd) {
.shared .align 128 .b8 room[512]; .local .align 16 .b8 own[64];
.reg .pred p, q; .reg .b32 t, n, r, r1, r2, r3, s, to, size, l, c, k, bar, fresh, only, par; .reg .b32 o32; .reg .b64 o, par64, g, w, u, v, state, size64, f;
mov.u32 t, %tid.x; setp.eq.u32 p, t, 5; @!p bra others;
mov.b32 n, 1; mov.b32 size, 16; mov.b64 size64, 16; mov.b32 k, 0; mov.b32 only, 32; ld.param.u64 g, [out];
mov.b32 s, room; add.u32 to, s, 128; add.u32 bar, s, 256; add.u32 fresh, s, 264; cvt.u64.u32 w, s; cvta.shared.u64 w, w;
mov.b32 l, own; mov.b32 c, table; mov.b64 par64, struct; cvt.u32.u64 par, par64; mov.b64 f, callee;
mbarrier.init.shared.b64 [bar], 5; fence.mbarrier_init.release.cluster; st.shared.v4.b32 [s], {n, n, n, n};
st.local.b64 [l], g; fence.proxy.async; mbarrier.arrive.shared.b64 state, [bar]; mov.b64 u, state;
bra both;
others: ld.param.u64 o, [odd]; cvt.u32.u64 o32, o;
mov.b32 n, o32; mov.b32 size, o32; mov.b64 size64, o; mov.b32 k, o32; mov.b32 only, o32; mov.b64 g, o;
mov.b32 s, o32; mov.b32 to, o32; mov.b32 bar, o32; mov.b32 fresh, o32; mov.b64 w, o;
mov.b32 l, o32; mov.b32 c, o32; mov.b32 par, o32; mov.b64 par64, o; mov.b64 f, o; mov.b64 state, o; mov.b64 u, o;
both: bar.warp.sync -1;
targets: .branchtargets end; P: .callprototype _ ();
@p LINE
end: ret; }
"""


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[pytest.mark.long] * (number % 4 > 0)) for number, line in enumerate(LINES)]
)
def test_whatever_they_hold(line: str) -> None:
    """Nothing is reported, and what the lane that takes part leaves in memory does not depend on the others."""
    kernel = warpsim.load(module_head("sm_90a", "8.7") + MODULE.replace("LINE", line))["k"]
    left = []
    for odd in (0, -1, 3, 0x7FFFFFFF, 0x00100000):
        for threads in (32, 64):
            out = np.zeros(64, np.uint32)
            result = kernel((1,), (threads,), (bytes(64), out, odd & (1 << 64) - 1), checks="all", on_finding="collect")

            assert [f for f in result.findings if f.severity == "error"] == [], odd
            left.append(out.tolist())

    assert left == left[:1] * len(left)
