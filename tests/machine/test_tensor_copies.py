"""Tensor copies that a GPU refuses to make, and the smallest ones that it makes: rule tensor-map."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

import boxes_ptx
import warpsim
from docs.tools import faulty
from warpsim.checks.written import nothing_written
from warpsim.machine.state import global_memory


def copy(made, rank, size, at, tensor, data, **kind):
    """One copy at ``at`` (five coordinates, then offsets)."""
    kernel = warpsim.load(boxes_ptx.kernel(rank, size, **kind))["box"]
    places = np.zeros((1, 8), np.int32)
    places[0, : len(at)] = at
    return kernel((1,), (128,), (made, places, data))


def im2col(tensor):
    """Pixels -1 to 4 of a row of six, eight channels at a time."""
    return warpsim.TensorMap.im2col(
        tensor, data_type="UINT16", global_dim=[16, 6, 3], global_strides=[32, 192], pixel_box_lower_corner=[-1],
        pixel_box_upper_corner=[-1], channels_per_pixel=8, pixels_per_column=8,
    )  # fmt: skip


@pytest.mark.parametrize(("w", "good"), [(-2, False), (-1, True), (4, True), (5, False), (9, False)])
def test_im2col_begins_inside_the_bounding_box(w, good):
    """An H200 faults on other coordinates."""
    tensor, data = np.zeros(16 * 6 * 3, np.uint16), np.zeros(64, np.uint16)
    if good:
        copy(im2col(tensor), 3, 128, (0, w, 0), tensor, data, im2col=True)
        return
    with pytest.raises(warpsim.ExecutionError) as caught:
        copy(im2col(tensor), 3, 128, (0, w, 0), tensor, data, im2col=True)

    assert caught.value.findings[0].rule == "tensor-map"
    assert f"coordinate {w} of dimension 1 is outside the bounding box" in str(caught.value)


FAULTS = {
    "add": "UINT8 UINT16 INT64", "min": "FLOAT32 FLOAT64 UINT8 TFLOAT32", "max": "FLOAT32_FTZ UINT16", "inc": "INT32 UINT64",
    "dec": "INT32 FLOAT16 INT64", "and": "INT64 FLOAT32 UINT8", "or": "BFLOAT16 UINT16", "xor": "FLOAT64 INT64",
}  # fmt: skip
"""Reductions of which an H200 says that the instruction is illegal (a part of 70 that were tried); PTX ISA 9.7.9.27.1.3 has
``.inc`` and ``.dec`` of ``.u32`` alone."""


@pytest.mark.parametrize(("op", "data_type"), [(op, t) for op, types in FAULTS.items() for t in types.split()])
def test_reductions_that_do_not_exist(op, data_type):
    """The type of the map decides."""
    tensor, data = np.zeros(16 * 16, np.uint64), np.zeros(16 * 16, np.uint64)
    size = {"8": 1, "16": 2, "32": 4, "64": 8}[data_type.split("_")[0].lstrip("BFLOATUINS")]
    made = warpsim.TensorMap(
        tensor, data_type=data_type, global_dim=[16, 16], global_strides=[16 * size], box_dim=[16, 2]
    )
    with pytest.raises(warpsim.ExecutionError) as caught:
        copy(made, 2, 32 * size, (0, 0), tensor, data, op=op)

    assert caught.value.findings[0].rule == "tensor-map"
    assert data_type in str(caught.value)


def test_a_negative_pixel_is_not_stored():
    """Interleaved maps count pixels: any may be the first of a load, only those inside of a store."""
    tensor, data = np.zeros((4, 3, 12, 8), np.uint16), np.ones(64, np.uint16)
    made = warpsim.TensorMap(
        tensor, global_dim=[12, 3, 4], global_strides=[192, 576], box_dim=[8, 1, 1], interleave="16B"
    )
    copy(made, 3, 128, (3, 1, 2), tensor, data, store=True)

    assert tensor[2, 1, 3:11].all()
    assert tensor.sum() == 64
    with pytest.raises(warpsim.ExecutionError, match="negative coordinate"):
        copy(made, 3, 128, (-1, 1, 2), tensor, data, store=True)


def rows_of(tensor, extent, width=8):
    """A map of the first elements of rows of eight."""
    return warpsim.TensorMap(tensor, global_dim=[extent, 3], global_strides=[32], box_dim=[width, 2])


def test_a_store_writes_units_of_16_bytes():
    """An H100 stores what shares 16 bytes with the last elements of a row, though it is beyond the tensor."""
    tensor, data = np.zeros((3, 8), np.uint32), np.arange(1, 17, dtype=np.uint32)
    copy(rows_of(tensor, 5), 2, 64, (0, 2), tensor, data, store=True)
    assert tensor[2].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not tensor[:2].any()

    copy(rows_of(tensor, 3), 2, 64, (0, 1), tensor, data, op="add")
    assert tensor.tolist() == [[0] * 8, [1, 2, 3, 4, 0, 0, 0, 0], [10, 12, 14, 16, 5, 6, 7, 8]]


@pytest.mark.parametrize(
    ("width", "at", "told"), [(8, (0, 1), True), (8, (8, 1), False), (4, (0, 1), False), (4, (4, 1), True)]
)
@pytest.mark.parametrize("late", [False, True])
def test_elements_beyond_the_tensor_are_noted(width, at, told, late):
    """Where the box reaches them; a note, because the rest of a row may be free."""
    tensor, data = np.zeros((3, 8), np.uint32), np.arange(1, 17, dtype=np.uint32)
    kernel = warpsim.load(boxes_ptx.kernel(2, 64, store=True))["box"]
    places = np.array([[*at, 0, 0, 0, 0, 0, 0]], np.int32)
    effects = "at_wait" if late else "eager"
    map = rows_of(tensor, 5, width)
    found = kernel((1,), (128,), (map, places, data), checks="all", async_effects=effects).findings

    assert [(f.rule, f.severity, f.lanes) for f in found if f.rule == "tensor-map"] == [
        ("tensor-map", "note", (0,))
    ] * told
    assert "rows of 5 elements" in str(found) or not told


def test_units_end_where_memory_ends():
    """Behind the last element of an allocation there is nothing to write, and nothing to report."""
    tensor, data = np.zeros(2 * 8 + 5, np.uint32), np.arange(1, 17, dtype=np.uint32)
    result = copy(rows_of(tensor, 5), 2, 64, (0, 2), tensor, data, store=True)

    assert tensor.tolist() == [0] * 16 + [1, 2, 3, 4, 5]
    assert not result.findings


UNWRITTEN = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
{
.reg .b64 d; .reg .b32 t, s; .reg .pred p; .shared .align 128 .b8 tile[64];
mov.b64 d, map; cvta.param.u64 d, d; mov.u32 s, tile;
mov.u32 t, %tid.x; setp.lt.u32 p, t, COUNT; mad.lo.u32 t, t, 4, s; @p st.shared.u32 [t], 7; @p st.shared.u32 [t+32], 7;
fence.proxy.async; bar.sync 0; mov.u32 t, %tid.x; setp.eq.u32 p, t, 0;
@p cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [d, {0, 0}], [s];
@p cp.async.bulk.commit_group; @p cp.async.bulk.wait_group 0; ret;
}"""


