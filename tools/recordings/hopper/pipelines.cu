// Producers and consumers: warp specialisation, persistent CTAs, ping-pong, clusters, stream-K, attention.
#include "hopper.cuh"

// Two consumer warpgroups take turns with whole tiles (ping-pong); C leaves through shared memory and TMA stores.
KERNEL __launch_bounds__(384, 1) gemm_pingpong(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, const __grid_constant__ CUtensorMap mc, int m, int n, int k) {
  extern __shared__ __align__(1024) uint8_t raw[];
  const int stages = 3, bytes = 16384;
  uint32_t base = (smem(raw) + 1023) & ~1023u, out = base + stages * bytes;
  __shared__ alignas(8) uint64_t full[stages], empty[stages], turn[2];
  int group = threadIdx.x / 128, t = threadIdx.x % 128, slices = k / 64, tiles_n = n / 64, tiles = m / 64 * tiles_n;
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; ++i) { mbar_init(smem(&full[i]), 1); mbar_init(smem(&empty[i]), 1); }
    mbar_init(smem(&turn[0]), 128);
    mbar_init(smem(&turn[1]), 128);
    fence_init();
  }
  __syncthreads();
  if (group == 0) {
    setmaxnreg_dec<40>();
    if (t == 0) {
      int it = 0;
      for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
        for (int s = 0; s < slices; ++s, ++it) {
          int at = it % stages;
          mbar_wait(smem(&empty[at]), (it / stages & 1) ^ 1);
          mbar_expect(smem(&full[at]), bytes);
          tma_load(base + at * bytes, &ma, s * 64, tile / tiles_n * 64, smem(&full[at]));
          tma_load(base + at * bytes + 8192, &mb, s * 64, tile % tiles_n * 64, smem(&full[at]));
        }
    }
    return;
  }
  setmaxnreg_inc<160>();
  int me = group - 1, round = 0, number = 0;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++number) {
    if (number % 2 != me) continue;
    if (number > 0) mbar_wait(smem(&turn[me]), (number - 1) / 2 & 1);  // the other group has issued its products
    float d[32];
    int it = number * slices;
    for (int s = 0; s < slices; ++s, ++it) {
      int at = it % stages;
      mbar_wait(smem(&full[at]), it / stages & 1);
      wgmma_fence();
      for (int j = 0; j < 4; ++j) wgmma_f16(d, descriptor(base + at * bytes + 32 * j, 16, 1024, 1), descriptor(base + at * bytes + 8192 + 32 * j, 16, 1024, 1), s + j);
      wgmma_commit();
      wgmma_wait<0>();
      if (t == 0) mbar_arrive(smem(&empty[at]));
    }
    mbar_arrive(smem(&turn[1 - me]));
    uint32_t c = out + me * 16384;
    if (t == 0) bulk_wait_read<0>();
    asm volatile("bar.sync %0, 128;" :: "r"(group) : "memory");
    for (int i = 0; i < 32; ++i) asm volatile("st.shared.f32 [%0], %1;" :: "r"(c + (acc_row(i) * 64 + acc_col(i)) * 4), "f"(d[i]) : "memory");
    fence_async();
    asm volatile("bar.sync %0, 128;" :: "r"(group) : "memory");
    if (t == 0) { tma_store(&mc, tile % tiles_n * 64, tile / tiles_n * 64, c); bulk_commit(); }
    ++round;
  }
  if (t == 0) bulk_wait<0>();
}

// Clusters of two CTAs share B: each loads half of it for both; slots are free when both CTAs have read them.
KERNEL gemm_multicast(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* c, int n, int k) {
  __shared__ alignas(1024) uint8_t a[2][8192];
  __shared__ alignas(1024) uint8_t b[2][8192];
  __shared__ alignas(8) uint64_t full[2], empty[2];
  uint32_t rank = cluster_rank();
  int slices = k / 64;
  if (threadIdx.x == 0) { for (int i = 0; i < 2; ++i) { mbar_init(smem(&full[i]), 1); mbar_init(smem(&empty[i]), 2); } fence_init(); }
  cluster_sync();
  auto load = [&](int s) {
    int at = s & 1;
    mbar_wait_cluster(smem(&empty[at]), (s >> 1 & 1) ^ 1);
    mbar_expect(smem(&full[at]), 16384);
    tma_load(smem(a[at]), &ma, s * 64, blockIdx.x * 64, smem(&full[at]));
    tma_load_multicast(smem(b[at]) + rank * 4096, &mb, s * 64, blockIdx.y * 64 + rank * 32, smem(&full[at]), 3);
  };
  if (threadIdx.x == 0) load(0);
  float d[32];
  for (int s = 0; s < slices; ++s) {
    if (threadIdx.x == 0 && s + 1 < slices) load(s + 1);
    mbar_wait(smem(&full[s & 1]), s >> 1 & 1);
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_f16(d, descriptor(smem(a[s & 1]) + 32 * j, 16, 1024, 1), descriptor(smem(b[s & 1]) + 32 * j, 16, 1024, 1), s + j);
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();
    if (threadIdx.x < 2) mbar_arrive_cluster(mapa(smem(&empty[s & 1]), threadIdx.x));
  }
  for (int i = 0; i < 32; ++i) c[(blockIdx.x * 64 + acc_row(i)) * n + blockIdx.y * 64 + acc_col(i)] = d[i];
  cluster_sync();
}

