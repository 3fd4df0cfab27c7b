// C = A B^T in f16: two CTAs of a cluster share B. Each loads half of every B slice and multicasts it to both.
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128)
    gemm_multicast(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float* c, int n, int k) {
  __shared__ alignas(1024) __half a[2][64 * 64], b[2][64 * 64];
  __shared__ alignas(8) uint64_t full[2], empty[2];
  uint32_t rank = cluster_rank();
  int row = blockIdx.x * 64, column = blockIdx.y * 64, slices = k / 64;  // m is a multiple of 128, n and k are multiples of 64
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) mbar_init(&full[i], 1), mbar_init(&empty[i], 2);  // both CTAs release a stage
    fence_mbar_init();
  }
  cluster_sync();

  auto load = [&](int s) {
    int at = s % 2;
    mbar_wait_cluster(&empty[at], (s / 2 + 1) % 2);
    mbar_expect(&full[at], sizeof(a[0]) + sizeof(b[0]));
    tma_load(a[at], map_a, s * 64, row, &full[at]);
    tma_load_multicast(b[at] + rank * 32 * 64, map_b, s * 64, column + rank * 32, &full[at], 0b11);
  };
  if (threadIdx.x == 0) load(0);
  float d[32];
  for (int s = 0; s < slices; ++s) {
    int at = s % 2;
    if (threadIdx.x == 0 && s + 1 < slices) load(s + 1);
    mbar_wait(&full[at], s / 2 % 2);
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_f16(d, tile_128B(a[at], 32 * j), tile_128B(b[at], 32 * j), s + j);
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();
    if (threadIdx.x < 2) mbar_arrive_at(&empty[at], threadIdx.x);  // to both CTAs
  }
  for (int i = 0; i < 32; ++i) c[(row + acc_row(i)) * n + column + acc_col(i)] = d[i];
  cluster_sync();  // the other CTA may still multicast into this one
}
