"""Copies, sets, pointers and pools by their C names, with the structures of cuda.h."""

import ctypes
import struct

import pytest

from driver_calls import INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, box, row, string


def test_copies_in_graphs(ask, words):
    """Nodes that copy a box, or bytes; another copy in a graph that is ready."""
    address, read = words
    given = (ctypes.c_uint32 * 4)(1, 2, 3, 4)
    other = (ctypes.c_uint32 * 4)(5, 6, 7, 8)
    graph = ask("cuGraphCreate", ..., 0)
    node = ask("cuGraphAddMemcpyNode", ..., graph, 0, 0, box(ctypes.addressof(given), address, 8, 2), 0)
    assert ask("cuGraphNodeGetType", node, ...) == 1
    ask("cudaGraphAddMemcpyNode1D", ..., graph, row(node), 1, address + 32, address, 8, 4)
    parameters = struct.pack("<16Q", 0, 0, 0, 0, ctypes.addressof(given), 12, 8, 1, 0, 0, 0, 0, address + 48, 12, 8, 1)
    parameters = string(parameters + struct.pack("<QQQI", 12, 1, 1, 1))
    ask("cudaGraphAddMemcpyNode", ..., graph, 0, 0, parameters)
    result = ctypes.create_string_buffer(bytes(16) + b"\xff" * 12)
    ready = ask("cuGraphInstantiateWithParams", ..., graph, result)
    assert result.raw[24:28] == bytes(4)
    ask("cudaGraphUpload", ready, 0)
    ask("cuGraphLaunch", ready, 0)
    assert read() == [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 0, 0, 1, 2, 3, 0]
    ask("cuGraphExecMemcpyNodeSetParams", ready, node, box(ctypes.addressof(other), address, 4, 2), 0)
    ask("cuGraphLaunch", ready, 0)
    assert read() == [5, 2, 7, 4, 0, 0, 0, 0, 5, 2, 0, 0, 1, 2, 3, 0]
    for kinds, array in (((3, 2), 0), ((1, 3), 0)):
        given_box = box(ctypes.addressof(given), address, 8, kinds=kinds, array=array)
        ask("cuMemcpy3D_v2", given_box, status=INVALID_VALUE)
    empty = ask("cuGraphAddEmptyNode", ..., graph, 0, 0)
    ask(
        "cuGraphExecMemcpyNodeSetParams",
        ready,
        empty,
        box(ctypes.addressof(other), address, 4),
        0,
        status=INVALID_VALUE,
    )


def test_copies_of_rows(ask, words):
    """CUDA_MEMCPY2D: arrays are refused; one row needs no pitch."""
    address, read = words
    given = (ctypes.c_uint32 * 4)(1, 2, 3, 4)

    def rows(kind, array, pitch, width, height):
        side = struct.pack("<QQI4xQQQQ", 4, 0, kind, ctypes.addressof(given), 0, array, pitch)
        return string(
            side + struct.pack("<QQI4xQQQQ", 0, 0, 2, 0, address, 0, pitch) + struct.pack("<QQ", width, height)
        )

    ask("cuMemcpy2D_v2", rows(1, 0, 0, 8, 1))
    assert read()[:4] == [2, 3, 0, 0]
    ask("cuMemcpy2D_v2", rows(1, 0, 8, 4, 2))
    assert read()[:4] == [2, 3, 4, 0]
    ask("cuMemcpy2DUnaligned_v2", rows(1, 0, 4, 8, 2), status=INVALID_VALUE)
    for kind, array in ((3, 0), (3, 5)):
        ask("cuMemcpy2D_v2", rows(kind, array, 8, 4, 1), status=INVALID_VALUE)


def test_copies_between_contexts(ask, words):
    """Peers share one memory."""
    address, read = words
    ask("cuMemsetD32_v2", address, 9, 2)
    ask("cuMemcpyPeer", address + 8, 0, address, 0, 8)
    ask("cuMemcpyPeerAsync", address + 32, 0, address, 0, 4, 0)
    assert read()[:9] == [9, 9, 9, 9, 0, 0, 0, 0, 9]


