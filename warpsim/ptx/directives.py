"""Directives of modules and functions, and sections for debuggers."""

from __future__ import annotations

import re

from warpsim.errors import Span
from warpsim.ptx import ast
from warpsim.ptx.expressions import Expressions
from warpsim.ptx.tokens import SyntaxProblem
from warpsim.ptx.words import ENTRY_DIRECTIVES, FUNC_DIRECTIVES, LISTS, NEWER, POSITIVE, TYPES

OF_MODULES = frozenset({'"nounroll"'})
"""Pragmas of a module, which are checked at its end (`warpsim.program.linking`)."""
LEAST_VERSION = {"used_bytes_mask": (8, 3), "enable_smem_spilling": (8, 7), "frequency": (9, 0)}
"""Pragmas of a function's body, and the PTX version that introduced each."""
NUMBERED = frozenset({"used_bytes_mask", "frequency"})
"""Those with a number behind the name."""
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|-?\d+")


def wrong_pragma(text: str, place: str, version: tuple[int, int]) -> str:
    """What is wrong with one string of a pragma in a ``place`` ("module", "heading", "entry" or "func"); empty if nothing is."""
    words = text.strip('"').split()
    name = words[0] if words else ""
    least = LEAST_VERSION.get(name)
    if least is None:
        return ""
    if place in ("module", "heading"):
        return f"the pragma {name} stands in a function's body"
    if version < least:
        return f"the pragma {name} needs PTX .version {least[0]}.{least[1]}"
    if name == "enable_smem_spilling" and place == "func":
        return f"the pragma {name} is for an .entry only"
    if name in NUMBERED and (
        len(words) < 2 or (name == "frequency" and len(words) > 2) or not _NUMBER.fullmatch(words[1])
    ):
        return f"the pragma {name} takes one number"
    return ""


LINE_LABEL = re.compile(r"\n[ \t]*([a-zA-Z_$][\w$]*):")
"""A label of a section, whose first line has none."""
DATA = {".b8": 1, ".b16": 2, ".b32": 4, ".b64": 8}

EXCLUDED = {"reqnctapercluster": "maxclusterrank", "maxclusterrank": "reqnctapercluster"}


