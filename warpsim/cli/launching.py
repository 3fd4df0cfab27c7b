"""Launches described on the command line (options, arguments, output files) and recorded ones, which run here, in local
processes, or on a cluster."""

from __future__ import annotations

import functools
import importlib
import os
import shlex
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.cli.arguments import Argument, Given, Placed, StructArgument, argument, dims, named_arrays
from warpsim.cli.output import Unusable, internal
from warpsim.errors import LaunchError, PtxError, plural
from warpsim.host.arguments import Arguments
from warpsim.host.cases import CaseResult, failed_case, run_case
from warpsim.host.defaults import defaults
from warpsim.host.device import Device
from warpsim.host.files import Target, named
from warpsim.host.kernel import Kernel, LaunchResult, Module, load_file, load_text
from warpsim.host.launch_options import Keywords
from warpsim.host.options import Dim
from warpsim.host.targets import runs_on
from warpsim.records import frozen

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from warpsim.observe.timing import StopWatch
    from warpsim.parallel.processes import Processes
    from warpsim.report.profile import Timing


@frozen
class Launched:
    """A finished launch; ``unsaved`` lists the files that could not be written, and why."""

    result: LaunchResult
    arguments: list[Given]
    unsaved: list[str]
    timing: Timing | None = None


def launch_options(options: Namespace) -> Keywords:
    """Convert the common options to launch options."""
    names = ("checks", "async_effects", "schedule", "max_instructions", "max_seconds", "engine", "workers")
    shadow: Keywords = {"shadow": "f64"} if options.shadow or options.shadow_to else {}
    return {
        **{name: getattr(options, name) for name in names},
        "executor": executor_of(options.executor),
        "on_finding": "collect",
        "profile": options.profile or bool(options.profile_to),
        "progress": PROGRESS if sys.stderr.isatty() and not options.json else None,
        **shadow,
    }


class Progress(threading.local):
    """A progress line on the terminal; it is erased before anything else is printed."""

    def __init__(self) -> None:
        self.shown = 0

    def __call__(self, instructions: int, done: int, total: int) -> None:
        """Update the line."""
        text = f"{plural(instructions, 'warp-instruction')}, {done} of {plural(total, 'CTA')}"
        print("\r" + text.ljust(self.shown), end="", file=sys.stderr, flush=True)
        self.shown = max(self.shown, len(text))

    def erase(self) -> None:
        """Erase the line."""
        if self.shown:
            print("\r" + " " * self.shown + "\r", end="", file=sys.stderr, flush=True)
            self.shown = 0


PROGRESS = Progress()


def _printed(text: str) -> None:
    """Print a kernel's text on a line of its own."""
    PROGRESS.erase()
    sys.stdout.write(text)


class Left(Exception):
    """The user left a launch before its end, so there is nothing to save."""


def launch_from(options: Namespace, launch: Callable[..., LaunchResult] | None = None) -> Launched:
    """Load and run what the command line describes; ``launch`` replaces the call of the kernel.

    Files are opened before the launch. Afterwards each is written, however the launch ended.
    """
    watch = _stop_watch() if getattr(options, "timing", False) else None
    began = time.perf_counter()
    kernel = kernel_of(options)
    if watch is not None:
        watch.load = time.perf_counter() - began
    arrays = named_arrays(options.array)
    arguments = [argument(a, arrays) for a in options.arg]
    held = list({id(each): each for given in [*arrays.values(), *arguments] for each in given.arrays()}.values())
    placed: Placed | None = None
    targets: list[tuple[Argument, Target]] = []
    try:
        device = Device(
            options.device or runs_on(kernel.module.target),
            numerics=options.numerics or "exact",
            stdout=(lambda text: None) if options.json else _printed,
        )
        if any(isinstance(given, StructArgument) for given in arguments):
            placed = Placed(device)
        for given in held:
            if given.path:
                targets.append((given, Target(given.path)))
        result = (launch or functools.partial(_launch, getattr(options, "record", None), watch))(
            kernel,
            dims(options.grid),
            dims(options.block),
            tuple([given.made(placed or (lambda array: array)) for given in arguments]),
            shared_mem=options.shared,
            cluster=dims(options.cluster) if options.cluster else None,
            device=device,
            **launch_options(options),
        )
    except (LaunchError, Unusable, Left) as problem:
        PROGRESS.erase()
        for _, target in targets:
            target.abandon()
        if isinstance(problem, Left):
            raise
        raise Unusable(str(problem)) from None
    except BaseException:
        PROGRESS.erase()
        for line in _save(targets, placed):
            print(f"warpsim: {line}", file=sys.stderr)
        raise
    PROGRESS.erase()
    return Launched(result, arguments, _save(targets, placed), watch.timing() if watch is not None else None)


def _module(options: Namespace) -> Module:
    if not options.file.endswith(".cu"):
        return load_file(options.file)
    from warpsim.cli.compiling import compiled

    text = compiled(options.file, options.device, shlex.split(options.cuda_flags))
    return load_text(text, options.file.removesuffix(".cu") + ".ptx")


