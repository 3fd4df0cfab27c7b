// Tensor maps changed and made on the device.
#include "hopper.cuh"
#define REPLACE(FIELD, T, C) asm volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024." T " [%0], %1;" :: "r"(at), C : "memory")
#define REPLACE_AT(FIELD, T, ORD, C) asm volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024." T " [%0], " ORD ", %1;" :: "r"(at), C : "memory")

DEV void publish(uint32_t at, CUtensorMap* to) {
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" :: "l"(to), "r"(at) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(to) : "memory");
}

DEV void fetch(const CUtensorMap* map, uint32_t dst, int x, int y, uint32_t bar, uint32_t bytes) {
  if (threadIdx.x == 0) { mbar_init(bar, 1); fence_init(); mbar_expect(bar, bytes); tma_load(dst, map, x, y, bar); }
  __syncthreads();
  mbar_wait(bar, 0);
}

// Each CTA turns the map of its parameter into one of its own matrix: another address, extent and row stride.
KERNEL map_replace(const __grid_constant__ CUtensorMap map, const __half* in, CUtensorMap* maps, __half* out, int rows, int stride) {
  __shared__ alignas(128) uint32_t copy[32];
  __shared__ alignas(1024) __half box[16 * 64];
  __shared__ alignas(8) uint64_t bars;
  uint32_t at = smem(copy);
  if (threadIdx.x < 32) {
    copy[threadIdx.x] = ((const uint32_t*)&map)[threadIdx.x];
    __syncwarp();
    if (threadIdx.x == 0) {
      REPLACE("global_address", "b64", "l"(in + blockIdx.x * rows * stride));
      REPLACE_AT("global_dim", "b32", "1", "r"(rows - (int)blockIdx.x));
      REPLACE_AT("global_stride", "b64", "0", "l"((uint64_t)stride * 2));
    }
    __syncwarp();
    publish(at, maps + blockIdx.x);
  }
  __syncthreads();
  fetch(maps + blockIdx.x, smem(box), 8, 2, smem(&bars), sizeof box);
  for (int i = threadIdx.x; i < 16 * 64; i += blockDim.x) out[blockIdx.x * 1024 + i] = box[i];
}

// A map made from nothing: every field is set.
KERNEL map_build(const float* in, CUtensorMap* maps, float* out, int columns, int rows) {
  __shared__ alignas(128) uint32_t copy[32];
  __shared__ alignas(1024) float box[8 * 32];
  __shared__ alignas(8) uint64_t bars;
  uint32_t at = smem(copy);
  if (threadIdx.x < 32) {
    copy[threadIdx.x] = 0;
    __syncwarp();
    if (threadIdx.x == 0) {
      REPLACE("global_address", "b64", "l"(in));
      REPLACE("rank", "b32", "r"(1));
      REPLACE_AT("box_dim", "b32", "0", "r"(32));
      REPLACE_AT("box_dim", "b32", "1", "r"(8));
      REPLACE_AT("global_dim", "b32", "0", "r"(columns));
      REPLACE_AT("global_dim", "b32", "1", "r"(rows));
      REPLACE_AT("global_stride", "b64", "0", "l"((uint64_t)columns * 4));
      REPLACE_AT("element_stride", "b32", "0", "r"(1));
      REPLACE_AT("element_stride", "b32", "1", "r"(1));
      REPLACE("elemtype", "b32", "n"(7));
      REPLACE("interleave_layout", "b32", "n"(0));
      REPLACE("swizzle_mode", "b32", "n"(3));
      REPLACE("fill_mode", "b32", "n"(0));
    }
    __syncwarp();
    publish(at, maps);
  }
  __syncthreads();
  fetch(maps, smem(box), -4, rows - 6, smem(&bars), sizeof box);
  for (int i = threadIdx.x; i < 8 * 32; i += blockDim.x) out[i] = box[i];
}
