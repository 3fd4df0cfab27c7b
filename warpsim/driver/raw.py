"""The process's own memory, by address. What would bring the program down is refused: null, with or without an offset,
sizes that no memory has and, on Linux, memory that is not there.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

from warpsim.driver.results import DriverError, Result

PAGE, LIMIT = mmap.PAGESIZE, 1 << 56
"""Nothing is in the first page (of 4, 16 or 64 KB: Arm has all three), or behind what processors address."""
MS_ASYNC = 1
_MSYNC = None
if sys.platform == "linux":
    _MSYNC = ctypes.CDLL(None).msync
    _MSYNC.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]


def place(address: int, nbytes: int) -> int:
    """An address that can be one of so many bytes.

    Raises:
        DriverError: it cannot.
    """
    if not PAGE <= address < LIMIT or not 0 <= nbytes <= LIMIT - address:
        what = "a null pointer" if address < PAGE else "an address that no memory has"
        raise DriverError(Result.INVALID_VALUE, f"{what}: {nbytes} bytes at 0x{address:x}")
    return address


def mapped(address: int, nbytes: int) -> int:
    """An address at which the process has so many bytes.

    Raises:
        DriverError: it has not.
    """
    place(address, nbytes)
    start = address & -PAGE
    # msync without a change is the one call that says whether pages are there
    if _MSYNC is not None and _MSYNC(start, address + nbytes - start, MS_ASYNC):
        raise DriverError(Result.INVALID_VALUE, f"the program has no {nbytes} bytes at 0x{address:x}")
    return address


def bytes_at(address: int, nbytes: int) -> bytes:
    """Read bytes."""
    return ctypes.string_at(mapped(address, nbytes), nbytes)


def text_at(address: int) -> bytes:
    """Read a C string."""
    return ctypes.string_at(mapped(address, 1))
