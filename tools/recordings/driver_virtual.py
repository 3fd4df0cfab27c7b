"""Asks a driver for virtual memory management: `python driver_virtual.py` prints its codes and what is in memory.

``tests/driver/virtual_h200.txt`` is what an H200 with driver 580 (CUDA 13.0) said.
"""

import ctypes
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint64, c_void_p

MIB2 = 2 << 20
driver = ctypes.CDLL("libcuda.so.1")


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c_int),
        ("handles", c_int),
        ("location", Location),
        ("meta", c_void_p),
        ("flags", c_ubyte * 8),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", c_int))


HERE = Properties(1, 0, Location(1, 0))


def reserve(nbytes, alignment=0, flags=0):
    """The code and the address of a reservation."""
    out = c_uint64()
    code = driver.cuMemAddressReserve(byref(out), c_size_t(nbytes), c_size_t(alignment), c_uint64(0), c_uint64(flags))
    return code, out.value


def create(nbytes, properties=HERE, flags=0):
    """The code and the handle of physical memory."""
    out = c_uint64()
    return driver.cuMemCreate(byref(out), c_size_t(nbytes), byref(properties), c_uint64(flags)), out.value


def map_(address, nbytes, handle, offset=0, flags=0):
    """The code of a mapping."""
    return driver.cuMemMap(c_uint64(address), c_size_t(nbytes), c_size_t(offset), c_uint64(handle), c_uint64(flags))


def unmap(address, nbytes):
    """The code of an unmapping."""
    return driver.cuMemUnmap(c_uint64(address), c_size_t(nbytes))


def allow(address, nbytes, flags=3, device=0, count=1, where=1):
    """The code of an access that is allowed."""
    given = Access(Location(where, device), flags)
    return driver.cuMemSetAccess(c_uint64(address), c_size_t(nbytes), byref(given), c_size_t(count))


def allowed(address):
    """The code and the flags of an access."""
    out, location = c_uint64(9), Location(1, 0)
    return driver.cuMemGetAccess(byref(out), byref(location), c_uint64(address)), out.value


def read(address, nbytes):
    """The code and the bytes of a copy to the host."""
    out = (c_ubyte * nbytes)()
    return driver.cuMemcpyDtoH_v2(out, c_uint64(address), c_size_t(nbytes)), list(out)


def fill(address, value, nbytes):
    """The code of a fill."""
    return driver.cuMemsetD8_v2(c_uint64(address), c_ubyte(value), c_size_t(nbytes))


def free(address, nbytes):
    """The code of a reservation that is given back."""
    return driver.cuMemAddressFree(c_uint64(address), c_size_t(nbytes))


def main():
    """Print each step."""
    driver.cuInit(0)
    context, number, size = c_void_p(), c_int(), c_size_t()
    driver.cuDevicePrimaryCtxRetain(byref(context), 0)
    driver.cuCtxSetCurrent(context)
    driver.cuDeviceGetAttribute(byref(number), 102, 0)
    print("attribute", number.value)
    for option in (0, 1, 2):
        size.value = 7
        print("granularity", driver.cuMemGetAllocationGranularity(byref(size), byref(HERE), option), size.value)
    for given in ((MIB2, 0), (MIB2 + 1, 0), (4096, 0), (0, 0), (MIB2, 3), (MIB2, 4096), (MIB2, 4 * MIB2), (MIB2, 0, 1)):
        code, address = reserve(*given)
        print("reserve", given, code, address % max(given[1], MIB2))
    print("create", [create(nbytes)[0] for nbytes in (0, 1, 4096, MIB2 + 4096)], create(MIB2, flags=1)[0])
    print(
        "create", [create(MIB2, Properties(t, 0, Location(w, d)))[0] for t, w, d in ((0, 1, 0), (1, 0, 0), (1, 1, 9))]
    )
    at = reserve(8 * MIB2)[1]
    (one, first), (two, second) = create(MIB2), create(2 * MIB2)
    found = Properties()
    code = driver.cuMemGetAllocationPropertiesFromHandle(byref(found), c_uint64(second))
    print("properties", one, two, code, found.type, found.handles, found.location.type, found.location.id)
    print("map", map_(at, MIB2, second), map_(at + 4096, MIB2, first), map_(at, MIB2, first, 4096))
    print(
        "map",
        map_(at, MIB2, first, MIB2),
        map_(at, MIB2, first, 0, 1),
        map_(at, 0, first),
        map_(at + 8 * MIB2, MIB2, first),
    )
    print(
        "map",
        map_(at, MIB2, first),
        map_(at + MIB2, 2 * MIB2, second),
        map_(at, MIB2, first),
        map_(at + 2 * MIB2, MIB2, first),
    )
    print("no access", allowed(at), fill(at, 1, 16))
    print("allow", allow(at, MIB2, 2), allow(at, MIB2, 5), allow(at, MIB2, 3, 9), allow(at, MIB2, 3, 0, 0))
    print("allow", allow(at, MIB2, 3, 0, 1, 0), allow(at + 3 * MIB2, MIB2), allow(at, 2 * MIB2), allow(at + 4096, MIB2))
    print("allow", allow(at, 3 * MIB2), [allowed(at + n) for n in (0, MIB2 + 5, 3 * MIB2)])
    print("across", fill(at + MIB2 - 8, 7, 16), read(at + MIB2 - 8, 16))
    alias = reserve(MIB2)[1]
    print("alias", map_(alias, MIB2, first), allow(alias, MIB2), read(alias + MIB2 - 8, 8))
    kind, again = ctypes.c_uint(), c_uint64()
    print(
        "type",
        driver.cuPointerGetAttribute(byref(kind), 2, c_uint64(at)),
        kind.value,
        driver.cuMemFree_v2(c_uint64(at)),
    )
    print("retain", driver.cuMemRetainAllocationHandle(byref(again), c_void_p(at + MIB2)), again.value == second)
    print("retain", driver.cuMemRetainAllocationHandle(byref(again), c_void_p(at + 5 * MIB2)))
    print("release", driver.cuMemRelease(c_uint64(second)), driver.cuMemRelease(c_uint64(second)), read(at + MIB2, 8))
    print("free", free(at, 8 * MIB2), free(at, 4 * MIB2))
    print("unmap", unmap(at + MIB2, MIB2), unmap(at + 4096, MIB2), unmap(at + 5 * MIB2, MIB2), unmap(at, 0))
    print("unmap", unmap(at, 3 * MIB2), unmap(at, MIB2), read(alias + MIB2 - 8, 8))
    print("map", map_(at + 4 * MIB2, MIB2, first), allow(at + 4 * MIB2, MIB2), read(at + 5 * MIB2 - 8, 8))
    print("allow", [(allow(at + 4 * MIB2, MIB2, n), allowed(at + 4 * MIB2)) for n in (1, 0)])
    print("end", unmap(at + 4 * MIB2, MIB2), unmap(alias, MIB2), driver.cuMemRelease(c_uint64(first)))
    print("end", free(at, 8 * MIB2), free(at, 8 * MIB2), free(alias, MIB2))


main()
