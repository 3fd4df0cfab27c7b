"""The debug session: every command of the debugger as a method."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from warpsim.debug import errors, motion, waiting
from warpsim.debug.breakpoints import (
    Breakpoint,
    Catchpoint,
    TileTarget,
    Watchpoint,
    check_condition,
    check_event,
    later,
    resolve,
    target_of,
    tile_of,
)
from warpsim.debug.debug_info import TEMPORARY, Symbol
from warpsim.debug.errors import DebugError, flag, number, text
from warpsim.debug.matrices import Matrix, matrix_at, nearest_matrix
from warpsim.debug.memory import tensor_cells
from warpsim.debug.origins import Origin, origin_of
from warpsim.debug.position import Call, Position, Stop, WarpState, context_of, frames_of, group_state_of, warps_of
from warpsim.debug.textures import TextureState, texture_named, textures_of
from warpsim.debug.threads import Focus, chosen_focus
from warpsim.debug.timeline import Timeline
from warpsim.debug.waiting import BarrierState, InFlight, MbarrierState
from warpsim.debug.writing import assign, jump
from warpsim.errors import ExecutionError, Finding
from warpsim.host.arguments import Arguments
from warpsim.host.command_options import Options
from warpsim.host.defaults import run_past
from warpsim.host.device import Device
from warpsim.host.kernel import Kernel, LaunchResult, result_of
from warpsim.host.launch_options import chosen_engine
from warpsim.host.options import Dim
from warpsim.host.recording import record
from warpsim.machine.heap import NAME as HEAP
from warpsim.machine.state.global_memory import Allocation, GlobalMemory
from warpsim.machine.values import Array
from warpsim.machine.watcher import Watcher
from warpsim.program.program import Instruction
from warpsim.report import pages

if TYPE_CHECKING:
    from warpsim.report.profile import Profile

MEMORY = 1 << 28
"""Default budget for state snapshots, in bytes."""
AROUND = 4
"""Lines shown around the current one in a notebook."""
ELSEWHERE = ("progress", "engine", "workers", "executor", "profile", "shadow")
"""Launch arguments that say how a launch runs, not what it does."""


class Session(Position):
    """Debug a launch: ``Session(kernel, grid, block, args, **options)`` takes the arguments of a launch.

    The session starts before the first instruction of the first warp. Each warp runs alone, so one step is one
    instruction of one warp (of four warps where wgmma takes a warpgroup). CTAs run one after another unless they wait
    for each other. Values and findings are those of a plain launch. With ``schedule=`` the session follows the order of
    a launch with that seed; one step may then move several warps. The session runs on a copy of the device's memory:
    the caller's arrays are updated when the launch ends.

    Args:
        kernel: the kernel to launch.
        grid: CTAs, as for a launch; so are all arguments that are not listed here.
        block: threads of a CTA.
        args: the kernel's arguments.
        history_bytes: memory budget for the state snapshots that going back uses.

    ``scheduler_locking``: with ``"step"``, `step`, `next`, `finish` and `until` move only the warp in focus unless it
    has to wait for others; with ``"off"``, all warps move. Set ``stop_at_findings`` to False to run past findings.
    """

    def __init__(
        self,
        kernel: Kernel,
        grid: Dim,
        block: Dim,
        args: Arguments = (),
        *,
        history_bytes: int = MEMORY,
        device: Device | None = None,
        watchers: Sequence[Watcher] = (),
        **options: Any,
    ) -> None:
        self.kernel = kernel
        self.device = kernel.device(device)
        self._numbers = itertools.count(1)
        self._began = time.perf_counter()
        self._result: LaunchResult | None = None
        self._printed = False
        self._reported: set[tuple[str, int, int, str]] = set()
        chosen = {name: value for name, value in options.items() if name not in ELSEWHERE}
        self._profiled = bool(options.get("profile"))
        self._given = (grid, block, list(args), chosen)
        mapped: list[int] = []
        with self.device.lock:
            memory = self.device.memory
            try:
                by_warp = options.get("schedule") is None
                warps = {"batch_threads": 1, "by_warp": True} if by_warp else {}
                made = Options(**{**chosen, **warps, "keeps": True})
                state = kernel.begin(grid, block, args, mapped, self.device, made)
                self._allocations: tuple[Allocation, ...] = memory.allocations
                state.memory = copy.deepcopy(memory)
                memory.settle()
            finally:
                for address in mapped:
                    memory.unmap(address)
        super().__init__(Timeline(state, watchers, history_bytes, chosen_engine(options.get("engine"))))

    # ---- motion ------------------------------------------------------------------------------

    def step(self, n: int = 1, by: str = "instruction") -> Stop:
        """Execute ``n`` instructions of the warp in focus, or ``n`` CUDA lines with ``by="line"``."""
        if _unit(by):
            return motion.step(self, n) if number("n", n) > 0 else self.stop
        return self._repeat(n, partial(motion.line, into=True))

    def next(self, n: int = 1, by: str = "instruction") -> Stop:
        """Execute ``n`` instructions or lines like `step`, but run a called function to its return."""
        return self._repeat(n, motion.over if _unit(by) else partial(motion.line, into=False))

    def finish(self) -> Stop:
        """Run until the current function returns."""
        return self._repeat(1, motion.out)

    def until(self, place: int | str | None = None, by: str = "instruction") -> Stop:
        """Run until the warp in focus reaches ``place`` or its function returns. Without ``place``, run to a later line
        of the function: of the PTX, or with ``by="line"`` of the current CUDA file."""
        at = self._instruction
        if place is not None or at is None or self.function is None:
            locations = resolve(self.program, 0 if place is None else place, self.function)
        else:
            locations = later(self.program.functions[self.function], at, lines=not _unit(by))
        return self._repeat(1, lambda position: motion.until(position, locations))

    def cont(self) -> Stop:
        """Run to the next breakpoint, watchpoint hit or finding, or to the end."""
        self.timeline.prefer(None)
        return self._repeat(1, motion.anywhere)

    def run(self) -> Stop:
        """Restart the launch, then continue as `cont` does."""
        self.timeline.restart()
        return self.cont()

    def goto(self, step: int) -> Stop:
        """Go to the position after ``step`` steps, forward or backward. Ignores breakpoints on the way."""
        step = number("step", step)
        if step < 0:
            raise DebugError(f"there is no step {step}: steps count from 0")
        why = self.timeline.goto(step)
        return self.stopped("step" if why == "target" else why, refocus=True)

    def back(self, n: int = 1, by: str = "instruction") -> Stop:
        """Undo the last ``n`` instructions of the warp in focus; with ``by="line"``, go back to the starts of its last
        ``n`` CUDA lines. Stops at the start of the launch."""
        n = number("n", n)
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
        """Ask the running command to stop soon. Safe to call from a signal handler or another thread."""
        self.timeline.interrupt()

    def _repeat(self, n: int, move: Callable[[Position], Stop]) -> Stop:
        stop = self.stop
        for _ in range(number("n", n)):
            stop = move(self)
            if stop.reason != "step":
                break
        return stop

    def _reached(self, stop: Stop) -> None:
        """End with the launch, and pass errors that no stop has reported to a test session."""
        if stop.reason == "end":
            self._end()
        if stop.finding is not None:
            self._reported.add(_place(stop.finding))
        state = self.timeline.state
        errors = {_place(f): f for f in state.findings.values() if f.severity == "error"}
        past = {place: finding for place, finding in errors.items() if place not in self._reported}
        if past and state.settings.on_finding == "collect":
            self._reported.update(past)
            run_past(tuple(past.values()))

    def _end(self) -> None:
        """Write memory and printed text back to the device."""
        timeline = self.timeline
        state = timeline.state
        text = "".join(text for _, text in state.printed)
        if timeline.error is None:
            profile = self._profile() if self._profiled else None
            self._result = result_of(state, text, time.perf_counter() - self._began, profile)
        if not self._printed:
            self._printed = True
            self.device.stdout(text)
        with self.device.lock:
            _write_back(state.memory, self.device.memory, self._allocations)
            self.device.memory.nanoseconds += state.now

    def _profile(self) -> Profile:
        """Profile the launch per line in a separate run, so that steps executed twice count once."""
        from warpsim.observe.profiler import Profiler

        profiler = Profiler()
        self.timeline.again([profiler]).forward()
        return profiler.profile()

    # ---- stops -------------------------------------------------------------------------------

    def break_at(
        self, place: int | str, condition: str | None = None, ignore: int = 0, temporary: bool = False
    ) -> Breakpoint:
        """Stop every warp that reaches ``place``: a PTX line, ``"file.cu:12"``, a label, a function, or
        ``"op:mma.sync*"``.

        Args:
            place: where to stop.
            condition: an expression; stop only where it is true in some lane, and in no function that lacks its names.
            ignore: number of hits to skip first.
            temporary: delete the breakpoint after its first stop.
        """
        locations = resolve(self.program, place, self.function)
        if condition is not None:
            check_condition(condition, self.program, locations)
        ignore, temporary = number("ignore", ignore), flag("temporary", temporary)
        made = Breakpoint(next(self._numbers), str(place), locations, condition, ignore, temporary)
        self.breakpoints[made.number] = made
        return made

    def watch(
        self,
        expression: str,
        read: bool = False,
        write: bool = True,
        scope: str = "warp",
        condition: str | None = None,
        ignore: int = 0,
        temporary: bool = False,
    ) -> Watchpoint:
        """Stop after the step that changes a register, a variable or memory; with ``read``, before the step that reads
        it.

        ``matrix d`` or ``matrix d[0:8,0:8]`` watches an operand, or a tile of it, of the matrix instruction at or
        before the current one. ``scope`` selects whose register to watch: that of the ``lane`` or the ``warp`` in
        focus, or of ``any`` thread. Memory is watched for changes by any thread and by asynchronous copies.
        ``condition``, an expression, must be true in some lane of the warp that executed the step; ``ignore`` and
        ``temporary`` are those of `break_at`.
        """
        expression, read, write = text("expression", expression), flag("read", read), flag("write", write)
        if text("scope", scope) not in ("lane", "warp", "any"):
            raise DebugError(f"scope must be 'lane', 'warp' or 'any', not {scope!r}")
        context = self.context
        target = tile_of(context, expression, self._instruction) or target_of(context, expression, scope, read=read)
        if read and isinstance(target, TileTarget):
            raise DebugError("a matrix can be watched for changes only: watch matrix d")
        if condition is not None:
            check_condition(condition, self.program, None)
        ignore, temporary = number("ignore", ignore), flag("temporary", temporary)
        made = Watchpoint(next(self._numbers), expression, read, write, scope, target, condition, ignore, temporary)
        self.breakpoints[made.number] = made
        return made

    def catch(self, what: str) -> Catchpoint:
        """Stop where the rule ``what`` is broken, even with ``stop_at_findings`` off, or after the step in which an
        event happens.

        Events: ``arrival`` (a warp arrives at a barrier), ``barrier`` (a barrier completes), ``phase`` (a thread
        observes that an mbarrier's phase has completed), ``async`` (asynchronous copies or wgmma complete), ``visible``
        (data written by copies becomes readable).
        """
        check_event(text("what", what), self.timeline.state.settings.checks, others=self.timeline.has_watchers)
        made = Catchpoint(next(self._numbers), what)
        self.breakpoints[made.number] = made
        return made

    def delete(self, number: int | None = None) -> None:
        """Delete a breakpoint, watchpoint or catchpoint; without ``number``, delete all."""
        if number is None:
            self.breakpoints.clear()
        elif self.breakpoints.pop(errors.number("number", number), None) is None:
            raise DebugError(f"no breakpoint {number}; breakpoints: {', '.join(map(str, self.breakpoints)) or 'none'}")

    # ---- who ---------------------------------------------------------------------------------

    def focus(self, cta: int | Sequence[int] | None = None, warp: int | None = None, lane: int | None = None) -> Focus:
        """Return the thread in focus, to which `step`, `registers` and `evaluate` apply; change any part of it first."""
        old = self.thread
        chosen = chosen_focus(self.timeline.state, old, cta, warp, lane)
        if chosen != old:
            here = group_state_of(self.timeline, chosen) is not None
            self.thread = chosen if here or lane is not None else self._lowest(chosen)
            self.stopped("end" if self.stop.reason == "end" else "step")
        return self.thread

    def select(self, frame: int) -> Call:
        """Select a frame of the thread in focus, numbered as in `where`. Its registers and variables are shown until
        the launch moves."""
        calls, frame = self.where(), number("frame", frame)
        if not 0 <= frame < len(calls):
            there = f"0 to {len(calls) - 1}" if calls else "none, because the thread is not running"
            raise DebugError(f"no frame {frame}; frames: {there}")
        self.frame = frame
        return calls[frame]

    def _lowest(self, focus: Focus) -> Focus:
        """The lowest lane of the warp that has not exited; ``focus`` itself if all have."""
        for lane in range(32):
            candidate = attrs.evolve(focus, lane=lane)
            if group_state_of(self.timeline, candidate) is not None:
                return candidate
        return focus

    # ---- what --------------------------------------------------------------------------------

    def evaluate(self, text: str) -> Any:
        """Evaluate an expression for the thread in focus; the grammar is that of `warpsim.debug.expressions`.

        A value that differs by lane is an array ``[32]``, masked for lanes that stand elsewhere.
        """
        return self.context.value(text)

    def memory(
        self, space: str, address: int, nbytes: int, cta: int | Sequence[int] | None = None, thread: int | None = None
    ) -> bytes:
        """Read bytes of a state space, of the CTA and thread in focus unless others are given."""
        chosen = None if thread is None else number("thread", thread)
        warp, lane = (None, None) if chosen is None else (chosen >> 5, chosen & 31)
        context = context_of(self.timeline, chosen_focus(self.timeline.state, self.thread, cta, warp, lane))
        return context.place(text("space", space), number("address", address)).read(number("nbytes", nbytes))

    def tensor_memory(self, cta: int | Sequence[int] | None = None) -> Array:
        """The tensor memory of a CTA (the one in focus unless given): words ``[128, 512]``, masked where no columns are
        allocated."""
        focus = chosen_focus(self.timeline.state, self.thread, cta, None, None)
        machine = context_of(self.timeline, focus).machine
        return tensor_cells(machine, None if machine is None else machine.column_of(focus.cta))

    def textures(self) -> tuple[TextureState, ...]:
        """The textures, samplers and surfaces in memory."""
        return tuple(textures_of(self.timeline.state.memory))

    def texture(self, handle: Array) -> TextureState | None:
        """The texture, sampler or surface whose handle is a value that `evaluate` gave; None if it is none's."""
        return texture_named(self.timeline.state.memory, handle)

    def where(self) -> tuple[Call, ...]:
        """The call stack of the thread in focus, innermost first, with calls of functions that were inlined."""
        at = self.group_state()
        if at is None:
            return ()
        return tuple([call for call, _, _ in frames_of(at, self.program)])

    def variables(self) -> tuple[Symbol, ...]:
        """The variables of C++ and PTX that the selected frame sees, innermost first, each name once; without those that a
        compiler has added, if debug information tells."""
        context, found = self.context, dict[str, Symbol]()
        for symbol in context.symbols.visible(context.function, context.number, context.depth):
            if not (context.symbols.info.bodies and TEMPORARY.fullmatch(symbol.name)):
                found.setdefault(symbol.name, symbol)
        return tuple(found.values())

    def warps(self) -> tuple[WarpState, ...]:
        """Where the warps of the running CTAs stand: one entry for lanes of a warp that stand together."""
        return warps_of(self.timeline.machines())

    def matrix(self, operand: str) -> Matrix:
        """An operand (``a``, ``b``, ``c``, ``d``, ``e``) of the current matrix instruction, or of the last one before
        it in the code.

        Gives the values and the owner of each element. A and B of wgmma are read through their descriptors.
        """
        context = self.context
        return matrix_at(context, nearest_matrix(context, self._instruction), operand)

    def barriers(self) -> tuple[BarrierState, ...]:
        """Barriers of CTAs and clusters at which threads have arrived."""
        return waiting.barriers_of(self.timeline.machines())

    def mbarriers(self) -> tuple[MbarrierState, ...]:
        """The mbarriers in use."""
        return waiting.mbarriers_of(self.timeline.machines())

    def in_flight(self) -> tuple[InFlight, ...]:
        """Copies and wgmma whose completion no thread has observed."""
        return waiting.in_flight_of(self.timeline.machines())

    @property
    def _instruction(self) -> Instruction | None:
        """The instruction at which the thread in focus stands."""
        at = self.group_state()
        return at.instruction if at is not None else None

    # ---- change and result -------------------------------------------------------------------

    def record(self, directory: str | os.PathLike[str], *, note: str = "") -> None:
        """Write the launch as a case, as `warpsim.testing.record` does: its inputs, and the outputs of an unmodified
        run.

        Leaves the session and the caller's arrays unchanged.

        Raises:
            LaunchError: the directory cannot be written.
        """
        grid, block, args, options = self._given
        with self.device.lock:
            memory = self.device.memory
            kept = [(a, a.data.copy(), copy.deepcopy(a.shadow)) for a in self._allocations if not a.read_only]
            _write_back(self.timeline.start.memory, memory, self._allocations)
            try:
                with contextlib.suppress(ExecutionError):  # recorded without outputs, for replay
                    record(self.kernel, grid, block, args, directory, note=note, device=self.device, **options)
            finally:
                for allocation, data, shadow in kept:
                    np.copyto(allocation.data, data)
                    allocation.shadow = shadow
                memory.version += 1

    def set(self, what: str, value: object) -> None:
        """Change a register (in all lanes that stand here, or in one: ``%r3[5]``), a variable, or memory.

        ``value`` is a number, an array ``[32]``, or an expression as text.
        """
        assign(self, what, value)

    def jump(self, place: int | str) -> Stop:
        """Move the threads that stand with the one in focus to ``place`` in their function; nothing in between is executed."""
        jump(self, place)
        return self.stopped("step")

    def origin(self, what: str, depth: int = 1) -> Origin:
        """Find the step that gave a register of the thread in focus, a variable or memory its value, and the values it
        read; follows the chain ``depth`` steps back."""
        return origin_of(self, what, depth)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings so far, including the one that the session stopped before."""
        found = tuple(self.timeline.state.findings.values())
        new = self.stop.finding
        return found if new is None or any(f.rule == new.rule and f.line == new.line for f in found) else (*found, new)

    @property
    def result(self) -> LaunchResult | None:
        """The result of the launch; None until it ends. If the launch ended with an error, see `error`."""
        return self._result if self.timeline.ended else None

    def outcome(self) -> LaunchResult:
        """The result of a launch that has ended.

        Raises:
            ExecutionError: it ended with an error.
            DebugError: it has not ended, or the session has gone back from its end.
        """
        if self.error is not None:
            raise self.error
        result = self.result
        if result is None:
            raise DebugError("the launch has not ended: run() goes to its end")
        return result

    @property
    def error(self) -> ExecutionError | None:
        """The error that ended the launch, if there was one."""
        return self.timeline.error

    def _repr_html_(self) -> str:
        return _html(self)


def _place(finding: Finding) -> tuple[str, int, int, str]:
    return finding.rule, finding.line, finding.column, finding.severity


def _unit(by: str) -> bool:
    """True for instructions, False for CUDA lines."""
    if text("by", by) not in ("instruction", "line"):
        raise DebugError(f"step by 'instruction' or 'line', not {by!r}")
    return by == "instruction"


def _write_back(source: GlobalMemory, target: GlobalMemory, known: tuple[Allocation, ...]) -> None:
    """Copy what a launch wrote on a copy of memory into the device's memory and the caller's arrays."""
    starts = {allocation.start for allocation in known}
    for allocation in known:
        given = source.at(allocation.start)
        if given is None:  # freed by the kernel
            if target.at(allocation.start) is allocation:
                target.unmap(allocation.start)
        elif not allocation.read_only:
            np.copyto(allocation.data, given.data)
            allocation.shadow = copy.deepcopy(given.shadow)
    for given in source.allocations:
        if given.start not in starts and given.name == HEAP:
            data = given.data.copy()
            target.map(data, name=given.name, address=given.start)
    target.version += 1


def _html(session: Session) -> str:
    """Render a session as an HTML fragment."""
    stop = session.stop
    if stop.reason == "end":
        error = session.error
        return pages.part(
            f"<p>{escape(session.kernel.name)}: ended after {stop.step} steps</p>"
            + (f"<pre class=error>{escape(str(error))}</pre>" if error is not None else "")
        )
    lines, here = session.program.lines, stop.line or 1
    text = "".join(
        f"<tr{' class=here' * (number == here)}><td class=no>{number}</td>"
        f"<td class=text>{escape(lines[number - 1].strip())}</td></tr>"
        for number in range(max(here - AROUND, 1), min(here + AROUND, len(lines)) + 1)
    )
    head = f"{session.kernel.name}, {session.thread}, step {stop.step}: {stop.reason}"
    found = pages.finding(stop.finding) if stop.finding is not None else ""
    return pages.part(f"<p>{escape(head)}</p>{found}{pages.scrolling(text)}{_registers_html(session)}")


def _registers_html(session: Session) -> str:
    rows = []
    for name, values in session.registers.items():
        mask = np.ma.getmaskarray(values)
        shown = ["-" if away else str(value) for value, away in zip(np.ma.getdata(values), mask, strict=True)]
        same = len(set(shown)) == 1
        cells = (
            f'<td class=text colspan="32">{escape(shown[0])}</td>'
            if same
            else "".join(f"<td>{escape(v)}</td>" for v in shown)
        )
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    lanes = "".join(f"<th>{lane}</th>" for lane in range(32))
    table = pages.scrolling(f"<thead><tr><th></th>{lanes}</tr></thead><tbody>{''.join(rows)}</tbody>")
    return f"<details><summary>registers by lane</summary>{table}</details>"
