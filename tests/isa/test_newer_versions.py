"""What PTX 9.1 to 9.4 add, against scalar arithmetic written from the manual: no assembler here takes it."""

import itertools
import random
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import warpsim
from warpsim.isa import spec, unsupported

RNG = random.Random(9)
EDGES = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0x80808080,
    0x7F7F7F7F,
    0x01FF8000,
)
WORDS = [RNG.choice(EDGES) if k % 3 == 0 else RNG.getrandbits(32) for k in range(256)]


def run(code, bits=32, target="sm_120a", **sources):
    """What an instruction leaves in ``d`` in as many lanes as the sources have."""
    widths = {name: 8 * values.dtype.itemsize for name, values in sources.items()}
    declared = "".join(f".reg .b{width} {name}; " for name, width in widths.items() if width > 8)
    declared += "".join(f".reg .b8 {name}; " for name, width in widths.items() if width == 8)
    count = len(next(iter(sources.values())))
    result = warpsim.run(
        f".reg .b{bits} d; {declared}{code}",
        registers=sources,
        warps=count // 32,
        target=target,
        checks="none",
    )
    return [int(v) for v in result.registers["d"].reshape(-1).view(f"u{bits // 8}")]


def parts(word, bits, signed):
    """The numbers in a word, the lowest first."""
    values = [word >> shift & (1 << bits) - 1 for shift in range(0, 32, bits)]
    return [v - (1 << bits) if signed and v >> bits - 1 else v for v in values]


def joined(values, bits):
    """The word that holds the low bits of numbers."""
    return sum((v & (1 << bits) - 1) << bits * k for k, v in enumerate(values))


