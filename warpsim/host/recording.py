"""Records a simulated launch as a case (case.json, kernel.ptx and data.npz), and renews the expectations of an existing one."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from warpsim.errors import LaunchError, WarpsimError
from warpsim.host.arguments import Arguments, bytes_argument, pack_scalar, refused
from warpsim.host.arrays import DeviceArray, Mapping, extent, readable
from warpsim.host.cases import Case, checked
from warpsim.host.device import Device
from warpsim.host.files import named, reason
from warpsim.host.host_memory import memory_at
from warpsim.host.kernel import Kernel, LaunchResult
from warpsim.host.launch_options import Keywords
from warpsim.host.options import Dim, dims
from warpsim.host.recipes import DTYPES, LOGICAL, Recipe, name_of
from warpsim.host.tensor_map import TensorMap
from warpsim.host.texture import HANDLES, Opaque
from warpsim.layout import tensor_map as layout
from warpsim.layout import textures
from warpsim.machine.state.global_memory import Allocation
from warpsim.numerics.arrays import Array
from warpsim.program.program import Param
from warpsim.records import define
from warpsim.types import JsonObject
from warpsim.version import VERSION

FORMAT = 2
_numbers = itertools.count()
_ORDER = (
    *("format", "name", "origin", "source", "note", "entry", "target", "ptx_version", "grid", "block", "cluster"),
    *("cooperative", "dynamic_smem", "options", "params", "buffers", "textures", "globals", "check"),
)
FILES = ("case.json", "kernel.ptx", "data.npz", "stdout.txt")


def case_text(description: JsonObject) -> str:
    """Format case.json for reviewers: one line per buffer and parameter, and the same text for the same launch."""
    known = [key for key in _ORDER if key in description]
    ordered = {key: description[key] for key in [*known, *(k for k in description if k not in known)]}
    parts = []
    for key, value in ordered.items():
        if key in ("buffers", "params", "textures", "globals") and value:
            lines = ",\n".join(f"  {json.dumps(element)}" for element in value)
            parts.append(f" {json.dumps(key)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write_case(
    folder: str | os.PathLike[str], description: JsonObject, data: dict[str, Array], ptx: str, stdout: str | None = None
) -> Path:
    """Write a case; other files of a case already there are kept.

    Raises:
        LaunchError: the folder cannot be written, or holds something other than a case; it is then unchanged.
    """
    path = named(folder)
    checked(description, path)
    beside = path.with_name(f".{path.name}-{os.getpid()}-{next(_numbers)}")
    try:
        if path.exists() and not (path / "case.json").exists() and (not path.is_dir() or any(path.iterdir())):
            raise LaunchError(f"{path} exists and is not a case; choose another folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.mkdir()
        (beside / "case.json").write_text(case_text(description), encoding="utf-8", newline="\n")
        (beside / "kernel.ptx").write_text(ptx, encoding="utf-8", newline="\n")
        with open(beside / "data.npz", "wb") as stream:
            np.savez_compressed(stream, **dict(sorted(data.items())))  # type: ignore[arg-type]
        if stdout is not None:
            (beside / "stdout.txt").write_text(stdout, encoding="utf-8", newline="\n")
        _put(beside, path)
    except (OSError, ValueError) as problem:
        if isinstance(problem, LaunchError):
            raise
        raise LaunchError(f"cannot write {path}: {reason(problem)}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return path


def _put(beside: Path, path: Path) -> None:
    """Move a written folder into place, with those files of the old one that are not part of a case."""
    if not path.exists():
        os.replace(beside, path)
        return
    for other in path.iterdir():
        if other.name not in FILES:
            copy = shutil.copytree if other.is_dir() else shutil.copy2
            copy(other, beside / other.name)
    old = path.with_name(beside.name + "-old")
    os.replace(path, old)
    try:
        os.replace(beside, path)
    except OSError:
        os.replace(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


KEPT = ("checks", "async_effects", "schedule")
"""Launch options that a case keeps."""


def record(
    kernel: Kernel,
    grid: Dim,
    block: Dim,
    args: Arguments,
    directory: str | os.PathLike[str],
    *,
    note: str = "",
    check: dict[str, JsonObject] | None = None,
    **options: Any,
) -> LaunchResult:
    """Launch a kernel and write the launch as a case: its inputs and its outputs.

    Args:
        kernel: a kernel of a loaded module.
        grid: as for calling the kernel.
        block: as for calling the kernel.
        args: as for calling the kernel; a `recipe` is stored as such.
        directory: where to write the case; a case already there is replaced.
        note: a line for readers of the case.
        check: by buffer name, how to compare it if not bit by bit: ``{"y": {"mode": "close", "rtol": 1e-6}}``.
        options: as for calling the kernel.

    Raises:
        LaunchError: the launch is rejected, or the directory cannot be written.
        ExecutionError: the launch fails. It is still recorded, without outputs, so that you can replay it.
    """
    device = options.get("device") or kernel.module.device
    if not isinstance(device, Device):
        raise LaunchError(f"device must be a warpsim.Device, not {device!r}")
    folder, grid3, block3 = named(directory), dims("grid", grid), dims("block", block)
    with device.lock:
        launched = Description(kernel, args, device)
        try:
            result = kernel(grid3, block3, launched.args, **options)
        except WarpsimError as problem:
            if not isinstance(problem, LaunchError):
                with contextlib.suppress(LaunchError):  # report the launch's own failure instead
                    launched.write(folder, grid3, block3, note, check or {}, options, None)
            raise
        launched.write(folder, grid3, block3, note, check or {}, options, result)
    return result


def _word(value: object) -> object:
    return value if isinstance(value, str | int) else ",".join(sorted(value)) if isinstance(value, Iterable) else value


def renew(folder: str | os.PathLike[str], **options: Any) -> None:
    """Run a case and store the simulator's outputs as its new expectations. ``options`` are those of `run_case`.

    Raises:
        LaunchError: the launch failed, or the case cannot be written; the case is then unchanged.
    """
    case = Case.read(folder)
    device, numerics = options.pop("device", None), options.pop("numerics", None)
    ready = case.prepare(device=device, numerics=numerics)
    try:
        result = ready.launch(**options)
    except WarpsimError as problem:
        raise LaunchError(str(problem)) from None
    description, data = dict(case.description), dict(case.data)
    description["buffers"] = [dict(b) for b in description["buffers"]]
    outputs, changed = ready.outputs(), False
    for described in [*description["buffers"], *description.get("globals", [])]:
        key = described.get("out")
        if not key:
            continue
        values: Array = outputs[key].reshape(-1).view(np.uint8)
        known = data.get(key)
        if known is not None:
            values = values[: known.nbytes].view(known.dtype).reshape(known.shape)
            if key == described.get("in") and values.tobytes() != known.tobytes():
                key = described["out"] = f"out_{described['name']}"
                described["role"] = "inout"
        elif "dtype" in described:
            values = values.view(DTYPES[described["dtype"]]).reshape(described["shape"])
        changed = changed or known is None or known.tobytes() != values.tobytes()
        data[key] = values
    if changed:  # these are not bytes from a GPU
        description.pop("hardware", None)
        description["simulated"] = {"warpsim": VERSION, "device": ready.device.target}
        description["format"] = FORMAT
    stdout = result.stdout if case.stdout is not None else None
    write_case(case.path, description, data, case.source[0], stdout)


# ---- what a case says of a launch -----------------------------------------------------------------


@define(eq=False)
class Region:
    """A buffer of a case: memory that arguments refer to, with its element type."""

    name: str
    start: int
    end: int
    view: Array
    """The memory itself, on the host or a device."""
    writable: bool
    unwritten: bool = False
    recipe: Recipe | None = None
    before: Array = attrs.field(factory=lambda: np.zeros(0, np.uint8))

    def elements(self) -> tuple[str, Array]:
        """The element type, and a copy of the memory as data.npz stores it."""
        dtype = name_of(self.view.dtype)
        values = np.ascontiguousarray(self.view)
        if dtype is None:
            return "u8", values.reshape(-1).view(np.uint8).copy()
        return dtype, values.view(DTYPES[dtype]).copy()


class Description:
    """Describes a launch's inputs before it runs, and its outputs afterwards."""

    def __init__(self, kernel: Kernel, args: Arguments, device: Device) -> None:
        self.kernel, self.device = kernel, device
        self.regions: list[Region] = []
        self.args: list[object] = []
        self.params: list[JsonObject] = []
        self._tables: dict[int, list[JsonObject]] = {}
        self.textures: list[JsonObject] = []
        self._objects: dict[Opaque | int, str] = {}
        """Names of textures and surfaces, by themselves or their addresses on the device."""
        arrays: list[tuple[str, Array, Recipe | None]] = []
        for index, (param, value) in enumerate(zip(kernel.params, args, strict=False)):
            name = _plain_name(kernel.name, param.name, index)
            recipe = value if isinstance(value, Recipe) else None
            value = value.array() if recipe is not None else value
            maps, block = isinstance(value, TensorMap), kernel.function.params[index].array
            value = value if maps or block or isinstance(value, Opaque) else readable(value)
            if isinstance(value, Opaque):
                arrays += [(f"{name}_elements", array, None) for array in value.host_arrays]
            held = value.array if maps else value
            if isinstance(held, np.ndarray) and held.ndim and (maps or not block):
                arrays.append((name, held, recipe))
            self.args.append(value)
        self.args += list(args)[len(self.args) :]  # too many: the launch reports it
        self._host_regions(arrays)
        self.params = [
            self._param(index, param, value)
            for index, (param, value) in enumerate(zip(kernel.function.params, self.args, strict=False))
        ]
        self.bound = self._bindings()
        self._look_for_tables()
        for region in self.regions:
            region.before = region.elements()[1]
        self.variables = {name: data.copy() for name, data in self._variables()}
        self.fresh = {v.name: v.initial for v in kernel.module.program.variables}

    # ---- regions -----------------------------------------------------------------------------

    def _host_regions(self, arrays: list[tuple[str, Array, Recipe | None]]) -> None:
        """Make one region for all arrays that share bytes, viewed as the array that contains the others, or as bytes."""
        spans = sorted({extent(a) for _, a, _ in arrays})
        merged: list[list[int]] = []  # in address order
        for start, end in spans:
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        first = [min(i for i, (_, a, _) in enumerate(arrays) if start <= extent(a)[0] <= end) for start, end in merged]
        for _, (start, end) in sorted(zip(first, merged, strict=True)):
            inside = [
                (n, a, r)
                for n, a, r in arrays
                if start <= extent(a)[0] and extent(a)[1] <= end and a.flags.c_contiguous
            ]
            whole = next(((n, a, r) for n, a, r in inside if extent(a) == (start, end)), None)
            if whole is not None:
                name, view, recipe = whole
            elif inside:
                name, recipe = inside[0][0], None
                view = memory_at(start, end - start)
            else:
                continue  # not contiguous: the launch reports it
            self._add(Region(name, start, end, view, any(a.flags.writeable for _, a, _ in inside), recipe=recipe))

    def _add(self, region: Region) -> Region:
        region.name = self._free_name(region.name)
        self.regions.append(region)
        return region

    def _free_name(self, base: str) -> str:
        names = {r.name for r in self.regions} | {t["name"] for t in self.textures}
        numbered = (f"{base}_{n}" for n in itertools.count(2))
        return next(name for name in itertools.chain([base], numbered) if name not in names)

    def _device_region(self, address: int, name: str, view: Array | None = None) -> Region | None:
        """The region of the device allocation that contains an address; None if there is none."""
        found = self.device.memory.nearest(address)
        if found is None or found[1] != 0:
            return None
        allocation: Allocation = found[0]
        for region in self.regions:
            if region.start == allocation.start and np.shares_memory(region.view, allocation.data):
                return region
        data = allocation.data if view is None or view.nbytes != allocation.data.size else view
        shadow = allocation.shadow
        unwritten = shadow is not None and not shadow.data.any()
        return self._add(
            Region(name, allocation.start, allocation.end, data, not allocation.read_only, unwritten=unwritten)
        )

    # ---- parameters --------------------------------------------------------------------------

    def _param(self, index: int, param: Param, value: object) -> JsonObject:
        name = _plain_name(self.kernel.name, param.name, index)
        if isinstance(value, TensorMap):
            place = self._pointer(value.array, name)
            if place is None:
                raise LaunchError(f"the tensor map {param.name} describes unknown memory")
            return _map_param(value.fields, *place)
        if param.array:
            try:
                return self._bytes(bytes_argument(param, value))
            except LaunchError as error:
                raise refused(self.kernel.function, param, error) from None
        if value is None:
            return {"kind": "ptr", "buffer": None, "byte_offset": 0}
        if param.type.bits == 64 and param.type.kind != "f":
            place = self._pointer(value, name)
            if place is not None:
                return {"kind": "ptr", "buffer": place[0], "byte_offset": place[1]}
        try:
            pack_scalar(value, param.type.kind, param.type.bits)
        except LaunchError as error:
            raise refused(self.kernel.function, param, error) from None
        return _scalar(param, value)

    def _pointer(self, value: Any, name: str) -> tuple[str, int] | None:
        """The buffer that an argument refers to, and where in it; or the texture."""
        if isinstance(value, Opaque):
            return self._texture(value, value.fields, value.arrays, name), 0
        if isinstance(value, DeviceArray):
            region = self._device_region(value.ptr, name, value._data)
            return None if region is None else (region.name, value.ptr - region.start)
        if isinstance(value, Mapping):
            value = value.ptr
        if isinstance(value, np.ndarray) and value.ndim:
            start = extent(value)[0]
            for region in self.regions:
                if region.start <= start and (start < region.end or start == region.start):
                    return region.name, start - region.start
            return None
        try:
            address = int(value)
        except Exception:  # whatever an object of the caller's raises
            return None
        return self._place(address, name) if address > 0 else None

    def _place(self, address: int, name: str) -> tuple[str, int] | None:
        """The buffer that contains an address, and where in it; or the texture whose handle it is."""
        made = HANDLES.find(address)
        if made is not None:
            return self._pointer(made, name)
        found = self.device.memory.at(address)
        size = textures.BLOCK.itemsize
        fields = None if found is None or found.data.size != size else textures.decode(found.data.tobytes())
        if fields is not None and not fields.named:
            return self._texture(address, fields, fields.levels, name), 0
        region = self._device_region(address, name)
        return None if region is None else (region.name, address - region.start)

    def _texture(self, key: Opaque | int, fields: textures.Fields, levels: Sequence[Any], name: str) -> str:
        """The name of a texture or surface, described with its levels."""
        known = self._objects.get(key)
        if known is None:
            known = self._objects[key] = self._free_name(name)
            spec: JsonObject = {"name": known, **textures.described(fields), "levels": []}
            self.textures.append(spec)
            for level in levels:
                if isinstance(level, np.ndarray) and self._pointer(level, name) is None:
                    self._host_regions([(f"{known}_elements", level, None)])
                place = self._pointer(level, f"{known}_elements")
                if place is None:
                    raise LaunchError(f"the texture {known} reads unknown memory")
                spec["levels"].append({"buffer": place[0], "byte_offset": place[1]})
        return known

    def _bindings(self) -> list[JsonObject]:
        """The variables that textures and surfaces are bound to."""
        found = []
        for name, data in self._variables(opaque=True):
            bound = []
            for raw in data.reshape(-1, textures.BLOCK.itemsize):
                fields = textures.decode(raw.tobytes())
                assert fields is not None, f"{name} holds a block"
                place = self._place(fields.object, name) if fields.object else None
                if fields.levels:  # the driver's, in the variable itself
                    place = self._texture(extent(raw)[0], fields, fields.levels, name), 0
                bound.append(place and place[0])
            if any(bound):
                found.append({"name": name, "textures": bound})
        return found

    def _bytes(self, raw: bytes) -> JsonObject:
        spec: JsonObject = {"kind": "bytes", "size": len(raw), "hex": raw.hex()}
        pointers = [{"at": at, **place} for at, place in self._addresses(raw)]
        return {**spec, "pointers": pointers} if pointers else spec

    def _addresses(self, raw: bytes) -> Iterator[tuple[int, JsonObject]]:
        """Words that are device addresses: their offset, and the buffer and offset that they point to."""
        for at in range(0, len(raw) - 7, 8):
            address = int.from_bytes(raw[at : at + 8], "little")
            place = self._place(address, "pointed_to") if address >= 1 << 32 else None
            if place is not None:
                yield at, {"buffer": place[0], "byte_offset": place[1]}

    def _look_for_tables(self) -> None:
        """Find buffers that contain only addresses: tables of pointers."""
        for region in self.regions:  # grows: a table may point to another table
            if region.view.dtype.kind in "iu" and region.view.dtype.itemsize == 8 and 0 < region.view.size <= 1 << 16:
                raw = np.ascontiguousarray(region.view).tobytes()
                found = list(self._addresses(raw))
                if found and len(found) == np.count_nonzero(region.view):
                    self._tables[id(region)] = [{**place, "at": at} for at, place in found]

    def _variables(self, *, opaque: bool = False) -> Iterator[tuple[str, Array]]:
        """The module's variables of opaque types, or else the others, and their bytes."""
        image = self.kernel.module.image(self.device)
        for variable in self.kernel.module.program.variables:
            if (variable.type.name in textures.KINDS) != opaque:
                continue
            if variable.unique in image.addresses and variable.size:
                allocation = self.device.memory.at(image.addresses[variable.unique])
                if allocation is not None:
                    yield variable.name, allocation.data

    # ---- the case ----------------------------------------------------------------------------

    def write(
        self,
        folder: Path,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        note: str,
        check: dict[str, JsonObject],
        options: Keywords,
        result: LaunchResult | None,
    ) -> None:
        """Write the case of a launch with these options; ``result`` is None if it failed."""
        described, data = self.describe(ended=result is not None)
        kept = {key: _word(options[key]) for key in KEPT if options.get(key) not in (None, "eager")}
        if self.device.numerics != "exact":
            kept["numerics"] = self.device.numerics
        cluster, known = options.get("cluster"), [b["name"] for b in described["buffers"]]
        if unknown := set(check) - set(known):
            raise LaunchError(f"check= names unknown buffers {', '.join(sorted(unknown))}; buffers: {', '.join(known)}")
        description = {
            "format": FORMAT,
            "name": folder.name,
            "origin": f"warpsim {VERSION}",
            "note": note,
            "entry": self.kernel.name,
            "target": self.kernel.module.target,
            "grid": list(grid),
            "block": list(block),
            "cluster": None if cluster is None else list(dims("cluster", cluster)),
            "cooperative": bool(options.get("cooperative", False)),
            "dynamic_smem": int(options.get("shared_mem", 0)),
            **({"options": kept} if kept else {}),
            **described,
            "check": {**described["check"], **check},
            "simulated": {"warpsim": VERSION, "device": self.device.target},
        }
        stdout = result.stdout if result is not None and result.stdout else None
        write_case(folder, description, data, self.kernel.module.program.source, stdout)

    def describe(self, *, ended: bool) -> tuple[JsonObject, dict[str, Array]]:
        """Describe buffers, variables, parameters and arrays. ``ended``: the launch completed and has outputs."""
        data: dict[str, Array] = {}
        buffers = [self._buffer(region, data, ended=ended) for region in self.regions]
        variables = []
        for name, after in self._variables():
            before = self.variables[name]
            initial = self.fresh.get(name, b"").ljust(before.size, b"\0")
            spec: JsonObject = {"name": name}
            if before.tobytes() != initial:
                spec["in"] = f"in_variable_{name}"
                data[spec["in"]] = before
            if ended and after.tobytes() != before.tobytes():
                spec["out"] = f"out_variable_{name}"
                data[spec["out"]] = after.copy()
            if len(spec) > 1:
                variables.append(spec)
        variables += self.bound
        described: JsonObject = {"params": self.params, "buffers": buffers}
        if self.textures:
            described["textures"] = self.textures
        if variables:
            described["globals"] = variables
        described["check"] = {b["name"]: {"mode": "bits"} for b in buffers if b["out"]}
        return described, data

    def _buffer(self, region: Region, data: dict[str, Array], *, ended: bool) -> JsonObject:
        dtype, after = region.elements()
        spec: JsonObject = {"name": region.name, "dtype": dtype, "shape": list(after.shape), "nbytes": after.nbytes}
        changed = after.tobytes() != region.before.tobytes()
        blank = not region.before.any() and not np.signbit(_signed(dtype, region.before)).any()
        table = self._tables.get(id(region))
        made = region.recipe is not None or table is not None or blank
        spec["role"] = "in" if not changed else "out" if blank else "inout"
        spec["in"] = None if made else f"in_{region.name}"
        if spec["in"]:
            data[spec["in"]] = region.before
        spec["out"] = None
        if ended and region.writable and table is None:
            spec["out"] = spec["in"] if not changed and spec["in"] else f"out_{region.name}"
            if spec["out"] != spec["in"]:
                data[spec["out"]] = after
        if region.recipe is not None:
            spec["recipe"] = region.recipe.described()
            spec["out"] = spec["out"] if changed else None
        if region.unwritten:
            spec["unwritten"] = True
        if table is not None:
            spec |= {"content": "pointers", "targets": table}
        return spec


