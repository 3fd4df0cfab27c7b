"""Recorded kernels with late asynchronous effects and all checks: correct programs cannot tell."""

from pathlib import Path

import numpy as np
import pytest

import warpsim
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
COPIES = [n for n in NAMES if n.startswith(("reduce_", "box_", "im2col_", "interleaved_", "store_"))]
"""Copies through tensor maps, each of another type or shape; every third runs by default."""


def is_long(name):
    """Whether a kernel runs only when asked for."""
    return name in LONG.split() or (name in COPIES and COPIES.index(name) % 3 > 0)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * is_long(n)) for n in NAMES])
def test_late_effects_change_no_bit(name):
    """The bytes of the hardware, and no finding but notes."""
    result = run_case(CASES / name, async_effects="at_wait", checks="all")

    assert result.error is None
    assert result.bits_equal
    assert [f.headline() for f in result.findings if f.severity != "note"] == []


FAULTS = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
.shared .align 16 .b8 s[64]; .shared .align 8 .b64 bar;
ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 37;
@!%p1 mbarrier.init.shared.b64 [bar], 1;
bar.sync 0;
@%p1 bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
"""
WAIT = """
WAIT:
mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
@!%p2 bra WAIT;
ret;
}
"""


LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1+64], 16, [bar];"
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd1+64], [s], 16; cp.async.bulk.commit_group;"
COUNT = "mbarrier.complete_tx.shared::cta.relaxed.cluster.b64 [bar], 16;"


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("copy", [LOAD, f"{STORE}\n{COUNT}", f"{STORE}\n{COUNT} cp.async.bulk.wait_group 0;"])
def test_a_fault_is_of_the_thread_that_started_the_copy(effects, copy):
    """Whoever waits, and wherever the thread is when the copy acts, the copy's own line and its thread are named."""
    kernel = warpsim.load(FAULTS + copy + WAIT)["k"]
    with pytest.raises(warpsim.ExecutionError) as caught:
        kernel(1, 64, (np.zeros(16, np.uint32),), async_effects=effects, checks=[])

    (found,) = caught.value.findings
    assert (found.rule, found.line, found.warp, found.lanes) == ("out-of-bounds", FAULTS.count("\n") + 1, 1, (5,))


TWO_PHASES = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
.shared .align 16 .b8 s[64]; .shared .align 8 .b64 bar[2];
ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; mov.u32 %r3, bar;
@!%p1 mbarrier.init.shared.b64 [bar], 1;
@!%p1 mbarrier.init.shared.b64 [bar+8], 1;
bar.sync 0;
@%p1 bra WAIT;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 16, [bar];
WAIT: bar.sync 0;
and.b32 %r2, %r1, 1; xor.b32 %r2, %r2, 1;
PLACE
mbarrier.test_wait.parity.shared.b64 %p2, [%r3], %r2;
selp.u32 %r4, 1, 0, %p2;
mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %rd1;
bar.sync 0;
st.global.u32 [%rd2], %r4;
ret;
}
"""
PLACES = {"one": "", "two": "and.b32 %r5, %r1, 2; shl.b32 %r5, %r5, 2; add.u32 %r3, %r3, %r5;"}


@pytest.mark.parametrize("place", PLACES)
def test_threads_that_wait_for_different_phases(place):
    """The copy arrives for those that wait for it, though the first thread waits for the phase before, which is another from then on."""
    out = np.zeros((2, 64), np.uint32)
    warpsim.load(TWO_PHASES.replace("PLACE", PLACES[place]))["k"](1, 64, (out,), async_effects="at_wait", checks=[])

    threads = np.arange(64)
    untouched = threads & 2 if place == "two" else 0 * threads
    assert (out[0] == np.where(untouched, ~threads, threads) & 1).all()
