// Opening of a picture of bytes: erosion and dilation of four pixels a word with SIMD minimum and maximum, through two tiles.
#include "base.cuh"

KERNEL(morphology)(const u32 *in, u32 *out, int width, int height) {  // width in words
    __shared__ u32 tile[20][18], eroded[18][18];
    int x0 = blockIdx.x * 16 - 1, y0 = blockIdx.y * 16 - 2, t = threadIdx.x;
    for (int k = t; k < 20 * 18; k += 128) {
        int x = x0 + k % 18, y = y0 + k / 18;
        tile[k / 18][k % 18] = x >= 0 && x < width && y >= 0 && y < height ? in[y * width + x] : ~0u;
    }
    __syncthreads();
    for (int k = t; k < 18 * 18; k += 128) {
        int x = k % 18, y = k / 18;
        u32 low = ~0u;
        for (int d = 0; d < 3; d++) {
            u32 left = x > 0 ? tile[y + d][x - 1] : ~0u, mid = tile[y + d][x], right = x < 17 ? tile[y + d][x + 1] : ~0u;
            low = __vminu4(low, __vminu4(mid, __vminu4(__byte_perm(left, mid, 0x6543), __byte_perm(mid, right, 0x4321))));
        }
        eroded[y][x] = low;
    }
    __syncthreads();
    for (int k = t; k < 256; k += 128) {
        int x = k % 16 + 1, y = k / 16;
        u32 high = 0;
        for (int d = 0; d < 3; d++) {
            u32 left = eroded[y + d][x - 1], mid = eroded[y + d][x], right = eroded[y + d][x + 1];
            high = __vmaxu4(high, __vmaxu4(mid, __vmaxu4(__byte_perm(left, mid, 0x6543), __byte_perm(mid, right, 0x4321))));
        }
        if (x0 + x < width && y0 + 2 + y < height) out[(y0 + 2 + y) * width + x0 + x] = high;
    }
}
