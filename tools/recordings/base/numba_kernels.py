# ruff: noqa: D103 (the name of a kernel says what it is)
"""numba kernels of which the cases named numba_* are made."""

import math

import numba
import numpy as np
from numba import cuda

WEIGHTS = np.array([0.0625, 0.25, 0.375, 0.25, 0.0625], np.float32)
PARTICLE = np.dtype([("mass", np.float32), ("kind", np.int16), ("at", np.float64, 2)], align=True)


def julia(out, width, height, limit):
    x, y = cuda.grid(2)
    if x < width and y < height:
        z = complex(x * 3.0 / width - 1.5, y * 3.0 / height - 1.5)
        c = complex(-0.8, 0.156)
        count = 0
        while abs(z) <= 2.0 and count < limit:
            z = z * z + c
            count += 1
        out[y, x] = count


def tiled_product(a, b, c):
    left = cuda.shared.array((8, 8), numba.float64)
    right = cuda.shared.array((8, 8), numba.float64)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = 0.0
    for tile in range((a.shape[1] + 7) // 8):
        left[ty, tx] = a[y, tile * 8 + tx] if y < a.shape[0] and tile * 8 + tx < a.shape[1] else 0.0
        right[ty, tx] = b[tile * 8 + ty, x] if x < b.shape[1] and tile * 8 + ty < b.shape[0] else 0.0
        cuda.syncthreads()
        for k in range(8):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


def medians(x, out):
    window = cuda.local.array(9, numba.int32)
    i = cuda.grid(1)
    if i >= x.size:
        return
    for k in range(9):
        value = x[(i + k - 4) % x.size]
        at = k
        while at > 0 and window[at - 1] > value:
            window[at] = window[at - 1]
            at -= 1
        window[at] = value
    out[i] = window[4]


def statistics(x, bins, extremes, total):
    part = cuda.shared.array(32, numba.int32)
    t = cuda.threadIdx.x
    if t < 32:
        part[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(part, x[i] % 32, 1)
        cuda.atomic.max(extremes, 0, x[i])
        cuda.atomic.min(extremes, 1, x[i])
        cuda.atomic.add(total, 0, x[i] * 0.5)
    cuda.syncthreads()
    if t < 32:
        cuda.atomic.add(bins, t, part[t])
        cuda.atomic.compare_and_swap(extremes[2:], 0, 77)


def warp_sums(x, out, votes):
    i = cuda.grid(1)
    lane = cuda.laneid
    value = x[i]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    first = cuda.shfl_sync(0xFFFFFFFF, value, 0)
    votes[i] = cuda.ballot_sync(0xFFFFFFFF, x[i] > first / 32) ^ cuda.match_any_sync(0xFFFFFFFF, lane // 5)
    out[i] = first + cuda.popc(votes[i]) + cuda.brev(i) % 7 + cuda.ffs(i + 1) + cuda.clz(i)


def particles(records, out, steps):
    i = cuda.grid(1)
    if i < records.size:
        p = records[i]
        for _ in range(steps):
            r = math.hypot(p["at"][0], p["at"][1])
            if p["kind"] > 0:
                p["at"][0] -= 0.1 * p["at"][0] / (r * r * r + 0.5)
                p["at"][1] += 0.1 * p["at"][1] * math.exp(-r) * p["mass"]
            else:
                angle = math.atan2(p["at"][1], p["at"][0]) + 0.1
                p["at"][0] = r * math.cos(angle)
                p["at"][1] = r * math.sin(angle)
        out[i] = p["at"][0] * p["mass"] + p["kind"] // 3 + p["kind"] % 5


def heat(a, b, steps):
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.threadIdx.x
    for _ in range(steps):
        total = numba.float32(0)
        for k in range(5):
            total += weights[k] * a[min(max(i + k - 2, 0), a.size - 1)]
        b[i] = total
        cuda.syncthreads()
        a[i] = b[i]
        cuda.syncthreads()


def dates(days, out):
    i = cuda.grid(1)
    if i < days.size:
        z = days[i] + 719468
        era = z // 146097
        day = z - era * 146097
        year = (day - day // 1460 + day // 36524 - day // 146096) // 365
        rest = day - (365 * year + year // 4 - year // 100)
        month = (5 * rest + 2) // 153
        out[i, 0] = year + era * 400 + (1 if month >= 10 else 0)
        out[i, 1] = month + 3 if month < 10 else month - 9
        out[i, 2] = rest - (153 * month + 2) // 5 + 1
        out[i, 3] = (days[i] + 4) % 7


def waves(z, c, out, steps):
    i = cuda.grid(1)
    if i < z.size:
        w = z[i]
        total = 0.0
        for _ in range(steps):
            w = w * w * w - c[i] * w + (1 - 0.5j) / (w + 2.5)
            total += w.real * c[i].imag - w.imag * c[i].real
            if abs(w) > 4.0:
                w = w / (w.real * w.real + w.imag * w.imag)
        out[i, 0] = w.real
        out[i, 1] = w.imag
        out[i, 2] = total
