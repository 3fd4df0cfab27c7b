// Hopper through CUDA's own library: barriers, pipelines, bulk and tensor copies, clusters, edited tensor maps.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
#include <utility>

namespace cg = cooperative_groups;
namespace cde = cuda::device::experimental;
namespace ptx = cuda::ptx;
using barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int TILE = 1024;

// A histogram whose bins are spread over the CTAs of a cluster.
extern "C" __global__ void cluster_histogram(int *bins, int n_bins, int per_block, const int *input, int n) {
  extern __shared__ int mine[];
  auto cluster = cg::this_cluster();
  int rank = cg::this_grid().thread_rank();
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) mine[i] = 0;
  cluster.sync();
  for (int i = rank; i < n; i += blockDim.x * gridDim.x) {
    int bin = min(max(input[i], 0), n_bins - 1);
    int *other = cluster.map_shared_rank(mine, bin / per_block);
    atomicAdd(other + bin % per_block, 1);
  }
  cluster.sync();
  int first = (int)cluster.block_rank() * per_block;
  for (int i = threadIdx.x; i < per_block; i += blockDim.x)
    if (first + i < n_bins) atomicAdd(bins + first + i, mine[i]);
}

// A run of integers goes through shared memory by bulk copies, and back.
extern "C" __global__ void bulk_add_one(int *data, size_t offset) {
  __shared__ alignas(16) int tile[TILE];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier bar;
  offset += blockIdx.x * TILE;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  if (threadIdx.x == 0) cuda::memcpy_async(tile, data + offset, cuda::aligned_size_t<16>(sizeof(tile)), bar);
  bar.wait(bar.arrive());
  for (int i = threadIdx.x; i < TILE; i += blockDim.x) tile[i] += i;
  cde::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_shared_to_global(data + offset, tile, sizeof(tile));
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
  }
}

// A tile of a matrix, by tensor copies.
constexpr int ROWS = 16, COLUMNS = 32;
extern "C" __global__ void tensor_negate(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
  __shared__ alignas(128) int tile[ROWS][COLUMNS];
  __shared__ barrier bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  int x = blockIdx.x * COLUMNS, y = blockIdx.y * ROWS;
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &in, x - 4, y - 3, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(tile));
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  for (int i = threadIdx.x; i < ROWS * COLUMNS; i += blockDim.x) tile[i / COLUMNS][i % COLUMNS] = i - tile[i / COLUMNS][i % COLUMNS];
  cde::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_shared_to_global(&out, x, y, &tile);
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
  }
  __syncthreads();
  if (threadIdx.x == 0) (&bar)->~barrier();
}

