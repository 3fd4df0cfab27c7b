"""The port of texture and surface instructions: elements are read and written through the memory port, with its checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from warpsim.layout import textures as layout
from warpsim.layout.textures import Fields
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address
from warpsim.machine.values import Array, as_array
from warpsim.numerics import approx, convert, filtering
from warpsim.types import TYPES

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group

AXES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 2, "acube": 2}
_WORD = np.dtype(np.uint32)


class Textures:
    """What the lanes of a group read and write."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        self.machine, self.group = machine, group
        shape = group.selection.shape
        self.active = np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)

    # ---- textures ----------------------------------------------------------------------------

    def sample(
        self,
        geometry: str,
        texture: Address,
        lod: Array | None = None,
        gradients: tuple[tuple[Array, ...], tuple[Array, ...]] | None = None,
        offset: tuple[Array, ...] | None = None,
        *,
        whole: bool = False,
    ) -> tuple[Array, ...]:
        """The four channels where each lane's coordinates point, u32."""
        return self._each(geometry, texture, lambda part: part.sample(lod, gradients, offset), whole=whole)

    def gather(
        self, geometry: str, texture: Address, channel: int, offset: tuple[Array, ...] | None = None
    ) -> tuple[Array, ...]:
        """One channel of the four elements around each lane's coordinates, u32."""
        return self._each(geometry, texture, lambda part: part.gather(channel, offset))

    def query(self, texture: Address, what: Callable[[Fields], int]) -> Array:
        """A number that each lane's texture or surface has, u32."""
        out = np.zeros(self.active.shape, _WORD)
        for mask, fields in self._objects(texture):
            out[mask] = what(fields)
        return out

    def _each(
        self, geometry: str, texture: Address, read: Callable[[_Part], tuple[Array, ...]], *, whole: bool = False
    ) -> tuple[Array, ...]:
        out = tuple([np.zeros(self.active.shape, _WORD) for _ in range(4)])
        for mask, fields in self._objects(texture):
            part = _Part(self, fields, geometry, self._coordinates(texture), mask, whole=whole)
            for to, found in zip(out, read(part), strict=True):
                to[mask] = np.broadcast_to(found, mask.shape)[mask]
        return out

    # ---- surfaces ----------------------------------------------------------------------------

    def load(self, geometry: str, surface: Address, type: str, count: int, outside: str) -> tuple[Array, ...]:
        """``count`` values from each lane's byte offset and row; 0, the nearest place or a trap outside."""
        kind = TYPES[type]
        out = tuple([np.zeros(self.active.shape, kind.dtype) for _ in range(count)])
        for mask, address in self._surface_places(geometry, surface, kind.bytes * count, outside):
            memory = Memory(self.machine, self.group, mask)
            for to, found in zip(out, memory.load("global", Address(address), kind, count), strict=True):
                to[mask] = np.broadcast_to(found, mask.shape)[mask]
        return out

    def store(self, geometry: str, surface: Address, type: str, values: tuple[Array, ...], outside: str) -> None:
        """Store values at each lane's byte offset and row."""
        kind = TYPES[type]
        for mask, address in self._surface_places(geometry, surface, kind.bytes * len(values), outside):
            Memory(self.machine, self.group, mask).store("global", Address(address), kind, values)

    def store_elements(self, geometry: str, surface: Address, values: tuple[Array, ...], outside: str) -> None:
        """Store 32-bit channels as elements of the surface's format."""
        for mask, fields in self._objects(surface):
            kind = TYPES[fields.format]
            words = [np.broadcast_to(as_array(v), mask.shape) for v in values]
            words += [np.zeros(mask.shape, _WORD)] * (fields.channels - len(words))
            stored = tuple(_element(word, fields.format) for word in words[: fields.channels])
            part = _Part(self, fields, geometry, self._coordinates(surface), mask)
            address, inside = part.surface(fields.element, outside, scaled=True)
            Memory(self.machine, self.group, mask & inside).store("global", Address(address), kind, stored)

    def reduce(
        self,
        geometry: str,
        surface: Address,
        type: str,
        update: Callable[..., Array],
        operand: Array,
        kind: str,
        outside: str,
    ) -> None:
        """Combine values with what lies at each lane's byte offset and row, one lane after another."""
        for mask, address in self._surface_places(geometry, surface, TYPES[type].bytes, outside):
            memory = Memory(self.machine, self.group, mask)
            memory.atomic("global", Address(address), TYPES[type], update, (operand,), returns=False, kind=kind)

    def _surface_places(
        self, geometry: str, surface: Address, size: int, outside: str
    ) -> Iterator[tuple[Array, Array]]:
        """The lanes of each surface that access it, and their addresses."""
        for mask, fields in self._objects(surface):
            part = _Part(self, fields, geometry, self._coordinates(surface), mask)
            address, inside = part.surface(size, outside, scaled=False)
            if (mask & inside).any():
                yield mask & inside, address

    # ---- objects -----------------------------------------------------------------------------

    def _coordinates(self, address: Address) -> list[Array]:
        found: list[Array] = []
        for part in address.coordinates:
            found += [as_array(p) for p in part] if isinstance(part, tuple) else [as_array(part)]
        return [np.broadcast_to(value, self.active.shape) for value in found]

    def _objects(self, address: Address) -> Iterator[tuple[Array, Fields]]:
        """The lanes that name each object."""
        handles = np.broadcast_to(as_array(address.base).astype(np.uint64), self.active.shape)
        for handle in np.unique(handles[self.active]).tolist():
            mask = self.active & (handles == handle)
            fields = self._fields(handle)
            if fields is None:
                self.machine.fault(
                    "out-of-bounds",
                    f"{handle:#x} is no texture or surface object",
                    self.group,
                    mask,
                    advice="pass a warpsim.Texture, or an object that the driver made",
                )
                continue
            yield mask, fields

    def _fields(self, handle: int) -> Fields | None:
        size = layout.BLOCK.itemsize
        found = self.machine.launch.memory.find(handle, handle + size)
        if found is None:
            return None
        return layout.decode(found.data[handle - found.start :][:size].tobytes())


