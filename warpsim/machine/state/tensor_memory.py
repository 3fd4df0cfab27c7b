"""Tensor memory: 128 lanes of 512 columns of 32 bits per CTA, and which columns are allocated (PTX ISA: Tensor Memory)."""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.layout.tensor_memory import BLOCKS, COLUMNS, LANES
from warpsim.machine.state.group import Group
from warpsim.machine.state.word_space import WordSpace
from warpsim.machine.values import Array
from warpsim.records import define


@define(eq=False)
class TensorMemory:
    """The tensor memories of a batch. ``space`` has one column per CTA; its word ``lane * 512 + column`` is a cell.

    ``owner`` ``[n_ctas, 16]`` is, for each 32 columns, the first such block of its allocation plus one, or 0 if they are
    free; ``least`` ``[n_ctas]`` is the size in columns of each CTA's last allocation. ``waiting`` are groups that stand at an
    instruction which allocates, or frees for a pair of CTAs; ``admitted`` ``[n_ctas]`` is set where the pair has met there.
    ``collected`` ``[n_ctas, 5, 2]`` are the matrices in collector buffers a and b0 to b3: address or descriptor and type, -1 for none.
    """

    space: WordSpace
    owner: Array
    relinquished: Array
    least: Array
    admitted: Array
    collected: Array
    waiting: list[Group] = attrs.field(factory=list)

    @classmethod
    def of(cls, n_ctas: int) -> TensorMemory:
        """Memories of which nothing is allocated."""
        return cls(
            WordSpace(4 * LANES * COLUMNS, n_ctas),
            np.zeros((n_ctas, BLOCKS), np.int64),
            np.zeros(n_ctas, np.bool_),
            np.full(n_ctas, COLUMNS, np.int64),
            np.zeros(n_ctas, np.bool_),
            np.full((n_ctas, 5, 2), -1, np.int64),
        )

    def cells(self) -> Array:
        """The words as ``[128, 512, n_ctas]``."""
        return self.space.words.reshape(LANES, COLUMNS, -1)
