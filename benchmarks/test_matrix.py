"""The matrix core, one kind of operands after the other, beside a product in f32, in float64 and the model written plainly.

512 warps at once, and one; `test_kernel` is the same in a kernel, with what a step costs around it. Divide by 512.
"""

import numpy as np
import pytest

import warpsim
from warpsim.numerics import emulated, matrix, plain_matrix

F = np.float32
WARPS = 512
DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8}
"""K of each type."""


def numbers(kind, *shape):
    """Bits of normal random numbers, ``[K, ...]``."""
    values = np.random.default_rng(len(shape)).standard_normal(shape).astype(F)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    return (bits >> np.uint32(16)).astype(np.uint16) if kind == "bf16" else bits


@pytest.mark.parametrize("warps", [1, WARPS])
@pytest.mark.parametrize("kind", DEPTHS)
def test_mma(benchmark, kind, warps):
    """m16n8k16 (tf32: k8) into f32 on an H100."""
    k = DEPTHS[kind]
    a, b, c = numbers(kind, k, 16, 1, warps), numbers(kind, k, 1, 8, warps), np.zeros((16, 8, warps), F)
    benchmark(lambda: matrix.dot_add(a, b, c, kind, 90))


@pytest.mark.parametrize("sm", [89, 90, 120])
def test_fp8(benchmark, sm):
    """m16n8k32 of e4m3: 13 fraction bits, two f16 products, 25 fraction bits."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 120, shape).astype(np.uint8) for shape in ((32, 16, 1, WARPS), (32, 1, 8, WARPS)))
    c = np.zeros((16, 8, WARPS), F)
    benchmark(lambda: emulated.dot_fp8(a, b, c, ("e4m3", "e4m3"), sm))


def test_integers(benchmark):
    """m16n8k32 of s8."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((WARPS, 16, 32), (WARPS, 32, 8)))
    c = np.zeros((WARPS, 16, 8), np.int32)
    benchmark(lambda: plain_matrix.dot_integer(a, b, c, saturate=False))


def test_wgmma(benchmark):
    """m64n256k16 of f16."""
    a, b, c = numbers("f16", 16, 1, 64, 1), numbers("f16", 16, 1, 1, 256), np.zeros((1, 64, 256), F)
    benchmark(lambda: matrix.dot_add(a, b, c, "f16", 90))


def test_f32_products(benchmark):
    """What NumPy takes for the products of 512 warps, rounded in its own way."""
    a, b = np.ones((WARPS, 16, 16), F), np.ones((WARPS, 16, 8), F)
    benchmark(lambda: np.matmul(a, b))


def test_in_float64(benchmark):
    """``numerics="ieee"``: from bits, rounded once."""
    a, b = numbers("f16", WARPS, 16, 16), numbers("f16", WARPS, 16, 8)
    c = np.zeros((WARPS, 16, 8), F)
    benchmark(lambda: plain_matrix.dot_ieee(a, b, c, ("f16", "f16")))


def plainly(a, b, c):
    """The model as it is said, of finite f16 with normal results: ``[W, M, K]``, ``[W, K, N]``, ``[W, M, N]``."""
    x, y = a.view(np.float16).astype(np.float64)[..., None], b.view(np.float16).astype(np.float64)[:, None]
    products = x * y
    exponents = np.maximum(np.frexp(x)[1] - 1, -14) + np.maximum(np.frexp(y)[1] - 1, -14)
    of_c = np.where(c == 0, -200, np.frexp(c)[1] - 1)
    top = np.maximum(np.where(products == 0, -200, exponents).max(axis=2), of_c)
    total = np.trunc(np.ldexp(products, 25 - top[:, :, None])).sum(axis=2) + np.trunc(
        np.ldexp(c.astype(np.float64), 25 - top)
    )
    cut = (total.view(np.int64) & -(1 << 29)).view(np.float64)
    return np.ldexp(cut, top - 25).astype(F)


def test_plainly(benchmark):
    """The same bits by frexp and ldexp."""
    a, b = numbers("f16", WARPS, 16, 16), numbers("f16", WARPS, 16, 8)
    c = np.zeros((WARPS, 16, 8), F)
    d = benchmark.pedantic(plainly, (a, b, c), rounds=3)

    left, right = a.transpose(2, 1, 0)[:, :, None], b.transpose(1, 2, 0)[:, None]
    assert np.array_equal(d.transpose(1, 2, 0), matrix.dot_add(left, right, c.transpose(1, 2, 0), "f16", 90))


REGISTERS = {"f32.f16.f16.f32": "m16n8k16", "f32.e4m3.e4m3.f32": "m16n8k32", "s32.s8.s8.s32": "m16n8k32"}


@pytest.mark.parametrize("ctas", [1, WARPS])
@pytest.mark.parametrize("types", REGISTERS)
def test_kernel(benchmark, types, ctas):
    """A hundred mma in a loop; operands are random bits without the highest of their exponents', so that all is finite."""
    text = f""".version 9.0\n.target sm_90a\n.address_size 64
    .visible .entry k(.param .u64 out) {{ .reg .b32 a<4>, b<2>, c<4>, i, t; .reg .b64 q, w; .reg .pred p;
    mov.u32 t, %tid.x; mov.u32 i, %ctaid.x; mad.lo.u32 t, i, 32, t; ld.param.u64 q, [out];
    {" ".join(f"mad.lo.u32 {r}, t, {2654435761 + 40503 * n}, {n}; and.b32 {r}, {r}, 0xbfbfbfbf;" for n, r in enumerate(("a0", "a1", "a2", "a3", "b0", "b1")))}
    {" ".join(f"mov.b32 c{n}, 0;" for n in range(4))} mov.u32 i, 0;
    L: mma.sync.aligned.{REGISTERS[types]}.row.col.{types} {{c0, c1, c2, c3}}, {{a0, a1, a2, a3}}, {{b0, b1}}, {{c0, c1, c2, c3}};
    add.u32 i, i, 1; setp.lt.u32 p, i, 100; @p bra L;
    mul.wide.u32 w, t, 16; add.u64 q, q, w; st.global.v4.b32 [q], {{c0, c1, c2, c3}}; ret; }}"""
    kernel = warpsim.load(text)["k"]
    out = np.zeros((ctas, 32, 4), np.uint32)
    benchmark.pedantic(kernel, ((ctas,), (32,), (out,)), rounds=3)
