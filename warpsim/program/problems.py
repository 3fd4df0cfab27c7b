"""Collects the problems of a module, so that they are reported together."""

from __future__ import annotations

import re

from warpsim.errors import Finding, PtxError, Span


class Mismatch(Exception):
    """An operand does not fit a form; another form may accept it."""

    def __init__(self, rule: str, span: Span, message: str, advice: str = "", weight: int = 0) -> None:
        super().__init__(message)
        self.rule, self.span, self.message, self.advice, self.weight = rule, span, message, advice, weight


def unfit(span: Span, message: str, weight: int, advice: str = "") -> Mismatch:
    """An operand that the form does not take; of the forms that an instruction may be, the one with the greatest ``weight``
    is reported."""
    return Mismatch("operand-type", span, message, advice, weight)


MAX_FINDINGS = 2000
LONG = 500
"""Length of a message from which on its longest words are cut."""
SHOWN = 80
_LONG_WORD = re.compile(r"[\w$%]{200,}")


class Problems:
    """Findings of the load phases, up to a maximum. `raise_any` ends the load if there are any."""

    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.lines = tuple(source.split("\n"))
        self.findings: list[Finding] = []

    @property
    def full(self) -> bool:
        """Whether the maximum is reached."""
        return len(self.findings) >= MAX_FINDINGS

    def add(
        self, rule: str, span: Span, message: str, advice: str = "", instruction: str | None = None, section: str = ""
    ) -> None:
        """Add a problem at a place."""
        if self.full:
            return
        if len(message) > LONG:
            message = _LONG_WORD.sub(lambda word: word[0][:SHOWN] + "...", message)
        text = self.lines[span.line - 1].rstrip("\r") if 0 < span.line <= len(self.lines) else ""
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
        if self.findings:
            self.findings.sort(key=lambda f: (f.line, f.column))
            raise PtxError(findings=tuple(self.findings))
