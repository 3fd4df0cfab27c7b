"""Each command of the prompt: what it says and does, and what it says of arguments that make no sense."""

import io
import itertools
import re
from pathlib import Path

import attrs
import numpy as np
import pytest

import warpsim
from warpsim.cli.debug import running
from warpsim.cli.debug.console import grid, short, show
from warpsim.cli.debug.shell import Shell
from warpsim.cli.debug.table import GROUPS
from warpsim.debug import Session
from warpsim.errors import Finding

KERNELS = Path(__file__).parent / "kernels"
CALLS = (KERNELS / "calls.ptx").read_text()
LINES = CALLS.replace("{\n  .reg .u32 %x<2>;", "{\n  .reg .u32 %x<2>;\n  .loc 1 3 1", 1)
LINES = LINES.replace("  ld.param.u64 %rd0, [out];", "  .loc 1 10 1\n  ld.param.u64 %rd0, [out];")
LINES = LINES.replace("  ld.param.u32 %r1, [b];", "  .loc 1 12 1\n  ld.param.u32 %r1, [b];") + '.file 1 "twice.cu"\n'
FAULTY = (KERNELS / "faulty.ptx").read_text()


class Talk:
    """A shell on 64 threads of a kernel: what each line that is typed is answered."""

    def __init__(self, text=CALLS, arguments=None, **options):
        given = (np.zeros(64, np.uint32), 5) if arguments is None else arguments
        self.session = Session(warpsim.load(text)["k"], (1,), (64,), given, **options)
        self.out = io.StringIO()
        self.shell = Shell(self.session, self.out, colour=False)
        self.shell.console.source = lambda: None

    def __call__(self, line, *more):
        """The answer to a line, with those that it asks for."""
        self.out.truncate(0)
        self.out.seek(0)
        rest = iter(more)
        self.shell.console.source = lambda: next(rest, None)
        self.shell.obey(line)
        while self.shell.console.queue:
            self.shell.obey(self.shell.console.queue.pop(0))
        return self.out.getvalue().rstrip("\n")


