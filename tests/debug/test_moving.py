"""Where motion ends: functions that return, warps that exit, the end of the launch; places by name; what is refused."""

from pathlib import Path

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.debug import DebugError, Session
from warpsim.host.cases import Case

KERNELS = Path(__file__).parent / "kernels"
PROGRAMS = Path(__file__).parents[2] / "programs"
CALLS = (KERNELS / "calls.ptx").read_text()
LINES = CALLS.replace("{\n  .reg .u32 %x<2>;", "{\n  .reg .u32 %x<2>;\n  .loc 1 3 1", 1)
LINES = LINES.replace("  ld.param.u64 %rd0, [out];", "  .loc 1 10 1\n  ld.param.u64 %rd0, [out];")
LINES = (
    LINES.replace("  ld.param.u32 %r1, [b];", "  .loc 1 12 1\n  ld.param.u32 %r1, [b];") + '.file 1 "dir/twice.cu"\n'
)


def made(text=CALLS, threads=64, **options):
    """A session on CALLS."""
    return Session(warpsim.load(text)["k"], (1,), (threads,), (np.zeros(64, np.uint32), 5), **options)


@pytest.fixture
def session():
    """A session on 64 threads of CALLS."""
    return made()


@pytest.mark.parametrize(
    ("place", "lines"),
    [
        (17, (17,)),
        ("17", (17,)),
        (" 33 ", (33,)),
        (11, (17,)),
        (1, (7,)),
        ("k", (17,)),
        ("twice", (7,)),
        ("small", (24,)),
        ("k:small", (24,)),
        ("op:ld.param.*", (7, 17, 26)),
        ("op:ret", (10, 37)),
        (37, (37,)),
    ],
)
def test_places(session, place, lines):
    """A line, or the next one that has an instruction; functions, labels, opcodes."""
    assert session.break_at(place).lines == lines


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (0, "there is no line 0"),
        (40, "there is no line 40"),
        (39, "there is no instruction at or after line 39"),
        (38, "there is no instruction at or after line 38"),
        ("123456789", "there is no line 123456789: the module has 39 lines"),
        ("1234567890", "there is no line 1234567890..."),
        ("op:mma*", "no instruction matches 'mma*'; opcodes: "),
        ("big", "no function, label or line 'big'; functions: k, twice; labels: small"),
        ("twice:small", "no function, label or line 'twice:small'; functions: k, twice; labels: none"),
        ("k.cu:3", "compile with -lineinfo"),
    ],
)
def test_no_places(session, place, said):
    """What is no place is refused, with what there is."""
    with pytest.raises(DebugError) as caught:
        session.break_at(place)
    assert said in str(caught.value)
    assert session.breakpoints == {}


def test_places_in_sources():
    """A file by its name or the end of its path; a line, or the next one that has code."""
    session = made(LINES)
    assert session.break_at("twice.cu:3").lines == (8,)
    assert session.break_at("dir/twice.cu:4").lines == (19,)
    assert session.break_at("twice.cu:12").lines == (29,)
    assert session.break_at("twice.cu:1").lines == (8,)
    for place, said in (
        ("ice.cu:3", "no code from ice.cu; files with code: dir/twice.cu"),
        ("twice.cu:13", "twice.cu has no code at or after line 13"),
        ("twice.cu:" + "1" * 10, "there is no line 1111111111..."),
    ):
        with pytest.raises(DebugError) as caught:
            session.break_at(place)
        assert said in str(caught.value)


def test_the_function_returns(session):
    """until, and a step by line, stop where the function returns, if not before."""
    session.until("twice")
    assert session.until(34).line == 26
    session = made(LINES)
    session.until("twice")
    session.step()
    assert (session.stop.line, session.stop.source) == (9, ("dir/twice.cu", 3))
    assert session.step(by="line").line == 29


@pytest.mark.parametrize("again", ["step", "next", "cont", "finish", "until"])
def test_behind_the_end(session, again):
    """Behind the end there is nothing; the way back is open."""
    end = session.cont()
    assert end.reason == "end"
    assert end.focus is None
    stop = {"until": lambda: session.until(17)}.get(again, lambda: getattr(session, again)())
    if again == "finish":
        with pytest.raises(DebugError, match="outermost"):
            stop()
    else:
        assert (stop().reason, session.stop.step) == ("end", end.step)
    assert session.where() == ()
    assert session.result is not None
    with pytest.raises(DebugError, match="go back first"):
        session.set("%r0", 1)
    assert session.goto(end.step).reason == "end"
    assert session.goto(end.step + 5).reason == "end"
    assert session.goto(end.step - 1).line == 37
    assert session.result is None
    with pytest.raises(DebugError, match="there is no step -1"):
        session.goto(-1)


