"""libcuda: modules, libraries, functions, the linker, occupancy."""

from __future__ import annotations

import ctypes

from warpsim.driver import images, occupancy
from warpsim.driver.abi.calls import call, unsupported
from warpsim.driver.abi.process import PROCESS, Context, c_string
from warpsim.driver.modules import REGISTERS, DriverModule, Function, Library, LibraryKernel, Linker
from warpsim.driver.raw import bytes_at, put32, put64
from warpsim.driver.results import DriverError, Result


def load(image: bytes) -> int:
    """The handle of a module for the current context."""
    module = PROCESS.driver.load(image, PROCESS.ordinal())
    module.owner = PROCESS.context()
    return PROCESS.handles.put(module, module.owner)


def read(path: str) -> bytes:
    """A file."""
    try:
        with open(path, "rb") as stream:
            return stream.read(images.LARGEST)
    except OSError:
        raise DriverError(Result.FILE_NOT_FOUND, path) from None


@call("!OO", "cuModuleLoadData", "cuModuleLoadFatBinary")
@call("!OOUPP", "cuModuleLoadDataEx")
def module_load_data(out: int, image: int, *options: int) -> None:
    """A module from memory."""
    put64(out, load(images.image_at(image)))


@call("!OT", "cuModuleLoad")
def module_load(out: int, path: str) -> None:
    """A module from a file."""
    put64(out, load(read(path)))


@call("m", "cuModuleUnload")
def module_unload(module: DriverModule) -> None:
    """The end of a module."""
    if module.library is not None:
        raise DriverError(Result.NOT_PERMITTED, "the module belongs to a library")
    PROCESS.handles.end(module)
    module.unload()


@call("O", "cuModuleGetLoadingMode")
def loading_mode(out: int) -> None:
    """Eager: a module's text is read when it is loaded."""
    put32(out, 1)


@call("OmT", "cuModuleGetFunction")
def module_function(out: int, module: DriverModule, name: str) -> None:
    """Look up a kernel by name."""
    put64(out, handle_of(module.function(name)))


def handle_of(function: Function) -> int:
    """The handle of a function, which ends with its module."""
    return PROCESS.handles.put(function, function.module)


@call("Om", "cuModuleGetFunctionCount")
def module_count(out: int, module: DriverModule) -> None:
    """How many kernels a module has."""
    put32(out, len(module.functions()))


@call("OUm", "cuModuleEnumerateFunctions")
def module_functions(out: int, count: int, module: DriverModule) -> None:
    """The kernels of a module."""
    for index, name in enumerate(module.functions()[:count]):
        put64(out + 8 * index, handle_of(module.function(name)))


@call("PPmT", "cuModuleGetGlobal_v2", "cuModuleGetGlobal")
def module_global(out: int, size: int, module: DriverModule, name: str) -> None:
    """A variable by name."""
    address, nbytes = module.variable(name)
    put64(out, address)
    put64(size, nbytes)


# ---- libraries -----------------------------------------------------------------------------------


def put_library(image: bytes) -> int:
    """The handle of a library."""
    library = Library(PROCESS.driver, image)
    handle = PROCESS.handles.put(library)
    module_of(library).functions()
    return handle


def module_of(library: Library, context: Context | None = None) -> DriverModule:
    """The module of a library in a context, by default in the current one or the first device's primary one."""
    owner = context or PROCESS.owner()
    module = library.module(owner, owner.ordinal)
    PROCESS.handles.put(module, owner)
    return module


def function_of_kernel(kernel: LibraryKernel, context: Context | None = None) -> Function:
    """The function that a kernel is in a context."""
    function = module_of(kernel.library, context).function(kernel.name)
    if function.origin is None:
        function.origin = kernel
        for number, value in kernel.attributes.items():
            set_attribute(function, number, value)
    return function


def function_in(found: Function | LibraryKernel, context: Context | None = None) -> Function:
    """What is launched in a context."""
    return found if isinstance(found, Function) else function_of_kernel(found, context)


@call("OOPPUPPU", "cuLibraryLoadData", "cudaLibraryLoadData")
def library_load_data(out: int, image: int, *options: int) -> None:
    """A library from memory."""
    put64(out, put_library(images.image_at(image)))


@call("OTPPUPPU", "cuLibraryLoadFromFile", "cudaLibraryLoadFromFile")
def library_load(out: int, path: str, *options: int) -> None:
    """A library from a file."""
    put64(out, put_library(read(path)))


