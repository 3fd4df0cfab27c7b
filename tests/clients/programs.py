"""Programs in CUDA C++: those of llm.c (dev/cuda) and the CUDA samples, built by nvcc and run by ``warpsim exec``.

    python tests/clients/programs.py llm.c CHECKOUT [--only NAME ...] [--device sm_80]
    python tests/clients/programs.py cuda-samples CHECKOUT

Their sizes are made small in a copy (a simulator is not a GPU); their host code and kernels are as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from outcomes import compare

from warpsim.driver import library

SIZES = {
    r"\b(int|int64_t) B = \d+": r"\1 B = 2",
    r"\b(int|int64_t) T = \d+": r"\1 T = 64",
    r"\b(int|int64_t) C = \d+": r"\1 C = 192",
    r"\bint OC = 768": "int OC = 192",
    r"\b(int|int64_t) NH = \d+": r"\1 NH = 3",
    r"\b(int|int64_t) V = \d+": r"\1 V = 1031",
    r"\bint repeat_times = \d+": "int repeat_times = 1",
    r"num_parameters = 1048576": "num_parameters = 16384",
    r"num_params = \d+": "num_params = 16384",
}
"""What makes llm.c's programs small: shapes, and how often they are timed."""
LARGER = {"trimat_forward": {"int T = 64": "int T = 128"}}
"""Programs whose kernels take no smaller ones."""
SAMPLES = """
0_Introduction/asyncAPI 0_Introduction/clock 0_Introduction/fp16ScalarProduct
0_Introduction/matrixMul:-wA=64:-hA=64:-wB=64:-hB=64 0_Introduction/mergeSort 0_Introduction/simpleAssert
0_Introduction/simpleAtomicIntrinsics 0_Introduction/simpleAttributes 0_Introduction/simpleAWBarrier
0_Introduction/simpleCallback 0_Introduction/simpleCooperativeGroups 0_Introduction/simpleHyperQ
0_Introduction/simpleMultiCopy 0_Introduction/simpleMultiGPU 0_Introduction/simpleOccupancy 0_Introduction/simpleP2P
0_Introduction/simplePrintf 0_Introduction/simpleStreams 0_Introduction/simpleTemplates
0_Introduction/simpleVoteIntrinsics 0_Introduction/simpleZeroCopy 0_Introduction/systemWideAtomics
0_Introduction/template 0_Introduction/UnifiedMemoryStreams 0_Introduction/vectorAdd
0_Introduction/vectorAddDrv 0_Introduction/matrixMulDrv 0_Introduction/vectorAddMMAP 0_Introduction/cudaOpenMP
0_Introduction/clock_nvrtc 0_Introduction/matrixMul_nvrtc 0_Introduction/simpleAssert_nvrtc
0_Introduction/simpleAtomicIntrinsics_nvrtc 0_Introduction/vectorAdd_nvrtc 2_Concepts_and_Techniques/inlinePTX_nvrtc
2_Concepts_and_Techniques/convolutionSeparable 2_Concepts_and_Techniques/MC_EstimatePiInlineP
2_Concepts_and_Techniques/radixSortThrust:-n=4096 4_CUDA_Libraries/conjugateGradientMultiBlockCG
0_Introduction/simpleTexture 0_Introduction/simpleSurfaceWrite 0_Introduction/simpleDrvRuntime
1_Utilities/deviceQuery 1_Utilities/topologyQuery 1_Utilities/deviceQueryDrv
2_Concepts_and_Techniques/dct8x8 2_Concepts_and_Techniques/eigenvalues 2_Concepts_and_Techniques/FunctionPointers
2_Concepts_and_Techniques/histogram 2_Concepts_and_Techniques/inlinePTX 2_Concepts_and_Techniques/interval
2_Concepts_and_Techniques/reduction:--n=65536 2_Concepts_and_Techniques/reductionMultiBlockCG
2_Concepts_and_Techniques/scalarProd 2_Concepts_and_Techniques/scan 2_Concepts_and_Techniques/shfl_scan
2_Concepts_and_Techniques/sortingNetworks 2_Concepts_and_Techniques/streamOrderedAllocation
2_Concepts_and_Techniques/threadFenceReduction:--n=65536 2_Concepts_and_Techniques/threadMigration
3_CUDA_Features/bf16TensorCoreGemm 3_CUDA_Features/binaryPartitionCG 3_CUDA_Features/cdpSimplePrint
3_CUDA_Features/cudaTensorCoreGemm 3_CUDA_Features/dmmaTensorCoreGemm 3_CUDA_Features/globalToShmemAsyncCopy
3_CUDA_Features/graphMemoryNodes 3_CUDA_Features/graphConditionalNodes 3_CUDA_Features/immaTensorCoreGemm
3_CUDA_Features/jacobiCudaGraphs 3_CUDA_Features/newdelete 3_CUDA_Features/ptxjit 3_CUDA_Features/simpleCudaGraphs
3_CUDA_Features/StreamPriorities 3_CUDA_Features/tf32TensorCoreGemm 3_CUDA_Features/warpAggregatedAtomicsCG
"""
"""Programs of the samples, with the arguments that make them small."""
BAD = re.compile(r"Result = FAIL|test failed|FAILED|mismatch", re.I)
SMALLER = {
    r"\bconst int numElements = 1 << 20\b": "const int numElements = 1 << 12",
    r"#define M_TILES \d+": "#define M_TILES 8",
    r"#define N_TILES \d+": "#define N_TILES 8",
    r"#define K_TILES \d+": "#define K_TILES 16",
    r"\bint n = 16 \* 1024 \* 1024": "int n = 16 * 1024",
    r"\bn = 24 \* 1024 \* 1024": "n = 24 * 1024",
    r"\bint N = 16 \* 1024 \* 1024": "int N = 16 * 1024",
    r"\bN\s+= 4 \* 1048576": "N = 16 * 1024",
    r"#define CPU_DEBUG 0": "#define CPU_DEBUG 1",
}


