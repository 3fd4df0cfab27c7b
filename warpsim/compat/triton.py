"""Triton: ``@triton.jit`` kernels on the simulated GPU, with tensors of the CPU or NumPy arrays.

    import warpsim.compat.triton

    warpsim.compat.triton.install("sm_90a")

or, without a line of code, ``TRITON_DEFAULT_BACKEND=warpsim`` in the environment (``WARPSIM_DEVICE`` names the GPU).
Compilation stops at PTX, which Triton's own compiler made. An argument's memory is mapped at its own address while the
kernel runs, so that views, strides and offsets are what they are.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import ml_dtypes
import numpy as np

from warpsim.driver import properties
from warpsim.errors import LaunchError
from warpsim.host.arrays import Array, extent
from warpsim.host.device import Device
from warpsim.host.module import load_text
from warpsim.host.tensor_map import TensorMap
from warpsim.layout import tensor_map as layout

BACKEND = "warpsim"
"""The name of the entry point by which Triton finds it."""
_FLOATS: dict[str, Any] = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp32": np.float32,
    "f32": np.float32,
    "fp64": np.float64,
}


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


class Arrays:
    """A NumPy array where Triton wants a tensor."""

    def __init__(self, array: Array) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        """The array's address."""
        return int(self.array.ctypes.data)

    def stride(self, axis: int | None = None) -> Any:
        """Strides in elements."""
        found = tuple(s // self.array.itemsize for s in self.array.strides)
        return found if axis is None else found[axis]


def _memory(value: Any) -> tuple[int, int]:
    """First address and end of the memory that a tensor is a part of."""
    while hasattr(value, "base") and not isinstance(value, (Arrays, np.ndarray)):
        value = value.base  # Triton's own wrapper of a tensor seen as another type
    if isinstance(value, Arrays):
        array = value.array
        while isinstance(array.base, np.ndarray):
            array = array.base
        return extent(array)
    if getattr(value, "device", None) is not None and value.device.type != "cpu":
        raise LaunchError(f"a tensor on {value.device}; the simulated GPU takes tensors of the CPU")
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        return int(storage.data_ptr()), int(storage.data_ptr() + storage.nbytes())
    raise LaunchError(f"{type(value).__name__} is no tensor whose memory is known")


class Mapped:
    """The memory of a launch's tensors on the device, each at its own address."""

    def __init__(self, device: Device, tensors: list[Any]) -> None:
        spans: list[list[int]] = []
        for low, high in sorted(_memory(t) for t in tensors if t.data_ptr()):
            if spans and low <= spans[-1][1] and low < high and low < spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], high)
            elif low < high:
                spans.append([low, high])
        self.maps: list[Any] = []
        import ctypes

        for low, high in spans:
            if device.allocation(low) is None:
                data = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
                self.maps.append(device.map(data, address=low))

    def close(self) -> None:
        """Take it from the device again."""
        for mapping in self.maps:
            mapping.unmap()


class Launcher:
    """What Triton calls to launch a kernel that it compiled."""

    def __init__(self, src: Any, metadata: Any) -> None:
        from triton.backends.driver import expand_signature, wrap_handle_tensordesc_impl
        from triton.backends.nvidia.driver import make_tensordesc_arg
        from triton.runtime import driver as active

        self.driver: Driver = active.active
        self.metadata = metadata
        descriptors = getattr(metadata, "tensordesc_meta", None)
        signature = dict(src.signature.items())
        self.kinds = expand_signature(signature.values(), descriptors, "nvTmaDesc")
        self._launch = wrap_handle_tensordesc_impl(self._run, signature, descriptors, make_tensordesc_arg)

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: Any,
        function: Any,
        packed: Any,
        launch_metadata: Any,
        enter: Any,
        leave: Any,
        *args: Any,
    ) -> None:
        """Launch."""
        if x * y * z > 0:
            if enter is not None:
                enter(launch_metadata)
            self._launch((x, y, z), function, list(_described(args)), args)
            if leave is not None:
                leave(launch_metadata)

    def _run(self, grid: tuple[int, int, int], kernel: Any, tensors: list[Any], args: Any) -> None:
        metadata, device = self.metadata, self.driver.device
        values = list(_flat(self.kinds, args, tensors))
        for size, align in (
            (metadata.global_scratch_size, metadata.global_scratch_align),
            (metadata.profile_scratch_size, metadata.profile_scratch_align),
        ):
            values.append(("*i8", self._scratch(grid, size, align, tensors)))
        block = bytearray(max([p.offset + p.size for p in kernel.params], default=0))
        for param, (kind, value) in zip(kernel.params, values, strict=True):
            data = _bytes(kind, value, param.size)
            block[param.offset : param.offset + len(data)] = data
        with device.lock:
            mapped = Mapped(device, tensors)
            try:
                ctas = metadata.num_ctas
                kernel(
                    (grid[0] * ctas, grid[1], grid[2]),
                    (32 * metadata.num_warps, 1, 1),
                    bytes(block),
                    shared_mem=metadata.shared,
                    cluster=(ctas, 1, 1) if ctas > 1 else None,
                    cooperative=bool(metadata.launch_cooperative_grid),
                    device=device,
                    **self.driver.options,
                )
            finally:
                mapped.close()

    def _scratch(self, grid: tuple[int, int, int], size: int, align: int, tensors: list[Any]) -> Any:
        """Memory that the compiler asked for, from the program's own allocator where it has set one."""
        if not size:
            return None
        from triton.runtime import _allocation

        total = grid[0] * grid[1] * grid[2] * self.metadata.num_ctas * size
        found = _allocation._allocator.get()
        if isinstance(found, _allocation.NullAllocator):
            tensor: Any = Arrays(_aligned(total, align))
        else:
            tensor = found(total, align, 0)
        tensors.append(tensor)
        return tensor


