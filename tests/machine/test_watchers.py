"""Watchers of the caller's own, as the examples in programs/watchers write them."""

import inspect
import re
import runpy
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.checks.race.detector import RaceWatcher
from warpsim.machine.hooks import Hooks
from warpsim.machine.watcher import EVENTS, Watcher
from warpsim.observe.profiler import Profiler

ROOT = Path(__file__).parent.parent.parent / "programs"


def example(name):
    """The class of an example, by its file."""
    found = runpy.run_path(str(ROOT / "watchers" / f"{name}.py"))
    return next(v for v in found.values() if inspect.isclass(v) and issubclass(v, Watcher) and v is not Watcher)


def kernel(body, params=".param .u64 p", target="sm_80"):
    """A kernel k with registers and 4 KiB of shared memory."""
    return warpsim.load(f""".version 8.0
.target {target}
.address_size 64
.visible .entry k({params}) {{
.reg .b32 %r<8>;
.reg .b64 %rd<4>;
.reg .pred %p<2>;
.shared .align 16 .b8 s[4096];
{body}
}}""")["k"]


@pytest.mark.parametrize(("stride", "conflicts"), [(4, 0), (8, 1), (16, 3), (128, 31), (0, 0), (12, 0)])
def test_bank_conflicts(stride, conflicts):
    """Lanes a stride of words apart share banks by its largest power of two; one word for all is a broadcast."""
    watcher = example("bank_conflicts")()
    program = kernel(f"""mov.u32 %r1, %tid.x; and.b32 %r1, %r1, 31; mul.lo.u32 %r2, %r1, {stride};
mov.u32 %r3, s; add.u32 %r3, %r3, %r2;
st.shared.u32 [%r3], %r1;
ret;""")
    program((3,), (64,), (None,), watchers=[watcher])

    line = 11
    assert watcher.accesses == {line: 6}
    assert watcher.conflicts() == ({line: 6 * conflicts} if conflicts else {})


def test_a_watcher_that_is_given_twice():
    """It is told once."""
    watcher = example("bank_conflicts")()
    kernel("mov.u32 %r1, s; st.shared.u32 [%r1], %r1;\nret;")((1,), (32,), (None,), watchers=[watcher, watcher])
    assert list(watcher.accesses.values()) == [1]


def test_coverage():
    """Lines that a branch leaves out are missed; the others name the warps that came."""
    watcher = example("coverage")()
    program = kernel("""mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;
@%p1 bra first;
mov.u32 %r2, 1;
bra done;
mov.u32 %r2, 3;
first:
mov.u32 %r2, 2;
done: ret;""")
    program((2,), (64,), (None,), watchers=[watcher])

    assert watcher.missed(program) == [13]
    assert watcher.warps[11] == {(0, 1), (1, 1)}
    assert watcher.warps[15] == {(0, 0), (1, 0)}


def test_guard():
    """A store into the guarded range ends the launch, and names the lanes; one beside it does not."""
    data = np.zeros(64, np.uint32)
    device = warpsim.Device("sm_80")
    array = device.array(data)
    program = kernel("""ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
st.global.u32 [%rd1], %r1;
ret;""")
    program((1,), (32,), (array,), device=device, watchers=[example("guard")(array.ptr + 128, 128)])

    with pytest.raises(warpsim.ExecutionError) as caught:
        program((1,), (32,), (array,), device=device, checks="none", watchers=[example("guard")(array.ptr + 20, 8)])
    (finding,) = caught.value.findings
    assert (finding.rule, finding.line, finding.lanes) == ("guard", 10, (5, 6))
    assert finding.values["address"] == array.ptr + 20


def test_groups_split_and_meet():
    """A branch splits a group, and its ends meet again; exits are told of once for each thread."""

    class Groups(Watcher):
        def __init__(self):
            self.split, self.met, self.exited = [], [], 0

        def group_split(self, machine, group, parts):
            self.split.append([p.selection.n for p in parts])

        def groups_met(self, machine, groups, merged):
            self.met.append(merged.selection.n)

        def group_exited(self, machine, group):
            self.exited += group.selection.n

    watcher = Groups()
    kernel("""mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8;
@%p1 bra low;
mov.u32 %r2, 1;
low: add.u32 %r2, %r1, 1;
bar.sync 0;
ret;""")((1,), (64,), (None,), watchers=[watcher])

    assert watcher.split == [[8, 56]]
    assert watcher.met == [64]
    assert watcher.exited == 64


