"""Moves between a wgmma and the wait for it: the assembler treats them as renaming registers, including moves that
unpack a register into halves and pack halves into one.
"""

from __future__ import annotations

from warpsim.analysis.flow import Block
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Family
from warpsim.program.program import Function, Instruction


def is_mma(instruction: Instruction) -> bool:
    """True for ``wgmma.mma_async`` and its sparse form."""
    return instruction.traits.is_async(Family.WGMMA)


def operand_registers(instruction: Instruction) -> tuple[list[int], list[int]]:
    """The registers of D, and those of A."""
    d, a = instruction.operands[:2]
    return d.registers, a.registers if a.elements is not None else []


def moved(instruction: Instruction) -> tuple[list[int], list[int]] | None:
    """The registers that a move reads and writes; None for anything but a move between registers."""
    if not instruction.traits.copies:
        return None
    target, source = instruction.operands
    reads, writes = source.registers, target.registers
    return (reads, writes) if writes and len(reads) == len(source.parts) else None


def wgmma_registers(function: Function, blocks: list[Block]) -> list[int]:
    """Registers in which any wgmma of a function accumulates or from which it reads A, and those to which moves copy
    accumulators that may be in flight.
    """
    code = function.code
    mmas = [i for i in code if is_mma(i)]
    found = dict.fromkeys(r for i in mmas for part in operand_registers(i) for r in part)
    names = {r for i in mmas for r in operand_registers(i)[0]}
    moves = _moves_in_flight(code, blocks) if mmas else []
    grown = True
    while grown:
        grown = False
        for reads, writes in moves:
            if not names.isdisjoint(reads) and not names.issuperset(writes):
                names.update(writes)
                grown = True
    found.update(dict.fromkeys(sorted(names)))
    return list(found)


def _moves_in_flight(code: tuple[Instruction, ...], blocks: list[Block]) -> list[tuple[list[int], list[int]]]:
    """Reads and writes of the moves that a path from a wgmma reaches without a wait for all groups."""
    before = [False] * len(blocks)
    work = list(range(len(blocks)))
    while work:
        block = blocks[work.pop()]
        if _flies(code[block.first : block.last], flying=before[block.index]):
            for successor in block.successors:
                if not before[successor]:
                    before[successor] = True
                    work.append(successor)
    found = []
    for block in blocks:
        flying = before[block.index]
        for instruction in code[block.first : block.last]:
            flying = _flies((instruction,), flying=flying)
            made = moved(instruction) if flying else None
            if made is not None:
                found.append(made)
    return found


def _flies(code: tuple[Instruction, ...], *, flying: bool) -> bool:
    """Whether a wgmma may be in flight after some instructions."""
    for instruction in code:
        if instruction.form.scope is Scope.WARPGROUP:
            count = instruction.operands[0] if "wait_group" in instruction.op.modifiers else None
            flying = is_mma(instruction) or (flying and not (count is not None and count.constant == 0))
    return flying
