"""Recorded launches, bundled and kept for regression: every byte as an H100 left it."""

import runpy
from pathlib import Path

import pytest

from warpsim.host.cases import run_case

ROOT = Path(__file__).parent.parent
CASES = sorted([*(ROOT / "programs").glob("*/case.json"), *(ROOT / "tests" / "cases").glob("*/case.json")])
LONG = """
bignum_mod tinygrad_gemm_f16_sm80 fp8_formats numba_particles simd_in_words double_functions float_functions_fast fp_mega triton_attention_backward triton_attention_backward_3.6
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
string_search radix_sorts hash_table numba_statistics cluster_forms
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


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, marks=[pytest.mark.long] * (p.parent.name not in LAUNCHED), id=p.parent.name)
        for p in sorted((ROOT / "programs").glob("*/launch.py"))
    ],
)
def test_launch_py(path, capsys):
    """The script beside each bundled program runs and holds what it asserts."""
    runpy.run_path(str(path))

    assert "warp-instructions" in capsys.readouterr().out
