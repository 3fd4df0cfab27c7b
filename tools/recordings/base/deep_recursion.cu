// Recursion: queens on a board, Ackermann's function, mutual recursion and a quick sort, each lane to a depth of its own.
#include "base.cuh"

__device__ __noinline__ int queens(u32 columns, u32 left, u32 right, u32 full) {
    if (columns == full) return 1;
    int found = 0;
    for (u32 open = full & ~(columns | left | right); open; open &= open - 1) {
        u32 at = open & -open;
        found += queens(columns | at, (left | at) << 1, (right | at) >> 1, full);
    }
    return found;
}
__device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
__device__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1) * 2 + 1; }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1) * 3; }
__device__ __noinline__ void quick_sort(int *first, int *last) {
    if (last - first < 2) return;
    int pivot = first[(last - first) / 2], *i = first, *j = last - 1;
    while (i <= j) {
        while (*i < pivot) i++;
        while (*j > pivot) j--;
        if (i <= j) {
            int v = *i;
            *i++ = *j, *j-- = v;
        }
    }
    quick_sort(first, j + 1);
    quick_sort(i, last);
}

KERNEL(deep_recursion)(int *values, int *out, int n) {
    int i = global_thread();
    if (i >= n) return;
    out[i * 3] = queens(0, 0, 0, (1u << i % 6) - 1);
    out[i * 3 + 1] = ackermann(i % 3, i % 4);
    out[i * 3 + 2] = i & 1 ? even(i % 11) : odd(i % 7);
    int mine[16];
    for (int k = 0; k < 16; k++) mine[k] = values[i * 16 + k];
    quick_sort(mine, mine + 5 + i % 12);
    for (int k = 0; k < 16; k++) values[i * 16 + k] = mine[k];
}
