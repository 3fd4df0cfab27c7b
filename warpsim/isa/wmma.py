"""wmma (PTX ISA: Warp-level matrix instructions: wmma.mma, wmma.load, wmma.store): every shape and type."""

from __future__ import annotations

import functools
from collections.abc import Callable

import attrs
import numpy as np

from warpsim.isa.mma import product_of_integers
from warpsim.isa.ports import Address, DevicePort, Lanes, MemoryPort, Registers, ReportPort, first_of
from warpsim.isa.spec import Op, Scope, instruction
from warpsim.isa.traits import Matrix, Traits
from warpsim.layout import wmma_fragments as layout
from warpsim.layout.fragment import Fragment, extent, gather, scatter
from warpsim.layout.wmma_fragments import SHAPES, USUAL
from warpsim.numerics import matrix, plain_matrix
from warpsim.numerics.arrays import halves
from warpsim.types import TYPES, ScalarType

_multiply = functools.partial(
    instruction,
    anchor="warp-level-matrix-instructions-wmma-mma",
    scope=Scope.WARP,
    registers=("a", "b"),
    traits=Traits(matrix=Matrix.MULTIPLY, opaque_fragments=True),
)
ACCUMULATORS = {"f16": USUAL, "f32": (*USUAL, "m16n16k8"), "s32": (*USUAL, "m8n8k32", "m8n8k128"), "f64": ("m8n8k4",)}
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


def only_bits(name: str) -> Callable[[Op], bool]:
    """Whether a multiplicand of the type in a slot must be declared .b32."""
    return lambda op: getattr(op, name).name in ("bf16", "tf32")


def accumulator_count(type: ScalarType, shape: str) -> int:
    """Registers per thread of C or D."""
    return layout.accumulator(shape, type.name).registers


def accumulator_type(type: ScalarType) -> ScalarType:
    """The register type of C or D."""
    return TYPES["f16x2"] if type.name == "f16" else type


_LAYOUTS = ".alayout = { .row, .col };  .blayout = { .row, .col };"


@_multiply(
    f"""
    wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype d, a, b, c;
    .shape = {{ .m16n16k16, .m8n32k16, .m32n8k16 }};  .dtype = {{ .f16, .f32 }};  .ctype = {{ .f16, .f32 }};  {_LAYOUTS}
    """,
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
    needs=(70, (6, 3)),
)
def wmma_mma_f16(op: Op, a: Registers, b: Registers, c: Registers, *, device: DevicePort) -> Registers:
    """f16 multiplicands; if C's type differs from D's, C is converted first, D last."""
    n, m = extent((*a, *b, *c))
    accumulator = _gathered(op, op.ctype.name, c, n, m, device.sm)
    if op.dtype.name == "f32":
        accumulator = accumulator.astype(np.float32, copy=False)
    x, y = (multiplicand(op, o, "f16", v, n, m, device.sm) for o, v in (("a", a), ("b", b)))
    result = _float_product(x, y, accumulator, "f16", device)
    if op.dtype.name == "f16" and result.dtype == np.float32:
        nan = np.isnan(result)
        result = result.astype(np.float16)
        result.view(np.uint16)[nan] = 0x7FFF
    return _scattered(op, op.dtype.name, result, n, m, device.sm)


def multiplicand(op: Op, operand: str, type: str, values: Registers, n: int, m: int, sm: int = 90) -> Lanes:
    """``[K, rows, W]`` of A or B: bits of floats, values of integers, words of b1 (K in words)."""
    if type == "b1":
        return gather(layout.words(operand, op.shape), _words(values), n, m)
    along_k = op.alayout == "row" if operand == "a" else op.blayout == "col"
    fragment = layout.multiplicand(operand, op.shape, type, sm, along_k=along_k)
    found = gather(fragment, values if type == "f64" else _words(values), n, m)
    if type == "s4":
        return ((found ^ np.uint8(8)) - np.uint8(8)).view(np.int8)
    return found.view(np.int8) if type == "s8" else found


