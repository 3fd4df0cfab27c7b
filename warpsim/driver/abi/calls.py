"""Declaring functions of the two libraries, and what all of them need: the process's driver, handles, raw memory."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from warpsim.driver import raw
from warpsim.driver.abi.rt_errors import NAMES, RuntimeRefusal
from warpsim.driver.driver import Driver
from warpsim.driver.modules import DriverModule
from warpsim.driver.raw import mapped
from warpsim.driver.results import DriverError, Result
from warpsim.driver.streams import Stream
from warpsim.errors import LaunchError

TYPES: dict[str, Any] = {"P": ctypes.c_uint64, "I": ctypes.c_int32, "U": ctypes.c_uint32}
"""Kinds of arguments: 64 bits (pointers, handles, sizes), int, unsigned."""
T = TypeVar("T")


@attrs.frozen
class Call:
    """One function of a library; ``plain`` where it gives something else than an error code."""

    name: str
    kinds: str
    function: Callable[..., Any]
    plain: bool = False


CALLS: dict[str, dict[str, Call]] = {"cuda": {}, "cudart": {}, "nvjitlink": {}, "nvrtc": {}, "nvml": {}}
"""Functions by library and name."""


def call(kinds: str, *names: str, plain: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function one of ``libcuda`` (a name that begins with ``cu``), ``libcudart`` (``cuda``, ``__cuda``) or another."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            CALLS[_library(name)][name] = Call(name, kinds, function, plain)
        return function

    return declare


def _library(name: str) -> str:
    if name.startswith(("cuda", "__cuda", "warpsim")):
        return "cudart"
    if name.startswith("nvrtc"):
        return "nvrtc"
    if name.startswith("nvml"):
        return "nvml"
    return "nvjitlink" if "nvJitLink" in name else "cuda"


# ---- the process ---------------------------------------------------------------------------------


@attrs.define(eq=False)
class Context:
    """A context: a device, and whether it is the one that the run time uses, and holds."""

    ordinal: int
    flags: int = 0
    primary: bool = False
    held: bool = False
    active: int = 0
    handle: int = 0
    limits: dict[int, int] = attrs.field(factory=dict)


class Process:
    """What the libraries know in this process."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self.number = 0
        """The process that the driver was made in."""
        self.embedded = False
        self.handles: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0x5150_0000_0000
        self._contexts: list[Context] = []
        self.lock = threading.RLock()
        self.thread = threading.local()
        self.addresses: dict[str, int] = {}
        self.endings: list[Callable[[Context], None]] = []
        """What is done when a context ends."""

    @property
    def driver(self) -> Driver:
        """The driver that the environment describes."""
        if self._driver is None:
            with self.lock:
                if self._driver is None:
                    self.number = os.getpid()
                    self._driver = Driver.from_environment(
                        stdout=_to_c if self.embedded else _to_python, current=self.owner
                    )
                    self.put(self._driver.stream)
        return self._driver

    @property
    def forked(self) -> bool:
        """Whether this is the child of a process that has a driver, which CUDA does not take over a fork."""
        return self._driver is not None and self.number != os.getpid()

    @property
    def primary(self) -> list[Context]:
        """The primary context of each device."""
        if not self._contexts:
            with self.lock:
                if not self._contexts:
                    made = [Context(i, primary=True) for i in range(len(self.driver.devices))]
                    for context in made:
                        context.handle = self.put(context)
                    self._contexts = made
        return self._contexts

    @property
    def stack(self) -> list[Context]:
        """The contexts that are current in this thread, the last on top."""
        found: list[Context] | None = getattr(self.thread, "stack", None)
        if found is None:
            found = self.thread.stack = []
        return found

    def context(self) -> Context:
        """The current context."""
        if not self.stack:
            raise DriverError(Result.INVALID_CONTEXT)
        return self.stack[-1]

    def choose(self, ordinal: int) -> None:
        """Make a device's primary context current, and have the run time hold it."""
        context = self.primary[ordinal]
        if not context.held:
            context.held = True
            context.active += 1
        self.stack[-1:] = [context]

    def activate(self) -> None:
        """The run time's calls make a context themselves: where none is current, and where it has been reset."""
        if not self.stack:
            self.choose(0)
        elif self.stack[-1].primary and not self.stack[-1].held:
            self.choose(self.stack[-1].ordinal)

    def owner(self) -> Context:
        """The context that new memory belongs to: the current one, or the first device's primary one."""
        return self.stack[-1] if self.stack else self.primary[0]

    def end(self, context: Context) -> None:
        """Free what belongs to a context: memory, modules, and the error of its kernel."""
        self.driver.reset(context)
        for handle, thing in list(self.handles.items()):
            if isinstance(thing, DriverModule) and thing.owner is context:
                self.drop(handle, DriverModule).unload()
        for ending in self.endings:
            ending(context)

    def ordinal(self) -> int:
        """The device of the current context, the first where there is none."""
        return self.stack[-1].ordinal if self.stack else 0

    # ---- handles

    def put(self, thing: Any) -> int:
        """The handle of an object."""
        with self.lock:
            number = self._numbers.get(id(thing))
            if number is None:
                self._next += 256
                number = self._next
                self.handles[number] = thing
                self._numbers[id(thing)] = number
            return number

    def get(self, handle: int, kind: type[T]) -> T:
        """The object of a handle."""
        thing = self.handles.get(handle)
        if thing is None or not isinstance(thing, kind):
            raise DriverError(Result.INVALID_HANDLE, f"0x{handle:x} is no {kind.__name__}")
        return thing

    def drop(self, handle: int, kind: type[T]) -> T:
        """The object of a handle that is given back."""
        thing = self.get(handle, kind)
        with self.lock:
            del self.handles[handle], self._numbers[id(thing)]
        return thing

    def stream(self, handle: int) -> Stream:
        """A stream: 0, 1 and 2 are the default ones."""
        return self.driver.stream if handle <= 2 else self.get(handle, Stream)


