"""A short launch as a drawing: a line for each step, a column for each warp, and what is in flight beside it."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpsim.isa.traits import Traits
    from warpsim.trace.document import Trace

ROWS = 16
"""Steps that a drawing shows; the rest of a longer launch is left out."""
HEIGHT, NUMBERS, LETTER, CELL, FLIGHT = 19, 42, 6.95, 22, 18
"""Of a line, of the line numbers' column, of a letter, of a warp's column and of an operation's in flight: pixels."""
COLOURS = {
    "arithmetic": "#9aa7b4",
    "control": "#c69a5b",
    "memory": "#4493f8",
    "shared": "#3fb0ac",
    "async": "#a371f7",
    "matrix": "#3fa34d",
    "barrier": "#d29922",
    "wait": "#e0823d",
}
ERROR = "#e5534b"
IN_FLIGHT = {"cp.async": "#3fb0ac", "load": "#a371f7", "store": "#4493f8", "wgmma": "#3fa34d"}


def drawing(trace: Trace, first_line: int, rows: int = ROWS, wanted: Callable[[Traits], bool] = lambda _: True) -> str:
    """SVG of the first ``rows`` steps that execute PTX from ``first_line`` on and are ``wanted``; empty where there is none.

    A cell is a warp that executes the step; a lower one has only some of its lanes. A bar runs from the step that issues an operation to
    the one that makes its result visible (or frees its source, where the program waits for no more); a bar that ends in red is never waited for. A red frame is the step of a finding."""
    lines = [trace.instructions[number].span.line for number in trace.steps]
    shown = [
        s for s, line in enumerate(lines) if line >= first_line and wanted(trace.instructions[trace.steps[s]].traits)
    ]
    if not shown:
        return ""
    shown, left_out = shown[:rows], len(shown) - rows
    row = {step: at for at, step in enumerate(shown)}
    flights = [flight for flight in trace.flights if flight.issued in row]
    texts = {step: _cut(trace.profile.program[lines[step] - 1].strip(), 76) for step in shown}
    cells, top = NUMBERS + LETTER * (max(map(len, texts.values())) + 2), HEIGHT + 4
    right = cells + len(trace.warps) * CELL + 12
    width, height = (
        right + max(len(flights) * FLIGHT, 68 if flights else 0),
        top + HEIGHT * (len(shown) + (left_out > 0)),
    )
    parts = [_text(cells + CELL * (at + 0.5), HEIGHT - 4, f"w{w[3]}", "middle") for at, w in enumerate(trace.warps)]
    if flights:
        parts.append(_text(right, HEIGHT - 4, "in flight"))
    for step in shown:
        y = top + HEIGHT * row[step]
        parts.append(_text(NUMBERS - 8, y + 14, str(lines[step]), "end", faint=True))
        parts.append(_text(NUMBERS, y + 14, texts[step]))
        parts += _cells(trace, step, cells, y)
    for at, flight in enumerate(flights):
        parts += _bar(trace, flight, right + FLIGHT * at, row, top)
    for step, finding in trace.findings:
        if step in row:
            y = top + HEIGHT * row[step]
            title = f"<title>{html.escape(finding.rule)}</title>"
            parts.append(
                f'<rect x="1" y="{y}" width="{width - 2:g}" height="{HEIGHT - 1}" rx="3" fill="none" stroke="{ERROR}" stroke-width="1.5">{title}</rect>'
            )
    if left_out > 0:
        parts.append(_text(NUMBERS, height - 5, f"and {left_out:,} steps more", faint=True))
    body = "\n".join(parts)
    return (
        f'<svg class="launch" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="the launch, step by step" '
        f'font-family="ui-monospace, monospace" font-size="11.5" fill="currentColor" style="max-width: {width:g}px; min-width: min({width:g}px, 34rem)">\n{body}\n</svg>'
    )


def _cells(trace: Trace, step: int, left: float, y: float) -> list[str]:
    from warpsim.trace.document import class_of

    colour = COLOURS[class_of(trace.instructions[trace.steps[step]].traits)]
    crew = next(crew for first, stop, crew in trace.runs if first <= step < stop)
    rows, lanes = trace.crews[crew]
    parts = []
    for at, warp in enumerate(rows):
        active = 32 if lanes is None else lanes[at].bit_count()
        tall = max((HEIGHT - 3) * active / 32, 2)
        x = left + CELL * warp + 2
        title = f"<title>{active} lanes</title>"
        parts.append(f'<rect x="{x:g}" y="{y + 1 + HEIGHT - 3 - tall:g}" width="{CELL - 4}" height="{tall:g}" rx="2" fill="{colour}">{title}</rect>')  # fmt: skip
    return parts


def _bar(trace: Trace, flight: Any, x: float, row: dict[int, int], top: float) -> list[str]:
    start = top + HEIGHT * row[flight.issued] + 3
    over = next((step for step in (flight.visible, flight.free) if step >= 0), None)
    until = len(row) if over is None else sum(step <= over for step in row)
    stop = top + HEIGHT * (until - (0.5 if over in row else 0)) - 1
    colour = IN_FLIGHT[flight.kind]
    title = f"<title>{html.escape(flight.kind)}, issued in line {trace.instructions[flight.instruction].span.line}</title>"  # fmt: skip
    parts = [f'<rect x="{x:g}" y="{start:g}" width="{FLIGHT - 8}" height="{stop - start:g}" rx="3" fill="{colour}" fill-opacity="0.75">{title}</rect>']  # fmt: skip
    if over is None:
        parts.append(f'<rect x="{x:g}" y="{stop - 4:g}" width="{FLIGHT - 8}" height="4" fill="{ERROR}"/>')
    return parts


def _text(x: float, y: float, text: str, anchor: str = "start", *, faint: bool = False) -> str:
    shade = ' fill-opacity="0.6"' if faint else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{shade}>{html.escape(text)}</text>'


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
