"""The graphs of a function's instructions, traced once for all its regions."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from warpsim.graph.nodes import Untraceable
from warpsim.native.codegen.matrix_steps import matrix_step
from warpsim.native.lowering.values import Unlowerable
from warpsim.native.regions.forms import Traced, traced
from warpsim.program.program import Instruction

if TYPE_CHECKING:
    from warpsim.machine.plan import FunctionPlan


class Traces:
    """A function's traced instructions. ``sm``: the GPU whose tensor cores to model exactly, None for approximate ones."""

    def __init__(self, plan: FunctionPlan, sm: int | None, maybe_undefined: frozenset[int] = frozenset()) -> None:
        self.plan, self.sm, self.maybe_undefined = plan, sm, maybe_undefined
        self._traced: dict[Any, Traced | None] = {}
        self.reasons: dict[int, str] = {}

    def __deepcopy__(self, memo: object) -> Traces:
        return self

    def of(self, instruction: Instruction, known: dict[int, int] | None = None) -> Traced | None:
        """The graphs of an instruction, None if it stays interpreted. ``known``: registers with constant values."""
        key = id(instruction), tuple(sorted((known or {}).items()))
        if key not in self._traced:
            try:
                if self.plan.wgmma_rows and _touches(self.plan.wgmma_rows, instruction):
                    raise Untraceable("registers of wgmma")
                made = None
                if self.sm is not None and instruction.traits.matrix is not None:
                    made = matrix_step(self.plan, instruction, self.sm)
                self._traced[key] = traced(self.plan, instruction, known) if made is None else made
            except (Untraceable, Unlowerable) as problem:
                self._traced[key] = None
                self.reasons[id(instruction)] = str(problem)
        return self._traced[key]

    def undefined(self, instruction: Instruction) -> bool:
        """Whether an instruction is on registers that may be undefined."""
        return bool(self.maybe_undefined) and _touches(self.maybe_undefined, instruction)


def _touches(registers: Container[int], instruction: Instruction) -> bool:
    """Whether an instruction reads or writes some registers."""
    reads, writes = instruction.reads, instruction.writes
    return any(slot in registers for slot in (*reads, *writes))
