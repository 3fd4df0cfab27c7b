"""Source spans, findings, and every exception class. Imports nothing of ours."""

from __future__ import annotations

import attrs

EXCERPT = 400
"""How much of a line a message shows."""


@attrs.frozen
class Span:
    """A place in PTX text: 1-based line and column, and how many characters to underline."""

    file: str
    line: int
    column: int
    length: int = 1


@attrs.frozen
class Finding:
    """One rule that a module or a launch broke: rules are identifiers, not classes.

    ``cta`` is (x, y, z); ``warp`` the warp in its CTA; ``lanes`` lane numbers in that warp;
    ``source`` the (file, line) of the nearest ``.loc``; ``text`` the PTX line itself; ``section`` the id of the
    PTX ISA's section (https://docs.nvidia.com/cuda/parallel-thread-execution/#id) that states the rule.
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
    values: dict[str, object] = attrs.field(factory=dict, eq=False)
    other: Finding | None = None
    count: int = 1
    text: str = ""

    def headline(self) -> str:
        """``file:line:column: rule: message`` in one line."""
        rule = f"{self.rule}: " if self.rule else ""
        return f"{self.file}:{self.line}:{self.column}: {rule}{self.message}"

    def excerpt(self) -> str:
        """The PTX line with a caret under the column; empty where there is no text."""
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
    "uninitialised": "initialization",
    "race": "conflict-and-data-races",
    "proxy-fence": "proxies",
    "descriptor": "asynchronous-warpgroup-level-matrix-shared-memory-layout-matrix-descriptor",
}
"""Where the PTX ISA states these rules; all others stand on the instruction's own page."""


class WarpsimError(Exception):
    """Base of every error that warpsim raises on purpose; ``findings`` says what was wrong."""

    def __init__(self, message: str = "", findings: tuple[Finding, ...] = ()) -> None:
        self.findings = tuple(findings)
        super().__init__(message or _describe(self.findings))


class PtxError(WarpsimError):
    """A module that cannot be loaded; ``findings`` holds every problem of the text."""


class LaunchError(WarpsimError, ValueError):
    """Arguments, dimensions or resources of a launch that do not fit the kernel or the device."""


class UnknownName(LaunchError, KeyError):
    """A kernel or variable that the module does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class ExecutionError(WarpsimError):
    """A launch that did something undefined, faulted, hung or ran out of its budget."""


class InternalError(AssertionError):
    """Cannot happen for a valid program: a defect of warpsim itself. Please report it."""


def shown(value: object) -> str:
    """What a message shows of a value that somebody passed: at most a line of it, and of any object at all."""
    try:
        text = repr(value)
    except Exception:  # integers of more than 4300 digits, and whatever a stranger's __repr__ does
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 100 else text[:97] + "..."


def describe(finding: Finding) -> str:
    """A finding in full: its headline, the PTX line with a caret, where, the other party, what to do."""
    lines = [finding.headline()]
    if finding.excerpt():
        lines.append(finding.excerpt())
    if finding.cta is not None:
        lines.append(f"    {_where(finding)}")
    if finding.other is not None:
        lines.append(f"    the other party: {finding.other.headline()}")
    if finding.advice:
        lines.append(f"    {finding.advice}")
    return "\n".join(lines)


def _describe(findings: tuple[Finding, ...]) -> str:
    return "\n".join([*(describe(f) for f in findings[:1]), *(f.headline() for f in findings[1:])])


def _where(finding: Finding) -> str:
    place = f"CTA {finding.cta}"
    if finding.warp is not None:
        place += f", warp {finding.warp}"
    if finding.lanes:
        place += f", lane {finding.lanes[0]}"
        if len(finding.lanes) > 1:
            place += f" and {len(finding.lanes) - 1} more"
    return place
