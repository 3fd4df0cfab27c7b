"""Producers and consumers: what a pipeline costs in which four warps wait for the one that works.

``python -m pytest benchmarks/test_pipeline.py``: the whole takes at most 1.3 times the time of the producer alone, which does
the same work and meets the same objects without anybody at the other end.
"""

import time

import numpy as np
import pytest

import warpsim

ROUNDS, STAGES, WORK = 60, 4, 60
HEAD = """.version 8.0
.target sm_90a
.address_size 64
"""
COPY = "mbarrier.arrive.expect_tx.shared.b64 _, [full], 512; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [x], 512, [full];"
FILLS = {
    "arithmetic": ("", "fma.rn.f32 a, a, b, b; xor.b32 v, v, t; mul.lo.u32 v, v, 3; add.u32 v, v, j;", "mbarrier.arrive.shared.b64 _, [full];"),
    "stores": ("", "st.volatile.shared.b32 [own], v; ld.volatile.shared.b32 v, [own]; mul.lo.u32 v, v, 3; add.u32 v, v, j;", "mbarrier.arrive.shared.b64 _, [full];"),
    "copies": ("OWN: mbarrier.try_wait.parity.shared.b64 p, [full], phase; @!p bra OWN;", "fma.rn.f32 a, a, b, b; xor.b32 v, v, t; mul.lo.u32 v, v, 3; add.u32 v, v, j;", f"setp.ne.u32 p, t, 0; @p bra JOIN; {COPY} JOIN:"),
}  # fmt: skip


def pipeline(fill: str, consumers: bool) -> str:
    """Warp 0 works for each stage and says that it is full; the others wait for it and say that it is empty again."""
    before, work, done = FILLS[fill]
    count = 1 if fill == "copies" else 32
    wait = "WAIT: mbarrier.try_wait.parity.shared.b64 p, [empty], phase; @!p bra WAIT;" if consumers else ""
    return (
        HEAD
        + f""".visible .entry k(.param .u64 pin, .param .u64 pout) {{
    .reg .b64 x, o; .reg .b32 t, v, i, j, own, full, empty, tile, phase, s; .reg .pred p, q; .reg .f32 a, b;
    .shared .align 128 .b8 tiles[{512 * STAGES}]; .shared .align 8 .b8 objects[{16 * STAGES}]; .shared .b32 room[32];
    ld.param.u64 x, [pin]; ld.param.u64 o, [pout]; mov.u32 t, %tid.x; mov.f32 a, 0f3F800000; mov.f32 b, 0f3F000000; mov.u32 v, t;
    setp.ne.u32 p, t, 0; @p bra READY; mov.u32 full, objects; mov.u32 i, 0;
    INIT: mbarrier.init.shared.b64 [full], {count}; mbarrier.init.shared.b64 [full+8], 128; add.u32 full, full, 16;
    add.u32 i, i, 1; setp.lt.u32 p, i, {STAGES}; @p bra INIT; fence.mbarrier_init.release.cluster;
    READY: bar.sync 0; mov.u32 i, 0; mov.u32 phase, 1; shl.b32 s, t, 2; mov.u32 own, room; add.u32 own, own, s;
    setp.ge.u32 q, t, 32; @q bra CONSUME;
    PRODUCE: and.b32 s, i, {STAGES - 1}; shl.b32 full, s, 4; mov.u32 tile, objects; add.u32 full, full, tile; add.u32 empty, full, 8;
    mov.u32 tile, tiles; mad.lo.u32 tile, s, 512, tile; {wait} {before} mov.u32 j, 0;
    LOOP: {work} add.u32 j, j, 1; setp.lt.u32 p, j, {WORK}; @p bra LOOP;
    {done} setp.eq.u32 p, s, {STAGES - 1}; @p xor.b32 phase, phase, 1;
    add.u32 i, i, 1; setp.lt.u32 p, i, {ROUNDS}; @p bra PRODUCE; bra END;
    CONSUME: mov.u32 phase, 0;
    NEXT: and.b32 s, i, {STAGES - 1}; shl.b32 full, s, 4; mov.u32 tile, objects; add.u32 full, full, tile;
    POLL: mbarrier.try_wait.parity.shared.b64 p, [full], phase; @!p bra POLL;
    add.u32 v, v, i; mbarrier.arrive.shared.b64 _, [full+8];
    setp.eq.u32 p, s, {STAGES - 1}; @p xor.b32 phase, phase, 1;
    add.u32 i, i, 1; setp.lt.u32 p, i, {ROUNDS}; @p bra NEXT;
    END: mul.wide.u32 x, t, 4; add.u64 o, o, x; st.global.b32 [o], v; ret; }}"""
    )


@pytest.mark.parametrize("fill", FILLS)
def test_four_wait_for_one(benchmark, fill):
    """Waiting is nearly free."""
    source, out = np.zeros(512, np.uint8), np.zeros(160, np.uint32)
    alone, whole = (warpsim.load(pipeline(fill, consumers))["k"] for consumers in (False, True))
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        alone((1,), (32,), (source, out))
        times.append(time.perf_counter() - begin)
    benchmark.pedantic(whole, ((1,), (160,), (source, out)), rounds=4)
    ratio = benchmark.stats.stats.min / min(times)
    benchmark.extra_info["times the producer alone"] = round(ratio, 2)

    assert ratio <= 1.3
