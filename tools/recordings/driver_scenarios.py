"""What `driver_codes` asks beyond single calls: sequences, whose codes and results a driver tells.

Each scenario takes `driver_codes.Things` and returns what was said: ``Function=code`` of each call, and values by their names.
"""

import ctypes
import os
import struct
import threading
from pathlib import Path

SCENARIOS = []
INT = struct.Struct("<I")


def scenario(function):
    """Make a function a scenario: it gets a `Talk`."""

    def run(things):
        talk = Talk(things)
        function(talk, things)
        return talk.said

    run.__name__ = function.__name__
    SCENARIOS.append(run)
    return run


class Talk:
    """Calls functions, and keeps what they say."""

    def __init__(self, things):
        self.things, self.said = things, []

    def say(self, text):
        """Keep something, and show it where a crash would lose it."""
        self.said.append(text)
        if self.things.echo is not None:
            self.things.echo(text)

    def __call__(self, name, *arguments):
        """Numbers, and ``...`` for each word that the function stores: these, or the only one."""
        cells = [ctypes.c_uint64() if a is ... else a for a in arguments]
        self.say(f"{name[2:]}={self.things.call(name, *cells)}")
        found = [c.value for c, a in zip(cells, arguments, strict=True) if a is ...]
        return found[0] if len(found) == 1 else found

    def tell(self, **values):
        """Values by their names."""
        for name, value in values.items():
            self.say(f"{name}:{value}".replace(" ", ""))

    def words(self, address, count=1):
        """Read words of device memory."""
        found = (ctypes.c_uint32 * count)()
        self("cuMemcpyDtoH_v2", found, address, 4 * count)
        return list(found)


def u32(address):
    """A word of the program's."""
    return ctypes.c_uint32.from_address(address).value


def u64(address):
    """Eight bytes of the program's."""
    return ctypes.c_uint64.from_address(address).value


def alloc(talk, things, graph, before=(), size=4096, props=None, access=0, count=0):
    """An allocation node: itself, and its address."""
    data = (things["pool_props"] if props is None else props, access, count)
    params = things.buffer(ctypes.string_at(data[0], 88) + struct.pack("<QQQQ", data[1], data[2], size, 0))
    node = talk("cuGraphAddMemAllocNode", ..., graph, things.row(*before) if before else 0, len(before), params)
    return node, u64(params + 112)


def fill(talk, things, graph, address, value, before=(), count=4):
    """A node that sets words."""
    params = things.buffer(struct.pack("<QQIIQQ", address, 0, value, 4, count, 1))
    row = things.row(*before) if before else 0
    return talk("cuGraphAddMemsetNode", ..., graph, row, len(before), params, things["context"])


def kernel_params(things, name="put", address=None, value=7, grid=1, extra=0, params=None):
    """CUDA_KERNEL_NODE_PARAMS."""
    function = things.good("cuModuleGetFunction", ..., things["module"], things[f"name:{name}"])
    if params is None:
        params = (
            0 if extra else things.row(things.row(things["memory"] if address is None else address), things.row(value))
        )
    return things.buffer(struct.pack("<Q7I4xQQQQ", function, grid, 1, 1, 1, 1, 1, 0, params, extra, 0, 0))


def launch(talk, things, function, params=0, extra=0, block=1):
    """A launch."""
    talk("cuLaunchKernel", function, 1, 1, 1, block, 1, 1, 0, 0, params, extra)


# ---- contexts ------------------------------------------------------------------------------------


@scenario
def a_context_that_ends(talk, things):
    """What is left of it, and what may be done with nothing current."""
    function, module, memory = things["function"], things["module"], things["memory"]
    launch(talk, things, function, things["params"])
    talk("cuCtxDestroy_v2", things["context"])
    talk.tell(other=talk("cuCtxGetCurrent", ...) != 0)
    launch(talk, things, function, things["params"])
    talk("cuCtxSynchronize")
    talk("cuModuleGetFunction", ..., module, things["name:put"])
    talk("cuMemFree_v2", memory)
    talk("cuMemAlloc_v2", ..., 4)
    talk("cuGraphCreate", ..., 0)


@scenario
def a_context_that_ends_below_another(talk, things):
    """The one on top stays; the one below is found ended when it comes up."""
    first = things["context"]
    second = talk("cuCtxCreate_v2", ..., 0, 0)
    talk("cuCtxDestroy_v2", first)
    talk("cuMemAlloc_v2", ..., 4)
    talk.tell(same=talk("cuCtxPopCurrent_v2", ...) == second)
    talk.tell(first=talk("cuCtxGetCurrent", ...) == first)
    talk("cuMemAlloc_v2", ..., 4)
    talk("cuCtxSynchronize")
    talk("cuCtxGetDevice", ...)
    talk("cuCtxGetFlags", ...)
    talk("cuStreamCreate", ..., 0)
    talk("cuStreamSynchronize", 0)
    talk("cuModuleLoadData", ..., things["image"])
    talk("cuGraphCreate", ..., 0)
    talk("cuCtxPopCurrent_v2", ...)
    talk("cuCtxPopCurrent_v2", ...)
    talk("cuCtxDestroy_v2", second)


@scenario
def a_context_that_another_thread_ends(talk, things):
    """It stays current in this one."""
    first = things["context"]
    thread = threading.Thread(target=lambda: talk("cuCtxDestroy_v2", first))
    thread.start()
    thread.join()
    talk.tell(same=talk("cuCtxGetCurrent", ...) == first)
    talk("cuMemAlloc_v2", ..., 4)
    talk("cuCtxSynchronize")
    talk("cuStreamCreate", ..., 0)
    talk("cuEventCreate", ..., 0)
    talk("cuCtxGetDevice", ...)
    talk("cuCtxGetFlags", ...)
    talk("cuCtxGetLimit", ..., 0)
    talk("cuCtxPopCurrent_v2", ...)
    talk.tell(other=talk("cuCtxGetCurrent", ...) != 0)


