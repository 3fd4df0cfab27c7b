"""The same work in other simulators, where they are installed: Numba's of CUDA, and Triton's interpreter (``TRITON_INTERPRET``)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ |= {"NUMBA_ENABLE_CUDASIM": "1", "TRITON_INTERPRET": "1"}
import numpy as np

try:
    import numba
    from numba import cuda
except ImportError:
    numba = cuda = None
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

BLOCK = 256


def in_numba(loop: Callable[..., None], arguments: tuple[Any, ...]) -> Callable[[], object]:
    """One CTA of 32 threads under Numba's simulator, a step of the loop each."""

    def kernel(*given: Any) -> None:
        at = cuda.grid(1)
        loop(*given, at, at + 1)

    there = [cuda.to_device(value) if isinstance(value, np.ndarray) else value for value in arguments]
    launch = cuda.jit(kernel)[1, 32]
    return lambda: launch(*there)


class Tensor:
    """What Triton's interpreter asks of a tensor, for an array in place."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype, self.data = array, array.dtype, self

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.array.ctypes.data

    def size(self) -> tuple[int, ...]:
        """The shape."""
        return self.array.shape

    def same(self, *ignored: object, **more: object) -> Tensor:
        """The tensor, on whatever device."""
        return self

    untyped_storage = cpu = new_empty = set_ = copy_ = stride = storage_offset = same


def in_triton(x: np.ndarray, y: np.ndarray, sums: np.ndarray) -> dict[str, Callable[[], object]]:
    """Launches by the names of workloads."""
    if triton is None:
        return {}

    @triton.jit
    def saxpy(x, y, a, n: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * n + tl.arange(0, n)
        tl.store(y + at, a * tl.load(x + at) + tl.load(y + at))

    @triton.jit
    def reduce(x, out, n: tl.constexpr):  # type: ignore[no-untyped-def]
        block = tl.program_id(0)
        tl.store(out + block, tl.sum(tl.load(x + block * n + tl.arange(0, n))))

    grid, given, into, to = (x.size // BLOCK,), Tensor(x), Tensor(y), Tensor(sums)
    sum_up = lambda: reduce[grid](given, to, BLOCK)  # noqa: E731
    return {
        "saxpy, 2^20 elements": lambda: saxpy[grid](given, into, 2.0, BLOCK),
        "sums of blocks, shuffles": sum_up,
        "sums of blocks, barriers": sum_up,
    }
