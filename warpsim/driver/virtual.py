"""Virtual memory management: reserved addresses, physical memory, and what is mapped where.

Physical memory is a file in memory, which may be mapped at several addresses; these are the host's own, as of pinned
memory. Neighbours that may be accessed alike are one allocation: accesses cross from one to the next.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Iterator

import attrs
import numpy as np

from warpsim.driver.memory import Kind, Memory
from warpsim.driver.results import DriverError, Result, require
from warpsim.numerics.arrays import Array
from warpsim.records import define

GRANULARITY = 2 << 20
"""Sizes and addresses are multiples of it."""
NONE, READ, READ_WRITE = 0, 1, 3
"""CUmemAccess_flags."""
_EMPTY = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
_FIXED = 0x10


def _mmap(address: int, nbytes: int, protection: int, flags: int, file: int = -1) -> int:
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    found = call(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), protection, flags, file, ctypes.c_long(0))
    require(found != ctypes.c_void_p(-1).value, f"the host has no {nbytes} bytes", Result.OUT_OF_MEMORY)
    return int(found)


@define(eq=False)
class Physical:
    """Memory without an address, on a device. ``known`` is 0xFF for each byte that was written before it was unmapped;
    ``handles`` counts how often it was given out."""

    nbytes: int
    ordinal: int
    properties: bytes
    file: int
    known: Array
    handles: int = 1

    @classmethod
    def of_file(cls, file: int, properties: bytes) -> Physical:
        """Memory of another process, by its file descriptor, which stays the caller's."""
        try:
            own = os.dup(file)
        except (OSError, OverflowError):
            raise DriverError(Result.INVALID_VALUE, f"{file} is no file descriptor") from None
        nbytes = os.fstat(own).st_size
        return cls.closing(nbytes, 0, properties, own, np.full(nbytes, 0xFF, np.uint8))

    @classmethod
    def closing(cls, nbytes: int, ordinal: int, properties: bytes, file: int, known: Array) -> Physical:
        """Memory whose file is closed when nothing uses it any more."""
        made = cls(nbytes, ordinal, properties, file, known)
        weakref.finalize(made, os.close, file)
        return made


@define(eq=False)
class Mapped:
    """Physical memory at an address, and how devices may access it."""

    address: int
    physical: Physical
    access: int = NONE

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.physical.nbytes


@define(eq=False)
class Reservation:
    """Addresses, what is mapped there by address, and the allocations that devices see."""

    address: int
    nbytes: int
    mapped: dict[int, Mapped] = attrs.field(factory=dict)
    seen: list[int] = attrs.field(factory=list)

    def within(self, address: int, nbytes: int) -> list[Mapped]:
        """The mappings that have bytes in a range, in order."""
        return [m for _, m in sorted(self.mapped.items()) if m.address < address + nbytes and address < m.end]

    def runs(self) -> Iterator[list[Mapped]]:
        """Neighbours that may be accessed alike."""
        run: list[Mapped] = []
        for _, one in sorted(self.mapped.items()):
            if run and (run[-1].end != one.address or run[-1].access != one.access):
                yield run
                run = []
            run = [*run, one] if one.access else []
        if run:
            yield run


