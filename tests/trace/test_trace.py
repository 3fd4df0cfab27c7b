"""What a trace records, and its page."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import attrs
import numpy as np
import pytest

import warpsim
from ptx_text import module_head
from warpsim.cli import main
from warpsim.host.cases import run_case
from warpsim.trace import Tracer, recorder, touches
from warpsim.trace.document import class_of

PROGRAMS = Path(__file__).parent.parent.parent / "programs"
HEAD = module_head("sm_90a")
HANDOVER = (
    HEAD
    + """
.visible .entry handover()   // </script><b>
{
    .shared .align 16 .b8 first[32];
    .shared .align 16 .b8 tile[256];
    .reg .b32 %r<8>; .reg .pred %p<3>;
    mov.u32 %r0, %tid.x; mov.u32 %r1, first; mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; mov.u32 %r3, 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra PRODUCER;
    bar.sync 1, 64;
    ld.shared.u32 %r4, [%r2+128];
    ret;
PRODUCER:
    add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 20;
    @%p2 bra PRODUCER;
    st.shared.u32 [%r2], %r0;
    bar.sync 1, 64;
    ret;
}
"""
)


@pytest.fixture(scope="module")
def handover():
    """A warp that waits for another at a named barrier, in two CTAs."""
    tracer = Tracer()
    result = warpsim.load(HANDOVER)["handover"]((2,), (64,), (), watchers=[tracer])
    return result, tracer.trace()


def opcode(trace, step):
    """What was executed in a step."""
    return trace.instructions[trace.steps[step]].text


def test_classes_of_instructions():
    """What a picture says of an instruction, where it may be of several kinds."""
    lines = {
        "add.u32 %r0, %r0, 1;": "arithmetic",
        "ret;": "control",
        "ld.global.u32 %r0, [%rd0];": "memory",
        "st.shared.u32 [%r1], %r0;": "shared",
        "cp.async.ca.shared.global [%r1], [%rd0], 4;": "async",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r1;": "matrix",
        "bar.sync 0;": "barrier",
        "cp.async.wait_all;": "wait",
    }
    text = HEAD + ".visible .entry k() { .reg .b32 %r<2>; .reg .b64 %rd<1>;\n" + "\n".join(lines) + "\nret; }\n"
    made = warpsim.load(text).program.functions["k"].code
    assert [class_of(i.traits) for i in made][: len(lines)] == list(lines.values())


def test_steps(handover):
    """All that the launch counts is in the steps, with the warps that executed it."""
    result, trace = handover
    executed = sum((last - first) * len(trace.crews[crew][0]) for first, last, crew in trace.runs)

    assert executed == result.instructions == trace.profile.total.executions
    assert trace.warps == [(0, 0, 0, 0), (0, 0, 0, 1), (1, 0, 0, 0), (1, 0, 0, 1)]
    assert [run[0] for run in trace.runs] == [0, *[run[1] for run in trace.runs[:-1]]]
    assert trace.runs[-1][1] == len(trace.steps)
    assert all(lanes is None for _, lanes in trace.crews)


def test_waits(handover):
    """The consumers wait from their arrival to that of the producers."""
    _, trace = handover
    ((rows, start, end, what),) = trace.waits
    barriers = [step for step in range(len(trace.steps)) if opcode(trace, step) == "bar.sync"]

    assert (rows, what) == ((0, 2), "barrier 1")
    assert [start, end] == barriers


def test_shared_memory(handover):
    """Blocks of 16 bytes: `tile` lies behind `first`; producers write its upper half, consumers read that."""
    _, trace = handover
    found = {(opcode(trace, first), cta, low, high, kind) for first, _, cta, low, high, kind in trace.marks}

    assert (trace.block, trace.shared_size) == (16, 288)
    assert found == {
        (name, cta, 10, 17, kind) for cta in (0, 1) for name, kind in (("st.shared.u32", 1), ("ld.shared.u32", 0))
    }


@pytest.mark.parametrize(("program", "effects"), [("gemm_multicast", "eager"), ("gemm_tma", "at_wait")])
def test_flights(program, effects):
    """Every bulk copy and wgmma of a GEMM is seen from issue to visibility, with all of its bytes."""
    tracer = Tracer(ctas=100)
    result = run_case(PROGRAMS / program, watchers=[tracer], profile=True, async_effects=effects)
    trace = tracer.trace()
    loads = [f for f in trace.flights if f.kind == "load"]
    expected = sum(line.counts.async_bytes for line in result.profile.lines if line.text.startswith("cp.async.bulk"))

    assert result.ok
    assert sum(f.nbytes for f in loads) == expected
    assert {f.kind for f in trace.flights} == {"load", "wgmma"}
    for f in trace.flights:
        assert f.issued <= f.visible < len(trace.steps)
        assert "wait" in opcode(trace, f.visible)
        assert trace.steps[f.issued] == f.instruction
    for f in loads:
        assert f.signalled == (f.issued if effects == "eager" else f.visible)
        assert (f.high - f.low) % 1024 == 0


FLIGHTS = (
    HEAD
    + """
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .shared .align 128 .b8 tile[1024];
    .reg .b64 %in, %out; .reg .b32 %t, %s, %at; .reg .pred %first;
    ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %s, tile; setp.eq.u32 %first, %t, 0;
    mad.lo.u32 %at, %t, 16, %s; mad.wide.u32 %in, %t, 16, %in;
    cp.async.cg.shared.global [%at], [%in], 16;
    cp.async.commit_group;
    @%first cp.async.cg.shared.global [%at+512], [%in], 16;
    cp.async.commit_group;
    cp.async.wait_group 1;
    cp.async.wait_group 0;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%s], 512;
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group.read 0;
    @%first cp.async.bulk.wait_group 0;
    ret;
}
"""
)


MULTICAST = (
    HEAD
    + """
