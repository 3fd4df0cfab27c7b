"""The cache on disk: machine code, programs that were read, and notes of what was compiled or launched."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

try:
    from _blake2 import blake2b  # OpenSSL, which hashlib loads, takes 6 ms
except ImportError:
    from hashlib import blake2b

from warpsim.owned import cache_folder, directly, read, sweep, write

CACHE_BYTES = 256 << 20
"""The size limit of the cache; the oldest objects are pruned."""
COUNT, KB = "count", 1 << 10
"""The file that tells by its length how many KB the cache holds."""
OBJECT_BYTES = 32 << 20
"""The size limit of an object."""
_MARK = b"warpsim object 3\n"
SIZE = 32
"""Bytes of a digest."""
HEAD = len(_MARK) + SIZE + 8
"""Size of an object's header: magic, a digest of key, length and content, and the length."""


def has_folder() -> bool:
    """Whether there is a folder to keep objects in."""
    return cache_folder() is not None


def has_object(key: str) -> bool:
    """Whether the cache has an object."""
    folder = cache_folder()
    return folder is not None and (folder / f"{key}.o").is_file()


def read_object(key: str) -> bytes | None:
    """An object by its key; None if there is none, it is damaged, or others may have written it.

    The digest detects damage and an object under another key. It does not keep out who may write there: `read` does.
    """
    folder = cache_folder()
    if folder is None or not os.path.lexists(name := f"{folder}{os.sep}{key}.o"):  # as most that are looked for
        return None
    data = read(Path(name), OBJECT_BYTES + HEAD)
    if data is None or data[:HEAD] != _head(key, body := data[HEAD:]):
        return None
    return body


def hashed(data: bytes) -> bytes:
    """A digest of bytes."""
    return blake2b(data, digest_size=SIZE).digest()


def digest(*parts: object) -> str:
    """A name for what parts together decide."""
    return hashed("\0".join(map(str, parts)).encode(errors="surrogatepass")).hex()


def _head(key: str, body: bytes) -> bytes:
    length = len(body).to_bytes(8, "little")
    found = blake2b(key.encode() + b"\0" + length, digest_size=SIZE)
    found.update(body)
    return _MARK + found.digest() + length


def write_object(key: str, body: bytes) -> None:
    """Write an object, if there is room."""
    folder = cache_folder()
    if folder is None or len(body) > OBJECT_BYTES:
        return
    with contextlib.suppress(OSError):
        write(folder / f"{key}.o", data := _head(key, body) + body)
        if _grown(folder, len(data)) > CACHE_BYTES:
            _prune(folder)


def has_note(name: str) -> bool:
    """Whether a note was left: what it names was compiled or launched on this machine before."""
    folder = cache_folder()
    return folder is not None and (folder / f"{name}.n").is_file()


def note(name: str) -> None:
    """Leave a note."""
    folder = cache_folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            write(folder / f"{name}.n", b"")


def _grown(folder: Path, nbytes: int) -> int:
    """The estimated size of a folder, to which so many bytes came: all processes count them in one file, for to scan 20,000
    objects takes .1 s. More than the limit where there is no such file: `_prune` makes it."""
    try:
        with open(folder / COUNT, "ab", opener=lambda name, flags: directly(name, flags & ~os.O_CREAT)) as file:
            file.write(bytes(-(-nbytes // KB)))
            return file.tell() * KB
    except OSError:
        return CACHE_BYTES + 1


def _prune(folder: Path) -> None:
    """Count a folder's objects. Where they are above the limit, remove the oldest until three quarters of it are left: the next
    writes need not scan again."""
    sweep(folder)
    found = []
    for entry in os.scandir(folder):
        if entry.name.endswith((".n", ".o")):
            with contextlib.suppress(OSError):  # another process was faster
                stat = entry.stat(follow_symlinks=False)
                found.append((stat.st_mtime, stat.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    if total > CACHE_BYTES:
        for _, size, path in sorted(found):
            if total <= CACHE_BYTES * 3 // 4:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size
    write(folder / COUNT, bytes(-(-total // KB)))
