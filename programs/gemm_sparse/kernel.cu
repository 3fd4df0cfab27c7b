// One m16n8k32 tile of a product whose A is 2:4 sparse: of four neighbours in a row two are stored, `meta` says which.
#include <cuda_fp16.h>
#include <stdint.h>

extern "C" __global__ void gemm_sparse(const __half* a, const uint32_t* meta, const __half* b, float* c, int k) {
  int lane = threadIdx.x, row = lane / 4, pair = lane % 4 * 2;
  float d[4] = {};
  for (int s = 0; s < k / 32; ++s) {  // k is a multiple of 32
    const __half* at = a + s * 16;             // 16 stored elements for 32 of k
    uint32_t x[4], y[4];
    for (int r = 0; r < 4; ++r) x[r] = *(const uint32_t*)(at + (row + r % 2 * 8) * (k / 2) + pair + r / 2 * 8);
    for (int r = 0; r < 4; ++r) y[r] = *(const uint32_t*)(b + row * k + s * 32 + pair + r * 8);
    // With selector 0, lanes 0 and 1 of each four give the metadata: 16 columns each, of rows lane / 4 and lane / 4 + 8
    uint32_t e = meta[s * 32 + lane];
    asm volatile(
        "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(e));
  }
  for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + pair + i % 2] = d[i];
}
