// Searching text: Shift-And with masks in shared memory, and an automaton in constant memory that counts words.
#include "base.cuh"

__constant__ u8 next_state[4][3] = {{1, 0, 0}, {1, 2, 0}, {1, 0, 3}, {1, 0, 0}};  // classes a, b, other: finds "ab?"

KERNEL(string_search)(const u8 *text, const u8 *pattern, int m, int *hits, int *words, u32 *first, int n, int chunk) {
    __shared__ u32 masks[256];
    for (int c = threadIdx.x; c < 256; c += blockDim.x) {
        u32 mask = 0;
        for (int k = 0; k < m; k++) mask |= (pattern[k] == c || pattern[k] == '.') << k;
        masks[c] = mask;
    }
    __syncthreads();
    int i = global_thread(), begin = i * chunk, count = 0, state = 0, seen = 0;
    u32 run = 0;
    for (int k = begin; k < min(begin + chunk + m - 1, n); k++) {
        run = (run << 1 | 1) & masks[text[k]];
        if (run >> (m - 1) & 1) {
            count++;
            atomicMin(first, (u32)k);
        }
        if (k < begin + chunk) {
            state = next_state[state][text[k] == 'a' ? 0 : text[k] == 'b' ? 1 : 2];
            seen += state == 3;
        }
    }
    hits[i] = count, words[i] = seen;
}
