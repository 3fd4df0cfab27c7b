"""Functions of the libraries that few programs call, each held against what NVIDIA's documentation says that it stores and gives."""

import ctypes
import struct

import pytest

from driver_calls import (
    FILE_NOT_FOUND,
    HEAD,
    INVALID_CONTEXT,
    INVALID_DEVICE,
    INVALID_HANDLE,
    INVALID_VALUE,
    KERNELS,
    NOT_FOUND,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    row,
    string,
    text,
)
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.properties import total_memory


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("cuCtxSynchronize", ()),
        ("cuCtxResetPersistingL2Cache", ()),
        ("cuProfilerStart", ()),
        ("cudaProfilerStop", ()),
        ("cuCtxSetCacheConfig", (1,)),
        ("cudaDeviceSetSharedMemConfig", (2,)),
        ("cudaDeviceEnablePeerAccess", (0, 0)),
        ("cudaDeviceDisablePeerAccess", (0,)),
        ("cudaSetDeviceFlags", (8,)),
        ("cudaSetValidDevices", (0, 0)),
        ("cudaDeviceSynchronize", ()),
        ("cudaThreadSynchronize", ()),
        ("cuMemAdvise", (4096, 64, 1, 0)),
        ("cudaMemPrefetchAsync", (4096, 64, 1, 0, 0)),
        ("cuDeviceGraphMemTrim", (0,)),
        ("__cudaRegisterFatBinaryEnd", (0,)),
        ("__cudaRegisterTexture", (0, 0, 0, 0, 0, 0)),
        ("nvmlInitWithFlags", (0,)),
        ("nvmlShutdown", ()),
    ],
)
def test_nothing_to_do(ask, name, given):
    """Hints and switches of performance succeed, and change nothing."""
    ask(name, *given)


@pytest.mark.parametrize(
    ("name", "given", "status"),
    [
        ("cuInit", (1,), INVALID_VALUE),
        ("cuDeviceGet", (..., 1), INVALID_DEVICE),
        ("cuDeviceGet", (..., 0xFFFFFFFF), INVALID_DEVICE),
        ("cuDeviceGet", (0, 0), INVALID_VALUE),
        ("cuDeviceGetName", (string("-" * 8), 0, 0), INVALID_VALUE),
        ("cuDeviceGetPCIBusId", (string("-" * 8), 0, 0), INVALID_VALUE),
        ("cuDeviceGetAttribute", (..., 0, 0), INVALID_VALUE),
        ("cuDeviceGetAttribute", (..., 201, 0), INVALID_VALUE),
        ("cuDeviceGetLuid", (..., ..., 0), NOT_SUPPORTED),
        ("cuDeviceCanAccessPeer", (..., 0, 9), INVALID_DEVICE),
        ("cuCoredumpGetAttribute", (1, 0), NOT_SUPPORTED),
        ("cudaImportExternalMemory", (0, 0), NOT_SUPPORTED),
        ("cudaIpcCloseMemHandle", (0,), NOT_SUPPORTED),
        ("cuCtxSetLimit", (7, 1), 215),
        ("cuCtxGetLimit", (..., 7), 215),
        ("cuStreamDestroy_v2", (77,), INVALID_HANDLE),
        ("cuEventDestroy_v2", (77,), INVALID_HANDLE),
        ("cuMemPoolDestroy", (77,), INVALID_VALUE),
        ("cuStreamBeginCapture_v2", (0, 0), 900),
        ("cuStreamBeginCapture_v2", (2, 0), 900),
        ("cuMemHostUnregister", (4096,), 713),
        ("cuMemHostGetDevicePointer_v2", (..., 4096, 0), INVALID_VALUE),
        ("cuMemAllocHost_v2", (..., (1 << 44) + 1), OUT_OF_MEMORY),
        ("cuMemAlloc_v2", (..., 0), INVALID_VALUE),
        ("cuMemAlloc_v2", (..., total_memory() + 1), OUT_OF_MEMORY),
        ("cuModuleLoadData", (..., 0), INVALID_VALUE),
        ("cuModuleLoad", (..., string("/nowhere/at/all")), FILE_NOT_FOUND),
        ("cudaLibraryLoadFromFile", (..., string("/nowhere/at/all"), 0, 0, 0, 0, 0, 0), FILE_NOT_FOUND),
        ("cudaGetSymbolAddress", (..., 5), 13),
        ("cudaDeviceGetByPCIBusId", (..., string("nowhere")), INVALID_VALUE),
        ("cudaDeviceGetByPCIBusId", (..., string("0000:09:00.0")), INVALID_DEVICE),
        ("__cudaGetKernel", (..., 5), 98),
    ],
)
def test_refused(ask, name, given, status):
    """By the code that the documentation gives."""
    ask(name, *given, status=status)


