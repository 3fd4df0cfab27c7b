"""Operations whose result is their source, or its negation: the assembler drops them.

This shows in two places: a NaN keeps its bits, and a product is fused with a sum behind such an operation (see
`contraction`). Observed in code made by ptxas 13.0: the minimum and the maximum of a value and itself, and the negation
of a negation, in straight code, also through `mov`. (A product by one: see `constants`.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from warpsim.analysis.flow import Block, blocks_of, rewritten
from warpsim.isa.spec import Op
from warpsim.isa.traits import PLAIN, Contraction
from warpsim.program.program import Function, Instruction, Operand

REPEATED = frozenset(f"{root}.{type}" for root in ("min", "max") for type in ("f16", "f32", "ftz.f32", "f64"))
NEGATED = frozenset(f"neg.{type}" for type in ("f16", "f16x2", "bf16", "f32", "f64"))
Held = tuple[Operand, str]
"""A register with the value that another holds, and the negation that lies between them, if any."""


def drop_identities(function: Function) -> Function:
    """Replace minima and maxima of one value, and negations of negations, by their sources."""
    if (REPEATED | NEGATED).isdisjoint([i.op.text for i in function.code]):
        return function
    code = list(function.code)
    for block in blocks_of(function, entered=True)[0]:
        _drop(code, block)
    return rewritten(function, code)


def _drop(code: list[Instruction], block: Block) -> None:
    held: dict[int, Held] = {}
    holders: dict[int, list[int]] = {}  # of each register's value; also some that have been overwritten since
    for at in range(block.first, block.last):
        instruction = code[at]
        found = _held(instruction, held)
        source = None if found is None else _dropped(instruction, found)
        if source is not None:
            code[at] = identity(instruction, source, _flushed(instruction))
        writes = instruction.writes
        for register in writes:
            held.pop(register, None)
            for other in holders.pop(register, ()):
                if other in held and held[other][0].registers == [register]:
                    del held[other]
        if found is None or instruction.guard is not None or flushes(instruction):
            continue
        (kept,) = found[0].registers
        if kept not in writes:
            held[writes[0]] = found
            holders.setdefault(kept, []).append(writes[0])


def _held(instruction: Instruction, held: dict[int, Held]) -> Held | None:
    """The value that the result of an instruction is, subnormals aside, if that is known."""
    text, operands = instruction.text, instruction.operands
    copies = instruction.traits.copies and len(operands) == 2
    if not (copies or text in REPEATED or text in NEGATED) or not all(o.register and not o.negated for o in operands):
        return None
    values = [held.get(o.register.index, (o, "")) for o in operands[1:] if o.register]
    if text in NEGATED:
        ((source, negation),) = values
        return None if negation not in ("", text) else (source, "" if negation else text)
    return values[0] if all(v[0].register is values[0][0].register and v[1] == values[0][1] for v in values) else None


def _dropped(instruction: Instruction, found: Held) -> Operand | None:
    """The register that the assembler uses instead of the result ``found``; None if it keeps the instruction."""
    source = instruction.operands[1]
    if instruction.text in REPEATED and source.register is not None:
        return source
    return found[0] if instruction.text in NEGATED and not found[1] else None


def flushes(instruction: Instruction) -> bool:
    """Whether an instruction makes subnormals zeros."""
    return "ftz" in instruction.op.modifiers


def _flushed(instruction: Instruction) -> Callable[[Op, Any], Any] | None:
    """What is left of a minimum or maximum of one value: nothing, unless it flushes."""
    plain = instruction.form.function
    return (lambda op, value: plain(op, value, value)) if flushes(instruction) else None


def identity(instruction: Instruction, source: Operand, meaning: Callable[[Op, Any], Any] | None = None) -> Instruction:
    """The instruction with one source; its result is the source's bits, or what ``meaning`` makes of them."""
    spec, operands = instruction.form.operands, instruction.operands
    if operands[1].register is not None:
        source = source._replace(type=operands[1].type)
    form = attrs.evolve(instruction.form, function=meaning or (lambda op, value: value), operands=(spec[0], spec[-1]))
    traits = attrs.evolve(PLAIN, contraction=Contraction.IDENTITY)
    return attrs.evolve(instruction, form=form, traits=traits, operands=(operands[0], source))
