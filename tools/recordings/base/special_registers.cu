// What a thread knows of itself, in a three-dimensional grid and block; clocks that move on; address spaces of pointers.
#include "base.cuh"

#define READ(name) { u32 d; asm volatile("mov.u32 %0, %%" name ";" : "=r"(d)); *out++ = d; }
__constant__ int fixed = 5;

KERNEL(special_registers)(u32 *out, const int *x) {
    __shared__ int s[2];
    extern __shared__ int more[];
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x, block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int local = x[0];
    out += (block * blockDim.x * blockDim.y * blockDim.z + thread) * 32;
    READ("tid.x") READ("tid.y") READ("tid.z") READ("ntid.x") READ("ntid.y") READ("ntid.z") READ("ctaid.x") READ("ctaid.y") READ("ctaid.z") READ("nctaid.x") READ("nctaid.y") READ("nctaid.z")
    READ("laneid") READ("lanemask_eq") READ("lanemask_le") READ("lanemask_lt") READ("lanemask_ge") READ("lanemask_gt") READ("dynamic_smem_size") READ("total_smem_size")
    u64 before, after, c0, c1;
    asm volatile("mov.u64 %0, %%globaltimer; mov.u64 %1, %%clock64;" : "=l"(before), "=l"(c0) :: "memory");
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %%globaltimer; mov.u64 %1, %%clock64;" : "=l"(after), "=l"(c1) :: "memory");
    *out++ = after >= before;
    *out++ = c1 > c0;
    *out++ = __isGlobal(x) | __isShared(&s[local]) << 1 | __isConstant(&fixed) << 2 | __isLocal(&local) << 3 | __isShared(x) << 4 | __isLocal(&more[0]) << 5 | __isGlobal(&fixed) << 6;
    more[thread] = local;
    const int *places[3] = {&more[thread], x, &local};
    *out++ = *places[(thread + 1) % 3] + (int)((u64)__cvta_generic_to_shared(&s[1]) - (u64)__cvta_generic_to_shared(&s[0]));
}
