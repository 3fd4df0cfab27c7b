// Memory operations with every hint: cache policies, prefetches, eviction orders, sizes of sectors, discards, fences of every kind.
#include "base.cuh"

KERNEL(cache_hints)(const u32 *x, u32 *out, u64 *wide, u32 *scratch) {
    int i = global_thread();
    u32 a, b, c, d;
    u64 policy, w;
    asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.5;" : "=l"(policy));
    asm volatile("prefetch.global.L2 [%0]; prefetch.global.L1 [%0]; prefetch.global.L2::evict_last [%0]; prefetchu.L1 [%0];" ::"l"(x + i));
    asm volatile("ld.global.L1::evict_last.u32 %0, [%1];" : "=r"(a) : "l"(x + i));
    asm volatile("ld.global.L1::no_allocate.L2::128B.v2.u32 {%0, %1}, [%2];" : "=r"(b), "=r"(c) : "l"(x + (i & ~1)));
    asm volatile("ld.global.nc.L1::evict_first.L2::cache_hint.L2::256B.u32 %0, [%1], %2;" : "=r"(d) : "l"(x + i), "l"(policy));
    asm volatile("st.global.L1::evict_last.L2::cache_hint.u32 [%0], %1, %2;" ::"l"(out + i), "r"(a + b * c), "l"(policy) : "memory");
    asm volatile("atom.global.add.L2::cache_hint.u32 %0, [%1], %2, %3;" : "=r"(a) : "l"(out + i), "r"(d), "l"(policy) : "memory");
    asm volatile("red.relaxed.gpu.global.xor.L2::cache_hint.b32 [%0], %1, %2;" ::"l"(out + i), "r"(a >> 3), "l"(policy) : "memory");
    asm volatile("membar.cta; membar.gl; membar.sys; fence.sc.cta; fence.acq_rel.gpu; fence.acq_rel.sys; fence.proxy.alias;" ::: "memory");
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(b) : "l"(out + i) : "memory");
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(wide + i), "l"((u64)b << 7) : "memory");
    asm volatile("ld.acquire.cta.global.u64 %0, [%1];" : "=l"(w) : "l"(wide + i) : "memory");
    asm volatile("st.volatile.global.u64 [%0], %1;" ::"l"(wide + i), "l"(w * 3) : "memory");
    asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(c), "=r"(d) : "l"(wide + i) : "memory");
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(scratch + i * 32) : "memory");
    scratch[i * 32] = c;
    asm volatile("discard.global.L2 [%0], 128;" :: "l"(scratch + i * 32) : "memory");
    scratch[i * 32] = d;
    for (int k = 1; k < 32; k++) scratch[i * 32 + k] = k;
    __nanosleep(5);
}
