"""The memory port: loads, stores and atomics of one group in every state space.

Affine addresses become strided views of memory; others are checked by their extremes and gathered. Bounds, alignment
and read-only mappings are always checked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpsim.isa.ports import Atomic
from warpsim.machine.memory import global_access, word_access
from warpsim.machine.memory.addresses import Address, Extent, lifted, space_of
from warpsim.machine.memory.atomics import apply_atomic
from warpsim.machine.memory.port import Port
from warpsim.machine.memory.word_access import access_rows
from warpsim.machine.state.global_memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from warpsim.machine.values import Affine, Array, DType, Value, as_array, spread
from warpsim.types import ScalarType


class Memory(Port):
    """The port of one step."""

    __slots__ = ()

    # ---- the port ----------------------------------------------------------------------------

    def load(self, space: str, address: Address, type: ScalarType, count: int = 1) -> tuple[Array, ...]:
        """Load ``count`` consecutive elements from each lane's address."""
        if space == "const" or space.startswith("param"):
            address = lifted(space, address)
        kind = space_of(space, address, self.active)
        if kind == "":
            return self._by_space(address, lambda port, k, a: port.load(k, a, type, count), type, count)
        if kind == "global":
            return self.load_global(address, type.dtype, count)
        return word_access.load(self, kind, address, type.dtype, count)

    def store(self, space: str, address: Address, type: ScalarType, values: tuple[Array, ...]) -> None:
        """Store consecutive elements at each lane's address; at equal addresses, the last lane wins."""
        kind = space_of(space, address, self.active)
        if kind == "":

            def put(port: Memory, k: str, a: Address) -> tuple[()]:
                port.store(k, a, type, values)
                return ()

            self._by_space(address, put, None, 0)
            return
        if kind == "local":
            self.globals.private += 1
        else:
            self.globals.version += 1
        dtype = type.dtype
        for v in values:
            if v.dtype is not dtype or isinstance(v, Affine):
                values = tuple([_view(v, dtype) for v in values])
                break
        if kind == "global":
            self.store_global(address, values)
        else:
            word_access.store(self, kind, address, values)

    def atomic(self, space: str, address: Address, type: ScalarType, atomic: Atomic, *, returns: bool) -> Array | None:
        """Do one read-modify-write per lane, in the order CTA, warp, lane; returns no old values if they are never read."""
        returns = returns and not (self.unused and not self.machine.launch.settings.keeps)
        name = space_of(space)
        if name == "":

            def access(port: Memory, k: str, a: Address) -> tuple[Array, ...]:
                if k == "local":
                    place = np.broadcast_to(a.places, port.group.selection.shape)
                    first = place[... if port.active is None else port.active].flat[0]
                    message = f"an atomic at address 0x{first:x} of local memory"
                    advice = "atomics take addresses in global and shared memory (atom, red)"
                    self.machine.fault("out-of-bounds", message, port.group, port.active, advice=advice)
                old = port.atomic(k, a, type, atomic, returns=returns)
                return () if old is None else (old,)

            got = self._by_space(address, access, type if returns else None, 1)
            return got[0] if got else None
        if atomic.shared is not None and name.startswith("shared"):
            atomic = Atomic(atomic.shared, atomic.operands, atomic.kind)
        return apply_atomic(self, name, address, type.dtype, atomic, returns=returns)

    def load_global(self, address: Address, dtype: DType, count: int) -> tuple[Array, ...]:
        """Load from global memory."""
        return global_access.load(self, address, dtype, count)

    def store_global(self, address: Address, values: tuple[Array, ...]) -> None:
        """Store to global memory."""
        global_access.store(self, address, values)

    def shifted(self, address: Address, delta: Array) -> Address:
        """Advance an address by a number of bytes per lane."""
        return Address(as_array(address.base).astype(np.int64) + delta, address.offset)

    def residue(self, address: Address, nbytes: int) -> Array:
        """Each lane's address modulo a number of bytes."""
        return address.places % nbytes

    def uneven(self, value: Address | Array) -> Array:
        """A mask of lanes whose value (or address) differs from that of the first lane of their warp."""
        array = as_array(value.base if isinstance(value, Address) else value)
        if array.size == 1:
            return np.zeros(array.shape, np.bool_)
        warps = self.group.warps
        wide = warps.spread(array)
        wrong = (wide != wide[:, :1]) & warps.active
        return warps.collect(spread(wrong, warps.active.shape))

    def outside(self, space: str, address: Address, *, generic: bool = False) -> Array:
        """A mask of lanes whose addresses are outside a space; without one, outside both global and shared memory.
        ``generic``: these are generic addresses.
        """
        place = address.places
        in_shared = (place >= SHARED_WINDOW) & (place < SHARED_WINDOW + WINDOW)
        in_local = (place >= LOCAL_WINDOW) & (place < LOCAL_WINDOW + WINDOW)
        kind = space_of(space)
        if kind.startswith("shared") and generic:
            return ~in_shared
        if kind.startswith("shared"):
            return (place < 0) | (place >= WINDOW)
        return in_local if kind == "" else in_local | in_shared

    def advance(self, address: Address, nbytes: int) -> Address:
        """Advance an address by ``nbytes``."""
        return address.advance(nbytes)

    def read_words(self, space: str, address: Array, count: int) -> tuple[Array, ...]:
        """Load 32-bit words of matrix rows; ``address`` is ``[n, k, m]`` in warp view."""
        return access_rows(self, space, address, count, None, None)

    def write_words(self, space: str, address: Array, words: tuple[Array, ...], active: Array) -> None:
        """Store 32-bit words of matrix rows where ``active``."""
        self.globals.version += 1
        access_rows(self, space, address, len(words), words, active)

    def among(self, active: Array) -> Memory:
        """The port restricted to some of its threads."""
        return type(self)(
            self.machine, self.group, active if self.active is None else active & self.active, unused=self.unused
        )

    def multiples(self, address: Address, nbytes: int) -> Memory:
        """The port restricted to the threads whose address is a multiple of so many bytes; the others fault."""
        odd = spread(self.residue(address, nbytes) != 0, self.group.selection.shape)
        odd = odd if self.active is None else odd & self.active
        if not odd.any():
            return self
        place = int(np.broadcast_to(address.places, odd.shape)[odd][0])
        message = f"address 0x{place:x} is not a multiple of the access size {nbytes}"
        self.machine.fault("misaligned", message, self.group, odd, address=place)
        return self.among(~odd)

    # ---- generic addresses -------------------------------------------------------------------

    def _by_space(
        self,
        address: Address,
        access: Callable[[Memory, str, Address], tuple[Array, ...]],
        type: ScalarType | None,
        count: int,
    ) -> tuple[Array, ...]:
        """What ``access`` returns for each lane's space: ``count`` elements of a type, or nothing (None)."""
        base, offset = address.base, address.offset
        if as_array(base).itemsize < 8:
            base = as_array(base).astype(np.int64)
        array = as_array(base).view(np.int64)
        low, high = int(array.min()) + offset, int(array.max()) + offset
        for kind, window in (("shared::cluster", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            if window <= low and high < window + WINDOW:
                moved = base - window if isinstance(base, Affine) else array - window
                return access(self, kind, Address(moved, offset, within=_of(kind, address)))
        if high < LOCAL_WINDOW or low >= SHARED_WINDOW + WINDOW:
            return access(self, "global", Address(base, offset, within=_of("global", address)))
        place = array + offset
        in_shared = (place >= SHARED_WINDOW) & (place < SHARED_WINDOW + WINDOW)
        in_local = (place >= LOCAL_WINDOW) & (place < LOCAL_WINDOW + WINDOW)
        parts = []
        for kind, window, mask in (
            ("shared::cluster", SHARED_WINDOW, in_shared),
            ("local", LOCAL_WINDOW, in_local),
            ("global", 0, ~(in_shared | in_local)),
        ):
            mask = mask if self.active is None else mask & self.active
            if mask.any():
                here = spread(mask, self.group.selection.shape)
                parts.append(
                    (here, access(self.among(here), kind, Address(array - window, offset, within=_of(kind, address))))
                )
        if type is None:
            return ()
        shape = self.group.selection.shape
        out = tuple([np.zeros(shape, type.dtype) for _ in range(count)])
        for mask, values in parts:
            for target, value in zip(out, values, strict=True):
                np.copyto(target, value, where=mask)
        return out


def _of(kind: str, address: Address) -> Extent | None:
    """The variable that a generic address is made from, if it is in this kind of memory."""
    within = address.within
    return within if within is not None and kind.startswith(within.kind) else None


def _view(value: Value, dtype: DType) -> Array:
    array = as_array(value)
    return array if array.dtype is dtype else array.view(dtype)
