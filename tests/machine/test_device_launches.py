"""Kernels that launch kernels. Codes and orders are an H200's (device_launches_h200.txt, tools/recordings/device_launches.cu)."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

import warpsim
from device_launches import FORGET, NOTE, TAIL, buffer, called, error, launch, launched, module, source
from engines import compiles
from warpsim.debug import Session
from warpsim.parallel.divide import kept_together


def run(loaded, name="main", size=64, grid=1, block=1, **options):
    """Launch a kernel; what it leaves, and the result."""
    out = np.zeros(size, np.uint32)
    result = loaded[name](grid, block, (out,), **options)
    return out, result


MARK = "ld.param.u32 %r0, [n]; " + NOTE.format(what="%r0")


def notes(out):
    """What kernels have noted, in order."""
    return out[1 : 1 + out[0]].tolist()


@pytest.mark.parametrize("engine", ["interpreter", "auto", pytest.param("compiled", marks=compiles)])
def test_a_child_runs_after_its_launch(engine):
    """It sees what its parent has written by then; the result counts its instructions."""
    child = "mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.s64 %d1, %d1, %d0; ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, %r1; st.global.u32 [%d1], %r2;"
    loaded = module(child=child, main="st.global.u32 [%d0], 7;" + launch("child", block=(40, 1, 1)))
    out, result = run(loaded, engine=engine, checks="all", profile=True)

    assert out[:40].tolist() == [7, *range(1, 40)]
    alone, own = loaded["child"](1, 40, (out,)), len(loaded["main"].function.code)
    assert (result.instructions, result.thread_instructions) == (
        alone.instructions + own,
        alone.thread_instructions + own,
    )
    assert result.opcodes["st.global.u32"] == 3
    assert {line.counts.executions for line in result.profile.lines} >= {1, 2}


TREE = {
    "mark": MARK,
    "t1": NOTE.format(what=1)
    + launch("mark", TAIL, 11)
    + launch("mark", FORGET, 12)
    + launch("mark", 0, 13)
    + launch("mark", TAIL, 14),
    "main": launch("t1", TAIL)
    + launch("mark", TAIL, 2)
    + launch("mark", 0, 3)
    + launch("mark", FORGET, 4)
    + NOTE.format(what=0),
}


@pytest.mark.parametrize("schedule", [None, 3])
def test_the_order_of_tail_launches(schedule):
    """They come when all else has ended, each with what it launches before the next: an H200's order."""
    out, _ = run(module(**TREE), schedule=schedule)

    assert notes(out) == [0, 3, 4, 1, 12, 13, 11, 14, 2]


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ({}, 0),
        ({"grid": (0, 1, 1)}, 9),
        ({"grid": (1, 0, 1)}, 9),
        ({"block": (0, 1, 1)}, 9),
        ({"block": (1024, 1, 1)}, 0),
        ({"block": (1025, 1, 1)}, 9),
        ({"block": (32, 33, 1)}, 9),
        ({"block": (1, 1, 65)}, 9),
        ({"grid": (1, 65536, 1)}, 9),
        ({"grid": (0x80000000, 1, 1)}, 9),
        ({"shared": 49152}, 0),
        ({"shared": 49153}, 9),
        ({"shared": 232449}, 9),
        ({"kernel": "static", "shared": 48128}, 0),
        ({"kernel": "static", "shared": 48129}, 9),
        ({"kernel": "most64", "block": (64, 1, 1)}, 0),
        ({"kernel": "most64", "block": (65, 1, 1)}, 9),
        ({"kernel": "pairs", "grid": (2, 1, 1)}, 0),
        ({"kernel": "pairs", "grid": (3, 1, 1)}, 912),
    ],
)
def test_what_does_not_fit(shape, code):
    """The launch returns the code, which is the thread's last error until it is asked for."""
    shape = dict(shape)
    kernel = shape.pop("kernel", "child")
    loaded = module(
        child="",
        most64=(".maxntid 64", ""),
        pairs=(".reqnctapercluster 2", ""),
        static=".shared .b8 s[1024]; mov.u32 %r1, s; st.shared.u32 [%r1], 1;",
        main=launch(kernel, **shape)
        + "st.global.u32 [%d0], %r3;"
        + error("Peek")
        + "st.global.u32 [%d0+4], %r4;"
        + error()
        + "st.global.u32 [%d0+8], %r4;"
        + error()
        + "st.global.u32 [%d0+12], %r4;",
    )
    out, _ = run(loaded)

    assert out[:4].tolist() == [code, code, code, 0]


