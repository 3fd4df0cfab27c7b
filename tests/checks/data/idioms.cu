// More correct synchronisation patterns; compiled with nvcc -arch=sm_90a -ptx -std=c++17 -diag-suppress 20054.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// A barrier of the grid with a sense that turns.
__device__ void grid_wait(unsigned* state, unsigned n) {
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> count(state[0]), sense(state[1]);
    unsigned before = sense.load(cuda::memory_order_relaxed);
    if (count.fetch_add(1, cuda::memory_order_acq_rel) == n - 1) {
      count.store(0, cuda::memory_order_relaxed);
      sense.store(before + 1, cuda::memory_order_release);
    } else {
      while (sense.load(cuda::memory_order_acquire) == before) {}
    }
  }
  __syncthreads();
}
extern "C" __global__ void grid_sense(int* data, unsigned* state, int rounds) {
  int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < rounds; r++) {
    int v = data[(i + blockDim.x) % n];
    grid_wait(state, gridDim.x);
    data[i] = v + 1;
    grid_wait(state, gridDim.x);
  }
}

// Volatile flags and __threadfence, the old way, with a reset.
extern "C" __global__ void grid_volatile(int* data, volatile unsigned* arrived, volatile unsigned* go, int rounds) {
  int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = 0;
  for (int r = 1; r <= rounds; r++) {
    data[r * n + i] = data[r * n - n + i] + r;
    __syncthreads();
    __threadfence();
    if (blockIdx.x == 0) {
      if (threadIdx.x < gridDim.x && threadIdx.x > 0) while (arrived[threadIdx.x] < r) {}
      __threadfence();
      __syncthreads();
      __threadfence();
      if (threadIdx.x < gridDim.x && threadIdx.x > 0) go[threadIdx.x] = r;
    } else {
      if (threadIdx.x == 0) {
        arrived[blockIdx.x] = r;
        while (go[blockIdx.x] < r) {}
        __threadfence();
      }
      __syncthreads();
    }
    sum += data[r * n + (i + blockDim.x) % n];
  }
  data[i] = sum;
}

// A ticket lock.
extern "C" __global__ void ticket(unsigned* lock, int* data, int rounds) {
  if (threadIdx.x == 0)
    for (int r = 0; r < rounds; r++) {
      cuda::atomic_ref<unsigned, cuda::thread_scope_device> next(lock[0]), serving(lock[1]);
      unsigned mine = next.fetch_add(1, cuda::memory_order_relaxed);
      while (serving.load(cuda::memory_order_acquire) != mine) {}
      data[0] = data[0] + 1;
      data[1] = data[1] + blockIdx.x;
      serving.store(mine + 1, cuda::memory_order_release);
    }
}

// Two warps ping-pong a buffer through named barriers.
extern "C" __global__ void pingpong(const int* in, int* out, int rounds) {
  __shared__ int buffer[2][32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, sum = 0;
  if (warp == 0) {
    for (int r = 0; r < rounds; r++) {
      if (r >= 2) asm volatile("bar.sync %0, 64;" ::"r"(3 + (r & 1)) : "memory");
      buffer[r & 1][lane] = in[r * 32 + lane];
      asm volatile("bar.arrive %0, 64;" ::"r"(1 + (r & 1)) : "memory");
    }
  } else {
    for (int r = 0; r < rounds; r++) {
      asm volatile("bar.sync %0, 64;" ::"r"(1 + (r & 1)) : "memory");
      sum += buffer[r & 1][31 - lane];
      if (r + 2 < rounds) asm volatile("bar.arrive %0, 64;" ::"r"(3 + (r & 1)) : "memory");
    }
    out[blockIdx.x * 32 + lane] = sum;
  }
}

// Flags of a CTA: a volatile one with __threadfence_block, and one with block scope.
extern "C" __global__ void block_flags(int* out) {
  __shared__ int data[64];
  __shared__ volatile int plain;
  __shared__ cuda::atomic<int, cuda::thread_scope_block> flag;
  if (threadIdx.x == 0) { plain = 0; flag.store(0, cuda::memory_order_relaxed); }
  __syncthreads();
  int lane = threadIdx.x & 31;
  if (threadIdx.x < 32) {
    data[lane] = lane * 3;
    __syncwarp();
    if (lane == 0) { __threadfence_block(); plain = 1; }
  } else if (threadIdx.x < 64) {
    if (lane == 0) { while (!plain) {} __threadfence_block(); }
    __syncwarp();
    data[32 + lane] = data[31 - lane] + 1;
    __syncwarp();
    if (lane == 0) flag.store(1, cuda::memory_order_release);
  } else {
    while (!flag.load(cuda::memory_order_acquire)) {}
    out[blockIdx.x * 32 + lane] = data[32 + lane] + data[lane];
  }
}

// Neighbours of a cluster exchange through distributed shared memory, the barrier split in two.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_shift(const int* in, int* out, int rounds) {
  __shared__ int mine[2][64];
  cg::cluster_group cluster = cg::this_cluster();
  int* next = cluster.map_shared_rank(&mine[0][0], (cluster.block_rank() + 1) % cluster.num_blocks());
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  for (int r = 0; r < rounds; r++) {
    mine[r & 1][threadIdx.x] = v;
    cluster.barrier_arrive();
    int local = v * 2;
    cluster.barrier_wait();
    v = next[(r & 1) * 64 + 63 - threadIdx.x] + local;
  }
  out[i] = v;
  cluster.sync();
}

