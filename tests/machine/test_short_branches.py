"""Short branches that some threads take alone: run in the turn of all, against groups that part, which a watcher asks for."""

import pickle
from unittest import mock

import numpy as np
import pytest

import warpsim
from warpsim.debug import Session
from warpsim.machine import waiting
from warpsim.machine.aside import Aside
from warpsim.machine.machine import Machine
from warpsim.machine.state.batch import BatchState
from warpsim.machine.values import as_array

HEAD = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<6>; .shared .align 8 .b8 s[512]; .shared .align 8 .b64 bar;
ld.param.u64 %rd1, [p]; mov.u32 %r0, %tid.x; mov.u32 %r8, %ctaid.x; mov.u32 %r7, s;
shl.b32 %r1, %r0, 2; add.u32 %r2, %r7, %r1; mul.wide.u32 %rd2, %r8, 16; add.u64 %rd2, %rd1, %rd2;
"""
FILL = "st.shared.u32 [%r2], %r0; bar.sync 0;"
LEADER = "setp.ne.u32 %p1, %r0, 0; @%p1 bra E;"
BODIES = {
    "store": f"{FILL} mad.lo.u32 %r3, %r0, 3, 5; {LEADER} add.u32 %r4, %r3, %r1; st.global.u32 [%rd2], %r4; E: st.shared.u32 [%r2], %r3;",
    "some": f"{FILL} xor.b32 %r3, %r0, 21; setp.ge.u32 %p1, %r0, 20; @%p1 bra E; ld.shared.u32 %r4, [%r2]; add.u32 %r4, %r4, %r3; "
    "st.shared.u32 [%r2+256], %r4; E: add.u32 %r3, %r3, 1; st.shared.u32 [%r2], %r3;",
    "one CTA": f"{FILL} setp.ne.u32 %p1, %r8, 1; @%p1 bra E; st.shared.u32 [%r2], %r1; E: bar.sync 0;",
    "guarded": f"{FILL} mov.u32 %r4, %r1; setp.lt.u32 %p2, %r0, 9; {LEADER} @!%p2 mov.u32 %r4, 7; st.global.u32 [%rd2], %r4; E: bar.sync 0;",
    "mbarrier": f"setp.ne.u32 %p1, %r0, 0; @%p1 bra I; mbarrier.init.shared.b64 [bar], 2; I: bar.sync 0; {LEADER} "
    "mbarrier.arrive.shared.b64 _, [bar]; E: setp.ne.u32 %p1, %r0, 33; @%p1 bra F; mbarrier.arrive.shared.b64 _, [bar]; F: bar.sync 0;"
    "W: mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;",
    "loop": f"{FILL} mov.u32 %r5, 0; mov.u32 %r3, %r0; L: add.u32 %r3, %r3, %r5; {LEADER} add.u32 %r4, %r5, %r3; st.global.u32 [%rd2], %r4; "
    "E: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5; bar.sync 0; @%p2 bra L;",
    # two warps take turns by how often each has looped
    "turns": f"{FILL} mov.u32 %r3, 0; mov.u32 %r5, 0; setp.ge.u32 %p1, %r0, 32; @%p1 bra M; L: atom.shared.add.u32 %r4, [s], 1; "
    f"mad.lo.u32 %r3, %r3, 31, %r4; {LEADER} st.shared.u32 [s+300], %r3; E: bar.sync 1, 32; add.u32 %r5, %r5, 1; "
    "setp.lt.u32 %p2, %r5, 7; @%p2 bra L; bra N; M: atom.shared.add.u32 %r4, [s], 1; mad.lo.u32 %r3, %r3, 31, %r4; bar.sync 2, 32; "
    "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5; @%p2 bra M; N: setp.eq.u32 %p3, %r0, 32; @%p3 st.global.u32 [%rd2], %r3; bar.sync 0;",
    "polls": f"{FILL} mov.u32 %r5, 0; setp.ge.u32 %p1, %r0, 32; @%p1 bra M; L: ld.volatile.shared.u32 %r4, [s+4]; "
    f"{LEADER} st.shared.u32 [s+300], %r5; E: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 7; @%p2 bra L; setp.eq.u32 %p2, %r4, 3; "
    "@%p2 bra L; atom.shared.add.u32 %r3, [s], 1; bra N; M: atom.shared.add.u32 %r3, [s], 1; add.u32 %r5, %r5, 1; "
    "setp.lt.u32 %p2, %r5, 30; @%p2 bra M; N: setp.eq.u32 %p3, %r0, 0; @%p3 st.global.u32 [%rd2], %r3; bar.sync 0;",
    "race": f"{LEADER} st.shared.u32 [%r7+64], %r8; E: ld.shared.u32 %r3, [%r7+64]; st.global.u32 [%rd2], %r3;",
    # of the leaders of three CTAs the last two are beyond the array: the first one's store is seen
    "beyond": f"{FILL} mad.lo.u32 %r3, %r8, 3, 5; mul.wide.u32 %rd3, %r8, 4000; add.u64 %rd3, %rd1, %rd3; {LEADER} "
    "add.u32 %r3, %r3, 1; st.global.u32 [%rd3], %r3; E: bar.sync 0;",
    # an undefined value decides an address: what the launch copies of itself to find out holds the leader's place
    "undefined": f"bar.sync 0; {LEADER} ld.shared.u32 %r4, [s+8]; and.b32 %r4, %r4, 4; cvt.u64.u32 %rd3, %r4; add.u64 %rd3, %rd2, %rd3; "
    "st.global.u32 [%rd3], %r0; E: bar.sync 0; st.shared.u32 [%r2], %r1;",
    "undefined last": f"mad.lo.u32 %r3, %r0, 5, 1; bar.sync 0; {LEADER} ld.shared.u32 %r4, [s+8]; E: bar.sync 0; st.shared.u32 [%r2], %r3;",
    # ... and what it decides makes no difference
    "harmless": f"{FILL} {LEADER} ld.shared.u32 %r4, [s+384]; setp.eq.u32 %p2, %r4, 0; @%p2 st.shared.u32 [%r7], %r0; E: bar.sync 0;",
    # two parts of a warp are each told of at either barrier
    "parts": f"{FILL} setp.ge.u32 %p1, %r0, 32; @%p1 bra N; setp.ge.u32 %p1, %r0, 16; @%p1 bra M; bar.sync 1, 32; {LEADER} "
    "st.shared.u32 [s+100], %r0; E: bar.sync 2, 32; bra N; M: bar.sync 1, 32; bar.sync 2, 32; N: bar.sync 0;",
    "too many": f"L: {LEADER} mov.u32 %r4, 1; mov.u32 %r4, 2; mov.u32 %r4, 3; st.global.u32 [%rd2], %r4; E: bar.sync 0; bra L;",
}


APART = {
    "others between": """setp.ge.u32 %p1, %r0, 32; @%p1 bra M; setp.ne.u32 %p2, %r0, 0; @%p2 bra E; st.global.u32 [%rd2], %r1; bra E;