.visible .entry k(.param .u64 in) .reqnctapercluster 2
{
    .shared .align 128 .b8 tile[64]; .shared .align 8 .b64 bar;
    .reg .b64 %in; .reg .b32 %rank, %tile, %bar; .reg .pred %first, %done; .reg .b16 %both;
    ld.param.u64 %in, [in]; mov.u32 %tile, tile; mov.u32 %bar, bar; mov.u16 %both, 3;
    mov.u32 %rank, %cluster_ctarank; setp.eq.u32 %first, %rank, 0;
    mbarrier.init.shared.b64 [%bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 64;
    fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%tile], [%in], 64, [%bar], %both;
WAIT: mbarrier.try_wait.parity.shared.b64 %done, [%bar], 0;
    @!%done bra WAIT;
    ret;
}
"""
)


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_tensor_core(effects):
    """Each product of a GEMM is seen from issue until a thread has waited for its commit, which signals an mbarrier."""
    tracer = Tracer(ctas=100)
    run_case(PROGRAMS / "gemm_tcgen05", watchers=[tracer], async_effects=effects)
    trace = tracer.trace()
    kinds = {
        name: [f for f in trace.flights if opcode(trace, f.issued).startswith(f"tcgen05.{name}")]
        for name in ("mma", "commit")
    }

    assert {f.kind for flights in kinds.values() for f in flights} == {"tcgen05"}
    assert all(f.nbytes == 6144 and f.issued < f.visible for f in kinds["mma"])
    assert all(f.nbytes == 0 and f.issued <= f.signalled for f in kinds["commit"])
    assert 0 < len(kinds["commit"]) < len(kinds["mma"])


def test_the_warp_that_starts_a_copy_to_others():
    """The copy stands in its row, whichever CTA comes first."""
    kernel = warpsim.load(MULTICAST)["k"]
    for seed in range(12):
        tracer = Tracer()
        kernel((2,), (1,), (np.zeros(16, np.uint32),), watchers=[tracer], schedule=seed)
        trace = tracer.trace()

        assert trace.warps == [(0, 0, 0, 0), (1, 0, 0, 0)]
        assert sorted((f.kind, f.cta, f.row, f.nbytes) for f in trace.flights) == [
            ("load", 0, 0, 64),
            ("load", 1, 0, 64),
        ]


@pytest.mark.parametrize("effects", ["eager", "at_wait"])
def test_groups_of_copies(effects):
    """Each is visible at the wait for its group; the source of a store is free at the wait for reading, before it."""
    tracer, given = Tracer(), np.arange(128, dtype=np.uint32)
    warpsim.load(FLIGHTS)["k"]((2,), (32,), (given, np.zeros(128, np.uint32)), watchers=[tracer], async_effects=effects)
    trace = tracer.trace()
    found = [(f.kind, f.cta, f.low, f.high, f.nbytes, opcode(trace, f.issued), opcode(trace, f.visible)) for f in trace.flights]  # fmt: skip
    stores = [f for f in trace.flights if f.kind == "store"]

    copy, bulk = "cp.async.cg.shared.global", "cp.async.bulk.global.shared::cta.bulk_group"
    assert sorted(found) == sorted(
        row
        for cta in (0, 1)
        for row in (
            ("cp.async", cta, 0, 512, 512, copy, "cp.async.wait_group"),
            ("cp.async", cta, 512, 528, 16, copy, "cp.async.wait_group"),
            ("store", cta, 0, 512, 512, bulk, "cp.async.bulk.wait_group"),
        )
    )
    assert [f.visible < g.visible for f, g in zip(trace.flights[:2], trace.flights[2:4], strict=True)] == [True, True]
    assert [opcode(trace, f.free) for f in stores] == ["cp.async.bulk.wait_group.read"] * 2
    assert all(f.issued < f.free < f.visible for f in stores)


def test_some_ctas():
    """Only the CTAs asked for are shown; the counts are of all."""
    tracer = Tracer(ctas=[(1, 0, 0)])
    kernel = warpsim.load(HANDOVER)["handover"]
    result = kernel((3,), (64,), (), watchers=[tracer])
    trace = tracer.trace()

    assert trace.warps == [(1, 0, 0, 0), (1, 0, 0, 1)]
    assert trace.profile.total.executions == result.instructions


@pytest.mark.parametrize("cta", [(3, 0, 0), (0, 1, 0), (0, 0, 1), (-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_ctas_beyond_the_grid(cta):
    """One step beyond each of its ends."""
    with pytest.raises(warpsim.LaunchError, match=rf"{re.escape(str(cta))}.*the grid is \(3, 1, 1\)"):
        warpsim.load(HANDOVER)["handover"]((3,), (64,), (), watchers=[Tracer(ctas=[(2, 0, 0), cta])])


@pytest.mark.parametrize("ctas", [None, "x", [(0, 0)], [(0.5, 0, 0)], [3]])
def test_what_names_no_ctas(ctas):
    """CTAs are a number, or have three coordinates each."""
    with pytest.raises(warpsim.LaunchError, match=r"a number of CTAs or of a list of \(x, y, z\)"):
        warpsim.load(HANDOVER)["handover"]((3,), (64,), (), watchers=[Tracer(ctas=ctas)])


@pytest.mark.parametrize("most", [10, 300_000])
def test_marks_in_parts(monkeypatch, most):
    """It does not matter how many accesses become marks at once, nor how many marks there may be: the first ones are kept."""
    found = []
    for together in (0, 40, 1 << 18):
        monkeypatch.setattr(touches, "TOGETHER", together)
        monkeypatch.setattr(touches, "MOST", most)
        tracer = Tracer()
        run_case(PROGRAMS / "transpose", watchers=[tracer])
        found.append(tracer.trace().marks)
        assert tracer.trace().marks == found[-1]
    monkeypatch.setattr(touches, "MOST", 300_000)
    run_case(PROGRAMS / "transpose", watchers=[tracer := Tracer()])
    whole = tracer.trace().marks
    for marks in found:
        assert [mark[:1] + mark[2:] for mark in marks] == [mark[:1] + mark[2:] for mark in whole[:most]]
    assert found[0] == found[1] == found[2]
    assert len(whole) > 10


@pytest.mark.parametrize("together", [0, 7, 1 << 18])
def test_marks_one_access_after_the_other(monkeypatch, together):
    """An access goes on with the mark of the last one to the same place, if that is at most 4 steps back."""
    draw = random.Random(3)
    lines = {None: "mov.u32 %v, 1;"}
    for block in (0, 2):
        lines[block, 0] = f"ld.shared.u32 %v, [tile+{16 * block}];"
        lines[block, 1] = f"st.shared.u32 [tile+{16 * block}], 1;"
    accesses = [draw.choice([None, None, *lines]) for _ in range(150)]
    body = "\n".join(lines[access] for access in accesses)
    text = f"{HEAD}\n.visible .entry k() {{ .reg .b32 %v; .shared .align 16 .b8 tile[64];\n{body}\nret; }}"
    monkeypatch.setattr(touches, "TOGETHER", together)
    monkeypatch.setattr(touches, "MOST", 20)
    tracer = Tracer()

    warpsim.load(text)["k"]((1,), (1,), (), watchers=[tracer], checks="none")

    marks, last = [], {}
    for step, access in enumerate(accesses):
        if access is not None and step - last.get(access, [0, -5])[1] > 4:
            last[access] = [step, step, 0, access[0], access[0], access[1]]
            marks.append(last[access])
        elif access is not None:
            last[access][1] = step
    assert len(marks) > 20
    assert list(tracer.trace().marks) == [tuple(mark) for mark in marks[:20]]


def test_the_same_each_time():
    """A page lists source files in the order of lines, not in one that each process makes up."""
    body = "".join(f".loc {k} 1 0\nadd.u32 %r1, %r1, 1;\n" for k in range(1, 9))
    files = "".join(f'.file {k} "source{k}.cu"\n' for k in range(1, 9))
    text = f"{module_head('sm_80')}\n{files}.visible .entry k() {{\n.reg .b32 %r<2>;\nmov.u32 %r1, 0;\n{body}ret; }}"
    tracer = Tracer()

    warpsim.load(text)["k"]((1,), (32,), (), watchers=[tracer])

    assert list(tracer.trace().record()["sources"]) == [f"source{k}.cu" for k in range(1, 9)]


def test_any_batch_size():
    """CTAs that run one after the other give the same waits, and the same accesses of each."""
    waits, marks = [], []
    for threads in (64, 1 << 17):
        tracer = Tracer()
        warpsim.load(HANDOVER)["handover"]((2,), (64,), (), watchers=[tracer], batch_threads=threads)
        trace = tracer.trace()
        waits.append(sorted((row, what) for rows, _, _, what in trace.waits for row in rows))
        marks.append(sorted(mark[2:] for mark in trace.marks))

    assert waits[0] == waits[1] == [(0, "barrier 1"), (2, "barrier 1")]
    assert marks[0] == marks[1]
    assert {cta for cta, *_ in marks[0]} == {0, 1}


def test_marks():
    """Accesses of a place a few steps apart share a mark; later ones begin another; in a cluster, the CTA is the one that holds the
    memory."""
    text = (
        module_head("sm_90a")
        + """