@scenario
def things_of_another_context(talk, things):
    """Both contexts live, and another one than the things' own is current."""
    function, params, stream, event, memory = (things[w] for w in ("function", "params", "stream", "event", "memory"))
    module, executable, kernel = things["module"], things["exec.kernel"], things["kernel"]
    second = talk("cuCtxCreate_v2", ..., 0, 0)
    launch(talk, things, function, params)
    launch(talk, things, kernel, params)
    talk("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, params, 0)
    talk("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, 0)
    talk("cuMemcpyDtoHAsync_v2", things["host"], memory, 16, stream)
    talk("cuMemcpyDtoH_v2", things["host"], memory, 16)
    talk("cuMemAllocAsync", ..., 64, stream)
    talk("cuStreamSynchronize", stream)
    talk("cuStreamGetFlags", stream, ...)
    talk("cuEventRecord", event, 0)
    talk("cuEventRecord", event, stream)
    talk("cuStreamWaitEvent", 0, event, 0)
    talk("cuEventSynchronize", event)
    talk("cuModuleGetFunction", ..., module, things["name:put"])
    talk("cuFuncGetAttribute", ..., 0, function)
    talk("cuGraphLaunch", executable, 0)
    talk("cuGraphLaunch", executable, stream)
    talk("cuGraphAddEventRecordNode", ..., things["graph"], 0, 0, event)
    talk("cuMemFree_v2", memory)
    talk("cuStreamDestroy_v2", stream)
    talk("cuEventDestroy_v2", event)
    talk("cuModuleUnload", module)
    talk("cuCtxSynchronize")
    talk("cuCtxDestroy_v2", second)


@scenario
def a_stack_of_contexts(talk, things):
    """Popping more than there are; making null current."""
    talk("cuCtxPushCurrent_v2", 0)
    talk("cuCtxSetCurrent", 0)
    talk("cuCtxPopCurrent_v2", ...)
    talk("cuCtxGetDevice", ...)
    talk("cuCtxSynchronize")
    talk("cuCtxPushCurrent_v2", things["context"])
    talk("cuCtxPopCurrent_v2", 0)
    talk("cuCtxPushCurrent_v2", things["context"])


@scenario
def the_primary_context(talk, things):
    """It is released, not destroyed; what it held is gone when the last reference is."""
    primary = talk("cuDevicePrimaryCtxRetain", ..., 0)
    talk("cuCtxSetCurrent", primary)
    memory, module = talk("cuMemAlloc_v2", ..., 64), talk("cuModuleLoadData", ..., things["image"])
    function = talk("cuModuleGetFunction", ..., module, things["name:bare"])
    launch(talk, things, function)
    talk("cuDevicePrimaryCtxRelease_v2", 0)
    talk.tell(same=talk("cuCtxGetCurrent", ...) == primary)
    launch(talk, things, function)
    talk("cuMemAlloc_v2", ..., 64)
    talk("cuCtxSynchronize")
    talk("cuCtxGetDevice", ...)
    talk("cuDevicePrimaryCtxRelease_v2", 0)
    again = talk("cuDevicePrimaryCtxRetain", ..., 0)
    talk.tell(again=again == primary)
    talk("cuMemFree_v2", memory)
    launch(talk, things, function)
    talk("cuMemAlloc_v2", ..., 64)
    talk("cuCtxDestroy_v2", again)
    talk("cuDevicePrimaryCtxRelease_v2", 0)
    talk("cuDevicePrimaryCtxRelease_v2", 0)


# ---- modules and launches ------------------------------------------------------------------------


@scenario
def a_module_that_ends(talk, things):
    """Its functions, and its variables."""
    function, module = things["function"], things["module"]
    address, _ = talk("cuModuleGetGlobal_v2", ..., ..., module, things["name:room"])
    launch(talk, things, function, things["params"])
    talk("cuModuleUnload", module)
    launch(talk, things, function, things["params"])
    talk("cuFuncGetAttribute", ..., 0, function)
    talk("cuFuncGetModule", ..., function)
    talk("cuModuleUnload", module)
    talk("cuMemcpyDtoH_v2", things["host"], address, 8)
    talk("cuCtxSynchronize")


@scenario
def libraries(talk, things):
    """A library's module and functions; what is left when it has been unloaded."""
    library, kernel = things["library"], things["kernel"]
    module, function = talk("cuLibraryGetModule", ..., library), talk("cuKernelGetFunction", ..., kernel)
    talk.tell(module=module == library, function=function == kernel)
    talk.tell(library=talk("cuKernelGetLibrary", ..., kernel) == library)
    talk.tell(owner=talk("cuFuncGetModule", ..., function) == module)
    again = talk("cuModuleGetFunction", ..., module, things["name:put"])
    talk.tell(again=again == function)
    launch(talk, things, kernel, things["params"])
    launch(talk, things, function, things["params"])
    talk("cuFuncGetAttribute", ..., 0, kernel)
    talk("cuModuleUnload", module)
    launch(talk, things, function, things["params"])
    talk("cuLibraryUnload", library)


@scenario
def libraries_outlive_contexts(talk, things):
    """A library belongs to no context."""
    kernel = things["kernel"]
    launch(talk, things, kernel, things["params"])
    function = talk("cuKernelGetFunction", ..., kernel)
    talk("cuCtxDestroy_v2", things["context"])
    talk("cuKernelGetName", ..., kernel)
    talk("cuCtxCreate_v2", ..., 0, 0)
    memory = talk("cuMemAlloc_v2", ..., 64)
    launch(talk, things, kernel, things.row(things.row(memory), things.row(9)))
    talk.tell(found=talk.words(memory))
    launch(talk, things, function, things.row(things.row(memory), things.row(8)))
    talk("cuLibraryUnload", things["library"])
    talk("cuCtxDestroy_v2", talk("cuCtxGetCurrent", ...))


@scenario
def parameters_of_launches(talk, things):
    """Pointers, buffers of every size, and neither."""
    function, memory = things["function"], things["memory"]
    block = things.buffer(struct.pack("<QI", memory, 5))

    def extra(*words):
        return things.row(*words)

    for size in (0, 3, 8, 11, 12, 13, 16, 64, 4000):
        launch(talk, things, function, extra=extra(1, block, 2, things.row(size), 0))
    launch(talk, things, function)
    launch(talk, things, function, extra=extra(0))
    launch(talk, things, function, extra=extra(1, block, 0))
    launch(talk, things, function, extra=extra(2, things.row(12), 0))
    launch(talk, things, function, extra=extra(1, 0, 2, things.row(12), 0))
    launch(talk, things, function, extra=extra(77, block, 0))
    launch(talk, things, function, things["params"], extra(1, block, 2, things.row(12), 0))
    launch(talk, things, function, things.row(0, 0))
    bare = talk("cuModuleGetFunction", ..., things["module"], things["name:bare"])
    launch(talk, things, bare)
    launch(talk, things, bare, extra=extra(1, block, 2, things.row(12), 0))
    launch(talk, things, bare, extra=extra(1, block, 2, things.row(0), 0))
    talk("cuCtxSynchronize")


@scenario
def extents_of_launches(talk, things):
    """Grids, blocks and shared memory beyond what there may be."""
    function, params = things["function"], things["params"]
    for grid, block, shared in (
        ((0, 1, 1), (1, 1, 1), 0), ((1, 0, 1), (1, 1, 1), 0), ((1, 1, 1), (0, 1, 1), 0), ((1, 1, 1), (1025, 1, 1), 0),
        ((1, 1, 1), (1, 1, 65), 0), ((1, 1, 1), (32, 33, 1), 0), ((2**31, 1, 1), (1, 1, 1), 0), ((1, 65536, 1), (1, 1, 1), 0),
        ((1, 1, 1), (1, 1, 1), 49153), ((1, 1, 1), (1, 1, 1), 1 << 30),
    ):  # fmt: skip
        talk("cuLaunchKernel", function, *grid, *block, shared, 0, params, 0)
    talk("cuLaunchCooperativeKernel", function, 1 << 20, 1, 1, 32, 1, 1, 0, 0, params)
    talk("cuCtxSynchronize")


# ---- names, results ------------------------------------------------------------------------------


@scenario
def names_of_devices(talk, things):
    """No room, little room, no place."""
    out = things.buffer(b"x" * 8)
    for length in (-1 & 0xFFFFFFFF, 1, 4):
        talk("cuDeviceGetName", out, length, 0)
    talk.tell(length=len(ctypes.string_at(out)))
    for length in (4, 12, 13, 64):
        talk("cuDeviceGetPCIBusId", out, length, 0)
    talk("cuDeviceGetName", out, 8, 99)
    talk("cuDeviceGet", ..., 99)
    talk("cuDeviceGet", ..., -1 & 0xFFFFFFFF)
    talk("cuDeviceGetAttribute", ..., 0, 0)
    talk("cuDeviceGetAttribute", ..., 9999, 0)
    talk("cuGetErrorName", 12345, ...)
    talk("cuGetErrorString", 12345, ...)
    talk("cuCtxGetLimit", ..., 99)
    talk("cuCtxSetLimit", 99, 1)


@scenario
def events(talk, things):
    """Of streams, recorded or not."""
    first, second = talk("cuEventCreate", ..., 0), talk("cuEventCreate", ..., 0)
    silent = talk("cuEventCreate", ..., 2)
    talk("cuEventElapsedTime_v2", ..., first, second)
    talk("cuEventQuery", first)
    talk("cuEventSynchronize", first)
    talk("cuStreamWaitEvent", 0, first, 0)
    talk("cuEventRecord", first, 0)
    talk("cuEventRecord", silent, 0)
    talk("cuCtxSynchronize")
    talk("cuEventElapsedTime_v2", ..., first, second)
    talk("cuEventElapsedTime_v2", ..., first, first)
    talk("cuEventElapsedTime_v2", ..., first, silent)
    talk("cuEventRecordWithFlags", first, 0, 1)
    talk("cuEventRecordWithFlags", first, 0, 7)
    talk("cuStreamWaitEvent", 0, first, 1)
    talk("cuStreamWaitEvent", 0, first, 7)
    talk("cuEventCreate", ..., 99)
    talk("cuStreamCreate", ..., 99)
    for stream in (0, 1, 2):
        talk("cuStreamDestroy_v2", stream)
        talk("cuStreamQuery", stream)


def _ends_twice(word, name, *more):
    def twice(talk, things):
        thing = things[word]
        talk(name, thing, *more)
        talk(name, thing, *more)

    twice.__name__ = f"{word.replace('.', '_')}_that_ends_twice_by_{name}"
    scenario(twice)


for _word, _name, *_more in (
    ("stream", "cuStreamDestroy_v2"), ("event", "cuEventDestroy_v2"), ("graph", "cuGraphDestroy"),
    ("exec.empty", "cuGraphExecDestroy"), ("memory", "cuMemFree_v2"), ("pinned", "cuMemFreeHost"),
    ("registered", "cuMemHostUnregister"), ("pool", "cuMemPoolDestroy"), ("node.empty", "cuGraphDestroyNode"),
    ("pooled", "cuMemFreeAsync", 0), ("pooled", "cuMemFree_v2"), ("link", "cuLinkDestroy"), ("object", "cuUserObjectRelease", 1),
):  # fmt: skip
    _ends_twice(_word, _name, *_more)


def _never(word, name, *more):
    def never(talk, things):
        talk(name, 0x5EED0000, *more)

    never.__name__ = f"{word}_that_never_was"
    scenario(never)


for _word, _name, *_more in (
    ("context", "cuCtxSetCurrent"), ("module", "cuModuleUnload"), ("function", "cuFuncLoad"), ("kernel", "cuKernelSetCacheConfig", 0, 0),
    ("stream", "cuStreamQuery"), ("event", "cuEventQuery"), ("graph", "cuGraphDestroy"), ("node", "cuGraphDestroyNode"), ("exec", "cuGraphExecDestroy"),
    ("pool", "cuMemPoolDestroy"), ("link", "cuLinkDestroy"), ("library", "cuLibraryUnload"), ("object", "cuUserObjectRetain", 1),
):  # fmt: skip
    _never(_word, _name, *_more)


@scenario
def handles_of_other_kinds(talk, things):
    """A handle of one kind where another is asked for."""
    launch(talk, things, things["module"], things["params"])
    launch(talk, things, things["library"], things["params"])
    talk("cuModuleGetFunction", ..., things["function"], things["name:put"])
    talk("cuModuleUnload", things["function"])
    talk("cuGraphLaunch", things["graph"], 0)
    talk("cuGraphExecDestroy", things["graph"])
    talk("cuGraphDestroy", things["exec.empty"])
    talk("cuMemPoolDestroy", things["graph"])
    talk("cuModuleEnumerateFunctions", things.row(0, 0, 0, 0, 0), 9, things["module"])
    talk("cuModuleGetFunction", ..., things["module"], things["name:none"])
    talk("cuLibraryGetKernel", ..., things["library"], things["name:none"])
    talk("cuModuleGetGlobal_v2", ..., ..., things["module"], things["name:none"])


@scenario
def nothing_to_free(talk, things):
    """Null is no memory, and may be freed."""
    talk("cuMemFree_v2", 0)
    talk("cuMemFreeAsync", 0, 0)
    talk("cuMemFreeHost", 0)
    talk("cuMemFree_v2", things["memory"] + 4)
    talk("cuMemFree_v2", 0x1234)
    talk("cuMemAlloc_v2", ..., 0)
    talk("cuMemAlloc_v2", ..., 1 << 50)
    talk("cuMemAlloc_v2", ..., -1 & (1 << 64) - 1)
    talk.tell(address=talk("cuMemAllocAsync", ..., 0, 0))


# ---- graphs --------------------------------------------------------------------------------------


@scenario
def edges(talk, things):
    """Dependencies that are wrong, and lists of them."""
    graph, other = talk("cuGraphCreate", ..., 0), talk("cuGraphCreate", ..., 0)
    talk("cuGraphCreate", ..., 7)
    first, second = talk("cuGraphAddEmptyNode", ..., graph, 0, 0), talk("cuGraphAddEmptyNode", ..., graph, 0, 0)
    stray = talk("cuGraphAddEmptyNode", ..., other, 0, 0)
    talk("cuGraphAddEmptyNode", 0, graph, 0, 0)
    talk("cuGraphAddEmptyNode", ..., graph, 0, 1)
    talk("cuGraphAddEmptyNode", ..., graph, things.row(first, first), 2)
    talk("cuGraphAddEmptyNode", ..., graph, things.row(stray), 1)
    talk("cuGraphAddEmptyNode", ..., graph, things.row(0), 1)
    one, two, both = things.row(first), things.row(second), things.row(first, second)
    talk("cuGraphAddDependencies_v2", graph, one, two, 0, 1)
    talk("cuGraphAddDependencies_v2", graph, one, two, 0, 1)
    talk("cuGraphAddDependencies_v2", graph, one, one, 0, 1)
    talk("cuGraphAddDependencies_v2", graph, one, things.row(stray), 0, 1)
    talk("cuGraphAddDependencies_v2", graph, 0, 0, 0, 1)
    talk("cuGraphAddDependencies_v2", graph, 0, 0, 0, 0)
    talk("cuGraphAddDependencies_v2", graph, one, two, things.buffer(bytes([1])), 1)
    for room in (0, 1, 3):
        count, starts, ends = things.row(room), things.row(5, 5, 5), things.row(5, 5, 5)
        talk("cuGraphGetEdges_v2", graph, starts, ends, 0, count)
        talk.tell(count=u64(count), first=u64(starts) == first, rest=u64(starts + 8))
        nodes, count = things.row(5, 5, 5, 5), things.row(room)
        talk("cuGraphGetNodes", graph, nodes, count)
        talk.tell(
            count=u64(count),
            nodes=[(u64(nodes + 8 * i) == n) for i, n in enumerate((first, second))],
            last=u64(nodes + 16),
        )
    talk("cuGraphGetEdges_v2", graph, starts, 0, 0, things.row(1))
    talk.tell(roots=talk("cuGraphGetRootNodes", graph, 0, ...))
    talk.tell(before=talk("cuGraphNodeGetDependencies_v2", second, 0, 0, ...))
    talk.tell(after=talk("cuGraphNodeGetDependentNodes_v2", first, 0, 0, ...))
    talk("cuGraphAddDependencies_v2", graph, two, one, 0, 1)
    params = things.buffer()
    talk("cuGraphInstantiateWithParams", ..., graph, params)
    talk.tell(result=u32(params + 24), node=u64(params + 16) in (first, second))
    talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphRemoveDependencies_v2", graph, two, one, 0, 1)
    talk("cuGraphRemoveDependencies_v2", graph, two, one, 0, 1)
    talk("cuGraphRemoveDependencies_v2", graph, both, things.row(second, first), 0, 2)
    talk("cuGraphRemoveDependencies_v2", graph, one, two, 0, 1)
    talk.tell(left=talk("cuGraphGetEdges_v2", graph, 0, 0, 0, ...))
    talk("cuGraphInstantiateWithFlags", ..., graph, 64)
    talk("cuGraphDestroyNode", first)
    talk.tell(nodes=talk("cuGraphGetNodes", graph, 0, ...))


@scenario
def data_of_edges(talk, things):
    """Kernels may start before those before them have ended; the data of such edges may not be lost."""
    graph, early = talk("cuGraphCreate", ..., 0), things.buffer(bytes([1, 0, 1]))
    first = talk("cuGraphAddKernelNode_v2", ..., graph, 0, 0, kernel_params(things, "bare"))
    second = talk("cuGraphAddKernelNode_v2", ..., graph, 0, 0, kernel_params(things, "bare"))
    one, two = things.row(first), things.row(second)
    talk("cuGraphAddDependencies_v2", graph, one, two, things.buffer(bytes([9, 0, 1])), 1)
    talk("cuGraphAddDependencies_v2", graph, one, two, things.buffer(bytes([0, 0, 2])), 1)
    talk("cuGraphAddDependencies_v2", graph, one, two, early, 1)
    rows, count, data = (things.row(0), things.row(0)), things.row(1), things.row(9)
    talk("cuGraphGetEdges_v2", graph, *rows, 0, count)
    talk("cuGraphGetEdges_v2", graph, *rows, data, count)
    talk.tell(data=u64(data))
    talk("cuGraphGetEdges_v2", graph, 0, 0, 0, ...)
    talk("cuGraphNodeGetDependencies_v2", second, rows[0], 0, things.row(1))
    talk("cuGraphNodeGetDependencies_v2", second, rows[0], data, things.row(1))
    talk("cuGraphNodeGetDependentNodes_v2", first, rows[0], data, things.row(1))
    talk.tell(data=u64(data))
    clone = talk("cuGraphClone", ..., graph)
    talk("cuGraphGetEdges_v2", clone, *rows, data, things.row(1))
    talk.tell(data=u64(data))
    talk("cuGraphRemoveDependencies_v2", graph, one, two, 0, 1)
    talk("cuGraphRemoveDependencies_v2", graph, one, two, early, 1)
    params = things.buffer(struct.pack("<I12x", 0) + ctypes.string_at(kernel_params(things, "bare"), 72), 256)
    third = talk("cuGraphAddNode_v2", ..., graph, one, early, 1, params)
    talk("cuGraphNodeGetDependencies_v2", third, rows[0], data, things.row(1))
    talk.tell(data=u64(data))
    empty = things.buffer(struct.pack("<I12x", 5), 256)
    talk("cuGraphAddNode_v2", ..., graph, one, early, 1, empty)
    talk("cuGraphAddNode_v2", ..., graph, 0, 0, 1, empty)
    talk("cuGraphInstantiateWithFlags", ..., graph, 0)


@scenario
def attributes_of_nodes(talk, things):
    """Of launches: clusters, cooperation, and what other parameters leave of them."""
    graph = talk("cuGraphCreate", ..., 0)
    node = talk("cuGraphAddKernelNode_v2", ..., graph, 0, 0, kernel_params(things, grid=4))

    def tell(number, count=3):
        got = things.buffer()
        talk("cuGraphKernelNodeGetAttribute", node, number, got)
        talk.tell(got=list(struct.unpack(f"<{count}i", ctypes.string_at(got, 4 * count))))

    for number, data in (
        (2, INT.pack(1)), (2, INT.pack(0)), (4, struct.pack("<3I", 2, 1, 1)), (4, struct.pack("<3I", 3, 1, 1)),
        (4, struct.pack("<3I", 32, 1, 1)), (5, INT.pack(1)), (5, INT.pack(9)), (8, struct.pack("<i", -9)), (3, INT.pack(1)),
        (6, INT.pack(1)), (9, INT.pack(1)), (10, INT.pack(1)), (11, struct.pack("<3I", 2, 1, 1)), (14, INT.pack(50)),
    ):  # fmt: skip
        talk("cuGraphKernelNodeSetAttribute", node, number, things.buffer(data))
        tell(number)
    talk("cuGraphKernelNodeSetParams_v2", node, kernel_params(things, grid=8))
    tell(4)
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphLaunch", executable, 0)
    talk("cuGraphExecKernelNodeSetParams_v2", executable, node, kernel_params(things, grid=3))
    talk("cuCtxSynchronize")


@scenario
def types_of_nodes(talk, things):
    """Each kind of node says what it is; the others' functions refuse it."""
    kinds = ("kernel", "memcpy", "memset", "host", "child", "empty", "wait", "record", "alloc", "free", "batch")
    for kind in kinds:
        talk.tell(**{kind: talk("cuGraphNodeGetType", things[f"node.{kind}"], ...)})
    out = things.buffer()
    for name in ("Kernel", "Memcpy", "Memset", "Host", "EventRecord", "EventWait", "MemAlloc", "MemFree", "BatchMemOp"):
        what, suffix = ("Event", "") if name.startswith("Event") else ("Params", "_v2" if name == "Kernel" else "")
        talk(f"cuGraph{name}NodeGet{what}{suffix}", things["node.empty"], out)
    talk("cuGraphChildGraphNodeGetGraph", things["node.empty"], out)
    talk("cuGraphKernelNodeSetParams_v2", things["node.empty"], things["kernel_params"])
    talk("cuGraphMemcpyNodeSetParams", things["node.empty"], things["copy3d"])
    talk("cuGraphMemsetNodeSetParams", things["node.empty"], things["memset_params"])
    talk("cuGraphHostNodeSetParams", things["node.empty"], things["host_params"])
    talk("cuGraphEventRecordNodeSetEvent", things["node.wait"], things["event"])
    talk("cuGraphEventWaitNodeSetEvent", things["node.record"], things["event"])
    talk("cuGraphBatchMemOpNodeSetParams", things["node.empty"], things["batch_params"])
    talk("cuGraphKernelNodeGetAttribute", things["node.empty"], 2, out)
    talk(
        "cuGraphExecMemsetNodeSetParams",
        things["exec.kernel"],
        things["node.memset"],
        things["memset_params"],
        things["context"],
    )
    talk(
        "cuGraphExecMemsetNodeSetParams",
        things["exec.kernel"],
        things["node.kernel"],
        things["memset_params"],
        things["context"],
    )


@scenario
def kernel_nodes(talk, things):
    """Parameters come back as they were given, by a copy; attributes are kept."""
    memory = things["memory"]
    value = things.row(7)
    params = kernel_params(things, params=things.row(things.row(memory), value))
    graph = talk("cuGraphCreate", ..., 0)
    node = talk("cuGraphAddKernelNode_v2", ..., graph, 0, 0, params)
    ctypes.c_uint64.from_address(value).value = 8
    out = things.buffer()
    talk("cuGraphKernelNodeGetParams_v2", node, out)
    function, gx, gy, gz, bx, by, bz, shared, given, extra, kernel, context = struct.unpack(
        "<Q7I4xQQQQ", ctypes.string_at(out, 72)
    )
    talk.tell(function=function == u64(params), grid=(gx, gy, gz), block=(bx, by, bz), shared=shared, extra=extra)
    talk.tell(address=u64(u64(given)) == memory, value=u32(u64(given + 8)))
    talk.tell(kernel=kernel, context=context == things["context"])
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory))
    talk("cuGraphExecKernelNodeSetParams_v2", executable, node, kernel_params(things, value=9))
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory))
    talk("cuGraphExecKernelNodeSetParams_v2", executable, node, kernel_params(things, "other"))
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory))
    talk("cuGraphKernelNodeSetParams_v2", node, kernel_params(things, value=10))
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory))
    talk("cuGraphKernelNodeSetParams_v2", node, kernel_params(things, grid=0))
    buffer = things.row(1, things.buffer(struct.pack("<QI", memory, 11)), 2, things.row(12), 0)
    talk("cuGraphKernelNodeSetParams_v2", node, kernel_params(things, extra=buffer))
    talk("cuGraphKernelNodeGetParams_v2", node, out)
    talk.tell(params=u64(out + 40) != 0, extra=u64(out + 48) != 0)
    short = things.row(1, things.buffer(struct.pack("<QI", memory, 11)), 2, things.row(3), 0)
    talk("cuGraphKernelNodeSetParams_v2", node, kernel_params(things, extra=short))
    for attribute, data in (
        (2, INT.pack(1)),
        (4, struct.pack("<3I", 1, 1, 1)),
        (8, struct.pack("<i", -1)),
        (0, b""),
        (99, b""),
    ):
        talk("cuGraphKernelNodeSetAttribute", node, attribute, things.buffer(data))
        got = things.buffer()
        talk("cuGraphKernelNodeGetAttribute", node, attribute, got)
        talk.tell(got=struct.unpack("<3i", ctypes.string_at(got, 12)))
    second = talk("cuGraphAddKernelNode_v2", ..., graph, 0, 0, params)
    talk("cuGraphKernelNodeCopyAttributes", second, node)
    got = things.buffer()
    talk("cuGraphKernelNodeGetAttribute", second, 2, got)
    talk.tell(got=u32(got))
    talk("cuGraphKernelNodeCopyAttributes", second, things["node.empty"])
    talk("cuGraphAddKernelNode_v2", ..., graph, 0, 0, things.buffer())
    lone = things.buffer(struct.pack("<Q7I4xQQQQ", 0, 1, 1, 1, 1, 1, 1, 0, things["params"], 0, things["kernel"], 0))
    third = talk("cuGraphAddKernelNode_v2", ..., graph, 0, 0, lone)
    talk("cuGraphKernelNodeGetParams_v2", third, out)
    talk.tell(function=u64(out) != 0, kernel=u64(out + 56) == things["kernel"])
    talk("cuGraphAddKernelNode", ..., graph, 0, 0, params)


