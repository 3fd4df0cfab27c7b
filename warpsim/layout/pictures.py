"""Pictures of fragments: who holds which element, as text, SVG, HTML and plain data."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from warpsim.layout.instructions import Operand

Holder = tuple[int, int, int]
"""Lane, register, and which part of the register, counted from its low end."""
WIDTH = 132
"""Characters of a line of a terminal, beyond which columns are left out."""


def holders(operand: Operand) -> list[list[list[Holder]]]:
    """For each row and column as shown, everyone who holds the element."""
    fragment = operand.fragment
    rows, columns = fragment.table()
    shape = (fragment.columns, fragment.rows) if operand.swapped else (fragment.rows, fragment.columns)
    grid: list[list[list[Holder]]] = [[[] for _ in range(shape[1])] for _ in range(shape[0])]
    per = fragment.per_register
    for thread, value in np.ndindex(rows.shape):
        row, column = int(rows[thread, value]), int(columns[thread, value])
        if operand.swapped:
            row, column = column, row
        grid[row][column].append((int(fragment.lane(thread)), value // per, value % per))
    return grid


def record(operand: Operand) -> dict[str, Any]:
    """An operand as plain data, for JSON."""
    fragment = operand.fragment
    return {
        "rows": fragment.columns if operand.swapped else fragment.rows,
        "columns": fragment.rows if operand.swapped else fragment.columns,
        "axes": list(operand.axes),
        "bits": fragment.bits,
        "lanes": max(32, fragment.threads),
        "registers": fragment.registers,
        "layout": repr(fragment.layout),
        "note": operand.note,
        "holders": [
            [[{"lane": lane, "register": register, "part": part} for lane, register, part in cell] for cell in line]
            for line in holders(operand)
        ],
    }


def formula(operand: Operand) -> str:
    """The layout in CuTe's spelling, and what its values are."""
    fragment = operand.fragment
    row, column = operand.axes[::-1] if operand.swapped else operand.axes
    per = fragment.per_register
    value = f"value = {per} * register + part" if per > 1 else "value = register"
    thread = "lane" if fragment.lanes is None else "thread"
    text = f"({thread}, value) -> {row} + {fragment.rows} * {column}: {fragment.layout!r}, {value}"
    if fragment.lanes is not None:
        text += f", lane = {fragment.lanes!r} of thread"
    return text


def _run(grid: list[list[list[Holder]]]) -> tuple[int, int]:
    """How many rows and columns at a time are parts of one register."""

    def one(cells: list[list[Holder]]) -> bool:
        return len({cell[0][:2] for cell in cells}) == 1

    rows, columns = len(grid), len(grid[0])
    wide = max(
        w
        for w in (1, 2, 4, 8, 16, 32)
        if columns % w == 0 and all(one(line[c : c + w]) for line in grid for c in range(0, columns, w))
    )
    high = max(
        h
        for h in (1, 2, 4, 8, 16, 32)
        if rows % h == 0
        and all(one([grid[r + i][c] for i in range(h)]) for r in range(0, rows, h) for c in range(columns))
    )
    return (1, wide) if wide >= high else (high, 1)


def _span(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start}-{start + count - 1}"


