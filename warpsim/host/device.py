"""The GPU: its capability, limits, arithmetic and memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from warpsim.errors import LaunchError, shown
from warpsim.host.arrays import Array, DeviceArray
from warpsim.host.options import choice
from warpsim.machine.launch import DeviceSpec
from warpsim.machine.memory.global_memory import GlobalMemory

SHARED_LIMIT = {
    70: 96,
    72: 96,
    75: 64,
    80: 163,
    86: 99,
    87: 163,
    88: 99,
    89: 99,
    90: 227,
    100: 227,
    103: 227,
    107: 227,
    110: 227,
    120: 99,
    121: 99,
}
"""Shared memory of one CTA, in KiB, by capability times ten."""


class Device:
    """A GPU named by its capability: ``sm_90`` and ``sm_90a`` are the same one.

    Args:
        target: for example ``sm_90a``.
        numerics: ``exact`` for the tensor cores' bits, ``ieee`` for products and sums in float64, rounded once.
        stdout: takes the text that kernels print; standard output by default.
    """

    def __init__(
        self, target: str = "sm_90a", *, numerics: str = "exact", stdout: Callable[[str], object] | None = None
    ) -> None:
        match = re.fullmatch(r"sm_(\d{1,4})[af]?", target) if isinstance(target, str) else None
        if match is None or int(match.group(1)) not in SHARED_LIMIT:
            raise LaunchError(
                f"{shown(target)} is no GPU that can be simulated; known are "
                + ", ".join(f"sm_{n}" for n in SHARED_LIMIT)
            )
        self.target = target
        self.sm = int(match.group(1))
        self.numerics = choice("numerics", numerics, ("exact", "ieee"))
        self.memory = GlobalMemory()
        self.checks: Any = None
        self.max_seconds: float | None = None
        self.stdout = stdout or (lambda text: sys.stdout.write(text))

    @property
    def spec(self) -> DeviceSpec:
        """What the machine needs to know."""
        return DeviceSpec(self.sm, self.numerics)

    @property
    def max_shared(self) -> int:
        """Bytes of shared memory that one CTA may have."""
        return SHARED_LIMIT[self.sm] * 1024

    def array(self, values: Any) -> DeviceArray:
        """A copy of an array in device memory."""
        try:
            data = np.array(values, order="C", copy=True)
        except (TypeError, ValueError, OverflowError, MemoryError) as problem:
            raise LaunchError(f"{shown(values)} is no array: {problem}") from None
        if data.dtype.hasobject:
            raise LaunchError("an array of Python objects has no bytes to place")
        return self._place(data)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> DeviceArray:
        """New memory that nothing has written: a kernel that uses what it holds (zeros here) is reported."""
        try:
            data = np.zeros(shape, dtype)
        except (TypeError, ValueError, OverflowError, MemoryError) as problem:
            raise LaunchError(f"no array of shape {shown(shape)} and type {shown(dtype)}: {problem}") from None
        if data.dtype.hasobject:
            raise LaunchError("an array of Python objects has no bytes to place")
        array = self._place(data)
        self.memory.undefine(array.ptr)
        return array

    def _place(self, data: Array) -> DeviceArray:
        address = self.memory.map(bytes_of(data), name=f"array {data.shape} of {data.dtype}")
        return DeviceArray(data, address, self.memory)

    def __repr__(self) -> str:
        return f"Device({self.target!r}, numerics={self.numerics!r})"


def bytes_of(array: Array) -> Array:
    """The memory of a C-contiguous array as flat uint8, not copied."""
    return array.reshape(-1).view(np.uint8) if array.size else np.zeros(0, np.uint8)