def test_a_warp_that_has_exited(session):
    """A step with a thread that has exited is refused; the others go on."""
    session.focus(warp=1)
    session.until(34)
    session.focus(warp=0)
    while session.stop.line != 37:
        session.step()
    stop = session.step()
    assert (stop.reason, stop.focus.warp, stop.line) == ("step", 1, 35)
    session.focus(warp=0)
    assert session.where() == ()
    assert session.stop.line is not None
    for move in (session.step, session.next, session.finish, lambda: session.until(36)):
        with pytest.raises(DebugError, match=r"has exited; focus on another|outermost"):
            move()
    session.focus(warp=1)
    assert session.step().line == 36


def test_lanes_that_have_exited():
    """A warp is looked at through its lowest lane that has not exited."""
    text = CALLS.replace("  setp.lt.u32 %p, %r0, 40;\n  @%p bra small;", "  setp.lt.u32 %p, %r0, 35;\n  @%p ret;")
    session = made(text)
    session.focus(warp=1, lane=9)
    assert session.until("op:st.param*").focus.lane == 9
    assert session.focus(lane=2).lane == 2
    assert session.where() == ()
    session.focus(warp=0, lane=0)
    session.cont()
    session.goto(session.stop.step - 1)
    session.focus(warp=0, lane=0)
    assert session.where() == ()
    assert session.focus(warp=1).lane == 3
    assert session.focus(lane=31).lane == 31
    assert session.where()[0].line == 37


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.watch("s[0]", scope="cta"), "scope must be 'lane', 'warp' or 'any', not 'cta'"),
        (lambda s: s.watch("%r0", read=True), "reads of registers cannot be watched"),
        (lambda s: s.watch("%r0[32]"), "lane must be 0 to 31, not 32"),
        (lambda s: s.watch("5"), "watch a register, a variable, or memory"),
        (lambda s: s.watch("%r0 + 1"), "watch a register, a variable, or memory"),
        (lambda s: s.watch("%nope + 1"), "no register, variable or parameter %nope"),
        (lambda s: s.watch("s[64]"), "element 64 is out of range"),
        (lambda s: s.watch("global.u32[5]"), "outside any allocation"),
        (lambda s: s.watch("matrix d"), "there is no matrix instruction here or before"),
        (lambda s: s.origin("%r0", 0), "depth must be 1 to 32, not 0"),
        (lambda s: s.origin("%r0", 33), "depth must be 1 to 32, not 33"),
        (lambda s: s.matrix("a"), "there is no matrix instruction here or before"),
        (lambda s: s.select(1), "no frame 1; frames: 0 to 0"),
        (lambda s: s.select(-1), "no frame -1; frames: 0 to 0"),
        (lambda s: s.delete(1), "no breakpoint 1; breakpoints: none"),
        (lambda s: s.break_at(17, "1 +"), "expected a value"),
        (lambda s: s.catch("unknown"), "no event or rule 'unknown'"),
        (lambda s: s.step(by="lines"), "step by 'instruction' or 'line', not 'lines'"),
        (lambda s: s.back(by="page"), "step by 'instruction' or 'line', not 'page'"),
        (lambda s: s.focus((0, 0, 0, 0)), "one to three coordinates"),
        (lambda s: s.focus(()), "one to three coordinates"),
        (lambda s: s.focus(1), "there is no CTA (1,0,0) in a grid of (1, 1, 1)"),
        (lambda s: s.focus((0, 1)), "there is no CTA (0,1,0)"),
        (lambda s: s.focus((0, 0, -1)), "there is no CTA (0,0,-1)"),
        (lambda s: s.focus(warp=2), "there is no warp 2: a CTA has warps 0 to 1"),
        (lambda s: s.focus(warp=-1), "there is no warp -1"),
        (lambda s: s.focus(lane=32), "there is no lane 32 in warp 0: a CTA has 64 threads"),
        (lambda s: s.focus(lane=-1), "there is no lane -1"),
    ],
)
def test_refused(session, call, said):
    """What makes no sense is refused, and nothing has moved."""
    before = session.stop
    with pytest.raises(DebugError) as caught:
        call(session)
    assert said in str(caught.value)
    assert session.stop == before
    assert session.breakpoints == {}


