// Virtual functions: objects that the kernel makes in local, shared and heap memory, called through their base, with two levels.
#include "base.cuh"

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual int sides() const { return 4; }
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float a;
    __device__ Square(float a) : a(a) {}
    __device__ float area() const override { return a * a; }
};
struct Box : Square {
    float b;
    __device__ Box(float a, float b) : Square(a), b(b) {}
    __device__ float area() const override { return Square::area() / a * b; }
};
struct Disc : Shape {
    float r;
    __device__ Disc(float r) : r(r) {}
    __device__ float area() const override { return 3.14159265f * r * r; }
    __device__ int sides() const override { return 0; }
};

__device__ __noinline__ float weigh(const Shape &s) { return s.area() * (1 + s.sides()); }

KERNEL(virtual_shapes)(const float *x, float *out, int n) {
    __shared__ Shape *made[64];
    int i = global_thread(), t = threadIdx.x;
    float v = x[i];
    Shape *s;
    switch (i % 3) {
    case 0: s = new Square(v); break;
    case 1: s = new Box(v, v + 1); break;
    default: s = new Disc(v);
    }
    made[t] = s;
    __syncthreads();
    Disc local(v * 2);
    float sum = weigh(*made[(t + 1) & 63]) + weigh(local);
    __syncthreads();
    delete s;
    out[i] = sum;
}
