"""`warpsim.mma`: whole matrices through one instruction."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpsim

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
PRODUCTS = {  # instruction: m, n, k, least and greatest factor, dtype of A and B, of D
    F16: (16, 8, 16, -4, 4, np.float16, np.float32),
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16": (16, 8, 8, -4, 4, np.float16, np.float16),
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": (16, 8, 8, -4, 4, np.float32, np.float32),
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": (16, 8, 16, -4, 4, ml_dtypes.bfloat16, np.float32),
    "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32": (16, 8, 32, 0, 99, np.int64, np.int32),
    "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f16": (8, 8, 4, -4, 4, np.float16, np.float32),
    "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16": (8, 8, 4, -4, 4, np.float16, np.float16),
    "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64": (16, 8, 16, -9, 9, np.float64, np.float64),
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32": (16, 8, 32, -2, 2, np.float32, np.float32),
    "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m3.f32": (16, 8, 32, -2, 2, np.float32, np.float32),
    "mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32": (16, 8, 64, 0, 7, np.int8, np.int32),
    "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc": (16, 8, 256, 0, 1, np.uint8, np.int32),
    "wmma.mma.sync.aligned.col.row.m16n16k16.f16.f32": (16, 16, 16, -4, 4, np.float64, np.float16),
    "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64": (8, 8, 4, -4, 4, np.float64, np.float64),
    "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32": (8, 8, 32, -8, 7, np.int8, np.int32),
    "wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32": (8, 8, 128, 0, 1, np.bool_, np.int32),
    "wmma.mma.sync.aligned.row.col.m32n8k16.s32.u8.u8.s32": (32, 8, 16, 0, 255, np.uint8, np.int32),
    "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16": (64, 24, 16, -4, 4, np.float16, np.float32),
    "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32": (64, 8, 8, -4, 4, np.float32, np.float32),
    "wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e5m2": (64, 8, 32, -2, 2, np.float32, np.float16),
    "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.s8": (64, 16, 32, -9, 9, np.int64, np.int32),
    "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc": (64, 8, 256, 0, 1, np.int64, np.int32),
}


@pytest.mark.parametrize("instruction", PRODUCTS)
def test_products_of_small_integers(instruction):
    """Every element stands where it belongs: products of small integers are exact in every unit."""
    m, n, k, least, most, dtype, d_type = PRODUCTS[instruction]
    rng = np.random.default_rng(5)
    a, b = rng.integers(least, most + 1, (2, 3, m, k)), rng.integers(least, most + 1, (3, k, n))
    c = rng.integers(-50, 50, (m, n))
    target = "sm_120a" if "kind" in instruction else "sm_90a"
    d = warpsim.mma(instruction, a=a.astype(dtype), b=b.astype(dtype), c=c.astype(d_type), target=target)

    assert d.dtype == d_type
    assert d.shape == (2, 3, m, n)
    np.testing.assert_array_equal(a @ b + c, d.astype(np.int64))


@pytest.mark.parametrize(
    ("instruction", "count"),
    [
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 600),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", 3),
    ],
)
def test_many_products(instruction, count):
    """More products than fit one launch: each is that of its own matrices."""
    m, n, k = (int(size) for size in re.search(r"m(\d+)n(\d+)k(\d+)", instruction).groups())
    rng = np.random.default_rng(6)
    a, b, c = (rng.integers(-4, 5, (count, *shape)) for shape in ((m, k), (k, n), (m, n)))
    dtype = np.float64 if "f64" in instruction else np.float16
    d = warpsim.mma(instruction, a=a.astype(dtype), b=b.astype(dtype), c=c.astype(dtype))

    np.testing.assert_array_equal(a @ b + c, d.astype(np.int64))


def test_a_matrix_of_another_instruction():
    """A of m8n8k4 is none of an instruction whose A has 32 rows."""
    with pytest.raises(warpsim.LaunchError, match=r"a must have shape \[..., 32, 16\], not \[8, 4\]"):
        warpsim.mma(
            "wmma.mma.sync.aligned.row.col.m32n8k16.s32.u8.u8.s32",
            a=np.zeros((8, 4), np.uint8),
            b=np.zeros((16, 8), np.uint8),
            c=np.zeros((32, 8), np.int32),
        )


SPARSE = {  # instruction: k, elements of a chunk of k, greatest factor
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": (16, 4, 4),
    "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32": (32, 4, 4),
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32": (16, 2, 4),
    "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32": (64, 4, 9),
    "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32": (128, 8, 7),
    "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32": (64, 4, 2),
    "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e4m3.e3m2.f32": (64, 4, 2),
    "wgmma.mma_async.sp.sync.aligned.m64n24k32.f32.f16.f16": (32, 4, 4),
    "wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.tf32.tf32": (16, 2, 4),
    "wgmma.mma_async.sp.sync.aligned.m64n16k64.s32.s8.u8": (64, 4, 9),
    "wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e5m2": (64, 4, 2),
}


@pytest.mark.parametrize("form", SPARSE)
def test_sparse_products(form):
    """Stored elements stand where the metadata says: two of four, of 4-bit types pairs, of tf32 one of two."""
    k, chunk, most = SPARSE[form]
    m, n = (int(size) for size in re.search(r"m(\d+)n(\d+)", form).groups())
    rng = np.random.default_rng(3)
    a, b = (
        rng.integers(-most, most + 1, (2, m, k // 2)),
        rng.integers(0 if "u8" in form else -most, most + 1, (2, k, n)),
    )
    c, full, chunks = rng.integers(-9, 9, (2, m, n)), np.zeros((2, m, k), np.int64), np.arange(k // chunk)
    if chunk == 2:
        second = rng.integers(0, 2, (2, m, k // 2))
        e = np.where(second, 0b1110, 0b0100)
        np.put_along_axis(full, 2 * chunks + second, a, 2)
    else:
        pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])[rng.integers(0, 6, (2, m, k // chunk))]
        e, width = pairs[..., 0] | pairs[..., 1] << 2, chunk // 4
        for number in range(2):
            for part in range(width):
                place = chunk * chunks + width * pairs[..., number] + part
                np.put_along_axis(full, place, a[:, :, number * width + part :: 2 * width], 2)
    given = {"a": a, "b": b, "c": c} if "s32" in form else {"a": a * 1.0, "b": b * 1.0, "c": c * 1.0}
    d = warpsim.mma(form, **given, e=e, target="sm_120a" if "kind" in form else "sm_90a")
    np.testing.assert_array_equal(full @ b + c, d)


SCALED = {  # shape, kind and types: k, scales of a row
    "m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e2m1.f32.ue8m0": (32, 1),
    "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0": (64, 2),
    "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3": (64, 4),
}


@pytest.mark.parametrize("form", SCALED)
def test_block_scales(form):
    """Each chunk of a row of A and of a column of B has its own power of two."""
    k, count = SCALED[form]
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(-2, 3, shape) * 1.0 for shape in ((16, k), (k, 8), (16, 8)))
    scale_a, scale_b = 2.0 ** rng.integers(-2, 3, (16, count)), 2.0 ** rng.integers(-2, 3, (count, 8))
    text = "mma.sync.aligned." + form
    d = warpsim.mma(text, a=a, b=b, c=c, scale_a=scale_a, scale_b=scale_b, target="sm_120a")
    wide = k // count
    expected = (a * np.repeat(scale_a, wide, 1)) @ (b * np.repeat(scale_b, wide, 0)) + c
    np.testing.assert_array_equal(expected, d)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_a_batch_is_its_members(seed, count):
    """A batch gives each member's bits; raw bits and values are the same matrices."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 1 << 16, (count, 16, 16), np.uint16)
    b = rng.integers(0, 1 << 16, (count, 16, 8), np.uint16)
    c = rng.integers(0, 1 << 32, (count, 16, 8), np.uint32)
    together = warpsim.mma(F16, a=a, b=b, c=c, bits=True)
    alone = [
        warpsim.mma(F16, a=x.view(np.float16), b=y.view(np.float16), c=z.view(np.float32))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    np.testing.assert_array_equal(together, np.stack(alone).view(np.uint32))


def test_as_a_kernel_does_it():
    """The same bits as ldmatrix, mma and plain stores in a kernel."""
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((16, 16)).astype(np.float16), rng.standard_normal((16, 8)).astype(np.float16)
    c = rng.standard_normal((16, 8)).astype(np.float32)
    text = f""".version 8.0
    .target sm_80
    .address_size 64
    .visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd) {{
    .reg .b64 q, g; .reg .b32 a<4>, b<2>, t, s, w; .reg .f32 c<4>; .shared .align 128 .b8 smem[768];
    mov.u32 t, %laneid; mov.u32 s, smem;
    ld.param.u64 q, [pa]; mul.wide.u32 g, t, 16; add.u64 q, q, g; mad.lo.u32 s, t, 16, s;
    .reg .b32 x<4>; ld.global.v4.b32 {{x0, x1, x2, x3}}, [q]; st.shared.v4.b32 [s], {{x0, x1, x2, x3}};
    ld.param.u64 q, [pb]; mul.wide.u32 g, t, 8; add.u64 q, q, g; mov.u32 s, smem; mad.lo.u32 s, t, 8, s;
    ld.global.v2.b32 {{x0, x1}}, [q]; st.shared.v2.b32 [s+512], {{x0, x1}}; bar.sync 0;
    and.b32 w, t, 15; mov.u32 s, smem; mad.lo.u32 s, w, 32, s; shr.u32 w, t, 4; mad.lo.u32 s, w, 16, s;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{a0, a1, a2, a3}}, [s];
    and.b32 w, t, 15; mov.u32 s, smem; mad.lo.u32 s, w, 16, s;
    ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {{b0, b1}}, [s+512];
    ld.param.u64 q, [pd]; shr.u32 w, t, 2; mul.wide.u32 g, w, 32; add.u64 q, q, g;
    and.b32 w, t, 3; mul.wide.u32 g, w, 8; add.u64 q, q, g;
    ld.global.v2.f32 {{c0, c1}}, [q]; ld.global.v2.f32 {{c2, c3}}, [q+256];
    {F16} {{c0, c1, c2, c3}}, {{a0, a1, a2, a3}}, {{b0, b1}}, {{c0, c1, c2, c3}};
    st.global.v2.f32 [q], {{c0, c1}}; st.global.v2.f32 [q+256], {{c2, c3}}; ret; }}
    """
    d = c.copy()
    warpsim.load(text)["k"]((1,), (32,), (a, b, d))
    found = warpsim.mma(F16, a=a, b=b, c=c, target="sm_80")
    np.testing.assert_array_equal(d.view(np.uint32), found.view(np.uint32))


def test_the_gpu_decides():
    """2^0 and a term of 2^-24 beside -2^0: kept with 24 fraction bits or more, cut with 23 (a V100)."""
    a = np.zeros((16, 16), np.float16)
    a[0, :3] = 1, -1, 2.0**-12
    b = np.zeros((16, 16), np.float16)
    b[:3, 0] = 1, 1, 2.0**-12
    text = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
    found = [warpsim.mma(text, a=a, b=b, c=0.0, target=sm)[0, 0] for sm in ("sm_70", "sm_80", "sm_90")]

    assert found == [0.0, 2.0**-24, 2.0**-24]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"instruction": "add.f32"}, "is not an mma, wmma"),
        ({"instruction": 3}, "is not an mma, wmma"),
        ({"instruction": F16 + " d, a, b, c"}, "is not an mma, wmma"),
        ({"instruction": "wmma.load.a.sync.aligned.row.m16n16k16.f16"}, "does not compute a product"),
        ({"instruction": F16.replace("k16", "k32")}, ".m16n8k16"),
        ({"a": np.zeros((16, 8))}, "a must have shape [..., 16, 16]"),
        ({"b": np.zeros(())}, "b must have shape [..., 16, 8]"),
        ({"a": np.zeros((2, 16, 16)), "b": np.zeros((3, 16, 8))}, "leading dimensions"),
        ({"a": np.zeros((16, 16), "U1")}, "numbers"),
        ({"a": np.full((16, 16), None)}, "numbers"),
        ({"a": [[1, 2], [3]]}, "not a matrix"),
        ({"e": np.zeros((16, 4))}, "takes no e"),
        ({"scale_b": 1}, "takes no scale_b"),
        ({"bits": True}, "unsigned integers"),
        ({"target": "sm_1"}, "sm_1"),
        (
            {"instruction": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "a": np.full((16, 32), 200)},
            "-128 to 127",
        ),
        ({"instruction": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "a": np.full((16, 32), 0.5)}, "integers"),
    ],
)
def test_what_does_not_fit_is_said(change, words):
    """Every misuse is a LaunchError that says what was expected."""
    given = {"instruction": F16, "a": np.zeros((16, 16)), "b": np.zeros((16, 8)), "c": 0.0, **change}
    with pytest.raises(warpsim.LaunchError) as error:
        warpsim.mma(given.pop("instruction"), **given)

    assert words in str(error.value)


