"""Addresses of the even CTA of a pair, as kernels for pairs make them.

On a GPU, a shared address holds the rank of its CTA in the cluster from bit 24 on, and a kernel that clears this bit (CUTLASS:
``Sm100MmaPeerBitMask``) names the same place in the even CTA of the pair. Here addresses of a CTA's own shared memory hold no
rank, so that such an instruction does here what it is for.
"""

from __future__ import annotations

import functools

import attrs

from warpsim.isa.data_movement import even_of_pair
from warpsim.isa.spec import Form
from warpsim.program.program import Body, Instruction

WITHOUT_PEER_BIT, OFFSET = 0xFEFFFFFF, 0xFFFF
"""The mask, and bits that compilers clear with it because they know them to be zero."""


def paired(body: Body, target: str) -> Body:
    """The code of a function for a target; that of one for pairs has its own meaning of clearing the peer bit."""
    if int("".join(filter(str.isdigit, target)) or 0) < 100 or not any(map(_for_pairs, body.code)):
        return body
    code = tuple([attrs.evolve(i, form=_of_pairs(i.form)) if _clears(i) else i for i in body.code])
    return attrs.evolve(body, code=code)


def _for_pairs(instruction: Instruction) -> bool:
    return "cta_group::2" in instruction.op.modifiers


def _clears(instruction: Instruction) -> bool:
    if instruction.op.text != "and.b32":
        return False
    constant = instruction.operands[2].constant
    return constant is not None and (constant | OFFSET) & 0xFFFFFFFF == WITHOUT_PEER_BIT


@functools.cache
def _of_pairs(form: Form) -> Form:
    return form.replaced(function=even_of_pair, ports=frozenset({"cluster"}))
