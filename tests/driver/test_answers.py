"""What the functions of the libraries answer, beyond launches and copies: contexts, streams, events, memory, modules, graphs.

The answers are those of NVIDIA's documentation of the driver's interface; numbers of GPUs are those of its tables."""

import ctypes
import struct

import pytest

import driver_calls
from driver_calls import string
from ptx_text import module_head
from warpsim.driver.properties import shared_of_sm

INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, UNSUPPORTED_LIMIT, CONTEXT_IS_DESTROYED = 1, 201, 400, 215, 709
KERNELS = """.version 8.0\n.target sm_80\n.address_size 64\n.visible .global .align 8 .b8 room[24];
.visible .entry put(.param .u64 out, .param .u32 v) {
    .reg .b64 %d; .reg .b32 %r; .shared .align 16 .b8 s[4096];
    mov.u32 %r, s; st.shared.b32 [%r], %r; ld.param.u64 %d, [out]; ld.param.b32 %r, [v]; st.global.b32 [%d], %r; ret;
}
.visible .entry other() .maxntid 128 { ret; }"""
HOST = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint64)


@pytest.fixture
def kernels(ask, load):
    """A module, and its two functions."""
    module = load(KERNELS)
    return module, *(
        ask("cuModuleGetFunction", ..., module, ctypes.create_string_buffer(n)) for n in (b"put", b"other")
    )


def text(address):
    """A string of the library's."""
    return ctypes.string_at(address).decode()


def test_devices(ask, call):
    """Which there are, and what they are."""
    assert ask("cuDriverGetVersion", ...) >= 12000
    assert ask("cuDeviceGet", ..., 0) == 0
    ask("cuDeviceGet", ..., 1, status=101)
    assert ask("cuDeviceGetCount", ...) == 1
    assert ask("cuDeviceComputeCapability", ..., ..., 0) == [9, 0]
    assert ask("cuDeviceTotalMem_v2", ..., 0) == ask("cuMemGetInfo_v2", ..., ...)[1]
    ask("cuDeviceTotalMem_v2", ..., 3, status=101)
    bus, first, second = (ctypes.create_string_buffer(16) for _ in range(3))
    assert (
        call("cuDeviceGetPCIBusId", bus, 16, 0)
        == call("cuDeviceGetUuid", first, 0)
        == call("cuDeviceGetUuid_v2", second, 0)
        == 0
    )
    assert bus.value == b"0000:01:00.0"
    assert first.raw == second.raw != bytes(16)
    assert ask("cuDeviceGetLuid", ..., ..., 0, status=801) == [0, 0]
    assert ask("cuDeviceCanAccessPeer", ..., 0, 0) == 0
    assert ask("cuDeviceGetAttribute", ..., 75, 0) == 9
    assert ask("cuDeviceGetAttribute", ..., 87, 0) == 2  # f32 against f64: 128 and 64 results each cycle of an SM
    ask("cuDeviceGetAttribute", ..., 0, 0, status=INVALID_VALUE)
    old = ctypes.create_string_buffer(64)
    assert call("cuDeviceGetProperties", old, 0) == 0
    assert struct.unpack_from("<4i", old) == (1024, 1024, 1024, 64)
    assert ask("cuCtxGetStreamPriorityRange", ..., ...) == [0, (1 << 32) - 5]