ENDS = {  # type: an instruction, its k, an operand of the type, the least and the greatest number of its bits
    "s32": ("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", 16, "c", -(1 << 31), (1 << 31) - 1),
    "s8": ("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32", 16, "a", -128, 127),
    "u8": ("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32", 16, "b", 0, 255),
    "s4": ("mma.sync.aligned.m16n8k32.row.col.s32.s4.u4.s32", 32, "a", -8, 7),
    "u4": ("mma.sync.aligned.m16n8k32.row.col.s32.s4.u4.s32", 32, "b", 0, 15),
    "b1": ("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc", 128, "a", 0, 1),
}


@pytest.mark.parametrize("kind", ENDS)
def test_ends_of_a_type(kind):
    """The least and the greatest number are taken, those beyond them are not."""
    instruction, k, name, least, most = ENDS[kind]
    shapes = {"a": (16, k), "b": (k, 8), "c": (16, 8)}
    given = {other: np.zeros(shape, np.int64) for other, shape in shapes.items()}
    for value in (least, most):
        given[name] = np.full(shapes[name], value)
        found = warpsim.mma(instruction, **given)
        np.testing.assert_array_equal(found, given["a"] @ given["b"] + given["c"])
    for value in (least - 1, most + 1):
        given[name] = np.full(shapes[name], value)
        with pytest.raises(
            warpsim.LaunchError, match=rf"^{name} \(\.{kind}\) takes values from {least} to {most}, not"
        ):
            warpsim.mma(instruction, **given)


