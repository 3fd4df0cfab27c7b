"""The port of mbarrier objects alone: words in shared memory, changed by lanes one after the other."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.layout import mbarriers
from warpsim.machine.asynchrony.mbarrier_objects import MbarrierObjects
from warpsim.machine.memory.addresses import Address, Extent
from warpsim.machine.values import Affine
from warpsim.machine.watcher import ATOMIC, READ, Watcher

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
FIRST, SECOND = (Address(Affine.constant(at, U32)) for at in (0, 8))


def port(s, *threads, active=None, **place):
    """The port of some threads."""
    return MbarrierObjects(s.machine, s.group(*threads, **place), active)


def words(s, at=0):
    """The words at a place in each CTA."""
    return s.batch.shared.gather(np.array([at]), np.arange(s.batch.shape.n_ctas), U64)


def counts(s, at=0):
    """(pending arrivals, phase) of each CTA."""
    return list(zip(mbarriers.pending(words(s, at)).tolist(), mbarriers.phase(words(s, at)).tolist(), strict=True))


def one(n):
    """An operand that all lanes share."""
    return np.array([n], U32)


def test_initialised_in_every_cta(stage):
    """Each CTA has an object of its own; its neighbour in memory stays as it was."""
    s = stage(32, 2)
    port(s, 0).init("shared", FIRST, one(5))

    assert counts(s) == [(5, 0), (5, 0)]
    assert words(s, 8).tolist() == [0, 0]


@pytest.mark.parametrize("expected", [2, 3, 7, 32, 33])
def test_lanes_arrive_one_after_the_other(stage, expected):
    """32 lanes at one object: phases end as often as the count goes into 32, and each lane saw what the ones before left."""
    s = stage(32)
    port(s, 0).init("shared", FIRST, one(expected))
    before = port(s).update("shared", FIRST, mbarriers.arrive, one(1), arrivals=True).reshape(-1).view(U64)

    assert counts(s) == [(expected - 32 % expected, 32 // expected % 2)]
    assert mbarriers.pending(before).tolist() == [expected - lane % expected for lane in range(32)]
    assert mbarriers.phase(before).tolist() == [lane // expected % 2 for lane in range(32)]


def test_lanes_that_take_no_part(stage):
    """Only active lanes arrive, each with a count of its own, each at the object of its address."""
    s = stage(32)
    lanes = np.arange(32, dtype=U32).reshape(1, 32, 1, 1)
    for address in (FIRST, SECOND):
        port(s, 0).init("shared", address, one(1000))
    where = Address(lanes % 2 * 8)
    port(s, active=lanes < 10).update("shared", where, mbarriers.arrive, lanes + 1, returns=False, arrivals=True)

    assert counts(s, 0) == [(1000 - (1 + 3 + 5 + 7 + 9), 0)]
    assert counts(s, 8) == [(1000 - (2 + 4 + 6 + 8 + 10), 0)]


def test_looking(stage):
    """A thread that waits sees the word of its CTA; it has passed when the phase of its parity is over."""
    s = stage(32, 2)
    port(s, 0).init("shared", FIRST, one(1))
    port(s, 0, cta=1).update("shared", FIRST, mbarriers.arrive, one(1))
    seen = port(s, 5).look("shared", FIRST, one(0)).reshape(-1)

    assert mbarriers.has_passed_parity(seen, np.array([0])).tolist() == [False, True]


def test_bytes_of_memory_again(stage):
    """An object that is given up is zeros."""
    s = stage(32)
    port(s, 0).init("shared", FIRST, one(3))
    port(s, 0).invalidate("shared", FIRST)

    assert words(s).tolist() == [0]


class Told(Watcher):
    """Keeps what it is told of mbarriers."""

    def __init__(self):
        self.heard = []

    def mbarrier_initialised(self, machine, group, columns, places, count, active):
        """Where, and how many arrivals are expected."""
        self.heard.append(("initialised", columns.tolist(), places.tolist(), np.unique(count).tolist()))

    def mbarrier_arrived(self, machine, group, lanes, columns, places, phases):
        """Who, and where."""
        self.heard.append(("arrived", lanes.tolist(), places.tolist(), phases.tolist()))


class Accesses(Watcher):
    """Keeps what it is told of accesses."""

    def __init__(self):
        self.heard = []

    def memory_accessed(self, machine, group, access):
        """How, and where."""
        self.heard.append((access.kind, access.space, access.place, access.nbytes, access.columns.reshape(-1).tolist()))

    def variable_left(self, machine, group, within, place, nbytes, left):
        """Which variable, and who."""
        self.heard.append((within.name, np.unique(place).tolist(), nbytes, int(np.count_nonzero(left))))


def test_one_thread_of_each_cta(stage):
    """A thread of each CTA at one place: one access is told, and loops that wait look again only where something has changed."""
    told = Accesses()
    s = stage(32, 2, watcher=told)
    port(s, 0).init("shared", SECOND, one(2))
    told.heard.clear()
    version = s.launch.memory.version
    before = port(s, 3).update("shared", SECOND, mbarriers.arrive, one(1))
    assert (mbarriers.pending(before).tolist(), before.shape) == ([[[[2, 2]]]], (1, 1, 1, 2))
    assert s.launch.memory.version == version + 1
    assert counts(s, 8) == [(1, 0), (1, 0)]
    port(s, 3).update("shared", SECOND, mbarriers.expect, one(0))
    assert s.launch.memory.version == version + 1
    assert port(s, 3).look("shared", SECOND, one(0)).tolist() == [[[words(s, 8).tolist()]]]
    assert told.heard == [(kind, "shared", 8, 8, [0, 1]) for kind in (ATOMIC, ATOMIC, READ)]


@pytest.mark.parametrize("use", ["update", "look"])
@pytest.mark.parametrize(("at", "rule"), [(4, "misaligned"), (1 << 20, "out-of-bounds")])
def test_no_place_of_an_object(stage, at, rule, use):
    """What holds for other accesses of 8 bytes holds for one thread's, too."""
    given = {"update": (mbarriers.arrive, one(1)), "look": (one(0),)}
    with pytest.raises(warpsim.ExecutionError) as caught:
        getattr(port(stage(32, 2), 3), use)("shared", Address(Affine.constant(at, U32)), *given[use])

    assert [found.rule for found in caught.value.findings] == [rule]


