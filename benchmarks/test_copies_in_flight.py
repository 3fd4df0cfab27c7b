"""What it costs to watch asynchronous copies: tensor maps that each CTA makes for itself, deep cp.async pipelines, and many
small CTAs with all checks.

``python -m pytest benchmarks/test_copies_in_flight.py``. CPU seconds of one launch on one core of a shared x86 machine, before
and after accesses were compared with copies by stamps of granules instead of bitmaps of all CTAs, and what CTAs hand over
through mbarriers of their own was followed for all of them at once:

| workload | checks | before | after | without checks |
| --- | --- | --- | --- | --- |
| a tensor map for each of 64 CTAs, boxes of 16 KiB | default | 34.0 | 0.09 | 0.06 |
| cp.async, 72 copies of each thread open | default | 0.43 | 0.20 | 0.05 |
| 256 CTAs of a warp, 8 boxes one after the other | all | 2.6 | 0.85 | 0.05 |
| the same with 200 KB of shared memory for each CTA | all | 4.7 | 1.4 | 0.20 |

64 CTAs that reduce into one tile 8 times before they wait show what it costs to keep each of the copies over the same
bytes in sight: 0.22 s, 0.06 without checks.
"""

import time

import numpy as np
import pytest

import warpsim

HEAD = """.version 8.3
.target sm_90a
.address_size 64
"""


def own_maps(n_ctas: int) -> tuple[str, tuple[object, ...], int]:
    """Each CTA copies a map, makes it its own by its row of the tensor, and loads a box of 16 KiB through it."""
    data = np.arange(n_ctas * 128 * 32, dtype=np.uint32).reshape(-1, 32)
    tensor = warpsim.TensorMap(data, global_dim=[32, len(data)], global_strides=[128], box_dim=[32, 128])
    text = (
        HEAD
        + """.visible .entry k(.param .align 64 .b8 map[128], .param .u64 maps, .param .u64 tensor, .param .u64 out)
{
.reg .pred p, q; .reg .b32 t, c, s, bar, v, at, i; .reg .b64 m, own, base, o, w; .reg .b64 x<4>;
.shared .align 128 .b8 tile[16384]; .shared .align 8 .b64 object;
mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; mov.u32 s, tile; mov.u32 bar, object; mov.b64 m, map; cvta.param.u64 m, m;
ld.param.u64 own, [maps]; ld.param.u64 base, [tensor]; ld.param.u64 o, [out];
mul.wide.u32 w, c, 128; add.u64 own, own, w; mul.wide.u32 w, c, 16384; add.u64 base, base, w; add.u64 o, o, w;
setp.ne.u32 p, t, 0; @p bra READY;
mov.u32 i, 0;
COPY: ld.u64 x0, [m]; st.global.u64 [own], x0; add.u64 m, m, 8; add.u64 own, own, 8; add.u32 i, i, 1;
setp.lt.u32 q, i, 16; @q bra COPY;
sub.u64 own, own, 128;
tensormap.replace.tile.global_address.global.b1024.b64 [own], base;
fence.proxy.tensormap::generic.release.gpu;
fence.proxy.tensormap::generic.acquire.gpu [own], 128;
mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16384;
mov.u32 i, 0;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [s], [own, {i, i}], [bar];
READY: bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared.b64 q, [bar], 0; @!q bra WAIT;
shl.b32 at, t, 2; add.u32 s, s, at; cvt.u64.u32 w, at; add.u64 o, o, w; mov.u32 i, 0;
DUMP: ld.shared.b32 v, [s]; st.global.b32 [o], v; add.u32 s, s, 512; add.u64 o, o, 512; add.u32 i, i, 1;
setp.lt.u32 q, i, 32; @q bra DUMP;
ret;
}
"""
    )
    out = np.zeros_like(data)
    return text, (tensor, np.zeros(128 * n_ctas, np.uint8), data, out), 128


def deep_pipeline(depth: int, rounds: int) -> tuple[str, tuple[object, ...], int]:
    """Seven stages of ``depth / 7`` copies of each thread, all but one in flight while one is read."""
    per = depth // 7
    copies = "".join(f"cp.async.cg.shared.global [to+{2048 * k}], [x+{2048 * k}], 16;\n" for k in range(per))
    loads = "".join(f"ld.shared.v4.b32 {{a, b, c, d}}, [from+{2048 * k}]; add.u32 v, v, a;\n" for k in range(per))
    text = (
        HEAD
        + f""".extern .shared .align 128 .b8 ring[];
.visible .entry k(.param .u64 pin, .param .u64 pout)
{{
.reg .pred p; .reg .b32 t, s, to, from, at, i, v, a, b, c, d, slot; .reg .b64 x, o, w;
ld.param.u64 x, [pin]; ld.param.u64 o, [pout]; mov.u32 t, %tid.x; shl.b32 at, t, 4; mov.u32 s, ring; add.u32 s, s, at;
cvt.u64.u32 w, at; add.u64 x, x, w; mov.u32 v, 0; mov.u32 i, 0; mov.u32 slot, 0;
FILL: mad.lo.u32 to, i, {2048 * per}, s;
{copies}
cp.async.commit_group; add.u32 i, i, 1; setp.lt.u32 p, i, 6; @p bra FILL;
mov.u32 i, 0;
NEXT: cp.async.wait_group 5; bar.sync 0;
mad.lo.u32 from, slot, {2048 * per}, s;
{loads}
add.u32 to, slot, 6; rem.u32 to, to, 7; mad.lo.u32 to, to, {2048 * per}, s;
{copies}
cp.async.commit_group; add.u32 slot, slot, 1; rem.u32 slot, slot, 7; add.u32 i, i, 1; setp.lt.u32 p, i, {rounds}; @p bra NEXT;
mov.u32 a, %ctaid.x; mad.lo.u32 t, a, 128, t; mul.wide.u32 w, t, 4; add.u64 o, o, w; st.global.b32 [o], v;
ret;
}}
"""
    )
    return text, (np.ones(2048 * per, np.uint32), np.zeros(128 * 256, np.uint32)), 128


