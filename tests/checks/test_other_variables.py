"""Accesses at an address made from one variable that reach another one; see also ``pairs/other-variable``."""

import numpy as np
import pytest

import warpsim
from engines import ENGINES

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.const .b32 first[4];
.const .b32 second[4];
.global .b32 left[4];
.global .b32 right[4];
.extern .shared .align 4 .b8 all[];
.visible .entry k(.param .align 4 .b8 sizes[16], .param .u32 n, .param .u64 at)
{
.reg .b32 %r<9>;
.reg .b64 %x<9>;
.reg .pred %p<3>;
.shared .align 4 .b8 tile[128];
.shared .align 4 .b8 coef[128];
mov.u32 %r0, %tid.x;
mul.wide.u32 %x0, %r0, 4;
ld.param.u64 %x8, [at];
"""


def found(body, at=0, engine="interpreter", **options):
    """What is said of a body, by message and lanes."""
    kernel = warpsim.load(HEAD + body + "ret;\n}")["k"]
    sizes = np.zeros(1, "V16")[0]
    result = kernel(1, 32, (sizes, 0, at), engine=engine, on_finding="collect", **options)
    assert {f.severity for f in result.findings} <= {"warning"}
    return [(f.message, f.lanes) for f in result.findings]


TILE = "mov.u32 %r2, coef; mov.u32 %r1, tile; mad.lo.u32 %r1, %r0, 4, %r1;\n"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("body", "message", "lanes"),
    [
        (TILE + "st.shared.u32 [%r1+4], %r0;", "address made from `tile`, 4 bytes past its end, in `coef`", (31,)),
        (TILE + "st.shared.u32 [%r1+-4+8], %r0;", "address made from `tile`, 4 bytes past its end, in `coef`", (31,)),
        (
            "mov.u32 %r2, tile; mov.u32 %r1, coef; mad.lo.u32 %r1, %r0, 4, %r1; st.shared.u32 [%r1+-8], %r0;",
            "address made from `coef`, 8 bytes before it, in `tile`",
            (0, 1),
        ),
        (
            "mov.u64 %x1, sizes; add.u64 %x1, %x1, %x0; setp.lt.u32 %p0, %r0, 5; @%p0 ld.param.u32 %r1, [%x1];",
            "address made from `sizes`, 4 bytes past its end, in `n`",
            (4,),
        ),
        (
            "mov.u64 %x1, left; add.u64 %x1, %x1, %x8; ld.global.u32 %r1, [%x1+12];",
            "address made from `left`, {} bytes past its end, in `right`",
            tuple(range(32)),
        ),
        (
            "mov.u64 %x1, first; add.u64 %x1, %x1, %x8; ld.const.u32 %r1, [%x1+12];",
            "address made from `first`, {} bytes past its end, in `second`",
            tuple(range(32)),
        ),
    ],
)
def test_both_variables_and_the_distance(body, message, lanes, engine, monkeypatch):
    """The message names both variables and how far the access ends beyond the one that its address was made from."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    at = 0
    if "%x8" in body:
        module = warpsim.load(HEAD + "ret;\n}")
        names = ("left", "right") if "left" in body else ("first", "second")
        here, there = (module.get_global(name).ptr for name in names)
        at, message = there - here, message.format(there - here)

    assert found(body, at, engine=engine) == [(message, lanes)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r2, coef; mov.u32 %r1, tile; sub.u32 %r1, %r1, 400; mad.lo.u32 %r1, %r0, 4, %r1; st.shared.u32 [%r1+400], %r0;",
        "mov.u32 %r2, coef; sub.u32 %r2, %r2, 128; mov.u32 %r1, tile; setp.lt.u32 %p0, %r0, 16; selp.u32 %r1, %r1, %r2, %p0;\n"
        "st.shared.u32 [%r1+128], %r0;",
        "mov.u32 %r1, tile; setp.lt.u32 %p0, %r0, 16; @%p0 bra on; mov.u32 %r1, coef; sub.u32 %r1, %r1, 128;\n"
        "on: st.shared.u32 [%r1+124], %r0;",
        "mov.u32 %r2, coef; mov.u32 %r1, tile; sub.u32 %r2, %r2, %r1; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r0;",
        TILE + "setp.lt.u32 %p0, %r0, 31; @%p0 st.shared.u32 [%r1+4], %r0;",
        "mov.u32 %r1, all; mad.lo.u32 %r1, %r0, 8, %r1; st.shared.u32 [%r1+128], %r0;",
    ],
    ids=["index brings it back", "select", "paths meet", "difference", "guard", "dynamic"],
)
def test_silent(body, engine, monkeypatch):
    """What is made from two variables or from one block is not judged, nor are lanes that do not execute."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")

    assert found(body.replace("\n", " "), engine=engine, shared_mem=1024 if "all" in body else 0) == []


def test_a_fault_hides_it():
    """Where a lane of the same access leaves shared memory, that is told alone; and checks= leaves the rule out."""
    beyond = TILE + "mad.lo.u32 %r1, %r0, 4, %r1; st.shared.u32 [%r1+128], %r0;"
    with pytest.raises(warpsim.ExecutionError) as stopped:
        found(beyond + "trap;")

    assert [f.rule for f in stopped.value.findings][:1] == ["out-of-bounds"]
    assert found(TILE + "st.shared.u32 [%r1+4], %r0;", checks="default-other-variable") == []
