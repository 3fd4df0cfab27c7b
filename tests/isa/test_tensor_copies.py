"""tcgen05.cp and tcgen05.shift: which cells of tensor memory get which words."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import warpsim

TEXT = """
.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{{
    .reg .b32 %r<12>; .reg .b32 %x<8>; .reg .b16 %h; .reg .b64 %d<6>; .reg .pred %first, %one, %p;
    .shared .align 1024 .b8 s[4096]; .shared .align 8 .b64 bar; .shared .align 8 .b32 slot;
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    setp.eq.u32 %first, %r2, 0;
    mov.u32 %r9, %ctaid.x;
    setp.eq.u32 %one, %r1, 0;
    ld.param.u64 %d1, [out];
    ld.param.u64 %d2, [in];
    mad.lo.u32 %r10, %r9, 128, %r1;
    mad.wide.u32 %d3, %r10, 32, %d2;
    mov.u32 %r5, s;
    mad.lo.u32 %r6, %r1, 32, %r5;
    ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%d3];
    ld.global.v4.b32 {{%x4, %x5, %x6, %x7}}, [%d3+16];
    st.shared.v4.b32 [%r6], {{%x0, %x1, %x2, %x3}};
    st.shared.v4.b32 [%r6+16], {{%x4, %x5, %x6, %x7}};
    fence.proxy.async;
    @%one mbarrier.init.shared.b64 [bar], 1;
    @%one fence.mbarrier_init.release.cluster;
    @%first tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], 32;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %r3, [slot];
    shl.b32 %r4, %r2, 21;
    add.u32 %r4, %r3, %r4;
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r4], {{%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    tcgen05.fence::after_thread_sync;
    shr.u32 %r5, %r5, 4;
    cvt.u64.u32 %d4, %r5;
    add.u64 %d4, %d4, {descriptor};
    add.u32 %r7, %r3, {offset};
    setp.eq.and.u32 %one, %r9, {issuer}, %one;
    @%one {instruction};
    mov.b16 %h, 3;
    @%one {commit};
wait:
    mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
    @!%p bra wait;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {{%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}}, [%r4];
    tcgen05.wait::ld.sync.aligned;
    mad.wide.u32 %d5, %r10, 32, %d1;
    st.global.v4.b32 [%d5], {{%x0, %x1, %x2, %x3}};
    st.global.v4.b32 [%d5+16], {{%x4, %x5, %x6, %x7}};
    tcgen05.fence::before_thread_sync;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    tcgen05.fence::after_thread_sync;
    @%first tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r3, 32;
    ret;
}}
"""
BEFORE = 0xABCD0000


def run(instruction, descriptor, given, *, group=1, offset=0, effects="eager"):
    """The cells ``[ctas, 128, 8]`` after an instruction on shared memory with the words ``given`` ``[ctas, 1024]``."""
    ctas = len(given)
    to, mask = (".shared::cluster.multicast::cluster", ", %h") if group == 2 else ("", "")
    text = TEXT.format(
        target="sm_100a",
        instruction=instruction,
        descriptor=descriptor,
        offset=offset,
        group=group,
        issuer=0 if group == 2 else "%r9",
        commit=f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one{to}.b64 [bar]{mask}",
    )
    out = np.zeros((ctas, 128, 8), np.uint32)
    kernel = warpsim.load(text)["k"]
    result = kernel(
        (ctas,), (128,), (out, given), cluster=group, checks="all", on_finding="collect", async_effects=effects
    )

    assert result.findings == ()
    return out


SHAPES = {
    # rows and 32-bit columns, and the lanes to which each row goes
    "128x256b": (128, 8, lambda row: [row]),
    "128x128b": (128, 4, lambda row: [row]),
    "4x256b": (4, 8, lambda row: [32 * row]),
    "64x128b.warpx2::02_13": (64, 4, lambda row: [row, row + 64]),
    "64x128b.warpx2::01_23": (64, 4, lambda row: [row % 32 + row // 32 * 64, row % 32 + row // 32 * 64 + 32]),
    "32x128b.warpx4": (32, 4, lambda row: [row, row + 32, row + 64, row + 96]),
}
"""CUTLASS, include/cute/atom/copy_traits_sm100.hpp: ValID and SrcLayout of SM100_UTCCP_..."""


def placed(matrix, leading, stride):
    """Shared memory of 1024 words with a K-major matrix without swizzle: cores of 8 rows by 16 bytes."""
    memory = np.zeros(1024, np.uint32)
    for row, word in itertools.product(*map(range, matrix.shape)):
        memory[(row % 8 * 16 + row // 8 * stride + word // 4 * leading) // 4 + word % 4] = matrix[row, word]
    return memory


def expected(shape, matrix, offset=0):
    """The cells ``[128, 8]``."""
    cells = np.broadcast_to(np.arange(128, dtype=np.uint32)[:, None], (128, 8)).copy()
    for row, words in enumerate(matrix):
        for lane in SHAPES[shape][2](row):
            cells[lane + offset, : matrix.shape[1]] = words
    return cells


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("shape", SHAPES)
def test_copies(shape, effects):
    """Each row goes to the lanes that CUTLASS's layouts name; the rest of tensor memory stays."""
    rows, columns, _ = SHAPES[shape]
    matrix = np.random.default_rng(1).integers(0, 1 << 32, (rows, columns), np.uint32)
    leading, stride = 128, 128 * (columns // 4)
    descriptor = 1 << 46 | leading >> 4 << 16 | stride >> 4 << 32
    given = placed(matrix, leading, stride)[None]
    out = run(f"tcgen05.cp.cta_group::1.{shape} [%r7], %d4", descriptor, given, effects=effects)

    assert (out[0] == expected(shape, matrix)).all()


def test_rows_of_each_quarter():
    """4x256b replaces one row of each warp's quarter, here the last."""
    matrix = np.arange(32, dtype=np.uint32).reshape(4, 8) + BEFORE
    given = placed(matrix, 128, 256)[None]
    out = run("tcgen05.cp.cta_group::1.4x256b [%r7], %d4", 1 << 46 | 8 << 16 | 16 << 32, given, offset=31 << 16)

    assert (out[0] == expected("4x256b", matrix, 31)).all()


def test_both_ctas_of_a_pair():
    """With cta_group::2, each CTA's tensor memory gets what its own shared memory holds."""
    matrices = np.random.default_rng(2).integers(0, 1 << 32, (2, 128, 4), np.uint32)
    given = np.stack([placed(matrix, 128, 128) for matrix in matrices])
    out = run("tcgen05.cp.cta_group::2.128x128b [%r7], %d4", 1 << 46 | 8 << 16 | 8 << 32, given, group=2)

    assert (out == np.stack([expected("128x128b", matrix) for matrix in matrices])).all()


@pytest.mark.parametrize(("source", "bits", "shift"), [("b6x16_p32", 6, 0), ("b4x16_p64", 4, 2)])
def test_decompression(source, bits, shift):
    """Sixteen packed elements become bytes: 6-bit ones in the low bits, 4-bit ones in the middle."""
    elements = np.random.default_rng(3).integers(0, 1 << bits, (128, 16), np.uint8)
    packed = [sum(int(e) << bits * i for i, e in enumerate(row)).to_bytes(16, "little") for row in elements]
    matrix = np.frombuffer(b"".join(packed), np.uint32).reshape(128, 4)
    wanted = (elements << shift).astype(np.uint8).view(np.uint32)
    given = placed(matrix, 128, 128)[None]
    instruction = f"tcgen05.cp.cta_group::1.128x128b.b8x16.{source} [%r7], %d4"
    out = run(instruction, 1 << 46 | 8 << 16 | 8 << 32, given)

    assert (out[0] == expected("128x128b", wanted)).all()


def test_swizzled_source():
    """The descriptor's swizzle holds for copies: 32-byte rows whose halves change places every four rows."""
    matrix = np.arange(1024, dtype=np.uint32).reshape(128, 8)
    memory = np.zeros(1024, np.uint32)
    for row, word in itertools.product(range(128), range(8)):
        at = row * 32 + word * 4
        memory[(at ^ (at >> 7 & 1) << 4) // 4] = matrix[row, word]
    out = run("tcgen05.cp.cta_group::1.128x256b [%r7], %d4", 1 << 46 | 1 << 16 | 16 << 32 | 6 << 61, memory[None])

    assert (out[0] == matrix).all()


def test_shift():
    """Each lane of a quarter gets eight columns of the next lane, and the last keeps its own."""
    out = run("tcgen05.shift.cta_group::1.down [%r7]", 0, np.zeros((1, 1024), np.uint32), offset=32 << 16)
    lanes = np.arange(128)
    lanes[32:63] += 1

    assert (out[0] == lanes[:, None]).all()
