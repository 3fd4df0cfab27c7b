"""The port of texture and surface instructions: elements are read and written through the memory port, with its checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import attrs
import numpy as np

from warpsim.isa.ports import Atomic, MemoryPort
from warpsim.layout import textures as layout
from warpsim.layout.textures import Fields
from warpsim.machine.machine import Machine
from warpsim.machine.memory.access import Memory
from warpsim.machine.memory.addresses import Address, Coordinate
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, as_array
from warpsim.numerics import convert, filtering
from warpsim.numerics.arrays import distinct
from warpsim.types import TYPES

AXES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 2, "acube": 2, "2dms": 2, "a2dms": 2}
_WORD = np.dtype(np.uint32)
Gradients = tuple[tuple[Array, ...], tuple[Array, ...]]
Spot = tuple[Array, Array]
"""An element along an axis, and whether it is inside."""


class Textures:
    """What the lanes of a group read and write."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        self.machine, self.group = machine, group
        shape = group.selection.shape
        self.active = np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)

    def memory(self, lanes: Array) -> MemoryPort:
        """The port through which some lanes access elements."""
        return Memory(self.machine, self.group, lanes)

    def part(
        self, fields: Fields, geometry: str, coordinates: list[Array], mask: Array, *, whole: bool = False
    ) -> Part:
        """Lanes that name one object."""
        return Part(self, fields, geometry, coordinates, mask, whole=whole)

    # ---- textures ----------------------------------------------------------------------------

    def sample(
        self,
        geometry: str,
        texture: Address,
        lod: Array | None = None,
        gradients: Gradients | None = None,
        offset: tuple[Array, ...] | None = None,
        *,
        whole: bool = False,
    ) -> tuple[tuple[Array, ...], Array]:
        """The four channels where each lane's coordinates point, u32, and whether they are in memory."""
        return self._each(geometry, texture, lambda part: part.sample(lod, gradients, offset), whole=whole)

    def gather(
        self, geometry: str, texture: Address, channel: int, offset: tuple[Array, ...] | None = None
    ) -> tuple[tuple[Array, ...], Array]:
        """One channel of the four elements around each lane's coordinates, u32, and whether they are in memory."""
        return self._each(geometry, texture, lambda part: part.gather(channel, offset))

    def query(self, texture: Address, what: Callable[[Fields], int]) -> Array:
        """A number that each lane's texture, sampler or surface has, u32."""
        out = np.zeros(self.active.shape, _WORD)
        for mask, fields in self._objects(texture):
            out[mask] = what(fields)
        return out

    def is_kind(self, address: Array, kind: str) -> Array:
        """Whether a module's variable of a kind is at each lane's address."""
        places = np.broadcast_to(as_array(address).astype(np.uint64), self.active.shape)
        out = np.zeros(self.active.shape, np.bool_)
        for place in distinct(places[self.active]).tolist():
            fields = object_at(self.machine.launch.memory, place)
            out |= (places == place) & (fields is not None and fields.named and fields.kind == kind)
        return out

    def _each(
        self, geometry: str, texture: Address, read: Callable[[Part], tuple[Array, ...]], *, whole: bool = False
    ) -> tuple[tuple[Array, ...], Array]:
        out = tuple([np.zeros(self.active.shape, _WORD) for _ in range(4)])
        *sampler, coordinates = texture.coordinates
        flat = self._flat(coordinates)
        for mask, fields in self._sampled(texture, sampler):
            part = self.part(fields, geometry, flat, mask, whole=whole)
            for to, found in zip(out, read(part), strict=True):
                to[mask] = np.broadcast_to(found, mask.shape)[mask]
        return out, np.ones(self.active.shape, np.bool_)

    def _sampled(self, texture: Address, sampler: list[Coordinate]) -> Iterator[tuple[Array, Fields]]:
        """The lanes that name each texture, and each sampler with it."""
        if not sampler:
            yield from self._objects(texture)
            return
        named = Address(sampler[0])  # type: ignore[arg-type]
        for mask, fields in self._objects(texture):
            for lanes, how in self._objects(named):
                if (mask & lanes).any():
                    normalized = fields.normalized and not how.forced
                    sampled = attrs.evolve(fields, address=how.address, linear=how.linear, normalized=normalized)
                    yield mask & lanes, sampled

    # ---- surfaces ----------------------------------------------------------------------------

    def load(self, geometry: str, surface: Address, type: str, count: int, outside: str) -> tuple[Array, ...]:
        """``count`` values from each lane's byte offset and row; 0, the nearest place or a trap outside."""
        kind = TYPES[type]
        out = tuple([np.zeros(self.active.shape, kind.dtype) for _ in range(count)])
        for mask, address in self._surface_places(geometry, surface, kind.bytes * count, outside):
            for to, found in zip(out, self.memory(mask).load("global", Address(address), kind, count), strict=True):
                to[mask] = np.broadcast_to(found, mask.shape)[mask]
        return out

    def store(self, geometry: str, surface: Address, type: str, values: tuple[Array, ...], outside: str) -> None:
        """Store values at each lane's byte offset and row."""
        kind = TYPES[type]
        for mask, address in self._surface_places(geometry, surface, kind.bytes * len(values), outside):
            self.memory(mask).store("global", Address(address), kind, values)

    def store_elements(self, geometry: str, surface: Address, values: tuple[Array, ...], outside: str) -> None:
        """Store 32-bit channels as elements of the surface's format."""
        for mask, fields in self._objects(surface):
            kind = TYPES[fields.format]
            words = [np.broadcast_to(as_array(v), mask.shape) for v in values]
            words += [np.zeros(mask.shape, _WORD)] * (fields.channels - len(words))
            stored = tuple(_element(word, fields.format) for word in words[: fields.channels])
            part = self.part(fields, geometry, self._flat(surface.coordinates[-1]), mask)
            address, inside = part.surface(fields.element, outside, scaled=True)
            self.memory(mask & inside).store("global", Address(address), kind, stored)

    def reduce(self, geometry: str, surface: Address, type: str, atomic: Atomic, outside: str) -> None:
        """Combine values with what lies at each lane's byte offset and row, one lane after another."""
        for mask, address in self._surface_places(geometry, surface, TYPES[type].bytes, outside):
            self.memory(mask).atomic("global", Address(address), TYPES[type], atomic, returns=False)

    def _surface_places(
        self, geometry: str, surface: Address, size: int, outside: str
    ) -> Iterator[tuple[Array, Array]]:
        """The lanes of each surface that access it, and their addresses."""
        for mask, fields in self._objects(surface):
            part = self.part(fields, geometry, self._flat(surface.coordinates[-1]), mask)
            address, inside = part.surface(size, outside, scaled=False)
            if (mask & inside).any():
                yield mask & inside, address

    # ---- objects -----------------------------------------------------------------------------

    def _flat(self, coordinates: Coordinate) -> list[Array]:
        parts = coordinates if isinstance(coordinates, tuple) else (coordinates,)
        return [np.broadcast_to(as_array(part), self.active.shape) for part in parts]

    def _objects(self, address: Address) -> Iterator[tuple[Array, Fields]]:
        """The lanes that name each object."""
        handles = np.broadcast_to(address.places.astype(np.uint64), self.active.shape)
        for handle in distinct(handles[self.active]).tolist():
            mask = self.active & (handles == handle)
            fields = object_at(self.machine.launch.memory, handle)
            if fields is not None and (fields.levels or fields.kind == "samplerref" or not address.coordinates):
                yield mask, fields
                continue
            wrong = f"{handle:#x} is no texture or surface object"
            advice = "pass a warpsim.Texture or warpsim.Surface, or an object that the driver made"
            if fields is not None:
                held = self.machine.launch.memory.find(handle, handle + 1)
                name = "" if held is None else held.name
                wrong = f"the .{fields.kind} {name} has nothing bound to it"
                made = "Surface" if fields.kind == "surfref" else "Texture"
                advice = f'bind one: module.get_global("{name}").set(warpsim.{made}(array))'
            self.machine.fault("out-of-bounds", wrong, self.group, mask, advice=advice)