def test_contexts(ask):
    """A stack of them for each thread; the device's own is retained and released, others are made and destroyed."""
    primary = ask("cuCtxGetCurrent", ...)
    assert ask("cuDevicePrimaryCtxGetState", 0, ..., ...) == [0, 1]
    ask("cuDevicePrimaryCtxSetFlags_v2", 0, 4)
    assert ask("cuDevicePrimaryCtxGetState", 0, ..., ...) == [4, 1]
    mine = ask("cuCtxCreate_v2", ..., 8, 0)
    assert mine != primary
    assert ask("cuCtxGetCurrent", ...) == mine
    assert ask("cuCtxGetFlags", ...) == 8
    ask("cuCtxSetFlags", 2)
    assert ask("cuCtxGetFlags", ...) == 2
    assert ask("cuCtxGetApiVersion", mine, ...) == ask("cuDriverGetVersion", ...)
    assert ask("cuCtxGetId", mine, ...) == ask("cuCtxGetId", 0, ...) != ask("cuCtxGetId", primary, ...)
    assert ask("cuCtxGetDevice_v2", ..., primary) == ask("cuCtxGetDevice_v2", ..., 0) == 0
    ask("cuCtxPushCurrent_v2", primary)
    assert ask("cuCtxPopCurrent_v2", ...) == primary
    assert ask("cuCtxGetCurrent", ...) == mine
    ask("cuCtxDestroy_v2", mine)
    ask("cuCtxDestroy_v2", mine, status=INVALID_CONTEXT)
    assert ask("cuCtxGetCurrent", ...) == primary
    ask("cuCtxDestroy_v2", primary, status=INVALID_CONTEXT)
    other = ask("cuCtxCreate_v3", ..., 0, 0, 0, 0)
    ask("cuCtxSetCurrent", primary)
    ask("cuCtxDetach", other)
    assert ask("cuCtxGetCurrent", ...) == primary
    address = ask("cuMemAlloc_v2", ..., 64)
    ask("cuDevicePrimaryCtxRetain", ..., 0)
    ask("cuDevicePrimaryCtxRelease_v2", 0)
    assert ask("cuDevicePrimaryCtxGetState", 0, ..., ...) == [4, 1]
    ask("cuMemFree_v2", address)
    held = ask("cuMemAlloc_v2", ..., 64)
    ask("cuDevicePrimaryCtxRelease_v2", 0)
    assert ask("cuDevicePrimaryCtxGetState", 0, ..., ...) == [4, 0]
    ask("cuMemFree_v2", held, status=INVALID_VALUE)
    ask("cuDevicePrimaryCtxRetain", ..., 0)
    ask("cuDevicePrimaryCtxReset_v2", 0)
    assert ask("cuDevicePrimaryCtxGetState", 0, ..., ...)[1] == 0
    assert [ask("cuCtxPopCurrent_v2", ...) for _ in range(2)] == [primary, primary]
    assert ask("cuCtxGetCurrent", ...) == 0
    ask("cuCtxPopCurrent_v2", ..., status=INVALID_CONTEXT)


def test_limits(ask):
    """Kept, and given back."""
    assert ask("cuCtxGetLimit", ..., 0) >= 1024
    ask("cuCtxSetLimit", 0, 4096)
    assert ask("cuCtxGetLimit", ..., 0) == 4096
    ask("cuCtxSetLimit", 99, 1, status=INVALID_VALUE)
    assert ask("cuCtxGetLimit", ..., 7, status=UNSUPPORTED_LIMIT) == 0
    assert ask("cuCtxGetCacheConfig", ...) == ask("cuCtxGetSharedMemConfig", ...) == 0


def test_errors(ask):
    """Names and texts."""
    assert text(ask("cuGetErrorName", 201, ...)) == "CUDA_ERROR_INVALID_CONTEXT"
    assert text(ask("cuGetErrorString", 1, ...)) == "invalid argument"
    assert ask("cuGetErrorName", 77777, ..., status=INVALID_VALUE) == 0
    assert ask("cuGetErrorString", 77777, ..., status=INVALID_VALUE) == 0


def test_streams(ask):
    """What a stream was made with, what it stores, and who is called in its order."""
    stream = ask("cuStreamCreateWithPriority", ..., 1, -2)
    low, high = (ask("cuStreamCreateWithPriority", ..., 0, p) for p in (3, -100))
    assert [ask("cuStreamGetPriority", s, ...) - (1 << 32) for s in (stream, high)] == [-2, -5]
    assert ask("cuStreamGetPriority", low, ...) == 0
    assert [ask("cuStreamGetFlags", s, ...) for s in (stream, low)] == [1, 0]
    assert ask("cuStreamGetId", stream, ...) != ask("cuStreamGetId", low, ...)
    assert ask("cuStreamGetDevice", stream, ...) == 0
    primary = ask("cuCtxGetCurrent", ...)
    assert ask("cuStreamGetCtx", stream, ...) == primary
    assert ask("cuStreamGetCtx_v2", stream, ..., ...) == [primary, 0]
    address, word = ask("cuMemAlloc_v2", ..., 16), ctypes.c_uint32()
    ask("cuStreamWriteValue32_v2", stream, address, 0xABCD1234, 0)
    ask("cuStreamWriteValue64_v2", stream, address + 8, 1 << 40, 0)
    ask("cuMemcpyDtoH_v2", word, address, 4)
    assert word.value == 0xABCD1234
    ask("cuMemcpyDtoH_v2", word, address + 12, 4)
    assert word.value == 256
    for value, flags, met in ((0xABCD1234, 1, True), (0xABCD1235, 1, False), (5, 0, False), (0x80000000, 0, True), (0xFFFFFFFF, 0, False), (4, 2, True), (1, 2, False), (0, 3, True), (0xFFFFFFFF, 3, False)):  # fmt: skip
        ask("cuStreamWaitValue32_v2", stream, address, value, flags, status=0 if met else 801)
    seen = []
    host, callback = (
        HOST(lambda data: seen.append(data)),
        CALLBACK(lambda s, status, data: seen.append((s, status, data))),
    )
    ask("cuLaunchHostFunc", stream, ctypes.cast(host, ctypes.c_void_p).value, 11)
    ask("cuStreamAddCallback", stream, ctypes.cast(callback, ctypes.c_void_p).value, 12, 0)
    ask("cuStreamQuery", stream)
    assert seen == [11, (stream, 0, 12)]
    assert ask("cuStreamIsCapturing", stream, ...) == 0
    ask("cuStreamDestroy_v2", stream)
    ask("cuStreamDestroy_v2", stream, status=INVALID_HANDLE)


