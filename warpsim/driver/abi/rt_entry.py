"""libcudart: the driver's functions by name."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_entry import entry
from warpsim.driver.abi.process import PROCESS
from warpsim.driver.driver import VERSION
from warpsim.driver.raw import put32, put64
from warpsim.driver.results import DriverError, Result

_LIBRARIES: list[Any] = []


@call("TOPP", "cudaGetDriverEntryPoint")
def entry_point(symbol: str, out: int, flags: int, status: int) -> None:
    """A function of the driver."""
    entry_point_by_version(symbol, out, VERSION, flags, status)


@call("TOUPP", "cudaGetDriverEntryPointByVersion")
def entry_point_by_version(symbol: str, out: int, version: int, flags: int, status: int) -> None:
    """A function of the driver, as a version of CUDA has it."""
    if "cuInit" not in PROCESS.addresses:
        driver = ctypes.CDLL("libcuda.so.1")
        _LIBRARIES.append(driver)
        driver.cuInit(0)
    found = entry(symbol, version)
    put64(out, found)
    put32(status, 0 if found else 1)
    if not found and not status:
        raise DriverError(Result.NOT_FOUND, symbol)


@call("OP", "cudaGetExportTable")
def export_table(out: int, number: int) -> None:
    """Tables without documentation."""
    put64(out, 0)
    raise DriverError(Result.NOT_SUPPORTED, f"export tables ({os.getpid()})")
