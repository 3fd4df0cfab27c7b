"""Launches, streams, captures and graphs by their C names: dimensions, attributes, order."""

import ctypes
import struct
from pathlib import Path

import pytest

from driver_calls import (
    CLUSTER,
    HEAD,
    ILLEGAL_STATE,
    INVALID_HANDLE,
    INVALID_VALUE,
    KERNELS,
    config,
    launch_attribute,
    row,
    string,
    text,
)
from warpsim.driver.abi.process import PROCESS


def test_attributes_of_functions(ask, functions):
    """Clusters, threads, shared memory: read, set, and refused."""
    found = functions[1]

    def attribute(name, number):
        return ask("cuFuncGetAttribute", ..., number, found[name])

    assert [attribute("wide", 0), attribute("put", 0), attribute("put", 4)] == [128, 1024, 32]
    assert [attribute("paired", n) for n in (10, 11, 12, 13)] == [1, 2, 1, 1]
    assert [attribute("put", n) for n in (7, 9, 10, 11, 14, 15)] == [0, 0xFFFFFFFF, 0, 0, 0, 0]
    for number, value in ((9, 30), (10, 1), (14, 1), (15, 0)):
        ask("cuFuncSetAttribute", found["put"], number, value)
    assert [attribute("put", 9), attribute("put", 14)] == [30, 1]
    ask("cuFuncGetAttribute", ..., 16, found["put"], status=INVALID_VALUE)
    for number in (0, 1, 4, 16):
        ask("cuFuncSetAttribute", found["put"], number, 1, status=INVALID_VALUE)
    library = ask("cuLibraryLoadData", ..., string(KERNELS), 0, 0, 0, 0, 0, 0)
    kernel = ask("cuLibraryGetKernel", ..., library, string("put"))
    ask("cuKernelSetAttribute", 9, 40, kernel, 0)
    assert ask("cuKernelGetAttribute", ..., 9, kernel, 0) == 40
    assert ask("cuFuncGetAttribute", ..., 9, ask("cuKernelGetFunction", ..., kernel)) == 40
    ask("cudaKernelSetAttributeForDevice", found["put"], 9, 50, 0)
    assert attribute("put", 9) == 50
    assert text(ask("cuFuncGetName", ..., found["wide"])) == "wide"
    assert ask("cuFuncGetModule", ..., found["wide"]) == functions[0]
    assert ask("cuModuleGetLoadingMode", ...) == 1


def test_launches_as_before_cuda_4(ask, functions, words):
    """A function keeps its block and parameters; too few parameters, or a grid of nothing, are refused."""
    (_, found), (address, read) = functions, words
    ask("cuLaunchGrid", found["ranks"], 1, 1, status=INVALID_VALUE)
    out = ctypes.c_uint64(address)
    ask("cuParamSetv", found["ranks"], 0, ctypes.addressof(out), 8)
    ask("cuParamSetSize", found["ranks"], 8)
    ask("cuFuncSetBlockShape", found["ranks"], 1, 1, 1)
    ask("cuFuncSetAttribute", found["ranks"], 11, 2)
    ask("cuLaunchGrid", found["ranks"], 4, 1)
    assert read()[:5] == [2, 2, 2, 2, 0]
    ask("cuParamSeti", found["ranks"], 0, (address + 4) & 0xFFFFFFFF)
    ask("cuLaunchGridAsync", found["ranks"], 4, 1, 0)
    assert read()[:6] == [2, 2, 2, 2, 2, 0]
    ask("cuParamSetf", found["ranks"], 0, struct.unpack("<f", struct.pack("<I", (address + 8) & 0xFFFFFFFF))[0])
    ask("cuLaunchGrid", found["ranks"], 4, 1)
    assert read()[:7] == [2, 2, 2, 2, 2, 2, 0]
    ask("cuFuncSetBlockShape", found["ranks"], 0, 1, 1, status=INVALID_VALUE)
    ask("cuLaunchGrid", found["ranks"], 0, 1, status=INVALID_VALUE)


