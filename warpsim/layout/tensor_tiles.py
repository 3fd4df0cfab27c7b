"""Where the matrices of tcgen05.mma lie in tensor memory (PTX ISA: Data Path Layout Organization; Block Scaling; Sparse
Matrices).

The text gives these layouts as pictures; the formulas are those of CuTe's fragments, which draw the same.
"""

from __future__ import annotations

from warpsim.layout.instruction_descriptors import Product
from warpsim.layout.tensor_memory import LANES, QUARTER
from warpsim.numerics.arrays import Array
from warpsim.records import frozen

PARTITION = QUARTER
"""Scale factors are there once in the lanes of each warp."""


@frozen
class Tile:
    """A part of D: ``rows`` from ``row`` on are in as many lanes from ``lane`` on, in CTA ``cta`` (0 or 1) of the group;
    ``columns`` from ``column`` on are in as many columns from D's first. A of these rows and their metadata are in the
    same lanes."""

    cta: int
    lane: int
    row: int
    rows: int
    column: int
    columns: int


def tiles(p: Product, lane: int = 0) -> tuple[Tile, ...]:
    """The tiles of D; ``lane`` is that of D's address, 16 for the upper halves of the partitions."""
    half, quarter = p.n // 2, p.n // 4
    if p.m == 32:  # layout G
        return tuple(Tile(0, 32 * i, 0, 32, quarter * i, quarter) for i in range(4))
    if p.m == 64 and p.weights:  # layout E
        return tuple(Tile(0, 64 * i, 0, 64, half * i, half) for i in range(2))
    if p.m == 64:  # layout F
        return tuple(Tile(0, 32 * i + lane, 16 * i, 16, 0, p.n) for i in range(4))
    if p.m == 128 and p.cta_group == 1:  # layout D
        return (Tile(0, 0, 0, 128, 0, p.n),)
    if p.m == 256:  # layout A
        return Tile(0, 0, 0, 128, 0, p.n), Tile(1, 0, 128, 128, 0, p.n)
    if p.sparse:  # layout C
        return tuple(Tile(c, 32 * i + lane, 64 * c + 16 * i, 16, 0, p.n) for c in range(2) for i in range(4))
    return tuple(Tile(c, 64 * i, 64 * c, 64, half * i, half) for c in range(2) for i in range(2))  # layout B


def layout_name(p: Product) -> str:
    """The manual's letter of D's layout."""
    if p.cta_group == 2:
        return "A" if p.m == 256 else "C" if p.sparse else "B"
    return {32: "G", 64: "E" if p.weights else "F", 128: "D"}[p.m]


def halves(p: Product) -> bool:
    """Whether D takes half the lanes of each partition, so that it may begin at lane 16."""
    return layout_name(p) in "CF"


# ---- scale factors ----------------------------------------------------------------------------------


def scale_place(row: Array, index: Array, count: int, first: int) -> tuple[Array, Array, Array]:
    """Lane (of each partition), column and byte of scale factor ``index`` of a row of A, or column of B, among ``count``.

    A word holds four scale factors of a row, 32 rows fill a column. What goes on behind the first word (K = 96) is in
    the columns behind those of every 128 rows. ``first`` is the identifier in the instruction descriptor.
    """
    place = index + first
    return row % PARTITION, row // PARTITION + place // 4 * (4 * -(-count // LANES)), place % 4


# ---- sparsity metadata ------------------------------------------------------------------------------


def metadata_words(p: Product) -> int:
    """Columns of the metadata."""
    return 1 if p.kind in ("f16", "tf32") else 2


def metadata_place(lane: Array, chunk: Array, *, wide: bool) -> tuple[Array, Array, Array]:
    """Lane, column and first bit of the nibble of a chunk of the row of A that belongs to a lane of D.

    With elements of 16 and 32 bits (``wide``), a lane has the first or the last four chunks of two rows, eight lanes
    apart; else all sixteen chunks of one.
    """
    if not wide:
        return lane, chunk // 8, chunk % 8 * 4
    within = lane % 16
    return lane - within + within % 8 + 8 * (chunk // 4), 0 * chunk, within // 8 * 16 + chunk % 4 * 4


def chunks(p: Product) -> int:
    """Nibbles of metadata per row: one for 4 elements, for 2 of tf32, for 4 pairs of packed 4-bit types."""
    return p.k // (2 if p.kind == "tf32" else 8 if p.bits_a == 4 else 4)
