"""Bulk copies: whole boxes and runs of bytes between global memory and the shared memories of a cluster, lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.layout import mbarriers, tensor_map
from warpsim.machine.addresses import CLUSTER_SHIFT
from warpsim.machine.memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.values import Array, as_array
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch

U64 = np.dtype(np.uint64)


class BulkCopies:
    """The port of a batch. Copies are rare and large: lanes act one after the other, in the order CTA, warp, lane."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    # ---- the port ----------------------------------------------------------------------------

    def tensor_load(self, dst: Any, map: Any, bar: Any, offsets: Any, mask: Any) -> None:
        """A box into shared memory; its bytes count at the mbarrier."""
        columns = [self._flat(c) for c in _coordinates(map)]
        extra = [self._flat(o) for o in (offsets or ())]
        targets, maps, bars = self._address(dst), self._address(map), self._address(bar)
        masks = None if mask is None else self._flat(mask)
        for lane, cta in self._lanes():
            fields = self._map(int(maps[lane]))
            if fields is None:
                continue
            place, inside = self._elements(fields, [int(c[lane]) for c in columns], [int(o[lane]) for o in extra])
            values = self._gather(fields, place, inside)
            for column, start, barrier in self._receivers(
                cta, int(targets[lane]), int(bars[lane]), None if masks is None else int(masks[lane])
            ):
                self._write(column, tensor_map.shared_offsets(fields, start, len(place)), values)
                self._count(column if masks is not None else barrier[0], barrier[1], values.nbytes)
        self.batch.memory.globals.version += 1

    def tensor_store(self, map: Any, src: Any, reduction: str | None) -> None:
        """A box from shared memory; elements outside the tensor are left out."""
        columns = [self._flat(c) for c in _coordinates(map)]
        sources, maps = self._address(src), self._address(map)
        for lane, cta in self._lanes():
            fields = self._map(int(maps[lane]))
            if fields is None:
                continue
            place, inside = self._elements(fields, [int(c[lane]) for c in columns], [0] * 3)
            column, start = self._shared(cta, int(sources[lane]))
            values = self._read(column, tensor_map.shared_offsets(fields, start, len(place)), fields.itemsize)
            self._scatter(fields, place[inside], values[inside], reduction)
        self.batch.memory.globals.version += 1

    def copy(self, dst: tuple[str, Any], src: tuple[str, Any], size: Any, bar: Any, mask: Any, reduction: Any) -> None:
        """``size`` bytes from one space to another."""
        targets, sources, sizes = self._address(dst[1]), self._address(src[1]), self._flat(size)
        bars = None if bar is None else self._address(bar)
        masks = None if mask is None else self._flat(mask)
        for lane, cta in self._lanes():
            n = int(sizes[lane])
            values = self._bytes(src[0], cta, int(sources[lane]), n)
            if values is None:
                continue
            if dst[0] == "global":
                target = self._global(int(targets[lane]), n)
                if target is not None:
                    target[:] = values
                continue
            assert bars is not None
            for column, start, barrier in self._receivers(
                cta, int(targets[lane]), int(bars[lane]), None if masks is None else int(masks[lane])
            ):
                self._write(column, start + np.arange(n), values)
                self._count(column if masks is not None else barrier[0], barrier[1], n)
        self.batch.memory.globals.version += 1

    def complete(self, bar: Any, nbytes: int) -> None:
        """``nbytes`` of each lane have arrived at its mbarrier."""
        self.batch.memory.atomic(
            "shared::cluster",
            bar,
            TYPES["b64"],
            lambda word, n: mbarriers.complete_bytes(word.view(U64), n).view(word.dtype),
            (np.full(1, nbytes, np.uint32),),
            returns=False,
        )

    # ---- lanes and addresses -----------------------------------------------------------------

    def _flat(self, value: Any) -> Array:
        shape = self.batch.memory.group.selection.shape
        array = as_array(value)
        return np.broadcast_to(array.reshape(-1) if len(shape) == 1 else array, shape).reshape(-1)

    def _address(self, address: Any) -> Array:
        return self._flat(address[0]).astype(np.int64) + address[1]

    def _lanes(self) -> Iterator[tuple[int, int]]:
        """Index and CTA of each lane that takes part."""
        memory = self.batch.memory
        selection = memory.group.selection
        active = np.ones(selection.n, np.bool_) if memory.active is None else self._flat(memory.active)
        lanes = np.flatnonzero(active)
        ctas, threads = selection.ctas.reshape(-1)[lanes], selection.threads.reshape(-1)[lanes]
        for at in np.lexsort((threads, ctas)):
            yield int(lanes[at]), int(ctas[at])

    def _shared(self, cta: int, address: int) -> tuple[int, int]:
        """Column and offset of a shared (or generic) address."""
        if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW:
            address -= SHARED_WINDOW
        address &= 0xFFFFFFFF
        rank = (address >> CLUSTER_SHIFT) - 1
        if rank < 0:
            return cta, address
        column = self._peer(cta, rank)
        return column, address & ((1 << CLUSTER_SHIFT) - 1)

    def _peer(self, cta: int, rank: int) -> int:
        column = int(self.batch.cluster_peer(np.array([cta]), np.array([rank]))[0])
        if column < 0:
            self._fault("out-of-bounds", f"rank {rank} is not in the cluster")
            return cta
        return column

    def _receivers(
        self, cta: int, target: int, bar: int, mask: int | None
    ) -> Iterator[tuple[int, int, tuple[int, int]]]:
        column, start = self._shared(cta, target)
        barrier = self._shared(cta, bar)
        if mask is None:
            yield column, start, barrier
            return
        for rank in range(16):
            if mask >> rank & 1:
                yield self._peer(cta, rank), start, barrier

    def _fault(self, rule: str, message: str) -> None:
        self.batch.fault(rule, message, self.batch.memory.group)

    # ---- maps --------------------------------------------------------------------------------

    def _map(self, address: int) -> tensor_map.Fields | None:
        raw = self._bytes("", 0, address, 128)
        fields = None if raw is None else tensor_map.decode(raw.tobytes())
        if fields is None:
            self._fault("tensor-map", f"no tensor map at address 0x{address:x}")
        return fields

    def _elements(self, fields: tensor_map.Fields, coordinates: list[int], offsets: list[int]) -> tuple[Array, Array]:
        place = tuple(int(np.int32(np.uint32(c & 0xFFFFFFFF))) for c in coordinates)
        if fields.im2col:
            return tensor_map.im2col_elements(fields, place, tuple(offsets))
        return tensor_map.tile_elements(fields, place)

    # ---- memory ------------------------------------------------------------------------------

    def _global(self, address: int, nbytes: int) -> Array | None:
        allocation = self.batch.memory.globals.find(address, address + nbytes)
        if allocation is None:
            self._fault("out-of-bounds", self.batch.memory.global_port.outside(address, nbytes))
            return None
        return allocation.data[address - allocation.start :][:nbytes]

    def _bytes(self, space: str, cta: int, address: int, nbytes: int) -> Array | None:
        if space.startswith("shared") or (not space and SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW):
            column, start = self._shared(cta, address)
            return self._read(column, start + np.arange(nbytes), 1)
        if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW:
            return None
        return self._global(address, nbytes)

    def _gather(self, fields: tensor_map.Fields, place: Array, inside: Array) -> Array:
        dtype = np.dtype(f"u{fields.itemsize}")
        out = np.full(len(place), fields.fill, dtype)
        kept = place[inside]
        if len(kept):
            low, high = int(kept.min()), int(kept.max()) + fields.itemsize
            raw = self._global(fields.address + low, high - low)
            if raw is not None:
                out[inside] = _elements_of(raw, dtype)[(kept - low) // fields.itemsize]
        return out

    def _scatter(self, fields: tensor_map.Fields, place: Array, values: Array, reduction: str | None) -> None:
        if not len(place):
            return
        low, high = int(place.min()), int(place.max()) + fields.itemsize
        raw = self._global(fields.address + low, high - low)
        if raw is None:
            return
        elements = raw.view(values.dtype)
        index = (place - low) // fields.itemsize
        if reduction is None:
            elements[index] = values
        else:
            elements[index] = _combine(fields.data_type, reduction, elements[index], values)

    def _index(self, column: int, address: Array, itemsize: int) -> Array | None:
        space = self.batch.shared
        if int(address.min()) < 0 or int(address.max()) + itemsize > space.size:
            self._fault("tensor-map", f"a bulk copy leaves the {space.size} bytes of shared memory")
            return None
        return space.element_index(address, np.int64(column), itemsize)  # type: ignore[arg-type]

    def _read(self, column: int, address: Array, itemsize: int) -> Array:
        space = self.batch.shared
        if itemsize == 8:
            low, high = self._read(column, address, 4), self._read(column, address + 4, 4)
            return low.astype(U64) | high.astype(U64) << np.uint64(32)
        index = self._index(column, address, itemsize)
        if index is None:
            return np.zeros(len(address), f"u{itemsize}")
        found: Array = space.flat.view(f"u{itemsize}")[index]
        return found

    def _write(self, column: int, address: Array, values: Array) -> None:
        space, size = self.batch.shared, values.dtype.itemsize
        if size == 8:
            self._write(column, address, values.astype(np.uint32))
            self._write(column, address + 4, (values >> np.uint64(32)).astype(np.uint32))
            return
        index = self._index(column, address, size)
        if index is not None:
            space.flat.view(f"u{size}")[index] = values

    def _count(self, column: int, address: int, nbytes: int) -> None:
        place = np.array([address], np.int64)
        word = self._read(column, place, 8)
        self._write(column, place, mbarriers.complete_bytes(word, np.array([nbytes])))


def _coordinates(address: Any) -> tuple[Any, ...]:
    """The coordinates of a tensor address."""
    found: list[Any] = []
    for part in address[2]:
        found += part if isinstance(part, tuple) else [part]
    return tuple(found)


def _elements_of(raw: Array, dtype: np.dtype[Any]) -> Array:
    return raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)


_KINDS = ("u1", "u2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "bf16", "f4", "f4", "f4")


_REDUCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda a, b: a + b,
    "min": np.minimum,
    "max": np.maximum,
    "inc": lambda a, b: np.where(a >= b, a.dtype.type(0), a + a.dtype.type(1)),
    "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - a.dtype.type(1)),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _combine(data_type: int, reduction: str, old: Array, new: Array) -> Array:
    """Old and new elements (bits) of a reduction."""
    import ml_dtypes

    kind = _KINDS[data_type]
    dtype = np.dtype(ml_dtypes.bfloat16) if kind == "bf16" else np.dtype(kind)
    a, b = old.view(dtype), new.view(dtype)
    with np.errstate(all="ignore"):
        result = _REDUCTIONS[reduction](a, b)
    combined: Array = np.ascontiguousarray(result.astype(dtype)).view(old.dtype)
    return combined
