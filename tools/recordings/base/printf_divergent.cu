// printf from divergent code of one warp, with every kind of argument, in loops of different lengths.
#include "base.cuh"
#include <cstdio>

KERNEL(printf_divergent)(const int *x, int *counts) {
    int i = threadIdx.x, v = x[i];
    int length = 0;
    if (i == 0) printf("start %s %c %% %p\n", "warp", 'A' + v % 26, (void *)nullptr);
    __syncwarp();
    for (int k = 0; k < 4; k++) {
        if (i == k * 7) length += printf("lane %d round %u: %5d|%-6d|%06x|%+d|%#o\n", i, k, v, v, v, v, v & 511);
        __syncwarp();
    }
    if (i == 9) length += printf("%f %.3e %g %10.2f %a\n", v * 0.37, v * 1e10, v / 7.0, -v * 1.5, 0.5);
    __syncwarp();
    if (i == 21) length += printf("%lld %llu %016llx %hd %u\n", (s64)v * -9876543210ll, (u64)v << 40, (u64)v * 0x123456789ull, (short)(v * 999), (u8)(v * 3));
    __syncwarp();
    if (i == 31) length += printf("nothing more to say, %.2f, %7d, %s\n", 3.14159, v, "");
    counts[i] = length;
}