def test_numbers_of_breakpoints(session):
    """Breakpoints, watchpoints and catchpoints are numbered in one row; a number is not given twice."""
    assert [session.break_at(17).number, session.watch("s[0]").number, session.catch("arrival").number] == [1, 2, 3]
    session.delete(3)
    assert session.break_at(18).number == 4
    with pytest.raises(DebugError, match="no breakpoint 3; breakpoints: 1, 2, 4"):
        session.delete(3)
    session.delete()
    assert session.breakpoints == {}


def test_lines_before_the_first():
    """Before the first line of CUDA there is only the start."""
    session = made(LINES)
    assert (session.back(by="line").step, session.stop.line) == (0, 19)
    with pytest.raises(DebugError, match="-lineinfo"):
        made().back(by="line")


@pytest.mark.parametrize("cta", [(1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1), (1, 1, 1)])
def test_a_step_of_one_warp_among_many(cta):
    """It moves the warp in focus, of whichever CTA, and no other."""
    text = CALLS.replace(
        "  ld.param.u64 %rd0, [out];",
        "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n  ld.param.u64 %rd0, [out];",
        1,
    )
    text = text.replace("sm_80", "sm_90")
    session = Session(
        warpsim.load(text)["k"], (2, 2, 2), 64, (np.zeros(64, np.uint32), 5), cluster=(2, 2, 2), checks="none"
    )
    session.break_at("op:ld.param.u64")
    session.cont()
    session.delete()
    before = {(w.cta, w.warp): w.line for w in session.warps()}
    session.focus(cta, 1)
    session.step(2)
    after = {(w.cta, w.warp): w.line for w in session.warps()}
    assert {who for who in after if after[who] != before[who]} == {(cta, 1)}


