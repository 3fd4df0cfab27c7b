"""libcuda: modules, libraries, functions, the linker, occupancy."""

from __future__ import annotations

import ctypes

from warpsim.driver import modules, properties
from warpsim.driver.abi.calls import call
from warpsim.driver.abi.process import PROCESS, Context, c_string
from warpsim.driver.modules import DEFAULT_SHARED, REGISTERS, DriverModule, Function, Library, LibraryKernel, Linker
from warpsim.driver.raw import bytes_at, get32, get64, put64, put_bytes
from warpsim.driver.results import DriverError, Result, require

Launchable = Function | LibraryKernel


# ---- modules -------------------------------------------------------------------------------------


def load(image: bytes) -> int:
    """Load a module into the current context; returns its handle."""
    module = PROCESS.driver.load(image, PROCESS.ordinal())
    module.owner = PROCESS.context()
    return PROCESS.handles.put(module, module.owner)


def read(path: str) -> bytes:
    """Read a file."""
    try:
        with open(path, "rb") as stream:
            return stream.read(modules.LARGEST)
    except OSError:
        raise DriverError(Result.FILE_NOT_FOUND, path) from None


def log_nothing(count: int, keys: int, values: int) -> None:
    """End each log at once, and give its size as 0 (CUjit_option): what there is to say goes to standard error."""
    for index in range(count):
        key, value = get32(keys + 4 * index), values + 8 * index
        if key in (3, 5):
            put_bytes(get64(value), b"\0")
        elif key in (4, 6):
            put64(value, 0)


@call("!8O", "cuModuleLoadData cuModuleLoadFatBinary")
@call("!8OUPP", "cuModuleLoadDataEx")
def load_data(image: int, count: int = 0, keys: int = 0, values: int = 0) -> int:
    log_nothing(count, keys, values)
    return load(modules.image_at(image))


call("!8T", "cuModuleLoad")(lambda path: load(read(path)))
call("4", "cuModuleGetLoadingMode")(lambda: 1)  # eager


@call("m", "cuModuleUnload")
def unload(module: DriverModule) -> None:
    require(module.library is None, "the module belongs to a library", Result.NOT_PERMITTED)
    PROCESS.handles.end(module)
    module.unload()


def handle_of(function: Function) -> int:
    """The handle of a function. It ends with its module."""
    return PROCESS.handles.put(function, function.module)


call("8mT", "cuModuleGetFunction")(lambda module, name: handle_of(module.function(name)))
call("4m", "cuModuleGetFunctionCount")(lambda module: len(module.functions()))


@call("OUm", "cuModuleEnumerateFunctions")
def enumerate_functions(out: int, count: int, module: DriverModule) -> None:
    for index, name in enumerate(module.functions()[:count]):
        put64(out + 8 * index, handle_of(module.function(name)))


call("yymT", "cuModuleGetGlobal_v2 cuModuleGetGlobal")(lambda module, name: module.variable(name))


# ---- libraries -----------------------------------------------------------------------------------


def put_library(image: bytes) -> int:
    """Create a library; returns its handle."""
    library = Library(PROCESS.driver, image)
    handle = PROCESS.handles.put(library)
    module_of(library).functions()
    return handle


def module_of(library: Library, context: Context | None = None) -> DriverModule:
    """The module of a library in a context, by default the one that owns new memory."""
    owner = context or PROCESS.owner()
    module = library.module(owner, owner.ordinal)
    PROCESS.handles.put(module, owner)
    return module


def function_in(found: Launchable, context: Context | None = None) -> Function:
    """The function that a function or a library's kernel is in a context."""
    if isinstance(found, Function):
        return found
    function = module_of(found.library, context).function(found.name)
    if function.origin is None:
        function.origin = found
        for number, value in found.attributes.items():
            set_attribute(function, number, value)
    return function


call("8OPPUPPU", "cuLibraryLoadData cudaLibraryLoadData")(lambda image, *_: put_library(modules.image_at(image)))
call("8TPPUPPU", "cuLibraryLoadFromFile cudaLibraryLoadFromFile")(lambda path, *_: put_library(read(path)))


@call("l", "cuLibraryUnload cudaLibraryUnload")
def unload_library(library: Library) -> None:
    """Unload a library with its kernels, and its modules in all contexts."""
    PROCESS.handles.end(library)
    for module in library.modules.values():
        PROCESS.handles.end(module)
        module.unload()


@call("8lT", "cuLibraryGetKernel cudaLibraryGetKernel")
def kernel_handle(library: Library, name: str) -> int:
    module_of(library).function(name)
    kernel = library.kernels.setdefault(name, LibraryKernel(library, name))
    return PROCESS.handles.put(kernel, library)


@call("OUl", "cuLibraryEnumerateKernels cudaLibraryEnumerateKernels")
def enumerate_kernels(out: int, count: int, library: Library) -> None:
    for index, name in enumerate(module_of(library).functions()[:count]):
        put64(out + 8 * index, kernel_handle(library, name))


call("!yylT", "cuLibraryGetGlobal cuLibraryGetManaged cudaLibraryGetGlobal cudaLibraryGetManaged")(
    lambda library, name: module_of(library).variable(name)
)


call("4l", "cuLibraryGetKernelCount cudaLibraryGetKernelCount")(lambda lib: len(module_of(lib).functions()))
call("!8l", "cuLibraryGetModule")(lambda library: PROCESS.handles.put(module_of(library)))
call("8k", "cuKernelGetLibrary")(lambda kernel: PROCESS.handles.put(kernel.library))
call("!8k", "cuKernelGetFunction")(lambda kernel: handle_of(function_in(kernel)))


