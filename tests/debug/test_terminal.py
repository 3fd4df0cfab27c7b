"""The prompt in a real terminal: Ctrl-C, and through tmux completion, repetition, colour, the end of the input."""

import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

LOOP = Path(__file__).parent / "kernels" / "loop.ptx"
TMUX = shutil.which("tmux")


SPAWN = "import os, pty, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


class Prompt:
    """The debugger in a pseudo-terminal."""

    def __init__(self, folder):
        given = ["debug", "run", str(LOOP), "--grid", "1", "--block", "32", "--arg", "zeros:u32:1"]
        command = [sys.executable, "-c", SPAWN, sys.executable, "-m", "warpsim", *given]
        env = {**os.environ, "HOME": str(folder), "TERM": "dumb"}
        self.running = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def says(self, keys=b"", end="(warpsim) "):
        """Types keys: what is shown up to the next prompt."""
        self.running.stdin.write(keys)
        text, began = "", time.monotonic()
        while not text.endswith(end):
            if select.select([self.running.stdout], [], [], 1)[0]:
                text += self.running.stdout.read(4096).decode()
            elif keys.endswith(b"\x03"):  # lost, as readline was not waiting yet
                self.running.stdin.write(b"\x03")
            assert time.monotonic() - began < 60, text
        return text


@pytest.fixture
def prompt(tmp_path):
    """Such a prompt, until the end of the test."""
    made = Prompt(tmp_path)
    yield made
    made.running.kill()
    made.running.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal of POSIX")
def test_control_c_at_the_prompt(prompt):
    """It discards the line, or the command that takes several: the launch does not move, and no command is repeated."""
    assert "step 0" in prompt.says()
    assert "  8  mov.u32" in prompt.says(b"step\n")
    for keys in ("step", "break again"):
        prompt.says(keys.encode(), end=keys)
        assert "Quit" in prompt.says(b"\x03")
    assert "Breakpoint 1" in prompt.says(b"break 11\n")
    prompt.says(b"commands\n")
    prompt.says(b"step 3\n")
    prompt.says(b"print 5", end="print 5")
    assert "Quit" in prompt.says(b"\x03")
    assert "1 step," in prompt.says(b"info program\n")
    shown = prompt.says(b"info breakpoints\n")
    assert "  1  break 11, line 11" in shown
    assert "step 3" not in shown
    assert " 10  add.u32" in prompt.says(b"step\n")
    assert " 11  setp" in prompt.says(b"\n")


class Terminal:
    """A terminal of 110 columns that runs one command."""

    def __init__(self, folder, command):
        self.socket = ["-S", str(folder / "socket"), "-f", "/dev/null"]
        self._tmux("new-session", "-d", "-s", "it", "-x", "110", "-y", "40", f"{command}; echo STATUS $?; sleep 60")

    def _tmux(self, *words):
        return subprocess.run([TMUX, *self.socket, *words], capture_output=True, text=True, check=True).stdout

    def type(self, *keys):
        """Press keys; names as tmux has them."""
        self._tmux("send-keys", "-t", "it", *keys)

    def shows(self, pattern, seconds=60):
        """Wait until the screen shows a pattern; the screen, with its escape sequences."""
        end = time.monotonic() + seconds
        while True:
            screen = self._tmux("capture-pane", "-e", "-p", "-t", "it")
            if re.search(pattern, re.sub(r"\x1b\[[0-9;]*m", "", screen)):
                return screen
            assert time.monotonic() < end, f"{pattern!r} is not in\n{screen}"
            time.sleep(0.1)

    def close(self):
        """End the terminal and what runs in it."""
        subprocess.run([TMUX, *self.socket, "kill-server"], capture_output=True)


@pytest.fixture
def terminal(tmp_path):
    """The debugger on an endless loop, in a terminal."""
    if TMUX is None:
        pytest.skip("no tmux is installed")
    given = f"debug run {LOOP} --grid 1 --block 32 --arg zeros:u32:1 --max-instructions none"
    made = Terminal(tmp_path, f"HOME={tmp_path} TERM=xterm-256color {sys.executable} -m warpsim {given}")
    yield made
    made.close()


@pytest.mark.long
def test_a_terminal(terminal, tmp_path):
    """A Tab completes, an empty line repeats, line numbers have a colour, Ctrl-C stops the launch and not the session, the end of
    the input ends it; the history is kept."""
    terminal.shows(r"\(warpsim\)\s*\Z")
    terminal.type("b ag", "Tab")
    terminal.shows(r"b again")
    terminal.type("Enter")
    terminal.shows(r"Breakpoint 1 at again: line 10")
    terminal.type("c", "Enter")
    assert "\x1b[36m" in terminal.shows(r"step 2\n +10  add\.u32")
    terminal.type("s", "Enter")
    terminal.shows(r" 11  setp")
    terminal.type("", "Enter")
    terminal.shows(r" 12  @%p bra again")
    terminal.type("d", "Enter")
    terminal.type("c", "Enter")
    time.sleep(1)
    terminal.type("C-c")
    terminal.shows(r"Interrupted\.")
    terminal.type("p %r0 > 0", "Enter")
    terminal.shows(r"%r0 > 0 = 1 in all lanes")
    terminal.type("rs", "Enter")
    terminal.shows(r"\(warpsim\) rs\n.*\n\(warpsim\)\s*\Z")
    terminal.type("C-d")
    terminal.shows(r"Left at step \d+, before the end\.\nSTATUS 0")
    assert "b again" in (tmp_path / ".warpsim_history").read_text()
