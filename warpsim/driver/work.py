"""Work for streams and graph nodes: launches, copies, fills, host calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from warpsim.driver.memory import Side
from warpsim.driver.modules import DriverInterface, Function
from warpsim.driver.results import DriverError, Result, of_finding
from warpsim.errors import ExecutionError, LaunchError
from warpsim.records import define, frozen

Dims = tuple[int, int, int]


class Work(Protocol):
    """A piece of work."""

    @property
    def kind(self) -> int:
        """Its CUgraphNodeType."""

    def run(self, driver: DriverInterface) -> None:
        """Do the work."""


@frozen(eq=False)
class Launch:
    """A kernel with its parameter block."""

    function: Function
    grid: Dims
    block: Dims
    params: bytes
    shared: int = 0
    cluster: Dims | None = None
    cooperative: bool = False
    buffer: bool = False
    """Whether the parameters were given as one buffer, not by pointers."""
    kind: int = 0

    def run(self, driver: DriverInterface) -> None:
        """Run it to its end; an error in the kernel becomes the driver's sticky error.

        Raises:
            DriverError: the launch does not fit.
        """
        if driver.error:
            return
        self.function.check()
        driver.report.launches += 1
        module = self.function.module
        try:
            with module.device.lock:  # or a launch of another context might set its limit between
                module.device.pending_launches = driver.pending()
                result = self.function.kernel(
                    self.grid,
                    self.block,
                    self.params,
                    shared_mem=self.shared,
                    cluster=self.cluster or self.function.cluster,
                    cooperative=self.cooperative,
                    device=module.device,
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


@frozen(eq=False)
class Copy:
    """A copy of a box of bytes; a linear copy is a box of one row."""

    target: Side
    source: Side
    width: int
    height: int = 1
    depth: int = 1
    kind: int = 1

    def run(self, driver: DriverInterface) -> None:
        """Copy."""
        if self.height == self.depth == 1:
            driver.memory.copy(self.target.address, self.source.address, self.width)
        else:
            driver.memory.copy_box(self.target, self.source, self.width, self.height, self.depth)


@frozen(eq=False)
class Fill:
    """A fill of rows with one value."""

    address: int
    value: int
    unit: int
    count: int
    pitch: int = 0
    rows: int = 1
    kind: int = 2

    @property
    def fixed(self) -> int:
        """The number of rows, which cannot change in an instantiated graph."""
        return self.rows

    def run(self, driver: DriverInterface) -> None:
        """Fill the memory."""
        driver.memory.fill(self.address, self.value, self.unit, self.count, self.pitch, self.rows)


@frozen(eq=False)
class Call:
    """A host function; ``address`` and ``data`` are the program's."""

    function: Callable[[], object]
    address: int = 0
    data: int = 0
    kind: int = 3

    def run(self, driver: DriverInterface) -> None:
        """Call it."""
        self.function()


@frozen(eq=False)
class Nothing:
    """An empty node, for ordering only."""

    kind: int = 5

    def run(self, driver: DriverInterface) -> None:
        """Do nothing."""


@define(eq=False)
class Allocate:
    """Allocate memory at a reserved address; ``owner`` is its graph, ``freed_by`` are the graphs that free it."""

    address: int
    nbytes: int
    ordinal: int
    owner: object = None
    freed_by: list[object] = attrs.field(factory=list)
    kind: int = 10

    def run(self, driver: DriverInterface) -> None:
        """Make the memory accessible."""
        driver.memory.allocate(self.nbytes, self.ordinal, self.address)


@frozen(eq=False)
class Free:
    """Free what an `Allocate` allocated."""

    address: int
    kind: int = 11

    def run(self, driver: DriverInterface) -> None:
        """Free the memory."""
        driver.memory.free(self.address)


@frozen(eq=False)
class Operation:
    """An operation of cuStreamBatchMemOp; ``kind`` is its CUstreamBatchMemOpType."""

    kind: int
    address: int = 0
    value: int = 0
    flags: int = 0

    @property
    def unit(self) -> int:
        """Size of its value in bytes."""
        return 8 if self.kind in (WAIT_64, WRITE_64) else 4

    def run(self, driver: DriverInterface) -> None:
        """Write, or check the awaited value."""
        if self.kind in (WRITE_32, WRITE_64):
            driver.memory.fill(self.address, self.value, self.unit, 1)
        elif self.kind in (WAIT_32, WAIT_64):
            self._wait(driver)

    def _wait(self, driver: DriverInterface) -> None:
        """Check that the awaited value is there: a stream does its work at once, so it cannot come later.

        GEQ is cyclic, as in cuda.h: ``(int32_t)(*addr - value) >= 0``.
        """
        found, most = (
            int.from_bytes(driver.memory.bytes_at(self.address, self.unit).tobytes(), "little"),
            1 << 8 * self.unit,
        )
        ahead, nor = (found - self.value) % most < most // 2, ~(found | self.value) & (most - 1)
        if not (ahead, found == self.value, found & self.value, nor)[self.flags & 3]:
            raise DriverError(
                Result.NOT_SUPPORTED,
                "a simulated stream cannot wait for a value that has not been stored yet",
            )


WAIT_32, WRITE_32, FLUSH, WAIT_64, WRITE_64, BARRIER = 1, 2, 3, 4, 5, 6


@frozen(eq=False)
class Operations:
    """A batch of operations on memory."""

    operations: tuple[Operation, ...]
    kind: int = 12

    @property
    def fixed(self) -> int:
        """The number of operations, which cannot change in an instantiated graph."""
        return len(self.operations)

    def run(self, driver: DriverInterface) -> None:
        """Do them in order."""
        for operation in self.operations:
            operation.run(driver)
