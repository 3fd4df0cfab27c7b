"""Habits of gdb and cuda-gdb that are no command of their own: conditions, kept values, definitions, tables, coordinates."""

import numpy as np
import pytest

from ring_kernel import started
from tests.debug.test_commands import FAULTY, LINES, Talk
from warpsim.cli.debug.shell import Shell


@pytest.fixture
def talk():
    """A dialogue about CALLS."""
    return Talk()


def test_a_watchpoint_with_a_condition(talk):
    """It stops only where the condition is true for the warp that made the change, which has the focus then; ignore counts
    only such changes."""
    talk("watch s[0:64] if %tid.x[0] >= 32")
    answer = talk("c").splitlines()
    assert answer[0] == "Watchpoint 1: s[0:64]"
    assert "warp 1" in answer[3]
    talk("start")
    talk("condition 1 %r1[3] == 7")
    assert talk("c").startswith("The launch has ended")
    assert talk.session.breakpoints[1].hits == 1
    talk("start")
    assert talk("condition 1") == ""
    assert talk("ignore 1 1") == "Will ignore the next 1 hit of watchpoint 1."
    assert "warp 1" in talk("c")
    assert talk.session.breakpoints[1].hits == 3


def test_a_watched_read_with_a_condition(talk):
    """awatch stops before a read, too, where its condition holds."""
    talk("awatch s[63] if s[63] == 14 && %laneid[0] == 0")
    seen = [talk("c").splitlines() for _ in range(2)]
    assert [answer[0] for answer in seen] == ["Watchpoint 1: s[63]"] * 2
    assert seen[0][1:3] == ["  old 0", "  new 14"]
    assert talk("c").startswith("The launch has ended")


def test_conditions_of_watchpoints_are_checked(talk):
    """A name that stands for nothing in every function is refused."""
    assert "no register, variable or parameter %nope" in talk("watch s[3] if %nope")
    assert talk("watch s[3] if") == "expected a condition after if"
    assert talk("watch s[3] if a == 3") == "Watchpoint 1: s[3]"
    assert talk("watch %r0 if $i > 3") == "Watchpoint 2: %r0"


def test_lists_of_watchpoints(talk):
    """info watchpoints lists them alone."""
    assert talk("info watchpoints") == "No watchpoints."
    talk("b 26")
    talk("watch s[3] if n > 2")
    assert talk("info watchpoints") == "  2  watch s[3]; if n > 2"


def test_going_back_to_a_condition(talk):
    """reverse-continue stops where the condition was true."""
    talk("watch s[0:64] if %tid.x[0] == 0")
    talk("c")
    there = talk.session.stop.step
    talk("disable")
    talk("c")
    talk("enable")
    assert talk("rc").splitlines()[0] == "Watchpoint 1: s[0:64]"
    assert talk.session.stop.step == there - 1


def test_kept_values(talk):
    """What print has shown is $1, $2 and so on; $ is the last, $$ the one before; names are given with set."""
    for line, shown in (
        ("p n", "n = 5"),
        ("p n + 1", "n + 1 = 6"),
        ("p $ + $$", "$ + $$ = 11"),
        ("p", "$ = 11"),
        ("p $1 * 2", "$1 * 2 = 10"),
        ("p $$4", "$$4 = 5"),
        ("output n", "5"),
        ("p $6", "$6 = 5"),
        ("p $99", "no register, variable or parameter $99 in k"),
        ("set $i = n + 2", ""),
        ("p $i", "$i = 7"),
        ("set $i = $i + 1", ""),
        ("p s[$i - 8]", "s[$i - 8] = 0"),
        ("set $pc = 4", "$pc cannot be changed: a convenience variable is a $ and a name, such as $i"),
        ("set $1 = 4", "$1 cannot be changed: a convenience variable is a $ and a name, such as $i"),
        ("show convenience", "$i = 8"),
        ("show values", "$1 = 5\n$2 = 6\n$3 = 11\n$4 = 11\n$5 = 10\n$6 = 5\n$7 = 5\n$8 = 7\n$9 = 0"),
    ):
        assert talk(line) == shown