class Directives:
    """Parses directives. ``files`` and ``places`` are those that .file and .loc have named, ``named`` the labels of
    functions' names, ``place`` is where a .pragma would stand: in the module, a heading, an entry or a func."""

    def __init__(self, expressions: Expressions) -> None:
        self.s, self.expressions = expressions.s, expressions
        self.version, self.target = (0, 0), 0
        self.place = "module"
        self.files: set[object] = set()
        self.section_labels: set[str] = set()
        self.places: set[object] = set()
        self.named: dict[str, Span] = {}

    def section(self) -> ast.Section:
        """Parse ``.section .debug_info { ... }``: labels and lists of numbers and symbols, kept as text."""
        s = self.s
        span = s.span()
        if s.kind == "section":
            whole = s.sections[s.i]
            head, _, data = whole.partition("{")
            for found in LINE_LABEL.finditer(whole):
                at = span if found[1] not in self.section_labels else _within(span, whole, found.start(1))
                self._labelled(found[1], at)
            s.skip()
            return ast.Section(head.split()[1], data[:-1], span)
        s.skip()
        name = s.text
        if s.kind != "dotted":
            raise s.problem(f"found {s.shown()} where the name of a section such as .debug_info was expected")
        s.skip()
        s.expect("{")
        lines: list[str] = []
        while not s.accept("}"):
            if s.kind == "end":
                raise s.problem("found the end of the text inside a .section: a closing brace is missing")
            first = s.i
            if s.text[1:] in TYPES and s.kind == "dotted":
                type = s.take()
                listed = s.kind == "integer" or s.text == "-"
                self._datum(8 * DATA.get(type, 8))
                if type not in DATA:
                    self.expressions.note(s.problem(f"{type} is no type of a section's data", rule="directive"))
                while listed and s.accept(","):
                    if s.kind != "integer" and s.text != "-":
                        raise s.problem(f"found {s.shown()} in a list of numbers: a symbol stands alone")
                    self._datum(8 * DATA.get(type, 8))
            else:
                at = s.span()
                self._labelled(s.word("a label, .b8, .b16, .b32 or .b64"), at)
                s.expect(":")
            lines.append(" ".join(s.texts[first : s.i]))
        return ast.Section(name, "\n".join(lines), span)

    def _labelled(self, name: str, span: Span) -> None:
        """Note a label that some section of the module has already."""
        if name in self.section_labels:
            self.expressions.note(SyntaxProblem(f"label {name} is defined twice in sections", span, rule="redeclared"))
        self.section_labels.add(name)

    def _datum(self, width: int) -> None:
        """Parse one value of a section."""
        s = self.s
        negative = s.accept("-")
        if s.kind == "integer":
            value = self.expressions.decode(s.take())[0] * (-1 if negative else 1)
            if -(1 << (width - 1)) > value or (width < 32 and value >> width > 0):
                self.expressions.note(s.problem(f"{value} does not fit .b{width}", rule="directive"))
            return
        if negative or s.kind not in ("word", "dotted"):
            raise s.problem(f"found {s.shown()} where a number or a symbol was expected")
        s.skip()
        while s.text in ("+", "-"):
            s.skip()
            if s.kind not in ("integer", "word", "dotted"):
                raise s.problem(f"found {s.shown()} where a number or a symbol was expected")
            s.skip()

    def directive(self, name: str) -> ast.Directive:
        """Parse ``.name arguments`` in a module or a body."""
        s = self.s
        span = s.span()
        s.skip()
        read = {
            "file": self._file,
            "loc": self._location,
            "loc_intermediate": self._intermediate,
            "pragma": self._pragma,
            "alias": self._alias,
        }.get(name)
        return ast.Directive(name, tuple(read() if read is not None else self._names()), span)

    def _file(self) -> list[int | str]:
        """Parse ``.file 1 "name", time, size``."""
        s = self.s
        found: list[int | str] = [self.expressions.integer(), self._string()]
        if s.accept(","):
            found.append(self.expressions.integer(64))
            if s.accept(","):
                found.append(self.expressions.integer(64))
        if found[0] in self.files:
            self.expressions.note(s.problem(f"file {found[0]} has a name already", rule="directive"))
        self.files.add(found[0])
        return found

    def _location(self) -> list[int | str]:
        """Parse ``.loc file line column, function_name label + offset, inlined_at file line column``."""
        s = self.s
        span = s.span()
        found: list[int | str] = [self.expressions.integer(), self.expressions.integer(), self.expressions.integer()]
        if s.text == "," and s.peek(1) == "function_name":
            found += [s.take(), s.take()]
            if s.kind == "dotted":  # a section, which the assembler does not look for
                found.append(s.take())
            else:
                at = s.span()
                found.append(s.word("a label"))
                self.named[str(found[-1])] = at
            if s.accept("+"):
                found += ["+", self.expressions.integer()]
            s.expect(",")
            if s.text != "inlined_at":
                raise s.problem(f"found {s.shown()} where inlined_at was expected")
            s.skip()
            where = (self.expressions.integer(), self.expressions.integer(), self.expressions.integer())
            if where not in self.places:
                message = "inlined_at names a place that no .loc before it has"
                self.expressions.note(SyntaxProblem(message, span, rule="directive"))
            found += [",", "inlined_at", *where]
        self.places.add((found[0], found[1], found[2]))
        return found

    def _intermediate(self) -> list[int | str]:
        """Parse ``.loc_intermediate file line column``, a place in a source that `tokens.without_sources` leaves out."""
        self.gated("loc_intermediate", self.s.span())
        return [self.expressions.integer() for _ in range(3)]

    def check_names(self) -> None:
        """Check that the names of functions in .loc are labels of sections."""
        for name, span in self.named.items():
            if name not in self.section_labels:
                self.expressions.note(SyntaxProblem(f"{name} is no label of a .section", span, rule="undeclared"))

    def _string(self) -> str:
        s = self.s
        if s.kind != "string":
            raise s.problem(f"found {s.shown()} where a string was expected")
        return s.take()

    def _pragma(self) -> list[int | str]:
        """Parse ``.pragma "a", "b";``."""
        s = self.s
        span = s.span()
        found = [self._string()]
        while s.accept(","):
            found.append(self._string())
        s.expect(";")
        for text in found:
            if wrong := wrong_pragma(text, self.place, self.version):
                self.expressions.note(SyntaxProblem(wrong, span, rule="directive"))
        return list(found)

    def _alias(self) -> list[int | str]:
        """Parse ``.alias name, function;``."""
        s = self.s
        found: list[int | str] = [s.word("the name of a function")]
        s.expect(",")
        found.append(s.word("the name of a function"))
        self.gated("alias", s.span())
        s.expect(";")
        return found

    def _names(self) -> list[int | str]:
        """Parse ``a, b<2>;``, which names a, b0 and b1."""
        s = self.s
        found: list[int | str] = []
        while not found or s.accept(","):
            name = s.word("a name")
            if not s.accept("<"):
                found.append(name)
                continue
            count = self.expressions.integer()
            if not 0 < count < len(s.source):
                raise s.problem(f"{name}<{count}> names nothing that is here", rule="directive")
            found += [f"{name}{n}" for n in range(count)]
            s.expect(">")
        s.expect(";")
        return found

    def performance(self, before: list[ast.Directive], *, entry: bool) -> ast.Directive:
        """Parse a directive between a function's parameters and its body; ``before`` are those already parsed."""
        s = self.s
        span, name = s.span(), s.text[1:]
        if name == "pragma":
            return self._pragmas(entry=entry)
        limit = (ENTRY_DIRECTIVES if entry else FUNC_DIRECTIVES).get(name)
        if limit is None or (name == "noreturn" and before):
            wanted = f"a directive of {'an .entry' if entry else 'a .func'}"
            raise s.problem(f"found {s.shown()} where {wanted} was expected")
        if not entry and any(d.name == name for d in before):
            self.expressions.note(s.problem(f".{name} is given twice", rule="directive"))
        s.skip()
        arguments = self._numbers(name, limit)
        behind = s.span() if name in LISTS and len(arguments) < limit else span
        self.gated(name, behind if name in LISTS else span)
        if name == "maxnctapersm":
            self.expressions.note(
                SyntaxProblem(".maxnctapersm was removed in PTX 2.1", span, "write .minnctapersm", "directive")
            )
        other = EXCLUDED.get(name)
        if other is not None and any(d.name == other for d in before):
            message = f".{name} and .{other} exclude each other"
            self.expressions.note(SyntaxProblem(message, behind, rule="directive"))
        return ast.Directive(name, arguments, span)

    def gated(self, name: str, span: Span) -> None:
        """Note a directive that the module's target or PTX version does not have."""
        target, version = NEWER.get(name, (0, (0, 0)))
        if self.version < version:
            self.expressions.note(
                SyntaxProblem(f".{name} needs PTX .version {version[0]}.{version[1]}", span, rule="target")
            )
        elif self.target < target:
            self.expressions.note(SyntaxProblem(f".{name} needs .target sm_{target} or higher", span, rule="target"))

    def _pragmas(self, *, entry: bool) -> ast.Directive:
        s = self.s
        span = s.span()
        s.skip()
        found = ast.Directive("pragma", tuple(self._pragma()), span)
        if not entry and s.text != ".pragma":
            raise s.problem(f"found {s.shown()} after the .pragma of a .func", "it stands in the body")
        return found

    def _numbers(self, name: str, limit: int) -> tuple[int, ...]:
        """The numbers of a directive, at most ``limit``."""
        s = self.s
        numbers: list[int] = []
        while len(numbers) < limit and (not numbers or s.accept(",")):
            at = s.span()
            numbers.append(self.expressions.integer())
            if name in POSITIVE and not numbers[-1]:
                span = s.span() if name in LISTS else at
                self.expressions.note(SyntaxProblem(f".{name} needs positive numbers", span, "", "directive"))
        if s.text == "," and limit:
            raise s.problem(f".{name} takes at most {limit} numbers", rule="directive")
        return tuple(numbers)


def _within(span: Span, text: str, at: int) -> Span:
    """The place of a character in a text that begins at a span."""
    before = text[:at]
    column = at - before.rfind("\n") if "\n" in before else span.column + at
    return Span(span.file, span.line + before.count("\n"), column, 1)
