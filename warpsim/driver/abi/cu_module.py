"""libcuda: modules, libraries, functions, the linker, occupancy."""

from __future__ import annotations

import ctypes

from warpsim.driver import images, occupancy
from warpsim.driver.abi.calls import PROCESS, call, needs, put32, put64, text_at, unsupported
from warpsim.driver.modules import REGISTERS, DriverModule, Function, Linker
from warpsim.driver.raw import bytes_at
from warpsim.driver.results import DriverError, Result


def load(image: bytes) -> DriverModule:
    """A module for the current device."""
    module = PROCESS.driver.load(image, PROCESS.ordinal())
    module.owner = PROCESS.owner()
    return module


@call("PP", "cuModuleLoadData", "cuModuleLoadFatBinary")
@call("PPUPP", "cuModuleLoadDataEx")
@call("PPPPUPPU", "cuLibraryLoadData")
def module_load_data(out: int, image: int, *options: int) -> None:
    """A module from memory."""
    needs(out, image)
    put64(out, PROCESS.put(load(images.image_at(image))))


@call("PP", "cuModuleLoad")
@call("PPPPUPPU", "cuLibraryLoadFromFile")
def module_load(out: int, path: int, *options: int) -> None:
    """A module from a file."""
    try:
        with open(text_at(path), "rb") as stream:
            data = stream.read(images.LARGEST)
    except OSError:
        raise DriverError(Result.FILE_NOT_FOUND, text_at(path)) from None
    put64(out, PROCESS.put(load(data)))


@call("P", "cuModuleUnload", "cuLibraryUnload")
def module_unload(handle: int) -> None:
    """The end of a module."""
    PROCESS.drop(handle, DriverModule).unload()


@call("P", "cuModuleGetLoadingMode")
def loading_mode(out: int) -> None:
    """Eager: a module's text is read when it is loaded."""
    put32(out, 1)


@call("PPP", "cuModuleGetFunction", "cuLibraryGetKernel")
def module_function(out: int, module: int, name: int) -> None:
    """Look up a kernel by name."""
    needs(out, name)
    put64(out, PROCESS.put(PROCESS.get(module, DriverModule).function(text_at(name))))


@call("PP", "cuModuleGetFunctionCount", "cuLibraryGetKernelCount")
def module_count(out: int, module: int) -> None:
    """How many kernels a module has."""
    put32(out, len(PROCESS.get(module, DriverModule).functions()))


@call("PUP", "cuModuleEnumerateFunctions", "cuLibraryEnumerateKernels")
def module_functions(out: int, count: int, handle: int) -> None:
    """The kernels of a module."""
    module = PROCESS.get(handle, DriverModule)
    for index, name in enumerate(module.functions()[:count]):
        put64(out + 8 * index, PROCESS.put(module.function(name)))


@call("PPPP", "cuModuleGetGlobal_v2", "cuModuleGetGlobal")
def module_global(out: int, size: int, module: int, name: int) -> None:
    """A variable by name."""
    address, nbytes = PROCESS.get(module, DriverModule).variable(text_at(name))
    put64(out, address)
    put64(size, nbytes)


@call("PPPP", "cuLibraryGetGlobal", "cuLibraryGetManaged")
def library_global(out: int, size: int, module: int, name: int) -> None:
    """A variable of a library."""
    module_global(out, size, module, name)


@call("PP", "cuLibraryGetModule", "cuKernelGetFunction")
def same(out: int, handle: int) -> None:
    """Libraries are modules here, and their kernels functions."""
    PROCESS.get(handle, object)
    put64(out, handle)


@call("PP", "cuKernelGetLibrary", "cuFuncGetModule")
def owner(out: int, handle: int) -> None:
    """The module of a function."""
    put64(out, PROCESS.put(PROCESS.get(handle, Function).module))


@call("PP", "cuFuncGetName", "cuKernelGetName")
def function_name(out: int, handle: int) -> None:
    """A function's name."""
    from warpsim.driver.abi.calls import c_string

    put64(out, c_string(PROCESS.get(handle, Function).name))


