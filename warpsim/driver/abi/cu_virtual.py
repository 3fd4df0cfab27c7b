"""libcuda: virtual memory management."""

from __future__ import annotations

import os
import struct

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.raw import bytes_at, put32, put64
from warpsim.driver.results import Result, require
from warpsim.driver.virtual import GRANULARITY, NONE, Physical

PROPERTIES = struct.Struct("<IIII16x")
"""CUmemAllocationProp: type, handle types, the location's type and device."""
ACCESS = struct.Struct("<III")
"""CUmemAccessDesc: the location's type and device, flags."""
PINNED, ON_DEVICE, FILE = 1, 1, 1


def _properties(given: int) -> bytes:
    """Properties that can be had."""
    found = bytes_at(given, PROPERTIES.size)
    kind, shared, where, device = PROPERTIES.unpack(found)
    require(kind == PINNED and where == ON_DEVICE, f"memory of type {kind} at a location of type {where}")
    require(device < len(PROCESS.driver.devices), f"device {device}", Result.INVALID_DEVICE)
    require(shared in (0, FILE), f"handles of type {shared}", Result.NOT_SUPPORTED)
    return found


@call("8OU", "cuMemGetAllocationGranularity")
def granularity(given: int, option: int) -> int:
    _properties(given)
    require(option <= 1, f"option {option}")
    return GRANULARITY


@call("8PPPP", "cuMemAddressReserve")
def reserve(nbytes: int, alignment: int, near: int, flags: int) -> int:
    """Reserve addresses; where they are wished to be is a hint."""
    require(not flags, f"flags {flags}")
    return PROCESS.driver.virtual.reserve(nbytes, alignment)


call("PP", "cuMemAddressFree")(lambda address, nbytes: PROCESS.driver.virtual.unreserve(address, nbytes))


@call("8POP", "cuMemCreate")
def create(nbytes: int, given: int, flags: int) -> int:
    require(not flags, f"flags {flags}")
    found = _properties(given)
    return PROCESS.handles.put(PROCESS.driver.virtual.create(nbytes, PROPERTIES.unpack(found)[3], found))


@call("OvUP", "cuMemExportToShareableHandle")
def export(out: int, physical: Physical, kind: int, flags: int) -> None:
    """Give a file descriptor, by which another process imports the memory."""
    require(kind == FILE and not flags, f"handles of type {kind}")
    require(PROPERTIES.unpack(physical.properties)[1] == FILE, "the memory was made for this process alone")
    put32(out, os.dup(physical.file))


@call("8PU", "cuMemImportFromShareableHandle")
def import_memory(given: int, kind: int) -> int:
    """Take memory by its file descriptor; all of it counts as written."""
    require(kind == FILE, f"handles of type {kind}")
    return PROCESS.handles.put(Physical.of_file(given, PROPERTIES.pack(PINNED, FILE, ON_DEVICE, 0)))


@call("v", "cuMemRelease")
def release(physical: Physical) -> None:
    """Give a handle back; mappings keep the memory."""
    physical.handles -= 1
    if not physical.handles:
        PROCESS.handles.end(physical)


@call("PPPvP", "cuMemMap")
def map_memory(address: int, nbytes: int, offset: int, physical: Physical, flags: int) -> None:
    require(not flags, f"flags {flags}")
    PROCESS.driver.virtual.map(address, nbytes, physical, offset)


call("PP", "cuMemUnmap")(lambda address, nbytes: PROCESS.driver.virtual.unmap(address, nbytes))


@call("PPOP", "cuMemSetAccess")
def set_access(address: int, nbytes: int, given: int, count: int) -> None:
    """Let devices access mappings. There is one memory for all devices: the widest access counts."""
    require(count, "no descriptors")
    found = [ACCESS.unpack(bytes_at(given + ACCESS.size * i, ACCESS.size)) for i in range(count)]
    for where, device, _ in found:
        require(where == ON_DEVICE, f"a location of type {where}")
        require(device < len(PROCESS.driver.devices), f"device {device}")
    PROCESS.driver.virtual.allow(address, nbytes, max(access for _, _, access in found))


@call("OOP", "cuMemGetAccess")
def get_access(out: int, location: int, address: int) -> None:
    put64(out, NONE)
    put64(out, PROCESS.driver.virtual.at(address).access)


@call("8P", "cuMemRetainAllocationHandle")
def handle_of(address: int) -> int:
    """A handle of the memory that is mapped at an address."""
    physical = PROCESS.driver.virtual.at(address).physical
    physical.handles += 1
    return PROCESS.handles.put(physical)


call("Bv", "cuMemGetAllocationPropertiesFromHandle")(lambda physical: physical.properties)
