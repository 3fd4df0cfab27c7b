"""What a shadow in higher precision found: lines where error is born, comparisons decided otherwise, error over steps."""

from __future__ import annotations

import html
import math
from collections import Counter
from pathlib import PurePath

import attrs

from warpsim.isa.exact import GROWS, HALF, LEAST, PRECISION, SUMS
from warpsim.records import define
from warpsim.report.pages import page, part, table
from warpsim.types import JsonObject

POINTS = 1024
AMPLIFIED = 8.0
"""From how many times the operands' relative error a sum is a cancellation."""


@define
class Birth:
    """What an instruction's results lack: the ``largest`` relative error with an example, and their ``total`` over ``lanes``."""

    instruction: str
    type: str
    line: int
    file: str
    source_line: int
    lanes: int = 0
    total: float = 0.0
    largest: float = 0.0
    operands: float = 0.0
    """The largest relative error of the operands of the example."""
    value: float = 0.0
    exact: float = 0.0
    error: float = 0.0
    """What the example lacks; ``exact`` is ``value`` with it, as an f64."""
    stored: bool = False
    kinds: Counter[str] = attrs.field(factory=Counter)
    inlined_at: tuple[tuple[str, int], ...] = ()
    copies: int = 1
    """How many instructions it stands for: those of an unrolled loop are one."""

    def record(
        self, largest: float, value: float, error: float, values: list[float], errors: list[float], root: str
    ) -> None:
        """Take a result as the example, and say what happened there."""
        self.largest, self.value = largest, value
        self.error = error
        self.exact = value + error if math.isfinite(value) else error
        given = [abs(e) / abs(v) if v and math.isfinite(v) else 0.0 for v, e in zip(values, errors, strict=True)]
        self.operands = max(given, default=0.0)
        if self.stored:
            return
        if not math.isfinite(value) and math.isfinite(self.exact) and all(map(math.isfinite, values)):
            self.kinds["overflow"] += 1
            return
        grown = largest > AMPLIFIED * max(self.operands, 2.0 ** -PRECISION[self.type])
        if root in GROWS and self.operands and grown:
            self.kinds["cancellation"] += 1

    @property
    def typical(self) -> float:
        """The mean relative error."""
        return self.total / self.lanes if self.lanes else 0.0

    @property
    def ulps(self) -> float:
        """The largest error in units in the last place of the exact value."""
        if self.type not in PRECISION or not self.largest:
            return 0.0
        if not math.isfinite(self.value) or not math.isfinite(self.exact):
            return math.inf
        fraction, exponent = math.frexp(self.exact)
        if self.exact == self.value and abs(fraction) == 0.5 and fraction * self.error < 0:
            exponent -= 1  # it is less than the power of two to which it rounds
        least = LEAST[self.type]
        return abs(self.error) / math.ldexp(1.0, max(exponent - PRECISION[self.type], least) if self.exact else least)

    @property
    def place(self) -> str:
        """The lines of the PTX and of the CUDA source."""
        at = [(self.file, self.source_line), *self.inlined_at] if self.source_line else []
        source = " at ".join(f"{PurePath(file).name}:{line}" for file, line in at)
        others = f" and {self.copies - 1} more" if self.copies > 1 else ""
        return f"line {self.line}{others}{f' ({source})' if source else ''}"

    @property
    def sentence(self) -> str:
        """Where error is born, and how large it is."""
        return f"{self.what}; off by {self.ulps:.3g} ulps, {self.largest:.2e} of the value"

    @property
    def what(self) -> str:
        """What happened, in words."""
        named = [
            f"{name} in {count:,}" if name != "cancellation" and name != "overflow" else name
            for name, count in self.kinds.items()
            if count
        ]
        if self.type in HALF and self.instruction.split(".")[0] in SUMS:
            named.append(f"accumulates in {self.type}")
        return "stored" if self.stored else ", ".join(named)


