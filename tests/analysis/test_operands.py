"""uninitialised, membermask, nonuniform-operand, barrier-divergence, descriptor and fragment-mismatch from the text alone."""

import pytest

from ptx_text import module_head

UNWRITTEN, MASK, AGREE, COUNT = "uninitialised", "membermask", "nonuniform-operand", "barrier-divergence"
MMA = (
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {f0, f1, f2, f3}, {r1, r2, r3, r4}, {r5, r6}, {f4, f5, f6, f7};"
)
SET = " ".join(f"mov.u32 r{k}, n;" for k in range(1, 7))
ZERO = " ".join(f"mov.f32 f{k}, 0f00000000;" for k in range(4, 8))
AFTER = "after: st.shared.u32 [at], tid;"
WAITS = "after: barrier.sync 0;"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["st.global.u32 [out], r1;"], [(0, "r1")]),
        (["add.u32 r2, r1, n; st.global.u32 [out], r2;"], [(0, "r2")]),
        (["mov.u32 r2, r1; mov.u32 r1, n;", "st.global.u32 [out], r2;"], [(1, "r2")]),
        (["st.shared.u32 [at], r1;"], [(0, "r1")]),
        (["st.shared.v2.u32 [at], {n, r1};"], []),
        (["xor.b32 r1, r1, r1; st.global.u32 [out], r1;"], []),
        (["ld.shared.u32 r2, [r1];"], [(0, "r1")]),
        (["@p1 st.shared.u32 [at], n;"], [(0, "p1")]),
        (["@p1 bra done; done:"], [(0, "p1")]),
        (["setp.eq.u32 p2, n, 0; @p2 bra other; mov.u32 r1, n; other:", "st.global.u32 [out], r1;"], []),
        (["setp.eq.u32 p2, n, 0; @p2 mov.u32 r1, n;", "st.global.u32 [out], r1;"], []),
        ([SET, ZERO, MMA], []),
        ([SET, MMA], [(1, "f4")]),
        ([ZERO, SET.replace("r5, n", "r7, n"), MMA], [(2, "r5")]),
    ],
)
def test_unwritten_registers(lines, found):
    """Registers that no way has written, where their value matters; copies and choices of them do not."""
    import warpsim
    from warpsim.analysis.strict import check_program

    from .conftest import FIRST, HEAD

    text = HEAD.format(directives="") + "\n".join(lines) + "\nret;\n}\n"
    made = check_program(warpsim.load(text).program)

    assert [(f.line - FIRST, f.values["register"]) for f in made if f.rule == UNWRITTEN] == found


def test_a_function_is_given_its_parameters():
    """Parameters in registers are written."""
    import warpsim
    from warpsim.analysis.strict import check_program

    text = module_head() + ".func (.reg .u32 y) f(.reg .u64 p) { st.global.u32 [p], 1; mov.u32 y, 2; ret; }\n"

    assert check_program(warpsim.load(text).program) == ()


CHOSEN = "add.u32 r2, n, 1; setp.lt.u32 p1, lane, 8; selp.b32 r3, n, r2, p1; "
PARTED = "setp.lt.u32 p1, lane, 8; @p1 bra other; add.u32 r3, n, 1; bra on; other: add.u32 r3, n, 2; on: "
"""One of two numbers that are unknown, each the same in all lanes."""


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["shfl.sync.idx.b32 r1, tid, 0, 31, -1;"], []),
        (["shfl.sync.idx.b32 r1, tid, 0, 31, 0xffff;"], [(0, MASK)]),
        (["vote.sync.any.pred p1, 1, 0;"], [(0, MASK)]),
        (["bar.warp.sync 0x7fffffff;"], [(0, MASK)]),
        (["activemask.b32 r2; shfl.sync.idx.b32 r1, tid, 0, 31, r2;"], []),
        (["setp.lt.u32 p1, lane, 16; @!p1 bra after;", "shfl.sync.idx.b32 r1, tid, 0, 31, 0xffff;", AFTER], []),
        (["setp.lt.u32 p1, lane, 16; @!p1 bra after;", "shfl.sync.idx.b32 r1, tid, 0, 31, -1;", WAITS], [(1, MASK)]),
        (["setp.lt.u32 p1, lane, 16; @!p1 bra after;", "bar.warp.sync -1;", WAITS], [(1, MASK)]),
        (["setp.lt.u32 p1, lane, 16; @!p1 bra after;", "bar.warp.sync -1;", AFTER], []),
        (["setp.lt.u32 p1, lane, 16; @!p1 ret;", "bar.warp.sync -1;"], []),  # who has left is not waited for
        (["setp.lt.u32 p1, tid, 32; @!p1 bra after;", "shfl.sync.idx.b32 r1, tid, 0, 31, -1;", AFTER], []),
        (["setp.lt.u32 p1, lane, n; @!p1 bra after;", "shfl.sync.idx.b32 r1, tid, 0, 31, 0xff;", AFTER], []),
        ([CHOSEN + "setp.eq.u32 p2, r3, 7; @!p2 bra after;", "shfl.sync.idx.b32 r1, tid, 0, 31, 0xff;", AFTER], []),
        ([PARTED + "setp.eq.u32 p2, r3, 7; @!p2 bra after;", "shfl.sync.idx.b32 r1, tid, 0, 31, 0xff;", AFTER], []),
        ([CHOSEN.replace("lane", "n") + "setp.eq.u32 p2, r3, 7; @!p2 bra after;", "shfl.sync.idx.b32 r1, tid, 0, 31, 0xff;", AFTER], [(1, MASK)]),
    ],
)  # fmt: skip
def test_masks(check, lines, found):
    """A mask names the lanes that come, and those alone."""
    assert [f[:2] for f in check(*lines)] == found


