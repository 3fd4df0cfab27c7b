"""What the compiled engine decides: what a region that gave up may do no longer, when code pays, where it lies, how values come in."""

import ctypes
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from warpsim import cache
from warpsim.isa.traits import Matrix
from warpsim.machine.selection import Rect, Shape
from warpsim.machine.values import Affine
from warpsim.native import compiling
from warpsim.native.regions.options import Options, Outcome
from warpsim.native.runtime.calls import FAR, _block_limit
from warpsim.native.runtime.extents import conflicts
from warpsim.native.runtime.inputs import InputKind, describe, input_kind, layout_of, row_of
from warpsim.native.tiering import cost as costs
from warpsim.native.tiering import eligibility as serving
from warpsim.native.tiering.cost import Policy, account_of_product
from warpsim.native.tiering.eligibility import _serves
from warpsim.native.tiering.engine import CompiledEngine
from warpsim.native.tiering.entry_points import WAITING, Budget, EntryPoint, Profile
from warpsim.native.tiering.products import Bodies

EVERYTHING = Options(alone=False, barriers=True)
DIVERGED, CONFLICT, REFUSED, WRAPPED, OVER_BUDGET = (
    Outcome[n] for n in ("DIVERGED", "CONFLICT", "REFUSED", "WRAPPED", "OVER_BUDGET")
)


@pytest.mark.parametrize(
    ("outcomes", "options"),
    [
        ([], EVERYTHING),
        ([OVER_BUDGET] * 9, EVERYTHING),
        ([WRAPPED], EVERYTHING._replace(strides=False)),
        ([CONFLICT], EVERYTHING._replace(barriers=False)),
        ([CONFLICT] * 2, EVERYTHING._replace(barriers=False, stores=False)),
        ([CONFLICT] * 3, None),
        ([DIVERGED] * 2, EVERYTHING),
        ([DIVERGED] * 3, EVERYTHING._replace(collectives=False)),
        ([DIVERGED] * 6, EVERYTHING._replace(collectives=False, stores=False)),
        ([DIVERGED] * 9, None),
        ([REFUSED] * 3, EVERYTHING._replace(stores=False)),
        ([REFUSED] * 5, EVERYTHING._replace(stores=False)),
        ([REFUSED] * 6, None),
        ([DIVERGED, REFUSED, DIVERGED], EVERYTHING._replace(collectives=False)),
        ([DIVERGED, DIVERGED, WRAPPED, OVER_BUDGET, DIVERGED], EVERYTHING._replace(strides=False, collectives=False)),
        ([DIVERGED, DIVERGED, CONFLICT, DIVERGED, DIVERGED], EVERYTHING._replace(barriers=False)),
    ],
)
def test_what_a_unit_may_do_no_longer(outcomes, options):
    """A conflict counts at once, others the third time; then it loses barriers, collectives or stores, and at last the place is left
    to the interpreter (None)."""
    entry = EntryPoint(EVERYTHING)
    entry.region, entry.formed = object(), True
    for outcome in outcomes:
        if not entry.formed:
            entry.region, entry.formed = object(), True
        entry.codes["a"], entry.by_layout["a"], entry.ready = object(), object(), True
        before = entry.options
        entry.restrict(outcome)
        if entry.options != before:
            assert (entry.codes, entry.by_layout, entry.ready) == ({}, {}, False)
            assert entry.formed == (outcome is WRAPPED)
        else:
            assert entry.codes
    if options is None:
        assert (entry.region, entry.formed) == (None, True)
    else:
        assert entry.options == options
        assert entry.region is not None or not entry.formed


def test_what_a_session_runs_one_by_one_counts():
    """Also where there is code: it may be that of other arguments, and that of these is compiled once it pays."""
    entry, account = EntryPoint(EVERYTHING), costs.Account()
    entry.ready, entry.kept = True, False
    engine = SimpleNamespace(
        runs_steps=True,
        holds=SimpleNamespace(accesses=True),
        policy=Policy.AUTO,
        profile=lambda _: SimpleNamespace(account=account),
        _entry=lambda *_: entry,
        _begin=None,
    )
    assert CompiledEngine.serves(engine, SimpleNamespace(plan=SimpleNamespace(main=None)), 0.5)
    assert (account.interpreted, account.launches) == (0.5, 2)


