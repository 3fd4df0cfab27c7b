"""PTX text to a syntax tree. Every problem of a text is found in one go and raised together."""

from __future__ import annotations

import itertools
from bisect import bisect

from warpsim.errors import Finding, PtxError, Span
from warpsim.ptx import ast
from warpsim.ptx.expressions import ExpressionParser
from warpsim.ptx.stream import Stream, SyntaxProblem

LINKAGES = {".visible": "visible", ".extern": "extern", ".weak": "weak", ".common": "common"}
SPACES = frozenset({".reg", ".const", ".global", ".local", ".param", ".shared", ".sreg"})
HEADER = frozenset({".version", ".target", ".address_size"})
MAX_DEPTH = 64


def parse(text: str, file: str = "<ptx>") -> ast.Module:
    """The syntax tree of a module.

    Raises:
        PtxError: with one finding of rule ``syntax`` for each problem.
    """
    return _Parser(text, file).module()


class _Parser(ExpressionParser):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(Stream(text, file))
        self.findings: list[Finding] = []

    # ---- recovery ----------------------------------------------------------------------------

    def note(self, problem: SyntaxProblem) -> None:
        if len(self.findings) < 200:
            span = problem.span
            self.findings.append(
                Finding(
                    "syntax",
                    problem.message,
                    advice=problem.advice,
                    file=span.file,
                    line=span.line,
                    column=span.column,
                    text=self.s.line_text(span.line),
                )
            )

    def recover(self) -> None:
        """Skip to behind the next semicolon, or to a brace or a module-level directive."""
        while self.s.kind != "end" and self.s.text not in ("}", ";"):
            self.s.skip()
        if self.s.text == ";":
            self.s.skip()

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
                self.recover()
                if s.text == "}":
                    s.skip()
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
        if not (major.isdigit() and minor.isdigit()):
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
        linkage = None
        attributes: tuple[str, ...] = ()
        while s.text in LINKAGES:
            linkage = LINKAGES[s.text]
            s.skip()
        text = s.text
        if text in (".entry", ".func"):
            return self._function(linkage, span)
        if text in SPACES:
            variable = self._variable(linkage)
            s.expect(";")
            return variable
        if text == ".section":
            return self._section()
        if text in (".b8", ".b16", ".b32", ".b64"):
            return self._data_line()
        if text == ";":
            s.skip()
            return None
        if text.startswith(".") and s.kind == "dotted":
            if text in HEADER:
                raise s.problem(f"{text} may stand only once, at the beginning of a module")
            return self._directive()
        if s.kind == "word" and s.peek(1) == ":":
            s.skip()
            s.skip()
            return None
        raise s.problem(f"found {s.shown()} where a directive was expected", str(attributes) if attributes else "")

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
            if not by_line and s.kind == "dotted" and name not in ("pragma", "alias") and s.line() != line:
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
            s.accept(";")
        return ast.Directive(name, tuple(arguments), span)

    # ---- functions ---------------------------------------------------------------------------

    def _function(self, linkage: str | None, span: Span) -> ast.Function:
        s = self.s
        entry = s.text == ".entry"
        s.skip()
        attributes = self._attributes()
        returns: tuple[ast.Variable, ...] = ()
        if not entry and s.text == "(":
            returns = self._params()
        name_span = s.span()
        name = s.word("the name of the function")
        params = self._params() if s.text == "(" else ()
        directives: list[ast.Directive] = []
        while s.kind == "dotted":
            directives.append(self._performance())
        if s.accept(";"):
            return ast.Function(name, entry, linkage, returns, params, tuple(directives), None, name_span, attributes)
        if s.text != "{":
            raise s.problem(f"found {s.shown()} where the body of {name} or a semicolon was expected")
        body = self._block(1)
        return ast.Function(name, entry, linkage, returns, params, tuple(directives), body, name_span, attributes)

    def _performance(self) -> ast.Directive:
        s = self.s
        span, name = s.span(), s.text[1:]
        s.skip()
        arguments: list[int | str] = []
        while s.kind in ("integer", "string"):
            arguments.append(self.integer() if s.kind == "integer" else s.take())
            if not s.accept(","):
                break
        if name == "pragma":
            s.accept(";")
        return ast.Directive(name, tuple(arguments), span)

    def _attributes(self) -> tuple[str, ...]:
        s = self.s
        if not s.accept(".attribute"):
            return ()
        s.expect("(")
        words: list[str] = []
        depth = 1
        while depth:
            if s.kind == "end":
                raise s.problem("found the end of the text in .attribute(...)")
            depth += (s.text == "(") - (s.text == ")")
            if depth:
                words.append(s.text)
            s.skip()
        return tuple("".join(words).split(","))

    def _params(self) -> tuple[ast.Variable, ...]:
        s = self.s
        s.expect("(")
        params: list[ast.Variable] = []
        while s.text != ")":
            if s.text not in (".param", ".reg"):
                raise s.problem(f"found {s.shown()} where .param or .reg was expected")
            params.append(self._variable(None, parameter=True))
            if not s.accept(","):
                break
        s.expect(")")
        return tuple(params)

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
                self.recover()
                if s.i == before:
                    s.skip()
        s.skip()
        return ast.Block(tuple(statements), span)

    def _statement(self, out: list[ast.Statement], depth: int) -> None:
        s = self.s
        kind, text = s.kind, s.text
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
            if text in SPACES or text in LINKAGES:
                linkage = None
                while s.text in LINKAGES:
                    linkage = LINKAGES[s.text]
                    s.skip()
                out.append(self._variable(linkage))
                s.expect(";")
            elif text == ".callprototype":
                out.append(self._prototype())
            else:
                out.append(self._directive())
        elif text == ";":
            s.skip()
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
        modifiers: list[str] = []
        kinds, texts = s.kinds, s.texts
        while kinds[s.i] == "dotted":
            modifiers.append(texts[s.i][1:])
            s.i += 1
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

    def _prototype(self) -> ast.CallPrototype:
        s = self.s
        span = s.span()
        s.skip()
        returns = self._params() if s.text == "(" else ()
        s.word("_")
        params = self._params() if s.text == "(" else ()
        noreturn = False
        while s.kind == "dotted":
            noreturn |= s.text == ".noreturn"
            self._performance()
        s.expect(";")
        return ast.CallPrototype(returns, params, noreturn, span)

    # ---- variables ---------------------------------------------------------------------------

    def _variable(self, linkage: str | None, parameter: bool = False) -> ast.Variable:
        s = self.s
        span = s.span()
        space = s.take()[1:]
        align: int | None = None
        vector = 1
        pointer: tuple[str | None, int | None] | None = None
        attributes: tuple[str, ...] = ()
        type_name = ""
        while s.kind == "dotted":
            text = s.text
            if text == ".align":
                s.skip()
                value = self.integer()
                if pointer is not None:
                    pointer = (pointer[0], value)
                else:
                    align = value
            elif text in (".v2", ".v4", ".v8"):
                s.skip()
                vector = int(text[2:])
            elif text == ".ptr":
                s.skip()
                pointer = (None, None)
            elif text == ".attribute":
                attributes = self._attributes()
            elif pointer is not None and text in (".global", ".shared", ".const", ".local"):
                s.skip()
                pointer = (text[1:], pointer[1])
            else:
                if type_name:
                    raise s.problem(f"found {s.shown()} after the type .{type_name}")
                type_name = text[1:]
                s.skip()
        if not type_name:
            raise s.problem(f"found {s.shown()} where the type of a .{space} variable was expected")
        declarators = [self._declarator(space)]
        while not parameter and s.accept(","):
            declarators.append(self._declarator(space))
        return ast.Variable(space, type_name, tuple(declarators), span, linkage, align, vector, pointer, attributes)

    def _declarator(self, space: str) -> ast.Declarator:
        s = self.s
        span = s.span()
        name = s.word("a name")
        count: int | None = None
        dimensions: list[int | None] = []
        if s.accept("<"):
            count = self.integer()
            s.expect(">")
        while s.accept("["):
            dimensions.append(None if s.text == "]" else self.constant())
            s.expect("]")
        initialiser = self._initialiser(1) if s.accept("=") else None
        return ast.Declarator(name, count, tuple(dimensions), initialiser, span)

    def _initialiser(self, depth: int) -> ast.InitialiserTree:
        s = self.s
        if depth > MAX_DEPTH:
            raise s.problem("initialisers nest too deep")
        if s.accept("{"):
            parts: list[ast.InitialiserTree] = []
            while s.text != "}":
                parts.append(self._initialiser(depth + 1))
                if not s.accept(","):
                    break
            s.expect("}")
            return tuple(parts)
        span = s.span()
        if s.kind == "word" and s.text != "generic":
            name = ast.Name(s.take(), span)
            return ast.Initialiser(None, name, self._plus(), False, None, span)
        if s.text == "generic":
            s.skip()
            s.expect("(")
            name = ast.Name(s.word("a symbol"), s.span())
            offset = self._plus()
            s.expect(")")
            return ast.Initialiser(None, name, offset + self._plus(), True, None, span)
        if s.kind == "integer" and s.peek(1) == "(":
            mask = self.integer()
            s.expect("(")
            generic = s.accept("generic")
            if generic:
                s.expect("(")
            name = ast.Name(s.word("a symbol"), s.span())
            offset = self._plus()
            if generic:
                s.expect(")")
            offset += self._plus()
            s.expect(")")
            return ast.Initialiser(None, name, offset, generic, mask, span)
        if s.kind == "string":
            raise s.problem("strings are no initialisers in PTX", "write the bytes as a list of numbers")
        literal = self.literal()
        return ast.Initialiser(literal, None, 0, False, None, span)

    def _plus(self) -> int:
        s = self.s
        offset = 0
        while s.text in ("+", "-"):
            sign = 1 if s.take() == "+" else -1
            offset += sign * self.constant()
        return offset


def _join(words: list[str]) -> str:
    out = words[0]
    for previous, word in itertools.pairwise(words):
        glue = "" if word in (",", ":", ";") or previous == "" else " "
        out += glue + word
    return out


__all__ = ["bisect", "parse"]
