"""libcudart: what nvcc registers, kernels, launches, graphs' nodes of them."""

from __future__ import annotations

import struct
from typing import Any

import attrs

from warpsim.driver import images
from warpsim.driver.abi.calls import call, reader
from warpsim.driver.abi.cu_module import attribute, function_in, put_parameter, set_attribute
from warpsim.driver.abi.cu_work import packed, put_clusters, submit, with_attributes
from warpsim.driver.abi.process import PROCESS, Context, c_string
from warpsim.driver.abi.rt_device import current
from warpsim.driver.abi.rt_errors import INVALID_CONFIGURATION, INVALID_FUNCTION, INVALID_SYMBOL, RuntimeRefusal
from warpsim.driver.abi.theirs import library_at
from warpsim.driver.modules import DriverModule, Function, LibraryKernel
from warpsim.driver.raw import bytes_at, get32, get64, put32, put64, put_bytes, text_at
from warpsim.driver.results import DriverError
from warpsim.driver.streams import Stream
from warpsim.driver.work import Launch


@attrs.define(eq=False)
class Registered:
    """A fatbin of the program: its image is read when something of it is first used."""

    address: int
    modules: dict[int, DriverModule] = attrs.field(factory=dict)
    managed: list[tuple[int, str]] = attrs.field(factory=list)

    def module(self) -> DriverModule:
        """The module on the current device."""
        ordinal = current()
        found = self.modules.get(ordinal)
        if found is None:
            found = DriverModule(PROCESS.driver, images.image_at(self.address), ordinal)
            found.functions()
            self.modules[ordinal] = found
            for where, name in self.managed:
                put64(where, found.variable(name)[0])
        return found


def end(context: Context) -> None:
    """A primary context ends with the program's modules on its device; their variables will begin anew."""
    for fatbin in PROCESS.handles.of_type(Registered):
        if context.primary and context.ordinal in fatbin.modules:
            fatbin.modules.pop(context.ordinal).unload()


PROCESS.endings.append(end)
_FUNCTIONS: dict[int, tuple[Registered, str]] = {}
_SYMBOLS: dict[int, tuple[Registered, str]] = {}


@call("P", "__cudaRegisterFatBinary", plain=True)
def register_fatbin(address: int) -> int:
    """A fatbin."""
    return PROCESS.handles.put(Registered(address))


@call("P", "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary")
def register_end(handle: int) -> None:
    """All of it has been registered, or the program ends."""


@call("P", "__cudaInitModule", plain=True)
def init_module(handle: int) -> int:
    """Managed variables are about to be used."""
    PROCESS.get(handle, Registered).module()
    return 0


@call("PPPPIPPPPP", "__cudaRegisterFunction")
def register_function(handle: int, function: int, _device: int, name: int, *rest: int) -> None:
    """A kernel, by the address of its stub."""
    _FUNCTIONS[function] = PROCESS.get(handle, Registered), text_at(name)


@call("PPPPIPII", "__cudaRegisterVar")
def register_variable(handle: int, variable: int, _device: int, name: int, *rest: int) -> None:
    """A variable, by the address of its shadow."""
    _SYMBOLS[variable] = PROCESS.get(handle, Registered), text_at(name)


@call("PPPPIPII", "__cudaRegisterManagedVar")
def register_managed(handle: int, pointer: int, _device: int, name: int, *rest: int) -> None:
    """A managed variable: the program reads its address from a pointer."""
    fatbin = PROCESS.get(handle, Registered)
    fatbin.managed.append((pointer, text_at(name)))
    _SYMBOLS[pointer] = fatbin, text_at(name)


@call("PPPPPI", "__cudaRegisterTexture", "__cudaRegisterSurface")
def register_texture(*words: int) -> None:
    """Textures are refused where they are used."""


@reader("Y")
def symbol(address: int) -> tuple[int, int]:
    """Address and size of a variable of the program."""
    found = _SYMBOLS.get(address)
    if found is None:
        raise RuntimeRefusal(INVALID_SYMBOL)
    return found[0].module().variable(found[1])


@reader("F")
def function_of(address: int) -> Function:
    """The kernel of a stub's address, or of a handle."""
    found = _FUNCTIONS.get(address)
    if found is not None:
        fatbin, name = found
        try:
            return fatbin.module().function(name)
        except images.MachineCode as problem:
            raise DriverError(problem.result, _without_ptx(name, library_at(fatbin.address)) or str(problem)) from None
    handle = PROCESS.handles.find(address)
    if isinstance(handle, (Function, LibraryKernel)):
        return function_in(handle, PROCESS.context())
    raise RuntimeRefusal(INVALID_FUNCTION)


def stub_of(function: Function) -> int:
    """The address of a kernel's stub, or its handle."""
    for address, (fatbin, name) in _FUNCTIONS.items():
        if name == function.name and function.module in fatbin.modules.values():
            return address
    return PROCESS.handles.of(function)


