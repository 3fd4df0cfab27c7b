"""Line coverage of a session's launches, in PTX and CUDA, as lcov and as a page; the evidence for the bits of each form."""

from __future__ import annotations

import html
import os
from pathlib import Path

import attrs

from warpsim.errors import source_path
from warpsim.isa.evidence import EXACT, MEANING, MODELLED, RECORDED, RECOVERED, STATED
from warpsim.machine.fidelity import Executed, executed
from warpsim.machine.state.launch import LaunchState
from warpsim.program.program import Instruction
from warpsim.types import JsonObject

Counts = dict[str, dict[int, int]]


class Lines:
    """How often warps ran each line, by file; 0 for lines of the same kernels that did not run."""

    def __init__(self) -> None:
        self.counts: Counts = {}
        self.texts: dict[str, str] = {}

    def add(self, state: LaunchState) -> None:
        """Count a finished launch."""
        program = state.plan.program
        entry = state.plan.entry
        name = self._named(program.file, program.source)
        ran: dict[tuple[str, int], int] = {}
        """By place. A line runs as often as the most frequent of its instructions."""

        def note(instruction: Instruction, times: int) -> None:
            places = [(name, instruction.span.line)]
            file, line = instruction.source or ("", 0)
            if line:  # 0 is the compiler's word for code of no line
                places.append((source_path(file, program.file) or file, line))
            for place in places:
                ran[place] = max(ran.get(place, 0), times)

        for function in program.functions.values():
            if function is entry or not function.entry:
                for instruction in function.code:
                    note(instruction, 0)
        for block, times in state.counts.items():
            for instruction in block.instructions:
                note(instruction, times)
        for (file, line), times in ran.items():
            lines = self.counts.setdefault(file, {})
            lines[line] = lines.get(line, 0) + times

    def _named(self, file: str, text: str) -> str:
        """The name of a text: its file's, with a number where another text has taken that, as modules without a file do."""
        name, number = file, 1
        while self.texts.setdefault(name, text) != text:
            number += 1
            name = f"{file} {number}"
        return name

    def plain(self) -> JsonObject:
        """The counts as plain data, for another process."""
        return {"counts": self.counts, "texts": self.texts}

    def merge(self, other: JsonObject) -> None:
        """Add the counts of another process."""
        for file, lines in other["counts"].items():
            text = other["texts"].get(file)
            name = file if text is None else self._named(file, text)
            mine = self.counts.setdefault(name, {})
            for line, times in lines.items():
                mine[int(line)] = mine.get(int(line), 0) + times

    # ---- output ------------------------------------------------------------------------------

    def lcov(self) -> str:
        """Format the counts as an lcov tracefile, for ``genhtml``, editors and code hosts."""
        parts = ["TN:warpsim"]
        for file, lines in sorted(self.counts.items()):
            parts += [f"SF:{file}", *(f"DA:{line},{times}" for line, times in sorted(lines.items()))]
            parts += [f"LF:{len(lines)}", f"LH:{_hit(lines)}", "end_of_record"]
        return "\n".join(parts) + "\n"

    def page(self, base: Path) -> str:
        """Render all files on one page, with coloured lines."""
        rows, bodies = [], []
        for number, (file, lines) in enumerate(sorted(self.counts.items())):
            name = html.escape(_short(file, base))
            rows.append(
                f'<tr><td><a href="#f{number}">{name}</a></td><td>{_hit(lines)} of {len(lines)}</td>'
                f"<td>{100 * _hit(lines) / max(len(lines), 1):.1f} %</td></tr>"
            )
            bodies.append(f'<h2 id="f{number}">{name}</h2>\n<pre>{self._listing(file, lines)}</pre>')
        return _PAGE.format(rows="\n".join(rows), bodies="\n".join(bodies))

    def _listing(self, file: str, lines: dict[int, int]) -> str:
        text = self.texts.get(file)
        if text is None:
            try:
                text = Path(file).read_text(encoding="utf-8", errors="replace")
            except (OSError, ValueError):
                text = None
        if text is None:
            return "\n".join(_line(number, "", lines[number]) for number in sorted(lines))
        return "\n".join(_line(n, shown, lines.get(n)) for n, shown in enumerate(text.splitlines(), 1))

    def write(self, folder: Path) -> list[str]:
        """Write ``lcov.info`` and ``index.html``; returns the summary lines."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lcov.info").write_text(self.lcov(), encoding="utf-8", newline="\n")
        (folder / "index.html").write_text(self.page(Path.cwd()), encoding="utf-8", newline="\n")
        hit, every = (sum(f(lines) for lines in self.counts.values()) for f in (_hit, len))
        return [f"warpsim: {hit:,} of {every:,} lines of kernels ran: {_short(str(folder / 'index.html'), Path.cwd())}"]


def _hit(lines: dict[int, int]) -> int:
    return sum(times > 0 for times in lines.values())


def _short(file: str, base: Path) -> str:
    try:
        return os.path.relpath(file, base) if os.path.isabs(file) else file
    except ValueError:
        return file


def _line(number: int, text: str, times: int | None) -> str:
    kind = "" if times is None else ' class="hit"' if times else ' class="missed"'
    count = "" if times is None else f"{times:,}"
    return f"<span{kind}>{number:6} {count:>10}  {html.escape(text)}</span>"


_PAGE = """<!doctype html>
<meta charset="utf-8"><title>Lines of kernels that ran</title>
<style>
body {{ font: 14px sans-serif; margin: 2em; }} td {{ padding: 0 1em 0 0; }} pre {{ line-height: 1.3; }}
.hit {{ background: #dff5df; }} .missed {{ background: #fbdcdc; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #181818; color: #ddd; }} a {{ color: #8bf; }}
.hit {{ background: #143a14; }} .missed {{ background: #521b1b; }} }}
</style>
<h1>Lines of kernels that ran</h1>
<p>The number beside a line says how often warps ran it; red lines belong to a kernel that was launched, and no warp ran them.</p>
<table>
{rows}
</table>
{bodies}
"""


class Forms:
    """The executed instruction forms of launches, and how often warps executed each."""

    def __init__(self) -> None:
        self.counts: dict[Executed, int] = {}

    def add(self, state: LaunchState) -> None:
        """Count a finished launch."""
        for form in executed(state.counts, state.device.sm):
            self._count(form)

    def _count(self, form: Executed) -> None:
        key = attrs.evolve(form, count=0)
        self.counts[key] = self.counts.get(key, 0) + form.count

    def plain(self) -> list[JsonObject]:
        """The counts as plain data, for another process."""
        return [{**key.plain(), "count": count} for key, count in self.counts.items()]

    def merge(self, other: list[JsonObject]) -> None:
        """Add the counts of another process."""
        for record in other:
            self._count(Executed(**record))

    def summary(self) -> list[str]:
        """Summarise the forms by kind of evidence, and name those that are only modelled."""
        lines = []
        for standing in (RECORDED, RECOVERED, EXACT, MODELLED, STATED):
            forms = [key for key in self.counts if key.standing == standing]
            if forms:
                warps = sum(self.counts[key] for key in forms)
                lines.append(f"  {standing:9} {len(forms):4} forms, {warps:,} warp-instructions: {MEANING[standing]}")
            if standing == MODELLED:
                lines += [f"    {key.instruction} on sm_{key.sm}: {key.evidence}" for key in forms]
        return ["warpsim: what the executed instructions' bits rest on", *lines] if lines else []
