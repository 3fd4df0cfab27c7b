"""wmma.mma (PTX ISA: Warp-level matrix instructions: wmma): every shape and type."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from warpsim.isa.mma import product_of_integers
from warpsim.isa.ports import DevicePort
from warpsim.isa.registry import instruction
from warpsim.isa.spec import Op, Scope
from warpsim.isa.traits import Matrix, Traits
from warpsim.layout import registers
from warpsim.layout import wmma_fragments as layout
from warpsim.numerics import matrix, plain_matrix
from warpsim.types import TYPES, ScalarType

Lanes = Any
Registers = tuple[Lanes, ...]
MULTIPLIES_FRAGMENTS = Traits(matrix=Matrix.MULTIPLY, opaque_fragments=True)
_BIG = ("m16n16k16", "m8n32k16", "m32n8k16")
SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), _BIG),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    "s4": ("m8n8k32",),
    "u4": ("m8n8k32",),
    "b1": ("m8n8k128",),
}
ACCUMULATORS = {"f16": _BIG, "f32": (*_BIG, "m16n16k8"), "s32": (*_BIG, "m8n8k32", "m8n8k128"), "f64": ("m8n8k4",)}
GATES = {
    **dict.fromkeys(("bf16", "tf32", "f64"), (80, (7, 0))),
    **dict.fromkeys(("s8", "u8", "s32"), (72, (6, 3))),
    **dict.fromkeys(("s4", "u4", "b1"), (75, (6, 3))),
    "m16n16k8": (80, (7, 0)),
    "m8n8k4": (80, (7, 0)),
    **dict.fromkeys(("m8n8k32", "m8n8k128"), (75, (6, 3))),
    "shared::cta": (None, (7, 8)),
}
ALL_SHAPES = ".shape = { .m16n16k16, .m8n32k16, .m32n8k16, .m16n16k8, .m8n8k4, .m8n8k32, .m8n8k128 };"
"""The class of shapes in a form's syntax; its ``legal`` says which go with a type."""


def register_type(type: ScalarType) -> ScalarType:
    """The register type of a multiplicand; integers may be in any integer register."""
    found = {"f16": "f16x2", "f64": "f64", "bf16": "b32", "tf32": "b32"}.get(type.name, "s32")
    return TYPES[found]


def only_bits(name: str) -> Any:
    """Whether a multiplicand of the type in a slot must be declared .b32."""
    return lambda op: getattr(op, name).name in ("bf16", "tf32")


def accumulator_count(type: ScalarType, shape: str) -> int:
    """Registers per thread of C or D."""
    return layout.accumulator(shape, type.name).registers


def accumulator_type(type: ScalarType) -> ScalarType:
    """The register type of C or D."""
    return TYPES["f16x2"] if type.name == "f16" else type


_LAYOUTS = ".alayout = { .row, .col };  .blayout = { .row, .col };"


@instruction(
    f"""
    wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype d, a, b, c;
    .shape = {{ .m16n16k16, .m8n32k16, .m32n8k16 }};  .dtype = {{ .f16, .f32 }};  .ctype = {{ .f16, .f32 }};  {_LAYOUTS}
    """,
    anchor="warp-level-matrix-instructions-wmma-mma",
    scope=Scope.WARP,
    types={
        "d": lambda op: accumulator_type(op.dtype),
        "a": ".f16x2",
        "b": ".f16x2",
        "c": lambda op: accumulator_type(op.ctype),
    },
    vectors={
        "d": lambda op: accumulator_count(op.dtype, op.shape),
        "a": lambda op: 8,
        "b": lambda op: 8,
        "c": lambda op: accumulator_count(op.ctype, op.shape),
    },
    registers=("a", "b"),
    version=(6, 3),
    target=70,
    traits=MULTIPLIES_FRAGMENTS,
)
def wmma_mma_f16(op: Op, a: Registers, b: Registers, c: Registers, *, device: DevicePort) -> Registers:
    """f16 multiplicands; if C's type differs from D's, C is converted first, D last."""
    n, m = registers.extent((*a, *b, *c))
    accumulator = _gathered(op, op.ctype.name, c, n, m, device.sm)
    if op.dtype.name == "f32":
        accumulator = accumulator.astype(np.float32, copy=False)
    x, y = (_multiplicand(op, o, "f16", v, n, m, device.sm) for o, v in (("a", a), ("b", b)))
    result = _float_product(x, y, accumulator, "f16", device)
    if op.dtype.name == "f16" and result.dtype == np.float32:
        nan = np.isnan(result)
        result = result.astype(np.float16)
        result.view(np.uint16)[nan] = 0x7FFF
    return _scattered(op, op.dtype.name, result, n, m, device.sm)


def _multiplicand(op: Op, operand: str, type: str, values: Registers, n: int, m: int, sm: int = 90) -> Lanes:
    """``[K, rows, W]`` of A or B: bits of floats, values of integers, words of b1 (K in words)."""
    if type == "b1":
        return registers.gather(layout.words(operand, op.shape), _words(values), n, m)
    along_k = op.alayout == "row" if operand == "a" else op.blayout == "col"
    fragment = layout.multiplicand(operand, op.shape, type, sm, along_k=along_k)
    found = registers.gather(fragment, values if type == "f64" else _words(values), n, m)
    if type == "s4":
        return ((found ^ np.uint8(8)) - np.uint8(8)).view(np.int8)
    return found.view(np.int8) if type == "s8" else found


def _words(values: Registers) -> Registers:
    return tuple(v.view(np.uint32) for v in values)


def _gathered(op: Op, type: str, values: Registers, n: int, m: int, sm: int = 90) -> Lanes:
    """``[M, N, W]`` of C."""
    dtype = np.float16 if type == "f16" else None
    return registers.gather(layout.accumulator(op.shape, type, sm), values, n, m, dtype, row_major=True)


