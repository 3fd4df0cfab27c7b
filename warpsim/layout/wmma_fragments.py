"""wmma fragments of an H100, observed through ``wmma.load`` of matrices whose elements are their own index, and of a
V100.

Every fragment is made of 8-row blocks. With ``g = lane / 4`` and ``t = lane % 4``, a multiplicand register holds
consecutive k of row (A) or column (B) ``g`` of its block. An accumulator pair holds columns ``2t, 2t + 1`` of row ``g``
or, in a tile 8 rows high and 32 wide, rows ``2t, 2t + 1`` of column ``g``. The text leaves all this unspecified.
"""

from __future__ import annotations

import functools

from warpsim.layout.fragment import Fragment, fragment, layout_of

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
ACCUMULATOR_BITS = {"f16": 16, "f32": 32, "s32": 32, "f64": 64}
USUAL = ("m16n16k16", "m8n32k16", "m32n8k16")
"""Shapes of products of 8- and 16-bit elements."""
SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), USUAL),
    **{"tf32": ("m16n16k8",), "f64": ("m8n8k4",), "b1": ("m8n8k128",)},
    **dict.fromkeys(("s4", "u4"), ("m8n8k32",)),
}
"""By type of A and B."""


def dimensions(shape: str) -> tuple[int, int, int]:
    """m, n and k of ``m16n8k16``."""
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def is_older(sm: int, shape: str) -> bool:
    """Whether a GPU (capability times ten) has the older fragments. Only those of 16x16x16 were ever published; other
    shapes are assumed to be as on newer GPUs."""
    return sm < 75 and shape == "m16n16k16"


@functools.cache
def volta_multiplicand(operand: str, *, along_k: bool) -> Fragment:
    """f16 A or B of 16x16x16 on a V100; ``along_k``: k runs along the lines in memory (row-major A, column-major B).

    Every element is held by two groups of four lanes. Observed on a V100 by Raihan, Goli and Aamodt (Modeling Deep
    Learning Accelerator Enabled GPUs, ISPASS 2019); B's groups are as the quad pairs of mma.m8n8k4 require.
    """
    row, column = (8, 0) if operand == "a" else (0, 8)
    groups = (2, row), (2, column), (2, 4)
    if along_k:
        return fragment(16, 16, 16, layout_of((4, 1), *groups), layout_of((16, 16)))
    return fragment(16, 16, 16, layout_of((4, 16), *groups), layout_of((4, 1), (4, 64)))


@functools.cache
def volta_accumulator(type: str) -> Fragment:
    """C or D of 16x16x16 on a V100: the accumulators of mma.m8n8k4, one 8x8 block per quad pair."""
    if type == "f16":
        return fragment(16, 16, 16, layout_of((4, 1), (2, 8), (2, 128), (2, 4)), layout_of((8, 16)))
    threads = layout_of((2, 1), (2, 32), (2, 8), (2, 128), (2, 4))
    return fragment(16, 16, 32, threads, layout_of((2, 16), (2, 2), (2, 64)))


@functools.cache
def multiplicand(operand: str, shape: str, type: str, sm: int = 90, *, along_k: bool = True) -> Fragment:
    """A or B (for B, rows are its columns and columns are k); f16 fragments repeat their elements to fill eight
    registers.

    ``along_k`` matters on older GPUs only (``sm`` is the capability times ten).
    """
    if is_older(sm, shape):
        return volta_multiplicand(operand, along_k=along_k)
    m, n, k = dimensions(shape)
    rows = m if operand == "a" else n
    bits = BITS[type]
    per = max(32 // bits, 1)
    depth = 4 * per
    steps = (k // depth, depth * rows)
    if operand == "b" and rows == 16:
        order = [steps, (2, 8)]
    elif rows == 8:
        order = [steps]
    else:
        order = [(2, 8), steps, (rows // 16, 16)]
    values = [(per, rows), *order]
    held = rows * k // 32
    if type == "f16" and held < 16:
        values.append((16 // held, 0))
    return fragment(rows, k, bits, layout_of((4, per * rows), (8, 1)), layout_of(*values))


@functools.cache
def accumulator(shape: str, type: str, sm: int = 90) -> Fragment:
    """C or D."""
    if is_older(sm, shape):
        return volta_accumulator(type)
    m, n, _ = dimensions(shape)
    bits = ACCUMULATOR_BITS[type]
    if (m, n) == (8, 32):
        return fragment(m, n, bits, layout_of((4, 2), (8, m)), layout_of((2, 1), (4, 8 * m)))
    return fragment(m, n, bits, layout_of((4, 2 * m), (8, 1)), layout_of((2, m), (m // 8, 8), (n // 8, 8 * m)))


@functools.cache
def words(operand: str, shape: str) -> Fragment:
    """A or B of b1 in 32-bit words."""
    whole = multiplicand(operand, shape, "b1")
    return fragment(whole.rows, whole.columns // 32, 32, layout_of((4, whole.rows), (8, 1)), layout_of((1, 0)))
