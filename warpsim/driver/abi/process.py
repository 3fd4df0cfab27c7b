"""The state of the libraries in this process: driver, contexts, handles."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from warpsim.driver.arrays import Object
from warpsim.driver.driver import Driver
from warpsim.driver.memory import Memory
from warpsim.driver.modules import DriverModule
from warpsim.driver.results import DriverError, Result
from warpsim.driver.streams import Stream
from warpsim.records import define

T = TypeVar("T")
DEFAULT_STREAMS = 2
"""The largest handle of the default stream: null, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD."""


STEP = 256
"""Handles are this far apart; the low bits hold the number of a type."""


@define(eq=False)
class Entry:
    """An object with a handle, the entry that owns it, and those it owns."""

    thing: object
    handle: int
    owner: Entry | None
    owned: dict[int, Entry] = attrs.field(factory=dict)


class Handles:
    """The handles of a process. An object that ends takes along what it owns."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._handles: dict[int, int] = {}
        """Handles by the identity of their objects."""
        self._types: dict[type, int] = {}
        self._first = self._next = 0x5150_0000_0000
        self._lock = threading.RLock()

    def put(self, thing: object, owner: object = None) -> int:
        """The handle of an object, which ends with its owner if it has one; 0 if the owner has ended."""
        with self._lock:
            handle = self.of(thing)
            if not handle:
                above = self._entries.get(self.of(owner))
                if owner is not None and above is None:
                    return 0
                self._next += STEP
                handle = self._next + self._types.setdefault(type(thing), len(self._types))
                entry = self._entries[handle] = Entry(thing, handle, above)
                self._handles[id(thing)] = handle
                if above is not None:
                    above.owned[handle] = entry
            return handle

    def of(self, thing: object) -> int:
        """The handle that an object has; 0 if none."""
        return self._handles.get(id(thing), 0)

    def move(self, thing: object, owner: object) -> None:
        """Give an object without an owner one."""
        with self._lock:
            entry = self._entries.get(self.of(thing))
            if entry is not None and entry.owner is None:
                entry.owner = self._entries[self._handles[id(owner)]]
                entry.owner.owned[entry.handle] = entry

    def find(self, handle: int) -> Any:
        """The object of a handle, or None."""
        entry = self._entries.get(handle)
        return None if entry is None else entry.thing

    def ended(self, handle: int, kind: type) -> bool:
        """Whether a handle belonged to an object of a type that has ended."""
        issued = self._first < handle < self._next + STEP and handle % STEP == self._types.get(kind)
        return issued and handle not in self._entries

    def end(self, thing: object, *, itself: bool = True) -> list[Any]:
        """End an object and all that it owns, or only the latter; returns them, owners first."""
        with self._lock:
            entry = self._entries.get(self.of(thing))
            if entry is None:
                return []
            gone = [entry]
            for each in gone:  # grows while it is read
                gone += each.owned.values()
            entry.owned.clear()
            if itself and entry.owner is not None:
                del entry.owner.owned[entry.handle]
            gone = gone if itself else gone[1:]
            for each in gone:
                del self._entries[each.handle], self._handles[id(each.thing)]
            return [each.thing for each in gone]

    def of_type(self, kind: type) -> list[Any]:
        """All objects of a type."""
        return [entry.thing for entry in list(self._entries.values()) if isinstance(entry.thing, kind)]


@define(eq=False)
class Context:
    """A context. A device's primary context lasts while it is retained; ``held`` means that the runtime retains it."""

    ordinal: int
    flags: int = 0
    primary: bool = False
    held: bool = False
    active: int = 0
    handle: int = 0
    ended: bool = False
    limits: dict[int, int] = attrs.field(factory=dict)


class ThreadState(threading.local):
    """The state of a thread."""

    def __init__(self) -> None:
        self.stack: list[Context] = []


