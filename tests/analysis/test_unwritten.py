"""Registers that are read before they are written: accumulators of wgmma, results of calls, operands that decide."""

import pytest

import warpsim
from warpsim.analysis.strict import check_program
from warpsim.analysis.undefined import additions, read_unwritten

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.func (.reg .b32 d) f(.reg .b32 c) { add.u32 d, c, 1; ret; }
.visible .entry k(.param .u64 a) { .reg .b32 t, x, y, z, r<4>; .reg .b64 q, w; .reg .pred p, o; .reg .f32 c<4>;
.shared .align 16 .b8 s[128];
ld.param.u64 q, [a]; mov.u32 t, %tid.x; mov.b64 w, 0;
"""
FIRST = HEAD.count("\n") + 1
WGMMA = "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {c0, c1, c2, c3}, w, w, "
FROM_REGISTERS = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {c0, c1, c2, c3}, {r0, r1, r2, r3}, w, "
WAIT = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
FILL = "mov.u32 r0, 0; mov.u32 r1, 0; mov.u32 r2, 0; mov.u32 r3, 0;"


def program(body):
    """A kernel of these lines."""
    return warpsim.load(HEAD + body + "\nret; }\n").program


def uninitialised(body):
    """What `check --strict` finds of this rule."""
    return [f for f in check_program(program(body)) if f.rule == "uninitialised"]


@pytest.mark.parametrize(
    ("body", "names", "adds"),
    [
        (f"{WGMMA} 0, 1, 1, 0, 0; {WAIT} {WGMMA} 1, 1, 1, 0, 0; {WAIT}", "", [False, True]),
        (f"{WGMMA} 1, 1, 1, 0, 0; {WAIT}", "c0 c1 c2 c3", [True]),
        (f"mov.pred p, 0; {WGMMA} p, 1, 1, 0, 0; {WAIT}", "", [False]),
        (f"mov.pred p, 1; {WGMMA} !p, 1, 1, 0, 0; {WAIT}", "", [False]),
        (f"mov.u32 x, 0; setp.ne.u32 p, x, 0; {WGMMA} p, 1, 1, 0, 0; {WAIT}", "", [False]),
        (f"mov.u32 x, 1; setp.ne.u32 p, x, 0; {WGMMA} p, 1, 1, 0, 0; {WAIT}", "c0 c1 c2 c3", [True]),
        (f"mov.u32 x, y; mov.u32 y, x; setp.ne.u32 p, x, 0; {WGMMA} p, 1, 1, 0, 0; {WAIT}", "y c0 c1 c2 c3", [None]),
        (f"setp.eq.u32 p, t, 0; {WGMMA} p, 1, 1, 0, 0; {WAIT}", "c0 c1 c2 c3", [None]),
        (f"{FILL} {FROM_REGISTERS} 0, 1, 1, 0; {WAIT}", "", [False]),
        ("mov.f32 c1, 0f00000000; add.f32 c0, c0, c1; st.global.f32 [q], c0;", "c0", []),
        ("call (x), f, (t); st.global.u32 [q], x;", "", []),
        ("call (x), f, (y); st.global.u32 [q], x;", "y", []),
    ],
)
def test_registers_read_before_they_are_written(body, names, adds):
    """A wgmma reads its accumulator unless scale-d is known to be false; a call writes its results."""
    function = program(body).functions["k"]

    assert {function.registers[r].name for r in read_unwritten(function)} == set(names.split())
    assert list(additions(function).values()) == adds


@pytest.mark.parametrize(
    ("bad", "good", "line"),
    [
        (f"{WGMMA} 1, 1, 1, 0, 0; {WAIT}", f"{WGMMA} 0, 1, 1, 0, 0; {WAIT}", 0),
        ("bar.sync x;", "mov.u32 x, 1; bar.sync x;", 0),
        ("shfl.sync.idx.b32 y, t, 0, 31, x;", "mov.u32 x, -1; shfl.sync.idx.b32 y, t, 0, 31, x;", 0),
        ("shf.l.wrap.b32 y, x, x, 8;\nadd.u32 y, x, 1;\nst.global.u32 [q], y;", "shf.l.wrap.b32 y, x, t, 0;\nst.global.u32 [q], y;", 2),
    ],
)  # fmt: skip
def test_without_a_launch(bad, good, line):
    """What no path writes is an error where it decides something; what may be defined is not."""
    (found,) = uninitialised(bad)

    assert (found.severity, found.line) == ("error", FIRST + line)
    assert uninitialised(good) == []


def test_a_result_of_a_call_is_not_what_the_register_held():
    """Nothing is known about it: no branch on it is certain, and no address."""
    body = "mov.u32 x, 3; call (x), f, (t); mov.u32 y, s; add.u32 y, y, x; ld.shared.u32 z, [y];"

    assert check_program(program(body)) == ()
    assert [f.rule for f in check_program(program(body.replace("call (x), f, (t);", "")))] == ["misaligned"]