@pytest.fixture
def talk():
    """A dialogue about CALLS."""
    return Talk()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("foo", "there is no command 'foo'; the nearest is"),
        ("brek 17", "there is no command 'brek'; the nearest is break"),
        ("tui enable", "an editor shows the source beside the values"),
        ("wehre", "there is no command 'wehre'; the nearest is where, which is backtrace"),
        ("re", "'re' is ambiguous: registers-of, reverse-continue, reverse-step, reverse-step-line, reverse-stepi"),
        ("5", "'5' is not a command; try: help"),
        ("(((", "'(((' is not a command; try: help"),
        ("break if", "expected a condition after if"),
        ("break 17 if", "expected a condition after if"),
        ("break 17 if (", "expected a value"),
        ("break 26 if %nope == 1", "no register, variable or parameter %nope in k"),
        ("break 26 if nope[%r0] || 1", "no register, variable or parameter nope in k"),
        ("break 26 if s[%r9] == 2", "no register, variable or parameter %r9 in k"),
        ("break 26 if f16x2(%q).lo > 0 && -n", "no register, variable or parameter %q in k"),
        ("break 26 if u32[&gone]", "no register, variable or parameter gone in k"),
        ("break 26 if gone.u32[0]", "no register, variable or parameter gone in k"),
        ("break 26 if %tid.q", "no register, variable or parameter %tid in k"),
        ("break 26 if threadIdx", "no register, variable or parameter threadIdx in k"),
        ("break twice if %r0", "no register, variable or parameter %r0 in twice"),
        ("tbreak op:* if %nope", "no register, variable or parameter %nope in "),
        ("info line 99", "there is no line 99: the module has 39 lines"),
        ("info line 38", "there is no instruction at or after line 38"),
        ("info line nowhere", "no function, label or line 'nowhere'"),
        ("break nowhere", "no function, label or line 'nowhere'"),
        ("catch", "catch WHAT: the name of a rule, or arrival: "),
        ("ignore", "expected the number of a breakpoint, not ''"),
        ("ignore 1 2", "no breakpoint 1"),
        ("condition 1 x", "no breakpoint 1"),
        ("commands", "no breakpoint 0"),
        ("commands 3", "no breakpoint 3"),
        ("enable 1", "no breakpoint 1"),
        ("disable x", "expected the number of a breakpoint, not 'x'"),
        ("delete 1234567890", "expected the number of a breakpoint, not '1234567890'"),
        ("delete 3", "no breakpoint 3; breakpoints: none"),
        ("print", "print EXPRESSION, for example"),
        ("print/j 1", "'j' is not a format; use /x, /d, /u, /o, /t, /a, /c, /f, /z or a type, such as /f16x2"),
        ("print/xx 1", "'xx' is not a format"),
        ("x", "x PLACE, for example"),
        ("x/4q 0", "/q is not a format and unit: xduotacfz and bhwg"),
        ("x/xd &s", "/xd is not a format and unit"),
        ("x/bw &s", "/bw is not a format and unit"),
        ("x/x2 &s", "x/NFU: a number, a format, a unit, not /x2"),
        ("x/1234567x &s", "x/NFU: a number, a format, a unit, not /1234567x"),
        ("x 1.5", "1.5 is not an address"),
        ("x s[0:4] + 1", "s[0:4] + 1 is not an address"),
        ("x shared 0x100", "outside the 256 bytes of shared memory"),
        ("x shared 1.5", "1.5 is not an address"),
        ("undisplay x", "expected the number of a display, not 'x'"),
        ("undisplay 2", "no display 2"),
        ("display nothing", "no register, variable or parameter nothing"),
        ("set %r0", "set WHAT = VALUE, for example"),
        ("set = 4", "set WHAT = VALUE, for example"),
        ("set n =", "set WHAT = VALUE, for example"),
        ("set %r0 == 4", "set WHAT = VALUE, for example"),
        ("set step-by", "set step-by line: step, next"),
        ("set step-by line now", "set step-by line: step, next"),
        ("set scheduler-locking maybe", "set scheduler-locking step (or on)"),
        ("set stop-at-findings 1", "set stop-at-findings on|off"),
        ("set history-bytes", "set history-bytes N: memory budget"),
        ("set history-bytes many", "expected a number, not 'many'"),
        ("matrix", "matrix OPERAND, or matrix OPERAND[row,column]"),
        ("matrix a[1]", "matrix OPERAND, or matrix OPERAND[row,column]"),
        ("origin", "origin WHAT [DEPTH], for example"),
        ("origin %r0 0", "depth must be 1 to 32, not 0"),
        ("focus here", "focus cta X,Y,Z warp W lane L"),
        ("thread (64,0,0)", "there is no thread (64,0,0) in a block of (64, 1, 1)"),
        ("thread (0,1,0)", "there is no thread (0,1,0) in a block of (64, 1, 1)"),
        ("thread (0,0,1)", "there is no thread (0,0,1)"),
        ("thread (0,0,0,0)", "there is no thread (0,0,0)"),
        ("block (1,0,0)", "there is no CTA (1,0,0) in a grid of (1, 1, 1)"),
        ("cta 0,1", "there is no CTA (0,1,0)"),
        ("warp 2", "there is no warp 2: a CTA has warps 0 to 1"),
        ("lane 32", "there is no lane 32 in warp 0"),
        ("frame x", "expected the number of a frame, not 'x'"),
        ("up", "no frame 1; frames: 0 to 0"),
        ("down", "no frame -1; frames: 0 to 0"),
        ("up 0", "0 is too small: the least is 1"),
        ("list x", "expected the number of a line, file.cu:N or a function, not 'x'"),
        ("list 0", "there is no line 0: the module has"),
        ("list 100", "there is no line 100: the module has"),
        ("step 0", "0 is too small: the least is 1"),
        ("next 1234567890123456", "expected a number, not '1234567890123456'"),
        ("goto", "goto STEP"),
        ("goto -1", "expected a number, not '-1'"),
        ("source /nowhere/at/all", "cannot read /nowhere/at/all"),
        ("help foo", "there is no command 'foo'; the nearest is"),
        ("info", "info all|args|async|barriers|breakpoints|"),
        ("info li", "lines: "),
        ("info nothing", "there is no list 'nothing'; the nearest is"),
        ("info registers %x0", "no register %x0 has been written"),
        ("info registers *q*", "no register *q* has been written"),
        ("print " + "-" * 70 + "1", "nests at most 64 deep"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(talk, line, said):
    """It is answered, and nothing has changed."""
    answer = talk(line)
    if line == "info li":  # one word begins so
        assert answer == f"line 17 of {Path(talk.session.kernel.module.program.file).name}: ld.param.u64"
        return
    assert said in answer
    assert talk.session.stop.step == 0
    assert talk.session.breakpoints == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("p 5", "5 = 5"),
        ("print/x 255", "255 = 0xff"),
        ("print/d 255", "255 = 255"),
        ("print/u -1", "-1 = 18446744073709551615"),
        ("print/d 18446744073709551615", "18446744073709551615 = -1"),
        ("print/o 9", "9 = 011"),
        ("print/t 10", "10 = 1010"),
        ("print/a 4096", "4096 = 0x1000"),
        ("print/c 65", "65 = 65 'A'"),
        ("print/c 321", "321 = 65 'A'"),
        ("print/z 5", "5 = 0x0000000000000005"),
        ("print/f 0x3FF8000000000000", "0x3FF8000000000000 = 1.5"),
        ("print/f u32(0x3FC00000)", "u32(0x3FC00000) = 1.5"),
        ("print/f u16(0x3E00)", "u16(0x3E00) = 1.5"),
        ("print/f u8(0x85)", "u8(0x85) = -123"),
        ("print/d u8(0x7f)", "u8(0x7f) = 127"),
        ("print/d u8(0x80)", "u8(0x80) = -128"),
        ("print/x s8(-1)", "s8(-1) = 0xff"),
        ("print/f16x2 0x3C004200", "0x3C004200 = {3.0, 1.0}"),
        ("print/e4m3x2 0x3840", "0x3840 = {2.0, 1.0}"),
        ("print 1 == 1", "1 == 1 = 1"),
        ("print 1.5 * 2", "1.5 * 2 = 3.0"),
        ("print b128(0x123)", "b128(0x123) = 0x00000000000000123"),
        ("print b128(-1)", "b128(-1) = 0x" + "f" * 32),
        ("p n", "n = 5"),
        ("output n", "5"),
        ("p s[0:3]", "s[0:3] = {0, 0, 0}"),
        ("p s[0:4]", "s[0:4] = {0 <repeats 4 times>}"),
        ("p/x s[0:2]", "s[0:2] = {0x0, 0x0}"),
        ("p %laneid == %laneid", "%laneid == %laneid = 1 in all lanes"),
        ("echo one\\ntwo", "one\ntwo"),
        ("# a comment", ""),
        ("   ", ""),
        ("info display", "No displays."),
        ("info findings", "No findings so far."),
        ("info breakpoints", "No breakpoints, watchpoints or catchpoints."),
        ("info b", "No breakpoints, watchpoints or catchpoints."),
        ("info br", "No breakpoints, watchpoints or catchpoints."),
        ("info mbarriers", "No mbarriers are in use."),
        ("info barriers", "No thread has arrived at a barrier."),
        ("info async", "Nothing is in flight."),
        ("info wgmma", "Nothing is in flight."),
        ("info registers", "No register has been written yet."),
        ("help quit", "quit  (q, exit, kill, detach)\nEnd the session, even if the launch has not ended."),
        ("h q", "quit  (q, exit, kill, detach)\nEnd the session, even if the launch has not ended."),
        ("backtrace", "#0  k, line 17: ld.param.u64 %rd0, [out];"),
        ("x/2xw &s", "shared 0x0:  0x0  0x0"),
        ("x/3db s[2]", "shared 0x8:  0  0  0"),
        ("x/5xw shared 16", "shared 0x10:  0x0  0x0  0x0  0x0\nshared 0x20:  0x0"),
        ("x/3g &s", "shared 0x0:  0x0  0x0\nshared 0x10:  0x0"),
        ("x/1zh param 8", "param 0x8:  0x0005"),
        ("x param 8", "param 0x8:  0x5"),
        ("x/1w s[%laneid]", "shared 0x0:  0x0"),
        ("x/2w out", None),
        ("x out + 4", None),
        ("info locals", None),
    ],
)  # fmt: skip
def test_answers(talk, line, said):
    """Values in each format, lists of what there is none of, memory by place."""
    answer = talk(line)
    out = int(talk.session.evaluate("out"))
    if line == "x/2w out":
        said = f"generic 0x{out:x}:  0x0  0x0"
    if line == "x out + 4":
        said = f"generic 0x{out + 4:x}:  0x0"
    if line == "info locals":
        said = f"  unsigned int *out = 0x{out:x}\n  .param .u32 n = 5\n" + "\n".join(answer.splitlines()[2:])
        assert "  .shared .u32 s = {0 <repeats 8 times>, ...} (64 elements)" in answer
    assert answer == said


