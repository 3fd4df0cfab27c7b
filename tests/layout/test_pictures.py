"""Pictures say what the fragments say, for every instruction that can be spelled."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import warpsim
from warpsim.cli import main
from warpsim.layout import instructions, pictures
from warpsim.layout.algebra import Layout
from warpsim.layout.drawing import Tile, svg
from warpsim.layout.pictures import Placing
from warpsim.layout.pictures import pictures as pictures_of

SPELLINGS = [
    "mma.m16n8k16...f16",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.m16n8k4.tf32",
    "mma.m16n8k16.f64",
    "mma.m8n8k4.f64",
    "mma.m8n8k4.row.col.f16",
    "mma.m8n8k16.s8",
    "mma.m16n8k256.b1",
    "mma.m16n8k32.e4m3.e5m2",
    "mma.m16n8k64.kind::mxf4.e2m1",
    "mma.sp.m16n8k32.f16",
    "mma.sp::ordered_metadata.m16n8k64.s8",
    "mma.sp.m16n8k8.tf32",
    "wmma.mma.m16n16k16.f32.f16",
    "wmma.load.a.row.m32n8k16.s8",
    "wmma.store.d.m8n32k16.f32",
    "wmma.m8n8k128.b1",
    "wgmma.m64n16k16.f32.f16.f16",
    "ldmatrix.m8n8.x4.trans.b16",
    "ldmatrix.m8n16.x2.b8x16.b4x16_p64",
    "stmatrix.m16n8.trans.b8",
    "movmatrix.m8n8.trans.b16",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_element_is_shown(spelling):
    """Every element of every operand has a holder, and no lane holds two elements in one place."""
    for operand in instructions.operands(spelling).values():
        grid = operand.holders()
        everyone = [holder for line in grid for cell in line for holder in cell]

        assert all(cell for line in grid for cell in line)
        assert len(everyone) == len(set(everyone)) == operand.fragment.values * operand.fragment.threads
        assert operand.name.upper() in pictures.text(operand)
        assert np.shape(pictures.record(operand)["holders"])[:2] == (len(grid), len(grid[0]))


def test_table_of_a():
    """The first register of lane 5 holds k 2 and 3 of row 1 (PTX ISA 9.7.14.5.8)."""
    text = pictures.text(instructions.operands("mma.m16n8k16...f16")["a"]).splitlines()
    head = next(number for number, line in enumerate(text) if line.startswith("m\\k"))

    assert text[head].split()[1:3] == ["0-1", "2-3"]
    assert text[head + 2].split()[:3] == ["1", "4:a0", "5:a0"]


def test_b_is_shown_as_k_by_n():
    """b1 of lane 4g + t is row 2t + 1 of column g, the high half of register 0."""
    operand = instructions.operands("mma.m16n8k16.f16")["b"]

    assert operand.holders()[3][6] == [(4 * 6 + 1, 0, 1)]


def test_svg_is_well_formed():
    """A drawing parses, and has one titled cell for each element."""
    operand = instructions.operands("mma.m16n8k32.s8")["a"]
    root = ElementTree.fromstring(svg(operand.drawing("a & b <c>")))

    assert len(root.findall(".//{http://www.w3.org/2000/svg}title")) == 16 * 32
    assert "a & b <c>" in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_wide_tables_are_cut():
    """No line of a table is wider than a terminal."""
    text = pictures.text(instructions.operands("wgmma.m64n256k16.f16")["d"])

    table = text.splitlines()[3:]
    columns = [line.split()[1:] for line in table]
    assert max(map(len, text.splitlines())) <= pictures.WIDTH + 2
    assert pictures.WIDTH - max(len(cell) for line in columns for cell in line) <= len(table[0]) <= pictures.WIDTH
    assert columns[0] == [*map(str, range(len(columns[0]) - 2)), "...", "255"]
    assert columns[1][:3] + columns[1][-1:] == ["0:d0", "0:d1", "1:d0", "3:d125"]
    assert len(table) == 1 + 64


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("", "not a matrix instruction"),
        ("add.f32", "choose from mma"),
        ("mma.f16", "needs a shape"),
        ("mma.m16n8k16", "needs the type"),
        ("mma.m16n8k8.s8", ".m16n8k16"),
        ("mma.m16n16k16.f16", ".m16n8k16"),
        ("mma.m16n8k16.f32.u16.f16.f32", "not a type of A or B"),
        ("mma.sp.m8n8k16.s8", ".m16n8k64"),
        ("mma.m8n8k8.f32.bf16.bf16.f32", ".m16n8k"),
        ("wmma.m16n16k16.tf32", "m16n16k8"),
        ("wmma.load.c.m16n16k16.s8", "not a type of C or D"),
        ("wmma.load.c.m9n9k9.f32", "not a shape"),
        ("wgmma.m64n20k16.f16", "N from 8 to 256"),
        ("stmatrix.m16n16", "choose from .m8n8"),
        ("mma.m16n8k99999999999.f16", "has the shape"),
        ("mma.m16n8k16.f32.f16.f16.bf16", ".bf16 is not a type of C or D"),
        ("mma.sp.m16n8k8.f64", "no mma.sp of .f64 has the shape .m16n8k8"),
        ("wmma.load", "needs a shape"),
        ("wmma.m8n8k4.f16", "m16n16k16, m8n32k16, m32n8k16"),
        ("wgmma.m64n64k32.f16", ".m64nNk16"),
        ("wgmma.sp.m64n64k16.f16", ".m64nNk32"),
        ("wgmma.m32n64k16.f16", ".m64nNk16"),
        ("wgmma.m64n264k16.f16", "N from 8 to 256"),
        ("ldmatrix.m16n8", "choose from .m8n8, .m16n16, .m8n16"),
        ("movmatrix.m16n16", "choose from .m8n8"),
    ],
)
def test_other_spellings_are_refused_with_the_nearest(spelling, words):
    """What is no instruction is said to be none, and what would be one."""
    with pytest.raises(ValueError, match=r".") as error:
        instructions.operands(spelling)

    assert words in str(error.value)


@pytest.mark.parametrize(
    ("spelling", "count"), [("ldmatrix.x1", 1), ("ldmatrix.x2", 2), ("ldmatrix.x4", 4), ("ldmatrix.x4.trans", 4)]
)
def test_every_matrix_of_ldmatrix(spelling, count):
    """Each matrix stands where the instruction puts it: registers, lanes and the lanes that give its rows."""
    shown = pictures_of(spelling)
    names = "{" + ", ".join(f"r{i}" for i in range(count)) + "}"
    trans = ".trans" if "trans" in spelling else ""
    content = np.arange(8 * 8 * count, dtype=np.uint16)
    result = warpsim.run(
        f"mov.u32 at, %laneid; shl.b32 at, at, 4; mov.u32 base, smem; add.u32 at, at, base;"
        f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {names}, [at];",
        shared=np.r_[content, np.zeros(256 - len(content), np.uint16)],
    )

    assert list(shown) == [f"m{i}" for i in range(count)]
    for number, operand in enumerate(shown.values()):
        assert f"lanes {8 * number} to {8 * number + 7} give" in operand.note
        for r, line in enumerate(operand.holders()):
            for c, ((lane, register, part),) in enumerate(line):
                word = int(result.registers[f"r{register}"].view(np.uint32)[lane])
                assert word >> 16 * part & 0xFFFF == 64 * number + 8 * r + c


@pytest.mark.parametrize(("span", "mask"), [(128, 0x380), (64, 0x180), (32, 0x080)])
def test_swizzled_tiles(span, mask):
    """Tensor copies swizzle as CuTe's Swizzle<B,4,3> does; eight rows of a 16-byte column lie in different banks."""
    tile = pictures_of(f"tile.16x{span // 2}.f16", placing=Placing(f"{span}B"))["tile"]
    plain = np.arange(16)[:, None] * span + np.arange(span // 2) * 2

    assert (tile.addresses == plain ^ (plain & mask) >> 3).all()
    if span == 128:
        assert all(len(set(tile.chunks[:8, c] % 128)) == 8 for c in range(8))
    assert len(np.unique(tile.addresses)) == tile.addresses.size
    assert f"over {span} bytes" in tile.note
    assert pictures_of(f"tile.16x{span // 2}.f16", placing=Placing("none"))["tile"].note == "no swizzle"


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("spelling", ["wgmma.m64n64k16.f32.f16.f16", "wgmma.sp.m64n64k32.f32.bf16.bf16"])
def test_tiles_of_wgmma(spelling, swizzle, transposed):
    """Every element of A and B has a place of its own, in 16 bytes that lie together; the pictures show each of them once."""
    shown = pictures_of(spelling, placing=Placing(swizzle, transposed))
    for name, extent, k in (("a_desc", 64, 16), ("b_desc", 64, 32 if "sp" in spelling else 16)):
        tile = shown[name]
        assert tile.addresses.shape == ((k, extent) if transposed else (extent, k))
        assert len(np.unique(tile.addresses)) == extent * k
        assert (np.diff(tile.addresses.reshape(-1, 8), axis=1) == 2).all()
        places, memory = tile.drawings()
        assert sorted(c.key for line in places.cells for c in line) == sorted(
            c.key for line in memory.cells for c in line if c.key
        )
        assert name.upper() in tile.text()


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("transposed", [False, True])
def test_tiles_of_tcgen05(swizzle, transposed):
    """Both CTAs of a pair hold 64 columns of B, as wgmma's, whose canonical layouts are the same."""
    placing = Placing(swizzle, transposed)
    tile = pictures_of("tcgen05.mma.cta_group::2.kind::f16.m128n128", placing=placing)["b_desc"]
    expected = pictures_of("wgmma.m64n64k16.f32.f16.f16", placing=placing)["b_desc"]

    assert isinstance(tile, Tile)
    assert isinstance(expected, Tile)
    assert (tile.addresses == expected.addresses).all()


def test_a_descriptor_of_tcgen05():
    """With atoms of 32 bytes, bits 5 and 6 of an address XOR bits 7 and 8 (PTX ISA: 128-byte swizzling, 32-byte atomicity)."""
    bits = 1 << 46 | 1 << 61 | 1024 >> 4 << 32
    tile = pictures_of("tcgen05.mma.cta_group::1.kind::tf32.m128n32", placing=Placing(descriptor=bits))["b_desc"]

    assert isinstance(tile, Tile)
    assert tile.addresses[:6, 0].tolist() == [128 * row + 32 * (row % 4) for row in range(6)]
    assert "32-byte atoms" in tile.note


def test_a_descriptor_of_one_s_own():
    """`--descriptor` is drawn as it is: start 0x400, offsets 128 and 256, no swizzle."""
    bits = 0x400 >> 4 | 128 >> 4 << 16 | 256 >> 4 << 32
    tile = pictures_of("wgmma.m64n8k16.f32.f16.f16", placing=Placing(descriptor=bits))["a_desc"]

    assert isinstance(tile, Tile)
    assert tile.addresses[9, 8] == 0x400 + 256 + 16 + 128


@pytest.mark.parametrize(
    ("spelling", "count"),
    [("mma.sp.m16n8k16.f16", 4), ("mma.sp.m16n8k32.f16", 2), ("mma.sp.m16n8k64.s8", 1), ("wgmma.sp.m64n8k32.f16", 2)],
)
def test_metadata_of_every_selector(spelling, count):
    """Each selector names other lanes, which hold the same chunks."""
    shown = [o for name, o in pictures_of(spelling).items() if name[0] == "e"]
    lanes = [{cell[0][0] for line in o.holders() for cell in line} for o in shown]

    assert len(shown) == count
    assert len(set().union(*lanes)) == sum(map(len, lanes))


@pytest.mark.parametrize(
    "words",
    [
        ["tile.8x8.f16", "--swizzle", "none", "--json"],
        ["tile.8x64.f16", "--format", "svg"],
        ["ldmatrix.x4", "--format", "html"],
        ["ldmatrix.x4", "--operand", "m2", "--format", "svg"],
        ["ldmatrix.x4", "--operand", "r"],
        ["mma.sp.m16n8k16.f16", "--operand", "e"],
        ["wgmma.m64n16k16.f32.f16.f16", "--format", "html", "--major", "mn", "--swizzle", "32B"],
        ["wgmma.m64n16k32.s32.s8.s8", "--json"],
        ["wgmma.m64n16k256.s32.b1.b1", "--operand", "b_desc"],
    ],
)
def test_command(words, capsys):
    """`warpsim layout` shows them in every form."""
    assert main(["layout", *words]) == 0
    assert len(capsys.readouterr().out) > 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tile.8x8"], "tile.ROWSxCOLUMNS.TYPE"),
        (["tile.8x100.f16"], "at most the 128 of the swizzle"),
        (["tile.999999999999x8.f16", "--swizzle", "none"], "65536"),
        (["tile.8x3.f16"], "multiple of 16 bytes"),
        (["wgmma.m64n8k32.s32.s8.s8", "--major", "mn"], "only 16-bit types"),
        (["wgmma.m64n8k16.f32.f16.f16", "--major", "mn"], "choose a smaller swizzle"),
        (["wgmma.m64n8k16.f32.f16.f16", "--descriptor", "x"], "64 bits"),
        (["ldmatrix.x4", "--format", "svg"], "m0|m1|m2|m3"),
    ],
)
def test_command_refuses(words, said, capsys):
    """What cannot be drawn is said to be so, with status 2."""
    assert main(["layout", *words]) == 2
    assert said in capsys.readouterr().err


