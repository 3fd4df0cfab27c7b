"""Commands for what stops the launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from warpsim.cli.debug.console import Commands, count_of, number_of
from warpsim.cli.debug.table import command
from warpsim.debug import Breakpoint, Catchpoint, DebugError, Watchpoint
from warpsim.debug.breakpoints import EVENTS, Point, check_condition, resolve
from warpsim.errors import plural
from warpsim.host.files import Target

IF = re.compile(r"(.*?)(?:\bif\b\s*(.*))?", re.DOTALL)


class Stopping(Commands):
    """Commands on stops: break, watch, delete, condition, commands and so on."""

    @command("stop", "[PLACE] [if CONDITION]", aliases="b br hbreak", takes="place")
    def do_break(self, text: str) -> None:
        """Stop every warp that reaches PLACE, where CONDITION is true in some lane. A place is a PTX line, file.cu:N, a
        label, a function, op:PATTERN for opcodes, +N or -N for lines from here, or *EXPRESSION. After "set step-by
        line", a bare number is a line of the current CUDA file. Without PLACE it is the current line."""
        self._break(text, temporary=False)

    @command("stop", "[PLACE] [if CONDITION]", aliases="tb thbreak", takes="place")
    def do_tbreak(self, text: str) -> None:
        """Stop at PLACE once, as break does."""
        self._break(text, temporary=True)

    def _break(self, text: str, *, temporary: bool) -> None:
        place, condition = _conditional(text)
        place = self.console.place(place)
        point = self.session.break_at(place, condition, temporary=temporary)
        kind = "Temporary breakpoint" if temporary else "Breakpoint"
        self.say(f"{kind} {point.number} at {place}: {_lines(point)}{' ...' if len(point.lines) > 8 else ''}")

    @command("stop", "REGEX")
    def do_rbreak(self, text: str) -> None:
        """Stop at every function whose name contains REGEX."""
        try:
            found = [name for name in self.session.program.functions if re.search(text, name)]
        except re.error as problem:
            raise DebugError(f"{text[:40]!r} is not a regular expression: {problem}") from None
        if not found:
            raise DebugError(f"no function has {text!r} in its name")
        for name in found:
            self._break(name, temporary=False)

    @command("stop", "WHAT [lane|warp|any] [if CONDITION]", takes="expression")
    def do_watch(self, text: str) -> None:
        """Stop after the step that changes a register of the warp in focus, a variable, memory, or a tile such as matrix
        d[0:8,0:8]. The words lane and any say whose register is meant: that of the lane in focus, or of any thread. With
        CONDITION, stop only where it is true in some lane of the warp that made the change."""
        self._watch(text, read=False, write=True)

    @command("stop", "WHAT [if CONDITION]", takes="expression")
    def do_rwatch(self, text: str) -> None:
        """Stop when a variable or memory is read."""
        self._watch(text, read=True, write=False)

    @command("stop", "WHAT [if CONDITION]", takes="expression")
    def do_awatch(self, text: str) -> None:
        """Stop when a variable or memory is read or changed."""
        self._watch(text, read=True, write=True)

    def _watch(self, text: str, *, read: bool, write: bool) -> None:
        text, condition = _conditional(text)
        words = text.removeprefix("-l ").removeprefix("-location ").rsplit(None, 1)
        scope = words[1] if len(words) == 2 and words[1] in ("lane", "warp", "any") else "warp"
        what = words[0] if len(words) == 2 and words[1] == scope else " ".join(words)
        point = self.session.watch(what, read=read, write=write, scope=scope, condition=condition)
        self.say(f"Watchpoint {point.number}: {what}")

    @command("stop", "WHAT", takes="event")
    def do_catch(self, text: str) -> None:
        """Stop where the rule of that name is broken, or at an event. The events are arrival, barrier, phase, async and
        visible; catch without a word explains them."""
        if not text:
            raise DebugError(
                "catch WHAT: the name of a rule, or "
                + "; ".join(f"{name}: {meaning}" for name, meaning in EVENTS.items())
            )
        point = self.session.catch(text)
        self.say(f"Catchpoint {point.number}: {text}")

    @command("stop", "[N...]", aliases="d")
    def do_delete(self, text: str) -> None:
        """Delete breakpoints, watchpoints and catchpoints by number. Without a number, delete all of them; undisplay
        deletes displays."""
        text = text.removeprefix("breakpoints").lstrip()
        if not text:
            self.session.delete()
        for number in _numbers(text):
            self.session.delete(number)

    @command("stop", "[PLACE]", takes="place")
    def do_clear(self, text: str) -> None:
        """Delete the breakpoints at PLACE, or at the current line."""
        place = self.console.place(text)
        there = resolve(self.session.program, place, self.session.function)
        points = self.session.breakpoints.items()
        found = [number for number, p in points if isinstance(p, Breakpoint) and p.locations & there]
        if not found:
            raise DebugError(f"no breakpoint at {place}")
        for number in found:
            self.session.delete(number)
        self.say(f"Deleted {'breakpoint' if len(found) == 1 else 'breakpoints'} {' '.join(map(str, found))}")

    @command("stop", "[N...]", aliases="en")
    def do_enable(self, text: str) -> None:
        """Enable breakpoints, watchpoints and catchpoints. Without a number, enable all of them."""
        self._switch(text, on=True)

    @command("stop", "[N...]", aliases="dis")
    def do_disable(self, text: str) -> None:
        """Disable breakpoints, watchpoints and catchpoints without deleting them. Without a number, disable all of
        them."""
        self._switch(text, on=False)

    def _switch(self, text: str, *, on: bool) -> None:
        text = text.removeprefix("breakpoints").lstrip()
        for point in map(self._point, _numbers(text)) if text else list(self.session.breakpoints.values()):
            point.enabled = on

    def _point(self, number: int) -> Point:
        if number not in self.session.breakpoints:
            raise DebugError(f"no breakpoint {number}")
        return self.session.breakpoints[number]

    @command("stop", "N COUNT")
    def do_ignore(self, text: str) -> None:
        """Pass the next COUNT hits of breakpoint or watchpoint N."""
        word, _, count = text.partition(" ")
        point = self._point(number_of(word, "a breakpoint"))
        if isinstance(point, Catchpoint):
            raise DebugError("a catchpoint passes no hits; disable it instead")
        point.ignore = count_of(count, 0)
        kind = "breakpoint" if isinstance(point, Breakpoint) else "watchpoint"
        self.say(f"Will ignore the next {plural(point.ignore, 'hit')} of {kind} {point.number}.")

    @command("stop", "N [EXPRESSION]", takes="expression")
    def do_condition(self, text: str) -> None:
        """Stop at breakpoint or watchpoint N only where EXPRESSION is true in some lane. Without EXPRESSION, stop
        always."""
        word, _, condition = text.partition(" ")
        point = self._point(number_of(word, "a breakpoint"))
        if isinstance(point, Catchpoint):
            raise DebugError("a catchpoint has no condition")
        if condition.strip():
            places = point.locations if isinstance(point, Breakpoint) else None
            check_condition(condition, self.session.program, places)
        point.condition = condition.strip() or None

    @command("stop", "[N...]")
    def do_commands(self, text: str) -> None:
        """Execute the commands that follow, one per line up to "end", whenever breakpoint N stops; without N, the one set
        last. If the first is "silent", the stop itself is not reported."""
        numbers = list(_numbers(text)) or [max(self.session.breakpoints, default=0)]
        for number in numbers:
            self._point(number)
        lines = self.console.block()
        for number in numbers:
            self.console.scripts[number] = lines

    @command("stop", "breakpoints FILE", takes="file")
    def do_save(self, text: str) -> None:
        """Write the breakpoints, watchpoints and catchpoints with their conditions and commands to FILE, as commands that
        source reads."""
        kind, _, file = text.partition(" ")
        if kind != "breakpoints" or not file.strip():
            raise DebugError("save breakpoints FILE")
        lines: list[str] = []
        for number, point in self.session.breakpoints.items():
            lines.append(_described(point))
            script = self.console.scripts.get(number)
            lines += ["commands", *(f"  {line}" for line in script), "end"] if script else []
        Target(file.strip()).write_text("".join(f"{line}\n" for line in lines))

    @command("look")
    def info_breakpoints(self, text: str) -> None:
        """List breakpoints, watchpoints and catchpoints with their conditions, hits and commands."""
        self._list(self.session.breakpoints, "No breakpoints, watchpoints or catchpoints.")

    @command("look")
    def info_watchpoints(self, text: str) -> None:
        """List watchpoints with their conditions, hits and commands."""
        watched = {number: p for number, p in self.session.breakpoints.items() if isinstance(p, Watchpoint)}
        self._list(watched, "No watchpoints.")

    def _list(self, points: Mapping[int, Point], none: str) -> None:
        if not points:
            self.say(none)
        for number, point in points.items():
            what = _described(point).partition(" if ")[0]
            if isinstance(point, Breakpoint):
                what = f"break {point.place}, {_lines(point)}"
            more = [f"hit {plural(point.hits, 'time')}"] if point.hits else []
            if not isinstance(point, Catchpoint):
                more += [f"if {point.condition}"] if point.condition else []
                more += ["once"] if point.temporary else []
                more += [f"passed {plural(point.ignore, 'more time')}"] if point.ignore else []
            more += [] if point.enabled else ["disabled"]
            self.say(f"{number:3}  {what}" + "".join(f"; {word}" for word in more))
            for line in self.console.scripts.get(number, []):
                self.say(f"       {line}")


def _conditional(text: str) -> tuple[str, str | None]:
    found = IF.fullmatch(text)
    assert found is not None
    what, condition = found[1].strip(), found[2]
    if condition is not None and not condition.strip():
        raise DebugError("expected a condition after if")
    return what, condition


def _numbers(text: str) -> Iterator[int]:
    """Parse numbers of breakpoints: ``1 3-5``."""
    for word in text.split():
        first, dash, last = word.partition("-")
        low = number_of(first, "a breakpoint")
        yield from range(low, min(number_of(last, "a breakpoint") if dash else low, low + 999) + 1)


def _described(point: Point) -> str:
    """The command that sets a point."""
    if isinstance(point, Catchpoint):
        return f"catch {point.what}"
    condition = f" if {point.condition}" if point.condition else ""
    if isinstance(point, Breakpoint):
        return f"{'t' * point.temporary}break {point.place}{condition}"
    kind = "a" if point.read and point.write else "r" if point.read else ""
    return f"{kind}watch {point.expression}{'' if point.scope == 'warp' else f' {point.scope}'}{condition}"


def _lines(point: Breakpoint) -> str:
    return ("line " if len(point.lines) == 1 else "lines ") + ", ".join(map(str, point.lines[:8]))
