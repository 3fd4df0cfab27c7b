// A transpose through a shared tile: reads and writes of global memory are both coalesced. The column of padding keeps the
// 32 lanes of a column read in 32 banks; `transpose_conflicts` is the same without it.
template <int WIDTH>
__device__ void transpose_tile(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[32][WIDTH];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < columns && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < rows && y + j < columns) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose(const float* in, float* out, int rows, int columns) {
  transpose_tile<33>(in, out, rows, columns);
}
extern "C" __global__ void transpose_conflicts(const float* in, float* out, int rows, int columns) {
  transpose_tile<32>(in, out, rows, columns);
}