def test_one_thread_of_some_ctas(stage):
    """Objects of CTAs whose thread takes no part stay as they are."""
    s = stage(32, 2)
    port(s, 0).init("shared", FIRST, one(2))
    port(s, 3, active=np.array([False, True]).reshape(1, 1, 1, 2)).update("shared", FIRST, mbarriers.arrive, one(1))
    assert counts(s) == [(2, 0), (1, 0)]


def test_one_operand_and_objects_that_differ(stage):
    """The objects of CTAs may be in different states where their threads give the same operand."""
    s = stage(32, 3)
    port(s, 0).init("shared", FIRST, one(2))
    s.batch.shared.words[:2, 1] = mbarriers.initial(one(3)).view(U32)
    port(s, 3).update("shared", FIRST, mbarriers.expect, np.full((1, 1, 1, 1), 16, U32))
    assert mbarriers.pending(words(s)).tolist() == [2, 3, 2]
    assert mbarriers.tx_count(words(s)).tolist() == [16] * 3


def test_at_another_variable(stage):
    """An address made from the variable before the object's."""
    told = Accesses()
    s = stage(32, watcher=told)
    port(s, 0).init("shared", SECOND, one(2))
    told.heard.clear()
    beyond = Address(Affine.constant(0, U32), 8, within=Extent("shared", 0, 8, "other"))
    port(s, 3).update("shared", beyond, mbarriers.arrive, one(1))
    port(s, 3).look("shared", beyond, one(0))
    assert [heard for heard in told.heard if heard[0] == "other"] == [("other", [8], 8, 1)] * 2


def test_told_once(stage):
    """The hooks are called once per event, with the lanes that take part."""
    told = Told()
    s = stage(32, watcher=told)
    thread = np.arange(32, dtype=U32).reshape(1, 32, 1, 1)
    port(s, active=thread == 3).init("shared", SECOND, one(2))
    port(s, active=thread > 29).update("shared", SECOND, mbarriers.arrive, one(1))

    assert told.heard == [("initialised", [0], [8], [2]), ("arrived", [30, 31], [8, 8], [0, 0])]


@pytest.mark.parametrize(
    "line",
    [
        "mbarrier.init.shared.b64 [b], -1;",
        "mbarrier.init.shared.b64 [b], 1048576;",
        "mbarrier.arrive.shared.b64 s, [b], 1048576;",
        "mov.u32 r, 0; mbarrier.arrive.shared.b64 s, [b], r;",
        "mov.u32 r, 2097153; mbarrier.arrive.shared::cluster.b64 _, [b], r;",
    ],
)
def test_counts_that_no_object_has(line):
    """ptxas takes most of them; the launch is stopped there."""
    text = """.version 8.6 .target sm_90a .address_size 64
.visible .entry k() { .reg .b64 s; .reg .b32 r; .shared .align 8 .b64 b; mbarrier.init.shared.b64 [b], 1;
LINE
ret; }"""
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.load(text.replace("LINE", line))["k"]((1,), (1,), ())

    assert [(f.rule, f.line) for f in caught.value.findings] == [("mbarrier", 3)]


def test_the_largest_count():
    """An object can expect 1,048,575 arrivals, and they can come at once."""
    text = (
        module_head("sm_90a", "8.6")
        + """.visible .entry k() { .reg .b64 s; .reg .pred p; .shared .align 8 .b64 b;
    mbarrier.init.shared.b64 [b], 1048575; mbarrier.arrive.shared.b64 s, [b], 1048575;
    mbarrier.test_wait.shared.b64 p, [b], s; @!p trap; ret; }"""
    )

    assert warpsim.load(text)["k"]((1,), (1,), ()).findings == ()
