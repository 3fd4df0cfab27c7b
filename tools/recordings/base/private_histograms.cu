// A histogram with a copy per warp of two 16-bit counters a word, merged in order; its entropy by a tree.
#include "base.cuh"

KERNEL(private_histograms)(const uchar4 *pixels, u32 *bins, float *entropy, int n) {
    __shared__ u32 packed[4][64];
    __shared__ float terms[64];
    int t = threadIdx.x, warp = t >> 5;
    for (int k = t; k < 4 * 64; k += 128) packed[k >> 6][k & 63] = 0;
    __syncthreads();
    for (int base = 0; base < n; base += 128) {
        uchar4 p = base + t < n ? pixels[base + t] : make_uchar4(0, 0, 0, 0);
        if (base + t < n) {
            u8 v[4] = {p.x, p.y, p.z, p.w};
            for (int k = 0; k < 4; k++) atomicAdd(&packed[warp][v[k] >> 2 & 63], 1u << (v[k] & 1) * 16);
        }
        __syncthreads();
    }
    if (t < 64) {
        u32 sum = 0;
        for (int w = 0; w < 4; w++) sum += (packed[w][t] & 0xffff) + (packed[w][t] >> 16) * 1000;
        atomicAdd(&bins[t], sum);
        float share = sum / (n * 4.0f);
        terms[t] = share > 0 ? -share * log2f(share) : 0;
    }
    __syncthreads();
    for (int d = 32; d > 0; d /= 2) {
        if (t < d) terms[t] += terms[t + d];
        __syncthreads();
    }
    if (t == 0) *entropy = terms[0];
}
