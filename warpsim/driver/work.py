"""What a stream does: launches, copies, sets, calls of the host. A graph keeps them to be done again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import attrs

from warpsim.driver.memory import Side
from warpsim.driver.modules import Function

if TYPE_CHECKING:
    from warpsim.driver.driver import Driver

Dims = tuple[int, int, int]


class Work(Protocol):
    """One piece of work; pieces of one stream are done in their order."""

    @property
    def kind(self) -> int:
        """Which kind of node it is in a graph: a CUgraphNodeType."""

    def run(self, driver: Driver) -> None:
        """Do it."""


@attrs.frozen(eq=False)
class Launch:
    """A kernel with its parameter block."""

    function: Function
    grid: Dims
    block: Dims
    params: bytes
    shared: int = 0
    cluster: Dims | None = None
    cooperative: bool = False
    kind: int = 0

    def run(self, driver: Driver) -> None:
        """Run it to its end."""
        driver.run(self)


@attrs.frozen(eq=False)
class Copy:
    """A copy of a box of bytes; a plain one is a box of one row."""

    target: Side
    source: Side
    width: int
    height: int = 1
    depth: int = 1
    kind: int = 1

    def run(self, driver: Driver) -> None:
        """Copy."""
        if self.height == self.depth == 1:
            driver.memory.copy(self.target.address, self.source.address, self.width)
        else:
            driver.memory.copy_box(self.target, self.source, self.width, self.height, self.depth)


@attrs.frozen(eq=False)
class Fill:
    """Rows of one value."""

    address: int
    value: int
    unit: int
    count: int
    pitch: int = 0
    rows: int = 1
    kind: int = 2

    def run(self, driver: Driver) -> None:
        """Set the memory."""
        driver.memory.fill(self.address, self.value, self.unit, self.count, self.pitch, self.rows)


@attrs.frozen(eq=False)
class Call:
    """A function of the host; ``address`` and ``data`` are what the program gave."""

    function: Callable[[], object]
    address: int = 0
    data: int = 0
    kind: int = 3

    def run(self, driver: Driver) -> None:
        """Call it."""
        self.function()


@attrs.frozen(eq=False)
class Nothing:
    """A node that only orders others."""

    kind: int = 5

    def run(self, driver: Driver) -> None:
        """Do nothing."""
