// A transposition through shared memory whose columns are swizzled by XOR, with 16-byte accesses on both sides.
#include "base.cuh"

KERNEL(swizzled_transpose)(const u32 *in, u32 *out, int width, int height) {
    __shared__ uint4 tile[32][8];
    int quad = threadIdx.x & 7, row = threadIdx.x >> 3;
    tile[row][quad ^ row >> 2 & 7] = *(const uint4 *)(in + (blockIdx.y * 32 + row) * width + blockIdx.x * 32 + quad * 4);
    __syncthreads();
    u32 v[4];
    for (int k = 0; k < 4; k++) {
        int r = quad * 4 + k;
        v[k] = ((const u32 *)&tile[r][row >> 2 ^ r >> 2 & 7])[row & 3];
    }
    *(uint4 *)(out + (blockIdx.x * 32 + row) * height + blockIdx.y * 32 + quad * 4) = {v[0], v[1], v[2], v[3]};
}
