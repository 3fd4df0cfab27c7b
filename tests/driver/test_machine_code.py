"""What is machine code alone: the error, and what is said of it."""

import ctypes
import os
import re
from types import SimpleNamespace

import pytest

from warpsim.driver.abi import entry_points, rt_launch
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.raw import library_at

CUBIN = b"\x7fELF" + bytes(64)


def test_a_kernel_that_cannot_be_had(call, tmp_path, monkeypatch):
    """Machine code alone is refused with an error in the report, whether or not the program looks at its code."""
    monkeypatch.setenv("WARPSIM_REPORT", str(tmp_path / "report"))
    cubin = ctypes.create_string_buffer(CUBIN)
    assert call("cudaSetDevice", 0) == 0

    assert call("cuModuleLoadData", ctypes.c_uint64(), cubin) == 209
    assert call("cuMemFree_v2", 16) == 1
    assert '"severity": "error", "result": "CUDA_ERROR_NO_BINARY_FOR_GPU"' in (tmp_path / "report").read_text()
    assert (tmp_path / "report").read_text().count('"error"') == 1


@pytest.mark.parametrize(
    ("library", "said"),
    [("", "-gencode arch=compute_80"), ("libx.so", r"kernel k of libx\.so .* CPU .* your own kernels .*PTX")],
    ids=["the program's own", "a library's"],
)
def test_kernels_that_cannot_be_had(call, monkeypatch, library, said):
    """A launch fails as on a GPU that the program was not built for; what to do depends on whose kernel it is."""
    told = []
    image, stub, handle = ctypes.create_string_buffer(CUBIN), ctypes.c_uint32(), ctypes.c_uint64()
    monkeypatch.setattr(
        rt_launch, "library_at", lambda address: library if address == ctypes.addressof(image) else None
    )
    fatbin = call("__cudaRegisterFatBinary", image)
    assert call("__cudaRegisterFunction", fatbin, stub, 0, ctypes.create_string_buffer(b"k"), -1, 0, 0, 0, 0, 0) == 0
    monkeypatch.setattr(PROCESS.driver, "report", SimpleNamespace(problem=lambda *words: told.append(words)))

    assert call("__cudaGetKernel", handle, stub) == 0
    assert call("__cudaLaunchKernel", handle.value, 1, 1, 1, 1, 0, 0, 0) == 209
    assert call("cudaGetLastError") == 209
    assert call("__cudaGetKernel", handle, 16) == 98
    [(what, message, result), *_] = told
    assert (what, result) == ("__cudaLaunchKernel", "CUDA_ERROR_NO_BINARY_FOR_GPU")

    assert re.search(said, message)


def test_libraries_of_machine_code(call, monkeypatch):
    """NVIDIA's run time within a library asks for its own tables: the library is named, and what to do instead."""
    told, table = [], ctypes.create_string_buffer(entry_points.RUNTIME_TABLE)
    monkeypatch.setattr(entry_points, "library_at", lambda address: "libcublas.so.13")
    monkeypatch.setattr(PROCESS.driver, "report", SimpleNamespace(problem=lambda *words: told.append(words)))

    assert call("cuGetExportTable", ctypes.c_uint64(), table) == 801
    assert "libcublas.so.13 has" in told[0][1]
    assert "CPU" in told[0][1]


@pytest.mark.skipif(os.name == "nt", reason="the libraries are for Linux")
def test_the_library_of_an_address():
    """A function's library by its file's name; memory is in none."""
    function = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    memory = ctypes.create_string_buffer(16)

    assert library_at(function).startswith("lib")
    assert library_at(ctypes.addressof(memory)) == ""
