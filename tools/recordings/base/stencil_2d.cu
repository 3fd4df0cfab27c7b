// A 5 x 5 filter with weights in constant memory over shared tiles with a halo, loaded by a loop that does not fit the block.
#include "base.cuh"

__constant__ float weights[5][5] = {{1, 4, 7, 4, 1}, {4, 16, 26, 16, 4}, {7, 26, 41, 26, 7}, {4, 16, 26, 16, 4}, {1, 4, 7, 4, 1}};

KERNEL(stencil_2d)(const float *in, float *out, int width, int height) {
    __shared__ float tile[12][36 + 1];
    int x0 = blockIdx.x * 32 - 2, y0 = blockIdx.y * 8 - 2;
    for (int t = threadIdx.y * 32 + threadIdx.x; t < 12 * 36; t += 256) {
        int x = min(max(x0 + t % 36, 0), width - 1), y = min(max(y0 + t / 36, 0), height - 1);
        tile[t / 36][t % 36] = in[y * width + x];
    }
    __syncthreads();
    int x = x0 + 2 + threadIdx.x, y = y0 + 2 + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0;
    for (int j = 0; j < 5; j++)
        for (int i = 0; i < 5; i++) sum += weights[j][i] * tile[threadIdx.y + j][threadIdx.x + i];
    out[y * width + x] = sum / 273;
}
