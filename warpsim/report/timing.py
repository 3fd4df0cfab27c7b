"""Where the time of a launch went, by phase and by line: as a table and as data."""

from __future__ import annotations

from typing import Any

import attrs

SHOWN = 40
"""Lines of the table; of longer kernels it has those that took longest."""
PHASES = ("load", "bind", "compile", "native", "interpreted", "checks", "rest")


@attrs.define
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


@attrs.frozen
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

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        out = ["time in ms: " + ", ".join(f"{name} {getattr(self, name) * 1e3:,.2f}" for name in PHASES)]
        if self.why:
            out.append(f"nothing ran as machine code: {self.why}")
        longest = sorted(self.lines, key=lambda line: -line.seconds)[:SHOWN]
        kept = [line for line in self.lines if line in longest]
        rows = [
            [
                str(line.line),
                *(f"{s * 1e3:.2f}" if s else "" for s in (line.interpreted, line.native, line.checks)),
                _said(line),
            ]
            for line in kept
        ]
        heads = ["line", "interpreted", "native", "checks", ""]
        widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(4)]
        for row in (heads, *rows):
            out.append("  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[4]]).rstrip())
        if len(kept) < len(self.lines):
            out.append(f"({len(self.lines) - len(kept)} more lines, which took less)")
        return "\n".join(out)


def _said(line: LineTime) -> str:
    text = " ".join(line.text.split())
    return f"{text}  // {line.why}" if line.why else text


__all__ = ["LineTime", "Timing"]
