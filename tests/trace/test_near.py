"""The CTAs that a trace shows are interpreted by themselves, the others run as in any launch: the trace is that of all CTAs side by
side, and so are the profile and the bits."""

import contextlib
import io
from pathlib import Path

import attrs
import numpy as np
import pytest

import warpsim
import warpsim.host.kernel as kernel_module
from ptx_text import module_head
from random_kernels import WORDS, kernel
from warpsim.host.cases import run_case
from warpsim.machine.engine import Run
from warpsim.native.codegen import trail as codegen_trail
from warpsim.native.compiling.queue import compile_queue
from warpsim.native.runtime import trail as runtime_trail
from warpsim.native.tiering import engine as tiering_engine
from warpsim.native.tiering.cost import Account
from warpsim.native.tiering.engine import CompiledEngine
from warpsim.parallel import divide
from warpsim.trace import Tracer

pytest.importorskip("llvmlite", reason="the extra jit is not installed")


def recorded(tracer):
    """All that a trace has, but for times, so that it can be compared."""
    trace = tracer.trace()
    where = [(i.span.line, i.span.column) for i in trace.instructions]
    lines = [
        (line.number, attrs.evolve(line.counts, seconds=0.0), line.conflict and line.conflict.passes)
        for line in trace.profile.lines
    ]
    return {
        "warps": trace.warps,
        "steps": [where[number] for number in trace.steps],
        "runs": [(first, last, trace.crews[crew]) for first, last, crew in trace.runs],
        "waits": trace.waits,
        "flights": [attrs.evolve(f, instruction=where[f.instruction]) for f in trace.flights],
        "marks": trace.marks,
        "findings": [str(finding) for _, finding in trace.findings],
        "lines": lines,
    }


def traced(launch, monkeypatch, *, apart=True, **tracing):
    """The trace of a launch, or how it ends; with the CTAs ``apart``, however few they are, or all side by side."""
    tracer = Tracer(**tracing)
    with monkeypatch.context() as patched:
        patched.setattr(kernel_module, "ELSEWHERE", 0)
        if not apart:
            patched.setattr(divide, "kept_together", lambda plan, *, cooperative: "this test")
        try:
            left = launch(watchers=[tracer], engine="compiled" if apart else "interpreter")
        except warpsim.ExecutionError as problem:
            return str(problem)
    return left, recorded(tracer)


def launch_of(seed):
    """A launch of a random kernel, which returns what it leaves in memory."""
    made = kernel(seed)

    def launch(**options):
        given = np.random.default_rng(1).integers(0, 1 << 32, 4 * WORDS, dtype=np.uint64).astype(np.uint32)
        work, out = np.zeros(WORDS, np.uint32), np.zeros(made.grid * made.block[0] * made.block[1], np.uint32)
        options |= {"checks": made.checks, "on_finding": "collect", "max_instructions": 3_000_000}
        cluster = (made.cluster,) if made.cluster else None
        with contextlib.redirect_stdout(io.StringIO()):
            warpsim.load(made.text)["k"]((made.grid,), made.block, (given, work, out), cluster=cluster, **options)
        return work.tobytes(), out.tobytes()

    return launch


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Whatever can be compiled is."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")


@pytest.fixture
def batches(monkeypatch):
    """The CTAs of each batch, and whether they were seen from near, as they begin."""
    begun, begin = [], Run._begin

    def noted(self, batch):
        begun.append((batch.near, batch.ctas.tolist()))
        return begin(self, batch)

    monkeypatch.setattr(Run, "_begin", noted)
    return begun


@pytest.mark.parametrize("seed", [30, *(pytest.param(seed, marks=pytest.mark.long) for seed in (17, 31))])
def test_random_kernels(seed, monkeypatch, batches):
    """One CTA by itself, interpreted, and machine code for the others leave what all CTAs side by side leave."""
    together = traced(launch_of(seed), monkeypatch, apart=False, ctas=1)

    assert [near for near, _ in batches] == [False]
    assert traced(launch_of(seed), monkeypatch, ctas=1) == together
    assert any(near for near, _ in batches)


def in_order(seed):
    """Whether CTAs that run one after the other leave what all of them side by side leave: elsewhere they race."""
    threads = kernel(seed).block[0] * kernel(seed).block[1]
    try:
        return launch_of(seed)(engine="interpreter") == launch_of(seed)(engine="interpreter", batch_threads=threads)
    except warpsim.ExecutionError:
        return False


