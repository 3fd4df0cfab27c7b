"""Memory on the stack of a thread (PTX ISA: Stack Manipulation Instructions)."""

from __future__ import annotations

from typing import Any

from warpsim.isa.ports import StackPort, constant_of
from warpsim.isa.registry import instruction
from warpsim.isa.spec import LowBits, Op
from warpsim.isa.traits import Traits

Lanes = Any


@instruction(
    "alloca.type ptr, size{, immAlign}; .type = { .u32, .u64 };",
    anchor="stack-manipulation-instructions-alloca",
    types={"immAlign": ".u32"},
    constants={"immAlign": LowBits({1 << k for k in range(24)})},
    version=(7, 3),
    target=52,
    traits=Traits(moves_stack=True),
)
def alloca(op: Op, size: Lanes, immAlign: Lanes = None, *, stack: StackPort) -> Lanes:
    """Allocate local memory until the function returns; gives its address."""
    align = 8 if immAlign is None else constant_of(immAlign)
    return stack.allocate(size, align).astype(op.type.dtype)


@instruction(
    "stacksave.type d; .type = { .u32, .u64 };",
    anchor="stack-manipulation-instructions-stacksave",
    version=(7, 3),
    target=52,
)
def stacksave(op: Op, *, stack: StackPort) -> Lanes:
    """The top of the stack."""
    return stack.top().astype(op.type.dtype)


@instruction(
    "stackrestore.type a; .type = { .u32, .u64 };",
    anchor="stack-manipulation-instructions-stackrestore",
    registers=("a",),
    version=(7, 3),
    target=52,
    traits=Traits(moves_stack=True),
)
def stackrestore(op: Op, a: Lanes, *, stack: StackPort) -> None:
    """Free everything allocated since ``stacksave`` returned this value."""
    stack.restore(a)
