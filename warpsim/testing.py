"""Assertions for tests of kernels: bits, not tolerances."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def assert_bits_equal(actual: Any, expected: Any) -> None:
    """Fail unless two arrays have the same shape, type and bits; names the first difference in hex."""
    got, want = np.ascontiguousarray(actual), np.ascontiguousarray(expected)
    if got.shape != want.shape or got.dtype != want.dtype:
        raise AssertionError(f"{got.dtype} {got.shape} is not {want.dtype} {want.shape}")
    width = got.dtype.itemsize
    a = got.reshape(-1).view(np.uint8).reshape(-1, width)
    b = want.reshape(-1).view(np.uint8).reshape(-1, width)
    differs = (a != b).any(axis=1)
    if differs.any():
        at = int(np.argmax(differs))
        index = tuple(int(i) for i in np.unravel_index(at, got.shape or (1,)))
        shown = [f"0x{int.from_bytes(x[at].tobytes(), 'little'):0{2 * width}x}" for x in (a, b)]
        raise AssertionError(
            f"{int(differs.sum())} of {len(a)} elements differ; first at {index} "
            f"(warp {at >> 5}, lane {at & 31} in linear order): got {shown[0]}, expected {shown[1]}"
        )


def assert_matches(case: str | os.PathLike[str], *, bits: bool = False, **options: Any) -> None:
    """Fail unless a recorded launch gives its recorded outputs.

    Args:
        case: a case directory (kernel.ptx, case.json, data.npz), or the name of a bundled program.
        bits: every bit of every output, where the case's own ``check`` would allow less.
        options: as for calling a kernel (checks, async_effects, max_instructions ...).
    """
    from warpsim.host.cases import run_case

    result = run_case(case, **options)
    if result.error:
        raise AssertionError(result.error)
    bad = [o for o in result.outputs if not (o.bits_equal if bits else o.ok)]
    if bad or not result.ok:
        raise AssertionError(
            "; ".join(f"{o.buffer}: {o.differing} elements differ, first {o.first}" for o in bad)
            or "the recorded launch differs"
        )