def test_the_last_error_is_a_threads_own():
    """A good launch does not clear it; a child begins without one."""
    bad = "mov.u32 %r5, %tid.x; setp.ne.u32 %p1, %r5, 1; @%p1 bra done;" + launch("child", block=(1025, 1, 1))
    store = "mov.u32 %r5, %tid.x; mul.wide.u32 %d1, %r5, 4; add.s64 %d1, %d1, %d0; st.global.u32 [%d1+{at}], %r4;"
    good = launch("child", block=(4, 1, 1)) + "done:" + error("Peek") + store.format(at=0)
    out, _ = run(module(child=error() + "add.u32 %r4, %r4, 5;" + store.format(at=16), main=bad + good), block=4)

    assert out[:8].tolist() == [0, 9, 0, 0, 5, 5, 5, 5]


def test_too_many_tail_launches():
    """2,048 of them may wait (H200), of other launches any number."""
    loop = (
        "mov.u32 %r5, 0; again:"
        + "{}"
        + "setp.eq.u32 %p1, %r3, 69; @%p1 ld.global.u32 %r6, [%d0+4];\n@%p1 add.u32 %r6, %r6, 1;"
    )
    loop += "@%p1 st.global.u32 [%d0+4], %r6; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 50; @%p2 bra again;"
    device = warpsim.Device("sm_90a")
    assert device.pending_launches == 2048
    device.pending_launches = 48
    for stream, refused in ((TAIL, 2), (0, 0)):
        loaded = module(child="atom.global.add.u32 %r1, [%d0], 1;", main=loop.format(launch("child", stream)))
        out, _ = run(loaded, engine="interpreter", device=device)
        assert out[:2].tolist() == [50 - refused, refused]


@pytest.mark.parametrize("stream", [0, TAIL])
def test_grids_launch_themselves(stream):
    """As deep as they like (an H200 goes beyond the 24 levels of CUDA's guide), and as tails without end."""
    body = "ld.param.u32 %r0, [n]; add.u32 %r0, %r0, 1; st.global.u32 [%d0], %r0; setp.ge.u32 %p1, %r0, 60; @%p1 ret;"
    first = "mov.u32 %r0, 0;" + launch("again", number="%r0")
    out, _ = run(module(again=body + launch("again", stream, "%r0"), main=first))

    assert out[0] == 60


@pytest.mark.parametrize(
    "poll", ["ld.volatile.global.u32 %r1, [%d0];", "atom.global.add.u32 %r1, [%d0], 0;"], ids=["load", "atomic"]
)
@pytest.mark.parametrize("counts", ["", "add.u32 %r6, %r6, 1; setp.gt.u32 %p2, %r6, 90000000; @%p2 bra end;"])
@pytest.mark.parametrize("engine", ["interpreter", "auto"])
def test_a_parent_that_polls(poll, counts, engine):
    """What it waits for comes from the grid that it has launched."""
    loop = f"mov.u32 %r6, 0; again: {poll} setp.ne.u32 %p1, %r1, 0; @%p1 bra end; {counts} bra again; end: st.global.u32 [%d0+4], %r1;"
    loaded = module(child="st.volatile.global.u32 [%d0], 5;", main=launch("child", FORGET) + loop)
    out, _ = run(loaded, engine=engine, max_instructions=10**6)

    assert out[:2].tolist() == [5, 5]