@scenario
def functions_of_nodes_that_end(talk, things):
    """A node's module, event, memory and child graph go before it."""
    graph, memory = talk("cuGraphCreate", ..., 0), things["memory"]
    talk("cuGraphAddKernelNode_v2", ..., graph, 0, 0, kernel_params(things))
    event = talk("cuEventCreate", ..., 0)
    record = talk("cuGraphAddEventRecordNode", ..., graph, 0, 0, event)
    child = talk("cuGraphCreate", ..., 0)
    fill(talk, things, child, memory, 3)
    nested = talk("cuGraphAddChildGraphNode", ..., graph, 0, 0, child)
    inner = talk("cuGraphChildGraphNodeGetGraph", nested, ...)
    talk.tell(copied=inner != child, nodes=talk("cuGraphGetNodes", inner, 0, ...))
    talk("cuGraphDestroy", inner)
    talk("cuGraphAddEmptyNode", ..., child, 0, 0)
    talk.tell(nodes=talk("cuGraphGetNodes", inner, 0, ...))
    talk("cuGraphAddEmptyNode", ..., inner, 0, 0)
    talk.tell(nodes=talk("cuGraphGetNodes", inner, 0, ...))
    talk("cuGraphDestroy", child)
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphLaunch", executable, 0)
    talk("cuCtxSynchronize")
    talk("cuEventDestroy_v2", event)
    talk("cuGraphEventRecordNodeGetEvent", record, ...)
    talk("cuGraphLaunch", executable, 0)
    talk("cuCtxSynchronize")
    talk("cuGraphDestroyNode", nested)
    talk("cuGraphGetNodes", inner, 0, ...)
    talk("cuGraphExecDestroy", executable)
    talk("cuGraphDestroy", graph)


