"""misaligned, matrix-alignment, tensor-map and out-of-bounds from the text alone."""

import pytest

from ptx_text import module_head

VECTOR = "{r1, r2, r3, r4}"
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r1, r2, r3, r4}, [r9];"


def by_thread(step, start="at"):
    """r9 = start + tid * step."""
    return f"mul.lo.u32 r9, tid, {step}; add.u32 r9, r9, {start};"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([f"st.shared.v4.u32 [smem+8], {VECTOR};"], "misaligned"),
        ([f"st.shared.v4.u32 [smem+16], {VECTOR};"], None),
        (["ld.shared.u16 r1, [smem+1];"], "misaligned"),
        (["ld.shared.u8 r1, [smem+1];"], None),
        (["cvt.u64.u32 rd1, n; shl.b64 rd1, rd1, 4; add.u64 rd1, rd1, 1; mov.b64 {r9, r1}, rd1; ld.shared.u16 r2, [r9];"], "misaligned"),
        (["cvt.u64.u32 rd1, n; shl.b64 rd1, rd1, 4; add.u64 rd1, rd1, 1; mov.b64 {r1, r9}, rd1; ld.shared.u16 r2, [r9];"], None),
        (["add.u32 r9, at, 4; atom.shared.add.u64 rd1, [r9], 1;"], "misaligned"),
        ([by_thread(4), f"ld.shared.v4.u32 {VECTOR}, [r9];"], "misaligned"),
        ([by_thread(16), f"ld.shared.v4.u32 {VECTOR}, [r9];"], None),
        ([by_thread(4), "setp.eq.u32 p1, lane, 0; @!p1 bra done;", f"ld.shared.v4.u32 {VECTOR}, [r9]; done:"], None),
        ([by_thread(4), f"setp.eq.u32 p1, lane, 0; @p1 ld.shared.v4.u32 {VECTOR}, [r9];"], None),
        ([by_thread(4), f"and.b32 r9, r9, -16; ld.shared.v4.u32 {VECTOR}, [r9];"], None),
        ([by_thread(32), LOAD], None),
        ([by_thread(24), LOAD], "matrix-alignment"),
        (["mul.lo.u32 r9, n, 32; add.u32 r9, r9, at; add.u32 r9, r9, 8;", LOAD], "matrix-alignment"),
        (["mul.lo.u32 r9, n, 32; add.u32 r9, r9, at; add.u32 r9, r9, 16;", LOAD], None),
        (["mul.lo.u32 r9, n, 2; add.u32 r9, r9, at;", LOAD], None),  # it may be a multiple of 16
        (["shl.b32 r9, n, 3; or.b32 r9, r9, 1; ld.shared.u32 r1, [r9];"], "misaligned"),
        (["shl.b32 r9, n, 2; or.b32 r9, r9, 1; mul.lo.u32 r9, r9, 2; ld.shared.u16 r1, [r9];"], None),
        (["shl.b32 r9, n, 2; or.b32 r9, r9, 1; mul.lo.u32 r9, r9, 2; ld.shared.u32 r1, [r9];"], "misaligned"),
        (["mad.lo.u32 r9, n, 4, 2; ld.shared.u32 r1, [r9];"], "misaligned"),
        (["mad.lo.u32 r9, n, 4, 2; ld.shared.u16 r1, [r9];"], None),
        (["mul.lo.u32 r1, n, 4; shl.b32 r2, n, 4; or.b32 r9, r1, r2; add.u32 r9, r9, 4; ld.shared.u64 rd1, [r9];"], None),
        (["mul.lo.u32 r1, n, 4; shl.b32 r2, n, 4; or.b32 r9, r2, r1; add.u32 r9, r9, 4; ld.shared.u64 rd1, [r9];"], None),
        (["mul.lo.u32 r1, n, 4; shl.b32 r2, n, 4; or.b32 r9, r2, r1; add.u32 r9, r9, 2; ld.shared.u32 r1, [r9];"], "misaligned"),
        (["mbarrier.init.shared::cta.b64 [smem+4], 1;"], "misaligned"),
        (["cp.async.ca.shared.global [smem+4], [out], 8;"], "misaligned"),
        (["cp.async.ca.shared.global [smem+8], [out], 8;"], None),
        (["cp.async.bulk.prefetch.L2.global [out], 64;"], None),
        ([".global .align 8 .b8 table[64]; ld.global.u32 r1, [table+2];"], "misaligned"),
        ([".global .align 8 .b8 table[64]; ld.global.u32 r1, [table+4];"], None),
        ([f".global .align 8 .b8 table[64]; ld.global.v4.u32 {VECTOR}, [table];"], None),  # it may lie at a multiple of 16
        ([f".global .align 8 .b8 table[64]; ld.global.v4.u32 {VECTOR}, [table+8];"], None),
        (["cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [smem+64], [out, {n}], [next];"], "tensor-map"),
        (["cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [smem+128], [out, {n}], [next];"], None),
    ],
)  # fmt: skip
def test_alignment(check, lines, found):
    """Addresses that are known, or known by their low bits."""
    at_fault = len(lines) - 1
    assert [f for f in check(*lines) if f[2] == "error"] == ([(at_fault, found, "error")] if found else [])


def test_declared_pointers(check):
    """A pointer parameter has the alignment that it declares; without one nothing is known."""
    import warpsim
    from warpsim.analysis.strict import check_program

    text = module_head() + ".visible .entry k(.param .u64 {} x) {{ .reg .b64 a; .reg .f32 f<4>;\n"
    text += "ld.param.u64 a, [x]; cvta.to.global.u64 a, a;\nld.global.v4.f32 {{f0, f1, f2, f3}}, [a+8];\nret; }}\n"

    def found(declared):
        return [(f.rule, f.line) for f in check_program(warpsim.load(text.format(declared)).program)]

    assert found(".ptr .global .align 16") == [("misaligned", 6)]
    assert found(".ptr .global .align 8") == []
    assert found("") == []


@pytest.mark.parametrize(
    ("line", "directives", "found"),
    [
        ("st.shared.u32 [smem+4092], n;", "", False),
        ("st.shared.u32 [smem+4096], n;", "", True),
        ("add.u32 r9, at, 4096; ld.shared.u32 r1, [r9];", "", True),
        ("mov.u32 r9, next; ld.shared.u32 r1, [r9];", "", False),
        (by_thread(32) + "st.shared.u32 [r9], n;", ".reqntid 128", False),
        (by_thread(32) + "st.shared.u32 [r9], n;", ".reqntid 160", True),
        (by_thread(32) + "st.shared.u32 [r9], n;", "", False),  # the block may be smaller
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem+1024], [out], 4096, [next];", "", True),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem], [out], 4096, [next];", "", False),
    ],
)  # fmt: skip
def test_variables_that_run_into_each_other(check, line, directives, found):
    """What is accessed through a variable lies inside it."""
    assert [f for f in check(line, directives=directives) if f[1] == "out-of-bounds"] == (
        [(0, "out-of-bounds", "error")] if found else []
    )
