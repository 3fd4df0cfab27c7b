"""barrier-divergence: which numbers of threads a barrier can expect (PTX ISA, bar: multiples of the warp size)."""

import numpy as np
import pytest

import warpsim

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 count) { .reg .b32 n;
ld.param.u32 n, [count];
bar.arrive 1, n;
ret; }
"""


@pytest.mark.parametrize("threads", [32, 48, 64, 96])
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 48, 63, 64, 65, 96, 100, 128, 992])
def test_counts(threads, count):
    """Multiples of 32, and no more than the warps of the CTA have lanes."""
    run = warpsim.load(TEXT)["k"](1, threads, (np.zeros(1, np.uint32), count), on_finding="collect")
    possible = count in range(32, -(-threads // 32) * 32 + 1, 32)

    assert {(f.rule, f.line) for f in run.findings} == (set() if possible else {("barrier-divergence", 6)})


@pytest.mark.parametrize(("second", "told"), [(64, False), (96, True), (32, True)])
def test_one_count_for_a_phase(second, told):
    """Who comes to a barrier expects as many as those that are there."""
    text = TEXT.replace(".reg .b32 n;", ".reg .b32 n, t; .reg .pred q; mov.u32 t, %tid.x; setp.lt.u32 q, t, 32;")
    text = text.replace("bar.arrive 1, n;", f"@q bar.arrive 1, n; @!q bar.arrive 1, {second};")
    run = warpsim.load(text)["k"](1, 96, (np.zeros(1, np.uint32), 64), on_finding="collect")

    assert bool([f for f in run.findings if "expect" in f.message]) == told


@pytest.mark.parametrize("cta", [0, 1])
def test_who_arrived_last(cta):
    """The finding names where threads of the same CTA arrived last: warps 0 and 1 come in turn, in CTA 1 to each other's place."""
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k() {{ .reg .b32 t, w, c, n, v; .reg .pred p; .shared .b32 turn;
mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; shr.u32 w, t, 5;
mov.u32 v, 0; st.shared.u32 [turn], v; bar.sync 0;
again: ld.volatile.shared.u32 v, [turn]; setp.ne.u32 p, v, w; @p bra again;
setp.eq.u32 p, w, 2; @p bra last;
setp.eq.u32 p, w, c; @p bra second;
bar.arrive 1, 96; bra next;
second: bar.arrive 1, 96;
next: bar.warp.sync -1; add.u32 v, w, 1; st.volatile.shared.u32 [turn], v; ret;
last: setp.eq.u32 p, c, {cta}; selp.u32 n, 64, 96, p; bar.sync 1, n; ret; }}
"""
    (found,) = warpsim.load(text)["k"](2, 96, (), on_finding="collect").findings

    assert (found.rule, found.cta, found.line) == ("barrier-divergence", (cta, 0, 0), 13)
    assert found.other.line == (10, 11)[cta]
