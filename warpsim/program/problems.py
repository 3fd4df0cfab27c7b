"""Collects the problems of a module, so that they are reported together."""

from __future__ import annotations

import functools
import re

from warpsim.errors import Finding, PtxError, Span


class Mismatch(Exception):
    """An operand does not fit a form; another form may accept it."""

    def __init__(self, rule: str, span: Span, message: str, advice: str = "", weight: int = 0, late: str = "") -> None:
        super().__init__(message)
        self.rule, self.span, self.message, self.advice, self.weight = rule, span, message, advice, weight
        self.late = late
        """Whether it is reported behind all other problems of the "function", or of the "module"."""


def unfit(span: Span, message: str, weight: int, advice: str = "") -> Mismatch:
    """An operand that the form does not take; of the forms that an instruction may be, the one with the greatest ``weight``
    is reported."""
    return Mismatch("operand-type", span, message, advice, weight)


MAX_FINDINGS = 2000
LAST = 1 << 60
"""A line behind all others."""
LONG = 500
"""Length of a message from which on its longest words are cut."""
SHOWN = 80
_LONG_WORD = re.compile(r"[\w$%]{200,}")


@functools.lru_cache(maxsize=4)
def lines_of(source: str) -> tuple[str, ...]:
    """The lines of a text."""
    return tuple(source.split("\n"))


class Problems:
    """Findings of the load phases, up to a maximum. `raise_any` ends the load if there are any. With ``before``, only those before
    this line count."""

    def __init__(self, file: str, source: str, before: int = LAST) -> None:
        self.before = before
        self.orders: list[int] = []
        """The line that each finding belongs to among the others."""
        self.file = file
        self.source = source
        self.findings: list[Finding] = []

    @property
    def full(self) -> bool:
        """Whether the maximum is reached."""
        return len(self.findings) >= MAX_FINDINGS

    def add(
        self,
        rule: str,
        span: Span,
        message: str,
        advice: str = "",
        instruction: str | None = None,
        section: str = "",
        *,
        order: int | None = None,
    ) -> None:
        """Add a problem at a place; ``order`` is the line after which it is named, if that is a later one."""
        if self.full:
            return
        if len(message) > LONG:
            message = _LONG_WORD.sub(lambda word: word[0][:SHOWN] + "...", message)
        self.orders.append(order or span.line)
        lines = lines_of(self.source)
        text = lines[span.line - 1].rstrip("\r") if 0 < span.line <= len(lines) else ""
        self.findings.append(
            Finding(
                rule,
                message,
                advice=advice,
                section=section,
                file=span.file,
                line=span.line,
                column=span.column,
                instruction=instruction,
                text=text,
            )
        )

    def raise_any(self) -> None:
        """Raise all problems, in code order."""
        places = zip(self.orders, self.findings, strict=True)
        found = sorted(
            ((o, f) for o, f in places if o < self.before), key=lambda each: (each[0], each[1].line, each[1].column)
        )
        if found:
            raise PtxError(findings=tuple(finding for _, finding in found))
