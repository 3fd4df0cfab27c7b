"""The undefined bits of registers, kept as shadows of their values, and reports of those that matter.

Undefined bits are an unsigned integer of the register's width (`B128` where that is 128 bits) with a 1 for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.checks.origins import REGISTER, Origins
from warpsim.machine.values import Array, DType
from warpsim.program.program import called
from warpsim.types import B128

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.plan import FunctionPlan
    from warpsim.machine.state.group import Group

RULE = "uninitialised"
UNDEFINED = "undefined"
"""Shadow of registers: the undefined bits; of 128-bit registers, those of the low half."""
HIGH = "undefined high half"
"""Shadow of 128-bit registers: the undefined bits of the high half."""
PADDING = "padding"
"""Shadow of registers: True in lanes that have loaded what may be structure padding."""
WRITE_FIRST = "initialise the register on every path to here"


def undefined(group: Group, slot: int) -> Array | None:
    """The undefined bits of a register; None if it is defined."""
    low = group.shadow(UNDEFINED, slot)
    if group.plan.function.registers[slot].type.bits <= 64:
        return low
    high, none = group.shadow(HIGH, slot), np.zeros(1, np.uint64)
    if low is None and high is None:
        return None
    return _wide(none if low is None else low, none if high is None else high)


def _wide(low: Array, high: Array) -> Array:
    out = np.zeros(np.broadcast_shapes(low.shape, high.shape), B128)
    out["lo"], out["hi"] = low, high
    return out


def put(group: Group, slot: int, bits: Array | None) -> None:
    """Set the undefined bits of a register."""
    parts = {} if bits is None else halves(bits)
    for name in (UNDEFINED, HIGH):
        part = parts.get(name)
        group.accompany(name, slot, part if part is not None and part.any() else None)


def lanes_of(bits: Array) -> Array:
    """A mask of the lanes with an undefined bit."""
    lanes: Array = bits != 0 if bits.dtype.names is None else (bits["lo"] | bits["hi"]) != 0
    return lanes


def whole(dtype: DType, mask: Array) -> Array:
    """All bits of a type, in the lanes where ``mask`` is nonzero."""
    if dtype.kind == "b":
        return mask != 0
    unsigned = np.dtype(f"u{min(dtype.itemsize, 8)}").type
    bits = np.where(mask != 0, ~unsigned(0), unsigned(0))
    return bits if dtype.itemsize <= 8 else _wide(bits, bits)


def ones(plan: FunctionPlan, slot: int, mask: Array) -> Array:
    """All bits of a register, in the lanes where ``mask`` is nonzero."""
    return whole(plan.function.registers[slot].type.dtype, mask)


def halves(bits: Array) -> dict[str, Array]:
    """The shadows that hold undefined bits, by their names."""
    return {UNDEFINED: bits} if bits.dtype.names is None else {UNDEFINED: bits["lo"], HIGH: bits["hi"]}


def together(one: Array, other: Array) -> Array:
    """The bits that are undefined in either."""
    if one.dtype.names is None:
        return one | other
    return _wide(one["lo"] | other["lo"], one["hi"] | other["hi"])


# ---- reports ------------------------------------------------------------------------------------


def origins(machine: Machine) -> Origins:
    """The origins of undefined bits in registers."""
    found: Origins = machine.batch.notes[RULE]
    return found


def report_use(
    machine: Machine,
    group: Group,
    slot: int,
    bits: Array,
    active: Array | None,
    use: str,
    advice: str = WRITE_FIRST,
) -> None:
    """Report undefined bits of a register that matter here; ``advice`` is for one that nothing wrote."""
    lanes = np.broadcast_to(lanes_of(bits), group.selection.shape)
    if active is not None:
        lanes = lanes & active
    if not lanes.any():
        return
    name = group.plan.function.registers[slot].name
    other = origins(machine).get(group, slot)
    message = f"{called(name)} is used as {use} before anything wrote it"
    if other is not None:
        source: Any = other.values.get(REGISTER)
        what, advice = (
            ("uninitialised bytes", "initialise the memory on every path to here")
            if source is None
            else (
                f"what comes from {called(str(source))}, which was never written",
                f"write {source} before line {other.line} reads it",
            )
        )
        message = f"{called(name)} is used as {use}, but holds {what}"
    machine.fault(RULE, message, group, lanes, before=True, register=name, other=other, advice=advice)