def test_launches(ask, functions, words):
    """Clusters by an attribute of the launch or of the function; cooperative ones; events; what does not fit."""
    _, found = functions
    address, read = words
    out = ctypes.c_uint64(address)
    params = row(ctypes.addressof(out))
    one = (1, 1, 1)
    ask("cuLaunchKernelEx", config((4, 1, 1), one, launch_attribute(4, 2, 1, 1)), found["ranks"], params, 0)
    assert read()[:5] == [2, 2, 2, 2, 0]
    ask("cuLaunchKernelEx", config((4, 1, 1), one, launch_attribute(4, 0, 0, 0)), found["ranks"], params, 0)
    assert read()[:5] == [1, 1, 1, 1, 0]
    for number, extent in ((11, 4), (12, 1), (13, 1)):
        ask("cuFuncSetAttribute", found["ranks"], number, extent)
    ask("cuLaunchKernel", found["ranks"], 4, 1, 1, 1, 1, 1, 0, 0, params, 0)
    assert read()[:5] == [4, 4, 4, 4, 0]
    ask("cuLaunchKernel", found["ranks"], 6, 1, 1, 1, 1, 1, 0, 0, params, 0, status=CLUSTER)
    for cluster, grid in (((3, 1, 1), 4), ((16, 1, 1), 16), ((1, 2, 1), 4), ((1, 1, 2), 4)):
        given = config((grid, 1, 1), one, launch_attribute(4, *cluster))
        ask("cuLaunchKernelEx", given, found["ranks"], params, 0, status=CLUSTER)
    ask("cuFuncSetAttribute", found["ranks"], 14, 1)
    ask("cuLaunchKernelEx", config((16, 1, 1), one, launch_attribute(4, 16, 1, 1)), found["ranks"], params, 0)
    assert read() == [16] * 16
    for size, status in ((2, 0), (4, CLUSTER), (1, CLUSTER)):  # the kernel has clusters of two
        given = config((4, 1, 1), one, launch_attribute(4, size, 1, 1))
        ask("cuLaunchKernelEx", given, found["paired"], 0, 0, status=status)
    values = ctypes.c_uint64(address), ctypes.c_uint32(77)
    params = row(*map(ctypes.addressof, values))
    ask("cuLaunchCooperativeKernel", found["put"], 2, 1, 1, 4, 1, 1, 0, 0, params)
    assert read()[0] == 77
    limit = 132 * 2
    ask("cuLaunchCooperativeKernel", found["put"], limit, 1, 1, 1024, 1, 1, 0, 0, params)
    ask("cuLaunchCooperativeKernel", found["put"], limit + 1, 1, 1, 1024, 1, 1, 0, 0, params, status=720)
    for on, status in ((1, 720), (0, 0)):
        given = config((limit + 1, 1, 1), (1024, 1, 1), launch_attribute(2, on))
        ask("cuLaunchKernelEx", given, found["put"], params, 0, status=status)
    for number in (7, 12):
        first, last = ask("cuEventCreate", ..., 0), ask("cuEventCreate", ..., 0)
        ask("cuEventRecord", first, 0)
        ask("cuEventElapsedTime", ctypes.c_float(), first, last, status=INVALID_HANDLE)
        ends = last & 0xFFFFFFFF, last >> 32
        ask("cuLaunchKernelEx", config(one, one, launch_attribute(9, *ends)), found["put"], params, 0)
        ask("cuEventElapsedTime", ctypes.c_float(), first, last, status=INVALID_HANDLE)
        given = config(one, one, launch_attribute(9, 1) + launch_attribute(number, *ends))
        ask("cuLaunchKernelEx", given, found["put"], params, 0)
        ask("cuEventElapsedTime", ctypes.c_float(), first, last)
    ask("cuLaunchKernelEx", config(one, one, bytes(72 * 64)), found["put"], params, 0)
    ask("cuLaunchKernelEx", config(one, one, bytes(72 * 65)), found["put"], params, 0, status=INVALID_VALUE)
    ask("cuLaunchKernel", found["put"], 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, status=INVALID_VALUE)
    for grid, block in (((0, 1, 1), one), (one, (1, 0, 1)), (one, (1025, 1, 1)), (one, (32, 33, 1))):
        ask("cuLaunchKernel", found["put"], *grid, *block, 0, 0, params, 0, status=INVALID_VALUE)
    ask("cuLaunchKernel", found["put"], 1, 1, 1, 1, 1, 1, (48 << 10) + 1, 0, params, 0, status=INVALID_VALUE)
    ask("cuLaunchKernel", found["put"], 1, 1, 1, 32, 32, 1, 48 << 10, 0, params, 0)
    shorter, size = string(struct.pack("<QI", address, 5)), ctypes.c_uint64(8)
    ask("cuLaunchKernel", found["put"], 1, 1, 1, 1, 1, 1, 0, 0, 0, row(1, ctypes.addressof(shorter), 2, ctypes.addressof(size), 0), status=INVALID_VALUE)  # fmt: skip


