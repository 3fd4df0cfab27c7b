"""Rules of asynchronous operations: correct programs that are silent, and what changes when one line is changed.

Each program runs with eager and with late effects and has to give the expected values both times.
"""

import numpy as np
import pytest

import warpsim
from asynchronous_kernels import (
    BULK,
    BULK_STORE,
    CP_ASYNC,
    CP_ASYNC_MBARRIER,
    HEAD,
    TAIL,
    TENSOR,
    WGMMA,
    edited,
    line_of,
)
from docs.tools import faulty
from warpsim.checks.undefined_products import EARLY
from warpsim.host.tensor_map import TensorMap

INPUT = np.arange(512, dtype=np.uint32)
CORRECT = {
    "wgmma": (WGMMA, np.full(512, 33, np.float32).view(np.uint32)),
    "cp.async": (CP_ASYNC, INPUT),
    "cp.async with mbarrier": (CP_ASYNC_MBARRIER, INPUT),
    "bulk": (BULK, INPUT),
    "tensor": (TENSOR, INPUT),
    "bulk store": (BULK_STORE, INPUT),
}


def launch(program, grid=1, **options):
    """The output of a launch of CTAs of 128 threads, and its findings."""
    out = np.zeros(512, np.uint32)
    source = INPUT.copy()
    tensor = TensorMap(source, global_dim=[32, 16], global_strides=[128], box_dim=[32, 16])
    result = warpsim.load(program)["k"](grid, 128, (out, source, tensor), **options)
    return out, result.findings


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize("name", CORRECT)
def test_correct_programs(name, effects):
    """Correct programs give the same values with early and late effects, and nothing is reported."""
    program, expected = CORRECT[name]
    out, findings = launch(program, checks="all", async_effects=effects)

    assert out.tolist() == expected.tolist()
    assert [f.headline() for f in findings if f.severity == "error"] == []


def test_one_lane_reaches_a_copy():
    """Of 128 words that are stored in no order, the last alone is where a copy in flight writes."""
    copy = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+2048], [%rd2], 2048, [%r20];"
    store = "xor.b32 %r6, %r3, 80; add.u32 %r6, %r6, %r2; st.shared.b32 [%r6+16], %r1;"
    _, (finding,) = launch(edited(BULK, {"copy": copy, "early": store}), checks={EARLY}, on_finding="collect")

    assert (finding.rule, finding.warp, finding.lanes) == (EARLY, 3, (122 - 96,))


FIRST = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd7, %rd8, %p2, 1, 1, 0, 0;"


VALUES = [
    (WGMMA, {"wait": ""}),
    (WGMMA, {"commit": ""}),
    (WGMMA, {"early": "mov.b32 %r6, 0;"}),
    (WGMMA, {"early": "st.shared.b32 [%r4+2048], %r1;"}),
    (CP_ASYNC, {"wait": ""}),
    (CP_ASYNC, {"commit": ""}),
    (CP_ASYNC_MBARRIER, {"wait": "AGAIN: setp.eq.u32 %p3, %r1, %r1;"}),
    (BULK, {"wait": "AGAIN: setp.eq.u32 %p3, %r1, %r1;"}),
    (BULK_STORE, {"wait": ""}),
    (BULK_STORE, {"early": "st.shared.b32 [%r4], %r1;"}),
]


@pytest.mark.parametrize(("program", "changes"), VALUES)
def test_late_effects_show_faults_in_the_values(program, changes):
    """Without checks, a missing wait or an early reuse changes the result of every run with late effects."""
    right = next(expected for text, expected in CORRECT.values() if text is program)
    out, _ = launch(edited(program, changes), checks="none", async_effects="at_wait")

    assert out.tolist() != right.tolist()


def test_poison_in_flight():
    """Accumulators in flight read as a recognisable pattern."""
    out, _ = launch(edited(WGMMA, {"wait": ""}), checks="none", async_effects="at_wait")

    assert set(out.tolist()) == {0xFFFADEAD}


