"""libnvJitLink and libnvrtc: linking and compiling, on NVIDIA's own libraries, which need no GPU. Each "cubin" is PTX, which
the driver loads in its place.

A compilation for ``sm_90`` becomes one for ``compute_90``. Line information is requested, and the source text is kept, so
that findings name and show the line of CUDA. The linker's version cannot optimize at link time, so that callers bring PTX;
LTO-IR, NVVM's intermediate form, is converted to PTX by NVIDIA's linker.
"""

from __future__ import annotations

import ctypes
import glob
import linecache
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from warpsim.driver.abi.calls import Body, call, reader
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.modules import Linker
from warpsim.driver.raw import bytes_at, get64, put64, text_at
from warpsim.driver.results import DriverError, Result

LOADED: dict[str, Any] = {}
"""The libraries by name; None for what was not found."""
PACKAGES = {"nvrtc": "nvidia-cuda-nvrtc", "nvJitLink": "nvidia-nvjitlink"}


def library(name: str) -> Any:
    """NVIDIA's ``lib<name>``, or None: ``WARPSIM_<NAME>``, in a package, where the program looks for libraries, or in a
    toolkit."""
    if name in LOADED:
        return LOADED[name]
    variable, file = f"WARPSIM_{name.upper()}", f"lib{name}.so.1[0-9]"
    found = [os.environ.get(variable, "")]
    for folder in sys.path:
        found += glob.glob(os.path.join(glob.escape(folder), "nvidia", "*", "lib", file))
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        if not os.path.exists(os.path.join(folder, "libwarpsim-linked.so")):
            found += glob.glob(os.path.join(glob.escape(folder), file))
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        found += sorted(glob.glob(os.path.join(home or "", "lib*", file)), reverse=True)
    for path in filter(os.path.exists, found):
        LOADED[name] = ctypes.CDLL(path)
        return LOADED[name]
    print(
        f"warpsim: no lib{name} found: pip install {PACKAGES[name]}, or let {variable} name the file", file=sys.stderr
    )
    LOADED[name] = None
    return None


# ---- linking --------------------------------------------------------------------------------------

VERSIONS = ("", *(f"_{major}_{minor}" for major in (12, 13) for minor in range(10)))
PTX_ERROR, UNSUPPORTED = 7, 4
LTO_IR = 3
"""NVJITLINK_INPUT_LTOIR."""
MAGIC = b"\xedCN\x7f"
"""The first bytes of LTO-IR."""
ADVICE = (
    "the image is NVVM's intermediate form for link-time optimisation, which NVIDIA's nvJitLink makes PTX of: "
    "pip install nvidia-nvjitlink, or compile to PTX (no -dlto, no link_time_optimization)"
)


def to_ptx(images: list[bytes], sm: int) -> bytes:
    """Link LTO-IR modules to PTX, with NVIDIA's linker."""
    linker = library("nvJitLink")
    if linker is None:
        raise DriverError(Result.JIT_COMPILER_NOT_FOUND, ADVICE)
    handle, words = ctypes.c_void_p(), [f"-arch=sm_{sm}".encode(), b"-lto", b"-ptx", b"-lineinfo"]
    status = linker.nvJitLinkCreate(ctypes.byref(handle), len(words), (ctypes.c_char_p * len(words))(*words))
    try:
        for image in images:
            status = status or linker.nvJitLinkAddData(handle, LTO_IR, image, ctypes.c_size_t(len(image)), b"lto")
        status = status or linker.nvJitLinkComplete(handle)
        if status:
            raise DriverError(Result.INVALID_PTX, _text(linker, handle, "ErrorLog").decode(errors="replace"))
        return _text(linker, handle, "LinkedPtx")
    finally:
        linker.nvJitLinkDestroy(ctypes.byref(handle))