def _words(values: Registers) -> Registers:
    return tuple(v.view(np.uint32) for v in values)


def _gathered(op: Op, type: str, values: Registers, n: int, m: int, sm: int = 90) -> Lanes:
    """``[M, N, W]`` of C."""
    dtype = np.float16 if type == "f16" else None
    return gather(layout.accumulator(op.shape, type, sm), values, n, m, dtype, row_major=True)


def _scattered(op: Op, type: str, matrix: Lanes, n: int, m: int, sm: int = 90) -> Registers:
    """The registers of D from ``[M, N, W]``."""
    return scatter(layout.accumulator(op.shape, type, sm), matrix, n, m, row_major=True)


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


@_multiply(
    f"""
    wmma.mma.sync.aligned.alayout.blayout.shape{{.rnd}}.dtype.atype.btype.ctype{{.satfinite}} d, a, b, c;
    .rnd = {{ .rn, .rz, .rm, .rp }};  .dtype = {{ .f32, .s32, .f64 }};  .ctype = {{ .f32, .s32, .f64 }};
    .atype = {{ .bf16, .tf32, .f64, .s8, .u8, .s4, .u4 }};  .btype = {{ .bf16, .tf32, .f64, .s8, .u8, .s4, .u4 }};
    {_LAYOUTS}  {ALL_SHAPES}
    """,
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
    exact={"a": only_bits("atype"), "b": only_bits("btype")},
    needs=(72, (6, 3)),
    legal=_mixed_legal,
    gates=GATES,
)
def wmma_mma(op: Op, a: Registers, b: Registers, c: Registers, *, device: DevicePort) -> Registers:
    """bf16, tf32, f64 and integer multiplicands."""
    n, m = extent((*a, *b, *c))
    x = multiplicand(op, "a", op.atype.name, a, n, m)
    y = multiplicand(op, "b", op.btype.name, b, n, m)
    accumulator = _gathered(op, op.ctype.name, c, n, m, device.sm)
    if op.dtype.name == "s32":
        result = product_of_integers(x.transpose(2, 1, 0), y.transpose(2, 1, 0), accumulator, saturate=op.satfinite)
    elif op.dtype.name == "f64":
        result = plain_matrix.dot_f64(x[:, :, None], y[:, None], accumulator, op.rnd or "rn")
    else:
        result = _float_product(x, y, accumulator, op.atype.name, device)
    return _scattered(op, op.dtype.name, result, n, m, device.sm)


@_multiply(
    """
    wmma.mma.op.popc.sync.aligned.row.col.shape.s32.b1.b1.s32 d, a, b, c;
    .op = { .xor, .and };  .shape = { .m8n8k128 };
    """,
    vectors={"d": 2, "a": 1, "b": 1, "c": 2},
    needs=(75, (6, 3)),
    gates={"and": (80, (7, 1))},
    legal=lambda op: None if op.modifiers.index("row") < op.modifiers.index("col") else ".row comes before .col",
)
def wmma_mma_b1(op: Op, a: Registers, b: Registers, c: Registers) -> Registers:
    """Population counts of combined bit rows."""
    n, m = extent((*a, *b, *c))
    x, y = multiplicand(op, "a", "b1", a, n, m), multiplicand(op, "b", "b1", b, n, m)
    result = _gathered(op, "s32", c, n, m)
    result = plain_matrix.dot_bits(x[:, :, None], y[:, None], result, exclusive=op.op == "xor")
    return _scattered(op, "s32", result, n, m)


_SPACE = ".space = { .global, .shared, .shared::cta };"
_LAYOUT = ".layout = { .row, .col };"


def _operand(op: Op) -> str:
    """The matrix that an instruction loads or stores: a, b, c or d."""
    return op.text.split(".")[2]


