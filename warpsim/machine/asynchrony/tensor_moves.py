"""tcgen05.ld and tcgen05.st under late effects: they act when their warp waits, or at a random moment before."""

from __future__ import annotations

import numpy as np

from warpsim.analysis.flow import blocks_of
from warpsim.analysis.tensor_loads import awaited_loads
from warpsim.isa.ports import TensorCoreMemory
from warpsim.layout.tensor_memory import Tile
from warpsim.machine.asynchrony import transfers
from warpsim.machine.asynchrony.wgmma import POISON
from warpsim.machine.hooks import READ, WRITE
from warpsim.machine.machine import Machine
from warpsim.machine.memory.tensor import Tensor, arranged, cells_of
from warpsim.machine.reporting import present
from warpsim.machine.state.group import Group
from warpsim.machine.state.notes import Note
from warpsim.machine.state.transfers import Transfer
from warpsim.machine.values import Array, as_array
from warpsim.program.program import Instruction
from warpsim.records import frozen

LOADS, STORES = "tcgen05.ld", "tcgen05.st"
"""Kinds of transfers."""
AWAITED: Note[dict[int, Instruction]] = Note("awaited tcgen05.ld")
"""The loads that may act late, by identity."""


@frozen(eq=False)
class TensorLoad:
    """The cells ``[k, lanes, columns]`` of warps, at the addresses ``[parts, k]`` of a tile's parts, of which ``taken`` are read; and
    the registers that they are for."""

    ctas: Array
    places: Array
    tile: Tile
    taken: Array
    registers: tuple[int, ...]

    def perform(self, memory: TensorCoreMemory, which: Array) -> None:
        """Read the cells of some of the warps."""
        tile = self.tile
        parts = [memory.read_tensor(self.ctas[which], at[which], tile.lanes, tile.columns) for at in self.places]
        self.taken[which] = arranged(np.concatenate(parts, axis=1), tile)


@frozen(eq=False)
class TensorStore:
    """Cells ``[parts, k, lanes, columns]`` for the parts of a tile of warps, at the addresses ``[parts, k]``."""

    ctas: Array
    places: Array
    cells: Array

    def perform(self, memory: TensorCoreMemory, which: Array) -> None:
        """Write the cells of some of the warps."""
        for at, cells in zip(self.places, self.cells, strict=True):
            memory.write_tensor(self.ctas[which], at[which], cells[which])


class LateTensor(Tensor):
    """The port of one step whose loads and stores act late.

    GPUs wait for the registers of a load by themselves, which compilers rely on (`warpsim.analysis.tensor_loads`). So only those loads
    are late whose registers nothing touches before the wait.
    """

    def load(self, address: Array, tile: Tile) -> tuple[Array, ...]:
        """Start to load the registers of warps; they are poisoned until then."""
        instruction, notes = present(self.group), self.group.plan.notes
        if AWAITED not in notes:
            function = self.group.plan.function
            notes[AWAITED] = {id(load): load for load in awaited_loads(function, blocks_of(function)[0])}
        if id(instruction) not in notes[AWAITED]:
            return super().load(address, tile)
        _, ctas, positions, places = self.announced(READ, address, tile)
        taken = np.zeros((len(ctas), *tile.row.shape), np.uint32)
        registers = tuple(instruction.outputs[0].registers)
        self._start(LOADS, positions, TensorLoad(ctas, np.array(places), tile, taken, registers))
        warps = self.group.warps
        return tuple([np.full((warps.n, 32, warps.m), POISON, np.uint32)] * len(registers))

    def store(self, address: Array, tile: Tile, registers: tuple[Array, ...]) -> None:
        """Start to store registers of warps."""
        which, ctas, positions, places = self.announced(WRITE, address, tile)
        if not len(positions):
            return
        cells = cells_of(self.group, which, tile, registers)
        parts = cells.reshape(len(ctas), len(places), tile.lanes, -1).swapaxes(0, 1)
        self._start(STORES, positions, TensorStore(ctas, np.array(places), parts))

    def _start(self, kind: str, positions: Array, work: TensorLoad | TensorStore) -> None:
        if len(positions):
            transfer = Transfer(self.group, positions, work, kind=kind, asynchronous=False)
            transfers.start(self.machine, self.group, self.active, transfer)

    def waited(self, *, stores: bool) -> None:
        """Let the warps' loads or stores act, and give loads their registers."""
        super().waited(stores=stores)
        kind, lanes = STORES if stores else LOADS, self.group.lanes(self.active)
        due = [
            (transfer, np.flatnonzero(transfer.open & np.isin(transfer.positions, lanes)))
            for transfer in self.machine.batch.transfers.open
            if transfer.kind == kind
        ]
        transfers.wait(self.machine, self.group, self.active, kind, 0, everything=True)
        for transfer, which in due:
            if isinstance(transfer.work, TensorLoad) and len(which):
                self._give(transfer.work, transfer.positions[which], which)

    def _give(self, work: TensorLoad, positions: Array, which: Array) -> None:
        """Write what some warps have loaded to their registers."""
        warps, n_ctas = self.group.warps, self.machine.batch.shape.n_ctas
        first = warps.first_thread[:, None] * n_ctas + np.broadcast_to(warps.ctas, (warps.n, warps.m))
        here = np.isin(first, positions)
        words = np.zeros((*first.shape, *work.taken.shape[1:]), np.uint32)
        order = np.argsort(positions)
        words[here] = work.taken[which[order[np.searchsorted(positions[order], first[here])]]]
        lanes = as_array(warps.collect(np.broadcast_to(here[:, None], (warps.n, 32, warps.m))))
        for register, word in zip(work.registers, np.moveaxis(words, (2, 3), (0, 2)), strict=True):
            old = as_array(self.group.read(register))
            self.group.set(register, np.where(lanes, as_array(warps.collect(word)).view(old.dtype), old))


def tensor_port(machine: Machine, group: Group, active: Array | None) -> Tensor:
    """The port of one step."""
    return (LateTensor if transfers.late(machine) else Tensor)(machine, group, active)
