"""Atomics against a plain sequential oracle: one thread after the other, in the order CTA, warp, lane."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import warpsim

THREADS = 192
CELLS = 7


def signed(x: int, bits: int) -> int:
    """The two's complement value of bits."""
    return x - (x >> bits - 1 << bits)


def real(operation: Callable[[float, float], float], dtype: type) -> Callable[[int, int], int]:
    """An operation on the bits of a floating-point type, rounded once."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")

    def apply(old: int, b: int) -> int:
        x, y = (np.array([v], word).view(dtype)[0] for v in (old, b))
        return int(np.array([operation(float(x), float(y))]).astype(dtype).view(word)[0])

    return apply


def packed(one: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """The same for both halves of a word."""
    return lambda old, b: one(old & 0xFFFF, b & 0xFFFF) | one(old >> 16, b >> 16) << 16


ADD_F16, ADD_BF16 = real(lambda x, y: x + y, np.float16), real(lambda x, y: x + y, ml_dtypes.bfloat16)
OPERATIONS: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "add.u32": (32, lambda o, b: o + b),
    "add.s32": (32, lambda o, b: o + b),
    "add.u64": (64, lambda o, b: o + b),
    "min.u32": (32, min),
    "max.u32": (32, max),
    "min.u64": (64, min),
    "max.u64": (64, max),
    "min.s32": (32, lambda o, b: min(o, b, key=lambda x: signed(x, 32))),
    "max.s32": (32, lambda o, b: max(o, b, key=lambda x: signed(x, 32))),
    "min.s64": (64, lambda o, b: min(o, b, key=lambda x: signed(x, 64))),
    "max.s64": (64, lambda o, b: max(o, b, key=lambda x: signed(x, 64))),
    "and.b32": (32, lambda o, b: o & b),
    "or.b32": (32, lambda o, b: o | b),
    "xor.b32": (32, lambda o, b: o ^ b),
    "and.b64": (64, lambda o, b: o & b),
    "or.b64": (64, lambda o, b: o | b),
    "xor.b64": (64, lambda o, b: o ^ b),
    "inc.u32": (32, lambda o, b: 0 if o >= b else o + 1),
    "dec.u32": (32, lambda o, b: b if o == 0 or o > b else o - 1),
    "exch.b32": (32, lambda o, b: b),
    "exch.b64": (64, lambda o, b: b),
    "add.f32": (32, real(lambda x, y: x + y, np.float32)),
    "add.f64": (64, real(lambda x, y: x + y, np.float64)),
    "add.noftz.f16": (16, ADD_F16),
    "add.noftz.bf16": (16, ADD_BF16),
    "add.noftz.f16x2": (32, packed(ADD_F16)),
    "add.noftz.bf16x2": (32, packed(ADD_BF16)),
}


def places(rng: np.random.Generator, crowded: bool) -> np.ndarray:
    """The index of each thread's cell; nearly all the same where crowded."""
    index = rng.integers(0, CELLS, THREADS)
    return np.where(crowded & (rng.random(THREADS) < 0.95), 3, index).astype(np.uint32)


def operands(operation: str, bits: int, seed: int, crowded: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Initial cells, each thread's operand and the index of its cell."""
    rng = np.random.default_rng(seed)
    name = operation.split(".")[-1]
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}.get(
        name.removesuffix("x2")
    )
    if dtype is None:
        high = 20 if operation[:3] in ("inc", "dec") else 1 << bits
        cells, b = ([int.from_bytes(rng.bytes(8), "little") % high for _ in range(n)] for n in (CELLS, THREADS))
        words = [np.array(v, np.uint64).astype(f"u{bits // 8}") for v in (cells, b)]
    else:
        parts = bits // 8 // np.dtype(dtype).itemsize
        words = [(rng.normal(size=n * parts) * 3).astype(dtype).view(f"u{bits // 8}") for n in (CELLS, THREADS)]
    return words[0], words[1], places(rng, crowded)


