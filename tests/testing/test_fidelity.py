"""Fidelity: what the executed instructions' bits rest on, by form and GPU, from the list that a script made."""

import json
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import fidelity
import warpsim
from ptx_text import module_head
from warpsim.cli import main
from warpsim.host.cases import Case
from warpsim.isa import matching, spec
from warpsim.isa.evidence import MEANING, _table, choice_of, evidence
from warpsim.program import build  # noqa: F401 - declares all instructions
from warpsim.testing.coverage import Forms

ROOT = Path(__file__).parents[2]


def test_the_list_is_that_of_the_instructions():
    """Every form is in it but those that exact arithmetic alone holds, and none that is gone."""
    forms = {(root, form.syntax) for root in spec.opcodes() for form in spec.forms(root)}
    lines = (ROOT / "tests" / "data" / "oracles.txt").read_text(encoding="utf-8").splitlines()
    exact = {(root, form) for root, form, oracles in (line.split("\t") for line in lines) if oracles == "exact"}

    assert set(_table()) == forms - exact
    assert {e.standing for e in _table().values()} <= set(MEANING)


@pytest.mark.long
def test_the_list_counts_the_recorded_kernels():
    """It is what its script makes of the kernels and recordings that are there."""
    assert fidelity.TARGET.read_text(encoding="utf-8").splitlines() == fidelity.table()


def test_a_launch_s_fidelity():
    """Counts are those of the launch; tensor cores are recovered on sm_90 and modelled elsewhere."""
    ready = Case.read(ROOT / "programs" / "mma_f16_gemm").prepare()
    result = ready.launch()
    found = {e.instruction: e for e in result.fidelity}
    product = next(e for text, e in found.items() if text.startswith("mma."))

    assert Counter({e.instruction: e.count for e in result.fidelity}) == Counter(result.opcodes)
    assert (product.standing, product.sm) == ("recovered", 90)
    assert "mma_h100.npz" in product.evidence
    assert found["bar.sync"].standing == "recorded"
    assert list(pickle.loads(pickle.dumps(result.fidelity))) == list(result.fidelity)
    other = Case.read(ROOT / "programs" / "mma_f16_gemm").prepare(device="sm_80").launch()
    assert {e.standing for e in other.fidelity if e.instruction.startswith("mma.")} == {"modelled"}


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "public models of its tensor cores"),
        ("ex2.approx.f32", "as on sm_90"),
        ("div.full.f32", "as on sm_90"),
    ],
)
def test_gpus_that_were_not_measured(text, source):
    """Products rest on what is published of the tensor cores, approximations on what an H100 has."""
    root = text.split(".")[0]
    found = {evidence(form, text, 80) for form in spec.forms(root)}

    assert {e.standing for e in found} <= {"modelled", "stated"}
    assert any(source in e.source for e in found)


def test_a_session_s_summary():
    """Forms of several launches, merged, by standing; those that are modelled by name."""
    kernel = warpsim.load(ROOT / "programs" / "saxpy" / "kernel.ptx")["saxpy"]
    from warpsim.host.defaults import listening

    forms, other = Forms(), Forms()
    with listening(forms.add):
        kernel(1, 32, (32, 1.0, np.ones(32, np.float32), np.ones(32, np.float32)))
    other.merge(forms.plain())
    other.merge(forms.plain())

    assert any("warp-instructions: compared with a GPU's bits" in line for line in forms.summary())
    assert {k: 2 * n for k, n in forms.counts.items()} == other.counts


