"""Launches kernels compiled by Triton: packs their arguments and maps their tensors."""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from warpsim.driver.results import of_finding, text_of
from warpsim.errors import ExecutionError, LaunchError
from warpsim.host.arrays import Array, extent
from warpsim.host.device import Device


class Arrays:
    """Makes a NumPy array usable where Triton expects a tensor."""

    def __init__(self, array: Array) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        """The array's address."""
        return int(self.array.ctypes.data)

    def stride(self, axis: int | None = None) -> Any:
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


def _shown(name: str, tensor: Any) -> str:
    """A tensor in findings: the argument's name, its shape and its type."""
    shape, kind = getattr(tensor, "shape", None), str(getattr(tensor, "dtype", "")).removeprefix("torch.")
    return name if shape is None else f"{name} {tuple(shape)} of {kind}"


class Mapped:
    """The memory of a launch's tensors on the device, each at its own address.

    ``tensors`` are pairs of an argument's name and a tensor. With ``word``, memory begins and ends at multiples of that
    many bytes, as GPU allocations do.
    """

    def __init__(self, device: Device, tensors: list[tuple[str, Any]], word: int = 1) -> None:
        spans: list[tuple[int, int, list[str]]] = []
        found = [(*_memory(tensor), _shown(name, tensor)) for name, tensor in tensors if tensor.data_ptr()]
        for first, end, text in sorted(found):
            low, high = first - first % word, end + -end % word
            if spans and low < high and low < spans[-1][1]:
                start, before, texts = spans[-1]
                spans[-1] = start, max(before, high), texts if text in texts else [*texts, text]
            elif low < high:
                spans.append((low, high, [text]))
        self.maps: list[Any] = []
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
_FLOATS: dict[str, Any] = {
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
        stream: Any,
        function: Any,
        metadata: Any,
        launch_metadata: Any,
        enter: Any,
        leave: Any,
        *args: Any,
    ) -> None:
        """Launch the kernel."""
        if x * y * z > 0:
            if enter is not None:
                enter(launch_metadata)
            self._run((x, y, z), function, args)
            if leave is not None:
                leave(launch_metadata)

    def _run(self, grid: tuple[int, int, int], kernel: Any, args: Any) -> None:
        metadata, device = self.metadata, self.driver.device
        tensors: list[tuple[str, Any]] = []
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

    def _scratch(self, grid: tuple[int, int, int], size: int, align: int, tensors: list[tuple[str, Any]]) -> Any:
        """Scratch memory requested by the compiler, from the program's own allocator if it has set one."""
        if not size:
            return None
        from triton.runtime import _allocation

        total = grid[0] * grid[1] * grid[2] * self.metadata.num_ctas * size
        found = _allocation._allocator.get()
        if isinstance(found, _allocation.NullAllocator):
            tensor: Any = Arrays(aligned(total, align))
        else:
            tensor = found(total, align, 0)
        tensors.append(("scratch memory", tensor))
        return tensor


def flattened(names: Any, kinds: Any, values: Any, descriptors: Iterator[Any], tensors: list[tuple[str, Any]]) -> Any:
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


def described(descriptor: Any, found: Any) -> list[Any]:
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
