"""Random orders let asynchronous operations act one by one, at any moment between issue and completion."""

import numpy as np
import pytest

import warpsim
from asynchronous_kernels import BULK, WGMMA, edited
from warpsim.host.cases import run_case
from warpsim.machine.state.schedule import Schedule

ROOT = __file__.rsplit("tests", 1)[0]
TWICE = edited(
    BULK,
    {
        "expect": "add.u64 %rd3, %rd2, 16; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r20], 32;",
        "copy": "".join(
            f"@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [{at}], 16, [%r20];"
            for at in ("%rd2", "%rd3")
        ),
        "load": "ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r2];",
    },
)
"""Two copies to the same place."""
PRODUCTS = edited(WGMMA, {"a": "mov.b32 %r10, 0; " + " ".join(f"add.u32 %r{n}, %r5, %r10;" for n in (6, 7, 8))})
EARLY = "st.shared.v4.b32 [%r4+2048], {%r10, %r10, %r10, %r10}; fence.proxy.async; bar.sync 0;"
SEEDS = [seed for seed in range(80) if Schedule.of(seed).late and Schedule.of(seed).lands >= 0.3]


def results(text, type, seeds):
    """What a launch without checks gives in each order."""
    kernel, found = warpsim.load(text)["k"], set()
    for seed in seeds:
        out = np.zeros(512, type)
        kernel(1, 128, (out, np.repeat(np.uint32([1, 2]), 4), bytes(128)), checks="none", schedule=seed)
        found |= set(out.tolist())
    return found


def test_copies_overtake_each_other():
    """Two copies to the same place: either may come last. At the two usual moments it is the second."""
    assert results(TWICE, np.uint32, SEEDS) == {1, 2}


def test_products_one_by_one():
    """B is zeroed while two wgmma are in flight: both have read ones (33), or none (1), or the first alone."""
    assert 17.0 in results(edited(PRODUCTS, {"early": EARLY}), np.float32, SEEDS) <= {33.0, 17.0, 1.0}


def test_whoever_waits_has_one_result():
    """A from registers that were written last is read as the group holds it."""
    kernel = warpsim.load(PRODUCTS)["k"]
    for seed in SEEDS[:8]:
        out = np.zeros(512, np.float32)
        result = kernel(1, 128, (out, np.zeros(8, np.uint32), bytes(128)), schedule=seed, checks="all")
        assert set(out.tolist()) == {33.0}, seed
        assert result.findings == (), seed


@pytest.mark.parametrize("name", ["cluster_multicast", pytest.param("split_barrier", marks=pytest.mark.long)])
def test_phases_that_copies_ended_before_anyone_looked(name):
    """Copies that acted before the last of their phase are complete, too, when that one is seen to end it."""
    for seed in SEEDS[:2]:
        assert run_case(f"{ROOT}tests/cases/{name}", schedule=seed).bits_equal, seed
