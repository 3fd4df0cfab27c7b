"""`ProxyFences`: passes events to the proxy state of each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsim.checks.map_fences import acquire_maps, check_maps, release_maps
from warpsim.checks.proxies import RULE as PROXY
from warpsim.checks.proxies import SPACES, LaunchProxies, Proxies
from warpsim.machine.reporting import present
from warpsim.machine.watcher import WRITE, MemoryAccess, Watcher

if TYPE_CHECKING:
    from warpsim.machine.machine import Machine
    from warpsim.machine.state.group import Group
    from warpsim.machine.state.transfers import Transfer
    from warpsim.machine.values import Array
    from warpsim.program.program import Instruction


class ProxyFences(Watcher):
    """Passes events to the proxy state of each batch."""

    def __init__(self) -> None:
        self._synchronises: dict[int, bool] = {}

    def batch_began(self, machine: Machine) -> None:
        """Make a state for each batch."""
        shared = machine.launch.notes.get(PROXY)
        if shared is None:
            shared = machine.launch.notes[PROXY] = LaunchProxies()
        machine.batch.notes[PROXY] = Proxies(shared, machine)

    def _account(self, machine: Machine) -> Proxies:
        found: Proxies = machine.batch.notes[PROXY]
        return found

    def memory_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note accesses through the generic proxy."""
        if access.allocation is not None:
            if access.kind == WRITE:
                self._account(machine).globals(group, access.allocation, access)
        elif access.space != "local":
            self._account(machine).shared(group, access)
        instruction = present(group)
        synchronises = self._synchronises.get(id(instruction))
        if synchronises is None:
            synchronises = instruction.traits.polls or instruction.traits.scope == "cluster"
            self._synchronises[id(instruction)] = synchronises
        if synchronises:
            self._account(machine).synchronised(group)

    def rows_accessed(self, machine: Machine, group: Group, access: MemoryAccess) -> None:
        """Note matrix rows."""
        self._account(machine).rows(group, access)

    def tile_read(
        self, machine: Machine, group: Group, address: Array, columns: Array, limits: tuple[int, int], nbytes: int
    ) -> None:
        """Check what wgmma reads through the async proxy."""
        if not machine.delivering:
            self._account(machine).matrix(machine, group, address, columns, limits)

    def fence(self, machine: Machine, group: Group, instruction: Instruction, active: Array | None) -> None:
        """Note proxy fences; other fences synchronise."""
        traits = instruction.traits
        if traits.fence is not None and traits.fence.proxy == "async":
            named = tuple([space for space in SPACES if space in traits.spaces])
            positions = group.selection.positions
            chosen = positions if active is None else positions[np.broadcast_to(active, positions.shape)]
            self._account(machine).fence(chosen.reshape(-1), named or SPACES)
        else:
            self._account(machine).synchronised(group)

    def barrier_left(self, machine: Machine, group: Group | None, number: int, partial: bool) -> None:  # noqa: FBT001  an event's arguments are told by their places
        """Note threads that passed a barrier."""
        if partial and group is not None:
            self._account(machine).synchronised(group)
        else:
            self._account(machine).barrier(group)

    def cluster_barrier_left(self, machine: Machine, group: Group) -> None:
        """Note threads that passed a cluster barrier."""
        self._account(machine).synchronised(group)

    def async_issued(self, machine: Machine, transfer: Transfer) -> None:
        """Check starting copies through the async proxy."""
        if transfer.asynchronous:
            self._account(machine).copies(machine, transfer)

    def async_visible(self, machine: Machine, transfer: Transfer, which: Array) -> None:
        """Note that cp.async has written through the generic proxy."""
        if transfer.kind == "cp.async":
            self._account(machine).landed(transfer, which)

    def map_changed(self, machine: Machine, group: Group, positions: Array) -> None:
        """Note released changes of tensor maps."""
        release_maps(self._account(machine), positions)

    def map_acquired(self, machine: Machine, group: Group, addresses: Array, columns: Array) -> None:
        """Note acquired tensor maps."""
        acquire_maps(self._account(machine), addresses, columns)

    def map_used(self, machine: Machine, group: Group, addresses: Array, columns: Array, active: Array | None) -> None:
        """Check the use of tensor maps."""
        check_maps(self._account(machine), machine, group, addresses, columns, active)
