"""What is proved of kernels, and what must not be."""

import json
import math
import re
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import warpsim
from docs.tools import faulty
from ptx_text import module_head
from warpsim.cli import main
from warpsim.host.cases import Case
from warpsim.machine.state.global_memory import GlobalMemory
from warpsim.proving import Verdict
from warpsim.proving.answers import RULES
from warpsim.proving.contents import Contents
from warpsim.proving.effort import Effort
from warpsim.proving.launches import Launching

ROOT = Path(__file__).parents[2]
PAIRS = sorted((ROOT / "tests" / "checks" / "pairs").glob("*/*.bad.ptx"))
PROPERTY = {rule: name for name, rules in RULES.items() for rule in rules}
EXPECT = re.compile(r"// expect: ([^/\n]*)")
EVERYTHING = dict.fromkeys(RULES, "proved")
SAXPY = ROOT / "programs" / "saxpy" / "kernel.ptx"


def broken_by(path):
    """The properties that a faulty program breaks, by what its comments say."""
    words = [w.split() for found in EXPECT.findall(path.read_text(encoding="utf-8")) for w in found.split(",")]
    return {PROPERTY[rule] for rule, *severity in words if rule in PROPERTY and severity != ["note"]}


BREAKING = [path for path in PAIRS if broken_by(path) and "none" not in faulty.Example.read(path).options]


def proof_of_pair(path):
    """The proof for a program in a file."""
    kernel, grid, block, args, cluster = faulty.launch_of(faulty.Example.read(path))
    return warpsim.prove(kernel, grid, block, args, cluster=cluster)


def proof_of(body, *, args, params=".param .u64 a", block=32, grid=1, **options):
    """The proof for a kernel of so many registers of each kind."""
    text = f"""{module_head("sm_90a", "8.3")}.visible .entry k({params}) {{ .reg .b32 %r<9>; .reg .b64 %x<9>; .reg .pred %p<4>;
    .shared .align 16 .b8 s[256]; .shared .b64 bar; {body} ret; }}"""
    return warpsim.prove(warpsim.load(text)["k"], grid, block, args, **options)


def said(proof):
    """The answers by property."""
    return {answer.property: answer.verdict.value for answer in proof.answers}


def test_faulty_pairs_exist():
    """Every property has pairs that break it."""
    assert {name for path in BREAKING for name in broken_by(path)} == set(RULES)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=f"{p.parent.name}/{p.name[:-8]}", marks=[pytest.mark.long] * bool(k % 40))
        for k, p in enumerate(BREAKING)
    ],
)
def test_a_faulty_program_is_not_proved(path):
    """What the rules find in a launch of a faulty program is never proved to be absent."""
    proof = proof_of_pair(path)

    assert {name for name in broken_by(path) if proof[name].verdict is Verdict.PROVED} == set()


LONGER = (
    "programs/cluster_reduce",
    "programs/copy_pipeline",
    "programs/gemm_tcgen05",
    "tests/cases/gemm_pingpong",
    "tests/cases/gemm_cp_async",
)


@pytest.mark.parametrize(
    "name",
    [
        "programs/saxpy",
        "programs/hello",
        "programs/gemm_sparse",
        *(pytest.param(n, marks=pytest.mark.long) for n in LONGER),
    ],
)
def test_programs_are_proved(name):
    """Programs whose sources are right by inspection."""
    ready = Case.read(ROOT / name).prepare()
    options = {key: ready.keywords[key] for key in ("shared_mem", "cluster", "device")}

    assert said(warpsim.prove(ready.kernel, ready.grid, ready.block, ready.args, **options)) == EVERYTHING


def test_a_tensor_map_in_global_memory():
    """What it holds is not known: the copy that uses it cannot be followed. One among the parameters is known."""
    memory = GlobalMemory()
    machine = SimpleNamespace(launch=SimpleNamespace(memory=memory))
    for address, unknown in ((memory.map(np.zeros(128, np.uint8)), True), (0x7B00_C000_0000, False)):
        if not unknown:
            memory.map(np.zeros(128, np.uint8), address=address)
        contents, copy = Contents(Effort.within(1)), SimpleNamespace(instruction=object())
        contents.map_used(machine, copy, np.array([address]), np.array([0]), None)
        assert bool(contents.strange) is unknown


