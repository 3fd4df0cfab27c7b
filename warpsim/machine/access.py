"""The memory port: loads, stores and atomics of one group in every state space.

An address reaches the port as ``(base, offset)``, base affine or an array. Affine addresses become strided views of the
memory; others are checked by their extremes and gathered. Bounds, alignment and read-only mappings are always checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.machine.atomics import apply_atomic
from warpsim.machine.memory import FIRST_ADDRESS, LOCAL_WINDOW, SHARED_WINDOW, WINDOW, Allocation, GlobalMemory
from warpsim.machine.selection import Rect
from warpsim.machine.values import FLAT, Affine, Array, as_array
from warpsim.machine.word_space import WordSpace, join_words, split_words
from warpsim.types import ScalarType

if TYPE_CHECKING:
    from warpsim.machine.batch import Batch
    from warpsim.machine.group import Group

Address = tuple[Any, int]
CLUSTER_SHIFT = 24


class Memory:
    """The port of one batch; the step sets ``group`` and ``active`` (guard, or None) before it calls a body."""

    def __init__(self, batch: Batch, memory: GlobalMemory, shared: WordSpace, local: WordSpace) -> None:
        self.batch = batch
        self.globals = memory
        self.shared = shared
        self.local = local
        self.group: Group = None  # type: ignore[assignment]
        self.active: Array | None = None
        self.unused = False

    # ---- the port ----------------------------------------------------------------------------

    def load(self, space: str, address: Address, type: ScalarType, count: int = 1) -> tuple[Array, ...]:
        """``count`` consecutive elements from each lane's address."""
        kind = _space(space, address)
        if kind == "":
            return self._by_space(address, lambda k, a: self.load(k, a, type, count), type, count)
        if kind == "global":
            return self._load_global(address, type.dtype, count)
        return self._load_words(kind, address, type.dtype, count)

    def store(self, space: str, address: Address, type: ScalarType, values: tuple[Array, ...]) -> None:
        """Consecutive elements at each lane's address; of equal addresses the last lane's stay."""
        kind = _space(space, address)
        if kind == "":
            self._by_space(address, lambda k, a: self.store(k, a, type, values), None, 0)
            return
        self.globals.version += 1
        values = tuple([_view(v, type.dtype) for v in values])
        if kind == "global":
            self._store_global(address, values)
        else:
            self._store_words(kind, address, values)

    def atomic(
        self,
        space: str,
        address: Address,
        type: ScalarType,
        update: Callable[..., Array],
        operands: tuple[Array, ...],
        *,
        returns: bool,
        kind: str = "",
        shared: Callable[..., Array] | None = None,
    ) -> Array | None:
        """One read-modify-write a lane, in the order CTA, warp, lane; no old values where nobody reads them.

        ``shared`` is the update in shared memory where it differs."""
        returns = returns and not self.unused
        name = _space(space)
        if name == "":

            def access(k: str, a: Address) -> tuple[Array | None]:
                return (self.atomic(k, a, type, update, operands, returns=returns, kind=kind, shared=shared),)

            got = self._by_space(address, access, type, 1)
            return got[0] if returns else None
        if shared is not None and name.startswith("shared"):
            update = shared
        return apply_atomic(self, name, address, type.dtype, update, operands, returns, kind)

    def shifted(self, address: Address, delta: Array) -> Address:
        """An address moved by a number of bytes of each lane."""
        base, offset = address
        return as_array(base).astype(np.int64) + delta, offset

    def advance(self, address: Address, nbytes: int) -> Address:
        """The address ``nbytes`` further on."""
        return address[0], address[1] + nbytes

    def read_words(self, space: str, address: Array, count: int) -> tuple[Array, ...]:
        """32-bit words of matrix rows; ``address`` is ``[n, k, m]`` in warp view."""
        return self._row_access(space, address, count, None, None)

    def write_words(self, space: str, address: Array, words: tuple[Array, ...], active: Array) -> None:
        """32-bit words of matrix rows, stored where ``active``."""
        self.globals.version += 1
        self._row_access(space, address, len(words), words, active)

    # ---- generic addresses -------------------------------------------------------------------

    def _by_space(
        self, address: Address, access: Callable[[str, Address], Any], type: ScalarType | None, count: int
    ) -> Any:
        base, offset = address
        array = as_array(base).view(np.int64)
        low, high = int(array.min()) + offset, int(array.max()) + offset
        for kind, window in (("shared::cluster", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
            if window <= low and high < window + WINDOW:
                return access(kind, (base - window if type_is_affine(base) else array - window, offset))
        if high < LOCAL_WINDOW or low >= SHARED_WINDOW + WINDOW:
            return access("global", address)
        place = array + offset
        in_shared = (place >= SHARED_WINDOW) & (place < SHARED_WINDOW + WINDOW)
        in_local = (place >= LOCAL_WINDOW) & (place < LOCAL_WINDOW + WINDOW)
        outer, parts = self.active, []
        for kind, window, mask in (
            ("shared::cluster", SHARED_WINDOW, in_shared),
            ("local", LOCAL_WINDOW, in_local),
            ("global", 0, ~(in_shared | in_local)),
        ):
            mask = mask if outer is None else mask & outer
            if mask.any():
                self.active = np.broadcast_to(mask, self.group.selection.shape)
                parts.append((self.active, access(kind, (array - window, offset))))
        self.active = outer
        if type is None or not parts or parts[0][1] is None or parts[0][1][0] is None:
            return (None,)
        shape = self.group.selection.shape
        out = tuple([np.zeros(shape, type.dtype) for _ in range(count)])
        for mask, values in parts:
            for target, value in zip(out, values, strict=True):
                np.copyto(target, value, where=mask)
        return out

    # ---- global ------------------------------------------------------------------------------

    def affine_view(self, base: Affine, offset: int, dtype: np.dtype[Any], count: int, write: bool) -> Array | None:
        """A strided view of global memory ``[T1, T0, C1, C0, count]``, or None where the checked way is needed."""
        low, high = base.limits()
        low, high = low + offset, high + offset
        nbytes = dtype.itemsize * count
        if low < 0 or (base.base + offset) % nbytes:
            return None
        allocation = self.globals.find(low, high + nbytes)
        if allocation is None or (write and allocation.read_only):
            return None
        strides = base.strides
        if any(s % nbytes for s in strides):
            return None
        shape = tuple([e if s else 1 for s, e in zip(strides, base.extents, strict=True)])
        steps = (*strides, dtype.itemsize)
        return np.ndarray((*shape, count), dtype, allocation.data, base.base + offset - allocation.start, steps)

    def _load_global(self, address: Address, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
        base, offset = address
        if type(base) is Affine and (self.active is None or base.strides == FLAT):
            view = self.affine_view(base, offset, dtype, count, False)
            if view is not None:
                if base.strides == FLAT:
                    view = view.reshape((*(1,) * len(self.group.selection.shape), count))
                return tuple([view[..., k].copy() for k in range(count)])
        array = as_array(base).view(np.int64)
        nbytes = dtype.itemsize * count
        low, high = int(array.min()) + offset, int(array.max()) + offset
        allocation = self.globals.find(low, high + nbytes)
        if allocation is not None and not self._odd(array, offset, nbytes):
            return _take(allocation, array, offset, dtype, count)
        return self._load_checked(array, offset, dtype, count)

    def _odd(self, array: Array, offset: int, nbytes: int) -> bool:
        if nbytes == 1:
            return False
        if array.size == 1:
            return bool((int(array.reshape(-1)[0]) + offset) % nbytes)
        seen = (
            int(np.bitwise_or.reduce(array, axis=None))
            if offset % nbytes == 0
            else int(np.bitwise_or.reduce(array + offset, axis=None))
        )
        return bool(seen & (nbytes - 1))

    def _load_checked(self, array: Array, offset: int, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
        place, owner, good = self._resolve(array, offset, dtype.itemsize * count, False)
        out = tuple([np.zeros(place.shape, dtype) for _ in range(count)])
        for index in np.unique(owner[good]):
            here = good & (owner == index)
            for target, values in zip(
                out, _take(self.globals.allocation(int(index)), place[here], 0, dtype, count), strict=True
            ):
                target[here] = values
        return out

    def _resolve(self, array: Array, offset: int, nbytes: int, write: bool) -> tuple[Array, Array, Array]:
        """Absolute addresses in the group's shape, their allocations, and which lanes may access (faults reported)."""
        shape = self.group.selection.shape
        place = np.broadcast_to(array + offset, shape)
        active = np.ones(shape, np.bool_) if self.active is None else np.broadcast_to(self.active, shape)
        owner = self.globals.owners(place, nbytes)
        good = (
            active & (owner >= 0) & (place & (nbytes - 1) == 0 if nbytes & (nbytes - 1) == 0 else place % nbytes == 0)
        )
        if not np.array_equal(good, active):
            bad = active & ~good
            first = int(place[bad][0])
            odd = bad & (owner >= 0)
            if odd.any():
                self.batch.fault(
                    "misaligned",
                    f"address 0x{int(place[odd][0]):x} is not a multiple of the access size {nbytes}",
                    self.group,
                    odd,
                    address=int(place[odd][0]),
                )
            outside = bad & (owner < 0)
            if outside.any():
                first = int(place[outside][0])
                self.batch.fault("out-of-bounds", self._outside(first, nbytes), self.group, outside, address=first)
        if write and good.any():
            locked = np.array([a.read_only for a in self.globals._allocations] or [False])
            wrong = good & locked[np.maximum(owner, 0)]
            if wrong.any():
                first = int(place[wrong][0])
                name = self.globals.allocation(int(owner[wrong][0])).name
                self.batch.fault(
                    "read-only",
                    f"store of {nbytes} bytes to address 0x{first:x} of {name}, which is read-only",
                    self.group,
                    wrong,
                    address=first,
                )
                good = good & ~wrong
        return place, owner, good

    def _outside(self, address: int, nbytes: int) -> str:
        text = f"access of {nbytes} bytes at address 0x{address:x} is outside any live allocation"
        near = self.globals.nearest(address)
        if near is None:
            return text
        allocation, distance = near
        where = (
            f"{-distance} bytes before"
            if distance < 0
            else (f"{distance} bytes past the end of" if distance else "at the end of")
        )
        return f"{text}; it is {where} {allocation.name} [0x{allocation.start:x}, 0x{allocation.end:x})"

    def _store_global(self, address: Address, values: tuple[Array, ...]) -> None:
        base, offset = address
        dtype, count = values[0].dtype, len(values)
        nbytes = dtype.itemsize * count
        if type(base) is Affine and self.active is None:
            view = self.affine_view(base, offset, dtype, count, True)
            if view is not None and _disjoint(base, nbytes):
                for k, value in enumerate(values):
                    view[..., k] = _last_along(value, view.shape[:-1])
                return
        array = as_array(base).view(np.int64)
        low, high = int(array.min()) + offset, int(array.max()) + offset
        allocation = self.globals.find(low, high + nbytes)
        shape = self.group.selection.shape
        if (
            allocation is not None
            and not allocation.read_only
            and self.active is None
            and not self._odd(array, offset, nbytes)
        ):
            index = np.broadcast_to((array + (offset - allocation.start)) // nbytes, shape)
            _put(allocation, _cta_order(index), tuple([_cta_order(np.broadcast_to(v, shape)) for v in values]))
            return
        place, owner, good = self._resolve(array, offset, nbytes, True)
        place, owner, good = _cta_order(place), _cta_order(owner), _cta_order(good)
        full = [_cta_order(np.broadcast_to(v, shape)) for v in values]
        for which in np.unique(owner[good]):
            here = good & (owner == which)
            chosen = self.globals.allocation(int(which))
            _put(chosen, (place[here] - chosen.start) // nbytes, tuple([v[here] for v in full]))

    # ---- shared and local --------------------------------------------------------------------

    def columns(self, kind: str) -> tuple[WordSpace, Array, bool]:
        """The words of a space, each lane's column, and whether the group covers all columns in order."""
        selection = self.group.selection
        if kind == "local":
            return self.local, selection.positions, selection.n == self.batch.shape.n
        covered = isinstance(selection, Rect) and selection.all_ctas
        if isinstance(selection, Rect):
            return self.shared, selection.columns, covered
        return self.shared, selection.ctas, False

    def _word_address(
        self, kind: str, address: Address, nbytes: int
    ) -> tuple[Any, WordSpace, Array, bool, Array | None]:
        """Byte address (int or int64 array) in a column, the space, the columns, whether rows serve, and who may."""
        base, offset = address
        space, columns, covered = self.columns(kind)
        if type(base) is Affine and base.strides == FLAT:
            value = base.base + offset
            value &= 0xFFFFFFFF
            if (
                not (kind == "shared::cluster" and value >> CLUSTER_SHIFT)
                and value % nbytes == 0
                and value + nbytes <= space.size
            ):
                return value, space, columns, covered, self.active
        array = as_array(base)
        array = (array.astype(np.int64) + offset) & 0xFFFFFFFF
        if kind == "shared::cluster" and int(array.max()) >> CLUSTER_SHIFT:
            array, columns = self._remote(array, columns)
            covered = False
        low, high = int(array.min()), int(array.max())
        if low >= 0 and high + nbytes <= space.size and not self._odd(array, 0, nbytes):
            return array, space, columns, covered, self.active
        return self._word_faults(kind, array, space, columns, nbytes)

    def _remote(self, array: Array, columns: Array) -> tuple[Array, Array]:
        """Addresses in another CTA of the cluster: the rank plus one stands in the bits above the offset."""
        rank = (array >> CLUSTER_SHIFT) - 1
        peer = self.batch.cluster_peer(columns, np.maximum(rank, 0))
        bad = (rank >= 0) & (peer < 0)
        if bad.any():
            self.batch.fault(
                "out-of-bounds",
                "shared::cluster address names a CTA that is not in the cluster",
                self.group,
                np.broadcast_to(bad, self.group.selection.shape),
            )
        return array & ((1 << CLUSTER_SHIFT) - 1), np.where(rank >= 0, peer, columns)

    def _word_faults(
        self, kind: str, array: Array, space: WordSpace, columns: Array, nbytes: int
    ) -> tuple[Any, WordSpace, Array, bool, Array | None]:
        shape = self.group.selection.shape
        place = np.broadcast_to(array, shape)
        active = np.ones(shape, np.bool_) if self.active is None else np.broadcast_to(self.active, shape)
        outside = active & ((place < 0) | (place + nbytes > space.size))
        odd = active & ~outside & (place % nbytes != 0)
        name = kind.split("::")[0]
        if odd.any():
            first = int(place[odd][0])
            self.batch.fault(
                "misaligned",
                f"{name} address 0x{first:x} is not a multiple of the access size {nbytes}",
                self.group,
                odd,
                address=first,
            )
        if outside.any():
            first = int(place[outside][0])
            self.batch.fault(
                "out-of-bounds",
                f"access of {nbytes} bytes at {name} address 0x{first:x} is outside the {space.size} bytes of {name} memory, by {first + nbytes - space.size} bytes",
                self.group,
                outside,
                address=first,
            )
        good = active & ~outside & ~odd
        return np.where(good, place, 0), space, columns, False, good

    def _load_words(self, kind: str, address: Address, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
        place, space, columns, covered, _ = self._word_address(kind, address, dtype.itemsize * count)
        size = dtype.itemsize
        if covered and size * count >= 4:
            n_words = size * count // 4
            parts = self._rows(kind, space, place, n_words)
            if parts is not None:
                if size == 4:
                    return tuple([p.view(dtype) for p in parts])
                if size > 4:
                    step = size // 4
                    return tuple([join_words(parts[k * step : (k + 1) * step], dtype) for k in range(count)])
        place = np.asarray(place, np.int64)
        if place.ndim == 0:
            place = place.reshape((1,) * len(self.group.selection.shape))
        return tuple([space.gather(place + k * size, columns, dtype) for k in range(count)])

    def _rows(self, kind: str, space: WordSpace, place: Any, n_words: int) -> list[Array] | None:
        """Whole rows of words where the address does not depend on the column."""
        shape = self.batch.shape.extents
        tail = shape if kind == "local" else (1, 1, *shape[2:])
        if isinstance(place, int):
            word = place >> 2
            return [space.words[word + k].reshape(tail).copy() for k in range(n_words)]
        if kind == "local" or place.ndim != 4 or place.shape[2] != 1 or place.shape[3] != 1:
            return None
        word = place.reshape(-1) >> 2
        out = (place.shape[0], place.shape[1], *shape[2:])
        return [space.words.take(word + k if k else word, axis=0).reshape(out) for k in range(n_words)]

    def _store_words(self, kind: str, address: Address, values: tuple[Array, ...]) -> None:
        size, count = values[0].dtype.itemsize, len(values)
        place, space, columns, covered, active = self._word_address(kind, address, size * count)
        shape = self.group.selection.shape
        if covered and active is None and size >= 4 and kind != "local":
            rows = isinstance(place, int) or (place.ndim == 4 and place.shape[2] == 1 and place.shape[3] == 1)
            if rows:
                self._store_rows(space, place, values, shape)
                return
        if covered and active is None and size >= 4 and isinstance(place, int):
            words = [w for v in values for w in (split_words(v) if size > 4 else [v.view(np.uint32)])]
            for k, word in enumerate(words):
                space.words[(place >> 2) + k].reshape(shape)[...] = word
            return
        place = np.broadcast_to(np.asarray(place, np.int64), shape)
        columns = np.broadcast_to(columns, shape)
        for k, value in enumerate(values):
            full = np.broadcast_to(value, shape)
            if active is None:
                space.scatter(place + k * size, columns, full)
            else:
                mask = np.broadcast_to(active, shape)
                space.scatter(place[mask] + k * size, columns[mask], full[mask])

    def _store_rows(self, space: WordSpace, place: Any, values: tuple[Array, ...], shape: tuple[int, ...]) -> None:
        words = [w for v in values for w in (split_words(v) if v.dtype.itemsize > 4 else [v.view(np.uint32)])]
        n_columns = space.n_columns
        if isinstance(place, int):
            for k, word in enumerate(words):
                last = _last_along(word, (1, 1, *shape[2:]))
                space.words[(place >> 2) + k] = np.broadcast_to(last, (1, 1, *shape[2:])).reshape(n_columns)
            return
        index = place.reshape(-1) >> 2
        out = (*place.shape[:2], *shape[2:])
        for k, word in enumerate(words):
            last = _last_along(word, out)
            rows = np.broadcast_to(last, out).reshape(len(index), n_columns) if last.shape != (1,) else last
            space.words[index + k] = rows

    # ---- matrix rows -------------------------------------------------------------------------

    def _row_access(
        self, space: str, address: Array, count: int, words: tuple[Array, ...] | None, active: Array | None
    ) -> tuple[Array, ...]:
        """Word accesses in warp view: ``address`` is ``[n, k, m]``."""
        warps = self.group.warps
        kind = _space(space)
        array = address.astype(np.int64)
        if kind == "":
            low = int(array.min())
            if low >= SHARED_WINDOW:
                kind, array = "shared", array - SHARED_WINDOW
            else:
                kind = "global"
        nbytes = count * 4
        shape = (warps.n, array.shape[1], warps.m)
        if kind.startswith("shared") and warps.dense and array.shape[2] == 1 and words is None:
            selection = self.group.selection
            assert isinstance(selection, Rect)
            if (
                selection.all_ctas
                and int(array.min()) >= 0
                and int(array.max()) + nbytes <= self.shared.size
                and not self._odd(array, 0, nbytes)
            ):
                index = array.reshape(-1) >> 2
                out = (array.shape[0], array.shape[1], self.shared.n_columns)
                return tuple([self.shared.words.take(index + k, axis=0).reshape(out) for k in range(count)])
        array = np.broadcast_to(array, shape)
        mask = np.ones(shape, np.bool_) if active is None else np.broadcast_to(active, shape)
        size = self.shared.size
        if kind.startswith("shared"):
            bad = mask & ((array < 0) | (array + nbytes > size))
            odd = mask & ~bad & (array % nbytes != 0)
        else:
            bad = mask & (self.globals.owners(array, nbytes) < 0)
            odd = mask & ~bad & (array % nbytes != 0)
        for wrong, rule in (
            (bad, "out-of-bounds"),
            (odd, "matrix-alignment" if kind.startswith("shared") else "misaligned"),
        ):
            if wrong.any():
                first = int(array[wrong][0])
                what = "is not a multiple of" if wrong is odd else f"of {kind} memory cannot be accessed with"
                lanes = warps.collect(np.broadcast_to(wrong.any(axis=1, keepdims=True), (warps.n, 32, warps.m)))
                self.batch.fault(
                    rule, f"row address 0x{first:x} {what} {nbytes} bytes", self.group, lanes, address=first
                )
                mask = mask & ~wrong
        array = np.where(mask, array, 0) if not mask.all() else array
        if kind.startswith("shared"):
            columns = self._warp_columns(shape)
            if words is None:
                return tuple([self.shared.gather(array + 4 * k, columns, np.dtype(np.uint32)) for k in range(count)])
            for k, word in enumerate(words):
                full = np.broadcast_to(word, shape)
                self.shared.scatter(
                    array[mask] + 4 * k, np.broadcast_to(columns, shape)[mask], full[mask].view(np.uint32)
                )
            return ()
        return self._rows_global(array, count, words, mask)

    def _warp_columns(self, shape: tuple[int, ...]) -> Array:
        warps = self.group.warps
        if warps.dense:
            return (self.group.selection.positions[0, 0].reshape(-1) % self.batch.shape.n_ctas).reshape(1, 1, -1)
        return warps.warp_ctas.reshape(-1, 1, 1)

    def _rows_global(self, array: Array, count: int, words: tuple[Array, ...] | None, mask: Array) -> tuple[Array, ...]:
        out = tuple([np.zeros(array.shape, np.uint32) for _ in range(count)]) if words is None else ()
        owner = np.where(mask, self.globals.owners(array, count * 4), -1)
        for index in np.unique(owner[mask]):
            here = owner == index
            allocation = self.globals.allocation(int(index))
            rows = (array[here] - allocation.start) // 4
            flat = allocation.elements(np.dtype(np.uint32))
            for k in range(count):
                if words is None:
                    out[k][here] = flat[rows + k]
                else:
                    flat[rows + k] = np.broadcast_to(words[k], array.shape)[here].view(np.uint32)
        return out


def type_is_affine(value: Any) -> bool:
    """True for affine values."""
    return type(value) is Affine


_SPACES = {
    "": "",
    "generic": "",
    "const": "global",
    "global": "global",
    "param": "param",
    "param::entry": "global",
    "param::func": "local",
    "shared::cta": "shared",
}


def _space(name: str, address: Address | None = None) -> str:
    """The memory that a state space lies in; a function's parameters are local, a kernel's a read-only allocation."""
    if name.startswith("param") and address is not None:
        base, offset = address
        first = base.base if type(base) is Affine else int(base.reshape(-1)[0])
        return "global" if first + offset >= FIRST_ADDRESS else "local"
    return _SPACES.get(name, name)


def _view(value: Any, dtype: np.dtype[Any]) -> Array:
    array = as_array(value)
    return array if array.dtype is dtype else array.view(dtype)


def _take(allocation: Allocation, array: Array, offset: int, dtype: np.dtype[Any], count: int) -> tuple[Array, ...]:
    view = allocation.elements(dtype, count)
    nbytes = dtype.itemsize * count
    index = array + (offset - allocation.start)
    if nbytes > 1:
        index = index >> (nbytes.bit_length() - 1) if nbytes & (nbytes - 1) == 0 else index // nbytes
    if count == 1:
        return (view.take(index, mode="clip"),)
    rows = view.take(index, axis=0, mode="clip")
    return tuple([np.ascontiguousarray(rows[..., k]) for k in range(count)])


def _put(allocation: Allocation, index: Array, values: tuple[Array, ...]) -> None:
    view = allocation.elements(values[0].dtype, len(values))
    if len(values) == 1:
        view[index] = values[0]
        return
    for k, value in enumerate(values):
        view[index, k] = value


def _cta_order(array: Array) -> Array:
    """CTA axes first, so that the last in C order is the last in the order CTA, warp, lane."""
    return array.transpose(2, 3, 0, 1) if array.ndim == 4 else array


def _last_along(value: Array, shape: tuple[int, ...]) -> Array:
    """The last thread's value along axes that the target does not have."""
    if value.size == 1 or value.ndim != len(shape):
        return value
    for axis, extent in enumerate(shape):
        if extent == 1 and value.shape[axis] > 1:
            value = value.take([-1], axis=axis)
    return value


def _disjoint(base: Affine, nbytes: int) -> bool:
    """True where no two index tuples (of axes with a stride) touch the same byte."""
    reach = nbytes
    for stride, extent in sorted((abs(s), e) for s, e in zip(base.strides, base.extents, strict=True) if s):
        if stride < reach:
            return False
        reach = stride * (extent - 1) + reach
    return True
