"""Events that other tests do not come to: who is woken, what is written where lanes meet or return, progress and time."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.machine import engine
from warpsim.machine.watcher import Watcher

HEAD = module_head("sm_90")


def kernel(body, functions=""):
    """A kernel k; ``t`` is the thread's number, ``o`` the address of its word."""
    return warpsim.load(f"""{HEAD}{functions}.visible .entry k(.param .u64 out) {{ .reg .b32 t, u, v, w, b; .reg .b64 o, a, x; .reg .pred p, q;
.shared .b32 s[64]; ld.param.u64 o, [out]; mov.u32 t, %tid.x; mul.wide.u32 a, t, 4; add.u64 x, o, a; mov.u32 v, 0;
{body}
ret; }}
""")["k"]


class Log(Watcher):
    """Words for what happens, with the numbers of threads."""

    def __init__(self):
        self.seen = []
        self.waiting = 0

    def threads(self, group):
        """(CTA, thread) of a group."""
        selection = group.selection
        return {
            (int(c), int(t)) for c, t in zip(selection.ctas.reshape(-1), selection.threads.reshape(-1), strict=True)
        }

    def group_parked(self, machine, group):
        """Some wait."""
        self.seen.append(("parked", self.threads(group)))

    def group_woken(self, machine, group):
        """Some wait no longer."""
        self.seen.append(("woken", self.threads(group)))

    def of(self, word):
        """All threads to which it has happened, each as often as it has."""
        return sorted(thread for name, threads in self.seen if name == word for thread in threads)


LATER = "setp.lt.u32 p, t, 8; @p bra L; mov.u32 u, 0; C: add.u32 u, u, 1; setp.lt.u32 q, u, 5; @q bra C; {one} bra D; L: {one} D: st.global.u32 [x], t;"


@pytest.mark.parametrize(
    "one",
    [
        "bar.warp.sync -1;",
        "shfl.sync.idx.b32 v, t, 3, 31, -1;",
        "vote.sync.ballot.b32 v, p, -1;",
        "bar.sync 0;",
        "barrier.sync.aligned 0;",
        "bar.sync 1, 64;",
    ],
)
@pytest.mark.parametrize("threads", [32, 64])
def test_who_waits_is_woken(one, threads):
    """Threads that wait for others of their warps are told of as woken, once for each time that they waited."""
    log, out = Log(), np.zeros(64, np.uint32)
    body = LATER.format(one=one.replace("64", str(threads)))
    kernel(body)(2, threads, (out,), watchers=[log], checks="none")

    assert log.of("parked") or "bar.sync" in one or "aligned" in one
    assert log.of("parked") == log.of("woken")
    assert out[:threads].tolist() == list(range(threads))


def test_threads_that_end_wake_others():
    """Lanes that wait for lanes which end are woken."""
    log, out = Log(), np.zeros(64, np.uint32)
    kernel("setp.lt.u32 p, t, 8; @!p bra L; mov.u32 u, 0; C: add.u32 u, u, 1; setp.lt.u32 q, u, 5; @q bra C; exit; L: bar.warp.sync -1; st.global.u32 [x], t;")(1, 32, (out,), watchers=[log])  # fmt: skip

    assert log.of("woken") == log.of("parked")
    assert out[8:32].tolist() == list(range(8, 32))


class Written(Watcher):
    """Registers that are read and written, by name and instruction."""

    def __init__(self):
        self.read, self.wrote = [], []

    def names(self, group, registers):
        """Their names."""
        return sorted(group.plan.function.registers[r].name for r in registers)

    def registers_read(self, machine, group, registers):
        """Some are read."""
        self.read.append((group.instruction.text, self.names(group, registers)))

    def registers_written(self, machine, group, registers):
        """Some are written."""
        self.wrote.append((self.names(group, registers), group.selection.n))


