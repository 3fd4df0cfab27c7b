"""Kernel arguments described on the command line: numbers, arrays, tensor maps, textures, surfaces, and structs of the first three."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from warpsim.cli.output import Unusable
from warpsim.errors import LaunchError
from warpsim.host import tensor_map, texture
from warpsim.host.arguments import pack_scalar
from warpsim.host.arrays import DeviceArray
from warpsim.host.device import Device
from warpsim.host.files import read_array, text_of
from warpsim.host.recipes import DTYPES, GENERATORS, Recipe, recipe
from warpsim.numerics.arrays import Array, DType
from warpsim.records import frozen

Place = Callable[[Array], Any]
"""What a launch gets for an array: the array itself, or a copy on its device."""
MAP_ALIGNMENT, POINTER = 64, 8


@frozen(eq=False)
class Argument:
    """A number, bytes or an array (with the recipe that made it), and the file to write it to afterwards."""

    value: Any
    path: str | None = None
    recipe: Recipe | None = None

    def arrays(self) -> Iterator[Argument]:
        """The arrays in it."""
        if isinstance(self.value, np.ndarray):
            yield self

    def made(self, place: Place) -> Any:
        """What the launch gets."""
        return place(self.value) if isinstance(self.value, np.ndarray) else self.value


@frozen(eq=False)
class ObjectArgument:
    """A tensor map, texture or surface of an array: the class in `warpsim`, and its other arguments."""

    kind: str
    source: Argument
    options: Mapping[str, Any]

    def arrays(self) -> Iterator[Argument]:
        """The array."""
        return self.source.arrays()

    def made(self, place: Place) -> Any:
        """A `TensorMap`, `Texture` or `Surface`."""
        made = tensor_map.TensorMap if self.kind == "TensorMap" else getattr(texture, self.kind)
        return made(self.source.made(place), **self.options)


@frozen(eq=False)
class StructArgument:
    """Fields in memory, laid out as C does."""

    fields: Field

    def arrays(self) -> Iterator[Argument]:
        """The arrays to which it points."""
        return _arrays(self.fields)

    def made(self, place: Place) -> bytes:
        """Its bytes. The arrays must live on a device."""
        return _laid_out(self.fields, place)[1]


Given = Argument | ObjectArgument | StructArgument
Field = bytes | Argument | ObjectArgument | list["Field"] | dict[str, "Field"]
"""A number as its bytes, raw bytes, an array for a pointer to it, a tensor map, an array of fields, a struct."""


class Placed:
    """Arrays on a device for a launch, each once, so that pointers in structs can refer to them."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._made: dict[int, tuple[Array, DeviceArray]] = {}

    def __call__(self, array: Array) -> DeviceArray:
        """The array on the device."""
        if id(array) not in self._made:
            self._made[id(array)] = array, self.device.array(array)
        return self._made[id(array)][1]

    def fetch(self) -> None:
        """Copy the arrays back."""
        for array, there in self._made.values():
            np.copyto(array, there.get())


# ---- numbers and arrays ---------------------------------------------------------------------------


def _type_of(name: str) -> DType | None:
    """The element type of a name; ``i32`` is ``s32``."""
    return DTYPES.get("s" + name[1:] if name.startswith("i") else name)


def dims(text: str) -> tuple[int, ...]:
    """Parse ``16,16`` or ``16x16`` as integers."""
    try:
        return tuple(int(v) for v in text.replace("x", ",").split(","))
    except ValueError:
        raise Unusable(f"{text!r} is not an extent; use the form 16,16") from None


