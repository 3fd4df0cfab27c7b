"""Asks a CUDA driver for its codes: functions with right arguments, null, handles that have gone, and no context.

driver_codes.py OUT.txt WORKERS SECONDS     on a machine with a GPU and libcuda.so.1; lines of a function, and what it answered
driver_codes.py one NAME...           prints what some functions answer, or some of `driver_scenarios`
"""

import ctypes
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import driver_scenarios

PTX = b""".version 8.0
.target sm_90
.address_size 64
.visible .global .align 8 .b8 room[24];
.visible .entry put(.param .u64 out, .param .u32 v) {
    .reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [out]; ld.param.b32 %r, [v]; st.global.b32 [%d], %r; ret; }
.visible .entry other(.param .u64 out) { ret; }
.visible .entry bare() { ret; }
"""
HOST = ctypes.CFUNCTYPE(None, ctypes.c_uint64)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int32, ctypes.c_uint64)

CALLS = """
cuCtxCreate_v2 out 0 0
cuCtxCreate_v4 out 0 0 0
cuCtxDestroy_v2 context
cuCtxPushCurrent_v2 context
cuCtxPopCurrent_v2 out
cuCtxSetCurrent context
cuCtxGetCurrent out
cuCtxGetDevice out
cuCtxGetDevice_v2 out context
cuCtxGetFlags out
cuCtxSetFlags 0
cuCtxGetId context out
cuCtxSynchronize
cuCtxSynchronize_v2 context
cuCtxSetLimit 0 2048
cuCtxGetLimit out 0
cuCtxGetCacheConfig out
cuCtxSetCacheConfig 0
cuCtxGetSharedMemConfig out
cuCtxSetSharedMemConfig 0
cuCtxGetApiVersion context out
cuCtxGetStreamPriorityRange out out
cuCtxResetPersistingL2Cache
cuCtxEnablePeerAccess context 0
cuCtxDisablePeerAccess context
cuDeviceGet out 0
cuDeviceGetCount out
cuDeviceGetName out 64 0
cuDeviceGetUuid_v2 out 0
cuDeviceGetLuid out out 0
cuDeviceTotalMem_v2 out 0
cuDeviceGetAttribute out 16 0
cuDeviceGetProperties out 0
cuDeviceComputeCapability out out 0
cuDeviceGetPCIBusId out 64 0
cuDeviceGetByPCIBusId out bus
cuDeviceGetP2PAttribute out 1 0 0
cuDeviceCanAccessPeer out 0 0
cuDeviceGetDefaultMemPool out 0
cuDeviceGetMemPool out 0
cuDeviceSetMemPool 0 pool
cuDeviceGraphMemTrim 0
cuDeviceGetGraphMemAttribute 0 0 out
cuDeviceSetGraphMemAttribute 0 1 zero
cuDevicePrimaryCtxRetain out 0
cuDevicePrimaryCtxRelease_v2 0
cuDevicePrimaryCtxReset_v2 0
cuDevicePrimaryCtxGetState 0 out out
cuDevicePrimaryCtxSetFlags_v2 0 0
cuDriverGetVersion out
cuGetErrorName 1 out
cuGetErrorString 1 out
cuGetProcAddress_v2 name:cuInit out 12000 0 out
cuInit 0
cuProfilerStart
cuProfilerStop
cuModuleLoadData out image
cuModuleLoadDataEx out image 0 0 0
cuModuleLoadFatBinary out image
cuModuleLoad out file
cuModuleUnload module
cuModuleGetLoadingMode out
cuModuleGetFunction out module name:put
cuModuleGetFunctionCount out module
cuModuleEnumerateFunctions out 1 module
cuModuleGetGlobal_v2 out out module name:room
cuLibraryLoadData out image 0 0 0 0 0 0
cuLibraryLoadFromFile out file 0 0 0 0 0 0
cuLibraryUnload library
cuLibraryGetKernel out library name:put
cuLibraryGetKernelCount out library
cuLibraryEnumerateKernels out 1 library
cuLibraryGetModule out library
cuLibraryGetGlobal out out library name:room
cuKernelGetFunction out kernel
cuKernelGetLibrary out kernel
cuKernelGetName out kernel
cuKernelGetAttribute out 0 kernel 0
cuKernelSetAttribute 8 1024 kernel 0
cuKernelSetCacheConfig kernel 0 0
cuKernelGetParamInfo kernel 0 out out
cuFuncGetModule out function
cuFuncGetName out function
cuFuncGetParamInfo function 0 out out
cuFuncIsLoaded out function
cuFuncLoad function
cuFuncGetAttribute out 0 function
cuFuncSetAttribute function 8 1024
cuFuncSetCacheConfig function 0
cuFuncSetSharedMemConfig function 0
cuLinkCreate_v2 0 0 0 out
cuLinkAddData_v2 link 1 image image_size 0 0 0 0
cuLinkAddFile_v2 link 1 file 0 0 0
cuLinkComplete linked out out
cuLinkDestroy link
cuOccupancyMaxActiveBlocksPerMultiprocessor out function 128 0
cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags out function 128 0 0
cuOccupancyMaxPotentialBlockSize out out function 0 0 0
cuOccupancyMaxPotentialBlockSizeWithFlags out out function 0 0 0 0
cuOccupancyAvailableDynamicSMemPerBlock out function 1 128
cuOccupancyMaxPotentialClusterSize out function config
cuOccupancyMaxActiveClusters out function config
cuMemAlloc_v2 out 64
cuMemAllocPitch_v2 out out 64 4 4
cuMemAllocHost_v2 out 64
cuMemHostAlloc out 64 0
cuMemAllocManaged out 64 1
cuMemAllocAsync out 64 stream
cuMemAllocFromPoolAsync out 64 pool stream
cuMemFree_v2 memory
cuMemFreeHost pinned
cuMemFreeAsync pooled stream
cuMemHostRegister_v2 pages 4096 0
cuMemHostUnregister registered
cuMemHostGetDevicePointer_v2 out pinned 0
cuMemHostGetFlags out pinned
cuMemGetInfo_v2 out out
cuMemGetAddressRange_v2 out out memory
cuPointerGetAttribute out 2 memory
cuPointerGetAttributes 1 attributes outs memory
cuPointerSetAttribute one 6 memory
cuMemRangeGetAttribute out 4 1 managed 64
cuMemcpyHtoD_v2 memory host 16
cuMemcpyDtoH_v2 host memory 16
cuMemcpyDtoD_v2 memory memory 16
cuMemcpy memory memory 16
cuMemcpyHtoDAsync_v2 memory host 16 stream
cuMemcpyDtoHAsync_v2 host memory 16 stream
cuMemcpyDtoDAsync_v2 memory memory 16 stream
cuMemcpyAsync memory memory 16 stream
cuMemcpyPeer memory context memory context 16
cuMemcpyPeerAsync memory context memory context 16 stream
cuMemcpy2D_v2 copy2d
cuMemcpy2DUnaligned_v2 copy2d
cuMemcpy2DAsync_v2 copy2d stream
cuMemcpy3D_v2 copy3d
cuMemcpy3DAsync_v2 copy3d stream
cuMemsetD8_v2 memory 1 16
cuMemsetD16_v2 memory 1 8
cuMemsetD32_v2 memory 1 4
cuMemsetD8Async memory 1 16 stream
cuMemsetD16Async memory 1 8 stream
cuMemsetD32Async memory 1 4 stream
cuMemsetD2D8_v2 memory 16 1 8 2
cuMemsetD2D16_v2 memory 16 1 4 2
cuMemsetD2D32_v2 memory 16 1 2 2
cuMemsetD2D8Async memory 16 1 8 2 stream
cuMemsetD2D16Async memory 16 1 4 2 stream
cuMemsetD2D32Async memory 16 1 2 2 stream
cuMemPoolCreate out pool_props
cuMemPoolDestroy pool
cuMemPoolSetAttribute pool 4 zero
cuMemPoolGetAttribute pool 4 out
cuMemPoolTrimTo pool 0
cuMemPoolSetAccess pool access 1
cuStreamCreate out 0
cuStreamCreateWithPriority out 0 0
cuStreamDestroy_v2 stream
cuStreamSynchronize stream
cuStreamQuery stream
cuStreamGetPriority stream out
cuStreamGetFlags stream out
cuStreamGetId stream out
cuStreamGetDevice stream out
cuStreamGetCtx stream out
cuStreamGetCtx_v2 stream out out
cuStreamWaitEvent stream event 0
cuStreamAddCallback stream callback 0 0
cuStreamAttachMemAsync stream managed 0 4
cuStreamCopyAttributes stream stream
cuStreamGetAttribute stream 1 out
cuStreamSetAttribute stream 1 window
cuStreamWriteValue32_v2 stream memory 1 0
cuStreamWriteValue64_v2 stream memory 1 0
cuStreamWaitValue32_v2 stream memory 0 0
cuStreamWaitValue64_v2 stream memory 0 0
cuStreamBatchMemOp_v2 stream 1 operations 0
cuStreamBeginCapture_v2 stream 0
cuStreamBeginCaptureToGraph stream graph 0 0 0 0
cuStreamEndCapture capturing out
cuStreamIsCapturing stream out
cuStreamGetCaptureInfo_v3 stream out out out out out out
cuStreamUpdateCaptureDependencies_v2 capturing 0 0 0 0
cuThreadExchangeStreamCaptureMode zero
cuEventCreate out 0
cuEventDestroy_v2 event
cuEventRecord event stream
cuEventRecordWithFlags event stream 0
cuEventSynchronize event
cuEventQuery event
cuEventElapsedTime_v2 out recorded recorded
cuLaunchKernel function 1 1 1 1 1 1 0 stream params 0
cuLaunchCooperativeKernel function 1 1 1 1 1 1 0 stream params
cuLaunchKernelEx config function params 0
cuLaunchHostFunc stream host_function 0
cuGraphCreate out 0
cuGraphDestroy graph
cuGraphClone out graph
cuGraphAddKernelNode_v2 out graph 0 0 kernel_params
cuGraphAddMemcpyNode out graph 0 0 copy3d context
cuGraphAddMemsetNode out graph 0 0 memset_params context
cuGraphAddHostNode out graph 0 0 host_params
cuGraphAddEmptyNode out graph 0 0
cuGraphAddChildGraphNode out graph 0 0 child
cuGraphAddEventRecordNode out graph 0 0 event
cuGraphAddEventWaitNode out graph 0 0 event
cuGraphAddMemAllocNode out graph 0 0 alloc_params
cuGraphAddMemFreeNode out fresh.graph 0 0 fresh.address
cuGraphAddBatchMemOpNode out graph 0 0 batch_params
cuGraphAddNode_v2 out graph 0 0 0 any_params
cuGraphAddDependencies_v2 two.graph two.first two.second 0 1
cuGraphRemoveDependencies_v2 edge.graph edge.first edge.second 0 1
cuGraphDestroyNode node.empty
cuGraphGetNodes graph 0 out
cuGraphGetRootNodes graph 0 out
cuGraphGetEdges_v2 graph 0 0 0 out
cuGraphNodeGetType node.empty out
cuGraphNodeFindInClone out node.empty node.empty.clone
cuGraphNodeGetDependencies_v2 node.empty 0 0 out
cuGraphNodeGetDependentNodes_v2 node.empty 0 0 out
cuGraphKernelNodeGetParams_v2 node.kernel out
cuGraphKernelNodeSetParams_v2 node.kernel kernel_params
cuGraphKernelNodeGetAttribute node.kernel 2 out
cuGraphKernelNodeSetAttribute node.kernel 2 zero
cuGraphKernelNodeCopyAttributes node.kernel node.kernel
cuGraphMemcpyNodeGetParams node.memcpy out
cuGraphMemcpyNodeSetParams node.memcpy copy3d
cuGraphMemsetNodeGetParams node.memset out
cuGraphMemsetNodeSetParams node.memset memset_params
cuGraphHostNodeGetParams node.host out
cuGraphHostNodeSetParams node.host host_params
cuGraphChildGraphNodeGetGraph node.child out
cuGraphEventRecordNodeGetEvent node.record out
cuGraphEventRecordNodeSetEvent node.record event
cuGraphEventWaitNodeGetEvent node.wait out
cuGraphEventWaitNodeSetEvent node.wait event
cuGraphMemAllocNodeGetParams node.alloc out
cuGraphMemFreeNodeGetParams node.free out
cuGraphBatchMemOpNodeGetParams node.batch out
cuGraphBatchMemOpNodeSetParams node.batch batch_params
cuGraphNodeSetParams node.memset any_params
cuGraphInstantiateWithFlags out graph 0
cuGraphInstantiateWithParams out graph instantiate
cuGraphUpload exec.empty stream
cuGraphLaunch exec.empty stream
cuGraphExecDestroy exec.empty
cuGraphExecGetFlags exec.empty out
cuGraphExecKernelNodeSetParams_v2 exec.kernel node.kernel kernel_params
cuGraphExecMemcpyNodeSetParams exec.memcpy node.memcpy copy3d context
cuGraphExecMemsetNodeSetParams exec.memset node.memset memset_params context
cuGraphExecHostNodeSetParams exec.host node.host host_params
cuGraphExecChildGraphNodeSetParams exec.child node.child child
cuGraphExecEventRecordNodeSetEvent exec.record node.record event
cuGraphExecEventWaitNodeSetEvent exec.wait node.wait event
cuGraphExecBatchMemOpNodeSetParams exec.batch node.batch batch_params
cuGraphExecNodeSetParams exec.memset node.memset any_params
cuGraphExecUpdate_v2 exec.kernel node.kernel.graph out
cuGraphNodeGetEnabled exec.kernel node.kernel out
cuGraphNodeSetEnabled exec.kernel node.kernel 0
cuGraphDebugDotPrint graph dot 0
cuGraphConditionalHandleCreate out graph context 1 1
cuGraphRetainUserObject graph object 1 0
cuGraphReleaseUserObject kept.graph kept.object 1
cuUserObjectCreate out 0 host_function 1 1
cuUserObjectRetain object 1
cuUserObjectRelease object 1
cuTensorMapEncodeTiled aligned 6 2 memory dims strides boxes ones 0 0 0 0
cuTensorMapReplaceAddress tensor_map memory
"""
"""Right arguments of each function: numbers, and names of what `Things` makes."""
ADDRESSES = {"memory", "pinned", "pooled", "managed", "registered"}
HANDLES = {"context", "module", "library", "kernel", "function", "stream", "event", "graph", "child", "pool", "link", "linked",
           "object", "capturing", "recorded"}  # fmt: skip