.visible .entry k() { .reg .b32 %own, %first, %second, %v; .shared .align 16 .b8 tile[16];
mov.u32 %own, tile; mapa.shared::cluster.u32 %first, %own, 0; mapa.shared::cluster.u32 %second, %own, 1;
st.shared::cluster.u32 [%first], 1;
st.shared::cluster.u32 [%second], 1;
st.shared::cluster.u32 [%first], 1;
mov.u32 %v, 1; mov.u32 %v, 2; mov.u32 %v, 3; mov.u32 %v, 4; mov.u32 %v, 5;
st.shared::cluster.u32 [%first], 1;
ret; }
"""
    )
    tracer = Tracer()
    warpsim.load(text)["k"]((2,), (1,), (), cluster=(2,), watchers=[tracer], engine="interpreter", checks="none")

    assert [mark[:3] for mark in tracer.trace().marks] == [(3, 5, 0), (4, 4, 1), (11, 11, 0)]


def test_marks_of_blocks_of_several_sizes():
    """The same accesses of kernels with more shared memory, of which a block is larger, are marked there."""
    places = []
    for size in (4096, 16384):
        text = (
            module_head("sm_80")
            + f"""
.visible .entry k() {{ .reg .b32 %t, %a; .shared .align 16 .b8 tile[{size}];
mov.u32 %t, %tid.x; shl.b32 %t, %t, 2; mov.u32 %a, tile; add.u32 %a, %a, %t;
st.shared.u32 [%a+2048], %t; ret; }}
"""
        )
        tracer = Tracer()
        warpsim.load(text)["k"]((1,), (32,), (), watchers=[tracer], engine="interpreter")
        places += [(low, high) for *_, low, high, _ in tracer.trace().marks]

    assert places == [(2048 // 16, 2176 // 16 - 1), (2048 // 64, 2176 // 64 - 1)]


def test_accesses_of_ctas_that_are_not_shown():
    """They leave no marks, even if there are no others."""
    text = (
        module_head("sm_90a")
        + """
