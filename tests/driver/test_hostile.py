"""Calls with null pointers, memory that is not there, sizes that nothing has: the documented error, and the program goes on."""

import ctypes
import mmap
import sys

import pytest

from warpsim.driver.raw import all_bytes_at, get32
from warpsim.driver.results import DriverError

INVALID_VALUE = 1
HUGE = (1 << 64) - 1


@pytest.fixture
def memory(call):
    """Device memory, of 64 bytes, in a context that is current."""
    place = ctypes.c_uint64()
    assert call("cudaMalloc", place, 64) == 0
    return place.value


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cuLaunchHostFunc", (0, 0, 0)),
        ("cudaStreamAddCallback", (0, 0, 0, 0)),
        ("cuLaunchKernelEx", (0, 0, 0, 0)),
        ("cuMemcpy2D_v2", (0,)),
        ("cudaMallocPitch", ("out", 0, 4, 4)),
        ("cuCtxCreate_v2", (0, 0, 0)),
        ("cuDevicePrimaryCtxRetain", (0, 0)),
        ("cuModuleLoadData", (0, "text")),
        ("cuModuleLoadData", ("out", 0)),
        ("cuLinkCreate_v2", (0, 0, 0, 0)),
        ("cuGraphCreate", (0, 0)),
        ("cuMemPoolCreate", (0, "out")),
        ("cudaMemcpy", (0, "memory", 16, 4)),
        ("cudaMemcpy", ("memory", 8, 16, 4)),
        ("cudaMemcpy", ("out", "memory", HUGE, 4)),
        ("cudaMemcpy", (1 << 60, "memory", 16, 4)),
        ("cudaMemset", ("out", 0, 8)),
        ("cuMemsetD2D8_v2", ("memory", HUGE, 0, 65, 1)),
        ("cuMemRangeGetAttribute", ("out", HUGE & ~3, 3, "memory", 64)),
        ("cuMemRangeGetAttribute", ("out", 8, 1, "memory", 64)),
        ("cuMemRangeGetAttribute", ("out", 4, 9, "memory", 64)),
        ("cudaDeviceGetByPCIBusId", ("out", "text")),
        ("cudaDeviceGetByPCIBusId", ("out", 0)),
    ],
)
def test_what_is_not_there(call, memory, name, arguments):
    """Null where something is read, written or called, sizes beyond memory, texts that mean nothing."""
    known = {"memory": memory, "out": ctypes.create_string_buffer(64), "text": ctypes.create_string_buffer(b"1:x")}
    assert call(name, *(known[a] if isinstance(a, str) else a for a in arguments)) == INVALID_VALUE

    assert call("cudaMemset", memory, 0, 64) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing says so without an access")
def test_memory_that_is_not_there(call, memory):
    """Copies and results beyond the program's own memory are refused."""
    libc, page = ctypes.CDLL(None), mmap.PAGESIZE
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, ctypes.c_size_t(2 * page), 3, 0x22, -1, ctypes.c_size_t(0))  # private, of no file
    end = address + page
    assert libc.munmap(ctypes.c_void_p(end), ctypes.c_size_t(page)) == 0
    assert call("cudaMemcpy", end - 16, memory, 16, 4) == 0
    assert call("cudaMemcpy", end - 16, memory, 17, 4) == INVALID_VALUE
    assert call("cudaMemcpy", memory, end, 1, 4) == INVALID_VALUE
    assert call("cudaMalloc", end, 16) == INVALID_VALUE
    ctypes.c_uint32.from_address(end - 4).value = 7
    assert get32(end - 4) == 7
    with pytest.raises(DriverError, match="the program has no 4 bytes"):
        get32(end - 3)
    assert all_bytes_at([(end - 4, 1), (end - 8, 2)]) == [b"\7", b"\0\0"]
    for other in (end - 3, end, 8):  # two of one page, of two, and of none
        with pytest.raises(DriverError):
            all_bytes_at([(end - 4, 4), (other, 4)])
    assert libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(page)) == 0


def test_advice(call, memory):
    """There is no preferred place, and none that accesses memory."""
    words = (ctypes.c_int32 * 3)(7, 7, 7)
    assert call("cuMemRangeGetAttribute", words, 12, 3, memory, 64) == 0
    assert list(words) == [-2, -2, -2]
    assert call("cuMemRangeGetAttribute", words, 4, 1, memory, 64) == 0
    assert list(words) == [0, -2, -2]


def test_a_single_row(call, memory):
    """The pitch of a single row means nothing."""
    assert call("cuMemsetD2D8_v2", memory, HUGE, 7, 64, 1) == 0
    words = (ctypes.c_uint8 * 64)()
    assert call("cudaMemcpy2D", words, 1 << 63, memory, 1 << 62, 64, 1, 4) == 0
    assert list(words) == [7] * 64