def kernel(instruction: str, bits: int, shared: bool) -> str:
    """A kernel in which every thread does one atomic; cells are copied to shared memory and back where asked for."""
    size, register = bits // 8, f".reg .b{bits} b, d, c;"
    place = "mov.u64 base, cells;" if shared else "mov.u64 base, pc;"
    copy_in = f"setp.lt.u32 g, t, {CELLS}; mad.wide.u32 x, t, {size}, pc; mad.wide.u32 y, t, {size}, base;"
    there = f"{copy_in} @g ld.global.b{bits} c, [x]; @g st.shared.b{bits} [y], c; bar.sync 0;" if shared else ""
    back = f"bar.sync 0; @g ld.shared.b{bits} c, [y]; @g st.global.b{bits} [x], c;" if shared else ""
    return f""".version 8.6
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{
    .shared .align 16 .b8 cells[{CELLS * 16}];
    .reg .b64 pc, pb, pi, po, base, x, y, a; .reg .b32 t, i; .reg .pred g; {register}
    ld.param.u64 pc, [p0]; ld.param.u64 pb, [p1]; ld.param.u64 pi, [p2]; ld.param.u64 po, [p3];
    mov.u32 t, %tid.x; {place} {there}
    mad.wide.u32 a, t, 4, pi; ld.global.b32 i, [a];
    mad.wide.u32 a, t, {size}, pb; ld.global.b{bits} b, [a];
    mad.wide.u32 a, i, {size}, base;
    {instruction}
    mad.wide.u32 a, t, {size}, po; st.global.b{bits} [a], d;
    {back} ret; }}"""


@pytest.mark.parametrize(
    ("operation", "crowded", "space"),
    [
        pytest.param(o, crowded, space, marks=[pytest.mark.long] * ((number + crowded) % 2 == (space == "shared")))
        for number, o in enumerate(OPERATIONS)
        for crowded in (False, True)
        for space in ("global", "shared")
    ],
)
def test_atom(operation: str, crowded: bool, space: str) -> None:
    """atom gives each thread the value that the threads before it left, and leaves the last one's."""
    bits, update = OPERATIONS[operation]
    cells, b, index = operands(operation, bits, 11, crowded)
    memory, old = [int(x) for x in cells], []
    for value, i in zip(b.tolist(), index.tolist(), strict=True):
        old.append(memory[i])
        memory[i] = update(memory[i], value) & (1 << bits) - 1
    out = np.zeros(THREADS, b.dtype)

    warpsim.load(kernel(f"atom.{space}.{operation} d, [a], b;", bits, space == "shared"))["k"](
        (1,), (THREADS,), (cells, b, index, out)
    )

    assert memory == cells.tolist()
    assert old == out.tolist()


REDUCTIONS = [f"red.global.{o}" for o in OPERATIONS if not o.startswith("exch")]
ASYNCHRONOUS = ["add.u32", "add.u64", "inc.u32", "dec.u32", "min.s32", "max.u32", "and.b32", "or.b32", "xor.b32"]


@pytest.mark.parametrize("instruction", REDUCTIONS + [f"red.async.release.gpu.global.{o}" for o in ASYNCHRONOUS])
def test_red(instruction: str) -> None:
    """red leaves in memory what atom leaves; red.async, too, when it is done."""
    operation = instruction.split("global.")[1]
    bits, update = OPERATIONS[operation]
    cells, b, index = operands(operation, bits, 12)
    memory = [int(x) for x in cells]
    for value, i in zip(b.tolist(), index.tolist(), strict=True):
        memory[i] = update(memory[i], value) & (1 << bits) - 1
    out = np.zeros(THREADS, b.dtype)

    text = (
        kernel(f"mov.b{bits} d, b; {instruction} [a], b;", bits, False).replace("8.6", "8.7").replace("sm_90", "sm_100")
    )
    warpsim.load(text)["k"]((1,), (THREADS,), (cells, b, index, out))

    assert memory == cells.tolist()


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("crowded", [False, True])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_cas(bits: int, space: str, crowded: bool) -> None:
    """atom.cas writes only where the old value is the expected one."""
    rng = np.random.default_rng(13)
    word = np.dtype(f"u{bits // 8}")
    cells, b = rng.integers(0, 3, CELLS).astype(word), rng.integers(0, 3, THREADS).astype(word)
    index = places(rng, crowded)
    memory, old = cells.tolist(), []
    for value, i in zip(b.tolist(), index.tolist(), strict=True):
        old.append(memory[i])
        memory[i] = (value ^ 1) if memory[i] == value else memory[i]
    out = np.zeros(THREADS, word)

    text = kernel(f"xor.b{bits} c, b, 1; atom.{space}.cas.b{bits} d, [a], b, c;", bits, space == "shared")
    warpsim.load(text)["k"]((1,), (THREADS,), (cells, b, index, out))

    assert old == out.tolist()
    assert memory == cells.tolist()


