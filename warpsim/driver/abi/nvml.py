"""libnvidia-ml: the number and names of GPUs, for programs that ask here before they ask CUDA."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.driver.abi.calls import call
from warpsim.driver.abi.cu_context import uuid
from warpsim.driver.abi.process import PROCESS, c_string
from warpsim.driver.driver import VERSION
from warpsim.driver.properties import name
from warpsim.driver.raw import put32, put64, put_bytes

INVALID_ARGUMENT, INSUFFICIENT_SIZE = 2, 7
TEXTS = {0: "Success", 2: "Invalid Argument", 3: "Not Supported", 6: "Not Found", 7: "Insufficient Size"}


@call("", "nvmlInit nvmlInit_v2 nvmlShutdown")
@call("U", "nvmlInitWithFlags")
def nothing(*flags: int) -> None:
    """Do nothing: there is nothing to start or end."""


call("I", "nvmlErrorString", plain=True)(lambda code: c_string(TEXTS.get(code, "Unknown Error")))
call("P", "nvmlDeviceGetCount nvmlDeviceGetCount_v2")(lambda out: put32(out, len(PROCESS.driver.devices)))


@call("UP", "nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByIndex_v2")
def get_handle(index: int, out: int) -> int:
    if index >= len(PROCESS.driver.devices):
        return INVALID_ARGUMENT
    put64(out, index + 1)
    return 0


@call("PP", "nvmlDeviceGetIndex")
def get_index(gpu: int, out: int) -> int:
    if not 0 < gpu <= len(PROCESS.driver.devices):
        return INVALID_ARGUMENT
    put32(out, gpu - 1)
    return 0


def _declare_text(function: str, text: Callable[[int], str]) -> None:
    @call("PPU", function)
    def get_text(gpu: int, out: int, length: int) -> int:
        if not 0 < gpu <= len(PROCESS.driver.devices):
            return INVALID_ARGUMENT
        return _put_text(out, length, text(gpu - 1))


def _uuid(ordinal: int) -> str:
    """The UUID that CUDA gives, in NVML's spelling."""
    digits = uuid(ordinal).hex()
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_declare_text("nvmlDeviceGetName", lambda ordinal: name(PROCESS.driver.devices[ordinal].sm))
_declare_text("nvmlDeviceGetUUID", _uuid)


call("PU", "nvmlSystemGetDriverVersion")(lambda out, length: _put_text(out, length, "580.0"))
call("P", "nvmlSystemGetCudaDriverVersion nvmlSystemGetCudaDriverVersion_v2")(lambda out: put32(out, VERSION))


def _put_text(out: int, length: int, text: str) -> int:
    if len(text) >= length:
        return INSUFFICIENT_SIZE
    put_bytes(out, text.encode() + b"\0")
    return 0
