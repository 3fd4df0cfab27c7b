#include <cstdint>
constexpr int R = 3, BLOCK = 64;

struct Slot {
    int head;
    float a[4];
    unsigned char flag;
};

struct Step {
    float scale;
    int shift;
    const float* bias;
};

namespace table {
__constant__ float weights[2 * R + 1] = {1, 2, 3, 4, 3, 2, 1};
__device__ short grid2[2][3] = {{1, 2, 3}, {-4, -5, -6}};
}  // namespace table

__device__ Slot last;

__device__ __forceinline__ float tap(const float* row, int k) {
    float w = table::weights[k];
    return w * row[k];
}

__device__ __forceinline__ float sum(const float* row) {
    float total = 0;
    for (int k = 0; k < 2 * R + 1; ++k) total += tap(row, k);
    return total;
}

template <typename T>
__device__ __noinline__ T twice(T value) {
    T more = value + value;
    return more;
}

__global__ void stencil(const float* x, float* y, int n, Step step) {
    __shared__ float coef[7];
    __shared__ float tile[BLOCK + 2 * R];
    __shared__ Slot ring[2];
    __shared__ double square[3][4];
    int t = threadIdx.x;
    int i = blockIdx.x * BLOCK + t;
    if (t < 7) coef[t] = table::weights[t] * step.scale;
    if (t < 12) square[t / 4][t % 4] = t;
    if (t < 2) {
        ring[t].head = t + step.shift;
        for (int j = 0; j < 4; ++j) ring[t].a[j] = 10 * t + j;
        ring[t].flag = 'a' + t;
    }
    tile[t + R] = i < n ? x[i] : 0;
    if (t < R) {
        tile[t] = i >= R ? x[i - R] : 0;
        tile[t + BLOCK + R] = i + BLOCK < n ? x[i + BLOCK] : 0;
    }
    __syncthreads();
    if (i < n) {
        float s = sum(&tile[t]) + coef[0] + (float)square[1][2];
        y[i] = twice(s) + step.bias[ring[t & 1].head & 1];
    }
    if (i == 0) {
        last.head = table::grid2[1][0];
        last.a[3] = ring[1].a[3];
        last.flag = ring[1].flag;
    }
}
