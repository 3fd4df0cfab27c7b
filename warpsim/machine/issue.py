"""A bound ``wgmma.mma_async``: its registers, and the step that computes its product."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from warpsim.machine.values import Array
from warpsim.program.program import Instruction


@attrs.frozen(eq=False)
class Issue:
    """Slots of the accumulator, and of operands other than it and A; rows (`FunctionPlan.wgmma_rows`) of the
    accumulator and of A. ``execute(machine, group)`` computes the product at once.
    """

    instruction: Instruction
    shape: str
    slots_d: tuple[int, ...]
    slots_other: tuple[int, ...]
    rows_d: Array
    rows_a: Array
    execute: Callable[..., object]
    rows: Array = attrs.field(init=False)

    key: bytes = attrs.field(init=False)
    """Equal for equal accumulators and shapes, with A by descriptor."""

    _accumulators: Array | slice = attrs.field(init=False)

    @_accumulators.default
    def _rows_in_order(self) -> Array | slice:
        first = int(self.rows_d[0])
        return slice(first, first + len(self.rows_d)) if (np.diff(self.rows_d) == 1).all() else self.rows_d[:, None]

    def accumulators(self, columns: Array | slice) -> tuple[Array | slice, Array | slice]:
        """The index of its accumulators in rows and columns."""
        return self._accumulators, columns

    @rows.default
    def _all_rows(self) -> Array:
        return np.r_[self.rows_d, self.rows_a]

    @key.default
    def _key(self) -> bytes:
        return b"A" if len(self.rows_a) else self.shape.encode() + self.rows_d.tobytes()
