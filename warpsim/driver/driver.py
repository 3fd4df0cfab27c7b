"""The driver: devices that share one memory, modules, streams, launches, and the sticky error of a failed kernel."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from warpsim.driver import properties
from warpsim.driver.graphs import GraphExec, GraphMemory
from warpsim.driver.memory import Memory, Side
from warpsim.driver.modules import DriverModule, Function
from warpsim.driver.results import DriverError, Report, Result, of_finding
from warpsim.driver.streams import Stream
from warpsim.driver.virtual import Virtual
from warpsim.driver.work import Copy, Dims, Fill, Launch, Work
from warpsim.errors import Finding
from warpsim.host.device import Device
from warpsim.host.launch_options import Keywords
from warpsim.host.options import Checks
from warpsim.machine.state.launch import PENDING

VERSION = 13090
"""The CUDA version that this driver reports; runtimes up to it accept it."""


class Driver:
    """The CUDA driver of a simulated machine.

    Args:
        devices: the GPUs, for example ``("sm_90a",)``. They share one memory, so each can access the others'.
        checks: as for a kernel.
        on_finding: ``raise`` ends a launch at its first error; ``collect`` continues where it can.
        report: a file that receives a JSON document per finding.
        quiet: do not print findings to standard error.
        ptx: a directory that receives the text of each module, under the name that findings use.
        options: more options for every launch: ``max_instructions``, ``max_seconds``, ``async_effects``.
        current: gives the owner of new memory and of kernel errors; in the C libraries, a context.
    """

    def __init__(
        self,
        devices: Sequence[str] = ("sm_90a",),
        *,
        checks: Checks = None,
        on_finding: str = "raise",
        report: str | None = None,
        quiet: bool = False,
        ptx: str | None = None,
        numerics: str = "exact",
        stdout: Callable[[str], object] | None = None,
        options: Keywords | None = None,
        current: Callable[[], object] = lambda: None,
    ) -> None:
        self.devices = [Device(target, numerics=numerics, stdout=stdout or _to_stdout) for target in devices]
        for device in self.devices[1:]:
            device.memory = self.devices[0].memory
        self.memory = Memory(self.devices[0], current, self._read)
        self.virtual = Virtual(self.memory)
        self.report = Report(report, quiet=quiet)
        self.error = Result.SUCCESS
        self.pending_launches: dict[object, int] = {}
        self._current = current
        self._failed: object = None
        self.captures = 0
        self.graph_memory = GraphMemory()
        self.stream = Stream(self)
        self._ptx = ptx
        self.options: Keywords = {
            "max_instructions": None,
            **(options or {}),
            "checks": checks,
            "on_finding": on_finding,
        }
        self._texts: dict[str, str] = {}
        self._lock = threading.RLock()

    @classmethod
    def from_environment(cls, **more: Any) -> Driver:
        """Make a driver from the ``WARPSIM_`` environment variables."""
        asked = os.environ.get
        options: Keywords = {"engine": asked("WARPSIM_ENGINE") or "auto"}  # read once: each launch would read it
        if not asked("WARPSIM_WORKERS"):
            options["workers"] = 1
        for name, make in (("max_instructions", int), ("max_seconds", float), ("async_effects", str)):
            if word := asked(f"WARPSIM_{name.upper()}"):
                options[name] = None if word == "none" else make(word)
        return cls(
            tuple((asked("WARPSIM_DEVICE") or "sm_90a").split(",")),
            checks=asked("WARPSIM_CHECKS"),
            on_finding=asked("WARPSIM_ON_FINDING") or "raise",
            report=asked("WARPSIM_REPORT"),
            quiet=bool(asked("WARPSIM_QUIET")),
            ptx=asked("WARPSIM_PTX"),
            numerics=asked("WARPSIM_NUMERICS") or "exact",
            options=options,
            **more,
        )

    # ---- modules ---------------------------------------------------------------------------------

    def load(self, image: bytes | str, ordinal: int = 0, name: str | None = None) -> DriverModule:
        """Load a module from PTX text, or from a fatbin that contains PTX.

        Raises:
            DriverError: the image cannot run.
        """
        module = DriverModule(self, image.encode() if isinstance(image, str) else image, ordinal, name)
        module.functions()
        return module

    def file_of(self, text: str) -> str:
        """The file name that findings use for a module's text. The file exists if a directory was given."""
        with self._lock:
            known = self._texts.get(text)
            if known is None:
                known = f"module-{len(self._texts) + 1}.ptx"
                if self._ptx is not None:
                    path = Path(self._ptx, known)
                    try:
                        path.write_text(text, encoding="utf-8")
                        known = str(path)
                    except OSError as problem:
                        self.report.problem("module", f"cannot write {path}: {problem}", "CUDA_SUCCESS")
                self._texts[text] = known
            return known

    # ---- work ------------------------------------------------------------------------------------

    def submit(self, work: Work, stream: Stream | None = None) -> None:
        """Submit work to a stream."""
        (stream or self.stream).submit(work)

    def launch(
        self,
        function: Function,
        grid: Dims,
        block: Dims,
        params: bytes = b"",
        *,
        shared: int = 0,
        cluster: Dims | None = None,
        cooperative: bool = False,
        stream: Stream | None = None,
    ) -> None:
        """Launch a kernel with its parameter block.

        Raises:
            DriverError: the launch does not fit the kernel or the GPU. As on a GPU, an error inside the kernel is
                reported by a later call and is kept in `error`.
        """
        self.check()
        self.submit(self.checked(Launch(function, grid, block, params, shared, cluster, cooperative)), stream)

    def checked(self, work: Launch) -> Launch:
        """Check that a launch fits; that of a tile kernel, one thread a tile, gets the threads that its compiler chose."""
        if work.block == (1, 1, 1) and (block := work.function.tile_block):
            work = attrs.evolve(work, block=block)
        function, threads = work.function, work.block[0] * work.block[1] * work.block[2]
        function.check()
        if not is_possible(work.grid, work.block):
            raise DriverError(Result.INVALID_VALUE, f"invalid launch: grid {work.grid}, block {work.block}")
        needed = function.parameter_bytes
        if len(work.params) < needed:
            raise DriverError(Result.INVALID_VALUE, f"{function.name} takes {needed} bytes of parameters")
        if work.shared > function.max_dynamic:
            raise DriverError(
                Result.INVALID_VALUE,
                f"{function.name}: {work.shared} bytes of dynamic shared memory exceed the limit {function.max_dynamic}; "
                "ask for more: cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)",
            )
        required = function.required_cluster if any(function.required_cluster) else None
        cluster = work.cluster or function.cluster or required
        if cluster is not None:
            most = properties.largest_cluster(function)
            size = cluster[0] * cluster[1] * cluster[2]
            counted = "blocksareclusters" in function.kernel.function.directives  # the grid has clusters
            uneven = not counted and any(n % by for n, by in zip(work.grid, cluster, strict=True))
            if size > most or uneven or (required or cluster) != cluster:
                raise DriverError(
                    Result.INVALID_CLUSTER_SIZE,
                    f"clusters of {cluster} are not {function.name}'s own, do not divide a grid of {work.grid}, or "
                    f"exceed {most} blocks; for more than 8, set the attribute NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
                )
        if work.cooperative:
            resident = properties.resident_blocks(function, threads, work.shared)
            if work.grid[0] * work.grid[1] * work.grid[2] > resident:
                raise DriverError(
                    Result.COOPERATIVE_LAUNCH_TOO_LARGE,
                    f"a cooperative grid of {work.grid} is too large; {resident} blocks fit",
                )
        return work

    def check(self) -> None:
        """Raise the error of an earlier kernel. It is sticky until `reset`."""
        if self.error:
            raise DriverError(self.error)

    def fail(self, error: Result) -> None:
        """Set the sticky error of a kernel: all later work is refused with it."""
        self.error, self._failed = error, self._current()

    def _read(self, finding: Finding) -> None:
        """Report that the host reads what a kernel has stored with undefined bits, as an error of that kernel."""
        if self.options["on_finding"] == "collect":
            self.report.finding(finding, "CUDA_SUCCESS")
            return
        self.fail(of_finding(finding))
        self.report.finding(finding, self.error.driver_name)
        self.check()

    def pending(self) -> int:
        """How many grids that kernels launch may wait: what has been set for the owner of the launches, or the default."""
        return self.pending_launches.get(self._current(), PENDING)

    def reset(self, owner: object = None) -> None:
        """Clear the error and the limits, and free all memory; or only what belongs to one owner."""
        if owner is None or self._failed is owner:
            self.error = Result.SUCCESS
        limits = self.pending_launches
        self.pending_launches = {each: n for each, n in limits.items() if None is not owner is not each}
        self.memory.reset(owner)

    # ---- shortcuts -------------------------------------------------------------------------------

    def copy(self, target: int, source: int, nbytes: int, stream: Stream | None = None) -> None:
        """Copy bytes between any two addresses."""
        self.submit(Copy(Side(target), Side(source), nbytes), stream)

    def fill(self, address: int, value: int, unit: int, count: int, stream: Stream | None = None) -> None:
        """Fill ``count`` elements of ``unit`` bytes."""
        self.submit(Fill(address, value, unit, count), stream)

    def replay(self, graph: GraphExec, stream: Stream | None = None) -> None:
        """Launch a graph, in a stream that is not captured."""
        self.check()
        (stream or self.stream).synchronize()
        graph.run(self)


def is_possible(grid: Dims, block: Dims) -> bool:
    """Whether a GPU takes a grid and blocks of these extents."""
    (x, y, z), threads = grid, block[0] * block[1] * block[2]
    return min(*grid, *block) > 0 and x <= 0x7FFFFFFF and max(y, z) <= 0xFFFF and block[2] <= 64 and threads <= 1024


def _to_stdout(text: str) -> None:
    sys.stdout.write(text)
