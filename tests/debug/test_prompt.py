"""The prompt: gdb's words, scripts, and how it ends."""

import atexit
import io
import json
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from warpsim.cli import main
from warpsim.cli.debug import Terminal

ROOT = Path(__file__).parents[2]
FAULTY = (Path(__file__).parent / "kernels" / "faulty.ptx").read_text()


def test_words_of_gdb(prompt):
    """Abbreviations, numeric arguments and an empty line that repeats do what they do in gdb."""
    answers = prompt("b small", "c", "s", "s", "bt", "fin", "", "n 2", "u 33", "rs 2", "rc", "d", "q")

    assert answers[1] == "Breakpoint 1 at small: line 24"
    assert answers[2].splitlines()[0] == "Breakpoint 1"
    assert answers[4].endswith("     7  ld.param.u32 %x0, [a];")
    assert answers[5].splitlines() == [
        "#0  twice, line 7: ld.param.u32 %x0, [a];",
        "#1  k, line 25: call (b), twice, (a);",
    ]
    assert answers[6].endswith("26  ld.param.u32 %r1, [b];")
    assert answers[7] == "the kernel is the outermost function: it has no caller"
    assert answers[8].endswith("28  mul.wide.u32 %rd1, %r2, 4;")
    assert answers[9].endswith("33  st.shared.u32 [%r2], %r1;")
    assert answers[10].endswith("31  mov.u32 %r3, s;")
    assert answers[11].splitlines()[0] == "Breakpoint 1"


def test_words_of_this_debugger(prompt):
    """Beginnings of words, steps by kind, calls below, events, registers by pattern, the room for going back."""
    answers = prompt(
        "ste", "nex 2", "set step-by inch", "sl", "catch arrival", "b twice", "c", "up", "i r %r*", "bt", "fr 0", "fr 7", "d 2",
        "c", "rc", "info breakpoints", "i r %q*", "set history-bytes 0", "i program", "catch nothing", "rsi 3", "q",
    )  # fmt: skip

    assert answers[1].endswith("    18  mov.u32 %r0, %tid.x;")
    assert answers[2].endswith("    20  setp.lt.u32 %p, %r0, 40;")
    assert answers[3].startswith("set step-by line")
    assert answers[4] == "the module has no line information: compile with -lineinfo"
    assert answers[8] == "#1  k, line 25: call (b), twice, (a);"
    assert [line.split()[0] for line in answers[9].splitlines()] == ["%rd0", "%r0", "%r3"]
    assert answers[10].splitlines()[1].startswith("*1  k")
    assert answers[11] == "#0  twice, line 7: ld.param.u32 %x0, [a];"
    assert answers[12] == "no frame 7; frames: 0 to 1"
    assert answers[14].startswith("Catchpoint 1: arrives at barrier 0\nk, CTA (0,0,0), warp 0")
    assert answers[15].splitlines()[0] == "Catchpoint 1: arrives at barrier 0"
    assert answers[16] == "  1  catch arrival; hit 1 time"
    assert "of at most 0" in answers[19]
    assert answers[20].startswith("no event or rule 'nothing'; events: arrival")


def test_values(prompt):
    """Formats, memory, displays, and a value that is set."""
    answers = prompt(
        "u 33", "p/x %r0", "p/t 5", "p/f16x2 0x3C004200", "p %tid.x + n", "x/2xw &s", "disp/x n", "s", "x/2dw s[0]",
        "set s[1] = 7", "p s[0:3]", "set %r1 = 3", "info r %r1", "undisplay 1", "p/q 1", "p/z 5", "p/o 9", "q",
    )  # fmt: skip

    assert answers[2].splitlines()[1] == "  lane  0:  0x0  0x1  0x2  0x3  0x4  0x5  0x6  0x7"
    assert answers[3] == "5 = 101"
    assert answers[4] == "0x3C004200 = {3.0, 1.0}"
    assert answers[5].splitlines()[1].split()[2:5] == ["5", "6", "7"]
    assert answers[6] == "shared 0x0:  0x0  0x0"
    assert answers[7] == "1: n = 0x5"
    assert answers[8].splitlines()[-1] == "1: n = 0x5"
    assert answers[9] == "shared 0x0:  0  2"
    assert answers[11] == "s[0:3] = {0, 7, 4}"
    assert answers[13] == "%r1 = 3 in all lanes"
    assert "is not a format" in answers[15]
    assert answers[16:18] == ["5 = 0x0000000000000005", "9 = 011"]


def test_the_start_of_the_launch(prompt):
    """Who goes back as far as there is anything is told so, once there."""
    answers = prompt("s 2", "rs", "rs", "rs", "q")
    told = "This is the start of the launch; there is nothing further back."

    assert [told in answer for answer in answers[2:5]] == [False, True, True]