def test_slices_by_lane(talk):
    """A register's lanes from one up to another, as an array; only those that stand here."""
    talk("u 20")
    assert talk("p %r0[2:5]") == "%r0[2:5] = {2, 3, 4}"
    assert talk("p $1[1]") == "$1[1] = 3"
    talk("focus warp 1 lane 9")
    talk("u 22")
    assert talk("p %r0[6:10]") == "not all of 6 to 9 stand here"
    assert talk("p %r0[8:10]") == "%r0[8:10] = {40, 41}"
    assert talk("p threadIdx") == "threadIdx = {41, 0, 0}"
    assert talk("p $[1]") == "$[1] = 0"


def test_instructions(talk):
    """x/i shows PTX from a line, a label or a function on; an arrow marks the next instruction, also in a display."""
    assert talk("x/2i $pc").splitlines() == [
        "=> 17 <k+0>:  ld.param.u64 %rd0, [out];",
        "   18 <k+1>:  mov.u32 %r0, %tid.x;",
    ]
    assert talk("x/i twice") == "   7 <twice+0>:  ld.param.u32 %x0, [a];"
    assert talk("x/i small") == "   24 <k+6>:  st.param.u32 [a], %r0;"
    assert talk("p $pc") == "$pc = 17"
    assert talk("display/i $pc").splitlines()[1] == "=> 17 <k+0>:  ld.param.u64 %rd0, [out];"
    assert talk("s").splitlines()[-1] == "=> 18 <k+1>:  mov.u32 %r0, %tid.x;"
    assert talk("x/xi $pc") == "x/Ni: a number of instructions, not /xi"


def test_places_from_here(talk):
    """Lines ahead and behind, the line of an expression, a later line, the current one."""
    assert talk("tb +3") == "Temporary breakpoint 1 at 20: line 20"
    assert talk("b *$pc + 9") == "Breakpoint 2 at 26: line 26"
    assert talk("until").endswith("    18  mov.u32 %r0, %tid.x;")
    assert talk("advance 22").startswith("Temporary breakpoint 1")
    assert talk("b").startswith("Breakpoint 3 at 20")
    assert talk("clear") == "Deleted breakpoint 3"
    assert talk("clear") == "no breakpoint at 20"
    assert talk("rbreak ^tw") == "Breakpoint 4 at twice: line 7"
    assert talk("rbreak (") == "'(' is not a regular expression: missing ), unterminated subpattern at position 0"
    assert talk("b *n[") == "expected a value, not the end\n    n[\n      ^"


def test_lines_of_the_cuda_file():
    """Where steps are CUDA lines, bare numbers and later lines are those of the CUDA file."""
    talk = Talk(LINES)
    talk("set step-by line")
    assert talk("tb 12") == "Temporary breakpoint 1 at twice.cu:12: line 29"
    assert talk("b +2").startswith("Breakpoint 2 at twice.cu:12")
    assert "twice.cu:12" in talk("until")
    talk("start")
    assert "twice.cu:12" in talk("u 12")


def test_definitions(talk):
    """define, document and help; words behind a defined command; loops and choices within."""
    talk("define pair", "p $arg0", "if $argc > 1", "p $arg1", "else", "echo one", "end", "end")
    assert talk("pair n 7") == "n = 5\n7 = 7"
    assert talk("pair n") == "n = 5\none"
    talk("document pair", "Print one value or two.", "end")
    assert talk("help pair") == "pair\nPrint one value or two."
    assert "  pair: Print one value or two." in talk("help").splitlines()
    assert talk("show user").splitlines()[:2] == ["define pair", "  p $arg0"]
    talk("set $i = 0")
    assert talk("while $i < 3", "p $i", "set $i = $i + 1", "end") == "$i = 0\n$i = 1\n$i = 2"
    assert talk("if n == 4", "echo four", "else", "echo other", "end") == "other"
    assert talk("while 1", "nonsense", "end").startswith("there is no command 'nonsense'")
    assert talk("define step", "end") == "step is a command already; choose another name"
    assert talk("document nothing", "x", "end").startswith("'nothing' has not been defined")


def test_silent_commands(talk):
    """Commands that begin with silent report no stop; they may continue."""
    talk("b 26")
    talk("commands", "silent", 'printf "n is %d\\n", n', "continue", "end")
    talk("b 33")
    assert talk("c").splitlines()[0] == "n is 5"
    assert talk.session.stop.line == 33