@pytest.mark.parametrize(
    ("unit", "pitch", "value", "width", "height", "expected"),
    [
        (8, 16, 0x1FF, 3, 2, {0: 0xFFFFFF, 4: 0xFFFFFF}),
        (16, 16, 0x12345, 3, 1, {0: 0x23452345, 1: 0x2345}),
        (32, 32, 7, 2, 2, {0: 7, 1: 7, 8: 7, 9: 7}),
        (32, 4, 7, 2, 1, {0: 7, 1: 7}),
        (32, 16, 7, 0, 2, {}),
        (32, 16, 7, 2, 0, {}),
    ],
)
def test_sets_of_rows(ask, words, unit, pitch, value, width, height, expected):
    """Elements of 8, 16 and 32 bits in rows; bytes between the rows stay."""
    address, read = words
    ask(f"cuMemsetD2D{unit}_v2", address, pitch, value, width, height)
    assert {at: word for at, word in enumerate(read()) if word} == expected


@pytest.mark.parametrize(
    ("name", "offset", "given"),
    [
        ("cuMemsetD2D32_v2", 0, (4, 1, 2, 2)),
        ("cuMemsetD2D32_v2", 0, (10, 1, 2, 2)),
        ("cuMemsetD2D32_v2", 0, (32, 1, 9, 2)),
        ("cuMemsetD2D32_v2", 0, (32, 1, 1, 3)),
        ("cuMemsetD32_v2", 2, (1, 1)),
        ("cuMemsetD16_v2", 1, (1, 1)),
        ("cuMemsetD32_v2", 0, (1, 17)),
        ("cuMemsetD32_v2", 64, (1, 1)),
    ],
)
def test_sets_that_are_refused(ask, words, name, offset, given):
    """Pitches less than a row, addresses that are no multiples, ends beyond the allocation."""
    address, read = words
    ask(name, address + offset, *given, status=INVALID_VALUE)
    assert not any(read())


def test_memory_of_the_host(ask):
    """Only what the driver knows can be set; registered memory is given back once."""
    mine = (ctypes.c_uint32 * 4096)()
    where = ctypes.addressof(mine)
    ask("cuMemsetD32_v2", where, 1, 1, status=INVALID_VALUE)
    ask("cuMemHostRegister_v2", where, ctypes.sizeof(mine), 0)
    ask("cuMemHostRegister_v2", where, 16, 0, status=712)
    ask("cuMemsetD32_v2", where, 1, 2)
    assert list(mine[:3]) == [1, 1, 0]
    assert ask("cuMemHostGetDevicePointer_v2", ..., where + 8, 0) == where + 8
    assert ask("cuMemHostGetFlags", ..., where) == 3
    ask("cuMemHostUnregister", where)
    ask("cuMemHostUnregister", where, status=713)
    assert ask("cuMemAllocHost_v2", ..., 0) == 0
    pinned = ask("cuMemHostAlloc", ..., 8, 0)
    ask("cuMemFreeHost", pinned)
    ask("cuMemFreeHost", pinned, status=INVALID_VALUE)
    ask("cuMemHostAlloc", ..., 8, 7)  # portable, mapped and write-combined
    ask("cuMemHostAlloc", ..., 8, 8, status=INVALID_VALUE)


def test_read_only_memory(ask, functions):
    """CU_MEMHOSTREGISTER_READ_ONLY: a kernel that writes there ends with an illegal address."""
    mine = (ctypes.c_uint32 * 4096)()
    where = ctypes.addressof(mine)
    ask("cuMemHostRegister_v2", where, ctypes.sizeof(mine), 8)
    values = ctypes.c_uint64(where), ctypes.c_uint32(5)
    ask("cuLaunchKernel", functions[1]["put"], 1, 1, 1, 1, 1, 1, 0, 0, row(*map(ctypes.addressof, values)), 0)
    ask("cuCtxSynchronize", status=700)
    assert mine[0] == 0


def test_pointer_attributes(ask, words):
    """Of device memory, and of memory that is none of the driver's."""
    address, _ = words
    for number, expected in (
        (2, 2), (3, address + 5), (4, 0), (6, 1), (8, 0), (9, 0), (10, 0), (11, address), (12, 64), (13, 1), (14, 0), (15, 0), (17, 0),
        (18, 0), (19, 0), (20, 0), (16, 0), (1, ask("cuDevicePrimaryCtxRetain", ..., 0)),
    ):  # fmt: skip
        assert ask("cuPointerGetAttribute", ..., number, address + 5) == expected, number
    ask("cuPointerGetAttribute", ..., 5, address, status=INVALID_VALUE)
    ask("cuPointerGetAttribute", ..., 21, address, status=INVALID_VALUE)
    other = ask("cuMemAlloc_v2", ..., 8)
    assert ask("cuPointerGetAttribute", ..., 7, address) != ask("cuPointerGetAttribute", ..., 7, other)
    numbers = (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 16)
    wide = (1, 3, 4, 7, 11, 12, 16)
    cells = [ctypes.c_uint64(0x5555555555555555) for _ in numbers]
    asked = (ctypes.c_uint32 * len(numbers))(*numbers)
    ask("cuPointerGetAttributes", len(numbers), asked, row(*map(ctypes.addressof, cells)), 64)
    for number, cell in zip(numbers, cells, strict=True):
        low = 0xFFFFFFFE if number == 9 else 0
        assert cell.value == (0 if number in wide else 0x55555555 << 32 | low), number


