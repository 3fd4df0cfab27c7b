"""What the kernels in base/ are launched on: the registry of their cases, launches, and numbers that hurt."""

import ml_dtypes
import numpy as np

from case_files import ptr

CASES = {}
FLOATS = {"f16": (np.uint16, 10), "bf16": (np.uint16, 7), "f32": (np.uint32, 23), "f64": (np.uint64, 52)}


def case(function):
    """Register a function that gives the parts of a case under its name."""
    CASES[function.__name__] = function
    return function


def cuda(grid, block, buffers, params, *, target="sm_80", file=None, **more):
    """A CUDA case, whose source has its name unless ``file`` is given."""
    return {"grid": triple(grid), "block": triple(block), "buffers": buffers, "params": params, "target": target, "file": file, **more}  # fmt: skip


def triple(size):
    """Three dimensions."""
    return (*size, 1, 1)[:3] if isinstance(size, tuple) else (size, 1, 1)


def pointers(buffers):
    """One argument per buffer, in order."""
    return [ptr(name) for name in buffers]


def integers(n, bits, seed=0):
    """Unsigned integers: edges, powers of two with neighbours, runs of ones, values of all magnitudes, zeros."""
    rng, top = np.random.default_rng(seed), (1 << bits) - 1
    edges = [0, 1, 2, 3, top, top - 1, top >> 1, (top >> 1) + 1, (top >> 1) + 2, top // 3, 10, 255, 256]
    edges += [(1 << k) + d for k in range(2, bits - 1, 3) for d in (-1, 0)]
    edges = rng.permutation(np.array(edges, np.uint64))[: n // 2]
    rest = rng.integers(0, top, n - len(edges), np.uint64, endpoint=True) >> rng.integers(
        0, bits, n - len(edges)
    ).astype(np.uint64)
    return rng.permutation(np.r_[edges, rest])


def floats(n, dtype, seed=0, *, wild=0.5):
    """Bit patterns of floats: specials, subnormals and any bits for a share of ``wild``, else numbers of a few magnitudes."""
    rng, (raw, fraction) = np.random.default_rng(seed), FLOATS[dtype]
    bits = raw(0).nbytes * 8
    sign, one = 1 << (bits - 1), ((1 << (bits - 2 - fraction)) - 1) << fraction
    infinite = one * 2 + (1 << fraction)
    positive = [
        0,
        1,
        (1 << fraction) - 1,
        1 << fraction,
        one,
        one + 1,
        one - 1,
        infinite - 1,
        infinite,
        infinite + 1,
        infinite + (1 << fraction >> 1) + 5,
    ]
    specials = np.array([p | s for p in positive for s in (0, sign)], np.uint64).astype(raw)
    strange = np.r_[
        specials,
        rng.integers(0, 1 << bits, n, np.uint64, endpoint=False).astype(raw)
        if bits < 64
        else rng.integers(0, 1 << 64, n, np.uint64),
    ]
    number = rng.standard_normal(n) * 4.0 ** rng.integers(-3, 4, n)
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}[dtype]
    plain = number.astype(kind).view(raw)
    count = int(n * wild)
    return rng.permutation(np.r_[strange[:count], plain[: n - count]])


def given(dtype, raw, **more):
    """A buffer of bit patterns that the kernel reads."""
    stored = {"f32": np.float32, "f64": np.float64, "f16": np.float16}.get(dtype)
    return {"dtype": dtype, "in": raw.view(stored) if stored else raw, "role": "in", **more}
