"""Contexts and errors: what sticks, which calls give it, and what ends with a context.

Of the codes that stick, cuda.h says: "This leaves the process in an inconsistent state and any further CUDA work will return
the same error." Of cuCtxDestroy: it "destroys and cleans up all resources associated with the context"; of
cuDevicePrimaryCtxRelease: the primary context is reset when the last reference is released.
"""

import ctypes
import os
import struct

import pytest

from device_launches import TAIL, launch, source
from ptx_text import module_head

HEAD = module_head("sm_90")
RAW = ".visible .entry raw() { ret; }"
INVALID_VALUE, NOT_INITIALIZED, INVALID_CONTEXT, INVALID_HANDLE = 1, 3, 201, 400
ILLEGAL_ADDRESS, TIMEOUT, LAUNCH_FAILED = 700, 702, 719
STRAY, TRAP, ENDLESS = "mov.b64 %d, 16; st.global.b32 [%d], 1;", "trap;", "L: bra L;"
KERNELS = {
    STRAY: ILLEGAL_ADDRESS,
    "st.global.b32 [%d + 2], 1;": 716,
    ENDLESS: TIMEOUT,
    TRAP: LAUNCH_FAILED,
}
"""What a kernel does, and the code of a GPU."""


@pytest.fixture
def cuda(call, load):
    """Calls of a program: contexts, memory, kernels, launches."""
    return Program(call, load)


class Program:
    """A program of the driver's interface."""

    def __init__(self, call, load):
        self.call, self.load = call, load

    def context(self):
        """A new context, which is current."""
        made = ctypes.c_uint64()
        assert self.call("cuInit", 0) == 0
        assert self.call("cuCtxCreate_v2", made, 0, 0) == 0
        return made.value

    def memory(self):
        """Device memory of the current context."""
        made = ctypes.c_uint64()
        assert self.call("cuMemAlloc_v2", made, 16) == 0
        return made.value

    def function(self, body):
        """A kernel of one parameter, in the current context."""
        text = f".visible .entry k(.param .u64 x) {{ .reg .b64 %d; ld.param.u64 %d, [x]; {body} ret; }}"
        made = ctypes.c_uint64()
        assert self.call("cuModuleGetFunction", made, self.load(HEAD + text), ctypes.create_string_buffer(b"k")) == 0
        return made.value

    def launch(self, kernel, address=0, block=1, shared=0):
        """Its status."""
        value = ctypes.c_uint64(address)
        params = (ctypes.c_uint64 * 1)(ctypes.addressof(value))
        return self.call("cuLaunchKernel", kernel, 1, 1, 1, block, 1, 1, shared, 0, params, 0)


@pytest.mark.parametrize(("body", "code"), KERNELS.items(), ids=["stray", "misaligned", "endless", "trap"])
def test_errors_that_stick(cuda, call, body, code, monkeypatch):
    """All work is refused with the kernel's error; what only asks is answered. The end of the context ends it."""
    monkeypatch.setenv("WARPSIM_MAX_INSTRUCTIONS", "1000")
    first, out = cuda.context(), ctypes.c_uint64()
    address, kernel = cuda.memory(), cuda.function(body)
    assert cuda.launch(kernel, address) == 0
    for name, words in {
        "cuCtxSynchronize": (),
        "cuMemAlloc_v2": (out, 4),
        "cuMemFree_v2": (address,),
        "cuMemcpyDtoH_v2": (out, address, 4),
        "cuMemsetD8_v2": (address, 0, 4),
        "cuStreamCreate": (out, 0),
        "cuStreamSynchronize": (0,),
        "cuEventCreate": (out, 0),
        "cuModuleLoadData": (out, ctypes.create_string_buffer((HEAD + RAW).encode())),
        "cudaMalloc": (out, 4),
        "cudaDeviceSynchronize": (),
        "cudaGetLastError": (),
        "cudaPeekAtLastError": (),
    }.items():
        assert (name, call(name, *words)) == (name, code)
    assert cuda.launch(kernel, address) == code
    assert call("cuCtxGetCurrent", out) == call("cuDeviceGet", out, 0) == call("cuDeviceGetAttribute", out, 16, 0) == 0
    assert call("cuCtxDestroy_v2", first) == 0
    cuda.context()
    assert cuda.launch(cuda.function(""), 0) == call("cuCtxSynchronize") == 0


