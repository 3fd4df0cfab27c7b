"""The tokens of PTX text: kinds, offsets and lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ('"never closed', ["unended"]),
        ("/* never closed", ["unended"]),
    ],
)
def test_kinds(text, kinds):
    """Each piece of text is one token of the right kind; comments and line markers are none."""
    assert Tokens(text, "t.ptx").kinds == [*kinds, "end"]


def test_lines_count_through_comments():
    """Line beginnings are known even inside a comment of several lines."""
    assert Tokens("a\n/* x\n y */ b\n", "t.ptx").newlines == [0, 2, 7, 15]


@given(st.text(st.sampled_from('aZ_$%@09.xfFdU,;:|+-*/<>=!~&^?()[]{}"\\\n\r\t \0\x7f\u2028é漢🙂')))
def test_tokens_are_slices_of_the_text(text):
    """Whatever the text, each token stands where it says it stands."""
    tokens = Tokens(text, "t.ptx")

    assert all(text.startswith(t, s) for t, s in zip(tokens.texts, tokens.starts, strict=True))