def argument(text: str, named: Mapping[str, Argument] | None = None) -> Given:
    """Parse one ``--arg``; ``named`` are the arrays of ``--array``."""
    kind, _, rest = text.partition(":")
    body, _, path = rest.partition("=")
    dtype = _type_of(kind)
    try:
        if kind == "array":
            return _named(rest, named or {})
        if kind in _OBJECTS:
            return _OBJECTS[kind](rest, named or {})
        if kind == "struct":
            return StructArgument(_fields(_json(rest), named or {}))
        if kind in ("in", "inout"):
            return Argument(read_array(body), path or (body if kind == "inout" else None))
        if kind in ("zeros", "out"):
            return Argument(_zeros(body), path or None)
        if dtype is not None:
            with np.errstate(over="ignore"):
                return Argument(dtype.type(float(body)) if kind.startswith("f") else int(body, 0))
        if kind == "bytes":
            return Argument(bytes.fromhex(body))
        if kind in GENERATORS:
            return _generated(kind, rest)
    except (ValueError, OverflowError, MemoryError, LaunchError, Unusable) as problem:
        raise Unusable(f"--arg {text}: {problem}") from None
    kinds = dict.fromkeys(["in", "inout", "out", "zeros", "bytes", "array", *_OBJECTS, "struct", *DTYPES, *GENERATORS])
    raise Unusable(f"--arg {text}: unknown kind {kind!r}; kinds: {', '.join(kinds)}")


def _generated(generator: str, text: str) -> Argument:
    """Parse ``TYPE:SHAPE``, then numbers of the generator, then a file: ``f16:64x64:seed=3:mean=1=x.npy``."""
    found = re.fullmatch(r"(\w+):([\dx,]+)((?::\w+=[-+.\w]+)*)(?:=(.+))?", text)
    if found is None:
        raise Unusable(f"use the form {generator}:f32:64x64 or {generator}:f32:64x64:seed=3")
    name, shape, numbers, path = found.groups()
    named = {key: float(value) for key, _, value in (part.partition("=") for part in numbers.split(":")[1:])}
    seed = int(named.pop("seed", 0))
    dtype = "s" + name[1:] if re.fullmatch(r"i\d+", name) else name
    made = recipe(generator, dims(shape), dtype, seed=seed, **named)
    return Argument(made.array(), path, made)


def _zeros(text: str) -> Array:
    name, _, shape = text.partition(":")
    dtype = _type_of(name)
    if dtype is None:
        raise Unusable(f"{name!r} is not a type; types: {', '.join(DTYPES)}")
    return np.zeros(dims(shape), dtype)


def named_arrays(texts: Sequence[str]) -> dict[str, Argument]:
    """Parse each ``--array NAME=KIND:...``."""
    found: dict[str, Argument] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        given = argument(rest) if name.isidentifier() and rest else None
        if not isinstance(given, Argument) or not isinstance(given.value, np.ndarray):
            raise Unusable(f"--array {text}: use the form A=normal:f16:64x64, A=in:a.npy or A=out:f32:64=a.npy")
        found[name] = given
    return found


def _named(name: str, named: Mapping[str, Argument]) -> Argument:
    if name not in named:
        raise Unusable(f"no array {name!r}; arrays of --array: {', '.join(named) or 'none'}")
    return named[name]


# ---- tensor maps ----------------------------------------------------------------------------------

_DIMS = {"box": "box_dim", "dims": "global_dim", "strides": "global_strides", "element_strides": "element_strides"}
_WORDS = {
    "swizzle": "swizzle",
    "interleave": "interleave",
    "l2": "l2_promotion",
    "fill": "oob_fill",
    "type": "data_type",
}
_OPTION = re.compile(rf":({'|'.join([*_DIMS, *_WORDS])})=([^:=]+)")


def _tensor_map(text: str, named: Mapping[str, Argument]) -> ObjectArgument:
    """Parse ``A:box=64x64:swizzle=128B``; ``A`` is the name of an array, or an array as an argument."""
    given = dict(_OPTION.findall(text))
    held = _array(_OPTION.sub("", text), named)
    if "box" not in given:
        raise Unusable("use the form tensormap:A:box=64x64:swizzle=128B, the innermost dimension first")
    shape, itemsize = held.value.shape, held.value.dtype.itemsize
    strides = [itemsize * int(np.prod(shape[at:], dtype=np.int64)) for at in range(len(shape) - 1, 0, -1)]
    options: dict[str, Any] = {"global_dim": shape[::-1], "global_strides": strides}
    options |= {_DIMS[key]: dims(value) for key, value in given.items() if key in _DIMS}
    options |= {_WORDS[key]: value for key, value in given.items() if key in _WORDS}
    return ObjectArgument("TensorMap", held, options)


