"""Loops that wait for a clock, a flag or both come to their end without many laps; those that cannot end are named."""

import numpy as np
import pytest

import warpsim

HEAD = """.version 8.0
.target sm_80
.address_size 64
.func (.reg .u64 now) clock_of() { mov.u64 now, %clock64; ret; }
.func (.param .b64 now) timer_of(.param .b32 unused) { .reg .u64 t; mov.u64 t, %globaltimer; st.param.b64 [now], t; ret; }
.visible .entry k(.param .u64 a, .param .u64 b)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>; .param .b64 t; .param .b32 u;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
"""
ENOUGH = 20_000
"""More warp-instructions than any of the waits below takes, and far less than a lap for each tick would."""


def launch(body, block=32, **options):
    """A launch of these instructions with two zeroed arrays; gives its result and the first array."""
    data = np.zeros(64, np.uint64)
    options = {"max_instructions": ENOUGH} | options
    result = warpsim.load(HEAD + body + "\nret;\n}\n")["k"](1, block, (data, data), **options)
    return result, data


def wait(clock, ticks, kind="u64", look=""):
    """A loop that ends when a clock has gone on by so many ticks, or where ``look`` branches to ``out``."""
    bits, r = (32, "%r") if clock in ("clock", "globaltimer_lo") else (64, "%rd")
    return (
        f"mov.b{bits} {r}4, %{clock}; w: {look} mov.b{bits} {r}5, %{clock}; sub.{kind} {r}6, {r}5, {r}4; "
        f"setp.lt.{kind} %p1, {r}6, {ticks}; @%p1 bra w; out:\n"
    )


@pytest.mark.parametrize(
    ("clock", "ticks", "kind"),
    [
        ("clock", 10**6, "u32"),
        ("clock", 2 * 10**9, "s32"),
        ("clock", 4 * 10**9, "u32"),
        ("clock64", 10**6, "u64"),
        ("clock64", 10**15, "s64"),
        ("globaltimer", 10**9, "u64"),
        ("globaltimer_lo", 10**9, "u32"),
    ],
)
def test_a_wait_for_a_clock_ends(clock, ticks, kind):
    """The time that was waited for has passed, and not many times that."""
    bits, r = (32, "%r") if kind.endswith("32") else (64, "%rd")
    _, data = launch(wait(clock, ticks, kind) + f"st.global.b{bits} [%rd1], {r}6;")

    assert ticks <= int(data[0]) <= ticks * 1.1 + 2000


def test_time_that_is_summed_up():
    """The time of the lap before is part of what changes, and so is a count of the laps."""
    body = (
        "mov.u64 %rd4, %globaltimer; mov.u64 %rd7, 0; w: add.u32 %r2, %r2, 1; setp.gt.u32 %p2, %r2, 100000000; @%p2 bra out;"
        "mov.u64 %rd5, %globaltimer; sub.u64 %rd6, %rd5, %rd4; mov.u64 %rd4, %rd5; add.u64 %rd7, %rd7, %rd6;"
        "setp.lt.u64 %p1, %rd7, 1000000000; @%p1 bra w; out: st.global.u64 [%rd1], %rd7;"
    )
    _, data = launch(body)

    assert 10**9 <= int(data[0]) <= 1.1 * 10**9


@pytest.mark.parametrize(
    "look",
    [
        "call (%rd5), clock_of;",
        "st.param.b32 [u], 5; call (t), timer_of, (u); ld.param.b64 %rd5, [t];",
    ],
)
def test_a_clock_in_a_function(look):
    """A function may read the clock."""
    body = (
        f"{look} mov.u64 %rd4, %rd5; w: {look} sub.u64 %rd6, %rd5, %rd4; setp.lt.u64 %p1, %rd6, 100000000; @%p1 bra w;"
    )

    launch(body)


def test_flag_or_time_out():
    """Nobody sets the flag: the time-out ends the loop."""
    look = "ld.volatile.global.u32 %r2, [%rd1]; setp.ne.u32 %p2, %r2, 0; @%p2 bra out;"
    _, data = launch(wait("globaltimer", 10**9, look=look) + "selp.u32 %r3, 1, 2, %p2; st.global.u32 [%rd1+8], %r3;")

    assert int(data[1]) == 2


