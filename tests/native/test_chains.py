"""Many branches in a row: what LLVM is given grows with their number, not with its square."""

import numpy as np
import pytest

import warpsim

pytest.importorskip("llvmlite", reason="the extra jit is not installed")

import llvmlite.binding as llvm

from warpsim.native.compiling.compiler import Invalid, compiler

LINE = "xor.b32 %r3, %r1, {0}; setp.gt.u32 %q, %r3, {0}; @%q bra L{0}; mad.lo.u32 %r1, %r1, 3, {0}; L{0}:"


def joins(count, monkeypatch):
    """How many values LLVM joins where ways through the region of so many branches meet."""
    texts = []

    def compile_module(made):
        texts.append(made.text)
        raise Invalid("looked at")

    monkeypatch.setattr("warpsim.native.tiering.build.compile_module", compile_module)
    body = "\n".join(LINE.format(k) for k in range(count))
    module = warpsim.load(
        f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {{ .reg .b32 %r<6>; .reg .b64 %d<4>; .reg .pred %q;
ld.param.u64 %d1, [p]; mov.u32 %r2, %tid.x; mov.u32 %r1, %r2;
{body}
mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1; ret; }}"""
    )
    with pytest.warns(RuntimeWarning, match="looked at"):
        module["k"]((1,), (64,), (np.zeros(64, np.uint32),), engine="compiled")
    compiler()  # which makes LLVM ready
    target = llvm.Target.from_default_triple().create_target_machine()
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    parsed = llvm.parse_assembly(texts[0])
    passes.run(parsed, builder)
    return str(parsed).count(" = phi ")


@pytest.mark.long
def test_a_chain_of_branches(monkeypatch):
    """Twice as many branches have about twice as many joins."""
    few, many = joins(10, monkeypatch), joins(20, monkeypatch)
    assert many - few < 1.5 * few
