"""Records a simulated launch as a case (case.json, kernel.ptx and data.npz), and renews the expectations of an existing one."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpsim.errors import LaunchError, WarpsimError
from warpsim.host.arrays import Array
from warpsim.host.cases import Case, checked
from warpsim.host.device import Device
from warpsim.host.files import named, reason
from warpsim.host.kernel import Kernel, LaunchResult
from warpsim.host.launch_description import Description
from warpsim.host.options import Dim, dims
from warpsim.host.recipes import DTYPES
from warpsim.version import VERSION

FORMAT = 2
_numbers = itertools.count()
_ORDER = (
    *("format", "name", "origin", "source", "note", "entry", "target", "ptx_version", "grid", "block", "cluster"),
    *("cooperative", "dynamic_smem", "options", "params", "buffers", "globals", "check"),
)
FILES = ("case.json", "kernel.ptx", "data.npz", "stdout.txt")


def case_text(description: dict[str, Any]) -> str:
    """Format case.json for reviewers: one line per buffer and parameter, and the same text for the same launch."""
    known = [key for key in _ORDER if key in description]
    ordered = {key: description[key] for key in [*known, *(k for k in description if k not in known)]}
    parts = []
    for key, value in ordered.items():
        if key in ("buffers", "params", "globals") and value:
            lines = ",\n".join(f"  {json.dumps(element)}" for element in value)
            parts.append(f" {json.dumps(key)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write_case(
    folder: str | os.PathLike[str],
    description: dict[str, Any],
    data: dict[str, Array],
    ptx: str,
    stdout: str | None = None,
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
    args: Sequence[Any],
    directory: str | os.PathLike[str],
    *,
    note: str = "",
    check: dict[str, dict[str, Any]] | None = None,
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
    name = named(directory).name
    grid3, block3 = dims("grid", grid), dims("block", block)
    with device.lock:
        launched = Description(kernel, args, device)
        try:
            result = kernel(grid3, block3, launched.args, **options)
        except WarpsimError as problem:
            if not isinstance(problem, LaunchError):
                with contextlib.suppress(LaunchError):  # report the launch's own failure instead
                    _write(launched, directory, name, grid3, block3, note, check, options, None)
            raise
        _write(launched, directory, name, grid3, block3, note, check, options, result)
    return result


def _write(
    launched: Description,
    directory: str | os.PathLike[str],
    name: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    note: str,
    check: dict[str, dict[str, Any]] | None,
    options: dict[str, Any],
    result: LaunchResult | None,
) -> None:
    kernel, device = launched.kernel, launched.device
    described, data = launched.describe(ended=result is not None)
    kept = {key: _word(options[key]) for key in KEPT if options.get(key) not in (None, "eager")}
    if device.numerics != "exact":
        kept["numerics"] = device.numerics
    cluster = options.get("cluster")
    unknown = set(check or {}) - {b["name"] for b in described["buffers"]}
    if unknown:
        known = ", ".join(b["name"] for b in described["buffers"])
        raise LaunchError(f"check= names unknown buffers {', '.join(sorted(unknown))}; buffers: {known}")
    description = {
        "format": FORMAT,
        "name": name,
        "origin": f"warpsim {VERSION}",
        "note": note,
        "entry": kernel.name,
        "target": kernel.module.target,
        "grid": list(grid),
        "block": list(block),
        "cluster": None if cluster is None else list(dims("cluster", cluster)),
        "cooperative": bool(options.get("cooperative", False)),
        "dynamic_smem": int(options.get("shared_mem", 0)),
        **({"options": kept} if kept else {}),
        **described,
        "check": {**described["check"], **(check or {})},
        "simulated": {"warpsim": VERSION, "device": device.target},
    }
    stdout = result.stdout if result is not None and result.stdout else None
    write_case(directory, description, data, kernel.module.program.module.source, stdout)


def _word(value: Any) -> Any:
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