def test_names_are_cut(ask):
    """A name takes no more than the room that it is given, with a zero at its end."""
    whole, cut, one = string("-" * 64), string("-" * 64), string("-" * 64)
    ask("cuDeviceGetName", whole, 64, 0)
    ask("cuDeviceGetName", cut, 6, 0)
    ask("cuDeviceGetName", one, 1, 0)
    assert cut.raw == whole.value[:5] + b"\0" + b"-" * 58 + b"\0"
    assert one.raw == b"\0" + b"-" * 63 + b"\0"
    ask("cuDeviceGetPCIBusId", whole, 12, 0, status=INVALID_VALUE)
    ask("cuDeviceGetPCIBusId", whole, 13, 0)
    assert whole.value == b"0000:01:00.0"


def test_old_properties(ask):
    """CUdevprop: threads of a block, extents of blocks and grids, then memory, warp, pitch, registers, clock, alignment."""
    out = (ctypes.c_int32 * 14)()
    ask("cuDeviceGetProperties", out, 0)
    assert list(out[:12]) == [1024, 1024, 1024, 64, 2**31 - 1, 65535, 65535, 48 << 10, 64 << 10, 32, 2**31 - 1, 65536]
    assert out[12] == ask("cuDeviceGetAttribute", ..., 13, 0)
    assert out[13] == 512


def test_contexts(ask):
    """Limits and flags of a context, its version and number; priorities of streams."""
    for limit, value in ((0, 1024), (1, 33 << 18), (2, 8 << 20), (3, 2), (4, 2048), (5, 128), (6, 0)):
        assert ask("cuCtxGetLimit", ..., limit) == value
        ask("cuCtxSetLimit", limit, value + 8)
        assert ask("cudaDeviceGetLimit", ..., limit) == value + 8
    made = ask("cuCtxCreate_v2", ..., 4, 0)
    assert ask("cuCtxGetCurrent", ...) == made
    assert ask("cuCtxGetFlags", ...) == 4
    ask("cuCtxSetFlags", 8)
    assert ask("cuCtxGetFlags", ...) == 8
    assert ask("cuCtxGetId", 0, ...) == ask("cuCtxGetId", made, ...)
    assert ask("cuCtxGetApiVersion", made, ...) == ask("cuDriverGetVersion", ...)
    least, greatest = ctypes.c_int32(7), ctypes.c_int32(7)
    ask("cuCtxGetStreamPriorityRange", least, greatest)
    assert (least.value, greatest.value) == (0, -5)
    ask("cuCtxDestroy_v2", made)
    ask("cuCtxDestroy_v2", made, status=INVALID_CONTEXT)
    ask("cuDevicePrimaryCtxSetFlags_v2", 0, 2)
    assert ask("cuDevicePrimaryCtxGetState", 0, ..., ...) == [2, 1]
    assert ask("cuCtxGetCacheConfig", ...) == ask("cudaDeviceGetSharedMemConfig", ...) == 0
    for active in (1, 0):  # the run time has retained it, too
        ask("cuDevicePrimaryCtxRelease_v2", 0)
        assert ask("cuDevicePrimaryCtxGetState", 0, ..., ...)[1] == active
    ask("cuDevicePrimaryCtxRelease_v2", 0, status=INVALID_CONTEXT)


