"""NVVM's intermediate form for link-time optimisation (LTO-IR), which only NVIDIA's linker reads: it is asked for PTX."""

from __future__ import annotations

import ctypes

from warpsim.driver.abi.theirs import library
from warpsim.driver.results import DriverError, Result

KIND = 3
"""NVJITLINK_INPUT_LTOIR."""
MAGIC = b"\xedCN\x7f"
"""How the form begins."""
ADVICE = (
    "the image is NVVM's intermediate form for link-time optimisation, which NVIDIA's nvJitLink makes PTX of: "
    "pip install nvidia-nvjitlink, or compile to PTX (no -dlto, no link_time_optimization)"
)


def to_ptx(images: list[bytes], sm: int) -> bytes:
    """Link modules of the intermediate form, by NVIDIA's linker, to PTX.

    Raises:
        DriverError: there is no such linker, or it refuses them; the message is its log.
    """
    linker = library("nvJitLink")
    if linker is None:
        raise DriverError(Result.JIT_COMPILER_NOT_FOUND, ADVICE)
    handle, words = ctypes.c_void_p(), [f"-arch=sm_{sm}".encode(), b"-lto", b"-ptx", b"-lineinfo"]
    status = linker.nvJitLinkCreate(ctypes.byref(handle), len(words), (ctypes.c_char_p * len(words))(*words))
    try:
        for image in images:
            status = status or linker.nvJitLinkAddData(handle, KIND, image, ctypes.c_size_t(len(image)), b"lto")
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
