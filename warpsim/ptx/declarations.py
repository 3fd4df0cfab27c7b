"""Declarations: variables, parameters, attributes and initialisers."""

from __future__ import annotations

import functools

from warpsim.ptx import ast
from warpsim.ptx.expressions import Expressions
from warpsim.ptx.tokens import SyntaxProblem
from warpsim.ptx.words import LEADING, OPAQUE, SPACES, TYPES

MAX_DEPTH = 64
NO_NAMES = frozenset({"%", "$", "_", "WARP_SZ"})
"""Words that the assembler does not accept as names."""
PARAMETER_SPACES = frozenset({".param", ".reg"})
HIDDEN = "it is for a tensor map that NVIDIA's driver makes for a kernel of tileiras; for sm_80 (warpsim exec --device sm_80) it makes kernels without"
POINTED = frozenset({".global", ".shared", ".const", ".local", *(f".{name}" for name in OPAQUE)})
STORED = frozenset({".v2", ".v4", *(f".{name}" for name in TYPES)})
"""What may follow a state space, and begins a declaration that lacks one."""
MASKS = frozenset(0xFF << shift for shift in range(0, 64, 8))


class _Prefix:
    """What stands in front of the names of a declaration."""

    def __init__(self) -> None:
        self.align: int | None = None
        self.attributes: tuple[str, ...] = ()
        self.vector = 1
        self.pointer: tuple[str | None, int | None] | None = None
        self.type = ""