def is_handle(word):
    """Whether a word of `CALLS` is a handle, or memory of the driver's."""
    return word in HANDLES or word in ADDRESSES or "." in word


class Things:
    """What a driver's functions are given: handles, addresses, structures. Each is made when it is first asked for."""

    def __init__(self, call, files):
        self._call, self.files, self.echo = call, files, None
        self.made, self.kept = {}, []

    def call(self, name, *arguments):
        """A function's code."""
        return self._call(name, *(ctypes.addressof(a) if hasattr(a, "_b_base_") else a for a in arguments))

    def good(self, name, *arguments):
        """What a function stores where ``...`` stands. It must succeed."""
        cells = [ctypes.c_uint64() if a is ... else a for a in arguments]
        code = self.call(name, *cells)
        if code:
            raise RuntimeError(f"{name}: {code}")
        found = [c.value for c, a in zip(cells, arguments, strict=True) if a is ...]
        return found[0] if len(found) == 1 else found

    def buffer(self, data=b"", size=1024):
        """The address of some bytes, and of zeros behind them."""
        made = ctypes.create_string_buffer(data, max(size, len(data) + 1))
        self.kept.append(made)
        return ctypes.addressof(made)

    def row(self, *numbers):
        """The address of an array of 64-bit words."""
        return self.buffer(struct.pack(f"<{len(numbers)}Q", *numbers))

    def __getitem__(self, word):
        if word.lstrip("-").isdigit():
            return int(word)
        if word == "out":
            return self.buffer()
        if word not in self.made:
            first, _, rest = word.partition(":")
            if first == "name":
                self.made[word] = self.buffer(rest.encode())
            elif first.startswith(("node.", "exec.")):
                self._node(first.split(".")[1])
            else:
                self.made[word] = getattr(self, word.replace(".", "_"))()
        return self.made[word]

    # ---- objects

    def context(self):
        """A context of its own, current."""
        return self.good("cuCtxGetCurrent", ...)

    def module(self):
        """A module."""
        return self.good("cuModuleLoadData", ..., self["image"])

    def library(self):
        """A library."""
        return self.good("cuLibraryLoadData", ..., self["image"], 0, 0, 0, 0, 0, 0)

    def function(self):
        """A kernel of a module."""
        return self.good("cuModuleGetFunction", ..., self["module"], self["name:put"])

    def kernel(self):
        """A kernel of a library."""
        return self.good("cuLibraryGetKernel", ..., self["library"], self["name:put"])

    def stream(self):
        """A stream."""
        return self.good("cuStreamCreate", ..., 0)

    def capturing(self):
        """A stream that is captured."""
        made = self.good("cuStreamCreate", ..., 0)
        self.good("cuStreamBeginCapture_v2", made, 2)
        return made

    def event(self):
        """An event."""
        return self.good("cuEventCreate", ..., 0)

    def recorded(self):
        """An event that has been recorded."""
        made = self.event()
        self.good("cuEventRecord", made, 0)
        self.good("cuEventSynchronize", made)
        return made

    def graph(self):
        """An empty graph."""
        return self.good("cuGraphCreate", ..., 0)

    child = graph

    def pool(self):
        """A pool."""
        return self.good("cuMemPoolCreate", ..., self["pool_props"])

    def link(self):
        """A linker."""
        return self.good("cuLinkCreate_v2", 0, 0, 0, ...)

    def linked(self):
        """A linker that was given a module."""
        made = self.link()
        self.good("cuLinkAddData_v2", made, 1, self["image"], self["image_size"], 0, 0, 0, 0)
        return made

    def object(self):
        """A user object."""
        return self.good("cuUserObjectCreate", ..., 0, self["host_function"], 1, 1)

    def fresh_graph(self):
        """A graph with an allocation."""
        made = self.graph()
        self.good("cuGraphAddMemAllocNode", ..., made, 0, 0, self["alloc_params"])
        return made

    def fresh_address(self):
        """The address of the allocation."""
        _ = self["fresh.graph"]
        return ctypes.c_uint64.from_address(self["alloc_params"] + 112).value

    def kept_graph(self):
        """A graph that keeps an object."""
        made = self.graph()
        self.good("cuGraphRetainUserObject", made, self["object"], 1, 0)
        return made

    def kept_object(self):
        """The object that a graph keeps."""
        return self["object"]

    def _pair(self, name, edge):
        graph = self.graph()
        nodes = [self.good("cuGraphAddEmptyNode", ..., graph, 0, 0) for _ in range(2)]
        rows = [self.row(node) for node in nodes]
        if edge:
            self.good("cuGraphAddDependencies_v2", graph, *rows, 0, 1)
        self.made.update({f"{name}.graph": graph, f"{name}.first": rows[0], f"{name}.second": rows[1]})
        return self.made

    def two_graph(self):
        """A graph of two nodes, which arrays hold."""
        return self._pair("two", edge=False)["two.graph"]

    def edge_graph(self):
        """A graph of two nodes with an edge."""
        return self._pair("edge", edge=True)["edge.graph"]

    def _node(self, kind):
        """A node, its graph, a clone of that, and the graph made ready."""
        graph = self.graph()
        add = {
            "kernel": lambda: self.good("cuGraphAddKernelNode_v2", ..., graph, 0, 0, self["kernel_params"]),
            "memcpy": lambda: self.good("cuGraphAddMemcpyNode", ..., graph, 0, 0, self["copy3d"], self["context"]),
            "memset": lambda: self.good(
                "cuGraphAddMemsetNode", ..., graph, 0, 0, self["memset_params"], self["context"]
            ),
            "host": lambda: self.good("cuGraphAddHostNode", ..., graph, 0, 0, self["host_params"]),
            "child": lambda: self.good("cuGraphAddChildGraphNode", ..., graph, 0, 0, self["child"]),
            "empty": lambda: self.good("cuGraphAddEmptyNode", ..., graph, 0, 0),
            "record": lambda: self.good("cuGraphAddEventRecordNode", ..., graph, 0, 0, self["event"]),
            "wait": lambda: self.good("cuGraphAddEventWaitNode", ..., graph, 0, 0, self["event"]),
            "batch": lambda: self.good("cuGraphAddBatchMemOpNode", ..., graph, 0, 0, self["batch_params"]),
            "alloc": lambda: self.good("cuGraphAddMemAllocNode", ..., graph, 0, 0, self["alloc_params"]),
            "free": lambda: self._free(graph),
        }[kind]
        made = {f"node.{kind}": add(), f"node.{kind}.graph": graph}
        if kind not in ("alloc", "free"):
            made[f"node.{kind}.clone"] = self.good("cuGraphClone", ..., graph)
        made[f"exec.{kind}"] = self.good("cuGraphInstantiateWithFlags", ..., graph, 0)
        self.made.update(made)

    def _free(self, graph):
        params = self.alloc_params()
        first = self.good("cuGraphAddMemAllocNode", ..., graph, 0, 0, params)
        address = ctypes.c_uint64.from_address(params + 112).value
        return self.good("cuGraphAddMemFreeNode", ..., graph, self.row(first), 1, address)

    # ---- memory

    def memory(self):
        """Device memory."""
        return self.good("cuMemAlloc_v2", ..., 4096)

    def pinned(self):
        """Pinned memory."""
        return self.good("cuMemHostAlloc", ..., 4096, 0)

    def pooled(self):
        """Memory of a pool."""
        made = self.good("cuMemAllocAsync", ..., 4096, 0)
        self.good("cuStreamSynchronize", 0)
        return made

    def managed(self):
        """Managed memory."""
        return self.good("cuMemAllocManaged", ..., 4096, 1)

    def pages(self):
        """Memory of the program, in pages of its own."""
        return self.buffer(size=12288) + 4095 & ~4095

    def registered(self):
        """Memory of the program that the driver knows."""
        made = self.pages()
        self.good("cuMemHostRegister_v2", made, 4096, 0)
        return made

    # ---- structures, texts, functions

    def image(self):
        """The text of a module."""
        return self.buffer(PTX)

    def image_size(self):
        """The size of that text."""
        return len(PTX) + 1

    def file(self):
        """The name of a file with it."""
        path = Path(self.files, "module.ptx")
        if not path.exists():
            path.write_bytes(PTX)
        return self.buffer(os.fsencode(path))

    def dot(self):
        """The name of a file to write."""
        return self.buffer(os.fsencode(Path(self.files, f"graph{os.getpid()}.dot")))

    def bus(self):
        """A device's place on the bus."""
        made = self.buffer()
        self.good("cuDeviceGetPCIBusId", made, 64, 0)
        return made

    def host(self):
        """Memory of the program."""
        return self.buffer(size=4096)

    def zero(self):
        """Zeros."""
        return self.buffer()

    def one(self):
        """A one."""
        return self.row(1)

    def params(self):
        """Pointers to the arguments of a kernel."""
        return self.row(self.row(self["memory"]), self.row(7))

    def config(self):
        """CUlaunchConfig."""
        return self.buffer(struct.pack("<7I4xQQI", 1, 1, 1, 1, 1, 1, 0, self["stream"], 0, 0))

    def kernel_params(self):
        """CUDA_KERNEL_NODE_PARAMS."""
        return self.buffer(struct.pack("<Q7I4xQQQQ", self["function"], 1, 1, 1, 1, 1, 1, 0, self["params"], 0, 0, 0))

    def memset_params(self):
        """CUDA_MEMSET_NODE_PARAMS."""
        return self.buffer(struct.pack("<QQIIQQ", self["memory"], 0, 5, 4, 4, 1))

    def host_params(self):
        """CUDA_HOST_NODE_PARAMS."""
        return self.buffer(struct.pack("<QQ", self["host_function"], 0))

    def alloc_params(self):
        """CUDA_MEM_ALLOC_NODE_PARAMS."""
        return self.buffer(POOL_PROPS + struct.pack("<QQQQ", 0, 0, 4096, 0))

    def any_params(self):
        """CUgraphNodeParams of a set."""
        return self.buffer(struct.pack("<I12xQQIIQQQ", 2, self["memory"], 0, 6, 4, 4, 1, self["context"]), 256)

    def operations(self):
        """CUstreamBatchMemOpParams: a write of a word."""
        return self.buffer(struct.pack("<I4xQQI4xQQ", 2, self["memory"], 3, 0, 0, 0))

    def batch_params(self):
        """CUDA_BATCH_MEM_OP_NODE_PARAMS."""
        return self.buffer(struct.pack("<QI4xQI", self["context"], 1, self["operations"], 0))

    def instantiate(self):
        """CUDA_GRAPH_INSTANTIATE_PARAMS."""
        return self.buffer()

    def pool_props(self):
        """CUmemPoolProps."""
        return self.buffer(POOL_PROPS)

    def access(self):
        """CUmemAccessDesc: the first device reads and writes."""
        return self.buffer(struct.pack("<iii", 1, 0, 3))

    def window(self):
        """CUstreamAttrValue: no window of what is kept in the cache."""
        return self.buffer()

    def attributes(self):
        """CUpointer_attribute: the type of memory."""
        return self.buffer(struct.pack("<i", 2))

    def outs(self):
        """Pointers to results."""
        return self.row(self.buffer())

    def copy2d(self):
        """CUDA_MEMCPY2D from the host."""
        return self.buffer(
            struct.pack("<QQI4xQQQQ", 0, 0, 1, self["host"], 0, 0, 16)
            + struct.pack("<QQI4xQQQQ", 0, 0, 2, 0, self["memory"], 0, 16)
            + struct.pack("<QQ", 8, 2)
        )

    def copy3d(self):
        """CUDA_MEMCPY3D from the host."""
        return self.buffer(
            struct.pack("<QQQQI4xQQQQQQ", 0, 0, 0, 0, 1, self["host"], 0, 0, 0, 16, 2)
            + struct.pack("<QQQQI4xQQQQQQ", 0, 0, 0, 0, 2, 0, self["memory"], 0, 0, 16, 2)
            + struct.pack("<QQQ", 16, 1, 1)
        )

    def aligned(self):
        """Room for a tensor map."""
        return self.buffer(size=512) + 63 & ~63

    def tensor_map(self):
        """A tensor map."""
        made = self.aligned()
        self.good(
            "cuTensorMapEncodeTiled",
            made,
            6,
            2,
            *map(self.__getitem__, ("memory", "dims", "strides", "boxes", "ones")),
            0,
            0,
            0,
            0,
        )
        return made

    def dims(self):
        """A tensor's extents."""
        return self.row(32, 8)

    def strides(self):
        """A tensor's strides."""
        return self.row(64)

    def boxes(self):
        """The extents of a box."""
        return self.buffer(struct.pack("<II", 32, 8))

    def ones(self):
        """Steps of elements."""
        return self.buffer(struct.pack("<II", 1, 1))

    def host_function(self):
        """A function of the host."""
        return self._function(HOST(lambda data: None))

    def callback(self):
        """A callback."""
        return self._function(CALLBACK(lambda stream, code, data: None))

    def _function(self, made):
        self.kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value

    # ---- the end of things

    def end(self, word):
        """Give a thing back, or what owns it."""
        kind = word.split(".")[0]
        if word.endswith(".address"):
            self.good("cuGraphDestroy", self[word.replace("address", "graph")])
        elif kind == "node" and not word.endswith((".graph", ".clone")):
            self.good("cuGraphDestroy", self[f"{word}.graph"])
        elif kind in ("two", "edge") and not word.endswith(".graph"):
            self.good("cuGraphDestroy", self[f"{kind}.graph"])
        else:
            name, owner = ENDS[word.split(".")[-1] if kind in ("node", "kept", "two", "edge", "fresh") else kind]
            self.good(name, self[owner or word], *([1] if kind == "object" or word == "kept.object" else []), *([0] if word == "pooled" else []))  # fmt: skip
            if word == "kept.object":
                self.good("cuGraphReleaseUserObject", self["kept.graph"], self["kept.object"], 1)


