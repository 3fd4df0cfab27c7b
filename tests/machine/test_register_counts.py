"""setmaxnreg: registers move from warps that give them back to warps that wait for them."""

import numpy as np
import pytest

import warpsim


def program(directives, first, second, before="", after=""):
    """Two warpgroups; the first one writes what it finds in shared memory after its ``setmaxnreg``."""
    return f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {directives}
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .b32 word;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 128; @%p1 bra SECOND;
{first}
ld.volatile.shared.b32 %r2, [word]; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.b32 [%rd1], %r2;
{after}
ret;
SECOND: {before}
setp.eq.u32 %p2, %r1, 128; @%p2 st.volatile.shared.b32 [word], 7;
bar.sync 1, 128;
{second}
ret; }}
"""


def run(text, **options):
    """The first words of the first warpgroup."""
    out = np.zeros(128, np.uint32)
    warpsim.load(text)["k"]((3,), (256,), (out,), **options)
    return out


INC, DEC = "setmaxnreg.inc.sync.aligned.u32 96;", "setmaxnreg.dec.sync.aligned.u32 32;"
KNOWN = (".maxnreg 64", ".maxntid 256 .minnctapersm 4", ".reqntid 256 .minnctapersm 4")


@pytest.mark.parametrize("directives", KNOWN)
def test_more_registers_come_from_those_that_give_back(directives):
    """inc waits for the dec of the others, and so reads what they have stored before."""
    assert run(program(directives, INC, DEC)).tolist() == [7] * 128


def test_part_of_what_is_needed_is_not_enough():
    """dec to 40 frees 24 registers a thread; the other warpgroup wants 32 more."""
    more = "setmaxnreg.dec.sync.aligned.u32 40;"
    with pytest.raises(warpsim.ExecutionError) as caught:
        run(program(".maxnreg 64", INC, more + " bar.sync 2;", after="bar.sync 2;"))
    found = caught.value.findings[0]

    assert found.rule == "setmaxnreg"
    assert found.instruction.startswith("setmaxnreg.inc")
    assert "wait for registers" in found.message
    assert found.warp == 3  # three warps got theirs


@pytest.mark.parametrize("second", ["", "bar.sync 2;", "setmaxnreg.dec.sync.aligned.u32 40;"])
def test_nobody_gives_back_enough(second):
    """The launch ends, also without checks; on an H200 it does not, not even when the other warps have ended."""
    with pytest.raises(warpsim.ExecutionError) as caught:
        run(program(".maxnreg 64", INC, second, after="bar.sync 2;"), checks="none")

    assert caught.value.findings[0].rule == "deadlock"


def test_count_at_launch_is_unknown():
    """The assembler leaves the instruction out: nobody waits."""
    assert run(program(".maxntid 256", INC, DEC), checks="none").tolist() == [0] * 128


def test_what_was_given_back_can_be_taken_again():
    """Down, up, and up to what others have given back."""
    first = DEC + "bar.sync 1, 128; setmaxnreg.inc.sync.aligned.u32 64; bar.sync 1, 128;" + INC
    assert run(program(".maxnreg 64", first, DEC, before="bar.sync 3, 128;")).tolist() == [7] * 128


def test_the_warps_that_execute_are_named():
    """A finding stands at the setmaxnreg, with the warps that have executed it."""
    text = program(".maxnreg 64", "", "setp.lt.u32 %p3, %r1, 192; @%p3 bra L; " + DEC + " L:")
    with pytest.raises(warpsim.ExecutionError) as caught:
        run(text, checks={"setmaxnreg"})
    found = caught.value.findings[0]

    assert (found.rule, found.warp, found.cta) == ("setmaxnreg", 6, (0, 0, 0))
    assert found.instruction.startswith("setmaxnreg.dec")
    assert "warps 6, 7" in found.message


def test_a_guard_that_no_lane_passes():
    """A warp whose guard is false takes no registers and waits for none; one whose guard is true does."""
    first, second = "setp.eq.u32 %p3, %r1, 999; @%p3 " + INC, "setp.ne.u32 %p3, %r1, 999; @%p3 " + INC

    assert set(run(program(".maxnreg 64", first, "", after="bar.sync 2;"), checks="none").tolist()) <= {0, 7}
    with pytest.raises(warpsim.ExecutionError, match="wait for registers"):
        run(program(".maxnreg 64", second, ""))