def test_registers_that_a_call_writes():
    """A call writes its results in the caller, behind the return; one without results writes nothing."""
    functions = """.func (.reg .b32 r) one(.reg .b32 n) { add.u32 r, n, 1; ret; }
.func none(.reg .b32 n) { ret; }
.func (.param .b32 r) memory(.param .b32 n) { .reg .b32 m; ld.param.u32 m, [n]; st.param.b32 [r], m; ret; }
"""
    watcher = Written()
    kernel("call (v), one, (t); call none, (v); call (w), memory, (v);", functions)(1, 32, (np.zeros(1, np.uint32),), watchers=[watcher])  # fmt: skip

    assert [w for w in watcher.wrote if w[0] in (["v"], ["w"], ["r"], ["m"], [])] == [
        (["v"], 32), (["r"], 32), (["v"], 32), (["m"], 32), (["w"], 32)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "instruction",
    ["shfl.sync.idx.b32 v, t, 3, 31, -1;", "shfl.sync.idx.b32 v|p, t, 3, 31, -1;", "redux.sync.add.u32 v, t, -1;"],
)
def test_registers_written_where_lanes_meet(instruction):
    """Lanes that come to one instruction at two places write its results in each, in their own lanes."""
    watcher = Written()
    kernel(f"setp.lt.u32 p, t, 8; @p bra L; {instruction} bra D; L: {instruction} D: st.global.u32 [x], v;")(
        1, 32, (np.zeros(32, np.uint32),), watchers=[watcher]
    )
    names = ["p", "v"] if "|p" in instruction else ["v"]

    assert sorted(n for written, n in watcher.wrote if written == names) == [8, 24] + [32] * (names == ["v"])


class Touched(Watcher):
    """Accesses of global memory by array, of two arrays."""

    def __init__(self):
        self.seen = []

    def memory_accessed(self, machine, group, access):
        """Lanes access memory."""
        if access.allocation is None:
            return
        active = np.broadcast_to(True if access.active is None else access.active, group.selection.shape)
        places = np.broadcast_to(access.places, group.selection.shape)[active] - access.allocation.start
        self.seen.append(
            (access.allocation.data.size, access.kind if hasattr(access, "kind") else None, sorted(places.tolist()))
        )


@pytest.mark.parametrize(
    "access",
    ["atom.global.add.u32 v, [a], 1;", "red.global.add.u32 [a], 1;", "ld.global.u32 v, [a];", "st.global.u32 [a], t;"],
)
@pytest.mark.parametrize("guard", ["", "setp.ne.u32 q, t, 5; @q "])
def test_lanes_that_access_two_arrays(access, guard):
    """Each array's watcher hears of the lanes that come to it, and of no others; every access happens once."""
    text = f"""{HEAD}.visible .entry k(.param .u64 one, .param .u64 two) {{ .reg .b32 t, u, v; .reg .b64 a, b, w; .reg .pred p, q; ld.param.u64 a, [one]; ld.param.u64 b, [two];
mov.u32 t, %tid.x; mul.lo.u32 u, t, 12; mul.wide.u32 w, t, 4; and.b32 u, t, 1; setp.eq.u32 p, u, 1; @p mov.u64 a, b; add.u64 a, a, w; {guard}{access} ret; }}
"""
    one, two, watcher = np.zeros(32, np.uint32), np.zeros(48, np.uint32), Touched()
    warpsim.load(text)["k"](1, 32, (one, two), watchers=[watcher], checks="none")
    lanes = [t for t in range(32) if not guard or t != 5]
    expected = {128: [4 * t for t in lanes if not t & 1], 192: [4 * t for t in lanes if t & 1]}

    assert {size: places for size, _, places in watcher.seen} == expected
    assert len(watcher.seen) == 2
    for array, odd in ((one, 0), (two, 1)):
        wanted = [0] * len(array)
        for t in lanes:
            if t & 1 == odd and "ld" not in access:
                wanted[t] = t if "st" in access else 1
        assert array.tolist() == wanted


class Clock:
    """A clock that goes on with every look, by a number of seconds."""

    def __init__(self, step=1.0):
        self.now, self.step = 0.0, step

    def monotonic(self):
        """What it shows."""
        self.now += self.step
        return self.now


LOOP = "mov.u32 u, 0; C: add.u32 u, u, 1; ld.global.u32 w, [x]; setp.lt.u32 q, u, 20; @q bra C; st.global.u32 [x], u;"


