"""wmma of m16n16k16 f16 (PTX ISA: Warp-level matrix instructions: wmma).

The fragments are those of an H100: A as in mma.m16n8k16, B and the accumulators as two such blocks of columns; the
second half of an A or B fragment repeats the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.mma import run
from warpsim.isa.spec import Op, Scope, instruction
from warpsim.layout import fragments
from warpsim.types import TYPES, ScalarType

Lanes = Any
Registers = tuple[Lanes, ...]
_SPACE = ".space = { .global, .shared, .shared::cta };"


def _element(lane: Lanes, register: int, half: int, operand: str) -> tuple[Lanes, Lanes]:
    """Row and column (k and n for B) of an element."""
    g, t = lane >> np.int64(2), lane & np.int64(3)
    if operand == "a":
        return g + 8 * (register & 1), 2 * t + half + 8 * (register >> 1 & 1)
    if operand == "b":
        return 2 * t + half + 8 * (register & 1), g + 8 * (register >> 1 & 1)
    return g + 8 * (register >> 1 & 1), 2 * t + (register & 1) + 8 * (register >> 2)


def _address(memory: Any, p: Any, row: Lanes, column: Lanes, stride: Lanes, column_major: bool, size: int) -> Any:
    """Address of an element; row-major memory has ``stride`` elements between rows."""
    outer, inner = (column, row) if column_major else (row, column)
    return memory.shifted(p, (outer * stride + inner) * size)


def _stride(stride: Lanes) -> Lanes:
    return np.int64(16) if stride is None else stride.astype(np.int64)


@instruction(
    f"""
    wmma.load.a.sync.aligned.layout.m16n16k16{{.space}}.f16 r, [p]{{, stride}};
    wmma.load.b.sync.aligned.layout.m16n16k16{{.space}}.f16 r, [p]{{, stride}};
    .layout = {{ .row, .col }};  {_SPACE}
    """,
    anchor="warp-level-matrix-instructions-wmma-ld",
    types={"r": ".f16x2", "stride": ".u32"},
    vectors={"r": lambda op: 8},
    version=(6, 0),
    target=70,
)
def wmma_load_ab(op: Op, p: Any, stride: Lanes = None, *, memory: Any, lane: Lanes) -> Registers:
    """Load a multiplicand fragment."""
    operand = "a" if ".a." in op.text else "b"
    out = []
    for register in range(4):
        parts = []
        for half in range(2):
            row, column = _element(lane, register, half, operand)
            at = _address(memory, p, row, column, _stride(stride), op.layout == "col", 2)
            parts.append(memory.load(op.space or "", at, TYPES["u16"])[0].astype(np.uint32))
        out.append(parts[0] | (parts[1] << np.uint32(16)))
    return (*out, *out)


def _accumulator(op: Op) -> int:
    return 8 if op.type.name == "f32" else 4


def _storage(op: Op) -> ScalarType:
    return TYPES["f32" if op.type.name == "f32" else "f16x2"]


@instruction(
    f"wmma.load.c.sync.aligned.layout.m16n16k16{{.space}}.type r, [p]{{, stride}}; .layout = {{ .row, .col }}; .type = {{ .f16, .f32 }}; {_SPACE}",
    anchor="warp-level-matrix-instructions-wmma-ld",
    types={"r": _storage, "stride": ".u32"},
    vectors={"r": _accumulator},
    version=(6, 0),
    target=70,
)
def wmma_load_c(op: Op, p: Any, stride: Lanes = None, *, memory: Any, lane: Lanes) -> Registers:
    """Load an accumulator fragment."""
    out = []
    for register in range(8):
        row, column = _element(lane, register, 0, "c")
        at = _address(memory, p, row, column, _stride(stride), op.layout == "col", op.type.bytes)
        out.append(memory.load(op.space or "", at, TYPES[f"u{op.type.bits}"])[0])
    if op.type.name == "f32":
        return tuple(out)
    return tuple(out[2 * k].astype(np.uint32) | (out[2 * k + 1].astype(np.uint32) << np.uint32(16)) for k in range(4))


@instruction(
    f"wmma.store.d.sync.aligned.layout.m16n16k16{{.space}}.type [p], r{{, stride}}; .layout = {{ .row, .col }}; .type = {{ .f16, .f32 }}; {_SPACE}",
    anchor="warp-level-matrix-instructions-wmma-st",
    types={"r": _storage, "stride": ".u32"},
    vectors={"r": _accumulator},
    version=(6, 0),
    target=70,
)
def wmma_store(op: Op, p: Any, r: Registers, stride: Lanes = None, *, memory: Any, lane: Lanes) -> None:
    """Store an accumulator fragment."""
    type = TYPES[f"u{op.type.bits}"]
    for register in range(8):
        row, column = _element(lane, register, 0, "c")
        at = _address(memory, p, row, column, _stride(stride), op.layout == "col", op.type.bytes)
        if op.type.name == "f32":
            value = r[register].view(np.uint32)
        else:
            value = (r[register >> 1].view(np.uint32) >> np.uint32(16 * (register & 1))).astype(np.uint16)
        memory.store(op.space or "", at, type, (value,))


def _count_of(name: str) -> Any:
    return lambda op: 8 if getattr(op, name).name == "f32" else 4


def _type_of(name: str) -> Any:
    return lambda op: TYPES["f32" if getattr(op, name).name == "f32" else "f16x2"]


@instruction(
    """
    wmma.mma.sync.aligned.alayout.blayout.m16n16k16.dtype.ctype d, a, b, c;
    .alayout = { .row, .col };  .blayout = { .row, .col };  .dtype = { .f16, .f32 };  .ctype = { .f16, .f32 };
    """,
    anchor="warp-level-matrix-instructions-wmma-mma",
    scope=Scope.WARP,
    types={"d": _type_of("dtype"), "a": ".f16x2", "b": ".f16x2", "c": _type_of("ctype")},
    vectors={"d": _count_of("dtype"), "a": lambda op: 8, "b": lambda op: 8, "c": _count_of("ctype")},
    version=(6, 0),
    target=70,
)
def wmma_mma(op: Op, a: Registers, b: Registers, c: Registers, *, device: Any) -> Registers:
    """D = A * B + C on 16x16x16 tiles; C of another type than D is converted first, D last."""
    n, m = fragments.extent((*a, *b, *c))
    op.__dict__.setdefault("atype", TYPES["f16"])
    half = len(c) // 2
    gather = fragments.gather_accumulator if op.ctype.name == "f32" else fragments.gather_packed
    accumulator = np.concatenate([gather(c[:half], n, m), gather(c[half:], n, m)], axis=1)
    if op.ctype.name == "f16" and op.dtype.name == "f32":
        accumulator = accumulator.astype(np.float32)
    result = run(op, a[:4], [b[:2], b[2:4]], accumulator, device, n, m)
    if op.dtype.name == "f16" and result.dtype == np.float32:
        nan = np.isnan(result)
        result = result.astype(np.float16)
        result.view(np.uint16)[nan] = 0x7FFF
    scatter = fragments.scatter_accumulator if op.dtype.name == "f32" else fragments.scatter_packed
    return (*scatter(np.ascontiguousarray(result[:, :8]), n, m), *scatter(np.ascontiguousarray(result[:, 8:]), n, m))
