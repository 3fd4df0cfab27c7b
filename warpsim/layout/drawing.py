"""Grids of labelled cells as SVG, following the reader's light or dark setting."""

from __future__ import annotations

import html

import attrs

HEIGHT = 32
HUES = 32
"""Number of cell colours: eight hues in four shades."""


@attrs.frozen
class Cell:
    """A cell: two lines of text, its colour (0 to 31, -1 for none), a tooltip, and a ``key`` shared by cells that are
    highlighted together.
    """

    first: str
    second: str
    colour: int
    tip: str = ""
    key: str = ""


@attrs.frozen
class Drawing:
    """A grid with a title, notes, names of its rows and columns, and their headings."""

    title: str
    notes: tuple[str, ...]
    corner: str
    heads: tuple[str, ...]
    labels: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    width: int = 46


def _style() -> str:
    light = "".join(f".k{c}{{fill:hsl({c // 4 * 45},70%,{91 - 8 * (c % 4)}%)}}" for c in range(HUES))
    dark = "".join(f".k{c}{{fill:hsl({c // 4 * 45},38%,{20 + 6 * (c % 4)}%)}}" for c in range(HUES))
    return (
        ".ground{fill:#fff}.ink{fill:#1f2328}.dim{fill:#59636e}.sub{fill:#424a53}.none{fill:none}.cell rect{stroke:#8b949e;stroke-width:.5}"
        f".cell.lit rect{{stroke:#0969da;stroke-width:2.5}}{light}"
        f"@media(prefers-color-scheme:dark){{.ground{{fill:#0d1117}}.ink{{fill:#e6edf3}}.dim{{fill:#9198a1}}.sub{{fill:#c9d1d9}}{dark}}}"
    )


STYLE = _style()


def svg(drawing: Drawing) -> str:
    """Render the drawing as a standalone SVG."""
    wide, rows = drawing.width, drawing.cells
    left = 16 + 7 * max(map(len, (drawing.corner, *drawing.labels)))
    top = 38 + 16 * len(drawing.notes)
    text_width = int(7.2 * max(map(len, (drawing.title, *drawing.notes))))
    w, h = left + max(wide * len(drawing.heads), text_width) + 8, top + HEIGHT * len(rows) + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="11">',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{w}" height="{h}"/>',
        _text(left, 16, drawing.title, "ink", size=13),
        *(_text(left, 34 + 16 * at, note, "dim") for at, note in enumerate(drawing.notes)),
        _text(left - 6, top - 6, drawing.corner, "dim", "end"),
    ]
    out += [_text(left + wide * c + wide // 2, top - 6, head, "dim", "middle") for c, head in enumerate(drawing.heads)]
    for r, (label, line) in enumerate(zip(drawing.labels, rows, strict=True)):
        y = top + HEIGHT * r
        out.append(_text(left - 6, y + 20, label, "dim", "end"))
        out += [_cell(cell, left + wide * c, y, wide) for c, cell in enumerate(line)]
    return "\n".join([*out, "</svg>"])


def part(drawing: Drawing) -> str:
    """Render the drawing for a notebook, which would shrink a wide one to the width of the page."""
    whole = svg(drawing).replace("<svg ", '<svg style="max-width:none" ', 1)
    return f'<div style="overflow-x:auto">{whole}</div>'


def _text(x: int, y: int, text: str, kind: str, anchor: str = "", size: int = 0) -> str:
    more = (f' text-anchor="{anchor}"' if anchor else "") + (f' font-size="{size}"' if size else "")
    return f'<text x="{x}" y="{y}" class="{kind}"{more}>{html.escape(text)}</text>'


def _cell(cell: Cell, x: int, y: int, wide: int) -> str:
    if not (cell.first or cell.second):
        return f'<g class="cell"><rect class="none" x="{x}" y="{y}" width="{wide}" height="{HEIGHT}"/></g>'
    colour = f"k{cell.colour}" if cell.colour >= 0 else "none"
    key = f' data-key="{html.escape(cell.key)}"' if cell.key else ""
    middle = x + wide // 2
    lines = [(cell.first, "ink", 14), (cell.second, "sub", 27)] if cell.second else [(cell.first, "ink", 20)]
    return (
        f'<g class="cell"{key}><title>{html.escape(cell.tip)}</title>'
        f'<rect class="{colour}" x="{x}" y="{y}" width="{wide}" height="{HEIGHT}"/>'
        + "".join(_text(middle, y + at, text, kind, "middle") for text, kind, at in lines)
        + "</g>"
    )