def test_a_device_that_is_chosen(ask):
    """cudaSetDevice changes the context on top of the stack, and no other."""
    mine = ask("cuCtxGetCurrent", ...)
    other = ask("cuCtxCreate_v2", ..., 0, 0)
    ask("cudaSetDevice", 0)
    assert ask("cuCtxGetCurrent", ...) == mine != other
    assert ask("cuCtxPopCurrent_v2", ...) == ask("cuCtxPopCurrent_v2", ...) == mine
    assert ask("cuCtxGetCurrent", ...) == 0
    ask("cuCtxPopCurrent_v2", ..., status=INVALID_CONTEXT)
    ask("cudaSetDevice", 0)
    assert ask("cuCtxPopCurrent_v2", ...) == mine
    assert ask("cuCtxGetCurrent", ...) == 0


def test_entry_points(ask, monkeypatch):
    """The latest form of a function that a version of CUDA has; without a place for the status, none is an error."""
    names = (
        "cuInit",
        "cuMemAlloc",
        "cuMemAlloc_v2",
        "cuCtxCreate",
        "cuCtxCreate_v2",
        "cuCtxCreate_v3",
        "cuCtxCreate_v4",
    )
    where = {name: 4096 + 16 * index for index, name in enumerate(names)}
    monkeypatch.setattr(PROCESS, "addresses", where)
    for symbol, version, found in (
        ("cuInit", 12000, "cuInit"),
        ("cuMemAlloc", 11000, "cuMemAlloc_v2"),
        ("cuCtxCreate", 11000, "cuCtxCreate_v2"),
        ("cuCtxCreate", 11040, "cuCtxCreate_v3"),
        ("cuCtxCreate", 12050, "cuCtxCreate_v4"),
    ):
        assert ask("cuGetProcAddress_v2", string(symbol), ..., version, 0, ...) == [where[found], 0]
        assert ask("cudaGetDriverEntryPointByVersion", string(symbol), ..., version, 0, ...) == [where[found], 0]
    assert ask("cudaGetDriverEntryPoint", string("cuMemAlloc"), ..., 0, ...) == [where["cuMemAlloc_v2"], 0]
    assert ask("cuGetProcAddress", string("cuInit"), ..., 12000, 0) == where["cuInit"]
    assert ask("cuGetProcAddress_v2", string("cuNone"), ..., 12000, 0, ...) == [0, 1]
    assert ask("cuGetProcAddress_v2", string("cudaMalloc"), ..., 12000, 0, ...) == [0, 1]
    ask("cuGetProcAddress_v2", string("cuNone"), ..., 12000, 0, 0, status=NOT_FOUND)
    ask("cudaGetDriverEntryPoint", string("cuNone"), ..., 0, 0, status=NOT_FOUND)
    assert ask("cudaGetDriverEntryPoint", string("cuNone"), ..., 0, ...) == [0, 1]
    ask("cuGetProcAddress_v2", string("cuInit"), ..., 15000, 0, ..., status=INVALID_VALUE)


def test_export_tables(ask):
    """There are none; their place is null."""
    for name in ("cuGetExportTable", "cudaGetExportTable"):
        for number in (bytes(16), bytes.fromhex("6bd5fb6c5bf4e74a8987d93912fd9df9")):
            out = ctypes.c_uint64(5)
            ask(name, out, ctypes.create_string_buffer(number, 16), status=NOT_SUPPORTED)
            assert out.value == 0


