"""Commands that move the launch, the report of where it stopped, and commands for what stops it."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from warpsim.cli.debug.console import Console, count_of, number_of, show
from warpsim.debug import Breakpoint, Catchpoint, DebugError, Focus, Session, Stop
from warpsim.debug.breakpoints import EVENTS, Point, check_condition
from warpsim.errors import describe, plural, source_text


class Running:
    """The step, next, finish, until, continue, run and goto commands, and their reverse forms."""

    def __init__(self, console: Console, show_displays: Callable[[], None]) -> None:
        self.console, self.session, self.say = console, console.session, console.say
        self.show_displays = show_displays
        self.shown_source: tuple[str, int] | None = None

    def greet(self) -> None:
        """Print where the launch starts."""
        state = self.session.timeline.state
        kernel, grid, block = self.session.kernel.name, state.grid, state.block
        self.say(f"{kernel}: grid {grid}, block {block}. Type help for the commands.")
        self.report(self.session.stop, None)

    # ---- commands ----------------------------------------------------------------------------

    def do_step(self, text: str) -> None:
        """step [N] (s): execute N instructions of the warp in focus; CUDA lines after "set step-by line"."""
        self.move(lambda: self.session.step(count_of(text), self.console.step_by))

    def do_next(self, text: str) -> None:
        """next [N] (n): like step, but run called functions to their return."""
        self.move(lambda: self.session.next(count_of(text), self.console.step_by))

    def do_stepi(self, text: str) -> None:
        """stepi [N] (si): execute N instructions of the warp in focus."""
        self.move(lambda: self.session.step(count_of(text)))

    def do_nexti(self, text: str) -> None:
        """nexti [N] (ni): like stepi, but run called functions to their return."""
        self.move(lambda: self.session.next(count_of(text)))

    def do_step_line(self, text: str) -> None:
        """step-line [N] (sl): run until the warp in focus reaches another CUDA line, N times."""
        self.move(lambda: self.session.step(count_of(text), "line"))

    def do_next_line(self, text: str) -> None:
        """next-line [N] (nl): like step-line, but run called functions to their return."""
        self.move(lambda: self.session.next(count_of(text), "line"))

    def do_finish(self, text: str) -> None:
        """finish (fin): run until the current function returns."""
        self.move(self.session.finish)

    def do_until(self, text: str) -> None:
        """until PLACE (u): run until the warp in focus reaches PLACE, or its function returns."""
        if not text:
            raise DebugError("until PLACE: a PTX line, file.cu:N, a label, a function, op:PATTERN")
        self.move(lambda: self.session.until(text))

    def do_continue(self, text: str) -> None:
        """continue [N] (c): run to the next stop; with N, skip the current breakpoint's next N - 1 hits."""
        n, stop = count_of(text), self.session.stop
        point = self.session.breakpoints.get(stop.number) if stop.number is not None else None
        if n > 1 and isinstance(point, Breakpoint):
            point.ignore = n - 1
        self.move(self.session.cont)

    def do_run(self, text: str) -> None:
        """run (r): restart the launch, and run to the first stop."""
        self.move(self.session.run)

    def do_start(self, text: str) -> None:
        """start: restart the launch, and stop before its first instruction."""
        self.move(lambda: self.session.goto(0))

    def do_goto(self, text: str) -> None:
        """goto STEP: go to the position after STEP steps, forward or backward."""
        if not text:
            raise DebugError("goto STEP")
        self.move(lambda: self.session.goto(count_of(text, 0)))

    def do_reverse_step(self, text: str) -> None:
        """reverse-step [N] (rs, back): undo the last N instructions of the warp in focus; CUDA lines after "set step-by
        line".
        """
        self.move(lambda: self.session.back(count_of(text), self.console.step_by), back=True)

    def do_reverse_stepi(self, text: str) -> None:
        """reverse-stepi [N] (rsi): undo the last N instructions of the warp in focus."""
        self.move(lambda: self.session.back(count_of(text)), back=True)

    def do_reverse_step_line(self, text: str) -> None:
        """reverse-step-line [N] (rsl): go back to the start of the CUDA line that the warp in focus executed last, N
        times.
        """
        self.move(lambda: self.session.back(count_of(text), "line"), back=True)

    def do_reverse_continue(self, text: str) -> None:
        """reverse-continue (rc): go back to the last breakpoint or watchpoint hit."""
        self.move(self.session.reverse_cont, back=True)

    # ---- stops -------------------------------------------------------------------------------

    def move(self, action: Callable[[], Stop], *, back: bool = False) -> None:
        """Move the launch, and report where it stopped."""
        before = self.session.thread
        self.console.previous = {name: values.copy() for name, values in self.session.registers.items()}
        with interruptible(self.session):
            stop = action()
        if back and stop.step == 0 and stop.reason == "step":
            self.say("This is the start of the launch; there is nothing further back.")
        self.report(stop, before)

    def report(self, stop: Stop, before: Focus | None) -> None:
        """Report why and where the launch stopped."""
        self.console.listed = None
        if stop.reason == "end":
            self._report_end(stop)
            return
        self._report_reason(stop)
        calls = self.session.where()
        if stop.reason != "step" or before is None or stop.focus != before:
            self.say(self.console.whereabouts())
        if calls and stop.source is not None and stop.source != self.shown_source:
            self.say(f"  {source_text(stop.source, self.session.program.file)}")
        self.shown_source = stop.source
        if calls:
            self.say(self.console.paint(f"{calls[0].line:6}", "36") + f"  {calls[0].text.expandtabs(1)}")
        elif stop.reason != "finding":
            self.say(f"{self.session.thread} has exited")
        self.show_displays()
        if stop.number is not None:
            self.console.queue = [*self.console.scripts.get(stop.number or 0, []), *self.console.queue]

    def _report_reason(self, stop: Stop) -> None:
        if stop.reason == "finding" and stop.finding is not None:
            self.say(self.console.paint(f"{stop.finding.severity}: ", "31;1") + describe(stop.finding))
            self.console.errors += [stop.finding] if stop.finding.severity == "error" else []
        elif stop.reason == "breakpoint":
            self.say(self.console.paint(f"Breakpoint {stop.number}", "1"))
        elif stop.reason == "watchpoint":
            self._report_change(stop)
        elif stop.reason == "catchpoint":
            self.say(self.console.paint(f"Catchpoint {stop.number}", "1") + f": {stop.event}")
        elif stop.reason == "interrupted":
            self.say("Interrupted.")

    def _report_change(self, stop: Stop) -> None:
        point = self.session.breakpoints.get(stop.number) if stop.number is not None else None
        what = getattr(point, "expression", "")
        self.say(self.console.paint(f"Watchpoint {stop.number}: {what}", "1"))
        if stop.event:
            self.say(f"  {stop.event}")
        elif stop.old is not None and stop.new is not None:
            self.say(f"  old {show(stop.old)}")
            self.say(f"  new {show(stop.new)}")

    def _report_end(self, stop: Stop) -> None:
        error, result = self.session.error, self.session.result
        if error is not None:
            self.say(f"The launch has ended with an error, after {plural(stop.step, 'step')}:")
            self.say(str(error))
        elif result is not None:
            found = plural(len(result.findings), "finding") if result.findings else "no findings"
            self.say(
                f"The launch has ended: {plural(stop.step, 'step')}, {plural(result.instructions, 'warp-instruction')}, {found}."
            )


