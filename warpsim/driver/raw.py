"""Access to the process's own memory, by address.

Accesses that would crash the program are refused: null pointers, with or without an offset, impossible sizes and, on
Linux, unmapped pages.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys

from warpsim.driver.results import DriverError, Result

PAGE, LIMIT = mmap.PAGESIZE, 1 << 56
"""Nothing is mapped in the first page (4, 16 or 64 KB), or above what processors address."""
MS_ASYNC = 1
_MSYNC = None
if sys.platform == "linux":
    _MSYNC = ctypes.CDLL(None).msync
    _MSYNC.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]


def place(address: int, nbytes: int) -> int:
    """Check that bytes can lie at an address; returns it."""
    if not PAGE <= address < LIMIT or not 0 <= nbytes <= LIMIT - address:
        what = "a null pointer" if address < PAGE else "an impossible address"
        raise DriverError(Result.INVALID_VALUE, f"{what}: {nbytes} bytes at 0x{address:x}")
    return address


def mapped(address: int, nbytes: int) -> int:
    """Check that bytes are mapped at an address; returns it."""
    place(address, nbytes)
    start = address & -PAGE
    # msync fails for unmapped pages, and changes nothing
    if _MSYNC is not None and _MSYNC(start, address + nbytes - start, MS_ASYNC):
        raise DriverError(Result.INVALID_VALUE, f"the program has no {nbytes} bytes at 0x{address:x}")
    return address


def bytes_at(address: int, nbytes: int) -> bytes:
    """Read bytes."""
    return ctypes.string_at(mapped(address, nbytes), nbytes)


def all_bytes_at(pieces: list[tuple[int, int]]) -> list[bytes]:
    """Read several pieces, each an address and a number of bytes. Asking for those in two pages at once saves system calls."""
    first, _ = min(pieces, default=(0, 0))
    nbytes = max([address + size for address, size in pieces], default=0) - first
    if nbytes > PAGE:
        return [bytes_at(address, size) for address, size in pieces]
    whole = bytes_at(first, nbytes) if pieces else b""
    return [whole[address - first : address - first + size] for address, size in pieces]


def string_at(address: int) -> bytes:
    """Read a C string."""
    return ctypes.string_at(mapped(address, 1))


def text_at(address: int) -> str:
    """Read a C string as text."""
    return string_at(address).decode("utf-8", "replace")


def get32(address: int) -> int:
    """Read an unsigned word."""
    return int(ctypes.c_uint32.from_address(mapped(address, 4)).value)


def get64(address: int) -> int:
    """Read eight bytes as an unsigned number."""
    return int(ctypes.c_uint64.from_address(mapped(address, 8)).value)


def row_at(address: int, count: int) -> list[int]:
    """Read an array of unsigned numbers of eight bytes."""
    return list((ctypes.c_uint64 * count).from_address(mapped(address, 8 * count))) if count else []


def put32(address: int, value: int) -> None:
    """Store a word, unless the address is null."""
    if address:
        ctypes.c_uint32.from_address(mapped(address, 4)).value = value & 0xFFFFFFFF


def put64(address: int, value: int) -> None:
    """Store eight bytes, unless the address is null."""
    if address:
        ctypes.c_uint64.from_address(mapped(address, 8)).value = value & 0xFFFF_FFFF_FFFF_FFFF


def put_float(address: int, value: float) -> None:
    """Store a float, unless the address is null."""
    if address:
        ctypes.c_float.from_address(mapped(address, 4)).value = value


def put_bytes(address: int, data: bytes) -> None:
    """Store bytes, unless the address is null."""
    if address:
        ctypes.memmove(mapped(address, len(data)), data, len(data))


def library_at(address: int) -> str:
    """The name of the shared library that contains an address; empty for the program itself and other memory."""
    file = file_at(address)
    return "" if file == os.path.realpath("/proc/self/exe") else os.path.basename(file)


def file_at(address: int) -> str:
    """The path of the file that is mapped at an address; empty if none is, and where there is no Linux to ask."""
    if sys.platform != "linux" or address < PAGE:
        return ""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            words = line.rstrip("\n").split(maxsplit=5)
            first, last = (int(word, 16) for word in words[0].split("-"))
            if first <= address < last:
                return words[5] if len(words) == 6 and words[5].startswith("/") else ""  # not "[heap]"
    return ""