LAUNCHES = [line.split() for line in Path(__file__).with_name("runtime_codes_h200.txt").read_text().splitlines()]
"""A kernel or a function of the runtime, its numbers, and after the sign what the runtime of CUDA 13.0 answers."""
CALLS = {
    "cudaMemcpy": lambda at, kind: (at, at, 8, kind),
    "cudaMemcpy2D": lambda at, to, of, width: (at, to, at, of, width, 1, 1),
    "cudaHostAlloc": lambda at, *numbers: (..., *numbers),
    "cudaMallocManaged": lambda at, *numbers: (..., *numbers),
    "cudaHostRegister": lambda at, *numbers: (ctypes.create_string_buffer(8), *numbers),
}


@pytest.mark.parametrize("line", [line for line in LAUNCHES if line[0] in {"put", "together", "paired"}], ids=" ".join)
def test_extents_of_the_run_time(ask, functions, words, line):
    """An H200's code for launches that no GPU, or no kernel with clusters of two CTAs, takes."""
    name, *numbers, _, code = line
    function = functions[1]["paired" if name == "paired" else "put"]
    gx, gy, gz, *block = map(int, numbers)
    extents = [gx | gy << 32, gz, block[0] | block[1] << 32, block[2]]
    values = ctypes.c_uint64(words[0]), ctypes.c_uint32(77)
    launch = "cudaLaunchCooperativeKernel" if name == "together" else "cudaLaunchKernel"
    ask(launch, function, *extents, row(*map(ctypes.addressof, values)), 0, 0, status=int(code))


@pytest.mark.parametrize("line", [line for line in LAUNCHES if line[0] == "put"], ids=" ".join)
def test_extents_of_older_run_times(ask, functions, words, line, monkeypatch):
    """cudaErrorInvalidConfiguration: "too many threads or blocks", in the words of the manual."""
    monkeypatch.setattr(PROCESS, "runtime", 12)
    _, gx, gy, gz, bx, by, bz, _, code = (int(word) if word.isdigit() else word for word in line)
    extents, status = [gx | gy << 32, gz, bx | by << 32, bz], 9 if code else 0
    values = ctypes.c_uint64(words[0]), ctypes.c_uint32(77)
    parameters = row(*map(ctypes.addressof, values))
    shape = (ctypes.c_uint32 * 16)(gx, gy, gz, bx, by, bz)
    ask("cudaLaunchKernel", functions[1]["put"], *extents, parameters, 0, 0, status=status)
    ask("cudaLaunchKernelExC", shape, functions[1]["put"], parameters, status=status)
    ask("cuLaunchKernel", functions[1]["put"], gx, gy, gz, bx, by, bz, 0, 0, parameters, 0, status=code)


@pytest.mark.parametrize(
    "shape", [(1, 65535, 1, 1, 1, 1), (1, 1, 1, 1024, 1, 1), (1, 1, 1, 1, 1024, 1), (1, 1, 1, 1, 1, 64)]
)
def test_the_largest_extents(ask, functions, words, shape):
    """The manual's limits can be reached (compute capabilities, maximum dimensions)."""
    gx, gy, gz, bx, by, bz = shape
    values = ctypes.c_uint64(words[0]), ctypes.c_uint32(77)
    extents = [gx | gy << 32, gz, bx | by << 32, bz]
    ask("cudaLaunchKernel", functions[1]["put"], *extents, row(*map(ctypes.addressof, values)), 0, 0)


