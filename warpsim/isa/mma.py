"""mma.sync on dense operands (PTX ISA: Warp-level matrix instructions: mma)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from warpsim.isa.ports import DevicePort, Lanes, Registers
from warpsim.isa.spec import Gate, Op, Scope, TypeRule, instruction
from warpsim.isa.traits import Matrix, Traits
from warpsim.layout import fragments, wmma_fragments
from warpsim.layout.fragment import extent, gather, scatter
from warpsim.layout.wmma_fragments import dimensions
from warpsim.numerics import emulated, matrix, plain_matrix
from warpsim.types import TYPES, ScalarType

BITS = {
    **wmma_fragments.BITS,
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), 8),
}
"""Bits of an element of A or B in its register."""
FP8 = ("e4m3", "e5m2")
NARROW = ".atype = { .e4m3, .e5m2, .e3m2, .e2m3, .e2m1 };  .btype = { .e4m3, .e5m2, .e3m2, .e2m3, .e2m1 };"
BLACKWELL = "120f"
WITHOUT_FP8 = ("90", "90a", "100", "100f", "103", "107", "110", "110f")
"""Targets without fp8 in mma, where it is one of halves, and an add."""
MULTIPLIES = Traits(matrix=Matrix.MULTIPLY)
FLOATS = ("f16", "bf16", "tf32")


def extents(op: Op) -> tuple[int, int, int]:
    """M, N and K of an instruction."""
    return dimensions(op.shape)


def _registers(rows: int | None) -> Callable[[Op], int]:
    """Registers per thread of A (``rows`` None) or B (8)."""

    def count(op: Op) -> int:
        m, _, k = extents(op)
        bits = BITS[op.atype.name if rows is None else op.btype.name]
        return max((rows or m) * k * bits // (32 * max(bits, 32)), 1)

    return count


def _accumulators(name: str) -> Callable[[Op], int]:
    return lambda op: extents(op)[0] * 8 // 32 // (2 if getattr(op, name).name == "f16" else 1)


def storage(name: str) -> Callable[[Op], ScalarType]:
    """The register type of an operand; f16 pairs share a register."""

    def rule(op: Op) -> ScalarType:
        found: ScalarType = getattr(op, name)
        return TYPES["f16x2"] if found.name == "f16" else found

    return rule


VECTORS = {"d": _accumulators("dtype"), "c": _accumulators("ctype"), "a": _registers(None), "b": _registers(8)}
_mma = functools.partial(
    instruction,
    anchor="warp-level-matrix-instructions-mma",
    scope=Scope.WARP,
    vectors=VECTORS,
    registers=("a", "b"),
    traits=MULTIPLIES,
)


def multiplicand(type: str, rows: int, values: Registers, n: int, m: int) -> Lanes:
    """``[K, rows, W]`` of A or B: bits of floats, values of integers."""
    bits = BITS[type]
    k = len(values) * 32 * max(bits, 32) // bits // rows
    held = values if type == "f64" else tuple(v.view(np.uint32) for v in values)
    found = gather(fragments.multiplicand(rows, k, bits), held, n, m)
    if type == "s4":
        return ((found ^ np.uint8(8)) - np.uint8(8)).view(np.int8)
    if type == "e2m1":
        return found >> np.uint8(2)  # the middle four bits of the byte
    return found.view(np.int8) if type == "s8" else found


def words(rows: int, values: Registers, n: int, m: int, *, batch_first: bool = False) -> Lanes:
    """``[K, rows, W]`` (``[W, rows, K]``) of A or B in register words, with K counted in words."""
    held = tuple(v.view(np.uint32) for v in values)
    fragment = fragments.multiplicand(rows, len(values) * 32 // rows, 32)
    return gather(fragment, held, n, m, row_major=batch_first, batch_first=batch_first)


def integers(name: str, type: str, rows: int, values: Registers, n: int, m: int) -> Lanes:
    """``[W, rows, K]`` of A or B (by ``name``); the order of k is arbitrary, but the same for both."""
    packed = words(rows, values, n, m, batch_first=True).view(np.int8 if type == "s8" else np.uint8)
    return plain_matrix.nibbles(f"nibbles of {name}", packed, signed=type == "s4") if BITS[type] == 4 else packed


def accumulator(op: Op, c: Registers, n: int, m: int) -> Lanes:
    """``[M, 8, W]`` of C."""
    half = op.ctype.name == "f16"
    fragment = fragments.accumulator(extents(op)[0], 8, op.ctype.bits)
    return gather(fragment, c, n, m, np.float16 if half else None, row_major=True)


def scattered(op: Op, d: Lanes, n: int, m: int) -> Registers:
    """The registers of D."""
    return scatter(fragments.accumulator(extents(op)[0], 8, op.dtype.bits), d, n, m, row_major=True)


def floats(op: Op, a: Lanes, b: Lanes, c: Lanes, device: DevicePort, present: Lanes | None = None) -> Lanes:
    """The product of float operands ``[K, M, W]`` and ``[K, N, W]``; ``present`` if A is sparse."""
    kinds = (op.atype.name, op.btype.name)
    if device.numerics == "ieee":
        stored = None if present is None else present.transpose(2, 1, 0)
        parts = (a.transpose(2, 1, 0), b.transpose(2, 0, 1), c.transpose(2, 0, 1))
        return plain_matrix.dot_ieee(*parts, kinds, stored).transpose(1, 2, 0)
    stored = None if present is None else present[:, :, None]
    dot: Callable[..., Lanes] = matrix.dot_add if kinds[0] in FLOATS else emulated.dot_fp8
    return dot(a[:, :, None], b[:, None], c, kinds, device.sm, stored)


def product_of_integers(a: Lanes, b: Lanes, c: Lanes, *, saturate: bool) -> Lanes:
    """``[M, N, W]`` of ``[W, M, K]``, ``[W, N, K]`` and ``[M, N, W]``."""
    d = plain_matrix.dot_integer(a, b.transpose(0, 2, 1), c.transpose(2, 0, 1), saturate=saturate)
    return d.transpose(1, 2, 0)


def disordered(op: Op) -> str | None:
    """Why the order of .row and .col is wrong; only these two modifiers are ordered."""
    if op.modifiers.index("row") > op.modifiers.index("col"):
        return "A is .row and B is .col, in this order"
    return None


def _shapes(**types: str) -> Callable[[Op], str | None]:
    """Make a ``legal`` function that checks a type's shapes: ``f16="m16n8k8 m16n8k16"``."""

    def legal(op: Op) -> str | None:
        allowed = types[op.atype.name].split()
        if op.shape not in allowed:
            return f".{op.atype.name} has the shapes " + ", ".join("." + shape for shape in allowed)
        if BITS[op.atype.name] != BITS[op.btype.name] or (op.atype.name in FLOATS and op.btype is not op.atype):
            return ".atype and .btype must be the same"
        return same_results(op)

    return legal


