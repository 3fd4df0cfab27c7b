"""Loads and stores of shared and local memory: whole rows of words if all columns use the same address, else gathers."""

from __future__ import annotations

from functools import partial

import numpy as np

from warpsim.machine.hooks import READ, WRITE, MemoryAccess
from warpsim.machine.machine import Machine
from warpsim.machine.memory.addresses import (
    CLUSTER_SHIFT,
    INDEX,
    OUTRIGHT,
    Address,
    Extent,
    RowProblem,
    bits_of,
    first_rank,
    last_along,
    misaligned,
    pattern_of,
    space_of,
)
from warpsim.machine.memory.port import Port, leave, shared_advice
from warpsim.machine.selection import Rect
from warpsim.machine.state.global_memory import SHARED_WINDOW, WINDOW
from warpsim.machine.state.group import Group
from warpsim.machine.state.word_space import WordSpace, join_words, split_words
from warpsim.machine.values import FLAT, Affine, Array, DType, Place, as_array, spread

I64, U32 = np.dtype(np.int64), np.dtype(np.uint32)


def columns_of(port: Port, kind: str) -> tuple[WordSpace, Array, bool]:
    """The words of a space, each lane's column, and whether the group covers all columns in order."""
    selection = port.group.selection
    if kind == "local":
        return port.local, selection.positions, selection.n == port.machine.batch.shape.n
    if type(selection) is Rect:
        return port.shared, selection.columns, selection.all_ctas
    return port.shared, selection.ctas, False


def locate(port: Port, kind: str, address: Address, nbytes: int) -> tuple[Place, WordSpace, Array, bool, Array | None]:
    """Byte address (int or int64 array) in a column, the space, the columns, whether rows suffice, and a mask of
    the lanes that may access."""
    base, offset, within = address.base, address.offset, address.within
    space, columns, covered = columns_of(port, kind)
    first, last = (0, space.size) if within is None else (within.low, min(within.high, space.size))
    if type(base) is Affine:
        low, high = base.limits()
        if low + offset >= first and high + offset + nbytes <= last:  # so there is no CTA rank above the offset
            at = base.base + offset
            if base.strides == FLAT:
                if at % nbytes == 0:
                    return at, space, columns, covered, port.active
            elif not any(part % nbytes for part in (at, *base.strides)):
                place = base.array().astype(np.int64) + offset
                # a base below zero has wrapped around: only with the offset is it an address
                return place if low >= 0 else place & 0xFFFFFFFF, space, columns, covered, port.active
    array = as_array(base)
    inside = _inside(array, offset, nbytes, first, last)
    if inside is not None:
        return inside, space, columns, covered, port.active
    array = (array.astype(np.int64) + offset) & 0xFFFFFFFF
    if kind == "shared::cluster" and int(array.max()) >> CLUSTER_SHIFT:
        array, columns = _remote(port, array, columns)
        covered = False
    low, high, errors = int(array.min()), int(array.max()), port.machine.errors
    if low < 0 or high + nbytes > space.size or misaligned(array, 0, nbytes):
        found, space, columns, covered, active = _word_faults(port, kind, array, space, columns, nbytes)
    else:
        found, active = array, port.active
    if within is not None and port.machine.errors == errors:
        leave(port, within, found, nbytes, active)
    return found, space, columns, covered, active


def _remote(port: Port, array: Array, columns: Array) -> tuple[Array, Array]:
    """Resolve addresses in another CTA of the cluster."""
    there = array >> CLUSTER_SHIFT
    peer = port.machine.cluster_peer(columns, np.maximum(there - first_rank(port.machine.launch.cluster), 0))
    found = (there > 0) & (peer >= 0)
    bad = spread((there > 0) & ~found, port.group.selection.shape)
    if port.active is not None:
        bad = bad & port.active
    if bad.any():
        message, cluster = "shared::cluster address names a CTA that is not in the cluster", port.machine.launch.cluster
        port.machine.fault("out-of-bounds", message, port.group, bad, cluster=cluster)
    return array & ((1 << CLUSTER_SHIFT) - 1), np.where(found, peer, columns)