@call("PP", "cuFuncIsLoaded")
def is_loaded(out: int, handle: int) -> None:
    """It is."""
    put32(out, 1)


@call("P", "cuFuncLoad")
@call("PU", "cuFuncSetCacheConfig", "cuFuncSetSharedMemConfig", "cudaFuncSetCacheConfig", "cudaFuncSetSharedMemConfig")
@call("PUI", "cuKernelSetCacheConfig")
def nothing(*words: int) -> None:
    """Performance only."""


# ---- attributes ----------------------------------------------------------------------------------


def attribute(function: Function, number: int) -> int:
    """A CUfunction_attribute."""
    x, y, z = function.required_cluster
    target = function.kernel.module.target
    known = {
        0: function.max_threads,
        1: function.static_shared,
        2: function.const_bytes,
        3: function.local_bytes,
        4: REGISTERS,
        5: int("".join(c for c in target if c.isdigit()) or 0),
        6: function.module.device.sm,
        7: 0,
        8: function.max_dynamic,
        9: function.carveout,
        10: int(x > 0),
        11: x,
        12: y,
        13: z,
        14: int(function.non_portable_cluster),
        15: 0,
    }
    if number not in known:
        raise DriverError(Result.INVALID_VALUE, f"function attribute {number}")
    return known[number]


def set_attribute(function: Function, number: int, value: int) -> None:
    """Set a CUfunction_attribute."""
    if number == 8:
        most = function.module.device.max_shared - function.static_shared
        if not 0 <= value <= most:
            raise DriverError(
                Result.INVALID_VALUE, f"{function.name}: {value} bytes of dynamic shared memory; the GPU has {most}"
            )
        function.max_dynamic = value
    elif number == 9:
        function.carveout = value
    elif number in (11, 12, 13):
        extents = list(function.cluster or (1, 1, 1))
        extents[number - 11] = value
        function.cluster = extents[0], extents[1], extents[2]
    elif number == 14:
        function.non_portable_cluster = bool(value)
    elif number not in (10, 15):
        raise DriverError(Result.INVALID_VALUE, f"function attribute {number} cannot be set")


@call("PIP", "cuFuncGetAttribute")
def function_attribute(out: int, number: int, handle: int) -> None:
    """cuFuncGetAttribute."""
    put32(out, attribute(PROCESS.get(handle, Function), number))


@call("PIPI", "cuKernelGetAttribute")
def kernel_attribute(out: int, number: int, handle: int, device: int) -> None:
    """cuKernelGetAttribute."""
    put32(out, attribute(PROCESS.get(handle, Function), number))


@call("PII", "cuFuncSetAttribute")
def function_set(handle: int, number: int, value: int) -> None:
    """cuFuncSetAttribute."""
    set_attribute(PROCESS.get(handle, Function), number, value)


@call("IIPI", "cuKernelSetAttribute")
def kernel_set(number: int, value: int, handle: int, device: int) -> None:
    """cuKernelSetAttribute."""
    set_attribute(PROCESS.get(handle, Function), number, value)


@call("PPPP", "cuFuncGetParamInfo", "cuKernelGetParamInfo")
def parameter(handle: int, index: int, offset: int, size: int) -> None:
    """Where a parameter lies in the block."""
    put_parameter(PROCESS.get(handle, Function), index, offset, size)


def put_parameter(function: Function, index: int, offset: int, size: int) -> None:
    """Give offset and size of a parameter."""
    params = function.kernel.params
    if index >= len(params):
        raise DriverError(Result.INVALID_VALUE)
    for where, value in ((offset, params[index].offset), (size, params[index].size)):
        if where:  # either may be left out
            put64(where, value)


@call("PP", "cuFuncGetParamCount", "cuKernelGetParamCount")
def parameter_count(handle: int, out: int) -> None:
    """How many parameters there are."""
    put64(out, len(PROCESS.get(handle, Function).kernel.params))


