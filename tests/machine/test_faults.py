"""What always stops a launch: bounds, alignment, read-only memory, hangs and budgets."""

import contextlib

import numpy as np
import pytest

import warpsim
from ptx_text import module_head

HEAD = module_head()


def kernel(body, params=".param .u64 a, .param .u64 b"):
    """A kernel of these instructions."""
    text = (
        HEAD
        + f".visible .entry k({params})\n{{\n.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>; .shared .b32 s[64];\n"
        + body
        + "\nret;\n}\n"
    )
    return warpsim.load(text)["k"]


LOAD = "ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;\n"


def rule_of(body, n=32, size=32, **options):
    """The finding that ends a launch of these instructions."""
    data = np.zeros(size, np.uint32)
    if options.pop("locked", False):
        data.flags.writeable = False
    with pytest.raises(warpsim.ExecutionError) as caught:
        kernel(body)(1, n, (data, data), **options)
    return caught.value.findings[0]


def test_out_of_bounds():
    """A load past the end names the lanes, the allocation and the distance."""
    found = rule_of(LOAD + "ld.global.u32 %r2, [%rd3];", n=64)

    assert (found.rule, found.line, found.warp) == ("out-of-bounds", 8, 1)
    assert found.section == "addresses-as-operands"
    assert found.lanes == tuple(range(32))
    assert "at the end of array" in found.message


def test_in_bounds_is_silent():
    """The nearest correct program runs."""
    data = np.zeros(32, np.uint32)

    assert kernel(LOAD + "ld.global.u32 %r2, [%rd3];")(1, 32, (data, data)).findings == ()


def test_section_is_the_instruction_s_page():
    """A rule without a section of its own stands on the page of its instruction."""
    found = rule_of(LOAD + "st.global.u32 [%rd3], %r1;", locked=True)

    assert found.section == "data-movement-and-conversion-instructions-st"


def test_misaligned():
    """An address that is no multiple of the access size."""
    assert rule_of(LOAD + "ld.global.u32 %r2, [%rd3+2];", n=4).rule == "misaligned"


def test_read_only():
    """A store to a read-only array."""
    assert rule_of(LOAD + "st.global.u32 [%rd3], 1;", locked=True).rule == "read-only"


def test_shared_bounds():
    """Shared memory ends where its variables end."""
    assert (
        rule_of(
            "mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 4; mov.u32 %r2, s; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], 1;"
        ).rule
        == "out-of-bounds"
    )


def test_deadlock():
    """A thread that polls memory which nobody writes."""
    assert (
        rule_of(LOAD + "again: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra again;").rule
        == "deadlock"
    )


@pytest.mark.parametrize("grid", [1, 4])
@pytest.mark.parametrize(
    "waits",
    [
        "and.b32 %r1, %r1, 31; setp.lt.u32 %p1, %r1, 16;\n@%p1 bar.warp.sync -1;",
        "setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 0;",
    ],
)
def test_what_the_others_wait_for_is_named(grid, waits):
    """Half of each warp, or the first warp, waits for the others, which poll memory that nobody writes: the loop is named, not
    the collective or the barrier.
    """
    body = LOAD + (
        f"{waits} @%p1 bra done;\n"
        "again: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra again;\ndone:"
    )
    data = np.zeros(64, np.uint32)
    with pytest.raises(warpsim.ExecutionError) as caught:
        kernel(body)(grid, 64, (data, data))

    assert [(f.rule, f.line) for f in caught.value.findings[:1]] == [("deadlock", 10)]


@pytest.mark.parametrize(
    ("mask", "after", "rules"),
    [("0xffffffff", "barrier.sync 0;", ["membermask"]), ("0xffffffff", "", []), ("0xaaaaaaaa", "barrier.sync 0;", [])],
)
def test_lanes_that_skip_a_collective(mask, after, rules):
    """Even lanes skip it before the last odd lanes come: wrong only if the mask names them and they do not exit."""
    body = LOAD + (
        "and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0; and.b32 %r2, %r1, 9; setp.eq.u32 %p2, %r2, 1; @%p2 bra late;\n"
        f"met: @%p1 bar.warp.sync {mask}; {after} ret;\nlate: add.u32 %r2, %r2, 1; bra met;"
    )
    data = np.zeros(32, np.uint32)
    with pytest.raises(warpsim.ExecutionError) if rules else contextlib.nullcontext() as caught:
        kernel(body)(1, 32, (data, data), on_finding="collect")
    findings = caught.value.findings if caught else ()

    assert [(f.rule, f.line, f.lanes) for f in findings] == [(rule, 9, tuple(range(1, 32, 2))) for rule in rules]