// A CTA sends to its neighbour, which an mbarrier in the neighbour tells, and which answers in the same way.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_mail(const int* in, int* out, int rounds) {
  __shared__ int box[64];
  __shared__ uint64_t full, empty;
  cg::cluster_group cluster = cg::this_cluster();
  unsigned rank = cluster.block_rank();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 64);
    ptx::mbarrier_init(&empty, 64);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster.sync();
  int* there = cluster.map_shared_rank(box, rank ^ 1);
  uint64_t* full_there = cluster.map_shared_rank(&full, rank ^ 1);
  uint64_t* empty_there = cluster.map_shared_rank(&empty, rank ^ 1);
  int sum = 0;
  for (int r = 0; r < rounds; r++) {
    if (r > 0) while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &empty, (r - 1) & 1)) {}
    there[threadIdx.x] = in[rank * 64 + threadIdx.x] * (r + 1);
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, full_there);
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &full, r & 1)) {}
    sum += box[63 - threadIdx.x];
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, empty_there);
  }
  out[rank * 64 + threadIdx.x] = sum;
  cluster.sync();
}

// Bulk copies in, work, bulk copies out of the same slots.
extern "C" __global__ void bulk_ring(const int* in, int* out, int rounds) {
  __shared__ alignas(128) int slot[2][256];
  __shared__ uint64_t full[2];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 1);
    ptx::mbarrier_init(&full[1], 1);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  const int* from = in + blockIdx.x * rounds * 256;
  int* to = out + blockIdx.x * rounds * 256;
  auto load = [&](int r) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[r & 1], 1024);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, slot[r & 1], from + r * 256, 1024, &full[r & 1]);
  };
  if (threadIdx.x == 0) load(0);
  for (int r = 0; r < rounds; r++) {
    if (threadIdx.x == 0 && r + 1 < rounds) {
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
      load(r + 1);
    }
    while (!ptx::mbarrier_try_wait_parity(&full[r & 1], (r >> 1) & 1)) {}
    slot[r & 1][threadIdx.x] += 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, to + r * 256, slot[r & 1], 1024);
      ptx::cp_async_bulk_commit_group();
    }
  }
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}

