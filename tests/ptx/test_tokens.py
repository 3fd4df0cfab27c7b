"""The tokens of PTX text: kinds, offsets and lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptx_text import module_head
from warpsim.ptx import ast, tokens
from warpsim.ptx.parser import read
from warpsim.ptx.tokens import Tokens


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("%r1", ["word"]),
        ("$L__BB0_1:", ["word", "operator"]),
        ("ld.shared::cta.b32", ["word", "dotted", "dotted"]),
        ("0f3F800000", ["float"]),
        ("0d3FF0000000000000", ["float"]),
        ("1.5e-3", ["float"]),
        ("0x1FU", ["integer"]),
        ("a<<3", ["word", "operator", "integer"]),
        ("d|p", ["word", "operator", "word"]),
        ("a// note\n/* more\n*/ b", ["word", "word"]),
        ('# 1 "a.cu"\nb', ["word"]),
        ('a\n\t#line 1 "" 2 \r\nb\n# 3 "c"', ["word", "word"]),
        ("#\na", ["bad", "word"]),
        ('a\n# b "c"', ["word", "bad", "word", "string"]),
        ('"never closed', ["unended"]),
        ("/* never closed", ["unended"]),
    ],
)
def test_kinds(text, kinds):
    """Each piece of text is one token of the right kind; comments and line markers are none."""
    assert Tokens(text, "t.ptx").kinds == [*kinds, "end"]


def test_kinds_that_are_kept(monkeypatch):
    """Texts with ever other words, and with long ones, leave a bounded number of short ones."""
    monkeypatch.setattr(tokens, "WORDS", 50)
    kept = tokens.kinds_known()
    for first in range(0, 1000, 100):
        words = [f"w{number}" for number in range(first, first + 100)]
        assert Tokens(" ".join([*words, "x" * 1000]), "t.ptx").kinds == ["word"] * 101 + ["end"]
        assert len(kept) <= 50

    assert max(map(len, kept)) < tokens.WORD


def test_lines_count_through_comments():
    """Line beginnings are known even inside a comment of several lines."""
    assert Tokens("a\n/* x\n y */ b\n", "t.ptx").newlines == [0, 2, 7, 15]


@given(st.text(st.sampled_from('aZ_$%@09.xfFdU,;:|+-*/<>=!~&^?()[]{}"\\\n\r\t \0\x7f\u2028é漢🙂')))
def test_tokens_are_slices_of_the_text(text):
    """Whatever the text, each token stands where it says it stands."""
    tokens = Tokens(text, "t.ptx")

    assert all(text.startswith(t, s) for t, s in zip(tokens.texts, tokens.starts, strict=True))


SECTION = """
\t.section\t.debug_abbrev
\t{
.b8 1                                   // Abbreviation Code
.b8 255,0,25
$L__x:
.b32 .debug_info+4
.b64 $L__x-$L__y
\t}
"""
HEAD = module_head()
ENTRY = ".entry k()\n{\n\tret;\n}\n"


def sections(text):
    """Tokens of a text that are sections, and what the text says when it is parsed."""
    module, findings = read(HEAD + text)
    items = [] if module is None else [item for item in module.items if isinstance(item, ast.Section)]
    return Tokens(HEAD + text, "", whole=True).kinds.count("section"), items, findings


def test_a_section_is_one_token():
    """The statements are those that come of a section token by token, which a comment in its head makes of it."""
    number, (found,), findings = sections(ENTRY + SECTION)
    none, (expected,), _ = sections(ENTRY + SECTION.replace("{", "/* */ {"))

    assert (number, none, findings) == (1, 0, ())
    assert found == expected
    assert ast.statements(found.data)[1:] == (
        ".b8 255, 0, 25",
        "$L__x:",
        ".b32 .debug_info + 4",
        ".b64 $L__x - $L__y",
    )


def test_sections_behind_lists_of_numbers():
    """A list in a body, where braces are open, leaves the sections behind it what they are."""
    body = ENTRY.replace(
        "\tret;", ".reg .b64 q; st.global.v4.b32 [q], {0x11111111, 0x22222222, 0x33333333, 0x44444444}; ret;"
    )
    number, found, findings = sections(body + SECTION + SECTION.replace("$L__x", "$L__z"))

    assert (number, len(found), findings) == (2, 2, ())


@pytest.mark.parametrize(
    "text",
    [
        ENTRY.replace("\tret;", SECTION),
        ".entry k()" + SECTION,
        ENTRY + SECTION.replace("255", "256"),
        ENTRY + SECTION.replace("255", "08"),
        ENTRY + ".visible" + SECTION,
        ".global .b8 x[2] = {1, 2}" + SECTION + "oops",
    ],
)
def test_what_is_no_section_for_debuggers(text):
    """Where none may stand, and where a statement is wrong, the problems are those of its tokens."""
    _, _, findings = sections(text)

    assert findings
    assert [str(f) for f in findings] == [
        str(f).replace("{ /* */", "{") for f in sections(text.replace("\t{", "\t{ /* */"))[2]
    ]
