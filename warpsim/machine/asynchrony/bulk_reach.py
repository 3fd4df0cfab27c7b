"""What bulk copies need from a batch: lanes, cluster addresses, tensor maps, reductions, and memory as boxes and runs."""

from __future__ import annotations

from functools import lru_cache

import attrs
import numpy as np

from warpsim.isa.ports import Choose
from warpsim.layout import tensor_map
from warpsim.layout.boxes import Boxes, TileWords
from warpsim.layout.tensor_map import GATHER4, PADDED_BOX, ROW_UNIT, SCATTER4
from warpsim.machine.hooks import ATOMIC, READ, WRITE, BoxProblem
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import CLUSTER_SHIFT, Address, first_rank, outside_global
from warpsim.machine.memory.port import shared_advice
from warpsim.machine.selection import Selection
from warpsim.machine.specials import ranks_of
from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.transfers import ALIGNMENT, BoxStore, Footprint, LastingMap, Receivers, Which
from warpsim.machine.values import FLAT, Affine, Array, DType, Value, as_array, spread
from warpsim.numerics.arrays import distinct
from warpsim.records import frozen
from warpsim.types import TYPES, ScalarType

BY_DATA_TYPE = tuple(
    TYPES[name] for name in ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32", "f32", "f32")
)
"""In the order of `tensor_map.DATA_TYPES`."""


def combine(choose: Choose, type: ScalarType, old: Array, new: Array, *, flush: bool = False) -> Array:
    """Combine old and new elements, given as bits of any integer dtype not wider than the type."""
    update = choose(type, flush=flush)
    assert update is not None, "the port refuses reductions that do not exist"
    result = update(*(np.ascontiguousarray(x).view(type.dtype) for x in (old, new)))
    return np.ascontiguousarray(result.astype(type.dtype)).view(old.dtype).reshape(old.shape)


U32 = np.dtype(np.uint32)
COUPLE = 2
"""So few boxes are written one by one: NumPy takes longest where the last axis is shortest."""
SEVERAL = 32
"""Boxes among which those that are alike are looked for."""
KEPT = 32
"""Selections whose lanes are kept, and places that these copy to."""
OFFSET = (1 << CLUSTER_SHIFT) - 1


@frozen(eq=False)
class Lanes:
    """The active lanes of a step: position in the group, CTA column, and flat position in the batch. Loops ask again for the
    ``receivers`` of copies that all of them make to one place."""

    index: Array
    columns: Array
    positions: Array
    receivers: dict[tuple[int, int], Receivers] = attrs.field(init=False, factory=dict)

    def some(self, which: Which | slice) -> Lanes:
        """Some of the lanes."""
        if isinstance(which, slice):
            return self
        return Lanes(self.index[which], self.columns[which], self.positions[which])


@lru_cache(maxsize=KEPT)
def _lanes(selection: Selection, active: bytes | None) -> Lanes:
    """The lanes of a selection that are ``active``, in the order CTA, warp, lane."""
    index, columns, positions = selection.listed
    if active is None:
        return Lanes(index, columns, positions)
    chosen = np.frombuffer(active, np.bool_)[index]
    return Lanes(index[chosen], columns[chosen], positions[chosen])


