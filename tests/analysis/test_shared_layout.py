"""Variables in shared memory have places of their own, whichever function names them."""

import numpy as np
import pytest

import warpsim

TEXT = """.version 8.0
.target sm_80
.address_size 64
.func f() { .shared .b32 t[2]; st.shared.u32 [t], 2; st.shared.u32 [t+4], 3; ret; }
.func g() { .shared .align 8 .b32 w; st.shared.u32 [w], 4; ret; }
.global .u64 table[2] = { f, g };
.visible .entry k(.param .u64 words) {
.reg .b64 a, x; .reg .b32 r<2>; .shared .b32 s[2];
TO: .callprototype _ ();
ld.param.u64 a, [words]; st.shared.u32 [s], 1; st.shared.u32 [s+4], 9;
CALLS
ld.shared.u32 r0, [s]; ld.shared.u32 r1, [s+4]; st.global.v2.u32 [a], {r0, r1}; ret; }
"""
CALLS = {
    "by name": "call f; call g;",
    "by address": "mov.u64 x, f; call x, (), TO; mov.u64 x, g; call x, (), TO;",
    "from a table": "ld.global.u64 x, [table]; call x, (), TO; ld.global.u64 x, [table+8]; call x, (), TO;",
}


@pytest.mark.parametrize("way", CALLS)
def test_functions_have_their_own(way):
    """What a function stores in its variables leaves those of the kernel alone."""
    text = TEXT.replace("CALLS", CALLS[way])
    words = np.zeros(2, np.uint32)
    warpsim.load(text)["k"](1, 1, (words,))

    assert words.tolist() == [1, 9]
