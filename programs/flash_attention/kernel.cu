// Flash attention forward on mma.sync: a warp has 16 queries of width 32 and walks over the keys 16 at a time, with a running
// maximum and sum for each row. Scores stay in registers: the accumulators of S are the A fragments of P.
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int WIDTH = 32;

__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ uint32_t pack(float low, float high) {
  __half2 both = __floats2half2_rn(low, high);
  return *(uint32_t*)&both;
}

extern "C" __global__ void __launch_bounds__(64) flash_attention(const __half* q, const __half* k, const __half* v, __half* o, int keys, float scale) {
  __shared__ __align__(16) __half ks[16][WIDTH + 8], vs[16][WIDTH + 8];
  int lane = threadIdx.x % 32, first = blockIdx.x * 32 + threadIdx.x / 32 * 16, row = lane / 4, pair = lane % 4 * 2;
  uint32_t fq[WIDTH / 16][4];
  for (int j = 0; j < WIDTH / 16; ++j)
    for (int r = 0; r < 4; ++r) fq[j][r] = *(const uint32_t*)(q + (first + row + r % 2 * 8) * WIDTH + j * 16 + r / 2 * 8 + pair);
  float out[WIDTH / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {};

  for (int block = 0; block < keys; block += 16) {  // there are whole blocks only
    int r = threadIdx.x / 4, c = threadIdx.x % 4 * 8;
    *(uint4*)&ks[r][c] = *(const uint4*)(k + (block + r) * WIDTH + c);
    *(uint4*)&vs[r][c] = *(const uint4*)(v + (block + r) * WIDTH + c);
    __syncthreads();

    float s[2][4] = {};  // scores of 16 queries and 2 x 8 keys
    for (int h = 0; h < 2; ++h)
      for (int j = 0; j < WIDTH / 16; ++j)
        mma(s[h], fq[j], *(uint32_t*)&ks[h * 8 + row][j * 16 + pair], *(uint32_t*)&ks[h * 8 + row][j * 16 + 8 + pair]);

    for (int i = 0; i < 2; ++i) {  // the two rows of this lane
      float most = fmaxf(fmaxf(s[0][2 * i], s[0][2 * i + 1]), fmaxf(s[1][2 * i], s[1][2 * i + 1])) * scale;
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      most = fmaxf(most, top[i]);
      float shrink = exp2f(top[i] - most);
      top[i] = most;
      sum[i] *= shrink;
      for (int n = 0; n < WIDTH / 8; ++n) out[n][2 * i] *= shrink, out[n][2 * i + 1] *= shrink;
      for (int h = 0; h < 2; ++h)
        for (int e = 2 * i; e < 2 * i + 2; ++e) {
          s[h][e] = exp2f(fmaf(s[h][e], scale, -most));
          sum[i] += s[h][e];
        }
    }
    uint32_t p[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]), pack(s[1][0], s[1][1]), pack(s[1][2], s[1][3])};
    for (int n = 0; n < WIDTH / 8; ++n) {
      uint32_t b0, b1, at = (uint32_t)__cvta_generic_to_shared(&vs[lane % 16][n * 8]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(b0), "=r"(b1) : "r"(at) : "memory");
      mma(out[n], p, b0, b1);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    sum[i] += __shfl_xor_sync(~0u, sum[i], 1);
    sum[i] += __shfl_xor_sync(~0u, sum[i], 2);
    for (int n = 0; n < WIDTH / 8; ++n)
      *(uint32_t*)(o + (first + row + i * 8) * WIDTH + n * 8 + pair) = pack(out[n][2 * i] / sum[i], out[n][2 * i + 1] / sum[i]);
  }
}
