"""Texture and Surface: arrays that a kernel reads and writes by coordinates, and the module variables that name them."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from warpsim.errors import LaunchError, plural, shown
from warpsim.host.arrays import DeviceArray, readable
from warpsim.layout import textures as layout
from warpsim.machine.state.global_memory import HANDLE_WINDOW
from warpsim.numerics.arrays import Array

_BY_DTYPE = {f"{kind}int{bits}": f"{kind or 's'}{bits}" for kind in ("u", "") for bits in (8, 16, 32)} | {
    "float16": "f16",
    "float32": "f32",
}
_FILTERS = ("point", "linear")


class _Handles:
    """The objects that have handles, for as long as anybody holds them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._objects: weakref.WeakValueDictionary[int, Opaque] = weakref.WeakValueDictionary()

    def of(self, one: Opaque) -> int:
        """The handle of an object that has none yet."""
        with self._lock:
            handle = HANDLE_WINDOW + next(self._numbers) * layout.HANDLE_STEP
            self._objects[handle] = one
            return handle

    def find(self, handle: int) -> Opaque | None:
        """The object of a handle."""
        with self._lock:
            return self._objects.get(handle)

    def all(self) -> list[Opaque]:
        """Every object that has a handle."""
        with self._lock:
            return list(self._objects.values()) if self._objects else []


HANDLES = _Handles()


class Opaque:
    """An object that PTX calls opaque: arrays, and how a kernel reads them. ``fields`` lacks the arrays' addresses."""

    KINDS: ClassVar[tuple[str, ...]]
    """The types of variables and parameters that take it."""

    def __init__(self, arrays: tuple[Array | DeviceArray, ...], fields: layout.Fields) -> None:
        self.arrays, self.fields = arrays, fields
        self.fixed: int | None = None
        """The handle, if anybody has asked for it."""

    @property
    def handle(self) -> int:
        """The bindless handle, 64 bits, the same on every device: for tables, structures and integer parameters. It holds in all
        launches while the object exists."""
        if self.fixed is None:
            self.fixed = HANDLES.of(self)
        return self.fixed

    @property
    def host_arrays(self) -> list[Array]:
        """The arrays that a launch has to map."""
        return [array for array in self.arrays if isinstance(array, np.ndarray)]

    def encode(self, addresses: Sequence[int]) -> Array:
        """The block that says all this to a kernel, given where the arrays lie: uint8."""
        return np.frombuffer(attrs.evolve(self.fields, levels=tuple(addresses)).encode(), np.uint8)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "fixed": None}

    def __repr__(self) -> str:
        fields = self.fields
        extents = "x".join(map(str, fields.size[: fields.rank]))
        levels = f"{len(self.arrays)} level{'s' * (len(self.arrays) > 1)}"
        return f"{type(self).__name__}({extents}, {fields.format}x{fields.channels}, {levels})"


