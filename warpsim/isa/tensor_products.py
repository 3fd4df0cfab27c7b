"""The products of tcgen05.mma: what they read, multiply and write once a tensor core executes them.

`TensorProducts` is what one step issues, as arrays ``[k]`` with one element per issuing thread.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from warpsim.isa.ports import Lanes, TensorCoreMemory
from warpsim.layout import descriptors, instruction_descriptors, tensor_tiles
from warpsim.layout.fragments import stored_positions
from warpsim.layout.instruction_descriptors import FOUR, SCALED, WHOLE_BYTES, Product
from warpsim.layout.tensor_memory import LANES
from warpsim.layout.tensor_tiles import PARTITION, Tile
from warpsim.numerics import emulated, matrix, plain_matrix
from warpsim.numerics.arrays import DType
from warpsim.records import frozen
from warpsim.types import TYPES

LANE, COLUMN, WORD = 16, 0xFFFF, np.dtype(np.uint32)
"""An address of tensor memory: position of the lane, mask of the column; and what a cell holds."""
RESULTS: dict[str, DType] = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "s32": np.dtype(np.int32)}
MEANINGFUL = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110)
"""The indices that name two different elements of four, as the text lists them."""
METADATA = "name two different elements of each chunk, the first one first; of tf32 0b0100 or 0b1110"
SIGNS = {"e3m2": 0x20, "e2m3": 0x20, "e2m1": 0x08}
"""The sign bits of types that do not fill their bytes."""


@frozen
class Variant:
    """A product, the first lane of its D, and the column of B with which a zero-column mask begins."""

    product: Product
    lane: int
    column: int


@frozen
class Rectangle:
    """A part of an operand in tensor memory: lanes of CTA ``cta`` of the group, and columns from the operand's address."""

    part: str
    cta: int
    lane: int
    column: int
    lanes: int
    columns: int