def test_barriers_and_fences_are_told_of_once():
    """Each barrier and fence of a group is one event."""

    class Sync(Watcher):
        def __init__(self):
            self.seen = []

        def fence(self, machine, group, instruction, active):
            self.seen.append(instruction.text)

        def barrier_left(self, machine, group, number, partial):
            self.seen.append(number)

    watcher = Sync()
    kernel("fence.acq_rel.gpu; bar.sync 3; membar.cta; ret;")((2,), (64,), (None,), watchers=[watcher])

    assert watcher.seen == ["fence.acq_rel.gpu", 3, "membar.cta"]


def test_nobody_listens():
    """An event without a listener is None on the hooks; one with two listeners calls both, in order."""
    assert all(getattr(Hooks(), name) is None for name in EVENTS)

    heard = []

    class One(Watcher):
        def batch_began(self, machine):
            heard.append(self)

    first, second = One(), One()
    hooks = Hooks([first, Watcher(), second])
    hooks.batch_began(None)

    assert heard == [first, second]
    assert hooks.step_before is None


def test_what_is_no_watcher():
    """Watchers are instances of Watcher; anything else is refused before the launch."""
    with pytest.raises(warpsim.LaunchError, match=r"watchers must be instances of warpsim\.Watcher"):
        kernel("ret;")((1,), (32,), (None,), watchers=[print])


class Log(Watcher):
    """What happens to registers, CTAs and groups that wait, in order."""

    def __init__(self):
        self.seen = []

    def registers_read(self, machine, group, registers):
        """Names of registers."""
        self.seen.append(("read", group.instruction.text, *self.names(group, registers)))

    def registers_written(self, machine, group, registers):
        """Names of registers."""
        self.seen.append(("written", *self.names(group, registers)))

    def cta_began(self, machine, columns):
        """CTAs begin."""
        self.seen.append(("began", machine.batch.ctas[columns].tolist()))

    def cta_ended(self, machine, columns):
        """CTAs end."""
        self.seen.append(("ended", machine.batch.ctas[columns].tolist()))

    def group_parked(self, machine, group):
        """Lanes wait."""
        self.seen.append(("parked", group.selection.n))

    def group_slept(self, machine, group):
        """Pollers wait."""
        self.seen.append(("slept", group.selection.n))

    def group_woken(self, machine, group):
        """They go on."""
        self.seen.append(("woken", group.selection.n))

    @staticmethod
    def names(group, registers):
        """What the text calls them."""
        return [group.plan.function.registers[r].name for r in registers]

    def of(self, *words):
        """Events of these kinds."""
        return [event for event in self.seen if event[0] in words]


@pytest.mark.parametrize("engine", ["interpreter", "auto"])
def test_registers_are_told_of(engine):
    """Each instruction says what it reads and writes, a guard among what is read; a barrier's vote comes when it is given."""
    log = Log()
    kernel("""mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8;
@%p1 add.u32 %r2, %r1, 1;
bar.red.popc.u32 %r3, 0, %p1;
@%p1 bra done;
mov.u32 %r2, %r3;
done: ret;""")((1,), (64,), (None,), watchers=[log], engine=engine)

    assert log.of("read", "written") == [
        ("written", "%r1"),
        ("read", "setp.lt.u32", "%r1"),
        ("written", "%p1"),
        ("read", "add.u32", "%r1", "%p1"),
        ("written", "%r2"),
        ("read", "bar.red.popc.u32", "%p1"),
        ("written", "%r3"),
        ("read", "bra", "%p1"),
        ("read", "mov.u32", "%r3"),
        ("written", "%r2"),
    ]