@pytest.mark.parametrize("depth", [127, 128])
def test_grids_that_poll_inside_each_other(depth):
    """A GPU runs 128 grids at once, and hangs with more (H200)."""
    at = "ld.param.u32 %r0, [n]; mul.wide.u32 %d5, %r0, 4; add.s64 %d5, %d5, %d0;"
    poll = "again: ld.volatile.global.u32 %r1, [%d5+-4]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again;"
    body = "setp.eq.u32 %p1, %r0, 0; @%p1 bra last; sub.u32 %r0, %r0, 1;" + launch("each", FORGET, "%r0") + poll
    loaded = module(each=at + body + "last: st.volatile.global.u32 [%d5], 1;")
    out = np.zeros(200, np.uint32)
    if depth < 128:
        loaded["each"](1, 1, (out, depth))
        assert out.sum() == depth + 1
        return
    with pytest.raises(warpsim.ExecutionError, match="deadlock"):
        loaded["each"](1, 1, (out, depth))


def test_a_parent_that_polls_for_a_tail():
    """It comes only after the parent: no thread can proceed."""
    loop = "again: ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again;"
    loaded = module(child="st.volatile.global.u32 [%d0], 5;", main=launch("child", TAIL) + loop)
    with pytest.raises(warpsim.ExecutionError, match="deadlock"):
        run(loaded)


def test_arguments_are_copied():
    """The buffer is gone with the launch."""
    loaded = module(mark=MARK, main=launch("mark", 0, 3) + "st.u32 [%d2+8], 4;")
    with pytest.raises(warpsim.ExecutionError) as caught:
        run(loaded)
    assert caught.value.findings[0].rule == "out-of-bounds"


STREAM = ".local .b64 handle; mov.u64 %d4, handle; cvta.local.u64 %d5, %d4;\n" + called(
    "__cudaCDP2StreamCreateWithFlags", (8, "%d5"), (4, 1)
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (buffer("child") + "st.u64 [%d2], %d0;" + launched() + launched(), "not a parameter buffer"),
        ("mov.u64 %d2, 0;" + launched(), "0x0 is not a parameter buffer"),
        (buffer("0x123450"), "0x123450 is not a kernel"),
        (launch("child", "77"), "0x4d is no stream of this grid"),
        (".shared .b32 s; mov.u64 %d4, s; cvta.shared.u64 %d0, %d4;" + launch("child"), "out of child is 0x.*shared"),
        (".local .b32 s; mov.u64 %d4, s; cvta.local.u64 %d0, %d4;" + launch("child"), "out of child is 0x.*local"),
        (called("__cudaCDP2MemsetAsync", (8, "%d0"), (4, 1), (8, 4096), (8, 0)), "4096 bytes at 0x"),
        (STREAM + "ld.local.u64 %d4, [%d4]; st.global.u64 [%d0], %d4;" + launch("other"), "is no stream of this grid"),
    ],
)
def test_what_is_undefined(body, message):
    """A GPU faults, hangs or goes on with it (H200)."""
    loaded = module(child="", other="ld.global.u64 %d4, [%d0];" + launch("child", "%d4"), main=body)
    with pytest.raises(warpsim.ExecutionError, match=message) as caught:
        run(loaded)
    assert caught.value.findings[0].rule == "out-of-bounds"


def test_who_launched_a_grid_with_a_finding():
    """The finding names the kernel, the line, the CTA and the thread."""
    loaded = module(child="st.global.u32 [%d0+4096], 1;", main=launch("child"))
    with pytest.raises(warpsim.ExecutionError) as caught:
        run(loaded, grid=2, block=2)
    (finding,) = caught.value.findings
    line = next(n for n, text in enumerate(loaded.source.splitlines(), 1) if "call.uni (r), cudaLaunchDeviceV2" in text)

    assert (finding.kernel, finding.rule) == ("child", "out-of-bounds")
    by = f"main, line {line}, CTA (0, 0, 0), thread (0, 0, 0)"
    assert finding.values["launched_by"] == by
    assert f"in a grid that was launched by {by}" in str(finding)