POOL_PROPS = struct.pack("<IIiiQQH54x", 1, 0, 1, 0, 0, 0, 0)
ENDS = {
    "context": ("cuCtxDestroy_v2", ""), "module": ("cuModuleUnload", ""), "function": ("cuModuleUnload", "module"),
    "library": ("cuLibraryUnload", ""), "kernel": ("cuLibraryUnload", "library"), "stream": ("cuStreamDestroy_v2", ""),
    "capturing": ("cuStreamDestroy_v2", ""), "event": ("cuEventDestroy_v2", ""), "recorded": ("cuEventDestroy_v2", ""),
    "graph": ("cuGraphDestroy", ""), "child": ("cuGraphDestroy", ""), "clone": ("cuGraphDestroy", ""),
    "exec": ("cuGraphExecDestroy", ""), "pool": ("cuMemPoolDestroy", ""), "link": ("cuLinkDestroy", ""),
    "linked": ("cuLinkDestroy", ""), "object": ("cuUserObjectRelease", ""), "memory": ("cuMemFree_v2", ""),
    "managed": ("cuMemFree_v2", ""), "pinned": ("cuMemFreeHost", ""), "pooled": ("cuMemFreeAsync", ""),
    "registered": ("cuMemHostUnregister", ""),
}  # fmt: skip
"""How each thing ends: a function, and what it takes where that is not the thing."""