def test_help(talk):
    """Every command has a line that begins with its name, in its group, and help of whole sentences."""
    lines = talk("help").splitlines()
    table = talk.shell.commands

    assert [line.rstrip(":") for line in lines if line[0] != " "] == list(GROUPS.values())
    named = [line.split()[0].split("[")[0].rstrip(":") for line in lines if line[0] == " "]
    assert named == sorted(table, key=lambda name: (list(GROUPS).index(table[name].group), name))
    for each in (*table.values(), *talk.shell.infos.values()):
        assert re.fullmatch(r"[A-Z!].*[.]", each.help), each.name
    assert talk("?").splitlines() == lines


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["si", "stepi", "s", "step"], "18"),
        (["ni 2", "nexti 2", "next 2", "n 2"], "19"),
        (["u 33", "until 33", "advance 33"], "33"),
        (["tb 33|c", "tbreak 33|fg", "tb 33|cont"], "33"),
        (["s 3|rs 2", "s 3|back 2", "s 3|rsi 2", "s 3|reverse-stepi 2", "s 3|rn 2"], "18"),
        (["s 3|start", "s 3|goto 0", "s 3|rs 9", "s 3|rc"], "17"),
        (["b 26|r|r", "b 26|c", "b 26|c|run"], "26"),
        (["u twice|fin", "u 25|n", "u 25|nexti"], "26"),
    ],
)
def test_words_for_motion(words, same):
    """Words that mean the same lead to the same line."""
    for each in words:
        talk = Talk()
        for line in each.split("|"):
            answer = talk(line)
        assert f"{answer.splitlines()[-1].split()[0]}" == same


