"""Forms that few programs use, against scalar arithmetic and addresses worked out by hand."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import warpsim

ALL = np.arange(32)


def run(code, target="sm_90a", warps=1, **registers):
    """The registers after an instruction sequence."""
    return warpsim.run(code, registers=registers, warps=warps, target=target, checks="none").registers


def floats(seed, count=32):
    """f32 of exponents near zero."""
    rng = np.random.default_rng(seed)
    return np.ldexp(rng.uniform(-2, 2, count), rng.integers(-6, 6, count)).astype(np.float32)


def f32(x):
    """A fraction rounded to f32, which f64 holds exactly or nearly: none of these lies on a tie of f64."""
    return np.float32(float(x))


# ---- newer arithmetic ----------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["add.rn", "sub.rn", "mul.rn", "fma.rn"])
def test_pairs_of_f32(op):
    """.f32x2 does the same on two numbers."""
    x, y, z = (np.stack([floats(3 * k), floats(3 * k + 1)], 1) for k in range(3))
    exact = {
        "add": lambda a, b, c: a + b,
        "sub": lambda a, b, c: a - b,
        "mul": lambda a, b, c: a * b,
        "fma": lambda a, b, c: a * b + c,
    }[op[:3]]
    given = {n: v.view(np.uint64).reshape(32) for n, v in zip("abc", (x, y, z), strict=True)}
    code = f".reg .b64 a, b, c, d; {op}.f32x2 d, a, b{', c' if op == 'fma.rn' else ''};"

    found = run(code, "sm_100a", **given)["d"].view(np.float32).reshape(32, 2)

    wanted = [[f32(exact(*(Fraction(float(v[i, k])) for v in (x, y, z)))) for k in (0, 1)] for i in range(32)]
    assert found.tolist() == wanted


@pytest.mark.parametrize(("half", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_mixed_precision(half, dtype):
    """f32 with a half: the half is widened first; the result is rounded once."""
    a, b, c = floats(1).astype(dtype), floats(2).astype(dtype), floats(3)
    halves = {"a": a.view(np.uint16), "b": b.view(np.uint16), "c": c}
    declared = ".reg .b16 a, b; .reg .f32 c, d; "
    exact = [[Fraction(float(v)) for v in x] for x in (a, b, c)]

    assert run(declared + f"add.f32.{half} d, a, c;", "sm_100a", **halves)["d"].tolist() == [
        f32(x + z) for x, z in zip(exact[0], exact[2], strict=True)
    ]
    assert run(declared + f"sub.f32.{half} d, a, c;", "sm_100a", **halves)["d"].tolist() == [
        f32(x - z) for x, z in zip(exact[0], exact[2], strict=True)
    ]
    assert run(declared + f"fma.rn.f32.{half} d, a, b, c;", "sm_100a", **halves)["d"].tolist() == [
        f32(x * y + z) for x, y, z in zip(*exact, strict=True)
    ]


def test_least_and_greatest_of_three():
    """min and max with three operands, and of absolute values."""
    a, b, c = floats(4), floats(5), floats(6)
    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    for op, function in (("min", min), ("max", max)):
        assert run(f"{op}.f32 d, a, b, c;", "sm_100a", a=a, b=b, c=c)["d"].tolist() == [function(r) for r in rows]
        assert run(f"{op}.abs.f32 d, a, b, c;", "sm_100a", a=a, b=b, c=c)["d"].tolist() == [
            function(map(abs, r)) for r in rows
        ]


def test_redux_of_floats():
    """The least and greatest of a warp's numbers, and of their absolute values."""
    a = floats(7)
    for op, expected in (("min", min(a)), ("max", max(a)), ("min.abs", min(abs(a))), ("max.abs", max(abs(a)))):
        assert set(run(f"redux.sync.{op}.f32 d, a, -1;", "sm_100a", a=a)["d"].tolist()) == {float(expected)}


def test_relaxed_products_of_f64():
    """mad.rnd.f64 is fma; so is a product with an infinity's neighbour: nothing is lost between."""
    a, b, c = (floats(k).astype(np.float64) * (1 + 2.0**-30) for k in (8, 9, 10))
    expected = [
        float(Fraction(x) * Fraction(y) + Fraction(z))
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]

    assert run("mad.rn.f64 d, a, b, c;", a=a, b=b, c=c)["d"].tolist() == expected