def test_what_has_given_up_is_compiled_later():
    """Each option that was dropped leaves a quarter of the time for other code of the place."""
    account, entry = costs.Account(), EntryPoint(EVERYTHING)
    account.interpreted = 1.0
    profile = SimpleNamespace(account=account, estimate=lambda _: 2.0)
    assert Profile.allows(profile, entry, 8.0)
    entry.restrict(CONFLICT)
    assert Profile.allows(profile, entry, 8.0)
    entry.restrict(CONFLICT)
    assert not Profile.allows(profile, entry, 8.0)
    account.interpreted = 4.0
    assert Profile.allows(profile, entry, 8.0)


@pytest.mark.parametrize("spent", [[2.0] * 7 + [1.0], [1.0] + [9.0] * 7])
def test_a_unit_on_trial(spent):
    """One that was as fast as the interpreter in any of eight runs stays."""
    entry = EntryPoint(EVERYTHING)
    for seconds in spent:
        assert entry.trials
        entry.record_trial(seconds, 1.0)
    assert (entry.trials, entry.next_check) == (0, 0)


def test_a_unit_that_loses():
    """One that never was is tried again, ever more seldom: the first warps of a kernel may have little to do."""
    entry = EntryPoint(EVERYTHING)
    rests = []
    for trials in (8, 1, 1):
        for _ in range(trials):
            assert entry.trials
            entry.record_trial(2.0, 1.0)
        rests.append(entry.next_check - entry.visits)
        entry.visits = entry.next_check
    assert rests == [32, 64, 128]
    entry.record_trial(1.0, 1.0)
    assert (entry.trials, entry.next_check) == (0, entry.visits)


def test_what_is_put():
    """Code makes a place ready, and looked at; that there can be none does not."""
    entry = EntryPoint(EVERYTHING)
    entry.next_check = 5
    entry.put("a", None)
    assert (entry.ready, entry.next_check, entry.codes) == (False, 0, {"a": None})
    entry.put("b", code := SimpleNamespace(products=False))
    entry.put("c", None)
    assert (entry.ready, entry.codes) == (True, {"a": None, "b": code, "c": None})
    assert entry.trials
    entry.put("d", SimpleNamespace(products=True))
    assert not entry.trials


@pytest.mark.parametrize(
    ("through", "threads", "waves"),
    [
        (None, 64, 1),
        ((10.0, 4.0), 64, 1 << 14),
        ((0.0, 0.0), 1 << 20, 1),
        ((0.0, 0.0), 1 << 22, 1),
        ((1000.0, 0.0), 1000, 100),
        ((10.0, 1024.0), 1 << 10, 16),
    ],
)
def test_joined_waves(through, threads, waves):
    """At most 2^20 threads, 10^8 thread-instructions and 2^24 bytes of stores in one batch."""
    entry = EntryPoint(EVERYTHING)
    entry.through = through
    assert entry.waves(threads) == 1
    entry.trials = 0
    assert entry.waves(threads) == waves
    entry.stopped = 2
    assert entry.waves(threads) == waves
    entry.stopped = 3
    assert entry.waves(threads) == 1


def test_what_compiling_costs(monkeypatch):
    """By the lines that were measured; the import of LLVM counts once, and lines that lie on disk do not."""
    rate = costs.Rate()
    assert rate.of(4000) == pytest.approx(0.6)
    rate.record(4000, 1.4)
    assert rate.of(400) == pytest.approx(0.1)
    monkeypatch.setattr(costs, "rate", lambda: rate)
    monkeypatch.setitem(costs.sys.modules, "llvmlite", costs)
    assert costs.cost(100, kept=True) == pytest.approx(0.05 + 0.1)
    assert costs.cost(100, kept=False) == pytest.approx(0.05 + 0.1 + 1.0)
    monkeypatch.delitem(costs.sys.modules, "llvmlite")
    assert costs.cost(100, kept=True) == pytest.approx(0.12 + 0.05 + 0.1)