def test_cas_and_exchange_of_128_bits() -> None:
    """atom.cas.b128 and atom.exch.b128 compare and move whole 16-byte values."""
    text = """.version 8.6
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 p0, .param .u64 p1) {
    .reg .b64 pc, po, x, y; .reg .b128 d, e, f; .reg .b32 t; .reg .b64 w;
    ld.param.u64 pc, [p0]; ld.param.u64 po, [p1];
    mov.u32 t, %tid.x; cvt.u64.u32 w, t; mov.b128 e, {w, w}; add.u64 x, w, 1; mov.b128 f, {x, x};
    atom.global.cas.b128 d, [pc], e, f;
    mad.wide.u32 y, t, 16, po; st.global.b128 [y], d;
    atom.global.exch.b128 d, [pc+16], e; st.global.b128 [y+512], d; ret; }"""
    cells, out = np.zeros(4, np.uint64), np.zeros(128, np.uint64)
    cells[2:] = 99

    warpsim.load(text)["k"]((1,), (32,), (cells, out))

    assert cells.tolist() == [32, 32, 31, 31]
    assert [t for t in range(32) for _ in range(2)] == out[:64].tolist()
    assert [99, 99] + [t for t in range(31) for _ in range(2)] == out[64:].tolist()


@pytest.mark.parametrize(
    ("instruction", "dtype", "update"),
    [
        ("add.noftz.v4.f16", np.float16, lambda x, y: x + y),
        ("min.noftz.v4.f16", np.float16, min),
        ("max.noftz.v4.bf16", ml_dtypes.bfloat16, max),
        ("add.v4.f32", np.float32, lambda x, y: x + y),
    ],
)
def test_vectors(instruction: str, dtype: type, update: Callable[[float, float], float]) -> None:
    """A vector atomic does the same to each of its elements."""
    one = real(update, dtype)
    bits = np.dtype(dtype).itemsize * 8
    rng = np.random.default_rng(14)
    start = (rng.normal(size=4) * 3).astype(dtype)
    b = (rng.normal(size=128) * 3).astype(dtype)
    memory = start.view(f"u{bits // 8}").tolist()
    for thread in range(32):
        memory = [
            one(m, int(v)) for m, v in zip(memory, b.view(f"u{bits // 8}")[4 * thread : 4 * thread + 4], strict=True)
        ]
    text = f""".version 8.6
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 p0, .param .u64 p1) {{
    .reg .b64 pc, pb, x; .reg .b{bits} v<4>, d<4>; .reg .b32 t;
    ld.param.u64 pc, [p0]; ld.param.u64 pb, [p1]; mov.u32 t, %tid.x; mad.wide.u32 x, t, {bits // 2}, pb;
    ld.global.v4.b{bits} {{v0, v1, v2, v3}}, [x];
    atom.global.{instruction} {{d0, d1, d2, d3}}, [pc], {{v0, v1, v2, v3}};
    red.global.{instruction} [pc+{bits // 2}], {{v0, v1, v2, v3}}; ret; }}"""
    cells = np.concatenate([start, start])

    warpsim.load(text)["k"]((1,), (32,), (cells, b))

    assert memory * 2 == cells.view(f"u{bits // 8}").tolist()


