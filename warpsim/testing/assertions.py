"""Assertions for kernel tests: compare bits, or errors against a justified bound."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.host.arrays import Array, array_of, is_buffer
from warpsim.host.comparing import Comparison
from warpsim.testing.differences import explain


def _array(value: Any) -> Array:
    return np.ascontiguousarray(array_of(value) if is_buffer(value) else value)


def _compare(actual: Any, expected: Any, name: str, check: dict[str, Any]) -> None:
    __tracebackhide__ = True
    got, want = _array(actual), _array(expected)
    if got.shape != want.shape or got.dtype != want.dtype:
        raise AssertionError(f"{name}: {got.dtype} {got.shape} is not {want.dtype} {want.shape}")
    comparison = Comparison(name, got, want, check)
    if comparison.wrong.any():
        raise AssertionError("\n".join(explain(comparison)))


def assert_bits_equal(actual: Any, expected: Any, *, name: str = "result") -> None:
    """Fail unless two arrays have the same shape, type and bits. NaNs are equal if their bits are."""
    __tracebackhide__ = True
    _compare(actual, expected, name, {"mode": "bits"})


def assert_ulps(actual: Any, expected: Any, ulps: int, *, name: str = "result") -> None:
    """Fail unless two float arrays agree within ``ulps`` units in the last place. NaN equals NaN."""
    __tracebackhide__ = True
    _compare(actual, expected, name, {"mode": "close", "ulps": int(ulps)})


def assert_close(actual: Any, exact: Any, bound: Any, *, name: str = "result") -> None:
    """Fail unless every element is within ``bound`` of the exact value.

    Args:
        actual: what the kernel computed.
        exact: the exact result as float64, for example from `exact_matmul`.
        bound: the largest error that the instruction may make in each element, from `product_bound` or `sum_bound`.
        name: the array's name in the message.
    """
    __tracebackhide__ = True
    got = _array(actual)
    want, most = np.asarray(exact, np.float64), np.asarray(bound, np.float64)
    if got.shape != want.shape:
        raise AssertionError(f"{name}: shape {got.shape} is not {want.shape}")
    with np.errstate(all="ignore"):
        have = got.astype(np.float64)
        off = np.abs(have - want)
        wrong = ~((off <= most) | (have == want) | (np.isnan(have) & np.isnan(want)))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        comparison = Comparison(name, have, want, {"mode": "close", "atol": most})
        first = f"the bound at {list(at)} is {np.broadcast_to(most, want.shape)[at]:.3g}, the error {off[at]:.3g}"
        raise AssertionError("\n".join([*explain(comparison), f"  {first}"]))


def assert_same_as(
    kernel: Callable[..., Any], other: Callable[..., Any], grid: Any, block: Any, args: Any, **options: Any
) -> None:
    """Fail unless two kernels leave the same bits in every array argument. Each runs on its own copies of the
    arguments.

    Args:
        kernel: the kernel under test.
        other: a reference kernel.
        grid: as for calling a kernel; if the two kernels need different grids, a pair such as ``((4,), (8,))``.
        block: as for calling a kernel, or a pair.
        args: the arguments of both kernels.
        options: as for calling a kernel.
    """
    __tracebackhide__ = True
    results = []
    for number, called in enumerate((kernel, other)):
        copies = [
            np.array(array_of(a), order="C") if is_buffer(a) and not isinstance(a, bytes | np.generic) else a
            for a in args
        ]
        called(_pair(grid, number), _pair(block, number), tuple(copies), **options)
        results.append(copies)
    for index, (a, b) in enumerate(zip(*results, strict=True)):
        if isinstance(a, np.ndarray):
            _compare(a, b, f"argument {index}", {"mode": "bits"})


def _pair(dims: Any, number: int) -> Any:
    nested = isinstance(dims, tuple) and len(dims) == 2 and all(isinstance(d, tuple) for d in dims)
    return dims[number] if nested else dims


def assert_matches(case: str | os.PathLike[str], *, bits: bool = False, **options: Any) -> None:
    """Fail unless a recorded launch reproduces its outputs and breaks no rule.

    Args:
        case: a case directory (kernel.ptx, case.json, data.npz).
        bits: compare every bit of every output, even if the case's own ``check`` is looser.
        options: as for calling a kernel (checks, async_effects, max_instructions ...).
    """
    __tracebackhide__ = True
    from warpsim.testing.replaying import failure_of

    found = failure_of(case, bits=bits, **options)
    if found is not None:
        raise AssertionError(found)
