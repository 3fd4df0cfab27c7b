"""Commands that show the text of CUDA files and of the module."""

from __future__ import annotations

import os
import re

from warpsim.cli.debug.console import Commands, number_of
from warpsim.cli.debug.table import command
from warpsim.debug import DebugError
from warpsim.debug.breakpoints import resolve, same_file
from warpsim.debug.symbols import symbols_of
from warpsim.errors import source_lines, source_text

AROUND = 5


class Sources(Commands):
    """The list and disassemble commands."""

    @command("look", "[PLACE]", aliases="l", takes="place")
    def do_list(self, text: str) -> None:
        """Show the CUDA code around the current line; without it, PTX. Repeat it to continue. A place is a line or a
        range of the file shown (list 12, list 5,20), file.cu:12, file.cu:5,20, a function, or - for the lines before."""
        if text in ("", "-"):
            self._further(back=text == "-")
            return
        place, comma, last = text.partition(",")
        file, first = self._place(place.strip())
        if comma:
            self._show(file, first, number_of(last.strip(), "a line") if last.strip() else first + 2 * AROUND)
        else:
            self._show(file, first - AROUND, first + AROUND, named=first)

    @command("look", "[PLACE]", aliases="disas", takes="place")
    def do_disassemble(self, text: str) -> None:
        """Show the PTX around the current line, or around a line of the module, a label or a function."""
        program, calls = self.session.program, self.session.where()
        here = calls[self.session.frame].line if calls else self.session.stop.line or 1
        if text.isascii() and text.isdigit():
            here = number_of(text, "a line")
        elif text:
            here = min(resolve(program, text, self.session.function))[0]
        self._show(program.file, here - AROUND, here + AROUND, named=here)

    def _current(self) -> tuple[str, int]:
        """The CUDA line of the selected frame if its file can be read, else its PTX line."""
        calls, program = self.session.where(), self.session.program
        call = calls[self.session.frame] if calls else None
        if call is not None and call.source is not None and source_lines(call.source[0], program.file):
            return call.source
        return program.file, call.line if call is not None else self.session.stop.line or 1

    def _further(self, *, back: bool) -> None:
        """Show the lines behind those shown last, or before them."""
        if self.console.listed is None:
            file, here = self._current()
            self._show(file, here - AROUND, here + AROUND, named=here)
            return
        file, first, behind = self.console.listed
        if back and first == 1:
            raise DebugError("this is the start of the file")
        if not back and behind > len(self._lines(file)):
            raise DebugError(f"{self._named(file)} has {len(self._lines(file))} lines")
        self._show(file, *((max(first - 2 * AROUND - 1, 1), first - 1) if back else (behind, behind + 2 * AROUND)))

    def _place(self, text: str) -> tuple[str, int]:
        """The file and the line that a text names."""
        program, shown = self.session.program, self.console.listed
        if text.isascii() and text.isdigit():
            return shown[0] if shown is not None else self._current()[0], number_of(text, "a line")
        found = re.fullmatch(r"(.+):([0-9]{1,9})", text)
        if found is not None and found[1].rpartition(":")[0][-1:] != ":":
            return self._file(found[1]), int(found[2])
        entered = symbols_of(program).entered(text)
        if not entered and text not in program.functions:
            raise DebugError(f"expected the number of a line, file.cu:N or a function, not {text[:40]!r}")
        first = entered[0] if entered else program.functions[text].code[0]
        return first.source if first.source is not None else (program.file, first.span.line)

    def _file(self, name: str) -> str:
        """The file that a name means: one that code is from, or the module's."""
        known = {i.source[0] for i in self.session.code if i.source is not None}
        calls = {place[0] for i in self.session.code for place in i.inlined_at}
        for file in (self.session.program.file, *sorted(known | calls)):
            if same_file(file, name):
                return file
        return name

    def _lines(self, file: str) -> list[str]:
        program = self.session.program
        lines = list(program.lines) if file == program.file else source_lines(file, program.file)
        if not lines:
            raise DebugError(f"cannot read {file}")
        return lines

    def _named(self, file: str) -> str:
        return "the module" if file == self.session.program.file else os.path.basename(file)

    def _show(self, file: str, first: int, last: int, named: int | None = None) -> None:
        """Show lines of a file; a mark is at the current one, and PTX has its CUDA lines between."""
        lines, program = self._lines(file), self.session.program
        asked = first if named is None else named
        if not 1 <= max(asked, named is None) <= len(lines):
            raise DebugError(f"there is no line {asked}: {self._named(file)} has {len(lines)} lines")
        first = max(first, 1)
        last = min(max(last, first + 2 * AROUND) if named is not None else last, len(lines))
        calls = self.session.where()
        call = calls[self.session.frame] if calls else None
        ptx, here = file == program.file, None
        if ptx:
            here = self.session.stop.line if call is None else call.line
        elif call is not None and call.source and call.source[0] == file:
            here = call.source[1]
        sources = {i.span.line: i.source for i in self.session.code} if ptx else {}
        shown: tuple[str, int] | None = None
        for number in range(first, last + 1):
            source = sources.get(number)
            if source is not None and source != shown:
                shown = source
                self.say(f"        {source_text(source, program.file)}")
            self.say(f"{'>' if number == here else ' '}{number:5}  {lines[number - 1].expandtabs(4)}".rstrip())
        self.console.listed = file, first, last + 1