def test_a_branch_on_memory_is_named():
    """Barriers on the sides of a branch that data decide diverge for some data: that is not proved, and the branch is named."""
    body = """ld.param.u64 %x1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %x2, %r1, 4; add.u64 %x1, %x1, %x2;
    ld.global.u32 %r2, [%x1]; setp.eq.u32 %p1, %r2, 0;
    @%p1 bra past;
    bar.sync 0;
    past: bar.sync 0;"""
    proof = proof_of(body, args=(np.zeros(32, np.uint32),))

    assert proof["barriers"].verdict is Verdict.UNKNOWN
    assert "bar.sync: which threads execute it follows from what memory holds" in proof["barriers"].findings[0].message
    assert "ld.global.u32" in proof["barriers"].findings[0].message


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ("atom.global.add.u32 %r2, [%x1], 1;", "the result of an atomic"),
        ("mov.u32 %r2, %clock;", "differs from run to run"),
        ("mov.u32 %r3, s; st.shared.u32 [%r3], 0; atom.shared.add.u32 %r2, [%r3], 1;", "the result of an atomic"),
        ("st.global.u32 [%x1], 0; ld.global.u32 %r2, [%x1];", "what memory holds"),
        ("ld.volatile.global.u32 %r2, [%x1];", "what"),
        (
            "mov.u32 %r3, bar; mbarrier.init.shared.b64 [%r3], 1; mbarrier.test_wait.parity.shared.b64 %p2, [%r3], 0; selp.u32 %r2, 1, 0, %p2;",
            "mbarrier",
        ),
    ],
)
def test_an_address_from_what_may_differ(made, what):
    """An address that follows from memory, from a clock or from the order of threads, and may lie beyond the array."""
    body = f"ld.param.u64 %x1, [a]; {made} and.b32 %r2, %r2, 63; mul.wide.u32 %x2, %r2, 4; add.u64 %x1, %x1, %x2; ld.global.u32 %r4, [%x1];"
    proof = proof_of(body, args=(np.zeros(32, np.uint32),), block=1)

    assert proof["bounds"].verdict is not Verdict.PROVED
    assert proof["bounds"].verdict is Verdict.REFUTED or what in proof["bounds"].findings[0].message


LOADED = """ld.param.u64 %x1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %x2, %r1, 4; add.u64 %x3, %x1, %x2; ld.global.u32 %r2, [%x3];
setp.eq.u32 %p1, %r2, 0; mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4; mov.u32 %r5, 0;"""


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("@%p1 bra past; st.shared.u32 [%r3], 1; past: bar.sync 0; ld.shared.u32 %r6, [%r3];", "proved"),
        ("@%p1 bra past; xor.b32 %r4, %r4, 4; mov.u32 %r3, s; add.u32 %r3, %r3, %r4; past: st.shared.u32 [%r3], 1;", "unknown"),
        ("@%p1 bra other; mov.u32 %r5, 1; bra both; other: mov.u32 %r5, 1; both: mul.lo.u32 %r6, %r1, %r5; mul.wide.u32 %x2, %r6, 4; add.u64 %x3, %x1, %x2; "
         "st.global.u32 [%x3], 0;", "proved"),
        ("again: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 9; @!%p2 bra past; add.u64 %x3, %x3, 0; ld.global.u32 %r2, [%x3]; "
         "setp.eq.u32 %p1, %r2, 0; @%p1 bra again; past: mov.u32 %r6, %r5;", "proved"),
        ("@!%p1 mov.u32 %r5, 64; mul.wide.u32 %x2, %r5, 4; add.u64 %x3, %x1, %x2; ld.global.u32 %r7, [%x3];", "unknown"),
        ("@%p1 ld.global.u32 %r7, [%x1+128];", "refuted"),
        ("@!%p1 ld.global.u32 %r7, [%x1+128];", "unknown"),
        ("@%p1 exit; ld.global.u32 %r7, [%x1+128];", "unknown"),
        pytest.param("@%p1 trap; st.global.u32 [%x3], 1;", "proved", marks=pytest.mark.skipif(not find_spec("z3"), reason="needs warpsim[prove]")),
    ],
)  # fmt: skip
def test_what_data_decide(body, known):
    """Either side is followed, whichever the contents given lead to; what holds on both is known behind them."""
    proof = proof_of(LOADED + body, args=(np.zeros(32, np.uint32),))

    assert proof.verdict.value == known


