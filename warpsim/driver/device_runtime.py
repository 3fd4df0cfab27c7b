"""The supported functions of the device runtime (libcudadevrt.a, which is machine code): the barrier of a cooperative
grid, and setting the conditions of graphs, whose handles are addresses.

The handle of a grid points to the structure that the launch sets up for its barriers. The second word counts arrivals;
the first CTA adds a number with which all arrivals together flip the top bit.
"""

ARCHIVE = b"cuda_device_runtime.o/"
"""The library's member, by which it is recognised."""
TEXT = b""".version 6.0
.target sm_70
.address_size 64
.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .pred %p;
    .reg .b32 %s, %high, %low;
    .reg .b64 %h;
    ld.param.u32 %s, [scope];
    mov.b32 %high, %envreg1;
    mov.b32 %low, %envreg2;
    mov.b64 %h, {%low, %high};
    setp.eq.u32 %p, %s, 1;
    selp.b64 %h, %h, 0, %p;
    st.param.b64 [handle], %h;
    ret;
}
.visible .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value)
{
    .reg .b32 %v;
    .reg .b64 %c;
    ld.param.u64 %c, [condition];
    ld.param.u32 %v, [value];
    st.global.u32 [%c], %v;
    ret;
}
.visible .func (.param .b32 status) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %p, %q;
    .reg .b32 %x, %y, %z, %n, %first, %old, %now;
    .reg .b64 %h;
    ld.param.u64 %h, [handle];
    setp.eq.u64 %p, %h, 0;
    @%p bra none;
    barrier.sync 0;
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.u32 %z, %tid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.ne.u32 %p, %x, 0;
    @%p bra done;
    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %nctaid.y;
    mov.u32 %z, %nctaid.z;
    mul.lo.u32 %n, %x, %y;
    mul.lo.u32 %n, %n, %z;
    sub.u32 %first, 0x80000001, %n;
    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ctaid.y;
    mov.u32 %z, %ctaid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.eq.u32 %q, %x, 0;
    selp.b32 %n, %first, 1, %q;
    atom.acq_rel.gpu.add.u32 %old, [%h+4], %n;
wait:
    ld.acquire.gpu.u32 %now, [%h+4];
    xor.b32 %now, %now, %old;
    setp.ge.s32 %p, %now, 0;
    @%p bra wait;
done:
    barrier.sync 0;
    st.param.b32 [status], 0;
    ret;
none:
    st.param.b32 [status], 999;
    ret;
}
"""
