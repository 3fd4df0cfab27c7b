"""What asynchronous tcgen05 operations reach when they act."""

from __future__ import annotations

import numpy as np

from warpsim.machine.asynchrony.bulk_reach import BulkReach
from warpsim.machine.machine import Machine
from warpsim.machine.memory import tensor, tensor_allocation
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, DType


class TensorReach(BulkReach):
    """Shared memory, and tensor memory, of the CTAs that take part."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        super().__init__(machine, group, active)
        self.sm, self.numerics = machine.launch.device.sm, machine.launch.device.numerics

    def read_shared(self, cta: Array, address: Array, dtype: DType) -> Array:
        """Elements at byte offsets in the shared memory of CTA columns (broadcast)."""
        return self.read(cta, address, dtype)

    def write_shared(self, cta: Array, address: Array, values: Array) -> None:
        """Write elements there."""
        self.write(cta, address, values)

    def read_tensor(self, ctas: Array, address: Array, lanes: int, columns: int) -> Array:
        """The words ``[k, lanes, columns]`` of rectangles of tensor memory."""
        return tensor.read(self.machine.batch.tensor_memory(), ctas, address, lanes, columns)

    def write_tensor(self, ctas: Array, address: Array, words: Array, mask: Array | None = None) -> None:
        """Write such rectangles, or the cells in ``mask``."""
        tensor.write(self.machine.batch.tensor_memory(), ctas, address, words, mask)

    def report(self, rule: str, message: str, which: Array, advice: str) -> None:
        """Report what some of the threads ask for."""
        lanes = np.zeros(self.group.selection.shape, np.bool_)
        lanes.reshape(-1)[self.lanes().index[which]] = True
        tensor_allocation.refuse(self.machine, self.group, lanes, message, advice, rule=rule)