def test_tiering_of_an_engine(monkeypatch):
    """Engine ``compiled`` asks for code, and waits for it where the environment says so; ``auto`` takes a share of the time."""
    monkeypatch.delenv("WARPSIM_COMPILE", raising=False)
    assert [costs.policy_of(e) for e in ("auto", "compiled")] == [Policy.AUTO, Policy.ASKED]
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    assert [costs.policy_of(e) for e in ("auto", "compiled")] == [Policy.AUTO, Policy.AT_ONCE]


def test_what_is_worth_compiling_later():
    """What may pay for later launches; other code that was asked for is forgotten."""
    account, entries = Budget(Policy.ASKED), [EntryPoint(EVERYTHING) for _ in range(4)]
    plans = [
        SimpleNamespace(allows=lambda entry, share, good=good: good and share == costs.QUEUED_SHARE)
        for good in (True, False)
    ]
    from warpsim.native.tiering.entry_points import Request

    requests = [Request(plans[k % 2], k, entry, None if k > 1 else "v") for k, entry in enumerate(entries)]
    for request in requests:
        request.entry.codes["v"] = WAITING
        account.ask(request)
        account.ask(request._replace(now=True))
    assert account.worth() == [requests[0], requests[2]]
    assert [entry.codes for entry in entries] == [{"v": WAITING}, {}, {"v": WAITING}, {"v": WAITING}]


# ---- an engine that comes later --------------------------------------------------------------------


@pytest.fixture(params=[1, 4])
def clock(monkeypatch, request):
    """Seconds of the clock, and of the thread, on the machine that the constants are for; the tests' own is as fast, or slow."""
    now, slow = SimpleNamespace(clock=100.0, thread=10.0), request.param
    for module in (costs, serving):
        monkeypatch.setattr(module, "slowness", lambda: slow)
    monkeypatch.setattr(serving.time, "perf_counter", lambda: slow * now.clock)
    monkeypatch.setattr(serving.time, "thread_time", lambda: slow * now.thread)
    taken = costs.Interpreted()
    monkeypatch.setattr(serving, "interpreted", lambda: taken)
    now.interpreted = taken
    return now


BODIES = SimpleNamespace(over=lambda: None)


class Engine:
    """Notes what it is asked for."""

    def __init__(self):
        self.asked = []
        self.compiling = 1.5

    def __getattr__(self, name):
        return lambda *given: self.asked.append((name, given)) or name


def test_an_engine_is_made_when_launches_have_taken_a_while(clock):
    """By the thread's own time, for which it asks no sooner than the clock allows; what earlier launches took counts."""
    made = []
    clock.interpreted.launches = 0.02
    engine = serving.DeferredEngine(lambda: made.append(Engine()) or made[-1], BODIES, runs_steps=True)
    assert engine.runs_steps
    assert (engine.advance(1, 2, 3), engine.joined(4), engine.until("group", 9), engine.compiling) == (False, 1, 9, 0.0)
    assert engine.reason(5) is None
    clock.clock += 0.029
    clock.thread += 0.029
    assert (engine.advance(1, 2, 3), made) == (False, [])
    clock.clock += 0.002
    clock.thread -= 0.009  # others had the processor: 0.02 seconds so far
    assert (engine.advance(1, 2, 3), made) == (False, [])
    clock.clock += 0.009
    clock.thread += 5
    assert (engine.advance(1, 2, 3), made) == (False, [])  # not asked yet
    clock.clock += 0.002
    assert engine.advance(1, 2, 3) == "advance"
    assert len(made) == 1
    assert (engine.joined(4), engine.until("group", 9), engine.run_through(6, 7)) == ("joined", "until", "run_through")
    assert (engine.compiling, engine.reason(5)) == (1.5, "reason")
    engine.over()
    assert [name for name, _ in made[0].asked] == ["advance", "joined", "until", "run_through", "reason", "over"]
    assert made[0].asked[0][1] == (1, 2, 3, None)
    assert clock.interpreted.launches == 0.02