def test_streams_and_copies():
    """What is put into a stream happens in order."""
    steps = [
        STREAM + "ld.local.u64 %d4, [%d4];",
        launch("child", "%d4"),
        called("__cudaCDP2MemcpyAsync", (8, "%d6"), (8, "%d0"), (8, 4), (4, 3), (8, "%d4")),
        called("__cudaCDP2MemsetAsync", (8, "%d0"), (4, 0x1FF), (8, 2), (8, "%d4")),
        called("__cudaCDP2MemcpyAsync", (8, "%d6"), (8, "%d0"), (8, 4), (4, 2), (8, "%d4")),
        "st.global.u32 [%d0+8], %r4;",
    ]
    out, _ = run(module(child="st.global.u32 [%d0], 0x50005;", main="add.s64 %d6, %d0, 4;" + "".join(steps)))

    assert out[:3].tolist() == [
        0x50000,
        0x50005,
        21,
    ]  # 0 whatever the value; cudaErrorInvalidMemcpyDirection: to the host


def test_the_order_of_threads():
    """In that of CTAs, warps and lanes, also where a warp has taken both sides of a branch."""
    number = "mov.u32 %r4, %ctaid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r6, %r4, 100, %r5;"
    odd = "and.b32 %r7, %r5, 1; setp.eq.u32 %p1, %r7, 0; @%p1 bra join; add.u32 %r6, %r6, 1000; join:"
    out, _ = run(module(mark=MARK, main=number + odd + launch("mark", 0, "%r6")), size=200, grid=3, block=40)

    assert notes(out) == [cta * 100 + k + k % 2 * 1000 for cta in range(3) for k in range(40)]


def test_copies_behind_all_else():
    """One in the stream of tail launches comes when the grids have ended."""
    copy = called("__cudaCDP2MemcpyAsync", (8, "%d6"), (8, "%d0"), (8, 4), (4, 3), (8, TAIL))
    body = "add.s64 %d6, %d0, 4;" + copy + launch("child") + launch("child", TAIL)
    out, _ = run(module(child="atom.global.add.u32 %r1, [%d0], 1;", main=body))

    assert out[:2].tolist() == [2, 1]


MAKE = "__cudaCDP2StreamCreateWithFlags"


def test_where_handles_are_stored():
    """In shared memory of the thread's own CTA, or in global memory, which is written by that."""
    shared = ".shared .b64 s; mov.u64 %d4, s; cvta.shared.u64 %d5, %d4;" + called(MAKE, (8, "%d5"), (4, 1))
    shared += "ld.shared.u64 %d4, [s];" + launch("child", "%d4")
    own = "mov.u32 %r5, %ctaid.x; mul.wide.u32 %d6, %r5, 8; add.s64 %d6, %d6, %d0; add.s64 %d6, %d6, 8;"
    own += called(MAKE, (8, "%d6"), (4, 1)) + "ld.global.u64 %d4, [%d6];" + launch("child", "%d4")
    loaded = module(child="atom.global.add.u32 %r1, [%d0], 1;", main=shared + own)
    memory = loaded.device.empty(16, np.uint32)
    loaded.device.write(memory.ptr, np.zeros(1, np.uint32))
    loaded["main"](3, 1, (memory,))

    assert np.array(memory)[0] == 6


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (called("__cudaCDP2MemcpyAsync", (8, "%d4"), (8, "%d0"), (8, 4), (4, 3), (8, 0)), "4 bytes at 0x"),
        (called(MAKE, (8, "%d4"), (4, 1)), "cannot write 8 bytes at 0x"),
    ],
)
def test_constants_are_not_written(what, message):
    """Neither by copies nor by what makes a stream."""
    text = source(main="mov.u64 %d4, kept; cvta.const.u64 %d4, %d4;" + what)
    with pytest.raises(warpsim.ExecutionError, match=message):
        run(warpsim.load(text.replace(".visible", ".const .b64 kept;\n.visible", 1)))


