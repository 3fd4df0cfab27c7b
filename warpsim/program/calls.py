"""Checks calls: the callee, its arguments and its results."""

from __future__ import annotations

import math

from warpsim.program.names import BUILTINS, Label, Prototype, VectorRegister
from warpsim.program.problems import Mismatch, unfit
from warpsim.program.program import ADDRESS, Operand, Register, Variable, vector
from warpsim.program.values import Values
from warpsim.ptx import ast
from warpsim.types import TYPES, ScalarType, StateSpace


def call(values: Values, node: ast.Instruction) -> tuple[Operand, ...]:
    """Check and type the operands of a call: the list of results, what is called, and the list of arguments."""
    rest = list(node.operands)
    returned = _arguments(values, rest.pop(0)) if isinstance(rest[0], ast.Group) else None
    name = rest.pop(0)
    assert isinstance(name, ast.Name)
    arguments = _arguments(values, rest.pop(0)) if rest and isinstance(rest[0], ast.Group) else None
    label = rest.pop(0) if rest else None
    assert label is None or isinstance(label, ast.Name)
    callee, signatures = _callee(values, name, label)
    for returns, params in signatures:
        _signature(node, name.text, "returns", returns, returned)
        _signature(node, name.text, "takes", params, arguments)
    return Operand(ADDRESS, elements=returned or ()), callee, Operand(ADDRESS, elements=arguments or ())


Formals = tuple[ast.Variable, ...]
Actuals = tuple[Operand, ...]
Signatures = list[tuple[Formals, Formals]]
DISCARD = Operand(ADDRESS)


def _callee(values: Values, name: ast.Name, label: ast.Name | None) -> tuple[Operand, Signatures]:
    """What is called, and what is known of results and parameters."""
    symbol = values.need(name)
    if isinstance(symbol, Register):
        if symbol.type.kind not in "usb" or symbol.type.bits not in (32, 64):
            raise unfit(name.span, f"{name.text} is a .{symbol.type.name} register, not an address", 2)
        return Operand(symbol.type, symbol), _signatures(values, name, label)
    if not isinstance(symbol, ast.Function):
        raise unfit(name.span, f"{name.text} is not a function", 2)
    if symbol.entry:
        raise Mismatch("linkage", name.span, f"{symbol.name} is a kernel and cannot be called", weight=3)
    if label is not None:
        raise unfit(label.span, f"{name.text} is a function; a direct call takes no label", 3)
    if symbol.body is None and symbol.name in BUILTINS:
        _builtin(values, name, symbol)
    return Operand(ADDRESS, function=symbol.name), [(symbol.returns, symbol.params)]


def _signatures(values: Values, name: ast.Name, label: ast.Name | None) -> Signatures:
    """The signatures of an indirect call, from its target list or prototype, which must be declared before it."""
    if label is None:
        advice = "add the label of a .callprototype or .calltargets after it"
        raise Mismatch(
            "operand-count", name.span, f"a call through {name.text} needs its targets or a prototype", advice, 3
        )
    found = values.scope.label(label.text, values.builder.at)
    if found is None:
        raise Mismatch("undeclared", label.span, f"{label.text} is not declared", weight=9)
    if isinstance(found, Prototype):
        return [(found.returns, found.params)]
    if isinstance(found, Label) or not found.functions:
        raise unfit(label.span, f"{label.text} is neither a prototype nor a list of functions", 3)
    functions = [values.resolver.globals.get(n) for n in found.functions]
    return [(f.returns, f.params) for f in functions if isinstance(f, ast.Function)][-1:]


def _builtin(values: Values, name: ast.Name, symbol: ast.Function) -> None:
    """Check the declaration of a runtime function against its real signature."""
    sides = [tuple([param.size for param in values.resolver.params(p)]) for p in (symbol.params, symbol.returns)]
    for found, known, verb in zip(sides, BUILTINS[symbol.name], ("takes", "returns"), strict=True):
        if found != known:
            message = f"{symbol.name} of the CUDA runtime {verb} {_sizes(known)}, but is declared with {_sizes(found)}"
            raise Mismatch("linkage", name.span, message, "declare it as the compiler does", 3)


def _sizes(sizes: tuple[int, ...]) -> str:
    return f"parameters of {', '.join(map(str, sizes))} bytes" if sizes else "nothing"


