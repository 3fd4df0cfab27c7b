"""A launch in parts gives what it gives in one piece, or runs in one piece."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np
import pytest

import warpsim
from engines import ENGINES, compiles
from ptx_text import module_head
from warpsim.cli.launching import results_of
from warpsim.host.cases import run_case
from warpsim.native.runtime import run as runs
from warpsim.parallel import processes
from warpsim.parallel.part import perform
from warpsim.parallel.processes import Processes, Threads

ROOT = Path(__file__).parent.parent.parent
SHORT = ("saxpy", "histogram", "softmax_rows", "barrier_votes")
CASES = [
    pytest.param(path.parent, marks=[pytest.mark.sweep] * (path.parent.name not in SHORT), id=path.parent.name)
    for folder in ("programs", "tests/cases")
    for path in sorted((ROOT / folder).glob("*/case.json"))
]
HEAD = module_head()


class Elsewhere(Executor):
    """Another machine: only bytes go there and come back. Calls numbered in ``lost`` never return."""

    def __init__(self, lost=()):
        self.calls, self.lost = 0, set(lost)

    def submit(self, fn, /, *args, **kwargs):
        """Call at once."""
        future = Future()
        self.calls += 1
        if self.calls - 1 in self.lost:
            future.set_exception(ConnectionError("the machine is gone"))
            return future
        sent = pickle.loads(pickle.dumps((fn, args, kwargs)))
        future.set_result(pickle.loads(pickle.dumps(sent[0](*sent[1], **sent[2]))))
        return future


def kernel(body, params=".param .u64 p", registers=".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;", head=HEAD):
    """A kernel ``k``; %rd1 is the address of the thread's word in ``p``, %r1 the thread's number in the grid."""
    return warpsim.load(
        f"""{head}.visible .entry k({params}) {{ {registers}
        ld.param.u64 %rd0, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r1, %r1, 32, %r2;
        mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd0, %rd1;
        {body}
        ret; }}"""
    )["k"]


@pytest.mark.parametrize("path", CASES)
def test_recorded_launches(path):
    """Recorded programs give the recorded bits in parts, too, with the same counts, findings and text."""
    alone = run_case(path, checks="default")
    parts = run_case(path, checks="default", executor=Elsewhere(), workers=3)

    assert parts.error is None or parts.error == alone.error
    assert parts.outputs == alone.outputs
    assert parts.instructions == alone.instructions
    assert parts.findings == alone.findings
    assert parts.stdout == alone.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_is_divided(engine):
    """CTAs that do not talk to each other really run elsewhere."""
    words, there = np.arange(32 * 12, dtype=np.uint32), Elsewhere()
    kernel("ld.global.u32 %r3, [%rd1]; mul.lo.u32 %r3, %r3, 3; st.global.u32 [%rd1], %r3;")(
        (12,), (32,), (words,), executor=there, workers=4, engine=engine
    )

    assert there.calls == 4
    assert np.array_equal(words, np.arange(32 * 12) * 3)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fresh", [True, False])
def test_what_parts_write_or_leave_undefined(engine, fresh):
    """The next launch knows of each byte, of new memory and of other: the first three words of four are written, the last is padding."""
    device, there = warpsim.Device("sm_90"), Elsewhere()
    words = device.empty(32 * 12 * 4, np.uint32) if fresh else device.array(np.zeros(32 * 12 * 4, np.uint32))
    device.memory.at(words.ptr).withheld = {}  # the host sees it by copies alone
    copies = "mul.wide.u32 %rd2, %r2, 16; mov.u64 %rd3, s; add.u64 %rd3, %rd3, %rd2; st.shared.v2.u32 [%rd3], {1, 2};"
    copies += (
        "st.shared.u32 [%rd3+8], 3; ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%rd3]; mad.wide.u32 %rd4, %r1, 16, %rd0;"
    )
    store = kernel(f".shared .align 16 .b8 s[512]; {copies} st.global.v4.u32 [%rd4], {{%r3, %r4, %r5, %r6}};")
    store(12, 32, (words,), device=device, executor=there, workers=4, engine=engine, checks="all-race")
    for word in range(4):
        load = f"ld.global.u32 %r3, [%rd0+{(32 * 11 + 5) * 16 + word * 4}];"
        uses = kernel(f"{load} mad.wide.u32 %rd2, %r3, 4, %rd0; ld.global.u32 %r4, [%rd2];")
        result = uses(1, 1, (words,), device=device, on_finding="collect")
        assert [found.rule for found in result.findings] == ["uninitialised"] * (word == 3)
    assert there.calls == 4


def test_two_ctas_are_divided():
    """A launch of two CTAs has two parts; one of one CTA has none."""
    for grid in (2, 1):
        words, there = np.arange(64, dtype=np.uint32), Elsewhere()
        kernel("st.global.u32 [%rd1], %r1;")(grid, 32, (words,), executor=there, workers=4)

        assert there.calls == (2 if grid == 2 else 0)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("add.u32", 66 * 32 + 7), ("max.s32", 11), ("min.u32", 0), ("or.b32", 15), ("xor.b32", 7), ("and.b32", 0)],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_integer_reductions_are_joined(engine, operation, expected):
    """Each thread of CTA i (0 to 11) reduces i into one word, which was 7; both operands of min and max have a share."""
    word, there = np.array([7], np.uint32), Elsewhere()
    kernel(f"mov.u32 %r3, %ctaid.x; red.global.{operation} [%rd0], %r3;")(
        (12,), (32,), (word,), executor=there, workers=4, engine=engine
    )

    assert there.calls == 4
    assert word[0] == expected


@pytest.mark.parametrize(
    "body",
    [
        "atom.global.add.u32 %r3, [%rd0], 1; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd3, %rd0, %rd3; st.global.u32 [%rd3+4], %r1;",
        "atom.global.exch.b32 %r3, [%rd0], %r1;",
        "red.global.add.f32 [%rd0], 0f3DCCCCCD;",
        "mov.b32 %r3, 0x2E662E66; red.global.add.noftz.f16x2 [%rd0], %r3;",
        "st.volatile.global.u32 [%rd1], %r1; ld.volatile.global.u32 %r3, [%rd0];",
        "mov.u32 %r3, %clock; st.global.u32 [%rd1], %r3;",
    ],
    ids=["ticket", "exchange", "float", "packed float", "volatile", "clock"],
)
def test_ctas_that_talk_are_kept_together(body):
    """Where CTAs may see each other's order, nothing is sent, and the result is that of one piece."""
    alone, parts, there = np.zeros(400, np.uint32), np.zeros(400, np.uint32), Elsewhere()
    k = kernel(body)
    k((12,), (32,), (alone,))
    k((12,), (32,), (parts,), executor=there, workers=4)

    assert there.calls == 0
    assert np.array_equal(alone, parts)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_word_that_another_part_reads(engine):
    """What the text does not tell, the bytes do: CTA i reads what CTA i - 1 writes, so the launch runs in one piece, with
    the race between them named as without parts."""
    k = kernel("st.global.u32 [%rd1+128], %r1; ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd1+4096], %r3;")
    results = []
    for options in ({}, {"executor": Elsewhere(), "workers": 4}):
        words = np.zeros(2048, np.uint32)
        for checks in ("default", "all"):
            result = k((12,), (32,), (words,), checks=checks, on_finding="collect", engine=engine, **options)
        results.append((words.tolist(), [(f.rule, f.line, f.cta, f.count) for f in result.findings]))

    assert results[0] == results[1]
    assert {rule for rule, *_ in results[1][1]} == {"race"}