def test_words_for_lines():
    """By CUDA lines, into calls and over them, and back; the word step means lines where lines are chosen."""
    talk = Talk(LINES)
    for words, line in (
        (("sl",), 8),
        (("nl",), 29),
        (("step-line 2",), 29),
        (("next-line",), 29),
        (("sl 2", "rsl"), 8),
        (("sl 2", "reverse-step-line 2"), 19),
        (("set step-by line", "s 2"), 29),
        (("n",), 29),
        (("s 2", "rs"), 8),
        (("si",), 20),
        (("set step-by instruction", "s"), 20),
    ):
        talk("start")
        for each in words:
            answer = talk(each)
        assert answer.splitlines()[-1].split()[0] == str(line)
    assert "This is the start of the launch" in talk("rsl 9")


def test_breakpoints(talk):
    """Lists, hits, conditions, switches and scripts of breakpoints."""
    assert talk("break 26 if %tid.x == 45") == "Breakpoint 1 at 26: line 26"
    assert talk("tb op:ld.param*") == "Temporary breakpoint 2 at op:ld.param*: lines 7, 17, 26"
    assert talk("break op:*").endswith("lines 7, 8, 9, 10, 17, 18, 19, 20 ...")
    assert talk("d 3") == ""
    assert talk("awatch s[63]") == "Watchpoint 4: s[63]"
    assert talk("rwatch s[62]") == "Watchpoint 5: s[62]"
    assert talk("watch %r3 any") == "Watchpoint 6: %r3"
    assert talk("catch out-of-bounds") == "Catchpoint 7: out-of-bounds"
    assert talk("commands 1", "echo here", "p n", " end") == ""
    assert talk("disable 2 4") == talk("dis 5 6") == ""
    assert talk("info breakpoints").splitlines() == [
        "  1  break 26, line 26; if %tid.x == 45",
        "       echo here",
        "       p n",
        "  2  break op:ld.param*, lines 7, 17, 26; once; disabled",
        "  4  awatch s[63]; disabled",
        "  5  rwatch s[62]; disabled",
        "  6  watch %r3 any; disabled",
        "  7  catch out-of-bounds",
    ]
    assert re.sub(r"step \d+", "step N", talk("c")).splitlines() == [
        "Breakpoint 1",
        "k, CTA (0,0,0), warp 1, lane 13; lanes 0-31 together; step N",
        "    26  ld.param.u32 %r1, [b];",
        "here",
        "n = 5",
    ]
    assert "  1  break 26, line 26; hit 1 time; if %tid.x == 45" in talk("i b").splitlines()
    assert talk("condition 1 1 +").startswith("expected a value")
    assert talk("condition 1 %x0 == 2") == "no register, variable or parameter %x0 in k"
    assert "  1  break 26, line 26; hit 1 time; if %tid.x == 45" in talk("i b").splitlines()
    assert talk("condition 1") == talk("en 5") == ""
    assert talk("ignore 1 2") == "Will ignore the next 2 hits of breakpoint 1."
    assert talk("info br").splitlines()[0] == "  1  break 26, line 26; hit 1 time; passed 2 more times"
    assert talk("ignore 7 1") == "a catchpoint passes no hits; disable it instead"
    assert talk("condition 7 1") == "a catchpoint has no condition"
    assert talk("c").splitlines()[0] == "Watchpoint 5: s[62]"
    assert talk("disable") == ""
    assert all(
        line.endswith("disabled") for line in talk("i b").splitlines() if "  p n" not in line and "  echo" not in line
    )
    assert talk("enable") == ""
    assert "disabled" not in talk("i b")
    assert talk("delete 1 2") == ""
    assert [line.split()[0] for line in talk("i b").splitlines()] == ["4", "5", "6", "7"]
    assert talk("delete") == ""
    assert talk("i b").startswith("No breakpoints")


def test_passing_hits(talk):
    """continue N passes the next N - 1 hits of the breakpoint that has stopped, and of no other."""
    talk("b 26")
    talk("b 33")
    talk("c")
    point = talk.session.breakpoints[1]
    talk("c 2")
    assert (point.ignore, talk.session.stop.line) == (1, 33)
    talk("c")
    assert (point.hits, talk.session.stop.line) == (2, 33)
    talk("start")
    talk("watch s[0:2]")
    talk("d 1 2")
    assert talk("c").splitlines()[:3] == ["Watchpoint 3: s[0:2]", "  old {0, 0}", "  new {0, 2}"]
    talk("c 3")
    assert [p.hits for p in talk.session.breakpoints.values()] == [1]


