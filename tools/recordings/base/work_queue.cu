// A breadth-first search with a queue: blocks that stay take chunks by a counter, append neighbours, and end when all is done.
#include "base.cuh"

__device__ u32 head, tail, finished;

KERNEL(work_queue)(const int *rows, const int *columns, int *distance, volatile int *queue, int nodes) {
    int t = threadIdx.x, lane = t & 31;
    if (blockIdx.x == 0 && t == 0) {
        distance[0] = 1;
        queue[0] = 1;
        __threadfence();
        atomicExch(&tail, 1);
    }
    for (;;) {  // a warp takes one node, or finds that none is open
        u32 at = 0;
        int node = 0;
        if (lane == 0) {
            for (;;) {
                u32 f = atomicAdd(&finished, 0), h = atomicAdd(&head, 0), e = atomicAdd(&tail, 0);
                if (h < e) {
                    if (atomicCAS(&head, h, h + 1) == h) {
                        while ((node = queue[h]) == 0) {}
                        break;
                    }
                } else if (e > 0 && f == e && h == e) {
                    node = -1;
                    break;
                }
            }
            __threadfence();
            at = node > 0 ? atomicMin(&distance[node - 1], 1 << 30) : 0;
        }
        node = __shfl_sync(~0u, node, 0), at = __shfl_sync(~0u, at, 0);
        if (node < 0) break;
        node--;
        for (int e = rows[node] + lane; e < rows[node + 1]; e += 32) {
            int next = columns[e], old = atomicMin(&distance[next], (int)at + 1);
            if (old > (int)at + 1) {  // nearer than known: it must be looked at again
                u32 place = atomicAdd(&tail, 1);
                queue[place] = next + 1;
            }
        }
        __threadfence();
        __syncwarp();
        if (lane == 0) atomicAdd(&finished, 1);
    }
}
