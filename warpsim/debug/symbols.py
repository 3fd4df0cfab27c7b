"""What the names of C++ mean in a module: variables, their types, where they are, and the scopes in which they are seen.

Types come from debug information (``nvcc -G``) where there is any. Without it, an array of bytes is one of the type as which
the kernel accesses it, and a parameter that holds an address points to what is accessed there.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import itemgetter

import attrs

from warpsim.analysis.element_types import Root, accessed, element
from warpsim.debug.debug_info import DebugInfo, Place, Scope, Symbol
from warpsim.errors import source_lines
from warpsim.program.c_types import SCALARS, VOID, Array, CType, Pointer, Scalar, scalar_of, size
from warpsim.program.mangling import qualified_name, source_name
from warpsim.program.program import Function, Instruction, Param, Program, Variable
from warpsim.types import ScalarType

_LOCATION = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+([\w$]+)(?:\s*\+\s*(\d+))?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
Line = tuple[str, int]
"""A line of a CUDA file."""


class Symbols:
    """The variables of a module's functions, and of the module."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._bodies: dict[str, Scope] = {}
        self._numbers: dict[str, dict[tuple[int, int], int]] = {}
        self._inlined: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
        self.info = DebugInfo(program)
        self.types = self.info.types
        """Structs, enumerations and names of types."""

    # ---- look up -----------------------------------------------------------------------------

    def find(self, name: str, function: Function, at: int, depth: int = 0) -> Symbol | None:
        """The variable that a name means to a function when its instruction ``at`` comes next, ``depth`` calls of inlined
        functions further out. Where none is seen, it is a parameter or a static variable of the function that the calls are
        in. A name without its namespace is enough if only one variable has it."""
        for symbol in (*self.visible(function, at, depth), *self.body(function).symbols):
            if symbol.name == name:
                return symbol
        last = [symbol for symbol in self.globals if symbol.name.rpartition("::")[2] == name]
        return last[0] if len(last) == 1 else None

    def visible(self, function: Function, at: int, depth: int = 0) -> Iterator[Symbol]:
        """The variables that a function sees, innermost first."""
        for scope in reversed(self.frame(function, at, depth)):
            yield from scope.symbols
        yield from self.globals

    def frame(self, function: Function, at: int, depth: int = 0) -> list[Scope]:
        """The scopes of a function, or of one inlined into it, when its instruction ``at`` comes next, outermost first."""
        frames = self.frames(function, at)
        return frames[min(depth, len(frames) - 1)]

    def frames(self, function: Function, at: int) -> list[list[Scope]]:
        """The scopes of each function that was inlined where the instruction ``at`` is, innermost first, and last those of the
        function itself."""
        found, scope = [[self.body(function)]], self.body(function)
        while inner := next((each for each in scope.scopes if each.holds(at)), None):
            scope = inner
            if scope.call is not None:
                found.insert(0, [])
            found[0].append(scope)
        return found

    def inlined(self, function: Function, instruction: Instruction) -> tuple[tuple[str, Line | None], ...]:
        """The functions that were inlined where an instruction is, innermost first, each with the line of the call; from debug
        information or, without it, from line information."""
        if function.name in self.info.bodies:
            scopes = [each[0] for each in self.frames(function, self.number(function, instruction))[:-1]]
            return tuple([(source_name(scope.function), scope.call) for scope in scopes])
        known = self._inlined.get(function.name)
        if known is None:
            known = self._inlined[function.name] = inlined_functions(function, self.program.lines, self.info.text)
        at = bisect_right(known, instruction.span.line, key=itemgetter(0)) - 1
        names = known[at][1] if at >= 0 else ()
        return tuple(zip(map(qualified_name, names), instruction.inlined_at, strict=False))

    def entered(self, name: str) -> list[Instruction]:
        """The first instruction of each function that C++ calls so, or, if none is, where inlined code of one begins."""
        functions = [f for f in self.program.functions.values() if f.code]
        found = [f.code[0] for f in functions if name and name in (qualified_name(f.name), self.body(f).function)]
        if found:
            return found
        for function in functions:
            chains = [tuple(name for name, _ in self.inlined(function, each)) for each in function.code]
            before = ((), *chains)
            found += [
                each
                for each, old, new in zip(function.code, before, chains, strict=False)
                if name in new and name not in old
            ]
        return found

    def names(self, function: Function) -> set[str]:
        """Every name that means a variable somewhere in a function."""
        found, work = {symbol.name for symbol in self.globals}, [self.body(function)]
        found |= {name.rpartition("::")[2] for name in found}
        while work:
            scope = work.pop()
            found |= {symbol.name for symbol in scope.symbols}
            work += scope.scopes
        return found

    def number(self, function: Function, instruction: Instruction) -> int:
        """The number of an instruction in its function."""
        known = self._numbers.get(function.name)
        if known is None:
            spans = [(each.span.line, each.span.column) for each in function.code]
            known = self._numbers[function.name] = {span: at for at, span in reversed([*enumerate(spans)])}
        return known.get((instruction.span.line, instruction.span.column), len(function.code))

    def variable(self, function: Function, name: str) -> Variable | Param | None:
        """A variable or parameter of PTX that a place is in."""
        held: tuple[Variable | Param, ...] = (*function.params, *function.variables, *self.program.variables)
        return next((each for each in held if each.name == name), None)

    # ---- without debug information -----------------------------------------------------------

    @cached_property
    def globals(self) -> tuple[Symbol, ...]:
        """The variables of the module."""
        known = {place.of for symbol in self.info.globals for place in symbol.places}
        others = [self._declared(each) for each in self.program.variables if each.name not in known]
        return (*self.info.globals, *others)

    def body(self, function: Function) -> Scope:
        """The outermost scope of a function."""
        found = self._bodies.get(function.name)
        if found is None:
            body = self.info.bodies.get(function.name, Scope(()))
            held = [] if body.function else self._parameters(function)
            known = {place.of for symbol in body.symbols for place in symbol.places}
            held += [self._declared(v) for v in function.variables if v.name not in known]
            found = self._bodies[function.name] = attrs.evolve(body, symbols=(*body.symbols, *held))
        return found

    def _declared(self, variable: Variable) -> Symbol:
        """A variable of PTX, an array of bytes as one of the elements accessed in it."""
        type: CType = scalar_of(variable.type)
        known, n_bytes, name = "PTX", variable.size, source_name(variable.name)
        if variable.type.name == "b8" and variable.array:
            accesses = self._accesses.get((variable.unique, 0), set())
            found = element(accesses) if accesses else None
            words = ", ".join(sorted(f".{each.name}" for each in accesses))
            if found is not None and n_bytes % found.bytes == 0:
                type, known = scalar_of(found), f"the accesses of the module, {words}"
            elif words and name != variable.name:
                known = f"PTX, which has bytes; the module accesses them as {words}"
        if variable.array or n_bytes > size(type):  # one of dynamic size has no elements here
            type = Array(type, n_bytes // size(type))
        return Symbol(name, type, (Place(variable.name),), known=known)

    def _parameters(self, function: Function) -> list[Symbol]:
        """The parameters of a function, with the names and types of its declaration if that can be read."""
        made = [self._parameter(param) for param in function.params if not param.registers]
        found = declared_parameters(function, self.program.file)
        for at, (symbol, (name, type)) in enumerate(zip(made, found, strict=False)):
            if name and (type is None or size(type) == function.params[at].size):
                known = symbol.known if type is None else "the declaration in the CUDA file"
                made[at] = attrs.evolve(symbol, name=name, type=type or symbol.type, known=known)
        return made

    def _parameter(self, param: Param) -> Symbol:
        """A parameter of PTX; one that holds an address has the type of a pointer to what is accessed there."""
        accesses = self._accesses.get((param.unique, 0), set())
        type: CType = scalar_of(param.type)
        known = "PTX"
        if accesses and param.size == 8:
            found = element(accesses)
            target = scalar_of(found) if found is not None else VOID
            known = f"the accesses of the module, {', '.join(sorted(f'.{each.name}' for each in accesses))}"
            type = Pointer(lambda: target, scaled=False)
        elif param.array:
            type = Array(type, param.size // param.type.bytes)
        return Symbol(param.name, type, (Place(param.name),), parameter=True, known=known)

    @cached_property
    def _accesses(self) -> dict[Root, set[ScalarType]]:
        found: dict[Root, set[ScalarType]] = {}
        for function in self.program.functions.values():
            for root, types in accessed(function).items():
                found.setdefault(root, set()).update(types)
        return found


def inlined_functions(
    function: Function, lines: Sequence[str], text: Callable[[str, int], str]
) -> list[tuple[int, tuple[str, ...]]]:
    """By line of the module, the mangled names of the functions that each .loc of a function has its code from, innermost
    first. ``text`` gives the one at a label of ``.debug_str``."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    found = []
    last = function.code[-1].span.line if function.code else 0
    for number, line in enumerate(lines[function.span.line - 1 : last], function.span.line):
        if ".loc" not in line or (words := _LOCATION.match(line)) is None:
            continue
        names: tuple[str, ...] = ()
        if words[4] is not None:
            names = (text(words[4], int(words[5] or 0)), *known.get(words.groups()[5:], ()))
        known[words.groups()[:3]] = names
        found.append((number, names))
    return found


def symbols_of(program: Program) -> Symbols:
    """The variables of a module, looked for once."""
    found: Symbols | None = program.symbols
    if found is None:
        found = Symbols(program)
        object.__setattr__(program, "symbols", found)
    return found


MOST = 64
"""Lines that a declaration may have."""
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DROPPED = re.compile(r"\b(?:const|volatile|struct|class|register|__restrict__|__restrict|__grid_constant__)\b")
_SPELLINGS = {
    "unsigned": "unsigned int", "half": "__half", "nv_bfloat16": "__nv_bfloat16", "size_t": "unsigned long",
    **{f"{u}int{bits}_t": name for u, sign in (("", "{}"), ("u", "unsigned {}"))
       for bits, name in ((16, sign.format("short")), (32, sign.format("int")), (64, sign.format("long")))},
    "int8_t": "signed char", "uint8_t": "unsigned char",
}  # fmt: skip


def declared_parameters(function: Function, ptx: str) -> list[tuple[str, CType | None]]:
    """The name and type of each parameter of a kernel, as its CUDA file declares them: line information tells where it begins, and
    what the compiler makes of parameters has no names. A type that is not C's own is None. Empty if the declaration cannot be
    read, or does not have as many parameters."""
    place = function.code[0].source if function.entry and function.code else None
    if place is None:
        return []
    lines = source_lines(place[0], ptx)[place[1] - 1 : place[1] - 1 + MOST]
    text = _COMMENT.sub(" ", "\n".join(lines))
    name = re.escape(qualified_name(function.name).rpartition("::")[2])
    begin = re.search(rf"\b{name}\s*\(", text)
    parts = _parameters(text[begin.end() :]) if begin is not None else []
    return [_declared(part) for part in parts] if len(parts) == len(function.params) else []


def _parameters(text: str) -> list[str]:
    """The texts between commas, up to the closing parenthesis."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{<") - (letter in ")]}>")
        if depth < 0:
            return parts if parts[-1].strip() else []
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return []


def _declared(text: str) -> tuple[str, CType | None]:
    """The name and type of one parameter."""
    words = _DROPPED.sub(" ", text.partition("=")[0])
    found = re.fullmatch(r"\s*([\w\s:<>,]*?)\s*([*&\s]*)\b(\w+)\s*(\[[^\]]*\])?\s*", words)
    if found is None or not found[1].strip():
        return "", None
    spelled = " ".join(found[1].split())
    base: CType | None = SCALARS.get(_SPELLINGS.get(spelled, spelled), VOID if spelled == "void" else None)
    constant = "const" in text.partition("*")[0].split()
    if base is not None and isinstance(base, Scalar) and constant:
        base = Scalar(f"const {base.name}", base.type, base.words, base.character)
    for sign in found[2].replace(" ", "") + "*" * (found[4] is not None):
        inner = base
        base = None if inner is None else Pointer(lambda inner=inner: inner, sign)  # type: ignore[misc]
    return found[3], base
