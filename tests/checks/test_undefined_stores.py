"""uninitialised: what a bulk copy stores in global memory, met where it is stored, whenever that happens."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.7\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 out, .param .align 64 .b8 map[128])
{
    .reg .b32 %r<40>; .reg .b64 %rd<9>;
    .shared .align 128 .b8 tile[2048];
    ld.param.u64 %rd1, [out]; mov.u32 %r1, tile; cvta.param.u64 %rd3, map; mov.u32 %r8, 0; mov.u32 %r7, 7;
    WRITE
    fence.proxy.async;
    COPY
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    ret;
}
"""
WRITTEN, STORED = 9, 11
"""Lines."""
COPIES = {
    "bytes": "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;",
    "sums": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 64;",
    "a box": "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd3, {%r8}], [%r1];",
    "sums of a box": "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%rd3, {%r8}], [%r1];",
}


def rows(first, last):
    """Stores of 16 bytes each."""
    return " ".join(f"st.shared.v4.b32 [%r1+{16 * k}], {{%r7,%r7,%r7,%r7}};" for k in range(first, last))


def launched(copy, write, effects="eager", size=16):
    """The findings of a store of 64 bytes, into a tensor of some words."""
    out = np.zeros(16, np.uint32)
    map = warpsim.TensorMap(out, data_type="UINT32", global_dim=(size,), global_strides=(), box_dim=(16,))
    kernel = warpsim.load(KERNEL.replace("WRITE", write).replace("COPY", COPIES[copy]))["k"]
    return kernel(1, 1, (out, map), on_finding="collect", async_effects=effects, checks="init").findings


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("copy", COPIES)
def test_what_nobody_wrote(copy, effects):
    """A word that is missing is reported at the copy, with its address; what is whole is not."""
    (found,) = launched(copy, rows(0, 3), effects)

    assert (found.rule, found.severity, found.line, found.lanes) == ("uninitialised", "error", STORED, (0,))
    assert "shared address 0x30 (tile+0x30) is stored" in found.message
    assert launched(copy, rows(0, 4), effects) == ()


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_of_a_register_that_nobody_wrote(copy):
    """The store of the register is the other party."""
    (found,) = launched(copy, f"st.shared.b64 [%r1], %rd8; st.shared.b64 [%r1+8], %rd1; {rows(1, 4)}")

    assert (found.line, found.other.line) == (STORED, WRITTEN)
    assert "comes from register %rd8" in found.message


@pytest.mark.parametrize(
    "write",
    [
        rows(0, 3) + " st.shared.b64 [%r1+48], %rd1;",
        rows(0, 3) + " st.shared.b32 [%r1+48], %r7; st.shared.b8 [%r1+63], %r7;",
        rows(0, 2) + " st.shared.b32 [%r1+36], %r7; st.shared.b32 [%r1+40], %r7; " + rows(3, 4),
    ],
)
def test_padding(write):
    """Structures have padding, and the end of a copy is rounded up to 16 bytes; sums and tensors have neither."""
    assert launched("bytes", write) == ()
    assert [f.rule for f in launched("sums", write)] == ["uninitialised"]
    assert [f.rule for f in launched("a box", write)] == ["uninitialised"]


def test_what_is_no_padding():
    """A store has left it undefined beside what is written."""
    write = rows(0, 3) + " st.shared.b64 [%r1+48], %rd1; st.shared.b64 [%r1+56], %rd1;"
    (found,) = launched("bytes", write + " st.shared.b32 [%r1+60], %r20;")

    assert (found.line, found.other.line) == (STORED, WRITTEN)
    assert launched("bytes", write) == ()


WARPGROUP = """.version 8.7\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .f32 %f<4>; .reg .pred %p; .shared .align 128 .b8 tile[2064];
    ld.param.u64 %rd1, [out]; mov.u32 %r1, tile; mov.u32 %r7, 0; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, 16, %r1;
    st.shared.v4.b32 [%r3], {%r7, %r7, %r7, %r7}; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    shr.u32 %r4, %r1, 4; or.b32 %r4, %r4, 0x80000; mov.b64 %rd2, {%r4, 16}; fence.proxy.async; bar.sync 0;
    MAKE
    st.shared.v4.b32 [%r1+2048], {%r7, %r5, %r7, %r7}; fence.proxy.async; bar.sync 0; setp.ne.u32 %p, %r2, 0; @%p bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1+2048], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END: ret;
}
"""
PRODUCT = """wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, {%r8, %r7, %r7, %r7}, %rd2, 1, 1, 1, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mov.b32 %r5, %f0;"""


@pytest.mark.parametrize(
    ("make", "faulty"),
    [
        ("mov.b32 %r5, %r8;", False),
        ("add.u32 %r5, %r8, 1;", True),
        (PRODUCT, True),
        (PRODUCT.replace("%r8", "%r7"), False),
    ],
    ids=["moved", "a sum", "a product", "a product of what is written"],
)
def test_padding_is_only_moved(make, faulty):
    """Compilers make padding of a register that nobody wrote, but not of what is computed from it."""
    found = warpsim.load(WARPGROUP.replace("MAKE", make))["k"](
        1, 128, (np.zeros(4, np.uint32),), on_finding="collect", checks="init"
    ).findings

    assert ["comes from register %r8" in f.message for f in found] == [True] * faulty


def test_what_a_tensor_leaves_out():
    """Elements outside of the tensor are not stored."""
    assert launched("a box", rows(0, 3), size=12) == ()
    assert [f.rule for f in launched("a box", rows(0, 3), size=13)] == ["uninitialised"]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("copy", COPIES)
def test_what_is_there_afterwards(copy, effects):
    """A store writes memory that nobody has written; sums with what was there are as undefined as that."""
    device = warpsim.Device("sm_90a")
    out = device.empty((16,), np.uint32)
    map = warpsim.TensorMap(out, data_type="UINT32", global_dim=(16,), global_strides=(), box_dim=(16,))
    read = "ld.global.u32 %r9, [%rd1]; st.global.u32 [%rd1], %r9;\n    ret;"
    text = KERNEL.replace("WRITE", rows(0, 4)).replace("COPY", COPIES[copy]).replace("ret;", read)
    found = warpsim.load(text)["k"](
        1, 1, (out, map), device=device, on_finding="collect", async_effects=effects, checks="init"
    ).findings

    assert [(f.rule, f.line) for f in found] == [("uninitialised", STORED + 2)] * ("sums" in copy)
