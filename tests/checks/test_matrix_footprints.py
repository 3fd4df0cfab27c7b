"""What wgmma in flight reads is known for each CTA by itself: warpgroups that run side by side may stand at other tiles."""

import numpy as np
import pytest

import warpsim
from asynchronous_kernels import HEAD, TAIL, line_of

KERNEL = (
    HEAD
    + """
ld.global.u32 %r10, [%rd2];
mov.u32 %r11, %ctaid.x;
mov.b32 %r5, 0x3C003C00;
st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5};
st.shared.v4.b32 [%r4+4096], {%r5, %r5, %r5, %r5};
fence.proxy.async;
bar.sync 0;
shr.u32 %r7, %r1, 7;
and.b32 %r7, %r7, %r11;
setp.eq.u32 %p3, %r7, 1;
@%p3 bra DONE; // the second warpgroup of CTA 1: those that go on are no product of warps and CTAs
shl.b32 %r8, %r11, 12;
add.u32 %r8, %r8, %r2; // CTA 0 reads the first tile, CTA 1 the second
shr.u32 %r9, %r8, 4;
cvt.u64.u32 %rd6, %r9;
or.b64 %rd7, %rd6, 0x1000080000;
add.u64 %rd8, %rd7, 128;
mov.pred %p2, 0;
shl.b32 %r12, %r10, 12;
add.u32 %r12, %r12, %r8;
and.b32 %r12, %r12, 4096;
add.u32 %r12, %r12, %r2;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd7, %rd8, %p2, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
@%p1 st.shared.b32 [%r12], %r1;//@written
wgmma.wait_group.sync.aligned 0;
@%p1 st.shared.b32 [%r8], %r1;
shl.b32 %r13, %r11, 8;
add.u32 %r13, %r13, %r1;
mul.wide.u32 %rd9, %r13, 4;
add.u64 %rd10, %rd1, %rd9;
st.global.f32 [%rd10], %f1;
DONE:
"""
    + TAIL
)


def launched(written, effects):
    """Two CTAs, of which one has lost a warpgroup; each writes the tile ``written`` behind its own."""
    out = np.zeros(512, np.float32)
    result = warpsim.load(KERNEL)["k"](
        2,
        256,
        (out, np.uint32([written]), bytes(128)),
        checks="default-race",
        on_finding="collect",
        async_effects=effects,
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
        ("async-smem-overwrite", line_of(KERNEL, "written"), (0, 0, 0))
    ]
    assert findings[0].count == 3


ALONE = (
    HEAD
    + """
mov.b32 %r5, 0x3C003C00;
st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5};
fence.proxy.async;
bar.sync 0;
shr.u32 %r7, %r1, 7;
setp.READS.u32 %p3, %r7, 2;
shr.u32 %r9, %r2, 4;
cvt.u64.u32 %rd6, %r9;
or.b64 %rd7, %rd6, 0x1000080000;
mov.pred %p2, 0;
@!%p3 bra WRITE;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd7, %rd7, %p2, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
WRITE: setp.eq.u32 %p4, %r1, WRITER;
@%p4 st.shared.b32 [%r2], %r1;
"""
    + TAIL
)


@pytest.mark.parametrize(("reads", "writer", "races"), [
    ("lt", 0, True), ("eq", 256, False), ("eq", 300, False), ("eq", 128, True), ("ge", 256, True), ("ge", 384, True), ("ge", 0, True),
])  # fmt: skip
def test_each_warpgroup_has_waited_for_itself(reads, writer, races):
    """Of four warpgroups, a thread writes what its own has read and waited for; what others have read it does not know."""
    kernel = warpsim.load(ALONE.replace("READS", reads).replace("WRITER", str(writer)))["k"]
    arguments = np.zeros(512, np.float32), np.zeros(1, np.uint32), bytes(128)
    found = kernel(1, 512, arguments, checks="race", on_finding="collect").findings

    assert bool(found) == races


TILES = (
    HEAD
    + """
mov.b32 %r5, 0x3C003C00;
st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5};
st.shared.v4.b32 [%r4+4096], {%r5, %r5, %r5, %r5};
fence.proxy.async;
bar.sync 0;
shr.u32 %r7, %r1, 7;
shl.b32 %r8, %r7, 12;
add.u32 %r8, %r8, %r2; // each warpgroup has its own tile
shr.u32 %r9, %r8, 4;
cvt.u64.u32 %rd6, %r9;
or.b64 %rd7, %rd6, 0x1000080000;
add.u64 %rd8, %rd7, 128;
mov.pred %p2, 0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd7, %rd8, %p2, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
setp.eq.u32 %p3, %r7, 1;
@%p3 bra SECOND;
wgmma.wait_group.sync.aligned 0;
st.shared.b32 [%r8], %r1;
bra DONE;
SECOND:
wgmma.wait_group.sync.aligned 0;
st.shared.b32 [%r8], %r1;
DONE:
"""
    + TAIL
)


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_a_tile_is_free_when_its_warpgroup_has_waited(effects):
    """Two warpgroups begin together; each writes its own tile after its own wait, whatever the other one does."""
    result = warpsim.load(TILES)["k"](
        2,
        256,
        (np.zeros(1), np.zeros(1), bytes(128)),
        checks="default-race",
        on_finding="collect",
        async_effects=effects,
    )

    assert not result.findings
