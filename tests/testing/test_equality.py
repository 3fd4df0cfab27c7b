"""Two kernels, one meaning: equal ones are silent, others are explained at the lines of both, on the smallest input."""

import json
import re
from fractions import Fraction

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.cli import main
from warpsim.errors import LaunchError
from warpsim.testing import assert_equal, equal, equal_case, recipe

TEXT = """.version 8.0
.target sm_80
.address_size 64
.file 1 "{file}.cu"
.visible .entry {name}(.param .u64 {first}, .param .u64 {second}, .param .u64 out)
{{
    .reg .b32 %r<3>; .reg .b64 %rd<8>; .reg .f32 %f<5>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; add.s64 %rd7, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];
    .loc 1 {line} 0
    {body}
    st.global.f32 [%rd7], %f3;
    ret;
}}
"""
FUSED = "fma.rn.f32 %f3, %f1, %f2, 0f3F800000;"
APART = "mul.rn.f32 %f4, %f1, %f2; add.rn.f32 %f3, %f4, 0f3F800000;"


def kernel(body, name="one", line=7, order="xy"):
    """A kernel that computes an element by thread."""
    text = TEXT.format(body=body, name=name, file=name, line=line, first=order[0], second=order[1])
    return warpsim.load(text)[name]


def test_equal_kernels():
    """Other names, and parameters in another order that is stated: equal on every input, difficult ones too."""
    swapped = "fma.rn.f32 %f3, %f2, %f1, 0f3F800000;"
    args = [recipe("normal", 64), recipe("hurtful", 64, seed=5), np.zeros(64, np.float32)]

    found = equal(kernel(FUSED), kernel(swapped, "two", order="yx"), 1, 64, args, order=[1, 0, 2], inputs=4)

    assert found
    assert (found.inputs, str(found)) == (4, "equal on 4 inputs")


def test_inputs_that_are_the_same():
    """Without an argument that depends on a seed, one launch is all that was compared, and the answer says so."""
    args = [recipe("arange", 64), recipe("full", 64, value=2), np.zeros(64, np.float32)]

    found = equal(kernel(FUSED), kernel(FUSED, "two"), 1, 64, args, inputs=5)

    assert (found.inputs, str(found)) == (1, "equal on 1 input; no argument depends on a seed, so others are the same")


def test_a_difference_is_explained():
    """One rounding or two: the element is one where exact arithmetic says so, all others are zero, and both lines are named."""
    args = [recipe("normal", 64, seed=1), recipe("normal", 64, seed=2), np.zeros(64, np.float32)]

    found = equal(kernel(FUSED), kernel(APART, "two", 9), 1, 64, args, inputs=3)

    assert not found
    (at,) = found.index
    x, y = found.arguments[0], found.arguments[1]
    assert (np.flatnonzero(x).tolist(), np.flatnonzero(y).tolist()) == ([at], [at])
    once = np.float32(float(Fraction(float(x[at])) * Fraction(float(y[at])) + 1))
    assert once != np.float32(x[at] * y[at]) + np.float32(1)
    for said in (f"argument 2[{at}] was written by", "one.cu:7", "two.cu:9", "1 of 64 elements differ"):
        assert said in found.text
    assert found.text.count("by the same values with another result") == 2
    assert f"%f4 = {np.float32(x[at] * y[at]):.9g} from %f1 = {x[at]:.9g}, %f2 = {y[at]:.9g}" in found.text
    with pytest.raises(AssertionError, match=r"two\.cu:9"):
        assert_equal(kernel(FUSED), kernel(APART, "two", 9), 1, 64, args)


def test_a_constant_of_one_side():
    """The instruction that takes it is named, not the move that brings it."""
    args = [recipe("normal", 64, seed=1), recipe("normal", 64, seed=2), np.zeros(64, np.float32)]
    given = "mov.f32 %f4, 0f3F800001;\n    fma.rn.f32 %f3, %f1, %f2, %f4;"

    found = equal(kernel(FUSED), kernel(given, "two", 9), 1, 64, args)
    assert "(two.cu:9): fma.rn.f32 %f3, %f1, %f2, %f4;" in found.text
    assert found.text.count("by the same values with another result") == 2


