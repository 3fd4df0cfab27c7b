"""Declares the functions of the libraries, with their argument kinds, and guards every call."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from warpsim.driver.abi.process import PROCESS, Context
from warpsim.driver.graphs import Graph, GraphExec, Node, UserObject
from warpsim.driver.memory import Pool
from warpsim.driver.modules import DriverModule, Function, Library, LibraryKernel, Linker
from warpsim.driver.raw import put32, put64, put_bytes, put_float, text_at
from warpsim.driver.results import NAMES, DriverError, Result, RuntimeRefusal, require
from warpsim.driver.streams import Event
from warpsim.driver.virtual import Physical
from warpsim.errors import LaunchError

# ---- kinds of arguments --------------------------------------------------------------------------

TYPES: dict[str, Any] = {"I": ctypes.c_int32, "D": ctypes.c_int32, "U": ctypes.c_uint32, "r": ctypes.c_float}
"""C types of arguments that are not 64 bits; of floats a function has at most two (``shim.c``)."""
CURRENT = "!"
"""Begins the kinds of a function that needs a current context."""
NOT_NULL: dict[str, Callable[[int, Any], None]] = {"4": put32, "8": put64, "B": put_bytes, "V": put_float}
RESULTS = {**NOT_NULL, "w": put32, "y": put64}
"""How results are stored, by the kinds of the pointers to them, of which some may be null."""
Read = Callable[[int], Any]
Body = Callable[..., Any]
"""A function of the library, on converted arguments."""
READERS: dict[str, Read] = {}
"""Conversions of arguments by their kind; arguments of other kinds stay numbers.