def object_at(memory: GlobalMemory, handle: int) -> Fields | None:
    """The object at an address, or whose address is there (a kernel's parameter); of a module's variable, what is bound to it."""
    fields = _block(memory, handle)
    if fields is None and (pointer := _bytes(memory, handle, 8)) is not None:
        return _block(memory, int.from_bytes(pointer, "little"))
    if fields is None or not fields.object:
        return fields
    bound = _block(memory, fields.object)
    return None if bound is None else attrs.evolve(bound, kind=fields.kind, named=True)


def _block(memory: GlobalMemory, address: int) -> Fields | None:
    found = _bytes(memory, address, layout.BLOCK.itemsize)
    return None if found is None else layout.decode(found)


def _bytes(memory: GlobalMemory, address: int, size: int) -> bytes | None:
    found = memory.find(address, address + size)
    return None if found is None else found.data[address - found.start :][:size].tobytes()


def _element(word: Array, format: str) -> Array:
    """A 32-bit channel as an element: integers are clamped, f32 becomes a half."""
    dtype = TYPES[format].dtype
    if format[1:] == "32":
        return word.view(dtype)
    if format == "f16":
        return convert.to_half(word.view(np.float32), dtype, "rz")
    limits = np.iinfo(dtype)
    signed = word.view(np.int32) if format[0] == "s" else word
    return signed.clip(limits.min, limits.max).astype(dtype)


