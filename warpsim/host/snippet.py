"""`run`: executes bare instructions on a few warps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import attrs
import numpy as np
from numpy.typing import ArrayLike

from warpsim.analysis.flow import KEEP
from warpsim.checks.convergence import DIVERGENCE
from warpsim.checks.watchers import watchers_of
from warpsim.errors import Finding, LaunchError, WarpsimError, shown
from warpsim.host import defaults
from warpsim.host.device import Device
from warpsim.host.kernel import accuracy_of
from warpsim.host.options import Checks, budget, integer, resolve_checks
from warpsim.machine.binding.bind import bind_function
from warpsim.machine.engine import run as run_launch
from warpsim.machine.machine import Machine
from warpsim.machine.plan import Image
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.group import Frame, Group
from warpsim.machine.state.launch import LaunchState, Settings
from warpsim.machine.values import as_array
from warpsim.machine.watcher import Watcher
from warpsim.numerics.arrays import Array
from warpsim.program.program import Register
from warpsim.program.snippet import KERNEL, snippet_program
from warpsim.records import frozen

MAX_WARPS = 1 << 15
"""Most warps of a snippet, more than a CTA has: they are independent unless the snippet synchronises them."""


@frozen
class SnippetResult:
    """Registers by name as arrays ``[lanes]`` in their declared type, the shared array, and findings."""

    registers: dict[str, Array]
    shared: Array
    findings: tuple[Finding, ...]


class _Registers(Watcher):
    """Sets the registers and the shared array before a snippet runs, and captures the registers at its end."""

    def __init__(self, initial: dict[int, Array], content: Array) -> None:
        self.initial = initial
        self.content = content
        self.batch: BatchState
        self.frame: Frame

    def batch_began(self, machine: Machine) -> None:
        """Set initial values."""
        self.batch = machine.batch
        self.frame = machine.frame(0, machine.launch.plan.main)
        for index, values in self.initial.items():
            self.frame.values[index] = values.reshape(machine.batch.shape.extents)
            self.frame.known.clear()
        padded = np.zeros(-(-self.content.size // 4) * 4, np.uint8)
        padded[: self.content.size] = self.content
        address = machine.launch.plan.shared.reserved + np.arange(0, len(padded), 4)
        if len(address):  # count it as written
            machine.fill("shared", address, np.zeros_like(address), padded.view(np.uint32))

    def group_exiting(self, machine: Machine, group: Group) -> None:
        """Capture final values."""
        if not group.stack:
            group.flush(None)


def run(
    code: str,
    *,
    registers: Mapping[str, ArrayLike] | None = None,
    warps: int = 1,
    target: str = "sm_90a",
    shared: ArrayLike | int | None = None,
    checks: Checks = None,
    max_seconds: float | None = None,
) -> SnippetResult:
    """Run bare instructions, without a kernel around them.

    Args:
        code: PTX instructions. Undeclared registers get their types from use.
        registers: initial values by name: a scalar, ``[lanes]``, or ``[lanes, n]`` for the registers name0 to
            name(n-1), given as ``name`` or, as in a declaration, ``name<n>``.
        warps: number of warps.
        target: the GPU.
        shared: initial content of the shared array ``smem``.
        checks: as for a kernel.
        max_seconds: as for a kernel.

    Raises:
        PtxError: the instructions cannot be loaded.
        LaunchError: registers, warps or shared memory do not fit the instructions.
        ExecutionError: the instructions did something undefined.
    """
    __tracebackhide__ = True
    if not isinstance(code, str):
        raise LaunchError(f"code must be PTX text, not {shown(code)}")
    device = Device(target)
    warps = integer("warps", warps, 1, MAX_WARPS)
    content = _content(shared, device)
    if not isinstance(registers, Mapping | None):
        raise LaunchError(f"registers must map names to values, not {shown(registers)}")
    usual = defaults.current
    chosen = resolve_checks(usual.checks if checks is None else checks)
    settings = Settings(
        checks=chosen,
        max_seconds=budget("max_seconds", usual.max_seconds if max_seconds is None else max_seconds),
        async_effects=usual.async_effects or "eager",
        whole_warps=DIVERGENCE in chosen,
    )
    try:
        snippet = snippet_program(code, target=target, shared_bytes=content.size)
    except WarpsimError as problem:
        raise problem.with_traceback(None) from None
    kernel = snippet.program.functions[KERNEL]
    kernel = attrs.evolve(kernel, directives={**kernel.directives, KEEP: ()})
    program = attrs.evolve(snippet.program, functions={**snippet.program.functions, KERNEL: kernel})
    plan = Image(program, {}, bind_function).plan(KERNEL)
    state = LaunchState(plan, (1, 1, 1), (32 * warps, 1, 1), b"", device.memory, device.spec, settings)
    own = plan.shared.reserved
    state.shared_size = max(state.shared_size, own + max(content.size, 16))
    by_name = {r.name: r for r in kernel.registers}
    initial: dict[int, Array] = {}
    for name, value in (registers or {}).items():
        initial.update(_values(name, value, by_name, 32 * warps))
    kept = _Registers(initial, content)
    try:
        accuracy = accuracy_of(None, chosen)
        run_launch(state, [*watchers_of(state), *([accuracy] if accuracy else []), kept])
    except WarpsimError as problem:
        raise problem.with_traceback(None) from None
    finally:
        for listener in defaults.listeners:
            listener(state)
    out = {}
    for name, register in by_name.items():
        stored = kept.frame.values[register.index]
        array = as_array(stored if stored is not None else plan.main.zeros[register.index])
        flat = (
            np.broadcast_to(array, (1, 32 * warps, 1, 1)).reshape(-1)
            if array.ndim == 4
            else np.broadcast_to(array, (32 * warps,))
        )
        out[name] = np.ascontiguousarray(flat).view(register.type.dtype)
    memory = np.ascontiguousarray(kept.batch.shared.words[:, 0]).view(np.uint8)[own : own + max(content.size, 16)]
    return SnippetResult(out, memory, tuple(state.findings.values()))


def _content(shared: ArrayLike | int | None, device: Device) -> Array:
    if shared is None:
        return np.zeros(0, np.uint8)
    content = _array("shared", np.frombuffer(shared, np.uint8) if isinstance(shared, (bytes, bytearray)) else shared)
    if content.dtype.hasobject:
        raise LaunchError(f"shared has integers too large for NumPy: {shown(shared)}")
    if content.nbytes > device.max_shared:
        raise LaunchError(f"shared has {content.nbytes} bytes; {device.target} has {device.max_shared}")
    return np.ascontiguousarray(content).reshape(-1).view(np.uint8)


def _array(what: str, values: ArrayLike) -> Array:
    """An array of numbers or raw elements."""
    try:
        array = np.asarray(values)
    except Exception as problem:  # whatever an object of the caller's raises
        raise LaunchError(f"{what} is not an array: {problem}") from None
    if array.dtype.kind == "O" and all(type(value) is int for value in array.reshape(-1)):
        return array  # integers too large for NumPy's types
    if array.dtype.kind not in "biufV" or array.dtype.hasobject:
        raise LaunchError(f"{what} must be numbers, not {array.dtype}: {shown(values)}")
    return array


def _values(name: object, values: ArrayLike, by_name: dict[str, Register], lanes: int) -> dict[int, Array]:
    if not isinstance(name, str):
        raise LaunchError(f"register names must be text, not {shown(name)}")
    value = _array(f"register {shown(name)}", values)
    if value.ndim == 2:
        made: dict[int, Array] = {}
        name = name.removesuffix(f"<{value.shape[1]}>")
        for column in range(value.shape[1]):
            made.update(_values(f"{name}{column}", value[:, column], by_name, lanes))
        return made
    register = by_name.get(name)
    if register is None:
        raise LaunchError(f"the instructions have no register {name[:80]}; registers: {', '.join(by_name)}")
    if value.shape not in ((), (lanes,)):
        raise LaunchError(f"register {name} takes a scalar or {lanes} values, not {list(value.shape)}")
    return {register.index: np.ascontiguousarray(np.broadcast_to(_converted(register, value), (lanes,)))}


def _converted(register: Register, value: Array) -> Array:
    """Convert values to the register's type: bits if it is untyped, else rounded; integers may be signed or unsigned."""
    type, dtype = register.type, register.type.dtype
    untyped = type.kind == "b" and value.dtype.kind in "fV"
    if value.dtype == dtype:
        return value
    if untyped and value.dtype.itemsize == dtype.itemsize:
        return np.ascontiguousarray(value).view(dtype)
    try:
        with np.errstate(all="ignore"):
            if type.kind in "pf":
                return value.astype(dtype)
            if untyped and type.bits in (16, 32, 64):
                return value.astype(f"f{type.bits // 8}").view(dtype)
    except (TypeError, ValueError, OverflowError):
        _misfit(register, value)
    if value.dtype.kind not in "biuO":
        _misfit(register, value)
    numbers = [int(v) for v in value.reshape(-1)]
    if any(not -(1 << (type.bits - 1)) <= v < 1 << type.bits for v in numbers):
        raise LaunchError(
            f"register {register.name}: {shown(numbers[0] if len(numbers) == 1 else value)} does not fit {type.bits} bits"
        )
    raw = b"".join((v & ((1 << type.bits) - 1)).to_bytes(dtype.itemsize, "little") for v in numbers)
    return np.frombuffer(raw, dtype).reshape(value.shape)


def _misfit(register: Register, value: Array) -> NoReturn:
    raise LaunchError(f"register {register.name} ({register.type}) cannot hold {value.dtype} values")