def test_who(prompt):
    """Warps and lanes, in our words and in those of cuda-gdb."""
    answers = prompt(
        "focus warp 1 lane 9", "u 22", "info lanes", "info warps", "block (0,0,0) thread (3,0,0)", "lane 40", "q"
    )

    assert answers[2].splitlines()[-1] == "    22  mov.u32 %r0, 7;"
    assert [line.split()[1] for line in answers[3].splitlines()] == ["0-7", "8-31"]
    assert answers[4].splitlines()[1].startswith("* CTA (0,0,0)  warp  1")
    assert answers[5].startswith("k, CTA (0,0,0), warp 0, lane 3; lanes 0-31 together")
    assert answers[6] == "there is no lane 40 in warp 0: a CTA has 64 threads"


def test_breakpoints(prompt):
    """Conditions, counts, commands, lists."""
    answers = prompt(
        "b 26 if %tid.x == 40", "commands", "p %r0[8]", "end", "tb 33", "ignore 1 0", "watch s[63]", "info b", "c", "c", "c",
        "c", "info breakpoints", "condition 1", "disable 1", "d 3", "c", "q",
    )  # fmt: skip
    listed = answers[6].splitlines()

    assert listed[0] == "  1  break 26, line 26; if %tid.x == 40"
    assert listed[2] == "  2  break 33, line 33; once"
    assert "7" in answers[9] or "7" in answers[8]
    assert any("Watchpoint 3: s[63]" in answer and "new 14" in answer for answer in answers)
    assert any("The launch has ended" in answer for answer in answers)


def test_everything(prompt):
    """``info all`` is the place, the registers and the locals."""
    answers = prompt("b 26", "c", "where", "info registers", "info locals", "info all", "q")

    assert all(answers[3:6])
    assert answers[6].endswith(f"{answers[4]}\n{answers[5]}")
    assert answers[6].splitlines()[0] in answers[2] + answers[3]


def test_what_is_repeated(prompt):
    """An empty line repeats the last command, not a comment; a line of a file repeats nothing."""
    answers = prompt("s", "# no command", "", "", "q")

    assert [answer.split()[0] for answer in answers[1:5] if answer] == ["18", "19", "20"]


def test_passing_breakpoints(prompt):
    """ignore N COUNT passes breakpoint N so many times, whatever N is."""
    answers = prompt("b 26", "b 33", "ignore 2 1", "c", "c", "q")

    assert answers[3] == "Will ignore the next 1 hit of breakpoint 2."


def test_a_script(prompt, tmp_path):
    """-x and -ex come first, in their order; the end is that of a run, and its files are written."""
    (tmp_path / "script").write_text("# a comment\nbreak 33\ncontinue\n")
    answers = prompt(options=["-x", str(tmp_path / "script"), "-ex", "p %r1[1]", "-ex", "d", "-ex", "c"])

    assert answers[4] == "%r1[1] = 2"
    assert answers[6].splitlines()[0] == "The launch has ended: 47 steps, 47 warp-instructions, no findings."
    assert "47 warp-instructions" in answers[7]
    assert np.load(tmp_path / "out.npy")[:3].tolist() == [0, 2, 4]


def test_a_finding_is_told_in_full(prompt):
    """A finding stops with all of its text; leaving there, or at the end, is status 1, as of a run."""
    answers = prompt("c", "p %rd2 - out", "q", text=FAULTY, status=1)
    assert "out-of-bounds: access of 4 bytes" in answers[1]
    assert "CTA (0, 0, 0), warp 1, lane 31" in answers[1]
    assert answers[1].splitlines()[-1] == "    12  st.global.u32 [%rd2+4], %r0;"
    answers = prompt("c", "c", text=FAULTY, status=1)
    assert answers[2].splitlines()[0] == "The launch has ended: 14 steps, 14 warp-instructions, 1 finding."


@pytest.mark.parametrize(
    "command",
    ["foo", "b", "b ²", "b " + "9" * 5000, "focus 9", "focus 7,7,7 0", "focus x", "step ²", "step -1", "goto", "p", "p (",
     "x", "x/99z", "x/99999xw s", "x 0", "set", "set foo-bar 3", "set %r0 =", "set n = 3", "info", "info x", "delete 7", "ignore 1", "commands 9",
     "undisplay 9", "list 0", "source /nowhere", "until", "condition", "d", "i", "\x00", "set scheduler-locking maybe", "watch 5",
     "rwatch %r0", "help foo", "block (9,9,9)", "thread (99,0,0)", "finish"],
)  # fmt: skip
def test_whatever_is_typed(prompt, command):
    """Nothing that is typed ends the dialogue but what is to end it."""
    answers = prompt(command, "echo still here", "q")

    assert answers[2] == "still here"