def test_a_loop_without_exit_lets_others_run():
    """What another warp does wrong is named rather than the endless loop of the first."""
    body = LOAD + (
        "setp.ge.u32 %p1, %r1, 32; @%p1 bra other;\nagain: ld.volatile.global.u32 %r2, [%rd1]; add.u32 %r3, %r3, %r2; bra again;\n"
        "other: st.global.u32 [%rd3+4096], %r1;"
    )

    assert rule_of(body, n=64).rule == "out-of-bounds"


def test_barrier_divergence():
    """Half of a CTA waits at another barrier than the rest."""
    body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra low; barrier.sync 1; bra.uni done; low: barrier.sync 2; done:"

    assert rule_of(body, n=64).rule == "barrier-divergence"


def test_early_exit_is_not_waited_for():
    """Threads that have exited do not hold up a barrier."""
    data = np.zeros(64, np.uint32)
    kernel("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra done; bar.sync 0; done:")(1, 64, (data, data))


def test_limit():
    """The instruction budget ends a loop of too many laps."""
    body = "mov.u32 %r1, 0; again: add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra again;"

    assert rule_of(body, max_instructions=10000).rule == "limit"


@pytest.mark.parametrize(
    ("faulty", "correct"),
    [
        ("ld.global.u32 %r2, [%rd5];", "ld.param.u64 %rd5, [a]; ld.global.u32 %r2, [%rd5];"),
        ("@%p2 bra done; st.global.u32 [%rd3], 1; done:", "setp.eq.u32 %p2, 0, 0; @%p2 bra done; done:"),
        (LOAD + "st.global.u32 [%rd3], %r7;", LOAD + "mov.u32 %r7, 1; st.global.u32 [%rd3], %r7;"),
    ],
)
def test_uninitialised_register(faulty, correct):
    """A register that nothing wrote is reported where it matters: address, branch, store."""
    data = np.zeros(32, np.uint32)

    assert rule_of(faulty).rule == "uninitialised"
    assert kernel(correct)(1, 32, (data, data)).findings == ()


def test_membermask_names_lanes_that_never_come():
    """Half a warp waits in a shuffle for lanes that wait at a barrier."""
    body = (
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @%p1 bra low; barrier.sync 0; bra.uni done; "
        "low: shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; barrier.sync 0; done:"
    )

    assert rule_of(body).rule == "membermask"


def test_aligned_divergence():
    """A matrix move in one half of a warp while the other half waits elsewhere."""
    body = (
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 16; @%p1 bra low; barrier.sync 0; bra.uni done; "
        "low: movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; barrier.sync 0; done:"
    )

    assert rule_of(body).rule == "aligned-divergence"


def test_diverged_lanes_meet_at_a_shuffle():
    """Lanes that come by different ways execute the shuffle together."""
    body = LOAD + (
        "setp.lt.u32 %p1, %r1, 16; mov.u32 %r3, 5; @%p1 bra low; add.u32 %r3, %r3, 2; "
        "low: shfl.sync.bfly.b32 %r2, %r3, 16, 31, -1; st.global.u32 [%rd3], %r2;"
    )
    data = np.zeros(32, np.uint32)
    kernel(body)(1, 32, (data, data))

    assert data.tolist() == [7] * 16 + [5] * 16


@pytest.mark.parametrize("trap", ["trap;", "brkpt;"])
def test_traps(trap):
    """A trap ends the launch for the lanes that come to it; one whose guard holds nowhere is passed."""
    guarded = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, {}; @%p1 " + trap
    with pytest.raises(warpsim.ExecutionError) as caught:
        kernel(guarded.format(30), "")(1, 32, ())
    assert [(f.rule, f.lanes) for f in caught.value.findings] == [("trap", (30, 31))]
    with pytest.raises(warpsim.ExecutionError) as caught:
        kernel(trap, "")(1, 32, ())
    assert [(f.rule, f.lanes) for f in caught.value.findings] == [("trap", tuple(range(32)))]

    assert kernel(guarded.format(32), "")(1, 32, ()).findings == ()