@scenario
def sets_and_copies(talk, things):
    """Nodes that set and copy: what may change when they are ready."""
    memory, context = things["memory"], things["context"]
    talk("cuMemsetD32_v2", memory, 0, 64)
    graph = talk("cuGraphCreate", ..., 0)

    def params(value=5, unit=4, width=4, height=1, pitch=0, address=None):
        return things.buffer(
            struct.pack("<QQIIQQ", memory if address is None else address, pitch, value, unit, width, height)
        )

    node = talk("cuGraphAddMemsetNode", ..., graph, 0, 0, params(), context)
    out = things.buffer()
    talk("cuGraphMemsetNodeGetParams", node, out)
    address, _pitch, value, unit, width, height = struct.unpack("<QQIIQQ", ctypes.string_at(out, 40))
    talk.tell(address=address == memory, value=value, unit=unit, width=width, height=height)
    for given in (params(unit=3), params(width=0), params(height=0), params(address=0), params(address=8), params(pitch=4, height=2),
                  params(width=1 << 20), params(address=memory + 2)):  # fmt: skip
        talk("cuGraphAddMemsetNode", ..., graph, 0, 0, given, context)
    plain = talk("cuGraphCreate", ..., 0)
    node = talk("cuGraphAddMemsetNode", ..., plain, 0, 0, params(), context)
    executable = talk("cuGraphInstantiateWithFlags", ..., plain, 0)
    for given in (params(6), params(width=2), params(width=8), params(unit=1), params(height=2, pitch=64), params(width=0),
                  params(address=memory + 64), params(address=0)):  # fmt: skip
        talk("cuGraphExecMemsetNodeSetParams", executable, node, given, context)
    talk("cuGraphExecMemsetNodeSetParams", executable, node, params(7), context)
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory, 6))
    copies = talk("cuGraphCreate", ..., 0)
    node = talk("cuGraphAddMemcpyNode", ..., copies, 0, 0, things["copy3d"], context)
    talk("cuGraphMemcpyNodeGetParams", node, out)
    given = ctypes.string_at(out, 200)
    talk.tell(
        width=struct.unpack_from("<3Q", given, 176), host=struct.unpack_from("<Q", given, 40)[0] == things["host"]
    )
    executable = talk("cuGraphInstantiateWithFlags", ..., copies, 0)
    ctypes.c_uint32.from_address(things["host"]).value = 77
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory, 2))
    wide = bytearray(ctypes.string_at(things["copy3d"], 200))
    for width in (8, 16, 32, 0):
        struct.pack_into("<Q", wide, 176, width)
        talk("cuGraphExecMemcpyNodeSetParams", executable, node, things.buffer(bytes(wide)), context)
        talk("cuGraphMemcpyNodeSetParams", node, things.buffer(bytes(wide)))


