"""The copies of a function that signal the even CTA of a pair, whichever of the two executes them.

On a GPU the address of a CTA's own shared memory holds its rank in the cluster from bit 24 on. Code for pairs clears that bit of an
mbarrier's address (CUTLASS: Sm100MmaPeerBitMask), so that both CTAs signal the even one. Here a CTA's own addresses hold no
rank, so the mask is looked for where the address is made.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.program.program import Function, Instruction

ODD, EVEN = 0x0700_0040, 0x0600_0040
"""An address in the CTA of rank 7, and in that of rank 6."""


def even_barriers(function: Function) -> frozenset[int]:
    """The identities of the copies for which the only instruction that makes their mbarrier's address clears its pair bit."""
    return frozenset(id(copy) for copy, register in _barriers(function) if _masked(function, register))


def _barriers(function: Function) -> Iterator[tuple[Instruction, int]]:
    for instruction in function.code:
        if instruction.op.get("cta_group") == "cta_group::2":
            for spec, operand in zip(instruction.form.operands, instruction.operands, strict=False):
                if spec.name == "bar" and operand.base is not None and operand.base.register is not None:
                    yield instruction, operand.base.register.index


def _masked(function: Function, register: int) -> bool:
    makers = [instruction for instruction in function.code if register in instruction.writes]
    return len(makers) == 1 and _clears(makers[0])


def _clears(maker: Instruction) -> bool:
    """Whether an instruction on one register of 32 bits, and constants, makes the even address of the odd one."""
    sources = [part for operand in maker.inputs for part in operand.parts]
    if maker.form.ports or sum(source.register is not None for source in sources) != 1 or len(sources) < 2:
        return False
    if any(o.type.bits != 32 or o.type.kind == "f" or (o.register or o.constant) is None for o in sources):
        return False
    numbers = [ODD if source.constant is None else source.constant & 0xFFFFFFFF for source in sources]
    made = maker.form.function(maker.op, *(np.array([number], np.uint32) for number in numbers))
    return int(made[0]) == EVEN
