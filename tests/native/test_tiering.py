"""When code is compiled: not in a short launch, behind it for the next ones where that was asked for, at once from the disk."""

import itertools
import os
import threading
import time
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

from warpsim import cache
from warpsim.native.compiling import queue
from warpsim.native.compiling.compiler import compiler
from warpsim.native.compiling.queue import CompileQueue, compile_queue
from warpsim.native.regions.options import Options, Outcome, Variant
from warpsim.native.runtime.compiled_region import CompiledRegion
from warpsim.native.runtime.inputs import InputKind
from warpsim.native.runtime.run import Runner
from warpsim.native.tiering import build as making
from warpsim.native.tiering import cost as costs
from warpsim.native.tiering import eligibility as serving
from warpsim.native.tiering.engine import CompiledEngine
from warpsim.native.tiering.enqueue import enqueue
from warpsim.native.tiering.entry_points import REST, WAITING, EntryPoint, Request

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %q;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
L: add.u32 %r1, %r1, SALT; add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, 300; @%q bra L;
mov.u32 %r3, %tid.x; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1; ret; }"""


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch, tmp_path, at_once):
    """A folder without objects, and the usual pace in a process that has run a while."""
    monkeypatch.delenv("WARPSIM_COMPILE")
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(serving, "LAUNCHES", -1.0)


def launch(module, engine, salt):
    """A launch, whose result is right."""
    words = np.zeros(64, np.uint32)
    module["k"]((1,), (64,), (words,), engine=engine)
    assert words.tolist() == [k + 300 * salt for k in range(64)]


def native(module):
    """What is known of the kernel's regions."""
    return module.image(module.device).plan("k").main.notes["native"]


def codes(module):
    """The regions that were compiled."""
    return [
        c for entry in native(module).entries.values() for c in entry.codes.values() if isinstance(c, CompiledRegion)
    ]


def test_behind_the_launches_and_from_the_disk():
    """Engine ``compiled`` interprets a short first launch, compiles behind the first ones, and at once where the object is kept."""
    module = warpsim.load(PTX.replace("SALT", "5"))
    for _ in range(8):
        launch(module, "compiled", 5)
        native(module).account.interpreted += 1.0
        assert compile_queue().wait(60)
    assert codes(module)

    again, before = warpsim.load(PTX.replace("SALT", "5")), compiler().compiled
    for _ in range(8):
        launch(again, "compiled", 5)
        native(again).account.interpreted += 0.1
        assert compile_queue().wait(60)  # which may hold the lock of the plans
    assert codes(again)
    assert compiler().compiled == before


def test_code_that_rests(done):
    """Code that lost to the interpreter does not run before its next check."""
    module = warpsim.load(PTX.replace("SALT", "7"))
    for _ in range(8):
        launch(module, "compiled", 7)
        native(module).account.interpreted += 1.0
        assert compile_queue().wait(60)
    assert done

    for entry in native(module).entries.values():
        entry.next_check = entry.visits + 100_000
    done.clear()
    launch(module, "compiled", 7)
    assert not done


LOOPS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %q;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
A: add.u32 %r1, %r1, 3; add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, 3000; @%q bra A;
B: xor.b32 %r1, %r1, %r2; sub.u32 %r2, %r2, 1; setp.ne.u32 %q, %r2, 0; @%q bra B;
mov.u32 %r3, %tid.x; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1; ret; }"""


def test_where_a_unit_is_left():
    """A region that has to stop in the second loop leaves it to another: what begins within the first one does not stand for it."""
    module = warpsim.load(LOOPS)
    expected = [k + 9000 ^ 3000 for k in range(32)]  # 1 ^ 2 ^ ... ^ n is n, if n is a multiple of four
    for _ in range(10):
        words = np.zeros(32, np.uint32)
        module["k"]((1,), (32,), (words,), engine="compiled")
        assert words.tolist() == expected
        assert compile_queue().wait(60)

    visits = sum(entry.visits for entry in native(module).entries.values())
    module["k"]((1,), (32,), (words,), engine="compiled")
    assert sum(entry.visits for entry in native(module).entries.values()) - visits < 10


PARTING = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %q;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.lo.u32 %r2, %r1, 2654435761; shr.u32 %r2, %r2, 25; mov.u32 %r3, 1;
A: mad.lo.u32 %r3, %r3, 5, %r1; sub.u32 %r2, %r2, 1; setp.ge.s32 %q, %r2, 0; @%q bra A;
mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r3; ret; }"""