@scenario
def nodes_that_are_disabled(talk, things):
    """Kernels, sets and copies may be; a disabled node does nothing."""
    for kind in ("kernel", "memcpy", "memset", "host", "empty", "child", "record", "wait", "batch", "alloc"):
        executable, node = (things["exec." + kind], things["node." + kind])
        talk.tell(**{kind: talk("cuGraphNodeGetEnabled", executable, node, ...)})
        talk("cuGraphNodeSetEnabled", executable, node, 0)
    memory = things["memory"]
    talk("cuMemsetD32_v2", memory, 1, 1)
    for enabled in (0, 1):
        talk("cuGraphNodeSetEnabled", things["exec.kernel"], things["node.kernel"], enabled)
        talk.tell(is_=talk("cuGraphNodeGetEnabled", things["exec.kernel"], things["node.kernel"], ...))
        talk("cuGraphLaunch", things["exec.kernel"], 0)
        talk.tell(found=talk.words(memory))


@scenario
def updates(talk, things):
    """A graph made ready takes another's arguments where its shape is the same."""
    memory, context = things["memory"], things["context"]

    def graph(*kinds, edge=False, value=5, name="put"):
        made, last = talk("cuGraphCreate", ..., 0), ()
        for kind in kinds:
            row = things.row(*last) if last else 0
            if kind == "kernel":
                node = talk(
                    "cuGraphAddKernelNode_v2", ..., made, row, len(last), kernel_params(things, name, value=value)
                )
            elif kind == "memset":
                node = fill(talk, things, made, memory + 64, value, last)
            else:
                node = talk("cuGraphAddEmptyNode", ..., made, row, len(last))
            last = (node,) if edge else ()
        return made, node

    base, _ = graph("kernel", "memset")
    executable = talk("cuGraphInstantiateWithFlags", ..., base, 0)
    for given, node in (
        graph("kernel", "memset", value=6), graph("kernel", "memset", "empty"), graph("kernel"), graph("memset", "kernel"),
        graph("kernel", "empty"), graph("kernel", "memset", edge=True), graph("kernel", "memset", name="other"),
    ):  # fmt: skip
        info = things.buffer()
        talk("cuGraphExecUpdate_v2", executable, given, info)
        talk.tell(result=u32(info), node=u64(info + 8) == node if u64(info + 8) else 0, origin=u64(info + 16))
    talk("cuGraphExecUpdate_v2", executable, base, 0)
    talk("cuGraphExecUpdate_v2", executable, base, things.buffer())
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory))
    other, _ = graph("kernel")
    talk("cuGraphExecChildGraphNodeSetParams", things["exec.child"], things["node.child"], other)
    talk("cuGraphExecChildGraphNodeSetParams", things["exec.child"], things["node.child"], things["child"])
    talk("cuGraphExecKernelNodeSetParams_v2", executable, things["node.kernel"], things["kernel_params"])
    talk("cuGraphDestroy", base)
    talk("cuGraphLaunch", executable, 0)
    talk("cuGraphExecUpdate_v2", executable, graph("kernel", "memset", value=8)[0], things.buffer())
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory))
    _ = context


