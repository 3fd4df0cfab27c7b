"""Textures, samplers and surfaces in memory, and the values that name them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.layout.textures import BLOCK, Fields, decode
from warpsim.machine.memory.textures import object_at
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.values import Array
from warpsim.records import frozen

_NOUNS = {"texref": "texture", "samplerref": "sampler", "surfref": "surface"}


@frozen
class TextureState:
    """A texture, sampler or surface. ``name`` is a variable's, or what findings call the object."""

    handle: int
    name: str
    fields: Fields

    def __str__(self) -> str:
        fields = self.fields
        noun = _NOUNS[fields.kind]
        if fields.named and not fields.levels:
            return f"{noun} with nothing bound to it"
        x, *others = fields.size[: fields.rank]
        words = [f"{noun} of {' x '.join(map(str, [x, *others]))} {fields.format}"]
        words += [f"{fields.channels} channels"] * (fields.channels > 1)
        words += [f"{fields.layers} layers"] * (fields.layers > 0) + ["a cube"] * (fields.faces > 0)
        words += [f"{fields.samples} samples"] * (fields.samples > 0)
        if fields.kind != "surfref":
            modes = dict.fromkeys(fields.address[: fields.rank])
            words += ["linear" if fields.linear else "point", "/".join(modes if len(modes) == 1 else fields.address)]
            words += [word for word in ("normalized", "integer", "srgb", "seamless") if getattr(fields, word)]
        levels = ", ".join(f"0x{level:x}" for level in fields.levels)
        return f"{', '.join(words)}; at {levels}"


def texture_named(memory: GlobalMemory, value: Array) -> TextureState | None:
    """The texture whose handle a value is, in all lanes that have one; None for other values."""
    if value.dtype.kind not in "iu" or value.dtype.itemsize != 8:
        return None
    handles = np.unique(np.ma.compressed(value)).tolist()
    return _at(memory, handles[0]) if len(handles) == 1 else None


def textures_of(memory: GlobalMemory) -> Iterator[TextureState]:
    """The textures in memory: variables, arguments, those with handles, and those that a driver has made."""
    for allocation in memory.allocations:
        for start in range(0, allocation.data.size - BLOCK.itemsize + 1, BLOCK.itemsize):
            if decode(allocation.data[start : start + BLOCK.itemsize].tobytes()) is None:
                break
            found = _at(memory, allocation.start + start)
            if found is not None:
                yield found


def _at(memory: GlobalMemory, handle: int) -> TextureState | None:
    held = memory.find(handle, handle + BLOCK.itemsize)
    fields = None if held is None else object_at(memory, handle)
    return None if held is None or fields is None else TextureState(handle, held.name, fields)
