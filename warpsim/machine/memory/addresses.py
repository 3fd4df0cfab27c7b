"""The addresses of lanes, as an address operand passes them to the ports, and helpers for all state spaces."""

from __future__ import annotations

import enum
import functools
from typing import NamedTuple

import numpy as np

from warpsim.machine.state.global_memory import CONST_ADDRESS, FIRST_ADDRESS, PARAM_ADDRESS, PARAM_WINDOW, GlobalMemory
from warpsim.machine.values import Affine, Array, Value, as_array, reach
from warpsim.records import define

Coordinate = Value | tuple[Value, ...]
"""A coordinate, or several in braces."""


class Extent(NamedTuple):
    """The bytes ``[low, high)`` of a variable in a ``kind`` of memory (``shared``, ``local``, ``global``); ``name`` is its
    name in CUDA."""

    kind: str
    low: int
    high: int
    name: str

    def moved(self, nbytes: int) -> Extent:
        """The same further up."""
        return Extent(self.kind, self.low + nbytes, self.high + nbytes, self.name)


@define(eq=False)
class Address:
    """``base + offset``: the base is a `Value` of the lanes (a traced one while compiling), the offset is from the
    text. ``coordinates`` are those of a box in a tensor. ``within`` is the variable that the address is made from, if that
    is known and an access could reach another one."""

    base: Value
    offset: int = 0
    coordinates: tuple[Coordinate, ...] = ()
    within: Extent | None = None

    def advance(self, nbytes: int) -> Address:
        """Advance the address by ``nbytes``."""
        return Address(self.base, self.offset + nbytes, within=self.within)

    @property
    def anywhere(self) -> Address:
        """The same, whatever it was made from."""
        return self if self.within is None else Address(self.base, self.offset)

    @property
    def places(self) -> Array:
        """The address of each lane, int64."""
        return as_array(self.base).astype(np.int64) + self.offset


CLUSTER_SHIFT = 24
"""Above this bit, a shared::cluster address holds its CTA's rank plus `first_rank`."""


def first_rank(cluster: tuple[int, int, int]) -> int:
    """What an address in the CTA of rank 0 holds above that bit: 1, because 0 is the thread's own CTA; 0 where a cluster is one CTA, as on
    an H200."""
    return int(cluster != (1, 1, 1))


def misaligned(array: Array, offset: int, nbytes: int) -> bool:
    """Whether some address is not a multiple of the access size."""
    if nbytes == 1:
        return False
    if array.size == 1:
        return bool((int(array.reshape(-1)[0]) + offset) % nbytes)
    seen = (
        int(np.bitwise_or.reduce(array, axis=None))
        if offset % nbytes == 0
        else int(np.bitwise_or.reduce(array + offset, axis=None))
    )
    return bool(seen & (nbytes - 1))


class Pattern(NamedTuple):
    """Affine addresses without their base: how far the first access begins below it and the last one ends above it, the
    axes with strides, whether all are aligned if the first is, and whether no two share a byte."""

    low: int
    high: int
    shape: tuple[int, ...]
    aligned: bool
    disjoint: bool


@functools.lru_cache(maxsize=4096)
def pattern_of(strides: tuple[int, ...], extents: tuple[int, ...], nbytes: int) -> Pattern:
    """What is the same for every access of ``nbytes`` by addresses with these strides."""
    low, high = reach(strides, extents)
    shape = tuple([e if s else 1 for s, e in zip(strides, extents, strict=True)])
    aligned = not any(s % nbytes for s in strides)
    return Pattern(low, high + nbytes, shape, aligned, _disjoint(strides, extents, nbytes))


def _disjoint(strides: tuple[int, ...], extents: tuple[int, ...], nbytes: int) -> bool:
    """Whether no two index tuples (over axes with a stride) share a byte."""
    reach = nbytes
    for stride, extent in sorted((abs(s), e) for s, e in zip(strides, extents, strict=True) if s):
        if stride < reach:
            return False
        reach = stride * (extent - 1) + reach
    return True


def bits_of(array: Array) -> Array:
    """Elements as unsigned integers, so that equal NaNs are equal."""
    return array if array.dtype.itemsize > 8 else array.view(f"u{array.dtype.itemsize}")


def last_along(value: Array, shape: tuple[int, ...]) -> Array:
    """The last thread's value along axes that the target lacks."""
    if value.size == 1:
        return value
    if value.ndim != len(shape):  # a list of lanes, all at one address
        return value.reshape(-1)[-1:]
    for axis, extent in enumerate(shape):
        if extent == 1 and value.shape[axis] > 1:
            value = value.take([-1], axis=axis)
    return value


