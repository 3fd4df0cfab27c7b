// C = A B in f16 with f32 sums: cp.async into two stages, ldmatrix, mma.sync. A CTA of four warps makes a 64 x 64 tile; 16-byte
// chunks are XOR-swizzled, so that neither the copies nor ldmatrix meet a bank conflict.
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int BM = 64, BN = 64, BK = 32;

__device__ void copy16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
__device__ uint32_t chunk_a(int row, int chunk) { return row * BK * 2 + ((chunk ^ (row >> 1 & 3)) << 4); }
__device__ uint32_t chunk_b(int row, int chunk) { return row * BN * 2 + ((chunk ^ (row & 7)) << 4); }

extern "C" __global__ void __launch_bounds__(128) mma_f16_gemm(const half* A, const half* B, float* C, int M, int N, int K) {
  __shared__ __align__(128) half tile_a[2][BM * BK], tile_b[2][BK * BN];
  int t = threadIdx.x, lane = t % 32, row = t / 64 * 32, column = t / 32 % 2 * 32, top = blockIdx.y * BM, left = blockIdx.x * BN;

  auto load = [&](int stage, int k) {
    uint32_t a = (uint32_t)__cvta_generic_to_shared(tile_a[stage]), b = (uint32_t)__cvta_generic_to_shared(tile_b[stage]);
    for (int c = t; c < BM * BK / 8; c += 128) copy16(a + chunk_a(c / 4, c % 4), A + (size_t)(top + c / 4) * K + k + c % 4 * 8);
    for (int c = t; c < BK * BN / 8; c += 128) copy16(b + chunk_b(c / 8, c % 8), B + (size_t)(k + c / 8) * N + left + c % 8 * 8);
    asm volatile("cp.async.commit_group;");
  };

  float sum[2][4][4] = {};
  load(0, 0);  // M and N are multiples of 64, K is one of 32
  for (int s = 0; s < K / BK; ++s) {
    if (s + 1 < K / BK) {
      load((s + 1) % 2, (s + 1) * BK);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    uint32_t a = (uint32_t)__cvta_generic_to_shared(tile_a[s % 2]), b = (uint32_t)__cvta_generic_to_shared(tile_b[s % 2]);
#pragma unroll
    for (int kk = 0; kk < BK / 16; ++kk) {
      uint32_t fa[2][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                     : "r"(a + chunk_a(row + i * 16 + lane % 16, kk * 2 + lane / 16)));
#pragma unroll
      for (int j = 0; j < 4; j += 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j + 1][0]), "=r"(fb[j + 1][1])
                     : "r"(b + chunk_b(kk * 16 + lane % 16, column / 8 + j + lane / 16)));
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                       : "+f"(sum[i][j][0]), "+f"(sum[i][j][1]), "+f"(sum[i][j][2]), "+f"(sum[i][j][3])
                       : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int r = top + row + i * 16 + lane / 4, c = left + column + j * 8 + lane % 4 * 2;
      *(float2*)&C[(size_t)r * N + c] = make_float2(sum[i][j][0], sum[i][j][1]);
      *(float2*)&C[(size_t)(r + 8) * N + c] = make_float2(sum[i][j][2], sum[i][j][3]);
    }
}