def test_other_criteria():
    """Ulps; or the exact values, from which either kernel may be the one that is too far."""
    args = [recipe("uniform", 64, seed=1), recipe("uniform", 64, seed=2), np.zeros(64, np.float32)]

    def exact(x, y, out):
        return None, None, [float(Fraction(float(a)) * Fraction(float(b)) + 1) for a, b in zip(x, y, strict=True)]

    assert equal(kernel(FUSED), kernel(APART, "two"), 1, 64, args, ulps=1)
    assert equal(kernel(FUSED), kernel(FUSED, "two"), 1, 64, args, reference=exact)
    assert "argument 2 of B" in equal(kernel(FUSED), kernel(APART, "two"), 1, 64, args, reference=exact).text
    assert "argument 2 of A" in equal(kernel(APART), kernel(FUSED, "two"), 1, 64, args, reference=exact).text


def test_failures_and_what_does_not_fit():
    """A kernel that fails differs; a launch that fits neither is refused."""
    args = [np.ones(64, np.float32), np.ones(64, np.float32), np.zeros(64, np.float32)]
    outside = "add.s64 %rd7, %rd7, 4096; mov.f32 %f3, %f1;"

    assert "B (two) fails" in equal(kernel(FUSED), kernel(outside, "two"), 1, 64, args).text
    with pytest.raises(LaunchError, match="A, one, takes 3 arguments, not 2"):
        equal(kernel(FUSED), kernel(FUSED), 1, 64, args[:2])
    with pytest.raises(LaunchError, match="order"):
        equal(kernel(FUSED), kernel(FUSED), 1, 64, args, order=[0, 1, 3])


