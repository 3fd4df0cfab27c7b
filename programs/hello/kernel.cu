// Every eighth lane says hello. Device printf comes out in lane order, as on a GPU.
#include <cstdio>

extern "C" __global__ void hello(int* lanes) {
  int lane = threadIdx.x % 32;
  lanes[threadIdx.x] = lane;
  if (lane % 8 == 0) printf("hello from warp %d, lane %d\n", threadIdx.x / 32, lane);
}
