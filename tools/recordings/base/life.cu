// The game of life on a torus, 32 cells a word: neighbours by funnel shifts, sums by full adders of three-input logic.
#include "base.cuh"

KERNEL(life)(const u32 *in, u32 *out, int width, int height, int steps) {
    extern __shared__ u32 cells[];
    int n = width * height;
    for (int k = threadIdx.x; k < n; k += blockDim.x) cells[k] = in[k];
    u32 *now = cells, *then = cells + n;
    for (int s = 0; s < steps; s++) {
        __syncthreads();
        for (int k = threadIdx.x; k < n; k += blockDim.x) {
            int x = k % width, y = k / width;
            u32 ones = 0, twos = 0, fours = 0;
            for (int d = -1; d <= 1; d++) {
                const u32 *row = now + (y + d + height) % height * width;
                u32 mid = row[x], left = __funnelshift_l(row[(x + width - 1) % width], mid, 1), right = __funnelshift_r(mid, row[(x + 1) % width], 1);
                u32 both = d ? mid : 0, sum = left ^ right ^ both, carry = left & right | left & both | right & both;
                u32 up = ones & sum;
                ones ^= sum;
                fours |= twos & carry | twos & up | carry & up;
                twos ^= carry ^ up;
            }
            then[k] = (ones | now[k]) & twos & ~fours;
        }
        u32 *old = now;
        now = then, then = old;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < n; k += blockDim.x) out[k] = now[k];
}
