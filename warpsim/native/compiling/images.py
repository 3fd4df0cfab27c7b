"""Code on disk that needs no compiler to run: linked once, mapped into memory by later processes."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from warpsim.cache import read_object, write_object
from warpsim.isa import DECLARED
from warpsim.isa.spec import REGISTRY
from warpsim.native.compiling.linking import Linked
from warpsim.numerics.arrays import Array
from warpsim.types import JsonObject
from warpsim.version import VERSION

_LENGTH = 4
Function = Callable[[int | None], int]


def function_at(address: int) -> Function:
    """``int f(void *)`` at an address."""
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)


def keep(key: str, linked: Linked, facts: JsonObject, tables: Sequence[Array] = ()) -> None:
    """Keep code, with what is known of it, and the tables that it reads."""
    shapes = [(table.dtype.str, table.shape) for table in tables]
    given = {**facts, "functions": linked.functions, "outside": linked.outside, "tables": shapes}
    head = json.dumps(given).encode()
    parts = len(head).to_bytes(_LENGTH, "little"), head, *[table.tobytes() for table in tables], linked.code
    write_object(key, b"".join(parts))


def find(key: str) -> tuple[JsonObject, dict[str, int], list[Array]] | None:
    """What is known of code that was kept, the addresses of its functions, where it is mapped from now on, and its tables."""
    data = read_object(key) if possible() else None
    if data is None:
        return None
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    facts: JsonObject = json.loads(data[_LENGTH:end])
    tables = []
    for dtype, shape in facts["tables"]:
        table = np.ndarray(shape, dtype, data, end).copy()  # where it is aligned
        tables.append(table)
        end += table.nbytes
    begins = map_code(data[end:], facts["outside"])
    return None if begins is None else (facts, {name: begins + at for name, at in facts["functions"].items()}, tables)


def made_by() -> str | None:
    """What decides the code that this process makes of a kernel: this package's files, NumPy, LLVM and the processor. None
    where some of it is not known without LLVM, or others declare instructions."""
    return _made_by() if REGISTRY.revision == DECLARED else None


@lru_cache(maxsize=1)
def _made_by() -> str | None:
    processor, compiler = _processor(), _compiler()
    if processor is None or compiler is None or not possible():
        return None
    return repr((VERSION, _sources(), np.__version__, compiler, processor))


def _sources() -> list[tuple[str, int, int]]:
    """When the files of this package were changed."""
    root = str(Path(__file__).parents[2])
    found, folders = list[tuple[str, int, int]](), [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".ll")):
                    stat = entry.stat()
                    found.append((entry.path[len(root) :], stat.st_mtime_ns, stat.st_size))
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    return sorted(found)


def _compiler() -> tuple[str, int] | None:
    """Which llvmlite is installed, and since when."""
    for folder in sys.path:
        path = os.path.join(folder, "llvmlite", "_version.py")
        try:
            return path, os.stat(path).st_mtime_ns
        except OSError:
            continue
    return None


_TELLING = "vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU "


def _processor() -> list[str] | None:
    """Which processor this is."""
    if sys.platform == "darwin":
        names = "machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features"
        return [system_fact(name) for name in names]
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read(1 << 16).partition("\n\n")[0].splitlines()
    except OSError:
        return None
    return [line for line in lines if line.startswith(_TELLING)]


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
    addresses stand. Memory is written, then made executable, never both at once. None where the system forbids it, or lacks a
    function."""
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
