"""Assertions for kernel tests: compare bits, or errors against a justified bound."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import attrs
import numpy as np
from numpy.typing import ArrayLike

from warpsim.host.arguments import Arguments
from warpsim.host.arrays import array_of, is_buffer
from warpsim.host.cases import Comparison
from warpsim.host.device import Device
from warpsim.host.kernel import LaunchResult
from warpsim.host.options import Dim
from warpsim.host.recipes import Recipe, name_of
from warpsim.numerics import matrix
from warpsim.numerics.arrays import Array
from warpsim.testing.differences import explain
from warpsim.types import JsonObject

Dims = Dim | tuple[Dim, Dim]
"""The dimensions of a launch, or a pair of them."""


def fresh(argument: object, number: int = 0) -> object:
    """A launch's own copy of an argument; a recipe makes an array, with its seed increased by ``number``."""
    if isinstance(argument, Recipe):
        return attrs.evolve(argument, seed=argument.seed + number).array()
    if is_buffer(argument) and not isinstance(argument, bytes | np.generic):
        return np.array(array_of(argument), order="C")
    return argument


def _array(value: object) -> Array:
    return np.ascontiguousarray(array_of(value) if is_buffer(value) else value)


def _compare(actual: object, expected: object, name: str, check: JsonObject) -> None:
    __tracebackhide__ = True
    got, want = _array(actual), _array(expected)
    if got.shape != want.shape or got.dtype != want.dtype:
        raise AssertionError(f"{name}: {got.dtype} {got.shape} is not {want.dtype} {want.shape}")
    comparison = Comparison(name, got, want, check)
    if comparison.wrong.any():
        raise AssertionError("\n".join(explain(comparison)))


def assert_bits_equal(actual: object, expected: object, *, name: str = "result") -> None:
    """Fail unless two arrays have the same shape, type and bits. NaNs are equal if their bits are."""
    __tracebackhide__ = True
    _compare(actual, expected, name, {"mode": "bits"})


def assert_ulps(actual: object, expected: object, ulps: int, *, name: str = "result") -> None:
    """Fail unless two float arrays agree within ``ulps`` units in the last place. NaN equals NaN."""
    __tracebackhide__ = True
    _compare(actual, expected, name, {"mode": "close", "ulps": int(ulps)})


def assert_close(actual: object, exact: ArrayLike, bound: ArrayLike, *, name: str = "result") -> None:
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
    kernel: Callable[..., object],
    other: Callable[..., object],
    grid: Dims,
    block: Dims,
    args: Arguments,
    **options: object,
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
        copies = [fresh(a) for a in args]
        called(_pair(grid, number), _pair(block, number), tuple(copies), **options)
        results.append(copies)
    for index, (a, b) in enumerate(zip(*results, strict=True)):
        if isinstance(a, np.ndarray):
            _compare(a, b, f"argument {index}", {"mode": "bits"})


def _pair(dims: Dims, number: int) -> object:
    if isinstance(dims, tuple) and len(dims) == 2 and all(isinstance(d, tuple) for d in dims):
        return dims[number]
    return dims


def assert_accuracy(result: LaunchResult, *, ulps: float) -> None:
    """Fail unless every float that a launch with ``shadow="f64"`` stored to global memory is within ``ulps`` units in the last place
    of its shadow in higher precision."""
    __tracebackhide__ = True
    if result.accuracy is None:
        raise ValueError('the launch had no shadow: call the kernel with shadow="f64"')
    if not result.accuracy.ulps <= ulps:
        raise AssertionError(f"off by {result.accuracy.ulps:.3g} ulps, more than {ulps:g}:\n{result.accuracy}")


def assert_matches(case: str | os.PathLike[str], *, bits: bool = False, **options: object) -> None:
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


UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
"""Half a unit in the last place of a number near 1: the relative error of one round to nearest."""
LEAST = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
"""The smallest subnormal, which bounds the rounding error of tiny numbers."""


def _doubles(values: ArrayLike) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(np.float64)


def _addend(c: ArrayLike | None, left: Array, right: Array) -> Array:
    return np.broadcast_to(0.0 if c is None else _doubles(c), (left.shape[0], right.shape[1]))


def exact_matmul(a: ArrayLike, b: ArrayLike, c: ArrayLike | None = None) -> Array:
    """Compute ``a @ b + c`` as float64, each element the exact sum rounded once.

    Args:
        a: a matrix [m, k] of any float type up to float32, or of integers below 2**26, so that products are exact.
        b: a matrix [k, n] of the same kind.
        c: an addend [m, n].
    """
    left, right = _doubles(a), _doubles(b)
    added = _addend(c, left, right)
    for values in (a, b):
        if np.asarray(values).dtype == np.float64:
            raise TypeError(
                "products of float64 are not exact in float64: pass the narrower type that the kernel multiplies"
            )
    result = np.empty_like(added)
    with np.errstate(all="ignore"):
        for i, row in enumerate(left):
            terms = np.concatenate([row[:, None] * right, added[i][None, :]])
            for j, column in enumerate(terms.T.tolist()):
                result[i, j] = math.fsum(column) if all(map(math.isfinite, column)) else np.sum(terms[:, j])
    return result


def product_bound(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike | None = None,
    *,
    result: str = "f32",
    sm: str = "sm_90a",
    instruction: str = "mma",
    parts: int = 1,
) -> Array:
    """Bound the error, per element, that matrix instructions may make in ``a @ b + c``.

    Args:
        a: the matrix [m, k] in the type that the instruction multiplies (float16, bfloat16, float32 for tf32, float8
            ...).
        b: the matrix [k, n], in the same type.
        c: the initial accumulator.
        result: the accumulator's type, f32 or f16.
        sm: the GPU.
        instruction: ``mma`` or ``wgmma`` (whose fp8 keeps 13 fraction bits), or ``fma`` for a chain in f32.
        parts: with split K, the number of partial sums that are added in f32 afterwards.
    """
    left, right = np.abs(_doubles(a)), np.abs(_doubles(b))
    with np.errstate(all="ignore"):
        total = left @ right + np.abs(_addend(c, left, right))
    length = left.shape[1]
    rounding = 2 * UNIT[result]  # toward zero, or twice to nearest
    if instruction == "fma":
        blocks, each = length, UNIT["f32"]
    else:
        name = name_of(np.asarray(a).dtype) or "f32"
        narrow = name in ("e4m3", "e5m2")
        unit = matrix.WGMMA_FP8 if narrow and instruction == "wgmma" else matrix.unit_of(Device(sm).sm)
        size = max(unit.block_bytes // {"f32": 4, "f16": 2, "bf16": 2}.get(name, 1), 1)
        size = min(size, {"f32": 4, "f16": 4, "bf16": 4}.get(name, size))  # the smallest block of any shape of the type
        blocks = -(-length // size)
        cut = 2.0**-unit.fraction * 2  # a product's significand reaches 4
        each = (size + 1) * cut + (2.0**-13 if unit is matrix.WGMMA_FP8 else rounding)
    growth = blocks * each + parts * UNIT["f32"] * 2
    return total * growth * (1 + growth) + (blocks + parts) * LEAST[result]


def sum_bound(values: ArrayLike, axis: int | tuple[int, ...] | None = None, *, dtype: str = "f32") -> Array:
    """Bound the error of a sum in any order, with every addition rounded to nearest."""
    magnitudes = np.abs(_doubles(values))
    total = np.asarray(magnitudes.sum(axis=axis))
    terms = magnitudes.size // max(total.size, 1)
    growth = max(terms - 1, 0) * UNIT[dtype]
    return total * growth * (1 + growth) + terms * LEAST[dtype]