def test_notebooks_show_drawings():
    """Fragments, operands, layouts and tiles are drawings in a notebook."""
    operand = instructions.operands("mma.m16n8k16.f16")["a"]
    for thing in (
        operand,
        operand.fragment,
        operand.fragment.layout,
        Layout.parse("8:1"),
        pictures_of("tile.8x64.f16")["tile"],
    ):
        for part in thing._repr_html_().split("</svg>")[:-1]:
            ElementTree.fromstring(part[part.index("<svg") :] + "</svg>")


@pytest.mark.parametrize("layouts", ["row.row", "row.col", "col.row", "col.col"])
def test_operands_of_wmma_lie_as_they_are_loaded(layouts):
    """B of a product is by rows or columns as its second layout says, A as the first; on a V100 they lie differently."""
    product = instructions.operands(f"wmma.mma.sync.aligned.{layouts}.m16n16k16.f32.f32", 70)
    a, b = layouts.split(".")

    for name, layout in (("a", a), ("b", b)):
        load = instructions.operands(f"wmma.load.{name}.sync.aligned.{layout}.m16n16k16.f16", 70)
        assert product[name].fragment.layout == load[name].fragment.layout


SHAPES = {
    ("mma", "f16"): "m8n8k4 m16n8k8 m16n8k16",
    ("mma", "bf16"): "m16n8k8 m16n8k16",
    ("mma", "tf32"): "m16n8k4 m16n8k8",
    ("mma", "f64"): "m8n8k4 m16n8k4 m16n8k8 m16n8k16",
    ("mma", "s8"): "m8n8k16 m16n8k16 m16n8k32",
    ("mma", "u4"): "m8n8k32 m16n8k32 m16n8k64",
    ("mma", "b1"): "m8n8k128 m16n8k128 m16n8k256",
    ("mma", "e4m3"): "m16n8k16 m16n8k32",
    ("mma", "e5m2"): "m16n8k16 m16n8k32",
    ("mma", "e3m2"): "m16n8k32",
    ("mma", "e2m3"): "m16n8k32",
    ("mma", "e2m1"): "m16n8k32 m16n8k64",
    ("mma.sp", "f16"): "m16n8k16 m16n8k32",
    ("mma.sp", "bf16"): "m16n8k16 m16n8k32",
    ("mma.sp", "tf32"): "m16n8k8 m16n8k16",
    ("mma.sp", "f64"): "",
    ("mma.sp", "u8"): "m16n8k32 m16n8k64",
    ("mma.sp", "s4"): "m16n8k64 m16n8k128",
    ("mma.sp", "b1"): "",
    ("mma.sp", "e4m3"): "m16n8k64",
    ("mma.sp", "e3m2"): "m16n8k64",
    ("mma.sp", "e2m1"): "m16n8k64 m16n8k128",
    ("wmma.mma", "f16"): "m16n16k16 m8n32k16 m32n8k16",
    ("wmma.mma", "bf16"): "m16n16k16 m8n32k16 m32n8k16",
    ("wmma.mma", "u8"): "m16n16k16 m8n32k16 m32n8k16",
    ("wmma.mma", "tf32"): "m16n16k8",
    ("wmma.mma", "f64"): "m8n8k4",
    ("wmma.mma", "s4"): "m8n8k32",
    ("wmma.mma", "b1"): "m8n8k128",
}
"""Every shape of a type (PTX ISA: matrix shape; of .e2m1, .kind::f8f6f4 has the smaller k, .kind::mxf4 the greater one)."""


