"""Matrix instructions give the same bits as machine code as in arrays, on operands that hurt.

What is tried are the forms and operands of which recordings of an H100 were made (`matrix_trials`, `warpgroup_trials`): NaN
payloads, infinities, subnormals, cancellation, sums at the accumulator's limits. A sample runs by default, all in the long
run; forms of other GPUs get operands of the same kinds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import matrix_trials
import warpgroup_trials
import warpsim
from warpsim.native.compiling import available

pytestmark = pytest.mark.skipif(not available(), reason="the extra jit is not installed")
WARPS = [*matrix_trials.register_trials(), *matrix_trials.wmma_mma_trials()]
WARPS = [trial for trial in WARPS if "mma" in trial.name]
GROUPS = list(warpgroup_trials.wgmma_trials())
SAMPLE = """
wmma.mma.sync.aligned.row.row.m16n16k16.s32.s8.s8.s32
mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 d, a, b, c;
mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 d, a, b, c;
mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 d, a, b, c, e, 1;
wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32
wgmma.mma_async.sync.aligned.m64n56k32.f32.e5m2.e5m2 desc None -1 -1
mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc d, a, b, c;
wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32
mma.sync.aligned.m16n8k16.row.col.f16.e4m3.e5m2.f16 d, a, b, c;
mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32 d, a, b, c;
wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32
""".strip().split("\n")
"""Few forms that together come to every line of what writes products."""
ELSEWHERE = ("sm_89", "sm_80", "sm_75", "sm_120a")
"""GPUs whose tensor cores take other steps, or have no fp8."""


ARRAYS = re.compile(r"m8n8k4\..*\.f16|\.r[zmp]\.f64|mma\.sp.*\.s32|wgmma.*\.s32")
"""Names of trials that run as arrays under both engines."""


def differences(trial: Any, target: str | None = None, **device: Any) -> list[str]:
    """Where the engines differ."""
    text = trial.text
    if target is not None:
        text = text.replace(".target sm_90a", f".target {target}")
    kernel = warpsim.load(text)["k"]
    gpu = {"device": warpsim.Device(target or "sm_90a", **device)} if device else {}
    numbers = range(len(trial.arrays[-1]))
    # CTAs side by side, some of them, and alone
    for cases in {len(numbers[c]): c for c in (slice(5, 6), slice(7, None, 29), slice(None))}.values():
        found = {}
        for engine in ("interpreter", "compiled"):
            arrays = [array[cases].copy() for array in trial.arrays]
            kernel(
                len(arrays[-1]), trial.threads, arrays, engine=engine, checks="none", **gpu
            )  # descriptors may overlap
            found[engine] = arrays[-1]
        wrong = np.argwhere(found["interpreter"] != found["compiled"])
        if len(wrong):
            values = [hex(int(found[e][tuple(wrong[0])])) for e in ("interpreter", "compiled")]
            where = f"{trial.name} {target or ''} at {wrong[0].tolist()} of {len(arrays[-1])}"
            return [f"{where}: {values[1]} for {values[0]}, {len(wrong)} in all"]
    return []


def accepted(trial: Any, target: str) -> bool:
    """Whether a GPU has a form."""
    try:
        warpsim.load(trial.text.replace(".target sm_90a", f".target {target}"))
    except warpsim.PtxError:
        return False
    return True


def compared(
    trials: Iterable[Any], served: Callable[[], int], target: str | None = None
) -> tuple[list[str], list[str]]:
    """What differs, and the trials that no machine code serves."""
    bad, alone = [], []
    for trial in trials:
        before = served()
        bad += differences(trial, target)
        if served() == before:
            alone.append(trial.name)
    return bad, alone


def test_a_sample_of_forms(served: Callable[[], int]) -> None:
    """Of warps and of warpgroups; each of these has machine code."""
    some = [trial for trial in (*WARPS, *GROUPS) if trial.name in SAMPLE] + GROUPS[::2468]
    assert len(some) >= len(SAMPLE) + 1
    assert compared(some, served) == ([], [])


def test_sums_of_doubles(served: Callable[[], int]) -> None:
    """A device of numerics="ieee" computes products as arrays, whoever asks for machine code."""
    names = SAMPLE[4], SAMPLE[3], SAMPLE[5]
    some = [trial for trial in (*WARPS, *GROUPS) if trial.name in names]
    assert len(some) == len(names)
    assert [line for trial in some for line in differences(trial, numerics="ieee")] == []
    assert not served()


@pytest.mark.parametrize("target", ["sm_89", "sm_120a"])
def test_fp8_elsewhere(target: str, served: Callable[[], int]) -> None:
    """GPUs that multiply fp8 as it is."""
    some = [trial for trial in WARPS if trial.name == "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 d, a, b, c;"]
    assert len(some) == 1
    assert compared(some, served, target) == ([], [])


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(16))
def test_every_form_of_a_warp(part: int, served: Callable[[], int]) -> None:
    """mma, mma.sp and wmma.mma, on every generation of GPUs that has them."""
    bad, alone = compared(WARPS[part::16], served)
    assert bad == []
    assert [name for name in alone if not ARRAYS.search(name)] == []
    for target in ELSEWHERE:
        trials = [trial for trial in WARPS[part::16] if accepted(trial, target)]
        bad, alone = compared(trials, served, target)
        assert bad == []
        assert len(alone) <= len(trials) / 2


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(64))
def test_every_form_of_a_warpgroup(part: int, served: Callable[[], int]) -> None:
    """wgmma and wgmma.sp: every type at N = 8, some of each at all others."""
    bad, alone = compared(GROUPS[part::64], served)
    assert bad == []
    assert [name for name in alone if not ARRAYS.search(name)] == []


APART = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 o) {
.reg .b32 %r<9>, %a<4>, %c<2>; .reg .b64 %d<4>; .reg .pred %p, %q; .shared .align 128 .b8 tile[512];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 5, %r1; shl.b32 %r4, %r1, 2; mov.u32 %r5, tile;
add.u32 %r4, %r4, %r5; mul.lo.u32 %r6, %r3, %r3; bfe.u32 %r6, %r6, 3, 2; shl.b32 %r6, %r6, 10; setp.lt.u32 %q, %r1, 128; @%q st.shared.u32 [%r4], %r6;
fence.proxy.async; bar.sync 0; ld.param.u64 %d1, [o];
ONES mov.b32 %c0, 0; mov.b32 %c1, 0;
shr.u32 %r7, %r1, 7; shl.b32 %r7, %r7, 8; add.u32 %r7, %r7, %r5; shr.u32 %r7, %r7, 4; cvt.u64.u32 %d2, %r7; or.b64 %d2, %d2, 0x1000080000;
shr.u32 %r6, 13, %r2; and.b32 %r6, %r6, 1; setp.eq.u32 %q, %r6, 0; @%q bra THERE;
MULTIPLY
bra.uni END;
THERE:
MULTIPLY
END: mad.lo.u32 %r3, %r2, 256, %r1; mul.wide.u32 %d3, %r3, 8; add.u64 %d1, %d1, %d3; st.global.v2.b32 [%d1], {%c0, %c1}; ret; }"""
"""Each row of D is the sum of B's: of the first 256 bytes of the tile, or of the second."""
MULTIPLY = """setp.eq.u32 %p, 0, 0; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%c0, %c1}, {%a0, %a1, %a2, %a3}, %d2, %p, 1, 1, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""


@pytest.mark.parametrize("ctas", [1, 7])
def test_warpgroups_and_ctas_with_their_own_matrices(ctas: int, served: Callable[[], int]) -> None:
    """Two warpgroups of each CTA name different ones, and some of the CTAs multiply elsewhere in the code."""
    ones = " ".join(f"mov.b32 %a{i}, 0x3c003c00;" for i in range(4))
    text = APART.replace("MULTIPLY", MULTIPLY).replace("ONES", ones)
    out = np.zeros((ctas, 2, 128, 4), np.float16)
    warpsim.load(text)["k"](ctas, 256, (out,), engine="compiled")

    assert served()
    words = (np.arange(128) + 5 * np.arange(ctas)[:, None]) ** 2 >> 3 & 3  # of each CTA; what counts is the lower half
    low = (words << 10).astype(np.uint16).view(np.float16).reshape(ctas, 2, 2, 8, 4)  # groups of K, rows of B, words
    columns = low.astype(np.float64).sum(axis=(2, 4))
    lane = np.arange(128) % 4
    for i in range(4):  # columns 2t and 2t + 1, of two rows
        assert (out[..., i] == columns[:, :, 2 * lane + i % 2]).all()
