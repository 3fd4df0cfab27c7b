"""What the instructions of a module use, which rules and launches ask of all its functions."""

from __future__ import annotations

from warpsim.isa.traits import Family
from warpsim.program.program import Program, Uses


def uses_of(program: Program) -> Uses:
    """What the instructions of a module use."""
    return program.uses or _found(program)


def _found(program: Program) -> Uses:
    ports: set[str] = set()
    families, counts, fragments = set(), False, False
    for function in program.functions.values():
        for instruction in function.kinds:
            traits = instruction.traits
            ports |= instruction.form.ports
            if traits.asynchronous is not None:
                families.add(traits.asynchronous.family)
            counts |= bool(traits.register_count)
            fragments |= bool(traits.opaque_fragments)
    tensor = Family.TCGEN05 in families or "tensor" in ports
    proxy = tensor or bool(families & {Family.WGMMA, Family.BULK, Family.CANCEL})
    asynchronous = tensor or bool(ports & {"async_groups", "bulk", "shared_matrix", "objects"})
    return Uses(proxy, asynchronous, tensor, counts, fragments, "cluster_launches" in ports)
