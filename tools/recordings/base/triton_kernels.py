# ruff: noqa: D103 (the name of a kernel says what it is)
"""Triton kernels of which the cases named triton_* are made."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def layer_norm(x, weight, bias, out, mean, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    average = tl.sum(v, 0) / columns
    centred = tl.where(inside, v - average, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + eps)
    y = centred * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(out + row * columns + at, y.to(tl.bfloat16), mask=inside)
    tl.store(mean + row, average)


@triton.jit
def softmax_max(x, out, index, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    top, where = tl.max(v, 0, return_indices=True)
    e = tl.exp(v - top)
    tl.store(out + row * columns + at, e / tl.sum(e, 0), mask=at < columns)
    tl.store(index + row, where)


@triton.jit
def _later(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrence(decay, x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(decay + at, mask=at < n, other=1.0)
    v = tl.load(x + at, mask=at < n, other=0.0)
    _, state = tl.associative_scan((a, v), 0, _later)
    tl.store(out + at, state, mask=at < n)


@triton.jit
def counts(x, bins, uniques, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=BINS - 1)
    tl.atomic_add(bins + tl.arange(0, BINS), tl.histogram(v, BINS))
    tl.atomic_max(uniques + v % 8, v, mask=at < n)
    tl.atomic_xor(uniques + 8 + v % 8, at * 77, mask=at < n)


@triton.jit
def dropout(x, out, n, seed, keep, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    kept = tl.rand(seed, at) < keep
    noise = tl.randn(seed + 1, at)
    tl.store(out + at, tl.where(kept, v / keep, 0.0) + 0.01 * noise, mask=at < n)


@triton.jit
def locked_sums(x, lock, total, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    sums = tl.load(total + at, mask=at < columns)
    tl.store(total + at, sums + v, mask=at < columns)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
    tl.store(out + row, tl.sum(v * v, 0))


@triton.jit
def fp8_quantise(x, codes, scales, back, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    scale = tl.max(tl.abs(v), 0) / 57344.0
    q = (v / scale).to(tl.float8e5)
    tl.store(codes + row * columns + at, q, mask=at < columns)
    tl.store(scales + row, scale)
    tl.store(back + row * columns + at, (q.to(tl.float16) * 0.5).to(tl.float32) * scale, mask=at < columns)


@triton.jit
def functions(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + at, mask=at < n, other=1.0)
    b = tl.load(y + at, mask=at < n, other=1.0)
    tl.store(out + at, tl.sigmoid(a) + tl.math.erf(b), mask=at < n)
    tl.store(out + n + at, libdevice.pow(tl.abs(a), b), mask=at < n)
    tl.store(out + 2 * n + at, tl.sin(a) * tl.cos(b), mask=at < n)
    tl.store(out + 3 * n + at, tl.fma(a, b, tl.floor(a)) + tl.log2(tl.abs(b) + 1.0), mask=at < n)
    tl.store(out + 4 * n + at, tl.math.div_rn(a, b) - tl.sqrt_rn(tl.abs(a)), mask=at < n)
    tl.store(out + 5 * n + at, libdevice.tanh(a) + libdevice.log1p(tl.abs(b)), mask=at < n)
    tl.store(
        out + 6 * n + at,
        tl.umulhi(a.to(tl.int32, bitcast=True), b.to(tl.int32, bitcast=True)).to(tl.float32),
        mask=at < n,
    )


@triton.jit
def batched_product(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), dtype=tl.int32)
    for at in range(0, k, BK):
        depth = at + tl.arange(0, BK)
        p = tl.load(a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0)
        q = tl.load(
            b + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0
        )
        sums = tl.dot(p, q, sums)
    top = tl.max(sums, 1)
    tl.store(
        out + rows[:, None] * n + columns[None, :],
        sums - top[:, None],
        mask=(rows[:, None] < m) & (columns[None, :] < n),
    )


@triton.jit
def sort_gather(x, places, out, flipped, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    v = tl.load(x + at)
    sorted_rows = tl.sort(v, 1, descending=True)
    picked = tl.gather(v, tl.load(places + at), 1)
    tl.store(out + at, sorted_rows * 2 + picked)
    tl.store(flipped + at, tl.flip(tl.reshape(tl.trans(v), (ROWS, COLUMNS)), 1))


@triton.jit
def rotary(x, angles, out, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, HALF)
    a = tl.load(x + row * 2 * HALF + at, mask=at < n)
    b = tl.load(x + row * 2 * HALF + HALF + at, mask=at < n)
    angle = tl.load(angles + at, mask=at < n) * row
    c, s = tl.cos(angle), tl.sin(angle)
    tl.store(out + row * 2 * HALF + at, a * c - b * s, mask=at < n)
    tl.store(out + row * 2 * HALF + HALF + at, a * s + b * c, mask=at < n)
    tl.store(out + row * 2 * HALF + at + n, a * a - b * b - c * s, mask=at + n < HALF)
