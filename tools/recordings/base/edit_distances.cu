// Edit distance by anti-diagonals: a warp keeps a row band in registers, hands values on by shuffle and strips by shared memory.
#include "base.cuh"

KERNEL(edit_distances)(const char *a, const char *b, int *out, int length) {
    __shared__ short edge[129];
    int lane = threadIdx.x, pair = blockIdx.x;
    a += pair * length, b += pair * length;
    for (int k = lane; k <= length; k += 32) edge[k] = k;  // the row above the strip
    __syncwarp();
    for (int strip = 0; strip < length; strip += 32) {
        char mine = a[strip + lane];
        int left = strip + lane + 1, diagonal = strip + lane, up_last = 0;
        for (int k = 0; k < length + 31; k++) {
            int j = k - lane + 1, above = __shfl_up_sync(~0u, up_last, 1), best = up_last;
            if (j >= 1 && j <= length) {
                if (lane == 0) above = edge[j];
                best = min(min(above, left) + 1, diagonal + (mine != b[j - 1]));
                diagonal = above, left = best;
            }
            __syncwarp();
            if (lane == 31 && j >= 1 && j <= length) edge[j] = best;
            __syncwarp();
            up_last = best;
        }
        if (lane == 0) edge[0] = strip + 32;
        __syncwarp();
    }
    if (lane == 0) out[pair] = edge[length];
}
