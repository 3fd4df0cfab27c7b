"""wmma (PTX ISA: Warp-level matrix instructions: wmma): every shape and type."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.spec import Op, Scope, instruction
from warpsim.layout import fragments
from warpsim.layout import wmma_fragments as layout
from warpsim.numerics import floating, matrix
from warpsim.types import TYPES, ScalarType

Lanes = Any
Registers = tuple[Lanes, ...]
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
_SHAPE = ".shape = { .m16n16k16, .m8n32k16, .m32n8k16, .m16n16k8, .m8n8k4, .m8n8k32, .m8n8k128 };"
_SPACE = ".space = { .global, .shared, .shared::cta };"
_LAYOUT = ".layout = { .row, .col };"


def _operand(op: Op) -> str:
    return "a" if op.text.startswith("wmma.load.a") else "b"


def _load_legal(op: Op) -> str | None:
    name = op.type.name
    if op.shape not in SHAPES[name]:
        return f".{name} multiplicands have the shapes " + ", ".join(SHAPES[name])
    if layout.BITS[name] < 8 and op.layout != ("row" if _operand(op) == "a" else "col"):
        return f".{name} is only .row for a and .col for b"
    return None


def _register_type(type: ScalarType) -> ScalarType:
    return {"f16": TYPES["f16x2"], "f64": TYPES["f64"]}.get(type.name, TYPES["b32"])


def _shifted(memory: Any, p: Any, row: Lanes, column: Lanes, stride: Lanes, inner: str, bits: int) -> Any:
    """The address of an element: ``inner`` is the index that runs along memory."""
    outer, along = (row, column) if inner == "column" else (column, row)
    return memory.shifted(p, (outer * stride + along) * bits // 8)


def _stride(stride: Lanes, default: int) -> Lanes:
    return np.int64(default) if stride is None else stride.astype(np.int64)


@instruction(
    f"""
    wmma.load.a.sync.aligned.layout.shape{{.space}}.type r, [p]{{, stride}};
    wmma.load.b.sync.aligned.layout.shape{{.space}}.type r, [p]{{, stride}};
    .type = {{ .f16, .bf16, .tf32, .f64, .s8, .u8, .s4, .u4, .b1 }};  {_LAYOUT} {_SHAPE} {_SPACE}
    """,
    anchor="warp-level-matrix-instructions-wmma-ld",
    types={"r": lambda op: _register_type(op.type), "stride": ".u32"},
    vectors={"r": lambda op: layout.registers(_operand(op), op.shape, op.type.name)},
    version=(6, 0),
    target=70,
    legal=_load_legal,
    gates=GATES,
)
def wmma_load(op: Op, p: Any, stride: Lanes = None, *, memory: Any, lane: Lanes) -> Registers:
    """Load a multiplicand fragment."""
    operand, name, bits = _operand(op), op.type.name, op.type.bits
    m, n, k = layout.dimensions(op.shape)
    along_k = (op.layout == "row") == (operand == "a")
    ld = _stride(stride, k if along_k else (m if operand == "a" else n))
    out = []
    for register in range(len(layout.tiles(operand, op.shape, name))):
        per = max(32 // bits, 1)
        if bits < 8 or (along_k and per == 1):
            line, depth = layout.multiplicand_place(operand, op.shape, name, register, 0, lane)
            at = memory.shifted(p, (line * ld + depth) * bits // 8)
            out.append(memory.load(op.space or "", at, TYPES["f64" if bits == 64 else "b32"])[0])
            continue
        word: Any = None
        for h in range(per):
            line, depth = layout.multiplicand_place(operand, op.shape, name, register, h, lane)
            place = line * ld + depth if along_k else depth * ld + line
            at = memory.shifted(p, place * (bits // 8))
            part = memory.load(op.space or "", at, op.type if bits == 64 else TYPES[f"u{bits}"])[0]
            if bits < 32:
                part = part.astype(np.uint32) << np.uint32(h * bits)
            word = part if word is None else word | part
        out.append(word)
    if len(out) == 1:
        return out[0]
    return tuple(out * (8 // len(out))) if name == "f16" else tuple(out)


def _accumulator_legal(op: Op) -> str | None:
    name = op.type.name
    return (
        None
        if op.shape in ACCUMULATORS[name]
        else f".{name} accumulators have the shapes " + ", ".join(ACCUMULATORS[name])
    )


def _accumulator_count(type: ScalarType, shape: str) -> int:
    count = 2 * len(layout.accumulator(shape))
    return count // 2 if type.name == "f16" else count


def _accumulator_type(type: ScalarType) -> ScalarType:
    return TYPES["f16x2"] if type.name == "f16" else type


@instruction(
    f"wmma.load.c.sync.aligned.layout.shape{{.space}}.type r, [p]{{, stride}}; .type = {{ .f16, .f32, .s32, .f64 }}; {_LAYOUT} {_SHAPE} {_SPACE}",
    anchor="warp-level-matrix-instructions-wmma-ld",
    types={"r": lambda op: _accumulator_type(op.type), "stride": ".u32"},
    vectors={"r": lambda op: _accumulator_count(op.type, op.shape)},
    version=(6, 0),
    target=70,
    legal=_accumulator_legal,
    gates=GATES,
)
def wmma_load_c(op: Op, p: Any, stride: Lanes = None, *, memory: Any, lane: Lanes) -> Registers:
    """Load an accumulator fragment."""
    m, n, _ = layout.dimensions(op.shape)
    ld = _stride(stride, n if op.layout == "row" else m)
    type = op.type if op.type.bits >= 32 else TYPES["u16"]
    out = []
    for register in range(2 * len(layout.accumulator(op.shape))):
        row, column = layout.accumulator_place(op.shape, register, lane)
        at = _shifted(memory, p, row, column, ld, "column" if op.layout == "row" else "row", op.type.bits)
        out.append(memory.load(op.space or "", at, type)[0])
    if op.type.name != "f16":
        return tuple(out)
    return tuple(
        out[k].astype(np.uint32) | (out[k + 1].astype(np.uint32) << np.uint32(16)) for k in range(0, len(out), 2)
    )


@instruction(
    f"wmma.store.d.sync.aligned.layout.shape{{.space}}.type [p], r{{, stride}}; .type = {{ .f16, .f32, .s32, .f64 }}; {_LAYOUT} {_SHAPE} {_SPACE}",
    anchor="warp-level-matrix-instructions-wmma-st",
    types={"r": lambda op: _accumulator_type(op.type), "stride": ".u32"},
    vectors={"r": lambda op: _accumulator_count(op.type, op.shape)},
    version=(6, 0),
    target=70,
    legal=_accumulator_legal,
    gates=GATES,
)
def wmma_store(op: Op, p: Any, r: Registers, stride: Lanes = None, *, memory: Any, lane: Lanes) -> None:
    """Store an accumulator fragment."""
    m, n, _ = layout.dimensions(op.shape)
    ld = _stride(stride, n if op.layout == "row" else m)
    half = op.type.name == "f16"
    for register in range(2 * len(layout.accumulator(op.shape))):
        row, column = layout.accumulator_place(op.shape, register, lane)
        at = _shifted(memory, p, row, column, ld, "column" if op.layout == "row" else "row", op.type.bits)
        value = (
            (r[register >> 1].view(np.uint32) >> np.uint32(16 * (register & 1))).astype(np.uint16)
            if half
            else r[register]
        )
        memory.store(op.space or "", at, TYPES["u16"] if half else op.type, (value,))


# ---- wmma.mma -----------------------------------------------------------------------------------

_LAYOUTS = ".alayout = { .row, .col };  .blayout = { .row, .col };"


@instruction(
    f"""
    wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype d, a, b, c;
    .shape = {{ .m16n16k16, .m8n32k16, .m32n8k16 }};  .dtype = {{ .f16, .f32 }};  .ctype = {{ .f16, .f32 }};  {_LAYOUTS}
    """,
    anchor="warp-level-matrix-instructions-wmma-mma",
    scope=Scope.WARP,
    types={
        "d": lambda op: _accumulator_type(op.dtype),
        "a": ".f16x2",
        "b": ".f16x2",
        "c": lambda op: _accumulator_type(op.ctype),
    },
    vectors={
        "d": lambda op: _accumulator_count(op.dtype, op.shape),
        "a": lambda op: 8,
        "b": lambda op: 8,
        "c": lambda op: _accumulator_count(op.ctype, op.shape),
    },
    version=(6, 0),
    target=70,
)
def wmma_mma_f16(op: Op, a: Registers, b: Registers, c: Registers, *, device: Any) -> Registers:
    """f16 multiplicands; C of another type than D is converted first, D last."""
    n, m = fragments.extent((*a, *b, *c))
    if op.ctype.name == "f16":
        halves = [(x.view(np.uint32) >> np.uint32(s)).astype(np.uint16).view(np.float16) for x in c for s in (0, 16)]
        accumulator = layout.gather_accumulator(op.shape, tuple(halves), n, m)
        if op.dtype.name == "f32":
            accumulator = accumulator.astype(np.float32)
    else:
        accumulator = layout.gather_accumulator(op.shape, c, n, m)
    x, y = layout.gather("a", op.shape, "f16", a, n, m), layout.gather("b", op.shape, "f16", b, n, m)
    result = _float_product(x, y, accumulator, "f16", device)
    if op.dtype.name == "f32":
        return layout.scatter_accumulator(op.shape, result, n, m)
    if result.dtype == np.float32:
        nan = np.isnan(result)
        result = result.astype(np.float16)
        result.view(np.uint16)[nan] = 0x7FFF
    parts = [
        np.ascontiguousarray(r).view(np.uint16).astype(np.uint32)
        for r in layout.scatter_accumulator(op.shape, result, n, m)
    ]
    return tuple(parts[k] | (parts[k + 1] << np.uint32(16)) for k in range(0, len(parts), 2))


def _float_product(x: Lanes, y: Lanes, accumulator: Lanes, name: str, device: Any) -> Lanes:
    if device.numerics == "ieee":
        return matrix.dot_ieee(x, y, accumulator, name)
    if name != "tf32":
        return matrix.dot_add(x, y, accumulator, name, device.sm)
    for k in range(0, x.shape[0], 4):  # HMMA.1684 on every generation
        accumulator = matrix.dot_add(x[k : k + 4], y[k : k + 4], accumulator, name, device.sm)
    return accumulator


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
    {_LAYOUTS}  {_SHAPE}
    """,
    anchor="warp-level-matrix-instructions-wmma-mma",
    scope=Scope.WARP,
    types={
        "d": "dtype",
        "a": lambda op: _register_type(op.atype),
        "b": lambda op: _register_type(op.btype),
        "c": "ctype",
    },
    vectors={
        "d": lambda op: _accumulator_count(op.dtype, op.shape),
        "a": lambda op: layout.registers("a", op.shape, op.atype.name),
        "b": lambda op: layout.registers("b", op.shape, op.btype.name),
        "c": lambda op: _accumulator_count(op.ctype, op.shape),
    },
    version=(6, 3),
    target=72,
    legal=_mixed_legal,
    gates=GATES,
)
def wmma_mma(op: Op, a: Registers, b: Registers, c: Registers, *, device: Any) -> Registers:
    """bf16, tf32, f64 and integer multiplicands."""
    n, m = fragments.extent((*a, *b, *c))
    x = layout.gather("a", op.shape, op.atype.name, a, n, m)
    y = layout.gather("b", op.shape, op.btype.name, b, n, m)
    accumulator = layout.gather_accumulator(op.shape, c, n, m)
    if op.dtype.name == "s32":
        result = matrix.dot_integer(x, y, accumulator, op.satfinite)
    elif op.dtype.name == "f64":
        result = accumulator
        for left, right in zip(x, y, strict=True):
            result = floating.fma64(left[:, None], right[None], result, op.rnd or "rn")
    else:
        result = _float_product(x, y, accumulator, op.atype.name, device)
    return layout.scatter_accumulator(op.shape, result, n, m)


