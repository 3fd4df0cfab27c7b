"""Filling the table of a library that has been loaded into this process."""

from __future__ import annotations

import atexit
import ctypes
import importlib
from typing import Any

from warpsim.driver.abi.calls import CALLS, INTERRUPT, PROCESS, TYPES, Call, guarded

MODULES = (
    "cu_context",
    "cu_memory",
    "cu_module",
    "cu_work",
    "cu_graph",
    "cu_tensor_map",
    "cu_entry",
    "cu_others",
    "rt_device",
    "rt_memory",
    "rt_launch",
    "rt_library",
    "rt_graph",
    "rt_entry",
    "rt_others",
    "linking",
    "compiling",
    "management",
)
_KEPT: list[Any] = []
_STARTED: list[str] = []


def declared(library: str) -> dict[str, Call]:
    """Every function of a library, in a fixed order."""
    for module in MODULES:
        importlib.import_module(f"warpsim.driver.abi.{module}")
    return dict(sorted(CALLS[library].items()))


def bind(library: str, names: int, stubs: int, table: int, count: int, *, embedded: bool) -> None:
    """Let a library's entry points lead here.

    Args:
        library: ``cuda`` or ``cudart``.
        names: address of ``count`` C strings' addresses.
        stubs: address of the entry points' addresses, in the same order.
        table: address of the slots to fill, and of one more, for the address of `INTERRUPT`.
        count: how many there are.
        embedded: the program is no Python program.
    """
    PROCESS.embedded = PROCESS.embedded or embedded
    calls = declared(library)
    array = ctypes.c_uint64 * count
    slots, entries = array.from_address(table), array.from_address(stubs)
    ctypes.c_uint64.from_address(table + ctypes.sizeof(array)).value = ctypes.addressof(INTERRUPT)
    for index, where in enumerate(array.from_address(names)):
        name = ctypes.string_at(where).decode()
        found = calls[name]
        made = ctypes.CFUNCTYPE(ctypes.c_uint64, *(TYPES[kind] for kind in found.kinds))(guarded(found))
        _KEPT.append(made)
        slots[index] = ctypes.cast(made, ctypes.c_void_p).value or 0
        PROCESS.addresses[name] = entries[index]


def finish() -> None:
    """The program ends."""
    if PROCESS._driver is not None and not PROCESS.forked:
        PROCESS._driver.report.finish()


def header(library: str) -> str:
    """What ``shim.c`` includes: a line for each function with the number of its 64-bit arguments."""
    return "".join(f"CALL({len(c.kinds)}, {c.name})\n" for c in declared(library).values())


def start(library: str, names: int, stubs: int, table: int, count: int, embedded: int) -> None:
    """`bind`, for the C side."""
    bind(library, names, stubs, table, count, embedded=bool(embedded))
    if not embedded and len(_STARTED) == 0:
        atexit.register(finish)
    _STARTED.append(library)