@pytest.mark.parametrize(("grid", "code", "wanted"), [(4, 0, [4, 2]), (3, 912, [0, 0])])
def test_a_grid_in_clusters(grid, code, wanted):
    """Of a kernel whose blocks are clusters, too, a kernel launches CTAs (an H200; the host launches clusters)."""
    size = "mov.u32 %r2, %cluster_nctaid.x; st.global.u32 [%d0+4], %r2;"
    kernel = ".blocksareclusters .reqntid 1 .reqnctapercluster 2", "atom.global.add.u32 %r1, [%d0], 1;" + size
    text = source(child=kernel, main=launch("child", grid=(grid, 1, 1)) + "st.global.u32 [%d0+8], %r3;")
    out, _ = run(warpsim.load(text.replace(".version 8.7", ".version 9.0")))

    assert out[:3].tolist() == [*wanted, code]


def test_a_block_that_the_kernel_does_not_declare():
    """An H200 runs it."""
    loaded = module(child=(".reqntid 64", ""), main=launch("child", block=(32, 1, 1)))
    with pytest.raises(
        warpsim.ExecutionError, match=r"child requires blocks of \(64, 1, 1\) threads \(.reqntid\), not \(32, 1, 1\)"
    ):
        run(loaded)
    run(module(child=(".reqntid 64", ""), main=launch("child", block=(64, 1, 1))))


def test_a_stream_that_is_gone():
    """It is none any more."""
    stream = ".local .b64 handle; mov.u64 %d4, handle; cvta.local.u64 %d5, %d4;" + called(MAKE, (8, "%d5"), (4, 1))
    gone = stream + "ld.local.u64 %d4, [%d4];" + called("__cudaCDP2StreamDestroy", (8, "%d4")) + launch("child", "%d4")
    text = source(child="", main=gone).replace(
        ".extern", ".extern .func (.param .b32 r) __cudaCDP2StreamDestroy(.param .b64 s);\n.extern", 1
    )
    with pytest.raises(warpsim.ExecutionError, match="is no stream of this grid"):
        run(warpsim.load(text))


def test_dynamic_shared_memory():
    """It is as large as the launch says."""
    use = "mov.u32 %r1, %dynamic_smem_size; st.global.u32 [%d0], %r1;"
    out, _ = run(module(child=use, main=launch("child", shared=4096)), shared_mem=64)

    assert out[0] == 4096


def test_undefined_bytes_that_are_copied():
    """They stay undefined."""
    copy = called("__cudaCDP2MemcpyAsync", (8, "%d0"), (8, "%d6"), (8, 4), (4, 3), (8, 0))
    reads = "ld.global.u32 %r1, [%d0]; st.global.u32 [%d0+4], %r1;"
    loaded = module(child=reads, main="add.s64 %d6, %d0, 64;" + copy + launch("child"))
    memory = loaded.device.empty(32, np.uint32)
    loaded.device.write(memory.ptr, np.zeros(2, np.uint32))
    with pytest.raises(warpsim.ExecutionError, match="uninitialised"):
        loaded["main"](1, 1, (memory,))


def test_what_grids_print():
    """It comes in their order."""
    printf = "{ .param .b64 f; .param .b64 a; .param .b32 r; mov.u64 %d4, TEXT; cvta.global.u64 %d4, %d4; st.param.b64 [f], %d4;"
    printf += "st.param.b64 [a], 0; call.uni (r), vprintf, (f, a); }"
    text = source(child=printf.replace("TEXT", "child_"), main=launch("child") + printf.replace("TEXT", "main_"))
    texts = "".join(f".global .b8 {n}_[2] = {{{ord(n[0])}, 0}};\n" for n in ("child", "main"))
    declared = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    _, result = run(warpsim.load(text.replace(".visible", declared + texts + ".visible", 1)))

    assert result.stdout == "mc"


