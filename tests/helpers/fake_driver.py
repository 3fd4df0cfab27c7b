"""A driver that is no GPU's: memory and names from a dictionary, arguments as ctypes structures."""

import ctypes

import numpy as np

from warpsim.capture import gpu
from warpsim.capture.gpu import CallbackData

PTX = """.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .entry add(.param .u64 out, .param .f32 x, .param .u32 n, .param .u64 in)
{
 .reg .b64 %a, %o, %t; .reg .f32 %x, %y; .reg .b32 %i, %c, %n; .reg .pred %p;
 ld.param.u64 %o, [out]; ld.param.f32 %x, [x]; ld.param.u64 %a, [in]; ld.param.u32 %n, [n];
 mov.u32 %i, %tid.x;
 setp.ge.u32 %p, %i, %n;
 @%p ret;
 mul.wide.u32 %t, %i, 4;
 add.s64 %a, %a, %t; add.s64 %o, %o, %t;
 ld.global.f32 %y, [%a];
 mul.f32 %y, %y, %x;
 st.global.f32 [%o], %y;
 setp.eq.u32 %p, %i, 0;
 @%p atom.global.add.u32 %c, [counter], 1;
 ret;
}
"""
POOL, COUNTER = 0x7F0000000000, 0x7F1000000000


class FakeDriver:
    """Two allocations: a pool of a megabyte, and a variable."""

    def __init__(self):
        self.pool, self.counter = np.zeros(1 << 20, np.uint8), np.array([9], np.uint32)

    def allocation(self, address):
        """Start and size."""
        return (POOL, self.pool.size) if POOL <= address < POOL + self.pool.size else None

    def read(self, address, size):
        """Bytes."""
        held = self.counter.tobytes() if address == COUNTER else self.pool.tobytes()
        return held[:size]

    def synchronise(self):
        """At once."""
        return True

    def capturing(self, stream):
        """Never."""
        return False

    def params(self, function):
        """Of add."""
        return [(0, 8), (8, 4), (12, 4), (16, 8)]

    def module_of(self, function):
        """The only one."""
        return 77, 0

    def library_module(self, library):
        """None."""
        return 0

    def variable(self, module, name):
        """The counter."""
        return COUNTER, 4

    def hardware(self):
        """None."""
        return {"gpu": "none", "driver": "", "sm": "sm_80", "launches": 1}


def called(recorder, site, name, structure, status=0, symbol=b"add"):
    """A call of the driver, as CUPTI tells it."""
    data = CallbackData(site=site, function=name, symbol=symbol, result=ctypes.pointer(ctypes.c_int(status)))
    recorder._called(site, name.decode(), ctypes.addressof(structure), data)


ADD, FILL, HOST, CLONE = 11, 12, 13, 1000


class GraphDriver(FakeDriver):
    """A driver with a graph that fills 60 floats with 3 and then adds: node 11 depends on node 12."""

    def __init__(self):
        super().__init__()
        self.nodes = [FILL, ADD]
        self.values = [ctypes.c_uint64(POOL + 4096), ctypes.c_float(0.5), ctypes.c_uint32(60), ctypes.c_uint64(POOL)]
        self.places = (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in self.values])
        shape = {"gx": 1, "gy": 1, "gz": 1, "bx": 64, "by": 1, "bz": 1}
        self.kernel = gpu.KernelNode(f=1, **shape, params=ctypes.addressof(self.places))
        self.fill = gpu.Memset(address=POOL, value=0x40400000, size=4, width=60, height=1)
        self.ran = []

    def write(self, address, held):
        """Into memory."""
        target = self.counter.view(np.uint8) if address == COUNTER else self.pool
        target[:] = np.frombuffer(held, np.uint8)
        return True

    def name_of(self, function):
        """The only one."""
        return "add"

    def graph_nodes(self, graph):
        """Those of the copy."""
        assert graph == CLONE
        return self.nodes

    def graph_node_type(self, node):
        """CUgraphNodeType."""
        return {ADD: 0, FILL: 2, HOST: 3}[node]

    def ok(self, name, *args):
        """The calls that run nodes and look at them."""
        targets = [getattr(a, "_obj", None) for a in args]
        if name == "cuGraphClone":
            targets[0].value = CLONE
        elif name == "cuGraphNodeFindInClone":
            targets[0].value = args[1].value
        elif name == "cuGraphKernelNodeGetParams_v2":
            ctypes.memmove(ctypes.byref(targets[1]), ctypes.byref(self.kernel), ctypes.sizeof(self.kernel))
        elif name == "cuGraphKernelNodeSetParams_v2":
            ctypes.memmove(ctypes.byref(self.kernel), args[1].value, ctypes.sizeof(self.kernel))
        elif name == "cuGraphMemsetNodeGetParams":
            ctypes.memmove(ctypes.byref(targets[1]), ctypes.byref(self.fill), ctypes.sizeof(self.fill))
        elif name == "cuMemsetD2D32_v2":
            assert [a.value for a in args] == [POOL, 240, 0x40400000, 60, 1]
            self.run_fill()
        elif name == "cuLaunchKernelEx":
            assert (targets[0].gx, targets[0].bx, targets[0].count) == (1, 64, 0)
            self.run_add()
        return True

    def run_fill(self):
        """What the memset does."""
        self.ran.append("fill")
        self.pool[:240].view(np.float32)[:] = 3

    def run_add(self):
        """What the kernel does."""
        self.ran.append("add")
        places = ctypes.cast(self.kernel.params, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))
        at = places[0][0] - POOL
        self.pool[at : at + 240].view(np.float32)[:] = self.pool[:240].view(np.float32) * np.float32(0.5)
        self.counter[0] += 1
