"""Fills the table of a library that has been loaded into this process."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import sys
import threading
import time
from types import FrameType

from warpsim.driver.abi.calls import CALLS, INTERRUPT, TYPES, Call, Ended, guarded
from warpsim.driver.abi.entry_points import declare_per_thread
from warpsim.driver.abi.process import PROCESS
from warpsim.native.compiling.queue import compile_queue

MODULES = (
    "cu_context",
    "cu_memory",
    "cu_virtual",
    "cu_texture",
    "cu_module",
    "cu_work",
    "cu_before",
    "cu_graph",
    "rt_device",
    "rt_memory",
    "rt_texture",
    "rt_launch",
    "entry_points",
    "compilers",
)
_KEPT: list[object] = []
_BEHIND: list[Behind] = []
_STARTED: list[str] = []
PATIENCE, MOST = 0.2, 5.0
"""Seconds until calls of other threads are interrupted as Python ends, and until they are left alone."""


class Behind(ctypes.Structure):
    """The fields behind a library's table: see ``shim.c``."""

    _fields_ = (
        ("interrupt", ctypes.c_uint64),
        ("closed", ctypes.c_uint64),
        ("inside", ctypes.c_uint64),
        ("current", ctypes.c_uint64),
        ("caller", ctypes.c_uint64),
        ("fill", ctypes.c_uint64),
    )


def declared(library: str) -> dict[str, Call]:
    """Every function of a library, in a fixed order."""
    for module in MODULES:
        importlib.import_module(f"warpsim.driver.abi.{module}")
    declare_per_thread(library)
    return dict(sorted(CALLS[library].items()))


def bind(library: str, names: int, stubs: int, table: int, count: int, *, embedded: bool) -> None:
    """Connect a library's entry points to their functions, each when it is first called.

    Args:
        library: ``cuda`` or ``cudart``.
        names: address of ``count`` C strings' addresses.
        stubs: address of the entry points' addresses, in the same order.
        table: address of the slots, and of `Behind`.
        count: the number of entry points.
        embedded: whether the program is not a Python program.
    """
    PROCESS.embedded = PROCESS.embedded or embedded
    calls = declared(library)
    array = ctypes.c_uint64 * count
    slots, entries = array.from_address(table), array.from_address(stubs)
    behind = Behind.from_address(table + ctypes.sizeof(array))
    behind.interrupt = ctypes.addressof(INTERRUPT)
    _BEHIND.append(behind)
    if library == "cuda":
        PROCESS.caller = lambda: int(behind.caller)
    known = [ctypes.string_at(where).decode() for where in array.from_address(names)]
    PROCESS.addresses.update(zip(known, entries, strict=True))

    def fill(index: int) -> None:
        found = calls[known[index]]
        made = ctypes.CFUNCTYPE(ctypes.c_uint64, *(TYPES.get(kind, ctypes.c_uint64) for kind in found.kinds))(
            guarded(found)
        )
        _KEPT.append(made)
        slots[index] = ctypes.cast(made, ctypes.c_void_p).value or 0

    filling = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(fill)
    _KEPT.append(filling)
    behind.fill = ctypes.cast(filling, ctypes.c_void_p).value or 0


def finish() -> None:
    """Finish the report when the program ends."""
    if PROCESS._driver is not None and not PROCESS.forked:
        PROCESS._driver.report.finish()


def leave() -> None:
    """Prepare for the end of Python: let calls under way in other threads end, and C answer new ones.

    Otherwise Python would end these threads, and C++ would then abort the process.
    """
    if any(behind.closed for behind in _BEHIND):
        return
    finish()
    own, began = threading.get_ident(), time.monotonic()
    for behind in _BEHIND:
        behind.current = PROCESS.stack[-1].handle if PROCESS.stack else 0
        behind.closed = own
    interrupted = set()
    while any(behind.inside for behind in _BEHIND) and time.monotonic() < began + MOST:
        time.sleep(0.001)
        for thread, frame in sys._current_frames().items():
            if time.monotonic() > began + PATIENCE and thread not in interrupted and thread != own and _calls(frame):
                interrupted.add(thread)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Ended))


def _calls(frame: FrameType | None) -> bool:
    """Whether a frame belongs to a call of a library."""
    while frame is not None and (frame.f_code.co_name, frame.f_code.co_filename) != (
        "enter",
        guarded.__code__.co_filename,
    ):
        frame = frame.f_back
    return frame is not None


def header(library: str) -> str:
    """What ``shim.c`` includes: a line for each function with the number of its 64-bit arguments."""
    return "".join(f"CALL({len(c.kinds)}, {c.name})\n" for c in declared(library).values())


def start(library: str, names: int, stubs: int, table: int, count: int, embedded: int) -> None:
    """Connect a library, for C."""
    bind(library, names, stubs, table, count, embedded=bool(embedded))
    if embedded:
        compile_queue().in_line = True
    if not embedded and not _STARTED and os.environ.get("WARPSIM_PYTHON") != str(os.getpid()):
        atexit.register(leave)  # sitecustomize does it earlier, if it ran
    _STARTED.append(library)
