"""wmma.load and wmma.store (PTX ISA: Warp-level matrix instructions: wmma.load, wmma.store): fragments and memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from warpsim.isa.ports import DevicePort, ReportPort, first_of
from warpsim.isa.registry import instruction
from warpsim.isa.spec import Op
from warpsim.isa.traits import Matrix, Traits
from warpsim.isa.wmma import (
    ACCUMULATORS,
    ALL_SHAPES,
    GATES,
    SHAPES,
    accumulator_count,
    accumulator_type,
    only_bits,
    register_type,
)
from warpsim.layout import wmma_fragments as layout
from warpsim.layout.fragment import Fragment
from warpsim.numerics.bits import halves, join
from warpsim.types import TYPES

Lanes = Any
Registers = tuple[Lanes, ...]
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


def _stride(
    op: Op, p: Any, stride: Lanes, default: int, fragment: Fragment, memory: Any, active: Lanes, report: ReportPort
) -> Lanes:
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
        return np.int64(default)
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
    version=(6, 3),
    target=70,
    legal=_load_legal,
    gates=GATES,
    traits=Traits(matrix=Matrix.LOAD, opaque_fragments=True),
)
def wmma_load(
    op: Op,
    p: Any,
    stride: Lanes = None,
    *,
    memory: Any,
    lane: Lanes,
    device: DevicePort,
    active: Lanes,
    report: ReportPort,
) -> Registers:
    """Load a multiplicand fragment."""
    operand, name, bits = _operand(op), op.type.name, op.type.bits
    m, n, k = layout.dimensions(op.shape)
    along_k = (op.layout == "row") == (operand == "a")
    fragment = layout.multiplicand(operand, op.shape, name, device.sm, along_k=along_k)
    default = k if along_k else (m if operand == "a" else n)
    ld = _stride(op, p, stride, default, fragment, memory, active, report)
    per = fragment.per_register
    out = []
    for first in range(0, fragment.distinct, per):
        if bits < 8 or (along_k and per == 1):
            line, depth = fragment.place(lane, first)
            at = memory.shifted(p, (line * ld + depth) * bits // 8)
            out.append(memory.load(op.space or "", at, TYPES["f64" if bits == 64 else "b32"])[0])
            continue
        word: Any = None
        for h in range(per):
            line, depth = fragment.place(lane, first + h)
            place = line * ld + depth if along_k else depth * ld + line
            at = memory.shifted(p, place * (bits // 8))
            part = memory.load(op.space or "", at, op.type if bits == 64 else TYPES[f"u{bits}"])[0]
            if bits < 32:
                part = part.astype(np.uint32) << np.uint32(h * bits)
            word = part if word is None else word | part
        out.append(word)
    if register_type(op.type).name == "s32":
        out = [word.view(np.int32) for word in out]
    return tuple(out * (fragment.registers // len(out)))


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
    version=(6, 3),
    target=70,
    legal=_accumulator_legal,
    gates=GATES,
    traits=Traits(matrix=Matrix.LOAD, opaque_fragments=True),
)
def wmma_load_c(
    op: Op,
    p: Any,
    stride: Lanes = None,
    *,
    memory: Any,
    lane: Lanes,
    device: DevicePort,
    active: Lanes,
    report: ReportPort,
) -> Registers:
    """Load an accumulator fragment."""
    type = TYPES["u16"] if op.type.name == "f16" else op.type
    places = _places(op, p, stride, memory, lane, device, active, report)
    out = [memory.load(op.space or "", at, type)[0] for at in places]
    if op.type.name != "f16":
        return tuple(out)
    return tuple(join(low, high) for low, high in zip(out[::2], out[1::2], strict=True))


@instruction(
    f"wmma.store.d.sync.aligned.layout.shape{{.space}}.type [p], r{{, stride}}; .type = {{ .f16, .f32, .s32, .f64 }}; {_LAYOUT} {ALL_SHAPES} {_SPACE}",
    anchor="warp-level-matrix-instructions-wmma-st",
    types={"r": lambda op: accumulator_type(op.type), "stride": ".u32"},
    vectors={"r": lambda op: accumulator_count(op.type, op.shape)},
    version=(6, 3),
    target=70,
    legal=_accumulator_legal,
    gates=GATES,
    traits=Traits(matrix=Matrix.STORE, opaque_fragments=True),
)
def wmma_store(
    op: Op,
    p: Any,
    r: Registers,
    stride: Lanes = None,
    *,
    memory: Any,
    lane: Lanes,
    device: DevicePort,
    active: Lanes,
    report: ReportPort,
) -> None:
    """Store an accumulator fragment."""
    half = op.type.name == "f16"
    held = [part for register in r for part in halves(register.view(np.uint32), "u2")] if half else r
    for value, at in zip(held, _places(op, p, stride, memory, lane, device, active, report), strict=True):
        memory.store(op.space or "", at, TYPES["u16"] if half else op.type, (value,))


def _places(
    op: Op, p: Any, stride: Lanes, memory: Any, lane: Lanes, device: DevicePort, active: Lanes, report: ReportPort
) -> Iterator[Any]:
    """The address of each element of an accumulator fragment."""
    m, n, _ = layout.dimensions(op.shape)
    fragment = layout.accumulator(op.shape, op.type.name, device.sm)
    by_row = op.layout == "row"
    ld = _stride(op, p, stride, n if by_row else m, fragment, memory, active, report)
    for value in range(fragment.values):
        row, column = fragment.place(lane, value)
        place = row * ld + column if by_row else column * ld + row
        yield memory.shifted(p, place * op.type.bits // 8)
