// A seven-point stencil in three dimensions: planes march through registers, rows lie in shared memory, f64.
#include "base.cuh"

KERNEL(stencil_3d)(const double *in, double *out, int nx, int ny, int nz) {
    __shared__ double plane[6][18];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y, at = y * nx + x, size = nx * ny;
    bool inner = x > 0 && x < nx - 1 && y > 0 && y < ny - 1;
    double below, here = in[at], above = in[at + size];
    for (int z = 1; z < nz - 1; z++) {
        below = here, here = above, above = in[at + (z + 1) * size];
        __syncthreads();
        plane[threadIdx.y + 1][threadIdx.x + 1] = here;
        if (threadIdx.x == 0 && x > 0) plane[threadIdx.y + 1][0] = in[at + z * size - 1];
        if (threadIdx.x == 15 && x < nx - 1) plane[threadIdx.y + 1][17] = in[at + z * size + 1];
        if (threadIdx.y == 0 && y > 0) plane[0][threadIdx.x + 1] = in[at + z * size - nx];
        if (threadIdx.y == 3 && y < ny - 1) plane[5][threadIdx.x + 1] = in[at + z * size + nx];
        __syncthreads();
        if (inner) {
            const double *p = &plane[threadIdx.y + 1][threadIdx.x + 1];
            out[at + z * size] = here + 0.1 * (p[-1] + p[1] + p[-18] + p[18] + below + above - 6 * here);
        }
    }
}