def test_text(talk):
    """printf's verbs, echo, the shell, the working directory."""
    talk("u 20")
    talk("lane 3")
    assert talk('printf "%d %5.2f|%x|%c|%s|%%|%p\\n", %r0, 1.5, 255, 65, n, 16') == "3  1.50|ff|A|5|%|0x10"
    assert talk('printf "%d"') == "printf: the format names more values than follow it"
    assert talk('printf "x", n') == "printf: the format names fewer values than follow it"
    assert talk('printf "%d", s') == "printf takes one value, and s is an array"
    assert talk("printf n").startswith('printf "FORMAT"')
    assert talk("shell echo out; echo err >&2; exit 3") == "out\nerr\nexit status 3"
    assert talk("!echo yes") == "yes"
    assert talk("pwd").startswith("Working directory /")
    assert talk("cd /nowhere/at/all").startswith("cannot change to /nowhere/at/all")


def test_settings(talk):
    """show tells a setting, or all; what is always so may be set so, and nothing else."""
    assert talk("show step-by").startswith("step-by: instruction  (set step-by line: step, next")
    assert "history-bytes: 268435456" in talk("show").splitlines()
    assert talk("set pagination off") == talk("set confirm off") == talk("set cuda memcheck on") == ""
    assert talk("set pagination on") == "pagination is always off here: the output has no pages"
    assert talk("set print pretty on").startswith("there is no setting 'print pretty'; the nearest is ")
    assert talk("set steps-by line") == "there is no setting 'steps-by'; the nearest is step-by"
    assert talk("show stop-at") == "there is no setting 'stop-at'; the nearest is stop-at-findings"
    assert talk("show version").startswith("warpsim ")


def test_tables(talk):
    """info cuda lists the kernel, its blocks, threads, warps, lanes and barriers; a star marks the focus."""
    talk("focus warp 1 lane 9")
    talk("u 22")

    def rows(what):
        return [line.split() for line in talk(f"info cuda {what}").splitlines()]

    out = int(talk.session.evaluate("out"))
    assert rows("kernels")[1] == ["*", "0", "-", "0", "1", "Active", "(1,1,1)", "(64,1,1)", f"k(out={out:#x},", "n=5)"]
    assert rows("blocks")[1] == ["*", "(0,0,0)", "(0,0,0)", "1", "running"]
    assert [row[:6] for row in rows("threads")[1:]] == [
        ["(0,0,0)", "(0,0,0)", "(31,0,0)", "32", "17", "-"],
        ["(0,0,0)", "(32,0,0)", "(39,0,0)", "8", "24", "-"],
        ["*", "(0,0,0)", "(40,0,0)", "(63,0,0)", "24", "22"],
    ]
    assert rows("warps")[2][:5] == ["*", "1", "0xffffff00", "0x000000ff", "22"]
    lanes = rows("lanes")
    assert lanes[1][:3] == ["0", "divergent", "24"]
    assert lanes[10] == ["*", "9", "active", "22", "(41,0,0)", "None"]
    assert rows("barriers")[0][:3] == ["No", "thread", "has"]
    assert talk("info cuda nothing").startswith("info cuda barriers|blocks")
    talk("warp 0")
    talk("catch arrival")
    talk("c")
    assert rows("barriers")[1] == ["(0,0,0)", "0", "32", "of", "64", "-", "0"]


def test_the_lane_of_a_finding():
    """The lanes that a finding names are marked."""
    talk = Talk(FAULTY, (np.zeros(64, np.uint32),))
    talk("c")
    assert [line.split()[-1] for line in talk("info cuda lanes").splitlines()[-2:]] == ["None", "out-of-bounds"]


def test_coordinates(talk):
    """cuda-gdb's words show coordinates, or choose them; of what there is only one, others are refused."""
    assert talk("cuda kernel block thread") == "kernel 0, block (0,0,0), thread (0,0,0)"
    assert talk("cuda device sm warp lane") == "device 0, sm 0, warp 0, lane 0"
    assert talk("cuda grid cluster") == "grid 1, cluster (0,0,0)"
    assert "warp 1, lane 3" in talk("cuda kernel 0 grid 1 block (0,0,0), thread (35,0,0)")
    assert "warp 0, lane 7" in talk("cuda device 0 sm 0 warp 0 lane 7")
    assert talk("cuda device 1") == "there is only device 0: a session debugs one launch"
    assert talk("cuda block 0 nonsense").startswith("focus cta X,Y,Z")
    assert "thread (3,0,0)" not in talk("cuda cluster 0 thread 3")


