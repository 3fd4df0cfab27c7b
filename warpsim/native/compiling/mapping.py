"""Map linked code into this process, without a compiler. Memory is written, then made executable, never both at once."""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache

WRITABLE, EXECUTABLE = 1 | 2, 1 | 4
"""PROT_READ with PROT_WRITE, and with PROT_EXEC."""
PAGE = 4096
_MACHINES = {"x86_64", "amd64", "aarch64", "arm64"}


@lru_cache(maxsize=1)
def possible() -> bool:
    """Whether code can be mapped here: not on Windows, on another processor, or where the system forbids it."""
    if sys.platform not in ("linux", "darwin") or platform.machine().lower() not in _MACHINES or sys.maxsize < 1 << 32:
        return False
    return map_code(bytes(PAGE), ()) is not None


def map_code(code: bytes, outside: Iterable[tuple[str, int]]) -> int | None:
    """The address at which code lies until the process ends; ``outside`` are the functions that it calls, and where their
    addresses stand. None where the system forbids it, or lacks a function."""
    text = bytearray(code)
    for name, at in outside:
        address = _address(name)
        if address is None:
            return None
        struct.pack_into("<Q", text, at, address)
    size = -(-len(text) // PAGE) * PAGE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    where: int | None = _system("mmap", "pLiiil")(None, size, WRITABLE, flags, -1, 0)
    if where is None or where == (1 << 64) - 1:
        return None
    ctypes.memmove(where, bytes(text), len(text))
    if _system("mprotect", "pLi", ctypes.c_int)(where, size, EXECUTABLE):
        _system("munmap", "pL", ctypes.c_int)(where, size)
        return None
    if sys.platform == "darwin":
        _system("sys_icache_invalidate", "pL", None)(where, size)
    return where


_TYPES = {"p": ctypes.c_void_p, "L": ctypes.c_size_t, "i": ctypes.c_int, "l": ctypes.c_int64}


def _system(name: str, given: str, result: type = ctypes.c_void_p) -> Callable[..., int]:
    """A function of the C library."""
    return ctypes.CFUNCTYPE(result, *[_TYPES[letter] for letter in given])((name, ctypes.pythonapi))


@lru_cache(maxsize=64)
def _address(name: str) -> int | None:
    """Where a function of this process begins."""
    try:
        return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    except AttributeError:
        return None


def system_fact(name: str) -> str:
    """What macOS says about itself, empty where it knows no such thing."""
    room, size = ctypes.create_string_buffer(4096), ctypes.c_size_t(4096)
    failed = _system("sysctlbyname", "ppppL", ctypes.c_int)(name.encode(), room, ctypes.byref(size), None, 0)
    return "" if failed else room.value.decode()