def test_hidden_initialisation_is_a_note():
    """An mbarrier that only a CTA barrier made visible works, with a note."""
    program = edited(BULK, {"visible": ""})
    out, findings = launch(program, checks="all")

    assert out.tolist() == INPUT.tolist()
    assert severities(findings) == [("mbarrier", "note")]
    assert launch(program)[1] == launch(program, checks="default+race")[1] == ()


@pytest.mark.parametrize("missing", range(4))
def test_hidden_initialisation_in_one_cta(missing):
    """Of three CTAs that run side by side, one has no fence; a fence of others is none of its own."""
    guard = f"mov.u32 %r11, %ctaid.x; setp.ne.and.u32 %p4, %r11, {missing}, %p1;"
    program = edited(BULK, {"visible": f"{guard}\n@%p4 fence.mbarrier_init.release.cluster;"})
    _, findings = launch(program, grid=3, checks="all")

    assert [(f.rule, f.severity) for f in findings if f.rule == "mbarrier"] == [("mbarrier", "note")] * (missing < 3)


def test_who_touched_the_register():
    """A missing fence names the instruction behind the last one, and what the assembler says of it."""
    text = edited(WGMMA, {"fence": "wgmma.fence.sync.aligned;", "first": "add.f32 %f2, %f1, %f1;//@add\n" + FIRST})
    with pytest.raises(warpsim.ExecutionError) as caught:
        launch(text)
    (found,) = caught.value.findings

    assert (found.line, found.other.line) == (line_of(text, "first"), line_of(text, "add"))
    assert "%f1" in found.message
    assert "C7519" in found.advice


def test_other_party():
    """A register that is read too early names the wgmma that uses it."""
    text = edited(WGMMA, {"wait": ""})
    with pytest.raises(warpsim.ExecutionError) as caught:
        launch(text)

    assert caught.value.findings[0].other.line == line_of(text, "second")


def test_warps_at_different_barriers():
    """One bar.sync with a barrier number for each pair of warps."""
    body = """
    shr.u32 %r5, %r1, 6; add.u32 %r5, %r5, 1;
    st.shared.b32 [%r4], %r1;
    bar.sync %r5, 64;
    xor.b32 %r6, %r4, 512; ld.shared.b32 %r7, [%r6];
    st.global.b32 [%rd4], %r7;
    """
    out, _ = launch(HEAD + body + TAIL, checks="all")

    assert out[::4].tolist() == [t ^ 32 for t in range(128)]


@pytest.mark.parametrize("source", ["0f3F800000", "%f1"])
def test_moves_past_the_fence_are_a_note(source):
    """Compilers place copies there, and the assembler puts a fence of its own after them."""
    program = edited(WGMMA, {"fence": f"wgmma.fence.sync.aligned; mov.f32 %f2, {source};"})
    out, findings = launch(program, checks="all")

    assert out.tolist() == CORRECT["wgmma"][1].tolist()
    assert [(f.rule, f.severity, f.line) for f in findings] == [
        ("wgmma-missing-fence", "note", line_of(program, "first"))
    ]


def severities(findings):
    """Rule and severity of each."""
    return [(f.rule, f.severity) for f in findings]


def test_operands_made_past_the_fence_are_a_note():
    """Compilers make A there, behind the fence of its group; without a fence of its own it is an error."""
    made = "add.u32 %r5, %r5, 0; add.u32 %r8, %r5, 0;"
    program = edited(WGMMA, {"fence": f"wgmma.fence.sync.aligned; {made}"})
    out, findings = launch(program, checks="all")

    assert out.tolist() == CORRECT["wgmma"][1].tolist()
    assert severities(findings) == [("wgmma-missing-fence", "note")]
    with pytest.raises(warpsim.ExecutionError):
        launch(edited(WGMMA, {"fence": f"wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; {made}"}))


