"""The debugger shows operands of matrix instructions as matrices."""

import numpy as np
import pytest

import warpsim
from warpsim.observe.debugger import Debugger
from warpsim.observe.matrices import operand_matrix

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pd) {
.reg .b64 q<2>; .reg .b32 a<4>, b<2>; .reg .f32 c<4>;
ld.param.u64 q0, [pa]; ld.param.u64 q1, [pd];
wmma.load.a.sync.aligned.row.m16n16k8.tf32 {a0, a1, a2, a3}, [q0];
mov.b32 b0, %laneid; mov.b32 b1, 0; mov.f32 c0, 0f3F800000; mov.f32 c1, c0; mov.f32 c2, c0; mov.f32 c3, c0;
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {c0, c1, c2, c3}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1, c2, c3};
ret; }
"""


def test_operands_at_a_stop():
    """At the mma, A is the matrix that was loaded (tf32 fragments of wmma and mma agree), B what the lanes hold."""
    seen = {}

    def interact(debugger, instruction, machine, group):
        debugger.stepping = True
        if instruction.text.startswith("mma"):
            seen.update({name: operand_matrix(machine, group, debugger.focus, instruction, name) for name in "abc"})
            with pytest.raises(ValueError, match="operands a, b, c, d"):
                operand_matrix(machine, group, debugger.focus, instruction, "e")

    memory = np.arange(128, dtype=np.float32)
    warpsim.load(TEXT)["k"]((1,), (32,), (memory, np.zeros(128, np.float32)), watchers=[Debugger(interact)])
    np.testing.assert_array_equal(memory.reshape(16, 8), seen["a"])
    lanes = seen["b"].view(np.uint32)
    np.testing.assert_array_equal(np.arange(32).reshape(8, 4).T, lanes[:4])
    assert (lanes[4:] == 0).all()
    assert (seen["c"] == 1).all()
    assert seen["c"].shape == (16, 8)


def test_a_part_of_the_warp():
    """An operand of which lanes are missing is not shown; it is said how many stand here."""
    said = []

    def interact(debugger, instruction, machine, group):
        debugger.stepping = True
        if instruction.text.startswith("mma"):
            with pytest.raises(ValueError, match="lanes stand here") as caught:
                operand_matrix(machine, group, debugger.focus, instruction, "a")
            said.append(str(caught.value))

    text = TEXT.replace("wmma.load", "//").replace(
        "mma.sync", "mov.b32 a0, 0; mov.b32 a1, 0; mov.b32 a2, 0; mov.b32 a3, 0;\nmma.sync"
    )
    with pytest.raises(warpsim.ExecutionError):
        warpsim.load(text)["k"]((1,), (24,), (np.zeros(8), np.zeros(8)), watchers=[Debugger(interact)])
    assert said == ["only 24 of 32 lanes stand here"]
