"""Undefined bits in asynchronous copies: they travel with a copy, arrive with it, and are reported
where a bulk copy stores them to global memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.checks.origins import REGISTER
from warpsim.checks.undefined_memory import UndefinedMemory, muted
from warpsim.checks.undefined_registers import RULE, origins
from warpsim.checks.written import ALL, WrittenBits
from warpsim.machine.asynchrony.moves import copy_threads, store_remote
from warpsim.machine.asynchrony.transfers import late
from warpsim.machine.state.transfers import (
    BoxLoad,
    BoxStore,
    RemoteStore,
    RunLoad,
    RunStore,
    ThreadCopy,
    Transfer,
    Which,
)
from warpsim.machine.values import Array
from warpsim.program.program import called

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group


U32 = np.dtype(np.uint32)


def landed(machine: Machine, group: Group, active: Array | None, transfer: Transfer, which: Which) -> None:
    """Mark the bytes that copies have written as written, except those whose source bits are undefined.

    Without late effects, copies of single threads did this when they were started.
    """
    work = transfer.work
    with muted(machine):
        if isinstance(work, (RunLoad, BoxLoad)):
            _land(machine, work, which)
        elif late(machine) and isinstance(work, ThreadCopy):
            memory = UndefinedMemory(machine, transfer.group, transfer.lanes(which))
            copy_threads(memory, work.dst, work.src, work.nbytes, work.take)
        elif late(machine) and isinstance(work, RemoteStore) and transfer.undefined is not None:
            memory = UndefinedMemory(machine, transfer.group, transfer.lanes(which))
            store_remote(memory, work.dst, work.type, transfer.undefined, None)


def _land(machine: Machine, work: RunLoad | BoxLoad, which: Which) -> None:
    """Copy the written state of a bulk copy's sources to shared memory."""
    bits = machine.batch.shared.shadow
    assert isinstance(bits, WrittenBits)
    to = work.to
    if isinstance(work, RunLoad):
        steps = np.arange(0, work.nbytes, 4)
        address = to.start[which][:, None] + steps
        if work.source is not None:
            written = bits.gather(work.source.start[which][:, None] + steps, work.source.columns[which][:, None], U32)
        else:
            written = _of_runs(machine, work.address[to.lane[which]], work.nbytes)
        if work.reduction is not None:
            assert work.type is not None
            elements = np.ascontiguousarray(written).view(f"u{work.type.bytes}")
            whole = elements == np.iinfo(elements.dtype).max
            written = np.where(whole, elements, elements.dtype.type(0)).view(np.uint32)
    else:
        low, high = work.boxes.span()
        if not any(a.start < high and low < a.end for a in machine.launch.memory.accompanied()):
            return
        address = work.boxes.shared(to.start[which])
        written = _of_boxes(machine, work, which)
    if (written == np.iinfo(written.dtype).max).all():
        return
    columns = np.broadcast_to(to.columns[which][:, None], written.shape)
    if isinstance(work, RunLoad) and work.reduction is not None:
        written = written & bits.gather(address, columns, U32)
    bits.scatter(address, columns, np.ascontiguousarray(written))
    bits.reopen()


def _of_runs(machine: Machine, addresses: Array, nbytes: int) -> Array:
    """The written bits of runs of global memory: words ``[runs, nbytes / 4]``."""
    out = np.full((len(addresses), nbytes), 0xFF, np.uint8)
    for allocation in machine.launch.memory.accompanied():
        assert allocation.shadow is not None
        for row in np.flatnonzero((addresses >= allocation.start) & (addresses + nbytes <= allocation.end)):
            at = int(addresses[row]) - allocation.start
            out[row] = allocation.shadow.data[at : at + nbytes]
    return out.view(np.uint32)


def _of_boxes(machine: Machine, work: BoxLoad, which: Which) -> Array:
    """The written bits of the elements of boxes; elements outside the tensor are filled."""
    boxes = work.boxes
    place, inside = boxes.elements(work.to.lane[which])
    size = boxes.dtype.itemsize
    out = np.full((*place.shape, size), ALL & 0xFF, np.uint8)
    for allocation in machine.launch.memory.accompanied():
        assert allocation.shadow is not None
        address = boxes.fields.address + place
        here = inside & (address >= allocation.start) & (address + size <= allocation.end)
        if here.any():
            at: Any = address[here] - allocation.start
            out[here] = allocation.shadow.data[at[:, None] + np.arange(size)]
    return out.view(boxes.dtype)[..., 0]


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
        lacking = _lacking(
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


def _lacking(written: Array, *, combined: bool) -> Array:
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