// A pipeline of a CTA with four stages and roles.
extern "C" __global__ void pipeline_roles(const int* in, int* out, int rounds) {
  constexpr int stages = 4;
  __shared__ int buffer[stages][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
  auto block = cg::this_thread_block();
  auto role = threadIdx.x < 128 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  int t = threadIdx.x & 127, sum = 0;
  if (role == cuda::pipeline_role::producer) {
    for (int r = 0; r < rounds; r++) {
      pipe.producer_acquire();
      cuda::memcpy_async(&buffer[r % stages][t], in + r * 128 + t, sizeof(int), pipe);
      pipe.producer_commit();
    }
  } else {
    for (int r = 0; r < rounds; r++) {
      pipe.consumer_wait();
      sum += buffer[r % stages][127 - t];
      pipe.consumer_release();
    }
    out[t] = sum;
  }
}

// Stages of a thread's own pipeline, which barriers make common.
extern "C" __global__ void pipeline_thread(const int* in, int* out, int rounds) {
  __shared__ int buffer[3][256];
  auto pipe = cuda::make_pipeline();
  int t = threadIdx.x, sum = 0;
  for (int r = 0; r < 2; r++) {
    pipe.producer_acquire();
    cuda::memcpy_async(&buffer[r][t], in + r * 256 + t, sizeof(int), pipe);
    pipe.producer_commit();
  }
  for (int r = 0; r < rounds; r++) {
    pipe.producer_acquire();
    if (r + 2 < rounds) cuda::memcpy_async(&buffer[(r + 2) % 3][t], in + (r + 2) * 256 + t, sizeof(int), pipe);
    pipe.producer_commit();
    cuda::pipeline_consumer_wait_prior<2>(pipe);
    __syncthreads();
    sum += buffer[r % 3][255 - t];
    __syncthreads();
    pipe.consumer_release();
  }
  out[t] = sum;
}

// Sort in shared memory: strides below a warp need only the warp.
extern "C" __global__ void bitonic(int* data) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = data[blockIdx.x * 256 + t];
  __syncthreads();
  for (int k = 2; k <= 256; k <<= 1)
    for (int j = k >> 1; j > 0; j >>= 1) {
      int o = t ^ j;
      if (o > t) {
        int a = s[t], b = s[o];
        if ((a > b) == ((t & k) == 0)) { s[t] = b; s[o] = a; }
      }
      if (j > 16 || (j == 1 && k >= 32)) __syncthreads(); else __syncwarp();
    }
  data[blockIdx.x * 256 + t] = s[t];
}

// Tiles from a queue, the index broadcast through shared memory.
extern "C" __global__ void queue(const int* in, int* out, unsigned* next, int tiles) {
  __shared__ unsigned tile;
  for (;;) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    unsigned mine = tile;
    __syncthreads();
    if (mine >= tiles) break;
    out[mine * blockDim.x + threadIdx.x] = in[mine * blockDim.x + threadIdx.x] * 2;
  }
}

// Aggregated atomics of the lanes that happen to be together, and group reductions.
extern "C" __global__ void aggregated(const int* in, int* count, int* out) {
  int v = in[blockIdx.x * blockDim.x + threadIdx.x];
  if (v % 3 == 0) {
    auto active = cg::coalesced_threads();
    int base = 0;
    if (active.thread_rank() == 0) base = atomicAdd(count, active.size());
    out[active.shfl(base, 0) + active.thread_rank()] = v;
  }
}
extern "C" __global__ void group_reduce(const int* in, int* out) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int sum = cg::reduce(tile, in[i], cg::plus<int>());
  if (tile.thread_rank() == 0) out[i / 8] = sum;
}

// Mutual exclusion by sequentially consistent fences: who loses does nothing.
extern "C" __global__ void dekker(int* flags, int* data) {
  if (threadIdx.x) return;
  cuda::atomic_ref<int, cuda::thread_scope_device> mine(flags[blockIdx.x]), other(flags[1 - blockIdx.x]);
  mine.store(1, cuda::memory_order_relaxed);
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
  if (other.load(cuda::memory_order_relaxed) == 0) {
    data[0] += 1;
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
    mine.store(2, cuda::memory_order_relaxed);
  }
}

// A multi-phase barrier with an arrival token, and a copy that arrives at it.
extern "C" __global__ void barrier_phases(const int* in, int* out, int rounds) {
  __shared__ int buffer[2][128];
  using barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ barrier ready[2];
  if (threadIdx.x < 2) init(&ready[threadIdx.x], blockDim.x);
  __syncthreads();
  int t = threadIdx.x, sum = 0;
  barrier::arrival_token token[2];
  cuda::memcpy_async(&buffer[0][t], in + t, sizeof(int), ready[0]);
  token[0] = ready[0].arrive();
  for (int r = 0; r < rounds; r++) {
    if (r + 1 < rounds) {
      cuda::memcpy_async(&buffer[(r + 1) & 1][t], in + (r + 1) * 128 + t, sizeof(int), ready[(r + 1) & 1]);
      token[(r + 1) & 1] = ready[(r + 1) & 1].arrive();
    }
    ready[r & 1].wait(std::move(token[r & 1]));
    sum += buffer[r & 1][127 - t];
    __syncthreads();
  }
  out[t] = sum;
}

// __syncwarp in both branches.
extern "C" __global__ void two_branches(int* out) {
  __shared__ int s[32];
  int lane = threadIdx.x;
  if (lane < 16) {
    s[lane] = lane;
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    out[lane] = s[lane + 16];
  } else {
    s[lane] = lane * 10;
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    out[lane] = s[lane - 16];
  }
}