def test_threads_that_have_parted_are_not_kept(monkeypatch):
    """Where groups rest is remembered for few of the sets of threads that a loop leaves behind."""
    kept, over = [], CompiledEngine.over
    monkeypatch.setattr(costs.Account, "allows", lambda *_: False)
    monkeypatch.setattr(CompiledEngine, "over", lambda self: kept.extend(self._resting) or over(self))
    warpsim.load(PARTING)["k"]((512,), (512,), (np.zeros(512, np.uint32),), engine="auto", checks="none")
    assert len(kept) > 1
    assert sum(threads.n for *_, threads in kept) <= 1 << 20


PART = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<5>; .reg .b64 %d<3>; .reg .pred %q;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
ld.global.u32 %r2, [%d1]; mov.u32 %r3, 0; bar.sync 0; setp.ge.u32 %q, %r1, 64; @%q bra E;
mul.lo.u32 %r3, %r2, 5; xor.b32 %r3, %r3, %r1; add.u32 %r3, %r3, %r2;
E: bar.sync 0; st.global.u32 [%d1], %r3; ret; }"""


def test_a_part_of_the_ctas():
    """What some warps run between barriers waits for the region that holds the barriers, not the other way round."""
    module = warpsim.load(PART)
    module["k"]((1,), (96,), (np.arange(96, dtype=np.uint32),), engine="compiled")
    profile = native(module)
    (begin,) = (place for place in profile.entries if place[:2] == (0, 0))
    (part,) = (place for place in profile.entries if place[0] == 1)
    assert begin[2:] != part[2:]
    for place in begin, part:
        making.form(profile, place, profile.entries[place])
        assert profile.entries[place].region is not None
    assert profile.covers(part)
    assert profile._around((*part[:2], *begin[2:])) == [begin]
    profile.entries[begin].codes["signature"] = object()
    assert profile.covers(part)  # which has not run
    profile.entries[begin].by_layout["layout"] = object()
    assert not profile.covers(part)


def test_a_loop_waits_for_the_whole_kernel():
    """A loop that its region may hold is compiled by itself only where that pays twice."""
    module = warpsim.load(PTX.replace("SALT", "23"))
    launch(module, "auto", 23)
    profile = native(module)
    (begin,) = (place for place in profile.entries if place[:2] == (0, 0))
    (loop,) = (place for place in profile.entries if place[0] == 1)
    engine = SimpleNamespace(_begin=begin)
    assert CompiledEngine._covered(engine, profile, loop)
    assert not CompiledEngine._covered(engine, profile, begin)
    making.form(profile, begin, profile.entries[begin])
    assert CompiledEngine._covered(engine, profile, loop)
    profile.entries[begin].put("signature", None)
    profile.entries[begin].ready = True
    assert CompiledEngine._covered(engine, profile, loop)
    profile.entries[begin].by_layout["layout"] = object()
    assert not CompiledEngine._covered(engine, profile, loop)
    profile.entries[begin].leave()
    assert not CompiledEngine._covered(engine, profile, loop)


def test_a_request_that_fails(monkeypatch):
    """Is told of once, its place left to the interpreter, and those behind it are served."""
    told, served = [], []
    monkeypatch.setattr(queue, "tell", lambda: told.append(1))
    monkeypatch.setattr("warpsim.native.tiering.enqueue.tell", lambda: told.append(1))
    entries = [EntryPoint(Options(alone=False)) for _ in range(2)]

    def compiles(request):
        if request.entry is entries[0]:
            raise MemoryError
        served.append(request)

    monkeypatch.setattr(making, "compile_queued", compiles)
    for entry in entries:
        entry.region, entry.formed, entry.pending, entry.codes["v"] = object(), True, True, WAITING
    requests = [Request(None, 0, entry, "v") for entry in entries]
    enqueue(requests)
    assert compile_queue().wait(10)
    assert (told, served) == ([1], requests[1:])
    assert (entries[0].region, entries[0].codes) == (None, {})
    assert not entries[0].pending
    assert not entries[1].pending


SQUARES = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<5>; .reg .b64 %d<3>; .reg .pred %q;
ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.lo.u32 %r3, %r1, %r1; mov.u32 %r2, 0; mov.u32 %r4, 0;
L: add.u32 %r4, %r4, %r3; add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, 300; @%q bra L;
mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r4; ret; }"""


