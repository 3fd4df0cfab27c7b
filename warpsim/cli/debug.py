"""The debugger's prompt."""

from __future__ import annotations

import cmd
import sys
from argparse import Namespace
from typing import Any

import numpy as np

from warpsim.errors import ExecutionError, PtxError
from warpsim.machine.group import Group
from warpsim.observe.debugger import Debugger, Quit, label_line, register_values, whereabouts
from warpsim.observe.matrices import operand_matrix
from warpsim.program.program import Instruction


class Prompt(cmd.Cmd):
    """Commands at a stop."""

    prompt = "(warpsim) "

    def __init__(self, debugger: Debugger, instruction: Instruction, group: Group) -> None:
        super().__init__()
        self.debugger = debugger
        self.instruction = instruction
        self.group = group
        self.lines = group.batch.launch.image.program.lines

    def emptyline(self) -> bool:
        """Enter steps."""
        return self.do_step("")

    def do_step(self, argument: str) -> bool:
        """step: execute one instruction and stop again."""
        self.debugger.stepping = True
        return True

    def do_continue(self, argument: str) -> bool:
        """continue: run to the next breakpoint."""
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

    def do_print(self, argument: str) -> None:
        """print %REG [lane] [x|d|f]: a register of the first warp, by lane, in hex or by its type."""
        words = argument.split()
        found = register_values(self.group, words[0]) if words else None
        if found is None:
            print(f"no register {argument}")
            return
        name, values = found
        style = words[-1] if words[-1] in ("x", "d", "f") else ""
        lanes = [int(w) for w in words[1:] if w.isdigit()]
        chosen = [values[n] for n in lanes if n < len(values)] if lanes else list(values)
        print(f".{name}:", *(_shown(v, style) for v in chosen))

    def do_memory(self, argument: str) -> None:
        """memory ADDRESS [COUNT]: 32-bit words of global memory."""
        words = argument.split()
        try:
            address, count = int(words[0], 0), int(words[1]) if len(words) > 1 else 4
        except (IndexError, ValueError):
            print("memory ADDRESS [COUNT]")
            return
        allocation = self.group.batch.launch.memory.find(address, address + 4 * count)
        if allocation is None:
            print("outside any live allocation")
            return
        start = address - allocation.start
        data = np.frombuffer(allocation.data[start : start + 4 * count].tobytes(), np.uint32)
        print(f"0x{address:x} in {allocation.name}:", *(f"0x{int(v):08x}" for v in data))

    def do_matrix(self, argument: str) -> None:
        """matrix OPERAND: an operand (a, b, c, d, ...) of a matrix instruction, of the first warp, as the matrix it is."""
        try:
            values = operand_matrix(self.group, self.instruction, argument.strip().lower())
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
        print(whereabouts(self.group))

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
    if style == "f" and len(raw) == 4:
        return str(np.frombuffer(raw, np.float32)[0])
    return str(value)


def _interact(debugger: Debugger, instruction: Instruction, group: Group) -> None:
    lines = group.batch.launch.image.program.lines
    print(f"{whereabouts(group)}\n{instruction.span.line:6} {lines[instruction.span.line - 1].strip()}")
    Prompt(debugger, instruction, group).cmdloop()


def run_debugger(options: Namespace) -> int:
    """Run a launch under the debugger; its exit status."""
    from warpsim.cli.commands import find_case, launch_from
    from warpsim.host.cases import run_case

    debugger = Debugger(_interact)
    try:
        if options.kind == "replay":
            result = run_case(find_case(options.case[0]), device=options.device, observer=debugger)
            print("equal in every bit" if result.bits_equal else result.error or "differs")
            return 0 if result.ok else 1
        launch_from(options, observer=debugger)
        return 0
    except (ExecutionError, PtxError) as problem:
        print(problem, file=sys.stderr)
        return 1
    except Quit:
        return 0
