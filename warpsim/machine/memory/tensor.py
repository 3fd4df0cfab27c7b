"""Tensor memory as instructions access it: rectangles of cells by address (bits 31 to 16 the lane, 15 to 0 the column).

Accesses come as lists of ``k``: the CTA of each (its column of the batch), its address, and for all the same extent in lanes and
columns. They are announced, which checks them, when an instruction is issued, and made then or later.
"""

from __future__ import annotations

import numpy as np

from warpsim.layout.tensor_memory import BLOCK, BLOCKS, COLUMNS, LANES, QUARTER, Tile
from warpsim.machine.hooks import READ, WRITE, TensorAccess
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import Address
from warpsim.machine.memory.tensor_allocation import Issuers, allocate, free, refuse, relinquish
from warpsim.machine.specials import ranks_of
from warpsim.machine.state.group import Group
from warpsim.machine.state.tensor_memory import TensorMemory
from warpsim.machine.values import Array
from warpsim.numerics.arrays import distinct

ADD = "add the warp's number modulo 4, times 32, to bits 16 to 31 of the address"
OWN = "access only columns that tcgen05.alloc gave and tcgen05.dealloc has not taken back"


def peers(machine: Machine, ctas: Array) -> Array:
    """The other CTA of each CTA's pair (their ranks in the cluster differ in the last bit only), -1 if there is none."""
    return machine.cluster_peer(ctas, ranks_of(machine.launch, machine.batch)[ctas] ^ 1)


def announce(
    machine: Machine,
    group: Group,
    kind: int,
    ctas: Array,
    positions: Array,
    address: Array,
    lanes: int,
    columns: int,
    part: str = "",
) -> Array:
    """Check accesses (``kind``: READ or WRITE) and report them to the hooks; a mask ``[k]`` of those to allocated cells.

    ``positions`` are the threads that ask, or the first ones of their warps; ``part`` is the operand that names the cells.
    """
    lane, column = places(address)
    good = _allocated(machine, group, ctas, lane, column, lanes, columns)
    if machine.hooks.tensor_accessed is not None and not machine.muted:
        ctas, lane, column, positions = (a[good] for a in (ctas, lane, column, positions))
        machine.hooks.tensor_accessed(
            machine, group, TensorAccess(kind, ctas, lane, column, lanes, columns, positions, part)
        )
    return good


def places(address: Array) -> tuple[Array, Array]:
    """The lanes and columns of addresses."""
    address = address.astype(np.int64)
    return address >> 16, address & 0xFFFF


FEW = 16
"""Different addresses that are accessed one by one."""


def read(memory: TensorMemory, ctas: Array, address: Array, lanes: int, columns: int) -> Array:
    """The words ``[k, lanes, columns]`` of rectangles within tensor memory, uint32."""
    several = distinct(address)
    if len(several) > FEW:
        every: Array = memory.space.flat.take(_index(memory, ctas, address, lanes, columns))
        return every
    found = np.empty((len(ctas), lanes, columns), np.uint32)
    for one in several:
        here = np.flatnonzero(address == one)
        found[here] = np.moveaxis(_block(memory, one, lanes, columns).take(ctas[here], axis=2), 2, 0)
    return found


def write(memory: TensorMemory, ctas: Array, address: Array, words: Array, mask: Array | None = None) -> None:
    """Write rectangles ``[k, lanes, columns]``, or the cells in ``mask`` (which broadcasts); where they overlap, the last stays."""
    memory.space.own()
    several = distinct(address)
    if mask is None and len(several) <= FEW:
        for one in several:
            here = np.flatnonzero(address == one)
            _block(memory, one, *words.shape[1:])[:, :, ctas[here]] = np.moveaxis(words[here], 0, 2)
        return
    index = _index(memory, ctas, address, *words.shape[1:])
    if mask is not None:
        mask = np.broadcast_to(mask, words.shape)
        index, words = index[mask], words[mask]
    memory.space.flat[index.reshape(-1)] = words.reshape(-1)


