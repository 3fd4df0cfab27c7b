// A hash table with linear probing: keys claimed by 64-bit compare and swap, counts added, then looked up by all.
#include "base.cuh"

KERNEL(hash_table)(const u32 *keys, u64 *slots, u32 *counts, u32 *found, int n) {
    const u64 nothing = ~0ull;
    int i = threadIdx.x;
    for (int k = i; k < 1024; k += blockDim.x) slots[k] = nothing;
    __syncthreads();
    for (int k = i; k < n; k += blockDim.x) {
        u64 key = (u64)keys[k] << 20 | keys[k] % 7;
        for (u32 at = keys[k] * 2654435761u >> 22;; at = at + 1 & 1023) {
            u64 old = atomicCAS(&slots[at], nothing, key);
            if (old == nothing || old == key) {
                atomicAdd(&counts[at], 1);
                break;
            }
        }
    }
    __syncthreads();
    for (int k = i; k < n; k += blockDim.x) {
        u64 key = (u64)(keys[k] + k % 2) << 20 | (keys[k] + k % 2) % 7;
        u32 at = (keys[k] + k % 2) * 2654435761u >> 22;
        while (slots[at] != key && slots[at] != nothing) at = at + 1 & 1023;
        found[k] = slots[at] == key ? counts[at] : 0;
    }
    __syncthreads();
    for (int k = i; k < 1024; k += blockDim.x) slots[k] = counts[k] = 0;  // where a key lies depends on who came first
}
