"""Snapshots: recorded results of a test, in reviewable text files beside it.

A file holds one value: an array (type, shape, and elements, one row per line), text, findings, or several of these by
name. Of arrays with more than 4,096 elements it has a digest; their elements are in a compressed file beside it.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import math
import re
import shlex
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest

from warpsim.errors import Finding, describe
from warpsim.host.arrays import array_of, is_buffer
from warpsim.host.cases import Comparison, bits_of, is_float
from warpsim.host.files import Target, read_archive
from warpsim.host.recipes import name_of
from warpsim.numerics.arrays import Array, DType
from warpsim.testing.differences import explain

FOLDER = "__snapshots__"
WRITTEN_OUT = 4096
"""Most elements of an array stored as text."""
NARROW = 32
"""Elements per line."""
Leaf = tuple[str, "Array | str"]
"""A label, and an array or text."""

_HEADER = re.compile(r"(?:.*: )?array \S+(?: (?P<shape>\d+(?:x\d+)*))?")


class Snapshots:
    """The fixture: ``snapshot(name)`` is this test's recorded value of that name."""

    def __init__(self, item: pytest.Item) -> None:
        from warpsim.testing.sessions import settings_of

        settings = settings_of(item.config)
        self.record = settings.record
        self.recorded = settings.snapshots
        self.folder = item.path.parent / FOLDER / item.path.stem
        self.test = _file_name(item.nodeid.partition("::")[2] or item.name)
        self.command = f"pytest {shlex.quote(item.nodeid)} --warpsim-record"
        self.made: list[Snapshot] = []
        item.stash[_KEY] = self

    def __call__(self, name: str | None = None) -> Snapshot:
        """The snapshot of a name, or of the next number if no name is given."""
        chosen = str(len(self.made) + 1) if name is None else _file_name(name)
        path = self.folder / f"{self.test}.{chosen}.txt"
        self.made.append(Snapshot(path, record=self.record, recorded=self.recorded, command=self.command))
        return self.made[-1]


_KEY: pytest.StashKey[Snapshots] = pytest.StashKey()


