"""The undefined bits of registers, kept as shadows of their values, where they come from, and reports of those that matter.

Undefined bits are an unsigned integer of the register's width (`B128` where that is 128 bits) with a 1 for each. Their
origin is the load that read them, or the unwritten register and the first instruction that read it.
"""

from __future__ import annotations

from typing import cast

import attrs
import numpy as np

from warpsim.errors import Finding, Span
from warpsim.isa.traits import Access
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import Address
from warpsim.machine.plan import FunctionPlan
from warpsim.machine.reporting import party, present
from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Array, DType
from warpsim.program.program import Instruction, called
from warpsim.records import define
from warpsim.types import B128

MEMORY = "loaded here from uninitialised memory"
REGISTER = "register"
"""Key of the register's name in the values of an origin that is no load."""
COMPUTED = "computed"
"""Key, in such values, of whether the undefined bits were computed from the register, not only moved."""
UNFINISHED = "unfinished"
"""Key, in the values of an origin, of the rule by which something was read too early or too late, its place, and the other party."""
READ_ADVICE = {
    "async-read-early": "wait for the copy (wait_group, or the phase of its mbarrier) before it is read",
    "race": "",
    "async-smem-overwrite": "wait until the product has read its matrices (wgmma.wait_group) before writing there again",
}


@define(eq=False)
class Stored:
    """Undefined values that an instruction stored in shared or local memory: address range and origin."""

    kind: str
    low: int
    high: int
    origin: Finding


class Origins:
    """For a batch: the origin of each register slot's undefined bits, and where they were stored."""

    def __init__(self) -> None:
        self._slots: dict[tuple[str, int], Finding] = {}
        self._stored: dict[Span, Stored] = {}
        self._read: dict[tuple[str, int, Span], Finding] = {}

    def get(self, group: Group, slot: int) -> Finding | None:
        """The origin of a register's undefined bits; None if the register was never written."""
        return self._slots.get((group.plan.function.name, slot))

    def put(self, group: Group, slot: int, origin: Finding) -> None:
        """Note the origin of a register's undefined bits."""
        self._slots[group.plan.function.name, slot] = origin

    def hand(self, function: str, slot: int, origin: Finding) -> None:
        """Note the origin of undefined bits that a call or a return brings to a register of another function."""
        self._slots[function, slot] = origin

    def read(
        self, machine: Machine, group: Group, slot: int, instruction: Instruction, *, computes: bool = False
    ) -> Finding:
        """The origin of what an instruction makes of an undefined register; ``computes``: does not only move."""
        known = self.get(group, slot)
        if known is None:
            key = group.plan.function.name, slot, instruction.span
            if key not in self._read:
                self._read[key] = _of_register(machine, group, slot, "read")
            known = self._read[key]
        if computes and REGISTER in known.values and COMPUTED not in known.values:
            known = attrs.evolve(known, values={**known.values, COMPUTED: True})
        return known

    def only_moved(self, group: Group, slot: int) -> bool:
        """Whether a register's undefined bits were moved from one that nothing wrote."""
        known = self.get(group, slot)
        return known is not None and REGISTER in known.values and COMPUTED not in known.values

    def stored(
        self, machine: Machine, group: Group, instruction: Instruction, address: Address, lanes: Array, slot: int
    ) -> None:
        """Note a store of an undefined register; its lanes are in the group's shape."""
        kind, place = _place(instruction, address)
        place = np.broadcast_to(place, group.selection.shape)[lanes]
        if not place.size:
            return
        low, high = int(place.min()), int(place.max()) + 32
        known = self._stored.pop(instruction.span, None)
        if known is not None and known.kind == kind:
            low, high = min(low, known.low), max(high, known.high)
        origin = self.get(group, slot) or _of_register(machine, group, slot, "stored")
        self._stored[instruction.span] = Stored(kind, low, high, origin)

    def of(self, kind: str, low: int, high: int) -> Finding | None:
        """The origin of undefined bytes between two addresses of a memory, if they were stored there."""
        found = [s for s in self._stored.values() if s.kind == kind and s.low <= high and low < s.high]
        return found[-1].origin if found else None

    def loaded(
        self, machine: Machine, group: Group, instruction: Instruction, address: Address, found: dict[int, Array]
    ) -> None:
        """Note a load that gave undefined bits to registers, by which lanes ``found`` some."""
        origin, loads = None, instruction.traits.access is Access.LOAD
        if self._stored and loads:
            kind, place = _place(instruction, address)
            origin = self.of(kind, int(place.min()), int(place.max()))
        parts = instruction.operands[0].parts
        number = {part.register.index: k for k, part in enumerate(parts) if part.register is not None}
        for slot, lanes in found.items():
            known = origin
            if known is None and loads:
                known = _left_in_global(machine.launch, address, number[slot], instruction.op.type.bytes, lanes)
            named = None if known else _variable(machine.launch, instruction, address)
            message = f"{MEMORY} ({named})" if named else MEMORY
            self.put(group, slot, known or party(machine.launch, machine.batch, group, message, lanes))