@_mma(
    """
    mma.sync.aligned.m8n8k4.alayout.blayout.dtype.f16.f16.ctype d, a, b, c;
    .alayout = { .row, .col };  .blayout = { .row, .col };  .dtype = { .f16, .f32 };  .ctype = { .f16, .f32 };
    """,
    types={"d": storage("dtype"), "a": ".f16x2", "b": ".f16x2", "c": storage("ctype")},
    vectors={
        "d": lambda op: 8 if op.dtype.bits == 32 else 4,
        "c": lambda op: 8 if op.ctype.bits == 32 else 4,
        "a": lambda op: 2,
        "b": lambda op: 2,
    },
    needs=(70, (6, 4)),
    legal=lambda op: "f16 results want f16 for C" if op.dtype.bits < op.ctype.bits else None,
)
def mma_quads(op: Op, a: Registers, b: Registers, c: Registers, *, device: DevicePort) -> Registers:
    """Four products of 8x4 by 4x8, one per quad pair."""
    n, m = extent((*a, *b, *c))
    by_k = (op.alayout == "row", op.blayout == "col")
    x, y = (
        gather(fragments.quad_pair("a", 16, by_rows=k), tuple(r.view(np.uint32) for r in values), n, m)
        for k, values in zip(by_k, (a, b), strict=True)
    )
    held = fragments.quad_pair("c", op.ctype.bits, by_rows=False)
    wide = gather(held, c, n, m, np.float16 if op.ctype.bits == 16 else None, row_major=True)
    parts = [slice(8 * quad, 8 * quad + 8) for quad in range(4)]
    result = np.dtype(np.float16 if op.dtype.bits == 16 else np.float32)
    d = np.concatenate(
        [emulated.dot_quads(x[:, p, None], y[:, None, p], wide[:, p], result, device.sm) for p in parts], axis=1
    )
    return scatter(fragments.quad_pair("c", op.dtype.bits, by_rows=False), d, n, m, row_major=True)


