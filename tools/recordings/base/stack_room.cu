// alloca with sizes that the data gives, in a loop and in a function that calls itself.
#include "base.cuh"
#include <alloca.h>

__device__ __noinline__ int deep(const int *x, int n, int depth) {
    int *room = (int *)alloca(n * sizeof(int)), sum = 0;
    for (int k = 0; k < n; k++) room[k] = x[k] * (depth + 1);
    if (depth < 3) sum = deep(room, n > 2 ? n - 1 : 2, depth + 1);
    for (int k = 0; k < n; k++) sum = sum * 3 + room[n - 1 - k];
    return sum;
}

KERNEL(stack_room)(const int *x, int *out, int n) {
    int i = global_thread();
    if (i >= n) return;
    int size = 4 + (x[i] & 7);
    int *a = (int *)alloca(size * sizeof(int));
    short *b = (short *)alloca(size * sizeof(short));
    for (int k = 0; k < size; k++) a[k] = x[(i + k) % n], b[k] = (short)(a[k] ^ k);
    int sum = deep(a, size, 0);
    for (int k = 0; k < size; k++) sum += b[size - 1 - k] * a[k];
    out[i] = sum;
}
