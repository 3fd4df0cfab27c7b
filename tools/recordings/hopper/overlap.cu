// wgmma of two kinds in flight, accumulators that change roles, and zeroes that the compiler moves past the fence.
#include "hopper.cuh"
// overlapped: S of the next block is issued before O of the present one; registers of both in flight
KERNEL attention_overlapped(const __grid_constant__ CUtensorMap mq, const __grid_constant__ CUtensorMap mk, const __grid_constant__ CUtensorMap mv, __half* o, int keys, float scale) {
  extern __shared__ __align__(1024) uint8_t raw[];
  uint32_t base = (smem(raw) + 1023) & ~1023u, q = base;
  __shared__ alignas(8) uint64_t bars[5];
  int blocks = keys / 64;
  if (threadIdx.x == 0) { for (int i = 0; i < 5; ++i) mbar_init(smem(&bars[i]), 1); fence_init(); }
  __syncthreads();
  auto k_at = [&](int i) { return base + 8192 + (i & 1) * 8192; };
  auto v_at = [&](int i) { return base + 8192 * 3 + (i & 1) * 8192; };
  auto load_k = [&](int i) { uint32_t bar = smem(&bars[i & 1]); mbar_expect(bar, 8192); tma_load(k_at(i), &mk, 0, i * 64, bar); };
  auto load_v = [&](int i) { uint32_t bar = smem(&bars[2 + (i & 1)]); mbar_expect(bar, 8192); tma_load(v_at(i), &mv, 0, i * 64, bar); };
  if (threadIdx.x == 0) { mbar_expect(smem(&bars[4]), 8192); tma_load(q, &mq, 0, blockIdx.x * 64, smem(&bars[4])); load_k(0); load_v(0); if (blocks > 1) { load_k(1); load_v(1); } }
  float out[32], top[2] = {-1e30f, -1e30f}, sum[2] = {};
  for (int i = 0; i < 32; ++i) out[i] = 0;
  uint32_t p[4][4];
  float s[32], shrink[2];
  auto softmax = [&]() {
    for (int h = 0; h < 2; ++h) {
      float most = top[h];
      for (int i = 0; i < 32; ++i) if ((i >> 1 & 1) == h) most = fmaxf(most, s[i] * scale);
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(shrink[h]) : "f"(top[h] - most));
      top[h] = most; sum[h] *= shrink[h];
      for (int i = 0; i < 32; ++i) if ((i >> 1 & 1) == h) { asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(s[i]) : "f"(fmaf(s[i], scale, -most))); sum[h] += s[i]; }
    }
  };
  auto pack = [&]() { for (int j = 0; j < 4; ++j) for (int r = 0; r < 4; ++r) { __half2 pair = __floats2half2_rn(s[j * 8 + (r >> 1) * 4 + (r & 1) * 2], s[j * 8 + (r >> 1) * 4 + (r & 1) * 2 + 1]); p[j][r] = *(uint32_t*)&pair; } };
  auto qk = [&](int b) { for (int j = 0; j < 4; ++j) wgmma_f16(s, descriptor(q + 32 * j, 16, 1024, 1), descriptor(k_at(b) + 32 * j, 16, 1024, 1), j); wgmma_commit(); };
  auto pv = [&](int b) { for (int j = 0; j < 4; ++j) wgmma_rs_f16_bt(out, p[j], descriptor(v_at(b) + 2048 * j, 8192, 1024, 1), 1); wgmma_commit(); };
  mbar_wait(smem(&bars[4]), 0);
  mbar_wait(smem(&bars[0]), 0);
  wgmma_fence(); qk(0); wgmma_wait<0>();
  softmax(); pack();
  for (int b = 1; b < blocks; ++b) {
    mbar_wait(smem(&bars[b & 1]), b >> 1 & 1);
    mbar_wait(smem(&bars[2 + ((b - 1) & 1)]), (b - 1) >> 1 & 1);
    wgmma_fence();
    qk(b);
    pv(b - 1);
    wgmma_wait<1>();
    __syncthreads();
    if (threadIdx.x == 0 && b + 2 - 1 < blocks && b >= 1) { if (b + 1 < blocks) load_k(b + 1); }
    softmax();
    wgmma_wait<0>();
    __syncthreads();
    if (threadIdx.x == 0 && b + 1 < blocks) load_v(b + 1);
    for (int i = 0; i < 32; ++i) out[i] *= shrink[i >> 1 & 1];
    pack();
  }
  mbar_wait(smem(&bars[2 + ((blocks - 1) & 1)]), (blocks - 1) >> 1 & 1);
  wgmma_fence(); pv(blocks - 1); wgmma_wait<0>();
  for (int h = 0; h < 2; ++h) { sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 1); sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 2); }
  for (int i = 0; i < 32; ++i) o[(blockIdx.x * 64 + acc_row(i)) * 64 + acc_col(i)] = __float2half_rn(out[i] / sum[i >> 1 & 1]);
}
// zeroed accumulators, unrolled, wait<1> with two accumulator sets
KERNEL two_sets(const __half* ga, const __half* gb, float* c) {
  __shared__ alignas(1024) __half a[4][64 * 16];
  __shared__ alignas(1024) __half b[4][64 * 16];
  for (int i = threadIdx.x; i < 4096; i += 128) { (&a[0][0])[i] = ga[i]; (&b[0][0])[i] = gb[i]; }
  fence_async(); __syncthreads();
  float x[32] = {}, y[32] = {};
  wgmma_fence();
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k & 1) wgmma_f16(y, descriptor(smem(a[k]), 128, 256, 0), descriptor(smem(b[k]), 128, 256, 0), 1);
    else wgmma_f16(x, descriptor(smem(a[k]), 128, 256, 0), descriptor(smem(b[k]), 128, 256, 0), 1);
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  for (int i = 0; i < 32; ++i) c[acc_row(i) * 64 + acc_col(i)] = x[i] + y[i];
}
// dynamic loop with two sets that swap roles (phi copies)
KERNEL swapped(const __half* ga, const __half* gb, float* c, int n) {
  __shared__ alignas(1024) __half a[64 * 16];
  __shared__ alignas(1024) __half b[64 * 16];
  for (int i = threadIdx.x; i < 1024; i += 128) { a[i] = ga[i]; b[i] = gb[i]; }
  fence_async(); __syncthreads();
  float x[32] = {}, y[32];
  for (int i = 0; i < 32; ++i) y[i] = i;
  for (int k = 0; k < n; ++k) {
    wgmma_fence();
    wgmma_f16(x, descriptor(smem(a), 128, 256, 0), descriptor(smem(b), 128, 256, 0), 1);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 32; ++i) { float t = x[i]; x[i] = y[i]; y[i] = t; }
  }
  for (int i = 0; i < 32; ++i) c[acc_row(i) * 64 + acc_col(i)] = x[i] - y[i];
}
