"""libcudart: what nvcc registers, kernels, launches."""

from __future__ import annotations

import struct
from typing import Any

import attrs

from warpsim.driver import modules
from warpsim.driver.abi.calls import call, reader
from warpsim.driver.abi.cu_graph import put_kernel
from warpsim.driver.abi.cu_module import attribute, function_in, set_attribute
from warpsim.driver.abi.cu_work import packed, resident_clusters, submit, with_attributes
from warpsim.driver.abi.graph_nodes import READERS, add_any, change_any, checked_copy, declare, launch_work, work_of
from warpsim.driver.abi.process import PROCESS, Context, c_string
from warpsim.driver.abi.rt_memory import PARAMETERS, box_work, part
from warpsim.driver.driver import is_possible
from warpsim.driver.graphs import Graph, Node
from warpsim.driver.memory import Side
from warpsim.driver.modules import DriverModule, Function, LibraryKernel
from warpsim.driver.raw import bytes_at, file_at, get32, get64, library_at, put32, put64, put_bytes
from warpsim.driver.results import INVALID_CONFIGURATION, INVALID_FUNCTION, INVALID_SYMBOL, DriverError, RuntimeRefusal
from warpsim.driver.streams import Stream
from warpsim.driver.work import Copy, Launch
from warpsim.records import define

# ---- registration --------------------------------------------------------------------------------


@define(eq=False)
class Registered:
    """A fatbin of the program. Its image is read when something in it is first used."""

    address: int
    modules: dict[int, DriverModule] = attrs.field(factory=dict)
    managed: list[tuple[int, str]] = attrs.field(factory=list)

    def module(self) -> DriverModule:
        """The module on the current device."""
        PROCESS.activate()
        ordinal = PROCESS.ordinal()
        found = self.modules.get(ordinal)
        if found is None:
            found = DriverModule(PROCESS.driver, modules.image_at(self.address), ordinal)
            try:
                found.functions()
            except modules.MachineCode:
                text = modules.separately_compiled(file_at(self.address), found.device.sm)
                if not text:
                    raise
                found = DriverModule(PROCESS.driver, text, ordinal)
                found.functions()
            self.modules[ordinal] = found
            for where, name in self.managed:
                put64(where, found.variable(name)[0])
        return found


def end(context: Context) -> None:
    """Unload the program's modules on a device whose primary context ends; their variables will begin anew."""
    for fatbin in PROCESS.handles.of_type(Registered):
        if context.primary and context.ordinal in fatbin.modules:
            fatbin.modules.pop(context.ordinal).unload()


PROCESS.endings.append(end)
_FUNCTIONS: dict[int, tuple[Registered, str]] = {}
_SYMBOLS: dict[int, tuple[Registered, str]] = {}


@reader("R")
def fatbin_of(handle: int) -> Registered:
    """The fatbin of a handle."""
    return PROCESS.get(handle, Registered)


@call("P", "__cudaRegisterFatBinary", plain=True)
def register_fatbin(address: int) -> int:
    """Register a fatbin; returns its handle."""
    return PROCESS.handles.put(Registered(address))


@call("P", "__cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary")
@call("PPPPPI", "__cudaRegisterTexture __cudaRegisterSurface")
def nothing(*words: int) -> None:
    """Do nothing: textures by name are found by the driver."""


@call("P", "__cudaInitModule", plain=True)
def initialize_module(handle: int) -> int:
    fatbin_of(handle).module()
    return 0


@call("RPPTIPPPPP", "__cudaRegisterFunction")
def register_function(fatbin: Registered, stub: int, _device: int, name: str, *rest: int) -> None:
    _FUNCTIONS[stub] = fatbin, name


@call("RPPTIPII", "__cudaRegisterVar")
def register_variable(fatbin: Registered, shadow: int, _device: int, name: str, *rest: int) -> None:
    _SYMBOLS[shadow] = fatbin, name


