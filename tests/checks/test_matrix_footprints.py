"""What wgmma in flight reads is known for each CTA by itself: warpgroups that run side by side may stand at other tiles."""

import numpy as np
import pytest

import warpsim

KERNEL = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 written)
{
.reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<12>; .reg .f32 %f<8>;
.shared .align 1024 .b8 smem[8192];
ld.param.u64 %rd1, [out];
ld.param.u32 %r10, [written];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, smem;
mov.b32 %r5, 0x3C003C00;
shl.b32 %r6, %r1, 5;
add.u32 %r6, %r6, %r3;
st.shared.v4.b32 [%r6], {%r5, %r5, %r5, %r5};
st.shared.v4.b32 [%r6+16], {%r5, %r5, %r5, %r5};
fence.proxy.async;
bar.sync 0;
shr.u32 %r7, %r1, 7;
and.b32 %r7, %r7, %r2;
setp.eq.u32 %p1, %r7, 1;
@%p1 bra DONE; // the second warpgroup of CTA 1: those that go on are no product of warps and CTAs
shl.b32 %r8, %r2, 12;
add.u32 %r8, %r8, %r3; // CTA 0 reads the first tile, CTA 1 the second
shr.u32 %r9, %r8, 4;
cvt.u64.u32 %rd2, %r9;
or.b64 %rd3, %rd2, 0x1000080000;
add.u64 %rd4, %rd3, 128;
mov.pred %p2, 0;
setp.eq.u32 %p3, %r1, 0;
shl.b32 %r11, %r10, 12;
add.u32 %r11, %r11, %r8;
and.b32 %r11, %r11, 4096;
add.u32 %r11, %r11, %r3;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd3, %rd4, %p2, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
@%p3 st.shared.b32 [%r11], %r1;
wgmma.wait_group.sync.aligned 0;
@%p3 st.shared.b32 [%r8], %r1;
shl.b32 %r12, %r2, 8;
add.u32 %r12, %r12, %r1;
mul.wide.u32 %rd5, %r12, 4;
add.u64 %rd6, %rd1, %rd5;
st.global.f32 [%rd6], %f1;
DONE:
ret;
}
"""


def launched(written, effects):
    """Two CTAs, of which one has lost a warpgroup; each writes the tile ``written`` behind its own."""
    out = np.zeros(512, np.float32)
    result = warpsim.load(KERNEL)["k"](
        2, 256, (out, written), checks="default-race", on_finding="collect", async_effects=effects
    )
    return out, result.findings


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_another_tile_may_be_written(effects):
    """The tile that is multiplied in another CTA is nobody's in this one, and what has been waited for is free."""
    out, findings = launched(1, effects)

    assert findings == ()
    assert out.tolist() == [16.0] * 384 + [0.0] * 128


def test_its_own_tile_may_not():
    """In each CTA the write meets what its own warpgroups read: two of the one, one of the other."""
    _, findings = launched(0, "eager")

    assert [(f.rule, f.line, f.cta) for f in findings] == [
        ("async-smem-overwrite", 1 + KERNEL[: KERNEL.index("@%p3 st.shared.b32 [%r11]")].count("\n"), (0, 0, 0))
    ]
    assert findings[0].count == 3
