"""The commands set and show: values of the launch, and settings of the debugger."""

from __future__ import annotations

import re
from collections.abc import Callable

from warpsim.cli.debug.console import Commands, Console, count_of, equation, show
from warpsim.cli.debug.table import command, nearest
from warpsim.debug import DebugError
from warpsim.records import frozen
from warpsim.version import VERSION


@frozen
class Setting:
    """A setting of the debugger: the values that it takes (none: a number), its value, and how to change it."""

    words: tuple[str, ...]
    help: str
    value: Callable[[], str]
    change: Callable[[str], None]


FIXED = {
    "confirm": ("off", "nothing is asked before a command"),
    "cuda launch_blocking": ("on", "a launch ends before the next begins"),
    "cuda memcheck": ("on", "every access to memory is checked"),
    "disassemble-next-line": ("on", "every stop shows the instruction"),
    "height": ("0", "the output has no pages"),
    "pagination": ("off", "the output has no pages"),
    "width": ("0", "lines are not wrapped"),
}
"""Settings of gdb and cuda-gdb that have one value here, and why."""


class SettingUp(Commands):
    """The commands set and show."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        session = self.session

        def lock(word: str) -> None:
            session.scheduler_locking = "off" if word == "off" else "step"

        def by(word: str) -> None:
            console.step_by = word

        def most(word: str) -> None:
            session.timeline.most_bytes = count_of(word, 0)

        def findings(word: str) -> None:
            session.stop_at_findings = word == "on"

        self.settings = {
            "scheduler-locking": Setting(
                ("on", "off", "step"),
                "set scheduler-locking step (or on): only the warp in focus moves; off: all warps move",
                lambda: session.scheduler_locking,
                lock,
            ),
            "step-by": Setting(
                ("line", "instruction"),
                "set step-by line: step, next and reverse-step move by CUDA lines, and a bare number is a line of the "
                "current CUDA file; set step-by instruction: by instructions, and PTX lines",
                lambda: console.step_by,
                by,
            ),
            "history-bytes": Setting(
                (),
                "set history-bytes N: memory budget for the state snapshots that going back uses",
                lambda: str(session.timeline.most_bytes),
                most,
            ),
            "stop-at-findings": Setting(
                ("on", "off"),
                "set stop-at-findings on|off: stop before what breaks a rule, or note it and go on",
                lambda: "on" if session.stop_at_findings else "off",
                findings,
            ),
        }

    @command("change", "WHAT = VALUE", takes="setting")
    def do_set(self, text: str) -> None:
        """Change a register, a variable, memory or a convenience variable: set %r3[7] = %r2 + 1, set s[4] = 1.5, set $i =
        0. Or change a setting: set step-by line; show lists them."""
        words = text.split()
        name = " ".join(words[:-1])
        if words[:1] in (["var"], ["variable"]):
            text = text.partition(" ")[2]
        elif words and words[0] in self.settings:
            self._choose(self.settings[words[0]], words[1:])
            return
        elif name in FIXED:
            value, why = FIXED[name]
            if words[-1] != value:
                raise DebugError(f"{name} is always {value} here: {why}")
            return
        what, sign, value = re.sub(r"==|<=|>=|!=", lambda m: "\0" * len(m[0]), text).partition("=")
        if not sign and len(words) > 1 and re.fullmatch(r"[a-z][a-z -]+", name):
            raise DebugError(f"there is no setting {name!r}; {nearest(name, {**self.settings, **FIXED})}")
        if not sign or not what.strip() or not value.strip():
            raise DebugError("set WHAT = VALUE, for example set %r3 = 5, set s[2] = 1.5, set %r3[4] = %r2 + 1")
        self.session.set(text[: len(what)].strip(), text[len(what) + 1 :].strip())

    def _choose(self, setting: Setting, words: list[str]) -> None:
        if len(words) != 1 or (setting.words and words[0] not in setting.words):
            raise DebugError(setting.help)
        setting.change(words[0])

    @command("change", "[SETTING]", takes="setting")
    def do_show(self, text: str) -> None:
        """Show a setting, or all of them. show version, show values (the history of print), show convenience (variables
        such as $i) and show user (commands made with define) show more."""
        others: dict[str, Callable[[], None]] = {
            "convenience": self._convenience,
            "user": self._user,
            "values": self._values,
            "version": lambda: self.say(f"warpsim {VERSION}"),
        }
        name = "convenience" if text == "conv" else text
        known = {**{name: self._shown(name) for name in self.settings}, **{n: v for n, (v, _) in FIXED.items()}}
        if not name:
            for each, value in sorted(known.items()):
                self.say(f"{each}: {value}")
        elif name in others:
            others[name]()
        elif name in known:
            help = self.settings[name].help if name in self.settings else FIXED[name][1]
            self.say(f"{name}: {known[name]}  ({help})")
        else:
            raise DebugError(f"there is no setting {name[:40]!r}; {nearest(name, {**known, **others})}")

    def _shown(self, name: str) -> str:
        return self.settings[name].value()

    def _values(self) -> None:
        context = self.session.context
        kept = enumerate(self.session.kept.history, start=1)
        shown = [equation(f"${number}", show(context.result(value))) for number, value in kept]
        self.console.say_all(shown[-10:], "No value has been printed yet.")

    def _convenience(self) -> None:
        context = self.session.context
        kept = self.session.kept.named.items()
        shown = (equation(name, show(context.result(value))) for name, value in kept)
        self.console.say_all(shown, "No convenience variable has been set: set $i = 0 sets one.")

    def _user(self) -> None:
        for name, made in self.console.defined.items():
            self.say(f"define {name}")
            for line in made.lines:
                self.say(f"  {line}")
            self.say("end")
        if not self.console.defined:
            self.say("No command has been defined.")