@pytest.mark.parametrize("stored", ["%r1", "%r2", "1"])
def test_stores_of_several_threads(stored):
    """Stores to one place are harmless if all store the same, whatever memory holds."""
    proof = proof_of(f"{LOADED} st.global.u32 [%x1+128], {stored};", args=(np.zeros(64, np.uint32),))

    assert proof["races"].verdict.value == {"%r1": "refuted", "%r2": "unknown", "1": "proved"}[stored]


SUM = "".join(f"shfl.sync.bfly.b32 %r6, %r2, {k}, 31, -1; add.u32 %r2, %r6, %r2;" for k in (16, 8, 4, 2, 1))


@pytest.mark.parametrize(
    "made",
    [
        "ld.global.u32 %r2, [%x1]; add.u32 %r2, %r2, 1;",
        "ld.global.u32 %r2, [%x1]; setp.gt.u32 %p2, %r2, 9; @%p2 bra past; add.u32 %r2, %r2, 1; past:",
        "shfl.sync.idx.b32 %r2, %r2, 3, 31, -1;",
        "atom.shared.add.u32 %r2, [s], 1;" + SUM,
    ],
)
def test_stores_of_one_unknown_value(made):
    """Threads that store what one of them has loaded, what equal data make of it, or the sum of what all have got, store the same."""
    proof = proof_of(f"{LOADED} {made} st.global.u32 [%x1+128], %r2;", args=(np.zeros(64, np.uint32),))

    assert said(proof) == EVERYTHING


def test_a_flag_is_not_trusted():
    """A flag may be read before it is set: what it guards is not ordered in all launches, though it is in those that run."""
    late = "add.u32 %r5, %r1, 1;" * 60
    body = f"""ld.param.u64 %x1, [a]; mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra second;
    st.global.u32 [%x1], 1; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%x1+4], 1; ret;
    second: {late} ld.acquire.gpu.global.u32 %r2, [%x1+4]; ld.global.u32 %r3, [%x1];"""
    proof = proof_of(body, args=(np.zeros(32, np.uint32),), block=1, grid=2)

    assert proof["races"].verdict is Verdict.UNKNOWN


WAIT = """mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 32; bar.sync 0; mov.u32 %r5, 0;
mbarrier.arrive.shared.b64 _, [%r1];
again: {lap} mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;
@!%p1 bra again;
ld.param.u64 %x1, [a]; mul.wide.u32 %x2, %r5, 4; add.u64 %x1, %x1, %x2; ld.global.u32 %r4, [%x1];"""


@pytest.mark.parametrize(("lap", "answer"), [("mov.u32 %r5, 3;", "proved"), ("add.u32 %r5, %r5, 1;", "unknown")])
def test_a_loop_that_waits(lap, answer):
    """A loop that only waits may go round as often as it likes; one that counts its laps leaves a number that nobody knows."""
    assert said(proof_of(WAIT.format(lap=lap), args=(np.zeros(32, np.uint32),))) == dict.fromkeys(RULES, answer)


LIBRARY = """mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 32; bar.sync 0; mov.u32 %r5, 3; mov.u32 %r6, 0; setp.eq.u32 %p2, %r6, 0;
mbarrier.arrive.shared.b64 %x3, [%r1]; mov.u64 %x4, %globaltimer; bra again;
more: add.u32 %r6, %r6, 1;
again: {lap} mbarrier.try_wait.shared.b64 %p1, [%r1], %x3; @%p1 bra past;
setp.lt.u32 %p2, %r6, 16; @%p2 bra more;
mov.u64 %x5, %globaltimer; sub.u64 %x5, %x5, %x4; setp.lt.u64 %p2, %x5, 1000; {late}
@%p2 bra again; nanosleep.u32 100; bra again;
past: {then} ld.param.u64 %x1, [a]; mul.wide.u32 %x2, %r5, 4; add.u64 %x1, %x1, %x2; ld.global.u32 %r4, [%x1];"""
"""A wait as libcu++ has it: for the phase of a state, counting its laps and looking at a clock."""


