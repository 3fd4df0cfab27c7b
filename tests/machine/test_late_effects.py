"""Recorded kernels with late asynchronous effects and all checks: correct programs cannot tell."""

from pathlib import Path

import pytest

from warpsim.host.cases import run_case

CASES = Path(__file__).parent.parent / "cases"
ASYNC = ("cp.async", "cp.reduce.async", "wgmma.", "st.async")
NAMES = sorted(c.parent.name for c in CASES.glob("*/kernel.ptx") if any(word in c.read_text() for word in ASYNC))
LONG = """
triton_attention_backward triton_attention_backward_3.6 triton_attention_specialised
triton_attention_specialised_3.6 triton_matmul_persistent triton_matmul_persistent_specialised
triton_matmul_persistent_specialised_3.6 triton_matmul_warp_specialised_3.6 triton_matmul_tma
triton_matmul_cluster triton_matmul_dequantised triton_attention swapped gemm_fp8_mixed
triton_matmul_warp_specialised triton_flash_sm80 triton_matmul_two_groups triton_matmul_split_k
gemm_stream_k cluster_ring pipeline_roles attention library_roles cluster_forms gemm_ss_tf32 gemm_pingpong
gemm_multicast triton_matmul_fp8 interleaved_32b_plain gemm_rs_bf16 split_barrier gemm_ss_f16 gemm_cp_async
im2col_within_steps gemm_rs_fp8 triton_matmul_s8 mma_f16_gemm two_sets triton_softmax gemm_s8 bulk_stream
library_cluster
"""
"""Dear ones that have a smaller sibling."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in LONG.split())) for n in NAMES])
def test_late_effects_change_no_bit(name):
    """The bytes of the hardware, and no finding but notes."""
    result = run_case(CASES / name, async_effects="at_wait", checks="all")

    assert result.error is None
    assert result.bits_equal
    assert [f.headline() for f in result.findings if f.severity != "note"] == []