DESCRIPTORS = "setp.ne.u32 p1, n, 0; wgmma.fence.sync.aligned;"
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1, f2, f3}, rd3, rd4, p1, 1, 1, 0, 0;"
END = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("mov.u32 r9, at;", []),
        ("shr.u32 r9, tid, 7; shl.b32 r9, r9, 10; add.u32 r9, r9, at;", []),
        ("shr.u32 r9, tid, 5; shl.b32 r9, r9, 10; add.u32 r9, r9, at;", [(2, AGREE)]),
        ("shr.u32 r9, tid, 5; shfl.sync.idx.b32 r9, r9, 0, 31, -1; and.b32 r9, r9, 4; shl.b32 r9, r9, 8;", []),
    ],
)
def test_descriptors_of_a_warpgroup(check, address, found):
    """All 128 threads name the same matrix."""
    make = f"{address} shr.u32 r9, r9, 4; cvt.u64.u32 rd3, r9; or.b64 rd3, rd3, 0x0000001000080000; mov.u64 rd4, 0x0000001000080000;"

    assert [f[:2] for f in check(make, DESCRIPTORS, PRODUCT, END, directives=".reqntid 128")] == found
    assert [f[:2] for f in check(make, DESCRIPTORS, PRODUCT, END, directives=".reqntid 256")] == found


@pytest.mark.parametrize(
    ("bits", "wrong"),
    [
        (0x0000001000080000, False),
        (0x0000001000080000 | 1 << 14, True),  # a reserved bit
        (0x4000004000010000, False),
        (0x4002004000010000, True),  # a base offset that the start does not have
        (0x0000000800080000, True),  # rows that overlap
    ],
)
def test_fields_of_descriptors(check, bits, wrong):
    """Constant descriptors are judged as while running."""
    made = check(f"mov.u64 rd3, {bits}; mov.u64 rd4, rd3;", DESCRIPTORS, PRODUCT, END)

    assert [f[:2] for f in made if f[1] == "descriptor"] == ([(2, "descriptor")] if wrong else [])


@pytest.mark.parametrize(("n", "lines"), [(8, []), (16, [2])])
def test_descriptors_of_sparse_products(check, n, lines):
    """Sparse A has half of K: chunks 128 bytes apart meet the next eight rows, 256 bytes on, only in a B of sixteen columns."""
    d = ", ".join(f"f{k}" for k in range(n // 2))
    product = f"wgmma.mma_async.sp.sync.aligned.m64n{n}k32.f32.f16.f16 {{{d}}}, rd3, rd4, n, 0, p1, 1, 1, 0, 0;"
    made = check("mov.u64 rd3, 0x0000001000080000; mov.u64 rd4, rd3;", DESCRIPTORS, product, END)

    assert [f[0] for f in made if f[1] == "descriptor"] == lines


def test_barriers(check):
    """The number of a barrier is the warp's own; no barrier expects more threads than come."""
    half = ["setp.lt.u32 p1, tid, 64; @!p1 bra after;", "bar.sync 1, {};", AFTER]

    assert check("and.b32 r1, tid, 1; bar.sync r1, 64;")[0][:2] == (0, AGREE)
    assert check("shr.u32 r1, tid, 6; bar.sync r1, 64;") == []
    assert check(half[0], half[1].format(64), AFTER, directives=".reqntid 128") == []
    assert check(half[0], half[1].format(96), AFTER, directives=".reqntid 128") == [(1, COUNT, "error")]
    assert check(half[0], half[1].format(96), AFTER) == []
    assert check(half[0], half[1].format(96), AFTER, "bar.arrive 1, 96;", directives=".reqntid 128") == []


def test_wmma(check):
    """Stride of a warp, and fragments of another layout than the product expects."""
    regs = "{r1, r2, r3, r4, r5, r6, r7, r8}"

    def load(layout, stride):
        return f"wmma.load.a.sync.aligned.{layout}.m16n16k16.global.f16 {regs}, [out], {stride};"

    b = "wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {r11, r12, r13, r14, r15, r16, r17, r18}, [out], 16;"
    mma = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {f0, f1, f2, f3, f4, f5, f6, f7}, " + regs
    mma += ", {r11, r12, r13, r14, r15, r16, r17, r18}, {f0, f1, f2, f3, f4, f5, f6, f7};"
    zero = " ".join(f"mov.f32 f{k}, 0f00000000;" for k in range(8))

    assert check(load("row", "n"), b, zero, mma) == []
    assert check(load("row", "lane"), b, zero, mma) == [(0, AGREE, "error")]
    assert check(load("col", "n"), b, zero, mma) == [(3, "fragment-mismatch", "error")]


def test_the_only_register():
    """The first register of a function is no other than the rest."""
    import warpsim
    from warpsim.analysis.strict import check_program

    text = module_head() + ".entry k()\n{ .reg .pred p;\n@p trap;\nret; }\n"

    assert [(f.rule, f.line) for f in check_program(warpsim.load(text).program)] == [(UNWRITTEN, 6)]


@pytest.mark.parametrize("address", ["4096", "smem", "tid"])
def test_a_policy_for_a_range_that_is_known(check, address):
    """An address in brackets has no type of its own; a cache policy is opaque (PTX ISA, createpolicy): nothing follows from it."""
    known = f"mov.u64 rd1, {address};" if address != "tid" else "cvt.u64.u32 rd1, tid;"
    policy = "createpolicy.range.global.L2::evict_last.b64 rd2, [rd1], 128, 256;"
    barrier = "setp.eq.u64 p1, rd2, 0; @p1 bra around; bar.sync 0; around:"

    assert check(known, policy, barrier) == []