def add_sections(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the differences to the report of a failed test, in full: pytest cuts the explanation of an assertion."""
    found = item.stash.get(_KEY, None)
    add = getattr(report.longrepr, "addsection", None)
    if report.failed and found is not None and add is not None:
        for made in found.made:
            if made.problem:
                add(repr(made), "\n".join(made.problem), "-")


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.,=+-]+", "_", text).strip("_")


class Snapshot:
    """One recorded value; compare it with ``==``."""

    __array_ufunc__ = None  # NumPy then leaves `array == snapshot` to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        path: Path,
        *,
        record: bool,
        recorded: dict[Path, str] | None = None,
        command: str = "pytest --warpsim-record",
    ) -> None:
        self.path, self.record, self.command = path, record, command
        self.recorded = {} if recorded is None else recorded
        """What this session has recorded, by file."""
        self.problem: list[str] = []

    def __eq__(self, value: object) -> bool:
        found = leaves(value)
        if self.record:
            self._write(found)
            return True
        self.problem = self._differences(found)
        return not self.problem

    def __ne__(self, value: object) -> bool:
        return not self == value

    def __repr__(self) -> str:
        return f"snapshot {self.path.name}"

    # ---- files -------------------------------------------------------------------------------

    def _write(self, found: list[Leaf]) -> None:
        text = _text(found)
        if self.recorded.setdefault(self.path, text) != text:
            pytest.fail(f"this session has recorded another value as {self}: give each value a name of its own")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        large = {str(at): bits_of(array) for at, array in enumerate(_arrays(found)) if array.size > WRITTEN_OUT}
        if large:
            stream = io.BytesIO()
            np.savez_compressed(stream, **large)  # type: ignore[arg-type]
            Target(self._packed).write(lambda out: out.write(stream.getvalue()))
        Target(self.path).write_text(text)

    @property
    def _packed(self) -> Path:
        return self.path.with_suffix(".npz")

    def _differences(self, found: list[Leaf]) -> list[str]:
        if not self.path.exists():
            return [f"there is no {self} yet", f"to write it: {self.command}"]
        now, recorded = _text(found), self.path.read_text(encoding="utf-8", errors="replace")
        if now == recorded:
            return []
        mine, theirs = _parts(now), _parts(recorded)
        alike = [part.partition("\n")[0] for part in mine[1::2]] == [part.partition("\n")[0] for part in theirs[1::2]]
        arrays = [(label, leaf) for label, leaf in found if not isinstance(leaf, str)]
        if not alike or len(mine) != 2 * len(arrays) + 1:
            mine, theirs, arrays = [now], [recorded], []
        said = []
        for at, (new, old) in enumerate(zip_longest(mine, theirs)):
            if new != old:
                said += self._array_difference(at // 2, *arrays[at // 2], old) if at % 2 else _diff(old, new)
        return [*said, f"where this is meant: {self.command}"]

    def _array_difference(self, at: int, label: str, now: Array, recorded: str) -> list[str]:
        name = label.removesuffix(": ") or "value"
        try:
            if now.size > WRITTEN_OUT:
                if not self._packed.exists():
                    return [f"{name} differs; {self._packed.name}, which has the recorded elements, is missing"]
                known = read_archive(self._packed)[str(at)].view(now.dtype).reshape(now.shape)
            else:
                known = _parsed(recorded.partition("\n")[2], now)
        except Exception as problem:  # a damaged file: NumPy's readers raise many kinds
            return [f"{name} differs; the recorded elements cannot be read: {problem}"]
        comparison = Comparison(name, now, known)
        return explain(comparison) if comparison.wrong.any() else _diff(recorded, _array_text(label, now))


def _diff(recorded: str, now: str) -> list[str]:
    lines = difflib.unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "now", lineterm="", n=2)
    return ["the text differs", *lines]


# ---- text ----------------------------------------------------------------------------------------


def leaves(value: object, label: str = "") -> list[Leaf]:
    """The arrays and texts that a value consists of, with their names.

    Raises:
        TypeError: the value has no text that is the same in every run.
    """
    if isinstance(value, Finding):
        return [(label, describe(value))]
    if isinstance(value, str):
        return [(label, value.replace("\r", "\N{SYMBOL FOR CARRIAGE RETURN}"))]  # files may change their line ends
    if isinstance(value, Mapping):
        return [leaf for key, element in value.items() for leaf in leaves(element, f"{label}{key}: ")] or [
            (label, "none")
        ]
    if isinstance(value, tuple | list):
        return [leaf for element in value for leaf in leaves(element, label)] or [(label, "none")]
    if value is None or (isinstance(value, bool | int | float) and not isinstance(value, np.generic)):
        return [(label, repr(value))]
    if is_buffer(value) and not (array := array_of(value)).dtype.hasobject:
        return [(label, array)]
    kind = type(value).__name__
    raise TypeError(
        f"a snapshot is of arrays, text, numbers and findings, not of {kind}: name what counts, as in result.registers"
    )


def text_of(value: object) -> str:
    """Format a value as it is stored."""
    return _text(leaves(value))


def _text(found: list[Leaf]) -> str:
    return "".join(f"{label}{leaf}\n" if isinstance(leaf, str) else _array_text(label, leaf) for label, leaf in found)


def _arrays(found: list[Leaf]) -> list[Array]:
    return [leaf for _, leaf in found if not isinstance(leaf, str)]


def _array_text(label: str, array: Array) -> str:
    header = f"{label}array {name_of(array.dtype) or array.dtype.name} {'x'.join(map(str, array.shape))}".rstrip()
    if array.size > WRITTEN_OUT:
        return f"{header}\nsha256 {hashlib.sha256(array.tobytes()).hexdigest()}\n"
    flat = [_element(x, array.dtype) for x in np.ravel(array)]
    width = _width(array.shape)
    lines = [" ".join(flat[i : i + width]) for i in range(0, len(flat), width)]
    return "\n".join([header, *lines]) + "\n"


def _width(shape: tuple[int, ...]) -> int:
    return min(shape[-1] if shape else 1, NARROW) or 1


def _parts(text: str) -> list[str]:
    """Split a text at its arrays: text, array, text, array, ..., text."""
    parts, lines = [""], text.splitlines(keepends=True)
    while lines:
        header = _HEADER.fullmatch(lines[0].rstrip("\n"))
        if header is None:
            parts[-1] += lines.pop(0)
            continue
        shape = tuple(map(int, (header["shape"] or "1").split("x")))
        size = math.prod(shape)
        count = 1 + (1 if size > WRITTEN_OUT else -(-size // _width(shape)))
        parts += ["".join(lines[:count]), ""]
        del lines[:count]
    return parts


def _element(element: np.generic, dtype: DType) -> str:
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
