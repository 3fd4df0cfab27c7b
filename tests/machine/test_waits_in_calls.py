"""A thread that waits inside functions, or through them, lets others run, as compilers' code without optimisation does."""

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HEAD = module_head()
LOOK = ".func (.param .u32 v) look(.param .u64 a) { .reg .u64 p; .reg .u32 x; ld.param.u64 p, [a]; ld.acquire.gpu.u32 x, [p]; st.param.u32 [v], x; ret; }\n"
IDLE = ".func idle() { ret; }\n"
KERNEL = """
.visible .entry k(.param .u64 flag)
{{ .reg .u64 f; .reg .u32 t, x; .reg .pred p; .param .u64 a; .param .u32 v;
  ld.param.u64 f, [flag]; mov.u32 t, %tid.x; setp.ge.u32 p, t, 32; @p bra giver;
wait:
  {look}
  setp.eq.u32 p, x, 0; @p bra wait;
  st.global.u32 [f+4], x; ret;
giver:
  st.release.gpu.u32 [f], 7; ret; }}
"""
LOOKS = {
    "in a function": "st.param.u64 [a], f; call (v), look, (a); ld.param.u32 x, [v];",
    "through a register": "mov.u64 f2, look; st.param.u64 [a], f; call (v), f2, (a), proto; ld.param.u32 x, [v];",
    "beside a call": "ld.volatile.global.u32 x, [f]; call idle;",
    "plain, beside a call": "ld.global.u32 x, [f]; call idle;",
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_the_giver_gets_its_turn(look: str):
    """The waiting warp comes first in the text; the flag is set all the same."""
    text = HEAD + LOOK + IDLE + KERNEL.format(look=look)
    if "proto" in look:
        text = text.replace("{ .reg .u64 f;", "{ .reg .u64 f, f2;", 1)
        text = text.replace("wait:", "proto: .callprototype (.param .u32 _) _ (.param .u64 _);\nwait:")
    out = np.zeros(2, np.uint32)

    warpsim.load(text)["k"]((1,), (64,), (out,), max_instructions=100_000, checks="none")

    assert out.tolist() == [7, 7]
