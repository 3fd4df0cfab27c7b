"""Commands about the names and types of C++: ptype, whatis, and the lists of variables, types and functions."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from warpsim.cli.debug.console import Commands, one_line
from warpsim.cli.debug.table import command
from warpsim.debug import DebugError
from warpsim.debug import expressions as ex
from warpsim.debug.breakpoints import resolve
from warpsim.debug.debug_info import Place, Symbol
from warpsim.errors import plural, source_name
from warpsim.program.c_types import CType, definition, scalar_of, size
from warpsim.program.c_types import text as type_text
from warpsim.program.mangling import qualified_name
from warpsim.program.program import Param, Variable, line_column
from warpsim.types import TYPES, StateSpace

WORDS = {StateSpace.SHARED: "__shared__ ", StateSpace.CONST: "__constant__ ", StateSpace.GLOBAL: "__device__ "}


class Naming(Commands):
    """The ptype and whatis commands."""

    @command("look", "EXPRESSION", takes="expression")
    def do_whatis(self, text: str) -> None:
        """Show the type of EXPRESSION, or of the name of a type. What the type is known from is said where that is not
        debug information."""
        type, known = self._type(text)
        self.say(f"type = {type_text(type)}{known}")

    @command("look", "EXPRESSION", takes="expression")
    def do_ptype(self, text: str) -> None:
        """Show the type of EXPRESSION, or of the name of a type, with the members of a struct."""
        type, known = self._type(text)
        self.say(f"type = {definition(type)}{known}")

    def _type(self, text: str) -> tuple[CType, str]:
        """The type of an expression or a name, and a note where it comes from."""
        context = self.session.context
        name = re.sub(r"^(struct|class|union)\s+", "", text)
        if name in context.symbols.types:
            return context.symbols.types[name], ""
        if not text:
            raise DebugError("name an expression or a type, for example whatis ring[1].a")
        node = base = ex.parse(text)
        while isinstance(base, (ex.Index, ex.Field)):
            base = base.base
        symbol = context.symbol(base.text) if isinstance(base, ex.Name) else None
        known = f"  (from {symbol.known})" if symbol is not None and symbol.known not in ("", "PTX") else ""
        if symbol is not None and base is node:
            return symbol.type, known
        value = context.evaluate(node)
        if value.type is not None:
            return value.type, known
        register, at = context.register(text), context.lvalue(node)
        type = register.type if register is not None else at.type if at is not None else None
        if type is None:
            type = TYPES["pred" if value.data.dtype == np.bool_ else "f64" if value.data.dtype.kind == "f" else "s64"]
        return scalar_of(type), ""


class NamingInfos(Commands):
    """info locals, args, scope, variables, types, functions."""

    @command("look")
    def info_locals(self, text: str) -> None:
        """List the parameters and variables of the selected frame, and the variables of the module."""
        self._values(self.session.variables())

    @command("look")
    def info_args(self, text: str) -> None:
        """List the parameters of the function of the selected frame."""
        self._values([symbol for symbol in self.session.variables() if symbol.parameter])

    @command("look", "[TEXT]")
    def info_variables(self, text: str) -> None:
        """List the variables of the module, or those whose names have TEXT in them."""
        self._values([symbol for symbol in self.session.context.symbols.globals if text in symbol.name])

    def _values(self, symbols: Iterable[Symbol]) -> None:
        """List variables with their types and values, and where the types come from."""
        guessed = []
        for symbol in symbols:
            try:
                value, of = self.session.context.typed(symbol.name)
                shown = one_line(value, of)
                if of is None and np.ndim(value) == 0 and value >= 1 << 32:  # an address
                    shown = hex(int(value))
            except DebugError as problem:
                shown = f"<{str(problem).splitlines()[0].removeprefix(symbol.name).strip()}>"
            self.say(f"  {self._declared(symbol)} = {shown}")
            guessed += [symbol.name] if symbol.known.startswith("the accesses") else []
        if guessed:
            self.say(f"  (The types of {', '.join(guessed)} are known from accesses only.)")

    def _declared(self, symbol: Symbol) -> str:
        """The declaration of a variable: that of PTX, if C++ has no other type for it."""
        there = self._variable(symbol)
        space = there.space if isinstance(there, Variable) else StateSpace.PARAM
        if symbol.is_plain and there is not None:
            return f".{space.value} .{there.type.name} {symbol.name}"
        return f"{WORDS.get(space, '')}{type_text(symbol.type, symbol.name)}"

    def _variable(self, symbol: Symbol) -> Variable | Param | None:
        context = self.session.context
        place = symbol.place(context.number)
        return None if place is None else context.symbols.variable(context.function, place.of)

    @command("look", "PLACE", takes="place")
    def info_scope(self, text: str) -> None:
        """List the variables that code at a place sees, and where each of them is."""
        session, symbols = self.session, self.session.context.symbols
        first = min(resolve(session.program, text, session.function))
        for function in session.program.functions.values():
            for at, instruction in enumerate(function.code):
                if line_column(instruction) == first:
                    seen = [s for s in symbols.visible(function, at) if s not in symbols.globals]
                    lines = (
                        f"  {type_text(s.type, s.name)}, {_where(s.place(at))}, {plural(size(s.type), 'byte')}"
                        for s in seen
                    )
                    self.console.say_all(lines, "It sees the variables of the module only.")
                    return

    @command("look", "[TEXT]")
    def info_types(self, text: str) -> None:
        """List the types that debug information names, or those with TEXT in their names."""
        types = self.session.context.symbols.types
        found = (f"  {name}, {plural(size(type), 'byte')}" for name, type in types.items() if text in name)
        self.console.say_all(found, "The module has no debug information about types: nvcc -G writes it.")

    @command("look", "[TEXT]")
    def info_functions(self, text: str) -> None:
        """List the functions of the module, or those whose names have TEXT in them."""
        for function in self.session.program.functions.values():
            name = qualified_name(function.name)
            if text in function.name or text in name:
                source = function.code[0].source if function.code else None
                place = f", {source_name(source)}" if source is not None else ""
                self.say(
                    f"  {name}, line {function.span.line}{place}"
                    + (f": {function.name}" if name != function.name else "")
                )


def _where(place: Place | None) -> str:
    if place is None:
        return "nowhere here"
    return f"in {place.of}" + (f" at byte {place.offset}" if place.offset else "")
