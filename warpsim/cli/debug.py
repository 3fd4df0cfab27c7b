"""The debugger's prompt."""

from __future__ import annotations

import cmd
import contextlib
import sys
from argparse import Namespace
from typing import Any

import numpy as np

from warpsim.errors import ExecutionError, PtxError
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.observe.debugger import (
    Debugger,
    Quit,
    kept_registers,
    label_line,
    register_values,
    whereabouts,
)
from warpsim.observe.focus import Focus
from warpsim.observe.matrices import operand_matrix
from warpsim.program.program import Instruction, Register


class Prompt(cmd.Cmd):
    """Commands at a stop."""

    prompt = "(warpsim) "

    def __init__(self, debugger: Debugger, instruction: Instruction, machine: Machine, group: Group) -> None:
        super().__init__()
        self.debugger = debugger
        self.instruction = instruction
        self.machine = machine
        self.group = group
        self.lines = machine.launch.plan.program.lines

    def emptyline(self) -> bool:
        """Enter steps."""
        return self.do_step("")

    def do_step(self, argument: str) -> bool:
        """step: execute one instruction of this warp and stop again (also: Enter)."""
        self.debugger.stepping = True
        return True

    def do_next(self, argument: str) -> bool:
        """next: like step, but a called function runs as a whole."""
        self.debugger.stepping, self.debugger.depth = True, len(self.group.stack)
        return True

    def do_continue(self, argument: str) -> bool:
        """continue: run to the next breakpoint or the next change of a watched register."""
        return True

    def do_break(self, argument: str) -> None:
        """break LINE or break LABEL; without argument, list them."""
        if argument:
            line = int(argument) if argument.isdigit() else label_line(self.group, argument)
            if line is None:
                print(f"no label {argument}")
                return
            self.debugger.breakpoints.add(line)
        print("breakpoints:", *sorted(self.debugger.breakpoints))

    def do_delete(self, argument: str) -> None:
        """delete LINE or delete %REG: a breakpoint or a watch; without argument, all of them."""
        if not argument:
            self.debugger.breakpoints.clear()
            self.debugger.watches.clear()
        self.debugger.breakpoints.discard(int(argument) if argument.isdigit() else -1)
        self.debugger.watches.discard(argument)
        print("breakpoints:", *sorted(self.debugger.breakpoints), "watches:", *sorted(self.debugger.watches))

    def do_watch(self, argument: str) -> None:
        """watch %REG: stop behind the instruction that changes it in this warp."""
        if self._register(argument) is not None:
            self.debugger.watches.add(argument)
            print("watches:", *sorted(self.debugger.watches))

    def do_focus(self, argument: str) -> None:
        """focus WARP, or focus X,Y,Z WARP: the warp (of that CTA) that step, print and watch mean from now on."""
        words = argument.split()
        try:
            cta = [int(word) for word in words[0].split(",")] if len(words) == 2 else list(self.focus.cta)
            x, y, z = (*cta, 0, 0)[:3]
            chosen = Focus((x, y, z), int(words[-1]))
        except (IndexError, ValueError):
            print("focus WARP, or focus X,Y,Z WARP")
            return
        self.debugger.focus = chosen
        here = "" if chosen.stands_in(self.machine, self.group) else ": it stands elsewhere, step goes there"
        print(f"CTA {chosen.cta}, warp {chosen.warp}{here}")

    def do_print(self, argument: str) -> None:
        """print %REG [LANE...] [x|d|f]: a register of the warp by lane, in its type, or x: hex, d: signed, f: float."""
        words = argument.split()
        register = self._register(words[0] if words else "")
        if register is None:
            return
        if register not in kept_registers(self.group):
            print(f"{register.name} holds nothing that is still needed: its value has not been kept")
            return
        values, here = register_values(self.machine, self.group, self.focus, register)
        style = words[-1] if words[-1] in ("x", "d", "f") else ""
        lanes = [int(word) for word in words[1:] if word.isdigit() and int(word) < 32] or range(32)
        shown = [_shown(values[lane], style) if here[lane] else "-" for lane in lanes]
        if len(shown) == 32 and len(set(shown)) == 1:
            shown = ["all lanes", shown[0]]
        print(f".{register.type.name}:", *shown)

    def do_registers(self, argument: str) -> None:
        """registers [PREFIX]: what every register holds whose value is still needed, in the first lane and the last."""
        for register in kept_registers(self.group):
            if register.name.startswith(argument.strip()):
                values, here = register_values(self.machine, self.group, self.focus, register)
                if here.any():
                    shown = [_shown(value, "") for value in values[here]]
                    spread = shown[0] if len(set(shown)) == 1 else f"{shown[0]} .. {shown[-1]}"
                    print(f"{register.name:>10} .{register.type.name:<6} {spread}")

    def _register(self, name: str) -> Register | None:
        found = next((r for r in self.group.plan.function.registers if r.name == name), None)
        if found is None:
            print(f"no register {name} in {self.group.plan.function.name}")
        return found

    @property
    def focus(self) -> Focus:
        """The warp that commands mean."""
        assert self.debugger.focus is not None
        return self.debugger.focus

    def do_memory(self, argument: str) -> None:
        """memory ADDRESS [COUNT]: 32-bit words of global memory."""
        words = argument.split()
        try:
            address, count = int(words[0], 0), int(words[1]) if len(words) > 1 else 4
        except (IndexError, ValueError):
            print("memory ADDRESS [COUNT]")
            return
        allocation = self.machine.launch.memory.find(address, address + 4 * count)
        if allocation is None:
            print("outside any live allocation")
            return
        start = address - allocation.start
        data = np.frombuffer(allocation.data[start : start + 4 * count].tobytes(), np.uint32)
        print(f"0x{address:x} in {allocation.name}:", *(f"0x{int(v):08x}" for v in data))

    def do_matrix(self, argument: str) -> None:
        """matrix OPERAND: an operand (a, b, c, d, ...) of a matrix instruction, of this warp, as the matrix it is."""
        try:
            values = operand_matrix(self.machine, self.group, self.focus, self.instruction, argument.strip().lower())
        except ValueError as problem:
            print(problem)
            return
        shown = values if values.dtype.kind in "iu" else values.astype(np.float64)
        print(np.array2string(shown, max_line_width=160, threshold=4096, precision=4, suppress_small=True))

    def do_list(self, argument: str) -> None:
        """list: the text around the present line."""
        line = self.instruction.span.line
        for number in range(max(line - 4, 1), min(line + 5, len(self.lines) + 1)):
            print(f"{'>' if number == line else ' '}{number:5} {self.lines[number - 1].expandtabs(4)}")

    def do_where(self, argument: str) -> None:
        """where: function, CTA, warp, lanes."""
        print(whereabouts(self.machine, self.group, self.focus))

    def do_quit(self, argument: str) -> bool:
        """quit: end the launch."""
        raise Quit

    def do_EOF(self, argument: str) -> bool:
        """End of input ends the launch."""
        raise Quit


