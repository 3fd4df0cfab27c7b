"""Rules of sparse metadata and scale selectors: a faulty program and the nearest correct one (PTX ISA: mma.sp, Block Scaling);
where mma of small floats is legal.

``kind_verdicts.txt`` holds what ptxas 13.0 says of .kind::f8f6f4: target, PTX version, verdict, instruction; tabs between."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HALF = "mma.sp{0}.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {{d0,d1,d2,d3}}, {{a0,a1,a2,a3}}, {{b0,b1,b2,b3}}, {{c0,c1,c2,c3}}, e, {1};"
TF32 = "mma.sp.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {d0,d1,d2,d3}, {a0,a1}, {b0,b1}, {c0,c1,c2,c3}, e, 0;"
SCALED = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {d0,d1,d2,d3}, {a0,a1,a2,a3}, {b0,b1}, {c0,c1,c2,c3}, s, {i, 0}, s, {0, 0};"


def rules(code, e=None, i=None):
    """What one instruction on zeros is found to break."""
    registers = {
        "a": np.zeros((32, 4), np.uint32),
        "b": np.zeros((32, 4), np.uint32),
        "c": np.zeros((32, 4), np.float32),
    }
    if ".tf32." in code or ".e2m1." in code:
        registers["b"] = registers["b"][:, :2]
    if ".tf32." in code:
        registers["a"] = registers["a"][:, :2]
    if e is not None:
        registers["e"] = np.asarray(e, np.uint32)
    if i is not None:
        registers |= {"i": np.full(32, i, np.uint16), "s": np.full(32, 0x7F7F7F7F, np.uint32)}
    target = "sm_120a" if i is not None else "sm_90a"
    try:
        return [f.rule for f in warpsim.run(code, registers=registers, target=target).findings]
    except warpsim.ExecutionError as error:
        return [f.rule for f in error.findings]


@pytest.mark.parametrize(
    ("code", "faulty", "correct"),
    [
        (HALF.format("", 0), 0x44444445, 0x44444444),  # 0b0101: the same index twice
        (HALF.format("", 0), 0x4444444F, 0x44444441),  # decreasing indices are legal here
        (HALF.format("::ordered_metadata", 0), 0x44444441, 0x4444444E),  # and not here
        (TF32, 0x44444440, 0x444444E4),  # neither 0b1110 nor 0b0100
    ],
)
def test_metadata(code, faulty, correct):
    """Only the nibbles that the format allows."""
    assert rules(code, np.full(32, faulty)) == ["sparse-metadata"]
    assert rules(code, np.full(32, correct)) == []


def test_metadata_of_lanes_that_the_selector_leaves_out():
    """The other lanes may hold anything."""
    lanes = np.where(np.arange(32) % 4 < 2, 0x44444444, 0)

    assert rules(HALF.format("", 0), lanes) == []
    assert rules(HALF.format("", 1), lanes) == ["sparse-metadata"]


@pytest.mark.parametrize(
    ("form", "registers", "taken"),
    [
        ("m16n8k16.row.col.f32.f16.f16.f32", 2, 4),
        ("m16n8k32.row.col.f32.f16.f16.f32", 4, 4),
        ("m16n8k32.row.col.f32.bf16.bf16.f32", 4, 2),
        ("m16n8k8.row.col.f32.tf32.tf32.f32", 2, 4),
        ("m16n8k16.row.col.f32.tf32.tf32.f32", 4, 2),
        ("m16n8k32.row.col.s32.s8.s8.s32", 2, 2),
        ("m16n8k64.row.col.s32.s8.s8.s32", 4, 1),
        ("m16n8k64.row.col.f32.e4m3.e4m3.f32", 4, 1),
    ],
)
def test_sparsity_selectors(form, registers, taken):
    """ptxas 13.0 takes the selectors below this number."""
    a, b = ("{" + ", ".join(f"{x}{k}" for k in range(registers)) + "}" for x in "ab")
    text = (
        module_head("sm_90a", "8.5")
        + f".visible .entry k() {{ .reg .b32 a<4>, b<4>, c<4>, e;\nmma.sp.sync.aligned.{form} {{c0, c1, c2, c3}}, {a}, {b}, {{c0, c1, c2, c3}}, e, %d; ret; }}\n"
    )
    warpsim.load(text % (taken - 1))
    with pytest.raises(warpsim.PtxError):
        warpsim.load(text % taken)


@pytest.mark.parametrize(("types", "taken"), [("bf16.bf16", True), ("f16.bf16", False), ("bf16.f16", False)])
def test_halves_of_one_type(types, taken):
    """ptxas 13.0 takes no sparse product of f16 and bf16."""
    text = (
        module_head("sm_90a", "8.5")
        + f".visible .entry k() {{ .reg .b32 a<2>, b<2>, e; .reg .f32 c<4>;\nmma.sp.sync.aligned.m16n8k16.row.col.f32.{types}.f32 {{c0, c1, c2, c3}}, {{a0, a1}}, {{b0, b1}}, {{c0, c1, c2, c3}}, e, 0; ret; }}\n"
    )
    if taken:
        warpsim.load(text)
    else:
        with pytest.raises(warpsim.PtxError):
            warpsim.load(text)


@pytest.mark.parametrize(("byte", "found"), [(0, []), (2, []), (1, ["scale-selector"]), (4, ["scale-selector"])])
def test_scale_selector(byte, found):
    """Pairs of scales start at byte 0 or 2 (Table 37)."""
    assert rules(SCALED, i=byte) == found


KINDS = defaultdict(list)
for _line in Path(__file__).with_name("kind_verdicts.txt").read_text().splitlines():
    _target, _version, *_row = _line.split("\t")
    KINDS[_target, _version].append(_row)


@pytest.mark.parametrize("where", KINDS, ids="-".join)
def test_kind_verdicts(where, refused):
    """Types, results and sparsity that a target and a version of PTX have; the others are reported at their lines."""
    target, version = where
    head = module_head(target, version) + ".visible .entry k() {\n.reg .b32 b<20>; .reg .f32 f<20>;\n"
    found = refused(head, [instruction for _, instruction in KINDS[where]])

    assert {n for n, (verdict, _) in enumerate(KINDS[where], 1) if verdict == "refused"} == found