@pytest.mark.parametrize(("root", "type"), SHAPES)
def test_every_shape(root, type):
    """The shapes of the text are drawn, with A of m x k and C of m x n; no others are."""
    sizes = [(m, n) for m in (8, 16, 32) for n in (8, 16, 32)]
    drawn = []
    for m, n in sizes:
        for k in (2, 4, 8, 16, 32, 64, 128, 256, 512):
            try:
                shown = instructions.operands(f"{root}.m{m}n{n}k{k}.{type}")
            except ValueError:
                continue
            drawn.append(f"m{m}n{n}k{k}")
            quads = 4 if (root, type, m) == ("mma", "f16", 8) else 1
            stored = k // 2 if root == "mma.sp" else k
            held = {name: (f.fragment.rows, f.fragment.columns) for name, f in shown.items()}
            assert held["a"] == (quads * m, stored)
            assert held["b"] == (quads * n, k)
            assert held["c"] == held["d"] == (m, quads * n)
    assert sorted(drawn) == sorted(SHAPES[root, type].split())


@pytest.mark.parametrize(
    ("spelling", "types"),
    [
        ("mma.f32.f16.bf16.f16", "f32 f16 bf16 f16"),
        ("mma.f16.e4m3.e5m2", "f16 e4m3 e5m2 f16"),
        ("mma.e4m3.e5m2", "f32 e4m3 e5m2 f32"),
        ("mma.bf16", "f32 bf16 bf16 f32"),
        ("mma.f64", "f64 f64 f64 f64"),
        ("mma.s8", "s32 s8 s8 s32"),
        ("mma.u4", "s32 u4 u4 s32"),
        ("mma.s32.b1", "s32 b1 b1 s32"),
        ("mma.f32.tf32", "f32 tf32 tf32 f32"),
        ("mma.f32.e2m1.e2m1.f32.ue4m3", "f32 e2m1 e2m1 f32"),
        ("mma.f32.e2m1.e2m1.f32.ue8m0", "f32 e2m1 e2m1 f32"),
        ("wmma.mma.f16.f32", "f16 f16 f16 f32"),
        ("wmma.mma.s8", "s32 s8 s8 s32"),
        ("wgmma.f16.f16.f16", "f16 f16 f16 f16"),
        ("wgmma.s32.u8", "s32 u8 u8 s32"),
    ],
)
def test_types_that_are_left_out(spelling, types):
    """d, a, b and c, written or not: sums of integers are s32, of doubles f64, of others f32."""
    root, words = instructions.split(spelling)

    assert " ".join(instructions.types(root, words)) == types


