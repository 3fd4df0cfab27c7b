"""Converts a captured launch to a case: pointers become buffers, cut to what a replay accesses and typed by its
accesses."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import numpy as np

from warpsim.capture.launches import Captured
from warpsim.errors import WarpsimError
from warpsim.host.cases import Case, CaseResult, run_prepared
from warpsim.host.kernel import Module, load_text
from warpsim.host.launch_options import Keywords
from warpsim.host.recipes import DTYPES
from warpsim.host.recording import FORMAT, write_case
from warpsim.layout import tensor_map as layout
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.watcher import MemoryAccess, Watcher
from warpsim.numerics.arrays import Array
from warpsim.program.program import Param
from warpsim.records import define
from warpsim.types import JsonObject

ALIGNMENT = 256
REPLAY: Keywords = {
    "checks": "none",
    "on_finding": "collect",
    "max_instructions": 200_000_000,
    "max_seconds": 300.0,
}


@define
class Touched:
    """What a launch accesses in an allocation, and the types that it uses."""

    low: int = 1 << 62
    high: int = 0
    types: dict[str, int] = attrs.field(factory=dict)

    def add(self, low: int, high: int, kind: str | None = None, times: int = 1) -> None:
        """Add an accessed range of bytes."""
        self.low, self.high = min(self.low, low), max(self.high, high)
        if kind is not None:
            self.types[kind] = self.types.get(kind, 0) + times


class Reach(Watcher):
    """Notes what a prepared case accesses in each buffer."""

    def __init__(self, bases: dict[str, tuple[int, int]]) -> None:
        self.bases = bases
        self.found = {name: Touched() for name in bases}

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note loads, stores and atomics of lanes."""
        if access.space != "global":
            return
        places = np.broadcast_to(np.asarray(access.place), group.selection.shape)
        if access.active is not None:
            places = places[np.broadcast_to(access.active, group.selection.shape)]
        if places.size:
            self._note(places.reshape(-1), access.nbytes, _type_of(group.instruction.text))

    def global_tile_accessed(
        self, machine: Machine, group: Group, positions: Array, access: int, address: Array, nbytes: int
    ) -> None:
        """Note bulk copies."""
        self._note(np.asarray(address).reshape(-1), nbytes, None)

    def _note(self, places: Array, nbytes: int, kind: str | None) -> None:
        for name, (start, size) in self.bases.items():
            inside = places[(places >= start) & (places < start + size)]
            if inside.size:
                self.found[name].add(int(inside.min()) - start, int(inside.max()) - start + nbytes, kind, inside.size)


def _type_of(text: str) -> str | None:
    words = [w for w in text.split()[0].split(".") if w in DTYPES or w in ("f16x2", "bf16x2")]
    return {"f16x2": "f16", "bf16x2": "bf16"}.get(words[-1], words[-1]) if words else None


def convert(launch: Captured, folder: Path) -> CaseResult:
    """Write a captured launch as a case; returns the result of its replay."""
    module = load_text(launch.ptx, f"{launch.name}.ptx")
    whole = _describe(launch, module, {}, folder.name)
    reach = _replayed(launch, folder, *whole)
    return _written(launch, module, folder, reach)


def _replayed(launch: Captured, folder: Path, description: JsonObject, data: dict[str, Array]) -> dict[str, Touched]:
    """What a replay with whole allocations accesses; empty if the replay fails."""
    case = Case(folder, description, data, (launch.ptx, "kernel.ptx"), None)
    ready = case.prepare()
    watcher = Reach({name: (b.ptr, b.nbytes) for name, b in ready.buffers.items()})
    try:
        ready.launch(watchers=[watcher], **REPLAY)
    except WarpsimError:
        return {}
    return watcher.found


def _written(launch: Captured, module: Module, folder: Path, reach: dict[str, Touched]) -> CaseResult:
    description, data = _describe(launch, module, reach, folder.name)
    write_case(folder, description, data, launch.ptx)
    return run_prepared(Case.read(folder).prepare(), **REPLAY)


