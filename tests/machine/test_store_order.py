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


ROWS = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 %r<12>; .reg .b64 %d<5>; .reg .pred %p; .shared .align 16 .b8 tile[2048];
ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ctaid.x;
mad.lo.u32 %r4, %r2, 16, %r1; mad.lo.u32 %r5, %r3, 64, %r4; add.u32 %r6, %r5, 1000; setp.ne.u32 %p, %r4, 63; mov.u32 %r7, tile;
mad.lo.s32 %r8, %r1, WX, %r7; mad.lo.s32 %r8, %r2, WY, %r8; sub.u32 %r8, %r8, LESS; GUARD st.shared.v2.u32 [%r8+WAT], {%r5, %r6};
bar.sync 0; mad.lo.s32 %r8, %r1, RX, %r7; mad.lo.s32 %r8, %r2, RY, %r8; mov.u32 %r9, 7; mov.u32 %r10, 7; GUARD ld.shared.v2.u32 {%r9, %r10}, [%r8+RAT];
mul.wide.u32 %d2, %r5, 8; add.u64 %d2, %d1, %d2; st.global.v2.u32 [%d2], {%r9, %r10}; ret; }"""
STEPS = [
    (8, 128, 0),
    (128, 8, 0),
    (-8, 128, 120),
    (8, -128, 384),
    (8, 8, 0),
    (8, 64, 16),
    (32, 16, 0),
    (0, 8, 0),
    (16, 0, 64),
    (0, 0, 8),
]
"""Bytes from thread to thread along x and y, and the first thread's offset."""


@pytest.mark.parametrize(
    "guard", ["", pytest.param("@%p", marks=pytest.mark.long)], ids=["all threads", "some threads"]
)
@pytest.mark.parametrize("steps", STEPS, ids=str)
def test_regular_addresses(steps, guard):
    """Stores to and loads from shared memory at regular steps, also backwards, with gaps, and onto one another; the
    register may hold less than zero where the offset makes up for it.
    """
    width, height, ctas = 16, 4, 3
    for reads, below in zip(STEPS, [0, 4096, 0, 0] * 3, strict=False):
        text = ROWS.replace("GUARD", guard).replace("LESS", str(below))
        for name, (x, y, at), less in (("W", steps, below), ("R", reads, 0)):
            text = text.replace(f"{name}X", str(x)).replace(f"{name}Y", str(y)).replace(f"{name}AT", str(at + less))
        out = np.zeros((ctas, height, width, 2), np.uint32)
        warpsim.load(text)["k"]((ctas,), (width, height), (out,), checks=())

        for cta in range(ctas):
            words, threads = {}, [(y, x) for y in range(height) for x in range(width)]
            for y, x in threads[: -1 if guard else None]:
                thread, at = 64 * cta + 16 * y + x, steps[2] + x * steps[0] + y * steps[1]
                words[at], words[at + 4] = thread, thread + 1000
            for y, x in threads:
                at = reads[2] + x * reads[0] + y * reads[1]
                read = [words.get(at, 0), words.get(at + 4, 0)]
                assert out[cta, y, x].tolist() == ([7, 7] if guard and (y, x) == threads[-1] else read)


COUNTS = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 one, .param .u64 other, .param .u64 found) {
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;
ld.param.u64 %d1, [one]; ld.param.u64 %d2, [other]; ld.param.u64 %d3, [found]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1;
and.b32 %r4, %r1, 7; mul.wide.u32 %d4, %r4, 8; add.u64 %d4, %d1, %d4; setp.lt.u32 %p1, %r1, TWO; mul.wide.u32 %d5, %r4, 8; add.u64 %d5, %d2, %d5; @%p1 mov.u64 %d4, %d5;
setp.lt.u32 %p2, %r1, FEW; cvt.u64.u32 %d6, %r3; @%p2 red.global.add.u64 [%d4], %d6; mov.u64 %d7, 0; @%p2 atom.global.max.u64 %d7, [%d4+64], %d6;
mul.wide.u32 %d8, %r3, 8; add.u64 %d8, %d3, %d8; st.global.u64 [%d8], %d7; ret; }"""


@pytest.mark.parametrize("few", [64, 50])
@pytest.mark.parametrize("two", [0, 20])
def test_atomics_of_one_array_or_two(two, few):
    """Sums, and maxima with the old values, of all lanes or some, whose addresses lie in one array or in two."""
    ctas = 3
    arrays, found = np.zeros((2, 16), np.uint64), np.zeros(64 * ctas, np.uint64)
    one, other = arrays[0].copy(), arrays[1].copy()
    warpsim.load(COUNTS.replace("TWO", str(two)).replace("FEW", str(few)))["k"](
        (ctas,), (64,), (one, other, found), checks=()
    )

    expected = [0] * (64 * ctas)
    for thread in range(64 * ctas):
        if thread % 64 < few:
            array, cell = arrays[int(thread % 64 < two)], thread % 8
            array[cell] += np.uint64(thread)
            expected[thread] = int(array[8 + cell])
            array[8 + cell] = max(int(array[8 + cell]), thread)
    assert (one.tolist(), other.tolist()) == (arrays[0].tolist(), arrays[1].tolist())
    assert found.tolist() == expected
