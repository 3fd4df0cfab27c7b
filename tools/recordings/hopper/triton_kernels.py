"""Kernels in Triton for Hopper: products by tensor descriptors, warp-specialised and persistent, attention both ways, rows."""

import triton
import triton.language as tl


@triton.jit
def matmul(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    """C = A B^T of tiles that descriptors of the host name; ``WS``: producers and consumers are different warps."""
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BN)
    at_m = pid // tiles_n * BM
    at_n = pid % tiles_n * BN
    acc = tl.zeros((BM, BN), tl.int32 if a_desc.dtype == tl.int8 else tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=WS):
        a = a_desc.load([at_m, k * BK])
        b = b_desc.load([at_n, k * BK])
        acc = tl.dot(a, b.T, acc)
    c_desc.store([at_m, at_n], acc.to(c_desc.dtype))


@triton.jit
def matmul_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr
):
    """The same with descriptors that the kernel builds; every CTA computes several tiles."""
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    tiles_n = tl.cdiv(N, BN)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0), flatten=not WS, warp_specialize=WS
    ):
        at_m = tile // tiles_n * BM
        at_n = tile % tiles_n * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a_desc.load([at_m, k * BK]), b_desc.load([at_n, k * BK]).T, acc)
        c_desc.store([at_m, at_n], acc.to(c_desc.dtype))


@triton.jit
def matmul_scaled(a_desc, b_desc, sa_ptr, sb_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """fp8 with a scale for each row of A and block of K, and each block of B (DeepSeek's way)."""
    at_m = tl.program_id(0) * BM
    at_n = tl.program_id(1) * BN
    rows = at_m + tl.arange(0, BM)
    columns = at_n + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        part = tl.dot(a_desc.load([at_m, k * BK]), b_desc.load([at_n, k * BK]).T)
        scale = tl.load(sa_ptr + rows + k * M) * tl.load(sb_ptr + k * tl.cdiv(N, BN) + tl.program_id(1))
        acc += part * scale[:, None]
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(tl.bfloat16))