def test_mbarriers_made_again():
    """Compilers make an object where another one was that nobody used, a barrier later, and put data there."""
    again = "bar.sync 0; @%p1 mbarrier.init.shared.b64 [%r20], 1;"
    out, findings = launch(edited(BULK, {"init2": again}), checks="all")

    assert out.tolist() == CORRECT["bulk"][1].tolist()
    assert severities(findings) == [("mbarrier", "note")]
    used = "bar.sync 0; @%p1 mbarrier.arrive.shared.b64 _, [%r20]; " + again
    twice = {
        "init": "bar.sync 0; @%p1 mbarrier.init.shared.b64 [%r20], 1;",
        "init2": again.removeprefix("bar.sync 0; "),
    }
    for changes in ({"init2": used}, twice, {**twice, "init2": again + " " + twice["init2"]}):
        with pytest.raises(warpsim.ExecutionError, match="already initialised"):
            launch(edited(BULK, changes))


HANDED = (
    HEAD
    + """
@%p1 mbarrier.init.shared.b64 [%r20], 1;
@%p1 mbarrier.init.shared.b64 [%r20+8], 128;
@%p1 fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.u32 %r21, 0;
NEXT: @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r20], 2048;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 2048, [%r20];
FULL: mbarrier.try_wait.parity.shared.b64 %p3, [%r20], %r21; @!%p3 bra FULL;
ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r4];
//@read
mbarrier.arrive.shared.b64 _, [%r20+8];
EMPTY: mbarrier.try_wait.parity.shared.b64 %p3, [%r20+8], %r21; @!%p3 bra EMPTY;
add.u32 %r21, %r21, 1; setp.lt.u32 %p4, %r21, 2; @%p4 bra NEXT;
st.global.v4.b32 [%rd4], {%r5, %r6, %r7, %r8};
"""
    + TAIL
)


def test_stages_handed_over_by_an_mbarrier():
    """A bulk load over what was read, without a proxy fence: a note, since libraries do so; behind a barrier a warning."""
    out, findings = launch(HANDED, checks="all")

    assert out.tolist() == INPUT.tolist()
    assert severities(findings) == [("proxy-fence", "note")]
    assert launch(edited(HANDED, {"read": "fence.proxy.async;"}))[1] == ()
    _, findings = launch(edited(HANDED, {"read": "bar.sync 0;"}), checks="all")
    assert severities(findings) == [("proxy-fence", "warning")]


def test_data_where_an_mbarrier_was():
    """No fence stands between the mbarrier.init of an object that nobody used and the copy over it: a note."""
    early = "@%p1 mbarrier.init.shared.b64 [%r2+8], 1;"
    for more in ("", "@%p1 mbarrier.inval.shared.b64 [%r2+8];"):
        _, findings = launch(
            edited(BULK, {"init": early + more + "@%p1 mbarrier.init.shared.b64 [%r20], 1;"}), checks="all"
        )

        assert severities(findings) == [("proxy-fence", "note")]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_accumulators_in_flight_may_be_renamed(effects):
    """A move between accumulators in flight, as compilers leave it at the end of loops, is no use of them."""
    moves = "mov.f32 %f5, %f1; mov.f32 %f6, %f2; mov.f32 %f7, %f3; mov.f32 %f8, %f4;"
    second = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f5, %f6, %f7, %f8}, {%r5, %r6, %r7, %r8}, %rd8, %p2, 1, 1, 0;"
    store = "st.global.v4.f32 [%rd4], {%f5, %f6, %f7, %f8};"
    out, findings = launch(edited(WGMMA, {"second": moves + second, "store": store}), async_effects=effects)

    assert out.tolist() == CORRECT["wgmma"][1].tolist()
    assert findings == ()


HALVES = {
    "second": "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r30, %r31}, %rd7, %rd8, %p2, 1, 1, 0, 0;",
    "fence": "mov.b32 %r30, 0; mov.b32 %r31, 0; wgmma.fence.sync.aligned;",
    "early": "mov.b32 {%h1, %h2}, %r30; mov.b32 {%h3, %h4}, %r31;",
    "late": "mov.b32 %r34, {%h1, %h2}; mov.b32 %r35, {%h3, %h4};",
    "store": "st.global.v4.b32 [%rd4], {%r34, %r35, %r34, %r35};",
}
SIXTEEN = 4 * [0x4C004C00]
"""Sums of 16 products of ones, as f16."""


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"early": "mov.b32 {%h1, %h2}, %r30; mov.b32 {%h3, %h4}, %r31;" + HALVES["late"], "late": ""},  # packed early
        {"early": "mov.b32 %r34, %r30; mov.b32 %r35, %r31;", "late": ""},  # not into accumulators
    ],
)
def test_accumulators_in_flight_may_be_unpacked(change, effects):
    """Unpacking and packing between commit and wait are renames, as LLVM places them; ptxas serialises nothing (no C7514)."""
    text = edited(WGMMA, HALVES | change).replace(".reg .pred", ".reg .b16 %h<8>; .reg .pred")
    out, findings = launch(text, checks="all", async_effects=effects)

    assert out[:4].tolist() == SIXTEEN
    assert findings == ()