def _block(memory: TensorMemory, address: Array, lanes: int, columns: int) -> Array:
    """A view of the rectangle at one address, in all CTAs: ``[lanes, columns, n_ctas]``."""
    lane, column = places(address)
    return memory.cells()[lane : lane + lanes, column : column + columns]


def _index(memory: TensorMemory, ctas: Array, address: Array, lanes: int, columns: int) -> Array:
    """The index of each cell ``[k, lanes, columns]`` in the flat words."""
    lane, column = places(address)
    index: Array = (lane * COLUMNS + column)[:, None, None] + np.arange(lanes)[:, None] * COLUMNS + np.arange(columns)
    index *= memory.space.n_columns
    index += ctas[:, None, None]
    return index


def _allocated(
    machine: Machine, group: Group, ctas: Array, lane: Array, column: Array, lanes: int, columns: int
) -> Array:
    """A mask ``[k]`` of the accesses to allocated columns; the others are reported."""
    inside = (lane + lanes <= LANES) & (column + columns <= COLUMNS)
    free = np.zeros((len(ctas), BLOCKS + 1), np.int64)
    np.cumsum(machine.batch.tensor_memory().owner[ctas] == 0, axis=1, out=free[:, 1:])
    each, first, last = np.arange(len(ctas)), column // BLOCK, (column + columns - 1) // BLOCK
    first, last = np.minimum(first, BLOCKS - 1), np.minimum(last, BLOCKS - 1)
    good: Array = inside & (free[each, last + 1] == free[each, first])
    if good.all():
        return good
    k = int(np.flatnonzero(~good)[0])
    at, to = (int(lane[k]), int(column[k])), (int(lane[k]) + lanes - 1, int(column[k]) + columns - 1)
    why = "not all of which are allocated" if inside[k] else "of 128 lanes and 512 columns"
    message = f"accesses lanes {at[0]} to {to[0]}, columns {at[1]} to {to[1]} of tensor memory, {why}"
    refuse(machine, group, lanes_in(group, ctas[~good]), message, OWN, address=at[0] << 16 | at[1])
    return good


def lanes_in(group: Group, ctas: Array) -> Array:
    """A mask of the group's threads that are in some CTAs."""
    return np.broadcast_to(np.isin(group.selection.ctas, ctas), group.selection.shape)


def arranged(cells: Array, tile: Tile) -> Array:
    """The registers ``[k, registers, 32]`` of a tile's cells ``[k, lanes, columns]``."""
    if tile.packed:
        cells = cells[:, :, ::2] & np.uint32(0xFFFF) | cells[:, :, 1::2] << np.uint32(16)
    k, lanes, columns = cells.shape
    return cells.reshape(k, lanes * columns).take(tile.row * columns + tile.column, axis=1)


def cells_of(group: Group, which: Array, tile: Tile, registers: tuple[Array, ...]) -> Array:
    """The cells ``[k, lanes, columns]`` of some warps, as indices into ``n * m``, from their registers ``[n, 32, m]``."""
    n, m = group.warps.n, group.warps.m
    words = np.empty((n, m, len(registers), 32), np.uint32)
    for r, register in enumerate(registers):
        words[:, :, r] = np.broadcast_to(register.view(np.uint32), (n, 32, m)).transpose(0, 2, 1)
    rows = len(tile.offsets) * tile.lanes
    cells = np.empty((len(which), rows, tile.columns >> tile.packed), np.uint32)
    cells[:, tile.row, tile.column] = words.reshape(n * m, -1, 32)[which]
    if tile.packed:
        halves = np.stack([cells & np.uint32(0xFFFF), cells >> np.uint32(16)], axis=3)
        cells = halves.reshape(len(which), rows, 2 * cells.shape[2])
    return cells