@pytest.mark.parametrize(("count", "silent"), [(5, True), (4, False)])
def test_elements_beyond_the_tensor_need_no_value(count, silent):
    """Only those in the tensor are what the program stores."""
    tensor = np.zeros((3, 8), np.uint32)
    kernel = warpsim.load(UNWRITTEN.replace("COUNT", str(count)))["k"]
    result = kernel((1,), (32,), (rows_of(tensor, 5),), on_finding="collect")

    assert [f.rule for f in result.findings] == ([] if silent else ["uninitialised"])


@pytest.mark.parametrize(("lower", "upper", "good"), [(0, 0, True), (1, -2, True), (-1, 0, False), (0, 1, False)])
def test_im2col_stores_stay_inside(lower, upper, good):
    """An H100 faults where the bounding box leaves the tensor, whatever part of it is stored."""
    tensor, data = np.zeros((3, 6, 16), np.uint16), np.ones(16, np.uint16)
    made = warpsim.TensorMap.im2col(
        tensor, data_type="UINT16", global_dim=[16, 6, 3], global_strides=[32, 192], pixel_box_lower_corner=[lower],
        pixel_box_upper_corner=[upper], channels_per_pixel=8, pixels_per_column=2,
    )  # fmt: skip
    if good:
        copy(made, 3, 32, (0, 2, 1), tensor, data, im2col=True, store=True)
        assert tensor.sum() == tensor[1, 2:4, :8].sum() == 16
        return
    with pytest.raises(warpsim.ExecutionError, match="bounding box leaves the tensor"):
        copy(made, 3, 32, (0, 2, 1), tensor, data, im2col=True, store=True)