@pytest.mark.parametrize(("delay", "answer"), [(0, 1), (10**6, 1), (9 * 10**8, 1), (2 * 10**9, 2)])
def test_whose_time_comes_first(delay, answer):
    """Of a flag that another warp sets after a while, and a time-out, the earlier one ends the wait."""
    look = "ld.volatile.global.u32 %r2, [%rd1]; setp.ne.u32 %p2, %r2, 0; @%p2 bra out;"
    giver = wait("globaltimer", delay).replace("w:", "g:").replace("bra w", "bra g").replace("out:", "")
    body = (
        "setp.ge.u32 %p3, %r1, 32; @%p3 bra giver;\n"
        + wait("globaltimer", 10**9, look=look)
        + "selp.u32 %r3, 1, 2, %p2; st.global.u32 [%rd1+8], %r3; ret;\ngiver:"
        + giver
        + "st.volatile.global.u32 [%rd1], 1;"
    )
    _, data = launch(body, block=64)

    assert int(data[1]) == answer


def test_others_work_while_one_waits():
    """Time leaps only where nobody can go on: work of many laps is done before a long wait is over."""
    body = (
        "setp.ge.u32 %p3, %r1, 32; @%p3 bra work;\n"
        + wait("clock64", 10**9)
        + "ld.volatile.global.u64 %rd7, [%rd1]; st.global.u64 [%rd1+8], %rd7; ret;\n"
        "work: mov.u32 %r2, 0; l: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3000; @%p1 bra l; st.volatile.global.u32 [%rd1], %r2;"
    )
    _, data = launch(body, block=64)

    assert int(data[1]) == 3000


def test_waits_in_a_loop():
    """Each of many waits is as long as the first."""
    body = "o: " + wait("clock64", 10**6) + "add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 50; @%p2 bra o;"
    body = (
        "mov.u64 %rd7, %clock64;"
        + body
        + "mov.u64 %rd8, %clock64; sub.u64 %rd8, %rd8, %rd7; st.global.u64 [%rd1], %rd8;"
    )
    _, data = launch(body, max_instructions=100_000)

    assert 50 * 10**6 <= int(data[0]) <= 55 * 10**6


@pytest.mark.parametrize(
    ("sleep", "least", "most"),
    [
        ("nanosleep.u32 5000;", 5000, 10_000),
        ("mul.lo.u32 %r3, %r1, 100; nanosleep.u32 %r3;", 3100, 6200),  # the longest of the warp
        ("setp.lt.u32 %p1, %r1, 8; mul.lo.u32 %r3, %r1, 100; @%p1 nanosleep.u32 %r3;", 700, 1400),
        ("setp.gt.u32 %p1, %r1, 99; @%p1 nanosleep.u32 5000;", 0, 200),
        ("nanosleep.u32 4000000000;", 10**6, 2 * 10**6),  # "the maximum sleep duration is 1 millisecond"
    ],
)
def test_sleep_takes_time(sleep, least, most):
    """ "A sleep duration, approximately close to the delay t, specified in nanoseconds", between 0 and 2t (PTX ISA: nanosleep)."""
    look = "mov.u64 %rd{}, %globaltimer;"
    _, data = launch(
        f"{look.format(4)} {sleep} {look.format(5)} sub.u64 %rd5, %rd5, %rd4; st.global.u64 [%rd1], %rd5;",
    )

    assert least <= data[0] <= most


def test_clocks_are_those_of_the_simulation():
    """Two launches on new devices read the same times; on one device %globaltimer goes on."""
    body = (
        "mov.u64 %rd4, %globaltimer; st.global.u64 [%rd1], %rd4; mov.u64 %rd5, %clock64; st.global.u64 [%rd1+8], %rd5;"
    )
    body += wait("clock64", 10**6) + "mov.u64 %rd6, %globaltimer; st.global.u64 [%rd1+16], %rd6;"
    device = warpsim.Device("sm_80")
    first, second = launch(body, device=device)[1], launch(body, device=device)[1]
    other = launch(body, device=warpsim.Device("sm_80"))[1]

    assert other.tolist() == first.tolist()
    assert first[1] == second[1]
    assert first[0] + 10**6 <= first[2] < second[0]


