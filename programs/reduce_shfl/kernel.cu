// Sum and maximum: shuffles in the warp, shared memory between warps, one atomic or one partial result per CTA.
__device__ float warp_sum(float v) {
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
  return v;
}
__device__ int warp_sum(int v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__device__ float warp_max(float v) {
  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}

extern "C" __global__ void reduce_shfl(const float* x, const int* xi, int n, float* partial, int* total, float* largest) {
  __shared__ float sums[32], tops[32];
  __shared__ int counts[32];
  float sum = 0.f, top = -INFINITY;
  int count = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    sum += x[i];
    count += xi[i];
    top = fmaxf(top, x[i]);
  }
  sum = warp_sum(sum), count = warp_sum(count), top = warp_max(top);
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) sums[warp] = sum, counts[warp] = count, tops[warp] = top;
  __syncthreads();
  if (warp == 0) {
    int warps = blockDim.x / 32;
    sum = warp_sum(lane < warps ? sums[lane] : 0.f);
    count = warp_sum(lane < warps ? counts[lane] : 0);
    top = warp_max(lane < warps ? tops[lane] : -INFINITY);
    if (lane == 0) {
      partial[blockIdx.x] = sum;
      largest[blockIdx.x] = top;
      atomicAdd(total, count);
    }
  }
}
