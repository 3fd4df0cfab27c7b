"""tcgen05: registers that ``tcgen05.ld`` loads, between it and ``tcgen05.wait::ld`` (PTX ISA: tcgen05.wait).

Only what holds on every path counts. LLVM moves uses ahead of the wait, and the GPU waits for the registers of a load
nevertheless: uses are no errors if a wait follows them before the next branch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from warpsim.analysis.dataflow import walk
from warpsim.analysis.flow import Block
from warpsim.analysis.wgmma_order import moved
from warpsim.errors import Finding
from warpsim.isa.traits import Family, Stage
from warpsim.program.program import Function, Instruction

if TYPE_CHECKING:
    from warpsim.analysis.facts import Facts

RULE = "tcgen05"
MESSAGE = "register {} is used with no tcgen05.wait::ld since the tcgen05.ld of line {}"
ADVICE = "execute tcgen05.wait::ld.sync.aligned before the registers are used"
State = frozenset[tuple[int, int]]
"""Registers in flight, each with the index of its load."""


def _is_load(instruction: Instruction) -> bool:
    return (
        instruction.traits.is_async(Family.TCGEN05) and bool(instruction.writes) and "tensor" in instruction.form.ports
    )


def _is_wait(instruction: Instruction) -> bool:
    return instruction.traits.is_async(Family.TCGEN05, Stage.WAIT) and "wait::ld" in instruction.op.modifiers


def _severity(code: Sequence[Instruction]) -> str:
    """How bad a use is: nothing ("") if a wait follows before the next synchronisation, a note if before the next branch."""
    severity = ""
    for instruction in code:
        traits = instruction.traits
        if _is_wait(instruction):
            return severity
        if traits.ending:
            break
        if traits.barrier or traits.mbarrier or traits.order.strong:
            severity = "note"
    return "error"


def _after(code: Sequence[Instruction], at: int, state: State) -> State:
    """The registers in flight after an instruction."""
    instruction = code[at]
    if _is_wait(instruction):
        return frozenset()
    renamed, writes = moved(instruction), instruction.writes
    left = {(r, load) for r, load in state if r not in writes}
    if _is_load(instruction):
        left |= {(r, at) for r in writes}
    elif renamed is not None:
        left |= {(target, load) for r, load in state if r in renamed[0] for target in renamed[1]}
    return frozenset(left)


def early_uses(function: Function, blocks: list[Block]) -> Iterator[tuple[Instruction, Instruction, int, str]]:
    """The first use of each load's registers before its wait: the load, the use, a register and the severity."""
    code = function.code
    if not any(map(_is_load, code)):
        return

    start: State = frozenset()
    told: set[int] = set()
    for at, state in walk(blocks, start, functools.partial(_after, code), frozenset[tuple[int, int]].intersection):
        use = code[at]
        if not state or moved(use) is not None:
            continue
        early = [(r, load) for r, load in sorted(state) if r in (*use.reads, *use.writes) and load not in told]
        severity = _severity(code[at:]) if early else ""
        told.update(load for _, load in early)
        for load, register in {load: r for r, load in reversed(early)}.items() if severity else ():
            yield code[load], use, register, severity


def check_tensor_loads(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    for load, use, register, severity in early_uses(facts.function, facts.blocks):
        message = MESSAGE.format(facts.function.registers[register].name, load.span.line)
        yield facts.finding(RULE, use, message, severity=severity, advice=ADVICE, other=load)