@pytest.mark.parametrize("end", ["", "st.global.u32 [%d0+4096], 1;"])
def test_nothing_is_left_in_memory(end):
    """Buffers that are not launched, and streams, end with their grid, also where a grid faults."""
    own = "mov.b64 %d4, n; cvta.param.u64 %d4, %d4; ld.u32 %r0, [%d4];" + "// [n]\n" + buffer("child") + STREAM
    loaded = module(child=own + end, main=own + launch("child", 0, 1) + launch("child", TAIL, 1))
    out = np.zeros(4, np.uint32)
    if end:
        with pytest.raises(warpsim.ExecutionError, match="out-of-bounds"):
            loaded["main"](1, 1, (out, 1))
    else:
        loaded["main"](1, 1, (out, 1))

    assert not loaded.device.memory.allocations


def test_limits_hold_for_all_grids():
    """The budget of instructions is one for the launch and all that it launches."""
    loaded = module(again=launch("again"), main=launch("again"))
    with pytest.raises(warpsim.ExecutionError, match="more than 1000 warp-instructions"):
        run(loaded, max_instructions=1000)
    with pytest.raises(warpsim.ExecutionError, match=r"more than 0\.05 seconds"):
        run(loaded, max_seconds=0.05)


def test_launches_keep_ctas_together():
    """They are not divided over processes."""
    loaded = module(child="", main=launch("child"))
    plan = loaded.image(loaded.device).plan("main")

    assert kept_together(plan, cooperative=False) == "launches by the device"


def test_undefined_bytes_of_parent_and_child():
    """Memory that nothing wrote is undefined in a child; what a child writes is defined afterwards."""
    loaded = module(
        reads="ld.global.u32 %r1, [%d0]; st.global.u32 [%d0+4], %r1;",
        writes="st.global.u32 [%d0], 3;",
        bad=launch("reads"),
        good=launch("writes") + launch("reads"),
    )
    for name in ("good", "bad"):
        memory = loaded.device.empty(4, np.uint32)
        if name == "good":
            loaded[name](1, 1, (memory,))
            continue
        with pytest.raises(warpsim.ExecutionError, match="uninitialised"):
            loaded[name](1, 1, (memory,))


@pytest.mark.parametrize("stored", [(), (8,), (8, 10)])
def test_parameters_that_nothing_stores(stored):
    """A number that is passed only in part is undefined; the padding of a structure may be."""
    given = "st.u64 [%d2], %d0; st.u16 [%d2+12], 3;" + "".join(f"st.u16 [%d2+{at}], 7;" for at in stored)
    text = source(
        child="ld.param.u32 %r1, [n]; ld.param.u16 %h, [more]; cvt.u32.u16 %r2, %h;"
        "add.u32 %r1, %r1, %r2; st.global.u32 [%d0], %r1;",
        main=buffer("child") + given + launched(),
    )
    text = text.replace(".param .u32 n)", ".param .u32 n, .param .align 4 .b8 more[8])")
    loaded = warpsim.load(text.replace(".reg .pred", ".reg .b16 %h; .reg .pred"))
    if len(stored) == 2:
        assert run(loaded)[0][0] == 0x70007 + 3
        return
    with pytest.raises(warpsim.ExecutionError, match="nothing has stored n of child into the buffer") as caught:
        run(loaded)
    assert caught.value.findings[0].rule == "out-of-bounds"


def test_what_an_undefined_value_decides_to_launch():
    """It is an error, though both sides leave the same until the grids run."""
    body = "ld.global.u32 %r1, [%d0+64]; setp.eq.u32 %p1, %r1, 0; @%p1 bra end;" + launch("child") + "end:"
    loaded = module(child="st.global.u32 [%d0], 1;", inner=body, main=launch("inner"))
    for name in ("inner", "main"):
        memory = loaded.device.empty(32, np.uint32)
        with pytest.raises(warpsim.ExecutionError, match="uninitialised"):
            loaded[name](1, 1, (memory,))