@scenario
def memory_of_a_graph(talk, things):
    """An allocation that is freed in its graph."""
    out = things.buffer(size=65536)
    graph = talk("cuGraphCreate", ..., 0)
    node, address = alloc(talk, things, graph, size=65536)
    talk.tell(aligned=address % 256, some=address != 0)
    filled = fill(talk, things, graph, address, 5, (node,))
    copy = things.buffer(
        struct.pack("<QQQQI4xQQQQQQ", 0, 0, 0, 0, 2, 0, address, 0, 0, 16, 1)
        + struct.pack("<QQQQI4xQQQQQQ", 0, 0, 0, 0, 1, out, 0, 0, 0, 16, 1)
        + struct.pack("<QQQ", 16, 1, 1)
    )
    read = talk("cuGraphAddMemcpyNode", ..., graph, things.row(filled), 1, copy, things["context"])
    freed = talk("cuGraphAddMemFreeNode", ..., graph, things.row(read), 1, address)
    talk.tell(freed=talk("cuGraphMemFreeNodeGetParams", freed, ...) == address)
    got = things.buffer()
    talk("cuGraphMemAllocNodeGetParams", node, got)
    talk.tell(address=u64(got + 112) == address, size=u64(got + 104), where=u32(got + 8))
    talk("cuGraphAddMemFreeNode", ..., graph, things.row(read), 1, address)
    talk("cuMemcpyDtoH_v2", out, address, 16)
    talk("cuMemGetAddressRange_v2", ..., ..., address)
    talk("cuPointerGetAttribute", ..., 2, address)
    talk("cuMemFree_v2", address)
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    for _ in range(2):
        talk("cuGraphLaunch", executable, 0)
        talk("cuCtxSynchronize")
    talk.tell(found=u32(out))
    talk("cuMemFree_v2", address)
    talk("cuMemFreeAsync", address, 0)
    talk("cuMemcpyDtoH_v2", out, address, 16)
    talk("cuGraphClone", ..., graph)
    talk("cuGraphDestroyNode", filled)
    talk("cuGraphRemoveDependencies_v2", graph, things.row(node), things.row(filled), 0, 1)
    talk("cuGraphAddChildGraphNode", ..., things["graph"], 0, 0, graph)
    talk("cuGraphExecDestroy", executable)
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphLaunch", executable, 0)
    talk("cuCtxSynchronize")
    talk("cuGraphExecUpdate_v2", executable, graph, things.buffer())
    talk("cuGraphExecDestroy", executable)
    talk("cuGraphDestroy", graph)


@scenario
def memory_that_outlives_its_graph(talk, things):
    """An allocation that others free."""
    graph = talk("cuGraphCreate", ..., 0)
    node, address = alloc(talk, things, graph)
    fill(talk, things, graph, address, 5, (node,))
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphLaunch", executable, 0)
    talk("cuCtxSynchronize")
    talk.tell(found=talk.words(address))
    talk.tell(range_=talk("cuMemGetAddressRange_v2", ..., ..., address)[1])
    talk("cuGraphLaunch", executable, 0)
    talk("cuMemFree_v2", address)
    talk("cuMemFree_v2", address)
    talk("cuGraphLaunch", executable, 0)
    talk("cuMemFreeAsync", address, 0)
    talk("cuGraphLaunch", executable, 0)
    freeing = talk("cuGraphCreate", ..., 0)
    talk("cuGraphAddMemFreeNode", ..., freeing, 0, 0, address)
    talk("cuGraphAddMemFreeNode", ..., graph, 0, 0, address)
    again = talk("cuGraphInstantiateWithFlags", ..., freeing, 0)
    talk("cuGraphLaunch", again, 0)
    talk("cuCtxSynchronize")
    talk("cuGraphLaunch", again, 0)
    talk("cuGraphLaunch", executable, 0)
    talk("cuGraphLaunch", again, 0)
    talk("cuCtxSynchronize")
    talk("cuGraphExecDestroy", executable)
    freely = talk("cuGraphInstantiateWithFlags", ..., graph, 1)
    talk.tell(flags=talk("cuGraphExecGetFlags", freely, ...))
    for _ in range(3):
        talk("cuGraphLaunch", freely, 0)
    talk("cuCtxSynchronize")
    talk.tell(found=talk.words(address))
    talk("cuGraphExecDestroy", freely)
    talk.tell(found=talk.words(address))
    talk("cuGraphDestroy", graph)
    talk.tell(found=talk.words(address))
    talk("cuMemFree_v2", address)


@scenario
def allocations_that_are_refused(talk, things):
    """Of nothing, of too much, elsewhere; frees of what no node allocated."""
    graph = talk("cuGraphCreate", ..., 0)
    alloc(talk, things, graph, size=0)
    alloc(talk, things, graph, size=1 << 60)
    alloc(talk, things, graph, props=things.buffer(struct.pack("<IIiiQQH54x", 1, 0, 1, 99, 0, 0, 0)))
    alloc(talk, things, graph, props=things.buffer(struct.pack("<IIiiQQH54x", 0, 0, 1, 0, 0, 0, 0)))
    alloc(talk, things, graph, props=things.buffer(struct.pack("<IIiiQQH54x", 1, 1, 1, 0, 0, 0, 0)))
    alloc(talk, things, graph, props=things.buffer(struct.pack("<IIiiQQH54x", 1, 0, 0, 0, 0, 0, 0)))
    alloc(talk, things, graph, access=things["access"], count=1)
    talk("cuGraphAddMemFreeNode", ..., graph, 0, 0, 0)
    talk("cuGraphAddMemFreeNode", ..., graph, 0, 0, 64)
    talk("cuGraphAddMemFreeNode", ..., graph, 0, 0, things["memory"])
    talk("cuGraphAddMemFreeNode", ..., graph, 0, 0, things["pooled"])
    talk.tell(nodes=talk("cuGraphGetNodes", graph, 0, ...))


@scenario
def accounts_of_graph_memory(talk, things):
    """What graphs use, most of it at once, and what is kept for them."""
    graph = talk("cuGraphCreate", ..., 0)

    def account():
        talk.tell(used=[talk("cuDeviceGetGraphMemAttribute", 0, number, ...) for number in range(4)])

    talk("cuDeviceGraphMemTrim", 0)
    for number in range(5):
        talk("cuDeviceSetGraphMemAttribute", 0, number, things.row(0))
    talk("cuDeviceSetGraphMemAttribute", 0, 1, things.row(5))
    account()
    _, address = alloc(talk, things, graph, size=4 << 20)
    account()
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    account()
    talk("cuGraphLaunch", executable, 0)
    talk("cuCtxSynchronize")
    account()
    talk("cuMemFree_v2", address)
    account()
    talk("cuGraphExecDestroy", executable)
    talk("cuGraphDestroy", graph)
    talk("cuDeviceGraphMemTrim", 0)
    account()
    talk("cuDeviceGetGraphMemAttribute", 0, 9, ...)
    talk("cuDeviceGetGraphMemAttribute", 9, 0, ...)
    talk("cuDeviceGraphMemTrim", 9)


@scenario
def events_of_graphs(talk, things):
    """Nodes that record and wait."""
    graph, event, other = talk("cuGraphCreate", ..., 0), talk("cuEventCreate", ..., 0), talk("cuEventCreate", ..., 0)
    record = talk("cuGraphAddEventRecordNode", ..., graph, 0, 0, event)
    wait = talk("cuGraphAddEventWaitNode", ..., graph, things.row(record), 1, event)
    talk.tell(
        same=talk("cuGraphEventRecordNodeGetEvent", record, ...)
        == talk("cuGraphEventWaitNodeGetEvent", wait, ...)
        == event
    )
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphLaunch", executable, 0)
    talk("cuCtxSynchronize")
    talk("cuEventQuery", event)
    talk("cuEventElapsedTime_v2", ..., event, event)
    talk("cuGraphExecEventRecordNodeSetEvent", executable, record, other)
    talk("cuGraphLaunch", executable, 0)
    talk("cuCtxSynchronize")
    talk("cuEventElapsedTime_v2", ..., other, other)
    talk("cuGraphEventRecordNodeSetEvent", record, other)
    talk.tell(same=talk("cuGraphEventRecordNodeGetEvent", record, ...) == other)
    talk("cuGraphExecEventWaitNodeSetEvent", executable, wait, other)
    talk("cuGraphExecEventWaitNodeSetEvent", executable, record, other)
    stream = things["stream"]
    talk("cuStreamBeginCapture_v2", stream, 2)
    talk("cuEventRecordWithFlags", event, stream, 1)
    talk("cuStreamWaitEvent", stream, other, 1)
    talk("cuStreamWaitEvent", stream, other, 0)
    captured = talk("cuStreamEndCapture", stream, ...)
    nodes = things.row(0, 0, 0)
    talk("cuGraphGetNodes", captured, nodes, things.row(3))
    talk.tell(types=[talk("cuGraphNodeGetType", u64(nodes + 8 * i), ...) for i in range(2)])


