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
    "cu_context", "cu_memory", "cu_virtual", "cu_texture", "cu_module", "cu_work", "cu_before", "cu_graph", "rt_device",
    "rt_memory", "rt_texture", "rt_launch", "entry_points", "compilers",
)  # fmt: skip
_KEPT: list[object] = []
_FIELDS: list[Fields] = []
_STARTED: list[str] = []
STUB = 16
"""Bytes of an entry point."""
PATIENCE, MOST = 0.2, 5.0
"""Seconds until calls of other threads are interrupted as Python ends, and until they are left alone."""


class Fields(ctypes.Structure):
    """The fields before a library's table: see ``shim.c``."""

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


def bind(library: str, names: int, stubs: int, table: int, count: int, *, embedded: bool, version: int = 0) -> None:
    """Connect a library's entry points to their functions, each when it is first called.

    Args:
        library: ``cuda`` or ``cudart``.
        names: address of ``count`` C strings, one behind the other.
        stubs: address of the entry points, in the same order, each of `STUB` bytes.
        table: address of `Fields`, and of the slots behind it.
        count: the number of entry points.
        embedded: whether the program is not a Python program.
        version: the number at the end of the library's name.
    """
    PROCESS.embedded = PROCESS.embedded or embedded
    if library == "cudart":
        PROCESS.runtime = PROCESS.runtime or version
    calls = declared(library)
    fields = Fields.from_address(table)
    slots = (ctypes.c_uint64 * count).from_address(table + ctypes.sizeof(Fields))
    fields.interrupt = ctypes.addressof(INTERRUPT)
    _FIELDS.append(fields)
    if library == "cuda":
        PROCESS.caller = lambda: int(fields.caller)
    known = []
    for _ in range(count):
        known.append(ctypes.string_at(names).decode())
        names += len(known[-1]) + 1
    PROCESS.addresses |= {name: stubs + STUB * at for at, name in enumerate(known)}

    def fill(index: int) -> None:
        found = calls[known[index]]
        made = ctypes.CFUNCTYPE(ctypes.c_uint64, *(TYPES.get(kind, ctypes.c_uint64) for kind in found.kinds))(
            guarded(found)
        )
        _KEPT.append(made)
        slots[index] = ctypes.cast(made, ctypes.c_void_p).value or 0

    filling = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(fill)
    _KEPT.append(filling)
    fields.fill = ctypes.cast(filling, ctypes.c_void_p).value or 0


def finish() -> None:
    """Finish the report when the program ends."""
    if PROCESS._driver is not None and not PROCESS.forked:
        PROCESS._driver.report.finish()


def leave() -> None:
    """Prepare for the end of Python: let calls under way in other threads end, and C answer new ones.

    Otherwise Python would end these threads, and C++ would then abort the process.
    """
    if any(fields.closed for fields in _FIELDS):
        return
    finish()
    own, began = threading.get_ident(), time.monotonic()
    for fields in _FIELDS:
        fields.current = PROCESS.stack[-1].handle if PROCESS.stack else 0
        fields.closed = own
    interrupted = set()
    while any(fields.inside for fields in _FIELDS) and time.monotonic() < began + MOST:
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
    """What ``entries.S`` includes: a line for each function."""
    return "".join(f"FUNCTION {name}\n" for name in declared(library))


def start(library: str, names: int, stubs: int, table: int, count: int, embedded: int, version: int = 0) -> None:
    """Connect a library, for C."""
    bind(library, names, stubs, table, count, embedded=bool(embedded), version=version)
    if embedded:
        compile_queue().in_line = True
    if not embedded and not _STARTED and os.environ.get("WARPSIM_PYTHON") != str(os.getpid()):
        atexit.register(leave)  # sitecustomize does it earlier, if it ran
    _STARTED.append(library)