@pytest.mark.parametrize("engine", ENGINES)
def test_parts_that_write_one_byte(engine):
    """Every CTA stores its number to one word: as in one piece, the last one's stays."""
    word = np.zeros(1, np.uint32)
    kernel("mov.u32 %r3, %ctaid.x; st.global.u32 [%rd0], %r3;")(
        (12,), (32,), (word,), executor=Elsewhere(), workers=4, engine=engine
    )

    assert word[0] == 11


def test_a_finding_ends_the_launch():
    """CTA 7 stores out of bounds: what the CTAs before it wrote is there, what those of later parts would write is not."""
    k = kernel(
        "mov.u32 %r3, %ctaid.x; setp.eq.u32 %p1, %r3, 7; @%p1 add.u64 %rd1, %rd1, 65536; st.global.u32 [%rd1], 1;"
    )
    words = np.zeros(32 * 12, np.uint32)
    with pytest.raises(warpsim.ExecutionError) as raised:
        k((12,), (32,), (words,), executor=Elsewhere(), workers=4)
    (finding,) = raised.value.findings

    assert (finding.rule, finding.cta) == ("out-of-bounds", (7, 0, 0))
    assert words[: 32 * 6].all()
    assert not words[32 * 9 :].any()


def test_the_budget_is_that_of_the_launch():
    """Twelve warps of nine instructions are over a limit of 100 together, though no part is alone."""
    k = kernel("st.global.u32 [%rd1], 1;")
    with pytest.raises(warpsim.ExecutionError, match="more than 80 warp-instructions"):
        k((12,), (32,), (np.zeros(400, np.uint32),), executor=Elsewhere(), workers=4, max_instructions=80)


@pytest.mark.parametrize("lost", [[0], [1, 2, 4], range(100)], ids=["one", "some", "all"])
def test_lost_workers(lost):
    """A part whose machine is lost is done by another, in the end by this one."""
    words = np.zeros(32 * 12, np.uint32)
    result = kernel("st.global.u32 [%rd1], %r1;")((12,), (32,), (words,), executor=Elsewhere(lost), workers=4)

    assert np.array_equal(words, np.arange(32 * 12))
    assert result.instructions == 12 * 8


