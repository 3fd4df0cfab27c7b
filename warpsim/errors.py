"""Source spans, findings, and every exception class. Imports nothing from warpsim."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import NamedTuple

from warpsim.records import field, frozen

EXCERPT = 400
"""Most characters of a line that a message shows."""
COLOURS = {"error": "#d1242f", "warning": "#bf8700", "note": "#0969da"}
"""Colours of severities, legible on light and dark backgrounds."""
CALLS = 3
"""Calls that brought inlined code there, of which the outermost are shown."""
LAUNCHED_BY = "launched_by"
"""The value of a finding that says which thread launched the grid."""
LARGEST_SOURCE = 1 << 24
"""Largest CUDA file whose lines are shown, in bytes."""


class Span(NamedTuple):
    """A place in PTX text: 1-based line and column, and how many characters to underline."""

    file: str
    line: int
    column: int
    length: int = 1


@frozen
class Finding:
    """One broken rule, at one place in a module or a launch.

    ``rule`` is the rule's name. ``cta`` is (x, y, z), ``warp`` the warp within the CTA, ``lanes`` the lanes of that
    warp. ``source`` is the (file, line) of the nearest ``.loc``, ``inlined_at`` those of the calls that it is inlined
    at, innermost first; ``text`` is the PTX line. ``section`` is the anchor of the PTX ISA section that states the rule
    (https://docs.nvidia.com/cuda/parallel-thread-execution/#id). ``str()`` gives the full text that errors, the command
    line and the debugger show.
    """

    rule: str
    message: str
    severity: str = "error"
    advice: str = ""
    section: str = ""
    kernel: str | None = None
    file: str = "<ptx>"
    line: int = 0
    column: int = 0
    source: tuple[str, int] | None = None
    instruction: str | None = None
    cta: tuple[int, int, int] | None = None
    warp: int | None = None
    lanes: tuple[int, ...] = ()
    values: dict[str, object] = field(factory=dict, eq=False)
    other: Finding | None = None
    count: int = 1
    text: str = ""
    inlined_at: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        import html

        head, _, rest = describe(self).partition("\n")
        return (
            f'<pre style="border-left:4px solid {COLOURS.get(self.severity, COLOURS["note"])};padding-left:.6em;'
            f'font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap"><b>{self.severity}</b>: {html.escape(head)}\n{html.escape(rest)}</pre>'
        )

    def headline(self) -> str:
        """One line: ``file:line:column: rule: message``."""
        rule = f"{self.rule}: " if self.rule else ""
        return f"{self.file}:{self.line}:{self.column}: {rule}{self.message}"

    def excerpt(self) -> str:
        """The PTX line with a caret under the column; empty if the line is not known."""
        if not self.text:
            return ""
        line, before = self.text.expandtabs(1), max(self.column - 1, 0)
        if len(line) > EXCERPT:
            start = max(min(before, len(line)) - EXCERPT // 2, 0)
            line, before = line[start : start + EXCERPT], before - start
        return f"    {line}\n    {' ' * before}^"


SECTIONS = {
    "out-of-bounds": "addresses-as-operands",
    "misaligned": "addresses-as-operands",
    "other-variable": "addresses-as-operands",
    "uninitialised": "initialization",
    "race": "conflict-and-data-races",
    "proxy-fence": "proxies",
    "descriptor": "asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor",
}
"""PTX ISA sections that state these rules; all other rules are stated in the instruction's own section."""


class WarpsimError(Exception):
    """Base class of all errors that warpsim raises on purpose. ``findings`` holds the details."""

    def __init__(self, message: str = "", findings: tuple[Finding, ...] = ()) -> None:
        self.findings = tuple(findings)
        super().__init__(message or _describe(self.findings))


class PtxError(WarpsimError):
    """A module cannot be loaded. ``findings`` holds every problem in the text."""


class LaunchError(WarpsimError, ValueError):
    """The arguments, dimensions or resources of a launch do not fit the kernel or the device."""


class UnknownName(LaunchError, KeyError):
    """The module has no kernel or variable of this name."""

    def __str__(self) -> str:
        return str(self.args[0])


class ExecutionError(WarpsimError):
    """A launch did something undefined, faulted, hung, or exceeded its limits. The text has each of the findings in full."""

    def __init__(self, message: str = "", findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(message or "\n".join(map(describe, findings)), findings)


class InternalError(AssertionError):
    """A defect of warpsim itself; no valid program can cause it. Please report it."""


def shown(value: object) -> str:
    """Format a value passed by a caller for a message: at most 100 characters, for any object."""
    try:
        text = repr(value)
    except Exception:  # integers of more than 4300 digits, or a failing __repr__
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 100 else text[:97] + "..."


def describe(finding: Finding) -> str:
    """A finding in full: headline, PTX line with a caret, CUDA line, threads, the conflicting access, advice."""
    lines = [finding.headline(), *place_lines(finding)]
    other = finding.other
    if other is not None:
        lines.append(f"    conflicts with {other.headline()}")
        lines += [f"    {line}" for line in place_lines(other, caret=False)]
    if finding.count > 1:
        lines.append(f"    {finding.count:,} times here")
    if finding.advice:
        lines.append(f"    {finding.advice}")
    return "\n".join(lines)


def place_lines(finding: Finding, *, caret: bool = True) -> list[str]:
    """The PTX line (with a caret), the CUDA line and the calls that it is inlined at, and the threads of a finding or of its conflicting access."""
    lines = finding.excerpt().splitlines()[: None if caret else 1]
    if finding.source is not None:
        lines.append(f"    {source_text(finding.source, finding.file)}")
    lines += [f"    inlined at {source_text(call, finding.file)}" for call in finding.inlined_at[-CALLS:]]
    who = where(finding)
    lines += [f"    {who}"] if who else []
    by = finding.values.get(LAUNCHED_BY)
    return [*lines, f"    in a grid that was launched by {by}"] if by else lines


def source_name(source: tuple[str, int]) -> str:
    """A CUDA line's place in short: ``reduce.cu:7``."""
    return f"{source[0].replace(chr(92), '/').rpartition('/')[2]}:{source[1]}"


def source_text(source: tuple[str, int], ptx: str = "") -> str:
    """A CUDA line's place, ``reduce.cu:7``, and its text if the file can be read."""
    lines = source_lines(source[0], ptx)
    text = lines[source[1] - 1].strip() if 0 < source[1] <= len(lines) else ""
    return f"{source_name(source)}: {text[:EXCERPT]}" if text else source_name(source)


def source_lines(file: str, ptx: str = "") -> list[str]:
    """The lines of a CUDA file; empty if it cannot be read. A text that was compiled from memory is where Python keeps
    such texts."""
    import linecache  # commands start without it

    kept = linecache.cache.get(file, ())
    if len(kept) == 4:
        return [line.rstrip("\n") for line in kept[2]]
    path = source_path(file, ptx)
    if path is not None:
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().split("\n")
    return []


def source_path(file: str, ptx: str = "") -> str | None:
    """Where a CUDA file is: a relative name is relative to the PTX file, or else to the working directory."""
    for path in (os.path.join(os.path.dirname(ptx), file), file):
        with contextlib.suppress(OSError, ValueError):  # not a valid file name
            if os.path.isfile(path) and os.path.getsize(path) <= LARGEST_SOURCE:
                return path
    return None


def _describe(findings: tuple[Finding, ...]) -> str:
    return "\n".join([*(describe(f) for f in findings[:1]), *(f.headline() for f in findings[1:])])


def where(finding: Finding) -> str:
    """CTA, warp and lanes of a finding; empty if it has none."""
    parts = [] if finding.cta is None else [f"CTA {finding.cta}"]
    if finding.warp is not None:
        parts.append(f"warp {finding.warp}")
    if finding.lanes:
        parts.append(f"lane{'s' if len(finding.lanes) > 1 else ''} {spans(finding.lanes)}")
    return ", ".join(parts)


def spans(numbers: Iterable[int]) -> str:
    """Format ascending numbers as ``0-3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: ``1 kernel``, ``2 kernels``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
