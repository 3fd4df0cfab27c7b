"""Steps of instructions that a warp or a warpgroup executes as one: operands as ``[n, 32, m]`` or ``[n, 128, m]``."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.isa.spec import Scope
from warpsim.machine.binding.accumulators import bind_accumulators
from warpsim.machine.binding.operand_slots import commit_of, guard_of, source_getter
from warpsim.machine.binding.ports import port
from warpsim.machine.group import Group
from warpsim.machine.hazards.shadows import commit_loaded, loaded
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.values import Affine, Array, repeated
from warpsim.program.program import (
    Instruction,
)


def bind_warp(plan: FunctionPlan, instruction: Instruction) -> Step:
    """An instruction of whole warps (or warpgroups): operands as ``[n, 32, m]`` (``[n, 128, m]``)."""
    form, op, function = instruction.form, instruction.op, instruction.form.function
    wide = form.scope is Scope.WARPGROUP
    getters = [source_getter(plan, o) for o in instruction.operands[form.n_dest :]]
    commit = commit_of(instruction)
    if "accumulator" in form.ports:
        read_accumulator, commit = bind_accumulators(instruction.operands[0])
    guard = guard_of(plan, instruction) if instruction.guard is not None else None
    ports = tuple(sorted(form.ports - {"active", "accumulator"}))
    wants_active = "active" in form.ports
    accumulates = "accumulator" in form.ports
    reports = "report" in ports

    def reporter(warps: Any, report: Any) -> Any:
        """Lanes come in warp view."""

        def collected(rule: str, message: str, lanes: Any = None, **more: Any) -> None:
            if lanes is not None:
                if wide:
                    lanes = np.broadcast_to(lanes, (warps.n // 4, 128, warps.m)).reshape(warps.active.shape)
                lanes = warps.collect(np.broadcast_to(lanes, warps.active.shape))
            report(rule, message, lanes, **more)

        return collected

    def spread(warps: Any, value: Any) -> Any:
        if isinstance(value, tuple):
            if len(value) >= 2 and isinstance(value[1], int) and not isinstance(value[0], (tuple, int)):
                base = warps.spread(value[0])
                lifted = base if value[1] == 0 else base + np.array(value[1]).astype(base.dtype)
                rest = tuple([spread(warps, v) for v in value[2:]])
                return (grouped(lifted), *rest) if rest else grouped(lifted)
            return tuple([spread(warps, v) for v in value])
        if isinstance(value, (np.ndarray, Affine)):
            return grouped(warps.spread(value))
        return value

    def grouped(array: Array) -> Array:
        if not wide:
            return array
        n, _, m = array.shape
        if array.strides[1] == 0 and n == 1:
            return repeated(array[:, :1], 128) if m == 1 else np.broadcast_to(array[:, :1], (1, 128, m))
        return array.reshape(n // 4, 128, m)

    def collect(warps: Any, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([collect(warps, v) for v in value])
        if value is None:
            return None
        if wide:
            n, _, m = value.shape
            value = value[:, :32] if value.strides[1] == 0 else value.reshape(n * 4, 32, m)
        return warps.collect(value)

    def step(group: Group) -> object:
        active = None
        if guard is not None:
            active = guard(group)
            if active is False:
                return None
        batch = group.batch
        batch.memory.group = group
        batch.memory.active = None
        batch.memory.undefined = False
        warps = group.warps
        arguments = [spread(warps, get(group)) for get in getters]
        keywords = {p: port(batch, p, group, active) for p in ports}
        if wants_active:
            mask = warps.active if active is None else warps.active & warps.spread(active)
            keywords["active"] = grouped(mask)
        if reports:
            keywords["report"] = reporter(warps, keywords["report"])
        if accumulates:
            keywords["accumulator"] = read_accumulator(group)
        result = function(op, *arguments, **keywords)
        if commit is not None and result is not None:
            commit(group, result if accumulates else collect(warps, result), active)
        if batch.memory.undefined:
            bits = loaded(group, instruction, arguments, keywords)
            if commit is not None and bits is not None:
                return commit_loaded(group, commit, instruction, (collect(warps, bits[0]), None, bits[2]), active)
        return None

    return step
