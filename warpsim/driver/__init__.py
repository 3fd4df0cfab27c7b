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
