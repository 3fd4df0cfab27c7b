"""Undefined bits in matrix products: row i of A reaches row i of D and no other, column j of B column j."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import warpsim
from warpsim.machine.state.launch import LaunchState

MMA = """.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{
    .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .f32 %f<9>; .shared .align 128 .b8 s[1024];
    mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r4, %r3, %r2; mov.b32 %r9, 0;
    ld.param.u64 %rd1, [p]; cvt.u64.u32 %rd2, %r3; add.u64 %rd1, %rd1, %rd2; mov.f32 %f1, 0f00000000;
    setp.ne.u32 %p1, %r1, {lane}; @%p1 st.shared.u32 [%r4], %r9; ld.shared.u32 %r5, [%r4];
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f2,%f3,%f4,%f5}}, {{{a}}}, {{{b}}}, {{{c}}};
    setp.eq.u32 %p2, %r1, {stores}; @%p2 st.global.f32 [%rd1], %f{d};
    ret;\n}}"""


def reached(operand, lane, stores, d):
    """Whether d of a lane is undefined if one register of another lane is."""
    held = {"a": ["%r9"] * 4, "b": ["%r9"] * 2, "c": ["%f1"] * 4}
    held[operand[0]][int(operand[1])] = "%r5"
    text = MMA.format(lane=lane, stores=stores, d=d + 2, **{name: ",".join(v) for name, v in held.items()})
    found = warpsim.load(text)["k"](1, 32, (np.zeros(32, np.uint32),), on_finding="collect").findings

    assert {f.rule for f in found} <= {"uninitialised"}
    return bool(found)


@pytest.mark.parametrize("operand", ["a0", "a1", "a2", "a3", "b0", "b1", "c0", "c3"])
def test_mma_by_rows_and_columns(operand):
    """Row and column of each register, as the figures of the PTX ISA for .m16n8k16 have them."""
    lane, number = 5, int(operand[1])
    for stores, d in itertools.product((4, 6, 9, 20), range(4)):
        row, column = stores // 4 + 8 * (d // 2), stores % 4 * 2 + d % 2
        expected = {
            "a": row == lane // 4 + 8 * (number % 2),
            "b": column == lane // 4,
            "c": (stores, d) == (lane, number),
        }[operand[0]]

        assert reached(operand, lane, stores, d) == expected, (stores, d)


GEMM = Path(__file__).parents[2] / "programs" / "gemm_tma" / "kernel.ptx"
KEEP = "setp.ne.b32 keep, %r221, 0;"
"""Whether the first product adds to the accumulators: not in the first step of K."""


@pytest.mark.parametrize("keep", [KEEP, KEEP.replace("ne", "eq"), ""])
def test_accumulators_that_are_replaced(keep, monkeypatch):
    """The first product of a sum may leave out accumulators that nobody has written: this uses nothing undefined, so no state has to
    be kept from which to run again."""
    text = GEMM.read_text()
    assert KEEP in text
    a, c = np.ones((64, 64), np.float16), np.zeros((64, 64), np.float32)
    map = warpsim.TensorMap(a, global_dim=(64, 64), global_strides=(128,), box_dim=(64, 64), swizzle="128B")
    copied, copy = [], LaunchState.copy
    monkeypatch.setattr(LaunchState, "copy", lambda launch: copied.append(launch) or copy(launch))
    kernel = warpsim.load(text.replace(KEEP, keep))["gemm_tma"]
    found = kernel(1, 128, (map, map, c, 64, 64), on_finding="collect").findings

    assert bool(copied) == bool(found) == (keep != KEEP)
    assert {f.rule for f in found} <= {"uninitialised"}
    assert found or (c == 64).all()