def test_numbers_that_the_run_time_refuses(ask, load, functions, words):
    """An H200's code for kinds, pitches, flags and counts that are none."""
    for name, *numbers, _, code in (line for line in LAUNCHES if line[0] in CALLS):
        ask(name, *CALLS[name](words[0], *map(int, numbers)), status=int(code))
    ask("cudaMemcpy2D", *CALLS["cudaMemcpy2D"](words[0], 8, 4, 8), status=INVALID_VALUE)  # the other pitch
    asked = {line[0]: line for line in LAUNCHES}
    put = functions[1]["put"]
    ask("cudaFuncSetAttribute", put, 9, 150, status=int(asked["cudaFuncSetAttribute"][-1]))
    bounded = ask(
        "cuModuleGetFunction", ..., load(HEAD + ".visible .entry bounded() .maxntid 128 { ret; }"), string("bounded")
    )
    blocks = ask("cudaOccupancyMaxActiveBlocksPerMultiprocessor", ..., bounded, 129, 0)
    assert blocks == int(asked["bounded"][-1])
    stream = ask("cudaStreamCreateWithPriority", ..., 1, -99)
    assert ctypes.c_int32(ask("cudaStreamGetPriority", stream, ...)).value == int(
        asked["cudaStreamCreateWithPriority"][-1]
    )
    assert ask("cudaDeviceGetLimit", ..., 1) == int(asked["cudaDeviceGetLimit"][-1])


def test_captures(ask, words):
    """What a stream's capture is, and when one cannot begin or end."""
    address, read = words
    stream, other = ask("cuStreamCreate", ..., 0), ask("cuStreamCreate", ..., 0)
    assert ask("cuStreamIsCapturing", stream, ...) == 0
    ask("cuStreamEndCapture", stream, ..., status=ILLEGAL_STATE)
    status, rest = ctypes.c_uint32(7), [ctypes.c_uint64(7) for _ in range(5)]
    ask("cuStreamGetCaptureInfo_v3", stream, status, *rest)
    assert status.value == 0
    ask("cuStreamBeginCapture_v2", stream, 0)
    ask("cuStreamBeginCapture_v2", stream, 0, status=ILLEGAL_STATE)
    assert ask("cuStreamIsCapturing", stream, ...) == 1
    ask("cuMemsetD32Async", address, 5, 4, stream)
    ask("cuStreamGetCaptureInfo_v3", stream, status, *rest)
    number, graph, nodes, edges, count = (word.value for word in rest)
    assert (status.value, edges, count) == (1, 0, 1)
    assert number > 0
    assert ask("cuGraphGetNodes", graph, 0, ...) == 1
    assert ask("cuGraphNodeGetType", ctypes.c_uint64.from_address(nodes).value, ...) == 2
    event = ask("cuEventCreate", ..., 0)
    ask("cuEventRecord", event, stream)
    ask("cuEventSynchronize", event, status=907)
    ask("cuStreamWaitEvent", other, event, 0)
    assert ask("cuStreamIsCapturing", other, ...) == 1
    ask("cuStreamEndCapture", other, ..., status=903)
    assert ask("cuStreamEndCapture", stream, ...) == graph
    assert [ask("cuStreamIsCapturing", s, ...) for s in (stream, other)] == [0, 0]
    ask("cuStreamWaitEvent", other, event, 0, status=INVALID_VALUE)
    assert not any(read())
    first, last = (ask("cuStreamCreate", ..., 0) for _ in range(2))
    ask("cuStreamBeginCapture_v2", first, 0)
    ask("cuStreamBeginCapture_v2", last, 0)
    ask("cuEventRecord", event, first)
    ask("cuStreamWaitEvent", last, event, 0, status=INVALID_VALUE)
    assert [ask("cuStreamIsCapturing", s, ...) for s in (first, last)] == [2, 2]
    mode = ctypes.c_uint32(2)
    ask("cuThreadExchangeStreamCaptureMode", mode)
    assert mode.value == 0


def test_streams(ask):
    """Priorities are cut to what there is; flags, numbers, devices and contexts are given back."""
    for asked, expected in ((3, 0), (0, 0), (-2, 0xFFFFFFFE), (-9, 0xFFFFFFFB)):
        stream = ask("cuStreamCreateWithPriority", ..., 1, asked)
        assert ask("cuStreamGetPriority", stream, ...) == expected
        assert ask("cuStreamGetFlags", stream, ...) == 1
    current = ask("cuCtxGetCurrent", ...)
    assert ask("cuStreamGetCtx", stream, ...) == current
    assert ask("cuStreamGetCtx_v2", stream, ..., ...) == [current, 0]
    assert ask("cuStreamGetDevice", stream, ...) == 0
    assert ask("cuStreamGetId", stream, ...) != ask("cuStreamGetId", ask("cudaStreamCreate", ...), ...)
    ask("cuStreamQuery", stream)
    ask("cuStreamDestroy_v2", stream)
    ask("cuStreamQuery", stream, status=INVALID_HANDLE)


