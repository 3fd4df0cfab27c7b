"""Barriers of the CTA that a part of a warp's lanes reaches (PTX ISA: bar, barrier): .aligned ones want whole warps."""

import pytest

import warpsim
from ptx_text import module_head

HEAD = module_head() + ".visible .entry k()\n{\n.reg .b32 %t, %x; .reg .pred %p, %q;\n"
HALVES = "mov.u32 %t, %tid.x; and.b32 %x, %t, 31; setp.lt.u32 %p, %x, 16;\n"


def kernel(body):
    """A kernel whose instructions start in line 7."""
    return warpsim.load(HEAD + body + "ret;\n}\n")["k"]


APART = "@%p bra A;\n{0} 0;\nbra E;\nA:\n{0} 0;\nE:\n"


@pytest.mark.parametrize("barrier", ["bar.sync", "barrier.sync.aligned", "bar.cta.sync"])
def test_halves_of_a_warp_at_two_barriers(barrier):
    """The counts add up, and still every lane of the warp must come to the same barrier."""
    with pytest.raises(warpsim.ExecutionError) as caught:
        kernel(HALVES + APART.format(barrier))(2, 64, ())
    (found,) = caught.value.findings

    assert (found.rule, found.line, found.other.line) == ("aligned-divergence", 9, 12)
    assert found.lanes == tuple(range(16, 32))


def test_collected_findings_let_the_kernel_end():
    """Both places are named, once each, and the threads go on."""
    result = kernel(HALVES + APART.format("bar.sync"))(2, 64, (), on_finding="collect")

    assert [(f.rule, f.line) for f in result.findings] == [("aligned-divergence", 9), ("aligned-divergence", 12)]


def test_a_guard_that_differs_within_the_warp():
    """Lanes whose guard is false go on to the next barrier."""
    with pytest.raises(warpsim.ExecutionError) as caught:
        kernel(HALVES + "@%p bar.sync 0;\nbar.sync 0;\n")(1, 32, ())

    assert caught.value.findings[0].rule == "aligned-divergence"


@pytest.mark.parametrize(
    ("body", "threads"),
    [
        (HALVES + APART.format("barrier.sync"), 64),  # without .aligned, threads count one by one
        (HALVES + "@%p bra E;\nbar.sync 0;\nE:\n", 64),  # lanes that have exited are not waited for
        ("mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 32;\n" + APART.format("bar.sync"), 64),  # whole warps
        (HALVES + "@%p bra A;\nadd.u32 %x, %x, 1;\nA:\nbar.sync 0;\n", 64),  # they meet at one barrier
        (HALVES + "bar.sync 0;\n", 40),  # a warp that the CTA does not fill
    ],
)
def test_correct_programs_are_silent(body, threads):
    """The nearest correct programs."""
    assert kernel(body)(2, threads, ()).findings == ()


def test_unchecked_threads_count_one_by_one():
    """Without the check a launch goes on as the hardware's counter does."""
    assert kernel(HALVES + APART.format("bar.sync"))(2, 64, (), checks="none").findings == ()
