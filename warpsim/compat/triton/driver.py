"""Triton's driver interface: devices, modules, properties, tensor maps; and a compiler pipeline that ends at PTX."""

from __future__ import annotations

import functools
import math
import os
import time
from typing import Any

import numpy as np

from warpsim.compat.triton.launching import Arrays, Launcher, aligned
from warpsim.driver import properties
from warpsim.errors import LaunchError
from warpsim.host.device import Device
from warpsim.host.module import load_text
from warpsim.host.tensor_map import TensorMap
from warpsim.layout import tensor_map as layout


class Event:
    """The time of this machine when it was recorded: launches are done when they return."""

    def __init__(self, *words: Any, **options: Any) -> None:
        self._at = 0.0

    def record(self, stream: Any = None) -> None:
        """Note the time."""
        self._at = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another."""
        return 1e3 * (end._at - self._at)

    def synchronize(self) -> None:
        """Do nothing: everything is done."""

    wait = synchronize


class Interface:
    """PyTorch's interface of the CPU, with `Event`."""

    Event = Event

    def __getattr__(self, name: str) -> Any:
        import torch

        return getattr(torch.cpu, name)


class Utilities:
    """Implements the rest of Triton's driver interface."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """Load the PTX; returns module, kernel, registers, spills and threads per block."""
        module = load_text(binary.decode(), f"{name}.ptx")
        return module, module[name], 32, 0, 1024

    def unload_module(self, module: Any) -> None:
        """Remove the module's variables from memory."""
        module.unload(self.device)

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Properties of the GPU."""
        known = properties.attributes(self.device.sm)
        names = {
            "max_shared_mem": 97,
            "max_num_regs": 12,
            "multiprocessor_count": 16,
            "warpSize": 10,
            "sm_clock_rate": 13,
            "mem_clock_rate": 36,
            "mem_bus_width": 37,
        }
        return {name: known[number] for name, number in names.items()}

    def fill_tma_descriptor_tiled(
        self,
        address: int,
        swizzle: int,
        element: int,
        data_type: int,
        block: Any,
        shape: Any,
        strides: Any,
        padding: int,
    ) -> bytes:
        """Encode a tensor map as Triton's driver does."""
        return TensorMap(
            address,
            box_dim=[int(n) for n in reversed(block)],
            **_tensor(swizzle, element, data_type, shape, strides, padding),
        ).encode(address)

    fill_tma_descriptor = fill_tma_descriptor_tiled
    """Its name before Triton 3.7."""

    def fill_tma_descriptor_im2col(
        self,
        address: int,
        swizzle: int,
        element: int,
        data_type: int,
        block: Any,
        shape: Any,
        strides: Any,
        padding: int,
        lower: Any,
        upper: Any,
        steps: Any,
    ) -> bytes:
        """Encode a tensor map for convolutions; ``block`` is pixels and channels."""
        return TensorMap.im2col(
            address,
            pixel_box_lower_corner=[int(n) for n in reversed(lower)],
            pixel_box_upper_corner=[int(n) for n in reversed(upper)],
            channels_per_pixel=int(block[1]),
            pixels_per_column=int(block[0]),
            element_strides=[int(n) for n in reversed(steps)],
            **_tensor(swizzle, element, data_type, shape, strides, padding),
        ).encode(address)

    def cuOccupancyMaxActiveClusters(self, kernel: Any, shared: int, *cluster: int) -> int:
        """Clusters on the whole GPU; ``cluster`` is one number of CTAs, or three before Triton 3.6."""
        return properties.model(self.device.sm).sms // math.prod(cluster)

    def set_printf_fifo_size(self, nbytes: int) -> None:
        """Do nothing: printed text is never lost."""

    def is_stream_capturing(self, stream: int) -> bool:
        """False: nothing is captured."""
        return False


def _tensor(swizzle: int, element: int, data_type: int, shape: Any, strides: Any, padding: int) -> dict[str, Any]:
    """What tiled and im2col maps have in common; ``element`` is the size of an element, outer dimensions come first."""
    return {
        "data_type": layout.DATA_TYPES[data_type],
        "global_dim": [int(n) for n in reversed(shape)],
        "global_strides": [int(s) * element for s in reversed(strides[:-1])],
        "swizzle": layout.SWIZZLES[swizzle],
        "l2_promotion": "L2_128B",
        "oob_fill": "nan" if padding == 1 else "zero",
    }


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