RETYPED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 map, .param .u64 out)
{
.reg .b64 d, o; .reg .b32 t, s, b, r; .reg .pred p, q; .shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar;
ld.param.u64 d, [map]; ld.param.u64 o, [out]; mov.u32 t, %tid.x; setp.eq.u32 p, t, 0; mov.u32 s, tile; mov.u32 b, bar;
@p tensormap.replace.tile.elemtype.global.b1024.b32 [d], TYPE;
@p mbarrier.init.shared.b64 [b], 1;
fence.proxy.tensormap::generic.release.gpu; fence.mbarrier_init.release.cluster; bar.sync 0;
fence.proxy.tensormap::generic.acquire.gpu [d], 128;
@p mbarrier.arrive.expect_tx.shared.b64 _, [b], 128;
@p cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [s], [d, {0}], [b];
WAIT: mbarrier.try_wait.parity.shared.b64 q, [b], 0; @!q bra WAIT;
mad.lo.u32 s, t, 4, s; ld.shared.u32 r, [s]; mul.wide.u32 d, t, 4; add.u64 o, o, d; st.global.u32 [o], r; ret;
}"""


@pytest.mark.parametrize(
    ("before", "after", "loaded"),
    [
        ("FLOAT32", 7, 0x3F801001), ("FLOAT32", 11, 0x3F802000), ("FLOAT32", 2, 0x3F801001), ("TFLOAT32", 11, 0x3F802000),
        ("TFLOAT32", 7, 0x3F802000), ("TFLOAT32_FTZ", 8, 0x3F802000), ("TFLOAT32", 2, None), ("TFLOAT32_FTZ", 3, None),
    ],
)  # fmt: skip
def test_a_map_that_rounds_goes_on_rounding(before, after, loaded):
    """An H100 rounds FLOAT32 to tf32 where the map was made for TFLOAT32, and faults on loads of integers."""
    tensor, out = np.full(32, 0x3F801001, np.uint32), np.zeros(32, np.uint32)
    made = warpsim.TensorMap(tensor, data_type=before, global_dim=[32], global_strides=[], box_dim=[32])
    device = warpsim.Device()
    values = device.array(tensor)
    map = device.array(np.frombuffer(made.encode(values.ptr), np.uint8))
    launch = warpsim.load(RETYPED.replace("TYPE", str(after)))["k"]
    if loaded is None:
        with pytest.raises(warpsim.ExecutionError, match="rounds loads to tf32"):
            launch((1,), (32,), (map, out), device=device)
        return
    launch((1,), (32,), (map, out), device=device)

    assert set(out.tolist()) == {loaded}


class Copies(warpsim.Watcher):
    """How many lanes each step's copies have."""

    events = ("async_issued",)

    def __init__(self):
        self.lanes = []

    def async_issued(self, machine, transfer):
        """A copy begins."""
        self.lanes.append(len(transfer.positions))


