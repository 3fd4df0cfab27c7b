"""Recorded launches, bundled and kept for regression: every byte as an H100 left it, or by exact arithmetic (sm_100a)."""

import runpy
from pathlib import Path

import pytest

import warpsim
from warpsim.host.cases import run_case
from warpsim.host.defaults import defaults

ROOT = Path(__file__).parent.parent
CASES = sorted([*(ROOT / "programs").glob("*/case.json"), *(ROOT / "tests" / "cases").glob("*/case.json")])
LONG = """
half_expressions triton_softmax_max bignum_mod tinygrad_gemm_f16_sm80 fp8_formats numba_particles simd_in_words double_functions float_functions_fast fp_mega triton_attention_backward triton_attention_backward_3.6
triton_attention_specialised triton_attention_specialised_3.6 triton_matmul_persistent_specialised
triton_matmul_warp_specialised_3.6 triton_matmul_persistent_specialised_3.6 triton_matmul_split_k
triton_batched_product triton_flash_sm80 triton_matmul_fp8 attention_overlapped bf16_math_sm90 contractions
atomic_kinds swapped digests small_systems merges triton_functions float_functions wide_atomics
edit_distances dynamic_programming local_recursion aes_blocks small_floats numba_medians
triton_matmul_persistent triton_matmul_dequantised triton_sort_gather triton_scan_sort_sm80 triton_dropout
private_histograms work_queue barrier_votes fp8_formats_sm90 bf16_math gemm_multicast its_lock
interleaved_32b_plain bit_fields lane_locks far_angles triton_attention attention gemm_stream_k mandelbrot
rays bodies block_primitives gemm_ss_tf32 gemm_fp8_mixed triton_matmul_warp_specialised numba_julia
random_walks chacha device_heap gemm_pingpong gemm_specialised stream_k deep_recursion pipeline_roles
standard_library local_arrays triton_matmul_cluster virtual_shapes store_1d split_barrier cluster_ring stencil_3d gemm_rs_fp8
triton_matmul_tma half_math library_roles printf_vprintf gemm_ss_f16 gemm_cp_async bulk_stream
gemm_rs_bf16 flash_attention gemm_fp8_scaled mbarrier_forms stack_room triton_matmul_s8 flag_rings printf_divergent
complex_numbers numba_heat cub_scan_reduce triton_matmul_two_groups morphology bitonic_sorts fourier triton_locked_sums
tiles gemm_s8 string_search radix_sorts hash_table numba_statistics cluster_forms gemm_tcgen05_pair
"""
"""Dear ones that have a smaller sibling, or run whole elsewhere."""
LAUNCHED = {"hello", "saxpy", "histogram", "softmax_triton", "gemm_tma", "stream_k"}
"""Bundled programs whose script runs by default; all have the recorded launch above."""
SILENT = {"gemm_pingpong", "gemm_stream_k", "cluster_ring", "bulk_stream", "attention"}
"""Pipelines with every fence: there is nothing to note either."""
FINDINGS = {"assert_fails": ["assert"], "warp_votes": ["membermask", "membermask"]}
"""Rules that recorded programs break: a failing assertion, and two shuffles that read lanes outside of their mask."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(c.parent, marks=[pytest.mark.long] * (c.parent.name in LONG.split()), id=c.parent.name)
        for c in CASES
    ],
)
def test_every_bit(path):
    """A recorded launch leaves the bytes of the hardware, and breaks no rule."""
    result = run_case(path, checks="all" if path.name in SILENT else None)

    assert result.error is None
    assert result.bits_equal
    assert [f.rule for f in result.findings] == FINDINGS.get(path.name, [])
    assert result.outputs or path.name in ("assert_fails", "printf_vprintf")


@pytest.mark.parametrize("threads", [32, *(pytest.param(n, marks=pytest.mark.long) for n in (1 << 10, 1 << 16))])
@pytest.mark.parametrize("name", ["saxpy", "histogram", "reduce_shfl", "softmax_rows", "mma_f16_gemm"])
def test_batch_size_changes_no_bit(name, threads):
    """The law of batches: CTAs run one by one or side by side give the same bits."""
    result = run_case(ROOT / "programs" / name, batch_threads=threads)

    assert result.error is None
    assert result.bits_equal


def run_script(name, sizes, monkeypatch):
    """Run the script beside a bundled program, which holds its results against NumPy, for some sizes."""
    script = str(ROOT / "programs" / name / "launch.py")
    monkeypatch.setattr("sys.argv", [script, *sizes.split()])
    runpy.run_path(script)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(p.parent.name, marks=[pytest.mark.long] * (p.parent.name not in LAUNCHED))
        for p in sorted((ROOT / "programs").glob("*/launch.py"))
    ],
)
def test_launch_py(name, monkeypatch, capsys):
    """The script beside each bundled program runs and holds what it asserts."""
    run_script(name, "", monkeypatch)

    assert "warp-instructions" in capsys.readouterr().out


SIZES = {
    # name: sizes for every run, and more
    "attention_overlapped": (["64 64"], ["192 448", "64 1024"]),
    "cancelled_launches": (["1 1", "13 300"], ["200 1000"]),
    "cluster_reduce": (["1 1", "2 513"], ["5 40000"]),
    "copy_pipeline": (["1 1", "3 4"], ["3 17"]),
    "flash_attention": (["32 16"], ["96 400", "32 2048"]),
    "gemm_fp8_scaled": (["128 64 128"], ["128 192 1024"]),
    "gemm_multicast": (["128 64 64"], ["256 192 320", "128 64 1024"]),
    "gemm_sparse": (["32", "256"], ["1024"]),
    "gemm_specialised": (
        ["192 128 384 2"],
        ["200 100 264 2", "128 128 320 1", "72 64 8 3", "256 192 1024 3", "512 512 512 2"],
    ),
    "gemm_mxfp8": (["128 64 128"], ["256 128 512"]),
    "gemm_tcgen05": (["128 64 64"], ["384 128 448"]),
    "gemm_tcgen05_pair": (["256 64 64"], ["512 128 448"]),
    "gemm_tma": (["64 64 64"], ["192 128 448", "64 64 2048"]),
    "hello": (["1", "100"], ["1024"]),
    "histogram": (["1", "30000"], ["300000"]),
    "matmul_triton": (["8 8 8"], ["200 136 1000", "64 64 4096"]),
    "mma_f16_gemm": (["64 64 32"], ["128 192 512"]),
    "reduce_shfl": (["1", "20000"], ["100000"]),
    "saxpy": (["1", "5000"], ["100000"]),
    "scan_lookback": (["1 32", "20 64"], ["70 1024"]),
    "softmax_rows": (["1 1", "2 129"], ["3 10000"]),
    "softmax_triton": (["1 1", "2 512"], ["20 512"]),
    "stream_k": (["64 64 64 1", "64 64 128 9"], ["192 128 640 7", "72 68 200 5"]),
    "transpose": (["1 1", "33 65"], ["33 200"]),
}
REFUSED = {
    "attention_overlapped": "64 100",
    "cancelled_launches": "0 1",
    "copy_pipeline": "2 0",
    "flash_attention": "64 40",
    "gemm_fp8_scaled": "64 64 320",
    "gemm_multicast": "64 64 64",
    "gemm_sparse": "40",
    "gemm_specialised": "64 64 60 1",
    "gemm_mxfp8": "128 64 192",
    "gemm_tcgen05": "64 64 64",
    "gemm_tcgen05_pair": "128 64 64",
    "gemm_tma": "128 64 100",
    "matmul_triton": "64 64 20",
    "mma_f16_gemm": "128 100 96",
    "saxpy": "0",
    "scan_lookback": "4 40",
    "softmax_rows": "1 60000",
    "softmax_triton": "1 513",
}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *((name, sizes) for name, (often, _) in SIZES.items() for sizes in often),
        *(pytest.param(name, sizes, marks=pytest.mark.long) for name, (_, more) in SIZES.items() for sizes in more),
    ],
)
def test_other_sizes(name, sizes, monkeypatch):
    """A bundled program is right for every legal size, not only for the recorded one."""
    run_script(name, sizes, monkeypatch)


def test_every_script_takes_sizes():
    """None is left out above."""
    assert set(SIZES) == {p.parent.name for p in (ROOT / "programs").glob("*/launch.py")}


@pytest.mark.parametrize(("name", "sizes"), REFUSED.items())
def test_sizes_that_are_not_legal(name, sizes, monkeypatch):
    """Sizes that a program cannot do are refused with a message, by its script or by the launch."""
    with pytest.raises((SystemExit, warpsim.LaunchError), match=r"multiple|least|positive|at most|shared memory"):
        run_script(name, sizes, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("schedule", range(5))
@pytest.mark.parametrize("name", ["gemm_specialised", "gemm_multicast", "stream_k", "gemm_fp8_scaled", "scan_lookback"])
def test_other_sizes_in_other_orders(name, schedule, monkeypatch):
    """Rings go round several times whatever the order of warps and the time of copies."""
    with defaults(schedule=schedule):
        run_script(name, SIZES[name][1][0] if name != "gemm_specialised" else "192 192 512 2", monkeypatch)
