"""The session: what a user asks of a launch that stands still."""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from warpsim.debug import expressions, motion
from warpsim.debug.breakpoints import Breakpoint, Catchpoint, Watchpoint, resolve
from warpsim.debug.handover import hand_over
from warpsim.debug.html import html_of
from warpsim.debug.listening import check_event
from warpsim.debug.origins import Origin, origin_of
from warpsim.debug.places import DebugError, Focus, chosen_focus
from warpsim.debug.records import Call, Stop
from warpsim.debug.standpoint import Standpoint
from warpsim.debug.tiles import TileTarget, tile_of
from warpsim.debug.timeline import Timeline
from warpsim.debug.watching import target_of
from warpsim.debug.writing import assign
from warpsim.errors import ExecutionError, Finding
from warpsim.host.kernel import Kernel, LaunchResult, result_of
from warpsim.host.recording import record
from warpsim.machine.state.global_memory import Allocation

if TYPE_CHECKING:
    from warpsim.report.profile import Profile

Array = NDArray[Any]
MEMORY = 1 << 28
"""Bytes that copies of the state may take."""
ELSEWHERE = ("progress", "engine", "workers", "executor", "profile")
"""Arguments of a launch that say how it runs, not what it does: a session runs in its own way."""


class Session(Standpoint):
    """A launch under the user's control: ``Session(kernel, grid, block, args, **as for a launch)``.

    It stands before the first instruction of the first warp. Every warp is a group of its own here, so that one step is one
    instruction of one warp (of four, where a wgmma instruction takes a warpgroup), and CTAs run one after the other as far
    as they do not wait for each other; values and findings are those of a launch. With ``schedule=`` the order is that of a launch
    with this seed: a group may hold several warps then, and all move as that order has it. The launch runs on a copy of the device's
    memory: arrays get what the kernel wrote when the end is reached.

    Args:
        kernel, grid, block, args: as for a launch; so are all other arguments.
        history_bytes: what copies of the state for going back may take.

    ``scheduler_locking``: ``"step"`` lets `step`, `next`, `finish` and `until` move the warp in focus alone, as long as it need
    not wait for others; ``"off"`` lets all warps move. ``stop_at_findings`` may be switched off.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Any,
        block: Any,
        args: Sequence[Any] = (),
        *,
        history_bytes: int = MEMORY,
        device: Any = None,
        watchers: Sequence[Any] = (),
        **options: Any,
    ) -> None:
        self.device = kernel.device(device)
        self._numbers = 0
        self._began = time.perf_counter()
        self._result: LaunchResult | None = None
        self._told_end = False
        chosen = {name: value for name, value in options.items() if name not in ELSEWHERE}
        self._profiled = bool(options.get("profile"))
        self._given = (grid, block, list(args), chosen)
        mapped: list[int] = []
        with self.device.lock:
            memory = self.device.memory
            try:
                warps = {} if options.get("schedule") is not None else {"batch_threads": 1, "by_warp": True}
                state = kernel.begin(grid, block, args, mapped, self.device, **{**chosen, **warps, "keeps": True})
                self._allocations: list[Allocation] = memory.everything()
                state.memory = copy.deepcopy(memory)
                memory.settle()
            finally:
                for address in mapped:
                    memory.unmap(address)
        self._mapped = frozenset(mapped)
        super().__init__(kernel, Timeline(state, watchers, history_bytes))

    # ---- motion ------------------------------------------------------------------------------

    def step(self, n: int = 1, by: str = "instruction") -> Stop:
        """Execute ``n`` instructions of the warp in focus, or (``by="line"``) CUDA lines."""
        return self._repeat(n, motion.step if _unit(by) else partial(motion.line, into=True))

    def next(self, n: int = 1, by: str = "instruction") -> Stop:
        """Likewise, but a called function as a whole."""
        return self._repeat(n, motion.over if _unit(by) else partial(motion.line, into=False))

    def finish(self) -> Stop:
        """Run until the present function has returned."""
        return self._repeat(1, motion.out)

    def until(self, place: int | str) -> Stop:
        """Run until the warp in focus comes to a place, or its function returns."""
        spots = resolve(self.timeline.state.plan.program, place, self._function)
        return self._repeat(1, lambda session: motion.until(session, spots))

    def cont(self) -> Stop:
        """Run to the next breakpoint, change of what is watched, finding, or the end."""
        self.timeline.prefer(None)
        return self._repeat(1, motion.anywhere)

    def run(self) -> Stop:
        """Begin the launch anew, and run as `cont` does."""
        self.timeline.restart()
        return self.cont()

    def goto(self, step: int) -> Stop:
        """Be where ``step`` steps have been begun; breakpoints on the way do not count."""
        if step < 0:
            raise DebugError(f"steps count from 0, {step} is before the first")
        return self.stopped("end" if self.timeline.goto(step) == "end" else "step", refocus=True)

    def back(self, n: int = 1, by: str = "instruction") -> Stop:
        """Undo the last ``n`` instructions of the warp in focus, or (``by="line"``) be at the starts of its last CUDA lines;
        stops at the start."""
        if _unit(by):
            return motion.back(self, n) if n > 0 else self.stop
        stop = self.stop
        for _ in range(n):
            stop = motion.line_back(self)
            if stop.step == 0:
                break
        return stop

    def reverse_cont(self) -> Stop:
        """Go back to the last position at which `cont` would have stopped, or to the start."""
        return motion.reverse(self)

    def interrupt(self) -> None:
        """Let the command that runs stop soon; from a signal handler or another thread."""
        self.timeline.interrupt()

    def _repeat(self, n: int, move: Any) -> Stop:
        stop = self.stop
        for _ in range(n):
            stop = move(self)
            if stop.reason not in ("step",):
                break
        return stop

    def ending(self) -> None:
        """Hand over memory and text."""
        timeline = self.timeline
        state = timeline.state
        text = "".join(text for _, text in state.printed)
        if timeline.error is None:
            profile = self._profile() if self._profiled else None
            self._result = result_of(state, text, time.perf_counter() - self._began, profile)
        if not self._told_end:
            self._told_end = True
            self.device.stdout(text)
        with self.device.lock:
            hand_over(state.memory, self.device.memory, self._allocations, self._mapped)
            self.device.memory.nanoseconds += state.now

    def _profile(self) -> Profile:
        """What every line did: counted in a run of its own, in which nothing was done twice."""
        from warpsim.observe.profiler import Profiler

        profiler = Profiler()
        self.timeline.again([profiler]).forward()
        return profiler.profile()

    # ---- stops -------------------------------------------------------------------------------

    def break_at(
        self, place: int | str, condition: str | None = None, ignore: int = 0, temporary: bool = False
    ) -> Breakpoint:
        """Stop whoever comes to a place: a PTX line, ``"file.cu:12"``, a label, a function, or ``"op:mma.sync*"``.

        Args:
            place: where.
            condition: an expression: stop where it holds in a lane.
            ignore: pass so many times first.
            temporary: delete it at the first stop."""
        spots = resolve(self.timeline.state.plan.program, place, self._function)
        if condition is not None:
            expressions.parse(condition)
        self._numbers += 1
        made = Breakpoint(self._numbers, str(place), spots, condition, ignore, temporary)
        self.breakpoints[made.number] = made
        return made

    def watch(self, expression: str, read: bool = False, write: bool = True, scope: str = "warp") -> Watchpoint:
        """Stop behind the step that changes (``read``: before the step that reads) a register, a variable or memory.

        ``matrix d`` or ``matrix d[0:8,0:8]`` is an operand of the matrix instruction here or last before, or a tile of it.
        ``scope``: a register of the ``lane`` or the ``warp`` in focus, or of ``any`` thread. Memory is watched whoever changes
        it, asynchronous copies too."""
        if scope not in ("lane", "warp", "any"):
            raise DebugError(f"scope is lane, warp or any, not {scope!r}")
        scene = self.scene
        target = tile_of(scene, expression, self.instruction) or target_of(scene, expression, read, scope)
        if read and isinstance(target, TileTarget):
            raise DebugError("of a matrix, changes can be watched: watch matrix d")
        self._numbers += 1
        made = Watchpoint(self._numbers, expression, read, write, scope, target)
        self.breakpoints[made.number] = made
        return made

    def catch(self, what: str) -> Catchpoint:
        """Stop where a rule is broken, by its name, also where ``stop_at_findings`` is off; or behind the step in which something
        happens: ``arrival`` at a barrier, ``barrier`` complete, ``phase`` (somebody finds that of an mbarrier over), ``async`` (copies or
        wgmma are complete), ``visible`` (what copies wrote can be read)."""
        check_event(what, self.timeline.state.settings.checks, self.timeline.has_watchers)
        self._numbers += 1
        made = Catchpoint(self._numbers, what)
        self.breakpoints[made.number] = made
        return made

    def delete(self, number: int | None = None) -> None:
        """Take a breakpoint or watchpoint away; without number all."""
        if number is None:
            self.breakpoints.clear()
        elif self.breakpoints.pop(number, None) is None:
            raise DebugError(f"no breakpoint {number}; there are {', '.join(map(str, self.breakpoints)) or 'none'}")

    # ---- who ---------------------------------------------------------------------------------

    def focus(self, cta: Any = None, warp: int | None = None, lane: int | None = None) -> Focus:
        """The thread that `step`, `registers`, `evaluate` mean; change any part of it."""
        old = self.thread
        chosen = chosen_focus(self.timeline.state, old, cta, warp, lane)
        if chosen != old:
            self.thread, self.frame = chosen, 0
            if lane is None and self.standing() is None:
                self.thread = self._lowest(chosen)
            self.stopped(self.stop.reason if self.stop.reason == "end" else "step")
        return self.thread

    def select(self, frame: int) -> Call:
        """Look at one of the calls of the thread in focus, as `where` counts them, with its registers and variables, until the
        launch moves."""
        calls = self.where()
        if not 0 <= frame < len(calls):
            there = f"0 to {len(calls) - 1}" if calls else "none: the thread does not run"
            raise DebugError(f"there is no frame {frame}; frames are {there}")
        self.frame = frame
        return calls[frame]

    def _lowest(self, focus: Focus) -> Focus:
        """The lowest lane of the warp that has not exited, if there is one."""
        for lane in range(32):
            candidate = attrs.evolve(focus, lane=lane)
            if self.standing(candidate) is not None:
                return candidate
        return focus

    # ---- change and result -------------------------------------------------------------------

    def record(self, directory: str | os.PathLike[str], *, note: str = "") -> None:
        """Write the launch as a case, as `warpsim.testing.record` does: what it was given, and what it leaves behind when nobody
        changes anything on the way. The session and the caller's arrays stay as they are.

        Raises:
            LaunchError: the directory cannot be written.
        """
        grid, block, args, options = self._given
        with self.device.lock:
            memory = self.device.memory
            kept = [(a, a.data.copy(), copy.deepcopy(a.companion)) for a in self._allocations if not a.read_only]
            hand_over(self.timeline.start.memory, memory, self._allocations, frozenset())
            try:
                with contextlib.suppress(ExecutionError):  # recorded without outputs, to be replayed
                    record(self.kernel, grid, block, args, directory, note=note, device=self.device, **options)
            finally:
                for allocation, data, companion in kept:
                    np.copyto(allocation.data, data)
                    allocation.companion = companion
                memory.version += 1

    def set(self, what: str, value: Any) -> None:
        """Change a register (in all lanes that stand here, or ``%r3[5]``), a variable, or memory; ``value`` is a number, an
        array ``[32]``, or the text of an expression."""
        assign(self, what, value)

    def origin(self, what: str, depth: int = 1) -> Origin:
        """Who gave a register of the thread in focus, a variable or memory the value that it has, and from what; chained back
        ``depth`` times."""
        return origin_of(self, what, depth)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found up to here, and what the next step would find, if the session stopped for it."""
        found = tuple(self.timeline.state.findings.values())
        new = self.stop.finding
        return found if new is None or any(f.rule == new.rule and f.line == new.line for f in found) else (*found, new)

    @property
    def result(self) -> LaunchResult | None:
        """What the launch did, once it has ended; of one that ended with an error see `error`."""
        return self._result if self.timeline.ended else None

    def _repr_html_(self) -> str:
        return html_of(self)


def _unit(by: str) -> bool:
    """True for instructions, False for CUDA lines."""
    if by not in ("instruction", "line"):
        raise DebugError(f"a step is by instruction or by line, not by {by!r}")
    return by == "instruction"