class BulkReach:
    """The part of the port that accesses lanes and memory."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        self.machine, self.group, self.active = machine, group, active

    # ---- lanes and addresses -----------------------------------------------------------------

    def lanes(self) -> Lanes:
        """The active lanes of the step, in the order CTA, warp, lane."""
        selection, active = self.group.selection, self.active
        return _lanes(selection, None if active is None else spread(active, selection.shape).tobytes())

    def flat(self, value: Value, lanes: Lanes) -> Array:
        """An operand's value in each of the lanes."""
        array = value if type(value) is np.ndarray else as_array(value)
        if array.size == 1:
            return array.reshape(-1).repeat(lanes.index.size)
        shape = self.group.selection.shape
        if array.shape == shape:
            return array.reshape(-1)[lanes.index]
        return spread(array.reshape(-1) if len(shape) == 1 else array, shape).reshape(-1)[lanes.index]

    def alike(self, address: Address) -> int | None:
        """The address that all lanes have; None if they differ."""
        base = address.base
        if type(base) is Affine:
            return base.base + address.offset if base.strides == FLAT else None
        array = as_array(base)
        first: int = array.item(0)
        return first + address.offset if array.size == 1 or (array == first).all() else None

    def address(self, address: Address, lanes: Lanes) -> Array:
        """The address of each of the lanes, int64."""
        return self.flat(address.base, lanes).astype(np.int64) + address.offset

    def shared(self, columns: Array, address: Array) -> tuple[Array, Array]:
        """Column and offset of shared (or generic) addresses of threads in ``columns``."""
        window = (address >= SHARED_WINDOW) & (address < SHARED_WINDOW + WINDOW)
        address = np.where(window, address - SHARED_WINDOW, address) & 0xFFFFFFFF
        there = address >> CLUSTER_SHIFT
        if not there.any():
            return columns, address
        rank = np.maximum(there - first_rank(self.machine.launch.cluster), 0)
        return np.where(there == 0, columns, self.peer(columns, rank)), address & OFFSET

    def own(self, lanes: Lanes, address: Array) -> tuple[Array, Array]:
        """The same of addresses in .shared::cta: the CTA's own, others are reported."""
        columns, start = self.shared(lanes.columns, address)
        if columns is not lanes.columns and (columns != lanes.columns).any():
            message = "a bulk copy names the shared memory of another CTA as .shared::cta"
            self.fault(
                "out-of-bounds", message, advice="name an address of the own CTA; only .shared::cluster reaches others"
            )
        return columns, start

    def peer(self, columns: Array, rank: Array) -> Array:
        """The columns of the CTAs with a rank in the clusters of ``columns``; ``columns`` itself where there is none
        (reported).
        """
        found = self.machine.cluster_peer(columns, rank)
        if (found < 0).any():
            message = f"rank {int(rank[found < 0][0])} is not in the cluster"
            advice = "ranks in a mask of CTAs, and those given to mapa, are below %cluster_nctarank"
            self.fault("out-of-bounds", message, advice=advice, cluster=self.machine.launch.cluster)
        return np.where(found < 0, columns, found)

    def receivers_at(self, lanes: Lanes, target: Address, bar: Address) -> Receivers | None:
        """The receivers of copies to one place of each lane's CTA; None if that is not what they are."""
        one, two = target.base, bar.base
        if type(one) is Affine and type(two) is Affine and one.strides == FLAT == two.strides:
            start: int | None = one.base + target.offset
            signal: int | None = two.base + bar.offset
        else:
            start, signal = self.alike(target), self.alike(bar)
        if start is None or signal is None:
            return None
        found = lanes.receivers.get((start, signal))
        if found is None:
            own = [a - SHARED_WINDOW if a >= SHARED_WINDOW else a for a in (start, signal)]
            if not all(0 <= a <= OFFSET for a in own):
                return None
            if len(lanes.receivers) >= KEPT:
                lanes.receivers.clear()
            every, (starts, bars) = np.arange(len(lanes.index)), (np.full(len(lanes.index), a, np.int64) for a in own)
            found = Receivers(every, lanes.columns, starts, lanes.columns, bars)
            lanes.receivers[start, signal] = found
        return found

    def receivers(
        self,
        lanes: Lanes,
        targets: Array,
        bars: Array,
        masks: Array | None,
        cta_group: int = 0,
        *,
        own: bool = False,
    ) -> Receivers:
        """The receivers of copies to shared memory; with ``masks``, every CTA whose bit is set, at the same offsets. Each has its
        own mbarrier; with ``cta_group`` 2, those of each pair have that of the even or of the odd one. ``own``: only the thread's
        CTA may receive."""
        columns, start = self.own(lanes, targets) if own else self.shared(lanes.columns, targets)
        bar_columns, bar = self.shared(lanes.columns, bars)
        every = np.arange(len(start))
        if masks is None:
            self._paired(columns, bar_columns, cta_group)
            return Receivers(every, columns, start, bar_columns, bar)
        lane, rank = np.nonzero(masks.astype(np.int64)[:, None] >> np.arange(16) & 1)
        peers = self.peer(lanes.columns[lane], rank)
        signalled = peers
        if cta_group == 2:
            parity = ranks_of(self.machine.launch, self.machine.batch)[bar_columns] & 1
            signalled = self.peer(lanes.columns[lane], rank & ~1 | parity[lane])
        return Receivers(lane, peers, start[lane], signalled, bar[lane])

    def _paired(self, columns: Array, bar_columns: Array, cta_group: int) -> None:
        """Check that the mbarriers of copies with ``.cta_group`` are where it says."""
        if not cta_group or (columns == bar_columns).all():
            return
        ranks = ranks_of(self.machine.launch, self.machine.batch)
        rank, bar_rank = ranks[columns], ranks[bar_columns]
        wrong = rank >> cta_group - 1 != bar_rank >> cta_group - 1
        if wrong.any():
            where = "the same CTA" if cta_group == 1 else "the same CTA pair"
            self.refuse(
                f"a copy with .cta_group::{cta_group} to CTA {int(rank[wrong][0])} of the cluster signals an mbarrier of CTA"
                f" {int(bar_rank[wrong][0])}",
                advice=f"the mbarrier of .cta_group::{cta_group} is in {where} as the destination",
            )

    def fault(self, rule: str, message: str, **more: object) -> None:
        """Report a fault at the current step."""
        self.machine.fault(rule, message, self.group, self.active, **more)

    def refuse(self, message: str, advice: str = "", address: int | None = None) -> None:
        """Report why boxes cannot be copied."""
        notify = self.machine.hooks.boxes_refused
        if notify is not None:
            notify(self.machine, self.group, BoxProblem(message, advice, address), self.active)

    def inside(self, start: Array, nbytes: int) -> bool:
        """Whether runs are inside shared memory (reported if not)."""
        size = self.machine.batch.shared.size
        if len(start) and (int(start.min()) < 0 or int(start.max()) + nbytes > size):
            self.fault(
                "out-of-bounds",
                f"a bulk copy of {nbytes} bytes leaves the {size} bytes of shared memory",
                advice=shared_advice(self.machine.launch),
            )
            return False
        return True

    def placed(self, boxes: Boxes, *, store: bool = False) -> bool:
        """Whether boxes begin where a copy may begin in the tensor (observed on an H200, which faults elsewhere)."""
        if store and boxes.loaded_only:
            self.refuse(
                "a box is stored through an im2col map whose bounding box leaves the tensor",
                advice="only loads may use corners that leave it",
            )
            return False
        if store and (boxes.coordinates < 0).any():
            self.refuse("a box is stored at a negative coordinate", advice="only loads may begin before 0")
            return False
        for axis, wrong in boxes.outside() if boxes.fields.im2col else ():
            at = int(boxes.coordinates[axis][wrong][0])
            self.refuse(
                f"coordinate {at} of dimension {axis} is outside the bounding box of the im2col map",
                advice="boxes begin inside the bounding box; the offsets move them beyond",
            )
            return False
        if boxes.misplaced:
            first = int(boxes.coordinates[0][boxes.displaced][0])
            self.refuse(
                f"the innermost coordinate {first} is {first * boxes.fields.itemsize} bytes, not a multiple of {ROW_UNIT}"
                if not boxes.fields.packed
                else f"the innermost coordinate is not a multiple of {PADDED_BOX if boxes.fields.padded else 32} packed elements",
                advice="boxes must begin at multiples of 16 bytes; other coordinates are free",
            )
        return not boxes.misplaced

    def loads(self, fields: tensor_map.Fields) -> bool:
        """Whether a load can round what a map names."""
        name = tensor_map.DATA_TYPES[fields.data_type]
        if fields.rounds and "FLOAT32" not in name:
            self.refuse(
                f"a map that rounds loads to tf32 names elements of {name}",
                advice="tensormap.replace cannot take TFLOAT32 back: make the map for another type",
            )
            return False
        return True

    def reduces(self, fields: tensor_map.Fields, reduction: Choose | None) -> bool:
        """Whether a reduction exists for the elements of a map."""
        if reduction is None or (
            not fields.packed and reduction(BY_DATA_TYPE[fields.data_type], flush=False) is not None
        ):
            return True
        name = tensor_map.DATA_TYPES[fields.data_type]
        self.refuse(
            f"the reduction does not exist for elements of {name}",
            advice="see the operations of cp.reduce.async.bulk and their types",
        )
        return False

    def fits(self, to: Receivers, boxes: Boxes) -> bool:
        """Whether boxes fit in shared memory and are aligned there."""
        footprint = to.footprint(boxes.extent)
        if footprint.at is None:
            odd = to.start[to.start % ALIGNMENT != 0]
        else:
            odd = to.start if footprint.at % ALIGNMENT else to.start[:0]
        if len(odd):
            self.refuse(
                f"a box at shared address 0x{int(odd[0]):x}, which is not a multiple of {ALIGNMENT}",
                advice="boxes in shared memory are aligned to 128 bytes",
            )
        size = self.machine.batch.shared.size
        if len(to.start) and footprint.high > size:
            self.refuse(
                f"a box of {boxes.extent} bytes at shared address 0x{int(to.start.max()):x} leaves the {size} bytes of the CTA",
                advice="reserve room for the whole box: elements outside the tensor are filled in too",
            )
            return False
        return True

    # ---- maps --------------------------------------------------------------------------------

    def maps(self, map: Address, lanes: Lanes, mode: str) -> list[tuple[tensor_map.Fields, Which | slice]]:
        """The maps that the lanes use, each with its lanes. Maps with the same bytes count as one, wherever they are:
        kernels that make their own have one per CTA.
        """
        rank = 2 if mode in (GATHER4, SCATTER4) else len(coordinates(map))
        one = self.alike(map)
        if one is not None:
            fields = self._map(one, rank, mode)
            if fields is None:
                return []
            self.use_map(lanes, one, lasting=(one, rank, mode) in self.machine.maps)
            return [(fields, slice(None))]
        addresses = self.address(map, lanes)
        places, where = np.unique(addresses, return_inverse=True)
        kind = np.full(len(places), -1)
        found: dict[tensor_map.Fields, int] = {}
        for number, address in enumerate(places.tolist()):
            fields = self._map(address, rank, mode)
            if fields is not None:
                kind[number] = found.setdefault(fields, len(found))
        used, hooks = kind[where], self.machine.hooks
        for notify in (hooks.map_used, hooks.changing_map_used):
            if notify is not None and found:
                notify(self.machine, self.group, addresses[used >= 0], lanes.columns[used >= 0], self.active)
        return [(fields, np.flatnonzero(used == number)) for fields, number in found.items()]

    def use_map(self, lanes: Lanes, address: int, *, lasting: bool) -> None:
        """Report that copies of all lanes use the map at one address; ``lasting``: one that cannot change."""
        hooks = self.machine.hooks
        for notify in (hooks.map_used, None if lasting else hooks.changing_map_used):
            if notify is not None:
                notify(self.machine, self.group, np.full(len(lanes.index), address), lanes.columns, self.active)

    def _map(self, address: int, rank: int, mode: str) -> tensor_map.Fields | None:
        """The map at an address; None if copies of ``rank`` dimensions in a mode cannot use it (reported)."""
        known = self.machine.maps.get((address, rank, mode))
        if known is not None:
            return known.fields
        raw, problem, fields = self.map_bytes(address), "no tensor map", None
        if raw is not None:
            fields, problem = _decoded(raw, rank, mode, self.machine.launch.device.sm)
        if address % 64:
            problem = "a tensor map that is not aligned to 64 bytes"
        if not problem:
            memory = self.machine.launch.memory.find(address, address + 1)
            if fields is not None and memory is not None and memory.read_only:
                self.machine.maps[address, rank, mode] = LastingMap(fields)
            return fields
        self.refuse(
            f"{problem} at address 0x{address:x}",
            address=address,
            advice="pass a map of cuTensorMapEncode as a __grid_constant__ parameter, or complete it with"
            " tensormap.replace",
        )
        return None

    def map_bytes(self, address: int) -> bytes | None:
        """The 128 bytes of a map in global memory or in the parameters."""
        if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW or LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW:
            return None
        raw = self.global_bytes(address, 128, write=False)
        return None if raw is None else raw.tobytes()

    # ---- memory ------------------------------------------------------------------------------

    def global_bytes(self, address: int, nbytes: int, *, write: bool) -> Array | None:
        """A view of global memory; None if a fault was reported."""
        allocation = self.machine.launch.memory.find(address, address + nbytes)
        if allocation is None:
            text, advice = outside_global(self.machine.launch.memory, address, nbytes)
            self.fault("out-of-bounds", text, address=address, advice=advice)
            return None
        if write and allocation.read_only:
            self.fault("read-only", f"a bulk copy writes {allocation.name}, which is read-only", address=address)
            return None
        if write:
            allocation.own()
        return allocation.data[address - allocation.start :][:nbytes]

    def note(self, addresses: Array, nbytes: int, access: int) -> None:
        """Report accesses through the async proxy to the hooks."""
        hooks = self.machine.hooks
        if hooks.global_tile_accessed is not None:
            positions = self.group.lanes(self.active)
            hooks.global_tile_accessed(self.machine, self.group, positions, access, addresses, nbytes)
        if access == WRITE and hooks.global_tile_written is not None:
            hooks.global_tile_written(self.machine, addresses, nbytes)

    def runs(self, addresses: Array, nbytes: int, *, combines: bool = False) -> Array:
        """Bytes ``[runs, nbytes]`` of global memory, zero where a fault was reported. ``combines``: for a reduction,
        whose access is reported when it stores.
        """
        if not combines:
            self.note(addresses, nbytes, READ)
        out = np.zeros((len(addresses), nbytes), np.uint8)
        for address in distinct(addresses).tolist():
            raw = self.global_bytes(address, nbytes, write=False)
            if raw is not None:
                out[addresses == address] = raw
        return out

    def put_runs(self, addresses: Array, values: Array, access: int = WRITE, kept: Array | None = None) -> None:
        """Store runs of bytes in global memory, one after another; ``kept``: only these bytes. ATOMIC: the old contents are
        combined in them.
        """
        if kept is None:
            self.note(addresses, values.shape[-1], access)
        else:
            run, byte = kept.nonzero()
            self.note(addresses[run] + byte, 1, access)
        for number, (address, row) in enumerate(zip(addresses.tolist(), values, strict=True)):
            raw = self.global_bytes(address, len(row), write=True)
            if raw is not None:
                np.copyto(raw, row, where=True if kept is None else kept[number])

    def gather(self, boxes: Boxes, lane: Array) -> Array:
        """The elements ``[boxes, count]`` of boxes, as a load delivers them."""
        place, inside = boxes.elements(lane)
        size, all_inside = boxes.dtype.itemsize, bool(inside.all())
        kept = place.reshape(-1) if all_inside else place[inside]
        out = np.full(place.shape, boxes.fill, boxes.dtype)  # the fill is not a value that a type would round
        if len(kept):
            low, high = int(kept.min()), int(kept.max()) + size
            raw = self.global_bytes(boxes.fields.address + low, high - low, write=False)
            self.note(boxes.fields.address + kept, size, READ)
            if raw is not None:
                found = boxes.finished(raw[: raw.size // size * size].view(boxes.dtype).take((kept - low) // size))
                if all_inside:
                    return found.reshape(place.shape)
                out[inside] = found
        return out

    def load_words(self, boxes: Boxes, to: Receivers, which: Which) -> bool:
        """Load boxes that lie inside the tensor to one place of their columns, word by word; False for others."""
        footprint, space = to.footprint(boxes.extent), self.machine.batch.shared
        if which.size < to.start.size:
            footprint = Footprint(to.columns[which], to.start[which], boxes.extent)
        first, columns = footprint.at, footprint.run
        found = None if first is None else boxes.words(to.lane[which], first)
        if found is None or first is None:
            return False
        (base, low, high), words = found
        address, nbytes = boxes.fields.address, high - low + words.reach
        memory = self.machine.launch.memory.find(address + low, address + low + nbytes)
        if memory is None:
            return False
        if self.machine.hooks.global_tile_accessed is not None:
            self.note((address + base[:, None] + words.parts).reshape(-1), words.part, READ)
        raw = memory.data[address + low - memory.start :][:nbytes].view(f"V{words.size}")
        if space.shared:
            space.own()
        rows, base = space.words[first >> 2 : (first >> 2) + words.rows.size], (base - low) // words.size
        if base.size > COUPLE:
            _put_many(rows, columns, boxes, words, raw, base)
        else:
            bits = raw.take(words.places.T + base[:, None], mode="clip").view(U32)
            for column, part in zip(footprint.columns, boxes.finished(bits), strict=True):
                rows[:, column] = part
        notify = self.machine.hooks.memory_filled
        if notify is not None:
            notify(self.machine, "shared", first, footprint.nbytes, footprint.columns)
        return True

    def store_words(self, work: BoxStore, which: Which) -> bool:
        """Store boxes that lie inside the tensor from one place of their columns, word by word; False, with nothing done, for others."""
        boxes, source, first = work.boxes, work.source, work.source.at
        found = None if first is None or work.reduction is not None else boxes.words(which, first)
        if found is None or first is None or which.size < source.start.size:
            return False
        (base, low, high), words = found
        address, nbytes = boxes.fields.address, high - low + words.reach
        memory = self.machine.launch.memory.find(address + low, address + low + nbytes)
        if memory is None or memory.read_only:
            return False
        memory.own()
        self.note((address + base[:, None] + words.parts).reshape(-1), words.part, WRITE)
        held = self.machine.batch.shared.words[first >> 2 : (first >> 2) + words.rows.size, source.run]
        raw = memory.data[address + low - memory.start :][:nbytes].view(f"V{words.size}")
        raw[(base - low)[:, None] // words.size + words.places.T] = held.T.copy().view(raw.dtype)
        return True

    def scatter(self, boxes: Boxes, lanes: Array, values: Array, reduction: Choose | None) -> None:
        """Store elements ``[boxes, count]``, or combine them with the tensor: rows that may be the same one after another."""
        place, stored = boxes.elements(lanes)
        if reduction is None or not boxes.rows:
            self._scatter(boxes, place, stored, values, reduction)
            return
        divided = (np.split(each, boxes.rows, axis=1) for each in (place, stored, values))
        for places, kept, part in zip(*divided, strict=True):
            self._scatter(boxes, places, kept, part, reduction)

    def _scatter(self, boxes: Boxes, place: Array, stored: Array, values: Array, reduction: Choose | None) -> None:
        if np.logical_and.reduce(stored, axis=None):
            place, values = place.reshape(-1), values.reshape(-1)
        else:
            place, values = place[stored], values[stored]
        if not len(place):
            return
        low, high = int(np.minimum.reduce(place)), int(np.maximum.reduce(place)) + boxes.dtype.itemsize
        raw = self.global_bytes(boxes.fields.address + low, high - low, write=True)
        if raw is None:
            return
        access = WRITE if reduction is None else ATOMIC
        self.note(boxes.fields.address + place, boxes.dtype.itemsize, access)
        elements = raw.view(boxes.dtype)
        index = (place - low) // boxes.dtype.itemsize
        if reduction is not None:
            kind = boxes.fields.data_type
            flush = tensor_map.DATA_TYPES[kind].endswith("_FTZ")
            values = combine(reduction, BY_DATA_TYPE[kind], elements[index], values, flush=flush)
        elements[index] = values

    def read(self, columns: Array, address: Array, dtype: DType) -> Array:
        """Load elements at addresses in columns of shared memory."""
        return self.machine.batch.shared.gather(address, columns, dtype)

    def write(self, columns: Array, address: Array, values: Array) -> None:
        """Store elements in shared memory."""
        self.machine.fill("shared", address, spread(columns, values.shape), values)


def _put_many(rows: Array, columns: Which | slice, boxes: Boxes, words: TileWords, raw: Array, base: Array) -> None:
    """Write the words of boxes, which begin at the runs ``base`` of memory, to ``rows`` of the columns."""
    who = None
    if base.size > SEVERAL:
        different, numbers = np.unique(base, return_inverse=True)
        if 2 * len(different) <= len(base):
            base, who = different, numbers
    values = raw.take(words.places + base, mode="clip")
    values = values if who is None else values.take(who, axis=1)
    parts = boxes.finished(values.view(U32)).reshape(*values.shape, -1).transpose(0, 2, 1)
    rows.reshape(words.places.size, -1, rows.shape[1])[:, :, columns] = parts


def coordinates(address: Address) -> tuple[Value, ...]:
    """The coordinates of a tensor address."""
    found: list[Value] = []
    for part in address.coordinates:
        found += part if isinstance(part, tuple) else (part,)
    return tuple(found)


@lru_cache(maxsize=64)
def _decoded(raw: bytes, rank: int, mode: str, sm: int) -> tuple[tensor_map.Fields | None, str]:
    """The map of these bytes, and why copies of ``rank`` dimensions in a mode cannot use it on a GPU (empty: they can)."""
    fields = tensor_map.decode(raw)
    if fields is None:
        return None, "no tensor map"
    problem = tensor_map.problem(fields, rank) or tensor_map.mode_problem(fields, mode)
    if not problem:
        least, what = tensor_map.first_gpu(fields)
        if sm < least:
            problem = f"a map of {what}, which GPUs before sm_{least} do not support,"
    return fields, problem or ""
