"""Grids of labelled cells as SVG, following the reader's light or dark setting, and tiles of shared memory as such grids."""

from __future__ import annotations

import html

import attrs
import numpy as np

from warpsim.layout import descriptors
from warpsim.numerics.arrays import Array
from warpsim.records import frozen
from warpsim.types import JsonObject

HEIGHT = 32
HUES = 32
"""Number of cell colours: eight hues in four shades."""


@frozen
class Cell:
    """A cell: two lines of text, its colour (0 to 31, -1 for none), a tooltip, and a ``key`` shared by cells that are
    highlighted together."""

    first: str
    second: str
    colour: int
    tip: str = ""
    key: str = ""


@frozen
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


CHUNK = 16
LINE = 128
"""Bytes of all 32 banks."""


@frozen(eq=False)
class Tile:
    """Elements of ``itemsize`` bytes at byte ``addresses`` ``[rows, columns]``, contiguous along columns.

    ``axes`` name rows and columns. One element here stands for ``unit`` elements of the matrix (8 for b1).
    """

    name: str
    addresses: Array
    itemsize: int
    axes: tuple[str, str]
    note: str
    unit: int = 1

    @property
    def chunks(self) -> Array:
        """The address of each contiguous 16 bytes, ``[rows, columns * itemsize / 16]``."""
        return self.addresses[:, :: CHUNK // self.itemsize]

    def span(self, chunk: int) -> str:
        """The columns that a chunk holds: ``0-7``."""
        per = CHUNK // self.itemsize * self.unit
        return f"{chunk * per}-{chunk * per + per - 1}"

    def record(self) -> JsonObject:
        """The tile as plain data, for JSON."""
        return {
            "rows": self.addresses.shape[0],
            "columns": self.addresses.shape[1] * self.unit,
            "axes": list(self.axes),
            "bytes": self.itemsize,
            "note": self.note,
            "addresses": self.addresses.tolist(),
        }

    def places(self) -> Drawing:
        """Draw where each chunk of each row lies, coloured by bank."""
        rows, columns = self.chunks.shape
        cells = []
        for row in range(rows):
            line = []
            for at in range(columns):
                address = int(self.chunks[row, at])
                bank = address % LINE // 4
                tip = f"{self.axes[0]} {row}, {self.axes[1]} {self.span(at)}: 0x{address:x}, banks {bank} to {bank + 3}"
                line.append(Cell(f"0x{address:04x}", f"b{bank}-{bank + 3}", bank, tip, f"{row} {at}"))
            cells.append(tuple(line))
        heads, labels = tuple(map(self.span, range(columns))), tuple(map(str, range(rows)))
        notes = (self.note, "where 16 bytes lie, and their banks")
        return Drawing(self.name, notes, "\\".join(self.axes), heads, labels, tuple(cells), 64)

    def memory(self) -> Drawing:
        """Draw the content of each 128-byte line, coloured by the place in its row."""
        held = {}
        for row, at in np.ndindex(self.chunks.shape):
            held[int(self.chunks[row, at]) // CHUNK] = row, at
        lines = range(min(held) // 8, max(held) // 8 + 1)
        cells = tuple(
            tuple(self._slot(held.get(8 * line + slot), 8 * line + slot) for slot in range(8)) for line in lines
        )
        heads = tuple(f"b{4 * slot}-{4 * slot + 3}" for slot in range(8))
        labels = tuple(f"0x{line * LINE:x}" for line in lines)
        notes = (self.note, f"what 128 bytes of shared memory hold: {self.axes[0]}, {self.axes[1]}")
        return Drawing(self.name, notes, "address", heads, labels, cells, 80)

    def _slot(self, held: tuple[int, int] | None, chunk: int) -> Cell:
        if held is None:
            return Cell("", "", -1)
        row, at = held
        tip = f"0x{chunk * CHUNK:x}: {self.axes[0]} {row}, {self.axes[1]} {self.span(at)}"
        return Cell(f"{row}, {self.span(at)}", "", at % 8 * 4, tip, f"{row} {at}")

    def svg(self, title: str) -> str:
        """Draw the places of the chunks as SVG."""
        return svg(attrs.evolve(self.places(), title=title))

    def drawings(self) -> list[Drawing]:
        """All drawings of the tile."""
        return [self.places(), self.memory()]

    def text(self) -> str:
        """Both views for a terminal."""
        rows, columns = self.addresses.shape
        shape = f"{rows} x {columns * self.unit}"
        return "\n".join([f"{self.name}: {shape}, {self.note}", *_grid(self.places()), "", *_grid(self.memory())])

    def _repr_html_(self) -> str:
        return "".join(map(part, self.drawings()))


def _grid(drawing: Drawing) -> list[str]:
    margin = max(map(len, (drawing.corner, *drawing.labels)))
    shown = [[f"{cell.first} {cell.second}".strip() or "." for cell in line] for line in drawing.cells]
    size = max(map(len, (*drawing.heads, *(cell for line in shown for cell in line))))
    rows = [(drawing.corner, drawing.heads), *zip(drawing.labels, shown, strict=True)]
    return [
        f"  {drawing.notes[1]}",
        *(f"{label:>{margin}} " + " ".join(c.rjust(size) for c in line) for label, line in rows),
    ]


def by_descriptor(
    name: str, bits: int, k: int, extent: int, nbytes: int, *, transposed: bool, unit: int = 1, tcgen05: bool = False
) -> Tile:
    """A or B of wgmma (or tcgen05.mma) as a descriptor names it: ``extent`` rows of M or N, ``k`` elements of ``nbytes`` each."""
    fields = (descriptors.decode_tcgen05 if tcgen05 else descriptors.decode)(np.array([bits], np.uint64))
    found = descriptors.byte_addresses(fields, k, extent, nbytes, transposed=transposed)[:, :, 0]
    side = "n" if name.lower().startswith("b") else "m"
    note = f"descriptor {descriptors.describe(bits, tcgen05=tcgen05)}, {'MN' if transposed else 'K'}-major"
    if transposed:
        return Tile(name, found, nbytes, ("k", side), note, unit)
    return Tile(name, found.T, nbytes, (side, "k"), note, unit)


def canonical(k: int, extent: int, nbytes: int, span: int, *, transposed: bool) -> int:
    """The descriptor of a tile at address 0, packed as densely as the swizzle (``span`` bytes, 0 for none) allows."""
    core = 8 * max(span, CHUNK)
    if not span:
        other = core * (k // 8 if transposed else k * nbytes // CHUNK)
        return descriptors.encode(0, core, other)
    if transposed:
        return descriptors.encode(0, core * (k // 8), core, span=span)
    return descriptors.encode(0, core * (extent // 8), core, span=span)


def tensor_tile(rows: int, columns: int, nbytes: int, span: int) -> Tile:
    """A box of ``rows`` x ``columns`` elements as a tensor copy lays it out at address 0, swizzled over ``span`` bytes.

    Raises:
        ValueError: rows are not a multiple of 16 bytes, or exceed the swizzle span.
    """
    pitch = columns * nbytes
    if pitch % CHUNK or (span and pitch > span) or rows < 1 or rows * pitch > 1 << 16:
        most = f" and at most the {span} of the swizzle" if span else ""
        raise ValueError(
            f"a tile of {rows} rows of {pitch} bytes: rows are a multiple of 16 bytes{most}, in all up to 65536"
        )
    pitch = max(pitch, span)
    address = np.arange(rows, dtype=np.int64)[:, None] * pitch + np.arange(columns, dtype=np.int64) * nbytes
    mask = max(span // CHUNK - 1, 0)
    swizzled = address ^ ((address >> 7 & mask) << 4)
    note = f"swizzled over {span} bytes: address bits 4 and up XOR those from 7 on" if span else "no swizzle"
    return Tile("tile", swizzled, nbytes, ("row", "column"), note)