def _signature(node: ast.Instruction, name: str, verb: str, formal: Formals, arguments: Actuals | None) -> None:
    """Check the arguments of a call against the declaration."""
    given = arguments or ()
    if (
        arguments is not None
        and len(given) == len(formal) - 1
        and formal[-1].declarators[0].dimensions[:1] in ((None,), (0,))
    ):
        formal = formal[:-1]  # variable arguments, and none given
    if len(formal) != len(given):
        raise Mismatch("operand-count", node.span, f"{name} {verb} {len(formal)} arguments, not {len(given)}", weight=3)
    for declared, operand in zip(formal, given, strict=True):
        wrong = _unfit(declared, operand, verb)
        if wrong:
            raise Mismatch("operand-type", node.span, f"{declared.declarators[0].name} of {name} {wrong}", weight=3)


def _unfit(declared: ast.Variable, operand: Operand, verb: str) -> str:
    """Why an argument does not fit a parameter or result of a function; empty if it does."""
    type, item = TYPES[declared.type], declared.declarators[0]
    if operand is DISCARD:
        return "" if verb == "returns" else "has no value"
    if operand.constant is not None and verb == "returns" and operand.type.kind != "f":
        return "is a result, so it needs a variable or register, not a number"
    variable = operand.base.variable if operand.base is not None else None
    if variable is not None:
        alike = _holds(declared, variable)
        wanted = declared.align or type.bytes * declared.vector
        if alike and variable.align != wanted:
            return f"is aligned to {wanted} bytes, the argument to {variable.align}"
    else:
        alike = not item.dimensions and _matches(declared, operand)
    if not alike:
        return f"is .{type.name}{' []' if item.dimensions else ''}, but the argument is not"
    if type.bits < 32 and type.kind in "usp" and declared.vector == 1:  # the elements of vectors may be narrow
        return f"is .{type.name}: predicates and narrow integers cannot be passed"
    return ""


def _matches(declared: ast.Variable, operand: Operand) -> bool:
    """Whether a number or registers have the type of a parameter."""
    type = TYPES[declared.type]
    if operand.constant is not None:
        return type.kind in ("bf" if operand.type.kind == "f" else "bus")
    if operand.elements is None:
        return declared.vector == 1 and _alike(type, operand.type)
    bits = sum(element.type.bits for element in operand.elements)
    return bits == type.bits * declared.vector and (declared.vector == 1 or _alike(type, operand.elements[0].type))


def _holds(declared: ast.Variable, variable: Variable) -> bool:
    """Whether a variable in .param has the type and size of a parameter."""
    type, dimensions = TYPES[declared.type], declared.declarators[0].dimensions
    if not dimensions:
        return not variable.array and _alike(type, variable.type)
    size = math.prod((type.bytes * declared.vector, *(d or 0 for d in dimensions)))
    return variable.array and size in (variable.size, 0)


def _alike(type: ScalarType, other: ScalarType) -> bool:
    """Whether two types have the same width and do not mix floats with integers."""
    if type.bits != other.bits or (type.kind == "p") != (other.kind == "p"):
        return False
    kinds = {"i" if t.kind in "us" else t.kind for t in (type, other)}
    return "b" in kinds or len(kinds) == 1


def _arguments(values: Values, group: ast.Operand) -> Actuals:
    assert isinstance(group, ast.Group)
    out: list[Operand] = []
    for element in group.elements:
        if isinstance(element, ast.Name):
            symbol = values.need(element)
            if isinstance(symbol, Register):
                out.append(Operand(symbol.type, symbol))
            elif isinstance(symbol, VectorRegister):
                out.append(vector([Operand(r.type, r) for r in symbol.elements]))
            elif isinstance(symbol, Variable) and symbol.space is StateSpace.PARAM:
                out.append(Operand(symbol.type, base=Operand(ADDRESS, variable=symbol)))
            else:
                raise unfit(element.span, f"{element.text} cannot be an argument", 2)
        elif isinstance(element, (ast.Integer, ast.Float)):
            bits = element.value if isinstance(element, ast.Integer) else element.bits
            type = TYPES["b64" if isinstance(element, ast.Integer) else "f64"]
            out.append(Operand(type, constant=bits & (2**64 - 1)))
        elif isinstance(element, ast.Sink):
            out.append(DISCARD)
        else:
            raise unfit(element.span, "an argument must be a register, a .param variable or a number", 2)
    return tuple(out)
