"""Declares the functions of the libraries: what kinds of arguments they take, and what every call is guarded by."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import attrs

from warpsim.driver.abi.process import PROCESS, Context
from warpsim.driver.abi.rt_errors import NAMES, RuntimeRefusal
from warpsim.driver.graphs import Graph, GraphExec, Node, UserObject
from warpsim.driver.memory import Pool
from warpsim.driver.modules import DriverModule, Function, Library, LibraryKernel, Linker
from warpsim.driver.raw import text_at
from warpsim.driver.results import DriverError, Result
from warpsim.driver.streams import Event
from warpsim.errors import LaunchError

# ---- kinds of arguments --------------------------------------------------------------------------

TYPES: dict[str, Any] = {"I": ctypes.c_int32, "D": ctypes.c_int32, "U": ctypes.c_uint32}
"""The types of C of arguments that have fewer than 64 bits."""
CURRENT = "!"
"""What the kinds of a function begin with that needs a current context."""
READERS: dict[str, Callable[[int], Any]] = {}
"""What becomes of an argument before the function gets it, by its kind; all others are numbers.

``P`` is any 64 bits, ``I`` an int, ``U`` an unsigned; ``O`` a pointer that is not null, ``T`` a string, ``D`` a device. A
handle has a letter of its own, and the function gets what it stands for.
"""


def reader(kind: str) -> Callable[[Callable[[int], Any]], Callable[[int], Any]]:
    """Declare what becomes of arguments of a kind."""

    def declare(read: Callable[[int], Any]) -> Callable[[int], Any]:
        READERS[kind] = read
        return read

    return declare


def _handle(kind: str, of: type, wrong: Result = Result.INVALID_HANDLE, ended: Result | None = None) -> None:
    READERS[kind] = lambda handle: PROCESS.get(handle, of, wrong, ended)


_handle("m", DriverModule)
_handle("l", Library)
_handle("k", LibraryKernel)
_handle("f", Function)
_handle("j", Linker)
_handle("e", Event, ended=Result.CONTEXT_IS_DESTROYED)
_handle("E", Event, Result.INVALID_VALUE)
_handle("g", Graph, Result.INVALID_VALUE)
_handle("n", Node, Result.INVALID_VALUE)
_handle("x", GraphExec, Result.INVALID_VALUE)
_handle("p", Pool, Result.INVALID_VALUE)
_handle("u", UserObject, Result.INVALID_VALUE)
READERS["s"] = PROCESS.stream
READERS["T"] = text_at


@reader("O")
def pointer(address: int) -> int:
    """A pointer to what a function reads, stores or calls."""
    if not address:
        raise DriverError(Result.INVALID_VALUE, "a null pointer where a result goes, or a function is")
    return address


@reader("D")
def device(number: int) -> int:
    """A device that exists."""
    if not 0 <= number < len(PROCESS.driver.devices):
        raise DriverError(Result.INVALID_DEVICE)
    return number


@reader("c")
def context(handle: int) -> Context:
    """A context."""
    wrong = Result.INVALID_CONTEXT if handle else Result.INVALID_VALUE
    return PROCESS.get(handle, Context, wrong, Result.CONTEXT_IS_DESTROYED)


@reader("C")
def context_or_current(handle: int) -> Context:
    """A context, the current one where null is given."""
    if not handle:
        return PROCESS.context()
    found = context(handle)
    if found.ended:
        raise DriverError(Result.CONTEXT_IS_DESTROYED)
    return found


@reader("q")
def launchable(handle: int) -> Function | LibraryKernel:
    """A function, or a kernel, which is one in any context."""
    found = PROCESS.handles.find(handle)
    return found if isinstance(found, LibraryKernel) else PROCESS.get(handle, Function)


# ---- declaring -----------------------------------------------------------------------------------


@attrs.frozen
class Call:
    """One function of a library; ``plain`` where it gives something else than an error code."""

    name: str
    kinds: str
    function: Callable[..., Any]
    plain: bool = False
    current: bool = False
    """Whether it needs a current context."""


CALLS: dict[str, dict[str, Call]] = {"cuda": {}, "cudart": {}, "nvjitlink": {}, "nvrtc": {}, "nvml": {}}
"""Functions by library and name."""


def call(kinds: str, *names: str, plain: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function one of ``libcuda`` (a name that begins with ``cu``), ``libcudart`` (``cuda``, ``__cuda``) or another."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            made = Call(name, kinds.removeprefix(CURRENT), function, plain, kinds.startswith(CURRENT))
            CALLS[_library(name)][name] = made
        return function

    return declare


def result(
    store: Callable[[int, Any], None], kinds: str, *names: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare functions that return what is stored where their first ``O`` points."""
    at = kinds.removeprefix(CURRENT).index("O")

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        @call(kinds, *names)
        def give(*arguments: Any) -> None:
            store(arguments[at], function(*arguments[:at], *arguments[at + 1 :]))

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
    """What the simulated driver has not."""
    return DriverError(Result.NOT_SUPPORTED, f"the simulated driver has no {what}")


def missing(names: str) -> None:
    """Declare functions that refuse to be called."""

    def declare(name: str) -> None:
        @call("PPPPPPPP", name)
        def refuse(*words: int) -> None:
            raise unsupported(name)

    for name in names.split():
        declare(name)


def per_thread(library: str, names: str) -> None:
    """Declare functions with the default stream of the thread (_ptsz, _ptds): there is one default stream here."""
    for name in names.split():
        same = CALLS[library][name.rpartition("_")[0]]
        CALLS[library][name] = attrs.evolve(same, name=name)


# ---- calling -------------------------------------------------------------------------------------

WORK = re.compile(
    "(__)?cu(da)?(Mem|Malloc|Free|Host|Stream|Event|Launch|Module|Library(Load|Unload)|GraphLaunch|.*Synchronize)|warpsimM"
)
"""Calls that an earlier kernel's error ends: cuda.h has of the codes that stick, "any further CUDA work will return the
same error"."""


def guarded(declared: Call) -> Callable[..., int]:
    """A function as C calls it: it gets what its arguments stand for, no exception leaves it, and a refusal says why."""
    function, needs_context = declared.function, declared.current
    of_run_time = declared.name in CALLS["cudart"]
    works = WORK.match(declared.name) is not None and not declared.plain
    starts = of_run_time and (works or needs_context or "s" in declared.kinds)
    asks = not declared.plain and declared.name.startswith(("cu", "__cu")) and "GetError" not in declared.name
    found = [(index, READERS[kind]) for index, kind in enumerate(declared.kinds) if kind in READERS]
    readers = sorted(found, key=lambda each: each[1] is not READERS["s"])  # a stream's context is looked at first

    def enter(*words: int) -> int:
        try:
            if asks and PROCESS.forked:
                return int(Result.NOT_INITIALIZED)
            if works and PROCESS.driver.error:
                return int(PROCESS.driver.error)
            if starts:
                PROCESS.activate()
            if needs_context:
                PROCESS.context()
            arguments: list[Any] = list(words)
            for index, read in readers:
                arguments[index] = read(words[index])
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
    if not of_run_time or declared.plain:
        return enter

    def remembering(*words: int) -> int:
        code = enter(*words)
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
    """A function that prints each call, for those who look into what a program does."""

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
