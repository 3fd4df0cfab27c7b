"""Expand sparse A: its metadata say which column of k each stored element has."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.debug.matrix import Matrix
from warpsim.layout import fragments
from warpsim.program.program import Operand

Array = NDArray[Any]
SELECTORS = ("sp_sel", "f")
"""Operand names of the sparsity selector, which chooses the lanes that hold the metadata."""


def selected(spec: Any, given: dict[str, Operand], bits: int) -> Any:
    """The metadata operand ``spec`` of an instruction with ``bits``-bit elements, for its sparsity selector."""
    selector = next((given[name] for name in SELECTORS if name in given), None)
    number = selector.constant or 0 if selector is not None else 0
    chunks, rows = spec.fragment.columns, spec.fragment.rows
    count = max(4 // (chunks // 4), 1) if rows == 16 else 2 if bits >= 16 else 1
    fragment = fragments.metadata(chunks, number % count, rows, floats=bits >= 16)
    return attrs.evolve(spec, fragment=fragment, note=f"two 2-bit indices for each chunk of k; selector {number}")


def positions(nibbles: Array, bits: int) -> Array:
    """The column of each stored element ``[rows, stored k]``, from the metadata ``[rows, chunks]`` of ``bits``-bit
    elements.
    """
    nibbles = nibbles.astype(np.int64)
    first = np.arange(nibbles.shape[1])
    low, high = nibbles & 3, nibbles >> 2
    if bits == 32:
        return 2 * first + (low >> 1)
    pair = np.stack([4 * first + low, 4 * first + high], axis=2).reshape(len(nibbles), -1)
    if bits > 4:
        return pair
    return np.stack([2 * pair, 2 * pair + 1], axis=2).reshape(len(nibbles), -1)


def expanded(stored: Matrix, metadata: Matrix, bits: int) -> Matrix:
    """A with masked elements where the metadata leave one out; each stored element keeps its owner."""
    at = positions(np.ma.getdata(metadata.values), bits)
    rows, columns = stored.values.shape
    index = np.arange(rows)[:, None], at
    values = np.zeros((rows, 2 * columns), np.ma.getdata(stored.values).dtype)
    values[index] = np.ma.getdata(stored.values)
    away = np.ones(values.shape, np.bool_)
    away[index] = np.ma.getmaskarray(stored.values)
    owners: dict[str, Any] = {}
    for name in ("lanes", "registers", "addresses"):
        known = getattr(stored, name)
        if known is not None:
            owners[name] = np.full(values.shape, "" if known.dtype == object else -1, known.dtype)
            owners[name][index] = known
    note = f"{columns} columns of {2 * columns} are stored: matrix a_stored" + (
        f"; {stored.note}" if stored.note else ""
    )
    shown = np.ma.MaskedArray(values, away)
    return attrs.evolve(stored, name="a", axes=("m", "k"), values=shown, note=note, **owners)