def kind_gate(op: Op) -> Gate:
    """6-bit and 4-bit types, and f16 results of sparse A, need sm_120's family; two fp8 types run wherever there are
    kinds."""
    sparse_half = any(word.split("::")[0] == "sp" for word in op.modifiers) and op.dtype.bits == 16
    fp8 = op.atype.name in FP8 and op.btype.name in FP8
    if not fp8 or sparse_half:
        return (BLACKWELL, (8, 7))
    return (("100f", "110f", "120f"), (8, 7) if op.dtype.bits == 16 else (8, 6))


def same_results(op: Op) -> str | None:
    """Why the types of C and D, or the order of .row and .col, are wrong."""
    return disordered(op) if op.dtype is op.ctype else ".dtype and .ctype must be the same"


KIND_TYPES: dict[str, TypeRule] = {"d": storage("dtype"), "a": ".b32", "b": ".b32", "c": storage("ctype")}
KINDS = f".kind = {{ .kind::f8f6f4 }};  .dtype = {{ .f16, .f32 }};  .ctype = {{ .f16, .f32 }};  {NARROW}"


@_mma(
    f"""
    mma.sync.aligned.shape.row.col.kind.dtype.atype.btype.ctype d, a, b, c;
    .shape = {{ .m16n8k32 }};  {KINDS}  // one element per byte
    """,
    types=KIND_TYPES,
    legal=same_results,
    gate=kind_gate,
)
@_mma(
    """
    mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c;
    .shape = { .m16n8k8, .m16n8k16 };
    .dtype = { .f16, .f32 };  .atype = { .f16 };  .btype = { .f16 };  .ctype = { .f16, .f32 };
    """,
    types={"d": storage("dtype"), "a": ".f16x2", "b": ".f16x2", "c": storage("ctype")},
    needs=(75, (6, 5)),
    legal=_shapes(f16="m16n8k8 m16n8k16"),
    gates={"m16n8k16": (80, (7, 0))},
)
@_mma(
    """
    mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c;
    .shape = { .m16n8k4, .m16n8k8, .m16n8k16 };
    .dtype = { .f32 };  .atype = { .bf16, .tf32 };  .btype = { .bf16, .tf32 };  .ctype = { .f32 };
    """,
    types={"a": ".b32", "b": ".b32"},
    exact=("a", "b"),
    needs=(80, (7, 0)),
    legal=_shapes(bf16="m16n8k8 m16n8k16", tf32="m16n8k4 m16n8k8"),
)
@_mma(
    """
    mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c;
    .shape = { .m16n8k16, .m16n8k32 };
    .dtype = { .f16, .f32 };  .atype = { .e4m3, .e5m2 };  .btype = { .e4m3, .e5m2 };  .ctype = { .f16, .f32 };
    """,
    types={"d": storage("dtype"), "a": ".b32", "b": ".b32", "c": storage("ctype")},
    needs=(89, (8, 4)),
    legal=_shapes(e4m3="m16n8k16 m16n8k32", e5m2="m16n8k16 m16n8k32"),
    single=dict.fromkeys("dabc", WITHOUT_FP8),
    gates={"m16n8k16": (89, (8, 7)), "dtype.f16": (89, (8, 7))},
)
def mma_float(op: Op, a: Registers, b: Registers, c: Registers, *, device: DevicePort) -> Registers:
    """D = A * B + C on 16x8 tiles of floats."""
    n, m = extent((*a, *b, *c))
    x, y = words(16, a, n, m), words(8, b, n, m)
    return scattered(op, floats(op, x, y, accumulator(op, c, n, m), device), n, m)