@pytest.mark.parametrize(
    ("spelling", "bits"),
    [
        ("mma.m16n8k32.kind::f8f6f4.f32.e2m1.e4m3.f32", (8, 8)),
        ("mma.m16n8k64.f32.e2m1.e2m1.f32", (4, 4)),
        ("mma.m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", (4, 4)),
        ("mma.sp.m16n8k64.f32.e2m1.e2m1.f32", (8, 8)),
        ("mma.sp.m16n8k128.f32.e2m1.e2m1.f32", (4, 4)),
        ("mma.m16n8k32.f32.e2m3.e2m1.f32", (8, 8)),
    ],
)
def test_four_bits_in_a_byte(spelling, bits):
    """Numbers of four bits fill a byte under .kind::f8f6f4, and half of one under .kind::mxf4 (PTX ISA)."""
    shown = instructions.operands(spelling)

    assert (shown["a"].fragment.bits, shown["b"].fragment.bits) == bits
    scales = [shown[name].fragment for name in ("scale_a", "scale_b") if name in shown]
    assert [(f.rows, f.columns) for f in scales] == ([(16, 4), (8, 4)] if "scale_vec" in spelling else [])


@pytest.mark.parametrize(
    ("spelling", "selectors"),
    [
        ("mma.sp.m16n8k16.f16", "of 0 to 3"),
        ("mma.sp.m16n8k32.f16", "of 0 to 1"),
        ("mma.sp.m16n8k8.tf32", "of 0 to 3"),
        ("mma.sp.m16n8k64.s8", ""),
        ("wgmma.sp.m64n8k32.f16", "of 0 to 1"),
        ("wgmma.sp.m64n8k64.e4m3", ""),
    ],
)
def test_selectors_are_named(spelling, selectors):
    """The sparsity selector of the metadata, where an instruction has one."""
    note = instructions.operands(spelling)["e"].note

    assert note.endswith(selectors)
    assert ("selector" in note) == bool(selectors)