@call("RPPTIPII", "__cudaRegisterManagedVar")
def register_managed(fatbin: Registered, pointer: int, _device: int, name: str, *rest: int) -> None:
    """Register a managed variable, whose address the program reads from a pointer."""
    fatbin.managed.append((pointer, name))
    _SYMBOLS[pointer] = fatbin, name


@reader("Y")
def symbol(address: int) -> tuple[int, int]:
    """The address and size of a registered variable."""
    found = _SYMBOLS.get(address)
    if found is None:
        raise RuntimeRefusal(INVALID_SYMBOL)
    return found[0].module().variable(found[1])


@reader("F")
def function_of(address: int) -> Function:
    """The function of a stub's address or of a handle."""
    found = _FUNCTIONS.get(address)
    if found is not None:
        fatbin, name = found
        try:
            return fatbin.module().function(name)
        except modules.MachineCode as problem:
            raise DriverError(problem.result, _without_ptx(name, library_at(fatbin.address)) or str(problem)) from None
    handle = PROCESS.handles.find(address)
    if isinstance(handle, (Function, LibraryKernel)):
        return function_in(handle, PROCESS.context())
    raise RuntimeRefusal(INVALID_FUNCTION)


def stub_of(function: Function) -> int:
    """The address of a function's stub, or its handle."""
    for address, (fatbin, name) in _FUNCTIONS.items():
        if name == function.name and function.module in fatbin.modules.values():
            return address
    return PROCESS.handles.of(function)


def _without_ptx(kernel: str, library: str) -> str:
    """Advice for a library whose kernels are machine code only; none for the program's own."""
    if not library:
        return ""
    return (
        f"kernel {kernel} of {library} is machine code without PTX, which warpsim cannot run; leave what the library "
        "computes to the CPU (in PyTorch: tensors of the CPU), and launch your own kernels here, or build the library "
        f"with PTX ({modules.GENCODE}; PyTorch: TORCH_CUDA_ARCH_LIST=8.0+PTX)"
    )


@call("8P", "__cudaGetKernel")
def stub_handle(address: int) -> int:
    """The handle that a stub will launch, on any device: its address."""
    if address not in _FUNCTIONS:
        raise RuntimeRefusal(INVALID_FUNCTION)
    return address


# ---- launches ------------------------------------------------------------------------------------


@call("PUPUPP", "__cudaPushCallConfiguration")
def push_configuration(*configuration: int) -> None:
    """Keep the configuration of a <<< >>> launch: grid and block in three words each, shared memory, stream."""
    PROCESS.thread.__dict__.setdefault("calls", []).append(configuration)


@call("PPPP", "__cudaPopCallConfiguration")
def pop_configuration(grid: int, block: int, shared: int, stream: int) -> None:
    grid_xy, grid_z, block_xy, block_z, nbytes, queue = PROCESS.thread.calls.pop()
    put64(grid, grid_xy)
    put32(grid + 8, grid_z)
    put64(block, block_xy)
    put32(block + 8, block_z)
    put64(shared, nbytes)
    put64(stream, queue)


def start(work: Launch, stream: Stream) -> None:
    """Launch. CUDA 13's runtime refuses extents that no GPU takes as its driver does; those before had a code of their own."""
    if PROCESS.runtime == 12 and not is_possible(work.grid, work.block):
        raise RuntimeRefusal(INVALID_CONFIGURATION, f"a grid of {work.grid} and blocks of {work.block}")
    submit(work, stream)


@call("!FPUPUPPs", "cudaLaunchKernel __cudaLaunchKernel")
def launch(function: Function, *rest: Any, cooperative: bool = False) -> None:
    """Launch a kernel: grid and block in three words each, parameters, shared memory, stream."""
    grid_xy, grid_z, block_xy, block_z, params, shared, stream = rest
    grid = grid_xy & 0xFFFFFFFF, grid_xy >> 32, grid_z
    block = block_xy & 0xFFFFFFFF, block_xy >> 32, block_z
    start(Launch(function, grid, block, packed(function, params, 0), shared, None, cooperative), stream)


call("!FPUPUPPs", "cudaLaunchCooperativeKernel")(lambda *arguments: launch(*arguments, cooperative=True))


