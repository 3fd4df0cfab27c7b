"""Loads whose value a compare and swap checks: what they read may be out of date, and loses nothing."""

from __future__ import annotations

from warpsim.analysis.flow import reads_and_writes, registers_of
from warpsim.errors import Span
from warpsim.isa.traits import Access
from warpsim.program.program import Function


def guesses(function: Function) -> set[Span]:
    """Where the loads stand whose result becomes, by `mov` at most, what an `atom.cas` of the function compares with."""
    copies: dict[int, set[int]] = {}
    compared: set[int] = set()
    for instruction in function.code:
        if instruction.traits.copies:
            reads, writes = reads_and_writes(instruction)
            for r in writes:
                copies.setdefault(r, set()).update(reads)
        elif instruction.traits.access is Access.ATOMIC and "cas" in instruction.op.modifiers:
            compared.update(registers_of(instruction.operands[-2]))
    waiting = list(compared)
    while waiting:
        for r in copies.get(waiting.pop(), set()) - compared:
            compared.add(r)
            waiting.append(r)
    return {i.span for i in function.code if i.traits.access is Access.LOAD and compared & set(reads_and_writes(i)[1])}