@pytest.mark.parametrize(
    ("policy", "begins"),
    [(Policy.AUTO, [None, 0, 0]), (Policy.ASKED, [2, 0, 0]), (Policy.AT_ONCE, [0, 0, 0])],
)
def test_when_products_of_matrices_import_their_code(monkeypatch, tmp_path, policy, begins):
    """Not in a first launch, which it would only hold up; after .02 seconds of products in a later one, or after 8; at once in a
    later process, where the first one took so long."""
    matrices = SimpleNamespace(of=lambda instruction: lambda: "code", over=lambda: None)
    monkeypatch.setattr("warpsim.native.matrix.instructions.Matrices", lambda policy: matrices)
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    taken = itertools.count()
    monkeypatch.setattr(costs, "spent", lambda: 0.015 * next(taken))

    def launch(text="a product", compiles=True):
        bodies = Bodies(policy, lambda: compiles)
        product, other = (
            SimpleNamespace(
                op=SimpleNamespace(text=text),
                traits=SimpleNamespace(matrix=matrix),
                form=SimpleNamespace(function=lambda: "body"),
            )
            for matrix in (Matrix.MULTIPLY, None)
        )
        found = [bodies.of(product)() for _ in range(4)]
        assert bodies.of(other)() == "body"
        bodies.over()
        return found.index("code") if "code" in found else None

    costs.account_of.cache_clear()
    found = [launch(), launch()]
    costs.account_of.cache_clear()  # a later process
    assert [*found, launch()] == begins
    costs.account_of.cache_clear()
    assert launch(compiles=False) is None
    account_of_product("a long one").interpreted = 8.0
    assert launch("a long one") == 0


def test_where_there_is_no_engine(clock):
    """Nobody asks a second time; and the time of a launch without one is noted."""
    asked = []
    engine = serving.DeferredEngine(lambda: asked.append(1), BODIES, runs_steps=True)
    clock.clock += 1
    clock.thread += 1
    for _ in range(3):
        assert not engine.advance(1, 2, 3)
        clock.clock += 100
    assert asked == [1]
    engine.over()
    assert clock.interpreted.launches == pytest.approx(1.0)
    assert clock.interpreted.enough
    assert not costs.Interpreted().enough


# ---- objects on disk -------------------------------------------------------------------------------


def test_objects_and_notes(monkeypatch, tmp_path):
    """Are there once they are kept; without a folder nothing is, and a folder that has gone is no fault."""
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    assert (cache.has_object("k"), cache.has_note("k"), cache.read_object("k")) == (False, False, None)
    cache.write_object("k", b"body")
    assert (cache.has_object("k"), cache.has_note("k"), cache.read_object("k")) == (True, False, b"body")
    cache.note("k")
    assert cache.has_note("k")
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path / "gone")
    cache.write_object("k", b"body")
    cache.note("k")
    assert (cache.has_object("k"), cache.has_note("k"), cache.read_object("k")) == (False, False, None)
    monkeypatch.setattr(cache, "cache_folder", lambda: None)
    cache.write_object("k", b"body")
    cache.note("k")
    assert (cache.has_object("k"), cache.has_note("k"), cache.read_object("k")) == (False, False, None)


# ---- how values come in ----------------------------------------------------------------------------


def affine(s1, s0, c1=0, c0=0):
    """A value by strides."""
    return Affine(5, (s1, s0, c1, c0), (4, 8, 4, 2), np.dtype(np.uint32))


