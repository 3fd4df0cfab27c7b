"""Declarations: variables, parameters, attributes and initialisers."""

from __future__ import annotations

from warpsim.ptx import ast
from warpsim.ptx.expressions import ExpressionParser
from warpsim.ptx.words import SPACES, TYPES

MAX_DEPTH = 64


class DeclarationParser(ExpressionParser):
    """The part of the parser that reads declarations."""

    def attributes(self) -> tuple[str, ...]:
        """``.attribute(...)``, if it stands here."""
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

    def params(self) -> tuple[ast.Variable, ...]:
        """The parenthesised parameters of a function."""
        s = self.s
        s.expect("(")
        params: list[ast.Variable] = []
        while s.text != ")" or params:
            if s.text not in (".param", ".reg"):
                raise s.problem(f"found {s.shown()} where .param or .reg was expected")
            params.append(self.variable(None, parameter=True))
            if not s.accept(","):
                break
        s.expect(")")
        return tuple(params)

    def variable(self, linkage: str | None, parameter: bool = False) -> ast.Variable:
        """``.space .align N .vN .type declarators``, without what ends it."""
        s = self.s
        span = s.span()
        if s.text not in SPACES:
            raise s.problem(f"found {s.shown()} where a state space was expected")
        space = s.take()[1:]
        align: int | None = None
        vector = 1
        pointer: tuple[str | None, int | None] | None = None
        attributes: tuple[str, ...] = ()
        type_name = ""
        while s.kind == "dotted":
            text = s.text
            if text == ".align" and pointer is not None:
                s.skip()
                pointer = (pointer[0], self.integer())
            elif text == ".align" and not type_name and vector == 1:
                s.skip()
                align = self.integer()
            elif text in (".v2", ".v4", ".v8") and not type_name and vector == 1:
                s.skip()
                vector = int(text[2:])
            elif text == ".ptr" and parameter and type_name and pointer is None:
                s.skip()
                pointer = (None, None)
            elif text == ".attribute":
                attributes = self.attributes()
            elif pointer is not None and text in (".global", ".shared", ".const", ".local"):
                s.skip()
                pointer = (text[1:], pointer[1])
            else:
                if type_name:
                    raise s.problem(f"found {s.shown()} after the type .{type_name}")
                if text[1:] not in TYPES:
                    raise s.problem(
                        f"found {s.shown()} where the type of a .{space} variable was expected",
                        "types of instructions only, such as .bf16 and .tf32, are held in .b16 and .b32",
                        "directive",
                    )
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
            if s.accept("}"):
                return ()
            if s.kind == "numbers":
                span = s.span()
                parts.append(ast.Numbers(tuple(map(int, s.take().split(","))), span))
                s.expect("}")
                return tuple(parts)
            parts.append(self._initialiser(depth + 1))
            while s.accept(","):
                parts.append(self._initialiser(depth + 1))
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
            s.expect(")")
            return ast.Initialiser(None, name, self._plus(), True, None, span)
        if s.kind == "integer" and s.peek(1) == "(":
            mask = self.integer()
            s.expect("(")
            generic = s.accept("generic")
            if generic:
                s.expect("(")
            name = ast.Name(s.word("a symbol"), s.span())
            if generic:
                s.expect(")")
            offset = self._plus()
            s.expect(")")
            return ast.Initialiser(None, name, offset, generic, mask, span)
        if s.kind == "string":
            raise s.problem("strings are no initialisers in PTX", "write the bytes as a list of numbers")
        literal = self.literal()
        return ast.Initialiser(literal, None, 0, False, None, span)

    def _plus(self) -> int:
        s = self.s
        offset = 0
        while s.accept("+"):
            offset += self.constant()
        return offset