_SPACES = {
    "": "",
    "generic": "",
    "const": "global",
    "global": "global",
    "param": "param",
    "param::entry": "global",
    "param::func": "local",
    "shared::cta": "shared",
}


WINDOWS = {"const": CONST_ADDRESS, "param::entry": PARAM_WINDOW}
"""Where state spaces in global memory begin that have addresses of their own."""


def lifted(name: str, address: Address) -> Address:
    """The generic address of a load from constants or parameters; a function's parameters are in local memory."""
    base, offset = address.base, address.offset
    window = CONST_ADDRESS if name == "const" else PARAM_WINDOW
    least = 0 if name == "const" else PARAM_ADDRESS - PARAM_WINDOW
    if type(base) is Affine and base.uniform and base.dtype.itemsize == 8:
        return Address(base + window, offset, within=address.within) if base.base + offset >= least else address
    wide = as_array(base).astype(np.uint64)
    return Address(np.where(wide >= least, wide + np.uint64(window), wide), offset, within=address.within)


def space_of(name: str, address: Address | None = None, active: Array | None = None) -> str:
    """The memory that contains a state space. A function's parameters are in local memory, a kernel's in a read-only
    allocation: the address of the first lane that takes part tells which."""
    if name.startswith("param") and address is not None:
        base = address.base
        if type(base) is Affine and (active is None or base.uniform):
            first = base.base
        else:
            values, taking = np.broadcast_arrays(as_array(base), active is None or active)
            first = int(values.reshape(-1)[taking.argmax()])
        return "global" if first + address.offset >= FIRST_ADDRESS else "local"
    return _SPACES.get(name, name)


NULL_PAGE = 1 << 16
"""Addresses below this come from a null pointer plus an index."""
FAR = 1 << 32
"""Beyond this distance, no allocation counts as near."""
NULL = "pass an array for the pointer, or test it before the access; cvta makes an address in .shared, .local or .const generic"
INDEX = "check the index against the array's size, and the access's guard"


def outside_global(memory: GlobalMemory, address: int, nbytes: int) -> tuple[str, str]:
    """Message and advice for an address outside any allocation, with the nearest one and the distance."""
    text = f"access of {nbytes} bytes at address 0x{address % (1 << 64):x}"
    if 0 <= address < NULL_PAGE:
        where = f", {address} bytes from it" if address else ""
        return f"{text}, through a null pointer{where}", NULL
    for space, window in (("const", CONST_ADDRESS), ("param", PARAM_WINDOW)):
        if (own := memory.find(address + window, address + window + 1)) is not None:
            text += f" is that of {own.name} in .{space}, not a generic one"
            return text, f"convert it with cvta.{space}, or load it with ld.{space}"
        if (own := memory.find(address - window, address - window + 1)) is not None and own.start >= window:
            text += f": the generic address of {own.name} is not one in .{space}"
            return text, f"convert it with cvta.to.{space}, or load it with ld"
    near = memory.nearest(address)
    text += " is outside any live allocation"
    if near is None or abs(near[1]) >= FAR:
        return f"{text}, and none is near", "check that it is a pointer of the launch, or an offset from one"
    allocation, distance = near
    where = f"{abs(distance)} bytes {'before' if distance < 0 else 'past the end of'}" if distance else "at the end of"
    return f"{text}; it is {where} {allocation.name} [0x{allocation.start:x}, 0x{allocation.end:x})", INDEX


class RowProblem(enum.Enum):
    """Why a row of a matrix in shared memory cannot be accessed."""

    SPACE = "is not in shared memory"
    ALIGNMENT = "is not a multiple of"

    def message(self, address: int, nbytes: int) -> str:
        """The message for a row of ``nbytes`` at an address."""
        return f"row address 0x{address:x} {self.value}" + (f" {nbytes} bytes" if self is RowProblem.ALIGNMENT else "")

    @property
    def advice(self) -> str:
        """Advice."""
        if self is RowProblem.SPACE:
            return "ldmatrix and stmatrix move rows of shared memory only"
        return "align the tile, and make the distance between its rows a multiple of 16 bytes"


OUTRIGHT = {RowProblem.SPACE: "out-of-bounds", RowProblem.ALIGNMENT: "misaligned"}
"""The rules that such rows break in any launch."""