def trials(line):
    """What a function is asked: right arguments, each pointer and handle as null, each handle after its end, no context."""
    name, *words = line.split()
    found = [(name, words, "right"), (name, words, "no context")]
    for at, word in enumerate(words):
        if not word.lstrip("-").isdigit() and word != "image_size":
            found.append((name, words, f"null {at}"))
            if is_handle(word):
                found.append((name, words, f"gone {at}"))
    return found


def ask(call, files, name, words, what):
    """The code of one trial."""
    things = Things(call, files)
    current, popped = ctypes.c_uint64(), ctypes.c_uint64()
    call("cuCtxGetCurrent", ctypes.addressof(current))
    if "context" in words and (what == "gone" or "Destroy" in name or what.startswith("gone")):
        things.good("cuCtxCreate_v2", ..., 0, 0)
    try:
        for word in words:
            _ = things[word]
        if what.startswith("gone"):
            things.end(words[int(what.split()[1])])
        elif what == "no context":
            things.good("cuCtxSetCurrent", 0)
        given = [things[word] for word in words]
        if what.startswith("null"):
            given[int(what.split()[1])] = 0
        return call(name, *given)
    except RuntimeError as problem:
        return f"({problem})"
    finally:
        while call("cuCtxPopCurrent_v2", ctypes.addressof(popped)) == 0:
            pass
        call("cuCtxSetCurrent", current.value)