def test_steps_begin_and_end():
    """Each step is told of before and after, except what comes after an instruction that ends a block."""

    class Steps(Watcher):
        def __init__(self):
            self.seen = []

        def step_before(self, machine, group, instruction):
            self.seen.append(("before", instruction.text))

        def step_after(self, machine, group, instruction):
            self.seen.append(("after", instruction.text))

    watcher = Steps()
    kernel("mov.u32 %r1, 1; bra next; next: add.u32 %r1, %r1, 2; ret;")((1,), (32,), (None,), watchers=[watcher])

    assert watcher.seen == [
        ("before", "mov.u32"),
        ("after", "mov.u32"),
        ("before", "bra"),
        ("before", "add.u32"),
        ("after", "add.u32"),
        ("before", "ret"),
    ]


def test_ctas_begin_and_end():
    """CTAs begin together and end when their last threads exit; nobody is told twice."""
    log = Log()
    kernel("""mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1;
@%p1 exit;
mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 32;
@%p1 exit;
bar.sync 0;
ret;""")((3,), (64,), (None,), watchers=[log])

    assert log.of("began", "ended") == [("began", [0, 1, 2]), ("ended", [1]), ("ended", [0, 2])]


def test_groups_that_wait_are_woken():
    """Lanes that wait for others of their warp are woken when these come, or have exited."""
    log = Log()
    kernel("""mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 8;
@%p1 bra low;
bar.warp.sync -1;
bra done;
low: bar.warp.sync -1;
done: ret;""")((1,), (32,), (None,), watchers=[log])

    assert [event[0] for event in log.of("parked", "woken")].count("parked") == 2
    assert sum(n for word, n in log.of("parked", "woken") if word == "woken") == 32
    assert log.of("parked", "woken")[-1][0] == "woken"


def test_pollers_sleep_and_wake():
    """A group that polls in vain sleeps until another changes memory."""
    log, flag = Log(), np.zeros(1, np.uint32)
    kernel("""ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;
@%p1 bra wait;
mov.u32 %r2, 0;
count: add.u32 %r2, %r2, 1; ld.relaxed.gpu.global.u32 %r3, [%rd1]; add.u32 %r2, %r2, %r3;
setp.lt.u32 %p1, %r2, 50;
@%p1 bra count;
st.relaxed.gpu.global.u32 [%rd1], 1;
bra done;
wait: ld.relaxed.gpu.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0;
@%p1 bra wait;
done: ret;""")((1,), (64,), (flag,), watchers=[log], checks="none")

    assert flag.tolist() == [1]
    assert log.of("slept", "woken") == [("slept", 32), ("woken", 32)]


def test_each_arrival_at_a_barrier_is_told_of_once():
    """Warps that name different barriers reach them one after the other, each once, however the operands are given."""

    class Barriers(Watcher):
        def __init__(self):
            self.seen = []

        def barrier_operands_differ(self, machine, group, operands):
            self.seen.append("differ")

        def barrier_reached(self, machine, group, number, count):
            self.seen.append((number, count, group.selection.n))

    watcher = Barriers()
    kernel("mov.u32 %r1, %tid.x; shr.u32 %r1, %r1, 5; add.u32 %r1, %r1, 1; bar.sync %r1, 32; bar.sync 0; ret;")(
        (1,), (64,), (None,), watchers=[watcher]
    )

    assert watcher.seen[:3] == ["differ", (1, 32, 32), (2, 32, 32)]
    assert {event[0] for event in watcher.seen[3:]} == {0}
    assert sum(event[2] for event in watcher.seen[3:]) == 64


def test_the_page_on_watchers_lists_every_event():
    """The table of docs/watchers.md names each event once, and nothing else."""
    page = (Path(__file__).parent.parent.parent / "docs" / "watchers.md").read_text(encoding="utf-8")
    table = "".join(line for line in page.splitlines() if line.startswith("| "))

    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(EVENTS)


class Runs(Watcher):
    """The instructions of each run of steps."""

    def __init__(self):
        self.seen = []

    def run_before(self, machine, group, last):
        """Where it begins."""
        self.began = group.plan.blocks[group.block], group.at, last

    def run_after(self, machine, group, last):
        """Which ones it was."""
        block, at, most = self.began
        assert at < last <= most
        self.seen.append([(group.selection.n, i.text) for i in block.instructions[at:last]])