HOW = [
    (7, 32, InputKind("uniform")),
    (affine(0, 0), 32, InputKind("uniform")),
    (affine(4, 1), 32, InputKind("affine", (1, 0))),
    (affine(4, 1), 8, InputKind("affine", (1, 4))),
    (affine(65, 64), 8, InputKind("affine", (64, None))),
    (affine(-64, -65), 8, InputKind("affine", (None, -64))),
    (affine(4, 1), 0, InputKind("varying")),
    (affine(4, 0), 0, InputKind("varying")),
    (affine(0, 1), 0, InputKind("varying")),
    (affine(0, 0, 3), 0, InputKind("affine", (0, 0))),
    (np.zeros((1, 1, 1, 1), np.uint32), 32, InputKind("uniform")),
    (np.zeros(1, np.uint32), 32, InputKind("uniform")),
    (np.zeros((1, 1, 3, 2), np.uint32), 32, InputKind("per_cta")),
    (np.zeros((1, 4, 3, 2), np.uint32), 32, InputKind("varying")),
    (np.zeros((4, 1, 3, 2), np.uint32), 32, InputKind("varying")),
    (np.zeros(6, np.uint32), 32, InputKind("varying")),
]
"""A value, how many lanes lie in a row, and how it comes in."""


@pytest.mark.parametrize("number", range(len(HOW)))
def test_how_values_come_in(number):
    """One for all, one for each CTA, by strides (those up to 64 as part of the code), or as lanes; what looks alike comes in alike."""
    value, row, expected = HOW[number]
    assert input_kind(value, row) == expected
    other = value + 1 if type(value) is int else value
    assert layout_of([other]) == layout_of([value])


@pytest.mark.parametrize(
    ("extents", "axes", "row"),
    [
        ((1, 64, 1, 3), None, 32),
        ((8, 32, 1, 3), None, 32),
        ((8, 64, 1, 3), None, 32),
        ((16, 8, 1, 3), None, 8),
        ((32, 1, 1, 1), None, 1),
        ((8, 24, 1, 1), None, 0),
        ((4, 8, 1, 1), None, 8),
        ((1, 20, 1, 1), None, 32),
        ((3, 20, 1, 1), None, 0),
    ],
)
def test_rows_of_lanes(extents, axes, row):
    """Lanes of a warp lie in rows where a row of threads is a warp's or a part of it that divides 32."""
    shape = Shape(*extents)
    whole = Rect(shape, tuple((0, 1, n) for n in extents))
    assert row_of(whole) == row
    assert row_of(object()) == 0


def test_descriptors():
    """What a descriptor says of an array is the element of each thread; numbers and strides stand in it as they are."""
    n1, n0, m1, m0 = shape = (2, 3, 4, 5)
    base = np.arange(n1 * n0 * m1 * m0, dtype=np.uint32).reshape(shape)
    arrays = [
        base,
        base.transpose(1, 0, 2, 3).copy().transpose(1, 0, 2, 3),
        np.ascontiguousarray(base.transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1),
        np.zeros((m1, m0, n1, n0 + 1), np.uint32)[..., :n0].transpose(2, 3, 0, 1),
        base[:1],
        base[:, :1],
        base[:, :, :1, :1],
        base[1:, 2:, 3:, 4:],
    ]
    words = [0] * 6 * (len(arrays) + 5)
    values = [
        *arrays,
        5,
        (1 << 64) - 3,
        Affine(7, (3, 2, 1, -4), shape, np.dtype(np.uint32)),
        Affine(-9, (0, 0, 0, 0), shape, np.dtype(np.int32)),
        base,
    ]
    describe(words, values, ["varying"] * len(arrays) + ["uniform"] * 5, shape)
    for k, array in enumerate(arrays):
        address, *strides, kind = words[6 * k : 6 * k + 6]
        s1, s0, c1, c0 = strides
        whole = np.broadcast_to(array, shape)
        for t1, t0, b1, b0 in np.ndindex(shape):
            place = address + t1 * s1 + t0 * s0 + b1 * c1 + b0 * c0
            assert ctypes.c_uint32.from_address(place).value == whole[t1, t0, b1, b0]
        in_a_row = s0 == 4 and s1 == 4 * n0
        assert kind == (1 if in_a_row else 2)
    last = words[6 * len(arrays) :]
    assert last[:6] == [5, 0, 0, 0, 0, 0]
    assert last[6:12] == [-3, 0, 0, 0, 0, 0]
    assert last[12:18] == [7, 3, 2, 1, -4, 0]
    assert last[18:24] == [-9, 0, 0, 0, 0, 0]
    assert last[24:30] == [0, 0, 0, 0, 0, 0]
    flat = np.arange(6, dtype=np.uint32)
    words = [0] * 12
    describe(words, [flat, flat[2:3]], ["varying"] * 2, (6,))
    assert words == [flat.ctypes.data, 0, 4, 0, 0, 2, flat[2:].ctypes.data, 0, 0, 0, 0, 2]