def everything():
    """All trials, by their numbers, and the scenarios."""
    return [*driver_scenarios.SCENARIOS, *(trial for line in CALLS.split("\n") if line for trial in trials(line))]


def answer(call, files, trial, echo=None):
    """A line of the recording."""
    if callable(trial):
        things = Things(call, files)
        things.echo = echo
        context = things.good("cuCtxCreate_v2", ..., 0, 0)
        things.made["context"] = context
        try:
            found = trial(things)
        except RuntimeError as problem:
            found = [f"({problem})"]
        finally:
            call("cuCtxDestroy_v2", context)  # which may have ended; another may be on top
        return "" if echo else f"{trial.__name__}: {' '.join(map(str, found))}"
    name, words, what = trial
    return f"{name}: {what}: {ask(call, files, name, words, what)}"


def work(files, end, numbers):
    """Ask for some trials, one after the other; each answer is printed at once. It stops where the driver is no longer as new."""
    driver, all_of_them, current = ctypes.CDLL("libcuda.so.1"), everything(), ctypes.c_uint64()

    def call(name, *arguments):
        return getattr(driver, name)(*map(ctypes.c_uint64, arguments))

    def echo(text):
        print(text, end=" ", flush=True)

    call("cuInit", 0)
    call("cuCtxCreate_v2", ctypes.addressof(current), 0, 0)
    for number in numbers:
        trial = all_of_them[number]
        signal.alarm(20)
        if callable(trial):
            echo(f"{number} {trial.__name__}:")
            print(answer(call, files, trial, echo), flush=True)
            call("cuCtxSetCurrent", current.value)
        else:
            print(number, answer(call, files, trial), flush=True)
        used = not callable(trial) and ("Capture" in trial[0] or "capturing" in trial[1])
        if used or call("cuCtxSynchronize") or time.time() > end:
            os._exit(0)


