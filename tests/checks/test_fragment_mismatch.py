"""fragment-mismatch: wmma fragments used as another operand, shape, layout or type than they were made for."""

import numpy as np
import pytest

import warpsim

HEAD = (
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
    ".reg .b32 %a<8>, %b<8>, %c<8>, %d<8>; .reg .f32 %f<16>; .reg .f32 %g<16>; .reg .b64 %rd<4>; .reg .pred %p<4>; .reg .b32 %r<4>;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;\n"
)
FIRST = HEAD.count("\n") + 1


def regs(name, count):
    """A vector of registers."""
    return "{" + ", ".join(f"%{name}{k}" for k in range(count)) + "}"


LOAD_A = f"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {regs('a', 8)}, [%rd1], 32;"
LOAD_B = f"wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {regs('b', 8)}, [%rd1], 32;"
LOAD_C = f"wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {regs('f', 8)}, [%rd1], 32;"
MMA = f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {regs('g', 8)}, {regs('a', 8)}, {regs('b', 8)}, {regs('f', 8)};"
STORE = f"wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd2], {regs('g', 8)}, 32;"


def findings(*lines):
    """(line, line of the instruction that made the fragment, register) of each mismatch, counted from 0."""
    data, out = np.zeros(4096, np.uint32), np.zeros(4096, np.uint32)
    result = warpsim.load(HEAD + "\n".join(lines) + "\nret;\n}\n")["k"](1, 32, (data, out), on_finding="collect")
    assert {f.rule for f in result.findings} <= {"fragment-mismatch"}
    return [(f.line - FIRST, f.other.line - FIRST, f.values["register"]) for f in result.findings]


def test_matching_fragments():
    """Load, multiply and store of one shape and type."""
    assert findings(LOAD_A, LOAD_B, LOAD_C, MMA, STORE) == []


@pytest.mark.parametrize("type", ["s8", "u8"])
def test_signedness(type):
    """Signed fragments of bytes are not unsigned ones."""
    load_a = f"wmma.load.a.sync.aligned.row.m16n16k16.global.{type} {regs('a', 2)}, [%rd1], 32;"
    load_b = f"wmma.load.b.sync.aligned.col.m16n16k16.global.s8 {regs('b', 2)}, [%rd1], 32;"
    load_c = f"wmma.load.c.sync.aligned.row.m16n16k16.global.s32 {regs('c', 8)}, [%rd1], 32;"
    mma = f"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {regs('d', 8)}, {regs('a', 2)}, {regs('b', 2)}, {regs('c', 8)};"

    assert findings(load_a, load_b, load_c, mma) == ([] if type == "s8" else [(3, 0, "%a0")])


def test_moves_carry_fragments_and_arithmetic_ends_them():
    """A moved register keeps its fragment; a computed one is not judged."""
    wrong = LOAD_A.replace(".row", ".col").replace("%a", "%d")
    moves = " ".join(f"mov.b32 %a{k}, %d{k};" for k in range(8))
    sums = " ".join(f"add.u32 %a{k}, %d{k}, 0;" for k in range(8))

    assert findings(wrong, LOAD_B, LOAD_C, moves, MMA) == [(4, 0, "%a0")]
    assert findings(wrong, LOAD_B, LOAD_C, sums, MMA) == []


def test_accumulators_round_a_loop():
    """Zeros before a loop, products of the same kind round it: nothing to report; a swap of a and b in it is."""
    zeros = " ".join(f"mov.f32 %f{k}, 0f00000000;" for k in range(8))
    again = f"again: {LOAD_A} {LOAD_B}"
    mma = MMA.replace("%g", "%f")
    end = "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3; @%p1 bra again;"
    swapped = mma.replace("%a", "%x").replace("%b", "%a").replace("%x", "%b")

    assert findings(zeros, again, mma, end, STORE.replace("%g", "%f")) == []
    assert findings(zeros, again, swapped, end) == [(2, 1, "%b0")]


def test_only_what_is_executed():
    """A wrong use on a way that no thread takes is silent."""
    body = f"setp.ne.u32 %p1, %r2, 0; @!%p1 bra done;\n{MMA}\ndone:"

    assert findings(LOAD_A.replace(".row", ".col"), LOAD_B, LOAD_C, body) == []


def test_a_layout_of_either_way():
    """A register that holds the right fragment on one of two ways is not judged."""
    both = f"setp.eq.u32 %p1, %r2, 0; @%p1 bra other; {LOAD_A.replace('.row', '.col')} bra join; other: {LOAD_A} join:"

    assert findings(both, LOAD_B, LOAD_C, MMA) == []


def test_what_no_lane_executes_is_not_reported():
    """A wrong store behind a guard that holds in no lane."""
    wrong = STORE.replace("m16n16k16", "m8n32k16")

    assert findings(LOAD_A, LOAD_B, LOAD_C, MMA, "setp.ne.u32 %p1, %r2, 0;", f"@%p1 {wrong}") == []
    assert findings(LOAD_A, LOAD_B, LOAD_C, MMA, "setp.eq.u32 %p1, %r2, 0;", f"@%p1 {wrong}") == [(5, 3, "%g0")]
