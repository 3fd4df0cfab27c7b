// Atomics of every operation and type, in global, shared and generic memory, with results that no order can change.
#include "base.cuh"
#include <cuda/atomic>

union Cells {
    u32 w[36];
    u64 d[18];
    float f[36];
    double g[18];
    __half2 h[36];
    __nv_bfloat162 b[36];
    u16 s[72];
};

__device__ void work(Cells *c, int v, int t) {
    atomicAdd(&c->w[0], v), atomicSub(&c->w[1], v * 3), atomicMin((int *)&c->w[2], v - 50), atomicMax((int *)&c->w[3], v), atomicMin(&c->w[4], v - 50), atomicMax(&c->w[5], v - 50);
    atomicAnd(&c->w[6], ~(1 << v % 31)), atomicOr(&c->w[7], 1 << v % 31), atomicXor(&c->w[8], v * 0x9e3779b9), atomicInc(&c->w[9], 36), atomicDec(&c->w[10], 40);
    atomicAdd(&c->f[11], v * 0.25f), atomicAdd(&c->h[12], __floats2half2_rn(v & 7, (v & 3) - 1.5f)), atomicAdd(&c->b[13], __floats2bfloat162_rn(v & 1, (v & 2) - 1.f));
    atomicAdd((__half *)&c->s[64], __float2half(v & 3));
    atomicAdd(&c->d[8], (u64)v << 31), atomicMin((s64 *)&c->d[9], (s64)(v - 60) * 5000000000), atomicMax(&c->d[10], (u64)v * 7000000000), atomicAnd(&c->d[11], ~(1ull << v % 64));
    atomicOr(&c->d[12], 1ull << v % 64), atomicXor(&c->d[13], (u64)v * 0x9e3779b97f4a7c15), atomicAdd(&c->g[14], v * 0.125);
    for (u16 seen = *(volatile u16 *)&c->s[60], old;; seen = old)
        if ((old = atomicCAS(&c->s[60], seen, (u16)(seen + v))) == seen) break;
    for (u64 seen = *(volatile u64 *)&c->d[7], old;; seen = old)
        if ((old = atomicCAS(&c->d[7], seen, seen + (u64)v * v)) == seen) break;
    if (t == 37) atomicExch(&c->w[31], 99);
}

KERNEL(atomic_kinds)(const int *x, Cells *cells, int *olds) {
    __shared__ Cells shared;
    int t = threadIdx.x, v = x[blockIdx.x * 64 + t];
    if (t < 36) shared.w[t] = t == 6 || t == 22 || t == 23 ? ~0u : t == 4 || t == 2 ? 500 : 0;
    __syncthreads();
    work(&cells[gridDim.x], v, t);
    work(&shared, v, t);
    Cells *generic = t & 1 ? &cells[gridDim.x + 1] : &shared;
    atomicAdd(&generic->w[33], v);
    cuda::atomic_ref<int, cuda::thread_scope_block> low(*(int *)&shared.w[34]);
    low.fetch_max(v, cuda::std::memory_order_acq_rel);
    cuda::atomic_ref<u64, cuda::thread_scope_system> far(cells[gridDim.x + 1].d[0]);
    far.fetch_add(v, cuda::std::memory_order_seq_cst);
    __syncthreads();
    if (t < 36) cells[blockIdx.x].w[t] = shared.w[t];
    __syncthreads();
    if (t == 0) {  // one thread alone: what comes back counts too
        u32 *w = shared.w;
        int r[] = {(int)atomicAdd(&w[0], 5), (int)atomicInc(&w[9], 3), (int)atomicDec(&w[10], 2), (int)atomicExch(&w[1], 8), (int)atomicCAS(&w[1], 8u, 9u), (int)atomicCAS(&w[1], 8u, 10u),
                   (int)atomicMin((int *)&w[2], -77), (int)bits(atomicAdd(&shared.f[11], 0.1f)), (int)bits(atomicAdd(&shared.h[12], __floats2half2_rn(0.1f, 65504))),
                   (int)bits(atomicAdd(&shared.b[13], __floats2bfloat162_rn(1e-3f, 3e38f))), (int)w[12], (int)w[13], (int)w[11], (int)w[9]};
        for (int k = 0; k < 14; k++) olds[blockIdx.x * 14 + k] = r[k];
    }
}
