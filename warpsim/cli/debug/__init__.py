"""``warpsim debug run|replay``: a debug session at the terminal, with gdb's commands."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from argparse import Namespace
from typing import Any, TextIO

from warpsim.cli.debug.shell import Shell
from warpsim.cli.launching import Left
from warpsim.cli.output import Unusable, document, end
from warpsim.cli.running import run_one
from warpsim.debug import Session
from warpsim.errors import describe
from warpsim.host.arguments import Arguments
from warpsim.host.files import text_of
from warpsim.host.kernel import Kernel, LaunchResult
from warpsim.host.options import Dim
from warpsim.report.findings import finding_record


def command_debug(options: Namespace) -> int:
    """Run a launch under the debugger; returns the exit status: 2 if a command of ``-x`` or ``-ex`` was refused. With
    ``--json`` the dialogue goes to standard error."""
    first = [line for kind, text in options.first or [] for line in ([text] if kind == "command" else _lines(text))]
    out = sys.stderr if options.json else sys.stdout
    refused: list[str] = []

    def launch(kernel: Kernel, grid: Dim, block: Dim, args: Arguments, **more: Any) -> LaunchResult:
        session = Session(kernel, grid, block, args, **more)
        shell = Shell(session, out, colour=_has_colour(out))
        terminal = Terminal(shell)
        if options.at_finding:
            _go_to_finding(shell, options.at_finding)
        shell.dialogue(first, terminal.read, lambda: not terminal.tty)
        refused.extend(shell.refused)
        if not session.timeline.ended:
            shell.say(f"Left at step {session.stop.step}, before the end.")
            raise Left(session.stop.step, shell.console.errors)
        return session.outcome()

    try:
        return run_one(options, launch, refused)
    except Left as left:
        step, errors = left.args
        if options.json:
            error = "; ".join(refused) or None
            document({"error": error, "left_at": step, "findings": [finding_record(f) for f in errors]})
        return end("; ".join(refused), 2, as_json=False) if refused else int(bool(errors))


def _go_to_finding(shell: Shell, number: int) -> None:
    """Go to where a finding is met: the last stop before the launch has so many; one stop is at all findings of a step."""
    session, at = shell.session, shell.session.cont()
    while number > 1 and at.finding is not None:
        stop = session.cont()
        if stop.finding is None or len(session.timeline.state.findings) >= number:
            session.goto(at.step)
            if at.focus is not None:
                session.focus(at.focus.cta, at.focus.warp, at.focus.lane)
            shell.say(f"{at.finding.severity}: {describe(at.finding)}")
            break
        at = stop
    if at.finding is None:
        elsewhere = "Its findings are in grids that a kernel has launched, in which a debugger does not stop."
        shell.say(elsewhere if session.timeline.state.findings else "The launch has no findings.")
    elif at.finding.severity == "error":
        shell.console.errors.append(at.finding)


def _lines(name: str) -> list[str]:
    try:
        return text_of(name).splitlines()
    except (OSError, ValueError) as problem:
        raise Unusable(f"cannot read {name}: {problem}") from None


def _has_colour(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM", "dumb") != "dumb"


class Terminal:
    """Lines from standard input; at a terminal, with history and completion where readline exists."""

    def __init__(self, shell: Shell) -> None:
        self.tty = sys.stdin is not None and sys.stdin.isatty()
        self.shell = shell
        if self.tty:
            self._prepare()

    def _prepare(self) -> None:
        if sys.platform == "win32":  # its console edits lines itself; there is no readline
            return
        try:
            import readline
        except ImportError:  # a Python built without it
            return
        path = os.path.join(os.path.expanduser("~"), ".warpsim_history")
        with contextlib.suppress(OSError):
            readline.read_history_file(path)
        readline.set_completer_delims(" \t")
        readline.set_completer(self._complete)
        readline.parse_and_bind("tab: complete")

        def keep() -> None:
            with contextlib.suppress(OSError):
                readline.set_history_length(1000)
                readline.write_history_file(path)

        atexit.register(keep)

    def _complete(self, text: str, state: int) -> str | None:
        if sys.platform == "win32":
            return None
        import readline

        found = self.shell.complete(text, readline.get_line_buffer()[: readline.get_endidx()])
        return found[state] if state < len(found) else None

    def read(self) -> str | None:
        """The next line; None at the end of the input."""
        try:
            if self.tty:
                return input("(warpsim) ")
            line = sys.stdin.readline() if sys.stdin is not None else ""
            return line.rstrip("\n") if line else None
        except EOFError:
            self.shell.say()
            return None
        except UnicodeDecodeError:
            return "# what was typed is not a text"
        except OSError:  # there is no standard input
            return None