def small_ctas(n_ctas: int, rounds: int) -> tuple[str, tuple[object, ...], int]:
    """A warp loads tiles one after the other, adds to each, and stores it through tensor maps."""
    data = np.arange(n_ctas * rounds * 256, dtype=np.uint32).reshape(-1, 16)
    source, target = (
        warpsim.TensorMap(a, global_dim=[16, len(data)], global_strides=[64], box_dim=[16, 16])
        for a in (data, np.zeros_like(data))
    )
    work = "".join(
        f"ld.shared.b32 v, [s+{128 * k}]; add.u32 v, v, {k}; st.shared.b32 [s+{128 * k}], v;\n" for k in range(8)
    )
    text = (
        HEAD
        + f""".visible .entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128])
{{
.reg .pred p, q; .reg .b32 t, y, x, s, first, bar, v, at, i, phase; .reg .b64 m, n;
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 object;
mov.u32 t, %tid.x; mov.u32 y, %ctaid.x; mul.lo.u32 y, y, {16 * rounds}; mov.u32 x, 0; mov.u32 first, tile;
mov.u32 bar, object; cvta.param.u64 m, from; cvta.param.u64 n, to; shl.b32 at, t, 2; add.u32 s, first, at; setp.ne.u32 p, t, 0;
mov.u32 i, 0; mov.u32 phase, 0;
@p bra READY;
mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
READY: bar.warp.sync -1; @p bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [first], [m, {{x, y}}], [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 q, [bar], phase; @!q bra WAIT;
{work}
fence.proxy.async; bar.warp.sync -1; @p bra NEXT;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [n, {{x, y}}], [first];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
NEXT: add.u32 y, y, 16; xor.b32 phase, phase, 1; add.u32 i, i, 1; setp.lt.u32 q, i, {rounds}; @q bra READY;
ret;
}}
"""
    )
    return text, (source, target), 32


def reductions(rounds: int) -> tuple[str, tuple[object, ...], int]:
    """Each CTA adds its tile of 4 KiB to one and the same tile in global memory ``rounds`` times, and meanwhile to a counter
    beside it."""
    text = (
        HEAD
        + f""".visible .entry k(.param .u64 out)
{{
.reg .pred p; .reg .b32 t, s, at, i, one; .reg .b64 o, w;
.shared .align 128 .b8 tile[4096];
mov.u32 t, %tid.x; mov.u32 s, tile; ld.param.u64 o, [out]; mov.u32 one, 1; shl.b32 at, t, 5; add.u32 at, at, s;
st.shared.v4.b32 [at], {{one, one, one, one}}; st.shared.v4.b32 [at+16], {{one, one, one, one}};
fence.proxy.async; bar.sync 0; setp.ne.u32 p, t, 0; mul.wide.u32 w, t, 4; add.u64 w, o, w; mov.u32 i, 0;
NEXT:
@p bra READY;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [o], [s], 4096; cp.async.bulk.commit_group;
READY: red.global.add.u32 [w+4096], one; red.global.add.u32 [w], one;
add.u32 i, i, 1; setp.lt.u32 p, i, {rounds}; @p bra AGAIN;
cp.async.bulk.wait_group 0; ret;
AGAIN: setp.ne.u32 p, t, 0; bra NEXT;
}}
"""
    )
    return text, (np.zeros(2048, np.uint32),), 128


WORKLOADS = {
    "maps": (own_maps(64), 64, 0, "default", 1.0),
    "pipeline": (deep_pipeline(84, 20), 16, 7 * 12 * 2048, "default", 1.0),
    "small": (small_ctas(256, 8), 256, 0, "all", 3.0),
    "reductions": (reductions(8), 64, 0, "default", 3.0),
    "roomy": (small_ctas(256, 8), 256, 200_000, "all", 5.0),
}
"""Text, arguments and block; grid; dynamic shared memory; checks; CPU seconds that a launch may take."""


@pytest.mark.parametrize("name", WORKLOADS)
def test_copies_in_flight(name: str) -> None:
    """A launch stays within its time."""
    (text, arguments, block), grid, shared, checks, limit = WORKLOADS[name]
    kernel = warpsim.load(text)["k"]
    best = float("inf")
    for _ in range(2):
        started = time.process_time()
        kernel(grid, block, arguments, shared_mem=shared, checks=checks)
        best = min(best, time.process_time() - started)

    print(f"{name}: {best:.2f} s")
    assert best < limit