def test_pools(ask):
    """Pools give memory of the device; their attributes are kept."""
    pool = ask("cuMemPoolCreate", ..., 64)
    assert ask("cuDeviceGetDefaultMemPool", ..., 0) == ask("cudaDeviceGetMemPool", ..., 0) != pool
    assert [ask("cuMemPoolGetAttribute", pool, n, ...) for n in (1, 2, 3, 4)] == [1, 1, 1, 0]
    ask("cuMemPoolSetAttribute", pool, 4, ctypes.c_uint64(1 << 33))
    ask("cuMemPoolSetAttribute", pool, 3, ctypes.c_uint64(0))
    assert [ask("cuMemPoolGetAttribute", pool, n, ...) for n in (1, 2, 3, 4)] == [1, 1, 0, 1 << 33]
    before = ask("cuMemPoolGetAttribute", pool, 7, ...)
    address = ask("cuMemAllocFromPoolAsync", ..., 4096, pool, 0)
    assert ask("cuMemPoolGetAttribute", pool, 7, ...) == before + 4096
    ask("cuMemFreeAsync", address, 0)
    assert ask("cuMemPoolGetAttribute", pool, 7, ...) == before
    ask("cuMemPoolDestroy", pool)
    ask("cuMemPoolGetAttribute", pool, 1, ..., status=INVALID_VALUE)


@pytest.mark.parametrize(
    ("wide", "stored", "value", "flags", "met"),
    [
        (False, 5, 5, 0, True),
        (False, 5, 6, 0, False),
        (False, 6, 5, 0, True),
        (False, 1, 0xFFFFFFFF, 0, True),  # a cyclic comparison
        (False, 0xFFFFFFFF, 1, 0, False),
        (False, 5, 5, 1, True),
        (False, 6, 5, 1, False),
        (False, 4, 6, 2, True),
        (False, 4, 3, 2, False),
        (False, 0xFFFFFFF0, 0xF, 3, False),
        (False, 0xFFFFFFF0, 0xE, 3, True),
        (True, 1 << 40, 1 << 40, 1, True),
        (True, 1 << 40, 0, 1, False),
        (True, 1 << 40, 1 << 39, 0, True),
        (True, 1 << 40, 1 << 41, 0, False),
        (True, 1 << 40, 1 << 40, 2, True),
        (True, 1 << 40, 1 << 39, 2, False),
        (True, (1 << 64) - 1, 0, 3, False),
        (True, (1 << 63) - 1, 0, 3, True),
    ],
)
def test_waiting_for_values(ask, words, wide, stored, value, flags, met):
    """GEQ (cyclic), EQ, AND and NOR of 32 and of 64 bits; what is not there yet is refused."""
    address, _ = words
    bits = 64 if wide else 32
    ask(f"cuStreamWriteValue{bits}_v2", 0, address, stored, 0)
    ask(f"cuStreamWaitValue{bits}_v2", 0, address, value, flags, status=0 if met else NOT_SUPPORTED)


def test_copies_of_planes(ask, words):
    """cudaMemcpy3DParms: positions of either side count bytes, rows of a pitch, and planes of so many rows."""
    address, read = words
    given = (ctypes.c_uint8 * 96)(*range(96))
    for source, target in (((1, 2, 1), (0, 0, 0)), ((0, 0, 0), (3, 0, 1)), ((5, 1, 0), (1, 1, 0))):
        ask("cuMemsetD32_v2", address, 0, 16)
        words_of = struct.pack("<8Q", 0, *source, ctypes.addressof(given), 8, 8, 4)
        words_of += struct.pack("<8Q", 0, *target, address, 8, 8, 3) + struct.pack("<QQQI", 2, 2, 2, 1)
        ask("cudaMemcpy3D", string(words_of))
        found = b"".join(word.to_bytes(4, "little") for word in read())
        for plane, line, byte in ((p, r, b) for p in range(2) for r in range(2) for b in range(2)):
            at = (target[2] + plane) * 24 + (target[1] + line) * 8 + target[0] + byte
            if at < 64:
                assert found[at] == (source[2] + plane) * 32 + (source[1] + line) * 8 + source[0] + byte