PROCESS = Process()


def _to_python(text: str) -> None:
    sys.stdout.write(text)


def _to_c(text: str) -> None:
    """What kernels print goes where the program's own printf goes, in order with it."""
    libc = ctypes.CDLL(None)
    data = text.encode("utf-8", "surrogateescape")
    libc.fwrite(data, ctypes.c_size_t(1), ctypes.c_size_t(len(data)), ctypes.c_void_p.in_dll(libc, "stdout"))


WORK = re.compile(
    "(__)?cu(da)?(Mem|Malloc|Free|Host|Stream|Event|Launch|Module|Library(Load|Unload)|GraphLaunch|.*Synchronize)|warpsimM"
)
"""Calls that an earlier kernel's error ends: cuda.h has of the codes that stick, "any further CUDA work will return the
same error"."""


def guarded(declared: Call) -> Callable[..., int]:
    """A function as C calls it: no exception leaves it, and a refusal says why."""
    function = declared.function
    works = WORK.match(declared.name) is not None and not declared.plain
    starts = works and declared.name in CALLS["cudart"]
    asks = not declared.plain and declared.name.startswith(("cu", "__cu")) and "GetError" not in declared.name

    def enter(*arguments: int) -> int:
        try:
            if asks and PROCESS.forked:
                return int(Result.NOT_INITIALIZED)
            if works and PROCESS.driver.error:
                return int(PROCESS.driver.error)
            if starts:
                PROCESS.activate()
            result = function(*arguments)
            return 0 if result is None else int(result)
        except DriverError as problem:
            return refused(declared.name, problem)
        except RuntimeRefusal as problem:
            if str(problem):
                PROCESS.driver.report.problem(declared.name, str(problem), NAMES.get(problem.code, "cudaError"))
            return problem.code
        except LaunchError as problem:
            return refused(declared.name, DriverError(Result.INVALID_VALUE, str(problem)))
        except MemoryError:
            return int(Result.OUT_OF_MEMORY)
        except Exception:
            print(f"warpsim: {declared.name} failed; please report it:", file=sys.stderr)
            traceback.print_exc()
            return int(Result.UNKNOWN)
        except Ended:
            return int(Result.DEINITIALIZED)
        except BaseException as problem:  # Ctrl-C, the time limit of a test
            _raise_later(problem)
            return 0

    if os.environ.get("WARPSIM_TRACE"):
        enter = _traced(declared.name, enter)
    if declared.name not in CALLS["cudart"] or declared.plain:
        return enter

    def remembering(*arguments: int) -> int:
        code = enter(*arguments)
        if code and code != Result.NOT_READY:
            PROCESS.thread.last = code
        return code

    return remembering


