"""The error codes of driver and runtime, the code of each finding, and the report of findings and refusals."""

from __future__ import annotations

import enum
import json
import os
import sys
import threading
from collections import Counter
from typing import TypeVar

from warpsim.errors import Finding, PtxError, WarpsimError, describe
from warpsim.types import JsonObject


class Result(enum.IntEnum):
    """CUresult, with the names of cuda.h without ``CUDA_ERROR_``."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    NOT_INITIALIZED = 3
    DEINITIALIZED = 4
    PROFILER_DISABLED = 5
    PROFILER_NOT_INITIALIZED = 6
    PROFILER_ALREADY_STARTED = 7
    PROFILER_ALREADY_STOPPED = 8
    STUB_LIBRARY = 34
    CALL_REQUIRES_NEWER_DRIVER = 36
    DEVICE_UNAVAILABLE = 46
    NO_DEVICE = 100
    INVALID_DEVICE = 101
    DEVICE_NOT_LICENSED = 102
    INVALID_IMAGE = 200
    INVALID_CONTEXT = 201
    CONTEXT_ALREADY_CURRENT = 202
    MAP_FAILED = 205
    UNMAP_FAILED = 206
    ARRAY_IS_MAPPED = 207
    ALREADY_MAPPED = 208
    NO_BINARY_FOR_GPU = 209
    ALREADY_ACQUIRED = 210
    NOT_MAPPED = 211
    NOT_MAPPED_AS_ARRAY = 212
    NOT_MAPPED_AS_POINTER = 213
    ECC_UNCORRECTABLE = 214
    UNSUPPORTED_LIMIT = 215
    CONTEXT_ALREADY_IN_USE = 216
    PEER_ACCESS_UNSUPPORTED = 217
    INVALID_PTX = 218
    INVALID_GRAPHICS_CONTEXT = 219
    NVLINK_UNCORRECTABLE = 220
    JIT_COMPILER_NOT_FOUND = 221
    UNSUPPORTED_PTX_VERSION = 222
    JIT_COMPILATION_DISABLED = 223
    UNSUPPORTED_EXEC_AFFINITY = 224
    UNSUPPORTED_DEVSIDE_SYNC = 225
    CONTAINED = 226
    INVALID_SOURCE = 300
    FILE_NOT_FOUND = 301
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302
    SHARED_OBJECT_INIT_FAILED = 303
    OPERATING_SYSTEM = 304
    INVALID_HANDLE = 400
    ILLEGAL_STATE = 401
    LOSSY_QUERY = 402
    NOT_FOUND = 500
    NOT_READY = 600
    ILLEGAL_ADDRESS = 700
    LAUNCH_OUT_OF_RESOURCES = 701
    LAUNCH_TIMEOUT = 702
    LAUNCH_INCOMPATIBLE_TEXTURING = 703
    PEER_ACCESS_ALREADY_ENABLED = 704
    PEER_ACCESS_NOT_ENABLED = 705
    PRIMARY_CONTEXT_ACTIVE = 708
    CONTEXT_IS_DESTROYED = 709
    ASSERT = 710
    TOO_MANY_PEERS = 711
    HOST_MEMORY_ALREADY_REGISTERED = 712
    HOST_MEMORY_NOT_REGISTERED = 713
    HARDWARE_STACK_ERROR = 714
    ILLEGAL_INSTRUCTION = 715
    MISALIGNED_ADDRESS = 716
    INVALID_ADDRESS_SPACE = 717
    INVALID_PC = 718
    LAUNCH_FAILED = 719
    COOPERATIVE_LAUNCH_TOO_LARGE = 720
    TENSOR_MEMORY_LEAK = 721
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    SYSTEM_NOT_READY = 802
    SYSTEM_DRIVER_MISMATCH = 803
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804
    MPS_CONNECTION_FAILED = 805
    MPS_RPC_FAILURE = 806
    MPS_SERVER_NOT_READY = 807
    MPS_MAX_CLIENTS_REACHED = 808
    MPS_MAX_CONNECTIONS_REACHED = 809
    MPS_CLIENT_TERMINATED = 810
    CDP_NOT_SUPPORTED = 811
    CDP_VERSION_MISMATCH = 812
    STREAM_CAPTURE_UNSUPPORTED = 900
    STREAM_CAPTURE_INVALIDATED = 901
    STREAM_CAPTURE_MERGE = 902
    STREAM_CAPTURE_UNMATCHED = 903
    STREAM_CAPTURE_UNJOINED = 904
    STREAM_CAPTURE_ISOLATION = 905
    STREAM_CAPTURE_IMPLICIT = 906
    CAPTURED_EVENT = 907
    STREAM_CAPTURE_WRONG_THREAD = 908
    TIMEOUT = 909
    GRAPH_EXEC_UPDATE_FAILURE = 910
    EXTERNAL_DEVICE = 911
    INVALID_CLUSTER_SIZE = 912
    FUNCTION_NOT_LOADED = 913
    INVALID_RESOURCE_TYPE = 914
    INVALID_RESOURCE_CONFIGURATION = 915
    KEY_ROTATION = 916
    UNKNOWN = 999

    @property
    def driver_name(self) -> str:
        """The name in cuda.h."""
        return "CUDA_SUCCESS" if self is Result.SUCCESS else f"CUDA_ERROR_{self.name}"


_RUNTIME = """
2:MemoryAllocation 3:InitializationError 4:CudartUnloading 9:InvalidConfiguration 12:InvalidPitchValue
13:InvalidSymbol 16:InvalidHostPointer 17:InvalidDevicePointer 18:InvalidTexture 19:InvalidTextureBinding
20:InvalidChannelDescriptor 21:InvalidMemcpyDirection 22:AddressOfConstant 23:TextureFetchFailed 24:TextureNotBound
25:SynchronizationError 26:InvalidFilterSetting 27:InvalidNormSetting 28:MixedDeviceExecution 31:NotYetImplemented
32:MemoryValueTooLarge 35:InsufficientDriver 37:InvalidSurface 43:DuplicateVariableName 44:DuplicateTextureName
45:DuplicateSurfaceName 46:DevicesUnavailable 49:IncompatibleDriverContext 52:MissingConfiguration
53:PriorLaunchFailure 65:LaunchMaxDepthExceeded 66:LaunchFileScopedTex 67:LaunchFileScopedSurf 68:SyncDepthExceeded
69:LaunchPendingCountExceeded 98:InvalidDeviceFunction 103:SoftwareValidityNotEstablished 127:StartupFailure
200:InvalidKernelImage 201:DeviceUninitialized 205:MapBufferObjectFailed 206:UnmapBufferObjectFailed
209:NoKernelImageForDevice 214:ECCUncorrectable 216:DeviceAlreadyInUse 225:UnsupportedDevSideSync
400:InvalidResourceHandle 500:SymbolNotFound 708:SetOnActiveProcess 719:LaunchFailure 10000:ApiFailureBase
"""
"""The runtime's codes that the driver lacks, or has under other names."""
_DRIVER_ONLY = Result.CONTEXT_ALREADY_CURRENT, Result.KEY_ROTATION
NAMES: dict[int, str] = {
    **{code: "cudaError" + code.name.title().replace("_", "") for code in Result if code not in _DRIVER_ONLY},
    **{int(code): f"cudaError{name}" for code, _, name in (entry.partition(":") for entry in _RUNTIME.split())},
    Result.SUCCESS: "cudaSuccess",
}
"""The runtime's names, by number."""
INVALID_CONFIGURATION, INVALID_SYMBOL, INVALID_DIRECTION, INVALID_FUNCTION = 9, 13, 21, 98
TEXTS: dict[int, str] = {
    Result.SUCCESS: "no error",
    Result.INVALID_VALUE: "invalid argument",
    Result.OUT_OF_MEMORY: "out of memory",
    Result.NOT_INITIALIZED: "initialization error",
    Result.INVALID_DEVICE: "invalid device ordinal",
    Result.INVALID_IMAGE: "device kernel image is invalid",
    Result.INVALID_CONTEXT: "invalid device context",
    Result.NO_BINARY_FOR_GPU: "no kernel image is available for execution on the device",
    Result.INVALID_PTX: "a PTX JIT compilation failed",
    Result.FILE_NOT_FOUND: "file not found",
    Result.INVALID_HANDLE: "invalid resource handle",
    Result.NOT_FOUND: "named symbol not found",
    Result.NOT_READY: "device not ready",
    Result.ILLEGAL_ADDRESS: "an illegal memory access was encountered",
    Result.LAUNCH_OUT_OF_RESOURCES: "too many resources requested for launch",
    Result.LAUNCH_TIMEOUT: "the launch timed out and was terminated",
    Result.PEER_ACCESS_ALREADY_ENABLED: "peer access is already enabled",
    Result.PEER_ACCESS_NOT_ENABLED: "peer access has not been enabled",
    Result.ASSERT: "device-side assert triggered",
    Result.ILLEGAL_INSTRUCTION: "an illegal instruction was encountered",
    Result.MISALIGNED_ADDRESS: "misaligned address",
    Result.INVALID_ADDRESS_SPACE: "operation not supported on global/shared address space",
    Result.LAUNCH_FAILED: "unspecified launch failure",
    Result.COOPERATIVE_LAUNCH_TOO_LARGE: "too many blocks in cooperative launch",
    Result.NOT_SUPPORTED: "operation not supported",
    Result.STREAM_CAPTURE_UNSUPPORTED: "operation not permitted when stream is capturing",
    Result.STREAM_CAPTURE_UNJOINED: "unjoined work in a stream that is captured",
    Result.UNKNOWN: "unknown error",
    INVALID_CONFIGURATION: "invalid configuration argument",
    12: "invalid pitch argument",
    INVALID_SYMBOL: "invalid device symbol",
    INVALID_DIRECTION: "invalid copy direction for memcpy",
    INVALID_FUNCTION: "invalid device function",
}
"""The runtime's texts for common codes, including those that the driver lacks."""

