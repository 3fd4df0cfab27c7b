"""The ``info`` command and its subcommands."""

from __future__ import annotations

import fnmatch
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.cli.debug.console import Console
from warpsim.cli.debug.formats import abridged, equation, short, show
from warpsim.debug import DebugError
from warpsim.debug.breakpoints import line_column, resolve
from warpsim.errors import describe, plural, source_name
from warpsim.types import StateSpace

if TYPE_CHECKING:
    pass


def cta(place: tuple[int, int, int]) -> str:
    """Format a CTA."""
    return f"CTA ({place[0]},{place[1]},{place[2]})"


class Infos:
    """info registers, lanes, warps, line, locals, findings ..."""

    def __init__(self, console: Console) -> None:
        self.console, self.session, self.say = console, console.session, console.say

    def info_registers(self, text: str) -> None:
        """List written registers, those changed since the last stop with a star; for a name or %r1*, show values per
        lane.
        """
        held = self.session.registers
        if "*" in text or "?" in text:
            held = {name: held[name] for name in held if fnmatch.fnmatchcase(name, text)}
            if not held:
                raise DebugError(f"no register {text} has been written")
        elif text:
            chosen = [name for name in held if name == text or name == "%" + text]
            if not chosen:
                raise DebugError(f"no register {text} has been written")
            for name in chosen:
                self.say(equation(name, show(held[name])))
            return
        if not held:
            self.say("No register has been written yet.")
        for name in held:
            self.say(self._register_line(name, held[name]))

    def _register_line(self, name: str, values: Any) -> str:
        """Format a register on one line, marked if it changed since the last stop."""
        old = self.console.previous.get(name)
        changed = old is None or old.tobytes() != values.tobytes()
        return f"{'*' if changed and self.console.previous else ' '} {name:>12}  {short(values)}"

    def info_all(self, text: str) -> None:
        """Show position, registers and locals."""
        self.say(self.console.whereabouts())
        self.info_registers("")
        self.info_locals("")

    def info_lanes(self, text: str) -> None:
        """Show where the lanes of the warp stand."""
        focus = self.session.thread
        mine = [w for w in self.session.warps() if (w.cta, w.warp) == (focus.cta, focus.warp)]
        for part in mine:
            self.say(f"  lanes {part.lanes:<12} line {part.line:5}  {part.instruction}  {part.function}, {part.state}")
        if not mine:
            self.say(f"CTA {focus.cta}, warp {focus.warp} is not running.")

    def info_warps(self, text: str) -> None:
        """Show where the warps of the running CTAs stand."""
        focus = self.session.thread
        for part in self.session.warps():
            mark = "*" if (part.cta, part.warp) == (focus.cta, focus.warp) else " "
            x, y, z = part.cta
            self.say(
                f"{mark} CTA ({x},{y},{z})  warp {part.warp:2}  lanes {part.lanes:<10}  line {part.line:5}  {part.instruction}, {part.state}"
            )

    def info_line(self, text: str) -> None:
        """Show the current line and its CUDA line, or those of a place: a PTX line, file.cu:N, a label, a function,
        op:PATTERN.
        """
        stop = self.session.stop
        if text:
            self._lines_of(text)
        elif stop.line is None or stop.instruction is None:
            raise DebugError("no thread is running")
        else:
            self._line(stop.line, stop.source, stop.instruction)

    def _lines_of(self, place: str) -> None:
        program, calls = self.session.timeline.state.plan.program, self.session.where()
        locations = resolve(program, place, calls[self.session.frame].function if calls else None)
        found = sorted(
            (i for f in program.functions.values() for i in f.code if line_column(i) in locations), key=line_column
        )
        file, _, number = place.rpartition(":")
        first = found[0].source if file else found[0].span
        if number.isdecimal() and first is not None and first[1] != int(number):
            self.say(f"{place if file else f'line {place}'} has no code; the next that has:")
        for instruction in found:
            self._line(instruction.span.line, instruction.source, instruction.text)

    def _line(self, line: int, source: tuple[str, int] | None, instruction: str) -> None:
        name = os.path.basename(self.session.kernel.module.program.file)
        self.say(f"line {line} of {name}{f', {source_name(source)}' if source is not None else ''}: {instruction}")

    def info_frame(self, text: str) -> None:
        """Show where the thread in focus stands."""
        self.say(self.console.whereabouts())

    def info_locals(self, text: str) -> None:
        """List parameters and variables of the current function and of the module."""
        scene = self.session.scene
        plan = scene.group.plan if scene.group is not None else self.session.timeline.state.plan.main
        for param in plan.function.params:
            if not param.registers:
                self._variable("param", param.name, param.type.name)
        spaces = {StateSpace.SHARED: "shared", StateSpace.LOCAL: "local", StateSpace.PARAM: "param"}
        for variable in [*plan.function.variables, *self.session.timeline.state.plan.program.variables]:
            self._variable(spaces.get(variable.space, variable.space.value), variable.name, variable.type.name)

    info_args = info_locals
    info_threads = info_warps

    def _variable(self, space: str, name: str, type: str) -> None:
        try:
            value = self.session.evaluate(name)
            data = np.asarray(value)
            shown = abridged(value)
            if data.ndim == 0 and data.dtype == np.uint64 and data >= 1 << 32:  # an address
                shown = hex(int(data))
        except DebugError as problem:
            shown = str(problem).splitlines()[0]
        self.say(f"  .{space} .{type} {name} = {shown}")

    def info_findings(self, text: str) -> None:
        """List the findings so far."""
        for finding in self.session.findings:
            self.say(f"{finding.severity}: {describe(finding)}")
        if not self.session.findings:
            self.say("No findings so far.")

    def info_barriers(self, text: str) -> None:
        """List barriers at which threads have arrived, and the waiting warps."""
        for barrier in self.session.barriers():
            name = "of the cluster" if barrier.number is None else str(barrier.number)
            waits = _waiting(barrier.waiting)
            self.say(f"  {cta(barrier.cta)}  barrier {name}: {barrier.arrived} of {barrier.expected} threads{waits}")
        if not self.session.barriers():
            self.say("No thread has arrived at a barrier.")

    def info_mbarriers(self, text: str) -> None:
        """List the mbarriers in use: phase, pending arrivals and bytes, waiting warps."""
        for found in self.session.mbarriers():
            waits = _waiting(found.waiting)
            self.say(
                f"  {cta(found.cta)}  {found.name} at 0x{found.address:x}: phase {found.phase}, lacks {found.pending} of"
                f" {plural(found.expected, 'arrival')} and {plural(found.bytes, 'byte')}{waits}"
            )
        if not self.session.mbarriers():
            self.say("No mbarriers are in use.")

    def info_async(self, text: str) -> None:
        """List copies and wgmma whose completion no thread has observed."""
        self._in_flight(wgmma=None)

    def info_wgmma(self, text: str) -> None:
        """List wgmma in flight, and the registers that they hold."""
        self._in_flight(wgmma=True)

    def _in_flight(self, *, wgmma: bool | None) -> None:
        found = [f for f in self.session.in_flight() if wgmma is None or bool(f.registers) == wgmma]
        for each in found:
            place = f"line {each.line}  " if each.line else ""
            self.say(f"  {place}{each.instruction}: {cta(each.cta)}, warp {each.warp}, lanes {each.lanes}")
            for verb, runs in (("writes", each.writes), ("reads", each.reads)):
                for where, start, nbytes in runs[:4]:
                    self.say(f"      {verb} shared 0x{start:x} to 0x{start + nbytes:x} of {cta(where)}")
                if len(runs) > 4:
                    self.say(f"      {verb} {len(runs) - 4} more ranges")
            if each.registers:
                self.say(
                    f"      holds {plural(len(each.registers), 'register')}, {each.registers[0]} to {each.registers[-1]}"
                )
            self.say(f"      until {each.until}")
        if not found:
            self.say("Nothing is in flight.")

    def info_display(self, text: str) -> None:
        """List the expressions shown at every stop."""
        for number, (what, option) in self.console.displays.items():
            self.say(f"{number:3}  {what}" + (f" /{option}" if option else ""))
        if not self.console.displays:
            self.say("No displays.")

    def info_program(self, text: str) -> None:
        """Show how far the launch has come."""
        session = self.session
        end = "; it has ended" if session.timeline.ended else ""
        n_copies = len(session.timeline.snapshots)
        copies = "1 copy" if n_copies == 1 else f"{n_copies} copies"
        self.say(
            f"{plural(session.stop.step, 'step')}, {plural(session.timeline.state.done_ctas, 'CTA')} of"
            f" {session.timeline.state.n_ctas} done{end}; {copies} of the state for going back, in"
            f" {plural(session.timeline.bytes, 'byte')} of at most {session.timeline.most_bytes:,}"
        )


def _waiting(warps: tuple[int, ...]) -> str:
    """Format the waiting warps."""
    if len(warps) == 1:
        return f"; warp {warps[0]} waits"
    return f"; warps {', '.join(map(str, warps))} wait" if warps else ""
