"""What threads cost that wait: a launch with 999 waiting warps beside the one that works, alone, in the same run.

``python -m pytest benchmarks/test_waiting.py``: a crowd of spinning warps takes at most twice the time of the worker."""

import time

import numpy as np
import pytest

import warpsim

WARPS = 1000
ROUNDS = 1500
HEAD = """.version 8.0
.target sm_90
.address_size 64
"""
WORK = {
    "arithmetic": "fma.rn.f32 a, a, b, b; xor.b32 v, i, t; add.u32 v, v, i; mul.lo.u32 v, v, 3;",
    "stores": "fma.rn.f32 a, a, b, b; st.global.f32 [x], a; add.u32 v, v, i; mul.lo.u32 v, v, 3;",
    "shared": "st.shared.u32 [room], v; ld.shared.u32 v, [room]; add.u32 v, v, i; mul.lo.u32 v, v, 3;",
    "atomics": "atom.global.add.u32 v, [x], 1; add.u32 v, v, i; xor.b32 v, v, t; mul.lo.u32 v, v, 3;",
}
SPIN = {
    "acquire": "ld.acquire.gpu.global.u32 v, [f];",
    "volatile": "ld.volatile.global.u32 v, [f];",
    "sleeping": "nanosleep.u32 100; ld.acquire.gpu.global.u32 v, [f];",
    "counting": "add.u32 n, n, 1; ld.acquire.gpu.global.u32 v, [f];",
    "atomic": "atom.global.add.u32 v, [f], 0;",
    "exchange": "atom.acquire.gpu.global.cas.b32 v, [f], 1, 1;",
    "mbarrier": "mbarrier.try_wait.parity.shared.b64 q, [object], 0; selp.u32 v, 1, 0, q;",
}


def crowd(work: str, spin: str) -> str:
    """Warp 0 of the grid works and then sets a flag; all others spin on the flag, or at an mbarrier of their CTA."""
    return (
        HEAD
        + f""".visible .entry k(.param .u64 pf, .param .u64 po, .param .u32 pn) {{
    .reg .b64 f, o, x; .reg .b32 t, c, v, i, n, w, z; .reg .pred p, q; .reg .f32 a, b;
    .shared .b32 room; .shared .b64 object;
    ld.param.u64 f, [pf]; ld.param.u64 o, [po]; ld.param.u32 n, [pn];
    mov.u32 v, 0; mov.f32 a, 0f3F800000; mov.f32 b, 0f3F000000;
    mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; mov.u32 z, %ntid.x;
    setp.eq.u32 p, t, 0; @p mbarrier.init.shared.b64 [object], 1; bar.sync 0;
    mad.lo.u32 t, c, z, t; shr.u32 w, t, 5; mul.wide.u32 x, t, 4; add.u64 x, x, o;
    setp.eq.u32 p, w, 0; @p bra WORK;
    SPIN: {SPIN[spin]} setp.eq.u32 q, v, 0; @q bra SPIN;
    bra DONE;
    WORK: mov.u32 i, 0;
    LOOP: {WORK[work]} add.u32 i, i, 1; setp.lt.u32 p, i, n; @p bra LOOP;
    setp.eq.u32 p, t, 0; @p mbarrier.arrive.shared.b64 _, [object]; st.release.gpu.global.u32 [f], 1;
    DONE: st.global.f32 [x], a; ret; }}"""
    )


@pytest.mark.parametrize("spin", SPIN)
@pytest.mark.parametrize("work", WORK)
def test_crowd(benchmark, work, spin):
    """999 warps that spin cost at most as much as the one that works."""
    grid, block = (1, 1024) if spin == "mbarrier" else (WARPS, 32)
    kernel = warpsim.load(crowd(work, spin))["k"]
    flag, out = np.zeros(1, np.uint32), np.zeros(WARPS * 32 + 1024, np.uint32)

    def launch(grid, block):
        flag[:] = 0
        kernel((grid,), (block,), (flag, out, ROUNDS))

    launch(1, 32)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        launch(1, 32)
        times.append(time.perf_counter() - begin)
    benchmark.pedantic(launch, (grid, block), rounds=3)
    ratio = benchmark.stats.stats.min / min(times)
    benchmark.extra_info["times the worker alone"] = round(ratio, 2)

    assert ratio <= 2


TICKET = (
    HEAD
    + """.visible .entry k(.param .u64 pf, .param .u64 po) {
    .reg .b64 f, o; .reg .b32 t, v, s, my; .reg .pred p, q;
    ld.param.u64 f, [pf]; ld.param.u64 o, [po]; mov.u32 t, %tid.x; setp.ne.u32 p, t, 0; @p bra OUT;
    atom.relaxed.gpu.global.add.u32 my, [f], 1; mov.u32 s, 8;
    SPIN: ld.acquire.gpu.global.u32 v, [f+4]; setp.eq.u32 q, v, my; @q bra IN;
    nanosleep.u32 s; shl.b32 s, s, 1; min.u32 s, s, 256; bra SPIN;
    IN: ld.global.u32 v, [o]; add.u32 v, v, 1; st.global.u32 [o], v;
    membar.gl; add.u32 my, my, 1; st.release.gpu.global.u32 [f+4], my;
    OUT: ret; }"""
)
LOOK_BACK = (
    HEAD
    + """.visible .entry k(.param .u64 pf, .param .u64 po) {
    .reg .b64 f, o, x, y, w; .reg .b32 t, c, v, my, sum, state; .reg .pred p, q;
    ld.param.u64 f, [pf]; ld.param.u64 o, [po]; mov.u32 t, %tid.x; mov.u32 c, %ctaid.x; setp.ne.u32 p, t, 0; @p bra OUT;
    mul.wide.u32 x, c, 8; add.u64 x, x, f; add.u32 my, c, 1; mov.u32 sum, my; mov.u64 y, x;
    setp.eq.u32 p, c, 0; selp.u32 state, 2, 1, p; mov.b64 w, {my, state}; st.release.gpu.global.u64 [x], w; @p bra END;
    BACK: sub.u64 y, y, 8;
    SPIN: ld.acquire.gpu.global.u64 w, [y]; mov.b64 {v, state}, w; setp.eq.u32 q, state, 0; @q bra SPIN;
    add.u32 sum, sum, v; setp.eq.u32 q, state, 1; @q bra BACK;
    mov.u32 state, 2; mov.b64 w, {sum, state}; st.release.gpu.global.u64 [x], w;
    END: mul.wide.u32 y, c, 4; add.u64 y, y, o; st.global.u32 [y], sum;
    OUT: ret; }"""
)


def test_ticket_lock(benchmark):
    """A lock that 1,000 warps pass through one after the other, with growing pauses."""
    kernel = warpsim.load(TICKET)["k"]

    def launch():
        count = np.zeros(1, np.uint32)
        kernel((WARPS,), (32,), (np.zeros(2, np.uint32), count))
        assert count == WARPS

    benchmark.pedantic(launch, rounds=3)


def test_look_back(benchmark):
    """Prefix sums over 1,000 CTAs, each of which looks back until it finds a finished one."""
    kernel = warpsim.load(LOOK_BACK)["k"]

    def launch():
        out = np.zeros(WARPS, np.uint32)
        kernel((WARPS,), (32,), (np.zeros(WARPS, np.uint64), out))
        assert np.array_equal(out, np.cumsum(np.arange(1, WARPS + 1)))

    benchmark.pedantic(launch, rounds=3)
