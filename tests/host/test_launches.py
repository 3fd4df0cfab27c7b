"""What a launch gives, what ends it, and what it leaves behind."""

import signal
import threading
import time

import numpy as np
import pytest

import warpsim

COUNTING = """.version 8.0
.target sm_90
.address_size 64
.visible .global .u32 total;
.visible .entry k(.param .u64 p, .param .u64 q)
{
    .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u64 %rd0, [p];
    ld.param.u64 %rd1, [q];
    mov.u32 %r0, 0;
again:
    add.u32 %r0, %r0, 1;
    st.global.u32 [%rd0], %r0;
    st.global.u32 [%rd1], %r0;
    st.global.u32 [total], %r0;
    setp.ne.u32 %p, %r0, 0;
    @%p bra again;
    ret;
}
"""


@pytest.fixture
def counting():
    """A kernel that counts to 2**32 in three places."""
    return warpsim.load(COUNTING)["k"]


def allocations(device):
    """How many pieces of memory a device holds."""
    return len(device.memory._allocations)


def test_wall_clock_limit(counting):
    """max_seconds ends a launch by rule ``limit``, under any checks, and what was written stays."""
    p, q = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    for options in ({}, {"checks": "none"}, {"on_finding": "collect"}):
        started = time.monotonic()
        with pytest.raises(warpsim.ExecutionError, match=r"more than 0\.2 seconds") as caught:
            counting((1,), (1,), (p, q), max_seconds=0.2, **options)
        assert 0.2 <= time.monotonic() - started < 20
        assert caught.value.findings[-1].rule == "limit"
        assert p[0] > 0


def test_wall_clock_limit_of_a_device(counting):
    """A device has one for its launches, and a launch another; a snippet takes one too."""
    device = warpsim.Device("sm_90")
    device.max_seconds = 0.02
    p = np.zeros(1, np.uint32)
    with pytest.raises(warpsim.ExecutionError, match=r"more than 0\.02 seconds"):
        counting((1,), (1,), (p, p), device=device)
    with pytest.raises(warpsim.ExecutionError, match="more than 50 warp-instructions"):
        counting((1,), (1,), (p, p), device=device, max_seconds=100, max_instructions=50)
    with pytest.raises(warpsim.ExecutionError, match=r"more than 0\.03 seconds"):
        warpsim.run("again: add.u32 d, d, a; setp.ne.u32 p, d, 1; @p bra again;", registers={"d": 0, "a": 2},
                    max_seconds=0.03)  # fmt: skip


@pytest.fixture
def interruptible():
    """Ctrl-C as Python has it, also where a shell started this in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals")
def test_interrupt(counting, interruptible):
    """Ctrl-C ends a launch as KeyboardInterrupt: arrays and variables hold what was written, nothing else is left."""
    module, device = counting.module, counting.module.device
    module.get_global("total")
    p, q = np.zeros(1, np.uint32), device.array(np.zeros(1, np.uint32))
    before = allocations(device)
    timer = threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    timer.start()

    with pytest.raises(KeyboardInterrupt):
        counting((1,), (1,), (p, q), max_seconds=60)

    timer.join()
    assert p[0] > 0
    values = [int(x) for x in (p[0], q.get()[0], module.get_global("total").get()[0])]
    assert max(values) - min(values) <= 1
    assert allocations(device) == before
    with pytest.raises(warpsim.ExecutionError, match="limit"):
        counting((1,), (1,), (p, q), max_instructions=50)
    assert allocations(device) == before


def test_who_takes_the_text_may_raise():
    """An exception of the caller's own ``stdout`` goes on to the caller, and nothing is left behind."""

    def closed(text):
        raise BrokenPipeError("nobody listens")

    text = """.version 8.0
    .target sm_90
    .address_size 64
    .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
    .global .align 1 .b8 words[4] = {104, 105, 10, 0};
    .visible .entry k(.param .align 8 .b8 unused[16])
    {
        .reg .b64 %rd<4>;
        mov.u64 %rd0, words;
        cvta.global.u64 %rd1, %rd0;
        mov.b64 %rd3, unused;
        cvta.param.u64 %rd3, %rd3;
        ld.u64 %rd2, [%rd3];
        { .param .b64 f; .param .b64 a; .param .b32 r;
          st.param.b64 [f], %rd1; st.param.b64 [a], %rd2;
          call.uni (r), vprintf, (f, a); }
        ret;
    }
    """
    device = warpsim.Device("sm_90", stdout=closed)
    kernel = warpsim.load(text)["k"]
    kernel.module.image(device)
    before = allocations(device)
    with pytest.raises(BrokenPipeError):
        kernel((1,), (1,), (bytes(16),), device=device)
    assert allocations(device) == before


def test_counts():
    """Instructions by warp, by thread and by opcode; one of two warps takes the branch with half of its lanes."""
    text = """.version 8.0
    .target sm_90
    .address_size 64
    .visible .entry k()
    {
        .reg .b32 %r<3>; .reg .pred %p;
        mov.u32 %r0, %tid.x;
        setp.lt.u32 %p, %r0, 16;
        @%p bra low;
        ret;
    low:
        add.u32 %r1, %r0, 1;
        add.u32 %r2, %r1, 1;
        ret;
    }
    """
    result = warpsim.load(text)["k"]((3,), (64,), ())

    assert result.opcodes == {"mov.u32": 6, "setp.lt.u32": 6, "bra": 6, "add.u32": 6, "ret": 9}
    assert result.instructions == sum(result.opcodes.values())
    assert result.thread_instructions == 3 * (3 * 64 + 48 + 16 * 3)
    assert result.findings == ()
    assert result.stdout == ""
    assert 0 < result.seconds < 60


def test_finding_fields():
    """A finding has every documented field, as plain data."""
    text = COUNTING.replace("add.u32 %r0, %r0, 1;", "mov.u32 %r2, %tid.x;\n.loc 1 7 3\nst.global.u32 [%rd0+400], %r2;")
    text = text.replace(".visible .global", '.file 1 "a.cu"\n.visible .global')
    out = np.zeros(4, np.uint32)
    with pytest.raises(warpsim.ExecutionError) as caught:
        warpsim.load(text)["k"]((1, 1, 1), (8,), (out, out))
    (finding,) = caught.value.findings

    assert (finding.rule, finding.severity, finding.kernel) == ("out-of-bounds", "error", "k")
    assert (finding.file, finding.line, finding.column) == ("<ptx>", 15, 1)
    assert finding.instruction == "st.global.u32"
    assert (finding.cta, finding.warp, finding.lanes) == ((0, 0, 0), 0, tuple(range(8)))
    assert (finding.source, finding.other, finding.count) == (("a.cu", 7), None, 1)
    assert finding.message
    assert finding.advice
    assert finding.section
    assert isinstance(finding.values, dict)


@pytest.mark.parametrize("grid", [(2**31 - 1,), (1, 65535), (1, 1, 65535)])
def test_the_largest_grids(counting, grid):
    """The last grid that a GPU takes is taken, and no larger one; a dimension of 0 is none."""
    given = (np.zeros(1, np.uint32),) * 2
    with pytest.raises(warpsim.ExecutionError, match="limit: the launch has executed more than 0"):
        counting(grid, (1,), given, max_instructions=0)
    with pytest.raises(warpsim.LaunchError, match="exceeds the limit"):
        counting((*grid[:-1], grid[-1] + 1), (1,), given, max_instructions=0)
    with pytest.raises(warpsim.LaunchError, match="positive integers"):
        counting((*grid[:-1], 0), (1,), given)
