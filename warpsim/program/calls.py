"""Checking a call: the callee, its arguments and what it returns."""

from __future__ import annotations

from warpsim.program.names import BUILTINS
from warpsim.program.operands import Operands
from warpsim.program.problems import Mismatch
from warpsim.program.program import (
    Arguments,
    Discard,
    FunctionRef,
    Imm,
    LabelRef,
    Operand,
    Param,
    Reg,
    Register,
    Targets,
    Variable,
    Vec,
)
from warpsim.program.resolve import Prototype, VectorRegister, lookup_label
from warpsim.ptx import ast
from warpsim.types import TYPES


def call(operands: Operands, node: ast.Instruction) -> tuple[Operand, ...]:
    """The operands of a call: (returned,) callee(, arguments)(, targets or prototype)."""
    rest = list(node.operands)
    out: list[Operand] = []
    if rest and isinstance(rest[0], ast.Group):
        out.append(_arguments(operands, rest.pop(0)))
    if not rest or not isinstance(rest[0], ast.Name):
        raise Mismatch(
            "operand-count",
            node.span,
            "call needs the name of a function, or a register with its address",
            weight=1,
        )
    name = rest.pop(0)
    assert isinstance(name, ast.Name)
    symbol = operands.need(name)
    if isinstance(symbol, Register):
        out.append(Reg(symbol, symbol.type))
    elif isinstance(symbol, ast.Function):
        if symbol.body is None and symbol.name not in BUILTINS and symbol.name not in operands.resolver.aliases:
            raise Mismatch(
                "linkage", name.span, f"{symbol.name} has no body in this module", "link its definition in", 3
            )
        if symbol.body is None and symbol.name in BUILTINS:
            _builtin(operands, name, symbol)
        out.append(FunctionRef(symbol.name))
    else:
        raise Mismatch("operand-type", name.span, f"{name.text} is no function", weight=2)
    arguments = _arguments(operands, rest.pop(0)) if rest and isinstance(rest[0], ast.Group) else None
    if isinstance(symbol, ast.Function):
        returned = out[0].elements if isinstance(out[0], Arguments) else ()
        _signature(node, name.text, "returns", symbol.returns, returned)
        _signature(node, name.text, "takes", symbol.params, arguments.elements if arguments else ())
    if arguments is not None:
        out.append(arguments)
    if rest and isinstance(rest[0], ast.Name):
        found = lookup_label(operands.scope, rest[0].text)
        if found is None:
            raise Mismatch("undeclared", rest[0].span, f"{rest[0].text} is not declared", weight=9)
        out.append(found if isinstance(found, Targets) else Targets())
        assert isinstance(found, (Targets, Prototype, LabelRef))
    return tuple(out)


def _builtin(operands: Operands, name: ast.Name, symbol: ast.Function) -> None:
    """Hold the declaration of a function of the run time against what it is."""
    sides = [tuple([param.size for param in operands.resolver.params(p)]) for p in (symbol.params, symbol.returns)]
    for found, known, verb in zip(sides, BUILTINS[symbol.name], ("takes", "returns"), strict=True):
        if found != known:
            message = f"{symbol.name} of the CUDA run time {verb} {_sizes(known)}, and is declared with {_sizes(found)}"
            raise Mismatch("linkage", name.span, message, "declare it as the compiler does", 3)


def _sizes(sizes: tuple[int, ...]) -> str:
    return f"parameters of {', '.join(map(str, sizes))} bytes" if sizes else "nothing"


def _signature(
    node: ast.Instruction, name: str, verb: str, formal: tuple[ast.Variable, ...], given: tuple[Operand, ...]
) -> None:
    """Hold the arguments of a call against the declaration."""
    if len(formal) != len(given):
        raise Mismatch("operand-count", node.span, f"{name} {verb} {len(formal)} arguments, not {len(given)}", weight=3)
    for declared, operand in zip(formal, given, strict=True):
        type = TYPES.get(declared.type)
        if type is None or declared.declarators[0].dimensions:
            continue
        elements = operand.elements if isinstance(operand, Vec) else (operand,)
        if isinstance(operand, (Vec, Reg)) and len(elements) != declared.vector:
            wanted = f"{declared.declarators[0].name} of {name} has {declared.vector} elements"
            raise Mismatch("operand-type", node.span, f"an argument has {len(elements)}; {wanted}", weight=3)
        operand = elements[0]
        if (
            isinstance(operand, Reg)
            and operand.type.bits != type.bits
            and not (declared.space == "param" and type.bits < 32)
        ):
            wanted = f"{declared.declarators[0].name} of {name} is .{type.name}"
            raise Mismatch(
                "operand-type", node.span, f"{operand.register.name} is .{operand.type.name}; {wanted}", weight=3
            )


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
            elif isinstance(symbol, (Variable, Param)):
                out.append(symbol)  # type: ignore[arg-type]
            else:
                raise Mismatch("operand-type", element.span, f"{element.text} cannot be an argument", weight=2)
        elif isinstance(element, (ast.Integer, ast.Float)):
            bits = element.value if isinstance(element, ast.Integer) else element.bits
            out.append(Imm(bits & (2**64 - 1), TYPES["b64"]))
        elif isinstance(element, ast.Sink):
            out.append(Discard())
        else:
            raise Mismatch(
                "operand-type", element.span, "an argument is a register, a .param variable or a number", weight=2
            )
    return Arguments(tuple(out))
