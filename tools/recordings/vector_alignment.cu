// Which addresses vectors of atomics fault at: the instruction, and what a launch returns 2, 4 and 8 bytes beyond a multiple of 1,024.
//
// nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a vector_alignment.cu && for k in 0 1 2 3 4 5 6 7 8; do ./a.out $k; done
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <sys/wait.h>

#define TEXTS(X) \
    X(0, "red.relaxed.gpu.global.add.v2.f32", "", "{%1, %1}") \
    X(1, "red.relaxed.gpu.global.add.v4.f32", "", "{%1, %1, %1, %1}") \
    X(2, "red.relaxed.gpu.global.add.noftz.v2.f16x2", "", "{%2, %2}") \
    X(3, "red.relaxed.gpu.global.add.noftz.v4.f16x2", "", "{%2, %2, %2, %2}") \
    X(4, "red.relaxed.gpu.global.add.noftz.v2.f16", "", "{%3, %3}") \
    X(5, "red.relaxed.gpu.global.add.noftz.v8.f16", "", "{%3, %3, %3, %3, %3, %3, %3, %3}") \
    X(6, "atom.relaxed.gpu.global.add.v2.f32", "{a0, a1},", "{%1, %1}") \
    X(7, "atom.relaxed.gpu.global.add.v4.f32", "{a0, a1, a2, a3},", "{%1, %1, %1, %1}") \
    X(8, "red.relaxed.gpu.global.add.f32", "", "%1")
#define KERNEL(n, name, d, b) \
    __global__ void k##n(char *p) { asm volatile("{.reg .f32 a<4>; " name " " d " [%0], " b ";}" ::"l"(p), "f"(1.f), "r"(0x3c003c00), "h"((short)0x3c00) : "memory"); }
TEXTS(KERNEL)

int main(int, char **argv) {
    int which = atoi(argv[1]);
#define NAME(n, name, d, b) if (which == n) printf(name);
    TEXTS(NAME)
    fflush(stdout);
    for (int offset = 2; offset <= 8; offset *= 2) {
        if (fork() == 0) {  // a fault ends all that a process does on the GPU
            char *p;
            cudaMalloc(&p, 4096);
            p += 1024 + offset;
#define LAUNCH(n, name, d, b) if (which == n) k##n<<<1, 1>>>(p);
            TEXTS(LAUNCH)
            printf(" %d", (int)cudaDeviceSynchronize());
            return 0;
        }
        wait(nullptr);
    }
    puts("");
}
