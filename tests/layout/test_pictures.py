"""Pictures say what the fragments say, for every instruction that can be spelled."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from warpsim.layout import instructions, pictures

SPELLINGS = [
    "mma.m16n8k16...f16",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.m16n8k4.tf32",
    "mma.m16n8k16.f64",
    "mma.m8n8k4.f64",
    "mma.m8n8k4.row.col.f16",
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
        grid = pictures.holders(operand)
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

    assert pictures.holders(operand)[3][6] == [(4 * 6 + 1, 0, 1)]


def test_svg_is_well_formed():
    """A drawing parses, and has one titled cell for each element."""
    operand = instructions.operands("mma.m16n8k32.s8")["a"]
    root = ElementTree.fromstring(pictures.svg(operand, "a & b <c>"))

    assert len(root.findall(".//{http://www.w3.org/2000/svg}title")) == 16 * 32
    assert pictures.page("x", [operand]).endswith("</html>")


def test_wide_tables_are_cut():
    """No line of a table is wider than a terminal."""
    text = pictures.text(instructions.operands("wgmma.m64n256k16.f16")["d"])

    assert max(map(len, text.splitlines())) <= pictures.WIDTH + 2
    assert "..." in text


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("", "not a matrix instruction"),
        ("add.f32", "these are mma"),
        ("mma.f16", "needs a shape"),
        ("mma.m16n8k16", "needs the type"),
        ("mma.m16n8k8.s8", ".m16n8k16"),
        ("mma.m16n16k16.f16", ".m16n8k16"),
        ("mma.m16n8k16.f32.u16.f16.f32", "not a type of A or B"),
        ("mma.sp.m8n8k16.s8", ".m16n8k64"),
        ("wmma.m16n16k16.tf32", "m16n16k8"),
        ("wmma.load.c.m16n16k16.s8", "not a type of C or D"),
        ("wmma.load.c.m9n9k9.f32", "not a shape"),
        ("wgmma.m64n20k16.f16", "N from 8 to 256"),
        ("stmatrix.m16n16", "these are .m8n8"),
        ("mma.m16n8k99999999999.f16", "has the shape"),
    ],
)
def test_other_spellings_are_refused_with_the_nearest(spelling, words):
    """What is no instruction is said to be none, and what would be one."""
    with pytest.raises(ValueError, match=r".") as error:
        instructions.operands(spelling)

    assert words in str(error.value)
