"""A cursor over tokens, which makes spans and syntax problems."""

from __future__ import annotations

from bisect import bisect

from warpsim.errors import Span
from warpsim.ptx.tokens import Tokens


class SyntaxProblem(Exception):
    """A problem in the text; the parser records it and continues."""

    def __init__(self, message: str, span: Span, advice: str = "", rule: str = "syntax") -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.span = span
        self.advice = advice


class Stream:
    """The tokens of a text, and the parser's position."""

    def __init__(self, text: str, file: str) -> None:
        tokens = Tokens(text, file, whole=True)
        self.kinds, self.texts, self.starts = tokens.kinds, tokens.texts, tokens.starts
        self.newlines, self.tables, self.sections = tokens.newlines, tokens.tables, tokens.sections
        self.addresses = tokens.addresses
        self.file = file
        self.source = text
        self.i = 0

    @property
    def kind(self) -> str:
        """Kind of the current token."""
        return self.kinds[self.i]

    @property
    def text(self) -> str:
        """Text of the current token."""
        return self.texts[self.i]

    def peek(self, ahead: int) -> str:
        """Text of the token ``ahead`` positions further on."""
        at = self.i + ahead
        return self.texts[at] if at < len(self.texts) else ""

    def skip(self) -> None:
        """Advance by one token, but not past the end."""
        if self.kinds[self.i] != "end":
            self.i += 1

    def take(self) -> str:
        """Return the current text and advance."""
        text = self.texts[self.i]
        self.skip()
        return text

    def accept(self, text: str) -> bool:
        """Advance if the current token is ``text``; returns whether it was."""
        if self.texts[self.i] == text and self.kinds[self.i] != "end":
            self.i += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Advance past ``text``, or raise."""
        if not self.accept(text):
            raise self.problem(f"found {self.shown()} where {text!r} was expected")

    def word(self, what: str) -> str:
        """Take an identifier."""
        if self.kinds[self.i] != "word":
            raise self.problem(f"found {self.shown()} where {what} was expected")
        return self.take()

    def shown(self) -> str:
        """Format the current token for a message."""
        return "the end of the text" if self.kind == "end" else repr(self.text[:40])

    def line_of(self, token: int) -> int:
        """The line of a token."""
        return bisect(self.newlines, self.starts[min(token, len(self.starts) - 1)])

    def span(self) -> Span:
        """The span of the current token."""
        start = self.starts[self.i]
        line = bisect(self.newlines, start)
        column = start - self.newlines[line - 1] + 1
        return Span._make((self.file, line, column, len(self.texts[self.i]) or 1))

    def problem(self, message: str, advice: str = "", rule: str = "syntax") -> SyntaxProblem:
        """Make a problem at the current token."""
        return SyntaxProblem(message, self.span(), advice, rule)

    def line_text(self, line: int) -> str:
        """A line of the source."""
        start = self.newlines[line - 1] if line - 1 < len(self.newlines) else len(self.source)
        end = self.source.find("\n", start)
        return self.source[start : end if end >= 0 else len(self.source)].rstrip("\r")