_BY_RULE = {
    "out-of-bounds": Result.ILLEGAL_ADDRESS,
    "read-only": Result.ILLEGAL_ADDRESS,
    "misaligned": Result.MISALIGNED_ADDRESS,
    "matrix-address-space": Result.INVALID_ADDRESS_SPACE,
    "matrix-alignment": Result.MISALIGNED_ADDRESS,
    "assert": Result.ASSERT,
    "deadlock": Result.LAUNCH_TIMEOUT,
    "limit": Result.LAUNCH_TIMEOUT,
    "tensor-map": Result.ILLEGAL_INSTRUCTION,
}
"""The code that a GPU reports; all other rules give a launch failure."""


class DriverError(WarpsimError):
    """A call that the driver refuses; ``result`` is its code."""

    def __init__(self, result: Result, message: str = "", findings: tuple[Finding, ...] = ()) -> None:
        self.result = result
        self.said = bool(message)
        super().__init__(message or TEXTS.get(result, result.driver_name), findings)


def require(condition: object, message: str = "", result: Result = Result.INVALID_VALUE) -> None:
    """Refuse a call unless a condition holds."""
    if not condition:
        raise DriverError(result, message)


T = TypeVar("T")


def present(value: T | None, message: str = "", result: Result = Result.INVALID_VALUE) -> T:
    """Give a value; refuse the call if there is none."""
    if value is None:
        raise DriverError(result, message)
    return value


