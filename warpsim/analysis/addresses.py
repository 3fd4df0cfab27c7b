"""misaligned, matrix-alignment, tensor-map and out-of-bounds, for addresses that are known without running.

An address is checked as far as it is known: exactly, or by its low bits. Threads that only some launches have, and
threads that a data-dependent condition may exclude, are not checked unless all threads are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsim.analysis.abstract_values import Array
from warpsim.analysis.accesses import SHARED, Access, accesses
from warpsim.analysis.facts import Facts
from warpsim.errors import Finding
from warpsim.isa.traits import Family
from warpsim.program.program import Variable
from warpsim.types import StateSpace

ALIGNED = {
    "misaligned": "an access of N bytes needs an address that is a multiple of N",
    "matrix-alignment": "rows of ldmatrix and stmatrix are 16 bytes at multiples of 16",
    "tensor-map": "boxes in shared memory are aligned to 128 bytes",
}


def check_places(facts: Facts) -> Iterator[Finding]:
    """Check one function."""
    variables = shared_variables(facts)
    for block in facts.blocks:
        for _, instruction, read in facts.walk(block.index):
            if not instruction.operands or instruction.traits.is_async(Family.WGMMA):
                continue
            threads, certain = facts.executing(block.index, instruction, read)
            if not threads.any():
                continue
            for access in accesses(facts, instruction, read, threads):
                yield from _aligned(facts, access, certain=certain)
                yield from _inside(facts, access, variables, certain=certain)


def shared_variables(facts: Facts) -> dict[str, Variable]:
    """The shared variables that the function can name, by unique name."""
    both = (*facts.program.variables, *facts.function.variables)
    return {v.unique: v for v in both if v.space is StateSpace.SHARED}


def _aligned(facts: Facts, access: Access, *, certain: bool) -> Iterator[Finding]:
    address = access.address
    known = min(access.align, 1 << min(address.zeros, 62))
    odd = np.broadcast_to(address.bits % np.uint64(known) != 0, access.threads.shape) & access.threads
    if not _counts(odd, access.threads, certain=certain):
        return
    rule = (
        "matrix-alignment"
        if access.instruction.traits.matrix is not None
        else "tensor-map"
        if access.align == 128
        else "misaligned"
    )
    first = int(np.broadcast_to(address.bits, odd.shape)[odd][0])
    if address.exact:
        what = f"address 0x{first:x} is not a multiple of {access.align}"
    else:
        what = f"an address that is {first % known} modulo {known} is not a multiple of {access.align}"
    message = f"{access.instruction.text}: {access.space + ' ' if access.space != 'generic' else ''}{what}"
    yield facts.finding(rule, access.instruction, message, threads=odd, advice=ALIGNED[rule], values={"address": first})


def _counts(wrong: Array, threads: Array, *, certain: bool) -> bool:
    return bool(wrong.any() if certain else wrong.any() and (wrong == threads).all())


def _inside(facts: Facts, access: Access, variables: dict[str, Variable], *, certain: bool) -> Iterator[Finding]:
    """Find accesses outside the only variable that their address was computed from."""
    if access.space != SHARED or not access.address.exact or len(access.address.symbols) != 1:
        return
    variable = variables.get(next(iter(access.address.symbols)))
    if variable is None or not variable.size or variable.linkage == "extern":
        return
    start = facts.evaluator.shared.address(variable)
    place = np.broadcast_to(access.address.bits, access.threads.shape).astype(np.int64)
    outside = access.threads & ((place < start) | (place + access.nbytes > start + variable.size))
    if not outside.any() or ((outside != access.threads).any() and not (certain and facts.threads.sizes)):
        return
    first = int(place[outside][0])
    where = f"{first - start} bytes from its start" if first >= start else f"{start - first} bytes before it"
    hit = next((v for v in variables.values() if v is not variable and v.size and v.unique in facts.evaluator.shared.offsets
                and (at := facts.evaluator.shared.address(v)) < first + access.nbytes and first < at + v.size), None)  # fmt: skip
    into = f", in {hit.name}" if hit is not None else ""
    message = (
        f"{access.instruction.text}: {access.nbytes} bytes at shared address 0x{first:x} are not inside"
        f" {variable.name} [{variable.size} bytes], {where}{into}"
    )
    yield facts.finding(
        "out-of-bounds", access.instruction, message, threads=outside,
        advice="make the variable as large as what is accessed through it", values={"address": first},
    )  # fmt: skip
