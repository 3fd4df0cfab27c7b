"""Pictures of fragments as text and plain data. Drawings are methods of fragments."""

from __future__ import annotations

from typing import Any

from warpsim.layout.fragment import Holder
from warpsim.layout.instructions import Operand

WIDTH = 132
"""Longest line in characters; further columns are left out."""


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
            for line in operand.holders()
        ],
    }


def _run(grid: list[list[list[Holder]]]) -> tuple[int, int]:
    """The rows and columns of a block whose elements are parts of one register."""

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


def text(operand: Operand, title: str = "") -> str:
    """A table for a terminal: lane and register of each element. Elements of one register share a cell."""
    grid, fragment = operand.holders(), operand.fragment
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
        f"{title or operand.name.upper()}: {shape}, {held} a lane; a cell is lane:register"
        + (", low part first" if wide * high > 1 else "")
    ]
    out += ["  " + operand.formula()]
    if operand.note:
        out.append("  " + operand.note)
    copies = len(grid[0][0])
    if copies > 1:
        out.append(f"  every element is held {copies} times; the first holder is shown")
    out.append(line(f"{operand.axes[0]}\\{operand.axes[1]}", heads))
    out += [line(label, parts) for label, parts in zip(labels, cells, strict=True)]
    return "\n".join(out)