@pytest.mark.parametrize(("register", "same"), [("%r4", True), ("%r2", False)])
def test_code_that_is_the_same(done, register, same):
    """A register that is the same in all lanes where a loop begins, and differs once a launch has come around it, needs no second code;
    one that differs in that launch alone does."""
    module, words = warpsim.load(SQUARES), np.zeros(64, np.uint32)
    module["k"]((1,), (64,), (words,))
    profile = native(module)
    ((place, entry),) = ((place, entry) for place, entry in profile.entries.items() if place[0] == 1)
    making.form(profile, place, entry)
    profile.account.interpreted = 1e9

    def compiled(limited=False, **more):
        names = [profile.plan.function.registers[key].name for key in entry.region.reads]
        kinds = {"%r1": InputKind("affine", (1, 0)), "%r3": InputKind("varying"), **more}
        signature = tuple(kinds.get(name, InputKind("uniform")) for name in names), Variant(False, 32, limited=limited)
        entry.codes[signature] = WAITING
        making.compile_queued(Request(profile, place, entry, signature, now=True))
        assert profile.records.code(place, entry.options, signature, entry.region) is not None
        return entry.codes[signature]

    code = compiled(**{register: InputKind("varying")})
    assert isinstance(code, CompiledRegion)
    assert (compiled() is code) == same
    assert compiled(limited=True) not in (None, code)
    assert compiled(**{"%r1": InputKind("affine", (2, 0))}) not in (None, code)
    module["k"]((1,), (64,), (words,))
    assert done
    assert words.tolist() == [300 * k * k for k in range(64)]


