"""The rest of Triton's driver interface: loading, properties, tensor maps."""

from __future__ import annotations

import math
from typing import Any

from warpsim.driver import properties
from warpsim.host.device import Device
from warpsim.host.module import load_text
from warpsim.host.tensor_map import TensorMap
from warpsim.layout import tensor_map as layout


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
