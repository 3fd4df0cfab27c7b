"""Triton: ``@triton.jit`` kernels on the simulated GPU, with CPU tensors or NumPy arrays.

    import warpsim.compat.triton

    warpsim.compat.triton.install("sm_90a")

Alternatively, set ``TRITON_DEFAULT_BACKEND=warpsim`` in the environment, without changing code (``WARPSIM_DEVICE``
names the GPU). Triton's own compiler runs, and stops at PTX. During a launch, an argument's memory is mapped at its own
address, so views, strides and offsets keep their meaning.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from warpsim.driver import properties
from warpsim.driver.results import of_finding, text_of
from warpsim.errors import ExecutionError, LaunchError
from warpsim.host.arrays import Mapping, extent
from warpsim.host.device import Device
from warpsim.host.kernel import Kernel, Module, load_text
from warpsim.host.tensor_map import TensorMap
from warpsim.layout import tensor_map as layout
from warpsim.numerics.arrays import Array
from warpsim.types import JsonObject

__all__ = ["Driver", "install"]

# ---- launching -------------------------------------------------------------------------------------


class Tensor(Protocol):
    """What Triton takes for a tensor."""

    def data_ptr(self) -> int: ...


class Arrays:
    """Makes a NumPy array usable where Triton expects a tensor."""

    def __init__(self, array: Array) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        """The array's address."""
        return int(self.array.ctypes.data)

    def stride(self, axis: int | None = None) -> int | tuple[int, ...]:
        """Strides in elements."""
        found = tuple(s // self.array.itemsize for s in self.array.strides)
        return found if axis is None else found[axis]


def aligned(nbytes: int, align: int) -> Array:
    """New memory at a multiple of ``align``."""
    data = np.zeros(nbytes + align, np.uint8)
    start = -data.ctypes.data % align
    return data[start : start + nbytes]


def _memory(value: Any) -> tuple[int, int]:
    """First address and end of the memory that contains a tensor."""
    while hasattr(value, "base") and not isinstance(value, (Arrays, np.ndarray)):
        value = value.base  # Triton's wrapper of a tensor viewed as another type
    if isinstance(value, Arrays):
        array = value.array
        while isinstance(array.base, np.ndarray):
            array = array.base
        return extent(array)
    if getattr(value, "device", None) is not None and value.device.type != "cpu":
        raise LaunchError(f"the tensor is on {value.device}; the simulated GPU takes CPU tensors")
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        return int(storage.data_ptr()), int(storage.data_ptr() + storage.nbytes())
    raise LaunchError(f"{type(value).__name__} is not a tensor or array with known memory")


def _shown(name: str, tensor: Tensor) -> str:
    """A tensor in findings: the argument's name, its shape and its type."""
    shape, kind = getattr(tensor, "shape", None), str(getattr(tensor, "dtype", "")).removeprefix("torch.")
    return name if shape is None else f"{name} {tuple(shape)} of {kind}"


class Mapped:
    """The memory of a launch's tensors on the device, each at its own address.

    ``tensors`` are pairs of an argument's name and a tensor. With ``word``, memory begins and ends at multiples of that
    many bytes, as GPU allocations do.
    """

    def __init__(self, device: Device, tensors: list[tuple[str, Tensor]], word: int = 1) -> None:
        spans: list[tuple[int, int, list[str]]] = []
        found = [(*_memory(tensor), _shown(name, tensor)) for name, tensor in tensors if tensor.data_ptr()]
        for first, end, text in sorted(found):
            low, high = first - first % word, end + -end % word
            if spans and low < high and low < spans[-1][1]:
                start, before, texts = spans[-1]
                spans[-1] = start, max(before, high), texts if text in texts else [*texts, text]
            elif low < high:
                spans.append((low, high, [text]))
        self.maps: list[Mapping] = []
        for low, high, texts in spans:
            if device.allocation(low) is None:
                data = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
                self.maps.append(device.map(data, address=low, name=" and ".join(texts)))

    def close(self) -> None:
        """Remove it from the device."""
        for mapping in self.maps:
            mapping.unmap()


CAS, WORD = ".cas.b32", 4
"""Triton's 16-bit atomics compare-and-swap the 4-byte word that contains the value, even at the end of a tensor."""
_FLOATS: dict[str, type[np.generic]] = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp32": np.float32,
    "f32": np.float32,
    "fp64": np.float64,
}


class KernelError(ExecutionError, RuntimeError):
    """A launch that failed, in the words of Triton's own launcher (programs catch and read them), with the findings."""

    @classmethod
    def of(cls, error: ExecutionError) -> KernelError:
        """The error that Triton raises for a launch that ended with these findings."""
        return cls(f"Triton Error [CUDA]: {text_of(of_finding(error.findings[0]))}\n{error}", error.findings)


