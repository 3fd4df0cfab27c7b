"""Self-contained HTML that needs no server or network and follows the reader's light or dark setting: pages, and what
notebooks show of modules, kernels and results."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

from warpsim.errors import Finding, plural
from warpsim.layout.drawing import Drawing, svg
from warpsim.records import frozen

STYLE = """
.warpsim{--fg:#1f2328;--dim:#59636e;--bg:#ffffff;--soft:#f3f5f7;--line:#d1d9e0;--hot:#fb8f4455;--accent:#0969da;
--error:#d1242f;--warning:#9a6700;--note:#0969da;color:var(--fg);background:var(--bg);font:14px/1.45 system-ui,sans-serif}
@media (prefers-color-scheme:dark){.warpsim{--fg:#e6edf3;--dim:#9198a1;--bg:#0d1117;--soft:#161b22;--line:#30363d;
--hot:#db6d2866;--accent:#58a6ff;--error:#ff7b72;--warning:#d29922;--note:#58a6ff}}
.warpsim h1{font-size:20px;font-weight:600;margin:0 0 4px}.warpsim h2{font-size:15px;font-weight:600;margin:22px 0 6px}
.warpsim p{margin:4px 0;color:var(--dim)}
.warpsim .scroll{overflow-x:auto;border:1px solid var(--line);border-radius:6px}
.warpsim table{border-collapse:collapse;table-layout:auto;margin:0;width:100%;color:var(--fg);background:var(--bg);
font:12px/1.5 ui-monospace,Menlo,Consolas,monospace}
.warpsim .scroll tr:nth-child(n){background:none}
.warpsim th{position:sticky;top:0;background:var(--soft);color:var(--dim);font-weight:600;line-height:1.5;text-align:right;
padding:4px 8px;border-bottom:1px solid var(--line);white-space:nowrap}
.warpsim tbody th{padding:0 8px;vertical-align:top;border-bottom:0;border-right:1px solid var(--line)}
.warpsim td{padding:0 8px;line-height:1.5;vertical-align:top;text-align:right;white-space:pre;border:0;background:none}
.warpsim td.text,.warpsim th.text{text-align:left;width:100%}
.warpsim td.no{color:var(--dim);border-right:1px solid var(--line)}
.warpsim td.bar{background:linear-gradient(to left,var(--hot) var(--w),transparent var(--w))}
.warpsim tr.idle td{color:var(--dim)}.warpsim tr:hover td{background-color:var(--soft)}
.warpsim tr.here td{background-color:var(--hot);color:var(--fg);font-weight:600}
.warpsim .bad{color:var(--error);font-weight:600}
.warpsim pre{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;margin:6px 0;padding:4px 0 4px 10px;
border-left:4px solid var(--note);color:var(--fg);background:none}
.warpsim pre.error{border-color:var(--error)}.warpsim pre.warning{border-color:var(--warning)}
@media (max-width:700px){.warpsim td,.warpsim th{padding:0 4px}.warpsim table{font-size:11px}}
.warpsim a{color:var(--accent)}
"""
"""Scoped to ``.warpsim``, because a notebook shows page fragments among other things. It says again what browsers do
by themselves wherever notebooks have tables, text and code in another way: tables of fixed layout, their own fonts, and a
theme that is not the system's."""


def page(title: str, body: str, style: str = "", script: str = "") -> str:
    """A complete page."""
    scripts = f"<script>{script}</script>" if script else ""
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'><meta name=color-scheme content='light dark'>"
        f"<title>{html.escape(title)}</title><style>body{{margin:0}}.warpsim.page{{background:var(--bg);min-height:100vh;"
        f"padding:16px;box-sizing:border-box}}{STYLE}{style}</style></head>"
        f"<body class='warpsim page'>\n{body}\n{scripts}</body></html>\n"
    )


def part(body: str) -> str:
    """A fragment for a notebook."""
    return f"<div class=warpsim><style>{STYLE}</style>{body}</div>"


def table(heads: Iterable[str], rows: Iterable[str]) -> str:
    """A table in its own scrolling box; the last column is text."""
    *first, last = (html.escape(head) for head in heads)
    cells = "".join(f"<th>{head}</th>" for head in first) + f"<th class=text>{last}</th>"
    return scrolling(f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody>")


def scrolling(rows: str) -> str:
    """A table in its own scrolling box."""
    return f"<div class=scroll><table>{rows}</table></div>"


def finding(found: Finding) -> str:
    """A finding in full."""
    return f"<pre class={found.severity}><b>{found.severity}</b>: {html.escape(str(found))}</pre>"


LAYOUT_STYLE = ".warpsim .scroll{margin:4px 0 18px}.warpsim svg{display:block}.warpsim .scroll{border-radius:6px}"
SCRIPT = """
for (const box of document.querySelectorAll('.scroll')) {
  const light = (key, on) => { for (const cell of box.querySelectorAll('.cell')) if (cell.dataset.key === key) cell.classList.toggle('lit', on); };
  box.addEventListener('mouseover', e => { const cell = e.target.closest('.cell'); if (cell && cell.dataset.key) light(cell.dataset.key, true); });
  box.addEventListener('mouseout', e => { const cell = e.target.closest('.cell'); if (cell && cell.dataset.key) light(cell.dataset.key, false); });
}
"""
"""Highlights everything that the same lane holds."""


def layout_page(title: str, facts: str, drawings: Iterable[Drawing]) -> str:
    """Render the drawings one below another; pointing at a cell highlights what belongs to it."""
    parts = [f"<h1>{html.escape(title)}</h1><p>{html.escape(facts)}</p>"]
    parts += [f"<div class=scroll>{svg(drawing)}</div>" for drawing in drawings]
    return page(title, "\n".join(parts), LAYOUT_STYLE, SCRIPT)


@frozen
class KernelFacts:
    """Static facts about a kernel: its parameters as PTX declares them, its resources, and the count of each opcode in
    its code."""

    name: str
    params: tuple[str, ...]
    registers: int
    shared: int
    opcodes: Mapping[str, int]

    @property
    def signature(self) -> str:
        """``name(.u64 out, .u32 n)``."""
        return f"{self.name}({', '.join(self.params)})"

    @property
    def uses(self) -> str:
        """Registers, shared memory and instructions in words."""
        parts = [plural(self.registers, "register"), f"{plural(self.shared, 'byte')} of static shared memory"]
        return ", ".join([*parts, plural(sum(self.opcodes.values()), "instruction")])


def kernel_html(kernel: KernelFacts, target: str) -> str:
    """Render a kernel: signature, resources, opcodes."""
    most = sorted(kernel.opcodes.items(), key=lambda item: (-item[1], item[0]))
    rows = [f"<tr><td>{count}</td><td class=text>{html.escape(name)}</td></tr>" for name, count in most]
    return part(
        f"<h2>{html.escape(kernel.signature)}</h2><p>{html.escape(target)}, {kernel.uses}</p>"
        f"<details><summary>opcodes</summary>{table(('count', 'opcode'), rows)}</details>"
    )


def module_html(file: str, target: str, kernels: Iterable[KernelFacts]) -> str:
    """Render a module: its kernels."""
    each = "".join(f"<pre>{html.escape(k.signature)}\n    {html.escape(k.uses)}</pre>" for k in kernels)
    return part(f"<h2>{html.escape(file)}</h2><p>{html.escape(target)}</p>{each}")


def result_html(facts: Iterable[str], findings: Iterable[Finding], stdout: str) -> str:
    """Render a launch: what was executed, found and printed."""
    parts = [f"<p>{html.escape(' · '.join(facts))}</p>", *map(finding, findings)]
    if stdout:
        parts.append(f"<h2>printed</h2><pre>{html.escape(stdout)}</pre>")
    return part("".join(parts))
