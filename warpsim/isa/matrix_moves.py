"""ldmatrix, stmatrix and movmatrix (PTX ISA: Warp-level matrix load and move instructions).

The text has no figures for the byte forms; their layouts are those that CUTLASS relies on (``SM100_U8x8_LDSM_T``,
``SM100_SU4_DU8x16_x1_LDSM_N``, ``SM100_U8x4_STSM_T``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from warpsim.isa.ports import Lanes, MemoryPort
from warpsim.isa.spec import Op, Scope, instruction
from warpsim.isa.traits import Matrix, Traits
from warpsim.numerics.arrays import spread

Words = tuple[Lanes, ...]
_BYTES = (("100f", "110f", "120f"), (8, 6))
"""Targets and version with shapes of 8-bit elements."""
_CTA = (None, (7, 8))


def _count(op: Op) -> int:
    return int(op.num[1:])


def _registers(op: Op) -> int:
    return _count(op) * (2 if op.shape == "m16n16" else 1)


_ldmatrix = functools.partial(
    instruction,
    anchor="warp-level-matrix-instructions-ldmatrix",
    scope=Scope.WARP,
    types={"r": ".b32"},
    vectors={"r": _registers},
    traits=Traits(matrix=Matrix.LOAD),
)


def _rows(op: Op, p: Lanes, memory: MemoryPort, rows: int = 8, words: int = 4) -> Iterator[Words]:
    """The rows of each matrix, word by word; the lanes of the matrix give their addresses."""
    for first in range(0, rows * _count(op), rows):
        yield memory.read_words(op.space or "", p[:, first : first + rows], words)


def _formats_in_order(op: Op) -> str | None:
    words = op.modifiers
    if op.source and words.index("b8x16") > words.index(op.source):
        return f".b8x16 comes before .{op.source}"
    return None


@_ldmatrix(
    """
    ldmatrix.sync.aligned.shape.num{.trans}{.space}.b16 r, [p];  .shape = { .m8n8 };
    .num = { .x1, .x2, .x4 };  .space = { .shared, .shared::cta };
    """,
    needs=(75, (6, 5)),
    gates={"shared::cta": _CTA},
)
def ldmatrix(op: Op, p: Lanes, *, memory: MemoryPort) -> tuple[Lanes, ...]:
    """Load 8x8 matrices of 16-bit elements; lanes 8i to 8i+7 give the row addresses of matrix i."""
    return tuple([_transposed(words) if op.trans else _straight(words) for words in _rows(op, p, memory)])


@_ldmatrix(
    """
    ldmatrix.sync.aligned.shape.num{.space}.b8x16.source r, [p];
    .shape = { .m8n16 };  .num = { .x1, .x2, .x4 };  .space = { .shared, .shared::cta };
    .source = { .b6x16_p32, .b4x16_p64 };
    """,
    needs=_BYTES,
    legal=_formats_in_order,
)
def ldmatrixunpacked(op: Op, p: Lanes, *, memory: MemoryPort) -> tuple[Lanes, ...]:
    """Load 8x16 matrices of 6-bit or 4-bit elements, each into the low bits of a byte."""
    return tuple([_straight(unpacked(words, op.source)) for words in _rows(op, p, memory)])


@_ldmatrix(
    """
    ldmatrix.sync.aligned.shape.num{.space}.s8.s4 r, [p];
    .shape = { .m8n16 };  .num = { .x1, .x2, .x4 };  .space = { .shared, .shared::cta };
    """,
    needs=(("90a", *_BYTES[0]), (9, 4)),
)
def ldmatrix_signed(op: Op, p: Lanes, *, memory: MemoryPort) -> tuple[Lanes, ...]:
    """Load 8x16 matrices of signed 4-bit elements, each extended to a byte; a row has 8 bytes."""
    sign, out = np.uint32(0x08080808), []
    for packed in _rows(op, p, memory, words=2):
        words = [word | (word & sign) * np.uint32(0x1E) for word in unpacked(packed, "b4x16_p64")]
        out.append(_straight(tuple(words)))
    return tuple(out)


@_ldmatrix(
    """
    ldmatrix.sync.aligned.shape.num.trans{.space}.b8            r, [p];
    ldmatrix.sync.aligned.shape.num.trans{.space}.b8x16.source  r, [p];
    .shape = { .m16n16 };  .num = { .x1, .x2 };  .space = { .shared, .shared::cta };
    .source = { .b6x16_p32, .b4x16_p64 };
    """,
    needs=_BYTES,
    legal=_formats_in_order,
)
def ldmatrix_bytes(op: Op, p: Lanes, *, memory: MemoryPort) -> tuple[Lanes, ...]:
    """Load 16x16 matrices of bytes, transposed; lanes 16i to 16i+15 give the row addresses of matrix i."""
    out: tuple[Lanes, ...] = ()
    for words in _rows(op, p, memory, rows=16):
        out += _transposed_bytes(unpacked(words, op.source) if op.source else words)
    return out


def _straight(words: Words) -> Lanes:
    n, rows, m = words[0].shape
    out = np.empty((n, rows, 4, m), np.uint32)
    for t, word in enumerate(words):
        out[:, :, t] = word
    return out.reshape(n, 32, m)


def _transposed(words: Words) -> Lanes:
    n, _, m = words[0].shape
    out = np.empty((n, 8, 4, m), np.uint32)
    for t, word in enumerate(words):
        for h in range(2):
            column = (word >> np.uint32(16 * h)) & np.uint32(0xFFFF)
            out[:, 2 * t + h] = column[:, 0::2] | (column[:, 1::2] << np.uint32(16))
    return out.reshape(n, 32, m)


def _transposed_bytes(words: Words) -> tuple[Lanes, Lanes]:
    """Transpose 16 rows of 16 bytes: lane ``4g + t`` gets rows ``4t`` to ``4t + 3`` of columns ``g`` and ``g + 8``."""
    n, _, m = words[0].shape
    out = np.empty((2, n, 8, 4, m), np.uint32)
    for column in range(16):
        byte = (words[column >> 2] >> np.uint32(8 * (column & 3))) & np.uint32(0xFF)
        out[column >> 3, :, column & 7] = _joined([byte[:, b::4] for b in range(4)])
    return out[0].reshape(n, 32, m), out[1].reshape(n, 32, m)


def _joined(parts: list[Lanes]) -> Lanes:
    """Pack bytes into words, the first lowest."""
    word = parts[0].astype(np.uint32)
    for number in range(1, 4):
        word |= parts[number].astype(np.uint32) << np.uint32(8 * number)
    return word


def unpacked(words: Words, source: str) -> Words:
    """Unpack rows of sixteen 6-bit or 4-bit elements and padding into four words of bytes, with each element in the low
    bits."""
    bits = int(source[1])
    mask = np.uint32((1 << bits) - 1)
    out = []
    for t in range(4):
        first, shift = divmod(4 * bits * t, 32)
        run = words[first] >> np.uint32(shift)
        if shift + 4 * bits > 32:
            run = run | words[first + 1] << np.uint32(32 - shift)
        out.append(_joined([run >> np.uint32(bits * b) & mask for b in range(4)]))
    return tuple(out)


_LANES = np.arange(32)
_COLUMNS = [8 * (_LANES % 4) + 4 * k + _LANES // 8 for k in range(2)]
"""The lanes that hold the two elements which each lane gets, in the halves given by ``_SHIFTS``."""
_SHIFTS = (16 * (_LANES // 4 % 2)).astype(np.uint32).reshape(1, 32, 1)


@instruction(
    "movmatrix.sync.aligned.m8n8.trans.b16 d, a;",
    anchor="warp-level-matrix-instructions-movmatrix",
    scope=Scope.WARP,
    types={"d": ".b32", "a": ".b32"},
    registers=("a",),
    needs=(75, (7, 8)),
    traits=Traits(matrix=Matrix.TRANSPOSE),
)
def movmatrix(op: Op, a: Lanes) -> Lanes:
    """Transpose an 8x8 matrix of 16-bit elements across the warp."""
    low, high = (a.take(lanes, axis=1) >> _SHIFTS & np.uint32(0xFFFF) for lanes in _COLUMNS)
    return low | high << np.uint32(16)


@instruction(
    """
    stmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16  [p], r;
    stmatrix.sync.aligned.m16n8.num.trans{.space}.b8    [p], r;
    .num = { .x1, .x2, .x4 };  .space = { .shared, .shared::cta };
    """,
    anchor="warp-level-matrix-instructions-stmatrix",
    scope=Scope.WARP,
    types={"r": ".b32"},
    vectors={"r": _count},
    registers=("r",),
    needs=(90, (7, 8)),
    gates={"m16n8": _BYTES},
    traits=Traits(matrix=Matrix.STORE),
)
def stmatrix(op: Op, p: Lanes, r: tuple[Lanes, ...], *, memory: MemoryPort, active: Lanes) -> None:
    """Store 8x8 matrices of 16-bit or 16x8 matrices of 8-bit elements; lanes 8i to 8i+7 give the row addresses of matrix i."""
    for number, register in enumerate(r):
        n, m = max(register.shape[0], p.shape[0]), max(register.shape[2], p.shape[2])
        lanes = spread(register.view(np.uint32), (n, 32, m)).reshape(n, 8, 4, m)
        if "m16n8" in op.modifiers:
            words = _columns(lanes)
        else:
            words = tuple(lanes[:, :, t] for t in range(4))
            if op.trans:
                lanes = _transposed(words).reshape(n, 8, 4, m)
                words = tuple(lanes[:, :, t] for t in range(4))
        rows = spread(p, (n, 32, m))[:, 8 * number : 8 * number + 8]
        memory.write_words(op.space or "", rows, words, active[:, :8])


def _columns(lanes: Lanes) -> Words:
    """The 8 columns of 16 bytes of accumulator fragments ``[n, 8 (g), 4 (t), m]``: bytes (g, 2t), (g, 2t+1), (g+8, 2t),
    (g+8, 2t+1)."""
    n, _, _, m = lanes.shape
    words: list[Lanes] = [np.empty((n, 8, m), np.uint32) for _ in range(4)]
    for word in range(4):
        for odd in range(2):
            shift = np.uint32(16 * (word >> 1) + 8 * odd)
            part = lanes[:, 4 * (word & 1) : 4 * (word & 1) + 4] >> shift & np.uint32(0xFF)
            words[word][:, odd::2] = _joined([part[:, g] for g in range(4)])
    return tuple(words)