M: st.global.u32 [%rd2], %r0; E: add.u32 %r3, %r0, 2; bar.sync 0; st.shared.u32 [%r2], %r3;""",
    "kept register": f"{FILL} mov.u32 %r3, %r1; {LEADER} mov.u32 %r3, 77; E: st.shared.u32 [%r2], %r3; st.global.u32 [%rd2], %r3;",
    "undefined register": f"{FILL} ld.shared.u32 %r3, [%r2+256]; {LEADER} st.global.u32 [%rd2], %r3; E: bar.sync 0;",
    "barrier": f"{FILL} setp.ge.u32 %p1, %r0, 32; @%p1 bra E; bar.arrive 1, 96; E: bar.sync 0;",
    "nobody comes": f"{FILL} setp.ge.u32 %p1, %r0, 32; @%p1 bra E; bar.sync 1, 64; E: bar.sync 0;",
    "next lap": f"{FILL} mov.u32 %r5, 0; L: add.u32 %r5, %r5, 1; setp.gt.u32 %p2, %r5, 5; @%p2 bra X; {LEADER.replace('E', 'L')} "
    "add.u32 %r4, %r5, 7; st.global.u32 [%rd2], %r4; bra L; X: bar.sync 0;",
    "odd threads": f"{FILL} and.b32 %r4, %r0, 5; setp.ne.u32 %p1, %r4, 1; @%p1 bra E; add.u32 %r4, %r4, %r0; "
    "st.shared.u32 [%r2+256], %r4; E: bar.sync 0;",
    "among odd threads": f"{FILL} and.b32 %r4, %r0, 5; setp.ne.u32 %p1, %r4, 1; @%p1 bra E; setp.ne.u32 %p2, %r0, 9; @%p2 bra F; "
    "st.shared.u32 [%r2+256], %r0; F: add.u32 %r3, %r3, 1; E: bar.sync 0;",
    "others there": f"{FILL} setp.ge.u32 %p1, %r0, 32; @%p1 bra E; setp.ne.u32 %p2, %r0, 9; @%p2 bra E; "
    "st.shared.u32 [%r2+256], %r0; E: bar.sync 0;",
    "uniform": f"{FILL} {LEADER.replace('bra', 'bra.uni')} st.shared.u32 [%r2+256], %r0; E: bar.sync 0;",
    "first": f"{FILL} setp.ge.u32 %p1, %r0, 32; @%p1 bra M; bar.sync 1, 64; atom.shared.add.u32 %r3, [s], 1; st.global.u32 [%rd2], %r3;"
    "bra N; M: bar.sync 1, 64; atom.shared.add.u32 %r3, [s], 1; st.global.u32 [%rd2+4], %r3; N: bar.sync 0;",
    "else": f"{FILL} {LEADER.replace('E', 'M')} st.shared.u32 [s+100], %r1; bra E; M: st.global.u32 [%rd2], %r0; E: bar.sync 0;",
    "matrix": f"{FILL} setp.ge.u32 %p1, %r0, 32; @%p1 bra E; wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [%r7], "
    "{%r0, %r0, %r0, %r0}; E: bar.sync 0;",
    "guard": f"{FILL} setp.ge.u32 %p1, %r0, 32; @%p1 bra E; setp.ne.u32 %p2, %r0, 5; st.shared.u32 [%r2+256], %r0; @%p2 bra E; E: bar.sync 0;",
    "warp": f"{FILL} {LEADER} bar.warp.sync 0xffffffff; st.shared.u32 [%r2], %r1; E: bar.warp.sync 0xffffffff;",
}
"""Where threads part."""
END = "ld.shared.u32 %r9, [%r2]; mad.lo.u32 %r10, %r8, 64, %r0; mul.wide.u32 %rd4, %r10, 4; add.u64 %rd4, %rd4, %rd1; st.global.u32 [%rd4+512], %r9;"
"""Shows what shared memory holds."""


class Parts(warpsim.Watcher):
    """Follows groups, which then part."""

    def group_split(self, machine, group, parts):
        """Nothing."""


class End(warpsim.Watcher):
    """What a launch has come to."""

    def launch_ended(self, launch):
        """Keep it."""
        self.state = (
            {(b.function, b.index): n for b, n in launch.counts.items()},
            launch.thread_instructions,
            launch.groups,
        )


def outcome(body, checks, on_finding, most, *more):
    """What a launch leaves, counts and finds, or how it ends."""
    array, end = np.arange(128 + 3 * 64, dtype=np.uint32), End()
    kernel = warpsim.load(f"{HEAD} {body} {END} ret; }}")["k"]
    options = {"checks": checks, "on_finding": on_finding, "max_instructions": most, "engine": "interpreter"}
    try:
        result = kernel((3,), (64,), (array,), watchers=[end, *more], **options)
        found = [str(f) for f in result.findings], result.opcodes, end.state
    except warpsim.ExecutionError as problem:
        found = [str(problem), *(str(f) for f in problem.findings)]
    return array.tolist(), found


@pytest.mark.parametrize("checks", ["default", "all"])
@pytest.mark.parametrize("name", BODIES)
def test_they_come_to_the_same(name, checks, monkeypatch):
    """Bytes, counts, findings, and how many groups there were."""
    if name == "polls":  # a loop that reads without end is looked at sooner
        monkeypatch.setattr(waiting, "LOOK_EVERY", 64)
        monkeypatch.setattr(waiting, "PATIENCE", 4096)
    on_finding = "collect" if name in ("turns", "polls", "race", "undefined", "harmless", "parts") else "raise"
    taken, run = [], Aside._execute

    def counted(self, *arguments):
        taken.append(self)
        return run(self, *arguments)

    for most in range(150, 420, 21) if name == "too many" else [100_000]:
        with mock.patch.object(Aside, "_execute", counted):
            found = outcome(BODIES[name], checks, on_finding, most)
        assert taken
        assert found == outcome(BODIES[name], checks, on_finding, most, Parts())


def test_a_loop_after_it_has_changed_nothing(monkeypatch):
    """How much a long loop lets others run first depends on what has changed since the branch, not in it."""
    monkeypatch.setattr(waiting, "LOOK_EVERY", 4)
    monkeypatch.setattr(waiting, "PATIENCE", 16)
    body = (
        f"{FILL} mov.u32 %r5, 0; setp.ge.u32 %p1, %r0, 32; @%p1 bra M; {LEADER} st.shared.u32 [s+100], %r5; E: add.u32 %r5, %r5, 1; "
        "setp.lt.u32 %p2, %r5, 23; @%p2 bra E; bra N; M: ld.volatile.shared.u32 %r4, [s+4]; st.shared.u32 [s+200], %r5; "
        "add.u32 %r5, %r5, %r4; setp.lt.u32 %p2, %r5, 4; @%p2 bra M; "
        "N: atom.shared.add.u32 %r3, [s+8], 1; setp.eq.u32 %p3, %r0, 32; @%p3 st.global.u32 [%rd2], %r3; bar.sync 0;"
    )
    found = outcome(body, "none", "raise", None)
    assert found == outcome(body, "none", "raise", None, Parts())
    assert found[0][0] == 2, "the other warp comes first, whose loop has fewer laps"


@pytest.mark.parametrize("name", APART)
def test_others_part(name):
    """Where other threads come first, or wait, or what is read later changes, groups part and meet as ever."""
    with mock.patch.object(Aside, "_execute", side_effect=AssertionError):
        found = outcome(APART[name], "all", "collect", None)
    assert found == outcome(APART[name], "all", "collect", None, Parts())


CALLED = (
    """.version 8.3
