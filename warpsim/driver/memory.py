"""Memory by address: what the driver allocates, registers, copies and fills.

Device memory has the simulator's own addresses, far enough apart that a stray access hits nothing. Pinned and managed
memory is host memory, which the device sees at the host's addresses, so that pointers stored in memory work on both
sides. An address outside all allocations is a host address.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable

import numpy as np

from warpsim.checks.written import nothing_written, told
from warpsim.driver.raw import mapped
from warpsim.driver.results import DriverError, Result, require
from warpsim.errors import ExecutionError, Finding, LaunchError
from warpsim.host.arrays import DeviceArray, Mapping, pages
from warpsim.host.device import Device
from warpsim.machine.state.global_memory import CAPACITY, CONST_ADDRESS, FIRST_ADDRESS, GUARD, Allocation
from warpsim.numerics.arrays import Array
from warpsim.records import define, frozen

SIMULATED = ((FIRST_ADDRESS - GUARD, 1 << 45), (CONST_ADDRESS - GUARD, CONST_ADDRESS + (1 << 40)))
"""Ranges of the simulator's own addresses, which contain no host memory."""


class Kind(enum.Enum):
    """The kind of an allocation."""

    DEVICE = "device"
    PINNED = "pinned"
    MANAGED = "managed"
    REGISTERED = "registered"
    MAPPED = "mapped device"

    @property
    def on_device(self) -> bool:
        """Whether the host has no address of it."""
        return self in (Kind.DEVICE, Kind.MAPPED)


@define(eq=False)
class Block:
    """An allocation. ``keeps`` keeps its memory alive; ``ordinal`` is its device; it ends with its ``owner``."""

    address: int
    nbytes: int
    kind: Kind
    ordinal: int
    keeps: DeviceArray | Mapping
    number: int
    owner: object


@frozen
class Side:
    """One side of a box copy: the address of its first byte, and the pitch of rows and planes."""

    address: int
    pitch: int = 0
    plane: int = 0

    @property
    def rows(self) -> int:
        """The rows of a plane."""
        return self.plane // self.pitch if self.pitch else 0


def _raised(finding: Finding) -> None:
    raise ExecutionError(findings=(finding,))


