"""Launches that run compiled under the race rule because machine code shows that their threads keep apart; others are interpreted, and
their races found."""

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<12>; .reg .b64 %d<6>; .reg .pred %q; .shared .align 16 .b8 s[1024];
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r3, %r2, %r3, %r1;
mul.wide.u32 %d2, %r3, 4; add.s64 %d3, %d1, %d2; mov.u32 %r4, s; shl.b32 %r5, %r1, 2; add.u32 %r6, %r4, %r5; xor.b32 %r7, %r6, 4;
mul.lo.u32 %r9, %r5, 5; and.b32 %r9, %r9, 127; add.u32 %r9, %r9, %r4; shl.b32 %r10, %r1, 4; add.u32 %r10, %r10, %r4;
BODY
ret; }"""
APART = {
    "in place": ("ld.global.u32 %r8, [%d3]; add.u32 %r8, %r8, 1; st.global.u32 [%d3], %r8;", 2, 64),
    "shared, in place": ("st.shared.u32 [%r6], %r1; ld.shared.u32 %r8, [%r6]; st.shared.u32 [%r6], %r8;", 2, 64),
    "across a barrier": ("st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r8, [%r7];", 2, 64),
    "out of order": ("st.shared.u32 [%r9], %r1; bar.sync 0; ld.shared.u32 %r8, [%r6];", 2, 32),
    "halves by one lane": ("st.shared.u16 [%r6], 1; st.shared.u16 [%r6+2], 1; ld.shared.u32 %r8, [%r6];", 1, 64),
    "atomics": (
        "st.shared.u32 [%r6], 0; bar.sync 0; red.shared.add.u32 [%r4], 1; bar.sync 0; ld.shared.u32 %r8, [%r4];"
        " red.global.add.u32 [%d1], %r8;",
        2,
        64,
    ),
    "rows": (
        "st.shared.v4.u32 [%r10], {%r1, %r2, %r3, %r4}; bar.sync 0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r10];",
        1,
        32,
    ),
    "one lane": (
        "mov.u32 %r8, 0; setp.eq.u32 %q, %r1, 7; @%q st.shared.u32 [%r4], 1; @%q ld.shared.u32 %r8, [%r4];",
        1,
        64,
    ),
}
MEET = {
    "a neighbour's": ("ld.global.u32 %r8, [%d3+4]; st.global.u32 [%d3], %r8;", 1, 32),
    "a neighbour's in another warp": ("ld.global.u32 %r8, [%d3+128]; st.global.u32 [%d3], %r8;", 1, 64),
    "another CTA's": ("ld.global.u32 %r8, [%d3+256]; st.global.u32 [%d3], %r8;", 2, 64),
    "one word": ("st.global.u32 [%d1], %r1;", 1, 32),
    "one word of two CTAs": ("setp.eq.u32 %q, %r1, 0; @%q st.global.u32 [%d1], %r2;", 2, 32),
    "one word of two lanes": (
        "shr.u32 %r8, %r1, 1; mul.wide.u32 %d4, %r8, 4; add.s64 %d4, %d1, %d4; st.global.u32 [%d4], %r1;",
        1,
        32,
    ),
    "a row of two CTAs": ("mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d1, %d4; st.global.u32 [%d4], %r2;", 2, 32),
    "the next word": (
        "st.shared.v4.u32 [%r10], {%r1, %r2, %r3, %r4}; bar.sync 0; st.shared.u32 [%r6], %r1; ld.shared.u32 %r8, [%r6+4];",
        1,
        32,
    ),
    "read, then written out of order": (
        "st.shared.u32 [%r6], 0; bar.sync 0; ld.shared.u32 %r8, [%r6]; st.shared.u32 [%r9], %r1;",
        1,
        32,
    ),
    "two stores": ("st.global.u32 [%d3], %r1; st.global.u32 [%d3+4], %r1;", 1, 32),
    "no barrier": ("st.shared.u32 [%r6], %r1; ld.shared.u32 %r8, [%r7]; bar.sync 0;", 1, 64),
    "read, then written": ("st.shared.u32 [%r6], 0; bar.sync 0; ld.shared.u32 %r8, [%r7]; st.shared.u32 [%r6], %r1;", 1, 64),
    "a shared word": ("st.shared.u32 [%r4], %r1; bar.sync 0;", 1, 32),
    "part of a word": ("st.shared.u32 [%r6], %r1; ld.shared.u8 %r8, [%r7+2]; bar.sync 0;", 1, 32),
    "an atomic and a load": ("st.shared.u32 [%r6], 0; bar.sync 0; red.shared.add.u32 [%r4], 1; ld.shared.u32 %r8, [%r4];", 1, 32),
    "atomics of a CTA": ("red.relaxed.cta.global.add.u32 [%d1], 1;", 2, 32),
    "a constant": ("ld.global.nc.u32 %r8, [%d3]; st.global.u32 [%d3], %r8; ld.global.nc.u32 %r8, [%d3];", 1, 32),
    "rows": (
        "st.shared.v4.u32 [%r10], {%r1, %r2, %r3, %r4}; xor.b32 %r10, %r10, 512;"
        " ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r10]; bar.sync 0;",
        1,
        64,
    ),
}  # fmt: skip


def launched(case, **options):
    """The launch, and what memory holds behind it."""
    body, ctas, threads = case
    words = np.arange(512, dtype=np.uint32)
    kernel = warpsim.load(PTX.replace("BODY", body.replace("; ", ";\n")))["k"]
    return kernel((ctas,), (threads,), (words,), on_finding="collect", **options), words


@pytest.mark.parametrize("case", APART.values(), ids=APART)
def test_threads_that_keep_apart(case, done):
    """The launch runs as one region, also where its CTAs would run one after the other, and has the interpreter's result."""
    expected, there = launched(case, checks="all", engine="interpreter")
    assert expected.findings == ()
    for more in ({}, {"batch_threads": 1}):
        done.clear()
        result, words = launched(case, checks="all", engine="compiled", **more)

        assert [code.variant.apart for code in done] == [True]
        assert result.findings == ()
        assert np.array_equal(words, there)
        assert result.instructions == expected.instructions


@pytest.mark.parametrize("case", MEET.values(), ids=MEET)
def test_threads_that_meet(case, done):
    """They race, and no region hides it: the findings are the interpreter's."""
    expected, _ = launched(case, checks="all", engine="interpreter")
    result, _ = launched(case, checks="all", engine="compiled")

    assert {f.rule for f in expected.findings} == {"race"}
    assert result.findings == expected.findings
    assert not any(code.variant.apart for code in done)


def test_a_store_again_by_the_same_thread(done):
    """What cannot be shown is interpreted, and is no race."""
    result, _ = launched(
        ("st.global.u32 [%d3], %r1; st.global.u32 [%d3], %r2;", 1, 32), checks="all", engine="compiled"
    )

    assert result.findings == ()