def test_errors_that_do_not_stick(cuda, call):
    """A refused call is over when it has returned: the context is as it was."""
    cuda.context()
    kernel, out = cuda.function(""), ctypes.c_uint64()
    for code, again in (
        (INVALID_VALUE, lambda: cuda.launch(kernel, 0, 2048)),
        (INVALID_VALUE, lambda: cuda.launch(kernel, shared=60000)),
        (INVALID_VALUE, lambda: call("cuMemFree_v2", 16)),
        (2, lambda: call("cuMemAlloc_v2", out, 1 << 50)),
        (218, lambda: call("cuModuleLoadData", out, ctypes.create_string_buffer((HEAD + "nonsense").encode()))),
        (INVALID_HANDLE, lambda: cuda.launch(1)),
    ):
        assert again() == code
        assert call("cuCtxSynchronize") == call("cudaPeekAtLastError") == 0
        assert cuda.launch(kernel) == 0


@pytest.mark.parametrize(("size", "allowed", "code"), [(8, 0, 0), (3, 0, 912), (16, 0, 912), (16, 1, 0)])
def test_clusters(cuda, call, size, allowed, code):
    """Their size divides the grid, and is at most 8 unless the kernel allows more; an error does not stick."""
    cuda.context()
    kernel = cuda.function("")
    assert call("cuFuncSetAttribute", kernel, 14, allowed) == 0
    attribute = ctypes.create_string_buffer(struct.pack("<I4x3I", 4, size, 1, 1).ljust(72, b"\0"))
    config = struct.pack("<7I4xQQI", 16, 1, 1, 32, 1, 1, 0, 0, ctypes.addressof(attribute), 1)
    argument = ctypes.c_uint64()
    params = (ctypes.c_uint64 * 1)(ctypes.addressof(argument))
    assert call("cuLaunchKernelEx", ctypes.create_string_buffer(config), kernel, params, 0) == code
    assert call("cuCtxSynchronize") == 0


def test_limits_are_a_contexts_own(cuda, call):
    """How many grids may wait is set for one context, and until it is reset (H200)."""
    body = (
        "mov.u32 %r5, 0; again:"
        + launch("child", TAIL)
        + "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 50; @%p2 bra again;"
    )
    text = source(child="atom.global.add.u32 %r1, [%d0], 1;", main=body)

    def most():
        """How many of 50 tail launches have run."""
        address, kernel, found = cuda.memory(), ctypes.c_uint64(), ctypes.c_uint32()
        name, limit = ctypes.create_string_buffer(b"main"), ctypes.c_uint64()
        assert call("cuMemsetD8_v2", address, 0, 16) == 0
        assert call("cuModuleGetFunction", kernel, cuda.load(text), name) == cuda.launch(kernel.value, address) == 0
        assert call("cuMemcpyDtoH_v2", found, address, 4) == call("cuCtxGetLimit", limit, 4) == 0
        return found.value, limit.value

    primary, first = ctypes.c_uint64(), (40, 40)
    assert call("cuDevicePrimaryCtxRetain", primary, 0) == call("cuCtxSetCurrent", primary.value) == 0
    assert call("cuCtxSetLimit", 4, 40) == 0
    assert most() == first
    other = cuda.context()
    assert most() == (50, 2048)
    assert call("cuCtxSetLimit", 4, 45) == 0
    assert most() == (45, 45)
    assert call("cuCtxDestroy_v2", other) == 0
    assert most() == first
    assert call("cuDevicePrimaryCtxReset", 0) == 0
    assert call("cuDevicePrimaryCtxRetain", primary, 0) == call("cuCtxSetCurrent", primary.value) == 0
    assert most() == (50, 2048)


