"""Triton: ``@triton.jit`` kernels on the simulated GPU, with CPU tensors or NumPy arrays.

    import warpsim.compat.triton

    warpsim.compat.triton.install("sm_90a")

Alternatively, set ``TRITON_DEFAULT_BACKEND=warpsim`` in the environment, without changing code (``WARPSIM_DEVICE``
names the GPU). Triton's own compiler runs, and stops at PTX. During a launch, an argument's memory is mapped at its own
address, so views, strides and offsets keep their meaning.
"""

from __future__ import annotations

import os
from typing import Any

from warpsim.compat.triton.driver import BACKEND, Driver
from warpsim.host.device import Device

__all__ = ["Driver", "install"]


def install(device: Device | str | None = None, **options: Any) -> Driver:
    """Make the simulated GPU Triton's active driver.

    Args:
        device: the GPU; by default that of ``WARPSIM_DEVICE``, else an H100 (``sm_90a``).
        options: options for every launch: ``checks=``, ``on_finding=``, ``max_seconds=`` and others of a kernel.
    """
    from triton.runtime import driver as active

    made = Driver(device, **options)
    os.environ["TRITON_DEFAULT_BACKEND"] = BACKEND  # Triton asks backends whether they are active, in workers too
    active.set_active(made)
    return made
