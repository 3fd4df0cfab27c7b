"""The prompt: reads commands and dispatches them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import TextIO

from warpsim.cli.debug.console import Console
from warpsim.cli.debug.looking import Infos, Looking
from warpsim.cli.debug.running import Breaking, Running
from warpsim.debug import DebugError, Session
from warpsim.debug.breakpoints import EVENTS
from warpsim.errors import WarpsimError
from warpsim.host.files import text_of
from warpsim.host.options import EVERY

ALIASES = {
    "r": "run", "c": "continue", "cont": "continue", "fg": "continue", "s": "step", "n": "next", "si": "stepi", "sl": "step-line", "nl": "next-line",
    "ni": "nexti", "fin": "finish", "u": "until", "advance": "until", "b": "break", "br": "break", "tb": "tbreak",
    "d": "delete", "p": "print", "inspect": "print", "call": "print", "disp": "display", "i": "info", "inf": "info", "l": "list",
    "bt": "backtrace", "where": "backtrace", "f": "frame", "rs": "reverse-step", "rsi": "reverse-stepi", "rsl": "reverse-step-line",
    "back": "reverse-step", "rn": "reverse-step", "reverse-next": "reverse-step", "dn": "down", "disas": "list", "disassemble": "list", "rc": "reverse-continue", "q": "quit", "exit": "quit", "h": "help", "?": "help",
    "registers": "info registers", "memory": "x", "cuda": "focus", "dis": "disable", "en": "enable",
}  # fmt: skip
COMMAND = re.compile(r"\s*([A-Za-z-]+|\?)\s*(.*)", re.DOTALL)


class Leave(Exception):
    """The user ends the dialogue."""


class Shell:
    """A dialogue about a session. ``source`` gives lines after the commands of ``first``; ``echo`` decides whether to
    show them.
    """

    def __init__(self, session: Session, out: TextIO, *, colour: bool) -> None:
        self.console = console = Console(session, out, colour=colour)
        self.session, self.say = session, console.say
        looking = Looking(console)
        self.running = Running(console, looking.show_displays)
        groups = self, self.running, Breaking(console), looking, Infos(console)
        self.commands = _methods(groups, "do_")
        self.infos = _methods(groups, "info_")
        self.last = ""
        self.depth = 0
        self.refused: list[str] = []
        """What was wrong with commands from files and from the command line."""

    # ---- dialogue ----------------------------------------------------------------------------

    def dialogue(self, first: list[str], source: Callable[[], str | None], echo: Callable[[], bool]) -> None:
        """Execute ``first``, then lines from ``source``, until it has no more or the user leaves. Ctrl-C at the prompt
        discards what was typed, and the lines that were to follow.
        """
        console = self.console
        self.running.greet()
        console.queue, console.source = list(first), source
        going = True
        with contextlib.suppress(Leave):
            while going:
                try:
                    going = self._turn(echo=echo())
                except KeyboardInterrupt:
                    if echo():  # nobody is at the prompt
                        raise
                    console.queue = []
                    self.say("Quit")

    def _turn(self, *, echo: bool) -> bool:
        """Execute the next line; False if there is none."""
        queued = bool(self.console.queue)
        line = self.console.further()
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
        name, _, more = self.command(found[1]).partition(" ")
        self.commands[name](f"{more} {found[2].strip()}".lstrip())

    def command(self, word: str) -> str:
        """The full name of a command, from gdb's abbreviation or any unique prefix."""
        if word in ALIASES:
            return ALIASES[word]
        if word in self.commands:
            return word
        found = [name for name in self.commands if name.startswith(word)]
        if found and all(name.startswith(found[0]) for name in found):  # step before stepi and step-line
            return found[0]
        if len(found) != 1:
            many = f"ambiguous: {', '.join(found)}" if found else "no command; try: help"
            raise DebugError(f"{word!r} is {many}")
        return found[0]

    # ---- commands about the dialogue ---------------------------------------------------------

    def do_help(self, text: str) -> None:
        """help [COMMAND]: list the commands, or explain one."""
        if text:
            self.say(str(self.commands[self.command(text.split()[0]).split()[0]].__doc__))
            return
        for method in self.commands.values():
            self.say("  " + str(method.__doc__).partition("\n")[0])

    def do_info(self, text: str) -> None:
        """info WHAT (i): show registers, lanes, warps, line, locals, frame, findings, breakpoints, display ..."""
        word, _, rest = text.partition(" ")
        found = [name for name in self.infos if name.startswith(word)] if word else []
        if word in self.infos:
            found = [word]
        if word in ("b", "br"):
            found = ["breakpoints"]
        if len(found) != 1:
            raise DebugError("info " + "|".join(self.infos))
        self.infos[found[0]](rest.strip())

    def do_quit(self, text: str) -> None:
        """quit: end the session, even if the launch has not ended."""
        raise Leave

    def do_echo(self, text: str) -> None:
        """echo TEXT: print TEXT."""
        self.say(text.replace("\\n", "\n").rstrip("\n"))

    def do_source(self, text: str) -> None:
        """source FILE: execute the commands in FILE."""
        if self.depth > 20:
            raise DebugError("command files nest too deep")
        try:
            lines = text_of(text).splitlines()
        except (OSError, ValueError) as problem:
            raise DebugError(f"cannot read {text}: {problem}") from None
        self.depth += 1
        self.console.queue = [*lines, *self.console.queue]

    # ---- completion --------------------------------------------------------------------------

    def complete(self, text: str, line: str) -> list[str]:
        """Completions of the word under the cursor."""
        before = line[: len(line) - len(text)].split()
        if not before:
            return [name + " " for name in self.commands if name.startswith(text)]
        with contextlib.suppress(DebugError):
            name = self.command(before[0])
            if name == "info":
                return [word for word in self.infos if word.startswith(text)]
            if name == "help":
                return [word for word in self.commands if word.startswith(text)]
            if name == "catch":
                checks = self.session.timeline.state.settings.checks
                return sorted(word for word in {*EVENTS, *(checks & EVERY)} if word.startswith(text))
            if name in ("break", "tbreak", "until"):
                functions = self.session.program.functions
                places = [*functions, *(label for f in functions.values() for label in f.labels)]
                return sorted({place for place in places if place.startswith(text)})
            group = self.session.context.group
            known = [r.name for r in group.plan.function.registers if not r.hidden] if group is not None else []
            return [name for name in known if name.startswith(text)]
        return []


def _methods(groups: tuple[object, ...], prefix: str) -> dict[str, Callable[..., None]]:
    """The methods with a prefix, by the rest of their names in alphabetical order."""
    named = ((name, getattr(group, name)) for group in groups for name in dir(group) if name.startswith(prefix))
    return dict(sorted((name.removeprefix(prefix).replace("_", "-"), method) for name, method in named))
