"""The printer: what it writes parses back to the same tree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptx_text import module_head
from warpsim.ptx.parser import parse
from warpsim.ptx.printer import print_module

HEAD = module_head("sm_90a")
NAMES = st.sampled_from(["%r1", "$x", "abc", "_b", "%tid.x", "_"])
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1).map(str),
    st.integers(0, 2**32 - 1).map("0f{:08X}".format),
    st.integers(0, 2**64 - 1).map("0d{:016X}".format),
)
ADDRESSES = st.integers(-4096, 4096).map("[%rd1+{}]".format)
OPERANDS = st.recursive(
    NAMES | NUMBERS | ADDRESSES | st.just("!%p1") | st.just("sym+4") | st.just("%r1|%p1"),
    lambda inner: st.lists(inner, min_size=1, max_size=4).map(lambda parts: "{" + ", ".join(parts) + "}"),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("@!%p1  bra  $x ;", "@!%p1 bra $x;"),
        ("ld.global .v2 .f32 {%f1,%f2}, [ %rd1 + 0 ];", "ld.global.v2.f32 {%f1, %f2}, [%rd1];"),
        ("ld.b32 %r1, [%rd1+-4];", "ld.b32 %r1, [%rd1+-4];"),
        ("mov.b64 %rd1, local0[8];", "mov.b64 %rd1, local0+8;"),
        ("mov.f32 %f1, 0f3f800000;", "mov.f32 %f1, 0f3F800000;"),
        ("add.s32 %r1, %r2, 0x10U;", "add.s32 %r1, %r2, 16U;"),
        ("call (%r1), f, (%r2, 3), p;", "call (%r1), f, (%r2, 3), p;"),
    ],
)
def test_normal_form(written, printed):
    """One spelling for each meaning."""
    assert f"\t{printed}\n" in print_module(parse(HEAD + ".entry k() {\n" + written + "\n}"))


def round_trips(operands):
    """Parsing what was printed gives the same tree, and the same text again."""
    module = parse(HEAD + ".entry k() { op.b32 " + ", ".join(operands) + "; }")
    text = print_module(module)

    assert module == parse(text)
    assert text == print_module(parse(text))


@settings(max_examples=40, deadline=None)
@given(st.lists(OPERANDS, max_size=4))
def test_some_instructions_round_trip(operands):
    """A few with any operands."""
    round_trips(operands)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.lists(OPERANDS, max_size=4))
def test_any_instruction_round_trips(operands):
    """Many."""
    round_trips(operands)
