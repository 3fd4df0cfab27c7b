"""Virtual memory management: what an H200 says, and what kernels may read."""

import ctypes
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from warpsim.driver.library import compiler
from warpsim.driver.memory import Memory
from warpsim.driver.results import DriverError
from warpsim.driver.virtual import GRANULARITY, READ, READ_WRITE, Virtual
from warpsim.errors import LaunchError
from warpsim.host.device import Device

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "tools" / "recordings" / "driver_virtual.py"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the libraries are for Linux")


def test_as_recorded():
    """Each step of `driver_virtual.py` gives the codes and bytes of an H200."""
    try:
        compiler()
    except LaunchError:
        pytest.skip("there is no C compiler")
    command = [sys.executable, "-m", "warpsim", "exec", "--", sys.executable, str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.stdout == (HERE / "virtual_h200.txt").read_text()


def test_what_is_undefined():
    """Bytes stay undefined until they are written, however their memory is mapped anew; neighbours are one allocation."""
    memory = Memory(Device())
    virtual = Virtual(memory)
    at = virtual.reserve(3 * GRANULARITY)
    parts = [virtual.create(GRANULARITY, 0, b"") for _ in range(2)]
    for number, part in enumerate(parts):
        virtual.map(at + number * GRANULARITY, GRANULARITY, part)
        virtual.allow(at + number * GRANULARITY, GRANULARITY, READ_WRITE)
    memory.fill(at + GRANULARITY - 4, 7, 1, 8)

    assert memory.extent(at) == (at, 2 * GRANULARITY)
    known = memory.known(at)
    np.testing.assert_array_equal(np.flatnonzero(known), GRANULARITY - 4 + np.arange(8))
    virtual.unmap(at, GRANULARITY)
    np.testing.assert_array_equal(np.flatnonzero(memory.known(at + GRANULARITY)), np.arange(4))
    with pytest.raises(DriverError, match="not in any"):
        memory.bytes_at(at, 4)
    virtual.map(at + 2 * GRANULARITY, GRANULARITY, parts[0])
    virtual.allow(at + 2 * GRANULARITY, GRANULARITY, READ)
    np.testing.assert_array_equal(np.flatnonzero(memory.known(at + 2 * GRANULARITY)), GRANULARITY - 4 + np.arange(4))
    assert memory.bytes_at(at + 3 * GRANULARITY - 4, 4).tolist() == [7] * 4
    assert memory.space.at(at + 2 * GRANULARITY).read_only


def test_memory_of_another_process(call):
    """A file descriptor gives another process the memory; what it stores is seen here."""
    assert call("cudaFree", 0) == 0
    shared = ctypes.create_string_buffer(struct.pack("<IIII16x", 1, 1, 1, 0))
    handle, other, place, file = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint32()
    assert call("cuMemCreate", handle, GRANULARITY, shared, 0) == 0
    assert call("cuMemExportToShareableHandle", file, handle.value, 1, 0) == 0
    assert call("cuMemImportFromShareableHandle", other, 9999, 1) == 1
    assert call("cuMemImportFromShareableHandle", other, file.value, 1) == 0
    assert call("cuMemAddressReserve", place, GRANULARITY, 0, 0, 0) == 0
    assert call("cuMemMap", place.value, GRANULARITY, 0, other.value, 0) == 0
    access = ctypes.create_string_buffer(struct.pack("<III", 1, 0, 3))
    assert call("cuMemSetAccess", place.value, GRANULARITY, access, 1) == 0
    os.pwrite(file.value, b"stored", 5)
    found = ctypes.create_string_buffer(6)
    assert call("cuMemcpyDtoH_v2", found, place.value + 5, 6) == 0
    assert found.raw == b"stored"
    os.close(file.value)


def test_contexts_own_no_mappings():
    """The end of a context frees its allocations; what is mapped stays, as it belongs to none."""
    memory = Memory(Device(), lambda: "context")
    virtual = Virtual(memory)
    at = virtual.reserve(GRANULARITY)
    virtual.map(at, GRANULARITY, virtual.create(GRANULARITY, 0, b""))
    virtual.allow(at, GRANULARITY, READ_WRITE)
    freed = memory.allocate(4)

    memory.reset("context")
    assert memory.extent(freed) is None
    assert memory.extent(at) == (at, GRANULARITY)
    virtual.unmap(at, GRANULARITY)
