"""libcudart: devices and errors; and libnvidia-ml: the number and names of GPUs, for programs that ask there before they ask
CUDA."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from warpsim.driver import properties
from warpsim.driver.abi.calls import call, device
from warpsim.driver.abi.cu_context import reset_primary, uuid
from warpsim.driver.abi.process import PROCESS, c_string
from warpsim.driver.driver import VERSION
from warpsim.driver.raw import put32, put64, put_bytes
from warpsim.driver.results import NAMES, TEXTS, DriverError, Result, present, text_of

FIELDS = """name:256s uuid:16s luid:8s mask:I total:Q shared:Q#8 regs:i#12 warp:i#10 pitch:Q#11 threads:i#1 dim:3i#2
grid:3i#5 *clock:i#13 const:Q#9 major:i#75 minor:i#76 align:Q#14 tpitch:Q#51 *overlap:i#15 sms:i#16 *timeout:i
integrated:i map:i#19 *mode:i tex1:i tex1m:i *tex1l:i tex2:2i tex2m:2i tex2l:3i tex2g:2i tex3:3i tex3a:3i texc:i
tex1la:2i tex2la:3i texcl:2i surf1:i surf2:2i surf3:3i surf1l:2i surf2l:3i surfc:i surfcl:2i salign:Q#30
concurrent:i#31 ecc:i bus:i#33 device:i domain:i tcc:i engines:i#40 unified:i#41 *memclock:i#36 width:i#37 l2:i#38
persist:i#108 perthreads:i#39 priorities:i#78 g1:i#79 l1:i#80 sharedsm:Q#81 regssm:i#82 managed:i#83 board:i group:i
atomic:i *ratio:i#87 pageable:i concmanaged:i#89 preempt:i#90 hostptr:i#91 coop:i#95 *coopmulti:i optin:Q#97 pgtables:i
direct:i blocks:i#106 window:i#109 reserved:Q#111 register:i#99 sparse:i roregister:i#113 timeline:i pools:i#115 rdma:i
rdmaf:I rdmao:i handles:I deferred:i ipc:i cluster:i#120 unifun:i#129 rest:63i"""
"""The fields of cudaDeviceProp in CUDA 13, in order: a name, a `struct` format, and the number of the attribute that it shows.
Only CUDA 12 has those with a star."""


def properties_of(ordinal: int, *, old: bool) -> bytes:
    """A cudaDeviceProp."""
    sm = PROCESS.driver.devices[ordinal].sm
    known = properties.attributes(sm, ordinal)
    out = bytearray()
    for field in FIELDS.split():
        if field.startswith("*") and not old:
            continue
        name, _, rest = field.lstrip("*").partition(":")
        form, _, number = rest.partition("#")
        size = struct.calcsize("<" + form[-1])
        if form[-1] != "s":
            out.extend(bytes(-len(out) % size))
        count = int(form[:-1] or 1)
        if form[-1] == "s":
            text = {"name": properties.name(sm).encode(), "uuid": uuid(ordinal)}.get(name, b"")
            out.extend(text.ljust(count, b"\0"))
        elif name == "total":
            out.extend(struct.pack("<Q", properties.total_memory()))
        else:
            first = int(number or 0)
            values = [known.get(first + i, 0) if number else 0 for i in range(count)]
            out.extend(struct.pack(f"<{count}{form[-1]}", *values))
    return bytes(out) + bytes(-len(out) % 8)


call("BD", "cudaGetDeviceProperties")(lambda ordinal: properties_of(ordinal, old=False))
call("BD", "cudaGetDeviceProperties_v2")(lambda ordinal: properties_of(ordinal, old=True))
call("4", "cudaGetDevice")(lambda: current())
call("4P", "cudaChooseDevice")(lambda wanted: 0)
call("4", "cudaGetDeviceFlags")(lambda: 8)  # mapped memory is allowed


def current() -> int:
    """This thread's device in the runtime. Its primary context becomes current."""
    PROCESS.activate()
    return PROCESS.ordinal()


@call("D", "cudaSetDevice")
@call("DUU", "cudaInitDevice")
def set_device(ordinal: int, *flags: int) -> None:
    PROCESS.choose(ordinal)