def _shown(value: Any, style: str) -> str:
    raw = value.tobytes()
    if style == "x":
        return f"0x{int.from_bytes(raw, 'little'):0{2 * len(raw)}x}"
    if style in ("d", "f") and len(raw) in (2, 4, 8):
        return str(np.frombuffer(raw, f"{'i' if style == 'd' else 'f'}{len(raw)}")[0])
    return str(value)


def _interact(debugger: Debugger, instruction: Instruction, machine: Machine, group: Group) -> None:
    lines = machine.launch.plan.program.lines
    if debugger.reason:
        print(debugger.reason)
    assert debugger.focus is not None
    print(
        f"{whereabouts(machine, group, debugger.focus)}\n{instruction.span.line:6} {lines[instruction.span.line - 1].strip()}"
    )
    Prompt(debugger, instruction, machine, group).cmdloop()


def run_debugger(options: Namespace) -> int:
    """Run a launch under the debugger; its exit status. With ``--json`` the dialogue goes to standard error."""
    from warpsim.cli.commands import failed, print_case, report_cases, report_launch
    from warpsim.cli.launching import launch_from, launch_options
    from warpsim.cli.programs import find_case
    from warpsim.host.cases import run_case

    watched: dict[str, Any] = {"watchers": [Debugger(_interact)], "progress": None}
    dialogue = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
    try:
        if options.kind == "replay":
            with dialogue:
                given = {**launch_options(options), **watched}
                path = find_case(options.case[0])
                result = run_case(path, device=options.device, numerics=options.numerics, **given)
            if not options.json:
                print_case(result, options.bits)
            return report_cases([result], options)
        with dialogue:
            launch = launch_from(options, **watched)
        return report_launch(launch, options.json)
    except (ExecutionError, PtxError) as problem:
        return failed(problem, options.json)
    except Quit:
        return 0
