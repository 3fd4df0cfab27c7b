"""Orders: what the rules call clean has the same bits in every one, what races has others in some, a seed gives its order again."""

import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import racy_programs
import warpsim
from docs.tools import faulty
from warpsim.host.cases import Case, run_case, run_prepared
from warpsim.machine.state.schedule import Schedule

ROOT = Path(__file__).parents[2]
CASES = sorted([*(ROOT / "programs").glob("*/case.json"), *(ROOT / "tests" / "cases").glob("*/case.json")])
SEEN = {
    "aggregated_atomics",
    "library_cluster",
    "register_counts_twice",
    "tiles",
    "votes_and_matches",
    "warp_scans",
    "warp_votes",
}
"""Kernels that write down which lanes stand together (activemask), or in which order atomics came: their results are the
order's by design. In `register_counts_twice` nanosleep alone keeps two warpgroups apart at one barrier."""
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


def test_text_comes_in_the_order_of_threads():
    """What lanes print apart is compared line by line in a random order, whichever comes first; a line that differs counts."""
    path, found = ROOT / "programs" / "hello", set()
    for seed in range(30):
        result = run_case(path, schedule=seed)
        assert result.bits_equal, seed
        found.add(result.stdout)
    assert len(found) > 1
    ready = Case.read(path).prepare()
    ready.case.stdout = ready.case.stdout.replace("lane 8", "lane 9")
    assert "printed" in run_prepared(ready, schedule=4).error


def of_one_cluster(path):
    """The launch with its first CTA alone, or the first cluster."""
    ready = Case.read(path).prepare()
    clusters = re.findall(r"\.reqnctapercluster\s+(\d+)(?:,\s*(\d+))?(?:,\s*(\d+))?", ready.case.source[0])
    declared = tuple(int(n or 1) for n in clusters[0]) if clusters else (1, 1, 1)
    ready.grid = ready.keywords["cluster"] or declared
    return ready


@pytest.mark.sweep
@pytest.mark.parametrize("path", [c.parent for c in CASES if c.parent.name not in SEEN], ids=lambda p: p.name)
def test_fifty_orders(path):
    """All recorded kernels in fifty orders: the first five whole, the others with one CTA or cluster where that runs alone."""

    def one(seed):
        left = {}
        result = run_prepared(of_one_cluster(path), left, schedule=seed, max_instructions=20_000_000)
        return result.error, {name: array.tobytes() for name, array in left.items()}

    usual = one(None)
    for seed in range(50):
        if seed < 5 or usual[0] is not None:
            assert run_case(path, schedule=seed).bits_equal, seed
        else:
            assert one(seed) == usual, seed


def without(path, number, folder):
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


@pytest.mark.long
def test_kernels_without_a_barrier(tmp_path):
    """Three barriers taken out: the race shows within a few orders, where the usual one gives the right bits."""
    for name in ("reduce_shfl", "transpose", "histogram"):
        path = next(c.parent for c in CASES if c.parent.name == name)
        number = next(n for p, n in RACED if p == path and without(p, n, tmp_path) is not None)
        assert changes(tmp_path / f"{name}-{number}", 12) is not None, name


@pytest.mark.sweep
def test_forty_kernels_without_a_barrier(tmp_path):
    """Of forty kernels that race for want of a barrier, at least half show another result within fifty orders."""
    found, shown = [], []
    for path, number in RACED[:: max(len(RACED) // 120, 1)]:
        if len(found) < 40 and (target := without(path, number, tmp_path)) is not None:
            found.append(target)
            if changes(target, 50) is not None:
                shown.append(target)
    assert len(found) == 40
    assert len(shown) >= 20, [t.name for t in found if t not in shown]


# ---- small racy programs -----------------------------------------------------------------------

SAME = {
    "lanes that overwrite words without bar.warp.sync": "the halves of a warp part between two steps: in one of some hundred orders",
    "a lock without acquire and release": "memory is never weaker than its order of accesses",
    "a flag without release": "likewise",
    "a flag without acquire": "likewise",
    "CTAs that store the same value in one word": "whoever comes last",
    "a bulk store without a proxy fence": "no proxy has a cache of its own",
    "a tile without a proxy fence": "likewise",
}
"""Racy programs whose result is the same in every order that is tried, and why."""
HARMLESS = {
    "a flag that is looked at once",
    "cp.async whose source is overwritten",
    "CTAs that store the same value in one word",
}
"""Racy programs in which the usual order finds nothing: the flag is set by then, no other warp overwrites the source, the values agree."""


def words(program, text, **options):
    """Rules that a launch breaks, and the arrays behind it."""
    a, b = np.random.default_rng(1).integers(1, 1 << 20, 4096).astype(np.uint32), np.zeros(4096, np.uint32)
    tensor = warpsim.TensorMap(a, global_dim=[32, 16], global_strides=[128], box_dim=[32, 16])
    kernel = warpsim.load(faulty.PREAMBLE.format(target="sm_90a") + text + faulty.END)["k"]
    try:
        found = kernel(
            program.grid, program.block, (a, b, tensor), cluster=program.cluster, max_instructions=200_000, **options
        ).findings
    except warpsim.ExecutionError as error:
        found = error.findings
    return {f.rule for f in found if f.severity == "error"}, (a.tobytes(), b.tobytes())


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (k % 14 > 0)) for k, n in enumerate(racy_programs.PROGRAMS)]
)
def test_racy_programs(name):
    """The correct program has one result and no finding in all orders; the racy one is found out, and shows another result
    within fifty orders, unless the list says why not."""
    program = racy_programs.racy(name)
    first = words(program, program.good, checks="all", on_finding="collect")
    assert first[0] == set()
    for seed in range(8):
        assert words(program, program.good, checks="all", on_finding="collect", schedule=seed) == first, seed

    rules, usual = words(program, program.bad, checks="all", on_finding="collect")
    assert bool(rules) is (program.name not in HARMLESS or name == "cp.async whose source is overwritten: 64")
    shown = any(words(program, program.bad, checks="none", schedule=seed)[1] != usual for seed in range(50))
    assert shown is (program.name not in SAME)


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


def test_a_jump_that_has_one_way():
    """An order in which some lanes come to a ``bra.uni`` first does not have them go another way than those that come later."""
    text = """.version 8.0 .target sm_90 .address_size 64
    .visible .entry k(.param .u64 out) {
    .reg .b32 t, r; .reg .b64 o, w; .reg .pred p;
    mov.u32 t, %tid.x; ld.param.u64 o, [out]; mul.wide.u32 w, t, 4; add.u64 o, o, w;
    setp.lt.u32 p, t, 7; @p bra A; bra.uni B;
    A: mov.b32 r, 1; bra.uni C;
    B: mov.b32 r, 2;
    C: st.global.u32 [o], r; ret; }"""
    kernel, out = warpsim.load(text)["k"], np.zeros(64, np.uint32)
    found = [kernel(1, 64, (out,), schedule=seed, on_finding="collect").findings for seed in range(40)]

    assert found == [()] * 40
    assert out.tolist() == [1] * 7 + [2] * 57
