"""Orders: what the rules call clean has the same bits in every one, what races has others in some, a seed gives its order again."""

import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.host.cases import run_case
from warpsim.machine.state.schedule import Schedule

ROOT = Path(__file__).parents[2]
CASES = sorted([*(ROOT / "programs").glob("*/case.json"), *(ROOT / "tests" / "cases").glob("*/case.json")])
SEEN = {"aggregated_atomics", "library_cluster", "votes_and_matches", "warp_votes", "register_counts_twice"}
"""Kernels that write down which lanes stand together (activemask), or in which order atomics came: their results are the
order's by design. In the last nanosleep alone keeps two warpgroups apart at one barrier."""
FEW = ("barrier_votes", "named_barriers", pytest.param("grid_sync", marks=pytest.mark.long))
RACED = [(c.parent, n) for c in CASES for n, line in enumerate((c.parent / "kernel.ptx").read_text().split("\n"), 1)
         if re.search(r"\b(bar\.sync|barrier\.sync|bar\.warp\.sync)\b", line)]  # fmt: skip
"""Every barrier of the recorded kernels."""


@pytest.mark.parametrize("name", FEW)
def test_clean_kernels_have_one_result(name):
    """Barriers with votes, locks, look-back, pipelines: a few orders each."""
    folder = next(c.parent for c in CASES if c.parent.name == name)
    for seed in range(2):
        assert run_case(folder, schedule=seed).bits_equal, seed


@pytest.mark.long
@pytest.mark.parametrize("path", [c.parent for c in CASES if c.parent.name not in SEEN], ids=lambda p: p.name)
def test_fifty_orders(path):
    """All recorded kernels: fifty orders each, as far as three minutes go."""
    import time

    until = time.monotonic() + 180
    for seed in range(50):
        if time.monotonic() < until:
            result = run_case(path, schedule=seed)
            assert result.bits_equal, seed


def racy(path, number, folder):
    """A kernel without one of its barriers, if it then races (on what it finds in memory with the usual order)."""
    target = folder / f"{path.name}-{number}"
    shutil.copytree(path, target)
    lines = (target / "kernel.ptx").read_text().split("\n")
    lines[number - 1] = re.sub(r"(@!?%\w+\s+)?(bar\.sync|barrier\.sync|bar\.warp\.sync)[^;]*;", "", lines[number - 1])
    (target / "kernel.ptx").write_text("\n".join(lines))
    usual = run_case(target, checks="race", on_finding="collect", max_instructions=2_000_000, max_seconds=5)
    if usual.error is None and any(f.rule == "race" and f.severity == "error" for f in usual.findings):
        return target
    return None


def changes(path, seeds):
    """The first order whose bits are not those of the recording, and whose seed gives the same ones again; None: none."""
    for seed in range(seeds):
        result = run_case(path, schedule=seed, checks="none", max_instructions=4_000_000, max_seconds=5)
        if not result.bits_equal:
            again = run_case(path, schedule=seed, checks="none", max_instructions=4_000_000, max_seconds=5)
            assert again.outputs == result.outputs
            return seed
    return None


def test_racy_kernels_have_others(tmp_path):
    """Three barriers taken out: the race shows within a few orders, where the usual one gives the right bits."""
    for name in ("reduce_shfl", "transpose", "histogram"):
        path = next(c.parent for c in CASES if c.parent.name == name)
        number = next(n for p, n in RACED if p == path and racy(p, n, tmp_path) is not None)
        assert changes(tmp_path / f"{name}-{number}", 12) is not None, name


@pytest.mark.long
def test_forty_racy_kernels(tmp_path):
    """Of forty kernels that race for want of a barrier, at least half show another result within fifty orders."""
    found, shown = [], []
    for path, number in RACED[:: max(len(RACED) // 120, 1)]:
        if len(found) < 40 and (target := racy(path, number, tmp_path)) is not None:
            found.append(target)
            if changes(target, 50) is not None:
                shown.append(target)
    print(
        f"{len(shown)} of {len(found)} racy kernels show another result: not {[t.name for t in found if t not in shown]}"
    )
    assert len(found) == 40
    assert len(shown) >= 20


def test_a_schedule_is_data():
    """It can be pickled in the middle of its stream, and is spread over what it may choose."""
    schedule = Schedule.of(7)
    schedule.below(10)
    copy = pickle.loads(pickle.dumps(schedule))

    assert [copy.below(1000) for _ in range(9)] == [schedule.below(1000) for _ in range(9)]
    drawn = [Schedule.of(seed) for seed in range(100)]
    assert {s.lanes for s in drawn} == {s.late for s in drawn} == {True, False}
    assert len({s.grain for s in drawn}) == 5
    with pytest.raises(warpsim.LaunchError, match="schedule must be an integer"):
        warpsim.load(ROOT / "programs" / "saxpy" / "kernel.ptx")["saxpy"](
            1, 32, (0, 1.0, np.zeros(1, np.float32), None), schedule="x"
        )


def test_lanes_that_take_no_part_invalidate_nothing():
    """An mbarrier is judged by what the lanes find that end its use, whichever warps stand beside them."""
    result = run_case(ROOT / "tests" / "cases" / "triton_matmul_warp_specialised", schedule=2)

    assert result.bits_equal
    assert result.findings == ()