class Part:
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
        self.whole = whole
        self.index: Array | int = 0
        if geometry[0] == "a":
            self.index, coordinates = coordinates[0], coordinates[1:]
        self.number: Array | int = 0
        self.multisampled = geometry.endswith("ms")
        if self.multisampled:
            self.number, coordinates = coordinates[0], coordinates[1:]
        self.raw_places = coordinates[: self.rank]
        self.normalized = fields.normalized or "cube" in geometry
        self.there: Array = np.ones(1, np.bool_)
        """Whether the level exists, where it is an integer."""
        self.row: Array = np.zeros(1, np.int32)
        each = fields.faces or 1
        self.layer: Array = np.minimum(np.asarray(self.index).astype(np.int64), max(fields.layers, 1) - 1) * each
        self.face: Array | None = None
        self.places: list[Array] = [c.view(np.float32) for c in self.raw_places]
        if "cube" in geometry:
            x, y, z = (c.view(np.float32) for c in coordinates[:3])
            self.face, *self.places = filtering.face(x, y, z)
            self.direction = (x, y, z)

    # ---- reading -----------------------------------------------------------------------------

    def sample(
        self, lod: Array | None, gradients: Gradients | None, offset: tuple[Array, ...] | None
    ) -> tuple[Array, ...]:
        """Four channels, u32."""
        fields = self.fields
        if fields.rank == 1 and self.whole != fields.buffer and not fields.layers:
            return tuple([np.zeros(self.mask.shape, _WORD)] * 4)  # what an H200 reads
        detail = np.broadcast_to(self._detail(lod, gradients), self.mask.shape)
        weight = detail & 255 if fields.mip_linear and not self.whole else np.zeros_like(detail)
        level = detail >> 8 if fields.mip_linear else detail + 128 >> 8
        out = tuple([np.zeros(self.mask.shape, _WORD) for _ in range(4)])
        for number in distinct(level[self.mask]).tolist():
            lanes = self.mask & (level == number)
            for to, found in zip(out, self._filtered(number, lanes, weight, offset), strict=True):
                to[lanes] = np.where(self.there, np.broadcast_to(found, lanes.shape), 0)[lanes]
        return out

    def _detail(self, lod: Array | None, gradients: Gradients | None) -> Array:
        """Each lane's level in steps of 1/256."""
        fields = self.fields
        if self.whole and lod is not None:  # as it is
            exact = as_array(lod).view(np.int32).astype(np.int64)
            self.there = (exact >= 0) & (exact < len(fields.levels))
            return exact.clip(0, len(fields.levels) - 1) * 256
        if gradients is not None:
            lod = self._level_of(gradients)
        bias = 0.0 if lod is None else fields.bias  # a kernel's tex has no level of its own to bias
        return filtering.levels(0.0 if lod is None else lod, bias, fields.least, fields.most, len(fields.levels))

    def _level_of(self, gradients: Gradients) -> Array:
        """The level that each lane's gradients ask for."""
        sizes = self.fields.size[: self.rank]
        if self.face is not None:
            steps = [filtering.step_on_cube(self.face, self.direction, gradient) for gradient in gradients]
            (dx, one), (dy, other) = steps
            return filtering.level_of(dx, dy, sizes, apart=one | other)
        if self.rank == 3:
            dx, dy = (filtering.step(self.places, gradient) for gradient in gradients)
            return filtering.level_of(dx, dy, sizes)
        return filtering.level_of(*gradients, sizes)

    def _filtered(self, level: int, lanes: Array, weight: Array, offset: tuple[Array, ...] | None) -> list[Array]:
        """What lanes read at a level, and with a weight (of 256) at the next one."""
        fields = self.fields
        between = bool((weight[lanes] > 0).any())
        if self.whole or not (fields.linear or (fields.mip_linear and len(fields.levels) > 1)):
            return self._single(self._raw(level, lanes, self._spots(level, offset), self._slice))
        corners = self._corners(level, lanes, offset, 256 - weight)
        of_level = len(corners)
        if between:
            corners += self._corners(level + 1, lanes & (weight > 0), offset, weight)
        raws, weights = zip(*corners, strict=True)
        channels = enumerate(zip(*raws, strict=True))
        return self._filled([self.weighed(number, parts, weights, of_level) for number, parts in channels])

    def weighed(self, number: int, parts: Sequence[Array], weights: Sequence[Array], of_level: int = 1) -> Array:
        """The weighted sum of elements of a channel, u32; ``of_level`` of them are of the first level."""
        if self.fields.format[0] in "us" and (self.fields.integer or self.fields.format[1:] == "32"):
            return filtering.weighted_whole(parts, weights)
        return filtering.weighted(*self._readable(number, parts), list(weights), of_level).view(_WORD)

    def _readable(self, number: int, parts: Sequence[Array]) -> tuple[list[Array], str]:
        """The elements of a channel that are weighed, and their format."""
        if self._in_srgb(number):
            return list(parts), "srgb"
        if self.fields.format == "a2b10g10r10":  # of 16 bits, the upper ones repeated
            return [part * 21845 if number == 3 else part << 6 | part >> 4 for part in parts], "u16"
        return list(parts), self.fields.format

    def _single(self, raw: tuple[Array, ...]) -> list[Array]:
        """Unfiltered elements as the instruction gives them."""
        return self._filled([self.alone(n, channel) for n, channel in enumerate(raw)])

    def alone(self, number: int, raw: Array) -> Array:
        """A channel of an unfiltered element, u32."""
        if self.fields.integer or self.fields.format[1:] == "32":
            return filtering.as_integer(raw)
        if self._in_srgb(number):
            return filtering.linear_light(raw).astype(np.float32).view(_WORD)
        return filtering.as_float(raw, self.fields.format, number).view(_WORD)

    def _in_srgb(self, channel: int) -> bool:
        """Whether a channel is light: bytes, but for the last of two or four."""
        fields = self.fields
        return fields.srgb and fields.format == "u8" and channel < max(fields.channels - 1, 1)

    def _filled(self, channels: list[Array]) -> list[Array]:
        return channels + [np.zeros(1, _WORD)] * (4 - len(channels))

    def gather(self, channel: int, offset: tuple[Array, ...] | None) -> tuple[Array, ...]:
        """A channel of four elements, u32."""
        found, format = [], self.fields.format
        weighed = format == "f32" or (format == "s8" and not self.fields.integer)
        for raw in self._around(offset):
            alone = not weighed or channel >= len(raw)
            one = self._single(raw)[channel] if alone else self.weighed(channel, [raw[channel]], [np.full(1, 256)])
            found.append(one)
        return tuple(found)

    def _around(self, offset: tuple[Array, ...] | None) -> list[tuple[Array, ...]]:
        """The four elements that linear filtering would weigh, counter-clockwise from the lower left."""
        if self.face is not None and self.fields.seamless:
            size, whole = self.fields.extents(0)[0], np.ones(1, np.bool_)
            four = filtering.across_edges(self.face, self.places, size, 256)
            upper_left, right, lower, last = (([(x, whole), (y, whole)], self.layer + on) for on, x, y, _ in four)
            around = [lower, last, right, upper_left]
        else:
            x, y = self._footprints(0, offset)
            (x0, x1), (y0, y1) = (((p.first, p.first_inside), (p.second, p.second_inside)) for p in (x, y))
            around = [(spots, self._slice) for spots in ([x0, y1], [x1, y1], [x1, y0], [x0, y0])]
        return [self._raw(0, self.mask, spots, layer) for spots, layer in around]

    # ---- places ------------------------------------------------------------------------------

    @property
    def _slice(self) -> Array:
        """The layer or face."""
        return self.layer if self.face is None else self.layer + self.face

    def _spots(self, level: int, offset: tuple[Array, ...] | None) -> list[Spot]:
        """The element along each axis, and whether it is inside, without filtering."""
        fields, sizes = self.fields, self.fields.extents(level)
        moved = _moved(offset, self.rank)
        self._note_row(offset)
        if self.whole:
            wholes = [c.view(np.int32).astype(np.int64) + o for c, o in zip(self.raw_places, moved, strict=False)]
            modes = fields.address if len(fields.levels) > 1 else ("border",) * 3
            return [filtering.addressed(p, n, m) for p, n, m in zip(wholes, sizes, modes, strict=False)]
        modes = ("clamp",) * 3 if self.face is not None and fields.seamless else fields.address
        axes = zip(self.places, moved, sizes, modes, strict=False)
        found = [filtering.point(p, n, m, normalized=self.normalized, offset=o) for p, o, n, m in axes]
        return [*found, (np.zeros(1, np.int64), self.row == 0)]

    def _corners(
        self, level: int, lanes: Array, offset: tuple[Array, ...] | None, share: Array
    ) -> list[tuple[tuple[Array, ...], Array]]:
        """The elements that lanes weigh at a level, and their weights, ``share`` in all."""
        fields = self.fields
        if not fields.linear:
            return [(self._raw(level, lanes, self._spots(level, offset), self._slice), share)]
        if self.face is not None and fields.seamless:
            size, whole = fields.extents(level)[0], np.ones(1, np.bool_)
            return [
                (self._raw(level, lanes, [(x, whole), (y, whole)], self.layer + face), weight)
                for face, x, y, weight in filtering.across_edges(self.face, self.places, size, share)
            ]
        prints = self._footprints(level, offset)
        if fields.rank == 1 and not fields.layers and fields.address[1] == "border":  # one row, read at its edge
            half = np.full(1, 128)
            prints.append(filtering.Footprint(half * 0, half * 0, half, self.row == 1, self.row == 0))
        found = []
        for corner, weight in filtering.corner_weights([p.weight for p in prints], share):
            spots = [
                (p.second, p.second_inside) if second else (p.first, p.first_inside)
                for second, p in zip(corner, prints, strict=True)
            ]
            found.append((self._raw(level, lanes, spots, self._slice), weight))
        return found

    def _footprints(self, level: int, offset: tuple[Array, ...] | None) -> list[filtering.Footprint]:
        fields = self.fields
        self._note_row(offset)
        axes = zip(self.places, _moved(offset, self.rank), fields.extents(level), fields.address, strict=False)
        return [filtering.linear(p, n, m, normalized=self.normalized, offset=o) for p, o, n, m in axes]

    def _note_row(self, offset: tuple[Array, ...] | None) -> None:
        """In one dimension, bits 4 to 7 of an offset are one along y, where only a border is."""
        fields = self.fields
        if offset is not None and fields.rank == 1 and not fields.layers and fields.address[1] == "border":
            self.row = ((as_array(offset[0]).view(np.int32) >> 4) + 8 & 15) - 8

    # ---- memory ------------------------------------------------------------------------------

    def _raw(self, level: int, lanes: Array, spots: list[Spot], layer: Array) -> tuple[Array, ...]:
        """The channels of one element of each lane, or the border."""
        fields = self.fields
        inside: Array = np.logical_and.reduce([np.broadcast_to(i, lanes.shape) for _, i in spots])
        if self.whole and fields.layers and len(fields.levels) == 1:
            inside = inside & (np.asarray(self.index) < fields.layers)
        address = self._address(level, [place for place, _ in spots], layer)
        if self.multisampled:
            number, samples = np.asarray(self.number).astype(np.int64), max(fields.samples, 1)
            address, inside = address + number * (fields.element // samples), inside & (number < samples)
        memory = self.port.memory(lanes & inside)
        if fields.format == "a2b10g10r10":
            (word,) = memory.load("global", Address(address), TYPES["b32"], 1)
            found: tuple[Array, ...] = tuple([word >> np.uint32(shift) & np.uint32(1023) for shift in (0, 10, 20, 30)])
        else:
            found = memory.load("global", Address(address), TYPES[fields.format], fields.channels)
        if inside.all():
            return found
        colour = [0.0 if self.whole else value for value in fields.border]
        border = [self.edge(n, v) for n, v in enumerate(colour)]
        return tuple(np.where(inside, raw, edge) for raw, edge in zip(found, border, strict=False))

    def edge(self, number: int, value: float) -> Array:
        """A channel of the border as an element."""
        return filtering.in_srgb(value) if self._in_srgb(number) else _border(value, self.fields)

    def _address(self, level: int, places: list[Array], layer: Array) -> Array:
        fields = self.fields
        _, height, depth = fields.extents(level)
        zero = np.zeros(1, np.int64)
        x, y, z = [*places[: self.rank], zero, zero][:3]
        pitch = fields.pitch_of(level)
        start = fields.levels[level] + ((layer * depth + z) * height + y) * pitch
        found: Array = np.broadcast_to(start + x * fields.element, self.mask.shape).astype(np.int64)
        return found

    def surface(self, size: int, outside: str, *, scaled: bool) -> tuple[Array, Array]:
        """The address of each lane's access of ``size`` bytes to a surface, and which lanes do it."""
        fields = self.fields
        x, *rest = (c.view(np.int32).astype(np.int64) for c in self.raw_places)
        x = x * fields.element if scaled else x
        bounds = fields.extents(0)
        last = bounds[0] * fields.element - size
        inside = (x >= 0) & (x <= last)
        for place, n in zip(rest, bounds[1:], strict=False):
            inside = inside & (place >= 0) & (place < n)
        layer = np.asarray(self.index).astype(np.int64)
        layers = max(fields.layers, 1) * max(fields.faces, 1)
        inside = inside & (layer < layers)
        if outside == "trap" and (self.mask & ~inside).any():
            self.port.machine.fault(
                "out-of-bounds",
                "an access outside of the surface traps",
                self.port.group,
                self.mask & ~inside,
                advice="check the coordinates; the first counts bytes",
            )
        rest = [place.clip(0, n - 1) for place, n in zip(rest, bounds[1:], strict=False)]
        start = self._address(0, [np.zeros(1, np.int64), *rest], layer.clip(0, layers - 1))
        inside = inside if outside != "clamp" else np.ones_like(inside)
        return start + x.clip(0, max(last, 0)), np.broadcast_to(inside, self.mask.shape)


def _moved(offset: tuple[Array, ...] | None, rank: int) -> list[Array | int]:
    """An offset along each axis: the low four bits, signed."""
    if offset is None:
        return [0] * rank
    return [(as_array(o).view(np.int32).astype(np.int64) + 8 & 15) - 8 for o in offset]


def _border(value: float, fields: Fields) -> Array:
    """A border's channel as an element: of integers, the bits of a colour; of fractions, the colour is cut four bits behind an
    element's last one, and rounded, halves towards zero."""
    if fields.format == "a2b10g10r10":
        return np.array(round(min(max(value, 0.0), 1.0) * 1023))
    dtype = np.dtype(TYPES[fields.format].dtype)
    if fields.format == "f16":
        return convert.to_half(np.array(value, np.float32), dtype, "rz")
    if dtype.kind == "f":
        return np.array(value, dtype)
    if fields.integer or dtype.itemsize == 4:
        return np.array(value, np.float32).view(np.uint32).astype(dtype)
    most = int(np.iinfo(dtype).max)
    inside = min(max(value, -1.0 if dtype.kind == "i" else 0.0), 1.0)
    scaled = math.trunc(inside * (most + 1) * 16) * most / ((most + 1) * 16)
    return np.array(math.copysign(math.ceil(abs(scaled) - 0.5), scaled), dtype)
