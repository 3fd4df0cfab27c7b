// Correct synchronisation patterns; compiled with nvcc -arch=sm_90 -ptx -O3 -std=c++17.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/atomic>
#include <cuda/semaphore>
namespace cg = cooperative_groups;
__device__ unsigned count_ = 0;
extern "C" __global__ void threadfence_reduce(const float* x, float* partial, float* out, int n) {
  __shared__ float s[256]; __shared__ bool last;
  float v = 0; for (int i = blockIdx.x*blockDim.x+threadIdx.x; i < n; i += gridDim.x*blockDim.x) v += x[i];
  s[threadIdx.x] = v; __syncthreads();
  for (int o = 128; o > 0; o >>= 1) { if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x+o]; __syncthreads(); }
  if (threadIdx.x == 0) { partial[blockIdx.x] = s[0]; __threadfence(); unsigned t = atomicInc(&count_, gridDim.x); last = t == gridDim.x-1; }
  __syncthreads();
  if (last) { float w = 0; for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) w += ((volatile float*)partial)[i];
    s[threadIdx.x] = w; __syncthreads();
    for (int o = 128; o > 0; o >>= 1) { if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x+o]; __syncthreads(); }
    if (threadIdx.x == 0) { out[0] = s[0]; count_ = 0; } }
}
extern "C" __global__ void threadfence_reduce_plain(const float* x, float* partial, float* out, int n) {
  __shared__ float s[256]; __shared__ bool last;
  s[threadIdx.x] = x[blockIdx.x*256+threadIdx.x]; __syncthreads();
  for (int o = 128; o > 0; o >>= 1) { if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x+o]; __syncthreads(); }
  if (threadIdx.x == 0) { partial[blockIdx.x] = s[0]; __threadfence(); unsigned t = atomicAdd(&count_, 1); __threadfence(); last = t == gridDim.x-1; }
  __syncthreads();
  if (last && threadIdx.x < 32) { float w = 0; for (int i = threadIdx.x; i < gridDim.x; i += 32) w += partial[i];
    for (int o = 16; o; o >>= 1) w += __shfl_down_sync(~0u, w, o); if (threadIdx.x == 0) { out[0] = w; count_ = 0; } }
}
extern "C" __global__ void warp_shared(const int* x, int* out) {
  __shared__ int s[8][33]; int w = threadIdx.x/32, l = threadIdx.x%32;
  int v = x[blockIdx.x*256+threadIdx.x]; s[w][l] = v; __syncwarp();
  for (int o = 1; o < 32; o <<= 1) { int t = l >= o ? s[w][l-o] : 0; __syncwarp(); s[w][l] += t; __syncwarp(); }
  out[blockIdx.x*256+threadIdx.x] = s[w][31-l];
}
extern "C" __global__ void tile16(const int* x, int* out) {
  __shared__ int s[256]; auto t = cg::tiled_partition<16>(cg::this_thread_block());
  int i = threadIdx.x; s[i] = x[blockIdx.x*256+i]; t.sync();
  int b = i & ~15; int sum = 0; for (int k = 0; k < 16; k++) sum += s[b + k]; t.sync(); s[i] = sum; t.sync();
  out[blockIdx.x*256+i] = s[b + ((i+1)&15)] + cg::reduce(t, sum, cg::plus<int>());
}
extern "C" __global__ void cuda_barrier(const int* x, int* out, int n) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ int buf[2][128];
  if (threadIdx.x == 0) init(&bar, blockDim.x); __syncthreads();
  int acc = 0;
  for (int k = 0; k < n; k++) { buf[k&1][threadIdx.x] = x[k*128+threadIdx.x]; auto tok = bar.arrive(); bar.wait(std::move(tok)); acc += buf[k&1][(threadIdx.x*7+1)&127]; }
  out[blockIdx.x*128+threadIdx.x] = acc;
}
extern "C" __global__ void producer_consumer(const int* x, int* out, int n) {
  using B = cuda::barrier<cuda::thread_scope_block>; __shared__ B ready[2], filled[2]; __shared__ int buf[2][64];
  if (threadIdx.x < 4) init(threadIdx.x < 2 ? &ready[threadIdx.x] : &filled[threadIdx.x-2], blockDim.x);
  __syncthreads();
  if (threadIdx.x < 64) { for (int k = 0; k < n; k++) { ready[k&1].arrive_and_wait(); buf[k&1][threadIdx.x] = x[k*64+threadIdx.x]; (void)filled[k&1].arrive(); } }
  else { int t = threadIdx.x-64, acc = 0; (void)ready[0].arrive(); (void)ready[1].arrive();
    for (int k = 0; k < n; k++) { filled[k&1].arrive_and_wait(); acc += buf[k&1][63-t]; (void)ready[k&1].arrive(); } out[blockIdx.x*64+t] = acc; }
}
extern "C" __global__ void pipeline_copy(const int* x, int* out, int n) {
  __shared__ int buf[2][256]; auto g = cg::this_thread_block();
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> st; auto pipe = cuda::make_pipeline(g, &st);
  int acc = 0; pipe.producer_acquire(); cuda::memcpy_async(g, buf[0], x, sizeof(int)*256, pipe); pipe.producer_commit();
  for (int k = 1; k <= n; k++) { if (k < n) { pipe.producer_acquire(); cuda::memcpy_async(g, buf[k&1], x+k*256, sizeof(int)*256, pipe); pipe.producer_commit(); }
    pipe.consumer_wait(); acc += buf[(k-1)&1][255-threadIdx.x]; pipe.consumer_release(); }
  out[blockIdx.x*256+threadIdx.x] = acc;
}
extern "C" __global__ void cg_async(const int* x, int* out, int n) {
  __shared__ int buf[2][256]; auto g = cg::this_thread_block(); int acc = 0;
  cg::memcpy_async(g, buf[0], x, 1024);
  for (int k = 0; k < n; k++) { if (k+1 < n) { cg::memcpy_async(g, buf[(k+1)&1], x+(k+1)*256, 1024); cg::wait_prior<1>(g); } else cg::wait(g); acc += buf[k&1][(threadIdx.x+9)&255]; g.sync(); }
  out[blockIdx.x*256+threadIdx.x] = acc;
}
extern "C" __global__ void flag_chain(int* data, int* flags, int n) {
  int b = blockIdx.x; __shared__ int v;
  if (b > 0) { if (threadIdx.x == 0) { cuda::atomic_ref<int, cuda::thread_scope_device> f(flags[b-1]); while (f.load(cuda::memory_order_acquire) == 0); } __syncthreads(); }
  int prev = b ? data[(b-1)*64 + ((threadIdx.x+1)&63)] : 1; data[b*64+threadIdx.x] = prev + threadIdx.x; __syncthreads();
  if (threadIdx.x == 0) { cuda::atomic_ref<int, cuda::thread_scope_device> f(flags[b]); f.store(1, cuda::memory_order_release); }
}
extern "C" __global__ void lookback(const int* x, volatile int* agg, volatile int* flag, int* out) {
  __shared__ int s[64]; __shared__ int pre; int b = blockIdx.x, t = threadIdx.x; s[t] = x[b*64+t]; __syncthreads();
  for (int o = 1; o < 64; o <<= 1) { int v = t >= o ? s[t-o] : 0; __syncthreads(); s[t] += v; __syncthreads(); }
  if (t == 0) { int p = 0; if (b) { while (flag[b-1] == 0); __threadfence(); p = agg[b-1]; } agg[b] = p + s[63]; __threadfence(); flag[b] = 1; pre = p; }
  __syncthreads(); out[b*64+t] = pre + s[t];
}
extern "C" __global__ void hist_warp(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned h[4][256]; for (int i = threadIdx.x; i < 1024; i += blockDim.x) ((unsigned*)h)[i] = 0; __syncthreads();
  for (int i = blockIdx.x*blockDim.x+threadIdx.x; i < n; i += gridDim.x*blockDim.x) atomicAdd(&h[threadIdx.x/32][x[i]], 1u); __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) { unsigned s = h[0][i]+h[1][i]+h[2][i]+h[3][i]; if (s) atomicAdd(&out[i], s); }
}
extern "C" __global__ void spin_lock(int* lock, int* data, int n) {
  if (threadIdx.x == 0) for (int k = 0; k < n; k++) { while (atomicCAS(lock, 0, 1) != 0); __threadfence(); data[0] += 1; data[1] = data[0]; __threadfence(); atomicExch(lock, 0); }
}
extern "C" __global__ void __cluster_dims__(4,1,1) cluster_hist(const int* x, int* out) {
  __shared__ int s[64]; auto c = cg::this_cluster(); int t = threadIdx.x; s[t] = 0; c.sync();
  int v = x[blockIdx.x*64+t] & 255; int* r = c.map_shared_rank(s, v >> 6); atomicAdd(&r[v & 63], 1); c.sync();
  int* q = c.map_shared_rank(s, (c.block_rank()+1)&3); out[blockIdx.x*64+t] = s[t] + q[63-t]; c.sync();
}
extern "C" __global__ void ballot_compact(const int* x, int* out, int* n) {
  int v = x[blockIdx.x*128+threadIdx.x]; unsigned m = __ballot_sync(~0u, v & 1); int l = threadIdx.x & 31, base;
  if (l == 0) base = atomicAdd(n, __popc(m)); base = __shfl_sync(~0u, base, 0); if (v & 1) out[base + __popc(m & ((1u<<l)-1))] = v;
}
extern "C" __global__ void sem(int* data, int n) {
  __shared__ cuda::binary_semaphore<cuda::thread_scope_block> s; __shared__ int v; if (threadIdx.x == 0) { new (&s) cuda::binary_semaphore<cuda::thread_scope_block>(1); v = 0; } __syncthreads();
  if ((threadIdx.x & 31) == 0) for (int k = 0; k < n; k++) { s.acquire(); v += 1; s.release(); } __syncthreads(); data[blockIdx.x*128+threadIdx.x] = v;
}
