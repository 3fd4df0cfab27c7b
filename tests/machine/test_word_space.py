"""Shared and local memory: words of columns."""

import copy
import pickle

import numpy as np
import pytest

from warpsim.machine.state.word_space import KEPT, WordSpace, in_a_row


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


TYPES = [np.dtype(t) for t in (np.uint8, np.int8, np.uint16, np.float16, np.uint32, np.float32, np.int64, np.float64)]
TYPES.append(np.dtype([("lo", "<u8"), ("hi", "<u8")]))


def columns_of(space):
    """The bytes of each column."""
    return [space.words[:, c].tobytes() for c in range(space.n_columns)]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_elements_are_bytes_of_their_columns(dtype):
    """Elements of every size lie in the bytes of their column, low first; at equal places the last in C order stays."""
    generator, size = np.random.default_rng(dtype.itemsize), dtype.itemsize
    space = WordSpace(61, 3)
    plain = [bytearray(64) for _ in range(3)]
    for _ in range(3):
        address = generator.integers(0, 64 // size, (4, 5)) * size
        columns = generator.integers(0, 3, (4, 5))
        values = generator.integers(0, 256, (4, 5, size), np.uint8).view(dtype)[..., 0]
        space.scatter(address, columns, values)
        for at, column, value in zip(address.reshape(-1), columns.reshape(-1), values.reshape(-1), strict=True):
            plain[column][at : at + size] = value.tobytes()
        assert columns_of(space) == plain
        found = space.gather(address, columns, dtype)
        assert found.dtype == dtype
        for at, column, value in zip(address.reshape(-1), columns.reshape(-1), found.reshape(-1), strict=True):
            assert value.tobytes() == plain[column][at : at + size]
    space.scatter(size, np.arange(3), np.zeros(3, dtype))
    assert all(not any(column[size : 2 * size]) for column in columns_of(space))


@pytest.mark.parametrize(("size", "to", "n_words"), [(16, 16, 4), (16, 17, 10), (16, 100, 50), (0, 4, 2), (8, 9, 6)])
def test_growing(size, to, n_words):
    """A memory that is too small becomes twice what is asked for, with what it held; its shadow grows along."""
    space = WordSpace(size, 2)
    space.shadow = WordSpace(size, 2)
    for one in (space, space.shadow):
        one.words[...] = np.arange(one.words.size).reshape(one.words.shape) + 1
    before = space.words.tolist()
    space.grow(to)

    for one in (space, space.shadow):
        assert (one.size, len(one.words)) == (size if to <= size else 4 * n_words, n_words)
        assert one.words.tolist() == before + [[0, 0]] * (n_words - len(before))
        assert np.shares_memory(one.flat, one.words)


@pytest.mark.parametrize("size", [0, 4, 28, 32, 64])
def test_room_for_lanes_with_faulty_addresses(size):
    """However small a memory is, 32 bytes can be accessed at its address 0, in it and in its shadow; its size is what it was."""
    space = WordSpace(size, 2)
    space.shadow = WordSpace(size, 2)
    space.words[...] = 7
    space.spare()

    for one in (space, space.shadow):
        assert len(one.words) == max(size // 4, 8)
        assert one.size == size
    assert (space.words[: size // 4] == 7).all()
    assert not space.words[size // 4 :].any()


def test_copies():
    """Copies see the same words until one of them writes, by whichever way; shadows are copied along."""
    ways = [
        lambda s: s.scatter(4, np.array([0]), np.array([9], np.uint32)),
        lambda s: s.scatter(np.array([4]), np.array([0]), np.array([9], np.uint64)),
        lambda s: s.move(0, 4, 4, np.array([0])),
        lambda s: s.own(),
        lambda s: s.grow(64),
    ]
    for way in ways:
        space = WordSpace(16, 2)
        space.shadow = WordSpace(16, 2)
        space.words[...] = 5
        first = copy.deepcopy(space)
        second = copy.deepcopy(first)
        assert first.words is second.words is space.words
        assert first.shadow is not space.shadow
        way(first)
        assert first.words is not space.words
        assert second.words is space.words
        assert (space.words == 5).all()
        again = pickle.loads(pickle.dumps(space))
        assert (again.words == 5).all()
        assert again.shadow.size == 16
        again.words[0] = 3
        assert again.flat[0] == 3
        assert (space.words == 5).all()


def test_what_is_remembered():
    """Rows are remembered by what was asked for, of the last accesses only, and not for other words."""
    space = WordSpace(16, 2)
    views = [space.words[:1]]
    assert space.keep("first", views) is views
    for number in range(KEPT - 1):
        space.keep(number, [])
    assert (len(space.views), space.views["first"]) == (KEPT, views)
    space.keep("one more", [])
    assert space.views.keys() == {"one more"}
    space.grow(100)
    assert not space.views
    with pytest.raises(AttributeError):
        space.other  # noqa: B018


def test_sixty_four_bits_at_one_place():
    """They are two words of each column, and a copy: later stores do not change what was read."""
    space = WordSpace(32, 5)
    values = np.arange(3, dtype=np.uint64) << np.uint64(33) | np.uint64(9)
    space.put_doubles(8, in_a_row(np.arange(1, 4)), values)
    found = space.doubles(8, np.array([3, 0, 1]))
    space.put_doubles(8, slice(0, 5), np.zeros(5, np.uint64))

    assert found.tolist() == [(2 << 33) + 9, 0, 9]
    assert not space.words.any()


@pytest.mark.parametrize("columns", [[4], [2, 3, 4], [0, 1]])
def test_columns_in_a_row(columns):
    """Consecutive columns are a slice."""
    assert in_a_row(np.array(columns)) == slice(columns[0], columns[-1] + 1)


@pytest.mark.parametrize("columns", [[], [1, 1], [3, 2], [0, 2, 1, 3], [0, 0, 2], [0, 2]])
def test_columns_with_gaps(columns):
    """Others remain what they are."""
    given = np.array(columns, np.int64)

    assert in_a_row(given) is given
