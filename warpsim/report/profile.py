"""A launch's profile (exact counts per line) and timing: as tables, as data, and beside the source."""

from __future__ import annotations

import html
from collections.abc import Iterable

import attrs

from warpsim.errors import plural, source_lines, source_name, spans
from warpsim.records import define, frozen
from warpsim.report import pages
from warpsim.types import JsonObject


@frozen
class Conflict:
    """A line's worst bank conflict: a piece of a warp's access that takes ``passes``, because it accesses that many
    words of ``bank``.

    ``words`` are (address, lanes that access it).
    """

    passes: int
    cta: tuple[int, int, int]
    warp: int
    bank: int
    words: tuple[tuple[int, tuple[int, ...]], ...]

    def __str__(self) -> str:
        wanted = ", ".join(
            f"0x{address:x} (lane{'s' if len(lanes) > 1 else ''} {spans(lanes)})" for address, lanes in self.words
        )
        return f"{self.passes} words of bank {self.bank} in CTA {self.cta}, warp {self.warp}: {wanted}"


@define
class Counts:
    """What the warps did in some lines.

    Attributes:
        executions: warp-instructions.
        lanes: threads that executed them.
        active: threads among them that passed the guard.
        partial: executions by only a part of a warp's threads.
        diverged: warps that diverged here.
        shared_accesses: warp accesses to shared memory through the generic proxy.
        shared_pieces: pieces of at most 128 bytes that they consist of.
        shared_passes: bank passes of the pieces; more than pieces if banks conflict.
        global_accesses: warp accesses to global memory.
        sectors: 32-byte sectors of these, counted per warp.
        shared_bytes, global_bytes, local_bytes: bytes that lanes accessed.
        async_bytes: bytes moved by bulk copies, and bytes of tiles read by wgmma.
        seconds: host time spent simulating.
    """

    executions: int = 0
    lanes: int = 0
    active: int = 0
    partial: int = 0
    diverged: int = 0
    shared_accesses: int = 0
    shared_pieces: int = 0
    shared_passes: int = 0
    global_accesses: int = 0
    sectors: int = 0
    shared_bytes: int = 0
    global_bytes: int = 0
    local_bytes: int = 0
    async_bytes: int = 0
    seconds: float = 0.0

    @property
    def conflicts(self) -> int:
        """Bank passes beyond the first of each piece."""
        return self.shared_passes - self.shared_pieces

    @property
    def bytes(self) -> int:
        """All bytes accessed and copied."""
        return self.shared_bytes + self.global_bytes + self.local_bytes + self.async_bytes

    def add(self, other: Counts) -> None:
        """Add another set of counts."""
        for name in NAMES:
            more = getattr(other, name)
            if more:
                setattr(self, name, getattr(self, name) + more)


NAMES = tuple(field.name for field in attrs.fields(Counts))


@frozen
class Line:
    """A line of PTX or CUDA with its number, text and counts. ``source`` is the CUDA line of a PTX line."""

    file: str
    number: int
    text: str
    counts: Counts
    source: tuple[str, int] | None = None
    conflict: Conflict | None = None

    @property
    def place(self) -> str:
        """Its number, and the CUDA line."""
        return f"line {self.number}" + (f" ({source_name(self.source)})" if self.source else "")

    def record(self) -> JsonObject:
        """The line as plain data."""
        counts = attrs.asdict(self.counts)
        more: JsonObject = {"conflicts": self.counts.conflicts}
        if self.conflict is not None:
            more["worst_conflict"] = attrs.asdict(self.conflict)
        source = list(self.source) if self.source else None
        return {"file": self.file, "line": self.number, "text": self.text, "source": source, **counts, **more}


@frozen
class Profile:
    """What a launch of a kernel did in each PTX line that it executed. ``str()`` formats it as a table."""

    kernel: str
    file: str
    target: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lines: tuple[Line, ...]
    program: tuple[str, ...] = attrs.field(repr=False, default=())
    """The whole module text, of which ``lines`` are some."""

    @property
    def total(self) -> Counts:
        """The sum over all lines."""
        return _sum(line.counts for line in self.lines)

    def by_source(self) -> tuple[Line, ...]:
        """The counts per CUDA line, where `.loc` gives one."""
        found: dict[tuple[str, int], list[Line]] = {}
        for line in self.lines:
            if line.source is not None:
                found.setdefault(line.source, []).append(line)
        lines, texts = [], {file: source_lines(file, self.file) for file, _ in found}
        for source in sorted(found):
            parts = found[source]
            conflicts = [part.conflict for part in parts if part.conflict is not None]
            conflict = max(conflicts, key=lambda c: c.passes, default=None)
            text = "".join(texts[source[0]][source[1] - 1 : source[1]]).strip()
            lines.append(Line(source[0], source[1], text, _sum(p.counts for p in parts), conflict=conflict))
        return tuple(lines)

    def record(self) -> JsonObject:
        """The counts as plain data, for JSON."""
        return {
            "kernel": self.kernel,
            "file": self.file,
            "target": self.target,
            "grid": list(self.grid),
            "block": list(self.block),
            "total": attrs.asdict(self.total),
            "lines": [line.record() for line in self.lines],
            "source_lines": [line.record() for line in self.by_source()],
        }

    def __str__(self) -> str:
        total = self.total
        out = [
            f"{self.kernel}: {plural(total.executions, 'warp-instruction')}, {plural(total.lanes, 'thread-instruction')}, "
            f"grid {self.grid}, block {self.block}",
            f"\n{self.file}",
            *_rows(self.lines),
        ]
        sources = self.by_source()
        for file in dict.fromkeys(line.file for line in sources):
            out += [f"\n{file}", *_rows(tuple(line for line in sources if line.file == file))]
        conflicts = [f"  {line.place}: {line.conflict}" for line in self.lines if line.conflict is not None]
        return "\n".join([*out, *(["\nworst bank conflicts", *conflicts] if conflicts else [])])

    def html(self) -> str:
        """A self-contained page with the counts beside the source."""
        return page(self)

    def _repr_html_(self) -> str:
        return pages.part(_head(self) + _body(self, whole=False))