def test_a_context_owns_its_memory_and_modules(cuda, call):
    """They end with it, and with no other."""
    first = cuda.context()
    kept, module = cuda.memory(), cuda.load(HEAD + RAW)
    second = cuda.context()
    lost, gone, out = cuda.memory(), cuda.load(HEAD + RAW), ctypes.c_uint64()
    pooled, stray = ctypes.c_uint64(), cuda.function(STRAY)
    assert call("cuMemAllocAsync", pooled, 4, 0) == 0
    assert call("cuCtxDestroy_v2", second) == 0
    assert call("cuCtxGetCurrent", out) == 0
    assert out.value == first

    assert [call("cuMemFree_v2", address) for address in (kept, lost, pooled.value)] == [0, INVALID_VALUE, 0]
    name = ctypes.create_string_buffer(b"raw")
    assert [call("cuModuleGetFunction", out, m, name) for m in (module, gone)] == [0, INVALID_HANDLE]
    third = cuda.context()
    stray = cuda.function(STRAY)
    assert cuda.launch(stray) == 0
    assert call("cuCtxSynchronize") == ILLEGAL_ADDRESS
    other = cuda.context()
    assert call("cuCtxDestroy_v2", other) == 0
    assert call("cuCtxSynchronize") == ILLEGAL_ADDRESS  # it was not the one that failed
    assert call("cuCtxDestroy_v2", third) == 0
    assert call("cuCtxSynchronize") == 0


def test_the_primary_context_is_counted(cuda, call):
    """The last release ends it; the run time holds it once, however often it is chosen, until it is reset."""
    made, out, flags, active = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint32(), ctypes.c_uint32()
    assert call("cuInit", 0) == 0
    for _ in range(2):
        assert call("cuDevicePrimaryCtxRetain", made, 0) == 0
    assert call("cuCtxSetCurrent", made.value) == 0
    address = cuda.memory()
    assert call("cuDevicePrimaryCtxRelease_v2", 0) == 0
    assert call("cuMemsetD8_v2", address, 0, 4) == 0
    assert call("cuDevicePrimaryCtxRelease_v2", 0) == 0
    assert call("cuMemFree_v2", address) == INVALID_VALUE

    for _ in range(2):
        assert call("cudaSetDevice", 0) == call("cudaMalloc", out, 4) == 0
    assert call("cuDevicePrimaryCtxGetState", 0, flags, active) == 0
    assert active.value == 1
    assert call("cuDevicePrimaryCtxRetain", made, 0) == call("cuDevicePrimaryCtxRelease_v2", 0) == 0
    assert call("cudaMemset", out.value, 0, 4) == 0
    assert call("cudaDeviceReset") == 0
    assert call("cudaMemset", out.value, 0, 4) == INVALID_VALUE
    assert call("cudaMalloc", out, 4) == 0
    assert call("cuDevicePrimaryCtxGetState", 0, flags, active) == 0
    assert active.value == 1


def test_a_device_is_reset_alone(call, monkeypatch):
    """Memory of another device, and pinned memory that the host still reads, stay."""
    monkeypatch.setenv("WARPSIM_DEVICE", "sm_90a,sm_80")
    one, other, pinned = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    assert call("cudaMalloc", one, 4) == call("cudaSetDevice", 1) == call("cudaMalloc", other, 4) == 0
    assert call("cudaHostAlloc", pinned, 4, 0) == call("cudaDeviceReset") == 0
    ctypes.c_uint32.from_address(pinned.value).value = 5
    assert call("cudaMemset", other.value, 0, 4) == INVALID_VALUE
    assert call("cudaMemset", one.value, 0, 4) == call("cudaFreeHost", pinned.value) == 0


def test_variables_begin_anew_when_a_device_is_reset(call):
    """A program's modules are loaded again, as it first did."""
    text = ctypes.create_string_buffer((HEAD + ".visible .global .u32 v = 3;\n").encode())
    shadow, out, five = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint32(5)
    handle = call("__cudaRegisterFatBinary", text)
    assert call("__cudaRegisterVar", handle, shadow, 0, ctypes.create_string_buffer(b"v"), 0, 4, 0, 0) == 0
    assert call("cudaMemcpyToSymbol", shadow, five, 4, 0, 1) == 0
    for expected in (5, 3):
        assert call("cudaMemcpyFromSymbol", out, shadow, 4, 0, 2) == 0
        assert out.value == expected
        assert call("cudaDeviceReset") == 0


