"""Writes cases: the inputs and outputs of a launch as case.json, kernel.ptx and data.npz.

A case is written to a folder beside its place and renamed when complete, so a reader sees the old case or the new one.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from warpsim.errors import LaunchError
from warpsim.host.arrays import Array
from warpsim.host.cases import checked
from warpsim.host.files import named, reason

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
