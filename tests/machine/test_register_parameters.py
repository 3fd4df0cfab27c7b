"""Functions whose parameters and results are registers, vectors of registers, and `mov` between vectors."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HEAD = module_head()


def launch(text: str, out: np.ndarray, threads: int = 1) -> np.ndarray:
    """What the kernel ``k(p)`` leaves in the array."""
    warpsim.load(HEAD + text)["k"]((1,), (threads,), (out,), checks="all")
    return out


def test_registers_in_and_out():
    """Arguments and the result travel by register: the order of both counts."""
    text = """
    .func (.reg .u32 high, .reg .u32 low) order(.reg .u32 a, .reg .u32 b)
    { max.u32 high, a, b; min.u32 low, a, b; ret; }
    .visible .entry k(.param .u64 p)
    { .reg .u32 a, b; .reg .u64 q; ld.param.u64 q, [p]; ld.global.v2.u32 {a, b}, [q];
      call (a, b), order, (a, b); st.global.v2.u32 [q], {b, a};
      call (a, b), order, (7, 9); st.global.v2.u32 [q+8], {b, a}; ret; }
    """
    assert launch(text, np.array([9, 2, 0, 0], np.uint32)).tolist() == [2, 9, 7, 9]


def test_recursion_ends_where_the_body_ends():
    """A guarded return and the end of the body both give the result; a .param argument fills a .reg parameter."""
    text = """
    .func (.reg .f32 o) f(.reg .f32 i, .param .u32 n)
    .func (.reg .f32 o) f(.reg .f32 i, .param .u32 n)
    { .reg .pred p; .reg .u32 a; .reg .f32 t; ld.param.u32 a, [n]; setp.eq.u32 p, a, 0; mov.f32 o, i;
      @p ret; sub.u32 a, a, 1; add.f32 t, i, i; call (o), f, (t, a); add.f32 o, o, 0f3f800000; }
    .visible .entry k(.param .u64 p)
    { .reg .u32 a; .reg .f32 b; .reg .u64 q, o; .param .f32 pf;
      ld.param.u64 q, [p]; mov.u32 a, %tid.x; cvt.rn.f32.u32 b, a; and.b32 a, a, 3; st.param.f32 [pf], b;
      call (b), f, (pf, a); mov.u32 a, %tid.x; mul.wide.u32 o, a, 4; add.u64 q, q, o; st.global.f32 [q], b; ret; }
    """
    expected = [i * 2 ** (i & 3) + (i & 3) for i in range(64)]

    assert launch(text, np.zeros(64, np.float32), 64).tolist() == expected


def test_vectors_of_registers():
    """Vectors as parameters, in ranges, taken apart by component, packed and moved whole."""
    text = """
    .func (.reg .v2 .u32 out) swap(.reg .v2 .u32 in) { mov.v2.u32 out, {in.y, in.x}; ret; }
    .visible .entry k(.param .u64 p)
    { .reg .v2 .u32 v<3>; .reg .v4 .u32 t; .reg .v2 .b16 h; .reg .u64 q; .reg .b32 w; .reg .b64 d;
      ld.param.u64 q, [p]; ld.global.v2.u32 v1, [q]; call (v2), swap, (v1); st.global.v2.u32 [q], v2;
      mov.b64 d, v2; st.global.b64 [q+8], d; mov.b32 h, v1.x; mov.b32 w, {h.y, h.x}; st.global.b32 [q+16], w;
      mov.v4.u32 t, %ntid; add.u32 t.w, t.w, 5; st.global.v4.u32 [q+32], t; ret; }
    """
    out = launch(text, np.array([0x10002, 3, *[0] * 10], np.uint32))

    assert out.tolist() == [3, 0x10002, 3, 0x10002, 0x20001, 0, 0, 0, 1, 1, 1, 5]


@pytest.mark.parametrize(("text", "rule"), [
    (".entry k(.param .b8 p[]) { ret; }", "directive"),
    (".entry k(.param .v2 .u32 p) { ret; }", "directive"),
    (".entry k() { .reg .v4 .b64 x; ret; }", "directive"),
    (".entry k() { .reg .v2 .u32 a, b; mov.v4.u32 a, b; ret; }", "operand-type"),
    (".entry k() { .reg .v2 .b8 a, b; mov.v2.b8 a, b; ret; }", "illegal-form"),
    (".func f(.reg .v2 .u32 i) { ret; } .entry k() { .reg .v4 .u32 q; call f, (q); ret; }", "operand-type"),
    (".func f(.reg .v2 .u32 i) { ret; } .entry k() { .reg .u32 q; call f, (q); ret; }", "operand-type"),
    (".entry k(.param .u64 p)\n.entry j() { ret; }", "syntax"),
])  # fmt: skip
def test_what_the_assembler_refuses(text: str, rule: str):
    """ptxas 13.0 refuses each of these."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.load(HEAD + text)

    assert caught.value.findings[0].rule == rule
