"""Checks calls: the callee, its arguments and its results."""

from __future__ import annotations

import math

from warpsim.program.names import BUILTINS
from warpsim.program.operands import Operands
from warpsim.program.problems import Mismatch, unfit
from warpsim.program.program import (
    Arguments,
    Discard,
    FunctionRef,
    Imm,
    LabelRef,
    Operand,
    Reg,
    Register,
    Targets,
    Variable,
    Vec,
)
from warpsim.program.resolve import Prototype, VectorRegister, lookup_label
from warpsim.ptx import ast
from warpsim.types import TYPES, ScalarType, StateSpace


def call(operands: Operands, node: ast.Instruction) -> tuple[Operand, ...]:
    """Check and type the operands of a call: (results,) callee(, arguments)(, targets or prototype)."""
    rest = list(node.operands)
    out: list[Operand] = []
    returned = _arguments(operands, rest.pop(0)) if isinstance(rest[0], ast.Group) else None
    if returned is not None:
        out.append(returned)
    name = rest.pop(0)
    assert isinstance(name, ast.Name)
    arguments = _arguments(operands, rest.pop(0)) if rest and isinstance(rest[0], ast.Group) else None
    label = rest.pop(0) if rest else None
    assert label is None or isinstance(label, ast.Name)
    callee, targets, signatures = _callee(operands, name, label)
    out.append(callee)
    for returns, params in signatures:
        _signature(node, name.text, "returns", returns, returned)
        _signature(node, name.text, "takes", params, arguments)
    if arguments is not None:
        out.append(arguments)
    if targets is not None:
        out.append(targets)
    return tuple(out)


Formals = tuple[ast.Variable, ...]
Signatures = list[tuple[Formals, Formals]]


def _callee(operands: Operands, name: ast.Name, label: ast.Name | None) -> tuple[Operand, Targets | None, Signatures]:
    """What is called, the list of targets of an indirect call, and what is known of results and parameters."""
    symbol = operands.need(name)
    if isinstance(symbol, Register):
        if symbol.type.kind not in "usb" or symbol.type.bits not in (32, 64):
            raise unfit(name.span, f"{name.text} is a .{symbol.type.name} register, not an address", 2)
        return Reg(symbol, symbol.type), *_targets(operands, name, label)
    if not isinstance(symbol, ast.Function):
        raise unfit(name.span, f"{name.text} is not a function", 2)
    if symbol.entry:
        raise Mismatch("linkage", name.span, f"{symbol.name} is a kernel and cannot be called", weight=3)
    if label is not None:
        raise unfit(label.span, f"{name.text} is a function; a direct call takes no label", 3)
    if symbol.body is None and symbol.name in BUILTINS:
        _builtin(operands, name, symbol)
    return FunctionRef(symbol.name), None, [(symbol.returns, symbol.params)]


def _targets(operands: Operands, name: ast.Name, label: ast.Name | None) -> tuple[Targets, Signatures]:
    """The target list or prototype of an indirect call, which must be declared before it, and the signatures that it
    gives.
    """
    if label is None:
        advice = "add the label of a .callprototype or .calltargets after it"
        raise Mismatch(
            "operand-count", name.span, f"a call through {name.text} needs its targets or a prototype", advice, 3
        )
    found = lookup_label(operands.scope, label.text, operands.builder.at)
    if found is None:
        raise Mismatch("undeclared", label.span, f"{label.text} is not declared", weight=9)
    if isinstance(found, Prototype):
        return Targets(), [(found.returns, found.params)]
    if isinstance(found, LabelRef) or not found.functions:
        raise unfit(label.span, f"{label.text} is neither a prototype nor a list of functions", 3)
    functions = [operands.resolver.globals.get(n) for n in found.functions]
    return found, [(f.returns, f.params) for f in functions if isinstance(f, ast.Function)][-1:]


def _builtin(operands: Operands, name: ast.Name, symbol: ast.Function) -> None:
    """Check the declaration of a runtime function against its real signature."""
    sides = [tuple([param.size for param in operands.resolver.params(p)]) for p in (symbol.params, symbol.returns)]
    for found, known, verb in zip(sides, BUILTINS[symbol.name], ("takes", "returns"), strict=True):
        if found != known:
            message = f"{symbol.name} of the CUDA runtime {verb} {_sizes(known)}, but is declared with {_sizes(found)}"
            raise Mismatch("linkage", name.span, message, "declare it as the compiler does", 3)


def _sizes(sizes: tuple[int, ...]) -> str:
    return f"parameters of {', '.join(map(str, sizes))} bytes" if sizes else "nothing"


def _signature(node: ast.Instruction, name: str, verb: str, formal: Formals, arguments: Arguments | None) -> None:
    """Check the arguments of a call against the declaration."""
    given = arguments.elements if arguments is not None else ()
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
    if isinstance(operand, Discard):
        return "" if verb == "returns" else "has no value"
    if isinstance(operand, Imm) and verb == "returns" and operand.type.kind != "f":
        return "is a result, so it needs a variable or register, not a number"
    if isinstance(operand, Variable):
        alike = _holds(declared, operand)
        wanted = declared.align or type.bytes * declared.vector
        if alike and operand.align != wanted:
            return f"is aligned to {wanted} bytes, the argument to {operand.align}"
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
    if isinstance(operand, Imm):
        return type.kind in ("bf" if operand.type.kind == "f" else "bus")
    if isinstance(operand, Vec):
        registers = [e.register.type for e in operand.elements if isinstance(e, Reg)]
        bits = sum(register.bits for register in registers)
        return bits == type.bits * declared.vector and (declared.vector == 1 or _alike(type, registers[0]))
    assert isinstance(operand, Reg)
    return declared.vector == 1 and _alike(type, operand.register.type)


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


def _arguments(operands: Operands, group: ast.Operand) -> Arguments:
    assert isinstance(group, ast.Group)
    out: list[Operand] = []
    for element in group.elements:
        if isinstance(element, ast.Name):
            symbol = operands.need(element)
            if isinstance(symbol, Register):
                out.append(Reg(symbol, symbol.type))
            elif isinstance(symbol, VectorRegister):
                out.append(Vec(tuple([Reg(r, r.type) for r in symbol.elements])))
            elif isinstance(symbol, Variable) and symbol.space is StateSpace.PARAM:
                out.append(symbol)  # type: ignore[arg-type]
            else:
                raise unfit(element.span, f"{element.text} cannot be an argument", 2)
        elif isinstance(element, (ast.Integer, ast.Float)):
            bits = element.value if isinstance(element, ast.Integer) else element.bits
            type = TYPES["b64" if isinstance(element, ast.Integer) else "f64"]
            out.append(Imm(bits & (2**64 - 1), type))
        elif isinstance(element, ast.Sink):
            out.append(Discard())
        else:
            raise unfit(element.span, "an argument must be a register, a .param variable or a number", 2)
    return Arguments(tuple(out))