def _sum(parts: Iterable[Counts]) -> Counts:
    total = Counts()
    for part in parts:
        total.add(part)
    return total


COLUMNS = ("warps", "lanes", "partial", "diverged", "conflicts", "sectors", "bytes", "ms")
"""Table headings; `cells` computes the entries."""


def cells(counts: Counts) -> list[str]:
    """Table entries: warps, threads per warp, partial warps, diverged warps, extra passes due to conflicts, sectors per
    access to global memory, bytes, host milliseconds."""
    each = counts.active / counts.executions if counts.executions else 0
    return [
        f"{counts.executions:,}",
        f"{each:.1f}".removesuffix(".0"),
        f"{counts.partial:,}" if counts.partial else "",
        f"{counts.diverged:,}" if counts.diverged else "",
        f"{counts.conflicts:,}" if counts.conflicts else "",
        f"{counts.sectors / counts.global_accesses:.1f}" if counts.global_accesses else "",
        f"{counts.bytes:,}" if counts.bytes else "",
        f"{1e3 * counts.seconds:.2f}",
    ]


SHOWN = 60
"""Most lines in the table; for longer kernels, the busiest lines."""


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
    out = _padded([heads, *shown])
    if len(kept) < len(lines):
        out.append(f"({len(lines) - len(kept)} more lines, executed less often)")
    return out


def _padded(rows: list[list[str]]) -> list[str]:
    """Rows as text: cells to the right of their columns, and then what the last one says."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return ["  ".join([*map(str.rjust, row[:-1], widths), row[-1]]).rstrip() for row in rows]


BARS = {COLUMNS.index("warps"): "executions", COLUMNS.index("ms"): "seconds"}
"""Columns that show a bar, relative to the largest entry."""
EXPLAINED = (
    "warps: warp-instructions executed; lanes: threads per warp that passed the guard; partial: executions by only a part of a warp; "
    "diverged: warps that diverged there; conflicts: passes added by bank conflicts; sectors: 32-byte sectors per "
    "access to global memory; bytes: accessed and copied; ms: host time spent simulating"
)


def page(profile: Profile) -> str:
    """The whole PTX with its counts, and the CUDA lines."""
    return pages.page(f"profile of {profile.kernel}", _head(profile) + _body(profile, whole=True))


def _head(profile: Profile) -> str:
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


def _body(profile: Profile, *, whole: bool) -> str:
    out, sources = [], profile.by_source()
    for file in dict.fromkeys(line.file for line in sources):
        mine = [line for line in sources if line.file == file]
        out.append(_section(file, mine, source_lines(file, profile.file) if whole else []))
    out.append(_section(profile.file, profile.lines, profile.program if whole else []))
    conflicts = [line for line in profile.lines if line.conflict is not None]
    if conflicts:
        out.append("<h2>Worst bank conflicts</h2>")
        out += [f"<pre>{html.escape(line.place)}: {html.escape(str(line.conflict))}</pre>" for line in conflicts]
    return "".join(out)


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


SLOWEST = 40
"""Lines of the table; of longer kernels it has those that took longest."""
PHASES = ("load", "bind", "compile", "native", "interpreted", "checks", "rest")


@define
class LineTime:
    """Seconds of a line of PTX. ``native``: in machine code that begins there; ``why``: what keeps the line interpreted."""

    line: int
    text: str
    interpreted: float = 0.0
    native: float = 0.0
    checks: float = 0.0
    why: str = ""

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.interpreted + self.native + self.checks

    @property
    def row(self) -> list[str]:
        """The line in the table."""
        times = [f"{s * 1e3:.2f}" if s else "" for s in (self.interpreted, self.native, self.checks)]
        text = " ".join(self.text.split())
        return [str(self.line), *times, f"{text}  // {self.why}" if self.why else text]


@frozen
class Timing:
    """Seconds of a launch: ``load`` reads and checks the PTX, ``bind`` makes its steps, ``compile`` makes machine code, ``native``
    runs it, ``interpreted`` are steps, ``checks`` the rules that look on, ``rest`` what is between them. ``why`` says what
    keeps the whole launch interpreted."""

    load: float
    bind: float
    compile: float
    native: float
    interpreted: float
    checks: float
    rest: float
    why: str
    lines: tuple[LineTime, ...]

    def record(self) -> JsonObject:
        """Plain data, for JSON."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        out = ["time in ms: " + ", ".join(f"{name} {getattr(self, name) * 1e3:,.2f}" for name in PHASES)]
        if self.why:
            out.append(f"nothing ran as machine code: {self.why}")
        longest = sorted(self.lines, key=lambda line: -line.seconds)[:SLOWEST]
        kept = [line for line in self.lines if line in longest]
        out += _padded([["line", "interpreted", "native", "checks", ""], *(line.row for line in kept)])
        if len(kept) < len(self.lines):
            out.append(f"({len(self.lines) - len(kept)} more lines, which took less)")
        return "\n".join(out)
