"""Pictures of fragments as text and plain data. Drawings are methods of fragments."""

from __future__ import annotations

import re

import attrs

from warpsim.layout import drawing, fragments, instructions, tensor_fragments
from warpsim.layout.descriptors import TCGEN05_VERSION
from warpsim.layout.drawing import Tile
from warpsim.layout.fragment import Holder
from warpsim.layout.instruction_descriptors import WHOLE_BYTES
from warpsim.layout.instructions import BITS, Operand
from warpsim.layout.wmma_fragments import dimensions
from warpsim.records import frozen
from warpsim.types import JsonObject

WIDTH = 132
"""Longest line in characters; further columns are left out."""


def record(operand: Operand) -> JsonObject:
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


SWIZZLES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_TILE = re.compile(r"(\d+)x(\d+)")
Pictures = dict[str, Operand | Tile]


@frozen
class Placing:
    """How matrices lie in shared memory: a swizzle and whether M or N runs along the lines (``transposed``), or the
    bits of a ``descriptor``, which give everything but that."""

    swizzle: str = "128B"
    transposed: bool = False
    descriptor: int | None = None


def pictures(text: str, sm: int = 90, placing: Placing | None = None) -> Pictures:
    """The pictures of an instruction, or of a tile in shared memory (``tile.64x64.f16``), by name.

    Raises:
        ValueError: there is no such instruction or tile; the message says what was expected.
    """
    placing = placing or Placing()
    root, words = instructions.split(text)
    if root == "tile":
        return {"tile": _tile(words, placing)}
    found = instructions.operands(text, sm)
    if "r" in found and root != "tcgen05":
        return _matrices(found["r"], words)
    shown: Pictures = {}
    for name, operand in found.items():
        if name == "e":
            shown |= _selectors(operand, root)
        else:
            shown[name] = operand
    if root == "wgmma":
        shown |= _descriptors(words, placing)
    elif words[:1] == ["mma"] and root == "tcgen05":
        shown |= _tensor_descriptors(words, placing)
    return shown


def _matrices(operand: Operand, words: list[str]) -> Pictures:
    """The matrices of ldmatrix and stmatrix: one, two or four."""
    count = int(next((word[1] for word in words if word in ("x1", "x2", "x4")), "1"))
    each, rows = operand.fragment.registers, 16 if "m16n16" in words else 8
    note = "lanes {} to {} give the addresses of its rows"
    if "trans" in words:
        note += "; rows and columns are those of memory, where a lane's elements lie below each other"
    return {
        f"m{i}": attrs.evolve(operand, first=i * each, note=note.format(rows * i, rows * i + rows - 1))
        for i in range(count)
    }


def _selectors(operand: Operand, root: str) -> Pictures:
    """The metadata for each value of the sparsity selector."""
    chunks, rows = operand.fragment.columns, operand.fragment.rows
    floats = operand.fragment is fragments.metadata(chunks, 0, rows, floats=True)
    count = (2 if floats else 1) if root == "wgmma" else max(4 // (chunks // 4), 1)
    note = "two 2-bit indices for each chunk of k"
    if root == "wgmma":
        note += "; lanes count through the warpgroup"
    return {
        f"e{i}": attrs.evolve(
            operand,
            fragment=fragments.metadata(chunks, i, rows, floats=floats),
            note=f"{note}; for selector {i} of 0 to {count - 1}",
        )
        for i in range(count)
    }


def _descriptors(words: list[str], placing: Placing) -> Pictures:
    """A and B of wgmma in shared memory."""
    _, n, k = dimensions(next(word for word in words if word.startswith("m64n")))
    _, a, b, _ = instructions.types("wgmma", words)
    a_depth = k // 2 if "sp" in words else k
    if placing.transposed and BITS[a] != 16:
        raise ValueError(f"only 16-bit types lie MN-major in shared memory, not .{a}")
    return {
        "a_desc": _by_descriptor("A_DESC", 64, a_depth, BITS[a], placing),
        "b_desc": _by_descriptor("B_DESC", n, k, BITS[b], placing),
    }


def _tensor_descriptors(words: list[str], placing: Placing) -> Pictures:
    """A and B of tcgen05.mma in shared memory, of one CTA; not those of 6 and 4 bits that are padded to bytes."""
    p = tensor_fragments.product_of(words)
    found: Pictures = {}
    for name, rows, depth, type, bits in (
        ("a_desc", p.m, p.stored, p.a, p.bits_a),
        ("b_desc", p.n, p.k, p.b, p.bits_b),
    ):
        if placing.transposed and bits not in (8, 16):
            raise ValueError(f"only 16-bit and 8-bit types lie MN-major in shared memory, not .{type}")
        if bits != 8 or type in WHOLE_BYTES:
            found[name] = _by_descriptor(name.upper(), rows // p.cta_group, depth, bits, placing, tcgen05=True)
    return found


def _by_descriptor(name: str, rows: int, k: int, bits: int, placing: Placing, *, tcgen05: bool = False) -> Tile:
    """``rows`` of M or N by ``k`` elements of so many bits, by the given descriptor or packed densely."""
    unit = 8 // bits if bits < 8 else 1
    nbytes, elements = max(bits // 8, 1), k // unit
    span, transposed, descriptor = SWIZZLES[placing.swizzle], placing.transposed, placing.descriptor
    if span and transposed and (rows * nbytes) % span:
        side = "n" if name.startswith("B") else "m"
        raise ValueError(f"{rows} elements along {side} are no multiple of {span} bytes: choose a smaller swizzle")
    if descriptor is None:
        descriptor = drawing.canonical(elements, rows, nbytes, span, transposed=transposed)
        descriptor |= TCGEN05_VERSION if tcgen05 else 0
    return drawing.by_descriptor(
        name, descriptor, elements, rows, nbytes, transposed=transposed, unit=unit, tcgen05=tcgen05
    )


def _tile(words: list[str], placing: Placing) -> Tile:
    """A box of a tensor copy."""
    shape = next((match for word in words if (match := _TILE.fullmatch(word))), None)
    type = next((word for word in words if word in BITS and BITS[word] >= 8), None)
    if shape is None or type is None:
        raise ValueError("a tile of shared memory is spelled tile.ROWSxCOLUMNS.TYPE, for example tile.64x64.f16")
    return drawing.tensor_tile(int(shape[1]), int(shape[2]), BITS[type] // 8, SWIZZLES[placing.swizzle])