def _word_faults(
    port: Port, kind: str, array: Array, space: WordSpace, columns: Array, nbytes: int
) -> tuple[Place, WordSpace, Array, bool, Array | None]:
    space.spare()
    shape = port.group.selection.shape
    place = spread(array, shape)
    active = np.ones(shape, np.bool_) if port.active is None else spread(port.active, shape)
    outside = active & ((place < 0) | (place + nbytes > space.size))
    odd = active & ~outside & (place % nbytes != 0)
    name = kind.split("::")[0]
    if odd.any():
        first = int(place[odd][0])
        port.machine.fault(
            "misaligned",
            f"{name} address 0x{first:x} is not a multiple of the access size {nbytes}",
            port.group,
            odd,
            address=first,
        )
    if outside.any():
        first = int(place[outside][0])
        port.machine.fault(
            "out-of-bounds",
            f"access of {nbytes} bytes at {name} address 0x{first:x} is outside the {space.size} bytes of {name} memory, by {first + nbytes - space.size} bytes",
            port.group,
            outside,
            address=first,
            advice=INDEX if name == "local" else shared_advice(port.machine.launch),
        )
    good = active & ~outside & ~odd
    return np.where(good, place, 0), space, columns, False, good


def _alike(port: Port, kind: str, address: Address, nbytes: int, *, write: bool) -> Affine | None:
    """Addresses of whole rows of words as they are, affine; None if they are not, or the checked path is needed."""
    base, selection = address.base, port.group.selection
    if type(base) is not Affine or base.strides == FLAT or kind == "local" or nbytes & 3:
        return None
    if not isinstance(selection, Rect) or not selection.all_ctas:
        return None
    if not in_rows(port.shared, base, address.offset, nbytes, address.within, write=write) or (
        write and port.active is not None
    ):
        return None
    return Affine(base.base + address.offset, base.strides, base.extents, I64)


def load(port: Port, kind: str, address: Address, dtype: DType, count: int) -> tuple[Array, ...]:
    """Load ``count`` consecutive elements from each lane's address; the first byte where a fault was reported."""
    size = dtype.itemsize
    at: Place | Affine | None = _alike(port, kind, address, size * count, write=False)
    if at is not None:
        (space, columns, covered), active = columns_of(port, kind), port.active
    else:
        at, space, columns, covered, active = locate(port, kind, address, size * count)
    if watched(port, space):
        everywhere = covered and _by_rows(kind, at)
        access = MemoryAccess(READ, kind, at, size * count, None, columns, active, None, everywhere)
        report(port, space, access)
    if covered and size * count >= 4:
        n_words = size * count // 4
        parts = _rows(port, kind, space, at, n_words)
        if parts is not None:
            if size == 4:
                return tuple([p.view(dtype) for p in parts])
            if size > 4:
                step = size // 4
                return tuple([join_words(parts[k * step : (k + 1) * step], dtype) for k in range(count)])
    place = lanewise(at)
    if place.ndim == 0:
        place = place.reshape((1,) * len(port.group.selection.shape))
    return tuple([space.gather(place + k * size, columns, dtype) for k in range(count)])


def watched(port: Port, space: WordSpace) -> bool:
    """Whether anybody is notified of an access."""
    return port.hooks.memory_accessed is not None or (space.shadow is not None and not space.shadow.settled)


def report(port: Port, space: WordSpace, access: MemoryAccess) -> None:
    """Report an access."""
    hooks = port.hooks
    if hooks.memory_accessed is not None:
        hooks.memory_accessed(port.machine, port.group, access)
    if hooks.shadow_accessed is not None and space.shadow is not None:
        hooks.shadow_accessed(port.machine, port.group, access)


def _rows(port: Port, kind: str, space: WordSpace, place: Place | Affine, n_words: int) -> list[Array] | None:
    """Whole rows of words, if the address does not depend on the column."""
    shape = port.machine.batch.shape.extents
    if type(place) is Affine:
        return [_view(port, space, place, k).copy() for k in range(n_words)]
    tail = shape if kind == "local" else (1, 1, *shape[2:])
    if isinstance(place, int):
        word = place >> 2
        return [space.words[word + k].reshape(tail).copy() for k in range(n_words)]
    if kind == "local" or place.ndim != 4 or place.shape[2] != 1 or place.shape[3] != 1:
        return None
    rows = place.reshape(-1) >> 2
    out = (place.shape[0], place.shape[1], *shape[2:])
    return [space.words.take(rows + k if k else rows, axis=0).reshape(out) for k in range(n_words)]