def test_maps_of_the_same_bytes_are_one():
    """CTAs that have each made a map of their own, all alike, copy in one go."""
    folder = Path(__file__).parents[1] / "cases" / "triton_matmul_persistent_specialised_3.6"
    kernel = warpsim.load(folder / "kernel.ptx")["matmul_persistent"]
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (rows, 64)).astype(np.float16) for rows in (128, 128))
    c, seen = np.zeros((128, 128), np.float16), Copies()
    kernel((2,), (384,), (a, b, c, 128, 128, 64, np.zeros(1024, np.uint8), None), shared_mem=33080, watchers=[seen])

    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    assert set(seen.lanes) == {2}


NOWHERE = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 map)
{
.reg .b32 r; .reg .b64 d; .shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar;
mov.u32 r, 0;
ld.param.u64 d, [map];
cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [d, {r}], [bar];
ret;
}
"""


@pytest.mark.parametrize("window", ["LOCAL_WINDOW", "SHARED_WINDOW"])
def test_a_map_that_is_not_in_global_memory(window):
    """Maps are no data of a CTA or a thread; an address beyond those windows is that of nothing."""
    start = getattr(global_memory, window)
    found = {}
    for address in (start - 64, start, start + global_memory.WINDOW - 64, start + global_memory.WINDOW):
        launched = warpsim.load(NOWHERE)["k"](1, 1, (address,), on_finding="collect")
        found[address - start] = [f.rule for f in launched.findings]

    inside, outside = ["tensor-map"], ["out-of-bounds", "tensor-map"]
    assert list(found.values()) == [outside, inside, inside, outside]


LOOP = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry boxes(.param .align 64 .b8 map[128], .param .u64 corners, .param .u64 out, .param .u32 laps)
{
.reg .b32 r<12>; .reg .b64 d<8>; .reg .pred p, q, over; .shared .align 1024 .b8 tile[1024]; .shared .align 8 .b64 bar;
mov.u32 r0, %tid.x; mov.u32 r1, %ctaid.x; ld.param.u32 r2, [laps]; setp.eq.u32 p, r0, 0;
@p mbarrier.init.shared.b64 [bar], 1;
@p fence.mbarrier_init.release.cluster;
bar.sync 0;
mul.lo.u32 r3, r1, r2;
ld.param.u64 d0, [corners]; mad.wide.u32 d0, r3, 8, d0;
ld.param.u64 d1, [out]; mad.wide.u32 d1, r3, 1024, d1; mad.wide.u32 d1, r0, 4, d1;
mov.b64 d2, map; cvta.param.u64 d2, d2; mov.u32 r4, 0; shl.b32 r5, r0, 2; mov.u32 r6, tile; add.u32 r5, r5, r6;
LAP:
ld.global.v2.u32 {r7, r8}, [d0];
@!p bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [d2, {r7, r8}], [bar];
WAIT:
and.b32 r9, r4, 1;
AGAIN:
mbarrier.try_wait.parity.shared.b64 q, [bar], r9;
@!q bra AGAIN;
ld.shared.u32 r10, [r5]; st.global.u32 [d1], r10;
bar.sync 0;
add.u64 d0, d0, 8; add.u64 d1, d1, 1024; add.u32 r4, r4, 1; setp.lt.u32 over, r4, r2;
@over bra LAP;
ret;
}
"""


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("swizzle", ["NONE", "128B"])
def test_boxes_inside_and_outside_of_a_tensor_from_one_place(swizzle, alike, late):
    """Later copies of a map to one place are made by what is known of the first, where they lie inside."""
    rows, width, ctas, laps = 40, 64, 3, 12
    tensor = np.arange(1, (rows + 8) * width + 1, dtype=np.float32).reshape(-1, width)
    rng, out = np.random.default_rng(5), np.zeros((ctas, laps, 8, 32), np.float32)
    corners = np.stack([rng.integers(-2, 10, (ctas, laps)) * 4, rng.integers(-4, rows, (ctas, laps))], 2).astype(
        np.int32
    )
    corners[:, ::3] = [[[32, 32]], [[0, 0]], [[16, 31]]]
    corners[0, 4] = 16, rows - 7
    corners = np.repeat(corners[:1], ctas, 0) if alike else corners
    map = warpsim.TensorMap(
        tensor, global_dim=(width, rows), global_strides=(4 * width,), box_dim=(32, 8), swizzle=swizzle
    )
    effects = "at_wait" if late else "eager"
    warpsim.load(LOOP)["boxes"]((ctas,), (256,), (map, corners, out, laps), async_effects=effects)

    y, x = (corners[..., axis, None, None] for axis in (1, 0))
    y, x = y + np.arange(8)[:, None], x + np.arange(32)
    inside = (y >= 0) & (y < rows) & (x >= 0) & (x < width)
    wanted = np.where(inside, tensor[y.clip(0, rows - 1), x.clip(0, width - 1)], 0)
    if swizzle == "128B":  # units of 16 bytes, by the number of the line
        units = np.arange(8)[:, None] ^ np.arange(8)
        wanted = np.take_along_axis(wanted.reshape(ctas, laps, 8, 8, 4), units[None, None, :, :, None], axis=3)
    assert np.array_equal(out.reshape(wanted.shape), wanted)