@pytest.mark.parametrize(
    ("program", "standing", "chosen"),
    [
        ("hello", "recorded", ("order of prints",)),
        ("saxpy", "recorded", ()),
        ("stream_k", "recovered", ("order of atomics",)),
    ],
)
def test_what_a_launch_rests_on_in_short(program, standing, chosen):
    """The badge has the weakest evidence of what ran, every warp-instruction once, and what PTX leaves open."""
    result = Case.read(ROOT / "programs" / program).prepare().launch()
    badge = result.fidelity.badge

    assert (badge.standing, badge.choices) == (standing, chosen)
    assert sum(badge.counts.values()) == result.instructions


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("atom.global.add.f32", "order of atomics"),
        ("red.global.add.f32", "order of atomics"),
        ("red.global.add.u32", ""),
        ("red.global.max.s32", ""),
        ("atom.global.add.u32", "order of atomics"),
        ("fma.rn.f64", "payload of a NaN"),
        ("fma.rn.f32", ""),
        ("activemask.b32", "which lanes run together"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", "order of atomics"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", ""),
        ("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group", "order of atomics"),
        ("multimem.ld_reduce.global.max.u32", ""),
        ("clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128", "where threads run"),
    ],
)
def test_what_is_chosen(text, chosen):
    """A sum of integers is the same in any order, if nobody reads what was there before; NaNs of f32 have no payload."""
    root = text.split(".")[0]

    assert choice_of(matching.candidates(root, tuple(text.split(".")[1:]))[0].form, text) == chosen


@pytest.mark.parametrize(("then", "chosen"), [("", ()), ("st.global.u32 [%rd1+4], %r1;", ("order of atomics",))])
def test_what_nobody_reads_is_not_chosen(then, chosen):
    """Compilers write ``atom`` also where nobody reads what was there before; and the table begins with the weakest evidence."""
    text = f"""{module_head("sm_80", "8.0")}.visible .entry k(.param .u64 a) {{ .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .f32 %f<2>;
    ld.param.u64 %rd1, [a]; mov.f32 %f1, 0f3F800000; atom.global.add.u32 %r1, [%rd1], 1; {then} ex2.approx.f32 %f1, %f1; ret; }}"""
    found = warpsim.load(text)["k"](1, 32, (np.zeros(2, np.uint32),)).fidelity

    assert found.badge.choices == chosen
    assert (found[0].instruction, found[0].standing) == ("ex2.approx.f32", "modelled")


def test_the_command_line_says_it(capsys):
    """A line with each case, a table for --fidelity, a badge in JSON."""
    assert main(["replay", "hello"]) == 0
    short = capsys.readouterr().out
    assert "  its bits rest on: " in short
    assert "chosen: order of prints" in short
    assert main(["replay", "hello", "--fidelity"]) == 0
    assert "call" in capsys.readouterr().out
    assert main(["replay", "hello", "--json"]) == 0
    badge = json.loads(capsys.readouterr().out)["cases"][0]["badge"]
    assert (badge["standing"], badge["choices"], badge["models"]) == ("recorded", ["order of prints"], [])


@pytest.mark.parametrize(
    ("register", "chosen"), [("clock", ("clocks", "where threads run")), ("laneid", ("where threads run",))]
)
def test_special_registers(register, chosen):
    """Clocks and places of threads are no recorded values."""
    text = f""".version 8.0 .target sm_90 .address_size 64
    .visible .entry k(.param .u64 out) {{ .reg .b64 %rd1; .reg .b32 %r1; ld.param.u64 %rd1, [out];
    mov.u32 %r1, %{register}; mov.u32 %r1, %smid; st.global.u32 [%rd1], %r1; ret; }}"""

    assert warpsim.load(text)["k"](1, 1, (np.zeros(1, np.uint32),)).fidelity.badge.choices == chosen


def test_choices_that_nobody_makes():
    """An atomic that no warp executes leaves nothing open."""
    text = """.version 8.0 .target sm_90 .address_size 64
    .visible .entry k(.param .u64 out) { .reg .b64 %rd1; .reg .b32 %r1; .reg .pred %p; ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p, %r1, 0; @%p bra END; atom.global.add.u32 %r1, [%rd1], 1; END: ret; }"""
    kernel, out = warpsim.load(text)["k"], np.zeros(1, np.uint32)

    assert kernel(1, 32, (out,)).fidelity.badge.choices == ()
    assert kernel(2, 32, (out,)).fidelity.badge.choices == ("order of atomics",)