@pytest.mark.parametrize(
    ("spelling", "itemsize", "unit"),
    [
        ("wgmma.m64n8k32.s32.s8.s8", 1, 1),
        ("wgmma.m64n16k8.f32.tf32.tf32", 4, 1),
        ("wgmma.m64n16k16.f32.f16.f16", 2, 1),
        ("wgmma.m64n8k256.s32.b1.b1", 1, 8),
        ("wgmma.sp.m64n8k64.f32.e4m3.e5m2", 1, 1),
    ],
)
@pytest.mark.parametrize("swizzle", ["none", "32B"])
def test_tiles_are_dense(spelling, itemsize, unit, swizzle):
    """Without a descriptor of one's own, the 32 bytes of each row (of B of sparse products 64) leave no gap."""
    shown = pictures_of(spelling, placing=Placing(swizzle))
    for name in ("a_desc", "b_desc"):
        tile = shown[name]
        if swizzle == "32B" and name == "b_desc" and ".sp" in spelling:
            continue  # wider than the row of the swizzle
        rows, columns = tile.addresses.shape
        assert (tile.itemsize, tile.unit, columns * itemsize) == (
            itemsize,
            unit,
            64 if ".sp" in spelling and name[0] == "b" else 32,
        )
        assert sorted(tile.addresses.reshape(-1).tolist()) == list(range(0, rows * columns * itemsize, itemsize))
        record = tile.record()
        assert (record["rows"], record["columns"], record["bytes"]) == (rows, columns * unit, itemsize)
        per = 16 // itemsize * unit
        assert [tile.span(c) for c in (0, 1)] == [f"0-{per - 1}", f"{per}-{2 * per - 1}"]