class Tensor:
    """The port of one step: loads and stores of whole warps ``[n, 32, m]``, and allocation."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        self.machine, self.group, self.active = machine, group, active
        self.memory = machine.batch.tensor_memory()

    def load(self, address: Array, tile: Tile) -> tuple[Array, ...]:
        """The registers of warps, each of which names one address."""
        n, m = self.group.warps.n, self.group.warps.m
        which, ctas, _, places = self.announced(READ, address, tile)
        cells = np.concatenate([read(self.memory, ctas, at, tile.lanes, tile.columns) for at in places], axis=1)
        out = np.zeros((n * m, *tile.row.shape), np.uint32)
        out[which] = arranged(cells, tile)
        return tuple(out.reshape(n, m, -1, 32).transpose(2, 0, 3, 1))

    def store(self, address: Array, tile: Tile, registers: tuple[Array, ...]) -> None:
        """Store registers of warps."""
        which, ctas, _, places = self.announced(WRITE, address, tile)
        cells = cells_of(self.group, which, tile, registers)
        for at, part in zip(places, np.split(cells, len(places), axis=1), strict=True):
            write(self.memory, ctas, at, part)

    def announced(self, kind: int, address: Array, tile: Tile) -> tuple[Array, Array, Array, list[Array]]:
        """The warps that may access, as indices into ``n * m``, their CTAs and first threads' positions, and the addresses of each
        part of the tile."""
        warps = Issuers(self.machine, self.group, self.active)
        which, ctas, positions = warps.which, warps.ctas, warps.positions
        base = np.broadcast_to(address[:, 0], warps.shape).reshape(-1)[which].astype(np.uint32)
        base = self._from_first_lane(warps, base)
        places = [base + np.uint32(offset) for offset in tile.offsets]
        good = self._in_quarter(warps, base, tile)
        for at in places:
            here = announce(
                self.machine, self.group, kind, ctas[good], positions[good], at[good], tile.lanes, tile.columns
            )
            good[good] = here
        return which[good], ctas[good], positions[good], [at[good] for at in places]

    def _from_first_lane(self, warps: Issuers, address: Array) -> Array:
        """Addresses in the warps' own quarters of those in the first, which DeepGEMM and TileLang pass for all warps: a GPU reaches the
        warp's own lanes."""
        moved = np.where(address >> 16 < QUARTER, warps.first // 32 % 4 * QUARTER, 0)
        if moved.any():
            refuse(
                self.machine,
                self.group,
                warps.lanes(moved > 0),
                f"warp {int(warps.first[moved > 0][0]) // 32} names lanes of warp 0, and accesses its own",
                ADD,
                severity="note",
            )
        return address + (moved << 16).astype(np.uint32)

    def _in_quarter(self, warps: Issuers, address: Array, tile: Tile) -> Array:
        """A mask of the warps that access their own quarter of the lanes, from where a rectangle may begin."""
        lane, _ = places(address)
        own = warps.first // 32 % 4 * QUARTER
        good: Array = (lane >= own) & (lane + tile.lanes <= own + QUARTER) & (lane % tile.lanes == 0)
        if not good.all():
            k = int(np.flatnonzero(~good)[0])
            refuse(
                self.machine,
                self.group,
                warps.lanes(~good),
                f"warp {int(warps.first[k]) // 32} accesses lanes {int(lane[k])} to {int(lane[k]) + tile.lanes - 1} of tensor memory;"
                f" it reaches lanes {int(own[k])} to {int(own[k]) + QUARTER - 1}, from a multiple of {tile.lanes}",
                ADD,
                address=int(address[k]),
            )
        return good

    def waited(self, *, stores: bool) -> None:
        """Note that warps wait for their loads or stores."""
        if self.machine.hooks.tensor_waited is not None:
            self.machine.hooks.tensor_waited(self.machine, self.group, self.active, stores)

    def allocate(self, space: str, at: Address, columns: Array) -> None:
        """Allocate columns for each warp, and store their address."""
        allocate(self.machine, self.group, self.active, space, at, columns)

    def free(self, address: Array, columns: Array) -> None:
        """Free what warps have allocated."""
        free(self.machine, self.group, self.active, address, columns)

    def relinquish(self) -> None:
        """The CTAs allocate nothing any more."""
        relinquish(self.machine, self.group, self.active)
