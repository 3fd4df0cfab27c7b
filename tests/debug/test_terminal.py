"""The prompt in a real terminal, through tmux: completion, repetition, colour, Ctrl-C, the end of the input."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

LOOP = Path(__file__).parent / "kernels" / "loop.ptx"
TMUX = shutil.which("tmux")


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