@scenario
def any_nodes(talk, things):
    """cuGraphAddNode, and what sets any node's parameters."""
    graph, context, memory = talk("cuGraphCreate", ..., 0), things["context"], things["memory"]
    kernel = ctypes.string_at(things["kernel_params"], 72)
    copy, pool = ctypes.string_at(things["copy3d"], 200), ctypes.string_at(things["pool_props"], 88)
    batch = struct.pack("<QI4xQI", context, 1, things["operations"], 0)
    cases = {
        0: kernel, 1: struct.pack("<iiQ", 0, 0, context) + copy, 2: struct.pack("<QQIIQQQ", memory, 0, 6, 4, 4, 1, context),
        3: struct.pack("<QQ", things["host_function"], 0), 4: struct.pack("<Qi", things["child"], 0), 5: b"",
        6: struct.pack("<Q", things["event"]), 7: struct.pack("<Q", things["event"]),
        10: pool + struct.pack("<QQQQ", 0, 0, 4096, 0), 12: batch, 14: b"",
    }  # fmt: skip
    nodes = {}
    for number, data in cases.items():
        params = things.buffer(struct.pack("<I12x", number) + data, 256)
        nodes[number] = talk("cuGraphAddNode_v2", ..., graph, 0, 0, 0, params)
        if number != 14:
            talk.tell(type=talk("cuGraphNodeGetType", nodes[number], ...))
        if number == 10:
            address = u64(params + 16 + 112)
            params = things.buffer(struct.pack("<I12xQ", 11, address), 256)
            nodes[11] = talk("cuGraphAddNode_v2", ..., graph, things.row(nodes[10]), 0, 1, params)
            cases[11] = None
            talk.tell(type=talk("cuGraphNodeGetType", nodes[11], ...))
            cases.pop(11)
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    for number, data in cases.items():
        if number != 14:
            params = things.buffer(struct.pack("<I12x", number) + data, 256)
            talk("cuGraphNodeSetParams", nodes[number], params)
            talk("cuGraphExecNodeSetParams", executable, nodes[number], params)
    talk("cuGraphNodeSetParams", nodes[2], things.buffer(struct.pack("<I12x", 3) + cases[3], 256))
    talk("cuGraphAddNode_v2", ..., graph, 0, 0, 0, things.buffer(struct.pack("<IIII", 5, 1, 0, 0), 256))
    talk("cuGraphLaunch", executable, 0)
    talk("cuCtxSynchronize")
    talk.tell(found=talk.words(memory, 5))
    owner = talk("cuGraphCreate", ..., 0)
    moved = talk("cuGraphCreate", ..., 0)
    node, address = alloc(talk, things, moved)
    talk("cuGraphAddMemFreeNode", ..., moved, things.row(node), 1, address)
    params = things.buffer(struct.pack("<I12xQi", 4, moved, 1), 256)
    child = talk("cuGraphAddNode_v2", ..., owner, 0, 0, 0, params)
    talk.tell(same=talk("cuGraphChildGraphNodeGetGraph", child, ...) == moved)
    talk("cuGraphDestroy", moved)
    executable = talk("cuGraphInstantiateWithFlags", ..., owner, 0)
    talk("cuGraphLaunch", executable, 0)
    talk("cuCtxSynchronize")


@scenario
def conditional_nodes(talk, things):
    """Bodies that run by the default value of a condition."""
    memory, context = things["memory"], things["context"]
    for kind, size, value, flags in (
        (0, 1, 1, 1),
        (0, 1, 0, 1),
        (0, 2, 0, 1),
        (2, 3, 2, 1),
        (2, 3, 5, 1),
        (1, 1, 0, 1),
        (0, 1, 0, 0),
    ):
        talk("cuMemsetD32_v2", memory, 0, 8)
        graph = talk("cuGraphCreate", ..., 0)
        handle = talk("cuGraphConditionalHandleCreate", ..., graph, context, value, flags)
        params = things.buffer(struct.pack("<I12xQIIQQ", 13, handle, kind, size, 0, context), 256)
        node = talk("cuGraphAddNode_v2", ..., graph, 0, 0, 0, params)
        talk.tell(type=talk("cuGraphNodeGetType", node, ...))
        bodies = u64(params + 32)
        for i in range(size if bodies else 0):
            fill(talk, things, u64(bodies + 8 * i), memory + 4 * i, 3 + i, count=1)
        executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
        talk("cuGraphLaunch", executable, 0)
        talk("cuCtxSynchronize")
        talk.tell(found=talk.words(memory, 4))
        talk("cuGraphClone", ..., graph)
        talk("cuGraphAddChildGraphNode", ..., things["graph"], 0, 0, graph)
        talk("cuGraphInstantiateWithFlags", ..., graph, 0)
        talk("cuGraphNodeSetParams", node, params)
    graph = talk("cuGraphCreate", ..., 0)
    handle = talk("cuGraphConditionalHandleCreate", ..., graph, 0, 1, 1)
    talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    for kind, size in ((0, 0), (0, 3), (1, 2), (2, 0), (3, 1)):
        params = things.buffer(struct.pack("<I12xQIIQQ", 13, handle, kind, size, 0, context), 256)
        talk("cuGraphAddNode_v2", ..., graph, 0, 0, 0, params)
    for given in (0, handle + 977):
        params = things.buffer(struct.pack("<I12xQIIQQ", 13, given, 0, 1, 0, context), 256)
        talk("cuGraphAddNode_v2", ..., graph, 0, 0, 0, params)
    talk("cuGraphConditionalHandleCreate", ..., graph, context, 1, 8)


@scenario
def operations_on_memory(talk, things):
    """cuStreamBatchMemOp and its nodes: writes, waits, barriers, and what they refuse."""
    memory, context, stream = things["memory"], things["context"], things["stream"]
    talk("cuMemsetD32_v2", memory, 0, 16)

    def operation(kind, at, value, flags=0):
        return struct.pack("<I4xQQI4xQQ", kind, memory + at, value, flags, 0, 0)

    def params(*operations, flags=0, count=None):
        data = things.buffer(b"".join(operations))
        return things.buffer(struct.pack("<QI4xQI", context, len(operations) if count is None else count, data, flags))

    several = (operation(2, 0, 5), operation(5, 8, 6 << 32), operation(1, 0, 5, 1), operation(4, 8, 1))
    talk("cuStreamBatchMemOp_v2", stream, 4, things.buffer(b"".join(several)), 0)
    talk("cuStreamSynchronize", stream)
    talk.tell(found=talk.words(memory, 4))
    talk("cuStreamBatchMemOp_v2", stream, 1, things.buffer(struct.pack("<II40x", 6, 0)), 0)
    talk("cuStreamBatchMemOp_v2", stream, 1, things.buffer(struct.pack("<II40x", 3, 0)), 0)
    talk("cuStreamBatchMemOp_v2", stream, 1, things.buffer(operation(9, 0, 1)), 0)
    talk("cuStreamBatchMemOp_v2", stream, 1, things.buffer(operation(2, 2, 1)), 0)
    talk("cuStreamBatchMemOp_v2", stream, 0, things.buffer(), 0)
    talk("cuStreamBatchMemOp_v2", stream, 257, things.buffer(size=16384), 0)
    talk("cuStreamBatchMemOp_v2", stream, 1, things.buffer(operation(2, 0, 1)), 1)
    talk("cuStreamWriteValue32_v2", stream, memory + 2, 1, 0)
    talk("cuStreamWriteValue32_v2", stream, 64, 1, 0)
    talk("cuStreamWaitValue32_v2", stream, memory, 5, 1)
    talk("cuStreamSynchronize", stream)
    graph = talk("cuGraphCreate", ..., 0)
    node = talk("cuGraphAddBatchMemOpNode", ..., graph, 0, 0, params(operation(2, 16, 9), operation(2, 20, 10)))
    out = things.buffer()
    talk("cuGraphBatchMemOpNodeGetParams", node, out)
    talk.tell(count=u32(out + 8), first=u32(u64(out + 16) + 16), context=u64(out) == context)
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory + 16, 2))
    talk("cuGraphExecBatchMemOpNodeSetParams", executable, node, params(operation(2, 16, 11), operation(2, 20, 12)))
    talk("cuGraphExecBatchMemOpNodeSetParams", executable, node, params(operation(2, 16, 13)))
    talk("cuGraphLaunch", executable, 0)
    talk.tell(found=talk.words(memory + 16, 2))
    talk("cuGraphBatchMemOpNodeSetParams", node, params(operation(2, 16, 13)))
    talk("cuGraphAddBatchMemOpNode", ..., graph, 0, 0, params(count=0))
    talk("cuGraphAddBatchMemOpNode", ..., graph, 0, 0, params(operation(9, 0, 0)))


