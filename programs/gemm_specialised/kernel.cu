// C = A B^T in f16, warp-specialised and persistent: one warpgroup drives TMA, two multiply and take turns with the tiles. TMA
// fills what lies outside of A and B with zeros and leaves out what lies outside of C: m, n and k need not be multiples of 64.
#include "../hopper.cuh"

constexpr int STAGES = 3;

struct Stage {
  __half a[64 * 64], b[64 * 64];
};

extern "C" __global__ void __launch_bounds__(384, 1)
    gemm_specialised(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ CUtensorMap map_c, int m, int n, int k) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Stage* ring = (Stage*)raw;
  float* out = (float*)(raw + STAGES * sizeof(Stage));  // a tile for each consumer
  __shared__ alignas(8) uint64_t full[STAGES], empty[STAGES], turn;
  int group = threadIdx.x / 128, leader = threadIdx.x % 128 == 0;
  int slices = (k + 63) / 64, tiles_n = (n + 63) / 64, tiles = (m + 63) / 64 * tiles_n;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) mbar_init(&full[i], 1), mbar_init(&empty[i], 1);
    mbar_init(&turn, 1);
    fence_mbar_init();
  }
  __syncthreads();

  if (group == 0) {  // the producer
    setmaxnreg_dec<40>();
    if (leader) {
      int it = 0;
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
        for (int s = 0; s < slices; ++s, ++it) {
          int at = it % STAGES;
          mbar_wait(&empty[at], (it / STAGES + 1) % 2);  // the first round passes at once
          mbar_expect(&full[at], sizeof(Stage));
          tma_load(ring[at].a, map_a, s * 64, tile / tiles_n * 64, &full[at]);
          tma_load(ring[at].b, map_b, s * 64, tile % tiles_n * 64, &full[at]);
        }
    }
    return;
  }

  setmaxnreg_inc<160>();  // the consumers
  float* mine = out + (group - 1) * 64 * 64;
  int number = 0;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++number) {
    if (number % 2 != group - 1) continue;
    mbar_wait(&turn, (number + 1) % 2);  // the other has read all slices before ours; a parity tells only neighbouring rounds apart
    float d[32];
    for (int s = 0; s < slices; ++s) {
      int it = number * slices + s, at = it % STAGES;
      mbar_wait(&full[at], it / STAGES % 2);
      wgmma_fence();
      for (int j = 0; j < 4; ++j) wgmma_f16(d, tile_128B(ring[at].a, 32 * j), tile_128B(ring[at].b, 32 * j), s + j);
      wgmma_commit();
      wgmma_wait<0>();
      asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
      if (leader) mbar_arrive(&empty[at]);
    }
    if (leader) mbar_arrive(&turn), bulk_wait_read<0>();  // the last tile has left `mine`
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
    for (int i = 0; i < 32; ++i) mine[acc_row(i) * 64 + acc_col(i)] = d[i];
    fence_proxy_async();
    asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
    if (leader) {
      tma_store(map_c, tile % tiles_n * 64, tile / tiles_n * 64, mine);
      bulk_commit();
    }
  }
  if (leader) bulk_wait<0>();
}
