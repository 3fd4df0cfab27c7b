"""Reports undefined bytes that bulk copies store to global memory, like those of any other store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.origins import REGISTER
from warpsim.checks.undefined_registers import RULE, origins
from warpsim.checks.written import WrittenBits
from warpsim.machine.state.transfers import BoxStore, RunStore, Transfer, Which
from warpsim.machine.values import Array
from warpsim.program.program import called

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

U64 = np.dtype(np.uint64)
ADVICE = "write everything that the copy reads before starting it"


def stored(machine: Machine, group: Group, transfer: Transfer, which: Which) -> None:
    """Report bytes never written in the sources that copies have read."""
    work, bits = transfer.work, machine.batch.shared.shadow
    assert isinstance(bits, WrittenBits)
    if not isinstance(work, (RunStore, BoxStore)) or bits.covers(work.source.low, work.source.high):
        return
    columns, start = work.source.columns[which][:, None], work.source.start[which]
    if isinstance(work, RunStore):
        address = start[:, None] + np.arange(0, work.source.nbytes, 8)
        lacking = _of_runs(
            bits.gather(address, np.broadcast_to(columns, address.shape), U64), combined=work.reduction is not None
        )
    else:
        boxes = work.boxes
        address = boxes.shared(start)
        written = bits.gather(address, columns, boxes.dtype)
        lacking = (written != np.iinfo(written.dtype).max) & boxes.inside(which)
        address = np.broadcast_to(address, lacking.shape)
        if lacking.any():
            parts, size = written.view(boxes.element), boxes.element.itemsize
            address = (address[..., None] + np.arange(0, boxes.dtype.itemsize, size)).reshape(parts.shape)
            lacking = np.repeat(lacking, boxes.dtype.itemsize // size, axis=1) & (parts != np.iinfo(parts.dtype).max)
    rows = lacking.any(axis=1)
    if rows.any():
        _report(machine, group, transfer, transfer.positions[which[rows]], int(address[lacking].min()))


def _of_runs(written: Array, *, combined: bool) -> Array:
    """A mask of the 8-byte groups ``[runs, nbytes / 8]`` without a written byte.

    One written byte suffices, because the rest may be structure padding. The last group counts with those before it,
    because copy sizes are multiples of 16 bytes. Reduced data has no padding.
    """
    if combined:
        return np.asarray(written != np.iinfo(written.dtype).max)
    lacking = np.asarray(written == 0)
    lacking[:, -1] &= lacking[:, -2]
    return lacking


def _report(machine: Machine, group: Group, transfer: Transfer, positions: Array, first: int) -> None:
    origin = origins(machine).of("shared", first, first)
    source = None if origin is None else origin.values.get(REGISTER)
    what = (
        "uninitialised bytes" if source is None else f"what comes from {called(str(source))}, which was never written"
    )
    machine.fault(
        RULE,
        f"shared address 0x{first:x} is stored to global memory by a bulk copy, but holds {what}",
        group,
        np.isin(group.selection.positions, positions),
        address=first,
        other=origin,
        place=transfer.place,
        advice=ADVICE if source is None or origin is None else f"write {source} before line {origin.line} reads it",
    )