def _view(port: Port, space: WordSpace, place: Affine, k: int) -> Array:
    """The rows of words ``k`` words behind affine addresses that are the same in all columns."""
    return rows_view(space, place, place.base + 4 * k, port.machine.batch.shape.extents, U32)


def store(port: Port, kind: str, address: Address, values: tuple[Array, ...]) -> None:
    """Store consecutive elements at each lane's address; at equal addresses, the last lane wins."""
    size, count = values[0].dtype.itemsize, len(values)
    at: Place | Affine | None = _alike(port, kind, address, size * count, write=True)
    if at is not None:
        (space, columns, covered), active = columns_of(port, kind), None
    else:
        at, space, columns, covered, active = locate(port, kind, address, size * count)
    hooks = port.hooks
    if watched(port, space):
        everywhere = covered and _by_rows(kind, at)
        differs = partial(_differs, port, space, at, columns, active, values)
        access = MemoryAccess(WRITE, kind, at, size * count, None, columns, active, differs, everywhere)
        report(port, space, access)
    _store_words(port, kind, space, at, columns, active, values, covered=covered)
    if hooks.memory_written is not None:
        hooks.memory_written(port.machine, port.group)


def _store_words(
    port: Port,
    kind: str,
    space: WordSpace,
    place: Place | Affine,
    columns: Array,
    active: Array | None,
    values: tuple[Array, ...],
    *,
    covered: bool,
) -> None:
    size = values[0].dtype.itemsize
    shape = port.group.selection.shape
    rows = covered and _by_rows(kind, place)
    if space.shared:
        space.own()
    if rows and active is None and size >= 4:
        if kind != "local":
            _store_rows(port, space, place, values, shape)
            return
        words = [w for v in values for w in (split_words(v) if size > 4 else [v.view(np.uint32)])]
        assert isinstance(place, int), "affine addresses are of shared memory"
        for k, word in enumerate(words):
            space.words[(place >> 2) + k].reshape(shape)[...] = word
        return
    if isinstance(place, int) and columns.size == 1 and active is None:  # one place: the last lane wins
        for k, value in enumerate(values):
            space.scatter(place + k * size, columns.reshape(1), value.reshape(-1)[-1:])
        return
    place, columns = lanewise(place), spread(columns, shape)
    if active is not None:
        mask = spread(active, shape)
        place, columns = spread(place, shape)[mask], columns[mask]
    for k, value in enumerate(values):
        full = spread(value, shape)
        space.scatter(place + k * size if k else place, columns, full if active is None else full[mask])


def _differs(
    port: Port, space: WordSpace, place: Place | Affine, columns: Array, active: Array | None, values: tuple[Array, ...]
) -> Array:
    """A mask of the lanes whose values differ from memory."""
    shape = port.group.selection.shape
    found: Array = np.zeros(shape, np.bool_)
    at = spread(lanewise(place), shape)
    for k, value in enumerate(values):
        held = space.gather(at + k * value.dtype.itemsize, spread(columns, shape), value.dtype)
        found |= bits_of(held) != bits_of(value)
    return found if active is None else found & active


def _store_rows(
    port: Port, space: WordSpace, place: Place | Affine, values: tuple[Array, ...], shape: tuple[int, ...]
) -> None:
    words = [w for v in values for w in (split_words(v) if v.dtype.itemsize > 4 else [v.view(np.uint32)])]
    n_columns = space.n_columns
    if type(place) is Affine:
        for k, word in enumerate(words):
            view = _view(port, space, place, k)
            view[...] = last_along(word, view.shape)
        return
    if isinstance(place, int):
        for k, word in enumerate(words):
            last = last_along(word, (1, 1, *shape[2:]))
            space.words[(place >> 2) + k] = spread(last, (1, 1, *shape[2:])).reshape(n_columns)
        return
    index = place.reshape(-1) >> 2
    out = (*place.shape[:2], *shape[2:])
    for k, word in enumerate(words):
        last = last_along(word, out)
        rows = spread(last, out).reshape(len(index), n_columns) if last.shape != (1,) else last
        space.words[index + k] = rows