def test_libraries(ask, tmp_path):
    """Libraries are modules that are no context's: kernels, variables, from memory or a file."""
    (tmp_path / "k.ptx").write_text(KERNELS)
    path = string(tmp_path / "k.ptx")
    for made in (
        ask("cuLibraryLoadData", ..., string(KERNELS), 0, 0, 0, 0, 0, 0),
        ask("cuLibraryLoadFromFile", ..., path, 0, 0, 0, 0, 0, 0),
        ask("cudaLibraryLoadFromFile", ..., path, 0, 0, 0, 0, 0, 0),
    ):
        module = ask("cuLibraryGetModule", ..., made)
        assert ask("cuLibraryGetKernelCount", ..., made) == 4
        kernel = ask("cuLibraryGetKernel", ..., made, string("put"))
        function = ask("cuKernelGetFunction", ..., kernel)
        assert ask("cuModuleGetFunction", ..., module, string("put")) == function != kernel
        assert ask("cuFuncGetModule", ..., function) == module != made
        assert ask("cuKernelGetLibrary", ..., kernel) == made
        address, size = ask("cuLibraryGetGlobal", ..., ..., made, string("room"))
        assert size == 24
        assert ask("cuMemGetAddressRange_v2", ..., ..., address) == [address, 24]
        ask("cuLibraryGetGlobal", ..., ..., made, string("none"), status=NOT_FOUND)
        ask("cuLibraryGetModule", ..., 77, status=INVALID_HANDLE)
        out = row(0, 0, 5)
        ask("cuLibraryEnumerateKernels", out, 2, made)
        assert [text(ask("cuKernelGetName", ..., handle)) for handle in out[:2]] == ["put", "ranks"]
        assert out[2] == 5
        ask("cuLibraryUnload", made)


@pytest.mark.parametrize("cut", [False, True])
def test_maps_of_tiles(ask, cut):
    """cuTensorMapEncodeTiled gives the 128 bytes that the same map of Python has; numbers of no kind are refused."""
    import warpsim

    made = ctypes.create_string_buffer(128)
    dims, strides, boxes, elements = (string(struct.pack(f, *v)) for f, v in (("<2Q", (64, 32)), ("<Q", (128,)), ("<2I", (64, 8)), ("<2I", (1, 1))))  # fmt: skip
    given = [made, 6, 2, 1 << 20, dims, strides, boxes, elements, 0, 3, 2, 1]
    if not cut:
        ask("cuTensorMapEncodeTiled", *given)
        expected = warpsim.TensorMap(
            1 << 20, data_type="FLOAT16", global_dim=(64, 32), global_strides=(128,), box_dim=(64, 8), swizzle="128B",
            l2_promotion="L2_128B", oob_fill="nan",
        )  # fmt: skip
        assert made.raw == bytes(expected.encode(1 << 20))
        return
    for at, value in ((2, 0), (2, 6), (1, 99), (8, 9), (9, 99), (10, 9), (11, 9), (3, (1 << 20) + 8)):
        ask("cuTensorMapEncodeTiled", *given[:at], value, *given[at + 1 :], status=INVALID_VALUE)
    assert made.raw == bytes(128)


def test_linking_just_in_time(call, tmp_path):
    """nvJitLink: modules from memory and files become one; its log says what cannot be linked."""
    handle, size = ctypes.c_uint64(), ctypes.c_uint64(9)
    options = [string("-arch=sm_90a"), string("-O3")]
    assert call("nvJitLinkCreate", handle, 2, row(*map(ctypes.addressof, options))) == 0
    one = HEAD + ".extern .func (.param .b32 r) six();\n.visible .entry k() { .reg .b32 %r; .param .b32 g; call (g), six, (); ld.param.b32 %r, [g]; ret; }"  # fmt: skip
    two = HEAD + ".visible .func (.param .b32 r) six() { st.param.b32 [r], 6; ret; }"
    (tmp_path / "two.ptx").write_text(two)
    assert call("__nvJitLinkAddData_12_0", handle.value, 2, string(one), len(one), string("one")) == 0
    assert call("nvJitLinkAddFile", handle.value, 2, string(tmp_path / "two.ptx")) == 0
    assert call("nvJitLinkGetErrorLogSize", handle.value, size) == 0
    assert size.value == 1
    assert call("nvJitLinkComplete", handle.value) == 0
    for what in ("Cubin", "Ptx"):
        assert call(f"nvJitLinkGetLinked{what}Size", handle.value, size) == 0
        linked = ctypes.create_string_buffer(size.value)
        assert call(f"nvJitLinkGetLinked{what}", handle.value, linked) == 0
        assert b"six" in linked.raw
        assert b".entry k" in linked.raw
    assert call("nvJitLinkGetLinkedLTOIRSize", handle.value, size) == 4
    assert call("nvJitLinkGetInfoLogSize", handle.value, size) == 0
    log = string("-")
    assert call("nvJitLinkGetInfoLog", handle.value, log) == 0
    assert (size.value, log.value) == (1, b"")
    assert call("nvJitLinkAddFile", handle.value, 2, string("/nowhere/at/all")) == 7
    assert call("nvJitLinkAddData", handle.value, 2, string("nonsense"), 8, string("no")) == 7
    assert call("nvJitLinkGetErrorLogSize", handle.value, size) == 0
    log = ctypes.create_string_buffer(b"-" * (size.value + 2))
    assert call("nvJitLinkGetErrorLog", handle.value, log) == 0
    assert b"/nowhere/at/all" in log.value
    assert len(log.value) == size.value - 1
    assert log.raw[size.value :] == b"--\0"
    old = handle.value
    assert call("nvJitLinkDestroy", handle) == 0
    assert handle.value == 0
    assert call("nvJitLinkComplete", old) == INVALID_HANDLE
    major, minor = ctypes.c_uint32(), ctypes.c_uint32()
    assert call("nvJitLinkVersion", major, minor) == 0
    assert (major.value, minor.value) < (12, 3)  # libraries hand PTX to a linker of before