class Memory:
    """The address space shared by the devices of a driver and the host. ``found`` takes findings about undefined bytes that the
    host reads."""

    def __init__(
        self,
        device: Device,
        current: Callable[[], object] = lambda: None,
        found: Callable[[Finding], None] = _raised,
    ) -> None:
        self.device = device
        self._current, self._found = current, found
        self.space = device.memory
        self.blocks: dict[int, Block] = {}
        self.reserved: dict[int, int] = {}
        """Ends of reserved addresses by their beginnings: only what is mapped there may be accessed."""
        self.used = 0
        self._count = 0

    # ---- allocating ------------------------------------------------------------------------------

    def allocate(self, nbytes: int, ordinal: int = 0, at: int | None = None) -> int:
        """Allocate uninitialised device memory, at a reserved address or at a new one."""
        self._sized(nbytes)
        name = self._name(nbytes, Kind.DEVICE)
        try:
            if at is None:
                keeps: DeviceArray | Mapping = self.device.empty(nbytes, np.uint8, name=name)
            else:
                keeps = self.device.map(np.zeros(nbytes, np.uint8), at, name=name)
                nothing_written(self.space, at)
        except (LaunchError, MemoryError) as problem:
            raise DriverError(Result.OUT_OF_MEMORY, str(problem)) from None
        place = self.space.at(keeps.ptr)
        assert place is not None
        place.withheld = {}
        self._add(keeps.ptr, nbytes, Kind.DEVICE, ordinal, keeps)
        return int(keeps.ptr)

    def reserve(self, nbytes: int) -> int:
        """Reserve an address for a later allocation."""
        address = self.allocate(nbytes)
        self.free(address)
        return address

    def allocate_host(self, nbytes: int, kind: Kind = Kind.PINNED, ordinal: int = 0) -> int:
        """Allocate host memory that the device sees at the same address."""
        self._sized(nbytes, most=1 << 44)
        try:
            data = pages(nbytes)
        except (OSError, ValueError, OverflowError):
            raise DriverError(Result.OUT_OF_MEMORY, f"the host cannot allocate {nbytes} bytes") from None
        mapping = self.device.map(data, address=data.ctypes.data, name=self._name(nbytes, kind))
        self._add(mapping.ptr, nbytes, kind, ordinal, mapping)
        return mapping.ptr

    def register(
        self, address: int, nbytes: int, kind: Kind = Kind.REGISTERED, ordinal: int = 0, *, read_only: bool = False
    ) -> None:
        """Make existing host memory visible to the device."""
        self._sized(nbytes, most=1 << 44)
        if self.holding(address) is not None or self.space.overlapped_by(address, nbytes):
            raise DriverError(Result.HOST_MEMORY_ALREADY_REGISTERED)
        data = _host(address, nbytes)
        if read_only:
            data.flags.writeable = False
        mapping = self.device.map(data, address=address, name=self._name(nbytes, kind))
        self._add(address, nbytes, kind, ordinal, mapping)

    def _name(self, nbytes: int, kind: Kind) -> str:
        """What findings call the next allocation."""
        return f"allocation {self._count + 1} ({nbytes} bytes of {kind.value} memory)"

    def known(self, address: int) -> Array:
        """Which bytes of the allocation at an address are defined: 0xFF for each of them."""
        found = self.space.at(address)
        assert found is not None
        return np.full(found.data.size, 0xFF, np.uint8) if found.shadow is None else found.shadow.data

    def set_known(self, address: int, known: Array) -> None:
        """Say which bytes of the allocation at an address are defined."""
        found = self.space.at(address)
        if found is not None and not known.all():
            found.shadow = Allocation(address, known, found.name, read_only=False, anchored=False)

    def unregister(self, address: int) -> None:
        """Undo `register`."""
        block = self.blocks.get(address)
        if block is None or block.kind is not Kind.REGISTERED:
            raise DriverError(Result.HOST_MEMORY_NOT_REGISTERED)
        self._drop(block)

    def free(self, address: int, *kinds: Kind) -> None:
        """Free memory; null is allowed."""
        if not address:
            return
        block = self.blocks.get(address)
        if block is None or (kinds and block.kind not in kinds):
            raise DriverError(Result.INVALID_VALUE, f"0x{address:x} was not allocated, or was freed already")
        self._drop(block)

    def _add(self, address: int, nbytes: int, kind: Kind, ordinal: int, keeps: DeviceArray | Mapping) -> None:
        self._count += 1
        self.used += nbytes if kind is Kind.DEVICE else 0
        self.blocks[address] = Block(address, nbytes, kind, ordinal, keeps, self._count, self._current())

    def _drop(self, block: Block) -> None:
        del self.blocks[block.address]
        self.used -= block.nbytes if block.kind is Kind.DEVICE else 0
        if isinstance(block.keeps, Mapping):
            block.keeps.unmap()
        else:
            block.keeps.free()

    def reset(self, owner: object = None) -> None:
        """Free everything, or only what belongs to one owner; the host may still use its pinned memory then,
        and mappings belong to no context."""
        for block in list(self.blocks.values()):
            if owner is None or (block.owner is owner and block.kind not in (Kind.PINNED, Kind.MAPPED)):
                self._drop(block)

    @staticmethod
    def _sized(nbytes: int, most: int = CAPACITY) -> None:
        require(nbytes > 0, "cannot allocate 0 bytes")
        require(nbytes <= most, f"cannot allocate {nbytes} bytes; the GPU has {CAPACITY}", Result.OUT_OF_MEMORY)

    # ---- asking ----------------------------------------------------------------------------------

    def holding(self, address: int) -> Block | None:
        """The block that contains an address."""
        found = self.space.find(address, address + 1)
        return None if found is None else self.blocks.get(found.start)

    def extent(self, address: int) -> tuple[int, int] | None:
        """First byte and size of the device memory, including module variables, that contains an address."""
        found = self.space.find(address, address + 1)
        return None if found is None else (found.start, found.data.size)

    def bytes_at(self, address: int, nbytes: int) -> Array:
        """A view of device or host memory, for the host to read."""
        data, place = self._place(address, nbytes)
        self._tell(place, address, (nbytes,), (1,))
        return data

    def _place(self, address: int, nbytes: int) -> tuple[Array, Allocation | None]:
        if nbytes == 0:
            return np.zeros(0, np.uint8), None
        found = self.space.find(address, address + nbytes)
        if found is not None:
            return found.data[address - found.start :][:nbytes], found
        held = self.space.find(address, address + 1)
        if held is not None:
            block = self.blocks.get(held.start)
            if block is None or block.kind is not Kind.REGISTERED:  # a registered part of larger host memory is allowed
                over = address + nbytes - held.end
                raise DriverError(
                    Result.INVALID_VALUE,
                    f"{nbytes} bytes at 0x{address:x} end {over} bytes past the allocation of {held.data.size} bytes "
                    f"at 0x{held.start:x}",
                )
        if any(low <= address < high for low, high in (*SIMULATED, *self.reserved.items())):
            raise DriverError(Result.INVALID_VALUE, f"0x{address:x} is not in any device allocation")
        return _host(address, nbytes), None

    # ---- copying and setting ---------------------------------------------------------------------

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes between any two addresses; undefined bytes stay undefined."""
        with self.space.lock:
            read, origin = self._place(source, nbytes)
            written, place = self._place(target, nbytes)
            self._tell(origin, source, (nbytes,), (1,))
            written[:] = read
            if place is not None:
                bits = None if origin is None else origin.shadow
                known = None if bits is None else bits.data[source - origin.start :][:nbytes]  # type: ignore[union-attr]
                _define(place, target - place.start, (nbytes,), (1,), known)

    def copy_box(self, target: Side, source: Side, width: int, height: int, depth: int = 1) -> None:
        """Copy ``height`` rows of ``width`` bytes in each of ``depth`` planes."""
        if 0 in (width, height, depth):
            return
        shape = depth, height, width
        with self.space.lock:
            read, origin = self._box(source, shape)
            written, place = self._box(target, shape)
            steps, before = _steps(target, shape), _steps(source, shape)
            self._tell(origin, source.address, shape, before)
            np.lib.stride_tricks.as_strided(written, shape, steps)[...] = np.lib.stride_tricks.as_strided(
                read, shape, before
            )
            if place is not None:
                bits = None if origin is None else origin.shadow
                known = None
                if bits is not None:
                    start = bits.data[source.address - bits.start :]
                    known = np.lib.stride_tricks.as_strided(start, shape, before)
                _define(place, target.address - place.start, shape, steps, known)

    def _tell(self, place: Allocation | None, first: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> None:
        """Tell what was withheld of bytes that are read."""
        if place is None or not place.withheld:
            return
        read = np.zeros(1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)), np.bool_)
        np.lib.stride_tricks.as_strided(read, shape, steps)[...] = True
        for finding in told(place, first, read):
            self._found(finding)

    def _box(self, side: Side, shape: tuple[int, int, int]) -> tuple[Array, Allocation | None]:
        depth, height, width = shape
        if (height > 1 and side.pitch < width) or (depth > 1 and side.plane < side.pitch * (height - 1) + width):
            raise DriverError(Result.INVALID_VALUE, f"the pitch {side.pitch} is less than the row size {width}")
        return self._place(side.address, (depth - 1) * side.plane + (height - 1) * side.pitch + width)

    def fill(self, address: int, value: int, unit: int, count: int, pitch: int = 0, rows: int = 1) -> None:
        """Fill ``rows`` rows of ``count`` elements of ``unit`` bytes."""
        width = self.row(address, unit, count, pitch, rows)
        if 0 in (count, rows):
            return
        with self.space.lock:
            data, place = self._place(address, (rows - 1) * pitch + width)
            if place is None:  # pageable host memory, which these GPUs cannot access
                raise DriverError(Result.INVALID_VALUE, f"0x{address:x} is not in any allocation")
            element = np.frombuffer((value & ((1 << 8 * unit) - 1)).to_bytes(unit, "little"), np.uint8)
            shape, steps = (rows, count, unit), (pitch if rows > 1 else 0, unit, 1)
            np.lib.stride_tricks.as_strided(data, shape, steps)[...] = element
            _define(place, address - place.start, shape, steps, None)

    def define(self, address: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> None:
        """Mark bytes as defined: those at ``address`` of an array of this shape and these strides."""
        found = self.space.find(address, address + 1)
        if found is not None:
            _define(found, address - found.start, shape, steps, None)

    @staticmethod
    def row(address: int, unit: int, count: int, pitch: int = 0, rows: int = 1) -> int:
        """The size of a row of elements in bytes.

        Raises:
            DriverError: the address or the pitch is misaligned, or rows overlap.
        """
        width = unit * count
        if address % unit or (rows > 1 and pitch % unit):
            raise DriverError(Result.INVALID_VALUE, f"0x{address:x} is not a multiple of {unit}")
        require(rows <= 1 or pitch >= width, f"the pitch {pitch} is less than the row size {width}")
        return width


class Pool:
    """A memory pool. All pools allocate from the same memory, and free at once."""

    def __init__(self) -> None:
        self.attributes: dict[int, int] = {}


def _steps(side: Side, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Strides between planes, rows and bytes; 0 for a dimension of size 1."""
    return side.plane if shape[0] > 1 else 0, side.pitch if shape[1] > 1 else 0, 1


def _host(address: int, nbytes: int) -> Array:
    mapped(address, nbytes)
    return np.asarray((ctypes.c_uint8 * nbytes).from_address(address))


def _define(
    place: Allocation, offset: int, shape: tuple[int, ...], steps: tuple[int, ...], known: Array | None
) -> None:
    """Mark copied bytes as defined where the source is; ``known`` holds its defined bits, None for all."""
    for one in (place.withheld or {}).values():
        one.marks.own()
        np.lib.stride_tricks.as_strided(one.marks.data[offset:], shape, steps)[...] = 0
    if known is not None and bool(known.all()):
        known = None
    if place.shadow is None and known is None:
        return
    bits = np.lib.stride_tricks.as_strided(place.own_shadow().data[offset:], shape, steps)
    bits[...] = 0xFF if known is None else known