@pytest.fixture(params=[1, 2], ids=["one processor", "two"])
def processors(monkeypatch, request):
    """A machine that has no processor left for another thread, and one that has."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(request.param)), raising=False)
    costs.has_spare_core.cache_clear()
    yield request.param
    costs.has_spare_core.cache_clear()


def test_a_share_of_the_time(monkeypatch, processors):
    """Engine ``auto`` compiles when that takes a share of the time that the function took, not before: in the launch, or in a
    thread beside it."""
    monkeypatch.setattr("warpsim.native.tiering.engine.HOT", 0.001)
    salt = 20 + processors
    module = warpsim.load(PTX.replace("SALT", f"{salt}"))
    launch(module, "auto", salt)
    assert codes(module) == []

    native(module).account.interpreted = 100.0
    launch(module, "auto", salt)
    for _ in range(0 if processors == 1 else 8):
        assert compile_queue().wait(60)
        launch(module, "auto", salt)
    assert len(codes(module)) == 1
    assert 0 < native(module).account.compiled < 20


def test_a_module_read_anew(monkeypatch, processors):
    """It goes on with the account of its text where code is kept, and is launched for the first time where none is."""
    monkeypatch.setattr("warpsim.native.tiering.engine.HOT", 0.001)
    text = PTX.replace("SALT", f"{10 + processors}")
    first, again = warpsim.load(text), warpsim.load(text)
    launch(first, "auto", 10 + processors)
    native(first).account.interpreted = 100.0
    launch(again, "auto", 10 + processors)
    assert native(again).account is native(first).account
    for _ in range(0 if processors == 1 else 8):
        assert compile_queue().wait(60)
        launch(again, "auto", 10 + processors)
    assert len(codes(again)) == 1

    monkeypatch.setattr(cache, "cache_folder", lambda: None)
    launch(other := warpsim.load(text), "auto", 10 + processors)
    assert (native(other).account.launches, codes(other)) == (1, [])


@pytest.mark.parametrize("processors", [2], indirect=True)
def test_a_long_first_launch(monkeypatch, processors):
    """A launch does not wait for the thread, and goes on as machine code when that is there."""
    monkeypatch.setattr("warpsim.native.tiering.engine.HOT", 0.001)
    monkeypatch.setattr(costs, "STEP", 1.0)
    monkeypatch.setattr("warpsim.native.tiering.entry_points.STEP", 1.0)
    done = []
    run = Runner.run
    monkeypatch.setattr(Runner, "run", lambda *a, **k: done.append(run(*a, **k)) or done[-1])
    threads = []
    compile_module = making.compile_module
    monkeypatch.setattr(
        making, "compile_module", lambda made: threads.append(threading.current_thread()) or compile_module(made)
    )
    module = warpsim.load(PTX.replace("SALT", "9").replace("300", "1000000"))
    words = np.zeros(64, np.uint32)
    module["k"]((1,), (64,), (words,), engine="auto")
    assert words.tolist() == [k + 9_000_000 for k in range(64)]
    assert Outcome.DONE in done
    assert threading.main_thread() not in threads


def two_jobs():
    """A thread whose first job runs for a moment, the second waiting; and what is done."""
    jobs, begun, go, done = CompileQueue(), threading.Event(), threading.Event(), []

    def first():
        begun.set()
        go.wait(60)
        done.append("first")

    jobs.submit(first)
    jobs.submit(lambda: done.append("second"))
    assert begun.wait(60)
    threading.Timer(0.05, go.set).start()
    return jobs, done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_the_child_of_a_fork():
    """Waits for what runs, has none of its parent's jobs, and can compile."""
    jobs, done = two_jobs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that it has threads
        child = os.fork()
    if child == 0:
        idle = not jobs.busy
        jobs.submit(lambda: done.append("child"))
        good = idle and jobs.wait(60) and done[0] == "first" and done[-1] == "child"
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert jobs.wait(60)
    assert done == ["first", "second"]
    jobs.stop()


def test_a_busy_machine(monkeypatch):
    """Code is judged by the time of its own thread: that others take the processor does not condemn it."""
    monkeypatch.setattr("warpsim.native.tiering.engine.HOT", 0.001)
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr("warpsim.native.runtime.calls.time.perf_counter", lambda: next(hours))
    module = warpsim.load(PTX.replace("SALT", "7"))
    launch(module, "auto", 7)
    native(module).account.interpreted = 1e9
    for _ in range(12):
        launch(module, "auto", 7)
        assert compile_queue().wait(60)
    entries = native(module).entries.values()
    assert any(entry.faster for entry in entries)
    assert {entry.rest for entry in entries} == {REST}


def test_the_pace_of_the_interpreter(monkeypatch):
    """Code is compared with what interpreting has taken here, where that is less than what steps take as a rule."""
    now = itertools.chain([0.0, 0.004], itertools.cycle([0.0, 1.0]))
    monkeypatch.setattr("warpsim.native.tiering.engine.spent", now.__next__)
    module = warpsim.load(PTX.replace("SALT", "17"))
    launch(module, "auto", 17)
    profile = native(module)
    assert profile.pace == pytest.approx(0.004 / profile.account.interpreted)
    launch(module, "auto", 17)
    assert 0.25 < profile.pace < 1.0  # which was no slower

    trials = []
    monkeypatch.setattr(EntryPoint, "record_trial", lambda *given: trials.append(given))
    profile.account.interpreted = 1e9
    while not trials:
        launch(module, "auto", 17)
        assert compile_queue().wait(60)
    trials.clear()
    for profile.pace in 0.25, 0.75:
        launch(module, "auto", 17)
    (_, _, one), (_, _, other) = trials
    assert other - costs.LAUNCH == pytest.approx(3 * (one - costs.LAUNCH))


