"""The parser: what it reads, what it refuses, and where."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsim.errors import PtxError
from warpsim.ptx.parser import parse
from warpsim.ptx.printer import print_module

ROOT = Path(__file__).parent.parent.parent
KERNELS = sorted((ROOT / "programs").glob("*/kernel.ptx")) + sorted((ROOT / "tests" / "cases").glob("*/kernel.ptx"))
HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def wrap(body):
    """A module around these instructions."""
    return HEAD + ".entry k() {\n" + body + "\n}\n"


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.parent.name)
def test_round_trip(path):
    """What the printer writes parses back to the same tree and prints the same again."""
    module = parse(path.read_text())
    text = print_module(module)

    assert module == parse(text)
    assert text == print_module(parse(text))


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("10", 10),
        ("0x1F", 31),
        ("017", 15),
        ("0b101", 5),
        ("7U", 7),
        ("-3", -3),
        ("(1+2)*3", 9),
        ("1<<4|1", 17),
        ("5>3?8:9", 8),
        ("~0", -1),
        ("-7/2", -3),
        ("-7 % 2", -1),
    ],
)
def test_integer_literals(literal, value):
    """Every form of integer, and constant expressions with C's precedence."""
    module = parse(wrap(f"mov.s32 %r1, {literal};"))

    assert value == module.items[0].body.statements[0].operands[1].value


@pytest.mark.parametrize(
    ("literal", "bits", "width"),
    [("0f3F800000", 0x3F800000, 32), ("0d3FF0000000000000", 0x3FF0 << 48, 64), ("1.0", 0x3FF0 << 48, 64)],
)
def test_float_literals(literal, bits, width):
    """Floats keep their bits."""
    operand = parse(wrap(f"mov.f32 %f1, {literal};")).items[0].body.statements[0].operands[1]

    assert (bits, width) == (operand.bits, operand.width)


def test_all_errors_in_one_go():
    """Two bad statements are two findings, each at its line and column."""
    with pytest.raises(PtxError) as caught:
        parse(wrap("mov.u32 %r1 %r2;\nadd.u32 %r1, %r2, %r3;\nld.global.u32 %r1, [%rd1-4];"))

    assert [(f.rule, f.line) for f in caught.value.findings] == [("syntax", 5), ("syntax", 7)]
    assert "^" in str(caught.value)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mutations_raise_only_ptx_errors(data):
    """A text with tokens deleted, doubled or altered is read or refused, never anything else."""
    words = KERNELS[0].read_text().split(" ")
    at = data.draw(st.integers(0, len(words) - 1))
    kind = data.draw(st.sampled_from(["delete", "double", "swap", "alter", "cut"]))
    if kind == "delete":
        del words[at]
    elif kind == "double":
        words.insert(at, words[at])
    elif kind == "swap":
        words[at], words[at - 1] = words[at - 1], words[at]
    elif kind == "alter":
        words[at] = data.draw(st.text(max_size=8))
    else:
        words = words[:at]
    with contextlib.suppress(PtxError):
        parse(" ".join(words))
