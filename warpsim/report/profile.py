"""A launch's profile: exact counts per line, as a table, as data, and beside the source."""

from __future__ import annotations

import attrs

from warpsim.errors import plural, source_name
from warpsim.report import profile_page
from warpsim.report.counts import COLUMNS, Conflict, Counts, Line, Tally, cells

SHOWN = 60
"""Most lines in the table; for longer kernels, the busiest lines."""


@attrs.frozen
class Profile(Tally):
    """The profile of a launch. ``lines`` has the counts; ``str()`` formats them as a table."""

    def __str__(self) -> str:
        return table(self)

    def html(self) -> str:
        """A self-contained page with the counts beside the source."""
        return profile_page.page(self)

    def _repr_html_(self) -> str:
        return profile_page.fragment(self)


def _rows(lines: tuple[Line, ...]) -> list[str]:
    busiest = sorted(lines, key=lambda line: -line.counts.executions)[:SHOWN]
    kept = [line for line in lines if line in busiest] if len(lines) > SHOWN else list(lines)
    filled = [cells(line.counts) for line in kept]
    used = [at for at in range(len(COLUMNS)) if any(row[at] for row in filled)]
    shown = [
        [str(line.number), *(row[at] for at in used), " ".join(line.text.split())]
        for line, row in zip(kept, filled, strict=True)
    ]
    heads = ["line", *(COLUMNS[at] for at in used), ""]
    widths = [max(len(row[i]) for row in (heads, *shown)) for i in range(len(heads))]
    out = [
        "  ".join(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False))
        + (f"  {row[-1]}" if row[-1] else "")
        for row in (heads, *shown)
    ]
    if len(kept) < len(lines):
        out.append(f"({len(lines) - len(kept)} more lines, executed less often)")
    return out


def table(profile: Tally) -> str:
    """Format the counts for a terminal: by PTX line, by CUDA line, and the worst bank conflicts."""
    total = profile.total
    out = [
        f"{profile.kernel}: {plural(total.executions, 'warp-instruction')}, {plural(total.lanes, 'thread-instruction')}, "
        f"grid {profile.grid}, block {profile.block}",
        f"\n{profile.file}",
        *_rows(profile.lines),
    ]
    sources = profile.by_source()
    for file in dict.fromkeys(line.file for line in sources):
        out += [f"\n{file}", *_rows(tuple(line for line in sources if line.file == file))]
    conflicts = [line for line in profile.lines if line.conflict is not None]
    if conflicts:
        out.append("\nworst bank conflicts")
        out += [f"{_place(line)}: {line.conflict}" for line in conflicts]
    return "\n".join(out)


def _place(line: Line) -> str:
    return f"  line {line.number}" + (f" ({source_name(line.source)})" if line.source else "")


__all__ = ["Conflict", "Counts", "Line", "Profile"]
