"""Finding functions of the driver by name, and its export tables."""

from __future__ import annotations

import ctypes
from typing import Any

from warpsim.driver.abi.calls import CALLS, call
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.driver import VERSION
from warpsim.driver.raw import bytes_at, library_at, put32, put64
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
"""The CUDA version that introduced a later version of a function; the others came with CUDA 4, or before 11."""
RUNTIME_TABLE = bytes.fromhex("6bd5fb6c5bf4e74a8987d93912fd9df9")
"""The export table that NVIDIA's runtime requires."""
_LIBRARIES: list[Any] = []


def entry(symbol: str, version: int) -> int:
    """The address of the latest version of a function that a CUDA version has; 0 if none."""
    for suffix in ("_v4", "_v3", "_v2", ""):
        name = symbol + suffix
        if name in PROCESS.addresses and name in CALLS["cuda"] and SINCE.get(name, 0) <= version:
            return PROCESS.addresses[name]
    return 0


@call("TOIP", "cuGetProcAddress")
@call("TOIPP", "cuGetProcAddress_v2")
def get_address(symbol: str, out: int, version: int, flags: int, status: int = 0) -> None:
    """Store a function's address."""
    if version > VERSION + 999:
        raise DriverError(Result.INVALID_VALUE, f"CUDA {version}")
    found = entry(symbol, version)
    put64(out, found)
    put32(status, 0 if found else 1)
    if not found and not status:
        raise DriverError(Result.NOT_FOUND, symbol)


@call("TOPP", "cudaGetDriverEntryPoint")
def get_entry_point(symbol: str, out: int, flags: int, status: int) -> None:
    """Store the address of a driver function."""
    get_entry_point_by_version(symbol, out, VERSION, flags, status)


@call("TOUPP", "cudaGetDriverEntryPointByVersion")
def get_entry_point_by_version(symbol: str, out: int, version: int, flags: int, status: int) -> None:
    """Store the address of a driver function; the driver is loaded if it is not yet."""
    if "cuInit" not in PROCESS.addresses:
        _LIBRARIES.append(ctypes.CDLL("libcuda.so.1"))
        _LIBRARIES[-1].cuInit(0)
    get_address(symbol, out, min(version, VERSION), flags, status)


@call("OO", "cuGetExportTable")
@call("OP", "cudaGetExportTable")
def get_export_table(out: int, number: int) -> None:
    """Refuse: export tables have no documentation.

    NVIDIA's runtime asks for one where a program has been stripped of names, so that ours could not take its place. NVRTC
    asks too, and does without.
    """
    put64(out, 0)
    if not number or bytes_at(number, 16) != RUNTIME_TABLE:
        raise DriverError(Result.NOT_SUPPORTED)
    raise DriverError(
        Result.NOT_SUPPORTED,
        f"{library_at(number) or 'the program'} has NVIDIA's run time linked in, and has been stripped of names: NVIDIA's own "
        "libraries (cuBLAS, cuDNN, cuRAND) are machine code, which warpsim cannot run, so leave what they compute to the "
        "CPU; link what is yours with -cudart shared, or do not strip it",
    )
