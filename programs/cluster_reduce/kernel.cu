// The sum of a row by a cluster of four CTAs: each leaves its part in its own shared memory, rank 0 reads all of them.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_reduce(const float* in, float* out, int columns) {
  __shared__ float of_warp[32], part;
  cg::cluster_group cluster = cg::this_cluster();
  int rank = cluster.block_rank(), row = blockIdx.x / 4, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  float sum = 0.f;
  for (int i = rank * blockDim.x + threadIdx.x; i < columns; i += 4 * blockDim.x) sum += in[row * columns + i];
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    part = 0.f;
    for (int w = 0; w < warps; ++w) part += of_warp[w];
  }
  cluster.sync();  // every part is written
  if (rank == 0 && threadIdx.x == 0) {
    float total = 0.f;
    for (int r = 0; r < 4; ++r) total += *cluster.map_shared_rank(&part, r);
    out[row] = total;
  }
  cluster.sync();  // no CTA may leave while rank 0 reads its shared memory
}
