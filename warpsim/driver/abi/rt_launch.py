"""libcudart: what nvcc registers, kernels, launches, graphs' nodes of them."""

from __future__ import annotations

import struct

import attrs

from warpsim.driver import images, occupancy
from warpsim.driver.abi.calls import PROCESS, Context, c_string, call, get32, get64, put32, put64, put_bytes, text_at
from warpsim.driver.abi.cu_module import attribute, set_attribute
from warpsim.driver.abi.cu_work import packed, submit, with_attributes
from warpsim.driver.abi.rt_device import current
from warpsim.driver.abi.rt_errors import INVALID_CONFIGURATION, INVALID_FUNCTION, INVALID_SYMBOL, RuntimeRefusal
from warpsim.driver.abi.theirs import library_at
from warpsim.driver.modules import DriverModule, Function
from warpsim.driver.raw import bytes_at
from warpsim.driver.results import DriverError
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
    for thing in list(PROCESS.handles.values()):
        if isinstance(thing, Registered) and context.primary and context.ordinal in thing.modules:
            thing.modules.pop(context.ordinal).unload()


PROCESS.endings.append(end)
_FUNCTIONS: dict[int, tuple[Registered, str]] = {}
_SYMBOLS: dict[int, tuple[Registered, str]] = {}


@call("P", "__cudaRegisterFatBinary", plain=True)
def register_fatbin(address: int) -> int:
    """A fatbin."""
    return PROCESS.put(Registered(address))


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


def symbol(address: int) -> tuple[int, int]:
    """Address and size of a variable of the program."""
    found = _SYMBOLS.get(address)
    if found is None:
        raise RuntimeRefusal(INVALID_SYMBOL)
    return found[0].module().variable(found[1])


def function_of(address: int) -> Function:
    """The kernel of a stub's address, or of a handle."""
    found = _FUNCTIONS.get(address)
    if found is not None:
        fatbin, name = found
        try:
            return fatbin.module().function(name)
        except images.MachineCode as problem:
            raise DriverError(problem.result, _without_ptx(name, library_at(fatbin.address)) or str(problem)) from None
    handle = PROCESS.handles.get(address)
    if isinstance(handle, Function):
        return handle
    raise RuntimeRefusal(INVALID_FUNCTION)


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


@call("PP", "cudaGetFuncBySymbol", "cudaGetKernel")
def kernel_handle(out: int, address: int) -> None:
    """A kernel's handle."""
    put64(out, PROCESS.put(function_of(address)))


@call("PP", "cudaFuncGetName")
def kernel_name(out: int, address: int) -> None:
    """A kernel's name in PTX."""
    put64(out, c_string(function_of(address).name))


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


def start(work: Launch, stream: int) -> None:
    """Launch, with the run time's own code for dimensions that no kernel may have."""
    x, y, z = work.block
    if min(*work.grid, *work.block) < 1 or max(x, y) > 1024 or z > 64 or x * y * z > 1024:
        raise RuntimeRefusal(INVALID_CONFIGURATION, f"a grid of {work.grid} and blocks of {work.block}")
    submit(work, stream)


def _launch(
    address: int,
    grid_xy: int,
    grid_z: int,
    block_xy: int,
    block_z: int,
    params: int,
    shared: int,
    stream: int,
    *,
    cooperative: bool,
) -> None:
    function = function_of(address)
    grid = grid_xy & 0xFFFFFFFF, grid_xy >> 32, grid_z
    block = block_xy & 0xFFFFFFFF, block_xy >> 32, block_z
    start(Launch(function, grid, block, packed(function, params, 0), shared, None, cooperative), stream)


@call("PPUPUPPP", "cudaLaunchKernel", "__cudaLaunchKernel")
def launch(*words: int) -> None:
    """A launch."""
    _launch(*words, cooperative=False)


@call("PPUPUPPP", "cudaLaunchCooperativeKernel")
def launch_cooperative(*words: int) -> None:
    """A launch whose blocks are all resident."""
    _launch(*words, cooperative=True)


@call("PPP", "cudaLaunchKernelExC")
def launch_ex(config: int, address: int, params: int) -> None:
    """A launch with attributes."""
    work = configured(config, address, params)
    start(work, get64(config + 32))


def configured(config: int, address: int, params: int) -> Launch:
    """A cudaLaunchConfig_t."""
    gx, gy, gz, bx, by, bz, shared = struct.unpack("<6IQ", bytes_at(config, 32))
    function = function_of(address)
    block = packed(function, params, 0) if params else bytes(function.parameter_bytes)
    work = Launch(function, (gx, gy, gz), (bx, by, bz), block, shared)
    return with_attributes(work, get64(config + 40), get32(config + 48))


# ---- functions -----------------------------------------------------------------------------------


@call("PP", "cudaFuncGetAttributes")
def attributes(out: int, address: int) -> None:
    """cudaFuncAttributes."""
    function = function_of(address)
    sizes = [attribute(function, n) for n in (1, 2, 3)]
    numbers = [attribute(function, n) for n in (0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14)]
    put_bytes(out, struct.pack("<3Q13i", *sizes, *numbers))


@call("PII", "cudaFuncSetAttribute")
def function_set(address: int, number: int, value: int) -> None:
    """An attribute; its number is the driver's."""
    set_attribute(function_of(address), number, value)


@call("PPIP", "cudaOccupancyMaxActiveBlocksPerMultiprocessor")
@call("PPIPU", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
def active_blocks(out: int, address: int, threads: int, shared: int, flags: int = 0) -> None:
    """Blocks on a multiprocessor."""
    put32(out, occupancy.blocks_per_sm(function_of(address), threads, shared))


@call("PPII", "cudaOccupancyAvailableDynamicSMemPerBlock")
def free_shared(out: int, address: int, blocks: int, threads: int) -> None:
    """Dynamic shared memory of a block among so many."""
    put64(out, occupancy.free_shared(function_of(address), blocks, threads))


@call("PPP", "cudaOccupancyMaxPotentialClusterSize")
def cluster_size(out: int, address: int, config: int) -> None:
    """The largest cluster."""
    put32(out, occupancy.largest_cluster(function_of(address)))


@call("PPP", "cudaOccupancyMaxActiveClusters")
def active_clusters(out: int, address: int, config: int) -> None:
    """Clusters on the whole GPU."""
    work = configured(config, address, 0)
    x, y, z = work.cluster or (1, 1, 1)
    threads = work.block[0] * work.block[1] * work.block[2]
    put32(out, occupancy.resident_blocks(work.function, threads, work.shared) // (x * y * z))
