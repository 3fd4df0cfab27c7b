"""PTX text to a syntax tree. Every problem of a text is found in one go and raised together."""

from __future__ import annotations

import itertools

from warpsim.errors import Finding, PtxError, Span
from warpsim.ptx import ast
from warpsim.ptx.declarations import MAX_DEPTH, DeclarationParser
from warpsim.ptx.stream import Stream, SyntaxProblem
from warpsim.ptx.words import (
    BODY_DIRECTIVES,
    ENTRY_DIRECTIVES,
    FUNC_DIRECTIVES,
    MODULE_DIRECTIVES,
    RESERVED,
    SPACES,
    TOGETHER,
)

LINKAGES = {".visible": "visible", ".extern": "extern", ".weak": "weak", ".common": "common"}
HEADER = frozenset({".version", ".target", ".address_size"})
MAX_FINDINGS = 200


def parse(text: str, file: str = "<ptx>") -> ast.Module:
    """The syntax tree of a module.

    Raises:
        PtxError: with one finding of rule ``syntax`` for each problem.
    """
    return _Parser(text, file).module()


class _Parser(DeclarationParser):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(Stream(text, file))
        self.findings: list[Finding] = []

    # ---- recovery ----------------------------------------------------------------------------

    def note(self, problem: SyntaxProblem) -> None:
        span = problem.span
        last = self.findings[-1] if self.findings else None
        repeated = last is not None and (last.line, last.column) == (span.line, span.column)
        if len(self.findings) < MAX_FINDINGS and not repeated:
            self.findings.append(
                Finding(
                    problem.rule,
                    problem.message,
                    advice=problem.advice,
                    file=span.file,
                    line=span.line,
                    column=span.column,
                    text=self.s.line_text(span.line),
                )
            )

    def recover(self, start: int) -> None:
        """Go on behind the statement that began at token ``start``: its semicolon, or the brace that closes round it."""
        s = self.s
        texts = s.texts
        depth = texts[start : s.i].count("{") - texts[start : s.i].count("}")
        while s.kind != "end":
            text = s.text
            if text == "{":
                depth += 1
            elif text == "}":
                if depth <= 0:
                    return
                depth -= 1
            elif text == ";" and depth <= 0:
                s.skip()
                return
            s.skip()

    def recover_item(self, start: int) -> None:
        """Go on behind the module-level item that began at token ``start``."""
        s = self.s
        texts = s.texts
        depth = texts[start : s.i].count("{") - texts[start : s.i].count("}")
        if s.i == start:
            s.skip()
        while s.kind != "end":
            text = s.text
            if depth <= 0 and (text in LINKAGES or text in (".entry", ".func")):
                return
            s.skip()
            if text == "{":
                depth += 1
            elif text == "}":
                depth -= 1
                if depth <= 0:
                    return
            elif text == ";" and depth <= 0:
                return

    # ---- module ------------------------------------------------------------------------------

    def module(self) -> ast.Module:
        s = self.s
        version, size = (0, 0), 64
        target: tuple[str, ...] = ()
        items: list[ast.Function | ast.Variable | ast.Directive | ast.Section] = []
        try:
            if s.text != ".version":
                raise s.problem(
                    f"found {s.shown()} where a module begins with .version",
                    "the first directive of PTX is .version major.minor",
                )
            s.skip()
            version = self._version()
            if s.text != ".target":
                raise s.problem(f"found {s.shown()} where .target was expected after .version")
            s.skip()
            target = self._targets()
            if s.text == ".address_size":
                s.skip()
                size = self.integer()
        except SyntaxProblem as problem:
            self.note(problem)
            raise PtxError(findings=tuple(self.findings)) from None
        while s.kind != "end":
            before = s.i
            try:
                item = self._item()
                if item is not None:
                    items.append(item)
            except SyntaxProblem as problem:
                self.note(problem)
                self.recover_item(before)
            if s.i == before:
                s.skip()
        if self.findings:
            raise PtxError(findings=tuple(self.findings))
        return ast.Module(version, target, size, tuple(items), s.file, s.source)

    def _version(self) -> tuple[int, int]:
        s = self.s
        text = s.text
        if s.kind != "float" or "." not in text:
            raise s.problem(f"found {s.shown()} where a version such as 8.0 was expected")
        s.skip()
        major, minor = text.split(".")[:2]
        if not (major.isdigit() and minor.isdigit() and len(text) < 20):
            raise s.problem(f"{text} is no version")
        return int(major), int(minor)

    def _targets(self) -> tuple[str, ...]:
        names = [self.s.word("a target such as sm_90a")]
        while self.s.accept(","):
            names.append(self.s.word("a target option"))
        return tuple(names)

    def _item(self) -> ast.Function | ast.Variable | ast.Directive | ast.Section | None:
        s = self.s
        span = s.span()
        self.nesting = 0
        linkage = LINKAGES.get(s.text)
        if linkage is not None:
            s.skip()
        text = s.text
        if text in (".entry", ".func"):
            return self._function(linkage, span)
        if text in SPACES:
            variable = self.variable(linkage)
            s.expect(";")
            return variable
        if text == ".section":
            return self._section()
        if text in (".b8", ".b16", ".b32", ".b64"):
            return self._data_line()
        if s.kind == "dotted":
            if text in HEADER:
                raise s.problem(f"{text} may stand only once, at the beginning of a module")
            if text[1:] in MODULE_DIRECTIVES and linkage is None:
                return self._directive()
        elif s.kind == "word" and s.peek(1) == ":":
            s.skip()
            s.skip()
            return None
        raise s.problem(
            f"found {s.shown()} where a directive of the module was expected",
            "at module level stand functions, variables, .file, .section, .alias and .pragma",
        )

    def _data_line(self) -> ast.Directive:
        s = self.s
        span, line = s.span(), s.line()
        words: list[int | str] = []
        name = s.text[1:]
        s.skip()
        while s.kind != "end" and s.line() == line:
            words.append(s.text)
            s.skip()
        return ast.Directive(name, tuple(words), span)

    def _section(self) -> ast.Section:
        s = self.s
        span = s.span()
        s.skip()
        name = s.text
        s.skip()
        s.expect("{")
        lines: list[str] = []
        words: list[str] = []
        line = s.line()
        while s.text != "}":
            if s.kind == "end":
                raise s.problem("found the end of the text inside a .section: a closing brace is missing")
            if s.line() != line and words:
                lines.append(_join(words))
                words = []
            line = s.line()
            words.append(s.text)
            s.skip()
        if words:
            lines.append(_join(words))
        s.skip()
        return ast.Section(name, tuple(lines), span)

    def _directive(self) -> ast.Directive:
        """``.name arguments``; ends at a semicolon, or at the end of the line for .file and .loc."""
        s = self.s
        span = s.span()
        name = s.text[1:]
        line = s.line()
        s.skip()
        arguments: list[int | str] = []
        by_line = name in ("file", "loc")
        while s.kind != "end" and s.text not in (";", "{", "}"):
            if by_line and s.line() != line:
                break
            if s.text == ",":
                s.skip()
                continue
            if s.kind == "integer":
                arguments.append(self.integer())
                continue
            arguments.append(s.text)
            s.skip()
        if not by_line:
            s.expect(";")
        return ast.Directive(name, tuple(arguments), span)

    # ---- functions ---------------------------------------------------------------------------

    def _function(self, linkage: str | None, span: Span) -> ast.Function:
        s = self.s
        entry = s.text == ".entry"
        s.skip()
        attributes = self.attributes()
        returns: tuple[ast.Variable, ...] = ()
        if not entry and s.text == "(":
            returns = self.params()
        name_span = s.span()
        name = s.word("the name of the function")
        params = self.params() if s.text == "(" else ()
        directives: list[ast.Directive] = []
        while s.kind == "dotted" and (entry or not self._starts_item()):
            directives.append(self._performance(entry))
        if s.accept(";") or (not entry and s.kind in ("dotted", "end")):
            return ast.Function(name, entry, linkage, returns, params, tuple(directives), None, name_span, attributes)
        if s.text != "{":
            raise s.problem(f"found {s.shown()} where the body of {name} or a semicolon was expected")
        body = self._block(1)
        return ast.Function(name, entry, linkage, returns, params, tuple(directives), body, name_span, attributes)

    def _starts_item(self) -> bool:
        """Whether something of the module begins here: a function that is only declared may end without a semicolon."""
        text = self.s.text
        item = text in LINKAGES or text in SPACES or text in (".entry", ".func", ".section")
        return item or (text[1:] in MODULE_DIRECTIVES and text[1:] not in FUNC_DIRECTIVES)

    def _performance(self, entry: bool) -> ast.Directive:
        s = self.s
        span, name = s.span(), s.text[1:]
        limit = (ENTRY_DIRECTIVES if entry else FUNC_DIRECTIVES).get(name)
        if limit is None:
            raise s.problem(
                f"found {s.shown()} where a directive of {'an .entry' if entry else 'a .func'} was expected"
            )
        s.skip()
        arguments: list[int | str] = []
        if name == "pragma":
            while True:
                if s.kind != "string":
                    raise s.problem(f"found {s.shown()} where a string was expected")
                arguments.append(s.take())
                if not s.accept(","):
                    break
            s.expect(";")
        elif limit:
            arguments.append(self.integer())
            while len(arguments) < limit and s.accept(","):
                arguments.append(self.integer())
            if s.text == ",":
                raise s.problem(f".{name} takes at most {limit} numbers", rule="directive")
        return ast.Directive(name, tuple(arguments), span)

    # ---- statements --------------------------------------------------------------------------

    def _block(self, depth: int) -> ast.Block:
        s = self.s
        span = s.span()
        if depth > MAX_DEPTH:
            raise s.problem(f"blocks nest deeper than {MAX_DEPTH}")
        s.expect("{")
        statements: list[ast.Statement] = []
        while s.text != "}":
            if s.kind == "end":
                raise s.problem("found the end of the text where a statement or a closing brace was expected")
            before = s.i
            try:
                self._statement(statements, depth)
            except SyntaxProblem as problem:
                self.note(problem)
                self.recover(before)
                if s.i == before:
                    s.skip()
        s.skip()
        return ast.Block(tuple(statements), span)

    def _statement(self, out: list[ast.Statement], depth: int) -> None:
        s = self.s
        kind, text = s.kind, s.text
        self.nesting = 0
        if kind == "word":
            if s.peek(1) == ":":
                out.append(ast.Label(text, s.span()))
                s.skip()
                s.skip()
                return
            out.append(self._instruction(None))
        elif text == "@":
            out.append(self._instruction(self._guard()))
        elif text == "{":
            out.append(self._block(depth + 1))
        elif kind == "dotted":
            if text in LINKAGES:
                raise s.problem(
                    f"found {s.shown()} inside a function", "linkage belongs to variables of the module", "linkage"
                )
            if text in SPACES:
                out.append(self.variable(None))
                s.expect(";")
            elif text == ".callprototype":
                out.append(self._prototype())
            elif text[1:] in BODY_DIRECTIVES:
                out.append(self._directive())
            else:
                raise s.problem(f"found {s.shown()} where a statement was expected")
        else:
            raise s.problem(f"found {s.shown()} where a statement was expected")

    def _guard(self) -> ast.Guard:
        s = self.s
        span = s.span()
        s.skip()
        negated = s.accept("!")
        name_span = s.span()
        return ast.Guard(ast.Name(s.word("a predicate register"), name_span), negated, span)

    def _instruction(self, guard: ast.Guard | None) -> ast.Instruction:
        s = self.s
        span = s.span()
        opcode = s.word("an instruction")
        self.calling = opcode == "call"
        modifiers: list[str] = []
        kinds, texts = s.kinds, s.texts
        while kinds[s.i] == "dotted":
            if texts[s.i] in RESERVED:
                raise s.problem(f"found the directive {s.shown()} where a modifier of {opcode} was expected")
            modifiers.append(texts[s.i][1:])
            s.i += 1
        if opcode in TOGETHER:
            self._check_name(opcode, len(modifiers))
        operands: list[ast.Operand] = []
        if s.text != ";":
            while True:
                operands.append(self.operand())
                if not s.accept(","):
                    break
        if s.text != ";":
            raise s.problem(f"found {s.shown()} where a comma or semicolon was expected after an operand of {opcode}")
        s.i += 1
        return ast.Instruction(guard, opcode, tuple(modifiers), tuple(operands), span)

    def _check_name(self, opcode: str, count: int) -> None:
        """Names of several words (wmma.load.a) are written without blanks."""
        s = self.s
        first = s.i - count
        for at in range(first, min(first + TOGETHER[opcode].get(s.texts[first], 1), s.i)):
            if s.starts[at] != s.starts[at - 1] + len(s.texts[at - 1]):
                s.i = at
                raise s.problem(f"found a blank before {s.shown()}, which is part of the name of the instruction")

    def _prototype(self) -> ast.CallPrototype:
        s = self.s
        span = s.span()
        s.skip()
        returns = self.params() if s.text == "(" else ()
        s.word("_")
        params = self.params() if s.text == "(" else ()
        noreturn = False
        while s.kind == "dotted":
            noreturn |= s.text == ".noreturn"
            self._performance(False)
        s.expect(";")
        return ast.CallPrototype(returns, params, noreturn, span)


def _join(words: list[str]) -> str:
    out = words[0]
    for previous, word in itertools.pairwise(words):
        glue = "" if word in (",", ":", ";") or previous == "" else " "
        out += glue + word
    return out
