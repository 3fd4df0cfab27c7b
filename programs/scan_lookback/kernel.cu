// An inclusive scan in one pass: each CTA scans its part, then looks back over the states that earlier CTAs published.
constexpr unsigned NOTHING = 0, PART = 1, WHOLE = 2;  // what the upper word of a state says of the lower one

__device__ unsigned warp_scan(unsigned v) {
  for (int o = 1; o < 32; o <<= 1) {
    unsigned other = __shfl_up_sync(~0u, v, o);
    if (threadIdx.x % 32 >= o) v += other;
  }
  return v;
}

extern "C" __global__ void scan_lookback(const unsigned* in, unsigned* out, unsigned long long* states, unsigned* ticket) {
  __shared__ unsigned of_warp[32], block, before;
  if (threadIdx.x == 0) block = atomicAdd(ticket, 1);  // CTAs count themselves: an earlier one is running or done
  __syncthreads();
  int i = block * blockDim.x + threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;  // warps are whole
  unsigned sum = warp_scan(in[i]);
  if (lane == 31) of_warp[warp] = sum;
  __syncthreads();
  if (warp == 0) of_warp[lane] = warp_scan(lane < blockDim.x / 32 ? of_warp[lane] : 0);
  __syncthreads();
  if (warp > 0) sum += of_warp[warp - 1];
  if (threadIdx.x == blockDim.x - 1) {
    volatile unsigned long long* published = states;
    published[block] = (unsigned long long)(block == 0 ? WHOLE : PART) << 32 | sum;
    unsigned total = 0;
    for (int b = (int)block - 1; b >= 0;) {
      unsigned long long state = published[b];
      if (state >> 32 == NOTHING) continue;
      total += (unsigned)state;
      if (state >> 32 == WHOLE) break;
      --b;
    }
    published[block] = (unsigned long long)WHOLE << 32 | (total + sum);
    before = total;
  }
  __syncthreads();
  out[i] = before + sum;
}
