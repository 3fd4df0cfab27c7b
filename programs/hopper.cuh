// PTX of the Hopper instructions behind short names; the kernels of the gallery that need sm_90a include it.
#pragma once
#include <cuda.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define DEV __device__ __forceinline__

DEV uint32_t smem(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// ---- mbarriers and clusters -----------------------------------------------------------------------
DEV void mbar_init(uint64_t* bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(bar)), "r"(count) : "memory");
}
DEV void mbar_expect(uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory");
}
DEV void mbar_arrive(uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
}
DEV void mbar_arrive_at(uint64_t* bar, uint32_t rank) {  // the same object in another CTA of the cluster
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" ::"r"(smem(bar)), "r"(rank) : "memory");
}
DEV void mbar_wait(uint64_t* bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(smem(bar)),
      "r"(parity) : "memory");
}
DEV void mbar_wait_cluster(uint64_t* bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(
          smem(bar)),
      "r"(parity) : "memory");
}
DEV void fence_mbar_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEV void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }
DEV void cluster_sync() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
DEV uint32_t cluster_rank() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}

// ---- TMA ------------------------------------------------------------------------------------------
DEV void tma_load(void* dst, const CUtensorMap& map, int x, int y, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(smem(dst)),
      "l"(&map), "r"(smem(bar)), "r"(x), "r"(y) : "memory");
}
DEV void tma_load_multicast(void* dst, const CUtensorMap& map, int x, int y, uint64_t* bar, uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(
          smem(dst)),
      "l"(&map), "r"(smem(bar)), "r"(x), "r"(y), "h"(ctas) : "memory");
}
DEV void tma_store(const CUtensorMap& map, int x, int y, const void* src) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(smem(src)), "r"(x), "r"(y)
               : "memory");
}
DEV void tma_reduce_add(const CUtensorMap& map, int x, int y, const void* src) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(smem(src)),
               "r"(x), "r"(y) : "memory");
}
DEV void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> DEV void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
template <int N> DEV void bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }

// ---- wgmma ----------------------------------------------------------------------------------------
DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N> DEV void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEV void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

// A descriptor of a tile with 128-byte rows that TMA swizzled: 8 rows are 1024 bytes.
DEV uint64_t tile_128B(const void* tile, uint32_t offset = 0) {
  return (((smem(tile) + offset) & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
#define R16(C, d, o) C(d[o]), C(d[o + 1]), C(d[o + 2]), C(d[o + 3]), C(d[o + 4]), C(d[o + 5]), C(d[o + 6]), C(d[o + 7]), \
    C(d[o + 8]), C(d[o + 9]), C(d[o + 10]), C(d[o + 11]), C(d[o + 12]), C(d[o + 13]), C(d[o + 14]), C(d[o + 15])
#define REGS32 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
// d = a * b + (keep ? d : 0), a and b by descriptor, n = 64
#define WGMMA(NAME, SHAPE, TAIL)                                                                                        \
  DEV void NAME(float (&d)[32], uint64_t a, uint64_t b, int keep) {                                                     \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %34, 0;\nwgmma.mma_async.sync.aligned." SHAPE " " REGS32        \
                 ", %32, %33, keep" TAIL ";\n}"                                                                         \
                 : R16("+f", d, 0), R16("+f", d, 16) : "l"(a), "l"(b), "r"(keep));                                     \
  }
WGMMA(wgmma_f16, "m64n64k16.f32.f16.f16", ", 1, 1, 0, 0")
WGMMA(wgmma_e4m3, "m64n64k32.f32.e4m3.e4m3", ", 1, 1")
// a in registers, b transposed (n innermost)
DEV void wgmma_rs_f16_bt(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " REGS32 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : R16("+f", d, 0), R16("+f", d, 16) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// Row and column of accumulator register i of this thread in a 64 x n tile.
DEV int acc_row(int i) { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + (i >> 1 & 1) * 8; }
DEV int acc_col(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + (i & 1); }