def test_the_command(tmp_path, capsys):
    """Status 0 for equal, 1 for a difference, 2 for what cannot be run; one document with --json."""
    for name, body in (("one", FUSED), ("two", APART)):
        text = TEXT.format(body=body, name=name, file=name, line=3, first="x", second="y")
        (tmp_path / f"{name}.ptx").write_text(text)
    one, two = (str(tmp_path / f"{name}.ptx") for name in ("one", "two"))
    launch = [
        "--grid",
        "1",
        "--block",
        "64",
        *(w for a in ("normal", "uniform", "zeros") for w in ("--arg", f"{a}:f32:64")),
    ]

    assert main(["equal", one, one, *launch]) == 0
    assert main(["equal", one, two, *launch, "--ulps", "100"]) == 0
    assert main(["equal", one, two, *launch]) == 1
    assert "two.cu:3" in capsys.readouterr().out
    assert main(["equal", one, two, *launch, "--inputs", "2", "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert (record["equal"], record["argument"], len(record["index"])) == (False, 2, 1)
    assert main(["equal", one, two, *launch[:-2]]) == 2
    text = (tmp_path / "one.ptx").read_text().replace(".visible", ".visible .entry nop() { ret; }\n.visible", 1)
    (tmp_path / "both.ptx").write_text(text)
    assert main(["equal", one, str(tmp_path / "both.ptx"), *launch, "--kernel", "one"]) == 0
    assert main(["equal", one, two, *launch[:-1], "out:f32:64=x.npy"]) == 2


def test_parameters_in_another_order():
    """The stated order decides what the other kernel computes: x / y with its parameters swapped is y / x, unless that is said."""
    quotient, other = "div.rn.f32 %f3, %f1, %f2;", kernel("div.rn.f32 %f3, %f1, %f2;", "two", order="yx")
    args = [np.full(32, 6, np.float32), np.full(32, 3, np.float32), np.zeros(32, np.float32)]

    assert equal(kernel(quotient), other, 1, 32, args, order=[1, 0, 2])
    assert not equal(kernel(quotient), other, 1, 32, args)


def test_each_input_is_another():
    """Recipes draw anew for each input."""
    seen = []

    def reference(x, y, out):
        seen.append(x.tobytes())
        return None, None, None

    equal(kernel(FUSED), kernel(FUSED, "two"), 1, 8, [recipe("normal", 8)] * 2 + [np.zeros(8, np.float32)], inputs=3, reference=reference)  # fmt: skip
    assert len(set(seen)) == 3


def test_what_is_printed():
    """Two launches that store the same and print otherwise differ."""

    def printing(word, name):
        text = ", ".join(map(str, [*word.encode(), 0]))
        return warpsim.load(
            f""".version 8.0 .target sm_80 .address_size 64
            .extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
            .global .b8 word[{len(word) + 1}] = {{{text}}};
            .visible .entry {name}() {{ .reg .b64 %rd<3>;
            mov.u64 %rd1, word; cvta.global.u64 %rd1, %rd1;
            {{ .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %rd1; st.param.b64 [q], 0;
            call.uni (r), vprintf, (p, q); }} ret; }}"""
        )[name]

    found = equal(printing("left", "one"), printing("right", "two"), 1, 1, [])

    assert not found
    assert str(found) == "A prints 'left', B 'right'"
    assert equal(printing("left", "one"), printing("left", "two"), 1, 1, [])


def test_where_two_kernels_part():
    """Back through a shuffle, shared memory and another warp, to the step that has the same inputs and another result."""
    on = """setp.ge.u32 %p1, %r1, 64; @%p1 mov.f32 %f3, 0f00000000; mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 8, %r2; st.shared.v2.f32 [%r2], {%f1, %f3}; bar.sync 0;
    xor.b32 %r1, %r1, 32; mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, 8, %r2; ld.shared.v2.f32 {%f2, %f1}, [%r2];
    shfl.sync.bfly.b32 %f2, %f1, 31, 31, -1; add.rn.f32 %f3, %f2, %f2;"""

    def made(body, name, line):
        text = TEXT.replace(".reg .b32", ".shared .align 4 .b8 tile[512]; .reg .pred %p1; .reg .b32")
        text = text.format(
            body=f"{body}\n    .loc 1 99 0\n{on}", name=name, file=name, line=line, first="x", second="y"
        )
        return warpsim.load(text)[name]

    x, y = (recipe("normal", 64, seed=k).array() for k in (1, 2))
    found = equal(made(FUSED, "one", 7), made(APART, "two", 9), 1, 64, [x, y, np.zeros(64, np.float32)])

    (index,) = found.index
    warp, lane = index // 32 ^ 1, index % 32 ^ 31
    assert found.text.count(f"warp {warp}, lane {lane}:\n") == 2
    assert [line.split(": ")[1] for line in found.text.splitlines() if "one.cu:7)" in line or "two.cu:9)" in line] == [
        FUSED,
        APART,
    ]


PLANTED = """.version 8.0
.target sm_90
.address_size 64
.file 1 "{name}.cu"
.visible .entry {name}(.param .u64 x, .param .u64 y, .param .u64 out, .param .u64 between)
{{
    .reg .b32 %r<9>; .reg .b64 %rd<11>; .reg .f32 %f<6>; .reg .pred %p<3>;
    .shared .align 128 .b8 tile[256]; .shared .align 8 .b8 bar[8];
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [out]; ld.param.u64 %rd8, [between];
    mov.u32 %r8, %ctaid.x; mul.wide.u32 %rd10, %r8, 256; add.s64 %rd1, %rd1, %rd10; add.s64 %rd2, %rd2, %rd10; add.s64 %rd3, %rd3, %rd10; add.s64 %rd8, %rd8, %rd10;
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2; setp.eq.u32 %p1, %r1, 0;
    add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; add.s64 %rd7, %rd3, %rd4; add.s64 %rd9, %rd8, %rd4;
    ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];
    .loc 1 {line} 0
    {body}
    .loc 1 99 0
    {way}
    ret;
}}
"""
ROWS = "and.b32 %r4, %r1, 32; shl.b32 %r4, %r4, 2; and.b32 %r5, %r1, 7; mad.lo.u32 %r4, %r5, 16, %r4; add.u32 %r4, %r4, %r2;"
WAYS = {
    "cp.async": """st.global.f32 [%rd9], %f3; bar.sync 0; xor.b32 %r4, %r1, 33; mul.wide.u32 %rd10, %r4, 4; add.s64 %rd10, %rd8, %rd10;
    cp.async.ca.shared.global [%r3], [%rd10], 4; cp.async.wait_all; bar.sync 0; ld.shared.f32 %f4, [%r3]; st.global.f32 [%rd7], %f4;
    bar.sync 0; st.shared.f32 [%r3], %f1; st.global.f32 [%rd9], %f1;""",
    "bulk to shared": """st.global.f32 [%rd9], %f3; fence.proxy.async; mov.u32 %r4, bar; @%p1 mbarrier.init.shared.b64 [%r4], 1;
    @%p1 fence.mbarrier_init.release.cluster; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd8], 256, [%r4];
W:  mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @!%p2 bra W; ld.shared.f32 %f4, [%r3]; st.global.f32 [%rd7], %f4;""",
    "bulk to global": """st.shared.f32 [%r3], %f3; fence.proxy.async; bar.sync 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r2], 256;
    @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;""",
    "ldmatrix": f"""st.shared.f32 [%r3], %f3; bar.sync 0; {ROWS} ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r6}}, [%r4]; st.global.u32 [%rd7], %r6;""",
    "stmatrix": f"""mov.b32 %r6, %f3; {ROWS} stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {{%r6}}; bar.sync 0;
    xor.b32 %r7, %r1, 32; mad.lo.u32 %r7, %r7, 4, %r2; ld.shared.f32 %f4, [%r7]; st.global.f32 [%rd7], %f4;""",
    "atomics": """st.shared.f32 [%r3], %f1; bar.sync 0; xor.b32 %r4, %r1, 32; mad.lo.u32 %r4, %r4, 4, %r2; red.shared.add.f32 [%r4], %f3;
    red.shared.add.f32 [%r3], %f2; bar.sync 0; ld.shared.f32 %f4, [%r3]; st.global.f32 [%rd7], %f4;""",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_through_copies_and_matrices(way):
    """A difference before an asynchronous copy, a move of matrices or an atomic is named, not the copy."""
    one, two = (
        warpsim.load(PLANTED.format(body=body, name=name, line=line, way=WAYS[way]))[name]
        for body, name, line in ((FUSED, "one", 7), (APART, "two", 9))
    )
    x, y = (recipe("normal", 192, seed=k).array() for k in (1, 2))
    y[:64] = y[128:] = 0  # where one rounding is as good as two: only the second CTA differs
    found = equal(one, two, 3, 64, [x, y, np.zeros(192, np.float32), np.zeros(192, np.float32)])

    parts = [line for line in found.text.splitlines() if "one.cu:7)" in line or "two.cu:9)" in line]
    assert [line.split(": ")[1] for line in parts] == [FUSED, APART], found.text
    assert found.text.count("by the same values with another result: CTA (1, 0, 0)") == 2


@pytest.mark.parametrize(
    "read",
    [
        "ld.global.f32 %f4, [%rd10];",
        "cp.async.ca.shared.global [%r3], [%rd10], 4; cp.async.wait_all; ld.shared.f32 %f4, [%r3];",
    ],
)
def test_another_source(read):
    """Where a load or a copy brings other bytes of what nobody has stored, its address is followed."""
    way = f"mul.wide.u32 %rd10, %r4, 4; add.s64 %rd10, %rd1, %rd10; {read} st.global.f32 [%rd7], %f4;"
    one, two = (
        warpsim.load(PLANTED.format(body=body, name=name, line=line, way=way))[name]
        for body, name, line in (
            ("mad.lo.u32 %r4, %r1, 2, 1001;", "one", 7),
            ("mad.lo.u32 %r4, %r1, 2, 1002;", "two", 9),
        )
    )
    args = [recipe("normal", 2048).array(), *(np.zeros(64, np.float32) for _ in range(3))]
    found = equal(one, two, 1, 64, args)

    assert "one.cu:7): mad.lo.u32 %r4, %r1, 2, 1001;" in found.text
    assert "two.cu:9): mad.lo.u32 %r4, %r1, 2, 1002;" in found.text


TAKEN = {
    "a load": ("ld.global.f32 %f1, [%rd10]; fma.rn.f32 %f3, %f1, %f2, 0f3F800000; st.global.f32 [%rd7], %f3;", 0),
    "an asynchronous copy": (
        "cp.async.ca.shared.global [%r3], [%rd10], 4;\ncp.async.wait_all; bar.sync 0; xor.b32 %r4, %r3, 8;"
        "ld.shared.f32 %f1, [%r4]; fma.rn.f32 %f3, %f1, %f2, 0f3F800000; st.global.f32 [%rd7], %f3;",
        2,
    ),
    "a copy alone": ("ld.global.f32 %f1, [%rd10]; st.shared.f32 [%r3], %f1; ld.shared.f32 %f4, [%r3]; st.global.f32 [%rd7], %f4;", 0),
}  # fmt: skip


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("way", TAKEN)
def test_swapped_elements(way, inputs):
    """Where each kernel computes the same from another element, the line that takes it is named, not the use."""
    code, apart = TAKEN[way]
    way = f"mul.wide.u32 %rd10, %r4, 4; add.s64 %rd10, %rd1, %rd10;\n.loc 1 LINE 0\n{code}"
    one, two = (
        warpsim.load(PLANTED.format(body=body, name=name, line=9, way=way.replace("LINE", line)))[name]
        for body, name, line in (
            ("xor.b32 %r4, %r1, 1;", "one", "21"),
            ("mov.u32 %r4, %r1;", "two", "23"),
        )
    )
    args = [recipe("normal", 64), recipe("normal", 64, seed=5), *(np.zeros(64, np.float32) for _ in range(2))]
    found = equal(one, two, 1, 64, args, inputs=inputs)

    (index,) = found.index
    mine, theirs = index ^ apart ^ 1, index ^ apart
    texts = found.text.splitlines()
    for name, line, own, other in (("one", 21, mine, "B"), ("two", 23, theirs, "A")):
        said = f"  reads argument 0[{own}] here, on which that does not depend in {other}: "
        at = next(k for k, text in enumerate(texts) if text.startswith(said))
        assert f"{name}.cu:{line}): " + code.split("\n")[0].split(";")[0] in texts[at + 1]
        assert ("fma.rn.f32 %f3, %f1, %f2" in code) == any("  uses it here" in text for text in texts[at + 2 : at + 4])


ROWS = """.version 8.0
.target sm_80
.address_size 64
.file 1 "{name}.cu"
.visible .entry {name}(.param .u64 x, .param .u64 out)
{{
    .reg .b32 %r<4>; .reg .b64 %rd<5>; .reg .f32 %f<9>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd2, %rd2, %rd3;
    {row} mul.wide.u32 %rd4, %r2, 16; add.s64 %rd1, %rd1, %rd4;
    .loc 1 {line} 0
    {read}
    add.f32 %f1, %f1, %f2; add.f32 %f3, %f3, %f4; add.f32 %f1, %f1, %f3; st.global.f32 [%rd2], %f1;
    ret;
}}
"""


@pytest.mark.parametrize(
    "read",
    [
        "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];",
        ".shared .align 16 .b8 s[64]; mov.u32 %r3, s; mad.lo.u32 %r3, %r1, 16, %r3;\ncp.async.cg.shared.global [%r3], [%rd1], 16;\n"
        "cp.async.wait_all; ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r3];",
    ],
)
def test_a_swapped_row(read):
    """Where both kernels compute the same values for other rows, it is seen which elements matter to each, and the line that reads one
    is named."""
    one, two = (
        warpsim.load(ROWS.format(name=name, row=row, line=line, read=read))[name]
        for name, row, line in (("one", "mov.u32 %r2, %r1;", 21), ("two", "xor.b32 %r2, %r1, 3;", 23))
    )
    rows, reading = recipe("normal", (4, 4)).array(), next(x for x in read.split("\n") if "global" in x)
    found = equal(one, two, 1, 4, [rows, np.zeros(4, np.float32)])

    texts = found.text.splitlines()
    assert found.index == (0,)
    for name, line, own, other in (("one", 21, 0, "B"), ("two", 23, 3, "A")):
        said = f"  reads argument 0[{own}, 0] here, on which that does not depend in {other}: CTA (0, 0, 0), warp 0, lane 0:"
        assert f"{name}.cu:{line}): {reading}" in texts[texts.index(said) + 1]


def test_arguments_of_records():
    """An element may have fields, and any size."""
    read = "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];"
    one, two = (
        warpsim.load(ROWS.format(name="k", row=row, line=1, read=read))["k"]
        for row in ("mov.u32 %r2, %r1;", "xor.b32 %r2, %r1, 3;")
    )
    records = np.frombuffer(recipe("normal", (16,)).array().tobytes() + bytes(2), [("of", "u1", 3)])

    found = equal(one, two, 1, 4, [records, np.zeros(4, np.float32)])
    assert len(re.findall(r"reads argument 0\[\d+\] here", found.text)) == 2


def test_sums_in_another_order():
    """Sums that add the same elements in another order part where they add, not where they load."""
    add = "shfl.sync.bfly.b32 %f3, %f1, {}, 31, -1; add.rn.f32 %f1, %f1, %f3;"
    one, two = (
        warpsim.load(
            PLANTED.format(body="", name=name, line=9, way=" ".join(map(add.format, by)) + "st.global.f32 [%rd7], %f1;")
        )[name]
        for by, name in (((1, 2, 4, 8, 16), "one"), ((16, 8, 4, 2, 1), "two"))
    )
    args = [recipe("normal", 64).array(), *(np.zeros(64, np.float32) for _ in range(3))]
    found = equal(one, two, 1, 64, args)

    assert found.text.count("parts from ") == 2
    assert "reads argument" not in found.text


def test_a_recorded_case():
    """A case's launch under its own kernel and another: its buffers by their names."""
    saxpy = warpsim.load("programs/saxpy/kernel.ptx")["saxpy"]
    rounded = warpsim.load(saxpy.module.source.replace("fma.rn.f32", "fma.rz.f32"))["saxpy"]

    assert equal_case("programs/saxpy", saxpy)
    assert equal_case("programs/saxpy", rounded, ulps=1)
    found = equal_case("programs/saxpy", rounded)
    assert (found.equal, found.text.startswith("y: ")) == (False, True)
    assert "parts from A here" in found.text
    apart = re.sub(
        r"fma.rn.f32\s+(\S+), (\S+), (\S+), ", r"mul.rn.f32 \1, \2, \3; add.rn.f32 \1, \1, ", saxpy.module.source
    )
    assert "reads " not in equal_case("programs/saxpy", warpsim.load(apart)["saxpy"]).text
    swapped = saxpy.module.source.replace("[saxpy_param_2]", "[y]").replace("[saxpy_param_3]", "[saxpy_param_2]")
    swapped = warpsim.load(swapped.replace("[y]", "[saxpy_param_3]"))["saxpy"]
    assert equal_case("programs/saxpy", swapped, order=[0, 1, 3, 2])
    assert not equal_case("programs/saxpy", swapped)
    with pytest.raises(LaunchError, match="B, saxpy, takes 4 arguments, not 3"):
        equal_case("programs/saxpy", rounded, order=[0, 1, 2])


STAGED = """{head} .extern .shared .align 4 .b8 s[]; .visible .entry k(.param .u64 a) {{ .reg .b32 %r<4>; .reg .b64 %x<3>;
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1; ld.param.u64 %x1, [a]; mul.wide.u32 %x2, %r1, 4; add.s64 %x1, %x1, %x2;
mov.u32 %r2, s; st.shared.u32 [%r2+{at}], %r1; st.global.u32 [%x1], %r1; ret; }}"""


def test_another_launch_for_the_other(capsys):
    """Other tiles and stages need other CTAs and more shared memory, also beside a recorded case."""
    near, far = (warpsim.load(STAGED.format(head=module_head("sm_90", "8.0"), at=at))["k"] for at in (0, 64))
    words = np.zeros(64, np.uint32)

    assert "B (k) fails" in equal(near, far, 2, 32, [words], shared_mem=4, checks="none").text
    assert equal(
        near, far, 2, 32, [words], shared_mem=4, other_shared_mem=68, other_grid=4, other_block=16, checks="none"
    )
    saxpy = warpsim.load("programs/saxpy/kernel.ptx")["saxpy"]
    assert not equal_case("programs/saxpy", saxpy, other_block=16)
    assert equal_case("programs/saxpy", saxpy, other_grid=64, other_block=16, other_shared_mem=64)
    told = ["equal", "programs/saxpy", "programs/saxpy/kernel.ptx", "--other-grid", "64", "--other-block", "16"]
    assert main([*told, "--other-shared", "64"]) == 0
    assert main([*told, "--other-shared", "1000000"]) == 2
    assert "1000000" in "".join(capsys.readouterr())


def test_the_command_with_a_case_or_a_reference(tmp_path, capsys):
    """A folder as A; exact values from a file or a function; what does not fit is said, with status 2."""
    text = TEXT.format(body=FUSED, name="one", file="one", line=3, first="x", second="y")
    (tmp_path / "one.ptx").write_text(text)
    (tmp_path / "two.ptx").write_text(text.replace(FUSED, APART))
    (tmp_path / "exact.py").write_text(
        "def reference(x, y, out):\n    return None, None, x.astype('f8') * y + 1\nfew = lambda *a: []\n"
    )
    one, two, exact = (str(tmp_path / name) for name in ("one.ptx", "two.ptx", "exact.py"))
    launch = [
        "--grid",
        "1",
        "--block",
        "64",
        *(w for k in (1, 2) for w in ("--arg", f"normal:f32:64:seed={k}")),
        "--arg",
        "zeros:f32:64",
    ]
    x, y = (recipe("normal", 64, seed=k).array().astype(np.float64) for k in (1, 2))
    np.save(tmp_path / "out.npy", x * y + 1)

    def run(*words):
        status = main(["equal", *words])
        return status, "".join(capsys.readouterr())

    assert run(one, one, *launch, "--reference", exact, "--inputs", "3")[0] == 0
    status, said = run(one, two, *launch, "--reference", f"2={tmp_path / 'out.npy'}")
    assert (status, "argument 2 of B (expected: exact)" in said) == (1, True)
    for words, expected in (
        (["--reference", f"1={tmp_path / 'none.npy'}"], "none.npy"),
        (["--reference", f"5={tmp_path / 'out.npy'}"], "argument 5 is no array; those that are: 0, 1, 2"),
        (["--reference", f"{exact}:other"], "has no function other"),
        (["--reference", f"{exact}:few"], "the reference gives 0 values; 3 array arguments want one each"),
        (["--reference", f"2={tmp_path / 'out.npy'}", "--inputs", "2"], "one input"),
    ):
        status, said = run(one, one, *launch, *words)
        assert (status, expected in said) == (2, True), said
    saxpy = "programs/saxpy/kernel.ptx"
    assert run("saxpy", saxpy) == (0, "equal on the recorded input\n")
    assert run("saxpy", saxpy, "--inputs", "2")[0] == 2
    assert run(saxpy, saxpy)[0] == 2