class Ended(BaseException):
    """Interrupts a call, because Python ends."""


INTERRUPT = ctypes.c_uint64()
"""The address of an exception, with a reference to it, that C cannot pass on: the libraries raise it when C returns."""


def _raise_later(problem: BaseException) -> None:
    if not INTERRUPT.value:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(problem.with_traceback(None)))
        INTERRUPT.value = id(problem)


def _traced(name: str, function: Callable[..., int]) -> Callable[..., int]:
    """A function that tells of each call, for who looks into what a program does."""

    def tell(*arguments: int) -> int:
        result = function(*arguments)
        print(f"warpsim: {name}({', '.join(map(hex, arguments))}) = {result}", file=sys.stderr, flush=True)
        return result

    return tell


def refused(name: str, problem: DriverError) -> int:
    """Say why a call is refused, where its code alone does not; gives the code."""
    result = problem.result
    plain = {Result.NOT_READY, Result.NOT_FOUND, Result.PEER_ACCESS_ALREADY_ENABLED}
    if result in plain or not problem.said or problem.findings:
        return int(result)
    try:
        driver = PROCESS.driver
    except LaunchError:  # the environment describes none
        print(f"warpsim: {name}: {problem}", file=sys.stderr)
        return int(Result.NOT_INITIALIZED)
    if result is not driver.error:
        driver.report.problem(name, f"{result.driver_name}: {problem}", result.driver_name)
    return int(result)


def unsupported(what: str) -> DriverError:
    """What the simulated driver has not."""
    return DriverError(Result.NOT_SUPPORTED, f"the simulated driver has no {what}")


def missing(name: str) -> None:
    """Declare a function that refuses to be called."""

    @call("PPPPPPPP", name)
    def refuse(*words: int) -> None:
        raise unsupported(name)


# ---- raw memory ----------------------------------------------------------------------------------


def get32(address: int) -> int:
    """An unsigned word."""
    return int(ctypes.c_uint32.from_address(mapped(address, 4)).value)


def get64(address: int) -> int:
    """Eight bytes as an unsigned number."""
    return int(ctypes.c_uint64.from_address(mapped(address, 8)).value)


def put32(address: int, value: int) -> None:
    """Store a word; null takes nothing."""
    if address:
        ctypes.c_uint32.from_address(mapped(address, 4)).value = value & 0xFFFFFFFF


def put64(address: int, value: int) -> None:
    """Store eight bytes; null takes nothing."""
    if address:
        ctypes.c_uint64.from_address(mapped(address, 8)).value = value & 0xFFFF_FFFF_FFFF_FFFF


def put_float(address: int, value: float) -> None:
    """Store a float."""
    if address:
        ctypes.c_float.from_address(mapped(address, 4)).value = value


def put_bytes(address: int, data: bytes) -> None:
    """Store bytes."""
    if address:
        ctypes.memmove(mapped(address, len(data)), data, len(data))


def text_at(address: int) -> str:
    """A C string."""
    return raw.text_at(address).decode("utf-8", "replace")


_STRINGS: dict[str, Any] = {}


def c_string(text: str) -> int:
    """The address of a C string that stays."""
    kept = _STRINGS.get(text)
    if kept is None:
        kept = _STRINGS[text] = ctypes.create_string_buffer(os.fsencode(text))
    return ctypes.addressof(kept)


def needs(*addresses: int) -> None:
    """Refuse null where a result goes, or where a function is."""
    if not all(addresses):
        raise DriverError(Result.INVALID_VALUE, "a null pointer where a result goes, or a function is")