def test_watched_values(talk):
    """A change is shown with the value before and after."""
    talk("watch s[1:3]")
    answer = talk("c").splitlines()
    assert answer[:3] == ["Watchpoint 1: s[1:3]", "  old {0, 0}", "  new {2, 4}"]
    assert answer[-1].startswith("    34  bar.sync 0;")
    talk("d")
    talk("rwatch s[1]")
    answer = talk("c").splitlines()
    assert answer[0] == "Watchpoint 2: s[1]"
    assert not any("old" in line for line in answer)


def test_only_errors_are_errors(talk):
    """Of findings at which the launch has stopped, those of severity error decide the exit status."""
    for severity, count in (("warning", 0), ("error", 1)):
        finding = Finding("race", "text", severity=severity, line=17)
        talk.shell.running.report(attrs.evolve(talk.session.stop, reason="finding", finding=finding), None)
        assert len(talk.shell.console.errors) == count
        assert f"{severity}: " in talk.out.getvalue()


def test_interrupts(talk, monkeypatch):
    """While a command runs, Ctrl-C stops the launch; then it is again what it was. Other threads have no signals."""
    handlers, now = [], ["default"]

    def put(number, handler):
        handlers.append(handler)
        before, now[0] = now[0], handler
        return before

    monkeypatch.setattr(running.signal, "signal", put)
    endless = Talk((KERNELS / "loop.ptx").read_text(), (np.zeros(1, np.uint32),), max_seconds=60)
    forward = endless.session.timeline.forward
    monkeypatch.setattr(endless.session.timeline, "forward", lambda *given: now[0](2, None) or forward(*given))
    assert "Interrupted." in endless("c").splitlines()
    assert now == ["default"]
    assert len(handlers) == 2

    def refuses(number, handler):
        raise ValueError("signal only works in main thread")

    monkeypatch.setattr(running.signal, "signal", refuses)
    assert talk("c").splitlines()[0].startswith("The launch has ended")


def test_displays(talk):
    """Each is shown at every stop, in its format; what has no value there is told in a line."""
    assert talk("display/x n") == "1: n = 0x5"
    assert talk("disp %tid.x[3]") == "2: %tid.x[3] = 3"
    talk("set var %r0 = 1")
    assert talk("info display").splitlines() == ["  1  n /x", "  2  %tid.x[3]"]
    assert talk("display").splitlines() == ["1: n = 0x5", "2: %tid.x[3] = 3"]
    assert talk("s").splitlines()[-2:] == ["1: n = 0x5", "2: %tid.x[3] = 3"]
    answer = talk("u twice").splitlines()
    assert answer[-2] == "1: n: no register, variable or parameter n in twice"
    talk("undisplay 1")
    talk("lane 13")
    assert talk("display/x a") == "3: a = 0xd"
    assert talk("undisplay") == ""
    assert talk("info display") == "No displays."


def test_sets(talk):
    """Registers, variables and memory; words of gdb before them change nothing."""
    talk("u 33")
    for line, shown, value in (
        ("set %r1 = 3", "%r1", "3 in all lanes"),
        ("set %r1=4", "%r1", "4 in all lanes"),
        ("set var %r1[4] = 9", "%r1[4]", "9"),
        ("set variable s[1] = 1 == 1", "s[0:2]", "{0, 1}"),
        ("set s[1:3] = 6", "s[0:4]", "{0, 6, 6, 0}"),
        ("set %p = 1 <= 0", "%p", "0 in all lanes"),
        ("set shared.u8[3] = 255", "s[0] >> 24", "255"),
    ):
        assert talk(line) == ""
        assert talk(f"p {shown}") == f"{shown} = {value}"


def test_settings(talk):
    """Each changes what it says."""
    session = talk.session
    for line, read, value in (
        ("set scheduler-locking off", lambda: session.scheduler_locking, "off"),
        ("set scheduler-locking on", lambda: session.scheduler_locking, "step"),
        ("set scheduler-locking off", lambda: session.scheduler_locking, "off"),
        ("set scheduler-locking step", lambda: session.scheduler_locking, "step"),
        ("set stop-at-findings off", lambda: session.stop_at_findings, False),
        ("set stop-at-findings on", lambda: session.stop_at_findings, True),
        ("set history-bytes 1000", lambda: session.timeline.most_bytes, 1000),
        ("set history-bytes 0", lambda: session.timeline.most_bytes, 0),
        ("set step-by line", lambda: talk.shell.console.step_by, "line"),
    ):
        assert talk(line) == ""
        assert read() == value