// Stream-K: each CTA takes an equal run of K slices over all tiles and adds its part by a TMA reduction.
KERNEL gemm_stream_k(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, const __grid_constant__ CUtensorMap mc, int tiles_n, int slices, int per_cta, int total) {
  __shared__ alignas(1024) uint8_t a[8192];
  __shared__ alignas(1024) uint8_t b[8192];
  __shared__ alignas(1024) float out[64 * 64];
  __shared__ alignas(8) uint64_t bars;
  if (threadIdx.x == 0) { mbar_init(smem(&bars), 1); fence_init(); }
  __syncthreads();
  int first = blockIdx.x * per_cta, last = min(first + per_cta, total), loads = 0;
  while (first < last) {
    int tile = first / slices, end = min(last, (tile + 1) * slices);
    float d[32];
    for (int w = first; w < end; ++w, ++loads) {
      int s = w % slices;
      if (threadIdx.x == 0) { mbar_expect(smem(&bars), 16384); tma_load(smem(a), &ma, s * 64, tile / tiles_n * 64, smem(&bars)); tma_load(smem(b), &mb, s * 64, tile % tiles_n * 64, smem(&bars)); }
      mbar_wait(smem(&bars), loads & 1);
      wgmma_fence();
      for (int j = 0; j < 4; ++j) wgmma_f16(d, descriptor(smem(a) + 32 * j, 16, 1024, 1), descriptor(smem(b) + 32 * j, 16, 1024, 1), w - first + j);
      wgmma_commit();
      wgmma_wait<0>();
      __syncthreads();
    }
    if (threadIdx.x == 0) bulk_wait_read<0>();
    __syncthreads();
    for (int i = 0; i < 32; ++i) out[acc_row(i) * 64 + acc_col(i)] = d[i];
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) { tma_reduce_add(&mc, tile % tiles_n * 64, tile / tiles_n * 64, smem(out)); bulk_commit(); }
    first = end;
  }
  if (threadIdx.x == 0) bulk_wait<0>();
}

// Attention of 64 queries of width 64 over blocks of 64 keys: S in registers, P as A in registers, V through the transpose.
KERNEL attention(const __grid_constant__ CUtensorMap mq, const __grid_constant__ CUtensorMap mk, const __grid_constant__ CUtensorMap mv, __half* o, int keys, float scale) {
  __shared__ alignas(1024) uint8_t q[8192];
  __shared__ alignas(1024) uint8_t kv[2][2][8192];
  __shared__ alignas(8) uint64_t bars[3];
  int blocks = keys / 64;
  if (threadIdx.x == 0) { for (int i = 0; i < 3; ++i) mbar_init(smem(&bars[i]), 1); fence_init(); }
  __syncthreads();
  auto load = [&](int i) { uint32_t bar = smem(&bars[i & 1]); mbar_expect(bar, 16384); tma_load(smem(kv[i & 1][0]), &mk, 0, i * 64, bar); tma_load(smem(kv[i & 1][1]), &mv, 0, i * 64, bar); };
  if (threadIdx.x == 0) { mbar_expect(smem(&bars[2]), 8192); tma_load(smem(q), &mq, 0, blockIdx.x * 64, smem(&bars[2])); load(0); }
  float out[32] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {};
  mbar_wait(smem(&bars[2]), 0);
  for (int b = 0; b < blocks; ++b) {
    if (threadIdx.x == 0 && b + 1 < blocks) load(b + 1);
    mbar_wait(smem(&bars[b & 1]), b >> 1 & 1);
    float s[32];
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_f16(s, descriptor(smem(q) + 32 * j, 16, 1024, 1), descriptor(smem(kv[b & 1][0]) + 32 * j, 16, 1024, 1), j);
    wgmma_commit();
    wgmma_wait<0>();
    uint32_t p[4][4];
    for (int h = 0; h < 2; ++h) {
      float most = top[h];
      for (int i = 0; i < 32; ++i) if ((i >> 1 & 1) == h) most = fmaxf(most, s[i] * scale);
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
      float shrink;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(shrink) : "f"(top[h] - most));
      top[h] = most;
      sum[h] *= shrink;
      for (int i = 0; i < 32; ++i) if ((i >> 1 & 1) == h) {
        out[i] *= shrink;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(s[i]) : "f"(fmaf(s[i], scale, -most)));
        sum[h] += s[i];
      }
    }
    for (int j = 0; j < 4; ++j) for (int r = 0; r < 4; ++r) {
      __half2 pair = __floats2half2_rn(s[j * 8 + (r >> 1) * 4 + (r & 1) * 2], s[j * 8 + (r >> 1) * 4 + (r & 1) * 2 + 1]);
      p[j][r] = *(uint32_t*)&pair;
    }
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_rs_f16_bt(out, p[j], descriptor(smem(kv[b & 1][1]) + 2048 * j, 8192, 1024, 1), 1);
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();
  }
  for (int h = 0; h < 2; ++h) { sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 1); sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 2); }
  for (int i = 0; i < 32; ++i) o[(blockIdx.x * 64 + acc_row(i)) * 64 + acc_col(i)] = __float2half_rn(__fdividef(out[i], sum[i >> 1 & 1]));
}

