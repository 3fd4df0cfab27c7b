"""wgmma against exact arithmetic: layouts of shared memory and registers, types, scales, and how sums are cut."""

import contextlib
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import warpsim

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8, "u8": np.uint8,
}  # fmt: skip
A_AT, B_AT, SIZE = 0, 8192, 24576
MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def k_major(matrix, span):
    """(bytes, leading, stride) of rows of K as the table of canonical layouts has them: 8 rows of a span each, swizzled."""
    rows, width = matrix.shape[0], matrix.shape[1] * matrix.itemsize
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(rows, width)
    unit = span or 16
    stride = 8 * unit * (1 if span else -(-width // 16))
    out = np.zeros(rows // 8 * stride, np.uint8)
    for r in range(rows):
        for k in range(width):
            at = r // 8 * stride + r % 8 * unit + k // unit * 128 + k % unit
            if span:
                at ^= (at >> 7 & span // 16 - 1) << 4
            out[at] = raw[r, k]
    return out, 128, stride


def mn_major(matrix):
    """The same for a transposed operand in 128-byte swizzle: K rows of 64 elements of M or N, 8 rows in an atom."""
    width, depth = matrix.shape  # [M or N, K]
    raw = np.ascontiguousarray(matrix.T).view(np.uint8).reshape(depth, width * 2)
    out = np.zeros(-(-width // 64) * depth * 128, np.uint8)
    for k in range(depth):
        for byte in range(width * 2):
            at = byte // 128 * depth * 128 + k * 128 + byte % 128
            out[at ^ (at >> 7 & 7) << 4] = raw[k, byte]
    return out, depth * 128, 1024


def descriptor(start, leading, stride, span):
    """The bits of a matrix descriptor (PTX ISA, matrix descriptor format)."""
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | MODES[span] << 62


def run(
    opcode,
    a,
    b,
    *,
    d_type="f32",
    c=None,
    spans=(0, 0),
    transposed=(0, 0),
    tail="",
    in_registers="",
    scale_d=1,
    meta=None,
    selector=0,
):
    """D of one wgmma on A ``[64, K]``, which may be ``in_registers`` of a type, and B ``[N, K]``."""
    n = b.shape[0]
    image = np.zeros(SIZE, np.uint8)
    descriptors = []
    for at, matrix, span, turned in ((A_AT, a, spans[0], transposed[0]), (B_AT, b, spans[1], transposed[1])):
        raw, leading, stride = mn_major(matrix) if turned else k_major(matrix, span)
        image[at : at + raw.size] = raw
        descriptors.append(descriptor(at, leading, stride, 128 if turned else span))
    per = 2 if d_type == "f16" else 1
    count = n // 2 // per
    d = np.zeros((128, count), np.uint32) if c is None else accumulators(c)
    names = ",".join(f"d{i}" for i in range(count))
    registers = {"d": d, "p": np.int32(scale_d)}
    left = f"0x{descriptors[0]:x}"
    lines = ["setp.ne.s32 q, p, 0;"]
    if in_registers:
        registers["a"] = a_fragment(a).view(np.float32 if in_registers == "f32" else np.uint32)
        left = "{a0,a1,a2,a3}"
    else:
        lines.append(f"mov.b64 da, {left};")
        left = "da"
    extra = ""
    if meta is not None:
        registers["e"] = meta
        extra = f" e, {selector},"
    lines.append(f"mov.b64 db, 0x{descriptors[1]:x};")
    lines.append("wgmma.fence.sync.aligned;")
    lines.append(f"{opcode} {{{names}}}, {left}, db,{extra} q{tail};")
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    kind = {"f32": ".f32", "f16": ".b32", "s32": ".s32"}[d_type]
    declared = f".reg {kind} d<{count}>; .reg .b64 da, db; .reg .pred q; .reg .s32 p; .reg .{in_registers or 'b32'} a<4>; .reg .b32 e;\n"
    found = warpsim.run(declared + "\n".join(lines), registers=registers, warps=4, shared=image)
    stack = np.stack([found.registers[f"d{i}"] for i in range(count)], axis=1)
    return matrix_of(stack, d_type)


def place(thread, index):
    """Row and column of element ``index`` of a thread's accumulator (PTX ISA, wgmma .m64nNk16 fragment layout of D)."""
    warp, lane = divmod(thread, 32)
    return 16 * warp + lane // 4 + 8 * (index // 2 % 2), 8 * (index // 4) + lane % 4 * 2 + index % 2


def matrix_of(stack, d_type):
    """D ``[64, N]`` of registers ``[128, count]``."""
    values = stack.view(np.float16) if d_type == "f16" else stack
    out = np.zeros((64, values.shape[1] * 2), values.dtype)
    for t in range(128):
        for i in range(values.shape[1]):
            out[place(t, i)] = values[t, i]
    return out


def accumulators(c):
    """Registers ``[128, count]`` of C ``[64, N]``, one element each."""
    out = np.zeros((128, c.shape[1] // 2), c.dtype)
    for t in range(128):
        for i in range(out.shape[1]):
            out[t, i] = c[place(t, i)]
    return out


def a_fragment(a):
    """Registers ``[128, 4]`` of A ``[64, K]``, 32 bytes of K: register r holds row g + 8 (r % 2), bytes 16 (r / 2) + 4 t."""
    raw = np.ascontiguousarray(a).view(np.uint8).reshape(64, 32)
    out = np.zeros((128, 4), np.uint32)
    for t in range(128):
        warp, lane = divmod(t, 32)
        for r in range(4):
            row, at = 16 * warp + lane // 4 + 8 * (r % 2), 16 * (r // 2) + lane % 4 * 4
            out[t, r] = raw[row, at : at + 4].view(np.uint32)[0]
    return out


def integers(dtype, rows, width, seed):
    """Small integers, exact in every type."""
    low = 0 if dtype == np.uint8 else -6
    return np.random.default_rng(seed).integers(low, 7, (rows, width)).astype(dtype)


KINDS = [
    ("f16", "f32", "", 16, ", 1, 1, 0, 0"), ("bf16", "f32", "", 16, ", 1, 1, 0, 0"), ("tf32", "f32", "", 8, ", 1, 1"),
    ("e4m3", "f32", "", 32, ", 1, 1"), ("e5m2", "f32", "", 32, ", 1, 1"), ("s8", "s32", "", 32, ""), ("u8", "s32", "", 32, ""), ("f16", "f16", "", 16, ", 1, 1, 0, 0"),
]  # fmt: skip


@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize(("kind", "d_type", "_", "k", "tail"), KINDS)
def test_small_integers_are_exact(kind, d_type, _, k, tail, span):
    """Every type, with every swizzle of A and B: integers come out exactly."""
    a, b = integers(DTYPES[kind], 64, k, 1), integers(DTYPES[kind], 24, k, 2)
    d = run(
        f"wgmma.mma_async.sync.aligned.m64n24k{k}.{d_type}.{kind}.{kind}",
        a,
        b,
        d_type=d_type,
        spans=(span, span),
        tail=tail,
    )

    assert d.astype(int).tolist() == (a.astype(int) @ b.astype(int).T).tolist()


@pytest.mark.parametrize(
    ("kind", "k", "tail", "types"),
    [
        ("f16", 16, ", 1, 1, 0", "b32 f16x2"),
        ("tf32", 8, ", 1, 1", "b32 f16x2"),
        ("e4m3", 32, ", 1, 1", "b32 f16x2"),
        ("s8", 32, "", "b32 u32 s32 f32 f16x2"),
    ],
)
def test_a_in_registers(kind, k, tail, types):
    """A's fragment in registers of any type that ptxas takes: the same product as from shared memory."""
    a, b = integers(DTYPES[kind], 64, k, 1), integers(DTYPES[kind], 16, k, 2)
    d_type = "s32" if kind == "s8" else "f32"
    opcode = f"wgmma.mma_async.sync.aligned.m64n16k{k}.{d_type}.{kind}.{kind}"
    for type in types.split():
        d = run(opcode, a, b, d_type=d_type, tail=tail, in_registers=type)
        assert d.astype(int).tolist() == (a.astype(int) @ b.astype(int).T).tolist()


@pytest.mark.parametrize("transposed", [(0, 1), (1, 0), (1, 1)])
def test_transposed_operands(transposed):
    """Operands whose consecutive elements run along M or N."""
    a, b = integers(np.float16, 64, 16, 1), integers(np.float16, 64, 16, 2)
    tail = f", 1, 1, {transposed[0]}, {transposed[1]}"
    d = run("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", a, b, transposed=transposed, tail=tail)

    assert d.astype(int).tolist() == (a.astype(int) @ b.astype(int).T).tolist()


@pytest.mark.parametrize(
    ("scales", "scale_d", "factor", "kept"),
    [((1, 1), 1, 1, 1), ((-1, 1), 1, -1, 1), ((1, -1), 0, -1, 0), ((-1, -1), 1, 1, 1)],
)
def test_scales_and_the_accumulator(scales, scale_d, factor, kept):
    """A and B are negated by their scales; scale-d 0 leaves out the accumulator."""
    a, b, c = integers(np.float16, 64, 16, 1), integers(np.float16, 8, 16, 2), integers(np.float32, 64, 8, 3)
    d = run(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        a,
        b,
        c=c,
        scale_d=scale_d,
        tail=f", {scales[0]}, {scales[1]}, 0, 0",
    )

    assert d.tolist() == (factor * (a.astype(int) @ b.astype(int).T) + kept * c).tolist()


def test_satfinite():
    """Integer totals are clamped once."""
    a, b = np.full((64, 32), 127, np.int8), np.full((8, 32), -128, np.int8)
    c = np.full((64, 8), -(2**31) + 100, np.int32)
    wrapped = run("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8", a, b, d_type="s32", c=c)
    clamped = run("wgmma.mma_async.sync.aligned.m64n8k32.s32.satfinite.s8.s8", a, b, d_type="s32", c=c)

    assert set(wrapped.reshape(-1).tolist()) == {-(2**31) + 100 - 127 * 128 * 32 + 2**32}
    assert set(clamped.reshape(-1).tolist()) == {-(2**31)}


def cut(value, exponent, bits):
    """A Fraction toward zero to ``bits`` fraction bits below an exponent."""
    unit = Fraction(2) ** (exponent - bits)
    whole = abs(value) // unit * unit
    return whole if value >= 0 else -whole


def exponent_of(value):
    """floor(log2) of a nonzero Fraction."""
    top = abs(value)
    e = top.numerator.bit_length() - top.denominator.bit_length()
    return e if top >= Fraction(2) ** e else e - 1


def tensor_core(a, b, c, bits, result_bits):
    """One output by the rules read off an H100 (README, limits): terms cut below the largest exponent, an exact sum, cut again."""
    terms = [
        (Fraction(float(x)) * Fraction(float(y)), exponent_of(Fraction(float(x))) + exponent_of(Fraction(float(y))))
        for x, y in zip(a, b, strict=True)
        if x and y
    ]
    if c:
        terms.append((Fraction(float(c)), exponent_of(Fraction(float(c)))))
    if not terms:
        return 0.0
    top = max(e for _, e in terms)
    total = sum(cut(v, top, bits) for v, _ in terms)
    return float(cut(total, exponent_of(total), result_bits)) if total else 0.0


@pytest.mark.parametrize(
    ("kind", "k", "bits", "result_bits", "tail"),
    [
        ("f16", 16, 25, 23, ", 1, 1, 0, 0"),
        ("bf16", 16, 25, 23, ", 1, 1, 0, 0"),
        ("tf32", 8, 25, 23, ", 1, 1"),
        ("e4m3", 32, 13, 13, ", 1, 1"),
    ],
)
def test_sums_are_cut(kind, k, bits, result_bits, tail):
    """Terms of very different size: fraction bits below the largest exponent are lost, and the result is cut."""
    rng = np.random.default_rng(4)
    spread = 2.0 ** rng.integers(-5, 6, (72, k))
    values = (rng.uniform(1, 2, (72, k)) * rng.choice([-1, 1], (72, k)) * spread).astype(DTYPES[kind])
    if kind == "tf32":
        values = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    a, b = values[:64], values[64:]
    c = (rng.standard_normal((64, 8)) * 100).astype(np.float32)
    d = run(f"wgmma.mma_async.sync.aligned.m64n8k{k}.f32.{kind}.{kind}", a, b, c=c, tail=tail)
    rows = range(0, 64, 5)
    expected = [[tensor_core(a[i], b[j], c[i, j], bits, result_bits) for j in range(8)] for i in rows]

    assert d[list(rows)].tolist() == expected


def test_sparse_a():
    """Of four elements of K two are stored; metadata says which."""
    rng = np.random.default_rng(7)
    full = np.zeros((64, 32), np.float16)
    stored = np.zeros((64, 16), np.float16)
    meta = np.zeros((128,), np.uint32)
    for r in range(64):
        word = 0
        for chunk in range(8):
            first, second = sorted(rng.choice(4, 2, replace=False).tolist())
            values = rng.integers(-6, 7, 2)
            full[r, 4 * chunk + first], full[r, 4 * chunk + second] = values
            stored[r, 2 * chunk : 2 * chunk + 2] = values
            word |= (first | second << 2) << 4 * chunk
        thread, upper = 32 * (r // 16) + 4 * (r % 8), r // 8 % 2
        for half in range(2):  # lane 4g + half holds chunks 4 half to 4 half + 3 of rows g (low bits) and g + 8
            meta[thread + half] |= np.uint32((word >> 16 * half & 0xFFFF) << 16 * upper)
    b = integers(np.float16, 16, 32, 2)
    d = run("wgmma.mma_async.sp.sync.aligned.m64n16k32.f32.f16.f16", stored, b, meta=meta, tail=", 1, 1, 0, 0")

    assert d.astype(int).tolist() == (full.astype(int) @ b.astype(int).T).tolist()


def test_infinities():
    """Inf of one sign stays; Inf minus Inf is the canonical NaN."""
    a, b = np.ones((64, 16), np.float16), np.ones((8, 16), np.float16)
    a[0, 3] = np.inf
    a[1, 3], a[1, 4] = np.inf, -np.inf
    d = run("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", a, b, tail=", 1, 1, 0, 0")

    assert set(d[0].tolist()) == {np.inf}
    assert set(d[1].view(np.uint32).tolist()) == {0x7FFFFFFF}
    assert set(d[2:].reshape(-1).tolist()) == {16.0}


@pytest.mark.parametrize(
    ("types", "n", "taken"),
    [
        *[("s32.s8.s8", n, True) for n in (8, 16, 24, 32, 48, 64, 240, 256)],
        *[("s32.s8.s8", n, False) for n in (4, 33, 40, 49, 56, 264)],
        *[("f16.e4m3.e4m3", n, True) for n in (8, 40, 256)],
        *[("f16.e4m3.e4m3", n, False) for n in (4, 12, 264)],
    ],
)
def test_widths(types, n, taken):
    """The manual's lists of N: steps of 8 for floats, of 16 from 32 on for integers."""
    registers = ", ".join(f"r{i}" for i in range(n // (2 if types[0] == "s" else 4) or 1))
    scales = "" if types[0] == "s" else ", 1, 1"
    text = f""".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() {{ .reg .b32 r<200>; .reg .b64 d; .reg .pred p;
    wgmma.mma_async.sync.aligned.m64n{n}k32.{types} {{{registers}}}, d, d, p{scales}; ret; }}"""
    with contextlib.nullcontext() if taken else pytest.raises(warpsim.PtxError):
        warpsim.load(text)


def test_threads_that_can_no_longer_arrive():
    """Those of the warpgroup, not those of the next one, which have exited, too."""
    text = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k() { .reg .b32 r; .reg .b64 d; .reg .f32 f<4>; .reg .pred p;
mov.u64 d, 0; mov.u32 r, %tid.x; and.b32 r, r, 127; setp.lt.u32 p, r, 32; @p exit;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1, f2, f3}, d, d, 0, 1, 1, 0, 0; ret; }
"""
    with pytest.raises(warpsim.ExecutionError, match="threads 0-31 of the warpgroup can no longer arrive"):
        warpsim.load(text)["k"](1, 256, ())
