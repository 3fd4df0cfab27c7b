"""Swizzled tiles for wgmma that begin at multiples of 128 bytes: the pattern lies at absolute multiples of its size."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map_a[128], .param .align 64 .b8 map_b[128], .param .u64 out)
{{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<4>;
.shared .align 1024 .b8 tile[16384];
.shared .align 8 .b64 bar;
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r5, 0;
cvta.param.u64 %rd1, map_a; cvta.param.u64 %rd2, map_b; ld.param.u64 %rd3, [out];
add.u32 %r6, %r2, {a}; add.u32 %r7, %r2, {b};
@%p1 mbarrier.init.shared.b64 [%r3], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {nbytes};
@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd1, {{%r5, %r5}}], [%r3];
@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%rd2, {{%r5, %r5}}], [%r3];
L: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra L;
{rewrite}
shr.u32 %r8, %r6, 4; cvt.u64.u32 %rd4, %r8; or.b64 %rd4, %rd4, {fields_a};
shr.u32 %r8, %r7, 4; cvt.u64.u32 %rd5, %r8; or.b64 %rd5, %rd5, {fields_b};
setp.ne.u32 %p3, %r5, 0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd4, %rd5, %p3, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
mul.wide.u32 %rd6, %r1, 16; add.u64 %rd3, %rd3, %rd6; st.global.v4.f32 [%rd3], {{%f0, %f1, %f2, %f3}};
ret;
}}
"""
FILL = """mov.u32 %r9, 0x3C003C00; shl.b32 %r10, %r1, 4; add.u32 %r10, %r10, %r2; mov.u32 %r11, 0;
F: st.shared.v4.b32 [%r10], {%r9, %r9, %r9, %r9}; add.u32 %r10, %r10, 2048; add.u32 %r11, %r11, 1;
setp.lt.u32 %p2, %r11, 8; @%p2 bra F; fence.proxy.async; bar.sync 0;"""
MODES = {128: 1 << 62, 64: 2 << 62, 32: 3 << 62}


def product(span, rows_in, base=0, rewrite=""):
    """D ``[64, 8]`` of tiles that begin ``rows_in`` rows of 128 bytes behind a multiple of 1024, and its exact value."""
    rng = np.random.default_rng(span + rows_in)
    a, b = (rng.integers(-8, 9, (n, span // 2)).astype(np.float16) for n in (64, 8))
    maps = [
        warpsim.TensorMap(
            x, global_dim=[span // 2, len(x)], global_strides=[span], box_dim=[span // 2, len(x)], swizzle=f"{span}B"
        )
        for x in (a, b)
    ]
    fields = MODES[span] | 8 * span >> 4 << 32 | 1 << 16
    text = KERNEL.format(
        a=128 * rows_in,
        b=10240 + 128 * rows_in,
        nbytes=72 * span,
        rewrite=rewrite,
        fields_a=fields | base << 49,
        fields_b=fields,
    )
    out = np.zeros((128, 4), np.float32)
    result = warpsim.load(text)["k"](1, 128, (*maps, out), checks="all", on_finding="collect")
    thread = np.arange(128)
    d = np.zeros((64, 8), np.float32)
    for i in range(4):  # PTX ISA, layout of D of wgmma .m64nNk16
        d[16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2), thread % 4 * 2 + i % 2] = out[:, i]
    return d, a[:, :16].astype(int) @ b[:, :16].astype(int).T, result.findings


@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("rows_in", [0, 1, 5, 7])
def test_tiles_of_copies_begin_anywhere(span, rows_in):
    """Copies anchor their swizzle as descriptors with base offset 0 do: the product is right, and nothing is reported."""
    d, expected, findings = product(span, rows_in)

    assert findings == ()
    assert d.astype(int).tolist() == expected.tolist()


@pytest.mark.parametrize("span", [32, 64, 128])
def test_a_base_offset_that_the_copy_did_not_have(span):
    """A base offset that fits the start address reads other bytes than a copy has put there."""
    d, expected, findings = product(span, 1, base=1)

    assert [f.rule for f in findings] == ["descriptor"]
    assert "laid out the tile" in findings[0].message
    assert d.astype(int).tolist() != expected.tolist()


def test_a_base_offset_for_what_threads_wrote():
    """How threads have laid out a tile nobody knows: a base offset that fits the start address is silent."""
    d, _, findings = product(128, 1, base=1, rewrite=FILL)

    assert findings == ()
    assert (d == 16).all()
