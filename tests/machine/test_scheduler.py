"""Whose turn it is, alone: which group runs next and with whom, who sleeps until when, which CTAs begin, orders of a seed."""

import copy
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.machine.engine import take_shuffled
from warpsim.machine.state.launch import LaunchState, Settings
from warpsim.machine.state.schedule import ENDLESS, Schedule
from warpsim.machine.waiting import pass_time, wake
from warpsim.machine.waves import all_begun, next_batch, waves_of


def threads(group):
    """Its threads, in a batch of one CTA."""
    return group.selection.positions.reshape(-1).tolist()


# ---- groups -------------------------------------------------------------------------------------


def test_the_lowest_runs_first(stage):
    """First by generation, then by place."""
    s = stage(96, body="mov.u32 r0, s; mov.u32 r1, s;")
    late, behind, first = s.group(0, generation=2), s.group(1), s.group(2)
    behind.at = 1
    for group in (late, behind, first):
        s.machine.push(group)

    assert [s.machine.take() for _ in range(3)] == [first, behind, late]


def test_groups_at_one_place_go_on_as_one(stage):
    """With the registers that each of them had."""
    s = stage(8, body="mov.u32 r1, r0;")
    low, high = s.group(*range(4)), s.group(*range(4, 8))
    index = s.launch.plan.main.blocks[0].instructions[0].operands[1].register.index
    for value, group in ((7, low), (9, high)):
        group.set(index, np.full(group.selection.shape, value, np.uint32))
        s.machine.push(group)
    elsewhere, above = s.group(0), s.group(1)
    elsewhere.at, above.local_base = 1, 16  # behind; over a stack of another size
    s.batch.runnable += [elsewhere, above]
    joined = s.machine.take()

    assert threads(joined) == list(range(8))
    assert np.broadcast_to(joined.read(index), joined.selection.shape).reshape(-1).tolist() == [7] * 4 + [9] * 4
    assert s.batch.runnable == [elsewhere, above]


def test_parked_groups_join(stage):
    """A group that waits for lanes is woken by those that come to its place, and by no others."""
    s = stage(32)
    first, second, other = s.group(*range(16)), s.group(*range(16, 32)), s.group(5)
    other.at = 1
    s.machine.park(first)
    s.machine.park(other)
    assert s.batch.runnable == []

    s.machine.park(second)
    assert [threads(g) for g in s.batch.runnable] == [list(range(32))]
    assert s.batch.parked == [other]


def test_one_group_for_each_warp(stage):
    """For debuggers: threads of three warps, the last of them short."""
    s = stage(72)
    parts = s.machine.by_warps(s.group())

    assert [threads(g) for g in parts] == [list(range(32)), list(range(32, 64)), list(range(64, 72))]
    assert [s.machine.number_of(g) for g in parts] == [(0, 0), (0, 1), (0, 2)]


# ---- sleep --------------------------------------------------------------------------------------


def asleep(s, group, wakes=None, version=0):
    """A group that sleeps until a time, or until memory is no longer of this version."""
    group.wakes, group.seen = wakes, (SimpleNamespace(memory=(version, 0)),)
    s.batch.sleeping.append(group)
    return group


def test_time_leaps_to_the_first_sleeper(stage):
    """It alone wakes, and those that look at the same moment; time never goes back."""
    s = stage(96)
    early, same, late = (asleep(s, s.group(t), wakes) for t, wakes in ((0, 300), (1, 300), (2, 500)))
    s.launch.instructions = 40

    assert pass_time([s.machine])
    assert (s.launch.now, s.batch.runnable, s.batch.sleeping) == (300, [early, same], [late])
    s.launch.instructions = 1040
    assert pass_time([s.machine])
    assert (s.launch.now, s.batch.sleeping) == (1300, [])
    assert not pass_time([s.machine])


def test_sleepers_wake_when_memory_has_changed(stage):
    """Only those that have not seen what it holds now."""
    s = stage(96)
    s.launch.memory.version = 5
    knows, learns = asleep(s, s.group(0), version=5), asleep(s, s.group(1), version=4)
    wake(s.machine)

    assert (s.batch.runnable, s.batch.sleeping) == ([learns], [knows])


# ---- CTAs ---------------------------------------------------------------------------------------


def launch(grid, cluster=None, schedule=None, **settings):
    """A launch of blocks of 64 threads that has not begun."""
    device = warpsim.Device("sm_90a")
    text = module_head("sm_90a", "8.3") + ".visible .entry k() { .shared .b8 s[512]; ret; }"
    plan = warpsim.load(text).image(device).plan("k")
    options = Settings(cluster=cluster, **settings)
    return LaunchState(plan, grid, (64, 1, 1), b"", device.memory, device.spec, options, schedule=schedule)


def begin(state):
    """The CTAs of each batch, in the order in which they begin."""
    while not all_begun(state):
        batch, _ = next_batch(state)
        state.waves += 1
        yield batch.ctas.tolist()


