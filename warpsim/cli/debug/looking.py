"""Commands that show values and code, and most subcommands of ``info``."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence

import numpy as np

from warpsim.cli.debug.console import (
    LETTERS,
    Commands,
    count_of,
    equation,
    formatter,
    grid,
    number_of,
    plain,
    short,
    show,
)
from warpsim.cli.debug.table import command
from warpsim.debug import Call, DebugError, InFlight
from warpsim.debug import expressions as ex
from warpsim.debug.breakpoints import resolve
from warpsim.debug.threads import cta_text
from warpsim.debug.waiting import shared_name
from warpsim.errors import describe, plural, source_name
from warpsim.machine.values import Array
from warpsim.program.mangling import qualified_name
from warpsim.program.program import line_column
from warpsim.types import TYPES

AROUND = 5
LONGEST = 256
"""Most characters of a text that are shown."""
UNITS = {"b": 1, "h": 2, "w": 4, "g": 8}

FORMAT = re.compile(r"(?:/(\S*))?\s*(.*)", re.DOTALL)
"""The format and what follows it; only for commands that take one: for others a slash may begin the name of a file."""


class Looking(Commands):
    """The print, x, display, list and backtrace commands."""

    # ---- values ------------------------------------------------------------------------------

    @command("look", "[/FORMAT] [EXPRESSION]", aliases="p inspect call", takes="expression")
    def do_print(self, text: str) -> None:
        """Show the value of EXPRESSION, per lane where lanes differ. A format is x, d, u, o, t, a, c, f or z as in
        gdb, or a type, as in print/f16x2 %r5. The value is kept as $1, $2 and so on; $ is the last one, which print
        alone shows again."""
        option, text = _formatted(text)
        if not text and not self.session.kept.history:
            raise DebugError("print EXPRESSION, for example %r1 + 4*%tid.x, s[3], f16x2(%r5).hi")
        text = text or "$"
        self.say(equation(text, self.value(text, option)))
        self.session.kept.keep(self.session.context.evaluate(ex.parse(text)))

    @command("look", "[/FORMAT] EXPRESSION", takes="expression")
    def do_output(self, text: str) -> None:
        """Show the value of EXPRESSION by itself: print without the name, and without keeping it."""
        option, text = _formatted(text)
        self.say(self.value(text, option).lstrip("\n"))

    def value(self, text: str, option: str) -> str:
        """Format the value of an expression."""
        if option in TYPES:
            return show(self.session.evaluate(f"{option}({text})"))
        if option and (len(option) > 1 or option not in LETTERS):
            formatter(option)
        value, of = self.session.context.typed(text)
        named = None if option else self.session.texture(value)
        return show(value, option, of) if named is None else f"{show(value, 'x')} <{named}>"

    @command("look", "[/NFU] PLACE", takes="expression")
    def do_x(self, text: str) -> None:
        """Show N elements of memory in format F and units of b, h, w or g: 1, 2, 4 or 8 bytes. A place is an object,
        an address, or a state space and an address: x/8xw &s, x/4f out, x shared 0x40. x/4i $pc shows four
        instructions, x/s a text."""
        option, text = _formatted(text)
        if option.endswith("i"):
            self.say(self.instructions(text, option))
            return
        if option == "s":
            self._text(text)
            return
        found = re.fullmatch(r"(\d{0,6})([a-z]*)", option)
        if found is None:
            raise DebugError(f"x/NFU: a number, a format, a unit, not /{option[:20]}")
        letters = [c for c in found[2] if c in LETTERS]
        units = [c for c in found[2] if c in UNITS]
        if len(letters) + len(units) != len(found[2]) or len(letters) > 1 or len(units) > 1:
            raise DebugError(f"/{found[2]} is not a format and unit: {LETTERS} and {''.join(UNITS)}")
        letter = letters[0] if letters else "x"
        space, address = self._place(text or "$_" * ("$_" in self.session.kept.named))
        size, count = UNITS[units[0]] if units else 4, int(found[1] or 1)
        raw = self.session.memory(space, address, size * count)
        one, data = formatter(letter), np.frombuffer(raw, f"u{size}")
        across = 16 // size
        for start in range(0, count, across):
            row = "  ".join(one(value) for value in data[start : start + across])
            self.say(f"{space} 0x{address + start * size:x}:  {row}")
        if count:
            self.session.set("$_", address + (count - 1) * size)
            self.session.set("$__", int(data[-1]))

    def _text(self, text: str) -> None:
        """Show the characters of a place up to a zero, as C's text."""
        space, address = self._place(text)
        raw = b""
        while len(raw) < LONGEST and not raw.endswith(b"\0"):
            raw += self.session.memory(space, address + len(raw), 1)
        said = raw.removesuffix(b"\0").decode("latin-1").encode("unicode_escape").decode().replace('"', '\\"')
        self.say(f'{space} 0x{address:x}:  "{said}"' + ("..." if not raw.endswith(b"\0") else ""))

    def instructions(self, text: str, option: str) -> str:
        """Instructions from a PTX line, a label or a function on; an arrow marks the one that comes next."""
        digits = option[:-1] or "1"
        if not (digits.isascii() and digits.isdigit() and len(digits) < 6):
            raise DebugError(f"x/Ni: a number of instructions, not /{option[:20]}")
        session, program = self.session, self.session.program
        number = (text or "$pc").lstrip("(")[:1] in "$0123456789"  # not a label or a function
        place = self.console.place(f"*{text or '$pc'}") if number else text
        (first, column), *_ = sorted(resolve(program, place, session.function))
        calls = session.where()
        here = calls[session.frame].line if calls else 0
        names = {
            id(i): f"{qualified_name(f.name)}+{n}" for f in program.functions.values() for n, i in enumerate(f.code)
        }
        found = [i for i in session.code if line_column(i) >= (first, column)][: int(digits)]
        return "\n".join(
            f"{'=>' if i.span.line == here else '  '} {i.span.line} <{names[id(i)]}>:  "
            + program.lines[i.span.line - 1].strip().expandtabs(1)
            for i in found
        )

    def _place(self, text: str) -> tuple[str, int]:
        """Parse a place: an expression with an address, or a state space and an address."""
        if not text:
            raise DebugError("x PLACE, for example &s, s[4], out, shared 0x40")
        word, _, rest = text.partition(" ")
        if word in ex.SPACES and rest.strip():
            return word, self._number(rest)
        node = ex.parse(text)
        inner = node.left if isinstance(node, ex.Operation) and (node.operator, node.right) == ("&", None) else node
        at = self.session.context.lvalue(inner)
        if at is not None and at.space != "param":
            address = at.address[self.session.thread.lane] if isinstance(at.address, np.ndarray) else at.address
            return at.space, int(address)
        return "generic", self._number(text)

    def _number(self, text: str) -> int:
        value = np.ma.getdata(self.session.evaluate(text))
        one = value if value.ndim == 0 else value[self.session.thread.lane] if value.shape == (32,) else None
        if one is None or not isinstance(plain_number := np.asarray(one).item(), int):
            raise DebugError(f"{text[:40]} is not an address")
        return plain_number

    @command("look", "[/FORMAT] [EXPRESSION]", aliases="disp", takes="expression")
    def do_display(self, text: str) -> None:
        """Show the value of EXPRESSION at every stop. Without EXPRESSION, show all displays now; display/i $pc shows
        the next instruction."""
        option, text = _formatted(text)
        if not text:
            self.show_displays()
            return
        shown = self._displayed(text, option)
        number = max(self.console.displays, default=0) + 1
        self.console.displays[number] = text, option
        self.say(equation(f"{number}: {text}", shown))

    def _displayed(self, text: str, option: str) -> str:
        return "\n" + self.instructions(text, option) if option.endswith("i") else self.value(text, option)

    @command("look", "[N...]")
    def do_undisplay(self, text: str) -> None:
        """Delete displays by number. Without a number, delete all of them."""
        for word in text.split():
            if self.console.displays.pop(number_of(word, "a display"), None) is None:
                raise DebugError(f"no display {word}")
        if not text:
            self.console.displays.clear()

    def show_displays(self) -> None:
        """Show all displays."""
        for number, (text, option) in self.console.displays.items():
            try:
                self.say(equation(f"{number}: {text}", self._displayed(text, option)))
            except DebugError as problem:
                self.say(f"{number}: {text}: {str(problem).splitlines()[0]}")

    @command("look", "OPERAND[R,C]")
    def do_matrix(self, text: str) -> None:
        """Show operand a, b, c, d or e of the matrix instruction here, or of the one before. With [R,C], show that
        element, and the lane and register that hold it."""
        found = re.fullmatch(r"\s*([a-z_]{1,10})\s*(?:\[\s*(\d{1,6})\s*,\s*(\d{1,6})\s*\])?\s*", text.lower())
        if found is None:
            raise DebugError("matrix OPERAND, or matrix OPERAND[row,column]: for example matrix a, matrix d[3,7]")
        matrix = self.session.matrix(found[1])
        if found[2] is not None:
            row, column = int(found[2]), int(found[3])
            owner = matrix.owner(row, column)
            self.say(f"{found[1]}[{row},{column}] = {plain(np.ma.getdata(matrix.values)[row, column])}, {owner}")
            return
        rows, columns = matrix.values.shape
        note = f"; {matrix.note}" if matrix.note else ""
        self.say(
            f"{matrix.name} of {matrix.instruction} in line {matrix.line}, {rows} x {columns} ({' x '.join(matrix.axes)}){note}"
        )
        for line in grid(matrix.values):
            self.say(line)

    @command("look", "[/FORMAT] [LANES,COLUMNS]")
    def do_tensor(self, text: str) -> None:
        """Show tensor memory of the CTA in focus, of which dashes are not allocated: tensor 0-31,0-7, or /f for f32.
        Without lanes and columns, say which columns are allocated."""
        option, text = _formatted(text)
        cells = self.session.tensor_memory()
        if not text.strip():
            given = np.flatnonzero(~np.ma.getmaskarray(cells)[0])
            self.say(f"{len(given)} columns are allocated" + (f", {given[0]} to {given[-1]}." if len(given) else "."))
            return
        found = re.fullmatch(r"\s*(\d{1,3})(?:-(\d{1,3}))?\s*,\s*(\d{1,3})(?:-(\d{1,3}))?\s*", text)
        if found is None or option not in ("", "f", "x", "d", "u"):
            raise DebugError("tensor LANES,COLUMNS, for example tensor 0-31,0-7; /f, /x, /d or /u is how")
        lane, last, column, end = (int(part) if part else -1 for part in found.groups())
        part = cells[lane : max(last, lane) + 1, column : max(end, column) + 1]
        if not part.size:
            raise DebugError("tensor memory has lanes 0 to 127 and columns 0 to 511")
        dtype = {"f": np.float32, "d": np.int32}.get(option, np.uint32)
        self.console.say_all(grid(part.view(dtype), first=(lane, column), hexadecimal=option == "x"), "")

    @command("look", "WHAT [DEPTH]", takes="expression")
    def do_origin(self, text: str) -> None:
        """Show the step that gave a register, a variable or memory its value, and what that step read. With DEPTH,
        follow the chain so many steps back."""
        words = text.rsplit(None, 1)
        deep = len(words) == 2 and words[1].isascii() and words[1].isdigit() and len(words[1]) < 4
        what, depth = (words[0], int(words[1])) if deep else (text, 1)
        if not what:
            raise DebugError("origin WHAT [DEPTH], for example origin %r3, origin s[5] 3")
        self.say(str(self.session.origin(what, depth)))

    # ---- text --------------------------------------------------------------------------------

    @command("look", aliases="bt where")
    def do_backtrace(self, text: str) -> None:
        """Show the calls of the thread in focus, innermost first. A star marks the selected frame."""
        selected = self.session.frame or None
        calls = enumerate(self.session.where())
        lines = (f"{'*' if number == selected else '#'}{number}  {call_text(call)}" for number, call in calls)
        self.console.say_all(lines, f"{self.session.thread} is not running.")

    @command("look", "[N]", aliases="f")
    def do_frame(self, text: str) -> None:
        """Show where the thread in focus stands. With N, select that frame: print, set and list then refer to its
        registers, variables and code."""
        if text:
            self._select(number_of(text, "a frame"))
            return
        self.say(self.console.whereabouts())
        calls = self.session.where()
        if calls:
            call = calls[self.session.frame]
            self.say(f"{call.line:6}  {call.text.expandtabs(1)}")

    @command("look", "[N]")
    def do_up(self, text: str) -> None:
        """Select the caller, N times (1)."""
        self._select(self.session.frame + count_of(text))

    @command("look", "[N]", aliases="dn")
    def do_down(self, text: str) -> None:
        """Select the function that this one called, N times (1)."""
        self._select(self.session.frame - count_of(text))

    def _select(self, frame: int) -> None:
        call = self.session.select(frame)
        self.console.listed = None
        self.say(f"#{frame}  {call_text(call)}")

    @command("look", "PREFIX")
    def do_registers_of(self, text: str) -> None:
        """Show the registers whose names begin with PREFIX, per lane."""
        for name, values in self.session.registers.items():
            if name.startswith(text):
                self.say(equation(name, show(values)))