def kernel_of(options: Namespace) -> Kernel:
    """Load the kernel that the command line names."""
    try:
        module = _module(options)
    except PtxError as problem:
        if any(f.rule == "unreadable" for f in problem.findings):
            raise Unusable(str(problem)) from None
        raise
    name = options.kernel or next(iter(module.kernels), None)
    if name is None or name not in module.kernels:
        raise Unusable(f"{options.file} has no kernel {name}; it has: {', '.join(module.kernels)}")
    return module[name]


def _stop_watch() -> StopWatch:
    from warpsim.observe.timing import StopWatch

    return StopWatch()


def _launch(
    folder: str | None, watch: StopWatch | None, kernel: Kernel, grid: Dim, block: Dim, args: Arguments, **options: Any
) -> LaunchResult:
    if watch is not None:
        began = time.perf_counter()
        kernel.module.image(kernel.device(options["device"])).plan(kernel.name)
        watch.bind = time.perf_counter() - began
        with defaults(timing=watch):
            return _launch(folder, None, kernel, grid, block, args, **options)
    if folder is None:
        return kernel(grid, block, args, **options)
    from warpsim.host.recording import record

    return record(kernel, grid, block, args, folder, **options)


def _save(targets: list[tuple[Argument, Target]], placed: Placed | None) -> list[str]:
    problems = []
    if placed is not None:
        placed.fetch()
    for given, target in targets:
        try:
            target.write_array(given.value)
        except LaunchError as problem:
            problems.append(str(problem))
    return problems


# ---- cases --------------------------------------------------------------------------------------


def find_case(name: str) -> Path:
    """A case directory, or the bundled program of that name."""
    for folder in (name, os.path.join(programs(), name)):
        if os.path.exists(os.path.join(folder, "case.json")):
            return named(folder)
    raise Unusable(f"{name} is neither a case directory nor a bundled program (see: warpsim examples)")


def programs() -> Path:
    """The directory of the bundled programs: in the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "programs"
    return inside if inside.is_dir() else package.parent / "programs"


SCHEME = "dask://"


def executor_of(address: str | None) -> Executor | None:
    """The executor of ``--executor``: a Dask cluster, given by its scheduler's address."""
    if address is None:
        return None
    if not address.startswith(SCHEME):
        raise Unusable(f"--executor {address}: write {SCHEME}HOST:PORT, the address of a Dask scheduler")
    try:
        dask = importlib.import_module("distributed")
    except ImportError:
        raise Unusable(f"--executor {address} needs Dask: pip install distributed") from None
    try:
        found: Executor = dask.Client("tcp://" + address[len(SCHEME) :], timeout=10).get_executor()
    except (OSError, ValueError, TimeoutError) as problem:
        raise Unusable(f"--executor {address}: no scheduler answers: {problem}") from None
    return found


@frozen
class Shipped:
    """A recorded launch as bytes: its name, and its files by name."""

    name: str
    files: dict[str, bytes]

    @classmethod
    def of(cls, path: Path) -> Shipped:
        """Read the files of a case directory."""
        return cls(path.name, {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()})


def run_shipped(case: Shipped, options: Keywords) -> CaseResult:
    """Run a case from its bytes, on any machine."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, case.name)
        path.mkdir()
        for name, content in case.files.items():
            (path / name).write_bytes(content)
        return run_case(path, **options)


def results_of(names: Sequence[str], options: Keywords) -> Iterator[tuple[CaseResult, bool]]:
    """The results of recorded launches, in order, and whether each could be read. Several cases are shared among the
    workers; a single case is divided among them."""
    workers, executor = options.get("workers"), options.get("executor")
    if len(names) < 2 or (executor is None and (workers or 1) < 2):
        for name in names:
            yield _result(name, lambda name: run_case(find_case(name), **options))
        return
    alone = {**options, "workers": None, "executor": None, "progress": None}
    from warpsim.parallel.processes import Processes

    pool = executor or Processes(min(workers or 1, len(names)))
    try:
        futures = {name: pool.submit(run_shipped, Shipped.of(path), alone) for name, path in _readable(names)}
        for name in names:
            yield _result(name, lambda name: _outcome(futures.get(name), name, pool, alone))
    finally:
        if executor is None:
            pool.shutdown(cancel_futures=True)


def _outcome(future: Future[CaseResult] | None, name: str, pool: Executor | Processes, options: Keywords) -> CaseResult:
    """A case's result from elsewhere; if the worker is lost, from another one, and finally from this process."""
    for again in (True, False):
        if future is None:
            break
        try:
            return future.result()
        except (LaunchError, Unusable):
            raise
        except Exception:  # every executor reports a lost worker in its own way
            future = _submitted(pool, name, options) if again else None
    return run_case(find_case(name), **options)


def _submitted(pool: Executor | Processes, name: str, options: Keywords) -> Future[CaseResult] | None:
    try:
        return pool.submit(run_shipped, Shipped.of(find_case(name)), options)
    except Exception:  # the executor itself is broken
        return None


def _readable(names: Sequence[str]) -> Iterator[tuple[str, Path]]:
    for name in names:
        try:
            yield name, find_case(name)
        except (LaunchError, Unusable, OSError):  # reported in its turn
            continue


def _result(name: str, run: Callable[[str], CaseResult]) -> tuple[CaseResult, bool]:
    try:
        return run(name), True
    except (LaunchError, Unusable) as problem:
        return failed_case(name, str(problem)), False
    except Exception as defect:  # keep the other cases' results
        return failed_case(name, internal(defect)), True