class Declarations:
    """Parses declarations. ``unfinished`` is the one that cannot be read to its end, with the names that can;
    ``opaque``: the initial value that is read may name fields."""

    def __init__(self, expressions: Expressions) -> None:
        self.s, self.expressions = expressions.s, expressions
        self.unfinished: ast.Variable | None = None
        self.opaque = False

    def attributes(self, *, function: bool = False) -> tuple[str, ...]:
        """Parse an optional ``.attribute(...)``; that of a function is ``.unified``."""
        s = self.s
        if not s.accept(".attribute"):
            return ()
        s.expect("(")
        words: list[str] = []
        while True:
            if not function and s.accept(".managed"):
                words.append(".managed")
            elif s.accept(".unified"):
                s.expect("(")
                low = self.expressions.integer(64)
                s.expect(",")
                words.append(f".unified({low},{self.expressions.integer(64)})")
                s.expect(")")
            else:
                wanted = ".unified" if function else ".managed or .unified"
                raise s.problem(f"found {s.shown()} where {wanted} was expected")
            if not s.accept(","):
                break
        s.expect(")")
        return tuple(words)

    def params(self, *, named: bool = False) -> tuple[ast.Variable, ...]:
        """Parse the parenthesised parameters of a function; ``_`` may stand for the name, unless they must be ``named``."""
        s = self.s
        s.expect("(")
        params: list[ast.Variable] = []
        while s.text != ")" or params:
            params.append(self.variable(None, parameter=True))
            item = params[-1].declarators[0]
            if named and item.name == "_":
                self.expressions.note(SyntaxProblem("a parameter of a .func needs a name", item.span, rule="directive"))
            if not s.accept(","):
                break
        s.expect(")")
        return tuple(params)

    def variable(self, linkage: str | None, *, parameter: bool = False) -> ast.Variable:
        """Parse ``.space .align N .vN .type declarators``, up to what ends it. Alignments and attributes may come
        first; the largest alignment counts."""
        s = self.s
        span, found = s.span(), _Prefix()
        while s.text in LEADING:
            if s.text == ".align":
                self._align(found)
            else:
                found.attributes = self.attributes()
        space = self._space(parameter=parameter)
        while s.kind == "dotted":
            self._modifier(found, space, parameter=parameter)
        if not found.type:
            raise s.problem(f"found {s.shown()} where the type of a .{space} variable was expected")
        self.opaque = found.type in OPAQUE
        declarators = [self._declarator(parameter=parameter)]
        made = functools.partial(ast.Variable, space, found.type)
        rest = span, linkage, found.align, found.vector, found.pointer, found.attributes
        if not parameter:
            self._placed(found, space)
            try:
                while s.accept(","):
                    declarators.append(self._declarator(parameter=False))
            except SyntaxProblem:
                if linkage != "common":  # which is checked with the whole
                    self.unfinished = made(tuple(declarators), *rest)
                raise
        return made(tuple(declarators), *rest)

    def _space(self, *, parameter: bool) -> str:
        """The state space of a declaration; empty if it begins with what follows one."""
        s = self.s
        if parameter and s.text not in PARAMETER_SPACES:
            raise s.problem(
                f"found {s.shown()} where .param or .reg was expected", HIDDEN if s.text == ".hidden" else ""
            )
        if s.text not in SPACES and s.text not in STORED:
            raise s.problem(f"found {s.shown()} where a state space was expected")
        space = s.take()[1:] if s.text in SPACES else ""
        if s.text in (".v8", ".v3", ".v1"):
            raise s.problem(f"found {s.shown()} where .v2, .v4 or the type of a variable was expected")
        return space

    def _placed(self, found: _Prefix, space: str) -> None:
        """Check that a declaration, of which one name is read, has a state space, and one for its attributes."""
        s = self.s
        if s.text not in (",", ";"):
            if not space:
                raise s.problem(f"found {s.shown()} where ';' was expected")
        elif not space:
            raise s.problem("the declaration has no state space", "write .global, .shared or .reg before the type")
        elif found.attributes and space != "global":
            message = f"{found.attributes[0]} is an attribute of .global variables"
            self.expressions.note(s.problem(message, rule="directive"))

    def _modifier(self, found: _Prefix, space: str, *, parameter: bool) -> None:
        """One of the words between a state space and a name."""
        s, text, pointer = self.s, self.s.text, found.pointer
        first = not found.type and found.vector == 1
        if text == ".align" and pointer is not None and pointer[1] is None:
            found.pointer = (pointer[0], self._alignment())
        elif text == ".align" and first:
            self._align(found)
        elif text in (".v2", ".v4") and first:
            found.vector = int(s.take()[2:])
        elif text == ".ptr" and parameter and found.type and pointer is None:
            s.skip()
            found.pointer = (None, None)
        elif text == ".attribute" and not found.type and not parameter:
            found.attributes = self.attributes()
        elif pointer == (None, None) and text in POINTED:
            found.pointer = (s.take()[1:], None)
        else:
            self._type(found, space)

    def _type(self, found: _Prefix, space: str) -> None:
        s = self.s
        if found.type:
            raise s.problem(f"found {s.shown()} after the type .{found.type}")
        if s.text[1:] not in TYPES:
            raise s.problem(
                f"found {s.shown()} where the type of a .{space} variable was expected",
                "types of instructions only, such as .bf16 and .tf32, are held in .b16 and .b32",
                "directive",
            )
        found.type = s.take()[1:]

    def _align(self, found: _Prefix) -> None:
        found.align = max(found.align or 1, self._alignment())

    def _alignment(self) -> int:
        """Parse ``.align N``."""
        s = self.s
        s.skip()
        span = s.span()
        value = self.expressions.integer()
        if value < 1 or value & (value - 1):
            self.expressions.note(SyntaxProblem(f".align {value} is not a power of two", span, rule="directive"))
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
            count = self.expressions.integer()
            s.expect(">")
            return ast.Declarator(name, count, (), None, span)
        while (not dimensions or not parameter) and s.accept("["):
            if s.text == "]" and not dimensions:
                dimensions.append(None)
            else:
                dimensions.append(self.expressions.integer(32 if parameter else 1000) & (2**64 - 1))
            s.expect("]")
        initialiser = self._initialiser(1) if s.accept("=") else None
        return ast.Declarator(name, count, tuple(dimensions), initialiser, span)

    def _initialiser(self, depth: int) -> ast.InitialiserTree:
        s = self.s
        if depth > MAX_DEPTH:
            raise s.problem("initialisers nest too deep")
        if s.accept("{"):
            return self._list(depth)
        span = s.span()
        if s.kind == "integer" and s.peek(1) == "(":
            return self._masked()
        if self.opaque and s.kind == "word" and s.peek(1) == "=":
            return self._field()
        if s.kind == "word" and s.text not in ("generic", "WARP_SZ") and s.peek(1) in (",", "}"):
            return ast.Initialiser(None, ast.Name(s.take(), span), 0, generic=False, mask=None, span=span)
        if s.text == "generic" or (s.kind == "word" and s.text != "WARP_SZ"):
            name, generic = self._symbol()
            return ast.Initialiser(None, name, self._plus(), generic=generic, mask=None, span=span)
        if s.kind == "string":
            raise s.problem("strings are no initialisers in PTX", "write the bytes as a list of numbers")
        return ast.Initialiser(self.expressions.literal(), None, 0, generic=False, mask=None, span=span)

    def _list(self, depth: int) -> tuple[ast.InitialiserTree, ...]:
        """Initialisers in braces."""
        s = self.s
        if s.accept("}"):
            return ()
        if s.kind == "numbers":
            width, values = s.tables[s.i]
            numbers = ast.Numbers(values, width, s.span())
            s.skip()
            s.expect("}")
            return (numbers,)
        if s.kind == "addresses":
            addresses = ast.Addresses(s.addresses[s.i], s.text, s.span())
            s.skip()
            s.expect("}")
            return (addresses,)
        parts = [self._initialiser(depth + 1)]
        while s.accept(","):
            parts.append(self._initialiser(depth + 1))
        s.expect("}")
        return tuple(parts)

    def _field(self) -> ast.Field:
        """``width = 4``: a field of a texture, sampler or surface."""
        s = self.s
        span, name = s.span(), s.word("a field")
        s.expect("=")
        at = s.span()
        value = ast.Name(s.take(), at) if s.kind == "word" else self.expressions.literal()
        return ast.Field(name, value, span)

    def _masked(self) -> ast.Initialiser:
        """``0xFF(name)``: a byte of an address."""
        s = self.s
        span, mask = s.span(), self.expressions.integer(64)
        s.expect("(")
        name, generic = self._symbol()
        offset = self._plus()
        s.expect(")")
        if mask >> 64 or mask not in MASKS:
            message = f"the mask 0x{mask:x} of an initial value is not a byte"
            self.expressions.note(SyntaxProblem(message, span, "", "initialiser"))
        return ast.Initialiser(None, name, offset, generic, mask, span)

    def _symbol(self) -> tuple[ast.Name, bool]:
        """A symbol, and whether its generic address is meant."""
        s = self.s
        generic = s.accept("generic")
        if generic:
            s.expect("(")
        span = s.span()
        name = ast.Name(s.word("a symbol"), span)
        if generic:
            s.expect(")")
        return name, generic

    def _plus(self) -> int:
        s = self.s
        offset = 0
        while s.accept("+"):
            offset += self.expressions.constant()
        return offset
