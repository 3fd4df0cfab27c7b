"""The word of an mbarrier: arrivals, bytes, phases."""

from __future__ import annotations

import numpy as np

from warpsim.layout import mbarriers


def test_phase_turns_when_all_have_arrived() -> None:
    """The last arrival ends the phase and renews the count."""
    word = mbarriers.initial(np.array([3]))
    state = word
    word = mbarriers.arrive(word, np.array([2]))
    assert mbarriers.pending(word)[0] == 1
    assert not mbarriers.has_passed(word, state)[0]
    word = mbarriers.arrive(word, np.array([1]))
    assert mbarriers.has_passed(word, state)[0]
    assert mbarriers.pending(word)[0] == 3
    assert mbarriers.has_passed_parity(word, np.array([0]))[0]


def test_bytes_hold_the_phase() -> None:
    """Arrivals alone do not end a phase that expects bytes, in either order."""
    word = mbarriers.arrive(mbarriers.expect(mbarriers.initial(np.array([1])), np.array([64])), 1)
    assert mbarriers.phase(word)[0] == 0
    assert mbarriers.phase(mbarriers.complete_bytes(word, np.array([64])))[0] == 1
    early = mbarriers.complete_bytes(mbarriers.initial(np.array([1])), np.array([64]))
    assert mbarriers.phase(mbarriers.arrive(mbarriers.expect(early, np.array([64])), 1))[0] == 1


def test_drop_lowers_later_phases() -> None:
    """A thread that drops out is not expected again."""
    word = mbarriers.arrive(mbarriers.initial(np.array([2])), 1, drop=True)
    assert mbarriers.pending(mbarriers.arrive(word, 1))[0] == 1


def test_the_ends_of_the_count_of_bytes() -> None:
    """From -(2^20 - 1) to 2^20 - 1 (PTX ISA, contents of the mbarrier object)."""
    word = mbarriers.initial(np.array([5], np.uint32))
    for count in (1, 2, (1 << 20) - 2, (1 << 20) - 1):
        assert mbarriers.tx_count(mbarriers.expect(word, np.array([count]))).tolist() == [count]
        assert mbarriers.tx_count(mbarriers.complete_bytes(word, np.array([count]))).tolist() == [-count]
    assert mbarriers.MAX_TX == (1 << 20) - 1
