"""Tensor copies of rows and along W, pairs of CTAs, and the other copies that came with sm_100: against loops over elements."""

import numpy as np
import pytest

import warpsim
from warpsim.layout.boxes import Boxes
from warpsim.layout.tensor_map import DATA_TYPES, IM2COL_W, IM2COL_W128, Fields

HEAD = """.version 8.8 .target sm_100a .address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 at) {
  .reg .b32 %t, %s, %b, %v, %c<6>; .reg .b64 %m, %o, %a, %x; .reg .b16 %h<3>; .reg .pred %p, %q;
  .shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar[2];
  mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; mov.u32 %s, tile; mov.u32 %b, bar;
  mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %o, [out]; ld.param.u64 %a, [at];
  ld.global.b32 %c0, [%a]; ld.global.b32 %c1, [%a+4]; ld.global.b32 %c2, [%a+8]; ld.global.b32 %c3, [%a+12];
  ld.global.b32 %c4, [%a+16]; ld.global.b32 %c5, [%a+20]; cvt.u16.u32 %h0, %c4; cvt.u16.u32 %h1, %c5;
  @%p mbarrier.init.shared.b64 [%b], 1;
  @%p fence.mbarrier_init.release.cluster;
  bar.sync 0;
"""
TAIL = """
WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%b], 0;
  @!%q bra WAIT;
  shl.b32 %v, %t, 2; cvt.u64.u32 %x, %v; add.u64 %o, %o, %x; add.u32 %s, %s, %v;
COPY: setp.ge.u32 %q, %v, BYTES;
  @%q ret;
  ld.shared.b32 %c0, [%s]; st.global.b32 [%o], %c0; add.u64 %o, %o, 512; add.u32 %s, %s, 512; add.u32 %v, %v, 512;
  bra COPY; }"""
LOAD = "  @%p cp.async.bulk.tensor.{}.mbarrier::complete_tx::bytes [%s], [%m, {{{}}}], [%b]{};\n"
GATHER = LOAD.format("2d.shared::cta.global.tile::gather4", "%c0, %c1, %c2, %c3, %c4", "")


def module(load, counted, nbytes):
    """A module that loads boxes, which count so many bytes, and copies out what they occupy."""
    expect = f"  @%p mbarrier.arrive.expect_tx.shared.b64 _, [%b], {counted};\n"
    return HEAD + expect + load + TAIL.replace("BYTES", str(nbytes))


def rules_of(text, threads, arguments, grid=1):
    """The rules that a launch breaks."""
    try:
        warpsim.load(text)["k"]((grid,), (threads,), arguments, checks="default+race")
    except warpsim.ExecutionError as error:
        return {found.rule for found in error.findings}
    return set()


