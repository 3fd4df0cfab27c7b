"""membermask, nonuniform-operand, barrier-divergence and descriptor: operands of collectives that are provably wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.analysis.facts import Facts, Step, matrices
from warpsim.analysis.values import WARP, WARPGROUP, Value
from warpsim.errors import Finding
from warpsim.isa.traits import Ending, Family, Traits
from warpsim.numerics.arrays import Array
from warpsim.program.program import Instruction

MASKED = "the mask must name exactly the lanes that execute the instruction together"
AGREE = "compute it from values that are the same in all lanes"


def check_collectives(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    arrivals: dict[int, list[tuple[Instruction, int, Array]]] = {}
    unknown = False
    for step in facts.steps:
        traits = step.instruction.traits
        if "membermask" in step.instruction.named:
            yield from _mask(step)
        elif traits.is_async(Family.WGMMA):
            yield from _descriptors(step)
        elif _is_cta_barrier(traits):
            unknown |= _barrier(step, arrivals)
        if traits.aligned and (traits.opaque_fragments or _is_cta_barrier(traits)):
            yield from _agreeing(step)
    if not unknown:
        yield from _counts(facts, arrivals)


def _is_cta_barrier(traits: Traits) -> bool:
    return traits.barrier is not None and traits.barrier.among == "cta"


def _mask(step: Step) -> Iterator[Finding]:
    """Check that lanes that execute the instruction are in their own mask."""
    facts, instruction, threads = step.facts, step.instruction, step.threads
    mask = step.value(instruction.named["membermask"])
    if not mask.exact or not threads.any():
        return
    lane = facts.threads.thread % np.uint64(WARP)
    outside = threads & (mask.bits >> lane & np.uint64(1) == 0)
    if not outside.any() or not (step.certain or (outside == threads).all()):
        return
    shown = int(np.broadcast_to(mask.bits, outside.shape)[outside][0])
    message = f"{instruction.text} is executed by lanes that are not in its mask 0x{shown:08x}"
    yield facts.finding("membermask", instruction, message, threads=outside, advice=MASKED, values={"mask": shown})


def _differs(value: Value, threads: Array, size: int) -> Array:
    """A mask of the threads in warps (or warpgroups) in which a known value differs among ``threads``."""
    if not value.exact or len(value.bits) == 1:
        return np.zeros(len(threads), np.bool_)
    rows, there = value.bits.reshape(-1, size), threads.reshape(-1, size)
    first = np.take_along_axis(rows, there.argmax(axis=1)[:, None], 1)
    return np.repeat(((rows != first) & there).any(axis=1), size) & threads


def _disagree(facts: Facts, instruction: Instruction, name: str, threads: Array, size: int) -> Finding:
    whole = "warp" if size == WARP else "warpgroup"
    message = f"operand {name} of {instruction.text} differs between lanes of a {whole}"
    return facts.finding("nonuniform-operand", instruction, message, threads=threads, advice=AGREE)


def _agreeing(step: Step) -> Iterator[Finding]:
    """Check operands that must be the same in all lanes of a warp: those of barriers, address and stride of wmma."""
    instruction = step.instruction
    wanted = ("p", "stride") if instruction.traits.opaque_fragments else ("a", "b")
    for name, operand in instruction.named.items():
        if name in wanted and operand.elements is None:
            odd = _differs(step.value(operand), step.threads, WARP)
            if odd.any():
                yield _disagree(step.facts, instruction, name, odd, WARP)


def _descriptors(step: Step) -> Iterator[Finding]:
    """Check matrix descriptors: the same in a warpgroup, and with valid fields."""
    facts, instruction, threads = step.facts, step.instruction, step.threads
    for name, operand, decoded in matrices(instruction) if threads.any() else ():
        value = step.value(operand)
        odd = _differs(value, threads & facts.threads.alive, WARPGROUP)
        if odd.any():
            yield _disagree(facts, instruction, name, odd, WARPGROUP)
        elif value.exact:
            bits = int(np.broadcast_to(value.bits, threads.shape)[threads][0])
            problem = decoded(bits).problem
            if problem is not None:
                message, values = f"{name} 0x{bits:016x}: {problem}", {"descriptor": bits}
                yield facts.finding("descriptor", instruction, message, values=values)


def _barrier(step: Step, arrivals: dict[int, list[tuple[Instruction, int, Array]]]) -> bool:
    """Note who may arrive at a barrier with a known number; True if the number is unknown."""
    instruction, named, holds = step.instruction, step.instruction.named, step.guard
    number = step.value(named["a"]).constant
    if number is None:
        return True
    count = step.value(named["b"]).constant if "b" in named else 0
    threads = step.facts.reach[step.block]
    if holds is not None and holds.exact:
        threads = threads & (holds.bits != 0)
    arrivals.setdefault(number, []).append((instruction, count or 0, threads))
    return False


def _counts(facts: Facts, arrivals: dict[int, list[tuple[Instruction, int, Array]]]) -> Iterator[Finding]:
    """Find barriers that expect more threads than can arrive."""
    if facts.threads.sizes is None or any(i.traits.ending is Ending.CALL for i in facts.function.code):
        return
    for number, places in arrivals.items():
        coming = np.logical_or.reduce([threads for _, _, threads in places])
        most = int(coming.reshape(-1, WARP).any(axis=1).sum()) * WARP
        for instruction, count, threads in places:
            if count > most and threads.any():
                message = f"barrier {number} expects {count} threads, but at most {most} can reach it"
                yield facts.finding(
                    "barrier-divergence", instruction, message, advice="count the threads of the warps that execute it"
                )
