// Flash attention forward on wgmma: 64 queries of width 64 per CTA. The scores of the next block of keys are in flight while the
// softmax of this one runs; P goes into the second product from registers.
#include "../hopper.cuh"

struct Tiles {
  __half q[64 * 64], k[2][64 * 64], v[2][64 * 64];
};

extern "C" __global__ void __launch_bounds__(128)
    attention_overlapped(const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,
                         const __grid_constant__ CUtensorMap map_v, __half* o, int keys, float scale) {
  extern __shared__ __align__(1024) uint8_t raw[];
  Tiles& tiles = *(Tiles*)raw;
  __shared__ alignas(8) uint64_t full_q, full_k[2], full_v[2];
  int blocks = keys / 64;  // there are whole blocks of keys, and of queries, only
  if (threadIdx.x == 0) {
    mbar_init(&full_q, 1);
    for (int i = 0; i < 2; ++i) mbar_init(&full_k[i], 1), mbar_init(&full_v[i], 1);
    fence_mbar_init();
  }
  __syncthreads();

  auto load_k = [&](int i) {
    mbar_expect(&full_k[i % 2], sizeof(tiles.k[0]));
    tma_load(tiles.k[i % 2], map_k, 0, i * 64, &full_k[i % 2]);
  };
  auto load_v = [&](int i) {
    mbar_expect(&full_v[i % 2], sizeof(tiles.v[0]));
    tma_load(tiles.v[i % 2], map_v, 0, i * 64, &full_v[i % 2]);
  };
  if (threadIdx.x == 0) {
    mbar_expect(&full_q, sizeof(tiles.q));
    tma_load(tiles.q, map_q, 0, blockIdx.x * 64, &full_q);
    for (int i = 0; i < 2 && i < blocks; ++i) load_k(i), load_v(i);
  }

  float out[32] = {}, s[32], top[2] = {-1e30f, -1e30f}, sum[2] = {}, shrink[2];
  uint32_t p[4][4];
  auto scores = [&](int b) {
    for (int j = 0; j < 4; ++j) wgmma_f16(s, tile_128B(tiles.q, 32 * j), tile_128B(tiles.k[b % 2], 32 * j), j);
    wgmma_commit();
  };
  auto values = [&](int b) {
    for (int j = 0; j < 4; ++j) wgmma_rs_f16_bt(out, p[j], tile_128B(tiles.v[b % 2], 2048 * j));
    wgmma_commit();
  };
  auto softmax = [&]() {
    for (int h = 0; h < 2; ++h) {  // the two rows of this lane
      float most = top[h];
      for (int i = 0; i < 32; ++i)
        if (i / 2 % 2 == h) most = fmaxf(most, s[i] * scale);
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      shrink[h] = exp2f(top[h] - most);
      top[h] = most;
      sum[h] *= shrink[h];
      for (int i = 0; i < 32; ++i)
        if (i / 2 % 2 == h) sum[h] += s[i] = exp2f(fmaf(s[i], scale, -most));
    }
  };
  auto pack = [&]() {
    for (int j = 0; j < 4; ++j)
      for (int r = 0; r < 4; ++r) {
        int i = j * 8 + r / 2 * 4 + r % 2 * 2;
        __half2 pair = __floats2half2_rn(s[i], s[i + 1]);
        p[j][r] = *(uint32_t*)&pair;
      }
  };

  mbar_wait(&full_q, 0);
  mbar_wait(&full_k[0], 0);
  wgmma_fence();
  scores(0);
  wgmma_wait<0>();
  softmax();
  pack();
  for (int b = 1; b < blocks; ++b) {
    mbar_wait(&full_k[b % 2], b / 2 % 2);
    mbar_wait(&full_v[(b - 1) % 2], (b - 1) / 2 % 2);
    wgmma_fence();
    scores(b);
    values(b - 1);
    wgmma_wait<1>();  // the scores are there, the values still in flight
    __syncthreads();
    if (threadIdx.x == 0 && b + 1 < blocks) load_k(b + 1);
    softmax();
    wgmma_wait<0>();
    __syncthreads();
    if (threadIdx.x == 0 && b + 1 < blocks) load_v(b + 1);
    for (int i = 0; i < 32; ++i) out[i] *= shrink[i / 2 % 2];
    pack();
  }
  mbar_wait(&full_v[(blocks - 1) % 2], (blocks - 1) / 2 % 2);
  wgmma_fence();
  values(blocks - 1);
  wgmma_wait<0>();
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
  }
  for (int i = 0; i < 32; ++i) o[(blockIdx.x * 64 + acc_row(i)) * 64 + acc_col(i)] = __float2half_rn(out[i] / sum[i / 2 % 2]);
}
