"""Correct kernels of a CTA of 128 threads with asynchronous operations, for tests that change them line by line.

A line ends in ``//@name``; a variant replaces named lines."""

import re

HEAD = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .align 64 .b8 map[128])
{
.reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .f32 %f<20>;
.shared .align 1024 .b8 smem[8192];
.shared .align 8 .b8 bar[16];
ld.param.u64 %rd1, [out];
ld.param.u64 %rd2, [in];
mov.u32 %r1, %tid.x;
mov.u32 %r2, smem;
mov.u32 %r20, bar;
setp.eq.u32 %p1, %r1, 0;
mul.wide.u32 %rd3, %r1, 16;
add.u64 %rd4, %rd1, %rd3;
add.u64 %rd5, %rd2, %rd3;
shl.b32 %r3, %r1, 4;
add.u32 %r4, %r2, %r3;
"""
TAIL = "\nret;//@end\n}\n"

WGMMA = (
    HEAD
    + """
mov.b32 %r5, 0x3C003C00;
st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5};
st.shared.v4.b32 [%r4+2048], {%r5, %r5, %r5, %r5};
mov.f32 %f1, 0f3F800000;
mov.f32 %f2, %f1;
mov.f32 %f3, %f1;
mov.f32 %f4, %f1;
mov.b32 %r6, %r5; mov.b32 %r7, %r5; mov.b32 %r8, %r5;//@a
fence.proxy.async;
bar.sync 0;
shr.u32 %r9, %r2, 4;
cvt.u64.u32 %rd6, %r9;
or.b64 %rd7, %rd6, 0x1000080000;//@desc
add.u64 %rd8, %rd7, 128;
setp.ne.u32 %p2, %r1, 1000;
wgmma.fence.sync.aligned;//@fence
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd7, %rd8, %p2, 1, 1, 0, 0;//@first
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, {%r5, %r6, %r7, %r8}, %rd8, %p2, 1, 1, 0;//@second
//@issued
wgmma.commit_group.sync.aligned;//@commit
//@early
wgmma.wait_group.sync.aligned 0;//@wait
//@late
st.global.v4.f32 [%rd4], {%f1, %f2, %f3, %f4};//@store
"""
    + TAIL
)

CP_ASYNC = (
    HEAD
    + """
cp.async.cg.shared.global [%r4], [%rd5], 16;//@copy
cp.async.commit_group;//@commit
//@early
cp.async.wait_group 0;//@wait
bar.sync 0;
ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r4];//@load
st.global.v4.b32 [%rd4], {%r5, %r6, %r7, %r8};
"""
    + TAIL
)

CP_ASYNC_MBARRIER = (
    HEAD
    + """
@%p1 mbarrier.init.shared.b64 [%r20], 128;//@init
bar.sync 0;
cp.async.cg.shared.global [%r4], [%rd5], 16;
cp.async.mbarrier.arrive.noinc.shared.b64 [%r20];//@arrive
AGAIN: mbarrier.try_wait.parity.shared.b64 %p3, [%r20], 0;//@wait
@!%p3 bra AGAIN;
ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r4];//@load
st.global.v4.b32 [%rd4], {%r5, %r6, %r7, %r8};
"""
    + TAIL
)

BULK = (
    HEAD
    + """
@%p1 mbarrier.init.shared.b64 [%r20], 1;//@init
//@init2
@%p1 fence.mbarrier_init.release.cluster;//@visible
bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r20], 2048;//@expect
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 2048, [%r20];//@copy
//@early
AGAIN: mbarrier.try_wait.parity.shared.b64 %p3, [%r20], 0;//@wait
@!%p3 bra AGAIN;//@loop
ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r4];//@load
st.global.v4.b32 [%rd4], {%r5, %r6, %r7, %r8};
"""
    + TAIL
)

TENSOR = (
    HEAD
    + """
cvta.param.u64 %rd9, map;
@%p1 mbarrier.init.shared.b64 [%r20], 1;
@%p1 fence.mbarrier_init.release.cluster;
bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r20], 2048;
mov.b32 %r10, 0;
@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd9, {%r10, %r10}], [%r20];//@copy
AGAIN: mbarrier.try_wait.parity.shared.b64 %p3, [%r20], 0;
@!%p3 bra AGAIN;
ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r4];
st.global.v4.b32 [%rd4], {%r5, %r6, %r7, %r8};
"""
    + TAIL
)

BULK_STORE = (
    HEAD
    + """
ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd5];
st.shared.v4.b32 [%r4], {%r5, %r6, %r7, %r8};
fence.proxy.async;
bar.sync 0;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 2048;//@copy
@%p1 cp.async.bulk.commit_group;//@commit
//@early
@%p1 cp.async.bulk.wait_group.read 0;//@wait
bar.sync 0;
st.shared.b32 [%r4], %r1;//@reuse
"""
    + TAIL
)


def edited(program, changes):
    """The program with its tagged lines replaced; tags stay."""
    for tag, text in changes.items():
        program, count = re.subn(rf"^.*//@{tag}$", text.replace("\\", "\\\\") + f"//@{tag}", program, flags=re.M)
        assert count == 1
    return program


def line_of(program, tag):
    """The 1-based line of a tag."""
    return next(n for n, line in enumerate(program.split("\n"), 1) if line.endswith(f"//@{tag}"))
