"""What a notebook shows of kernels, modules and results, read by a parser of HTML."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import warpsim

TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry add(.param .u64 out, .param .align 8 .b8 more[16])
{
    .shared .align 4 .b8 tile[64];
    .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    st.global.u32 [%rd0], %r0;
    mov.u32 %r1, tile; add.u32 %r0, %r0, %r1;
    ret;
}
"""
VOID = {"meta", "br", "img", "input", "link"}


class Words(HTMLParser):
    """The text of a part of a page; its elements must be closed in turn."""

    def __init__(self, source):
        super().__init__()
        self.open, self.words = [], []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        """An element opens."""
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        """The innermost closes."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Text, but for styles."""
        if self.open[-1:] != ["style"]:
            self.words += data.split()


def words(thing):
    """What is shown, with single blanks."""
    return " ".join(Words(thing._repr_html_()).words)


@pytest.fixture
def module():
    """A module."""
    return warpsim.load(TEXT)


def test_module_and_kernel(module):
    """A module lists its kernels, a kernel what it takes and its opcodes."""
    for shown in (words(module), words(module["add"])):
        assert "add(.u64 out, .b8 more[16])" in shown
        assert "64 bytes of static shared memory, 6 instructions" in shown
    assert "2 mov.u32" in words(module["add"])
    counts = [int(n) for n in re.findall(r"<tr><td>(\d+)</td><td class=text>", module["add"]._repr_html_())]
    assert counts == sorted(counts, reverse=True) != sorted(counts)


def test_result(module):
    """A result shows what was executed, its findings in full, and the profile."""
    out = np.zeros(1, np.uint32)
    result = module["add"]((1,), (64,), (out, bytes(16)), checks="all", on_finding="collect", profile=True)
    shown = words(result)

    assert "12 warp-instructions · 384 thread-instructions" in shown
    assert "1 finding" in shown
    assert f"{result.findings[0].severity} : {' '.join(str(result.findings[0]).split())}" in shown
    assert "st.global.u32 [%rd0], %r0;" in shown


def test_markup_is_escaped():
    """Whatever a kernel prints or is called is text."""
    result = warpsim.host.kernel.LaunchResult(1, 1, {}, (), "<script>alert(1)</script>", 0.5)

    assert "<script>" not in result._repr_html_()
    assert "<script>alert(1)</script>" in words(result)
