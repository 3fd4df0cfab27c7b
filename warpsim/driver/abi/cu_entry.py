"""libcuda: finding its own functions by name."""

from __future__ import annotations

from warpsim.driver.abi.calls import CALLS, call
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.abi.theirs import library_at
from warpsim.driver.driver import VERSION
from warpsim.driver.raw import bytes_at, put32, put64
from warpsim.driver.results import DriverError, Result

SINCE = {
    "cuCtxCreate_v4": 12050,
    "cuCtxCreate_v3": 11040,
    "cuMemPrefetchAsync_v2": 12020,
    "cuMemAdvise_v2": 12020,
    "cuGraphKernelNodeSetParams_v2": 12000,
    "cuGraphExecKernelNodeSetParams_v2": 12000,
    "cuGraphAddKernelNode_v2": 12000,
    "cuGraphKernelNodeGetParams_v2": 12000,
    "cuGraphExecUpdate_v2": 12000,
    "cuGraphAddNode_v2": 12030,
    "cuGraphRemoveDependencies_v2": 12030,
    "cuStreamGetCaptureInfo_v2": 11030,
    "cuGraphGetEdges_v2": 12030,
    "cuGraphNodeGetDependencies_v2": 12030,
    "cuGraphNodeGetDependentNodes_v2": 12030,
    "cuGraphAddDependencies_v2": 12030,
    "cuStreamGetCaptureInfo_v3": 12030,
    "cuStreamUpdateCaptureDependencies_v2": 12030,
    "cuEventElapsedTime_v2": 12080,
    "cuCtxGetDevice_v2": 13000,
    "cuCtxSynchronize_v2": 13000,
    "cuStreamGetCtx_v2": 12050,
    "cuLaunchHostFunc_v2": 13010,
    "cuGetProcAddress_v2": 12000,
}
"""The version of CUDA that a later version of a function came with; the others came with CUDA 4 or before 11."""


def entry(symbol: str, version: int) -> int:
    """The address of the latest form of a function that a version of CUDA has; 0 where there is none."""
    for suffix in ("_v4", "_v3", "_v2", ""):
        name = symbol + suffix
        if name in PROCESS.addresses and name in CALLS["cuda"] and SINCE.get(name, 0) <= version:
            return PROCESS.addresses[name]
    return 0


@call("TOIP", "cuGetProcAddress")
@call("TOIPP", "cuGetProcAddress_v2")
def proc_address(symbol: str, out: int, version: int, flags: int, status: int = 0) -> None:
    """cuGetProcAddress."""
    if version > VERSION + 999:
        raise DriverError(Result.INVALID_VALUE, f"CUDA {version}")
    found = entry(symbol, version)
    put64(out, found)
    put32(status, 0 if found else 1)
    if not found and not status:
        raise DriverError(Result.NOT_FOUND, symbol)


RUNTIME_TABLE = bytes.fromhex("6bd5fb6c5bf4e74a8987d93912fd9df9")
"""The table that NVIDIA's run time cannot do without."""


@call("OO", "cuGetExportTable")
def export_table(out: int, number: int) -> None:
    """Tables without documentation: NVIDIA's run time asks for them, where its names have been stripped from a program
    so that ours does not take its place; NVRTC asks, too, and does without."""
    put64(out, 0)
    asked = bytes_at(number, 16)
    if asked != RUNTIME_TABLE:
        raise DriverError(Result.NOT_SUPPORTED)
    raise DriverError(
        Result.NOT_SUPPORTED,
        f"{library_at(number) or 'the program'} has NVIDIA's run time linked in, and has been stripped of names: NVIDIA's own "
        "libraries (cuBLAS, cuDNN, cuRAND) are machine code, which warpsim cannot run, so leave what they compute to the "
        "CPU; link what is yours with -cudart shared, or do not strip it",
    )


@call("IPP", "cuCoredumpGetAttribute", "cuCoredumpSetAttribute", "cuCoredumpGetAttributeGlobal")
def unknown(*words: int) -> None:
    """Not simulated."""
    raise DriverError(Result.NOT_SUPPORTED)
