"""The CUDA driver's model: devices, modules, memory by address, launches with packed parameters, streams, events,
graphs.

    from warpsim import driver

    gpu = driver.Driver(["sm_90a"])
    function = gpu.load(open("saxpy.ptx").read()).function("saxpy")
    x = gpu.memory.allocate(4096)
    gpu.launch(function, (4, 1, 1), (256, 1, 1), struct.pack("<if4xQQ", 1024, 2.0, x, x))
    gpu.check()

The driver libraries (``libcuda.so.1``, ``libcudart.so``) and the adapters in `warpsim.compat` are built on it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsim.driver.driver import Driver
    from warpsim.driver.graphs import Graph, GraphExec
    from warpsim.driver.memory import Kind, Memory, Side
    from warpsim.driver.modules import DriverModule, Function, Linker
    from warpsim.driver.results import DriverError, Result
    from warpsim.driver.streams import Event, Stream
    from warpsim.driver.work import Call, Copy, Fill, Launch, Nothing

__all__ = [
    "Call",
    "Copy",
    "Driver",
    "DriverError",
    "DriverModule",
    "Event",
    "Fill",
    "Function",
    "Graph",
    "GraphExec",
    "Kind",
    "Launch",
    "Linker",
    "Memory",
    "Nothing",
    "Result",
    "Side",
    "Stream",
]

_HOMES = {
    "Driver": "driver",
    **dict.fromkeys(("Graph", "GraphExec"), "graphs"),
    **dict.fromkeys(("Kind", "Memory", "Side"), "memory"),
    **dict.fromkeys(("DriverModule", "Function", "Linker"), "modules"),
    **dict.fromkeys(("DriverError", "Result"), "results"),
    **dict.fromkeys(("Event", "Stream"), "streams"),
    **dict.fromkeys(("Call", "Copy", "Fill", "Launch", "Nothing"), "work"),
}


def __getattr__(name: str) -> object:
    """What is asked for, imported on first use: the command line needs only where the library lies."""
    if name not in _HOMES:
        raise AttributeError(f"module 'warpsim.driver' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"warpsim.driver.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__]