@pytest.mark.parametrize("most", [1, 64, 200, 640, 1 << 17])
@pytest.mark.parametrize(
    ("grid", "cluster"),
    [((7, 1, 1), None), ((5, 4, 3), None), ((8, 3, 1), (4, 1, 1)), ((4, 6, 2), (2, 2, 1)), ((2, 2, 4), (1, 1, 2))],
)
def test_every_cta_begins_once(grid, cluster, most):
    """In batches of no more threads than asked for, if a cluster fits; no cluster is cut."""
    state = launch(grid, cluster, batch_threads=most)
    batches, size = list(begin(state)), np.prod(cluster or (1, 1, 1))

    def cluster_of(cta):
        x, y, z = cta % grid[0], cta // grid[0] % grid[1], cta // (grid[0] * grid[1])
        return tuple(c // n for c, n in zip((x, y, z), cluster or (1, 1, 1), strict=True))

    assert sorted(cta for batch in batches for cta in batch) == list(range(np.prod(grid)))
    assert len(batches) == waves_of(launch(grid, cluster, batch_threads=most))
    for batch in batches:
        together = [cluster_of(cta) for cta in batch]
        assert all(together.count(c) == size for c in together)
        if cluster is None:
            assert len(batch) * 64 <= max(most, 64)


def test_a_part_of_a_launch():
    """Ends before the batch of a number."""
    state = launch((6, 1, 1), batch_threads=64)
    state.last_wave = 2

    assert list(begin(state)) == [[0], [1]]


# ---- orders of a seed ---------------------------------------------------------------------------


def drawn(schedule):
    """What a schedule chooses next."""
    return [schedule.quantum() for _ in range(5)], schedule.some(20).tolist(), [schedule.wave(k, 6) for k in range(6)]


def test_a_seed_is_an_order():
    """The same seed and the same place in its stream give the same choices, in a copy, too; seeds differ."""
    first, again = Schedule.of(3), Schedule.of(3)
    assert drawn(first) == drawn(again)
    copied = copy.deepcopy(first)
    assert drawn(first) == drawn(copied)
    assert len({repr(drawn(Schedule.of(seed))) for seed in range(20)}) == 20


@pytest.mark.parametrize("seed", range(8))
def test_choices_are_in_range(seed):
    """Numbers below a limit, quanta of one instruction at least, subsets, and each batch once."""
    schedule = Schedule.of(seed)

    assert {schedule.below(3) for _ in range(200)} == {0, 1, 2}
    assert all(1 <= schedule.quantum() <= (2 * schedule.grain if schedule.grain != ENDLESS else ENDLESS) for _ in range(50))  # fmt: skip
    some = schedule.some(30)
    assert sorted(set(some.tolist())) == some.tolist()
    assert set(some.tolist()) <= set(range(30))
    assert sorted(schedule.wave(k, 9) for k in range(9)) == list(range(9))
    assert not any(schedule.chance(0.0) for _ in range(50))
    assert all(schedule.chance(1.0) for _ in range(50))


@pytest.mark.parametrize("seed", range(12))
def test_cut_and_joined(stage, seed):
    """However an order picks, cuts and joins groups, each thread stays in exactly one; warps stay whole unless it parts lanes."""
    s, schedule = stage(128), Schedule.of(seed)
    s.machine.push(s.group())
    for _ in range(40):
        group = take_shuffled(s.machine, schedule)
        groups = [group, *s.batch.runnable]
        assert sorted(t for g in groups for t in threads(g)) == list(range(128))
        assert schedule.lanes or all(len(threads(g)) % 32 == 0 for g in groups)
        s.machine.push(group)


class Order(warpsim.Watcher):
    """The warps and CTAs of each step."""

    def __init__(self):
        self.seen = []

    def step_before(self, machine, group, instruction):
        """A step."""
        self.seen.append((instruction.text, *machine.number_of(group), group.selection.n))


STEPS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) { .reg .b32 t, u, v; .reg .b64 o, a; .reg .pred p; ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 a, t, 4; add.u64 o, o, a;
mov.u32 u, 0; L: add.u32 u, u, 1; ld.global.u32 v, [o]; add.u32 v, v, u; st.global.u32 [o], v; setp.lt.u32 p, u, 6; @p bra L; ret; }
"""


def test_orders_of_seeds():
    """Seeds give different orders: of groups, of their sizes, and of how long each runs; one seed gives one order, and all the same sums."""
    kernel, orders = warpsim.load(STEPS)["k"], []
    for seed in (*range(12), 3):
        order, out = Order(), np.zeros(96, np.uint32)
        kernel(1, 96, (out,), schedule=seed, watchers=[order])
        assert out.tolist() == [21] * 96
        orders.append(order.seen)

    assert orders[3] == orders[-1]
    assert len({tuple(o) for o in orders}) > 6
    assert len({tuple(n for *_, n in o) for o in orders}) > 4
    turns = [sum(a[1:] != b[1:] for a, b in itertools.pairwise(o)) for o in orders]
    assert max(turns) > 20
    assert min(turns) <= 5
