"""Operands that are a register or variable plus an immediate: ``add.u32 %r1, %r2+4, tile+16``.

The manual has such sums in addresses, and with a variable's address in mov. The assembler takes one for any integer, one of
an untyped register for a float or a pair of halves, too, and computes it in an instruction before: in the register's own
type, then converted to the operand's size (ptxas 13.0, seen in its code). So they become instructions here.
"""

from __future__ import annotations

import attrs

from warpsim.isa import matching
from warpsim.isa.matching import TypedOperand
from warpsim.isa.traits import Traits
from warpsim.program.program import Param, Register, Variable
from warpsim.program.resolve import Resolver
from warpsim.program.scopes import FunctionBuilder, Scope, Symbol
from warpsim.ptx import ast
from warpsim.types import TYPES, ScalarType

SIZES = (16, 32, 64)
"""Sizes of the integers that a constant is added to; with one for another type the assembler crashes, or does not end."""

CONVERTED = frozenset({"f16", "f32", "f64", "f16x2", "u16x2", "s16x2"})
"""Other types for which a sum of an untyped register is cut or extended to their size; bf16 and narrower ones take their own."""
_INTEGERS = frozenset(f"{kind}{bits}" for kind in "usb" for bits in SIZES)


def expanded(
    node: ast.Instruction, scope: Scope, builder: FunctionBuilder, resolver: Resolver
) -> list[ast.Instruction]:
    """An instruction with registers for the sums among its operands, behind the instructions that make them."""
    if not any(isinstance(operand, ast.SymbolOffset) for operand in node.operands):
        return [node]
    builder.at = len(builder.code)
    code: list[ast.Instruction] = []
    operands = list(node.operands)
    for place, operand in enumerate(operands):
        taken = _taken(node, place) if isinstance(operand, ast.SymbolOffset) and not operand.subscript else None
        if taken is None or not isinstance(operand, ast.SymbolOffset):
            continue
        of, (typed, traits) = resolver.lookup(scope, operand.symbol.text, builder), taken
        if isinstance(of, (Variable, Param)) and traits.symbols is not None:  # it takes addresses itself
            continue
        number = ast.Integer(operand.offset, unsigned=False, span=operand.span)
        read: tuple[ast.Operand, ...] = (operand.symbol, number) if isinstance(of, Register) else (operand,)
        for type, words in _steps(of, typed):
            name = f"{operand.symbol.text}{operand.offset:+}.{type.name}"
            if name not in scope.symbols:  # no name in a text has a sign
                scope.symbols[name] = builder.register(name, type)
            made = ast.Name(name, operand.span)
            code.append(attrs.evolve(node, opcode=words[0], modifiers=words[1:], operands=(made, *read)))
            operands[place], read = made, (made,)
    return [*code, attrs.evolve(node, operands=tuple(operands))]


def _taken(node: ast.Instruction, place: int) -> tuple[TypedOperand, Traits] | None:
    """What an instruction takes at a place; None for a result, and for what is no single value."""
    for candidate in matching.candidates(node.opcode, node.modifiers):
        specs = [o for o in candidate.operands if o.spec.kind != "carry"]
        specs = [o for o, before in zip(specs, [None, *specs], strict=False) if before is None or not before.spec.pair]
        if len(specs) == len(node.operands):
            typed = specs[place]
            single = typed.spec.kind == "value" and typed.type is not None and not typed.spec.dest
            return (typed, candidate.traits) if single and candidate.traits.register_plus_immediate else None
    return None


def _steps(of: Symbol, typed: TypedOperand) -> list[tuple[ScalarType, tuple[str, ...]]]:
    """The instructions that make a sum, each with the type of its result; none where there can be no sum."""
    wanted = typed.type
    assert wanted is not None
    integer = wanted.kind in "usb" and wanted.name == f"{wanted.kind}{wanted.bits}"
    if wanted.bits not in SIZES or typed.spec.selectors:
        return []
    rule = typed.spec.rule  # masks, counts, policies and metadata are of their own size
    fixed = typed.checked_as is not None or rule in (".u32", ".u64", ".b64") or (rule == ".b32" and typed.spec.register)
    if isinstance(of, (Variable, Param)) and integer and not (fixed and wanted.bits == 64):
        made = TYPES[f"u{max(wanted.bits, 32)}"]
        steps: list[tuple[ScalarType, tuple[str, ...]]] = [(made, ("mov", made.name))]
    elif isinstance(of, Register) and of.type.kind in ("usb" if integer else "b") and of.type.bits in SIZES:
        made = of.type
        if "x2" in made.name or (made.bits != wanted.bits and (fixed or wanted.name not in CONVERTED | _INTEGERS)):
            return []
        steps = [(made, ("add", f"u{made.bits}"))]
    else:
        return []
    if made.bits == wanted.bits:
        return steps
    sign = "s" if made.kind == "s" else "u"
    return [*steps, (TYPES[f"b{wanted.bits}"], ("cvt", f"{sign}{wanted.bits}", f"{sign}{made.bits}"))]


__all__ = ["expanded"]
