"""Small programs of those who launch kernels from Python, recorded on a GPU by `warpsim record`:
gpu_clients.py FOLDER [NAME...]

Each runs in a process of its own: CuPy, cuda.core, cuda.bindings (tensor maps, graphs), Triton, numba-cuda, PyTorch
(extensions, graphs, compiled functions). The cases cases/recorded_* were made so."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
KERNELS = {
    "cupy": "*",
    "core": "*",
    "bindings": "*",
    "triton": "*kernel*",
    "numba": "*",
    "torch": "*scaled_add*",
    "packed": "*scaled_add*",
    "compiled": "triton_*",
    "graphs": "*",
    "torch_graphs": "add_kernel",
}
SAXPY = 'extern "C" __global__ void core_axpy(int n, float a, const float *x, float *y) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }'


def cupy():
    """A raw kernel, an elementwise kernel, a reduction."""
    import cupy

    kernel = cupy.RawKernel(
        'extern "C" __global__ void raw(const float *x, double *y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i] * 0.1; }',
        "raw",
    )
    x, y = cupy.arange(100, dtype=cupy.float32), cupy.zeros(100)
    kernel((1,), (128,), (x, y, np.int32(100)))
    squared = cupy.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = a * a + sinf(b)", "squared_sine")
    z = squared(x, x[::-1])
    print(float(y.sum()), float(z.sum()))


def core():
    """cuda.core: a program compiled to PTX by NVRTC."""
    try:
        from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
    except ImportError:
        from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch
    import cupy

    device = Device()
    device.set_current()
    stream = device.create_stream()
    program = Program(SAXPY, "c++", options=ProgramOptions(arch="sm_90"))
    kernel = program.compile("ptx").get_kernel("core_axpy")
    x, y = cupy.arange(300, dtype=cupy.float32), cupy.ones(300, dtype=cupy.float32)
    cupy.cuda.Device().synchronize()
    launch(stream, LaunchConfig(grid=3, block=128), kernel, np.int32(300), np.float32(2.5), x.data.ptr, y.data.ptr)
    stream.sync()
    print(float(y.sum()))


def bindings():
    """The driver itself: tensor maps among the parameters, and a launch with a cluster."""
    from cuda.bindings import driver as cu

    def ok(result):
        assert result[0] == 0, result
        return result[1] if len(result) == 2 else None

    ok(cu.cuInit(0))
    device = ok(cu.cuDeviceGet(0))
    ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(device))))
    data = np.arange(40 * 72, dtype=np.int32)
    memory = [ok(cu.cuMemAlloc(data.nbytes)) for _ in range(2)]
    ok(cu.cuMemcpyHtoD(memory[0], data.ctypes.data, data.nbytes))
    ok(cu.cuMemsetD8(memory[1], 0, data.nbytes))
    maps = [
        ok(cu.cuTensorMapEncodeTiled(
            cu.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_INT32, 2, int(address), [cu.cuuint64_t(72), cu.cuuint64_t(40)],
            [cu.cuuint64_t(288)], [cu.cuuint32_t(32), cu.cuuint32_t(16)], [cu.cuuint32_t(1), cu.cuuint32_t(1)],
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE, cu.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_NONE,
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE, cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )) for address in memory
    ]  # fmt: skip
    ptx = (ROOT / "tests" / "cases" / "library_tensors" / "kernel.ptx").read_bytes() + b"\0"
    module = ok(cu.cuModuleLoadData(ptx))
    function = ok(cu.cuModuleGetFunction(module, b"tensor_negate"))
    ok(cu.cuLaunchKernel(function, 3, 3, 1, 96, 1, 1, 0, 0, ((maps[0], maps[1]), (None, None)), 0))
    ok(cu.cuCtxSynchronize())
    case = ROOT / "programs" / "cluster_reduce"
    print("tensor_negate ran", (case / "kernel.ptx").exists())


def triton():
    """A kernel that adds, and one that multiplies matrices."""
    import torch
    import triton as t

    from gpu_triton import add_kernel, product_kernel

    x, y = torch.arange(500, device="cuda", dtype=torch.float32), torch.ones(500, device="cuda")
    z = torch.empty_like(x)
    add_kernel[(t.cdiv(500, 128),)](x, y, z, 500, BLOCK=128)
    a, b = (torch.randn(64, 64, device="cuda").half() for _ in range(2))
    c = torch.empty(64, 64, device="cuda", dtype=torch.float32)
    product_kernel[(2, 2)](a, b, c, 64, 64, 64, BLOCK=32)
    torch.cuda.synchronize()
    print(float(z.sum()), float(c.sum()))


def numba():
    """A jitted kernel."""
    vars(np)["row_stack"] = np.vstack  # NumPy 2.5 has it no more, and numba-cuda 0.30 asks for it
    from numba import cuda

    @cuda.jit
    def ramp(x, y, factor):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = x[i] * factor + i

    x, y = cuda.to_device(np.arange(200, dtype=np.float32)), cuda.to_device(np.zeros(200, np.float32))
    ramp[2, 128](x, y, np.float32(0.5))
    print(float(y.copy_to_host().sum()))


def torch(*flags):
    """An extension of C++ and CUDA, compiled with PTX in it."""
    import os

    os.environ["TORCH_CUDA_ARCH_LIST"] = "9.0+PTX"
    import torch
    from torch.utils.cpp_extension import load_inline

    source = """
    __global__ void scaled_add(const float *x, float *y, float a, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] += a * x[i];
    }
    void run(torch::Tensor x, torch::Tensor y, double a) {
        scaled_add<<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), float(a), int(x.numel()));
    }
    """
    module = load_inline(
        "packed" if not flags else "scaled",
        "void run(torch::Tensor x, torch::Tensor y, double a);",
        source,
        functions=["run"],
        extra_cuda_cflags=list(flags),
    )
    x, y = torch.arange(260, device="cuda", dtype=torch.float32), torch.ones(260, device="cuda")
    module.run(x, y, 1.5)
    torch.cuda.synchronize()
    print(float(y.sum()))


def compiled():
    """A function that PyTorch compiles: kernels of Triton from its own cache."""
    import torch

    @torch.compile
    def softened(x, y):
        return torch.softmax(x * 2 + y, dim=-1)

    x, y = (torch.linspace(-1, 1, 64 * 96, device="cuda").reshape(64, 96) for _ in range(2))
    print(float(softened(x, y).sum()))


STEP = """.version 8.0
.target sm_80
.address_size 64
.visible .entry step(.param .u64 x, .param .u64 y)
{
 .reg .b64 %x, %y, %t; .reg .f32 %a, %b; .reg .b32 %i, %n, %c;
 ld.param.u64 %x, [x]; ld.param.u64 %y, [y];
 mov.u32 %i, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %c, %ctaid.x;
 mad.lo.s32 %i, %c, %n, %i;
 mul.wide.u32 %t, %i, 4;
 add.s64 %x, %x, %t; add.s64 %y, %y, %t;
 ld.global.f32 %a, [%x]; ld.global.f32 %b, [%y];
 fma.rn.f32 %b, %b, 0f40000000, %a;
 st.global.f32 [%y], %b;
 ret;
}
"""


def graphs():
    """A graph of the driver: a fill, two kernels that each double what is there, a copy; then with another grid."""
    import ctypes

    from cuda.bindings import driver as cu

    def ok(result):
        assert result[0] == 0, result
        return result[1] if len(result) == 2 else result[1:] or None

    ok(cu.cuInit(0))
    ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(ok(cu.cuDeviceGet(0))))))
    x, y, z = (ok(cu.cuMemAlloc(512)) for _ in range(3))
    ok(cu.cuMemsetD8(y, 0, 512))
    function = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(STEP.encode() + b"\0")), b"step"))
    stream = ok(cu.cuStreamCreate(0))
    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    ok(cu.cuMemsetD32Async(x, 0x3F800000, 128, stream))
    for _ in range(2):
        ok(cu.cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, stream, ((int(x), int(y)), (ctypes.c_void_p,) * 2), 0))
    ok(cu.cuMemcpyDtoDAsync(z, y, 512, stream))
    graph = ok(cu.cuStreamEndCapture(stream))
    executable = ok(cu.cuGraphInstantiate(graph, 0))

    def launched():
        out = np.zeros(128, np.float32)
        ok(cu.cuGraphLaunch(executable, stream))
        ok(cu.cuStreamSynchronize(stream))
        ok(cu.cuMemcpyDtoH(out.ctypes.data, z, 512))
        return out

    assert (launched() == 3).all()
    count = ok(cu.cuGraphGetNodes(graph))[1]
    for node in ok(cu.cuGraphGetNodes(graph, count))[0]:
        if ok(cu.cuGraphNodeGetType(node)) == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
            params = ok(cu.cuGraphKernelNodeGetParams(node))
            params.gridDimX = 1
            ok(cu.cuGraphExecKernelNodeSetParams(executable, node, params))
    assert (launched() == [15] * 64 + [3] * 64).all()
    print("the graph's results are its own")


def torch_graphs():
    """A graph of PyTorch, with a kernel of Triton that changes what it reads."""
    import torch

    from gpu_triton import add_kernel

    x, y = torch.ones(300, device="cuda"), torch.zeros(300, device="cuda")
    add_kernel[(3,)](x, y, y, 300, BLOCK=128)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add_kernel[(3,)](x, y, y, 300, BLOCK=128)
        y.mul_(3)
        add_kernel[(3,)](x, y, y, 300, BLOCK=128)
    graph.replay()
    torch.cuda.synchronize()
    assert (y == 7).all(), y
    print(float(y.sum()))


def main():
    """One client, or all of them into a folder."""
    if sys.argv[1] in KERNELS:
        {"torch": lambda: torch("-no-compress"), "packed": torch}.get(sys.argv[1], globals().get(sys.argv[1]))()
        return
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or KERNELS:
        started = time.monotonic()
        command = [sys.executable, "-m", "warpsim", "record", "-o", str(folder / name), "--kernels", KERNELS[name], "--launches", "6",
                   "--", sys.executable, __file__, name]  # fmt: skip
        print(f"==== {name}", flush=True)
        try:
            done = subprocess.run(command, cwd=ROOT, timeout=150, capture_output=True, text=True)
            print(f"status {done.returncode}\n{done.stdout[-1500:]}\n{done.stderr[-2500:]}")
        except subprocess.TimeoutExpired as late:
            print("too slow", (late.stderr or b"")[-1500:])
        print(f"{time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
