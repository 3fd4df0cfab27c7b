"""The layout of a kernel's variables in shared memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter

from warpsim.isa.traits import Ending
from warpsim.program.mangling import source_name
from warpsim.program.program import Function, Operand, Program, Variable
from warpsim.records import frozen
from warpsim.types import StateSpace

RESERVED = 1024
"""Bytes of shared memory that are reserved for the system, before a kernel's own: libraries find them by
``%reserved_smem_offset_begin`` and its kin. A kernel that does not ask for them has none here."""
SYSTEM = "reserved shared memory"


@frozen
class SharedLayout:
    """Offsets in bytes by unique name.

    ``dynamic`` is where dynamic shared memory begins. ``open``: the kernel names a variable of dynamic size.
    ``variables`` are name, offset and size (0: the rest) of each, in address order. ``reserved`` bytes at the beginning
    are the system's.
    """

    offsets: dict[str, int]
    dynamic: int
    open: bool
    variables: tuple[tuple[str, int, int], ...] = ()
    reserved: int = 0

    @property
    def static(self) -> int:
        """Bytes of the kernel's static variables."""
        return self.dynamic - self.reserved

    def address(self, variable: Variable) -> int:
        """The address of a variable in the shared window."""
        return self.offsets.get(variable.unique, self.dynamic)

    def name(self, address: int, size: int) -> str:
        """Name an address in the ``size`` bytes of a CTA: ``tile+0x10``; empty if no named variable contains it."""
        before = bisect_right(self.variables, address, key=itemgetter(1))
        if not before:
            return ""
        begin = self.variables[before - 1][1]
        for name, start, length in self.variables[bisect_left(self.variables, begin, key=itemgetter(1)) : before]:
            if address < (start + length if length else size):
                return f"{name}+0x{address - start:x}" if address > start else name
        return ""


def place_shared(program: Program, entry: Function) -> SharedLayout:
    """Lay out the static variables that the kernel can reach, one after another, then those of dynamic size, all at the
    same place. ptxas puts the kernel's own first, then those of the module, then those of functions."""
    functions = [f for f in program.functions.values() if not f.entry and f is not entry]
    declared = [entry.variables, program.variables, *[f.variables for f in functions]]
    variables = [v for group in declared for v in group if v.space is StateSpace.SHARED]
    names = _reachable_names(program, entry)
    offsets: dict[str, int] = {}
    at = reserved = RESERVED if SYSTEM in names else 0
    dynamic = [v for v in variables if v.linkage == "extern" or v.size == 0]
    for variable in variables:
        if variable in dynamic or variable.unique not in names:
            continue
        at = -(-at // max(variable.align, 1)) * max(variable.align, 1)
        offsets[variable.unique] = at
        at += variable.size
    start = -(-at // 16) * 16 if dynamic else at
    for variable in dynamic:
        start = max(start, -(-at // max(variable.align, 1)) * max(variable.align, 1))
    for variable in dynamic:
        offsets[variable.unique] = start
    named = [v for v in variables if v.unique in names]
    placed = sorted((offsets[v.unique], v.size if v not in dynamic else 0, source_name(v.name)) for v in named)
    return SharedLayout(
        offsets,
        start,
        any(v.unique in names for v in dynamic),
        ((SYSTEM, 0, reserved),) * (reserved > 0) + tuple((name, offset, size) for offset, size, name in placed),
        reserved,
    )


def _shared(operand: Operand) -> set[str]:
    """What an operand names in shared memory: a variable, or `SYSTEM`."""
    if operand.special.startswith("reserved_smem"):
        return {SYSTEM}
    variable = (operand.base or operand).variable
    return {variable.unique} if variable is not None and variable.space is StateSpace.SHARED else set()


def _reachable_names(program: Program, entry: Function) -> set[str]:
    """Shared variables named by the kernel or a function that it may call; `SYSTEM`, if it asks for what is reserved."""
    seen: set[str] = set()
    names: set[str] = set()
    work = [entry.name]
    while work:
        name = work.pop()
        name = program.aliases.get(name, name)
        if name in seen or name not in program.functions:
            continue
        seen.add(name)
        for instruction in program.functions[name].kinds:
            for operand in instruction.operands:
                if operand.is_plain:
                    continue
                names |= _shared(operand)
                if operand.function:
                    work.append(operand.function)
            if instruction.traits.ending is Ending.CALL and not instruction.callee:
                work += [f for f, body in program.functions.items() if not body.entry]
    return names
