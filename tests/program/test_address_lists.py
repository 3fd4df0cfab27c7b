"""Long lists of addresses as initial values, which are single tokens: the addresses that the variables have."""

import numpy as np
import pytest

import warpsim
from warpsim.ptx.parser import parse
from warpsim.ptx.printer import print_module
from warpsim.ptx.tokens import Tokens

HEAD = """.version 8.0
.target sm_80
.address_size 64
.global .align 8 .b8 aa[64];
.const .align 8 .b8 name[64];
.shared .b8 tile[16];
"""
WORDS = {
    "aa": ("aa", 0),
    "name+8": ("name in .const", 8),
    "aa + -4": ("aa", -4),
    "generic(name)+16": ("name", 16),
    "7": (None, 7),
}
WORDS |= {"-1": (None, -1), "generic(aa)": ("aa", 0), "name+\n 24": ("name in .const", 24)}
COUNT = 40


def module(values, type="u64", separator=", "):
    """A module with a table."""
    return f"{HEAD}.global .{type} t[] = {{{separator.join(values)}}};\n.visible .entry k() {{ ret; }}\n"


def placed(text):
    """The bytes of the table after a launch, and where the other variables lie; ptxas 13.0 puts what is not generic there as the
    place in the bank of constants."""
    made = warpsim.load(text)
    made["k"]((1,), (1,), ())
    places = {name: made.get_global(name).ptr for name in ("aa", "name")}
    return made.get_global("t").get(), places | {"name in .const": places["name"] % 2**32}


@pytest.mark.parametrize("separator", [", ", ",\n  ", ", /* apart */ "])
def test_addresses(separator):
    """However they are written, and as they are printed again; a comment between them leaves them tokens of their own."""
    words = [list(WORDS)[k % len(WORDS)] for k in range(COUNT)]
    text = module(words, separator=separator)
    assert (Tokens(text, "").kinds.count("addresses") == 1) == ("apart" not in separator)
    for each in (text, print_module(parse(text))):
        found, bases = placed(each)
        expected = [(bases[s] if s else 0) + offset for s, offset in (WORDS[word] for word in words)]
        assert found.view(np.uint64).tolist() == [value % 2**64 for value in expected]


def test_bytes_of_addresses():
    """Bytes of addresses in a table of bytes, as compilers write structures that hold pointers."""
    words = [f"0xFF{'00' * k}({s})" for s in ("aa", "name+8", "generic(aa)") for k in range(8)]
    text = module([*words, "5"], type="u8")
    found, bases = placed(text)
    expected = [bases["aa"], bases["name in .const"] + 8, bases["aa"]]
    assert Tokens(text, "").kinds.count("addresses") == 1
    assert found[:-1].tobytes() == np.array(expected, np.uint64).tobytes()
    assert found[-1] == 5


@pytest.mark.parametrize(
    ("word", "type", "rule"),
    [
        ("missing", "u64", "initialiser"),
        ("tile", "u64", "initialiser"),
        ("name", "u16", "initialiser"),
        ("k+8", "u64", "initialiser"),
        ("5", "f32", "initialiser"),
        ("aa+", "u64", "syntax"),
        ("0xFF(aa", "u64", "syntax"),
        ("aa)", "u64", "syntax"),
        ("aa name", "u64", "syntax"),
    ],
)
def test_wrong(word, type, rule):
    """Are refused where they stand."""
    first = "aa" if type == "u64" else "7"
    with pytest.raises(warpsim.PtxError) as raised:
        warpsim.load(module([*[first] * 20, f"\n  {word}", *[first] * 9], type))

    first = raised.value.findings[0]
    assert first.rule == rule
    if type != "f32":
        assert first.line == 8
    if rule == "initialiser" and type == "u64":
        assert first.column == 3