@pytest.mark.long
def test_many_random_kernels(monkeypatch, batches):
    """The same for more kernels, of which most have several CTAs that may run apart."""
    seeds = [seed for seed in range(1000, 1080) if kernel(seed).grid > 1 and in_order(seed)]
    batches.clear()
    wrong = [
        seed
        for seed in seeds
        if traced(launch_of(seed), monkeypatch, ctas=1) != traced(launch_of(seed), monkeypatch, apart=False, ctas=1)
    ]

    assert not wrong
    assert sum(near for near, _ in batches) > 10


PROGRAMS = Path(__file__).parent.parent.parent / "programs"


@pytest.mark.parametrize(
    ("program", "ctas", "interpreted"),
    [
        ("transpose", [(1, 0, 0)], True),
        ("gemm_multicast", 1, True),
        pytest.param("reduce_shfl", 1, True, marks=pytest.mark.long),
        pytest.param("cluster_reduce", 1, True, marks=pytest.mark.long),
        pytest.param("flash_attention", 1, False, marks=pytest.mark.long),
    ],
)
def test_recorded_programs(program, ctas, interpreted, monkeypatch, batches):
    """Barriers, clusters, copies and wgmma; of flash_attention, machine code tells what the CTA does."""

    def launch(**options):
        return run_case(PROGRAMS / program, **options).ok

    together = traced(launch, monkeypatch, apart=False, ctas=ctas)

    assert together[0]
    assert traced(launch, monkeypatch, ctas=ctas) == together
    assert any(near for near, _ in batches) is interpreted


GRID = (
    module_head("sm_90a")
    + """
.visible .entry k(.param .u64 out) { .reg .b32 %x, %y, %z, %nx, %ny, %t; .reg .b64 %out; .reg .pred %p;
ld.param.u64 %out, [out]; mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %z, %ctaid.z; mov.u32 %nx, %nctaid.x;
mov.u32 %ny, %nctaid.y; mad.lo.u32 %y, %z, %ny, %y; mad.lo.u32 %x, %y, %nx, %x; mov.u32 %t, %tid.x;
mad.lo.u32 %t, %x, 32, %t; mad.wide.u32 %out, %t, 4, %out; @DOUBT@ st.global.u32 [%out], %x; ret; }
"""
)


def numbers(grid, ctas, batches, **options):
    """Which CTAs were seen from near, after a look at what all of them stored."""
    n = grid[0] * grid[1] * grid[2]
    out = np.full((n, 32), 99, np.uint32)
    tracer = Tracer(ctas)
    kernel = warpsim.load(GRID.replace("@DOUBT@", ""))["k"]
    result = kernel(grid, (32,), (out,), watchers=[tracer], engine="compiled", **options)

    assert np.array_equal(out, np.arange(n)[:, None].repeat(32, 1))
    assert sorted(cta for _, some in batches for cta in some) == list(range(n))
    assert tracer.trace().profile.total.executions == result.instructions
    return [some for near, some in batches if near]


@pytest.mark.parametrize(
    ("grid", "cluster", "ctas", "expected"),
    [
        ((7, 1, 1), None, 4, [[0, 1, 2, 3]]),
        ((3, 4, 1), None, 4, [[0, 1, 2, 3, 4, 5]]),
        ((5, 3, 2), None, [(2, 1, 0), (3, 2, 0)], [[7, 8, 12, 13]]),
        ((5, 3, 2), None, [(4, 2, 1)], [[29]]),
        ((4, 4, 1), (2, 2, 1), [(2, 1, 0)], [[2, 3, 6, 7]]),
        ((2, 2, 4), (1, 1, 2), [(1, 0, 2)], [[9, 11, 13, 15]]),
    ],
)
def test_the_rectangle_around(grid, cluster, ctas, expected, batches, monkeypatch):
    """The CTAs shown begin as the smallest rectangle of whole clusters; all the others begin, too, each once."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)

    monkeypatch.setattr(CompiledEngine, "records", lambda engine, state: False)

    assert numbers(grid, ctas, batches, cluster=cluster) == expected


def test_later_waves(batches, monkeypatch):
    """CTAs of several waves are seen from near, each when its wave begins."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)

    assert numbers((64, 1, 1), [(1, 0, 0), (30, 0, 0), (31, 0, 0)], batches, batch_threads=256) == [[1], [30, 31]]