class Texture(Opaque):
    """A texture object. Pass it for a ``.texref`` or 64-bit kernel parameter, or its `handle` wherever a kernel finds it; bind it to
    a module's ``.texref`` with ``module.get_global(name).set(texture)``. A ``.samplerref`` takes one for its filter and address modes.

    ``array`` is a C-contiguous array or a `DeviceArray` with the axes ``[x]``, ``[y, x]`` or ``[z, y, x]``, as ``dims`` says. An axis
    ``[layer]`` comes before them if ``layered``, then ``[face]`` (six) if ``cube``; ``[channel]`` (1, 2 or 4) comes last if ``channels`` is given.
    Elements are u8, u16, u32, i8, i16, i32, f16 or f32.

    Args:
        dims: Number of axes, without those for layers, faces, samples and channels; by default, what the array has.
        filter: ``point`` or ``linear``.
        address: ``clamp``, ``wrap``, ``mirror`` or ``border``, one for all axes or one each.
        normalized: Coordinates are from 0 to 1.
        mipmaps: The levels after ``array``, each with half the extents of the level before. ``array`` may also be a list of all levels.
        integer: Read integers as integers; otherwise, those of 8 and 16 bits are read as fractions.
        border: The colour outside.
        srgb: Bytes that are read as fractions are in sRGB, except those of the last of two or four channels.
        seamless: Linear filtering of cubes goes across edges.
        anisotropy: Most samples along the longer gradient, 1 to 16.
        buffer: The array is linear memory of one dimension, read at integer coordinates.
        samples: Samples per element; their axis comes before that of the channels.
        mip_filter, mip_bias, mip_levels: The filter between levels of detail, what is added to the level, and its least and greatest value.

    Raises:
        LaunchError: an array or an option that no texture has.
    """

    KINDS = ("texref", "samplerref")

    def __init__(
        self,
        array: object,
        *,
        dims: int | None = None,
        channels: int | None = None,
        layered: bool = False,
        cube: bool = False,
        filter: str = "point",
        address: str | Sequence[str] = "clamp",
        normalized: bool = False,
        mipmaps: Sequence[object] | None = None,
        integer: bool = False,
        border: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
        srgb: bool = False,
        seamless: bool = False,
        anisotropy: int = 1,
        buffer: bool = False,
        samples: int = 0,
        mip_filter: str = "point",
        mip_bias: float = 0.0,
        mip_levels: tuple[float, float] | None = None,
    ) -> None:
        if not 1 <= anisotropy <= 16:
            raise LaunchError(f"anisotropy is {anisotropy}, not 1 to 16")
        levels = [*(array if isinstance(array, (list, tuple)) else [array]), *(mipmaps or ())]
        arrays, fields = _elements(levels, dims, channels, samples, layered=layered, cube=cube)
        least, most = mip_levels or (0.0, float(len(arrays)))
        red, green, blue, alpha = (float(part) for part in (*border, 0, 0, 0, 0)[:4])
        how = attrs.evolve(
            fields,
            address=_modes(address),
            linear=_choice(filter, _FILTERS) == "linear",
            mip_linear=_choice(mip_filter, _FILTERS) == "linear",
            integer=integer,
            normalized=normalized,
            srgb=srgb,
            seamless=seamless,
            anisotropy=anisotropy,
            buffer=buffer,
            bias=mip_bias,
            least=least,
            most=most,
            border=(red, green, blue, alpha),
        )
        super().__init__(arrays, how)


class Surface(Opaque):
    """A surface object. Pass it for a ``.surfref`` or 64-bit kernel parameter, or its `handle` wherever a kernel finds it; bind it to
    a module's ``.surfref`` with ``module.get_global(name).set(surface)``.

    ``array``, ``dims``, ``channels``, ``layered`` and ``cube`` are those of a `Texture`. Kernels read the array and change it in place.

    Raises:
        LaunchError: an array that no surface has.
    """

    KINDS = ("surfref",)

    def __init__(
        self,
        array: object,
        *,
        dims: int | None = None,
        channels: int | None = None,
        layered: bool = False,
        cube: bool = False,
    ) -> None:
        arrays, fields = _elements([array], dims, channels, 0, layered=layered, cube=cube)
        super().__init__(arrays, attrs.evolve(fields, kind="surfref"))


class OpaqueVariable(DeviceArray):
    """A module's ``.texref``, ``.samplerref`` or ``.surfref``, or an array of them: `set` binds objects to it, which ``bound`` then
    holds."""

    def __init__(self, view: DeviceArray, kind: str, bound: list[Opaque | None]) -> None:
        super().__init__(view._data, view.ptr, view._memory, owns=False)
        self.kind, self.bound = kind, bound

    def set(self, values: object) -> None:
        """Bind an object, or one for each element of an array; None takes it off."""
        listed = values if isinstance(values, (list, tuple)) else [values]
        given = [None if one is None else taken(self.kind, one) for one in listed]
        blocks = self._data.reshape(-1).view(layout.BLOCK)
        if len(given) != len(blocks):
            raise LaunchError(f"the variable takes {plural(len(blocks), 'object')}, not {len(given)}")
        with self._memory.lock:
            blocks["object"] = [0 if one is None else one.handle for one in given]
            self.bound[:] = given