def test_events(ask):
    """Recorded in a stream, waited for in another; time passes between two of them."""
    first, last, still = (ask("cuEventCreate", ..., f) for f in (0, 0, 2))
    stream, span = ask("cuStreamCreate", ..., 0), ctypes.c_float(-1)
    ask("cuEventElapsedTime", span, first, last, status=INVALID_HANDLE)
    for event in (first, last, still):
        ask("cuEventRecord", event, stream)
    ask("cuStreamWaitEvent", 0, last, 0)
    ask("cuEventQuery", last)
    ask("cuEventElapsedTime", span, first, last)
    assert 0 <= span.value < 60_000
    ask("cuEventElapsedTime", span, first, still, status=INVALID_HANDLE)
    ask("cuEventDestroy_v2", first)
    ask("cuEventSynchronize", first, status=CONTEXT_IS_DESTROYED)


def test_memory(ask):
    """Pitches, pinned and managed memory, what an address belongs to, and pools."""
    free = ask("cuMemGetInfo_v2", ..., ...)[0]
    address, pitch = ask("cuMemAllocPitch_v2", ..., ..., 700, 3, 4)
    assert pitch == 1024
    assert ask("cuMemGetAddressRange_v2", ..., ..., address + 5) == [address, 3072]
    assert free - ask("cuMemGetInfo_v2", ..., ...)[0] >= 3072
    pinned, managed = ask("cuMemHostAlloc", ..., 64, 0), ask("cuMemAllocManaged", ..., 64, 1)
    assert ask("cuMemHostGetDevicePointer_v2", ..., pinned, 0) == pinned
    ask("cuMemHostGetDevicePointer_v2", ..., address, 0, status=INVALID_VALUE)
    own = ctypes.create_string_buffer(4096)
    ask("cuMemHostGetDevicePointer_v2", ..., ctypes.addressof(own), 0, status=INVALID_VALUE)
    ask("cuMemHostRegister_v2", own, 4096, 0)
    assert ask("cuMemHostGetDevicePointer_v2", ..., ctypes.addressof(own), 0) == ctypes.addressof(own)
    ask("cuMemHostUnregister", own)
    types = [ask("cuPointerGetAttribute", ..., 2, p) for p in (address, pinned, managed)]
    assert types == [2, 1, 2]
    assert [ask("cuPointerGetAttribute", ..., 8, p) for p in (address, pinned, managed)] == [0, 0, 1]
    assert [ask("cuPointerGetAttribute", ..., n, address + 100) for n in (3, 4, 9, 11, 12, 13, 1, 6)] == [
        *(address + 100, 0, 0, address, 3072, 1, ask("cuCtxGetCurrent", ...), 1)
    ]
    assert ask("cuPointerGetAttribute", ..., 4, pinned) == pinned
    assert ask("cuPointerGetAttribute", ..., 7, address) != ask("cuPointerGetAttribute", ..., 7, managed)
    ask("cuPointerGetAttribute", ..., 77, address, status=INVALID_VALUE)
    ask("cuPointerGetAttribute", ..., 2, 64, status=INVALID_VALUE)
    numbers, cells = (ctypes.c_uint32 * 2)(2, 9), [ctypes.c_uint64(5), ctypes.c_uint64(0)]
    outs = (ctypes.c_uint64 * 2)(*map(ctypes.addressof, cells))
    ask("cuPointerGetAttributes", 2, numbers, outs, 64)
    assert [c.value for c in cells] == [0, (1 << 32) - 2]
    ask("cuPointerGetAttributes", 2, numbers, outs, address)
    assert [c.value for c in cells] == [2, 0]
    ask("cuMemFreeHost", pinned)
    ask("cuMemFree_v2", managed)
    ask("cuMemFreeHost", address, status=INVALID_VALUE)
    pool, stream = ask("cuDeviceGetDefaultMemPool", ..., 0), ask("cuStreamCreate", ..., 0)
    assert ask("cuDeviceGetMemPool", ..., 0) == pool != ask("cuMemPoolCreate", ..., string("-" * 88))
    assert ask("cuMemPoolGetAttribute", pool, 1, ...) == 1
    assert ask("cuMemPoolGetAttribute", pool, 4, ...) == 0  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: nothing is kept
    ask("cuMemPoolSetAttribute", pool, 4, ctypes.c_uint64(1 << 33))
    assert ask("cuMemPoolGetAttribute", pool, 4, ...) == 1 << 33
    ask("cuMemPoolSetAttribute", pool, 2, ctypes.c_uint64(0))
    assert ask("cuMemPoolGetAttribute", pool, 2, ...) == 0
    used = ask("cuMemPoolGetAttribute", pool, 7, ...)
    given = ask("cuMemAllocFromPoolAsync", ..., 4096, pool, stream)
    assert ask("cuMemPoolGetAttribute", pool, 7, ...) == used + 4096
    ask("cuMemFreeAsync", given, stream)
    ask("cuMemFreeAsync", given, stream, status=INVALID_VALUE)


