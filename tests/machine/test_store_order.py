"""Stores of one instruction to one place: the last in the order CTA, warp, lane stays, however the addresses came about."""

import numpy as np
import pytest

import warpsim

CTAS, THREADS, PLACES = 5, 64, 48

TEXT = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 places, .param .u64 out, .param .u64 copies) {
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p; .shared .align 16 .b8 tile[1024];
ld.param.u64 %d1, [places]; ld.param.u64 %d2, [out]; ld.param.u64 %d3, [copies];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1;
rem.u32 %r4, %r3, 7; sub.u32 %r4, %r3, %r4; rem.u32 %r5, %r3, 7; sub.u32 %r4, %r4, %r5; add.u32 %r4, %r4, 6; min.u32 %r4, %r4, 319;
mul.wide.u32 %d4, %r4, 4; add.u64 %d4, %d1, %d4; ld.global.u32 %r5, [%d4];
setp.ne.u32 %p, %r1, 63; add.u32 %r6, %r3, 1; cvt.u64.u32 %d7, %r6;
mul.wide.u32 %d5, %r5, BYTES; add.u64 %d5, %d2, %d5; GUARD st.global.TYPE [%d5], VALUE;
mov.u32 %r7, tile; mad.lo.u32 %r7, %r5, BYTES, %r7; GUARD st.shared.TYPE [%r7], VALUE;
bar.sync 0; mov.u32 %r7, tile; mad.lo.u32 %r7, %r1, 16, %r7; ld.shared.v2.u64 {%d7, %d8}, [%r7];
mul.wide.u32 %d6, %r3, 16; add.u64 %d6, %d3, %d6; st.global.v2.u64 [%d6], {%d7, %d8}; ret; }"""
TYPES = {
    "b16": ("b16", 2, "%h1", np.uint16),
    "u32": ("u32", 4, "%r6", np.uint32),
    "u64": ("u64", 8, "%d7", np.uint64),
    "v4.u32": ("v4.u32", 16, "{%r6, %r6, %r6, %r6}", np.uint32),
}


@pytest.mark.parametrize("guard", ["", "@%p"], ids=["all threads", "some threads"])
@pytest.mark.parametrize("type", TYPES)
def test_last_thread_wins(type, guard):
    """The places come from memory, each many times over, read by addresses without a pattern."""
    name, nbytes, value, dtype = TYPES[type]
    text = TEXT.replace("TYPE", name).replace("BYTES", str(nbytes)).replace("GUARD", guard).replace("VALUE", value)
    text = text.replace(".reg .pred", ".reg .b16 %h1; .reg .pred").replace("cvt.u64", "cvt.u16.u32 %h1, %r6; cvt.u64")
    places = np.random.default_rng(4).integers(0, PLACES, CTAS * THREADS, dtype=np.uint32)
    out, copies = np.zeros(1024 // nbytes * nbytes // dtype().itemsize, dtype), np.zeros(CTAS * 1024, np.uint8)
    kernel = warpsim.load(text)["k"]
    kernel((CTAS,), (THREADS,), (places, out, copies), checks=())

    expected = np.zeros((1024 // nbytes, nbytes // dtype().itemsize), dtype)
    tiles = np.zeros((CTAS, *expected.shape), dtype)
    for thread in range(CTAS * THREADS):
        if not guard or thread % THREADS != THREADS - 1:
            place = places[min(thread - 2 * (thread % 7) + 6, CTAS * THREADS - 1)]
            expected[place] = tiles[thread // THREADS, place] = thread + 1
    assert out.tobytes() == expected.tobytes()
    assert copies.tobytes() == tiles.tobytes()
