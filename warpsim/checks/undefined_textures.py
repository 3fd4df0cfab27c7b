"""Undefined bits in textures and surfaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from warpsim.checks.undefined_memory import LeftMemory, UndefinedMemory
from warpsim.checks.undefined_registers import whole
from warpsim.isa.ports import MemoryPort
from warpsim.layout.textures import Fields
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import Address
from warpsim.machine.memory.textures import Part, Textures
from warpsim.machine.state.group import Group
from warpsim.machine.values import Array

U32 = np.dtype(np.uint32)


class UndefinedTextures(Textures):
    """A port whose loads return a 1 for each undefined bit (``left``: by a store). A channel is undefined where a bit is of what it is
    sampled from."""

    def __init__(self, machine: Machine, group: Group, active: Array | None, *, left: bool) -> None:
        super().__init__(machine, group, active)
        self._kind = LeftMemory if left else UndefinedMemory

    def memory(self, lanes: Array) -> MemoryPort:
        """The undefined bits of elements."""
        return self._kind(self.machine, self.group, lanes)

    def part(
        self, fields: Fields, geometry: str, coordinates: list[Array], mask: Array, *, whole: bool = False
    ) -> Part:
        """Lanes that name one object."""
        return _Part(self, fields, geometry, coordinates, mask, whole=whole)

    def _each(
        self, geometry: str, texture: Address, read: Callable[[Part], tuple[Array, ...]], *, whole: bool = False
    ) -> tuple[tuple[Array, ...], Array]:
        found, resident = super()._each(geometry, texture, read, whole=whole)
        return found, np.zeros_like(resident)


class Storing(Textures):
    """A port that notes what it would store: lanes, and their addresses."""

    def __init__(self, machine: Machine, group: Group, active: Array | None) -> None:
        super().__init__(machine, group, active)
        self.stored: list[tuple[Array, Address]] = []

    def memory(self, lanes: Array) -> MemoryPort:
        """Memory that keeps nothing."""
        return cast("MemoryPort", _Noting(lanes, self.stored))


class _Noting:
    def __init__(self, lanes: Array, stored: list[tuple[Array, Address]]) -> None:
        self.lanes, self.stored = lanes, stored

    def store(self, space: str, address: Address, *_: object) -> None:
        self.stored.append((self.lanes, address))

    def atomic(self, space: str, address: Address, *_: object, returns: bool) -> None:
        self.stored.append((self.lanes, address))


class _Part(Part):
    def alone(self, number: int, raw: Array) -> Array:
        return whole(U32, raw)

    def weighed(self, number: int, parts: Sequence[Array], weights: Sequence[Array], of_level: int = 1) -> Array:
        some = [(part != 0) & (weight != 0) for part, weight in zip(parts, weights, strict=True)]
        return whole(U32, np.logical_or.reduce(np.broadcast_arrays(*some)))

    def edge(self, number: int, value: float) -> Array:
        return np.zeros(1, np.uint8)
