"""libnvidia-ml: how many GPUs there are, and what they are called, for programs that ask there before they ask CUDA."""

from __future__ import annotations

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_context import uuid
from warpsim.driver.abi.process import PROCESS, c_string
from warpsim.driver.driver import VERSION
from warpsim.driver.properties import name
from warpsim.driver.raw import put32, put64, put_bytes

INVALID_ARGUMENT, INSUFFICIENT_SIZE = 2, 7
TEXTS = {0: "Success", 2: "Invalid Argument", 3: "Not Supported", 6: "Not Found", 7: "Insufficient Size"}


@call("", "nvmlInit", "nvmlInit_v2", "nvmlShutdown")
def begin() -> None:
    """Nothing has to be started or ended."""


@call("U", "nvmlInitWithFlags")
def begin_with(flags: int) -> None:
    """Nothing has to be started."""


@call("I", "nvmlErrorString", plain=True)
def error_string(code: int) -> int:
    """What an error means."""
    return c_string(TEXTS.get(code, "Unknown Error"))


@call("P", "nvmlDeviceGetCount", "nvmlDeviceGetCount_v2")
def count(out: int) -> None:
    """The number of GPUs."""
    put32(out, len(PROCESS.driver.devices))


@call("UP", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2")
def handle(index: int, out: int) -> int:
    """The handle of a GPU; it is not null."""
    if index >= len(PROCESS.driver.devices):
        return INVALID_ARGUMENT
    put64(out, index + 1)
    return 0


@call("PP", "nvmlDeviceGetIndex")
def index(gpu: int, out: int) -> int:
    """The index of a GPU."""
    if not 0 < gpu <= len(PROCESS.driver.devices):
        return INVALID_ARGUMENT
    put32(out, gpu - 1)
    return 0


@call("PPU", "nvmlDeviceGetName")
def device_name(gpu: int, out: int, length: int) -> int:
    """The name of a GPU."""
    if not 0 < gpu <= len(PROCESS.driver.devices):
        return INVALID_ARGUMENT
    return _text(out, length, name(PROCESS.driver.devices[gpu - 1].sm))


@call("PPU", "nvmlDeviceGetUUID")
def device_uuid(gpu: int, out: int, length: int) -> int:
    """The UUID of a GPU, as CUDA gives it, in NVML's spelling."""
    if not 0 < gpu <= len(PROCESS.driver.devices):
        return INVALID_ARGUMENT
    digits = uuid(gpu - 1).hex()
    parts = digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]
    return _text(out, length, "GPU-" + "-".join(parts))


@call("PU", "nvmlSystemGetDriverVersion")
def driver_version(out: int, length: int) -> int:
    """The version of the driver: the first branch of CUDA 13."""
    return _text(out, length, "580.0")


@call("P", "nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")
def cuda_version(out: int) -> None:
    """The version of CUDA."""
    put32(out, VERSION)


def _text(out: int, length: int, text: str) -> int:
    if len(text) >= length:
        return INSUFFICIENT_SIZE
    put_bytes(out, text.encode() + b"\0")
    return 0
