"""Special registers, for all threads of a batch; the clocks of a launch, which advance when read."""

from __future__ import annotations

import numpy as np

from warpsim.analysis.shared_layout import RESERVED
from warpsim.errors import InternalError
from warpsim.machine.state.batch import BatchState
from warpsim.machine.state.launch import LaunchState
from warpsim.machine.values import Affine, Array

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
N_SM = 132
WARPS_OF_SM = {75: 32, **dict.fromkeys((86, 87, 89, 120, 121), 48)}
"""Most warps per SM by architecture, if not 64 (CUDA programming guide): %nwarpid."""
RESERVED_END = 288
"""How much of the reserved shared memory is used, as an H100 reports."""


def special(launch: LaunchState, batch: BatchState, name: str) -> Array | Affine:
    """The value of a special register (name without the percent sign), ``[T1, T0, C1, C0]`` or affine."""
    kept, key = batch.shape.specials, (name, launch.block)
    found = kept.get(key)
    if found is None:
        found = _special(launch, batch, name)
        if name.startswith(("tid.", "ntid.", "laneid", "warpid", "lanemask_")):
            kept[key] = found
    return found


def _special(launch: LaunchState, batch: BatchState, name: str) -> Array | Affine:
    root, _, component = name.partition(".")
    axis = {"x": 0, "y": 1, "z": 2, "w": 3}.get(component, 0)
    if root in ("tid", "ctaid"):
        return _index(launch, batch, root, axis)
    if root in ("ntid", "nctaid"):
        dims = launch.block if root == "ntid" else launch.grid
        return _constant(dims[axis] if axis < 3 else 0)
    if "cluster" in root:
        return _cluster(launch, batch, root, axis)
    if root == "smid":
        return (batch.ctas % N_SM).astype(np.uint32).reshape(1, 1, *batch.shape.extents[2:])
    of_thread = _of_thread(batch, root)
    return _of_launch(launch, root) if of_thread is None else of_thread


def _of_thread(batch: BatchState, root: str) -> Array | None:
    """Where a thread lies in its warp and CTA; None for other special registers."""
    t1, t0 = batch.shape.extents[:2]
    thread = np.arange(t1 * t0, dtype=np.uint32).reshape(t1, t0, 1, 1)
    if root == "laneid":
        return thread & np.uint32(31)
    if root == "warpid":
        return thread >> np.uint32(5)
    return _lanemask(root[9:], thread & np.uint32(31)) if root.startswith("lanemask_") else None