def test_a_stub_launches_on_each_device(call, monkeypatch):
    """A stub of nvcc asks for its kernel's handle once: it is the kernel of whichever device is current, and reset."""
    monkeypatch.setenv("WARPSIM_DEVICE", "sm_90,sm_90")
    text = HEAD + ".visible .global .u32 v = 3;\n.visible .entry k() { st.global.b32 [v], 4; ret; }"
    image, handle, out = ctypes.create_string_buffer(text.encode()), ctypes.c_uint64(), ctypes.c_uint32()
    stub, shadow, fatbin = ctypes.c_uint32(), ctypes.c_uint32(), call("__cudaRegisterFatBinary", image)
    assert call("__cudaRegisterFunction", fatbin, stub, 0, ctypes.create_string_buffer(b"k"), -1, 0, 0, 0, 0, 0) == 0
    assert call("__cudaRegisterVar", fatbin, shadow, 0, ctypes.create_string_buffer(b"v"), 0, 4, 0, 0) == 0
    assert call("__cudaGetKernel", handle, stub) == 0
    one = 1 | 1 << 32
    for device in (0, 1, 1):
        assert call("cudaSetDevice", device) == 0
        for expected in (3, 4):
            assert call("cudaMemcpyFromSymbol", out, shadow, 4, 0, 2) == 0
            assert (device, out.value) == (device, expected)
            assert call("__cudaLaunchKernel", handle.value, one, 1, one, 1, 0, 0, 0) == 0
        assert call("cudaDeviceReset") == 0


def test_calls_that_need_a_context(call):
    """Without one, the driver gives no memory, streams or pinned memory; the run time makes one."""
    out = ctypes.c_uint64()
    assert call("cuInit", 0) == 0
    for name, words in {"cuMemAlloc_v2": (out, 4), "cuStreamCreate": (out, 0), "cuMemHostAlloc": (out, 4, 0)}.items():
        assert (name, call(name, *words)) == (name, INVALID_CONTEXT)
    assert call("cudaMallocManaged", out, 4, 1) == call("cuMemAlloc_v2", out, 4) == 0


def test_what_the_driver_does_not_have(cuda, call, monkeypatch, tmp_path):
    """Functions that are not simulated exist, and say so when they are called: programs that only refer to them run."""
    monkeypatch.setenv("WARPSIM_REPORT", str(tmp_path / "report"))
    cuda.context()
    assert call("cuMulticastCreate", 0, 0) == call("cudaIpcGetMemHandle", 0, 0) == 801
    assert call("cuCtxSynchronize") == 0
    assert "the simulated driver has no cuMulticastCreate" in (tmp_path / "report").read_text()


def test_listeners(cuda, call):
    """Who wants to hear of errors is given a handle, which ends once."""
    cuda.context()
    handle = ctypes.c_uint64()
    assert call("cuLogsRegisterCallback", 0, 0, handle) == 1
    assert call("cuLogsRegisterCallback", 4096, 0, handle) == 0
    assert [call("cuLogsUnregisterCallback", handle.value) for _ in range(2)] == [0, 1]


def test_a_fork(cuda, monkeypatch):
    """The child of a process that has started CUDA cannot use it; it can ask what the error is called."""
    place = ctypes.c_uint64()
    assert cuda.call("cudaMalloc", place, 16) == 0
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)

    for name, arguments in (("cuMemAlloc_v2", (place, 16)), ("cudaMalloc", (place, 16)), ("cuInit", (0,))):
        assert cuda.call(name, *arguments) == NOT_INITIALIZED
    assert cuda.call("cuGetErrorName", NOT_INITIALIZED, place) == 0
    assert ctypes.string_at(place.value) == b"CUDA_ERROR_NOT_INITIALIZED"
