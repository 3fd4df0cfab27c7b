"""Commands for breakpoints, watchpoints and catchpoints."""

from __future__ import annotations

import re

from warpsim.cli.debug.console import Console, count_of, number_of
from warpsim.debug import Breakpoint, Catchpoint, DebugError
from warpsim.debug.breakpoints import EVENTS, Point, check_condition
from warpsim.errors import plural

IF = re.compile(r"(.*?)(?:\bif\b\s*(.*))?", re.DOTALL)


class Breaking:
    """Commands on stops: break, watch, delete, condition, commands and so on."""

    def __init__(self, console: Console) -> None:
        self.console, self.session, self.say = console, console.session, console.say

    def do_break(self, text: str, option: str) -> None:
        """break [PLACE] [if CONDITION] (b): stop at a PTX line, file.cu:N, a label, a function, or op:PATTERN."""
        self._break(text, temporary=False)

    def do_tbreak(self, text: str, option: str) -> None:
        """tbreak PLACE [if CONDITION] (tb): stop there once."""
        self._break(text, temporary=True)

    def _break(self, text: str, *, temporary: bool) -> None:
        found = IF.fullmatch(text)
        assert found is not None
        place, condition = found[1].strip(), found[2]
        if condition is not None and not condition.strip():
            raise DebugError("expected a condition after if")
        if not place:
            line = self.session.stop.line
            if line is None:
                raise DebugError("break PLACE: a PTX line, file.cu:N, a label, a function, op:PATTERN")
            place = str(line)
        point = self.session.break_at(place, condition, temporary=temporary)
        kind = "Temporary breakpoint" if temporary else "Breakpoint"
        self.say(f"{kind} {point.number} at {place}: {_lines(point)}{' ...' if len(point.lines) > 8 else ''}")

    def do_watch(self, text: str, option: str) -> None:
        """watch WHAT [lane|warp|any]: stop when a register (of the warp in focus), a variable, memory, or matrix
        d[0:8,0:8] changes.
        """
        self._watch(text, read=False, write=True)

    def do_rwatch(self, text: str, option: str) -> None:
        """rwatch WHAT: stop when a variable or memory is read."""
        self._watch(text, read=True, write=False)

    def do_awatch(self, text: str, option: str) -> None:
        """awatch WHAT: stop when a variable or memory is read or changed."""
        self._watch(text, read=True, write=True)

    def _watch(self, text: str, *, read: bool, write: bool) -> None:
        words = text.rsplit(None, 1)
        scope = words[1] if len(words) == 2 and words[1] in ("lane", "warp", "any") else "warp"
        what = words[0] if len(words) == 2 and words[1] == scope else text
        point = self.session.watch(what, read=read, write=write, scope=scope)
        self.say(f"Watchpoint {point.number}: {what}")

    def do_catch(self, text: str, option: str) -> None:
        """catch WHAT: stop where a rule is broken (by its name), or at an event: arrival, barrier, phase, async,
        visible.
        """
        if not text:
            raise DebugError(
                "catch WHAT: the name of a rule, or "
                + "; ".join(f"{name}: {meaning}" for name, meaning in EVENTS.items())
            )
        point = self.session.catch(text)
        self.say(f"Catchpoint {point.number}: {text}")

    def do_delete(self, text: str, option: str) -> None:
        """delete [N...] (d): delete breakpoints, watchpoints and catchpoints; without a number, all of them."""
        if not text:
            self.session.delete()
        for word in text.split():
            self.session.delete(number_of(word, "a breakpoint"))

    def do_enable(self, text: str, option: str) -> None:
        """enable [N...]: enable breakpoints."""
        self._switch(text, on=True)

    def do_disable(self, text: str, option: str) -> None:
        """disable [N...]: disable breakpoints without deleting them."""
        self._switch(text, on=False)

    def _switch(self, text: str, *, on: bool) -> None:
        for point in map(self._point, text.split()) if text else list(self.session.breakpoints.values()):
            point.enabled = on

    def _point(self, text: str) -> Point:
        number = number_of(text, "a breakpoint")
        if number not in self.session.breakpoints:
            raise DebugError(f"no breakpoint {number}")
        return self.session.breakpoints[number]

    def do_ignore(self, text: str, option: str) -> None:
        """ignore N COUNT: skip the next COUNT hits of a breakpoint."""
        words = text.split()
        point = self._point(words[0] if words else "")
        if not isinstance(point, Breakpoint):
            raise DebugError("only breakpoints can be ignored; disable it instead")
        point.ignore = count_of(" ".join(words[1:]), 0)
        self.say(f"Will ignore the next {plural(point.ignore, 'hit')} of breakpoint {point.number}.")

    def do_condition(self, text: str, option: str) -> None:
        """condition N [EXPRESSION]: stop only where EXPRESSION is true in some lane; without EXPRESSION, always."""
        number, _, condition = text.partition(" ")
        point = self._point(number)
        if not isinstance(point, Breakpoint):
            raise DebugError("only breakpoints have conditions")
        if condition.strip():
            check_condition(condition, self.session.timeline.state.plan.program, point.locations)
        point.condition = condition.strip() or None

    def do_commands(self, text: str, option: str) -> None:
        """commands [N]: commands to run whenever a breakpoint stops, one per line, up to "end"."""
        number = number_of(text, "a breakpoint") if text else max(self.session.breakpoints, default=0)
        if number not in self.session.breakpoints:
            raise DebugError(f"no breakpoint {number}")
        lines = []
        while (line := self.console.further()) is not None and line.strip() != "end":
            lines.append(line)
        self.console.scripts[number] = [line for line in lines if line.strip() != "silent"]

    def info_breakpoints(self, text: str) -> None:
        """List breakpoints, watchpoints and catchpoints."""
        points = self.session.breakpoints
        if not points:
            self.say("No breakpoints, watchpoints or catchpoints.")
        for number, point in points.items():
            if isinstance(point, Catchpoint):
                what = f"catch {point.what}"
            elif isinstance(point, Breakpoint):
                what = f"break {point.place}, {_lines(point)}"
            else:
                what = f"{'a' if point.read and point.write else 'r' if point.read else ''}watch {point.expression}"
            more = [f"hit {plural(point.hits, 'time')}"] if point.hits else []
            if isinstance(point, Breakpoint):
                more += [f"if {point.condition}"] if point.condition else []
                more += ["once"] if point.temporary else []
                more += [f"passed {plural(point.ignore, 'more time')}"] if point.ignore else []
            more += [] if point.enabled else ["disabled"]
            self.say(f"{number:3}  {what}" + "".join(f"; {word}" for word in more))
            for line in self.console.scripts.get(number, []):
                self.say(f"       {line}")

    info_watch = info_breakpoints


def _lines(point: Breakpoint) -> str:
    """Format the first lines of a breakpoint."""
    return ("line " if len(point.lines) == 1 else "lines ") + ", ".join(map(str, point.lines[:8]))