def call_text(call: Call) -> str:
    """Format a call on one line."""
    source = f" at {source_name(call.source)}" if call.source is not None else ""
    return f"{qualified_name(call.function)}, line {call.line}{source}: {call.text}"


def _formatted(text: str) -> tuple[str, str]:
    found = FORMAT.fullmatch(text)
    assert found is not None
    return found[1] or "", found[2]


# ---- info ---------------------------------------------------------------------------------------


class Infos(Commands):
    """info registers, lanes, warps, line, locals, findings ..."""

    @command("look", "[NAME]", takes="expression")
    def info_registers(self, text: str) -> None:
        """List the registers that have been written, those changed since the last stop with a star. With a name, or
        a pattern such as %r1*, show values per lane."""
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
        lines = (self._register_line(name, values) for name, values in held.items())
        self.console.say_all(lines, "No register has been written yet.")

    def _register_line(self, name: str, values: Array) -> str:
        """Format a register on one line, marked if it changed since the last stop."""
        old = self.console.previous.get(name)
        changed = old is None or old.tobytes() != values.tobytes()
        return f"{'*' if changed and self.console.previous else ' '} {name:>12}  {short(values)}"

    @command("look")
    def info_all(self, text: str) -> None:
        """Show the position, the registers and the locals."""
        self.say(self.console.whereabouts())
        self.info_registers("")
        self.console.execute("info locals")

    @command("look")
    def info_lanes(self, text: str) -> None:
        """Show where the lanes of the warp in focus stand."""
        focus = self.session.thread
        lines = (
            f"  lanes {part.lanes:<12} line {part.line:5}  {part.instruction}  {qualified_name(part.function)}, {part.state}"
            for part in self.session.warps()
            if (part.cta, part.warp) == (focus.cta, focus.warp)
        )
        self.console.say_all(lines, f"CTA {focus.cta}, warp {focus.warp} is not running.")

    @command("look", aliases="threads")
    def info_warps(self, text: str) -> None:
        """Show where the warps of the running CTAs stand."""
        focus = self.session.thread
        for part in self.session.warps():
            mark = "*" if (part.cta, part.warp) == (focus.cta, focus.warp) else " "
            self.say(
                f"{mark} {cta_text(part.cta)}  warp {part.warp:2}  lanes {part.lanes:<10}  line {part.line:5}  {part.instruction}, {part.state}"
            )

    @command("look", "[PLACE]", takes="place")
    def info_line(self, text: str) -> None:
        """Show the PTX line and the CUDA line of the next instruction, or those of a place: a PTX line, file.cu:N, a
        label, a function, op:PATTERN."""
        stop = self.session.stop
        if text:
            self._lines_of(text)
        elif stop.line is None or stop.instruction is None:
            raise DebugError("no thread is running")
        else:
            self._line(stop.line, stop.source, stop.instruction)

    def _lines_of(self, place: str) -> None:
        locations = resolve(self.session.program, place, self.session.function)
        found = [i for i in self.session.code if line_column(i) in locations]
        file, _, number = place.rpartition(":")
        first = found[0].source if file else found[0].span
        if number.isdecimal() and first is not None and first[1] != int(number):
            self.say(f"{place if file else f'line {place}'} has no code; the next that has:")
        for instruction in found:
            self._line(instruction.span.line, instruction.source, instruction.text)

    def _line(self, line: int, source: tuple[str, int] | None, instruction: str) -> None:
        name = os.path.basename(self.session.program.file)
        self.say(f"line {line} of {name}{f', {source_name(source)}' if source is not None else ''}: {instruction}")

    @command("look")
    def info_frame(self, text: str) -> None:
        """Show where the thread in focus stands."""
        self.say(self.console.whereabouts())

    @command("look")
    def info_source(self, text: str) -> None:
        """Show the CUDA file of the next instruction, and all files that have code."""
        stop = self.session.stop
        if stop.source is not None:
            self.say(f"Current source file is {stop.source[0]}")
        files = sorted({i.source[0] for i in self.session.code if i.source is not None})
        self.console.say_all((f"  {name}" for name in files), "No line information: compile with -lineinfo.")

    @command("look", "ADDRESS", takes="expression")
    def info_symbol(self, text: str) -> None:
        """Name what lies at an address: a variable of shared memory, an array or a variable of global memory."""
        address, state = self._address(text), self.session.timeline.state
        found = state.memory.nearest(address)
        if found is not None and found[1] == 0:
            self.say(f"{found[0].name} + {address - found[0].start} in global memory")
            return
        machine = self.session.context.machine
        name = shared_name(machine, address) if machine is not None and 0 <= address < state.shared_size else ""
        self.say(f"{name} in shared memory" if name and not name.startswith("0x") else f"No symbol matches {text}.")

    def _address(self, text: str) -> int:
        value = np.ma.getdata(self.session.evaluate(text)) if text else np.zeros(0)
        if value.ndim or value.dtype.kind not in "iu":
            raise DebugError("info symbol ADDRESS, for example info symbol &tile[3]")
        return int(value)

    @command("look")
    def info_findings(self, text: str) -> None:
        """List the findings so far."""
        found = (f"{finding.severity}: {describe(finding)}" for finding in self.session.findings)
        self.console.say_all(found, "No findings so far.")

    @command("look")
    def info_barriers(self, text: str) -> None:
        """List the barriers at which threads have arrived, and the warps that wait."""
        lines = (
            f"  {cta_text(each.cta)}  barrier {'of the cluster' if each.number is None else each.number}: {each.arrived} of"
            f" {each.expected} threads{_waiting(each.waiting)}"
            for each in self.session.barriers()
        )
        self.console.say_all(lines, "No thread has arrived at a barrier.")

    @command("look")
    def info_mbarriers(self, text: str) -> None:
        """List the mbarriers in use with their phase, the arrivals and bytes that they lack, and the warps that
        wait."""
        lines = (
            f"  {cta_text(each.cta)}  {each.name} at 0x{each.address:x}: phase {each.phase}, lacks {each.pending} of"
            f" {plural(each.expected, 'arrival')} and {plural(each.bytes, 'byte')}{_waiting(each.waiting)}"
            for each in self.session.mbarriers()
        )
        self.console.say_all(lines, "No mbarriers are in use.")

    @command("look")
    def info_textures(self, text: str) -> None:
        """List the textures, samplers and surfaces in memory by their handles: what they are and where their elements lie."""
        lines = (f"  0x{each.handle:x}  {each.name}: {each}" for each in self.session.textures())
        self.console.say_all(lines, "No textures are in memory.")

    @command("look")
    def info_async(self, text: str) -> None:
        """List the copies and wgmma whose completion no thread has observed."""
        self._in_flight(self.session.in_flight())

    @command("look")
    def info_wgmma(self, text: str) -> None:
        """List the wgmma in flight, and the registers that they hold."""
        self._in_flight([each for each in self.session.in_flight() if each.registers])

    def _in_flight(self, found: Sequence[InFlight]) -> None:
        for each in found:
            place = f"line {each.line}  " if each.line else ""
            self.say(f"  {place}{each.instruction}: {cta_text(each.cta)}, warp {each.warp}, lanes {each.lanes}")
            for verb, runs in (("writes", each.writes), ("reads", each.reads)):
                for where, start, nbytes in runs[:4]:
                    self.say(f"      {verb} shared 0x{start:x} to 0x{start + nbytes:x} of {cta_text(where)}")
                if len(runs) > 4:
                    self.say(f"      {verb} {len(runs) - 4} more ranges")
            for text in each.tensor:
                self.say(f"      {text}")
            if each.registers:
                self.say(
                    f"      holds {plural(len(each.registers), 'register')}, {each.registers[0]} to {each.registers[-1]}"
                )
            self.say(f"      until {each.until}")
        if not found:
            self.say("Nothing is in flight.")

    @command("look")
    def info_display(self, text: str) -> None:
        """List the expressions that are shown at every stop."""
        shown = self.console.displays.items()
        lines = (f"{number:3}  {what}" + (f" /{option}" if option else "") for number, (what, option) in shown)
        self.console.say_all(lines, "No displays.")

    @command("look")
    def info_program(self, text: str) -> None:
        """Show how far the launch has come, and what going back costs."""
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
    if len(warps) == 1:
        return f"; warp {warps[0]} waits"
    return f"; warps {', '.join(map(str, warps))} wait" if warps else ""
