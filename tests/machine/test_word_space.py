"""Shared and local memory: words of columns."""

import numpy as np
import pytest

from warpsim.machine.state.word_space import WordSpace


@pytest.mark.parametrize("nbytes", [1, 4, 5, 20, 40])
def test_whole_words_are_moved(nbytes):
    """What is moved are the words that hold so many bytes, in the columns that are named."""
    space, columns = WordSpace(128, 3), np.array([0, 2])
    space.words[:10] = np.arange(30).reshape(10, 3) + 1
    space.move(0, 64, nbytes, columns)
    count = -(-nbytes // 4)

    assert (
        space.words[16 : 16 + count, columns].tolist() == (np.arange(30).reshape(10, 3) + 1)[:count, columns].tolist()
    )
    assert not space.words[16 + count :].any()
    assert not space.words[16:, 1].any()