def _aligned(nbytes: int, align: int) -> Array:
    data = np.zeros(nbytes + align, np.uint8)
    start = -data.ctypes.data % align
    return data[start : start + nbytes]


def _described(args: Any) -> Any:
    """The tensors behind descriptors: their maps alone reach the kernel."""
    for value in args:
        if isinstance(value, (tuple, list)):
            yield from _described(value)
        elif hasattr(value, "block_shape") and hasattr(value, "base"):
            yield value.base


def _flat(kinds: Any, values: Any, tensors: list[Any]) -> Any:
    """Pairs of a type and a value for the kernel's parameters: tuples flat, constants left out."""
    for kind, value in zip(kinds, values, strict=True):
        if isinstance(kind, tuple):
            yield from _flat(kind, value, tensors)
        elif kind != "constexpr":
            if hasattr(value, "data_ptr"):
                tensors.append(value)
            yield kind, value


def _bytes(kind: str, value: Any, size: int) -> bytes:
    """A value as the kernel's parameter."""
    if isinstance(value, bytes):
        return value
    if hasattr(value, "data_ptr"):
        value = value.data_ptr()
    if kind in _FLOATS:
        return bytes(np.asarray(value, _FLOATS[kind]).tobytes()).ljust(size, b"\0")
    number = 0 if value is None else int(value)
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


class Utilities:
    """What Triton asks a driver for, besides launching."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """Load the PTX: module, kernel, registers, spills, threads of a block."""
        module = load_text(binary.decode(), f"{name}.ptx")
        return module, module[name], 32, 0, 1024

    def unload_module(self, module: Any) -> None:
        """Its variables are no longer in memory."""
        module.unload(self.device)

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Numbers of the GPU."""
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
        """The 128 bytes of a tensor map, as Triton's driver fills it in."""
        return TensorMap(
            address,
            data_type=layout.DATA_TYPES[data_type],
            global_dim=[int(n) for n in reversed(shape)],
            global_strides=[int(s) * element for s in reversed(strides[:-1])],
            box_dim=[int(n) for n in reversed(block)],
            swizzle=layout.SWIZZLES[swizzle],
            l2_promotion="L2_128B",
            oob_fill="nan" if padding == 1 else "zero",
        ).encode(address)

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
        """The same for convolutions; ``block`` is pixels and channels."""
        return TensorMap.im2col(
            address,
            data_type=layout.DATA_TYPES[data_type],
            global_dim=[int(n) for n in reversed(shape)],
            global_strides=[int(s) * element for s in reversed(strides[:-1])],
            pixel_box_lower_corner=[int(n) for n in reversed(lower)],
            pixel_box_upper_corner=[int(n) for n in reversed(upper)],
            channels_per_pixel=int(block[1]),
            pixels_per_column=int(block[0]),
            element_strides=[int(n) for n in reversed(steps)],
            swizzle=layout.SWIZZLES[swizzle],
            l2_promotion="L2_128B",
            oob_fill="nan" if padding == 1 else "zero",
        ).encode(address)

    def cuOccupancyMaxActiveClusters(self, kernel: Any, shared: int, cluster: int) -> int:
        """Clusters on the whole GPU."""
        return properties.model(self.device.sm).sms // cluster

    def set_printf_fifo_size(self, nbytes: int) -> None:
        """Text is never lost."""

    def is_stream_capturing(self, stream: int) -> bool:
        """Nothing is captured."""
        return False


class Driver:
    """Triton's driver interface."""

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
        """Whether the environment asks for it."""
        return os.environ.get("TRITON_DEFAULT_BACKEND") == BACKEND

    def get_current_target(self) -> Any:
        """The GPU as Triton's compiler names it."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.device.sm, 32)

    def get_active_torch_device(self) -> Any:
        """Tensors are the CPU's."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """What PyTorch has for the CPU."""
        import torch

        return torch.cpu

    def get_current_device(self) -> int:
        """The only one."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_current_stream(self, device: int = 0) -> int:
        """The default stream."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """Major and minor."""
        return divmod(self.device.sm, 10)

    def get_benchmarker(self) -> Any:
        """Times mean nothing here: autotuning takes the first configuration, and runs none."""
        return self._time

    def _time(self, call: Any, *, quantiles: Any = None, **options: Any) -> Any:
        self._timed += 1
        return [float(self._timed)] * len(quantiles) if quantiles else float(self._timed)

    def get_empty_cache_for_benchmark(self) -> Any:
        """A buffer that a benchmark would flush the caches with."""
        import torch

        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, cache: Any) -> None:
        """There are no caches."""

    def map_python_to_cpp_type(self, kind: str) -> str:
        """The type of an argument in C."""
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(kind))

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Memory for a profiler inside of kernels."""
        return Arrays(_aligned(size, alignment))


@functools.cache
def _stop_at_ptx() -> None:
    """Let Triton's compiler end with PTX, under keys of its cache that are not a GPU's, and take NumPy arrays."""
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