def taken(kind: str, value: object) -> Opaque:
    """What a variable or parameter of an opaque type takes.

    Raises:
        LaunchError: it is something else.
    """
    if not isinstance(value, Opaque) or kind not in value.KINDS:
        wanted = "Surface" if kind == "surfref" else "Texture"
        raise LaunchError(f"takes a warpsim.{wanted}, not {shown(value)}; pass warpsim.{wanted}(array)")
    return value


def _elements(
    levels: Sequence[object], dims: int | None, channels: int | None, samples: int, *, layered: bool, cube: bool
) -> tuple[tuple[Array | DeviceArray, ...], layout.Fields]:
    """The levels' arrays, and what their elements are."""
    arrays = _checked(levels)
    shape: tuple[int, ...] = arrays[0].shape
    dtype, outer, inner = arrays[0].dtype, layered + cube, (samples > 0) + (channels is not None)
    rank = 2 if cube else len(shape) - outer - inner if dims is None else dims
    if rank not in (1, 2, 3):
        raise LaunchError(f"the array has the shape {shape}; a texture has one to three axes beside {_BESIDE}")
    axes = [*["layers"] * layered, *["faces"] * cube, *["z", "y", "x"][-rank:]]
    axes += ["samples"] * (samples > 0) + ["channels"] * (channels is not None)
    if len(shape) != len(axes):
        raise LaunchError(f"the array has the shape {shape}; {', '.join(axes)} are asked for")
    if (samples and not 1 <= samples <= 16) or (samples and shape[outer + rank] != samples):
        raise LaunchError(f"the array has the shape {shape}; it has no axis of {samples} samples, of 1 to 16")
    if channels not in (None, 1, 2, 4) or (channels is not None and shape[-1] != channels):
        raise LaunchError(f"the array has the shape {shape}; its last axis are 1, 2 or 4 channels, not {channels}")
    if cube and shape[layered] != 6:
        raise LaunchError(f"a cube has six faces; the array has the shape {shape}")
    x, y, z, *_ = [*shape[outer : outer + rank][::-1], 1, 1]
    fields = layout.Fields(
        rank=rank,
        size=(x, y, z),
        format=_BY_DTYPE[dtype.name],
        channels=channels or 1,
        layers=shape[0] if layered else 0,
        faces=6 if cube else 0,
        samples=samples,
    )
    for number, one in enumerate(arrays):
        wanted = (*shape[:outer], *fields.extents(number)[:rank][::-1], *shape[outer + rank :])
        if one.shape != wanted or one.dtype != dtype:
            raise LaunchError(f"level {number} is {one.shape} of {one.dtype}; it must be {wanted} of {dtype}")
    return arrays, fields


_BESIDE = "layers (layered=True), faces (cube=True), samples (samples=) and channels (channels=)"


def _checked(levels: Sequence[object]) -> tuple[Array | DeviceArray, ...]:
    if not 1 <= len(levels) <= layout.MOST_LEVELS:
        raise LaunchError(f"a texture has 1 to {layout.MOST_LEVELS} levels, not {len(levels)}")
    arrays = tuple([readable(one) for one in levels])
    for one in arrays:
        on_host = isinstance(one, np.ndarray) and one.flags.c_contiguous
        if not (on_host or isinstance(one, DeviceArray)) or one.nbytes == 0:
            raise LaunchError(f"a texture takes C-contiguous arrays that are not empty, not {shown(one)}")
        if one.dtype.name not in _BY_DTYPE:
            raise LaunchError(f"a texture has elements of {', '.join(_BY_DTYPE)}, not {one.dtype}")
    return arrays


def _choice(word: str, known: Sequence[str]) -> str:
    if word not in known:
        raise LaunchError(f"{shown(word)} is none of {', '.join(known)}")
    return word


def _modes(address: str | Sequence[str]) -> tuple[str, str, str]:
    given = (address,) * 3 if isinstance(address, str) else (*address, *("clamp",) * 3)[:3]
    x, y, z = (_choice(mode, layout.ADDRESS_MODES) for mode in given)
    return x, y, z
