// C = A B^T in f16 by tcgen05.mma: one warp loads, one multiplies, all four store a tile of 128 x 64 from tensor memory.
#include "../blackwell.cuh"

constexpr int STAGES = 2, M = 128, N = 64, K = 64;

extern "C" __global__ void __launch_bounds__(128)
    gemm_tcgen05(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float* c, int n, int k) {
  extern __shared__ __align__(1024) __half ring[];
  __shared__ alignas(8) uint64_t full[STAGES], empty[STAGES], done;
  __shared__ uint32_t columns;
  __half(*a)[M * K] = (__half(*)[M * K]) ring, (*b)[N * K] = (__half(*)[N * K])(ring + STAGES * M * K);
  int row = blockIdx.y * M, column = blockIdx.x * N, slices = k / K;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) mbar_init(&full[i], 1), mbar_init(&empty[i], 1);
    mbar_init(&done, 1);
    fence_mbar_init();
  }
  if (threadIdx.x < 32) tmem_alloc<1>(&columns, N);
  tcgen05_before_sync();
  __syncthreads();
  tcgen05_after_sync();
  uint32_t d = columns;

  if (threadIdx.x == 0) {
    for (int s = 0; s < slices; ++s) {
      int at = s % STAGES;
      mbar_wait(&empty[at], (s / STAGES + 1) % 2);
      mbar_expect(&full[at], sizeof(a[0]) + sizeof(b[0]));
      tma_load(a[at], map_a, s * K, row, &full[at]);
      tma_load(b[at], map_b, s * K, column, &full[at]);
    }
  } else if (threadIdx.x == 32) {
    for (int s = 0; s < slices; ++s) {
      int at = s % STAGES;
      mbar_wait(&full[at], s / STAGES % 2);
      for (int j = 0; j < 4; ++j) mma_f16<1>(d, tile_tcgen05(a[at], 32 * j), tile_tcgen05(b[at], 32 * j), f16_product(M, N), s + j);
      tcgen05_commit(&empty[at]);
    }
    tcgen05_commit(&done);
  }
  mbar_wait(&done, 0);
  __syncthreads();
  tcgen05_after_sync();

  for (int j = 0; j < N; j += 16) {
    float part[16];
    tmem_load(part, tmem_mine(d) + j);
    for (int i = 0; i < 16; ++i) c[(row + threadIdx.x) * n + column + j + i] = part[i];
  }
  tcgen05_before_sync();
  __syncthreads();
  if (threadIdx.x < 32) tmem_free<1>(d, N);
}
