// Arrays of a thread with indices that only the data knows: a heap sort, a permutation walk, structures copied in local memory.
#include "base.cuh"

struct Item { short key; u8 at; u8 pad; float value; };

KERNEL(local_arrays)(const float *x, float *sorted, u32 *order, int n) {
    int i = global_thread();
    if (i >= n) return;
    Item heap[12], spare[12];
    int size = 5 + i % 8;
    for (int k = 0; k < size; k++) {
        float v = x[(i * 12 + k * 5) % n];
        int at = k;
        for (; at > 0 && heap[(at - 1) / 2].value < v; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
        heap[at] = {(short)(v * 8), (u8)k, 0, v};
    }
    for (int left = size; left > 0; left--) {
        spare[left - 1] = heap[0];
        Item last = heap[left - 1];
        int at = 0;
        for (int child; (child = 2 * at + 1) < left - 1; at = child) {
            if (child + 1 < left - 1 && heap[child + 1].value > heap[child].value) child++;
            if (heap[child].value <= last.value) break;
            heap[at] = heap[child];
        }
        heap[at] = last;
    }
    u32 hash = 0;
    for (int k = 0, at = 0; k < size; k++) {
        sorted[i * 12 + k] = spare[k].value;
        at = (at + (u8)spare[at].key) % size;
        hash = hash * 31 + spare[at].at;
    }
    order[i] = hash;
}
