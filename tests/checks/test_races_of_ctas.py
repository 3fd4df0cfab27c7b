"""race in shared memory by CTAs that do not all do the same, and by threads that learn more after they have released."""

import pytest

import warpsim

HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k() {
.reg .b32 %r<9>; .reg .pred %p<9>; .shared .align 16 .b32 s[256];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r8, 7; setp.eq.u32 %p8, %r1, 0;
"""
FIRST = HEAD.count("\n") + 1


def races(body, block, grid):
    """(line, other line) of each race in these lines, counted from the first."""
    kernel = warpsim.load(f"{HEAD}{body}\nret;\n}}\n")["k"]
    found = kernel(grid, block, (), checks="race", on_finding="collect").findings
    return [(f.line - FIRST, f.other and f.other.line - FIRST) for f in found]


@pytest.mark.parametrize("grid", [(1, 2), (2, 1), (1, 3), (3, 2)])
def test_one_cta_of_some(grid):
    """In the last CTA alone thread 0 stores what another warp loads."""
    number = (
        f"mad.lo.u32 %r2, %r3, {grid[0]}, %r2; setp.eq.u32 %p1, %r2, {grid[0] * grid[1] - 1}; and.pred %p1, %p1, %p8;"
    )
    body = number + " setp.eq.u32 %p2, %r1, 32;\n@%p1 st.shared.u32 [s], %r8;\n{}@%p2 ld.shared.u32 %r4, [s];"

    assert races(body.format(""), 64, grid) == [(2, 1)]
    assert races(body.format("bar.sync 0;"), 64, grid) == []


def test_readers_before_a_barrier_make_room():
    """A lane stores what another of its warp has read since the barrier; which warps have read it before does not matter."""
    read = "@%p{} ld.shared.u32 %r4, [s];\n"
    body = (
        "setp.eq.u32 %p1, %r1, 40; setp.eq.u32 %p2, %r1, 5; setp.eq.u32 %p3, %r1, 1; setp.eq.u32 %p4, %r2, 1; @%p4 st.shared.u32 [s+512], %r8;\n"
        + "".join(map(read.format, (1, 2)))
        + "bar.sync 0;\n"
        + "".join(map(read.format, (8, 3, 8)))
        + "@%p8 st.shared.u32 [s], %r8;"
    )

    assert races(body, 64, 2) == [(7, 5)]


@pytest.mark.parametrize(("early", "expected"), [(True, [(6, 3)]), (False, [])])
def test_what_is_learnt_after_a_release(early, expected):
    """A thread hands on what it has acquired before it released, and not what it acquires later."""
    release = "st.release.cta.shared.u32 [s], 1;"
    wait = "{0}: ld.{1}.cta.shared.u32 %r4, [s+{2}]; setp.eq.u32 %p1, %r4, 0; @%p1 bra {0};"
    body = (
        "setp.eq.u32 %p4, %r1, 32; setp.eq.u32 %p5, %r1, 64; @%p4 bra writer; @%p5 bra reader; @!%p8 bra done;\n"
        f"{release if early else ''}\n"
        f"{wait.format('learn', 'acquire', 4)} {'' if early else release} st.relaxed.cta.shared.u32 [s+8], 1; bra done;\n"
        "writer: st.shared.u32 [s+64], %r8;\n"
        "st.release.cta.shared.u32 [s+4], 1; bra done;\n"
        f"reader: {wait.format('late', 'relaxed', 8)} {wait.format('told', 'acquire', 0)}\n"
        "ld.shared.u32 %r5, [s+64]; done:"
    )

    assert races(body, 96, 2) == expected