def _fragment(op: Op, sm: int) -> Fragment:
    operand = _operand(op)
    if operand in "cd":
        return layout.accumulator(op.shape, op.type.name, sm)
    return layout.multiplicand(operand, op.shape, op.type.name, sm, along_k=_by_row(op))


def _by_row(op: Op) -> bool:
    """Whether rows of the fragment are lines in memory: its rows are columns of b."""
    return bool((op.layout == "row") != (_operand(op) == "b"))


def _place(fragment: Fragment, lane: Lanes, value: int, ld: Lanes | np.int64, *, by_row: bool) -> Lanes:
    """Where a lane's value stands in memory, in elements."""
    row, column = fragment.place(lane, value)
    return row * ld + column if by_row else column * ld + row


def _load_legal(op: Op) -> str | None:
    name = op.type.name
    if op.shape not in SHAPES[name]:
        return f".{name} multiplicands have the shapes " + ", ".join(SHAPES[name])
    if layout.BITS[name] < 8 and op.layout != ("row" if _operand(op) == "a" else "col"):
        return f".{name} is only .row for a and .col for b"
    return None


def _stride(
    op: Op, p: Address, stride: Lanes | None, fragment: Fragment, memory: MemoryPort, active: Lanes, report: ReportPort
) -> Lanes | np.int64:
    """The stride in elements, for lanes that follow the rules of matrix storage (anchor warp-level-matrix-storage)."""
    for name, value in (("address", p), ("stride", stride)):
        if value is None:
            continue
        wrong = memory.uneven(value) & active
        if wrong.any():
            report(
                "nonuniform-operand",
                f"the {name} differs between lanes of a warp",
                wrong,
                advice="every lane names the whole matrix; the instruction finds each lane's elements",
            )
    wrong = memory.outside(op.space or "", p) & active
    if wrong.any():
        where = op.space or "global or shared memory"
        advice = f"copy the matrix to {where} memory first" if op.space else f"wmma moves matrices of {where} only"
        report("matrix-address-space", f"the matrix is not in {where}", wrong, advice=advice)
    default = fragment.columns if _by_row(op) else fragment.rows
    nbytes = fragment.registers * max(fragment.bits // 8, 4)
    past = memory.residue(p, nbytes)
    wrong = (past != 0) & active
    if wrong.any():
        report(
            "wmma-alignment",
            f"the matrix starts {first_of(past, wrong)} bytes past a multiple of {nbytes} bytes, the size of the fragment",
            wrong,
            advice=f"align the address to {nbytes} bytes",
        )
    if stride is None:
        return np.array(default, np.int64)
    ld = stride.astype(np.int64)
    wrong = (ld < default) & active
    if wrong.any():
        report(
            "wmma-stride",
            f"the stride {first_of(ld, wrong)} is less than the {default} elements of a line",
            wrong,
            advice="give the distance between lines in elements",
            stride=first_of(ld, wrong),
        )
    wrong = (ld > default) & (ld * op.type.bits % (8 * nbytes) != 0) & active  # the text's own strides are not checked
    if wrong.any():
        odd = first_of(ld, wrong)
        report(
            "wmma-alignment",
            f"the stride of {odd} elements is {odd * op.type.bits // 8} bytes, not a multiple of {nbytes} bytes, the size of the fragment",
            wrong,
            advice=f"pad lines to a multiple of {nbytes} bytes",
            stride=odd,
        )
    return ld


def _accumulator_legal(op: Op) -> str | None:
    name = op.type.name
    return (
        None
        if op.shape in ACCUMULATORS[name]
        else f".{name} accumulators have the shapes " + ", ".join(ACCUMULATORS[name])
    )


@instruction(
    f"wmma.load.c.sync.aligned.layout.shape{{.space}}.type r, [p]{{, stride}}; .type = {{ .f16, .f32, .s32, .f64 }}; {_LAYOUT} {ALL_SHAPES} {_SPACE}",
    anchor="warp-level-matrix-instructions-wmma-ld",
    types={"r": lambda op: accumulator_type(op.type), "stride": ".u32"},
    vectors={"r": lambda op: accumulator_count(op.type, op.shape)},
    needs=(70, (6, 3)),
    legal=_accumulator_legal,
    gates=GATES,
    traits=Traits(matrix=Matrix.LOAD, opaque_fragments=True),
)
@instruction(
    f"""
    wmma.load.a.sync.aligned.layout.shape{{.space}}.type r, [p]{{, stride}};
    wmma.load.b.sync.aligned.layout.shape{{.space}}.type r, [p]{{, stride}};
    .type = {{ .f16, .bf16, .tf32, .f64, .s8, .u8, .s4, .u4, .b1 }};  {_LAYOUT} {ALL_SHAPES} {_SPACE}
    """,
    anchor="warp-level-matrix-instructions-wmma-ld",
    types={"r": lambda op: register_type(op.type), "stride": ".u32"},
    vectors={"r": lambda op: layout.multiplicand(_operand(op), op.shape, op.type.name).registers},
    exact={"r": only_bits("type")},
    needs=(70, (6, 3)),
    legal=_load_legal,
    gates=GATES,
    traits=Traits(matrix=Matrix.LOAD, opaque_fragments=True),
)
def wmma_load(
    op: Op,
    p: Address,
    stride: Lanes | None = None,
    *,
    memory: MemoryPort,
    lane: Lanes,
    device: DevicePort,
    active: Lanes,
    report: ReportPort,
) -> Registers:
    """Load a fragment: the words of narrow elements, of others each element."""
    bits, fragment, by_row = op.type.bits, _fragment(op, device.sm), _by_row(op)
    ld = _stride(op, p, stride, fragment, memory, active, report)
    per = fragment.per_register
    word = op.type if op.type.name in ("f32", "s32", "f64") else TYPES["b32"]
    type = word if per == 1 or bits < 8 else TYPES[f"u{bits}"]
    out = []
    for first in range(0, fragment.distinct, per):
        parts = []
        for h in range(0, per, per if type is word else 1):
            at = memory.shifted(p, _place(fragment, lane, first + h, ld, by_row=by_row) * bits // 8)
            part = memory.load(op.space or "", at, type)[0]
            parts.append(part if type is word else part.astype(np.uint32) << np.uint32(h * bits))
        out.append(functools.reduce(np.bitwise_or, parts))
    if op.type is not word and register_type(op.type).name == "s32":
        out = [held.view(np.int32) for held in out]
    return tuple(out * (fragment.registers // len(out)))


@instruction(
    f"wmma.store.d.sync.aligned.layout.shape{{.space}}.type [p], r{{, stride}}; .type = {{ .f16, .f32, .s32, .f64 }}; {_LAYOUT} {ALL_SHAPES} {_SPACE}",
    anchor="warp-level-matrix-instructions-wmma-st",
    types={"r": lambda op: accumulator_type(op.type), "stride": ".u32"},
    vectors={"r": lambda op: accumulator_count(op.type, op.shape)},
    needs=(70, (6, 3)),
    legal=_accumulator_legal,
    gates=GATES,
    traits=Traits(matrix=Matrix.STORE, opaque_fragments=True),
)
def wmma_store(
    op: Op,
    p: Address,
    r: Registers,
    stride: Lanes | None = None,
    *,
    memory: MemoryPort,
    lane: Lanes,
    device: DevicePort,
    active: Lanes,
    report: ReportPort,
) -> None:
    """Store an accumulator fragment."""
    half, fragment, by_row = op.type.name == "f16", _fragment(op, device.sm), _by_row(op)
    held = [part for register in r for part in halves(register.view(np.uint32), "u2")] if half else r
    ld = _stride(op, p, stride, fragment, memory, active, report)
    for number, value in enumerate(held):
        at = memory.shifted(p, _place(fragment, lane, number, ld, by_row=by_row) * op.type.bits // 8)
        memory.store(op.space or "", at, TYPES["u16"] if half else op.type, (value,))