def record(path, workers, seconds):
    """Share the trials out among processes; one that crashes is followed by another, behind what it crashed at."""
    total, files, end, lock = everything(), tempfile.mkdtemp(), time.time() + seconds, threading.Lock()

    def share(first):
        left = list(range(first, len(total), workers))
        while left and time.time() < end:
            command = [sys.executable, __file__, "work", files, str(end), *map(str, left)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            *lines, rest = done.stdout.split("\n")
            left = left[len(lines) :]
            if left and (done.returncode or not lines):
                trial = total[left[0]]
                begun = rest or f"{left[0]} {trial[0]}: {trial[2]}: "
                lines.append(f"{begun}ended with {done.returncode}")
                del left[0]
            with lock, open(path, "a") as stream:
                stream.write("".join(f"{line.rstrip()}\n" for line in lines))

    threads = [threading.Thread(target=share, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [line.partition(" ") for line in Path(path).read_text().splitlines()]
    Path(path).write_text("".join(f"{text}\n" for _, _, text in sorted(found, key=lambda line: int(line[0]))))


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2], float(sys.argv[3]), [int(n) for n in sys.argv[4:]])
    elif sys.argv[1] == "one":
        wanted = [i for i, t in enumerate(everything()) if (t.__name__ if callable(t) else t[0]) in sys.argv[2:]]
        work("/tmp", time.time() + 60, wanted)
    else:
        record(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
