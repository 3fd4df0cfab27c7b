// A moving average over a long row. cp.async fills the next tile while the present one is used: two stages.
#include <stdint.h>

constexpr int TILE = 256, HALO = 4;

extern "C" __global__ void copy_pipeline(const float* in, float* out, int tiles) {
  __shared__ __align__(16) float stage[2][TILE + HALO];
  const float* from = in + blockIdx.x * tiles * TILE;  // at least one tile

  auto fetch = [&](int t) {
    if (threadIdx.x < (TILE + HALO) / 4) {
      uint32_t to = (uint32_t)__cvta_generic_to_shared(&stage[t % 2][threadIdx.x * 4]);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from + t * TILE + threadIdx.x * 4));
    }
    asm volatile("cp.async.commit_group;");
  };

  fetch(0);
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      fetch(t + 1);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    float sum = 0.f;
    for (int i = 0; i < HALO; ++i) sum += stage[t % 2][threadIdx.x + i];
    out[blockIdx.x * tiles * TILE + t * TILE + threadIdx.x] = sum / HALO;
    __syncthreads();  // before the next round overwrites this stage
  }
}
