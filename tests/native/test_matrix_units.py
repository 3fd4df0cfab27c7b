"""Regions hold ldmatrix and mma: bits, counts and findings are the interpreter's, and the region is not cut at them."""

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from warpsim.native.runtime.compiled_region import CompiledRegion

HEAD = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 o, .param .u32 n) {
.reg .b32 %r<40>; .reg .b64 %d<8>; .reg .f32 %f<8>; .reg .pred %p<3>; .shared .align 128 .b8 tile[4096];
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, tile; mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u32 %r22, 0; mov.u32 %r23, 0;
shl.b32 %r5, %r2, 4; add.u32 %r6, %r4, %r5; and.b32 %r7, %r2, 31; mov.u32 %r30, 0;
L: shl.b32 %r8, %r30, 9; add.u32 %r8, %r8, %r2; mad.lo.u32 %r8, %r3, 64, %r8; mul.wide.u32 %d3, %r8, 16; add.u64 %d3, %d1, %d3;
ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%d3]; st.shared.v4.u32 [%r6], {%r10, %r11, %r12, %r13}; bar.sync 0;
shr.u32 %r9, %r2, 5; mul.lo.u32 %r9, %r9, 80; xor.b32 %r9, %r9, %r5; and.b32 %r9, %r9, 1008; add.u32 %r9, %r9, %r4;
"""
TAIL = """
bar.sync 0; add.u32 %r30, %r30, 1; setp.lt.u32 %p1, %r30, %r1; @%p1 bra L;
mad.lo.u32 %r8, %r3, 64, %r2; mul.wide.u32 %d3, %r8, 16; add.u64 %d3, %d2, %d3;
st.global.v4.u32 [%d3], {%r20, %r21, %r22, %r23}; ret; }"""
MMA = "{}.sync.aligned.{} {{{}}}, {{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {{{}}};"
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r9]; ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r14, %r15}, [%r9+256];"
FULL, HALF = "%r20, %r21, %r22, %r23", "%r20, %r21"
BODIES = {
    "f16": LOAD + MMA.format("mma", "m16n8k16.row.col.f32.f16.f16.f32", FULL, FULL),
    "f16 sums": LOAD + MMA.format("mma", "m16n8k16.row.col.f16.f16.f16.f16", HALF, HALF),
    "addresses of 64 bits": "cvt.u64.u32 %d4, %r9;"
    + LOAD.replace("%r9", "%d4")
    + MMA.format("mma", "m16n8k16.row.col.f32.f16.f16.f32", FULL, FULL),
    "bf16": LOAD + MMA.format("mma", "m16n8k16.row.col.f32.bf16.bf16.f32", FULL, FULL),
    "tf32": LOAD + MMA.format("mma", "m16n8k8.row.col.f32.tf32.tf32.f32", FULL, FULL),
    "fp8": LOAD + MMA.format("mma", "m16n8k32.row.col.f32.e4m3.e5m2.f32", FULL, FULL),
    "x1": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r9]; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r21}, [%r9];"
    "xor.b32 %r22, %r22, %r20; mad.lo.u32 %r23, %r23, 31, %r21;",
    "x4 transposed": "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r9];"
    "mad.lo.u32 %r20, %r20, 31, %r10; mad.lo.u32 %r21, %r21, 31, %r11; xor.b32 %r22, %r22, %r12; xor.b32 %r23, %r23, %r13;",
}
WRONG = {
    "misaligned": "add.u32 %r9, %r9, 4;" + LOAD,
    "outside": "add.u32 %r9, %r9, 4096;" + LOAD,
    "not written": "add.u32 %r9, %r9, 2048;" + LOAD + MMA.format("mma", "m16n8k16.row.col.f32.f16.f16.f32", FULL, FULL),
    "beyond 32 bits": "cvt.u64.u32 %d4, %r9; add.u64 %d4, %d4, 0x100000000;" + LOAD.replace("%r9", "%d4"),
    "apart": "setp.lt.u32 %p2, %r7, 7; @%p2 bra M;" + LOAD + "M:",
}


def outcome(text, engine, laps=5):
    """What a launch leaves, counts and finds; and its regions."""
    given = np.random.default_rng(3).integers(0, 1 << 32, 1 << 14, dtype=np.uint64).astype(np.uint32)
    out = np.zeros(3 * 64 * 4, np.uint32)
    module = warpsim.load(text)
    try:
        result = module["k"]((3,), (64,), (given, out, laps), engine=engine, on_finding="collect")
    except warpsim.ExecutionError as problem:
        return str(problem), module
    found = tuple(str(f) for f in result.findings)
    counts = result.instructions, result.thread_instructions, tuple(sorted(result.opcodes.items()))
    return (out.tobytes(), found, counts), module


def units(module):
    """The regions that were compiled, with what they may do."""
    entries = module.image(module.device).plan("k").main.notes["native"].entries.values()
    return [(entry.options, c) for entry in entries for c in entry.codes.values() if isinstance(c, CompiledRegion)]


ELSEWHERE = {"f16 sums", "bf16", "tf32"}
"""What test_matrices has samples of by default."""


@pytest.mark.parametrize(
    "body", [pytest.param(BODIES[name], id=name, marks=[pytest.mark.long] * (name in ELSEWHERE)) for name in BODIES]
)
def test_whole_kernels(body):
    """One region holds the loop with its barriers, on random bits with NaN and infinities among them."""
    text = HEAD + body + TAIL
    expected, _ = outcome(text, "interpreter")
    found, module = outcome(text, "compiled")

    assert found == expected
    assert any(np.frombuffer(found[0], np.uint32))
    ((options, _),) = units(module)
    assert options.barriers


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_wrong_loads(body):
    """What a matrix load may not do is found as by the interpreter."""
    text = HEAD + body + TAIL
    assert outcome(text, "compiled", 2)[0] == outcome(text, "interpreter", 2)[0]


SPARSE = {
    "mma.sp": """mov.b32 %r0, 0; mov.f32 %f1, 0f00000000; mov.b32 %r1, 0x44444445;
mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1,%f1,%f1,%f1}, {%r0,%r0,%r0,%r0}, {%r0,%r0,%r0,%r0}, {%f1,%f1,%f1,%f1}, %r1, 0;""",
    "wgmma.sp": """mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; mov.b32 %r1, 0; mov.pred %p1, 0;
mov.u32 %r4, tile; shr.u32 %r4, %r4, 4; cvt.u64.u32 %d4, %r4; or.b64 %d4, %d4, 0x1000080000; wgmma.fence.sync.aligned;
wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1,%f2,%f3,%f4}, %d4, %d4, %r1, 0, %p1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;""",
}


@pytest.mark.parametrize("body", SPARSE.values(), ids=SPARSE)
def test_wrong_metadata_is_reported_once(body):
    """Positions are looked at for the machine code, which leaves two equal indices to the arrays."""
    text = """.version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k() {
.reg .b32 %r<9>; .reg .b64 %d<5>; .reg .f32 %f<8>; .reg .pred %p<3>; .shared .align 128 .b8 tile[4096];"""
    found = [
        warpsim.load(f"{text}\n{body} ret; }}")["k"](
            1, 128, (), checks="matrix", on_finding="collect", engine=engine
        ).findings
        for engine in ("interpreter", "compiled")
    ]

    assert [f.rule for f in found[0]] == ["sparse-metadata"]
    assert [f.count for f in found[1]] == [f.count for f in found[0]]


TILES = """.version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 o, .param .u32 n) {
.reg .b32 %r<9>; .reg .b64 %d<5>; .reg .pred %p;
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, 0;
shr.u32 %r4, %r1, 5; and.b32 %r5, %r1, 31; bar.sync 0;
L: mad.lo.u32 %r6, %r3, 6, %r2; mad.lo.u32 %r6, %r4, 3, %r6; mul.lo.u32 %r6, %r6, WIDTH; add.u32 %r6, %r6, %r5;
rem.u32 %r6, %r6, 768; mul.wide.u32 %d3, %r6, 4; add.u64 %d3, %d2, %d3; mad.lo.u32 %r7, %r2, 1000, %r1; st.global.u32 [%d3], %r7;
add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 4; @%p bra L; bar.sync 0; ret; }"""


@pytest.mark.parametrize(("width", "whole"), [(32, True), (31, False)])
def test_tiles_side_by_side(width, whole):
    """Rows of tiles that lie between each other's do not cut a region, as long as no byte is stored twice."""
    text = TILES.replace("WIDTH", str(width))
    expected, _ = outcome(text, "interpreter")
    found, module = outcome(text, "compiled")

    assert found == expected
    assert any(options.barriers for options, _ in units(module)) == whole
