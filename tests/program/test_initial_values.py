"""Long lists of initial values, which are single tokens: the bytes that Python's own conversions give."""

import struct

import pytest

import warpsim
from ptx_text import module_head
from warpsim.ptx.parser import parse
from warpsim.ptx.printer import print_module
from warpsim.ptx.tokens import Tokens

COUNT = 40
SPELLINGS = {
    "decimal": ("b32", str, lambda n: n.to_bytes(4, "little"), 104729),
    "bytes": ("b8", str, lambda n: (n & 255).to_bytes(1, "little"), 13),
    "hexadecimal": ("b64", hex, lambda n: n.to_bytes(8, "little"), 0x3FFFFFFFFFFFF01),
    "hexadecimal, unsigned": ("u16", lambda n: f"0X{n:X}U", lambda n: n.to_bytes(2, "little"), 1601),
    "below zero": ("s32", lambda n: str(-n), lambda n: (-n).to_bytes(4, "little", signed=True), 50021),
    "0f": ("f32", lambda n: f"0f{n:08X}", lambda n: n.to_bytes(4, "little"), 0x2071F31),
    "0F of 64 bits": ("f64", lambda n: f"0F{n:08x}", lambda n: n.to_bytes(8, "little"), 0x2071F31),
    "0d": ("f64", lambda n: f"0d{n:016X}", lambda n: n.to_bytes(8, "little"), 0x3071F31071F310),
    "0d of 32 bits": ("f32", lambda n: "0d" + struct.pack(">d", n).hex(), lambda n: struct.pack("<f", n), 3),
    "a decimal point": ("f64", lambda n: f"{n / 8:.4f}", lambda n: struct.pack("<d", n / 8), 4099),
    "a decimal point and an exponent": ("f64", lambda n: f"-{n}.E+3", lambda n: struct.pack("<d", -1000.0 * n), 17),
    "a decimal point, of 32 bits": ("f32", lambda n: f".{n}e-2", lambda n: struct.pack("<f", float(f".{n}e-2")), 331),
}
"""A type, how a number is written, its bytes, and the step between numbers."""
SEPARATORS = (",", " , ", ",\n  ", ", /* apart */ ")
"""The last of which leaves the numbers tokens of their own."""


def table(type, values, separator, shape=f"[{COUNT}]"):
    """A module with a table."""
    return module_head() + f".global .{type} t{shape} = {{ {separator.join(values)} }};\n"


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_long_lists(spelling, separator):
    """However they are written, and as they are printed again."""
    type, write, pack, step = SPELLINGS[spelling]
    numbers = [step * k for k in range(COUNT)]
    text = table(type, map(write, numbers), separator)
    expected = b"".join(map(pack, numbers))

    assert (Tokens(text, "").kinds.count("numbers") == 1) == (separator != SEPARATORS[-1])
    assert warpsim.load(text).program.variables[0].initial == expected
    assert warpsim.load(print_module(parse(text))).program.variables[0].initial == expected


def test_rows():
    """Of several dimensions."""
    rows = [f"{{{', '.join(str(20 * row + k) for k in range(20))}}}" for row in range(3)]
    text = table("b8", rows, ",", "[3][20]")

    assert Tokens(text, "").kinds.count("numbers") == 3
    assert warpsim.load(text).program.variables[0].initial == bytes(range(60))


WRONG = {
    "a comma too many": ("b32", ["1"] * 20 + [""], "syntax"),
    "two in one place": ("b32", ["1"] * 20 + ["1 2"], "syntax"),
    "integers of floating point": ("f32", ["1"] * COUNT, "initialiser"),
    "floating point of integers": ("u32", ["0f3F800000"] * COUNT, "initialiser"),
    "too many": ("u32", ["1"] * (COUNT + 1), "initialiser"),
    "digits missing": ("f32", ["0f3F800000"] * 20 + ["0f3F8000"], "syntax"),
    "an integer among decimals": ("f32", ["1.5"] * 20 + ["1"], "initialiser"),
    "decimals of integers": ("u32", ["1.5"] * COUNT, "initialiser"),
    "two points": ("f32", ["1.5"] * 20 + ["1.5.5"], "syntax"),
    "a decimal beyond all": ("f64", ["1.5"] * 20 + ["1.0e400"], "syntax"),
    "a decimal of no normal number": ("f64", ["1.5"] * 20 + ["2.2250738585072011e-308"], "syntax"),
    "a decimal next to zero": ("f64", ["1.5"] * 20 + [f"0.{'0' * 400}1"], "syntax"),
    "a blank within": ("f32", ["0f3F800000"] * 20 + ["0f3F 00000"], "syntax"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_lists(name):
    """Are refused where a short list is."""
    type, values, rule = WRONG[name]
    with pytest.raises(warpsim.PtxError) as raised:
        warpsim.load(table(type, values, ", "))

    first = raised.value.findings[0]
    assert (first.rule, first.line) == (rule, 4)


FLOATS = {
    "-.5": -0.5,
    "+2.5": 2.5,
    "2.0 * 3.0": 6.0,
    "- 1.5": -1.5,
    "1e3": 1000.0,
    "017.5": 17.5,
    "-0.0": -0.0,
    "0.0e-400": 0.0,
    "0.e400": 0.0,
}
"""As the assembler reads them."""


@pytest.mark.parametrize("word", FLOATS)
def test_among_decimals(word):
    """Signs, operators and exponents in a list of plain decimals."""
    text = table("f64", [*(["7.5"] * 20), word], ", ", "[21]")

    assert warpsim.load(text).program.variables[0].initial == struct.pack("<21d", *([7.5] * 20), FLOATS[word])


OTHERS = {
    "017": 15,
    "-1": 2**32 - 1,
    "1 + 2": 3,
    "0b101": 5,
    "WARP_SZ": 32,
    "0x100000000000000FF": 255,
    "-0x10": 2**32 - 16,
}


@pytest.mark.parametrize("word", OTHERS)
def test_among_others(word):
    """A number that means something else than in Python, or none at all, in a list of plain ones."""
    text = table("u32", [*(["7"] * 20), word], ", ", "[21]")

    assert warpsim.load(text).program.variables[0].initial == struct.pack("<21I", *([7] * 20), OTHERS[word])