def test_edges(ask):
    """As many as there is room for, null behind the last; how many there are, where nobody asks for them."""
    graph = ask("cuGraphCreate", ..., 0)
    first, second, third = (ask("cuGraphAddEmptyNode", ..., graph, 0, 0) for _ in range(3))
    ask("cuGraphAddDependencies", graph, row(first, second), row(second, third), 2)
    ask("cuGraphAddDependencies", graph, row(first), row(second), 1, status=INVALID_VALUE)
    assert ask("cuGraphGetEdges", graph, 0, 0, ...) == 2
    for room, expected in ((1, [(first, second), (9, 9), (9, 9)]), (3, [(first, second), (second, third), (0, 0)])):
        ends, count = (row(9, 9, 9), row(9, 9, 9)), ctypes.c_uint64(room)
        ask("cuGraphGetEdges", graph, *ends, count)
        assert list(zip(*ends, strict=True)) == expected
        assert count.value == min(room, 2)
    for room, expected in ((2, [first, second, 9, 9]), (4, [first, second, third, 0])):
        nodes, count = row(9, 9, 9, 9), ctypes.c_uint64(room)
        ask("cuGraphGetNodes", graph, nodes, count)
        assert (list(nodes), count.value) == (expected, min(room, 3))
    assert ask("cuGraphExecGetFlags", ask("cuGraphInstantiateWithFlags", ..., graph, 0), ...) == 0
    ask("cuGraphAddDependencies", graph, row(third), row(first), 1)
    ask("cuGraphInstantiateWithFlags", ..., graph, 0, status=INVALID_VALUE)


def test_graphs_in_graphs(ask, words):
    """A node that is a graph does all of it, in its order."""
    address, read = words
    inner, outer = ask("cuGraphCreate", ..., 0), ask("cuGraphCreate", ..., 0)

    def fill(graph, before, offset, value):
        given = string(struct.pack("<QQIIQQ", address + offset, 0, value, 4, 2, 1))
        return ask("cuGraphAddMemsetNode", ..., graph, row(*before) if before else 0, len(before), given, 0)

    last = fill(inner, [], 4, 2)
    first = fill(inner, [], 0, 1)
    ask("cuGraphAddDependencies", inner, row(first), row(last), 1)
    child = ask("cuGraphAddChildGraphNode", ..., outer, 0, 0, inner)
    fill(outer, [child], 8, 3)
    assert ask("cuGraphNodeGetType", child, ...) == 4
    ask("cuGraphLaunch", ask("cuGraphInstantiateWithFlags", ..., outer, 0), 0)
    assert read()[:5] == [1, 2, 3, 3, 0]


def test_managed_variables(call, words_of):
    """The program reads a managed variable's address from its pointer, once the module is there."""
    source = HEAD + ".visible .global .attribute(.managed) .align 4 .u32 m = 5;\n.visible .entry k() { ret; }"
    image, pointer = string(source), ctypes.c_uint64(0)
    handle = call("__cudaRegisterFatBinary", image)
    assert call("__cudaRegisterManagedVar", handle, pointer, 0, string("m"), 0, 4, 0, 0) == 0
    assert pointer.value == 0
    assert call("__cudaInitModule", handle) == 0
    assert ctypes.c_uint32.from_address(pointer.value).value == 5
    ask = words_of(call)
    assert ask("cudaGetSymbolAddress", ..., pointer) == pointer.value
    assert ask("cudaGetSymbolSize", ..., pointer) == 4
    given = ctypes.c_uint32(8)
    ask("cudaMemcpyToSymbol", pointer, given, 4, 0, 1)
    assert ctypes.c_uint32.from_address(pointer.value).value == 8
    ask("cudaMemcpyFromSymbol", given, pointer, 5, 0, 2, status=INVALID_VALUE)
    ask("cudaMemcpyFromSymbol", given, pointer, 4, 1, 2, status=INVALID_VALUE)
    graph, memory = ask("cudaGraphCreate", ..., 0), ask("cudaMalloc", ..., 8)
    given.value = 21
    node = ask("cudaGraphAddMemcpyNodeToSymbol", ..., graph, 0, 0, pointer, given, 4, 0, 1)
    ask("cudaGraphAddMemcpyNodeFromSymbol", ..., graph, row(node), 1, memory + 4, pointer, 2, 0, 2)
    ask("cudaMemset", memory, 0, 8)
    ask("cudaGraphLaunch", ask("cudaGraphInstantiate", ..., graph, 0), 0)
    found = row(0)
    ask("cudaMemcpy", found, memory, 8, 2)
    assert found[0] == 21 << 32


