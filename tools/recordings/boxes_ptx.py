"""PTX of small kernels around one tensor copy, for boxes of every rank, direction and mode."""


def kernel(rank, size, *, room=None, op=None, im2col=False, store=False):
    """A kernel ``box(map, places, data)``: CTA i copies ``size`` bytes at the coordinates ``places[i]`` (8 words: five
    coordinates, then the im2col offsets as 16-bit halves), between the tensor and ``data + i * room``.

    Loads by default; ``store`` for stores, ``op`` for reductions. Loaded boxes take ``room`` bytes with what lies between rows.
    """
    room = room or size
    coordinates = ", ".join(f"%c{i}" for i in range(rank))
    offsets = ", {" + ", ".join(f"%o{i}" for i in range(rank - 2)) + "}" if im2col and not (store or op) else ""
    mode = ".tile"
    if im2col:
        mode = ".im2col_no_offs" if store or op else ".im2col"
    if store or op:
        opcode = (
            f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op}"
            if op
            else f"cp.async.bulk.tensor.{rank}d.global.shared::cta"
        )
        body = f"""
    FILL: add.u64 %rd4, %rd3, %rd5;
    ld.global.b32 %r5, [%rd4]; st.shared.b32 [%r6], %r5;
    add.u32 %r6, %r6, 512; add.u64 %rd5, %rd5, 512; setp.lt.u64 %p2, %rd5, {size}; @%p2 bra FILL;
    LATE: fence.proxy.async; bar.sync 0;
    @%p1 {opcode}{mode}.bulk_group [%rd1, {{{coordinates}}}], [%r2];
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group 0;"""
    else:
        body = f"""
    FILL: st.shared.b32 [%r6], 0xCDCDCDCD;
    add.u32 %r6, %r6, 512; add.u64 %rd5, %rd5, 512; setp.lt.u64 %p2, %rd5, {room}; @%p2 bra FILL;
    LATE: @%p1 mbarrier.init.shared::cta.b64 [%r3], 1; @%p1 fence.mbarrier_init.release.cluster;
    fence.proxy.async; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {size};
    @%p1 cp.async.bulk.tensor.{rank}d.shared::cluster.global{mode}.mbarrier::complete_tx::bytes [%r2], [%rd1, {{{coordinates}}}], [%r3]{offsets};
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0; @!%p3 bra WAIT;
    shl.b32 %r4, %r1, 2; add.u32 %r6, %r2, %r4; cvt.u64.u32 %rd5, %r4;
    setp.ge.u64 %p2, %rd5, {room}; @%p2 bra DONE;
    DUMP: ld.shared.b32 %r5, [%r6]; add.u64 %rd4, %rd3, %rd5; st.global.b32 [%rd4], %r5;
    add.u32 %r6, %r6, 512; add.u64 %rd5, %rd5, 512; setp.lt.u64 %p2, %rd5, {room}; @%p2 bra DUMP;
    DONE:"""
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry box(.param .align 64 .b8 map[128], .param .u64 places, .param .u64 data)
{{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b32 %c<5>; .reg .b16 %o<4>; .reg .b64 %rd<9>;
    .shared .align 1024 .b8 tile[{room}];
    .shared .align 8 .b8 bar[8];
    mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [places]; ld.param.u64 %rd3, [data];
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd4, %r1, 32; add.u64 %rd2, %rd2, %rd4;
    mul.wide.u32 %rd4, %r1, {room}; add.u64 %rd3, %rd3, %rd4;
    ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%rd2]; ld.global.b32 %c4, [%rd2+16];
    ld.global.b16 %o0, [%rd2+20]; ld.global.b16 %o1, [%rd2+22]; ld.global.b16 %o2, [%rd2+24];
    mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
    mov.u32 %r2, tile; mov.u32 %r3, bar;
    shl.b32 %r4, %r1, 2; add.u32 %r6, %r2, %r4; cvt.u64.u32 %rd5, %r4;
    setp.ge.u64 %p2, %rd5, {room}; @%p2 bra LATE;{body}
    ret;
}}
"""


TYPES = ("b32", "b64", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64")


def bulk_reductions():
    """The legal (operation with its modifiers, type) of cp.reduce.async.bulk to global memory."""
    for op, types in (
        ("and", "b32 b64"), ("or", "b32 b64"), ("xor", "b32 b64"), ("add", "u32 s32 u64 f32 f64"), ("add.noftz", "f16 bf16"),
        ("inc", "u32"), ("dec", "u32"), ("min", "u32 s32 u64 s64 f16 bf16"), ("max", "u32 s32 u64 s64 f16 bf16"),
    ):  # fmt: skip
        yield from ((op, t) for t in types.split())


def bulk_reduce_kernel(size):
    """A kernel ``reduce(source, target)``: bulk reduction number i combines ``size`` bytes at ``i * size`` of both."""
    steps = "\n".join(
        f"    add.u64 %rd3, %rd2, {n * size}; add.u32 %r3, %r2, {n * size};"
        f" @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{t} [%rd3], [%r3], %r4;"
        for n, (op, t) in enumerate(bulk_reductions())
    )
    total = size * len(list(bulk_reductions()))
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry reduce(.param .u64 source, .param .u64 target)
{{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 128 .b8 tile[{total}];
    ld.param.u64 %rd1, [source]; ld.param.u64 %rd2, [target];
    mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
    mov.u32 %r2, tile; shl.b32 %r5, %r1, 2; mov.u32 %r4, {size};
    FILL: add.u32 %r6, %r2, %r5; cvt.u64.u32 %rd4, %r5; add.u64 %rd5, %rd1, %rd4;
    ld.global.b32 %r7, [%rd5]; st.shared.b32 [%r6], %r7;
    add.u32 %r5, %r5, 512; setp.lt.u32 %p2, %r5, {total}; @%p2 bra FILL;
    fence.proxy.async; bar.sync 0;
{steps}
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group 0;
    ret;
}}
"""
