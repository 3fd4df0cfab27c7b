"""Parses PTX text into a syntax tree. Every problem of a text is found in one pass, and all are raised together."""

from __future__ import annotations

import re
from collections.abc import Callable

from warpsim.errors import Finding, PtxError, Span
from warpsim.ptx import ast
from warpsim.ptx.declarations import MAX_DEPTH, STORED, Declarations
from warpsim.ptx.directives import Directives
from warpsim.ptx.expressions import Expressions
from warpsim.ptx.tokens import Stream, SyntaxProblem, without_sources
from warpsim.ptx.words import (
    DECLARING,
    MODULE_DIRECTIVES,
    RESERVED,
    SUFFIXED,
    TARGET_OPTIONS,
    TARGETS,
    VERSIONS,
)

LINKAGES = {".visible": "visible", ".extern": "extern", ".weak": "weak", ".common": "common"}
LABELLED = frozenset({".branchtargets", ".calltargets", ".callprototype"})
"""Statements that a body declares under a label."""
HEADER = frozenset({".version", ".target", ".address_size"})


IsName = Callable[[str], bool]
"""Whether dotted words are the name of an instruction or begin one, so that no blank stands before the last of them."""


def parse(text: str, file: str = "<ptx>", is_name: IsName = lambda name: False) -> ast.Module:
    """Parse a module.

    Raises:
        PtxError: with one finding of rule ``syntax`` per problem.
    """
    module, findings = read(text, file, is_name)
    if findings or module is None:
        raise PtxError(findings=findings)
    return module


def read(
    text: str, file: str = "<ptx>", is_name: IsName = lambda name: False
) -> tuple[ast.Module | None, tuple[Finding, ...]]:
    """Parse what can be read of a module (None if its header cannot), and return the problems of the rest."""
    parser = Parser(text, file, is_name)
    module = parser.module()
    return module, tuple(parser.expressions.findings)