def test_the_pace_of_many_launches(monkeypatch):
    """Visits that a later launch accounts for, and launches of other threads, do not make the interpreter look faster."""
    monkeypatch.setattr(costs.Account, "allows", lambda *_: False)
    now = itertools.count(0.0, 0.004)
    monkeypatch.setattr("warpsim.native.tiering.engine.spent", now.__next__)
    module, paces = warpsim.load(PTX.replace("SALT", "19")), []
    for _ in range(40):
        launch(module, "auto", 19)
        paces.append(native(module).pace)
    assert min(paces) == pytest.approx(paces[0], rel=0.15)
    assert 0.3 < paces[0] < 1.0

    def over(self):
        native(module).account.interpreted += 1.0
        ends(self)

    ends = CompiledEngine.over
    monkeypatch.setattr(CompiledEngine, "over", over)
    launch(module, "auto", 19)
    assert native(module).pace == pytest.approx(paces[-1], rel=0.15)

    entry = next(iter(native(module).entries.values()))
    for entry.ready, pace in (True, pytest.approx(paces[-1], rel=0.15)), (False, 0.25):  # code tells nothing
        native(module).told(0.0, 10.0)
        assert native(module).pace == pace


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("pause", [0.0005, 0.016])
def test_a_launch_pauses_for_the_thread(monkeypatch, pause, away):
    """And goes on for twice as long, however long the system lets it sleep; for twenty times as long while the thread is in LLVM."""
    looks, pauses, jobs = itertools.count(), [], compile_queue()
    begun, over = threading.Event(), threading.Event()
    clock = SimpleNamespace(perf_counter=lambda: 1e-5 * next(looks) + pause * len(pauses), sleep=pauses.append)
    monkeypatch.setattr(jobs, "_pause", 0.0)
    monkeypatch.setattr(queue, "time", clock)

    def job():
        with jobs.away() if away else nullcontext():
            begun.set()
            over.wait(60)

    jobs.submit(job)
    assert begun.wait(60)
    launch(warpsim.load(PTX.replace("SALT", "13")), "auto", 13)
    assert pauses
    while clock.perf_counter() < 2.0:
        jobs.let_run()
    assert pause * len(pauses) == pytest.approx(2.0 / (21 if away else 3), rel=0.3)
    over.set()
    assert jobs.wait(60)


def test_launches_learn_when_the_thread_is_in_llvm(monkeypatch):
    """While it makes an object that is not in the cache."""
    away, the = [], compiler()
    monkeypatch.setattr("warpsim.native.compiling.compiler.read_object", lambda key: None)
    monkeypatch.setattr("warpsim.native.compiling.compiler.write_object", lambda key, data: None)
    monkeypatch.setattr(the, "_compile", lambda text, level: away.append(compile_queue()._away) or b"")
    the._object("of no use", 2)

    assert (away, compile_queue()._away) == ([True], False)


def test_a_job_that_fails(monkeypatch):
    """Is told of, and those behind it are run: otherwise launches would pause for ever."""
    told, done, jobs = [], [], CompileQueue()
    monkeypatch.setattr(threading, "excepthook", lambda problem: told.append(problem.exc_type))
    jobs.submit([].pop)
    jobs.submit(lambda: done.append("second"))
    assert jobs.wait(10)
    jobs.stop()
    assert (told, done) == ([IndexError], ["second"])


MULTIPLIES = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<6>; .reg .b64 %d<3>; .reg .pred %q;
ld.param.u64 %d1, [p]; mov.u32 %r1, 0; mov.u32 %r2, 0x3c003c00; mov.u32 %r3, 0;
L: mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r1, %r1}, {%r2, %r2}, {%r2}, {%r1, %r1};
add.u32 %r3, %r3, 1; setp.lt.u32 %q, %r3, 9; @%q bra L;
mov.u32 %r3, %tid.x; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1; ret; }"""


def test_products_take_their_time(monkeypatch, done):
    """Code that multiplies matrices is not held against what steps take that do not: the interpreter's products are no faster."""
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr("warpsim.native.runtime.calls.spent", lambda: next(hours))
    module = warpsim.load(MULTIPLIES)
    for _ in range(12):
        words = np.zeros(64, np.uint32)
        module["k"]((1,), (64,), (words,), engine="auto")
        assert (words == 0x54805480).all()  # 9 times 8
        native(module).account.interpreted = 1e9
        assert compile_queue().wait(60)
    done.clear()
    module["k"]((1,), (64,), (words,), engine="auto")
    assert len(done) == 1