def _without_ptx(kernel: str, library: str) -> str:
    """What to do where a library has its kernels as machine code alone; nothing is said of the program's own."""
    if not library:
        return ""
    return (
        f"kernel {kernel} of {library} is machine code without PTX, which warpsim cannot run; leave what the library "
        "computes to the CPU (in PyTorch: tensors of the CPU), and launch your own kernels here, or build the library "
        f"with PTX ({images.GENCODE}; PyTorch: TORCH_CUDA_ARCH_LIST=8.0+PTX)"
    )


@call("PP", "__cudaGetKernel")
def stub_handle(out: int, address: int) -> None:
    """What a stub launches from now on, on whichever device: its kernel, which is looked up where it is used."""
    if address not in _FUNCTIONS:
        raise RuntimeRefusal(INVALID_FUNCTION)
    put64(out, address)


@call("!OF", "cudaGetFuncBySymbol", "cudaGetKernel")
def kernel_handle(out: int, function: Function) -> None:
    """A kernel's handle."""
    put64(out, PROCESS.handles.put(function))


@call("!OF", "cudaFuncGetName")
def kernel_name(out: int, function: Function) -> None:
    """A kernel's name in PTX."""
    put64(out, c_string(function.name))


# ---- launches ------------------------------------------------------------------------------------


@call("PUPUPP", "__cudaPushCallConfiguration")
def push(grid_xy: int, grid_z: int, block_xy: int, block_z: int, shared: int, stream: int) -> None:
    """What stands between <<< and >>>."""
    stack = PROCESS.thread.__dict__.setdefault("calls", [])
    stack.append((grid_xy, grid_z, block_xy, block_z, shared, stream))


@call("PPPP", "__cudaPopCallConfiguration")
def pop(grid: int, block: int, shared: int, stream: int) -> None:
    """Hand it to the stub."""
    grid_xy, grid_z, block_xy, block_z, nbytes, queue = PROCESS.thread.calls.pop()
    put64(grid, grid_xy)
    put32(grid + 8, grid_z)
    put64(block, block_xy)
    put32(block + 8, block_z)
    put64(shared, nbytes)
    put64(stream, queue)


def start(work: Launch, stream: Stream) -> None:
    """Launch, with the run time's own code for dimensions that no kernel may have."""
    x, y, z = work.block
    if min(*work.grid, *work.block) < 1 or max(x, y) > 1024 or z > 64 or x * y * z > 1024:
        raise RuntimeRefusal(INVALID_CONFIGURATION, f"a grid of {work.grid} and blocks of {work.block}")
    submit(work, stream)


@call("!FPUPUPPs", "cudaLaunchKernel", "__cudaLaunchKernel")
def launch(
    function: Function,
    grid_xy: int,
    grid_z: int,
    block_xy: int,
    block_z: int,
    params: int,
    shared: int,
    stream: Stream,
    *,
    cooperative: bool = False,
) -> None:
    """A launch."""
    grid = grid_xy & 0xFFFFFFFF, grid_xy >> 32, grid_z
    block = block_xy & 0xFFFFFFFF, block_xy >> 32, block_z
    start(Launch(function, grid, block, packed(function, params, 0), shared, None, cooperative), stream)


@call("!FPUPUPPs", "cudaLaunchCooperativeKernel")
def launch_cooperative(*arguments: Any) -> None:
    """A launch whose blocks are all resident."""
    launch(*arguments, cooperative=True)


@call("!OFP", "cudaLaunchKernelExC")
def launch_ex(config: int, function: Function, params: int) -> None:
    """A launch with attributes."""
    start(configured(config, function, params), PROCESS.stream(get64(config + 32)))


def configured(config: int, function: Function, params: int) -> Launch:
    """A cudaLaunchConfig_t."""
    gx, gy, gz, bx, by, bz, shared = struct.unpack("<6IQ", bytes_at(config, 32))
    block = packed(function, params, 0) if params else bytes(function.parameter_bytes)
    work = Launch(function, (gx, gy, gz), (bx, by, bz), block, shared)
    return with_attributes(work, get64(config + 40), get32(config + 48))


# ---- functions -----------------------------------------------------------------------------------


@call("!OF", "cudaFuncGetAttributes")
def attributes(out: int, function: Function) -> None:
    """cudaFuncAttributes."""
    sizes = [attribute(function, n) for n in (1, 2, 3)]
    numbers = [attribute(function, n) for n in (0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14)]
    put_bytes(out, struct.pack("<3Q13i", *sizes, *numbers))


@call("!FII", "cudaFuncSetAttribute")
@call("!FIII", "cudaKernelSetAttributeForDevice")
def function_set(function: Function, number: int, value: int, device: int = 0) -> None:
    """An attribute; its number is the driver's."""
    set_attribute(function, number, value)


@call("!FPOP", "cudaFuncGetParamInfo")
def parameter(function: Function, index: int, offset: int, size: int) -> None:
    """Where a parameter lies in the block."""
    put_parameter(function, index, offset, size)


@call("!FO", "cudaFuncGetParamCount")
def parameter_count(function: Function, out: int) -> None:
    """How many parameters there are."""
    put64(out, len(function.kernel.params))


@call("!OFO", "cudaOccupancyMaxActiveClusters")
def active_clusters(out: int, function: Function, config: int) -> None:
    """Clusters on the whole GPU."""
    put_clusters(out, configured(config, function, 0))