CUBLAS = """
cublasCreate_v2 cublasDestroy_v2 cublasSgemm_v2 cublasSetMathMode cublasSetStream_v2 cublasSgemmStridedBatched
cublasDgemv_v2 cublasGemmEx cublasGemmStridedBatchedEx cublasSetWorkspace_v2 cublasGetStatusString cublasLtCreate cublasLtDestroy
cublasLtMatmul cublasLtMatmulDescCreate cublasLtMatmulDescDestroy cublasLtMatmulDescSetAttribute
cublasLtMatmulPreferenceCreate cublasLtMatmulPreferenceDestroy cublasLtMatmulPreferenceSetAttribute
cublasLtMatmulAlgoGetHeuristic cublasLtMatrixLayoutCreate cublasLtMatrixLayoutDestroy cublasLtMatrixLayoutSetAttribute
"""
"""cuBLAS is machine code: programs link a stand-in that refuses to multiply, and most of them never ask it to."""


def small(text, rules):
    """A program's text with smaller sizes."""
    for pattern, replacement in rules.items():
        text = re.sub(pattern, replacement, text)
    return text


def build(nvcc, sources, target, includes, arch):
    """Compile and link; the compiler's complaint, or nothing. What a program loads as it runs is made beside it."""
    texts = {source: source.read_text(encoding="utf-8", errors="replace") for source in sources}
    every = "".join(texts.values())
    if any(source.suffix == ".cpp" for source in sources):
        for source in [s for s in sources if s.suffix == ".cu" and ("nvrtc" in str(s) or f"{s.stem}64." in every)]:
            sources = [other for other in sources if other != source]
            for kind in ("fatbin", "ptx"):
                made = target.with_name(f"{source.stem}64.{kind}")
                subprocess.run(
                    [nvcc, f"-{kind}", f"-arch={arch}", "-o", made, source], capture_output=True, check=False
                )
    command = [nvcc, "-O2", f"-arch={arch}", "-std=c++17", "-w", "-o", str(target)]
    command += [f"-I{i}" for i in includes] + [str(s) for s in sources] + [f"-L{library.build()}", "-lcuda"]
    if "nvrtc" in every:
        command += ["-l:libnvrtc.so.13"]
    if "omp.h" in every:
        command += ["-Xcompiler", "-fopenmp"]
    if "common.h" in every or "cublas" in every:
        stub = target.with_name("cublas.c")
        refuses = {name: int(not any(w in name for w in ("Create", "Destroy", "Set"))) for name in CUBLAS.split()}
        text = "".join(f"int {name}(void) {{ return {status}; }}\n" for name, status in refuses.items())
        stub.write_text(text, encoding="utf-8")
        command += [str(stub)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def run(program, words, folder, options):
    """Run a program on the simulated GPU: exit status (None where it took too long), output, seconds."""
    command = [sys.executable, "-m", "warpsim", "exec", "--device", options.device, "--", str(program), *words]
    began = time.monotonic()
    running = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = running.communicate(timeout=options.seconds)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        return None, "took too long", time.monotonic() - began
    return running.returncode, output, time.monotonic() - began


def outcome(status, output, good):
    """pass, or fail with what the program said."""
    if status is None:
        return "fail", output
    if status == 2 and re.search(r"waiv", output, re.I):
        return "skip", output
    return ("pass" if status == 0 and good(output) else "fail"), f"status {status}: {output}"


def llm_c(checkout, options):
    """dev/cuda: each program with each of the kernel numbers that its head lists."""
    for source in sorted((checkout / "dev" / "cuda").glob("*.cu")):
        text = source.read_text(encoding="utf-8")
        if options.only and source.stem not in options.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            shutil.copy(source.with_name("common.h"), work / "common.h")
            (work / source.name).write_text(small(text, SIZES | LARGER.get(source.stem, {})), encoding="utf-8")
            problem = build(options.nvcc, [work / source.name], work / "p", [work, *options.include], options.arch)
            numbers = sorted({int(n) for n in re.findall(rf"\./{source.stem} (\d+)", text)}) or [1]
            for number in numbers:
                item = f"{source.stem}:{number}"
                if problem:
                    yield item, ("fail", problem), 0.0
                    continue
                status, output, seconds = run(work / "p", [str(number)], work, options)
                yield item, outcome(status, output, lambda o: "Mismatch" not in o), seconds


def beside(work, includes):
    """Copy the headers of cooperative groups to where the program runs, as its own build does."""
    for folder in [*map(Path, includes), Path("/usr/local/cuda/include")]:
        if (folder / "cooperative_groups.h").exists():
            shutil.copy(folder / "cooperative_groups.h", work)
            shutil.copytree(folder / "cooperative_groups", work / "cooperative_groups", dirs_exist_ok=True)
            return


def samples(checkout, options):
    """The samples of the table above."""
    for line in SAMPLES.split():
        place, *words = line.split(":")
        home = checkout / "Samples" / place
        if options.only and home.name not in options.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder) / "s"
            if not home.is_dir():
                yield place, ("skip", "not in this checkout"), 0.0
                continue
            shutil.copytree(home, work)
            sources = [p for p in work.rglob("*") if p.suffix in (".cu", ".cpp")]
            for path in [*sources, *work.rglob("*.cuh"), *work.rglob("*.h")]:
                path.write_text(small(path.read_text(encoding="utf-8", errors="replace"), SMALLER), encoding="utf-8")
            if home.name.endswith("_nvrtc"):
                beside(work, options.include)
            includes = [work, work / "inc", checkout / "Common", *options.include]
            problem = build(options.nvcc, sources, work / "p", includes, options.arch)
            if problem:
                yield place, ("fail", problem), 0.0
                continue
            status, output, seconds = run(work / "p", words, work, options)
            yield place, outcome(status, output, lambda o: not BAD.search(o)), seconds


def main():
    """Run a suite; 1 where something is not as expected."""
    parser = argparse.ArgumentParser()
    parser.add_argument("client", choices=["llm.c", "cuda-samples"])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--device", default="sm_80")
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--include", action="append", default=[], help="more folders of headers (cublas_v2.h)")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    suite = {"llm.c": llm_c, "cuda-samples": samples}[options.client]
    found = []
    for item, result, seconds in suite(options.checkout, options):
        print(f"{item}: {result[0]} ({seconds:.1f} s)", flush=True)
        if options.verbose or result[0] == "fail":
            print("    " + result[1].strip()[-600:].replace("\n", "\n    "), flush=True)
        found.append((item, *result))
    return compare(options.client, found)


if __name__ == "__main__":
    sys.exit(main())