@pytest.mark.parametrize(
    ("grid", "ctas", "expected"),
    [
        ((64, 1, 1), [(0, 0, 0), (3, 0, 0)], [range(4), range(4, 64)]),
        ((64, 1, 1), [(1, 0, 0)], [[1], [0], range(2, 64)]),
        (
            (64, 1, 1),
            [(0, 0, 0), (30, 0, 0)],
            [[0], range(1, 8), range(8, 16), range(16, 24), [30], range(24, 30), range(31, 64)],
        ),
        ((8, 1, 1), [(0, 0, 0)], [[0], range(1, 8)]),
        ((4, 16, 1), [(0, 0, 0), (3, 0, 0)], [range(4), range(4, 64)]),
        ((4, 16, 1), [(3, 0, 0)], [[3], range(3), range(4, 64)]),
        ((3, 16, 1), [(0, 1, 0)], [[3], range(3), [4, 5], range(6, 48)]),
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_what_is_left_of_a_wave(grid, ctas, expected, fails, batches, monkeypatch):
    """It is one batch with later waves beside it, when code has run whole waves; where that fails, it is one by itself."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)
    monkeypatch.setattr(CompiledEngine, "records", lambda engine, state: False)
    kernel = warpsim.load(GRID.replace("@DOUBT@", ""))["k"]
    for launch in range(2):
        if launch and fails:
            monkeypatch.setattr(CompiledEngine, "run_through", lambda engine, machine, group: False)
        batches.clear()
        out = np.full((grid[0] * grid[1], 32), 99, np.uint32)
        result = kernel(grid, (32,), (out,), watchers=[tracer := Tracer(ctas)], engine="compiled", batch_threads=256)

        assert np.array_equal(out, np.arange(len(out))[:, None].repeat(32, 1))
        assert tracer.trace().profile.total.executions == result.instructions

    assert fails or [some for _, some in batches] == [list(some) for some in expected]


WAYS = (
    module_head("sm_90a")
    + """
.visible .entry k(.param .u64 data, .param .u64 out, .param .u32 pitch)
{
    .shared .align 16 .b8 tile[8192]; .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<4>; .reg .b16 %h;
    ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [out]; ld.param.u32 %r9, [pitch]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;
    mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1; mov.u32 %r5, %ctaid.x; mad.lo.u32 %r6, %r5, 256, %r4;
    mul.wide.u32 %rd3, %r6, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3; ld.global.u32 %r7, [%rd1];
    mov.u32 %r8, tile; mad.lo.u32 %r10, %r4, 4, %r8; mov.u32 %r11, 0; mov.u32 %r12, 0;
    st.shared.u32 [%r10], %r7; st.shared.u32 [%r10+1024], %r7; st.shared.u32 [%r10+2048], %r7; st.shared.u32 [%r10+4096], %r11;
    bar.sync 0;
L:  mad.lo.u32 %r13, %r11, 16, %r8; ld.shared.u32 %r14, [%r13]; add.u32 %r12, %r12, %r14;
    mad.lo.u32 %r13, %r1, 4, %r13; mad.lo.u32 %r13, %r2, 64, %r13; ld.shared.u32 %r14, [%r13]; add.u32 %r12, %r12, %r14;
    mad.lo.u32 %r13, %r2, %r9, %r8; ld.shared.v2.u32 {%r14, %r15}, [%r13+8]; add.u32 %r12, %r12, %r14;
    and.b32 %r13, %r7, 252; add.u32 %r13, %r13, %r8; ld.shared.u32 %r14, [%r13]; setp.lt.u32 %p1, %r1, 5;
    @%p1 ld.shared.u32 %r14, [%r10+1024]; add.u32 %r12, %r12, %r14; @%p1 atom.shared.add.u32 %r14, [%r13+4096], 3;
    @SOME@
    add.u32 %r11, %r11, 1; setp.lt.u32 %p2, %r11, 3; @%p2 bra L;
    bar.sync 0;
    ld.shared.u32 %r14, [%r10+4096]; add.u32 %r12, %r12, %r14; st.global.u32 [%rd2], %r12;
    ret;
}
"""
)
ROWS = "mad.lo.u32 %r13, %r1, 16, %r8; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r14, %r15}, [%r13]; add.u32 %r12, %r12, %r15;"
GENERIC = "cvta.shared.u64 %rd4, 0; cvt.u64.u32 %rd5, %r10; add.u64 %rd4, %rd4, %rd5; ld.u32 %r14, [%rd4];"
BACK = "mul.lo.u32 %r13, %r2, -64; mad.lo.u32 %r13, %r1, -4, %r13; add.u32 %r13, %r13, %r8; ld.shared.u32 %r14, [%r13+2048];"
LANES = "setp.lt.u32 %p3, %r1, 3; @%p3 bra IN; bra OUT; IN: add.u32 %r12, %r12, 1; OUT:"
WARPS = "setp.lt.u32 %p3, %r4, 32; @%p3 bra IN; bra OUT; IN: add.u32 %r12, %r12, 1; OUT:"
FAR = "setp.lt.u32 %p3, %r5, 5; @%p3 bra OUT; setp.lt.u32 %p3, %r1, 3; @!%p3 bra OUT; add.u32 %r12, %r12, 1; OUT:"


def ways(some, block, batch_threads=1 << 17):
    """A launch whose CTAs access shared memory at strides that are known and others, under guards, and do ``some``thing more."""
    kernel = warpsim.load(WAYS.replace("@SOME@", some))["k"]

    def launch(**options):
        data, out = (
            np.random.default_rng(5).integers(0, 1 << 32, 4096, dtype=np.uint64).astype(np.uint32),
            np.zeros(4096, np.uint32),
        )
        given = {"checks": "none", "batch_threads": batch_threads, **options}
        kernel((9,), block, (data, out, 64), **given)
        return out.tobytes()

    return launch


@pytest.mark.parametrize(
    ("some", "block", "tracing", "recorded_too"),
    [
        ("", (64, 1), {}, True),
        (ROWS, (32, 2), {"ctas": [(1, 0, 0), (7, 0, 0)]}, True),
        (FAR, (24, 3), {}, True),
        (BACK, (64, 1), {}, True),
        (BACK, (16, 4), {}, True),
        ("", (16, 4), {"max_steps": 61}, True),
        ("", (32, 2), {"ctas": [(8, 0, 0)], "batch_threads": 128}, True),
        (GENERIC, (32, 1), {}, False),
        (LANES, (32, 1), {}, False),
        (WARPS, (32, 2), {}, False),
    ],
)
def test_shown_by_machine_code(some, block, tracing, recorded_too, monkeypatch, batches):
    """Code for all CTAs tells the way of those shown, of which all warps go the same way; else these are interpreted."""
    launch = ways(some, block, tracing.pop("batch_threads", 1 << 17))
    together = traced(launch, monkeypatch, apart=False, **tracing)
    batches.clear()

    assert traced(launch, monkeypatch, **tracing) == together
    assert any(near for near, _ in batches) is not recorded_too


def test_a_long_way(monkeypatch, batches):
    """CTAs that go further than their rows have room for are interpreted."""
    for module in (codegen_trail, runtime_trail):
        monkeypatch.setattr(module, "ROW", 64)

    test_shown_by_machine_code("add.u32 %r12, %r12, 7;", (64, 1), {}, False, monkeypatch, batches)


@pytest.mark.parametrize("room", [7, 8])
def test_many_ctas_shown(room, monkeypatch, batches):
    """CTAs of more warps than the trail has rows for are interpreted."""
    monkeypatch.setattr(tiering_engine, "ROWS", room)

    test_shown_by_machine_code("", (64, 1), {}, room == 8, monkeypatch, batches)


def test_code_is_made_for_it(monkeypatch, batches):
    """Launches whose CTAs shown are interpreted for want of code are accounted for, and a later one has it."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)
    accounted, launch = [], ways("add.u32 %r12, %r12, 9;", (64, 1))
    monkeypatch.setattr(
        Account, "allows", lambda account, *_: accounted.append(account.interpreted) or len(accounted) > 2
    )
    launch(engine="compiled")
    found = []
    for _ in range(4):
        batches.clear()
        launch(watchers=[Tracer()], engine="auto")
        compile_queue().wait(60)
        found.append(any(near for near, _ in batches))

    assert found == [True] * found.index(False) + [False] * (4 - found.index(False))
    assert accounted[0] < accounted[-1]


class Begun(warpsim.Watcher):
    """Counts the CTAs that begin."""

    count = 0

    def cta_began(self, machine, which):
        """Count them."""
        self.count += len(which)


@pytest.mark.parametrize("some", ["", LANES])
def test_a_watcher_beside(some, monkeypatch):
    """Who listens beside a tracer hears of each CTA once, whether or not code can tell what those shown do."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)
    beside = Begun()
    ways(some, (32, 2))(watchers=[Tracer(), beside], engine="compiled")

    assert beside.count == 9


def test_two_tracers(monkeypatch, batches):
    """Each shows its own CTAs; nobody is told of them by code if one listener would hear nothing of it."""
    launch, tracers = ways("", (64, 1)), [Tracer([(cta, 0, 0)]) for cta in (2, 3)]
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)
    launch(watchers=tracers, engine="compiled")

    assert not any(near for near, _ in batches)
    for cta, tracer in zip((2, 3), tracers, strict=True):
        assert recorded(tracer) == traced(launch, monkeypatch, apart=False, ctas=[(cta, 0, 0)])[1]
    near = Near()
    launch(watchers=[Tracer(1), near], engine="compiled")
    assert any(near for near, _ in batches)
    assert len(near.heard) > 2


def test_few_others(batches):
    """Where few threads are not shown, all run side by side."""
    assert numbers((7, 1, 1), 4, batches) == []


def test_a_random_order(batches, monkeypatch):
    """A seed's order of CTAs is that of all of them."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)

    assert numbers((7, 1, 1), 4, batches, schedule=7) == []


def test_a_finding_elsewhere(batches, monkeypatch):
    """A finding of a CTA that is not shown is in the trace, and ends the launch as in any."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)
    text = GRID.replace("@DOUBT@", "setp.eq.u32 %p, %x, 6; @%p add.u64 %out, %out, 1;")
    tracer = Tracer(1)
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.load(text)["k"]((9,), (32,), (np.zeros(9 * 32, np.uint32),), watchers=[tracer], engine="compiled")
    ((step, finding),) = tracer.trace().findings

    assert (caught.value.findings[0].rule, finding.rule, finding.cta) == ("misaligned", "misaligned", (6, 0, 0))
    assert step == len(tracer.trace().steps) - 1


def test_a_watcher_of_all(batches, monkeypatch):
    """A watcher beside the tracer, and one that adds to it, hear of every CTA."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)

    class Steps(warpsim.Watcher):
        """Counts warps."""

        count = 0

        def step_before(self, machine, group, instruction):
            """One more step."""
            self.count += group.selection.n_warps

    class More(Tracer):
        """A tracer that counts stores."""

        stores = 0

        def memory_accessed(self, machine, group, access):
            """One more access."""
            super().memory_accessed(machine, group, access)
            self.stores += group.selection.n_warps * access.writes

    steps, more, kernel = Steps(), More(1), warpsim.load(GRID.replace("@DOUBT@", ""))["k"]
    result = kernel((9,), (32,), (np.zeros(9 * 32, np.uint32),), watchers=[Tracer(1), steps], engine="compiled")
    kernel((9,), (32,), (np.zeros(9 * 32, np.uint32),), watchers=[more], engine="compiled")

    assert steps.count == result.instructions
    assert more.stores == 9


class Near(warpsim.Watcher):
    """Notes events of CTA 2, and of the launch."""

    def __init__(self):
        self.heard = []

    def from_near(self, launch):
        """CTA 2; nobody minds the others."""
        return np.array([2]), warpsim.Watcher()

    def launch_began(self, launch):
        """Note it."""
        self.heard.append("launch began")

    def registers_read(self, machine, group, registers):
        """Note the instruction."""
        self.heard.append(group.instruction.text)

    def launch_ended(self, launch):
        """Note it."""
        self.heard.append("launch ended")


@pytest.mark.parametrize("others", [0, 1])
def test_every_event(others, batches, monkeypatch):
    """A watcher from near hears of the launch, once, and of registers."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)
    near, beside = Near(), [Near() for _ in range(others)]
    warpsim.load(GRID.replace("@DOUBT@", ""))["k"](
        (9,), (32,), (np.zeros(9 * 32, np.uint32),), watchers=[near, *beside]
    )

    assert (near.heard[0], near.heard[-1]) == ("launch began", "launch ended")
    assert (near.heard[1], near.heard[-2]) == ("mad.lo.u32", "st.global.u32")
    assert all(other.heard == near.heard for other in beside)
    assert [ctas for seen, ctas in batches if seen] == [[2]]


def test_a_watcher_of_all_hears_once_of_the_launch(monkeypatch):
    """A watcher that hears of every CTA hears once that a launch begins, and ends."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)

    class Whole(Near):
        """One that leaves no CTAs to others."""

        from_near = warpsim.Watcher.from_near

    whole = Whole()
    warpsim.load(GRID.replace("@DOUBT@", ""))["k"](
        (9,), (32,), (np.zeros(9 * 32, np.uint32),), watchers=[Tracer(1), whole]
    )

    assert [heard for heard in whole.heard if heard.startswith("launch")] == ["launch began", "launch ended"]


PRINTS = (
    module_head("sm_90a")
    + """
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 first[3] = {97, 59, 0}; .global .align 1 .b8 second[3] = {98, 59, 0};
.visible .entry k() { .reg .b64 %f;
mov.u64 %f, first; cvta.global.u64 %f, %f;
{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %f; st.param.b64 [a], 0; call (r), vprintf, (f, a); }
mov.u64 %f, second; cvta.global.u64 %f, %f;
{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %f; st.param.b64 [a], 0; call (r), vprintf, (f, a); }
ret; }
"""
)


def test_what_is_printed(monkeypatch):
    """A trace does not change the order in which threads print."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)
    kernel, device = warpsim.load(PRINTS)["k"], warpsim.Device("sm_90a", stdout=lambda text: None)

    assert kernel((3,), (1,), (), device=device).stdout == "a;a;a;b;b;b;"
    assert kernel((3,), (1,), (), device=device, watchers=[Tracer(1)]).stdout == "a;a;a;b;b;b;"


BULK = (
    module_head("sm_90a")
    + """
.visible .entry k(.param .u64 in, .param .u64 out) { .reg .b32 %x, %v<4>; .reg .b64 %in, %out;
.shared .align 16 .b8 tile[16];
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %x, %ctaid.x; mad.wide.u32 %in, %x, 16, %in;
ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%in]; st.shared.v4.b32 [tile], {%v0, %v1, %v2, %v3}; fence.proxy.async.shared::cta;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%out], [tile], 16;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret; }
"""
)


def test_sums_of_floats(monkeypatch):
    """Bulk copies add floats in the order of CTAs, whichever is shown: 2^24 + 1 + 2 is 2^24 + 2, 2 + 2^24 + 1 is more."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)
    given, out = np.float32([[2**24] * 4, [1] * 4, [2] * 4]), np.zeros(4, np.float32)
    warpsim.load(BULK)["k"]((3,), (1,), (given, out), watchers=[Tracer([(2, 0, 0)])])

    assert out.tolist() == [2**24 + 2] * 4