def test_a_form_of_another_target_is_a_ptx_error():
    """The assembler's verdict, with the instruction in full."""
    with pytest.raises(warpsim.PtxError, match="sm_80"):
        warpsim.mma(F16, a=np.zeros((16, 16)), b=np.zeros((16, 8)), c=0.0, target="sm_75")


@pytest.mark.parametrize(("form", "most"), [
    ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", 4),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32", 7),
    ("mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32", 7),
])  # fmt: skip
def test_one_small_product(form, most):
    """Four bits an element, of so few elements that they are unpacked in another way than many."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0 if "u4" in form else -most, most + 1, (16, 32)), rng.integers(-most, most + 1, (32, 8))
    if "e2m1" in form:
        a, b = a // 2 * 2.0, b // 2 * 2.0
    d = warpsim.mma(form, a=a, b=b, c=np.zeros((16, 8), a.dtype), target="sm_120a" if "kind" in form else "sm_80")

    np.testing.assert_array_equal(a @ b, d)


TENSOR = {  # instruction: k, dtype of A and B, of D
    "tcgen05.mma.cta_group::1.kind::f16.m128n64.f32.bf16.f16": (16, np.float32, np.float32),
    "tcgen05.mma.cta_group::1.kind::f16.m64n16.f16.f16.f16": (16, np.float16, np.float16),
    "tcgen05.mma.ws.cta_group::1.kind::tf32.m32n64": (8, np.float32, np.float32),
    "tcgen05.mma.ws.cta_group::1.kind::f8f6f4.m64n64.f32.e3m2.e2m1": (32, np.float32, np.float32),
    "tcgen05.mma.kind::i8.m128n8.s32.u8.s8": (32, np.int64, np.int32),
    "tcgen05.mma.sp.kind::f16.m64n16": (32, np.float32, np.float32),
    "tcgen05.mma.sp.kind::i8.m128n8.s32.s8.s8": (64, np.int64, np.int32),
}


@pytest.mark.parametrize("instruction", TENSOR)
def test_products_of_a_tensor_core(instruction):
    """tcgen05.mma, whose M and N are among the modifiers; sparse A has the first and the last of four elements."""
    k, dtype, result = TENSOR[instruction]
    m, n = (int(size) for size in re.search(r"m(\d+)n(\d+)", instruction).groups())
    rng, sparse = np.random.default_rng(1), ".sp." in instruction
    a, b = rng.integers(0, 4, (2, m, k // (1 + sparse))), rng.integers(-3, 4, (k, n))
    c, full = rng.integers(-9, 9, (m, n)), a
    if sparse:
        full = np.zeros((2, m, k), np.int64)
        full[..., ::4], full[..., 3::4] = a[..., ::2], a[..., 1::2]
    e = {"e": np.full((m, k // 4), 0b1100)} if sparse else {}
    d = warpsim.mma(instruction, a=a.astype(dtype), b=b.astype(dtype), c=c.astype(result), **e, target="sm_100a")

    assert d.dtype == result
    np.testing.assert_array_equal(full @ b + c, d)


@pytest.mark.parametrize(
    ("words", "k", "size", "n"),
    [
        ("mxf8f6f4.block_scale.m128n48.e4m3.e2m3.ue8m0", 32, 1, 48),
        ("mxf4.block_scale.m128n8", 64, 2, 8),
        ("mxf4nvf4.block_scale.block16.m128n16.ue4m3", 64, 4, 16),
    ],
)
def test_scaled_products_of_a_tensor_core(words, k, size, n):
    """Scale factors are powers of two."""
    rng = np.random.default_rng(2)
    a, b = rng.integers(-3, 4, (128, k)) * 1.0, rng.integers(-3, 4, (k, n)) * 1.0
    scale_a, scale_b = 2.0 ** rng.integers(-1, 3, (128, size)), 2.0 ** rng.integers(-1, 3, (size, n))
    d = warpsim.mma(f"tcgen05.mma.kind::{words}", a=a, b=b, c=0, scale_a=scale_a, scale_b=scale_b, target="sm_100a")
    x, y = a * np.repeat(scale_a, k // size, axis=1), b * np.repeat(scale_b, k // size, axis=0)

    np.testing.assert_array_equal(x @ y, d)


def test_a_pair_of_ctas_is_refused():
    """Its numbers are those of one CTA."""
    with pytest.raises(warpsim.LaunchError, match="one CTA runs here"):
        warpsim.mma(
            "tcgen05.mma.cta_group::2.kind::f16.m256n32",
            a=np.zeros((256, 16)),
            b=np.zeros((16, 32)),
            c=0,
            target="sm_100a",
        )
