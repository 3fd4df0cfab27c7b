// CUB's merge sorts of a warp and of a block with a comparison of structures, and searches and products of thrust in one thread.
#include "base.cuh"
#include <cub/cub.cuh>
#include <thrust/binary_search.h>
#include <thrust/execution_policy.h>
#include <thrust/inner_product.h>
#include <thrust/sort.h>

struct Entry { float weight; int id; };
struct Heavier { __device__ bool operator()(const Entry &a, const Entry &b) const { return a.weight > b.weight || (a.weight == b.weight && a.id < b.id); } };

KERNEL(merges)(const float *x, Entry *entries, s64 *warps, int *found, double *products) {
    using Block = cub::BlockMergeSort<Entry, 64, 2>;
    using Warp = cub::WarpMergeSort<s64, 3, 16>;
    __shared__ union { Block::TempStorage block; Warp::TempStorage warp[4]; } room;
    int t = threadIdx.x;
    Entry mine[2] = {{x[t * 2], t * 2}, {x[t * 2 + 1], t * 2 + 1}};
    Block(room.block).StableSort(mine, Heavier());
    entries[t * 2] = mine[0], entries[t * 2 + 1] = mine[1];
    __syncthreads();
    s64 wide[3];
    for (int k = 0; k < 3; k++) wide[k] = (s64)(x[(t * 7 + k * 50) % 128] * 1e12);
    Warp(room.warp[t / 16]).Sort(wide, [](s64 a, s64 b) { return a < b; });
    for (int k = 0; k < 3; k++) warps[t * 3 + k] = wide[k];
    float local[10];
    for (int k = 0; k < 10; k++) local[k] = x[(t + k * 11) % 128];
    thrust::sort(thrust::seq, local, local + 10);
    found[t] = thrust::lower_bound(thrust::seq, local, local + 10, 0.25f) - local;
    products[t] = thrust::inner_product(thrust::seq, local, local + 10, x, 0.0);
}
