"""Many copies in flight at once: each is watched for its own CTA and bytes, at no cost for the others."""

import time

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 source, .param .u64 out)
{{
.reg .pred p, q; .reg .b32 t, c, n, s, bar, v, at, i; .reg .b64 x, o, w;
.shared .align 128 .b8 tile[32768]; .shared .align 8 .b64 object;
mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; mov.u32 s, tile; mov.u32 bar, object; ld.param.u64 x, [source]; ld.param.u64 o, [out];
shl.b32 n, c, 4; add.u32 n, n, 16384;
setp.ne.u32 p, t, 0; @p bra READY;
mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], n;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [x], n, [bar];
READY: bar.sync 0;
{early}
WAIT: mbarrier.try_wait.parity.shared.b64 q, [bar], 0; @!q bra WAIT;
add.u32 at, s, n; sub.u32 at, at, 4; ld.shared.b32 v, [at];
mul.wide.u32 w, c, 4; add.u64 o, o, w; @!p st.global.b32 [o], v;
ret;
}}
"""
CTAS = 48


def launch(early=""):
    """What each CTA finds in the last word that it has loaded; CTA c loads 16384 + 16 c bytes."""
    source, out = np.arange(8192, dtype=np.uint32), np.zeros(CTAS, np.uint32)
    result = warpsim.load(KERNEL.format(early=early))["k"](CTAS, 128, (source, out), on_finding="collect")
    return out, result.findings


def test_copies_of_many_ctas_cost_little():
    """Copies of a size of its own for each CTA, which the batch starts one after the other, do not look at each other."""
    launch()
    started = time.process_time()
    out, findings = launch()

    assert out.tolist() == [4095 + 4 * c for c in range(CTAS)]
    assert findings == ()
    assert time.process_time() - started < 2  # 17 where each copy looks at the bytes of all others in all CTAs


@pytest.mark.parametrize(
    ("early", "found"),
    [
        (
            "setp.eq.u32 q, c, 5; add.u32 at, s, 16460; @q ld.shared.b32 v, [at]; @q st.global.b32 [o], v;",
            5,
        ),  # in its last 16 bytes
        (
            "setp.eq.u32 q, c, 5; add.u32 at, s, 16464; @q ld.shared.b32 v, [at]; @q st.global.b32 [o], v;",
            None,
        ),  # behind them
        ("setp.eq.u32 q, c, 7; add.u32 at, s, 16495; @q st.shared.b8 [at], v;", 7),
        ("setp.eq.u32 q, c, 7; add.u32 at, s, 16496; @q st.shared.b8 [at], v;", None),
    ],
)
def test_bytes_of_the_own_copy(early, found):
    """An access too early is one to bytes that the CTA's own copy writes, and names the CTA."""
    _, findings = launch(early)
    early = [f for f in findings if f.rule == "async-read-early"]

    assert [f.cta[0] for f in early] == ([] if found is None else [found])


BARE = """.version 8.7\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 p, .param .u64 o)
{
    .reg .b32 %r<4>; .reg .b64 %rd<9>; .reg .pred %p; .shared .align 128 .b8 all[1024];
    ld.param.u64 %rd2, [p]; ld.param.u64 %rd6, [o]; mov.u64 %rd1, 512; mov.u64 %rd4, 32; mov.u32 %r1, 32;
    mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd1], [%rd2], 16, BAR;
wait: mbarrier.try_wait.parity.shared.b64 %p, [%r1], 0;
    @!%p bra wait;
    ld.shared.u32 %r2, [all+516]; st.global.u32 [%rd6], %r2;
    ret;
}
"""


@pytest.mark.parametrize("barrier", ["[%rd4]", "%rd4", "32", "WARP_SZ"])
def test_the_address_of_an_mbarrier_without_brackets(barrier):
    """ptxas 13.0 makes the same code of a register, a number, and the bracketed register that holds it."""
    out = np.zeros(1, np.uint32)
    warpsim.load(BARE.replace("BAR", barrier))["k"]((1,), (1,), (np.arange(4, dtype=np.uint32) + 7, out))

    assert out.tolist() == [8]
