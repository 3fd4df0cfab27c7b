"""alloca, stacksave and stackrestore; whole kernels that allocate are in tests/cases/stack_room."""

import numpy as np
import pytest

import warpsim

KERNEL = """.version 9.0
.target sm_80
.address_size 64
.func (.param .b32 out) sum(.param .b32 n, .param .b64 room) {
    .reg .b32 %r<9>; .reg .b64 %d<3>; .local .align 4 .b8 own[16];
    ld.param.u32 %r1, [n];
    ld.param.u64 %d1, [room];
    st.local.u32 [own], %r1;
    shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;
    ld.local.u32 %r3, [%d1];
    ld.local.u32 %r4, [own];
    add.u32 %r5, %r2, %r3;
    add.u32 %r5, %r5, %r4;
    st.param.b32 [out], %r5;
    ret;
}
.visible .entry k(.param .u64 p) {
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p1;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 8;
    @%p1 bra SMALL;
    mul.wide.u32 %d2, %r1, 100;
    alloca.u64 %d3, %d2, 16;
    bra.uni BOTH;
SMALL:
    alloca.u64 %d3, 4;
BOTH:
    mul.lo.u32 %r2, %r1, 1000;
    st.local.u32 [%d3], %r2;
    {
    .param .b32 n; .param .b64 room; .param .b32 out;
    st.param.b32 [n], %r1;
    st.param.b64 [room], %d3;
    call (out), sum, (n, room);
    ld.param.b32 %r3, [out];
    }
    ld.local.u32 %r4, [%d3];
    add.u32 %r3, %r3, %r4;
    mad.wide.u32 %d4, %r1, 4, %d1;
    st.global.u32 [%d4], %r3;
    ret;
}"""


def test_calls_above_allocations():
    """Threads that allocated different amounts call a function together, and its frame lies above what they allocated."""
    out = np.zeros(32, np.uint32)

    warpsim.load(KERNEL)["k"]((1,), (32,), (out,), checks="all")

    i = np.arange(32)
    assert out.tolist() == ((i ^ 1) + i + 2000 * i).tolist()


def test_restore_frees():
    """What is allocated after stackrestore lies where the freed bytes were; without it, behind them, aligned."""
    code = "stacksave.u64 s; alloca.u64 a, 24; stackrestore.u64 s; alloca.u64 b, 40, 8; alloca.u64 c, 8, 64;"

    r = warpsim.run(code).registers

    assert (r["a"] == r["b"]).all()
    assert (r["c"] >= r["b"] + 40).all()
    assert (r["c"] % 64 == 0).all()


def test_guarded_lanes_allocate():
    """Lanes that a guard leaves out keep the end of their stack."""
    lanes = np.arange(32)

    r = warpsim.run("setp.lt.u32 p, n, 5; stacksave.u64 s; @p alloca.u64 a, 32; stacksave.u64 e;", registers={"n": lanes.astype(np.uint32)}).registers  # fmt: skip

    assert (r["e"] - r["s"] >= 32).tolist() == (lanes < 5).tolist()
    assert (r["e"] == r["s"]).tolist() == (lanes >= 5).tolist()


@pytest.mark.parametrize("size", [1 << 20, 1 << 63])
def test_boundless_allocation(size):
    """More than a thread's local memory is reported, not attempted."""
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.run("alloca.u64 a, n;", registers={"n": np.uint64(size)})

    assert caught.value.findings[0].rule == "limit"


@pytest.mark.parametrize("text", ["alloca.u64 a, 8, 3;", "alloca.u64 a, 8, 16777216;", "alloca.u64 a, 8, 0;"])
def test_alignment_verdicts(text):
    """The assembler takes powers of two up to 2**23."""
    with pytest.raises(warpsim.PtxError) as caught:
        warpsim.run(text)

    assert caught.value.findings[0].rule == "immediate-range"
