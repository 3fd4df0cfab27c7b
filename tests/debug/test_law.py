"""The law of sessions: forward to any step, back to another, on to the end: the same bytes, the same findings."""

import random
from pathlib import Path

import numpy as np
import pytest

import random_kernels
import warpsim
from engines import compiles
from random_kernels import WORDS
from state_equality import difference, seen
from warpsim.debug import DebugError, Session, motion, origins, timeline
from warpsim.host.cases import Case, run_case

ROOT = Path(__file__).parents[2]
SAMPLE = ("saxpy", "barrier_votes", "gemm_sparse_f16", "box_2d_128b")
LARGEST = 10**6
CASES = [
    pytest.param(path.parent, marks=[] if path.parent.name in SAMPLE else [pytest.mark.sweep], id=path.parent.name)
    for folder in ("programs", "tests/cases")
    for path in sorted((ROOT / folder).glob("*/case.json"))
]


def rules(result):
    """The findings of a run, but for how often each was met: that depends on which warps go together."""
    return sorted((f.rule, f.severity, f.line) for f in result.findings)


@pytest.mark.parametrize("path", CASES)
def test_there_and_back(path):
    """A recorded launch under a session that goes to and fro gives what the launch gives."""
    plain = run_case(path)
    if plain.instructions > LARGEST:
        pytest.skip("too many instructions")

    def launch(kernel, grid, block, args, **options):
        session = Session(kernel, grid, block, args, **options)
        session.stop_at_findings = False
        generator = random.Random(plain.instructions)
        looks = []
        early, late = sorted(generator.randrange(plain.instructions or 100) for _ in range(2))
        for step in (early, late, early, late):
            session.goto(step)
            looks.append(seen(session))
        assert looks[:2] == looks[2:]
        session.cont()
        if session.error is not None:
            raise session.error
        return session.result

    result = run_case(path, launch=launch)

    assert (result.ok, result.bits_equal) == (plain.ok, plain.bits_equal)
    assert rules(result) == rules(plain)


def going(path, engine):
    """A session of a recorded launch that runs past findings."""
    ready = Case.read(path).prepare()
    session = Session(ready.kernel, ready.grid, ready.block, ready.args, **{**ready.keywords, "engine": engine})
    session.stop_at_findings = False
    return session


BETWEEN_STOPS = {"saxpy": [], "barrier_votes": [], "scan_lookback": [pytest.mark.long]}


@compiles
@pytest.mark.parametrize(
    "path",
    [pytest.param(*p.values, marks=BETWEEN_STOPS.get(p.id, [pytest.mark.sweep]), id=p.id) for p in CASES],
)
def test_compiled_code_between_stops(path, monkeypatch):
    """Compiled code brings a session to the same states at the same steps as the interpreter, step by step."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    if run_case(path).instructions > LARGEST:
        pytest.skip("too many instructions")
    stepped, compiled = going(path, "interpreter"), going(path, "compiled")
    assert stepped.timeline.forward(hit=lambda *step: 0) == "end"
    last = stepped.timeline.last
    generator = random.Random(last)
    for step in sorted(generator.randrange(last) for _ in range(6)):
        stepped.timeline.restart()
        assert stepped.timeline.forward(step, hit=lambda *step: 0) == "target"
        stepped.goto(step)
        assert compiled.goto(step) == stepped.stop
        assert seen(compiled) == seen(stepped)
        compiled.focus(stepped.stop.focus.cta, stepped.stop.focus.warp, stepped.stop.focus.lane)
        stepped.focus(stepped.stop.focus.cta, stepped.stop.focus.warp, stepped.stop.focus.lane)
        assert compiled.back() == stepped.back()
    assert (compiled.cont().step, stepped.cont().step) == (last, last)
    if stepped.error is None:
        assert compiled.result.instructions == stepped.result.instructions


def of_random_kernel(made, engine):
    """A session of a random kernel that runs past findings."""
    given, work = np.arange(4 * WORDS, dtype=np.uint32) * 2654435761, np.zeros(WORDS, np.uint32)
    out = np.zeros(made.grid * made.block[0] * made.block[1], np.uint32)
    options = {"checks": made.checks, "on_finding": "collect", "max_instructions": 200_000, "engine": engine}
    cluster = (made.cluster,) if made.cluster else None
    kernel = warpsim.load(made.text)["k"]
    session = Session(kernel, (made.grid,), made.block, (given, work, out), cluster=cluster, **options)
    session.stop_at_findings = False
    return session


@compiles
@pytest.mark.parametrize(
    "seed", [4, 5, 14, 16, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 6, 9, 15))]
)
def test_compiled_code_between_stops_of_random_kernels(seed, monkeypatch):
    """The same for kernels that diverge, call, wait and fail."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    stepped, compiled = (
        of_random_kernel(random_kernels.kernel(seed), engine) for engine in ("interpreter", "compiled")
    )
    stepped.timeline.forward(hit=lambda *step: 0)
    last, error = stepped.timeline.last, str(stepped.timeline.error)
    generator = random.Random(last)
    for step in sorted(generator.randrange(last) for _ in range(4)):
        stepped.timeline.restart()
        stepped.timeline.forward(step, hit=lambda *step: 0)
        stepped.goto(step)
        assert compiled.goto(step) == stepped.stop
        assert seen(compiled) == seen(stepped)
    assert (compiled.cont().step, str(compiled.error)) == (last, error)


