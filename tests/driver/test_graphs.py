"""Graphs beyond what a recording of the driver has: conditions that kernels set, functions that go, nodes of the run time."""

import ctypes
import struct

import pytest

from driver_calls import HEAD, INVALID_HANDLE, row, string
from warpsim.driver.merging import ARCHIVE

COUNTING = (
    HEAD
    + """.extern .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value);
.visible .entry count(.param .u64 p, .param .u64 handle, .param .u32 most) {
    .reg .b64 %d<2>; .reg .b32 %r<2>; .reg .pred %p;
    ld.param.u64 %d0, [p]; ld.param.u64 %d1, [handle]; ld.param.u32 %r1, [most];
    ld.global.u32 %r0, [%d0]; add.u32 %r0, %r0, 1; st.global.u32 [%d0], %r0;
    setp.lt.u32 %p, %r0, %r1; selp.u32 %r0, 1, 0, %p;
    { .param .b64 a; .param .b32 b; st.param.b64 [a], %d1; st.param.b32 [b], %r0; call cudaGraphSetConditional, (a, b); }
    ret; }"""
)


def kernel_params(function, *arguments):
    """CUDA_KERNEL_NODE_PARAMS of a launch of one thread, and what it points to."""
    cells = [string(data) for data in arguments]
    pointers = row(*map(ctypes.addressof, cells))
    words = (function, 1, 1, 1, 1, 1, 1, 0, ctypes.addressof(pointers), 0, 0, 0)
    made = string(struct.pack("<Q7I4xQQQQ", *words))
    made.kept = cells, pointers
    return made


@pytest.mark.parametrize(("most", "expected"), [(1, 1), (5, 5)])
def test_a_kernel_sets_a_condition(ask, words, most, expected):
    """A loop ends when its body says so, by the device runtime's function that the linker puts in."""
    address, read = words
    linker = ask("cuLinkCreate_v2", 0, 0, 0, ...)
    archive = b"!<arch>\n" + ARCHIVE
    ask("cuLinkAddData_v2", linker, 1, string(COUNTING), len(COUNTING) + 1, 0, 0, 0, 0)
    ask("cuLinkAddData_v2", linker, 4, string(archive), len(archive), 0, 0, 0, 0)
    function = ask("cuModuleGetFunction", ..., ask("cuModuleLoadData", ..., ask("cuLinkComplete", linker, ..., ...)[0]), string("count"))  # fmt: skip
    graph, context = ask("cuGraphCreate", ..., 0), ask("cuCtxGetCurrent", ...)
    handle = ask("cuGraphConditionalHandleCreate", ..., graph, context, 1, 1)
    given = string(struct.pack("<I12xQIIQQ", 13, handle, 1, 1, 0, context).ljust(256, b"\0"))
    ask("cuGraphAddNode_v2", ..., graph, 0, 0, 0, given)
    body = ctypes.c_uint64.from_address(struct.unpack_from("<Q", given, 32)[0]).value
    counting = kernel_params(function, struct.pack("<Q", address), struct.pack("<Q", handle), struct.pack("<I", most))
    ask("cuGraphAddKernelNode_v2", ..., body, 0, 0, counting)
    ready = ask("cuGraphInstantiateWithFlags", ..., graph, 0)
    for launch in (1, 2):  # the default is set anew: the body runs at least once
        ask("cuGraphLaunch", ready, 0)
        assert read()[0] == expected + launch - 1
    ask("cuGraphDestroy", graph)
    ask("cuGraphGetNodes", body, 0, ..., status=1)


def test_a_graph_whose_module_is_unloaded(ask, functions, words):
    """Its launch is refused, as the function's own is."""
    module, found = functions
    graph = ask("cuGraphCreate", ..., 0)
    given = kernel_params(found["put"], struct.pack("<Q", words[0]), struct.pack("<I", 7))
    node = ask("cuGraphAddKernelNode_v2", ..., graph, 0, 0, given)
    ready = ask("cuGraphInstantiateWithFlags", ..., graph, 0)
    ask("cuModuleUnload", module)
    ask("cuGraphLaunch", ready, 0, status=INVALID_HANDLE)
    assert not any(words[1]())
    ask("cuGraphAddKernelNode_v2", ..., graph, 0, 0, given, status=INVALID_HANDLE)
    out = (ctypes.c_uint64 * 9)(9)
    ask("cuGraphKernelNodeGetParams_v2", node, out)
    assert out[0] == 0


def test_copies_of_the_run_time(ask, words):
    """Other bytes, in a node and in a graph that is ready; the parameters are those of cudaMemcpy3DParms."""
    address, read = words
    data = (ctypes.c_uint32 * 4)(1, 2, 3, 4)
    graph = ask("cudaGraphCreate", ..., 0)
    node = ask("cudaGraphAddMemcpyNode1D", ..., graph, 0, 0, address, data, 8, 1)
    ready = ask("cudaGraphInstantiate", ..., graph, 0)
    ask("cudaGraphExecMemcpyNodeSetParams1D", ready, node, address + 16, data, 12, 1)
    ask("cudaGraphLaunch", ready, 0)
    assert read()[:8] == [0, 0, 0, 0, 1, 2, 3, 0]
    ask("cudaGraphMemcpyNodeSetParams1D", node, address, ctypes.addressof(data) + 4, 4, 1)
    out = (ctypes.c_uint64 * 20)()
    ask("cudaGraphMemcpyNodeGetParams", node, out)
    assert (out[4], out[12], list(out[16:19])) == (ctypes.addressof(data) + 4, address, [4, 1, 1])
    ask("cudaGraphMemcpyNodeSetParams", node, out)
    ask("cudaGraphLaunch", ask("cudaGraphInstantiate", ..., graph, 0), 0)
    assert read()[0] == 2