class Ends(Watcher):
    """The last instruction of each run: it does not hear of the begins."""

    def __init__(self):
        self.seen = []

    def run_after(self, machine, group, last):
        """One more."""
        self.seen.append((group.selection.n, group.plan.blocks[group.block].instructions[last - 1].text))


class Steps(Watcher):
    """Each instruction."""

    def __init__(self):
        self.seen = []

    def step_before(self, machine, group, instruction):
        """One more."""
        self.seen.append((group.selection.n, instruction.text))


def test_runs_of_steps():
    """Runs of steps are the steps in order: lanes wait in the midst of one, what is guarded or synchronises is alone. Each step is a
    run where somebody hears of single ones."""
    launch = kernel("""mov.u32 %r1, %tid.x; mov.u32 %r4, 0; setp.lt.u32 %p1, %r1, 40;
@%p1 add.u32 %r2, %r1, 1; add.u32 %r2, %r1, 3; add.u32 %r2, %r1, 4;
L: add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 3; @%p0 bra L;
@%p1 bra ONE; mov.u32 %r2, 7; shfl.sync.idx.b32 %r3, %r1, 0, 31, 0xffffffff; bra.uni TWO;
ONE: mov.u32 %r2, 8; shfl.sync.idx.b32 %r3, %r1, 0, 31, 0xffffffff;
TWO: bar.sync 0; add.u32 %r3, %r3, 1; ret;""")

    def watched(*watchers):
        launch((2,), (64,), (None,), watchers=watchers, checks="none")

    watched(runs := Runs())
    watched(steps := Steps())
    watched(single := Runs(), beside := Steps())
    watched(ends := Ends())
    watched(single_ends := Ends(), Steps())

    assert list(chain(*runs.seen)) == list(chain(*single.seen)) == steps.seen == beside.seen
    assert ends.seen == [run[-1] for run in runs.seen]
    assert single_ends.seen == steps.seen
    assert (len(runs.seen), len(steps.seen)) == (13, 25)
    assert all(len(run) == 1 for run in single.seen)
    assert runs.seen[1] == [(128, "add.u32")]
    assert [(128, "bar.sync")] in runs.seen


class Filled(Watcher):
    """What is written by no store: space, address and size, for each CTA."""

    def __init__(self):
        self.seen = []

    def memory_filled(self, machine, space, place, nbytes, columns):
        """One more."""
        self.seen += [(space, at, nbytes) for at in np.broadcast_to(place, columns.shape).reshape(-1).tolist()]


@pytest.mark.parametrize("who", ["%p0", "%p1"])
@pytest.mark.parametrize("checks", ["none", "all"])
def test_bytes_counted_at_mbarriers(who, checks):
    """Each copy writes its bytes and the word of the mbarrier, whether one thread of each CTA copies or several."""
    body = f"""mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, 0; setp.lt.u32 %p1, %r1, 3; ld.param.u64 %rd1, [p]; mov.u32 %r2, s;
@%p0 mbarrier.init.shared.b64 [s], 1; @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [s], {16 if who == "%p0" else 48}; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2;
@{who} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+16], [%rd1], 16, [s];
W: mbarrier.try_wait.parity.shared.b64 %p0, [s], 0; @!%p0 bra W; ret;"""
    watcher = Filled()
    kernel(body, target="sm_90")((2,), (32,), (np.ones(4, np.uint32),), watchers=[watcher], checks=checks)

    copies = 1 if who == "%p0" else 3
    assert [each for each in watcher.seen if each[2] == 8] == 2 * copies * [("shared", 0, 8)]


class Mixed:
    """Hears of accesses in place of what it is mixed into."""

    def memory_accessed(self, machine, group, access):
        """Nothing."""


def test_what_code_handles_for_a_class():
    """Code handles no event that a class, or one mixed in, takes in place of the class that says so."""

    class Own(RaceWatcher):
        def fence(self, *event):
            """Nothing."""

    class Counts(Mixed, Profiler):
        """Another listener for one event."""

    assert Own.apart == RaceWatcher.apart - {"fence"}
    assert Counts.compiled == Profiler.compiled - {"memory_accessed"}
    assert type("Again", (Own,), {}).apart == Own.apart
