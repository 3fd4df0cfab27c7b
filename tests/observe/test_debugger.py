"""The debugger's prompt, driven by a script."""

import io
from pathlib import Path

import pytest

from warpsim.cli import main

ROOT = Path(__file__).parents[2]
CALLS = """.version 8.0
.target sm_80
.address_size 64
.func (.param .u32 r) twice(.param .u32 a)
{
  .reg .u32 %x<2>;
  ld.param.u32 %x0, [a];
  add.u32 %x1, %x0, %x0;
  st.param.u32 [r], %x1;
  ret;
}
.visible .entry k(.param .u64 out)
{
  .reg .u32 %r<4>; .reg .u64 %rd<3>; .reg .pred %p;
  .param .u32 a; .param .u32 b;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %p, %r0, 40;
  @%p bra small;
  mov.u32 %r0, 7;
small:
  st.param.u32 [a], %r0;
  call (b), twice, (a);
  ld.param.u32 %r1, [b];
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
"""


@pytest.fixture
def session(monkeypatch, capsys, tmp_path):
    """What the debugger prints for these commands on 64 threads of CALLS, answer by answer."""

    def run(*commands: str) -> list[str]:
        (tmp_path / "k.ptx").write_text(CALLS)
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*commands, "quit"]) + "\n"))
        argv = ["debug", "run", str(tmp_path / "k.ptx"), "--grid", "1", "--block", "64", "--arg", "zeros:u32:64"]
        assert main(argv) == 0
        return capsys.readouterr().out.split("(warpsim) ")

    return run


def test_lanes_that_stand_elsewhere(session):
    """After the branch the warp in focus is in two parts; a lane of the other part has no value here."""
    answers = session("break 20", "continue", "where", "print %rd0 x", "print %rd0 9 x")

    assert answers[2].startswith("k, line 20: CTA (0, 0, 0), warp 1, lanes 8-31; 24 threads in lockstep")
    kind, *lanes = answers[4].split()
    assert (kind, lanes[:8], len(set(lanes[8:])), len(lanes)) == (".u64:", ["-"] * 8, 1, 32)
    assert answers[5].split()[1] == lanes[9]


def test_next_runs_a_function_as_a_whole(session):
    """step goes into a call, next over it."""
    answers = session("break small", "continue", "step", "step", "where")
    assert answers[5].startswith("twice < k, line 7: CTA (0, 0, 0), warp 0, lanes 0-31")

    answers = session("break small", "continue", "step", "next", "where")
    assert answers[5].startswith("k, line 24: CTA (0, 0, 0), warp 0")


def test_watch_and_delete(session):
    """A watch stops behind the instruction that changes the register; without it the launch runs on."""
    answers = session("watch %r1", "continue", "print %r1", "delete %r1", "continue")

    assert answers[2].startswith("%r1 changed in line 24")
    assert answers[3].split()[1:] == [str(2 * n) for n in range(32)]
    assert "watches:" in answers[4]


def test_focus_on_another_warp(session):
    """step follows the warp in focus."""
    answers = session("focus 1", "break 20", "step", "print %rd0 0 x", "registers %rd0")

    assert answers[1].startswith("CTA (0, 0, 0), warp 1")
    assert "warp 1, lanes 0-31" in answers[3]
    assert answers[4].split()[1].startswith("0x")
    assert answers[5].split()[:2] == ["%rd0", ".u64"]


def test_what_it_cannot_show(session):
    """Unknown names and values that are gone are said, and the session goes on."""
    answers = session("print %nope", "break nowhere", "focus x", "print %r1", "matrix a", "list")

    assert "no register %nope in k" in answers[1]
    assert "no label nowhere" in answers[2]
    assert "focus WARP" in answers[3]
    assert "has not been kept" in answers[4]
    assert ">   16" in answers[6]


def test_replay_says_whether_it_is_equal(monkeypatch, capsys):
    """A recorded launch that runs to its end is compared."""
    monkeypatch.setattr("sys.stdin", io.StringIO("continue\n"))

    assert main(["debug", "replay", str(ROOT / "programs" / "saxpy")]) == 0
    assert "equal in every bit" in capsys.readouterr().out
