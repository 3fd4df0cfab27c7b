// C = A B^T in e4m3 by wgmma, promoted: the tensor core keeps 13 fraction bits for fp8, so every 128 elements of k are added to
// an f32 sum outside of it, scaled by row of A and by slice of B.
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128)
    gemm_fp8_scaled(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, const float* scale_a,
                    const float* scale_b, float* c, int m, int n, int k) {
  __shared__ alignas(1024) uint8_t a[2][64 * 128], b[2][64 * 128];
  __shared__ alignas(8) uint64_t full[2];
  int row = blockIdx.y * 64, column = blockIdx.x * 64, slices = k / 128;  // m and n are multiples of 64, k is one of 128
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) mbar_init(&full[i], 1);
    fence_mbar_init();
  }
  __syncthreads();

  auto load = [&](int s) {
    mbar_expect(&full[s % 2], sizeof(a[0]) + sizeof(b[0]));
    tma_load(a[s % 2], map_a, s * 128, row, &full[s % 2]);
    tma_load(b[s % 2], map_b, s * 128, column, &full[s % 2]);
  };
  if (threadIdx.x == 0)
    for (int s = 0; s < 2 && s < slices; ++s) load(s);

  float sum[32] = {};
  for (int s = 0; s < slices; ++s) {
    float d[32];
    mbar_wait(&full[s % 2], s / 2 % 2);
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_e4m3(d, tile_128B(a[s % 2], 32 * j), tile_128B(b[s % 2], 32 * j), j);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 32; ++i) sum[i] += d[i] * (scale_a[s * m + row + acc_row(i)] * scale_b[s]);
    __syncthreads();
    if (threadIdx.x == 0 && s + 2 < slices) load(s + 2);
  }
  for (int i = 0; i < 32; ++i) c[(row + acc_row(i)) * n + column + acc_col(i)] = sum[i];
}
