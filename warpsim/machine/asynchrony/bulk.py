"""Bulk copies: boxes of tensors and runs of bytes between global memory and the shared memories of a cluster.

All lanes of a step at once: arrays have one element for each active lane, in the order CTA, warp, lane, or for each
receiver of a lane (a multicast copy has several).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.isa.ports import Choose
from warpsim.layout import tensor_map
from warpsim.layout.boxes import Boxes
from warpsim.machine.asynchrony.bulk_reach import BulkReach, Lanes, Receivers, coordinates
from warpsim.machine.asynchrony.footprints import Footprint, GlobalTarget
from warpsim.machine.asynchrony.reductions import combine
from warpsim.machine.asynchrony.transfers import Signal, Transfer, Which
from warpsim.machine.values import Array
from warpsim.machine.window import ATOMIC, WRITE

if TYPE_CHECKING:
    from warpsim.types import ScalarType

KIND = "bulk"
LOADED_ONLY = tensor_map.DATA_TYPES.index("16U4_ALIGN16B")


class BulkCopies(BulkReach):
    """The port of a batch."""

    # ---- the port ----------------------------------------------------------------------------

    def tensor_load(self, dst: Any, map: Any, bar: Any, offsets: Any, mask: Any) -> None:
        """A box into shared memory; its bytes count at the mbarrier."""
        lanes = self.lanes()
        targets, bars = self.address(dst, lanes), self.address(bar, lanes)
        masks = None if mask is None else self.flat(mask, lanes)
        columns = [self.flat(c, lanes) for c in coordinates(map)]
        parts = () if offsets is None else offsets if isinstance(offsets, tuple) else (offsets,)
        extra = [self.flat(o, lanes) for o in parts]
        for fields, part in self.maps(map, lanes):
            boxes = Boxes(fields, [c[part] for c in columns], [o[part] for o in extra])
            mine = Lanes(*(x[part] for x in (lanes.index, lanes.columns, lanes.positions)))
            to = self.receivers(mine, targets[part], bars[part], None if masks is None else masks[part])
            if not (self.placed(boxes) and self.fits(to, boxes)):
                continue

            def deliver(which: Which, boxes: Boxes = boxes, to: Receivers = to) -> None:
                values = self.gather(boxes, to.lane[which])
                self.write(to.columns[which][:, None], boxes.shared(to.start[which]), values)

            span = tensor_map.SPANS[fields.swizzle]
            self._start(mine, to, boxes.nbytes, deliver, extent=boxes.extent, span=span)

    def tensor_store(self, map: Any, src: Any, reduction: Choose | None) -> None:
        """A box from shared memory; elements outside the tensor are left out."""
        lanes = self.lanes()
        sources = self.address(src, lanes)
        columns = [self.flat(c, lanes) for c in coordinates(map)]
        for fields, part in self.maps(map, lanes):
            if fields.data_type == LOADED_ONLY:
                self.fault("tensor-map", "boxes of 16U4_ALIGN16B are loaded, not stored")
                continue
            boxes = Boxes(fields, [c[part] for c in columns], [])
            mine = Lanes(*(x[part] for x in (lanes.index, lanes.columns, lanes.positions)))
            owners, start = self.shared(mine.columns, sources[part])
            box = Receivers(np.arange(len(start)), owners, start, owners, start)
            if not (self.reduces(fields, reduction) and self.placed(boxes, store=True) and self.fits(box, boxes)):
                continue
            taken = np.zeros((len(start), boxes.count), boxes.dtype)

            def fetch(which: Which, boxes: Boxes = boxes, box: Receivers = box, taken: Array = taken) -> None:
                taken[which] = self.read(box.columns[which][:, None], boxes.shared(box.start[which]), boxes.dtype)

            def deliver(which: Which, boxes: Boxes = boxes, taken: Array = taken) -> None:
                steps = [which] if reduction is None else np.split(which, len(which))
                for some in steps:  # reductions one after the other: boxes may overlap
                    self.scatter(boxes, some, taken[some], reduction)

            target = GlobalTarget(*boxes.span(), boxes.spread)
            reads = Footprint(owners, start, boxes.extent)
            self._start_store(mine, reads, fetch, deliver, target, reduction is not None)

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
        lanes = self.lanes()
        targets, sources, sizes = (self.address(a, lanes) for a in (dst[1], src[1], (size, 0)))
        masks = None if mask is None else self.flat(mask, lanes)
        bars = None if bar is None else self.address(bar, lanes)
        for n in np.unique(sizes).tolist():
            part = np.flatnonzero(sizes == n)
            mine = Lanes(*(x[part] for x in (lanes.index, lanes.columns, lanes.positions)))
            if n % 16 or ((targets[part] | sources[part]) & 15).any():
                self.fault("misaligned", f"a bulk copy of {n} bytes; addresses and size must be multiples of 16")
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
        owners, start = self.shared(lanes.columns, sources)
        if not self.inside(start, n):
            return
        taken = np.zeros((len(start), n), np.uint8)

        def fetch(which: Which) -> None:
            words = self.read(owners[which][:, None], start[which][:, None] + np.arange(0, n, 4), np.dtype("u4"))
            taken[which] = words.view(np.uint8)

        def deliver(which: Which) -> None:
            steps = [slice(None)] if reduction is None else [slice(k, k + 1) for k in range(len(which))]
            for some in steps:  # reductions one after the other: runs may overlap
                new = taken[which[some]]
                if reduction is not None:
                    new = combine(reduction, type, self.runs(targets[which[some]], n, combines=True), new)
                self.put_runs(targets[which[some]], new, WRITE if reduction is None else ATOMIC)

        target = GlobalTarget(
            int(targets.min()),
            int(targets.max()) + n,
            lambda: (
                (targets[:, None] + np.arange(0, n, 16)).reshape(-1),
                np.repeat(np.arange(len(targets)), n // 16),
                16,
            ),
        )
        self._start_store(lanes, Footprint(owners, start, n), fetch, deliver, target, reduction is not None)

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
        to = self.receivers(lanes, targets, bars, masks)
        if not self.inside(to.start, n):
            return
        steps = np.arange(0, n, 4)
        reads = None
        if space == "shared":
            owners, start = self.shared(lanes.columns, sources)
            if not self.inside(start, n):
                return
            reads = Footprint(owners[to.lane], start[to.lane], n)

        def deliver(which: Which) -> None:
            where = to.start[which][:, None] + steps
            if reads is not None:
                words = self.read(reads.columns[which][:, None], reads.start[which][:, None] + steps, np.dtype("u4"))
            else:
                words = self.runs(sources[to.lane[which]], n).view(np.uint32)
            if reduction is None:
                self.write(to.columns[which][:, None], where, words)
                return
            for row in range(len(which)):
                column = to.columns[which[row : row + 1]][:, None]
                old = self.read(column, where[row : row + 1], np.dtype("u4"))
                new = combine(reduction, type, old.reshape(-1).view(np.uint8), words[row].view(np.uint8))
                self.write(column, where[row : row + 1], new.view(np.uint32).reshape(1, -1))

        self._start(lanes, to, n, deliver, reads, reduces=reduction is not None)

    def remote(self, dst: Any, bar: Any, nbytes: int, act: Callable[[], None], *, reduces: bool = False) -> None:
        """``act`` changes ``nbytes`` of each lane at ``dst`` in the cluster's shared memory, through the memory port."""
        lanes = self.lanes()
        to = self.receivers(lanes, self.address(dst, lanes), self.address(bar, lanes), None)
        if self.inside(to.start, nbytes):
            deliver = self.machine.async_groups.replay(lanes.index, act)
            self._start(lanes, to, nbytes, deliver, asynchronous=False, reduces=reduces)

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
        span: int = 0,
        reduces: bool = False,
    ) -> None:
        self.machine.objects.use_by_copies(to.bar_columns, to.bar)
        if "proxy-fence" in self.machine.batch.notes:
            self.machine.tile_swizzles.copied(to.columns, to.start, extent or nbytes, span)
        self.machine.transfers.start(
            Transfer(
                self.machine.memory.group,
                lanes.positions[to.lane],
                deliver,
                writes=Footprint(to.columns, to.start, extent or nbytes),
                reads=reads,
                asynchronous=asynchronous,
                reduces=reduces,
                signal=Signal(to.bar_columns, to.bar, np.array([nbytes])),
            )
        )

    def _start_store(
        self,
        lanes: Lanes,
        reads: Footprint,
        fetch: Callable[[Which], None],
        deliver: Callable[[Which], None],
        target: GlobalTarget,
        reduces: bool,
    ) -> None:
        group = self.machine.memory.group
        self.machine.transfers.start(
            Transfer(group, lanes.positions, deliver, fetch, reads=reads, kind=KIND, target=target, reduces=reduces)
        )

    def commit(self) -> None:
        """Close the group of the copies that complete by groups."""
        self.machine.transfers.commit(KIND)

    def wait(self, n: int, *, read_only: bool) -> None:
        """Wait for all but ``n`` groups of copies, or only until they have read their sources."""
        self.machine.transfers.wait(KIND, n, read_only=read_only)
