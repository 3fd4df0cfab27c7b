"""Matrix descriptors of wgmma and tcgen05.mma: where each element of A or B lies in shared memory.

The formulas are those of the table of canonical layouts (PTX ISA, asynchronous warpgroup-level canonical layouts). What
the text leaves open was observed on an H100: the swizzle XORs address bits 4 to 6 with ``(address >> 7) - base_offset``
of the absolute shared address, masked by the mode; a K-major operand wider than its swizzle row continues at the
leading byte offset.
"""

from __future__ import annotations

import copy
import functools

import numpy as np

from warpsim.numerics.arrays import Array, distinct
from warpsim.records import frozen

SPANS = np.array([0, 128, 64, 32], np.int64)
"""Size of a swizzle row in bytes, by the descriptor's mode; 0 without swizzle."""
RESERVED = 0x3FF1_C000_C000_C000
ADDRESS_MASK = (1 << 18) - 1


@frozen
class Descriptor:
    """The fields of descriptors, as arrays of the same shape. Offsets are in bytes; ``span`` is the swizzle row in
    bytes (0: none), of which parts of 16 bytes are exchanged, or of 32 (``wide``). ``absolute``: ``leading`` is the address at
    which rows go on that reach beyond their 128 bytes."""

    start: Array
    leading: Array
    stride: Array
    base_offset: Array
    span: Array
    reserved: Array
    wide: Array | None = None
    absolute: Array | None = None


def decode(bits: Array) -> Descriptor:
    """Decode 64-bit descriptors."""
    bits = np.asarray(bits).astype(np.uint64)

    def field(at: int, width: int) -> Array:
        return ((bits >> np.uint64(at)) & np.uint64((1 << width) - 1)).astype(np.int64)

    return Descriptor(
        start=field(0, 14) << 4,
        leading=field(16, 14) << 4,
        stride=field(32, 14) << 4,
        base_offset=field(49, 3),
        span=SPANS[field(62, 2)],
        reserved=(bits & np.uint64(RESERVED)) != 0,
    )


TCGEN05_SPANS = np.array([0, 128, 128, 0, 64, 0, 32, 0], np.int64)
"""The same for tcgen05.mma; its first 128 exchanges parts of 32 bytes."""
ABSOLUTE = 1 << 52
"""The leading offset is an address."""
TCGEN05_VERSION = 1 << 46
_CONSTANTS = (TCGEN05_VERSION, 0x7 << 46 | 0xFF << 53)
"""The value that bits 46 to 48 and 53 to 60 have, and a mask of them."""


def decode_tcgen05(bits: Array) -> Descriptor:
    """Decode 64-bit descriptors of tcgen05.mma (PTX ISA: Shared memory descriptor)."""
    bits = np.asarray(bits).astype(np.uint64)
    plain, mode = decode(bits), (bits >> np.uint64(61)).astype(np.int64)
    wrong = bits & np.uint64(_CONSTANTS[1] | 0xC000_C000) != np.uint64(_CONSTANTS[0])
    absolute = bits & np.uint64(ABSOLUTE) != 0
    span = TCGEN05_SPANS[mode]
    return Descriptor(plain.start, plain.leading, plain.stride, plain.base_offset, span, wrong, mode == 1, absolute)


