"""What is machine code alone: the error, and what is said of it."""

import ctypes
import os
import re
import struct
from types import SimpleNamespace

import pytest

from warpsim.driver import modules
from warpsim.driver.abi import entry_points, rt_launch
from warpsim.driver.abi.nvcc.__main__ import link
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.raw import file_at, library_at

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


def fatbin(text):
    """A fatbin of one PTX text for compute_80 (the format as in warpsim.host.sources)."""
    entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0, 64, len(text), 0, 0, 0, 0, 80, 0, 0, 0, 0, 0)
    return struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, len(entry + text)) + entry + text


def elf(sections):
    """An ELF file of 64 bits with these sections (System V ABI, chapter 4)."""
    names, data = b"\0", b""
    table = struct.pack("<IIQQQQIIQQ", *[0] * 10)
    for name, content in [*sections.items(), (".shstrtab", None)]:
        at = len(names)
        names += name.encode() + b"\0"
        content = names if content is None else content
        table += struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, 64 + len(data), len(content), 0, 0, 1, 0)
        data += content
    head = b"\x7fELF\x02\x01\x01".ljust(40, b"\0") + struct.pack(
        "<QI6H", 64 + len(data), 0, 64, 0, 0, 64, len(sections) + 2, len(sections) + 1
    )
    return head + data + table


KERNEL = b""".version 8.0
.target sm_80
.address_size 64
.extern .func other();
.visible .entry k() { call other; ret; }
"""
OTHER = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .func other() { ret; }\n"


def test_objects_that_are_linked_as_machine_code(tmp_path, call, monkeypatch):
    """nvcc -rdc=true: a section of the file has each object's PTX, which is linked here where the program's fatbin has none."""
    program = tmp_path / "program"
    program.write_bytes(elf({".text": b"x", "__nv_relfatbin": fatbin(KERNEL) + bytes(8) + fatbin(OTHER)}))
    (tmp_path / "other").write_bytes(elf({".text": b"x"}))
    (tmp_path / "cut").write_bytes(program.read_bytes()[:-80])

    text = modules.separately_compiled(str(program), 80)
    assert b".entry k" in text
    assert b".func other() { ret; }" in text
    assert [modules.separately_compiled(str(tmp_path / name), 80) for name in ("other", "cut", "none")] == [b""] * 3
    assert modules.separately_compiled(str(program), 75) == b""

    image, stub = ctypes.create_string_buffer(CUBIN), ctypes.c_uint32()
    monkeypatch.setattr(rt_launch, "file_at", lambda address: str(program) * (address == ctypes.addressof(image)))
    handle = call("__cudaRegisterFatBinary", image)
    assert call("__cudaRegisterFunction", handle, stub, 0, ctypes.create_string_buffer(b"k"), -1, 0, 0, 0, 0, 0) == 0
    assert call("__cudaGetKernel", found := ctypes.c_uint64(), stub) == 0
    one = 1 << 32 | 1  # x and y
    assert call("__cudaLaunchKernel", found.value, one, 1, one, 1, 0, 0, 0) == 0


def test_objects_that_are_linked_for_the_device(tmp_path):
    """nvcc -cubin -dlink: the wrapper leaves their PTX, linked; a cubin where there is none."""
    for name, text in (("a", KERNEL), ("b", OTHER)):
        (tmp_path / f"{name}.o").write_bytes(elf({".text": b"x", "__nv_relfatbin": fatbin(text)}))
    (tmp_path / "c.o").write_bytes(elf({".text": b"x"}))
    a, b, c, made = (str(tmp_path / name) for name in ("a.o", "b.o", "c.o", "made"))
    target = "arch=compute_80,code=sm_80"
    for words in (
        [f"-gencode={target}", a, b, "-o", made],
        ["-gencode", target, "-o", made, a, b],
        ["-arch=sm_80", a, "-o", made, b],
    ):
        link(["--cubin", "--device-link", *words])
        assert b".func other() { ret; }" in (tmp_path / "made").read_bytes()
        (tmp_path / "made").unlink()
    link(["--cubin", "-gencode=arch=compute_80,code=sm_80", "--device-link", c, "-o", made + "2"])
    assert not (tmp_path / "made2").exists()


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="the libraries are for Linux")
def test_the_file_of_an_address():
    """By the system's own list, and a library by its file's name; memory is in none."""
    function = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    small, large = ctypes.create_string_buffer(16), ctypes.create_string_buffer(1 << 21)

    assert os.path.isabs(file_at(function))
    assert os.path.exists(file_at(function))
    assert library_at(function).startswith("lib")
    for memory in (ctypes.addressof(small), ctypes.addressof(large) + (1 << 20)):
        assert file_at(memory) == library_at(memory) == ""


def test_logs_of_a_module_that_is_refused(call):
    """A program prints what it asked to be logged, whether the module loads or not: nothing, as a text that ends."""
    log, cubin = ctypes.create_string_buffer(b"garbage"), ctypes.create_string_buffer(CUBIN)
    keys = (ctypes.c_uint32 * 3)(5, 6, 9)  # CU_JIT_ERROR_LOG_BUFFER, its size, CU_JIT_TARGET
    values = (ctypes.c_uint64 * 3)(ctypes.addressof(log), 7, 90)
    assert call("cudaSetDevice", 0) == 0

    assert call("cuModuleLoadDataEx", ctypes.c_uint64(), cubin, 3, keys, values) == 209
    assert (log.value, list(values)[1:]) == (b"", [0, 90])


def test_logs_of_a_linker(call):
    """Where linking fails, PyCUDA reads as many bytes of the log as its size says, whatever that is."""
    log, state = ctypes.create_string_buffer(b"garbage"), ctypes.c_uint64()
    keys, values = (ctypes.c_uint32 * 2)(5, 6), (ctypes.c_uint64 * 2)(ctypes.addressof(log), 7)
    assert call("cudaSetDevice", 0) == 0

    assert call("cuLinkCreate_v2", 2, keys, values, state) == 0
    assert (log.value, values[1]) == (b"", 0)
    assert call("cuLinkDestroy", state.value) == 0
