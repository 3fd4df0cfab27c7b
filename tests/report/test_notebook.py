"""What a notebook shows, read by a parser of HTML, and in a browser under the style of JupyterLab."""

import ast
import json
import re
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.debug import Session
from warpsim.layout.pictures import pictures
from warpsim.report.pages import STYLE
from warpsim.trace import Tracer

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


# ---- how it looks --------------------------------------------------------------------------------

MMA = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<8>; .reg .b64 %rd<3>; .reg .f32 %f<5>;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mov.b32 %r1, 0; mov.f32 %f0, 0f3F800000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f0, %f0, %f0, %f0};
    mul.wide.u32 %rd1, %r0, 4; // a comment that is longer than any page is wide: lorem ipsum dolor sit amet, consectetur adipiscing elit
    add.u64 %rd1, %rd1, %rd0;
    st.global.f32 [%rd1+4], %f1;
    ret;
}
"""


@pytest.fixture(scope="module")
def shown():
    """One object of each class that a notebook shows in its own way, by name."""
    kernel, out, tracer = warpsim.load(MMA)["k"], np.zeros(32, np.float32), Tracer()
    result = kernel(1, 32, (out,), on_finding="collect", profile=True, watchers=[tracer])
    accuracy = kernel(1, 32, (out,), on_finding="collect", shadow="f64").accuracy
    session, ended = Session(kernel, 1, 32, (out,)), Session(kernel, 1, 32, (out,))
    session.break_at("op:mma.*")
    session.cont()
    session.step()
    matrix = session.matrix("d")
    session.cont()
    while ended.cont().reason != "end":
        pass
    operand, tile = pictures("wgmma.m64n64k16.f32.f16.f16")["d"], pictures("tile.32x64.f16")["tile"]
    return {
        "module": kernel.module,
        "kernel": kernel,
        "result": result,
        "profile": result.profile,
        "accuracy": accuracy,
        "finding": result.findings[0],
        "session": session,
        "ended": ended,
        "matrix": matrix,
        "operand": operand,
        "fragment": operand.fragment,
        "layout": operand.fragment.layout,
        "tile": tile,
        "trace": tracer.trace(),
    }


def test_every_class_is_shown(shown):
    """The objects above are of all classes that a notebook shows in their own way."""
    package = Path(warpsim.__file__).parent
    owners = {
        node.name
        for path in package.rglob("*.py")
        if "_repr_html_" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and any(getattr(f, "name", "") == "_repr_html_" for f in node.body)
    }

    assert {type(thing).__name__ for thing in shown.values()} == owners


def test_no_style_of_the_notebook_is_taken_over(shown):
    """Tables and preformatted text have our own style: JupyterLab gives tables a fixed layout, and text another font."""
    for name, thing in shown.items():
        text = thing._repr_html_()
        inside = text.find("<div class=warpsim>")
        for tag in re.finditer(r"<(table|pre|p|td|th)\b[^>]*>", text):
            assert 0 <= inside < tag.start() or "font:" in tag[0], (name, tag[0])
        assert "<iframe" in text or "<svg" not in text or "max-width:none" in text, name
    assert "table-layout:auto" in STYLE


JUPYTER = """
.lab{width:800px}.lab pre,.lab code{border:0;background-color:#fff;color:#333;font-family:system-ui;font-size:inherit;line-height:1.3;padding:0;white-space:pre-wrap}
.lab table{border-collapse:collapse;border-spacing:0;border:none;color:#333;font-size:13px;table-layout:fixed;margin:0 auto 1em}
.lab thead{border-bottom:1px solid #bbb;vertical-align:bottom}
.lab td,.lab th,.lab tr{vertical-align:middle;padding:.5em;line-height:normal;white-space:normal;max-width:none;border:none}
:not(.markdown).lab td,:not(.markdown).lab th,:not(.markdown).lab tr{text-align:right}
.lab tbody tr:nth-child(odd){background:#fff}.lab tbody tr:nth-child(even){background:#f5f5f5}.lab tbody tr:hover{background:#e3f2fd}
.lab p{text-align:left;margin:0 0 1em}.lab img,.lab svg{max-width:100%;height:auto}
"""
"""The rules of JupyterLab 4 for shown HTML, with their weights."""
MEASURE = """
const faults = [], box = e => e.getBoundingClientRect();
for (const details of document.querySelectorAll('details')) details.open = true;
const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number); return (r + g + b) / 765; };
const ground = e => { while (e) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)|transparent/.test(c)) return c; e = e.parentElement; } return 'rgb(255,255,255)'; };
for (const row of document.querySelectorAll('.lab tr')) {
  const cells = [...row.children];
  cells.forEach((cell, n) => {
    const range = document.createRange(); range.selectNodeContents(cell);
    const text = range.getBoundingClientRect(), next = cells[n + 1];
    if (next && text.width && text.right > box(next).left + 1) faults.push('overlaps: ' + cell.textContent.slice(0, 40));
  });
}
for (const e of document.querySelectorAll('.lab pre, .lab td, .lab th'))
  if (!getComputedStyle(e).fontFamily.includes('monospace')) faults.push('font: ' + e.textContent.slice(0, 40));
for (const e of document.querySelectorAll('.lab .warpsim *'))
  if (e.childElementCount === 0 && e.textContent.trim() && e.tagName !== 'STYLE' && Math.abs(light(getComputedStyle(e).color) - light(ground(e))) < .3)
    faults.push('pale: ' + e.textContent.slice(0, 40));
for (const e of document.querySelectorAll('.lab svg'))
  if (box(e).width < e.viewBox.baseVal.width) faults.push('shrunk');
parent.document.body.dataset[NAME] = JSON.stringify(faults);
"""


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_notebooks_look(shown, browser, tmp_path, dark):
    """No cell covers the next, text has a fixed width and stands out from its ground, pictures keep their size."""
    page, frames = tmp_path / "page.html", ""
    for name, thing in shown.items():
        inside = (
            f"<!doctype html><meta charset=utf-8><style>{JUPYTER}</style><body><div class=lab>{thing._repr_html_()}</div>"
            f"<script>const NAME = '{name}';{MEASURE}</script>"
        )
        frames += f'<iframe width=1200 height=900 srcdoc="{escape(inside)}"></iframe>'
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{frames}", encoding="utf-8")
    body = re.search(r"<body[^>]*>", browser.dom(page, dark=dark))[0]
    found = {name: json.loads(unescape(faults)) for name, faults in re.findall(r'data-(\w+)="([^"]*)"', body)}

    assert found == {name: [] for name in shown}
