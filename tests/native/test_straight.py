"""A kernel that code runs from start to end is launched by that call alone. It does, counts and finds what any launch does."""

import gc
import threading
import weakref
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from warpsim.host import kernel as kernels
from warpsim.host.defaults import listening
from warpsim.machine.watcher import Watcher
from warpsim.native.runtime import straight as calls
from warpsim.native.runtime.run import Runner
from warpsim.native.runtime.straight import StraightLaunch
from warpsim.native.tiering import entry_points
from warpsim.observe.profiler import Profiler
from warpsim.trace import Tracer

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n) { .reg .b32 %r<12>; .reg .b64 %d<8>; .reg .pred %q;
.shared .align 4 .b8 tile[256];
ld.param.u64 %d1, [p]; ld.param.u64 %d2, [q]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r5, %r2, %r3, %r4; mul.wide.u32 %d3, %r5, 4;
add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;
setp.ge.u32 %q, %r5, %r1; @%q bra L;
"""
ADD = HEAD + "ld.global.u32 %r6, [%d4]; add.u32 %r6, %r6, 1; st.global.u32 [%d5], %r6; L: ret; }"
SUM = HEAD.replace("@%q bra L;", "mov.u32 %r7, 0; mov.u32 %r8, 0;") + (
    "LOOP: add.u32 %r7, %r7, %r8; add.u32 %r8, %r8, 1; setp.lt.u32 %q, %r8, %r1; @%q bra LOOP; st.global.u32 [%d5], %r7; ret; }"
)
TURN = HEAD.replace("setp.ge.u32 %q, %r5, %r1; @%q bra L;", "") + (
    "ld.global.u32 %r6, [%d4]; mov.u32 %r7, tile; shl.b32 %r8, %r4, 2; add.u32 %r9, %r7, %r8; setp.lt.u32 %q, %r4, %r1; "
    "@%q st.shared.u32 [%r9], %r6; bar.sync 0; xor.b32 %r8, %r8, 252; add.u32 %r9, %r7, %r8; ld.shared.u32 %r6, [%r9]; "
    "st.global.u32 [%d5], %r6; ret; }"
)
FRAME = HEAD.replace(
    "@%q bra L;", ".local .align 4 .b8 frame[4]; mov.u32 %r7, frame; @!%q st.local.u32 [%r7], %r5;"
) + ("ld.local.u32 %r6, [%r7]; st.global.u32 [%d5], %r6; ret; }")
SHAPE = (2,), (64,)


@pytest.fixture
def straight(monkeypatch):
    """For each launch that was to be such a call, whether it was."""
    done, run = [], StraightLaunch.run

    def noted(self, params, *listeners):
        done.append(run(self, params, *listeners))
        return done[-1]

    monkeypatch.setattr(StraightLaunch, "run", noted)
    return done


class Gpu:
    """A kernel, and two arrays of 128 words on a device of its own; the second counts as unwritten."""

    def __init__(self, text):
        self.kernel, self.device = warpsim.load(text)["k"], warpsim.Device("sm_80")
        self.x, self.y = self.device.array(np.arange(128, dtype=np.uint32)), self.device.empty(128, np.uint32)

    def launch(self, n=128, **options):
        """A launch; its counts, findings and time."""
        began = self.device.memory.nanoseconds
        result = self.kernel(*SHAPE, (self.x, self.y, n), device=self.device, **{"engine": "compiled", **options})
        return (
            result.instructions,
            result.thread_instructions,
            dict(result.opcodes),
            result.findings,
            self.device.memory.nanoseconds - began,
        )

    def often(self, n=128, **options):
        """Launches until they are calls."""
        for _ in range(10):
            found = self.launch(n, **options)
        return found


@pytest.mark.parametrize("text", [ADD, SUM, TURN], ids=["add", "loop", "shared memory"])
def test_such_a_launch_is_any_launch(straight, text):
    """With other parameters it leaves the memory and the counts of the interpreter, whatever has been allocated or freed meanwhile."""
    gpu, other = Gpu(text), Gpu(text)
    gpu.often()
    other.launch(engine="interpreter")
    assert straight[-1]
    n = 64 if text is not TURN else 128
    gpu.device.array(np.zeros(4, np.uint32))
    gpu.x = gpu.device.array(np.arange(128, dtype=np.uint32) * 3)
    other.x = other.device.array(np.arange(128, dtype=np.uint32) * 3)

    assert gpu.launch(n) == other.launch(n, engine="interpreter")

    assert straight[-1]
    assert gpu.y.get().tolist() == other.y.get().tolist()


def test_findings_of_such_a_launch(straight):
    """Accesses behind an allocation, of one that is freed, and of bytes that nobody has written are found as in the first launch."""
    gpu = Gpu(ADD)
    gpu.often()
    with pytest.raises(warpsim.ExecutionError, match="out-of-bounds: access of 4 bytes"):
        gpu.kernel((3,), (64,), (gpu.x, gpu.y, 192), device=gpu.device, engine="compiled")
    gpu.often()
    short = gpu.device.array(np.zeros(100, np.uint32))
    with pytest.raises(warpsim.ExecutionError) as problem:
        gpu.kernel(*SHAPE, (short, gpu.y, 128), device=gpu.device, engine="compiled")
    assert straight[-1] is False
    assert "CTA (1, 0, 0), warp 1, lanes 4-31" in str(problem.value)

    gpu.often()
    unwritten = gpu.device.empty(128, np.uint32)
    with pytest.raises(warpsim.ExecutionError, match="uninitialised"):
        gpu.kernel(*SHAPE, (unwritten, gpu.y, 128), device=gpu.device, engine="compiled")
    assert straight[-1] is False

    gpu.often()
    freed, gpu.x = gpu.x.ptr, None
    gpu.x = gpu.device.array(np.arange(128, dtype=np.uint32))
    with pytest.raises(warpsim.ExecutionError, match="out-of-bounds"):
        gpu.kernel(*SHAPE, (freed, gpu.y, 128), device=gpu.device, engine="compiled")


def test_unwritten_shared_memory(straight):
    """What one launch has stored in shared memory counts as unwritten in the next."""
    gpu = Gpu(TURN)
    gpu.often()
    assert straight[-1]
    with pytest.raises(warpsim.ExecutionError, match="uninitialised"):
        gpu.launch(60)
    assert straight[-1] is False


def test_unwritten_local_memory():
    """So does what one has stored in local memory."""
    gpu = Gpu(FRAME)
    gpu.often()
    with pytest.raises(warpsim.ExecutionError, match="uninitialised"):
        gpu.launch(60)


def test_limits(straight, monkeypatch):
    """Limits of instructions and of time end such a launch, too."""
    gpu, limits = Gpu(SUM), {"max_instructions": 10_000, "max_seconds": 100.0}
    for _ in range(10):
        gpu.launch(100, **limits)
    assert straight[-1]
    with monkeypatch.context() as patch:
        patch.setattr(calls, "time", SimpleNamespace(monotonic=iter((5.0, 106.0)).__next__))
        with pytest.raises(warpsim.ExecutionError, match=r"more than 100\.0 seconds"):
            gpu.launch(100, **limits)
    with pytest.raises(warpsim.ExecutionError, match="more than 10000 warp-instructions"):
        gpu.launch(4000, **limits)


def test_the_last_instruction(straight):
    """The one that ends the kernel counts, although it lies behind the code."""
    gpu = Gpu(ADD)
    exact, *_ = gpu.launch(128)
    for _ in range(10):
        gpu.launch(0, max_instructions=exact - 1)
    assert straight[-1]
    with pytest.raises(warpsim.ExecutionError, match=f"more than {exact - 1} warp-instructions"):
        gpu.launch(128, max_instructions=exact - 1)


class Loads(Watcher):
    """Counts the accesses of a launch."""

    n = 0

    def memory_accessed(self, machine, group, access):
        """One more."""
        self.n += 1


class CountsSteps:
    """Counts steps, beside what it is mixed into."""

    n = 0

    def step_before(self, machine, group, instruction):
        """One more."""
        super().step_before(machine, group, instruction)
        self.n += 1


class Steps(CountsSteps, Profiler):
    """Counts steps, too."""


class Regions(Watcher):
    """What it hears of code, and of entries to blocks that are counted anew."""

    def __init__(self):
        self.heard = []

    def region_counted(self, machine, group, counts):
        """Code has counted."""
        self.heard.append(counts.entries)

    def entry_counted(self, machine, group, times):
        """A group waits, or goes on."""
        self.heard.append(times)


class Recorded(Watcher):
    """Hears of code that records."""

    def region_recorded(self, machine, group, steps):
        """Nothing."""


class Elsewhere(Watcher):
    """Sees some CTAs from near; another listener hears of the others."""

    def __init__(self, other, near):
        self.other, self.near, self.params = other, np.array(near, np.int64), []

    def from_near(self, launch):
        """The listener."""
        self.params.append(launch.params[16:])
        return self.near, self.other


class Batches(Profiler):
    """Counts batches, too."""

    n = 0

    def batch_began(self, machine):
        """One more."""
        super().batch_began(machine)
        self.n += 1


def test_who_listens_is_told(straight):
    """Launches of the interpreter, under more rules, and with watchers that hear more than machine code tells, are run as ever;
    listeners get the state of any launch."""
    gpu = Gpu(ADD)
    gpu.often()
    before = len(straight)
    gpu.launch(engine="interpreter")
    gpu.launch(checks="default+race")
    for kind, heard in (Loads, 2), (Batches, 1), (Steps, 16):
        for _ in range(12):
            gpu.launch(watchers=[watcher := kind()])
            assert watcher.n == heard
    assert True not in straight[before:]
    before = len(straight)
    counts = []
    with listening(lambda state: counts.append(state.instructions)):
        expected, *_ = gpu.launch()

    assert len(straight) == before + 1
    assert counts == [expected]


def test_what_such_a_launch_tells(straight):
    """What it tells of itself is what a launch tells of which a call is not known to be all."""
    gpu = Gpu(ADD)
    found = []
    for _ in range(12):
        gpu.launch(watchers=[watcher := Regions()])
        found.append(watcher.heard)

    assert straight[-1]
    assert found == found[:1] * 12


@pytest.mark.parametrize(
    ("kept", "other", "near"), [(Profiler, Watcher, []), (Watcher, Profiler, []), (Recorded, Watcher, [0])]
)
def test_other_listeners_of_the_same_watchers(straight, monkeypatch, kept, other, near):
    """Watchers of one class that leave CTAs to listeners of several do not share such a launch; each sees its parameters."""
    monkeypatch.setattr(kernels, "ELSEWHERE", 0)
    gpu = Gpu(ADD)
    gpu.often(watchers=[Elsewhere(kept(), near)])
    assert straight[-1]
    gpu.launch(64, watchers=[watcher := Elsewhere(other(), near)])
    assert not straight[-1]
    assert set(watcher.params) == {(64).to_bytes(4, "little")}
    if other is Profiler:
        lines = watcher.other.profile().lines
        assert sum(line.counts.executions for line in lines) == gpu.launch(64, engine="interpreter")[0]


class Seconds(Watcher):
    """Adds up the time that code took."""

    seconds = 0.0

    def region_counted(self, machine, group, counts):
        """Some more."""
        self.seconds += counts.seconds


def test_the_time_of_code(straight):
    """A profile shares out all of it, of several launches, too."""
    gpu = Gpu(SUM)
    gpu.often(watchers=[Profiler(), Seconds()])
    profiler, clock = Profiler(), Seconds()
    for _ in range(5):
        gpu.launch(watchers=[profiler, clock])

    assert straight[-5:] == [True] * 5
    total = sum(line.counts.seconds for line in profiler.profile().lines)
    assert total >= clock.seconds * 0.999 > 0


def test_nobody_is_seen_from_near(straight, monkeypatch):
    """A listener that could hear of the CTAs seen from near, of which there are none, hears nothing."""
    monkeypatch.setattr(kernels, "ELSEWHERE", 0)
    gpu = Gpu(ADD)
    for _ in range(12):
        gpu.launch(watchers=[Elsewhere(Recorded(), [])])
    assert straight[-1]
    assert gpu.y.get().tolist() == list(range(1, 129))


@pytest.mark.parametrize("text", [ADD, SUM, TURN], ids=["add", "loop", "shared memory"])
def test_who_looks_on_sees_all(straight, monkeypatch, text):
    """A profile and a trace of such a launch are those that the interpreter tells; a trace of other CTAs is not such a launch."""
    monkeypatch.setattr(kernels, "ELSEWHERE", 0)
    gpu, found = Gpu(text), {}
    for engine in "compiled", "interpreter":
        for _ in range(10):
            gpu.launch(engine=engine, watchers=[tracer := Tracer(1)])
            result = gpu.kernel(*SHAPE, (gpu.x, gpu.y, 128), device=gpu.device, engine=engine, profile=True)
        if engine == "compiled":
            assert straight[-2:] == [True, True]
        trace = tracer.trace()
        lines = [
            [(line.number, attrs.evolve(line.counts, seconds=0.0)) for line in profile.lines]
            for profile in (result.profile, trace.profile)
        ]
        assert lines[0] == lines[1]
        where = [trace.instructions[number].span.column for number in trace.steps]
        found[engine] = lines, where, trace.runs, trace.crews, trace.marks, trace.waits
    assert found["compiled"] == found["interpreter"]
    gpu.launch(watchers=[Tracer([(1, 0, 0)])])
    before = len(straight)
    gpu.launch(watchers=[Tracer([(1, 0, 0)])])
    gpu.launch(watchers=[Tracer(1)])
    assert straight[before:] == [True, False]


def test_a_part_of_a_grid(monkeypatch):
    """A launch of which a call is only the first wave is not kept."""
    monkeypatch.setattr(entry_points, "JOINED_THREADS", 64)
    gpu = Gpu(ADD)
    gpu.often(batch_threads=64)
    gpu.x = gpu.device.array(np.arange(128, dtype=np.uint32) * 3)

    gpu.launch(batch_threads=64)

    assert gpu.y.get().tolist() == [3 * k + 1 for k in range(128)]


def test_other_threads(straight, monkeypatch):
    """Each thread runs it in memory of its own."""
    gpu, found, memory, run = Gpu(SUM), [], [], Runner.run
    expected = gpu.often(100)
    monkeypatch.setattr(
        Runner, "run", lambda self, *call, **more: memory.append(self.scratch) or run(self, *call, **more)
    )
    gpu.launch(100)
    thread = threading.Thread(target=lambda: found.append(gpu.launch(100)))
    thread.start()
    thread.join()

    assert found == [expected]
    assert straight[-1]
    assert memory[0] is not memory[1]
    assert gpu.y.get().tolist() == [4950] * 128


def test_results_of_threads(straight, monkeypatch):
    """The next launch, by another thread, begins when the result of one has been made of the state that they have in common."""
    gpu = Gpu(SUM)
    expected, others = gpu.often(100), []

    def interrupted(*made):
        monkeypatch.setattr(kernels, "result_of", result_of)
        others.append(threading.Thread(target=gpu.launch, args=(50,)))
        others[0].start()
        others[0].join(0.1)
        return result_of(*made)

    result_of = kernels.result_of
    monkeypatch.setattr(kernels, "result_of", interrupted)
    found = gpu.launch(100)
    others[0].join()

    assert found[:4] == expected[:4]  # not the time, which goes on
    assert straight[-2:] == [True, True]


def test_memory_is_given_back(monkeypatch):
    """A kernel that is kept ready keeps no array and no watcher of the caller's alive."""
    monkeypatch.setattr(kernels, "ELSEWHERE", 0)
    gpu = Gpu(ADD)
    gpu.often()
    for _ in range(10):
        array, tracer = np.arange(128, dtype=np.uint32), Tracer(1)
        gpu.kernel(*SHAPE, (array, gpu.y, 128), device=gpu.device, engine="compiled", watchers=[tracer])
        gpu.kernel(*SHAPE, (array, gpu.y, 128), device=gpu.device, engine="compiled")
        gone = weakref.ref(array), weakref.ref(tracer)
        del array, tracer
        gc.collect()

        assert [one() for one in gone] == [None, None]


def test_the_time_of_a_launch_that_gives_up(straight):
    """It takes the device as long as any launch: what gave up takes no time of its own."""
    gpu, other = Gpu(ADD), Gpu(ADD)
    gpu.often(on_finding="collect")
    for each in (gpu, other):
        each.x = each.device.array(np.zeros(100, np.uint32))

    found = gpu.launch(on_finding="collect")

    assert straight[-1] is False
    assert found[-1] == other.launch(on_finding="collect", engine="interpreter")[-1]


@pytest.mark.parametrize("options", [{"cluster": 1}, {"cluster": (1, 1, 1)}, {"checks": {"out-of-bounds"}}], ids=str)
def test_options_that_are_no_keys(straight, options):
    """A launch in clusters, or with a set of rules, is found again by what they mean, and pushes no other out."""
    gpu = Gpu(ADD)
    gpu.often(**options)

    gpu.launch(**options)

    assert straight[-1:] == [True]