@pytest.mark.parametrize(
    ("limit", "key", "stack", "block", "expected"),
    [
        (None, (3,), [], 3, FAR),
        ((5, (3,)), (3,), [], 3, FAR),  # of a later generation
        ((4, (7,)), (3,), [], 3, 7),
        ((4, (2,)), (3,), [], 3, 4),
        ((4, (3,)), (3,), [], 3, 4),
        ((4, (2, 9, 1)), (2, 9, 5), [1, 2], 5, 6),
        ((4, (2, 9, 8)), (2, 9, 5), [1, 2], 5, 8),
        ((4, (2, 8, 8)), (2, 9, 5), [1, 2], 5, 0),
        ((4, (3, 8, 8)), (2, 9, 5), [1, 2], 5, FAR),
        ((4, (2, 9)), (2, 9, 5), [1, 2], 5, 0),
        ((4, (3,)), (2, 9, 5), [1, 2], 5, FAR),
    ],
)
def test_how_far_a_group_may_go(limit, key, stack, block, expected):
    """Up to the block of those who wait in the same calls; not at all where these stand before, as far as it likes behind."""
    group = SimpleNamespace(generation=4, stack=stack, key=key, block=block)
    assert _block_limit(group, limit) == expected


# ---- whether anybody may have seen an order ---------------------------------------------------------


def effect(kind, space="global", commutes=""):
    """An access."""
    return SimpleNamespace(kind=kind, space=space, commutes=commutes)


def seen(effects, ranges, starts, distinct, once=None, warps=True):
    """Whether the order may have been seen; ``starts`` are the warps at which CTAs begin."""
    tables = SimpleNamespace(cta_starts=np.array(starts))
    ranges = np.array(ranges, np.int64)
    return conflicts(effects, once or [False] * len(effects), ranges, tables, lambda low, high: distinct, warps=warps)


