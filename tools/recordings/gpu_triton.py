"""The Triton kernels of gpu_clients.py: Triton reads their source from a file."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    """Adds vectors."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def product_kernel(a, b, c, m, n, k, BLOCK: tl.constexpr):
    """Multiplies matrices."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        total += tl.dot(
            tl.load(a + rows[:, None] * k + inner[None, :]), tl.load(b + inner[:, None] * n + columns[None, :])
        )
    tl.store(c + rows[:, None] * n + columns[None, :], total)
