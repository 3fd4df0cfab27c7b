"""A profile as HTML, with counts beside the source lines."""

from __future__ import annotations

import html
from collections.abc import Iterable

from warpsim.errors import plural, source_lines, source_name
from warpsim.report import pages
from warpsim.report.counts import COLUMNS, Counts, Line, Tally, cells

BARS = {COLUMNS.index("warps"): "executions", COLUMNS.index("ms"): "seconds"}
"""Columns that show a bar, relative to the largest entry."""
EXPLAINED = (
    "warps: warp-instructions executed; lanes: threads per warp that passed the guard; partial: executions by only a part of a warp; "
    "diverged: warps that diverged there; conflicts: passes added by bank conflicts; sectors: 32-byte sectors per "
    "access to global memory; bytes: accessed and copied; ms: host time spent simulating"
)


def page(profile: Tally) -> str:
    """The whole PTX with its counts, and the CUDA lines."""
    return pages.page(f"profile of {profile.kernel}", _head(profile) + _body(profile, whole=True))


def fragment(profile: Tally) -> str:
    """The executed lines, for a notebook."""
    return pages.part(_head(profile) + _body(profile, whole=False))


def _head(profile: Tally) -> str:
    total = profile.total
    facts = [
        plural(total.executions, "warp-instruction"),
        plural(total.lanes, "thread-instruction"),
        f"grid {profile.grid}, block {profile.block}",
        profile.target,
        f"{total.conflicts:,} passes added by bank conflicts",
        f"{total.sectors:,} sectors",
    ]
    return f"<h1>{html.escape(profile.kernel)}</h1><p>{html.escape(' · '.join(facts))}</p><p>{EXPLAINED}</p>"


def _body(profile: Tally, *, whole: bool) -> str:
    out, sources = [], profile.by_source()
    for file in dict.fromkeys(line.file for line in sources):
        mine = [line for line in sources if line.file == file]
        out.append(_section(file, mine, source_lines(file, profile.file) if whole else []))
    out.append(_section(profile.file, profile.lines, profile.program if whole else []))
    conflicts = [line for line in profile.lines if line.conflict is not None]
    if conflicts:
        out.append("<h2>Worst bank conflicts</h2>")
        out += [f"<pre>{_place(line)}: {html.escape(str(line.conflict))}</pre>" for line in conflicts]
    return "".join(out)


def _place(line: Line) -> str:
    return f"line {line.number}" + (f" ({html.escape(source_name(line.source))})" if line.source else "")


def _section(file: str, lines: Iterable[Line], text: Iterable[str]) -> str:
    counted = {line.number: line for line in lines}
    most = {name: max((getattr(line.counts, name) for line in counted.values()), default=0) for name in BARS.values()}
    filled = [cells(line.counts) for line in counted.values()]
    used = [at for at in range(len(COLUMNS)) if any(row[at] for row in filled)]
    rows = [_row(number, words, counted.get(number), most, used) for number, words in enumerate(text, 1)]
    shown = len(rows)
    rows += [_row(number, line.text, line, most, used) for number, line in counted.items() if number > shown]
    return f"<h2>{html.escape(file)}</h2>{pages.table(['line', *(COLUMNS[at] for at in used), ''], rows)}"


def _row(number: int, text: str, line: Line | None, most: dict[str, float], used: list[int]) -> str:
    text = html.escape(text.expandtabs(4))
    if line is None:
        return f"<tr class=idle><td class=no>{number}</td>{'<td></td>' * len(used)}<td class=text>{text}</td></tr>"
    title = f' title="{html.escape(str(line.conflict))}"' if line.conflict else ""
    values = cells(line.counts)
    shown = "".join(_cell(at, values[at], line.counts, most) for at in used)
    return f"<tr{title}><td class=no>{number}</td>{shown}<td class=text>{text}</td></tr>"


def _cell(at: int, text: str, counts: Counts, most: dict[str, float]) -> str:
    if at in BARS and most[BARS[at]]:
        share = 100 * getattr(counts, BARS[at]) / most[BARS[at]]
        return f'<td class=bar style="--w:{share:.0f}%">{text}</td>'
    bad = " class=bad" if at == COLUMNS.index("conflicts") and text else ""
    return f"<td{bad}>{text}</td>"