def test_who(talk):
    """Warps and lanes by each word, alone and together, and without a word."""
    for line, warp, lane in (
        ("focus warp 1 lane 9", 1, 9),
        ("lane 3", 1, 3),
        ("warp 0", 0, 3),
        ("focus 1", 1, 3),
        ("focus 0,0,0 1 5", 1, 5),
        ("focus cta 0 warp 0 lane 7", 0, 7),
        ("thread (40,0,0)", 1, 8),
        ("thread 33", 1, 1),
        ("block (0,0,0) thread (2,0,0)", 0, 2),
        ("cta 0,0,0", 0, 2),
        ("block 0", 0, 2),
    ):
        answer = talk(line).splitlines()
        assert answer[0] == f"k, CTA (0,0,0), warp {warp}, lane {lane}; lanes 0-31 together; step 0"
        assert answer[1] == "    17  ld.param.u64 %rd0, [out];"
    for line in ("focus", "cta", "block", "warp", "lane", "thread", "frame", "info frame"):
        assert talk(line).splitlines()[0] == answer[0]


def test_threads_of_a_block():
    """A thread of three coordinates is the one that CUDA numbers so: x runs first."""
    session = Session(warpsim.load(CALLS)["k"], (2, 1, 3), (4, 3, 5), (np.zeros(64, np.uint32), 5))
    out = io.StringIO()
    shell = Shell(session, out, colour=False)
    for x, y, z in itertools.product((0, 3), (0, 2), (0, 4)):
        shell.obey(f"thread ({x},{y},{z})")
        number = x + 4 * (y + 3 * z)
        assert (session.thread.warp, session.thread.lane) == (number // 32, number % 32)
        assert [int(session.evaluate(f"%tid.{c}")[number % 32]) for c in "xyz"] == [x, y, z]
    shell.obey("block (1,0,2)")
    assert session.thread.cta == (1, 0, 2)


def test_calls(talk):
    """Calls are listed, chosen and shown; behind the end there is none."""
    talk("b twice")
    talk("c")
    assert talk("up") == "#1  k, line 25: call (b), twice, (a);"
    assert talk("bt").splitlines()[1][0] == "*"
    assert talk("frame").splitlines()[1] == "    25  call (b), twice, (a);"
    assert talk("list").splitlines()[5].startswith(">   25")
    assert talk("dn") == "#0  twice, line 7: ld.param.u32 %x0, [a];"
    assert talk("where").splitlines()[0][0] == "#"
    talk("d")
    assert talk("c").splitlines()[0] == "The launch has ended: 47 steps, 47 warp-instructions, no findings."
    who = str(talk.session.thread)
    assert talk("bt") == f"{who} is not running."
    assert talk("info line") == "no thread is running"
    assert talk("info lanes") == f"CTA (0, 0, 0), warp {talk.session.thread.warp} is not running."
    assert talk("info warps") == ""
    assert talk("frame") == f"k, {who}; not running; step 47"
    assert talk("info program").startswith("47 steps, 1 CTA of 1 done; it has ended; ")
    assert talk("info registers") == "No register has been written yet."
    assert talk("p n") == "n = 5"


def test_behind_the_end(talk):
    """There is no line to break at; a warp that has exited is told; variables that are gone say so."""
    talk("u 34")
    talk("warp 1")
    talk("u 34")
    talk("warp 0")
    while talk.session.stop.line != 37:
        talk("s")
    assert "warp 1" in talk("s")
    talk("warp 0")
    assert talk("frame").startswith("k, CTA (0,0,0), warp 0, lane 0; not running")
    talk.shell.running.report(attrs.evolve(talk.session.stop, reason="step"), None)
    assert talk.out.getvalue().splitlines()[-1] == "CTA (0,0,0), warp 0, lane 0 has exited"
    talk("d")
    talk("c")
    assert talk("b").startswith("no thread stands anywhere: name a PTX line, file.cu:N")
    assert "the CTA is not running, so it has no shared memory" in talk("info locals")
    assert talk("print " + "(" * 40 + "1").startswith("expected")


def test_lists(talk):
    """Eleven lines around the current one, then those behind; the current line is marked."""
    source = CALLS.split("\n")

    def listed(line):
        return [(row[0] == ">", int(row[1:6]), row[8:]) for row in talk(line).splitlines()]

    def lines(first, last, here=17):
        return [(n == here, n, source[n - 1].expandtabs(4).rstrip()) for n in range(first, last + 1)]

    assert listed("list") == lines(12, 22)
    assert listed("l") == lines(23, 33)
    assert listed("") == []
    assert listed("l 3") == lines(1, 11)
    assert listed("disas") == lines(12, 22)
    assert listed("l 36") == lines(31, 39)
    assert talk("l") == "the module has 39 lines"
    talk("s")
    assert listed("l") == lines(13, 23, here=18)
    assert listed("l 39") == lines(34, 39)


def test_registers(talk):
    """Written ones, changed ones with a star, by name or pattern, per lane."""
    talk("s 2")
    assert [row.split() for row in talk("info registers").splitlines()] == [
        ["%rd0", hex(int(talk.session.evaluate("out")))],
        ["%r0", "0,", "1,", "2,", "3", "..", "31"],
    ]
    talk("s")
    assert [row[0] for row in talk("i r").splitlines()] == [" ", " ", "*"]
    assert talk("i r %r3") == talk("i r r3") == "%r3 = 99 in all lanes"
    assert [row.split()[-1] for row in talk("i r %r?").splitlines()] == ["31", "99"]
    assert talk("registers").splitlines() == talk("info registers").splitlines()
    rows = talk("i r %r0").splitlines()
    assert rows[0] == "%r0 ="
    assert rows[2] == "  lane  8:  8  9 10 11 12 13 14 15"


def test_a_finding():
    """A finding is shown where it stops, listed, and told again at the end."""
    talk = Talk(FAULTY, (np.zeros(64, np.uint32),))
    answer = talk("c")
    assert answer.startswith("error: ")
    assert talk("info findings").startswith("error: ")
    assert talk("info findings").splitlines()[0] in answer
    ended = talk("c").splitlines()
    assert re.fullmatch(r"The launch has ended with an error, after 1\d steps:", ended[0])
    assert "out-of-bounds" in ended[1]
    assert [f.rule for f in talk.shell.console.errors] == ["out-of-bounds"]


def test_files_of_commands(talk, tmp_path):
    """A file's commands are executed in their order, before what comes next; one that reads itself ends."""
    (tmp_path / "inner").write_text("echo two\n")
    (tmp_path / "outer").write_text(f"echo one\nsource {tmp_path / 'inner'}\necho three\n")
    assert talk(f"source {tmp_path / 'outer'}").splitlines() == ["one", "two", "three"]
    (tmp_path / "self").write_text(f"source {tmp_path / 'self'}\n")
    assert talk(f"source {tmp_path / 'self'}") == "command files nest too deep"


def test_slashes(talk):
    """A format stands behind a slash, with or without a blank before it; elsewhere a slash begins the name of a file."""
    assert talk("p /x 10") == talk("p/x 10") == "10 = 0xa"
    assert talk("x /2xw &s") == "shared 0x0:  0x0  0x0"
    assert "compile with -lineinfo" in talk("b /some/where/k.cu:4")
    lines = Talk(LINES)
    assert "no code from /some/where/k.cu" in lines("b /some/where/k.cu:4")
    assert "no code from /some/where/k.cu" in lines("until /some/where/k.cu:4")
    assert lines("echo /a/b") == "/a/b"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("rev", ["reverse-continue ", "reverse-step ", "reverse-step-line ", "reverse-stepi "]),
        ("info re", ["registers"]),
        ("i b", ["barriers", "breakpoints"]),
        ("help tb", ["tbreak"]),
        ("catch ar", ["arrival"]),
        ("catch out-", ["out-of-bounds"]),
        ("catch race", []),
        ("b s", ["small"]),
        ("until tw", ["twice"]),
        ("tb ", ["k", "small", "twice"]),
        ("p %r", ["%r0", "%r1", "%r2", "%r3", "%rd0", "%rd1", "%rd2"]),
        ("nonsense %r", []),
        ("zz", []),
    ],
)
def test_completions(talk, line, found):
    """Commands, subcommands, events and rules that are checked, places, registers."""
    assert sorted(talk.shell.complete(line.split(" ")[-1], line)) == found