def in_rows(space: WordSpace, base: Affine, offset: int, nbytes: int, within: Extent | None, *, write: bool) -> bool:
    """Whether affine addresses plus an offset are whole words, within a space (or a variable in it), and the same in all its
    columns; for a store, also that no two lanes of a column share a byte."""
    strides, first = base.strides, base.base + offset
    if strides[2] or strides[3] or first % nbytes:
        return False
    pattern = pattern_of(strides, base.extents, nbytes)
    if not pattern.aligned or (write and not pattern.disjoint):
        return False
    low, high = (0, space.size) if within is None else (within.low, min(within.high, space.size))
    return first + pattern.low >= low and first + pattern.high <= high


def rows_view(space: WordSpace, place: Affine, first: int, extents: tuple[int, ...], dtype: DType) -> Array:
    """The rows of words at affine addresses that begin at ``first``, the same in all columns."""
    n, b0, (one, other, _, _) = space.n_columns, extents[3], place.strides
    shape = place.extents[0] if one else 1, place.extents[1] if other else 1, extents[2], b0
    return np.ndarray(shape, dtype, space.words, first * n, (one * n, other * n, 4 * b0, 4))


def _inside(array: Array, offset: int, nbytes: int, first: int, last: int) -> Array | None:
    """Byte addresses as int64 if all are aligned and within ``[first, last)``; else None."""
    low, high = int(np.minimum.reduce(array, axis=None)) + offset, int(np.maximum.reduce(array, axis=None)) + offset
    if low < first or high + nbytes > last:
        return None
    place = array.astype(np.int64)
    if offset:
        place += offset
    return None if misaligned(place, 0, nbytes) else place


def lanewise(place: Place | Affine) -> Array:
    """The address of each lane, int64."""
    return np.asarray(place.array() if type(place) is Affine else place, np.int64)


def _by_rows(kind: str, place: Place | Affine) -> bool:
    """Whether all columns are accessed at the same addresses."""
    if isinstance(place, (int, Affine)):
        return True
    return kind != "local" and place.ndim == 4 and place.shape[2] == 1 and place.shape[3] == 1


FEW = 1024
"""Most rows whose addresses are remembered."""


def access_rows(
    port: Port, space: str, address: Array, count: int, words: tuple[Array, ...] | None, active: Array | None
) -> tuple[Array, ...]:
    """Access words in warp view; ``address`` is ``[n, k, m]``."""
    warps = port.group.warps
    kind = space_of(space)
    if address.shape[2] > 1 and warps.dense and (address == address[:, :, :1]).all():
        address = address[:, :, :1]  # the same in every CTA
    nbytes = count * 4
    array, inside = _offsets(port, kind, address, nbytes)
    shape = (warps.n, array.shape[1], warps.m)
    if not inside:
        array, active = _row_faults(port, array, address, nbytes, active)
    columns = port.group.warps.ctas[:, None, :]
    notify = port.hooks.rows_accessed
    if notify is not None:
        access = READ if words is None else WRITE
        notify(port.machine, port.group, MemoryAccess(access, "shared", array, nbytes, None, columns, active))
    if words is not None:
        array, columns = spread(array, shape), spread(columns, shape)
        mask = np.ones(shape, np.bool_) if active is None else spread(active, shape)
        for k, word in enumerate(words):
            full = spread(word, shape)
            port.shared.scatter(array[mask] + 4 * k, columns[mask], full[mask].view(np.uint32))
        return ()
    selection = port.group.selection
    rows = warps.dense and array.shape[2] == 1
    if rows and isinstance(selection, Rect) and selection.all_ctas:
        index = array.reshape(-1) >> 2
        out = (array.shape[0], array.shape[1], port.shared.n_columns)
        return tuple([port.shared.words.take(index + k, axis=0, mode="clip").reshape(out) for k in range(count)])
    array = spread(array, shape)
    return tuple([port.shared.gather(array + 4 * k, columns, np.dtype(np.uint32)) for k in range(count)])