def test_fills(ask):
    """Of bytes, halves and words, in rows."""
    address, pitch = ask("cuMemAllocPitch_v2", ..., ..., 16, 4, 4)
    found = (ctypes.c_uint8 * 16)()
    for bits, value, written in ((8, 0x7F, b"\x7f"), (16, 0x1234, b"\x34\x12"), (32, 0x01020304, b"\x04\x03\x02\x01")):
        ask("cuMemsetD8_v2", address, 0, 4 * pitch)
        ask(f"cuMemsetD2D{bits}_v2", address, pitch, value, 3, 2)
        rows = []
        for row in range(3):
            ask("cuMemcpyDtoH_v2", found, address + row * pitch, 16)
            rows.append(bytes(found))
        assert rows == [(3 * written).ljust(16, b"\0")] * 2 + [bytes(16)]
        ask(f"cuMemsetD{bits}Async", address, value, 2, 0)
        ask("cuMemcpyDtoH_v2", found, address + 2 * pitch, 16)
        assert bytes(found) == bytes(16)


def test_functions(ask, kernels):
    """What modules hold, and attributes of functions."""
    module, put, other = kernels
    assert ask("cuModuleGetLoadingMode", ...) == 1
    assert ask("cuModuleGetFunctionCount", ..., module) == 2
    both = (ctypes.c_uint64 * 2)()
    ask("cuModuleEnumerateFunctions", both, 2, module)
    assert sorted(both) == sorted((put, other))
    assert [text(ask("cuFuncGetName", ..., f)) for f in (put, other)] == ["put", "other"]
    assert ask("cuFuncGetModule", ..., put) == module
    address, size = ask("cuModuleGetGlobal_v2", ..., ..., module, ctypes.create_string_buffer(b"room"))
    assert (address % 8, size) == (0, 24)
    assert ask("cuFuncGetParamCount", put, ...) == 2
    assert ask("cuFuncGetParamInfo", put, 1, ..., ...) == [8, 4]
    ask("cuFuncGetParamInfo", put, 2, ..., ..., status=INVALID_VALUE)
    assert [ask("cuFuncGetAttribute", ..., n, put) for n in (0, 1, 2, 5, 6, 8, 10, 11)] == [
        1024,
        4096,
        0,
        80,
        90,
        48 * 1024 - 4096,
        0,
        0,
    ]
    assert ask("cuFuncGetAttribute", ..., 0, other) == 128
    for threads, status in ((128, 0), (129, INVALID_VALUE)):  # numba-cuda's tests have it from a GPU
        ask("cuLaunchKernel", other, 1, 1, 1, threads, 1, 1, 0, 0, 0, 0, status=status)
    ask("cuFuncGetAttribute", ..., 55, put, status=INVALID_VALUE)
    for value, status in ((227 * 1024 - 4096, 0), (227 * 1024 - 4095, INVALID_VALUE), (0xFFFFFFFF, INVALID_VALUE)):
        ask("cuFuncSetAttribute", put, 8, value, status=status)
    assert ask("cuFuncGetAttribute", ..., 8, put) == 227 * 1024 - 4096
    ask("cuFuncSetAttribute", put, 9, 50)
    assert ask("cuFuncGetAttribute", ..., 9, put) == 50
    assert ask("cuOccupancyMaxPotentialClusterSize", ..., put, string("-" * 56)) == 8
    ask("cuFuncSetAttribute", put, 14, 1)
    assert ask("cuOccupancyMaxPotentialClusterSize", ..., put, string("-" * 56)) == 16
    for number in (3, 17):  # Triton asks whether the driver is one that has 17
        ask("cuFuncSetAttribute", put, number, 1, status=INVALID_VALUE)
    assert ask("cuFuncGetAttribute", ..., 1, put) == 4096
    assert ask("cuFuncIsLoaded", ..., put) == 1


