"""Fuzzes a kernel: hypothesis draws launches, and each runs in several orders and with both settings of async_effects."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

import attrs
import numpy as np
from numpy.typing import DTypeLike

from warpsim.errors import WarpsimError, describe
from warpsim.host.arguments import Arguments
from warpsim.host.kernel import Kernel
from warpsim.host.launch_options import Keywords
from warpsim.host.options import Checks, Dim
from warpsim.host.recipes import LOGICAL, Recipe, element_type, recipe
from warpsim.host.recording import record
from warpsim.records import frozen
from warpsim.testing.assertions import assert_bits_equal, fresh

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

GENERATORS = ("zeros", "full", "arange", "uniform", "normal", "bits", "hurtful")
"""Simplest first, because hypothesis shrinks toward the first."""
Oracle = Callable[[Arguments, Arguments], object]


@frozen
class Launch:
    """A launch to try: grid, block, arguments (recipes allowed), and launch options."""

    grid: Dim
    block: Dim
    args: Arguments
    options: Keywords = attrs.field(factory=dict)


def arrays(shape: int | tuple[int, ...], dtype: DTypeLike = "f32", *, ordinary: bool = False) -> SearchStrategy[Recipe]:
    """A strategy for array arguments: ordinary numbers, arbitrary bits, and difficult values (NaN, infinities,
    subnormals, extremes).

    Args:
        shape: extents.
        dtype: a type of the case format (``f16``, ``e4m3``, ``s32`` ...) or of NumPy.
        ordinary: draw only finite numbers of moderate size.
    """
    from hypothesis import strategies as st

    known = [g for g in GENERATORS if not (ordinary and g in ("bits", "hurtful"))]
    name = element_type(dtype)
    if LOGICAL[name].kind in "iu":
        known = [*[g for g in known if g not in ("uniform", "normal")], "integers"]
    seeds = st.integers(0, 2**32 - 1)
    return st.builds(lambda g, seed: recipe(g, shape, name, seed=seed), st.sampled_from(known), seeds)


def fuzz(
    kernel: Kernel,
    strategy: SearchStrategy[Launch],
    *,
    oracle: Oracle | None = None,
    runs: int = 50,
    schedules: int = 2,
    checks: Checks = "default+race",
    directory: str | os.PathLike[str] | None = None,
) -> None:
    """Try launches that hypothesis draws from a strategy, and fail with the smallest one that goes wrong.

    A launch goes wrong if it breaks a rule, if the oracle rejects it, or if late asynchronous effects or another legal
    order give different bits.

    Args:
        kernel: the kernel under test.
        strategy: a hypothesis strategy for `Launch` objects.
        oracle: called with the arguments before and after the launch; raises ``AssertionError`` if they are wrong.
        runs: number of launches to try.
        schedules: number of other orders in which each launch runs.
        checks: as for calling the kernel.
        directory: where to write the smallest failing launch as a case.
    """
    from hypothesis import HealthCheck, Phase, given, settings

    __tracebackhide__ = True
    failing: list[Launch] = []

    phases = [phase for phase in Phase if phase is not Phase.explain]  # it would run every launch a hundred times more

    @settings(max_examples=runs, deadline=None, suppress_health_check=list(HealthCheck), phases=phases)
    @given(strategy)
    def every_launch_is_right(launch: Launch) -> None:
        failing[:] = [launch]
        _check(kernel, launch, oracle, schedules, checks)
        failing.clear()

    try:
        every_launch_is_right()
    except BaseException as problem:
        if directory is not None and failing and isinstance(problem, Exception):
            _keep(kernel, failing[0], directory, checks)
            if hasattr(problem, "add_note"):
                problem.add_note(f"the launch was written to {os.fspath(directory)}")
        raise problem.with_traceback(_from_check(problem.__traceback__)) from problem.__cause__


def _from_check(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without what lies between `fuzz` and the launch, if a launch went wrong."""
    at = trace
    while at is not None and at.tb_frame.f_code is not _check.__code__:
        at = at.tb_next
    return at or trace


def _check(kernel: Kernel, launch: Launch, oracle: Oracle | None, schedules: int, checks: Checks) -> None:
    __tracebackhide__ = True
    given, left = _run(kernel, launch, checks, {"async_effects": "eager"})
    if oracle is not None:
        oracle(given, left)
    others: list[Keywords] = [{"async_effects": "at_wait"}, *({"schedule": seed} for seed in range(schedules))]
    for order in others:
        _, again = _run(kernel, launch, "none", order)
        said = ", ".join(f"{key}={value!r}" for key, value in order.items())
        for index, (a, b) in enumerate(zip(again, left, strict=True)):
            if isinstance(b, np.ndarray):
                assert_bits_equal(a, b, name=f"argument {index} with {said}")


def _run(kernel: Kernel, launch: Launch, checks: Checks, order: Keywords) -> tuple[Arguments, Arguments]:
    """Run a launch in some order; returns its arguments before and after."""
    __tracebackhide__ = True
    given = tuple(fresh(a) for a in launch.args)
    left = tuple(fresh(a) for a in launch.args)
    try:
        result = kernel(launch.grid, launch.block, left, **{"checks": checks, **launch.options, **order})
    except WarpsimError as problem:
        raise AssertionError(str(problem)) from None
    errors = [f for f in result.findings if f.severity == "error"]
    if errors:
        raise AssertionError("\n".join(describe(f) for f in errors))
    return given, left


def _keep(kernel: Kernel, launch: Launch, directory: str | os.PathLike[str], checks: Checks) -> None:
    args: Arguments = [a if isinstance(a, Recipe) else fresh(a) for a in launch.args]
    try:
        record(kernel, launch.grid, launch.block, args, directory, checks=checks, **launch.options)
    except WarpsimError:
        return  # the case of a failing launch is still written


__all__ = ["Launch", "arrays", "fuzz"]