# ---- linking -------------------------------------------------------------------------------------


@call("UPPP", "cuLinkCreate_v2", "cuLinkCreate")
def link_create(count: int, options: int, values: int, out: int) -> None:
    """cuLinkCreate."""
    needs(out)
    put64(out, PROCESS.put(Linker()))


@call("PIPPPUPP", "cuLinkAddData_v2", "cuLinkAddData")
def link_data(handle: int, kind: int, data: int, nbytes: int, name: int, count: int, options: int, values: int) -> None:
    """A module to link."""
    PROCESS.get(handle, Linker).add(bytes_at(data, nbytes), PROCESS.driver.devices[PROCESS.ordinal()].sm)


@call("PIPUPP", "cuLinkAddFile_v2", "cuLinkAddFile")
def link_file(handle: int, kind: int, path: int, count: int, options: int, values: int) -> None:
    """A module to link, from a file."""
    PROCESS.get(handle, Linker).add_file(text_at(path), PROCESS.driver.devices[PROCESS.ordinal()].sm)


@call("PPP", "cuLinkComplete")
def link_complete(handle: int, out: int, size: int) -> None:
    """The linked module."""
    linker = PROCESS.get(handle, Linker)
    data = linker.complete()
    linker.result = ctypes.create_string_buffer(data)
    put64(out, ctypes.addressof(linker.result))
    put64(size, len(data))


@call("P", "cuLinkDestroy")
def link_destroy(handle: int) -> None:
    """The end of a linker."""
    PROCESS.drop(handle, Linker)


# ---- occupancy -----------------------------------------------------------------------------------


@call("PPIP", "cuOccupancyMaxActiveBlocksPerMultiprocessor")
@call("PPIPU", "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
def active_blocks(out: int, handle: int, threads: int, shared: int, flags: int = 0) -> None:
    """Blocks on a multiprocessor."""
    put32(out, occupancy.blocks_per_sm(PROCESS.get(handle, Function), threads, shared))


@call("PPPPPI", "cuOccupancyMaxPotentialBlockSize")
@call("PPPPPIU", "cuOccupancyMaxPotentialBlockSizeWithFlags")
def best_block(grid: int, block: int, handle: int, shared_of: int, shared: int, limit: int, flags: int = 0) -> None:
    """The block with which most threads are resident."""
    asked = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(shared_of) if shared_of else None

    def wanted(threads: int) -> int:
        return shared if asked is None else int(asked(threads))

    blocks, threads = occupancy.best_block(PROCESS.get(handle, Function), wanted, limit)
    put32(grid, blocks)
    put32(block, threads)


@call("PPII", "cuOccupancyAvailableDynamicSMemPerBlock")
def free_shared(out: int, handle: int, blocks: int, threads: int) -> None:
    """Dynamic shared memory of a block among so many."""
    put64(out, occupancy.free_shared(PROCESS.get(handle, Function), blocks, threads))


@call("PPP", "cuOccupancyMaxPotentialClusterSize")
def cluster_size(out: int, handle: int, config: int) -> None:
    """The largest cluster."""
    put32(out, occupancy.largest_cluster(PROCESS.get(handle, Function)))


@call("PPP", "cuOccupancyMaxActiveClusters")
def active_clusters(out: int, handle: int, config: int) -> None:
    """Clusters on the whole GPU."""
    from warpsim.driver.abi.cu_work import configured

    work = configured(PROCESS.get(handle, Function), config, b"")
    x, y, z = work.cluster or (1, 1, 1)
    threads = work.block[0] * work.block[1] * work.block[2]
    put32(out, occupancy.resident_blocks(work.function, threads, work.shared) // (x * y * z))


@call("PPP", "cuModuleGetTexRef", "cuModuleGetSurfRef")
def texture(*words: int) -> None:
    """Not simulated."""
    raise unsupported("textures")