.target sm_90a
.address_size 64
.func f(.reg .b64 %rd1, .reg .b32 %r0) { .reg .pred %p<3>;
setp.ge.u32 %p1, %r0, 32; @%p1 bra M; setp.ne.u32 %p2, %r0, 0; @%p2 bra E; st.global.u32 [%rd1], %r0; bra E;
M: st.global.u32 [%rd1+4], %r0; E: ret; }
.visible .entry k(.param .u64 p) { .reg .pred %p; .reg .b32 %r; .reg .b64 %rd; ld.param.u64 %rd, [p]; mov.u32 %r, %tid.x;
"""
    + "".join(f"setp.eq.u32 %p, %r, {1000 + n}; @%p bra E; " for n in range(9))
    + "call f, (%rd, %r); E: ret; }"
)


@pytest.mark.parametrize("how", ["followed", "in a random order", "debugged", "in a function"])
def test_groups_are_asked_for(how):
    """Whoever follows groups sees each of them, other orders run them one by one, and places in a function are below its call."""
    kernel = warpsim.load(CALLED if how == "in a function" else f"{HEAD} {BODIES['store']} {END} ret; }}")["k"]
    array = np.zeros(512, np.uint32)
    with mock.patch.object(Aside, "_execute", side_effect=AssertionError):
        if how == "debugged":
            session = Session(kernel, (3,), (64,), (array,))
            session.cont()
            assert session.error is None
        else:
            more = {"followed": {"watchers": [Parts()]}, "in a random order": {"schedule": 1}}.get(how, {})
            kernel((3,), (64,), (array,), engine="interpreter", **more)
    assert how == "in a function" or array[[0, 4, 8]].tolist() == [5, 5, 5]


def test_whoever_asks_sees_groups():
    """During an access by the leader, the others stand where the branch ends."""

    class Places(warpsim.Watcher):
        def __init__(self):
            self.seen = []

        def memory_accessed(self, machine, group, access):
            groups = sorted((g.selection.n, g.block, g.at) for g in machine.batch.groups())
            self.seen.append((group.selection.n, group.at, machine.launch.running is group, groups))

    one, other = Places(), Places()
    found = outcome(BODIES["loop"], "all", "raise", None, one)
    assert found == outcome(BODIES["loop"], "all", "raise", None, other, Parts())
    assert one.seen == other.seen
    assert (3, 1, True, [(189, 3, 0)]) in one.seen


def test_who_runs():
    """The leader, and behind the branch all: of what they use, it is found out whether it matters that it is undefined."""

    class Running(warpsim.Watcher):
        def __init__(self):
            self.seen = []

        def memory_accessed(self, machine, group, access):
            self.seen.append((group.selection.n, machine.launch.running is group))

    one = Running()
    outcome(BODIES["store"], "default", "raise", None, one)
    assert one.seen == [(192, True), (3, True), (192, True), (192, True), (192, True)]


def test_constants_and_special_registers_ask_for_nobody():
    """No thread writes them: the group stays whole where the leader reads what it has not read before."""
    body = f"{FILL} {LEADER} mov.u32 %r4, s; mov.u32 %r5, %ntid.x; add.u32 %r4, %r4, %r5; st.shared.u32 [%r4], %r5; E: bar.sync 0;"
    with mock.patch.object(BatchState, "settle", side_effect=AssertionError):
        found = outcome(body, "all", "raise", None)
    assert found == outcome(body, "all", "raise", None, Parts())


def test_whoever_reads_sees_registers():
    """Also those that the leader itself does not use."""

    class Reads(warpsim.Watcher):
        def __init__(self):
            self.seen = []

        def memory_accessed(self, machine, group, access):
            names = [register.name for register in group.plan.function.registers]
            self.seen.append((group.selection.n, as_array(group.read(names.index("%r3"))).reshape(-1)[0]))

    body = f"{FILL} mad.lo.u32 %r3, %r0, %r0, 5; {LEADER} st.shared.u32 [s+300], %r0; E: st.shared.u32 [%r2], %r3;"
    reads = Reads()
    outcome(body, "none", "raise", None, reads)
    assert (3, 5) in reads.seen
    assert all(value == 5 for _, value in reads.seen[1:])


def test_copies_have_all_threads():
    """A launch that is copied during an access by the leader."""

    class Copies(warpsim.Watcher):
        def __init__(self):
            self.ends = []

        def memory_accessed(self, machine, group, access):
            if group.selection.n == 3:
                copied = pickle.loads(pickle.dumps(machine.launch)) if self.ends else machine.launch.copy()
                groups = [*copied.batches[0].groups(), copied.running]
                self.ends.append(sorted((g.selection.n, g.block) for g in groups))

    copies = Copies()
    found = outcome(BODIES["loop"], "all", "raise", None, copies)
    assert found == outcome(BODIES["loop"], "all", "raise", None, Parts())
    assert copies.ends == [[(3, 2), (189, 3)]] * 5


def test_any_error_parts_them():
    """Of a watcher, too."""

    class Fails(warpsim.Watcher):
        def memory_accessed(self, machine, group, access):
            if group.selection.n == 3:
                self.batch = machine.batch
                raise KeyError

    fails = Fails()
    with pytest.raises(KeyError):
        outcome(BODIES["loop"], "none", "raise", None, fails)
    assert [(g.selection.n, g.block) for g in fails.batch.runnable] == [(189, 3)]


@pytest.mark.parametrize("kept", [False, True])
def test_a_barrier_ends_no_turn(kept):
    """Where its threads come first anyway, they go on at once; not while somebody asks for groups."""
    kept_turns, keeps = [], Machine.keeps_turn

    def counted(self, group):
        kept_turns.append(keeps(self, group))
        return kept_turns[-1]

    with mock.patch.object(Machine, "keeps_turn", counted):
        body = "setp.ge.u32 %p1, %r0, 32; @%p1 bra E; bar.sync 1, 32; st.shared.u32 [%r2], %r0; E: add.u32 %r3, %r0, 1;"
        outcome(body, "all", "raise", None, *([] if kept else [Parts()]))
    assert any(kept_turns) == kept