def test_copies_of_boxes_by_the_driver(ask, words):
    """CUDA_MEMCPY3D and CUDA_MEMCPY2D: the same, from either side."""
    address, read = words
    given = (ctypes.c_uint8 * 96)(*range(96))
    side = "<QQQQI4xQQQQQQ"
    made = struct.pack(side, 1, 2, 1, 0, 1, ctypes.addressof(given), 0, 0, 0, 8, 4)
    made += struct.pack(side, 2, 1, 1, 0, 2, 0, address, 0, 0, 8, 3) + struct.pack("<QQQ", 2, 2, 1)
    ask("cuMemcpy3D_v2", string(made))
    found = b"".join(word.to_bytes(4, "little") for word in read())
    assert {at: byte for at, byte in enumerate(found) if byte} == {34: 49, 35: 50, 42: 57, 43: 58}
    ask("cuMemsetD32_v2", address, 0, 16)
    side = "<QQI4xQQQQ"
    made = struct.pack(side, 3, 2, 1, ctypes.addressof(given), 0, 0, 8) + struct.pack(side, 1, 1, 2, 0, address, 0, 16)
    ask("cuMemcpy2D_v2", string(made + struct.pack("<QQ", 2, 2)))
    found = b"".join(word.to_bytes(4, "little") for word in read())
    assert {at: byte for at, byte in enumerate(found) if byte} == {17: 19, 18: 20, 33: 27, 34: 28}


@pytest.mark.parametrize(
    ("pitch", "rows", "width", "height", "depth", "good"),
    [
        (8, 2, 8, 2, 2, True), (8, 2, 4, 2, 2, True), (8, 2, 9, 2, 1, False), (8, 1, 9, 1, 1, True), (8, 1, 4, 2, 2, False),
        (8, 1, 8, 1, 2, True), (8, 1, 9, 1, 2, False), (8, 1, 4, 2, 1, True),
    ],
)  # fmt: skip
def test_pitches(ask, words, pitch, rows, width, height, depth, good):
    """Rows do not reach into the next one, planes do not, where there are several."""
    address, read = words
    given = (ctypes.c_uint8 * 256)(*[255] * 256)
    made = struct.pack("<8Q", 0, 0, 0, 0, ctypes.addressof(given), 16, 16, 4)
    made += struct.pack("<8Q", 0, 0, 0, 0, address, pitch, pitch, rows) + struct.pack("<QQQI", width, height, depth, 1)
    ask("cudaMemcpy3D", string(made), status=0 if good else INVALID_VALUE)
    found = b"".join(word.to_bytes(4, "little") for word in read())
    assert found.count(255) == (width * height * depth if good else 0)


def test_memory_that_overlaps_registered_memory(ask):
    """It is registered already, in part; what is larger than any memory is refused."""
    mine = (ctypes.c_uint8 * (1 << 15))()
    page = -(-ctypes.addressof(mine) // 4096) * 4096
    ask("cuMemHostRegister_v2", page + 4096, 4096, 0)
    for start, nbytes in ((page, 8192), (page + 4096, 16), (page + 5000, 16), (page + 8191, 4096)):
        ask("cuMemHostRegister_v2", start, nbytes, 0, status=712)
    ask("cuMemHostRegister_v2", page + 8192, 4096, 0)
    ask("cuMemHostRegister_v2", page, 4096, 0)
    ask("cuMemHostRegister_v2", page + (1 << 20), (1 << 44) + 1, 0, status=OUT_OF_MEMORY)


def test_copies_past_an_end(ask, words):
    """The last byte may be copied, the next may not, from either side; memory between allocations is none."""
    address, _ = words
    given = (ctypes.c_uint8 * 128)()
    for target, source, nbytes, status in (
        (address, given, 64, 0), (address, given, 65, 1), (address + 63, given, 1, 0), (address + 64, given, 1, 1),
        (given, address, 65, 1), (given, address + 60, 8, 1), (given, address - 1, 1, 1), (given, address, 0, 0),
    ):  # fmt: skip
        ask("cuMemcpy", target, source, nbytes, status=status)
