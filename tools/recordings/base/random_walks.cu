// Monte Carlo: xorwow of its own, normal numbers after Box and Muller, the price of an option along paths; counts by atomics.
#include "base.cuh"

struct Xorwow {
    u32 v[5], d;
    __device__ Xorwow(u32 seed) {
        for (u32 &w : v) {  // splitmix of 32 bits
            u32 z = (seed += 0x9e3779b9);
            z = (z ^ z >> 16) * 0x85ebca6b;
            z = (z ^ z >> 13) * 0xc2b2ae35;
            w = z ^ z >> 16;
        }
        d = 6615241;
    }
    __device__ u32 next() {
        u32 t = v[0] ^ v[0] >> 2;
        v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = v[4];
        v[4] = v[4] ^ v[4] << 4 ^ t ^ t << 1;
        return v[4] + (d += 362437);
    }
    __device__ float uniform() { return next() * 2.3283064e-10f + 1.16415321e-10f; }
};

KERNEL(random_walks)(float *prices, u32 *inside, float start, float rate, float volatility, int steps) {
    int i = global_thread();
    Xorwow random(i * 7919 + 13);
    float price = start;
    for (int k = 0; k < steps; k++) {
        float s, c, r = sqrtf(-2 * logf(random.uniform()));
        sincospif(2 * random.uniform(), &s, &c);
        price *= expf(rate + volatility * r * s);
        price *= expf(rate + volatility * r * c);
        if (price < 0.5f * start) break;  // knocked out
    }
    prices[i] = fmaxf(price - start, 0);
    u32 hits = 0;
    for (int k = 0; k < 16; k++) {
        float x = random.uniform(), y = random.uniform();
        hits += x * x + y * y < 1;
    }
    atomicAdd(inside, hits);
}