def _signed(dtype: str, values: Array) -> Array:
    """Elements as a type with a sign, so that -0.0 is not taken for zero fill."""
    logical = LOGICAL[dtype]
    found = values.view(logical) if values.dtype.itemsize == logical.itemsize else values
    return found.astype(np.float64) if found.dtype.kind in "fV" else np.zeros(0)


def _plain_name(kernel: str, param: str, index: int) -> str:
    """A parameter's name; ``arg2`` if the compiler made it up."""
    return f"arg{index}" if re.fullmatch(rf"{re.escape(kernel)}_param_\d+", param) else re.sub(r"\W", "_", param)


def _scalar(param: Param, value: Any) -> JsonObject:
    kind, bits = param.type.kind, param.type.bits
    value = value[()] if isinstance(value, np.ndarray) else value
    number = isinstance(value, float) or (isinstance(value, np.generic) and value.dtype.kind in "fV")
    if kind == "f" or (kind == "b" and number):
        name = {16: "f16", 32: "f32", 64: "f64"}[bits]
        if isinstance(value, np.generic) and value.dtype.itemsize * 8 == bits and name_of(value.dtype) != name:
            return {"kind": "scalar", "dtype": f"u{bits}", "value": int(value.view(f"u{bits // 8}"))}
        with np.errstate(all="ignore"):
            stored = DTYPES[name].type(value)
        if np.isfinite(stored):
            return {"kind": "scalar", "dtype": name, "value": float(stored)}
        return {"kind": "scalar", "dtype": name, "value": str(float(stored))}
    return {"kind": "scalar", "dtype": f"{'s' if int(value) < 0 else 'u'}{bits}", "value": int(value)}


