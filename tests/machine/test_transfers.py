"""Copies in flight alone: when they act, what completes them, and what else they leave as it is."""

import copy

import numpy as np
import pytest

from warpsim.layout import mbarriers
from warpsim.machine.asynchrony import transfers
from warpsim.machine.asynchrony.copies import AsyncGroups, BulkCopies
from warpsim.machine.asynchrony.mbarrier_objects import MbarrierObjects
from warpsim.machine.memory.addresses import Address
from warpsim.machine.state.schedule import Schedule
from warpsim.machine.state.transfers import BoxLoad, Footprint, Receivers, RunLoad
from warpsim.machine.values import Affine

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
BAR = 128
"""Where the mbarrier lies, behind 128 bytes for data."""


class Copies:
    """Copies between an array of the caller and shared memory, by threads of one warp."""

    def __init__(self, stage, effects):
        self.stage = stage(32, shared=256, async_effects=effects)
        self.source, self.target = np.arange(100, 164, dtype=U32), np.zeros(64, U32)
        memory = self.stage.device.memory
        self.read_from, self.write_to = (memory.map(a.view(np.uint8), name="a", read_only=False) for a in (self.source, self.target))  # fmt: skip

    def port(self, kind, *threads):
        """A port of some threads."""
        return kind(self.stage.machine, self.stage.group(*threads), None)

    def shared(self, first=0, count=4):
        """Words of shared memory."""
        return self.stage.batch.shared.words[first : first + count, 0].tolist()

    def put(self, first, values):
        """Words into shared memory."""
        self.stage.batch.shared.words[first : first + len(values), 0] = values

    def thread_copy(self, thread, word):
        """``cp.async`` of 16 bytes by one thread, from word to word."""
        at = [Affine.constant(v, t) for v, t in ((4 * word, U32), (self.read_from + 4 * word, U64))]
        self.port(AsyncGroups, thread).copy(Address(at[0]), Address(at[1]), 16, None)

    def load(self, word, count=4):
        """A bulk load that counts at the mbarrier."""
        nbytes = np.array([4 * count], U32)
        self.port(BulkCopies, 0).copy(
            ("shared", Address(Affine.constant(4 * word, U32))),
            ("global", Address(Affine.constant(self.read_from + 4 * word, U64))),
            nbytes,
            Address(Affine.constant(BAR, U32)),
        )

    def store(self, word):
        """A bulk store of 16 bytes."""
        self.port(BulkCopies, 0).copy(
            ("global", Address(Affine.constant(self.write_to + 4 * word, U64))),
            ("shared", Address(Affine.constant(4 * word, U32))),
            np.array([16], U32),
        )

    def barrier(self, arrivals, nbytes):
        """The mbarrier, which expects so much."""
        port, bar = self.port(MbarrierObjects, 0), Address(Affine.constant(BAR, U32))
        port.init("shared", bar, np.array([arrivals + 1], U32))
        port.update("shared", bar, mbarriers.expect, np.array([nbytes], U32))
        port.update("shared", bar, mbarriers.arrive, np.array([1], U32), arrivals=True)

    def passed(self):
        """Whether a thread that looks finds phase 0 over."""
        word = self.port(MbarrierObjects, 7).look("shared", Address(Affine.constant(BAR, U32)), np.array([0], U32))
        return bool(mbarriers.has_passed_parity(word, np.array([0])).all())


@pytest.fixture
def late(stage):
    """Copies that act as late as they may."""
    return Copies(stage, "at_wait")


@pytest.fixture
def eager(stage):
    """Copies that act at once."""
    return Copies(stage, "eager")


def test_eager_copies(eager):
    """They act at once, and are not kept where nobody watches."""
    eager.thread_copy(0, 0)
    eager.barrier(0, 16)
    eager.load(4)

    assert eager.shared(0, 8) == list(range(100, 108))
    assert eager.stage.batch.transfers.open == []
    assert eager.passed()


def test_groups_complete_in_order(late):
    """A wait for all but the newest group completes the older ones; another thread's wait none of this thread's."""
    for word in (0, 4, 8):
        late.thread_copy(3, word)
        late.port(AsyncGroups, 3).commit()
    late.port(AsyncGroups, 5).wait(0)
    assert late.shared(0, 12) == [0] * 12

    late.port(AsyncGroups, 3).wait(1)
    assert late.shared(0, 12) == [*range(100, 108), 0, 0, 0, 0]
    late.port(AsyncGroups, 3).wait(0)
    assert late.shared(0, 12) == list(range(100, 112))


def test_copies_outside_of_groups(late):
    """A wait for groups leaves a copy that was never committed; a wait for all does not."""
    late.thread_copy(3, 0)
    late.port(AsyncGroups, 3).wait(0)
    assert late.shared() == [0] * 4

    late.port(AsyncGroups, 3).wait(0, everything=True)
    assert late.shared() == [100, 101, 102, 103]


