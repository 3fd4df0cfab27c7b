"""The pictures of an instruction: every register operand, and the matrices that it reads in shared memory."""

from __future__ import annotations

import re

import attrs

from warpsim.layout import fragments, instructions, tiles
from warpsim.layout.instructions import BITS, Operand
from warpsim.layout.tiles import Tile

SWIZZLES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_TILE = re.compile(r"(\d+)x(\d+)")
Pictures = dict[str, Operand | Tile]


@attrs.frozen
class Placing:
    """How matrices lie in shared memory: a swizzle and whether M or N runs along the lines (``transposed``), or the
    bits of a ``descriptor``, which give everything but that.
    """

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
    if "r" in found:
        return _matrices(found["r"], words)
    shown: Pictures = {}
    for name, operand in found.items():
        if name == "e":
            shown |= _selectors(operand, root)
        else:
            shown[name] = operand
    if root == "wgmma":
        shown |= _descriptors(words, placing)
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
    shape = next(word for word in words if word.startswith("m64n"))
    n, k = map(int, shape[4:].split("k"))
    _, a, b, _ = instructions.types("wgmma", words)
    sparse = "sp" in words
    found: Pictures = {}
    for name, extent, type, depth in (("a_desc", 64, a, k // 2 if sparse else k), ("b_desc", n, b, k)):
        bits = BITS[type]
        unit = 8 // bits if bits < 8 else 1
        nbytes, elements = max(bits // 8, 1), depth // unit
        transposed = placing.transposed
        if transposed and bits != 16:
            raise ValueError(f"only 16-bit types lie MN-major in shared memory, not .{type}")
        span = SWIZZLES[placing.swizzle]
        if span and transposed and (extent * nbytes) % span:
            raise ValueError(
                f"{extent} elements along {'n' if name[0] == 'b' else 'm'} are no multiple of {span} bytes: choose a smaller swizzle"
            )
        descriptor = placing.descriptor
        if descriptor is None:
            descriptor = tiles.canonical(elements, extent, nbytes, span, transposed=transposed)
        found[name] = tiles.by_descriptor(
            name.upper(), descriptor, elements, extent, nbytes, transposed=transposed, unit=unit
        )
    return found


def _tile(words: list[str], placing: Placing) -> Tile:
    """A box of a tensor copy."""
    shape = next((match for word in words if (match := _TILE.fullmatch(word))), None)
    type = next((word for word in words if word in BITS and BITS[word] >= 8), None)
    if shape is None or type is None:
        raise ValueError("a tile of shared memory is spelled tile.ROWSxCOLUMNS.TYPE, for example tile.64x64.f16")
    return tiles.tensor_tile(int(shape[1]), int(shape[2]), BITS[type] // 8, SWIZZLES[placing.swizzle])
