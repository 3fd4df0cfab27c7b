// What the kernels of this folder share.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cstdint>

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using s64 = long long;

#define KERNEL(name) extern "C" __global__ void name

__device__ inline int global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline u32 bits(float x) { return __float_as_uint(x); }
__device__ inline u64 bits(double x) { return __double_as_longlong(x); }
__device__ inline u16 bits(__half x) { return __half_as_ushort(x); }
__device__ inline u16 bits(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
__device__ inline u32 bits(__half2 x) { return bits(x.x) | (u32)bits(x.y) << 16; }
__device__ inline u32 bits(__nv_bfloat162 x) { return bits(x.x) | (u32)bits(x.y) << 16; }
__device__ inline u32 rotl(u32 x, int n) { return __funnelshift_l(x, x, n); }