@pytest.mark.parametrize(("half", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_out_of_bounds_fma(half, dtype):
    """fma.rn.oob is fma, but 0 where a or b is the NaN that marks what lies outside (PTX ISA: fma, .oob)."""
    a, b, c = (floats(k).astype(dtype).view(np.uint16) for k in (11, 12, 13))
    a[3], b[5] = 0x7FF7, 0xFFF7  # what tensor copies fill with (an H200)
    found = run(f".reg .b16 a, b, c, d, e; fma.rn.oob.{half} d, a, b, c; fma.rn.{half} e, a, b, c;", a=a, b=b, c=c)

    wanted = [0 if k in (3, 5) else int(v) for k, v in enumerate(found["e"].view(np.uint16))]
    if half == "f16":
        clamped = run(".reg .b16 a, b, c, d; fma.rn.oob.sat.f16 d, a, b, c;", a=a, b=b, c=c)["d"].view(np.float16)
        assert clamped.tolist() == [
            min(max(v, 0.0), 1.0) for v in np.array(wanted, np.uint16).view(np.float16).tolist()
        ]
    assert found["d"].view(np.uint16).tolist() == wanted


# ---- small formats -------------------------------------------------------------------------------

E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def nearest_e2m1(x):
    """The code of the nearest value, ties to an even code; too large becomes 6."""
    size = min(range(8), key=lambda k: (abs(Fraction(abs(x)) - Fraction(E2M1[k])), k & 1))
    return size | (8 if math.copysign(1, x) < 0 else 0)


def test_e2m1():
    """cvt to and from two numbers of four bits."""
    a, b = floats(14), floats(15)
    a[:4] = [0.25, 0.75, 100, -0.0]
    found = run(
        ".reg .b8 t; .reg .b16 d; .reg .b32 x; cvt.rn.satfinite.e2m1x2.f32 t, a, b; cvt.u16.u8 d, t;",
        "sm_100a",
        a=a,
        b=b,
    )["d"]
    wanted = [nearest_e2m1(float(x)) << 4 | nearest_e2m1(float(y)) for x, y in zip(a, b, strict=True)]
    assert found.view(np.uint16).tolist() == wanted

    codes = np.arange(32, dtype=np.uint16) * 7 % 256
    found = run(".reg .b8 t; .reg .b16 a; .reg .b32 d; cvt.u8.u16 t, a; cvt.rn.f16x2.e2m1x2 d, t;", "sm_100a", a=codes)[
        "d"
    ]
    values = [[E2M1[n & 7] * (-1) ** (n >> 3) for n in (int(c) & 15, int(c) >> 4)] for c in codes]
    assert found.view(np.uint32).view(np.float16).reshape(32, 2).tolist() == values


def test_small_formats_of_halves():
    """cvt of two halves to e2m1, and of two bf16 to ue8m0: the values of f32 convert alike."""
    a = np.stack([floats(26), floats(27)], 1)
    halves = a.astype(np.float16)
    code = ".reg .b8 t; .reg .b16 d; .reg .b32 a; cvt.rn.satfinite.e2m1x2.f16x2 t, a; cvt.u16.u8 d, t;"
    found = run(code, "sm_100a", a=halves.view(np.uint32).reshape(32))["d"].view(np.uint16)
    assert found.tolist() == [nearest_e2m1(float(y)) << 4 | nearest_e2m1(float(x)) for x, y in halves]
    brains = np.abs(a).astype(ml_dtypes.bfloat16)
    code = ".reg .b16 d; .reg .b32 a; cvt.rp.satfinite.ue8m0x2.bf16x2 d, a;"
    found = run(code, "sm_100a", a=brains.view(np.uint32).reshape(32))["d"].view(np.uint16)
    exponent = [[127 + math.ceil(math.log2(float(v))) for v in row] for row in brains]
    assert found.tolist() == [high << 8 | low for low, high in exponent]


def test_ue8m0():
    """cvt to and from powers of two: up, or toward zero, and exact back."""
    a, b = np.abs(floats(16)), np.abs(floats(17))
    a[:3] = [1, 2, 3]
    for mode, function in (("rz", math.floor), ("rp", math.ceil)):
        found = run(f".reg .b16 d; cvt.{mode}.satfinite.ue8m0x2.f32 d, a, b;", "sm_100a", a=a, b=b)["d"]
        wanted = [
            (127 + function(math.log2(x))) << 8 | (127 + function(math.log2(y)))
            for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ]
        assert found.view(np.uint16).tolist() == wanted
    codes = (np.arange(32, dtype=np.uint16) + 110) * np.uint16(257)
    found = run(".reg .b16 a; .reg .b32 d; cvt.rn.bf16x2.ue8m0x2 d, a;", "sm_100a", a=codes)["d"].view(np.uint32)
    assert found.view(ml_dtypes.bfloat16).astype(np.float64).reshape(32, 2).tolist() == [
        [2.0 ** (int(c & 255) - 127)] * 2 for c in codes
    ]


def test_tf32():
    """cvt.rn.tf32 keeps ten bits of the fraction, ties to even; rz cuts."""
    a = floats(18)
    bits = a.view(np.uint32)
    kept = bits & 0xFFFFE000
    rest = bits & 0x1FFF
    nearest = kept + np.where((rest > 0x1000) | ((rest == 0x1000) & (kept >> 13 & 1 == 1)), 0x2000, 0).astype(np.uint32)

    assert (run("cvt.rz.tf32.f32 d, a;", a=a)["d"].view(np.uint32) & 0xFFFFE000).tolist() == kept.tolist()
    assert (run("cvt.rn.tf32.f32 d, a;", a=a)["d"].view(np.uint32) & 0xFFFFE000).tolist() == nearest.tolist()


# ---- predicates, warps, control ------------------------------------------------------------------


def test_predicates_in_pairs():
    """setp writes a comparison and its opposite, each joined with a predicate; mov copies and negates predicates."""
    a, b, c = floats(19), floats(20), ALL % 3 == 0
    less = a < b
    code = """.reg .pred p<9>; .reg .b32 c; .reg .b32 d; setp.ne.u32 p1, c, 0;
        setp.lt.f32 p2|p3, a, b; setp.lt.and.f32 p4|p5, a, b, !p1; setp.lt.f32 p6|_, a, b; mov.pred p7, !p6;
        setp.lt.or.f32 p8|_, a, b, p1; mov.u32 d, 0;""" + "".join(f"@p{k} or.b32 d, d, {1 << k};" for k in range(2, 9))
    found = run(code, a=a, b=b, c=c.astype(np.uint32))["d"]
    terms = {2: less, 3: ~less, 4: less & ~c, 5: ~less & ~c, 6: less, 7: ~less, 8: less | c}

    assert found.tolist() == [sum(1 << k for k, v in terms.items() if v[i]) for i in range(32)]


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_comparisons_of_halves(half):
    """setp of halves, joined with a predicate, and of two at a time."""
    dtype = np.float16 if half == "f16" else ml_dtypes.bfloat16
    a, b = floats(24, 64).astype(dtype).reshape(32, 2), floats(25, 64).astype(dtype).reshape(32, 2)
    c = ALL % 3 == 0
    less = a < b
    code = f""".reg .pred p<9>; .reg .b32 a, b, c, d; .reg .b16 h<9>; setp.ne.u32 p1, c, 0;
        mov.b32 {{h1, h2}}, a; mov.b32 {{h3, h4}}, b; mov.u32 d, 0;
        setp.lt.{half} p2, h1, h3; setp.lt.and.{half} p3, h1, h3, !p1; setp.lt.{half} p4|_, h2, h4;
        setp.lt.or.{half} p5|_, h2, h4, p1; setp.lt.{half}x2 p6|p7, a, b; setp.lt.xor.{half}x2 p8|_, a, b, p1;"""
    code += "".join(f"@p{k} or.b32 d, d, {1 << k};" for k in range(2, 9))
    found = run(code, a=a.view(np.uint32).reshape(32), b=b.view(np.uint32).reshape(32), c=c.astype(np.uint32))["d"]
    terms = {
        2: less[:, 0],
        3: less[:, 0] & ~c,
        4: less[:, 1],
        5: less[:, 1] | c,
        6: less[:, 0],
        7: less[:, 1],
        8: less[:, 0] ^ c,
    }

    assert found.tolist() == [sum(1 << k for k, v in terms.items() if v[i]) for i in range(32)]


def test_predicates_that_are_constant_or_negated():
    """mov.pred of a negated predicate."""
    code = ".reg .pred p, q; .reg .b32 a, d; setp.ne.u32 p, a, 0; mov.pred q, !p; selp.u32 d, 1, 0, q;"

    assert run(code, a=(ALL % 2).astype(np.uint32))["d"].tolist() == [1 - k % 2 for k in range(32)]


def test_warp_operations_without_sync():
    """vote and shfl of GPUs before sm_70 take all active lanes."""
    a = ALL.astype(np.uint32) * 5 % 32
    text = """.version 6.3
.target sm_60
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b64 %d<3>; .reg .b32 %r<9>; .reg .pred %p<5>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %laneid; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
    ld.global.u32 %r2, [%d1]; setp.gt.u32 %p1, %r2, 15;
    vote.ballot.b32 %r3, %p1; vote.any.pred %p2, %p1; vote.all.pred %p3, %p1;
    shfl.bfly.b32 %r4, %r2, 1, 31;
    selp.u32 %r5, 1, 0, %p2; selp.u32 %r6, 2, 0, %p3; add.u32 %r5, %r5, %r6; mad.lo.u32 %r4, %r4, 4, %r5;
    st.global.u32 [%d1], %r4; st.global.u32 [%d1+128], %r3;
    ret;
}"""
    memory = np.zeros(64, np.uint32)
    memory[:32] = a
    warpsim.load(text)["k"]((1,), (32,), (memory,))

    assert memory[:32].tolist() == [int(a[k ^ 1]) * 4 + 1 for k in range(32)]
    assert set(memory[32:].tolist()) == {sum(1 << k for k in range(32) if a[k] > 15)}


@pytest.mark.parametrize("op", ["popc.u32", "and.pred", "or.pred"])
@pytest.mark.parametrize("name", ["bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red"])
@pytest.mark.parametrize("count", ["", ", 64"])
def test_barrier_reductions(op, name, count):
    """A barrier counts the threads whose predicate holds, or joins the predicates."""
    a = (np.arange(64) % 5 == 0).astype(np.uint32)
    code = f".reg .pred p, q; .reg .b32 a, d; setp.ne.u32 p, a, 0; {name}.{op} {'d' if op[0] == 'p' else 'q'}, 1{count}, !p;"
    code += "" if op[0] == "p" else " selp.u32 d, 1, 0, q;"
    found = run(code, warps=2, a=a)["d"]

    assert set(found.tolist()) == {{"popc.u32": int((a == 0).sum()), "and.pred": 0, "or.pred": 1}[op]}


def test_match_all():
    """match.all gives the mask where all members agree, else 0."""
    for values, expected in ((np.full(32, 7), 0xFFFFFFFF), (ALL // 31, 0)):
        assert set(
            run(".reg .b32 a, d; match.all.sync.b32 d, a, -1;", a=values.astype(np.uint32))["d"]
            .view(np.uint32)
            .tolist()
        ) == {expected}


def test_branch_by_index():
    """brx.idx goes to the label of its table."""
    text = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b64 %d<3>; .reg .b32 %r<9>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %laneid; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
    rem.u32 %r2, %r1, 3; mov.u32 %r3, 9;
    TABLE: .branchtargets A, B, C;
    brx.idx %r2, TABLE;
    A: mov.u32 %r3, 10; bra E;
    B: mov.u32 %r3, 11; bra E;
    C: mov.u32 %r3, 12;
    E: st.global.u32 [%d1], %r3;
    ret;
}"""
    memory = np.zeros(32, np.uint32)
    warpsim.load(text)["k"]((1,), (32,), (memory,))

    assert memory.tolist() == [10 + k % 3 for k in range(32)]


@pytest.mark.parametrize(
    ("minus", "sign_a", "sign_c"), [("{}, {}, {}", 1, 1), ("-{}, {}, {}", -1, 1), ("{}, {}, -{}", 1, -1)]
)
def test_vmad(minus, sign_a, sign_c):
    """A product of parts and a sum, scaled; one of both may be negative; .po adds one."""
    rng = np.random.default_rng(21)
    a, b, c = (rng.integers(-(2**31), 2**31, 32).astype(np.int32) for _ in range(3))
    half = lambda x: (int(x) + 0x8000) % 0x10000 - 0x8000  # noqa: E731
    wrap = lambda x: (x + 2**31) % 2**32 - 2**31  # noqa: E731
    found = run(f".reg .b32 a, b, c, d; vmad.s32.s32.s32 d, {minus.format('a.h0', 'b.h0', 'c')};", a=a, b=b, c=c)["d"]

    assert found.view(np.int32).tolist() == [
        wrap(sign_a * half(x) * half(y) + sign_c * int(z)) for x, y, z in zip(a, b, c, strict=True)
    ]
    if (sign_a, sign_c) == (1, 1):
        for signs in ("a.h0, b.h0", "-a.h0, -b.h0"):
            found = run(f".reg .b32 a, b, c, d; vmad.s32.s32.s32.po.shr7 d, {signs}, c;", a=a, b=b, c=c)["d"]
            wanted = [wrap((half(x) * half(y) + int(z) + 1) >> 7) for x, y, z in zip(a, b, c, strict=True)]
            assert found.view(np.int32).tolist() == wanted


def test_saturating_carries():
    """addc.sat and subc.sat clamp to s32 with the carry counted."""
    a, b = (np.random.default_rng(k).integers(-(2**31), 2**31, 32).astype(np.int32) for k in (22, 23))
    clamp = lambda x: min(max(x, -(2**31)), 2**31 - 1)  # noqa: E731
    code = ".reg .b32 a, b, d, t; add.cc.u32 t, -1, 1; addc.sat.s32 d, a, b;"
    assert run(code, a=a, b=b)["d"].view(np.int32).tolist() == [
        clamp(int(x) + int(y) + 1) for x, y in zip(a, b, strict=True)
    ]
    code = ".reg .b32 a, b, d, t; sub.cc.u32 t, 0, 1; subc.sat.s32 d, a, b;"
    assert run(code, a=a, b=b)["d"].view(np.int32).tolist() == [
        clamp(int(x) - int(y) - 1) for x, y in zip(a, b, strict=True)
    ]


# ---- memory --------------------------------------------------------------------------------------

MEMORY = """.version 8.8
.target TARGET
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b64 %d<4>, %c, %v<4>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b16 %h<9>;
    ld.param.u64 %d1, [p]; mov.u32 %r1, %laneid; mul.wide.u32 %d2, %r1, 64; add.u64 %d1, %d1, %d2;
    createpolicy.fractional.L2::evict_last.b64 %c, 0.5;
    BODY
    ret;
}"""


def in_memory(body, target="sm_90a"):
    """Words 0 to 15 of each lane after a body that has its address in %d1; word k of lane n was 100 * n + k."""
    memory = (np.arange(32)[:, None] * 100 + np.arange(16)).astype(np.uint32)
    warpsim.load(MEMORY.replace("BODY", body).replace("TARGET", target))["k"]((1,), (32,), (memory,), checks="none")
    return memory


LOADS = [
    "ld.global",
    "ld.volatile.global",
    "ld.relaxed.gpu.global",
    "ld.acquire.sys.global",
    "ld.global.nc",
    "ld.global.L1::evict_last",
    "ld.global.L2::128B",
]
STORES = ["st.global", "st.volatile.global", "st.relaxed.gpu.global", "st.release.sys.global", "st.global.cs"]


@pytest.mark.parametrize(
    "load", [*LOADS, *(f"{x}.L2::cache_hint" for x in LOADS if "volatile" not in x and "128B" not in x)]
)
@pytest.mark.parametrize("vector", ["", ".v2", ".v4"])
def test_loads(load, vector):
    """Orders, caches and hints change nothing of what is loaded."""
    count = int(vector[2:] or 1)
    registers = ", ".join(f"%r{k + 2}" for k in range(count))
    registers = f"{{{registers}}}" if vector else registers
    found = in_memory(
        f"{load}{vector}.b32 {registers}, [%d1+16]{', %c' if 'hint' in load else ''};"
        + "".join(f"st.global.b32 [%d1+{4 * k}], %r{k + 2};" for k in range(count))
    )

    assert found[:, :count].tolist() == [[100 * n + 4 + k for k in range(count)] for n in range(32)]


@pytest.mark.parametrize("store", [*STORES, *(f"{x}.L2::cache_hint" for x in STORES if "volatile" not in x)])
@pytest.mark.parametrize("vector", ["", ".v2", ".v4"])
def test_stores(store, vector):
    """Nor of what is stored."""
    count = int(vector[2:] or 1)
    registers = ", ".join(f"%r{k + 2}" for k in range(count))
    registers = f"{{{registers}}}" if vector else registers
    found = in_memory(
        "".join(f"add.u32 %r{k + 2}, %r1, {7 * k};" for k in range(count))
        + f"{store}{vector}.b32 [%d1+16], {registers}{', %c' if 'hint' in store else ''};"
    )

    assert found[:, 4 : 4 + count].tolist() == [[n + 7 * k for k in range(count)] for n in range(32)]
    assert found[:, :4].tolist() == [[100 * n + k for k in range(4)] for n in range(32)]


@pytest.mark.parametrize(
    "load",
    [
        "ld.volatile.global",
        "ld.relaxed.gpu.global",
        "ld.relaxed.gpu.global.L2::cache_hint",
        "ld.global.nc",
        "ld.global.nc.L2::cache_hint",
    ],
)
@pytest.mark.parametrize(
    "store", ["st.volatile.global", "st.relaxed.gpu.global", "st.relaxed.gpu.global.L2::cache_hint", "st.global"]
)
def test_32_bytes_at_once(load, store):
    """Eight words are loaded and stored together."""
    registers = ", ".join(f"%r{k}" for k in range(1, 9))
    hints = [", %c" if "hint" in x else "" for x in (load, store)]
    found = in_memory(
        f"{load}.v8.b32 {{{registers}}}, [%d1]{hints[0]}; {store}.v8.b32 [%d1+32], {{{registers}}}{hints[1]};",
        "sm_100a",
    )

    assert found.tolist() == [[100 * n + k % 8 for k in range(16)] for n in range(32)]


def test_mmio_and_uniform_loads():
    """ld.mmio, st.mmio and ldu are loads and stores."""
    found = in_memory(
        "ld.mmio.relaxed.sys.global.b32 %r2, [%d1+8]; st.mmio.relaxed.sys.global.b32 [%d1], %r2; ldu.global.b32 %r3, [%d1+12]; st.global.b32 [%d1+4], %r3;"
    )

    assert found[:, :2].tolist() == [[100 * n + 2, 100 * n + 3] for n in range(32)]


@pytest.mark.parametrize("hint", ["", ".L2::cache_hint"])
def test_atomics_with_hints(hint):
    """A hint changes nothing of an exchange, a sum of halves, or one of vectors; red gives no old value."""
    tail = ", %c" if hint else ""
    found = in_memory(f"atom.global.exch{hint}.b32 %r2, [%d1], %r1{tail}; st.global.b32 [%d1+4], %r2;")
    assert found[:, :2].tolist() == [[n, 100 * n] for n in range(32)]

    ones = "mov.b32 %r3, 0x3C003C00; st.global.b32 [%d1], %r3;"
    for name, register in (("atom", "%r2, "), ("red", "")):
        found = in_memory(f"{ones} {name}.global.add.noftz{hint}.f16x2 {register}[%d1], %r3{tail};")
        assert set(found[:, 0].tolist()) == {0x40004000}
        register = "{%f2, %f3}, " if name == "atom" else ""
        body = f"mov.f32 %f4, 0f3F800000; st.global.v2.f32 [%d1], {{%f4, %f4}}; {name}.global{hint}.v2.f32.add {register}[%d1], {{%f4, %f4}}{tail};"
        found = in_memory(body)
        assert set(found[:, :2].reshape(-1).tolist()) == {0x40000000}
        register = "{%h2, %h3}, " if name == "atom" else ""
        body = f"mov.b16 %h4, 0x3C00; {ones} {name}.global{hint}.v2.f16.add.noftz {register}[%d1], {{%h4, %h4}}{tail};"
        assert set(in_memory(body)[:, 0].tolist()) == {0x40004000}


@pytest.mark.parametrize(
    "body",
    [
        "createpolicy.range.global.L2::evict_last.b64 %c, [%d1], 64, 128;",
        "createpolicy.fractional.L2::evict_last.b64 %c;",
        "createpolicy.cvt.L2.b64 %c, 0x1000000000000000;",
        "prefetch.global.L2 [%d1];",
        "prefetchu.L1 [%d1];",
        "prefetch.tensormap [%d1];",
        "cp.async.bulk.prefetch.L2.global [%d1], 64;",
        "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%d1], 64, %c;",
        "pmevent 3;",
        "membar.proxy.alias;",
        "fence.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.release.sync_restrict::shared::cta.cluster;",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
    ],
)
def test_what_changes_no_value(body):
    """Hints and fences leave memory as it was, and let the thread go on."""
    found = in_memory(body + " st.global.b32 [%d1], %r1;")

    assert found[:, 0].tolist() == list(range(32))
    assert found[:, 1:].tolist() == [[100 * n + k for k in range(1, 16)] for n in range(32)]


@pytest.mark.parametrize(
    ("policy", "bits"),
    [
        ("L2::evict_first.b64 %c", 0x12F << 52),
        ("L2::evict_last.b64 %c, 0.5", 0x147 << 52),
        ("L2::evict_last.L2::evict_unchanged.b64 %c, 0.515625", 0x148 << 52),
        ("L2::evict_normal.b64 %c, 0.0625", 0x160 << 52),
        ("L2::evict_normal.L2::evict_first.b64 %c, 0.078125", 0x171 << 52),
        ("L2::evict_unchanged.L2::evict_first.b64 %c, 1.5", 0x117 << 52),
        ("L2::evict_unchanged.b64 %c, -0.5", 0x100 << 52),
        ("L2::evict_unchanged.b64 %c, 0f7F800000", 0x10F << 52),
    ],
)
def test_cache_policies(policy, bits):
    """The bits are those that an H200 made."""
    found = in_memory(f"createpolicy.fractional.{policy}; st.global.b64 [%d1], %c;")

    assert set(found[:, :2].copy().view(np.uint64).reshape(-1).tolist()) == {bits}


BLOCK = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b64 %d<9>, %c; .reg .b32 %r<9>, %s; .reg .pred %p;
    .shared .align 128 .b8 box[256]; .shared .align 8 .b64 bar;
    ld.param.u64 %d1, [p]; mov.u32 %s, bar; createpolicy.fractional.L2::evict_last.b64 %c;
    BODY
    ret;
}"""


@pytest.mark.parametrize("hint", ["", ".L2::cache_hint"])
def test_bulk_load_of_a_cta(hint):
    """cp.async.bulk.shared::cta brings global memory to the shared memory of the CTA, and counts its bytes."""
    body = f"""mov.u32 %r1, box; mbarrier.init.shared.b64 [%s], 1; fence.proxy.async;
        mbarrier.arrive.expect_tx.shared.b64 %d2, [%s], 64;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes{hint} [%r1], [%d1], 64, [%s]{", %c" if hint else ""};
        W: mbarrier.try_wait.shared.b64 %p, [%s], %d2; @!%p bra W;
        ld.shared.b32 %r2, [box+60]; st.global.b32 [%d1+64], %r2;"""
    memory = np.arange(32, dtype=np.uint32)
    warpsim.load(BLOCK.replace("BODY", body))["k"]((1,), (1,), (memory,))

    assert memory[16] == 15


def test_dropped_arrivals_of_the_cluster():
    """arrive_drop counts down this phase and all that follow: of two expected arrivals one is left."""
    body = """mbarrier.init.shared.b64 [%s], 2; mapa.shared::cluster.u32 %r1, %s, 0;
        mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%r1];
        mbarrier.arrive.shared.b64 %d2, [%s]; mbarrier.pending_count.b64 %r2, %d2;
        mbarrier.arrive.shared.b64 %d3, [%s]; mbarrier.pending_count.b64 %r3, %d3;
        st.global.v2.b32 [%d1], {%r2, %r3};"""
    memory = np.zeros(2, np.uint32)
    warpsim.load(BLOCK.replace("BODY", body))["k"]((1,), (1,), (memory,), checks="none")

    assert memory.tolist() == [1, 1]
