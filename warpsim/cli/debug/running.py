"""Commands that move the launch, and the report of where it stopped."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from warpsim.cli.debug.console import Commands, Console, Quiet, count_of, show
from warpsim.cli.debug.table import command
from warpsim.debug import Breakpoint, Catchpoint, DebugError, Focus, Session, Stop
from warpsim.errors import describe, plural, source_name, source_text
from warpsim.program.mangling import qualified_name


class Running(Commands):
    """The step, next, finish, until, continue, run and goto commands, and their reverse forms."""

    def __init__(self, console: Console, show_displays: Callable[[], None]) -> None:
        super().__init__(console)
        self.show_displays = show_displays
        self.shown_source: tuple[str, int] | None = None

    def greet(self) -> None:
        """Print where the launch starts."""
        state = self.session.timeline.state
        kernel, grid, block = self.session.kernel.name, state.grid, state.block
        self.say(f"{qualified_name(kernel)}: grid {grid}, block {block}. Type help for the commands.")
        self.report(self.session.stop, None)

    # ---- commands ----------------------------------------------------------------------------

    @command("move", "[N]", aliases="s")
    def do_step(self, text: str) -> None:
        """Execute N instructions of the warp in focus (1). After "set step-by line", execute N CUDA lines."""
        self.move(lambda: self.session.step(count_of(text), self.console.step_by))

    @command("move", "[N]", aliases="n")
    def do_next(self, text: str) -> None:
        """Execute N instructions, or CUDA lines, like step, but run called functions to their return."""
        self.move(lambda: self.session.next(count_of(text), self.console.step_by))

    @command("move", "[N]", aliases="si")
    def do_stepi(self, text: str) -> None:
        """Execute N instructions of the warp in focus (1)."""
        self.move(lambda: self.session.step(count_of(text)))

    @command("move", "[N]", aliases="ni")
    def do_nexti(self, text: str) -> None:
        """Execute N instructions like stepi, but run called functions to their return."""
        self.move(lambda: self.session.next(count_of(text)))

    @command("move", "[N]", aliases="sl")
    def do_step_line(self, text: str) -> None:
        """Run until the warp in focus reaches another CUDA line, N times (1)."""
        self.move(lambda: self.session.step(count_of(text), "line"))

    @command("move", "[N]", aliases="nl")
    def do_next_line(self, text: str) -> None:
        """Run to another CUDA line like step-line, but run called functions to their return."""
        self.move(lambda: self.session.next(count_of(text), "line"))

    @command("move", aliases="fin")
    def do_finish(self, text: str) -> None:
        """Run until the current function returns to its caller."""
        self.move(self.session.finish)

    @command("move", "[PLACE]", aliases="u advance", takes="place")
    def do_until(self, text: str) -> None:
        """Run until the warp in focus reaches PLACE, or its function returns. Without PLACE, run to a line behind
        the current one, and so out of a loop."""
        place = self.console.place(text) if text else None
        self.move(lambda: self.session.until(place, self.console.step_by))

    @command("move", "[N]", aliases="c cont fg")
    def do_continue(self, text: str) -> None:
        """Run to the next stop. With N, pass the next N - 1 hits of the breakpoint or watchpoint that has stopped."""
        n, stop = count_of(text), self.session.stop
        point = self.session.breakpoints.get(stop.number) if stop.number is not None else None
        if n > 1 and point is not None and not isinstance(point, Catchpoint):
            point.ignore = n - 1
        self.move(self.session.cont)

    @command("move", "PLACE", takes="place")
    def do_jump(self, text: str) -> None:
        """Go on at PLACE in the current function, executing nothing in between; stop there if it has a breakpoint. The
        threads that stand with the one in focus jump; going back undoes it."""
        place = self.console.place(text)

        def jump() -> Stop:
            stop = self.session.jump(place)
            points = self.session.breakpoints.values()
            here = any(isinstance(p, Breakpoint) and p.enabled and stop.line in p.lines for p in points)
            return stop if here else self.session.cont()

        self.move(jump)

    @command("move", aliases="r")
    def do_run(self, text: str) -> None:
        """Restart the launch, and run to the first stop. Breakpoints and displays are kept."""
        self.move(self.session.run)

    @command("move", aliases="starti")
    def do_start(self, text: str) -> None:
        """Restart the launch, and stop before its first instruction."""
        self.move(lambda: self.session.goto(0))

    @command("back", "STEP")
    def do_goto(self, text: str) -> None:
        """Go to the position after STEP steps, forward or backward. info program tells the current step."""
        if not text:
            raise DebugError("goto STEP")
        self.move(lambda: self.session.goto(count_of(text, 0)))

    @command("back", "[N]", aliases="rs back rn reverse-next")
    def do_reverse_step(self, text: str) -> None:
        """Undo the last N instructions of the warp in focus (1). After "set step-by line", go back N CUDA lines."""
        self.move(lambda: self.session.back(count_of(text), self.console.step_by), back=True)

    @command("back", "[N]", aliases="rsi reverse-nexti")
    def do_reverse_stepi(self, text: str) -> None:
        """Undo the last N instructions of the warp in focus (1)."""
        self.move(lambda: self.session.back(count_of(text)), back=True)

    @command("back", "[N]", aliases="rsl")
    def do_reverse_step_line(self, text: str) -> None:
        """Go back to the start of the CUDA line that the warp in focus executed last, N times (1)."""
        self.move(lambda: self.session.back(count_of(text), "line"), back=True)

    @command("back", aliases="rc")
    def do_reverse_continue(self, text: str) -> None:
        """Go back to the last stop: a breakpoint, a watchpoint, an event or a finding."""
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
        script = self.console.scripts.get(stop.number or 0, [])
        self.console.queue[:0] = map(Quiet, script)
        if script[:1] == ["silent"] and stop.reason != "finding":
            self.console.queue.pop(0)
            return
        self._report_reason(stop)
        calls = self.session.where()
        if stop.reason != "step" or before is None or stop.focus != before:
            self.say(self.console.whereabouts())
        if calls and stop.source is not None and stop.source != self.shown_source:
            self.say(f"  {source_text(stop.source, self.session.program.file)}")
            if calls[0].inlined:
                around = calls[1 : 1 + next(n for n, call in enumerate(calls) if not call.inlined)]
                places = (f"{qualified_name(c.function)} at {source_name(c.source)}" for c in around if c.source)
                self.say(f"    {calls[0].function}, inlined in {', in '.join(places)}")
        self.shown_source = stop.source
        if calls:
            self.say(self.console.paint(f"{calls[0].line:6}", "36") + f"  {calls[0].text.expandtabs(1)}")
        elif stop.reason != "finding":
            self.say(f"{self.session.thread} has exited")
        self.show_displays()

    def _report_reason(self, stop: Stop) -> None:
        if stop.reason == "finding" and stop.finding is not None:
            self.say(self.console.paint(f"{stop.finding.severity}: ", "31;1") + describe(stop.finding))
            self.console.errors += [stop.finding] if stop.finding.severity == "error" else []
        elif stop.reason == "breakpoint":
            kind = "Breakpoint" if stop.number in self.session.breakpoints else "Temporary breakpoint"
            self.say(self.console.paint(f"{kind} {stop.number}", "1"))
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
            launched = self.session.timeline.state.launched
            if launched is not None and launched.ran:
                self.say(f"{plural(launched.ran, 'grid')} that it launched ran without a stop, behind its last step.")


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