@scenario
def objects_that_graphs_keep(talk, things):
    """The destructor is called when the last reference goes."""
    from driver_codes import HOST

    ended = []
    function = things._function(HOST(ended.append))

    def later(count):
        for _ in range(200):
            if len(ended) >= count:
                break
            threading.Event().wait(0.005)
        talk.tell(ended=len(ended))

    made = talk("cuUserObjectCreate", ..., 5, function, 2, 1)
    talk("cuUserObjectCreate", ..., 5, function, 0, 1)
    talk("cuUserObjectCreate", ..., 5, function, 1, 0)
    talk("cuUserObjectRetain", made, 1)
    talk("cuUserObjectRetain", made, 0)
    graph = talk("cuGraphCreate", ..., 0)
    talk("cuGraphRetainUserObject", graph, made, 1, 0)
    talk("cuGraphRetainUserObject", graph, made, 1, 1)
    talk("cuGraphRetainUserObject", graph, made, 0, 0)
    talk("cuGraphRetainUserObject", graph, made, 1, 7)
    talk("cuUserObjectRelease", made, 2)
    talk.tell(ended=len(ended))
    clone = talk("cuGraphClone", ..., graph)
    executable = talk("cuGraphInstantiateWithFlags", ..., graph, 0)
    talk("cuGraphReleaseUserObject", graph, made, 1)
    talk("cuGraphDestroy", graph)
    talk.tell(ended=len(ended))
    talk("cuGraphDestroy", clone)
    talk.tell(ended=len(ended))
    talk("cuGraphExecDestroy", executable)
    later(1)
    talk.tell(given=ended[:1])


@scenario
def graphs_as_text(talk, things):
    """cuGraphDebugDotPrint writes a file."""
    path = Path(things.files, f"nodes{os.getpid()}.dot")
    talk("cuGraphDebugDotPrint", things["node.kernel.graph"], things.buffer(os.fsencode(path)), 0)
    text = path.read_text() if path.exists() else ""
    talk.tell(digraph="digraph" in text, name="put" in text)
    talk("cuGraphDebugDotPrint", things["node.kernel.graph"], things.buffer(b"/nowhere/at/all.dot"), 0)


@scenario
def events_in_captures(talk, things):
    """An event that nobody recorded, one that was recorded before, and one of another capture."""
    stream, other, event = things["stream"], talk("cuStreamCreate", ..., 0), things["event"]
    talk("cuStreamBeginCapture_v2", stream, 2)
    talk("cuStreamWaitEvent", stream, event, 0)
    talk.tell(status=talk("cuStreamIsCapturing", stream, ...))
    talk("cuStreamEndCapture", stream, ...)
    talk("cuEventRecord", event, 0)
    talk("cuStreamBeginCapture_v2", stream, 2)
    talk("cuStreamWaitEvent", stream, event, 0)
    talk.tell(status=talk("cuStreamIsCapturing", stream, ...))
    talk("cuMemsetD32Async", things["memory"], 3, 4, stream)
    talk("cuStreamEndCapture", stream, ...)
    talk("cuStreamBeginCapture_v2", stream, 2)
    talk("cuStreamBeginCapture_v2", other, 2)
    talk("cuEventRecord", event, stream)
    talk("cuEventQuery", event)
    talk("cuStreamWaitEvent", other, event, 0)
    talk.tell(first=talk("cuStreamIsCapturing", stream, ...), second=talk("cuStreamIsCapturing", other, ...))
    talk("cuStreamEndCapture", other, ...)
    talk("cuStreamEndCapture", stream, ...)
    talk("cuStreamWaitEvent", other, event, 0)


@scenario
def memory_in_captures(talk, things):
    """Frees of memory from outside; a graph that is launched into a capture."""
    stream, executable, pooled = things["stream"], things["exec.memset"], things["pooled"]
    talk("cuStreamBeginCapture_v2", stream, 2)
    talk("cuMemFreeAsync", pooled, stream)
    talk.tell(status=talk("cuStreamIsCapturing", stream, ...))
    talk("cuStreamEndCapture", stream, ...)
    talk("cuStreamBeginCapture_v2", stream, 2)
    talk("cuGraphLaunch", executable, stream)
    talk("cuMemcpyHtoDAsync_v2", things["memory"], things["host"], 16, stream)
    talk("cuLaunchKernel", things["function"], 1, 1, 1, 1, 1, 1, 0, stream, things["params"], 0)
    talk("cuLaunchHostFunc", stream, things["host_function"], 0)
    talk("cuStreamWriteValue32_v2", stream, things["memory"], 1, 0)
    captured = talk("cuStreamEndCapture", stream, ...)
    nodes = things.row(0, 0, 0, 0, 0, 0)
    talk("cuGraphGetNodes", captured, nodes, things.row(6))
    talk.tell(types=[talk("cuGraphNodeGetType", u64(nodes + 8 * i), ...) for i in range(5)])
    ready = talk("cuGraphInstantiateWithFlags", ..., captured, 0)
    talk("cuGraphLaunch", ready, stream)
    talk("cuStreamSynchronize", stream)
    talk("cuMemFreeAsync", pooled, 0)


@scenario
def instantiations(talk, things):
    """Flags, and what tells why a graph cannot be made ready."""
    for flags in (0, 1, 2, 4, 8, 5, 16):
        params = things.row(flags, 0, 0, 7)
        talk("cuGraphInstantiateWithParams", ..., things["node.memset.graph"], params)
        talk.tell(result=u32(params + 24), node=u64(params + 16))
        talk("cuGraphInstantiateWithFlags", ..., things["node.memset.graph"], flags)


@scenario
def captures(talk, things):
    """Streams captured into graphs, new and old."""
    stream, memory, graph = things["stream"], things["memory"], talk("cuGraphCreate", ..., 0)
    first = talk("cuGraphAddEmptyNode", ..., graph, 0, 0)
    talk("cuStreamBeginCaptureToGraph", stream, graph, things.row(first), 0, 1, 2)
    talk("cuStreamBeginCapture_v2", stream, 2)
    talk("cuMemsetD32Async", memory, 3, 4, stream)
    talk("cuStreamSynchronize", stream)
    talk("cuStreamQuery", stream)
    talk.tell(status=talk("cuStreamIsCapturing", stream, ...))


@scenario
def captures_into_graphs(talk, things):
    """What is captured follows what the graph has; memory is captured as nodes."""
    stream, memory, graph = things["stream"], things["memory"], talk("cuGraphCreate", ..., 0)
    first = talk("cuGraphAddEmptyNode", ..., graph, 0, 0)
    talk("cuStreamBeginCaptureToGraph", stream, graph, things.row(first), 0, 1, 2)
    talk("cuMemsetD32Async", memory, 3, 4, stream)
    talk.tell(status=talk("cuStreamIsCapturing", stream, ...))
    talk.tell(same=talk("cuStreamEndCapture", stream, ...) == graph)
    talk.tell(nodes=talk("cuGraphGetNodes", graph, 0, ...), edges=talk("cuGraphGetEdges_v2", graph, 0, 0, 0, ...))
    talk("cuStreamBeginCapture_v2", 0, 2)
    talk("cuStreamBeginCapture_v2", 1, 2)
    talk("cuStreamBeginCapture_v2", stream, 9)
    talk("cuStreamEndCapture", stream, ...)
    talk("cuStreamBeginCapture_v2", stream, 2)
    address = talk("cuMemAllocAsync", ..., 4096, stream)
    talk("cuMemsetD32Async", address, 7, 4, stream)
    talk("cuMemFreeAsync", address, stream)
    captured = talk("cuStreamEndCapture", stream, ...)
    nodes = things.row(0, 0, 0)
    talk("cuGraphGetNodes", captured, nodes, things.row(3))
    talk.tell(types=[talk("cuGraphNodeGetType", u64(nodes + 8 * i), ...) for i in range(3)])
    executable = talk("cuGraphInstantiateWithFlags", ..., captured, 0)
    for _ in range(2):
        talk("cuGraphLaunch", executable, stream)
    talk("cuStreamSynchronize", stream)
    talk("cuStreamBeginCapture_v2", stream, 2)
    talk("cuStreamDestroy_v2", stream)