@triton.jit
def matmul_split(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Every CTA has a part of K, and adds its f32 tile to C by a reduction of the copy engine."""
    at_m = tl.program_id(0) * BM
    at_n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.program_id(2), tl.cdiv(K, BK), tl.num_programs(2)):
        acc = tl.dot(a_desc.load([at_m, k * BK]), b_desc.load([at_n, k * BK]).T, acc)
    c_desc.atomic_add([at_m, at_n], acc)


@triton.jit
def matmul_dequantised(a_ptr, b_ptr, scale_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A holds bytes that become bf16 in registers (A of the product is in registers); ragged edges are masked."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    scale = tl.load(scale_ptr + rows, mask=rows < M, other=0.0)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(
            a_ptr + rows[:, None] * K + (k + ks)[None, :], mask=(rows < M)[:, None] & (k + ks < K)[None, :], other=0
        )
        b = tl.load(
            b_ptr + (k + ks)[:, None] * N + columns[None, :],
            mask=(k + ks < K)[:, None] & (columns < N)[None, :],
            other=0.0,
        )
        acc = tl.dot(a.to(tl.bfloat16), b, acc)
    tl.store(
        c_ptr + rows[:, None] * N + columns[None, :],
        acc * scale[:, None],
        mask=(rows < M)[:, None] & (columns < N)[None, :],
    )


@triton.jit
def attention(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, N, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
    CAUSAL: tl.constexpr, WS: tl.constexpr,
):  # fmt: skip
    """Flash attention forward; heads lie one after the other in the rows of Q, K, V."""
    head = tl.program_id(1)
    start = tl.program_id(0) * BM
    q = q_desc.load([head * N + start, 0])
    high = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    rows = start + tl.arange(0, BM)
    end = start + BM if CAUSAL else N
    for at in tl.range(0, end, BN, warp_specialize=WS):
        s = tl.dot(q, k_desc.load([head * N + at, 0]).T) * scale
        if CAUSAL:
            s = tl.where(rows[:, None] >= (at + tl.arange(0, BN))[None, :], s, float("-inf"))
        new = tl.maximum(high, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        shrink = tl.math.exp2(high - new)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(q.dtype), v_desc.load([head * N + at, 0]), acc * shrink[:, None])
        high = new
    tl.store(lse_ptr + head * N + rows, high + tl.math.log2(total))
    o_desc.store([head * N + start, 0], (acc / total[:, None]).to(q.dtype))


@triton.jit
def attention_backward(
    q_ptr, k_ptr, v_ptr, o_ptr, do_ptr, lse_ptr, dq_ptr, dk_ptr, dv_ptr, N, scale, B: tl.constexpr, D: tl.constexpr
):
    """The gradients, causal; a CTA has a block of K and V first, then a block of Q."""
    block = tl.program_id(0) * B
    base = tl.program_id(1) * N
    here = block + tl.arange(0, B)
    columns = tl.arange(0, D)
    mine = (base + here)[:, None] * D + columns[None, :]
    k, v = tl.load(k_ptr + mine), tl.load(v_ptr + mine)
    dk = tl.zeros((B, D), tl.float32)
    dv = tl.zeros((B, D), tl.float32)
    for at in range(block, N, B):
        rows = at + tl.arange(0, B)
        there = (base + rows)[:, None] * D + columns[None, :]
        q, do = tl.load(q_ptr + there), tl.load(do_ptr + there)
        delta = tl.sum(tl.load(o_ptr + there).to(tl.float32) * do.to(tl.float32), 1)
        lse = tl.load(lse_ptr + base + rows)
        p = tl.math.exp2(tl.dot(k, q.T) * scale - lse[None, :])
        p = tl.where(here[:, None] <= rows[None, :], p, 0.0)
        dv = tl.dot(p.to(q.dtype), do, dv)
        ds = p * (tl.dot(v, do.T) - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    tl.store(dk_ptr + mine, (dk * scale).to(k.dtype))
    tl.store(dv_ptr + mine, dv.to(k.dtype))
    q, do = tl.load(q_ptr + mine), tl.load(do_ptr + mine)
    delta = tl.sum(tl.load(o_ptr + mine).to(tl.float32) * do.to(tl.float32), 1)
    lse = tl.load(lse_ptr + base + here)
    dq = tl.zeros((B, D), tl.float32)
    for at in range(0, block + B, B):
        rows = at + tl.arange(0, B)
        there = (base + rows)[:, None] * D + columns[None, :]
        k, v = tl.load(k_ptr + there), tl.load(v_ptr + there)
        p = tl.math.exp2(tl.dot(q, k.T) * scale - lse[:, None])
        p = tl.where(here[:, None] >= rows[None, :], p, 0.0)
        ds = p * (tl.dot(do, v.T) - delta[:, None])
        dq = tl.dot(ds.to(q.dtype), k, dq)
    tl.store(dq_ptr + mine, (dq * scale).to(k.dtype))


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, N, eps, B: tl.constexpr):
    """A row for each CTA, in three passes."""
    row = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for at in range(0, N, B):
        columns = at + tl.arange(0, B)
        total += tl.load(x_ptr + row * N + columns, mask=columns < N, other=0.0).to(tl.float32)
    mean = tl.sum(total) / N
    square = tl.zeros((B,), tl.float32)
    for at in range(0, N, B):
        columns = at + tl.arange(0, B)
        x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=0.0).to(tl.float32)
        x = tl.where(columns < N, x - mean, 0.0)
        square += x * x
    rstd = tl.rsqrt(tl.div_rn(tl.sum(square), N.to(tl.float32)) + eps)  # the assembler fuses other divisions and sums
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for at in range(0, N, B):
        columns = at + tl.arange(0, B)
        inside = columns < N
        x = tl.load(x_ptr + row * N + columns, mask=inside).to(tl.float32)
        y = (x - mean) * rstd * tl.load(w_ptr + columns, mask=inside) + tl.load(b_ptr + columns, mask=inside)
        tl.store(y_ptr + row * N + columns, y.to(tl.float16), mask=inside)


@triton.jit
def softmax(x_ptr, y_ptr, n_rows, N, B: tl.constexpr):
    """Rows in turn, loaded some rows ahead."""
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=3):
        columns = tl.arange(0, B)
        x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=float("-inf"))
        p = tl.exp(x - tl.max(x, 0))
        tl.store(y_ptr + row * N + columns, p / tl.sum(p, 0), mask=columns < N)