@pytest.mark.parametrize(
    ("changed", "answer"),
    [
        ({}, "proved"),
        ({"lap": "mov.u32 %r5, 7;"}, "proved"),
        ({"then": "mov.u32 %r5, %r6;"}, "unknown"),
        pytest.param({"late": "@!%p2 bra past;"}, "unknown", marks=pytest.mark.long),
        pytest.param({"late": "mov.u32 %r5, 900;"}, "unknown", marks=pytest.mark.long),
        pytest.param({"lap": "add.u32 %r5, %r6, 1;"}, "unknown", marks=pytest.mark.long),
        pytest.param({"lap": "mov.u32 %r5, 7; @%p2 bra on; mov.u32 %r5, 900; on:"}, "unknown", marks=pytest.mark.long),
    ],
)
def test_a_wait_of_a_library(changed, answer):
    """What its loop does meanwhile may leave nothing behind, and end nothing but itself."""
    body = LIBRARY.format(**{"lap": "", "late": "", "then": "", **changed})

    assert said(proof_of(body, args=(np.zeros(32, np.uint32),))) == dict.fromkeys(RULES, answer)


@pytest.mark.parametrize(
    "then",
    [
        "@%p2 bra past; ld.shared.u32 %r5, [%r3]; past:",
        pytest.param("ld.shared.u32 %r5, [%r3];", marks=pytest.mark.long),
    ],
)
def test_a_look_at_an_mbarrier_is_no_wait(then):
    """A test_wait that may be false orders nothing, though the copy has come in each launch that runs."""
    copy = """ld.param.u64 %x1, [a]; mov.u32 %r8, bar; mov.u32 %r3, s; mbarrier.init.shared.b64 [%r8], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 64;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%x1], 64, [%r8];"""
    look = f"mbarrier.test_wait.parity.shared.b64 %p2, [%r8], 0; {then}"
    wait = "again: mbarrier.test_wait.parity.shared.b64 %p1, [%r8], 0; @!%p1 bra again;"
    once = wait.replace("@!%p1 bra", "setp.eq.u32 %p2, %r8, 1; @%p2 bra")

    for text, proved in (
        (copy + look, False),
        (copy + once + then, False),
        (copy + wait + "ld.shared.u32 %r5, [%r3];", True),
    ):
        proof = proof_of(text, args=(np.zeros(16, np.uint32),), block=1)
        assert {proof[name].verdict is Verdict.PROVED for name in ("races", "asynchrony")} == {proved}


def test_a_refuted_property():
    """One thread too many: the launch that shows it has run, arrays are as they were, and other properties stay proved."""
    x, y = np.ones(100, np.float32), np.ones(99, np.float32)
    kernel = warpsim.load(SAXPY)["saxpy"]
    proof = warpsim.prove(kernel, 1, 128, (100, 2.0, x, y))

    assert said(proof) == {**EVERYTHING, "bounds": "refuted"}
    assert {f.rule for f in proof["bounds"].findings} == {"out-of-bounds"}
    assert proof.verdict is Verdict.REFUTED
    assert (y == 1).all()
    with pytest.raises(KeyError, match="speed"):
        proof["speed"]


@pytest.mark.parametrize(
    ("words", "status", "answer"),
    [
        ("replay saxpy", 0, "proved"),
        ("replay {cases}/bfs_level", 3, "unknown"),
        (
            "run {saxpy} --grid 1 --block 64 --arg i32:64 --arg f32:2 --arg zeros:f32:64 --arg zeros:f32:63",
            1,
            "refuted",
        ),
    ],
)
def test_the_command(words, status, answer, capsys):
    """The status and the document say the same."""
    words = words.format(saxpy=SAXPY, cases=ROOT / "tests" / "cases").split()

    assert main(["prove", *words, "--json"]) == status
    document = json.loads(capsys.readouterr().out)
    assert document["answer"] == answer
    assert [p["property"] for p in document["properties"]] == list(RULES)
    assert all(bool(p["findings"]) == (p["answer"] != "proved") for p in document["properties"])


def saxpy_within(low, high):
    """The proof for 100 elements, and any n in a range."""
    x = np.zeros(100, np.float32)
    return warpsim.prove(warpsim.load(SAXPY)["saxpy"], 1, 128, (100, 2.0, x, x.copy()), bounds={0: (low, high)})


def test_bounds_of_a_few():
    """A few launches are tried one by one, without a solver."""
    assert said(saxpy_within(99, 100)) == EVERYTHING
    refuted = saxpy_within(100, 103)
    assert refuted["bounds"].verdict is Verdict.REFUTED
    assert refuted.inputs == {"saxpy_param_0": 101}


def test_bounds_for_a_solver():
    """All n that fit the arrays are proved; the greatest that does not is launched."""
    pytest.importorskip("z3", reason="needs warpsim[prove]")
    assert said(saxpy_within(-5, 100)) == EVERYTHING
    refuted = saxpy_within(0, 101)
    assert refuted["bounds"].verdict is Verdict.REFUTED
    assert refuted.inputs == {"saxpy_param_0": 101}