@pytest.mark.parametrize("use", ["add.f16 %h1, %h1, %h1;", "st.global.b16 [%rd4], %h2;", "mov.b32 %r30, {%h1, %h7};"])
def test_halves_in_flight_are_used(use):
    """What was unpacked from an accumulator in flight is in flight."""
    early = HALVES["early"] + use
    text = edited(WGMMA, HALVES | {"early": "mov.b16 %h7, 0; " + early}).replace(
        ".reg .pred", ".reg .b16 %h<8>; .reg .pred"
    )
    with pytest.raises(warpsim.ExecutionError) as caught:
        launch(text)

    assert caught.value.findings[0].rule == "wgmma-in-flight"
    assert caught.value.findings[0].line == line_of(text, "early")


def test_a_guard_that_nobody_passes():
    """An instruction that no thread executes does not touch its registers."""
    text = edited(WGMMA, {"early": "setp.eq.u32 %p5, %r1, 5000; @%p5 mov.f32 %f3, 0f00000000;"})

    assert launch(text)[1] == ()


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_copies_that_start_while_others_wait(effects):
    """Threads that sleep at an mbarrier wake for a copy that is started, however late its effect."""
    delay = """@!%p1 bra AGAIN; mov.u32 %r30, 0; LATER: ld.volatile.shared.b32 %r31, [%r20+8]; add.u32 %r30, %r30, 1;
    setp.lt.u32 %p6, %r30, 50; @%p6 bra LATER;"""
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 2048, [%r20];"
    init = "@%p1 mbarrier.init.shared.b64 [%r20], 1; @%p1 st.shared.b64 [%r20+8], 0;"
    out, _ = launch(edited(BULK, {"init": init, "copy": delay + copy}), async_effects=effects)

    assert out.tolist() == INPUT.tolist()


def test_objects_of_each_cta():
    """CTAs that initialise objects of their own at one address, at different times, do so once; what is hidden is said once of
    each object, wherever it is used."""
    apart = "mov.u32 %r30, %ctaid.x; setp.eq.u32 %p5, %r30, 1; @%p5 bra OTHER; @%p1 mbarrier.init.shared.b64 [%r20], 1; bra BOTH;\n"
    apart += "OTHER: bar.sync 1; @%p1 mbarrier.init.shared.b64 [%r20], 1;\nBOTH:"
    stored = "setp.eq.u32 %p6, %r30, 1; @%p6 st.global.v4.b32 [%rd4], {%r5, %r6, %r7, %r8};"
    program = edited(BULK, {"init": apart}).replace("st.global.v4.b32 [%rd4], {%r5, %r6, %r7, %r8};", stored)
    out, findings = launch(program, checks="all", grid=2)

    assert out.tolist() == INPUT.tolist()
    assert findings == ()
    copy = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+{0}], [%rd2+{0}], 1024, [%r20];"
    program = edited(program, {"visible": "", "copy": copy.format(0) + "\n" + copy.format(1024)})
    out, findings = launch(program, checks="all", grid=2)
    assert out.tolist() == INPUT.tolist()
    assert severities(findings) == [("mbarrier", "note")]


