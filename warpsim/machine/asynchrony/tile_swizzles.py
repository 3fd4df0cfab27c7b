"""How tensor copies laid out shared memory: which rows of 128 bytes hold a box, swizzled how.

The swizzle of a copy is anchored at absolute multiples of its pattern, wherever the box begins. A descriptor whose base
offset anchors the pattern elsewhere then reads other bytes than the copy meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.reporting import present
from warpsim.machine.values import Array

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.program.program import Instruction

ROW = 128


class TileSwizzles:
    """The copy that wrote each row of each CTA last, as an index into ``copies``; 0 where none did."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.rows: Array = np.zeros((-(-machine.batch.shared.size // ROW), machine.batch.shape.n_ctas), np.int16)
        self.copies: list[tuple[Instruction | None, int]] = [(None, 0)]
        self._numbers: dict[tuple[int, int], int] = {}

    def copied(self, columns: Array, start: Array, extent: int, span: int) -> None:
        """Copies write ``extent`` bytes from ``start`` on in the CTAs of ``columns``, with a swizzle row of ``span`` bytes (0:
        none)."""
        if not len(start):
            return
        number = 0
        if span:
            instruction = present(self.machine.memory.group)
            number = self._numbers.setdefault((id(instruction), span), len(self.copies))
            if number == len(self.copies):
                self.copies.append((instruction, span))
        rows = start[:, None] // ROW + np.arange(-(-extent // ROW))
        self.rows[np.minimum(rows, len(self.rows) - 1), columns[:, None]] = number

    def made_by(self, chunks: Array, columns: Array, span: int) -> Instruction | None:
        """The copy with this swizzle that brought all bytes at ``chunks`` in one of the ``columns``, None where there is no
        such; what threads have written there since is theirs."""
        proxies = self.machine.batch.notes.get("proxy-fence")
        if proxies is None:
            return None
        chunks = chunks.reshape(-1, 1)
        found = self.rows[np.minimum(chunks // ROW, len(self.rows) - 1), columns]
        known = np.array([made == span for _, made in self.copies])[found].all(axis=0)
        if not known.any():
            return None
        untouched = known & ~proxies.wrote(chunks, columns[None]).any(axis=0)
        return self.copies[int(found[0, np.flatnonzero(untouched)[0]])][0] if untouched.any() else None