def test_a_kernel_that_takes_the_address_of_its_parameters():
    """Parent and child have them at the same place, each at its time."""
    own = "mov.b64 %d4, n; cvta.param.u64 %d4, %d4; ld.u32 %r0, [%d4];" + "// [n]\n"
    loaded = module(
        child=own + "st.volatile.global.u32 [%d0], %r0;",
        main=own
        + launch("child", FORGET, 9)
        + "again: ld.volatile.global.u32 %r1, [%d0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again;"
        + "mov.b64 %d4, n; cvta.param.u64 %d4, %d4; ld.u32 %r0, [%d4]; st.global.u32 [%d0+4], %r0;",
    )
    out = np.zeros(2, np.uint32)
    loaded["main"](1, 1, (out, 6))

    assert out.tolist() == [9, 6]


def test_a_debugger_does_not_stop_in_them():
    """They run behind the last step, forward and again after a step back."""
    loaded = module(child="atom.global.add.u32 %r1, [%d0], 1;", main=launch("child", block=(40, 1, 1)))
    out = np.zeros(1, np.uint32)
    session = Session(loaded["main"], 1, 1, (out,))
    session.break_at("child")
    assert session.cont().reason == "end"
    steps = len(loaded["main"].function.code)
    session.back(2)
    assert session.cont().reason == "end"

    assert (out[0], session.result.instructions - steps) == (40, 2 * len(loaded["child"].function.code))


def test_proofs_do_not_follow_them():
    """The answer is unknown, at the first call of the device runtime."""
    loaded = module(child="", main=launch("child"))
    proof = warpsim.prove(loaded["main"], 1, 1, (np.zeros(4, np.uint32),))

    assert {answer.verdict.value for answer in proof.answers} == {"unknown"}
    assert "what cudaGetParameterBufferV2 does is not followed" in str(proof)


HERE = Path(__file__).parent
ASKED: dict[int, tuple[str, int, tuple[int, ...]]] = {
    **{
        0: ("shapes", 1, ()),
        1: ("syntax", 1, ()),
        2: ("errors", 32, ()),
        3: ("runtime", 1, ()),
        4: ("attributes", 1, ()),
    },
    **{5: ("copies", 1, ()), 6: ("many", 1, (5000, 0))},
    **{9: ("many", 1, (5000, 3)), 14: ("polls", 1, (0,)), 21: ("many", 1, (2049, 0)), 23: ("polls", 1, (1,))},
    **{29: ("many_here", 1, (1500,)), 31: ("zero_first", 1, ()), 32: ("deeper", 1, (0, 1, 3000))},
}
"""The kernels of the recording's questions, their threads and arguments."""


@pytest.mark.long
@pytest.mark.parametrize("number", ASKED)
def test_what_an_h200_answers(number):
    """What kernels print there, they print here."""
    recorded = (HERE / "device_launches_h200.txt").read_text().split("# ")[1:]
    answers = next(part for part in recorded if part.split()[0] == str(number)).splitlines()[1:]
    host = re.compile("(launch|end) [0-9]|value |bytes |order|poll")
    wanted = [line for line in answers if not host.match(line)]
    loaded = warpsim.load(gzip.decompress((HERE / "device_launches.ptx.gz").read_bytes()).decode())
    name, block, args = ASKED[number]
    (kernel,) = [k for k in loaded.kernels if re.match(f"_Z{len(name)}{name}[^_a-z]*[vi]+$", k)]
    result = loaded[kernel](1, block, args)

    assert sorted(line for line in result.stdout.splitlines() if "poll" not in line) == sorted(wanted)
    assert "not seen" not in result.stdout
