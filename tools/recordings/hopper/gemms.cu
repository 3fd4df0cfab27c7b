// Matrix products of one warpgroup or two, with operands from TMA, registers or plain stores.
#include "hopper.cuh"

// One CTA of 128 threads loads 64-element-wide K slices (128 bytes, 128B swizzle) of A [64, K] and B [64, K] with TMA.
template <class F> DEV void one_tile(const CUtensorMap& ma, const CUtensorMap& mb, int k_elements, int per_slice, F multiply) {
  __shared__ alignas(1024) uint8_t a[2][8192];
  __shared__ alignas(1024) uint8_t b[2][8192];
  __shared__ alignas(8) uint64_t bars[2];
  uint32_t bar[2] = {smem(&bars[0]), smem(&bars[1])};
  if (threadIdx.x == 0) { mbar_init(bar[0], 1); mbar_init(bar[1], 1); fence_init(); }
  __syncthreads();
  int slices = k_elements / per_slice;
  auto load = [&](int s) { mbar_expect(bar[s & 1], 16384); tma_load(smem(a[s & 1]), &ma, s * per_slice, blockIdx.y * 64, bar[s & 1]); tma_load(smem(b[s & 1]), &mb, s * per_slice, blockIdx.x * 64, bar[s & 1]); };
  if (threadIdx.x == 0) { load(0); if (slices > 1) load(1); }
  for (int s = 0; s < slices; ++s) {
    mbar_wait(bar[s & 1], s >> 1 & 1);
    multiply(smem(a[s & 1]), smem(b[s & 1]), s);
    __syncthreads();
    if (threadIdx.x == 0 && s + 2 < slices) load(s + 2);
  }
}

DEV void put(float* c, const float (&d)[32], int n) {
  for (int i = 0; i < 32; ++i) c[(blockIdx.y * 64 + acc_row(i)) * n + blockIdx.x * 64 + acc_col(i)] = d[i];
}

KERNEL gemm_ss_f16(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* c, int n, int k) {
  float d[32];
  one_tile(ma, mb, k, 64, [&](uint32_t a, uint32_t b, int s) {
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_f16(d, descriptor(a + 32 * j, 16, 1024, 1), descriptor(b + 32 * j, 16, 1024, 1), s + j);
    wgmma_commit();
    wgmma_wait<0>();
  });
  put(c, d, n);
}

KERNEL gemm_ss_tf32(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* c, int n, int k) {
  float d[32];
  one_tile(ma, mb, k, 32, [&](uint32_t a, uint32_t b, int s) {
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_tf32(d, descriptor(a + 32 * j, 16, 1024, 1), descriptor(b + 32 * j, 16, 1024, 1), s + j);
    wgmma_commit();
    wgmma_wait<0>();
  });
  put(c, d, n);
}

// fp8 with a scale for each row of A and each K slice of 128, summed in f32
KERNEL gemm_fp8_scaled(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, const float* scale_a, const float* scale_b, float* c, int n, int k) {
  float sum[32] = {};
  one_tile(ma, mb, k, 128, [&](uint32_t a, uint32_t b, int s) {
    float d[32];
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_e4m3(d, descriptor(a + 32 * j, 16, 1024, 1), descriptor(b + 32 * j, 16, 1024, 1), j);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 32; ++i) sum[i] += d[i] * (scale_a[s * 64 + acc_row(i)] * scale_b[s]);
  });
  put(c, sum, n);
}

KERNEL gemm_fp8_mixed(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* c, int n, int k) {
  float d[32] = {};
  one_tile(ma, mb, k, 128, [&](uint32_t a, uint32_t b, int s) {
    wgmma_fence();
    for (int j = 0; j < 4; ++j) { wgmma_e5m2_e4m3(d, descriptor(a + 32 * j, 16, 1024, 1), descriptor(b + 32 * j, 16, 1024, 1), 1); wgmma_commit(); }
    wgmma_wait<0>();
  });
  put(c, d, n);
}

// A from global memory straight into registers, negated; B through TMA
KERNEL gemm_rs_bf16(const __nv_bfloat16* ga, const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* c, int n, int k) {
  float d[32];
  for (int i = 0; i < 32; ++i) d[i] = i;
  one_tile(ma, mb, k, 64, [&](uint32_t, uint32_t b, int s) {
    uint32_t a[4][4];
    for (int j = 0; j < 4; ++j) for (int r = 0; r < 4; ++r)
      a[j][r] = *(const uint32_t*)(ga + (threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + (r & 1) * 8) * k + s * 64 + j * 16 + (r >> 1) * 8 + threadIdx.x % 4 * 2);
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_rs_bf16(d, a[j], descriptor(b + 32 * j, 16, 1024, 1), 1);
    wgmma_commit();
    wgmma_wait<0>();
  });
  put(c, d, n);
}

