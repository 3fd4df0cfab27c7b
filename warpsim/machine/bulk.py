"""Bulk copies: boxes of tensors and runs of bytes between global memory and the shared memories of a cluster.

All lanes of a step at once: arrays have one element for each active lane, in the order CTA, warp, lane, or for each
receiver of a lane (a multicast copy has several).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.isa.ports import Choose
from warpsim.layout import tensor_map
from warpsim.layout.boxes import Boxes
from warpsim.layout.tensor_map import ROW_UNIT
from warpsim.machine.addresses import CLUSTER_SHIFT
from warpsim.machine.footprints import Footprint
from warpsim.machine.memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.reductions import BY_DATA_TYPE, combine
from warpsim.machine.transfers import Signal, Transfer, Which
from warpsim.machine.values import Array, as_array

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch
    from warpsim.types import ScalarType

KIND = "bulk"
ALIGNMENT = 128
"""Of a box in shared memory, in bytes."""
OFFSET = (1 << CLUSTER_SHIFT) - 1


@attrs.frozen(eq=False)
class Lanes:
    """The active lanes of a step: place in the group, CTA column, and flat position in the batch."""

    index: Array
    columns: Array
    positions: Array


@attrs.frozen(eq=False)
class Receivers:
    """Where copies to shared memory go: for each receiver the lane, its column, the start there, and its mbarrier."""

    lane: Array
    columns: Array
    start: Array
    bar_columns: Array
    bar: Array


class BulkCopies:
    """The port of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    # ---- the port ----------------------------------------------------------------------------

    def tensor_load(self, dst: Any, map: Any, bar: Any, offsets: Any, mask: Any) -> None:
        """A box into shared memory; its bytes count at the mbarrier."""
        lanes = self._lanes()
        targets, bars = self._address(dst, lanes), self._address(bar, lanes)
        masks = None if mask is None else self._flat(mask, lanes)
        columns = [self._flat(c, lanes) for c in _coordinates(map)]
        parts = () if offsets is None else offsets if isinstance(offsets, tuple) else (offsets,)
        extra = [self._flat(o, lanes) for o in parts]
        for fields, part in self._maps(map, lanes):
            boxes = Boxes(fields, [c[part] for c in columns], [o[part] for o in extra])
            mine = Lanes(*(x[part] for x in (lanes.index, lanes.columns, lanes.positions)))
            to = self._receivers(mine, targets[part], bars[part], None if masks is None else masks[part])
            if not (self._placed(boxes) and self._fits(to, boxes)):
                continue

            def deliver(which: Which, boxes: Boxes = boxes, to: Receivers = to) -> None:
                values = self._gather(boxes, to.lane[which])
                self._write(to.columns[which][:, None], boxes.shared(to.start[which]), values)

            self._start(mine, to, boxes.nbytes, deliver, extent=boxes.extent)

    def tensor_store(self, map: Any, src: Any, reduction: Choose | None) -> None:
        """A box from shared memory; elements outside the tensor are left out."""
        lanes = self._lanes()
        sources = self._address(src, lanes)
        columns = [self._flat(c, lanes) for c in _coordinates(map)]
        for fields, part in self._maps(map, lanes):
            boxes = Boxes(fields, [c[part] for c in columns], [])
            mine = Lanes(*(x[part] for x in (lanes.index, lanes.columns, lanes.positions)))
            owners, start = self._shared(mine.columns, sources[part])
            box = Receivers(np.arange(len(start)), owners, start, owners, start)
            if not (self._placed(boxes, store=True) and self._fits(box, boxes)):
                continue
            taken = np.zeros((len(start), boxes.count), boxes.dtype)

            def fetch(which: Which, boxes: Boxes = boxes, box: Receivers = box, taken: Array = taken) -> None:
                taken[which] = self._read(box.columns[which][:, None], boxes.shared(box.start[which]), boxes.dtype)

            def deliver(which: Which, boxes: Boxes = boxes, taken: Array = taken) -> None:
                steps = [which] if reduction is None else np.split(which, len(which))
                for some in steps:  # reductions one after the other: boxes may overlap
                    self._scatter(boxes, some, taken[some], reduction)

            self._start_store(mine, Footprint(owners, start, boxes.extent), fetch, deliver)

    def copy(
        self,
        dst: tuple[str, Any],
        src: tuple[str, Any],
        size: Any,
        bar: Any = None,
        mask: Any = None,
        reduction: Choose | None = None,
        type: ScalarType | None = None,
    ) -> None:
        """``size`` bytes from one space to another; with ``reduction`` elements of ``type`` are combined."""
        lanes = self._lanes()
        targets, sources, sizes = (self._address(a, lanes) for a in (dst[1], src[1], (size, 0)))
        masks = None if mask is None else self._flat(mask, lanes)
        bars = None if bar is None else self._address(bar, lanes)
        for n in np.unique(sizes).tolist():
            part = np.flatnonzero(sizes == n)
            mine = Lanes(*(x[part] for x in (lanes.index, lanes.columns, lanes.positions)))
            if n % 16 or ((targets[part] | sources[part]) & 15).any():
                self._fault("misaligned", f"a bulk copy of {n} bytes; addresses and size must be multiples of 16")
                continue
            if n:
                args = (mine, targets[part], sources[part], int(n))
                if dst[0] == "global":
                    self._to_global(*args, reduction, type)
                else:
                    assert bars is not None
                    self._to_shared(*args, src[0], bars[part], None if masks is None else masks[part], reduction, type)

    def _to_global(
        self, lanes: Lanes, targets: Array, sources: Array, n: int, reduction: Choose | None, type: Any
    ) -> None:
        owners, start = self._shared(lanes.columns, sources)
        taken = np.zeros((len(start), n), np.uint8)
        if not self._inside(start, n):
            return

        def fetch(which: Which) -> None:
            words = self._read(owners[which][:, None], start[which][:, None] + np.arange(0, n, 4), np.dtype("u4"))
            taken[which] = words.view(np.uint8)

        def deliver(which: Which) -> None:
            steps = [slice(None)] if reduction is None else [slice(k, k + 1) for k in range(len(which))]
            for some in steps:  # reductions one after the other: runs may overlap
                new = taken[which[some]]
                if reduction is not None:
                    new = combine(reduction, type, self._runs(targets[which[some]], n), new)
                self._put_runs(targets[which[some]], new)

        self._start_store(lanes, Footprint(owners, start, n), fetch, deliver)

    def _to_shared(
        self,
        lanes: Lanes,
        targets: Array,
        sources: Array,
        n: int,
        space: str,
        bars: Array,
        masks: Array | None,
        reduction: Choose | None,
        type: Any,
    ) -> None:
        to = self._receivers(lanes, targets, bars, masks)
        if not self._inside(to.start, n):
            return
        steps = np.arange(0, n, 4)
        reads = None
        if space == "shared":
            owners, start = self._shared(lanes.columns, sources)
            if not self._inside(start, n):
                return
            reads = Footprint(owners[to.lane], start[to.lane], n)

        def deliver(which: Which) -> None:
            where = to.start[which][:, None] + steps
            if reads is not None:
                words = self._read(reads.columns[which][:, None], reads.start[which][:, None] + steps, np.dtype("u4"))
            else:
                words = self._runs(sources[to.lane[which]], n).view(np.uint32)
            if reduction is None:
                self._write(to.columns[which][:, None], where, words)
                return
            for row in range(len(which)):
                column = to.columns[which[row : row + 1]][:, None]
                old = self._read(column, where[row : row + 1], np.dtype("u4"))
                new = combine(reduction, type, old.reshape(-1).view(np.uint8), words[row].view(np.uint8))
                self._write(column, where[row : row + 1], new.view(np.uint32).reshape(1, -1))

        self._start(lanes, to, n, deliver, reads)

    def remote(self, dst: Any, bar: Any, nbytes: int, act: Callable[[], None]) -> None:
        """``act`` changes ``nbytes`` of each lane at ``dst`` in the cluster's shared memory, through the memory port."""
        lanes = self._lanes()
        to = self._receivers(lanes, self._address(dst, lanes), self._address(bar, lanes), None)
        if self._inside(to.start, nbytes):
            self._start(lanes, to, nbytes, self.batch.async_groups.replay(lanes.index, act), asynchronous=False)

    # ---- starting ----------------------------------------------------------------------------

    def _start(
        self,
        lanes: Lanes,
        to: Receivers,
        nbytes: int,
        deliver: Callable[[Which], None],
        reads: Footprint | None = None,
        extent: int | None = None,
        asynchronous: bool = True,
    ) -> None:
        self.batch.objects.use_by_copies(to.bar_columns, to.bar)
        self.batch.transfers.start(
            Transfer(
                self.batch.memory.group,
                lanes.positions[to.lane],
                deliver,
                writes=Footprint(to.columns, to.start, extent or nbytes),
                reads=reads,
                asynchronous=asynchronous,
                signal=Signal(to.bar_columns, to.bar, np.array([nbytes])),
            )
        )

    def _start_store(
        self, lanes: Lanes, reads: Footprint, fetch: Callable[[Which], None], deliver: Callable[[Which], None]
    ) -> None:
        self.batch.transfers.start(
            Transfer(self.batch.memory.group, lanes.positions, deliver, fetch, reads=reads, kind=KIND)
        )

    def commit(self) -> None:
        """Close the group of the copies that complete by groups."""
        self.batch.transfers.commit(KIND)

    def wait(self, n: int, *, read_only: bool) -> None:
        """Wait for all but ``n`` groups of copies, or only until they have read their sources."""
        self.batch.transfers.wait(KIND, n, read_only=read_only)

    # ---- lanes and addresses -----------------------------------------------------------------

    def _lanes(self) -> Lanes:
        memory = self.batch.memory
        selection = memory.group.selection
        if memory.active is None:
            index = np.arange(selection.n)
        else:
            index = np.flatnonzero(np.broadcast_to(memory.active, selection.shape).reshape(-1))
        columns, threads = selection.ctas.reshape(-1)[index], selection.threads.reshape(-1)[index]
        order = np.lexsort((threads, columns))
        index = index[order]
        return Lanes(index, columns[order].astype(np.int64), selection.positions.reshape(-1)[index])

    def _flat(self, value: Any, lanes: Lanes) -> Array:
        shape = self.batch.memory.group.selection.shape
        array = as_array(value)
        if array.size == 1:
            return np.broadcast_to(array.reshape(-1), (len(lanes.index),))
        return np.broadcast_to(array.reshape(-1) if len(shape) == 1 else array, shape).reshape(-1)[lanes.index]

    def _address(self, address: Any, lanes: Lanes) -> Array:
        return self._flat(address[0], lanes).astype(np.int64) + address[1]

    def _shared(self, columns: Array, address: Array) -> tuple[Array, Array]:
        """Column and offset of shared (or generic) addresses of threads in ``columns``."""
        window = (address >= SHARED_WINDOW) & (address < SHARED_WINDOW + WINDOW)
        address = np.where(window, address - SHARED_WINDOW, address) & 0xFFFFFFFF
        rank = (address >> CLUSTER_SHIFT) - 1
        if (rank < 0).all():
            return columns, address
        return np.where(rank < 0, columns, self._peer(columns, np.maximum(rank, 0))), address & OFFSET

    def _peer(self, columns: Array, rank: Array) -> Array:
        found = self.batch.cluster_peer(columns, rank)
        if (found < 0).any():
            self._fault("out-of-bounds", f"rank {int(rank[found < 0][0])} is not in the cluster")
        return np.where(found < 0, columns, found)

    def _receivers(self, lanes: Lanes, targets: Array, bars: Array, masks: Array | None) -> Receivers:
        columns, start = self._shared(lanes.columns, targets)
        bar_columns, bar = self._shared(lanes.columns, bars)
        every = np.arange(len(start))
        if masks is None:
            return Receivers(every, columns, start, bar_columns, bar)
        lane, rank = np.nonzero(masks.astype(np.int64)[:, None] >> np.arange(16) & 1)
        peers = self._peer(lanes.columns[lane], rank)
        return Receivers(lane, peers, start[lane], peers, bar[lane])

    def _fault(self, rule: str, message: str, **more: object) -> None:
        self.batch.fault(rule, message, self.batch.memory.group, self.batch.memory.active, **more)

    def _inside(self, start: Array, nbytes: int) -> bool:
        size = self.batch.shared.size
        if len(start) and (int(start.min()) < 0 or int(start.max()) + nbytes > size):
            self._fault("out-of-bounds", f"a bulk copy of {nbytes} bytes leaves the {size} bytes of shared memory")
            return False
        return True

    def _placed(self, boxes: Boxes, store: bool = False) -> bool:
        """Whether boxes begin where a copy may begin in the tensor (read off an H200, which faults elsewhere)."""
        if store and any((c < 0).any() for c in boxes.coordinates):
            self._fault(
                "tensor-map", "a box is stored at a negative coordinate", advice="only loads may begin before 0"
            )
            return False
        wrong = boxes.misplaced()
        if wrong.any():
            first = int(boxes.coordinates[0][wrong][0])
            self._fault(
                "tensor-map",
                f"the innermost coordinate {first} is {first * boxes.fields.itemsize} bytes, no multiple of {ROW_UNIT}",
                advice="boxes begin at multiples of 16 bytes; other coordinates are free",
            )
        return not wrong.any()

    def _fits(self, to: Receivers, boxes: Boxes) -> bool:
        """Whether boxes lie in shared memory, and where the copy asks for them to lie."""
        odd = to.start % ALIGNMENT != 0
        if odd.any():
            self._fault(
                "tensor-map",
                f"a box at shared address 0x{int(to.start[odd][0]):x}, which is not a multiple of {ALIGNMENT}",
                advice="boxes in shared memory are aligned to 128 bytes",
            )
        size = self.batch.shared.size
        if len(to.start) and int(to.start.max()) + boxes.extent > size:
            self._fault("tensor-map", f"a box of {boxes.extent} bytes leaves the {size} bytes of shared memory")
            return False
        return True

    # ---- maps --------------------------------------------------------------------------------

    def _maps(self, map: Any, lanes: Lanes) -> list[tuple[tensor_map.Fields, Array]]:
        """The maps that the lanes use, each with its lanes."""
        addresses = self._address(map, lanes)
        found = []
        for address in np.unique(addresses).tolist():
            raw = self._map_bytes(int(lanes.columns[0]), address)
            fields = None if raw is None else tensor_map.decode(raw.tobytes())
            rank = len(_coordinates(map))
            problem = "no tensor map" if fields is None else tensor_map.problem(fields, rank)
            if address % 64:
                problem = "no multiple of 64, and so no tensor map,"
            if problem:
                self._fault("tensor-map", f"{problem} at address 0x{address:x}")
            if fields is not None and fields.rank == rank:
                found.append((fields, np.flatnonzero(addresses == address)))
        return found

    def _map_bytes(self, column: int, address: int) -> Array | None:
        if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW or LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW:
            return None
        return self._global(address, 128, False)

    # ---- memory ------------------------------------------------------------------------------

    def _global(self, address: int, nbytes: int, write: bool) -> Array | None:
        allocation = self.batch.memory.globals.find(address, address + nbytes)
        if allocation is None:
            self._fault("out-of-bounds", self.batch.memory.global_port.outside(address, nbytes), address=address)
            return None
        if write and allocation.read_only:
            self._fault("read-only", f"a bulk copy writes {allocation.name}, which is read-only", address=address)
            return None
        return allocation.data[address - allocation.start :][:nbytes]

    def _note(self, addresses: Array, nbytes: int, write: bool) -> None:
        if self.batch.memory.proxies is not None:
            self.batch.memory.proxies.bulk_globals(addresses, nbytes, write)

    def _runs(self, addresses: Array, nbytes: int) -> Array:
        """Bytes ``[runs, nbytes]`` of global memory, zero where a fault was reported."""
        self._note(addresses, nbytes, False)
        out = np.zeros((len(addresses), nbytes), np.uint8)
        for address in np.unique(addresses).tolist():
            raw = self._global(address, nbytes, False)
            if raw is not None:
                out[addresses == address] = raw
        return out

    def _put_runs(self, addresses: Array, values: Array) -> None:
        self._note(addresses, values.shape[-1], True)
        for address, row in zip(addresses.tolist(), values, strict=True):
            raw = self._global(address, len(row), True)
            if raw is not None:
                raw[:] = row

    def _gather(self, boxes: Boxes, lane: Array) -> Array:
        place, inside = boxes.elements(lane)
        out = np.full(place.shape, boxes.fields.fill, boxes.dtype)  # the fill is no value that a type would round
        kept = place[inside]
        if len(kept):
            low, high = int(kept.min()), int(kept.max()) + boxes.dtype.itemsize
            raw = self._global(boxes.fields.address + low, high - low, False)
            self._note(boxes.fields.address + kept, boxes.dtype.itemsize, False)
            if raw is not None:
                elements = raw[: raw.size // boxes.dtype.itemsize * boxes.dtype.itemsize].view(boxes.dtype)
                out[inside] = boxes.finished(elements[(kept - low) // boxes.dtype.itemsize])
        return out

    def _scatter(self, boxes: Boxes, lanes: Array, values: Array, reduction: Choose | None) -> None:
        place, inside = boxes.elements(lanes)
        place, values = place[inside], values[inside]
        if not len(place):
            return
        low, high = int(place.min()), int(place.max()) + boxes.dtype.itemsize
        raw = self._global(boxes.fields.address + low, high - low, True)
        if raw is None:
            return
        self._note(boxes.fields.address + place, boxes.dtype.itemsize, True)
        elements = raw.view(boxes.dtype)
        index = (place - low) // boxes.dtype.itemsize
        if reduction is not None:
            kind = boxes.fields.data_type
            flush = tensor_map.DATA_TYPES[kind].endswith("_FTZ")
            values = combine(reduction, BY_DATA_TYPE[kind], elements[index], values, flush)
        elements[index] = values

    def _read(self, columns: Array, address: Array, dtype: np.dtype[Any]) -> Array:
        return self.batch.shared.gather(address, columns, dtype)

    def _write(self, columns: Array, address: Array, values: Array) -> None:
        self.batch.shared.scatter(address, np.broadcast_to(columns, address.shape), values)


def _coordinates(address: Any) -> tuple[Any, ...]:
    """The coordinates of a tensor address."""
    found: list[Any] = []
    for part in address[2]:
        found += part if isinstance(part, tuple) else [part]
    return tuple(found)
