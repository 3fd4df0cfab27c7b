// What the kernels of this folder share: PTX of the Hopper instructions behind short names.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#define DEV __device__ __forceinline__
#define KERNEL extern "C" __global__ void

DEV uint32_t smem(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// ---- mbarriers and clusters -----------------------------------------------------------------------
DEV void mbar_init(uint32_t bar, uint32_t count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory"); }
DEV void mbar_expect(uint32_t bar, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory"); }
DEV void mbar_arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory"); }
DEV void mbar_arrive_cluster(uint32_t bar) { asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(bar) : "memory"); }
DEV void mbar_wait(uint32_t bar, uint32_t parity) {
  asm volatile("{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT;\n}" :: "r"(bar), "r"(parity) : "memory");
}
DEV void mbar_wait_cluster(uint32_t bar, uint32_t parity) {
  asm volatile("{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra WAIT;\n}" :: "r"(bar), "r"(parity) : "memory");
}
DEV void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEV void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }
DEV void cluster_sync() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
DEV uint32_t cluster_rank() { uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
DEV uint32_t mapa(uint32_t address, uint32_t rank) { uint32_t r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank)); return r; }

// ---- bulk copies ----------------------------------------------------------------------------------
DEV void tma_load(uint32_t dst, const CUtensorMap* map, int x, int y, uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" :: "r"(dst), "l"(map), "r"(bar), "r"(x), "r"(y) : "memory");
}
DEV void tma_load_multicast(uint32_t dst, const CUtensorMap* map, int x, int y, uint32_t bar, uint16_t mask) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" :: "r"(dst), "l"(map), "r"(bar), "r"(x), "r"(y), "h"(mask) : "memory");
}
DEV void tma_store(const CUtensorMap* map, int x, int y, uint32_t src) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" :: "l"(map), "r"(src), "r"(x), "r"(y) : "memory");
}
DEV void tma_reduce_add(const CUtensorMap* map, int x, int y, uint32_t src) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%2, %3}], [%1];" :: "l"(map), "r"(src), "r"(x), "r"(y) : "memory");
}
DEV void bulk_load(uint32_t dst, const void* src, uint32_t bytes, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}
DEV void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> DEV void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory"); }
template <int N> DEV void bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" :: "n"(N) : "memory"); }

// ---- wgmma ----------------------------------------------------------------------------------------
DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEV void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
template <int N> DEV void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }
template <int N> DEV void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }
// mode 0: no swizzle, 1: 128 bytes, 2: 64, 3: 32
DEV uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride, uint64_t mode) {
  return ((address & 0x3FFFF) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | mode << 62;
}
#define R16(C, d, o) C(d[o]),C(d[o+1]),C(d[o+2]),C(d[o+3]),C(d[o+4]),C(d[o+5]),C(d[o+6]),C(d[o+7]),C(d[o+8]),C(d[o+9]),C(d[o+10]),C(d[o+11]),C(d[o+12]),C(d[o+13]),C(d[o+14]),C(d[o+15])
#define REGS16 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define REGS32 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
// A and B by descriptor, N = 64; TAIL are the immediates after scale-d
#define WGMMA_SS(NAME, OP, TAIL) \
  DEV void NAME(float (&d)[32], uint64_t a, uint64_t b, int keep) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned." OP " " REGS32 ", %32, %33, p" TAIL ";\n}" \
      : R16("+f", d, 0), R16("+f", d, 16) : "l"(a), "l"(b), "r"(keep)); }
// A in registers
#define WGMMA_RS(NAME, OP, TAIL) \
  DEV void NAME(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int keep) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned." OP " " REGS32 ", {%32, %33, %34, %35}, %36, p" TAIL ";\n}" \
      : R16("+f", d, 0), R16("+f", d, 16) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep)); }
WGMMA_SS(wgmma_f16, "m64n64k16.f32.f16.f16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_bf16, "m64n64k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SS(wgmma_bf16_bt, "m64n64k16.f32.bf16.bf16", ", 1, 1, 0, 1")
WGMMA_SS(wgmma_e4m3, "m64n64k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA_SS(wgmma_e5m2_e4m3, "m64n64k32.f32.e5m2.e4m3", ", 1, -1")
WGMMA_SS(wgmma_tf32, "m64n64k8.f32.tf32.tf32", ", 1, 1")
WGMMA_RS(wgmma_rs_f16, "m64n64k16.f32.f16.f16", ", 1, 1, 0")
WGMMA_RS(wgmma_rs_bf16, "m64n64k16.f32.bf16.bf16", ", -1, 1, 0")
WGMMA_RS(wgmma_rs_f16_bt, "m64n64k16.f32.f16.f16", ", 1, 1, 1")
WGMMA_RS(wgmma_rs_e4m3, "m64n64k32.f32.e4m3.e5m2", ", 1, 1")

// Row and column of accumulator register i of this thread in a 64 x N tile
DEV int acc_row(int i) { int t = threadIdx.x % 128; return t / 32 * 16 + t % 32 / 4 + (i >> 1 & 1) * 8; }
DEV int acc_col(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + (i & 1); }