@call("!OFP", "cudaLaunchKernelExC")
def launch_ex(config: int, function: Function, params: int) -> None:
    start(configured(config, function, params), PROCESS.stream(get64(config + 32)))


def configured(config: int, function: Function, params: int) -> Launch:
    """A launch from a cudaLaunchConfig_t."""
    gx, gy, gz, bx, by, bz, shared = struct.unpack("<6IQ", bytes_at(config, 32))
    block = packed(function, params, 0) if params else bytes(function.parameter_bytes)
    work = Launch(function, (gx, gy, gz), (bx, by, bz), block, shared)
    return with_attributes(work, get64(config + 40), get32(config + 48))


# ---- functions -----------------------------------------------------------------------------------

call("!8F", "cudaGetFuncBySymbol cudaGetKernel")(lambda function: PROCESS.handles.put(function))
call("!8F", "cudaFuncGetName")(lambda function: c_string(function.name))
call("!F8", "cudaFuncGetParamCount")(lambda function: len(function.kernel.params))


@call("!BF", "cudaFuncGetAttributes")
def attributes(function: Function) -> bytes:
    sizes = [attribute(n, function) for n in (1, 2, 3)]
    numbers = [attribute(n, function) for n in (0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14)]
    return struct.pack("<3Q13i", *sizes, *numbers)


@call("!FII", "cudaFuncSetAttribute")
@call("!FIII", "cudaKernelSetAttributeForDevice")
def set_function_attribute(function: Function, number: int, value: int, device: int = 0) -> None:
    """Set an attribute; the runtime uses the driver's numbers."""
    set_attribute(function, number, value)


@call("!4FO", "cudaOccupancyMaxActiveClusters")
def active_clusters(function: Function, config: int) -> int:
    return resident_clusters(configured(config, function, 0))


def kernel_work(given: int) -> Launch:
    """cudaKernelNodeParams as work."""
    return launch_work(given, function_of(get64(given)))


def copy_work(given: int) -> Copy:
    """cudaMemcpy3DParms as work."""
    return checked_copy(box_work(given))


def linear_copy(target: int, source: int, size: int, kind: int = 0) -> Copy:
    """A copy of bytes."""
    return checked_copy(Copy(Side(target, size), Side(source, size), size))


declare("Kernel", "O", kernel_work, "cuda")
declare("Memcpy", "O", copy_work, "cuda")
declare("Memcpy|1D", "PPPI", linear_copy, "cuda")
declare("Memcpy|ToSymbol", "YPPPI", lambda to, at, n, offset, _: linear_copy(part(to, offset, n), at, n), "cuda")
declare("Memcpy|FromSymbol", "PYPPI", lambda to, of, n, offset, _: linear_copy(to, part(of, offset, n), n), "cuda")
ANY = {**READERS, 0: kernel_work, 1: lambda given: copy_work(given + 16)}
"""The reader of the parameters in cudaGraphNodeParams, by type."""


@call("nO", "cudaGraphKernelNodeGetParams")
def get_kernel(node: Node, out: int) -> None:
    put_kernel(node, out, stub_of(work_of(node, Launch).function))


@call("nO", "cudaGraphMemcpyNodeGetParams")
def get_copy(node: Node, out: int) -> None:
    work: Copy = work_of(node, Copy)
    sides = ((0, 0, 0, 0, side.address, side.pitch, work.width, side.rows) for side in (work.source, work.target))
    put_bytes(out, PARAMETERS.pack(*next(sides), *next(sides), work.width, work.height, work.depth, 4))


@call("!OgPPPO", "cudaGraphAddNode")
def add_node(out: int, graph: Graph, before: int, edges: int, count: int, given: int) -> None:
    add_any(out, graph, before, count, given, ANY, edges)


call("!nO", "cudaGraphNodeSetParams")(lambda node, given: change_any(node, given, ANY))
call("!xnO", "cudaGraphExecNodeSetParams")(lambda graph, node, given: change_any(node, given, ANY, graph))