NOWHERE = [1 << 60, 0]
ORDERS = {
    "loads": ([effect("load")], [[[0, 9]], [[0, 9]]], False),
    "stores apart": ([effect("store")], [[[0, 4]], [[4, 8]]], False),
    "stores that overlap": ([effect("store")], [[[0, 5]], [[4, 8]]], True),
    "stores apart, in any order": ([effect("store")], [[[8, 12]], [[0, 4]], [[4, 8]]], False),
    "one within another": ([effect("store")], [[[0, 90]], [[80, 84]], [[40, 44]]], True),
    "a store and a load apart": ([effect("store"), effect("load")], [[[0, 4], [8, 12]], [[4, 8], [12, 16]]], False),
    "a load of what another has stored": ([effect("store"), effect("load")], [[[0, 4], [8, 12]], [[8, 12], [16, 20]]], True),
    "a load of what it has stored itself": ([effect("store"), effect("load")], [[[0, 4], [0, 4]], [[4, 8], [4, 8]]], False),
    "a warp that does nothing": ([effect("store")], [[[0, 4]], [NOWHERE], [[4, 8]]], False),
    "sums": ([effect("atomic", commutes="add")], [[[0, 4]], [[0, 4]]], False),
    "sums and the greatest": ([effect("atomic", commutes="add"), effect("atomic", commutes="max")], [[[0, 4]] * 2] * 2, True),
    "sums and loads": ([effect("atomic", commutes="add"), effect("load")], [[[0, 4]] * 2] * 2, True),
    "exchanges": ([effect("atomic")], [[[0, 4]], [[0, 4]]], True),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_orders_of_warps(name, space):
    """Seen where one may have stored what another has looked at or stored; atomics that commute leave the same."""
    effects, ranges, expected = ORDERS[name]
    effects = [SimpleNamespace(**{**vars(e), "space": space}) for e in effects]
    assert seen(effects, ranges, [0], distinct=False) is expected
    assert seen(effects, ranges, [0], distinct=False, warps=False) is (expected and space != "shared")


def test_orders_within_a_cta():
    """Warps of different CTAs do not meet in shared memory; those of one do."""
    stores = [effect("store", "shared")]
    ranges = [[[0, 4]], [[4, 8]], [[0, 4]], [[4, 8]]]
    assert not seen(stores, ranges, [0, 2], distinct=False)
    assert seen(stores, ranges, [0], distinct=False)
    assert seen(stores, ranges, [0, 3], distinct=False)
    assert not seen(stores, ranges, [0, 1, 2, 3], distinct=False)


def test_orders_of_single_bytes():
    """Stores to global memory whose extents overlap leave the same if no byte was stored twice; in shared memory nobody looks, nor
    where something else takes part. Of one store that each warp does once, the last lane's value stays in any case."""
    overlap = [[[0, 100]], [[4, 108]]]
    assert not seen([effect("store")], overlap, [0], distinct=True)
    assert seen([effect("store", "shared")], overlap, [0], distinct=True)
    assert seen([effect("store"), effect("load")], [[r[0], r[0]] for r in overlap], [0], distinct=True)
    assert not seen([effect("store")], overlap, [0], distinct=False, once=[True])
    assert seen(
        [effect("store"), effect("store")], [[r[0], r[0]] for r in overlap], [0], distinct=False, once=[True, True]
    )
    asked = []
    tables = SimpleNamespace(cta_starts=np.array([0]))
    ranges = np.array([[[8, 50]], [[40, 90]], [NOWHERE]], np.int64)
    conflicts([effect("store")], [False], ranges, tables, lambda *given: asked.append(given), warps=True)
    assert asked == [(8, 90)]


@pytest.mark.parametrize(
    ("event", "served"),
    [
        (None, (True, True, True, True)),
        ("launch_ended", (True, True, True, True)),
        ("step_after", (False, True, True, True)),
        ("registers_written", (False, True, True, True)),
        ("wgmma_registers_accessed", (False, True, True, True)),
        ("memory_accessed", (True, True, True, False)),
        ("memory_written", (True, True, True, False)),
        ("rows_accessed", (True, True, True, False)),
        ("fence", (True, True, True, False)),
        ("collective_reached", (True, False, True, True)),
        ("warp_synchronised", (True, False, True, True)),
        ("barrier_left", (True, True, False, True)),
        ("barrier_completed", (True, True, False, True)),
    ],
)
def test_what_is_served_beside_a_watcher(event, served):
    """Regions need that nobody follows steps; collectives, barriers and accesses in them that nobody hears of these."""
    taken = () if event is None else (event, "launch_began")
    steps, held = _serves(((taken, frozenset()),))
    assert (steps, *held) == served
    assert _serves(((taken, frozenset(taken)),)) == (True, (True, True, True))  # compiled code handles them


def test_products_of_matrices_that_pay(monkeypatch, tmp_path):
    """What lies on disk serves at once. A first launch compiles in a tenth of its time, later ones behind it, and engine ``compiled``
    behind its first, too."""
    from warpsim.native.matrix import codes as matrices

    made, submitted, sought = [], [], []
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(matrices, "kept_function", lambda what: sought.append(what) or ("kept" in what) or None)
    monkeypatch.setattr(matrices, "compiled_function", lambda what, text, name: made.append(what) or text)
    monkeypatch.setattr(matrices, "function_at", lambda address: address)
    monkeypatch.setattr(matrices, "compile_queue", lambda: SimpleNamespace(submit=submitted.append))
    monkeypatch.setattr(matrices, "share_of", lambda launches: [None, 0.04, 8.0][launches])
    codes = matrices.Codes()

    costs.account_of.cache_clear()

    def of(text, policy):
        return codes.of((text, 90), lambda name: f"define @{name}({text})", policy)

    assert of("a", Policy.AT_ONCE).startswith("define @matrix_")
    assert of("a", Policy.AUTO) is codes.functions["a", 90]
    assert len(made) == 1
    assert of("kept", Policy.AUTO) is True
    assert [of("b", Policy.AUTO) for _ in range(2)] == [None, None]
    assert sought == [f"product {(text, 90)}" for text in ("a", "kept", "b")]  # each once
    account_of_product("b").interpreted = 8.0
    assert of("b", Policy.AUTO)
    assert (len(made), codes.wanted.keys()) == (2, {("b", 90)})
    codes.wanted.clear()

    account_of_product("c").interpreted = 0.05
    for count in (0, 1):
        account_of_product("c").launches += 1
        assert of("c", Policy.AUTO) is None
        codes.over(Policy.AUTO)
        assert len(submitted) == count
    account_of_product("d").interpreted = 0.005
    assert of("d", Policy.ASKED) is None
    codes.over(Policy.ASKED)
    assert len(submitted) == 1
    account_of_product("d").interpreted = 0.007  # 50 seconds for each
    assert of("d", Policy.ASKED) is None
    codes.over(Policy.ASKED)
    assert (len(submitted), len(made)) == (2, 2)
    submitted[0]()
    assert of("c", Policy.AUTO) is codes.functions["c", 90]
    assert len(made) == 3

    plans = []
    assert [codes.planned("g", lambda: plans.append(1)) for _ in range(2)] == [None, None]
    assert plans == [1]


def test_a_product_that_fails(monkeypatch, tmp_path):
    """Is told of once, and not asked for again."""
    from warpsim.native.matrix import codes as matrices

    told, submitted = [], []
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(matrices, "tell", lambda: told.append(1))
    monkeypatch.setattr(matrices, "compile_queue", lambda: SimpleNamespace(submit=submitted.append))
    codes = matrices.Codes()
    costs.account_of.cache_clear()
    account_of_product("a").interpreted = 1.0

    def fails(name):
        raise MemoryError

    for _ in range(3):
        assert codes.of(("a", 90), fails, Policy.ASKED) is None
        codes.over(Policy.ASKED)
        while submitted:
            submitted.pop()()
    assert told == [1]


def test_a_product_that_another_launch_asks_for_meanwhile(monkeypatch):
    """When a launch is over, one of another thread may look for a product in vain, and has it made when it is over."""
    from warpsim.native.matrix import codes as matrices

    codes = matrices.Codes()
    monkeypatch.setattr(matrices, "compile_queue", lambda: SimpleNamespace(submit=lambda _: None))
    monkeypatch.setattr(matrices, "share_of", lambda launches: codes.wanted.update({("b", 90): str}) or 0.0)
    codes.wanted["a", 90] = str
    codes.over(Policy.AUTO)

    assert codes.wanted.keys() == {("b", 90)}


def test_without_a_compiler(monkeypatch):
    """Where the extra is not installed, the interpreter runs the launch alone."""
    monkeypatch.setattr(compiling, "available", lambda: False)
    taken = costs.Interpreted()
    monkeypatch.setattr(serving, "interpreted", lambda: taken)
    monkeypatch.setattr(serving, "on_disk", lambda plan: False)
    state = SimpleNamespace(settings=SimpleNamespace(by_warp=False), schedule=None, plan=None)
    assert serving.compiled_for("interpreter", (), state) is None
    assert not taken.enough
    later_on = serving.compiled_for("auto", (), state)
    assert (type(later_on), later_on.runs_steps) == (serving.DeferredEngine, True)
    assert serving.compiled_for("compiled", (), state) is None
    assert taken.enough
    assert serving.compiled_for("auto", (), state) is None


def test_units_need_the_usual_order(monkeypatch):
    """In the order of a seed, only products are compiled."""
    monkeypatch.setattr(serving, "interpreted", costs.Interpreted)
    monkeypatch.setattr(serving, "on_disk", lambda plan: False)
    for schedule, units in ((None, True), (3, False)):
        state = SimpleNamespace(schedule=schedule, plan=None)
        assert serving.compiled_for("auto", (), state).runs_steps == units