def test_64_bits_of_shared_memory_by_one_thread_of_each_cta() -> None:
    """The bits are stored whatever the type: of 1.5 + 2 and of the smaller of -3 and 2."""
    text = """
.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 po) {
    .reg .b32 c; .reg .b64 o, x, y; .reg .f64 f; .reg .s64 s;
    .shared .align 8 .b8 cells[16];
    ld.param.u64 o, [po]; mov.u32 c, %ctaid.x; mad.wide.u32 o, c, 16, o;
    st.shared.f64 [cells], 0d3FF8000000000000; st.shared.s64 [cells+8], -3;
    atom.shared.add.f64 f, [cells], 0d4000000000000000; atom.shared.min.s64 s, [cells+8], 2;
    ld.shared.b64 x, [cells]; ld.shared.b64 y, [cells+8]; st.global.b64 [o], x; st.global.b64 [o+8], y; ret;
}"""
    out = np.zeros((3, 2), np.int64)
    warpsim.load(text)["k"]((3,), (1,), (out,))
    assert (out[:, 0].copy().view(np.float64) == 3.5).all()
    assert (out[:, 1] == -3).all()


def test_vectors_are_aligned_as_a_whole() -> None:
    """A vector faults where its address is no multiple of its size, on an H200, too (tools/recordings/vector_alignment.cu)."""
    for line in (Path(__file__).parent / "vector_alignment_h200.txt").read_text().splitlines():
        name, *codes = line.split()
        count, bits = int((re.findall(r"\.v(\d)", name) or [1])[0]), 16 if name.endswith("f16") else 32
        for offset, code in zip((2, 4, 8), codes, strict=True):
            values = ", ".join(["v"] * count)
            b = f"{{{values}}}" if count > 1 else values
            d = f"{{{', '.join(f'd{k}' for k in range(count))}}}, " if name.startswith("atom") else ""
            text = f""".version 8.6
            .target sm_90
            .address_size 64
            .visible .entry k(.param .u64 p0) {{
            .reg .b64 p; .reg .b{bits} v, d<4>;
            ld.param.u64 p, [p0]; mov.b{bits} v, {0x3C003C00 >> 32 - bits}; {name} {d}[p+{offset}], {b}; ret; }}"""
            data = np.zeros(64, np.uint8)
            result = warpsim.load(text)["k"]((1,), (32,), (data,), on_finding="collect")
            assert [f.rule for f in result.findings] == ["misaligned"] * (code == "716"), (name, offset)
            assert data.any() == (code == "0")


QUIET, OTHER, SIGNALLING, NEGATIVE = 0x7FF8 << 48, 0x7FF8_0000_0000_0777, 0x7FF0_0000_0000_0001, 0xFFF0_0000_0000_0123
INFINITY, ONE = 0x7FF << 52, 0x3FF << 52


@pytest.mark.parametrize(
    ("old", "b", "expected"),
    [
        (SIGNALLING, ONE, SIGNALLING),
        (ONE, NEGATIVE, NEGATIVE),
        (QUIET, SIGNALLING, SIGNALLING),
        (SIGNALLING, OTHER, OTHER),
        (NEGATIVE, INFINITY, NEGATIVE),
        (INFINITY, INFINITY | 1 << 63, QUIET | 1 << 63),
    ],
)
@pytest.mark.parametrize("opcode", ["red.global.add.f64 [pi], w;", "atom.global.add.f64 v, [pi], w;"])
def test_f64_nans_in_global_memory(opcode: str, old: int, b: int, expected: int) -> None:
    """As an H200 has it: a NaN is not made quiet, and that of the operand goes before the old one."""
    text = f"""
    .version 8.6
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 p) {{
    .reg .b64 pi, v, w;
    ld.param.u64 pi, [p]; ld.global.b64 w, [pi+8]; {opcode}
    ret; }}"""
    memory = np.array([old, b], np.uint64)
    warpsim.load(text)["k"]((1,), (1,), (memory,))

    assert hex(expected) == hex(memory[0])