@contextlib.contextmanager
def interruptible(session: Session) -> Iterator[None]:
    """Make Ctrl-C stop the launch, not the program, while a command runs."""

    def stop(number: int, frame: FrameType | None) -> None:
        session.interrupt()

    try:
        old = signal.signal(signal.SIGINT, stop)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


# ---- breakpoints --------------------------------------------------------------------------------

IF = re.compile(r"(.*?)(?:\bif\b\s*(.*))?", re.DOTALL)


class Breaking:
    """Commands on stops: break, watch, delete, condition, commands and so on."""

    def __init__(self, console: Console) -> None:
        self.console, self.session, self.say = console, console.session, console.say

    def do_break(self, text: str) -> None:
        """break [PLACE] [if CONDITION] (b): stop at a PTX line, file.cu:N, a label, a function, or op:PATTERN."""
        self._break(text, temporary=False)

    def do_tbreak(self, text: str) -> None:
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

    def do_watch(self, text: str) -> None:
        """watch WHAT [lane|warp|any]: stop when a register (of the warp in focus), a variable, memory, or matrix
        d[0:8,0:8] changes.
        """
        self._watch(text, read=False, write=True)

    def do_rwatch(self, text: str) -> None:
        """rwatch WHAT: stop when a variable or memory is read."""
        self._watch(text, read=True, write=False)

    def do_awatch(self, text: str) -> None:
        """awatch WHAT: stop when a variable or memory is read or changed."""
        self._watch(text, read=True, write=True)

    def _watch(self, text: str, *, read: bool, write: bool) -> None:
        words = text.rsplit(None, 1)
        scope = words[1] if len(words) == 2 and words[1] in ("lane", "warp", "any") else "warp"
        what = words[0] if len(words) == 2 and words[1] == scope else text
        point = self.session.watch(what, read=read, write=write, scope=scope)
        self.say(f"Watchpoint {point.number}: {what}")

    def do_catch(self, text: str) -> None:
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

    def do_delete(self, text: str) -> None:
        """delete [N...] (d): delete breakpoints, watchpoints and catchpoints; without a number, all of them."""
        if not text:
            self.session.delete()
        for word in text.split():
            self.session.delete(number_of(word, "a breakpoint"))

    def do_enable(self, text: str) -> None:
        """enable [N...]: enable breakpoints."""
        self._switch(text, on=True)

    def do_disable(self, text: str) -> None:
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

    def do_ignore(self, text: str) -> None:
        """ignore N COUNT: skip the next COUNT hits of a breakpoint."""
        words = text.split()
        point = self._point(words[0] if words else "")
        if not isinstance(point, Breakpoint):
            raise DebugError("only breakpoints can be ignored; disable it instead")
        point.ignore = count_of(" ".join(words[1:]), 0)
        self.say(f"Will ignore the next {plural(point.ignore, 'hit')} of breakpoint {point.number}.")

    def do_condition(self, text: str) -> None:
        """condition N [EXPRESSION]: stop only where EXPRESSION is true in some lane; without EXPRESSION, always."""
        number, _, condition = text.partition(" ")
        point = self._point(number)
        if not isinstance(point, Breakpoint):
            raise DebugError("only breakpoints have conditions")
        if condition.strip():
            check_condition(condition, self.session.program, point.locations)
        point.condition = condition.strip() or None

    def do_commands(self, text: str) -> None:
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
