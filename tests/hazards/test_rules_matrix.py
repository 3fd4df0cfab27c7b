"""Rules of the operands of matrix instructions: rows are (rule, faulty program, nearest correct one, launch)."""

import pytest

ZEROS = "mov.b32 %r10, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n"
D = "{%f1,%f2,%f3,%f4}"
HALF = "mma.sp{0}.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {d}, {{%r10,%r10,%r10,%r10}}, {{%r10,%r10,%r10,%r10}}, {d}, %r11, {1};"
SMALL_HALF = "mma.sp.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 {{%r12,%r13}}, {{%r10,%r10,%r10,%r10}}, {{%r10,%r10,%r10,%r10}}, {{%r10,%r10}}, %r11, {0};"
BYTES = "mma.sp.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {{%r12,%r13,%r14,%r15}}, {{%r10,%r10}}, {{%r10,%r10}}, {{%r10,%r10,%r10,%r10}}, %r11, 1;"
TF32 = "mma.sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {d}, {{%r10,%r10}}, {{%r10,%r10}}, {d}, %r11, 2;"
SCALED = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {d}, {{%r10,%r10,%r10,%r10}}, {{%r10,%r10}}, {d}, %r12, {{%h1, {0}}}, %r12, {{0, {1}}};"
MXF8 = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 {d}, {{%r10,%r10,%r10,%r10}}, {{%r10,%r10}}, {d}, %r12, {{0, {0}}}, %r12, {{0, 0}};"


def sparse(instruction, metadata, *parts):
    """Metadata, and the instruction on line 12."""
    return ZEROS + f"mov.b32 %r11, {metadata};\n" + instruction.format(*parts, d=D)


def scaled(instruction, byte, *parts):
    """Scales of 1, a byte-id in a register, and the instruction on line 12."""
    return ZEROS + f"mov.b32 %r12, 0x7f7f7f7f; mov.u16 %h1, {byte};\n" + instruction.format(*parts, d=D)


TILES = (
    ZEROS
    + """shl.b32 %r12, %r1, 4; add.u32 %r12, %r12, %r2; st.shared.v4.b32 [%r12], {%r10,%r10,%r10,%r10};
st.shared.v4.b32 [%r12+2048], {%r10,%r10,%r10,%r10}; fence.proxy.async; bar.sync 0; setp.ne.u32 %p4, %r10, %r10;
shr.u32 %r12, %r2, 4; cvt.u64.u32 %rd10, %r12;
"""
)
SPARSE_WGMMA = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {d}, %rd9, %rd9, %r11, {0}, %p4, 1, 1, 0, 0;"
SPARSE_TF32 = "wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.tf32.tf32 {d}, %rd9, %rd9, %r11, 0, %p4, 1, 1;"
DENSE = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d}, %rd9, %rd9, %p4, 1, 1, {0}, 0;"
END = "\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"


def wgmma(instruction, *parts, descriptor="0x1000080000", metadata="0x44444444"):
    """A warpgroup's product of zeros."""
    start = f"or.b64 %rd9, %rd10, {descriptor}; mov.b32 %r11, {metadata}; wgmma.fence.sync.aligned;\n"
    return TILES + start + instruction.format(*parts, d=D) + "{mark}" + END


GROUP = {"block": 128}
BLACKWELL = {"target": "sm_120a"}
SPARSE = [
    ("sparse-metadata", sparse(HALF, "0x44444445", "", 0), sparse(HALF, "0x44444444", "", 0)),
    ("sparse-metadata", sparse(HALF, "0xfe444444", "", 1), sparse(HALF, "0xce444444", "", 1)),
    ("sparse-metadata", sparse(HALF, "0x44444441", "::ordered_metadata", 0), sparse(HALF, "0x4444444e", "::ordered_metadata", 0)),
    ("sparse-metadata", sparse(BYTES, "0x4444a444"), sparse(BYTES, "0x44449444")),
    ("sparse-metadata", sparse(TF32, "0x44444449"), sparse(TF32, "0x4444444e")),
    ("sparse-metadata", wgmma(SPARSE_WGMMA, 0, metadata="0x4444444f"), wgmma(SPARSE_WGMMA, 0, metadata="0x4444444d"), GROUP),
    ("sparse-metadata", wgmma(SPARSE_WGMMA, 1, metadata="selp.b32 0;").replace("mov.b32 %r11, selp.b32 0;;", "and.b32 %r11, %r1, 3; setp.lt.u32 %p6, %r11, 3; selp.b32 %r11, 0x44444444, 0, %p6;"), wgmma(SPARSE_WGMMA, 0, metadata="selp.b32 0;").replace("mov.b32 %r11, selp.b32 0;;", "and.b32 %r11, %r1, 3; setp.lt.u32 %p6, %r11, 3; selp.b32 %r11, 0x44444444, 0, %p6;"), GROUP),
    ("sparse-metadata", wgmma(SPARSE_TF32, metadata="0x44444441"), wgmma(SPARSE_TF32, metadata="0x4444e444"), GROUP),
    ("sparse-selector", sparse(HALF, "0x44444444", "", 2), sparse(HALF, "0x44444444", "", 1)),
    ("sparse-selector", sparse(HALF, "0x44444444", "::ordered_metadata", 3), sparse(HALF, "0x44444444", "::ordered_metadata", 0)),
    ("sparse-selector", sparse(SMALL_HALF, "0x44444444", 3), sparse(SMALL_HALF, "0x44444444", 1)),
]  # fmt: skip
SCALES = [
    ("scale-selector", scaled(SCALED, 1, 0, 0), scaled(SCALED, 2, 0, 0), BLACKWELL),
    ("scale-selector", scaled(SCALED, 3, 0, 0), scaled(SCALED, 0, 0, 0), BLACKWELL),
    ("scale-selector", scaled(SCALED, 4, 1, 3), scaled(SCALED, 2, 1, 3), BLACKWELL),
    ("scale-selector", scaled(MXF8.replace("{{0, {0}}}", "{{%h1, {0}}}"), 4, 0), scaled(MXF8.replace("{{0, {0}}}", "{{%h1, {0}}}"), 3, 0), BLACKWELL),
]  # fmt: skip
DESCRIPTORS = [
    ("descriptor", wgmma(DENSE, 0, descriptor="0x1000084000"), wgmma(DENSE, 0), GROUP),  # reserved bits
    ("descriptor", wgmma(DENSE, 0, descriptor="0x0800080000"), wgmma(DENSE, 0, descriptor="0x1000080000"), GROUP),  # overlap
    ("descriptor", wgmma(DENSE, 0, descriptor="0x3000080000"), wgmma(DENSE, 0, descriptor="0x1000080000"), GROUP),  # beyond
    ("descriptor", wgmma(DENSE, 0, descriptor="0xc002001000000000"), wgmma(DENSE, 0, descriptor="0xc000001000000000"), GROUP),  # base offset
]  # fmt: skip
ROWS = [*SPARSE, *SCALES, *DESCRIPTORS]
RULES = [rule for rule, *_ in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{number}" for number, row in enumerate(ROWS)])
def test_rule(rules, row):
    """The faulty program is reported at its line and the correct one is silent, under all checks."""
    rule, faulty, correct, *launch = row
    marked = faulty.replace("{mark}", "//!") if "{mark}" in faulty else faulty + "//!"
    rules.check(rule, marked, correct.replace("{mark}", ""), **(launch[0] if launch else {}))
