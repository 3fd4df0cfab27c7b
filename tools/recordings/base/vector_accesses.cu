// Loads and stores of every width and vector length, with cache operators, volatile and in every state space.
#include "base.cuh"

struct Packet { char tag; short length; int sum; double weight; float3 at; u8 tail[5]; };
__device__ u8 lookup[64] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__constant__ short4 table[4] = {{1, -2, 3, -4}, {5, 6, -7, -8}, {-32768, 32767, 0, 1}, {9, 9, 9, 9}};

KERNEL(vector_accesses)(const u8 *in, u8 *out, Packet *packets, int n) {
    __shared__ volatile u16 halves[256];
    __shared__ double2 pairs[128];
    int i = global_thread(), t = threadIdx.x;
    char4 a = ((const char4 *)in)[i];
    uchar2 b = ((const uchar2 *)in)[i];
    short4 c = ((const short4 *)in)[i];
    uint4 d = __ldg((const uint4 *)in + i);
    ulonglong2 e = __ldcg((const ulonglong2 *)in + i);
    float2 f = __ldcs((const float2 *)in + i);
    signed char g = __ldlu((const signed char *)in + i);
    s64 h = __ldcv((const s64 *)in + i);
    halves[t] = (u16)(a.x * b.y);
    halves[t + 128] = (u16)(c.z ^ d.w);
    pairs[t] = {(double)e.x, (double)h};
    __syncthreads();
    double2 other = pairs[t ^ 5];
    short4 w = table[t & 3];
    Packet p;
    p.tag = a.y + g, p.length = halves[(t * 7) & 255], p.sum = c.x * w.y + c.w * w.z + lookup[t & 63], p.weight = other.x - other.y;
    p.at = {f.x, __uint_as_float(d.y), (float)e.y};
    for (int k = 0; k < 5; k++) p.tail[k] = in[(i * 5 + k) % n];
    packets[i] = p;
    __stcs((uint4 *)out + i, make_uint4(d.w, d.z, d.y, d.x));
    __stwt((u16 *)(out + 16 * 256) + i, halves[t ^ 1]);
    __stcg((char2 *)(out + 20 * 256) + i, make_char2(a.z, a.w));
}