@call("l", "cuLibraryUnload", "cudaLibraryUnload")
def library_unload(library: Library) -> None:
    """The end of a library, of its kernels, and of its modules in all contexts."""
    PROCESS.handles.end(library)
    for module in library.modules.values():
        PROCESS.handles.end(module)
        module.unload()


@call("OlT", "cuLibraryGetKernel", "cudaLibraryGetKernel")
def library_kernel(out: int, library: Library, name: str) -> None:
    """Look up a kernel by name."""
    module_of(library).function(name)
    put64(out, _kernel(library, name))


def _kernel(library: Library, name: str) -> int:
    kernel = library.kernels.setdefault(name, LibraryKernel(library, name))
    return PROCESS.handles.put(kernel, library)


@call("Ol", "cuLibraryGetKernelCount", "cudaLibraryGetKernelCount")
def library_count(out: int, library: Library) -> None:
    """How many kernels a library has."""
    put32(out, len(module_of(library).functions()))


@call("OUl", "cuLibraryEnumerateKernels", "cudaLibraryEnumerateKernels")
def library_kernels(out: int, count: int, library: Library) -> None:
    """The kernels of a library."""
    for index, name in enumerate(module_of(library).functions()[:count]):
        put64(out + 8 * index, _kernel(library, name))


@call("!Ol", "cuLibraryGetModule")
def library_module(out: int, library: Library) -> None:
    """The module of a library in the current context."""
    put64(out, PROCESS.handles.put(module_of(library)))


@call("!PPlT", "cuLibraryGetGlobal", "cuLibraryGetManaged", "cudaLibraryGetGlobal", "cudaLibraryGetManaged")
def library_global(out: int, size: int, library: Library, name: str) -> None:
    """A variable of a library, in the current context."""
    module_global(out, size, module_of(library), name)


@call("!Ok", "cuKernelGetFunction")
def kernel_function(out: int, kernel: LibraryKernel) -> None:
    """The function that a kernel is in the current context."""
    put64(out, handle_of(function_of_kernel(kernel)))


@call("Ok", "cuKernelGetLibrary")
def kernel_library(out: int, kernel: LibraryKernel) -> None:
    """The library of a kernel."""
    put64(out, PROCESS.handles.put(kernel.library))


@call("Of", "cuFuncGetModule")
def function_module(out: int, function: Function) -> None:
    """The module of a function."""
    put64(out, PROCESS.handles.put(function.module))


@call("Of", "cuFuncGetName")
@call("Ok", "cuKernelGetName")
def function_name(out: int, named: Function | LibraryKernel) -> None:
    """The name of a function or kernel."""
    put64(out, c_string(named.name))


@call("Of", "cuFuncIsLoaded")
def is_loaded(out: int, function: Function) -> None:
    """It is."""
    put32(out, 1)


@call("f", "cuFuncLoad")
@call("fU", "cuFuncSetCacheConfig", "cuFuncSetSharedMemConfig")
@call("PU", "cudaFuncSetCacheConfig", "cudaFuncSetSharedMemConfig")
@call("kUD", "cuKernelSetCacheConfig")
def nothing(*arguments: object) -> None:
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


@call("OIf", "cuFuncGetAttribute")
def function_attribute(out: int, number: int, function: Function) -> None:
    """cuFuncGetAttribute."""
    put32(out, attribute(function, number))


@call("OIkD", "cuKernelGetAttribute")
def kernel_attribute(out: int, number: int, kernel: LibraryKernel, device: int) -> None:
    """cuKernelGetAttribute."""
    put32(out, attribute(function_of_kernel(kernel), number))


@call("fII", "cuFuncSetAttribute")
def function_set(function: Function, number: int, value: int) -> None:
    """cuFuncSetAttribute."""
    set_attribute(function, number, value)


@call("IIkD", "cuKernelSetAttribute")
def kernel_set(number: int, value: int, kernel: LibraryKernel, device: int) -> None:
    """cuKernelSetAttribute: the functions that the kernel is, and will be, have it."""
    module_of(kernel.library)
    for module in kernel.library.modules.values():
        if not module.unloaded:
            set_attribute(module.function(kernel.name), number, value)
    kernel.attributes[number] = value


