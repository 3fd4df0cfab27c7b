"""PyTorch on the simulated GPU, for a session that nobody started by ``warpsim exec``.

    # conftest.py
    import warpsim.compat.torch

    warpsim.compat.torch.enable("sm_90a")

loads the driver's libraries before PyTorch looks for NVIDIA's. `warpsim.compat.aten` computes PyTorch's own operators.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import sys

from warpsim.driver import library
from warpsim.errors import LaunchError

__all__ = ["enable"]


def enable(device: str | None = None, **options: object) -> None:
    """Let this process, and those that it starts, find the simulated GPU. Under ``warpsim exec`` it does nothing.

    Args:
        device: the GPU; by default that of ``WARPSIM_DEVICE``, else an H100 (``sm_90a``). Several with commas between.
        options: those of ``warpsim exec``: ``checks=``, ``on_finding=``, ``report=``, ``max_seconds=`` and so on.

    Raises:
        LaunchError: PyTorch is loaded already, or the libraries cannot be built (Linux and a C compiler).
    """
    if "WARPSIM_CUDART" in os.environ:
        return
    if "torch" in sys.modules:
        raise LaunchError(
            "PyTorch is loaded already, with NVIDIA's libraries: call warpsim.compat.torch.enable() before the first "
            "import of torch, or run the program by warpsim exec"
        )
    given = {"device": device, **options}
    home = library.build()
    os.environ |= library.environment(home, os.environ)
    os.environ |= {f"WARPSIM_{name.upper()}": str(value) for name, value in given.items() if value is not None}
    os.environ["WARPSIM_CLIENTS"] = "warpsim.compat"
    for name in library.LIBRARIES:  # PyTorch's libraries ask for these names, and get what is loaded already
        ctypes.CDLL(str(home / name), mode=ctypes.RTLD_GLOBAL)
    runpy.run_path(str(library.SOURCES / "start" / "sitecustomize.py"))  # as a program under `warpsim exec` starts