def test_completions_behind_the_end(talk):
    """Where no thread runs there are no registers to name."""
    talk("c")
    assert talk.shell.complete("%", "p %") == []


def test_colours():
    """Line numbers, breakpoints and findings have colours where there are colours."""
    session = Session(warpsim.load(FAULTY)["k"], (1,), (64,), (np.zeros(64, np.uint32),))
    out = io.StringIO()
    shell = Shell(session, out, colour=True)
    for line in ("b 9", "c", "d", "watch %r0", "c", "catch arrival", "d 2", "c"):
        shell.obey(line)
    said = out.getvalue()
    assert "\x1b[1mBreakpoint 1\x1b[0m" in said
    assert "\x1b[36m     9\x1b[0m" in said
    assert "\x1b[31;1merror: \x1b[0m" in said


@pytest.mark.parametrize(
    ("value", "letter", "text"),
    [
        (np.array([1, 1, 1, 2]), "", "{1, 1, 1, 2}"),
        (np.array([1, 1, 1, 1, 2]), "", "{1 <repeats 4 times>, 2}"),
        (np.array([[1, 2], [1, 2]]), "", "{{1, 2}, {1, 2}}"),
        (np.array([0.0, -0.0]), "", "{0.0, -0.0}"),
        (np.array([True, False]), "", "{1, 0}"),
        (np.array([2**63, 1], object), "x", "{0x8000000000000000, 0x1}"),
        (np.array([-1, 1], object), "x", "{0xffffffffffffffff, 0x1}"),
        (np.array([2**64, 1], object), "", "{18446744073709551616, 1}"),
        (np.array([], np.uint32), "", "{}"),
        (np.ma.MaskedArray(np.arange(32), np.arange(32) > 2), "", None),
        (np.ma.MaskedArray(np.full(32, 7), np.arange(32) % 8 == 0), "x", "0x7 in lanes 1-7, 9-15, 17-23, 25-31"),
        (np.ma.MaskedArray(np.full(32, 7), np.arange(32) != 4), "", "7 in lanes 4"),
        (np.ma.MaskedArray(np.full((32, 2), 7), np.zeros((32, 2), bool)), "", "(7, 7) in all lanes"),
    ],
)
def test_shown(value, letter, text):
    """Runs of equal elements are counted, equal lanes joined, lanes that are away shown as dashes."""
    shown = show(value, letter)
    if text is None:
        assert shown.splitlines()[1:] == ["  lane  0: 0 1 2 - - - - -", *(f"  lane {n:2}: " + " ".join("-" * 8) for n in (8, 16, 24))]  # fmt: skip
    else:
        assert shown == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.ma.MaskedArray(np.arange(32), True), "-"),
        (np.ma.MaskedArray(np.full(32, 3), False), "3"),
        (np.ma.MaskedArray(np.arange(32), False), "0, 1, 2, 3 .. 31"),
        (np.ma.MaskedArray(np.arange(32), np.arange(32) % 2 == 0), "1, 3, 5, 7 .. 31"),
        (np.ma.MaskedArray(np.full(32, 1 << 32, np.uint64), False), "0x100000000"),
        (np.ma.MaskedArray(np.full(32, (1 << 32) - 1, np.uint64), False), "4294967295"),
        (np.ma.MaskedArray(np.arange(32) == 1, False), "0, 1, 0, 0 .. 0"),
    ],
)
def test_short(value, text):
    """One value, or the first and the last; addresses in hexadecimal."""
    assert short(value) == text