@instruction(
    """
    wmma.mma.op.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 d, a, b, c;
    .op = { .xor, .and };
    """,
    anchor="warp-level-matrix-instructions-wmma-mma",
    scope=Scope.WARP,
    types={"d": ".s32", "a": ".b32", "b": ".b32", "c": ".s32"},
    vectors={"d": lambda op: 2, "a": lambda op: 1, "b": lambda op: 1, "c": lambda op: 2},
    version=(6, 3),
    target=75,
    gates={"and": (80, (7, 1))},
    legal=lambda op: None if op.modifiers.index("row") < op.modifiers.index("col") else ".row comes before .col",
)
def wmma_mma_b1(op: Op, a: Registers, b: Registers, c: Registers) -> Registers:
    """Population counts of combined bit rows."""
    n, m = fragments.extent((*a, *b, *c))
    x, y = (layout.gather(o, "m8n8k128", "b1", v, n, m) for o, v in (("a", a), ("b", b)))
    result = layout.gather_accumulator("m8n8k128", c, n, m)
    for left, right in zip(x, y, strict=True):
        both = left[:, None] ^ right[None] if op.op == "xor" else left[:, None] & right[None]
        result = result + np.bitwise_count(both).astype(np.int32)
    return layout.scatter_accumulator("m8n8k128", result, n, m)
