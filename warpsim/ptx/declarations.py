"""Declarations: variables, parameters, attributes and initialisers."""

from __future__ import annotations

from warpsim.ptx import ast
from warpsim.ptx.expressions import ExpressionParser
from warpsim.ptx.stream import SyntaxProblem
from warpsim.ptx.words import LEADING, SPACES, TYPES

MAX_DEPTH = 64
NO_NAMES = frozenset({"%", "$", "_", "WARP_SZ"})
"""Words that the assembler does not accept as names."""
PARAMETER_SPACES = frozenset({".param", ".reg"})
MASKS = frozenset(0xFF << shift for shift in range(0, 64, 8))


class DeclarationParser(ExpressionParser):
    """Parses declarations."""

    def attributes(self) -> tuple[str, ...]:
        """Parse an optional ``.attribute(...)``."""
        s = self.s
        if not s.accept(".attribute"):
            return ()
        s.expect("(")
        words: list[str] = []
        while True:
            if s.accept(".managed"):
                words.append(".managed")
            elif s.accept(".unified"):
                s.expect("(")
                low = self.integer(64)
                s.expect(",")
                words.append(f".unified({low},{self.integer(64)})")
                s.expect(")")
            else:
                raise s.problem(f"found {s.shown()} where .managed or .unified was expected")
            if not s.accept(","):
                break
        s.expect(")")
        return tuple(words)

    def params(self) -> tuple[ast.Variable, ...]:
        """Parse the parenthesised parameters of a function."""
        s = self.s
        s.expect("(")
        params: list[ast.Variable] = []
        while s.text != ")" or params:
            params.append(self.variable(None, parameter=True))
            if not s.accept(","):
                break
        s.expect(")")
        return tuple(params)

    def variable(self, linkage: str | None, *, parameter: bool = False) -> ast.Variable:
        """Parse ``.space .align N .vN .type declarators``, up to what ends it. Alignments and attributes may come
        first; the largest alignment counts.
        """
        s = self.s
        span = s.span()
        align: int | None = None
        attributes: tuple[str, ...] = ()
        while s.text in LEADING:
            if s.text == ".align":
                align = max(align or 1, self._alignment())
            else:
                attributes = self.attributes()
        if s.text not in (PARAMETER_SPACES if parameter else SPACES):
            wanted = ".param or .reg" if parameter else "a state space"
            raise s.problem(f"found {s.shown()} where {wanted} was expected")
        space = s.take()[1:]
        if s.text in (".v8", ".v3", ".v1"):
            raise s.problem(f"found {s.shown()} where .v2, .v4 or the type of a variable was expected")
        vector = 1
        pointer: tuple[str | None, int | None] | None = None
        type_name = ""
        while s.kind == "dotted":
            text = s.text
            if text == ".align" and pointer is not None and pointer[1] is None:
                pointer = (pointer[0], self._alignment())
            elif text == ".align" and not type_name and vector == 1:
                align = max(align or 1, self._alignment())
            elif text in (".v2", ".v4") and not type_name and vector == 1:
                s.skip()
                vector = int(text[2:])
            elif text == ".ptr" and parameter and type_name and pointer is None:
                s.skip()
                pointer = (None, None)
            elif text == ".attribute" and not type_name and not parameter:
                attributes = self.attributes()
            elif pointer == (None, None) and text in (".global", ".shared", ".const", ".local"):
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
        if attributes and space != "global" and not parameter:
            self.note(
                SyntaxProblem(f"{attributes[0]} is an attribute of .global variables", s.span(), rule="directive")
            )
        declarators = [self._declarator(parameter=parameter)]
        while not parameter and s.accept(","):
            declarators.append(self._declarator(parameter=parameter))
        return ast.Variable(space, type_name, tuple(declarators), span, linkage, align, vector, pointer, attributes)

    def _alignment(self) -> int:
        """Parse ``.align N``."""
        s = self.s
        s.skip()
        span = s.span()
        value = self.integer()
        if value < 1 or value & (value - 1):
            self.note(SyntaxProblem(f".align {value} is not a power of two", span, rule="directive"))
            return 1
        return value

    def _declarator(self, *, parameter: bool) -> ast.Declarator:
        s = self.s
        span = s.span()
        if s.text in NO_NAMES and not (parameter and s.text == "_"):
            raise s.problem(f"found {s.shown()} where a name was expected")
        name = s.word("a name")
        count: int | None = None
        dimensions: list[int | None] = []
        if not parameter and s.accept("<"):
            count = self.integer()
            s.expect(">")
            return ast.Declarator(name, count, (), None, span)
        while (not dimensions or not parameter) and s.accept("["):
            if s.text == "]" and not dimensions:
                dimensions.append(None)
            else:
                dimensions.append(self.integer(32 if parameter else 1000) & (2**64 - 1))
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
        if s.kind == "word" and s.text not in ("generic", "WARP_SZ"):
            name = ast.Name(s.take(), span)
            return ast.Initialiser(None, name, self._plus(), generic=False, mask=None, span=span)
        if s.text == "generic":
            s.skip()
            s.expect("(")
            name = ast.Name(s.word("a symbol"), s.span())
            s.expect(")")
            return ast.Initialiser(None, name, self._plus(), generic=True, mask=None, span=span)
        if s.kind == "integer" and s.peek(1) == "(":
            mask = self.integer(64)
            s.expect("(")
            generic = s.accept("generic")
            if generic:
                s.expect("(")
            name = ast.Name(s.word("a symbol"), s.span())
            if generic:
                s.expect(")")
            offset = self._plus()
            s.expect(")")
            if mask >> 64 or mask not in MASKS:
                self.note(
                    SyntaxProblem(f"the mask 0x{mask:x} of an initial value is not a byte", span, "", "initialiser")
                )
            return ast.Initialiser(None, name, offset, generic, mask, span)
        if s.kind == "string":
            raise s.problem("a string is not an initialiser in PTX", "write the bytes as a list of numbers")
        literal = self.literal()
        return ast.Initialiser(literal, None, 0, generic=False, mask=None, span=span)

    def _plus(self) -> int:
        s = self.s
        offset = 0
        while s.accept("+"):
            offset += self.constant()
        return offset