CONDITIONS = (
    "{a} > {b}",
    "{a} % 7 == 3 && threadIdx.x < 40",
    "({a} ^ {b}) & 1",
    "s32({a}) / 3 > {b} >> 2 || !{a}",
    "-{a} + 5 < ~{b}",
    "f32({a}) * 2 < f32({b})",
    "u8({a}) == u8({b})",
    "{a} << 3 != {b} - {a} * 4",
    "s16({a}) < -300 || s64({b}) == 12",
    "{a} == 0 && table[3] != {b}",
)
MOTIONS = ("cont", "cont", "reverse_cont", "cont", "cont", "reverse_cont", "reverse_cont", "cont")


def set_points(session, kind, generator):
    """Set points of a kind at random; what they are."""
    code = [i for i in session.program.functions["k"].code if i.span.line > 15]
    lines, a, b = [i.span.line for i in code], *(f"%r{generator.randrange(10)}" for _ in range(2))
    if kind == "break":
        for condition in generator.sample(CONDITIONS, 2):
            session.break_at(generator.choice(lines), condition.format(a=a, b=b))
    elif kind == "catch":
        session.catch(generator.choice(("arrival", "barrier")))
    elif kind == "register":
        session.goto(60)
        session.watch(a, scope=generator.choice(("lane", "warp", "any")))
    else:
        session.goto(60)
        arrays = [a.start for a in session.timeline.state.memory.allocations if a.data.nbytes >= 4 * WORDS]
        for place in ("shared.u32[{}]", f"global.u32[{generator.choice(arrays)} + {{}}]"):
            session.watch(place.format(4 * generator.randrange(8)), read=generator.random() < 0.5)


def stops(seed, engine, kind):
    """Where a session of a random kernel stops, what it sees there, and where that comes from."""
    generator, found = random.Random(seed), []
    session = of_random_kernel(random_kernels.kernel(seed), engine)
    set_points(session, kind, generator)
    register, place = f"%r{generator.randrange(10)}", f"shared.u32[{4 * generator.randrange(64)}]"
    for move in MOTIONS:
        stop = getattr(session, move)()
        values = [None if v is None else np.ma.getdata(v).tolist() for v in (stop.old, stop.new)]
        found.append((stop, stop.old is None, values, {n: p.hits for n, p in session.breakpoints.items()}))
        for what in (register, place):
            try:
                found.append(str(session.origin(what)))
            except DebugError as problem:
                found.append(str(problem))
    return found


def walk(seed, engine):
    """Where a session of a random kernel is after many steps of some threads."""
    generator, found = random.Random(seed), []
    session = of_random_kernel(random_kernels.kernel(seed), engine)
    for _ in range(6):
        found += [session.step(generator.randrange(2, 200)), session.warps()]
        session.focus(lane=generator.randrange(4))
        if session.timeline.ended or not any(session.context.lanes()):
            return found
    return found