DIGITS = """.reg .f32 %f<3>; .local .align 4 .b8 digits[28]; ld.param.u64 %x1, [a]; ld.global.f32 %f1, [%x1]; abs.ftz.f32 %f2, %f1;
setp.ltu.f32 %p1, %f2, {least}; @%p1 bra past;
mov.b32 %r1, %f1; shr.u32 %r1, %r1, 23; and.b32 %r1, %r1, 224; add.s32 %r1, %r1, -128; shr.u32 %r1, %r1, 3;
mov.u32 %r2, digits; sub.s32 %r2, %r2, %r1; ld.local.u32 %r3, [%r2+24]; past:"""


@pytest.mark.parametrize(("least", "bounds"), [("0f47CE4780", "proved"), ("0f3F800000", "unknown")])
def test_digits_that_a_float_chooses(least, bounds):
    """sinf reduces large arguments so: the exponent leads to the digits of 2/pi, in an array at the beginning of local memory, and the
    address wraps around at 32 bits. Smaller arguments lead beyond them."""
    pytest.importorskip("z3", reason="needs warpsim[prove]")

    assert said(proof_of(DIGITS.format(least=least), args=(np.zeros(1, np.float32),)))["bounds"] == bounds


@pytest.mark.parametrize(
    ("op", "needed"),
    [
        ("rem.s32 %r2, %r2, 32; add.s32 %r2, %r2, 31;", 63),
        ("div.s32 %r2, %r2, -67108864; add.s32 %r2, %r2, 32;", 65),
        pytest.param("rem.s32 %r2, %r2, 32; abs.s32 %r2, %r2;", 32, marks=pytest.mark.long),
        pytest.param("and.b32 %r2, %r2, 3; brev.b32 %r2, %r2; shr.u32 %r2, %r2, 30;", 4, marks=pytest.mark.long),
    ],
)
def test_arithmetic_for_a_solver(op, needed):
    """What a division leaves has the sign of the dividend, and quotients are rounded towards 0: so many words are enough, one fewer is
    not."""
    pytest.importorskip("z3", reason="needs warpsim[prove]")
    body = f"""ld.param.u64 %x1, [a]; ld.param.u64 %x2, [b]; ld.global.s32 %r2, [%x1]; {op} mul.wide.s32 %x3, %r2, 4;
    add.s64 %x2, %x2, %x3; ld.global.u32 %r3, [%x2];"""
    for words, bounds in ((needed, "proved"), (needed - 1, "unknown")):
        arrays = np.zeros(1, np.int32), np.zeros(words, np.int32)
        assert said(proof_of(body, args=arrays, params=".param .u64 a, .param .u64 b"))["bounds"] == bounds


def test_a_solver_without_time():
    """An answer that takes too long names the place where the time was over."""
    pytest.importorskip("z3", reason="needs warpsim[prove]")
    from warpsim.proving.ranges import answers_within

    kernel = warpsim.load(SAXPY)["saxpy"]
    args = 100, 2.0, np.zeros(100, np.float32), np.zeros(100, np.float32)
    with Launching(kernel, 1, 128, args, kernel.device(None)).begun({}) as state:
        found, _ = answers_within(state, {}, Effort.within(-1))

    assert {a.verdict for a in found} == {Verdict.UNKNOWN}
    assert {f.message for a in found for f in a.findings} == {
        "ld.param.u32: following all paths that lead here takes too long"
    }


@pytest.mark.filterwarnings("error")
def test_a_solver_with_any_time():
    """No number of seconds is too large for the clock that ends what takes too long."""
    pytest.importorskip("z3", reason="needs warpsim[prove]")
    from warpsim.proving.ranges import answers_within

    kernel = warpsim.load(SAXPY)["saxpy"]
    args = 100, 2.0, np.zeros(100, np.float32), np.zeros(100, np.float32)
    with Launching(kernel, 1, 128, args, kernel.device(None)).begun({}) as state:
        found, _ = answers_within(state, {}, Effort.within(math.inf))

    assert {a.verdict for a in found} == {Verdict.PROVED}


