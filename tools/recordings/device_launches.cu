// Asks a GPU what its device runtime answers to launches by kernels: codes at the limits, orders, depths.
// nvcc -rdc=true -gencode arch=compute_90,code=sm_90 device_launches.cu -o device_launches -lcudadevrt
// for n in $(seq 0 36); do ./device_launches $n; done > device_launches_h200.txt
#include <cstdio>
#include <cstdlib>

__device__ int order_[4096], count_, value_, ready_;
__device__ char block_[1024];
__device__ void note(int what) { order_[atomicAdd(&count_, 1)] = what; }
__device__ void wait_a_while(int us) { for (int i = 0; i < us; i++) __nanosleep(1000); }

__global__ void nothing() {}
__global__ void __launch_bounds__(64) most64() {}
__global__ void __cluster_dims__(2, 1, 1) pairs() { note(7); }
__global__ void with_static() { __shared__ volatile int s[256]; s[threadIdx.x] = 1; }
__global__ void mark(int what) { note(what); }
__global__ void slow_mark(int what) { wait_a_while(200); note(what); }


__device__ void answer(const char *what) {
  int peek = cudaPeekAtLastError(), get = cudaGetLastError(), again = cudaGetLastError();
  printf("%s: %d %d %d\n", what, peek, get, again);
}
__device__ void buffer(const char *what, void *f, dim3 g, dim3 b, unsigned s) {
  void *p = cudaGetParameterBufferV2(f, g, b, s);
  int first = cudaPeekAtLastError();
  int code = p ? (int)cudaLaunchDeviceV2(p, 0) : -1;
  printf("%s: buffer %d last %d launch %d last %d\n", what, p != nullptr, first, code, (int)cudaGetLastError());
}