LOOPS = {
    "no way out": "w: add.u32 %r2, %r2, 1; bra w;",
    "no way out, with effects": "w: add.u32 %r2, %r2, 1; st.global.u32 [%rd1], %r2; bra w;",
    "no way out, with a branch": "w: setp.eq.u32 %p1, %r2, 5; @%p1 bra x; add.u32 %r2, %r2, 1; x: bra w;",
    "a condition that is never computed again": "setp.eq.u32 %p1, %r3, 0; w: add.u32 %r2, %r2, 1; @%p1 bra w;",
    "a step of zero": "w: add.u32 %r2, %r2, 1; add.u32 %r4, %r3, %r3; setp.lt.u32 %p1, %r4, 5; @%p1 bra w;",
    "memory that nobody writes": "w: add.u32 %r2, %r2, 1; ld.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra w;",
    "a flag that nobody sets, counting": "w: add.u32 %r2, %r2, 1; ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra w;",
    "a flag, whatever the time": "w: mov.u64 %rd5, %clock64; ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra w;",
    "a flag and a time": "w: ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra w; mov.u64 %rd5, %clock64; setp.eq.u64 %p1, %rd5, 5; @%p1 bra w;",
    "three registers in turn": "mov.u32 %r4, 1; mov.u32 %r5, 2; w: mov.u32 %r6, %r3; mov.u32 %r3, %r4; mov.u32 %r4, %r5; mov.u32 %r5, %r6; setp.ne.u32 %p1, %r3, 9; @%p1 bra w;",
    "an index that wraps at 37": "mov.u32 %r4, 5; w: add.u32 %r4, %r4, 1; setp.eq.u32 %p2, %r4, 37; @%p2 mov.u32 %r4, 0; setp.ne.u32 %p1, %r4, 99; @%p1 bra w;",
    "two flags in turn": "w: xor.b32 %r3, %r3, 4; cvt.u64.u32 %rd5, %r3; add.u64 %rd5, %rd5, %rd1; ld.volatile.global.u32 %r4, [%rd5]; setp.eq.u32 %p1, %r4, 0; @%p1 bra w;",
    "an inner loop that ends": "w: mov.u32 %r4, 0; i: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra i; setp.eq.u32 %p2, %r3, 0; @%p2 bra w;",
}


@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
def test_a_loop_that_cannot_end(body, monkeypatch):
    """It is named long before the budget of instructions is used up, with its lines."""
    monkeypatch.setattr("warpsim.machine.waiting.LOOK_EVERY", 64)
    with pytest.raises(warpsim.ExecutionError) as caught:
        launch("\n" + body, checks="none", max_instructions=20_000_000)
    found = caught.value.findings[0]

    assert (found.rule, found.line) == ("deadlock", 11)


def test_a_loop_that_cannot_end_any_more(monkeypatch):
    """However long it has changed memory before, it is named soon after the last change."""
    monkeypatch.setattr("warpsim.machine.waiting.LOOK_EVERY", 4)
    body = (
        "mov.u32 %r4, 1; mov.u32 %r5, 2; w: mov.u32 %r6, %r3; mov.u32 %r3, %r4; mov.u32 %r4, %r5; mov.u32 %r5, %r6;"
        " add.u32 %r2, %r2, 1; min.u32 %r2, %r2, 1100; setp.lt.u32 %p2, %r2, 1100; @%p2 st.global.u32 [%rd1], %r2;"
        " setp.ne.u32 %p1, %r3, 9; @%p1 bra w;"
    )
    with pytest.raises(warpsim.ExecutionError, match="repeat the loop"):
        launch(body, checks="none", max_instructions=12_000)


