// C = A B^T in f16 by wgmma: a ring of two stages that TMA fills, one warpgroup.
#include "../hopper.cuh"

constexpr int STAGES = 2;

extern "C" __global__ void __launch_bounds__(128)
    gemm_tma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float* c, int n, int k) {
  __shared__ alignas(1024) __half a[STAGES][64 * 64], b[STAGES][64 * 64];
  __shared__ alignas(8) uint64_t full[STAGES];
  int row = blockIdx.y * 64, column = blockIdx.x * 64, slices = k / 64;  // m, n and k are multiples of 64
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) mbar_init(&full[i], 1);
    fence_mbar_init();
  }
  __syncthreads();

  auto load = [&](int s) {
    int at = s % STAGES;
    mbar_expect(&full[at], sizeof(a[0]) + sizeof(b[0]));
    tma_load(a[at], map_a, s * 64, row, &full[at]);
    tma_load(b[at], map_b, s * 64, column, &full[at]);
  };
  if (threadIdx.x == 0)
    for (int s = 0; s < STAGES && s < slices; ++s) load(s);

  float d[32];
  for (int s = 0; s < slices; ++s) {
    int at = s % STAGES;
    mbar_wait(&full[at], s / STAGES % 2);
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_f16(d, tile_128B(a[at], 32 * j), tile_128B(b[at], 32 * j), s + j);
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();  // all warps have read the stage
    if (threadIdx.x == 0 && s + STAGES < slices) load(s + STAGES);
  }
  for (int i = 0; i < 32; ++i) c[(row + acc_row(i)) * n + column + acc_col(i)] = d[i];
}