def text_of(result: Result) -> str:
    """The driver's text for a code."""
    return TEXTS.get(result, result.name.lower().replace("_", " "))


def of_finding(finding: Finding) -> Result:
    """The code of a launch ended by a finding. One that reaches for a CTA outside of its cluster has codes of its own (asked on an H200)."""
    if "cluster" in finding.values:
        return Result.ILLEGAL_INSTRUCTION if finding.values["cluster"] == (1, 1, 1) else Result.LAUNCH_FAILED
    return _BY_RULE.get(finding.rule, Result.LAUNCH_FAILED)


def of_module(problem: PtxError) -> Result:
    """The code of a module that cannot be loaded."""
    if any(f.rule == "unreadable" for f in problem.findings):
        return Result.NO_BINARY_FOR_GPU
    return Result.INVALID_PTX


class RuntimeRefusal(Exception):
    """A call that the runtime refuses with a code of its own."""

    def __init__(self, code: int, message: str = "") -> None:
        self.code = code
        super().__init__(message or TEXTS.get(code, ""))


NO_KERNEL = "CUDA_ERROR_NO_BINARY_FOR_GPU"
SHOWN = 20
"""Findings printed in full to standard error; the rest are only in the report."""


class Report:
    """The findings of one process. The file is appended one JSON document per line."""

    def __init__(self, path: str | None = None, *, quiet: bool = False) -> None:
        self.path, self.quiet = path, quiet
        self.launches = self.shown = 0
        self._known: set[tuple[object, ...]] = set()
        self._lock = threading.Lock()

    def finding(self, finding: Finding, result: str) -> None:
        """Report a finding, once per place."""
        key = finding.rule, finding.file, finding.line, finding.kernel, finding.message
        with self._lock:
            if key in self._known:
                return
            self._known.add(key)
            self.shown += 1
        text = describe(finding)
        if self.shown <= SHOWN:
            self._say(f"warpsim: {finding.severity} in kernel {finding.kernel}, launch {self.launches}\n{text}")
        self._append(
            {
                "rule": finding.rule,
                "severity": finding.severity,
                "result": result,
                "kernel": finding.kernel,
                "launch": self.launches,
                "file": finding.file,
                "line": finding.line,
                "source": finding.source,
                "inlined_at": finding.inlined_at,
                "cta": finding.cta,
                "warp": finding.warp,
                "lanes": list(finding.lanes),
                "message": finding.message,
                "text": text,
            }
        )

    def problem(self, what: str, message: str, result: str) -> None:
        """Report why a call was refused.

        A missing kernel is an error even if the program continues without it, as some do, with wrong values.
        """
        with self._lock:
            key = what, message
            if key in self._known:
                return
            self._known.add(key)
        self._say(f"warpsim: {what}: {message}")
        severity = "error" if result == NO_KERNEL else "note"
        self._append({"rule": "refused", "severity": severity, "result": result, "function": what, "message": message})

    def not_simulated(self, operators: Counter[str]) -> None:
        """Say which operators of a library were computed by its kernels for CPUs, and how often each."""
        if not operators:
            return
        shown = ", ".join(f"{name} {count}" for name, count in operators.most_common(8))
        rest = f" and {len(operators) - 8} more" if len(operators) > 8 else ""
        total = operators.total()
        self._say(f"warpsim: PyTorch's CPU kernels computed {total} operators, not simulated: {shown}{rest}")
        self._append({"rule": "not-simulated", "severity": "note", "operators": dict(operators.most_common())})

    def finish(self) -> None:
        """Note that the program has ended."""
        self._append({"rule": "end", "severity": "note", "launches": self.launches})

    def _say(self, text: str) -> None:
        if not self.quiet and sys.stderr is not None:
            print(text, file=sys.stderr, flush=True)

    def _append(self, record: JsonObject) -> None:
        if self.path is None:
            return
        line = json.dumps({"process": os.getpid(), **record}, default=str) + "\n"
        try:
            with open(self.path, "a", encoding="utf-8") as stream:
                stream.write(line)
        except OSError as problem:
            self._say(f"warpsim: cannot write the report {self.path}: {problem}")
            self.path = None
