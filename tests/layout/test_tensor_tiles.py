"""Matrices of tcgen05.mma in tensor memory: each element has one place, and the rows stand where the manual's layouts A to G
have them."""

import numpy as np
import pytest

from warpsim.layout import instructions, tensor_fragments
from warpsim.layout.instruction_descriptors import decode, encode
from warpsim.layout.tensor_tiles import chunks, layout_name, metadata_place, metadata_words, scale_place, tiles


def product(m, n, *, kind="f16", weights=False, cta_group=1, sparse=False):
    """A product of a kind."""
    element = {"f16": "f16", "tf32": "tf32", "f8f6f4": "e4m3", "mxf4": "e2m1"}[kind]
    bits = encode(kind, m, n, element, element, sparse=sparse)
    return decode(bits, kind, weights=weights, cta_group=cta_group)


LAYOUTS = [
    ("A", {"m": 256, "cta_group": 2}),
    ("B", {"m": 128, "cta_group": 2}),
    ("C", {"m": 128, "cta_group": 2, "sparse": True}),
    ("D", {"m": 128}),
    ("E", {"m": 64, "weights": True}),
    ("F", {"m": 64}),
    ("G", {"m": 32, "weights": True}),
]


def places(p, lane=0):
    """The (CTA, lane, column) of each element of D."""
    found = {}
    for tile in tiles(p, lane):
        for row in range(tile.rows):
            for column in range(tile.columns):
                element = tile.row + row, tile.column + column
                assert element not in found
                found[element] = tile.cta, tile.lane + row, column
    return found


@pytest.mark.parametrize(("name", "shape"), LAYOUTS, ids=[name for name, _ in LAYOUTS])
def test_every_element_has_a_cell(name, shape):
    """The tiles cover D once, and no two elements share a cell."""
    p = product(n=64, **shape)
    found = places(p)

    assert layout_name(p) == name
    assert len(found) == p.m * p.n
    assert len(set(found.values())) == p.m * p.n


@pytest.mark.parametrize(
    ("shape", "row", "column", "place"),
    [
        ({"m": 256, "cta_group": 2}, 200, 5, (1, 72, 5)),
        ({"m": 128, "cta_group": 2}, 70, 40, (1, 70, 8)),
        ({"m": 128, "cta_group": 2, "sparse": True}, 100, 40, (1, 68, 40)),
        ({"m": 128}, 77, 63, (0, 77, 63)),
        ({"m": 64, "weights": True}, 40, 33, (0, 104, 1)),
        ({"m": 64}, 40, 33, (0, 72, 33)),
        ({"m": 32, "weights": True}, 7, 17, (0, 39, 1)),
    ],
)
def test_places(shape, row, column, place):
    """Elements of each layout, by its picture: halves of the columns in the lower lanes (B, E), quarters (G), half of each
    partition (C, F)."""
    assert places(product(n=64, **shape))[row, column] == place


def test_upper_halves():
    """Layouts C and F may begin at lane 16."""
    assert places(product(m=64, n=64), lane=16)[17, 0] == (0, 49, 0)


@pytest.mark.parametrize(
    ("kind", "rows", "bits"), [("f16", 128, 32), ("tf32", 64, 16), ("f8f6f4", 128, 64), ("mxf4", 128, 64)]
)
def test_metadata(kind, rows, bits):
    """Each chunk of each row has its own nibble, in as many columns as are read."""
    p = product(m=128, n=64, kind=kind, sparse=True)
    lane, column, bit = metadata_place(np.arange(rows)[:, None], np.arange(chunks(p)), wide=kind in ("f16", "tf32"))
    keys = np.broadcast_arrays(lane, column, bit)
    every = set(zip(*(key.reshape(-1).tolist() for key in keys), strict=True))

    assert len(every) == rows * chunks(p)
    assert int(np.max(column)) + 1 == metadata_words(p)
    assert {key % 4 for _, _, key in every} == {0}


