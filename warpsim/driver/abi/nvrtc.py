"""libnvrtc: forwards to NVIDIA's own library, and asks it for PTX in place of machine code.

A compilation for ``sm_90`` becomes one for ``compute_90``, and the "cubin" is the PTX, which the driver loads in its place.
Line information is requested, and the source text is kept, so that findings name and show the line of CUDA.
"""

from __future__ import annotations

import ctypes
import linecache
import os
import re
from typing import Any

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.toolkit import library
from warpsim.driver.raw import get64, text_at

NAMES = (
    "nvrtcAddNameExpression nvrtcDestroyProgram nvrtcGetLTOIR nvrtcGetLTOIRSize nvrtcGetLoweredName "
    "nvrtcGetNumSupportedArchs nvrtcGetOptiXIR nvrtcGetOptiXIRSize nvrtcGetPCHCreateStatus nvrtcGetPCHHeapSize "
    "nvrtcGetPCHHeapSizeRequired nvrtcGetPTX nvrtcGetPTXSize nvrtcGetProgramLog nvrtcGetProgramLogSize "
    "nvrtcGetSupportedArchs nvrtcGetTileIR nvrtcGetTileIRSize nvrtcSetFlowCallback nvrtcSetPCHHeapSize nvrtcVersion"
)
MISSING = 11
"""NVRTC_ERROR_INTERNAL_ERROR."""
_ARCH = re.compile(r"(-arch[= ]?|--gpu-architecture[= ]?)sm_")
_LINES = frozenset(["-G", "--device-debug", "-lineinfo", "--generate-line-info"])


def _forward(name: str, *words: int) -> int:
    found = library("nvrtc")
    function = None if found is None else getattr(found, name, None)
    return MISSING if function is None else int(function(*map(ctypes.c_uint64, words)))


def _declare(name: str, target: str) -> None:
    @call("PPPPPP", name)
    def pass_on(*words: int) -> int:
        return _forward(target, *words)


for _name in NAMES.split():
    _declare(_name, _name)
_declare("nvrtcGetCUBIN", "nvrtcGetPTX")
_declare("nvrtcGetCUBINSize", "nvrtcGetPTXSize")


@call("I", "nvrtcGetErrorString", plain=True)
def error_string(code: int) -> int:
    """The text of an error."""
    found = library("nvrtc")
    if found is None:
        return 0
    found.nvrtcGetErrorString.restype = ctypes.c_void_p
    return int(found.nvrtcGetErrorString(code) or 0)


@call("PPPPPP", "nvrtcCreateProgram")
def create_program(out: int, source: int, name: int, count: int, headers: int, names: int) -> int:
    """Create a program, and keep its source under the name that its PTX will give."""
    if source:
        keep(text_at(name) if name else "default_program", text_at(source))
    return _forward("nvrtcCreateProgram", out, source, name, count, headers, names)


def keep(name: str, text: str) -> None:
    """Put a source in Python's line cache, or no lines if two texts have the same name."""
    path, lines = os.path.join(os.getcwd(), name), text.splitlines(keepends=True)
    before = linecache.cache.get(path, ())
    if len(before) == 4 and before[2] != lines:
        lines = []
    linecache.cache[path] = len(text), None, lines, path


@call("PIP", "nvrtcCompileProgram")
def compile_program(program: int, count: int, options: int) -> int:
    """Compile to PTX."""
    given = [text_at(get64(options + 8 * i)) for i in range(count)]
    words = [_ARCH.sub(r"\1compute_", word).encode() for word in given]
    words = [b"compute_" + w[3:] if w.startswith(b"sm_") else w for w in words]
    if _LINES.isdisjoint(given):
        words.append(b"-lineinfo")
    return _forward("nvrtcCompileProgram", program, len(words), _pointers(words))


_ALIVE: list[Any] = []


def _pointers(words: list[bytes]) -> int:
    array = (ctypes.c_char_p * max(len(words), 1))(*words)
    _ALIVE[:] = [array, words]
    return ctypes.addressof(array)