def test_a_solver_whose_count_starts_again():
    """What a question costs is known where the count of units passes what 32 bits hold."""
    z3 = pytest.importorskip("z3", reason="needs warpsim[prove]")

    class Worn(z3.Solver):
        counts = iter([2**32 - 400_000, 200_000])

        def statistics(self):
            return SimpleNamespace(get_key_value=lambda _: next(self.counts))

    effort = Effort.within(60)
    before = effort.asked
    assert effort.ask(Worn()) == z3.sat
    assert before - effort.asked == 600_000


STAGED = """.reg .b32 %n; .shared .align 16 .b8 t[256]; ld.param.u32 %n, [n]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, t;
add.u32 %r4, %r3, %r2; mov.u32 %r5, 0;
again: st.shared.u32 [%r4], %r5; {first} xor.b32 %r6, %r2, 252; add.u32 %r6, %r6, %r3; ld.shared.u32 %r7, [%r6];
{second} add.u32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, %n; @%p1 bra again;"""


@pytest.mark.parametrize(
    ("first", "second", "races"),
    [
        pytest.param("bar.sync 0;", "bar.sync 0;", "proved", marks=pytest.mark.long),
        pytest.param("bar.sync 0;", "", "refuted", marks=pytest.mark.long),
        ("", "bar.sync 0;", "refuted"),
    ],
)
def test_barriers_in_a_loop_for_a_solver(first, second, races):
    """A tile that is written and read in turns needs two barriers, however many laps there are."""
    pytest.importorskip("z3", reason="needs warpsim[prove]")
    body = STAGED.format(first=first, second=second)
    proof = proof_of(body, args=(1,), params=".param .u32 n", block=64, bounds={"n": (1, 100)})

    assert proof["races"].verdict.value == races


COUNTED = """ld.param.u64 %x1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %x2, %r1, 4; add.u64 %x1, %x1, %x2; ld.global.u32 %r2, [%x1];
mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r3; and.b32 %r2, %r2, 63; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %r3; mov.u32 %r5, 0;
again: {before} atom.shared.add.u32 %r6, [%r2], 1; {after} add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, {laps}; @%p1 bra again;
{last} ld.shared.u32 %r7, [%r4];"""


@pytest.mark.parametrize(
    ("changed", "proved"),
    [
        ({"after": "bar.sync 0;"}, True),
        ({"before": "bar.sync 0;"}, False),
        pytest.param({"before": "bar.sync 0;", "last": "bar.sync 0;"}, True, marks=pytest.mark.long),
        pytest.param({"after": "bar.warp.sync -1;"}, False, marks=pytest.mark.long),
        pytest.param({"after": "bar.sync 0;", "laps": "%r2"}, False, marks=pytest.mark.long),
        pytest.param({"before": "ld.shared.u32 %r7, [%r4];", "after": "bar.sync 0;"}, False, marks=pytest.mark.long),
    ],
)
def test_a_loop_that_is_left(changed, proved):
    """Who has left a loop has left it in the lap of the last barrier: its accesses and those of the loop are ordered, or not."""
    pytest.importorskip("z3", reason="needs warpsim[prove]")
    body = COUNTED.format(**{"before": "", "after": "", "last": "", "laps": "3", **changed})
    proof = proof_of(body, args=(np.zeros(64, np.uint32),), block=64)

    assert (proof["races"].verdict is Verdict.PROVED) is proved


@pytest.mark.long
@pytest.mark.parametrize("path", BREAKING, ids=lambda p: f"{p.parent.name}/{p.name[:-8]}")
def test_a_solver_does_not_prove_a_faulty_program(path):
    """The same with a solver alone, which does not see the launch."""
    pytest.importorskip("z3", reason="needs warpsim[prove]")
    from warpsim.proving.ranges import answers_within

    kernel, grid, block, args, cluster = faulty.launch_of(faulty.Example.read(path))
    with Launching(kernel, grid, block, args, kernel.device(None), 0, cluster).begun({}) as state:
        found, _ = answers_within(state, {}, Effort.within(60))

    assert {a.property for a in found if a.verdict is Verdict.PROVED} & broken_by(path) == set()


@pytest.mark.parametrize("bounds", [{"m": (0, 1)}, {2: (0, 1)}, {0: (2, 1)}, {0: 5}, {1: (0, 1)}])
def test_bounds_that_mean_nothing(bounds):
    """Unknown parameters, pointers, and what is no range."""
    x = np.zeros(1000, np.float32)
    with pytest.raises(warpsim.LaunchError, match="bounds of"):
        warpsim.prove(warpsim.load(SAXPY)["saxpy"], 4, 256, (1000, 2.0, x, x), bounds=bounds)