// A ring of four CTAs: st.async to the next, red.async to all, bulk copies between shared memories, bulk reductions.
KERNEL cluster_ring(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(128) uint32_t mine[256], theirs[256], total[256], moved[256];
  __shared__ alignas(8) uint64_t bars[4];
  uint32_t rank = cluster_rank(), t = threadIdx.x, next = (rank + 1) % 4;
  if (t == 0) { mbar_init(smem(&bars[0]), 1); mbar_init(smem(&bars[1]), 1); mbar_init(smem(&bars[2]), 1); mbar_init(smem(&bars[3]), 1); fence_init(); }
  mine[t] = in[rank * 256 + t];
  total[t] = 100 * rank;
  moved[t] = 7;
  fence_async();
  cluster_sync();
  if (t == 0) { mbar_expect(smem(&bars[0]), 1024); mbar_expect(smem(&bars[1]), 4096); mbar_expect(smem(&bars[2]), 1024); mbar_expect(smem(&bars[3]), 1024); }
  cluster_sync();
  if (t % 4 == 0)
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
      :: "r"(mapa(smem(&theirs[t]), next)), "r"(mine[t]), "r"(mine[t + 1]), "r"(mine[t + 2]), "r"(mine[t + 3]), "r"(mapa(smem(&bars[0]), next)) : "memory");
  for (uint32_t peer = 0; peer < 4; ++peer)
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
      :: "r"(mapa(smem(&total[t]), peer)), "r"(mine[t]), "r"(mapa(smem(&bars[1]), peer)) : "memory");
  if (t == 0) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
      :: "r"(mapa(smem(moved), next)), "r"(smem(mine)), "r"(mapa(smem(&bars[2]), next)) : "memory");
    mbar_wait_cluster(smem(&bars[2]), 0);
  }
  cluster_sync();
  if (t == 0)
    asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.max.u32 [%0], [%1], 1024, [%2];"
      :: "r"(mapa(smem(moved), next)), "r"(smem(mine)), "r"(mapa(smem(&bars[3]), next)) : "memory");
  for (int i = 0; i < 4; ++i) mbar_wait_cluster(smem(&bars[i]), 0);
  out[rank * 1024 + t] = theirs[t];
  out[rank * 1024 + 256 + t] = total[t];
  out[rank * 1024 + 512 + t] = moved[t];
  out[rank * 1024 + 768 + t] = *(volatile uint32_t*)&mine[t];
  cluster_sync();
}

// Bulk copies in and out with a ring of four slots and groups; a multicast in a cluster of two.
KERNEL bulk_stream(const float* in, float* out, int chunks) {
  __shared__ alignas(128) float slot[4][256];
  __shared__ alignas(128) float shared_part[256];
  __shared__ alignas(8) uint64_t bars[5];
  uint32_t rank = cluster_rank(), t = threadIdx.x;
  if (t == 0) { for (int i = 0; i < 5; ++i) mbar_init(smem(&bars[i]), 1); fence_init(); mbar_expect(smem(&bars[4]), 1024); }
  cluster_sync();
  if (t == 0 && rank == 1)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 1024, [%2], %3;"
      :: "r"(smem(shared_part)), "l"(in), "r"(smem(&bars[4])), "h"((uint16_t)3) : "memory");
  mbar_wait(smem(&bars[4]), 0);
  in += rank * chunks * 256;
  out += rank * chunks * 256;
  for (int i = 0; i < chunks + 2; ++i) {
    if (i < chunks && t == 0) {
      bulk_wait_read<1>();
      mbar_expect(smem(&bars[i % 4]), 1024);
      bulk_load(smem(slot[i % 4]), in + i * 256, 1024, smem(&bars[i % 4]));
    }
    if (i >= 2) {
      int j = i - 2;
      mbar_wait(smem(&bars[j % 4]), j / 4 & 1);
      slot[j % 4][t] = slot[j % 4][t] * 3.0f + shared_part[t];
      fence_async();
      __syncthreads();
      if (t == 0) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" :: "l"(out + j * 256), "r"(smem(slot[j % 4])) : "memory"); bulk_commit(); }
    }
  }
  if (t == 0) bulk_wait<0>();
  cluster_sync();
}