def clamped(v, bits, signed):
    """A number in the range of a type."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return min(max(v, low), high)


BINARY = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "min": min, "max": max,
    "min.relu": lambda x, y: max(min(x, y), 0), "max.relu": lambda x, y: max(x, y, 0),
}  # fmt: skip
PACKED = [
    *[f"{op}{sat}.{kind}" for op, sat, kind in itertools.product(("add", "sub"), ("", ".sat"), ("u8x4", "s8x4"))],
    *("add.sat.u16x2", "add.sat.s16x2", "min.u8x4", "max.s8x4", "min.relu.s8x4", "max.relu.s8x4", "add.sat.u32"),
]


@pytest.mark.parametrize("code", PACKED)
def test_packed_integers(code):
    """Part by part; .sat clamps to the range of the type."""
    a, b = np.array(WORDS, np.uint32), np.array(WORDS[::-1], np.uint32)
    kind = code.rsplit(".", 1)[1]
    bits, signed = int(kind[1:].split("x")[0]), kind[0] == "s"
    operation = BINARY[code.replace(".sat", "").rsplit(".", 1)[0]]
    expected = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        sums = [operation(p, q) for p, q in zip(parts(x, bits, signed), parts(y, bits, signed), strict=True)]
        expected.append(joined([clamped(s, bits, signed) if ".sat" in code else s for s in sums], bits))

    assert run(f"{code} d, a, b;", a=a, b=b) == expected


def test_packed_negation():
    """Part by part, modulo 256."""
    a = np.array(WORDS, np.uint32)

    assert run("neg.s8x4 d, a;", a=a) == [joined([-p for p in parts(x, 8, True)], 8) for x in a.tolist()]


@pytest.mark.parametrize("mode", ["lo", "hi"])
def test_carryless_products(mode):
    """Sums of shifted factors without carries."""
    a, b, c = (np.array([RNG.getrandbits(64) >> RNG.randrange(64) for _ in range(64)], np.uint64) for _ in range(3))
    expected = []
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        product = 0
        for bit in range(64):
            product ^= y << bit if x >> bit & 1 else 0
        expected.append((product >> 64 if mode == "hi" else product & 2**64 - 1) ^ z)

    assert run(f"clmad.{mode}.u64 d, a, b, c;", 64, a=a, b=b, c=c) == expected


FORMATS = {
    "e4m3x2": ml_dtypes.float8_e4m3fn, "e5m2x2": ml_dtypes.float8_e5m2, "e2m3x2": ml_dtypes.float6_e2m3fn,
    "e3m2x2": ml_dtypes.float6_e3m2fn, "e2m1x2": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
CODES = np.arange(1 << 16, dtype=np.uint16)


def decoded(name):
    """The value of each code of a narrow format, in the order of codes."""
    width = 4 if name == "e2m1x2" else 6 if name[1] in "23" and name != "e2m1x2" else 8
    return np.arange(1 << width, dtype=np.uint8).view(FORMATS[name]).astype(np.float64).tolist()


def nearest(value, name, *, truncated=False, relu=False):
    """The code of the closest value of a narrow format, of two the even one; beyond the greatest, the greatest."""
    values = decoded(name)
    if value != value:
        nans = [code for code, v in enumerate(values) if v != v]
        greatest = max(v for v in values if v == v and abs(v) != float("inf"))
        return 0x7F if nans else values.index(greatest)
    finite = [(code, v) for code, v in enumerate(values[: len(values) // 2]) if v == v and v != float("inf")]
    top = finite[-1][1]
    size = min(abs(value), top)
    if truncated:
        code = max(code for code, v in finite if v <= size)
    else:
        distance = min(abs(Fraction(v) - Fraction(size)) for _, v in finite)
        tied = [code for code, v in finite if abs(Fraction(v) - Fraction(size)) == distance]
        code = next((c for c in tied if c % 2 == 0), tied[0])
    if np.signbit(value):
        return 0 if relu else code | len(values) // 2
    return code


SAMPLES = np.array(
    sorted(RNG.sample(range(1 << 16), 64)) + [0x7F80, 0xFF80, 0x7FC0, 0x8000, 0, 0x3F80, 0xBF80, 0x4060] * 4, np.uint16
)


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("name", FORMATS)
def test_bf16_to_narrow_formats(name, relu):
    """Nearest even, saturating, the upper half of a to the upper part."""
    low, high = SAMPLES, SAMPLES[::-1]
    a = low.astype(np.uint32) | high.astype(np.uint32) << 16
    width, step = (8, 4) if name == "e2m1x2" else (16, 8)
    values = SAMPLES.view(ml_dtypes.bfloat16).astype(np.float64).tolist()
    codes = [nearest(v, name, relu=bool(relu)) for v in values]

    assert run(f"cvt.rn.satfinite{relu}.{name}.bf16x2 d, a;", width, a=a) == [
        x | y << step for x, y in zip(codes, codes[::-1], strict=True)
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_toward_zero(name):
    """.rz of sm_107f, from f32: what is beyond the greatest value is the greatest."""
    given = np.array([RNG.uniform(-40, 40) * 2.0 ** RNG.randrange(-14, 3) for _ in range(128)], np.float32)
    width, step = (8, 4) if name == "e2m1x2" else (16, 8)
    codes = [nearest(v, name, truncated=True) for v in given.astype(np.float64).tolist()]

    assert run(f"cvt.rz.satfinite.{name}.f32 d, a, b;", width, "sm_107a", a=given, b=given[::-1].copy()) == [
        y | x << step for x, y in zip(codes, codes[::-1], strict=True)
    ]


def bf16_of(value, *, relu=False, finite=False):
    """The bits of the closest bf16 of a double."""
    if value != value:
        return 0x7FFF
    with np.errstate(all="ignore"):
        rounded = np.array([np.float32(value)]).astype(ml_dtypes.bfloat16)  # exact in f32
    bits = int(rounded.view(np.uint16)[0])
    if finite and bits & 0x7FFF == 0x7F80:
        bits -= 1
    return 0 if relu and bits >> 15 else bits


@pytest.mark.parametrize("flags", ["", ".satfinite", ".relu"])
@pytest.mark.parametrize("name", FORMATS)
def test_narrow_formats_to_bf16(name, flags):
    """Each value times its power of two, rounded once."""
    values = decoded(name)
    width = len(values).bit_length() - 1
    pairs = [(RNG.randrange(len(values)), RNG.randrange(len(values))) for _ in range(256)]
    scales = [(RNG.choice((0, 1, 100, 127, 128, 200, 253, 254, 255)), RNG.randrange(256)) for _ in pairs]
    step, dtype = (4, np.uint8) if name == "e2m1x2" else (8, np.uint16)
    a = np.array([x | y << step for x, y in pairs], dtype)
    b = np.array([x | y << 8 for x, y in scales], np.uint16)
    relu, finite = flags == ".relu", flags == ".satfinite"

    def expected(code, scale):
        factor = float("nan") if scale == 255 else 2.0 ** (scale - 127)
        return bf16_of(values[code] * factor, relu=relu, finite=finite)

    assert width in (4, 6, 8)
    assert run(f"cvt.rn{flags}.bf16x2.{name} d, a;", a=a) == [
        expected(x, 127) | expected(y, 127) << 16 for x, y in pairs
    ]
    assert run(f"cvt.rn{flags}.scaled::n2::ue8m0.bf16x2.{name} d, a, b;", a=a, b=b) == [
        expected(x, s) | expected(y, t) << 16 for (x, y), (s, t) in zip(pairs, scales, strict=True)
    ]


def fixed(value, relu):
    """64ths, nearest even, in 8 bits; NaN is the greatest."""
    if value != value:
        return 127
    code = clamped(round(Fraction(max(min(value, 4.0), -4.0)) * 64), 8, True)
    return max(code, 0) & 255 if relu else code & 255


@pytest.mark.parametrize("relu", ["", ".relu"])
def test_fixed_point(relu):
    """s2f6: quotients by the scale factors, and products with them back."""
    given = np.array(
        [RNG.uniform(-3, 3) for _ in range(120)] + [0.0, -0.0, np.inf, -np.inf, np.nan, 1.984375, -2.0, 0.0078125],
        np.float32,
    )
    other = given[::-1].copy()
    scale = np.array([RNG.choice((120, 126, 127, 128, 130, 255, 0, 254)) | 127 << 8 for _ in given], np.uint16)
    doubles = given.astype(np.float64).tolist()
    factors = [float("nan") if s & 255 == 255 else 2.0 ** ((s & 255) - 127) for s in scale.tolist()]
    code = f"cvt.rn.satfinite{relu}.scaled::n2::ue8m0.s2f6x2.f32 d, a, b, c;"

    assert run(f"cvt.rn.satfinite{relu}.s2f6x2.f32 d, a, b;", 16, a=given, b=other) == [
        fixed(y, relu) | fixed(x, relu) << 8 for x, y in zip(doubles, doubles[::-1], strict=True)
    ]
    assert run(code, 16, a=given, b=other, c=scale) == [
        fixed(y / f, relu) | fixed(x, relu) << 8 for x, y, f in zip(doubles, doubles[::-1], factors, strict=True)
    ]


def test_fixed_point_to_bf16():
    """All codes."""
    a = np.arange(256, dtype=np.uint16) | np.uint16(0x4000)
    expected = [bf16_of((v - 256 if v > 127 else v) / 64) | bf16_of(1.0) << 16 for v in range(256)]

    assert run("cvt.rn.bf16x2.s2f6x2 d, a;", a=a) == expected


def test_signed_nibbles():
    """ldmatrix of 8x16 matrices of s4: lane 4g + t gets columns 4t to 4t + 3 of row g, each extended to a byte."""
    packed = np.random.default_rng(3).integers(0, 256, 32 * 8, dtype=np.uint8)
    text = """.version 9.4 .target sm_90a .address_size 64
    .visible .entry k(.param .u64 given, .param .u64 out) {
      .reg .b32 %t, %s, %r<4>; .reg .b64 %g, %o, %x; .shared .align 16 .b8 tile[256];
      mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 8; mad.lo.u32 %s, %t, 8, 0; mov.u32 %r0, tile; add.u32 %s, %s, %r0;
      ld.param.u64 %g, [given]; ld.param.u64 %o, [out]; add.u64 %g, %g, %x;
      ld.global.b64 %g, [%g]; st.shared.b64 [%s], %g; bar.sync 0;
      ldmatrix.sync.aligned.m8n16.x4.shared.s8.s4 {%r0, %r1, %r2, %r3}, [%s];
      mul.wide.u32 %x, %t, 16; add.u64 %o, %o, %x; st.global.v4.b32 [%o], {%r0, %r1, %r2, %r3};
      ret; }"""
    out = np.zeros((32, 4), np.uint32)
    warpsim.load(text)["k"]((1,), (32,), (packed, out))
    rows = packed.reshape(4, 8, 8).tolist()
    for lane, number in itertools.product(range(32), range(4)):
        row = rows[number][lane // 4]
        nibbles = [row[c // 2] >> 4 * (c % 2) & 15 for c in range(lane % 4 * 4, lane % 4 * 4 + 4)]
        signed = [(n - 16 if n > 7 else n) & 255 for n in nibbles]
        assert out[lane, number] == sum(v << 8 * k for k, v in enumerate(signed))


@pytest.mark.parametrize(("version", "good"), [("9.0", True), ("9.5", True), ("9.6", False), ("10.0", False)])
def test_versions(version, good):
    """Up to 9.5."""
    text = f".version {version}\n.target sm_90a\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
    if good:
        warpsim.load(text)
        return
    with pytest.raises(warpsim.PtxError, match="is not a version of PTX"):
        warpsim.load(text)


@pytest.mark.parametrize("target", ["sm_107", "sm_107a", "sm_107f"])
def test_targets_of_9_4(target):
    """sm_107 came with PTX 9.4, and has what the family of sm_100 has."""
    body = (
        "{ .reg .b32 %r<2>; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; ret; }"
        if target[-1] in "af"
        else "{ ret; }"
    )
    text = ".version {}\n.target {}\n.address_size 64\n.visible .entry k() {}\n"
    warpsim.load(text.format("9.4", target, body))
    with pytest.raises(warpsim.PtxError, match="does not support"):
        warpsim.load(text.format("9.3", target, "{ ret; }"))


def test_opcodes_that_are_not_run():
    """None of them is declared: a wrong form of one that is, is illegal."""
    assert unsupported.OPCODES.isdisjoint(spec.opcodes())


@pytest.mark.parametrize(
    "line",
    [
        "sin.approx.ftz.2pi.f32 %f1, %f2;",
        "fence.alias.sync_restrict::read.release.sys;",
        "cp.async.bulk.wait_group.sync_restrict::proxy::async 0;",
        "tensormap.query.alloc_class_large %p1, [%d1];",
    ],
)
def test_forms_of_9_5_are_named_as_unsupported(line):
    """They are PTX, and do not run."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(ONE_THREAD.replace("9.4", "9.5").format(body=line, target="sm_100a"))
    assert [finding.rule for finding in caught.value.findings] == ["unsupported"]