def test_graphs_of_the_run_time(call, words_of):
    """A launch as a node, by its stub; with other arguments in the graph, and in one that is ready."""
    stub, image = ctypes.c_uint32(), string(KERNELS)
    handle = call("__cudaRegisterFatBinary", image)
    assert call("__cudaRegisterFunction", handle, stub, 0, string("put"), -1, 0, 0, 0, 0, 0) == 0
    ask = words_of(call)
    graph, memory = ask("cudaGraphCreate", ..., 0), ask("cudaMalloc", ..., 4)
    kept = []

    def given(value):
        values = ctypes.c_uint64(memory), ctypes.c_uint32(value)
        params = row(*map(ctypes.addressof, values))
        kept.append((values, params))
        return string(struct.pack("<Q7I4xQQ", ctypes.addressof(stub), 1, 1, 1, 1, 1, 1, 0, ctypes.addressof(params), 0))

    def run(ready):
        found = ctypes.c_uint32()
        ask("cudaGraphLaunch", ready, 0)
        ask("cudaMemcpy", found, memory, 4, 2)
        return found.value

    node = ask("cudaGraphAddKernelNode", ..., graph, 0, 0, given(3))
    ready = ask("cudaGraphInstantiateWithFlags", ..., graph, 0)
    assert run(ready) == 3
    ask("cudaGraphExecKernelNodeSetParams", ready, node, given(4))
    assert run(ready) == 4
    ask("cudaGraphKernelNodeSetParams", node, given(5))
    assert run(ready) == 4
    assert run(ask("cudaGraphInstantiateWithFlags", ..., graph, 0)) == 5
    assert ask("__cudaGetKernel", ..., stub) == ctypes.addressof(stub)


def test_a_graph_in_a_capture(ask):
    """A graph cannot be launched in a stream that is captured; the capture is invalid then."""
    graph, stream = ask("cuGraphCreate", ..., 0), ask("cuStreamCreate", ..., 0)
    ready = ask("cuGraphInstantiateWithFlags", ..., graph, 0)
    ask("cuStreamBeginCapture_v2", stream, 0)
    ask("cuGraphLaunch", ready, stream, status=900)
    assert ask("cuStreamIsCapturing", stream, ...) == 2
    ask("cuStreamEndCapture", stream, ..., status=901)


@pytest.mark.parametrize(
    ("threads", "shared", "blocks"),
    [
        (0, 0, 0), (1, 0, 32), (32, 0, 32), (33, 0, 32), (64, 0, 32), (65, 0, 21), (1024, 0, 2), (1025, 0, 0), (256, 0, 8),
        (32, 227 << 10, 1), (32, (227 << 10) + 1, 0), (32, 113 << 10, 2), (32, (113 << 10) + 1, 1), (32, 6 << 10, 32), (32, 7 << 10, 28),
    ],
)  # fmt: skip
def test_blocks_of_a_multiprocessor(ask, functions, threads, shared, blocks):
    """An H100: 2,048 threads, 32 blocks, 228 KiB of which each block costs one more, 227 KiB at most."""
    assert ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", ..., functions[1]["put"], threads, shared) == blocks


@pytest.mark.parametrize(
    ("blocks", "threads", "free"),
    [
        (1, 32, 227 << 10),
        (2, 32, 113 << 10),
        (2, 1024, 113 << 10),
        (3, 1024, 0),
        (0, 32, 0),
        (32, 32, (7 << 10) + 128 - 1024),
    ],
)
def test_shared_memory_that_is_left(ask, functions, blocks, threads, free):
    """As much as with which so many blocks are resident, and no more."""
    found = ask("cuOccupancyAvailableDynamicSMemPerBlock", ..., functions[1]["put"], blocks, threads)
    assert found == free


@pytest.mark.parametrize(("limit", "block"), [(0, 128), (64, 64), (100, 64), (16, 16), (1024, 128)])
def test_the_best_block(ask, functions, limit, block):
    """The largest with most threads on a multiprocessor, of those that the kernel allows."""
    grid, found = ask("cuOccupancyMaxPotentialBlockSize", ..., ..., functions[1]["wide"], 0, 0, limit)
    assert (found, grid) == (block, 132 * min(32, 64 // -(-block // 32)))