``P`` is any 64 bits, ``I`` an int, ``U`` an unsigned, ``r`` a float, ``O`` a pointer that is not null, ``T`` a string, ``D`` a device; of
results, ``4`` is a word, ``8`` eight bytes, ``B`` bytes, ``V`` a float; ``w`` and ``y`` are a word and eight bytes that need not be
stored.
Each type of handle has a letter of its own, and the function receives the object.
"""


def reader(kind: str) -> Callable[[Read], Read]:
    """Declare the conversion of a kind of argument."""

    def declare(read: Read) -> Callable[[int], Any]:
        READERS[kind] = read
        return read

    return declare


def handle(kind: str, of: type, wrong: Result = Result.INVALID_HANDLE, ended: Result | None = None) -> None:
    """Declare a kind of handle."""
    READERS[kind] = lambda handle: PROCESS.get(handle, of, wrong, ended)


handle("m", DriverModule)
handle("l", Library)
handle("k", LibraryKernel)
handle("f", Function)
handle("j", Linker)
handle("e", Event, ended=Result.CONTEXT_IS_DESTROYED)
handle("E", Event, Result.INVALID_VALUE)
handle("g", Graph, Result.INVALID_VALUE)
handle("n", Node, Result.INVALID_VALUE)
handle("x", GraphExec, Result.INVALID_VALUE)
handle("p", Pool, Result.INVALID_VALUE)
handle("u", UserObject, Result.INVALID_VALUE)
handle("v", Physical, Result.INVALID_VALUE)
READERS["s"] = PROCESS.stream
READERS["T"] = text_at


@reader("O")
def pointer(address: int) -> int:
    """A pointer that cannot be null."""
    require(address, "a required pointer is null")
    return address


for _kind in NOT_NULL:
    READERS[_kind] = pointer


@reader("D")
def device(number: int) -> int:
    """A device that exists."""
    require(0 <= number < len(PROCESS.driver.devices), result=Result.INVALID_DEVICE)
    return number


@reader("c")
def context(handle: int) -> Context:
    """A context."""
    wrong = Result.INVALID_CONTEXT if handle else Result.INVALID_VALUE
    return PROCESS.get(handle, Context, wrong, Result.CONTEXT_IS_DESTROYED)


@reader("C")
def context_or_current(handle: int) -> Context:
    """A context; the current one for null."""
    if not handle:
        return PROCESS.context()
    found = context(handle)
    require(not found.ended, result=Result.CONTEXT_IS_DESTROYED)
    return found


@reader("q")
def launchable(handle: int) -> Function | LibraryKernel:
    """A function, or a kernel of a library."""
    found = PROCESS.handles.find(handle)
    return found if isinstance(found, (Function, LibraryKernel)) else PROCESS.get(handle, Function)


# ---- declaring -----------------------------------------------------------------------------------


class Call(NamedTuple):
    """A function of a library; ``plain`` if it does not return an error code."""

    name: str
    kinds: str
    function: Body
    plain: bool = False
    current: bool = False
    """Whether it needs a current context."""


CALLS: dict[str, dict[str, Call]] = {"cuda": {}, "cudart": {}, "nvjitlink": {}, "nvrtc": {}, "nvml": {}}
"""Functions by library and name."""


def call(kinds: str, names: str, *, plain: bool = False) -> Callable[[Body], Body]:
    """Declare a function of a library, under one or more names.

    Args:
        kinds: the kind of each argument. What the function returns is stored where the kinds of results stand.
        names: the names, separated by blanks.
        plain: the function does not return an error code.
    """

    def declare(function: Body) -> Body:
        for name in names.split():
            made = Call(name, kinds.removeprefix(CURRENT), function, plain, kinds.startswith(CURRENT))
            CALLS[_library(name)][name] = made
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


def unsupported(what: str) -> DriverError:
    """The error for a missing feature."""
    return DriverError(Result.NOT_SUPPORTED, f"the simulated driver has no {what}")


def missing(names: str) -> None:
    """Declare unsupported functions."""

    def declare(name: str) -> None:
        @call("PPPPPPPP", name)
        def refuse(*words: int) -> None:
            raise unsupported(name)

    for name in names.split():
        declare(name)


# ---- calling -------------------------------------------------------------------------------------

WORK = re.compile(
    "(__)?cu(da)?(Mem|Malloc|Free|Host|Stream|Event|Launch|Module|Library(Load|Unload)|GraphLaunch|.*Synchronize)|warpsimM"
)
"""Calls that return the sticky error of an earlier kernel: "any further CUDA work will return the same error"."""

BEFORE_INIT = (
    "cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString cuGetExportTable cuGetProcAddress cuGetProcAddress_v2"
)
"""Functions of libcuda that can be called before cuInit, as a driver answers."""


def guarded(declared: Call) -> Callable[..., int]:
    """Wrap a function for C: convert its arguments, turn exceptions into codes, and report why a call is refused."""
    function, needs_context = _converting(declared), declared.current
    of_run_time = declared.name in CALLS["cudart"]
    works = WORK.match(declared.name) is not None and not declared.plain
    initializes = of_run_time and not declared.plain
    needs_init = declared.name in CALLS["cuda"] and declared.name not in BEFORE_INIT.split()
    starts = of_run_time and (works or needs_context or "s" in declared.kinds)
    asks = not declared.plain and declared.name.startswith(("cu", "__cu")) and "GetError" not in declared.name

    def enter(*words: int) -> int:
        try:
            PROCESS.initialized |= initializes
            if (asks and PROCESS.forked) or (needs_init and not PROCESS.initialized):
                return int(Result.NOT_INITIALIZED)
            if works and PROCESS.driver.error:
                return int(PROCESS.driver.error)
            if starts:
                PROCESS.activate()
            if needs_context:
                PROCESS.context()
            return function(words)
        except BaseException as problem:
            return _failed(declared.name, problem)

    if os.environ.get("WARPSIM_TRACE"):
        enter = _traced(declared.name, enter)
    return _remembering(enter) if of_run_time and not declared.plain else enter


def _converting(declared: Call) -> Callable[[tuple[int, ...]], int]:
    """A function that converts its arguments, calls the declared one, and stores its results."""
    kinds = list(enumerate(declared.kinds))
    readers = sorted(  # a stream's context is checked first
        ((index, READERS[kind]) for index, kind in kinds if kind in READERS),
        key=lambda each: each[1] is not READERS["s"],
    )
    given = [index for index, kind in kinds if kind not in RESULTS]
    stores = [(index, RESULTS[kind]) for index, kind in kinds if kind in RESULTS]

    def convert(words: tuple[int, ...]) -> int:
        arguments: list[Any] = list(words)
        for index, read in readers:
            arguments[index] = read(words[index])
        found = declared.function(*[arguments[index] for index in given])
        if not stores:
            return found if isinstance(found, int) else 0
        for (index, put), value in zip(stores, found if len(stores) > 1 else [found], strict=True):
            put(words[index], value)
        return 0

    return convert


def _remembering(function: Callable[..., int]) -> Callable[..., int]:
    """A function that keeps its error for cudaGetLastError."""

    def remember(*words: int) -> int:
        code = function(*words)
        if code and code != Result.NOT_READY:
            PROCESS.thread.last = code
        return code

    return remember


def _failed(name: str, problem: BaseException) -> int:
    if isinstance(problem, DriverError):
        return refused(name, problem)
    if isinstance(problem, RuntimeRefusal):
        if str(problem):
            PROCESS.driver.report.problem(name, str(problem), NAMES.get(problem.code, "cudaError"))
        return problem.code
    if isinstance(problem, LaunchError):
        return refused(name, DriverError(Result.INVALID_VALUE, str(problem)))
    if isinstance(problem, MemoryError):
        return int(Result.OUT_OF_MEMORY)
    if isinstance(problem, Ended):
        return int(Result.DEINITIALIZED)
    if isinstance(problem, Exception):
        import traceback

        print(f"warpsim: {name} failed; please report it:", file=sys.stderr)
        traceback.print_exception(problem)
        return int(Result.UNKNOWN)
    _raise_later(problem)  # Ctrl-C, the time limit of a test
    return 0


class Ended(BaseException):
    """Interrupts a call because Python is ending."""


INTERRUPT = ctypes.c_uint64()
"""The address of an exception, with a reference, which the libraries raise when the call has returned through C."""


def _raise_later(problem: BaseException) -> None:
    if not INTERRUPT.value:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(problem.with_traceback(None)))
        INTERRUPT.value = id(problem)


def _traced(name: str, function: Callable[..., int]) -> Callable[..., int]:

    def tell(*arguments: int) -> int:
        result = function(*arguments)
        print(f"warpsim: {name}({', '.join(map(hex, arguments))}) = {result}", file=sys.stderr, flush=True)
        return result

    return tell


def refused(name: str, problem: DriverError) -> int:
    """Report why a call is refused, unless the code says it; returns the code."""
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


ENTRIES = guarded, _remembering, _traced
"""Functions that make what C calls."""