ONE_THREAD = """.version 9.4
.target {target}
.address_size 64
.visible .entry k(.param .u64 pin, .param .u64 pout) {{
.reg .pred %p<4>; .reg .b8 %c<2>; .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .b128 %q; .reg .f32 %f<4>;
.shared .align 128 .b8 s[64]; .shared .align 8 .b64 bar;
ld.param.u64 %d1, [pin]; ld.param.u64 %d2, [pout];
mbarrier.init.layout::v0.shared.b64 [bar], 1;
fence.proxy.async.shared::cta;
{body}
ret; }}"""
WAIT = """
mbarrier.arrive.expect_tx.shared.b64 _, [bar], {size};
wait: mbarrier.try_wait.parity.phase_type::primary.shared.b64 %p1|%p2, %c1, [bar], 0; @!%p1 bra wait;
"""
SHOW = "ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [s]; st.global.v4.b32 [%d2], {%r1, %r2, %r3, %r4};"


def one_thread(body, source, target="sm_90a", **options):
    """What one thread leaves in 64 bytes."""
    out = np.zeros(16, np.uint32)
    warpsim.load(ONE_THREAD.format(body=body, target=target))["k"]((1,), (1,), (source, out), **options)
    return out


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_ignored_bytes(effects):
    """They may be outside of what is allocated; an H200 copies those that are inside."""
    copy = "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [s], [%d1], 16, {}, {}, [bar];"
    words = np.arange(0x10, 0x14, dtype=np.uint32)

    inside = one_thread(copy.format(3, 5) + WAIT.format(size=16) + SHOW, words, async_effects=effects)
    beyond = one_thread(copy.format(0, 8) + WAIT.format(size=16) + SHOW, words[:2].copy(), async_effects=effects)

    assert inside[:4].tolist() == [0x10, 0x11, 0x12, 0x13]
    assert beyond[:2].tolist() == [0x10, 0x11]
    with pytest.raises(warpsim.ExecutionError, match="access of 9 bytes"):
        one_thread(copy.format(0, 7) + WAIT.format(size=16) + SHOW, words[:2].copy(), async_effects=effects)
    with pytest.raises(warpsim.ExecutionError, match="at most 15"):
        one_thread("mov.u32 %r1, 16;" + copy.format("%r1", 0), words)