def problem_tcgen05(bits: int) -> str | None:
    """Why such a descriptor is undefined according to the text; None if it is not. Checks its fields only."""
    if bits & _CONSTANTS[1] != _CONSTANTS[0]:
        return "bits 46 to 48 must be 1, and bits 53 to 60 must be 0"
    if bits & 0xC000_C000:
        return "bits 14, 15, 30 and 31 must be 0"
    if bits >> 61 in (3, 5, 7):
        return f"{bits >> 61} is no swizzling mode"
    fields = decode_tcgen05(np.array([bits], np.uint64))
    base, span, start = int(fields.base_offset[0]), int(fields.span[0]), int(fields.start[0])
    if bits & ABSOLUTE and (bits >> 61 != 2 or base):
        return "an absolute leading offset needs 128-byte swizzling and a base offset of 0"
    mask = max(span // 16 - 1, 0)
    if base & mask and (base ^ start >> 7) & mask:
        return f"a base offset of {base} disagrees with the start address 0x{start:x}"
    return None


def describe(bits: int, *, tcgen05: bool = False) -> str:
    """Describe the fields of a descriptor in words."""
    fields = (decode_tcgen05 if tcgen05 else decode)(np.array([bits], np.uint64))
    start, leading, stride, base, span = (
        int(f[0]) for f in (fields.start, fields.leading, fields.stride, fields.base_offset, fields.span)
    )
    swizzle = f"{span}-byte swizzle" if span else "no swizzle"
    if fields.wide is not None and fields.wide[0]:
        swizzle += " of 32-byte atoms"
    return f"0x{bits:x}: start 0x{start:x}, leading offset {leading}, stride offset {stride}, base offset {base}, {swizzle}"


def encode(start: int, leading: int, stride: int, *, span: int = 0, base_offset: int = 0) -> int:
    """Encode byte offsets (multiples of 16) and a swizzle row of ``span`` bytes (0, 32, 64 or 128) as a descriptor."""
    mode = {0: 0, 128: 1, 64: 2, 32: 3}[span]
    fields = (start & ADDRESS_MASK) >> 4 | (leading & ADDRESS_MASK) >> 4 << 16 | (stride & ADDRESS_MASK) >> 4 << 32
    return fields | base_offset << 49 | mode << 62


def byte_addresses(fields: Descriptor, k: int, extent: int, itemsize: int, *, transposed: bool) -> Array:
    """The shared memory byte address of each element, ``[k, extent, ...descriptors]``.

    ``extent`` is M or N; ``transposed`` means that consecutive elements run along it (MN-major, 16-bit types only).
    """
    depth = np.arange(k, dtype=np.int64).reshape(-1, 1, *[1] * fields.start.ndim)
    width = np.arange(extent, dtype=np.int64).reshape(1, -1, *[1] * fields.start.ndim)
    offset = _mn_major(fields, depth, width * itemsize) if transposed else _k_major(fields, depth * itemsize, width)
    address = fields.start + offset
    if fields.absolute is not None and not transposed:
        beyond = fields.absolute & ((fields.start & 127) + depth * itemsize >= 128)
        address = np.where(beyond, address - (fields.start & -128) - 128 + fields.leading, address)
    mask = np.maximum(fields.span // 16 - 1, 0)
    pattern = ((address >> 7) - fields.base_offset) & mask
    if fields.wide is not None:
        pattern = np.where(fields.wide, (pattern & 3) << 1, pattern)
    return (address ^ (pattern << 4)) & ADDRESS_MASK


def problem(bits: int, k: int, extent: int, itemsize: int, *, transposed: bool) -> str | None:
    """Why a descriptor is undefined according to the text; None if it is not. Checks its fields only, not the size of
    shared memory."""
    if bits & RESERVED:
        return f"reserved bits are set: 0x{bits & RESERVED:x}"
    start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    base, span = bits >> 49 & 7, int(SPANS[bits >> 62])
    mask = max(span // 16 - 1, 0)
    if base & mask and (base ^ start >> 7) & mask:  # 0 means a pattern that begins at a multiple of its size
        return (
            f"a base offset of {base} disagrees with the start address 0x{start:x}, whose row of the {span}-byte swizzle is"
            f" {start >> 7 & mask}"
        )
    return _overlap(leading, stride, span, k, extent, itemsize, transposed=transposed)


def moved_span(bits: int) -> int:
    """The swizzle row in bytes of a descriptor whose pattern does not begin at a multiple of its size; else 0."""
    span = int(SPANS[bits >> 62])
    return span if bits >> 49 & max(span // 16 - 1, 0) & 7 else 0


@functools.lru_cache(1024)
def _overlap(
    leading: int, stride: int, span: int, k: int, extent: int, itemsize: int, *, transposed: bool
) -> str | None:
    fields = decode(np.array([encode(0, leading, stride, span=span)], np.uint64))
    found = byte_addresses(fields, k, extent, itemsize, transposed=transposed)
    if len(distinct(found)) == k * extent:
        return None
    return f"with a leading offset of {leading} and a stride offset of {stride} bytes, elements of the matrix overlap"


PATTERN = 1024
"""The largest pattern of a swizzle in bytes: the addresses of elements that begin further on by a multiple of it are so, too."""
CHUNK = 16
"""Granularity of matrices in shared memory: all fields of a descriptor count 16-byte units."""


class Elements:
    """The elements named by one descriptor: byte addresses ``[k, extent, 1, 1]`` and values derived from them.

    They fill ``chunks`` ``[n, 1, 1]`` of 16 bytes, which hold elements of row (or column) 16 * ``part`` and the next 15.
    """

    def __init__(self, bits: int, k: int, extent: int, itemsize: int, *, transposed: bool) -> None:
        fields = decode(np.array([[bits]], np.uint64))
        self.address = byte_addresses(fields, k, extent, itemsize, transposed=transposed)
        self.itemsize, self.transposed = itemsize, transposed
        self.low, self.high = int(self.address.min()), int(self.address.max()) + itemsize
        self.problem = problem(bits, k, extent, itemsize, transposed=transposed)
        self.moved_span = moved_span(bits)
        chunks, first = np.unique(self.address & ~(CHUNK - 1), return_index=True)
        self.chunks, self.part = chunks.reshape(-1, 1, 1), (first % extent >> 4).reshape(-1, 1, 1)
        self._forget()

    def _forget(self) -> None:
        self._places: dict[int, Array] = {}
        self._words: dict[int, tuple[Array, int]] = {}
        self._tables: dict[tuple[int, tuple[int, int]], tuple[Array, Array]] = {}

    def moved(self, by: int, problem: str | None) -> Elements:
        """The same ``by`` bytes further on, a multiple of `PATTERN`."""
        made = copy.copy(self)
        made.address, made.chunks, made.problem = self.address + by, self.chunks + by, problem
        made.low, made.high = self.low + by, self.high + by
        made._forget()
        return made

    def places(self, n_columns: int) -> Array:
        """Index of each element, ``[k * extent]``, in words that are interleaved across columns; for column 0."""
        found = self._places.get(n_columns)
        if found is None:
            per = max(4 // self.itemsize, 1)
            flat = self.address.reshape(-1)
            found = (flat >> 2) * (n_columns * per) + (flat // self.itemsize & (per - 1))
            self._places[n_columns] = found
        return found

    def words(self, n_columns: int) -> tuple[Array, int]:
        """See `word_places`; and where that array begins in memory."""
        found = self._words.get(n_columns)
        if found is None:
            places = word_places(self.address, self.itemsize, n_columns, transposed=self.transposed)
            found = self._words[n_columns] = places, places.ctypes.data
        return found

    def tables(self, n_columns: int, extent: tuple[int, int]) -> tuple[Array, Array]:
        """See `word_places`; and for each of ``extent`` where that array begins in memory."""
        found = self._tables.get((n_columns, extent))
        if found is None:
            places, at = self.words(n_columns)
            found = self._tables[n_columns, extent] = places, np.full(extent, at)
        return found


def word_places(address: Array, itemsize: int, n_columns: int, *, transposed: bool) -> Array:
    """Where the words of matrices with such addresses ``[k, extent, n, m]`` begin, in bytes, in words that are interleaved
    across columns, for column 0: ``[n, m, k / per word, extent]``, or ``[n, m, k, extent / per word]`` if transposed."""
    per = 4 // itemsize
    first = address[:, ::per] if transposed else address[::per]
    return np.ascontiguousarray(((first >> 2) * (4 * n_columns)).transpose(2, 3, 0, 1))


@functools.lru_cache(512)
def elements(bits: int, k: int, extent: int, itemsize: int, *, transposed: bool) -> Elements:
    """The elements of a descriptor, cached because loops reuse descriptors; most differ from another one in where they begin."""
    first = bits & (PATTERN - 1 >> 4 | ~(ADDRESS_MASK >> 4))
    by = bits - first << 4
    found = elements(first, k, extent, itemsize, transposed=transposed) if by else None
    if found is None or found.high + by > ADDRESS_MASK + 1:
        return Elements(bits, k, extent, itemsize, transposed=transposed)
    return found.moved(by, problem(bits, k, extent, itemsize, transposed=transposed))


def beyond(bits: int, high: int, size: int) -> str:
    """The message for a descriptor that leaves shared memory."""
    return f"wgmma reads shared memory up to 0x{high:x}; the CTA has {size} bytes (descriptor {describe(bits)})"


def _k_major(fields: Descriptor, depth: Array, row: Array) -> Array:
    """Offsets of byte ``depth`` along K, in a row of M or N."""
    span = np.maximum(fields.span, 16)
    blocks = (row >> 3) * fields.stride + (row & 7) * span
    return blocks + depth // span * fields.leading + depth % span


def _mn_major(fields: Descriptor, depth: Array, width: Array) -> Array:
    """Offsets of byte ``width`` along M or N, in a row of K."""
    plain = fields.span == 0
    span = np.maximum(fields.span, 16)
    outer = np.where(plain, fields.stride, fields.leading)
    inner = np.where(plain, fields.leading, fields.stride)
    return width // span * outer + width % span + (depth & 7) * span + (depth >> 3) * inner
