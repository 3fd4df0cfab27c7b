// Votes, matches, warp reductions and the active mask, under masks that data makes and in divergent branches.
#include "base.cuh"

KERNEL(votes_and_matches)(const u32 *x, const u64 *wide, u32 *out, int n) {
    int i = global_thread(), lane = threadIdx.x & 31, k = 0;
    u32 v = x[i], all = ~0u;
    auto put = [&](u32 r) { out[k++ * n + i] = r; };
    put(__ballot_sync(all, v & 1));
    put(__all_sync(all, v < 60) | __any_sync(all, v > 58) << 1 | __uni_sync(all, v & 32) << 2);
    u32 peers = __match_any_sync(all, v & 7);
    put(peers);
    put(__reduce_add_sync(peers, v * 77));
    put(__reduce_min_sync(peers, (int)v - 20));
    put(__reduce_max_sync(peers, v ^ 21));
    put(__reduce_and_sync(peers, v | 64));
    put(__reduce_or_sync(peers, v << lane % 8));
    put(__reduce_xor_sync(peers, v * v));
    int same;
    put(__match_all_sync(all, wide[i], &same));
    put(same);
    put(__match_any_sync(all, wide[i] & 3));
    if (v & 2) {
        u32 here = __ballot_sync(__match_any_sync(__activemask(), 0), v & 4);
        put(here);
        if (lane & 4) put(__popc(__activemask()));
        else put(__reduce_max_sync(__activemask(), (int)(v * 3)));
    } else {
        put(__activemask());
        put(0);
    }
    __syncwarp();
    put(__activemask());
    u32 below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    put(__popc(peers & below));
    put(__fns(peers, 0, 1) | __fns(peers, 31, -1) << 8);
}