@call("", "nvmlInit nvmlInit_v2 nvmlShutdown")
@call("U", "nvmlInitWithFlags")
@call("PI", "cudaSetValidDevices")
@call("U", "cudaSetDeviceFlags")
@call("", "cudaDeviceSynchronize cudaThreadSynchronize")
def nothing(*words: int) -> None:
    """Do nothing: all work has been done, and the rest affects performance only."""


@call("4T", "cudaDeviceGetByPCIBusId cuDeviceGetByPCIBusId")
def by_bus_id(text: str) -> int:
    match = present(
        re.fullmatch(r"(?:[0-9a-fA-F]+:)?([0-9a-fA-F]+):[0-9a-fA-F]+(?:\.[0-9a-fA-F])?", text), "not a PCI bus id"
    )
    return device(int(match[1], 16) - 1)


@call("", "cudaDeviceReset cudaThreadExit")
def reset() -> None:
    reset_primary(current())
    PROCESS.thread.last = 0


# ---- errors --------------------------------------------------------------------------------------


@call("", "cudaGetLastError", plain=True)
def last_error() -> int:
    """This thread's last error, which is cleared unless it is sticky."""
    found = peek_error()
    PROCESS.thread.last = 0
    return found


@call("", "cudaPeekAtLastError", plain=True)
def peek_error() -> int:
    return int(getattr(PROCESS.thread, "last", 0) or PROCESS.driver.error)


call("I", "cudaGetErrorName", plain=True)(lambda code: c_string(NAMES.get(code, "unrecognized error code")))


@call("I", "cudaGetErrorString", plain=True)
def error_string(code: int) -> int:
    if code in TEXTS:
        return c_string(TEXTS[code])
    try:
        return c_string(text_of(Result(code)))
    except ValueError:
        return c_string("unrecognized error code")


# ---- libnvidia-ml ----------------------------------------------------------------------------------

INVALID_ARGUMENT, NOT_SUPPORTED, INSUFFICIENT_SIZE = 2, 3, 7
_NVML_TEXTS = {0: "Success", 2: "Invalid Argument", 3: "Not Supported", 6: "Not Found", 7: "Insufficient Size"}


call("I", "nvmlErrorString", plain=True)(lambda code: c_string(_NVML_TEXTS.get(code, "Unknown Error")))
call("w", "nvmlDeviceGetCount nvmlDeviceGetCount_v2")(lambda: len(PROCESS.driver.devices))


@call("UP", "nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByIndex_v2")
def get_handle(index: int, out: int) -> int:
    if index >= len(PROCESS.driver.devices):
        return INVALID_ARGUMENT
    put64(out, index + 1)
    return 0


@call("TP", "nvmlDeviceGetHandleByPciBusId nvmlDeviceGetHandleByPciBusId_v2")
def get_handle_by_bus_id(text: str, out: int) -> int:
    try:
        return get_handle(by_bus_id(text), out)
    except DriverError:
        return INVALID_ARGUMENT


@call("POP", "nvmlDeviceGetComputeRunningProcesses nvmlDeviceGetComputeRunningProcesses_v3")
def get_processes(gpu: int, count: int, out: int) -> int:
    """No other process has this GPU."""
    put32(count, 0)
    return 0


call("PUP", "nvmlDeviceGetNvLinkRemoteDeviceType nvmlDeviceGetNvLinkRemotePciInfo nvmlDeviceGetNvLinkRemotePciInfo_v2")(
    lambda gpu, link, out: NOT_SUPPORTED
)


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


_declare_text("nvmlDeviceGetName", lambda ordinal: properties.name(PROCESS.driver.devices[ordinal].sm))
_declare_text("nvmlDeviceGetUUID", _uuid)


call("PU", "nvmlSystemGetDriverVersion")(lambda out, length: _put_text(out, length, "580.0"))
call("w", "nvmlSystemGetCudaDriverVersion nvmlSystemGetCudaDriverVersion_v2")(lambda: VERSION)


def _put_text(out: int, length: int, text: str) -> int:
    if len(text) >= length:
        return INSUFFICIENT_SIZE
    put_bytes(out, text.encode() + b"\0")
    return 0