def test_boxes_that_lie_apart_by_cta():
    """The first CTA loads one box again and again, others load boxes farther and farther from it."""
    tensor, out = np.arange(64 * 64, dtype=np.float32).reshape(64, 64), np.zeros((3, 4, 8, 32), np.float32)
    map = warpsim.TensorMap(tensor, global_dim=(64, 64), global_strides=(256,), box_dim=(32, 8))
    place = "mov.u32 r7, 4; mov.u32 r8, %ctaid.x; mul.lo.u32 r8, r8, r4; shl.b32 r8, r8, 3;"
    text = LOOP.replace("mbarrier.arrive", f"{place}\nmbarrier.arrive")
    warpsim.load(text)["boxes"]((3,), (256,), (map, np.zeros(24, np.int32), out, 4))

    assert np.array_equal(out, [[tensor[8 * cta * lap :][:8, 4:36] for lap in range(4)] for cta in range(3)])


def test_boxes_of_fewer_and_fewer_ctas():
    """CTAs leave the box that all have loaded, one after another, for another one."""
    tensor, out = np.arange(40 * 64, dtype=np.float32).reshape(40, 64), np.zeros((3, 4, 8, 32), np.float32)
    map = warpsim.TensorMap(tensor, global_dim=(64, 40), global_strides=(256,), box_dim=(32, 8))
    text = LOOP.replace("ld.global.v2.u32 {r7, r8}, [d0];", "mov.u32 r7, 4; mov.u32 r8, 8; setp.ge.u32 q, r1, r4;")
    load = next(line for line in text.split("\n") if line.startswith("cp.async"))
    text = text.replace(load, f"@q {load}\n@!q {load}".replace("r7, r8}", "r8, r7}").replace("r8, r7}", "r7, r8}", 1))
    warpsim.load(text)["boxes"]((3,), (256,), (map, np.zeros(1, np.int32), out, 4))

    first, second = tensor[8:16, 4:36], tensor[4:12, 8:40]
    assert np.array_equal(out, [[first if cta >= lap else second for lap in range(4)] for cta in range(3)])


def test_a_box_that_begins_where_none_can_behind_others():
    """What is known of a first copy does not hide that a later one begins between two units of 16 bytes."""
    tensor, out = np.arange(40 * 64, dtype=np.float32).reshape(40, 64), np.zeros((1, 4, 8, 32), np.float32)
    corners = np.array([[[0, 0], [4, 8], [2, 0], [8, 1]]], np.int32)
    map = warpsim.TensorMap(tensor, global_dim=(64, 40), global_strides=(256,), box_dim=(32, 8))
    with pytest.raises(warpsim.ExecutionError, match="innermost coordinate 2 is 8 bytes, not a multiple of 16"):
        warpsim.load(LOOP)["boxes"]((1,), (256,), (map, corners, out, 4))

    assert np.array_equal(out[0, :2], [tensor[:8, :32], tensor[8:16, 4:36]])


