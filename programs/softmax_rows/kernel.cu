// Softmax of each row by one CTA: the row in dynamic shared memory, warp shuffles, one exchange between warps per pass.
extern "C" __global__ void softmax(const float* x, float* y, int columns) {
  extern __shared__ float row[];
  __shared__ float of_warp[32];
  const float* in = x + (size_t)blockIdx.x * columns;
  float* out = y + (size_t)blockIdx.x * columns;
  int warps = blockDim.x / 32;

  float top = -INFINITY;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    row[i] = in[i];
    top = fmaxf(top, row[i]);
  }
  for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = top;
  __syncthreads();
  top = of_warp[0];
  for (int w = 1; w < warps; ++w) top = fmaxf(top, of_warp[w]);
  __syncthreads();

  float sum = 0.f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    row[i] = __expf(row[i] - top);
    sum += row[i];
  }
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.f;
  for (int w = 0; w < warps; ++w) sum += of_warp[w];

  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = row[i] / sum;
}