@pytest.mark.parametrize("given", [0, 16, 20])
def test_shared_memory_of_the_launch(given):
    """An array without a size has what the launch gives it, in whole elements."""
    text = module_head("sm_90a") + ".extern .shared .align 4 .b8 bytes[];\n.extern .shared .align 8 .u64 words[];\n.visible .entry k() { .reg .b32 r; mov.u32 r, bytes; mov.u32 r, words; ret; }"  # fmt: skip
    session = Session(warpsim.load(text)["k"], 1, 32, (), shared_mem=given)
    assert session.evaluate("bytes").shape == (given,)
    assert session.evaluate("words").shape == (given // 8,)
    with pytest.raises(DebugError, match="out of range"):
        session.evaluate(f"bytes[{given}]")


def test_switched_off(session):
    """A breakpoint that is off stops nobody; one that is ignored counts its hits."""
    first, second, watch = session.break_at(26), session.break_at(33, ignore=1), session.watch("s[63]")
    first.enabled = watch.enabled = False
    stop = session.cont()
    assert (stop.number, stop.line, stop.focus.warp) == (2, 33, 1)
    assert [point.hits for point in (first, second, watch)] == [0, 2, 0]
    assert session.cont().reason == "end"


def test_several_steps(session):
    """So many steps at once are as many one by one; a stop on the way ends them."""
    assert session.step(3).line == 20
    assert session.step(0).line == 20
    assert session.next(2).line == 24
    session.break_at(8)
    stop = session.step(50)
    assert (stop.reason, stop.line) == ("breakpoint", 8)


def test_over_and_out(session):
    """A call that is stepped over may stop inside; finish leaves the function that is looked at."""
    session.until(25)
    session.break_at(8)
    assert (session.next().line, session.finish().line) == (8, 26)
    session.delete()
    session.goto(0)
    session.until(25)
    assert session.next().line == 26


def test_what_was_read(session):
    """A variable that is read stops before the step that reads it, whoever it is; a write does not."""
    point = session.watch("s[41]", read=True, write=False)
    stop = session.cont()
    assert (stop.reason, stop.number, stop.line, stop.focus.warp, stop.focus.lane) == ("watchpoint", 1, 36, 1, 0)
    assert (stop.old, stop.new) == (None, None)
    assert point.hits == 1
    assert session.cont().reason == "end"


def test_read_or_written(session):
    """Both stop where both are watched."""
    session.watch("s[41]", read=True)
    assert [(stop.reason, stop.line) for stop in (session.cont(), session.cont(), session.cont())] == [
        ("watchpoint", 34),
        ("watchpoint", 36),
        ("end", None),
    ]


@pytest.mark.parametrize(
    ("what", "scope", "lane", "expected"),
    [
        ("%r0", "warp", 0, [(0, 19), (1, 19), (1, 24)][:1]),
        ("%r0", "any", 0, [(0, 19), (1, 19), (1, 24)]),
        ("%r0", "lane", 3, [(0, 19)]),
        ("%r0[3]", "warp", 0, [(0, 19)]),
    ],
)
def test_whose_register(session, what, scope, lane, expected):
    """That of the warp or of the lane in focus, or of any thread; values that stay as they were are no change."""
    session.focus(lane=lane)
    session.watch(what, scope=scope)
    found = []
    while (stop := session.cont()).reason != "end":
        found.append((stop.focus.warp, stop.line))
    assert found == expected or found == expected[:1]
    assert len(found) == len(expected)


def test_a_lane_that_does_not_change(session):
    """Lane 0 of warp 0 has thread 0: %r0 is 0 before and after, which is no change."""
    session.watch("%r0[0]")
    assert session.cont().reason == "end"


def test_collected_findings_are_told_once():
    """With stop_at_findings off the launch runs past what it collects."""
    text = (KERNELS / "faulty.ptx").read_text()
    session = Session(warpsim.load(text)["k"], 1, 64, (np.zeros(64, np.uint32),), on_finding="collect")
    session.stop_at_findings = False
    assert session.cont().reason == "end"
    assert [finding.rule for finding in session.findings] == ["out-of-bounds"]
    assert session.error is None


def test_the_way_back_to_a_finding():
    """It is found again from behind it, where findings stop; with stop_at_findings off it is passed."""
    text = (KERNELS / "faulty.ptx").read_text()
    session = Session(warpsim.load(text)["k"], 1, 64, (np.zeros(64, np.uint32),), on_finding="collect")
    first = session.cont()
    session.cont()
    back = session.reverse_cont()
    assert (back.reason, back.step, back.finding.rule, back.number) == ("finding", first.step, "out-of-bounds", None)
    assert session.reverse_cont().step == 0
    session.cont()
    session.cont()
    session.stop_at_findings = False
    assert session.reverse_cont().step == 0


def test_what_was_printed_is_told_once(session):
    """The device's standard output gets what a kernel prints where the launch first ends."""
    text = """.version 8.0
.target sm_90a
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 words[4] = {104, 105, 10, 0};
.visible .entry k() {
  .reg .b64 %d; .reg .b32 %r; .param .b64 f; .param .b64 a; .param .b32 r;
  cvta.global.u64 %d, words; st.param.b64 [f], %d; mov.u64 %d, 0; st.param.b64 [a], %d;
  call (r), vprintf, (f, a);
  ret; }"""
    said = []
    device = warpsim.Device("sm_90a", stdout=said.append)
    session = Session(warpsim.load(text)["k"], 1, 1, (), device=device)
    session.cont()
    session.back()
    session.cont()
    assert said == ["hi\n"]
    assert session.result.stdout == "hi\n"


def test_a_heap_that_a_kernel_makes():
    """What a kernel takes from the heap, or frees, is so on the device when the launch has ended."""
    text = """.version 8.0
.target sm_90a
.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 n);
.visible .entry k(.param .u64 out) {
  .reg .b64 %d<3>; .param .b64 n; .param .b64 r;
  mov.u64 %d0, 64; st.param.b64 [n], %d0; call (r), malloc, (n); ld.param.b64 %d0, [r];
  ld.param.u64 %d1, [out]; st.global.u64 [%d1], %d0; mov.u64 %d2, 4660; st.u64 [%d0+8], %d2;
  ret; }"""
    device, out = warpsim.Device("sm_90a"), np.zeros(1, np.uint64)
    session = Session(warpsim.load(text)["k"], 1, 1, (out,), device=device)
    assert session.cont().reason == "end"
    heap = device.memory.find(int(out[0]) + 8, int(out[0]) + 16)
    assert heap.data[int(out[0]) + 8 - heap.start :][:8].view(np.uint64)[0] == 4660


def test_a_recorded_case(session, tmp_path):
    """A session records its launch as it was given, without what was changed in it; arrays and session stay as they are."""
    session.until(34)
    session.set("s[0]", 99)
    at = session.stop
    session.record(tmp_path / "case")
    assert session.stop == at
    with np.load(tmp_path / "case" / "data.npz") as data:
        (name,) = [name for name in data.files if name.startswith("out")]
        assert data[name].reshape(-1).view(np.uint32)[:5].tolist() == [0, 2, 4, 6, 8]
    assert Case.read(tmp_path / "case").prepare().grid == (1, 1, 1)
