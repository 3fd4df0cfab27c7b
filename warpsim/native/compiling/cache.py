"""Objects kept on disk, and notes of what has been compiled."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from functools import lru_cache
from pathlib import Path

CACHE_BYTES = 256 << 20
"""The objects on disk take at most so much; the oldest go first."""
_MARK = b"warpsim object 1\n"


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether there is a compiler: the extra ``jit`` is installed."""
    return importlib.util.find_spec("llvmlite") is not None


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """Where objects are kept: ``WARPSIM_CACHE``, or the user's folder for caches; None where that cannot be written."""
    given = os.environ.get("WARPSIM_CACHE")
    if given is not None and not given:
        return None
    if given:
        base = Path(given)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home())) / "warpsim"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches" / "warpsim"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpsim"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return base


def has_object(key: str) -> bool:
    """Whether there is an object."""
    folder = cache_folder()
    return folder is not None and (folder / f"{key}.o").exists()


def read_object(key: str) -> bytes | None:
    """An object by its key; a damaged one counts as none."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        data = (folder / f"{key}.o").read_bytes()
    except OSError:
        return None
    import hashlib

    head = len(_MARK) + 32
    body = data[head:]
    if data[: len(_MARK)] != _MARK or hashlib.sha256(body).digest() != data[len(_MARK) : head]:
        return None
    return body


def write_object(key: str, body: bytes) -> None:
    """Keep an object; other processes see all of it or nothing."""
    folder = cache_folder()
    if folder is None:
        return
    import hashlib
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(_MARK + hashlib.sha256(body).digest() + body)
        os.replace(file.name, folder / f"{key}.o")
        sizes = _sizes()
        sizes[folder] = sizes.get(folder, CACHE_BYTES) + len(body)
        if sizes[folder] > CACHE_BYTES:
            sizes[folder] = _prune(folder)
    except OSError:
        pass


def noted(name: str) -> bool:
    """Whether there is a note of a name: something that it stands for was once compiled on this machine."""
    folder = cache_folder()
    return folder is not None and (folder / f"{name}.n").exists()


def note(name: str) -> None:
    """Leave a note."""
    folder = cache_folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            (folder / f"{name}.n").touch()


@lru_cache(maxsize=1)
def _sizes() -> dict[Path, int]:
    """What the objects of each folder take, about: to look at them all takes long."""
    return {}


def _prune(folder: Path) -> int:
    """Take the oldest objects out where there are too many; gives back what is left."""
    found = []
    for path in folder.glob("*.[no]"):
        try:
            stat = path.stat()
        except OSError:  # another process was faster
            continue
        found.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= CACHE_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= size
    return total
