// C = A B^T in f16, stream-K: every CTA takes an equal run of k slices, across tiles, and adds its part to C by a TMA reduction.
#include "../hopper.cuh"

extern "C" __global__ void __launch_bounds__(128)
    stream_k(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                  const __grid_constant__ CUtensorMap map_c, int tiles_n, int slices, int per_cta, int total) {
  __shared__ alignas(1024) __half a[64 * 64], b[64 * 64];
  __shared__ alignas(1024) float out[64 * 64];
  __shared__ alignas(8) uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbar_init();
  }
  __syncthreads();

  int work = blockIdx.x * per_cta, last = min(work + per_cta, total), loads = 0;
  while (work < last) {
    int tile = work / slices, end = min(last, (tile + 1) * slices);  // the part of this tile that is ours
    float d[32];
    for (int first = work; work < end; ++work, ++loads) {
      if (threadIdx.x == 0) {
        mbar_expect(&full, sizeof(a) + sizeof(b));
        tma_load(a, map_a, work % slices * 64, tile / tiles_n * 64, &full);
        tma_load(b, map_b, work % slices * 64, tile % tiles_n * 64, &full);
      }
      mbar_wait(&full, loads % 2);
      wgmma_fence();
      for (int j = 0; j < 4; ++j) wgmma_f16(d, tile_128B(a, 32 * j), tile_128B(b, 32 * j), work - first + j);
      wgmma_commit();
      wgmma_wait<0>();
      __syncthreads();
    }
    if (threadIdx.x == 0) bulk_wait_read<0>();
    __syncthreads();
    for (int i = 0; i < 32; ++i) out[acc_row(i) * 64 + acc_col(i)] = d[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      tma_reduce_add(map_c, tile % tiles_n * 64, tile / tiles_n * 64, out);
      bulk_commit();
    }
  }
  if (threadIdx.x == 0) bulk_wait<0>();
}
