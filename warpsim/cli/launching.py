"""A launch described on the command line: options, arguments, and output files."""

from __future__ import annotations

import functools
import re
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from warpsim.cli.output import Unusable
from warpsim.cli.replaying import executor_of
from warpsim.errors import LaunchError, PtxError, plural
from warpsim.host.cases import DTYPES
from warpsim.host.defaults import defaults
from warpsim.host.device import Device, runs_on
from warpsim.host.files import Target, read_array
from warpsim.host.kernel import Kernel, LaunchResult
from warpsim.host.module import load_file
from warpsim.host.recipes import GENERATORS, recipe
from warpsim.host.recording import record
from warpsim.observe.timing import StopWatch
from warpsim.report.profile import Timing


@attrs.frozen
class Argument:
    """A kernel argument, and the file to write it to afterwards."""

    value: Any
    path: str | None = None


@attrs.frozen
class Launched:
    """A finished launch; ``unsaved`` lists the files that could not be written, and why."""

    result: LaunchResult
    arguments: list[Argument]
    unsaved: list[str]
    timing: Timing | None = None


def launch_options(options: Namespace) -> dict[str, Any]:
    """Convert the common options to launch options."""
    names = ("checks", "async_effects", "schedule", "max_instructions", "max_seconds", "engine", "workers")
    return {
        **{name: getattr(options, name) for name in names},
        "executor": executor_of(options.executor),
        "on_finding": "collect",
        "profile": options.profile or bool(options.profile_to),
        "progress": PROGRESS if sys.stderr.isatty() and not options.json else None,
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


def dims(text: str) -> tuple[int, ...]:
    """Parse ``16,16`` or ``16x16`` as integers."""
    try:
        return tuple(int(v) for v in text.replace("x", ",").split(","))
    except ValueError:
        raise Unusable(f"{text!r} is not an extent; use the form 16,16") from None


def argument(text: str) -> Argument:
    """Parse one ``--arg``."""
    kind, _, rest = text.partition(":")
    body, _, path = rest.partition("=")
    dtype = DTYPES.get("s" + kind[1:] if kind.startswith("i") else kind)
    try:
        if kind in ("in", "inout"):
            return Argument(read_array(body), path or (body if kind == "inout" else None))
        if kind in ("zeros", "out"):
            return Argument(_zeros(body), path or None)
        if dtype is not None:
            with np.errstate(over="ignore"):
                return Argument(dtype.type(float(body)) if kind.startswith("f") else int(body, 0))
        if kind == "bytes":
            return Argument(bytes.fromhex(body))
        if kind in GENERATORS:
            return _generated(kind, rest)
    except (ValueError, OverflowError, MemoryError, LaunchError, Unusable) as problem:
        raise Unusable(f"--arg {text}: {problem}") from None
    kinds = dict.fromkeys(["in", "inout", "out", "zeros", "bytes", *DTYPES, *GENERATORS])
    raise Unusable(f"--arg {text}: unknown kind {kind!r}; kinds: {', '.join(kinds)}")


def _generated(generator: str, text: str) -> Argument:
    """Parse ``TYPE:SHAPE``, then numbers of the generator, then a file: ``f16:64x64:seed=3:mean=1=x.npy``."""
    found = re.fullmatch(r"(\w+):([\dx,]+)((?::\w+=[-+.\w]+)*)(?:=(.+))?", text)
    if found is None:
        raise Unusable(f"use the form {generator}:f32:64x64 or {generator}:f32:64x64:seed=3")
    name, shape, numbers, path = found.groups()
    named = {key: float(value) for key, _, value in (part.partition("=") for part in numbers.split(":")[1:])}
    seed = int(named.pop("seed", 0))
    dtype = "s" + name[1:] if re.fullmatch(r"i\d+", name) else name
    return Argument(recipe(generator, dims(shape), dtype, seed=seed, **named).array(), path)


def _zeros(text: str) -> Any:
    name, _, shape = text.partition(":")
    dtype = DTYPES.get("s" + name[1:] if name.startswith("i") else name)
    if dtype is None:
        raise Unusable(f"{name!r} is not a type; types: {', '.join(DTYPES)}")
    return np.zeros(dims(shape), dtype)


class Left(Exception):
    """The user left a launch before its end, so there is nothing to save."""


def launch_from(options: Namespace, launch: Callable[..., LaunchResult] | None = None) -> Launched:
    """Load and run what the command line describes; ``launch`` replaces the call of the kernel.

    Files are opened before the launch. Afterwards each is written, however the launch ended.
    """
    watch = StopWatch() if getattr(options, "timing", False) else None
    began = time.perf_counter()
    try:
        module = load_file(options.file)
    except PtxError as problem:
        if any(f.rule == "unreadable" for f in problem.findings):
            raise Unusable(str(problem)) from None
        raise
    name = options.kernel or next(iter(module.kernels), None)
    if name is None or name not in module.kernels:
        raise Unusable(f"{options.file} has no kernel {name}; it has: {', '.join(module.kernels)}")
    if watch is not None:
        watch.load = time.perf_counter() - began
    arguments = [argument(a) for a in options.arg]
    targets: list[tuple[Argument, Target]] = []
    try:
        device = Device(
            options.device or runs_on(module.target),
            numerics=options.numerics or "exact",
            stdout=(lambda text: None) if options.json else _printed,
        )
        for given in arguments:
            if given.path:
                targets.append((given, Target(given.path)))
        result = (launch or functools.partial(_launch, getattr(options, "record", None), watch))(
            module[name],
            dims(options.grid),
            dims(options.block),
            tuple(a.value for a in arguments),
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
        for line in _save(targets):
            print(f"warpsim: {line}", file=sys.stderr)
        raise
    PROGRESS.erase()
    return Launched(result, arguments, _save(targets), watch.timing() if watch is not None else None)


def _launch(
    folder: str | None, watch: StopWatch | None, kernel: Kernel, grid: Any, block: Any, args: Any, **options: Any
) -> LaunchResult:
    """Launch, and record the launch if a folder is given."""
    if watch is not None:
        began = time.perf_counter()
        kernel.module.image(kernel.device(options["device"])).plan(kernel.name)
        watch.bind = time.perf_counter() - began
        with defaults(timing=watch):
            return _launch(folder, None, kernel, grid, block, args, **options)
    if folder is None:
        return kernel(grid, block, args, **options)
    return record(kernel, grid, block, args, folder, **options)


def _save(targets: list[tuple[Argument, Target]]) -> list[str]:
    problems = []
    for given, target in targets:
        try:
            target.write_array(given.value)
        except LaunchError as problem:
            problems.append(str(problem))
    return problems
