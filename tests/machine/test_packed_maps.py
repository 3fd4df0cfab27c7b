"""Tensor maps of packed elements of 4 and 6 bits (sm_100 and newer), and element strides of 0 that a kernel stores in a map."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 8.7
.target {target}
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 x, .param .u32 y)
{{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
.shared .align 1024 .b8 tile[4096]; .shared .align 8 .b64 bar;
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar;
ld.param.u32 %r5, [x]; ld.param.u32 %r6, [y]; cvta.param.u64 %rd1, map; ld.param.u64 %rd3, [out];
shl.b32 %r7, %r1, 2; add.u32 %r8, %r2, %r7; mov.u32 %r9, 0;
F: st.shared.b32 [%r8], 0xCDCDCDCD; add.u32 %r8, %r8, 512; add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 8; @%p2 bra F;
{change}
fence.proxy.async; bar.sync 0;
{copy}
add.u32 %r8, %r2, %r7; mov.u32 %r9, 0; cvt.u64.u32 %rd4, %r7; add.u64 %rd3, %rd3, %rd4;
D: ld.shared.b32 %r10, [%r8]; st.global.b32 [%rd3], %r10; add.u64 %rd3, %rd3, 512; add.u32 %r8, %r8, 512;
add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 8; @%p2 bra D;
ret;
}}
"""
LOAD = """@%p1 mbarrier.init.shared.b64 [%r3], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {nbytes};
@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {{%r5, %r6}}], [%r3];
L: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra L;"""
STORE = """@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r5, %r6}], [%r2];
@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"""
PACKED = {"16U4_ALIGN8B": (8, 8), "16U4_ALIGN16B": (8, 16), "16U6_ALIGN16B": (12, 16)}
"""Bytes of 16 elements in global and in shared memory (CUDA driver API, cuTensorMapEncodeTiled)."""
ROWS, WIDTH = 8, 256


def tensor_of(data_type, **changes):
    """A tensor of 8 rows of 256 elements, and a map of it with boxes of 128 elements of 4 rows."""
    stride = WIDTH // 16 * PACKED[data_type][0]
    data = np.random.default_rng(3).integers(0, 256, (ROWS, stride), np.uint8)
    arguments = {"global_dim": [WIDTH, ROWS], "global_strides": [stride], "box_dim": [128, 4]} | changes
    return data, warpsim.TensorMap(data, data_type=data_type, **arguments)


def launch(tensor, copy, x=0, y=0, target="sm_100a", change=""):
    """Shared memory as the kernel leaves it."""
    out = np.zeros(4096, np.uint8)
    warpsim.load(KERNEL.format(target=target, copy=copy, change=change))["k"](1, 128, (tensor, out, x, y))
    return out


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("data_type", PACKED)
def test_loads_of_packed_elements(data_type, swizzle):
    """16 elements lie together, with gaps behind them where the type says so; rows outside of the tensor are zero."""
    data, tensor = tensor_of(data_type, swizzle=swizzle)
    inside, slot = PACKED[data_type]
    out = launch(tensor, LOAD.format(nbytes=4 * 8 * inside), 128, 6)

    expected = np.full(4096, 0xCD, np.uint8)
    pitch = max(8 * slot, 128 if swizzle == "128B" else 0)
    for row in range(4):
        for group in range(8):
            at = row * pitch + group * slot
            at ^= (at >> 7 & 7) << 4 if swizzle == "128B" else 0
            source = data[6 + row, (8 + group) * inside :][:inside] if row < 2 else np.zeros(inside, np.uint8)
            expected[at : at + inside] = source
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("data_type", ["16U4_ALIGN8B", "16U6_ALIGN16B"])
def test_stores_of_packed_elements(data_type):
    """A store leaves the gaps out."""
    data, tensor = tensor_of(data_type)
    before, inside = data.copy(), PACKED[data_type][0]
    launch(tensor, STORE, 128, 2)

    before[2:6, 8 * inside :] = 0xCD
    assert data.tolist() == before.tolist()


@pytest.mark.parametrize(
    ("data_type", "copy", "x", "target", "message"),
    [
        ("16U4_ALIGN16B", STORE, 0, "sm_100a", "loaded, not stored"),
        ("16U6_ALIGN16B", LOAD.format(nbytes=384), 64, "sm_100a", "multiple of 128 packed elements"),
        ("16U4_ALIGN8B", LOAD.format(nbytes=256), 16, "sm_100a", "multiple of 32 packed elements"),
        ("16U4_ALIGN8B", LOAD.format(nbytes=256), 0, "sm_90a", "GPUs before sm_100"),
    ],
)
def test_copies_that_do_not_exist(data_type, copy, x, target, message):
    """What the PTX ISA leaves out of the packed types (tensors, data types)."""
    with pytest.raises(warpsim.ExecutionError, match=message) as caught:
        launch(tensor_of(data_type)[1], copy, x, 0, target)

    assert caught.value.findings[0].rule == "tensor-map"


