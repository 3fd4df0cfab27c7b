"""ldmatrix, stmatrix and movmatrix (PTX ISA: Warp-level matrix load and move instructions)."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.spec import Op, Scope, instruction

Lanes = Any


def _count(op: Op) -> int:
    return int(op.num[1:])


@instruction(
    """
    ldmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16 r, [p];
    .num = { .x1, .x2, .x4 };  .space = { .shared, .shared::cta };
    """,
    anchor="warp-level-matrix-instructions-ldmatrix",
    scope=Scope.WARP,
    types={"r": ".b32"},
    vectors={"r": _count},
    version=(6, 5),
    target=75,
)
def ldmatrix(op: Op, p: Lanes, *, memory: Any) -> tuple[Lanes, ...]:
    """Load 8x8 matrices of 16-bit elements; lanes 8i to 8i+7 give the row addresses of matrix i."""
    out = []
    for number in range(_count(op)):
        rows = p[:, 8 * number : 8 * number + 8]
        words = memory.read_words(op.space or "", rows, 4)
        out.append(_transposed(words) if op.trans else _straight(words))
    return tuple(out)


def _straight(words: tuple[Lanes, ...]) -> Lanes:
    n, rows, m = words[0].shape
    out = np.empty((n, rows, 4, m), np.uint32)
    for t, word in enumerate(words):
        out[:, :, t] = word
    return out.reshape(n, 32, m)


def _transposed(words: tuple[Lanes, ...]) -> Lanes:
    n, _, m = words[0].shape
    out = np.empty((n, 8, 4, m), np.uint32)
    for t, word in enumerate(words):
        for h in range(2):
            column = (word >> np.uint32(16 * h)) & np.uint32(0xFFFF)
            out[:, 2 * t + h] = column[:, 0::2] | (column[:, 1::2] << np.uint32(16))
    return out.reshape(n, 32, m)


@instruction(
    "movmatrix.sync.aligned.m8n8.trans.b16 d, a;",
    anchor="warp-level-matrix-instructions-movmatrix",
    scope=Scope.WARP,
    types={"d": ".b32", "a": ".b32"},
    version=(7, 8),
    target=75,
)
def movmatrix(op: Op, a: Lanes) -> Lanes:
    """Transpose an 8x8 matrix of 16-bit elements across the warp."""
    n, _, m = a.shape
    rows = a.reshape(n, 8, 4, m)
    return _transposed(tuple(rows[:, :, t] for t in range(4)))


@instruction(
    """
    stmatrix.sync.aligned.m8n8.num{.trans}{.space}.b16 [p], r;
    .num = { .x1, .x2, .x4 };  .space = { .shared, .shared::cta };
    """,
    anchor="warp-level-matrix-instructions-stmatrix",
    scope=Scope.WARP,
    types={"r": ".b32"},
    vectors={"r": _count},
    version=(7, 8),
    target=90,
)
def stmatrix(op: Op, p: Lanes, r: tuple[Lanes, ...], *, memory: Any, active: Lanes) -> None:
    """Store 8x8 matrices of 16-bit elements; lanes 8i to 8i+7 give the row addresses of matrix i."""
    for number, register in enumerate(r):
        n, m = max(register.shape[0], p.shape[0]), max(register.shape[2], p.shape[2])
        source = np.broadcast_to(register.view(np.uint32), (n, 32, m))
        if op.trans:
            rows = source.reshape(n, 8, 4, m)
            source = _transposed(tuple(rows[:, :, t] for t in range(4)))
        words = source.reshape(n, 8, 4, m)
        rows = np.broadcast_to(p, (n, 32, m))[:, 8 * number : 8 * number + 8]
        memory.write_words(op.space or "", rows, tuple(words[:, :, t] for t in range(4)), active[:, :8])