def test_metadata_of_wide_elements():
    """A lane holds half of the chunks of two rows that are eight apart, as the registers of mma.sp do."""
    lane, column, bit = metadata_place(np.array([3, 3, 11, 26]), np.array([2, 6, 1, 4]), wide=True)

    assert lane.tolist() == [3, 11, 3, 26]
    assert (column == 0).all()
    assert bit.tolist() == [8, 8, 16 + 4, 16]


def test_scale_factors():
    """32 rows to a column, four scale factors to a word; beyond them behind the columns of 128 rows (K = 96)."""
    lane, column, byte = scale_place(np.array([5, 40, 127, 127]), np.array([0, 1, 0, 5]), 128, 0)

    assert lane.tolist() == [5, 8, 31, 31]
    assert column.tolist() == [0, 1, 3, 7]
    assert byte.tolist() == [0, 1, 0, 1]
    assert scale_place(np.array(200), np.array(0), 256, 3)[1:] == (6, 3)


@pytest.mark.parametrize(
    ("name", "shape", "kind"),
    [
        pytest.param(name, shape, kind, id=f"{kind}-{name}", marks=[pytest.mark.long] * ((k + n) % 3 > 0))
        for k, (name, shape) in enumerate(LAYOUTS)
        for n, kind in enumerate(["f16", "f8f6f4"])
    ],
)
def test_pictures(name, shape, kind):
    """The fragments that `warpsim layout` draws have D, A and the metadata where a product reads and writes them."""
    p = product(n=64, kind=kind, **{"sparse": True, **shape} if name != "B" else shape)
    d, a = tensor_fragments.accumulator(p), tensor_fragments.multiplicand(p)
    held = {
        (r, c): {(lane, column) for lane, column, _ in cell}
        for r, line in enumerate(d.holders())
        for c, cell in enumerate(line)
    }
    copies = {row: {lane for lane, _, _ in line[0]} for row, line in enumerate(a.holders())}

    assert held == {element: {(128 * cta + lane, column)} for element, (cta, lane, column) in places(p).items()}
    for row, lanes in copies.items():
        assert lanes == {128 * t.cta + t.lane + row - t.row for t in tiles(p) if t.row <= row < t.row + t.rows}
    if p.sparse:
        _check_metadata(p, tensor_fragments.metadata(p).holders())


def _check_metadata(p, held):
    for t in tiles(p):
        for row in range(0, t.rows, 5):
            for chunk in range(chunks(p)):
                lane, column, bit = (
                    int(v) for v in metadata_place(np.array(row), np.array(chunk), wide=p.kind == "f16")
                )
                assert (128 * t.cta + t.lane + lane, column, bit // 4) in held[t.row + row][chunk]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_pictures_of_scale_factors(size):
    """And the scale factors."""
    for row, line in enumerate(tensor_fragments.scales(128, size).holders()):
        for index, cell in enumerate(line):
            lane, column, byte = scale_place(np.array(row), np.array(index), 128, 0)
            assert cell[0] == (lane, column, byte)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("tcgen05.mma.cta_group::1.kind::f16.m64n16.f16", "d a"),
        ("tcgen05.mma.sp.cta_group::2.kind::i8.m256n32.u8.s8", "d a metadata"),
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16.m128n48", "d a scale_a scale_b"),
    ],
)
def test_named_by_an_instruction(text, parts):
    """The operands of an instruction's spelling, with its shape among the modifiers."""
    assert list(instructions.operands(text)) == parts.split()


@pytest.mark.parametrize(
    "text", ["tcgen05.ld.m64n16", "tcgen05.mma.kind::f16", "tcgen05.mma.kind::f16.m128n7", "tcgen05.mma.ws.m16n64"]
)
def test_no_such_product(text):
    """What has no pictures says why."""
    with pytest.raises(ValueError, match=r"tcgen05\.mma"):
        instructions.operands(text)
