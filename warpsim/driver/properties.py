"""Properties that the simulated GPU reports, and occupancy, which registers, being unknown, never limit."""

from __future__ import annotations

from collections.abc import Callable

from warpsim.driver.modules import Function
from warpsim.host.launch_options import MAX_BLOCK, MAX_CLUSTER, MAX_GRID
from warpsim.host.targets import SHARED_LIMIT
from warpsim.machine.state.global_memory import CAPACITY
from warpsim.records import frozen


@frozen
class Model:
    """Properties of a GPU that do not follow from its capability; clocks in kHz, sizes in bytes."""

    name: str
    sms: int
    clock: int
    memory_clock: int
    bus_bits: int
    l2: int
    threads_per_sm: int = 2048
    blocks_per_sm: int = 32


_MODELS = {
    70: Model("NVIDIA V100 (simulated)", 80, 1_530_000, 877_000, 4096, 6 << 20),
    75: Model("NVIDIA T4 (simulated)", 40, 1_590_000, 5_001_000, 256, 4 << 20, 1024, 16),
    80: Model("NVIDIA A100 (simulated)", 108, 1_410_000, 1_593_000, 5120, 40 << 20),
    86: Model("NVIDIA A10 (simulated)", 72, 1_695_000, 6_251_000, 384, 6 << 20, 1536, 16),
    89: Model("NVIDIA L40S (simulated)", 142, 2_520_000, 9_001_000, 384, 96 << 20, 1536, 24),
    90: Model("NVIDIA H100 (simulated)", 132, 1_980_000, 2_619_000, 5120, 50 << 20),
}
_SHARED_SM = {70: 96, 72: 96, 75: 64, 80: 164, 86: 100, 87: 164, 88: 100, 89: 100}
"""Shared memory per multiprocessor in KiB; 228 on newer data-centre GPUs, 100 on consumer GPUs."""
RESERVED = 1024
"""Bytes of shared memory that the system reserves in every block from sm_80 on."""


def model(sm: int) -> Model:
    """The GPU that represents a capability."""
    return _MODELS.get(sm) or _MODELS[max(n for n in _MODELS if n <= sm)]


def name(sm: int) -> str:
    """The GPU's name."""
    return model(sm).name if sm in _MODELS else f"NVIDIA sm_{sm} (simulated)"


def shared_of_sm(sm: int) -> int:
    """Shared memory per multiprocessor, in bytes."""
    return (_SHARED_SM.get(sm) or (228 if SHARED_LIMIT[sm] > 200 else 100)) * 1024


def attribute(sm: int, number: int, ordinal: int = 0) -> int:
    """A CUdevice_attribute by its number in cuda.h; 0 for unknown ones."""
    return attributes(sm, ordinal).get(number, 0)


