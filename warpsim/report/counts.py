"""Per-line counts of what warps did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from warpsim.errors import source_lines, spans


@attrs.frozen
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


@attrs.define
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
            setattr(self, name, getattr(self, name) + getattr(other, name))


NAMES = tuple(field.name for field in attrs.fields(Counts))


@attrs.frozen
class Line:
    """A line of PTX or CUDA with its number, text and counts. ``source`` is the CUDA line of a PTX line."""

    file: str
    number: int
    text: str
    counts: Counts
    source: tuple[str, int] | None = None
    conflict: Conflict | None = None

    def record(self) -> dict[str, Any]:
        """The line as plain data."""
        counts = attrs.asdict(self.counts)
        more: dict[str, Any] = {"conflicts": self.counts.conflicts}
        if self.conflict is not None:
            more["worst_conflict"] = attrs.asdict(self.conflict)
        source = list(self.source) if self.source else None
        return {"file": self.file, "line": self.number, "text": self.text, "source": source, **counts, **more}


@attrs.frozen
class Tally:
    """What a launch of a kernel did in each PTX line that it executed."""

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

    def record(self) -> dict[str, Any]:
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


def _sum(parts: Iterable[Counts]) -> Counts:
    total = Counts()
    for part in parts:
        total.add(part)
    return total


COLUMNS = ("warps", "lanes", "partial", "diverged", "conflicts", "sectors", "bytes", "ms")
"""Table headings; `cells` computes the entries."""


def cells(counts: Counts) -> list[str]:
    """Table entries: warps, threads per warp, partial warps, diverged warps, extra passes due to conflicts, sectors per
    access to global memory, bytes, host milliseconds.
    """
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
