"""The table of commands: their names, what follows them, what completes them, and their help, beside the methods that
execute them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping

from warpsim.debug import DebugError
from warpsim.records import frozen

Run = Callable[[str], None]
GROUPS = {
    "move": "Move the launch",
    "back": "Go back in time",
    "stop": "Choose where the launch stops",
    "look": "Look at values, code and calls",
    "threads": "Choose and list threads",
    "change": "Change values and settings",
    "talk": "Work with the dialogue",
}
"""The groups of commands, as ``help`` lists them."""
LOOKING = ("look", "threads", "change")
"""The groups whose commands do not move the launch."""
ELSEWHERE = {
    "attach": "warpsim debug starts the launch itself: warpsim debug run FILE, or warpsim debug replay CASE",
    "checkpoint": "every position is kept: info program tells its step, and goto STEP goes there",
    "core-file": "warpsim debug replay CASE debugs a recorded launch",
    "file": "warpsim debug run FILE debugs another file",
    "layout": "an editor shows the source beside the values: see warpsim dap",
    "python": "warpsim.debug.Session has every command as a method of Python",
    "record": "nothing needs recording: reverse-step, reverse-continue and goto always work",
    "return": "finish runs until the function returns",
    "signal": "the launch receives no signals; catch names what it can stop for",
    "skip": "next runs over a call",
    "target": "warpsim debug starts the launch itself: warpsim debug run FILE, or warpsim debug replay CASE",
    "tui": "an editor shows the source beside the values: see warpsim dap",
}
"""gdb's commands that have another name here, or no use."""


@frozen
class Command:
    """A command, and the method that executes it. ``looks``: it does not move the launch, so that an editor's console
    takes it."""

    name: str
    run: Run
    group: str
    usage: str = ""
    aliases: tuple[str, ...] = ()
    takes: str = ""
    looks: bool = False
    help: str = ""

    def __str__(self) -> str:
        names = f"  ({', '.join(self.aliases)})" if self.aliases else ""
        return f"{self.name}{' ' * (self.usage[:1] not in ('', '/') and self.usage[:2] != '[/')}{self.usage}{names}"

    def explained(self) -> str:
        """Its usage and its help."""
        return f"{self}\n{self.help}"

    def line(self) -> str:
        """Its usage and the first sentence of its help."""
        return f"{self}: {self.help.partition('. ')[0].rstrip('.')}."


def command(
    group: str, usage: str = "", *, aliases: str = "", takes: str = "", looks: bool | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a method ``do_NAME`` or ``info_NAME`` as a command. Its docstring, whole sentences, is the help; ``takes``
    says what completes it."""

    def mark(method: Callable[..., None]) -> Callable[..., None]:
        looking = group in LOOKING if looks is None else looks
        setattr(method, "entry", (group, usage, tuple(aliases.split()), takes, looking))  # noqa: B010  functions declare no fields
        return method

    return mark


def commands(parts: Iterable[object], prefix: str) -> dict[str, Command]:
    """The commands among the methods of some objects that begin with a prefix, in alphabetical order."""
    found = {}
    for part in parts:
        for name, method in inspect.getmembers(part, inspect.ismethod):
            if name.startswith(prefix):
                group, usage, aliases, takes, looks = getattr(method, "entry")  # noqa: B009  as above
                word = name.removeprefix(prefix).replace("_", "-")
                help = " ".join(inspect.cleandoc(method.__doc__ or "").split())
                found[word] = Command(word, method, group, usage, aliases, takes, looks, help)
    return dict(sorted(found.items()))


def chosen(word: str, table: Mapping[str, Command], kind: str) -> Command:
    """The command that a word names: in full, by an alias, or by a unique beginning.

    Raises:
        DebugError: there is none, or there are several; the message names the nearest.
    """
    if word in table:
        return table[word]
    aliases = {alias: each for each in table.values() for alias in each.aliases}
    if word in aliases:
        return aliases[word]
    found = [name for name in table if name.startswith(word)]
    if found and all(name.startswith(found[0]) for name in found):  # step before stepi and step-line
        return table[found[0]]
    if found:
        raise DebugError(f"{word!r} is ambiguous: {', '.join(found)}")
    raise DebugError(f"there is no {kind} {word!r}; {nearest(word, {**table, **aliases})}")


def nearest(word: str, known: Mapping[str, object]) -> str:
    """What to say of a word that names nothing: what serves instead, or the name most like it."""
    if word in ELSEWHERE:
        return ELSEWHERE[word]
    close = difflib.get_close_matches(word, known, 1, 0.3)
    if not close:
        return "try: help"
    name = getattr(known[close[0]], "name", close[0])
    return f"the nearest is {close[0]}" + (f", which is {name}" if name != close[0] else "")