class Parser:
    """Parses a module, or statements of its functions."""

    def __init__(self, text: str, file: str, is_name: IsName) -> None:
        self.is_name = is_name
        self.s = Stream(without_sources(text), file)
        self.expressions = Expressions(self.s)
        self.declarations = Declarations(self.expressions)
        self.directives = Directives(self.expressions)

    # ---- recovery ----------------------------------------------------------------------------

    def recover(self, start: int) -> None:
        """Skip the statement that began at token ``start``: up to its semicolon, or the enclosing closing brace."""
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
        """Skip the module-level item that began at token ``start``."""
        s = self.s
        texts = s.texts
        depth = texts[start : s.i].count("{") - texts[start : s.i].count("}")
        if s.i == start:
            s.skip()
        while s.kind != "end":
            text = s.text
            if depth <= 0 and (text in LINKAGES or text in (".entry", ".func")):
                return
            closed = s.kind == "section"
            s.skip()
            if text == "{":
                depth += 1
            elif text == "}" or closed:
                depth -= text == "}"
                if depth <= 0:
                    return
            elif text == ";" and depth <= 0:
                return

    # ---- module ------------------------------------------------------------------------------

    def module(self) -> ast.Module | None:
        """Parse the module; None if its header cannot be read. Problems are in ``expressions.findings``."""
        s = self.s
        items: list[ast.Function | ast.Variable | ast.Directive | ast.Section] = []
        try:
            version, target, size = self._head()
        except SyntaxProblem as problem:
            self.expressions.note(problem)
            return None
        while s.kind != "end":
            before = s.i
            try:
                item = self._item()
                if item is not None:
                    items.append(item)
            except SyntaxProblem as problem:
                self.expressions.note(problem)
                if self.declarations.unfinished is not None:
                    items.append(self.declarations.unfinished)
                    self.declarations.unfinished = None
                self.recover_item(before)
            if s.i == before:
                s.skip()
        self.directives.check_names()
        return ast.Module(version, target, size, tuple(items), s.file, s.source)

    def _head(self) -> tuple[tuple[int, int], tuple[str, ...], int]:
        """``.version``, ``.target`` and ``.address_size``."""
        s = self.s
        if s.accept(".target"):
            self._targets()
        if s.text != ".version" or s.line_of(s.i) != s.line_of(s.i + 1) or s.i:
            raise s.problem(
                f"found {s.shown()} where a module begins with .version",
                "the first directive of PTX is .version major.minor",
            )
        s.skip()
        version = self.directives.version = self._version()
        if s.text != ".target":
            raise s.problem(f"found {s.shown()} where .target was expected after .version")
        target: tuple[str, ...] = ()
        while s.accept(".target"):
            target = self._targets()
        self.directives.target = int("".join(filter(str.isdigit, target[0])))
        size = 64
        if s.accept(".address_size"):
            span = s.span()
            size = self.expressions.integer()
            if size not in (32, 64):
                self.expressions.note(
                    SyntaxProblem(f".address_size {size} is neither 32 nor 64", span, rule="directive")
                )
        return version, target, size

    def _version(self) -> tuple[int, int]:
        s = self.s
        text = s.text
        if s.kind != "float" or "." not in text:
            raise s.problem(f"found {s.shown()} where a version such as 8.0 was expected")
        major, minor = text.split(".")[:2]
        if not (major.isdigit() and minor.isdigit() and len(text) < 20) or (int(major), int(minor)) not in VERSIONS:
            raise s.problem(f"{text} is not a version of PTX", rule="target")
        s.skip()
        return int(major), int(minor)

    def _targets(self) -> tuple[str, ...]:
        s = self.s
        if s.kind == "word" and not _is_target(s.text):
            raise s.problem(f"{s.text[:40]} is not a target", "for example sm_80, sm_90a", "target")
        names = [s.word("a target such as sm_90a").replace("compute_", "sm_")]
        while s.accept(","):
            if s.kind == "word" and s.text not in TARGET_OPTIONS and not _is_target(s.text):
                raise s.problem(f"{s.text[:40]} is neither a target nor an option of one", rule="target")
            if s.text == "map_f64_to_f32":
                self.expressions.note(s.problem("map_f64_to_f32 is for targets that have no .f64", rule="target"))
            if s.text.startswith("texmode_") and any(n.startswith("texmode_") and n != s.text for n in names):
                self.expressions.note(s.problem(f"{s.text} conflicts with {names[-1]}", rule="target"))
            names.append(s.word("a target option"))
        return tuple(names)

    def _item(self) -> ast.Function | ast.Variable | ast.Directive | ast.Section | None:
        s = self.s
        span = s.span()
        self.expressions.nesting, self.directives.place = 0, "module"
        linkage = LINKAGES.get(s.text)
        if linkage is not None:
            s.skip()
        text = s.text
        if text in (".entry", ".func"):
            if linkage == "common":
                raise s.problem(
                    f"found {s.shown()} after .common", ".common belongs to variables in .global", "linkage"
                )
            return self._function(linkage, span)
        if text in DECLARING or text in STORED:
            variable = self.declarations.variable(linkage)
            s.expect(";")
            return variable
        if text == ".section" and linkage is None:
            return self.directives.section()
        if s.kind == "dotted":
            if text in HEADER:
                raise s.problem(f"{text} may stand only once, at the beginning of a module")
            if text[1:] in MODULE_DIRECTIVES and linkage is None:
                return self.directives.directive(text[1:])
        self._dwarf()
        raise s.problem(
            f"found {s.shown()} where a directive of the module was expected",
            "at module level stand functions, variables, .file, .section, .alias and .pragma",
        )

    def _dwarf(self) -> None:
        """Skip a line ``@@DWARF ...`` of PTX 1, which the assembler reads as one word."""
        s = self.s
        if (s.text, s.peek(1), s.peek(2)) == ("@", "@", "DWARF"):
            line = s.line_of(s.i)
            while s.kind != "end" and s.line_of(s.i) == line:
                s.skip()

    # ---- functions ---------------------------------------------------------------------------

    def _function(self, linkage: str | None, span: Span) -> ast.Function:
        s = self.s
        entry = s.text == ".entry"
        self.directives.place = "heading"
        s.skip()
        attributes = () if entry else self.declarations.attributes(function=True)
        returns: tuple[ast.Variable, ...] = ()
        if not entry and s.text == "(":
            returns = self.declarations.params(named=True)
        name_span = s.span()
        name = s.word("the name of the function")
        params = self.declarations.params(named=not entry) if s.text == "(" else ()
        directives: list[ast.Directive] = []
        while s.kind == "dotted" and (entry or not self._starts_item()):
            directives.append(self.directives.performance(directives, entry=entry))
        heading = s.span()
        if entry and directives and s.text != "{":
            raise s.problem(f"found {s.shown()} where the body of {name} was expected")
        if s.accept(";") or (not entry and s.kind in ("dotted", "end")):
            body = None
        elif s.text != "{":
            raise s.problem(f"found {s.shown()} where the body of {name} or a semicolon was expected")
        else:
            self.directives.place = "entry" if entry else "func"
            body = self._block(1)
        if returns and any(d.name == "noreturn" for d in directives):
            message = f"{name} returns a value, and is .noreturn"
            self.expressions.note(SyntaxProblem(message, heading if body is None else body.span, rule="directive"))
        return ast.Function(
            name, entry, linkage, returns, params, tuple(directives), body, name_span, heading, attributes
        )

    def _starts_item(self) -> bool:
        """Whether a module-level item begins here, because a function declaration may end without a semicolon."""
        text = self.s.text
        return text in LINKAGES or text in DECLARING or text[1:] in ("entry", "func", "section", "file", "alias")

    # ---- statements --------------------------------------------------------------------------

    def statements(self, text: str, line: int, place: str = "entry") -> list[ast.Statement]:
        """Parse statements of the body of an "entry" or a "func", which begin on a ``line`` of the file.

        Raises:
            SyntaxProblem: they cannot be read to their end.
        """
        self.s.open(text, line)
        self.directives.place = place
        found: list[ast.Statement] = []
        while self.s.kind != "end":
            self._statement(found, 1)
        return found

    def _block(self, depth: int) -> ast.Block:
        s = self.s
        span = s.span()
        if depth > MAX_DEPTH:
            raise s.problem(f"blocks nest deeper than {MAX_DEPTH}")
        s.expect("{")
        statements: list[ast.Statement] = []
        while s.text != "}":
            if s.kind == "end":
                self.expressions.note(
                    s.problem("found the end of the text where a statement or a closing brace was expected")
                )
                break
            before = s.i
            try:
                self._statement(statements, depth)
            except SyntaxProblem as problem:
                self.expressions.note(problem)
                self.recover(before)
                if s.i == before:
                    s.skip()
        end = s.span()
        s.skip()
        return ast.Block(tuple(statements), span, end)

    def _statement(self, out: list[ast.Statement], depth: int) -> None:
        s = self.s
        kind, text = s.kind, s.text
        self.expressions.nesting = 0
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
            if text in DECLARING or text in STORED:
                out.append(self.declarations.variable(None))
                s.expect(";")
            elif text in (".pragma", ".loc", ".loc_intermediate"):
                out.append(self.directives.directive(text[1:]))
            elif text in LABELLED and out and isinstance(out[-1], ast.Label):
                out.append(self._prototype() if text == ".callprototype" else self.directives.directive(text[1:]))
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
        if s.text == "WARP_SZ":
            raise s.problem("found the number WARP_SZ where a predicate register was expected")
        return ast.Guard(ast.Name(s.word("a predicate register"), name_span), negated, span)

    def _instruction(self, guard: ast.Guard | None) -> ast.Instruction:
        s = self.s
        span = s.span()
        opcode = s.word("an instruction")
        modifiers: list[str] = []
        kinds, texts = s.kinds, s.texts
        end = s.starts[s.i - 1] + len(opcode)
        while kinds[s.i] == "dotted":
            text = texts[s.i]
            if text in RESERVED:
                raise s.problem(f"found the directive {s.shown()} where a modifier of {opcode} was expected")
            modifiers.append(text[1:])
            if s.starts[s.i] != end and self.is_name(".".join((opcode, *modifiers))):
                raise s.problem(f"found a blank before {s.shown()}, which is part of the instruction's name")
            end = s.starts[s.i] + len(text)
            s.i += 1
        operands: list[ast.Operand] = []
        if opcode == "call":
            operands = self._call()
        elif s.text != ";":
            while True:
                operands.append(self.expressions.operand())
                if not s.accept(","):
                    break
        if s.text != ";":
            raise s.problem(f"found {s.shown()} where a comma or semicolon was expected after an operand of {opcode}")
        s.i += 1
        return ast.Instruction(guard, opcode, tuple(modifiers), tuple(operands), span)

    def _call(self) -> list[ast.Operand]:
        """Parse ``(returned), name, (arguments), label``; all but the name are optional."""
        s = self.s
        found: list[ast.Operand] = []
        if s.text == "(":
            found.append(self.expressions.group())
            s.expect(",")
        found.append(self._called("a function, or a register with its address"))
        if s.accept(","):
            if s.text == "(":
                found.append(self.expressions.group())
                if not s.accept(","):
                    return found
            found.append(self._called("the label of a prototype or of a list of targets"))
        return found

    def _called(self, what: str) -> ast.Name:
        span = self.s.span()
        return ast.Name(self.s.word(what), span)

    def _prototype(self) -> ast.CallPrototype:
        s = self.s
        span = s.span()
        s.skip()
        returns = self.declarations.params() if s.text == "(" else ()
        s.expect("_")
        params = self.declarations.params() if s.text == "(" else ()
        directives: list[ast.Directive] = []
        while s.kind == "dotted":
            directives.append(self.directives.performance(directives, entry=False))
        noreturn = any(d.name == "noreturn" for d in directives)
        if any(p.space == "param" and not all(p.declarators[0].dimensions) for p in returns):
            self.expressions.note(SyntaxProblem("the result has no size", span, rule="directive"))
        s.expect(";")
        if returns and noreturn:
            self.expressions.note(
                SyntaxProblem("a prototype that returns a value cannot be .noreturn", span, rule="directive")
            )
        return ast.CallPrototype(returns, params, noreturn, span)


def _is_target(name: str) -> bool:
    """Whether a name is a GPU target such as ``sm_90a``."""
    match = re.fullmatch(r"(?:sm|compute)_(\d{2,3})([af]?)", name)
    return match is not None and int(match[1]) in TARGETS and int(match[1]) >= SUFFIXED[match[2]]