@compiles
@pytest.mark.parametrize(
    "seed", [5, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 4, 6, 9, 14, 15, 16))]
)
def test_many_steps_of_random_kernels(seed, monkeypatch):
    """``step(n)`` takes the thread in focus as far in compiled code as step by step, in whatever way its warp parts."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    assert walk(seed, "compiled") == walk(seed, "interpreter")


QUICK = (4, "break"), (4, "register"), (4, "catch"), (5, "memory")
DEAR = (1, 2, 9)
"""Kernels of many steps, each of which the session without machine code looks at."""


def marks(seed, kind):
    """When a kernel and what is watched in it are run."""
    return [] if (seed, kind) in QUICK else pytest.mark.sweep if seed in DEAR else pytest.mark.long


@compiles
@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        pytest.param(seed, kind, marks=marks(seed, kind))
        for seed in (1, 2, 4, 5, 6, 9, 14, 15, 16)
        for kind in ("break", "register", "memory", "catch")
    ],
)
def test_stops_of_random_kernels(seed, kind, monkeypatch):
    """Sessions that run compiled code to what is watched stop where those do that look at every step."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    compiled = stops(seed, "compiled", kind)
    for module, name in ((motion, "places_of"), (origins, "writers")):
        monkeypatch.setattr(module, name, lambda *given: None)
    assert compiled == stops(seed, "interpreter", kind)


def test_many_steps_are_single_steps():
    """``step(n)`` ends where ``n`` steps end, also where the thread in focus exits on the way."""
    path = ROOT / "programs" / "saxpy"
    single = going(path, "interpreter")
    stops = [single.step() for _ in range(70)]
    for n in (1, 7, 19, 20, 21, 41, 70):
        assert going(path, "interpreter").step(n) == stops[n - 1]


HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [out];
"""
LOOP = (
    HEAD
    + """	mov.u32 %r1, 0;
	mov.u32 %r2, 1;
again:
	mad.lo.u32 %r2, %r2, 5, %r1;
	add.u32 %r1, %r1, 1;
	setp.lt.u32 %p1, %r1, 3000;
	@%p1 bra again;
	st.global.u32 [%rd1], %r2;
	ret;
}
"""
)


CLUSTER = (
    HEAD
    + """	mov.u32 %r1, %tid.x;
	and.b32 %r1, %r1, 7;
	mov.u32 %r2, 0;
	barrier.cluster.arrive;
	barrier.cluster.wait;
again:
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p1, %r2, %r1;
	@%p1 bra again;
	st.global.u32 [%rd1], %r2;
	ret;
}
"""
)


@compiles
def test_who_goes_on_where_the_last_warp_at_a_barrier_divides(monkeypatch):
    """The warp that a cluster's barrier waited for goes on until it divides: then those before it do, in compiled code, too."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    kernel, out = warpsim.load(CLUSTER)["k"], np.zeros(1, np.uint32)

    def went(engine, step):
        session = Session(kernel, (2,), (32,), (out,), cluster=(2,), checks=(), engine=engine)
        return session.goto(step)

    for step in (22, 24, 40):
        assert went("compiled", step) == went("interpreter", step)


@compiles
def test_looks_for_snapshots_are_late(monkeypatch):
    """Compiled code passes where a look for a snapshot is due, and stops before a step that is asked for."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")
    monkeypatch.setattr(timeline, "STRIDE", 16)
    monkeypatch.setattr(timeline, "BETWEEN_LOOKS", 0)
    taken = []
    monkeypatch.setattr(
        timeline.Timeline,
        "region_executed",
        lambda *told, do=timeline.Timeline.region_executed: [taken.append(told[-1]), do(*told)],
    )
    session = Session(warpsim.load(LOOP)["k"], (1,), (1,), (np.zeros(1, np.uint32),), engine="compiled")
    end = session.cont().step

    assert end == 12_005
    assert max(taken) > 10_000
    assert session.goto(7003).step == 7003
    assert session.evaluate("%r1")[0] == 1750


def test_snapshots_leave_no_trace(monkeypatch):
    """The state of a step does not depend on when snapshots were taken, which is a matter of time."""
    states = []
    monkeypatch.setattr(timeline, "STRIDE", 8)
    monkeypatch.setattr(timeline, "BETWEEN_LOOKS", 0)
    monkeypatch.setattr(timeline, "SNAPSHOT_SHARE", 0)
    for every in (0, 1e9):
        monkeypatch.setattr(timeline, "SNAPSHOT_EVERY", every)
        ready = Case.read(ROOT / "tests" / "cases" / "merges").prepare()
        session = Session(ready.kernel, ready.grid, ready.block, ready.args, **ready.keywords)
        session.goto(200)
        states.append((len(session.timeline.snapshots), session.timeline.state))
    (many, one), (few, other) = states

    assert (many > 10, few) == (True, 0)
    assert difference(one, other) is None
