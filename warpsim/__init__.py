"""warpsim: a warp-level functional simulator of NVIDIA PTX."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from warpsim.version import VERSION

if TYPE_CHECKING:
    from warpsim.capture.session import recording
    from warpsim.errors import ExecutionError, Finding, LaunchError, PtxError, WarpsimError
    from warpsim.host.arrays import DeviceArray
    from warpsim.host.device import Device
    from warpsim.host.kernel import Kernel, LaunchResult, Module, load
    from warpsim.host.mma import mma
    from warpsim.host.options import rules
    from warpsim.host.snippet import run
    from warpsim.host.tensor_map import TensorMap
    from warpsim.host.texture import Surface, Texture
    from warpsim.machine.watcher import Watcher
    from warpsim.proving import prove

__version__ = VERSION
__all__ = [
    "Device",
    "DeviceArray",
    "ExecutionError",
    "Finding",
    "Kernel",
    "LaunchError",
    "LaunchResult",
    "Module",
    "PtxError",
    "Surface",
    "TensorMap",
    "Texture",
    "WarpsimError",
    "Watcher",
    "load",
    "mma",
    "prove",
    "recording",
    "rules",
    "run",
]

_HOMES = {
    **dict.fromkeys(("ExecutionError", "Finding", "LaunchError", "PtxError", "WarpsimError"), "warpsim.errors"),
    "Device": "warpsim.host.device",
    "DeviceArray": "warpsim.host.arrays",
    **dict.fromkeys(("Kernel", "LaunchResult"), "warpsim.host.kernel"),
    **dict.fromkeys(("Module", "load"), "warpsim.host.kernel"),
    "TensorMap": "warpsim.host.tensor_map",
    **dict.fromkeys(("Surface", "Texture"), "warpsim.host.texture"),
    "Watcher": "warpsim.machine.watcher",
    "mma": "warpsim.host.mma",
    "prove": "warpsim.proving",
    "recording": "warpsim.capture.session",
    "rules": "warpsim.host.options",
    "run": "warpsim.host.snippet",
}

_ROOMS = ("debug",)
"""Public subpackages, imported on first use."""


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"warpsim.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'warpsim' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS, "__version__"]
