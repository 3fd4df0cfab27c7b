"""A kernel for one tcgen05.mma: shared and tensor memory before, the instruction, tensor memory afterwards."""

from __future__ import annotations

import numpy as np

import warpsim

STEP = 64
"""Columns that a thread moves at once."""


def _moves(columns: int, *, store: bool) -> str:
    """Each thread's lane of tensor memory, to or from global memory at ``words``."""
    names = [f"t{i}" for i in range(STEP)]
    whole, lines = "{" + ", ".join(names) + "}", []
    for first in range(0, columns, STEP):
        quads = [(4 * first + 4 * i, "{" + ", ".join(names[i : i + 4]) + "}") for i in range(0, STEP, 4)]
        if store:
            lines += [f"ld.global.v4.b32 {quad}, [words+{at}];" for at, quad in quads]
            lines += [f"tcgen05.st.sync.aligned.32x32b.x{STEP}.b32 [mine+{first}], {whole};"]
            lines += ["tcgen05.wait::st.sync.aligned;"]
        else:
            lines += [f"tcgen05.ld.sync.aligned.32x32b.x{STEP}.b32 {whole}, [mine+{first}];"]
            lines += ["tcgen05.wait::ld.sync.aligned;"]
            lines += [f"st.global.v4.b32 [words+{at}], {quad};" for at, quad in quads]
    return "\n".join(lines)


def text(instructions: str, nbytes: int, columns: int, *, target: str = "sm_100a", group: int = 1) -> str:
    """``instructions`` find addresses of tensor memory as ``base`` plus a number, descriptors in ``desc_a`` and ``desc_b``, the
    instruction descriptor in ``idesc``, a mask descriptor in ``zeros``, and ``yes``, a true predicate."""
    pair = f".cta_group::{group}"
    return f"""
.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 cells, .param .u64 a, .param .u64 b, .param .u32 i, .param .u64 z)
{{
    .shared .align 1024 .b8 smem[{max(nbytes, 16)}];
    .shared .align 8 .b64 bar;
    .shared .align 4 .b32 taddr;
    .reg .b64 from, words, wide, desc_a, desc_b, zeros;
    .reg .b32 tid, cta, at, base, mine, idesc, rank, r<4>, t<{STEP}>, v<8>;
    .reg .pred more, first, leader, yes, done;
    mov.u32 tid, %tid.x;  mov.u32 cta, %ctaid.x;  mov.u32 rank, %cluster_ctarank;
    ld.param.u64 from, [image];  mad.wide.u32 from, cta, {nbytes}, from;
    mul.wide.u32 wide, tid, 16;  add.u64 from, from, wide;
    mov.u32 at, smem;  shl.b32 r0, tid, 4;  add.u32 at, at, r0;
COPY:
    setp.lt.u32 more, r0, {nbytes};
    @more ld.global.v4.b32 {{t0, t1, t2, t3}}, [from];
    @more st.shared.v4.b32 [at], {{t0, t1, t2, t3}};
    add.u64 from, from, 2048;  add.u32 at, at, 2048;  add.u32 r0, r0, 2048;
    @more bra COPY;
    setp.eq.u32 yes, tid, tid;  setp.eq.u32 leader, tid, 0;
    @leader mbarrier.init.shared.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async;
    setp.lt.u32 first, tid, 32;
    @!first bra READY;
    tcgen05.alloc{pair}.sync.aligned.shared::cta.b32 [taddr], 512;
READY:
    bar.sync 0;
    ld.shared.b32 base, [taddr];
    and.b32 mine, tid, 96;  shl.b32 mine, mine, 16;  add.u32 mine, mine, base;
    mad.lo.u32 r1, cta, 128, tid;
    ld.param.u64 words, [cells];  mad.wide.u32 words, r1, {4 * columns}, words;
    {_moves(columns, store=True)}
    tcgen05.fence::before_thread_sync;
    {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if group == 2 else "bar.sync 0;"}
    tcgen05.fence::after_thread_sync;
    ld.param.u64 desc_a, [a];  ld.param.u64 desc_b, [b];  ld.param.u32 idesc, [i];  ld.param.u64 zeros, [z];
    setp.eq.and.u32 leader, rank, 0, leader;
    @!leader bra WAIT;
    {instructions}
    tcgen05.commit{pair}.mbarrier::arrive::one.shared::cluster{".multicast::cluster" if group == 2 else ""}.b64 [bar]{", 3" if group == 2 else ""};
WAIT:
    mbarrier.try_wait.parity.shared.b64 done, [bar], 0;
    @!done bra WAIT;
    tcgen05.fence::after_thread_sync;
    {_moves(columns, store=False)}
    {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if group == 2 else "bar.sync 0;"}
    @!first bra DONE;
    tcgen05.dealloc{pair}.sync.aligned.b32 base, 512;
DONE:
    ret;
}}
"""


def run(
    instructions: str,
    image: np.ndarray,
    cells: np.ndarray,
    *,
    desc_a: int = 0,
    desc_b: int = 0,
    idesc: int = 0,
    zeros: int = 0,
    target: str = "sm_100a",
    **options: object,
) -> tuple[np.ndarray, warpsim.LaunchResult]:
    """Tensor memory ``[CTAs, 128, columns]`` after the instructions; ``image`` ``[CTAs, bytes]`` and ``cells`` are what is in
    shared and tensor memory before. Descriptors give offsets in the image."""
    group = len(image)
    source = text(instructions, image.shape[1], cells.shape[2], target=target, group=group)
    kernel = warpsim.load(source)["k"]
    words = np.ascontiguousarray(cells)
    arguments = (np.ascontiguousarray(image), words, desc_a, desc_b, idesc, zeros)
    result = kernel((group,), (128,), arguments, cluster=(group,) if group > 1 else None, **options)
    return words, result