def test_the_end_of_the_process():
    """What waits is dropped, and what runs is waited for."""
    jobs, done = two_jobs()
    jobs.stop()
    began = time.monotonic()
    jobs.submit(lambda: done.append("too late"))
    assert jobs.wait(60)
    assert time.monotonic() - began < 30
    assert done == ["first"]


def test_until_the_last_job():
    """There is something to compile while a job waits or runs."""
    jobs, go, busy = CompileQueue(), threading.Event(), []
    jobs.submit(lambda: go.wait(60))
    jobs.submit(lambda: busy.append(jobs.busy))
    go.set()
    assert jobs.wait(60)
    jobs.stop()
    assert [*busy, jobs.busy] == [True, False]


def test_a_process_that_does_not_tell_python():
    """Has no thread that it would end."""
    jobs, threads = CompileQueue(), []
    jobs.in_line = True
    jobs.submit(lambda: threads.append(threading.current_thread()))
    assert threads == [threading.current_thread()]


def test_the_account_of_a_later_process():
    """What took a while before counts as one launch."""
    short, long = costs.Account("short"), costs.Account("long")
    short.interpreted, long.interpreted = 0.01, 0.03
    short.keep()
    long.keep()
    assert [costs.Account(name).launches for name in ("short", "long", None)] == [0, 1, 0]


def test_a_call_in_each_launch_is_not_spared():
    """Code of launches that do little spares next to nothing, however many there are."""
    account = costs.Account()
    account.interpreted, account.launches = 1.0, 5000
    assert account.allows(0.6 * 8, 8.0)  # a second less 5000 calls of 0.08 ms
    assert not account.allows(0.61 * 8, 8.0)
    account.launches = 13000
    assert not account.allows(0.0, 8.0)


def test_the_launches_of_a_later_process():
    """A launch that took a while is one for the next process that launches the kernel."""
    text = PTX.replace("SALT", "6")
    for launches in (1, 2):
        costs.account_of.cache_clear()
        module = warpsim.load(text)
        launch(module, "compiled", 6)
        assert native(module).account.launches == launches
        native(module).account.interpreted = 1.0
        launch(module, "compiled", 6)
        assert compile_queue().wait(60)


@pytest.fixture
def made(monkeypatch):
    """The engines of launches in a process that has imported none yet."""
    found, taken = [], costs.Interpreted()
    monkeypatch.setattr(serving, "interpreted", lambda: taken)
    monkeypatch.setattr(CompiledEngine, "over", lambda self: found.append(self))
    return found


def test_a_short_launch(monkeypatch, made):
    """What engine ``auto`` needs is imported once launches have taken a while; every later launch has it from its beginning."""
    module = warpsim.load(PTX.replace("SALT", "8"))
    monkeypatch.setattr(serving, "LAUNCHES", 3600.0)
    launch(module, "auto", 8)
    assert made == []

    monkeypatch.setattr(serving, "LAUNCHES", -1.0)
    launch(module, "auto", 8)
    assert len(made) == 1

    monkeypatch.setattr(serving, "LAUNCHES", 3600.0)
    launch(module, "auto", 8)
    assert len(made) == 2


def test_a_launch_that_asks(monkeypatch, made):
    """One with engine ``compiled`` does not wait, nor does any after it."""
    module = warpsim.load(PTX.replace("SALT", "8"))
    monkeypatch.setattr(serving, "LAUNCHES", 3600.0)
    for count, engine in enumerate(("compiled", "auto"), 1):
        launch(module, engine, 8)
        assert len(made) == count
