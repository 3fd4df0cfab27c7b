"""Occupancy from threads, blocks and shared memory; registers are unknown and never limit it."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.driver import properties
from warpsim.driver.modules import Function
from warpsim.host.launch_options import MAX_CLUSTER

PORTABLE_CLUSTER = 8
"""Most blocks in a cluster, unless a kernel allows more."""


def largest_cluster(function: Function) -> int:
    """Most blocks in a cluster of a kernel."""
    return MAX_CLUSTER if function.non_portable_cluster else PORTABLE_CLUSTER


def blocks_per_sm(function: Function, threads: int, dynamic_shared: int) -> int:
    """Resident blocks of a kernel per multiprocessor."""
    sm = function.module.device.sm
    gpu = properties.model(sm)
    if not 0 < threads <= function.max_threads:
        return 0
    warps = -(-threads // 32)
    limits = [gpu.blocks_per_sm, gpu.threads_per_sm // 32 // warps]
    shared = function.static_shared + dynamic_shared
    if shared > function.module.device.max_shared:
        return 0
    reserved = properties.RESERVED if sm >= 80 else 0
    if shared + reserved:
        limits.append(properties.shared_of_sm(sm) // (shared + reserved))
    return min(limits)


def best_block(function: Function, shared_of: Callable[[int], int], limit: int) -> tuple[int, int]:
    """The grid that fills the GPU, and the block size with the most resident threads; the largest such block."""
    sms = properties.model(function.module.device.sm).sms
    most = min(limit or 1024, function.max_threads)
    best, chosen, fitting = -1, 0, 0
    for threads in range(most // 32 * 32 or most, 0, -32):
        fit = blocks_per_sm(function, threads, shared_of(threads))
        if fit * threads > best:
            best, chosen, fitting = fit * threads, threads, fit
    return fitting * sms, chosen


def free_shared(function: Function, blocks: int, threads: int) -> int:
    """Dynamic shared memory per block with which ``blocks`` are resident."""
    sm = function.module.device.sm
    if blocks <= 0 or blocks_per_sm(function, threads, 0) < blocks:
        return 0
    reserved = properties.RESERVED if sm >= 80 else 0
    room = properties.shared_of_sm(sm) // blocks - reserved
    return max(min(room, function.module.device.max_shared) - function.static_shared, 0)


def resident_blocks(function: Function, threads: int, dynamic_shared: int) -> int:
    """Resident blocks on the whole GPU, which limit a cooperative launch."""
    return blocks_per_sm(function, threads, dynamic_shared) * properties.model(function.module.device.sm).sms
