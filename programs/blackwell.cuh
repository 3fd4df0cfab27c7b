// PTX of tcgen05 behind short names; the kernels of the gallery that need sm_100a include it. CTAS is 1, or 2 for a pair.
#pragma once
#include "hopper.cuh"

// ---- tensor memory --------------------------------------------------------------------------------
template <int CTAS> DEV void tmem_alloc(uint32_t* dst, uint32_t columns) {  // by one warp (of each CTA)
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(smem(dst)), "r"(columns), "n"(CTAS) : "memory");
}
template <int CTAS> DEV void tmem_free(uint32_t at, uint32_t columns) {
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(columns), "n"(CTAS) : "memory");
}
// Lane and column of this warp's quarter.
DEV uint32_t tmem_mine(uint32_t at) { return at + (threadIdx.x % 128 / 32 << 21); }
DEV void tmem_load(float (&d)[16], uint32_t at) {  // 16 columns of this thread's lane
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, [%16];\n"
      "tcgen05.wait::ld.sync.aligned;"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7]), "=f"(d[8]), "=f"(d[9]),
        "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]), "=f"(d[14]), "=f"(d[15])
      : "r"(at) : "memory");
}
DEV void tmem_store(uint32_t at, const uint32_t (&d)[4]) {  // four columns
  asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1,%2,%3,%4};\ntcgen05.wait::st.sync.aligned;" ::"r"(at), "r"(d[0]), "r"(d[1]),
               "r"(d[2]), "r"(d[3]) : "memory");
}
DEV void tcgen05_before_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DEV void tcgen05_after_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// ---- products -------------------------------------------------------------------------------------
// A descriptor of a tile with 128-byte rows that TMA swizzled: 8 rows are 1024 bytes.
DEV uint64_t tile_tcgen05(const void* tile, uint32_t offset = 0) {
  return ((smem(tile) + offset) & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}
// Instruction descriptors: f16 with f32 results; e4m3 with ue8m0 scale factors, of which byte `id` counts.
DEV constexpr uint32_t f16_product(int m, int n) { return 1 << 4 | n >> 3 << 17 | m >> 4 << 24; }
DEV constexpr uint32_t mxfp8_product(int m, int n) { return n >> 3 << 17 | 1 << 23 | m >> 7 << 27; }
DEV uint32_t scale_id(int id) { return id << 29 | id << 4; }

template <int CTAS> DEV void mma_f16(uint32_t d, uint64_t a, uint64_t b, uint32_t product, int keep) {
  asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %4, 0;\ntcgen05.mma.cta_group::%5.kind::f16 [%0], %1, %2, %3, keep;\n}" ::"r"(d), "l"(a),
               "l"(b), "r"(product), "r"(keep), "n"(CTAS) : "memory");
}
DEV void mma_mxfp8(uint32_t d, uint64_t a, uint64_t b, uint32_t product, uint32_t scale_a, uint32_t scale_b, int keep) {
  asm volatile(
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %6, 0;\n"
      "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%4], [%5], keep;\n}" ::"r"(d), "l"(a), "l"(b), "r"(product),
      "r"(scale_a), "r"(scale_b), "r"(keep) : "memory");
}
DEV void tcgen05_commit(uint64_t* bar) {  // the mbarrier counts one arrival when all products so far are complete
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(smem(bar)) : "memory");
}
DEV void tcgen05_commit_pair(uint64_t* bar) {  // in both CTAs
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(smem(bar)),
               "h"((uint16_t)3) : "memory");
}
