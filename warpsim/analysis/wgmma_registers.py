"""The registers of wgmma: which they are, the rules for them, and their advice.

The assembler treats moves between a wgmma and the wait for it as renaming registers, including moves that unpack a register
into halves and pack halves into one.
"""

from __future__ import annotations

from warpsim.analysis.dataflow import walk
from warpsim.analysis.flow import Block
from warpsim.isa.spec import Scope
from warpsim.isa.traits import Family
from warpsim.program.program import Function, Instruction

FENCE, IN_FLIGHT, UNCOMMITTED = "wgmma-missing-fence", "wgmma-in-flight", "wgmma-uncommitted"
WAIT_ADVICE = "wait for that wgmma's group first (wgmma.wait_group)"
SERIALISED = {
    "read": "; ptxas inserts warpgroup.wait (C7517) or serialises the wgmma (C7514)",
    "written": "; ptxas serialises the wgmma (C7515)",
}
ADVICE = {
    FENCE: "add wgmma.fence.sync.aligned between the last access to the registers and the wgmma; ptxas inserts"
    " warpgroup.arrive (C7519)",
    IN_FLIGHT: WAIT_ADVICE,
    UNCOMMITTED: "execute wgmma.commit_group before wgmma.wait_group",
}


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

    def step(at: int, flying: bool) -> bool:  # noqa: FBT001
        if code[at].form.scope is not Scope.WARPGROUP:
            return flying
        waits = "wait_group" in code[at].op.modifiers and code[at].operands[0].constant == 0
        return is_mma(code[at]) or (flying and not waits)

    reached = walk(blocks, False, step, bool.__or__)  # noqa: FBT003
    return [made for at, flying in reached if flying and (made := moved(code[at])) is not None]
