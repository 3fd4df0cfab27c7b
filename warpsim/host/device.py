"""The simulated GPU: capability, limits, arithmetic, memory."""

from __future__ import annotations

import itertools
import operator
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from warpsim.checks.written import nothing_written, some_written
from warpsim.errors import LaunchError, shown
from warpsim.host.arrays import DeviceArray, Mapping, array_of, bytes_of, is_buffer, plain
from warpsim.host.options import Checks, choice, integer
from warpsim.host.targets import SHARED_LIMIT, capability
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.machine.state.launch import PENDING, DeviceSpec
from warpsim.numerics.arrays import Array
from warpsim.records import frozen

if TYPE_CHECKING:
    from warpsim.parallel.processes import Processes, Threads


@frozen
class Extent:
    """A run of device memory."""

    address: int
    nbytes: int
    name: str
    read_only: bool


DIMENSIONS = 64
"""The most that an array of NumPy's has."""


def _extents(shape: Any) -> tuple[Any, ...]:
    """A shape as NumPy takes it, from an integer or a sequence, which may be endless."""
    try:
        return (operator.index(shape),)
    except TypeError:
        return tuple(itertools.islice(shape, DIMENSIONS + 1))


class Device:
    """A simulated GPU, named by its target. ``sm_90`` and ``sm_90a`` are the same GPU.

    Args:
        target: the target, for example ``sm_90a``.
        numerics: ``exact`` reproduces the tensor cores' bits; ``ieee`` computes products and sums in float64 and rounds
            once.
        stdout: where kernels' printed text goes; standard output by default.
    """

    def __init__(
        self, target: str = "sm_90a", *, numerics: str = "exact", stdout: Callable[[str], object] | None = None
    ) -> None:
        self.sm = capability(target)
        self.target = target
        self.numerics = choice("numerics", numerics, ("exact", "ieee"))
        self.memory = GlobalMemory()
        self.checks: Checks = None
        self._workers: dict[tuple[bool, int], Processes | Threads] = {}
        self.max_seconds: float | None = None
        self.pending_launches = PENDING
        if stdout is not None and not callable(stdout):
            raise LaunchError(f"stdout must be something to call with text, not {shown(stdout)}")
        self.stdout = (lambda text: sys.stdout.write(text)) if stdout is None else stdout

    @property
    def spec(self) -> DeviceSpec:
        """The GPU's limits and features, as the machine uses them."""
        return DeviceSpec(self.sm, self.numerics, self.pending_launches)

    @property
    def max_shared(self) -> int:
        """Largest shared memory of a CTA, in bytes."""
        return SHARED_LIMIT[self.sm] * 1024

    def workers(self, count: int, *, threads: bool) -> Processes | Threads:
        """Local processes or threads that run parts of launches. They end with the device."""
        from warpsim.parallel.processes import Processes, Threads

        with self.lock:
            if (threads, count) not in self._workers:
                self._workers[threads, count] = (Threads if threads else Processes)(count)
            return self._workers[threads, count]

    @property
    def lock(self) -> threading.RLock:
        """The lock held while a launch runs on the device or its memory changes."""
        return self.memory.lock

    def array(self, values: ArrayLike) -> DeviceArray:
        """Copy an array to device memory."""
        try:
            data = np.array(array_of(values) if is_buffer(values) else values, order="C", copy=True)
        except Exception as error:  # whatever an object of the caller's raises
            raise LaunchError(f"{shown(values)} is not an array: {error}") from None
        plain(data.dtype)
        return self._place(data)

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike, *, name: str | None = None) -> DeviceArray:
        """Allocate memory that counts as unwritten. Here it holds zeros; a kernel that depends on them is reported.

        ``name`` is what findings call it; by default its shape and type.
        """
        try:
            plain(np.dtype(dtype))  # first: objects would be made one by one
            data = np.zeros(_extents(shape), dtype)
            with self.lock:
                array = self._place(data, name)
                nothing_written(self.memory, array.ptr)
        except LaunchError:
            raise
        except Exception as error:  # whatever an object of the caller's raises
            raise LaunchError(
                f"cannot make an array of shape {shown(shape)} and type {shown(dtype)}: {error}"
            ) from None
        return array

    def map(self, buffer: object, address: int | None = None, *, name: str | None = None) -> Mapping:
        """Map host memory into the device in place, until ``unmap()`` is called on the result.

        Args:
            buffer: an array, or any object with the buffer protocol or an array interface.
            address: its device address, for example the buffer's own; by default any free address.
            name: what findings call it; by default its shape and type.
        """
        if not is_buffer(buffer):
            raise LaunchError(f"{shown(buffer)} is not a buffer and cannot be mapped")
        data = array_of(buffer)
        if not data.flags.c_contiguous:
            raise LaunchError("the array is not C-contiguous; map np.ascontiguousarray(...) and copy the result back")
        plain(data.dtype)
        if address is not None:
            address = integer("address", address, 1)
        with self.lock:
            name = name or f"mapped {data.shape} of {data.dtype}"
            flat = bytes_of(data)
            if address is not None and (met := self.memory.overlapped_by(address, flat.size)):
                raise LaunchError(f"{flat.size} bytes at address 0x{address:x} overlap {met}")
            at = self.memory.map(flat, name=name, read_only=not data.flags.writeable, address=address)
        return Mapping(data, at, self.memory)

    # ---- memory by address -----------------------------------------------------------------------

    def allocation(self, address: int) -> Extent | None:
        """The array, mapping or module variable that contains an address, or None."""
        address = integer("address", address)
        with self.lock:
            found = self.memory.find(address, address + 1)
            return None if found is None else Extent(found.start, found.data.size, found.name, found.read_only)

    def read(self, address: int, nbytes: int) -> bytes:
        """Read bytes of device memory, as a copy."""
        with self.lock:
            return self._bytes_at(address, nbytes).tobytes()

    def write(self, address: int, data: ArrayLike) -> None:
        """Copy a buffer to device memory. The bytes count as written from then on."""
        given = array_of(data)
        plain(given.dtype)
        flat = bytes_of(np.ascontiguousarray(given))
        with self.lock:
            self._bytes_at(address, flat.size)[:] = flat
            some_written(self.memory, address, flat.size)

    def written(self, address: int, nbytes: int) -> None:
        """Mark bytes as written, if you have filled them without the simulator's knowledge."""
        with self.lock:
            self._bytes_at(address, nbytes)
            some_written(self.memory, address, nbytes)

    def _bytes_at(self, address: int, nbytes: int) -> Array:
        address, nbytes = integer("address", address), integer("nbytes", nbytes)
        found = self.memory.find(address, address + nbytes)
        if found is None:
            raise LaunchError(f"{nbytes} bytes at address 0x{address:x} do not lie in a single allocation of {self!r}")
        return found.data[address - found.start :][:nbytes]

    def _place(self, data: Array, name: str | None = None) -> DeviceArray:
        with self.lock:
            address = self.memory.map(bytes_of(data), name=name or f"array {data.shape} of {data.dtype}")
            return DeviceArray(data, address, self.memory)

    def __repr__(self) -> str:
        return f"Device({self.target!r}, numerics={self.numerics!r})"
