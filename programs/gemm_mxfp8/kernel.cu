// C = (scale_A A) (scale_B B)^T in e4m3 with a ue8m0 scale factor for every 32 elements of a row (MXFP8).
#include "../blackwell.cuh"

constexpr int M = 128, N = 64, K = 128;

// Scale factors of one slice into tensor memory: four bytes of a row in a column, 32 rows down, once in each warp's quarter.
DEV void store_scales(uint32_t at, const uint8_t* scales, int rows, int row, int slice, int blocks) {
  uint32_t words[4] = {};
  for (int i = 0; i < rows / 32; ++i) words[i] = ((const uint32_t*)(scales + (row + 32 * i + threadIdx.x % 32) * blocks))[slice];
  tmem_store(tmem_mine(at), words);
}

extern "C" __global__ void __launch_bounds__(128)
    gemm_mxfp8(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, const uint8_t* scale_a,
               const uint8_t* scale_b, float* c, int n, int k) {
  __shared__ alignas(1024) uint8_t a[M * K], b[N * K];
  __shared__ alignas(8) uint64_t full, done;
  __shared__ uint32_t columns;
  int row = blockIdx.y * M, column = blockIdx.x * N, slices = k / K;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1), mbar_init(&done, 1);
    fence_mbar_init();
  }
  if (threadIdx.x < 32) tmem_alloc<1>(&columns, 128);
  tcgen05_before_sync();
  __syncthreads();
  tcgen05_after_sync();
  uint32_t d = columns, sa = d + N, sb = sa + 4;

  for (int s = 0; s < slices; ++s) {
    if (threadIdx.x == 0) {
      mbar_expect(&full, sizeof(a) + sizeof(b));
      tma_load(a, map_a, s * K, row, &full);
      tma_load(b, map_b, s * K, column, &full);
    }
    store_scales(sa, scale_a, M, row, s, k / 32);
    store_scales(sb, scale_b, N, column, s, k / 32);
    tcgen05_before_sync();
    __syncthreads();
    if (threadIdx.x == 0) {
      tcgen05_after_sync();
      mbar_wait(&full, s % 2);
      for (int j = 0; j < 4; ++j)
        mma_mxfp8(d, tile_tcgen05(a, 32 * j), tile_tcgen05(b, 32 * j), mxfp8_product(M, N) | scale_id(j), sa, sb, s + j);
      tcgen05_commit(&done);
    }
    mbar_wait(&done, s % 2);
    __syncthreads();
    tcgen05_after_sync();
  }
  for (int j = 0; j < N; j += 16) {
    float part[16];
    tmem_load(part, tmem_mine(d) + j);
    for (int i = 0; i < 16; ++i) c[(row + threadIdx.x) * n + column + j + i] = part[i];
  }
  tcgen05_before_sync();
  __syncthreads();
  if (threadIdx.x < 32) tmem_free<1>(d, 128);
}
