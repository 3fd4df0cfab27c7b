"""Compiles CUDA C++ to PTX with the user's nvcc, or with NVRTC where pip has installed it."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from warpsim.cli.output import Unusable
from warpsim.host.files import text_of

DEVICE = "sm_90a"
"""What a kernel is compiled for unless the user names a device."""


def compiled(file: str, device: str | None, flags: Sequence[str]) -> str:
    """The PTX of a CUDA file, with line information; says on standard error what compiled it.

    Raises:
        Unusable: there is no compiler, or it refuses the file; the message is the compiler's.
    """
    device = device or DEVICE
    lines = [] if {"-G", "--device-debug"} & set(flags) else ["-lineinfo"]
    if not os.path.isfile(file):
        raise Unusable(f"cannot read {file}: there is no such file")
    nvcc = _nvcc()
    if nvcc is not None:
        what, ptx = _by_nvcc(nvcc, file, [f"-arch={device}", *lines, *flags])
    elif (nvrtc := _nvrtc()) is not None:
        what, ptx = _by_nvrtc(nvrtc, file, [f"-arch={device.replace('sm', 'compute')}", *lines, *flags])
    else:
        raise Unusable(
            f"{file} is CUDA C++, and there is neither nvcc nor NVRTC to compile it: "
            f"pip install nvidia-cuda-nvrtc, or compile it elsewhere: nvcc -ptx -lineinfo -arch={device} {file}"
        )
    with_lines = " with line information" if lines else ""
    print(f"warpsim: {what} compiled {file} for {device}{with_lines}", file=sys.stderr)
    return ptx


def _nvcc() -> str | None:
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [os.path.join(home, "bin") for home in homes if home]
    return shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(places))


def _by_nvcc(nvcc: str, file: str, flags: Sequence[str]) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "kernel.ptx")
        try:
            done = subprocess.run(
                [nvcc, "-ptx", *flags, "-o", str(target), file],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, errors="replace", check=False)
        except OSError as problem:
            raise Unusable(f"cannot run {nvcc}: {problem.strerror}") from None
        if done.returncode or not target.exists():
            raise Unusable(f"nvcc refuses {file}:\n{(done.stderr or done.stdout).strip()}")
        found = re.search(r"release (\S+?),", version.stdout)
        return f"nvcc {found[1]}" if found else "nvcc", target.read_text()


def _nvrtc() -> ctypes.CDLL | None:
    """NVIDIA's NVRTC, as programs on the simulated GPU find it."""
    from warpsim.driver.abi.compilers import library

    found: ctypes.CDLL | None = library("nvrtc")
    return found


def _by_nvrtc(nvrtc: ctypes.CDLL, file: str, flags: Sequence[str]) -> tuple[str, str]:
    program, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    includes = [
        Path(file).resolve().parent,
        *(path for folder in sys.path for path in sorted(Path(folder).glob("nvidia/*/include"))),
    ]
    words = [*flags, *(f"-I{folder}" for folder in includes)]
    given = (ctypes.c_char_p * len(words))(*[os.fsencode(word) for word in words])
    source = text_of(file).encode()

    def text(size: str, get: str) -> str:
        count = ctypes.c_size_t()
        getattr(nvrtc, size)(program, ctypes.byref(count))
        held = ctypes.create_string_buffer(count.value)
        getattr(nvrtc, get)(program, held)
        return held.value.decode(errors="replace")

    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, os.fsencode(os.path.abspath(file)), 0, None, None)
    try:
        if nvrtc.nvrtcCompileProgram(program, len(words), given):
            raise Unusable(f"NVRTC refuses {file}:\n{text('nvrtcGetProgramLogSize', 'nvrtcGetProgramLog').strip()}")
        return f"NVRTC {major.value}.{minor.value}", text("nvrtcGetPTXSize", "nvrtcGetPTX")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
