"""Races that NVIDIA's own examples have: a warning each; the nearest programs that are right, or worse."""

import numpy as np
import pytest

import warpsim

HEAD = (
    ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
    ".reg .b32 %r<40>; .reg .b64 %rd<20>; .reg .pred %p<9>; .shared .b32 last;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd3, %r2, 4;\n"
    "add.u64 %rd4, %rd1, %rd3; setp.ne.u32 %p1, %r1, 0; mov.u32 %r9, %nctaid.x; mul.wide.u32 %rd5, %r1, 4; add.u64 %rd6, %rd1, %rd5;\n"
)
FIRST = HEAD.count("\n") + 1


def races(body, grid=4, threads=1 << 17):
    """(severity, line, other line) of each race of four CTAs of 64 threads, counted from the first line."""
    data, more = np.zeros(256, np.uint32), np.zeros(8, np.uint32)
    more[:3] = 200
    result = warpsim.load(HEAD + body + "\nret;\n}\n")["k"](
        grid, 64, (data, more), checks="all", on_finding="collect", batch_threads=threads
    )
    assert {f.rule for f in result.findings} <= {"race"}
    return [(f.severity, f.line - FIRST, f.other.line - FIRST) for f in result.findings]


TICKET = """@%p1 bra wait; st.global.u32 [%rd4], 5;
{release} atom.global.inc.u32 %r3, [%rd2+16], %r9; {acquire} add.u32 %r4, %r9, -1; setp.eq.u32 %p2, %r3, %r4; selp.u32 %r5, 1, 0, %p2; st.shared.u32 [last], %r5;
wait: {barrier} ld.shared.u32 %r6, [last]; {later} setp.eq.u32 %p3, %r6, 0; setp.ge.u32 %p4, %r1, %r9; or.pred %p3, %p3, %p4; @%p3 bra done;
ld.global.u32 %r7, [%rd6]; st.global.u32 [%rd6+512], %r7; done:"""
FENCE = "fence.acq_rel.gpu;"
WHOLE = {"release": FENCE, "acquire": FENCE, "barrier": "bar.sync 0;", "later": ""}


@pytest.mark.parametrize("threads", [64, 1 << 17])
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"acquire": ""}, [("warning", 3, 0)]),
        (
            {"acquire": "", "later": FENCE},
            [("warning", 3, 0)],
        ),  # of the thread that read the ticket, before the barrier
        ({"release": ""}, [("error", 3, 0)]),
        ({"release": "fence.acq_rel.cta;", "acquire": ""}, [("error", 3, 0)]),
    ],
)
def test_the_last_block_takes_a_ticket(changed, expected, threads):
    """The reduction of CUDA's threadFenceReduction: no fence after the ticket is a warning, none before it an error."""
    assert races(TICKET.format(**(WHOLE | changed)), threads=threads) == expected


def test_the_ticket_must_be_handed_on():
    """Without the barrier the other threads know nothing of the ticket, fence or no fence."""
    for acquire in (FENCE, ""):
        found = races(TICKET.format(**(WHOLE | {"acquire": acquire, "barrier": "", "later": ""})))

        assert ("error", 3, 0) in found or ("error", 2, 1) in found


POP = "{look}\n@%p2 bra done;\nL: atom.global.add.u32 %r4, [%rd7], -1; {again} bra done; done:"
LOOK = "ld.global.u32 %r3, [%rd2+4]; setp.lt.s32 %p2, %r3, 1; add.u64 %rd7, %rd2, 4;"


