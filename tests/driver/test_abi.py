"""The C interface: structures, handles, error codes, and every function of the libraries by its declaration."""

import ctypes
import importlib.util
import os
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.driver import library
from warpsim.driver.abi import compilers, entry_points, rt_device, rt_launch
from warpsim.driver.abi.calls import CALLS, INTERRUPT, Call, guarded
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.graphs import Graph, Node
from warpsim.driver.results import NAMES

HEAD = module_head()
RAW = """.visible .entry raw(.param .u64 out, .param .f32 v) {
    .reg .b64 %d; .reg .b32 %r;
    ld.param.u64 %d, [out]; ld.param.b32 %r, [v]; st.global.b32 [%d], %r; ret;
}"""
needs_compiler = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not any(map(shutil.which, ("cc", "gcc", "clang"))),
    reason="the libraries are for Linux, and a C compiler makes them",
)

needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")


def test_driver_calls(call, load):
    """Context, module, memory, launch and copy by their C names."""
    context, function, address, out = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint32()
    assert call("cuInit", 0) == 0
    assert call("cuCtxGetDevice", out) == 201
    assert call("cuDevicePrimaryCtxRetain", context, 0) == 0
    assert call("cuCtxSetCurrent", context.value) == 0
    assert call("cuModuleGetFunction", function, load(HEAD + RAW), ctypes.create_string_buffer(b"raw")) == 0
    assert call("cuModuleGetFunction", out, load(HEAD + RAW), ctypes.create_string_buffer(b"row")) == 500
    assert call("cuMemAlloc_v2", address, 4) == 0
    value = ctypes.c_uint32(0x7F812345)
    params = (ctypes.c_uint64 * 2)(ctypes.addressof(address), ctypes.addressof(value))
    assert call("cuLaunchKernel", function.value, 1, 1, 1, 1, 1, 1, 0, 0, params, 0) == 0
    assert call("cuMemcpyDtoH_v2", out, address.value, 4) == 0
    assert out.value == 0x7F812345
    buffer, size = ctypes.create_string_buffer(struct.pack("<QI", address.value, 5)), ctypes.c_uint64(12)
    extra = (ctypes.c_uint64 * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
    assert call("cuLaunchKernel", function.value, 1, 1, 1, 1, 1, 1, 0, 0, 0, extra) == 0
    assert call("cuMemcpyDtoH_v2", out, address.value, 4) == 0
    assert out.value == 5
    value.value = 6
    config = ctypes.create_string_buffer(struct.pack("<7I4xQQI", 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
    assert call("cuLaunchKernelEx", config, function.value, params, 0) == 0
    assert call("cuMemcpyDtoH_v2", out, address.value, 4) == 0
    assert out.value == 6
    assert call("cuMemFree_v2", address.value) == 0
    assert call("cuMemFree_v2", address.value) == 1
    assert call("cuLaunchKernel", function.value, 1, 1, 1, 1, 1, 1, 0, 0, params, 0) == 0
    assert call("cuCtxSynchronize") == 700
    assert call("cuMemAlloc_v2", address, 4) == 700


def test_structures_of_copies(call):
    """CUDA_MEMCPY2D and cudaMemcpy3DParms, by the offsets of cuda.h."""
    source, address = np.arange(32, dtype=np.uint8).reshape(4, 8), ctypes.c_uint64()
    assert call("cudaMalloc", address, 64) == 0
    assert call("cudaMemset", address.value, 0, 64) == 0
    host, device = 1, 2
    box = struct.pack("<QQI4xQQQQ", 1, 1, host, source.ctypes.data, 0, 0, 8)
    box += struct.pack("<QQI4xQQQQ", 2, 0, device, 0, address.value, 0, 16) + struct.pack("<QQ", 3, 2)
    assert call("cuMemcpy2D_v2", ctypes.create_string_buffer(box)) == 0
    out = np.zeros((4, 16), np.uint8)
    parameters = struct.pack("<QQQQQQQQ", 0, 0, 0, 0, address.value, 16, 16, 4)
    parameters += struct.pack("<QQQQQQQQ", 0, 0, 0, 0, out.ctypes.data, 16, 16, 4) + struct.pack("<QQQI4x", 16, 4, 1, 2)
    assert call("cudaMemcpy3D", ctypes.create_string_buffer(parameters)) == 0

    assert (out[:2, 2:5] == source[1:3, 1:4]).all()
    assert out.sum() == source[1:3, 1:4].sum()


def test_structures_of_copies_in_space(call):
    """CUDA_MEMCPY3D by the offsets of cuda.h: two sides of 88 bytes, then width in bytes, height and depth."""
    source, out, host = np.arange(60, dtype=np.uint8).reshape(3, 4, 5), np.zeros((3, 4, 5), np.uint8), 1
    side = "<QQQQI4xQQQQQQ"
    box = struct.pack(side, 1, 1, 1, 0, host, source.ctypes.data, 0, 0, 0, 5, 4)
    box += struct.pack(side, 0, 0, 0, 0, host, out.ctypes.data, 0, 0, 0, 5, 4) + struct.pack("<QQQ", 3, 2, 2)
    assert call("cudaSetDevice", 0) == call("cuMemcpy3D_v2", ctypes.create_string_buffer(box)) == 0
    assert out[:2, :2, :3].tolist() == source[1:, 1:3, 1:4].tolist()
    assert out.sum() == source[1:, 1:3, 1:4].sum()


def test_errors_of_the_run_time(call):
    """The last error is given once; one that sticks stays; names are the run time's own."""
    assert call("cudaMalloc", 0, 4) == 1
    assert call("cudaPeekAtLastError") == call("cudaGetLastError") == 1
    assert call("cudaGetLastError") == 0
    assert call("cudaLaunchKernel", 1234, 1, 1, 1, 1, 0, 0, 0) == 98
    for code, name in ((0, "cudaSuccess"), (9, "cudaErrorInvalidConfiguration"), (700, "cudaErrorIllegalAddress")):
        assert NAMES[code] == name
        assert ctypes.string_at(call("cudaGetErrorName", code)).decode() == name


def test_pinned_memory(call):
    """What is given back is gone: a second time it is no pinned memory."""
    address = ctypes.c_uint64()
    assert call("cudaHostAlloc", address, 64, 0) == 0
    assert call("cudaFreeHost", address.value) == 0
    assert call("cudaFreeHost", address.value) == 1


def test_where_an_allocation_lies(call):
    """Base and size of what an address lies in; elsewhere nothing is found."""
    address, base, size = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    assert call("cuInit", 0) == 0
    assert call("cuDevicePrimaryCtxRetain", base, 0) == call("cuCtxSetCurrent", base.value) == 0
    assert call("cuMemAlloc_v2", address, 1000) == 0
    assert call("cuMemGetAddressRange_v2", base, size, address.value + 999) == 0
    assert (base.value, size.value) == (address.value, 1000)
    assert call("cuMemGetAddressRange_v2", base, size, 4096) == 500


def test_pointers(call):
    """CU_POINTER_ATTRIBUTE_DEVICE_POINTER and HOST_POINTER: the host has no pointer to memory of the device."""
    device, pinned, found = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    assert call("cudaMalloc", device, 64) == 0
    assert call("cudaHostAlloc", pinned, 64, 0) == 0
    for address, host in ((device.value, 0), (pinned.value, pinned.value)):
        for number, expected in ((3, address), (4, host)):
            assert call("cuPointerGetAttribute", found, number, address) == 0
            assert found.value == expected
    assert call("cuPointerGetAttribute", found, 3, 4096) == 1


def test_what_comes_next_in_a_capture(call):
    """A stream that is captured goes on behind the nodes that it is given, whole or besides its own."""
    stream, other, empty, graph = (ctypes.c_uint64() for _ in range(4))
    status, number, nodes, count = ctypes.c_uint32(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    assert call("cudaStreamCreate", stream) == 0
    assert call("cudaStreamBeginCapture", stream.value, 0) == 0
    assert call("cudaStreamGetCaptureInfo_v2", stream.value, status, number, graph, nodes, count) == 0
    assert (status.value, count.value) == (1, 0)
    assert call("cuGraphAddEmptyNode", empty, graph.value, 0, 0) == 0
    assert call("cuGraphAddEmptyNode", other, graph.value, 0, 0) == 0
    two = (ctypes.c_uint64 * 2)(empty.value, other.value)
    for given, flags, expected in ((two, 1, 2), ((ctypes.c_uint64 * 1)(other.value), 1, 1), (two, 0, 2)):
        assert call("cudaStreamUpdateCaptureDependencies", stream.value, given, 0, len(given), flags) == 0
        assert call("cudaStreamGetCaptureInfo_v2", stream.value, status, number, graph, nodes, count) == 0
        assert count.value == expected
    assert call("cudaStreamEndCapture", stream.value, graph) == 0


def test_edges_and_graphs_in_graphs(call):
    """cuGraphGetEdges gives both ends of each edge; a node that holds a graph gives it, and others give none."""
    graph, child, first, second, found, count = (ctypes.c_uint64() for _ in range(6))
    assert call("cuGraphCreate", graph, 0) == call("cuGraphCreate", child, 0) == 0
    assert call("cuGraphAddEmptyNode", first, graph.value, 0, 0) == 0
    assert call("cuGraphAddEmptyNode", found, child.value, 0, 0) == 0
    assert call("cuGraphAddChildGraphNode", second, graph.value, first, 1, child.value) == 0
    assert call("cuGraphGetEdges", graph.value, 0, 0, count) == 0
    assert count.value == 1
    ends = [(ctypes.c_uint64 * 1)() for _ in range(2)]
    assert call("cuGraphGetEdges", graph.value, *ends, count) == 0
    assert [end[0] for end in ends] == [first.value, second.value]
    assert call("cuGraphChildGraphNodeGetGraph", second.value, found) == 0
    assert call("cuGraphGetNodes", found.value, 0, count) == 0
    assert count.value == 1
    assert call("cuGraphChildGraphNodeGetGraph", first.value, found) == 1


def test_im2col_maps(call):
    """cuTensorMapEncodeIm2col reads one corner after the other; another address changes nothing else."""
    words = [ctypes.create_string_buffer(struct.pack(f, *v)) for f, v in (
        ("<4Q", (64, 32, 16, 8)), ("<3Q", (128, 4096, 65536)), ("<2i", (-1, -2)), ("<2i", (3, 1)), ("<4I", (1, 1, 1, 1)))]  # fmt: skip
    dims, strides, lower, upper, elements = words
    made = ctypes.create_string_buffer(128)
    arguments = (made, 6, 4, 1 << 20, dims, strides, lower, upper, 64, 32, elements, 0, 3, 0, 0)
    assert call("cudaSetDevice", 0) == 0
    assert call("cuTensorMapEncodeIm2col", *arguments) == 0
    expected = warpsim.TensorMap.im2col(
        1 << 20, data_type="FLOAT16", global_dim=(64, 32, 16, 8), global_strides=(128, 4096, 65536),
        pixel_box_lower_corner=(-1, -2), pixel_box_upper_corner=(3, 1), channels_per_pixel=64, pixels_per_column=32,
        swizzle="128B",
    )  # fmt: skip
    assert made.raw == bytes(expected.encode(1 << 20))

    assert call("cuTensorMapReplaceAddress", made, 3 << 20) == 0
    assert made.raw == bytes(expected.encode(3 << 20))
    assert call("cuTensorMapReplaceAddress", made, 8) == 1
    assert call("cuTensorMapReplaceAddress", ctypes.create_string_buffer(128), 1 << 20) == 1
    assert made.raw == bytes(expected.encode(3 << 20))


def test_a_launch_with_attributes(call):
    """cudaLaunchConfig_t: grid, block, shared memory, stream, attributes, each where the structure has it."""
    text = ctypes.create_string_buffer((HEAD + RAW).encode())
    stub, out, stream = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint64()
    handle = call("__cudaRegisterFatBinary", text)
    assert call("__cudaRegisterFunction", handle, stub, 0, ctypes.create_string_buffer(b"raw"), -1, 0, 0, 0, 0, 0) == 0
    address, value = ctypes.c_uint64(), ctypes.c_float(2.5)
    assert call("cudaMalloc", address, 4) == 0
    assert call("cudaStreamCreate", stream) == 0
    params = (ctypes.c_uint64 * 2)(ctypes.addressof(address), ctypes.addressof(value))
    attributes = ctypes.create_string_buffer(128)
    config = ctypes.create_string_buffer(
        struct.pack("<6IQQQII", 1, 1, 1, 1, 1, 1, 0, stream.value, ctypes.addressof(attributes), 0, 0)
    )
    assert call("cudaLaunchKernelExC", config, stub, params) == 0
    assert call("cudaStreamSynchronize", stream.value) == 0
    assert call("cudaMemcpy", out, address.value, 4, 2) == 0
    assert struct.pack("<I", out.value) == struct.pack("<f", 2.5)
    assert call("cudaStreamDestroy", stream.value) == 0
    assert call("cudaLaunchKernelExC", config, stub, params) == 400
    one, value.value = 1 | 1 << 32, 3.5
    assert call("cudaLaunchCooperativeKernel", ctypes.addressof(stub), one, 1, one, 1, params, 0, 0) == 0
    assert call("cudaMemcpy", out, address.value, 4, 2) == 0
    assert struct.pack("<I", out.value) == struct.pack("<f", 3.5)


def test_libraries_of_the_run_time(call):
    """cudaLibrary: a kernel by name, its parameters, and a launch by its handle."""
    text, library, kernel = ctypes.create_string_buffer((HEAD + RAW).encode()), ctypes.c_uint64(), ctypes.c_uint64()
    assert call("cudaLibraryLoadData", library, text, 0, 0, 0, 0, 0, 0) == 0
    count, offset, size = ctypes.c_uint32(), ctypes.c_uint64(), ctypes.c_uint64()
    assert call("cudaLibraryGetKernelCount", count, library.value) == 0
    assert call("cudaLibraryGetKernel", kernel, library.value, ctypes.create_string_buffer(b"raw")) == 0
    assert call("cudaLibraryGetKernel", kernel, library.value, ctypes.create_string_buffer(b"none")) == 500
    assert call("cudaFuncGetParamInfo", kernel.value, 1, offset, size) == 0
    assert (count.value, offset.value, size.value) == (1, 8, 4)
    assert call("cudaFuncGetParamInfo", kernel.value, 0, offset, 0) == 0
    assert call("cudaFuncGetParamInfo", kernel.value, 2, offset, size) == 1
    assert (offset.value, size.value) == (0, 4)
    address, value, out = ctypes.c_uint64(), ctypes.c_float(2.5), ctypes.c_float()
    assert call("cudaMalloc", address, 4) == 0
    params = (ctypes.c_uint64 * 2)(ctypes.addressof(address), ctypes.addressof(value))
    assert call("cudaLaunchKernel", kernel.value, 1 | 1 << 32, 1, 1 | 1 << 32, 1, params, 0, 0) == 0
    assert call("cudaMemcpy", out, address.value, 4, 2) == 0
    assert out.value == 2.5
    assert call("cudaLibraryUnload", library.value) == 0
    assert call("cudaLibraryUnload", library.value) == 400


def test_properties():
    """cudaDeviceProp has the sizes that CUDA 12 and 13 give it, and the fields where they put them."""
    old, new = rt_device.properties_of(0, old=True), rt_device.properties_of(0, old=False)

    assert (len(old), len(new)) == (1032, 1008)
    assert struct.unpack_from("<ii", new, 360) == (9, 0)
    assert struct.unpack_from("<i", new, 384) == (132,)


def test_attributes(call):
    """What cuDeviceGetAttribute says of an H100: 227 KiB of shared memory where a kernel asks, 132 SMs, warps of 32."""
    out = ctypes.c_uint32()
    found = {}
    for number in (97, 16, 10):
        assert call("cuInit", 0) == call("cuDeviceGetAttribute", out, number, 0) == 0
        found[number] = out.value

    assert found == {97: 227 * 1024, 16: 132, 10: 32}


def test_management(call, monkeypatch):
    """NVML counts and names the GPUs that CUDA does; a handle is of one that exists, a text fits its buffer."""
    monkeypatch.setenv("WARPSIM_DEVICE", "sm_90a,sm_80")
    count, gpu, other, text = ctypes.c_uint32(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.create_string_buffer(96)
    assert call("nvmlInit_v2") == call("nvmlDeviceGetCount_v2", count) == 0
    assert count.value == 2
    assert call("nvmlDeviceGetHandleByIndex_v2", 1, gpu) == 0
    assert call("nvmlDeviceGetHandleByIndex_v2", 2, other) == 2
    names = []
    for name, words in (("nvmlDeviceGetName", (gpu.value, text, 96)), ("cuDeviceGetName", (text, 96, 1))):
        assert call("cuInit", 0) == call(name, *words) == 0
        names.append(text.value)
    assert names[0] == names[1]
    assert b"A100" in names[0]
    assert call("nvmlDeviceGetName", gpu.value, text, 4) == 7
    assert call("nvmlDeviceGetName", 3, text, 96) == call("nvmlDeviceGetName", 0, text, 96) == 2
    assert call("nvmlDeviceGetUUID", gpu.value, text, 96) == 0
    assert [len(part) for part in text.value.split(b"-")] == [3, 8, 4, 4, 4, 12]
    assert ctypes.string_at(call("nvmlErrorString", 7)) == b"Insufficient Size"
    assert call("cuDeviceGetPCIBusId", text, 96, 1) == call("nvmlDeviceGetHandleByPciBusId_v2", text, other) == 0
    assert other.value == gpu.value
    for wrong in (b"0000:09:00.0", b"x"):
        assert call("nvmlDeviceGetHandleByPciBusId_v2", ctypes.create_string_buffer(wrong), other) == 2
    assert call("nvmlDeviceGetComputeRunningProcesses", gpu.value, count, 0) == count.value == 0
    assert call("nvmlDeviceGetNvLinkRemoteDeviceType", gpu.value, 0, count) == 3


def test_what_a_fatbin_wrapper_registers(call):
    """A kernel and a variable of a program, by the addresses of their stubs."""
    text = ctypes.create_string_buffer((HEAD + ".visible .global .u32 v = 3;\n" + RAW).encode())
    stub, shadow, out = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint32()
    handle = call("__cudaRegisterFatBinary", text)
    assert call("__cudaRegisterFunction", handle, stub, 0, ctypes.create_string_buffer(b"raw"), -1, 0, 0, 0, 0, 0) == 0
    assert call("__cudaRegisterVar", handle, shadow, 0, ctypes.create_string_buffer(b"v"), 0, 4, 0, 0) == 0
    assert call("cudaMemcpyFromSymbol", out, shadow, 4, 0, 2) == 0
    assert out.value == 3
    assert call("cudaMemcpyFromSymbol", out, shadow, 8, 0, 2) == 1
    assert call("cudaMemcpyFromSymbol", out, out, 4, 0, 2) == 13
    address, value = ctypes.c_uint64(rt_launch.symbol(ctypes.addressof(shadow))[0]), ctypes.c_uint32(11)
    params = (ctypes.c_uint64 * 2)(ctypes.addressof(address), ctypes.addressof(value))
    one = 1 | 1 << 32
    assert call("cudaLaunchKernel", ctypes.addressof(stub), one, 1, one, 1, params, 0, 0) == 0
    assert call("cudaMemcpyFromSymbol", out, shadow, 4, 0, 2) == 0
    assert out.value == 11
    assert call("cudaLaunchKernel", ctypes.addressof(stub), one, 1, 2000 | 1 << 32, 1, params, 0, 0) == 1


def test_versions_of_functions(monkeypatch):
    """A program gets the form of a function that its CUDA has."""
    monkeypatch.setattr(PROCESS, "addresses", {name: index + 1 for index, name in enumerate(CALLS["cuda"])})
    number = PROCESS.addresses

    assert entry_points.entry("cuCtxCreate", 12000) == number["cuCtxCreate_v3"]
    assert entry_points.entry("cuCtxCreate", 13000) == number["cuCtxCreate_v4"]
    assert entry_points.entry("cuMemAlloc", 11000) == number["cuMemAlloc_v2"]
    assert entry_points.entry("cuGetProcAddress", 11030) == number["cuGetProcAddress"]
    assert entry_points.entry("cuNothing", 13000) == 0
    assert (
        entry_points.entry("cuLaunchHostFunc", 13000) == number["cuLaunchHostFunc"]
    )  # cuda.h of CUDA 13.1 has another
    assert entry_points.entry("cuLaunchHostFunc", 13010) == number["cuLaunchHostFunc_v2"]


def test_options_of_a_link(call):
    """nvJitLink is told the architecture by any of its options."""
    words = [ctypes.create_string_buffer(word) for word in (b"-O3", b"-lto", b"-arch=compute_80")]
    options, out = (ctypes.c_uint64 * 3)(*map(ctypes.addressof, words)), ctypes.c_uint64()
    assert call("nvJitLinkCreate", out, 3, options) == 0
    assert PROCESS.get(out.value, compilers.Link).sm == 80
    assert call("nvJitLinkCreate", out, 2, options) == 0
    assert PROCESS.get(out.value, compilers.Link).sm == 90
    assert call("nvJitLinkDestroy", out) == 0
    assert out.value == 0


PROGRAM = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuModuleLoadData(void **, const void *); int cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(uint64_t *, size_t); int cuMemcpyDtoH_v2(void *, uint64_t, size_t); int cuCtxSynchronize(void);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
typedef struct { void *p; size_t pitch, x, y; } Pitched; typedef struct { size_t w, h, d; } Extent;
int cudaMalloc3D(Pitched *, Extent); int cudaMemset3D(Pitched, int, Extent);
int cuCtxGetCurrent(void **);
static void *in_a_thread(void *context)
{
    void *found = NULL;
    if (cuCtxGetCurrent(&found) || found || cuCtxSetCurrent(context) || cuCtxGetCurrent(&found)) return NULL;
    return found;
}
int main(int count, char **words)
{
    pthread_t thread; void *same;
    void *context, *module, *function; uint64_t d; uint32_t out = 0; float v = 1.5f; Pitched box; unsigned char row[8];
    Extent size = {7, 3, 2};
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 2;
    pthread_create(&thread, NULL, in_a_thread, context); pthread_join(thread, &same); if (same != context) return 8;
    if (cuModuleLoadData(&module, TEXT) || cuModuleGetFunction(&function, module, "raw")) return 3;
    if (cuMemAlloc_v2(&d, 4)) return 4;
    if (count > 1) d += 64;
    void *params[] = {&d, &v};
    if (cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, params, 0)) return 5;
    if (cuCtxSynchronize()) { printf("failed\n"); return 0; }
    if (cuMemcpyDtoH_v2(&out, d, 4) || cudaMalloc3D(&box, size) || cudaMemset3D(box, 7, size)) return 6;
    if (cuMemcpyDtoH_v2(row, (uint64_t)box.p + 5 * box.pitch, 7) || row[6] != 7 || box.x != 7) return 7;
    printf("%08x\n", out);
    return 0;
}
"""


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("zig", [False, pytest.param(True, marks=needs_zig)])
def test_programs_in_c(tmp_path, monkeypatch, zig):
    """A C program that knows nothing of this one runs on the libraries; a finding is on standard error, in the report, and in
    the exit status."""
    if zig:
        monkeypatch.setenv("CC", f"{sys.executable} -m ziglang cc")
    monkeypatch.setenv("WARPSIM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WARPSIM_QUIET", raising=False)
    libraries = library.build()
    text = "".join(f'"{line}\\n"' for line in (HEAD + RAW).splitlines())
    (tmp_path / "p.c").write_text(PROGRAM.replace("TEXT", text))
    compiler = library.compiler()
    wanted = [str(libraries / "libcuda.so"), str(libraries / "libcudart.so")]
    subprocess.run([*compiler, str(tmp_path / "p.c"), "-o", str(tmp_path / "p"), "-lpthread", *wanted], check=True)
    report = tmp_path / "report"

    def run(*words):
        command = [sys.executable, "-m", "warpsim", "exec", "--report", str(report), "--", str(tmp_path / "p"), *words]
        return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)

    good, bad = run(), run("stray")

    assert (good.stdout, good.stderr, good.returncode) == ("3fc00000\n", "", 0)
    assert (bad.stdout, bad.returncode) == ("failed\n", 1)
    assert "out-of-bounds" in bad.stderr
    assert report.read_text().count('"rule": "out-of-bounds"') == 1


def test_an_interrupted_call(call):
    """An interrupt cannot leave a function that C called: the library raises it later, and the driver goes on."""
    stop = KeyboardInterrupt("enough")

    def stopped():
        raise stop

    assert guarded(Call("cuCtxSynchronize", "", stopped))() == 0
    assert INTERRUPT.value == id(stop)
    INTERRUPT.value = 0
    assert call("cudaMalloc", ctypes.c_uint64(), 4) == 0


def test_nodes_of_a_clone(call):
    """A clone has a node for each of the original's, with the same edges; another graph has none."""
    graph, clone, other, first, second, found = (ctypes.c_uint64() for _ in range(6))
    assert call("cudaGraphCreate", graph, 0) == call("cudaGraphCreate", other, 0) == 0
    assert call("cudaGraphAddEmptyNode", first, graph.value, 0, 0) == 0
    assert call("cudaGraphAddEmptyNode", second, graph.value, first, 1) == 0
    assert call("cudaGraphClone", clone, graph.value) == 0
    assert call("cudaGraphNodeFindInClone", found, second.value, clone.value) == 0
    node = PROCESS.get(found.value, Node)
    assert node.graph is PROCESS.get(clone.value, Graph)
    assert [before.graph for before in node.before] == [node.graph]
    assert call("cudaGraphNodeFindInClone", found, second.value, other.value) == 1
    assert call("cudaGraphAddChildGraphNode", found, other.value, 0, 0, graph.value) == 0
    assert len(PROCESS.get(found.value, Node).work.graph.nodes) == 2
    assert call("cudaGraphDestroy", clone.value) == call("cudaGraphDestroy", graph.value) == 0