def _describe(
    launch: Captured, module: Module, reach: dict[str, Touched], name: str
) -> tuple[JsonObject, dict[str, Array]]:
    """Make case.json and data.npz, with allocations cut to what is accessed."""
    data: dict[str, Array] = {}
    cuts: dict[int, tuple[str, int]] = {}
    buffers = []
    for number, (start, held) in enumerate(sorted(launch.memory.items())):
        buffer = f"memory{number}"
        before, after = (np.frombuffer(side, np.uint8) for side in held)
        touched = reach.get(buffer)
        low, high, kind = _cut(before, after, touched)
        cuts[start] = buffer, low
        dtype = DTYPES[kind]
        before, after = before[low:high].view(dtype), after[low:high].view(dtype)
        same, blank = bool((before == after).all()) and before.tobytes() == after.tobytes(), not before.any()
        spec: JsonObject = {"name": buffer, "dtype": kind, "shape": [len(before)], "nbytes": before.nbytes}
        spec["role"] = "in" if same else "out" if blank else "inout"
        spec["in"] = None if blank else f"in_{buffer}"
        spec["out"] = spec["in"] if same else f"out_{buffer}"
        data |= {key: values for key, values in ((spec["in"], before), (spec["out"], after)) if key}
        if len(before) or any(start <= _address(raw) < start + len(held[0]) for raw in launch.params):
            buffers.append(spec)
    kernel = module[launch.name]
    params = [
        _param(index, param, raw, launch, cuts)
        for index, (param, raw) in enumerate(zip(kernel.function.params, launch.params, strict=True))
    ]
    variables = []
    for variable, (was, now) in launch.variables.items():
        spec = {"name": variable, "in": f"in_variable_{variable}"}
        data[spec["in"]] = np.frombuffer(was, np.uint8)
        if was != now:
            spec["out"] = f"out_variable_{variable}"
            data[spec["out"]] = np.frombuffer(now, np.uint8)
        variables.append(spec)
    description = {
        "format": FORMAT,
        "name": name,
        "origin": _origin(launch.ptx),
        "note": "recorded from a running program",
        "entry": launch.name,
        "target": module.target,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "cluster": list(launch.cluster) if launch.cluster else None,
        "cooperative": launch.cooperative,
        "dynamic_smem": launch.shared,
        "params": params,
        "buffers": buffers,
        **({"globals": variables} if variables else {}),
        "check": {b["name"]: {"mode": "bits"} for b in buffers if b["out"]},
        "hardware": launch.hardware,
    }
    return description, data


def _cut(before: Array, after: Array, touched: Touched | None) -> tuple[int, int, str]:
    """The first and last byte of an allocation that matter, and its element type."""
    if touched is None:
        return 0, len(before), "u8"
    changed = np.flatnonzero(before != after)
    if len(changed):
        touched.add(int(changed[0]), int(changed[-1]) + 1)
    if touched.high == 0:
        return 0, 0, "u8"
    kinds = sorted(touched.types, key=lambda k: (-touched.types[k], k[0] in "bu"))
    kind = kinds[0] if kinds else "u8"
    low = touched.low - touched.low % ALIGNMENT
    size = DTYPES[kind].itemsize
    high = min(-(-touched.high // max(size, 16)) * max(size, 16), len(before))
    return (low, high, kind) if (high - low) % size == 0 else (low, high, "u8")


def _address(raw: bytes) -> int:
    return int.from_bytes(raw[:8], "little")


def _place(address: int, launch: Captured, cuts: dict[int, tuple[str, int]]) -> tuple[str, int] | None:
    for start, held in launch.memory.items():
        if start <= address < start + len(held[0]):
            buffer, low = cuts[start]
            return buffer, address - start - low
    return None


def _param(index: int, param: Param, raw: bytes, launch: Captured, cuts: dict[int, tuple[str, int]]) -> JsonObject:
    if index in launch.maps:
        return _tensor_map(launch.maps[index], launch, cuts)
    if not param.array and param.type.bits == 64 and param.type.kind != "f":
        place = _place(_address(raw), launch, cuts)
        if place is not None:
            return {"kind": "ptr", "buffer": place[0], "byte_offset": place[1]}
    if param.array:
        pointers = [
            {"at": at, "buffer": place[0], "byte_offset": place[1]}
            for at in range(0, len(raw) - 7, 8)
            if (place := _place(_address(raw[at:]), launch, cuts)) is not None
        ]
        return {"kind": "bytes", "size": len(raw), "hex": raw.hex(), **({"pointers": pointers} if pointers else {})}
    if param.type.kind == "f" and param.type.bits in (32, 64):
        value = float(np.frombuffer(raw, f"<f{len(raw)}")[0])
        if np.isfinite(value):
            return {"kind": "scalar", "dtype": f"f{param.type.bits}", "value": value}
    kind = "s" if param.type.kind == "s" else "u"
    number = int.from_bytes(raw, "little", signed=kind == "s")
    return {"kind": "scalar", "dtype": f"{kind}{8 * len(raw)}", "value": number}


def _tensor_map(found: JsonObject, launch: Captured, cuts: dict[int, tuple[str, int]]) -> JsonObject:
    place = _place(found["address"], launch, cuts)
    if place is None:
        raise WarpsimError(f"{launch.name}: the memory of a tensor map is not known")
    spec = {key: value for key, value in found.items() if key != "address"}
    spec |= {
        "kind": "tensormap",
        "buffer": place[0],
        **({"byte_offset": place[1]} if place[1] else {}),
        "data_type": layout.DATA_TYPES[found["data_type"]],
        "interleave": layout.INTERLEAVES[found["interleave"]],
        "swizzle": layout.SWIZZLES[found["swizzle"]],
        "l2_promotion": layout.PROMOTIONS[found["l2_promotion"]],
        "oob_fill": layout.FILLS[found["oob_fill"]],
    }
    return spec


def _origin(ptx: str) -> str:
    found = re.search(r"^// (Generated by .*|Cuda compilation tools.*)$", ptx, re.M)
    return found[1].strip() if found else "recorded"