def test_tiles_that_are_not_swizzled():
    """Rows of a tensor copy lie one behind the other; narrow ones under a swizzle fill its row."""
    tile = pictures_of("tile.6x24.f16", placing=Placing("none"))["tile"]
    assert tile.addresses.tolist() == [[48 * r + 2 * c for c in range(24)] for r in range(6)]
    narrow = pictures_of("tile.3x8.f16", placing=Placing("32B"))["tile"]
    assert narrow.addresses[:, 0].tolist() == [0, 32, 64]
    empty = [cell for line in narrow.memory().cells for cell in line if not cell.key]
    assert len(empty) == 8 - 3
    picture = ElementTree.fromstring(svg(narrow.memory()))
    assert [r.get("class") for r in picture.iter("{http://www.w3.org/2000/svg}rect")].count("none") == len(empty)


def test_colours_are_defined():
    """A drawing says what each colour is, in light and in dark; its parts lie inside of it."""
    picture = svg(instructions.operands("mma.m16n8k16.f16")["a"].drawing())
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    style, rects = root.find(f"{space}style").text, root.findall(f".//{space}g/{space}rect")

    assert len({r.get("class") for r in rects}) == 32
    assert all(style.count(f".{r.get('class')}{{fill:hsl(") == 2 for r in rects)
    wide, high = int(root.get("width")), int(root.get("height"))
    assert all(int(r.get("x")) + int(r.get("width")) <= wide for r in rects)
    assert all(int(r.get("y")) + int(r.get("height")) <= high for r in rects)
    assert len({(r.get("x"), r.get("y")) for r in rects}) == 16 * 16
    texts = [t for t in root.findall(f"{space}text") if t.get("text-anchor") == "middle"]
    assert [t.text for t in texts] == [*map(str, range(16))]
    assert all(0 < int(t.get("y")) < min(int(r.get("y")) for r in rects) for t in texts)
    assert [t.text for t in root.iter(f"{space}text") if t.get("font-size")] == ["A"]
    columns = sorted({int(r.get("x")) for r in rects})
    assert all(x < int(t.get("x")) < x + 46 for x, t in zip(columns, texts, strict=True))