def _text(linker: ctypes.CDLL, handle: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(linker, f"nvJitLinkGet{what}Size")(handle, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    getattr(linker, f"nvJitLinkGet{what}")(handle, text)
    return text.value


class Link(Linker):
    """A linker for a GPU, with a log."""

    def __init__(self, sm: int) -> None:
        super().__init__()
        self.sm, self.log = sm, ""
        self.result = b""
        self.images: list[bytes] = []
        """LTO-IR modules."""

    def take(self, image: bytes) -> None:
        """Add a module of either form."""
        if image.startswith(MAGIC):
            self.images.append(image)
        else:
            self.add(image, self.sm)

    def finish(self) -> None:
        """Link."""
        if self.images:
            self.add(to_ptx(self.images, self.sm), self.sm)
        self.result = self.complete()

    def attempt(self, work: Callable[[], object]) -> int:
        """Do something, and log why it fails; returns the status."""
        try:
            work()
        except DriverError as problem:
            self.log += f"{problem}\n"
            return PTX_ERROR
        return 0


def _call(kinds: str, names: str) -> Callable[[Body], Body]:
    every = (f"__nvJitLink{name}{v}" if v else f"nvJitLink{name}" for name in names.split() for v in VERSIONS)
    return call(kinds, " ".join(every))


@reader("J")
def link_of(handle: int) -> Link:
    """The linker of a handle."""
    return PROCESS.get(handle, Link)


@_call("8UP", "Create")
def create(count: int, options: int) -> int:
    """Create a linker; of the options only the GPU matters."""
    words = [text_at(get64(options + 8 * i)) for i in range(count)]
    found = [re.search(r"-arch=(?:sm|compute)_(\d+)", word) for word in words]
    return PROCESS.handles.put(Link(next((int(m[1]) for m in found if m), 90)))


@_call("O", "Destroy")
def destroy(where: int) -> None:
    """Destroy a linker, and clear its handle."""
    PROCESS.handles.end(link_of(get64(where)))
    put64(where, 0)


@_call("JIOPP", "AddData")
def add_data(link: Link, kind: int, data: int, nbytes: int, name: int) -> int:
    return link.attempt(lambda: link.take(bytes_at(data, nbytes)))


_call("JIT", "AddFile")(lambda link, kind, path: link.attempt(lambda: link.add_file(path, link.sm)))
_call("J", "Complete")(lambda link: link.attempt(link.finish))


def _declare(names: str, read: Callable[[Link], bytes]) -> None:
    """Functions that give a text, or its size."""
    _call("J8", " ".join(f"{name}Size" for name in names.split()))(lambda link: len(read(link)))
    _call("JB", names)(read)


_declare("GetLinkedCubin GetLinkedPtx", lambda link: link.result)
_declare("GetErrorLog", lambda link: link.log.encode() + b"\0")
_declare("GetInfoLog", lambda link: b"\0")


_call("JO", "GetLinkedLTOIRSize GetLinkedLTOIR")(lambda link, out: UNSUPPORTED)  # the linked module is PTX


call("ww", "nvJitLinkVersion __nvJitLinkVersion")(lambda: (12, 2))


# ---- compiling ------------------------------------------------------------------------------------

NAMES = (
    "nvrtcAddNameExpression nvrtcDestroyProgram nvrtcGetLTOIR nvrtcGetLTOIRSize nvrtcGetLoweredName "
    "nvrtcGetNumSupportedArchs nvrtcGetOptiXIR nvrtcGetOptiXIRSize nvrtcGetPCHCreateStatus nvrtcGetPCHHeapSize "
    "nvrtcGetPCHHeapSizeRequired nvrtcGetPTX nvrtcGetPTXSize nvrtcGetProgramLog nvrtcGetProgramLogSize "
    "nvrtcGetSupportedArchs nvrtcGetTileIR nvrtcGetTileIRSize nvrtcSetFlowCallback nvrtcSetPCHHeapSize nvrtcVersion"
)
MISSING = 11
"""NVRTC_ERROR_INTERNAL_ERROR."""
_WHY = ctypes.create_string_buffer(b"NVRTC is not installed: pip install nvidia-cuda-nvrtc")
_ARCH = re.compile(r"(-arch[= ]?|--gpu-architecture[= ]?)sm_")
_LINES = frozenset(["-G", "--device-debug", "-lineinfo", "--generate-line-info"])


def _forward(name: str, *words: int) -> int:
    found = library("nvrtc")
    function = None if found is None else getattr(found, name, None)
    return MISSING if function is None else int(function(*map(ctypes.c_uint64, words)))


def _declare_forward(name: str, target: str) -> None:
    @call("PPPPPP", name)
    def pass_on(*words: int) -> int:
        return _forward(target, *words)


for _name in NAMES.split():
    _declare_forward(_name, _name)
_declare_forward("nvrtcGetCUBIN", "nvrtcGetPTX")
_declare_forward("nvrtcGetCUBINSize", "nvrtcGetPTXSize")


@call("I", "nvrtcGetErrorString", plain=True)
def error_string(code: int) -> int:
    found = library("nvrtc")
    if found is None:
        return ctypes.addressof(_WHY)
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
    given = [text_at(get64(options + 8 * i)) for i in range(count)]
    words = [_ARCH.sub(r"\1compute_", word).encode() for word in given]
    words = [b"compute_" + w[3:] if w.startswith(b"sm_") else w for w in words]
    if _LINES.isdisjoint(given):
        words.append(b"-lineinfo")
    return _forward("nvrtcCompileProgram", program, len(words), _pointers(words))


_ALIVE: list[object] = []


def _pointers(words: list[bytes]) -> int:
    array = (ctypes.c_char_p * max(len(words), 1))(*words)
    _ALIVE[:] = [array, words]
    return ctypes.addressof(array)
