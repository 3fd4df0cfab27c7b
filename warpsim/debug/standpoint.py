"""The state of a debug session: position, focus and breakpoints. Motion, searches and changes work on it."""

from __future__ import annotations

from typing import Any

from warpsim.debug.breakpoints import Catchpoint, Point
from warpsim.debug.places import Focus, first_of, holds
from warpsim.debug.records import Stop
from warpsim.debug.timeline import Timeline
from warpsim.debug.views import Views
from warpsim.errors import ExecutionError, Finding
from warpsim.host.kernel import Kernel


class Standpoint(Views):
    """Where a launch stands, which thread is in focus, and where it will stop.

    ``scheduler_locking``: with ``"step"``, commands that follow the warp in focus move that warp only, unless it has to
    wait for others; with ``"off"``, all warps move. Set ``stop_at_findings`` to False to run past findings.
    """

    def __init__(self, kernel: Kernel, timeline: Timeline) -> None:
        self.kernel = kernel
        self.timeline = timeline
        self.scheduler_locking = "step"
        self.stop_at_findings = True
        self.breakpoints: dict[int, Point] = {}
        self.thread = Focus((0, 0, 0), 0, 0)
        self.frame = 0
        timeline.forward(0)
        self.stop = self.stopped("step", refocus=True)

    def stopped(self, reason: str, *, refocus: bool = False, **more: Any) -> Stop:
        """Record and return the current position as a `Stop`. ``refocus`` moves the focus to the thread that executes
        next.
        """
        timeline, self.frame = self.timeline, 0
        machine, group = timeline.machine, timeline.group
        if timeline.ended:
            self.ending()
            found = timeline.error.findings if timeline.error is not None else ()
            self.stop = Stop("end", timeline.step, focus=None, finding=next(iter(found), None))
            return self.stop
        finding = more.get("finding")
        if machine is None or group is None:
            line = finding.line if finding is not None else None
            text = finding.instruction if finding is not None else None
            source = finding.source if finding is not None else None
            self.stop = Stop(reason, timeline.step, line, source, text, self.thread, **more)
            return self.stop
        if refocus and not holds(machine, group, self.thread):
            self.thread = first_of(machine, group)
        at = self.standing()
        instruction = at.instruction if at is not None else group.instruction
        self.stop = Stop(
            reason, timeline.step, instruction.span.line, instruction.source, instruction.text, self.thread, **more
        )
        return self.stop

    def catcher(self, what: str) -> Catchpoint | None:
        """The enabled catchpoint for an event or a rule, if there is one."""
        points = (p for p in self.breakpoints.values() if isinstance(p, Catchpoint) and p.enabled)
        return next((p for p in points if p.what == what), None)

    def catches(self, finding: Finding) -> bool:
        """Whether a finding stops the launch."""
        return self.stop_at_findings or self.catcher(finding.rule) is not None

    def ending(self) -> None:
        """Hook for subclasses: the launch has ended."""

    def has_begun(self, cta: tuple[int, int, int]) -> bool:
        """Whether a CTA has begun. CTAs begin in order of their linear number."""
        state = self.timeline.state
        number = cta[0] + state.grid[0] * (cta[1] + state.grid[1] * cta[2])
        if any(number in batch.ctas for batch in state.batches):
            return True
        cx, cy, cz = state.cluster
        return number < state.waves * cx * cy * cz

    def lock(self) -> None:
        """Prefer the warp in focus, or no warp, as ``scheduler_locking`` says."""
        gx, gy, _ = self.timeline.state.grid
        x, y, z = self.thread.cta
        number = x + gx * (y + gy * z)
        free = self.scheduler_locking == "off" or self.timeline.state.schedule is not None
        self.timeline.prefer(None if free else (number, self.thread.warp))

    @property
    def error(self) -> ExecutionError | None:
        """The error that ended the launch, if there was one."""
        return self.timeline.error
