"""Triton's driver interface, and a compiler pipeline that ends at PTX."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from warpsim.compat.triton.interface import Interface
from warpsim.compat.triton.launching import Launcher
from warpsim.compat.triton.tensors import Arrays, aligned
from warpsim.compat.triton.utilities import Utilities
from warpsim.errors import LaunchError
from warpsim.host.device import Device

BACKEND = "warpsim"
"""The entry point's name, by which Triton finds the driver."""
OLDEST = (3, 5)
"""The first version of Triton that the adapter serves."""


class Driver:
    """Implements Triton's driver interface."""

    launcher_cls = Launcher

    def __init__(self, device: Device | str | None = None, **options: Any) -> None:
        device = device or os.environ.get("WARPSIM_DEVICE") or "sm_90a"
        self.device = Device(device) if isinstance(device, str) else device
        if checks := os.environ.get("WARPSIM_CHECKS"):
            options.setdefault("checks", checks)
        self.options = options
        self.utils = Utilities(self.device)
        self.binary_ext = "ptx"
        self._timed = 0
        _stop_at_ptx()

    @classmethod
    def is_active(cls) -> bool:
        """Whether the environment selects this driver."""
        return os.environ.get("TRITON_DEFAULT_BACKEND") == BACKEND

    def get_current_target(self) -> Any:
        """The GPU, in the compiler's terms."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.device.sm, 32)

    def get_active_torch_device(self) -> Any:
        """The CPU, where tensors live."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """PyTorch's interface for the CPU, with events that have times."""
        return Interface()

    def get_current_device(self) -> int:
        """Zero: there is one device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing: there is one device."""

    def get_current_stream(self, device: int = 0) -> int:
        """Zero: the default stream."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """Major and minor capability."""
        return divmod(self.device.sm, 10)

    def get_benchmarker(self) -> Any:
        """A benchmarker that runs nothing: times are meaningless, so autotuning takes the first configuration."""
        return self._time

    def _time(self, call: Any, *, quantiles: Any = None, **options: Any) -> Any:
        self._timed += 1
        return [float(self._timed)] * len(quantiles) if quantiles else float(self._timed)

    def get_empty_cache_for_benchmark(self) -> Any:
        """A buffer that a benchmark would use to flush caches."""
        import torch

        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, cache: Any) -> None:
        """Do nothing: there are no caches."""

    def map_python_to_cpp_type(self, kind: str) -> str:
        """The C type of an argument."""
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(kind))

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Memory for in-kernel profiling."""
        return Arrays(aligned(size, alignment))


@functools.cache
def _stop_at_ptx() -> None:
    """Make Triton's compiler end at PTX, use separate cache keys, and accept NumPy arrays."""
    import triton

    if tuple(map(int, triton.__version__.split(".")[:2])) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise LaunchError(f"Triton {triton.__version__} launches kernels in another way: install {needed} or later")
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.runtime import jit

    hashed = CUDABackend.hash
    CUDABackend.make_cubin = lambda self, src, metadata, opt, capability: src.encode()
    CUDABackend.hash = functools.cache(lambda self: f"{hashed(self)}-warpsim")
    bind = jit.create_function_from_signature

    def with_arrays(*words: Any) -> Any:
        binder = bind(*words)

        def bound(*args: Any, **kwargs: Any) -> Any:
            given = [Arrays(a) if isinstance(a, np.ndarray) else a for a in args]
            return binder(*given, **{k: Arrays(a) if isinstance(a, np.ndarray) else a for k, a in kwargs.items()})

        return bound

    jit.create_function_from_signature = with_arrays
