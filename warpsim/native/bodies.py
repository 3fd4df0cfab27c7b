"""What computes in the place of instructions' bodies: machine code for products of matrices, loaded when there is the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from warpsim.isa.traits import Matrix

if TYPE_CHECKING:
    from warpsim.native.matrices import Matrices
    from warpsim.program.program import Instruction


class Bodies:
    """Bodies of one launch. ``eager``: compile at once."""

    def __init__(self, *, eager: bool) -> None:
        self.eager = eager
        self._matrices: Matrices | None = None

    def of(self, instruction: Instruction) -> Callable[..., Any]:
        """What gives an instruction its results."""
        if instruction.traits.matrix is not Matrix.MULTIPLY:
            return instruction.form.function
        if self._matrices is None:
            from warpsim.native.matrices import Matrices

            self._matrices = Matrices(eager=self.eager)
        return self._matrices.of(instruction)