def loaded(made, nbytes, at, load, counted=None, **options):
    """What a load leaves in shared memory."""
    out, places = np.zeros(nbytes // 4, np.uint32), np.array([*at, *[0] * 6][:6], np.int32)
    kernel = warpsim.load(module(load, counted or nbytes, nbytes))["k"]
    kernel((1,), (128,), (made, out, places), **{"checks": "default+race", **options})
    return out.view(np.uint8)


def tensor(rows, columns):
    """Rows of numbers, each another."""
    return np.random.default_rng(rows).permutation(1 << 16)[: rows * columns].astype(np.uint16).reshape(rows, columns)


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("rows", [(3, 19, 0, 7), (5, 5, 4, 5), (-1, 20, 19, 1 << 20)])
@pytest.mark.parametrize("column", [0, 8, 56, -8])
def test_gather4(rows, column, effects):
    """Four rows of a tensor lie behind each other; what is outside of it is filled, row by row and column by column."""
    given = tensor(20, 64)
    made = warpsim.TensorMap(given, global_dim=(64, 20), global_strides=(128,), box_dim=(32, 1))
    found = loaded(made, 256, (column, *rows), GATHER, async_effects=effects).view(np.uint16).reshape(4, 32)

    for row, values in zip(rows, found.tolist(), strict=True):
        inside = [0 <= row < 20 and 0 <= column + k < 64 for k in range(32)]
        assert values == [int(given[row, column + k]) if inside[k] else 0 for k in range(32)]


def test_gathered_rows_are_swizzled_as_four_of_a_box():
    """The same bytes as those of a box of four rows, at the same places."""
    given = tensor(20, 64)
    maps = [
        warpsim.TensorMap(given, global_dim=(64, 20), global_strides=(128,), box_dim=(64, n), swizzle="128B")
        for n in (1, 4)
    ]
    box = LOAD.format("2d.shared::cta.global.tile", "%c0, %c1", "")

    assert (loaded(maps[0], 512, (0, 6, 7, 8, 9), GATHER) == loaded(maps[1], 512, (0, 6), box)).all()


SCATTER = """  shl.b32 %v, %t, 2; add.u32 %v, %v, %s; st.shared.b32 [%v], %t; {}
  @%p cp.{}async.bulk.tensor.2d.global.shared::cta.{}tile::scatter4.bulk_group [%m, {{%c0, %c1, %c2, %c3, %c4}}], [%s];
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret; }}"""
FENCED = "fence.proxy.async; bar.sync 0;"


def scattered(given, box, at, fence=FENCED, reduce="", op=""):
    """The tensor behind a store of the numbers of 128 threads."""
    rows, columns = given.shape
    size = given.itemsize
    made = warpsim.TensorMap(given, global_dim=(columns, rows), global_strides=(columns * size,), box_dim=(box, 1))
    kernel = warpsim.load(HEAD + SCATTER.format(fence, reduce, op))["k"]
    return kernel((1,), (128,), (made, np.zeros(4, np.uint32), np.array([*at, 0], np.int32)), checks="default+race")


def test_scatter4():
    """Four rows go to rows of a tensor; of those beyond it, and of columns beyond it, nothing is stored."""
    given = np.full((9, 36), 7777, np.uint32)
    scattered(given, 32, (8, 3, 100, 0, 8))

    expected = np.full((9, 36), 7777)
    for part, row in ((0, 3), (2, 0), (3, 8)):
        expected[row, 8:] = 32 * part + np.arange(28)
    assert (given == expected).all()


def test_scatter4_of_a_reduction():
    """Rows that are named twice are added twice."""
    given = np.zeros((4, 32), np.uint32)
    scattered(given, 32, (0, 1, 2, 1, 1), reduce="reduce.", op="add.")

    lines = np.arange(128).reshape(4, 32)
    assert (given[1] == lines[0] + lines[2] + lines[3]).all()
    assert (given[2] == lines[1]).all()
    assert not given[[0, 3]].any()


def wide_pixels(mode, dims, low, up, pixels, step, at, halo, offset):
    """(w, image) of each pixel, in the order of shared memory (PTX ISA: im2col::w and im2col::w::128 modes)."""
    part = 32 if mode.endswith("128") else pixels
    w, image, found = at[1] + offset, at[-1], []
    for n in range(1, (128 if mode.endswith("128") else pixels) + 1):
        found.append((w, image))
        if n % part == 0:
            found += [(w + step * k, image) for k in range(1, halo + 1)]
        w += step
        if w >= dims[1] + up + offset:
            w, image = low + offset, image + 1
    return found


@pytest.mark.parametrize(
    ("mode", "shape", "box", "at", "halo", "offset"),
    [  # the examples of the manual (wHalo, wOffset), and one that begins before the bounding box
        ("im2col::w", (64, 7, 9, 40), (0, 0, 128, 1), (0, 3, 2, 7), 2, 0),
        ("im2col::w::128", (64, 7, 9, 40), (0, 0, 1, 1), (0, 3, 2, 7), 2, 0),
        ("im2col::w", (64, 67, 9, 20), (-1, 0, 128, 2), (0, -1, 2, 7), 1, 0),
        ("im2col::w", (64, 67, 9, 20), (-1, 0, 128, 2), (0, -1, 2, 7), 0, 1),
        *[("im2col::w", (64, 7, 7, 60), (-1, -1, 128, 3), (0, -1, 2, 7), 0, offset) for offset in (0, 1, 2)],
        ("im2col::w", (16, 12, 5), (2, -2, 20, 1), (8, -3, 1), 3, 4),
        ("im2col::w::128", (16, 12, 2, 3, 40), (2, -2, 0, 1), (8, 4, 1, 1, 5), 31, 31),
    ],
)
def test_boxes_along_w(mode, shape, box, at, halo, offset):
    """Element by element."""
    low, up, pixels, step = box
    rank, fill = len(shape), 0
    strides = tuple(int(np.prod(shape[:k])) * 2 for k in range(1, rank))
    steps = (1, step, *[1] * (rank - 2))
    kind = IM2COL_W128 if mode.endswith("128") else IM2COL_W
    corners = (low, *[0] * (rank - 3)), (up, *[0] * (rank - 3))
    fields = Fields(
        DATA_TYPES.index("UINT16"), rank, 0, 3, fill, 0, shape, strides, (), steps, kind, *corners, 8, pixels
    )
    boxes = Boxes(fields, [np.array([c]) for c in at], [np.array([offset])], mode=mode, halo=halo)
    place, inside = boxes.elements(np.array([0]))
    expected = []
    for w, image in wide_pixels(mode, shape, low, up, pixels, step, at, halo, offset):
        for channel in range(at[0], at[0] + 8):
            index = (channel, w, *at[2:-1], image)
            good = all(0 <= i < n for i, n in zip(index, shape, strict=True))
            expected.append((index[0] * 2 + sum(i * s for i, s in zip(index[1:], strides, strict=True)), good))

    assert [(p, g) for (p, _), g in zip(expected, inside[0].tolist(), strict=True)] == expected
    assert [p for (p, g) in expected if g] == place[0][inside[0]].tolist()
    assert boxes.nbytes == len(expected) * 2


def test_a_copy_along_w():
    """The halo and the offset are the copy's operands; the mbarrier counts the halo's bytes, too."""
    given = tensor(4 * 6, 16).reshape(4, 6, 16)
    made = warpsim.TensorMap.im2col_wide(
        given, global_dim=(16, 6, 4), global_strides=(32, 192), pixel_box_lower_corner_width=0,
        pixel_box_upper_corner_width=-1, channels_per_pixel=16, pixels_per_column=8, swizzle="64B",
    )  # fmt: skip
    load = LOAD.format("3d.shared::cta.global.im2col::w", "%c0, %c1, %c2", ", {%h0, %h1}")
    rows = loaded(made, 640, (0, 2, 1, 0, 2, 1), load, 320, checks="none").reshape(10, 4, 16)
    pixels = [(3, 1), (4, 1), (5, 1), *[(w, 2) for w in range(1, 6)], (6, 2), (7, 2)]
    for number, (w, image) in enumerate(pixels):
        line = (number * 64) >> 7
        pixel = given[image, w] if w < 6 else np.zeros(16, np.uint16)
        for part in range(2):
            assert (rows[number, part ^ (line & 3)].view(np.uint16) == pixel[8 * part :][:8]).all()


PAIR = """.version 8.8 .target sm_100a .address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) .reqnctapercluster 4 .reqntid 32 {
  .reg .b32 %t, %r, %s, %b, %v, %lead, %even, %c; .reg .b64 %m, %o, %x; .reg .b16 %h; .reg .pred %p, %q, %one;
  .shared .align 128 .b8 tile[256]; .shared .align 8 .b64 bar;
  mov.u32 %t, %tid.x; mov.u32 %r, %cluster_ctarank; setp.eq.u32 %p, %t, 0; mov.u32 %s, tile; mov.u32 %b, bar;
  mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %o, [out];
  @%p mbarrier.init.shared.b64 [%b], 1;
  @%p fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive; barrier.cluster.wait;
  and.b32 %lead, %r, 1; setp.eq.u32 %one, %lead, 0; and.pred %one, %one, %p;
  @%one mbarrier.arrive.expect_tx.shared.b64 _, [%b], EXPECTED;
  sub.u32 %v, %r, %lead; mapa.shared::cluster.u32 %lead, %b, %v;
  shl.b32 %c, %r, 6;
  LOAD
  setp.eq.u32 %one, %r, %v;
  @!%one bra DONE;
WAIT: mbarrier.try_wait.parity.shared.b64 %q, [%b], 0;
  @!%q bra WAIT;
DONE: barrier.cluster.arrive; barrier.cluster.wait;
  shl.b32 %v, %t, 2; add.u32 %s, %s, %v; shl.b32 %r, %r, 7; add.u32 %v, %v, %r; cvt.u64.u32 %x, %v; add.u64 %o, %o, %x;
  ld.shared.b32 %v, [%s]; st.global.b32 [%o], %v;
  ret; }"""
SINGLE = """@%p cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::{} [%s], [%m, {{%c}}],
    [{}];"""
MULTICAST = """mov.u16 %h, 15; setp.eq.u32 %q, %r, 1; and.pred %q, %q, %p;
  @%q cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2
    [%s], [%m, {%c}], [%lead], %h;"""


def paired(load, expected):
    """What four CTAs, two pairs, have loaded."""
    given, out = tensor(4, 64).reshape(-1), np.zeros((4, 32), np.uint32)
    made = warpsim.TensorMap(given, global_dim=(256,), global_strides=(), box_dim=(64,))
    warpsim.load(PAIR.replace("LOAD", load).replace("EXPECTED", str(expected)))["k"](
        (4,), (32,), (made, out), checks="default+race"
    )
    return given.reshape(4, 64), out.view(np.uint16)


def test_a_pair_counts_at_one_mbarrier():
    """Each CTA loads its own part; the even one of the pair waits for both."""
    given, found = paired(SINGLE.format(2, "%lead"), 256)

    assert (found == given).all()


@pytest.mark.parametrize("mask", ["0xfeffffff", "-16777232", "-16809985"])
def test_a_cleared_pair_bit_names_the_even_cta(mask):
    """As CUTLASS writes it, and what nvcc makes of it: bit 24 of a CTA's own addresses is the last one of its rank."""
    given, found = paired(f"and.b32 %even, %b, {mask}; " + SINGLE.format(2, "%even"), 256)

    assert (found == given).all()


def test_a_peer_bit_that_is_cleared():
    """The same, where the even CTA's mbarrier is the own one without bit 24 of its address, as CUTLASS has it."""
    given, found = paired("and.b32 %lead, %b, -16777217;\n  " + SINGLE.format(2, "%lead"), 256)

    assert (found == given).all()


def test_a_multicast_counts_at_the_mbarriers_of_its_parity():
    """To all four CTAs, from one: the mbarrier is in an even one, so each pair counts at its even one, twice."""
    given, found = paired(MULTICAST, 256)

    assert (found == given[1]).all()


def test_where_the_mbarrier_of_a_group_is():
    """.cta_group::1 signals the CTA that it writes to."""
    with pytest.raises(warpsim.ExecutionError) as caught:
        paired(SINGLE.format(1, "%lead"), 256)

    assert (caught.value.findings[0].rule, caught.value.findings[0].line) == ("tensor-map", 14)
    assert "CTA 1 of the cluster signals an mbarrier of CTA 0" in str(caught.value)


MASKED = """.version 8.8 .target sm_100 .address_size 64
.visible .entry k(.param .u64 out, .param .b16 bytes) {
  .reg .b32 %t, %s, %at, %v; .reg .b64 %o; .reg .b16 %h; .reg .pred %p; .shared .align 16 .b8 tile[512];
  mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; mov.u32 %s, tile; mad.lo.u32 %at, %t, 4, %s; ld.param.u64 %o, [out];
  ld.param.b16 %h, [bytes];
  st.shared.b32 [%at], 0x04030201;
  fence.proxy.async;
  bar.sync 0;
  @%p cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%o], [%s], 64, %h;
  @%p cp.async.bulk.commit_group;
  @%p cp.async.bulk.wait_group 0;
  bar.sync 0;
  ret; }"""


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("mask", [0, 1, 0x8001, 0x1234, 0xFFFF])
def test_masked_bytes(mask, effects):
    """Of every 16 bytes, those are stored whose bit is set."""
    out = np.full(64, 99, np.uint8)
    warpsim.load(MASKED)["k"]((1,), (32,), (out, np.uint16(mask)), checks="default+race", async_effects=effects)

    assert out.tolist() == [k % 4 + 1 if mask >> k % 16 & 1 else 99 for k in range(64)]


@pytest.mark.parametrize(("second", "races"), [(0xAAAA, False), (0x5554, True)])
def test_masked_bytes_that_others_store(second, races):
    """Two CTAs may store to the same 16 bytes, unless both store one of them."""
    chosen = f"mov.u32 %at, %ctaid.x; setp.ne.u32 %p, %at, 0; selp.b16 %h, {second}, %h, %p; setp.eq.u32 %p, %t, 0;\n  @%p cp."
    text, out = MASKED.replace("@%p cp.", chosen, 1), np.zeros(64, np.uint8)
    text = text.replace(
        "st.shared.b32 [%at], 0x04030201;", "mov.u32 %v, %ctaid.x;\n  not.b32 %v, %v;\n  st.shared.b32 [%at], %v;"
    )

    assert rules_of(text, 32, (out, np.uint16(0x5555)), grid=2) == ({"race"} if races else set())


ZEROS = """.version 9.0 .target sm_100 .address_size 64
.visible .entry k(.param .u64 out, .param .u32 size) {
  .reg .b32 %t, %s, %at, %v; .reg .u32 %n; .reg .b64 %o, %x, %g; .reg .pred %p; .shared .align 16 .b8 tile[128];
  mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; mov.u32 %s, tile; mad.lo.u32 %at, %t, 4, %s; ld.param.u64 %o, [out];
  ld.param.u32 %n, [size]; cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g;
  st.shared.b32 [%at], 7;
  bar.sync 0;
  BULK
  bar.sync 0;
  ld.shared.b32 %v, [%at]; mul.wide.u32 %x, %t, 4; add.u64 %o, %o, %x; st.global.b32 [%o], %v;
  ret; }"""


def zeroed(bulk, size, text=ZEROS):
    """32 sevens, of which st.bulk has set some to zero."""
    out = np.full(32, 9, np.uint32)
    warpsim.load(text.replace("BULK", bulk))["k"]((1,), (32,), (out, np.uint32(size)), checks="default+race")
    return out.tolist()


@pytest.mark.parametrize("form", [".weak.shared::cta [%s+16]", " [%g+16]"])
@pytest.mark.parametrize("size", [0, 8, 72, 112])
def test_zeros(form, size):
    """Bytes of shared memory, wherever the address points to it."""
    found = zeroed(f"@%p st.bulk{form}, %n, 0;", size)

    assert found == [0 if 4 <= k < 4 + size // 4 else 7 for k in range(32)]


@pytest.mark.parametrize(
    ("bulk", "size", "rule", "line"),
    [
        ("@%p st.bulk [%g], %n, 0;", 12, "misaligned", 8),
        ("@%p st.bulk [%g], %n, 0;", 136, "out-of-bounds", 8),
        ("@%p st.bulk [%o], %n, 0;", 16, "out-of-bounds", 8),
        ("st.bulk [%g], %n, 0;", 16, None, 0),
    ],
)
def test_faults_of_zeros(bulk, size, rule, line):
    """A size of other than whole words, bytes behind shared memory and global memory; all threads may write the same zeros."""
    if rule is None:
        assert zeroed(bulk, size)[:4] == [0, 0, 0, 0]
        return
    with pytest.raises(warpsim.ExecutionError) as caught:
        zeroed(bulk, size)

    assert (caught.value.findings[0].rule, caught.value.findings[0].line) == (rule, line)


@pytest.mark.parametrize("number", [1, 2])
def test_zeros_without_a_barrier(number):
    """They race with what other threads have stored before, and with what they load behind it."""
    parts = ZEROS.replace("tile[128]", "tile[256]").replace("BULK", "@%p st.bulk [%g], 128, 0;").split("bar.sync 0;")
    text = "bar.sync 0;".join(["".join(parts[:2]), parts[2]] if number == 1 else [parts[0], "".join(parts[1:])])

    assert rules_of(text, 64, (np.zeros(64, np.uint32), np.uint32(0))) == {"race"}


SEQUENCES = {
    "gather4 without a wait": (module(GATHER, 256, 256), "WAIT", "async-read-early"),
    "scatter4 without a fence": (HEAD + SCATTER.format("\nfence.proxy.async;\nbar.sync 0;", "", ""), "fence.proxy.async", "proxy-fence"),
    "cp_mask without a fence": (MASKED, "fence.proxy.async", "proxy-fence"),
    "cp_mask without a barrier": (MASKED.replace("bar.sync 0;", "bar.sync 1;", 1), "bar.sync 1", "race"),
    "cp_mask without a wait": (MASKED.replace("  bar.sync 0;\n  ret", "  @%p st.shared.b32 [%s], 5;\n  ret"), "wait_group", "async-smem-overwrite"),
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_one_line_taken_out(name):
    """The whole program is silent; the one without a line breaks the rule."""
    text, gone, rule = SEQUENCES[name]

    if "cp_mask" in name:
        threads, given = 32, (np.zeros(64, np.uint8), np.uint16(1))
    else:
        array = tensor(20, 64).view(np.uint32) if "scatter" in name else tensor(20, 64)
        made = warpsim.TensorMap(array, global_dim=array.shape[::-1], global_strides=(128,), box_dim=(32, 1))
        threads, given = 128, (made, np.zeros(64, np.uint32), np.array([0, 1, 2, 3, 4, 5], np.int32))

    assert rules_of(text, threads, given) == set()
    assert rule in rules_of("\n".join("" if gone in line else line for line in text.split("\n")), threads, given)
