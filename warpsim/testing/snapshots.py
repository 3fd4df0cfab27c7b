"""Snapshots: recorded results of a test, in reviewable text files beside it.

A file holds one value: an array (type, shape, and elements, one row per line), text, or findings. Arrays of more than
4,096 elements are stored as compressed .npy beside a line that describes them.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsim.errors import Finding, describe
from warpsim.host.arrays import Array, array_of, is_buffer
from warpsim.host.comparing import Comparison, bits_of, is_float
from warpsim.host.files import Target
from warpsim.host.recipes import name_of
from warpsim.testing.differences import explain

FOLDER = "__snapshots__"
WRITTEN_OUT = 4096
"""Most elements of an array stored as text."""
NARROW = 32
"""Elements per line."""


class Snapshots:
    """The fixture: ``snapshot(name)`` is this test's recorded value of that name."""

    def __init__(self, item: pytest.Item) -> None:
        from warpsim.testing.sessions import settings_of

        self.record = settings_of(item.config).record
        self.folder = item.path.parent / FOLDER / item.path.stem
        self.test = re.sub(r"[^\w.,=+-]+", "_", item.name).strip("_")
        self.number = 0

    def __call__(self, name: str | None = None) -> Snapshot:
        """The snapshot of a name, or of the next number if no name is given."""
        self.number += 1
        chosen = str(self.number) if name is None else re.sub(r"[^\w.,=+-]+", "_", name)
        return Snapshot(self.folder / f"{self.test}.{chosen}.txt", record=self.record)


class Snapshot:
    """One recorded value; compare it with ``==``."""

    __array_ufunc__ = None  # NumPy then leaves `array == snapshot` to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, path: Path, *, record: bool) -> None:
        self.path, self.record = path, record
        self.problem: list[str] = []

    def __eq__(self, value: object) -> bool:
        if self.record:
            self._write(value)
            return True
        if not self.path.exists():
            self.problem = [
                f"there is no snapshot {self.path.name} yet",
                "run pytest with --warpsim-record to write it",
            ]
            return False
        self.problem = self._differences(value)
        return not self.problem

    def __ne__(self, value: object) -> bool:
        return not self == value

    def __repr__(self) -> str:
        return f"snapshot {self.path.name}"

    # ---- files -------------------------------------------------------------------------------

    def _write(self, value: object) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = text_of(value)
        if isinstance(value, np.ndarray) and value.size > WRITTEN_OUT:
            stream = io.BytesIO()
            np.save(stream, bits_of(value))
            packed = gzip.compress(stream.getvalue(), mtime=0)
            Target(self._packed).write(lambda out: out.write(packed))
        Target(self.path).write(lambda out: out.write(text.encode()))

    @property
    def _packed(self) -> Path:
        return self.path.with_suffix(".npy.gz")

    def _differences(self, value: object) -> list[str]:
        recorded = self.path.read_text(encoding="utf-8")
        hint = "where this is meant: run pytest with --warpsim-record"
        if is_buffer(value) and not isinstance(value, str | bytes):
            return self._array_differences(array_of(value), recorded, hint)
        now = text_of(value)
        if now == recorded:
            return []
        import difflib

        lines = difflib.unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "now", lineterm="", n=2)
        return [*lines, hint]

    def _array_differences(self, now: Array, recorded: str, hint: str) -> list[str]:
        header, _, body = recorded.partition("\n")
        if header != _header(now):
            return [f"it is {_header(now)}, recorded was {header}", hint]
        if now.size > WRITTEN_OUT:
            known = np.load(io.BytesIO(gzip.decompress(self._packed.read_bytes()))).view(now.dtype).reshape(now.shape)
        else:
            known = _parsed(body, now)
        comparison = Comparison("value", now, known)
        return [*explain(comparison), hint] if comparison.wrong.any() else []


def text_of(value: object) -> str:
    """Format a value as it is stored.

    Raises:
        TypeError: the value has no text that is the same in every run.
    """
    if isinstance(value, Finding):
        return describe(value) + "\n"
    if isinstance(value, str):
        return value if value.endswith("\n") else value + "\n"
    if isinstance(value, Mapping):
        return "".join(f"{key}: {text_of(element)}" for key, element in value.items())
    if isinstance(value, tuple | list):
        return "".join(text_of(element) for element in value) if value else "none\n"
    if value is None or isinstance(value, bool | int | float):
        return f"{value!r}\n"
    if is_buffer(value):
        array = array_of(value)
        if array.size > WRITTEN_OUT:
            return f"{_header(array)}\nkept beside, compressed\n"
        flat = [_element(x, array.dtype) for x in np.ascontiguousarray(array).reshape(-1)]
        width = min(array.shape[-1] if array.ndim else 1, NARROW) or 1
        lines = [" ".join(flat[i : i + width]) for i in range(0, len(flat), width)]
        return "\n".join([_header(array), *lines]) + "\n"
    raise TypeError(f"a snapshot is of arrays, text, numbers and findings, not of {type(value).__name__}")


def _header(array: Array) -> str:
    return f"array {name_of(array.dtype) or array.dtype.str} {'x'.join(map(str, array.shape))}".rstrip()


def _element(element: Any, dtype: np.dtype[Any]) -> str:
    if not is_float(dtype):
        return str(int(element)) if dtype.kind in "iub" else "0x" + element.tobytes()[::-1].hex()
    number = float(element)
    return f"nan:0x{element.tobytes()[::-1].hex()}" if number != number else repr(number)


def _parsed(body: str, like: Array) -> Array:
    words = body.split()
    found = np.zeros(len(words), like.dtype)
    for index, word in enumerate(words):
        if "0x" in word:
            raw = bytes.fromhex(word.partition("0x")[2])[::-1]
            found[index] = np.frombuffer(raw, like.dtype)[0]
        else:
            found[index] = float(word) if is_float(like.dtype) else int(word)
    return found.reshape(like.shape)


__all__ = ["Snapshot", "Snapshots", "text_of"]