def _offsets(port: Port, kind: str, address: Array, nbytes: int) -> tuple[Array, bool]:
    """Addresses as offsets in shared memory, and whether all rows are inside it and aligned."""
    few, within = address.size <= FEW, port.within
    asked = None
    if few:
        asked = kind == "", nbytes, address.dtype.char, address.shape, address.tobytes(), within and within.low
    found = port.shared.views.get(asked)
    if found is not None:
        return found[0], True
    array = address.astype(np.int64)
    if kind == "":
        array = array - SHARED_WINDOW
    if int(array.min()) < 0 or int(array.max()) + nbytes > port.shared.size or misaligned(array, 0, nbytes):
        return array, False
    if within is not None and (int(array.min()) < within.low or int(array.max()) + nbytes > within.high):
        _leave_rows(port, within, array, nbytes)
        return array, True
    if few:
        port.shared.keep(asked, [array])
    return array, True


def _leave_rows(port: Port, within: Extent, array: Array, nbytes: int) -> None:
    """Notify of rows that leave the variable that their addresses are made from, by the first of them."""
    warps = port.group.warps
    rows = spread((array < within.low) | (array + nbytes > within.high), (warps.n, array.shape[1], warps.m))
    first = int(spread(array, rows.shape)[rows][0])
    lanes = lanes_of_rows(port.group, rows)
    if port.hooks.variable_left is not None:
        port.hooks.variable_left(port.machine, port.group, within, np.full(lanes.shape, first), nbytes, lanes)


def _row_faults(port: Port, array: Array, address: Array, nbytes: int, active: Array | None) -> tuple[Array, Array]:
    """Report rows that cannot be accessed. Returns the addresses, 0 for those rows, and a mask of the valid rows."""
    port.shared.spare()
    warps = port.group.warps
    shape = (warps.n, array.shape[1], warps.m)
    mask = np.ones(shape, np.bool_) if active is None else spread(active, shape)
    array = spread(array, shape)
    mask = _refused(port, RowProblem.SPACE, mask & ((array < 0) | (array >= WINDOW)), address, nbytes, mask)
    beyond = mask & (array + nbytes > port.shared.size)
    if beyond.any():
        first = int(array[beyond][0])
        port.machine.fault(
            "out-of-bounds",
            f"row address 0x{first:x} of shared memory cannot be accessed with {nbytes} bytes",
            port.group,
            lanes_of_rows(port.group, beyond),
            address=first,
            advice=shared_advice(port.machine.launch),
        )
        mask = mask & ~beyond
    mask = _refused(port, RowProblem.ALIGNMENT, mask & (array % nbytes != 0), array, nbytes, mask)
    return np.where(mask, array, 0), mask


def _refused(port: Port, problem: RowProblem, rows: Array, address: Array, nbytes: int, mask: Array) -> Array:
    """Report rows that cannot be accessed to the hooks, and as faults if no watcher does; returns the rest of
    ``mask``."""
    if not rows.any():
        return mask
    machine, group, before = port.machine, port.group, port.machine.errors
    if machine.hooks.rows_refused is not None:
        machine.hooks.rows_refused(machine, group, problem, rows, address, nbytes)
    if machine.errors == before:
        report_rows(machine, group, OUTRIGHT[problem], problem, rows, address, nbytes)
    return mask & ~rows


def lanes_of_rows(group: Group, rows: Array) -> Array:
    """All lanes of the warps of some rows."""
    warps = group.warps
    return warps.collect(np.broadcast_to(rows.any(axis=1, keepdims=True), (warps.n, 32, warps.m)))


def report_rows(
    machine: Machine, group: Group, rule: str, problem: RowProblem, rows: Array, address: Array, nbytes: int
) -> None:
    """Report rows that cannot be accessed, under a rule."""
    first = int(spread(address, rows.shape)[rows][0])
    lanes = lanes_of_rows(group, rows)
    machine.fault(rule, problem.message(first, nbytes), group, lanes, address=first, advice=problem.advice)
