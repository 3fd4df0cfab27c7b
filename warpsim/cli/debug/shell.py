"""The prompt: reads commands and dispatches them."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable
from typing import Any, TextIO

from warpsim.cli.debug.breaking import Breaking
from warpsim.cli.debug.looking import Looking
from warpsim.cli.debug.running import Running
from warpsim.debug import DebugError, Session
from warpsim.debug.listening import EVENTS
from warpsim.errors import Finding, WarpsimError
from warpsim.host.checks import EVERY
from warpsim.host.files import text_of

ALIASES = {
    "r": "run", "c": "continue", "cont": "continue", "fg": "continue", "s": "step", "n": "next", "si": "stepi", "sl": "step-line", "nl": "next-line",
    "ni": "nexti", "fin": "finish", "u": "until", "advance": "until", "b": "break", "br": "break", "tb": "tbreak",
    "d": "delete", "p": "print", "inspect": "print", "call": "print", "disp": "display", "i": "info", "inf": "info", "l": "list",
    "bt": "backtrace", "where": "backtrace", "f": "frame", "rs": "reverse-step", "rsi": "reverse-stepi", "rsl": "reverse-step-line",
    "back": "reverse-step", "rn": "reverse-step", "reverse-next": "reverse-step", "dn": "down", "disas": "list", "disassemble": "list", "rc": "reverse-continue", "q": "quit", "exit": "quit", "h": "help", "?": "help",
    "registers": "info registers", "memory": "x", "cuda": "focus", "dis": "disable", "en": "enable",
}  # fmt: skip
COMMAND = re.compile(r"\s*([A-Za-z-]+|\?)\s*(.*)", re.DOTALL)
FORMATTED = ("print", "x", "display")
"""Commands that take a format behind a slash; for others it may begin the name of a file."""
FORMAT = re.compile(r"(?:/(\S*))?\s*(.*)", re.DOTALL)


class Leave(Exception):
    """The user ends the dialogue."""


class Shell(Running, Breaking, Looking):
    """A dialogue about a session. ``source`` gives lines after the commands of ``first``; ``echo`` decides whether to
    show them.
    """

    def __init__(self, session: Session, out: TextIO, *, colour: bool) -> None:
        self.session = session
        self.out = out
        self.colour = colour
        self.last = ""
        self.queue: list[str] = []
        self.displays: dict[int, tuple[str, str]] = {}
        self.scripts: dict[int, list[str]] = {}
        self.previous: dict[str, Any] = {}
        self.step_by = "instruction"
        self.shown_source: tuple[str, int] | None = None
        self.listed: int | None = None
        self.depth = 0
        self.errors: list[Finding] = []
        """Errors at which the launch has stopped."""
        self.refused: list[str] = []
        """What was wrong with commands that nobody typed: those of files and of the command line."""

    # ---- output ------------------------------------------------------------------------------

    def say(self, text: str = "") -> None:
        """Print a line."""
        print(text, file=self.out)

    def paint(self, text: str, code: str) -> str:
        """Colour text if the terminal supports it."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    # ---- dialogue ----------------------------------------------------------------------------

    def dialogue(self, first: list[str], source: Callable[[], str | None], echo: Callable[[], bool]) -> None:
        """Execute ``first``, then lines from ``source``, until it has no more or the user leaves. Ctrl-C at the prompt
        discards what was typed, and the lines that were to follow.
        """
        self.greet()
        self.queue = list(first)
        self._source = source
        going = True
        with contextlib.suppress(Leave):
            while going:
                try:
                    going = self._turn(echo=echo())
                except KeyboardInterrupt:
                    if echo():  # nobody is at the prompt
                        raise
                    self.queue = []
                    self.say("Quit")

    def _turn(self, *, echo: bool) -> bool:
        """Execute the next line; False if there is none."""
        queued = bool(self.queue)
        line = self.queue.pop(0) if queued else self._source()
        if line is None:
            return False
        if queued or echo:
            self.say(f"(warpsim) {line}")
        if not line.strip():
            line = self.last if not queued else ""
        elif not line.lstrip().startswith("#"):
            self.last = line.strip()
        problem = self.obey(line)
        if problem is not None and queued:
            self.refused.append(f"{line.strip()}: {problem}")
        return True

    def obey(self, line: str) -> str | None:
        """Execute a line. Prints what is wrong with it, and returns that."""
        line = line.strip()
        if not line or line.startswith("#"):
            return None
        try:
            self._dispatch(line)
        except (DebugError, WarpsimError) as problem:
            said = str(problem)
        except RecursionError:
            said = "expression nests too deep"
        else:
            return None
        self.say(said)
        return said

    def _dispatch(self, line: str) -> None:
        found = COMMAND.fullmatch(line)
        if found is None:
            raise DebugError(f"{line[:60]!r} is not a command; try: help")
        name, rest, option = self.command(found[1]), found[2].strip(), ""
        if name in FORMATTED:
            shown = FORMAT.fullmatch(rest)
            assert shown is not None
            option, rest = shown[1] or "", shown[2]
        if " " in name:
            name, _, more = name.partition(" ")
            rest = f"{more} {rest}"
        getattr(self, "do_" + name.replace("-", "_"))(rest, option)

    def command(self, word: str) -> str:
        """The full name of a command, from gdb's abbreviation or any unique prefix."""
        names = self.names()
        if word in ALIASES:
            return ALIASES[word]
        if word in names:
            return word
        found = [name for name in names if name.startswith(word)]
        if found and all(name.startswith(found[0]) for name in found):  # step before stepi and step-line
            return found[0]
        if len(found) != 1:
            many = f"ambiguous: {', '.join(found)}" if found else "no command; try: help"
            raise DebugError(f"{word!r} is {many}")
        return found[0]

    def names(self) -> list[str]:
        """All command names."""
        return sorted(name[3:].replace("_", "-") for name in dir(self) if name.startswith("do_"))

    def further(self) -> str | None:
        """The next line of the dialogue, for commands that take several."""
        line = self.queue.pop(0) if self.queue else self._source()
        return line

    # ---- commands about the dialogue ---------------------------------------------------------

    def do_help(self, text: str, option: str) -> None:
        """help [COMMAND]: list the commands, or explain one."""
        if text:
            name = self.command(text.split()[0]).split()[0]
            self.say(str(getattr(self, "do_" + name.replace("-", "_")).__doc__))
            return
        for name in self.names():
            first = str(getattr(self, "do_" + name.replace("-", "_")).__doc__).partition("\n")[0]
            self.say(f"  {first}")

    def do_quit(self, text: str, option: str) -> None:
        """quit: end the session, even if the launch has not ended."""
        raise Leave

    def do_echo(self, text: str, option: str) -> None:
        """echo TEXT: print TEXT."""
        self.say(text.replace("\\n", "\n").rstrip("\n"))

    def do_source(self, text: str, option: str) -> None:
        """source FILE: execute the commands in FILE."""
        if self.depth > 20:
            raise DebugError("command files nest too deep")
        try:
            lines = text_of(text).splitlines()
        except (OSError, ValueError) as problem:
            raise DebugError(f"cannot read {text}: {problem}") from None
        self.depth += 1
        self.queue = [*lines, *self.queue]

    # ---- completion --------------------------------------------------------------------------

    def complete(self, text: str, line: str) -> list[str]:
        """Completions of the word under the cursor."""
        before = line[: len(line) - len(text)].split()
        if not before:
            return [name + " " for name in self.names() if name.startswith(text)]
        with contextlib.suppress(DebugError):
            name = self.command(before[0])
            if name == "info":
                return [word for word in self.infos() if word.startswith(text)]
            if name == "help":
                return [word for word in self.names() if word.startswith(text)]
            if name == "catch":
                checks = self.session.timeline.state.settings.checks
                return sorted(word for word in {*EVENTS, *(checks & EVERY)} if word.startswith(text))
            if name in ("break", "tbreak", "until"):
                functions = self.session.timeline.state.plan.program.functions
                places = [*functions, *(label for f in functions.values() for label in f.labels)]
                return sorted({place for place in places if place.startswith(text)})
            group = self.session.scene.group
            known = [r.name for r in group.plan.function.registers if not r.hidden] if group is not None else []
            return [name for name in known if name.startswith(text)]
        return []


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
        import atexit

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
