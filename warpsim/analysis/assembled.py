"""What the assembler makes of a function, and its blocks: what the passes find is kept on disk with the function's code."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.analysis.constants import constants, fold
from warpsim.analysis.contraction import contract, drop_identities, fusions, identities
from warpsim.analysis.flow import blocks_of, give_blocks
from warpsim.analysis.operand_order import exchanges, order_operands
from warpsim.cache import digest
from warpsim.program.program import Function
from warpsim.program.stored import derived

PASSES: tuple[tuple[Callable[[Function], object], Callable[..., Function]], ...] = (
    (identities, drop_identities),
    (constants, fold),
    (fusions, contract),
    (exchanges, order_operands),
)
"""What finds something to replace, and what replaces it."""
Found = tuple[list[object], list[tuple[int, int, tuple[int, ...], frozenset[int]]]]
"""What each pass has found, and the blocks at the end."""


def assembled(function: Function) -> Function:
    """The function as the assembler has it."""
    made: Function | None = None

    def find() -> Found:
        nonlocal made
        changes, made = list[object](), function
        for search, replace in PASSES:
            changes.append(search(made))
            made = replace(made, changes[-1])
        return changes, [(b.first, b.last, b.successors, b.live_in) for b in blocks_of(made)[0]]

    changes, blocks = derived(function, "assembled", find)
    if made is None:
        made = function
        for (_, replace), found in zip(PASSES, changes, strict=True):
            made = replace(made, found) if found else made
        give_blocks(made, blocks)
    if made is not function and function.stored is not None:
        object.__setattr__(made, "stored", digest(function.stored, "assembled"))
    return made
