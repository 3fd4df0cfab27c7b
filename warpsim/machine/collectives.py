"""Collectives: who takes part, and the gate before them, where lanes that belong together wait for each other.

An instruction with ``.sync`` executes for a warp when all participating lanes have arrived: those in its membermask, or
the whole warp, less those that have exited. A group with only some of a warp's lanes parks at the gate until the others
arrive, which is how diverged lanes converge under independent thread scheduling. They may reach the same instruction at
another place.
"""

from __future__ import annotations

import attrs
import numpy as np

from warpsim.isa.spec import Form, Scope
from warpsim.isa.traits import Family
from warpsim.machine.binding.operand_slots import Guard, commit_of, guard_of, value_getter
from warpsim.machine.binding.ports import PORTS
from warpsim.machine.machine import Machine
from warpsim.machine.plan import FunctionPlan, Step
from warpsim.machine.reporting import present
from warpsim.machine.selection import from_positions
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.values import Array, as_array, spread
from warpsim.program.program import Instruction, Operand

FULL = 0xFFFFFFFF
"""Collectives whose operands are spread over all lanes of a warp."""
LANES = np.arange(32, dtype=np.uint32)[None, :, None]
COMMON: Note[dict[tuple[int, ...], Instruction]] = Note("common")
"""Instructions that stand for those at several places, by the identities of these."""
Members = Operand | None
"""The membermask of an instruction; None for the whole warp."""


def taking_part(group: Group, guarded: Array | None) -> Array:
    """Lanes ``[n, 32, m]`` of the group that pass a guard."""
    warps = group.warps
    return warps.active if guarded is None else warps.active & warps.spread(guarded)


def masks_of(group: Group, members: Operand) -> Array:
    """The membermask of each lane, broadcasting to ``[n, 32, m]``."""
    masks: Array = group.warps.spread(group.value(members)).view(np.uint32)
    return masks


def named_by(masks: Array) -> Array:
    """Lanes ``[n, 32, m]`` in the masks: one mask per warp, or for each lane its own mask."""
    named: Array = (masks >> LANES) & np.uint32(1) != 0
    return named


def wanted(group: Group, members: Members, active: Array) -> Array:
    """Lanes ``[n, 32, m]`` that the ``active`` ones need; none in warps without an active lane."""
    asked: Array = np.logical_or.reduce(active, axis=1, keepdims=True)
    if members is None:
        return spread(asked, active.shape)
    masks = np.where(active, masks_of(group, members), np.uint32(0))
    return asked & named_by(np.bitwise_or.reduce(masks, axis=1, keepdims=True))


def places(machine: Machine, group: Group) -> tuple[Array, Array]:
    """The flat position of every lane ``[n, 32, m]`` of the group's warps, and whether the CTA has that lane."""
    warps = group.warps
    threads = warps.first_thread[:, None, None] + np.arange(32)[None, :, None]
    exists = spread(threads < machine.batch.shape.n_threads, warps.active.shape)
    return np.where(exists, threads, 0) * machine.batch.shape.n_ctas + warps.ctas[:, None, :], exists


def alive(machine: Machine, group: Group) -> Array:
    """Lanes ``[n, 32, m]`` of the group's warps that exist and have not exited."""
    positions, exists = places(machine, group)
    exited = machine.batch.exited
    return exists if exited is None else exists & ~exited[positions]


def membermask(instruction: Instruction) -> Members:
    """The operand that names the participating lanes; None for the whole warp."""
    return instruction.named.get("membermask")


def warps_of(group: Group) -> Array:
    """The warp (times CTAs, plus CTA) of each thread, flat."""
    selection = group.selection
    found: Array = ((selection.threads >> 5) * selection.batch_shape.n_ctas + selection.ctas).reshape(-1)
    return found


def release_complete(machine: Machine, instruction: Instruction) -> None:
    """Release the warps all of whose lanes wait at this instruction, at any place in the program."""
    peers = [
        g for g in machine.batch.parked if present(g).text == instruction.text and membermask(present(g)) is not None
    ]
    if len(peers) < 2:
        return
    parts = _unparked(machine, peers, _complete(machine, peers))
    if not parts:
        return
    if machine.hooks.warp_synchronised is not None:
        for group in parts:
            machine.hooks.warp_synchronised(machine, group, membermask(present(group)), None)
    if instruction.form.n_dest:
        _exchange(machine, parts)
    for group in parts:
        machine.count_entry(group, 1)
        group.at += 1
        machine.push(group)
        if machine.hooks.group_woken is not None:
            machine.hooks.group_woken(machine, group)