def attributes(sm: int, ordinal: int = 0) -> dict[int, int]:
    """The attributes that are not 0."""
    gpu, new, hopper = model(sm), sm >= 80, sm >= 90
    return {
        1: 1024,  # MAX_THREADS_PER_BLOCK
        **dict(zip((2, 3, 4), MAX_BLOCK, strict=True)),
        **dict(zip((5, 6, 7), MAX_GRID, strict=True)),
        8: 48 << 10,  # MAX_SHARED_MEMORY_PER_BLOCK
        9: 64 << 10,  # TOTAL_CONSTANT_MEMORY
        10: 32,  # WARP_SIZE
        11: 2**31 - 1,  # MAX_PITCH
        12: 65536,  # MAX_REGISTERS_PER_BLOCK
        13: gpu.clock,
        14: 512,  # TEXTURE_ALIGNMENT
        15: 1,  # GPU_OVERLAP
        16: gpu.sms,
        19: 1,  # CAN_MAP_HOST_MEMORY
        30: 512,  # SURFACE_ALIGNMENT
        31: 1,  # CONCURRENT_KERNELS
        33: ordinal + 1,  # PCI_BUS_ID
        36: gpu.memory_clock,
        37: gpu.bus_bits,
        38: gpu.l2,
        39: gpu.threads_per_sm,
        40: 3,  # ASYNC_ENGINE_COUNT
        41: 1,  # UNIFIED_ADDRESSING
        51: 32,  # TEXTURE_PITCH_ALIGNMENT
        75: sm // 10,
        76: sm % 10,
        78: 1,  # STREAM_PRIORITIES_SUPPORTED
        79: 1,  # GLOBAL_L1_CACHE_SUPPORTED
        80: 1,  # LOCAL_L1_CACHE_SUPPORTED
        81: shared_of_sm(sm),
        82: 65536,  # MAX_REGISTERS_PER_MULTIPROCESSOR
        83: 1,  # MANAGED_MEMORY
        85: ordinal,  # MULTI_GPU_BOARD_GROUP_ID
        87: 2,  # SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
        89: 1,  # CONCURRENT_MANAGED_ACCESS
        90: 1,  # COMPUTE_PREEMPTION_SUPPORTED
        91: 1,  # CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        95: 1,  # COOPERATIVE_LAUNCH
        97: SHARED_LIMIT[sm] << 10,  # MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        99: 1,  # HOST_REGISTER_SUPPORTED
        102: 1,  # VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        106: gpu.blocks_per_sm,
        108: gpu.l2 * 3 // 4 if new else 0,  # MAX_PERSISTING_L2_CACHE_SIZE
        109: 128 << 20 if new else 0,  # MAX_ACCESS_POLICY_WINDOW_SIZE
        111: RESERVED if new else 0,
        113: 1,  # READ_ONLY_HOST_REGISTER_SUPPORTED
        115: 1,  # MEMORY_POOLS_SUPPORTED
        120: int(hopper),  # CLUSTER_LAUNCH
        127: int(hopper),  # TENSOR_MAP_ACCESS_SUPPORTED
        129: 1,  # UNIFIED_FUNCTION_POINTERS
        130: 0,  # NUMA_CONFIG
        131: 0xFFFFFFFF,  # NUMA_ID: none
    }


def total_memory() -> int:
    """Global memory in bytes."""
    return CAPACITY


PORTABLE_CLUSTER = 8
"""Most blocks in a cluster, unless a kernel allows more."""


def largest_cluster(function: Function) -> int:
    """Most blocks in a cluster of a kernel."""
    return MAX_CLUSTER if function.non_portable_cluster else PORTABLE_CLUSTER


def blocks_per_sm(function: Function, threads: int, dynamic_shared: int) -> int:
    """Resident blocks of a kernel per multiprocessor."""
    sm = function.module.device.sm
    gpu = model(sm)
    if not 0 < threads <= 1024:  # an H200 counts blocks beyond .maxntid, too
        return 0
    warps = -(-threads // 32)
    limits = [gpu.blocks_per_sm, gpu.threads_per_sm // 32 // warps]
    shared = function.static_shared + dynamic_shared
    if shared > function.module.device.max_shared:
        return 0
    reserved = RESERVED if sm >= 80 else 0
    if shared + reserved:
        limits.append(shared_of_sm(sm) // (shared + reserved))
    return min(limits)


def best_block(function: Function, shared_of: Callable[[int], int], limit: int) -> tuple[int, int]:
    """The grid that fills the GPU, and the block size with the most resident threads; the largest such block."""
    sms = model(function.module.device.sm).sms
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
    reserved = RESERVED if sm >= 80 else 0
    room = shared_of_sm(sm) // blocks - reserved
    return max(min(room, function.module.device.max_shared) - function.static_shared, 0)


def resident_blocks(function: Function, threads: int, dynamic_shared: int) -> int:
    """Resident blocks on the whole GPU, which limit a cooperative launch."""
    return blocks_per_sm(function, threads, dynamic_shared) * model(function.module.device.sm).sms
