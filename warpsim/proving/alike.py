"""Which threads hold the same value, though nobody knows it: a fingerprint per register and lane.

Equal fingerprints mean equal values. What lanes load in one step from one address is the same, since whoever wrote there in between would
race with one of them; what they compute of it by one instruction is, too, also where equal data decide by which (`Sides`); and a shuffle
takes the value along.
"""

from __future__ import annotations

import functools

import numpy as np

from warpsim.checks.race.reports import ALIKE
from warpsim.checks.undefined_bits import TransferFunction, transfer_of
from warpsim.checks.undefined_registers import lanes_of, undefined
from warpsim.isa.spec import Scope
from warpsim.isa.traits import COMMUTES, Access
from warpsim.machine.machine import Machine
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array, as_array
from warpsim.machine.watcher import READ, MemoryAccess, Watcher
from warpsim.program.program import Instruction, Operand

NAME = "fingerprint"
"""Shadow of registers: one number for each value, 0 for one that may be like no other."""


def mixed(*parts: Array | int) -> Array:
    """One number for several, in this order; never 0."""
    found = np.zeros(1, np.uint64)
    for part in parts:
        found = (found ^ np.asarray(part).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ found >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
        found = found ^ found >> np.uint64(32)
    return found | np.uint64(1)


class Alike(Watcher):
    """Keeps the fingerprints of what is undefined, and says where a store puts the same value in each place."""

    compiled = frozenset()

    def __init__(self) -> None:
        self._steps = 0
        self._new: list[Array] | None = None

    def step_before(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Compute the fingerprints of results."""
        self._steps += 1
        self._new = None
        if not instruction.writes or not group.shadowed(instruction.registers):
            return
        flow = transfer_of(group.plan, instruction)
        if flow.pure:
            self._new = self._computed(group, flow)
        elif instruction.op.text.startswith("shfl.sync"):
            self._new = self._moved(machine, group, flow)

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Give what is loaded a fingerprint; look at what is stored."""
        instruction = group.instruction
        traits, flow = instruction.traits, transfer_of(group.plan, instruction)
        own = np.zeros(1, np.int64) if access.allocation is not None else access.columns  # a CTA's, or a thread's
        plain = flow.form.scope is Scope.THREAD and not traits.order.strong
        if access.kind != READ:
            same = plain and traits.access is Access.STORE and self._same(group, flow, access, own)
            machine.batch.notes[ALIKE] = group.selection if same else None
        elif plain and traits.access is Access.LOAD and self._new is None and not self._astray(group, flow):
            places = mixed(self._steps, np.array(access.places), own)
            self._new = [mixed(places, k) for k in range(len(flow.written))]

    def step_after(self, machine: Machine, group: Group, instruction: Instruction) -> None:
        """Set the fingerprints of results."""
        if not instruction.writes:
            return
        flow, new = transfer_of(group.plan, instruction), self._new
        active = None if flow.guard is None else flow.guard(machine, group)
        for k, slot in enumerate(instruction.writes):
            found = None
            if undefined(group, slot) is not None:
                old = group.shadow(NAME, slot)
                mine = mixed(self._steps, k, group.selection.positions)
                if new is not None and len(new) == len(instruction.writes):
                    mine = new[k]
                found = mine if active is None else np.where(active, mine, 0 if old is None else old)
            group.set_shadow(NAME, slot, found)

    @staticmethod
    def _astray(group: Group, flow: TransferFunction) -> bool:
        return any(undefined(group, slot) is not None for slot in flow.addresses)

    def _computed(self, group: Group, flow: TransferFunction) -> list[Array] | None:
        held = [_of(group, operand) for operand in flow.sources]
        if flow.guard_slot >= 0 and undefined(group, flow.guard_slot) is not None:
            return None
        op = flow.instruction.op
        if not held or any(h is None for h in held):
            return None
        parts = [h for h in held if h is not None]
        if op.text.partition(".")[0] in COMMUTES and len(parts) > 1 and "f64" not in op.text:
            parts[:2] = np.minimum(*parts[:2]), np.maximum(*parts[:2])
        found = together(*parts)
        return [np.where(found != 0, mixed(id(flow.instruction), k, found), 0) for k in range(len(flow.written))]

    def _moved(self, machine: Machine, group: Group, flow: TransferFunction) -> list[Array] | None:
        held = _of(group, flow.sources[0])
        decided = [s for o in flow.sources[1:] for s in o.registers]
        if held is None or len(flow.written) != 1 or any(undefined(group, s) is not None for s in decided):
            return None
        warps = group.warps
        others = [warps.spread(get(machine, group)) for get in flow.getters[1:]]
        ports = {"active": warps.active, "report": lambda *_, **__: None}
        halves = []
        for part in (held & np.uint64(0xFFFFFFFF), held >> np.uint64(32)):
            value = warps.spread(part.astype(np.uint32))
            result = flow.form.function(flow.instruction.op, value, *others, **{p: ports[p] for p in flow.form.ports})
            result = result[0] if isinstance(result, tuple) else result
            halves.append(as_array(warps.collect(result)).astype(np.uint64))
        return [halves[0] | halves[1] << np.uint64(32)]

    def _same(self, group: Group, flow: TransferFunction, access: MemoryAccess, own: Array) -> bool:
        value = flow.sources[1]
        held = [_of(group, each) for each in value.elements or (value,)]
        if any(h is None for h in held):
            return False
        shape = group.selection.shape
        lanes = np.ones(shape, np.bool_) if access.active is None else np.broadcast_to(access.active, shape)
        at, column, found = (
            np.broadcast_to(x, shape)[lanes] for x in (access.places, own, mixed(*[h for h in held if h is not None]))
        )
        if any((np.broadcast_to(h, shape)[lanes] == 0).any() for h in held if h is not None):
            return False
        order = np.lexsort((at, column))
        at, column, found = at[order], column[order], found[order]
        near = (np.diff(column) == 0) & (np.diff(at) < access.nbytes)
        return not (near & ((np.diff(at) != 0) | (found[1:] != found[:-1]))).any()


def _of(group: Group, operand: Operand) -> Array | None:
    """The fingerprints of an operand's values: of what is known, the value itself; None of what differs from lane to lane otherwise."""
    if operand.register is None:
        return None if operand.constant is None else np.ones(1, np.uint64)
    slot = operand.register.index
    return fingerprints(as_array(group.read(slot)), undefined(group, slot), group.shadow(NAME, slot))


def fingerprints(value: Array, bits: Array | None, held: Array | None) -> Array | None:
    """The fingerprints of a register, of which some bits may be undefined, and some of those lanes ``held`` one."""
    if value.dtype.names is not None:
        return None
    plain = mixed(value if value.dtype.kind == "b" else value.view(f"u{value.dtype.itemsize}"))
    if bits is None:
        return plain
    return np.where(lanes_of(bits), np.uint64(0) if held is None else held, plain)


def together(*held: Array) -> Array:
    """The fingerprints of what follows from several values: 0 where one has none."""
    return np.where(functools.reduce(np.logical_and, [h != 0 for h in held]), mixed(*held), 0)