def test_stores_of_128_bits():
    """st.async counts 16 bytes at its mbarrier."""
    body = "ld.global.b128 %q, [%d1]; mov.u32 %r5, s; mov.u32 %r6, bar;"
    body += "st.async.shared::cluster.mbarrier::complete_tx::bytes.b128 [%r5], %q, [%r6];" + WAIT.format(size=16) + SHOW

    assert one_thread(body, np.arange(4, dtype=np.uint32))[:4].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "copy",
    [
        "cp.async.bulk.relaxed.gpu.shared::cta.global.mbarrier::complete_tx::bytes.b128 [s], [%d1], 16, [bar];",
        "st.shared.b128 [s+16], %q; fence.proxy.async; mov.u32 %r5, s; mov.u32 %r6, bar;"
        "cp.async.bulk.relaxed.cluster.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.b128 [%r5], [%r5+16], 16, [%r6];",
    ],
)
def test_loads_with_an_order(copy):
    """It changes no value."""
    body = "ld.global.b128 %q, [%d1];" + copy + WAIT.format(size=16) + SHOW

    assert one_thread(body, np.arange(4, dtype=np.uint32))[:4].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        ("multimem.cp.async.bulk.weak.global.shared::cta.bulk_group [%d2], [s], 16;", [5, 6, 7, 8]),
        ("multimem.cp.async.bulk.relaxed.gpu.global.shared::cta.bulk_group.b128 [%d2], [s], 16;", [5, 6, 7, 8]),
        ("cp.async.bulk.relaxed.sys.global.shared::cta.bulk_group.b128 [%d2], [s], 16;", [5, 6, 7, 8]),
        ("multimem.cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d2], [s], 16, 0xF0F;", [5, 1, 7, 1]),
        ("multimem.cp.async.bulk.global.shared::cta.bulk_group.cp_mask.b128 [%d2], [s], 16, 0xF0F;", [5, 1, 7, 1]),
        ("cp.async.bulk.global.shared::cta.bulk_group.cp_mask.b128 [%d2], [s], 16, 0xF0F;", [5, 1, 7, 1]),
        ("multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d2], [s], 16;", [6, 7, 8, 9]),
        ("cp.reduce.async.bulk.relaxed.gpu.global.shared::cta.bulk_group.add.u32 [%d2], [s], 16;", [6, 7, 8, 9]),
    ],
)
def test_copies_with_an_order_and_to_several_gpus(copy, expected):
    """One GPU has the one copy of what multimem addresses name."""
    body = "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d1]; st.shared.v4.b32 [s], {%r1, %r2, %r3, %r4};"
    body += "mov.u32 %r5, 1; st.global.v4.b32 [%d2], {%r5, %r5, %r5, %r5}; fence.proxy.async;"
    body += copy + "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"

    assert one_thread(body, np.array([5, 6, 7, 8], np.uint32), "sm_100a")[:4].tolist() == expected


