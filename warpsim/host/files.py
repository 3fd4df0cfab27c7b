"""Reads arrays from files of any content; writes files beside their place, then moves them there."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import re
import stat
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from warpsim.errors import LaunchError, shown
from warpsim.numerics.arrays import Array
from warpsim.types import JsonObject

LARGEST = 1 << 36
"""Largest size that an archive may claim to unpack to, in bytes."""
LARGEST_TEXT = 1 << 30
ENDLESS = 1 << 26
"""Most bytes of text to read from a regular file, and from anything else (a pipe, a device)."""
_numbers = itertools.count()


def reason(problem: BaseException) -> str:
    """Describe an exception in words."""
    return getattr(problem, "strerror", None) or str(problem) or type(problem).__name__


def named(folder: str | os.PathLike[str]) -> Path:
    """A folder by a path that ends in its name, which ``.`` and ``..`` do not."""
    path = Path(folder)
    return Path(os.path.abspath(path)) if path.name in ("", "..") else path


class TooLong(ValueError):
    """A file has more bytes than any text of its kind."""


def contents(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file of text, which may turn out to be without end.

    Raises:
        OSError, ValueError: it cannot be read, or is too long (`TooLong`).
    """
    with open(path, "rb") as stream:
        most = LARGEST_TEXT if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else ENDLESS
        data = stream.read(most + 1)
    if len(data) > most:
        raise TooLong(f"has more than {most} bytes")
    return data


def text_of(path: str | os.PathLike[str]) -> str:
    """The text in a file, with the ends of its lines as Python has them. Raises as `contents` does."""
    return io.TextIOWrapper(io.BytesIO(contents(path)), "utf-8").read()


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ignore NumPy's warnings about old headers
            yield
    except LaunchError:
        raise
    except Exception as problem:  # damaged bytes end in a dozen exceptions of zipfile, zlib, tokenize and NumPy
        raise LaunchError(f"cannot read {os.fsdecode(path)}: {reason(problem)}") from None


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_array(path: str | os.PathLike[str]) -> Array:
    """Read the array in a .npy file.

    Raises:
        LaunchError: the file is not a readable .npy file.
    """
    with _reading(path), open(path, "rb") as stream:
        if stream.seekable():  # NumPy before 2.1 accepts negative extents
            header = _HEADERS.get(np.lib.format.read_magic(stream))
            if header is not None and min(header(stream)[0], default=0) < 0:
                raise ValueError("an extent is negative")
            stream.seek(0)
        return np.ascontiguousarray(np.lib.format.read_array(stream, allow_pickle=False))


