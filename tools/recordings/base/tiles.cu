// Cooperative groups: tiles of 4, 8 and 16, labelled and binary partitions, coalesced threads, scans and reductions of groups.
#include "base.cuh"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

KERNEL(tiles)(const int *x, int *out, int n) {
    auto block = cg::this_thread_block();
    int i = global_thread(), k = 0, v = x[i];
    auto put = [&](int r) { out[k++ * n + i] = r; };
    auto eight = cg::tiled_partition<8>(block);
    auto warp = cg::tiled_partition<32>(block);
    put(cg::reduce(eight, v, cg::plus<int>()));
    put(cg::reduce(cg::tiled_partition<16>(block), (unsigned)v, cg::bit_xor<unsigned>()));
    put(cg::inclusive_scan(eight, v));
    put(cg::exclusive_scan(warp, v, cg::greater<int>()));
    put(eight.shfl_down(v, 3) + eight.meta_group_rank() * 1000);
    put(eight.ballot(v > 0) | eight.match_any(v & 3) << 8);
    auto label = cg::labeled_partition(warp, v & 3);
    put(label.size() * 100 + label.thread_rank());
    put(cg::reduce(label, v, cg::less<int>()));
    auto half = cg::binary_partition(warp, v > 5);
    put(half.shfl(v, 0) + half.num_threads());
    if (v & 1) {
        auto odd = cg::coalesced_threads();
        put(cg::reduce(odd, v, cg::plus<int>()) + odd.thread_rank() * 10000);
        put(odd.shfl_up(v, 1));
        put(odd.any(v == 7));
    }
    cg::sync(block);
    auto quad = cg::tiled_partition<4>(eight);
    put(quad.shfl_xor(v, 2) * 4 + quad.thread_rank());
}