def test_multimem_stores_and_reductions_without_waiting():
    """They reach the one copy."""
    body = "mov.u32 %r1, 7; multimem.st.async.release.gpu.global.u32 [%d2], %r1;"
    body += "multimem.red.async.release.sys.global.add.u32 [%d2], %r1;"

    assert one_thread(body, np.zeros(4, np.uint32), "sm_100a")[0] == 14


def test_what_a_wait_reports():
    """Layouts and reports, as an H200 gives them where nothing reports."""
    body = WAIT.format(size=0) + "cvt.u32.u8 %r3, %c1; selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 1, 0, %p2;"
    body += "mbarrier.check_layout.layout::v0.shared.b64 %p1, [bar]; mbarrier.check_layout.layout::v1.shared.b64 %p2, [bar];"
    body += "selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 1, 0, %p2; st.global.v4.b32 [%d2], {%r1, %r2, %r3, %r4};"
    body += (
        "mbarrier.arrive.shared.b64 %d3, [bar]; mbarrier.test_wait.phase_type::primary.shared.b64 %p1|_, [bar], %d3;"
    )
    body += "selp.u32 %r6, 1, 0, %p1; st.global.v2.b32 [%d2+16], {%r5, %r6}; mov.u32 %r7, 0;"
    for wait, at in itertools.product(("test_wait", "try_wait"), (".parity", "")):
        for value, hint in itertools.product(("", ", %c0"), ("", ", 100")[: 1 + (wait == "try_wait")]):
            phase = "1" if at else "%d3"
            body += f"mbarrier.{wait}{at}.phase_type::primary.shared.b64 %p1|%p2{value}, [bar], {phase}{hint};"
            body += "@%p1 add.u32 %r7, %r7, 1; @%p2 add.u32 %r7, %r7, 100;"
    body += "st.global.b32 [%d2+24], %r7;"

    assert one_thread(body, np.zeros(4, np.uint32))[:7].tolist() == [1, 0, 0, 1, 0, 1, 12]


@pytest.mark.parametrize(
    ("a", "b", "kept", "flushed"),
    [(1, 3, 4, 0), (0x80000001, 0x80000001, 0x80000002, 0x80000000), (0x00800000, 0x80000001, 0x007FFFFF, 0x00800000)],
)
def test_subnormals_of_atomics(a, b, kept, flushed):
    """As an H200 adds: .noftz keeps them in global memory."""
    body = f"mov.b32 %f1, {a}; mov.b32 %f2, {b}; st.global.f32 [%d2], %f2; st.global.f32 [%d2+4], %f2;"
    body += "atom.global.add.noftz.f32 %f3, [%d2], %f1; red.global.add.f32 [%d2+4], %f1; ld.proxy::readonly.global.u32 %r1, [%d1];"
    body += "ld.proxy::readonly.global.v2.u32 {%r2, %r3}, [%d1]; prefetch.global.L1::32B.valid_addr [%d1]; fence.proxy.alias.acquire.sys; st.global.u32 [%d2+8], %r1;"

    assert one_thread(body, np.full(4, 77, np.uint32))[:3].tolist() == [kept, flushed, 77]
