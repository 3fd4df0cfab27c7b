"""mma.sp on sparse A (PTX ISA: Warp-level matrix instructions: mma.sp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from warpsim.isa.mma import (
    BITS,
    MULTIPLIES,
    accumulator,
    disordered,
    extents,
    floats,
    multiplicand,
    product_of_integers,
    scattered,
    storage,
    words,
)
from warpsim.isa.ports import DevicePort, ReportPort
from warpsim.isa.registry import Function, instruction
from warpsim.isa.spec import Gate, Op, Scope
from warpsim.isa.traits import Metadata
from warpsim.layout import fragments, registers
from warpsim.numerics.operands import expand

Lanes = Any
Registers = tuple[Lanes, ...]
_ANCHOR = "warp-level-matrix-instructions-mma-sp"
_ROOTS = ("mma.sp.sync.aligned", "mma.sp::ordered_metadata.sync.aligned")


def _bits(op: Op) -> int:
    """Bits of an element of A; e2m1 is packed unless a kind puts it into bytes."""
    return 4 if "kind::mxf4" in op.modifiers or "kind::mxf4nvf4" in op.modifiers else BITS[op.atype.name]


def chunks(op: Op) -> int:
    """Metadata nibbles per row: one per 4 elements, per 2 for 32-bit types, per 4 pairs for 4-bit types."""
    return extents(op)[2] // {32: 2, 4: 8}.get(_bits(op), 4)


def selectors(op: Op) -> tuple[int, int]:
    """The sparsity selectors that the assembler accepts; for m16n8k32 f16, more than the text defines."""
    if op.shape == "m16n8k32" and op.atype.name == "f16":
        return 0, 3
    return 0, _choices(op) - 1


def _choices(op: Op) -> int:
    """The number of selectors that the text defines: one per set of lanes that can hold the metadata."""
    return 4 // (chunks(op) // 4)


def _registers(rows: int, name: str, *, sparse: bool) -> Any:
    return lambda op: rows * extents(op)[2] * BITS[getattr(op, name).name] // (1024 * (2 if sparse else 1))


VECTORS = {
    "d": lambda op: 2 if op.dtype.name == "f16" else 4,
    "c": lambda op: 2 if op.ctype.name == "f16" else 4,
    "a": _registers(16, "atype", sparse=True),
    "b": _registers(8, "btype", sparse=False),
}
SHAPES = {
    **dict.fromkeys(("f16", "bf16"), ("m16n8k16", "m16n8k32")),
    "tf32": ("m16n8k8", "m16n8k16"),
    **dict.fromkeys(("e4m3", "e5m2"), ("m16n8k64",)),
    **dict.fromkeys(("s8", "u8"), ("m16n8k32", "m16n8k64")),
    **dict.fromkeys(("s4", "u4"), ("m16n8k64", "m16n8k128")),
}


def _legal(op: Op) -> str | None:
    name = op.atype.name
    if op.shape not in SHAPES[name]:
        return f".{name} has the shapes " + ", ".join("." + shape for shape in SHAPES[name])
    if BITS[name] != BITS[op.btype.name]:
        return ".atype and .btype must be the same"
    if op.dtype is not op.ctype:
        return ".dtype and .ctype must be the same"
    return disordered(op)


def _gate(op: Op) -> Gate:
    ordered = "sp::ordered_metadata" in op.modifiers
    if op.atype.name in ("e4m3", "e5m2"):
        return (89, (8, 5) if ordered else (8, 4))
    return (80, (8, 5) if ordered else (7, 1))


def positions(op: Op, e: Lanes, selector: int, n: int, m: int, active: Lanes, report: ReportPort) -> Lanes:
    """The k of each stored element of A, ``[stored K, 16, W]``, from the metadata; reports broken rules."""
    bits, choices = _bits(op), _choices(op)
    if selector >= choices:
        report(
            "sparse-selector",
            f"the sparsity selector {selector} names no lanes of .{op.shape} with .{op.atype.name}",
            None,
            advice=f"the selector is {' or '.join(str(k) for k in range(choices))} here",
            selector=selector,
        )
    held = fragments.metadata(chunks(op), selector % choices, floats=bits >= 16)
    nibbles = registers.gather(held, (e.view(np.uint32),), n, m).astype(np.int64)
    low, high = nibbles & 3, nibbles >> 2
    first = np.arange(len(nibbles))[:, None, None]
    if bits == 32:
        wrong = (nibbles != 0b1110) & (nibbles != 0b0100)
        _judge(wrong, nibbles, "neither 0b1110 nor 0b0100, the indices of a 32-bit element", n, m, active, report)
        return 2 * first + (low >> 1)
    if "sp::ordered_metadata" in op.modifiers:
        _judge(low >= high, nibbles, "whose indices do not increase", n, m, active, report)
    else:
        _judge(low == high, nibbles, "of two equal indices", n, m, active, report)
    pair = np.stack([4 * first + low, 4 * first + high], axis=1).reshape(2 * len(nibbles), *nibbles.shape[1:])
    if bits > 4:
        return pair
    return np.stack([2 * pair, 2 * pair + 1], axis=1).reshape(2 * len(pair), *pair.shape[1:])


def _judge(wrong: Lanes, nibbles: Lanes, what: str, n: int, m: int, active: Lanes, report: ReportPort) -> None:
    if not wrong.any():
        return
    bad = wrong.any(axis=(0, 1)).reshape(n, 1, m) & active
    if bad.any():
        chunk, row, warp = (int(index[0]) for index in np.nonzero(wrong))
        report(
            "sparse-metadata",
            f"the metadata of row {row}, chunk {chunk} is 0b{int(nibbles[chunk, row, warp]):04b}, {what}",
            bad,
            advice="two different indices for each chunk, in the lanes that the selector names",
            nibble=int(nibbles[chunk, row, warp]),
        )


def one(value: Lanes) -> int:
    """The value of an immediate."""
    return int(np.asarray(value).reshape(-1)[0])


def _sums(op: Op) -> str | None:
    """Any registers of 32 bits hold the f32 sums of ordered metadata."""
    return ".b32" if op.text.startswith("mma.sp::ordered_metadata") and op.dtype.name == "f32" else None


def _declare(pattern: str, classes: str, multiplicand: str) -> Callable[[Function], Function]:
    """Declare both orders of metadata; ``pattern`` is the line from the shape on, ``multiplicand`` the register type of
    A and B.
    """
    return instruction(
        "; ".join(f"{root}.{pattern} d, a, b, c, e, f" for root in _ROOTS) + f"; {classes}",
        anchor=_ANCHOR,
        scope=Scope.WARP,
        types={
            **{"d": storage("dtype"), "a": multiplicand, "b": multiplicand, "c": storage("ctype")},
            **{"e": ".b32", "f": ".u32"},
        },
        vectors=VECTORS,
        checked_as={"d": _sums, "c": _sums},
        registers=("a", "b", "e"),
        constants={"f": selectors},
        legal=_legal,
        gate=_gate,
        traits=lambda op: attrs.evolve(MULTIPLIES, metadata=Metadata("e", "f", chunks(op) // 4)),
    )


@_declare(
    "shape.row.col.dtype.atype.btype.ctype",
    """
    .shape = { .m16n8k16, .m16n8k32 };
    .dtype = { .f16, .f32 };  .atype = { .f16 };  .btype = { .f16 };  .ctype = { .f16, .f32 };
    """,
    ".f16x2",
)
@_declare(
    "shape.row.col.dtype.atype.btype.ctype",
    """
    .shape = { .m16n8k8, .m16n8k16, .m16n8k32, .m16n8k64 };  .dtype = { .f32 };  .ctype = { .f32 };
    .atype = { .bf16, .tf32, .e4m3, .e5m2 };  .btype = { .bf16, .tf32, .e4m3, .e5m2 };
    """,
    ".b32",
)
def mma_sp_float(
    op: Op,
    a: Registers,
    b: Registers,
    c: Registers,
    e: Lanes,
    f: Lanes,
    *,
    device: DevicePort,
    active: Lanes,
    report: ReportPort,
) -> Registers:
    """D = A * B + C of sparse A on floats."""
    n, m = registers.extent((*a, *b, *c, e))
    where = positions(op, e, one(f), n, m, active, report)
    x, present = expand(multiplicand(op.atype.name, 16, a, n, m), where)
    return scattered(op, floats(op, x, words(8, b, n, m), accumulator(op, c, n, m), device, present), n, m)


@_declare(
    "shape.row.col{.satfinite}.dtype.atype.btype.ctype",
    """
    .shape = { .m16n8k32, .m16n8k64, .m16n8k128 };  .dtype = { .s32 };  .ctype = { .s32 };
    .atype = { .u8, .s8, .u4, .s4 };  .btype = { .u8, .s8, .u4, .s4 };
    """,
    ".b32",
)
def mma_sp_integer(
    op: Op,
    a: Registers,
    b: Registers,
    c: Registers,
    e: Lanes,
    f: Lanes,
    *,
    active: Lanes,
    report: ReportPort,
) -> Registers:
    """D = A * B + C of sparse A on integers."""
    n, m = registers.extent((*a, *b, *c, e))
    where = positions(op, e, one(f), n, m, active, report)
    x, _ = expand(multiplicand(op.atype.name, 16, a, n, m), where)
    y = multiplicand(op.btype.name, 8, b, n, m)
    d = product_of_integers(x.transpose(2, 1, 0), y.transpose(2, 1, 0), accumulator(op, c, n, m), saturate=op.satfinite)
    return scattered(op, d, n, m)