def test_processes_and_one_that_dies():
    """Processes of this machine; one that is killed is replaced."""
    with Processes(1) as pool:
        first = pool.submit(os.getpid).result(60)
        dying = pool.submit(os._exit, 3)
        assert dying.exception(60) is not None
        words = np.zeros(64, np.uint32)
        kernel("st.global.u32 [%rd1], %r1;")((2,), (32,), (words,), executor=pool, workers=1)

        assert first != os.getpid()
        assert np.array_equal(words, np.arange(64))
        with pytest.raises(TypeError):
            pool.submit(perform).result(60)


@pytest.mark.parametrize("lost", [[], [0], range(100)], ids=["none", "one", "all"])
def test_lost_workers_of_a_replay(lost):
    """A case whose worker is lost is replayed by another, in the end here."""
    there = Elsewhere(lost)
    results = list(results_of(["saxpy", "histogram", "no such case"], {"executor": there, "workers": 2}))

    assert [(result.ok, readable) for result, readable in results] == [(True, True), (True, True), (False, False)]
    assert there.calls == {0: 2, 1: 3, 100: 4}[len(lost)]


@pytest.mark.parametrize("bad", [{"workers": 0}, {"workers": "two"}, {"executor": 5}])
def test_wrong_arguments(bad):
    """What is no number of workers and no executor is refused."""
    with pytest.raises(warpsim.LaunchError, match=next(iter(bad))):
        kernel("")((1,), (32,), (np.zeros(32, np.uint32),), **bad)


def test_what_a_worker_prints():
    """Text on a worker's standard output is no answer of its."""
    with Processes(1) as pool:
        assert pool.submit(print, "said", flush=True).result(60) is None
        assert pool.submit(abs, -3).result(60) == 3


class Scattering(Elsewhere):
    """Has a client that sends data to every worker beforehand, as Dask's does; ``gone``: and loses it."""

    def __init__(self, gone):
        super().__init__()
        self._client, self.sent, self.gone = self, [], gone

    def scatter(self, data, *, broadcast, hash):
        """Send; gives a name."""
        self.sent.append(pickle.loads(pickle.dumps(data)))
        return f"data {len(self.sent) - 1}"

    def submit(self, fn, part, memory):
        """Call at once, with what a name stands for."""
        if not isinstance(memory, str):
            return super().submit(fn, part, memory)
        assert len(pickle.dumps((fn, part, memory))) < 10_000
        if self.gone:
            self.lost.add(self.calls)
        return super().submit(fn, part, self.sent[int(memory.split()[1])])


@pytest.mark.parametrize("gone", [False, True])
def test_memory_is_scattered_once(gone):
    """Where an executor can send data to all workers, parts name it; where it is lost, they take it with them."""
    words, there = np.arange(4096, dtype=np.uint32), Scattering(gone)
    kernel("ld.global.u32 %r3, [%rd1]; mul.lo.u32 %r3, %r3, 3; st.global.u32 [%rd1], %r3;")(
        (12,), (32,), (words,), executor=there, workers=4
    )

    assert len(there.sent) == 1
    assert there.calls == (8 if gone else 4)
    assert np.array_equal(words[:384], np.arange(384) * 3)


class Kept(Elsewhere):
    """Keeps what parts were, and what came of them."""

    def __init__(self):
        super().__init__()
        self.parts, self.outcomes = [], []

    def submit(self, fn, /, *args, **kwargs):
        """Call at once."""
        self.parts.append(args[0])
        future = super().submit(fn, *args, **kwargs)
        self.outcomes.append(future.result())
        return future