def test_linking_nothing(ask, tmp_path):
    """A link of nothing is refused; one from a file is that of its text."""
    linker = ask("cuLinkCreate_v2", 0, 0, 0, ...)
    ask("cuLinkComplete", linker, ..., ..., status=INVALID_VALUE)
    ask("cuLinkAddFile_v2", linker, 1, string("/nowhere/at/all"), 0, 0, 0, status=FILE_NOT_FOUND)
    (tmp_path / "k.ptx").write_text(KERNELS)
    ask("cuLinkAddFile_v2", linker, 1, string(tmp_path / "k.ptx"), 0, 0, 0)
    image, size = ask("cuLinkComplete", linker, ..., ...)
    assert len(ctypes.string_at(image)) == size - 1
    assert ask("cuModuleGetFunctionCount", ..., ask("cuModuleLoadData", ..., image)) == 4


def test_management(call, monkeypatch):
    """NVML: handles are of GPUs that exist; versions of driver and CUDA; what its errors mean."""
    monkeypatch.setenv("WARPSIM_DEVICE", "sm_90a,sm_80")
    gpu, out, version = ctypes.c_uint64(), ctypes.c_uint32(9), ctypes.c_uint32()
    for index in (0, 1):
        assert call("nvmlDeviceGetHandleByIndex", index, gpu) == call("nvmlDeviceGetIndex", gpu.value, out) == 0
        assert out.value == index
    for wrong in (0, 3):
        assert call("nvmlDeviceGetIndex", wrong, out) == 2
        assert call("nvmlDeviceGetName", wrong, string("-" * 80), 80) == 2
        assert call("nvmlDeviceGetUUID", wrong, string("-" * 80), 80) == 2
    said = string("-" * 80)
    assert call("nvmlSystemGetDriverVersion", said, 80) == 0
    major, _, minor = said.value.decode().partition(".")
    assert int(major) >= 580 <= int(major)
    assert minor.isdigit()
    assert call("nvmlSystemGetDriverVersion", said, len(said.value)) == 7
    assert call("nvmlSystemGetDriverVersion", said, len(said.value) + 1) == 0
    assert call("nvmlSystemGetCudaDriverVersion", out) == call("cuDriverGetVersion", version) == 0
    assert out.value == version.value >= 13000
    assert [text(call("nvmlErrorString", n)) for n in (0, 2, 3, 6, 7, 77)] == ["Success", "Invalid Argument", "Not Supported", "Not Found", "Insufficient Size", "Unknown Error"]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "no error"),
        (9, "invalid configuration argument"),
        (12, "invalid pitch argument"),
        (13, "invalid device symbol"),
        (21, "invalid copy direction for memcpy"),
        (98, "invalid device function"),
        (700, "an illegal memory access was encountered"),
        (716, "misaligned address"),
        (4242, "unrecognized error code"),
    ],
)
def test_what_errors_mean(call, code, said):
    """In the words of cudaGetErrorString."""
    assert text(call("cudaGetErrorString", code)) == said