def test_sums_of_floats_in_boxes(monkeypatch):
    """So do copies of boxes, whose instruction names no type."""
    monkeypatch.setattr(kernel_module, "ELSEWHERE", 0)
    given, out = np.float32([[2**24] * 4, [1] * 4, [2] * 4]), np.zeros(4, np.float32)
    text = BULK.replace(".param .u64 out)", ".param .align 64 .b8 out[128])").replace(
        "ld.param.u64 %out, [out];", "mov.b64 %out, out; cvta.param.u64 %out, %out;"
    )
    text = text.replace(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%out], [tile], 16;",
        "mov.u32 %x, 0; cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%out, {%x}], [tile];",
    )
    box = warpsim.TensorMap(out, global_dim=(4,), global_strides=(), box_dim=(4,))
    warpsim.load(text)["k"]((3,), (1,), (given, box), watchers=[Tracer([(2, 0, 0)])])

    assert out.tolist() == [2**24 + 2] * 4


def test_a_profile_of_parts_of_warps():
    """Loads of constants are not counted where the first lane of a warp is elsewhere."""
    text = (
        module_head("sm_90a")
        + """
.const .align 4 .u32 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.visible .entry k(.param .u64 out) { .reg .b32 %t, %v; .reg .b64 %out, %a, %d; .reg .pred %p;
ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0; @%p ret;
and.b32 %v, %t, 7; mul.wide.u32 %d, %v, 4; mov.u64 %a, table; add.u64 %a, %a, %d; ld.const.u32 %v, [%a];
mad.wide.u32 %out, %t, 4, %out; st.global.u32 [%out], %v; ret; }
"""
    )
    out = np.zeros(32, np.uint32)
    profile = warpsim.load(text)["k"]((1,), (32,), (out,), profile=True, engine="interpreter").profile

    assert out[1:].tolist() == [(t & 7) + 1 for t in range(1, 32)]
    assert profile.total.global_bytes == 31 * 4
