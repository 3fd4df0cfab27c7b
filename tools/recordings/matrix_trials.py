"""What is tried of mma, wmma and the moves of matrices: one kernel for each form, with the operands of every case.

A kernel runs one CTA a case. It loads its registers, and where the form reads memory its image (to shared memory, or from
where it lies), runs the one instruction, and stores what that wrote.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import matrix_operands as operands
from matrix_kernels import Parts, Trial, kernel, metadata, stacked, vector
from matrix_operands import BITS, CASES, EACH, Draw

FORMS = Path(__file__).parents[2] / "tests" / "data" / "mma_h100.npz"
FILL = 0xA5A5A5A5
"""What is in memory before an instruction stores to it."""

# ---- registers only ------------------------------------------------------------------------------


def register_kernel(name: str, inputs: dict[str, np.ndarray], output: np.ndarray) -> str:
    """A form written as ``opcode d, a, b, c, e, 0;``, its operands replaced by registers."""
    opcode, _, rest = name.split(" #")[0].partition(" ")
    for letter, array in {**inputs, "d": output}.items():
        found = "e0" if letter == "e" else vector(letter, array.shape[2])
        rest = re.sub(rf"\b{letter}\b(?=[,;])", found, rest, count=1)
    return kernel(f"{opcode} {rest}", inputs, output, 32)


def register_trials() -> Iterator[Trial]:
    """mma, mma.sp and movmatrix."""
    with np.load(FORMS) as stored:
        for number, name in enumerate(stored["names"].tolist()):
            counts = {letter: stored[f"{number}_{letter}"].shape[2] for letter in "abcd"}
            sparse = f"{number}_e" in stored.files
            yield Trial(name, "mma.sp" if sparse else "mma", 32, partial(registers, name, counts, sparse))
    yield Trial(MOVMATRIX, "movmatrix", 32, movmatrix)


def registers(name: str, counts: dict[str, int], sparse: bool) -> Parts:
    """A form with so many registers of each operand."""
    d, a, b, c = [word for word in name.split()[0].split(".") if word in BITS][:4]
    shapes = tuple((32, counts[x] * max(32 // BITS[k], 1)) for x, k in zip("abc", (a, b, c), strict=True))
    found = stacked(name, (a, b, c), shapes)
    inputs = {x: operands.packed(v, BITS[k]) for x, v, k in zip("abc", found, (a, b, c), strict=True)}
    output = np.zeros((CASES, 32, counts["d"]), "u8" if d == "f64" else "u4")
    if sparse:
        inputs["e"] = metadata(Draw(name), a != "tf32", "ordered" in name, (CASES, 32, 1))
    return register_kernel(name, inputs, output), inputs, output


MOVMATRIX = "movmatrix.sync.aligned.m8n8.trans.b16"


def movmatrix() -> Parts:
    """Halves of registers."""
    inputs = {"a": operands.packed(Draw("movmatrix").words(CASES, 32, 2) & np.uint64(0xFFFF), 16)}
    output = np.zeros((CASES, 32, 1), np.uint32)
    return kernel(f"{MOVMATRIX} d0, a0;", inputs, output, 32), inputs, output


# ---- rows in shared memory -----------------------------------------------------------------------


def row_trials() -> Iterator[Trial]:
    """ldmatrix and stmatrix: rows anywhere."""
    for count, trans, space in itertools.product((1, 2, 4), ("", ".trans"), ("", ".shared", ".shared::cta")):
        for opcode in ("ldmatrix", "stmatrix"):
            name = f"{opcode}.sync.aligned.m8n8.x{count}{trans}{space}.b16"
            yield Trial(name, opcode, 32, partial(rows, name, count, space))


def rows(name: str, count: int, space: str) -> Parts:
    """A row of 16 bytes for each lane, in an image of 4 KB."""
    draw = Draw(name)
    inputs = {"row": np.argsort(draw.words(CASES, 256), axis=1)[:, :32, None].astype(np.uint32) * 16}
    words = (draw.words(CASES, 1024 + 32 * count) >> np.uint64(32)).astype(np.uint32)
    place, at = ("", "[i]") if space else ("cvt.u64.u32 w, i; cvta.shared.u64 w, w;", "[w]")
    if name.startswith("ldmatrix"):
        output = np.zeros((CASES, 32, count), np.uint32)
        inputs["img"] = np.ascontiguousarray(words[:, :1024])
        arguments = f"{vector('d', count)}, {at}"
    else:
        output = np.zeros((CASES, 1024), np.uint32)
        inputs["r"] = np.ascontiguousarray(words[:, 1024:]).reshape(CASES, 32, count)
        inputs["img"] = np.full((CASES, 1024), FILL, np.uint32)
        arguments = f"{at}, {vector('r', count)}"
    body = f"add.u32 i, sm, row0; {place} {name} {arguments};"
    return kernel(body, inputs, output, 32, image=4096, shared=4096), inputs, output


# ---- wmma ------------------------------------------------------------------------------------------

BIG = ("m16n16k16", "m8n32k16", "m32n8k16")
SMALL_COUNTS = {"m16n16k16": (1, 1), "m8n32k16": (0.5, 2), "m32n8k16": (2, 0.5)}
"""Registers of A and B beside those of m16n16k16."""


def dimensions(shape: str) -> tuple[int, int, int]:
    """M, N and K."""
    m, n, k = re.findall(r"\d+", shape)
    return int(m), int(n), int(k)


def wmma_shapes(kind: str) -> tuple[str, ...]:
    """Shapes of multiplicands."""
    other = {"tf32": "m16n16k8", "f64": "m8n8k4", "s4": "m8n8k32", "u4": "m8n8k32", "b1": "m8n8k128"}
    return (other[kind],) if kind in other else BIG


def wmma_count(letter: str, shape: str, kind: str) -> int:
    """Registers of a fragment."""
    if letter in "cd":
        m, n, _ = dimensions(shape)
        return m * n // 32 // (2 if kind == "f16" else 1)
    if kind == "f16":
        return 8
    base = {"bf16": 4, "s8": 2, "u8": 2}.get(kind)
    if base is None:
        return 4 if kind == "tf32" else 1
    return int(base * SMALL_COUNTS[shape]["ab".index(letter)])


def lines_of(letter: str, layout: str, shape: str) -> tuple[int, int]:
    """How many lines a matrix has in memory, and how many elements a line."""
    m, n, k = dimensions(shape)
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[letter]
    return (rows, columns) if layout == "row" else (columns, rows)


def strides(draw: Draw, line: int, kind: str, cases: int) -> np.ndarray:
    """Elements from line to line: none between, or up to the next multiples of 64 bytes."""
    per = 64 * 8 // BITS[kind]
    wide = -(-line // per) * per
    return draw.pick([line, wide, wide + per], cases).astype(np.uint64)[:, None]


def reach(line: int, lines: int, kind: str) -> int:
    """Bytes of the widest image."""
    per = 64 * 8 // BITS[kind]
    return lines * (-(-line // per) + 1) * 64


MULTIPLICANDS = ("f16", "bf16", "tf32", "f64", "s8", "u8", "s4", "u4", "b1")
SPACES = ("", ".global", ".shared", ".shared::cta")


def wmma_move_trials() -> Iterator[Trial]:
    """wmma.load and wmma.store of every operand, layout, shape, type and space, with and without stride."""
    forms = [
        (letter, layout, shape, kind)
        for letter, kind in itertools.product("ab", MULTIPLICANDS)
        for shape in wmma_shapes(kind)
        for layout in ("row", "col")
        if BITS[kind] >= 8 or layout == ("row" if letter == "a" else "col")
    ] + [
        (letter, layout, shape, kind)
        for letter, (kind, shape), layout in itertools.product("cd", accumulators(), ("row", "col"))
    ]
    for (letter, layout, shape, kind), space, strided in itertools.product(forms, SPACES, (True, False)):
        opcode = f"wmma.{'store' if letter == 'd' else 'load'}.{letter}.sync.aligned.{layout}.{shape}{space}.{kind}"
        name = f"{opcode} {'strided' if strided else 'dense'}"
        build = partial(wmma_move, name, letter, layout, shape, kind, "shared" in space)
        yield Trial(name, "wmma.store" if letter == "d" else "wmma.load", 32, build)


def wmma_move(name: str, letter: str, layout: str, shape: str, kind: str, in_shared: bool) -> Parts:
    """A matrix between memory and registers."""
    draw, (lines, line) = Draw(name), lines_of(letter, layout, shape)
    opcode, how = name.split()
    cases, size, count = 4 * EACH, reach(line, lines, kind), wmma_count(letter, shape, kind)
    shared = size if in_shared else 0
    image = np.full((cases, size // 4), FILL, np.uint32)
    held = np.zeros((cases, 32, count), "u8" if kind == "f64" else "u4")
    inputs: dict[str, np.ndarray] = {}
    stride = ""
    if how == "strided":
        inputs["ld"], stride = strides(draw, line, kind, cases), ", i"
    if letter == "d":
        inputs["r"] = (draw.words(*held.shape) >> np.uint64(64 - 8 * held.itemsize)).astype(held.dtype)
        if shared:
            inputs["img"] = image
        body, output = f"{opcode} [{'sm' if shared else 'out'}], {vector('r', count)}{stride};", image
    else:
        inputs["img"] = (draw.words(*image.shape) >> np.uint64(32)).astype(np.uint32)
        body, output = f"{opcode} {vector('d', count)}, [{'sm' if shared else 'img'}]{stride};", held
    if stride:
        body = f"cvt.u32.u64 i, ld0; {body}"
    return kernel(body, inputs, output, 32, image=shared, shared=shared), inputs, output


def accumulators() -> list[tuple[str, str]]:
    """Types and shapes of C and D."""
    small = [("s32", "m8n8k32"), ("s32", "m8n8k128"), ("f64", "m8n8k4"), ("f32", "m16n16k8")]
    return [*itertools.product(("f16", "f32", "s32"), BIG), *small]


def wmma_products() -> Iterator[tuple[str, str, tuple[str, str, str, str], str, str]]:
    """Instruction, shape, types of D, A, B and C, layouts of A and B."""
    for shape, la, lb in itertools.product(BIG, ("row", "col"), ("row", "col")):
        head = f"wmma.mma.sync.aligned.{la}.{lb}.{shape}"
        for d, c in itertools.product(("f16", "f32"), repeat=2):
            yield f"{head}.{d}.{c}", shape, (d, "f16", "f16", c), la, lb
        yield f"{head}.f32.bf16.bf16.f32", shape, ("f32", "bf16", "bf16", "f32"), la, lb
        for kind, tail in itertools.product(("s8", "u8"), ("", ".satfinite")):
            yield f"{head}.s32.{kind}.{kind}.s32{tail}", shape, ("s32", kind, kind, "s32"), la, lb
    for la, lb in itertools.product(("row", "col"), repeat=2):
        head = f"wmma.mma.sync.aligned.{la}.{lb}"
        yield f"{head}.m16n16k8.f32.tf32.tf32.f32", "m16n16k8", ("f32", "tf32", "tf32", "f32"), la, lb
        for mode in ("", ".rn", ".rz", ".rm", ".rp"):
            yield f"{head}.m8n8k4{mode}.f64.f64.f64.f64", "m8n8k4", ("f64", "f64", "f64", "f64"), la, lb
    for kind, tail in itertools.product(("s4", "u4"), ("", ".satfinite")):
        text = f"wmma.mma.sync.aligned.row.col.m8n8k32.s32.{kind}.{kind}.s32{tail}"
        yield text, "m8n8k32", ("s32", kind, kind, "s32"), "row", "col"
    for op in ("xor", "and"):
        text = f"wmma.mma.{op}.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32"
        yield text, "m8n8k128", ("s32", "b1", "b1", "s32"), "row", "col"


def wmma_mma_trials() -> Iterator[Trial]:
    """wmma.mma between loads and registers."""
    for name, shape, kinds, la, lb in wmma_products():
        yield Trial(name, "wmma.mma", 32, partial(wmma_mma, name, shape, kinds, (la, lb, "row")))


def wmma_mma(name: str, shape: str, types: tuple[str, str, str, str], layouts: tuple[str, str, str]) -> Parts:
    """Matrices in memory, without padding."""
    (m, n, k), (d, *kinds) = dimensions(shape), types
    found = stacked(name, (kinds[0], kinds[1], kinds[2]), ((m * k,), (k * n,), (m * n,)))
    parts = [
        operands.packed(v, BITS[kind]).view(np.uint8).reshape(CASES, -1) for v, kind in zip(found, kinds, strict=True)
    ]
    inputs = {"img": np.concatenate(parts, axis=1).view(np.uint32)}
    starts = np.cumsum([0, *[part.shape[1] for part in parts]])
    body = []
    for letter, kind, layout, start in zip("abc", kinds, layouts, starts, strict=False):
        count = wmma_count(letter, shape, kind)
        body.append(f".reg .{'f64' if kind == 'f64' else 'b32'} {letter}<{count}>;")
        load = f"wmma.load.{letter}.sync.aligned.{layout}.{shape}.global.{kind}"
        body.append(f"add.u64 w, img, {start}; {load} {vector(letter, count)}, [w];")
    counts = [wmma_count(letter, shape, kind) for letter, kind in zip("dabc", types, strict=True)]
    arguments = ", ".join(vector(letter, count) for letter, count in zip("dabc", counts, strict=True))
    output = np.zeros((CASES, 32, counts[0]), "u8" if d == "f64" else "u4")
    return kernel("\n".join([*body, f"{name} {arguments};"]), inputs, output, 32), inputs, output