@pytest.mark.parametrize(
    ("data_type", "changes"),
    [
        ("16U4_ALIGN16B", {"global_dim": [192, 8]}),
        ("16U6_ALIGN16B", {"box_dim": [64, 4]}),
        ("16U6_ALIGN16B", {"global_strides": [208]}),
        ("16U4_ALIGN16B", {"swizzle": "64B"}),
        ("16U6_ALIGN16B", {"swizzle": "32B"}),
        ("16U4_ALIGN16B", {"oob_fill": "nan"}),
        ("16U4_ALIGN8B", {"oob_fill": "nan"}),
        ("16U4_ALIGN8B", {"global_dim": [255, 8]}),
        ("16U4_ALIGN8B", {"box_dim": [48, 4]}),
        ("16U4_ALIGN8B", {"box_dim": [96, 4], "swizzle": "32B"}),
        ("16U4_ALIGN8B", {"element_strides": [1, 0]}),
    ],
)
def test_maps_that_the_driver_refuses(data_type, changes):
    """The requirements that the driver's documentation lists for the packed types."""
    with pytest.raises(warpsim.LaunchError):
        tensor_of(data_type, **changes)


@pytest.mark.parametrize("data_type", ["16U4_ALIGN16B", "16U6_ALIGN16B"])
def test_addresses_of_packed_tensors(data_type):
    """Tensors with gaps in shared memory begin at multiples of 32 bytes."""
    tensor = tensor_of(data_type)[1]
    tensor.encode(0x7F0000000020)
    with pytest.raises(warpsim.LaunchError, match="not a multiple"):
        tensor.encode(0x7F0000000010)


@pytest.mark.parametrize(("order", "rows", "step"), [(0, 8, 1), (1, 64, 8)])
def test_an_element_stride_of_zero(order, rows, step):
    """A kernel that stores an element stride of 0 in a map copies as with 8, as an H200 does: the map has 3 bits of the stride
    less 1. Dimension 0 has no stride."""
    data = np.arange(64 * 32, dtype=np.uint32).reshape(64, 32)
    tensor = warpsim.TensorMap(data, global_dim=[32, 64], global_strides=[128], box_dim=[32, rows])
    raw = np.frombuffer(bytearray(tensor.encode(0)), np.uint8)
    words = ", ".join(str(w) for w in raw.view(np.uint32))
    kernel = warpsim.load(EDITED.replace("WORDS", words).replace("ORDER", str(order)))["k"]
    out = np.zeros((8, 32), np.uint32)
    kernel(1, 32, (data, out))

    assert out.tolist() == data[:rows:step].tolist()


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        ("fence.proxy.tensormap::generic.release.gpu;", "release of the thread that changed it"),
        ("fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;", "acquire of its own"),
    ],
)
def test_a_change_of_a_map_that_a_fence_lacks(line, lacking):
    """The message names the one that is missing."""
    data = np.arange(8 * 32, dtype=np.uint32).reshape(8, 32)
    raw = warpsim.TensorMap(data, global_dim=[32, 8], global_strides=[128], box_dim=[32, 8]).encode(0)
    words = ", ".join(str(w) for w in np.frombuffer(raw, np.uint32))
    text = EDITED.replace("WORDS", words).replace("ORDER", "0").replace(line, "")
    result = warpsim.load(text)["k"](1, 32, (data, np.zeros((8, 32), np.uint32)), on_finding="collect")

    (found,) = result.findings
    assert (found.rule, found.severity) == ("proxy-fence", "error")
    assert found.message.endswith(f"without a fence.proxy.tensormap::generic.{lacking}")


EDITED = """.version 8.3
.target sm_90a
.address_size 64
.global .align 128 .b32 made[32] = {WORDS};
.visible .entry k(.param .u64 tensor, .param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar;
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r5, 0;
mov.b64 %rd1, made; ld.param.u64 %rd2, [tensor]; ld.param.u64 %rd3, [out];
@!%p1 bra WAIT;
tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;
tensormap.replace.tile.element_stride.global.b1024.b32 [%rd1], ORDER, %r5;
fence.proxy.tensormap::generic.release.gpu;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r5, %r5}], [%r3];
WAIT: bar.sync 0;
L: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra L;
shl.b32 %r7, %r1, 2; add.u32 %r8, %r2, %r7; cvt.u64.u32 %rd4, %r7; add.u64 %rd3, %rd3, %rd4; mov.u32 %r9, 0;
D: ld.shared.b32 %r10, [%r8]; st.global.b32 [%rd3], %r10; add.u64 %rd3, %rd3, 128; add.u32 %r8, %r8, 128;
add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 8; @%p2 bra D;
ret;
}
"""