def test_progress_by_the_clock(monkeypatch):
    """After two seconds, then every half: warp-instructions so far, CTAs that have ended, and all of them."""
    said = []
    monkeypatch.setattr(engine, "time", Clock())
    result = kernel(LOOP)(
        3, 32, (np.zeros(32, np.uint32),), progress=lambda *n: said.append(n), batch_threads=32, engine="interpreter"
    )

    assert len(said) > 30
    assert {all_ for _, _, all_ in said} == {3}
    assert [n for n, _, _ in said] == sorted(n for n, _, _ in said)
    assert [ctas for _, ctas, _ in said] == sorted(ctas for _, ctas, _ in said)
    assert {ctas for _, ctas, _ in said} == {0, 1, 2}
    assert said[-1][0] <= result.instructions


def test_no_progress_is_said_within_two_seconds():
    """Short launches say nothing; long ones without a listener nothing either."""
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "time", Clock(0.001))
        kernel(LOOP)(3, 32, (np.zeros(32, np.uint32),), progress=lambda *n: said.append(n))

        assert said == []
        patch.setattr(engine, "time", Clock())
        assert kernel(LOOP)(3, 32, (np.zeros(32, np.uint32),)).instructions


@pytest.mark.parametrize(("limit", "ends"), [(5, True), (1000, False), (None, False)])
def test_the_limit_of_time(monkeypatch, limit, ends):
    """A launch that takes longer than it may ends with the place where it stands."""
    monkeypatch.setattr(engine, "time", Clock())
    k, out = kernel(LOOP), np.zeros(32, np.uint32)
    if ends:
        with pytest.raises(warpsim.ExecutionError, match=f"the launch has taken more than {limit} seconds"):
            k(3, 32, (out,), max_seconds=limit, engine="interpreter")
    else:
        k(3, 32, (out,), max_seconds=limit, engine="interpreter")
        assert out.tolist() == [20] * 32


class Ends(Watcher):
    """Ends of batches and launches."""

    def __init__(self):
        self.seen = []

    def batch_ended(self, machine):
        """A batch."""
        self.seen.append(("batch", len(machine.batch.ctas)))

    def launch_ended(self, launch):
        """The launch."""
        self.seen.append(("launch", launch.done_ctas))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "barrier.cluster.arrive; barrier.cluster.wait;",
        "bar.sync 0;",
        "barrier.cluster.arrive;",
        "bar.arrive 1, 64;",
    ],
)
def test_every_batch_ends(body):
    """Whatever barriers it used, and whether or not anybody waited there."""
    watcher = Ends()
    kernel(body)(
        4, 32, (np.zeros(32, np.uint32),), watchers=[watcher], cluster=(2, 1, 1), batch_threads=64, checks="none"
    )

    assert watcher.seen == [("batch", 2), ("batch", 2), ("launch", 4)]


class Stores(Watcher):
    """Hears of stores when they are done, and of nothing else."""

    def __init__(self):
        self.seen = []

    def memory_written(self, machine, group):
        """A store is done."""
        self.seen.append(group.instruction.text)


def test_stores_that_are_done():
    """One word for each store, of whichever memory; atomics and loads are none."""
    watcher = Stores()
    kernel(".local .b32 l; st.global.u32 [x], t; st.shared.u32 [s], t; mov.u32 u, s; shl.b32 w, t, 2; add.u32 u, u, w; st.shared.u32 [u], t; st.local.u32 [l], t; ld.shared.u32 v, [s]; atom.shared.add.u32 v, [s], 1; st.u32 [x], v;")(1, 32, (np.zeros(32, np.uint32),), watchers=[watcher], checks="none")  # fmt: skip

    assert watcher.seen == ["st.global.u32", "st.shared.u32", "st.shared.u32", "st.local.u32", "st.u32"]


@pytest.mark.parametrize("checks", ["race", "default-aligned-divergence", "none"])
def test_parts_of_a_warp_at_an_aligned_barrier(checks):
    """Where that rule is not asked for, they arrive in parts, as on a GPU, and nobody is told."""
    out = np.zeros(64, np.uint32)
    found = kernel(LATER.format(one="bar.sync 0;"))(1, 64, (out,), checks=checks).findings

    assert found == ()
    assert out.tolist() == list(range(64))