class Virtual:
    """What a driver has reserved and mapped."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.reserved: dict[int, Reservation] = {}

    def reserve(self, nbytes: int, alignment: int = 0) -> int:
        """Reserve addresses."""
        _whole(nbytes)
        require(alignment & (alignment - 1) == 0, f"an alignment of {alignment} is no power of two")
        align = max(alignment, GRANULARITY)
        address = -(-_mmap(0, nbytes + align, 0, _EMPTY) // align) * align
        self.reserved[address] = Reservation(address, nbytes)
        self.memory.reserved[address] = address + nbytes
        return address

    def unreserve(self, address: int, nbytes: int) -> None:
        """Give addresses back."""
        found = self.reserved.get(address)
        require(found and found.nbytes == nbytes, f"{nbytes} bytes at 0x{address:x} are no reservation")
        require(not self.reserved[address].mapped, f"memory is mapped behind 0x{address:x}")
        del self.reserved[address], self.memory.reserved[address]
        ctypes.CDLL(None).munmap(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))

    def create(self, nbytes: int, ordinal: int, properties: bytes) -> Physical:
        """Make physical memory, which is undefined."""
        _whole(nbytes)
        file = os.memfd_create("warpsim")
        try:
            os.ftruncate(file, nbytes)
        except OSError:
            os.close(file)
            raise DriverError(Result.OUT_OF_MEMORY, f"the host has no {nbytes} bytes") from None
        return Physical.closing(nbytes, ordinal, properties, file, np.zeros(nbytes, np.uint8))

    def map(self, address: int, nbytes: int, physical: Physical, offset: int = 0) -> None:
        """Map physical memory; nobody may access it yet."""
        _whole(nbytes, address)
        place = self._around(address, nbytes)
        part = offset or nbytes != physical.nbytes
        require(not part, f"{nbytes} of {physical.nbytes} bytes would be mapped", Result.NOT_SUPPORTED)
        require(not place.within(address, nbytes), f"memory is mapped at 0x{address:x}")
        _mmap(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _FIXED, physical.file)
        place.mapped[address] = Mapped(address, physical)

    def unmap(self, address: int, nbytes: int) -> None:
        """Take whole mappings away; none may be there."""
        _whole(nbytes, address)
        place = self._around(address, nbytes)
        here = place.within(address, nbytes)
        whole = all(address <= m.address and m.end <= address + nbytes for m in here)
        require(whole, f"{nbytes} bytes at 0x{address:x} hold parts of mappings")
        self._hide(place)
        for one in here:
            del place.mapped[one.address]
        self._show(place)
        _mmap(address, nbytes, 0, _EMPTY | _FIXED)

    def allow(self, address: int, nbytes: int, access: int) -> None:
        """Let devices access whole mappings, or not."""
        require(access in (NONE, READ, READ_WRITE), f"access {access}")
        place, here = self._exactly(address, nbytes)
        self._hide(place)
        for one in here:
            one.access = access
        self._show(place)

    def at(self, address: int) -> Mapped:
        """What is mapped at an address."""
        found = self._around(address, 1).within(address, 1)
        require(found, f"nothing is mapped at 0x{address:x}")
        return found[0]

    def _around(self, address: int, nbytes: int) -> Reservation:
        for found in self.reserved.values():
            if found.address <= address and address + nbytes <= found.address + found.nbytes:
                return found
        raise DriverError(Result.INVALID_VALUE, f"{nbytes} bytes at 0x{address:x} are not reserved")

    def _exactly(self, address: int, nbytes: int) -> tuple[Reservation, list[Mapped]]:
        """The mappings that fill a range."""
        place = self._around(address, nbytes)
        here = place.within(address, nbytes)
        filled = here and here[0].address == address and sum(m.physical.nbytes for m in here) == nbytes
        require(filled, f"{nbytes} bytes at 0x{address:x} are no whole mappings")
        return place, here

    def _hide(self, place: Reservation) -> None:
        """Take away what devices see of a reservation, before it changes; what is undefined stays so."""
        for start in place.seen:
            known = self.memory.known(start)
            for one in place.within(start, len(known)):
                one.physical.known = known[one.address - start :][: one.physical.nbytes]
            self.memory.free(start, Kind.MAPPED)
        place.seen = []

    def _show(self, place: Reservation) -> None:
        """Make the allocations that devices see of a reservation."""
        for run in place.runs():
            first, ordinal = run[0].address, run[0].physical.ordinal
            read_only = run[0].access == READ
            self.memory.register(first, run[-1].end - first, Kind.MAPPED, ordinal, read_only=read_only)
            self.memory.set_known(first, np.concatenate([one.physical.known for one in run]))
            place.seen.append(first)


def _whole(*numbers: int) -> None:
    """Check that sizes and addresses are whole units."""
    require(numbers[0], "0 bytes")
    for number in numbers:
        require(number % GRANULARITY == 0, f"0x{number:x} is no multiple of 0x{GRANULARITY:x}")