# ---- functions -----------------------------------------------------------------------------------

call("8f", "cuFuncGetModule")(lambda function: PROCESS.handles.put(function.module))
call("8f", "cuFuncGetName")(lambda function: c_string(function.name))
call("8k", "cuKernelGetName")(lambda kernel: c_string(kernel.name))
call("4f", "cuFuncIsLoaded")(lambda function: 1)
call("f8", "cuFuncGetParamCount")(lambda function: len(function.kernel.params))
call("!k8", "cuKernelGetParamCount")(lambda kernel: len(function_in(kernel).kernel.params))


@call("f", "cuFuncLoad")
@call("fU", "cuFuncSetCacheConfig cuFuncSetSharedMemConfig")
@call("PU", "cudaFuncSetCacheConfig cudaFuncSetSharedMemConfig")
@call("kUD", "cuKernelSetCacheConfig")
def nothing(*arguments: object) -> None:
    """Do nothing: these affect performance only."""


@call("4If", "cuFuncGetAttribute")
def attribute(number: int, function: Function) -> int:
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
    require(number in known, f"function attribute {number}")
    return known[number]


call("4IkD", "cuKernelGetAttribute")(lambda number, kernel, device: attribute(number, function_in(kernel)))


@call("fII", "cuFuncSetAttribute")
def set_attribute(function: Function, number: int, value: int) -> None:
    if number == 8:
        most = function.module.device.max_shared - function.static_shared
        require(0 <= value <= most, f"{function.name}: {value} bytes of dynamic shared memory; the GPU has {most}")
        function.max_dynamic = value
        usual = DEFAULT_SHARED - function.static_shared
        by_kernels = most if value > usual else usual  # an H200 then gives all of it
        function.kernel.module.image(function.module.device).dynamic[function.name] = by_kernels
    elif number == 9:
        require(-1 <= value <= 100, f"{value} percent of shared memory")
        function.carveout = value
    elif number in (11, 12, 13):
        extents = list(function.cluster or (1, 1, 1))
        extents[number - 11] = value
        function.cluster = extents[0], extents[1], extents[2]
    elif number == 14:
        function.non_portable_cluster = bool(value)
    elif number not in (10, 15):
        newer = number > 15  # asking is no mistake: Triton does without 17
        raise DriverError(Result.INVALID_VALUE, "" if newer else f"function attribute {number} cannot be set")


@call("IIkD", "cuKernelSetAttribute")
def set_kernel_attribute(number: int, value: int, kernel: LibraryKernel, device: int) -> None:
    """Set an attribute of the functions that a library's kernel is, or will be, in any context."""
    module_of(kernel.library)
    for module in kernel.library.modules.values():
        if not module.unloaded:
            set_attribute(module.function(kernel.name), number, value)
    kernel.attributes[number] = value


@call("fP8y", "cuFuncGetParamInfo")
@call("!kP8y", "cuKernelGetParamInfo")
@call("!FP8y", "cudaFuncGetParamInfo")
def get_parameter(found: Launchable, index: int) -> tuple[int, int]:
    params = function_in(found).kernel.params
    require(index < len(params))
    return params[index].offset, params[index].size


# ---- linking -------------------------------------------------------------------------------------


@call("!UPP8", "cuLinkCreate_v2 cuLinkCreate")
def create_link(count: int, keys: int, values: int) -> int:
    log_nothing(count, keys, values)
    return PROCESS.handles.put(Linker(), PROCESS.context())


call("jIOPPUPP", "cuLinkAddData_v2 cuLinkAddData")(
    lambda linker, kind, data, nbytes, *_: linker.add(bytes_at(data, nbytes), PROCESS.sm())
)


call("jITUPP", "cuLinkAddFile_v2 cuLinkAddFile")(lambda linker, kind, path, *_: linker.add_file(path, PROCESS.sm()))


@call("j8y", "cuLinkComplete")
def complete_link(linker: Linker) -> tuple[int, int]:
    data = linker.complete()
    linker.result = ctypes.create_string_buffer(data)
    return ctypes.addressof(linker.result), len(data)


call("j", "cuLinkDestroy")(lambda linker: PROCESS.handles.end(linker))


# ---- occupancy -----------------------------------------------------------------------------------


@call("!4qIP", "cuOccupancyMaxActiveBlocksPerMultiprocessor")
@call("!4qIPU", "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
@call("!4FIP", "cudaOccupancyMaxActiveBlocksPerMultiprocessor")
@call("!4FIPU", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
def active_blocks(found: Launchable, threads: int, shared: int, flags: int = 0) -> int:
    return properties.blocks_per_sm(function_in(found), threads, shared)


@call("!8qII", "cuOccupancyAvailableDynamicSMemPerBlock")
@call("!8FII", "cudaOccupancyAvailableDynamicSMemPerBlock")
def free_shared(found: Launchable, blocks: int, threads: int) -> int:
    return properties.free_shared(function_in(found), blocks, threads)


@call("4qO", "cuOccupancyMaxPotentialClusterSize")
@call("!4FO", "cudaOccupancyMaxPotentialClusterSize")
def cluster_size(found: Launchable, config: int) -> int:
    return properties.largest_cluster(function_in(found))


@call("!44qPPI", "cuOccupancyMaxPotentialBlockSize")
@call("!44qPPIU", "cuOccupancyMaxPotentialBlockSizeWithFlags")
def best_block(found: Launchable, shared_of: int, shared: int, limit: int, flags: int = 0) -> tuple[int, int]:
    """The grid that fills the GPU, and the block size with the most resident threads."""
    asked = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(shared_of) if shared_of else lambda threads: shared
    return properties.best_block(function_in(found), asked, limit)
