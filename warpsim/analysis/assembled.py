"""What the assembler makes of a function, and its blocks: what the passes find is kept on disk with the function's code."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.analysis.constants import constants, fold
from warpsim.analysis.contraction import contract, drop_identities, fusions, identities
from warpsim.analysis.flow import blocks_of, give_blocks
from warpsim.analysis.operand_order import exchanges, order_operands
from warpsim.program.program import Function
from warpsim.program.stored import find_derived, keep_derived

PASSES: tuple[tuple[Callable[[Function], object], Callable[..., Function]], ...] = (
    (identities, drop_identities),
    (constants, fold),
    (fusions, contract),
    (exchanges, order_operands),
)
"""What finds something to replace, and what replaces it."""


def assembled(function: Function) -> Function:
    """The function as the assembler has it."""
    known = find_derived(function, "assembled")
    if isinstance(known, tuple):
        changes, blocks = known
        made = function
        for (_, replace), found in zip(PASSES, changes, strict=True):
            made = replace(made, found) if found else made
        give_blocks(made, blocks)
        return made
    changes, made = [], function
    for find, replace in PASSES:
        changes.append(find(made))
        made = replace(made, changes[-1])
    blocks = [(b.first, b.last, b.successors, b.live_in) for b in blocks_of(made)[0]]
    keep_derived(function, "assembled", (changes, blocks))
    return made
