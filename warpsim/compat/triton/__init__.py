"""Triton: ``@triton.jit`` kernels on the simulated GPU, with tensors of the CPU or NumPy arrays.

    import warpsim.compat.triton

    warpsim.compat.triton.install("sm_90a")

or, without a line of code, ``TRITON_DEFAULT_BACKEND=warpsim`` in the environment (``WARPSIM_DEVICE`` names the GPU).
Compilation stops at PTX, which Triton's own compiler made. An argument's memory is mapped at its own address while the
kernel runs, so that views, strides and offsets are what they are.
"""

from __future__ import annotations

import os
from typing import Any

from warpsim.compat.triton.driver import BACKEND, Driver
from warpsim.host.device import Device

__all__ = ["Driver", "install"]


def install(device: Device | str | None = None, **options: Any) -> Driver:
    """Make the simulated GPU Triton's active one.

    Args:
        device: the GPU, by default that of ``WARPSIM_DEVICE``, else an H100 (``sm_90a``).
        options: arguments of every launch: ``checks=``, ``on_finding=``, ``max_seconds=`` and others of a kernel.
    """
    from triton.runtime import driver as active

    made = Driver(device, **options)
    os.environ["TRITON_DEFAULT_BACKEND"] = BACKEND  # Triton asks backends whether they are active, in workers too
    active.set_active(made)
    return made