@pytest.mark.parametrize(
    ("look", "again", "expected"),
    [
        (LOOK, "setp.lt.s32 %p3, %r4, 1; @%p3 bra done; red.global.add.u32 [%rd1], 1;", {("warning", 2, 0)}),
        (LOOK, "setp.lt.s32 %p3, %r4, 1; @!%p3 bra again;", {("warning", 2, 0), ("warning", 0, 2)}),
        (LOOK, "", {("error", 2, 0)}),  # the atomic does not tell
        (
            LOOK + "red.global.add.u32 [%rd1], %r3;",
            "setp.lt.s32 %p3, %r4, 1; @%p3 bra done;",
            {("error", 2, 0)},
        ),  # used
        (
            LOOK.replace("+4", "+8"),
            "setp.lt.s32 %p3, %r4, 1; @%p3 bra done; red.global.add.u32 [%rd2+8], 1;",
            {("error", 2, 0)},
        ),
        (
            LOOK.replace("[%rd2+4]", "[%rd2]").replace("%rd2, 4", "%rd2, 0"),
            "setp.lt.s32 %p3, %r4, 1; @%p3 bra done;",
            {("warning", 2, 0)},
        ),
    ],
)
def test_a_test_before_an_atomic(look, again, expected):
    """A plain load that only saves an atomic whose result tells more, as the stack of CUDA's newdelete does."""
    found = races("again: " + POP.format(look=look, again=again))

    assert set(found) >= expected
    assert {f[0] for f in found} == {f[0] for f in expected}


def test_a_poll_is_no_test():
    """A plain load in a loop of its own may be read once by the assembler: an error."""
    body = "L: ld.global.u32 %r3, [%rd2]; setp.lt.s32 %p2, %r3, 1;\n@%p2 bra L;\natom.global.add.u32 %r4, [%rd2], -1; setp.lt.s32 %p3, %r4, 1; @%p3 bra done; done:"

    assert ("error", 2, 0) in races(body)


def test_byte_of_a_race():
    """What is named is a byte that both access, not the first of either."""
    body = "setp.ne.u32 %p2, %r2, 0; setp.ne.u32 %p3, %r2, 1; or.pred %p2, %p1, %p2; or.pred %p3, %p1, %p3;\n"
    body += "@!%p2 st.global.u16 [%rd1+6], 1;\n@!%p3 ld.global.u64 %rd9, [%rd1];"
    result = warpsim.load(HEAD + body + "\nret;\n}\n")["k"](
        2, 64, (np.zeros(64, np.uint32), np.zeros(8, np.uint32)), checks="all", on_finding="collect"
    )
    assert [f.message.split(" of ")[0] for f in result.findings] == ["byte 6"]


@pytest.mark.parametrize(
    "swap",
    [
        "ld.volatile.global.v2.b32 {%r3, %r4}, [%rd1]; st.global.u32 [%rd2], %r3; and.b32 %r6, %r4, 0xffffff00; or.b32 %r7, %r6, 1;\n"
        "atom.relaxed.gpu.global.cas.b32 %r8, [%rd1+4], %r4, %r7;",
        "ld.relaxed.gpu.global.b64 %rd9, [%rd1]; mov.b64 {%r3, %r4}, %rd9; st.global.u32 [%rd2], %r3; and.b32 %r6, %r4, 0xffffff00;\n"
        "or.b32 %r7, %r6, 1; atom.relaxed.gpu.global.cas.b32 %r8, [%rd1+4], %r4, %r7;",
        "mov.u32 %r4, 0xffff00ff; and.b32 %r6, %r4, 0xff; or.b32 %r7, %r6, 0x100; atom.relaxed.gpu.global.cas.b32 %r8, [%rd1], 0, %r7;",
    ],
)
def test_swaps_that_keep_nothing_of_what_is_raced_for(swap):
    """Byte 2 is not what the mask keeps: it lies beside the swapped word, or the swap compares it with zero."""
    body = "@%p1 bra done; setp.ne.u32 %p2, %r2, 0; @%p2 bra store;\n" + swap + "\nbra done;\n"

    found = races(body + "store: st.global.u8 [%rd1+2], 7; done:", grid=2)

    assert [severity for severity, *_ in found] == ["error"]


def test_swaps_of_16_bytes():
    """What makes the values of a swap of 16 bytes is more than arithmetic, which tells of no mask."""
    swap = ".reg .b128 q, r, s; mov.b64 %rd8, 0; mov.b64 %rd9, 1; mov.b128 q, {%rd8, %rd8}; mov.b128 r, {%rd8, %rd9};\n"

    assert races(swap + "atom.relaxed.gpu.global.cas.b128 s, [%rd1], q, r;") == []
