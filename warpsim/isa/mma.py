"""mma.sync (PTX ISA: Warp-level matrix instructions: mma): the 16x8 shapes of f16, bf16, tf32 and 8-bit integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.spec import Op, Scope, instruction
from warpsim.layout import fragments
from warpsim.numerics import matrix
from warpsim.types import TYPES, ScalarType

Lanes = Any
Registers = tuple[Lanes, ...]
_ANCHOR = "warp-level-matrix-instructions-mma"
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8}


def _k(op: Op) -> int:
    return int(op.shape[op.shape.index("k") + 1 :])


def _registers(rows: int) -> Any:
    return lambda op: _k(op) * BITS[op.atype.name] // 128 * rows


def _accumulators(name: str) -> Any:
    return lambda op: 2 if getattr(op, name).name == "f16" else 4


def _storage(name: str) -> Any:
    def rule(op: Op) -> ScalarType:
        found: ScalarType = getattr(op, name)
        return TYPES["f16x2"] if found.name == "f16" else found

    return rule


def run(op: Op, a: Registers, b: list[Registers], c: Lanes, device: Any, n: int, m: int) -> Lanes:
    """``[16, 8 * len(b), W]``: A times the column blocks of B, plus C."""
    bits = BITS[op.atype.name]
    rows = fragments.gather_rows(a, n, m, bits, 2)
    columns = np.concatenate([fragments.gather_rows(part, n, m, bits, 1) for part in b], axis=1)
    if op.atype.name in ("s8", "u8"):
        rows = rows.view(op.atype.dtype)
        columns = columns.view(op.btype.dtype)
        return matrix.dot_integer(rows, columns, c, bool(op.__dict__.get("satfinite")))
    if device.numerics == "ieee":
        return matrix.dot_ieee(rows, columns, c, op.atype.name)
    return matrix.dot_add(rows, columns, c, op.atype.name, device.sm)


@instruction(
    """
    mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c;
    .shape = { .m16n8k8, .m16n8k16 };
    .dtype = { .f16, .f32 };  .atype = { .f16 };  .btype = { .f16 };  .ctype = { .f16, .f32 };
    """,
    anchor=_ANCHOR,
    scope=Scope.WARP,
    types={"d": _storage("dtype"), "a": ".f16x2", "b": ".f16x2", "c": _storage("ctype")},
    vectors={"d": _accumulators("dtype"), "c": _accumulators("ctype"), "a": _registers(2), "b": _registers(1)},
    version=(6, 5),
    target=75,
    legal=lambda op: None if op.dtype is op.ctype else ".dtype and .ctype must be the same",
    gates={"m16n8k16": (80, (7, 0))},
)
def mma_f16(op: Op, a: Registers, b: Registers, c: Registers, *, device: Any) -> Registers:
    """D = A * B + C on 16x8 tiles of f16."""
    return _multiply(op, a, b, c, device)


def _multiply(op: Op, a: Registers, b: Registers, c: Registers, device: Any) -> Registers:
    n, m = fragments.extent((*a, *b, *c))
    if op.dtype.name == "f16":
        return fragments.scatter_packed(run(op, a, [b], fragments.gather_packed(c, n, m), device, n, m), n, m)
    return fragments.scatter_accumulator(run(op, a, [b], fragments.gather_accumulator(c, n, m), device, n, m), n, m)


@instruction(
    """
    mma.sync.aligned.m16n8k8.row.col.f32.atype.btype.f32 d, a, b, c;
    mma.sync.aligned.m16n8k16.row.col.f32.atype.btype.f32 d, a, b, c;
    .atype = { .bf16 };  .btype = { .bf16 };
    """,
    anchor=_ANCHOR,
    scope=Scope.WARP,
    types={"d": ".f32", "a": ".b32", "b": ".b32", "c": ".f32"},
    vectors={
        "d": lambda op: 4,
        "c": lambda op: 4,
        "a": lambda op: 4 if "m16n8k16" in op.text else 2,
        "b": lambda op: 2 if "m16n8k16" in op.text else 1,
    },
    version=(7, 0),
    target=80,
)
def mma_bf16(op: Op, a: Registers, b: Registers, c: Registers, *, device: Any) -> Registers:
    """D = A * B + C on 16x8 tiles of bf16."""
    return _multiply_f32(op, a, b, c, device)


@instruction(
    """
    mma.sync.aligned.m16n8k4.row.col.f32.atype.btype.f32 d, a, b, c;
    mma.sync.aligned.m16n8k8.row.col.f32.atype.btype.f32 d, a, b, c;
    .atype = { .tf32 };  .btype = { .tf32 };
    """,
    anchor=_ANCHOR,
    scope=Scope.WARP,
    types={"d": ".f32", "a": ".b32", "b": ".b32", "c": ".f32"},
    vectors={
        "d": lambda op: 4,
        "c": lambda op: 4,
        "a": lambda op: 4 if "m16n8k8" in op.text else 2,
        "b": lambda op: 2 if "m16n8k8" in op.text else 1,
    },
    version=(7, 0),
    target=80,
)
def mma_tf32(op: Op, a: Registers, b: Registers, c: Registers, *, device: Any) -> Registers:
    """D = A * B + C on 16x8 tiles of tf32."""
    return _multiply_f32(op, a, b, c, device)


def _multiply_f32(op: Op, a: Registers, b: Registers, c: Registers, device: Any) -> Registers:
    n, m = fragments.extent((*a, *b, *c))
    return fragments.scatter_accumulator(run(op, a, [b], fragments.gather_accumulator(c, n, m), device, n, m), n, m)


@instruction(
    """
    mma.sync.aligned.shape.row.col{.satfinite}.s32.atype.btype.s32 d, a, b, c;
    .shape = { .m16n8k16, .m16n8k32 };  .atype = { .u8, .s8 };  .btype = { .u8, .s8 };
    """,
    anchor=_ANCHOR,
    scope=Scope.WARP,
    types={"d": ".s32", "a": ".b32", "b": ".b32", "c": ".s32"},
    vectors={"d": lambda op: 4, "c": lambda op: 4, "a": _registers(2), "b": _registers(1)},
    version=(7, 0),
    target=80,
)
def mma_s8(op: Op, a: Registers, b: Registers, c: Registers, *, device: Any) -> Registers:
    """D = A * B + C on 16x8 tiles of 8-bit integers."""
    return _multiply_f32(op, a, b, c, device)
