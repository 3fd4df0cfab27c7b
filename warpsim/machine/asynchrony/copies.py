"""The ports of asynchronous copies: cp.async, bulk copies and fences for tensor maps."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from warpsim.isa.ports import Choose
from warpsim.layout import tensor_map
from warpsim.layout.boxes import Boxes
from warpsim.machine.asynchrony import transfers
from warpsim.machine.asynchrony.bulk_reach import KEPT, BulkReach, Lanes, coordinates
from warpsim.machine.asynchrony.mbarrier_objects import use_by_copies
from warpsim.machine.asynchrony.transfers import BULK, CP_ASYNC, copy_threads
from warpsim.machine.machine import Machine
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address, Coordinate
from warpsim.machine.memory.port import leave
from warpsim.machine.memory.word_access import locate
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import (
    BoxLoad,
    BoxStore,
    Footprint,
    GlobalTarget,
    Receivers,
    RemoteStore,
    RunLoad,
    RunStore,
    Signal,
    ThreadCopy,
    Tile,
    Transfer,
    Which,
    Work,
)
from warpsim.machine.values import Affine, Array, Value, as_array
from warpsim.numerics.arrays import distinct
from warpsim.types import ScalarType


class AsyncGroups:
    """The groups of ``cp.async`` copies of each thread of a group."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        self.machine, self.group, self.active = machine, group, active

    def copy(self, dst: Address, src: Address, nbytes: int, take: Array | None) -> None:
        """Copy ``nbytes`` per active lane to shared memory, of which ``take`` are read."""
        machine, group = self.machine, self.group
        take = None if take is None else self._within(take, nbytes)
        memory = Memory(machine, group, self.active)
        if not transfers.kept(machine):
            copy_threads(memory, dst, src, nbytes, take)
            return
        place, _, columns, _, active = locate(memory, "shared", dst, nbytes)
        if src.within is not None:
            leave(memory, src.within, src.places, nbytes, self.active)
        dst, src = dst.anywhere, src.anywhere  # reported here, not where the copy takes effect
        shape = group.selection.shape
        lanes = (
            np.arange(group.selection.n)
            if active is None
            else np.flatnonzero(np.broadcast_to(active, shape).reshape(-1))
        )
        if not len(lanes):
            return
        starts = np.broadcast_to(np.asarray(place, np.int64), shape).reshape(-1)[lanes]
        owners = np.broadcast_to(columns, shape).reshape(-1)[lanes]
        transfer = Transfer(
            group,
            group.selection.positions.reshape(-1)[lanes],
            ThreadCopy(lanes, dst, src, nbytes, take),
            writes=Footprint(owners, starts, nbytes),
            kind=CP_ASYNC,
            asynchronous=False,
        )
        transfers.start(machine, group, self.active, transfer)

    def _within(self, take: Array, nbytes: int) -> Array:
        """At most ``nbytes`` to read; more are reported."""
        above = np.broadcast_to(take > nbytes, self.group.selection.shape)
        if self.active is not None:
            above = above & self.active
        if above.any():
            self.machine.fault(
                "out-of-bounds",
                f"src-size is {int(np.broadcast_to(take, above.shape)[above][0])} in a copy of {nbytes} bytes",
                self.group,
                above,
                advice="src-size is at most cp-size, the number of bytes that are written",
            )
        return np.minimum(take, np.uint32(nbytes))

    def commit(self) -> None:
        """Commit the current group."""
        transfers.commit(self.machine, self.group, self.active, CP_ASYNC)

    def wait(self, n: int, *, everything: bool = False) -> None:
        """Wait until at most ``n`` groups are pending; with ``everything``, also for copies outside groups."""
        transfers.wait(self.machine, self.group, self.active, CP_ASYNC, n, everything=everything)

    def arrive(self, columns: Array, address: Array) -> None:
        """Arrive at the active lanes' mbarriers when all earlier copies of the thread are complete."""
        signal = Signal(columns, address, np.zeros(1, np.int64), arrivals=1)
        lanes = self.group.lanes(self.active)
        transfers.start(
            self.machine, self.group, self.active, Transfer(self.group, lanes, None, signal=signal, after=CP_ASYNC)
        )


HALOS = {"im2col::w": 512, "im2col::w::128": 32}
"""What wHalo is below, by mode."""
MOST_BOXES = 1 << 14
"""So many boxes of a map are kept."""
LOADED_ONLY = tensor_map.DATA_TYPES.index("16U4_ALIGN16B")


