"""What computes in the place of instructions' bodies: machine code for products of matrices, imported when these have taken a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from warpsim.isa.traits import Matrix
from warpsim.native.tiering.cost import Policy

if TYPE_CHECKING:
    from warpsim.native.matrix.instructions import Matrices
    from warpsim.program.program import Instruction

LITTLE = {Policy.AUTO: 0.1, Policy.ASKED: 0.02, Policy.AT_ONCE: -1.0}
"""Seconds that bodies take before anybody looks for machine code."""


class Spent:
    """Seconds that bodies of products have taken in this process."""

    seconds = 0.0


@lru_cache(maxsize=1)
def spent() -> Spent:
    """Those of this process."""
    return Spent()


class Bodies:
    """Bodies of one launch."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._spent, self._little = spent(), LITTLE[policy]
        self._matrices: Matrices | None = None

    def of(self, instruction: Instruction) -> Callable[..., Any]:
        """What gives an instruction its results."""
        if instruction.traits.matrix is not Matrix.MULTIPLY:
            return instruction.form.function
        if self._spent.seconds <= self._little:
            return lambda *operands, **ports: self._timed(instruction.form.function, operands, ports)
        if self._matrices is None:
            from warpsim.native.matrix.instructions import Matrices

            self._matrices = Matrices(self.policy)
        return self._matrices.of(instruction)

    def _timed(self, body: Callable[..., Any], operands: Any, ports: Any) -> Any:
        began = time.perf_counter()
        result = body(*operands, **ports)
        self._spent.seconds += time.perf_counter() - began
        return result

    def over(self) -> None:
        """The launch is over: what it had use for is compiled behind it."""
        if self._matrices is not None:
            self._matrices.over()
