"""Explains how two arrays differ: first elements, size of the differences, and where they lie."""

from __future__ import annotations

import numpy as np

from warpsim.errors import plural
from warpsim.host.cases import Comparison, bits_of
from warpsim.host.recipes import name_of
from warpsim.numerics.arrays import Array

SHOWN = 5
"""Elements that a message lists."""
ROWS, COLUMNS = 16, 64
"""Largest picture, in cells."""


def explain(comparison: Comparison, shown: int = SHOWN) -> list[str]:
    """Explain how arrays differ: headline, first elements, places."""
    wrong = comparison.wrong
    return [headline(comparison), *_table(comparison, wrong, shown), *where(wrong)]


def headline(comparison: Comparison) -> str:
    """Say how many elements differ, of which type, and by how much."""
    expected, count = comparison.expected, int(np.count_nonzero(comparison.wrong))
    kind = name_of(expected.dtype) or str(expected.dtype)
    text = f"{comparison.name}: {count:,} of {expected.size:,} elements differ ({kind}{_shape(expected.shape)})"
    if comparison.max_ulp:
        text += f", by up to {plural(comparison.max_ulp, 'ulp')}"
    elif comparison.floats is not None:
        nans = int((np.isnan(comparison.floats[0]) & comparison.wrong).sum())
        text += f"; {nans:,} of these are NaN" if nans else ""
    allowed = comparison.count - count
    return text + (f"; {allowed:,} more are within what is allowed" if allowed else "")


def _shape(shape: tuple[int, ...]) -> str:
    return " " + "x".join(map(str, shape)) if shape else ""


def _table(comparison: Comparison, wrong: Array, shown: int) -> list[str]:
    rows: list[tuple[str, ...]] = [("index", "got", "expected", "bits got", "bits expected", "ulps")]
    for at in np.argwhere(wrong)[:shown]:
        place = tuple(int(i) for i in at)
        values = [_value(comparison.shown(side, place)) for side in (0, 1)]
        bits = [_bits(side[place]) for side in (comparison.got, comparison.expected)]
        rows.append((index_text(place), *values, *bits, _ulps(comparison, place)))
    if all(row[5] == "" for row in rows[1:]):
        rows = [(*row[:5], "") for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = [
        "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    left = int(np.count_nonzero(wrong)) - (len(rows) - 1)
    return [*lines, f"  ... and {left:,} more"] if left > 0 else lines


def index_text(place: tuple[int, ...]) -> str:
    """Format an index as it follows an array's name."""
    return "[" + ", ".join(map(str, place)) + "]"


def _value(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _bits(element: object) -> str:
    raw = np.asarray(element).tobytes()[::-1].hex()
    return f"0x{raw}" if len(raw) <= 16 else f"0x{raw[:16]}..."


def _ulps(comparison: Comparison, place: tuple[int, ...]) -> str:
    if comparison.floats is None or any(np.isnan(side[place]) for side in comparison.floats):
        return ""
    return f"{int(comparison.ulps[place]):,}"


# ---- where ---------------------------------------------------------------------------------------


def where(wrong: Array) -> list[str]:
    """Say where the differences lie: the ranges of each axis, a pattern if there is one, and a picture of the last two
    axes."""
    if wrong.ndim == 0 or wrong.all() or np.count_nonzero(wrong) < 2:
        return ["  all of them"] if wrong.ndim and wrong.size > 1 and wrong.all() else []
    said = [text for axis in range(wrong.ndim) if (text := _axis(wrong, axis))]
    lines = ["  " + "; ".join(said)] if said else []
    plane, prefix = _plane(wrong)
    return [*lines, *([f"  at {prefix}:"] if prefix else []), *("  " + line for line in picture(plane))]


def _axis(wrong: Array, axis: int) -> str:
    """Say which indices of an axis differ, unless all do: ``axis 1: 48-63``, or ``axis 1: 3 modulo 8``."""
    others = tuple(i for i in range(wrong.ndim) if i != axis)
    hit = np.flatnonzero(wrong.any(axis=others))
    if len(hit) == wrong.shape[axis]:
        return ""
    runs = np.split(hit, np.flatnonzero(np.diff(hit) != 1) + 1)
    if len(runs) <= 4:
        text = ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)
        return f"axis {axis}: {text}"
    for modulus in sorted((2, 4, 8, 16, 32, 64, 128), key=lambda m: len(np.unique(hit % m)) / m):
        rests = np.unique(hit % modulus)
        if len(rests) <= max(modulus // 4, 1) and 2 * len(rests) <= len(hit):
            return f"axis {axis}: {', '.join(map(str, rests[:4]))}{' ...' if len(rests) > 4 else ''} modulo {modulus}"
    return f"axis {axis}: {len(hit):,} of {wrong.shape[axis]:,}, from {hit[0]} to {hit[-1]}"


def _plane(wrong: Array) -> tuple[Array, str]:
    """The last two axes at the first index of the others that has a difference."""
    if wrong.ndim <= 2:
        return np.atleast_2d(wrong), ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0][:-2])
    return wrong[first], index_text((*first,))[:-1] + ", :, :]"


def picture(plane: Array) -> list[str]:
    """Draw a mask as text: ``.`` no difference in these elements, ``+`` some, ``#`` all."""
    rows, columns = (min(n, most) for n, most in zip(plane.shape, (ROWS, COLUMNS), strict=True))
    tall, wide = (-(-n // cells) for n, cells in zip(plane.shape, (rows, columns), strict=True))
    rows, columns = -(-plane.shape[0] // tall), -(-plane.shape[1] // wide)
    padded = np.zeros((rows * tall, columns * wide), np.int64)
    size = padded.copy()
    padded[: plane.shape[0], : plane.shape[1]] = plane
    size[: plane.shape[0], : plane.shape[1]] = 1
    counts, sizes = (a.reshape(rows, tall, columns, wide).sum(axis=(1, 3)) for a in (padded, size))
    cells = np.where(counts == 0, ".", np.where(counts == sizes, "#", "+"))
    scale = f"one character is {tall}x{wide}" if tall * wide > 1 else "one character is one element"
    width = len(str(plane.shape[0] - 1))
    return [f"{'':{width}}  {scale}", *(f"{i * tall:{width}}  {''.join(row)}" for i, row in enumerate(cells))]


__all__ = ["bits_of", "explain", "headline", "index_text", "picture", "where"]
