// Shuffles of 4 and 8 bytes in all modes and widths: inclusive and segmented scans, a butterfly, a rotation, a broadcast by data.
#include "base.cuh"

KERNEL(warp_scans)(const int *x, const u8 *heads, int *out, double *wide, int n) {
    int i = global_thread(), lane = threadIdx.x & 31;
    if (i >= n) return;  // the last warp is partial
    u32 here = __activemask();
    int v = x[i], sum = v, flag = heads[i] & 1, part = v;
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(here, sum, d);
        if (lane >= d) sum += other;
    }
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(here, part, d), stop = __shfl_up_sync(here, flag, d);
        if (lane >= d && !flag) part = max(part, other), flag = stop;
    }
    int group = v;
    for (int d = 4; d > 0; d /= 2) group ^= __shfl_xor_sync(here, group + d, d, 8);
    int rotated = __shfl_sync(here, v, lane + 3, 16), picked = __shfl_sync(here, v, heads[i] % 8), down = __shfl_down_sync(here, v, 5, 16);
    double product = 1.0 + v * 0.001;
    for (int d = 2; d > 0; d /= 2) product *= __shfl_xor_sync(here, product, d, 4);
    s64 far = __shfl_down_sync(here, (s64)v << 33 | lane, 1, 4);
    int results[] = {sum, part, group, rotated, picked, down, (int)(far >> 31), (int)far};
    for (int k = 0; k < 8; k++) out[k * n + i] = results[k];
    wide[i] = product;
}
