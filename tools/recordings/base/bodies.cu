// N bodies: tiles of positions in dynamic shared memory, rsqrtf, two time steps in one block.
#include "base.cuh"

KERNEL(bodies)(float4 *positions, float4 *velocities, int n, int steps, float dt) {
    extern __shared__ float4 tile[];
    int t = threadIdx.x;
    float4 p = positions[t], v = velocities[t];
    for (int s = 0; s < steps; s++) {
        float3 a = {0, 0, 0};
        for (int base = 0; base < n; base += 64) {
            __syncthreads();
            if (t >= base && t < base + 64) tile[t - base] = p;
            __syncthreads();
#pragma unroll 4
            for (int k = 0; k < 64; k++) {
                float4 q = tile[k];
                float x = q.x - p.x, y = q.y - p.y, z = q.z - p.z, r = rsqrtf(x * x + y * y + z * z + 0.01f), f = q.w * r * r * r;
                a.x += x * f, a.y += y * f, a.z += z * f;
            }
        }
        v.x += a.x * dt, v.y += a.y * dt, v.z += a.z * dt;
        p.x += v.x * dt, p.y += v.y * dt, p.z += v.z * dt;
    }
    positions[t] = p, velocities[t] = v;
}