@_mma(
    """
    mma.sync.aligned.shape.row.col{.rnd}.dtype.atype.btype.ctype d, a, b, c;
    .shape = { .m8n8k4, .m16n8k4, .m16n8k8, .m16n8k16 };  .rnd = { .rn, .rz, .rm, .rp };
    .dtype = { .f64 };  .atype = { .f64 };  .btype = { .f64 };  .ctype = { .f64 };
    """,
    types=dict.fromkeys("dabc", ".f64"),
    registers=(),
    needs=(80, (7, 0)),
    legal=disordered,
    gates=dict.fromkeys(("m16n8k4", "m16n8k8", "m16n8k16"), (90, (7, 8))),
)
def mma_f64(op: Op, a: Registers, b: Registers, c: Registers) -> Registers:
    """D = A * B + C as a chain of fma."""
    n, m = extent((*a, *b, *c))
    x, y = multiplicand("f64", extents(op)[0], a, n, m), multiplicand("f64", 8, b, n, m)
    d = plain_matrix.dot_f64(x[:, :, None], y[:, None], accumulator(op, c, n, m), op.rnd or "rn")
    return scattered(op, d, n, m)


@_mma(
    """
    mma.sync.aligned.shape.row.col{.satfinite}.dtype.atype.btype.ctype d, a, b, c;
    .shape = { .m8n8k16, .m16n8k16, .m8n8k32, .m16n8k32, .m16n8k64 };
    .dtype = { .s32 };  .ctype = { .s32 };
    .atype = { .u8, .s8, .u4, .s4 };  .btype = { .u8, .s8, .u4, .s4 };
    """,
    types={"a": ".b32", "b": ".b32"},
    checked_as=dict.fromkeys("ab", lambda op: ".u32" if op.shape == "m8n8k16" else None),  # the assembler's oldest form
    single={"b": 100},
    no_specials=dict.fromkeys("abc", lambda op: 90 if op.atype.bits == 4 else None),
    legal=_shapes(
        **dict.fromkeys(("s8", "u8"), "m8n8k16 m16n8k16 m16n8k32"),
        **dict.fromkeys(("s4", "u4"), "m8n8k32 m16n8k32 m16n8k64"),
    ),
    gate=lambda op: (75, (6, 5)) if op.shape.startswith("m8") else (80, (7, 0)),
)
def mma_integer(op: Op, a: Registers, b: Registers, c: Registers) -> Registers:
    """D = A * B + C on integers."""
    n, m = extent((*a, *b, *c))
    x = integers("a", op.atype.name, extents(op)[0], a, n, m)
    y = integers("b", op.btype.name, 8, b, n, m)
    return scattered(op, product_of_integers(x, y, accumulator(op, c, n, m), saturate=op.satfinite), n, m)


@_mma(
    """
    mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype.bitop.popc d, a, b, c;
    .shape = { .m8n8k128, .m16n8k128, .m16n8k256 };  .bitop = { .xor, .and };
    .dtype = { .s32 };  .atype = { .b1 };  .btype = { .b1 };  .ctype = { .s32 };
    """,
    types={"a": ".b32", "b": ".b32"},
    no_specials=dict.fromkeys("abc", lambda op: 90 if op.bitop == "xor" else 100),
    needs=(75, (7, 0)),
    legal=disordered,
    gates={"and": (80, (7, 1)), "m16n8k128": (80, (7, 0)), "m16n8k256": (80, (7, 0))},
)
def mma_bits(op: Op, a: Registers, b: Registers, c: Registers) -> Registers:
    """D = counts of common or different bits of rows and columns + C."""
    n, m = extent((*a, *b, *c))
    x, y = words(extents(op)[0], a, n, m)[:, :, None], words(8, b, n, m)[:, None]
    return scattered(op, plain_matrix.dot_bits(x, y, accumulator(op, c, n, m), exclusive=op.bitop == "xor"), n, m)