def text(operand: Operand) -> str:
    """A table for a terminal: lane and register of each element; elements of one register share a cell."""
    grid, fragment = holders(operand), operand.fragment
    high, wide = _run(grid)
    lines = grid[::high]
    cells = [[f"{line[c][0][0]}:{operand.name}{line[c][0][1]}" for c in range(0, len(line), wide)] for line in lines]
    heads = [_span(c, wide) for c in range(0, len(grid[0]), wide)]
    labels = [_span(r, high) for r in range(0, len(grid), high)]
    margin = max(map(len, (*labels, f"{operand.axes[0]}\\{operand.axes[1]}")))
    size = max(map(len, (*heads, *(cell for line in cells for cell in line))))
    room = (WIDTH - margin) // (size + 1)
    kept = list(range(len(heads)))
    if len(kept) > room:
        kept = [*kept[: room - 2], -1, kept[-1]]

    def line(label: str, parts: list[str]) -> str:
        return f"{label:>{margin}} " + " ".join(("..." if c < 0 else parts[c]).rjust(size) for c in kept)

    shape = f"{len(grid)} x {len(grid[0])}"
    per = fragment.per_register
    held = (
        f"{fragment.registers} register{'s' if fragment.registers > 1 else ''} of {per} element{'s' if per > 1 else ''}"
    )
    out = [
        f"{operand.name.upper()}: {shape}, {held} a lane; a cell is lane:register"
        + (", low part first" if wide * high > 1 else "")
    ]
    out += ["  " + formula(operand)]
    if operand.note:
        out.append("  " + operand.note)
    copies = len(grid[0][0])
    if copies > 1:
        out.append(f"  every element is held {copies} times; the first holder is shown")
    out.append(line(f"{operand.axes[0]}\\{operand.axes[1]}", heads))
    out += [line(label, parts) for label, parts in zip(labels, cells, strict=True)]
    return "\n".join(out)


CELL = (46, 32)


def _colour(lane: int) -> str:
    """A hue for each group of four lanes, a shade for each of the four."""
    return f"hsl({lane // 4 % 8 * 45},70%,{90 - 8 * (lane % 4)}%)"


def svg(operand: Operand, title: str) -> str:
    """The matrix as a drawing: a cell for each element, coloured by lane, with lane, register and part."""
    grid = holders(operand)
    per = operand.fragment.per_register
    width, height = CELL
    left, top = 44, 56
    text_width = 7 * max(len(title) + 4, len(formula(operand)))
    w, h = left + max(width * len(grid[0]), text_width) + 8, top + height * len(grid) + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" font-family="monospace" font-size="11">',
        f'<rect width="{w}" height="{h}" fill="white"/>',
        f'<text x="{left}" y="16" font-size="13">{html.escape(title)}</text>',
        f'<text x="{left}" y="32" fill="#555">{html.escape(formula(operand))}</text>',
        f'<text x="{left - 6}" y="{top - 6}" text-anchor="end" fill="#555">{html.escape(operand.axes[0])}\\{html.escape(operand.axes[1])}</text>',
    ]
    out += [
        f'<text x="{left + width * c + width // 2}" y="{top - 6}" text-anchor="middle" fill="#555">{c}</text>'
        for c in range(len(grid[0]))
    ]
    for r, line in enumerate(grid):
        y = top + height * r
        out.append(f'<text x="{left - 6}" y="{y + 20}" text-anchor="end" fill="#555">{r}</text>')
        for c, cell in enumerate(line):
            x = left + width * c
            lane, register, part = cell[0]
            more = "; ".join(f"lane {a}, {operand.name}{b}, part {p}" for a, b, p in cell)
            name = f"{operand.name}{register}" + (f".{part}" if per > 1 else "")
            out.append(
                f'<g><title>{r}, {c}: {more}</title><rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{_colour(lane)}" stroke="#666" stroke-width="0.5"/>'
                f'<text x="{x + width // 2}" y="{y + 14}" text-anchor="middle">T{lane}</text>'
                f'<text x="{x + width // 2}" y="{y + 27}" text-anchor="middle" fill="#333">{name}</text></g>'
            )
    return "\n".join([*out, "</svg>"])


def page(title: str, operands: list[Operand]) -> str:
    """An HTML page of drawings."""
    parts = [f"<!doctype html><html><head><meta charset='utf-8'><title>{html.escape(title)}</title></head><body>"]
    parts.append(f"<h1 style='font:20px monospace'>{html.escape(title)}</h1>")
    for operand in operands:
        if operand.note:
            parts.append(
                f"<p style='font:13px sans-serif'>{html.escape(operand.name.upper() + ': ' + operand.note)}</p>"
            )
        parts.append(svg(operand, operand.name.upper()))
    return "\n".join([*parts, "</body></html>"])