@define
class AccuracyReport:
    """The errors of a launch against its shadow in higher precision, by instruction."""

    births: dict[tuple[str, int, str, bool], Birth] = attrs.field(factory=dict)
    """By kernel, line and instruction, and whether they are what it stored."""
    points: list[float] = attrs.field(factory=list, repr=False)
    every: int = 1
    _count: int = 0

    def step(self, error: float) -> None:
        """Note the largest error of a step, for the picture."""
        if self._count % self.every == 0:
            self.points.append(error)
        else:
            self.points[-1] = max(self.points[-1], error)
        self._count += 1
        if len(self.points) >= 2 * POINTS:
            self.points = [max(pair) for pair in zip(self.points[::2], self.points[1::2], strict=True)]
            self.every *= 2

    @property
    def rows(self) -> list[Birth]:
        """What was stored, then the instructions with errors; the copies of one in an unrolled loop as one."""
        return [*_together(self.stores), *_together(self.lines)]

    @property
    def lines(self) -> list[Birth]:
        """The instructions with errors: those with a named kind of error first, then by size of the error."""
        found = [b for b in self.births.values() if (b.largest or b.kinds.total()) and not b.stored]
        return sorted(found, key=lambda b: (not b.kinds.total(), -b.largest))

    @property
    def stores(self) -> list[Birth]:
        """What was stored to global memory, the largest error first."""
        return sorted((b for b in self.births.values() if b.stored), key=lambda b: -b.largest)

    @property
    def ulps(self) -> float:
        """The largest error of what was stored to global memory, in units in its last place."""
        return max((b.ulps for b in self.stores), default=0.0)

    def __str__(self) -> str:
        rows = [_row(b) for b in self.rows]
        if not rows:
            return "accuracy: every float value is exact"
        heads = ("ulps", "largest", "typical", "where", "instruction", "what")
        widths = [max(len(r[k]) for r in (heads, *rows)) for k in range(6)]
        return "\n".join(
            "  ".join(
                c.rjust(w) if k < 3 else c.ljust(w) for k, (c, w) in enumerate(zip(r, widths, strict=True))
            ).rstrip()
            for r in (heads, *rows)
        )

    def record(self) -> JsonObject:
        """Plain data, for JSON."""
        found = [
            {
                "line": b.line, "file": b.file, "source_line": b.source_line, "instruction": b.instruction, "type": b.type,
                "ulps": b.ulps, "largest": b.largest, "typical": b.typical, "stored": b.stored, "kinds": dict(+b.kinds),
            }
            for b in [*self.stores, *self.lines]
        ]  # fmt: skip
        return {"ulps": self.ulps, "lines": found}

    def body(self) -> str:
        """The picture and the table, as HTML."""
        cells = (
            "<tr>"
            + "".join(f"<td{' class=text' if k == 5 else ''}>{html.escape(c)}</td>" for k, c in enumerate(_row(b)))
            + "</tr>"
            for b in self.rows
        )
        heads = ("ulps", "largest", "typical", "where", "instruction", "what")
        return f"<h2>Relative error over steps</h2>{picture(self.points)}<h2>By line</h2>{table(heads, cells)}"

    def html(self) -> str:
        """The report as an HTML page."""
        return page("accuracy", f"<h1>Accuracy</h1>{self.body()}")

    def _repr_html_(self) -> str:
        return part(self.body())


def _together(births: list[Birth]) -> list[Birth]:
    """Births in their order, those at copies of an instruction joined to the first."""
    found: dict[object, list[Birth]] = {}
    for b in births:
        place = b.file, b.source_line, b.inlined_at
        found.setdefault((b.instruction, b.kinds.total() > 0, place if b.source_line else b.line), []).append(b)
    return [
        attrs.evolve(
            some[0],
            lanes=sum(b.lanes for b in some),
            total=sum(b.total for b in some),
            kinds=sum((b.kinds for b in some), Counter()),
            copies=len(some),
        )
        for some in found.values()
    ]


def _row(b: Birth) -> tuple[str, ...]:
    return f"{b.ulps:.3g}", f"{b.largest:.2e}", f"{b.typical:.2e}", b.place, b.instruction, b.what


def picture(points: list[float]) -> str:
    """Relative errors on a logarithmic scale, from 2^-53 to 1."""
    width, height, low = 800, 160, -16.0
    seen = [(k, min(max(math.log10(p), low), 0.0)) for k, p in enumerate(points) if p > 0]
    if not seen:
        return "<p>no float value is off</p>"
    across, up = width / max(len(points), 1), height / -low
    dots = "".join(
        f'<rect x="{40 + k * across:.1f}" y="{-p * up + 4:.1f}" width="{max(across, 1.5):.1f}" height="2" fill="var(--accent)"/>'
        for k, p in seen
    )
    marks = "".join(
        f'<line x1="40" x2="{width + 40}" y1="{k * up + 4}" y2="{k * up + 4}" stroke="var(--line)"/>'
        f'<text x="34" y="{k * up + 8}" font-size="10" text-anchor="end" fill="var(--dim)">{f"1e-{k}" if k else 1}</text>'
        for k in range(0, 17, 4)
    )  # fmt: skip
    return f'<div class=scroll><svg viewBox="0 0 {width + 50} {height + 10}" role="img" aria-label="relative error over steps">{marks}{dots}</svg></div>'
