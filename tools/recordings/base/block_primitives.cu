// Primitives of CUB for a block: radix sort of pairs, scan, reduction, histogram, discontinuities, exchange, run lengths.
#include "base.cuh"
#include <cub/cub.cuh>
#include <cuda/functional>

KERNEL(block_primitives)(const u32 *x, u32 *keys, u16 *values, int *scanned, u32 *bins, int *flags, float *sums) {
    using Sort = cub::BlockRadixSort<u32, 64, 3, u16>;
    using Scan = cub::BlockScan<int, 64, cub::BLOCK_SCAN_RAKING>;
    using Reduce = cub::BlockReduce<float, 64, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
    using Histogram = cub::BlockHistogram<u8, 64, 3, 16, cub::BLOCK_HISTO_SORT>;
    using Edges = cub::BlockDiscontinuity<u32, 64>;
    using Exchange = cub::BlockExchange<u32, 64, 3>;
    __shared__ union { Sort::TempStorage sort; Scan::TempStorage scan; Reduce::TempStorage reduce; Histogram::TempStorage histogram; Edges::TempStorage edges; Exchange::TempStorage exchange; } room;
    __shared__ u32 counts[16];
    u32 key[3];
    u16 value[3];
    int item[3], head[3];
    u8 small[3];
    cub::LoadDirectBlocked(threadIdx.x, x + blockIdx.x * 192, key);
    for (int k = 0; k < 3; k++) value[k] = threadIdx.x * 3 + k, item[k] = key[k] % 100 - 50, small[k] = key[k] % 16;
    Sort(room.sort).Sort(key, value, 0, 10);
    cub::StoreDirectBlocked(threadIdx.x, values + blockIdx.x * 192, value);
    __syncthreads();
    int total;
    Scan(room.scan).InclusiveScan(item, item, cuda::maximum<>(), total);
    cub::StoreDirectBlocked(threadIdx.x, scanned + blockIdx.x * 192, item);
    __syncthreads();
    float sum = Reduce(room.reduce).Sum(key[0] * 0.25f + total);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    __syncthreads();
    Histogram(room.histogram).Histogram(small, counts);
    __syncthreads();
    if (threadIdx.x < 16) bins[blockIdx.x * 16 + threadIdx.x] = counts[threadIdx.x];
    __syncthreads();
    Edges(room.edges).FlagHeads(head, key, cuda::std::not_equal_to<>());
    cub::StoreDirectBlocked(threadIdx.x, flags + blockIdx.x * 192, head);
    __syncthreads();
    Exchange(room.exchange).BlockedToStriped(key);
    cub::StoreDirectStriped<64>(threadIdx.x, keys + blockIdx.x * 192, key);
}
