"""A random order of a launch, as data: what a seed chose, and the state of its random stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from warpsim.machine.values import Array
from warpsim.records import define

if TYPE_CHECKING:
    from random import Random

ENDLESS = 1 << 30


@define
class Schedule:
    """How groups are picked, split and joined in one order. Seeds differ in the weights, so that some orders switch at
    every instruction and others let a warp run as far as it can.

    ``grain`` is the average number of instructions that a group executes before another may run; ``splits`` and
    ``joins`` how often a group is split and groups at one place merge; ``groups`` the most groups per batch; ``lanes``
    whether lanes of a warp may separate; ``late`` whether asynchronous effects appear at waits; ``lands`` how often
    some of those act earlier; ``ctas`` how many CTAs run side by side (0: as usual).
    """

    seed: int
    stream: Random = attrs.field(repr=False)
    grain: int = ENDLESS
    splits: float = 0.5
    joins: float = 0.5
    groups: int = 8
    lanes: bool = False
    late: bool = False
    ctas: int = 0
    lands: float = 0.0
    waves: list[int] | None = None
    """The order in which batches begin."""

    @classmethod
    def of(cls, seed: int) -> Schedule:
        """The order of a seed."""
        from random import Random

        stream = Random(seed)
        draw = stream.random
        return cls(
            seed,
            stream,
            grain=(1, 3, 10, 40, ENDLESS, ENDLESS)[int(draw() * 6)],
            splits=(0.1, 0.5, 0.9)[int(draw() * 3)],
            joins=(0.0, 0.2, 0.8)[int(draw() * 3)],
            groups=(2, 4, 8, 16)[int(draw() * 4)],
            lanes=draw() < 0.3,
            late=draw() < 0.5,
            ctas=(0, 0, 1, 2, 5)[int(draw() * 5)],
            lands=(0.0, 0.05, 0.3, 0.9)[int(draw() * 4)],
        )

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.stream.random() < probability

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        return int(self.stream.random() * n)

    def some(self, n: int) -> Array:
        """Some of the numbers from 0 to n - 1, often all."""
        share = 1.5 * self.stream.random()
        if n <= 64:
            return np.array([i for i in range(n) if self.stream.random() < share], np.intp)
        return np.flatnonzero(np.random.default_rng(self.below(1 << 62)).random(n) < share)

    def quantum(self) -> int:
        """Number of instructions that the next group may execute."""
        return ENDLESS if self.grain == ENDLESS else 1 + self.below(2 * self.grain)

    def wave(self, number: int, count: int) -> int:
        """The batch that begins as the ``number``-th of ``count``."""
        if self.waves is None:
            self.waves = list(range(count))
            for last in range(count - 1, 0, -1):
                other = self.below(last + 1)
                self.waves[last], self.waves[other] = self.waves[other], self.waves[last]
        return self.waves[number]
