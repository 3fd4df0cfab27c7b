"""What the language server says, asked without a server (and without pygls)."""

import pytest

from warpsim.cli.lsp.text import Text
from warpsim.cli.lsp.words import completions, hover

HEAD = """.version {version}
.target {target}
.address_size 64
.visible .entry k(.param .u64 out) {{
  .reg .b32 %r<4>;
  {{
    .reg .b32 %r1, x;
    {line}
"""


def typed(line, target="sm_80", version="8.0"):
    """A text that ends in a line, with the place of the cursor behind it."""
    text = Text(HEAD.format(line=line, target=target, version=version), "k.ptx")
    return text, 7, 4 + len(line)


def offered(line, **head):
    """The words that complete a line."""
    return {word for word, _ in completions(*typed(line, **head))[1]}


@pytest.mark.parametrize(
    ("line", "target", "version", "words"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.", "sm_80", "8.0", {"f16", "bf16"}),
        ("wgmma.", "sm_80", "8.0", set()),  # wgmma is sm_90a's alone
        ("setmaxnreg.", "sm_90a", "8.0", {"inc", "dec"}),
        ("@%p red.global.add.f", "sm_80", "8.0", {"f32", "f64"}),
        ("// add.", "sm_80", "8.0", set()),
    ],
)
def test_legal_continuations(line, target, version, words):
    """Those that PTX ISA lists for this target and version."""
    assert offered(line, target=target, version=version) == words


def test_names_are_those_of_the_scope():
    """The inner %r1 is one register; the outer %r<4> are four."""
    text, line, column = typed("mov.b32 %r1, %r")
    inner = text.scope(text.starts[line] + column)

    assert {"%r0", "%r1", "%r2", "%r3"} <= offered("mov.b32 %r1, %r")
    assert {"x", "out"} <= offered("mov.b32 %r1, ")
    assert text.place(inner.find("%r1").start) == (6, 14)
    assert text.place(inner.find("%r3").start) == (4, 12)
    assert inner.find("%r4") is None


def test_hover_says_where_an_instruction_runs():
    """setmaxnreg came with sm_90a and PTX 8.0 (PTX ISA), and this module is for sm_80."""
    said, first, last = hover(*typed("setmaxnreg.inc.sync.aligned.u32"))

    assert (first, last) == (4, 35)
    assert "sm_90a" in said
    assert "not in this module (.version 8.0, .target sm_80)" in said
