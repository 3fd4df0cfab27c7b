"""Variables lie in shared memory as ptxas 13.0 puts them.

``shared_layouts.txt`` holds a module a line behind the offsets of its variables (``tools/recordings/shared_layouts.py``)."""

from pathlib import Path

import numpy as np

import warpsim
from ptx_text import module_head

HEAD = module_head("sm_90")
ROWS = [line.split("\t") for line in Path(__file__).with_name("shared_layouts.txt").read_text().splitlines()]


def stored(text, count, dynamic=0):
    """The addresses that a kernel stores."""
    out = np.zeros(count, np.uint32)
    warpsim.load(HEAD + text)["k"]((1,), (1,), (out,), shared_mem=dynamic)
    return out.tolist()


def test_the_order():
    """The kernel's variables stand first, then the module's; what the kernel does not name has no place."""
    wrong = []
    for offsets, text in ROWS:
        wanted = [int(offset) for offset in offsets.split()]
        found = stored(text.replace("\\n", "\n"), len(wanted), 64 * ("dyn" in text))
        if found != wanted:
            wrong.append((text, found, wanted))

    assert wrong == []


def test_those_of_functions():
    """Behind those of the module: ptxas puts a at 0, m at 24, w at 36."""
    text = """.shared .b32 m[3];
    .func (.reg .b32 x) f() { .shared .b32 w[5]; mov.u32 x, w; ret; }
    .visible .entry k(.param .u64 out) {
    .reg .b64 o; .reg .b32 r; .shared .b32 a[6];
    ld.param.u64 o, [out]; mov.u32 r, m; st.global.u32 [o], r; mov.u32 r, a; st.global.u32 [o+4], r;
    call (r), f; st.global.u32 [o+8], r; ret; }"""

    assert stored(text, 3) == [24, 0, 36]