OWN = "setp.eq.u32 %p0, %cta, 0; not.pred %p1, %p0; and.pred %p1, %p1, %first;\n"  # %p1: the first thread of CTA 1
INIT = "@{} mbarrier.init.shared.b64 [%bar], 2;\n"
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%a], 16, [%bar];"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            INIT.format("%first") + "bar.sync 0; @%p1 mbarrier.arrive.shared.b64 %x1, [%bar];" + INIT.format("%p1"),
            ["error"],
        ),
        (INIT.format("%first") + "@!%p0 bra L; bar.sync 0;\nL:" + INIT.format("%p1"), ["error"]),
        ("@%p0 bra L; bar.sync 0;\nL:" + INIT.format("%first") + INIT.format("%p1"), ["error"]),
        (INIT.format("%first") + "@%p0 bra L; bar.sync 0;\nL:" + INIT.format("%p1"), ["note"]),
        (INIT.format("%first") + "@%p1 fence.mbarrier_init.release.cluster; bar.sync 0; @%p1 " + COPY, []),
        (INIT.format("%first") + "@%p0 fence.mbarrier_init.release.cluster; bar.sync 0; @%p1 " + COPY, ["note"]),
        (INIT.format("%first") + "@%p1 mbarrier.inval.shared.b64 [%bar]; bar.sync 0;" + INIT.format("%p1"), []),
        (INIT.format("%first") + "@%p1 mbarrier.inval.shared.b64 [%bar];" + INIT.format("%first"), ["error"]),
        (INIT.format("%first") + "bar.sync 0;" + INIT.format("%p1") + INIT.format("%p1"), ["note", "error"]),
    ],
    ids=[
        "used",
        "barrier of another",
        "barrier before",
        "a barrier",
        "own fence",
        "fence of another",
        "removed",
        "another removed",
        "twice",
    ],
)
def test_objects_of_the_second_cta(program, expected):
    """An object of CTA 1 is held against what threads of that CTA have done to it."""
    found = faulty.findings(faulty.Example.of(OWN + program, "grid=2"))

    assert severities(found) == [("mbarrier", severity) for severity in expected]


def test_tiles_are_stored_again_in_every_cta():
    """A warpgroup that has waited for its wgmma writes to the tiles that it read, in each CTA."""
    again = "st.shared.v4.b32 [%r4], {%r5, %r5, %r5, %r5};"
    stored = "mov.u32 %r30, %ctaid.x; setp.eq.u32 %p5, %r30, 1; @%p5 st.global.v4.f32 [%rd4], {%f1, %f2, %f3, %f4};"
    program = edited(WGMMA, {"late": again, "store": stored})
    for grid in (1, 3):
        assert launch(program, checks="all", grid=grid)[1] == ()
    with pytest.raises(warpsim.ExecutionError, match=r"async-smem-overwrite|race"):
        launch(edited(program, {"late": "", "issued": again.replace("r5", "r1")}), checks="all", grid=3)


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_sources_are_free_in_each_cta(effects):
    """A CTA stores again where its bulk copy has read, while that of another CTA has not been waited for."""
    reuse = "@%p1 cp.async.bulk.wait_group.read 0;\nbar.sync 0;\nst.shared.b32 [%r4], %r1;\n"
    wait = f"mov.u32 %r30, %ctaid.x; setp.eq.u32 %p5, %r30, 1; @%p5 bra OTHER;\n{reuse} bra DONE;\nOTHER: bar.sync 1;\n{reuse}DONE:"
    program = edited(BULK_STORE, {"wait": wait, "reuse": ""})

    assert launch(program, grid=2, async_effects=effects)[1] == ()


@pytest.mark.parametrize(("word", "warp"), [(0, 0), (64, 1)])
def test_who_started_a_copy(word, warp):
    """Copies of two threads count at one mbarrier; a race names the thread that started the copy in question."""
    text = f"""@%first mbarrier.init.shared.b64 [%bar], 1;
    @%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 512;
    bar.sync 0; setp.eq.u32 %p2, %t, 32;
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%a], 256, [%bar];
    @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+256], [%a+256], 256, [%bar];
    setp.ge.u32 %p3, %t, 64; @%p3 bra READ;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0; @!%p1 bra WAIT; bra END;
    READ: nanosleep.u32 1000; ld.shared.u32 %r2, [%s+{4 * word}]; END:
    """
    (found,) = faulty.findings(faulty.Example.of(text, "block=96 checks=race"))
    assert (found.rule, found.other.warp, found.other.lanes) == ("race", warp, (0,))
