"""`run`: a bare sequence of instructions on a few warps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from warpsim.analysis.flow import KEEP
from warpsim.errors import Finding, LaunchError
from warpsim.host.arrays import Array
from warpsim.host.checks import resolve_checks
from warpsim.host.device import Device
from warpsim.machine.batch import Batch
from warpsim.machine.group import Group
from warpsim.machine.launch import Launch, Settings
from warpsim.machine.plan import FunctionPlan, Image
from warpsim.machine.values import as_array
from warpsim.program.program import Register
from warpsim.program.snippet import KERNEL, snippet_program


@attrs.frozen
class SnippetResult:
    """Registers by name as arrays ``[lanes]`` in their declared type, the shared array, and findings."""

    registers: dict[str, Array]
    shared: Array
    findings: tuple[Finding, ...]


class _SnippetLaunch(Launch):
    """A launch whose registers are set before and kept after."""

    initial: dict[int, Array]
    plan_of_main: FunctionPlan

    def prepare(self, batch: Batch) -> None:
        frame = batch.frame(0, self.plan.main)
        for index, values in self.initial.items():
            frame.values[index] = values.reshape(batch.shape.extents)

    def finish(self, group: Group) -> None:
        if not group.stack:
            group.flush(None)
        super().finish(group)


def run(
    code: str,
    *,
    registers: Mapping[str, Any] | None = None,
    warps: int = 1,
    target: str = "sm_90a",
    shared: Any = None,
    checks: Any = None,
) -> SnippetResult:
    """Run instructions without a kernel around them.

    Args:
        code: PTX instructions; registers that are not declared get their type from use.
        registers: initial values by name: a scalar, ``[lanes]``, or ``[lanes, n]`` for the registers name0 to name(n-1), under
            ``name`` or, as in a declaration, ``name<n>``.
        warps: how many warps run it.
        target: the GPU.
        shared: initial content of the shared array ``smem``.
        checks: as for a kernel.

    Raises:
        PtxError: the instructions cannot be loaded.
        ExecutionError: they did something undefined.
    """
    content = np.zeros(0, np.uint8) if shared is None else np.ascontiguousarray(shared).reshape(-1).view(np.uint8)
    snippet = snippet_program(code, target=target, shared_bytes=content.size)
    kernel = snippet.program.functions[KERNEL]
    kernel = attrs.evolve(kernel, directives={**kernel.directives, KEEP: ()})
    program = attrs.evolve(snippet.program, functions={**snippet.program.functions, KERNEL: kernel})
    device = Device(target)
    launch = _SnippetLaunch(
        Image(program, {}),
        KERNEL,
        (1, 1, 1),
        (32 * warps, 1, 1),
        b"",
        device.memory,
        device.spec,
        Settings(checks=resolve_checks(checks)),
    )
    launch.shared_size = max(launch.shared_size, content.size, 16)
    by_name = {r.name: r for r in kernel.registers}
    launch.initial = {}
    for name, value in (registers or {}).items():
        launch.initial.update(_values(name, np.asarray(value), by_name, 32 * warps))
    batch_of: list[Batch] = []
    launch.on_start = lambda batch: _start(launch, batch, batch_of, content)
    stats = launch.run()
    batch = batch_of[0]
    frame = batch.frame(0, launch.plan.main)
    out = {}
    for name, register in by_name.items():
        stored = frame.values[register.index]
        array = as_array(stored if stored is not None else launch.plan.main.zeros[register.index])
        flat = (
            np.broadcast_to(array, (1, 32 * warps, 1, 1)).reshape(-1)
            if array.ndim == 4
            else np.broadcast_to(array, (32 * warps,))
        )
        out[name] = np.ascontiguousarray(flat).view(register.type.dtype)
    memory = np.ascontiguousarray(batch.shared.words[:, 0]).view(np.uint8)[: max(content.size, 16)]
    return SnippetResult(out, memory, tuple(stats.findings))


def _start(launch: _SnippetLaunch, batch: Batch, kept: list[Batch], content: Array) -> None:
    kept.append(batch)
    launch.prepare(batch)
    padded = np.zeros(-(-content.size // 4) * 4, np.uint8)
    padded[: content.size] = content
    address = np.arange(0, len(padded), 4)
    if len(address):
        batch.shared.scatter(address, np.zeros_like(address), padded.view(np.uint32))  # so that it counts as written


def _values(name: str, value: Array, by_name: dict[str, Register], lanes: int) -> dict[int, Array]:
    if value.ndim == 2:
        made: dict[int, Array] = {}
        name = name.removesuffix(f"<{value.shape[1]}>")
        for column in range(value.shape[1]):
            made.update(_values(f"{name}{column}", value[:, column], by_name, lanes))
        return made
    register = by_name.get(name)
    if register is None:
        raise LaunchError(f"the instructions have no register {name}; they have {', '.join(by_name)}")
    if value.ndim == 1 and value.shape[0] != lanes:
        raise LaunchError(f"register {name} takes a scalar or {lanes} values, not {value.shape[0]}")
    dtype = register.type.dtype
    if value.dtype == dtype:
        converted = value
    elif value.dtype.itemsize == dtype.itemsize and value.dtype != dtype and value.dtype.kind in "fV":
        converted = np.ascontiguousarray(value).view(dtype) if register.type.kind == "b" else value.astype(dtype)
    elif value.dtype.kind in "iu" and dtype.kind in "iu":
        mask = (1 << register.type.bits) - 1
        numbers = [int(v) & mask for v in value.reshape(-1)]
        converted = np.array(numbers, f"u{dtype.itemsize}").reshape(value.shape).view(dtype)
    else:
        converted = value.astype(dtype)
    return {register.index: np.ascontiguousarray(np.broadcast_to(converted, (lanes,)))}