def _array(source: str, named: Mapping[str, Argument]) -> Argument:
    held = named[source] if source in named else argument(source, named) if ":" in source else _named(source, named)
    if not isinstance(held, Argument) or not isinstance(held.value, np.ndarray):
        raise Unusable(f"{source!r} is no array")
    return held


# ---- textures and surfaces ------------------------------------------------------------------------

_SHAPE: dict[str, Callable[[str], int | str]] = {"dims": int, "channels": int, "layered": int, "cube": int}
_READ: dict[str, Callable[[str], int | str]] = {
    "filter": str, "address": str, "normalized": int, "integer": int, "srgb": int, "seamless": int, "samples": int
}  # fmt: skip
_IMAGES = {"Texture": {**_SHAPE, **_READ}, "Surface": _SHAPE}


def _image(kind: str, text: str, named: Mapping[str, Argument]) -> ObjectArgument:
    """Parse ``A:dims=1:filter=linear``; a yes is 1, as in ``normalized=1``."""
    readers = _IMAGES[kind]
    option = re.compile(rf":({'|'.join(readers)})=([^:=]+)")
    options = {key: readers[key](value) for key, value in option.findall(text)}
    return ObjectArgument(kind, _array(option.sub("", text), named), options)


_OBJECTS: dict[str, Callable[[str, Mapping[str, Argument]], Given]] = {
    "tensormap": _tensor_map,
    "texture": partial(_image, "Texture"),
    "surface": partial(_image, "Surface"),
}


# ---- structs --------------------------------------------------------------------------------------


def _json(text: str) -> Any:
    """The description of a struct: a file, or JSON."""
    try:
        return json.loads(text if text.startswith("{") else text_of(text))
    except (OSError, ValueError) as problem:
        raise Unusable(f"a struct is a file with JSON, or JSON: {problem}") from None


def _fields(described: object, named: Mapping[str, Argument]) -> Field:
    """The fields that JSON describes: objects are structs, lists arrays, texts arguments, and null is a null pointer."""
    if isinstance(described, dict):
        return {str(name): _fields(each, named) for name, each in described.items()}
    if isinstance(described, list):
        return [_fields(each, named) for each in described]
    if described is None:
        return bytes(POINTER)
    if not isinstance(described, str):
        raise Unusable(f'{described!r} has no type: write "i32:5", "f32:1.5" or another argument as text')
    found = argument(described, named)
    if isinstance(found, StructArgument):
        return found.fields
    if isinstance(found, ObjectArgument) and found.kind != "TensorMap":
        raise Unusable(
            f"{described!r}: a struct cannot hold a texture or a surface here; pass it as an argument of its own"
        )
    kind = described.partition(":")[0]
    dtype = _type_of(kind)
    if isinstance(found, ObjectArgument) or dtype is None:
        return found
    kind = "s" if kind[0] == "i" else "f" if kind[0] == "f" else "u" if dtype.kind == "u" else "s"
    return pack_scalar(found.value, kind, 8 * dtype.itemsize)


def _arrays(field: Field) -> Iterator[Argument]:
    if isinstance(field, (dict, list)):
        for each in field.values() if isinstance(field, dict) else field:
            yield from _arrays(each)
    elif not isinstance(field, bytes):
        yield from field.arrays()


def _laid_out(field: Field, place: Place) -> tuple[int, bytes]:
    """The alignment of a field, and its bytes."""
    if isinstance(field, (dict, list)):
        alignment, data = 1, b""
        for each in field.values() if isinstance(field, dict) else field:
            least, raw = _laid_out(each, place)
            alignment = max(alignment, least)
            data += bytes(-len(data) % least) + raw
        return alignment, data + bytes(-len(data) % alignment)
    if isinstance(field, bytes):
        return len(field), field
    if isinstance(field, ObjectArgument):
        return MAP_ALIGNMENT, bytes(field.made(place))
    made = field.made(place)
    return (1, made) if isinstance(made, bytes) else (POINTER, int(made.ptr).to_bytes(POINTER, "little"))
