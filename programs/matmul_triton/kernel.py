"""C = A B^T in bf16 in Triton, with descriptors that become TMA copies; Triton pipelines the loop over k by itself."""

import triton
import triton.language as tl


@triton.jit
def matmul(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    """One tile of C for each CTA."""
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