def test_json(monkeypatch, capsys):
    """With --json the dialogue goes elsewhere, and there is one document."""
    monkeypatch.setattr("sys.stdin", io.StringIO("c\n"))
    assert main(["debug", "replay", str(ROOT / "programs" / "saxpy"), "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["cases"][0]["bits_equal"]
    assert "The launch has ended" in said.err
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    assert main(["debug", "replay", str(ROOT / "programs" / "saxpy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left_at"] == 0


def test_replay_compares(monkeypatch, capsys):
    """A recorded launch that runs to its end is compared, with every option of a replay."""
    monkeypatch.setattr("sys.stdin", io.StringIO("c\n"))
    options = ["--checks", "all", "--async-effects", "at_wait", "--max-instructions", "none", "--bits"]
    assert main(["debug", "replay", str(ROOT / "programs" / "saxpy"), *options]) == 0
    assert "equal in every bit" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("c\nc\n"))
    assert main(["debug", "replay", str(ROOT / "programs" / "saxpy"), "--max-instructions", "100"]) == 1
    assert "more than 100 warp-instructions" in capsys.readouterr().out


def test_source_lines(monkeypatch, capsys):
    """CUDA lines are shown as they change, and are places to stop at."""
    monkeypatch.setattr(
        "sys.stdin",
        io.StringIO("b kernel.cu:4\nc\ns\ninfo line\ndisas\ninfo line kernel.cu:4\ninfo line kernel.cu:1\n"),
    )
    assert main(["debug", "replay", str(ROOT / "programs" / "saxpy")]) == 0
    answers = capsys.readouterr().out.split("(warpsim) ")

    assert "kernel.cu:4: if (i < n) y[i] = a * x[i] + y[i];" in answers[2]
    assert "kernel.cu:4" in answers[4]
    assert "kernel.cu:3:" in answers[5]
    assert answers[6].splitlines()[1] == "line 39 of kernel.ptx, kernel.cu:4: setp.ge.s32"
    assert answers[7].splitlines()[1:3] == [
        "kernel.cu:1 has no code; the next that has:",
        "line 29 of kernel.ptx, kernel.cu:2: ld.param.u32",
    ]


def test_what_can_be_seen(monkeypatch, capsys):
    """Matrices with their owners, what is in flight, mbarriers, origins."""
    commands = "b op:wgmma.mma*\nc\nmatrix b[3,7]\nd\nn\ni async\ni wgmma\ni mbarriers\ni barriers\nmatrix d\norigin %f1000\nmatrix x\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))
    assert main(["debug", "replay", str(ROOT / "tests" / "cases" / "gemm_ss_f16")]) == 0
    answers = [answer.partition("\n")[2] for answer in capsys.readouterr().out.split("(warpsim) ")]

    assert answers[3].startswith("b[3,7] = 0.917")
    assert "shared 0x43f6, bank 29" in answers[3]
    assert "writes shared 0x2000 to 0x4000 of CTA (0,0,0)" in answers[6]
    assert "holds 32 registers" in answers[7]
    assert "phase 1, lacks 1 of 1 arrival and 0 bytes" in answers[8]
    assert answers[9] == "No thread has arrived at a barrier.\n"
    assert len(answers[10].splitlines()) == 1 + 4 * 65
    assert "wgmma.mma_async" in answers[11]
    assert "has the operands a, b, d, not 'x'" in answers[12]


def test_a_breakpoint_here(prompt):
    """Without a place it is the line where the launch has stopped."""
    answers = prompt("b", "u 26", "tb", "q")

    assert answers[1] == "Breakpoint 1 at 17: line 17"
    assert answers[3].startswith("Temporary breakpoint 2 at ")


def test_registers_by_prefix(prompt):
    """registers-of gives the registers whose names begin so, and no others."""
    answers = prompt("b 20", "c", "registers-of %r", "registers-of %r0", "q")

    assert re.findall(r"^%\w+", answers[3], re.M) == ["%rd0", "%r0", "%r3"]
    assert re.findall(r"^%\w+", answers[4], re.M) == ["%r0"]


class Editor:
    """What stands in for the module that reads lines in a terminal."""

    def __getattr__(self, name):
        return lambda *given: self.__dict__.update({name + " given": given})


def test_a_terminal_completes(monkeypatch, tmp_path):
    """Where a terminal types, Tab asks the debugger, and words end at blanks."""
    lines = Editor()
    monkeypatch.setitem(sys.modules, "readline", lines)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(atexit, "register", lambda keep: None)
    made = Terminal(types.SimpleNamespace(complete=lambda text, line: [text + "e", text + "es"]))
    lines.get_line_buffer, lines.get_endidx = lambda: "b lin", lambda: 5
    (complete,) = lines.__dict__["set_completer given"]

    assert made.tty
    assert [complete("lin", state) for state in range(3)] == ["line", "lines", None]
    assert lines.__dict__["set_completer_delims given"] == (" \t",)