def test_what_is_read_is_read_late(late):
    """A late load reads its source when it acts; a late store likewise."""
    late.put(0, [1, 2, 3, 4])
    late.store(0)
    late.port(BulkCopies, 0).commit()
    late.put(0, [9, 9, 9, 9])
    late.port(BulkCopies, 0).wait(0, read_only=False)

    assert late.target[:4].tolist() == [9, 9, 9, 9]


def test_sources_are_free_before_stores_are_done(late):
    """Behind a wait that only frees the sources these may change; what was read is written later."""
    late.put(0, [1, 2, 3, 4])
    late.store(0)
    late.port(BulkCopies, 0).commit()
    late.port(BulkCopies, 0).wait(0, read_only=True)
    late.put(0, [9, 9, 9, 9])
    assert late.target[:4].tolist() == [0, 0, 0, 0]

    late.port(BulkCopies, 0).wait(0, read_only=False)
    assert late.target[:4].tolist() == [1, 2, 3, 4]


def test_a_look_completes_what_the_phase_lacks(late):
    """Two loads of which the phase expects the bytes of both: the look lets them act, and counts them."""
    late.barrier(0, 32)
    late.load(0)
    late.load(8)
    assert late.shared(0, 12) == [0] * 12

    assert late.passed()
    assert late.shared(0, 12) == [100, 101, 102, 103, 0, 0, 0, 0, 108, 109, 110, 111]
    assert late.stage.batch.transfers.open == []


@pytest.mark.parametrize(("arrivals", "nbytes"), [(1, 16), (0, 20), (0, 36)])
def test_a_look_completes_nothing_where_more_is_missing(late, arrivals, nbytes):
    """An arrival or bytes of a copy that has not begun: the copies that are there stay in flight."""
    late.barrier(arrivals, nbytes)
    late.load(0)

    assert not late.passed()
    assert late.shared() == [0] * 4


def test_arrivals_follow_the_copies_of_their_thread(late):
    """An mbarrier that a thread's copies arrive at: the look lets these act, and another thread's not."""
    late.barrier(1, 0)
    late.thread_copy(3, 0)
    late.thread_copy(4, 8)
    late.port(AsyncGroups, 3).arrive(np.array([0]), np.array([BAR]))

    assert late.passed()
    assert late.shared(0, 12) == [100, 101, 102, 103, *[0] * 8]


def test_any_moment(late):
    """In a random order copies act before anybody looks, each at most once, and the bytes count once."""
    late.barrier(0, 64)
    for word in (0, 4, 8, 12):
        late.load(word)
    schedule = Schedule.of(1)
    for _ in range(50):
        transfers.land(late.stage.machine, schedule)

    assert late.shared(0, 16) == list(range(100, 116))
    assert counted(late) == (0, 1)
    late.put(0, [5])
    assert late.passed()
    assert late.shared(0, 1) == [5]


@pytest.mark.parametrize("seed", [0, 1, 5, 6, 7])  # orders in which not all act at once
def test_arrivals_behind_copies_at_any_moment(late, seed):
    """In a random order, too, an arrival that follows a thread's copies counts only when these have acted; other threads' copies,
    and those that it began later, may be later.
    """
    late.barrier(2, 0)
    for thread in (3, 4):
        late.thread_copy(thread, 4 * (thread - 3))
        late.port(AsyncGroups, thread).arrive(np.array([0]), np.array([BAR]))
        late.thread_copy(thread, 4 * (thread - 1))
    schedule, moments = Schedule.of(seed), set()
    for _ in range(60):
        transfers.land(late.stage.machine, schedule)
        word = late.stage.batch.shared.gather(np.array([BAR]), np.array([0]), U64)
        arrived = 2 if int(mbarriers.phase(word)[0]) else 2 - int(mbarriers.pending(word)[0])
        done = [late.shared(4 * k) == list(range(100 + 4 * k, 104 + 4 * k)) for k in range(4)]
        assert arrived <= done[0] + done[1]
        moments.add((arrived, *done))

    assert moments >= {(2, True, True, True, True)}
    assert len(moments) > 1


def counted(copies):
    """Missing bytes and phase of the mbarrier."""
    word = copies.stage.batch.shared.gather(np.array([BAR]), np.array([0]), U64)
    return int(mbarriers.tx_count(word)[0]), int(mbarriers.phase(word)[0])


def test_the_end_of_a_batch(late):
    """Stores that nobody waited for are done when the batch ends; loads that nobody saw are forgotten."""
    late.put(0, [1, 2, 3, 4])
    late.store(0)
    late.barrier(0, 16)
    late.load(4)
    transfers.finish(late.stage.machine)

    assert late.target[:4].tolist() == [1, 2, 3, 4]
    assert late.shared(4) == [0] * 4
    assert late.stage.batch.transfers.open == []


def test_what_a_copy_does_is_shared():
    """Work that never changes is the same in a copy of a state, whose transfers change on their own."""
    to = Receivers(*[np.zeros(1, np.int64)] * 5)
    footprint = Footprint(np.zeros(1, np.int64), np.zeros(1, np.int64), 16)
    for work in (RunLoad(to, 16, np.zeros(1, np.int64), None, None, None), BoxLoad(None, to), footprint):
        assert copy.deepcopy(work) is work
