"""The work of a stream: launches, copies, fills, host calls. A graph keeps it for repeated launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from warpsim.driver.memory import Side
from warpsim.driver.modules import Function
from warpsim.driver.owner import Owner
from warpsim.driver.results import DriverError, Result, of_finding
from warpsim.errors import ExecutionError, LaunchError

Dims = tuple[int, int, int]


class Work(Protocol):
    """A piece of work; work of one stream is done in order."""

    @property
    def kind(self) -> int:
        """Its CUgraphNodeType."""

    def run(self, driver: Owner) -> None:
        """Do the work."""


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

    def run(self, driver: Owner) -> None:
        """Run it to its end; an error in the kernel becomes the driver's sticky error.

        Raises:
            DriverError: the launch does not fit.
        """
        if driver.error:
            return
        driver.report.launches += 1
        try:
            result = self.function.kernel(
                self.grid,
                self.block,
                self.params,
                shared_mem=self.shared,
                cluster=self.cluster or self.function.cluster,
                cooperative=self.cooperative,
                device=self.function.module.device,
                **driver.options,
            )
        except LaunchError as problem:
            raise DriverError(Result.INVALID_VALUE, str(problem)) from None
        except ExecutionError as problem:
            for finding in problem.findings:
                driver.fail(of_finding(finding))
                driver.report.finding(finding, driver.error.driver_name)
            return
        for finding in result.findings:
            driver.report.finding(finding, "CUDA_SUCCESS")


@attrs.frozen(eq=False)
class Copy:
    """A copy of a box of bytes; a linear copy is a box of one row."""

    target: Side
    source: Side
    width: int
    height: int = 1
    depth: int = 1
    kind: int = 1

    def run(self, driver: Owner) -> None:
        """Copy."""
        if self.height == self.depth == 1:
            driver.memory.copy(self.target.address, self.source.address, self.width)
        else:
            driver.memory.copy_box(self.target, self.source, self.width, self.height, self.depth)


@attrs.frozen(eq=False)
class Fill:
    """A fill of rows with one value."""

    address: int
    value: int
    unit: int
    count: int
    pitch: int = 0
    rows: int = 1
    kind: int = 2

    def run(self, driver: Owner) -> None:
        """Fill the memory."""
        driver.memory.fill(self.address, self.value, self.unit, self.count, self.pitch, self.rows)


@attrs.frozen(eq=False)
class Call:
    """A host function; ``address`` and ``data`` are the program's."""

    function: Callable[[], object]
    address: int = 0
    data: int = 0
    kind: int = 3

    def run(self, driver: Owner) -> None:
        """Call it."""
        self.function()


@attrs.frozen(eq=False)
class Nothing:
    """An empty node, for ordering only."""

    kind: int = 5

    def run(self, driver: Owner) -> None:
        """Do nothing."""