def marked(marks, size):
    """A set of bytes as one bool for each."""
    return marks.bits(0, size)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Launches wait for whatever can be compiled."""
    monkeypatch.setenv("WARPSIM_COMPILE", "at-once")


@compiles
@pytest.mark.parametrize(
    "body",
    [
        "ld.global.u32 %r3, [%rd1]; ld.global.v2.u32 {%r4, %r5}, [%rd0+8192]; add.u32 %r3, %r3, %r4; st.global.u32 [%rd1], %r3;",
        # odd lanes store bytes that lie apart
        "and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 1; @%p1 st.global.u8 [%rd1+1], %r1; st.global.u16 [%rd1+8192], %r1;",
        # a loop over a column, and a lane's own place at its end
        "mov.u32 %r4, 0; mov.u64 %rd2, %rd1; L: ld.global.u32 %r3, [%rd2+8192]; add.u32 %r4, %r4, 1; add.u64 %rd2, %rd2, 1024;"
        " setp.lt.u32 %p1, %r4, 4; @%p1 bra L; st.global.u32 [%rd1], %r3;",
        "and.b32 %r3, %r1, 7; mul.wide.u32 %rd2, %r3, 4; add.u64 %rd2, %rd0, %rd2; ld.global.u32 %r4, [%rd1+8192];"
        " red.global.add.u32 [%rd2+4096], %r4; st.global.u32 [%rd1], %r4;",
    ],
    ids=["in place", "bytes", "loop", "reduction"],
)
def test_what_compiled_units_touch(body, monkeypatch):
    """Compiled regions tell exactly which bytes they have stored, and of what they read and reduced into at least all."""
    told, notify = [], runs.notify
    monkeypatch.setattr(runs, "notify", lambda *given: told.append(given) or notify(*given))
    found, counts = [], []
    for engine in ("interpreter", "compiled"):
        words, there = np.arange(4096, dtype=np.uint32), Kept()
        result = kernel(body)((12,), (32,), (words,), executor=there, workers=3, engine=engine, checks="none")
        found.append((words.tolist(), there.outcomes))
        counts.append((result.instructions, result.thread_instructions))

    assert told
    assert found[0][0] == found[1][0]
    assert counts[0] == counts[1]
    assert len(found[0][1]) == len(found[1][1]) == 3
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert {at: (c.marks.first, c.marks.last) for at, c in one.written.items()} == {
            at: (c.marks.first, c.marks.last) for at, c in other.written.items()
        }
        for at, change in one.written.items():
            assert np.array_equal(marked(change.marks, 16384), marked(other.written[at].marks, 16384))
        for exact, wide in (
            (one.read, other.read),
            *[({k: c.marks for k, c in o.reduced.items()} for o in (one, other))],
        ):
            assert exact.keys() == wide.keys()
            for at, marks in exact.items():
                assert not (marked(marks, 16384) & ~marked(wide[at], 16384)).any()


@pytest.mark.parametrize("engine", ENGINES)
def test_threads(engine):
    """Threads share the memory until they write; a launch after it finds what is there."""
    words = np.arange(32 * 12, dtype=np.uint32)
    k = kernel("ld.global.u32 %r3, [%rd1]; mul.lo.u32 %r3, %r3, 3; st.global.u32 [%rd1], %r3;")
    device = warpsim.Device("sm_80")
    kept = device.array(words)
    with Threads(2) as pool:
        for _ in range(2):
            k((12,), (32,), (words,), executor=pool, workers=4, engine=engine)
            k((12,), (32,), (kept,), executor=pool, workers=4, engine=engine, device=device)
    k((12,), (32,), (kept,), device=device)

    assert np.array_equal(words, np.arange(32 * 12) * 9)
    assert np.array_equal(kept.get(), np.arange(32 * 12) * 27)


def test_files_of_several_launches():
    """Processes map memory from files that are used again, for more and for less; nothing of them is left."""
    k = kernel("ld.global.u32 %r3, [%rd1]; add.u32 %r3, %r3, 1; st.global.u32 [%rd1], %r3;")
    with Processes(2) as pool:
        for size in (64, 4096, 64):
            words = np.arange(size, dtype=np.uint32)
            k((2,), (32,), (words,), executor=pool, workers=2)

            assert np.array_equal(words[:64], np.arange(64) + 1)
            assert np.array_equal(words[64:], np.arange(size)[64:])
        (path,) = pool.files.paths
        assert os.path.exists(path)

    assert not os.path.exists(path)


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
def test_files_of_a_killed_process(tmp_path):
    """What a killed process has left is deleted by the next; what is in use or young, and other files, stay."""
    killed = (
        "import os, signal, sys\nfrom warpsim.parallel import processes\nprocesses.IN_MEMORY = sys.argv[1]\n"
        "files = processes.Files()\nprint(files._take(), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    left = subprocess.run([sys.executable, "-c", killed, tmp_path], capture_output=True, text=True).stdout.strip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "IN_MEMORY", str(tmp_path))
        files = processes.Files()
        used = files._take()
        assert os.path.exists(left)  # young
        other = tmp_path / "warpsim-mine"
        other.write_bytes(b"")
        for path in (left, used, other):
            os.utime(path, (0, 0))
        processes.sweep(str(tmp_path))

    assert sorted(os.listdir(tmp_path)) == sorted([os.path.basename(used), "warpsim-mine"])
    files.end()
    assert os.listdir(tmp_path) == ["warpsim-mine"]


def test_arrays_in_a_file(tmp_path):
    """What is shipped through a file lies side by side in it."""
    given = [np.arange(n, dtype=np.uint8) + n for n in (5, 1, 100, 64)]
    path = tmp_path / "file"
    path.write_bytes(b"")
    places = processes._write(str(path), given)
    held = path.read_bytes()

    assert [held[at : at + size] for at, size in places] == [array.tobytes() for array in given]