def read_archive(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Read the arrays of a .npz file by name.

    Raises:
        LaunchError: the file is not a .npz file, or an array in it is damaged.
    """
    import zipfile

    with _reading(path):
        # A device may have no end to look for the directory at.
        source: str | os.PathLike[str] | io.BytesIO = path if os.path.isfile(path) else io.BytesIO(contents(path))
        with zipfile.ZipFile(source) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > LARGEST:
            raise LaunchError(f"{os.fsdecode(path)} unpacks to {size} bytes")
        with np.load(source, allow_pickle=False) as stored:
            found: dict[str, Array] = {name: stored[name] for name in stored.files}
    for name, values in found.items():
        if not isinstance(values, np.ndarray):
            raise LaunchError(f"cannot read {os.fsdecode(path)}: its member {name} is not an array")
    return found


class Target:
    """A file to write. It is opened at once, so that obstacles show early; the old content stays until all is written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        self._beside: str | None = None
        try:
            self._place = os.path.realpath(self.path)
            self._stream = self._open()
        except (OSError, ValueError) as problem:
            raise LaunchError(f"cannot write {self.path}: {reason(problem)}") from None

    def _open(self) -> IO[bytes]:
        folder, is_file = os.path.dirname(self._place), os.path.isfile(self._place)
        if os.path.exists(self._place) and not is_file:  # a device or a pipe
            return open(self._place, "wb")
        if is_file and not os.access(self._place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if is_file and not os.access(folder, os.W_OK):
            return open(self._place, "r+b")
        beside = os.path.join(folder, f".warpsim-{os.getpid()}-{next(_numbers)}")
        stream = open(beside, "xb")  # noqa: SIM115  `write` closes it
        self._beside = beside
        if is_file:
            import shutil

            shutil.copymode(self._place, beside)
        return stream

    def write(self, write: Callable[[IO[bytes]], object]) -> None:
        """Write the file and move it into place.

        Raises:
            LaunchError: it cannot be written; an existing file is unchanged.
        """
        try:
            with self._stream as stream:
                write(stream)
                if self._beside is None and os.path.isfile(self._place):
                    stream.truncate()
            if self._beside is not None:
                os.replace(self._beside, self._place)
                self._beside = None
        except (OSError, ValueError) as problem:
            raise LaunchError(f"cannot write {self.path}: {reason(problem)}") from None
        finally:
            self.abandon()

    def write_text(self, text: str) -> None:
        """Replace the file with text; errors as of `write`."""
        self.write(lambda stream: stream.write(text.encode()))

    def write_array(self, values: Array) -> None:
        """Write a .npy file. Raises as `write` does."""
        self.write(lambda stream: np.lib.format.write_array(_Plain(stream), values, allow_pickle=False))

    def abandon(self) -> None:
        """Leave the existing file unchanged."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.close()
        if self._beside is not None:
            with contextlib.suppress(OSError):
                os.remove(self._beside)
            self._beside = None


class _Plain:
    """A write-only stream: NumPy asks files for their position, which pipes do not have."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.write = stream.write


Schema = JsonObject
Problems = Iterator[tuple[str, str]]
"""Pairs of a place in the document (``buffers[2].dtype``) and the problem there."""
_TYPES: dict[str, Callable[[object], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "null": lambda v: v is None,
}


def problems(value: object, schema: Schema, root: Schema | None = None, at: str = "") -> Problems:
    """Find where a value does not fit a schema; ``root`` is the schema that ``$ref`` refers to.

    Supports type, enum, const, pattern, minimum, maximum, items, minItems, maxItems, required, properties,
    additionalProperties, oneOf (selected by its constants), and $ref within the schema.
    """
    root = schema if root is None else root
    if "$ref" in schema:
        target: Any = root
        for word in schema["$ref"].removeprefix("#/").split("/"):
            target = target[word]
        schema = {**target, **{key: rule for key, rule in schema.items() if key != "$ref"}}
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        yield at, f"must be of type {' or '.join(kinds)}, not {shown(value)}"
        return
    if "const" in schema and value != schema["const"]:
        yield at, f"must be {schema['const']!r}, not {shown(value)}"
    if "enum" in schema and not any(
        value is known or (type(value) is type(known) and value == known) for known in schema["enum"]
    ):
        yield at, f"must be one of {', '.join(map(str, schema['enum']))}, not {shown(value)}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield at, f"must match {schema['pattern']}, not {shown(value)}"
    yield from _number(value, schema, at)
    yield from _array(value, schema, root, at)
    yield from _object(value, schema, root, at)
    if "oneOf" in schema:
        yield from _one_of(value, schema["oneOf"], root, at)


def _number(value: object, schema: Schema, at: str) -> Problems:
    if not _TYPES["number"](value):
        return
    if "minimum" in schema and not value >= schema["minimum"]:
        yield at, f"must be at least {schema['minimum']}, not {shown(value)}"
    if "maximum" in schema and not value <= schema["maximum"]:
        yield at, f"must be at most {schema['maximum']}, not {shown(value)}"


def _array(value: object, schema: Schema, root: Schema, at: str) -> Problems:
    if not isinstance(value, list):
        return
    if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", len(value)):
        yield (
            at,
            f"must have {schema.get('minItems', 0)} to {schema.get('maxItems', 'any number of')} elements, not {len(value)}",
        )
    for index, element in enumerate(value if "items" in schema else []):
        yield from problems(element, schema["items"], root, f"{at}[{index}]")


def _object(value: object, schema: Schema, root: Schema, at: str) -> Problems:
    if not isinstance(value, dict):
        return
    for name in schema.get("required", []):
        if name not in value:
            yield at, f"lacks {name!r}"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, element in value.items():
        place = f"{at}.{name}" if at else name
        if name in known:
            yield from problems(element, known[name], root, place)
        elif others is False:
            yield place, f"is not among {', '.join(known)}"
        elif isinstance(others, dict):
            yield from problems(element, others, root, place)


def _one_of(value: object, choices: list[Schema], root: Schema, at: str) -> Problems:
    """The problems of the choice that the value's constants (or its type) select."""
    found = [list(problems(value, choice, root, at)) for choice in choices]
    if [] in found:
        return
    picked = [f for f, c in zip(found, choices, strict=True) if _picked(value, c)]
    if picked:
        yield from picked[0]
        return
    words = [str(rule["const"]) for c in choices for rule in c.get("properties", {}).values() if "const" in rule]
    yield at, f"must be one of {', '.join(words)}, not {shown(value)}" if words else found[-1][0][1]


def _picked(value: object, choice: Schema) -> bool:
    constants = {name: rule["const"] for name, rule in choice.get("properties", {}).items() if "const" in rule}
    return isinstance(value, dict) and bool(constants) and all(value.get(n) == c for n, c in constants.items())
