"""tcgen05: registers that ``tcgen05.ld`` loads, between it and ``tcgen05.wait::ld`` (PTX ISA: tcgen05.wait).

Only what holds on every path counts. GPUs wait for the registers of a load without it, and compilers and CUTLASS's epilogues rely on that: a
use is a note, and nothing if a wait follows before the next synchronisation or branch, where LLVM puts it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from warpsim.analysis.dataflow import walk
from warpsim.analysis.flow import Block
from warpsim.analysis.wgmma_order import moved
from warpsim.isa.traits import Family, Stage
from warpsim.program.program import Function, Instruction

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


def _waits(code: Sequence[Instruction]) -> bool:
    """Whether a wait comes before the next synchronisation or branch."""
    for instruction in code:
        traits = instruction.traits
        if _is_wait(instruction):
            return True
        if traits.ending or traits.barrier or traits.mbarrier or traits.order.strong:
            return False
    return False


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


def early_uses(function: Function, blocks: list[Block]) -> Iterator[tuple[Instruction, Instruction, int]]:
    """The first use of each load's registers before its wait: the load, the use and a register."""
    code = function.code
    if not any(map(_is_load, code)):
        return

    start: State = frozenset()
    reported: set[int] = set()
    for at, state in walk(blocks, start, functools.partial(_after, code), frozenset[tuple[int, int]].intersection):
        use = code[at]
        if not state or moved(use) is not None:
            continue
        early = [(r, load) for r, load in sorted(state) if r in (*use.reads, *use.writes) and load not in reported]
        reported.update(load for _, load in early)
        for load, register in (
            {load: r for r, load in reversed(early)}.items() if early and not _waits(code[at:]) else ()
        ):
            yield code[load], use, register


def awaited_loads(function: Function, blocks: list[Block]) -> Iterator[Instruction]:
    """The loads whose registers nothing touches before a wait in the same block."""
    for block in blocks:
        code = function.code[block.first : block.last]
        for at, load in enumerate(code):
            if _is_load(load) and len(load.outputs) == 1 and _untouched(code[at + 1 :], frozenset(load.writes)):
                yield load


def _untouched(code: Sequence[Instruction], registers: frozenset[int]) -> bool:
    """Whether a wait comes that every warp executes, before any register is touched."""
    for instruction in code:
        if _is_wait(instruction):
            return instruction.guard is None
        if instruction.touches(registers):
            return False
    return False