def test_large_layouts_are_not_drawn():
    """A notebook shows their notation."""
    assert Layout(4097, 1)._repr_html_() == "<code>4097:1</code>"
    assert "<svg" in Layout(4096, 1)._repr_html_()


@pytest.mark.parametrize(
    ("shape", "type"),
    [
        ("m16n16k16", "f32"),
        ("m8n32k16", "f16"),
        ("m32n8k16", "s32"),
        ("m16n16k8", "f32"),
        ("m8n8k4", "f64"),
        ("m8n8k32", "s32"),
        ("m8n8k128", "s32"),
    ],
)
def test_accumulators_of_every_wmma(shape, type):
    """C is loaded and D is stored in every shape (PTX ISA: wmma.load, wmma.store)."""
    m, n = map(int, shape[1:].split("k")[0].split("n"))
    for spelling, name in (
        (f"wmma.load.c.sync.aligned.row.{shape}.{type}", "c"),
        (f"wmma.store.d.{shape}.{type}", "d"),
    ):
        shown = instructions.operands(spelling)
        assert list(shown) == [name]
        assert (shown[name].fragment.rows, shown[name].fragment.columns) == (m, n)


@pytest.mark.parametrize(
    ("operand", "begins"),
    [
        ("a", "(lane, value) -> m + 16 * k:"),
        ("b", "(lane, value) -> n + 8 * k:"),
        ("d", "(lane, value) -> m + 16 * n:"),
    ],
)
def test_formulas_name_what_they_count(operand, begins):
    """Rows and columns of the fragment itself: B lies with n as its rows, however it is shown."""
    formula = instructions.operands("mma.m16n8k16.f16")[operand].formula()
    assert formula.startswith(begins)
    assert formula.endswith("value = register" if operand == "d" else "value = 2 * register + part")