def test_grids():
    """So many columns at a time, numbered; narrow numbers, dashes for what is away."""
    values = np.ma.MaskedArray(np.arange(10.0).reshape(2, 5) / 3, False)
    values.mask[1, 4] = True
    assert grid(values, across=3) == [
        "           0      1      2",
        "   0:      0 0.3333 0.6667",
        "   1:  1.667      2  2.333",
        "           3      4",
        "   0:      1  1.333",
        "   1:  2.667      -",
    ]
    assert grid(np.array([[10, 2]])) == ["       0  1", "   0: 10  2"]
    assert grid(np.array([[1]])) == ["      0", "   0: 1"]


@pytest.mark.parametrize(
    "condition",
    ["%tid.x == 3", "threadIdx.x + blockDim.y", "n == 5 && out", "s[%r0 & 7] == 0", "shared.u32[&s] == 0", "s.u8[0:4][1]",
     "%laneid < 3", "%p", "f32(%r1) > 1.5 || u16x2(%r0).hi", "global.u32[out + 4 * %r0]", "u32[out]", "a + b", "%clock64 > 0"],
)  # fmt: skip
def test_conditions_that_name_something(talk, condition):
    """Registers, special ones, variables, parameters and state spaces, as in any expression."""
    assert talk(f"break 26 if {condition}") == "Breakpoint 1 at 26: line 26"
    assert talk("condition 1 1") == ""


def test_a_condition_in_several_functions(talk):
    """It stops only in those that have its names."""
    assert talk("break op:ld.param* if %x0 >= 0").startswith("Breakpoint 1 at op:ld.param*: lines 7, 17, 26")
    assert "  7  ld.param.u32 %x0, [a];" in talk("continue")
    assert "  7  ld.param.u32 %x0, [a];" in talk("continue")
    assert talk("continue").startswith("The launch has ended")


def test_lines(talk):
    """``info line`` answers for the place that is named; where it has no code, it says so and names the next that has."""
    assert talk("info line") == "line 17 of <ptx>: ld.param.u64"
    assert talk("info line 26") == "line 26 of <ptx>: ld.param.u32"
    assert talk("info line 14").splitlines() == [
        "line 14 has no code; the next that has:",
        "line 17 of <ptx>: ld.param.u64",
    ]
    assert talk("info line 2").splitlines() == [
        "line 2 has no code; the next that has:",
        "line 7 of <ptx>: ld.param.u32",
    ]
    assert talk("info line small") == "line 24 of <ptx>: st.param.u32"
    assert talk("info line twice") == "line 7 of <ptx>: ld.param.u32"
    assert len(talk("info line op:mov*").splitlines()) == 5
