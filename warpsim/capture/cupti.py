"""CUPTI's callback API through ctypes: reports calls of driver functions with their arguments.

The driver reports every call to CUPTI, no matter who makes it or how the caller got the function's address, so nothing
has to be patched. CUPTI comes with the CUDA toolkit and with PyTorch and JAX.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import sys
from collections.abc import Callable, Iterator

from warpsim.errors import LaunchError

ENTER, EXIT = 0, 1
DRIVER_API = 1


class CallbackData(ctypes.Structure):
    """CUpti_CallbackData (cupti_callbacks.h)."""

    _fields_ = [
        ("site", ctypes.c_int),
        ("function", ctypes.c_char_p),
        ("params", ctypes.c_void_p),
        ("result", ctypes.POINTER(ctypes.c_int)),
        ("symbol", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("context_uid", ctypes.c_uint32),
        ("correlation_data", ctypes.POINTER(ctypes.c_uint64)),
        ("correlation_id", ctypes.c_uint32),
    ]


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(CallbackData))
Told = Callable[[int, str, int, CallbackData], None]
"""Called with the site (`ENTER`, `EXIT`), the function's name without its suffix, the address of its arguments, and the
callback data.
"""


def candidates() -> Iterator[str]:
    """Possible places of CUPTI: libraries loaded by the process, Python packages, the toolkit."""
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        yield from sorted({line.split()[-1] for line in maps if "libcupti.so" in line})
    if named := os.environ.get("WARPSIM_CUPTI"):
        yield named
    for folder in sys.path:
        for pattern in ("nvidia/cu[0-9]*/lib/libcupti.so*", "nvidia/cuda_cupti/lib/libcupti.so*"):
            yield from sorted(glob.glob(os.path.join(folder, pattern)), reverse=True)
    for folder in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"):
        for inside in ("lib64", "extras/CUPTI/lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            yield from sorted(glob.glob(os.path.join(folder, inside, "libcupti.so*")), reverse=True)
    yield from ("libcupti.so.13", "libcupti.so.12", "libcupti.so")


def library() -> ctypes.CDLL:
    """Load CUPTI.

    Raises:
        LaunchError: it cannot be found.
    """
    tried = []
    for name in candidates():
        try:
            return ctypes.CDLL(name)
        except OSError as problem:
            tried.append(str(problem))
    raise LaunchError(
        "CUPTI was not found; it comes with the CUDA toolkit, or with pip install nvidia-cuda-cupti; "
        f"WARPSIM_CUPTI names the library. {tried[-1] if tried else ''}"
    )


class Subscription:
    """Calls ``told`` on entry to and exit from every driver function, until closed."""

    def __init__(self, told: Told) -> None:
        self.cupti, self.told = library(), told
        self._callback = CALLBACK(self._called)
        self._handle = ctypes.c_void_p()
        self._do("cuptiSubscribe", ctypes.byref(self._handle), self._callback, None)
        self._do("cuptiEnableDomain", ctypes.c_uint32(1), self._handle, ctypes.c_int(DRIVER_API))

    def _do(self, name: str, *args: object) -> None:
        status = getattr(self.cupti, name)(*args)
        if status:
            said = ctypes.c_char_p()
            self.cupti.cuptiGetResultString(status, ctypes.byref(said))
            text = (said.value or b"").decode(errors="replace")
            raise LaunchError(f"{name}: {text} ({status}); does a profiler use CUPTI in this process?")

    def _called(self, user: object, domain: int, number: int, data: object) -> None:
        if domain != DRIVER_API:
            return
        contents: CallbackData = data.contents  # type: ignore[attr-defined]
        name = (contents.function or b"").decode()
        for suffix in ("_ptsz", "_v2"):
            name = name.removesuffix(suffix)
        self.told(contents.site, name, contents.params or 0, contents)

    def close(self) -> None:
        """Stop the callbacks."""
        if self._handle:
            self._do("cuptiUnsubscribe", self._handle)
            self._handle = ctypes.c_void_p()
