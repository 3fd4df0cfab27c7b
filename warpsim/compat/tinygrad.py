"""Runs the kernels of tinygrad's mock GPU (``DEV=MOCK+CUDA:PTX``, ``DEV=MOCK+NV``) in warpsim instead of gpuocelot.

From the root of a tinygrad checkout:

    DEV=MOCK+CUDA:PTX python -m pytest -p warpsim.compat.tinygrad test/backend/test_ops.py

or call `install` before the first kernel. A finding becomes tinygrad's own error with ``MOCK+CUDA``. With ``MOCK+NV`` the
mock GPU prints it and continues; as a plugin of pytest, this module fails the test. ``WARPSIM_DEVICE`` overrides the GPU
that the PTX is for; ``WARPSIM_CHECKS`` selects the rules.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from warpsim.host.device import Device
from warpsim.host.kernel import Kernel, load_text
from warpsim.host.launch_options import Dims
from warpsim.host.targets import runs_on

HELPERS = "test.mockgpu.helpers"
USERS = ("test.mockgpu.cuda.cuda", "test.mockgpu.nv.nvgpu")
"""Modules of tinygrad's tests that use ``ptx_run``."""
_LOCK = threading.Lock()


def install(run: Callable[..., None] | None = None) -> None:
    """Make the mock GPU of the checkout on ``sys.path`` run its PTX here, by `ptx_run` or a function around it."""
    for name in (HELPERS, *(user for user in USERS if user in sys.modules)):
        vars(importlib.import_module(name))["ptx_run"] = run or ptx_run


@functools.lru_cache(maxsize=4096)
def kernel_of(source: bytes) -> Kernel:
    """The single kernel of a module."""
    return next(iter(load_text(source.decode(), "tinygrad.ptx").kernels.values()))


@functools.cache
def device_of(target: str) -> Device:
    """The GPU for a module's target."""
    return Device(os.environ.get("WARPSIM_DEVICE") or runs_on(target))


def ptx_run(
    source: bytes | int,
    count: int,
    args: Sequence[int | None],
    block_x: int,
    block_y: int,
    block_z: int,
    grid_x: int,
    grid_y: int,
    grid_z: int,
    shared: int,
) -> None:
    """Run a module's kernel; ``args`` are its parameters' values, each as wide as a pointer."""
    try:
        _run(
            source if isinstance(source, bytes) else ctypes.string_at(source),
            [args[i] or 0 for i in range(count)],
            (block_x, block_y, block_z),
            (grid_x, grid_y, grid_z),
            shared,
        )
    except Exception as problem:
        if sys.modules.get(USERS[0]) is not None:
            _describe(sys.modules[USERS[0]], problem)
        raise


def _run(text: bytes, values: list[int], block: Dims, grid: Dims, shared: int) -> None:
    kernel = kernel_of(text)
    device = device_of(kernel.module.target)
    params = bytearray(max([p.offset + p.size for p in kernel.params], default=0))
    wide = []
    for param, value in zip(kernel.params, values, strict=True):
        data = (value & ((1 << 8 * param.size) - 1)).to_bytes(param.size, "little")
        params[param.offset : param.offset + param.size] = data
        if param.size == 8 and value:
            wide.append(value)
    with _LOCK, device.lock:
        mapped = [
            device.map(np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(low)), address=low)
            for low, size in sorted({region for value in wide for region in _holding(value)})
            if device.allocation(low) is None
        ]
        try:
            kernel(
                grid, block, bytes(params), shared_mem=shared, device=device, checks=os.environ.get("WARPSIM_CHECKS")
            )
        finally:
            for mapping in mapped:
                mapping.unmap()


def _describe(cuda: ModuleType, problem: Exception) -> None:
    """Make a launch's error the text of CUDA's error codes: the mock driver's own ``cuGetErrorString`` gives none."""
    text = ctypes.create_string_buffer(str(problem).encode())

    def cu_get_error_string(error: int, pointer: Any) -> int:
        pointer._obj.contents = ctypes.c_char.from_buffer(text)
        return 0

    vars(cuda)["cuGetErrorString"] = cu_get_error_string


def _holding(address: int) -> Iterator[tuple[int, int]]:
    """First byte and size of the mock GPU's allocation that contains an address."""
    for low, size in _regions():
        if low <= address < low + size:
            yield low, size


def _regions() -> Iterator[tuple[int, int]]:
    cuda = sys.modules.get(USERS[0])
    if cuda is not None:
        yield from ((low, view.nbytes) for low, view in list(cuda.cuda_state.memory.items()) if view.nbytes)
    mock = sys.modules.get("test.mockgpu.mockgpu")
    for driver in getattr(mock, "drivers", ()):
        for gpu in getattr(driver, "gpus", {}).values():
            yield from list(getattr(gpu, "mapped_ranges", ()))


class Tests:
    """A plugin of pytest that fails a test whose kernels had errors that the mock GPU only printed."""

    def __init__(self) -> None:
        self.printed: list[Exception] = []

    def ptx_run(self, *args: Any) -> None:
        """Run a kernel, and keep its error for the test."""
        try:
            ptx_run(*args)
        except Exception as problem:
            if sys.modules.get(USERS[0]) is None:
                self.printed.append(problem)
            raise

    def pytest_runtest_teardown(self, item: object) -> None:
        """Raise the first error of the test."""
        problems, self.printed = self.printed, []
        if problems:
            raise problems[0]


def pytest_configure(config: Any) -> None:
    """Hook for pytest (``-p warpsim.compat.tinygrad``): call `install`."""
    tests = Tests()
    install(tests.ptx_run)
    config.pluginmanager.register(tests)