class Launcher:
    """Called by Triton to launch a compiled kernel."""

    def __init__(self, src: Any, metadata: Any) -> None:
        from triton.runtime import driver as active

        self.driver: Any = active.active
        self.metadata = metadata
        self.names, self.kinds = list(map(str, src.signature)), list(src.signature.values())

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: object,
        function: Kernel,
        metadata: object,
        launch_metadata: object,
        enter: Callable[[object], object] | None,
        leave: Callable[[object], object] | None,
        *args: object,
    ) -> None:
        """Launch the kernel."""
        if x * y * z > 0:
            if enter is not None:
                enter(launch_metadata)
            self._run((x, y, z), function, args)
            if leave is not None:
                leave(launch_metadata)

    def _run(self, grid: tuple[int, int, int], kernel: Kernel, args: Sequence[object]) -> None:
        metadata, device = self.metadata, self.driver.device
        tensors: list[tuple[str, Tensor]] = []
        descriptors = iter(getattr(metadata, "tensordesc_meta", None) or ())
        values = list(flattened(self.names, self.kinds, args, descriptors, tensors))
        for size, align in (
            (metadata.global_scratch_size, metadata.global_scratch_align),
            (metadata.profile_scratch_size, metadata.profile_scratch_align),
        ):
            values.append(("*i8", self._scratch(grid, size, align, tensors)))
        block = bytearray(max([p.offset + p.size for p in kernel.params], default=0))
        if len(values) < len(kernel.params):
            raise LaunchError(f"{kernel.name} takes {len(kernel.params)} parameters; Triton passes {len(values)}")
        for param, (kind, value) in zip(kernel.params, values, strict=False):  # PTX of the program's own may take less
            data = packed(kind, value, param.size)
            block[param.offset : param.offset + len(data)] = data
        with device.lock:
            mapped = Mapped(device, tensors, WORD if CAS in kernel.module.source else 1)
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
            except ExecutionError as error:
                raise KernelError.of(error) from None
            finally:
                mapped.close()

    def _scratch(
        self, grid: tuple[int, int, int], size: int, align: int, tensors: list[tuple[str, Tensor]]
    ) -> Tensor | None:
        """Scratch memory requested by the compiler, from the program's own allocator if it has set one."""
        if not size:
            return None
        from triton.runtime import _allocation

        total = grid[0] * grid[1] * grid[2] * self.metadata.num_ctas * size
        found = _allocation._allocator.get()
        if isinstance(found, _allocation.NullAllocator):
            tensor: Tensor = Arrays(aligned(total, align))
        else:
            tensor = found(total, align, 0)
        tensors.append(("scratch memory", tensor))
        return tensor


def flattened(
    names: Sequence[str],
    kinds: Sequence[Any],
    values: Sequence[Any],
    descriptors: Iterator[object],
    tensors: list[tuple[str, Tensor]],
) -> Iterator[tuple[str, object]]:
    """Pairs of type and value for the kernel's parameters, with tuples and descriptors flattened, constants removed.

    ``descriptors`` has what the compiler says of each descriptor that becomes a tensor map; ``tensors`` gets the
    tensors that the kernel reaches, with the arguments' names.
    """
    for name, kind, value in zip(names, kinds, values, strict=True):
        if isinstance(kind, tuple):
            items = [f"{name}[{i}]" for i in range(len(kind))]
            yield from flattened(items, kind, value, descriptors, tensors)
        elif kind.startswith("tensordesc"):
            tensors.append((name, value.base))
            yield from (("", part) for part in described(value, next(descriptors, None)))
        elif kind != "constexpr":
            if hasattr(value, "data_ptr"):
                tensors.append((name, value))
            yield kind, value


def described(descriptor: object, found: object) -> list[object]:
    """Parameters of a descriptor: a tensor map or an address, then its shape and strides."""
    from triton.backends.nvidia.driver import make_tensordesc_arg

    unused = len(inspect.signature(make_tensordesc_arg).parameters) - 2  # none before Triton 3.8
    return list(make_tensordesc_arg(descriptor, found, *[None] * unused))


def packed(kind: str, value: Any, size: int) -> bytes:
    """Pack a value as a kernel parameter."""
    if isinstance(value, bytes):
        return value
    if hasattr(value, "data_ptr"):
        value = value.data_ptr()
    if kind in _FLOATS:
        return bytes(np.asarray(value, _FLOATS[kind]).tobytes()).ljust(size, b"\0")
    number = 0 if value is None else int(value)
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


# ---- the driver ------------------------------------------------------------------------------------


