"""Matrix rows (ldmatrix, stmatrix, wmma): consecutive words at per-lane addresses, in warp view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.events import READ, WRITE, MemoryAccess
from warpsim.machine.memory.addresses import misaligned, space_of
from warpsim.machine.memory.outside import OUTRIGHT, RowProblem, shared_advice
from warpsim.machine.memory.port import Port
from warpsim.machine.selection import Rect
from warpsim.machine.state.global_memory import SHARED_WINDOW, WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, spread

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine


FEW = 1024
"""Most rows whose addresses are remembered."""


def access_rows(
    port: Port, space: str, address: Array, count: int, words: tuple[Array, ...] | None, active: Array | None
) -> tuple[Array, ...]:
    """Access words in warp view; ``address`` is ``[n, k, m]``."""
    warps = port.group.warps
    kind = space_of(space)
    if address.shape[2] > 1 and warps.dense and (address == address[:, :, :1]).all():
        address = address[:, :, :1]  # the same in every CTA
    nbytes = count * 4
    array, inside = _offsets(port, kind, address, nbytes)
    shape = (warps.n, array.shape[1], warps.m)
    if not inside:
        array, active = _row_faults(port, array, address, nbytes, active)
    columns = _warp_columns(port, shape)
    told = port.hooks.rows_accessed
    if told is not None:
        access = READ if words is None else WRITE
        told(port.machine, port.group, MemoryAccess(access, "shared", array, nbytes, None, columns, active))
    if words is not None:
        array, columns = spread(array, shape), spread(columns, shape)
        mask = np.ones(shape, np.bool_) if active is None else spread(active, shape)
        for k, word in enumerate(words):
            full = spread(word, shape)
            port.shared.scatter(array[mask] + 4 * k, columns[mask], full[mask].view(np.uint32))
        return ()
    selection = port.group.selection
    rows = warps.dense and array.shape[2] == 1
    if rows and isinstance(selection, Rect) and selection.all_ctas:
        index = array.reshape(-1) >> 2
        out = (array.shape[0], array.shape[1], port.shared.n_columns)
        return tuple([port.shared.words.take(index + k, axis=0, mode="clip").reshape(out) for k in range(count)])
    array = spread(array, shape)
    return tuple([port.shared.gather(array + 4 * k, columns, np.dtype(np.uint32)) for k in range(count)])


def _offsets(port: Port, kind: str, address: Array, nbytes: int) -> tuple[Array, bool]:
    """Addresses as offsets in shared memory, and whether all rows are inside it and aligned."""
    few = address.size <= FEW
    asked = (kind == "", nbytes, address.dtype.char, address.shape, address.tobytes()) if few else None
    found = port.shared.views.get(asked)
    if found is not None:
        return found[0], True
    array = address.astype(np.int64)
    if kind == "":
        array = array - SHARED_WINDOW
    if int(array.min()) < 0 or int(array.max()) + nbytes > port.shared.size or misaligned(array, 0, nbytes):
        return array, False
    if few:
        port.shared.keep(asked, [array])
    return array, True


def _row_faults(port: Port, array: Array, address: Array, nbytes: int, active: Array | None) -> tuple[Array, Array]:
    """Report rows that cannot be accessed. Returns the addresses, 0 for those rows, and a mask of the valid rows."""
    port.shared.spare()
    warps = port.group.warps
    shape = (warps.n, array.shape[1], warps.m)
    mask = np.ones(shape, np.bool_) if active is None else spread(active, shape)
    array = spread(array, shape)
    mask = _refused(port, RowProblem.SPACE, mask & ((array < 0) | (array >= WINDOW)), address, nbytes, mask)
    beyond = mask & (array + nbytes > port.shared.size)
    if beyond.any():
        first = int(array[beyond][0])
        port.machine.fault(
            "out-of-bounds",
            f"row address 0x{first:x} of shared memory cannot be accessed with {nbytes} bytes",
            port.group,
            lanes_of_rows(port.group, beyond),
            address=first,
            advice=shared_advice(port.machine.launch),
        )
        mask = mask & ~beyond
    mask = _refused(port, RowProblem.ALIGNMENT, mask & (array % nbytes != 0), array, nbytes, mask)
    return np.where(mask, array, 0), mask


def _refused(port: Port, problem: RowProblem, rows: Array, address: Array, nbytes: int, mask: Array) -> Array:
    """Report rows that cannot be accessed to the hooks, and as faults if no watcher does; returns the rest of
    ``mask``.
    """
    if not rows.any():
        return mask
    machine, group, before = port.machine, port.group, port.machine.errors
    if machine.hooks.rows_refused is not None:
        machine.hooks.rows_refused(machine, group, problem, rows, address, nbytes)
    if machine.errors == before:
        report_rows(machine, group, OUTRIGHT[problem], problem, rows, address, nbytes)
    return mask & ~rows


def _warp_columns(port: Port, shape: tuple[int, ...]) -> Array:
    warps = port.group.warps
    if warps.dense:
        return (port.group.selection.positions[0, 0].reshape(-1) % port.machine.batch.shape.n_ctas).reshape(1, 1, -1)
    return warps.warp_ctas.reshape(-1, 1, 1)


def lanes_of_rows(group: Group, rows: Array) -> Array:
    """All lanes of the warps of some rows."""
    warps = group.warps
    return warps.collect(np.broadcast_to(rows.any(axis=1, keepdims=True), (warps.n, 32, warps.m)))


def report_rows(
    machine: Machine, group: Group, rule: str, problem: RowProblem, rows: Array, address: Array, nbytes: int
) -> None:
    """Report rows that cannot be accessed, under a rule."""
    first = int(spread(address, rows.shape)[rows][0])
    lanes = lanes_of_rows(group, rows)
    machine.fault(rule, problem.message(first, nbytes), group, lanes, address=first, advice=problem.advice)