def _scattered(op: Op, type: str, matrix: Lanes, n: int, m: int, sm: int = 90) -> Registers:
    """The registers of D from ``[M, N, W]``."""
    return registers.scatter(layout.accumulator(op.shape, type, sm), matrix, n, m, row_major=True)


def _float_product(x: Lanes, y: Lanes, accumulator: Lanes, name: str, device: DevicePort) -> Lanes:
    if device.numerics == "ieee":
        parts = x.transpose(2, 1, 0), y.transpose(2, 0, 1), accumulator.transpose(2, 0, 1)
        return plain_matrix.dot_ieee(*parts, (name, name)).transpose(1, 2, 0)
    unit = matrix.unit_of(device.sm)
    if name == "tf32":  # HMMA.1684 on every generation
        unit = attrs.evolve(unit, block_bytes=16)
    return matrix.dot_add(x[:, :, None], y[:, None], accumulator, name, unit)


def _mixed_legal(op: Op) -> str | None:
    name = op.atype.name
    if op.btype is not op.atype and {op.atype.name, op.btype.name} not in ({"s8"}, {"u8"}, {"s4"}, {"u4"}):
        return ".atype and .btype must be the same"
    if op.shape not in SHAPES[name]:
        return f".{name} multiplicands have the shapes " + ", ".join(SHAPES[name])
    if layout.BITS[name] < 8 and (op.alayout, op.blayout) != ("row", "col"):
        return f".{name} is only .row.col"
    wanted = "f64" if name == "f64" else "s32" if name[0] in "su" else "f32"
    if op.dtype.name != wanted or op.ctype.name != wanted:
        return f".{name} accumulates in .{wanted}"
    if op.satfinite and wanted != "s32":
        return ".satfinite is for integers"
    if op.rnd and wanted != "f64":
        return ".rnd is for .f64"
    return None


@instruction(
    f"""
    wmma.mma.sync.aligned.alayout.blayout.shape{{.rnd}}.dtype.atype.btype.ctype{{.satfinite}} d, a, b, c;
    .rnd = {{ .rn, .rz, .rm, .rp }};  .dtype = {{ .f32, .s32, .f64 }};  .ctype = {{ .f32, .s32, .f64 }};
    .atype = {{ .bf16, .tf32, .f64, .s8, .u8, .s4, .u4 }};  .btype = {{ .bf16, .tf32, .f64, .s8, .u8, .s4, .u4 }};
    {_LAYOUTS}  {ALL_SHAPES}
    """,
    anchor="warp-level-matrix-instructions-wmma-mma",
    scope=Scope.WARP,
    types={
        "d": "dtype",
        "a": lambda op: register_type(op.atype),
        "b": lambda op: register_type(op.btype),
        "c": "ctype",
    },
    vectors={
        "d": lambda op: accumulator_count(op.dtype, op.shape),
        "a": lambda op: layout.multiplicand("a", op.shape, op.atype.name).registers,
        "b": lambda op: layout.multiplicand("b", op.shape, op.btype.name).registers,
        "c": lambda op: accumulator_count(op.ctype, op.shape),
    },
    registers=("a", "b"),
    exact={"a": only_bits("atype"), "b": only_bits("btype")},
    version=(6, 3),
    target=72,
    legal=_mixed_legal,
    gates=GATES,
    traits=MULTIPLIES_FRAGMENTS,
)
def wmma_mma(op: Op, a: Registers, b: Registers, c: Registers, *, device: DevicePort) -> Registers:
    """bf16, tf32, f64 and integer multiplicands."""
    n, m = registers.extent((*a, *b, *c))
    x = _multiplicand(op, "a", op.atype.name, a, n, m)
    y = _multiplicand(op, "b", op.btype.name, b, n, m)
    accumulator = _gathered(op, op.ctype.name, c, n, m, device.sm)
    if op.dtype.name == "s32":
        result = product_of_integers(x.transpose(2, 1, 0), y.transpose(2, 1, 0), accumulator, saturate=op.satfinite)
    elif op.dtype.name == "f64":
        result = plain_matrix.dot_f64(x[:, :, None], y[:, None], accumulator, op.rnd or "rn")
    else:
        result = _float_product(x, y, accumulator, op.atype.name, device)
    return _scattered(op, op.dtype.name, result, n, m, device.sm)


@instruction(
    """
    wmma.mma.op.popc.sync.aligned.row.col.shape.s32.b1.b1.s32 d, a, b, c;
    .op = { .xor, .and };  .shape = { .m8n8k128 };
    """,
    anchor="warp-level-matrix-instructions-wmma-mma",
    scope=Scope.WARP,
    types=dict.fromkeys("dabc", ".s32"),
    vectors={"d": lambda op: 2, "a": lambda op: 1, "b": lambda op: 1, "c": lambda op: 2},
    registers=("a", "b"),
    version=(6, 3),
    target=75,
    gates={"and": (80, (7, 1))},
    legal=lambda op: None if op.modifiers.index("row") < op.modifiers.index("col") else ".row comes before .col",
    traits=MULTIPLIES_FRAGMENTS,
)
def wmma_mma_b1(op: Op, a: Registers, b: Registers, c: Registers) -> Registers:
    """Population counts of combined bit rows."""
    n, m = registers.extent((*a, *b, *c))
    x, y = _multiplicand(op, "a", "b1", a, n, m), _multiplicand(op, "b", "b1", b, n, m)
    result = _gathered(op, "s32", c, n, m)
    result = plain_matrix.dot_bits(x[:, :, None], y[:, None], result, exclusive=op.op == "xor")
    return _scattered(op, "s32", result, n, m)