def _of_launch(launch: LaunchState, root: str) -> Affine:
    """What all threads of a launch see alike."""
    if root.startswith("param"):
        offset, size = root[5:].split(":")
        return Affine.constant(launch.param_address + int(offset), np.dtype(f"u{size}"))
    if root.startswith("envreg"):
        workspace = launch.workspace if launch.settings.cooperative else 0
        return _constant({"envreg1": workspace >> 32, "envreg2": workspace & 0xFFFFFFFF}.get(root, 0))
    if root == "gridid":
        return Affine.constant(1, U64)
    unit = 128 if launch.device.sm >= 80 else 256  # in which shared memory is given out (CUDA programming guide)
    shared = launch.shared_size - launch.plan.shared.reserved
    fixed = {
        "nwarpid": WARPS_OF_SM.get(launch.device.sm, 64),
        "nsmid": N_SM,
        "dynamic_smem_size": launch.settings.dynamic_shared,
        "total_smem_size": -(-shared // unit) * unit,
        "aggr_smem_size": shared + RESERVED,
        "reserved_smem_offset_end": RESERVED_END,
        "reserved_smem_offset_cap": RESERVED,
    }
    if root in fixed:
        return _constant(fixed[root])
    if root.startswith(("pm", "reserved_smem", "current_graph")):
        return Affine.constant(0, U64 if root.endswith("64") or root.startswith("current") else U32)
    raise InternalError(f"special register %{root}")


def _constant(value: int) -> Affine:
    return Affine.constant(value, U32)


def _index(launch: LaunchState, batch: BatchState, root: str, axis: int) -> Array | Affine:
    """%tid and %ctaid: affine if a single axis of the batch carries them."""
    extents = batch.shape.extents
    if root == "tid":
        inner, middle, first = 1, launch.block[1], 0
        outer_axis, start = 0, 0
        single = launch.block[2] == 1
    else:
        inner, middle, first = 3, launch.grid[1], int(batch.ctas[0]) % launch.grid[0]
        outer_axis, start = 2, int(batch.ctas[0]) // launch.grid[0]
        single = launch.grid[2] == 1
    strides = [0, 0, 0, 0]
    if axis == 0:
        strides[inner] = 1 if extents[inner] > 1 else 0
        return Affine(first, tuple(strides), extents, U32)
    if axis == 3:
        return _constant(0)
    if single:
        if axis == 2:
            return _constant(0)
        strides[outer_axis] = 1 if extents[outer_axis] > 1 else 0
        return Affine(start, tuple(strides), extents, U32)
    rows = np.arange(start, start + extents[outer_axis], dtype=np.uint32)
    values = rows % np.uint32(middle) if axis == 1 else rows // np.uint32(middle)
    shape = [1, 1, 1, 1]
    shape[outer_axis] = extents[outer_axis]
    return values.reshape(shape)


def _lanemask(kind: str, lane: Array) -> Array:
    one, full = np.uint32(1), np.uint32(0xFFFFFFFF)
    bit = one << lane
    below = bit - one
    table = {"eq": bit, "lt": below, "le": below | bit, "gt": full ^ (below | bit), "ge": full ^ below}
    return np.asarray(table[kind], np.uint32)


def cta_coordinates(launch: LaunchState, batch: BatchState) -> Array:
    """``[3, n_ctas]``: x, y, z of every CTA of the batch."""
    gx, gy, _ = launch.grid
    return np.stack([batch.ctas % gx, batch.ctas // gx % gy, batch.ctas // (gx * gy)])


def clusters_of(launch: LaunchState, batch: BatchState) -> Array:
    """The cluster of every CTA of the batch, numbered from 0."""
    x, y, z = cta_coordinates(launch, batch)
    cx, cy, cz = launch.cluster
    gx, gy, _ = launch.grid
    number = x // cx + (gx // cx) * (y // cy + (gy // cy) * (z // cz))
    found: Array = np.unique(number, return_inverse=True)[1].reshape(-1)
    return found


def ranks_of(launch: LaunchState, batch: BatchState) -> Array:
    """The rank in its cluster of every CTA of the batch."""
    cx, cy, cz = launch.cluster
    x, y, z = cta_coordinates(launch, batch)
    found: Array = x % cx + cx * (y % cy + cy * (z % cz))
    return found


def _cluster(launch: LaunchState, batch: BatchState, root: str, axis: int) -> Array | Affine:
    sizes, grid = launch.cluster, launch.grid
    if axis == 3:
        return _constant(0)
    if root == "is_explicit_cluster":
        return np.array([launch.settings.cluster is not None])
    if root == "cluster_nctaid":
        return _constant(sizes[axis])
    if root == "cluster_nctarank":
        return _constant(sizes[0] * sizes[1] * sizes[2])
    if root == "nclusterid":
        return _constant(grid[axis] // sizes[axis])
    place = cta_coordinates(launch, batch)
    shape = (1, 1, *batch.shape.extents[2:])
    if root == "clusterid":
        values = place[axis] // sizes[axis]
    elif root == "cluster_ctaid":
        values = place[axis] % sizes[axis]
    else:
        inner = [place[i] % sizes[i] for i in range(3)]
        values = inner[0] + sizes[0] * (inner[1] + sizes[1] * inner[2])
    if (values == values[0]).all():
        return _constant(int(values[0]))
    return values.astype(np.uint32).reshape(shape)


def cluster_peer(launch: LaunchState, batch: BatchState, columns: Array, rank: Array) -> Array:
    """The batch column of the CTA with a rank in the cluster of each column; -1 if there is none."""
    cx, cy, cz = launch.cluster
    x, y, z = (p[columns] for p in cta_coordinates(launch, batch))
    px = x // cx * cx + rank % cx
    py = y // cy * cy + rank // cx % cy
    pz = z // cz * cz + rank // (cx * cy)
    number = px + launch.grid[0] * (py + launch.grid[1] * pz)
    order = np.argsort(batch.ctas)
    at = np.clip(np.searchsorted(batch.ctas[order], number), 0, len(order) - 1)
    found = order[at]
    return np.where((batch.ctas[found] == number) & (rank < cx * cy * cz), found, -1)


READING = 32
"""Cycles that reading a clock takes."""


def clock(launch: LaunchState, name: str) -> int:
    """A clock's value; clocks advance with every reading."""
    launch.skipped += READING
    if name.startswith("globaltimer"):
        time = launch.memory.nanoseconds + launch.now
        return time >> 32 if name.endswith("_hi") else time
    return launch.now >> 32 if name == "clock_hi" else launch.now