ENDING = {
    "a count": "w: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 400; @%p1 bra w;",
    "a count in two registers": "w: add.cc.u32 %r2, %r2, 0x800000; addc.u32 %r3, %r3, 0; setp.lt.u32 %p1, %r3, 2; @%p1 bra w;",
    "a count in memory": "w: ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; st.global.u32 [%rd1], %r2; setp.lt.u32 %p1, %r2, 400; @%p1 bra w;",
    "a count in local memory": ".local .b32 n; st.local.u32 [n], 0; w: ld.local.u32 %r2, [n]; add.u32 %r2, %r2, 1; st.local.u32 [n], %r2; setp.lt.u32 %p1, %r2, 400; @%p1 bra w;",
    "a count by turns": "setp.eq.u32 %p1, %r3, 0; w: xor.b32 %r3, %r3, 4; selp.b32 %r4, 0, 1, %p1; add.u32 %r2, %r2, %r4; setp.lt.u32 %p2, %r2, 400; not.pred %p1, %p1; @%p2 bra w;",
    "a flag of two in turn that another warp sets": "setp.lt.u32 %p2, %r1, 32; @%p2 bra w; s: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 9000; @%p1 bra s; st.volatile.global.u32 [%rd1+4], 1; bra e;"
    " w: xor.b32 %r3, %r3, 4; cvt.u64.u32 %rd5, %r3; add.u64 %rd5, %rd5, %rd1; ld.volatile.global.u32 %r4, [%rd5]; setp.eq.u32 %p1, %r4, 0; @%p1 bra w; e:",
    "a plain flag, with stores": "setp.ge.u32 %p2, %r1, 16; @%p2 bra s; w: add.u32 %r2, %r2, 1; st.global.u32 [%rd1+4], %r2;"
    " ld.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra w; bra e; s: st.global.u32 [%rd1], 7; e:",
    "lanes that come later": "setp.ge.u32 %p2, %r1, 16; v: @%p2 bra s; activemask.b32 %r4; popc.b32 %r4, %r4; setp.eq.u32 %p1, %r4, 16;"
    " @%p1 bra v; bra e; s: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 50; @%p1 bra s; setp.eq.u32 %p2, %r2, 0; bra v; e:",
    "an atomic count": "w: atom.global.add.u32 %r2, [%rd1], 1; setp.lt.u32 %p1, %r2, 12000; @%p1 bra w;",
    "an inner loop, often": "i: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 2; @%p1 bra i; w: mov.u32 %r3, 0; x: add.u32 %r3, %r3, 1;"
    " setp.lt.u32 %p1, %r3, 4; @%p1 bra x; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 400; @%p2 bra w;",
    "a predicate": "setp.eq.u32 %p2, 0, 1; w: add.u32 %r2, %r2, 1; setp.gt.u32 %p2, %r2, 400; @!%p2 bra w;",
    "guarded writes": "w: add.u32 %r2, %r2, 1; setp.gt.u32 %p2, %r2, 400; @%p2 mov.u32 %r3, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra w;",
    "an exit in the loop": "w: add.u32 %r2, %r2, 1; setp.gt.u32 %p2, %r2, 400; @%p2 exit; bra w;",
    "two warps that vote": "shr.u32 %r4, %r1, 5; w: add.u32 %r2, %r2, %r4; setp.lt.u32 %p1, %r2, 400; barrier.cta.red.and.pred %p1, 0, %p1; @%p1 bra w;",
    "a vote of two loops": "setp.lt.u32 %p2, %r1, 32; setp.ne.u32 %p1, %r3, 0; @%p2 bra w; s: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 400; barrier.cta.red.or.pred %p1, 0, %p1; @%p1 bra s; bra e;"
    " w: barrier.cta.red.or.pred %p2, 0, %p1; @%p2 bra w; e:",
}


@pytest.mark.parametrize("body", ENDING.values(), ids=ENDING)
def test_a_long_loop_that_ends(body, monkeypatch):
    """Whatever changes what its condition depends on lets it run to its end, however often it is looked at."""
    monkeypatch.setattr("warpsim.machine.waiting.LOOK_EVERY", 16)
    monkeypatch.setattr("warpsim.machine.waiting.PATIENCE", 4096)
    launch(body, block=64, max_instructions=10**6)


@pytest.mark.parametrize(
    ("access", "waits"),
    [
        ("atom.global.add.u32 %r4, [%rd1], 1;", False),
        ("atom.global.add.u32 _, [%rd1], 1;", False),
        ("@%p2 atom.global.add.u32 %r4, [%rd1], 1;", False),
        ("ld.volatile.global.u32 %r4, [%rd1];", False),
        ("atom.global.add.u32 %r3, [%rd1], 1;", True),
        ("atom.global.exch.b32 %r4, [%rd1], 1; mov.u32 %r3, %r4;", True),
        ("@%p2 atom.global.add.u32 %r3, [%rd1], 1;", True),
        ("ld.volatile.global.u32 %r3, [%rd1];", True),
    ],
)
def test_what_gives_way_to_others(access, waits):
    """A loop may wait for what others write only where somebody reads the result of such an access."""
    body = f"setp.eq.u32 %p2, %r1, 0; w: {access} add.u32 %r2, %r2, %r3; setp.lt.u32 %p1, %r2, 400; @%p1 bra w;"
    plan = warpsim.load(HEAD + body + "\nret;\n}\n").image(warpsim.Device("sm_80")).plan("k")

    assert any(block.waits for block in plan.main.blocks) == waits


def test_counters_that_miss_their_bound():
    """A stride that steps over the bound is named for the threads that never meet it, whatever the loop stores."""
    with pytest.raises(warpsim.ExecutionError) as raised:
        launch(
            "add.u32 %r4, %r1, 20000; L: add.u32 %r2, %r2, 2; st.global.u32 [%rd1], %r2; setp.ne.u32 %p1, %r2, %r4; @%p1 bra L;",
            max_instructions=10**6,
        )
    finding = raised.value.findings[0]
    assert (finding.rule, finding.lanes) == ("deadlock", tuple(range(1, 32, 2)))


def test_counters_that_wrap_meet_their_bound():
    """A loop that ends after its counter has wrapped is left alone."""
    result, _ = launch(
        "{ .reg .u16 h; mov.u16 h, 0; L: add.u16 h, h, 6; setp.ne.u16 %p1, h, 2; @%p1 bra L; }", max_instructions=10**6
    )
    assert result.instructions > 3 * 10922