.visible .entry k() { .reg .b32 %r<3>; .reg .pred %p; .shared .align 16 .b8 tile[16];
mov.u32 %r0, %cluster_ctarank; setp.ne.u32 %p, %r0, 0; @%p bra END;
mov.u32 %r1, tile; mapa.shared::cluster.u32 %r2, %r1, 1; st.shared::cluster.u32 [%r2], 1;
END: ret; }
"""
    )
    found = []
    for cta in range(2):
        tracer = Tracer([(cta, 0, 0)])
        warpsim.load(text)["k"]((2,), (1,), (), cluster=(2,), watchers=[tracer], checks="none")
        found.append(tracer.trace().marks)

    assert found == [(), ()]


def test_the_limit_of_instructions():
    """It is found at the step that exceeds it, the last of the trace."""
    text = HEAD + ".visible .entry k() { .reg .b32 %r<2>; mov.u32 %r0, 0;\nL: add.u32 %r0, %r0, 1;\nbra L; }"
    tracer = Tracer()
    with pytest.raises(warpsim.WarpsimError, match="limit"):
        warpsim.load(text)["k"]((1,), (32,), (), watchers=[tracer], max_instructions=6)
    trace = tracer.trace()

    ((step, finding),) = trace.findings
    assert step == len(trace.steps) - 1 == 5
    assert trace.instructions[trace.steps[step]].span.line == finding.line


def test_the_recording_ends():
    """After so many steps nothing more is recorded, and the launch goes on."""
    tracer = Tracer(max_steps=5)
    result = warpsim.load(HANDOVER)["handover"]((2,), (64,), (), watchers=[tracer])
    trace = tracer.trace()

    assert (len(trace.steps), trace.full) == (5, True)
    assert trace.profile.total.executions == result.instructions
    assert "the launch continued" in trace.html()


def test_lanes():
    """Parts of warps are shown with their lanes."""
    text = (
        HEAD
        + ".visible .entry k() { .reg .b32 %r<2>; .reg .pred %p<2>; mov.u32 %r0, %laneid; setp.lt.u32 %p1, %r0, 5;\n@%p1 bra L;\nadd.u32 %r1, %r0, 1;\nL: ret; }"
    )
    tracer = Tracer()
    warpsim.load(text)["k"]((1,), (40,), (), watchers=[tracer])
    trace = tracer.trace()
    (step,) = [s for s in range(len(trace.steps)) if opcode(trace, s) == "add.u32"]
    crew = next(crew for first, last, crew in trace.runs if first <= step < last)

    assert trace.crews[crew] == ((0, 1), (0xFFFFFFE0, 0xE0))


def test_a_hang(tmp_path, capsys):
    """A launch that hangs leaves its trace, with the wait that was never over and the finding."""
    path = tmp_path / "hang.ptx"
    path.write_text(HANDOVER.replace("bar.sync 1, 64;\n    ld", "bar.sync 2, 64;\n    ld"))
    out = tmp_path / "hang.html"
    assert main(["trace", "run", str(path), "--grid", "1", "--block", "64", "-o", str(out)]) == 1
    data = json.loads(re.search(r"id=data>(.*?)</script>", out.read_text(), re.DOTALL)[1])

    assert "barrier-divergence" in capsys.readouterr().err
    assert {w[3] for w in data["waits"]} == {f"barrier {n}, which was never over" for n in (1, 2)}
    assert [f[2] for f in data["findings"]] == ["barrier-divergence"]


def test_page_holds_the_data(handover):
    """The page is one file with the record in it, whatever the text holds; it refers to nothing else."""
    _, trace = handover
    page = trace.html()
    data = json.loads(re.search(r"id=data>(.*?)</script>", page, re.DOTALL)[1])

    assert data == json.loads(json.dumps(trace.record()))
    assert page.count("</script>") == 2
    assert not re.search(r"(?:src|href)=", page)


def test_perfetto(handover):
    """Slices for each warp and step, waits that begin and end, names of processes and threads."""
    result, trace = handover
    found = json.loads(trace.perfetto())["traceEvents"]
    slices = [e for e in found if e["ph"] == "X"]
    begun, ended = ([(e["cat"], e["id"]) for e in found if e["ph"] == phase] for phase in "be")

    assert sum(e["dur"] for e in slices) == len(slices) == result.instructions
    assert sorted(begun) == sorted(ended) == [("wait", "wait0"), ("wait", "wait2")]
    assert [e["args"]["name"] for e in found if e["name"] == "process_name"] == ["CTA (0, 0, 0)", "CTA (1, 0, 0)"]
    assert {(e["pid"], e["tid"]) for e in slices} == {(1, 1), (1, 2), (2, 1), (2, 2)}


def test_command_line(tmp_path, capsys):
    """`trace replay` compares as `replay` does, and writes the page or the document for Perfetto."""
    assert main(["trace", "replay", "saxpy", "-o", str(tmp_path / "t.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"][0]["ok"]
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert main(["trace", "replay", "saxpy", "-o", str(tmp_path / "t.txt")]) == 2
    assert main(["trace", "replay", "saxpy", "-o", str(tmp_path / "t.html"), "--cta", "7"]) == 1
    assert (
        main(
            ["trace", "run", str(tmp_path / "none.ptx"), "--grid", "1", "--block", "1", "-o", str(tmp_path / "n.html")]
        )
        == 2
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.json"]


@pytest.mark.long
def test_costs_nothing_unasked():
    """A launch without a tracer does not even load one."""
    code = "import sys, warpsim; warpsim.load('.version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k() { ret; }')['k']((1,), (1,), ()); print([m for m in sys.modules if m.startswith('warpsim.trace') or m.startswith('warpsim.observe')])"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


class Steps(warpsim.Watcher):
    """Hears of single steps, which then are told to all watchers one by one."""

    def step_before(self, machine, group, instruction):
        """Nothing."""


@pytest.mark.parametrize(
    "program",
    [
        "copy_pipeline",
        "histogram",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("gemm_multicast", "gemm_tma", "transpose", "stream_k")
        ),
    ],
)
@pytest.mark.parametrize("most", [61, recorder.STEPS])
def test_runs_of_steps(program, most):
    """What is recorded by runs of steps is what is recorded step by step."""
    by_runs, by_steps = Tracer(2, most), Tracer(2, most)
    run_case(PROGRAMS / program, watchers=[by_runs])
    run_case(PROGRAMS / program, watchers=[by_steps, Steps()])
    one, other = by_runs.trace(), by_steps.trace()

    assert one.perfetto() == other.perfetto()
    assert one.record() == other.record()
    assert len(one.steps) > 60
    for line, same in zip(one.profile.lines, other.profile.lines, strict=True):
        assert attrs.evolve(line.counts, seconds=0) == attrs.evolve(same.counts, seconds=0)


def test_what_traces_have_in_common(monkeypatch):
    """What an access touches is known from an earlier trace, if that is of the same CTAs of the batch."""
    text = f"""{HEAD}.visible .entry k() {{ .reg .b32 %r<3>; .shared .align 16 .b8 tile[4096];
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %r0; ret; }}"""
    kernel, found, packed, made = warpsim.load(text)["k"], [], touches._packed, []
    touches.known_runs.cache_clear()
    monkeypatch.setattr(touches, "_packed", lambda *given: made.append(given) or packed(*given))
    for ctas in (1, [(1, 0, 0), (2, 0, 0)], 1, [(1, 0, 0), (2, 0, 0)]):
        kernel((3,), (64,), (), watchers=[tracer := Tracer(ctas)], checks="none", engine="interpreter")
        found.append(tracer.trace().marks)

    assert found == [((4, 4, 0, 0, 15, 1),), ((4, 4, 0, 0, 15, 1), (4, 4, 1, 0, 15, 1))] * 2
    assert len(made) == 2


def test_few_accesses_are_kept(monkeypatch):
    """However often accesses of scattered places come again, what they touch soon becomes marks, which are the same."""
    text = f"""{HEAD}.visible .entry k() {{ .reg .b32 %r<5>; .reg .pred %p; .shared .align 16 .b8 tile[2048];
mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 6; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2; mov.u32 %r4, 0;
AGAIN: st.shared.u32 [%r1], %r0; ld.shared.u32 %r3, [%r1+32]; xor.b32 %r1, %r1, 16; add.u32 %r4, %r4, 1;
add.u32 %r3, %r3, 1; add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r4, 20; @%p bra AGAIN; ret; }}"""
    mark, kept, found = touches.Touches._mark, [], []

    def noted(self):
        kept.append(sum(map(len, self._touched)))
        mark(self)

    monkeypatch.setattr(touches.Touches, "_mark", noted)
    for together in (touches.TOGETHER, 1000):
        monkeypatch.setattr(touches, "TOGETHER", together)
        tracer = Tracer()
        warpsim.load(text)["k"]((4,), (32,), (), watchers=[tracer], checks="none")
        found.append(tracer.trace().marks)

    assert found[0] == found[1]
    assert kept[0] == 40 * 128
    assert 1000 < max(kept[1:]) <= 1000 + 128