def test_occupancy(ask, kernels):
    """An H100 has 2,048 threads, 32 blocks and 228 KiB of shared memory on a multiprocessor, of which each block costs 1 KiB."""
    _, put, other = kernels
    blocks = {n: ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", ..., put, n, 0) for n in (32, 128, 512, 1024)}
    assert blocks == {32: 32, 128: 16, 512: 4, 1024: 2}
    assert ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", ..., put, 128, 100 * 1024) == 2
    assert ask("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", ..., put, 128, 200 * 1024, 0) == 1
    assert ask("cuOccupancyMaxPotentialBlockSize", ..., ..., other, 0, 0, 0) == [132 * 16, 128]
    assert ask("cuOccupancyMaxPotentialBlockSize", ..., ..., put, 0, 0, 64)[1] == 64
    most = ask("cuOccupancyAvailableDynamicSMemPerBlock", ..., put, 2, 128)
    assert ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", ..., put, 128, most) == 2
    config = ctypes.create_string_buffer(struct.pack("<7I4xQQI", 132, 1, 1, 1024, 1, 1, 0, 0, 0, 0))
    assert ask("cuOccupancyMaxActiveClusters", ..., put, config) == 264


@pytest.mark.parametrize(
    ("sm", "kib"),
    [(70, 96), (72, 96), (75, 64), (80, 164), (86, 100), (87, 164), (89, 100), (90, 228), (100, 228), (120, 100)],
)
def test_shared_memory_of_a_multiprocessor(sm, kib):
    """As the CUDA programming guide has it, by compute capability."""
    assert shared_of_sm(sm) == kib * 1024


class Graphs:
    """A graph of four nodes: a fill, a launch, a function of the host, and nothing."""

    def __init__(self, ask, put):
        self.ask, self.seen = ask, []
        self.graph, self.address = ask("cuGraphCreate", ..., 0), ask("cuMemAlloc_v2", ..., 16)
        self.host = HOST(self.seen.append)
        self.fill = ask("cuGraphAddMemsetNode", ..., self.graph, 0, 0, self.filling(0x11), 0)
        self.kernel = ask("cuGraphAddKernelNode_v2", ..., self.graph, self.row(self.fill), 1, self.launching(put, 7))
        self.called = ask("cuGraphAddHostNode", ..., self.graph, self.row(self.kernel), 1, self.calling(3))
        self.empty = ask("cuGraphAddEmptyNode", ..., self.graph, 0, 0)

    def row(self, *handles):
        """An array."""
        return (ctypes.c_uint64 * len(handles))(*handles)

    def filling(self, value):
        """CUDA_MEMSET_NODE_PARAMS: four words."""
        return ctypes.create_string_buffer(struct.pack("<QQIIQQ", self.address, 0, value, 4, 4, 1))

    def launching(self, put, value):
        """CUDA_KERNEL_NODE_PARAMS."""
        self.values = ctypes.c_uint64(self.address + 4), ctypes.c_uint32(value)
        self.params = self.row(*map(ctypes.addressof, self.values))
        return ctypes.create_string_buffer(
            struct.pack("<Q7I4xQQQQ", put, 1, 1, 1, 1, 1, 1, 0, ctypes.addressof(self.params), 0, 0, 0)
        )

    def calling(self, data):
        """CUDA_HOST_NODE_PARAMS."""
        return self.row(ctypes.cast(self.host, ctypes.c_void_p).value, data)

    def run(self, ready):
        """Memory after a launch."""
        out = (ctypes.c_uint32 * 4)()
        self.ask("cuGraphLaunch", ready, 0)
        self.ask("cuMemcpyDtoH_v2", out, self.address, 16)
        return list(out)

    def nodes(self, name, *arguments):
        """A list of handles."""
        handles, count = (ctypes.c_uint64 * 8)(), ctypes.c_uint64(8)
        self.ask(name, *arguments, handles, count)
        return list(handles)[: count.value]


def test_a_graph(ask, kernels):
    """Its nodes, their kinds and edges; what it does, and does with other arguments."""
    g = Graphs(ask, kernels[1])
    assert [ask("cuGraphNodeGetType", n, ...) for n in (g.kernel, g.fill, g.called, g.empty)] == [0, 2, 3, 5]
    assert g.nodes("cuGraphGetNodes", g.graph) == [g.fill, g.kernel, g.called, g.empty]
    assert g.nodes("cuGraphGetRootNodes", g.graph) == [g.fill, g.empty]
    assert g.nodes("cuGraphNodeGetDependencies", g.called) == [g.kernel]
    assert g.nodes("cuGraphNodeGetDependentNodes", g.fill) == [g.kernel]
    assert ask("cuGraphGetNodes", g.graph, 0, ...) == 4
    ask("cuGraphAddDependencies", g.graph, g.row(g.empty), g.row(g.fill), 1)
    assert g.nodes("cuGraphGetRootNodes", g.graph) == [g.empty]
    assert ask("cuGraphGetEdges", g.graph, 0, 0, ...) == 3
    pair = (ctypes.c_uint64 * 2)()
    ask("cuGraphHostNodeGetParams", g.called, pair)
    assert list(pair)[1] == 3
    ask("cuGraphHostNodeGetParams", g.empty, pair, status=INVALID_VALUE)
    ready = ask("cuGraphInstantiateWithFlags", ..., g.graph, 0)
    assert (g.run(ready), g.seen) == ([0x11, 7, 0x11, 0x11], [3])

    ask("cuGraphExecMemsetNodeSetParams", ready, g.fill, g.filling(0x22), 0)
    ask("cuGraphExecKernelNodeSetParams_v2", ready, g.kernel, g.launching(kernels[1], 9))
    ask("cuGraphExecHostNodeSetParams", ready, g.called, g.calling(4))
    assert (g.run(ready), g.seen) == ([0x22, 9, 0x22, 0x22], [3, 4])
    ask("cuGraphMemsetNodeSetParams", g.fill, g.filling(0x33))
    ask("cuGraphKernelNodeSetParams_v2", g.kernel, g.launching(kernels[1], 10))
    ask("cuGraphHostNodeSetParams", g.called, g.calling(5))
    assert g.run(ready) == [0x22, 9, 0x22, 0x22]
    ask("cuGraphExecUpdate_v2", ready, g.graph, driver_calls.row(9, 9, 9))
    assert (g.run(ready), g.seen) == ([0x33, 10, 0x33, 0x33], [3, 4, 4, 5])

    clone = ask("cuGraphClone", ..., g.graph)
    copy = ask("cuGraphNodeFindInClone", ..., g.called, clone)
    ask("cuGraphDestroyNode", copy)
    assert len(g.nodes("cuGraphGetNodes", clone)) == 3
    ask("cuGraphNodeFindInClone", ..., copy, clone, status=INVALID_VALUE)
    result = driver_calls.row(9, 9, 9)
    ask("cuGraphExecUpdate_v2", ready, clone, result, status=910)
    assert (result[0] & 0xFFFFFFFF, *result[1:]) == (2, 0, 0)  # the topology has changed
    assert ask("cuGraphExecGetFlags", ready, ...) == 0
    ask("cuGraphExecDestroy", ready)
    ask("cuGraphLaunch", ready, 0, status=INVALID_VALUE)
    ask("cuGraphDestroy", g.graph)
    ask("cuGraphGetNodes", g.graph, 0, ..., status=INVALID_VALUE)


def test_a_link(ask):
    """Two modules become one, of data and of a file; without them there is nothing to load."""
    linker = ask("cuLinkCreate_v2", 0, 0, 0, ...)
    source = ctypes.create_string_buffer(KERNELS.encode())
    ask("cuLinkAddData_v2", linker, 1, source, len(KERNELS), 0, 0, 0, 0)
    image, size = ask("cuLinkComplete", linker, ..., ...)
    assert size > 0
    module = ask("cuModuleLoadData", ..., image)
    assert ask("cuModuleGetFunctionCount", ..., module) == 2
    ask("cuLinkDestroy", linker)
    ask("cuLinkComplete", linker, ..., ..., status=INVALID_HANDLE)


def test_files(ask, tmp_path):
    """A module from a file, or none."""
    path = tmp_path / "k.ptx"
    path.write_text(KERNELS)
    module = ask("cuModuleLoad", ..., ctypes.create_string_buffer(str(path).encode()))
    assert ask("cuModuleGetFunctionCount", ..., module) == 2
    ask("cuModuleLoad", ..., ctypes.create_string_buffer(str(tmp_path / "none").encode()), status=301)
    ask("cuModuleUnload", module)
    ask("cuModuleUnload", module, status=INVALID_HANDLE)


def test_variables_of_an_unloaded_module(ask):
    """Their memory is gone; a module that nothing had asked for goes as well."""
    text = module_head() + ".visible .global .align 4 .u32 seven = 7;\n"
    word = ctypes.c_uint32()
    for used in (True, False):
        module = ask("cuModuleLoadData", ..., ctypes.create_string_buffer(text.encode()))
        if used:
            place, size = ask("cuModuleGetGlobal_v2", ..., ..., module, ctypes.create_string_buffer(b"seven"))
            ask("cuMemcpyDtoH_v2", word, place, size)
            assert (size, word.value) == (4, 7)
        ask("cuModuleUnload", module)
    ask("cuMemcpyDtoH_v2", word, place, size, status=INVALID_VALUE)


@pytest.fixture
def program(call, words_of):
    """A program of the run time: how it asks, a kernel's stub and a variable's shadow."""
    stub, shadow, source = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.create_string_buffer(KERNELS.encode())
    handle = call("__cudaRegisterFatBinary", source)
    name, room = ctypes.create_string_buffer(b"put"), ctypes.create_string_buffer(b"room")
    assert call("__cudaRegisterFunction", handle, stub, 0, name, -1, 0, 0, 0, 0, 0) == 0
    assert call("__cudaRegisterVar", handle, shadow, 0, room, 0, 24, 0, 0) == 0
    words = words_of(call)
    words.kept = handle, source  # a module is read when it is used
    return words, stub, shadow


def test_the_device_of_the_run_time(program, call):
    """Chosen, described, and its errors by their numbers."""
    ask, _, _ = program
    ask("cudaSetDevice", 0)
    ask("cudaSetDevice", 1, status=101)
    assert call("cudaPeekAtLastError") == call("cudaGetLastError") == 101
    assert call("cudaGetLastError") == 0
    assert ask("cudaGetDevice", ...) == ask("cudaChooseDevice", ..., 0) == 0
    assert ask("cudaGetDeviceFlags", ...) == 8
    assert ask("cudaDeviceGetByPCIBusId", ..., ctypes.create_string_buffer(b"0000:01:00.0")) == 0
    assert text(call("cudaGetErrorName", 9)) == "cudaErrorInvalidConfiguration"
    assert text(call("cudaGetErrorString", 1)) == "invalid argument"
    assert text(call("cudaGetErrorString", 77777)) == "unrecognized error code"
    new, old = ctypes.create_string_buffer(1008), ctypes.create_string_buffer(1032)
    assert call("cudaGetDeviceProperties", new, 0) == call("cudaGetDeviceProperties_v2", old, 0) == 0
    assert b"H100" in new.raw[:256]
    assert new.raw[:256] == old.raw[:256]
    address = ask("cudaMalloc", ..., 64)
    ask("cudaDeviceReset")
    ask("cudaFree", address, status=INVALID_VALUE)


def test_functions_of_the_run_time(program):
    """Their attributes and how many fit: those of the driver."""
    ask, stub, _ = program
    kernel = ask("cudaGetFuncBySymbol", ..., stub)
    assert text(ask("cudaFuncGetName", ..., stub)) == "put"
    assert ask("cudaFuncGetParamCount", kernel, ...) == 2
    out = ctypes.create_string_buffer(80)
    ask("cudaFuncGetAttributes", out, stub)
    sizes = struct.unpack_from("<3Q6i", out)
    assert (sizes[:4], sizes[5:7]) == ((4096, 0, 0, 1024), (80, 90))
    ask("cudaFuncSetAttribute", stub, 8, 100_000)
    ask("cudaFuncGetAttributes", out, stub)
    assert struct.unpack_from("<3Q6i", out)[8] == 100_000
    assert ask("cudaOccupancyMaxActiveBlocksPerMultiprocessor", ..., stub, 512, 0) == 4
    most = ask("cudaOccupancyAvailableDynamicSMemPerBlock", ..., stub, 3, 128)
    assert ask("cudaOccupancyMaxActiveBlocksPerMultiprocessor", ..., stub, 128, most) == 3
    assert ask("cudaOccupancyMaxPotentialClusterSize", ..., stub, string("-" * 56)) == 8
    config = ctypes.create_string_buffer(struct.pack("<6IQQQII", 132, 1, 1, 128, 2, 4, 0, 0, 0, 0, 0))
    assert ask("cudaOccupancyMaxActiveClusters", ..., stub, config) == 264
    ask("cudaFuncGetName", ..., 64, status=98)


def test_memory_of_the_run_time(program, call):
    """Rows, planes, symbols, and what an address is."""
    ask, _, shadow = program
    address, pitch = ask("cudaMallocPitch", ..., ..., 20, 6)
    assert pitch == 512
    found = (ctypes.c_uint8 * 24)()
    ask("cudaMemset2D", address, pitch, 0x105, 3, 2)
    for row, expected in ((0, 5), (1, 5), (2, 0)):
        ask("cudaMemcpy", found, address + row * pitch, 4, 2)
        assert bytes(found)[:4] == bytes([expected] * 3 + [0])
    given = (ctypes.c_uint8 * 24)(*range(24))
    ask("cudaMemcpy2D", address + 3 * pitch, pitch, given, 8, 4, 3, 1)
    ask("cudaMemcpy2D", found, 6, address + 3 * pitch, pitch, 4, 3, 2)
    assert [list(found)[k : k + 4] for k in (0, 6, 12)] == [[0, 1, 2, 3], [8, 9, 10, 11], [16, 17, 18, 19]]
    cube = ctypes.create_string_buffer(32)
    assert call("warpsimMalloc3D", cube, 5, 2, 2) == 0
    pointer, step, width, height = struct.unpack("<4Q", cube.raw)
    assert (step, width, height) == (512, 5, 2)
    assert call("warpsimMemset3D", pointer, step, height, 9, 5, 1, 2, 0) == 0
    for row, expected in ((0, 9), (1, 0), (2, 9), (3, 0)):
        ask("cudaMemcpy", found, pointer + row * step, 6, 2)
        assert bytes(found)[:6] == bytes([expected] * 5 + [0])
    assert ask("cudaGetSymbolSize", ..., shadow) == 24
    variable = ask("cudaGetSymbolAddress", ..., shadow)
    ask("cudaMemcpyToSymbol", shadow, given, 8, 16, 1)
    ask("cudaMemcpyToSymbol", shadow, given, 9, 16, 1, status=INVALID_VALUE)
    ask("cudaMemcpyPeer", found, 0, variable, 0, 24)
    assert list(found) == [0] * 16 + list(range(8))
    out, managed = ctypes.create_string_buffer(24), ask("cudaMallocManaged", ..., 64, 1)
    pinned = ask("cudaMallocHost", ..., 64)
    for where, expected in ((address + 7, (2, 0, address + 7, 0)), (managed, (3, 0, managed, managed)), (pinned, (1, 0, pinned, pinned)), (64, (0, -2, 0, 64))):  # fmt: skip
        ask("cudaPointerGetAttributes", out, where)
        assert struct.unpack("<iiQQ", out.raw) == expected
    ask("cudaMallocArray", ..., 0, 4, 4, 0, status=INVALID_VALUE)
    bytes_of_one = (ctypes.c_int * 5)(8, 0, 0, 0, 1)
    array = ask("cudaMallocArray", ..., bytes_of_one, 8, 2, 0)
    ask(
        "cudaMemcpy2DToArray", array, 0, 0, given, 0, 8, 1, 1
    )  # the pitch of a single row does not matter: volumeRender's is 0
    ask("cudaMemcpy2DToArray", array, 0, 0, given, 0, 8, 2, 1, status=INVALID_VALUE)
    ask("cudaMemcpy2DFromArray", found, 0, array, 0, 0, 8, 1, 2)
    assert bytes(found)[:8] == bytes(given)[:8]
    ask("cudaIpcGetMemHandle", ..., address, status=801)
    ask("cudaFree", address)
    ask("cudaFree", address, status=INVALID_VALUE)


def test_configurations(program):
    """What stands between <<< and >>> comes back in the reverse order."""
    ask, _, _ = program
    for number in (1, 2):
        ask("__cudaPushCallConfiguration", number | 5 << 32, 6, 32 | 2 << 32, 3, 100 * number, 0)
    grid, block, shared, stream = (
        (ctypes.c_uint32 * 3)(),
        (ctypes.c_uint32 * 3)(),
        ctypes.c_uint64(),
        ctypes.c_uint64(9),
    )
    for number in (2, 1):
        ask("__cudaPopCallConfiguration", grid, block, shared, stream)
        assert (list(grid), list(block), shared.value, stream.value) == ([number, 5, 6], [32, 2, 3], 100 * number, 0)