class Event:
    """The time of this machine when it was recorded: launches are done when they return."""

    def __init__(self, *words: object, **options: object) -> None:
        self._at = 0.0

    def record(self, stream: object = None) -> None:
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

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Module, Kernel, int, int, int]:
        """Load the PTX; returns module, kernel, registers, spills and threads per block."""
        module = load_text(binary.decode(), f"{name}.ptx")
        return module, module[name], 32, 0, 1024

    def unload_module(self, module: Module) -> None:
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
        block: Sequence[int],
        shape: Sequence[int],
        strides: Sequence[int],
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
        block: Sequence[int],
        shape: Sequence[int],
        strides: Sequence[int],
        padding: int,
        lower: Sequence[int],
        upper: Sequence[int],
        steps: Sequence[int],
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

    def cuOccupancyMaxActiveClusters(self, kernel: object, shared: int, *cluster: int) -> int:
        """Clusters on the whole GPU; ``cluster`` is one number of CTAs, or three before Triton 3.6."""
        return properties.model(self.device.sm).sms // math.prod(cluster)

    def set_printf_fifo_size(self, nbytes: int) -> None:
        """Do nothing: printed text is never lost."""

    def is_stream_capturing(self, stream: int) -> bool:
        """False: nothing is captured."""
        return False


def _tensor(
    swizzle: int, element: int, data_type: int, shape: Sequence[int], strides: Sequence[int], padding: int
) -> JsonObject:
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

    def __init__(self, device: Device | str | None = None, **options: object) -> None:
        device = device or os.environ.get("WARPSIM_DEVICE") or "sm_90a"
        self.device = Device(device) if isinstance(device, str) else device
        if checks := os.environ.get("WARPSIM_CHECKS"):
            options.setdefault("checks", checks)
        self.options = options
        self.utils = Utilities(self.device)
        self.binary_ext = "ptx"
        self._benchmarker = Benchmarker()
        _stop_at_ptx()

    @classmethod
    def is_active(cls) -> bool:
        """Whether the environment selects this driver."""
        return os.environ.get("TRITON_DEFAULT_BACKEND") == BACKEND

    def get_current_target(self) -> object:
        """The GPU, in the compiler's terms."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.device.sm, 32)

    def get_active_torch_device(self) -> object:
        """The CPU, where tensors live."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Interface:
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

    def get_benchmarker(self) -> Callable[..., float | list[float]]:
        """A benchmarker that runs nothing."""
        return self._benchmarker

    def get_empty_cache_for_benchmark(self) -> object:
        """A buffer that a benchmark would use to flush caches."""
        import torch

        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, cache: object) -> None:
        """Do nothing: there are no caches."""

    def map_python_to_cpp_type(self, kind: str) -> str:
        """The C type of an argument."""
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(kind))

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: object) -> Tensor:
        """Memory for in-kernel profiling."""
        return Arrays(aligned(size, alignment))


@functools.cache
def _stop_at_ptx() -> None:
    """Make Triton's compiler end at PTX, use separate cache keys, and accept NumPy arrays."""
    import triton

    if tuple(map(int, triton.__version__.split(".")[:2])) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise LaunchError(f"Triton {triton.__version__} launches kernels in another way: install {needed} or later")
    from triton.backends.nvidia import compiler
    from triton.runtime import jit

    if compiler.CUDABackend.make_cubin is not _ptx:
        _end_at_ptx(compiler)
    bind = jit.create_function_from_signature

    def with_arrays(*words: object) -> Callable[..., object]:
        binder = bind(*words)

        def bound(*args: object, **kwargs: object) -> object:
            given = [Arrays(a) if isinstance(a, np.ndarray) else a for a in args]
            return binder(*given, **{k: Arrays(a) if isinstance(a, np.ndarray) else a for k, a in kwargs.items()})

        return bound

    jit.create_function_from_signature = with_arrays


def _ptx(self: object, src: str, *unused: object) -> bytes:
    """Take PTX for machine code."""
    return src.encode()


def _end_at_ptx(module: ModuleType) -> None:
    backend = module.CUDABackend
    hashed = backend.hash
    backend.make_cubin = _ptx
    backend.hash = functools.cache(lambda self: f"{hashed(self)}-warpsim")


def prepare(module: ModuleType) -> None:
    """Prepare a module of Triton's backend for NVIDIA's GPUs, in a program under ``warpsim exec``, where its own driver
    launches kernels: compiling ends at PTX, and autotuning takes the first configuration."""
    if hasattr(module, "CUDABackend"):
        _end_at_ptx(module)
    else:
        module.CudaDriver.get_benchmarker = lambda self: Benchmarker()


class Benchmarker:
    """Runs nothing: times are meaningless, so that autotuning takes the first configuration."""

    def __init__(self) -> None:
        self._timed = 0

    def __call__(
        self, call: object, *, quantiles: Sequence[float] | None = None, **options: object
    ) -> float | list[float]:
        self._timed += 1
        return [float(self._timed)] * len(quantiles) if quantiles else float(self._timed)


def install(device: Device | str | None = None, **options: object) -> Driver:
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