def _unparked(machine: Machine, peers: list[Group], complete: Array) -> list[Group]:
    """The threads of these warps, which wait no more."""
    parts = []
    for group in peers:
        here = complete[warps_of(group)].reshape(group.selection.shape)
        if not here.any():
            continue
        machine.batch.parked = [g for g in machine.batch.parked if g is not group]
        if not here.all():
            group, rest = machine.divide(group, here)
            machine.batch.parked.append(rest)
        parts.append(group)
    return parts


def _complete(machine: Machine, peers: list[Group]) -> Array:
    """A mask of the warps in which every live lane named by a lane here is here."""
    n_ctas = machine.batch.shape.n_ctas
    size = -(-machine.batch.shape.n_threads // 32) * n_ctas
    here, wanted, living = (np.zeros(size, np.uint32) for _ in range(3))
    every = np.arange(machine.batch.shape.n) if machine.batch.exited is None else np.flatnonzero(~machine.batch.exited)
    threads = every // n_ctas
    np.bitwise_or.at(living, (threads >> 5) * n_ctas + every % n_ctas, _bits(threads))
    for group in peers:
        members, warps = membermask(present(group)), warps_of(group)
        np.bitwise_or.at(here, warps, _bits(group.selection.threads.reshape(-1)))
        assert members is not None
        masks = _spread(as_array(group.value(members)).view(np.uint32), group)
        np.bitwise_or.at(wanted, warps, masks)
    complete: Array = (here != 0) & (wanted & living & ~here == 0)
    return complete


def _bits(threads: Array) -> Array:
    return np.uint32(1) << (threads & 31).astype(np.uint32)


def _spread(value: Array, group: Group) -> Array:
    """One value per thread of a group."""
    shape = group.selection.shape
    return spread(value.reshape((1,) * len(shape)) if value.size == 1 else value, shape).reshape(-1)


def _joint(machine: Machine, parts: list[Group]) -> tuple[Group, Array]:
    """All threads of some groups as one that is where the first of them is, and their positions, group by group."""
    positions = np.concatenate([g.selection.positions.reshape(-1) for g in parts])
    together, first = from_positions(machine.batch.shape, np.sort(positions)), parts[0]
    return machine.group(together, first.plan, first.stack, first.block, first.at, first.local_base), positions


def _exchange(machine: Machine, parts: list[Group]) -> None:
    """Execute the instruction once for lanes at several places; each has its own operands and destinations."""
    instruction = present(parts[0])
    form = instruction.form
    joint, positions = _joint(machine, parts)
    together = joint.selection
    place = np.searchsorted(together.positions.reshape(-1), positions)
    slices = np.split(place, np.cumsum([g.selection.n for g in parts])[:-1])
    warps = joint.warps
    arguments = []
    for number in range(form.n_dest, len(instruction.operands)):
        values = [as_array(value_getter(g.plan, present(g).operands[number])(machine, g)) for g in parts]
        arguments.append(warps.spread(_gathered(joint, parts, slices, values)))
    common = _common(parts)
    followed = _shadowed(machine, joint, parts, slices, common)
    if followed and machine.hooks.shadowed_before is not None:
        machine.hooks.shadowed_before(machine, joint, common)
    result = form.function(instruction.op, *arguments, **_ports(machine, joint, form))
    if followed and machine.hooks.shadowed_after is not None:
        machine.hooks.shadowed_after(machine, joint, common)
    if followed and machine.hooks.collective_joined is not None:
        machine.hooks.collective_joined(machine, joint, common)
    results = [
        spread(as_array(warps.collect(r)), together.shape).reshape(-1)
        for r in (result if isinstance(result, tuple) else (result,))
    ]
    for group, index in zip(parts, slices, strict=True):
        own = tuple([r[index].reshape(group.selection.shape) for r in results])
        commit = commit_of(present(group))
        if commit is not None:
            commit(machine, group, own if isinstance(result, tuple) else own[0], None)
            if machine.hooks.registers_written is not None:
                machine.hooks.registers_written(machine, group, present(group).writes)
        if followed:
            _hand_out(joint, group, index, followed | joint.shadows.keys(), common)


def _ports(machine: Machine, joint: Group, form: Form) -> dict[str, object]:
    """What a collective is given beside its operands."""
    ports: dict[str, object] = {name: PORTS[name](machine, joint, None) for name in form.ports - {"active", "report"}}
    if "active" in form.ports:
        ports["active"] = joint.warps.active
    if "report" in form.ports:
        ports["report"] = lambda rule, message, lanes=None, **more: machine.fault(rule, message, joint, None, **more)
    return ports


def _shadowed(machine: Machine, joint: Group, parts: list[Group], slices: list[Array], common: Instruction) -> set[str]:
    """Give a group of the threads of several the registers that each of these brings to the collective, with the shadows that listeners
    follow. Gives their names."""
    if not any(group.shadowed(present(group).registers) for group in parts):
        return set()
    wanted = machine.hooks.shadows if machine.hooks.collective_joined is None else None
    names = {name for group in parts for name in group.shadows if wanted is None or name in wanted}
    guarded = common.guard is not None
    for operand, *own in zip(
        *(_sources(i, guarded=guarded) for i in (common, *(present(g) for g in parts))), strict=True
    ):
        if operand.register is None:
            continue
        slot = operand.register.index
        plain = [o._replace(negated=o.negated != operand.negated) for o in own]
        values = [as_array(value_getter(g.plan, o)(machine, g)) for g, o in zip(parts, plain, strict=True)]
        joint.set(slot, _gathered(joint, parts, slices, values))
        for name in names:
            shadows = [
                None if o.register is None else g.shadow(name, o.register.index)
                for g, o in zip(parts, own, strict=True)
            ]
            kind = next((shadow.dtype for shadow in shadows if shadow is not None), None)
            if kind is not None:
                full = [np.zeros(1, kind) if shadow is None else shadow for shadow in shadows]
                joint.set_shadow(name, slot, _gathered(joint, parts, slices, full))
    return names


def _gathered(joint: Group, parts: list[Group], slices: list[Array], values: list[Array]) -> Array:
    full = np.empty(joint.selection.n, values[0].dtype)
    for group, value, index in zip(parts, values, slices, strict=True):
        full[index] = _spread(value, group)
    return full.reshape(joint.selection.shape)


def _common(parts: list[Group]) -> Instruction:
    """The instruction of groups at several places as one: an operand that is not alike in all of them is a register, and no two are
    the same one. Where the first of them has none, any other register of the function holds what they bring."""
    each = tuple(present(group) for group in parts)
    plan, first = parts[0].plan, each[0]
    known = plan.notes.setdefault(COMMON, {})
    key = tuple(map(id, each))
    if key not in known:
        alike = len({(i.guard is None, i.guard is None or i.guard[1]) for i in each}) == 1
        guard = first.guard if alike else None
        used, operands = set(() if guard is None else guard[:1]), []
        for own in zip(*(i.operands for i in each), strict=True):
            register = own[0].register
            apart = len({(o.register is None, o.constant, o.special, o.negated) for o in own}) > 1
            if apart if register is None else register in used:
                others = (r for r in plan.function.registers if r not in used and r.index not in first.registers)
                register = next((r for r in others if r.type.bits == own[0].type.bits), register)
                apart = register is not None
            if register is not None:
                used.add(register)
            operands.append(Operand(own[0].type, register) if apart else own[0])
        known[key] = attrs.evolve(first, operands=tuple(operands), guard=guard)
    return known[key]


def _sources(instruction: Instruction, *, guarded: bool) -> list[Operand]:
    """What an instruction reads, its guard first where this is wanted."""
    guards = [instruction.guard] if guarded and instruction.guard is not None else []
    return [*(Operand(register.type, register, negated) for register, negated in guards), *instruction.inputs]


def _hand_out(joint: Group, group: Group, index: Array, names: set[str], common: Instruction) -> None:
    """Give the results of a group, the threads ``index`` of the joint one, their shadows under these names."""
    for name in names:
        for theirs, own in zip(common.outputs, present(group).outputs, strict=True):
            if theirs.register is None or own.register is None:
                continue
            shadow = joint.shadow(name, theirs.register.index)
            found = None if shadow is None else _spread(shadow, joint)[index].reshape(group.selection.shape)
            group.set_shadow(name, own.register.index, found if found is not None and found.any() else None)


def bind_gate(plan: FunctionPlan, instruction: Instruction, step: Step) -> Step:
    """Put a gate before ``step`` if the instruction synchronises lanes."""
    if not instruction.traits.synchronises:
        return step
    guard = guard_of(instruction)
    if instruction.form.scope is Scope.WARPGROUP:
        return _bind_warpgroup(_together(step), guard, complete=instruction.traits.is_async(Family.WGMMA))
    members = membermask(instruction)

    def gated(machine: Machine, group: Group) -> object:
        active = None if guard is None else guard(machine, group)
        if active is False:
            return None
        if machine.hooks.collective_reached is not None:
            machine.hooks.collective_reached(machine, group, members, active)
        missing = missing_lanes(machine, group, members, active)
        if missing is not None:
            if active is not None:
                return split_by_guard(machine, group, active, report=members is None)
            return _wait_for(machine, group, instruction, members, missing)
        notify = machine.hooks.collective_incomplete
        if (
            notify is not None
            and members is None
            and not (active is None and group.warps.dense and _has_all_lanes(machine))
        ):
            notify(machine, group, active)
        if machine.hooks.warp_synchronised is not None:
            machine.hooks.warp_synchronised(machine, group, members, active)
        return step(machine, group)

    return gated


def _wait_for(machine: Machine, group: Group, instruction: Instruction, members: Members, missing: Array) -> bool:
    """Wait for lanes, which may come to the instruction at another place. Always True."""
    if members is None and machine.hooks.collective_waits is not None:
        machine.hooks.collective_waits(machine, group)
    wait(machine, group, missing)
    if members is not None:
        release_complete(machine, instruction)
    return True


def _has_all_lanes(machine: Machine) -> bool:
    """Whether all warps have all of their lanes."""
    return machine.batch.exited is None and machine.batch.shape.n_threads % 32 == 0


def split_by_guard(machine: Machine, group: Group, active: Array, *, report: bool = False) -> bool:
    """Let lanes that a guard disables continue; the others execute the instruction again, alone. Always True."""
    here, others = machine.divide(group, spread(active, group.selection.shape))
    others.at = group.at + 1
    if report and machine.hooks.collective_passed is not None:
        machine.hooks.collective_passed(machine, others)
    machine.count_entry(here, -1)
    machine.push(others)
    machine.push(here)
    return True


def _together(step: Step) -> Step:
    """The step of warps whose lanes have waited for each other."""

    def together(machine: Machine, group: Group) -> object:
        if machine.hooks.warp_synchronised is not None:
            machine.hooks.warp_synchronised(machine, group, None, None)
        return step(machine, group)

    return together


def _bind_warpgroup(step: Step, guard: Guard | None, *, complete: bool) -> Step:
    """Put a gate for four warps before ``step``; if ``complete``, none of their threads may have exited."""

    def gated(machine: Machine, group: Group) -> object:
        selection = group.selection
        active = None if guard is None else guard(machine, group)
        if active is False:
            return None
        if active is not None:
            return split_by_guard(machine, group, active, report=True)
        if selection.whole_warpgroups:
            return step(machine, group)
        if selection.n == machine.batch.shape.n and (not complete or machine.batch.shape.n_threads % 128 == 0):
            return step(machine, group)
        places, sizes = selection.warpgroup_of, selection.warpgroup_sizes
        lacking = (sizes < _needed(machine))[places]
        if lacking.any():
            if machine.hooks.collective_waits is not None:
                machine.hooks.collective_waits(machine, group)
            return _park(machine, group, lacking)
        if complete and (sizes[places] < 128).any():
            return _pass_over(machine, group, (sizes < 128)[places])
        return step(machine, group)

    return gated


def _park(machine: Machine, group: Group, lacking: Array) -> bool:
    """Let the threads of a mask wait, and make the others runnable. Always True: the group has been passed on."""
    machine.count_entry(group, -1)
    stays = group
    if not lacking.all():
        stays, goes = machine.divide(group, lacking)
        machine.push(goes)
    machine.park(stays)
    return True


def _pass_over(machine: Machine, group: Group, broken: Array) -> bool:
    """Make warpgroups whose missing threads can never arrive skip the instruction. Always True."""
    if machine.hooks.warpgroup_incomplete is not None:
        machine.hooks.warpgroup_incomplete(machine, group, broken)
    stays, goes = (group, None) if broken.all() else machine.divide(group, broken)
    stays.at += 1
    machine.push(stays)
    if goes is not None:
        machine.count_entry(goes, -1)
        machine.push(goes)
    return True


def _needed(machine: Machine) -> Array:
    """Number of threads per warpgroup that have not exited; cached until more do."""
    left = int(machine.batch.alive.sum())
    if machine.batch.warpgroups is None or machine.batch.warpgroups[0] != left:
        n_ctas = machine.batch.shape.n_ctas
        every = np.arange(machine.batch.shape.n)
        alive = every if machine.batch.exited is None else every[~machine.batch.exited]
        size = -(-machine.batch.shape.n_threads // 128) * n_ctas
        machine.batch.warpgroups = left, np.bincount((alive // n_ctas >> 7) * n_ctas + alive % n_ctas, minlength=size)
    return machine.batch.warpgroups[1]


def missing_lanes(machine: Machine, group: Group, members: Members, guarded: Array | None = None) -> Array | None:
    """A mask of the group's warps ``[n, m]`` that lack a participating lane; None if there are none. Lanes outside
    ``guarded`` do not participate."""
    warps = group.warps
    if guarded is None and warps.dense:
        return None
    active = taking_part(group, guarded)
    if active.all():
        return None
    absent = ~active & alive(machine, group)
    if absent.any():
        absent = absent & wanted(group, members, active)
    lacking: Array = np.asarray(absent.any(axis=1))
    return lacking if lacking.any() else None


def wait(machine: Machine, group: Group, lacking: Array) -> bool:
    """Park the warps that lack lanes; make the others runnable. Always True: the group has been passed on."""
    mask = as_array(group.warps.collect(spread(lacking[:, None, :], group.warps.active.shape)))
    return _park(machine, group, spread(mask, group.selection.shape))
