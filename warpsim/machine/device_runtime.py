"""The functions of the device runtime (libcudadevrt), by which kernels launch kernels: CUDA's dynamic parallelism, version 2.

What an H200 answers is in tests/machine/device_launches_h200.txt (tools/recordings/device_launches.cu). A launch is checked when it
is made, and its code is the thread's last error; the grid itself runs later (`warpsim.machine.children`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from warpsim.machine.heap import HEADER, NAME, SIZE, free_one, malloc_one
from warpsim.machine.machine import Machine
from warpsim.machine.memory.stack import LIMIT as MAX_LOCAL
from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.launched import Launched, Moved, Ordered
from warpsim.machine.values import Array
from warpsim.program.names import device_function
from warpsim.program.program import Function

MAX_GRID, MAX_BLOCK, MAX_THREADS = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024
MAX_SHARED = 48 << 10
"""Static and dynamic shared memory of a grid that a kernel launches."""
NO_STREAM, LEGACY, PER_THREAD, TAIL, FIRE_AND_FORGET = 0, 1, 2, 3, 4
NAMED = (NO_STREAM, LEGACY, PER_THREAD, TAIL, FIRE_AND_FORGET)
VALUE, MEMORY, CONFIGURATION, DIRECTION, PENDING_COUNT, UNSUPPORTED, CLUSTER = 1, 2, 9, 21, 69, 215, 912
ERRORS = {
    0: ("cudaSuccess", "no error"),
    VALUE: ("cudaErrorInvalidValue", "invalid argument"),
    MEMORY: ("cudaErrorMemoryAllocation", "out of memory"),
    CONFIGURATION: ("cudaErrorInvalidConfiguration", "invalid configuration argument"),
    DIRECTION: ("cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"),
    65: ("cudaErrorLaunchMaxDepthExceeded", "launch would exceed maximum depth of nested launches"),
    PENDING_COUNT: (
        "cudaErrorLaunchPendingCountExceeded",
        "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount",
    ),
    98: ("cudaErrorInvalidDeviceFunction", "invalid device function"),
    UNSUPPORTED: ("cudaErrorUnsupportedLimit", "limit is not supported on this architecture"),
    400: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    701: ("cudaErrorLaunchOutOfResources", "too many resources requested for launch"),
    719: ("cudaErrorLaunchFailure", "unspecified launch failure"),
    801: ("cudaErrorNotSupported", "operation not supported"),
    CLUSTER: ("cudaErrorInvalidClusterSize", "cluster misconfiguration"),
    999: ("cudaErrorUnknown", "unknown error"),
}
UNKNOWN = ("unrecognized error code", "unrecognized error code")
LIMITS = {0: 1024, 1: 8650752, 2: 8 << 20, 3: None, 4: 2048, 5: 64, 6: 11796480, 7: 232448, 8: 0, 9: None, 10: 132}
"""By cudaLimit: stack, printf, heap, (synchronisation depth), pending launches, L2 fetch, L2 persisting, shared memory ..."""
PENDING_LIMIT = 4
VERSION = 6000
"""What cudaRuntimeGetVersion says in a kernel."""
STREAM, EVENT, TEXT, BUFFER = "device stream", "device event", "device text", "device parameter buffer"
TO_DEVICE = (3, 4)
"""cudaMemcpyKind: device to device, and by the addresses."""
REGISTERS = 32
"""Reported registers per thread, because PTX does not determine them."""


class Caller(NamedTuple):
    """A thread that calls a function of the device runtime."""

    machine: Machine
    group: Group
    position: int
    function: str
    lanes: Array
    """The mask of the thread among its group."""

    @property
    def launched(self) -> Launched:
        """What its grid has asked for."""
        return of(self.machine)

    @property
    def thread(self) -> tuple[int, int]:
        """The number of its CTA in the grid, and its own in the CTA."""
        n_ctas = self.machine.batch.shape.n_ctas
        return int(self.machine.batch.ctas[self.position % n_ctas]), self.position // n_ctas

    def by(self) -> str:
        """Who it is, in words."""
        launch, instruction, (cta, thread) = self.machine.launch, self.group.instruction, self.thread
        (x, y, _), at = launch.block, launch.cta_of(cta)
        place = thread % x, thread // x % y, thread // (x * y)
        return f"{launch.plan.entry.name}, line {instruction.span.line}, CTA {at}, thread {place}"

    def code(self, error: int) -> int:
        """An error becomes the last one of the thread."""
        if error:
            self.launched.errors[self.thread] = error
        return error

    def wrong(self, message: str, advice: str = "") -> int:
        """Report what is undefined, and what a GPU leaves unpunished or faults at."""
        self.machine.fault("out-of-bounds", f"{self.function}: {message}", self.group, self.lanes, advice=advice)
        return self.code(VALUE)

    def store(self, address: int, data: bytes) -> int:
        """Store whole words at a generic address; 0."""
        words, batch = np.frombuffer(data, np.uint32), self.machine.batch
        for window, name, space, column in (
            (LOCAL_WINDOW, "local", batch.local, self.position),
            (SHARED_WINDOW, "shared", batch.shared, self.position % batch.shape.n_ctas),
        ):
            if window <= address <= window + space.size - len(data):
                places = address - window + 4 * np.arange(len(words))
                self.machine.fill(name, places, np.full(len(words), column), words)
                return 0
        found = self.machine.launch.memory.find(address, address + len(data))
        if found is None or found.read_only:
            return self.wrong(f"cannot write {len(data)} bytes at 0x{address:x}")
        for part, value in ((found, data), (found.shadow, b"\xff" * len(data))):
            if part is not None:
                part.own()
                part.data[address - found.start :][: len(data)] = np.frombuffer(value, np.uint8)
        self.machine.launch.memory.version += 1
        return 0

    def handle(self, what: str, data: bytes = bytes(8)) -> int:
        """Make an object of the grid; its address."""
        memory = self.machine.launch.memory
        address, content = memory.allocate(len(data), what, read_only=True)
        content[:] = np.frombuffer(data, np.uint8)
        self.launched.handles[address] = what
        return address

    def has(self, handle: int, what: str) -> bool:
        """Whether its grid has made an object that still exists; reported otherwise."""
        if self.launched.handles.get(handle) == what:
            return True
        self.wrong(f"0x{handle:x} is no {what[7:]} of this grid", "a stream or event is known in the grid that made it")
        return False


def of(machine: Machine) -> Launched:
    """What a grid has asked for."""
    launch = machine.launch
    if launch.launched is None:
        launch.launched = Launched()
    return launch.launched


def device_call(machine: Machine, group: Group, name: str, arguments: Sequence[Array], size: int) -> Array:
    """Call a function of the device runtime for every thread, in the order CTA, warp, lane; its results, of ``size`` bytes."""
    function, selection = FUNCTIONS[device_function(name)], group.selection
    columns = [np.broadcast_to(v, selection.shape) for v in (selection.positions, *arguments)]
    rows = zip(*(selection.in_order(v).tolist() for v in columns), strict=True)
    found = [
        function(Caller(machine, group, position, name, selection.positions == position), *row)
        for position, *row in rows
    ]
    return selection.from_order(np.array(found, f"u{size}"))


# ---- launches -------------------------------------------------------------------------------------


def _buffer(caller: Caller, alignment: int, size: int) -> int:
    return _placed(caller, size, Ordered("", (0, 0, 0), (0, 0, 0), 0))


def _buffer_v2(caller: Caller, kernel: int, *shape: int) -> int:
    ordered = _ordered(caller, kernel, *shape)
    return 0 if ordered is None else _placed(caller, _function(caller, ordered).parameter_bytes, ordered)


def _placed(caller: Caller, size: int, ordered: Ordered) -> int:
    machine = caller.machine
    address = machine.launch.memory.allocate(max(size, 4), BUFFER)[0]
    caller.launched.buffers[address] = ordered
    if machine.hooks.memory_allocated is not None:
        machine.hooks.memory_allocated(machine, caller.group, machine.launch.memory.at(address))
    return address


def _ordered(caller: Caller, kernel: int, *shape: int) -> Ordered | None:
    name = caller.machine.launch.plan.image.kernel_at(kernel)
    if name is None:
        caller.wrong(f"0x{kernel:x} is not a kernel of this module")
        return None
    gx, gy, gz, bx, by, bz, shared = shape
    return Ordered(name, (gx, gy, gz), (bx, by, bz), shared)


def _function(caller: Caller, ordered: Ordered) -> Function:
    return caller.machine.launch.plan.program.functions[ordered.kernel]


def _launch(caller: Caller, kernel: int, buffer: int, *rest: int) -> int:
    *shape, stream = rest
    ordered = _ordered(caller, kernel, *shape)
    if ordered is None:
        return VALUE
    if buffer:
        if buffer not in caller.launched.buffers:
            return _no_buffer(caller, buffer)
        caller.launched.buffers[buffer] = ordered
    elif _function(caller, ordered).parameter_bytes:
        return _no_buffer(caller, buffer)
    else:
        buffer = _placed(caller, 0, ordered)
    return _launch_v2(caller, buffer, stream)


def _no_buffer(caller: Caller, buffer: int) -> int:
    advice = "each launch needs its own buffer, from cudaGetParameterBuffer in the same grid"
    return caller.wrong(f"0x{buffer:x} is not a parameter buffer that waits for a launch", advice)


def _launch_v2(caller: Caller, buffer: int, stream: int) -> int:
    launched, memory = caller.launched, caller.machine.launch.memory
    if buffer not in launched.buffers:
        return _no_buffer(caller, buffer)
    if stream not in NAMED and not caller.has(stream, STREAM):
        return VALUE
    ordered = launched.buffers.pop(buffer)
    function = _function(caller, ordered)
    size = function.parameter_bytes
    held, allocation = memory.bytes_at(buffer)[:size].tobytes(), memory.at(buffer)
    memory.unmap(buffer)
    if len(held) < size:
        return caller.wrong(f"the buffer has {len(held)} bytes; {ordered.kernel} takes {size} bytes of parameters")
    written = None if allocation is None or allocation.shadow is None else allocation.shadow.data
    for param in function.params:
        if param.array:  # a structure, with its padding
            continue
        if written is not None and not written[param.offset :][: param.size].all():
            caller.wrong(
                f"nothing has stored {param.name} of {ordered.kernel} into the buffer", "store all parameters first"
            )
        elif param.size == 8:
            _check_pointer(caller, ordered, param.name, int.from_bytes(held[param.offset :][:8], "little"))
    required = function.directives.get("reqntid")
    if required and ordered.block != of_three(required):
        return caller.wrong(
            f"{ordered.kernel} requires blocks of {of_three(required)} threads (.reqntid), not {ordered.block}"
        )
    error = _misfit(caller, ordered, function) or _full(caller)
    if not error:
        made = Ordered(ordered.kernel, ordered.grid, ordered.block, ordered.shared, held, caller.by())
        (launched.tails if stream == TAIL else launched.queue).append(made)
    return caller.code(error)


def _check_pointer(caller: Caller, ordered: Ordered, name: str, value: int) -> None:
    """Report an address of memory that only the launching thread or CTA has."""
    for window, space in ((SHARED_WINDOW, "shared"), (LOCAL_WINDOW, "local")):
        if window <= value < window + WINDOW:
            message = f"{name} of {ordered.kernel} is 0x{value:x}, an address of {space} memory, which the grid launched cannot access"
            caller.wrong(message, "pass an address of global memory")


def _full(caller: Caller) -> int:
    """Whether as many grids wait as may: tail launches, and those around this grid. Others begin while it runs, and have ended."""
    launch = caller.machine.launch
    waiting = launch.pending + len(caller.launched.tails)
    return PENDING_COUNT if waiting >= launch.device.pending_launches else 0


def _misfit(caller: Caller, ordered: Ordered, function: Function) -> int:
    """Why a grid does not fit, as an error."""
    plan, directives = caller.machine.launch.plan.image.plan(ordered.kernel), function.directives
    threads = ordered.block[0] * ordered.block[1] * ordered.block[2]
    most = int(np.prod(of_three(directives["maxntid"]))) if "maxntid" in directives else MAX_THREADS
    fits = (
        all(0 < n <= limit for n, limit in zip(ordered.grid, MAX_GRID, strict=True))
        and all(0 < n <= limit for n, limit in zip(ordered.block, MAX_BLOCK, strict=True))
        and threads <= min(most, MAX_THREADS)
        and ordered.shared <= plan.image.dynamic.get(ordered.kernel, MAX_SHARED - plan.shared.static)
        and plan.main.frame_size <= MAX_LOCAL
    )
    if not fits:
        return CONFIGURATION
    cluster = cluster_of(function) or (1, 1, 1)  # grids are of CTAs, also those of .blocksareclusters (H200)
    return CLUSTER if any(g % c for g, c in zip(ordered.grid, cluster, strict=True)) else 0


def of_three(numbers: Sequence[object]) -> tuple[int, int, int]:
    """Up to three numbers of a directive."""
    x, y, z = [*(int(str(n)) for n in numbers), 1, 1][:3]
    return x, y, z


def cluster_of(function: Function) -> tuple[int, int, int] | None:
    """The clusters that a kernel declares."""
    declared = function.directives.get("reqnctapercluster")
    return of_three(declared) if declared else None


# ---- copies -----------------------------------------------------------------------------------------


def _copy(caller: Caller, target: int, source: int, nbytes: int, kind: int, stream: int) -> int:
    return caller.code(DIRECTION) if kind not in TO_DEVICE else _move(caller, target, nbytes, source, stream)


def _set(caller: Caller, target: int, value: int, nbytes: int, stream: int) -> int:
    """The device runtime of CUDA 13.0 sets bytes to 0, whatever the value (an H200)."""
    return _move(caller, target, nbytes, None, stream)


def _move(caller: Caller, target: int, nbytes: int, source: int | None, stream: int) -> int:
    launched, memory = caller.launched, caller.machine.launch.memory
    if stream not in NAMED and not caller.has(stream, STREAM):
        return VALUE
    for address in (target, source):
        found = None if address is None else memory.find(address, address + nbytes)
        if nbytes and address is not None and (found is None or (address == target and found.read_only)):
            return caller.wrong(f"{nbytes} bytes at 0x{address:x} are not all in one allocation of global memory")
    if nbytes:
        moved = Moved(target, nbytes, source)
        (launched.tails if stream == TAIL else launched.queue).append(moved)
    return 0


# ---- streams, events, errors, what there is -----------------------------------------------------------


def _make(what: str, flags: tuple[int, ...]) -> Callable[..., int]:
    def make(caller: Caller, address: int, given: int) -> int:
        if given not in flags:
            return caller.code(VALUE)
        return caller.store(address, struct.pack("<Q", caller.handle(what)))

    return make


def _destroy(what: str) -> Callable[..., int]:
    def destroy(caller: Caller, handle: int) -> int:
        if handle in NAMED:
            return caller.code(VALUE)
        if not caller.has(handle, what):
            return VALUE
        del caller.launched.handles[handle]
        caller.machine.launch.memory.unmap(handle)
        return 0

    return destroy


def _record(caller: Caller, event: int, stream: int, *flags: int) -> int:
    """Grids run in the order of their launches, which keeps every order that an event asks for."""
    if stream in (TAIL, FIRE_AND_FORGET):
        return caller.code(VALUE)
    known = caller.has(event, EVENT) and (stream in NAMED or caller.has(stream, STREAM))
    return 0 if known else VALUE


def _wait(caller: Caller, stream: int, event: int, flags: int) -> int:
    return _record(caller, event, stream)


def _get_error(caller: Caller) -> int:
    return caller.launched.errors.pop(caller.thread, 0)


def _peek(caller: Caller) -> int:
    return caller.launched.errors.get(caller.thread, 0)


def _text(which: int) -> Callable[..., int]:
    def text(caller: Caller, error: int) -> int:
        wanted = ERRORS.get(error, UNKNOWN)[which].encode() + b"\0"
        for address, what in caller.launched.handles.items():
            if what == TEXT and caller.machine.launch.memory.bytes_at(address).tobytes() == wanted:
                return address
        return caller.handle(TEXT, wanted)

    return text


def _limit(caller: Caller, address: int, limit: int) -> int:
    if limit not in LIMITS:
        return VALUE
    value = caller.machine.launch.device.pending_launches if limit == PENDING_LIMIT else LIMITS[limit]
    caller.store(address, struct.pack("<Q", 2**64 - 1 if value is None else value))
    return UNSUPPORTED if value is None else 0


def _attributes(caller: Caller, address: int, kernel: int) -> int:
    ordered = _ordered(caller, kernel, 1, 1, 1, 1, 1, 1, 0)
    if ordered is None:
        return VALUE
    launch, function = caller.machine.launch, _function(caller, ordered)
    plan, sm = launch.plan.image.plan(ordered.kernel), launch.device.sm
    most = [
        MAX_THREADS,
        *(int(np.prod(of_three(function.directives[w]))) for w in ("maxntid", "reqntid") if w in function.directives),
    ]
    constant = sum(v.size for v in launch.plan.program.variables if v.space.value == "const")
    sizes = struct.pack("<3Q", plan.shared.static, constant, plan.main.frame_size)
    numbers = struct.pack("<6i", min(most), REGISTERS, sm, sm, 0, 0)
    return caller.store(address, (sizes + numbers).ljust(144, b"\0"))


def _malloc(caller: Caller, address: int, nbytes: int) -> int:
    left = SIZE - caller.machine.launch.memory.total(NAME, HEADER)
    found = malloc_one(caller.machine, caller.group, nbytes, left)
    return caller.store(address, struct.pack("<Q", found)) if found else caller.code(MEMORY)


def _free(caller: Caller, address: int) -> int:
    free_one(caller.machine, caller.group, address)
    return 0


def _number(value: int) -> Callable[..., int]:
    return lambda caller, address: caller.store(address, struct.pack("<i", value))


FUNCTIONS: dict[str, Callable[..., int]] = {
    "GetParameterBuffer": _buffer,
    "GetParameterBufferV2": _buffer_v2,
    "LaunchDevice": _launch,
    "LaunchDeviceV2": _launch_v2,
    "MemcpyAsync": _copy,
    "MemsetAsync": _set,
    "StreamCreateWithFlags": _make(STREAM, (0, 1)),
    "StreamDestroy": _destroy(STREAM),
    "StreamWaitEvent": _wait,
    "EventCreateWithFlags": _make(EVENT, (2,)),
    "EventRecord": _record,
    "EventRecordWithFlags": _record,
    "EventDestroy": _destroy(EVENT),
    "GetLastError": _get_error,
    "PeekAtLastError": _peek,
    "GetErrorName": _text(0),
    "GetErrorString": _text(1),
    "DeviceGetLimit": _limit,
    "GetDevice": _number(0),
    "GetDeviceCount": _number(1),
    "RuntimeGetVersion": _number(VERSION),
    "FuncGetAttributes": _attributes,
    "Malloc": _malloc,
    "Free": _free,
}