def _element(word: Array, format: str) -> Array:
    """A 32-bit channel as an element: integers are clamped, f32 becomes a half."""
    dtype = TYPES[format].dtype
    if format == "f32" or format[1:] == "32":
        return word.view(dtype)
    if format == "f16":
        return convert.to_half(word.view(np.float32), dtype, "rz")
    limits = np.iinfo(dtype)
    signed = word.view(np.int32) if format[0] == "s" else word
    return signed.clip(limits.min, limits.max).astype(dtype)


class _Part:
    """The lanes of a step that name one object."""

    def __init__(
        self,
        port: Textures,
        fields: Fields,
        geometry: str,
        coordinates: list[Array],
        mask: Array,
        *,
        whole: bool = False,
    ) -> None:
        self.port, self.fields, self.mask, self.rank = port, fields, mask, AXES[geometry]
        self.layer: Array | int = 0
        if geometry[0] == "a":
            self.layer, coordinates = coordinates[0], coordinates[1:]
        self.coordinates, self.whole = coordinates, whole
        self.cube = "cube" in geometry
        self.normalized = fields.normalized or self.cube

    def _axes(self) -> tuple[list[Array], Array]:
        """The coordinates in a layer, and the number of the layer or face."""
        fields = self.fields
        each = fields.faces or 1
        layer = np.minimum(np.asarray(self.layer).astype(np.int64), max(fields.layers, 1) - 1) * each
        if not self.cube:
            return [c.view(np.float32) for c in self.coordinates[: self.rank]], layer
        x, y, z = (c.view(np.float32) for c in self.coordinates[:3])
        number, across, down = filtering.face(x, y, z)
        return [across, down], layer + number

    def sample(
        self,
        lod: Array | None,
        gradients: tuple[tuple[Array, ...], tuple[Array, ...]] | None,
        offset: tuple[Array, ...] | None,
    ) -> tuple[Array, ...]:
        fields = self.fields
        detail = np.broadcast_to(self._detail(lod, gradients), self.mask.shape)
        weight = detail & 255 if fields.mip_linear else np.zeros_like(detail)
        level = detail >> 8 if fields.mip_linear else detail + 128 >> 8
        out = tuple([np.zeros(self.mask.shape, _WORD) for _ in range(4)])
        for number in np.unique(level[self.mask]).tolist():
            lanes = self.mask & (level == number)
            for to, found in zip(out, self._filtered(number, lanes, weight, offset), strict=True):
                to[lanes] = np.broadcast_to(found, lanes.shape)[lanes]
        return out

    def _detail(self, lod: Array | None, gradients: tuple[tuple[Array, ...], tuple[Array, ...]] | None) -> Array:
        """Each lane's level in steps of 1/256."""
        fields = self.fields
        if gradients is not None:
            squares = [
                sum(
                    (
                        (as_array(g).astype(np.float64) * n) ** 2
                        for g, n in zip(d, fields.size[: self.rank], strict=False)
                    ),
                    np.zeros(1),
                )
                for d in gradients
            ]
            lod = approx.lg2_ftz(np.maximum(*squares).astype(np.float32)) / 2
        bias = 0.0 if lod is None else fields.bias  # a kernel's tex has no level of its own to bias
        return filtering.levels(0.0 if lod is None else lod, bias, fields.least, fields.most, len(fields.levels))

    def _filtered(self, level: int, lanes: Array, weight: Array, offset: tuple[Array, ...] | None) -> list[Array]:
        """What lanes read at a level, and with a weight (of 256) at the next one."""
        fields = self.fields
        between = bool((weight[lanes] > 0).any())
        if not between and (self.whole or not fields.linear):
            raw = self._raw(level, lanes, self._spots(level, offset), self._axes()[1])
            return self._channels(raw)
        corners = self._corners(level, lanes, offset, 256 - weight)
        if between:
            corners += self._corners(level + 1, lanes & (weight > 0), offset, weight)
        guard = filtering.GUARD if fields.linear else filtering.GUARD_OF_LEVELS
        raws, weights = zip(*corners, strict=True)
        channels = [
            filtering.weighted(list(parts), list(weights), fields.format, guard) for parts in zip(*raws, strict=True)
        ]
        return self._filled([c.view(_WORD) for c in channels])

    def _spots(self, level: int, offset: tuple[Array, ...] | None) -> list[tuple[Array, Array]]:
        """The element along each axis, and whether it is inside, without filtering."""
        fields, sizes = self.fields, self.fields.extents(level)
        places, moved = self._axes()[0], _moved(offset, self.rank)
        if self.whole:
            wholes = [place.view(np.int32).astype(np.int64) + o for place, o in zip(places, moved, strict=False)]
            return [filtering.addressed(place, n, "border") for place, n in zip(wholes, sizes, strict=False)]
        axes = zip(places, moved, sizes, fields.address, strict=False)
        return [filtering.point(p, n, m, normalized=self.normalized, offset=o) for p, o, n, m in axes]

    def _corners(
        self, level: int, lanes: Array, offset: tuple[Array, ...] | None, share: Array
    ) -> list[tuple[tuple[Array, ...], Array]]:
        """The elements that lanes weigh at a level, and their weights, ``share`` in all."""
        fields, layer = self.fields, self._axes()[1]
        if not fields.linear:
            return [(self._raw(level, lanes, self._spots(level, offset), layer), share)]
        prints = self._footprints(level, offset)
        if fields.rank == 1 and not fields.layers and fields.address[1] == "border":  # one row, read at its edge
            half, none = np.full(1, 128), np.zeros(1, np.bool_)
            prints.append(filtering.Footprint(half * 0, half * 0, half, none, ~none))
        found = []
        for corner, weight in filtering.corner_weights([p.weight for p in prints], share):
            spots = [
                (p.second, p.second_inside) if second else (p.first, p.first_inside)
                for second, p in zip(corner, prints, strict=True)
            ]
            found.append((self._raw(level, lanes, spots, layer), weight))
        return found

    def _footprints(self, level: int, offset: tuple[Array, ...] | None) -> list[filtering.Footprint]:
        fields = self.fields
        axes = zip(self._axes()[0], _moved(offset, self.rank), fields.extents(level), fields.address, strict=False)
        return [filtering.linear(p, n, m, normalized=self.normalized, offset=o) for p, o, n, m in axes]

    def _channels(self, raw: tuple[Array, ...]) -> list[Array]:
        """Unfiltered elements as the instruction gives them."""
        fields = self.fields
        if fields.integer or fields.format[1:] == "32":
            return self._filled([filtering.as_integer(channel) for channel in raw])
        return self._filled([filtering.as_float(channel, fields.format).view(_WORD) for channel in raw])

    def _filled(self, channels: list[Array]) -> list[Array]:
        return channels + [np.zeros(1, _WORD)] * (4 - len(channels))

    def gather(self, channel: int, offset: tuple[Array, ...] | None) -> tuple[Array, ...]:
        x, y = self._footprints(0, offset)
        layer = self._axes()[1]
        (x0, x1), (y0, y1) = (((p.first, p.first_inside), (p.second, p.second_inside)) for p in (x, y))
        around = ([x0, y1], [x1, y1], [x1, y0], [x0, y0])
        return tuple(self._channels(self._raw(0, self.mask, spots, layer))[channel] for spots in around)

    def _raw(self, level: int, lanes: Array, spots: list[tuple[Array, Array]], layer: Array) -> tuple[Array, ...]:
        """The channels of one element of each lane, or the border."""
        fields = self.fields
        inside: Array = np.logical_and.reduce([np.broadcast_to(i, lanes.shape) for _, i in spots])
        if self.whole and fields.layers:
            inside = inside & (np.asarray(self.layer) < fields.layers)
        address = self._address(level, [place for place, _ in spots], layer)
        kind = TYPES[fields.format]
        memory = Memory(self.port.machine, self.port.group, lanes & inside)
        found = memory.load("global", Address(address), kind, fields.channels)
        if inside.all():
            return found
        border = [_border(0.0 if self.whole else value, fields) for value in fields.border]
        return tuple(np.where(inside, raw, edge) for raw, edge in zip(found, border, strict=False))

    def _address(self, level: int, places: list[Array], layer: Array) -> Array:
        fields = self.fields
        width, height, depth = fields.extents(level)
        zero = np.zeros(1, np.int64)
        x, y, z = [*places, zero, zero][:3]
        row = ((layer * depth + z) * height + y) if not fields.pitch else y
        start = fields.levels[level] + row * (fields.pitch or width * fields.element)
        found: Array = np.broadcast_to(start + x * fields.element, self.mask.shape).astype(np.int64)
        return found

    def surface(self, size: int, outside: str, *, scaled: bool) -> tuple[Array, Array]:
        """The address of each lane's access of ``size`` bytes to a surface, and which lanes do it."""
        fields = self.fields
        x, *rest = (c.view(np.int32).astype(np.int64) for c in self.coordinates[: self.rank])
        x = x * fields.element if scaled else x
        bounds = fields.extents(0)
        last = bounds[0] * fields.element - size
        inside = (x >= 0) & (x <= last)
        for place, n in zip(rest, bounds[1:], strict=False):
            inside = inside & (place >= 0) & (place < n)
        layer = np.asarray(self.layer).astype(np.int64)
        if fields.layers:
            inside = inside & (layer < fields.layers)
            layer = layer.clip(0, fields.layers - 1)
        if outside == "trap" and (self.mask & ~inside).any():
            self.port.machine.fault(
                "out-of-bounds",
                "an access outside of the surface traps",
                self.port.group,
                self.mask & ~inside,
                advice="check the coordinates; the first counts bytes",
            )
        rest = [place.clip(0, n - 1) for place, n in zip(rest, bounds[1:], strict=False)]
        address = self._address(0, [np.zeros(1, np.int64), *rest], layer) + x.clip(0, max(last, 0))
        return address, np.broadcast_to(inside if outside != "clamp" else np.ones_like(inside), self.mask.shape)


def _moved(offset: tuple[Array, ...] | None, rank: int) -> list[Array | int]:
    """An offset along each axis."""
    return [0] * rank if offset is None else [as_array(o).view(np.int32).astype(np.int64) for o in offset]


def _border(value: float, fields: Fields) -> Array:
    """A border's channel as an element: colours of integer textures are bits."""
    dtype = np.dtype(TYPES[fields.format].dtype)
    return np.array(value, dtype) if dtype.kind == "f" else np.array(value, np.float32).view(np.uint32).astype(dtype)