def _map_param(fields: layout.Fields, buffer: str, offset: int) -> JsonObject:
    spec: JsonObject = {
        "kind": "tensormap",
        "buffer": buffer,
        **({"byte_offset": offset} if offset else {}),
        "data_type": layout.DATA_TYPES[fields.data_type],
        "rank": fields.rank,
        "global_dim": list(fields.dims),
        "global_strides_bytes": list(fields.strides),
        "element_strides": list(fields.element_strides),
        "interleave": layout.INTERLEAVES[fields.interleave],
        "swizzle": layout.SWIZZLES[fields.swizzle],
        "l2_promotion": layout.PROMOTIONS[fields.l2_promotion],
        "oob_fill": layout.FILLS[fields.oob_fill],
    }
    if not fields.im2col:
        return {**spec, "box_dim": list(fields.box)}
    corners = {"pixel_box_lower_corner": list(fields.lower), "pixel_box_upper_corner": list(fields.upper)}
    shape = {"channels_per_pixel": fields.channels, "pixels_per_column": fields.pixels}
    if not fields.wide:
        return {**spec, "im2col": {**corners, **shape}}
    width = {f"{name}_width": values[0] for name, values in corners.items()}
    return {**spec, "im2col_wide": {**width, **shape, "mode": layout.WIDE_MODES[fields.im2col - layout.IM2COL_W]}}
