"""Files that only the user can have written: machine code is loaded from no others.

The rule is that of OpenSSH (``StrictModes``): the file and its folder belong to the user, and nobody else may write them.
Each folder above, up to the user's home or the root, belongs to the user or to root, and others write it at most as they do
``/tmp``, where they cannot replace what is not theirs. So nobody else can swap anything between the check and the use.
Windows has no such modes: there the folder's access list alone decides.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import time
import warnings
from functools import lru_cache
from pathlib import Path

PART = "part-"
"""How the names begin of files and folders that are being written."""
ABANDONED = 3600.0
"""Seconds after which nobody writes them any more."""


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """The user's folder for caches, or that of ``WARPSIM_CACHE``. None where that is empty, cannot be made, or may hold
    files of others; a warning says so if the user has named the folder."""
    given = os.environ.get("WARPSIM_CACHE")
    if given == "":
        return None
    try:
        folder = Path(os.path.realpath(given or _usual()))
        problem = doubt(folder, make=True)
    except (OSError, RuntimeError) as raised:  # RuntimeError: there is no home
        problem = str(raised)
    if problem and given:
        warnings.warn(f"WARPSIM_CACHE is not used: {problem}", RuntimeWarning, stacklevel=2)
    return None if problem else folder


def _usual() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "warpsim"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "warpsim"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "warpsim"


@lru_cache(maxsize=8)
def _looked_at(folder: Path, home: str) -> list[Path]:
    """A folder and those above it, from the user's home on where that is one of them."""
    path, begin = [*reversed(folder.parents), folder], Path(os.path.realpath(home))
    return path[path.index(begin) if begin in path else 0 :]


def doubt(folder: Path, *, make: bool = False) -> str:
    """Why others may have put files into a folder, whose path has no links; empty where they cannot.

    Args:
        folder: the folder.
        make: make it where it is missing, and what is missing above it, for the user alone.

    Raises:
        OSError: it is missing, or cannot be made.
    """
    for place in _looked_at(folder, os.path.expanduser("~")):
        if make and not os.path.lexists(place):
            place.mkdir(0o700, exist_ok=True)
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode):
            return f"{place} is not a folder"
        if problem := _foreign(found, above=place != folder):
            return f"{place} {problem}"
    return ""


def _foreign(found: os.stat_result, *, above: bool = False) -> str:
    """How others could have changed a file, or a folder; ``above``: a folder above one of the user's."""
    if not hasattr(os, "geteuid"):  # Windows
        return ""
    if found.st_uid != os.geteuid() and not (above and found.st_uid == 0):
        return f"belongs to another user ({found.st_uid})"
    if found.st_mode & 0o022 and not (above and found.st_mode & stat.S_ISVTX):
        return f"may be written by other users (mode {stat.S_IMODE(found.st_mode):o}; mend it with chmod go-w)"
    return ""


def read(path: Path, most: int) -> bytes | None:
    """A file's bytes; None where it is missing, no regular file of at most so many bytes, or others may have written it."""
    try:
        if not os.path.lexists(path) or doubt(path.parent):
            return None
        with open(path, "rb", opener=directly) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > most or _foreign(found):
                return None
            return file.read(found.st_size)
    except OSError:
        return None


def directly(path: str | Path, flags: int) -> int:
    """Open a file itself, not what a link leads to, and wait for nobody who would write into a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def write(path: Path, data: bytes) -> None:
    """Write a file that only the user may read and write; other processes see all of it or nothing.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    part = path.with_name(f"{PART}{os.getpid()}-{threading.get_ident()}-{time.time_ns()}")
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def sweep(folder: Path) -> None:
    """Delete what processes that were killed have left half written in a folder."""
    for path in [folder / name for name in os.listdir(folder) if name.startswith(PART)]:
        with contextlib.suppress(OSError):  # another process was faster
            if path.lstat().st_mtime < time.time() - ABANDONED:
                if stat.S_ISDIR(path.lstat().st_mode):
                    import shutil

                    shutil.rmtree(path)
                else:
                    path.unlink()
