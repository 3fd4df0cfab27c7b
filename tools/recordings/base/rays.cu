// Rays against spheres and triangles: dot and cross products, discriminants, barycentric coordinates, reflections in a loop.
#include "base.cuh"

__device__ float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ float3 cross(float3 a, float3 b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
__device__ float3 operator-(float3 a, float3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
__device__ float3 operator+(float3 a, float3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ float3 operator*(float3 a, float k) { return {a.x * k, a.y * k, a.z * k}; }

KERNEL(rays)(const float4 *spheres, int count, const float3 *triangle, float4 *image, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float3 from = {0, 0, -3}, to = {2.f * x / width - 1, 1 - 2.f * y / height, 1.5f};
    to = to * rsqrtf(dot(to, to));
    float light = 1, far = 0;
    int last = -1;
    for (int bounce = 0; bounce < 3; bounce++) {
        float nearest = 1e30f;
        int hit = -1;
        float3 normal;
        for (int s = 0; s < count; s++) {
            float4 sphere = spheres[s];
            float3 l = make_float3(sphere.x, sphere.y, sphere.z) - from;
            float b = dot(l, to), q = b * b - (dot(l, l) - sphere.w * sphere.w);
            if (q < 0) continue;
            float t = b - sqrtf(q);
            if (t > 1e-3f && t < nearest) {
                nearest = t, hit = s;
                normal = (from + to * t - make_float3(sphere.x, sphere.y, sphere.z)) * (1 / sphere.w);
            }
        }
        float3 e = triangle[1] - triangle[0], f = triangle[2] - triangle[0], p = cross(to, f), o = from - triangle[0], q = cross(o, e);
        float det = dot(e, p), u = dot(o, p) / det, v = dot(to, q) / det, t = dot(f, q) / det;
        if (u >= 0 && v >= 0 && u + v <= 1 && t > 1e-3f && t < nearest) {
            nearest = t, hit = count;
            normal = cross(e, f) * rsqrtf(dot(cross(e, f), cross(e, f)));
        }
        if (hit < 0) break;
        last = hit, far += nearest;
        from = from + to * nearest;
        to = to - normal * (2 * dot(normal, to));
        light *= 0.25f + 0.5f * fabsf(normal.y * 0.8f - normal.z * 0.6f);
    }
    image[y * width + x] = {light, far, (float)last, to.y * from.z - to.z * from.y};
}
