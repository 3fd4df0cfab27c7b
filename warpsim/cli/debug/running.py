"""Commands that move the launch, and the report of where it stopped."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from warpsim.cli.debug.console import Console, count_of
from warpsim.cli.debug.formats import show
from warpsim.debug import Breakpoint, DebugError, Session, Stop
from warpsim.errors import describe, plural, source_text

if TYPE_CHECKING:
    from warpsim.debug import Focus


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

    def do_step(self, text: str, option: str) -> None:
        """step [N] (s): execute N instructions of the warp in focus; CUDA lines after "set step-by line"."""
        self.move(lambda: self.session.step(count_of(text), self.console.step_by))

    def do_next(self, text: str, option: str) -> None:
        """next [N] (n): like step, but run called functions to their return."""
        self.move(lambda: self.session.next(count_of(text), self.console.step_by))

    def do_stepi(self, text: str, option: str) -> None:
        """stepi [N] (si): execute N instructions of the warp in focus."""
        self.move(lambda: self.session.step(count_of(text)))

    def do_nexti(self, text: str, option: str) -> None:
        """nexti [N] (ni): like stepi, but run called functions to their return."""
        self.move(lambda: self.session.next(count_of(text)))

    def do_step_line(self, text: str, option: str) -> None:
        """step-line [N] (sl): run until the warp in focus reaches another CUDA line, N times."""
        self.move(lambda: self.session.step(count_of(text), "line"))

    def do_next_line(self, text: str, option: str) -> None:
        """next-line [N] (nl): like step-line, but run called functions to their return."""
        self.move(lambda: self.session.next(count_of(text), "line"))

    def do_finish(self, text: str, option: str) -> None:
        """finish (fin): run until the current function returns."""
        self.move(self.session.finish)

    def do_until(self, text: str, option: str) -> None:
        """until PLACE (u): run until the warp in focus reaches PLACE, or its function returns."""
        if not text:
            raise DebugError("until PLACE: a PTX line, file.cu:N, a label, a function, op:PATTERN")
        self.move(lambda: self.session.until(text))

    def do_continue(self, text: str, option: str) -> None:
        """continue [N] (c): run to the next stop; with N, skip the current breakpoint's next N - 1 hits."""
        n, stop = count_of(text), self.session.stop
        point = self.session.breakpoints.get(stop.number) if stop.number is not None else None
        if n > 1 and isinstance(point, Breakpoint):
            point.ignore = n - 1
        self.move(self.session.cont)

    def do_run(self, text: str, option: str) -> None:
        """run (r): restart the launch, and run to the first stop."""
        self.move(self.session.run)

    def do_start(self, text: str, option: str) -> None:
        """start: restart the launch, and stop before its first instruction."""
        self.move(lambda: self.session.goto(0))

    def do_goto(self, text: str, option: str) -> None:
        """goto STEP: go to the position after STEP steps, forward or backward."""
        if not text:
            raise DebugError("goto STEP")
        self.move(lambda: self.session.goto(count_of(text, 0)))

    def do_reverse_step(self, text: str, option: str) -> None:
        """reverse-step [N] (rs, back): undo the last N instructions of the warp in focus; CUDA lines after "set step-by
        line".
        """
        self.move(lambda: self.session.back(count_of(text), self.console.step_by), back=True)

    def do_reverse_stepi(self, text: str, option: str) -> None:
        """reverse-stepi [N] (rsi): undo the last N instructions of the warp in focus."""
        self.move(lambda: self.session.back(count_of(text)), back=True)

    def do_reverse_step_line(self, text: str, option: str) -> None:
        """reverse-step-line [N] (rsl): go back to the start of the CUDA line that the warp in focus executed last, N
        times.
        """
        self.move(lambda: self.session.back(count_of(text), "line"), back=True)

    def do_reverse_continue(self, text: str, option: str) -> None:
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
            self.say(f"  {source_text(stop.source, self.session.kernel.module.program.file)}")
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
        elif stop.old is not None:
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