class Process:
    """The state of the libraries."""

    def __init__(self) -> None:
        self.objects: dict[int, Object] = {}
        """Texture and surface objects by their handles."""
        self._driver: Driver | None = None
        self.number = 0
        """The process that created the driver."""
        self.embedded = False
        self.runtime = 0
        """The version of the first libcudart that the program has called; 0 if it has called none, or one without."""
        self.initialized = False
        """Whether cuInit has been called, by the program or the runtime."""
        self.handles = Handles()
        self._contexts: list[Context] = []
        self.lock = threading.RLock()
        self.thread = ThreadState()
        self.addresses: dict[str, int] = {}
        self.caller: Callable[[], int] = int
        """Where in the program the call of the driver that is under way comes from."""
        self.endings: list[Callable[[Context], None]] = []
        """Functions called when a context ends."""

    @property
    def driver(self) -> Driver:
        """The driver that the environment describes."""
        if self._driver is None:
            with self.lock:
                if self._driver is None:
                    self.number = os.getpid()
                    self._driver = Driver.from_environment(stdout=_to_c if self.embedded else None, current=self.owner)
        return self._driver

    @property
    def memory(self) -> Memory:
        """The memory of the devices and the host."""
        return self.driver.memory

    @property
    def forked(self) -> bool:
        """Whether the process was forked after its driver was created, which CUDA does not support."""
        return self._driver is not None and self.number != os.getpid()

    # ---- contexts

    @property
    def primary(self) -> list[Context]:
        """The primary context of each device."""
        if not self._contexts:
            with self.lock:
                if not self._contexts:
                    made = [Context(i, primary=True, ended=True) for i in range(len(self.driver.devices))]
                    for context in made:
                        context.handle = self.handles.put(context)
                    self._contexts = made
        return self._contexts

    @property
    def stack(self) -> list[Context]:
        """The contexts that are current in this thread, the last on top."""
        return self.thread.stack

    def context(self) -> Context:
        """The current context."""
        stack = self.thread.stack
        if not stack or stack[-1].ended:  # asked by nearly every call
            raise DriverError(Result.CONTEXT_IS_DESTROYED if stack else Result.INVALID_CONTEXT)
        return stack[-1]

    def retain(self, context: Context) -> int:
        """Retain a primary context; the first time, it begins anew. Returns its handle."""
        context.active += 1
        context.ended = False
        return context.handle

    def choose(self, ordinal: int) -> None:
        """Make a device's primary context current, and let the runtime retain it."""
        context = self.primary[ordinal]
        if not context.held:
            context.held = True
            self.retain(context)
        self.stack[-1:] = [context]

    def activate(self) -> None:
        """Make a context current for a call of the runtime, if there is none or it has been reset."""
        if not self.stack:
            self.choose(0)
        elif self.stack[-1].primary and not self.stack[-1].held:
            self.choose(self.stack[-1].ordinal)

    def owner(self) -> Context:
        """The context that new memory belongs to: the current one, or the first device's primary one."""
        current = self.stack[-1] if self.stack else self.primary[0]
        return self.primary[current.ordinal] if current.ended else current

    def ordinal(self) -> int:
        """The device of the current context; the first one if there is none."""
        return self.stack[-1].ordinal if self.stack else 0

    def sm(self) -> int:
        """The capability of the current context's device."""
        return self.driver.devices[self.ordinal()].sm

    def context_of(self, stream: Stream) -> Context:
        """A stream's context; that of the default stream is the current one."""
        return stream.context if isinstance(stream.context, Context) else self.context()

    def end(self, context: Context) -> None:
        """End a context with its limits, memory, modules, streams and events, and the error of its kernel."""
        context.ended = True
        context.limits.clear()
        self.driver.reset(context)
        for thing in self.handles.end(context, itself=not context.primary):
            if isinstance(thing, DriverModule):
                thing.unload()
        for ending in self.endings:
            ending(context)

    # ---- handles

    def get(self, handle: int, kind: type[T], wrong: Result = Result.INVALID_HANDLE, ended: Result | None = None) -> T:
        """The object of a handle.

        Args:
            handle: the handle.
            kind: the type of the object.
            wrong: the error code for a handle that is not valid.
            ended: the error code for a handle whose object has ended, if it differs.
        """
        thing = self.handles.find(handle)
        if isinstance(thing, kind):
            return thing
        if self.handles.ended(handle, kind):
            raise DriverError(ended or wrong, f"the {kind.__name__} of handle 0x{handle:x} has ended")
        raise DriverError(wrong, f"0x{handle:x} is no {kind.__name__}" if handle else "")

    def stream(self, handle: int) -> Stream:
        """A stream; the default ones are those of the current context."""
        if handle <= DEFAULT_STREAMS:
            self.context()
            return self.driver.stream
        return self.get(handle, Stream)


PROCESS = Process()


def _to_c(text: str) -> None:
    """Print the output of kernels in order with the program's own printf."""
    libc = ctypes.CDLL(None)
    data = text.encode("utf-8", "surrogateescape")
    libc.fwrite(data, ctypes.c_size_t(1), ctypes.c_size_t(len(data)), ctypes.c_void_p.in_dll(libc, "stdout"))


_STRINGS: dict[str, ctypes.Array[ctypes.c_char]] = {}


def c_string(text: str) -> int:
    """The address of a C string that is kept."""
    kept = _STRINGS.get(text)
    if kept is None:
        kept = _STRINGS[text] = ctypes.create_string_buffer(os.fsencode(text))
    return ctypes.addressof(kept)