@call("fPOP", "cuFuncGetParamInfo")
@call("!kPOP", "cuKernelGetParamInfo")
def parameter(found: Function | LibraryKernel, index: int, offset: int, size: int) -> None:
    """Where a parameter lies in the block."""
    put_parameter(function_in(found), index, offset, size)


def put_parameter(function: Function, index: int, offset: int, size: int) -> None:
    """Give offset and size of a parameter."""
    params = function.kernel.params
    if index >= len(params):
        raise DriverError(Result.INVALID_VALUE)
    put64(offset, params[index].offset)
    put64(size, params[index].size)


@call("fO", "cuFuncGetParamCount")
@call("!kO", "cuKernelGetParamCount")
def parameter_count(found: Function | LibraryKernel, out: int) -> None:
    """How many parameters there are."""
    put64(out, len(function_in(found).kernel.params))


# ---- linking -------------------------------------------------------------------------------------


@call("!UPPO", "cuLinkCreate_v2", "cuLinkCreate")
def link_create(count: int, options: int, values: int, out: int) -> None:
    """cuLinkCreate."""
    put64(out, PROCESS.handles.put(Linker(), PROCESS.context()))


@call("jIOPPUPP", "cuLinkAddData_v2", "cuLinkAddData")
def link_data(linker: Linker, kind: int, data: int, nbytes: int, *rest: int) -> None:
    """A module to link."""
    linker.add(bytes_at(data, nbytes), PROCESS.driver.devices[PROCESS.ordinal()].sm)


@call("jITUPP", "cuLinkAddFile_v2", "cuLinkAddFile")
def link_file(linker: Linker, kind: int, path: str, *rest: int) -> None:
    """A module to link, from a file."""
    linker.add_file(path, PROCESS.driver.devices[PROCESS.ordinal()].sm)


@call("jOP", "cuLinkComplete")
def link_complete(linker: Linker, out: int, size: int) -> None:
    """The linked module."""
    data = linker.complete()
    linker.result = ctypes.create_string_buffer(data)
    put64(out, ctypes.addressof(linker.result))
    put64(size, len(data))


@call("j", "cuLinkDestroy")
def link_destroy(linker: Linker) -> None:
    """The end of a linker."""
    PROCESS.handles.end(linker)


# ---- occupancy -----------------------------------------------------------------------------------


@call("!OqIP", "cuOccupancyMaxActiveBlocksPerMultiprocessor")
@call("!OqIPU", "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
@call("!OFIP", "cudaOccupancyMaxActiveBlocksPerMultiprocessor")
@call("!OFIPU", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
def active_blocks(out: int, found: Function | LibraryKernel, threads: int, shared: int, flags: int = 0) -> None:
    """Blocks on a multiprocessor."""
    put32(out, occupancy.blocks_per_sm(function_in(found), threads, shared))


@call("!OOqPPI", "cuOccupancyMaxPotentialBlockSize")
@call("!OOqPPIU", "cuOccupancyMaxPotentialBlockSizeWithFlags")
def best_block(
    grid: int,
    block: int,
    found: Function | LibraryKernel,
    shared_of: int,
    shared: int,
    limit: int,
    flags: int = 0,
) -> None:
    """The block with which most threads are resident."""
    asked = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(shared_of) if shared_of else None

    def wanted(threads: int) -> int:
        return shared if asked is None else int(asked(threads))

    blocks, threads = occupancy.best_block(function_in(found), wanted, limit)
    put32(grid, blocks)
    put32(block, threads)


@call("!OqII", "cuOccupancyAvailableDynamicSMemPerBlock")
@call("!OFII", "cudaOccupancyAvailableDynamicSMemPerBlock")
def free_shared(out: int, found: Function | LibraryKernel, blocks: int, threads: int) -> None:
    """Dynamic shared memory of a block among so many."""
    put64(out, occupancy.free_shared(function_in(found), blocks, threads))


@call("OqO", "cuOccupancyMaxPotentialClusterSize")
@call("!OFO", "cudaOccupancyMaxPotentialClusterSize")
def cluster_size(out: int, found: Function | LibraryKernel, config: int) -> None:
    """The largest cluster."""
    put32(out, occupancy.largest_cluster(function_in(found)))


@call("OmT", "cuModuleGetTexRef", "cuModuleGetSurfRef")
def texture(*arguments: object) -> None:
    """Not simulated."""
    raise unsupported("textures")