@frozen(eq=False)
class TensorProducts:
    """Products in flight: ``variant`` is the index of each thread's product.

    ``a`` and ``b`` are descriptors of shared memory, or ``a`` is an address of tensor memory as the others are; ``ctas`` are
    the batch columns of the CTAs of the group, ``[k]`` each. ``accumulate`` says whether D is an input, times ``2 **
    -exponent``. ``disabled`` ``[k, 128 * cta_group]`` are lanes that are not written; ``zeros`` are zero-column mask
    descriptors; ``scales`` are the addresses of A's and B's scale factors, ``vector_size`` the number per row. ``shifted``:
    rows of A are those of the next lane.
    """

    variants: tuple[Variant, ...]
    variant: Lanes
    ctas: tuple[Lanes, ...]
    d: Lanes
    a: Lanes
    a_in_tensor: bool
    b: Lanes
    accumulate: Lanes
    exponent: int = 0
    disabled: Lanes | None = None
    zeros: Lanes | None = None
    metadata: Lanes | None = None
    scales: tuple[Lanes, Lanes] | None = None
    vector_size: int = 0
    shifted: bool = False

    def perform(self, memory: TensorCoreMemory, which: Lanes) -> None:
        """Compute the products of some of the threads."""
        for number, variant in enumerate(self.variants):
            some = which[self.variant[which] == number]
            if len(some):
                Execution(self, memory, variant, some).run()

    def address(self, part: str) -> Lanes:
        """The addresses of an operand in tensor memory."""
        if part.startswith("scale"):
            assert self.scales is not None
            return self.scales[part == "scale_b"]
        found = {"d": self.d, "a": self.a, "metadata": self.metadata}[part]
        assert found is not None
        return found

    def rectangles(self, variant: Variant) -> Iterator[Rectangle]:
        """What a product touches in tensor memory."""
        p = variant.product
        for tile in tensor_tiles.tiles(p, variant.lane):
            yield Rectangle("d", tile.cta, tile.lane, 0, tile.rows, tile.columns)
            if self.a_in_tensor:
                yield Rectangle("a", tile.cta, tile.lane, 0, tile.rows, p.stored * p.bits_a // 32)
            if p.sparse:
                count = tensor_tiles.metadata_words(p)
                yield Rectangle("metadata", tile.cta, tile.lane, p.selector, tile.rows, count)
        if self.scales is not None:
            for part, rows, first in (("scale_a", p.m // p.cta_group, p.scale_a_id), ("scale_b", p.n, p.scale_b_id)):
                column = tensor_tiles.scale_place(np.array(rows - 1), np.array(self.vector_size - 1), rows, first)[1]
                for cta in range(p.cta_group):
                    yield Rectangle(part, cta, 0, 0, LANES, int(column) + 1)


class Execution:
    """The products of one variant that some threads have issued."""

    def __init__(self, work: TensorProducts, memory: TensorCoreMemory, variant: Variant, which: Lanes) -> None:
        self.work, self.memory, self.variant, self.which = work, memory, variant, which
        self.product = variant.product
        self.ctas = [columns[which] for columns in work.ctas]

    def run(self) -> None:
        """Multiply the tiles of D that share columns of B (and scale factors of B) together."""
        by_cta = self.work.scales is not None
        b, shared = self.columns_of_b(), None if self.work.a_in_tensor else self.rows_of_shared_a()
        together: dict[tuple[int, int], list[Tile]] = {}
        for tile in self.tiles():
            together.setdefault((tile.column, tile.cta if by_cta else 0), []).append(tile)
        for (column, _), tiles in together.items():
            rows = np.concatenate([np.arange(tile.row, tile.row + tile.rows) for tile in tiles])
            a = self.rows_of_tensor_a(tiles) if shared is None else shared[:, rows]
            d = self.multiply(a, b[:, column : column + tiles[0].columns], self.accumulators(tiles), tiles)
            at = 0
            for tile in tiles:
                self.store(tile, d[:, at : at + tile.rows])
                at += tile.rows

    def tiles(self) -> tuple[Tile, ...]:
        """The tiles of D."""
        return tensor_tiles.tiles(self.product, self.variant.lane)

    # ---- operands ----------------------------------------------------------------------------

    def rows_of_shared_a(self) -> Lanes:
        """``[k, M, stored]`` elements of A."""
        p = self.product
        shape = p.m // p.cta_group, p.stored, p.bits_a
        parts = [self.shared(cta, self.work.a, shape, p.a, transposed=p.transpose_a) for cta in self.ctas]
        return _signed(np.concatenate(parts, axis=1), p.a, negate=p.negate_a)

    def rows_of_tensor_a(self, tiles: list[Tile]) -> Lanes:
        """The same of the rows of some tiles, which are in the tiles' lanes."""
        p = self.product
        found = [self.tensor("a", tile, tile.rows, p.stored * p.bits_a // 32) for tile in tiles]
        if self.work.shifted:  # as tcgen05.shift: each row is the next one, the last of tensor memory stays
            found = [np.concatenate([words[:, 1:], words[:, -1:]], axis=1) for words in found]
        words = np.concatenate(found, axis=1)
        return _signed(elements(words, p.a, p.bits_a, bytes_each=True), p.a, negate=p.negate_a)

    def columns_of_b(self) -> Lanes:
        """``[k, N, K]`` elements of B."""
        p, shift, zeros = self.product, self.variant.column, self.work.zeros
        shape = p.n // p.cta_group + shift, p.k, p.bits_b
        parts = [self.shared(cta, self.work.b, shape, p.b, transposed=p.transpose_b)[:, shift:] for cta in self.ctas]
        b = _signed(np.concatenate(parts, axis=1), p.b, negate=p.negate_b)
        if zeros is not None:
            mask = np.array([instruction_descriptors.zero_columns(z, p.m, p.n) for z in zeros[self.which].tolist()])
            b = np.where(mask[..., None], b.dtype.type(0), b)
        return b

    def shared(self, cta: Lanes, bits: Lanes, shape: tuple[int, int, int], type: str, *, transposed: bool) -> Lanes:
        """``[k, rows, elements]`` of matrices in shared memory; ``shape`` is rows, elements and their bits."""
        numbers, inverse = np.unique(bits[self.which], return_inverse=True)
        tables = np.stack([places(n, *shape, transposed=transposed) for n in numbers.tolist()])[inverse]
        words = np.ascontiguousarray(self.memory.read_shared(cta[:, None, None], tables, WORD))
        if transposed:
            return words.view(f"u{shape[2] // 8}").transpose(0, 2, 1)
        return elements(words, type, shape[2], bytes_each=False)

    def tensor(self, part: str, tile: Tile, lanes: int, columns: int, offset: int = 0) -> Lanes:
        """Words ``[k, lanes, columns]`` of an operand in tensor memory, in the lanes of a tile."""
        where = (self.work.address(part)[self.which] & COLUMN) + offset | tile.lane << LANE
        return self.memory.read_tensor(self.ctas[tile.cta], where, lanes, columns)

    def accumulators(self, tiles: list[Tile]) -> Lanes:
        """C ``[k, rows, columns]`` in D's type, zero where it is not an input."""
        dtype, keep = RESULTS[self.product.d], self.work.accumulate[self.which]
        if not keep.any():
            return np.zeros((len(keep), sum(tile.rows for tile in tiles), tiles[0].columns), dtype)
        words = np.concatenate([self.tensor("d", tile, tile.rows, tile.columns) for tile in tiles], axis=1)
        c = words.astype(f"u{dtype.itemsize}").view(dtype)
        if self.work.exponent:
            c = c * dtype.type(2.0**-self.work.exponent)
        return c if keep.all() else np.where(keep[:, None, None], c, dtype.type(0))

    def scale_factors(self, part: str, tile: Tile, rows: Lanes, count: int, first: int) -> Lanes:
        """Scale factors ``[k, S, rows]`` of rows of A or columns of B, from the copy in the tile's first partition."""
        lane, column, byte = tensor_tiles.scale_place(rows, np.arange(self.work.vector_size)[:, None], count, first)
        copy = Tile(tile.cta, tile.lane // PARTITION * PARTITION, 0, 0, 0, 0)
        words = self.tensor(part, copy, PARTITION, int(column.max()) + 1)
        return (words[:, lane, column] >> (8 * byte).astype(np.uint32)).astype(np.uint8)

    def positions(self, tiles: list[Tile]) -> Lanes:
        """The k of each stored element of A, ``[stored, k, rows]``."""
        p, found = self.product, []
        for tile in tiles:
            words = self.tensor("metadata", tile, tile.rows, tensor_tiles.metadata_words(p), p.selector)
            rows, chunks = np.arange(tile.rows)[:, None], np.arange(tensor_tiles.chunks(p))
            lane, column, bit = tensor_tiles.metadata_place(rows, chunks, wide=p.bits_a >= 16)
            found.append(words[:, lane, column] >> bit.astype(np.uint32) & np.uint32(15))
        self.check_metadata(np.concatenate(found, axis=1))
        return stored_positions(np.concatenate(found, axis=1).transpose(2, 0, 1), p.bits_a)

    def check_metadata(self, nibbles: Lanes) -> None:
        """Report indices ``[k, rows, chunks]`` to which the text gives no meaning."""
        wrong = ~np.isin(nibbles, (0b0100, 0b1110) if self.product.kind == "tf32" else MEANINGFUL)
        if wrong.any():
            number, row, chunk = (int(index[0]) for index in np.nonzero(wrong))
            message = f"the metadata of row {row}, chunk {chunk} is 0b{int(nibbles[number, row, chunk]):04b}, which means nothing"
            self.memory.report("sparse-metadata", message, self.which[wrong.any(axis=(1, 2))], METADATA)

    # ---- the product -------------------------------------------------------------------------

    def multiply(self, a: Lanes, b: Lanes, c: Lanes, tiles: list[Tile]) -> Lanes:
        """``A . B + C`` of ``[k, M, stored]``, ``[k, N, K]`` and ``[k, M, N]``."""
        p, memory, present = self.product, self.memory, None
        if p.sparse:
            a, present = (x.transpose(1, 2, 0) for x in matrix.expand(a.transpose(2, 0, 1), self.positions(tiles)))
        if p.kind == "i8":
            left, right = (np.ascontiguousarray(x).view(TYPES[type].dtype) for x, type in ((a, p.a), (b, p.b)))
            return plain_matrix.dot_integer(left, right.transpose(0, 2, 1), c, saturate=p.saturate)
        if p.kind not in SCALED and memory.numerics == "ieee":
            return plain_matrix.dot_ieee(a, b.transpose(0, 2, 1), c, (p.a, p.b), present)
        x, y = a.transpose(2, 0, 1)[..., None], b.transpose(2, 0, 1)[:, :, None]
        stored = None if present is None else present.transpose(2, 0, 1)[..., None]
        if p.kind not in SCALED:
            return matrix.dot_add(x, y, c, (p.a, p.b), memory.sm, stored)
        sa, sb = self.scales_of_a(tiles)[..., None], self.scales_of_b(tiles[0])[:, :, None]
        if p.kind in FOUR:
            return emulated.dot_groups(x, y, c, (sa, sb), p.scale)
        return emulated.dot_scaled(x, y, c, (p.a, p.b), (sa[0], sb[0]), memory.sm, stored)

    def scales_of_a(self, tiles: list[Tile]) -> Lanes:
        """``[S, k, rows]``."""
        p, found = self.product, []
        count = p.m // p.cta_group
        for tile in tiles:
            rows = np.arange(tile.row, tile.row + tile.rows) - tile.cta * count
            found.append(self.scale_factors("scale_a", tile, rows, count, p.scale_a_id))
        return np.concatenate(found, axis=2).transpose(1, 0, 2)

    def scales_of_b(self, tile: Tile) -> Lanes:
        """``[S, k, columns]``; tiles of other columns have theirs in their own lanes."""
        p = self.product
        return self.scale_factors("scale_b", tile, np.arange(tile.columns), p.n, p.scale_b_id).transpose(1, 0, 2)

    def store(self, tile: Tile, d: Lanes) -> None:
        """Write the rows of a tile, one element per cell."""
        words = np.ascontiguousarray(d).view(f"u{d.dtype.itemsize}").astype(np.uint32)
        self.memory.write_tensor(self.ctas[tile.cta], self.place(tile), words, self.kept(tile))

    def place(self, tile: Tile) -> Lanes:
        """The addresses of a tile's first cells."""
        return self.work.d[self.which] & COLUMN | tile.lane << LANE

    def kept(self, tile: Tile) -> Lanes | None:
        """The lanes of a tile that are written, ``[k, rows, 1]``; None for all."""
        disabled, lane = self.work.disabled, LANES * tile.cta + tile.lane
        return None if disabled is None else ~disabled[self.which, lane : lane + tile.rows, None]


@functools.lru_cache(256)
def places(bits: int, rows: int, k: int, width: int, *, transposed: bool) -> Lanes:
    """Where the words of a matrix are in shared memory: ``[rows, words of K]``, or if transposed ``[K, words of a row]``."""
    fields = descriptors.decode_tcgen05(np.array([bits], np.uint64))
    if transposed:
        return descriptors.byte_addresses(fields, k, rows * width // 32, 4, transposed=True)[..., 0]
    return descriptors.byte_addresses(fields, k * width // 32, rows, 4, transposed=False)[..., 0].T


PIECE = 16
"""Bytes of shared memory, of which all fields of a matrix descriptor count."""


@functools.lru_cache(256)
def pieces(bits: int, rows: int, k: int, width: int, *, transposed: bool) -> Lanes:
    """The addresses of the pieces of shared memory that hold a matrix."""
    return np.unique(places(bits, rows, k, width, transposed=transposed) & -PIECE)


def elements(words: Lanes, type: str, width: int, *, bytes_each: bool) -> Lanes:
    """``[..., elements]`` of words, narrow ones in the low bits of a byte each.

    In shared memory, sixteen elements of 6 or 4 bits are packed in the first 12 or 8 of 16 bytes, unless all are packed
    (``width`` 4). In tensor memory each has a byte (``bytes_each``), those of 4 bits in its middle.
    """
    words = np.ascontiguousarray(words)
    if width > 8 or type in WHOLE_BYTES:
        return words.view(f"u{width // 8}")
    octets = words.view(np.uint8)
    if width == 4:
        return _nibbles(octets)
    if bytes_each:
        return octets >> np.uint8(2) if type == "e2m1" else octets
    lines = octets.reshape(*octets.shape[:-1], -1, 16)
    if type == "e2m1":
        return _nibbles(lines[..., :8]).reshape(octets.shape)
    three = lines[..., :12].reshape(*lines.shape[:-1], 4, 3).astype(np.uint32)
    four = three[..., 0] | three[..., 1] << np.uint32(8) | three[..., 2] << np.uint32(16)
    six = [four >> np.uint32(6 * i) & np.uint32(63) for i in range(4)]
    return np.stack(six, axis=-1).astype(np.uint8).reshape(octets.shape)


def _nibbles(octets: Lanes) -> Lanes:
    return np.stack([octets & np.uint8(15), octets >> np.uint8(4)], axis=-1).reshape(*octets.shape[:-1], -1)


def _signed(found: Lanes, type: str, *, negate: bool) -> Lanes:
    if not negate:
        return found
    return found ^ found.dtype.type(SIGNS.get(type, 1 << 8 * found.dtype.itemsize - 1))
