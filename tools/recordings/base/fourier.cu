// A radix-4 Fourier transform of 256 points in shared memory, its factors from sincospif.
#include "base.cuh"

__device__ float2 operator*(float2 a, float2 b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }
__device__ float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
__device__ float2 operator-(float2 a, float2 b) { return {a.x - b.x, a.y - b.y}; }

KERNEL(fourier)(const float2 *in, float2 *out) {
    __shared__ float2 data[2][256];
    int t = threadIdx.x, from = 0;
    for (int k = 0; k < 4; k++) data[0][t + 64 * k] = in[blockIdx.x * 256 + t + 64 * k];
    for (int size = 1; size < 256; size *= 4, from ^= 1) {  // Stockham: no reversal of digits
        __syncthreads();
        float2 v[4];
        for (int k = 0; k < 4; k++) {
            float2 w;
            sincospif(-(float)(k * (t % size)) / (2 * size), &w.y, &w.x);
            v[k] = data[from][t + 64 * k] * w;
        }
        float2 a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = v[1] - v[3];
        d = {d.y, -d.x};
        int at = (t / size) * size * 4 + t % size;
        data[from ^ 1][at] = a + c, data[from ^ 1][at + size] = b + d, data[from ^ 1][at + 2 * size] = a - c, data[from ^ 1][at + 3 * size] = b - d;
    }
    __syncthreads();
    for (int k = 0; k < 4; k++) out[blockIdx.x * 256 + t + 64 * k] = data[from][t + 64 * k];
}
