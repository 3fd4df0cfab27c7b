// C = A B^T in f16 by tcgen05.mma of a pair of CTAs: each loads half of the rows of A and of B, one thread multiplies 256 x 64.
#include "../blackwell.cuh"

constexpr int STAGES = 2, M = 256, N = 64, K = 64;

extern "C" __global__ void __launch_bounds__(128)
    gemm_tcgen05_pair(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float* c, int n, int k) {
  __shared__ alignas(1024) __half a[STAGES][M / 2 * K], b[STAGES][N / 2 * K];
  __shared__ alignas(8) uint64_t full[STAGES], both[STAGES], empty[STAGES], done;
  __shared__ uint32_t columns;
  uint32_t rank = cluster_rank();
  int row = blockIdx.x * (M / 2), column = blockIdx.y * N, slices = k / K;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) mbar_init(&full[i], 1), mbar_init(&both[i], 2), mbar_init(&empty[i], 1);
    mbar_init(&done, 1);
    fence_mbar_init();
  }
  if (threadIdx.x < 32) tmem_alloc<2>(&columns, N);
  tcgen05_before_sync();
  cluster_sync();
  tcgen05_after_sync();
  uint32_t d = columns;

  if (threadIdx.x == 0) {
    for (int s = 0; s < slices; ++s) {
      int at = s % STAGES;
      mbar_wait_cluster(&empty[at], (s / STAGES + 1) % 2);
      mbar_expect(&full[at], sizeof(a[0]) + sizeof(b[0]));
      tma_load(a[at], map_a, s * K, row, &full[at]);
      tma_load(b[at], map_b, s * K, column + rank * (N / 2), &full[at]);
    }
  } else if (threadIdx.x == 32) {
    for (int s = 0; s < slices; ++s) {
      mbar_wait(&full[s % STAGES], s / STAGES % 2);
      mbar_arrive_at(&both[s % STAGES], 0);  // this CTA's halves are there
    }
  } else if (threadIdx.x == 64 && rank == 0) {
    for (int s = 0; s < slices; ++s) {
      int at = s % STAGES;
      mbar_wait_cluster(&both[at], s / STAGES % 2);
      for (int j = 0; j < 4; ++j) mma_f16<2>(d, tile_tcgen05(a[at], 32 * j), tile_tcgen05(b[at], 32 * j), f16_product(M, N), s + j);
      tcgen05_commit_pair(&empty[at]);
    }
    tcgen05_commit_pair(&done);
  }
  mbar_wait_cluster(&done, 0);
  __syncthreads();
  tcgen05_after_sync();

  for (int j = 0; j < N; j += 16) {
    float part[16];
    tmem_load(part, tmem_mine(d) + j);
    for (int i = 0; i < 16; ++i) c[(row + threadIdx.x) * n + column + j + i] = part[i];
  }
  tcgen05_before_sync();
  cluster_sync();
  if (threadIdx.x < 32) tmem_free<2>(d, N);
}