class BulkCopies(BulkReach):
    """The port of a group."""

    # ---- the port ----------------------------------------------------------------------------

    def tensor_load(
        self,
        dst: Address,
        map: Address,
        bar: Address,
        offsets: Coordinate | None,
        mask: Value | None,
        mode: str = "tile",
        cta_group: int = 0,
        *,
        own: bool = False,
    ) -> None:
        """Copy a box to shared memory (its ``own``: that of the thread's CTA), and count its bytes at the mbarrier."""
        lanes = self.lanes()
        one = self.receivers_at(lanes, dst, bar) if mask is None else None
        if one is not None and offsets is None and self._loads_tile(lanes, one, map, mode):
            return
        columns = [self.flat(c, lanes) for c in coordinates(map)]
        parts = () if offsets is None else offsets if isinstance(offsets, tuple) else (offsets,)
        extra = [self.flat(o, lanes) for o in parts]
        for fields, part, halo in self._shapes(map, lanes, mode, extra):
            given = [o[part] for o in extra[1 if fields.wide else 0 :]]
            boxes = Boxes(fields, [c[part] for c in columns], given, units=True, mode=mode, halo=halo)
            mine = lanes.some(part)
            if one is not None and mine is lanes:
                to = one
            else:
                targets, bars = (self.address(a, lanes)[part] for a in (dst, bar))
                masks = None if mask is None else self.flat(mask, lanes)[part]
                to = self.receivers(mine, targets, bars, masks, cta_group, own=own)
            if not (self.loads(fields) and self.placed(boxes) and self.fits(to, boxes)):
                continue
            self._start(mine, BoxLoad(boxes, to), to, boxes.nbytes, extent=boxes.extent)

    def _loads_tile(self, lanes: Lanes, to: Receivers, map: Address, mode: str) -> bool:
        """Start the copies if they are what most are."""
        found = self._inside(lanes, to, map, mode)
        if found is None:
            return False
        tile, boxes = found
        words = use_by_copies(self.machine, self.group, self.active, tile.signal)
        work, positions = BoxLoad(boxes, to), lanes.positions
        transfer = Transfer(self.group, positions, work, tile.writes, signal=tile.signal, words=words)
        transfers.start(self.machine, self.group, self.active, transfer)
        return True

    def _inside(
        self, lanes: Lanes, to: Receivers, map: Address, mode: str, *, store: bool = False
    ) -> tuple[Tile, Boxes] | None:
        """Boxes inside the tensor of one plain tiled map that cannot change, which most copies move; None of others."""
        at, given = self.alike(map), map.coordinates[0]
        if at is None or type(given) is not tuple:
            return None
        rank = len(given)
        known = self.machine.maps.get((at, rank, mode))
        if known is None or mode != "tile" or (store and known.fields.swizzle == tensor_map.FLIPPED):
            return None
        tile = known.tiles.get(to)
        if tile is None:
            tile = to.tile(known.fields, self.machine.batch.shared.size)
            if tile is None:
                return None
            if len(known.tiles) >= KEPT:
                known.tiles.clear()
            known.tiles[to] = tile
        boxes = self._boxes(lanes, tile, given, known.boxes)
        if boxes is not None and self.machine.hooks.map_used is not None:
            self.use_map(lanes, at, lasting=True)
        return None if boxes is None else (tile, boxes)

    def _boxes(self, lanes: Lanes, tile: Tile, given: tuple[Value, ...], known: dict[Hashable, Boxes]) -> Boxes | None:
        """Boxes at these coordinates, if they lie inside the tensor."""
        named: tuple[Hashable, ...] = (lanes,)
        for value in given:
            if type(value) is Affine:
                named += value.base, value.strides, value.extents
            else:
                array = as_array(value) if type(value) is not np.ndarray else value
                named += array.shape, array.tobytes()
        found = known.get(named)
        if found is None:
            corners = np.empty((tile.form.fields.rank, lanes.index.size), np.int64)
            for axis, value in enumerate(given):
                corners[axis] = self.flat(value, lanes)
            found = Boxes.inside_tensor(tile.form, corners << 32 >> 32)
            if found is not None:
                if len(known) * lanes.index.size >= MOST_BOXES:
                    known.clear()
                known[named] = found
        return found

    def _shapes(
        self, map: Address, lanes: Lanes, mode: str, extra: list[Array]
    ) -> Iterator[tuple[tensor_map.Fields, Which | slice, int]]:
        """The maps that the lanes use, each with its lanes and their halo."""
        for fields, part in self.maps(map, lanes, mode):
            if not fields.wide:
                yield fields, part, 0
                continue
            halos, offsets = (each[part].astype(np.int64) & 0xFFFF for each in extra)
            for what, values, end in ("wHalo", halos, HALOS[mode]), ("wOffset", offsets, 32):
                if (values >= end).any():
                    self.refuse(f"{what} is {int(values.max())}", advice=f"{what} is below {end} in mode .{mode}")
            for halo in distinct(halos[(halos < HALOS[mode]) & (offsets < 32)]).tolist():
                yield fields, np.arange(len(lanes.index))[part][halos == halo], halo

    def tensor_store(self, map: Address, src: Address, reduction: Choose | None, mode: str = "tile") -> None:
        """Copy a box from shared memory; elements outside the tensor are not stored, unless they share 16 bytes with some
        inside.
        """
        lanes = self.lanes()
        to = self.receivers_at(lanes, src, src) if reduction is None else None
        found = None if to is None else self._inside(lanes, to, map, mode, store=True)
        if found is not None:
            self._start_boxes(lanes, found[1], found[0].writes, None)
            return
        sources = self.address(src, lanes)
        columns = [self.flat(c, lanes) for c in coordinates(map)]
        for fields, part in self.maps(map, lanes, mode):
            if fields.data_type == LOADED_ONLY or fields.swizzle == tensor_map.FLIPPED:
                what = "a swizzle of 128B_ATOM_32B_FLIP_8B" if fields.swizzle == tensor_map.FLIPPED else "16U4_ALIGN16B"
                self.refuse(f"boxes of {what} are loaded, not stored")
                continue
            memory = self.machine.launch.memory.find(fields.address, fields.address + 1)
            end = 0 if memory is None else memory.end
            corner = [c[part] for c in columns]
            boxes = Boxes(fields, corner, [], units=reduction is None, stored_below=end, mode=mode)
            mine = lanes.some(part)
            owners, start = self.own(mine, sources[part])
            box = Receivers(np.arange(len(start)), owners, start, owners, start)
            if not (self.reduces(fields, reduction) and self.placed(boxes, store=True) and self.fits(box, boxes)):
                continue
            self._start_boxes(mine, boxes, box.footprint(boxes.extent), reduction)

    def _start_boxes(self, lanes: Lanes, boxes: Boxes, source: Footprint, reduction: Choose | None) -> None:
        work = BoxStore(boxes, source, np.zeros((lanes.index.size, boxes.count), boxes.dtype), reduction)
        self._start_store(lanes, work, source, GlobalTarget.of_boxes(boxes), reduces=reduction is not None)
        notify = self.machine.hooks.boxes_beyond
        if notify is not None and boxes.beyond:
            notify(self.machine, self.group, boxes, lanes.positions)

    def copy(
        self,
        dst: tuple[str, Address],
        src: tuple[str, Address],
        size: Value,
        bar: Address | None = None,
        mask: Value | None = None,
        reduction: Choose | None = None,
        type: ScalarType | None = None,
        bytes: Value | None = None,
        ignored: tuple[Value, Value] | None = None,
    ) -> None:
        """Copy ``size`` bytes from one space to another; with ``reduction``, combine elements of ``type``. ``bytes``: only those
        of every 16 whose bit is set. ``ignored``: how many at either end may be outside."""
        lanes = self.lanes()
        targets, sources, sizes = (self.address(a, lanes) for a in (dst[1], src[1], Address(size)))
        masks, kept = (None if each is None else self.flat(each, lanes) for each in (mask, bytes))
        bars = None if bar is None else self.address(bar, lanes)
        ends = None if ignored is None else np.stack([self.flat(each, lanes) for each in ignored])
        if ends is not None and (ends > 15).any():
            self.fault(
                "out-of-bounds", f".ignore_oob ignores {int(ends.max())} bytes at one end; at most 15 are ignored"
            )
            return
        for n in distinct(sizes).tolist():
            part = np.flatnonzero(sizes == n)
            mine = lanes.some(part)
            wrong = (n | targets[part] | sources[part]) & 15 != 0
            if wrong.any():
                to, of = (int(each[part][wrong][0]) for each in (targets, sources))
                message = (
                    f"a bulk copy of {n} bytes from 0x{of:x} to 0x{to:x}; addresses and size must be multiples of 16"
                )
                self.fault("misaligned", message, advice="see the operands of cp.async.bulk")
                continue
            if n:
                args = (mine, targets[part], sources[part], int(n))
                if dst[0] == "global":
                    self._to_global(*args, reduction, type, None if kept is None else kept[part])
                else:
                    assert bars is not None
                    mine_masks, mine_ends = (None if each is None else each[..., part] for each in (masks, ends))
                    places = dst[0], src[0]
                    self._to_shared(*args, places, bars[part], mine_masks, reduction, type, mine_ends)

    def _to_global(
        self,
        lanes: Lanes,
        targets: Array,
        sources: Array,
        n: int,
        reduction: Choose | None,
        type: ScalarType | None,
        kept: Array | None,
    ) -> None:
        owners, start = self.own(lanes, sources)
        if not self.inside(start, n):
            return
        source = Footprint(owners, start, n)
        mask = None if kept is None else np.tile(kept.astype(np.int64)[:, None] >> np.arange(16) & 1 == 1, n // 16)
        work = RunStore(targets, source, np.zeros((len(start), n), np.uint8), reduction, type, mask)
        target = GlobalTarget.of_runs(targets, n, mask)
        self._start_store(lanes, work, source, target, reduces=reduction is not None)

    def _to_shared(
        self,
        lanes: Lanes,
        targets: Array,
        sources: Array,
        n: int,
        places: tuple[str, str],
        bars: Array,
        masks: Array | None,
        reduction: Choose | None,
        type: ScalarType | None,
        ignored: Array | None,
    ) -> None:
        to = self.receivers(lanes, targets, bars, masks, own=places[0] == "shared")
        if not self.inside(to.start, n):
            return
        reads = None
        if places[1] == "shared":
            owners, start = self.own(lanes, sources)
            if not self.inside(start, n):
                return
            reads = Footprint(owners[to.lane], start[to.lane], n)

        work = RunLoad(to, n, sources, reads, reduction, type, ignored)
        self._start(lanes, work, to, n, reads, reduces=reduction is not None)

    def remote(
        self, dst: Address, bar: Address, type: ScalarType, values: tuple[Array, ...], operation: str | None = None
    ) -> None:
        """Store each lane's values at ``dst`` in the cluster's shared memory, or combine them with its contents."""
        lanes, nbytes = self.lanes(), type.bytes * len(values)
        to = self.receivers(lanes, self.address(dst, lanes), self.address(bar, lanes), None)
        if (to.columns != to.bar_columns).any():
            message = "the mbarrier that counts the bytes is in another CTA than their destination"
            advice = "name the mbarrier of the destination's CTA (mapa with its rank)"
            self.fault("out-of-bounds", message, advice=advice)
        if self.inside(to.start, nbytes):
            work = RemoteStore(dst, type, values, operation)
            self._start(lanes, work, to, nbytes, asynchronous=False, reduces=operation is not None)

    # ---- starting ----------------------------------------------------------------------------

    def _start(
        self,
        lanes: Lanes,
        work: Work,
        to: Receivers,
        nbytes: int,
        reads: Footprint | None = None,
        extent: int | None = None,
        *,
        asynchronous: bool = True,
        reduces: bool = False,
    ) -> None:
        signal = to.signal(nbytes)
        words = use_by_copies(self.machine, self.group, self.active, signal)
        transfer = Transfer(
            self.group,
            lanes.positions[to.lane],
            work,
            writes=to.footprint(extent or nbytes),
            reads=reads,
            asynchronous=asynchronous,
            reduces=reduces,
            signal=signal,
            words=words,
        )
        transfers.start(self.machine, self.group, self.active, transfer)

    def _start_store(self, lanes: Lanes, work: Work, reads: Footprint, target: GlobalTarget, *, reduces: bool) -> None:
        transfer = Transfer(self.group, lanes.positions, work, reads=reads, kind=BULK, target=target, reduces=reduces)
        transfers.start(self.machine, self.group, self.active, transfer)

    def commit(self) -> None:
        """Commit the group of copies that complete by groups."""
        transfers.commit(self.machine, self.group, self.active, BULK)

    def wait(self, n: int, *, read_only: bool) -> None:
        """Wait for all but ``n`` groups of copies, or only until they have read their sources."""
        transfers.wait(self.machine, self.group, self.active, BULK, n, read_only=read_only)


class TensorMapFences(BulkReach):
    """The port of a group. Maps are always coherent here; fences are only reported."""

    def release(self) -> None:
        """Release the threads' changes of maps."""
        notify = self.machine.hooks.map_changed
        if notify is not None:
            notify(self.machine, self.group, self.group.lanes(self.active))

    def acquire(self, map: Address) -> None:
        """Acquire the maps at these addresses."""
        notify = self.machine.hooks.map_acquired
        if notify is not None:
            lanes = self.lanes()
            notify(self.machine, self.group, self.address(map, lanes), lanes.columns)