// Partitions of a pipeline: some warps load, the others add up.
constexpr int STAGES = 3;
extern "C" __global__ void pipeline_roles(const float *in, float *out, int n_tiles) {
  __shared__ float tiles[STAGES][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
  auto block = cg::this_thread_block();
  auto role = block.thread_rank() < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  const float *mine = in + blockIdx.x * n_tiles * 128;
  if (role == cuda::pipeline_role::producer) {
    for (int t = 0; t < n_tiles; ++t) {
      pipe.producer_acquire();
      cuda::memcpy_async(&tiles[t % STAGES][4 * threadIdx.x], mine + t * 128 + 4 * threadIdx.x, cuda::aligned_size_t<16>(16), pipe);
      pipe.producer_commit();
    }
  } else {
    float sum = 0;
    for (int t = 0; t < n_tiles; ++t) {
      pipe.consumer_wait();
      sum += tiles[t % STAGES][threadIdx.x - 32] * (t + 1) + tiles[t % STAGES][(threadIdx.x + 1) % 128];
      pipe.consumer_release();
    }
    out[blockIdx.x * 128 + threadIdx.x - 32] = sum;
  }
}

// Copies of whole groups with two stages in flight, and a reduction and a scan of a tile of the block.
extern "C" __global__ void group_copies(const int *in, int *out, int n_tiles) {
  __shared__ int tiles[2][128];
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  const int *mine = in + blockIdx.x * n_tiles * 128;
  cg::memcpy_async(block, tiles[0], mine, sizeof(tiles[0]));
  int total = 0, scanned = 0;
  for (int t = 0; t < n_tiles; ++t) {
    if (t + 1 < n_tiles) {
      cg::memcpy_async(block, tiles[(t + 1) % 2], mine + (t + 1) * 128, sizeof(tiles[0]));
      cg::wait_prior<1>(block);
    } else {
      cg::wait(block);
    }
    int v = tiles[t % 2][block.thread_rank()];
    total += cg::reduce(warp, v, cg::plus<int>());
    scanned += cg::exclusive_scan(warp, v, cg::bit_xor<int>());
    block.sync();
  }
  out[2 * (blockIdx.x * 128 + threadIdx.x)] = total;
  out[2 * (blockIdx.x * 128 + threadIdx.x) + 1] = scanned;
}

// Ranks and shapes of a cluster, split barriers, and values that neighbours pass with st.async and red.async.
extern "C" __global__ void cluster_exchange(unsigned *out) {
  __shared__ alignas(16) unsigned box[64];
  __shared__ alignas(16) int64_t pairs[16][2];
  __shared__ unsigned sum;
  __shared__ uint64_t bar;
  auto cluster = cg::this_cluster();
  auto block = cg::this_thread_block();
  unsigned t = threadIdx.x;
  box[t] = box[t + 32] = 0;
  pairs[t % 16][t / 16] = 0;
  if (t == 0) {
    sum = 0;
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 16 * 16 + 16 * 16 + 32 * 4);
  }
  auto token = cluster.barrier_arrive();
  unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  cluster.barrier_wait(std::move(token));
  unsigned *there = cluster.map_shared_rank(box, next);
  uint64_t *signal = cluster.map_shared_rank(&bar, next);
  const uint32_t values[4] = {t, t * t, cluster.block_rank(), cluster.query_shared_rank(there)};
  if (t < 16) ptx::st_async(there + 4 * t, values, signal);
  const int64_t wide[2] = {-(int64_t)t, (int64_t)t << 40};
  if (t >= 16) ptx::st_async(cluster.map_shared_rank(&pairs[t - 16][0], next), wide, signal);
  ptx::red_async(ptx::op_add, cluster.map_shared_rank(&sum, next), t + 1u, signal);
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {
  }
  cg::invoke_one(cg::coalesced_threads(), [&] { box[63] += 1; });
  cluster.sync();
  unsigned *row = out + (blockIdx.x + gridDim.x * blockIdx.y) * 40;
  row[t] = box[t] + 7 * box[t + 32] + (unsigned)pairs[t % 16][t / 16] + (unsigned)(pairs[t % 16][t / 16] >> 32);
  if (t == 0) {
    row[32] = sum;
    row[33] = cluster.block_index().x + 10 * cluster.block_index().y;
    row[34] = cluster.dim_blocks().x + 10 * cluster.dim_blocks().y;
    row[35] = cluster.thread_rank() + 1000 * cluster.num_threads();
    row[36] = cluster.block_rank();
    row[37] = cg::this_grid().num_blocks();
    row[38] = cluster.query_shared_rank(box);
    row[39] = block.group_index().x;
  }
}

// A tensor map made from another in shared memory, published, and used by the same kernel.
extern "C" __global__ void edited_map(const __grid_constant__ CUtensorMap made, CUtensorMap *maps, const int *data, int *out, int rows) {
  __shared__ alignas(128) CUtensorMap copy;
  __shared__ alignas(128) int tile[8][16];
  __shared__ barrier bar;
  CUtensorMap *mine = maps + blockIdx.x;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) copy = made;
    __syncwarp();
    if (threadIdx.x == 0) {
      ptx::tensormap_replace_global_address(ptx::space_shared, &copy, data + blockIdx.x * 16 * rows);
      ptx::tensormap_replace_global_dim(ptx::space_shared, &copy, ptx::n32_t<0>{}, 12);
      ptx::tensormap_replace_global_dim(ptx::space_shared, &copy, ptx::n32_t<1>{}, rows - (int)blockIdx.x);
      ptx::tensormap_replace_box_dim(ptx::space_shared, &copy, ptx::n32_t<1>{}, 8);
    }
    __syncwarp();
    ptx::n32_t<128> bytes;
    ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_gpu, mine, &copy, bytes);
  }
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_gpu, mine, ptx::n32_t<128>{});
    cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, mine, 0, 2, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(tile));
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  for (int i = threadIdx.x; i < 128; i += blockDim.x) out[blockIdx.x * 128 + i] = tile[i / 16][i % 16];
}
