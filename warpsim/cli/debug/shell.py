"""The prompt: reads commands and dispatches them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import TextIO

import attrs

from warpsim.cli.debug.choosing import Choosing, Cuda
from warpsim.cli.debug.console import Console, Quiet
from warpsim.cli.debug.looking import Infos, Looking
from warpsim.cli.debug.naming import Naming, NamingInfos
from warpsim.cli.debug.running import Running
from warpsim.cli.debug.scripting import Scripting
from warpsim.cli.debug.settings import FIXED, SettingUp
from warpsim.cli.debug.sources import Sources
from warpsim.cli.debug.stopping import Stopping
from warpsim.cli.debug.table import GROUPS, Command, chosen, command, commands
from warpsim.debug import DebugError, Session
from warpsim.debug.breakpoints import EVENTS
from warpsim.errors import WarpsimError, source_name
from warpsim.host.options import EVERY
from warpsim.program.mangling import qualified_name

PHRASES = {"registers": "info registers", "memory": "x"}
LINE = re.compile(r"\s*([A-Za-z][\w-]*|[?!])\s*(.*)", re.DOTALL)


class Leave(Exception):
    """The user ends the dialogue."""


class Shell:
    """A dialogue about a session. ``source`` gives lines after the commands of ``first``; ``echo`` decides whether to
    show them."""

    def __init__(self, session: Session, out: TextIO, *, colour: bool) -> None:
        self.console = console = Console(session, out, colour=colour)
        self.session, self.say = session, console.say
        looking = Looking(console)
        self.running = Running(console, looking.show_displays)
        self.setting_up, self.scripting, cuda = SettingUp(console), Scripting(console), Cuda(console)
        stopping = Stopping(console)
        parts = (
            self,
            self.running,
            stopping,
            looking,
            Choosing(console),
            Sources(console),
            Naming(console),
            self.setting_up,
            self.scripting,
        )
        self.commands = console.commands = commands(parts, "do_")
        self.infos = commands((Infos(console), NamingInfos(console), stopping, cuda), "info_")
        self.tables = cuda.tables
        console.find, console.execute = self.find, self.execute
        self.last = ""
        self.refused: list[str] = []
        """What was wrong with commands from files and from the command line."""

    # ---- dialogue ----------------------------------------------------------------------------

    def dialogue(self, first: list[str], source: Callable[[], str | None], echo: Callable[[], bool]) -> None:
        """Execute ``first``, then lines from ``source``, until it has no more or the user leaves. Ctrl-C at the prompt
        discards what was typed, and the lines that were to follow."""
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
        if (queued or echo) and not isinstance(line, Quiet):
            self.say(f"(warpsim) {line}")
        if not queued:
            self.console.files = 0
        if not line.strip():
            line = self.last if not queued else ""
        elif not line.lstrip().startswith("#") and not isinstance(line, Quiet):
            self.last = line.strip()
        problem = self.obey(line)
        if problem is not None and queued:
            self.refused.append(f"{line.strip()}: {problem}")
        return True

    def obey(self, line: str) -> str | None:
        """Execute a line. Prints what is wrong with it, drops the rest of its block, and returns that."""
        try:
            self.execute(line)
        except (DebugError, WarpsimError) as problem:
            said = str(problem)
        except RecursionError:
            said = "expression nests too deep"
        else:
            return None
        queue = self.console.queue
        while queue and isinstance(queue[0], Quiet):
            queue.pop(0)
        self.say(said)
        return said

    def execute(self, line: str) -> None:
        """Execute a line.

        Raises:
            DebugError: what is wrong with it.
        """
        line = line.strip()
        if not line or line.startswith("#"):
            return
        self.find(line).run(self._words(line)[1])

    def _words(self, line: str) -> tuple[str, str]:
        """The first word of a line, for which a phrase may stand, and the rest."""
        found = LINE.fullmatch(line)
        if found is None:
            raise DebugError(f"{line[:60]!r} is not a command; try: help")
        word, _, more = PHRASES.get(found[1], found[1]).partition(" ")
        return word, f"{more} {found[2].strip()}".strip()

    def find(self, line: str) -> Command:
        """The command that a line names.

        Raises:
            DebugError: there is none.
        """
        word = self._words(line.strip())[0]
        if word in self.console.defined:
            help = self.console.defined[word].help
            return Command(word, self.scripting.caller(word), "talk", help=help)
        return chosen(word, self.commands, "command")

    # ---- commands about the dialogue ---------------------------------------------------------

    @command("talk", "[COMMAND]", aliases="h ?", takes="command", looks=True)
    def do_help(self, text: str) -> None:
        """List the commands, or explain one: help break, help info cuda, help set."""
        word, _, rest = text.partition(" ")
        if not word:
            self._list()
            return
        found = self.find(word)
        if found.name == "info":
            if rest:
                self.say("info " + chosen(rest.split()[0], self.infos, "list").explained())
            else:
                self.console.say_all((f"  info {each.line()}" for each in self.infos.values()), "")
            return
        self.say(found.explained())
        if found.name in ("set", "show"):
            for setting in self.setting_up.settings.values():
                self.say(f"  {setting.help}")

    def _list(self) -> None:
        for group, title in GROUPS.items():
            self.say(f"{title}:")
            for each in self.commands.values():
                if each.group == group:
                    self.say(f"  {each.line()}")
        for name, made in self.console.defined.items():
            self.say(f"  {name}: {made.help.splitlines()[0] if made.help else ''}")

    @command("talk", "WORD", looks=True)
    def do_apropos(self, text: str) -> None:
        """List the commands whose help has WORD in it."""
        infos = [attrs.evolve(each, name=f"info {each.name}") for each in self.infos.values()]
        every = [*self.commands.values(), *infos]
        found = (f"  {each.line()}" for each in every if text.lower() in f"{each.name} {each.help}".lower())
        self.console.say_all(found, f"No command has {text!r} in its help.")

    @command("look", "WHAT", aliases="i inf", takes="info")
    def do_info(self, text: str) -> None:
        """Show registers, lanes, warps, the line, locals, findings, breakpoints and more; help info lists them."""
        word, _, rest = text.partition(" ")
        if not word:
            raise DebugError("info " + "|".join(self.infos))
        name = {"b": "breakpoints", "br": "breakpoints", "watch": "watchpoints"}.get(word, word)
        if name not in self.infos and len([each for each in self.infos if each.startswith(name)]) > 1:
            raise DebugError("info " + "|".join(each for each in self.infos if each.startswith(name)))
        chosen(name, self.infos, "list").run(rest.strip())

    @command("talk", aliases="q exit kill detach")
    def do_quit(self, text: str) -> None:
        """End the session, even if the launch has not ended."""
        raise Leave

    @command("talk", "TEXT", takes="command", looks=True)
    def do_complete(self, text: str) -> None:
        """List what Tab would offer behind TEXT."""
        before, _, word = text.rpartition(" ")
        for found in self.complete(word, text):
            self.say(f"{before} {found}".strip())

    # ---- completion --------------------------------------------------------------------------

    def complete(self, text: str, line: str) -> list[str]:
        """Completions of the word under the cursor."""
        before = line[: len(line) - len(text)].split()
        if not before:
            return [f"{name} " for name in sorted([*self.commands, *self.console.defined]) if name.startswith(text)]
        with contextlib.suppress(DebugError):
            found = self.find(line)
            return sorted({word for word in self._offered(found, before[1:], text) if word.startswith(text)})
        return []

    def _offered(self, found: Command, before: list[str], text: str) -> list[str]:
        """The words that may follow a command and the words behind it."""
        if found.takes == "info":
            return (
                self._offered(self.infos[before[0]], before[1:], text)
                if before[:1] and before[0] in self.infos
                else [*self.infos]
            )
        if found.takes in ("command", "tables"):
            return [*(self.commands if found.takes == "command" else self.tables)]
        if found.takes == "setting":
            settings = self.setting_up.settings
            return [*settings[before[0]].words] if before and before[0] in settings else [*settings, *FIXED]
        if found.takes == "event":
            return [*EVENTS, *(self.session.timeline.state.settings.checks & EVERY)]
        if found.takes == "place" and "if" not in before:
            functions = self.session.program.functions
            if text.startswith("op:"):
                return [f"op:{i.text}" for i in self.session.code]
            labels = [label for f in functions.values() for label in f.labels]
            lines = {source_name(i.source) for i in self.session.code if i.source is not None and i.source[1]}
            files = {line.rpartition(":")[0] + ":" for line in lines}
            return [*functions, *map(qualified_name, functions), *labels, *(lines if ":" in text else files)]
        if found.takes in ("expression", "place"):
            group = self.session.context.group
            registers = group.plan.function.registers if group is not None else []
            variables = [symbol.name for symbol in self.session.variables()]
            return [r.name for r in registers if not r.hidden] + variables + [*self.session.kept.named]
        return []
