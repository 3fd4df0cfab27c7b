"""libcudart: libraries, which are modules that the program loads itself: libcuda's functions by other names."""

from __future__ import annotations

from warpsim.driver.abi import cu_module
from warpsim.driver.abi.calls import call, put64
from warpsim.driver.abi.rt_launch import function_of


@call("PPPPUPPU", "cudaLibraryLoadData")
def load_data(out: int, image: int, *options: int) -> None:
    """A library from memory."""
    cu_module.module_load_data(out, image)


@call("PPPPUPPU", "cudaLibraryLoadFromFile")
def load_file(out: int, path: int, *options: int) -> None:
    """A library from a file."""
    cu_module.module_load(out, path)


call("P", "cudaLibraryUnload")(cu_module.module_unload)
call("PPP", "cudaLibraryGetKernel")(cu_module.module_function)
call("PP", "cudaLibraryGetKernelCount")(cu_module.module_count)
call("PUP", "cudaLibraryEnumerateKernels")(cu_module.module_functions)
call("PPPP", "cudaLibraryGetGlobal", "cudaLibraryGetManaged")(cu_module.library_global)


@call("PIII", "cudaKernelSetAttributeForDevice")
def kernel_set(address: int, number: int, value: int, device: int) -> None:
    """An attribute; its number is the driver's."""
    cu_module.set_attribute(function_of(address), number, value)


@call("PPPP", "cudaFuncGetParamInfo")
def parameter(address: int, index: int, offset: int, size: int) -> None:
    """Where a parameter lies in the block."""
    cu_module.put_parameter(function_of(address), index, offset, size)


@call("PP", "cudaFuncGetParamCount")
def parameter_count(address: int, out: int) -> None:
    """How many parameters there are."""
    put64(out, len(function_of(address).kernel.params))