def _left_in_global(launch: LaunchState, address: Address, number: int, nbytes: int, lanes: Array) -> Finding | None:
    """The origin of the undefined bytes that a store has left in this element where the first of these lanes loads; None if none has."""
    first = int(np.broadcast_to(address.places, lanes.shape)[lanes][0]) + number * nbytes
    allocation = launch.memory.find(first, first + nbytes)
    if allocation is None or allocation.shadow is None:
        return None
    here = slice(first - allocation.start, first - allocation.start + nbytes)
    for one in (allocation.withheld or {}).values():
        if (one.marks.data[here] > allocation.shadow.data[here]).any():
            return (one.finding.other if one.finding.rule == RULE else None) or one.finding
    return None


def _of_register(machine: Machine, group: Group, slot: int, done: str) -> Finding:
    """The origin of undefined bits that begins with a register that nothing wrote, where it is read or stored."""
    name = group.plan.function.registers[slot].name
    origin = party(machine.launch, machine.batch, group, f"{name}, which is uninitialised, is {done} here")
    found: Finding = attrs.evolve(origin, values={REGISTER: name})
    return found


def _place(instruction: Instruction, address: Address) -> tuple[str, Array]:
    """The state space of an access, and its addresses in that space."""
    place = address.places
    space = instruction.traits.spaces[0] if instruction.traits.spaces else ""
    if space == "":
        first = int(place.reshape(-1)[0])
        space = "local" if LOCAL_WINDOW <= first < SHARED_WINDOW else "shared"
    return ("local" if space == "param" else space), place & 0xFFFFFFFF


def _variable(launch: LaunchState, instruction: Instruction, address: Address) -> str:
    """The variable in shared memory that a load begins with; empty for other loads."""
    if instruction.traits.access is not Access.LOAD:
        return ""
    kind, place = _place(instruction, address)
    if not kind.startswith("shared"):
        return ""
    return launch.plan.shared.name(int(place.min()), launch.shared_size).partition("+")[0]


RULE = "uninitialised"
STRICT = "strict-undefined"
"""In the set of checks: what is undefined is reported where a matrix product or a branch reads it."""
CONTENTS = "contents"
"""In the set of checks: undefined values may reach global memory, which stands for contents that nobody knows."""
ORIGINS: Note[Origins] = Note(RULE)
UNDEFINED = "undefined"
"""Shadow of registers: the undefined bits; of 128-bit registers, those of the low half."""
HIGH = "undefined high half"
"""Shadow of 128-bit registers: the undefined bits of the high half."""
PADDING = "padding"
"""Shadow of registers: True in lanes that have loaded what may be structure padding."""
SHADOWS = frozenset((UNDEFINED, HIGH, PADDING))
"""The names of these shadows; others are other watchers'."""
WRITE_FIRST = "initialise the register on every path to here"
Use = tuple[str, str, dict[str, object]]
"""Rule, message and values of a finding that something undefined matters."""


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
        group.set_shadow(name, slot, part if part is not None and part.any() else None)


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


def travels(checks: frozenset[str]) -> bool:
    """Whether undefined operands pass through matrix products."""
    return RULE in checks and STRICT not in checks


# ---- reports ------------------------------------------------------------------------------------


def origins(machine: Machine) -> Origins:
    """The origins of undefined bits in registers."""
    return machine.batch.notes[ORIGINS]


def early_use(group: Group, origin: Finding, reaches: str) -> Use:
    """The finding that memory was read while it was written, where one of the two began."""
    rule, place, other = cast("tuple[str, Instruction, Instruction | None]", origin.values[UNFINISHED])
    message = f"{origin.message}, and {reaches} at line {present(group).span.line}"
    return rule, message, {"place": place, "other": other, "advice": READ_ADVICE[rule]}


def use_of(machine: Machine, group: Group, slot: int, use: str, advice: str = WRITE_FIRST) -> Use:
    """The finding that an undefined register matters here; ``advice`` is for one that nothing wrote."""
    name = group.plan.function.registers[slot].name
    other = origins(machine).get(group, slot)
    if other is not None and UNFINISHED in other.values:
        return early_use(group, other, f"what comes of it reaches {use}")
    message = f"{called(name)} is used as {use} before anything wrote it"
    if other is not None:
        source = other.values.get(REGISTER)
        what, advice = "uninitialised bytes", "initialise the memory on every path to here"
        if source is not None:
            what = f"what comes from {called(str(source))}, which was never written"
            advice = f"write {source} before line {other.line} reads it"
        message = f"{called(name)} is used as {use}, but holds {what}"
    return RULE, message, {"register": name, "use": use, "other": other, "advice": advice}


def used_by(group: Group, bits: Array, active: Array | None) -> Array | None:
    """A mask of the active lanes with an undefined bit; None if there are none."""
    lanes = np.broadcast_to(lanes_of(bits), group.selection.shape)
    if active is not None:
        lanes = lanes & active
    return lanes if lanes.any() else None