// fp8 A in registers, B in e5m2
KERNEL gemm_rs_fp8(const uint8_t* ga, const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, float* c, int n, int k) {
  float d[32] = {};
  one_tile(ma, mb, k, 128, [&](uint32_t, uint32_t b, int s) {
    uint32_t a[4][4];
    for (int j = 0; j < 4; ++j) for (int r = 0; r < 4; ++r)
      a[j][r] = *(const uint32_t*)(ga + (threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + (r & 1) * 8) * k + s * 128 + j * 32 + (r >> 1) * 16 + threadIdx.x % 4 * 4);
    wgmma_fence();
    for (int j = 0; j < 4; ++j) wgmma_rs_e4m3(d, a[j], descriptor(b + 32 * j, 16, 1024, 1), 1);
    wgmma_commit();
    wgmma_wait<0>();
  });
  put(c, d, n);
}

// 2:4 sparse A [64, 32] of K = 64 without swizzle, stored by threads; metadata from global memory, two steps
KERNEL gemm_sparse_f16(const uint32_t* ga, const uint32_t* gb, const uint32_t* meta, float* c) {
  __shared__ alignas(1024) uint32_t a[2][512];
  __shared__ alignas(1024) uint32_t b[2][1024];
  for (int i = threadIdx.x; i < 1024; i += 128) { (&a[0][0])[i] = ga[i]; }
  for (int i = threadIdx.x; i < 2048; i += 128) { (&b[0][0])[i] = gb[i]; }
  fence_async();
  __syncthreads();
  float d[32];
  uint32_t e[2] = {meta[threadIdx.x], meta[128 + threadIdx.x]};
  wgmma_fence();
  for (int j = 0; j < 2; ++j)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %35, 0;\nwgmma.mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16 " REGS32 ", %32, %33, %34, 0, p, 1, 1, 0, 0;\n}"
      : R16("+f", d, 0), R16("+f", d, 16) : "l"(descriptor(smem(a[j]), 128, 256, 0)), "l"(descriptor(smem(b[j]), 128, 512, 0)), "r"(e[j]), "r"(j));
  wgmma_commit();
  wgmma_wait<0>();
  for (int i = 0; i < 32; ++i) c[acc_row(i) * 64 + acc_col(i)] = d[i];
}

// s8 and u8, N = 32, B with 64-byte swizzle
KERNEL gemm_s8(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mb, int* c, int k) {
  __shared__ alignas(1024) uint8_t a[64 * 64];
  __shared__ alignas(1024) uint8_t b[32 * 64];
  __shared__ alignas(8) uint64_t bars;
  if (threadIdx.x == 0) { mbar_init(smem(&bars), 1); fence_init(); }
  __syncthreads();
  int d[16] = {};
  for (int s = 0; s < k / 64; ++s) {
    if (threadIdx.x == 0) { mbar_expect(smem(&bars), sizeof a + sizeof b); tma_load(smem(a), &ma, s * 64, 0, smem(&bars)); tma_load(smem(b), &mb, s * 64, 0, smem(&bars)); }
    mbar_wait(smem(&bars), s & 1);
    wgmma_fence();
    for (int j = 0; j < 2; ++j)
      asm volatile("wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.u8.satfinite " REGS16 ", %16, %17, 1;"
        : R16("+r", d, 0) : "l"(descriptor(smem(a) + 32 * j, 16, 512, 2)), "l"(descriptor(smem(b) + 32 * j, 16, 512, 2)));
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();
  }
  for (int i = 0; i < 16; ++i) c[acc_row(i) * 32 + acc_col(i)] = d[i];
}

// cp.async by all threads into a buffer without swizzle, three stages, mbarriers that follow the copies
KERNEL gemm_cp_async(const __half* ga, const __half* gb, float* c, int k) {
  __shared__ alignas(128) __half a[3][64 * 32];
  __shared__ alignas(128) __half b[3][64 * 32];
  __shared__ alignas(8) uint64_t bars[3];
  int t = threadIdx.x;
  if (t == 0) for (int i = 0; i < 3; ++i) mbar_init(smem(&bars[i]), 128);
  __syncthreads();
  auto load = [&](int s) {
    for (int i = 0; i < 2; ++i) {  // core matrices of 8 rows of 16 bytes; row groups 512 bytes apart
      int row = t / 2, part = t % 2 * 2 + i;
      uint32_t offset = row / 8 * 512 + part * 128 + row % 8 * 16;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(smem(a[s % 3]) + offset), "l"(ga + row * k + s * 32 + part * 8));
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(smem(b[s % 3]) + offset), "l"(gb + row * k + s * 32 + part * 8));
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(smem(&bars[s % 3])) : "memory");
  };
  int slices = k / 32;
  load(0);
  load(1);
  float d[32] = {};
  for (int s = 0; s < slices; ++s) {
    mbar_wait(smem(&bars[s % 3]), s / 3 & 1);
    fence_async();
    __syncthreads();
    wgmma_fence();
    for (int j = 0; j < 2; ++j) wgmma_f16(d, descriptor(smem(a[s % 3]) + 256 * j, 128, 512, 0), descriptor(smem(b[s % 3]) + 256 * j, 128, 512, 0), 1);
    wgmma_commit();
    wgmma_wait<0>();
    __syncthreads();
    if (s + 2 < slices) load(s + 2);
  }
  for (int i = 0; i < 32; ++i) c[acc_row(i) * 64 + acc_col(i)] = d[i];
}
