"""The cost of checks against the same launch without, measured side by side: at most 1.3 times by default, 6 with all."""

import runpy
import time
from pathlib import Path

import numpy as np
import pytest

import warpsim

HERE = Path(__file__).parent
WORKLOADS = runpy.run_path(str(HERE / "test_checks.py"))["WORKLOADS"]
LIMITS = {"default": 1.3, "all": 6.0}
ROUNDS = 7
FENCES = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
st.global.u32 [%rd4], %r1; membar.gl; red.global.add.u32 [%rd5], 1;
ret;
}
"""


def cost(launch):
    """The least CPU seconds of each way to check, taken in turn."""
    least = {}
    for number in range(ROUNDS):
        for checks in ("none", *LIMITS):
            started = time.process_time()
            launch(checks)
            spent = time.process_time() - started
            if number:
                least[checks] = min(least.get(checks, spent), spent)
    return least


def judge(name, least):
    """Say what it cost, and hold it against the limits."""
    times = {checks: least[checks] / least["none"] for checks in LIMITS}
    print(f"{name}: " + ", ".join(f"{checks} {ratio:.2f}" for checks, ratio in times.items()))

    assert all(times[checks] <= limit for checks, limit in LIMITS.items())


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(name):
    """The workloads that users would run."""
    module, kernel, grid, block, arguments = WORKLOADS[name]
    launch = warpsim.load(HERE / f"{module}.ptx")[kernel]
    judge(name, cost(lambda checks: launch(grid, block, arguments(), checks=checks)))


def test_every_thread_fences():
    """Fences and atomics of 2^18 threads, each at a place of its own."""
    launch = warpsim.load(FENCES)["k"]
    arrays = np.zeros(1 << 18, np.uint32), np.zeros(1 << 18, np.uint32)
    judge("fences", cost(lambda checks: launch(1024, 256, arrays, checks=checks)))