@pytest.mark.parametrize("late", [False, True])
def test_boxes_that_arrive_one_after_the_other(late):
    """One of several CTAs that start copies together waits for its own at another place."""
    tensor, out = np.arange(40 * 64, dtype=np.float32).reshape(40, 64), np.zeros((3, 2, 8, 32), np.float32)
    corners = np.array([[[0, 0], [4, 8]], [[8, 1], [12, 2]], [[16, 3], [20, 4]]], np.int32)
    map = warpsim.TensorMap(tensor, global_dim=(64, 40), global_strides=(256,), box_dim=(32, 8))
    own = "FIRST:\nmbarrier.try_wait.parity.shared.b64 q, [bar], r9;\n@!q bra FIRST;\n"
    text = LOOP.replace("AGAIN:\n", f"setp.eq.u32 q, r1, 1;\n@!q bra AGAIN;\n{own}AGAIN:\n")
    kernel = warpsim.load(text)["boxes"]
    kernel((3,), (256,), (map, corners, out, 2), async_effects="at_wait" if late else "eager")

    assert np.array_equal(out, [[tensor[y : y + 8, x : x + 32] for x, y in each] for each in corners.tolist()])


STORES = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry boxes(.param .align 64 .b8 map[128], .param .u64 corners, .param .u32 laps)
{
.reg .b32 r<12>; .reg .b64 d<8>; .reg .pred p, over; .shared .align 1024 .b8 tile[1024];
mov.u32 r0, %tid.x; mov.u32 r1, %ctaid.x; ld.param.u32 r2, [laps]; setp.eq.u32 p, r0, 0; mul.lo.u32 r3, r1, r2;
ld.param.u64 d0, [corners]; mad.wide.u32 d0, r3, 8, d0; mov.b64 d2, map; cvta.param.u64 d2, d2; mov.u32 r4, 0;
shl.b32 r5, r0, 2; mov.u32 r6, tile; add.u32 r5, r5, r6; mad.lo.u32 r10, r3, 256, r0; add.u32 r10, r10, 1;
LAP:
st.shared.u32 [r5], r10; fence.proxy.async.shared::cta; ld.global.v2.u32 {r7, r8}, [d0];
bar.sync 0;
@!p bra NEXT;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [d2, {r7, r8}], [tile];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
NEXT:
bar.sync 0;
add.u64 d0, d0, 8; add.u32 r10, r10, 256; add.u32 r4, r4, 1; setp.lt.u32 over, r4, r2;
@over bra LAP;
ret;
}
"""


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("swizzle", ["NONE", "128B"])
def test_boxes_stored_inside_and_across_the_end_of_a_tensor(swizzle, late):
    """Later stores through a map are made by what is known of the first, where they lie inside."""
    rows, width, ctas = 60, 64, 3
    tensor, wanted = np.zeros((rows, width), np.uint32), np.zeros((rows + 8, width + 32), np.uint32)
    corners = np.tile(np.array([[0, 0], [32, 8], [4, 3], [48, 2], [8, 9]], np.int32), (ctas, 1, 1))
    corners[:, :, 1] += np.array([[22], [0], [44]], np.int32)
    for number, (x, y) in enumerate(corners.reshape(-1, 2)):
        units = (1 + 256 * number + np.arange(256, dtype=np.uint32)).reshape(8, 8, 4)
        if swizzle == "128B":  # units of 16 bytes, by the number of the line
            units = np.take_along_axis(units, (np.arange(8)[:, None] ^ np.arange(8))[:, :, None], axis=1)
        wanted[y : y + 8, x : x + 32] = units.reshape(8, 32)
    map = warpsim.TensorMap(
        tensor, global_dim=(width, rows), global_strides=(4 * width,), box_dim=(32, 8), swizzle=swizzle
    )
    effects = "at_wait" if late else "eager"
    warpsim.load(STORES)["boxes"]((ctas,), (256,), (map, corners, corners.shape[1]), async_effects=effects)

    assert np.array_equal(tensor, wanted[:rows, :width])


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_a_store_writes_what_it_has_read(effects):
    """Once the source has been read, it may be overwritten; what arrives later is what was there."""
    tensor, again = (
        np.zeros((60, 64), np.uint32),
        "wait_group.read 0; st.shared.u32 [tile], 99; cp.async.bulk.wait_group 0;",
    )
    map = warpsim.TensorMap(tensor, global_dim=(64, 60), global_strides=(256,), box_dim=(32, 8))
    kernel = warpsim.load(STORES.replace("wait_group 0;", again))["boxes"]
    kernel((1,), (256,), (map, np.array([[4, 8]], np.int32), 1), async_effects=effects)

    assert np.array_equal(tensor[8:16, 4:36].reshape(-1), 1 + np.arange(256))


def test_what_boxes_store_is_written():
    """Boxes stored to memory that nobody has written make it defined, they alone."""
    device = warpsim.Device("sm_90a")
    tensor, out = device.array(np.zeros((60, 64), np.uint32)), np.zeros((1, 1, 8, 32), np.uint32)
    nothing_written(device.memory, tensor.ptr)
    map = warpsim.TensorMap(tensor, global_dim=(64, 60), global_strides=(256,), box_dim=(32, 8))
    warpsim.load(STORES)["boxes"]((1,), (256,), (map, np.array([[4, 8], [32, 30]], np.int32), 2), device=device)
    found = [
        warpsim.load(LOOP)["boxes"](
            (1,), (256,), (map, np.array([corner], np.int32), out, 1), device=device, on_finding="collect"
        ).findings
        for corner in ([4, 8], [32, 30], [8, 8])
    ]

    assert [[one.rule for one in each] for each in found] == [[], [], ["uninitialised"]]


def test_a_copy_of_memory_keeps_what_boxes_overwrite():
    """Boxes are stored in memory that nobody shares."""
    device = warpsim.Device("sm_90a")
    tensor, corners = device.array(np.zeros((60, 64), np.uint32)), np.array([[4, 8]], np.int32)
    map = warpsim.TensorMap(tensor, global_dim=(64, 60), global_strides=(256,), box_dim=(32, 8))
    kept = deepcopy(device.memory)
    warpsim.load(STORES)["boxes"]((1,), (256,), (map, corners, 1), device=device)

    assert tensor.get().any()
    assert not kept.at(tensor.ptr).data.any()


def test_a_store_to_read_only_memory():
    """Boxes that lie inside the tensor are not stored either."""
    device = warpsim.Device("sm_90a")
    tensor = device.array(np.zeros((60, 64), np.uint32))
    map = warpsim.TensorMap(tensor, global_dim=(64, 60), global_strides=(256,), box_dim=(32, 8))
    corners = device.array(np.array([[4, 8]], np.int32))
    device.memory.at(tensor.ptr).read_only = True
    with pytest.raises(warpsim.ExecutionError, match="which is read-only"):
        warpsim.load(STORES)["boxes"]((1,), (256,), (map, corners, 1), device=device)

    assert not tensor.get().any()


def test_boxes_added_to_a_tensor_one_after_the_other():
    """Later reductions through a map combine, too."""
    tensor, wanted = np.ones((60, 64), np.uint32), np.ones((60, 64), np.uint32)
    corners = np.array([[4, 8], [4, 8], [8, 9]], np.int32)
    for number, (x, y) in enumerate(corners):
        wanted[y : y + 8, x : x + 32] += 1 + 256 * number + np.arange(256, dtype=np.uint32).reshape(8, 32)
    map = warpsim.TensorMap(tensor, global_dim=(64, 60), global_strides=(256,), box_dim=(32, 8))
    text = STORES.replace("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor").replace("cta.bulk", "cta.add.bulk")
    warpsim.load(text)["boxes"]((1,), (256,), (map, corners, len(corners)))

    assert np.array_equal(tensor, wanted)


@pytest.mark.parametrize(("corner", "what"), [((2, 0), "coordinate 2 is 8 bytes"), ((-4, 0), "a negative coordinate")])
def test_a_store_like_one_before_is_checked_as_that(corner, what):
    """Where a map is known already, a box may still begin where none can."""
    tensor = np.zeros((60, 64), np.uint32)
    map = warpsim.TensorMap(tensor, global_dim=(64, 60), global_strides=(256,), box_dim=(32, 8))
    with pytest.raises(warpsim.ExecutionError, match=what):
        warpsim.load(STORES)["boxes"]((1,), (256,), (map, np.array([[4, 8], corner], np.int32), 2))

    assert tensor[8:16, 4:36].all()
    assert np.count_nonzero(tensor) == 256


@pytest.mark.parametrize("swizzle", ["NONE", "128B_ATOM_32B_FLIP_8B"])
def test_each_store_uses_its_map_once(swizzle):
    """Whether a box lies inside the tensor or leaves it, and whether it is stored or refused."""

    class Uses(warpsim.Watcher):
        addresses = ()

        def map_used(self, machine, group, addresses, columns, active):
            """A copy uses it."""
            self.addresses += tuple(addresses.tolist())

    tensor, watcher = np.zeros((60, 64), np.uint32), Uses()
    map = warpsim.TensorMap(tensor, global_dim=(64, 60), global_strides=(256,), box_dim=(32, 8), swizzle=swizzle)
    kernel = warpsim.load(STORES.replace("sm_90a", "sm_100a").replace("8.3", "8.6"))["boxes"]
    corners = np.array([[0, 0], [4, 8], [48, 56]], np.int32)
    kernel((1,), (256,), (map, corners, 3), on_finding="collect", watchers=[watcher])

    assert len(watcher.addresses) == 3
    assert len(set(watcher.addresses)) == 1


def test_a_swizzle_that_is_only_loaded():
    """Nor is one stored that only loads may have, the second time."""
    tensor = np.zeros((60, 64), np.uint32)
    flips = "128B_ATOM_32B_FLIP_8B"
    map = warpsim.TensorMap(tensor, global_dim=(64, 60), global_strides=(256,), box_dim=(32, 8), swizzle=flips)
    kernel, corners = (
        warpsim.load(STORES.replace("sm_90a", "sm_100a").replace("8.3", "8.6"))["boxes"],
        np.array([[0, 0], [4, 8]], np.int32),
    )
    found = kernel((1,), (256,), (map, corners, 2), on_finding="collect").findings

    assert [(f.rule, f.count) for f in found] == [("tensor-map", 2)]
    assert not tensor.any()


@pytest.mark.parametrize(
    ("place", "column", "what"),
    [("%s", 1, "a multiple of 16"), ("%s+16", 0, "a multiple of 128"), ("%s+3968", 0, "leaves the"), ("%s+128", 4, "")],
)
def test_a_load_like_one_before_is_checked_as_that(place, column, what):
    """Where a map is known already, a load to another place, or from elsewhere, may still be one that cannot be."""
    text = f"""@%first mbarrier.init.shared.b64 [%bar], 1;
    @%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 4096;
    mov.b64 %x3, map; cvta.param.u64 %x3, %x3; mov.u32 %r2, 0; mov.u32 %r3, {column};
    @%first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%x3, {{%r2, %r2}}], [%bar];
    @%first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [{place}], [%x3, {{%r3, %r2}}], [%bar];
    """
    example = faulty.Example.of(text, "block=32")
    kernel = warpsim.load(example.module())["k"]
    words = np.arange(4096, dtype=np.uint32)
    tensor = warpsim.TensorMap(words, global_dim=[32, 16], global_strides=[128], box_dim=[8, 8])
    found = kernel(
        1, 32, (words, words, tensor), checks="all-race-async-smem-overwrite-async-read-early", on_finding="collect"
    ).findings
    line = next(n for n, each in enumerate(example.module().split("\n"), 1) if f"[{place}], [%x3, {{%r3" in each)
    errors = [f for f in found if f.severity == "error"]
    assert [(f.rule, f.line) for f in errors] == [("tensor-map", line)] * bool(what)
    assert all(what in f.message for f in errors)
