"""Who takes part in a collective: the lanes in its membermask, or the whole warp, less those that have exited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.machine.state.group import Group
from warpsim.machine.values import Array
from warpsim.program.program import Instruction, Operand

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine

FULL = 0xFFFFFFFF
"""Collectives whose operands are spread over all lanes of a warp."""
LANES = np.arange(32, dtype=np.uint32)[None, :, None]
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
    asked = active.any(axis=1, keepdims=True)
    if members is None:
        return np.broadcast_to(asked, active.shape)
    masks = np.where(active, masks_of(group, members), np.uint32(0))
    return asked & named_by(np.bitwise_or.reduce(masks, axis=1, keepdims=True))


def places(machine: Machine, group: Group) -> tuple[Array, Array]:
    """The flat position of every lane ``[n, 32, m]`` of the group's warps, and whether the CTA has that lane."""
    warps = group.warps
    lanes = np.arange(32)[None, :, None]
    if warps.dense:
        threads = np.asarray(warps.first_thread)[:, None, None] + lanes
        columns = (group.selection.positions[0, 0].reshape(-1) % machine.batch.shape.n_ctas)[None, None, :]
    else:
        threads = warps.warp_threads[:, None, None] + lanes
        columns = warps.warp_ctas[:, None, None]
    exists = np.broadcast_to(threads < machine.batch.shape.n_threads, warps.active.shape)
    return np.where(exists, threads, 0) * machine.batch.shape.n_ctas + columns, exists


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