__global__ void shapes() {
  void *f = (void *)nothing;
  buffer("good", f, 1, 1, 0);
  buffer("grid 0", f, dim3(0, 1, 1), 1, 0);
  buffer("grid y 0", f, dim3(1, 0, 1), 1, 0);
  buffer("block 0", f, 1, dim3(0, 1, 1), 0);
  buffer("block 1024", f, 1, 1024, 0);
  buffer("block 1025", f, 1, 1025, 0);
  buffer("block 32x33", f, 1, dim3(32, 33, 1), 0);
  buffer("block z 65", f, 1, dim3(1, 1, 65), 0);
  buffer("grid y 65535", f, dim3(1, 65535, 1), 1, 0);
  buffer("grid y 65536", f, dim3(1, 65536, 1), 1, 0);
  buffer("grid z 65536", f, dim3(1, 1, 65536), 1, 0);
  buffer("grid x 2^31", f, dim3(0x80000000u, 1, 1), 1, 0);
  buffer("shared 48K", f, 1, 1, 49152);
  buffer("shared 48K+1", f, 1, 1, 49153);
  buffer("shared 100K", f, 1, 1, 102400);
  buffer("shared 227K", f, 1, 1, 232448);
  buffer("shared 227K+1", f, 1, 1, 232449);
  buffer("static 1K shared 47K", (void *)with_static, 1, 1, 48128);
  buffer("static 1K shared 47K+1", (void *)with_static, 1, 1, 48129);
  buffer("bounds 64 block 64", (void *)most64, 1, 64, 0);
  buffer("bounds 64 block 65", (void *)most64, 1, 65, 0);
  buffer("clusters of 2 grid 2", (void *)pairs, 2, 1, 0);
  buffer("clusters of 2 grid 3", (void *)pairs, 3, 1, 0);
}
__global__ void syntax() {
  nothing<<<1, 1025>>>(); answer("<<<1, 1025>>>");
  nothing<<<1, 1>>>(); answer("<<<1, 1>>>");
  nothing<<<1, 1025>>>(); nothing<<<1, 1>>>(); answer("<<<1, 1025>>> then <<<1, 1>>>");
  nothing<<<1, 1025>>>(); nothing<<<0, 1>>>(); nothing<<<1, 1, 300000>>>(); answer("three bad ones");
  nothing<<<1, 1, 0, (cudaStream_t)1>>>(); answer("legacy stream");
  nothing<<<1, 1, 0, (cudaStream_t)2>>>(); answer("stream per thread");
  nothing<<<1, 1, 0, cudaStreamTailLaunch>>>(); answer("tail");
  nothing<<<1, 1, 0, cudaStreamFireAndForget>>>(); answer("fire and forget");
}
__global__ void child_error() { answer("child begins with"); }
__global__ void errors() {
  if (threadIdx.x == 1) nothing<<<1, 1025>>>();
  __syncwarp();
  if (threadIdx.x < 3) printf("thread %d: %d\n", threadIdx.x, (int)cudaPeekAtLastError());
  if (threadIdx.x == 1) child_error<<<1, 1>>>();
}
__global__ void runtime() {
  cudaStream_t s = 0; cudaEvent_t e = 0;
  printf("stream flags 0: %d\n", (int)cudaStreamCreateWithFlags(&s, 0)); answer("last");
  printf("stream flags 1: %d null %d\n", (int)cudaStreamCreateWithFlags(&s, 1), s == 0); answer("last");
  printf("event flags 0: %d\n", (int)cudaEventCreateWithFlags(&e, 0)); answer("last");
  printf("event flags 2: %d null %d\n", (int)cudaEventCreateWithFlags(&e, 2), e == 0); answer("last");
  printf("record: %d\n", (int)cudaEventRecord(e, s));
  printf("wait: %d\n", (int)cudaStreamWaitEvent(s, e, 0));
  printf("record null stream: %d\n", (int)cudaEventRecord(e, 0));
  printf("record tail: %d\n", (int)cudaEventRecord(e, cudaStreamTailLaunch));
  printf("record forget: %d\n", (int)cudaEventRecord(e, cudaStreamFireAndForget));
  printf("wait null stream: %d\n", (int)cudaStreamWaitEvent(0, e, 0));
  printf("wait tail: %d\n", (int)cudaStreamWaitEvent(cudaStreamTailLaunch, e, 0));
  printf("wait flags 1: %d\n", (int)cudaStreamWaitEvent(s, e, 1));
  answer("last");
  printf("event destroy: %d\n", (int)cudaEventDestroy(e));
  printf("stream destroy: %d\n", (int)cudaStreamDestroy(s));
  printf("stream destroy 0: %d\n", (int)cudaStreamDestroy(0));
  printf("stream destroy tail: %d\n", (int)cudaStreamDestroy(cudaStreamTailLaunch));
  printf("event destroy 0: %d\n", (int)cudaEventDestroy(0));
  answer("last");
  for (int i = 0; i < 12; i++) { size_t v = 77; int r = cudaDeviceGetLimit(&v, (cudaLimit)i); printf("limit %d: %d %llu\n", i, r, (unsigned long long)v); }
  answer("last");
  int d = -1; printf("device: %d", (int)cudaGetDevice(&d)); printf(" %d\n", d);
  printf("count: %d", (int)cudaGetDeviceCount(&d)); printf(" %d\n", d);
  printf("version: %d", (int)cudaRuntimeGetVersion(&d)); printf(" %d\n", d);
  int codes[] = {0, 1, 2, 9, 65, 69, 98, 400, 701, 719, 801, 999, 12345};
  for (int c : codes) printf("%d %s: %s\n", c, cudaGetErrorName((cudaError_t)c), cudaGetErrorString((cudaError_t)c));
  void *p = 0; printf("malloc: %d", (int)cudaMalloc(&p, 100)); printf(" %d\n", p != 0);
  printf("free: %d\n", (int)cudaFree(p));
  printf("free 0: %d\n", (int)cudaFree(0));
  printf("malloc 1 TB: %d", (int)cudaMalloc(&p, 1ull << 40)); printf(" %d\n", p != 0);
  answer("last");
}
__global__ void attributes() {
  cudaFuncAttributes a;
  const void *fs[] = {(void *)nothing, (void *)most64, (void *)with_static};
  for (const void *f : fs) {
    int r = cudaFuncGetAttributes(&a, f);
    printf("%d shared %d const %d local %d threads %d ptx %d binary %d dynamic %d\n", r, (int)a.sharedSizeBytes, (int)a.constSizeBytes,
           (int)a.localSizeBytes, a.maxThreadsPerBlock, a.ptxVersion, a.binaryVersion, a.maxDynamicSharedSizeBytes);
  }
}
__global__ void copies() {
  printf("memset: %d\n", (int)cudaMemsetAsync(block_, 65, 16, 0));
  printf("memcpy: %d\n", (int)cudaMemcpyAsync(block_ + 16, block_, 8, cudaMemcpyDeviceToDevice, 0));
  printf("memcpy default: %d\n", (int)cudaMemcpyAsync(block_ + 32, block_, 8, cudaMemcpyDefault, 0));
  printf("memcpy to host: %d\n", (int)cudaMemcpyAsync(block_ + 48, block_, 8, cudaMemcpyDeviceToHost, 0));
  printf("memcpy of 0: %d\n", (int)cudaMemcpyAsync(block_ + 48, block_, 0, cudaMemcpyDeviceToDevice, 0));
  printf("memset tail: %d\n", (int)cudaMemsetAsync(block_ + 64, 66, 8, cudaStreamTailLaunch));
  printf("memset forget: %d\n", (int)cudaMemsetAsync(block_ + 80, 67, 8, cudaStreamFireAndForget));
  printf("now %d\n", block_[0]);
  answer("last");
}
__global__ void many(int n, int which) {
  cudaStream_t s = which == 0 ? cudaStreamTailLaunch : which == 1 ? cudaStreamFireAndForget : 0;
  if (which == 3) cudaStreamCreateWithFlags(&s, 1);
  int bad = 0, first = -1, code = 0;
  for (int i = 0; i < n; i++) {
    nothing<<<1, 1, 0, s>>>();
    int r = cudaGetLastError();
    if (r) { bad++; code = r; if (first < 0) first = i; }
  }
  printf("%d launches into %d: %d fail, from %d, with %d\n", n, which, bad, first, code);
}
__global__ void deeper(int depth, int forget, int most = 30) {
  if (depth > most) return;
  if (forget) deeper<<<1, 1, 0, cudaStreamFireAndForget>>>(depth + 1, forget, most); else deeper<<<1, 1>>>(depth + 1, forget, most);
  int r = cudaGetLastError();
  value_ = depth;
  if (r) printf("at depth %d: %d\n", depth, r);
}
__global__ void tail_loop(int n) {
  value_ = n;
  if (n < 100) { tail_loop<<<1, 1, 0, cudaStreamTailLaunch>>>(n + 1); int r = cudaGetLastError(); if (r) printf("tail %d: %d\n", n, r); }
}
__global__ void t1() {
  note(1);
  mark<<<1, 1, 0, cudaStreamTailLaunch>>>(11);
  slow_mark<<<1, 1, 0, cudaStreamFireAndForget>>>(12);
  slow_mark<<<1, 1>>>(13);
  mark<<<1, 1, 0, cudaStreamTailLaunch>>>(14);
}
__global__ void tails() {
  t1<<<1, 1, 0, cudaStreamTailLaunch>>>();
  mark<<<1, 1, 0, cudaStreamTailLaunch>>>(2);
  slow_mark<<<1, 1>>>(3);
  slow_mark<<<1, 1, 0, cudaStreamFireAndForget>>>(4);
  wait_a_while(100);
  note(0);
}
__global__ void in_order() {
  if (threadIdx.x == 0) { slow_mark<<<1, 1>>>(10 * blockIdx.x + 1); }
  __syncthreads();
  if (threadIdx.x == 33) { mark<<<1, 1>>>(10 * blockIdx.x + 2); t1<<<1, 1>>>(); mark<<<1, 1>>>(10 * blockIdx.x + 3); }
}
__global__ void set_ready() { __threadfence(); atomicExch(&ready_, 1); }
__global__ void polls(int which) {
  set_ready<<<1, 1, 0, which ? cudaStreamFireAndForget : 0>>>();
  long n = 0;
  while (atomicAdd(&ready_, 0) == 0 && n < 100000000) n++;
  printf("poll %d: %s\n", which, n < 100000000 ? "seen" : "not seen");
}
__global__ void events() {
  cudaStream_t a, b; cudaEvent_t e;
  cudaStreamCreateWithFlags(&a, 1); cudaStreamCreateWithFlags(&b, 1); cudaEventCreateWithFlags(&e, 2);
  slow_mark<<<1, 1, 0, a>>>(1);
  cudaEventRecord(e, a);
  cudaStreamWaitEvent(b, e, 0);
  mark<<<1, 1, 0, b>>>(2);
}
__global__ void destroyed() {
  cudaStream_t a; cudaStreamCreateWithFlags(&a, 1); cudaStreamDestroy(a);
  nothing<<<1, 1, 0, a>>>(); answer("launch into a destroyed stream");
  printf("destroy again: %d\n", (int)cudaStreamDestroy(a));
}
__global__ void wrong_function() { buffer("not a kernel", (void *)0x1234560, 1, 1, 0); }
__global__ void null_buffer() { printf("launch of no buffer: %d\n", (int)cudaLaunchDeviceV2(0, 0)); answer("last"); }
__global__ void twice() {
  void *p = cudaGetParameterBufferV2((void *)nothing, 1, 1, 0);
  printf("once %d\n", (int)cudaLaunchDeviceV2(p, 0));
  printf("twice %d\n", (int)cudaLaunchDeviceV2(p, 0));
}
__global__ void set_only(int *p) { printf("memset of memory from cudaMalloc: %d\n", (int)cudaMemsetAsync(p, 65, 16, 0)); }
__global__ void copy_only(int *p) { printf("memcpy: %d\n", (int)cudaMemcpyAsync(p + 4, p, 16, cudaMemcpyDeviceToDevice, 0)); }
__global__ void large() { nothing<<<1, 1, 100 << 10>>>(); answer("100K, which the host has allowed"); }
__global__ void many_here(int n) { many<<<1, 1>>>(n, 0); many<<<1, 1, 0, cudaStreamTailLaunch>>>(n, 0); many<<<1, 1, 0, cudaStreamTailLaunch>>>(n, 0); }
__global__ void zero_first() {
  nothing<<<0, 1025, 300000>>>(); answer("all of it");
  pairs<<<3, 1025>>>(); answer("a cluster and a block");
  pairs<<<0, 1>>>(); answer("a cluster and no grid");
}
static void orders() {
  int n, o[64];
  cudaMemcpyFromSymbol(&n, count_, 4); cudaMemcpyFromSymbol(o, order_, sizeof o);
  printf("order:");
  for (int i = 0; i < n; i++) printf(" %d", o[i]);
  printf("\n");
}
__global__ void large_static() { __shared__ int fixed[5000]; extern __shared__ int more[]; fixed[threadIdx.x] = 0; more[0] = fixed[0]; value_ = more[fixed[0]]; }
__global__ void fits(int bytes, int fixed) {
  if (fixed) large_static<<<1, 1, bytes>>>(); else nothing<<<1, 1, bytes>>>();
  value_ = cudaGetLastError();
}
void most_shared(int fixed, int allowed) {
  int e = fixed ? cudaFuncSetAttribute(large_static, cudaFuncAttributeMaxDynamicSharedMemorySize, allowed)
                : cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, allowed);
  int fit = 0, not_ = 240 << 10, v;
  while (not_ - fit > 1) {
    int middle = (fit + not_) / 2;
    fits<<<1, 1>>>(middle, fixed);
    cudaMemcpyFromSymbol(&v, value_, 4);
    (v ? not_ : fit) = middle;
  }
  printf("static %d, allowed %d (%d): %d\n", 20000 * fixed, allowed, e, fit);
}
__global__ void count_one() { atomicAdd(&count_, 1); }
__global__ void some_tails(int n) { for (int i = 0; i < n; i++) count_one<<<1, 1, 0, cudaStreamTailLaunch>>>(); }
void most_tails(const char *where) {
  int v = 0;
  size_t limit;
  cudaMemcpyToSymbol(count_, &v, 4);
  some_tails<<<1, 1>>>(100);
  cudaMemcpyFromSymbol(&v, count_, 4);
  cudaDeviceGetLimit(&limit, cudaLimitDevRuntimePendingLaunchCount);
  printf("%s: %d of 100, limit %zu\n", where, v, limit);
}
__global__ void each_polls(int depth) {
  volatile int *seen = order_;
  if (depth) {
    each_polls<<<1, 1, 0, cudaStreamFireAndForget>>>(depth - 1);
    long long n = 0;
    while (!seen[depth - 1] && ++n < 100000000);
    if (!seen[depth - 1]) value_ = depth;
  }
  seen[depth] = 1;
}
int main(int argc, char **argv) {
  int test = atoi(argv[1]), v = 0;
  printf("# %d\n", test);
  switch (test) {
  case 0: shapes<<<1, 1>>>(); break;
  case 1: syntax<<<1, 1>>>(); break;
  case 2: errors<<<1, 32>>>(); break;
  case 3: runtime<<<1, 1>>>(); break;
  case 4: attributes<<<1, 1>>>(); break;
  case 5: copies<<<1, 1>>>(); break;
  case 6: case 7: case 8: case 9: many<<<1, 1>>>(5000, test - 6); break;
  case 10: deeper<<<1, 1>>>(0, 0); break;
  case 11: tail_loop<<<1, 1>>>(0); break;
  case 12: tails<<<1, 1>>>(); break;
  case 13: in_order<<<1, 64>>>(); break;
  case 14: polls<<<1, 1>>>(0); cudaDeviceSynchronize(); break;
  case 15: events<<<1, 1>>>(); break;
  case 16: destroyed<<<1, 1>>>(); break;
  case 17: wrong_function<<<1, 1>>>(); break;
  case 18: null_buffer<<<1, 1>>>(); break;
  case 19: twice<<<1, 1>>>(); break;
  case 20: printf("set limit: %d\n", cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 16)); many<<<1, 1>>>(200, 0); break;
  case 21: many<<<1, 1>>>(2049, 0); break;
  case 22: deeper<<<1, 1>>>(0, 1); break;
  case 23: polls<<<1, 1>>>(1); break;
  }
  int *memory, seen[8] = {};
  cudaMalloc(&memory, 32);
  cudaMemset(memory, 0, 32);
  switch (test) {
  case 24: deeper<<<1, 1>>>(0, 0, 300); break;
  case 25: set_only<<<1, 1>>>(memory); break;
  case 26: cudaMemset(memory, 66, 16); copy_only<<<1, 1>>>(memory); break;
  case 27: printf("allow: %d\n", cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10)); large<<<1, 1>>>(); break;
  case 28: many<<<2, 1>>>(1500, 0); break;
  case 29: many_here<<<1, 1>>>(1500); break;
  case 30: printf("set limit: %d\n", cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 5000)); many<<<1, 1>>>(6000, 0); break;
  case 31: zero_first<<<1, 1>>>(); break;
  case 32: deeper<<<1, 1>>>(0, 1, 3000); break;
  case 33: for (int bytes : {0, 1000, 49152, 49153, 102400, 232448, 1000}) most_shared(0, bytes); for (int bytes : {0, 29152, 29153, 212448, 0}) most_shared(1, bytes); break;
  case 34:
    cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 40);
    most_tails("40");
    void *create, *pop, *context;
    cudaDriverEntryPointQueryResult result;
    cudaGetDriverEntryPointByVersion("cuCtxCreate", &create, 11000, cudaEnableDefault, &result);
    cudaGetDriverEntryPointByVersion("cuCtxPopCurrent", &pop, 11000, cudaEnableDefault, &result);
    ((int (*)(void **, unsigned, int))create)(&context, 0, 0);
    most_tails("another context");
    cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 60);
    most_tails("60");
    ((int (*)(void **))pop)(&context);
    most_tails("the first context");
    cudaDeviceReset();
    most_tails("after a reset");
    break;
  case 35: each_polls<<<1, 1>>>(127); break;
  case 36: each_polls<<<1, 1>>>(128); break;
  }
  printf("launch %d\n", cudaGetLastError());
  int r = cudaDeviceSynchronize();
  printf("end %d\n", r);
  if (!r) {
    if (test >= 12 && test <= 15) orders();
    cudaMemcpyFromSymbol(&v, value_, 4);
    if (test == 25 || test == 26) { printf("%d", cudaMemcpy(seen, memory, 32, cudaMemcpyDeviceToHost)); for (int x : seen) printf(" %x", x); printf("\n"); }
    if (test == 10 || test == 11 || test == 22 || test == 24 || test == 32 || test > 34) printf("value %d\n", v);
    char c[97] = {};
    cudaMemcpyFromSymbol(c, block_, 96);
    if (test == 5) { for (char &x : c) if (!x) x = '.'; printf("bytes %.96s\n", c); }
  }
}