def test_threads_in_turn(talk):
    """thread apply executes a command for each thread, and then the focus is where it was."""
    talk("lane 5")
    answer = talk("thread apply 1 32-33 p %tid.x[0]")
    assert answer.count("%tid.x[0] = ") == 3
    assert "Thread (33,0,0) of CTA (0,0,0), warp 1, lane 1:" in answer
    assert talk("thread apply all bt").count("#0  k, line 17") == 2
    assert talk.session.thread.lane == 5
    assert talk("thread apply all step") == "thread apply takes commands that look: step moves the launch"
    assert talk("thread apply 1-x p n") == "thread apply all COMMAND, or thread apply N... COMMAND"
    assert "there is no lane" in talk("thread apply 99 p n") or "there is no warp" in talk("thread apply 99 p n")


def test_addresses_and_sources():
    """What lies at an address, text in memory, the files of the code, and the parameters of the kernel by their names."""
    talk = Talk()
    talk.session = started("ring_debug.ptx")
    talk.shell = Shell(talk.session, talk.out, colour=False)
    talk("tb ring.cu:60")
    assert talk("c").splitlines()[0] == "Temporary breakpoint 1"
    assert talk("info symbol &coef[2]") == "coef+0x8 in shared memory"
    assert talk("info symbol &last.a[1]") == "last + 8 in global memory"
    assert talk("info symbol 0x99999999") == "No symbol matches 0x99999999."
    assert talk("info symbol coef").startswith("info symbol ADDRESS")
    assert talk("info source").splitlines()[0].endswith("ring.cu")
    assert talk("x/s &ring[1].flag").endswith('"b"')
    assert "n=100, step=...)" in talk("info cuda kernels")
    assert talk("info threads") == talk("info warps")


def test_saved_breakpoints(talk, tmp_path):
    """They are written as the commands that set them, which source reads."""
    for line in ("b 26 if n == 5", "tb twice", "watch s[3] any if s[3] > 2", "rwatch s[4]", "catch arrival"):
        talk(line)
    talk("commands 1", "silent", "p n", "end")
    listed = talk("info breakpoints")
    assert talk(f"save breakpoints {tmp_path / 'saved'}") == ""
    again = Talk()
    again(f"source {tmp_path / 'saved'}")
    assert again("info breakpoints") == listed
    assert talk("save") == "save breakpoints FILE"


def test_help_by_word(talk):
    """apropos finds commands by their help; help explains lists and settings."""
    assert (
        "  rwatch WHAT [if CONDITION]: Stop when a variable or memory is read." in talk("apropos is read").splitlines()
    )
    assert talk("apropos nowhere at all").startswith("No command has")
    assert talk("help info cuda").startswith("info cuda kernels|blocks|")
    assert "  set step-by line:" in talk("help set")
    assert talk("complete info cu") == "info cuda"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("b op:ld.p", ["op:ld.param.u32", "op:ld.param.u64"]),
        ("info cuda b", ["barriers", "blocks"]),
        ("set st", ["step-by", "stop-at-findings"]),
        ("set step-by l", ["line"]),
        ("show v", []),
        ("watch %r0", ["%r0"]),
        ("b 26 if %r1", ["%r1"]),
    ],
)
def test_completions(talk, line, found):
    """Opcodes, tables, settings and their words, registers in conditions."""
    assert talk.shell.complete(line.split(" ")[-1], line) == found


def test_jumps(talk):
    """The lanes that stand together go on elsewhere in their function; a breakpoint there stops them, going back undoes it."""
    talk("focus warp 1 lane 20")
    talk("u 22")
    assert talk("b small") == "Breakpoint 1 at small: line 24"
    assert talk("jump small").splitlines()[-1] == "    24  st.param.u32 [a], %r0;"
    talk("d")
    assert talk("jump twice") == "twice is not in k: threads can jump within their function only"
    talk("c")
    out = int(talk.session.evaluate("out"))
    assert talk(f"p u32[{out + 4 * 45}]").endswith("= 90"), "r0 = 7 has been left out"
    assert talk("jump small").endswith("is not running, so it cannot jump")
